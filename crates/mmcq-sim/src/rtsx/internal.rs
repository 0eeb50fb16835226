//! Internal registers of the card reader (14-bit address, 8 bits each), and the effects of writes.

use super::Rtsx;
use super::bits::{card, clk, dma, pads, phy, sd};
use super::config::RtsxConfig;
use super::pads::as_linux_left_it;

const BYTES: usize = 0x4000;

/// Returns the 14 address bits of `name`, by which the driver's source names a register.
pub(super) const fn short(name: u16) -> u16 {
    name & 0x3fff
}

/// Stored values of the internal registers (bytes), and of the registers of the PCI Express link
/// (16 bits). Levels and states are computed when the driver reads them.
pub(super) struct Registers(Box<[u8; BYTES]>, Box<[u16; 256]>);

impl Registers {
    /// Makes the registers of a chip in the state in which Linux's driver leaves it.
    pub fn new(config: &RtsxConfig) -> Self {
        let mut registers = Registers(Box::new([0; BYTES]), Box::new([0; 256]));
        let left = as_linux_left_it(config.device);
        left.registers.into_iter().for_each(|(at, value)| registers.put(at, value));
        left.link.into_iter().for_each(|(at, value)| registers.1[at] = value);
        registers.put(pads::VERSION, config.version);
        registers.put(clk::CLK_DIV, 0x10);
        registers.put(sd::CFG3, sd::RESPONSE_TIMEOUT);
        registers.put(sd::TRANSFER, sd::END | sd::IDLE);
        registers
    }

    /// Returns the value of the register `address` of the PCI Express link (PHY).
    pub fn link(&self, address: usize) -> u16 {
        self.1[address]
    }

    /// Returns the value of a register, given its name or its 14-bit address.
    pub fn at(&self, name: u16) -> u8 {
        self.0[usize::from(short(name))]
    }

    pub fn put(&mut self, name: u16, value: u8) {
        self.0[usize::from(short(name))] = value;
    }

    /// Returns the 16-bit value of the registers `name` (lower byte) and `name` + 1.
    pub fn pair(&self, name: u16) -> u16 {
        u16::from_le_bytes([self.at(name), self.at(name + 1)])
    }

    /// Returns the 32-bit value of four registers; `name` is the address of the first, which holds
    /// the lowest byte.
    pub fn word(&self, name: u16) -> u32 {
        u32::from(self.pair(name)) | u32::from(self.pair(name + 2)) << 16
    }

    /// Executes an access to a register of the PCI Express link, after a write of `control` to its
    /// control register. The link itself is not modelled: a register reads as the value that was
    /// last written.
    fn access_link(&mut self, control: u8) {
        let address = usize::from(self.at(phy::ADDRESS));
        if control & phy::WRITE != 0 {
            self.1[address] = self.pair(phy::DATA);
        } else {
            let [low, high] = self.1[address].to_le_bytes();
            self.put(phy::DATA, low);
            self.put(phy::DATA + 1, high);
        }
    }

    /// Returns the first `bytes` bytes of ping-pong buffer 2, which holds a single block of a
    /// transfer.
    pub fn ping_pong(&mut self, bytes: usize) -> &mut [u8] {
        let at = usize::from(short(sd::PING_PONG));
        &mut self.0[at..at + bytes.min(sd::PING_PONG_BYTES)]
    }
}

impl Rtsx {
    /// Reads an internal register.
    pub(super) fn get(&mut self, register: u16, now: u64) -> u8 {
        let idle = if self.sd.running() { 0 } else { 0x80 };
        match register | 0xc000 {
            sd::BUS_STAT => {
                let switches = self.regs.at(sd::BUS_STAT) & (sd::TOGGLE | sd::FORCE_STOP);
                self.sample_lines(now);
                switches | self.sd.lines
            }
            sd::CMD_STATE | sd::DATA_STATE => idle,
            dma::CTL => self.dma_control(),
            _ => self.regs.at(register),
        }
    }

    /// Writes those bits of an internal register that `mask` selects.
    pub(super) fn set(&mut self, register: u16, mask: u8, data: u8, now: u64) {
        let name = register | 0xc000;
        let old = self.regs.at(register);
        let new = old & !mask | data & mask;
        let set = data & mask;
        match name {
            // Read-only registers.
            sd::STAT1 | sd::STAT2 | sd::CMD_STATE | sd::DATA_STATE => {}
            sd::TRANSFER => self.set_transfer(new, set & sd::START != 0, now),
            sd::BUS_STAT => {
                // BUS_STAT continues to show the levels that were sampled when the clock last ran.
                self.sample_lines(now);
                self.regs.put(name, new & (sd::TOGGLE | sd::FORCE_STOP));
                self.refresh_bus(now);
            }
            sd::CFG1 => {
                if new & 0xc0 == 0x40 || new & 0x0c == 0x0c || new & 3 == 3 {
                    self.slot.violation();
                }
                self.regs.put(name, new);
                self.refresh_bus(now);
            }
            sd::PAD_CTL | pads::LDO => {
                self.regs.put(name, new);
                self.set_signal(self.is_low_voltage(), now);
            }
            _ if pads::DRIVE.contains(&name) => {
                self.regs.put(name, new);
                self.refresh_bus(now);
            }
            card::STOP => self.card_stop(set, now),
            card::PWR_CTL => self.set_power(old, new, now),
            clk::CLK_CTL | card::CLK_EN => {
                self.regs.put(name, new);
                if new != old {
                    self.clock_gate_changed(now);
                }
            }
            clk::CLK_DIV | clk::SSC_CTL1 | clk::VPTX | clk::VPRX => {
                self.regs.put(name, new);
                if new != old {
                    self.clock_changed(name, old, new, now);
                }
            }
            phy::CTL => {
                // The access ends at once.
                if set & phy::START != 0 {
                    self.regs.access_link(new);
                }
                self.regs.put(name, new & !phy::START);
                self.set_signal(self.is_low_voltage(), now);
            }
            dma::IRQSTAT0 => self.regs.put(name, old & !set),
            dma::CTL => self.set_dma_control(mask, data, now),
            dma::RBCTL => {
                self.regs.put(name, new & !dma::FLUSH);
                if set & dma::FLUSH != 0 {
                    self.flush_ring();
                }
            }
            _ => self.regs.put(name, new),
        }
    }

    /// Handles a write of the bits `set` to CARD_STOP: the bits that end the transfer and clear its
    /// errors take effect at once, and clear themselves.
    fn card_stop(&mut self, set: u8, now: u64) {
        if set & card::SD_STOP != 0 {
            self.stop_transfer(now);
        }
        if set & card::SD_CLR_ERR != 0 {
            let transfer = self.regs.at(sd::TRANSFER);
            self.regs.put(sd::TRANSFER, transfer & !sd::ERR);
            self.regs.put(sd::STAT1, 0);
            self.regs.put(sd::STAT2, 0);
        }
    }
}

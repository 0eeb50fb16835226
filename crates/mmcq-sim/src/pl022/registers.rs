//! Registers of the PL022: results of reads and effects of writes [PL022 TRM 3].

use super::{Pl022, WORDS};
use crate::slot::Core;
use crate::wire::Beat;

/// Register offsets.
mod reg {
    pub const CR0: u16 = 0x000;
    pub const CR1: u16 = 0x004;
    pub const DR: u16 = 0x008;
    pub const SR: u16 = 0x00c;
    pub const CPSR: u16 = 0x010;
    pub const IMSC: u16 = 0x014;
    pub const RIS: u16 = 0x018;
    pub const MIS: u16 = 0x01c;
    pub const ICR: u16 = 0x020;
    pub const DMACR: u16 = 0x024;
    pub const IDS: u16 = 0xfe0;
    pub const LAST_ID: u16 = 0xffc;
    pub const GPIO_DATA: u16 = 0x1000;
    pub const GPIO_DATA_END: u16 = 0x13fc;
    pub const GPIO_DIR: u16 = 0x1400;
    pub const GPIO_DEN: u16 = 0x151c;
}

/// Values of the identification registers PeriphID0 to 3 and PCellID0 to 3.
const IDS: [u32; 8] = [0x22, 0x10, 0x24, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Interrupt bits in the mask (IMSC), raw status (RIS) and masked status (MIS) registers. The clear
/// register (ICR) has only the bits `OVERRUN` and `TIMEOUT`.
pub(super) mod irq {
    pub const OVERRUN: u32 = 1 << 0;
    pub const TIMEOUT: u32 = 1 << 1;
    pub const RECEIVE: u32 = 1 << 2;
    pub const SEND: u32 = 1 << 3;
}

/// Values of the registers, and interrupt bits that stay set.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    control: u32,
    control1: u32,
    divisor: u32,
    dma: u32,
    gpio_data: u32,
    gpio_output: u32,
    gpio_digital: u32,
    pub mask: u32,
    pub latched: u32,
}

impl Registers {
    pub fn enabled(&self) -> bool {
        self.control1 & 1 << 1 != 0
    }

    pub fn loops_back(&self) -> bool {
        self.control1 & 1 != 0
    }

    /// Returns the number of clocks in a frame (field DSS).
    pub fn frame_clk(&self) -> u64 {
        u64::from((self.control & 0xf) + 1).max(4)
    }

    /// Returns the number of clocks between two frames: one if the bit SPH is 0 (the frame signal
    /// goes up in that clock), otherwise none.
    pub fn gap_clk(&self) -> u64 {
        u64::from(self.control & 1 << 7 == 0)
    }

    /// Returns whether the controller's settings are such that the card understands the frames:
    /// master, mode 0 or 3 of Motorola's format, frames of whole bytes.
    pub fn is_spoken(&self) -> bool {
        let motorola = self.control >> 4 & 3 == 0;
        let mode = self.control >> 6 & 3;
        let master = self.control1 & 1 << 2 == 0;
        motorola && master && matches!(mode, 0 | 3) && matches!(self.frame_clk(), 8 | 16)
    }

    /// Returns the divisor from SSPCLK to the bus clock. The lowest bit of the prescale register
    /// (CPSR) reads as zero.
    fn division(&self) -> u32 {
        (self.divisor & 0xfe).max(2) * (1 + (self.control >> 8 & 0xff))
    }

    /// Returns whether the chip select pin is low.
    fn selects(&self) -> bool {
        self.gpio_output & self.gpio_digital & !self.gpio_data & 1 != 0
    }
}

impl Pl022 {
    /// Reads a register; only 4-byte accesses are possible.
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        let now_ns = self.reach(now_ns);
        if self.slot().is_gone() {
            return u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)));
        }
        if !self.is_word(offset, size) {
            self.slot_mut().violation();
            return 0;
        }
        if offset == reg::DR {
            let Some(word) = self.received.pop_front() else {
                self.slot_mut().violation();
                return 0;
            };
            self.watch_received(now_ns);
            self.look(now_ns);
            return word.into();
        }
        let r = &self.regs;
        match offset {
            reg::CR0 => r.control,
            reg::CR1 => r.control1,
            reg::SR => self.status(),
            reg::CPSR => r.divisor,
            reg::IMSC => r.mask,
            reg::RIS => self.events(),
            reg::MIS => self.events() & r.mask,
            reg::DMACR => r.dma,
            reg::IDS..=reg::LAST_ID => IDS[usize::from(offset - reg::IDS) / 4],
            reg::GPIO_DATA..=reg::GPIO_DATA_END => r.gpio_data & u32::from(offset - reg::GPIO_DATA) >> 2,
            reg::GPIO_DIR => r.gpio_output,
            reg::GPIO_DEN => r.gpio_digital,
            _ => 0,
        }
    }

    /// Writes a register; only 4-byte accesses are possible.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        if self.slot().is_gone() {
            return;
        }
        if !self.is_word(offset, size) {
            return self.slot_mut().violation();
        }
        match offset {
            reg::CR0 => {
                self.regs.control = value & 0xffff;
                self.format_changed(now_ns);
            }
            reg::CR1 => {
                self.regs.control1 = value & 0xf;
                self.begin_frame(Beat::new(now_ns, self.bus.clock_hz()));
            }
            reg::DR if self.send.len() < WORDS => {
                self.send.push_back(value as u16);
                self.begin_frame(Beat::new(now_ns, self.bus.clock_hz()));
            }
            reg::DR => self.slot_mut().violation(),
            reg::CPSR => {
                self.regs.divisor = value & 0xfe;
                self.format_changed(now_ns);
            }
            reg::IMSC => self.regs.mask = value & 0xf,
            reg::ICR => self.regs.latched &= !(value & (irq::OVERRUN | irq::TIMEOUT)),
            reg::DMACR => self.regs.dma = value & 3,
            reg::GPIO_DATA..=reg::GPIO_DATA_END => {
                let pins = u32::from(offset - reg::GPIO_DATA) >> 2;
                self.regs.gpio_data = self.regs.gpio_data & !pins | value & pins;
                self.pin_changed(now_ns);
            }
            reg::GPIO_DIR => {
                self.regs.gpio_output = value & 0xff;
                self.pin_changed(now_ns);
            }
            reg::GPIO_DEN => {
                self.regs.gpio_digital = value & 0xff;
                self.pin_changed(now_ns);
            }
            _ => {}
        }
        self.look(now_ns);
    }

    fn is_word(&self, offset: u16, size: u8) -> bool {
        let known = matches!(offset, reg::CR0..=reg::DMACR | reg::IDS..=reg::LAST_ID)
            || matches!(offset, reg::GPIO_DATA..=reg::GPIO_DIR | reg::GPIO_DEN);
        size == 4 && offset.is_multiple_of(4) && known
    }

    /// Returns the value of the status register SR (TFE, TNF, RNE, RFF, BSY).
    fn status(&self) -> u32 {
        u32::from(self.send.is_empty())
            | u32::from(self.send.len() < WORDS) << 1
            | u32::from(!self.received.is_empty()) << 2
            | u32::from(self.received.len() == WORDS) << 3
            | u32::from(self.is_busy()) << 4
    }

    fn format_changed(&mut self, now_ns: u64) {
        if self.is_busy() {
            self.slot_mut().violation();
        }
        let hz = self.clock_hz / self.regs.division();
        self.bus.use_clock(hz, now_ns);
    }

    fn pin_changed(&mut self, now_ns: u64) {
        let low = self.regs.selects();
        if low != self.bus.is_selected() {
            if self.is_busy() {
                self.slot_mut().violation();
            }
            self.bus.drive_select(low, now_ns);
        }
    }
}

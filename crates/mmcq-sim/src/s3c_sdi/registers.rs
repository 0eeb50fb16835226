//! Registers of the SDI: results of reads and effects of writes.

use super::bits::{cmd_con, cmd_sta, con, dcon, dsta, event, fsta, reg};
use super::{S3cSdi, Timer};
use crate::card::BusState;
use crate::probe::Signal;
use crate::slot::Core;

/// Mask of the bits in the timer register.
const TIMER_BITS: u32 = 0x7f_ffff;

/// Values of the registers that the model stores. Other registers are computed when the driver
/// reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub con: u32,
    pub prescaler: u32,
    pub argument: u32,
    pub cmd_con: u32,
    /// Value that the command status register (CMDSTA) reads as.
    pub cmd_status: u32,
    pub response: [u32; 4],
    pub timer: u32,
    pub block_bytes: u32,
    /// Value of the data control register (DCON) without its start bit.
    pub dcon: u32,
    /// Bits of the data status register (DSTA) that stay set until the driver clears them.
    pub data_status: u32,
    pub fifo_failed: bool,
    pub mask: u32,
}

/// Returns whether a register exists at this offset.
fn known(offset: u16) -> bool {
    offset <= reg::DATA || matches!(offset, reg::GPIO | reg::DMA_ADDRESS | reg::DMA_LENGTH | reg::DMA_START)
}

impl S3cSdi {
    /// Reads a register; only 4-byte accesses are possible.
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        let now = self.reach(now_ns);
        if self.slot.is_gone() {
            return u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)));
        }
        if size != 4 || !offset.is_multiple_of(4) || !known(offset) {
            self.slot.violation();
            return u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)));
        }
        if offset == reg::DATA {
            return self.take_word(now);
        }
        self.word(offset, now)
    }

    /// Writes `value` to the register at `offset`. `size` is the number of bytes, and must be 4.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() {
            return;
        }
        if size != 4 || !offset.is_multiple_of(4) || !known(offset) {
            return self.slot.violation();
        }
        self.set_word(offset, value, now);
        self.look(now);
    }

    fn word(&self, offset: u16, now: u64) -> u32 {
        let r = &self.regs;
        match offset {
            reg::CON => r.con,
            reg::PRE => r.prescaler,
            reg::CMD_ARG => r.argument,
            reg::CMD_CON => r.cmd_con,
            reg::CMD_STA => r.cmd_status,
            reg::RSP0..=reg::RSP3 => r.response[usize::from(offset - reg::RSP0) / 4],
            reg::TIMER => r.timer,
            reg::BSIZE => r.block_bytes,
            reg::DCON => r.dcon,
            reg::DCNT => self.data_count(),
            reg::DSTA => r.data_status | self.dat.on_bits(),
            reg::FSTA => self.fifo_status(),
            reg::IMSK => r.mask,
            reg::GPIO => u32::from(!self.dat1_low(now)),
            reg::DMA_ADDRESS if self.config.dma => self.dma.address,
            reg::DMA_LENGTH if self.config.dma => self.dma.length,
            reg::DMA_START => self.dma.running.into(),
            _ => 0,
        }
    }

    fn set_word(&mut self, offset: u16, value: u32, now: u64) {
        match offset {
            reg::CON => self.set_control(value, now),
            reg::PRE => {
                self.regs.prescaler = value & 0xff;
                self.refresh_bus(now);
            }
            reg::CMD_ARG => self.regs.argument = value,
            reg::CMD_CON => {
                self.regs.cmd_con = value & 0x1eff;
                if value & cmd_con::START != 0 {
                    self.issue(now);
                }
            }
            reg::CMD_STA => self.regs.cmd_status &= !(value & cmd_sta::LATCHED),
            reg::TIMER => self.regs.timer = value & TIMER_BITS,
            reg::BSIZE => self.regs.block_bytes = value & 0xfff,
            reg::DCON => self.set_data_control(value, now),
            reg::DSTA => self.regs.data_status &= !(value & dsta::LATCHED),
            reg::FSTA => {
                if value & fsta::FAIL_BITS != 0 {
                    self.regs.fifo_failed = false;
                }
                if value & fsta::RESET != 0 {
                    self.fifo.clear();
                    self.fifo_moved(now);
                }
            }
            reg::IMSK => self.regs.mask = value & event::ALL,
            reg::DATA => self.give_word(value, now),
            reg::DMA_ADDRESS => self.dma.address = value,
            reg::DMA_LENGTH => self.dma.length = value,
            reg::DMA_START => self.dma_start(value, now),
            // Response registers, DCNT and the GPIO are read-only.
            _ => self.slot.violation(),
        }
    }

    fn set_control(&mut self, value: u32, now: u64) {
        self.regs.con = value & con::KEPT;
        if value & con::RESET != 0 {
            // A reset ends everything under way; settings stay.
            self.reset_command();
            self.stop_data(now);
            self.fifo.clear();
            self.dat.last = false;
            self.regs.dcon = 0;
            self.regs.data_status = 0;
            self.regs.fifo_failed = false;
            self.regs.response = [0; 4];
        }
        self.refresh_bus(now);
        self.command_may_go(now);
    }

    /// Returns the value of the data count register (DCNT): the numbers of blocks and of bytes that
    /// are still to be transferred.
    fn data_count(&self) -> u32 {
        if !self.dat.active() {
            return 0;
        }
        let block = self.regs.block_bytes & 0xfff;
        let rest = block.saturating_sub(self.dat.block.at as u32);
        self.dat.left << 12 | rest
    }

    fn fifo_status(&self) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let writing = self.writing();
        self.fifo.bytes() as u32 & fsta::COUNT
            | bit(self.rx_half(), fsta::RX_HALF)
            | bit(!writing && self.fifo.is_full(), fsta::RX_FULL)
            | bit(self.rx_last(), fsta::RX_LAST)
            | bit(writing && self.fifo.is_empty(), fsta::TX_EMPTY)
            | bit(writing && self.fifo.half_empty(), fsta::TX_HALF)
            | bit(!writing && !self.fifo.is_empty(), fsta::RX_DETECT)
            | bit(writing && !self.fifo.is_full(), fsta::TX_DETECT)
            | bit(self.regs.fifo_failed, fsta::FAIL)
    }

    /// Returns whether a write to the card is armed (DCON was written) or under way.
    fn writing(&self) -> bool {
        self.dat.active() && !self.dat.block.read
    }

    fn rx_half(&self) -> bool {
        !self.writing() && self.fifo.half_full()
    }

    fn rx_last(&self) -> bool {
        self.dat.last && !self.fifo.is_empty()
    }

    /// Returns the interrupt events and states of the FIFO, with the bit numbers of IMSK.
    pub(super) fn events(&self) -> u32 {
        let r = &self.regs;
        let pairs = [
            (r.cmd_status & cmd_sta::CRC != 0, event::RESPONSE_CRC),
            (r.cmd_status & cmd_sta::SENT != 0, event::SENT),
            (r.cmd_status & cmd_sta::TIMEOUT != 0, event::TIMEOUT),
            (r.cmd_status & cmd_sta::RESPONSE != 0, event::RESPONSE),
            (r.data_status & dsta::SDIO_IRQ != 0, event::SDIO_IRQ),
            (r.fifo_failed, event::FIFO_FAIL),
            (r.data_status & dsta::CRC_STATUS != 0, event::CRC_STATUS),
            (r.data_status & dsta::DATA_CRC != 0, event::DATA_CRC),
            (r.data_status & dsta::TIMEOUT != 0, event::DATA_TIMEOUT),
            (r.data_status & dsta::FINISH != 0, event::FINISH),
            // This event depends only on the fill level: it is present even if no write is armed.
            (self.fifo.half_empty(), event::TX_HALF),
            (self.rx_last(), event::RX_LAST),
            (self.rx_half(), event::RX_HALF),
        ];
        pairs.iter().filter(|(on, _)| *on).fold(0, |all, (_, bit)| all | bit)
    }

    /// Takes a word from the FIFO, for a read of the data register.
    fn take_word(&mut self, now: u64) -> u32 {
        let word = if self.writing() { None } else { self.fifo.pop() };
        let Some((word, _)) = word else {
            self.regs.fifo_failed = true;
            self.slot.violation();
            self.look(now);
            return 0;
        };
        self.fifo_moved(now);
        self.look(now);
        u32::from_le_bytes(word)
    }

    /// Puts a word into the FIFO, for a write of the data register.
    fn give_word(&mut self, value: u32, now: u64) {
        if !self.writing() || !self.fifo.push(&value.to_le_bytes()) {
            self.regs.fifo_failed = true;
            return self.slot.violation();
        }
        self.fifo_moved(now);
    }

    /// Returns the clock in Hz that the prescaler gives.
    fn clock_hz(&self) -> u32 {
        if self.regs.con & con::CLOCK == 0 { 0 } else { self.config.pclk_hz / (self.regs.prescaler + 1) }
    }

    /// Informs the card about the bus: the board's supply, and clock and width as the registers set
    /// them.
    pub(super) fn refresh_bus(&mut self, now: u64) {
        // The width belongs to a data transfer; between transfers the bus keeps its width.
        let width = match self.dat.state {
            super::data::State::Armed if self.regs.dcon & dcon::WIDE != 0 => 4,
            super::data::State::Armed => 1,
            _ => self.slot.bus.width,
        };
        let bus = BusState { powered: self.supply, clock_hz: self.clock_hz(), width, ..self.slot.bus };
        if bus == self.slot.bus {
            return;
        }
        if (self.cmd.sending() || self.dat.moving()) && bus.clock_hz != self.slot.bus.clock_hz {
            // A change of the clock damages bits that are on the lines.
            self.slot.violation();
            if bus.clock_hz == 0 {
                for timer in [Timer::Command, Timer::Data, Timer::DataTimeout] {
                    self.set_timer(timer, super::NEVER);
                }
            }
        }
        self.slot.bus = bus;
        self.slot.show(&Signal::Bus { at_ns: now, bus, low: false });
        self.slot.with_card(now, |card, now| card.bus_changed(&bus, now));
    }
}

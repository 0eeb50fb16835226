//! Registers of a mobile storage host: results of reads and effects of writes.

use super::bits::{ctrl, dma, int, mode, status};
use super::map::{KEPT, Reg};
use super::{Mshc, MshcConfig, NEVER, Timer};
use crate::faults::{Point, Strike};
use crate::slot::Core;
use crate::wire::Beat;

/// Number of clocks that a reset takes.
const RESET_CLK: u64 = 2;

/// Values of the registers that the model stores. Other registers are computed when the driver
/// reads them.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub control: u32,
    pub power: u32,
    pub divider: u32,
    pub source: u32,
    /// Clock enable bits, stored as in SMHC's layout.
    pub enable: u32,
    pub timeout: u32,
    pub width: u32,
    pub block_size: u32,
    pub byte_count: u32,
    pub command: u32,
    pub argument: u32,
    pub response: [u32; 4],
    pub response_index: u32,
    pub mask: u32,
    pub raw: u32,
    pub threshold: u32,
    pub line_bytes: u32,
    pub fifo_bytes: u32,
    pub uhs: u32,
    pub timing: u32,
    pub sample_delay: u32,
    pub read_room: u32,
    pub card_reset: u32,
    pub auto_argument: u32,
    kept: [u32; KEPT],
}

impl Registers {
    /// Makes the registers with their values after power-on.
    pub fn new(config: &MshcConfig) -> Self {
        Registers {
            timeout: 0xffff_ff40,
            block_size: 0x200,
            byte_count: 0x200,
            threshold: u32::from(config.fifo_words - 1) << 16,
            card_reset: 1,
            ..Registers::default()
        }
    }
}

fn ones(size: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(size.clamp(1, 4)))
}

impl Mshc {
    /// Reads a register; only 4-byte accesses are possible.
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        let now = self.reach(now_ns);
        if self.slot.is_gone() || !self.config.bus_clock {
            return ones(size);
        }
        if size != 4 {
            self.slot.violation();
            return ones(size);
        }
        match self.config.at(offset) {
            Some(Reg::Fifo) => self.take_word(now),
            Some(reg) => self.word(reg, now),
            None => {
                self.slot.violation();
                0
            }
        }
    }

    /// Writes a register; only 4-byte accesses are possible.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() || !self.config.bus_clock {
            return;
        }
        match self.config.at(offset) {
            Some(reg) if size == 4 => self.set_word(reg, value, now),
            _ => self.slot.violation(),
        }
        self.look(now);
    }

    fn word(&self, reg: Reg, now: u64) -> u32 {
        let r = &self.regs;
        let idmac = &self.idmac;
        match reg {
            Reg::Control => r.control,
            Reg::Power => r.power,
            Reg::Clock => r.enable | r.divider,
            Reg::Divider => r.divider,
            Reg::Source => r.source,
            Reg::Enable => r.enable >> 16 & 1 | (r.enable >> 17 & 1) << 16,
            Reg::Timeout => r.timeout,
            Reg::Width => r.width,
            Reg::BlockSize => r.block_size,
            Reg::ByteCount => r.byte_count,
            Reg::Command => r.command,
            Reg::Argument => r.argument,
            Reg::Response(i) => r.response[usize::from(i & 3)],
            Reg::Mask => r.mask,
            Reg::Masked => r.raw & r.mask,
            Reg::Raw => r.raw,
            Reg::Status => self.status(now),
            Reg::Threshold => r.threshold,
            Reg::Detect => u32::from(self.slot.card().is_none()),
            Reg::Protect => u32::from(self.slot.card().is_some_and(|card| card.write_protect_switch())),
            Reg::LineBytes => r.line_bytes,
            Reg::FifoBytes => r.fifo_bytes,
            Reg::Version => self.config.version,
            Reg::Features => self.features(),
            Reg::Uhs => r.uhs,
            Reg::Timing => r.timing,
            Reg::SampleDelay => r.sample_delay,
            Reg::ReadRoom => r.read_room,
            Reg::CardReset => r.card_reset,
            Reg::AutoArgument => r.auto_argument,
            Reg::DmaMode => idmac.mode,
            Reg::ListLow => (idmac.base >> self.config.address_shift) as u32,
            Reg::ListHigh => (idmac.base >> 32) as u32,
            Reg::DmaStatus => idmac.status | idmac.present_state(self.dat.block.read) << dma::STATE_SHIFT,
            Reg::DmaEnable => idmac.enable,
            Reg::DmaAt(which) => idmac.place(which),
            Reg::Kept(i) => r.kept[usize::from(i) % KEPT],
            // PLDMND is write-only; accesses to the FIFO are handled elsewhere.
            Reg::Poll | Reg::Fifo => 0,
        }
    }

    fn set_word(&mut self, reg: Reg, value: u32, now: u64) {
        if self.is_locked(reg) {
            self.regs.raw |= int::LOCKED;
            return;
        }
        let r = &mut self.regs;
        match reg {
            Reg::Control => self.set_control(value, now),
            Reg::Power => {
                r.power = value & 1;
                self.slot.busy_until_ns = if value & 1 == 0 { 0 } else { self.slot.busy_until_ns };
                self.refresh_bus(now);
            }
            Reg::Clock => (r.divider, r.enable) = (value & 0xff, value & !0xff),
            Reg::Divider => r.divider = value,
            Reg::Source => r.source = value & 3,
            Reg::Enable => r.enable = (value & 1) << 16 | (value >> 16 & 1) << 17,
            Reg::Timeout => r.timeout = value,
            Reg::Width => {
                r.width = value;
                self.refresh_bus(now);
            }
            Reg::BlockSize => r.block_size = value & 0xffff,
            Reg::ByteCount => r.byte_count = value,
            Reg::Command => self.set_command(value, now),
            Reg::Argument => r.argument = value,
            Reg::Mask => r.mask = value,
            Reg::Raw => r.raw &= !value,
            Reg::Threshold => r.threshold = value,
            Reg::Uhs => {
                r.uhs = value;
                self.refresh_bus(now);
            }
            Reg::Timing => r.timing = value,
            Reg::SampleDelay if self.config.delay_step_ps == 0 && value != 0 => self.slot.violation(),
            Reg::SampleDelay => {
                r.sample_delay = value;
                self.refresh_bus(now);
            }
            Reg::ReadRoom => {
                r.read_room = value;
                self.fifo_moved(now);
            }
            Reg::CardReset => {
                r.card_reset = value;
                self.refresh_bus(now);
            }
            Reg::AutoArgument => r.auto_argument = value & 0xffff,
            Reg::DmaMode => {
                let stops = value & (mode::ON | mode::RESET) != mode::ON;
                if stops && self.dma_works() {
                    self.slot.violation();
                }
                self.idmac.mode = value & !mode::RESET;
                if value & mode::RESET != 0 {
                    self.idmac.rewind();
                }
                self.dma_goes_on(now);
            }
            Reg::Poll => {
                if !self.config.ignores_poll && self.idmac.poll() {
                    self.dma_goes_on(now);
                }
            }
            Reg::ListLow => {
                let low = u64::from(value) << self.config.address_shift;
                self.idmac.set_base(if self.config.wide_dma {
                    self.idmac.base >> 32 << 32 | low
                } else {
                    low
                });
            }
            Reg::ListHigh => {
                self.idmac.set_base(self.idmac.base & 0xffff_ffff | u64::from(value) << 32);
            }
            Reg::DmaStatus => self.idmac.status &= !(value & dma::ALL),
            Reg::DmaEnable => self.idmac.enable = value & dma::ALL,
            Reg::Fifo => self.give_word(value, now),
            Reg::Kept(i) => r.kept[usize::from(i) % KEPT] = value,
            // Read-only registers.
            Reg::Response(_)
            | Reg::Masked
            | Reg::Status
            | Reg::Detect
            | Reg::Protect
            | Reg::LineBytes
            | Reg::FifoBytes
            | Reg::Version
            | Reg::Features
            | Reg::DmaAt(_) => self.slot.violation(),
        }
    }

    /// Returns whether a write to this register is dropped, because a command waits to be taken
    /// from the registers.
    fn is_locked(&self, reg: Reg) -> bool {
        let part = matches!(
            reg,
            Reg::Command
                | Reg::Argument
                | Reg::ByteCount
                | Reg::BlockSize
                | Reg::Divider
                | Reg::Enable
                | Reg::Source
                | Reg::Clock
                | Reg::Timeout
                | Reg::Width
        );
        part && self.command_is_set()
    }

    fn set_control(&mut self, value: u32, now: u64) {
        let resets = value & ctrl::RESETS;
        if value & ctrl::RESERVED_30 != 0 && self.config.is_smhc() {
            self.slot.violation();
        }
        let before = self.regs.control;
        self.regs.control = value | before & ctrl::RESETS;
        self.reset(resets, now);
        if resets & !before != 0 {
            let stuck = self.strike(Point::Reset, now) == Some(Strike::Never);
            let end_ns = Beat::new(now, self.config.source_hz).plus(RESET_CLK).ns();
            self.set_timer(Timer::Reset, if stuck || self.config.source_hz == 0 { NEVER } else { end_ns });
        }
        self.refresh_bus(now);
        self.dma_goes_on(now);
    }

    pub(super) fn resets_end(&mut self, _now: u64) {
        self.regs.control &= !ctrl::RESETS;
    }

    fn reset(&mut self, which: u32, now: u64) {
        if which & ctrl::FIFO_RESET != 0 {
            if which & ctrl::RESET == 0 && self.dma_works() {
                self.slot.violation();
            }
            self.fifo.clear();
            self.set_timer(Timer::Dma, NEVER);
            self.fifo_moved(now);
        }
        if which & ctrl::RESET == 0 {
            return;
        }
        for timer in [Timer::Take, Timer::Go, Timer::Command, Timer::Busy, Timer::Voltage] {
            self.set_timer(timer, NEVER);
        }
        self.forget_command();
        self.forget_data(now);
        self.clock.reset(&self.config);
        self.refresh_bus(now);
    }

    /// Returns the value of the hardware configuration register HCON.
    fn features(&self) -> u32 {
        let dma = if self.config.internal_dma { 0 } else { 3 << 16 };
        // SD and MMC, one card, AHB bus, 32-bit data, 16-bit addresses, 32-bit FIFO.
        1 | 1 << 7 | dma | u32::from(self.config.wide_dma) << 27
    }

    fn status(&self, now: u64) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let count = self.fifo.count() as u32;
        let dat3 = self.slot.card().is_none_or(|card| card.lines_low(self.slot.card_ns(now)) & 8 == 0);
        // SMHC detects a card by the level of DAT3.
        let dat3 = dat3 && (!self.config.is_smhc() || self.slot.card().is_some());
        bit(count > self.regs.threshold >> 16 & 0xfff, status::RX_MARK)
            | bit(count <= self.regs.threshold & 0xfff, status::TX_MARK)
            | bit(self.fifo.is_empty(), status::EMPTY)
            | bit(self.fifo.is_full(), status::FULL)
            | bit(dat3, status::DAT3)
            | bit(self.dat0_is_low(now), status::BUSY)
            | bit(self.dat.active(), status::DATA_BUSY)
            | self.regs.response_index << status::INDEX_SHIFT
            | count << status::COUNT_SHIFT
    }

    /// Returns whether DAT0 is low, because of the card or of a voltage switch.
    pub(super) fn dat0_is_low(&self, now: u64) -> bool {
        let at = self.slot.card_ns(now);
        self.slot.card().is_some_and(|card| self.slot.busy_until_ns > now || card.lines_low(at) & 1 != 0)
    }

    /// Returns whether the CPU, and not the DMA, accesses the FIFO.
    fn by_cpu(&self) -> bool {
        !self.by_dma() && (!self.config.is_smhc() || self.regs.control & ctrl::BY_CPU != 0)
    }

    /// Takes a word from the FIFO, for a read of the FIFO register.
    fn take_word(&mut self, now: u64) -> u32 {
        if !self.by_cpu() || !self.dat.block.read || self.fifo.is_empty() {
            self.slot.violation();
            return 0;
        }
        let (mut word, front) = ([0; 4], self.fifo.front(4));
        let bytes = front.len();
        word[..bytes].copy_from_slice(front);
        self.fifo.drop_front(bytes);
        self.regs.fifo_bytes = self.regs.fifo_bytes.wrapping_add(bytes as u32);
        self.fifo_moved(now);
        self.look(now);
        u32::from_le_bytes(word)
    }

    /// Puts a word into the FIFO, for a write of the FIFO register.
    fn give_word(&mut self, value: u32, now: u64) {
        let bytes = self.dat.to_give.min(4);
        let theirs = self.by_cpu() && self.dat.active() && !self.dat.block.read;
        if !theirs || bytes == 0 || self.fifo.room() < 4 {
            return self.slot.violation();
        }
        self.fifo.push(&value.to_le_bytes()[..bytes]);
        self.dat.to_give -= bytes;
        self.regs.fifo_bytes = self.regs.fifo_bytes.wrapping_add(bytes as u32);
        self.fifo_moved(now);
    }

    /// Sets the interrupt bits that ask the CPU to move data: in a read while the FIFO holds more
    /// words than the threshold, in a write while it holds no more than the threshold.
    pub(super) fn fifo_asks(&mut self) {
        if !self.by_cpu() {
            return;
        }
        let count = self.fifo.count() as u32;
        if self.dat.block.read && count > self.regs.threshold >> 16 & 0xfff {
            self.regs.raw |= int::RX_REQUEST;
        }
        let wants = self.dat.active() && !self.dat.block.read && self.dat.to_give > 0;
        if wants && count <= self.regs.threshold & 0xfff {
            self.regs.raw |= int::TX_REQUEST;
        }
    }
}

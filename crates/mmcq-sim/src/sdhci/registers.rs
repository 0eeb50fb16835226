//! The registers of the controller: results of reads and effects of writes [SDHC 2.2].

use super::bits::{cap, clock, host1, host2, int, present, reset};
use super::{NEVER, Sdhci, Timer};
use crate::card::BusState;
use crate::faults::{Point, Strike};
use crate::probe::Signal;
use crate::slot::Core;

/// Values of the registers, and states that registers show.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    /// Register 00h: SDMA address, argument of CMD23, or 32-bit block count.
    pub argument2: u32,
    pub block_size: u16,
    pub block_count: u16,
    pub argument: u32,
    pub mode: u16,
    pub command: u16,
    pub response: [u32; 4],
    pub host1: u8,
    pub power: u8,
    pub block_gap: u8,
    pub wakeup: u8,
    pub clock: u16,
    pub clock_stable: bool,
    pub timeout: u8,
    /// Software reset bits that still read as 1, since their reset is in progress.
    pub reset: u8,
    pub status: u32,
    pub enable: u32,
    pub signal: u32,
    pub auto_errors: u16,
    pub host2: u16,
    pub adma_error: u8,
    /// Register 58h: system address of ADMA, in version 4 also of SDMA.
    pub adma_address: u64,
    pub inserted: bool,
    pub detect_stable: bool,
    /// Present State bit 27: a command was not sent because an automatic command before it failed.
    pub not_issued: bool,
    /// Whether the 1.8 V regulator is ready.
    pub at_18v: bool,
    /// Value of register 78h, on controllers on which this register selects the enhanced strobe
    /// ([`SdhciConfig::strobe_register`](super::SdhciConfig::strobe_register)).
    pub strobe: u32,
}

impl Registers {
    /// Returns the value of register 30h, including the bit Error Interrupt.
    pub fn status_word(&self) -> u32 {
        self.status | if self.status & int::ERRORS != 0 { int::ERROR } else { 0 }
    }

    /// Returns whether the bit Host Version 4 Enable is set.
    pub fn version4(&self) -> bool {
        self.host2 & host2::VERSION_4 != 0
    }
}

/// Returns the mask of the bytes in a 32-bit word that an access of `size` bytes at `offset` uses.
fn lanes(offset: u16, size: u8) -> u32 {
    let mask = match size {
        1 => 0xff,
        2 => 0xffff,
        _ => 0xffff_ffff,
    };
    mask << (u32::from(offset & 3) * 8)
}

/// Returns `old` with the bits of `mask` replaced by those of `new`.
fn merge(old: u32, new: u32, mask: u32) -> u32 {
    old & !mask | new & mask
}

/// Returns whether an access of `size` bytes at `offset` has 1, 2 or 4 bytes and is aligned.
fn well_formed(offset: u16, size: u8) -> bool {
    matches!(size, 1 | 2 | 4) && offset.is_multiple_of(size.into())
}

const BUFFER_PORT: u16 = 0x20;

/// Bit of Power Control that holds RST_n low, on controllers with that line
/// ([`SdhciConfig::reset_line`]).
///
/// [`SdhciConfig::reset_line`]: super::SdhciConfig::reset_line
const RESET_LINE: u8 = 0x10;

const MALFORMED: &str = "an access that is not aligned, or of no register [SDHC 2.1]";

impl Sdhci {
    /// Reads the register at `offset`; `size` is 1, 2 or 4 bytes.
    pub fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        let now = self.reach(now_ns);
        let ones = lanes(0, size);
        if self.slot.is_gone() {
            return ones;
        }
        if let Some(register) = self.queue_register(offset)
            && well_formed(offset, size)
        {
            return self.queue_read(register) >> (u32::from(offset & 3) * 8) & ones;
        }
        if !self.is_register(offset, size) {
            self.violation(MALFORMED);
            return ones;
        }
        if offset & !3 == BUFFER_PORT {
            return self.buffer_read(size, now);
        }
        self.word(offset & !3, now) >> (u32::from(offset & 3) * 8) & ones
    }

    /// Writes `value` to the register at `offset`; `size` is 1, 2 or 4 bytes.
    pub fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        let now = self.reach(now_ns);
        if self.slot.is_gone() {
            return;
        }
        if let Some(register) = self.queue_register(offset)
            && well_formed(offset, size)
        {
            return self.queue_write(register, size, value, now);
        }
        if !self.is_register(offset, size) {
            return self.violation(MALFORMED);
        }
        if offset & !3 == BUFFER_PORT {
            return self.buffer_write(size, value, now);
        }
        // During Software Reset For All the driver must not write other registers [SDHC 2.2.16].
        if self.regs.reset & reset::ALL != 0 && offset & !3 != 0x2c {
            return self.violation("a register written during Software Reset For All [SDHC 2.2.16]");
        }
        let mask = lanes(offset, size);
        self.set_word(offset & !3, value << (u32::from(offset & 3) * 8), mask, now);
        self.look_at_card(now);
    }

    /// Returns whether an access of `size` bytes at `offset` is aligned and inside the register
    /// space.
    fn is_register(&self, offset: u16, size: u8) -> bool {
        well_formed(offset, size) && offset < self.config.register_bytes
    }

    fn word(&mut self, offset: u16, now: u64) -> u32 {
        let r = &self.regs;
        match offset {
            0x00 => r.argument2,
            0x04 => u32::from(r.block_size) | u32::from(r.block_count) << 16,
            0x08 => r.argument,
            0x0c => u32::from(r.mode) | u32::from(r.command) << 16,
            0x10 | 0x14 | 0x18 | 0x1c => r.response[usize::from(offset - 0x10) / 4],
            0x24 => self.present_state(now),
            0x28 => u32::from_le_bytes([r.host1, r.power, r.block_gap, r.wakeup]),
            0x2c => {
                let stable = if r.clock_stable { clock::STABLE } else { 0 };
                u32::from(self.shown_clock() | stable) | u32::from(r.timeout) << 16 | u32::from(r.reset) << 24
            }
            0x30 => {
                let status = r.status_word();
                if status == 0 && self.hurt.spurious > 0 {
                    self.hurt.spurious -= 1;
                    self.update_irq(now);
                }
                status
            }
            0x34 => r.enable,
            0x38 => r.signal,
            0x3c => u32::from(r.auto_errors) | u32::from(r.host2) << 16,
            0x40 | 0x44 if self.config.mistakes.capabilities_hidden => 0,
            0x40 => self.config.shown_capabilities(),
            0x44 => self.config.capabilities1,
            0x48 => self.config.max_current,
            0x54 => r.adma_error.into(),
            0x58 => r.adma_address as u32,
            0x5c => (r.adma_address >> 32) as u32,
            0x60 | 0x64 | 0x68 | 0x6c => {
                let i = usize::from(offset - 0x60) / 2;
                u32::from(self.config.presets[i]) | u32::from(self.config.presets[i + 1]) << 16
            }
            0x78 | 0x7c if self.has_list() => self.list.shows(offset == 0x7c),
            0x78 => r.strobe,
            0xfc => {
                u32::from(self.slot.line.is_high())
                    | u32::from(self.config.spec) << 16
                    | u32::from(self.config.vendor) << 24
            }
            _ => 0,
        }
    }

    fn set_word(&mut self, offset: u16, value: u32, mask: u32, now: u64) {
        let half = |old: u16, shift: u32| (merge(u32::from(old) << shift, value, mask) >> shift) as u16;
        match offset {
            0x00 => {
                self.regs.argument2 = merge(self.regs.argument2, value, mask);
                // A write to the highest byte of the SDMA address continues a stopped transfer
                // [SDHC 2.2.1].
                if mask & 0xff00_0000 != 0 && !self.regs.version4() {
                    self.sdma_restart(now);
                }
            }
            // Writes to block size and block count during a transfer are ignored [SDHC 2.2.2,
            // 2.2.3].
            0x04 if self.dat.active() => {}
            0x04 => {
                self.regs.block_size = half(self.regs.block_size, 0) & 0x7fff;
                self.regs.block_count = half(self.regs.block_count, 16);
            }
            0x08 => self.regs.argument = merge(self.regs.argument, value, mask),
            0x0c => self.set_command(value, mask, now),
            0x28 => self.set_host_control(value, mask, now),
            0x2c => self.set_clock_and_reset(value, mask, now),
            0x30 => {
                // This register cannot clear Card Interrupt and Error Interrupt [SDHC 2.2.18].
                self.regs.status &= !(value & mask & !(int::CARD | int::ERROR));
                if self.regs.status & int::AUTO_COMMAND == 0 {
                    // Auto CMD Error Status is valid only while Auto CMD Error is set
                    // [SDHC 2.2.23].
                    self.regs.auto_errors = 0;
                }
                self.update_irq(now);
            }
            0x34 => {
                self.regs.enable = merge(self.regs.enable, value, mask) & (int::NORMAL | int::ERRORS);
                self.update_irq(now);
            }
            0x38 => {
                self.regs.signal = merge(self.regs.signal, value, mask) & (int::NORMAL | int::ERRORS);
                self.update_irq(now);
            }
            0x3c => self.set_host_control_2(half(self.regs.host2, 16), now),
            0x50 => {
                let value = value & mask;
                self.regs.auto_errors |= (value & 0xbf) as u16;
                let auto = if value & 0xbf != 0 { int::AUTO_COMMAND } else { 0 };
                self.raise(value & int::ERRORS | auto, now);
            }
            0x58 | 0x5c => {
                let shift = if offset == 0x58 { 0 } else { 32 };
                let old = (self.regs.adma_address >> shift) as u32;
                let new = u64::from(merge(old, value, mask)) << shift;
                self.regs.adma_address = self.regs.adma_address & !(0xffff_ffff << shift) | new;
                let last = if self.regs.host2 & host2::ADDRESS_64 != 0 { 0x5c } else { 0x58 };
                if offset == last && mask & 0xff00_0000 != 0 && self.regs.version4() {
                    self.sdma_restart(now);
                }
            }
            0x78 | 0x7c if self.has_list() => self.set_list(offset == 0x7c, value, mask, now),
            0x78 if self.config.strobe_register => {
                self.regs.strobe = merge(self.regs.strobe, value, mask) & 1;
                self.refresh_bus(now);
            }
            // All other registers are read-only, or do not exist.
            _ => {}
        }
    }

    fn set_command(&mut self, value: u32, mask: u32, now: u64) {
        // Writes to the transfer mode during a transfer are ignored [SDHC 2.2.5].
        if mask & 0xffff != 0 && !self.dat.active() {
            let known = if self.config.spec >= 3 { 0x1ff } else { 0x3f };
            self.regs.mode = merge(self.regs.mode.into(), value, mask) as u16 & known;
        }
        if mask & 0xffff_0000 != 0 {
            self.regs.command =
                (merge(u32::from(self.regs.command) << 16, value, mask) >> 16) as u16 & 0x3fff;
        }
        if mask & 0xff00_0000 != 0 {
            self.issue(now);
        }
    }

    fn set_host_control(&mut self, value: u32, mask: u32, now: u64) {
        let old =
            u32::from_le_bytes([self.regs.host1, self.regs.power, self.regs.block_gap, self.regs.wakeup]);
        let [host1, mut power, gap, wakeup] = merge(old, value, mask).to_le_bytes();
        let supported = match power >> 1 & 7 {
            7 => self.config.has(cap::V33),
            6 => self.config.has(cap::V30),
            5 => self.config.has(cap::V18),
            _ => false,
        };
        // SD Bus Power can be set only with a voltage that the controller supports, and with a card
        // in the slot [SDHC 2.2.11].
        if power & 1 != 0 && !(supported && self.regs.inserted) {
            power &= !1;
            if !supported {
                self.violation("a supply voltage that the controller does not have [SDHC 2.2.11]");
            }
        }
        self.regs.host1 = host1;
        self.regs.power = if self.config.mistakes.power_unused { 0 } else { power };
        self.regs.block_gap = gap & 0x0d;
        self.regs.wakeup = wakeup & 7;
        self.refresh_bus(now);
        if mask & 0x00ff_0000 != 0 && gap & 1 != 0 {
            self.stop_at_gap(now);
        }
        // Continue Request clears itself [SDHC 2.2.12].
        if mask & 0x00ff_0000 != 0 && gap & 2 != 0 && gap & 1 == 0 {
            self.continue_after_gap(now);
        }
    }

    fn set_clock_and_reset(&mut self, value: u32, mask: u32, now: u64) {
        let old = u32::from(self.regs.clock) | u32::from(self.regs.timeout) << 16;
        let new = merge(old, value, mask);
        if self.regs.reset & reset::ALL == 0 {
            self.regs.timeout = (new >> 16) as u8 & 0xf;
            self.hurt.clock_written |= mask & value & u32::from(clock::INTERNAL) != 0;
            self.set_clock(new as u16, now);
        }
        let bits = (value & mask) >> 24 & 7;
        if bits != 0 {
            self.software_reset(bits as u8, now);
        }
    }

    fn set_clock(&mut self, new: u16, now: u64) {
        let has_pll = self.config.spec >= 4;
        let kept = clock::INTERNAL | clock::CARD | clock::PROGRAMMABLE | 0xffc0;
        let new = new & (kept | if has_pll { clock::PLL } else { 0 });
        let old = std::mem::replace(&mut self.regs.clock, new);
        if old == new {
            return;
        }
        let dividers = clock::PROGRAMMABLE | 0xffc0;
        // The driver must not change the frequency while the card gets the clock [SDHC 3.2.3].
        if old & new & clock::CARD != 0 && (old ^ new) & dividers != 0 && self.regs.host2 & host2::PRESET == 0
        {
            self.violation("a divider changed under the running SD clock [SDHC 3.2.3]");
        }
        let starts = clock::INTERNAL | if has_pll { clock::PLL } else { 0 };
        if new & clock::INTERNAL == 0 {
            self.regs.clock_stable = false;
            self.stop_timer(Timer::ClockStable);
        } else if new & !old & starts != 0 {
            self.regs.clock_stable = false;
            let at = now.saturating_add(self.config.clock_stable_ns);
            let at = match self.strike(Point::Clock, now) {
                Some(Strike::Never) => NEVER,
                Some(Strike::Late(ns)) => at.saturating_add(ns),
                _ => at,
            };
            self.set_timer(Timer::ClockStable, at);
        }
        if new & clock::CARD != 0 && !self.regs.clock_stable {
            self.violation("SD Clock Enable before the internal clock is stable [SDHC 2.2.14]");
        }
        self.refresh_bus(now);
    }

    pub(super) fn clock_is_stable(&mut self, now: u64) {
        self.regs.clock_stable = true;
        self.refresh_bus(now);
    }

    fn set_host_control_2(&mut self, new: u16, now: u64) {
        let old = self.regs.host2;
        let known = match self.config.spec {
            0..=2 => 0xc0ff,
            3 => 0xf1ff,
            _ => 0xfdff,
        };
        let mut new = new & known;
        if new & !old & host2::SIGNAL_18 != 0 {
            self.set_timer(Timer::Signal18, now.saturating_add(self.config.signal18_settle_ns));
        } else if new & host2::SIGNAL_18 == 0 {
            self.stop_timer(Timer::Signal18);
            self.regs.at_18v = false;
        }
        // Only the tuning procedure sets Sampling Clock Select; software can clear it
        // [SDHC 2.2.25].
        new &= !(host2::SAMPLING_CLOCK & !old);
        if new & !old & host2::EXECUTE_TUNING != 0 {
            new &= !host2::SAMPLING_CLOCK;
            self.dat.tuning_begins();
        }
        self.regs.host2 = new;
        self.refresh_bus(now);
    }

    pub(super) fn signal_settled(&mut self, now: u64) {
        let struck = self.strike(Point::Voltage, now) == Some(Strike::Fail);
        if self.config.signal18_fails || struck {
            self.regs.host2 &= !host2::SIGNAL_18;
        } else {
            self.regs.at_18v = true;
        }
        self.refresh_bus(now);
    }

    fn present_state(&mut self, now: u64) -> u32 {
        let mut state = self.dat.present_bits() | self.pio.present_bits(now);
        let r = &self.regs;
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        state |= flag(self.cmd.inhibit, present::CMD_INHIBIT);
        let seen = r.inserted && !self.config.mistakes.card_unseen;
        state |= flag(seen, present::INSERTED | present::CARD_DETECT);
        state |= flag(r.detect_stable, present::STABLE);
        state |= flag(r.not_issued, present::NOT_ISSUED);
        let protected = self.slot.card().is_some_and(|card| card.write_protect_switch());
        state |= flag(!protected, present::WRITE_ENABLED);
        state |= present::CMD_LEVEL | present::DAT_LEVELS;
        if self.config.line_levels && self.slot.bus.powered {
            let lines = self.slot.with_card(now, |card, now| {
                let busy = u8::from(card.busy(now));
                (card.switching_voltage(now), card.lines_low(now) | busy)
            });
            if let Some((switching, low)) = lines {
                state &= !(u32::from(low) << 20 & present::DAT_LEVELS);
                state &= !if switching { present::CMD_LEVEL } else { 0 };
            }
        }
        state & !(u32::from(self.hurt.lines & 0xf) << 20) | self.hurt.stuck
    }

    /// Returns the preset value (from registers 60h to 6Eh) for the present bus mode [SDHC 2.2.29].
    fn preset(&self) -> u16 {
        let mode = self.regs.host2 & host2::UHS_MODE;
        let index = match (self.regs.at_18v || self.config.uhs_at_33v, mode) {
            (true, 0..=4) => 3 + mode,
            (true, _) => 6,
            _ => 1 + u16::from(self.regs.host1 & host1::HIGH_SPEED != 0),
        };
        self.config.presets[usize::from(index)]
    }

    /// Returns the value that Clock Control reads as. If the driver has enabled preset values, the
    /// divider comes from the preset value.
    fn shown_clock(&self) -> u16 {
        if self.regs.host2 & host2::PRESET == 0 {
            return self.regs.clock;
        }
        let preset = self.preset();
        let divider = (preset & 0xff) << 8 | (preset >> 8 & 3) << 6 | (preset >> 10 & 1) << 5;
        self.regs.clock & !(clock::PROGRAMMABLE | 0xffc0) | divider
    }

    fn clock_hz(&self) -> u32 {
        let wanted = clock::INTERNAL | clock::CARD;
        if self.regs.clock & wanted != wanted || !self.regs.clock_stable {
            return 0;
        }
        let shown = self.shown_clock();
        let n = u32::from(shown >> 8 | (shown & 0xc0) << 2);
        let base = self.config.base_hz();
        if shown & clock::PROGRAMMABLE != 0 {
            let multiplier = self.config.capabilities1 >> 16 & 0xff;
            return if multiplier == 0 { 0 } else { base.saturating_mul(multiplier + 1) / (n + 1) };
        }
        if n == 0 { base } else { base / (2 * n) }
    }

    /// Updates the bus after the driver may have changed its settings, and informs the card.
    pub(super) fn refresh_bus(&mut self, now: u64) {
        let (clock_hz, in_use) = (self.slot.bus.clock_hz, self.cmd.sending() || self.dat.moving());
        self.drive_bus(now);
        // A change of the clock damages what is on the lines.
        if in_use && self.slot.bus.clock_hz != clock_hz {
            self.violation("the SD clock changed with a command or block on the lines [SDHC 3.2.3]");
        }
    }

    /// Informs the card if the bus settings have changed.
    pub(super) fn drive_bus(&mut self, now: u64) {
        let r = &self.regs;
        let uhs = r.at_18v || self.config.uhs_at_33v;
        let mode = r.host2 & host2::UHS_MODE;
        let hs400 = uhs && mode == u16::from(self.config.hs400_mode);
        let es = uhs && mode == u16::from(self.config.hs400es_mode);
        let strobe = es || hs400 && r.strobe & 1 == 1;
        let hs400 = hs400 && !strobe;
        let sdr50_tunes = self.config.capabilities1 & 1 << 13 != 0;
        let tuned_mode = hs400 || uhs && (mode == 3 || mode == 2 && sdr50_tunes);
        let eight = r.host1 & host1::EIGHT_BITS != 0 && self.config.has(cap::EIGHT_BITS);
        let bus = BusState {
            powered: r.power & 1 != 0 || self.config.always_powered || self.config.mistakes.power_unused,
            clock_hz: self.clock_hz(),
            width: if eight {
                8
            } else if r.host1 & host1::FOUR_BITS != 0 {
                4
            } else {
                1
            },
            ddr: uhs && mode == 4 || hs400 || strobe,
            signal18: r.at_18v || self.config.signal18_fixed,
            strobe,
            reset: self.config.reset_line && r.power & RESET_LINE != 0,
            sample_error: if r.host2 & host2::SAMPLING_CLOCK != 0 && !self.hurt.drifted {
                let drifting_ns = now.saturating_sub(self.hurt.tuned_ns);
                let drift = drifting_ns.saturating_mul(self.config.drift_per_s.into()) / 1_000_000_000;
                drift.saturating_add(self.config.tuned_sample_error.into()).min(100) as u8
            } else if tuned_mode || self.hurt.drifted {
                self.config.untuned_sample_error
            } else {
                0
            },
        };
        if bus != self.slot.bus {
            if !bus.powered {
                // A card without power does not hold DAT0 low.
                self.slot.busy_until_ns = 0;
            }
            let driven = |b: &BusState| (b.clock_hz, b.width, b.ddr);
            if bus.clock_hz != 0 && driven(&bus) != driven(&self.slot.bus) {
                self.hurt.mute |= self.config.mistakes.change_hangs_lines;
            }
            let released = self.slot.bus.reset && !bus.reset;
            self.slot.bus = bus;
            let low = self.slot.with_card(now, |card, now| {
                card.bus_changed(&bus, now);
                card.switching_voltage(now)
            });
            // A card that was reset does not hold DAT0 low any more.
            if released && self.slot.with_card(now, |card, now| card.busy(now)) == Some(false) {
                self.slot.busy_until_ns = 0;
            }
            self.slot.show(&Signal::Bus { at_ns: now, bus, low: low == Some(true) });
        }
    }
}

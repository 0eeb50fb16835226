//! Operations on the bus as scripts of register accesses that never block: clock, width, timing,
//! tuning, reset. `chip.rs` has the parts for supply and voltage.

use super::port::{read_word, write_word};
use super::regs::*;
use super::tuning::Sweep;
use super::{Condition, Rtsx, RtsxConfig};
use crate::host::{BusOp, Dma, Regs, Step, Timing};

/// Fastest SD clock that the reader can make, in hertz.
pub(super) const CLOCK_HZ_MAX: u32 = 208_000_000;
/// Slowest SD clock in hertz that every mode can have: that of SDR50 and SDR104, where the PLL's 82
/// MHz are divided by at most 8 and then by 256.
pub(super) const CLOCK_HZ_MIN: u32 = 40_040;
/// Frequencies that the PLL can generate, in MHz.
const PLL_MHZ: core::ops::RangeInclusive<u32> = 82..=210;
const HZ_IN_MHZ: u64 = 1_000_000;
/// Time until a new setting of the PLL is stable, in nanoseconds.
const PLL_NS: u32 = 130_000;
/// Time until the pads' supply has reached another voltage, in nanoseconds [SD 4.2.4.2].
const VOLTAGE_NS: u32 = 5_000_000;
/// Longest time of one register access, in nanoseconds.
const ACCESS_NS: u64 = 10_000_000;
/// Interval of polls for the end of a register access, in nanoseconds.
const ACCESS_POLL_NS: u64 = 10_000;
/// Number of polls for the end of an access in one call; afterwards the driver returns
/// [`Step::Wait`].
const LOOKS: u32 = 8;
/// Largest number of register accesses of a script (the driver's steps of a bus operation) that one
/// call executes.
const ACTS_PER_CALL: usize = 16;
/// Largest number of steps (register accesses and pauses) in the script of an operation; the
/// power-on of an RTS5249 is the longest.
const ACTS: usize = 32;

/// A step of an operation's script: one register access or one pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Writes a register; the value is the word for [`HAIMR`].
    Write(u32),
    /// Reads a register, and writes it with the bits under the mask changed. The value is the word
    /// for [`HAIMR`] of a write of these bits alone.
    Merge(u32),
    /// Reads a register (the address), and fails the operation unless these bits of it are 0.
    ExpectClear(u16, u8),
    /// Inverts these bits in the value that the next step writes, if the chip has version C.
    OnVersionC(u8),
    /// Waits for this time in nanoseconds.
    Pause(u32),
}

/// The steps of a bus operation, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    acts: [Act; ACTS],
    used: usize,
    next: usize,
}

impl Script {
    const fn new() -> Self {
        Script { acts: [Act::Pause(0); ACTS], used: 0, next: 0 }
    }

    fn push(&mut self, act: Act) {
        // `acts` has room for the longest script; a test executes that script.
        if let Some(place) = self.acts.get_mut(self.used) {
            *place = act;
            self.used += 1;
        }
    }

    pub(super) fn write(&mut self, register: u16, mask: u8, value: u8) {
        self.push(Act::Write(write_word(register, mask, value)));
    }

    /// Adds a step that sets the bits under `mask` of a register to those of `value`. The register
    /// has no write mask, so the step reads it, and writes it with these bits changed.
    pub(super) fn merge(&mut self, register: u16, mask: u8, value: u8) {
        self.push(Act::Merge(write_word(register, mask, value)));
    }

    pub(super) fn expect_clear(&mut self, register: u16, bits: u8) {
        self.push(Act::ExpectClear(register, bits));
    }

    pub(super) fn on_version_c(&mut self, inverted: u8) {
        self.push(Act::OnVersionC(inverted));
    }

    pub(super) fn pause(&mut self, ns: u32) {
        self.push(Act::Pause(ns));
    }

    /// Inverts these bits in the value that the script's next step writes; changes nothing if that
    /// step is no write.
    fn invert_next(&mut self, bits: u8) {
        if let Some(Act::Write(word)) = self.acts.get_mut(self.next) {
            *word ^= u32::from(bits);
        }
    }

    fn take(&mut self) -> Option<Act> {
        let act = self.acts.get(..self.used)?.get(self.next).copied()?;
        self.next += 1;
        Some(act)
    }
}

/// Returns the mask of the changed bits from the HAIMR word that writes a register.
const fn mask_of(word: u32) -> u8 {
    (word >> 8) as u8
}

/// The bus settings, and the progress of the operation on the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bus {
    script: Script,
    wait: Wait,
    /// Mode bits of the register SD_CFG1 for the present bus timing.
    mode: u8,
    /// Bus width bits of SD_CFG1.
    width: u8,
    /// Whether the pads have 1.8 V.
    low_voltage: bool,
    /// Whether the operation in progress lets the SD clock run between transfers.
    starts_clock: bool,
    /// Requested SD clock in hertz, 0 while the clock is stopped.
    clock_hz: u32,
    /// Clock phases of sending and of sampling that the driver uses as long as no tuning has found
    /// another sampling phase.
    phases: (u8, u8),
    sample_phase: u8,
}

/// The event that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// No operation is in progress.
    Nothing,
    /// Waits for the end of an earlier register access, because this operation can begin only then.
    Free { deadline_ns: u64 },
    /// The driver waits for the end of the register access of this step (an entry of the
    /// operation's script).
    Access { act: Act, deadline_ns: u64 },
    /// A wait of this many nanoseconds, which begins at the next call of the driver. It does not
    /// begin in the call that wrote the registers, because the `now_ns` of that call may be older
    /// than the writes.
    Rest(u32),
    /// The driver waits until this time in nanoseconds.
    Until(u64),
}

impl Bus {
    pub(super) fn new(config: &RtsxConfig) -> Self {
        let phases = config.phases(Timing::Legacy);
        Bus {
            script: Script::new(),
            wait: Wait::Nothing,
            mode: CFG1_SD20,
            width: 0,
            low_voltage: false,
            starts_clock: false,
            clock_hz: 0,
            phases,
            sample_phase: phases.1,
        }
    }

    /// Returns whether an operation is in progress.
    pub(super) fn in_progress(&self) -> bool {
        self.wait != Wait::Nothing
    }

    /// Returns whether the mode is a UHS-I mode. UHS-I modes have 1.8 V on the signal lines, other
    /// modes have 3.3 V [SD 4.2.4].
    pub(super) fn is_uhs(&self) -> bool {
        self.low_voltage
    }

    /// Sets the sampling phase that tuning has found.
    pub(super) fn set_sample_phase(&mut self, phase: u8) {
        self.sample_phase = phase & PHASE_MASK;
    }

    /// Connects the SD circuits to the pins.
    fn select(&mut self) {
        self.script.write(CARD_SHARE_MODE, SHARE_MASK, SHARE_SD);
        self.script.write(CARD_SELECT, SELECT_MASK, SELECT_SD);
        self.script.write(SD_CFG1, CFG1_DIVIDER | CFG1_MODE | CFG1_WIDTH, self.mode | self.width);
        self.script.write(SD_CFG3, CFG3_RESPONSE_TIMEOUT, CFG3_RESPONSE_TIMEOUT);
    }

    /// Sets the requested clock and starts it; returns false if the clock cannot be that slow.
    fn run_clock(&mut self) -> bool {
        let Some(setting) = Setting::of(self.clock_hz, self.mode) else { return false };
        self.starts_clock = true;
        let script = &mut self.script;
        script.write(CLOCK_CTL, CLOCK_CHANGE, CLOCK_CHANGE);
        script.write(PLL_CTL, PLL_RUN, 0);
        script.write(PLL_N, 0xff, setting.pll_n);
        script.write(CLOCK_DIV, CLOCK_DIV_MASK, setting.divider);
        script.write(PLL_CTL, PLL_RUN, PLL_RUN);
        script.pause(PLL_NS);
        if self.mode == CFG1_SD30 {
            self.write_phases();
        }
        let script = &mut self.script;
        script.write(CLOCK_CTL, CLOCK_CHANGE, 0);
        script.write(CLOCK_ENABLE, CLOCK_SD, CLOCK_SD);
        script.write(SD_CFG1, CFG1_DIVIDER, setting.cfg1);
        // A card needs clocks before its first command and during the voltage switch. The next list
        // stops this clock.
        script.write(SD_BUS_STAT, BUS_CLOCK_TOGGLE | BUS_CLOCK_STOP, BUS_CLOCK_TOGGLE);
        true
    }

    /// Sets the phases of the clocks that send and sample, while the SD clock is held. While the SD
    /// clock is stopped, the call does nothing: the next clock setting also sets the phases, which
    /// matter only in SDR50 and SDR104.
    fn set_phases(&mut self) {
        if self.clock_hz != 0 {
            self.script.write(CLOCK_CTL, CLOCK_CHANGE, CLOCK_CHANGE);
            self.write_phases();
            self.script.write(CLOCK_CTL, CLOCK_CHANGE, 0);
        }
    }

    fn write_phases(&mut self) {
        let script = &mut self.script;
        for (register, phase) in [(PHASE_SEND, self.phases.0), (PHASE_SAMPLE, self.sample_phase)] {
            script.write(register, PHASE_NOT_RESET | PHASE_MASK, phase);
            script.write(register, PHASE_NOT_RESET | PHASE_MASK, phase | PHASE_NOT_RESET);
        }
    }

    /// Aborts the work in progress of the SD circuits and of the DMA, and empties the ring buffer.
    fn stop(&mut self) {
        self.script.write(CARD_STOP, STOP_SD | STOP_SD_CLEAR, STOP_SD | STOP_SD_CLEAR);
        self.script.write(DMA_CTL, DMA_RESET, DMA_RESET);
        self.script.write(RING_CTL, RING_FLUSH, RING_FLUSH);
    }
}

/// Register values for one SD clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Setting {
    /// Value of the register PLL_N, the multiplier of the clock's PLL: the frequency in MHz, minus
    /// 2.
    pll_n: u8,
    /// Value of the register CLOCK_DIV; bits 6:4 are the code of the divider.
    divider: u8,
    /// Bits of the register SD_CFG1 for the second divider (1, 128 or 256).
    cfg1: u8,
}

impl Setting {
    /// Returns the settings of the fastest clock not above `hz`; `None` if the clock cannot be that
    /// slow. The clock is PLL / (1, 2, 4, 8) / (2, or 1 if `mode` is [`CFG1_SD30`]) / (1, 128,
    /// 256).
    fn of(hz: u32, mode: u8) -> Option<Setting> {
        let half = if mode == CFG1_SD30 { 1 } else { 2 };
        let mut best: Option<(u64, Setting)> = None;
        for (cfg1, slow) in [(CFG1_DIVIDE_1, 1), (CFG1_DIVIDE_128, 128), (CFG1_DIVIDE_256, 256)] {
            for power in 0..4u8 {
                // The divisor is at least 1 anyway; `max` shows the compiler that no division can
                // panic.
                let divisor = ((half * slow) << power).max(1);
                let mhz = u64::from(hz) * divisor / HZ_IN_MHZ;
                let mhz = mhz.min((*PLL_MHZ.end()).into()) as u32;
                if !PLL_MHZ.contains(&mhz) {
                    continue;
                }
                let result = u64::from(mhz) * HZ_IN_MHZ / divisor;
                if best.is_none_or(|(other, _)| result > other) {
                    let setting = Setting { pll_n: (mhz - 2) as u8, divider: (power + 1) << 4, cfg1 };
                    best = Some((result, setting));
                }
            }
        }
        best.map(|(_, setting)| setting)
    }
}

impl<R: Regs, D: Dma> Rtsx<R, D> {
    pub(super) fn step_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus.script = Script::new();
            self.bus.wait = Wait::Nothing;
            self.bus.starts_clock = false;
            if !self.begin(op) {
                return Step::Failed;
            }
            self.bus.wait = Wait::Free { deadline_ns: now_ns.saturating_add(ACCESS_NS) };
        }
        if let Wait::Rest(ns) = self.bus.wait {
            self.bus.wait = Wait::Until(now_ns.saturating_add(ns.into()));
        }
        for _ in 0..ACTS_PER_CALL {
            let (act, deadline_ns) = match self.bus.wait {
                Wait::Nothing => return Step::Done,
                Wait::Rest(_) => return Step::Wait(now_ns),
                Wait::Until(until_ns) if now_ns < until_ns => return Step::Wait(until_ns),
                Wait::Until(_) => {
                    self.next_act(op, now_ns);
                    continue;
                }
                Wait::Free { deadline_ns } => (None, deadline_ns),
                Wait::Access { act, deadline_ns } => (Some(act), deadline_ns),
            };
            match (self.port.look(LOOKS), act) {
                (None, _) if now_ns < deadline_ns => {
                    return Step::Wait(now_ns.saturating_add(ACCESS_POLL_NS).min(deadline_ns));
                }
                // The chip returns the written byte. A different byte means that the write was
                // lost.
                (Some(Ok(byte)), Some(Act::Write(word))) if (byte ^ word as u8) & mask_of(word) != 0 => {}
                (Some(Ok(byte)), Some(Act::ExpectClear(_, bits))) if byte & bits != 0 => {}
                (Some(Ok(byte)), Some(Act::Merge(word))) => {
                    let merged = byte & !mask_of(word) | word as u8;
                    self.access(Act::Write(write_word((word >> 16) as u16, 0xff, merged)), now_ns);
                    continue;
                }
                (Some(Ok(byte)), act) => {
                    if let Some(Act::OnVersionC(bits)) = act
                        && byte & VERSION_MASK == VERSION_C
                    {
                        self.bus.script.invert_next(bits);
                    }
                    self.next_act(op, now_ns);
                    continue;
                }
                (None | Some(Err(_)), _) => {}
            }
            self.bus.wait = Wait::Nothing;
            return Step::Failed;
        }
        if self.bus.in_progress() { Step::Wait(now_ns) } else { Step::Done }
    }

    fn next_act(&mut self, op: BusOp, now_ns: u64) {
        match self.bus.script.take() {
            Some(Act::Pause(ns)) => self.bus.wait = Wait::Rest(ns),
            Some(act) => self.access(act, now_ns),
            None => {
                self.end(op);
                self.bus.wait = Wait::Nothing;
            }
        }
    }

    /// Starts the register access of one step of a bus operation (a step is an entry of the
    /// operation's script).
    fn access(&mut self, act: Act, now_ns: u64) {
        self.port.begin(match act {
            Act::Write(word) => word,
            Act::Merge(word) => read_word((word >> 16) as u16),
            Act::ExpectClear(register, _) => read_word(register),
            Act::OnVersionC(_) | Act::Pause(_) => read_word(VERSION),
        });
        self.bus.wait = Wait::Access { act, deadline_ns: now_ns.saturating_add(ACCESS_NS) };
    }

    /// Starts an operation: writes the list of its register accesses (the script). Returns false if
    /// the operation is not supported.
    fn begin(&mut self, op: BusOp) -> bool {
        match op {
            BusOp::PowerOff | BusOp::PowerOn => {
                self.halt();
                self.masked = 0;
                self.enable = self.base_enable();
                self.port.regs.write32(BIER, self.enable);
                self.bus = Bus::new(&self.config);
                self.script_power(op == BusOp::PowerOn);
            }
            BusOp::Clock(0) => {
                self.bus.clock_hz = 0;
                self.bus.script.write(SD_BUS_STAT, BUS_CLOCK_STOP, BUS_CLOCK_STOP);
            }
            BusOp::Clock(hz) => {
                let before = core::mem::replace(&mut self.bus.clock_hz, hz.min(self.caps.clock_hz.1));
                if !self.bus.run_clock() {
                    self.bus.clock_hz = before;
                    return false;
                }
            }
            BusOp::Width(width) => {
                if width > self.caps.width {
                    return false;
                }
                self.bus.width = width as u8;
                self.bus.script.write(SD_CFG1, CFG1_WIDTH, self.bus.width);
            }
            BusOp::Timing(timing) => return self.script_timing(timing),
            BusOp::Signal18(on) => {
                if on && !self.caps.signal18 {
                    return false;
                }
                self.config.chip.script_voltage(&mut self.bus.script, on);
                if core::mem::replace(&mut self.bus.low_voltage, on) != on {
                    self.bus.script.pause(VOLTAGE_NS);
                }
            }
            BusOp::TuneStart => {
                self.sweep = Sweep::new();
                self.bus.set_phases();
            }
            BusOp::TuneAbort => {
                self.halt();
                self.sweep = Sweep::new();
                self.bus.sample_phase = self.bus.phases.1;
                self.bus.stop();
                self.bus.set_phases();
            }
            BusOp::ResetLines => {
                self.halt();
                self.bus.stop();
            }
            BusOp::ResetAll => {
                self.halt();
                self.masked = 0;
                self.enable = self.base_enable();
                self.port.regs.write32(BIER, self.enable);
                self.bus.stop();
                self.bus.select();
                return self.bus.clock_hz == 0 || self.bus.run_clock();
            }
        }
        true
    }

    /// Ends a bus operation after its register accesses. After a reset, a change of the supply or
    /// an aborted tuning, clears late events and the state of the last command. Records whether the
    /// SD clock now runs between transfers.
    fn end(&mut self, op: BusOp) {
        match op {
            BusOp::PowerOff | BusOp::PowerOn | BusOp::ResetLines | BusOp::ResetAll | BusOp::TuneAbort => {
                self.port.regs.write32(BIPR, super::events::OF_PHASE);
                self.unmask(super::events::OF_PHASE);
                let toggling = self.state.toggling && !matches!(op, BusOp::PowerOff | BusOp::PowerOn);
                self.state = Condition { toggling, ..Condition::default() };
            }
            _ => {}
        }
        self.state.toggling |= self.bus.starts_clock;
    }

    /// Stops the execution of the list of register operations, and the DMA. Afterwards no command
    /// or transfer is in progress.
    fn halt(&mut self) {
        self.active = None;
        self.state = Condition { upset: true, toggling: self.state.toggling, ..Condition::default() };
        self.port.regs.write32(HCBCTLR, HCB_STOP);
        self.port.regs.write32(HDBCTLR, HDB_STOP);
    }

    fn script_power(&mut self, on: bool) {
        let bus = &mut self.bus;
        bus.stop();
        bus.script.write(CARD_OE, OE_SD, 0);
        bus.script.write(CLOCK_ENABLE, CLOCK_SD, 0);
        bus.script.write(SD_BUS_STAT, BUS_CLOCK_TOGGLE | BUS_CLOCK_STOP, BUS_CLOCK_STOP);
        bus.select();
        self.config.chip.script_supply(&mut bus.script, on);
        if on {
            bus.script.write(CARD_OE, OE_SD, OE_SD);
        }
    }

    fn script_timing(&mut self, timing: Timing) -> bool {
        if !self.caps.can(timing) {
            return false;
        }
        let mode = match timing {
            Timing::Sdr50 | Timing::Sdr104 => CFG1_SD30,
            Timing::Ddr50 => CFG1_DDR,
            _ => CFG1_SD20,
        };
        let phases = self.config.phases(timing);
        if mode == CFG1_SD30 && phases != self.bus.phases {
            self.bus.phases = phases;
            self.bus.sample_phase = phases.1;
        }
        let before = core::mem::replace(&mut self.bus.mode, mode);
        self.bus.script.write(SD_CFG1, CFG1_MODE, mode);
        // The clock must be set again if the mode now halves it, or no longer does.
        let same = (before == CFG1_SD30) == (mode == CFG1_SD30) || self.bus.clock_hz == 0;
        same || self.bus.run_clock()
    }
}

//! Faults that strike the controller according to its plan of faults, and their lasting effects.

use super::bits::{host1, int, present};
use super::{NEVER, Sdhci, Timer};
use crate::faults::{Point, Strike};
use crate::slot::Core;

/// Lasting effects of faults, such as stuck lines or a lost sampling point.
#[derive(Default)]
pub(super) struct Hurt {
    /// Inhibit bits of the Present State register that stay set until a reset of everything.
    pub stuck: u32,
    /// Data lines that are stuck low, one bit for each line.
    pub lines: u8,
    /// Whether the sampling point that tuning has found is wrong now.
    pub drifted: bool,
    /// Time in ns of the last tuning.
    pub tuned_ns: u64,
    /// Whether the controller sends no command until the driver resets the CMD circuit.
    pub mute: bool,
    /// Whether the driver has written Clock Control, with the internal clock on, since the last
    /// command.
    pub clock_written: bool,
    /// Software reset bits that never clear themselves.
    pub resets: u8,
    /// Number of further reads of the interrupt status until an interrupt without a cause goes
    /// away.
    pub spurious: u32,
    /// Earliest time in ns at which the interrupt line can rise; `None`: no delay.
    pub held_ns: Option<u64>,
    /// Whether a fault gives the present task of the command queue engine a response error (the
    /// status bit RED) after the task was reported complete.
    pub red: bool,
    /// Bits of the interrupt status that a fault has delayed: the time in ns at which they are set,
    /// and the bits.
    late: Vec<(u64, u32)>,
}

impl Sdhci {
    /// Applies a fault whose effect is special to SDHCI controllers (stuck circuit or line, drift).
    /// Returns any other fault, which the caller has to apply; `None`: the fault was applied.
    pub(super) fn hurt_by(&mut self, point: Point, strike: Strike, now: u64) -> Option<Strike> {
        match strike {
            Strike::Stuck if matches!(point, Point::Command | Point::Response) => {
                self.hurt.stuck |= present::CMD_INHIBIT;
            }
            Strike::Stuck => self.hurt.stuck |= present::DAT_INHIBIT,
            Strike::Line(line) => self.hurt.lines |= 1u8.checked_shl(line.into()).unwrap_or(0),
            Strike::Drift => {
                self.hurt.drifted = true;
                self.refresh_bus(now);
            }
            other => return Some(other),
        }
        None
    }

    /// Returns whether data arrive damaged on the bus as it is: a line is stuck or missing, or the
    /// clock edge is wrong.
    pub(super) fn data_are_damaged(&self) -> bool {
        let mistakes = &self.config.mistakes;
        let used = u8::MAX >> (8 - self.slot.bus.width.clamp(1, 8));
        let unwired = mistakes.lines_wired != 0 && self.slot.bus.width > mistakes.lines_wired;
        let edge =
            mistakes.high_speed_breaks_reads && self.dat.read && self.regs.host1 & host1::HIGH_SPEED != 0;
        self.hurt.lines & used != 0 || unwired || edge
    }

    /// Returns whether the interrupt line may rise now; a fault may delay it.
    pub(super) fn line_obeys(&mut self, now: u64) -> bool {
        if let Some(until_ns) = self.hurt.held_ns {
            return now >= until_ns;
        }
        match self.strike(Point::Interrupt, now) {
            Some(Strike::Lost) => {
                self.slot.line.lose();
                return false;
            }
            Some(Strike::Late(ns)) => {
                let until_ns = now.saturating_add(ns);
                self.hurt.held_ns = Some(until_ns);
                self.set_timer(Timer::Line, until_ns);
                return false;
            }
            Some(Strike::Spurious(times)) => self.hurt.spurious = self.hurt.spurious.saturating_add(times),
            Some(Strike::Status(bits)) => {
                self.regs.status |= bits & self.regs.enable & !(int::CARD | int::ERROR);
            }
            _ => {}
        }
        true
    }

    /// Sets these bits of the interrupt status `late_ns` nanoseconds after `now`.
    pub(super) fn raise_after(&mut self, late_ns: u64, bits: u32, now: u64) {
        if late_ns == 0 {
            return self.raise(bits, now);
        }
        self.hurt.late.push((now.saturating_add(late_ns), bits));
        self.next_late_status();
    }

    pub(super) fn late_status(&mut self, now: u64) {
        let mut bits = 0;
        self.hurt.late.retain(|&(at_ns, late)| {
            let due = at_ns <= now;
            bits |= if due { late } else { 0 };
            !due
        });
        self.next_late_status();
        self.raise(bits, now);
    }

    /// Drops status bits that a fault has delayed, if they belong to a circuit that the driver
    /// resets.
    pub(super) fn forget_late(&mut self, bits: u32) {
        self.hurt.late.retain_mut(|late| {
            late.1 &= !bits;
            late.1 != 0
        });
        self.next_late_status();
    }

    fn next_late_status(&mut self) {
        let next = self.hurt.late.iter().map(|late| late.0).min();
        self.set_timer(Timer::Status, next.unwrap_or(NEVER));
    }
}

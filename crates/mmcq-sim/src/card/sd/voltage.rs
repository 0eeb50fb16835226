//! Voltage switch of an SD card, CMD11 [SD 4.2.4.2].
//!
//! After the response the card pulls CMD and DAT3 to DAT0 low. The host stops the clock, changes to
//! 1.8 V, waits at least 5 ms and starts the clock again. Within 1 ms the card then releases the
//! lines. Any other order leaves them low until a power cycle.

use super::super::BusState;
use crate::wire::{N_CR_CLK, RESPONSE_CLK};

const CLOCK_OFF_NS: u64 = 5_000_000;
/// Clocks after the end bit of the response at which the card pulls its lines low.
const LOW_CLK: u64 = 2;

/// State of a card's voltage switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voltage {
    /// The card signals at 3.3 V.
    High,
    /// CMD11 was answered: the card holds its lines low from this time in ns on. The clock still
    /// runs.
    Low(u64),
    /// The card holds its lines low, and the host has stopped the clock at this time in ns.
    Stopped(u64),
    /// The card signals at 1.8 V, and releases its lines at this time in ns.
    Switched(u64),
    /// The host did the steps in a wrong order, or a fault or quirk struck: the lines stay low
    /// until power-off.
    Failed,
}

impl Voltage {
    /// Begins the switch after CMD11, whose last bit came at `now_ns`.
    pub(crate) fn begin(bus: &BusState, now_ns: u64) -> Self {
        let clocks = N_CR_CLK + RESPONSE_CLK + LOW_CLK;
        let wait_ns = (clocks * 1_000_000_000).checked_div(bus.clock_hz.into()).unwrap_or_default();
        Self::Low(now_ns.saturating_add(wait_ns))
    }

    /// Advances the voltage switch at a change of the bus by the host, from the state `was` to the
    /// state `bus`. `release_ns`: time after the restart of the clock at which the card releases
    /// the lines.
    pub(crate) fn bus_changed(&mut self, was: &BusState, bus: &BusState, now_ns: u64, release_ns: u64) {
        *self = match *self {
            Self::Low(_) if bus.clock_hz == 0 => {
                if bus.signal18 && !was.signal18 {
                    // The host changed voltage and clock at the same time, so that a line changed
                    // its level at a clock edge.
                    Self::Failed
                } else {
                    Self::Stopped(now_ns)
                }
            }
            Self::Low(_) if bus.signal18 => Self::Failed,
            Self::Stopped(since_ns) if bus.clock_hz > 0 => {
                if bus.signal18 && now_ns >= since_ns.saturating_add(CLOCK_OFF_NS) {
                    Self::Switched(now_ns.saturating_add(release_ns))
                } else {
                    Self::Failed
                }
            }
            same => same,
        };
    }

    /// Returns whether the card holds CMD and DAT3 to DAT0 low.
    pub(crate) fn lines_low(&self, now_ns: u64) -> bool {
        match *self {
            Self::High => false,
            Self::Low(from_ns) => now_ns >= from_ns,
            Self::Stopped(_) | Self::Failed => true,
            Self::Switched(until_ns) => now_ns < until_ns,
        }
    }

    /// Returns whether the card takes no command: it is in the middle of the switch.
    pub(crate) fn is_deaf(&self, now_ns: u64) -> bool {
        matches!(self, Self::Low(_)) || self.lines_low(now_ns)
    }

    /// Returns whether the card signals at 1.8 V.
    pub(crate) fn is_18(&self) -> bool {
        matches!(self, Self::Switched(_))
    }
}

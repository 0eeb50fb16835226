//! Which timings host and card share, best first.

use super::Options;
use crate::host::{Caps, Timing, Width};

/// The timings that cannot be reached without this one, itself included, as bits.
pub(super) fn and_those_that_need(timing: Timing) -> u16 {
    let bit = Caps::timing_bit;
    match timing {
        // HS400 is entered from a tuned HS200.
        Timing::Hs200 => bit(Timing::Hs200) | bit(Timing::Hs400),
        other => bit(other),
    }
}

/// May this timing be tried?
pub(super) fn allowed(caps: &Caps, options: &Options, timing: Timing) -> bool {
    caps.can(timing) && options.without & Caps::timing_bit(timing) == 0
}

/// The clock for a timing whose own limit is `max_hz`.
pub(super) fn clock(caps: &Caps, options: &Options, max_hz: u32) -> u32 {
    max_hz.min(caps.clock_hz.1).min(options.max_clock_hz).max(caps.clock_hz.0)
}

/// The widest bus that all agree on.
pub(super) fn width(caps: &Caps, options: &Options, card: Width) -> Width {
    caps.width.min(options.max_width).min(card)
}

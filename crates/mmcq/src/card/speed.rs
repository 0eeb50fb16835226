//! Which timings host and card share, best first.

use super::{Card, Options};
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

/// Nothing faster than what this card has.
pub(super) fn no_faster(options: Options, card: &Card) -> Options {
    const FASTEST_FIRST: [Timing; Timing::COUNT] = [
        Timing::Hs400Es,
        Timing::Hs400,
        Timing::Hs200,
        Timing::Sdr104,
        Timing::Ddr52,
        Timing::Sdr50,
        Timing::Ddr50,
        Timing::Sdr25,
        Timing::Sdr12,
        Timing::HighSpeed,
        Timing::Legacy,
    ];
    let faster = FASTEST_FIRST.iter().take_while(|&&timing| timing != card.timing);
    let without = faster.fold(options.without, |bits, &timing| bits | Caps::timing_bit(timing));
    let narrow = (card.timing, card.width) == (Timing::Legacy, Width::W1);
    Options { without, max_width: if narrow { Width::W1 } else { options.max_width }, ..options }
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

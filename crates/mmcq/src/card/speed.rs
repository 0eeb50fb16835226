//! Bus timings that host and card share, the fastest first.

use super::link::Link;
use super::session::Session;
use super::{Card, Options};
use crate::host::{Caps, Host, Timing, Width};

/// Returns, as bits, `timing` and the timings to which a card can switch only from `timing`.
pub(super) fn and_those_that_need(timing: Timing) -> u16 {
    let bit = Caps::timing_bit;
    match timing {
        // The card reaches HS400 only from a tuned HS200.
        Timing::Hs200 => bit(Timing::Hs200) | bit(Timing::Hs400),
        other => bit(other),
    }
}

/// Returns options that also exclude all timings that are faster than the card's present one. A
/// card at legacy timing on one data line keeps one data line.
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

/// The limits of the bus that controller, board and program together allow.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    min_hz: u32,
    pub max_hz: u32,
    max_width: Width,
    /// Allowed timings, as the bits of [`Caps::timings`].
    pub timings: u16,
    /// Whether 1.8 V signaling is allowed.
    pub signal18: bool,
    /// Whether the signal lines always have 1.8 V and cannot be switched to 3.3 V.
    pub fixed18: bool,
}

/// The timings at 3.3 V without tuning, as the bits of [`Caps::timings`].
const PLAIN: u16 =
    Caps::timing_bit(Timing::Legacy) | Caps::timing_bit(Timing::HighSpeed) | Caps::timing_bit(Timing::Ddr52);

impl Bounds {
    pub fn of<L: Link>(session: &Session<L>, options: &Options) -> Self {
        let nothing = Bounds {
            min_hz: 0,
            max_hz: 0,
            max_width: Width::W1,
            timings: 0,
            signal18: false,
            fixed18: false,
        };
        session.link.ask_host(nothing, |host| {
            let caps = host.caps();
            Bounds {
                min_hz: caps.clock_hz.0,
                max_hz: caps.clock_hz.1.min(options.max_clock_hz),
                max_width: caps.width.min(options.max_width),
                timings: caps.timings
                    & !(options.without & !Caps::SDR50_TUNED)
                    & if L::TUNES { u16::MAX } else { PLAIN },
                signal18: L::TUNES && caps.signal18,
                fixed18: caps.signal18_fixed,
            }
        })
    }

    /// Returns whether controller, board and program allow this timing.
    pub fn allow(&self, timing: Timing) -> bool {
        self.timings & Caps::timing_bit(timing) != 0
    }

    /// Returns the clock in hertz for a timing that allows up to `max_hz`, within the limits of
    /// controller, board and program.
    pub fn clock(&self, max_hz: u32) -> u32 {
        max_hz.min(self.max_hz).max(self.min_hz)
    }

    /// Returns the largest bus width that card, controller and program allow.
    pub fn width(&self, card: Width) -> Width {
        self.max_width.min(card)
    }
}

//! Reports cards that are inserted or removed to the program.

use crate::api::{Stack, open};
use crate::platform::mmcq_platform;
use crate::turns::Turns;
use core::cell::Cell;

/// Largest number of events that one call reports. The next call reports later events.
const EVENTS_MAX: u32 = 4;

/// State of the card events of one controller. `told` says whether the program knows of a card, and
/// is accessed only while the lock of the stack is held.
pub(crate) struct CardEvents {
    told: Cell<bool>,
    /// Lets only one context at a time (a thread or an interrupt) report events.
    turns: Turns,
}

impl CardEvents {
    pub const fn new() -> Self {
        CardEvents { told: Cell::new(false), turns: Turns::new() }
    }

    /// Sets the state for a controller that was just opened: the program knows of no card.
    pub fn begin(&self) {
        self.told.set(false);
    }

    /// Returns true if the presence of a card that was last reported to the program is `present`,
    /// so that nothing is to be reported. Called while the lock of the stack is held.
    pub fn are_told(&self, present: bool) -> bool {
        self.told.get() == present
    }

    /// Reports to the program that a card was inserted or removed, if this happened since the last
    /// report.
    pub fn tell(&self, stack: &Stack, platform: &mmcq_platform) {
        if !platform.has_card_event() {
            return;
        }
        for _ in 0..EVENTS_MAX {
            if !self.turns.take() {
                return;
            }
            let changed = stack.with(|engine| {
                let present = engine.present();
                (self.told.replace(present) != present).then_some(present)
            });
            if let Some(present) = changed {
                platform.card_event(present);
            }
            let again = self.turns.give_back();
            if changed.is_none() && !again {
                return;
            }
        }
    }
}

/// Returns 1 if a card is in the slot, 0 if not, or an error code; `mmcq.h` has the contract.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
#[unsafe(no_mangle)]
pub extern "C" fn mmcq_card_present(host: u32) -> i32 {
    match open(host) {
        Ok((_, stack, _)) => stack.with(|engine| engine.present()).into(),
        Err(code) => code,
    }
}

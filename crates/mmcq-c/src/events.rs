//! Reports cards that are inserted or removed to the program.

use crate::api::{Stack, open};
use crate::platform::mmcq_platform;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

/// Largest number of events that one call reports. The next call reports later events.
const EVENTS_MAX: u32 = 4;

/// State of the card events of one controller. `told` says whether the program knows of a card, and
/// is accessed only while the lock of the stack is held.
pub(crate) struct CardEvents {
    told: Cell<bool>,
    /// Set while a call reports events. Another call during that time returns at once, and the
    /// first call reports its events too.
    telling: AtomicBool,
    again: AtomicBool,
}

impl CardEvents {
    pub const fn new() -> Self {
        CardEvents { told: Cell::new(false), telling: AtomicBool::new(false), again: AtomicBool::new(false) }
    }

    /// Sets the state for a controller that was just opened: the program knows of no card.
    pub fn begin(&self) {
        self.told.set(false);
    }

    /// Reports a card that was inserted or removed since the last report.
    pub fn tell(&self, stack: &Stack, platform: &mmcq_platform) {
        if !platform.has_card_event() {
            return;
        }
        for _ in 0..EVENTS_MAX {
            self.again.store(true, Ordering::Release);
            if self.telling.swap(true, Ordering::AcqRel) {
                return;
            }
            self.again.store(false, Ordering::Release);
            let changed = stack.with(|engine| {
                let present = engine.present();
                (self.told.replace(present) != present).then_some(present)
            });
            if let Some(present) = changed {
                platform.card_event(present);
            }
            self.telling.store(false, Ordering::Release);
            if changed.is_none() && !self.again.load(Ordering::Acquire) {
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

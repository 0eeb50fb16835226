//! What strikes the controller by its plan of faults, and what remains of it. Beside what is the same at every point: lost commands and interrupts;
//! responses lost, with a wrong CRC or with more bits; blocks lost, late, damaged or with a flipped bit; blocks written without a CRC
//! status.

use super::S3cSdi;
use crate::card::Card;
use crate::faults::{Point, Strike};

/// What is wrong with the controller for longer than a moment.
#[derive(Default)]
pub(super) struct Hurt {
    /// Every register reads as ones and ignores writes; the interrupt line is low.
    pub gone: bool,
    /// The card that was taken out.
    pub removed: Option<Box<dyn Card>>,
}

impl S3cSdi {
    /// An event at this point. What is the same at every point happens here; the rest is for the code that asks.
    pub(super) fn strike(&mut self, point: Point, now: u64) -> Option<Strike> {
        match self.faults.strike(point)? {
            Strike::Remove => {
                let card = self.take_card(now);
                self.hurt.removed = card.or(self.hurt.removed.take());
            }
            Strike::BrownOut => {
                self.card_busy_until = 0;
                let bus = self.bus;
                self.with_card(now, |card, now| {
                    card.power_cut(now);
                    card.bus_changed(&bus, now);
                });
            }
            Strike::Gone => self.hurt.gone = true,
            other => return Some(other),
        }
        None
    }
}

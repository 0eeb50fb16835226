//! Faults of the functions of an I/O card.

use super::IoCard;
use super::commands::flag;
use crate::faults::{Point, Strike};

/// Faults that strike one function of an I/O card.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sick {
    /// Whether the function has stopped answering, until the card is reset.
    pub(super) gone: bool,
    /// Number of further commands to the card for which the interrupt of the function stays
    /// asserted; `u32::MAX`: for ever.
    pub(super) storm: u32,
    /// Number of bytes that the function withholds: instead of these the host reads FFh, and gets
    /// them with later reads.
    pub(super) missing: u32,
}

impl IoCard {
    /// Lets a fault strike function `number`, of which the host reads (`read`) or writes the
    /// register `address`. Returns error flags of R5 if the access fails.
    pub(super) fn strike_function(
        &mut self,
        number: usize,
        address: u32,
        read: bool,
        now_ns: u64,
    ) -> Option<u8> {
        let slot = number.checked_sub(1).and_then(|place| self.slots.get_mut(place))?;
        match self.faults.strike(Point::Function)? {
            Strike::Lost => {
                slot.sick.gone = true;
                return Some(flag::FUNCTION_NUMBER);
            }
            Strike::Fail => return Some(flag::ERROR),
            Strike::Spurious(times) => slot.sick.storm = slot.sick.storm.max(times),
            Strike::Never => slot.sick.storm = u32::MAX,
            // A FIFO that holds fewer or more bytes than it reported.
            Strike::Astray(bytes) if bytes < 0 => slot.sick.missing = bytes.unsigned_abs(),
            Strike::Astray(bytes) if read => {
                for _ in 0..bytes.min(2048) {
                    slot.function.read(address, now_ns);
                }
            }
            Strike::BrownOut => self.trouble.dips = true,
            _ => {}
        }
        None
    }

    /// Counts a command to the card: an interrupt storm of the function ends after a number of
    /// commands.
    pub(super) fn calm_down(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.sick.storm != u32::MAX) {
            slot.sick.storm = slot.sick.storm.saturating_sub(1);
        }
    }
}

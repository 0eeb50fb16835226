//! The end of a request: which slots wait for a status, have ended, or are done and not reported.

use super::super::{Error, Kind};
use super::{Slots, State, bits};
use crate::sched::slot_set::SlotSet;

impl<const N: usize> Slots<N> {
    /// Returns the writes whose data the card has received, and whose result the card's next status
    /// will show. One bit for each slot.
    #[inline(always)]
    pub fn settling(&self) -> SlotSet {
        self.settling
    }

    #[inline(always)]
    pub fn is_settling(&self) -> bool {
        self.settling != 0
    }

    /// Lets a written request wait for the card's next status, which shows its result.
    #[inline(always)]
    pub fn await_status(&mut self, index: u8) {
        self.at_mut(index).state = State::Settling;
        self.settling |= 1 << index;
    }

    /// Empties the set of the requests that wait for the card's next status, and returns it.
    #[inline(always)]
    pub fn take_settling(&mut self) -> SlotSet {
        core::mem::take(&mut self.settling)
    }

    /// Removes a request from the set of requests that wait for the card's next status.
    pub fn stop_settling(&mut self, index: u8) {
        self.settling &= !(1 << index);
    }

    /// Ends a request whose result is known, and whose memory the controller does not use any more.
    #[inline(always)]
    pub fn end(&mut self, index: u8) {
        self.at_mut(index).state = State::Ended;
        self.ended |= 1 << index;
        self.owing &= !(1 << index);
    }

    #[inline(always)]
    pub fn have_ended(&self) -> bool {
        self.ended != 0
    }

    /// Returns whether the future of some ended request was dropped before the end, so that no
    /// client takes its result. An error of such a request must still be stored for the next flush.
    pub fn have_untold(&self) -> bool {
        bits(self.ended).any(|index| self.at(index).orphan())
    }

    /// Returns the set of the requests that have ended and are not complete yet, and clears the
    /// set. The caller completes them.
    #[inline(always)]
    pub fn take_ended(&mut self) -> SlotSet {
        core::mem::take(&mut self.ended)
    }

    /// Gives this error to the queued writes and erases of which a part is done, because the card
    /// could not write data of its cache. The lost data may be of that part. Without this error, a
    /// later flush could make such a request succeed.
    #[cold]
    pub fn fail_begun(&mut self, error: Error) {
        for slot in &mut self.slots {
            let begun = slot.state == State::Queued && slot.moved_blocks() != 0;
            if begun && matches!(slot.kind(), Kind::Write { .. } | Kind::Erase { .. }) {
                slot.answer(Err(error));
            }
        }
    }

    /// Stores this error as the answer to each queued or active write of which some blocks were
    /// already transferred. The write ends with this answer when its place in the queue is reached.
    /// Returns false if there is no such write.
    #[cold]
    pub fn fail_begun_writes(&mut self, error: Error) -> bool {
        let mut found = false;
        for slot in &mut self.slots {
            let begun = matches!(slot.state, State::Queued | State::Active) && slot.moved_blocks() != 0;
            if begun && matches!(slot.kind(), Kind::Write { .. }) {
                slot.answer(Err(error));
                found = true;
            }
        }
        found
    }

    /// Makes the completion of a request available to its client.
    #[inline(always)]
    pub fn complete(&mut self, index: u8) {
        self.at_mut(index).state = State::Done;
        self.unreported |= 1 << index;
    }

    #[inline(always)]
    pub fn have_unreported(&self) -> bool {
        self.unreported != 0
    }

    /// Returns the slots that have a completion and were not reported yet. Each is returned only
    /// one time.
    #[inline(always)]
    pub fn take_unreported(&mut self) -> SlotSet {
        core::mem::take(&mut self.unreported)
    }

    /// Returns the slots whose completion can be taken. For speed, free slots and slots with
    /// waiting requests are not examined.
    pub fn finished(&self) -> SlotSet {
        let waiting = self.reads | self.writes | self.barriers | self.ios | self.settling | self.ended;
        let others = Self::ALL & !(self.free | waiting);
        bits(others).filter(|&index| self.at(index).state == State::Done).fold(0, |set, i| set | 1 << i)
    }

    /// Removes a slot from the set of slots whose ended request must still be reported to the
    /// caller of the engine.
    #[inline(always)]
    pub fn forget_report(&mut self, index: u8) {
        self.unreported &= !(1 << index);
    }
}

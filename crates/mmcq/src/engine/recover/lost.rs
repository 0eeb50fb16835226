//! Loss of a status, and loss of the card: which requests end with an error.

use super::super::bus::Bus;
use super::super::order::Order;
use super::super::recover::Incident;
use super::super::slot::{Slots, State, bits};
use super::super::{Error, Kind};
use crate::host::{Auto, Fault, Host, Stage as FaultStage};
use crate::sched::Profile;
use crate::spec::command::Resp;
use crate::spec::response::R1;

impl Incident {
    /// Notes that the status of earlier writes may be lost with the response of the failed phase.
    /// Without recovery these writes are not sent again: the lost status counts as an error.
    pub fn note_lost_status<H: Host, P: Profile>(&mut self, bus: &Bus<H>) {
        // Data that continue a transfer have no response, unless their driver sends them with a
        // command of its own (a carrier). Such a driver reports a lost response as a failed command.
        // No driver of a bus in SPI mode has carriers.
        let carried = !H::ONE_LINE
            && matches!(self.failed.error(), Some(Error::Host(Fault { stage: FaultStage::Command, .. })));
        let sent = !H::CONTINUES || bus.phase().auto != Auto::Continue || carried;
        let lost = sent && bus.phase().command.resp != Resp::None;
        if P::RECOVERS {
            self.status_lost |= lost;
        } else if lost {
            self.failed.hear(R1::ERROR);
        }
    }

    /// Ends the writes that wait for a status, which will not come.
    #[cold]
    #[inline(never)]
    pub fn end_settling<const N: usize>(&mut self, slots: &mut Slots<N>, error: Error) {
        let redo = core::mem::take(&mut self.redo);
        for index in bits(slots.take_settling() | redo) {
            slots.end_with(index, Err(error));
        }
    }

    /// Removes from the set `doubted` those rewritten writes that have ended although no status of
    /// the card has shown their result. The engine waits no longer for these results.
    #[cold]
    pub fn forget_ended<const N: usize>(&mut self, slots: &Slots<N>) {
        for index in bits(self.doubted & !self.redo) {
            let slot = slots.at(index);
            let lives = matches!(slot.state(), State::Queued | State::Active | State::Settling);
            if !lives || !slot.redone() {
                self.doubted &= !(1 << index);
            }
        }
    }

    /// Ends every waiting request that needs the card.
    pub fn fail_queued<const N: usize, P: Profile>(
        &mut self,
        slots: &mut Slots<N>,
        order: &mut Order<P>,
        error: Error,
    ) {
        for index in bits(core::mem::take(&mut self.redo)) {
            slots.end_with(index, Err(error));
        }
        for index in 0..N as u8 {
            let slot = slots.at(index);
            let needs_card = !matches!(slot.kind(), Kind::Bus(_) | Kind::Pause { .. });
            if slot.state() == State::Queued && needs_card && !slot.urgent() {
                order.turn_down(slots, index, error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that the engine stops waiting for the result of a write that has ended with an error
    /// of the transfer, and not by a status of the card. It also stops waiting if the slot then
    /// gets another write.
    #[test]
    fn a_write_that_has_ended_is_not_in_doubt() {
        for rewritten in [true, false] {
            let mut slots = Slots::<4>::new();
            let mut incident = Incident::new();
            let index = slots.allocate().unwrap();
            incident.doubted = 1 << index;
            slots.at_mut(index).set_active();
            if rewritten {
                slots.at_mut(index).mark_rewritten();
            }
            incident.forget_ended(&slots);
            assert_eq!(incident.is_in_doubt(), rewritten);
            slots.end_with(index, Err(Error::Silent));
            incident.forget_ended(&slots);
            assert!(!incident.is_in_doubt());
        }
    }
}

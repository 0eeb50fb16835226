//! Loss of a status, and loss of the card. If the card was removed, waiting requests end with an
//! error. If it has lost its state, it is initialised again.

use super::super::bus::Bus;
use super::super::order::Order;
use super::super::phases::Stage;
use super::super::recover::Incident;
use super::super::slot::{Slots, State, bits};
use super::super::{Engine, Error, Kind};
use super::{RecoveryStep, ServiceRequest};
use crate::host::{Auto, Fault, Host, Stage as FaultStage};
use crate::sched::Profile;
use crate::sched::tasks::Why;
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

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Initialises the card again; data that were not yet on its medium are lost.
    pub(in super::super) fn recover_lost_card(&mut self, now_ns: u64) {
        if !P::RECOVERS {
            self.settle_pass();
            return self.answer(now_ns);
        }
        self.note_supply_loss();
        self.initialise_again(now_ns);
    }

    /// Requests that the supervisor initialises the card again or power-cycles it, although the
    /// card has not lost its state. Data in the card's cache get lost only by that initialisation,
    /// so they do not count as lost yet; [`recover_lost_card`](Self::recover_lost_card) counts
    /// them.
    pub(super) fn initialise_again(&mut self, now_ns: u64) {
        self.call_back_tasks(now_ns);
        self.settle_unknown();
        if self.incident.spend(RecoveryStep::Reinit) {
            self.ask_help(ServiceRequest::Reinit, now_ns);
        } else if self.incident.spend(RecoveryStep::PowerCycle) {
            self.ask_help(ServiceRequest::PowerCycle, now_ns);
        } else {
            self.dead(now_ns);
        }
    }

    /// Handles a card that is gone: every request that needs it fails now. A request that the
    /// controller has fails when the controller has stopped.
    pub(in super::super) fn removed(&mut self, now_ns: u64) {
        self.set_card_params(None);
        // A host without a card interrupt wakes the task by its polls.
        if P::RECOVERS || H::CARD_IRQ {
            self.card.functions_mut().note_card_gone();
        }
        self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Removed);
        self.incident.end_settling(&mut self.slots, Error::Removed);
        match self.lane.stage() {
            Stage::Idle if self.lane.engine_has_memory() => self.take_tasks_away(Why::Removed, now_ns),
            Stage::Idle | Stage::Bus | Stage::Pause => {}
            Stage::Recover(_) => self.incident.failed.with(Error::Removed),
            _ => self.lane.fail(&mut self.incident, Error::Removed),
        }
    }

    /// Stops the controller's DMA: the transfer in progress fails.
    pub(in super::super) fn stop_transfer(&mut self, now_ns: u64) {
        if self.lane.is_idle() && self.lane.engine_has_memory() {
            self.take_tasks_away(Why::Silent, now_ns);
        } else if !matches!(self.lane.stage(), Stage::Idle | Stage::Bus | Stage::Pause | Stage::Recover(_)) {
            self.lane.fail(&mut self.incident, Error::Silent);
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

//! Acknowledges and returns the ends of tasks, and other events of the command queue engine.

use super::super::events::{ACKNOWLEDGED, RARE, decode};
use super::super::phase::{Automatic, Work};
use super::super::regs::{ERRORS, ERRORS_COMMAND, INT_ERROR, INT_STATUS};
use super::regs::*;
use super::{At, Cqhci, CqhciQuirks};
use crate::host::{Cause, Dma, Events, QueueEvents, QueueFault, Regs, Stage};

/// Bits of the engine's interrupt status that the driver knows and clears.
const KNOWN: u32 = INT_HALT | INT_DONE | INT_RESPONSE | INT_CLEARED;

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const PIECES: usize> Cqhci<R, D, DESCRIPTORS, PIECES> {
    /// Acknowledges and returns the tasks that have certainly ended, one bit for each slot, if no
    /// other event occurred. With 0 no end was acknowledged, and the caller calls
    /// [`take_all`](Self::take_all).
    #[inline]
    pub(super) fn take_ends(&mut self) -> u32 {
        if self.at != At::On {
            return 0;
        }
        // Cleared before the ends are read, so that a later end interrupts again. The controller's
        // bit is cleared first: each event that comes then sets it again.
        if self.config.quirks.has(CqhciQuirks::LATCHED_STATUS) {
            self.host.port.write32(INT_STATUS, INT_QUEUE);
        }
        self.write(IS, INT_DONE);
        let done = self.read(TCN);
        let believed = self.slots.rung & !self.slots.doubtful & !(1 << DIRECT_SLOT);
        // Read after the ends: if no response had an error by now, none of the ended tasks had one.
        // Other events of the controller interrupt again.
        if done == 0 || done & !believed != 0 || self.read(IS) & KNOWN & !INT_DONE != 0 {
            return 0;
        }
        self.write(TCN, done);
        self.slots.rung &= !done;
        if self.coalesces {
            self.write(IC, IC_ENABLE | IC_RESET);
        }
        done
    }

    /// Acknowledges and returns all events.
    #[cold]
    #[inline(never)]
    pub(super) fn take_all(&mut self) -> QueueEvents {
        let mut events = QueueEvents::default();
        if self.at == At::Off {
            return events;
        }
        let own = self.has_lines();
        let status = if own { self.host.port.read32(INT_STATUS) } else { 0 };
        if status == u32::MAX && self.host.present_state().is_none() {
            events.fault = Some(self.leave_bus());
            return events;
        }
        if status & INT_QUEUE != 0 {
            // In most controllers the bit follows the engine's own status; in some it is latched.
            self.host.port.write32(INT_STATUS, INT_QUEUE);
        }
        let is = self.read(IS) & KNOWN;
        if is != 0 {
            self.write(IS, is);
        }
        if own {
            self.take_own(status, &mut events);
        }
        if self.at == At::Halting && (is & INT_HALT != 0 || self.is_halted()) {
            events.halted = true;
        }
        // Read the ends again after the halt, so that tasks that ended meanwhile count as done.
        self.take_done(&mut events);
        // A response may have had an error since the first read of the status.
        let late = self.read(IS) & INT_RESPONSE;
        if late != 0 {
            self.write(IS, late);
        }
        let errors = if own { status & ERRORS & self.host.shadow.enable } else { 0 };
        if errors != 0 || own && (is | late) & INT_RESPONSE != 0 {
            // The fault is read after the ends, so that a task that ended is not blamed.
            events.fault = Some(self.fault(errors, (is | late) & INT_RESPONSE != 0));
        }
        if events.halted {
            self.enter_halted();
        }
        self.look_for_clear(&mut events);
        events
    }

    /// Acknowledges the task ends that the engine reports.
    fn take_done(&mut self, events: &mut QueueEvents) {
        let told = self.read(TCN);
        if told == 0 {
            return;
        }
        self.write(TCN, told);
        // A halted engine ends no task. While the engine clears, it may report a cleared task as
        // ended.
        let clears = matches!(self.at, At::Clearing(_) | At::ClearingAll);
        let mut done = if clears { 0 } else { told & self.slots.rung };
        if done & self.slots.doubtful != 0 {
            // The engine clears the doorbell of a task when the task is done, and not earlier.
            let waits = self.read(TDBR) & self.slots.doubtful;
            done &= !waits;
        }
        self.slots.rung &= !done;
        self.slots.doubtful &= !done;
        events.done = done;
        events.stale = told & !done;
        if done >> DIRECT_SLOT & 1 == 1 && self.caps.is_ok_and(|caps| caps.direct.is_some()) {
            events.response = Some(self.read(CRDCT));
        }
        if self.coalesces {
            self.write(IC, IC_ENABLE | IC_RESET);
        }
    }

    /// Acknowledges the events of the SD controller that do not come from the engine; adds
    /// insertion or removal of the card, card interrupt and re-tuning to `events`.
    fn take_own(&mut self, status: u32, events: &mut QueueEvents) {
        if status & ACKNOWLEDGED & !INT_QUEUE != 0 {
            self.host.port.write32(INT_STATUS, status & ACKNOWLEDGED & !INT_QUEUE);
        }
        if status & RARE != 0 {
            let mut rare = Events::default();
            self.host.take_rare(status, &mut rare);
            (events.card_irq, events.presence, events.retune) = (rare.card_irq, rare.presence, rare.retune);
        }
    }

    /// Acknowledges and returns the events that belong to no command: card interrupt, insertion or
    /// removal of the card, re-tuning. Called by `ack` while the command queue engine uses the bus
    /// lines.
    pub(super) fn take_rare_alone(&mut self) -> Events {
        let mut events = Events::default();
        let status = self.host.port.read32(INT_STATUS) & RARE;
        if status != 0 && status != RARE {
            self.host.port.write32(INT_STATUS, status & ACKNOWLEDGED);
            self.host.take_rare(status, &mut events);
            events.acknowledged = true;
        }
        events
    }

    /// Returns the fault for the error bits `errors`. `responded` says that a response had an error
    /// bit, perhaps beside another fault.
    fn fault(&mut self, errors: u32, responded: bool) -> QueueFault {
        let blamed = self.read(TERRI);
        let half = |valid: u32, shift: u32| {
            let (index, slot) = ((blamed >> shift & 0x3f) as u8, (blamed >> (shift + 8) & 31) as u8);
            (blamed & valid != 0).then_some((index, slot))
        };
        let (command, data) = (half(TERRI_COMMAND, 0), half(TERRI_DATA, 16));
        let response = responded.then(|| self.read(CRA));
        if errors == 0 {
            return self.blame(Cause::Response, Stage::Command, command.or(data), response);
        }
        let (cause, stage) = decode(Work::Adma, Automatic::Nothing, errors & !INT_ERROR, 0);
        let of_command = errors & ERRORS_COMMAND != 0;
        self.blame(cause, stage, if of_command { command.or(data) } else { data.or(command) }, response)
    }

    /// Makes the report of a fault. `named`: command index and slot that the controller's registers
    /// name; the slot is in the report only if it has a task.
    fn blame(
        &self,
        cause: Cause,
        stage: Stage,
        named: Option<(u8, u8)>,
        response: Option<u32>,
    ) -> QueueFault {
        let slot = named.map(|(_, slot)| slot).filter(|&slot| self.slots.rung >> (slot & 31) & 1 == 1);
        QueueFault { cause, stage, index: named.map(|(index, _)| index), slot, response }
    }

    /// Drops all tasks, because the controller is gone from the bus (its registers read as all
    /// ones) and so accesses no memory. Returns the fault.
    fn leave_bus(&mut self) -> QueueFault {
        self.forget_tasks();
        self.host.idle = false;
        QueueFault { cause: Cause::Gone, stage: Stage::Command, index: None, slot: None, response: None }
    }
}

//! Faults that strike the command queue engine according to the plan of faults.

use super::bits::{DIRECT_SLOT, int};
use crate::faults::{Point, Strike};
use crate::sdhci::Sdhci;
use crate::slot::Core;

/// Mask of the field CIT in the send status configuration register (SSC1): the time between two
/// polls of the card's queue status by the command queue engine.
const PAUSE: u32 = 0xffff;

impl Sdhci {
    /// Rings the doorbells of `slots` (bit n for slot n) after a write to the doorbell register; a
    /// fault may lose them.
    pub(super) fn queue_rung(&mut self, slots: u32, now: u64) {
        let lost = self.strike(Point::Doorbell, now) == Some(Strike::Lost);
        if let Some(cqe) = self.cqe.as_mut().filter(|_| !lost) {
            cqe.ring(slots);
        }
    }

    /// Begins (`wanted`) or ends a halt after a write to the bit HALT of CQCTL. A fault may delay
    /// the halt.
    pub(super) fn queue_halts(&mut self, wanted: bool, now: u64) {
        let Some(cqe) = &mut self.cqe else { return };
        let before = cqe.halts();
        cqe.halt(wanted);
        if before || !cqe.halts() {
            return;
        }
        let until_ns = match self.strike(Point::Halt, now) {
            Some(Strike::Never) => u64::MAX,
            Some(Strike::Late(ns)) => now.saturating_add(ns),
            _ => return,
        };
        if let Some(cqe) = &mut self.cqe {
            cqe.hold_halt(until_ns);
        }
    }

    /// Clears all tasks after a write to the bit CLEAR_ALL of CQCTL; a fault may show them as
    /// complete.
    pub(super) fn queue_clears(&mut self, now: u64) {
        let stale = matches!(self.strike(Point::Clear, now), Some(Strike::Spurious(_)));
        if let Some(cqe) = &mut self.cqe {
            cqe.clear_all(stale);
        }
    }

    /// Handles the moment when the driver sets the bit ENABLE of CQCFG, which switches the command
    /// queue engine on. A fault may then change the time between two polls of the card's queue
    /// status by the engine.
    pub(super) fn queue_is_on(&mut self, now: u64) {
        let struck = self.strike(Point::Enable, now);
        if let (Some(Strike::Status(clocks)), Some(cqe)) = (struck, &mut self.cqe) {
            cqe.r.ssc1 = cqe.r.ssc1 & !PAUSE | clocks & PAUSE;
        }
    }

    /// Sets CQTERRI after an error: index and slot of the command on the CMD line, and of the data
    /// command. A fault may leave both out.
    pub(super) fn queue_blames(&mut self, command: Option<(u8, u8)>, data: Option<(u8, u8)>, now: u64) {
        let nothing = self.strike(Point::Blame, now) == Some(Strike::Lost);
        if let Some(cqe) = &mut self.cqe {
            cqe.blame(command.filter(|_| !nothing), data.filter(|_| !nothing));
        }
    }

    /// Lets a fault strike at the begin of a task's last block: the task may be reported complete
    /// too early, or get an error at its end.
    pub(super) fn queue_task_ends(&mut self, now: u64) {
        let moving = self.cqe.as_ref().and_then(|cqe| cqe.moving());
        let Some(slot) = moving.filter(|&slot| slot != DIRECT_SLOT || !self.queue_is_direct()) else {
            return;
        };
        let strike = self.strike(Point::TaskEnd, now);
        let Some(cqe) = &mut self.cqe else { return };
        match strike {
            Some(Strike::Early) => {
                cqe.done_early(slot);
                self.update_irq(now);
            }
            Some(Strike::Spurious(_)) => self.hurt.red = true,
            _ => {}
        }
    }

    fn queue_is_direct(&self) -> bool {
        self.cqe.as_ref().is_some_and(|cqe| cqe.direct())
    }

    /// Reports the response error that a fault has planned for a task, after the task is done.
    /// `data` has index and slot of the task's data command.
    pub(super) fn queue_task_is_done(&mut self, data: Option<(u8, u8)>, now: u64) {
        if std::mem::take(&mut self.hurt.red) {
            self.queue_blames(None, data, now);
            if let Some(cqe) = &mut self.cqe {
                cqe.raise(int::RED);
            }
        }
    }
}

//! What the controller is at: the stage of the transfer or request in progress, the phase that it has, and since when.

use super::awaited::Span;
use super::phases::{NO_PHASE, START_TIMEOUT_NS, Stage};
use crate::host::{Auto, Phase};

/// The one thing in progress.
#[derive(Debug)]
pub(super) struct Lane {
    stage: Stage,
    /// The phase that the controller has, or is about to get.
    phase: Phase,
    /// When it got it.
    began_ns: u64,
    /// The one before.
    last: Option<Span>,
    /// `phase` could not be started yet, since `began_ns`.
    blocked: bool,
}

impl Lane {
    pub const fn idle() -> Self {
        Lane { stage: Stage::Idle, phase: NO_PHASE, began_ns: 0, last: None, blocked: false }
    }

    #[inline(always)]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    #[inline(always)]
    pub fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    #[inline(always)]
    pub fn enter(&mut self, stage: Stage) {
        self.stage = stage;
    }

    #[inline(always)]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// This phase is the next that the controller gets.
    #[inline(always)]
    pub fn prepare(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// The controller has it.
    #[inline(always)]
    pub fn started(&mut self, now_ns: u64) {
        self.blocked = false;
        self.began_ns = now_ns;
        if self.phase.auto == Auto::Continue {
            message!(trace, "the transfer goes on");
        } else {
            message!(trace, "CMD{} {:#010x}", self.phase.command.index, self.phase.command.arg);
        }
    }

    /// The driver cannot start it now. True: it has said so for too long.
    #[inline(always)]
    pub fn refused(&mut self, now_ns: u64) -> bool {
        if !self.blocked {
            self.began_ns = now_ns;
        }
        let too_long = self.blocked && now_ns.saturating_sub(self.began_ns) >= START_TIMEOUT_NS;
        self.blocked |= !too_long;
        too_long
    }

    /// It is tried again, without an end.
    #[inline(always)]
    pub fn block(&mut self) {
        self.blocked = true;
    }

    /// It has failed, or is not to be started any more.
    #[inline(always)]
    pub fn unblock(&mut self) {
        self.blocked = false;
    }

    #[inline(always)]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Its end is known.
    #[inline(always)]
    pub fn note_end(&mut self, now_ns: u64) {
        self.last = Some(Span { phase: self.phase, began_ns: self.began_ns, ended_ns: now_ns });
    }

    #[inline(always)]
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    #[inline(always)]
    pub fn last(&self) -> Option<Span> {
        self.last
    }

    /// Does the controller move the data of a transfer?
    #[inline(always)]
    pub fn moves_data(&self) -> bool {
        self.stage == Stage::Main && !self.blocked && self.phase.data.is_some()
    }
}

//! What has failed: the error of the transfer in progress, what the card says of it, and how small
//! its pieces have become.

use super::super::Error;
use crate::host::{Cause, Stage};
use crate::spec::response::{R1, State};

/// The failure under way.
#[derive(Debug)]
// As in `Engine`: what most functions touch comes first.
#[repr(C)]
pub(in super::super) struct Failed {
    /// Status bits of the card since the failure, or since the busy that is watched began.
    status: u32,
    /// Blocks in a transfer at most, while a bad one is being looked for.
    piece_blocks: u32,
    error: Option<Error>,
}

impl Failed {
    pub const fn new() -> Failed {
        Failed { status: 0, piece_blocks: u32::MAX, error: None }
    }

    /// The transfer in progress fails with this.
    #[inline(always)]
    pub fn with(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Another transfer begins, or what failed has been answered.
    #[inline(always)]
    pub fn forget_error(&mut self) {
        self.error = None;
    }

    #[inline(always)]
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// The error that its requests are answered with, if recovery can do no more.
    #[inline(always)]
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// The card has said nothing yet.
    #[inline(always)]
    pub fn forget_status(&mut self) {
        self.status = 0;
    }

    /// Forgets what was judged before the failure. The errors that a busy card has told while it was
    /// watched, and in the order in progress, were not: it tells them once.
    pub fn forget_judged(&mut self, is_busy: bool, of_order: u32) {
        let of_busy = if is_busy { self.status } else { 0 };
        self.status = (of_busy | of_order) & R1::DEFERRED;
    }

    /// The card says this.
    #[inline(always)]
    pub fn hear(&mut self, status: u32) {
        self.status |= status;
    }

    /// Did the card take the command, and only the end of its busy was not seen? A controller that
    /// stayed silent does not know: then the card must have said that it programs.
    pub fn is_in_busy(&self) -> bool {
        match self.error() {
            Some(Error::Host(fault)) => fault.stage == Stage::Busy && fault.cause == Cause::Timeout,
            Some(Error::Silent) => R1(self.status).current_state() == State::Prg,
            _ => false,
        }
    }

    /// May the card be busy with the command?
    pub fn may_be_in_busy(&self) -> bool {
        self.is_in_busy() || matches!(self.error(), Some(Error::Silent))
    }

    /// All that it has said so far.
    #[inline(always)]
    pub fn status(&self) -> u32 {
        self.status
    }

    /// Transfers are no longer than this, until one has gone well.
    #[inline(always)]
    pub fn cut_to(&mut self, blocks: u32) {
        self.piece_blocks = blocks;
    }

    /// Lets pieces be as long as ever.
    #[inline(always)]
    pub fn make_whole(&mut self) {
        self.piece_blocks = u32::MAX;
    }

    #[inline(always)]
    pub fn piece_blocks(&self) -> u32 {
        self.piece_blocks
    }
}

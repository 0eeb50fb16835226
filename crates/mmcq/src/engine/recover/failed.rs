//! The failure of the transfer in progress: its error, the card's status, and how many blocks the
//! next try may transfer at a time.

use super::super::Error;
use crate::host::{Cause, Stage};
use crate::spec::response::{R1, State};

/// The failure that recovery handles now.
#[derive(Debug)]
// What most functions touch comes first, since short offsets make short instructions.
#[repr(C)]
pub(in super::super) struct Failed {
    /// Bits of all statuses (R1) that the card has sent since the failure, or since the card's
    /// present busy began.
    status: u32,
    /// Most blocks of a transfer while a bad block is being searched.
    piece_blocks: u32,
    error: Option<Error>,
}

impl Failed {
    pub const fn new() -> Failed {
        Failed { status: 0, piece_blocks: u32::MAX, error: None }
    }

    /// Sets the error of the transfer in progress.
    #[inline(always)]
    pub fn with(&mut self, error: Error) {
        self.error = Some(error);
    }

    /// Clears the error: another transfer begins, or the requests of the failed one have been
    /// answered.
    #[inline(always)]
    pub fn forget_error(&mut self) {
        self.error = None;
    }

    #[inline(always)]
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// Takes the error with which the requests end if recovery does not succeed; `None`: it was
    /// taken before.
    #[inline(always)]
    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Clears the status bits that the card's responses have reported since the failure.
    #[inline(always)]
    pub fn forget_status(&mut self) {
        self.status = 0;
    }

    /// Clears the status bits that the card has reported since the failure, because recovery has
    /// handled them. Errors that the card reports only once stay in two cases: with `is_busy` (the
    /// engine was polling a busy card) all of them, and always those in `of_order`, which the card
    /// reported while it was busy after a command.
    pub fn forget_judged(&mut self, is_busy: bool, of_order: u32) {
        let of_busy = if is_busy { self.status } else { 0 };
        self.status = (of_busy | of_order) & R1::DEFERRED;
    }

    /// Adds the bits of a status that the card has sent.
    #[inline(always)]
    pub fn hear(&mut self, status: u32) {
        self.status |= status;
    }

    /// Returns whether the card has accepted the command, and only the end of its busy is missing.
    /// If the controller stayed silent, the card itself must have reported that it programs.
    pub fn is_in_busy(&self) -> bool {
        match self.error() {
            Some(Error::Host(fault)) => fault.stage == Stage::Busy && fault.cause == Cause::Timeout,
            Some(Error::Silent) => R1(self.status).current_state() == State::Prg,
            _ => false,
        }
    }

    /// Returns whether the card may be busy with the failed command, as far as is known.
    pub fn may_be_in_busy(&self) -> bool {
        self.is_in_busy() || matches!(self.error(), Some(Error::Silent))
    }

    /// Returns all status bits that the card has sent since the failure; while recovery waits for
    /// the end of a busy, since that busy began.
    #[inline(always)]
    pub fn status(&self) -> u32 {
        self.status
    }

    /// Limits transfers to this many blocks, until one has gone well.
    #[inline(always)]
    pub fn cut_to(&mut self, blocks: u32) {
        self.piece_blocks = blocks;
    }

    /// Allows transfers of any length again. Recovery had limited the number of blocks in a
    /// transfer.
    #[inline(always)]
    pub fn make_whole(&mut self) {
        self.piece_blocks = u32::MAX;
    }

    #[inline(always)]
    pub fn piece_blocks(&self) -> u32 {
        self.piece_blocks
    }
}

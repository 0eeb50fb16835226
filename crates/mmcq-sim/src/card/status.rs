//! The card status of R1, with its clear conditions [SD 4.10.1] [eMMC 6.13].

/// The address or the length runs over the end of the card.
pub(crate) const OUT_OF_RANGE: u32 = 1 << 31;
/// The address does not fit the block length.
pub(crate) const ADDRESS_ERROR: u32 = 1 << 30;
/// The block length is not one the card takes.
pub(crate) const BLOCK_LEN_ERROR: u32 = 1 << 29;
/// Erase commands in the wrong order.
pub(crate) const ERASE_SEQ_ERROR: u32 = 1 << 28;
/// Wrong selection of erase blocks.
pub(crate) const ERASE_PARAM: u32 = 1 << 27;
/// A write to a protected place.
pub(crate) const WP_VIOLATION: u32 = 1 << 26;
/// The card is locked by a password.
pub(crate) const CARD_IS_LOCKED: u32 = 1 << 25;
/// A lock or unlock command failed.
pub(crate) const LOCK_UNLOCK_FAILED: u32 = 1 << 24;
/// The command before this one was illegal.
pub(crate) const ILLEGAL_COMMAND: u32 = 1 << 22;
/// The medium could not be read.
pub(crate) const CARD_ECC_FAILED: u32 = 1 << 21;
/// A general error.
pub(crate) const ERROR: u32 = 1 << 19;
/// A read-only part of CID or CSD would have been changed.
pub(crate) const CSD_OVERWRITE: u32 = 1 << 16;
/// Part of the erase was skipped because it is protected.
pub(crate) const WP_ERASE_SKIP: u32 = 1 << 15;
/// An erase sequence was cleared by another command.
pub(crate) const ERASE_RESET: u32 = 1 << 13;
/// All bits that report an error, without CURRENT_STATE and the bits of clear condition A.
pub(crate) const ERRORS: u32 = 0xfdf9_a000 & !CARD_IS_LOCKED;
/// The card can take data.
pub(crate) const READY_FOR_DATA: u32 = 1 << 8;
/// CMD6 was refused (eMMC).
pub(crate) const SWITCH_ERROR: u32 = 1 << 7;
/// The next command is taken as an application command.
pub(crate) const APP_CMD: u32 = 1 << 5;

/// The state of a card; the number is what CURRENT_STATE shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// After power-up or CMD0.
    Idle = 0,
    /// Operating conditions agreed.
    Ready = 1,
    /// CID sent.
    Ident = 2,
    /// Has an address, not selected.
    Stby = 3,
    /// Selected.
    Tran = 4,
    /// Sending data.
    Data = 5,
    /// Receiving data.
    Rcv = 6,
    /// Programming.
    Prg = 7,
    /// Programming while not selected.
    Dis = 8,
    /// Bus test (eMMC).
    Btst = 9,
    /// Sleep (eMMC).
    Slp = 10,
    /// Inactive: silent until the next power cycle.
    Ina = 15,
}

/// The status bits that survive a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    /// Errors of clear condition C: shown once in an R1, then cleared.
    errors: u32,
    /// Illegal command, of clear condition B: belongs to the command before, and is shown only in
    /// the next response.
    illegal: bool,
}

impl Status {
    /// Remembers error bits until they have been shown.
    pub(crate) fn raise(&mut self, bits: u32) {
        self.errors |= bits;
    }

    /// Records that the command just received was illegal.
    pub(crate) fn raise_illegal(&mut self) {
        self.illegal = true;
    }

    /// Returns the pending bits and clears them, when they are shown otherwise than by R1.
    pub(crate) fn take(&mut self) -> u32 {
        let pending = self.pending();
        *self = Self::default();
        pending
    }

    /// Returns the pending bits without clearing them.
    pub(crate) fn pending(&self) -> u32 {
        self.errors | if self.illegal { ILLEGAL_COMMAND } else { 0 }
    }

    /// Returns the content of an R1: pending bits, `live` (clear condition A) and the state. Clears
    /// the bits that are shown.
    pub(crate) fn r1(&mut self, state: State, live: u32) -> u32 {
        let content = self.pending() | live | (((state as u32) & 0xf) << 9);
        *self = Self::default();
        content
    }

    /// Handles a valid command with a response other than R1: ends condition B, not condition C.
    pub(crate) fn valid_command(&mut self) {
        self.illegal = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_once() {
        let mut status = Status::default();
        status.raise(OUT_OF_RANGE);
        status.raise_illegal();
        assert_eq!(status.r1(State::Tran, READY_FOR_DATA), 0x8040_0900);
        assert_eq!(status.r1(State::Tran, READY_FOR_DATA), 0x0000_0900);
    }

    #[test]
    fn another_answer_ends_illegal_but_keeps_errors() {
        let mut status = Status::default();
        status.raise(ERROR);
        status.raise_illegal();
        status.valid_command();
        assert_eq!(status.r1(State::Stby, 0), ERROR | 0x600);
    }
}

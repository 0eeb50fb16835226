//! The card status of R1, with its clear conditions [SD 4.10.1] [eMMC 6.13].

/// Error: the address or the length exceeds the capacity of the card.
pub(crate) const OUT_OF_RANGE: u32 = 1 << 31;
/// Error: the address is not a multiple of the block length.
pub(crate) const ADDRESS_ERROR: u32 = 1 << 30;
/// Error: the card does not support this block length.
pub(crate) const BLOCK_LEN_ERROR: u32 = 1 << 29;
/// Error: erase commands came in a wrong order.
pub(crate) const ERASE_SEQ_ERROR: u32 = 1 << 28;
/// Error: the selection of blocks for an erase is not valid.
pub(crate) const ERASE_PARAM: u32 = 1 << 27;
/// Error: a write to a protected address.
pub(crate) const WP_VIOLATION: u32 = 1 << 26;
/// Status: the card is locked by a password.
pub(crate) const CARD_IS_LOCKED: u32 = 1 << 25;
/// Error: a lock or unlock command failed.
pub(crate) const LOCK_UNLOCK_FAILED: u32 = 1 << 24;
/// Error: the command before this one was illegal.
pub(crate) const ILLEGAL_COMMAND: u32 = 1 << 22;
/// Error: the card could not read data from the flash.
pub(crate) const CARD_ECC_FAILED: u32 = 1 << 21;
/// Error: a general error, which no other bit describes.
pub(crate) const ERROR: u32 = 1 << 19;
/// Error: a write would have changed a read-only part of CID or CSD.
pub(crate) const CSD_OVERWRITE: u32 = 1 << 16;
/// Error: the erase skipped blocks that are write protected.
pub(crate) const WP_ERASE_SKIP: u32 = 1 << 15;
/// Status: another command ended a sequence of erase commands.
pub(crate) const ERASE_RESET: u32 = 1 << 13;
/// Status bits of an SD card that stay set until a response has shown them: the errors, and
/// ERASE_RESET. Bits of the present state, such as CURRENT_STATE and CARD_IS_LOCKED, are not in
/// this set.
pub(crate) const ERRORS: u32 = 0xfdf9_a000 & !CARD_IS_LOCKED;
/// Status: the card can receive data.
pub(crate) const READY_FOR_DATA: u32 = 1 << 8;
/// Error: the eMMC refused a CMD6.
pub(crate) const SWITCH_ERROR: u32 = 1 << 7;
/// Status: the card expects an application command next.
pub(crate) const APP_CMD: u32 = 1 << 5;

/// States of a card, with the numbers of the status field CURRENT_STATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// State after power-up or CMD0.
    Idle = 0,
    /// The card has accepted the operating conditions of the host (CMD1 or ACMD41).
    Ready = 1,
    /// The card has sent its CID (CMD2).
    Ident = 2,
    /// The card has an address and is not selected.
    Stby = 3,
    /// The card is selected and ready for a transfer.
    Tran = 4,
    /// The card sends data.
    Data = 5,
    /// The card receives data.
    Rcv = 6,
    /// The card programs, and is busy.
    Prg = 7,
    /// The card programs while it is not selected.
    Dis = 8,
    /// An eMMC is in a bus test (CMD19, CMD14).
    Btst = 9,
    /// An eMMC sleeps (CMD5).
    Slp = 10,
    /// Inactive: the card ignores all commands until the next power cycle.
    Ina = 15,
}

/// Status bits that stay pending until a response has sent them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    /// Error bits of clear condition C: an R1 shows them once and clears them.
    errors: u32,
    /// ILLEGAL_COMMAND, a bit of clear condition B: it reports on the command before, and only the
    /// next response shows it.
    illegal: bool,
}

impl Status {
    /// Stores error bits until a response has shown them.
    pub(crate) fn raise(&mut self, bits: u32) {
        self.errors |= bits;
    }

    /// Records the error "illegal command", which the card reports in its next status.
    pub(crate) fn raise_illegal(&mut self) {
        self.illegal = true;
    }

    /// Returns the pending error bits of the card status and clears them. It is called for a
    /// response that is not an R1.
    pub(crate) fn take(&mut self) -> u32 {
        let pending = self.pending();
        *self = Self::default();
        pending
    }

    /// Returns the pending bits without clearing them.
    pub(crate) fn pending(&self) -> u32 {
        self.errors | if self.illegal { ILLEGAL_COMMAND } else { 0 }
    }

    /// Returns the content of an R1: the pending bits, `live` (bits of clear condition A) and the
    /// state. Clears the bits that it shows.
    pub(crate) fn r1(&mut self, state: State, live: u32) -> u32 {
        let content = self.pending() | live | (((state as u32) & 0xf) << 9);
        *self = Self::default();
        content
    }

    /// Clears ILLEGAL_COMMAND (clear condition B) at a legal command whose response is not R1. The
    /// bits of clear condition C stay.
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

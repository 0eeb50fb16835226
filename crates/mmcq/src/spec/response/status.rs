//! The card status, as in R1 [SD 4.10.1], [eMMC 6.13].

use super::bit;
use core::fmt;

/// The state of a card [SD 4.1], [eMMC 6.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// 0: before identification.
    Idle,
    /// 1: powered up, waiting for CMD2.
    Ready,
    /// 2: waiting for its address.
    Ident,
    /// 3: stand-by, not selected.
    Stby,
    /// 4: transfer, selected and free.
    Tran,
    /// 5: sending data.
    Data,
    /// 6: receiving data.
    Rcv,
    /// 7: programming.
    Prg,
    /// 8: programming, not selected.
    Dis,
    /// 9, eMMC: bus test.
    Btst,
    /// 10, eMMC: sleep.
    Slp,
    /// 11 to 15; 15 is what I/O cards send.
    Reserved(u8),
}

impl State {
    /// Returns the state with this number, of which the low four bits count.
    pub const fn from_number(number: u8) -> Self {
        match number & 0xf {
            0 => State::Idle,
            1 => State::Ready,
            2 => State::Ident,
            3 => State::Stby,
            4 => State::Tran,
            5 => State::Data,
            6 => State::Rcv,
            7 => State::Prg,
            8 => State::Dis,
            9 => State::Btst,
            10 => State::Slp,
            other => State::Reserved(other),
        }
    }

    /// Returns its number.
    pub const fn number(self) -> u8 {
        match self {
            State::Idle => 0,
            State::Ready => 1,
            State::Ident => 2,
            State::Stby => 3,
            State::Tran => 4,
            State::Data => 5,
            State::Rcv => 6,
            State::Prg => 7,
            State::Dis => 8,
            State::Btst => 9,
            State::Slp => 10,
            State::Reserved(other) => other & 0xf,
        }
    }

    /// Returns the standards' short name.
    pub const fn name(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Ready => "ready",
            State::Ident => "ident",
            State::Stby => "stby",
            State::Tran => "tran",
            State::Data => "data",
            State::Rcv => "rcv",
            State::Prg => "prg",
            State::Dis => "dis",
            State::Btst => "btst",
            State::Slp => "slp",
            State::Reserved(_) => "reserved",
        }
    }
}

/// The card status.
///
/// The standards define for each bit when it is set and when it is cleared. The error bits are
/// divided into three sets without overlap, together [`R1::ERRORS`]: [`R1::OWN`], [`R1::PREVIOUS`],
/// [`R1::DEFERRED`]. A bit that can be set both before the response and after it (type "R X") is
/// deferred if programming can set it, since then it may belong to another request's data.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct R1(pub u32);

/// Names of the status's bits, for both standards.
const NAMES: [(u32, &str); 22] = [
    (R1::OUT_OF_RANGE, "OUT_OF_RANGE"),
    (R1::ADDRESS_ERROR, "ADDRESS_ERROR"),
    (R1::BLOCK_LEN_ERROR, "BLOCK_LEN_ERROR"),
    (R1::ERASE_SEQ_ERROR, "ERASE_SEQ_ERROR"),
    (R1::ERASE_PARAM, "ERASE_PARAM"),
    (R1::WP_VIOLATION, "WP_VIOLATION"),
    (R1::CARD_IS_LOCKED, "CARD_IS_LOCKED"),
    (R1::LOCK_UNLOCK_FAILED, "LOCK_UNLOCK_FAILED"),
    (R1::COM_CRC_ERROR, "COM_CRC_ERROR"),
    (R1::ILLEGAL_COMMAND, "ILLEGAL_COMMAND"),
    (R1::CARD_ECC_FAILED, "CARD_ECC_FAILED"),
    (R1::CC_ERROR, "CC_ERROR"),
    (R1::ERROR, "ERROR"),
    (R1::CID_CSD_OVERWRITE, "CID_CSD_OVERWRITE"),
    (R1::WP_ERASE_SKIP, "WP_ERASE_SKIP"),
    (R1::CARD_ECC_DISABLED, "CARD_ECC_DISABLED"),
    (R1::ERASE_RESET, "ERASE_RESET"),
    (R1::READY_FOR_DATA, "READY_FOR_DATA"),
    (R1::SWITCH_ERROR, "SWITCH_ERROR"),
    (R1::EXCEPTION_EVENT, "EXCEPTION_EVENT"),
    (R1::APP_CMD, "APP_CMD"),
    (R1::AKE_SEQ_ERROR, "AKE_SEQ_ERROR"),
];

impl R1 {
    /// The argument points past the end of the card.
    pub const OUT_OF_RANGE: u32 = 1 << 31;
    /// The address is not aligned to the block length (eMMC: `ADDRESS_MISALIGN`).
    pub const ADDRESS_ERROR: u32 = 1 << 30;
    /// The block length is not allowed, or the data's length did not fit it.
    pub const BLOCK_LEN_ERROR: u32 = 1 << 29;
    /// The erase commands came in the wrong order.
    pub const ERASE_SEQ_ERROR: u32 = 1 << 28;
    /// The erase range is not valid.
    pub const ERASE_PARAM: u32 = 1 << 27;
    /// A write met a protected block.
    pub const WP_VIOLATION: u32 = 1 << 26;
    /// Status: the card is locked.
    pub const CARD_IS_LOCKED: u32 = 1 << 25;
    /// A lock or unlock command failed.
    pub const LOCK_UNLOCK_FAILED: u32 = 1 << 24;
    /// The CRC of the previous command was wrong.
    pub const COM_CRC_ERROR: u32 = 1 << 23;
    /// The previous command was not legal in its state.
    pub const ILLEGAL_COMMAND: u32 = 1 << 22;
    /// The card's ECC could not correct the data.
    pub const CARD_ECC_FAILED: u32 = 1 << 21;
    /// Error in the card's controller.
    pub const CC_ERROR: u32 = 1 << 20;
    /// General or unknown error.
    pub const ERROR: u32 = 1 << 19;
    /// CSD or CID could not be written (SD: `CSD_OVERWRITE`).
    pub const CID_CSD_OVERWRITE: u32 = 1 << 16;
    /// Protected blocks were left out of an erase.
    pub const WP_ERASE_SKIP: u32 = 1 << 15;
    /// Status, SD: the command ran without the card's ECC.
    pub const CARD_ECC_DISABLED: u32 = 1 << 14;
    /// An erase sequence was dropped because another command came in between. Not an error: nothing
    /// was erased, no data are lost, and CMD38 then fails with
    /// [`ERASE_SEQ_ERROR`](Self::ERASE_SEQ_ERROR).
    pub const ERASE_RESET: u32 = 1 << 13;
    /// Status: the buffer is empty.
    pub const READY_FOR_DATA: u32 = 1 << 8;
    /// eMMC: CMD6 did not do the switch.
    pub const SWITCH_ERROR: u32 = 1 << 7;
    /// Status: an event has happened; eMMC has the details in EXT_CSD, SD (`FX_EVENT`) in an
    /// extension register.
    pub const EXCEPTION_EVENT: u32 = 1 << 6;
    /// Status: the next command is taken as an application command, or this one was.
    pub const APP_CMD: u32 = 1 << 5;
    /// SD: error in the order of the authentication.
    pub const AKE_SEQ_ERROR: u32 = 1 << 3;

    /// Errors of this very command: the card checks them before its response, and refuses. In the
    /// response to CMD12 or CMD13 they belong to the transfer before; an open-ended read up to the
    /// card's last block may leave `OUT_OF_RANGE` there although all its data are good [SD 4.3.3].
    pub const OWN: u32 = Self::OUT_OF_RANGE
        | Self::ADDRESS_ERROR
        | Self::BLOCK_LEN_ERROR
        | Self::ERASE_SEQ_ERROR
        | Self::ERASE_PARAM
        | Self::AKE_SEQ_ERROR;

    /// Errors of the command before this one (clear condition B): the card did not answer that one.
    pub const PREVIOUS: u32 = Self::COM_CRC_ERROR | Self::ILLEGAL_COMMAND;

    /// Errors of an earlier data transfer, programming, erase or switch; the command whose response
    /// has them may have nothing to do with them. Reading clears them (condition C; `SWITCH_ERROR`:
    /// B), so the code that reads them first must keep them:
    /// - `WP_VIOLATION`: found block by block, while the data of a write come in;
    /// - `LOCK_UNLOCK_FAILED`: CMD42 is checked after its data, long after its response;
    /// - `CARD_ECC_FAILED`, `CC_ERROR`, `ERROR`: found by the read ahead, or by the programming
    ///   behind;
    /// - `CID_CSD_OVERWRITE`: CMD26 and CMD27 compare after their data;
    /// - `WP_ERASE_SKIP`: known when the erase is over;
    /// - `SWITCH_ERROR`: found in the busy after CMD6's response.
    pub const DEFERRED: u32 = Self::WP_VIOLATION
        | Self::LOCK_UNLOCK_FAILED
        | Self::CARD_ECC_FAILED
        | Self::CC_ERROR
        | Self::ERROR
        | Self::CID_CSD_OVERWRITE
        | Self::WP_ERASE_SKIP
        | Self::SWITCH_ERROR;

    /// All error bits. If reserved bits may be other than 0, mask
    /// [`SWITCH_ERROR`](Self::SWITCH_ERROR) on SD, and [`AKE_SEQ_ERROR`](Self::AKE_SEQ_ERROR) on
    /// eMMC. Bits 18 and 17 (eMMC: underrun and overrun, obsolete; SD: reserved) do not count.
    pub const ERRORS: u32 = Self::OWN | Self::PREVIOUS | Self::DEFERRED;

    const fn has(self, mask: u32) -> bool {
        self.0 & mask != 0
    }

    /// [`R1::OUT_OF_RANGE`].
    pub const fn out_of_range(self) -> bool {
        self.has(Self::OUT_OF_RANGE)
    }

    /// [`R1::ADDRESS_ERROR`].
    pub const fn address_error(self) -> bool {
        self.has(Self::ADDRESS_ERROR)
    }

    /// [`R1::BLOCK_LEN_ERROR`].
    pub const fn block_len_error(self) -> bool {
        self.has(Self::BLOCK_LEN_ERROR)
    }

    /// [`R1::ERASE_SEQ_ERROR`].
    pub const fn erase_seq_error(self) -> bool {
        self.has(Self::ERASE_SEQ_ERROR)
    }

    /// [`R1::ERASE_PARAM`].
    pub const fn erase_param(self) -> bool {
        self.has(Self::ERASE_PARAM)
    }

    /// [`R1::WP_VIOLATION`].
    pub const fn wp_violation(self) -> bool {
        self.has(Self::WP_VIOLATION)
    }

    /// [`R1::CARD_IS_LOCKED`].
    pub const fn card_is_locked(self) -> bool {
        self.has(Self::CARD_IS_LOCKED)
    }

    /// [`R1::LOCK_UNLOCK_FAILED`].
    pub const fn lock_unlock_failed(self) -> bool {
        self.has(Self::LOCK_UNLOCK_FAILED)
    }

    /// [`R1::COM_CRC_ERROR`].
    pub const fn com_crc_error(self) -> bool {
        self.has(Self::COM_CRC_ERROR)
    }

    /// [`R1::ILLEGAL_COMMAND`].
    pub const fn illegal_command(self) -> bool {
        self.has(Self::ILLEGAL_COMMAND)
    }

    /// [`R1::CARD_ECC_FAILED`].
    pub const fn card_ecc_failed(self) -> bool {
        self.has(Self::CARD_ECC_FAILED)
    }

    /// [`R1::CC_ERROR`].
    pub const fn cc_error(self) -> bool {
        self.has(Self::CC_ERROR)
    }

    /// [`R1::ERROR`].
    pub const fn error(self) -> bool {
        self.has(Self::ERROR)
    }

    /// [`R1::CID_CSD_OVERWRITE`].
    pub const fn cid_csd_overwrite(self) -> bool {
        self.has(Self::CID_CSD_OVERWRITE)
    }

    /// [`R1::WP_ERASE_SKIP`].
    pub const fn wp_erase_skip(self) -> bool {
        self.has(Self::WP_ERASE_SKIP)
    }

    /// [`R1::CARD_ECC_DISABLED`].
    pub const fn card_ecc_disabled(self) -> bool {
        self.has(Self::CARD_ECC_DISABLED)
    }

    /// [`R1::ERASE_RESET`].
    pub const fn erase_reset(self) -> bool {
        self.has(Self::ERASE_RESET)
    }

    /// Returns the state in which the card received the command; the state after it may differ.
    pub const fn current_state(self) -> State {
        State::from_number((self.0 >> 9 & 0xf) as u8)
    }

    /// [`R1::READY_FOR_DATA`].
    pub const fn ready_for_data(self) -> bool {
        bit(self.0, 8)
    }

    /// [`R1::SWITCH_ERROR`].
    pub const fn switch_error(self) -> bool {
        self.has(Self::SWITCH_ERROR)
    }

    /// [`R1::EXCEPTION_EVENT`].
    pub const fn exception_event(self) -> bool {
        self.has(Self::EXCEPTION_EVENT)
    }

    /// [`R1::APP_CMD`].
    pub const fn app_cmd(self) -> bool {
        self.has(Self::APP_CMD)
    }

    /// [`R1::AKE_SEQ_ERROR`].
    pub const fn ake_seq_error(self) -> bool {
        self.has(Self::AKE_SEQ_ERROR)
    }

    /// Returns all error bits; 0: no error.
    pub const fn errors(self) -> u32 {
        self.0 & Self::ERRORS
    }

    /// Returns whether the card is free for the next data command: the state is tran and the buffer
    /// empty.
    pub const fn idle_in_tran(self) -> bool {
        matches!(self.current_state(), State::Tran) && self.ready_for_data()
    }
}

impl fmt::Debug for R1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("R1(")?;
        f.write_str(self.current_state().name())?;
        let mut unnamed = self.0 & !0x1e00;
        for (mask, name) in NAMES {
            if self.0 & mask != 0 {
                write!(f, " {name}")?;
                unnamed &= !mask;
            }
        }
        if unnamed != 0 {
            write!(f, " {unnamed:#x}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn everyday_status() {
        let r1 = R1(0x900);
        assert_eq!(r1.current_state(), State::Tran);
        assert!(r1.ready_for_data() && r1.idle_in_tran());
        assert_eq!(r1.errors(), 0);
        assert_eq!(format!("{r1:?}"), "R1(tran READY_FOR_DATA)");
        assert_eq!(format!("{:?}", R1(0x120)), "R1(idle READY_FOR_DATA APP_CMD)");
        assert!(!R1(0xe00).idle_in_tran());
        assert_eq!(format!("{:?}", R1(0x0008_0e04)), "R1(prg ERROR 0x4)");
    }

    #[test]
    fn three_sets_of_errors_do_not_overlap() {
        assert_eq!(R1::OWN & R1::PREVIOUS, 0);
        assert_eq!(R1::OWN & R1::DEFERRED, 0);
        assert_eq!(R1::PREVIOUS & R1::DEFERRED, 0);
        // Every named bit is either an error or one of the six that are none.
        let states = R1::CARD_IS_LOCKED
            | R1::CARD_ECC_DISABLED
            | R1::ERASE_RESET
            | R1::READY_FOR_DATA
            | R1::EXCEPTION_EVENT
            | R1::APP_CMD;
        assert_eq!(NAMES.iter().fold(0, |all, (mask, _)| all | mask), R1::ERRORS | states);
        assert_eq!(R1::ERRORS & states, 0);
    }

    #[test]
    fn states_and_numbers() {
        for number in 0..16 {
            assert_eq!(State::from_number(number).number(), number);
        }
        assert_eq!(State::from_number(11), State::Reserved(11));
    }
}

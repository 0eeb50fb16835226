//! The card status, as in the R1 response [SD 4.10.1], [eMMC 6.13].

use super::bit;
use core::fmt;

/// The state of a card (CURRENT_STATE) [SD 4.1], [eMMC 6.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `idle` (0): before identification.
    Idle,
    /// `ready` (1): powered up, waits for CMD2.
    Ready,
    /// `ident` (2): identified by CMD2, waits for its relative address (CMD3).
    Ident,
    /// `stby` (3): stand-by, not selected.
    Stby,
    /// `tran` (4): selected, and ready for a data command.
    Tran,
    /// `data` (5): sends data.
    Data,
    /// `rcv` (6): receives data.
    Rcv,
    /// `prg` (7): programs data.
    Prg,
    /// `dis` (8): programs data, and is not selected.
    Dis,
    /// `btst` (9), eMMC: bus test.
    Btst,
    /// `slp` (10), eMMC: sleep.
    Slp,
    /// State number 11 to 15, which the standard reserves; I/O cards send 15.
    Reserved(u8),
}

impl State {
    /// Returns the state with this number; only the low four bits count.
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

    /// Returns the state's number in R1, 0 to 15.
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

    /// Returns the short name of the state in the standards, such as `tran`.
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
/// The standards define when each bit is set and cleared. [`R1::ERRORS`] has all error bits. The
/// error bits are divided into three sets without overlap: [`R1::OWN`], [`R1::PREVIOUS`] and
/// [`R1::DEFERRED`]. The standards let some bits be set both before and after the response (type "R
/// X"). Such a bit is in the deferred set if programming can set it, since it may then belong to
/// another request's data.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct R1(pub u32);

/// Names of the status bits in both standards.
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
    /// The argument of the command points past the end of the card.
    pub const OUT_OF_RANGE: u32 = 1 << 31;
    /// The address is not aligned to the block length (eMMC: `ADDRESS_MISALIGN`).
    pub const ADDRESS_ERROR: u32 = 1 << 30;
    /// The block length is not allowed, or the length of the data does not match it.
    pub const BLOCK_LEN_ERROR: u32 = 1 << 29;
    /// The erase commands came in the wrong order.
    pub const ERASE_SEQ_ERROR: u32 = 1 << 28;
    /// The erase range is not valid.
    pub const ERASE_PARAM: u32 = 1 << 27;
    /// The command tried to write a protected block.
    pub const WP_VIOLATION: u32 = 1 << 26;
    /// No error: the card is locked by a password.
    pub const CARD_IS_LOCKED: u32 = 1 << 25;
    /// A lock or unlock command failed.
    pub const LOCK_UNLOCK_FAILED: u32 = 1 << 24;
    /// The card received the previous command with a wrong CRC.
    pub const COM_CRC_ERROR: u32 = 1 << 23;
    /// The previous command was not legal in the card's state.
    pub const ILLEGAL_COMMAND: u32 = 1 << 22;
    /// The card's ECC could not correct the data.
    pub const CARD_ECC_FAILED: u32 = 1 << 21;
    /// An error inside the card's controller.
    pub const CC_ERROR: u32 = 1 << 20;
    /// A general or unknown error.
    pub const ERROR: u32 = 1 << 19;
    /// The CSD or CID could not be written (SD: `CSD_OVERWRITE`).
    pub const CID_CSD_OVERWRITE: u32 = 1 << 16;
    /// The erase left out protected blocks.
    pub const WP_ERASE_SKIP: u32 = 1 << 15;
    /// No error, SD: the card executed the command without its internal ECC.
    pub const CARD_ECC_DISABLED: u32 = 1 << 14;
    /// The card dropped an erase sequence, because another command came in between. Not an error:
    /// nothing was erased and no data are lost. A CMD38 that follows fails with
    /// [`ERASE_SEQ_ERROR`](Self::ERASE_SEQ_ERROR).
    pub const ERASE_RESET: u32 = 1 << 13;
    /// No error: the card's buffer is empty, so the card is ready for data.
    pub const READY_FOR_DATA: u32 = 1 << 8;
    /// eMMC: CMD6 did not execute the switch.
    pub const SWITCH_ERROR: u32 = 1 << 7;
    /// No error: an exception event has happened. eMMC has the details in EXT_CSD, SD (`FX_EVENT`)
    /// in an extension register.
    pub const EXCEPTION_EVENT: u32 = 1 << 6;
    /// No error: the card takes the next command as an application command, or has taken this one
    /// as such.
    pub const APP_CMD: u32 = 1 << 5;
    /// SD: error in the order of the authentication commands.
    pub const AKE_SEQ_ERROR: u32 = 1 << 3;

    /// Errors of the command itself: the card checks them before its response, and then refuses the
    /// command. In the response to CMD12 or CMD13 they belong to the transfer before. After an
    /// open-ended read up to the card's last block `OUT_OF_RANGE` may be set although all data are
    /// good [SD 4.3.3].
    pub const OWN: u32 = Self::OUT_OF_RANGE
        | Self::ADDRESS_ERROR
        | Self::BLOCK_LEN_ERROR
        | Self::ERASE_SEQ_ERROR
        | Self::ERASE_PARAM
        | Self::AKE_SEQ_ERROR;

    /// Errors of the command before this one (clear condition B); the card sent no response to that
    /// command.
    pub const PREVIOUS: u32 = Self::COM_CRC_ERROR | Self::ILLEGAL_COMMAND;

    /// Errors of an earlier data transfer, programming, erase or switch. Such errors may have
    /// nothing to do with the command whose response shows them. Reading clears the bits (condition
    /// C; `SWITCH_ERROR`: B), so the code that reads them first must store them:
    /// - `WP_VIOLATION`: detected block by block, while the card receives the data of a write;
    /// - `LOCK_UNLOCK_FAILED`: CMD42 is checked after its data, long after its response;
    /// - `CARD_ECC_FAILED`, `CC_ERROR`, `ERROR`: detected while the card reads ahead, or while it
    ///   programs;
    /// - `CID_CSD_OVERWRITE`: CMD26 and CMD27 compare after their data;
    /// - `WP_ERASE_SKIP`: known when the erase has ended;
    /// - `SWITCH_ERROR`: detected in the busy after CMD6's response.
    pub const DEFERRED: u32 = Self::WP_VIOLATION
        | Self::LOCK_UNLOCK_FAILED
        | Self::CARD_ECC_FAILED
        | Self::CC_ERROR
        | Self::ERROR
        | Self::CID_CSD_OVERWRITE
        | Self::WP_ERASE_SKIP
        | Self::SWITCH_ERROR;

    /// All error bits. If a card may set reserved bits, mask [`SWITCH_ERROR`](Self::SWITCH_ERROR)
    /// on SD, and [`AKE_SEQ_ERROR`](Self::AKE_SEQ_ERROR) on eMMC. Bits 18 and 17 are not included
    /// (eMMC: underrun and overrun, obsolete; SD: reserved).
    pub const ERRORS: u32 = Self::OWN | Self::PREVIOUS | Self::DEFERRED;

    const fn has(self, mask: u32) -> bool {
        self.0 & mask != 0
    }

    /// Returns whether [`R1::OUT_OF_RANGE`] is set.
    pub const fn out_of_range(self) -> bool {
        self.has(Self::OUT_OF_RANGE)
    }

    /// Returns whether [`R1::ADDRESS_ERROR`] is set.
    pub const fn address_error(self) -> bool {
        self.has(Self::ADDRESS_ERROR)
    }

    /// Returns whether [`R1::BLOCK_LEN_ERROR`] is set.
    pub const fn block_len_error(self) -> bool {
        self.has(Self::BLOCK_LEN_ERROR)
    }

    /// Returns whether [`R1::ERASE_SEQ_ERROR`] is set.
    pub const fn erase_seq_error(self) -> bool {
        self.has(Self::ERASE_SEQ_ERROR)
    }

    /// Returns whether [`R1::ERASE_PARAM`] is set.
    pub const fn erase_param(self) -> bool {
        self.has(Self::ERASE_PARAM)
    }

    /// Returns whether [`R1::WP_VIOLATION`] is set.
    pub const fn wp_violation(self) -> bool {
        self.has(Self::WP_VIOLATION)
    }

    /// Returns whether [`R1::CARD_IS_LOCKED`] is set.
    pub const fn card_is_locked(self) -> bool {
        self.has(Self::CARD_IS_LOCKED)
    }

    /// Returns whether [`R1::LOCK_UNLOCK_FAILED`] is set.
    pub const fn lock_unlock_failed(self) -> bool {
        self.has(Self::LOCK_UNLOCK_FAILED)
    }

    /// Returns whether [`R1::COM_CRC_ERROR`] is set.
    pub const fn com_crc_error(self) -> bool {
        self.has(Self::COM_CRC_ERROR)
    }

    /// Returns whether [`R1::ILLEGAL_COMMAND`] is set.
    pub const fn illegal_command(self) -> bool {
        self.has(Self::ILLEGAL_COMMAND)
    }

    /// Returns whether [`R1::CARD_ECC_FAILED`] is set.
    pub const fn card_ecc_failed(self) -> bool {
        self.has(Self::CARD_ECC_FAILED)
    }

    /// Returns whether [`R1::CC_ERROR`] is set.
    pub const fn cc_error(self) -> bool {
        self.has(Self::CC_ERROR)
    }

    /// Returns whether [`R1::ERROR`] is set.
    pub const fn error(self) -> bool {
        self.has(Self::ERROR)
    }

    /// Returns whether [`R1::CID_CSD_OVERWRITE`] is set.
    pub const fn cid_csd_overwrite(self) -> bool {
        self.has(Self::CID_CSD_OVERWRITE)
    }

    /// Returns whether [`R1::WP_ERASE_SKIP`] is set.
    pub const fn wp_erase_skip(self) -> bool {
        self.has(Self::WP_ERASE_SKIP)
    }

    /// Returns whether [`R1::CARD_ECC_DISABLED`] is set.
    pub const fn card_ecc_disabled(self) -> bool {
        self.has(Self::CARD_ECC_DISABLED)
    }

    /// Returns whether [`R1::ERASE_RESET`] is set.
    pub const fn erase_reset(self) -> bool {
        self.has(Self::ERASE_RESET)
    }

    /// Returns the state in which the card received the command; its state afterwards may differ.
    pub const fn current_state(self) -> State {
        State::from_number((self.0 >> 9 & 0xf) as u8)
    }

    /// Returns whether [`R1::READY_FOR_DATA`] is set.
    pub const fn ready_for_data(self) -> bool {
        bit(self.0, 8)
    }

    /// Returns whether [`R1::SWITCH_ERROR`] is set.
    pub const fn switch_error(self) -> bool {
        self.has(Self::SWITCH_ERROR)
    }

    /// Returns whether [`R1::EXCEPTION_EVENT`] is set.
    pub const fn exception_event(self) -> bool {
        self.has(Self::EXCEPTION_EVENT)
    }

    /// Returns whether [`R1::APP_CMD`] is set.
    pub const fn app_cmd(self) -> bool {
        self.has(Self::APP_CMD)
    }

    /// Returns whether [`R1::AKE_SEQ_ERROR`] is set.
    pub const fn ake_seq_error(self) -> bool {
        self.has(Self::AKE_SEQ_ERROR)
    }

    /// Returns only the error bits; 0 means no error.
    pub const fn errors(self) -> u32 {
        self.0 & Self::ERRORS
    }

    /// Returns whether the card is ready for the next data command: its state is `tran` and its
    /// buffer is empty.
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
        // Every named bit is either an error or one of the six bits that report no error.
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

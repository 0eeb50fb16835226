//! State of the card in SPI mode, and the translation between SPI mode and the SD bus.

use super::program::Program;
use super::step::Step;
use crate::host::{Cause, Phase, StartError};
use crate::spec::response::{R1, Response};

/// The RCA that the engine sees for the only card on this bus.
const RCA: u32 = 1;
/// OCR bit: the card has finished its power-up.
const OCR_READY: u32 = 1 << 31;
/// OCR bit: the card has, or the host supports, more than 2 GB.
const OCR_HCS: u32 = 1 << 30;
/// OCR bits: the voltage range.
const OCR_VOLTAGES: u32 = 0x00ff_ffff;
/// State `stby` of a card as CURRENT_STATE in R1, bits 12:9, on the SD bus [SD 4.10.1].
const STBY: u32 = 3 << 9;
/// State `tran` of a card, in the form of [`STBY`].
const TRAN: u32 = 4 << 9;
/// State `data` of a card, in the form of [`STBY`].
const DATA: u32 = 5 << 9;
/// State `rcv` of a card (6) in its place in an R1, bits 12:9.
const RCV: u32 = 6 << 9;
/// State `prg` of a card, in the form of [`STBY`].
const PRG: u32 = 7 << 9;

/// Kind of the open transfer: a transfer of several blocks that the driver has not ended with CMD12
/// or the stop token yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Open {
    Read,
    Write,
    /// A write of which the card refused a block, or which failed, or which the driver gave up. So
    /// CMD12, and not the stop token, ends the write [SD 7.2.4].
    Refused,
}

/// State of the card, as far as the driver knows it.
#[derive(Clone, Copy, Debug, Default)]
// In this order a few words clear it.
#[repr(C)]
pub(super) struct Card {
    /// Error bits to report in the next R1.
    pub late: u32,
    ocr: u32,
    /// Whether the card has left the state `idle`.
    pub ready: bool,
    /// Whether CMD55 goes before the next command.
    pub app: bool,
    /// Whether the card's line was last seen high, and no command that makes the card busy was sent
    /// since.
    pub quiet: bool,
    /// Whether a block was abandoned before its end.
    pub torn: bool,
    /// Whether CMD12 has ended a read, and the card's status was not read since.
    read_stopped: bool,
    pub open: Option<Open>,
}

impl Card {
    /// Returns an R1 of the SD bus with this state, and with the errors that are still to be
    /// reported.
    fn r1(&mut self, state: u32) -> u32 {
        state | R1::READY_FOR_DATA | core::mem::take(&mut self.late)
    }

    /// Returns the R1 of a card in the state `prg`.
    pub fn busy() -> Response {
        Response::short(PRG)
    }

    /// Returns the R1 that the engine gets for the CMD12 that ends an open transfer.
    pub fn stopped(&mut self) -> u32 {
        self.r1(RCV)
    }

    /// Translates an R1 of SPI mode to an R1 of the SD bus. If a card on the SD bus would not
    /// respond, the result is a timeout.
    pub fn judge(&mut self, index: u8, r1: u8) -> Result<u32, Cause> {
        const IDLE: u8 = 1;
        const ILLEGAL: u8 = 1 << 2;
        const CRC: u8 = 1 << 3;
        /// Bits with the same meaning in SPI mode and on the SD bus.
        const SAME: [(u8, u32); 5] = [
            (1 << 1, R1::ERASE_RESET),
            (ILLEGAL, R1::ILLEGAL_COMMAND),
            (1 << 4, R1::ERASE_SEQ_ERROR),
            (1 << 5, R1::ADDRESS_ERROR),
            (1 << 6, R1::OUT_OF_RANGE),
        ];
        if r1 & CRC != 0 {
            return Err(Cause::Crc);
        }
        // A card that has become idle was reset. In the response to CMD58 and CMD8 some cards set
        // the idle bit in any state.
        if index == 12 && r1 & ILLEGAL != 0 {
            self.open = None;
        }
        let reset = self.ready && r1 & IDLE != 0 && !matches!(index, 8 | 58);
        if reset || r1 & ILLEGAL != 0 && (!self.ready || index == 12) {
            return Err(Cause::Timeout);
        }
        if index == 41 {
            self.ready = r1 & IDLE == 0;
        }
        let errors =
            SAME.iter().fold(0, |bits, (here, there)| bits | if r1 & here != 0 { *there } else { 0 });
        let state = if self.ready { TRAN } else { 0 };
        Ok(self.r1(state) | errors)
    }

    /// Records that CMD12 was answered, so that no transfer is open any more.
    pub fn closed(&mut self) {
        self.read_stopped |= self.open == Some(Open::Read);
        self.open = None;
        self.quiet = false;
    }

    /// Translates the second byte of R2 to bits of an R1 of the SD bus. If CMD12 has ended a read
    /// since the last R2, OUT_OF_RANGE is left out: a card that has sent its last block sets it,
    /// which is no error [SD 4.3.3]. On the SD bus the response to CMD12 has that bit.
    pub fn status(&mut self, byte: u8) -> u32 {
        const OUT_OF_RANGE: u8 = 1 << 7;
        let byte = if core::mem::take(&mut self.read_stopped) { byte & !OUT_OF_RANGE } else { byte };
        const SAME: [u32; 8] = [
            R1::CARD_IS_LOCKED,
            R1::LOCK_UNLOCK_FAILED | R1::WP_ERASE_SKIP,
            R1::ERROR,
            R1::CC_ERROR,
            R1::CARD_ECC_FAILED,
            R1::WP_VIOLATION,
            R1::ERASE_PARAM,
            R1::OUT_OF_RANGE,
        ];
        SAME.iter().enumerate().fold(0, |bits, (n, there)| bits | if byte >> n & 1 != 0 { *there } else { 0 })
    }

    /// Records the error in a token that the card sent instead of data [SD 7.3.3.3].
    pub fn note_token(&mut self, token: u8) {
        const SAME: [u32; 4] = [R1::ERROR, R1::CC_ERROR, R1::CARD_ECC_FAILED, R1::OUT_OF_RANGE];
        for (n, there) in SAME.iter().enumerate() {
            if token >> n & 1 != 0 {
                self.late |= there;
            }
        }
    }

    /// Returns the OCR from CMD58 in the form of an ACMD41 response.
    pub fn ocr(&mut self, ocr: u32) -> Response {
        self.ocr = ocr & !OCR_READY;
        self.power_up()
    }

    /// Returns the response to ACMD41 that the engine gets.
    pub fn power_up(&self) -> Response {
        Response::short(self.ocr | if self.ready { OCR_READY } else { 0 })
    }
}

impl Card {
    /// Translates a command of the engine for the SPI bus: sets the SPI command in `program`, and
    /// returns the first step of its execution on the bus.
    ///
    /// | on the SD bus | here |
    /// |---|---|
    /// | CMD2, CMD9, CMD10 | CMD10, CMD9, CMD10: the register comes as data |
    /// | CMD3, CMD7 | no command: the chip select selects the only card |
    /// | CMD13 | CMD13 with R2; in an open transfer no command |
    /// | CMD12 | CMD12, or the stop token |
    /// | CMD55 | goes together with the next command |
    /// | ACMD41 as an inquiry | CMD58 |
    /// | ACMD41 | ACMD41, and CMD58 when the card is ready |
    /// | CMD0 | CMD0, and CMD59: CRC on |
    pub(super) fn translate(&mut self, phase: &Phase, program: &mut Program) -> Result<Step, StartError> {
        let (index, arg) = (phase.command.index, phase.command.arg);
        let moves = phase.data.is_some();
        if matches!(index, 11 | 19 | 21 | 52 | 53) {
            return Err(StartError::Unsupported);
        }
        let state = if self.ready { TRAN } else { 0 };
        program.app = core::mem::take(&mut self.app);
        (program.index, program.arg) = (index, arg);
        // Commands that need no exchange: the driver makes the response itself.
        let word = match index {
            0 => {
                *self = Card { torn: self.torn, quiet: true, ..Card::default() };
                return Ok(Step::Ready);
            }
            // Commands that only an eMMC or an I/O card knows.
            1 | 5 => return Ok(Step::Unheard),
            55 if !moves => {
                self.app = true;
                state | R1::READY_FOR_DATA | R1::APP_CMD
            }
            3 => RCA << 16 | self.r1(STBY),
            4 | 7 | 15 => self.r1(state),
            13 if !moves && self.open == Some(Open::Read) => self.r1(DATA),
            13 if !moves && self.open.is_some() => self.r1(RCV),
            _ => {
                match index {
                    2 => (program.index, program.arg) = (10, 0),
                    9 | 10 => program.arg = 0,
                    13 if !moves => program.arg = 0,
                    41 if arg & OCR_VOLTAGES == 0 => {
                        (program.index, program.arg, program.app) = (58, 0, false);
                    }
                    41 => program.arg = arg & OCR_HCS,
                    _ => {}
                }
                return Ok(if index == 12 && self.open == Some(Open::Write) {
                    Step::ReadyToStop
                } else {
                    Step::Ready
                });
            }
        };
        program.response = Response::short(word);
        Ok(Step::Said)
    }
}

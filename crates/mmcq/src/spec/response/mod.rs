//! Responses of cards, as a host returns them [SD 4.9], [eMMC 6.12], [SDIO 4.10].

mod ocr;
mod status;

pub use ocr::{AddressUnit, Ocr};
pub use status::{R1, State};

use core::fmt;

/// The content of a response, without start bits, index and CRC.
///
/// A 48-bit response is in `words[0]` (bits 39:8 on the bus). A 136-bit response fills all four
/// words, bits 127:96 first. Its last byte (CRC and end bit) reads as zero, since many controllers
/// do not store it.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The content: one word of a 48-bit response, four words of a 136-bit response.
    pub words: [u32; 4],
}

impl Response {
    /// Makes a 48-bit response with this content.
    pub const fn short(content: u32) -> Self {
        Response { words: [content, 0, 0, 0] }
    }

    /// Returns the content as R1 or R1b.
    pub const fn r1(&self) -> R1 {
        R1(self.words[0])
    }

    /// Returns the content as R3: the OCR.
    pub const fn ocr(&self) -> Ocr {
        Ocr(self.words[0])
    }

    /// Returns the content as R4 of an I/O card.
    pub const fn r4(&self) -> R4 {
        R4(self.words[0])
    }

    /// Returns the content as R5 of an I/O card.
    pub const fn r5(&self) -> R5 {
        R5(self.words[0])
    }

    /// Returns the content as R6: the RCA that the card published.
    pub const fn r6(&self) -> R6 {
        R6(self.words[0])
    }

    /// Returns the content as R7: the interface condition.
    pub const fn r7(&self) -> R7 {
        R7(self.words[0])
    }
}

/// Returns whether bit `n` (0 to 31) of `word` is set.
const fn bit(word: u32, n: u32) -> bool {
    word >> n & 1 != 0
}

/// R4: the response of an I/O card to CMD5 [SDIO 3.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R4(pub u32);

impl R4 {
    /// Returns whether the card has powered up (bit C of R4).
    pub const fn ready(self) -> bool {
        bit(self.0, 31)
    }

    /// Returns the number of I/O functions, 0 to 7; function 0 is not counted.
    pub const fn functions(self) -> u8 {
        (self.0 >> 28 & 7) as u8
    }

    /// Returns whether the card also has memory: a combo card.
    pub const fn memory_present(self) -> bool {
        bit(self.0, 27)
    }

    /// Returns whether the card will switch its signal lines to 1.8 V (S18A).
    pub const fn s18a(self) -> bool {
        bit(self.0, 24)
    }

    /// Returns the voltage window, bits 23:0 of the I/O OCR: bit 8 is 2.0 to 2.1 V, bit 23 is 3.5
    /// to 3.6 V.
    pub const fn voltages(self) -> u32 {
        self.0 & 0x00ff_ffff
    }
}

/// State of the I/O part of a card, as R5 reports it [SDIO 5.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoState {
    /// DIS: the card is not selected (initialisation, stand-by or inactive).
    Dis,
    /// CMD: the data lines are free, so the card accepts commands with data.
    Cmd,
    /// TRN: a CMD53 transfer is in progress.
    Trn,
    /// Code 3, which the standard reserves.
    Reserved,
}

/// R5: the response of an I/O card to CMD52 and CMD53 [SDIO 5.2].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R5(pub u32);

impl R5 {
    /// All error bits: 15 and 14 (both about the previous command), 11, 9 and 8.
    pub const ERRORS: u32 = 0xcb00;

    /// Returns the byte that was read; after a write without read-back, the byte that was sent.
    pub const fn data(self) -> u8 {
        self.0 as u8
    }

    /// Returns whether the card received the previous command with a wrong CRC.
    pub const fn com_crc_error(self) -> bool {
        bit(self.0, 15)
    }

    /// Returns whether the previous command was not legal in the card's state.
    pub const fn illegal_command(self) -> bool {
        bit(self.0, 14)
    }

    /// Returns the state of the card's I/O part.
    pub const fn state(self) -> IoState {
        match self.0 >> 12 & 3 {
            0 => IoState::Dis,
            1 => IoState::Cmd,
            2 => IoState::Trn,
            _ => IoState::Reserved,
        }
    }

    /// Returns whether the card reports a general or unknown error.
    pub const fn error(self) -> bool {
        bit(self.0, 11)
    }

    /// Returns whether the addressed function does not exist.
    pub const fn function_number(self) -> bool {
        bit(self.0, 9)
    }

    /// Returns whether the argument was out of the function's range.
    pub const fn out_of_range(self) -> bool {
        bit(self.0, 8)
    }

    /// Returns only the error bits; 0 means no error.
    pub const fn errors(self) -> u32 {
        self.0 & Self::ERRORS
    }
}

/// R6: the response of an SD card to CMD3 [SD 4.9.5].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct R6(pub u32);

impl R6 {
    /// Returns the card's new relative address. 0 is not a valid address: repeat CMD3.
    pub const fn rca(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Returns the card status bits in R6 (23, 22, 19 and 12:0), at their positions in R1.
    pub const fn status(self) -> R1 {
        R1((self.0 & 0xc000) << 8 | (self.0 & 0x2000) << 6 | self.0 & 0x1fff)
    }
}

/// R7: the response of an SD card to CMD8 [SD 4.9.6].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct R7(pub u32);

impl R7 {
    /// Returns the code of the supply voltage that the card accepts: 1 is 2.7 to 3.6 V, 0 means
    /// that the card accepts none of the offered ones.
    pub const fn supply(self) -> u8 {
        (self.0 >> 8 & 0xf) as u8
    }

    /// Returns the check pattern of CMD8, which the card echoes.
    pub const fn pattern(self) -> u8 {
        self.0 as u8
    }

    /// Returns whether the card has a PCIe interface (SD Express).
    pub const fn pcie(self) -> bool {
        bit(self.0, 12)
    }

    /// Returns whether the card's PCIe interface supports 1.2 V.
    pub const fn pcie_1v2(self) -> bool {
        bit(self.0, 13)
    }

    /// Returns whether the card accepted the supply voltage and echoed the pattern of
    /// [`send_if_cond`](crate::spec::command::sd::send_if_cond).
    pub const fn echoes(self, supply: u8, pattern: u8) -> bool {
        self.supply() == supply & 0xf && self.supply() != 0 && self.pattern() == pattern
    }
}

impl fmt::Debug for R7 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "R7(supply {:#x} pattern {:#04x})", self.supply(), self.pattern())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_address_and_its_status() {
        // RCA 0xb368, ident -> stand-by: state ident (2), ready for data.
        let r6 = Response::short(0xb368_0500).r6();
        assert_eq!(r6.rca(), 0xb368);
        assert_eq!(r6.status().current_state(), State::Ident);
        assert!(r6.status().ready_for_data());
        assert_eq!(R6(0xe000).status(), R1(R1::COM_CRC_ERROR | R1::ILLEGAL_COMMAND | R1::ERROR));
    }

    #[test]
    fn interface_condition() {
        assert!(R7(0x1aa).echoes(1, 0xaa));
        assert!(!R7(0x1ab).echoes(1, 0xaa));
        assert!(!R7(0x0aa).echoes(1, 0xaa));
        assert!(!R7(0x0aa).echoes(0, 0xaa));
        assert!(R7(0x31aa).pcie() && R7(0x31aa).pcie_1v2());
    }

    #[test]
    fn io_answers() {
        // An SDIO card with one function and no memory, powered up, 2.0 to 3.6 V.
        let r4 = R4(0x90ff_ff00);
        assert!(r4.ready() && !r4.memory_present() && !r4.s18a());
        assert_eq!((r4.functions(), r4.voltages()), (1, 0x00ff_ff00));
        let r5 = R5(0x1102);
        assert_eq!((r5.data(), r5.state(), r5.errors()), (2, IoState::Cmd, 0x100));
        assert!(r5.out_of_range() && !r5.function_number() && !r5.error());
        assert_eq!(R5(0xffff).errors(), R5::ERRORS);
    }
}

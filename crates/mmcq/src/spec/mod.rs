//! The contents of the standards, as pure data: commands, responses, card registers, checksums,
//! timing.
//!
//! Read first: `command` (what the host sends to the card), `response` (what the card returns).
//! Each further file covers one chapter. Every parser is total: any content gives a value or an
//! error, never a panic, an endless loop or an overflow.

mod bits;
pub mod bus;
pub mod cid;
pub mod command;
pub mod crc;
pub mod csd;
pub mod ext_csd;
pub mod quirks;
pub mod response;
pub mod scr;
pub mod sdio;
pub mod ssr;
pub mod switch;
pub mod timing;

use core::fmt;

/// A field of a register. If its code is undefined, the parser of the register returns an error.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Field {
    /// CSD_STRUCTURE of the CSD.
    CsdStructure,
    /// READ_BL_LEN of the CSD.
    ReadBlLen,
    /// WRITE_BL_LEN of the CSD.
    WriteBlLen,
    /// CSD_STRUCTURE of the EXT_CSD.
    ExtCsdStructure,
    /// SCR_STRUCTURE of the SCR.
    ScrStructure,
    /// The CCCR revision number.
    CccrRevision,
}

impl Field {
    /// Returns the name of the field's register, such as `"CSD"`.
    pub const fn register(self) -> &'static str {
        match self {
            Field::CsdStructure | Field::ReadBlLen | Field::WriteBlLen => "CSD",
            Field::ExtCsdStructure => "EXT_CSD",
            Field::ScrStructure => "SCR",
            Field::CccrRevision => "CCCR",
        }
    }

    /// Returns the name of the field in the standard, such as `"READ_BL_LEN"`.
    pub const fn name(self) -> &'static str {
        match self {
            Field::CsdStructure | Field::ExtCsdStructure => "CSD_STRUCTURE",
            Field::ReadBlLen => "READ_BL_LEN",
            Field::WriteBlLen => "WRITE_BL_LEN",
            Field::ScrStructure => "SCR_STRUCTURE",
            Field::CccrRevision => "CCCR revision",
        }
    }
}

/// Error of a parser: a field has a code that the standard does not define and that the parser
/// needs.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The field with the undefined code.
    pub field: Field,
    /// The code that was read from the field, and that the standard does not define.
    pub value: u32,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: field {} holds {:#x}, which the standard does not define",
            self.field.register(),
            self.field.name(),
            self.value
        )
    }
}

impl core::error::Error for ParseError {}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn an_error_names_place_and_value() {
        let error = ParseError { field: Field::CsdStructure, value: 3 };
        assert_eq!(
            std::format!("{error}"),
            "CSD: field CSD_STRUCTURE holds 0x3, which the standard does not define"
        );
    }
}

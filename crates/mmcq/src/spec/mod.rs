//! What the standards say, as pure data: commands, responses, card registers, checksums, timing.
//!
//! Read first: `command` (what goes to the card), `response` (what comes back). One file a chapter
//! after that. Every parser is total: any input gives a value or an error, never a panic, a loop or
//! an overflow.

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

/// A register holds a code that the standard does not define, and that matters.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The register, `"CSD"`.
    pub register: &'static str,
    /// The field, `"READ_BL_LEN"`.
    pub field: &'static str,
    /// What it holds.
    pub value: u32,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: field {} holds {:#x}, which the standard does not define",
            self.register, self.field, self.value
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
        let error = ParseError { register: "CSD", field: "CSD_STRUCTURE", value: 3 };
        assert_eq!(
            std::format!("{error}"),
            "CSD: field CSD_STRUCTURE holds 0x3, which the standard does not define"
        );
    }
}

//! Errors of I/O functions.

use crate::engine;
use crate::spec::response::R5;
use crate::spec::sdio::cis::CisError;
use core::fmt;

/// The reason in an I/O card's response (R5) [SDIO 5.2]. Its two other flags, `COM_CRC_ERROR` and
/// `ILLEGAL_COMMAND`, are not refusals: they report on the command before, which had no response.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The argument is outside of the function's range.
    OutOfRange,
    /// The card has no such function.
    FunctionNumber,
    /// General or unknown error.
    General,
}

/// Errors of I/O functions.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoError {
    /// The error is not in the function, but in the controller, the wire, the queue, or another
    /// part of the card.
    Engine(engine::Error),
    /// The card answered, and refused the access.
    Refused {
        /// Function that was addressed; 0 for CCCR, FBR and CIS.
        function: u8,
        /// Register that was addressed.
        addr: u32,
        /// The reason.
        why: Refusal,
    },
    /// The card's tuples cannot be used.
    Cis(CisError),
    /// The card has no such function.
    NoFunction {
        /// The number that was used.
        function: u8,
        /// Number of functions of the card, 0 to 7.
        functions: u8,
    },
    /// The function was enabled, and did not become ready in time [SDIO 6.9].
    NotReady {
        /// The function.
        function: u8,
        /// Its time limit, in nanoseconds.
        limit_ns: u64,
    },
    /// A block size that the function or the host does not allow.
    BlockSize {
        /// The function.
        function: u8,
        /// The size that was requested.
        bytes: u16,
        /// The largest that both allow, in bytes.
        max_bytes: u16,
    },
    /// A block size that the controller cannot transfer
    /// ([`Caps::block_sizes`](crate::host::Caps::block_sizes)): not a power of two, or below 4
    /// bytes.
    OddBlockSize {
        /// The function.
        function: u8,
        /// The size that was requested.
        bytes: u16,
        /// The largest that function and controller allow, in bytes.
        max_bytes: u16,
    },
    /// The range has no bytes, more than the buffer has, or goes beyond the last register.
    Range {
        /// First register.
        addr: u32,
        /// Bytes requested.
        bytes: u32,
        /// Most bytes that were possible.
        max_bytes: u32,
    },
    /// A register does not have the value that was written to it.
    NotTaken {
        /// Register of function 0.
        addr: u32,
        /// The value written.
        wrote: u8,
        /// The value read back.
        read: u8,
    },
    /// A register of function 0 that a driver may not write.
    NotVendors {
        /// The register.
        addr: u32,
    },
    /// A packet has an invalid header, or does not fit into the buffer.
    Packet {
        /// Its length in the header, in bytes.
        bytes: u32,
        /// The largest possible length.
        max_bytes: u32,
        /// Its type in the header.
        kind: u8,
    },
}

/// Returns the data in the response of a CMD52 or CMD53 to this register, or the reason of a
/// refusal. A flag about the command before does not count: the present command was done, and must
/// not be repeated.
pub(crate) fn judge(function: u8, addr: u32, response: R5) -> Result<u8, IoError> {
    let why = if response.out_of_range() {
        Refusal::OutOfRange
    } else if response.function_number() {
        Refusal::FunctionNumber
    } else if response.error() {
        Refusal::General
    } else {
        return Ok(response.data());
    };
    Err(IoError::Refused { function, addr, why })
}

impl From<engine::Error> for IoError {
    fn from(error: engine::Error) -> Self {
        IoError::Engine(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::OutOfRange => "argument out of range",
            Refusal::FunctionNumber => "no such function",
            Refusal::General => "general error",
        })
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IoError::Engine(error) => write!(f, "{error}"),
            IoError::Refused { function, addr, why } => {
                write!(f, "function {function}, register {addr:#07x}: the card refuses: {why}")
            }
            IoError::Cis(error) => write!(f, "{error}"),
            IoError::NoFunction { function, functions } => {
                write!(f, "there is no function {function}, the card has {functions}")
            }
            IoError::NotReady { function, limit_ns } => {
                write!(f, "function {function} is not ready after {} ms", limit_ns / 1_000_000)
            }
            IoError::BlockSize { function, bytes, max_bytes } => {
                write!(f, "function {function}: a block size of {bytes}, expected 1 to {max_bytes}")
            }
            IoError::OddBlockSize { function, bytes, max_bytes } => write!(
                f,
                "function {function}: a block size of {bytes}, expected a power of two from 4 to {max_bytes}, \
                 since the controller moves no other"
            ),
            IoError::Range { addr, bytes, max_bytes } => {
                write!(f, "register {addr:#07x}: {bytes} bytes, expected 1 to {max_bytes}")
            }
            IoError::NotTaken { addr, wrote, read } => {
                write!(f, "register {addr:#07x} of function 0: wrote {wrote:#04x}, reads {read:#04x}")
            }
            IoError::NotVendors { addr } => {
                write!(f, "register {addr:#07x} of function 0 is not the vendor's, expected 0xf0 to 0xff")
            }
            IoError::Packet { bytes, max_bytes, kind } => {
                write!(f, "a packet of type {kind} with {bytes} bytes, expected at most {max_bytes}")
            }
        }
    }
}

impl core::error::Error for IoError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            IoError::Engine(error) => Some(error),
            IoError::Cis(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_the_command_itself_is_judged() {
        for before in [0, 0x4000, 0x8000, 0xc000] {
            assert_eq!(judge(1, 2, R5(before | 0x1000 | 0x5a)), Ok(0x5a));
            for (flag, why) in
                [(0x0100, Refusal::OutOfRange), (0x0200, Refusal::FunctionNumber), (0x0800, Refusal::General)]
            {
                let refused = Err(IoError::Refused { function: 1, addr: 2, why });
                assert_eq!(judge(1, 2, R5(before | 0x1000 | flag)), refused);
            }
        }
    }
}

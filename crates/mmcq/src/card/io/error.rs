//! Errors of the I/O functions of a card.

use crate::engine;
use crate::spec::response::R5;
use crate::spec::sdio::cis::CisError;
use core::fmt;

/// The reason of a refusal in an I/O card's response R5 [SDIO 5.2]. The flags `COM_CRC_ERROR` and
/// `ILLEGAL_COMMAND` are no refusals: they report on the command before, which had no response.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The argument is out of the function's range.
    OutOfRange,
    /// The card does not have this function.
    FunctionNumber,
    /// A general or unknown error.
    General,
}

/// Errors of the I/O functions of a card.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoError {
    /// The error does not come from the function, but from the controller, the bus, the queue, or
    /// another part of the card.
    Engine(engine::Error),
    /// The card responded, but refused the access.
    Refused {
        /// Number of the addressed function; 0 for CCCR, FBR and CIS.
        function: u8,
        /// Address of the register.
        addr: u32,
        /// The reason of the refusal.
        why: Refusal,
    },
    /// The card's tuples (CIS) cannot be used.
    Cis(CisError),
    /// The card does not have the function with this number.
    NoFunction {
        /// The requested function number.
        function: u8,
        /// Number of functions that the card has, 0 to 7.
        functions: u8,
    },
    /// The function was enabled, but did not become ready in time [SDIO 6.9].
    NotReady {
        /// Number of the function.
        function: u8,
        /// Time that the function had to become ready, in nanoseconds.
        limit_ns: u64,
    },
    /// The function or the host does not allow this block size.
    BlockSize {
        /// Number of the function.
        function: u8,
        /// The requested block size, in bytes.
        bytes: u16,
        /// Largest block size that function and host allow, in bytes.
        max_bytes: u16,
    },
    /// The controller cannot transfer this block size
    /// ([`Caps::block_sizes`](crate::host::Caps::block_sizes)): it is not a power of two, or below
    /// 4 bytes.
    OddBlockSize {
        /// Number of the function.
        function: u8,
        /// The requested block size, in bytes.
        bytes: u16,
        /// Largest block size that function and controller allow, in bytes.
        max_bytes: u16,
    },
    /// The range is empty, is longer than the buffer, or goes beyond the last register.
    Range {
        /// Address of the first register.
        addr: u32,
        /// Requested number of bytes.
        bytes: u32,
        /// Largest number of bytes that this access could have.
        max_bytes: u32,
    },
    /// A register does not read back the value that was written to it.
    NotTaken {
        /// Address of the register in function 0.
        addr: u32,
        /// The value that was written.
        wrote: u8,
        /// The value that was read back.
        read: u8,
    },
    /// A driver is not allowed to write this register of function 0: only the vendor's registers
    /// are open to it.
    NotVendors {
        /// Address of the register.
        addr: u32,
    },
    /// A received packet has an invalid header, or does not fit into the buffer.
    Packet {
        /// Length of the packet by its header, in bytes.
        bytes: u32,
        /// Largest length that is valid for this packet, in bytes: the smaller of the buffer and
        /// the protocol's limit.
        max_bytes: u32,
        /// Type of the packet, as its header says.
        kind: u8,
    },
}

/// Returns the data in the response to a CMD52 or CMD53 at register `addr` of this function, or the
/// reason of a refusal. Flags about the command before are ignored: the card has executed the
/// present command, which must not be repeated.
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

//! The registers of an I/O card: common (CCCR), of each function (FBR), and its description of
//! itself (CIS) [SDIO 6].

pub mod cccr;
pub mod cis;
pub mod fbr;

/// Functions besides function 0, at most.
pub const FUNCTIONS_MAX: u8 = 7;
/// Registers of a function: their addresses have 17 bits [SDIO 5.1].
pub const ADDRESSES: u32 = 1 << 17;

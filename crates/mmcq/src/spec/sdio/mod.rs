//! The registers of an I/O card: common (CCCR), of each function (FBR), and its card information
//! structure (CIS) [SDIO 6].

pub mod cccr;
pub mod cis;
pub mod fbr;

/// Most functions besides function 0.
pub const FUNCTIONS_MAX: u8 = 7;
/// Number of registers of a function: their addresses have 17 bits [SDIO 5.1].
pub const ADDRESSES: u32 = 1 << 17;

//! The registers of an I/O card: common registers (CCCR), registers of each function (FBR), and the
//! card information structure (CIS) [SDIO 6].

pub mod cccr;
pub mod cis;
pub mod fbr;

/// Largest number of functions on a card; function 0 is not counted.
pub const FUNCTIONS_MAX: u8 = 7;
/// Number of register addresses of a function, which have 17 bits [SDIO 5.1].
pub const ADDRESSES: u32 = 1 << 17;

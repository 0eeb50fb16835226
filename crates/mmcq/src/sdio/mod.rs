//! I/O functions of a card: registers, data, interrupts [SDIO 5, 6, 8].
//!
//! [`bring_up_io`](crate::card::bring_up_io) finds them. Then a driver is straight-line code over a
//! [`Function`] (enable, CMD52, CMD53) and the [`CardInterrupt`]; [`bluetooth`] is a complete one. All phases
//! go beside the queue ([`Kind::Io`](crate::engine::Kind::Io)), so functions share the bus with each other
//! and with a combo card's memory.
//!
//! Read first: `function.rs`, then `interrupt.rs`. `cccr.rs`, `fbr.rs` and `cis.rs` are the card's registers.

pub mod bluetooth;
pub mod cccr;
pub mod cis;
mod direct;
mod error;
pub mod fbr;
mod function;
mod interrupt;
mod split;

pub(crate) use direct::judge;
pub use direct::{Chain, Direct};
pub use error::{Error, Refusal};
pub use function::{At, Function};
pub use interrupt::CardInterrupt;
pub use split::Split;

/// Functions besides function 0, at most.
pub const FUNCTIONS_MAX: u8 = 7;
/// Registers of a function: their addresses have 17 bits [SDIO 5.1].
pub const ADDRESSES: u32 = 1 << 17;

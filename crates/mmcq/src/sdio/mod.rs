//! I/O functions of a card: registers, data, interrupts [SDIO 5, 6, 8].
//!
//! [`bring_up_io`](crate::card::bring_up_io) finds them. Then a driver is straight-line code over a
//! [`Function`] (enable, CMD52, CMD53) and the [`CardInterrupt`]; [`bluetooth`] is a complete one. All phases
//! go beside the queue ([`Kind::Io`](crate::engine::Kind::Io)), so functions share the bus with each other
//! and with a combo card's memory.
//!
//! Read first: `function.rs`, then `interrupt.rs`. [`spec::sdio`](crate::spec::sdio) has the card's registers.

pub mod bluetooth;
mod direct;
mod function;
mod interrupt;
mod split;

pub use crate::card::io::error::{Error, Refusal};
pub use crate::spec::sdio::{ADDRESSES, FUNCTIONS_MAX, cccr, cis, fbr};
pub use direct::{Chain, Direct};
pub use function::{At, Function};
pub use interrupt::CardInterrupt;
pub use split::Split;

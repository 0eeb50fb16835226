//! I/O functions of a card: registers, data, interrupts [SDIO 5, 6, 8].
//!
//! [`bring_up_io`](crate::card::bring_up_io) finds them. A driver is then sequential code over a
//! [`Function`] (enable, CMD52, CMD53) and the [`CardInterrupt`]; [`bluetooth`] is a complete one.
//! All phases are outside of the queue ([`Kind::Io`](crate::engine::Kind::Io)), so functions share
//! the bus with each other and with a combo card's memory.
//!
//! [`spec::sdio`](crate::spec::sdio) has the card's registers.
//!
//! # When the card is lost
//! There is no supervisor for I/O cards: only their driver knows what its functions were doing. So
//! the driver decides from the errors of its calls. If several calls in a row fail with
//! [`IoError::Engine`] and a fault of the host, or `Silent`, the card is gone, or has lost its
//! state. Then:
//!
//! 1. End the driver's work in progress; buffers of dropped transfers come back by
//!    [`reclaim`](crate::engine::Engine::reclaim).
//! 2. Call [`bring_up_io`](crate::card::bring_up_io) again, until it finds a card. It powers the
//!    slot off and on. `NoCard` means: not yet.
//! 3. Make each [`Function`] anew from the new [`IoCard`](crate::card::IoCard); enable it, and set
//!    its block size and interrupt again.
//!
//! Owed aborts and block sizes of the card before are cleared by then.

pub mod bluetooth;
mod direct;
mod function;
mod interrupt;
mod split;

pub use crate::card::io::error::{IoError, Refusal};
pub use crate::spec::sdio::{ADDRESSES, FUNCTIONS_MAX, cccr, cis, fbr};
pub use direct::{Chain, Direct};
pub use function::{At, Function};
pub use interrupt::CardInterrupt;
pub use split::Split;

//! I/O functions of a card: registers, data, interrupts [SDIO 5, 6, 8].
//!
//! [`bring_up_io`](crate::card::bring_up_io) finds the functions. A driver is sequential code that
//! uses a [`Function`] (enable, CMD52, CMD53) and the [`CardInterrupt`]; [`bluetooth`] is a
//! complete driver. All their phases are outside of the queue
//! ([`Kind::Io`](crate::engine::Kind::Io)), so functions share the bus with each other and with a
//! combo card's memory.
//!
//! [`spec::sdio`](crate::spec::sdio) has the card's registers.
//!
//! # When the card is lost
//! I/O cards have no supervisor, because only the driver of a function knows what the function was
//! doing. So the driver decides from the errors of its calls. If several calls in a row fail with
//! [`IoError::Engine`] and a fault of the host, or `Silent`, the card was removed or has lost its
//! state. Then:
//!
//! 1. End the driver's work in progress. Buffers of dropped transfers are returned by
//!    [`reclaim`](crate::engine::Engine::reclaim).
//! 2. Call [`bring_up_io`](crate::card::bring_up_io) again, until it finds a card. The call
//!    switches the slot's power off and on. `NoCard` means: no card yet.
//! 3. Make each [`Function`] again from the new [`IoCard`](crate::card::IoCard); enable it, and set
//!    its block size and interrupt again.
//!
//! Aborts that were due and block sizes of the earlier card are cleared by then. Handles of the
//! earlier card send nothing to the new one.

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

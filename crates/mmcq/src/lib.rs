//! A portable stack for MMC, SD, eMMC and SDIO cards.
//!
//! The heart is a state machine ([`engine::Engine`]) that is told the time, does one bounded piece of work and says when
//! it wants to be called again. Whoever moves it (hard interrupt, deferred interrupt, thread, spinning loop) is the
//! platform's choice. The edges are futures that borrow a slot ([`task`]) and plain calls ([`block`]).
//!
//! Nothing here allocates, blocks, spins, reads a clock or panics.
#![no_std]

pub mod block;
pub mod card;
pub mod engine;
pub mod host;
pub mod spec;
pub mod task;

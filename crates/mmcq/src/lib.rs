//! A portable stack for MMC, SD, eMMC and SDIO cards.
//!
//! The core is a state machine, [`engine::Engine`]. Each call passes it the time; the engine does
//! one bounded piece of work and returns the time of its next call. The platform chooses who calls
//! it: the hard interrupt, a deferred interrupt, a thread or a spinning loop. Programs use it
//! through futures that borrow a slot ([`task`]) and through plain calls ([`block`]).
//!
//! No code of this crate allocates, blocks, reads a clock or panics. No code of this crate spins,
//! except in a thread that asks for it, and there no longer than [`advance`] allows.
//!
//! From power-up to the first block, with a stack of eight slots that lives in the program's static
//! memory:
//!
//! ```
//! use mmcq::block::BlockDevice;
//! use mmcq::card::{Options, bring_up};
//! use mmcq::engine::{DmaBuf, Error};
//! use mmcq::task::{Platform, Stack};
//!
//! /// The controller's interrupt handler: all of the hot path.
//! fn on_interrupt<B: Platform>(stack: &Stack<B, 8>) {
//!     stack.on_irq();
//! }
//!
//! /// The alarm that the stack asked for by `Timer::set_alarm`.
//! fn on_alarm<B: Platform>(stack: &Stack<B, 8>) {
//!     stack.poll();
//! }
//!
//! async fn app<B: Platform>(
//!     stack: &Stack<B, 8>,
//!     scratch: DmaBuf,
//!     buf: DmaBuf,
//! ) -> Result<(), Error> {
//!     let (card, _scratch) = bring_up(stack, scratch, Options::DEFAULT).await;
//!     let blocks = card?.params.sectors;
//!     let disk = BlockDevice::new(stack);
//!     // The buffer travels with the request, and comes back with its result.
//!     let (result, buf) = disk.read(blocks - 1, buf).await;
//!     result?;
//!     let (result, _buf) = disk.write(0, buf).await;
//!     result?;
//!     disk.flush().await
//! }
//! ```
//!
//! A platform brings a [`host::Host`] (say [`host::sdhci::Sdhci`] over [`host::regs::Mmio`]), a
//! [`host::Dma`], a [`task::Lock`] and a [`task::Timer`]. Without an executor,
//! [`task::Stack::block_on`] runs the same code; `boards/size` is a complete small image.
//!
//! # Features
//! `log` and `defmt` (both off by default) log what happens: commands and responses at level trace,
//! failures and changes of the bus at debug, cards at info, steps of recovery at warn. With `defmt`
//! all errors are `Format`. `rpmb` adds the replay-protected memory of eMMC devices. `slots-64` and
//! `slots-128` allow engines of up to 64 or 128 slots; without them an engine has at most as many
//! slots as a pointer has bits.
//! `critical-section` adds a lock to [`board`], and `embedded-hal` the port for an SD card on an SPI
//! bus ([`host::spi`]).
//!
//! # The crates beside it
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings the stack to embassy,
//! [`mmcq-c`](https://docs.rs/mmcq-c) to C, and [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI
//! card reader under Linux. [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models of controllers
//! and cards. [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power cuts on the
//! models. [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which measures on the
//! models.
#![no_std]
// docs.rs shows for each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Unsafe code is allowed again in the files that docs/safety.md lists; the tests of drivers have
// raw memory of their own.
#![cfg_attr(not(test), deny(unsafe_code))]

#[macro_use]
mod diagnostics;
#[macro_use]
mod setters;

pub mod advance;
pub mod block;
pub mod board;
pub mod card;
pub mod direct;
pub mod engine;
pub mod host;
#[cfg(feature = "rpmb")]
pub mod rpmb;
pub mod sched;
pub mod sdio;
pub mod spec;
pub mod task;

#[cfg(test)]
#[path = "../tests/support/fuzz.rs"]
mod fuzz;

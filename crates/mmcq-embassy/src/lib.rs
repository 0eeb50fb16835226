//! The mmcq stack with embassy.
//!
//! | you have | you need | use |
//! |---|---|---|
//! | an executor and a time driver | deadlines of the stack | [`Clock`] |
//! | a `critical-section` implementation | the stack's lock | [`CriticalSection`] |
//! | a card that may fail, or be exchanged | a task that recovers it | [`supervise`] |
//! | a file system on `block-device-driver` | a card for it | [`Disk`] |
//! | the file system `embedded-sdmmc`, or another with blocking calls | a card for it | [`Blocking`] |
//! | a store on `embedded-storage`, or data at any byte offset | a part of a card as bytes | [`Region`], [`Blocking`] |
//! | transfers without a copy | buffers that travel through the call | [`Disk::device`] or [`BlockDevice`](mmcq::block::BlockDevice), with a [`Buffer`] |
#![cfg_attr(
    feature = "spi",
    doc = "| an SD card in SPI mode, on a bus of `embedded-hal-async` | a port for mmcq's driver | [`SpiMailbox`] |"
)]
//! | one of mmcq's host drivers | an `sdio::MmcBus` for drivers on it | [`Bus`] |
//!
//! ```
//! use mmcq::card::{Options, bring_up};
//! use mmcq::engine::Error;
//! use mmcq::host::Host;
//! use mmcq_embassy::{Buffer, Clock, CriticalSection, Disk};
//!
//! static SCRATCH: Buffer<1> = Buffer::new();
//! static BOUNCE: Buffer<8> = Buffer::new();
//!
//! type Stack<H> = mmcq::task::Stack<(CriticalSection, H), 8>;
//!
//! /// The controller's interrupt handler.
//! fn on_interrupt<H: Host>(stack: &Stack<H>) {
//!     stack.on_irq();
//! }
//!
//! /// One embassy task: polls the stack at its deadlines. `0` is the number of the stack's clock;
//! /// the stack was made with `Clock::<0>::TIMER`. Each stack of a program needs another number.
//! async fn deadlines<H: Host>(stack: &Stack<H>) -> ! {
//!     Clock::<0>::run(stack).await
//! }
//!
//! /// Another task: brings the card up, and makes a block device for a file system. Make one
//! /// `Disk` for each user.
//! async fn card<H: Host>(stack: &Stack<H>) -> Result<Disk<'_, (CriticalSection, H), 8>, Error> {
//!     let scratch = SCRATCH.take().ok_or(Error::Full)?;
//!     bring_up(stack, scratch, Options::DEFAULT).await.0?;
//!     Disk::new(stack, BOUNCE.take().ok_or(Error::Full)?)
//! }
//! ```
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself. [`mmcq-c`](https://docs.rs/mmcq-c) brings it
//! to C, and [`mmcq-vfio`](https://docs.rs/mmcq-vfio) to a PCI card reader under Linux.
//! [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models of controllers and cards.
//! [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power cuts on the models.
//! [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which measures on the models.
#![no_std]
// docs.rs shows for each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]

mod blocking;
mod bus;
mod clock;
mod disk;
mod over;
mod region;
#[cfg(feature = "spi")]
mod spi;
mod supervisor;

pub use blocking::Blocking;
pub use bus::Bus;
pub use clock::{CLOCKS, Clock};
pub use disk::Disk;
pub use mmcq::board::{Buffer, CriticalSection};
pub use over::{BusHost, Mailbox, Runner};
pub use region::Region;
#[cfg(feature = "spi")]
pub use spi::{SpiMailbox, SpiPort, SpiRunner};
pub use supervisor::supervise;

/// The guides in `docs/`. The code in the guides is compiled, and executed if possible.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../guides/readme.md")]
    struct Readme;
    #[doc = include_str!("../guides/first-card.md")]
    struct FirstCard;
    #[doc = include_str!("../guides/host-driver.md")]
    struct HostDriver;
    #[doc = include_str!("../guides/durable.md")]
    struct Durable;
    #[doc = include_str!("../guides/low-power.md")]
    struct LowPower;
    #[doc = include_str!("../guides/schedulers.md")]
    struct Schedulers;
    #[doc = include_str!("../guides/upgrade.md")]
    struct Upgrade;
}

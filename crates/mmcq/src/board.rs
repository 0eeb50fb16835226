//! Ready-made parts for a board's code, which then supplies only addresses and a clock.
//!
//! | a stack needs | use | when |
//! |---|---|---|
//! | a lock | [`NoLock`] | one context polls, and no interrupt handler calls the stack |
//! | | `CriticalSection` | handlers call it, and the program has a `critical-section` (feature of this name) |
//! | memory for DMA | [`Coherent`] | the controller sees memory as the CPU does |
//! | a clock | [`Timer::polled`](crate::task::Timer::polled) | there is no alarm: blocking calls check the deadlines |
//! | a descriptor table, memory for bring-up | [`Once`], [`Buffer`] | they are statics |
//! | a place for the stack | [`Home`] | the interrupt handler needs a static |
//! | the controller's address | [`pci`] | it is a PCI function |
//!
//! On a core without compare-and-swap [`Once`], [`Buffer`] and [`Home`] need the feature
//! `critical-section`.
//!
//! # Examples
//! A microcontroller with an SDHCI controller, driven by its interrupt:
//! ```no_run
//! use mmcq::board::{Coherent, Home, Once};
//! use mmcq::engine::Config;
//! use mmcq::host::{regs::Mmio, sdhci::{self, Sdhci, Table}};
//! use mmcq::task::{Lock, Stack, Timer};
//!
//! type Parts<L> = (L, Sdhci<Mmio, Coherent, 33>);
//! static TABLE: Once<Table<33>> = Once::new(Table::new());
//!
//! fn start<L: Lock + Send + Sync>(
//!     home: &'static Home<Parts<L>, 8>,
//!     lock: L,
//!     now_ns: fn() -> u64,
//! ) -> Option<&'static Stack<Parts<L>, 8>> {
//!     // SAFETY: the controller's registers, which no other code uses; memory has no cache.
//!     let (registers, memory) = unsafe { (Mmio::at_address(0x4500_0000), Coherent::new()) };
//!     let host = Sdhci::new(registers, memory, TABLE.take()?, sdhci::SdhciConfig::new()).ok()?;
//!     home.put(Stack::new(lock, Timer::polled(now_ns), host, Config::DEFAULT))
//! }
//! ```

#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
mod buffer;
mod coherent;
#[cfg(feature = "critical-section")]
mod critical;
#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
mod home;
mod no_lock;
#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
mod once;
pub mod pci;

#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
pub use buffer::Buffer;
pub use coherent::Coherent;
#[cfg(feature = "critical-section")]
pub use critical::CriticalSection;
#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
pub use home::Home;
pub use no_lock::NoLock;
#[cfg(any(target_has_atomic = "8", feature = "critical-section"))]
pub use once::Once;

//! A PCI card reader (SDHCI) driven from Linux user space, through VFIO, by the driver and the
//! engine that firmware uses.
//!
//! [`Reader::open`] checks the device and takes it over. The reader then has what the stack needs
//! of any platform: registers ([`Window`]), memory that the controller reaches ([`Memory`]), an
//! interrupt by eventfd ([`Interrupt`]) and a clock. [`Reader::run`] runs a future of the stack; it
//! sleeps in `ppoll` until the controller interrupts or the engine's next deadline has come.
//!
//! ```no_run
//! use mmcq_vfio::{Options, Reader};
//! use mmcq::block::BlockDevice;
//!
//! # fn main() -> Result<(), mmcq_vfio::Error> {
//! let mut reader = Reader::open("0000:00:04.0".parse()?, Options::default())?;
//! let card = reader.bring_up(mmcq::card::Options::DEFAULT)?;
//! let buffer = reader.buffer().expect("the first buffer is free");
//! let disk = BlockDevice::new(reader.stack());
//! let (read, buffer) = reader.run(disk.read(0, buffer))?;
//! println!("{:?} of {} blocks, the first byte is {}", read, card.params.sectors, buffer[0]);
//! reader.close()
//! # }
//! ```
//!
//! The device must be bound to `vfio-pci`; if it is not, the error contains the command that binds
//! it. With an IOMMU the controller reaches only the reader's own 2 MiB of memory. Without one
//! ([`Options::noiommu`]) it reaches all of the machine's memory.
//!
//! # The crates beside it
//! [`mmcq`](https://docs.rs/mmcq) is the stack itself.
//! [`mmcq-embassy`](https://docs.rs/mmcq-embassy) brings it to embassy, and
//! [`mmcq-c`](https://docs.rs/mmcq-c) to C. [`mmcq-sim`](https://docs.rs/mmcq-sim) has the models
//! of controllers and cards. [`mmcq-torture`](https://docs.rs/mmcq-torture) has faults and power
//! cuts on the models. [`mmcq-lab`](https://docs.rs/mmcq-lab) has the program `mmcq`, which
//! measures on the models.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod address;
mod device;
mod error;
mod interrupt;
mod kernel;
mod memory;
mod reader;
mod sysfs;
mod takeover;
mod window;

pub use address::Address;
pub use device::{Device, Options};
pub use error::Error;
pub use interrupt::{Interrupt, Kind};
pub use memory::{Mapped, Memory};
pub use reader::{Alone, PIECE_BYTES, Reader, SLOTS, Stack};
pub use sysfs::Sysfs;
pub use window::Window;

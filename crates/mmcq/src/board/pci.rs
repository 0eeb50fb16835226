//! Finds a controller that is a PCI function, and enables it.
//!
//! # Examples
//! The first SD host controller of a machine whose configuration space is memory:
//! ```no_run
//! use mmcq::board::pci::{self, Ecam};
//! use mmcq::host::regs::Mmio;
//!
//! fn registers() -> Option<Mmio> {
//!     // SAFETY: this machine has the configuration of its first sixteen buses there.
//!     let space = unsafe { Ecam::new(0x3f00_0000) };
//!     let controller = pci::functions(&space, 0..=15).find(|found| found.class == pci::SD_HOST)?;
//!     controller.enable(&space);
//!     let address = controller.memory(&space, 0)?;
//!     // SAFETY: memory is mapped one to one, and no other code drives the controller.
//!     Some(unsafe { Mmio::at_address(address as usize) })
//! }
//! ```

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::regs::{Mmio, Regs};
use core::ops::RangeInclusive;

/// Base class and subclass of SD host controllers.
pub const SD_HOST: u16 = 0x0805;
/// Vendor ID of Realtek's readers; [`RtsxConfig`](crate::host::rtsx::RtsxConfig) takes the device
/// ID.
pub const REALTEK: u16 = 0x10ec;

const ID: u16 = 0x00;
const COMMAND: u16 = 0x04;
const CLASS: u16 = 0x08;
const HEADER: u16 = 0x0c;
const BAR: u16 = 0x10;
const INTERRUPT: u16 = 0x3c;
/// Bits of the command register: the function responds to memory accesses, and may itself access
/// memory.
const MEMORY_AND_MASTER: u32 = 6;
/// Bit of the register at [`HEADER`]: the device has more than one function.
const MULTIPLE: u32 = 1 << 23;
const BARS: u8 = 6;

/// The bus address of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the bus.
    pub bus: u8,
    /// Number of the device on the bus, 0 to 31.
    pub device: u8,
    /// Number of the function in the device, 0 to 7.
    pub function: u8,
}

/// Access to the configuration of all functions, 32 bits at a time; `offset` is a multiple of 4
/// below 256.
pub trait ConfigSpace {
    /// Reads the 32-bit register at `offset` of the configuration space of the function `at`;
    /// returns all ones if there is no such function.
    fn read(&self, at: Address, offset: u16) -> u32;
    /// Writes a register. A write may place a device's registers over memory, or let a device
    /// access memory. The code that makes the configuration space is responsible for such writes
    /// ([`Ecam::new`]).
    fn write(&self, at: Address, offset: u16, value: u32);
}

/// Configuration space in memory, 4 KiB for each function [PCIe 7.2.2].
#[derive(Debug)]
pub struct Ecam {
    base: usize,
}

impl Ecam {
    /// Makes the space at `base`, the address in the machine's description (ACPI's MCFG, the `reg`
    /// of a device tree).
    ///
    /// # Safety
    /// - `base` is the address of bus 0's configuration space, mapped as device memory. From there
    ///   on 1 MiB is mapped for each bus that a call names.
    /// - Code that has this value can place registers and let devices access memory by safe calls.
    ///   So pass the value only to code that places a device's memory where nothing else is
    ///   ([`PciFunction::set_memory`]), enables no device that firmware left running, and sets up
    ///   no message-signalled interrupt that would write into other memory.
    pub const unsafe fn new(base: usize) -> Self {
        Ecam { base }
    }

    fn of(&self, at: Address) -> Mmio {
        let place = usize::from(at.bus) << 20
            | usize::from(at.device & 31) << 15
            | usize::from(at.function & 7) << 12;
        // SAFETY: `new`'s caller promises these 4 KiB; configuration is no controller's register
        // block.
        unsafe { Mmio::at_address(self.base.wrapping_add(place)) }
    }
}

impl ConfigSpace for Ecam {
    fn read(&self, at: Address, offset: u16) -> u32 {
        self.of(at).read32(offset & 0xffc)
    }

    fn write(&self, at: Address, offset: u16, value: u32) {
        self.of(at).write32(offset & 0xffc, value);
    }
}

/// A PCI function that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// The bus address of the function.
    pub address: Address,
    /// Vendor ID of the function.
    pub vendor: u16,
    /// Device ID of the function.
    pub device: u16,
    /// Base class (upper byte) and subclass (lower byte) of the function.
    pub class: u16,
}

/// Returns all functions on these buses. Firmware must have assigned the bus numbers of bridges
/// before.
pub fn functions<S: ConfigSpace>(space: &S, buses: RangeInclusive<u8>) -> impl Iterator<Item = PciFunction> {
    buses.flat_map(move |bus| (0..32).flat_map(move |device| of_device(space, bus, device)))
}

fn of_device<S: ConfigSpace>(space: &S, bus: u8, device: u8) -> impl Iterator<Item = PciFunction> {
    let first = Address { bus, device, function: 0 };
    let several = look(space, first).is_some() && space.read(first, HEADER) & MULTIPLE != 0;
    let last = if several { 7 } else { 0 };
    (0..=last).filter_map(move |function| look(space, Address { function, ..first }))
}

fn look<S: ConfigSpace>(space: &S, address: Address) -> Option<PciFunction> {
    let id = space.read(address, ID);
    let (vendor, device) = (id as u16, (id >> 16) as u16);
    let class = || (space.read(address, CLASS) >> 16) as u16;
    (vendor != u16::MAX).then(|| PciFunction { address, vendor, device, class: class() })
}

impl PciFunction {
    /// Returns the address of the function's memory in base address register (BAR) number `bar`, 0
    /// to 5. `None`: this BAR does not exist, is for I/O ports, or has no address yet.
    pub fn memory<S: ConfigSpace>(&self, space: &S, bar: u8) -> Option<u64> {
        let offset = BAR + 4 * u16::from(bar);
        if bar >= BARS {
            return None;
        }
        let low = space.read(self.address, offset);
        let high = match low >> 1 & 3 {
            // The memory has an address of 64 bits: the next register has the upper half.
            2 if bar + 1 < BARS => space.read(self.address, offset + 4),
            _ => 0,
        };
        let address = u64::from(high) << 32 | u64::from(low & !0xf);
        (low & 1 == 0 && address != 0).then_some(address)
    }

    /// Sets the address in base address register (BAR) number `bar`, on a machine whose firmware
    /// has set none. The caller makes sure that nothing else uses the addresses from there on, for
    /// the size of the function's memory.
    pub fn set_memory<S: ConfigSpace>(&self, space: &S, bar: u8, address: u32) {
        if bar < BARS {
            space.write(self.address, BAR + 4 * u16::from(bar), address);
        }
    }

    /// Enables the function: its registers respond from now on, and the function may access memory.
    /// Work that firmware left running then continues. If firmware may have left work running,
    /// reset the function by its driver first.
    pub fn enable<S: ConfigSpace>(&self, space: &S) {
        let before = space.read(self.address, COMMAND) & 0xffff;
        space.write(self.address, COMMAND, before | MEMORY_AND_MASTER);
    }

    /// Stops all memory accesses of the function; [`Dma::isolate`](crate::host::Dma::isolate) may
    /// do this.
    pub fn isolate<S: ConfigSpace>(&self, space: &S) {
        let before = space.read(self.address, COMMAND) & 0xffff;
        space.write(self.address, COMMAND, before & !4);
    }

    /// Returns the pin of the function's interrupt, 1 to 4 for A to D; 0: the function has no
    /// interrupt.
    pub fn interrupt_pin<S: ConfigSpace>(&self, space: &S) -> u8 {
        (space.read(self.address, INTERRUPT) >> 8) as u8
    }
}

//! How a driver reads and writes the registers of its controller.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

/// Register access of one controller, by byte offset. Values are little-endian; each access has
/// exactly the width in the method's name.
///
/// [`Mmio`] implements the trait for real hardware. The laboratory's models and QEMU's qtest socket
/// implement it too; a driver works with each of them.
pub trait Regs {
    /// Reads 8 bits at `offset`.
    fn read8(&self, offset: u16) -> u8;
    /// Reads 16 bits at `offset`, which is even.
    fn read16(&self, offset: u16) -> u16;
    /// Reads 32 bits at `offset`, which is a multiple of 4.
    fn read32(&self, offset: u16) -> u32;
    /// Writes 8 bits at `offset`.
    fn write8(&self, offset: u16, value: u8);
    /// Writes 16 bits at `offset`, which is even.
    fn write16(&self, offset: u16, value: u16);
    /// Writes 32 bits at `offset`, which is a multiple of 4.
    fn write32(&self, offset: u16, value: u32);
}

/// Implements [`Regs`] for a model or a fake that has one function for all widths: `fn read(&self,
/// offset: u16, bytes: _) -> u32` and `fn write(&self, offset: u16, bytes: _, value: u32)`.
#[macro_export]
macro_rules! regs_by_width {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> $crate::host::Regs for $type {
            fn read8(&self, offset: u16) -> u8 {
                self.read(offset, 1) as u8
            }
            fn read16(&self, offset: u16) -> u16 {
                self.read(offset, 2) as u16
            }
            fn read32(&self, offset: u16) -> u32 {
                self.read(offset, 4)
            }
            fn write8(&self, offset: u16, value: u8) {
                self.write(offset, 1, value.into());
            }
            fn write16(&self, offset: u16, value: u16) {
                self.write(offset, 2, value.into());
            }
            fn write32(&self, offset: u16, value: u32) {
                self.write(offset, 4, value);
            }
        }
    };
}

/// Registers of a real controller, mapped into memory.
#[derive(Debug)]
pub struct Mmio {
    base: core::ptr::NonNull<u8>,
}

// SAFETY: the address of a device is the same on every core; the caller of `Mmio::new` promises
// that nothing else uses the registers.
unsafe impl Send for Mmio {}

impl Mmio {
    /// Makes the access to registers at `base`.
    ///
    /// # Safety
    /// `base` is aligned to 4 and maps the whole register block (SDHCI: 256 bytes) as device memory
    /// for as long as the value lives, and nothing else drives the controller. The value is given
    /// to a driver, directly or inside a [`Regs`] that passes each access on. Register writes
    /// decide which memory a controller accesses. So code that writes registers itself takes over
    /// all that [`Host`](super::Host) requires of a driver.
    pub const unsafe fn new(base: core::ptr::NonNull<u8>) -> Self {
        Mmio { base }
    }

    /// Makes the access to registers at `address`, a number in bytes; otherwise like
    /// [`new`](Self::new).
    ///
    /// # Safety
    /// The promises of [`new`](Self::new) hold, and `address` is not 0.
    pub const unsafe fn at_address(address: usize) -> Self {
        // SAFETY: the caller promises that the address is not 0.
        let base = unsafe { core::ptr::NonNull::new_unchecked(core::ptr::without_provenance_mut(address)) };
        Mmio { base }
    }

    fn at<T>(&self, offset: u16) -> *mut T {
        self.base.as_ptr().wrapping_add(offset as usize).cast()
    }
}

impl Regs for Mmio {
    fn read8(&self, offset: u16) -> u8 {
        // SAFETY: `offset` is inside the block that the caller of `new` promised; the access is
        // volatile and forms no reference.
        unsafe { self.at::<u8>(offset).read_volatile() }
    }
    fn read16(&self, offset: u16) -> u16 {
        // SAFETY: as in `read8`; the trait asks for even offsets.
        unsafe { self.at::<u16>(offset).read_volatile() }
    }
    fn read32(&self, offset: u16) -> u32 {
        // SAFETY: as in `read8`; the trait asks for multiples of 4.
        unsafe { self.at::<u32>(offset).read_volatile() }
    }
    fn write8(&self, offset: u16, value: u8) {
        // SAFETY: as in `read8`.
        unsafe { self.at::<u8>(offset).write_volatile(value) }
    }
    fn write16(&self, offset: u16, value: u16) {
        // SAFETY: as in `read16`.
        unsafe { self.at::<u16>(offset).write_volatile(value) }
    }
    fn write32(&self, offset: u16, value: u32) {
        // SAFETY: as in `read32`.
        unsafe { self.at::<u32>(offset).write_volatile(value) }
    }
}

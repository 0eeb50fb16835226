//! Access to the controller's registers, by mapping or by system calls.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::Regs;
use mmcq::host::regs::Mmio;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bytes of an SDHCI register block [SDHC 2.1].
pub(crate) const BYTES: usize = 256;

/// A register block: mapped into this process where the kernel allows it, otherwise read and
/// written through the device's file. (A BAR in the same page as another device's cannot be
/// mapped.) In both cases every access has the width that the driver uses.
#[derive(Debug)]
pub struct Window(Way);

#[derive(Debug)]
enum Way {
    Mapped(Mapping),
    File(Arc<File>, u64),
}

/// A mapping that is unmapped when it is dropped.
#[derive(Debug)]
struct Mapping {
    mmio: Mmio,
    base: NonNull<u8>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `Window::mapped` with this length; its only user is `mmio`, which goes
        // too.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

impl Window {
    /// Maps the registers at `offset` of the device's file.
    pub(crate) fn mapped(file: &File, offset: u64) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of an open file.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: page-aligned, at least `BYTES` long, and mapped until the `Mapping` that holds it
        // is dropped; the device is ours alone by its group, and a reader makes one window.
        let mmio = unsafe { Mmio::new(base) };
        Ok(Window(Way::Mapped(Mapping { mmio, base })))
    }

    /// Makes the access to registers at `offset` of the device's file, through system calls.
    pub(crate) fn file(file: Arc<File>, offset: u64) -> Self {
        Window(Way::File(file, offset))
    }

    /// Returns whether every access is one of the CPU's, without a system call.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Way::Mapped(..))
    }
}

/// Reads through the file; all ones where the device does not respond, as on the bus.
fn read<const N: usize>(file: &File, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).map_or([0xff; N], |()| bytes)
}

/// Writes through the file. A write that the device refuses is lost, as on the bus; later reads
/// show it.
fn write(file: &File, at: u64, bytes: &[u8]) {
    let _ = file.write_all_at(bytes, at);
}

impl Regs for Window {
    fn read8(&self, offset: u16) -> u8 {
        match &self.0 {
            Way::Mapped(at) => at.mmio.read8(offset),
            Way::File(file, base) => u8::from_le_bytes(read(file, base + u64::from(offset))),
        }
    }
    fn read16(&self, offset: u16) -> u16 {
        match &self.0 {
            Way::Mapped(at) => at.mmio.read16(offset),
            Way::File(file, base) => u16::from_le_bytes(read(file, base + u64::from(offset))),
        }
    }
    fn read32(&self, offset: u16) -> u32 {
        match &self.0 {
            Way::Mapped(at) => at.mmio.read32(offset),
            Way::File(file, base) => u32::from_le_bytes(read(file, base + u64::from(offset))),
        }
    }
    fn write8(&self, offset: u16, value: u8) {
        match &self.0 {
            Way::Mapped(at) => at.mmio.write8(offset, value),
            Way::File(file, base) => write(file, base + u64::from(offset), &value.to_le_bytes()),
        }
    }
    fn write16(&self, offset: u16, value: u16) {
        match &self.0 {
            Way::Mapped(at) => at.mmio.write16(offset, value),
            Way::File(file, base) => write(file, base + u64::from(offset), &value.to_le_bytes()),
        }
    }
    fn write32(&self, offset: u16, value: u32) {
        match &self.0 {
            Way::Mapped(at) => at.mmio.write32(offset, value),
            Way::File(file, base) => write(file, base + u64::from(offset), &value.to_le_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that stands for a device whose registers begin at its second page.
    fn device() -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[0; 0x1000 + BYTES], 0).unwrap();
        file
    }

    fn tried(window: &Window, file: &File) {
        window.write32(0x10, 0x8765_4321);
        window.write16(0x22, 0xabcd);
        window.write8(0x31, 0x5a);
        assert_eq!(
            (window.read32(0x10), window.read16(0x12), window.read8(0x13)),
            (0x8765_4321, 0x8765, 0x87)
        );
        assert_eq!((window.read32(0x20), window.read16(0x30)), (0xabcd_0000, 0x5a00));
        let mut seen = [0; 4];
        file.read_exact_at(&mut seen, 0x1010).unwrap();
        assert_eq!(seen, [0x21, 0x43, 0x65, 0x87]);
        file.read_exact_at(&mut seen, 0x10).unwrap();
        assert_eq!(seen, [0; 4]);
    }

    #[test]
    fn both_ways_reach_the_same_registers() {
        let file = device();
        let mapped = Window::mapped(&file, 0x1000).unwrap();
        assert!(mapped.is_mapped());
        tried(&mapped, &file);
        let file = Arc::new(device());
        let window = Window::file(file.clone(), 0x1000);
        assert!(!window.is_mapped());
        tried(&window, &file);
    }

    #[test]
    fn a_device_that_does_not_answer_reads_all_ones() {
        let window = Window::file(Arc::new(tempfile::tempfile().unwrap()), 0);
        assert_eq!((window.read8(0), window.read16(2), window.read32(4)), (0xff, 0xffff, u32::MAX));
        let nowhere = Window::file(Arc::new(File::open("/dev/null").unwrap()), 0);
        nowhere.write32(0, 1);
        assert_eq!(nowhere.read32(0), u32::MAX);
        assert!(Window::mapped(&File::open("/dev/null").unwrap(), 0).is_err());
    }
}

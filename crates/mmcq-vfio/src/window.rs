//! Access to the controller's registers, mapped or by system calls.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::Regs;
use mmcq::host::regs::Mmio;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Size in bytes of an SDHCI register block [SDHC 2.1].
pub(crate) const BYTES: usize = 256;

/// A register block: mapped into this process if the kernel allows it, otherwise read and written
/// through the device's file. (The kernel does not map a BAR that shares a page with another
/// device's BAR.) In both cases each access has the width that the driver uses.
#[derive(Debug)]
pub struct Window(Way);

#[derive(Debug)]
enum Way {
    Mapped(Mapping),
    File(Arc<File>, u64),
}

/// A mapping of registers; dropping it unmaps them.
#[derive(Debug)]
struct Mapping {
    mmio: Mmio,
    base: NonNull<u8>,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `Window::mapped` mapped this address with this length. Its only user is `mmio`,
        // which is dropped together with it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), BYTES) };
    }
}

impl Window {
    /// Maps the registers at `offset` in the device's file.
    pub(crate) fn mapped(file: &File, offset: u64) -> io::Result<Self> {
        let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this is a new mapping of an open file, at an address that the kernel chooses.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), offset)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        // SAFETY: the mapping is page-aligned, at least `BYTES` long, and lasts until its `Mapping`
        // is dropped. By its group the device belongs to this program alone, and a reader makes one
        // window.
        let mmio = unsafe { Mmio::new(base) };
        Ok(Window(Way::Mapped(Mapping { mmio, base })))
    }

    /// Makes an access by system calls to the registers at `offset` in the device's file.
    pub(crate) fn file(file: Arc<File>, offset: u64) -> Self {
        Window(Way::File(file, offset))
    }

    /// Returns whether the registers are mapped, so that an access is a load or store without a
    /// system call.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Way::Mapped(..))
    }
}

/// Reads bytes at `at` in the device's file; all ones if the read fails, as on a bus where no
/// device responds.
fn read<const N: usize>(file: &File, at: u64) -> [u8; N] {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).map_or([0xff; N], |()| bytes)
}

/// Writes bytes at `at` in the device's file. A write that fails is ignored, as on a bus; the
/// driver sees it by later reads.
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

    /// Makes a file that stands for a device, whose registers begin at the second page.
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

//! Memory that the controller reaches by DMA.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::engine::DmaBuf;
use mmcq::host::{Direction, Dma, DmaError};
use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

/// Size of the memory in bytes: one large page (2 MiB), and less than the 8 MiB that Linux lets any
/// user pin.
pub(crate) const BYTES: usize = 2 << 20;
/// Alignment in bytes of each part that is given out.
const ALIGN: usize = 4096;
/// The flag `MAP_HUGE_2MB` of mmap: the large page has 2 MiB.
const HUGE_2_MIB: libc::c_int = 21 << 26;

/// A contiguous range of memory at one bus address. Parts of it are given out and come back. The
/// range is never freed, since the engine may still have parts.
#[derive(Debug)]
pub struct Memory {
    base: NonNull<u8>,
    bus: u64,
    /// The parts that are given out, in order of address.
    parts: RefCell<Vec<Part>>,
}

/// An allocated part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Offset from the beginning of the memory, in bytes.
    start: usize,
    /// Size in bytes that was requested.
    bytes: usize,
}

impl Part {
    /// Returns the offset in bytes, rounded up to the alignment, at which another part may begin
    /// after this part.
    fn end(&self) -> usize {
        self.start + self.bytes.next_multiple_of(ALIGN)
    }
}

impl Memory {
    /// Allocates memory filled with zeros, without a bus address yet. `huge`: one large page, which
    /// is contiguous in physical memory.
    pub(crate) fn new(huge: bool) -> io::Result<Self> {
        // Shared memory: after a fork, a private mapping could give this process copies of pages
        // that the controller does not use.
        let mut flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        if huge {
            flags |= libc::MAP_HUGETLB | HUGE_2_MIB;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this is a new mapping at an address that the kernel chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Memory { base, bus: 0, parts: RefCell::new(Vec::new()) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.base.addr().get() as u64
    }

    /// Sets the bus address at which the controller sees the memory.
    pub(crate) fn set_bus(&mut self, bus: u64) {
        self.bus = bus;
    }

    /// Returns the physical address of the memory, which `/proc/self/pagemap` shows to root.
    pub(crate) fn physical(&self) -> io::Result<u64> {
        // Bits 54:0 are the number of the physical page, bit 63: the page is present.
        let pagemap = File::open("/proc/self/pagemap")?;
        // SAFETY: the call only returns a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let of = |address: u64| {
            let mut entry = [0; 8];
            pagemap.read_exact_at(&mut entry, address / page * 8)?;
            let entry = u64::from_ne_bytes(entry);
            let number = entry & ((1 << 55) - 1);
            if entry >> 63 == 0 || number == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "shows its numbers to root only",
                ));
            }
            Ok(number * page)
        };
        let (first, last) = (of(self.address())?, of(self.address() + BYTES as u64 - page)?);
        if !are_ends(first, last, page) {
            return Err(io::Error::other("the large page is not contiguous"));
        }
        Ok(first)
    }

    /// Takes a part of `bytes` bytes whose offset is a multiple of `align`; `None`: no free part is
    /// that large.
    fn take(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let needed = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let mut parts = self.parts.borrow_mut();
        // Finds the first gap that is large enough; the last gap reaches to the end of the memory.
        let ends = std::iter::once(0).chain(parts.iter().map(Part::end));
        let gaps = ends.zip(parts.iter().map(|part| part.start).chain([BYTES]));
        let (place, start) = gaps.enumerate().find_map(|(at, (from, to))| {
            let start = from.checked_next_multiple_of(align)?;
            (to.checked_sub(start)? >= needed).then_some((at, start))
        })?;
        parts.insert(place, Part { start, bytes: bytes.max(1) });
        // SAFETY: the gap is inside the mapping.
        Some(unsafe { self.base.add(start) })
    }

    /// Takes back a part from [`carve`](Self::carve). Returns false if the buffer is not exactly
    /// one part of this memory; the buffer is then leaked.
    pub fn give_back(&self, buffer: DmaBuf) -> bool {
        let Some(start) = buffer.as_non_null().addr().get().checked_sub(self.base.addr().get()) else {
            return false;
        };
        let given = Part { start, bytes: buffer.len_bytes() as usize };
        let mut parts = self.parts.borrow_mut();
        // A `DmaBuf` is the only owner of its bytes. If it covers the whole part, no other code has a
        // piece of that part.
        let Some(place) = parts.iter().position(|part| *part == given) else { return false };
        parts.remove(place);
        true
    }

    /// Returns a free part of this memory as a buffer of `bytes` bytes for a request; `None` if no
    /// free range is that large. The buffer's content is arbitrary.
    pub fn carve(&self, bytes: u32) -> Option<DmaBuf> {
        self.carve_aligned(bytes, ALIGN as u32)
    }

    /// Returns a buffer of `bytes` bytes as [`carve`](Self::carve) does, whose bus address is a
    /// multiple of `align` (at most 2 MiB); `None` if there is no room.
    pub fn carve_aligned(&self, bytes: u32, align: u32) -> Option<DmaBuf> {
        let part = self.take(bytes as usize, (align as usize).max(ALIGN))?;
        // SAFETY: the memory is initialised by the kernel and never unmapped, and `take` returns
        // only memory that is not given out.
        Some(unsafe { DmaBuf::from_raw(part, bytes) })
    }

    /// Moves a value into this memory, where it stays for ever. Returns `None` if there is no room.
    pub(crate) fn place<T>(&self, value: T) -> Option<&'static mut T> {
        const { assert!(align_of::<T>() <= ALIGN) };
        let part = self.take(size_of::<T>(), ALIGN)?.cast::<T>();
        // SAFETY: `take` aligns the part, and it is large enough and never unmapped. No buffer is
        // made of it, so it never comes back.
        unsafe {
            part.write(value);
            Some(&mut *part.as_ptr())
        }
    }

    /// Returns the address translation of this memory, for a driver.
    pub fn mapped(&self) -> Mapped {
        Mapped { base: self.base.addr().get(), bus: self.bus }
    }
}

/// Returns whether the physical addresses `first` and `last` can be those of the first and the last
/// page of one contiguous range; `page` is the size of a page in bytes.
fn are_ends(first: u64, last: u64, page: u64) -> bool {
    last.checked_sub(first) == Some(BYTES as u64 - page)
}

/// The address translation of [`Memory`] for a driver: only addresses inside of the memory are
/// mapped. No cache maintenance is needed: PCI devices see the content of the CPU's caches.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    base: usize,
    bus: u64,
}

// SAFETY: the controller's addresses from `bus` on lead to the memory from `base` on, as long as
// the program runs (see `Memory`).
unsafe impl Dma for Mapped {
    fn map(&self, ptr: NonNull<u8>, len: usize, _: Direction) -> Result<u64, DmaError> {
        let start = ptr.addr().get().checked_sub(self.base).ok_or(DmaError::Unreachable)?;
        match start.checked_add(len) {
            Some(end) if end <= BYTES => {
                fence(Ordering::SeqCst);
                Ok(self.bus + start as u64)
            }
            _ => Err(DmaError::Unreachable),
        }
    }

    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {
        fence(Ordering::SeqCst);
    }

    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Memory {
        let mut memory = Memory::new(false).unwrap();
        memory.set_bus(0x1000_0000);
        memory
    }

    /// Checks that pages in any order are not taken for contiguous memory: small pages may be in
    /// any order, and the last may even be below the first.
    #[test]
    fn pages_in_any_order_are_no_piece() {
        let length = BYTES as u64;
        assert!(are_ends(0x20_0000, 0x20_0000 + length - 4096, 4096));
        for (first, last) in [(0x20_0000, 0), (0x20_0000, 0x20_0000), (0, length), (u64::MAX, 0)] {
            assert!(!are_ends(first, last, 4096), "{first:#x} {last:#x}");
        }
    }

    #[test]
    fn parts_are_aligned_and_do_not_overlap() {
        let memory = memory();
        let number = memory.place(0x1234_5678u32).unwrap();
        let (mut a, mut b) = (memory.carve(512).unwrap(), memory.carve(8192).unwrap());
        for part in [&a, &b] {
            assert!(part.as_non_null().addr().get().is_multiple_of(ALIGN));
            assert!(part.iter().all(|&byte| byte == 0));
        }
        a.fill(1);
        b.fill(2);
        assert!(a.iter().all(|&byte| byte == 1) && *number == 0x1234_5678);
    }

    #[test]
    fn a_part_begins_where_it_is_asked_to() {
        let memory = memory();
        let (first, large) =
            (memory.carve(512).unwrap(), memory.carve_aligned(512 << 10, 512 << 10).unwrap());
        let next = memory.carve(512).unwrap();
        let base = memory.mapped().base;
        let at = |part: &DmaBuf| part.as_non_null().addr().get() - base;
        assert_eq!((at(&first), at(&large), at(&next)), (0, 512 << 10, 4096));
        assert!(memory.carve_aligned(512 << 10, 2 << 20).is_none());
        assert!(memory.give_back(large) && memory.carve(1 << 20).is_some());
    }

    #[test]
    fn what_comes_back_is_handed_out_again() {
        let memory = memory();
        memory.place(0u32).unwrap();
        let mut held = Vec::new();
        for round in 0..1000u32 {
            // Two buffers for a card and those of requests of several sizes, given back in another
            // order.
            for bytes in [512, 4096, 128 << 10, 5000] {
                held.push(memory.carve(bytes).unwrap_or_else(|| panic!("round {round}: nothing is left")));
            }
            let place = round as usize % held.len();
            held.rotate_left(place);
            for buffer in held.drain(..) {
                assert!(memory.give_back(buffer));
            }
        }
        assert!(memory.carve(BYTES as u32 - ALIGN as u32).is_some());
    }

    #[test]
    fn only_whole_parts_come_back() {
        let memory = memory();
        let whole = memory.carve(8192).unwrap().into_static();
        let (first, second) = whole.split_at_mut(4096);
        assert!(!memory.give_back(DmaBuf::from_static(first)));
        assert!(!memory.give_back(DmaBuf::from_static(second)));
        assert!(!memory.give_back(DmaBuf::from_static(vec![0; 512].leak())));
        assert!(!memory.give_back(DmaBuf::EMPTY));
    }

    #[test]
    fn no_more_is_handed_out_than_there_is() {
        let memory = memory();
        assert!(memory.carve(BYTES as u32 + 1).is_none());
        assert!(memory.carve(u32::MAX).is_none());
        let parts: Vec<_> = std::iter::from_fn(|| memory.carve(100_000)).collect();
        assert_eq!(parts.len(), BYTES / 102_400);
        assert!(memory.carve(ALIGN as u32).is_some());
    }

    #[test]
    fn the_controller_gets_what_lies_inside_and_nothing_else() {
        let memory = memory();
        let (dma, first, second) = (memory.mapped(), memory.carve(4096).unwrap(), memory.carve(512).unwrap());
        let map = |ptr, len| dma.map(ptr, len, Direction::Read);
        assert_eq!(map(first.as_non_null(), 4096), Ok(0x1000_0000));
        assert_eq!(map(second.as_non_null(), 512), Ok(0x1000_1000));
        assert_eq!(map(first.as_non_null(), BYTES), Ok(0x1000_0000));
        assert_eq!(map(first.as_non_null(), BYTES + 1), Err(DmaError::Unreachable));
        assert_eq!(map(second.as_non_null(), usize::MAX), Err(DmaError::Unreachable));
        let elsewhere = NonNull::from(&mut [0u8; 16]).cast();
        assert_eq!(map(elsewhere, 16), Err(DmaError::Unreachable));
    }
}

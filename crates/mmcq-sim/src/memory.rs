//! Memory as a device sees it: only through mappings, and with the content from the last cache
//! operation.
//!
//! Every mapping has its own shadow memory, at a bus address that differs from the CPU address.
//! Only [`map`](mmcq::host::Dma::map), `sync` and `unmap` copy data between the two, as with a
//! cache that is not coherent. A driver that omits one of these calls gets old data or poison. A
//! device that accesses anything outside of a mapping, or against its direction, gets a bus error,
//! and the access is recorded as a violation.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::{Direction, Dma, DmaError};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

/// Byte that fills the new memory of a read mapping.
pub const POISON: u8 = 0xb5;

/// Largest number of violations that are stored as text; all are counted.
const KEPT_VIOLATIONS: usize = 64;

/// Number of unmapped bytes between two windows (parts of the bus address space).
const GUARD_BYTES: u64 = 192;

/// Mask of the low bits that are equal in a CPU address and its bus address, so that a device sees
/// the same misalignment.
const SHARED_BITS: usize = 7;

/// Error: a device accessed an address that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusError;

/// Memory that a device accesses by bus addresses.
pub trait DeviceMemory {
    /// Reads `buffer.len()` bytes at bus address `bus`. On an error the buffer is filled with ones.
    fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError>;

    /// Writes `data` to the memory behind the bus address `bus`, as the device does by DMA.
    fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError>;

    /// Writes `data` at bus address `bus`, into a descriptor that the device has read there and now
    /// returns to the driver.
    fn device_hand_back(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        self.device_write(bus, data)
    }
}

impl DeviceMemory for ShadowMemory {
    fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        ShadowMemory::device_read(self, bus, buffer)
    }

    fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        ShadowMemory::device_write(self, bus, data)
    }

    /// Writes `data` into a descriptor that the device returns. The descriptor must lie in a
    /// mapping for `Write`. The CPU does not see the change, since such a mapping invalidates no
    /// cache line.
    fn device_hand_back(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        let mut inner = self.0.borrow_mut();
        let (window, at) = inner.span(bus, data.len(), Direction::Write).ok_or(BusError)?;
        inner.windows[window].shadow[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// Addresses and limits of a [`ShadowMemory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Lowest bus address that a mapping can have.
    pub base: u64,
    /// End of the bus addresses (exclusive); beyond it, mapping fails with [`DmaError::Exhausted`].
    pub end: u64,
    /// Alignment that [`map`](mmcq::host::Dma::map) requires of CPU addresses; a power of two.
    pub align: usize,
    /// Largest natural alignment, a power of two. The size of a mapping is rounded up to a power of
    /// two; its window begins at a multiple of that size, or of `natural` if that is smaller.
    pub natural: u64,
    /// Size in bytes of a cache line, a power of two. The end of a read mapping invalidates whole
    /// lines.
    pub line: u32,
}

impl MemoryConfig {
    /// Configuration with bus addresses below 4 GiB.
    pub const BITS32: MemoryConfig =
        MemoryConfig { base: 0x4000_0000, end: 0x1_0000_0000, align: 1, natural: 1, line: 1 };
    /// Configuration with bus addresses above 4 GiB only.
    pub const BITS64: MemoryConfig =
        MemoryConfig { base: 0x12_4000_0000, end: 0x100_0000_0000, align: 1, natural: 1, line: 1 };
}

#[derive(Debug)]
struct Live {
    bus: u64,
    len: usize,
    ptr: usize,
    direction: Direction,
}

/// A window: a part of the bus address space that keeps its address, and is reused by later
/// mappings.
#[derive(Debug)]
struct Window {
    base: u64,
    shadow: Box<[u8]>,
    live: Option<Live>,
    /// Offsets of the bytes of a `Read` mapping that neither the device has written nor
    /// [`poison`](Self::poison) has filled with its test pattern (poison). The pattern is filled in
    /// only when it must be: most devices write the mapping from beginning to end, so that no byte
    /// is left to fill.
    fresh: Range<usize>,
}

impl Window {
    /// Writes data that come from a device into this window of bus addresses, from offset `at` on.
    fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        if at == self.fresh.start && end <= self.fresh.end {
            self.fresh.start = end;
        } else {
            self.poison();
        }
        self.shadow[at..end].copy_from_slice(data);
    }

    /// Fills the bytes of `fresh` with the value [`POISON`]. The device should write these bytes;
    /// those that it does not write then have a value that shows the mistake.
    fn poison(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        self.shadow[fresh].fill(POISON);
    }
}

#[derive(Debug)]
struct Inner {
    config: MemoryConfig,
    /// Windows in the order of their addresses, which are assigned upwards.
    windows: Vec<Window>,
    /// Free windows by size, in the order in which they became free. The oldest is reused first, so
    /// that a late access by a device is noticed.
    free: BTreeMap<usize, VecDeque<usize>>,
    next: u64,
    last: usize,
    live: usize,
    violations: Vec<String>,
    violation_count: u64,
}

/// Memory that a device's DMA sees: a copy of each mapped buffer, at a bus address of its own. Only
/// calls of [`Dma`] copy data between buffer and copy, as with a cache that is not coherent. Clones
/// share the same memory.
#[derive(Clone, Debug)]
pub struct ShadowMemory(Rc<RefCell<Inner>>);

impl Default for ShadowMemory {
    fn default() -> Self {
        Self::new(MemoryConfig::BITS32)
    }
}

impl ShadowMemory {
    /// Makes memory for a device, with no buffer mapped yet.
    pub fn new(config: MemoryConfig) -> Self {
        ShadowMemory(Rc::new(RefCell::new(Inner {
            config,
            windows: Vec::new(),
            free: BTreeMap::new(),
            next: config.base,
            last: 0,
            live: 0,
            violations: Vec::new(),
            violation_count: 0,
        })))
    }

    /// Reads `buffer.len()` bytes at bus address `bus` for a device. On an error the buffer is
    /// filled with ones.
    pub fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let mut inner = self.0.borrow_mut();
        match inner.span(bus, buffer.len(), Direction::Write) {
            Some((window, at)) => {
                buffer.copy_from_slice(&inner.windows[window].shadow[at..at + buffer.len()]);
                Ok(())
            }
            None => {
                buffer.fill(0xff);
                Err(BusError)
            }
        }
    }

    /// Writes `data` at bus address `bus` for a device. On an error nothing is written.
    pub fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        let mut inner = self.0.borrow_mut();
        let (window, at) = inner.span(bus, data.len(), Direction::Read).ok_or(BusError)?;
        inner.windows[window].write(at, data);
        Ok(())
    }

    /// Returns descriptions of the first 64 violations by devices and drivers, with addresses and
    /// lengths.
    pub fn violations(&self) -> Vec<String> {
        self.0.borrow().violations.clone()
    }

    /// Returns the number of violations by devices and drivers.
    pub fn violation_count(&self) -> u64 {
        self.0.borrow().violation_count
    }

    /// Returns the number of mappings that exist now.
    pub fn live_mappings(&self) -> usize {
        self.0.borrow().live
    }
}

impl Inner {
    fn violation(&mut self, text: impl FnOnce() -> String) {
        self.violation_count += 1;
        if self.violations.len() < KEPT_VIOLATIONS {
            self.violations.push(text());
        }
    }

    /// Returns the index of the mapping (window) that contains the bus address `bus`; `None` if
    /// there is none.
    fn window_of(&mut self, bus: u64) -> Option<usize> {
        let inside = |w: &Window| bus >= w.base && bus - w.base < w.shadow.len() as u64;
        if self.windows.get(self.last).is_some_and(inside) {
            return Some(self.last);
        }
        let index = self.windows.partition_point(|w| w.base <= bus).checked_sub(1)?;
        if !inside(&self.windows[index]) {
            return None;
        }
        self.last = index;
        Some(index)
    }

    /// Returns window and offset of a device's access to `len` bytes at bus address `bus`; `None`
    /// if the access is not allowed. `needed` is the direction that the mapping must have.
    fn span(&mut self, bus: u64, len: usize, needed: Direction) -> Option<(usize, usize)> {
        let verb = if needed == Direction::Write { "read" } else { "write" };
        let Some(index) = self.window_of(bus) else {
            self.violation(|| format!("device {verb} of {len} bytes at {bus:#x}: not mapped"));
            return None;
        };
        let window = &self.windows[index];
        let why = match &window.live {
            None => "the mapping has ended".to_string(),
            Some(live) if live.direction != needed => format!("mapped for {:?} only", live.direction),
            Some(live) if bus < live.bus || bus - live.bus + len as u64 > live.len as u64 => {
                format!("the mapping is {} bytes at {:#x}", live.len, live.bus)
            }
            Some(_) => return Some((index, (bus - window.base) as usize)),
        };
        self.violation(|| format!("device {verb} of {len} bytes at {bus:#x}: {why}"));
        None
    }

    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let class = bytes.checked_next_power_of_two()?.max(64);
        if let Some(index) = self.free.get_mut(&class).and_then(VecDeque::pop_front) {
            return Some(index);
        }
        self.next = self.next.checked_next_multiple_of(self.config.natural.min(class as u64))?;
        let end = self.next.checked_add(class as u64)?.checked_add(GUARD_BYTES)?;
        if end > self.config.end {
            return None;
        }
        let shadow = vec![POISON; class].into();
        self.windows.push(Window { base: self.next, shadow, live: None, fresh: 0..0 });
        self.next = end;
        Some(self.windows.len() - 1)
    }
}

// SAFETY: the bus address that `map` returns leads devices to the shadow of exactly these `len`
// bytes, and nothing else, until `unmap`; `map`, `sync` and `unmap` copy between the shadow and the
// bytes.
unsafe impl Dma for ShadowMemory {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        let mut inner = self.0.borrow_mut();
        let address = ptr.as_ptr() as usize;
        if address & (inner.config.align - 1) != 0 {
            return Err(DmaError::Alignment);
        }
        let line = inner.config.line as usize;
        if direction == Direction::Read && (address | len) & (line - 1) != 0 {
            inner.violation(|| format!("map of {len} bytes at {address:#x}: a read of parts of cache lines"));
        }
        let offset = address & SHARED_BITS;
        let index =
            len.checked_add(offset).and_then(|bytes| inner.allocate(bytes)).ok_or(DmaError::Exhausted)?;
        let window = &mut inner.windows[index];
        let bus = window.base + offset as u64;
        match direction {
            Direction::Read => window.fresh = offset..offset + len,
            // SAFETY: the caller of `map` vouches for `len` bytes at `ptr`; shadow memory is our
            // own, so they do not overlap.
            Direction::Write => unsafe {
                let shadow = &mut window.shadow[offset..offset + len];
                std::ptr::copy_nonoverlapping(ptr.as_ptr(), shadow.as_mut_ptr(), len);
            },
        }
        window.live = Some(Live { bus, len, ptr: address, direction });
        inner.live += 1;
        Ok(bus)
    }

    fn line_bytes(&self) -> u32 {
        self.0.borrow().config.line
    }

    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        let mut inner = self.0.borrow_mut();
        let wanted = (bus, len, ptr.as_ptr() as usize, direction);
        let found = inner.window_of(bus);
        let same = |live: &Live| (live.bus, live.len, live.ptr, live.direction) == wanted;
        let Some(index) = found.filter(|&i| inner.windows[i].live.as_ref().is_some_and(same)) else {
            inner
                .violation(|| format!("unmap of {len} bytes at {bus:#x}: no such mapping for {direction:?}"));
            return;
        };
        let window = &mut inner.windows[index];
        window.live = None;
        if direction == Direction::Read {
            window.poison();
            let offset = (bus - window.base) as usize;
            let shadow = &window.shadow[offset..offset + len];
            // SAFETY: pointer and length are those of the mapping, which the caller of `map`
            // vouched for until `unmap`.
            unsafe { std::ptr::copy_nonoverlapping(shadow.as_ptr(), ptr.as_ptr(), len) };
        }
        let class = window.shadow.len();
        inner.free.entry(class).or_default().push_back(index);
        inner.live -= 1;
    }

    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        let mut inner = self.0.borrow_mut();
        let address = ptr.as_ptr() as usize;
        let inside = |live: &Live| {
            live.direction == Direction::Write
                && bus.checked_sub(live.bus).is_some_and(|skip| {
                    skip.saturating_add(len as u64) <= live.len as u64
                        && live.ptr.wrapping_add(skip as usize) == address
                })
        };
        let found = inner.window_of(bus);
        let Some(index) = found.filter(|&i| inner.windows[i].live.as_ref().is_some_and(inside)) else {
            inner.violation(|| format!("sync of {len} bytes at {bus:#x}: not inside a mapping for Write"));
            return;
        };
        let window = &mut inner.windows[index];
        let offset = (bus - window.base) as usize;
        let shadow = &mut window.shadow[offset..offset + len];
        // SAFETY: the range lies inside a live mapping at the same CPU address, which the caller of
        // `map` vouched for.
        unsafe { std::ptr::copy_nonoverlapping(ptr.as_ptr(), shadow.as_mut_ptr(), len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(buffer: &mut [u8]) -> NonNull<u8> {
        NonNull::new(buffer.as_mut_ptr()).unwrap()
    }

    #[test]
    fn a_write_mapping_shows_the_device_what_was_there_at_map_and_sync() {
        let memory = ShadowMemory::default();
        let mut cpu = vec![1u8; 512];
        let ptr = at(&mut cpu);
        let bus = memory.map(ptr, 512, Direction::Write).unwrap();
        assert_ne!(bus, ptr.as_ptr() as u64);
        cpu[8..16].fill(2);
        let mut seen = [0; 16];
        memory.device_read(bus, &mut seen).unwrap();
        assert_eq!(seen, [1; 16], "not synced yet");
        memory.sync(bus + 8, at(&mut cpu[8..]), 8);
        memory.device_read(bus, &mut seen).unwrap();
        assert_eq!(seen, [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2]);
        memory.unmap(bus, at(&mut cpu), 512, Direction::Write);
        assert_eq!(memory.violation_count(), 0);
        assert_eq!(memory.live_mappings(), 0);
    }

    #[test]
    fn a_read_mapping_returns_what_the_device_wrote_and_poison_elsewhere() {
        let memory = ShadowMemory::new(MemoryConfig::BITS64);
        let mut cpu = vec![7u8; 100];
        let ptr = at(&mut cpu);
        let bus = memory.map(ptr, 100, Direction::Read).unwrap();
        assert!(bus > u64::from(u32::MAX));
        memory.device_write(bus + 10, &[9; 20]).unwrap();
        assert_eq!(cpu, vec![7u8; 100], "the CPU sees nothing before unmap");
        memory.unmap(bus, ptr, 100, Direction::Read);
        assert!(cpu[..10].iter().chain(&cpu[30..]).all(|&b| b == POISON));
        assert!(cpu[10..30].iter().all(|&b| b == 9));
    }

    #[test]
    fn what_a_device_did_not_write_is_poison() {
        crate::fuzz::fuzz("what_a_device_did_not_write_is_poison", 300, |u| {
            let memory = ShadowMemory::default();
            for _ in 0..u.int_in_range(1..=3)? {
                let len = u.int_in_range(1..=40)?;
                let mut cpu = vec![7u8; len];
                let bus = memory.map(at(&mut cpu), len, Direction::Read).unwrap();
                let (mut expected, mut next) = (vec![POISON; len], 0);
                for value in 0..u.int_in_range(0..=6)? {
                    let from = if u.ratio(2, 3)? { next } else { u.choose_index(len)? };
                    let count = u.int_in_range(0..=len - from)?;
                    memory.device_write(bus + from as u64, &vec![value; count]).unwrap();
                    expected[from..from + count].fill(value);
                    next = from + count;
                }
                memory.unmap(bus, at(&mut cpu), len, Direction::Read);
                assert_eq!(cpu, expected);
                // The same window is reused for the other direction.
                let mut cpu: Vec<u8> = (0..len as u8).collect();
                let bus = memory.map(at(&mut cpu), len, Direction::Write).unwrap();
                let mut seen = vec![0; len];
                memory.device_read(bus, &mut seen).unwrap();
                memory.unmap(bus, at(&mut cpu), len, Direction::Write);
                assert_eq!(seen, cpu);
            }
            assert_eq!(memory.violation_count(), 0);
            Ok(())
        });
    }

    #[test]
    fn accesses_outside_and_against_the_direction_are_bus_errors() {
        let memory = ShadowMemory::default();
        let mut cpu = vec![0u8; 100];
        let ptr = at(&mut cpu);
        let bus = memory.map(ptr, 100, Direction::Read).unwrap();
        let mut byte = [0];
        assert_eq!(memory.device_read(bus, &mut byte), Err(BusError));
        assert_eq!(byte, [0xff]);
        assert_eq!(memory.device_write(bus + 99, &[0, 0]), Err(BusError));
        assert_eq!(memory.device_write(bus.wrapping_sub(1), &[0]), Err(BusError));
        assert_eq!(memory.device_write(0, &[0]), Err(BusError));
        assert_eq!(memory.device_write(u64::MAX, &[0]), Err(BusError));
        memory.unmap(bus, ptr, 100, Direction::Read);
        assert_eq!(memory.device_write(bus, &[0]), Err(BusError));
        let texts = memory.violations();
        assert_eq!(texts.len(), 6);
        assert!(
            texts[1].contains(&format!("{:#x}", bus + 99)) && texts[1].contains("2 bytes"),
            "{}",
            texts[1]
        );
        assert!(texts[5].contains("has ended"), "{}", texts[5]);
    }

    #[test]
    fn wrong_unmaps_and_syncs_are_violations_and_change_nothing() {
        let memory = ShadowMemory::default();
        let mut cpu = vec![0u8; 64];
        let ptr = at(&mut cpu);
        let bus = memory.map(ptr, 64, Direction::Read).unwrap();
        memory.unmap(bus, ptr, 32, Direction::Read);
        memory.unmap(bus, ptr, 64, Direction::Write);
        memory.sync(bus, ptr, 64);
        assert_eq!(memory.violation_count(), 3);
        assert_eq!((memory.live_mappings(), cpu[0]), (1, 0));
        memory.unmap(bus, ptr, 64, Direction::Read);
        memory.unmap(bus, ptr, 64, Direction::Read);
        assert_eq!((memory.violation_count(), memory.live_mappings()), (4, 0));
    }

    #[test]
    fn alignment_and_space_are_limited() {
        let memory =
            ShadowMemory::new(MemoryConfig { base: 0x1000, end: 0x3000, align: 4, natural: 1, line: 1 });
        let mut cpu = vec![0u8; 8192];
        let skip = cpu.as_ptr().align_offset(8);
        assert_eq!(memory.map(at(&mut cpu[skip + 2..]), 16, Direction::Read), Err(DmaError::Alignment));
        let bus = memory.map(at(&mut cpu[skip + 4..]), 16, Direction::Read).unwrap();
        assert_eq!(bus % 8, 4, "the device sees the CPU's misalignment");
        assert_eq!(memory.map(at(&mut cpu[skip..]), 8000, Direction::Read), Err(DmaError::Exhausted));
        let ptr = at(&mut cpu[skip..]);
        for _ in 0..100 {
            let bus = memory.map(ptr, 4096, Direction::Read).expect("used again");
            memory.unmap(bus, ptr, 4096, Direction::Read);
        }
    }
}

//! Memory of the guest, which the controller's DMA accesses.
//!
//! The client passes its memory as files, and this module reads and writes these files. The guest
//! has the same pages mapped, so both see the same bytes at once. If a client truncates such a
//! file, the client gets a bus error, and this process gets no signal.

use mmcq_sim::memory::{BusError, DeviceMemory};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Largest number of ranges of guest memory that a client may have mapped at a time. Each needs a
/// file descriptor.
pub const RANGES_MAX: usize = 512;

/// Reason why a client's request to map a range is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// The range is empty, wraps around, or lies beyond the largest file offset.
    Range,
    /// The range overlaps a range that is already mapped.
    Overlap,
    /// The largest number of ranges ([`RANGES_MAX`]) is mapped already.
    TooMany,
}

#[derive(Debug)]
struct Range {
    bus: u64,
    bytes: u64,
    file: File,
    offset: u64,
    readable: bool,
    writable: bool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Mapped ranges, each with its bus address; no two of them overlap.
    ranges: Vec<Range>,
    bus_master: bool,
    refused: u64,
    first_refused: Option<String>,
}

/// Memory of the guest. All clones share one memory.
#[derive(Clone, Debug, Default)]
pub struct GuestMemory(Rc<RefCell<Inner>>);

impl GuestMemory {
    /// Maps `bytes` from `offset` of a file to the bus address `bus`.
    pub fn map(
        &self,
        bus: u64,
        bytes: u64,
        file: File,
        offset: u64,
        (readable, writable): (bool, bool),
    ) -> Result<(), MapError> {
        let end = bus.checked_add(bytes).ok_or(MapError::Range)?;
        let file_end = offset.checked_add(bytes).ok_or(MapError::Range)?;
        if bytes == 0 || file_end > i64::MAX as u64 {
            return Err(MapError::Range);
        }
        let mut inner = self.0.borrow_mut();
        let at = inner.ranges.partition_point(|range| range.bus < bus);
        let before = at.checked_sub(1).and_then(|i| inner.ranges.get(i));
        let overlaps = before.is_some_and(|range| range.bus + range.bytes > bus)
            || inner.ranges.get(at).is_some_and(|range| range.bus < end);
        if overlaps {
            return Err(MapError::Overlap);
        }
        if inner.ranges.len() >= RANGES_MAX {
            return Err(MapError::TooMany);
        }
        inner.ranges.insert(at, Range { bus, bytes, file, offset, readable, writable });
        Ok(())
    }

    /// Unmaps the ranges that lie inside the `bytes` bytes from bus address `bus` on. Returns
    /// false, and unmaps nothing, if a mapped range lies only in part inside them.
    pub fn unmap(&self, bus: u64, bytes: u64) -> bool {
        let end = bus.saturating_add(bytes);
        let outside = |range: &Range| range.bus >= end || range.bus + range.bytes <= bus;
        let inside = |range: &Range| range.bus >= bus && range.bus + range.bytes <= end;
        let mut inner = self.0.borrow_mut();
        let whole = inner.ranges.iter().all(|range| outside(range) || inside(range));
        if whole {
            inner.ranges.retain(outside);
        }
        whole
    }

    /// Unmaps all ranges of the guest's memory.
    pub fn unmap_all(&self) {
        self.0.borrow_mut().ranges.clear();
    }

    /// Sets whether the device may access memory: Bus Master Enable in the command register of the
    /// configuration space.
    pub fn set_bus_master(&self, on: bool) {
        self.0.borrow_mut().bus_master = on;
    }

    /// Returns the number of device accesses that failed, and a text about the first one. An access
    /// fails without Bus Master Enable, at an address without memory, or against the range's
    /// permission. It also fails if the range's file cannot be accessed.
    pub fn refused(&self) -> (u64, Option<String>) {
        let inner = self.0.borrow();
        (inner.refused, inner.first_refused.clone())
    }

    /// Splits an access of the device to `len` bytes at bus address `bus` (a write if `write`,
    /// otherwise a read) at the borders of the mapped ranges. For each part calls `step` with the
    /// file that the range maps, the offset in this file, and the position of the part in the
    /// access.
    fn access(
        &self,
        write: bool,
        bus: u64,
        len: usize,
        mut step: impl FnMut(&File, u64, std::ops::Range<usize>) -> std::io::Result<()>,
    ) -> Result<(), BusError> {
        let mut inner = self.0.borrow_mut();
        let mut done = 0;
        while done < len {
            let outcome = inner.piece(write, bus, done, len).and_then(|(file, offset, part)| {
                let bytes = part.len();
                step(file, offset, part).map(|()| bytes).map_err(|error| error.to_string())
            });
            match outcome {
                Ok(bytes) => done += bytes,
                Err(why) => {
                    inner.refused += 1;
                    if inner.first_refused.is_none() {
                        let verb = if write { "write" } else { "read" };
                        inner.first_refused = Some(format!("{verb} of {len} bytes at {bus:#x}: {why}"));
                    }
                    return Err(BusError);
                }
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Returns one piece of an access of `len` bytes at the bus address `bus` (a write if `write`,
    /// otherwise a read). The piece begins after the first `done` bytes of the access. It ends with
    /// the access or with the mapped range.
    fn piece(
        &self,
        write: bool,
        bus: u64,
        done: usize,
        len: usize,
    ) -> Result<(&File, u64, std::ops::Range<usize>), String> {
        if !self.bus_master {
            return Err("the device is not a bus master".to_owned());
        }
        let at = bus.checked_add(done as u64).ok_or("past the last address")?;
        let index = self.ranges.partition_point(|range| range.bus <= at);
        let range = index.checked_sub(1).and_then(|i| self.ranges.get(i));
        let range = range.filter(|range| at - range.bus < range.bytes).ok_or("not mapped")?;
        if !(if write { range.writable } else { range.readable }) {
            return Err("not allowed".to_owned());
        }
        let skip = at - range.bus;
        let bytes = (range.bytes - skip).min((len - done) as u64) as usize;
        Ok((&range.file, range.offset + skip, done..done + bytes))
    }
}

impl DeviceMemory for GuestMemory {
    fn device_read(&self, bus: u64, buffer: &mut [u8]) -> Result<(), BusError> {
        let result =
            self.access(false, bus, buffer.len(), |file, at, part| file.read_exact_at(&mut buffer[part], at));
        if result.is_err() {
            buffer.fill(0xff);
        }
        result
    }

    fn device_write(&self, bus: u64, data: &[u8]) -> Result<(), BusError> {
        self.access(true, bus, data.len(), |file, at, part| file.write_all_at(&data[part], at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    fn memory() -> GuestMemory {
        let memory = GuestMemory::default();
        memory.set_bus_master(true);
        memory
    }

    #[test]
    fn an_access_may_cross_from_one_range_to_the_next() {
        let (memory, low, high) = (memory(), file(0x3000), file(0x1000));
        memory.map(0x8000, 0x1000, high.try_clone().unwrap(), 0, (true, true)).unwrap();
        memory.map(0x6000, 0x2000, low.try_clone().unwrap(), 0x1000, (true, true)).unwrap();
        memory.device_write(0x7ffe, &[1, 2, 3, 4]).unwrap();
        let mut seen = [0; 2];
        low.read_exact_at(&mut seen, 0x2ffe).unwrap();
        assert_eq!(seen, [1, 2]);
        high.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(seen, [3, 4]);
        let mut all = [0; 4];
        memory.device_read(0x7ffe, &mut all).unwrap();
        assert_eq!(all, [1, 2, 3, 4]);
        assert_eq!(memory.refused(), (0, None));
    }

    #[test]
    fn what_is_not_mapped_not_allowed_or_cut_off_is_a_bus_error() {
        let (memory, guest) = (memory(), file(0x1000));
        memory.map(0x1000, 0x1000, guest.try_clone().unwrap(), 0, (true, false)).unwrap();
        let mut four = [0; 4];
        assert_eq!(memory.device_read(0x1ffe, &mut four), Err(BusError));
        assert_eq!(four, [0xff; 4]);
        assert!(memory.refused().1.unwrap().contains("read of 4 bytes at 0x1ffe: not mapped"));
        assert_eq!(memory.device_read(0xfff, &mut four), Err(BusError));
        assert_eq!(memory.device_read(u64::MAX - 1, &mut four), Err(BusError));
        assert_eq!(memory.device_write(0x1000, &four), Err(BusError));
        assert_eq!(memory.device_read(0x1000, &mut four), Ok(()));
        memory.set_bus_master(false);
        assert_eq!(memory.device_read(0x1000, &mut four), Err(BusError));
        memory.set_bus_master(true);
        guest.set_len(16).unwrap();
        assert_eq!(memory.device_read(0x1010, &mut four), Err(BusError));
        assert_eq!(memory.refused().0, 6);
    }

    #[test]
    fn ranges_are_whole_and_do_not_overlap() {
        let (memory, guest) = (memory(), file(0x1000));
        let map =
            |bus, bytes, offset| memory.map(bus, bytes, guest.try_clone().unwrap(), offset, (true, true));
        assert_eq!(map(0x1000, 0, 0), Err(MapError::Range));
        assert_eq!(map(u64::MAX, 2, 0), Err(MapError::Range));
        assert_eq!(map(0, 2, i64::MAX as u64 - 1), Err(MapError::Range));
        assert_eq!(map(0x1000, 0x1000, 0), Ok(()));
        assert_eq!(map(0x1800, 0x1000, 0), Err(MapError::Overlap));
        assert_eq!(map(0x800, 0x801, 0), Err(MapError::Overlap));
        assert_eq!(map(0x1400, 4, 0), Err(MapError::Overlap));
        assert_eq!(map(0, 0x4000, 0), Err(MapError::Overlap));
        assert_eq!(map(0x2000, 0x1000, 0), Ok(()));
        assert!(!memory.unmap(0x1000, 0x1800), "through the middle");
        assert!(memory.unmap(0x9000, 0x1000), "nothing there");
        assert!(memory.unmap(0x1000, 0x1000));
        let mut byte = [0];
        assert_eq!(memory.device_read(0x1000, &mut byte), Err(BusError));
        assert_eq!(memory.device_read(0x2000, &mut byte), Ok(()));
        memory.unmap_all();
        assert_eq!(memory.device_read(0x2000, &mut byte), Err(BusError));
    }

    #[test]
    fn there_are_only_so_many() {
        let (memory, guest) = (memory(), file(0x1000));
        for n in 0..=RANGES_MAX as u64 {
            let result = memory.map(n << 12, 0x1000, guest.try_clone().unwrap(), 0, (true, true));
            assert_eq!(result.is_ok(), n < RANGES_MAX as u64, "{n}");
        }
    }
}

//! The guest's memory (a file that QEMU maps), and a `Dma` that copies data to and from it.
//!
//! The controller sees only this file, and the driver only its own buffers: only `map`, `sync` and
//! `unmap` copy data between them. Memory that is unmapped is overwritten, so that a controller
//! that still uses it is noticed.

use mmcq::host::{Direction, Dma, DmaError};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

/// Size of a PC's memory in bytes; the window for DMA ends there.
pub const RAM_BYTES: u64 = 64 << 20;
/// Begin of the window for DMA: above the first megabytes, where a PC has gaps in its memory.
const FIRST: u64 = 16 << 20;
/// Size of a page of the CPU in bytes. A mapped buffer has the same offset in its page as the
/// driver's buffer, as with real memory.
const PAGE: u64 = 4096;
/// Content of memory before a mapping and after it.
const POISON: u8 = 0xdb;

/// The `Dma` of the driver under test. Clones share the memory.
#[derive(Clone, Debug)]
pub struct QtestDma {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    ram: File,
    /// Bus address of the first byte of the memory.
    base: u64,
    live: BTreeMap<u64, Mapping>,
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    ptr: usize,
    len: usize,
    direction: Direction,
}

impl QtestDma {
    /// Creates the file with the guest's memory from bus address `base` on.
    pub fn create(path: &Path, bytes: u64, base: u64) -> Result<QtestDma, String> {
        let say = |error: std::io::Error| format!("{}: {error}", path.display());
        let ram = OpenOptions::new().read(true).write(true).create_new(true).open(path).map_err(say)?;
        ram.set_len(bytes).map_err(say)?;
        let state = State { ram, base, live: BTreeMap::new(), next: base + FIRST };
        Ok(QtestDma { state: Arc::new(Mutex::new(state)) })
    }

    /// Returns the number of mappings that were not ended.
    pub fn live(&self) -> usize {
        self.with(|state| state.live.len())
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl State {
    /// Returns the bus address of `len` bytes of free memory with the same offset in its page as
    /// `ptr`; `None` if there are none. Each call continues behind the last one, so that in the end
    /// the mappings cross each boundary of the controller.
    fn place(&mut self, ptr: usize, len: usize) -> Option<u64> {
        let len = len as u64;
        let mut at = self.next;
        for _ in 0..=2 * self.live.len() + 2 {
            let bus = at.next_multiple_of(PAGE) + ptr as u64 % PAGE;
            if bus + len > self.base + RAM_BYTES {
                at = self.base + FIRST;
                continue;
            }
            let before = self.live.range(..bus + len).next_back();
            match before.map(|(start, mapping)| start + mapping.len as u64) {
                Some(end) if end > bus => at = end,
                _ => {
                    self.next = bus + len;
                    return Some(bus);
                }
            }
        }
        None
    }

    fn copy_in(&self, bus: u64, bytes: &[u8]) {
        self.ram.write_all_at(bytes, bus - self.base).expect("guest memory can be written");
    }

    /// Returns the mapping that contains the `len` bytes at bus address `bus` and at address `ptr`
    /// of the CPU; `None` if there is none.
    fn holder(&self, bus: u64, ptr: usize, len: usize) -> Option<Mapping> {
        let (start, mapping) = self.live.range(..=bus).next_back()?;
        let offset = usize::try_from(bus - start).ok()?;
        (mapping.ptr + offset == ptr && offset + len <= mapping.len).then_some(*mapping)
    }
}

// SAFETY: a bus address leads QEMU to a stand-in of exactly `len` bytes, which `map` and `sync`
// fill from `ptr` and `unmap` copies back; `place` gives no byte twice.
unsafe impl Dma for QtestDma {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        assert!(len > 0, "map: a mapping of no bytes");
        self.with(|state| {
            let bus = state.place(ptr.as_ptr() as usize, len).ok_or(DmaError::Exhausted)?;
            // SAFETY: the caller of `map` vouches for `len` bytes at `ptr`; nothing writes them
            // meanwhile.
            let buffer = unsafe { std::slice::from_raw_parts(ptr.as_ptr(), len) };
            // For a read as well: it may turn out shorter than the buffer.
            state.copy_in(bus, buffer);
            state.live.insert(bus, Mapping { ptr: ptr.as_ptr() as usize, len, direction });
            Ok(bus)
        })
    }

    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        self.with(|state| {
            let asked = Mapping { ptr: ptr.as_ptr() as usize, len, direction };
            let made = state.live.remove(&bus);
            assert_eq!(made, Some(asked), "unmap of bus address {bus:#x}: not as it was mapped");
            if direction == Direction::Read {
                // SAFETY: `map`'s caller vouched for these bytes until now, and a read may write
                // them.
                let buffer = unsafe { std::slice::from_raw_parts_mut(ptr.as_ptr(), len) };
                state.ram.read_exact_at(buffer, bus - state.base).expect("guest memory can be read");
            }
            state.copy_in(bus, &vec![POISON; len]);
        });
    }

    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        self.with(|state| {
            let holder = state.holder(bus, ptr.as_ptr() as usize, len);
            assert!(
                holder.is_some_and(|mapping| mapping.direction == Direction::Write),
                "sync of {len} bytes at bus address {bus:#x}: not inside a mapping for writing"
            );
            // SAFETY: inside a live mapping, whose memory its owner keeps.
            state.copy_in(bus, unsafe { std::slice::from_raw_parts(ptr.as_ptr(), len) });
        });
    }
}

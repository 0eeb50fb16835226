//! Memory of waiting calls, mapped for DMA before a call takes the lock.
//!
//! Cleaning and invalidating a cache takes time for each byte. During that time, nothing else could
//! be served if the lock was held or the interrupt was active. So a waiting call maps its memory
//! before it takes the lock, and unmaps it at the end, in its own thread. The driver finds the
//! mapping in this table.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::platform::mmcq_platform;
use crate::sizes::SLOTS;
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use mmcq::engine::Error;
use mmcq::host::{Caps, Direction, DmaError};

/// Largest number of waiting calls whose memory the table can have at a time; further calls wait.
const CALLS_MAX: usize = SLOTS;

/// Largest number of lists that a driver maps. An SDHCI driver maps one list, of descriptors; the
/// driver of Realtek's card reader maps two.
const LISTS_MAX: usize = if cfg!(feature = "rtsx") { 2 } else { 1 };

/// A mapping for DMA: memory, direction and bus address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    bytes: usize,
    /// 1 if the data go to the card, 0 if they come from the card. This is no [`Direction`],
    /// because then an empty mapping would not be all zeros ([`held`](crate::held)).
    to_card: u8,
    bus: u64,
}

impl Mapping {
    /// Maps `bytes` bytes at `ptr` for DMA. Returns `None` if the platform has no functions for
    /// that, or if the driver itself maps the memory with the lock held (`MMCQ_QUICK_MAP`).
    pub fn new(
        platform: &mmcq_platform,
        ptr: NonNull<u8>,
        bytes: usize,
        direction: Direction,
    ) -> Option<Result<Self, DmaError>> {
        if platform.maps_quickly() {
            return None;
        }
        let bus = platform.map_memory(ptr, bytes, direction)?;
        Some(bus.map(|bus| Mapping::of(ptr, bytes, direction, bus)))
    }

    /// Makes the entry for a mapping that the driver has made: `bytes` bytes at `ptr`, with the bus
    /// address `bus`.
    pub fn of(ptr: NonNull<u8>, bytes: usize, direction: Direction, bus: u64) -> Self {
        Mapping { ptr, bytes, to_card: (direction == Direction::Write).into(), bus }
    }

    /// Ends the mapping. The controller no longer uses the memory, and the caller has removed the
    /// mapping from its table.
    pub fn end(self, platform: &mmcq_platform) {
        platform.unmap_memory(self.bus, self.ptr, self.bytes, self.direction());
    }

    fn direction(&self) -> Direction {
        if self.to_card == 0 { Direction::Read } else { Direction::Write }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (from, other_from) = (self.ptr.addr().get(), other.ptr.addr().get());
        from < other_from.saturating_add(other.bytes) && other_from < from.saturating_add(self.bytes)
    }

    /// Returns the bus address of a part of the mapping; `None` if the part is not inside.
    fn bus_of(&self, ptr: NonNull<u8>, bytes: usize, direction: Direction) -> Option<u64> {
        let skip = ptr.addr().get().checked_sub(self.ptr.addr().get())?;
        let inside = skip.checked_add(bytes)? <= self.bytes;
        (inside && direction == self.direction()).then_some(self.bus.wrapping_add(skip as u64))
    }
}

/// Checks a request's memory, and returns whether it must be mapped before the request: true if the
/// controller uses DMA. `card` says whether the engine has a card; without one, any alignment is
/// accepted. Returns an error if the memory's alignment is too small for a controller with the
/// capabilities `caps`.
pub(crate) fn aligned(caps: &Caps, card: bool, start: NonNull<u8>, way: Direction) -> Result<bool, Error> {
    let align = if card { caps.align } else { 1 };
    // Cache lines of a write are only cleaned, so the alignment that the controller needs is
    // sufficient.
    let align = if way == Direction::Read { align } else { align.min(4) };
    if !start.addr().get().is_multiple_of(align as usize) {
        return Err(Error::Dma(DmaError::Alignment));
    }
    Ok(caps.dma_bits != 0)
}

/// Returns the numbers of the bits that are set in `set`.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let index = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(index)
    })
}

/// The mappings of one controller. Accessed only while the lock of its stack is held.
pub(crate) struct Ahead {
    calls: [Cell<Option<Mapping>>; CALLS_MAX],
    /// Entries that have a mapping, one bit each; a search checks only these entries.
    used: Cell<u64>,
    /// Mappings of the driver's own memory, such as descriptor tables, which the driver makes once;
    /// closing the controller unmaps them.
    lists: [Cell<Option<Mapping>>; LISTS_MAX],
    /// Whether `mmcq_open` is now making the driver. What the driver maps during that time are its
    /// own descriptor lists, and not memory of the program.
    opening: Cell<bool>,
    /// Whether the controller has kept memory: no reset could stop it, so it may still use the
    /// memory of a request that has ended.
    has_kept: AtomicBool,
    /// Entries whose memory the controller still uses after the end of its request, one bit each.
    kept: Cell<u64>,
}

// SAFETY: accessed only while the lock is held.
unsafe impl Sync for Ahead {}

impl Ahead {
    pub const fn new() -> Self {
        Ahead {
            calls: [const { Cell::new(None) }; CALLS_MAX],
            used: Cell::new(0),
            lists: [const { Cell::new(None) }; LISTS_MAX],
            opening: Cell::new(false),
            has_kept: AtomicBool::new(false),
            kept: Cell::new(0),
        }
    }

    /// Notes that the controller cannot be stopped and still uses memory of a request that has
    /// ended: the memory of this mapping, or (`None`) memory that is not in the table. No other
    /// request may use that memory.
    pub fn note_kept(&self, mapping: Option<&Mapping>) {
        self.has_kept.store(true, Ordering::Release);
        if let Some(mapping) = mapping
            && let Some((index, _)) = self.mappings().find(|(_, other)| other == mapping)
        {
            self.kept.set(self.kept.get() | 1 << index);
        }
    }

    /// Returns whether the controller has kept memory: no reset could stop it, so it may still use
    /// the memory of a request that has ended. That memory is never free again.
    pub fn has_kept(&self) -> bool {
        self.has_kept.load(Ordering::Acquire)
    }

    /// Sets whether the driver is being made. During that time, the mappings that the driver makes
    /// are those of its lists.
    pub fn set_opening(&self, opening: bool) {
        if opening {
            self.lists.iter().for_each(|list| list.set(None));
        }
        self.opening.set(opening);
    }

    /// Records a DMA mapping that the driver, while it is being made, has made itself for one of
    /// its lists (tables of descriptors). Does nothing at other times.
    pub fn driver_mapped(&self, mapping: impl FnOnce() -> Mapping) {
        if self.opening.get()
            && let Some(free) = self.lists.iter().find(|list| list.get().is_none())
        {
            free.set(Some(mapping()));
        }
    }

    /// Removes a mapping from the list of the driver's own mappings, because the driver itself has
    /// ended it. Does nothing after the driver was made. Only ST's SDMMC does this: it maps its
    /// bounce buffer once to see whether the controller can reach it.
    #[cfg(feature = "stm32-sdmmc")]
    pub fn driver_unmapped(&self, mapping: Mapping) {
        if self.opening.get()
            && let Some(list) = self.lists.iter().find(|list| list.get() == Some(mapping))
        {
            list.set(None);
        }
    }

    /// Ends the driver's own mappings, after the driver was dropped.
    pub fn close(&self, platform: &mmcq_platform) {
        self.lists.iter().filter_map(Cell::take).for_each(|list| list.end(platform));
        self.used.set(0);
    }

    fn mappings(&self) -> impl Iterator<Item = (usize, Mapping)> + '_ {
        bits(self.used.get()).filter_map(|index| Some((index, self.calls.get(index)?.get()?)))
    }

    /// Adds a mapping for the driver.
    ///
    /// # Errors
    /// [`Error::Dead`]: a controller that cannot be stopped has this memory.
    /// [`DmaError::Exhausted`]: no entry is free, or another call's mapping overlaps this memory;
    /// memory of a request must stay mapped until that request ends.
    pub fn add(&self, mapping: Mapping) -> Result<(), Error> {
        if let Some((index, _)) = self.mappings().find(|(_, other)| other.overlaps(&mapping)) {
            let is_kept = self.kept.get() & 1 << index != 0;
            return Err(if is_kept { Error::Dead } else { Error::Dma(DmaError::Exhausted) });
        }
        let index = self.used.get().trailing_ones();
        let place = self.calls.get(index as usize).ok_or(Error::Dma(DmaError::Exhausted))?;
        place.set(Some(mapping));
        self.used.set(self.used.get() | 1 << index);
        Ok(())
    }

    /// Removes a mapping, so that the driver does not find it any more.
    pub fn remove(&self, mapping: &Mapping) {
        if let Some((index, _)) = self.mappings().find(|(_, other)| other == mapping) {
            self.used.set(self.used.get() & !(1 << index));
        }
    }

    /// Returns the bus address of the `bytes` bytes at `ptr`, if one of the mappings for this
    /// direction contains them.
    pub fn find(&self, ptr: NonNull<u8>, bytes: usize, direction: Direction) -> Option<u64> {
        self.mappings().find_map(|(_, mapping)| mapping.bus_of(ptr, bytes, direction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(at: usize, bytes: usize) -> Mapping {
        let ptr = NonNull::without_provenance(core::num::NonZero::new(at).unwrap());
        Mapping::of(ptr, bytes, Direction::Read, at as u64)
    }

    #[test]
    fn memory_that_the_controller_has_is_given_to_nobody() {
        let ahead = Ahead::new();
        assert_eq!(ahead.add(mapping(0x1000, 512)), Ok(()));
        assert_eq!(ahead.add(mapping(0x11ff, 1)), Err(Error::Dma(DmaError::Exhausted)), "until it ends");
        ahead.remove(&mapping(0x1000, 512));
        assert_eq!(ahead.add(mapping(0x1000, 1024)), Ok(()));
        assert!(!ahead.has_kept());
        ahead.note_kept(Some(&mapping(0x1000, 1024)));
        assert!(ahead.has_kept());
        assert_eq!(ahead.add(mapping(0x1200, 512)), Err(Error::Dead), "waiting would not help");
        assert_eq!(ahead.add(mapping(0x1400, 512)), Ok(()));
    }
}

//! Memory of the calls that wait, mapped before they take the lock.
//!
//! Cleaning and invalidating a cache takes time by the byte. Under the lock, and in the interrupt,
//! that would be time in which nothing else is served. So a call that waits maps its memory first
//! and unmaps it last, in its own thread; the driver finds the mapping here.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::platform::mmcq_platform;
use crate::sizes::SLOTS;
use core::cell::Cell;
use core::ptr::NonNull;
use mmcq::host::{Direction, DmaError};

/// Calls that can have memory here; those beyond wait.
const CALLS_MAX: usize = SLOTS;

/// A mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    ptr: NonNull<u8>,
    bytes: usize,
    direction: Direction,
    bus: u64,
}

impl Mapping {
    /// Maps memory. `None`: this platform has no functions for that.
    pub fn new(
        platform: &mmcq_platform,
        ptr: NonNull<u8>,
        bytes: usize,
        direction: Direction,
    ) -> Option<Result<Self, DmaError>> {
        let bus = platform.map_memory(ptr, bytes, direction)?;
        Some(bus.map(|bus| Mapping { ptr, bytes, direction, bus }))
    }

    /// One that the driver has made.
    pub fn of(ptr: NonNull<u8>, bytes: usize, direction: Direction, bus: u64) -> Self {
        Mapping { ptr, bytes, direction, bus }
    }

    /// Ends it: the controller has let go, and no lookup finds it here.
    pub fn end(self, platform: &mmcq_platform) {
        platform.unmap_memory(self.bus, self.ptr, self.bytes, self.direction);
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (from, other_from) = (self.ptr.addr().get(), other.ptr.addr().get());
        from < other_from.saturating_add(other.bytes) && other_from < from.saturating_add(self.bytes)
    }

    /// Where the controller sees a part of it.
    fn bus_of(&self, ptr: NonNull<u8>, bytes: usize, direction: Direction) -> Option<u64> {
        let skip = ptr.addr().get().checked_sub(self.ptr.addr().get())?;
        let inside = skip.checked_add(bytes)? <= self.bytes;
        (inside && direction == self.direction).then_some(self.bus.wrapping_add(skip as u64))
    }
}

/// The mappings of one controller. Touched under the lock of its stack alone.
pub(crate) struct Ahead {
    calls: [Cell<Option<Mapping>>; CALLS_MAX],
    /// The descriptor table, which the driver maps once and for good: what a close unmaps.
    table: Cell<Option<Mapping>>,
    /// The driver is being made.
    opening: Cell<bool>,
}

// SAFETY: touched under the lock alone.
unsafe impl Sync for Ahead {}

impl Ahead {
    pub const fn new() -> Self {
        Ahead {
            calls: [const { Cell::new(None) }; CALLS_MAX],
            table: Cell::new(None),
            opening: Cell::new(false),
        }
    }

    /// Between `true` and `false` the driver maps its table.
    pub fn set_opening(&self, opening: bool) {
        if opening {
            self.table.set(None);
        }
        self.opening.set(opening);
    }

    /// The driver has mapped this itself.
    pub fn driver_mapped(&self, mapping: impl FnOnce() -> Mapping) {
        if self.opening.get() {
            self.table.set(Some(mapping()));
        }
    }

    /// The driver has gone.
    pub fn close(&self, platform: &mmcq_platform) {
        if let Some(table) = self.table.take() {
            table.end(platform);
        }
        self.calls.iter().for_each(|call| call.set(None));
    }

    /// Keeps a mapping for the driver. False: there is no room, or another call has some of this
    /// memory: what a request was given must stay mapped until that request ends.
    pub fn add(&self, mapping: Mapping) -> bool {
        if self.calls.iter().any(|place| place.get().is_some_and(|other| other.overlaps(&mapping))) {
            return false;
        }
        let free = self.calls.iter().find(|place| place.get().is_none());
        free.map(|place| place.set(Some(mapping))).is_some()
    }

    /// The driver does not find it any more.
    pub fn remove(&self, mapping: &Mapping) {
        if let Some(place) = self.calls.iter().find(|place| place.get().as_ref() == Some(mapping)) {
            place.set(None);
        }
    }

    /// Where the controller sees this memory, if it is in one of the mappings.
    pub fn find(&self, ptr: NonNull<u8>, bytes: usize, direction: Direction) -> Option<u64> {
        self.calls.iter().find_map(|place| place.get()?.bus_of(ptr, bytes, direction))
    }
}

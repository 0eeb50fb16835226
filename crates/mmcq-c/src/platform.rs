//! Registers, memory, lock and time, which the C program supplies.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::ahead::{Ahead, Mapping};
use crate::code::MMCQ_E_FULL;
use crate::dma::Room;
use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, fence};
use mmcq::engine::Config;
use mmcq::host::sdhci::SdhciQuirks;
use mmcq::host::{Direction, Dma, DmaError, Regs};
use mmcq::task::{Idle, Lock};

/// Bit of `flags`: the slot has a soldered eMMC with 1.8 V on its signal lines.
pub const MMCQ_EMMC_18: u32 = 1;

/// Bit of `flags`: `map` and `unmap` may be called with the lock held. So the library maps the
/// memory of requests while it holds the lock, and not before.
pub const MMCQ_QUICK_MAP: u32 = 2;

/// Longest time in milliseconds that a call waits for a free slot or mapping, if the platform sets
/// none.
const PATIENCE_MS: u32 = 30_000;

/// Alignment of the library's own memory in bytes: the longest cache line that it supports.
pub(crate) const LINE_MAX: u32 = 128;

/// Identifies a blocking call to the platform's `wait` function, which asks by it whether the
/// waiting thread may still sleep (`mmcq_may_sleep`). `mmcq.h` declares it as `mmcq_idle`.
#[derive(Debug)]
#[repr(transparent)]
pub struct mmcq_idle(pub(crate) Idle);

/// The functions and settings that the C program supplies, declared in `mmcq.h`.
///
/// # Safety
///
/// The functions are C's, so a call of one is `unsafe`. The header says what each function must do
/// and from where it may be called; the caller of `mmcq_open` promises that.
#[derive(Clone, Copy)]
#[repr(C)]
#[allow(missing_docs, reason = "the header says it")]
pub struct mmcq_platform {
    pub context: *mut c_void,
    pub base: *mut c_void,
    pub read: Option<unsafe extern "C" fn(*mut c_void, u16, u8) -> u32>,
    pub write: Option<unsafe extern "C" fn(*mut c_void, u16, u8, u32)>,
    pub lock: Option<unsafe extern "C" fn(*mut c_void)>,
    pub unlock: Option<unsafe extern "C" fn(*mut c_void)>,
    pub now_ns: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub set_alarm: Option<unsafe extern "C" fn(*mut c_void, u64)>,
    pub wait: Option<unsafe extern "C" fn(*mut c_void, *const mmcq_idle)>,
    pub map: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32, *mut u64) -> i32>,
    pub unmap: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize, i32)>,
    pub sync: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, usize)>,
    pub quirks: *const c_char,
    pub flags: u32,
    pub cache_line: u32,
    pub card_event: Option<unsafe extern "C" fn(*mut c_void, i32)>,
    pub patience_ms: u32,
    pub piece: Option<unsafe extern "C" fn(*mut c_void, u64, u32, *mut u64) -> u32>,
    pub dma: *mut c_void,
    pub dma_bus: u64,
    pub dma_bytes: usize,
}

// SAFETY: the caller of `mmcq_open` promises that context and functions may be used from every
// thread and from the interrupt (see `mmcq.h`).
unsafe impl Send for mmcq_platform {}
// SAFETY: the caller of `mmcq_open` promises that all threads and the interrupt may share the
// platform.
unsafe impl Sync for mmcq_platform {}

impl mmcq_platform {
    /// Returns whether memory of requests is mapped and unmapped with the lock held.
    pub(crate) fn maps_quickly(&self) -> bool {
        self.flags & MMCQ_QUICK_MAP != 0
    }

    /// Returns whether the program has set all members of the structure that the library needs, and
    /// whether they fit together.
    pub(crate) fn is_complete(&self) -> bool {
        let registers = match (self.read, self.write) {
            (Some(_), Some(_)) => true,
            (None, None) => !self.base.is_null() && self.base.addr().is_multiple_of(4),
            _ => false,
        };
        let memory =
            matches!((self.map, self.unmap, self.sync), (Some(_), Some(_), Some(_)) | (None, None, None));
        let pieces = self.piece.is_none() || self.map.is_some();
        let dma = self.dma.is_null() || self.dma_room().is_some();
        let line = self.line_bytes();
        let line = line.is_power_of_two() && line <= LINE_MAX;
        registers
            && memory
            && pieces
            && dma
            && line
            && self.lock.is_some()
            && self.unlock.is_some()
            && self.now_ns.is_some()
    }

    /// Returns the quirks whose names are separated by commas in `quirks`; `None` if a name is
    /// unknown.
    pub(crate) fn quirks(&self) -> Option<SdhciQuirks> {
        if self.quirks.is_null() {
            return Some(SdhciQuirks::NONE);
        }
        // SAFETY: not null, and the caller of `mmcq_open` promises a C string.
        let names = unsafe { CStr::from_ptr(self.quirks) }.to_str().ok()?;
        let mut names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.try_fold(SdhciQuirks::NONE, |quirks, name| Some(quirks.with(SdhciQuirks::named(name)?)))
    }

    /// Returns the program's memory for what the controller reads and writes in addition to blocks.
    /// `None` if the program supplies none that is large enough, aligned, and in reach of the
    /// controller.
    pub(crate) fn dma_room(&self) -> Option<NonNull<Room>> {
        let room = NonNull::new(self.dma.cast::<Room>())?;
        let align = align_of::<Room>() as u64;
        let aligned = room.is_aligned() && self.dma_bus.is_multiple_of(align);
        let ends = self.dma_bus.checked_add(self.dma_bytes as u64).is_some();
        (aligned && ends && self.dma_bytes >= size_of::<Room>()).then_some(room)
    }

    /// Returns the bus address of a part of the program's memory `dma`; `None` if the part is not
    /// inside.
    fn in_dma(&self, ptr: NonNull<u8>, len: usize) -> Option<u64> {
        let skip = ptr.addr().get().checked_sub(self.dma.addr()).filter(|_| !self.dma.is_null())?;
        (skip.checked_add(len)? <= self.dma_bytes).then(|| self.dma_bus + skip as u64)
    }

    /// Returns the settings of the stack, for a driver whose list has this many entries.
    ///
    /// If the platform has `piece`, a merged transfer has at most as many blocks as the list has
    /// entries. Each piece except a request's last has at least one block, so the pieces of such a
    /// transfer fit into the list.
    pub(crate) fn config(&self, entries: u32) -> Config {
        match self.piece {
            Some(_) => Config::DEFAULT.merge_blocks(entries),
            None => Config::DEFAULT,
        }
    }

    /// Returns whether the CPU sees, without cache maintenance, what a controller writes into its
    /// lists.
    #[cfg(feature = "rtsx")]
    pub(crate) fn sees_lists(&self) -> bool {
        self.map.is_none() || self.dma_room().is_some()
    }

    /// Returns the alignment in bytes that memory for reads needs at its begin and at its end.
    pub(crate) fn line_bytes(&self) -> u32 {
        self.cache_line.max(1)
    }

    /// Maps the `len` bytes at `ptr` for DMA, and returns its bus address; `None` if the platform
    /// has no functions for that.
    pub(crate) fn map_memory(
        &self,
        ptr: NonNull<u8>,
        len: usize,
        direction: Direction,
    ) -> Option<Result<u64, DmaError>> {
        let map = self.map?;
        let mut bus = 0;
        // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
        // context; `bus` is a local variable.
        let code = unsafe { map(self.context, ptr.as_ptr().cast(), len, to_card(direction), &raw mut bus) };
        Some(match code {
            0 => Ok(bus),
            MMCQ_E_FULL => Err(DmaError::Exhausted),
            _ => Err(DmaError::Unreachable),
        })
    }

    pub(crate) fn unmap_memory(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        if let Some(unmap) = self.unmap {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context.
            unsafe { unmap(self.context, bus, ptr.as_ptr().cast(), len, to_card(direction)) }
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
        // context.
        self.now_ns.map_or(0, |now_ns| unsafe { now_ns(self.context) })
    }

    pub(crate) fn set_alarm(&self, at_ns: Option<u64>) {
        if let Some(set_alarm) = self.set_alarm {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context.
            unsafe { set_alarm(self.context, at_ns.unwrap_or(u64::MAX)) }
        }
    }

    /// Returns the longest time in nanoseconds that a call waits for a free slot or mapping.
    pub(crate) fn patience_ns(&self) -> u64 {
        u64::from(if self.patience_ms == 0 { PATIENCE_MS } else { self.patience_ms }) * 1_000_000
    }

    /// Returns whether the program has a callback for card events.
    pub(crate) fn has_card_event(&self) -> bool {
        self.card_event.is_some()
    }

    pub(crate) fn card_event(&self, present: bool) {
        if let Some(card_event) = self.card_event {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context.
            unsafe { card_event(self.context, present.into()) }
        }
    }

    /// Lets the C program's function wait for an interrupt, if it has one and [`Idle::may_sleep`]
    /// allows that.
    pub(crate) fn wait(&self, idle: &Idle) {
        if let Some(wait) = self.wait
            && idle.may_sleep()
        {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context. The other pointer is valid until `wait` returns, as `mmcq.h` requires.
            unsafe { wait(self.context, core::ptr::from_ref(idle).cast()) }
        }
    }
}

/// The C program's platform, as the lock, the registers and the memory of the stack.
#[derive(Clone, Copy)]
pub(crate) struct Its(pub &'static mmcq_platform, pub &'static Ahead);

// SAFETY: the caller of `mmcq_open` promises that between `lock` and `unlock` neither another
// thread nor the interrupt runs.
unsafe impl Lock for Its {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        if let Some(lock) = self.0.lock {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context.
            unsafe { lock(self.0.context) }
        }
        let result = f();
        if let Some(unlock) = self.0.unlock {
            // SAFETY: the caller of `mmcq_open` promises that `unlock` may be called while the lock
            // is held.
            unsafe { unlock(self.0.context) }
        }
        result
    }
}

impl Its {
    fn read(&self, offset: u16, bytes: u8) -> Option<u32> {
        // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
        // context.
        self.0.read.map(|read| unsafe { read(self.0.context, offset, bytes) })
    }

    fn write(&self, offset: u16, bytes: u8, value: u32) -> bool {
        // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
        // context.
        self.0.write.map(|write| unsafe { write(self.0.context, offset, bytes, value) }).is_some()
    }

    fn at<T>(&self, offset: u16) -> *mut T {
        self.0.base.cast::<u8>().wrapping_add(offset.into()).cast()
    }
}

impl Regs for Its {
    fn read8(&self, offset: u16) -> u8 {
        // SAFETY: without register functions there is a base address, aligned to 4, and the caller
        // of `mmcq_open` promises that it maps the registers.
        self.read(offset, 1)
            .map_or_else(|| unsafe { self.at::<u8>(offset).read_volatile() }, |value| value as u8)
    }
    fn read16(&self, offset: u16) -> u16 {
        // SAFETY: the base address maps the registers, and `offset` is even, as the trait requires.
        self.read(offset, 2)
            .map_or_else(|| unsafe { self.at::<u16>(offset).read_volatile() }, |value| value as u16)
    }
    fn read32(&self, offset: u16) -> u32 {
        // SAFETY: the base address maps the registers, and `offset` is a multiple of 4, as the
        // trait requires.
        self.read(offset, 4).unwrap_or_else(|| unsafe { self.at::<u32>(offset).read_volatile() })
    }
    fn write8(&self, offset: u16, value: u8) {
        if !self.write(offset, 1, value.into()) {
            // SAFETY: the base address maps the registers.
            unsafe { self.at::<u8>(offset).write_volatile(value) }
        }
    }
    fn write16(&self, offset: u16, value: u16) {
        if !self.write(offset, 2, value.into()) {
            // SAFETY: the base address maps the registers, and `offset` is even, as the trait
            // requires.
            unsafe { self.at::<u16>(offset).write_volatile(value) }
        }
    }
    fn write32(&self, offset: u16, value: u32) {
        if !self.write(offset, 4, value) {
            // SAFETY: the base address maps the registers, and `offset` is a multiple of 4, as the
            // trait requires.
            unsafe { self.at::<u32>(offset).write_volatile(value) }
        }
    }
}

fn to_card(direction: Direction) -> i32 {
    (direction == Direction::Write).into()
}

// SAFETY: with DMA functions, the caller of `mmcq_open` promises what this trait requires. Without
// them it promises that the controller sees memory at the CPU's addresses and without caches.
unsafe impl Dma for Its {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        if let Some(bus) = self.1.find(ptr, len, direction) {
            return Ok(bus);
        }
        if let Some(bus) = self.0.in_dma(ptr, len) {
            fence(Ordering::SeqCst);
            return Ok(bus);
        }
        let Some(bus) = self.0.map_memory(ptr, len, direction) else {
            fence(Ordering::SeqCst);
            return Ok(ptr.as_ptr().expose_provenance() as u64);
        };
        let bus = bus?;
        self.1.driver_mapped(|| Mapping::of(ptr, len, direction, bus));
        Ok(bus)
    }

    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        if self.1.find(ptr, len, direction) == Some(bus) {
            // The waiting call that mapped the memory also unmaps it.
            return;
        }
        fence(Ordering::SeqCst);
        if self.0.in_dma(ptr, len).is_none() {
            #[cfg(feature = "stm32-sdmmc")]
            self.1.driver_unmapped(Mapping::of(ptr, len, direction, bus));
            self.0.unmap_memory(bus, ptr, len, direction);
        }
    }

    fn line_bytes(&self) -> u32 {
        self.0.line_bytes()
    }

    const IN_PIECES: bool = true;

    fn piece(&self, bus: u64, len: u32) -> (u64, u32) {
        let Some(piece) = self.0.piece else { return (bus, len) };
        let mut at = bus;
        // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
        // context; `at` is a local variable.
        let here = unsafe { piece(self.0.context, bus, len, &raw mut at) };
        (at, here.min(len))
    }

    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        match self.0.sync {
            // SAFETY: the caller of `mmcq_open` promises that its functions may be called with its
            // context.
            Some(sync) if self.0.in_dma(ptr, len).is_none() => unsafe {
                sync(self.0.context, bus, ptr.as_ptr().cast(), len)
            },
            _ => fence(Ordering::SeqCst),
        }
    }
}

//! Tests of the stack on a platform whose CPU has a cache: bytes beside a buffer that share a cache
//! line with it are lost when the end of a read mapping invalidates the line.

use crate::timed;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options, SCRATCH_BYTES};
use mmcq::engine::{Config, DmaBuf, Error};
use mmcq::host::sdhci::{self, Table};
use mmcq::host::{Direction, Dma, DmaError};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

const LINE: usize = 64;
const ARENA: usize = 16 << 10;
/// Value that the CPU writes to the bytes beside a buffer.
const WRITTEN: u8 = 0x11;
/// Value of the bytes of a cache line after the CPU's writes to this line were lost.
const LOST: u8 = 0xdb;

/// Memory in which buffers of the tests lie side by side. The end of a read mapping destroys the
/// other bytes of its cache lines.
#[derive(Clone)]
struct Cached {
    memory: ShadowMemory,
    arena: NonNull<u8>,
    /// Whether the platform reports the length of its cache lines.
    tells: bool,
}

impl Cached {
    fn lose(&self, from: usize, to: usize) {
        let base = self.arena.addr().get();
        for at in from.max(base)..to.min(base + ARENA) {
            // SAFETY: the address is inside the arena, and no reference to its bytes exists while
            // the stack works.
            unsafe { self.arena.add(at - base).write(LOST) };
        }
    }
}

// SAFETY: `ShadowMemory` keeps the contract; the lines of the arena belong to the test.
unsafe impl Dma for Cached {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        self.memory.map(ptr, len, direction)
    }

    fn unmap(&self, bus: u64, ptr: NonNull<u8>, len: usize, direction: Direction) {
        self.memory.unmap(bus, ptr, len, direction);
        if direction == Direction::Read {
            let (from, to) = (ptr.addr().get(), ptr.addr().get() + len);
            self.lose(from / LINE * LINE, from);
            self.lose(to, to.next_multiple_of(LINE));
        }
    }

    fn sync(&self, bus: u64, ptr: NonNull<u8>, len: usize) {
        self.memory.sync(bus, ptr, len);
    }

    fn line_bytes(&self) -> u32 {
        if self.tells { LINE as u32 } else { 1 }
    }
}

type Stack = timed::On<Erased<{ constants::<sdhci::Sdhci<Port, Cached, 129>>() }>>;

struct Rig {
    time: Time,
    model: Rc<RefCell<Sdhci>>,
    dma: Cached,
    stack: Stack,
}

impl Rig {
    fn new(tells: bool) -> Rig {
        let card = timed::card(&timed::profile("sdhc-16g-hs"));
        let layout = std::alloc::Layout::from_size_align(ARENA, LINE).unwrap();
        // SAFETY: the layout has a size above 0; the memory is never freed.
        let arena = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap();
        // SAFETY: the whole range is fresh memory.
        unsafe { arena.write_bytes(WRITTEN, ARENA) };
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), Some(card));
        let model = Rc::new(RefCell::new(model));
        let port = Port::new(model.clone(), time.clone(), 0, 0);
        let dma = Cached { memory, arena, tells };
        let table = Box::leak(Box::new(Table::<129>::new()));
        let host = sdhci::Sdhci::new(port, dma.clone(), table, sdhci::SdhciConfig::new());
        let host = host.unwrap_or_else(|error| panic!("{error}"));
        NOW_NS.set(0);
        Rig { time, model, dma, stack: timed::on(Erased::new(host), Config::DEFAULT) }
    }

    /// Advances time to the next interrupt or deadline.
    fn idle(&self) {
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        if !self.model.borrow().irq() {
            let next = self.model.borrow().next_event_ns();
            let until = deadline.or(next).unwrap_or(0).max(self.time.now());
            let reached = self.model.borrow_mut().advance(until);
            self.time.set(reached.max(self.time.now()));
        }
        NOW_NS.set(self.time.now());
    }

    /// Returns `len` bytes of the arena, from offset `at` on.
    fn part(&self, at: usize, len: usize) -> &'static mut [u8] {
        assert!(at + len <= ARENA);
        // SAFETY: the range is inside the arena, which is never freed. The tests use one part at a
        // time, and look at its neighbours only afterwards.
        unsafe { std::slice::from_raw_parts_mut(self.dma.arena.add(at).as_ptr(), len) }
    }

    /// Returns how many bytes of the arena outside of this part have changed.
    fn lost_beside(&self, at: usize, len: usize) -> usize {
        let whole = self.part(0, ARENA);
        let beside = whole[..at].iter().chain(&whole[at + len..]);
        beside.filter(|&&byte| byte != WRITTEN).count()
    }

    fn bring_up(&self, at: usize) {
        let scratch = DmaBuf::from_static(self.part(at, SCRATCH_BYTES as usize));
        let (card, _) =
            self.stack.block_on(card::bring_up(&self.stack, scratch, Options::DEFAULT), |_| self.idle());
        card.unwrap();
    }
}

#[test]
fn a_read_destroys_nothing_beside_its_memory() {
    let rig = Rig::new(true);
    // The driver reads registers of 8 and 64 bytes, with other data beside them in a line, and
    // blocks.
    rig.bring_up(2 * LINE);
    assert_eq!(rig.lost_beside(2 * LINE, SCRATCH_BYTES as usize), 0);
    rig.part(0, ARENA).fill(WRITTEN);
    let device = BlockDevice::new(&rig.stack);
    assert_eq!(device.geometry().unwrap().align, LINE as u32);
    let at = 4096;
    assert_eq!(device.read_blocking(0, rig.part(at, 2048), |_| rig.idle()), Ok(4));
    assert_eq!(rig.lost_beside(at, 2048), 0);
    // A buffer that shares a cache line is refused before anything is sent, and stays unchanged.
    rig.part(0, ARENA).fill(WRITTEN);
    let refused = device.read_blocking(0, rig.part(at + 4, 512), |_| rig.idle());
    assert_eq!(refused, Err(Error::Dma(DmaError::Alignment)));
    assert_eq!(rig.lost_beside(0, 0), 0);
    // The lines of a write are cleaned but not invalidated, so a write is allowed.
    assert_eq!(device.write_blocking(0, rig.part(at + 4, 512), |_| rig.idle()), Ok(1));
    assert_eq!(rig.lost_beside(0, 0), 0);
    assert_eq!(rig.dma.memory.violations(), Vec::<String>::new());
}

/// Checks that bytes beside a buffer are lost if the platform does not report its cache lines: so
/// the other tests of this file would notice such a loss.
#[test]
fn without_the_platforms_word_the_neighbours_are_lost() {
    let rig = Rig::new(false);
    rig.bring_up(2 * LINE);
    let device = BlockDevice::new(&rig.stack);
    rig.part(0, ARENA).fill(WRITTEN);
    assert_eq!(device.read_blocking(0, rig.part(4100, 512), |_| rig.idle()), Ok(1));
    assert_eq!(rig.lost_beside(4100, 512), LINE);
}

#[test]
fn the_model_tells_of_a_driver_that_maps_parts_of_lines() {
    let memory = ShadowMemory::new(MemoryConfig { line: 64, ..MemoryConfig::BITS32 });
    assert_eq!(memory.line_bytes(), 64);
    let mut bytes = [0u8; 128];
    let start = NonNull::from(&mut bytes).cast();
    let bus = memory.map(start, 10, Direction::Read).unwrap();
    memory.unmap(bus, start, 10, Direction::Read);
    assert_eq!(memory.violation_count(), 1);
}

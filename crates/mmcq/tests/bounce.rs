//! Tests of the bounce pool, for memory that the controller cannot use: no data are lost, and
//! recovery has pieces of its own.

use mmcq::host::bounce::Bounce;
use mmcq::host::{Direction, Dma, DmaError};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::Rc;

/// A platform whose controller reaches only the pool. It records the mappings.
#[derive(Clone, Default)]
struct Platform {
    reach: Rc<Cell<(usize, usize)>>,
    mapped: Rc<RefCell<Vec<(u64, usize)>>>,
    /// Length of a cache line in bytes; 0 for coherent memory.
    line: Rc<Cell<u32>>,
    /// Whether the platform can isolate the controller.
    isolates: Rc<Cell<bool>>,
}

// SAFETY: bus addresses are the CPU's.
unsafe impl Dma for Platform {
    fn map(&self, ptr: NonNull<u8>, len: usize, direction: Direction) -> Result<u64, DmaError> {
        let (start, end) = self.reach.get();
        let at = ptr.addr().get();
        let line = self.line_bytes() as usize;
        assert!(direction == Direction::Write || (at | len).is_multiple_of(line), "parts of cache lines");
        if at < start || at + len > end {
            return Err(DmaError::Unreachable);
        }
        self.mapped.borrow_mut().push((at as u64, len));
        Ok(at as u64)
    }
    fn unmap(&self, bus: u64, _: NonNull<u8>, len: usize, _: Direction) {
        let mut mapped = self.mapped.borrow_mut();
        let at = mapped.iter().position(|&known| known == (bus, len));
        mapped.remove(at.expect("unmapped what was never mapped"));
    }
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
    fn line_bytes(&self) -> u32 {
        self.line.get().max(1)
    }
    fn isolate(&self) -> bool {
        self.isolates.get()
    }
}

/// Returns a pool of eight pieces of 512 bytes, none of them reserved, and the platform behind it.
fn pool() -> (Bounce<Platform, 8>, Platform) {
    let memory: &'static mut [u8] = Box::leak(vec![0xee; 8 * 512].into_boxed_slice());
    let platform = Platform::default();
    let start = memory.as_ptr().addr();
    platform.reach.set((start, start + memory.len()));
    (Bounce::new(platform.clone(), memory), platform)
}

/// Returns the memory at a bus address inside of the pool, as the controller reads and writes it.
fn device(bus: u64, len: usize) -> &'static mut [u8] {
    // SAFETY: the pool is never freed, and the test uses no other reference to it meanwhile.
    unsafe { std::slice::from_raw_parts_mut(bus as usize as *mut u8, len) }
}

fn at(memory: &mut [u8]) -> NonNull<u8> {
    NonNull::from(memory).cast()
}

#[test]
fn data_come_through_the_pool_in_both_directions() {
    let (bounce, platform) = pool();
    let mut out: Vec<u8> = (0..1536).map(|n| n as u8).collect();
    let bus = bounce.map(at(&mut out), 1536, Direction::Write).unwrap();
    assert_eq!(device(bus, 1536), out);
    assert_eq!(bounce.taken(), 3);
    bounce.unmap(bus, at(&mut out), 1536, Direction::Write);
    let mut back = vec![0; 1024];
    let bus = bounce.map(at(&mut back), 1024, Direction::Read).unwrap();
    device(bus, 1024).fill(0x5a);
    assert!(back.iter().all(|&byte| byte == 0), "before the mapping ends nothing is copied");
    bounce.unmap(bus, at(&mut back), 1024, Direction::Read);
    assert!(back.iter().all(|&byte| byte == 0x5a));
    assert_eq!((bounce.taken(), platform.mapped.borrow().len()), (0, 0));
}

/// Tests a controller that no reset stops: behind the pool, too, the platform isolates it.
#[test]
fn the_platform_isolates_the_controller() {
    let (bounce, platform) = pool();
    assert!(!bounce.isolate());
    platform.isolates.set(true);
    assert!(bounce.isolate());
}

#[test]
fn what_the_platform_can_map_passes_untouched() {
    let (bounce, platform) = pool();
    let mut near = vec![7; 512];
    let start = near.as_ptr().addr();
    platform.reach.set((start, start + 512));
    let bus = bounce.map(at(&mut near), 512, Direction::Read).unwrap();
    assert_eq!((bus, bounce.taken()), (start as u64, 0));
    bounce.unmap(bus, at(&mut near), 512, Direction::Read);
    assert!(platform.mapped.borrow().is_empty());
}

#[test]
fn a_changed_part_of_a_mapping_reaches_the_controller() {
    let (bounce, _) = pool();
    let mut table = vec![1; 1024];
    let bus = bounce.map(at(&mut table), 1024, Direction::Write).unwrap();
    table[600..608].fill(9);
    bounce.sync(bus + 600, at(&mut table[600..]), 8);
    assert_eq!(device(bus, 1024), table);
}

#[test]
fn a_full_pool_says_so_and_a_failed_mapping_takes_nothing() {
    let (bounce, platform) = pool();
    let mut far: Vec<Vec<u8>> = (0..8).map(|_| vec![0; 512]).collect();
    let held: Vec<u64> =
        far.iter_mut().map(|one| bounce.map(at(one), 512, Direction::Read).unwrap()).collect();
    let mut one_more = vec![0; 512];
    assert_eq!(bounce.map(at(&mut one_more), 512, Direction::Read), Err(DmaError::Exhausted));
    bounce.unmap(held[3], at(&mut far[3]), 512, Direction::Read);
    // The mapping needs two adjacent pieces, and only one piece is free.
    let mut two = vec![0; 1024];
    assert_eq!(bounce.map(at(&mut two), 1024, Direction::Read), Err(DmaError::Exhausted));
    assert_eq!(bounce.map(at(&mut one_more), 512, Direction::Read), Ok(held[3]));
    let mut longer_than_all = vec![0; 8 * 512 + 1];
    let len = longer_than_all.len();
    assert_eq!(bounce.map(at(&mut longer_than_all), len, Direction::Read), Err(DmaError::Exhausted));
    platform.reach.set((0, 0));
    let (taken, mapped) = (bounce.taken(), platform.mapped.borrow().len());
    bounce.unmap(held[0], at(&mut far[0]), 512, Direction::Read);
    assert_eq!(bounce.map(at(&mut two), 512, Direction::Read), Err(DmaError::Unreachable));
    assert_eq!((bounce.taken(), platform.mapped.borrow().len()), (taken - 1, mapped - 1));
}

#[test]
fn a_reserve_is_never_taken_by_others() {
    let (bounce, _) = pool();
    let mut scratch = vec![0; 1024];
    let bounce = bounce.reserve_for(&scratch);
    let mut far: Vec<Vec<u8>> = (0..8).map(|_| vec![0; 512]).collect();
    let held = far.iter_mut().map(|one| bounce.map(at(one), 512, Direction::Read));
    let held = held.filter(Result::is_ok).count();
    assert_eq!(held, 6);
    let bus = bounce.map(at(&mut scratch), 512, Direction::Read).unwrap();
    bounce.unmap(bus, at(&mut scratch), 512, Direction::Read);
    assert!(bounce.map(at(&mut scratch), 1024, Direction::Read).is_ok());
}

/// Tests mappings of any length in any order: no two mappings share a byte, and each buffer gets
/// what the controller wrote.
#[test]
fn any_sequence_keeps_every_buffer_apart() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let (bounce, platform) = pool();
    let mut live: Vec<(u64, Vec<u8>, u8)> = Vec::new();
    for round in 0..20_000 {
        if next(2) == 0 || live.len() > 8 {
            if live.is_empty() {
                continue;
            }
            let (bus, mut memory, fill) = live.swap_remove(next(live.len()));
            let len = memory.len();
            bounce.unmap(bus, at(&mut memory), len, Direction::Read);
            assert!(memory.iter().all(|&byte| byte == fill), "round {round}");
        } else {
            let mut memory = vec![0; 1 + next(2048)];
            let len = memory.len();
            if let Ok(bus) = bounce.map(at(&mut memory), len, Direction::Read) {
                device(bus, len).fill(round as u8);
                live.push((bus, memory, round as u8));
            }
        }
    }
    assert_eq!(platform.mapped.borrow().len(), live.len());
}

#[test]
fn a_read_into_parts_of_cache_lines_goes_through_the_pool() {
    #[repr(align(64))]
    struct Lines([u8; 8 * 512]);
    let memory: &'static mut Lines = Box::leak(Box::new(Lines([0; 8 * 512])));
    let platform = Platform::default();
    // The controller reaches all memory, so only partial cache lines send a buffer through the
    // pool.
    platform.reach.set((0, usize::MAX));
    platform.line.set(64);
    let bounce: Bounce<Platform, 8> = Bounce::new(platform.clone(), &mut memory.0);
    let mut near = Lines([0x11; 8 * 512]);
    for (from, len, through) in [(0, 512, 0), (4, 512, 1), (64, 10, 1), (4, 1030, 3)] {
        let part = at(&mut near.0[from..from + len]);
        let bus = bounce.map(part, len, Direction::Read).unwrap();
        assert_eq!(bounce.taken(), through, "{from} {len}");
        device(bus, len).fill(0x5a);
        bounce.unmap(bus, part, len, Direction::Read);
        assert!(near.0[from..from + len].iter().all(|&byte| byte == 0x5a));
        assert!(near.0[from + len..].iter().all(|&byte| byte == 0x11));
        near.0.fill(0x11);
    }
    // A write needs no bounce, since its cache lines are only cleaned.
    let bus = bounce.map(at(&mut near.0[4..14]), 10, Direction::Write).unwrap();
    assert_eq!(bounce.taken(), 0);
    bounce.unmap(bus, at(&mut near.0[4..14]), 10, Direction::Write);
    assert_eq!(platform.mapped.borrow().len(), 0);
}

/// Tests that a buffer never gets data that another buffer had in the pool: a read may fail before
/// any data have come, and the earlier data may be a secret.
#[test]
fn the_pool_shows_no_buffer_what_another_had() {
    let (bounce, _) = pool();
    let mut secret = vec![0x5e; 1024];
    let bus = bounce.map(at(&mut secret), 1024, Direction::Write).unwrap();
    bounce.unmap(bus, at(&mut secret), 1024, Direction::Write);
    let shows = |bus| device(bus, 1024).contains(&0x5e);
    assert!(!shows(bus), "it stays in the pool");
    let mut other = vec![0; 1024];
    let bus = bounce.map(at(&mut other), 1024, Direction::Read).unwrap();
    device(bus, 1024).fill(0x5e);
    bounce.unmap(bus, at(&mut other), 1024, Direction::Read);
    assert!(other.iter().all(|&byte| byte == 0x5e) && !shows(bus));
}

/// Tests that the pool keeps no data of a mapping that failed: the data may be a secret, and the
/// next buffer in these pieces may be that of another client.
#[test]
fn what_could_not_be_mapped_stays_in_no_piece() {
    let (bounce, platform) = pool();
    let reach = platform.reach.replace((0, 0));
    let mut secret = vec![0x5e; 700];
    assert_eq!(bounce.map(at(&mut secret), 700, Direction::Write), Err(DmaError::Unreachable));
    platform.reach.set(reach);
    let mut others = vec![1; 700];
    let bus = bounce.map(at(&mut others), 700, Direction::Read).unwrap();
    // The transfer fails before its first byte.
    bounce.unmap(bus, at(&mut others), 700, Direction::Read);
    assert!(!others.contains(&0x5e));
}

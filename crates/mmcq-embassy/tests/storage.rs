//! Tests of a card as bytes: the traits of embedded-storage, asynchronous and blocking, compared
//! with a plain array.

#[path = "support/world.rs"]
mod world;

use embedded_storage::{ReadStorage as _, Storage as _};
use mmcq::card::{Options, bring_up};
use mmcq::engine::{DmaBuf, Error};
use mmcq_embassy::{Blocking, Buffer, Region};
use mmcq_sim::slot::Controller;
use std::cell::Cell;
use world::{Stack, World};

const FIRST: u64 = 1000;
const BLOCKS: u64 = 24;
const BYTES: usize = BLOCKS as usize * 512;

fn buffer() -> DmaBuf {
    // Each caller gets its own static buffer, which is never freed.
    Box::leak(Box::new(Buffer::<4>::new())).take().unwrap()
}

fn up() -> (World, &'static Stack) {
    let world = World::new("sdhc-16g-hs");
    let stack = world.stack();
    stack.block_on(bring_up(stack, buffer(), Options::DEFAULT), |_| {}).0.unwrap();
    (world, stack)
}

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn bytes_at_any_place_are_those_that_were_written() {
    let (world, stack) = up();
    let mut region = Region::part(stack, buffer(), FIRST, BLOCKS).unwrap();
    assert_eq!(embedded_storage_async::ReadStorage::capacity(&region), BYTES);
    let mut array = vec![0; BYTES];
    stack.block_on(region.read_at(0, &mut array), |_| {}).unwrap();
    let mut disk = Blocking::new(stack, Region::part(stack, buffer(), FIRST, BLOCKS).unwrap(), |_| {});
    let mut random = Random(7);
    for round in 0..200_u32 {
        let offset = random.below(BYTES);
        // Short accesses, and accesses that cover several blocks.
        let most = [40, 600, 5000][random.below(3)];
        let len = 1 + random.below(most).min(BYTES - offset - 1);
        let bytes: Vec<u8> = (0..len).map(|i| (i as u32 ^ round) as u8).collect();
        array[offset..offset + len].copy_from_slice(&bytes);
        if round % 2 == 0 {
            let write = embedded_storage_async::Storage::write(&mut region, offset as u32, &bytes);
            stack.block_on(write, |_| {}).unwrap();
        } else {
            disk.write(offset as u32, &bytes).unwrap();
        }
        let at = random.below(BYTES);
        let mut seen = vec![0; 1 + random.below(BYTES - at)];
        if round % 3 == 0 {
            let read = embedded_storage_async::ReadStorage::read(&mut region, at as u32, &mut seen);
            stack.block_on(read, |_| {}).unwrap();
        } else {
            disk.read(at as u32, &mut seen).unwrap();
        }
        assert_eq!(seen, array[at..at + seen.len()], "round {round}: {} bytes at {at}", seen.len());
    }
    disk.flush().unwrap();
    assert!(world.memory.violations().is_empty());
}

/// Tests that a failure in any part of a read tells the blocks of the whole read that are done: the
/// card is taken out at each wait.
#[test]
fn a_failure_tells_the_blocks_of_the_whole_request() {
    let mut most = 0;
    for after in 1..10_000 {
        let (world, stack) = up();
        let mut region = Region::part(stack, buffer(), FIRST, BLOCKS).unwrap();
        // The end of a block, eight blocks, and the beginning of a block.
        let mut data = vec![0; 9 * 512];
        let waits = Cell::new(0);
        let result = stack.block_on(region.read_at(100, &mut data), |_| {
            waits.set(waits.get() + 1);
            if waits.get() == after {
                drop(world.model.borrow_mut().remove(world.time.now()));
            }
        });
        let Err(failed) = result else { break };
        most = most.max(failed.blocks_done);
    }
    assert_eq!(most, 9);
}

#[test]
fn nothing_outside_of_a_region_is_touched() {
    let (_world, stack) = up();
    let sectors = stack.with(|engine| engine.card_params().unwrap().sectors);
    let mut disk = Blocking::new(stack, Region::part(stack, buffer(), FIRST, BLOCKS).unwrap(), |_| {});
    let mut around = Blocking::whole(stack, buffer(), |_| {}).unwrap();
    assert_eq!(around.len_bytes(), sectors * 512);
    let place = (FIRST * 512 - 3) as u32;
    let mut before = [0; 3];
    around.read(place, &mut before).unwrap();
    for (offset, len) in [(BYTES, 1), (BYTES - 1, 2), (0, BYTES + 1), (usize::MAX >> 33, 1)] {
        let error = disk.write(offset as u32, &vec![1; len]).unwrap_err();
        assert!(matches!(error.error, Error::OutOfRange { .. }), "{offset}: {error}");
        assert!(disk.read(offset as u32, &mut vec![1; len]).is_err());
    }
    disk.write(0, &[9]).unwrap();
    disk.write(BYTES as u32 - 1, &[9]).unwrap();
    let mut after = [0; 4];
    around.read(place, &mut after).unwrap();
    assert_eq!((&after[..3], after[3]), (&before[..], 9));
    assert!(disk.read(0, &mut []).is_ok());
    for (first, blocks) in [(sectors, 1), (sectors - 1, 2), (u64::MAX, 2)] {
        let refused = Region::part(stack, buffer(), first, blocks).map(drop);
        assert_eq!(refused, Err(Error::OutOfRange { lba: first, sectors }));
    }
}

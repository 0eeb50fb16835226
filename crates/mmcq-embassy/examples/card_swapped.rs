//! A card that is exchanged under a file system (`embedded-sdmmc`). The mounted volume gets an
//! error because its card is gone, and no write of it reaches the next card. The program waits for
//! a card, checks it, accepts it by [`Blocking::rebind`], and mounts again.

use embedded_sdmmc::{Mode, TimeSource, Timestamp, VolumeIdx, VolumeManager};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::DmaBuf;
use mmcq_embassy::{Blocking, Buffer};
use mmcq_sim::bench::card_named;
use mmcq_sim::slot::Controller;
use world::{Host, Stack, World};

#[path = "../tests/support/fat.rs"]
mod fat;
#[path = "../tests/support/world.rs"]
mod world;

static SCRATCH: Buffer<1> = Buffer::new();
static BOUNCE: Buffer<8> = Buffer::new();

type Disk = Blocking<'static, (mmcq_embassy::CriticalSection, Host), 8>;
type Failed = embedded_sdmmc::Error<mmcq::block::BlockError>;

/// Number of lines in each card's log.
const LINES: u32 = 40;

/// A time source for a board without a clock.
struct Midnight;

impl TimeSource for Midnight {
    fn get_timestamp(&self) -> Timestamp {
        Timestamp::from_calendar(2026, 1, 1, 0, 0, 0).expect("a date")
    }
}

/// Mounts the volume and writes lines to its log, until all lines are written or one fails. Calls
/// `before` before each line. Returns the disk, the number of written lines, and the result.
fn log(disk: Disk, mut before: impl FnMut(u32)) -> (Disk, u32, Result<(), Failed>) {
    let volumes: VolumeManager<_, _> = VolumeManager::new(disk, Midnight);
    let mut written = 0;
    let result = (|| {
        let volume = volumes.open_volume(VolumeIdx(0))?;
        let root = volume.open_root_dir()?;
        let file = root.open_file_in_dir("LOG.TXT", Mode::ReadWriteCreateOrAppend)?;
        for line in 0..LINES {
            before(line);
            file.write(format!("line {line}\n").as_bytes())?;
            file.flush()?;
            written += 1;
        }
        Ok(())
    })();
    (volumes.free().0, written, result)
}

/// Waits until a working card was inserted. The supervisor is polled while nothing else runs; a
/// program with tasks runs it concurrently.
fn next_card(
    stack: &Stack,
    mut scratch: DmaBuf,
    old: Card,
    mut between: impl FnMut(&Event),
) -> (Card, DmaBuf) {
    loop {
        let (event, back) = stack.block_on(card::supervise(stack, scratch, Options::DEFAULT, old), |_| {});
        scratch = back;
        between(&event);
        match event {
            Event::Inserted(Ok(card)) | Event::Changed(card) => return (card, scratch),
            _ => {}
        }
    }
}

fn main() {
    let world = World::new("sdhc-16g-hs");
    let stack = world.stack();
    let scratch = SCRATCH.take().expect("nothing else takes it");
    let (card, scratch) = stack.block_on(card::bring_up(stack, scratch, Options::DEFAULT), |_| {});
    let card = card.expect("a card");
    fat::format(BlockDevice::new(stack)).expect("a volume");

    // The card is removed while the log is being written.
    let bounce = BOUNCE.take().expect("nothing else takes it");
    let disk = Blocking::whole(stack, bounce, |_| {}).expect("a card that is up");
    let mut out = None;
    let (disk, first, result) = log(disk, |line| {
        if line == 20 {
            out = world.model.borrow_mut().remove(world.time.now());
        }
    });
    println!("first card: {first} lines, then {}", result.expect_err("no card"));

    // Another card is inserted. The program checks it: here it formats the card, in practice it
    // would ask the user.
    let (second, scratch) = next_card(stack, scratch, card, |event| {
        if *event == Event::Removed {
            world.model.borrow_mut().insert(card_named("sdxc-64g-a2").expect("a card"), world.time.now());
        }
    });
    let (disk, none, result) = log(disk, |_| {});
    println!("second card, by the disk of the first: {none} lines, {}", result.expect_err("another card"));
    fat::format(BlockDevice::new(stack)).expect("a volume");
    disk.rebind().expect("a card that is up");
    let (disk, all, result) = log(disk, |_| {});
    result.expect("room");
    assert_eq!((none, all), (0, LINES));
    let text = fat::text_of(BlockDevice::new(stack), "LOG.TXT").expect("the volume");
    assert_eq!(text.lines().count() as u32, all);

    // The first card is inserted again, with all data that it had confirmed.
    let mut first_card = out;
    drop(world.model.borrow_mut().remove(world.time.now()));
    next_card(stack, scratch, second, |event| {
        if *event == Event::Removed {
            world.model.borrow_mut().insert(first_card.take().expect("once"), world.time.now());
        }
    });
    disk.rebind().expect("a card that is up");
    let text = fat::text_of(BlockDevice::new(stack), "LOG.TXT").expect("the volume");
    println!("first card again: {} lines", text.lines().count());
    assert!(text.lines().count() as u32 >= first && first == 20);
    assert!(world.memory.violations().is_empty());
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_of_one_card_reaches_the_next() {
        super::main();
    }
}

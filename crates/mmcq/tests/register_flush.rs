//! Tests of the flush of an SD card's cache by extension register: it is over when the register
//! shows it, ends in bounded time, and is never sent again.

use crate::support;
use mmcq::engine::{
    Abilities, BLOCK_BYTES, Config, DmaBuf, Engine, Erase, Erasing, Error, FlushBy, Kind, Request, SlotId,
};
use mmcq::host::{Cause, Direction};
use mmcq::spec::command::sd::{Extension, read_extr_single, write_extr_single};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 256;
const MS: u64 = 1_000_000;
const AT: Extension = Extension { io: false, function: 2, page: 1, offset: 261 };

struct Bench {
    world: Rc<RefCell<World>>,
    e: Engine<TestHost, 4>,
    now: u64,
    /// The executed CMD48 and CMD49: time, direction, and first byte of the data.
    asked: Rc<RefCell<Vec<(u64, Direction, u8)>>>,
    clock: Rc<RefCell<u64>>,
}

/// Returns an engine with a card whose flush is over at poll number `over_at`.
fn bench(over_at: u32) -> Bench {
    let world = World::new(BLOCKS);
    let (asked, clock) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(0)));
    let (seen, at, mut questions) = (asked.clone(), clock.clone(), 0);
    world.borrow_mut().register = Some(Box::new(move |direction, page| {
        if direction == Direction::Read {
            questions += 1;
            page[0] = 0xfe | u8::from(questions < over_at);
        }
        seen.borrow_mut().push((*at.borrow(), direction, page[0]));
    }));
    let mut e = Engine::new(TestHost::new(&world), Config::DEFAULT);
    let flush = FlushBy::SdCache { at: AT, timeout_ns: 20 * MS };
    e.set_card_params(Some(target(BLOCKS).flush(flush)));
    e.enable_extended_ops();
    e.set_page(buffer(1, 0)).unwrap();
    Bench { world, e, now: 1_000, asked, clock }
}

impl Bench {
    fn flush(&mut self) -> SlotId {
        self.e.submit(Request::new(Kind::Flush, DmaBuf::EMPTY), self.now).unwrap()
    }

    fn step(&mut self) {
        self.now += 1_000;
        if !self.world.borrow().running() {
            self.now = self.e.next_deadline_ns().map_or(self.now, |at| at.max(self.now));
        }
        *self.clock.borrow_mut() = self.now;
        let _ = self.e.on_irq(self.now);
        let _ = self.e.poll(self.now);
    }

    fn finish(&mut self, id: SlotId) -> Result<(), Error> {
        for _ in 0..10_000 {
            if let Some(done) = self.e.take(id) {
                assert_eq!(self.world.borrow().mapped(), 0, "the page is the CPU's again");
                return done.result.map(|_| ());
            }
            self.step();
        }
        panic!("never done");
    }

    fn commands(&self) -> Vec<(u8, u32)> {
        self.world.borrow().log.iter().map(|seen| (seen.index, seen.arg)).collect()
    }
}

#[test]
fn the_card_is_asked_until_it_has_flushed() {
    let mut b = bench(3);
    let id = b.flush();
    assert_eq!(b.finish(id), Ok(()));
    let (write, read) = (write_extr_single(AT, 1), read_extr_single(AT, 1));
    let (write, read) = ((write.index, write.arg), (read.index, read.arg));
    assert_eq!(b.commands(), [write, (13, 1 << 16), read, read, read]);
    let asked = b.asked.borrow();
    assert_eq!((asked[0].1, asked[0].2 & 1), (Direction::Write, 1), "bit 0 starts it");
    // The register is polled each millisecond.
    for pair in asked[1..].windows(2) {
        let pause = pair[1].0 - pair[0].0;
        assert!((MS..MS + 10_000).contains(&pause), "{pause} ns");
    }
}

#[test]
fn a_flush_that_never_ends_is_an_error_in_time() {
    let mut b = bench(u32::MAX);
    let id = b.flush();
    assert!(matches!(b.finish(id), Err(Error::Protocol(_))));
    assert!((20 * MS..22 * MS).contains(&b.now), "{} ns", b.now);
    assert_eq!(b.asked.borrow().iter().filter(|asked| asked.1 == Direction::Write).count(), 1);
    // The requests after the flush are executed.
    let read = Request::new(Kind::Read { lba: 0, blocks: 1 }, buffer(1, 1));
    let id = b.e.submit(read, b.now).unwrap();
    assert_eq!(b.finish(id), Ok(()));
}

#[test]
fn a_flush_that_is_refused_or_damaged_has_failed_and_is_not_repeated() {
    // The error shows in the status of the start, or in that of a poll.
    for steps in [0, 2] {
        let mut b = bench(2);
        let id = b.flush();
        (0..steps).for_each(|_| b.step());
        b.world.borrow_mut().next_status = R1::ERROR;
        assert!(matches!(b.finish(id), Err(Error::Card(status)) if status & R1::ERROR != 0), "{steps}");
    }
    // WP_VIOLATION gives another error; bit 7 means nothing on an SD card.
    let mut b = bench(2);
    let id = b.flush();
    b.world.borrow_mut().next_status = R1::WP_VIOLATION;
    assert_eq!(b.finish(id), Err(Error::Protected));
    let mut b = bench(2);
    let id = b.flush();
    b.world.borrow_mut().next_status = R1::SWITCH_ERROR;
    assert_eq!(b.finish(id), Ok(()));
    for index in [49, 48] {
        let mut b = bench(2);
        b.world.borrow_mut().strike = Some((index, 0, Cause::Crc));
        let id = b.flush();
        assert!(matches!(b.finish(id), Err(Error::Host(fault)) if fault.cause == Cause::Crc), "CMD{index}");
        assert_eq!(b.commands().iter().filter(|sent| sent.0 == index).count(), 1, "CMD{index}");
    }
}

#[test]
fn without_a_page_or_a_card_there_is_no_flush() {
    let mut b = bench(2);
    b.e.set_page(DmaBuf::from_static(&mut buffer(1, 0).into_static()[..256])).unwrap();
    let id = b.flush();
    assert_eq!(b.finish(id), Err(Error::Buffer { needed: BLOCK_BYTES, given: 256 }));
    assert_eq!(b.commands(), []);
    // The card is removed between two polls.
    let mut b = bench(u32::MAX);
    let id = b.flush();
    while b.asked.borrow().len() < 3 {
        b.step();
    }
    b.world.borrow_mut().remove();
    let began = b.now;
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.finish(id), Err(Error::Removed));
    assert!(b.now - began < MS);
    // The program reports that there is no card.
    let mut b = bench(u32::MAX);
    let id = b.flush();
    while b.asked.borrow().len() < 3 || b.world.borrow().running() {
        b.step();
    }
    b.e.set_card_params(None);
    assert!(matches!(b.finish(id), Err(Error::NoCard | Error::CacheLost)));
}

/// Tests a durable erase: when it is complete, the blocks are erased on the medium, as with a
/// durable write.
#[test]
fn a_durable_erase_is_flushed_by_register() {
    let erase = Erasing::NONE.kinds(Erase::Erase.bit()).unit_blocks(16).zeros(true);
    for kind in [
        Kind::Erase { lba: 0, blocks: 64, how: Erase::Erase },
        Kind::Zero { lba: 0, blocks: 64 },
        Kind::Flush,
    ] {
        let mut b = bench(2);
        b.e.set_abilities(Abilities::NONE.reliable_blocks(0).erase(erase));
        let id = b.e.submit(Request::new(kind, DmaBuf::EMPTY).durable(), b.now).unwrap();
        assert_eq!(b.finish(id), Ok(()));
        let sent: Vec<u8> = b.commands().iter().map(|sent| sent.0).collect();
        assert!(sent.ends_with(&[49, 13, 48, 48]), "{kind:?}: {sent:?}");
    }
}

//! Tests of two users of one SPI bus: the stack through [`SharedHalPort`], and another device
//! through the crate embedded-hal-bus. There is no interrupt; a loop turns the stack.

use crate::timed;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;

use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, SpiBus, SpiDevice};
use embedded_hal_bus::spi::RefCellDevice;
use mmcq::block::BlockDevice;
use mmcq::card::{self, Card};
use mmcq::engine::{Config, Error, Kind, Request};
use mmcq::host::spi::{SharedHalPort, Spi, SpiConfig, SpiMemory};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::{Habits, SpiLine, SpiSlot};
use mmcq_sim::time::Time;
use mmcq_sim::world::Stream;
use timed::blocks as buffer;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;

/// The bytes that the other device saw while its chip select was low, and how often it was
/// selected.
#[derive(Default)]
struct Other {
    selected: Cell<bool>,
    bytes: RefCell<Vec<u8>>,
    selections: Cell<u32>,
    /// How often the other device was selected together with the card, or while the card still
    /// drove the line.
    clashes: Cell<u32>,
}

/// The wires of the bus: the card, and a device that answers each byte with its complement.
struct Wires {
    line: SpiLine,
    other: Rc<Other>,
}

impl Wires {
    fn byte(&self, out: u8) -> u8 {
        let clash = self.other.selected.get() && self.line.slot.borrow().drives();
        let back = self.line.exchange(out);
        if !self.other.selected.get() {
            return back;
        }
        self.other.clashes.set(self.other.clashes.get() + u32::from(clash));
        self.other.bytes.borrow_mut().push(out);
        !out
    }
}

impl ErrorType for Wires {
    type Error = Infallible;
}

impl SpiBus for Wires {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.iter_mut().for_each(|word| *word = self.byte(0xff));
        Ok(())
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        words.iter().for_each(|&word| {
            self.byte(word);
        });
        Ok(())
    }
    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        for (to, &from) in read.iter_mut().zip(write) {
            *to = self.byte(from);
        }
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.iter_mut().for_each(|word| *word = self.byte(*word));
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A chip select pin; low selects.
struct Pin<F>(F);

impl<F: FnMut(bool)> digital::ErrorType for Pin<F> {
    type Error = Infallible;
}

impl<F: FnMut(bool)> OutputPin for Pin<F> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        (self.0)(true);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        (self.0)(false);
        Ok(())
    }
}

const CARD_HZ: u32 = 25_000_000;
const OTHER_HZ: u32 = 1_000_000;

/// The bus. `SpiBus` has no method for the clock; the closures of the test set it.
type Bus = RefCell<Wires>;
type Select = Pin<Box<dyn FnMut(bool)>>;
type Clock = fn(&mut Wires, u32);
type Port = SharedHalPort<&'static Bus, Select, Clock>;
type Stack = timed::On<Erased<{ constants::<Spi<Port>>() }>>;

struct Rig {
    line: SpiLine,
    bus: &'static Bus,
    other: Rc<Other>,
    stack: Stack,
}

impl Rig {
    fn new(habits: Habits) -> Rig {
        let mut slot = SpiSlot::new(Some(timed::card(&timed::profile("sdhc-16g-hs"))));
        slot.set_habits(habits);
        let line = SpiLine::new(slot, Time::new());
        let other = Rc::new(Other::default());
        let bus: &'static Bus =
            Box::leak(Box::new(RefCell::new(Wires { line: line.clone(), other: other.clone() })));
        let wire = line.clone();
        let select: Box<dyn FnMut(bool)> = Box::new(move |low| wire.select(low));
        let clock: Clock = |wires, hz| wires.line.set_clock(hz);
        let port = SharedHalPort::new(bus, Pin(select), clock);
        NOW_NS.set(line.time.now());
        let memory = Box::leak(Box::new(SpiMemory::new()));
        let host = Spi::new(port, memory, SpiConfig::new(CARD_HZ));
        Rig { line, bus, other, stack: timed::on(Erased::new(host), Config::DEFAULT) }
    }

    /// Runs one turn of the program's loop, which takes 1 us.
    fn turn(&self) {
        self.line.time.charge(1_000);
        NOW_NS.set(self.line.time.now());
        self.stack.turn();
    }

    fn drive<F: Future>(&self, future: F) -> Result<F::Output, String> {
        timed::try_drive(
            &self.line.time,
            || {
                self.turn();
                Ok(())
            },
            future,
        )
    }

    fn bring_up(&self) -> Card {
        self.drive(card::bring_up_sd(&self.stack, buffer(1), card::Options::DEFAULT)).unwrap().0.unwrap()
    }
}

#[test]
fn two_users_take_turns() {
    for (deselect_ends, needs_ones) in [(false, false), (true, false), (false, true)] {
        let rig = Rig::new(Habits { deselect_ends, needs_ones, ..Habits::USUAL });
        let found = rig.bring_up();
        assert_eq!(rig.line.clock_hz(), CARD_HZ);
        let (other, line) = (rig.other.clone(), rig.line.clone());
        let pin = Pin(move |low: bool| {
            other.selected.set(low);
            if low {
                assert!(!line.slot.borrow().is_selected(), "both are selected");
                line.set_clock(OTHER_HZ);
                other.selections.set(other.selections.get() + 1);
            }
        });
        let mut device = RefCellDevice::new_no_delay(rig.bus, pin).unwrap();
        let mut random = Stream::new(5, "shared");
        let mut mirror = [const { None::<Vec<u8>> }; 64];
        let (mut taken, mut free) = (0, 0);
        for round in 0..120u32 {
            let lba = random.below(56);
            let blocks = 1 + random.below(8) as u32;
            let mut buf = buffer(blocks as usize);
            let write = random.chance(0.5);
            let kind = if write {
                buf.iter_mut().for_each(|byte| *byte = random.bits() as u8);
                for (at, block) in (lba as usize..).zip(buf.chunks(512)) {
                    mirror[at] = Some(block.to_vec());
                }
                Kind::Write { lba, blocks }
            } else {
                Kind::Read { lba, blocks }
            };
            let now_ns = rig.line.time.now();
            NOW_NS.set(now_ns);
            let id = rig.stack.with(|engine| engine.submit(Request::new(kind, buf), now_ns)).unwrap();
            let done = (0..100_000).find_map(|_| {
                // The other user transfers whenever the bus is free, also in the middle of the
                // stack's requests.
                if rig.bus.try_borrow_mut().is_ok() {
                    free += 1;
                    let mut bytes = [round as u8, 0x40, 0xfe];
                    let sent = bytes;
                    device.transfer_in_place(&mut bytes).unwrap();
                    assert_eq!(bytes, sent.map(|byte| !byte));
                } else {
                    taken += 1;
                }
                rig.turn();
                rig.stack.with(|engine| engine.take(id))
            });
            let done = done.expect("the request ends");
            assert_eq!(done.result.map(|_| ()), Ok(()), "{kind:?}");
            if !write {
                for (at, block) in (lba as usize..).zip(done.buf.chunks(512)) {
                    assert!(mirror[at].as_ref().is_none_or(|held| held == block), "block {at}");
                }
            }
        }
        assert!(taken > 100 && free > 100, "{taken} turns with the bus taken, {free} with it free");
        assert_eq!(rig.other.clashes.get(), 0, "the card let go of its line too late");
        assert_eq!(u32::try_from(rig.other.bytes.borrow().len()), Ok(3 * rig.other.selections.get()));
        assert_eq!(rig.line.slot.borrow().protocol_violations(), 0);
        let stats = rig.stack.with(|engine| *engine.stats());
        assert_eq!((stats.faults, stats.continued), (0, 0), "no fault, and no transfer that stays open");
        assert!(found.params.sectors > 0);
    }
}

/// Checks that the card's request waits while the other user keeps the bus, and then succeeds.
#[test]
fn a_request_waits_for_the_bus() {
    let rig = Rig::new(Habits::USUAL);
    rig.bring_up();
    let device = BlockDevice::new(&rig.stack);
    rig.drive(device.write(7, buffer(1))).unwrap().0.unwrap();
    let lease = rig.bus.borrow_mut();
    let now_ns = rig.line.time.now();
    NOW_NS.set(now_ns);
    let request = Request::new(Kind::Read { lba: 7, blocks: 1 }, buffer(1));
    let id = rig.stack.with(|engine| engine.submit(request, now_ns)).unwrap();
    for _ in 0..1_000 {
        rig.turn();
        assert!(rig.stack.with(|engine| engine.take(id)).is_none(), "it cannot have ended");
        assert!(!rig.line.slot.borrow().is_selected(), "the bus is another's");
    }
    drop(lease);
    let done = (0..10_000).find_map(|_| {
        rig.turn();
        rig.stack.with(|engine| engine.take(id))
    });
    let done = done.unwrap();
    assert_eq!(done.result.map(|_| ()), Ok(()));
    assert!(done.buf.iter().all(|&byte| byte == 0));
    assert!(rig.bus.try_borrow_mut().is_ok(), "the bus is free again");
}

/// Checks that a stack that is dropped in the middle of a request deselects its card, which
/// otherwise would answer to the bytes for the other device.
#[test]
fn a_stack_that_goes_leaves_the_bus_to_the_other_device() {
    let rig = Rig::new(Habits::USUAL);
    rig.bring_up();
    let now_ns = rig.line.time.now();
    NOW_NS.set(now_ns);
    let request = Request::new(Kind::Read { lba: 7, blocks: 8 }, buffer(8));
    rig.stack.with(|engine| engine.submit(request, now_ns)).unwrap();
    assert!(
        (0..1_000).any(|_| {
            rig.turn();
            rig.line.slot.borrow().is_selected()
        }),
        "the request begins"
    );
    let Rig { line, bus, stack, .. } = rig;
    drop(stack);
    assert!(bus.try_borrow_mut().is_ok(), "the bus is free");
    assert!(!line.slot.borrow().is_selected(), "the card is still selected");
    assert!(!line.slot.borrow().drives(), "the card has let go of its line");
}

/// Checks a user that never releases the bus: for the stack this is a controller that hangs, and
/// each request ends with an error in bounded time.
#[test]
fn a_bus_that_is_never_free() {
    let rig = Rig::new(Habits::USUAL);
    rig.bring_up();
    let lease = rig.bus.borrow_mut();
    let now_ns = rig.line.time.now();
    NOW_NS.set(now_ns);
    let request = Request::new(Kind::Read { lba: 7, blocks: 1 }, buffer(1));
    let id = rig.stack.with(|engine| engine.submit(request, now_ns)).unwrap();
    let done = (0..200_000_000u64).find_map(|_| {
        rig.line.time.charge(1_000_000);
        NOW_NS.set(rig.line.time.now());
        rig.stack.turn();
        rig.stack.with(|engine| engine.take(id))
    });
    let took_ns = rig.line.time.now() - now_ns;
    assert_eq!(done.map(|done| done.result.map(|_| ())), Some(Err(Error::Dead)), "after {took_ns} ns");
    assert!(took_ns < 60_000_000_000, "{took_ns} ns");
    drop(lease);
}

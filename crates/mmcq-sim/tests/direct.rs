//! Tests of cards without a queue ([`mmcq::direct`]), on the models of an SDHCI and of an SPI bus, in
//! virtual time: data, faults, and the longest time of a call.

use crate::cases;
use crate::timed;
use mmcq::board::NoLock;
use mmcq::card::Options;
use mmcq::direct::{AnyCard, DirectCard, Families, OnlySd};
use mmcq::engine::{DmaBuf, Error};
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use mmcq::host::{Host, Segment, sdhci};
use mmcq::sched::Fifo;
use mmcq::task::{Clock, Idle, Platform};
use mmcq_sim::card::Card;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::{SpiLine, SpiSlot};
use mmcq_sim::time::Time;
use mmcq_sim::world::Stream;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use timed::filled;

const MS: u64 = 1_000_000;
/// Longest time of a call: four tries with a busy of 3 s, each followed by a wait for the same busy,
/// and an initialisation of the card.
const LONGEST_NS: u64 = 40_000 * MS;
/// Time in ns that a register access takes.
const ACCESS_NS: u64 = 50;
/// Largest number of waits in a call; then nothing moves any more.
const WAITS_MAX: u32 = 3_000_000;

thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });
thread_local!(static ALARM_NS: Cell<Option<u64>> = const { Cell::new(None) });

/// A clock whose alarm the rig reads.
struct Alarm;

impl Clock for Alarm {
    fn now_ns(&self) -> u64 {
        NOW_NS.get()
    }

    fn set_alarm(&self, at_ns: Option<u64>) {
        ALARM_NS.set(at_ns);
    }
}

struct Board<H>(PhantomData<H>);

impl<H: Host> Platform for Board<H> {
    type Lock = NoLock;
    type Clock = Alarm;
    type Host = H;
    type Profile = Fifo;
}

type Native = sdhci::Sdhci<mmcq_sim::sdhci::Port, ShadowMemory, 129>;

/// A port that carries out each exchange inside of the call.
struct Wire(SpiLine);

// SAFETY: the port uses the memory only in `exchange`, and only reads it for `Send`.
unsafe impl Port for Wire {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver lends the memory until `done`.
        let bytes = |segment: &Segment| unsafe {
            std::slice::from_raw_parts_mut(segment.ptr().as_ptr(), segment.len_bytes() as usize)
        };
        match &exchange {
            Exchange::Swap(segment) => self.0.transfer(bytes(segment)),
            Exchange::Receive(segment) => {
                bytes(segment).fill(0xff);
                self.0.transfer(bytes(segment));
            }
            Exchange::Send(segment) => self.0.transfer(&mut bytes(segment).to_vec()),
            Exchange::Idle(count) => self.0.transfer(&mut vec![0xff; *count as usize]),
        }
        NOW_NS.set(self.0.time.now());
    }

    fn done(&mut self) -> Progress {
        Progress::Done
    }

    fn stop(&mut self) -> bool {
        true
    }

    fn select(&mut self, on: bool) {
        self.0.select(on);
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            self.0.set_clock(hz);
        }
    }
}

/// A card without a queue on a model.
struct Rig<H: Host, F> {
    time: Time,
    slot: Rc<RefCell<dyn Controller>>,
    direct: DirectCard<Board<H>, F>,
    /// Longest wait, in ns: a port that ends its exchanges at once interrupts never.
    step_ns: u64,
    waits: Cell<u32>,
}

fn native(card: &str) -> Rig<Native, AnyCard> {
    native_with(timed::card(&timed::profile(card)))
}

fn native_with(card: Box<dyn Card>) -> Rig<Native, AnyCard> {
    let (time, memory) = (Time::new(), ShadowMemory::new(MemoryConfig::BITS32));
    let slot = Rc::new(RefCell::new(Sdhci::new(SdhciConfig::GENERIC_4_20, memory.clone(), Some(card))));
    let port = mmcq_sim::sdhci::Port::new(slot.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
    let table = Box::leak(Box::new(sdhci::Table::new()));
    let host = sdhci::Sdhci::new(port, memory, table, sdhci::SdhciConfig::new()).unwrap();
    Rig::new(time, slot, host, u64::MAX)
}

fn spi(card: &str) -> Rig<Spi<Wire>, OnlySd> {
    let line = SpiLine::new(SpiSlot::new(Some(timed::card(&timed::profile(card)))), Time::new());
    let memory = Box::leak(Box::new(SpiMemory::new()));
    let host = Spi::new(Wire(line.clone()), memory, SpiConfig::new(25_000_000));
    Rig::new(line.time.clone(), line.slot.clone(), host, 20_000)
}

impl<H: Host, F> Rig<H, F> {
    fn new(time: Time, slot: Rc<RefCell<dyn Controller>>, host: H, step_ns: u64) -> Self {
        NOW_NS.set(0);
        ALARM_NS.set(None);
        let direct = DirectCard::new(NoLock::new(), Alarm, host, filled(1, 0));
        Rig { time, slot, direct, step_ns, waits: Cell::new(0) }
    }

    /// Lets the models continue until the next interrupt or the alarm.
    fn wait(&self) {
        self.waits.set(self.waits.get() + 1);
        assert!(self.waits.get() < WAITS_MAX, "nothing moves any more");
        let now_ns = self.time.now();
        let mut slot = self.slot.borrow_mut();
        if !slot.irq() {
            let alarm_ns = ALARM_NS.get().expect("a wait without an alarm");
            let until_ns = slot.next_event_ns().map_or(alarm_ns, |at_ns| at_ns.min(alarm_ns)).max(now_ns);
            let until_ns = until_ns.min(now_ns.saturating_add(self.step_ns));
            let reached_ns = slot.advance(until_ns);
            self.time.set(reached_ns.max(now_ns));
        }
        NOW_NS.set(self.time.now());
    }

    /// Polls a future until it is ready; between two polls only interrupts and alarms advance the
    /// card.
    fn drive<T: Future>(&self, future: T) -> T::Output {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            self.wait();
            if self.slot.borrow().irq() { self.direct.on_irq() } else { self.direct.poll() }
        }
    }

    /// Lets time pass in which nothing is asked of the card.
    fn pass(&self, ns: u64) {
        let until_ns = self.time.now() + ns;
        while self.time.now() < until_ns {
            if self.slot.borrow().irq() {
                self.direct.on_irq();
            }
            let reached_ns = self.slot.borrow_mut().advance(until_ns);
            self.time.set(reached_ns.max(self.time.now()));
            NOW_NS.set(self.time.now());
        }
    }

    fn faults(&self, plan: Plan) -> Faults {
        let faults = Faults::new(plan);
        let mut slot = self.slot.borrow_mut();
        slot.set_faults(faults.clone());
        if let Some(card) = slot.card_mut() {
            card.set_faults(faults.clone());
        }
        faults
    }

    fn peek(&self, lba: u64, blocks: usize) -> Vec<u8> {
        let mut bytes = vec![0; blocks * 512];
        self.slot.borrow_mut().card_mut().unwrap().peek(lba * 512, &mut bytes).unwrap();
        bytes
    }

    fn is_good(&self) -> bool {
        self.slot.borrow().protocol_violations() == 0
    }
}

impl<H: Host, F: Families<Found = mmcq::direct::Brief>> Rig<H, F> {
    /// Runs a blocking call, and returns its result and how long it took, in ns.
    fn timed<T>(
        &self,
        call: impl FnOnce(&mmcq::direct::Blocking<'_, Board<H>, F, &dyn Fn(&Idle)>) -> T,
    ) -> (T, u64) {
        let begin_ns = self.time.now();
        self.waits.set(0);
        let idle: &dyn Fn(&Idle) = &|_| self.wait();
        let result = call(&self.direct.blocking(idle));
        (result, self.time.now() - begin_ns)
    }

    fn up(&self) -> u64 {
        self.timed(|card| card.bring_up(Options::DEFAULT)).0.unwrap().sectors
    }

    fn write(&self, lba: u64, buf: DmaBuf) -> Result<(), Error> {
        let ((result, _), took_ns) = self.timed(|card| card.write(lba, buf));
        assert!(took_ns < LONGEST_NS, "{took_ns}: {result:?}");
        result
    }

    fn read(&self, lba: u64, blocks: usize) -> Result<Vec<u8>, Error> {
        let ((result, buf), took_ns) = self.timed(|card| card.read(lba, filled(blocks, 0xee)));
        assert!(took_ns < LONGEST_NS, "{took_ns}: {result:?}");
        result.map(|()| buf.to_vec())
    }

    /// Carries a load of random reads and writes, and compares the data with a copy.
    fn load(&self, seed: u64, calls: u32) {
        let mut random = Stream::new(seed, "direct");
        let mut copy = self.peek(0, 1024);
        for n in 0..calls {
            let lba = random.below(1000);
            let blocks = 1 + random.below(if n % 4 == 0 { 300 } else { 3 }).min(1023 - lba) as usize;
            let range = lba as usize * 512..(lba as usize + blocks) * 512;
            if random.below(2) == 0 {
                let byte = random.below(256) as u8;
                self.write(lba, filled(blocks, byte)).unwrap();
                copy[range].fill(byte);
            } else {
                assert_eq!(self.read(lba, blocks).unwrap(), copy[range], "call {n}");
            }
        }
        assert_eq!(self.timed(|card| card.flush()).0, Ok(()));
        assert!(self.peek(0, 1024) == copy);
    }
}

#[test]
fn every_card_carries_a_load() {
    for card in ["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2", "pro-plus-128", "sduc-4t", "sdxc-128g-uhs"] {
        for seed in 0..cases::rounds(2, 4) {
            let rig = native(card);
            assert!(rig.up() > 0);
            rig.load(seed, 40);
            assert!(rig.is_good(), "{card}");
        }
    }
    for card in ["emmc-4g-old", "emmc-hs200", "emmc-cache", "emmc-51-full", "hbg4a2"] {
        let rig = native(card);
        assert!(rig.up() > 0);
        rig.load(7, 40);
        assert!(rig.is_good(), "{card}");
    }
    for card in ["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2", "pro-plus-128"] {
        let rig = spi(card);
        assert!(rig.up() > 0);
        rig.load(3, 40);
        assert!(rig.is_good(), "{card}");
    }
}

/// Tests futures that only interrupts and alarms advance.
#[test]
fn futures_are_advanced_by_interrupts_and_alarms() {
    for card in ["sdhc-16g-hs", "emmc-cache"] {
        let rig = native(card);
        rig.drive(async {
            let found = rig.direct.bring_up(Options::DEFAULT).await.unwrap();
            assert_eq!(rig.direct.card(), Some(found));
            for lba in [0, 5, found.sectors - 9] {
                let (result, buf) = rig.direct.write(lba, filled(9, 0x5a)).await;
                assert_eq!((result, buf.len()), (Ok(()), 9 * 512));
                rig.direct.flush().await.unwrap();
                let (result, buf) = rig.direct.read(lba, filled(9, 0)).await;
                assert_eq!(result, Ok(()));
                assert!(buf.iter().all(|&byte| byte == 0x5a));
            }
        });
        assert!(rig.is_good());
    }
}

#[test]
fn calls_outside_of_the_card_are_refused() {
    let rig = native("sdhc-16g-hs");
    assert_eq!(rig.read(0, 1), Err(Error::NoCard));
    let sectors = rig.up();
    for (lba, blocks) in [(sectors, 1), (sectors - 1, 2), (u64::MAX, 1), (0, 0)] {
        assert_eq!(rig.read(lba, blocks), Err(Error::OutOfRange { lba, sectors }), "{lba}");
        assert_eq!(rig.write(lba, filled(blocks, 1)), Err(Error::OutOfRange { lba, sectors }));
    }
    assert!(rig.read(sectors - 1, 1).is_ok());
}

/// Strikes that a call must survive: the data are right, and the call succeeds.
const SURVIVED: [(Point, Strike); 9] = [
    (Point::Command, Strike::Lost),
    (Point::Response, Strike::Lost),
    (Point::Response, Strike::Crc),
    (Point::ReadBlock, Strike::Crc),
    (Point::ReadBlock, Strike::Lost),
    (Point::WriteBlock, Strike::Crc),
    (Point::WriteBlock, Strike::NoStatus),
    (Point::Busy, Strike::Late(300_000_000)),
    (Point::Busy, Strike::Late(4_000_000_000)),
];

/// Writes and reads back; each write has other data. Returns the first error.
fn use_card<H: Host, F: Families<Found = mmcq::direct::Brief>>(
    rig: &Rig<H, F>,
    round: u8,
) -> Result<(), Error> {
    for (lba, blocks) in [(3, 1), (10, 7), (40, 200)] {
        let byte = round.wrapping_mul(16).wrapping_add(blocks as u8);
        rig.write(lba, filled(blocks, byte))?;
        assert!(rig.read(lba, blocks)?.iter().all(|&read| read == byte), "{lba}");
        assert!(rig.peek(lba, blocks).iter().all(|&kept| kept == byte), "{lba}");
    }
    rig.timed(|card| card.flush()).0
}

#[test]
fn each_fault_once() {
    for (turn, (point, strike)) in SURVIVED.into_iter().enumerate() {
        for nth in 1..=12 {
            let rig = native(cases::one_of(turn, &["sdhc-16g-hs", "emmc-hs200", "emmc-4g-old"])[0]);
            rig.up();
            let faults = rig.faults(Plan::none().shot(point, nth, strike));
            assert_eq!(use_card(&rig, nth as u8), Ok(()), "{point:?} {nth} {strike:?}");
            assert!(faults.events(point) < nth || faults.strikes() == 1, "{point:?} {nth} {strike:?}");
            let rig = spi("sdhc-16g-hs");
            rig.up();
            rig.faults(Plan::none().shot(point, nth, strike));
            assert_eq!(use_card(&rig, nth as u8), Ok(()), "SPI: {point:?} {nth} {strike:?}");
        }
    }
}

/// Tests bring-up with one fault: it succeeds all the same.
#[test]
fn each_fault_of_bring_up_once() {
    for (point, strike) in &SURVIVED[..7] {
        for nth in cases::some(3, 1..=30) {
            let rig = native("sdhc-16g-hs");
            rig.faults(Plan::none().shot(*point, nth, *strike));
            rig.up();
            assert_eq!(use_card(&rig, nth as u8), Ok(()), "{point:?} {nth} {strike:?}");
            let rig = spi("sdhc-16g-hs");
            rig.faults(Plan::none().shot(*point, nth, *strike));
            rig.up();
            assert_eq!(use_card(&rig, nth as u8), Ok(()), "SPI: {point:?} {nth} {strike:?}");
        }
    }
}

/// Tests faults that do not end: each call ends with an error, in time.
#[test]
fn faults_without_end_are_bounded() {
    for (point, strike) in [
        (Point::Busy, Strike::Never),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::Command, Strike::Lost),
    ] {
        let rig = native("sdhc-16g-hs");
        rig.up();
        rig.faults(Plan::none().from(point, 1, strike));
        let error = rig.write(3, filled(8, 1)).unwrap_err();
        assert!(!matches!(error, Error::Changed | Error::Full), "{point:?} {strike:?}: {error}");
        // Without the fault the card works again after a bring-up.
        rig.faults(Plan::none());
        rig.up();
        assert_eq!(use_card(&rig, 1), Ok(()));
        let rig = spi("sdhc-16g-hs");
        rig.up();
        rig.faults(Plan::none().from(point, 1, strike));
        rig.write(3, filled(8, 1)).expect_err("SPI");
        rig.faults(Plan::none());
        // Without a switch of the supply a card in SPI mode that is busy for ever stays so.
        let up = rig.timed(|card| card.bring_up(Options::DEFAULT)).0;
        assert_eq!(up.is_ok(), strike != Strike::Never, "{up:?}");
        assert_eq!(use_card(&rig, 1).is_ok(), up.is_ok());
    }
}

#[test]
fn random_faults_never_give_wrong_data() {
    for seed in 0..cases::rounds(5, 40) {
        let rig = native(if seed % 2 == 0 { "sdhc-16g-hs" } else { "emmc-hs200" });
        rig.up();
        let mut plan = Plan::seeded(seed);
        for (point, strike) in SURVIVED {
            plan = plan.chance(point, strike, 0.01);
        }
        let faults = rig.faults(plan);
        for round in 0..8 {
            if use_card(&rig, round).is_err() {
                // An error may be final. Then the card comes back by a bring-up without faults.
                faults.arm(false);
                rig.up();
                faults.arm(true);
            }
        }
    }
}

#[test]
fn a_card_that_is_taken_out_ends_its_calls() {
    for (point, nth) in
        [(Point::Command, 1), (Point::Command, 2), (Point::WriteBlock, 3), (Point::ReadBlock, 4)]
    {
        let rig = native("sdhc-16g-hs");
        rig.up();
        rig.faults(Plan::none().shot(point, nth, Strike::Remove));
        let error = use_card(&rig, 1).unwrap_err();
        assert_eq!(error, Error::NoCard, "{point:?} {nth}");
        assert_eq!(rig.read(0, 1), Err(Error::NoCard));
        // The same card comes back after a while. Contacts bounce, so the controller sees it later.
        let card = rig.slot.borrow_mut().removed().unwrap();
        rig.pass(20_000 * MS);
        let now_ns = rig.time.now();
        rig.slot.borrow_mut().insert(card, now_ns);
        rig.faults(Plan::none());
        while let Err(error) = rig.timed(|card| card.bring_up(Options::DEFAULT)).0 {
            assert!(rig.time.now() < now_ns + 1_000 * MS, "{error}");
            rig.pass(10 * MS);
        }
        assert_eq!(use_card(&rig, 2), Ok(()));
    }
}

/// Puts another card into the slot, while the controller does not look.
fn exchange<H: Host, F>(rig: &Rig<H, F>, other: &str) {
    let now_ns = rig.time.now();
    drop(rig.slot.borrow_mut().remove(now_ns));
    rig.slot.borrow_mut().insert(timed::card(&timed::profile(other)), now_ns);
    // Longer than the controller debounces its switch.
    rig.pass(2_000 * MS);
}

#[test]
fn another_card_is_not_written() {
    let rig = native("sdhc-16g-hs");
    rig.up();
    assert_eq!(rig.write(5, filled(4, 0x77)), Ok(()));
    exchange(&rig, "pro-plus-128");
    let before = rig.peek(5, 4);
    assert_eq!(rig.write(5, filled(4, 0x55)), Err(Error::Changed));
    assert_eq!(rig.peek(5, 4), before);
    // The handle has no card until the program brings the new one up.
    assert_eq!(rig.read(5, 4), Err(Error::NoCard));
    assert_eq!(rig.direct.card(), None);
    rig.up();
    assert_eq!(rig.read(5, 4).unwrap(), before);

    let rig = spi("sdhc-16g-hs");
    rig.up();
    exchange(&rig, "sdxc-64g-a2");
    let before = rig.peek(5, 4);
    assert_eq!(rig.write(5, filled(4, 0x55)), Err(Error::Changed));
    assert_eq!(rig.peek(5, 4), before);
}

/// Tests a future that is dropped at each of its polls: the next call gets the card, and right data.
#[test]
fn a_dropped_call_leaves_a_card_that_works() {
    for card in ["sdhc-16g-hs", "emmc-cache"] {
        for polls in 1..12 {
            for writes in [false, true] {
                let rig = native(card);
                rig.up();
                assert_eq!(rig.write(0, filled(64, 1)), Ok(()));
                let call = async |buf| match writes {
                    true => rig.direct.write(0, buf).await.0,
                    false => rig.direct.read(0, buf).await.0,
                };
                {
                    let mut future = Box::pin(call(filled(64, 2)));
                    let mut context = Context::from_waker(Waker::noop());
                    for _ in 0..polls {
                        if future.as_mut().poll(&mut context).is_ready() {
                            break;
                        }
                        assert_eq!(rig.drive(rig.direct.flush()), Err(Error::Full));
                        rig.wait();
                    }
                }
                let read = rig.read(0, 64).unwrap();
                assert!(read.iter().all(|&byte| byte == 1 || writes && byte == 2), "{card} {polls}");
                assert_eq!(rig.write(0, filled(64, 3)), Ok(()));
                assert!(rig.peek(0, 64).iter().all(|&byte| byte == 3));
                assert!(rig.is_good());
            }
        }
    }
}

/// Tests a flush: it writes the cache of an eMMC, and reports a loss of the cache once.
#[test]
fn a_flush_writes_the_cache_and_reports_its_loss() {
    let rig = native("emmc-cache");
    rig.up();
    let sent = |rig: &Rig<Native, AnyCard>| rig.slot.borrow().stats().commands[6];
    let before = sent(&rig);
    assert_eq!(rig.write(0, filled(8, 1)), Ok(()));
    assert_eq!(rig.timed(|card| card.flush()).0, Ok(()));
    assert_eq!(sent(&rig), before + 1);
    // The supply dips: the next call initialises the card, and the cache has lost its content.
    assert_eq!(rig.write(8, filled(8, 2)), Ok(()));
    rig.faults(Plan::none().next(Point::Command, &[Strike::BrownOut]));
    assert!(rig.read(0, 1).is_ok());
    assert_eq!(rig.timed(|card| card.flush()).0, Err(Error::CacheLost));
    assert_eq!(rig.timed(|card| card.flush()).0, Ok(()));

    let options = Options::DEFAULT.cache(false);
    rig.timed(|card| card.bring_up(options)).0.unwrap();
    let before = sent(&rig);
    assert_eq!(rig.write(8, filled(8, 2)), Ok(()));
    assert_eq!(rig.timed(|card| card.flush()).0, Ok(()));
    assert_eq!(sent(&rig), before);
}

#[test]
fn an_erase_is_done_in_pieces() {
    let erased = |rig: &Rig<Native, AnyCard>, lba| {
        let first = rig.peek(lba, 1)[0];
        assert!(first == 0 || first == 0xff);
        rig.peek(lba, 1).iter().all(|&byte| byte == first)
    };
    for (card, blocks) in [("sdhc-16g-hs", 20_000), ("emmc-51-full", 20_000), ("sdsc-1g", 9_000)] {
        let rig = native(card);
        rig.up();
        for lba in [99, 100, 99 + u64::from(blocks), 100 + u64::from(blocks)] {
            assert_eq!(rig.write(lba, filled(1, 0x5a)), Ok(()));
        }
        let before = rig.slot.borrow().stats().commands[38];
        assert_eq!(rig.timed(|card| card.erase(100, blocks)).0, Ok(()), "{card}");
        assert_eq!(
            rig.slot.borrow().stats().commands[38] - before,
            u64::from(blocks.div_ceil(8192)),
            "{card}"
        );
        assert!(erased(&rig, 100) && erased(&rig, 99 + u64::from(blocks)), "{card}");
        for lba in [99, 100 + u64::from(blocks)] {
            assert!(rig.peek(lba, 1).iter().all(|&byte| byte == 0x5a), "{card} {lba}");
        }
    }
}

#[test]
fn no_timing_needs_a_new_tuning() {
    for card in ["sdxc-128g-uhs", "emmc-hs200", "hbg4a2"] {
        let rig = native(card);
        rig.up();
        let tunings = [19, 21].map(|index| rig.slot.borrow().stats().commands[index]);
        assert_eq!((tunings, rig.slot.borrow().stats().commands[11]), ([0, 0], 0), "{card}");
    }
}

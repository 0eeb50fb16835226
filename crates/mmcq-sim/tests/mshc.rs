//! Tests of the whole stack on the model of the mobile storage host (DesignWare), in both register
//! layouts: bring-up, mixed loads, data by the CPU, faults, a clock unit that is missing. The
//! driver was written independently of the model.

use crate::{cases, timed};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Card as Found, Options};
use mmcq::engine::{Config, DmaBuf, Error, Kind, Request, SlotId, Stats};
use mmcq::host::mshc::{Descriptors, DesignWare, MshcConfig as Setup, MshcInitError, Smhc};
use mmcq::host::surroundings::Surrounded;
use mmcq::host::{Caps, Timing, Width};
use mmcq_sim::card::Card;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::mshc::{Board, Layout, Mshc, MshcConfig, Port};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::erased::{Erased, constants};
use timed::one_thread::NOW_NS;
use timed::{blocks as buffer, filled};

type Host = Surrounded<Smhc<Port, ShadowMemory, Board, 128>, Board>;
type Stack = timed::On<Erased<{ constants::<Host>() }>>;

struct Rig {
    time: Time,
    model: Rc<RefCell<Mshc>>,
    memory: ShadowMemory,
    stack: Stack,
}

fn setup(model: &MshcConfig) -> Setup {
    let width = if model.lines == 8 { Width::W8 } else { Width::W4 };
    Setup::new(model.source_hz.max(1))
        .max_clock_hz(208_000_000)
        .width(width)
        .high_speed(true)
        .ddr(true)
        .signal18(model.signal18)
        .signal18_fixed(model.signal18_fixed)
        .sample_delay(model.delay_step_ps != 0)
        .new_timing(model.delay_step_ps != 0)
        .fifo_words((model.layout == Layout::Smhc).then_some(model.fifo_words))
        .address_shift(model.address_shift)
        .fifo_offset((model.layout == Layout::Smhc).then_some(model.fifo_offset))
}

impl Rig {
    fn try_new(card: &str, model: MshcConfig, memory: MemoryConfig) -> Result<Rig, MshcInitError> {
        Self::with(timed::card(&timed::profile(card)), model, memory, None)
    }

    /// Returns a rig whose clock unit may be stuck at one phase.
    fn with(
        card: Box<dyn Card>,
        model: MshcConfig,
        memory: MemoryConfig,
        stuck_at: Option<u8>,
    ) -> Result<Rig, MshcInitError> {
        let time = Time::new();
        let memory = ShadowMemory::new(memory);
        let (driver, layout) = (setup(&model), model.layout);
        let model = Rc::new(RefCell::new(Mshc::new(model, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), 100, 50);
        let table = Box::leak(Box::new(Descriptors::<128>::new()));
        let board = Board { stuck_at, ..Board::new(model.clone(), time.clone()) };
        let (dma, unit) = (memory.clone(), board.clone());
        let host = match layout {
            Layout::Smhc => Erased::new(Surrounded::new(Smhc::new(port, dma, unit, table, driver)?, board)),
            Layout::DesignWare => {
                Erased::new(Surrounded::new(DesignWare::new(port, dma, unit, table, driver)?, board))
            }
        };
        NOW_NS.set(0);
        Ok(Rig { time, model, memory, stack: timed::on(host, Config::DEFAULT) })
    }

    fn new(card: &str, model: MshcConfig) -> Rig {
        Self::try_new(card, model, MemoryConfig::BITS32).unwrap_or_else(|error| panic!("{error}"))
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn found(&self) -> Result<Found, Error> {
        self.drive(card::bring_up(&self.stack, buffer(1), Options::DEFAULT)).0
    }

    fn up(card: &str, model: MshcConfig) -> (Rig, Found) {
        let rig = Rig::new(card, model);
        let found = rig.found().unwrap_or_else(|error| panic!("{card}: {error}"));
        (rig, found)
    }

    fn submit(&self, kind: Kind, buf: DmaBuf) -> SlotId {
        let now = self.time.now();
        self.stack.with(|engine| engine.submit(Request::new(kind, buf), now)).unwrap()
    }

    fn finish(&self, id: SlotId) -> (Result<u32, Error>, DmaBuf) {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return (done.result.map(|output| output.bytes), done.buf);
            }
            timed::turn(&self.stack, &self.model, &self.time).unwrap();
        }
    }

    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert_eq!(self.stack.with(|engine| engine.stats().lost_interrupts), 0);
    }

    /// Runs requests of many sizes, with many at a time, and compares the data with a copy in
    /// memory.
    fn mixed(&self, base: u64, rounds: u64) {
        const WINDOW: u64 = 4_096;
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut below = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        let mut medium = vec![0u8; WINDOW as usize];
        for at in (0..WINDOW).step_by(256) {
            let id = self.submit(Kind::Write { lba: base + at, blocks: 256 }, filled(256, 0));
            self.finish(id).0.unwrap();
        }
        let mut pending: Vec<(SlotId, Option<Vec<u8>>)> = Vec::new();
        for round in 0..rounds {
            let depth = 1 + below(6) as usize;
            let blocks = [1, 2, 8, 64, 300][below(5) as usize];
            let at = below(WINDOW - blocks);
            let range = at as usize..(at + blocks) as usize;
            let (lba, count) = (base + at, blocks as u32);
            pending.push(if below(2) == 0 {
                let byte = round as u8 | 1;
                medium[range].fill(byte);
                (self.submit(Kind::Write { lba, blocks: count }, filled(blocks as usize, byte)), None)
            } else {
                let expected = medium[range].to_vec();
                (self.submit(Kind::Read { lba, blocks: count }, buffer(blocks as usize)), Some(expected))
            });
            while pending.len() >= depth {
                let (id, expected) = pending.remove(0);
                let (result, buf) = self.finish(id);
                assert_eq!(result, Ok(buf.len() as u32));
                let same = |expected: &Vec<u8>| {
                    buf.chunks(512).zip(expected).all(|(got, &byte)| got.iter().all(|&b| b == byte))
                };
                assert!(expected.as_ref().is_none_or(same), "round {round}: other data than written");
            }
        }
        for (id, _) in pending {
            self.finish(id).0.unwrap();
        }
        self.drive(BlockDevice::new(&self.stack).flush()).unwrap();
    }
}

/// Runs a test in both layouts, and with each form of descriptors.
macro_rules! everywhere {
    ($test:ident) => {
        $test(MshcConfig::H3);
        $test(MshcConfig::A10);
        $test(MshcConfig::D1);
        $test(MshcConfig::JH7110);
        $test(MshcConfig::PCI);
    };
}

/// Runs a test on the controllers that support modes above high speed.
macro_rules! on_the_fast_ones {
    ($test:ident) => {
        $test(MshcConfig::A64);
        $test(SD_SMHC);
        $test(MshcConfig::RK3399);
    };
}

/// A port for SD cards, with a delay line for tuning.
const SD_SMHC: MshcConfig = MshcConfig { lines: 4, signal18: true, signal18_fixed: false, ..MshcConfig::A64 };

/// Returns a card that is tuned on this board, and the command that tunes it.
fn tuned_card(model: &MshcConfig) -> (&'static str, usize) {
    if model.signal18_fixed { ("emmc-hs200", 21) } else { ("sdxc-128g-uhs", 19) }
}

const EVERY_CARD: [&str; 8] = [
    "sdsc-1g",
    "sdhc-16g-hs",
    "sdxc-128g-uhs",
    "pro-plus-128",
    "emmc-4g-old",
    "emmc-hs200",
    "emmc-51-full",
    "hbg4a2",
];

fn is_emmc(card: &str) -> bool {
    card.contains("emmc") || card == "hbg4a2"
}

/// Returns the fastest timing that this card reaches on this board.
fn fastest(card: &str, model: &MshcConfig) -> Timing {
    let tuned = model.phases != 0 || model.delay_step_ps != 0;
    let low = model.signal18 || model.signal18_fixed;
    let both_edges = model.source_hz > 52_000_000;
    match card {
        "sdsc-1g" | "sdhc-16g-hs" => Timing::HighSpeed,
        "sdxc-128g-uhs" | "pro-plus-128" if !low => Timing::HighSpeed,
        "sdxc-128g-uhs" | "pro-plus-128" if tuned => Timing::Sdr104,
        "sdxc-128g-uhs" | "pro-plus-128" if both_edges => Timing::Ddr50,
        "sdxc-128g-uhs" | "pro-plus-128" => Timing::Sdr25,
        "emmc-4g-old" if both_edges => Timing::Ddr52,
        "emmc-4g-old" => Timing::HighSpeed,
        _ if tuned && low => Timing::Hs200,
        _ if both_edges => Timing::Ddr52,
        _ => Timing::HighSpeed,
    }
}

#[test]
fn cards_come_up_at_the_speed_of_the_board() {
    fn test(model: MshcConfig) {
        // A port that is wired for an eMMC cannot hold an SD card.
        for name in EVERY_CARD.into_iter().filter(|name| is_emmc(name) || !model.signal18_fixed) {
            let (rig, found) = Rig::up(name, model);
            let width = if is_emmc(name) && model.lines == 8 { Width::W8 } else { Width::W4 };
            assert_eq!((found.timing, found.width), (fastest(name, &model), width), "{name} {model:?}");
            rig.mixed(found.params.sectors / 2, 30);
            rig.checked();
        }
    }
    everywhere!(test);
    on_the_fast_ones!(test);
}

/// Checks that tuning takes a point near the middle of the eye, wherever the eye is.
#[test]
fn tuning_finds_the_middle_of_the_eye() {
    fn test(model: MshcConfig) {
        for best_phase in (0..360).step_by(30) {
            let model = MshcConfig { best_phase, ..model };
            let (card, command) = tuned_card(&model);
            let (rig, found) = Rig::up(card, model);
            assert_eq!(found.timing, fastest(card, &model), "{best_phase}");
            // The error is in percent of half a clock period. Phases are 22.5 degrees apart, which
            // is 12 %, and the error must be less. In an SMHC, a row of good taps may end at the
            // end of the delay line; the middle of the row is then not the middle of the eye, so up
            // to 30 % are allowed.
            let off = rig.model.borrow().bus().sample_error;
            let most = if model.layout == Layout::Smhc { 30 } else { 11 };
            assert!(off <= most, "{best_phase}: off by {off}");
            let taps = if model.layout == Layout::Smhc { 32 } else { 16 };
            assert_eq!(rig.model.borrow().stats().commands[command], taps + 1);
            rig.mixed(found.params.sectors / 2, 20);
            rig.checked();
        }
    }
    on_the_fast_ones!(test);
}

#[test]
fn a_speed_that_fails_ends_in_a_slower_card() {
    let rig = |card: &str, faults: Plan, stuck_at: Option<u8>| {
        let mut card = timed::card(&timed::profile(card));
        card.set_faults(Faults::new(faults));
        let memory = MemoryConfig::BITS32;
        Rig::with(card, MshcConfig::RK3399, memory, stuck_at).unwrap()
    };
    // The card refuses CMD11, or holds its lines low after it.
    for (point, strike) in [(Point::Voltage, Strike::Fail), (Point::Voltage, Strike::Never)] {
        let rig = rig("sdxc-128g-uhs", Plan::none().next(point, &[strike; 60]), None);
        let found = rig.found().unwrap_or_else(|error| panic!("{strike:?}: {error}"));
        assert_eq!(found.timing, Timing::HighSpeed, "{strike:?}");
        assert!(!rig.model.borrow().bus().signal18);
        rig.mixed(found.params.sectors / 2, 20);
        timed::checked(&rig.memory, &rig.model);
    }
    // No phase is good, since the clock unit is stuck at the other side of the eye.
    for (card, timing) in [("sdxc-128g-uhs", Timing::Ddr50), ("emmc-hs200", Timing::Ddr52)] {
        let rig = rig(card, Plan::none(), Some(12));
        let found = rig.found().unwrap();
        assert_eq!(found.timing, timing, "{card}");
        rig.mixed(found.params.sectors / 2, 20);
        rig.checked();
    }
}

/// Checks that SDR50 (100 MHz) is tuned, too.
#[test]
fn sdr50_is_tuned() {
    fn test(model: MshcConfig) {
        let rig = Rig::new("sdxc-128g-uhs", model);
        let options = Options::DEFAULT.without(Caps::timing_bit(Timing::Sdr104));
        let found = rig.drive(card::bring_up(&rig.stack, buffer(1), options)).0.unwrap();
        assert_eq!(found.timing, Timing::Sdr50);
        let model = rig.model.borrow();
        assert_eq!(model.bus().clock_hz, 100_000_000);
        assert!(model.stats().commands[19] > 16, "{}", model.stats().commands[19]);
        drop(model);
        rig.mixed(found.params.sectors / 2, 20);
        rig.checked();
    }
    test(SD_SMHC);
    test(MshcConfig::RK3399);
}

/// Checks that a tap whose tuning block is lost or damaged counts as bad, and that tuning goes on.
#[test]
fn tuning_goes_round_what_is_lost() {
    fn test(model: MshcConfig) {
        let (card, _) = tuned_card(&model);
        for strike in [Strike::Crc, Strike::Lost, Strike::EndBit, Strike::Fail] {
            let rig = Rig::new(card, model);
            let faults = Faults::new(Plan::none().next(Point::Tuning, &[strike; 3]));
            rig.model.borrow_mut().set_faults(faults.clone());
            let found = rig.found().unwrap_or_else(|error| panic!("{strike:?}: {error}"));
            assert_eq!(faults.struck().len(), 3);
            assert_eq!(found.timing, fastest(card, &model), "{strike:?}");
            rig.mixed(found.params.sectors / 2, 20);
            timed::checked(&rig.memory, &rig.model);
        }
    }
    on_the_fast_ones!(test);
}

#[test]
fn mixed_loads_bring_what_was_written() {
    fn test(model: MshcConfig) {
        for card in ["sdhc-16g-hs", "emmc-hs200", "sdsc-1g"] {
            if model.signal18_fixed && !is_emmc(card) {
                continue;
            }
            let (rig, found) = Rig::up(card, model);
            rig.mixed(found.params.sectors / 2, cases::rounds(3, 300));
            rig.checked();
            let stats = rig.stack.with(|engine| *engine.stats());
            assert_eq!(stats.faults, if card == "sdsc-1g" { 2 } else { stats.faults }, "{stats:?}");
        }
    }
    everywhere!(test);
    on_the_fast_ones!(test);
}

/// Checks that the CPU moves registers of the card that are shorter than a cache line.
#[test]
fn short_data_go_by_the_cpu() {
    fn test(model: MshcConfig) {
        let memory = MemoryConfig { line: 128, ..MemoryConfig::BITS32 };
        let rig = Rig::try_new("sdhc-16g-hs", model, memory).unwrap();
        let found = rig.found().unwrap();
        assert_eq!(found.timing, Timing::HighSpeed);
        rig.checked();
    }
    everywhere!(test);
}

/// Checks reads by the CPU through the largest FIFO: once the data have ended, no interrupt comes
/// for the words in it.
#[test]
fn a_large_fifo_is_emptied_by_the_cpu() {
    let memory = MemoryConfig { line: 4096, ..MemoryConfig::BITS32 };
    let model = MshcConfig { fifo_words: 1024, ..MshcConfig::RK3399 };
    let rig = Rig::try_new("sdhc-16g-hs", model, memory).unwrap();
    rig.found().unwrap();
    // Eight blocks are a whole cache line, which DMA moves.
    for blocks in (1..=13).filter(|blocks| blocks % 8 != 0) {
        let id = rig.submit(Kind::Write { lba: 77, blocks }, filled(blocks as usize, 0x5a));
        rig.finish(id).0.unwrap();
        let (result, buf) = rig.finish(rig.submit(Kind::Read { lba: 77, blocks }, buffer(blocks as usize)));
        assert_eq!(result, Ok(512 * blocks));
        assert!(buf.iter().all(|&byte| byte == 0x5a), "{blocks} blocks");
    }
    rig.checked();
}

/// Checks one fault at a time, in the middle of a load: the engine recovers, and all data are
/// right.
#[test]
fn faults_are_recovered_from() {
    fn test(model: MshcConfig) {
        let strikes = [
            (Point::Command, Strike::Lost),
            (Point::Response, Strike::Lost),
            (Point::Response, Strike::Crc),
            (Point::Response, Strike::Index),
            (Point::Response, Strike::EndBit),
            (Point::ReadBlock, Strike::Crc),
            (Point::ReadBlock, Strike::EndBit),
            (Point::ReadBlock, Strike::Lost),
            (Point::ReadBlock, Strike::Late(700_000_000)),
            (Point::WriteBlock, Strike::Crc),
            (Point::WriteBlock, Strike::NoStatus),
            (Point::WriteBlock, Strike::Lost),
            (Point::AutoCommand, Strike::Lost),
            (Point::AutoCommand, Strike::Crc),
            (Point::Interrupt, Strike::Lost),
            (Point::Dma, Strike::Fail),
            (Point::Dma, Strike::Never),
        ];
        for (turn, (point, strike)) in strikes.into_iter().enumerate() {
            for &nth in cases::one_of(turn, &[3, 20, 41]) {
                let (rig, found) = Rig::up("sdsc-1g", model);
                let faults = Faults::new(Plan::none().shot(point, nth, strike));
                rig.model.borrow_mut().set_faults(faults.clone());
                let before = rig.stack.with(|engine| *engine.stats());
                rig.mixed(found.params.sectors / 2, 60);
                assert_eq!(faults.struck().len(), 1);
                let after = rig.stack.with(|engine| *engine.stats());
                let seen = |stats: &Stats| {
                    stats.faults + stats.lost_interrupts + stats.recovery_steps.iter().sum::<u64>()
                };
                assert!(seen(&after) > seen(&before), "{point:?} {strike:?} {nth}: {after:?}");
                assert_eq!(rig.memory.violations(), Vec::<String>::new(), "{point:?} {strike:?}");
                assert_eq!(rig.model.borrow().protocol_violations(), 0, "{point:?} {strike:?} {nth}");
            }
        }
    }
    everywhere!(test);
}

#[test]
fn a_card_that_is_taken_out_is_gone() {
    fn test(model: MshcConfig) {
        let (rig, found) = Rig::up("sdhc-16g-hs", model);
        let id = rig.submit(Kind::Read { lba: found.params.sectors / 2, blocks: 64 }, buffer(64));
        timed::step(&rig.stack, &rig.model, &rig.time).unwrap();
        let now = rig.time.now();
        rig.model.borrow_mut().remove(now);
        assert!(rig.finish(id).0.is_err());
        // An SMHC does not report whether a card is there, so the engine tries for longer.
        let longest = if model.layout == Layout::Smhc { 30_000_000_000 } else { 2_000_000_000 };
        assert!(rig.time.now() - now < longest, "{}", rig.time.now() - now);
    }
    everywhere!(test);
}

#[test]
fn nothing_there_and_a_missing_clock_are_one_error_in_bounded_time() {
    fn test(model: MshcConfig) {
        let gone = MshcConfig { bus_clock: false, ..model };
        let error = Rig::try_new("sdsc-1g", gone, MemoryConfig::BITS32).err();
        assert_eq!(error, Some(MshcInitError::Gone));
        let rig = Rig::new("sdsc-1g", MshcConfig { source_hz: 0, ..model });
        let error = rig.found().unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        assert!(rig.time.now() < 3_000_000_000, "{error} after {} ns", rig.time.now());
        // The card is removed while it is used.
        let (rig, found) = Rig::up("sdhc-16g-hs", model);
        rig.model.borrow_mut().set_faults(Faults::new(Plan::none().next(Point::Command, &[Strike::Gone])));
        let id = rig.submit(Kind::Read { lba: found.params.sectors / 2, blocks: 8 }, buffer(8));
        let from = rig.time.now();
        let error = rig.finish(id).0.unwrap_err();
        assert!(error.to_string().contains("controller"), "{error}");
        assert!(rig.time.now() - from < 3_000_000_000);
    }
    everywhere!(test);
}

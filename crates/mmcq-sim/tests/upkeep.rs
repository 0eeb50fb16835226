//! Tests of what the supervisor does for cards without faults: exceptions and background work of
//! eMMC, tuning before drift does damage, and what a new initialisation must keep.

use crate::rig;
use mmcq::block::{BlockDevice, Partition};
use mmcq::card::maintain::Urgency;
use mmcq::card::partition::Area;
use mmcq::card::{self, Event, Exception, Options, Upkeep, Worker, extension};
use mmcq::engine::{Error, FlushBy, RecoveryStep};
use mmcq::host::{Caps, Timing};
use mmcq_sim::card::Quirks;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use rig::{Rig, buffer, quirky};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const MS: u64 = 1_000_000;
/// Index of the byte BKOPS_EN in EXT_CSD.
const BKOPS_EN: u16 = 163;
/// Index of the byte HPI_FEATURES in EXT_CSD.
const HPI_FEATURES: u16 = 503;

fn with(upkeep: Upkeep) -> Options {
    Options::DEFAULT.upkeep(Box::leak(Box::new(upkeep)))
}

fn every(retune_every_ns: Option<u64>) -> Options {
    with(Upkeep::DEFAULT.retune_every_ns(retune_every_ns))
}

/// Returns an eMMC that asks for background work after this many MiB; `enabled` is its value of
/// BKOPS_EN in EXT_CSD.
fn urgent(mib: u64, enabled: u8, options: Options, more: impl FnOnce(&mut Quirks)) -> Rig {
    let card = quirky("emmc-51-full", |quirks| {
        quirks.urgent_after_mib = Some(mib);
        quirks.ext_csd.push((BKOPS_EN, enabled));
        more(quirks);
    });
    Rig::built(card, true, SdhciConfig::GENERIC_4_20, options)
}

/// Runs a future while the supervisor runs.
fn run<F: Future>(rig: &Rig, future: F) -> F::Output {
    let mut future = pin!(future);
    for _ in 0..1_000_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        rig.turn();
    }
    panic!("never ends");
}

/// Writes this many MiB without a pause. Returns how long that took, in ns.
fn fill(rig: &Rig, mib: u64) -> u64 {
    let begin = rig.time.now();
    for n in 0..2 * mib {
        assert!(rig.one(rig.write(1024 * (n % 64), 1024, n as u8)).result.is_ok());
    }
    rig.time.now() - begin
}

fn exceptions(rig: &Rig) -> Vec<(u16, Urgency, Worker)> {
    let of = |event: &Event| match event {
        Event::Exception { exception, .. } => (exception.events, exception.urgency, exception.worker),
        other => panic!("{other:?}"),
    };
    rig.events.borrow().iter().map(of).collect()
}

#[test]
fn urgent_background_work_is_done_when_no_request_waits() {
    let rig = urgent(4, 1, Options::DEFAULT, |_| {});
    rig.keep();
    fill(&rig, 5);
    assert_eq!(rig.stats().background_works, 0, "not while there is work");
    let told = (Exception::BACKGROUND, Urgency::Impacted, Worker::Supervisor);
    assert_eq!(exceptions(&rig), [told]);
    rig.until(rig.time.now() + 500 * MS);
    assert_eq!(rig.stats().background_works, 1);
    // The device asks for background work a second time.
    fill(&rig, 5);
    rig.until(rig.time.now() + 2_000 * MS);
    assert_eq!((rig.stats().background_works, exceptions(&rig)), (2, vec![told, told]));
    // Afterwards nothing is left to do, so the engine has no deadline.
    assert_eq!(rig.stack.with(|engine| engine.next_deadline_ns()), None);
    assert_eq!(rig.taken(RecoveryStep::Classify), 0);
    rig.checked();
}

#[test]
fn a_neglected_card_becomes_slow_and_a_kept_one_does_not() {
    let takes = |supervisor: bool| {
        let rig = urgent(4, 1, Options::DEFAULT, |_| {});
        if supervisor {
            rig.keep();
        }
        fill(&rig, 5);
        rig.until(rig.time.now() + 500 * MS);
        let takes = fill(&rig, 2);
        rig.checked();
        takes
    };
    // Times of four writes, with and without background work before them.
    let (kept, neglected) = (takes(true), takes(false));
    assert!(kept + 4 * MS < neglected, "{kept} {neglected}");
}

#[test]
fn a_new_request_interrupts_background_work() {
    let rig = urgent(4, 1, Options::DEFAULT, |_| {});
    rig.keep();
    fill(&rig, 5);
    // The moment is in the middle of the background work, which takes 100 ms.
    rig.until(rig.time.now() + 60 * MS);
    let begin = rig.time.now();
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    let took = rig.time.now() - begin;
    assert!((MS..6 * MS).contains(&took), "{took}");
    assert_eq!(rig.stats().background_works, 0);
    // The rest of the work is done later, without another request for it by the device.
    rig.until(rig.time.now() + 500 * MS);
    assert_eq!(rig.stats().background_works, 1);
    assert_eq!(exceptions(&rig).len(), 1);
    assert_eq!(rig.taken(RecoveryStep::Classify), 0);
    rig.checked();
}

/// Checks a supervisor that is dropped in the middle of the work, by a program that waits for
/// several things at once and makes a new supervisor: no request is held up.
#[test]
fn a_supervisor_that_leaves_in_the_middle_of_the_work_holds_no_request_up() {
    let rig = urgent(4, 1, Options::DEFAULT, |_| {});
    rig.keep();
    fill(&rig, 5);
    rig.until(rig.time.now() + 60 * MS);
    rig.leave();
    let begin = rig.time.now();
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    let took = rig.time.now() - begin;
    assert!((MS..8 * MS).contains(&took), "{took}");
    assert_eq!(rig.stats().background_works, 0);
    // The next supervisor does the rest of the work. At most the card's status was asked before,
    // since the card was still stopping its work.
    rig.keep();
    rig.until(rig.time.now() + 500 * MS);
    assert_eq!((rig.stats().background_works, rig.taken(RecoveryStep::Reinit)), (1, 0));
    assert!(rig.taken(RecoveryStep::Classify) <= 1);
    rig.checked();
}

#[test]
fn without_an_interrupt_it_waits_until_it_is_critical() {
    for (features, worker) in [(0, Worker::None), (1, Worker::Supervisor)] {
        let rig = urgent(4, 1, Options::DEFAULT, |quirks| quirks.ext_csd.push((HPI_FEATURES, features)));
        rig.keep();
        fill(&rig, 5);
        assert_eq!(exceptions(&rig)[0].2, worker);
        rig.until(rig.time.now() + 500 * MS);
        assert_eq!(rig.stats().background_works, u64::from(features), "{worker:?}");
    }
}

/// Checks a card for which a request always waits: the background work is still done, and no
/// request waits longer than one slice of this work.
#[test]
fn a_busy_card_is_looked_after_in_time() {
    let rig = urgent(4, 1, Options::DEFAULT, |_| {});
    rig.keep();
    let begin = rig.time.now();
    let mut longest = 0;
    let mut n = 0;
    while rig.time.now() - begin < 12_000 * MS {
        let since = rig.time.now();
        let ids = [rig.write(8 * n, 1024, 1), rig.read(100_000, 8)];
        for done in rig.finish(&ids, 2_000 * MS) {
            assert!(done.result.is_ok());
        }
        longest = longest.max(rig.time.now() - since);
        n = (n + 1) % 64;
    }
    assert!(rig.stats().background_works > 0);
    assert!(longest < 700 * MS, "{longest}");
    assert!(exceptions(&rig).iter().all(|told| told.2 == Worker::Supervisor));
    rig.checked();
}

#[test]
fn a_device_that_works_by_itself_is_left_alone() {
    for (enabled, worker) in [(0, Worker::None), (2, Worker::Device)] {
        let rig = urgent(4, enabled, Options::DEFAULT, |_| {});
        rig.keep();
        fill(&rig, 7);
        rig.until(rig.time.now() + 3_000 * MS);
        fill(&rig, 1);
        // The device goes on showing its exception bit and is asked twice, but an exception that is
        // known is reported once.
        assert_eq!(exceptions(&rig).iter().map(|told| told.2).collect::<Vec<_>>(), [worker]);
        assert_eq!(rig.stats().background_works, 0);
        rig.checked();
    }
}

#[test]
fn a_used_up_pool_is_told_to_those_who_asked() {
    for exceptions_asked in [false, true] {
        let options = with(Upkeep::DEFAULT.exceptions(exceptions_asked));
        let card = quirky("emmc-51-full", |quirks| quirks.pool_mib = Some(2));
        let rig = Rig::built(card, true, SdhciConfig::GENERIC_4_20, options);
        rig.keep();
        fill(&rig, 4);
        let told = (Exception::POOL, Urgency::None, Worker::None);
        assert_eq!(exceptions(&rig), if exceptions_asked { vec![told] } else { vec![] });
        rig.checked();
    }
}

#[test]
fn the_bit_means_nothing_on_an_sd_card() {
    let rig = Rig::new("sdhc-16g-hs");
    rig.faults(Plan::none().from(Point::Response, 1, Strike::Status(1 << 6)));
    for n in 0..20 {
        assert!(rig.one(rig.read(100 * n, 8)).result.is_ok());
    }
    rig.until(rig.time.now() + 2_000 * MS);
    assert_eq!((exceptions(&rig), rig.taken(RecoveryStep::Classify)), (vec![], 0));
    assert_eq!(rig.ills.borrow().heard.len(), 20);
}

/// Reads at random for this many ms, one read each 5 ms. Returns how many reads were damaged.
fn drifting(rig: &Rig, for_ms: u64) -> u64 {
    let (begin, before) = (rig.time.now(), rig.stats().faults);
    let mut lba = 0;
    while rig.time.now() - begin < for_ms * MS {
        lba = (lba + 7919) % 100_000;
        assert!(rig.one(rig.read(lba, 8)).result.is_ok());
        rig.until(rig.time.now() + 5 * MS);
    }
    rig.stats().faults - before
}

#[test]
fn tuning_is_renewed_before_drift_breaks_it() {
    let generic = SdhciConfig::GENERIC_4_20;
    // By its capabilities the controller wants tuning each second, and without it reads are damaged
    // after two seconds.
    let config = SdhciConfig { drift_per_s: 20, capabilities1: generic.capabilities1 | 1 << 8, ..generic };
    for (name, emmc, timing) in
        [("sdxc-128g-uhs", false, Timing::Sdr104), ("emmc-hs200", true, Timing::Hs200)]
    {
        let build = |options| {
            let rig = Rig::built(rig::card(name), emmc, config, options);
            assert_eq!(rig.found.timing, timing);
            rig.keep();
            rig
        };
        // With this setting the supervisor tunes only after a damaged read.
        let rig = build(every(Some(0)));
        assert!(drifting(&rig, 6_000) >= 2, "{name}");
        assert!(rig.taken(RecoveryStep::Retune) > 0);
        // The interval is that of the controller's capabilities, or that of the options.
        for (time, expected) in [(None, 6..=8), (Some(500 * MS), 12..=15)] {
            let rig = build(every(time));
            assert_eq!(rig.stack.with(|engine| engine.retune_ns()), 1_000 * MS);
            assert_eq!(drifting(&rig, 6_000), 0, "{name}");
            assert_eq!((rig.taken(RecoveryStep::Retune), rig.taken(RecoveryStep::Classify)), (0, 0));
            let tunings = rig.stats().tunings;
            assert!(expected.contains(&tunings), "{name}: {tunings}");
            // A card that is not used is tuned at most once.
            rig.until(rig.time.now() + 20_000 * MS);
            assert!(rig.stats().tunings <= tunings + 1);
            assert_eq!(rig.stack.with(|engine| engine.next_deadline_ns()), None);
            // The next read finds the card tuned.
            assert_eq!(drifting(&rig, 1), 0, "{name}");
            rig.checked();
        }
    }
}

/// Checks HS400, which is tuned by way of HS200, with and without the capability DDR50: between the
/// two the card is in DDR at a slow clock, where only commands are sent.
#[test]
fn hs400_is_tuned_on_a_controller_without_ddr50() {
    let generic = SdhciConfig::GENERIC_4_20;
    for ddr50 in [1 << 2, 0] {
        let config = SdhciConfig { capabilities1: generic.capabilities1 & !(1 << 2) | ddr50, ..generic };
        let options = every(Some(500 * MS)).without(Caps::timing_bit(Timing::Hs400Es));
        let rig = Rig::built(rig::card("emmc-51-full"), true, config, options);
        assert_eq!(rig.found.timing, Timing::Hs400);
        rig.keep();
        assert_eq!(drifting(&rig, 2_000), 0);
        assert!((3..=5).contains(&rig.stats().tunings), "{}", rig.stats().tunings);
        assert_eq!(rig.taken(RecoveryStep::Slower) + rig.taken(RecoveryStep::Reinit), 0, "{:?}", rig.trace());
        let bus = *rig.model.borrow().bus();
        assert_eq!((bus.ddr, bus.clock_hz), (true, 200_000_000));
        rig.checked();
    }
}

/// Checks a card that always has a request behind the one on the bus: it is tuned in time.
#[test]
fn a_busy_card_is_tuned_in_time() {
    let config = SdhciConfig { drift_per_s: 20, ..SdhciConfig::GENERIC_4_20 };
    let options = every(Some(1_000 * MS));
    let rig = Rig::built(rig::card("sdxc-128g-uhs"), false, config, options);
    rig.keep();
    let begin = rig.time.now();
    let mut waiting = rig.read(0, 64);
    let mut lba = 0;
    while rig.time.now() - begin < 5_000 * MS {
        lba = (lba + 7919) % 100_000;
        let next = rig.read(lba, 64);
        assert!(rig.one(std::mem::replace(&mut waiting, next)).result.is_ok());
    }
    assert_eq!(rig.stats().faults, 0);
    assert!((4..=6).contains(&rig.stats().tunings), "{}", rig.stats().tunings);
    rig.checked();
}

#[test]
fn modes_without_tuning_need_none() {
    let options = every(Some(100 * MS));
    for name in ["sdhc-16g-hs", "hbg4a2"] {
        let rig = Rig::with(name, options);
        drifting(&rig, 1_000);
        assert_eq!(rig.stats().tunings, 0, "{name}: {:?}", rig.found.timing);
    }
}

/// Makes the card lose its state at its next command, so that it is initialised again.
fn reinitialised(rig: &Rig) {
    let before = rig.taken(RecoveryStep::Reinit);
    rig.ills.borrow_mut().brown_out = true;
    assert_eq!(rig.one(rig.read(0, 8)).result.map(|_| ()), Ok(()), "{:?}", rig.trace());
    assert_eq!(rig.taken(RecoveryStep::Reinit), before + 1, "{:?}", rig.trace());
}

#[test]
fn the_cache_of_an_sd_card_is_on_again() {
    let rig = Rig::alone("sdxc-64g-a2", Options::DEFAULT);
    run(&rig, extension::enable_cache(rig.stack, &rig.found, buffer(1, 0))).unwrap();
    let by = |rig: &Rig| rig.stack.with(|engine| engine.card_params().unwrap().flush);
    let before = by(&rig);
    assert!(matches!(before, FlushBy::SdCache { .. }));
    rig.keep();
    assert!(rig.one(rig.write(8, 8, 1)).result.is_ok());
    assert!(rig.one(rig.flush()).result.is_ok());
    for _ in 0..2 {
        reinitialised(&rig);
        assert_eq!(by(&rig), before);
        // The card's register shows the cache on, too: with the cache off nothing could be lost.
        assert!(rig.one(rig.write(8, 8, 1)).result.is_ok());
        assert!(rig.one(rig.flush()).result.is_ok());
        assert!(rig.one(rig.write(16, 8, 1)).result.is_ok());
        rig.ills.borrow_mut().brown_out = true;
        assert!(rig.one(rig.read(0, 8)).result.is_ok());
        assert_eq!(rig.one(rig.flush()).result, Err(Error::CacheLost));
    }
    rig.checked();
}

#[test]
fn an_emmc_is_as_its_options_say() {
    for cache in [true, false] {
        let options = with(Upkeep::DEFAULT.exceptions(true)).cache(cache);
        let card = quirky("emmc-51-full", |quirks| quirks.pool_mib = Some(2));
        let rig = Rig::built(card, true, SdhciConfig::GENERIC_4_20, options);
        rig.keep();
        reinitialised(&rig);
        let by = rig.stack.with(|engine| engine.card_params().unwrap().flush);
        assert_eq!(matches!(by, FlushBy::EmmcCache { .. }), cache);
        fill(&rig, 3);
        assert_eq!(exceptions(&rig).len(), 1, "the exceptions that were asked for are enabled again");
        rig.checked();
    }
}

/// Checks that no data go to the wrong partition, whichever command of an access to another
/// partition is the one at which the card loses its state.
#[test]
fn a_visit_that_is_begun_again_goes_there_again() {
    for nth in 1..12 {
        let rig = Rig::alone("emmc-hs200", Options::DEFAULT.cache(false));
        let (equipped, scratch) = run(&rig, card::enable_extended_ops(rig.stack, &rig.found, buffer(1, 0)));
        equipped.unwrap();
        let disk = BlockDevice::new(rig.stack);
        run(&rig, disk.write(5, buffer(8, 0x11))).0.unwrap();
        let (there, _) = run(&rig, Partition::open(rig.stack, &rig.found, scratch, Area::General(1)));
        let there = there.unwrap();
        run(&rig, disk.flush()).unwrap();
        rig.keep();
        let at = rig.ills.borrow().commands + nth;
        rig.ills.borrow_mut().brown_out_at = Some(at);
        let (written, _) = run(&rig, there.write(5, buffer(8, 0x22)));
        let (user, buf) = run(&rig, disk.read(5, buffer(8, 0)));
        user.unwrap();
        assert!(buf.iter().all(|&byte| byte == 0x11), "command {nth}: the user area has {:#x}", buf[0]);
        if written.is_ok() {
            let (read, buf) = run(&rig, there.read(5, buffer(8, 0)));
            read.unwrap();
            assert!(buf.iter().all(|&byte| byte == 0x22), "command {nth}");
        }
        rig.checked();
    }
}

#[test]
fn a_supervisor_of_one_card_brings_no_other_up() {
    let options = with(Upkeep::DEFAULT.same_card(true));
    let rig = Rig::with("sdhc-16g-hs", options);
    rig.ills.borrow_mut().swap = Some(rig::card("sdsc-1g"));
    assert_eq!(rig.one(rig.write(0, 8, 0xaa)).result, Err(Error::Changed));
    assert!(matches!(rig.events.borrow()[..], [Event::Changed(_)]));
    assert_eq!(rig.stack.with(|engine| engine.card_params().copied()), None);
}

/// Checks one lost or damaged response during background work: the work goes on, and no card is
/// reset for it.
#[test]
fn a_lost_response_during_background_work_costs_nothing() {
    for strike in [Strike::Lost, Strike::Crc] {
        for nth in 1..6 {
            let rig = urgent(4, 1, Options::DEFAULT, |_| {});
            rig.keep();
            fill(&rig, 5);
            rig.until(rig.time.now() + 60 * MS);
            rig.faults(Plan::none().shot(Point::Response, nth, strike));
            rig.until(rig.time.now() + 20 * MS);
            assert!(rig.one(rig.write(0, 8, 1)).result.is_ok());
            rig.until(rig.time.now() + 2_000 * MS);
            let steps = (rig.taken(RecoveryStep::Reset), rig.taken(RecoveryStep::Reinit));
            assert_eq!(steps, (0, 0), "{strike:?} {nth}: {:?}", rig.trace());
            assert_eq!((rig.stats().cache_lost, rig.stats().background_works), (0, 1), "{strike:?} {nth}");
            rig.checked();
        }
    }
}

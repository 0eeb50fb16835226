//! Tests each fault of the catalogue on the whole stack, once early in bring-up and once in a load:
//! a request may get an error, but none waits for ever, and the controller never accesses memory
//! that was taken back.

use crate::{cases, machine};
use machine::{Rig, buffer};
use mmcq::card;
use mmcq::host::sdhci;
use mmcq_sim::faults::catalogue::{Injection, entries};
use mmcq_sim::faults::{Faults, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;

/// Brings a card up and runs a load. The fault strikes the nth event of its point: in the load if
/// `in_load` is set, otherwise in the bring-up or after it. Returns how often the fault struck.
fn run(injection: &Injection, nth: u64, in_load: bool) -> usize {
    let plan = || {
        let plan = injection.plan(nth).expect("a strike");
        // A reset happens only after another fault, so one is added.
        let resets = injection.aim().is_some_and(|(point, _)| point == Point::Reset);
        Faults::new(if resets { plan.shot(Point::Response, 5, Strike::Crc) } else { plan })
    };
    let rig = Rig::new("sdxc-128g-uhs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let mut faults = plan();
    if !in_load {
        rig.model.borrow_mut().set_faults(faults.clone());
    }
    let found = rig.try_drive(card::bring_up(&rig.stack, buffer(1), card::Options::DEFAULT));
    let found = found.unwrap_or_else(|error| panic!("{}: bring-up: {error}", injection.name)).0;
    let Ok(found) = found else { return hits(&faults, injection) };
    if in_load {
        faults = plan();
        rig.model.borrow_mut().set_faults(faults.clone());
    }
    if let Err(error) = rig.load(found.params.sectors, 20) {
        for stuck in ["nothing will ever happen", "no end after", "left the interrupt asserted"] {
            assert!(!error.contains(stuck), "{}: {error}", injection.name);
        }
        let silent = matches!(injection.aim(), Some((_, Strike::Flip(_))));
        assert!(silent || !error.contains("something else"), "{}: {error}", injection.name);
    }
    assert_eq!(rig.memory.violations(), Vec::<String>::new(), "{} at {nth}", injection.name);
    hits(&faults, injection)
}

/// Returns how often this injection struck.
fn hits(faults: &Faults, injection: &Injection) -> usize {
    let aim = injection.aim();
    faults.struck().iter().filter(|shot| aim == Some((shot.point, shot.strike))).count()
}

#[test]
fn no_strike_hangs_the_stack_or_lets_dma_go_astray() {
    // Excludes points that belong to the card and not to this controller.
    let ours = |point: Point| {
        !matches!(point, Point::Busy | Point::Cache | Point::Function | Point::Medium | Point::PowerUp)
            && !point.is_of_queue()
            && !point.is_of_spi()
    };
    let mut tried = 0;
    for injection in entries().flat_map(|entry| entry.injections) {
        let Some((point, _)) = injection.aim() else { continue };
        if !ours(point) {
            continue;
        }
        let hits: usize = cases::some(2, [(1, false), (4, false), (1, true), (9, true)])
            .map(|(nth, load)| run(injection, nth, load))
            .sum();
        assert!(hits > 0, "{} never struck", injection.name);
        tried += 1;
    }
    assert!(tried > 40, "{tried}");
}

//! Tests of a controller reset that forgets the sampling point: the reset does not count against
//! the card's mode, and tuning follows before data move again.

use crate::rig;
use mmcq::card::Options;
use mmcq::engine::{DmaBuf, Kind, RecoveryStep, Request};
use mmcq::host::{Auto, Phase, Timing};
use mmcq::spec::command;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use rig::Rig;

const CARDS: [&str; 4] = ["emmc-hs200", "emmc-51-full", "sdxc-128g-uhs", "sdhc-16g-hs"];

fn kept(name: &str, always_powered: bool) -> Rig {
    let config = SdhciConfig { always_powered, ..SdhciConfig::GENERIC_4_20 };
    let options = Options::DEFAULT.cache(true);
    let rig = Rig::built(rig::card(name), name.contains("emmc"), config, options);
    rig.keep();
    for i in 0..4 {
        rig.one(rig.write(1000 * i, 8, 1)).result.unwrap();
    }
    rig
}

/// Returns faults: one at this point, and then a reset of the lines that hangs, so that the whole
/// controller is reset.
fn hung_after(point: Point) -> Plan {
    Plan::none().next(Point::Reset, &[Strike::Status(2)]).next(point, &[Strike::Crc])
}

#[test]
fn one_damaged_block_and_a_reset_that_hangs_do_not_cost_the_clock() {
    for name in CARDS {
        for always_powered in [false, true] {
            let rig = kept(name, always_powered);
            let clock_hz = rig.model.borrow().bus().clock_hz;
            let id = rig.read(0, 8);
            rig.faults(hung_after(Point::ReadBlock));
            let what = format!("{name}, always powered {always_powered}");
            assert_eq!(rig.one(id).result.map(|done| done.bytes), Ok(4096), "{what}: {:?}", rig.trace());
            assert_eq!(rig.model.borrow().bus().clock_hz, clock_hz, "{what}: {:?}", rig.trace());
            assert_eq!(
                rig.taken(RecoveryStep::Slower) + rig.taken(RecoveryStep::PowerCycle),
                0,
                "{what}: {:?}",
                rig.trace()
            );
            // If the controller switches the supply, its reset also switches off the supply.
            let again = u64::from(!always_powered);
            assert_eq!(rig.taken(RecoveryStep::Reinit), again, "{what}: {:?}", rig.trace());
            let cached = name.contains("emmc");
            assert_eq!(rig.stats().cache_lost, again * u64::from(cached), "{what}");
            let tuned = matches!(rig.found.timing, Timing::Hs200 | Timing::Sdr104);
            assert_eq!(rig.taken(RecoveryStep::Retune), u64::from(tuned), "{what}: {:?}", rig.trace());
            rig.checked();
        }
    }
}

/// Checks that no data move at the old sampling point between the reset and the tuning.
#[test]
fn no_data_go_at_a_point_that_is_lost() {
    for name in ["emmc-hs200", "sdxc-128g-uhs"] {
        let rig = kept(name, true);
        let id = rig.read(0, 8);
        rig.faults(hung_after(Point::ReadBlock));
        rig.one(id).result.unwrap();
        let steps: Vec<_> = rig.trace().into_iter().map(|(_, step)| step).collect();
        let at = |step| steps.iter().position(|&found| found == step);
        assert!(at(RecoveryStep::Reset) < at(RecoveryStep::Retune), "{name}: {steps:?}");
        assert_eq!(at(RecoveryStep::Retry), None, "{name}: {steps:?}");
    }
}

/// Checks a client that sends its own phase and resets the controller itself: the next read notices
/// that the sampling point is lost.
#[test]
fn a_reset_in_a_phase_of_the_callers_is_followed_by_a_tuning_too() {
    for name in ["emmc-hs200", "sdxc-128g-uhs"] {
        let rig = kept(name, true);
        let phase = Phase {
            command: command::send_status(rig.found.params.rca),
            data: None,
            auto: Auto::None,
            tuning: false,
        };
        let raw = Kind::Raw { prefix: None, phase, timeout_ns: 1_000_000 };
        rig.faults(hung_after(Point::Response));
        let id = rig.submit(Request::new(raw, DmaBuf::EMPTY));
        assert!(rig.one(id).result.is_err());
        assert_eq!(rig.taken(RecoveryStep::Reset), 1);
        assert_eq!(rig.one(rig.read(0, 8)).result.map(|done| done.bytes), Ok(4096));
        assert_eq!(
            (rig.stats().tunings, rig.taken(RecoveryStep::Classify)),
            (1, 0),
            "{name}: {:?}",
            rig.trace()
        );
    }
}

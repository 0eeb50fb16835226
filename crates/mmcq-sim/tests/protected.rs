//! Tests of writes to a protected part of a card: they fail with their own error, and other
//! requests are not affected.

use crate::rig;
use mmcq::card::Options;
use mmcq::engine::{Error, RecoveryStep};
use mmcq_sim::sdhci::SdhciConfig;
use rig::Rig;

/// First block of the protected mebibyte.
const PROTECTED: u64 = 2048;

fn protected(name: &str) -> Rig {
    let card = rig::quirky(name, |quirks| quirks.protected_mib = vec![(1, 1)]);
    Rig::built(card, name.starts_with("emmc"), SdhciConfig::GENERIC_4_20, Options::DEFAULT)
}

fn each(test: impl Fn(&Rig, &str)) {
    for name in ["sdhc-16g-hs", "emmc-hs200"] {
        test(&protected(name), name);
    }
}

#[test]
fn a_write_to_a_protected_part_gets_its_own_error_and_no_flush_tells_of_it() {
    each(|rig, name| {
        for blocks in [1, 8] {
            let begin_ns = rig.time.now();
            let done = rig.one(rig.write(PROTECTED + 64, blocks, 1));
            assert_eq!(done.result.err(), Some(Error::Protected), "{name} {:?}", rig.trace());
            // The controller waits for data that the card does not accept, which ends at one
            // deadline.
            assert!(rig.time.now() - begin_ns < 4_000_000_000, "{name}: {:?}", rig.trace());
            assert!(rig.one(rig.flush()).result.is_ok(), "{name}: nothing was lost");
        }
        assert_eq!((rig.taken(RecoveryStep::Reset), rig.taken(RecoveryStep::Reinit)), (0, 0), "{name}");
        assert!(rig.one(rig.write(0, 8, 2)).result.is_ok(), "{name}");
        rig.checked();
    });
}

#[test]
fn writes_beside_a_refused_one_are_well() {
    each(|rig, name| {
        // Both writes are submitted together, one directly behind the other.
        for (well, refused) in [(PROTECTED - 8, PROTECTED), (16, PROTECTED + 160)] {
            let ids =
                [rig.write(500, 1, 3), rig.write(well, 8, 3), rig.write(refused, 8, 4), rig.write(9, 1, 3)];
            let results = rig.finish(&ids, 60_000_000_000);
            let errors: Vec<_> = results.into_iter().map(|done| done.result.err()).collect();
            assert_eq!(errors, [None, None, Some(Error::Protected), None], "{name} {:?}", rig.trace());
            assert!(rig.one(rig.flush()).result.is_ok(), "{name}: nothing was lost");
        }
        rig.checked();
    });
}

#[test]
fn a_write_that_runs_into_a_protected_part_is_refused() {
    each(|rig, name| {
        let done = rig.one(rig.write(PROTECTED - 4, 8, 1));
        assert_eq!(done.result.err(), Some(Error::Protected), "{name} {:?}", rig.trace());
        assert!(rig.one(rig.write(PROTECTED - 4, 4, 2)).result.is_ok(), "{name}");
        rig.checked();
    });
}

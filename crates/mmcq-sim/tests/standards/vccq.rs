//! Tests of an eMMC whose VCCQ is a rail of 1.8 V.

use super::heard::Heard;
use super::machine::{Rig, storage_card};
use mmcq::card::Options;
use mmcq::host::{Timing, sdhci};
use mmcq_sim::sdhci::SdhciConfig;

#[test]
fn lines_fixed_at_1_8_v_are_never_asked_for_3_3() {
    for (name, best) in [("hbg4a2", Timing::Hs400Es), ("emmc-hs200", Timing::Hs200)] {
        let model = SdhciConfig { signal18_fixed: true, ..SdhciConfig::GENERIC_4_20 };
        let driver = sdhci::SdhciConfig::emmc_18().quirks(sdhci::SdhciQuirks::FIXED_18);
        let (card, log) = Heard::around(storage_card(name), None);
        let rig = Rig::with_card(card, model, driver, 0).unwrap();
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(found.timing, best);
        assert!(log.borrow().buses.iter().all(|bus| bus.signal18), "{name}");
        rig.mixed_load(found.params.sectors, 40);
        rig.checked();
    }
}

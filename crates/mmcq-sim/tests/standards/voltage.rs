//! Tests that the voltage switch ends with all four lines high, or counts as failed [SD 4.2.4.2],
//! [SDHC 3.6.1].

use super::machine::Rig;
use mmcq::card::{Family, Options};
use mmcq::host::{Timing, sdhci};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;

/// Checks a line that stays low after the voltage switch: if it happens once, the second try
/// succeeds; if it stays, the card is used at 3.3 V.
#[test]
fn a_line_that_stays_low_ends_the_voltage_switch_at_3_3_v() {
    let once = |line| (Plan::none().shot(Point::Voltage, 1, Strike::Line(line)), 1);
    let always = |line| (Plan::none().from(Point::Voltage, 1, Strike::Line(line)), 2);
    for line in 0..4 {
        for ((plan, strikes), expected) in
            [(once(line), (Timing::Sdr104, true)), (always(line), (Timing::HighSpeed, false))]
        {
            let rig = Rig::new("sdxc-128g-uhs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
            let faults = Faults::new(plan);
            rig.model.borrow_mut().card_mut().unwrap().set_faults(faults.clone());
            let found = rig.bring_up(Options::DEFAULT).unwrap();
            assert_eq!(faults.struck().len(), strikes, "DAT{line}");
            let Family::Sd(sd) = found.family else { panic!("an SD card") };
            assert_eq!((found.timing, sd.signal18), expected, "DAT{line}");
            rig.mixed_load(found.params.sectors, 20);
            rig.checked();
        }
    }
}

//! Tests of POWER_CLASS of an eMMC [eMMC 6.6.3].

use super::heard::{Heard, Log};
use super::machine::{Rig, storage_card};
use mmcq::card::{Card as Found, Options};
use mmcq::host::{Caps, Timing, Width, sdhci};
use mmcq_sim::card::{BusState, Card, ReadBlock, Reply, Violation, WriteBlock};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use std::cell::RefCell;
use std::rc::Rc;

const NAME: &str = "emmc-power-class";
const POWER_CLASS: u32 = 187;
const HS_TIMING: u32 = 185;

/// Brings the card up and uses it. Returns how often data moved at a mode that needs more than the
/// selected power class.
fn used(card: Box<dyn Card>, options: Options) -> (Found, usize, Rc<RefCell<Log>>) {
    let (card, log) = Heard::around(card, None);
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::with_card(card, model, sdhci::SdhciConfig::emmc_18(), 0).unwrap();
    let found = rig.bring_up(options).unwrap();
    rig.mixed_load(found.params.sectors, 40);
    rig.checked();
    let too_much = rig.model.borrow_mut().card_mut().unwrap().violations().len();
    (found, too_much, log)
}

/// Returns the bytes of EXT_CSD that CMD6 wrote (index and value), in order.
fn written(log: &Rc<RefCell<Log>>) -> Vec<(u32, u32)> {
    log.borrow().arguments(6).into_iter().map(|arg| (arg >> 16 & 0xff, arg >> 8 & 0xff)).collect()
}

fn class_of(log: &Rc<RefCell<Log>>) -> Vec<u32> {
    written(log).into_iter().filter(|&(byte, _)| byte == POWER_CLASS).map(|(_, class)| class).collect()
}

fn without(timings: &[Timing]) -> Options {
    let without = timings.iter().fold(0, |bits, &timing| bits | Caps::timing_bit(timing));
    Options::DEFAULT.without(without)
}

#[test]
fn each_timing_and_width_gets_the_class_that_it_needs() {
    use Timing::{Ddr52, HighSpeed, Hs200, Hs400, Hs400Es, Legacy};
    let four = |options: Options| options.max_width(Width::W4);
    for (options, mode, class) in [
        (Options::DEFAULT, (Hs400Es, Width::W8), 8),
        // HS400 is reached through HS200, which needs a higher class.
        (without(&[Hs400Es]), (Hs400, Width::W8), 9),
        (without(&[Hs400Es, Hs400]), (Hs200, Width::W8), 9),
        (four(Options::DEFAULT), (Hs200, Width::W4), 6),
        (without(&[Hs400Es, Hs400, Hs200]), (Ddr52, Width::W8), 5),
        (four(without(&[Hs400Es, Hs400, Hs200])), (Ddr52, Width::W4), 3),
        (without(&[Hs400Es, Hs400, Hs200, Ddr52]), (HighSpeed, Width::W8), 3),
        (without(&[Hs400Es, Hs400, Hs200, Ddr52, HighSpeed]), (Legacy, Width::W8), 2),
    ] {
        let (found, too_much, log) = used(storage_card(NAME), options);
        assert_eq!((found.timing, found.width), mode);
        assert_eq!((class_of(&log), too_much), (vec![class], 0), "{mode:?}");
        // The class is selected before the mode is used.
        let first = |byte| written(&log).iter().position(|&(written, _)| written == byte);
        assert!(first(HS_TIMING).is_none_or(|timing| first(POWER_CLASS).unwrap() < timing), "{mode:?}");
    }
}

#[test]
fn a_class_of_0_is_not_written() {
    let one = Options::DEFAULT.max_width(Width::W1);
    for (name, options) in [(NAME, one), ("emmc-51-full", Options::DEFAULT)] {
        let (_, too_much, log) = used(storage_card(name), options);
        assert_eq!((class_of(&log), too_much), (vec![], 0), "{name}");
    }
}

/// A card that refuses to change its power class.
struct Refusing(Box<dyn Card>);

impl Card for Refusing {
    fn bus_changed(&mut self, bus: &BusState, now_ns: u64) {
        self.0.bus_changed(bus, now_ns);
    }

    fn command(&mut self, index: u8, arg: u32, now_ns: u64) -> Reply {
        // The card sets SWITCH_ERROR, as a device does for a byte that must not be written.
        let refused = index == 6 && arg >> 16 & 0xff == POWER_CLASS;
        self.0.command(index, if refused { arg | 0xff << 16 } else { arg }, now_ns)
    }

    fn read_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        self.0.read_block(buffer, now_ns)
    }

    fn write_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        self.0.write_block(data, crc_ok, now_ns)
    }

    fn busy(&self, now_ns: u64) -> bool {
        self.0.busy(now_ns)
    }

    fn switching_voltage(&self, now_ns: u64) -> bool {
        self.0.switching_voltage(now_ns)
    }

    fn violations(&self) -> &[Violation] {
        self.0.violations()
    }
}

#[test]
fn a_device_that_refuses_its_class_is_used_all_the_same() {
    let (found, too_much, log) = used(Box::new(Refusing(storage_card(NAME))), Options::DEFAULT);
    assert_eq!((found.timing, found.width), (Timing::Hs400Es, Width::W8));
    assert_eq!(class_of(&log), [8]);
    // This proves that the model counts such data.
    assert!(too_much > 0);
}

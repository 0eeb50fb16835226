//! Tests of the current that a UHS-I card may draw, and of its driver strength: function groups 4
//! and 3 [SD 4.3.10], XPC [SD 4.2.3.1], Maximum Current Capabilities [SDHC 2.2.26].

use super::heard::Heard;
use super::machine::{Rig, storage_card};
use mmcq::card::{Options, Strength};
use mmcq::host::{Caps, Timing, sdhci};
use mmcq_sim::sdhci::SdhciConfig;

/// Result of a bring-up, and the settings that the stack sent to the card.
struct Told {
    timing: Timing,
    /// The XPC bit in the argument of the last ACMD41.
    xpc: bool,
    /// Function that CMD6 set in group 3 (driver strength); 15: the group was never set.
    strength: u32,
    /// Function that CMD6 set in group 4 (current limit); 15: the group was never set.
    limit: u32,
}

fn told(register_ma: u32, board_ma: u16, options: Options) -> Told {
    told_to("sdxc-128g-uhs", register_ma, board_ma, options)
}

fn told_to(name: &str, register_ma: u32, board_ma: u16, options: Options) -> Told {
    let (card, log) = Heard::around(storage_card(name), None);
    // The register's currents for the other voltages are large, and must not matter.
    let model = SdhciConfig { max_current: 0x00ff_ff00 | (register_ma / 4), ..SdhciConfig::GENERIC_4_20 };
    let driver = sdhci::SdhciConfig::new().supply_ma(board_ma);
    let rig = Rig::with_card(card, model, driver, 0).unwrap();
    let found = rig.bring_up(options).unwrap();
    rig.mixed_load(found.params.sectors, 20);
    rig.checked();
    let log = log.borrow();
    let set = |group: u32| {
        let named = log.arguments(6).into_iter().filter(|arg| arg >> 31 == 1);
        named.map(|arg| arg >> (4 * (group - 1)) & 0xf).rfind(|&function| function != 0xf).unwrap_or(15)
    };
    Told {
        timing: found.timing,
        xpc: log.arguments(41).last().unwrap() >> 28 & 1 == 1,
        strength: set(3),
        limit: set(4),
    }
}

#[test]
fn the_current_limit_is_what_the_host_gives() {
    for (register_ma, limit) in
        [(0, 0), (200, 0), (396, 0), (400, 1), (600, 2), (796, 2), (800, 3), (1020, 3)]
    {
        let told = told(register_ma, 0, Options::DEFAULT);
        assert_eq!((told.timing, told.limit), (Timing::Sdr104, limit), "{register_ma} mA");
    }
    // The board's value replaces that of a register that reads 0 or too much.
    assert_eq!(told(0, 600, Options::DEFAULT).limit, 2);
    assert_eq!(told(1020, 400, Options::DEFAULT).limit, 1);
}

/// Checks a supply of 500 mA: 1.80 W, function 4, lies between functions 1 and 2. A card of
/// specification 3.0x does not have function 4.
#[test]
fn a_supply_of_500_ma_is_used_where_the_card_has_that_limit() {
    for (register_ma, limit, older) in
        [(396, 0, 0), (496, 1, 1), (500, 4, 1), (596, 4, 1), (600, 2, 2), (796, 2, 2), (800, 3, 3)]
    {
        for (name, limit) in [("sdxc-64g-a2", limit), ("sdxc-128g-uhs", older)] {
            let told = told_to(name, register_ma, 0, Options::DEFAULT);
            assert_eq!((told.timing, told.limit), (Timing::Sdr104, limit), "{name}, {register_ma} mA");
        }
    }
    // Here the board reports the current itself.
    assert_eq!(told_to("sdxc-64g-a2", 0, 500, Options::DEFAULT).limit, 4);
    assert_eq!(told_to("sdxc-64g-a2", 1020, 599, Options::DEFAULT).limit, 4);
}

#[test]
fn slow_modes_stay_at_the_default_limit() {
    let without =
        [Timing::Sdr104, Timing::Sdr50, Timing::Ddr50].iter().fold(0, |bits, &t| bits | Caps::timing_bit(t));
    let told = told(800, 0, Options::DEFAULT.without(without));
    assert_eq!((told.timing, told.limit), (Timing::Sdr25, 0));
}

#[test]
fn full_power_at_the_start_is_promised_by_those_that_have_it() {
    for (register_ma, xpc) in [(148, false), (152, true), (800, true), (0, true)] {
        assert_eq!(told(register_ma, 0, Options::DEFAULT).xpc, xpc, "{register_ma} mA");
    }
}

#[test]
fn a_board_chooses_the_strength_of_the_card_s_drivers() {
    let strength = |strength| told(200, 0, Options::DEFAULT.strength(strength)).strength;
    assert_eq!(strength(Strength::Ohm50), 0);
    assert_eq!(strength(Strength::Ohm33), 1);
    assert_eq!(strength(Strength::Ohm100), 3);
    // 40 ohm exists only for eMMC.
    assert_eq!(strength(Strength::Ohm40), 0);
}

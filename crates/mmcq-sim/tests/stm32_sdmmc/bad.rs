//! Tests of wrong board settings: each gives one error that names the setting, in bounded time.

use super::{Chip, Rig};
use crate::timed;
use mmcq::card;
use mmcq::engine::Error;
use mmcq_sim::stm32_sdmmc::Stm32SdmmcConfig;

fn refused<const PIECES: usize>(chip: Chip) -> String {
    let card = timed::card(&timed::profile("sdhc-16g-hs"));
    Rig::built::<PIECES>(Some(card), chip).err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn a_wrong_profile_is_named() {
    let h7 = Chip::of(Stm32SdmmcConfig::H7);
    let u5 = Chip::of(Stm32SdmmcConfig::U5);
    let off = Stm32SdmmcConfig { bus_clock: false, ..Stm32SdmmcConfig::H7 };
    assert_eq!(
        refused::<1>(Chip::of(off)),
        "stm32_sdmmc: registers read as all ones, expected a controller with its clock on"
    );
    assert_eq!(
        refused::<8>(h7),
        "stm32_sdmmc: IDMABAR does not hold what is written, expected a controller with a list, or Pieces<1>"
    );
    assert_eq!(
        refused::<8>(Chip { driver: u5.driver.piece_bytes(1000), ..u5 }),
        "stm32_sdmmc: piece_bytes 1000, expected a multiple of 64 from 512 to 65536 that IDMABSIZE holds"
    );
    // This controller's list entries have sizes of 13 bits.
    let short = Stm32SdmmcConfig { size_mask: 0x1fe0, ..Stm32SdmmcConfig::U5 };
    assert_eq!(
        refused::<8>(Chip { driver: u5.driver.piece_bytes(16_384), ..Chip::of(short) }),
        "stm32_sdmmc: piece_bytes 16384, expected a multiple of 64 from 512 to 65536 that IDMABSIZE holds"
    );
    assert_eq!(refused::<8>(Chip::of(short)), "");
    let dark = mmcq::host::stm32_sdmmc::Stm32SdmmcConfig::new(0);
    assert_eq!(
        refused::<1>(Chip { driver: dark, ..h7 }),
        "stm32_sdmmc: kernel_hz 0 with max_clock_hz 25000000, expected at least kernel_hz / 2046"
    );
    // The DMA cannot reach the memory of the list.
    assert_eq!(
        refused::<1>(Chip { driver: h7.driver.dma_window((0x2400_0000, 0x2407_ffff)), ..h7 }),
        "stm32_sdmmc: list of pieces and bounce buffer: the controller cannot reach the memory"
    );
}

/// Checks that a bring-up that cannot succeed ends in time: the clock tree does not deliver the
/// kernel clock, there is no card, or the controller disappears.
#[test]
fn a_bring_up_that_cannot_be_ends_in_time() {
    let h7 = Chip::of(Stm32SdmmcConfig::H7);
    let stopped = Chip { model: Stm32SdmmcConfig { kernel_hz: 0, ..Stm32SdmmcConfig::H7 }, ..h7 };
    for (chip, present) in [(stopped, true), (h7, false)] {
        for resets in [true, false] {
            let card = present.then(|| timed::card(&timed::profile("sdhc-16g-hs")));
            let rig = Rig::new::<1>(card, Chip { resets, ..chip });
            let error = rig.bring_up(card::Options::DEFAULT).unwrap_err();
            println!("{present} {resets}: {error}, {} ms", rig.time.now() / 1_000_000);
            assert!(rig.time.now() < 20_000_000_000, "{error}: {} ns", rig.time.now());
            assert_ne!(error, Error::Unsupported);
            assert!(rig.memory.violations().is_empty());
        }
    }
}

/// Checks that registers that read as ones from some access on are reported.
#[test]
fn a_controller_that_goes_is_told() {
    use mmcq_sim::faults::{Plan, Point, Strike};
    for nth in [1, 2, 5, 9, 14] {
        let rig =
            Rig::new::<1>(Some(timed::card(&timed::profile("sdhc-16g-hs"))), Chip::of(Stm32SdmmcConfig::H7));
        rig.faults(Plan::none().shot(Point::Command, nth, Strike::Gone));
        let error = rig.bring_up(card::Options::DEFAULT).unwrap_err();
        println!("{nth}: {error}, {} ms", rig.time.now() / 1_000_000);
        assert!(rig.time.now() < 20_000_000_000, "{error}: {} ns", rig.time.now());
    }
}

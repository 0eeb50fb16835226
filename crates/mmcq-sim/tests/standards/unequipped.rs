//! Tests that erase and discard, without an earlier call of `enable_extended_ops`, return an error
//! that names this function.

use super::machine::{Rig, buffer};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::engine::Error;
use mmcq::host::sdhci;
use mmcq_sim::sdhci::SdhciConfig;

#[test]
fn an_erase_before_equip_says_what_to_call() {
    let rig = Rig::new("sdxc-128g-uhs", SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    let device = BlockDevice::new(&rig.stack);
    assert_eq!(rig.drive(device.erase(0, 8192)), Err(Error::Unequipped));
    assert_eq!(rig.drive(device.discard(0, 8192)), Err(Error::Unequipped));
    assert!(Error::Unequipped.to_string().contains("card::enable_extended_ops"));
    // Zeroes can be written without it.
    rig.drive(device.write_zeroes(64, 8, buffer(8))).0.unwrap();
    rig.drive(card::enable_extended_ops(&rig.stack, &found, buffer(1))).0.unwrap();
    assert_eq!(rig.drive(device.erase(0, 8192)), Ok(()));
    rig.checked();
}

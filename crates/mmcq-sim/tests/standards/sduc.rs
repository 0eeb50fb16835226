//! Tests of a card of 4 TB: HO2T, CSD version 3, CMD22 [SD 4.2.3, 4.20, 5.3.4].

use super::heard::Heard;
use super::machine::{Rig, buffer, storage_card};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::host::{Timing, sdhci};
use mmcq_sim::sdhci::SdhciConfig;

const BLOCKS: u64 = 3_815_424 * 2048;

#[test]
fn blocks_beyond_2_32_are_written_read_and_erased() {
    let (card, log) = Heard::around(storage_card("sduc-4t"), None);
    let rig = Rig::with_card(card, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new(), 0).unwrap();
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!((found.params.sectors, found.timing), (BLOCKS, Timing::Sdr104));
    assert!(found.params.extended_address && BLOCKS > 1 << 32);
    let device = BlockDevice::new(&rig.stack);
    let places = [5, (1 << 32) + 5, (1 << 32) - 4, BLOCKS - 8];
    let fill = |place: usize| 0x10 + place as u8;
    for (place, &lba) in places.iter().enumerate() {
        let mut data = buffer(8);
        data.fill(fill(place));
        let (written, _) = rig.drive(device.write(lba, data));
        assert_eq!(written, Ok(8), "{lba:#x}");
    }
    for (place, &lba) in places.iter().enumerate() {
        let (read, data) = rig.drive(device.read(lba, buffer(8)));
        assert_eq!(read, Ok(8));
        // The third write ends where the second begins, four blocks further on.
        assert!(data.iter().all(|&byte| byte == fill(place)), "{lba:#x}");
    }
    assert!(log.borrow().arguments(22).contains(&1));
    let (equipped, _) = rig.drive(card::enable_extended_ops(&rig.stack, &found, buffer(1)));
    equipped.unwrap();
    rig.drive(device.erase((1 << 32) + 5, 8)).unwrap();
    let erased = rig.drive(device.read((1 << 32) + 5, buffer(8))).1;
    assert!(erased.iter().all(|&byte| byte != fill(1)));
    let kept = rig.drive(device.read(5, buffer(8))).1;
    assert!(kept.iter().all(|&byte| byte == fill(0)), "the blocks with the same lower 32 bits");
    rig.mixed_load(BLOCKS, 40);
    rig.checked();
}

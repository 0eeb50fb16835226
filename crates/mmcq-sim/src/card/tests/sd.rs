//! Tests of SD cards: transfers, CMD6, tuning, erase, password lock.

use super::host::Host;
use super::{medium, profile};
use crate::card::{Card, ReadBlock, SdCard};

pub(super) fn card(file: &str, uhs: bool) -> Host<SdCard> {
    let profile = profile(file);
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(uhs);
    host
}

#[test]
fn counted_transfers_end_by_themselves() {
    let mut host = card("sdxc-128g-uhs", false);
    host.ok(23, 3);
    host.ok(25, 50);
    assert_eq!(host.card.state(host.now_ns) as u32, 6);
    host.transmit(&[1; 512 * 3]);
    assert_eq!(host.state(), 4);
    // The card ignores further data, and CMD12 is illegal now: no response, and ILLEGAL_COMMAND in
    // the next R1.
    assert_eq!(host.card.write_block(&[0; 512], true, host.now_ns).status, None);
    host.silent(12, 0);
    assert_eq!(host.status(), 0x0040_0900);
    assert_eq!(host.status(), 0x0000_0900);

    host.ok(23, 3);
    host.ok(18, 50);
    assert_eq!(host.receive(3), [1; 512 * 3]);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    assert_eq!(host.state(), 4);
    // The count of CMD23 applies only to the next command.
    host.ok(23, 1);
    host.ok(17, 50);
    host.receive(1);
    host.ok(18, 50);
    host.receive(5);
    assert_eq!(host.state(), 5);
    host.ok(12, 0);
    assert_eq!(host.state(), 4);
}

#[test]
fn cmd23_where_there_is_none() {
    let mut host = card("sdhc-16g-hs", false);
    host.silent(23, 8);
    host.ok_after_illegal();
}

#[test]
fn reading_past_the_end() {
    let mut host = card("sdhc-16g-hs", false);
    let sectors = (host.card.medium().bytes() / 512) as u32;
    host.ok(18, sectors - 2);
    host.receive(2);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    let stopped = host.short(12, 0);
    assert_eq!((stopped >> 31, stopped >> 9 & 0xf), (1, 5), "OUT_OF_RANGE in data");
    assert_eq!(host.status(), 0x900);
    // The first block is already beyond the end: the card responds and sends no data.
    assert_eq!(host.short(17, sectors), 0x8000_0900);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    assert_eq!(host.status(), 0x900);
    // A write over the end of the card stores the blocks before the end.
    host.ok(25, sectors - 1);
    assert_eq!(host.give(&[6; 512]).status, Some(true));
    assert_eq!(host.give(&[6; 512]).status, None);
    assert_eq!(host.short(12, 0) >> 31, 1);
    host.wait_busy();
    host.app(22, 0);
    assert_eq!(host.receive(1), [0, 0, 0, 1]);
}

#[test]
fn a_card_that_reads_ahead_complains_at_its_end() {
    let path = format!("{}/cards/sdhc-16g-hs.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.replace("cmd23 = false", "cmd23 = false\nearly_out_of_range = true");
    let profile = crate::card::CardProfile::from_toml(&text, "early").unwrap();
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.bring_up_sd(false);
    host.ok(18, (profile.capacity_bytes() / 512 - 2) as u32);
    host.receive(2);
    assert_eq!(host.short(12, 0) >> 31, 1);
    host.ok(18, 0);
    host.receive(2);
    assert_eq!(host.short(12, 0) >> 31, 0);
}

#[test]
fn a_bad_crc_is_told_and_nothing_is_stored() {
    let mut host = card("sdhc-16g-hs", false);
    let before = {
        host.ok(18, 10);
        let data = host.receive(3);
        host.ok(12, 0);
        data
    };
    host.ok(25, 10);
    assert_eq!(host.give(&[8; 512]).status, Some(true));
    host.wait(1000);
    assert_eq!(host.card.write_block(&[8; 512], false, host.now_ns).status, Some(false));
    // After a CRC error the card ignores further blocks until CMD12.
    assert_eq!(host.give(&[8; 512]).status, None);
    assert_eq!(host.state(), 6);
    host.ok(12, 0);
    host.app(22, 0);
    assert_eq!(host.receive(1), [0, 0, 0, 1]);
    host.ok(18, 10);
    let after = host.receive(3);
    host.ok(12, 0);
    assert_eq!(after[..512], [8; 512]);
    assert_eq!(after[512..], before[512..]);
}

#[test]
fn byte_addresses_of_sdsc() {
    let mut host = card("sdsc-1g", false);
    host.ok(24, 512 * 7);
    host.transmit(&(0..=511u32).map(|n| n as u8).collect::<Vec<_>>());
    // The address is not a multiple of the block length: ADDRESS_ERROR, no data.
    assert_eq!(host.short(17, 512 * 7 + 1), 0x4000_0900);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    // A read of a shorter block may start anywhere inside a block.
    host.ok(16, 16);
    host.ok(17, 512 * 7 + 100);
    assert_eq!(host.receive(1), (100..116).collect::<Vec<u8>>());
    assert_eq!(host.short(17, 512 * 7 + 500), 0x4000_0900);
    host.ok(18, 512 * 7);
    assert_eq!(host.receive(3), (0..48).collect::<Vec<u8>>());
    host.ok(12, 0);
    // A write of a shorter block is refused.
    assert_eq!(host.short(24, 512 * 7), 0x2000_0900);
    assert_eq!(host.short(16, 513), 0x2000_0900);
    assert_eq!(host.short(16, 0), 0x2000_0900);
    host.ok(16, 512);
    host.ok(24, 0);
    host.transmit(&[0; 512]);
}

#[test]
fn high_speed_by_cmd6() {
    let mut host = card("sdhc-16g-hs", false);
    let check = host.sd_switch(0x00ff_fff1);
    assert_eq!(check.len(), 64);
    assert_eq!((check[12], check[13]), (0x80, 0x03), "functions of group 1");
    assert_eq!((check[16], check[17]), (0x01, 1));
    assert!(u16::from_be_bytes([check[0], check[1]]) > 0);
    // The check mode of CMD6 changed nothing: 50 MHz is still too fast.
    host.set(|bus| bus.clock_hz = 50_000_000);
    host.silent(13, host.rca << 16);
    host.set(|bus| bus.clock_hz = 25_000_000);
    let switched = host.sd_switch(0x80ff_fff1);
    assert_eq!(switched[16], 0x01);
    host.set(|bus| bus.clock_hz = 50_000_000);
    assert_eq!(host.state(), 4);
    host.ok(17, 0);
    host.receive(1);
    // Function 3 does not exist: the status has 0xf and no current, and nothing changes.
    let refused = host.sd_switch(0x80ff_fff3);
    assert_eq!((refused[16] & 0xf, refused[0], refused[1]), (0xf, 0, 0));
    assert_eq!(host.state(), 4);
    // The CSD shows the new speed.
    host.silent(7, 0);
    assert_eq!(host.long(9, host.rca << 16)[3], 0x5a);
}

#[test]
fn a_switch_needs_its_whole_block_and_eight_clocks() {
    let mut host = card("sdhc-16g-hs", false);
    host.short(6, 0x80ff_fff1);
    let mut block = [0u8; 64];
    let start_ns = host.now_ns;
    assert_eq!(host.card.read_block(&mut block, start_ns), ReadBlock::At { start_ns, crc_ok: true });
    // The new function works after 128 clocks of data and the 8 clocks that the standard demands,
    // 40 ns each.
    host.now_ns = start_ns + (128 + 8) * 40 - 1;
    host.set(|bus| bus.clock_hz = 50_000_000);
    assert_eq!(host.card.command(13, host.rca << 16, host.now_ns).answer, None);
    assert!(host.card.command(13, host.rca << 16, host.now_ns + 1).answer.is_some());
}

#[test]
fn uhs_modes() {
    for (function, hz, ddr) in
        [(1, 50_000_000, false), (2, 100_000_000, false), (3, 208_000_000, false), (4, 50_000_000, true)]
    {
        let mut host = card("sdxc-128g-uhs", true);
        let status = host.sd_switch(0x80ff_1ff0 | function);
        assert_eq!((status[12], status[13]), (0x80, 0x1f));
        assert_eq!(status[16] & 0xf, function as u8);
        assert_eq!(status[15] >> 4, 1, "400 mA");
        host.set(|bus| (bus.clock_hz, bus.ddr) = (hz, ddr));
        host.ok(24, 5);
        host.transmit(&[function as u8; 512]);
        host.ok(17, 5);
        assert_eq!(host.receive(1), [function as u8; 512]);
        host.short(19, 0);
        let block = host.receive(1);
        assert_eq!((block[0], block[1], block[62], block[63]), (0xff, 0x0f, 0x7b, 0xde));
        // With one hertz more, the card does not understand commands.
        host.set(|bus| bus.clock_hz += 1);
        host.silent(13, host.rca << 16);
    }
}

#[test]
fn a_wrong_bus_spoils_data() {
    let mut host = card("sdxc-128g-uhs", true);
    host.sd_switch(0x80ff_fff3);
    host.set(|bus| bus.clock_hz = 208_000_000);
    let mut buffer = [0u8; 512];
    for spoil in [
        |bus: &mut crate::card::BusState| bus.width = 1,
        |bus: &mut crate::card::BusState| bus.ddr = true,
        |bus: &mut crate::card::BusState| bus.sample_error = 50,
    ] {
        let good = host.bus;
        host.set(spoil);
        host.ok(17, 0);
        assert!(matches!(host.block(&mut buffer), ReadBlock::At { crc_ok: false, .. }));
        host.ok(24, 0);
        assert_eq!(host.give(&buffer).status, Some(false));
        host.set(|bus| *bus = good);
        assert_eq!(host.state(), 4);
    }
    // With a very wrong sampling point the host also loses responses; the tuning block shows it.
    host.set(|bus| bus.sample_error = 90);
    assert_eq!(host.send(13, host.rca << 16).answer, None);
    host.short(19, 0);
    assert!(matches!(host.block(&mut buffer[..64]), ReadBlock::At { crc_ok: false, .. }));
    host.set(|bus| bus.sample_error = 10);
    host.short(19, 0);
    assert!(matches!(host.block(&mut buffer[..64]), ReadBlock::At { crc_ok: true, .. }));
}

#[test]
fn erase_in_order() {
    let mut host = card("sdxc-128g-uhs", false);
    host.ok(25, 100);
    host.transmit(&[0xee; 512 * 4]);
    host.ok(12, 0);
    host.ok(32, 101);
    host.ok(33, 102);
    host.ok(38, 0);
    host.ok(18, 100);
    let data = host.receive(4);
    host.ok(12, 0);
    assert_eq!(data[..512], [0xee; 512]);
    assert_eq!(data[512..1536], [0; 1024]);
    assert_eq!(data[1536..], [0xee; 512]);
    // Erase commands in a wrong order.
    assert_eq!(host.short(33, 5) >> 28 & 1, 1);
    assert_eq!(host.status(), 0x900);
    assert_eq!(host.short(38, 0) >> 28 & 1, 1);
    // Another command between the erase commands.
    host.ok(32, 1);
    assert_eq!(host.short(16, 512) >> 13 & 1, 1, "ERASE_RESET");
    assert_eq!(host.short(33, 1) >> 28 & 1, 1);
    // The end of the erase range is before its start.
    host.ok(32, 9);
    host.ok(33, 3);
    assert_eq!(host.short(38, 0) >> 27 & 1, 1, "ERASE_PARAM");
}

#[test]
fn a_password_survives_the_power() {
    let mut host = card("sdhc-16g-hs", false);
    let block = |head: &[u8]| {
        let mut block = [0u8; 512];
        block[..head.len()].copy_from_slice(head);
        block
    };
    host.ok(42, 0);
    host.transmit(&block(&[1, 3, b'k', b'e', b'y']));
    assert_eq!(host.status(), 0x900);
    host.power_off();
    host.power_up();
    host.silent(0, 0);
    host.bring_up_locked();
    assert_eq!(host.status(), 0x0200_0900);
    host.silent(17, 0);
    assert_eq!(host.status(), 0x0240_0900);
    host.short(42, 0);
    host.transmit(&block(&[0, 3, b'k', b'e', b'x']));
    assert_eq!(host.status() >> 24 & 3, 3, "still locked, and failed");
    host.short(42, 0);
    host.transmit(&block(&[0, 3, b'k', b'e', b'y']));
    assert_eq!(host.status(), 0x900);
    host.ok(17, 0);
}

#[test]
fn the_csd_may_be_changed_where_it_may() {
    let mut host = card("sdhc-16g-hs", false);
    host.silent(7, 0);
    let mut csd = host.long(9, host.rca << 16);
    host.ok(7, host.rca << 16);
    let good = csd;
    csd[5] ^= 1;
    host.ok(27, 0);
    host.transmit(&csd);
    assert_eq!(host.status() >> 16 & 1, 1, "CSD_OVERWRITE");
    // A CSD with TMP_WRITE_PROTECT, and its CRC computed by long division.
    let mut csd = good;
    csd[14] |= 0x10;
    let mut rest: u128 = csd[..15].iter().fold(0, |rest, byte| rest << 8 | u128::from(*byte)) << 7;
    for bit in (7..127).rev() {
        if rest >> bit & 1 == 1 {
            rest ^= 0x89 << (bit - 7);
        }
    }
    csd[15] = (rest as u8) << 1 | 1;
    host.ok(27, 0);
    host.transmit(&csd);
    assert_eq!(host.status(), 0x900);
    assert_eq!(host.short(24, 0) >> 26 & 1, 1, "WP_VIOLATION");
    host.silent(7, 0);
    assert_eq!(host.long(9, host.rca << 16), csd);
}

impl Host<SdCard> {
    fn ok_after_illegal(&mut self) {
        assert_eq!(self.status() >> 22 & 1, 1);
        assert_eq!(self.status() >> 22 & 1, 0);
    }

    /// Brings up a locked card like [`Host::bring_up_sd`]. A locked card shows CARD_IS_LOCKED in
    /// each status and refuses ACMD6.
    fn bring_up_locked(&mut self) {
        self.short(8, 0x1aa);
        loop {
            self.short(55, 0);
            if self.ocr(41, 0x40ff_8000) >> 31 == 1 {
                break;
            }
            self.wait(10_000_000);
        }
        self.long(2, 0);
        self.rca = self.short(3, 0) >> 16;
        self.set(|bus| (bus.clock_hz, bus.width) = (25_000_000, 1));
        self.short(7, self.rca << 16);
    }
}

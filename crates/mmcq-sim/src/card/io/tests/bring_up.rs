use super::*;
use crate::card::{Card, Fill, Medium, ReadBlock};

#[test]
fn operating_conditions_address_and_selection() {
    let mut host = Host::new(card(config()));
    // CMD0 is not for the I/O part. An inquiry (CMD5 without voltages) does not start the power-up.
    host.silent(0, 0);
    assert_eq!(host.ocr(5, 0), 0x20ff_8000);
    host.wait(1_000_000_000);
    assert_eq!(host.ocr(5, 0), 0x20ff_8000);
    assert_eq!(host.ocr(5, 0x0030_0000), 0x20ff_8000);
    host.wait(19_000_000);
    assert_eq!(host.ocr(5, 0x0030_0000) >> 31, 0);
    host.wait(1_000_000);
    assert_eq!(host.ocr(5, 0x0030_0000), 0xa0ff_8000);
    assert_eq!(host.short(3, 0), 0x1234_0000);
    // CMD7 with another card's address, then with its own. While the card is not selected, CMD52 is
    // illegal, which the next response reports.
    host.silent(7, 0x4321_0000);
    host.silent(52, 0);
    assert_eq!(host.short(7, 0x1234_0000), 0x1e00 | 1 << 22);
    assert_eq!(host.direct(false, 0, false, 0, 0), 0x1043);
    // The card is deselected.
    host.silent(7, 0);
    host.silent(52, 0);
    // CMD5 is legal only before CMD3.
    host.silent(5, 0);
    host.silent(15, 0x1234_0000);
    host.silent(7, 0x1234_0000);
}

#[test]
fn a_wrong_supply_makes_the_card_silent() {
    let mut host = Host::new(card(config()));
    host.silent(5, 0x0000_0100);
    host.silent(5, 0x00ff_8000);
    host.power_off();
    host.power_up();
    assert_eq!(host.ocr(5, 0), 0x20ff_8000);
}

#[test]
fn cccr_says_what_the_card_is() {
    let mut host = Host::new(card(config()));
    host.select_io(false);
    let bytes: Vec<u8> = (0..0x17).map(|address| host.get(0, address)).collect();
    assert_eq!(bytes[..0x0c], [0x43, 3, 0, 0, 0, 0, 0, 0, 0x13, 0x00, 0x10, 0x00]);
    assert_eq!(bytes[0x10..], [0, 0, 1, 1, 0, 0, 0]);
    // Bus interface register: 4 lines; a width that does not exist changes nothing.
    host.put(0, 7, 0x82);
    host.put(0, 7, 0x81);
    assert_eq!(host.get(0, 7), 0x82);
    // Bus speed register: high speed.
    host.put(0, 0x13, 2);
    assert_eq!(host.get(0, 0x13), 3);
    host.set(|bus| (bus.width, bus.clock_hz) = (4, 50_000_000));
    assert_eq!(host.get(0, 0), 0x43);
    // UHS modes cannot be selected at 3.3 V.
    host.put(0, 0x13, 6);
    assert_eq!(host.get(0, 0x13), 3);
    // The interrupt between blocks can be enabled; the asynchronous interrupt is not supported.
    host.put(0, 8, 0xff);
    host.put(0, 0x16, 2);
    assert_eq!((host.get(0, 8), host.get(0, 0x16)), (0x33, 0));
}

#[test]
fn chains_hold_the_tuples_that_the_standard_wants() {
    let mut host = Host::new(card(config()));
    host.select_io(false);
    for (number, base) in [(0u32, 0u32), (1, 0x100), (2, 0x200)] {
        let mut at = (0..3).fold(0, |at, i| at | u32::from(host.get(0, base + 9 + i)) << (8 * i));
        let mut tuples = Vec::new();
        loop {
            let code = host.get(0, at);
            if code == 0xff {
                break;
            }
            let length = u32::from(host.get(0, at + 1));
            let body: Vec<u8> = (0..length).map(|i| host.get(0, at + 2 + i)).collect();
            tuples.push((code, body));
            at += 2 + length;
        }
        let funce = &tuples.iter().find(|(code, _)| *code == 0x22).unwrap().1;
        if number == 0 {
            assert_eq!(tuples[0], (0x20, vec![0x04, 0x01, 0xc5, 0x00]));
            assert_eq!(*funce, [0, 0x00, 0x02, 0x32]);
        } else {
            let block = if number == 1 { [0x00, 0x02] } else { [64, 0] };
            assert_eq!(
                (funce.len(), funce[0], &funce[12..14], &funce[28..30]),
                (42, 1, &block[..], &[100, 0][..])
            );
        }
    }
}

#[test]
fn a_hostile_cis_is_served_as_it_is() {
    // Tuple chains with a link to itself, a link of FFh, without an end, and with pointers to
    // anywhere.
    let image = vec![0x20, 0xff, 0x22, 0x00, 0x00, 0x80];
    let mut cis = Cis::raw(image.clone(), 0x00);
    cis.pointers[1] = 0x00ff_ffff;
    let mut host = Host::new(card(config()).with_cis(cis));
    host.select_io(false);
    let bytes: Vec<u8> = (0..8).map(|i| host.get(0, 0x1000 + i)).collect();
    assert_eq!((&bytes[..6], &bytes[6..]), (&image[..], &[0, 0][..]));
    assert_eq!(host.get(0, 0x1_ffff), 0);
    assert_eq!([host.get(0, 0x109), host.get(0, 0x10a), host.get(0, 0x10b)], [0xff; 3]);
    assert_eq!([host.get(0, 0x209), host.get(0, 0x20a), host.get(0, 0x20b)], [0x00, 0x10, 0]);
}

#[test]
fn a_function_is_ready_after_its_time() {
    let mut host = Host::new(card(config()));
    host.select_io(false);
    // ERROR: the function is not enabled.
    assert_eq!(host.direct(false, 1, false, 0x100, 0), 0x1800);
    host.put(0, 2, 0x06);
    assert_eq!((host.get(0, 2), host.get(0, 3)), (0x06, 0x04));
    assert_eq!(host.direct(false, 1, false, 0x100, 0), 0x1800);
    host.wait(3_000_000);
    assert_eq!(host.get(0, 3), 0x06);
    host.put(1, 0x100, 0x5a);
    assert_eq!(host.get(1, 0x100), 0x5a);
    // A function loses its state when it is disabled and enabled again.
    host.put(0, 2, 0);
    assert_eq!(host.get(0, 3), 0);
    host.put(0, 2, 2);
    host.wait(3_000_000);
    assert_eq!(host.get(1, 0x100), 0);
    // A function that never becomes ready.
    let mut never = config();
    never.functions[0].enable_ns = u64::MAX;
    let mut host = Host::new(card(never));
    host.select_io(false);
    host.put(0, 2, 2);
    host.wait(3_600_000_000_000);
    assert_eq!((host.get(0, 2), host.get(0, 3)), (2, 0));
}

#[test]
fn flags_of_r5() {
    let mut host = Host::ready(card(config()), 6);
    // A read after write (RAW), and a plain write.
    host.put(1, 0x120, 7);
    assert_eq!(host.direct(true, 1, true, 0x120, 0x99), 0x1099);
    assert_eq!(host.direct(true, 0, true, 4, 0xff), 0x1007, "IENx of two functions");
    assert_eq!(host.direct(true, 0, false, 4, 0xff), 0x10ff);
    // A function that does not exist, and an address that does not exist.
    assert_eq!(host.direct(false, 3, false, 0, 0), 0x1200);
    assert_eq!(host.direct(false, 1, false, 0x2100, 0), 0x1100);
    // The card reports an illegal command only once.
    host.silent(17, 0);
    assert_eq!(host.direct(false, 0, false, 0, 0), 0x5043);
    assert_eq!(host.direct(false, 0, false, 0, 0), 0x1043);
}

#[test]
fn a_reset_starts_over_without_a_power_cycle() {
    let mut host = Host::ready(card(config()), 2);
    assert_eq!(host.direct(true, 0, false, 6, 8), 0x1008);
    host.silent(52, 0);
    host.set(|bus| (bus.clock_hz, bus.width) = (400_000, 1));
    host.select_io(false);
    assert_eq!((host.get(0, 2), host.get(0, 7)), (0, 0));
}

#[test]
fn sdr104_after_a_voltage_switch_and_tuning() {
    let mut uhs = config();
    uhs.uhs = 7;
    let mut host = Host::new(card(uhs));
    assert_eq!(host.select_io(true) >> 24 & 1, 1);
    assert_eq!(host.get(0, 0x14), 7);
    host.put(0, 7, 2);
    host.put(0, 0x13, 3 << 1);
    assert_eq!(host.get(0, 0x13), 7);
    host.set(|bus| (bus.width, bus.clock_hz, bus.sample_error) = (4, 208_000_000, 50));
    let reply = host.send(19, 0);
    assert_eq!(reply.flow, Flow::Read { block_size: 64 });
    let mut block = [0; 64];
    assert!(matches!(host.block(&mut block), ReadBlock::At { crc_ok: false, .. }));
    host.set(|bus| bus.sample_error = 0);
    host.send(19, 0);
    assert!(matches!(host.block(&mut block), ReadBlock::At { crc_ok: true, .. }));
    assert_eq!(block[..4], [0xff, 0x0f, 0xff, 0x00]);
    assert_eq!(host.get(0, 0), 0x43);
}

#[test]
fn a_combo_card_has_both_parts_behind_one_address() {
    let profile = crate::card::tests::profile("sdhc-16g-hs");
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(1)).unwrap();
    let mut host = Host::new(card(config()).with_memory(profile.build_sd(medium).unwrap()));
    host.silent(0, 0);
    assert_eq!(host.ocr(5, 0), 0x28ff_8000);
    host.ocr(5, 0x00ff_8000);
    host.short(8, 0x1aa);
    loop {
        host.short(55, 0);
        if host.ocr(41, 0x40ff_8000) >> 31 == 1 {
            break;
        }
        host.wait(10_000_000);
    }
    assert_eq!(host.ocr(5, 0x00ff_8000), 0xa8ff_8000);
    host.long(2, 0);
    host.rca = host.short(3, 0) >> 16;
    host.set(|bus| bus.clock_hz = 25_000_000);
    host.short(7, host.rca << 16);
    assert_eq!(host.state(), 4);
    assert_eq!(host.get(0, 0), 0x43);
    // Reads a block of the memory part, then of a function.
    host.app(6, 2);
    host.put(0, 7, 2);
    host.set(|bus| bus.width = 4);
    host.short(17, 5);
    let block = host.receive(1);
    let mut want = vec![0; 512];
    host.card.peek(5 * 512, &mut want).unwrap();
    assert_eq!(block, want);
    host.put(0, 2, 4);
    host.write53(2, (false, true), 0x100, 8, b"function");
    assert_eq!(host.read53(2, (false, true), 0x100, 8, 1), b"function");
    // A reset of the I/O part does not change the memory part.
    host.direct(true, 0, false, 6, 8);
    assert_eq!(host.state(), 4);
    assert!(matches!(host.send(13, host.rca << 16).answer, Some(Answer::Short { .. })));
}

//! Tests of SD cards: illegal commands, status bits, addressing, power-up.

use super::host::Host;
use super::sd::card;
use super::{medium, profile};
use crate::card::Card;
use crate::card::status::State;

#[test]
fn illegal_in_each_state() {
    let build = || {
        let profile = profile("sdxc-128g-uhs");
        Host::new(profile.build_sd(medium(&profile)).unwrap())
    };
    // In idle, only CMD0, CMD8 and CMD55 are legal.
    let mut host = build();
    host.silent(0, 0);
    for index in (1..64).filter(|index| !matches!(index, 8 | 55)) {
        host.silent(index, 0);
        assert_eq!(host.short(55, 0), 0x0040_0120, "CMD{index}");
        // CMD0 clears the application command that CMD55 has announced.
        host.silent(0, 0);
    }
    // In tran, the commands of the transfer state are legal.
    let mut host = card("sdxc-128g-uhs", false);
    let legal = [0, 6, 7, 13, 15, 16, 17, 18, 23, 24, 25, 27, 32, 33, 38, 42, 55];
    for index in (1..64).filter(|index| !legal.contains(index)) {
        // The argument has the card's RCA, so that a missing response does not come from a wrong
        // address.
        host.silent(index, host.rca << 16);
        if matches!(index, 9 | 10) {
            assert_eq!(host.card.state(host.now_ns), State::Tran);
        }
        assert_eq!(host.status(), 0x0040_0900, "CMD{index}");
        assert_eq!(host.status(), 0x0000_0900);
    }
    // In data and rcv, only CMD12, CMD13, CMD55 and commands that end the state are legal.
    for (start, state) in [(18, 5), (25, 6)] {
        host.ok(start, 0);
        for index in [2, 3, 6, 8, 9, 16, 17, 18, 24, 25, 38] {
            host.silent(index, host.rca << 16);
            let status = host.status();
            assert_eq!((status >> 22 & 1, status >> 9 & 0xf), (1, state), "CMD{index}");
        }
        host.ok(12, 0);
    }
}

#[test]
fn prg_takes_no_data_command() {
    let mut host = card("sdhc-16g-hs", false);
    host.ok(24, 0);
    host.wait(host.block_ns(512));
    let taken = host.card.write_block(&[0; 512], true, host.now_ns);
    let until_ns = taken.busy_until_ns;
    assert!(host.card.busy(host.now_ns) && host.card.busy(until_ns - 1) && !host.card.busy(until_ns));
    assert_eq!(host.status(), 0x0e00, "prg, not ready");
    host.silent(17, 0);
    assert_eq!(host.status(), 0x0040_0e00);
    // A deselected card continues to program, and releases DAT0.
    host.silent(7, 0);
    assert!(!host.card.busy(host.now_ns));
    assert_eq!(host.status(), 0x1000, "dis");
    let reply = host.send(7, host.rca << 16);
    assert_eq!(reply.busy_until_ns, Some(until_ns));
    assert!(host.card.busy(host.now_ns));
    host.now_ns = until_ns;
    assert_eq!(host.status(), 0x0900);
}

#[test]
fn other_addresses_are_not_ours() {
    let mut host = card("sdhc-16g-hs", false);
    let other = (host.rca ^ 1) << 16;
    for index in [13, 55, 15, 9, 10] {
        host.silent(index, other);
    }
    assert_eq!(host.status(), 0x900, "silence is not illegality");
    host.silent(7, other);
    assert_eq!(host.status(), 0x700, "stby");
    host.silent(7, other);
    assert_eq!(host.short(7, host.rca << 16), 0x700);
    assert_eq!(host.status(), 0x900);
}

#[test]
fn app_cmd_is_for_one_command() {
    let mut host = card("sdhc-16g-hs", false);
    assert_eq!(host.short(55, host.rca << 16), 0x920);
    assert_eq!(host.short(6, 2), 0x920, "ACMD6");
    // CMD6 without CMD55 is the basic command: it sends 64 bytes.
    host.short(6, 0x00ff_ffff);
    assert_eq!(host.receive(1).len(), 64);
    // No application command has this number, so the card executes the basic command.
    host.short(55, host.rca << 16);
    assert_eq!(host.short(13, host.rca << 16), 0x920, "ACMD13");
    host.receive(1);
    host.short(55, host.rca << 16);
    assert_eq!(host.short(16, 512), 0x900);
}

#[test]
fn power_up_takes_its_time_and_asks_for_high_capacity() {
    let profile = profile("sdhc-16g-hs");
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.silent(0, 0);
    host.short(8, 0x1aa);
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0), 0x00ff_8000, "an inquiry");
    // The card is ready 80 ms after the first ACMD41 with a voltage.
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0x40ff_8000), 0x00ff_8000);
    host.wait(79_000_000);
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0x40ff_8000), 0x00ff_8000);
    host.wait(1_000_000);
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0x00ff_8000), 0x00ff_8000, "without HCS busy for ever");
    host.short(55, 0);
    assert_eq!(host.ocr(41, 0x40ff_8000), 0xc0ff_8000);
    // Without CMD8 before it, the card ignores the bit HCS of ACMD41.
    host.silent(0, 0);
    for _ in 0..20 {
        host.short(55, 0);
        assert_eq!(host.ocr(41, 0x40ff_8000), 0x00ff_8000);
        host.wait(10_000_000);
    }
    // An ACMD41 with a voltage that the card does not support makes it inactive until power-off.
    host.silent(0, 0);
    host.short(55, 0);
    host.silent(41, 0x0000_0080);
    host.silent(0, 0);
    host.silent(8, 0x1aa);
    host.power_off();
    host.power_up();
    host.bring_up_sd(false);
}

#[test]
fn cmd8_tells_old_cards_from_new() {
    let mut host = Host::new(profile("sdsc-1g").build(medium(&profile("sdsc-1g"))).unwrap());
    host.silent(0, 0);
    host.silent(8, 0x1aa);
    assert_eq!(host.short(55, 0) >> 22 & 1, 1, "illegal on a card of 1.10");
    let mut host = Host::new(profile("sdhc-16g-hs").build(medium(&profile("sdhc-16g-hs"))).unwrap());
    host.silent(0, 0);
    assert_eq!(host.short(8, 0x15a), 0x15a);
    host.silent(8, 0x2aa);
    // An SD card ignores CMD1.
    host.silent(1, 0x40ff_8000);
}

#[test]
fn a_bus_that_is_not_ready_is_not_heard() {
    let profile = profile("sdhc-16g-hs");
    let mut host = Host::new(profile.build_sd(medium(&profile)).unwrap());
    host.power_off();
    host.silent(8, 0x1aa);
    host.set(|bus| *bus = crate::card::BusState { powered: true, width: 1, ..Default::default() });
    host.wait(2_000_000);
    // 74 clocks at 400 kHz take 185 us; the command itself takes 48 clocks.
    host.set(|bus| bus.clock_hz = 400_000);
    assert!(host.card.command(8, 0x1aa, host.now_ns + 184_999).answer.is_none());
    assert!(host.card.command(8, 0x1aa, host.now_ns + 185_000).answer.is_some());
    host.now_ns += 185_000;
    host.set(|bus| bus.clock_hz = 400_001);
    host.silent(8, 0x1aa);
    host.set(|bus| bus.clock_hz = 0);
    assert!(host.card.command(8, 0x1aa, host.now_ns).answer.is_none());
}

#[test]
fn cmd3_gives_another_address_each_time_and_cmd15_ends_all() {
    let mut host = card("sdhc-16g-hs", false);
    host.silent(7, 0);
    let again = host.short(3, 0);
    assert_ne!(again >> 16, host.rca);
    assert_eq!(again & 0xffff, 0x700);
    host.rca = again >> 16;
    host.silent(15, host.rca << 16);
    host.silent(13, host.rca << 16);
    host.silent(0, 0);
    host.silent(8, 0x1aa);
}

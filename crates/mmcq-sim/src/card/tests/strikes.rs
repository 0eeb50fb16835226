//! Tests of the faults that a card model applies.

use super::emmc::card as emmc;
use super::host::Host;
use super::pages::fast;
use super::{medium, profile};
use crate::card::{Card, ReadBlock};
use crate::faults::{Faults, Plan, Point, Strike};

const ERROR: u32 = 1 << 19;

fn shot(point: Point, nth: u64, strike: Strike) -> Faults {
    Faults::new(Plan::none().shot(point, nth, strike))
}

#[test]
fn busy_may_last_longer_for_ever_or_unseen() {
    let mut host = emmc("hbg4a2");
    host.card.set_faults(shot(Point::Busy, 1, Strike::Late(5_000_000)));
    let reply = host.send(6, 0x03b7_0000);
    let sent_ns = host.now_ns - host.clocks_ns(50);
    assert_eq!(reply.busy_until_ns, Some(sent_ns + 5_400_000));
    host.wait(5_000_000);
    assert_eq!(host.state(), 7);
    host.wait(1_000_000);
    assert_eq!(host.state(), 4);

    // DAT0 does not show the busy; only the status does.
    host.card.set_faults(shot(Point::Busy, 1, Strike::Hidden));
    host.short(24, 0);
    host.wait(host.clocks_ns(2) + host.block_ns(512));
    let taken = host.card.write_block(&[1; 512], true, host.now_ns);
    assert_eq!((taken.status, taken.busy_until_ns), (Some(true), host.now_ns));
    assert!(!host.card.busy(host.now_ns));
    assert_eq!(host.status() >> 8 & 0x1f, 14, "prg, not ready");
    host.wait(50_000_000);
    assert_eq!(host.state(), 4);

    // The busy never ends: the card sends its status, but only a power cycle ends the busy.
    host.card.set_faults(shot(Point::Busy, 1, Strike::Never));
    host.send(6, 0x03b7_0000);
    host.wait(100_000_000_000);
    assert!(host.card.busy(host.now_ns));
    assert_eq!(host.state(), 7);
    host.silent(0, 0);
    assert!(host.card.busy(host.now_ns));
    host.silent(1, 0x40ff_8080);
    host.power_off();
    host.power_up();
    host.bring_up_emmc();
}

#[test]
fn the_supply_may_dip_unseen() {
    for point in [Point::Busy, Point::Medium] {
        let mut host = fast("sdxc-128g-uhs");
        host.ok(24, 5);
        host.transmit(&[1; 512]);
        host.card.set_faults(shot(point, 1, Strike::BrownOut));
        host.short(24, 5);
        host.wait(host.clocks_ns(2) + host.block_ns(512));
        host.card.write_block(&[2; 512], true, host.now_ns);
        assert!(!host.card.busy(host.now_ns));
        host.silent(13, host.rca << 16);
        let mut block = [0; 512];
        host.card.peek(5 * 512, &mut block).unwrap();
        assert_eq!(block, [1; 512]);
        host.power_off();
        host.power_up();
        host.bring_up_sd(true);
    }
}

#[test]
fn the_power_up_may_be_late_or_never_end() {
    for (strike, ready) in [(Strike::Late(300_000_000), true), (Strike::Never, false), (Strike::Fail, false)]
    {
        let profile = profile("hbg4a2");
        let mut card = profile.build_emmc(medium(&profile)).unwrap();
        card.set_faults(shot(Point::PowerUp, 1, strike));
        let mut host = Host::new(card);
        host.silent(0, 0);
        let first = host.send(1, 0x40ff_8080);
        assert_eq!(first.answer.is_none(), strike == Strike::Fail);
        host.wait(200_000_000);
        let ocr = |host: &mut Host<_>| host.send(1, 0x40ff_8080).answer;
        let busy = ocr(&mut host);
        host.wait(200_000_000);
        assert_eq!(ocr(&mut host) != busy, ready);
        host.wait(100_000_000_000);
        host.power_off();
        host.power_up();
        host.bring_up_emmc();
    }
}

#[test]
fn the_voltage_switch_fails_in_every_stage() {
    let switch = |strike| {
        let profile = profile("sdxc-128g-uhs");
        let mut card = profile.build_sd(medium(&profile)).unwrap();
        card.set_faults(shot(Point::Voltage, 1, strike));
        let mut host = Host::new(card);
        host.silent(0, 0);
        host.send(8, 0x1aa);
        for _ in 0..20 {
            host.short(55, 0);
            if host.ocr(41, 0x41ff_8000) >> 31 == 1 {
                break;
            }
            host.wait(10_000_000);
        }
        let answered = host.send(11, 0).answer.is_some();
        host.wait(1_000_000);
        let low = host.card.switching_voltage(host.now_ns);
        host.set(|bus| bus.clock_hz = 0);
        host.set(|bus| bus.signal18 = true);
        host.wait(5_000_000);
        host.set(|bus| bus.clock_hz = 400_000);
        host.wait(1_000_000);
        (answered, low, host.card.switching_voltage(host.now_ns))
    };
    assert_eq!(switch(Strike::Spurious(0)), (true, true, false), "no fault of this point");
    assert_eq!(switch(Strike::Lost), (false, false, false));
    assert_eq!(switch(Strike::Hidden), (true, false, false));
    assert_eq!(switch(Strike::Fail), (true, true, true));
    assert_eq!(switch(Strike::Late(3_000_000)), (true, true, true));
}

#[test]
fn a_failed_program_shows_late_and_once() {
    let mut host = emmc("hbg4a2");
    host.card.set_faults(shot(Point::Medium, 2, Strike::Fail));
    host.ok(25, 40);
    host.transmit(&[5; 1536]);
    assert_eq!(host.short(12, 0) & ERROR, 0, "not in the answer to CMD12");
    let status = host.status();
    assert_eq!((status & ERROR, status >> 9 & 0xf), (ERROR, 7), "while it programs");
    assert_eq!(host.status() & ERROR, 0, "once");
    host.wait(50_000_000);
    assert_eq!(host.status(), 0x900);
    let mut block = [0; 512];
    for (sector, there) in [(40, true), (41, false), (42, true)] {
        host.card.peek(sector * 512, &mut block).unwrap();
        assert_eq!(block == [5; 512], there);
    }
}

#[test]
fn acmd22_counts_up_to_the_failure() {
    let mut host = fast("sdxc-128g-uhs");
    host.card.set_faults(shot(Point::Medium, 3, Strike::Fail));
    host.ok(25, 40);
    host.transmit(&[5; 2048]);
    host.short(12, 0);
    host.wait_busy();
    assert_eq!(host.status() & ERROR, ERROR);
    host.app(22, 0);
    assert_eq!(host.receive(1), [0, 0, 0, 2]);
}

#[test]
fn media_lie() {
    for (strike, at_50, at_53) in [(Strike::Lost, 0, 0), (Strike::Flip(9), 2, 0), (Strike::Astray(3), 0, 2)] {
        let mut host = emmc("hbg4a2");
        for sector in 50..54 {
            host.ok(24, sector);
            host.transmit(&[0; 512]);
        }
        host.card.set_faults(shot(Point::Medium, 1, strike));
        host.ok(24, 50);
        host.transmit(&[2; 512]);
        host.ok(18, 50);
        let read = host.receive(4);
        host.ok(12, 0);
        assert_eq!((read[5], read[3 * 512 + 5]), (at_50, at_53), "{strike:?}");
        assert_eq!(read[1] == 0, strike == Strike::Lost || strike == Strike::Flip(9) || at_50 == 0);
    }
}

#[test]
fn reading_may_fail_now_or_until_written() {
    let mut host = emmc("hbg4a2");
    host.card.set_faults(shot(Point::Medium, 2, Strike::Fail));
    host.card.spoil(9);
    let mut block = [0; 512];
    host.ok(18, 0);
    assert!(matches!(host.block(&mut block), ReadBlock::At { .. }));
    assert_eq!(host.block(&mut block), ReadBlock::Never);
    assert_eq!(host.short(12, 0) >> 21 & 1, 1);
    host.ok(17, 1);
    host.receive(1);
    for _ in 0..2 {
        host.ok(17, 9);
        assert_eq!(host.block(&mut block), ReadBlock::Never);
        assert_eq!(host.short(12, 0) >> 21 & 1, 1);
    }
    host.ok(24, 9);
    host.transmit(&[1; 512]);
    host.ok(17, 9);
    host.receive(1);
}

//! Tests of supply, clock and data lines.

use super::*;

/// Returns the writes of one operation to MCIPower and MCIClock.
fn writes_of(host: &mut Driver, op: BusOp) -> Vec<(u16, u32)> {
    host.regs.take_log();
    assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    host.regs.writes().into_iter().filter(|&(at, _)| at == POWER || at == CLOCK).collect()
}

#[test]
fn power_goes_up_before_it_is_on() {
    let config = Pl181Config { power: 0x5c, power_up_ns: 250_000, ..config() };
    let mut host = Pl181::new(Fake::new(0x0004_1181), config).unwrap();
    assert_eq!(host.regs.writes(), []);
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 1_000), Step::Wait(251_000));
    assert_eq!(host.regs.get(POWER), 0x5e);
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 250_999), Step::Wait(251_000));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 251_000), Step::Done);
    assert_eq!((host.regs.get(POWER), host.regs.get(CLOCK)), (0x5f, 0));
    assert_eq!(writes_of(&mut host, BusOp::Clock(400_000)), [(CLOCK, 0x100 | 59)]);
    assert_eq!(writes_of(&mut host, BusOp::PowerOff), [(CLOCK, 0), (POWER, 0)]);
}

#[test]
fn clock_and_width_share_a_register() {
    let mut host = ready();
    assert_eq!(writes_of(&mut host, BusOp::Width(Width::W4)), [(CLOCK, 0x900)]);
    assert_eq!(writes_of(&mut host, BusOp::Clock(400_000)), [(CLOCK, 0x900 | 59)]);
    assert_eq!(writes_of(&mut host, BusOp::Clock(0)), [(CLOCK, 0x800)]);
    assert_eq!(writes_of(&mut host, BusOp::Width(Width::W1)), [(CLOCK, 0)]);
    // MCLK itself is the clock, or the fastest clock that the board allows.
    assert_eq!(writes_of(&mut host, BusOp::Clock(u32::MAX)), [(CLOCK, 0x500)]);
    let narrow = Pl181Config::new(MCLK_HZ, 24_000_000);
    let mut host = Pl181::new(Fake::new(0x0004_1181), narrow).unwrap();
    assert_eq!(writes_of(&mut host, BusOp::Clock(u32::MAX)), [(CLOCK, 0x100)]);
    assert_eq!(host.set_bus(BusOp::Width(Width::W4), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Timing(Timing::HighSpeed), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Clock(1_000), true, 0), Step::Failed);
    assert_eq!(host.caps().clock_hz, (93_750, 25_000_000));
}

#[test]
fn a_register_rests_between_two_writes() {
    // A register needs three MCLK and two PCLK between two writes; an access takes two PCLK.
    for (mclk, pclk, reads) in [(48, 24, 2), (24, 24, 3), (24, 48, 4), (10, 100, 16)] {
        let config = Pl181Config::new(mclk * 1_000_000, pclk * 1_000_000);
        let mut host = Pl181::new(Fake::new(0x0004_1181), config).unwrap();
        host.set_bus(BusOp::Clock(400_000), true, 0);
        host.regs.take_log();
        assert_eq!(host.set_bus(BusOp::Clock(1_000_000), true, 0), Step::Done);
        let log = host.regs.take_log();
        let rest = log.iter().filter(|&&access| access == Access::Read(MASK_0)).count();
        assert_eq!(rest, reads, "{mclk} {pclk}");

        for _ in 0..2 {
            host.start(&command(13, Resp::R1), &[], 1).unwrap();
            answer(&host, 13, 0);
            host.ack(&[]).phase.unwrap().unwrap();
        }
        let log = host.regs.take_log();
        let off = log.iter().position(|&a| a == Access::Write(COMMAND, 0)).unwrap();
        let on = log.iter().skip(off).position(|&a| matches!(a, Access::Write(COMMAND, bits) if bits != 0));
        assert!(on.unwrap() > reads, "{mclk} {pclk}: {log:?}");
    }
}

#[test]
fn resets_stop_both_paths_and_keep_the_settings() {
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    for op in [BusOp::ResetLines, BusOp::ResetAll] {
        let mut host = ready();
        host.start(&data(17, Direction::Read, 512, 1), &segments, 1).unwrap();
        host.regs.rx.borrow_mut().extend(vec![7; FIFO_WORDS]);
        host.regs.raise(DATA_END);
        let before = (host.regs.get(POWER), host.regs.get(CLOCK));
        assert_eq!(host.set_bus(op, true, 0), Step::Done);
        let regs = &host.regs;
        assert_eq!((regs.get(POWER), regs.get(CLOCK)), before);
        assert_eq!(regs.get(COMMAND) | regs.get(DATA_CONTROL) | regs.get(MASK_0) | regs.flags.get(), 0);
        assert!(regs.rx.borrow().is_empty());
        assert!(host.ack(&segments).phase.is_none());
        host.start(&command(12, Resp::R1b), &[], 1).unwrap();
    }
}

#[test]
fn what_it_has_not_fails() {
    let mut host = ready();
    for op in [
        BusOp::Signal18(true),
        BusOp::TuneStart,
        BusOp::Width(Width::W8),
        BusOp::Timing(Timing::Sdr104),
        BusOp::Clock(1),
    ] {
        assert_eq!(host.set_bus(op, true, 0), Step::Failed, "{op:?}");
    }
    for op in [BusOp::Signal18(false), BusOp::TuneAbort, BusOp::Timing(Timing::HighSpeed)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    assert!(host.present() && !host.dat0_busy() && !host.write_protected());
}

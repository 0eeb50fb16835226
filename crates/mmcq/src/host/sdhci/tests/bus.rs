//! Tests of reset, power, clock, timing, tuning, voltage, and the width of register writes.

use super::*;

#[test]
fn resets_go_one_bit_at_a_time() {
    let mut host = ready(SdhciConfig::new());
    let resets = |host: &Driver| -> Vec<u32> {
        let log = host.port.regs.take_log();
        log.into_iter()
            .filter_map(|a| if let Access::Write(RESET, _, v) = a { Some(v) } else { None })
            .collect()
    };
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    assert_eq!(resets(&host), [2, 4]);
    let mut both = ready(quirk(SdhciQuirks::RESET_CMD_DATA_TOGETHER));
    assert_eq!(both.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    assert_eq!(resets(&both), [6]);

    // A reset bit that stays set: the driver waits 100 ms, and then reports a failure.
    host.port.regs.stuck.set(RESET_DAT);
    let mut now = 5_000;
    let mut step = host.set_bus(BusOp::ResetLines, true, now);
    while let Step::Wait(until) = step {
        assert!(until > now && until <= 5_000 + 100_000_000);
        now = until;
        step = host.set_bus(BusOp::ResetLines, false, now);
    }
    assert_eq!((step, now), (Step::Failed, 5_000 + 100_000_000));
    assert_eq!(resets(&host), [2, 4]);
}

#[test]
fn full_reset_restores_the_bus() {
    let mut host = ready(SdhciConfig::new());
    for op in [BusOp::Width(Width::W4), BusOp::Signal18(true), BusOp::Timing(Timing::Sdr50)] {
        if let Step::Wait(until) = host.set_bus(op, true, 0) {
            assert_eq!((op, until), (BusOp::Signal18(true), 5_000_000));
            assert_eq!(host.set_bus(op, false, until), Step::Done);
        }
    }
    let kept = [(CONTROL, 1), (POWER, 1), (CONTROL_2, 2), (CLOCK, 2), (INT_ENABLE, 4)];
    let before = kept.map(|(at, width)| host.port.regs.get(at, width));
    assert_eq!(before[0], 0x16);
    assert_eq!(before[2], 0x0a);
    for (at, width) in kept {
        host.port.regs.set(at, width, 0);
    }
    // The signal lines get their voltage first, then the card gets its clock.
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Wait(5_000_000));
    assert_eq!(host.port.regs.get(CLOCK, 2) & CLOCK_CARD as u32, 0);
    assert_eq!(host.set_bus(BusOp::ResetAll, false, 5_000_000), Step::Done);
    assert_eq!(kept.map(|(at, width)| host.port.regs.get(at, width)), before);
    let segments = [far(0, 512)];
    host.port.regs.take_log();
    run(&mut host, &read(1), &segments);
    assert!(
        host.port.regs.take_log().contains(&Access::Write(TIMEOUT, 1, 4)),
        "shadows do not outlive a reset"
    );
}

#[test]
fn lines_fixed_at_1_8_v_refuse_3_3() {
    let mut host = ready(quirk(SdhciQuirks::FIXED_18));
    assert!(host.caps().signal18 && host.caps().signal18_fixed);
    assert_eq!(host.set_bus(BusOp::Signal18(false), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Signal18(true), true, 0), Step::Wait(5_000_000));
}

#[test]
fn clock_waits_until_it_is_stable() {
    let mut host = ready_with(5, CAPS, SdhciConfig::new());
    host.port.regs.stable.set(false);
    let Step::Wait(until) = host.set_bus(BusOp::Clock(400_000), true, 1_000) else { panic!("must wait") };
    assert!(until > 1_000);
    host.port.regs.stable.set(true);
    host.port.regs.set(CLOCK, 2, host.port.regs.get(CLOCK, 2) | 2);
    assert_eq!(host.set_bus(BusOp::Clock(400_000), false, until), Step::Done);
    assert_eq!(host.port.regs.get(CLOCK, 2), 0x3f0f, "divider, card, PLL, stable, internal");
    assert_eq!(host.set_bus(BusOp::Clock(1), true, 0), Step::Failed);
    host.port.regs.stable.set(false);
    assert!(matches!(host.set_bus(BusOp::Clock(400_000), true, 0), Step::Wait(_)));
    assert_eq!(host.set_bus(BusOp::Clock(400_000), false, 150_000_000), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Clock(0), true, 0), Step::Done);
    assert_eq!(host.port.regs.get(CLOCK, 2), 0);
}

#[test]
fn timing_changes_while_the_clock_stands() {
    let config = SdhciConfig { extra_timings: 1 << Timing::Hs400 as u16, ..SdhciConfig::new() };
    let mut host = ready(config);
    for (timing, control, mode) in [
        (Timing::HighSpeed, 0x14, 0),
        (Timing::Hs200, 0x14, 3),
        (Timing::Hs400, 0x14, 5),
        (Timing::Sdr12, 0x10, 0),
        (Timing::Ddr52, 0x14, 4),
    ] {
        host.port.regs.take_log();
        assert_eq!(host.set_bus(BusOp::Timing(timing), true, 0), Step::Done);
        assert_eq!(
            (host.port.regs.get(CONTROL, 1), host.port.regs.get(CONTROL_2, 2)),
            (control, mode),
            "{timing:?}"
        );
        let mut running = true;
        for access in host.port.regs.take_log() {
            match access {
                Access::Write(CLOCK, _, value) => running = value & u32::from(CLOCK_CARD) != 0,
                Access::Write(CONTROL | CONTROL_2, ..) => assert!(!running),
                _ => {}
            }
        }
        assert!(running);
    }
    assert_eq!(host.set_bus(BusOp::Timing(Timing::Hs400Es), true, 0), Step::Failed);
}

#[test]
fn power_needs_a_card_that_draws_it() {
    let mut host = ready(SdhciConfig::new());
    assert_eq!(host.port.regs.get(POWER, 1), 0x0f);
    assert_eq!(host.set_bus(BusOp::PowerOff, true, 0), Step::Done);
    assert_eq!((host.port.regs.get(POWER, 1), host.port.regs.get(CLOCK, 2)), (0, 0));
    host.port.regs.set(PRESENT, 4, PRESENT_DAT);
    assert!(!host.present());
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 0), Step::Failed);
    assert_eq!(host.port.regs.get(INT_ENABLE, 4) & (INT_INSERT | INT_REMOVE), INT_INSERT);
    let mut external = ready(quirk(SdhciQuirks::EXTERNAL_POWER));
    external.port.regs.set(PRESENT, 4, PRESENT_DAT);
    assert_eq!(external.set_bus(BusOp::PowerOn, true, 0), Step::Done);
}

#[test]
fn tuning_ends_where_the_controller_says() {
    let mut host = ready(SdhciConfig::new());
    let phase = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    assert_eq!(host.port.regs.get(CONTROL_2, 2), CONTROL_2_TUNE.into());
    host.start(&phase, &[], 1).unwrap();
    assert_eq!(host.port.regs.get(TRANSFER_MODE, 4), 0x133a_0010);
    assert!(report(&mut host, INT_COMMAND | ERROR_DATA_CRC, &[]).phase.is_none());
    assert!(!report(&mut host, INT_BUFFER_READ, &[]).phase.unwrap().unwrap().tuned);
    host.start(&phase, &[], 1).unwrap();
    host.port.regs.set(CONTROL_2, 2, CONTROL_2_TUNED.into());
    assert!(report(&mut host, INT_BUFFER_READ, &[]).phase.unwrap().unwrap().tuned);
    // If a controller ends tuning without another interrupt, the next call finds that out.
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    host.start(&phase, &[], 1).unwrap();
    assert!(report(&mut host, INT_COMMAND, &[]).phase.is_none());
    host.port.regs.set(CONTROL_2, 2, CONTROL_2_TUNED.into());
    assert!(report(&mut host, 0, &[]).phase.unwrap().unwrap().tuned);
    // The sampling point stays selected when the timing changes, and is dropped by an abort.
    assert_eq!(host.set_bus(BusOp::Timing(Timing::Sdr104), true, 0), Step::Done);
    assert_eq!(host.port.regs.get(CONTROL_2, 2), 0x83);
    assert_eq!(host.set_bus(BusOp::TuneAbort, true, 0), Step::Done);
    assert_eq!(host.port.regs.get(CONTROL_2, 2), 0x03);
}

#[test]
fn levels_of_all_four_lines_are_told() {
    let mut host = ready(SdhciConfig::new());
    for levels in 0..16 {
        host.port.regs.set(PRESENT, 4, levels << PRESENT_DAT_SHIFT);
        assert_eq!(u32::from(host.dat_levels()), levels);
        assert_eq!(host.dat0_busy(), levels & 1 == 0);
    }
    // After CMD11 the driver returns the levels that the lines have then.
    host.port.regs.set(PRESENT, 4, PRESENT_DAT);
    run(&mut host, &command(11, Resp::R1), &[]);
    host.port.regs.set(PRESENT, 4, PRESENT_DAT & !PRESENT_DAT0);
    assert!(host.dat0_busy());
}

#[test]
fn narrow_access_quirks_keep_the_neighbours() {
    let mut host = ready_with(2, CAPS, quirk(SdhciQuirks::ACCESS_32BIT));
    assert_eq!(host.set_bus(BusOp::Width(Width::W4), true, 0), Step::Done);
    run(&mut host, &read(1), &[far(0, 512)]);
    let log = host.port.regs.take_log();
    assert!(log.iter().all(|access| !matches!(access, Access::Write(_, 1 | 2, _))));
    assert_eq!((host.port.regs.get(CONTROL, 1), host.port.regs.get(POWER, 1)), (0x12, 0x0f));

    let mut host = ready(quirk(SdhciQuirks::ACCESS_16BIT));
    run(&mut host, &read(2), &[far(0, 1024)]);
    let log = host.port.regs.take_log();
    for split in [
        Access::Write(BLOCK_SIZE, 2, 0x7200),
        Access::Write(BLOCK_SIZE + 2, 2, 2),
        Access::Write(TRANSFER_MODE, 2, 0x33),
        Access::Write(TRANSFER_MODE + 2, 2, 0x123a),
    ] {
        assert!(log.contains(&split), "{split:?}");
    }
}

/// Tests a card reader that is pulled out between two phases: the next request finds a reset that
/// never ends, and the controller counts as gone. It accesses no memory any more, so its memory is
/// free.
#[test]
fn a_controller_that_is_gone_is_cut_off() {
    let mut host = ready(by(TransferMode::Adma2));
    assert!(!host.isolate(), "this one is there, and its platform cannot");
    host.port.regs.bytes.borrow_mut().fill(0xff);
    host.port.regs.stuck.set(0xff);
    assert_eq!(host.start(&command(13, Resp::R1), &[], 1), Err(StartError::CommandLine));
    assert!(host.isolate());
}

/// Tests bus operations with two quirks that add steps. The controller completes each step at once,
/// so each operation ends after a few calls without any time passing.
#[test]
fn an_operation_of_many_parts_ends_well_where_none_has_to_be_waited_for() {
    let quirks = SdhciQuirks::CLOCK_BEFORE_RESET.with(SdhciQuirks::RESET_ON_IOS);
    let mut host = ready_with(4, CAPS, quirk(quirks));
    for op in [BusOp::ResetAll, BusOp::Clock(400_000), BusOp::Timing(Timing::HighSpeed), BusOp::ResetLines] {
        let mut step = host.set_bus(op, true, 7);
        for _ in 0..2 {
            if step == Step::Wait(7) {
                step = host.set_bus(op, false, 7);
            }
        }
        assert_eq!(step, Step::Done, "{op:?}");
    }
    assert_ne!(host.port.regs.get(CLOCK, 2) & u32::from(CLOCK_CARD), 0);
}

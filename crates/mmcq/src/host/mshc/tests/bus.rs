//! Tests of supply, clock and reset.

use super::*;

fn power_resets_and_sets_up<L: MshcLayout>() {
    let mut host = build::<L>(Fake::new::<L>(), MshcConfig::new(SOURCE_HZ)).unwrap();
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 5), Step::Wait(1_000_005));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 1_000_005), Step::Done);
    let log = host.regs.take_log();
    assert!(log.contains(&(L::AT.control, CONTROL_RESETS)));
    assert!(log.contains(&(L::AT.timeout, u32::MAX)));
    assert_eq!(host.regs.get(L::AT.mask), 0);
    assert_eq!(host.regs.get(L::AT.control), CONTROL_INTERRUPTS);
    let threshold = if L::DESIGN_WARE { 0x200f_0010 } else { 0x2007_0008 };
    assert_eq!(host.regs.get(L::AT.threshold), threshold);
    // The status bits that a clock change sets must not end a later phase.
    assert_eq!(host.regs.raw.get(), 0);
    if L::DESIGN_WARE {
        assert_eq!(host.regs.get(DW_POWER), 1);
        assert_eq!(settle(&mut host, BusOp::PowerOff), Step::Done);
        assert_eq!(host.regs.get(DW_POWER), 0);
    }
}

fn the_clock_takes_three_updates<L: MshcLayout>() {
    let mut host = ready::<L>();
    assert_eq!(host.set_bus(BusOp::Clock(25_000_000), true, 0), Step::Done);
    let log: Vec<_> = host.regs.take_log().into_iter().filter(|write| write.0 != L::AT.raw).collect();
    let update = (L::AT.command, COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_WAITS);
    let wanted = if L::DESIGN_WARE {
        [(DW_CLOCK_ENABLE, 0), update, (DW_DIVIDER, 1), update, (DW_CLOCK_ENABLE, 1), update]
    } else {
        let off = (SMHC_CLOCK, 1);
        [off, update, off, update, (SMHC_CLOCK, CLOCK_ON | 1), update]
    };
    assert_eq!(log, wanted);
    assert_eq!(host.set_bus(BusOp::Clock(0), true, 0), Step::Done);
    let log: Vec<_> = host.regs.take_log().into_iter().filter(|write| write.0 != L::AT.raw).collect();
    assert_eq!(log.len(), 2);
    assert_eq!(host.set_bus(BusOp::Clock(90_000), true, 0), Step::Failed);
}

fn what_never_ends_fails_in_time<L: MshcLayout>() {
    let mut host = ready::<L>();
    host.regs.stuck_clock.set(true);
    assert_eq!(settle(&mut host, BusOp::Clock(25_000_000)), Step::Failed);
    host.regs.stuck_clock.set(false);
    assert_eq!(settle(&mut host, BusOp::Clock(25_000_000)), Step::Done);
    host.regs.stuck_reset.set(CONTROL_DMA_RESET);
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Failed);
    host.regs.stuck_reset.set(0);
    assert_eq!(settle(&mut host, BusOp::ResetAll), Step::Done);
    // A controller that is gone makes the operation fail at once.
    host.regs.gone.set(true);
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Clock(400_000), true, 0), Step::Failed);
}

fn a_reset_brings_the_settings_back<L: MshcLayout>() {
    let mut host = ready::<L>();
    let width = host.regs.get(L::AT.width);
    assert_eq!(width, 1);
    host.regs.set(L::AT.width, 0);
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
    assert_eq!(host.regs.get(L::AT.width), width);
    // 50 MHz / 126; a card that is still programming does not delay the clock change.
    let log = host.regs.take_log();
    let updates: Vec<_> = log.iter().filter(|write| write.0 == L::AT.command).collect();
    assert_eq!(updates, [&(L::AT.command, COMMAND_START | COMMAND_UPDATE_CLOCK); 3]);
    let clock = if L::DESIGN_WARE { (DW_DIVIDER, 63) } else { (SMHC_CLOCK, CLOCK_ON | 63) };
    assert!(log.contains(&clock));
}

fn what_it_cannot_do_is_refused<L: MshcLayout>() {
    let mut host = ready::<L>();
    for op in [BusOp::Width(Width::W8), BusOp::Timing(Timing::HighSpeed), BusOp::Signal18(true)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Failed, "{op:?}");
    }
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Failed);
    for op in [BusOp::Width(Width::W1), BusOp::Timing(Timing::Legacy), BusOp::Signal18(false)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
}

in_both_layouts!(
    power_resets_and_sets_up,
    the_clock_takes_three_updates,
    what_never_ends_fails_in_time,
    a_reset_brings_the_settings_back,
    what_it_cannot_do_is_refused,
);

//! Tests of CMD11, and of DDR.

use super::*;
use crate::spec::command::sd;
use crate::spec::response::Response;

fn fast<L: MshcLayout>() -> Driver<L> {
    let config = MshcConfig::new(200_000_000).max_clock_hz(200_000_000).high_speed(true);
    ready_with(config.ddr(true).signal18(true), 1)
}

fn commands<L: MshcLayout>(host: &Driver<L>) -> Vec<u32> {
    let log = host.regs.take_log().into_iter();
    log.filter(|write| write.0 == L::AT.command).map(|write| write.1).collect()
}

fn switching() -> Phase {
    Phase { command: sd::voltage_switch(), data: None, auto: Auto::None, tuning: false }
}

fn cmd11_ends_with_low_lines<L: MshcLayout>() {
    let mut host = fast::<L>();
    host.start(&switching(), &[], 0).unwrap();
    let hold = if L::DESIGN_WARE { COMMAND_HOLD } else { 0 };
    let how = COMMAND_START | COMMAND_RESPONSE | COMMAND_CRC | COMMAND_VOLTAGE | hold | 11;
    assert_eq!(commands(&host), [how]);
    assert_ne!(host.regs.get(L::AT.mask) & INT_VOLTAGE, 0);
    // The end of the command does not end the phase of CMD11.
    raise(&host, INT_COMMAND);
    assert!(host.ack(&[]).phase.is_none());
    raise(&host, INT_VOLTAGE);
    host.regs.set(L::AT.response, 0x320);
    let done = host.ack(&[]).phase.unwrap().unwrap();
    assert_eq!(done.response, Response::short(0x320));
    // All clock changes belong to the voltage switch, and none waits for DAT0, until the clock is
    // enabled.
    let part = COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_VOLTAGE;
    assert_eq!(settle(&mut host, BusOp::Clock(0)), Step::Done);
    assert_eq!(commands(&host), [part]);
    assert_eq!(settle(&mut host, BusOp::Signal18(true)), Step::Done);
    if L::DESIGN_WARE {
        assert_eq!(host.regs.get(DW_UHS), UHS_18);
    }
    assert_eq!(settle(&mut host, BusOp::Clock(400_000)), Step::Done);
    assert_eq!(commands(&host), [part; 3]);
    assert_eq!(settle(&mut host, BusOp::Clock(25_000_000)), Step::Done);
    assert_eq!(commands(&host), [COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_WAITS; 3]);
    // A reset keeps the voltage of the lines.
    assert_eq!(settle(&mut host, BusOp::ResetAll), Step::Done);
    if L::DESIGN_WARE {
        assert_eq!(host.regs.get(DW_UHS), UHS_18);
    }
}

fn a_refused_cmd11_is_a_fault_and_forgotten<L: MshcLayout>() {
    let mut host = fast::<L>();
    host.start(&switching(), &[], 0).unwrap();
    raise(&host, INT_NO_RESPONSE | INT_COMMAND);
    let fault = host.ack(&[]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Command));
    host.regs.take_log();
    assert_eq!(settle(&mut host, BusOp::Clock(0)), Step::Done);
    assert_eq!(commands(&host), [COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_WAITS]);
}

/// Tests signal lines with a fixed voltage: CMD11 is an ordinary command there.
fn lines_that_stay_have_no_switch<L: MshcLayout>() {
    for config in [MshcConfig::new(SOURCE_HZ), MshcConfig::new(SOURCE_HZ).signal18_fixed(true)] {
        let mut host = ready_with::<L>(config, 1);
        host.start(&switching(), &[], 0).unwrap();
        assert_eq!(commands(&host)[0] & COMMAND_VOLTAGE, 0);
        raise(&host, INT_COMMAND);
        assert!(host.ack(&[]).phase.unwrap().is_ok());
    }
}

fn both_edges_divide_the_clock<L: MshcLayout>() {
    let config = MshcConfig::new(100_000_000).max_clock_hz(100_000_000).high_speed(true);
    let mut host = ready_with::<L>(config.ddr(true).width(Width::W8), 1);
    assert_eq!(settle(&mut host, BusOp::Clock(100_000_000)), Step::Done);
    host.regs.take_log();
    // The change of the timing alone halves the clock.
    assert_eq!(settle(&mut host, BusOp::Timing(Timing::Ddr52)), Step::Done);
    assert_eq!(commands(&host).len(), 3);
    let divider = if L::DESIGN_WARE { host.regs.get(DW_DIVIDER) } else { host.regs.get(SMHC_CLOCK) & 0xff };
    assert_eq!(divider, 1);
    let edges = |host: &Driver<L>| match L::DESIGN_WARE {
        true => host.regs.get(DW_UHS) & UHS_DDR != 0,
        false => host.regs.get(L::AT.control) & CONTROL_DDR != 0,
    };
    assert!(edges(&host));
    // DDR stays enabled after a reset and during data.
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
    assert!(edges(&host));
    let mut memory = [0u8; 512];
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    host.start(&transfer(Direction::Read, 1), &[segment], 0).unwrap();
    assert!(edges(&host));
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
    assert_eq!(settle(&mut host, BusOp::Timing(Timing::HighSpeed)), Step::Done);
    assert!(!edges(&host));
    host.unmap(&segment, Direction::Read);
}

in_both_layouts!(
    cmd11_ends_with_low_lines,
    a_refused_cmd11_is_a_fault_and_forgotten,
    lines_that_stay_have_no_switch,
    both_edges_divide_the_clock,
);

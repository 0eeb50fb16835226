use super::*;

#[test]
fn power_comes_by_a_cycle_of_the_lines() {
    let mut host = driver::<1>(Board { resets: true, ..Board::default() }, config());
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 0), Step::Wait(1_000_000));
    assert_eq!(host.regs.last(POWER), Some(POWER_CYCLE));
    // The slowest clock until another one is requested; and the clock stops without traffic.
    assert_eq!(host.regs.last(CLOCK), Some(CLOCK_FLOW_CONTROL | CLOCK_SAVES | 0x3ff));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 999_999), Step::Wait(1_000_000));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 1_000_000), Step::Wait(2_000_000));
    assert_eq!(host.regs.last(POWER), Some(POWER_OFF));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, 2_000_000), Step::Done);
    assert_eq!(host.regs.last(POWER), Some(POWER_ON));
    assert_eq!(*host.board.told.borrow(), ["reset"]);
    assert_eq!(host.set_bus(BusOp::PowerOff, true, 0), Step::Done);
    assert_eq!(host.board.told.borrow().len(), 2);
}

#[test]
fn clock_lines_and_timing_are_one_register() {
    let mut host = driver::<1>(Board::default(), config().signal18(true));
    let mut set = |op| {
        assert_eq!(host.set_bus(op, true, 0), Step::Done);
        host.regs.get(CLOCK)
    };
    assert_eq!(set(BusOp::Clock(400_000)), CLOCK_FLOW_CONTROL | 250);
    assert_eq!(set(BusOp::Width(Width::W4)), CLOCK_FLOW_CONTROL | 1 << 14 | 250);
    assert_eq!(set(BusOp::Clock(50_000_000)), CLOCK_FLOW_CONTROL | 1 << 14 | 2);
    assert_eq!(set(BusOp::Timing(Timing::Ddr50)), CLOCK_FLOW_CONTROL | CLOCK_DDR | CLOCK_FAST | 1 << 14 | 2);
    assert_eq!(set(BusOp::Timing(Timing::Legacy)), CLOCK_FLOW_CONTROL | 1 << 14 | 2);
    assert_eq!(set(BusOp::Clock(0)), CLOCK_FLOW_CONTROL | CLOCK_SAVES | 1 << 14 | 2);
    assert_eq!(host.set_bus(BusOp::Width(Width::W8), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Timing(Timing::Sdr104), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Clock(1), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Failed);
}

/// Tests that DDR is never entered with a divider of 0, which would be the kernel clock itself.
#[test]
fn ddr_has_at_most_half_of_the_kernel_clock() {
    let settings = config().signal18(true).max_clock_hz(KERNEL_HZ);
    let mut host = driver::<1>(Board::default(), settings);
    assert_eq!(host.set_bus(BusOp::Width(Width::W4), true, 0), Step::Done);
    assert_eq!(host.set_bus(BusOp::Clock(KERNEL_HZ), true, 0), Step::Done);
    assert_eq!(host.regs.get(CLOCK) & CLOCK_DIVIDER_MAX, 0);
    assert_eq!(host.set_bus(BusOp::Timing(Timing::Ddr52), true, 0), Step::Done);
    assert_eq!(host.regs.get(CLOCK) & (CLOCK_DDR | CLOCK_DIVIDER_MAX), CLOCK_DDR | 1);
    assert_eq!(host.bus.clock_hz(), KERNEL_HZ / 2);
    assert_eq!(host.set_bus(BusOp::Clock(50_000_000), true, 0), Step::Done);
    assert_eq!(host.bus.clock_hz(), 50_000_000);
}

#[test]
fn the_voltage_switch_takes_the_controllers_own_steps() {
    let mut host: Driver<1> = ready_on(Board::default(), config().signal18(true));
    host.start(&command(11, Resp::R1), &[], 0).unwrap();
    assert_eq!(host.regs.get(POWER), POWER_ON | POWER_SWITCH_ENABLE);
    host.regs.answers(11, 0x320);
    // The response alone does not end the phase: the clock must stop for the voltage switch.
    assert!(host.ack(&[]).phase.is_none() && host.regs.get(MASK) & CLOCK_STOPPED != 0);
    host.regs.raise(CLOCK_STOPPED | BUSY);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
    assert_eq!(host.dat_levels(), 0);
    host.regs.writes();
    // The clock has already stopped, and the clock register must not change now.
    assert_eq!(host.set_bus(BusOp::Clock(0), true, 0), Step::Done);
    assert!(host.regs.writes().is_empty());
    assert_eq!(host.set_bus(BusOp::Signal18(true), true, 0), Step::Wait(100_000));
    assert_eq!(host.regs.get(POWER), POWER_ON | POWER_SWITCH_ENABLE | POWER_SWITCH);
    host.regs.raise(SWITCH_END);
    host.regs.fall(BUSY);
    assert_eq!(host.set_bus(BusOp::Signal18(true), false, 6_000_000), Step::Done);
    assert_eq!(host.regs.get(POWER), POWER_ON);
    assert_eq!(host.dat_levels(), 0xf);
}

#[test]
fn a_voltage_that_never_comes_fails_in_time() {
    let mut host: Driver<1> = ready_on(Board::default(), config().signal18(true));
    host.start(&command(11, Resp::R1), &[], 0).unwrap();
    host.regs.answers(11, 0x320);
    host.regs.raise(CLOCK_STOPPED);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
    let mut step = host.set_bus(BusOp::Signal18(true), true, 0);
    let mut now_ns = 0;
    while let Step::Wait(at_ns) = step {
        now_ns = at_ns;
        step = host.set_bus(BusOp::Signal18(true), false, now_ns);
    }
    assert_eq!((step, now_ns), (Step::Failed, 100_000_000));
    // A controller that cannot switch to 1.8 V.
    let mut host = ready::<1>();
    assert_eq!(host.set_bus(BusOp::Signal18(true), true, 0), Step::Failed);
    assert_eq!(host.set_bus(BusOp::Signal18(false), true, 0), Step::Done);
}

#[test]
fn a_failed_data_path_is_ended_by_a_command() {
    let mut host = ready::<1>();
    host.start(&data(18, Direction::Read, 512, 8), &[at(0x2400_0000, 4096)], 1_000_000).unwrap();
    host.regs.answers(18, 0x900);
    host.regs.raise(DATA_CRC_FAIL | DATA_ACTIVE);
    assert_eq!(host.ack(&[]).phase, fault(Cause::Crc, Stage::Data, Some(0x900)));
    assert!(!host.regs.line());
    // No data can be started before the failed transfer is ended; a command can.
    let again = host.start(&data(18, Direction::Read, 512, 8), &[at(0x2400_0000, 4096)], 0);
    assert_eq!(again, Err(StartError::DataLine));
    host.regs.writes();
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Wait(100_000));
    let sent = (COMMAND, COMMAND_ENABLE | COMMAND_STOP | COMMAND_SHORT | 12);
    assert!(host.regs.writes().contains(&sent));
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 100_000), Step::Wait(200_000));
    host.regs.fall(DATA_ACTIVE);
    host.regs.raise(DATA_ABORTED | COMMAND_TIMEOUT);
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 200_000), Step::Done);
    let after = host.regs.writes();
    assert!(after.contains(&(DMA_CONTROL, 0)) && after.contains(&(DATA_CONTROL, DATA_FIFO_RESET)));
    assert_eq!(host.regs.flags.get() & STATIC, 0);
    host.start(&data(18, Direction::Read, 512, 8), &[at(0x2400_0000, 4096)], 0).unwrap();
}

#[test]
fn a_failed_cmd53_is_ended_by_io_abort() {
    let mut host = ready::<1>();
    let mut memory = [0; 64];
    let mut phase = data(53, Direction::Read, 64, 1);
    phase.command = Command::new(53, 3 << 28 | 64, Resp::R5);
    host.start(&phase, &[near(&mut memory)], 0).unwrap();
    assert_eq!(host.regs.get(DATA_CONTROL), DATA_READ | DATA_BYTES);
    host.regs.raise(DATA_TIMEOUT | DATA_ACTIVE | RESPONSE_END);
    assert!(host.ack(&[]).phase.unwrap().is_err());
    host.set_bus(BusOp::ResetLines, true, 0);
    assert_eq!(host.regs.last(ARGUMENT), Some(0x8000_0c03));
    assert_eq!(host.regs.last(COMMAND), Some(COMMAND_ENABLE | COMMAND_STOP | COMMAND_SHORT | 52));
}

#[test]
fn reset_lines_gives_up_a_phase_and_sends_nothing_if_nothing_works() {
    let mut host = ready::<1>();
    host.start(&command(13, Resp::R1), &[], 0).unwrap();
    host.regs.raise(COMMAND_ACTIVE);
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Wait(100_000));
    host.regs.fall(COMMAND_ACTIVE);
    host.regs.writes();
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 100_000), Step::Done);
    assert!(host.regs.writes().iter().all(|write| write.0 != COMMAND));
    // A controller that is gone fails at once; an operation that never ends fails after its time
    // limit.
    host.regs.raise(COMMAND_ACTIVE);
    host.set_bus(BusOp::ResetLines, true, 0);
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 100_000_000), Step::Failed);
    host.regs.gone.set(true);
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Failed);
    assert!(host.isolate());
}

#[test]
fn the_clock_tree_resets_the_whole_and_the_settings_are_written_again() {
    let board = Board { resets: true, ..Board::default() };
    let mut host: Driver<1> = ready_on(board, config());
    host.start(&data(25, Direction::Write, 512, 1), &[at(0x2400_0000, 512)], 0).unwrap();
    host.regs.raise(DATA_ACTIVE | COMMAND_ACTIVE);
    host.regs.writes();
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Done);
    assert_eq!(host.regs.last(CLOCK), Some(CLOCK_FLOW_CONTROL | 2));
    assert_eq!((host.regs.last(POWER), host.regs.last(MASK)), (Some(POWER_ON), Some(0)));
    assert!(host.ack(&[]).phase.is_none());
}

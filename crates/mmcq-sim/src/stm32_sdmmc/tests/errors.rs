//! Tests of errors in data, and of how a driver ends them.

use super::*;

/// Starts a read of two blocks by the IDMA or by the CPU.
fn read_two(rig: &mut Rig, by_idma: bool) -> Mapped {
    let memory = rig.to_read(1024);
    rig.w(IDMACTRL, 0);
    if by_idma {
        rig.buffer(memory.bus);
    }
    rig.prepare(READ | OPEN, 1024);
    rig.start(SHORT | TRANS | 18, 0);
    memory
}

#[test]
fn no_start_bit_is_a_timeout_and_the_path_waits_for_an_abort() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().stops_after = Some(1);
    rig.w(DTIMER, 5_000);
    read_two(&mut rig, true);
    rig.until(CMDREND);
    while rig.r(DCOUNT) == 1024 {
        rig.step();
    }
    let block = rig.now;
    // [58.5.4]: the timer counts from two clocks after the end of the block before.
    assert_eq!(rig.until(DTIMEOUT), CMDREND | DTIMEOUT | DPSMACT);
    assert_eq!(rig.now - block, 100 * (2 + 5_000));
    // [58.5.4, Wait_R]: the path stays active although its flags are cleared.
    rig.w(ICR, u32::MAX);
    rig.now += 1_000_000_000;
    assert_eq!(rig.sta(), DPSMACT);
    // [table 487]: a stop command aborts the data at its own end bit, before its response.
    let start = rig.now;
    rig.start(SHORT | STOP | 12, 0);
    assert_eq!(rig.until(DABORT), DABORT | CPSMACT);
    assert_eq!(rig.now - start, 4_800);
    rig.until(CMDREND);
    assert_eq!((rig.r(DCOUNT), rig.violations()), (512, 0));
}

#[test]
fn the_timer_counts_from_the_end_of_the_command_and_without_an_answer_too() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().deaf_to.push(18);
    rig.w(DTIMER, 5_000);
    let start = rig.now;
    read_two(&mut rig, true);
    rig.until(CTIMEOUT);
    // [58.5.4, Send]: a read starts at the end of the command, whatever the response.
    assert_eq!(rig.until(DTIMEOUT), CTIMEOUT | DTIMEOUT | DPSMACT);
    assert_eq!(rig.now - start, 100 * (48 + 2 + 5_000));
    rig.start(SHORT | STOP | 12, 0);
    rig.until(DABORT);
    // A write does not start without a good response [58.5.4, Receive].
    rig.until(CMDREND);
    rig.card.0.borrow_mut().deaf_to.push(25);
    rig.prepare(WRITE | OPEN, 1024);
    rig.start(SHORT | TRANS | 25, 0);
    assert_eq!(rig.until(CTIMEOUT), CTIMEOUT);
}

#[test]
fn a_bad_block_in_the_middle_stops_and_the_last_one_ends() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().bad_read = Some(0);
    read_two(&mut rig, true);
    // [58.5.4, Receive]: the path stays active if more blocks should come.
    assert_eq!(rig.until(DCRCFAIL), CMDREND | DCRCFAIL | DPSMACT);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    rig.card.0.borrow_mut().bad_read = Some(1);
    read_two(&mut rig, true);
    assert_eq!(rig.until(DCRCFAIL), CMDREND | DCRCFAIL);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND, "idle: nothing to abort");
    assert_eq!(rig.host.stats().blocks_bad, 2);
}

/// Checks that an abort of data by the CPU is complete only when FIFORST has been written [58.5.4,
/// 58.6.2].
#[test]
fn an_abort_by_the_cpu_needs_a_reset_of_the_fifo() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().bad_read = Some(0);
    read_two(&mut rig, false);
    let mut got = Vec::new();
    while rig.sta() & DCRCFAIL == 0 {
        rig.step();
        rig.drain(&mut got);
    }
    rig.command(12 | STOP, 0);
    rig.now += 1_000_000;
    assert_eq!(rig.sta() & (DABORT | DPSMACT), DPSMACT);
    rig.w(DCTRL, READ | OPEN | FIFORST);
    // [58.10.9]: the bit FIFORST clears itself.
    assert_eq!((rig.sta(), rig.r(DCTRL)), (CMDREND | DABORT, READ | OPEN));
    // FIFORST also works before the stop command: the bit stays set until then.
    read_two(&mut rig, false);
    while rig.sta() & DCRCFAIL == 0 {
        rig.step();
        rig.drain(&mut got);
    }
    rig.w(DCTRL, READ | OPEN | FIFORST);
    assert_eq!((rig.sta() & DPSMACT, rig.r(DCTRL) & FIFORST), (DPSMACT, FIFORST));
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    // In the idle state or with the IDMA, FIFORST has no effect [58.10.9].
    rig.w(DCTRL, READ | OPEN | FIFORST);
    assert_eq!((rig.r(DCTRL), rig.violations()), (READ | OPEN, 0));
}

#[test]
fn without_flow_control_the_fifo_runs_over_and_dry() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    read_two(&mut rig, false);
    // [58.5.4, Receive]: an overrun stops the read.
    let status = rig.until(RXOVERR | DATAEND);
    assert_eq!(status, CMDREND | RXOVERR | DPSMACT | RXFIFOF | RXFIFOHF);
    rig.w(DCTRL, READ | OPEN | FIFORST);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    rig.prepare(WRITE | OPEN, 1024);
    rig.start(SHORT | TRANS | 25, 0);
    rig.until(CMDREND);
    for _ in 0..16 {
        rig.w(FIFO, 0);
    }
    // [58.5.4, Send]: an underrun stops the write.
    let status = rig.until(TXUNDERR | DATAEND);
    assert_eq!(status & (TXUNDERR | DATAEND | DPSMACT), TXUNDERR | DPSMACT);
    rig.w(DCTRL, WRITE | OPEN | FIFORST);
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_bad_crc_status_waits_for_the_end_of_busy() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().write_busy_ns = 300_000;
    for (bytes, active) in [(1024, DPSMACT), (512, 0)] {
        rig.next(Point::WriteBlock, &[Strike::Crc]);
        let memory = rig.to_write(pattern(bytes));
        rig.buffer(memory.bus);
        rig.prepare(WRITE | OPEN, bytes as u32);
        rig.start(SHORT | TRANS | 25, 0);
        let start = rig.now;
        // [58.5.4, Busy; table 486]: the path is idle if it was the last block.
        assert_eq!(rig.until(DCRCFAIL), CMDREND | DCRCFAIL | active);
        assert!(rig.now - start > 300_000);
        rig.command(12 | STOP, 0);
        assert_eq!(rig.sta(), CMDREND | if active != 0 { DABORT } else { 0 });
    }
}

#[test]
fn no_crc_status_is_a_timeout_after_eight_clocks() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.next(Point::WriteBlock, &[Strike::NoStatus]);
    let memory = rig.to_write(pattern(512));
    rig.buffer(memory.bus);
    rig.prepare(WRITE, 512);
    let start = rig.now;
    rig.start(SHORT | TRANS | 24, 0);
    // [58.5.4]: the timer also counts here.
    assert_eq!(rig.until(DTIMEOUT), CMDREND | DTIMEOUT | DPSMACT);
    assert_eq!(rig.now - start, 10_400 + 100 * (8 + 1 + 1024 + 17 + 8));
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
}

#[test]
fn an_abort_in_the_middle_cuts_what_is_on_the_lines() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    read_two(&mut rig, true);
    rig.until(CMDREND);
    rig.now += 30_000;
    rig.start(SHORT | STOP | 12, 0);
    let status = rig.until(DABORT);
    assert_eq!((status, rig.r(DCOUNT)), (DABORT | CPSMACT, 1024));
    rig.until(CMDREND);
    // In a write DABORT comes when the card releases DAT0 [58.5.4, Send].
    rig.card.0.borrow_mut().r1b_busy_ns = 700_000;
    let memory = rig.to_write(pattern(1024));
    rig.buffer(memory.bus);
    rig.prepare(WRITE | OPEN, 1024);
    rig.start(SHORT | TRANS | 25, 0);
    rig.until(CMDREND);
    rig.now += 30_000;
    let start = rig.now;
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    assert_eq!(rig.until(DABORT), CMDREND | BUSYD0END | DABORT);
    assert_eq!(rig.now - start, 4_800 + 700_000);
    assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
}

#[test]
fn a_slow_start_bit_is_waited_for_and_the_data_stay_whole() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.next(Point::ReadBlock, &[Strike::Late(400_000), Strike::Flip(9)]);
    rig.w(DTIMER, 5_000);
    let memory = read_two(&mut rig, true);
    assert_eq!(rig.until(DATAEND | DTIMEOUT) & (DATAEND | DTIMEOUT), DATAEND);
    let mut expected = rig.stored(0, 1024);
    expected[512 + 1] ^= 0x40;
    assert_eq!(memory.take(), expected);
}

#[test]
fn timer_and_length_go_before_the_control_register() {
    for offset in [DTIMER, DLEN] {
        let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
        rig.prepare(READ, 512);
        rig.w(offset, 512);
        rig.start(SHORT | TRANS | 17, 0);
        assert_eq!(rig.violations(), 1, "{offset:#x}");
    }
}

//! Tests of phases from start to end.

use super::*;
use crate::host::BusyDetect;

fn fault_of<L: MshcLayout>(host: &mut Driver<L>, segments: &[Segment]) -> Fault {
    let fault = host.ack(segments).phase.expect("an end").expect_err("a bad one");
    assert!(!host.regs.line(), "nothing keeps the line asserted");
    fault
}

fn commands_and_their_responses<L: MshcLayout>() {
    let mut host = ready::<L>();
    let hold = if L::DESIGN_WARE { COMMAND_HOLD } else { 0 };
    let cases = [
        (command::sd::send_if_cond(1, 0xaa), COMMAND_RESPONSE | COMMAND_CRC | 8),
        (Command::new(0, 0, Resp::None), COMMAND_INIT | COMMAND_ABORTS),
        (Command::new(41, 0, Resp::R3), COMMAND_RESPONSE | 41),
        (Command::new(2, 0, Resp::R2), COMMAND_RESPONSE | COMMAND_LONG | COMMAND_CRC | 2),
        (Command::new(12, 0, Resp::R1b), COMMAND_RESPONSE | COMMAND_CRC | COMMAND_ABORTS | 12),
        (Command::new(52, 0x8000_0c08, Resp::R5), COMMAND_RESPONSE | COMMAND_CRC | COMMAND_ABORTS | 52),
        (Command::new(52, 0x8000_0e08, Resp::R5), COMMAND_RESPONSE | COMMAND_CRC | 52),
    ];
    for (at, word) in (0..).zip([0x0000_01aa, 0x2222_2222, 0x3333_3333, 0x4444_4444]) {
        host.regs.set(L::AT.response + 4 * at, word);
    }
    for (command, bits) in cases {
        host.start(&Phase::of(command), &[], 0).unwrap();
        assert_eq!(host.start(&Phase::of(command), &[], 0), Err(StartError::CommandLine));
        let log = host.regs.take_log();
        assert!(
            log.ends_with(&[(L::AT.argument, command.arg), (L::AT.command, COMMAND_START | hold | bits)])
        );
        assert!(host.ack(&[]).phase.is_none() && !host.regs.line());
        raise(&host, INT_COMMAND);
        assert!(host.regs.line(), "the end interrupts");
        let done = host.ack(&[]).phase.unwrap().unwrap();
        let words = match command.resp {
            Resp::None => [0; 4],
            Resp::R2 => [0x4444_4444, 0x3333_3333, 0x2222_2222, 0x0000_0100],
            _ => [0x1aa, 0, 0, 0],
        };
        assert_eq!(
            done,
            Done { response: crate::spec::response::Response { words }, stop: None, tuned: false }
        );
        assert!(!host.regs.line() && host.ack(&[]).phase.is_none());
    }
}

fn a_read_ends_when_it_is_in_memory<L: MshcLayout>() {
    let mut host = ready::<L>();
    let mut memory = [0u8; 8192];
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    host.regs.set(L::AT.response, 0x900);
    host.regs.set(L::AT.response + 4, 0xb00);
    host.start(&transfer(Direction::Read, 16), &[segment], 0).unwrap();
    let regs = host.regs;
    assert_eq!((regs.get(L::AT.block_size), regs.get(L::AT.byte_count)), (512, 8192));
    assert_eq!(regs.get(L::AT.list), TABLE_BUS as u32);
    assert_eq!(regs.get(L::AT.dma_mode), DMA_ON | DMA_FIXED_BURST);
    let kind = COMMAND_DATA | COMMAND_WAITS | COMMAND_AUTO_STOP | COMMAND_RESPONSE | COMMAND_CRC;
    assert_eq!(regs.get(L::AT.command) & !COMMAND_HOLD, kind | 18);
    raise(&host, INT_COMMAND | INT_DATA);
    assert_eq!(regs.line(), !L::DESIGN_WARE, "CMD12 is to come, and SMHC's R1 with it");
    assert!(host.ack(&[segment]).phase.is_none() && !regs.line());
    raise(&host, INT_AUTO_STOP | 1 << 16);
    assert!(regs.line());
    assert!(host.ack(&[segment]).phase.is_none(), "the DMA is still at it");
    assert!(!regs.line());
    regs.dma.set(DMA_RECEIVED | DMA_NORMAL);
    assert!(regs.line());
    let done = host.ack(&[segment]).phase.unwrap().unwrap();
    assert_eq!((done.response.words[0], done.stop), (0x900, Some(0xb00)));
    assert_eq!(regs.get(L::AT.dma_mode), 0);
    assert!(!regs.line() && host.ack(&[]).phase.is_none());
    host.unmap(&segment, Direction::Read);
    assert_eq!(host.dma.open.get(), 1, "the table alone");
}

fn a_write_needs_no_word_of_the_dma<L: MshcLayout>() {
    let mut host = ready::<L>();
    let mut memory = [0u8; 512];
    let segment = mapped(&mut host, &mut memory, Direction::Write);
    let phase = Phase { auto: Auto::None, ..transfer(Direction::Write, 1) };
    host.start(&phase, &[segment], 0).unwrap();
    assert_ne!(host.regs.get(L::AT.command) & COMMAND_WRITE, 0);
    // DesignWare reports the end of busy by this bit.
    raise(&host, INT_DATA | INT_START_BIT);
    assert!(host.regs.line());
    assert!(host.ack(&[segment]).phase.is_none(), "the command has no end yet");
    raise(&host, INT_COMMAND);
    assert!(host.regs.line(), "now its end interrupts");
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
    assert!(!host.regs.line());
    host.regs.set(L::AT.status, STATUS_BUSY);
    assert!(host.dat0_busy() && host.caps().busy == BusyDetect::Level);
    // An SMHC holds the command back until the card releases DAT0.
    let refused = if L::DESIGN_WARE { Err(StartError::DataLine) } else { Ok(()) };
    assert_eq!(host.start(&phase, &[segment], 0), refused);
    assert_ne!(host.regs.get(L::AT.command) & COMMAND_WAITS, 0);
    host.regs.set(L::AT.status, 0);
    assert_eq!(settle(&mut host, BusOp::ResetAll), Step::Done);
    host.unmap(&segment, Direction::Write);
}

/// Tests the detection of the end of busy, if the board allows it, by a clock update that waits for
/// DAT0 in an SMHC.
fn a_change_of_nothing_tells_of_the_end_of_busy<L: MshcLayout>() {
    let config = MshcConfig::new(SOURCE_HZ).busy_by_update(true).mask_dat0(true);
    let mut host = ready_with::<L>(config, 1);
    let told = !L::DESIGN_WARE;
    let busy = if told { BusyDetect::Interrupt } else { BusyDetect::Level };
    assert_eq!(host.caps().busy, busy);
    // DAT0 is no longer masked after the clock was changed.
    assert!(L::DESIGN_WARE || host.regs.get(SMHC_CLOCK) & CLOCK_MASKS_DAT0 == 0);
    let mut memory = [0u8; 512];
    let segment = mapped(&mut host, &mut memory, Direction::Write);
    let write = Phase { auto: Auto::None, ..transfer(Direction::Write, 1) };
    let switch = Phase::of(Command::new(6, 0, Resp::R1b));
    for (phase, segments, ends) in
        [(write, &[segment][..], INT_COMMAND | INT_DATA), (switch, &[], INT_COMMAND)]
    {
        host.start(&phase, segments, 0).unwrap();
        host.regs.take_log();
        host.regs.set(L::AT.response, 0x900);
        host.regs.set(L::AT.status, STATUS_BUSY);
        host.regs.stuck_clock.set(true);
        raise(&host, ends);
        let waits = COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_WAITS;
        assert_eq!(host.ack(segments).phase.is_none(), told);
        assert_eq!(host.regs.take_log().contains(&(L::AT.command, waits)), told);
        assert!(!host.regs.line());
        if told {
            // A call of `ack` during the wait changes nothing.
            assert!(host.ack(segments).phase.is_none() && !host.regs.line());
            host.regs.set(L::AT.command, 0);
            raise(&host, INT_COMMAND);
            assert!(host.regs.line());
            // The driver sends no second update to a controller that did not wait.
            assert_eq!(host.ack(segments).phase.unwrap().unwrap().response.words[0], 0x900);
        }
        host.regs.stuck_clock.set(false);
        host.regs.set(L::AT.status, 0);
    }
    // A card that is not busy costs only one read of the status.
    host.start(&write, &[segment], 0).unwrap();
    raise(&host, INT_COMMAND | INT_DATA);
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
    host.unmap(&segment, Direction::Write);
}

fn the_cpu_moves_odd_lengths<L: MshcLayout>() {
    let mut host = ready::<L>();
    let data = |direction, block_size| Phase {
        data: Some(Data { direction, block_size, blocks: 1 }),
        ..Phase::of(Command::new(53, 0, Resp::R5))
    };
    let mut memory = [0u8; 7];
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    host.start(&data(Direction::Read, 7), &[segment], 0).unwrap();
    raise(&host, INT_COMMAND);
    assert!(host.regs.line() && host.ack(&[segment]).phase.is_none() && !host.regs.line());
    host.regs.fifo.borrow_mut().push_back(0x0403_0201);
    raise(&host, INT_RX);
    assert!(host.regs.line() && host.ack(&[segment]).phase.is_none() && !host.regs.line());
    host.regs.fifo.borrow_mut().push_back(0xff07_0605);
    raise(&host, INT_DATA);
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
    assert_eq!(memory, [1, 2, 3, 4, 5, 6, 7]);
    // Fewer bytes than expected.
    host.start(&data(Direction::Read, 7), &[segment], 0).unwrap();
    raise(&host, INT_COMMAND | INT_DATA);
    assert_eq!(fault_of(&mut host, &[segment]).cause, Cause::Other);
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);

    // A write of more bytes than the FIFO holds.
    let mut memory = [0u8; 70];
    memory[65] = 0x5a;
    let segment = mapped(&mut host, &mut memory, Direction::Write);
    host.start(&data(Direction::Write, 70), &[segment], 0).unwrap();
    raise(&host, INT_COMMAND);
    assert!(host.ack(&[segment]).phase.is_none());
    assert_eq!(host.regs.fifo.borrow().len(), 16);
    host.regs.fifo.borrow_mut().clear();
    raise(&host, INT_TX);
    assert!(host.regs.line() && host.ack(&[segment]).phase.is_none() && !host.regs.line());
    assert_eq!(host.regs.fifo.borrow_mut().drain(..).collect::<Vec<_>>(), [0x5a00, 0]);
    raise(&host, INT_TX);
    assert!(!host.regs.line(), "there are no more");
    raise(&host, INT_DATA);
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
}

/// Tests words for which no interrupt comes, because the data have ended and the words do not reach
/// the threshold: those beyond one call's limit, and those that arrive with the end.
fn the_cpu_leaves_no_words_behind<L: MshcLayout>() {
    let mut host = ready::<L>();
    let data = Data { direction: Direction::Read, block_size: 2047, blocks: 1 };
    let phase = Phase { data: Some(data), ..Phase::of(Command::new(53, 0, Resp::R5)) };
    let mut memory = [0u8; 2047];
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    for (first, seen, calls) in [(512, INT_DATA, 1), (500, INT_RX, 2)] {
        host.start(&phase, &[segment], 0).unwrap();
        host.regs.fifo.borrow_mut().extend(0..first);
        host.regs.late.borrow_mut().extend(first..512);
        raise(&host, INT_COMMAND);
        for _ in 1..calls {
            raise(&host, seen);
            assert!(host.ack(&[segment]).phase.is_none());
        }
        raise(&host, seen);
        assert!(host.ack(&[segment]).phase.unwrap().is_ok(), "{first} words first");
        assert!(memory.chunks_exact(4).zip(0u32..).all(|(word, at)| word == at.to_le_bytes()));
        memory.fill(0);
    }
}

fn faults_say_what_and_where<L: MshcLayout>() {
    let command = |cause| (cause, Stage::Command, false);
    let data = |cause| (cause, Stage::Data, true);
    let cases = [
        (Direction::Read, INT_NO_RESPONSE | INT_COMMAND, command(Cause::Timeout)),
        (Direction::Read, INT_RESPONSE, command(Cause::Timeout)),
        (Direction::Read, INT_RESPONSE | INT_COMMAND, command(Cause::Other)),
        (Direction::Read, INT_RESPONSE_CRC | INT_COMMAND, command(Cause::Crc)),
        (Direction::Read, INT_LOCKED, command(Cause::Other)),
        (Direction::Read, INT_COMMAND | INT_DATA_CRC, data(Cause::Crc)),
        (Direction::Read, INT_COMMAND | INT_DATA_TIMEOUT, data(Cause::Timeout)),
        (Direction::Read, INT_COMMAND | INT_START_BIT, data(Cause::EndBit)),
        (Direction::Read, INT_COMMAND | INT_END_BIT, data(Cause::EndBit)),
        (Direction::Write, INT_COMMAND | INT_END_BIT, data(Cause::Timeout)),
        (Direction::Write, INT_COMMAND | INT_STARVED, data(Cause::Dma)),
        (Direction::Write, INT_COMMAND | INT_FIFO, data(Cause::Other)),
        (Direction::Write, INT_COMMAND | INT_DATA | INT_NO_RESPONSE, (Cause::Timeout, Stage::Stop, true)),
    ];
    for (direction, bits, wanted) in cases {
        let mut host = ready::<L>();
        let mut memory = [0u8; 1024];
        let segment = mapped(&mut host, &mut memory, direction);
        host.start(&transfer(direction, 2), &[segment], 0).unwrap();
        host.regs.set(L::AT.response, 0x900);
        raise(&host, bits);
        assert!(host.regs.line(), "{bits:#x} interrupts");
        let Fault { cause, stage, response } = fault_of(&mut host, &[segment]);
        assert_eq!((cause, stage, response.is_some()), wanted, "{bits:#x}");
        // Late events belong to no phase, and data can be started only after a reset.
        raise(&host, INT_DATA | INT_AUTO_STOP);
        assert!(!host.regs.line() && host.ack(&[]).phase.is_none());
        assert_eq!(host.start(&transfer(direction, 2), &[segment], 0), Err(StartError::DataLine));
        assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
        host.start(&transfer(direction, 2), &[segment], 0).unwrap();
    }
    let mut host = ready::<L>();
    let mut memory = [0u8; 1024];
    let segment = mapped(&mut host, &mut memory, Direction::Write);
    host.start(&transfer(Direction::Write, 2), &[segment], 0).unwrap();
    host.regs.dma.set(DMA_BUS_ERROR | DMA_ABNORMAL);
    assert!(host.regs.line());
    assert_eq!(fault_of(&mut host, &[segment]).cause, Cause::Dma);
}

fn all_ones_end_a_phase_as_gone<L: MshcLayout>() {
    let mut host = ready::<L>();
    let mut memory = [0u8; 1024];
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    host.start(&transfer(Direction::Read, 2), &[segment], 0).unwrap();
    // A single read may be lost on the bus.
    host.regs.raw.set(u32::MAX);
    assert!(host.ack(&[segment]).phase.is_none());
    host.regs.gone.set(true);
    let fault = host.ack(&[segment]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Gone, Stage::Data));
    assert!(!host.dat0_busy() && host.isolate());
    // A phase that starts now ends in the same way.
    host.start(&Phase::of(Command::new(13, 0, Resp::R1)), &[], 0).unwrap();
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap_err().cause, Cause::Gone);
}

fn what_cannot_be_moved_is_refused<L: MshcLayout>() {
    let mut host = ready_with::<L>(MshcConfig::new(SOURCE_HZ), 64);
    let mut memory = [[0u8; 64]; 160];
    let all = memory.as_flattened_mut();
    let at = all.as_ptr().align_offset(64);
    let all = &mut all[at..];
    // A length that is no multiple of a cache line: the CPU transfers it, and does not share a
    // transfer with the DMA.
    let short = mapped(&mut host, &mut all[..8], Direction::Read);
    let long = mapped(&mut host, &mut all[64..64 + 1024], Direction::Read);
    assert_eq!((short.bus, long.bus & BY_CPU), (BY_CPU, 0));
    let mut astray = Segment { ptr: NonNull::from(&mut all[4..]).cast(), len: 512, bus: 0 };
    assert_eq!(host.map(&mut astray, Direction::Read), Err(DmaError::Alignment));
    host.regs.take_log();
    let of = |block_size, blocks| Phase {
        data: Some(Data { direction: Direction::Read, block_size, blocks }),
        ..Phase::of(Command::new(18, 0, Resp::R1))
    };
    let refused = [
        (of(512, 3), &[long][..]),
        (of(512, 1), &[short, long]),
        (of(0, 1), &[long]),
        (of(512, 0), &[long]),
        (of(4096, 1), &[long]),
        (of(6, 1), &[long]),
        (of(3, 2), &[short]),
        (of(2048, u32::MAX), &[long]),
        (Phase { auto: Auto::Count(2), ..of(512, 2) }, &[long]),
        (Phase { auto: Auto::Continue, ..of(512, 2) }, &[long]),
        (Phase { tuning: true, ..of(512, 2) }, &[long]),
        (Phase { auto: Auto::Stop, data: None, ..of(512, 2) }, &[]),
    ];
    for (phase, segments) in refused {
        assert_eq!(host.start(&phase, segments, 0), Err(StartError::Unsupported), "{phase:?}");
        assert!(host.regs.take_log().is_empty(), "{phase:?}");
    }
    host.start(&of(512, 2), &[long], 0).unwrap();
}

in_both_layouts!(
    commands_and_their_responses,
    a_read_ends_when_it_is_in_memory,
    a_write_needs_no_word_of_the_dma,
    a_change_of_nothing_tells_of_the_end_of_busy,
    the_cpu_moves_odd_lengths,
    the_cpu_leaves_no_words_behind,
    faults_say_what_and_where,
    all_ones_end_a_phase_as_gone,
    what_cannot_be_moved_is_refused,
);

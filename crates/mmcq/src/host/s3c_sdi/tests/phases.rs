//! Tests of the register writes of a phase, and of how its status is read.

use super::*;

#[test]
fn a_direct_command_costs_five_accesses() {
    let mut host = ready();
    host.regs.set(RSP0, 0x1042);
    run(&mut host, &cmd52());
    host.regs.take_log();
    // Run the phase again, now that the right interrupts are enabled.
    assert_eq!(run(&mut host, &cmd52()).response.words, [0x1042, 0, 0, 0]);
    assert_eq!(
        host.regs.take_log(),
        [
            Write(CMDARG, 0x1000_2600),
            Write(CMDCON, 0x374),
            Read(CMDSTAT),
            Write(CMDSTAT, CMDSTAT_RESPONSE),
            Read(RSP0),
        ]
    );
}

#[test]
fn four_bytes_from_the_card_cost_nine_accesses() {
    let mut host = ready();
    let mut memory = [0; 4];
    let segments = [near(&mut memory)];
    let phase = cmd53(Direction::Read, 4, 1);
    let bytes = [0x12, 0x34, 0x56, 0x78];
    for first in [true, false] {
        host.start(&phase, &segments, 0).unwrap();
        let started = host.regs.take_log();
        if first {
            // The first phase sets block size and interrupts.
            assert_eq!(started[0], Write(BSIZE, 4));
            assert_eq!(started[2], Write(IMSK, 0x28f80));
        } else {
            let dcon = 0x80_0000 | 1 << 19 | 1 << 17 | 1 << 16 | 1 << 14 | 2 << 12 | 1;
            let arg = 0x1000_0004;
            assert_eq!(started, [Write(DCON, dcon), Write(CMDARG, arg), Write(CMDCON, 0x375)]);
        }
        host.regs.receive(&bytes);
        assert!(!host.regs.line(), "one interrupt, at the end");
        assert!(report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments).phase.unwrap().is_ok());
        assert!(!host.regs.line());
        assert_eq!(host.regs.take_others().len(), 6);
    }
    assert_eq!(memory, bytes);
}

#[test]
fn the_first_command_after_data_disarms_them() {
    let mut host = ready();
    let mut memory = [0; 4];
    let segments = [near(&mut memory)];
    host.start(&cmd53(Direction::Read, 4, 1), &segments, 0).unwrap();
    host.regs.receive(&[0; 4]);
    report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments).phase.unwrap().unwrap();
    host.regs.take_log();
    run(&mut host, &cmd52());
    let log = host.regs.take_log();
    assert_eq!(log[..2], [Write(DCON, 0), Write(IMSK, 0x2c000)]);
    assert_eq!(log.len(), 7);
}

#[test]
fn each_response_has_its_bits_and_its_end() {
    let mut host = ready();
    for (at, word) in [(0, 0x1111_1111), (4, 0x2222_2222), (8, 0x3333_3333), (12, 0x4444_44ff)] {
        host.regs.set(RSP0 + at, word);
    }
    for (resp, bits, words) in [
        (Resp::None, 0x140, [0; 4]),
        (Resp::R1, 0x340, [0x1111_1111, 0, 0, 0]),
        (Resp::R1b, 0x340, [0x1111_1111, 0, 0, 0]),
        (Resp::R2, 0x740, [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4400]),
        (Resp::R3, 0x340, [0x1111_1111, 0, 0, 0]),
        (Resp::R5, 0x340, [0x1111_1111, 0, 0, 0]),
    ] {
        let phase = plain(Command::new(3, 0xabcd, resp));
        assert_eq!(run(&mut host, &phase).response.words, words, "{resp:?}");
        assert_eq!(host.regs.get(CMDCON), bits | 3, "{resp:?}");
        assert_eq!(host.regs.get(CMDARG), 0xabcd);
    }
}

#[test]
fn a_crc_counts_where_the_standard_has_one() {
    let mut host = ready();
    for resp in [Resp::R1, Resp::R1b, Resp::R2, Resp::R5, Resp::R6, Resp::R7] {
        host.start(&plain(Command::new(3, 0, resp)), &[], 0).unwrap();
        let end = report(&mut host, CMDSTAT_RESPONSE | CMDSTAT_CRC, 0, &[]).phase;
        let fault = Fault { cause: Cause::Crc, stage: Stage::Command, response: None };
        assert_eq!(end, Some(Err(fault)), "{resp:?}");
        assert!(!host.regs.line());
    }
    host.regs.set(RSP0, 0x80ff_8000);
    for resp in [Resp::R3, Resp::R4] {
        for bits in [CMDSTAT_RESPONSE | CMDSTAT_CRC, CMDSTAT_CRC, CMDSTAT_RESPONSE] {
            host.start(&plain(Command::new(5, 0, resp)), &[], 0).unwrap();
            let done = report(&mut host, bits, 0, &[]).phase.unwrap().unwrap();
            assert_eq!(done.response.words[0], 0x80ff_8000);
        }
    }
}

#[test]
fn no_response_is_a_timeout() {
    let mut host = ready();
    host.start(&cmd52(), &[], 0).unwrap();
    // "Command sent" does not end a command that has a response.
    assert!(report(&mut host, CMDSTAT_SENT, 0, &[]).phase.is_none());
    assert!(!host.regs.line());
    let end = report(&mut host, CMDSTAT_TIMEOUT, 0, &[]).phase;
    assert_eq!(end, Some(Err(Fault { cause: Cause::Timeout, stage: Stage::Command, response: None })));
}

#[test]
fn data_errors_are_told_apart() {
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    for (direction, command, data, fail, cause, stage) in [
        (Direction::Read, CMDSTAT_RESPONSE, DSTA_CRC, 0, Cause::Crc, Stage::Data),
        (Direction::Read, CMDSTAT_RESPONSE, DSTA_CRC | DSTA_FINISH, 0, Cause::Crc, Stage::Data),
        (Direction::Read, CMDSTAT_RESPONSE, DSTA_TIMEOUT, 0, Cause::Timeout, Stage::Data),
        (Direction::Write, CMDSTAT_RESPONSE, DSTA_CRC_STATUS, 0, Cause::Crc, Stage::Data),
        (Direction::Read, CMDSTAT_RESPONSE, DSTA_FIFO, 0, Cause::Other, Stage::Data),
        (Direction::Read, CMDSTAT_RESPONSE, 0, 1 << 14, Cause::Other, Stage::Data),
        (Direction::Write, CMDSTAT_RESPONSE, 0, 1 << 15, Cause::Other, Stage::Data),
        // The end is reported before the data have arrived.
        (Direction::Read, CMDSTAT_RESPONSE, DSTA_FINISH, 0, Cause::Other, Stage::Data),
        (Direction::Write, CMDSTAT_RESPONSE, DSTA_FINISH, 0, Cause::Other, Stage::Data),
        // An error of the command is reported before an error of the data.
        (Direction::Read, CMDSTAT_TIMEOUT, DSTA_TIMEOUT, 0, Cause::Timeout, Stage::Command),
        (Direction::Write, CMDSTAT_CRC | CMDSTAT_RESPONSE, DSTA_CRC_STATUS, 0, Cause::Crc, Stage::Command),
    ] {
        let mut host = ready();
        host.regs.set(RSP0, 0x2000);
        host.start(&cmd53(direction, 512, 1), &segments, 0).unwrap();
        host.regs.fail.set(fail);
        let Some(Err(fault)) = report(&mut host, command, data, &segments).phase else {
            panic!("{direction:?} {command:x} {data:x} {fail:x} must fail")
        };
        assert_eq!((fault.cause, fault.stage), (cause, stage), "{direction:?} {command:x} {data:x}");
        assert_eq!(fault.response.map(|r| r.words[0]), (stage == Stage::Data).then_some(0x2000));
        // Whatever the circuits do afterwards, the interrupt line stays inactive.
        assert!(!host.regs.line());
        host.regs.fifo.borrow_mut().resize(40, 0);
        assert!(!host.regs.line());
    }
}

#[test]
fn a_finish_beats_a_timeout() {
    let mut host = ready();
    let mut memory = [0; 4];
    let segments = [near(&mut memory)];
    host.start(&cmd53(Direction::Read, 4, 1), &segments, 0).unwrap();
    host.regs.receive(&[1, 2, 3, 4]);
    let end = report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH | DSTA_TIMEOUT, &segments);
    assert!(end.phase.unwrap().is_ok());
}

#[test]
fn a_controller_that_is_gone_says_so() {
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    for (phase, stage) in [
        (cmd52(), Stage::Command),
        (cmd53(Direction::Read, 4, 1), Stage::Data),
        (cmd53(Direction::Read, 512, 1), Stage::Data),
        (cmd53(Direction::Write, 512, 1), Stage::Data),
    ] {
        let mut host = ready();
        host.card_irq(true);
        host.start(&phase, &segments, 0).unwrap();
        host.regs.gone.set(true);
        let events = host.ack(&segments);
        assert_eq!(events.phase, Some(Err(Fault { cause: Cause::Gone, stage, response: None })));
        assert!(!events.card_irq);
        let events = host.ack(&[]);
        assert!(events.phase.is_none() && !events.card_irq);
        // No phase can be started.
        assert_eq!(host.start(&phase, &segments, 0), Err(StartError::CommandLine));
    }
}

#[test]
fn what_it_cannot_do_is_refused_before_anything_is_written() {
    let mut host = ready();
    let mut memory = vec![0; 4096 * 2];
    let segments = [near(&mut memory)];
    let refused = [
        Phase { auto: Auto::Stop, ..cmd53(Direction::Read, 512, 2) },
        Phase { auto: Auto::Count(2), ..cmd53(Direction::Read, 512, 2) },
        Phase { auto: Auto::Continue, ..cmd53(Direction::Read, 512, 2) },
        Phase { tuning: true, ..cmd53(Direction::Read, 64, 1) },
        cmd53(Direction::Read, 0, 1),
        cmd53(Direction::Read, 4, 0),
        cmd53(Direction::Read, 1, 4096),
        cmd53(Direction::Read, 4, u32::MAX),
        cmd53(Direction::Read, 2049, 1),
        cmd53(Direction::Read, 510, 2),
        // More bytes than the memory has.
        cmd53(Direction::Read, 2048, 5),
    ];
    for phase in refused {
        assert_eq!(host.start(&phase, &segments, 0), Err(StartError::Unsupported), "{phase:?}");
    }
    assert_eq!(host.regs.take_log(), []);
    host.start(&cmd52(), &[], 0).unwrap();
    assert_eq!(host.start(&cmd52(), &[], 0), Err(StartError::CommandLine));
}

#[test]
fn after_an_error_the_lines_are_looked_at() {
    let mut host = ready();
    host.start(&cmd52(), &[], 0).unwrap();
    report(&mut host, CMDSTAT_TIMEOUT, 0, &[]).phase.unwrap().unwrap_err();
    host.regs.command.set(CMDSTAT_ON);
    assert_eq!(host.start(&cmd52(), &[], 0), Err(StartError::CommandLine));
    host.regs.command.set(CMDSTAT_RESPONSE);
    host.regs.data.set(1);
    let mut memory = [0; 4];
    let segments = [near(&mut memory)];
    let data = cmd53(Direction::Write, 4, 1);
    assert_eq!(host.start(&data, &segments, 0), Err(StartError::DataLine));
    host.regs.data.set(DSTA_FINISH);
    host.regs.receive(&[9; 8]);
    host.start(&data, &segments, 0).unwrap();
    // No status bit and no data of the earlier phase are left.
    assert_eq!((host.regs.command.get(), host.regs.data.get()), (0, 0));
    assert_eq!(host.regs.send(64), [0; 4]);
}

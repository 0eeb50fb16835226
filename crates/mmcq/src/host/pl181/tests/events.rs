//! Tests of how commands end, with and without errors.

use super::*;

#[test]
fn each_response_has_its_command_bits_and_its_end() {
    for (resp, bits, end) in [
        (Resp::None, 0x400, COMMAND_SENT),
        (Resp::R1, 0x440, RESPONSE_END),
        (Resp::R1b, 0x440, RESPONSE_END),
        (Resp::R2, 0x4c0, RESPONSE_END),
        (Resp::R3, 0x440, COMMAND_CRC_FAIL),
        (Resp::R4, 0x440, COMMAND_CRC_FAIL),
        (Resp::R3, 0x440, RESPONSE_END),
        (Resp::R7, 0x440, RESPONSE_END),
    ] {
        let mut host = ready();
        host.start(&command(7, resp), &[], 1).unwrap();
        assert_eq!(host.regs.get(COMMAND), bits | 7, "{resp:?}");
        assert!(host.ack(&[]).phase.is_none());
        assert_eq!(host.start(&command(8, resp), &[], 1), Err(StartError::CommandLine));
        for (at, word) in [0x0011_2233, 0x4455_6677, 0x8899_aabb, 0xccdd_eefe].into_iter().enumerate() {
            host.regs.set(RESPONSE_0 + 4 * at as u16, word);
        }
        host.regs.raise(end);
        assert!(host.regs.line());
        let words = host.ack(&[]).phase.unwrap().unwrap().response.words;
        match resp {
            Resp::None => assert_eq!(words, [0; 4]),
            Resp::R2 => assert_eq!(words, [0x0011_2233, 0x4455_6677, 0x8899_aabb, 0xccdd_ee00]),
            _ => assert_eq!(words, [0x0011_2233, 0, 0, 0]),
        }
        assert_eq!(host.regs.get(COMMAND), 0);
        assert!(!host.regs.line());
        host.start(&command(8, resp), &[], 1).unwrap();
    }
}

#[test]
fn an_answer_to_another_command_is_an_error_where_the_index_is_kept() {
    for (index, expected) in [(0, None), (13, None), (12, Some(Cause::Index))] {
        let mut host = ready();
        host.start(&command(13, Resp::R1), &[], 1).unwrap();
        answer(&host, index, 0x900);
        let result = host.ack(&[]).phase.unwrap();
        assert_eq!(result.err().map(|fault| fault.cause), expected);
    }
    // R2 and R3 carry the index 63.
    for resp in [Resp::R2, Resp::R3] {
        let mut host = ready();
        host.start(&command(2, resp), &[], 1).unwrap();
        answer(&host, 63, 0);
        assert!(host.ack(&[]).phase.unwrap().is_ok());
    }
}

#[test]
fn flags_name_cause_and_stage() {
    let table = [
        (COMMAND_TIMEOUT, Cause::Timeout, Stage::Command),
        (COMMAND_CRC_FAIL, Cause::Crc, Stage::Command),
        (COMMAND_CRC_FAIL | COMMAND_TIMEOUT | DATA_TIMEOUT, Cause::Crc, Stage::Command),
        (DATA_CRC_FAIL, Cause::Crc, Stage::Data),
        (DATA_TIMEOUT, Cause::Timeout, Stage::Data),
        (START_BIT, Cause::EndBit, Stage::Data),
        (RX_OVERRUN, Cause::Other, Stage::Data),
        (TX_UNDERRUN, Cause::Other, Stage::Data),
        (DATA_CRC_FAIL | RX_OVERRUN | DATA_END, Cause::Crc, Stage::Data),
    ];
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    for (flags, cause, stage) in table {
        let mut host = ready();
        host.start(&data(17, Direction::Read, 512, 1), &segments, 1).unwrap();
        host.regs.rx.borrow_mut().extend([1, 2, 3]);
        host.regs.raise(flags);
        assert_eq!(host.ack(&segments).phase, Some(Err(fault(cause, stage))), "{flags:#x}");
        let regs = &host.regs;
        assert_eq!(regs.get(MASK_0) | regs.get(COMMAND) | regs.get(DATA_CONTROL) | regs.flags.get(), 0);
        assert!(regs.rx.borrow().is_empty(), "stale data stay in the FIFO");
    }
    let mut host = ready();
    host.start(&data(17, Direction::Read, 512, 1), &segments, 1).unwrap();
    answer(&host, 17, 0x900);
    host.regs.raise(DATA_CRC_FAIL);
    let fault = host.ack(&segments).phase.unwrap().unwrap_err();
    assert_eq!(fault.response.unwrap().words[0], 0x900);
}

/// Tests every pair of static flags in every kind of phase: the driver must not panic, must report
/// only an end that the flags justify, and must leave no static flag set whose interrupt is
/// enabled.
#[test]
fn every_status_has_a_meaning() {
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    let data_errors = DATA_CRC_FAIL | DATA_TIMEOUT | TX_UNDERRUN | RX_OVERRUN | START_BIT;
    let kinds = [
        (None, 0, 0, 0),
        (Some(command(0, Resp::None)), COMMAND_SENT, 0, COMMAND_SENT),
        (Some(command(13, Resp::R1)), RESPONSE_END, COMMAND_CRC_FAIL | COMMAND_TIMEOUT, RESPONSE_END),
        (Some(command(41, Resp::R3)), RESPONSE_END | COMMAND_CRC_FAIL, COMMAND_TIMEOUT, RESPONSE_END),
        (
            Some(data(17, Direction::Read, 512, 1)),
            0,
            COMMAND_CRC_FAIL | COMMAND_TIMEOUT | data_errors,
            RESPONSE_END,
        ),
        (Some(data(24, Direction::Write, 512, 1)), 0, COMMAND_CRC_FAIL | COMMAND_TIMEOUT, RESPONSE_END),
    ];
    for (phase, good, bad, answered) in kinds {
        for (a, b) in (0..11).flat_map(|a| (0..=a).map(move |b| (a, b))) {
            let mut host = ready();
            if let Some(phase) = phase {
                host.start(&phase, &segments, 1).unwrap();
            }
            let flags = 1u32 << a | 1 << b;
            host.regs.raise(flags);
            match host.ack(&segments).phase {
                Some(Ok(_)) => assert!(flags & good != 0, "{flags:#x}"),
                Some(Err(fault)) => {
                    assert_ne!(flags & bad, 0, "{flags:#x}");
                    let command = flags & answered == 0 && flags & (COMMAND_CRC_FAIL | COMMAND_TIMEOUT) != 0;
                    assert_eq!(fault.stage == Stage::Command, command, "{flags:#x}");
                }
                None => {
                    let hidden = if flags & answered != 0 { COMMAND_CRC_FAIL | COMMAND_TIMEOUT } else { 0 };
                    assert_eq!(flags & (good | bad & !hidden), 0, "{flags:#x}");
                }
            }
            let levels = TX_HALF_EMPTY | RX_HALF_FULL | RX_AVAILABLE;
            assert_eq!(host.regs.flags.get() & host.regs.get(MASK_0) & !levels, 0, "{flags:#x}");
        }
    }
}

#[test]
fn a_dead_controller_is_gone() {
    let mut host = ready();
    let mut memory = [0; 512];
    let segments = [near(&mut memory)];
    host.start(&data(17, Direction::Read, 512, 1), &segments, 1).unwrap();
    host.regs.raise(u32::MAX);
    assert_eq!(host.ack(&segments).phase, Some(Err(fault(Cause::Gone, Stage::Data))));
    assert_eq!(host.start(&command(13, Resp::R1), &[], 1), Err(StartError::CommandLine));
    for op in [BusOp::ResetLines, BusOp::ResetAll, BusOp::Clock(400_000)] {
        host.regs.flags.set(u32::MAX);
        let fake = &host.regs;
        fake.rx.borrow_mut().clear();
        assert_ne!(host.set_bus(op, true, 0), Step::Wait(0));
    }
}

#[test]
fn without_a_phase_nothing_may_interrupt() {
    let mut host = ready();
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    answer(&host, 13, 0);
    host.ack(&[]).phase.unwrap().unwrap();
    host.regs.raise(COMMAND_TIMEOUT);
    assert!(host.regs.line());
    assert!(host.ack(&[]).phase.is_none());
    assert!(!host.regs.line());
    host.regs.take_log();
    assert!(host.ack(&[]).phase.is_none());
    assert_eq!(host.regs.take_log(), []);
}

//! Tests of data that the CPU transfers, in as many interrupts as needed.

use super::*;

#[test]
fn every_length_comes_in_whole() {
    for len in (1..=140).chain([255, 510, 511, 512, 2045, 2048]) {
        for burst in [32, 33, 47, 64] {
            let bytes = pattern(len);
            let mut memory = vec![0xee; len + 1];
            let segments = [near(&mut memory[..len])];
            let mut host = ready();
            host.start(&cmd53(Direction::Read, len as u16, 1), &segments, 0).unwrap();
            receive_all(&mut host, &bytes, burst, &segments);
            assert_eq!(memory[..len], bytes, "{len} bytes, {burst} an interrupt");
            assert_eq!(memory[len], 0xee);
            assert!(host.regs.fifo.borrow().is_empty());
        }
    }
}

#[test]
fn every_length_goes_out_whole() {
    for len in (1..=140).chain([255, 510, 511, 512, 2045, 2048]) {
        for keep in [0, 13, 32] {
            let mut memory = pattern(len);
            let segments = [near(&mut memory)];
            let mut host = ready();
            host.start(&cmd53(Direction::Write, len as u16, 1), &segments, 0).unwrap();
            let (got, _, interrupts) = send_all(&mut host, len, keep, &segments);
            assert_eq!(got, pattern(len), "{len} bytes, {keep} kept");
            assert!(host.regs.fifo.borrow().is_empty(), "what filled the last word up is gone");
            if len <= 60 {
                assert_eq!(interrupts, 1, "{len} bytes fit at once");
            }
        }
    }
}

#[test]
fn pieces_of_any_size_are_one_stream() {
    for sizes in [&[1usize, 511][..], &[3, 2, 507], &[4, 60, 448], &[64, 0, 448], &[510, 2]] {
        let bytes = pattern(512);
        let mut parts: Vec<Vec<u8>> = sizes.iter().map(|&len| vec![0; len]).collect();
        let segments: Vec<Segment> = parts.iter_mut().map(|part| near(part)).collect();
        let mut host = ready();
        host.start(&cmd53(Direction::Read, 512, 1), &segments, 0).unwrap();
        receive_all(&mut host, &bytes, 40, &segments);
        host.start(&cmd53(Direction::Write, 128, 4), &segments, 0).unwrap();
        let (got, ..) = send_all(&mut host, 512, 20, &segments);
        assert_eq!(got, bytes, "{sizes:?}");
        assert_eq!(parts.concat(), bytes, "{sizes:?}");
    }
}

#[test]
fn two_kibibytes_cost_what_the_table_says() {
    let bytes = pattern(2048);
    let mut memory = vec![0; 2048];
    let segments = [near(&mut memory)];
    let mut host = ready();
    let read = cmd53(Direction::Read, 512, 4);
    // The first phase is not counted, since it also sets block size and interrupts.
    for limit in [usize::MAX, 73] {
        host.regs.take_log();
        host.start(&read, &segments, 0).unwrap();
        let (_, interrupts) = receive_all(&mut host, &bytes, 32, &segments);
        let accesses = host.regs.take_others().len();
        assert!(accesses <= limit && interrupts <= 65, "{accesses} accesses, {interrupts} interrupts");
    }
    host.start(&read, &segments, 0).unwrap();
    // If interrupts are late, each finds more data in the FIFO.
    let (_, interrupts) = receive_all(&mut host, &bytes, 64, &segments);
    assert!(interrupts <= 33);
    assert!(host.regs.take_others().len() <= 41);

    let write = cmd53(Direction::Write, 512, 4);
    for limit in [usize::MAX, 81] {
        host.regs.take_log();
        host.start(&write, &segments, 0).unwrap();
        let (got, _, interrupts) = send_all(&mut host, 2048, 32, &segments);
        let accesses = host.regs.take_others().len();
        assert!(accesses <= limit && interrupts <= 72, "{accesses} accesses, {interrupts} interrupts");
        assert_eq!(got, bytes);
    }
}

#[test]
fn the_data_circuits_are_told_what_comes() {
    let mut memory = vec![0; 4095 * 4];
    let segments = [near(&mut memory)];
    let common = 2 << 22 | 1 << 17 | 1 << 14;
    for (direction, way) in [(Direction::Read, 1 << 19 | 2 << 12), (Direction::Write, 1 << 20 | 3 << 12)] {
        for (width, wide) in [(Width::W1, 0), (Width::W4, 1 << 16)] {
            let mut host = ready();
            assert_eq!(host.set_bus(BusOp::Width(width), true, 0), Step::Done);
            host.start(&cmd53(direction, 4, 4095), &segments, 0).unwrap();
            assert_eq!(host.regs.get(DCON), common | way | wide | 4095);
            assert_eq!(host.regs.get(BSIZE), 4);
        }
    }
}

#[test]
fn a_write_fills_the_fifo_before_its_command() {
    let mut host = ready();
    let mut memory = pattern(100);
    let segments = [near(&mut memory)];
    host.start(&cmd53(Direction::Write, 100, 1), &segments, 0).unwrap();
    let log = host.regs.take_log();
    let dcon = log.iter().position(|access| matches!(access, Write(DCON, _))).unwrap();
    let words = log.iter().filter(|access| matches!(access, Write(DATA, _))).count();
    assert_eq!(words, 15);
    assert!(log[dcon + 1..=dcon + 15].iter().all(|access| matches!(access, Write(DATA, _))));
    assert_eq!(log[log.len() - 2..], [Write(CMDARG, 0x9000_0064), Write(CMDCON, 0x375)]);
    assert!(!host.regs.line(), "a FIFO that is full asks for nothing");
    // The rest is written at the first interrupt; afterwards the half-empty level may stay set.
    host.regs.send(30);
    assert!(host.regs.line());
    assert!(host.ack(&segments).phase.is_none());
    host.regs.send(30);
    assert!(host.regs.line());
    assert!(host.ack(&segments).phase.is_none());
    host.regs.send(64);
    assert!(!host.regs.line());
}

#[test]
fn response_and_data_end_in_any_order() {
    for order in [[true, false], [false, true]] {
        let mut memory = [0; 4];
        let segments = [near(&mut memory)];
        let mut host = ready();
        host.start(&cmd53(Direction::Read, 4, 1), &segments, 0).unwrap();
        host.regs.receive(&[5, 6, 7, 8]);
        let [first, second] =
            order.map(|response| if response { (CMDSTAT_RESPONSE, 0) } else { (0, DSTA_FINISH) });
        assert!(report(&mut host, first.0, first.1, &segments).phase.is_none());
        assert!(!host.regs.line());
        host.regs.command.set(second.0);
        host.regs.data.set(second.1);
        assert!(host.regs.line(), "the second interrupts");
        assert!(host.ack(&segments).phase.unwrap().is_ok());
        assert_eq!(memory, [5, 6, 7, 8]);
    }
}

#[test]
fn an_ack_too_many_does_no_harm() {
    let bytes = pattern(64);
    let mut memory = vec![0; 64];
    let segments = [near(&mut memory)];
    let mut host = ready();
    host.start(&cmd53(Direction::Read, 64, 1), &segments, 0).unwrap();
    assert!(host.ack(&segments).phase.is_none());
    host.regs.receive(&bytes[..20]);
    assert!(host.ack(&segments).phase.is_none());
    host.regs.receive(&bytes[20..45]);
    assert!(host.ack(&segments).phase.is_none());
    assert!(host.ack(&segments).phase.is_none());
    host.regs.receive(&bytes[45..]);
    assert!(report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments).phase.unwrap().is_ok());
    assert!(host.ack(&[]).phase.is_none());
    assert_eq!(memory, bytes);
}

/// Tests surplus bytes, which arrive in the FIFO with the last requested bytes or after them: the
/// next read does not get them.
#[test]
fn bytes_left_in_the_fifo_are_not_the_next_reads_first() {
    // (bytes requested, bytes before each interrupt, bytes that arrive with the end)
    for (len, before, with_end) in [
        (4, &[][..], 8),
        (12, &[][..], 64),
        (32, &[40][..], 0),
        (64, &[32, 32][..], 4),
        (96, &[64, 64][..], 0),
    ] {
        let what = std::format!("{len} bytes: {before:?}, then {with_end}");
        let mut memory = vec![0; len];
        let segments = [near(&mut memory)];
        let mut host = ready();
        host.start(&cmd53(Direction::Read, len as u16, 1), &segments, 0).unwrap();
        let mut bytes = pattern(200).into_iter();
        for &count in before {
            host.regs.receive(&bytes.by_ref().take(count).collect::<Vec<_>>());
            assert!(host.ack(&segments).phase.is_none(), "{what}");
        }
        host.regs.receive(&bytes.take(with_end).collect::<Vec<_>>());
        assert!(report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments).phase.unwrap().is_ok(), "{what}");
        assert_eq!(memory, pattern(len), "{what}");

        let mut memory = [0; 4];
        let segments = [near(&mut memory)];
        host.start(&cmd53(Direction::Read, 4, 1), &segments, 0).unwrap();
        host.regs.receive(&[0xa1, 0xa2, 0xa3, 0xa4]);
        assert!(report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments).phase.unwrap().is_ok(), "{what}");
        assert_eq!(memory, [0xa1, 0xa2, 0xa3, 0xa4], "{what}");
    }
}

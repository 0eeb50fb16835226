//! Tests of data through the FIFO.

use super::*;

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 256) as u8).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |piece: &[u8]| (0..).zip(piece).fold(0, |word, (n, &b)| word | u32::from(b) << (8 * n));
    bytes.chunks(4).map(word).collect()
}

const SHAPES: [(u16, u32); 9] =
    [(1, 1), (2, 1), (4, 3), (8, 1), (64, 1), (512, 1), (512, 8), (512, 127), (2048, 31)];

#[test]
fn reads_of_every_shape_at_every_pace() {
    for (size, blocks) in SHAPES {
        let sent = content(usize::from(size) * blocks as usize);
        for (pace, repeats_end) in [1, 3, 8, 16, 100].into_iter().flat_map(|p| [(p, false), (p, true)]) {
            let mut host = ready();
            host.regs.pace.set(pace);
            host.regs.repeats_end.set(repeats_end);
            host.regs.card.borrow_mut().extend(words(&sent));
            let mut memory = vec![0; sent.len()];
            let (one, two) = memory.split_at_mut(sent.len() / 2);
            let segments = [near(one), near(two)];
            host.start(&data(18, Direction::Read, size, blocks), &segments, 100_000_000).unwrap();
            answer(&host, 18, 0x900);
            let (result, _) = run(&mut host, &segments);
            assert_eq!(result.unwrap().response.words[0], 0x900);
            assert!(memory == sent, "{size} x {blocks} at {pace}");
            assert!(!host.regs.line());
            assert_eq!(host.regs.get(DATA_CONTROL) | host.regs.get(COMMAND), 0);
        }
    }
}

#[test]
fn writes_of_every_shape_at_every_pace() {
    for (size, blocks) in SHAPES {
        let mut memory = content(usize::from(size) * blocks as usize);
        let expected = words(&memory);
        for pace in [1, 3, 8, 16, 100] {
            let mut host = ready();
            host.regs.pace.set(pace);
            let (one, two) = memory.split_at_mut(usize::from(size));
            let segments = [near(one), near(two)];
            host.start(&data(25, Direction::Write, size, blocks), &segments, 100_000_000).unwrap();
            answer(&host, 25, 0x900);
            let (result, _) = run(&mut host, &segments);
            assert_eq!(result.unwrap().response.words[0], 0x900);
            assert!(*host.regs.sent.borrow() == expected, "{size} x {blocks} at {pace}");
            assert!(!host.regs.line());
            assert_eq!(host.regs.get(DATA_CONTROL) | host.regs.get(COMMAND), 0);
        }
    }
}

#[test]
fn one_call_moves_a_block_at_most() {
    let mut memory = vec![0; 64 * 512];
    let segments = [near(&mut memory)];
    for direction in [Direction::Read, Direction::Write] {
        let mut host = ready();
        // The bus is faster than any CPU, so the FIFO is always ready.
        host.regs.pace.set(FIFO_WORDS);
        host.regs.card.borrow_mut().extend(vec![0; 64 * 128]);
        host.start(&data(18, direction, 512, 64), &segments, 1).unwrap();
        answer(&host, 18, 0);
        loop {
            host.regs.take_log();
            let events = host.ack(&segments);
            let end = events.phase;
            let log = host.regs.take_log();
            assert!(events.acknowledged, "the interrupt was of this controller: {log:?}");
            let moved = log.iter().filter(|&&a| matches!(a, Access::Read(FIFO) | Access::Write(FIFO, _)));
            assert!(moved.count() <= 128 && log.len() < 300);
            if let Some(end) = end {
                break assert!(end.is_ok());
            }
        }
    }
}

#[test]
fn a_read_is_armed_before_its_command_and_a_write_after_its_response() {
    let mut memory = [0; 1024];
    let segments = [near(&mut memory)];
    let mut host = ready();
    host.start(&data(18, Direction::Read, 512, 2), &segments, 1_000_000).unwrap();
    let mask = COMMAND_CRC_FAIL
        | COMMAND_TIMEOUT
        | DATA_END
        | DATA_CRC_FAIL
        | DATA_TIMEOUT
        | RX_OVERRUN
        | START_BIT
        | RX_HALF_FULL;
    assert_eq!(
        host.regs.writes(),
        [
            (CLEAR, 0x7ff),
            (DATA_TIMER, 24_000 + 248),
            (DATA_LENGTH, 1024),
            (DATA_CONTROL, 0x93),
            (MASK_0, mask),
            (ARGUMENT, 0x1234_5678),
            (COMMAND, 0x400 | 0x40 | 18),
        ]
    );

    let mut host = ready();
    // QEMU's model reports an end of data with every command.
    host.start(&data(25, Direction::Write, 512, 2), &segments, 1_000_000).unwrap();
    host.regs.raise(DATA_END | DATA_BLOCK_END);
    let writes = host.regs.writes();
    assert!(writes.iter().all(|&(at, _)| at != DATA_CONTROL));
    assert_eq!(writes.last(), Some(&(COMMAND, 0x400 | 0x40 | 25)));
    assert!(!host.regs.line());
    answer(&host, 25, 0);
    assert!(host.regs.line());
    assert!(host.ack(&segments).phase.is_none());
    let writes = host.regs.writes();
    let at = |offset| writes.iter().position(|&(at, _)| at == offset);
    assert!(writes.contains(&(DATA_CONTROL, 0x91)));
    assert!(at(CLEAR) < at(DATA_CONTROL) && at(DATA_CONTROL) < at(FIFO));
    assert_eq!(host.regs.sent.borrow().len(), FIFO_WORDS);
    assert_eq!(host.regs.get(MASK_0) & (TX_HALF_EMPTY | DATA_END), TX_HALF_EMPTY | DATA_END);
}

#[test]
fn the_rest_of_a_read_interrupts_word_by_word() {
    let mut memory = [0; 8];
    let segments = [near(&mut memory)];
    let mut host = ready();
    host.start(&data(51, Direction::Read, 8, 1), &segments, 1).unwrap();
    assert_eq!(host.regs.get(MASK_0) & (RX_AVAILABLE | RX_HALF_FULL), RX_AVAILABLE);
    host.regs.rx.borrow_mut().push_back(0x0403_0201);
    assert!(host.regs.line());
    assert!(host.ack(&segments).phase.is_none());
    host.regs.rx.borrow_mut().push_back(0x0807_0605);
    assert!(host.ack(&segments).phase.is_none());
    // Only the end of the data and the response are missing.
    host.regs.raise(DATA_END);
    assert!(host.regs.line() && host.ack(&segments).phase.is_none());
    answer(&host, 51, 0x920);
    assert!(host.regs.line());
    assert_eq!(host.ack(&segments).phase.unwrap().unwrap().response.words[0], 0x920);
    assert_eq!(memory, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn it_moves_the_block_sizes_that_its_capabilities_say_and_no_other() {
    let mut memory = vec![0; 4200];
    let segments = [near(&mut memory)];
    for size in 1..=2050 {
        let mut host = ready();
        let caps = *host.caps();
        let started = host.start(&data(53, Direction::Read, size, 2), &segments, 1);
        assert_eq!(started.is_ok(), caps.moves_blocks_of(size), "two blocks of {size}");
        let mut host = ready();
        let alone = size.is_power_of_two() && size <= caps.max_block_bytes;
        assert_eq!(caps.block_sizes, BlockSizes::PowersOfTwo);
        let started = host.start(&data(53, Direction::Read, size, 1), &segments, 1);
        assert_eq!(started.is_ok(), alone, "one block of {size}");
    }
}

#[test]
fn what_the_data_path_cannot_do_is_refused_untouched() {
    let mut memory = vec![0; 1 << 17];
    let segments = [near(&mut memory)];
    let mut host = ready();
    let wrong =
        [(0, 1), (512, 0), (3, 1), (24, 1), (4096, 1), (512, 128), (2, 2), (2048, 32), (512, u32::MAX)];
    for (size, blocks) in wrong {
        let phase = data(53, Direction::Read, size, blocks);
        assert_eq!(host.start(&phase, &segments, 1), Err(StartError::Unsupported), "{size} x {blocks}");
    }
    let short = [near(&mut memory[..511])];
    let fits = data(17, Direction::Read, 512, 1);
    assert_eq!(host.start(&fits, &short, 1), Err(StartError::Unsupported));
    for wrong in [
        Phase { auto: Auto::Stop, ..fits },
        Phase { auto: Auto::Count(1), ..fits },
        Phase { auto: Auto::Continue, ..fits },
        Phase { tuning: true, ..fits },
    ] {
        assert_eq!(host.start(&wrong, &segments, 1), Err(StartError::Unsupported));
    }
    assert_eq!(host.regs.take_log(), []);
    let caps = host.caps();
    assert_eq!((caps.max_bytes, caps.busy, caps.align, caps.dma_bits), (65535, BusyDetect::Status, 1, 0));
    assert!(caps.fixed && !caps.auto_stop && !caps.auto_count && !caps.continue_data && !caps.signal18);
}

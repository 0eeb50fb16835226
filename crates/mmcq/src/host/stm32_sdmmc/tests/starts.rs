use super::*;

#[test]
fn a_command_is_its_argument_its_response_and_go() {
    let bits = |phase: Phase| {
        let mut host = ready::<1>();
        host.start(&phase, &[], 1_000_000).unwrap();
        assert_eq!(host.regs.last(ARGUMENT), Some(phase.command.arg));
        host.regs.get(COMMAND) & !COMMAND_ENABLE
    };
    assert_eq!(bits(command(0, Resp::None)), 0);
    assert_eq!(bits(command(2, Resp::R2)), 2 | COMMAND_LONG);
    assert_eq!(bits(command(41, Resp::R3)), 41 | COMMAND_SHORT_PLAIN);
    assert_eq!(bits(command(5, Resp::R4)), 5 | COMMAND_SHORT_PLAIN);
    assert_eq!(bits(command(8, Resp::R7)), 8 | COMMAND_SHORT);
    assert_eq!(bits(command(12, Resp::R1b)), 12 | COMMAND_SHORT | COMMAND_STOP);
    let abort = Phase::of(Command::new(52, 0x8000_0c01, Resp::R5));
    assert_eq!(bits(abort), 52 | COMMAND_SHORT | COMMAND_STOP);
    let write = Phase::of(Command::new(52, 0x8000_0e01, Resp::R5));
    assert_eq!(bits(write), 52 | COMMAND_SHORT);
}

#[test]
fn one_piece_needs_its_address_and_length_alone() {
    let mut host = ready::<1>();
    host.start(&data(25, Direction::Write, 512, 4), &[at(0x2400_0400, 2048)], 100_000_000).unwrap();
    let wrote = host.regs.writes();
    let expected = [
        // The data timeout: 100 ms at 50 MHz, plus the clocks of the command. Timer and length come
        // before data control.
        (DATA_TIMER, 5_000_248),
        (DMA_BASE, 0x2400_0400),
        (DMA_CONTROL, DMA_ENABLE),
        (DATA_LENGTH, 2048),
        (DATA_CONTROL, 9 << DATA_BLOCK_SHIFT),
        (CLEAR, STATIC),
    ];
    assert_eq!(wrote[..6], expected);
    assert_eq!(
        wrote[7..],
        [(ARGUMENT, 0x1234_5678), (COMMAND, COMMAND_ENABLE | COMMAND_DATA | COMMAND_SHORT | 25)]
    );
    assert_eq!(wrote[6].0, MASK);
    assert!(wrote[6].1 & DATA_END != 0 && wrote[6].1 & RESPONSE_END == 0);
    assert_eq!(host.start(&command(13, Resp::R1), &[], 0), Err(StartError::CommandLine));
    let again = host.start(&data(25, Direction::Write, 512, 4), &[at(0x2400_0400, 2048)], 0);
    assert_eq!(again, Err(StartError::DataLine));
}

#[test]
fn several_pieces_go_by_a_list() {
    let mut host = ready::<8>();
    let pieces = [at(0x2400_0400, 4096), at(0x2401_0000, 512)];
    host.start(&data(18, Direction::Read, 512, 9), &pieces, 0).unwrap();
    assert_eq!(host.regs.get(DMA_CONTROL), DMA_ENABLE | DMA_BY_LIST);
    assert_eq!(host.regs.get(DMA_LIST), LIST_BUS as u32);
    assert_eq!(host.regs.get(DMA_NEXT), NEXT_FOLLOWS | NEXT_HAS_SIZE | NEXT_READY | 12);
    assert_eq!((host.regs.get(DMA_BASE), host.regs.get(DMA_SIZE)), (0x2400_0400, 4096));
    assert_eq!(host.regs.get(DATA_LENGTH), 4608);
}

#[test]
fn what_cannot_be_done_is_refused_before_a_write() {
    let read = |size, blocks| data(18, Direction::Read, size, blocks);
    let auto = Phase { auto: Auto::Stop, ..read(512, 2) };
    let tuning = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    let two = [at(0x2400_0000, 512), at(0x2400_4000, 512)];
    let mixed = [at(0x2400_0000, 512), at(BOUNCED, 512)];
    let long = [at(BOUNCED, 1028)];
    let one = [at(0x2400_0000, 512)];
    let cases: [(Phase, &[Segment]); 10] = [
        (auto, &two),
        (tuning, &[]),
        (read(512, 2), &two),
        (read(512, 2), &mixed),
        (read(512, 2), &one),
        (read(96, 2), &one),
        (read(510, 1), &one),
        (read(4096, 1), &[at(0x2400_0000, 4096)]),
        (read(0, 1), &one),
        (read(4, 257), &long),
    ];
    for (n, (phase, segments)) in cases.into_iter().enumerate() {
        let mut host = ready::<1>();
        assert_eq!(host.start(&phase, segments, 0), Err(StartError::Unsupported), "case {n}");
        assert!(host.regs.writes().iter().all(|write| write.0 != COMMAND), "case {n}");
        assert!(host.active.is_none());
    }
    let mut host = ready::<1>();
    host.regs.raise(COMMAND_ACTIVE);
    assert_eq!(host.start(&command(13, Resp::R1), &[], 0), Err(StartError::CommandLine));
}

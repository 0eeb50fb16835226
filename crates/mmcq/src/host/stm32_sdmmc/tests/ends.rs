use super::*;

#[test]
fn a_response_ends_a_command_and_is_handed_over() {
    let mut host = ready::<1>();
    host.start(&command(8, Resp::R7), &[], 0).unwrap();
    assert!(host.ack(&[]).phase.is_none());
    host.regs.answers(8, 0x1aa);
    assert!(host.regs.line());
    let done = host.ack(&[]).phase.unwrap().unwrap();
    assert_eq!(done.response.words[0], 0x1aa);
    assert!(!host.regs.line() && host.ack(&[]).phase.is_none());
    // A long response, without its CRC.
    host.start(&command(2, Resp::R2), &[], 0).unwrap();
    for n in 0..4 {
        host.regs.set(RESPONSE_1 + 4 * n, 0x1111_1111 * (u32::from(n) + 1));
    }
    host.regs.raise(RESPONSE_END);
    let done = host.ack(&[]).phase.unwrap().unwrap();
    assert_eq!(done.response.words, [0x1111_1111, 0x2222_2222, 0x3333_3333, 0x4444_4400]);
    host.start(&command(0, Resp::None), &[], 0).unwrap();
    host.regs.raise(COMMAND_SENT);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
}

#[test]
fn a_command_fails_by_what_the_controller_says() {
    for (flag, cause) in [(COMMAND_TIMEOUT, Cause::Timeout), (COMMAND_CRC_FAIL, Cause::Crc)] {
        let mut host = ready::<1>();
        host.start(&command(13, Resp::R1), &[], 0).unwrap();
        host.regs.raise(flag);
        assert!(host.regs.line());
        assert_eq!(host.ack(&[]).phase, fault(cause, Stage::Command, None));
        assert!(!host.regs.line());
        // The lines are free, so the next phase starts.
        host.start(&command(13, Resp::R1), &[], 0).unwrap();
    }
    let mut host = ready::<1>();
    host.start(&command(13, Resp::R1), &[], 0).unwrap();
    host.regs.answers(12, 0x900);
    assert_eq!(host.ack(&[]).phase, fault(Cause::Index, Stage::Command, None));
    host.start(&command(13, Resp::R1), &[], 0).unwrap();
    host.regs.gone.set(true);
    assert_eq!(host.ack(&[]).phase, fault(Cause::Gone, Stage::Command, None));
}

#[test]
fn busy_behind_a_response_is_waited_for() {
    let mut host = ready::<1>();
    host.start(&command(7, Resp::R1b), &[], 0).unwrap();
    host.regs.answers(7, 0x700);
    host.regs.raise(BUSY);
    assert!(host.ack(&[]).phase.is_none());
    assert_eq!(host.regs.get(MASK), BUSY_END | DATA_TIMEOUT);
    host.regs.fall(BUSY);
    host.regs.raise(BUSY_END);
    assert!(host.regs.line());
    assert!(host.ack(&[]).phase.unwrap().is_ok() && !host.regs.line());
    // If the card is not busy, the phase ends at once. If it is busy for ever, the controller's
    // timer ends the phase.
    host.start(&command(7, Resp::R1b), &[], 0).unwrap();
    host.regs.answers(7, 0x700);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
    host.start(&command(7, Resp::R1b), &[], 0).unwrap();
    host.regs.answers(7, 0x700);
    host.regs.raise(BUSY);
    assert!(host.ack(&[]).phase.is_none());
    host.regs.raise(DATA_TIMEOUT);
    assert_eq!(host.ack(&[]).phase, fault(Cause::Timeout, Stage::Busy, Some(0x700)));
    // An R1 has no busy of its own: DAT0 is low because of an earlier write.
    host.start(&command(13, Resp::R1), &[], 0).unwrap();
    host.regs.answers(13, 0xe00);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
}

#[test]
fn a_write_by_dma_ends_behind_its_busy() {
    let mut host = ready::<1>();
    host.start(&data(24, Direction::Write, 512, 1), &[at(0x2400_0000, 512)], 0).unwrap();
    host.regs.answers(24, 0x900);
    assert!(!host.regs.line() && host.ack(&[]).phase.is_none());
    host.regs.raise(DATA_END | BUSY);
    assert!(host.ack(&[]).phase.is_none());
    host.regs.fall(BUSY);
    host.regs.raise(BUSY_END);
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap().response.words[0], 0x900);
    // A controller that reports the end of data only after the busy.
    host.start(&data(24, Direction::Write, 512, 1), &[at(0x2400_0000, 512)], 0).unwrap();
    host.regs.answers(24, 0x900);
    host.regs.raise(DATA_END);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
}

#[test]
fn data_fail_by_what_the_controller_says() {
    let cases = [
        (DATA_CRC_FAIL, Cause::Crc),
        (DATA_TIMEOUT, Cause::Timeout),
        (DMA_ERROR, Cause::Dma),
        (RX_OVERRUN, Cause::Other),
    ];
    for (flag, cause) in cases {
        let mut host = ready::<1>();
        host.start(&data(17, Direction::Read, 512, 1), &[at(0x2400_0000, 512)], 0).unwrap();
        host.regs.answers(17, 0x900);
        host.regs.raise(flag);
        assert!(host.regs.line());
        assert_eq!(host.ack(&[]).phase, fault(cause, Stage::Data, Some(0x900)));
        assert!(!host.regs.line());
    }
}

/// Returns a CMD53 in byte mode.
fn odd(direction: Direction, bytes: u16) -> Phase {
    let arg = if direction == Direction::Write { 9 << 28 } else { 1 << 28 } | u32::from(bytes);
    Phase { command: Command::new(53, arg, Resp::R5), ..data(53, direction, bytes, 1) }
}

#[test]
fn a_read_of_odd_length_comes_by_the_bounce_buffer() {
    let mut host = ready::<1>();
    let mut memory = [0u8; 70];
    let segments = [near(&mut memory)];
    host.start(&odd(Direction::Read, 70), &segments, 0).unwrap();
    assert_eq!((host.regs.get(DMA_CONTROL), host.regs.get(DMA_BASE)), (DMA_ENABLE, LIST_BUS as u32));
    assert_eq!(host.dma.open.get(), 1);
    host.regs.answers(53, 0x1000);
    assert!(!host.regs.line() && host.ack(&segments).phase.is_none());
    // The bytes that the controller would write to the bounce buffer.
    let mut came: Vec<u8> = (0..70).collect();
    host.list.fill_bounce(&[near(&mut came)], 70);
    host.regs.raise(DATA_END);
    assert!(host.regs.line() && host.ack(&segments).phase.unwrap().is_ok());
    assert_eq!((&memory[..], host.dma.open.get()), (&came[..], 0));
}

#[test]
fn a_write_of_odd_length_goes_by_the_bounce_buffer() {
    let mut host = ready::<8>();
    let mut memory: Vec<u8> = (0..63).collect();
    let segments = [near(&mut memory)];
    host.start(&odd(Direction::Write, 63), &segments, 0).unwrap();
    // The transfer uses the bounce buffer alone, whatever list the controller has.
    assert_eq!((host.regs.get(DMA_CONTROL), host.regs.get(DATA_LENGTH)), (DMA_ENABLE, 63));
    let mut gone = [0; 64];
    host.list.empty_bounce(&[near(&mut gone)], 64);
    assert_eq!((&gone[..63], gone[63]), (&memory[..], 0));
    host.regs.answers(53, 0x1000);
    host.regs.raise(DATA_END);
    assert!(host.ack(&segments).phase.unwrap().is_ok());
    // Only the list is still mapped.
    assert_eq!(host.dma.open.get(), 1);
}

#[test]
fn the_bounce_buffer_stays_mapped_until_a_failed_transfer_is_ended() {
    let mut host = ready::<1>();
    let mut memory = [0u8; 70];
    let segments = [near(&mut memory)];
    host.start(&odd(Direction::Read, 70), &segments, 0).unwrap();
    host.regs.answers(53, 0x1000);
    host.regs.raise(DATA_TIMEOUT | DATA_ACTIVE);
    assert!(host.ack(&segments).phase.unwrap().is_err());
    assert_eq!(host.dma.open.get(), 1);
    host.set_bus(BusOp::ResetLines, true, 0);
    host.regs.fall(DATA_ACTIVE);
    // CMD12 does not show as active yet; the driver must wait for its end flag.
    assert!(matches!(host.set_bus(BusOp::ResetLines, false, 100_000), Step::Wait(_)));
    assert_eq!(host.dma.open.get(), 1);
    host.regs.answers(12, 0x900);
    assert_eq!(host.set_bus(BusOp::ResetLines, false, 200_000), Step::Done);
    assert_eq!(host.dma.open.get(), 0);
}

#[test]
fn the_cards_interrupt_is_told_once_and_masked() {
    let mut host = ready::<1>();
    host.regs.raise(CARD_INTERRUPT);
    assert!(!host.ack(&[]).card_irq);
    host.regs.fall(CARD_INTERRUPT);
    host.card_irq(true);
    assert_eq!(host.regs.get(DATA_CONTROL), DATA_SDIO);
    // The card interrupt stays enabled during a phase, and does not disturb the phase.
    host.start(&command(52, Resp::R5), &[], 0).unwrap();
    host.regs.raise(CARD_INTERRUPT);
    let events = host.ack(&[]);
    assert!(events.card_irq && events.phase.is_none());
    assert_eq!(host.regs.get(MASK) & CARD_INTERRUPT, 0);
    host.regs.answers(52, 0x1000);
    let events = host.ack(&[]);
    assert!(!events.card_irq && events.phase.is_some());
    host.card_irq(true);
    host.start(&data(53, Direction::Read, 64, 1), &[at(0x2400_0000, 64)], 0).unwrap();
    assert_ne!(host.regs.get(DATA_CONTROL) & DATA_SDIO, 0);
    assert_ne!(host.regs.get(MASK) & CARD_INTERRUPT, 0);
}

/// Runs one tuning block; if not `good`, its CRC is wrong.
fn tune(host: &mut Driver<1>, good: bool) -> Option<Result<Done, Fault>> {
    let phase = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    host.start(&phase, &[], 0).unwrap();
    host.regs.answers(19, 0x900);
    if good {
        host.regs.raise(DATA_END);
        return host.ack(&[]).phase;
    }
    host.regs.raise(DATA_CRC_FAIL | DATA_ACTIVE);
    assert!(host.ack(&[]).phase.is_none());
    assert_eq!(host.regs.last(COMMAND), Some(COMMAND_ENABLE | COMMAND_STOP | COMMAND_SHORT | 12));
    host.regs.raise(COMMAND_TIMEOUT);
    assert!(host.ack(&[]).phase.is_none());
    host.regs.fall(DATA_ACTIVE);
    host.regs.raise(DATA_ABORTED);
    assert!(host.regs.line());
    host.ack(&[]).phase
}

#[test]
fn tuning_takes_the_middle_of_the_good_taps() {
    let board = Board { taps: 12, ..Board::default() };
    let config = config().signal18(true).max_clock_hz(KERNEL_HZ);
    let mut host: Driver<1> = ready_on(board, config);
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    assert_ne!(host.regs.get(CLOCK) & CLOCK_FEEDBACK, 0);
    for tap in 0..12 {
        assert_eq!(host.board.tap.get(), tap);
        let done = tune(&mut host, (3..8).contains(&tap)).unwrap().unwrap();
        assert!(!done.tuned);
    }
    assert_eq!(host.board.tap.get(), 5);
    assert!(tune(&mut host, true).unwrap().unwrap().tuned);
    // Tuning has ended, so a further block is refused.
    let phase = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    assert_eq!(host.start(&phase, &[], 0), Err(StartError::Unsupported));
}

#[test]
fn a_tuning_without_a_good_tap_fails() {
    let mut host: Driver<1> = ready_on(Board { taps: 2, ..Board::default() }, config().signal18(true));
    host.set_bus(BusOp::TuneStart, true, 0);
    assert!(tune(&mut host, false).unwrap().is_ok());
    assert_eq!(tune(&mut host, false), fault(Cause::Crc, Stage::Data, None));
    assert_eq!(host.set_bus(BusOp::TuneAbort, true, 0), Step::Done);
    assert_eq!(host.regs.get(CLOCK) & CLOCK_FEEDBACK, 0);
}

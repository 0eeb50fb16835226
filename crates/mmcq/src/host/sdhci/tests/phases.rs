//! Tests of how phases start, and of how many register accesses and interrupts they need.

use super::*;

#[test]
fn four_kib_cost_seven_accesses() {
    for direction in [Direction::Read, Direction::Write] {
        let mut host = ready(SdhciConfig::new());
        let index = if direction == Direction::Read { 18 } else { 25 };
        let (phase, segments) = (data(index, direction, 512, 8), [far(0x8_0000, 4096)]);
        run(&mut host, &phase, &segments);
        host.port.regs.take_log();
        host.dma.synced.take();
        host.port.regs.set(RESPONSE_0, 4, 0x900);

        host.start(&phase, &segments, 100_000_000).unwrap();
        let mode = 0x23 | if direction == Direction::Read { 0x10 } else { 0 };
        assert_eq!(
            host.port.regs.take_log(),
            [
                Access::Write(ADMA_ADDRESS, 4, 0x4000),
                Access::Write(BLOCK_SIZE, 4, 0x0008_7200),
                Access::Write(ARGUMENT, 4, 0x1234_5678),
                Access::Write(TRANSFER_MODE, 4, u32::from(index) << 24 | 0x003a_0000 | mode),
            ]
        );
        assert_eq!(host.dma.synced.take(), [(0x4000, 8)]);

        let events = report(&mut host, INT_COMMAND | INT_TRANSFER, &segments);
        assert_eq!(
            host.port.regs.take_log(),
            [Access::Read(INT_STATUS), Access::Write(INT_STATUS, 4, 3), Access::Read(RESPONSE_0)]
        );
        let done = events.phase.unwrap().unwrap();
        assert_eq!(done, Done { response: Response { words: [0x900, 0, 0, 0] }, stop: None, tuned: false });
    }
}

#[test]
fn one_interrupt_ends_a_transfer() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    host.start(&read(1), &segments, 1).unwrap();
    let normal = INT_COMMAND | INT_TRANSFER | INT_DMA | INT_BUFFER_READ | INT_BUFFER_WRITE;
    assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & normal, INT_TRANSFER);
    // The engine calls `ack` between the response and the end of the data.
    assert!(report(&mut host, INT_COMMAND, &segments).phase.is_none());
    assert!(report(&mut host, INT_TRANSFER, &segments).phase.is_some());

    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & normal, INT_COMMAND);
    assert!(report(&mut host, INT_COMMAND, &[]).phase.is_some());

    host.start(&command(12, Resp::R1b), &[], 1).unwrap();
    assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & normal, INT_TRANSFER);
    assert_eq!(host.port.regs.get(TRANSFER_MODE, 4), 0x0cdb_0000);
    assert!(report(&mut host, INT_COMMAND, &[]).phase.is_none());
    assert!(report(&mut host, INT_TRANSFER, &[]).phase.is_some());
}

#[test]
fn lines_are_looked_at_only_when_in_doubt() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    let looked = |host: &Driver| host.port.regs.take_log().contains(&Access::Read(PRESENT));
    run(&mut host, &command(0, Resp::None), &[]);
    assert!(looked(&host));
    run(&mut host, &read(1), &segments);
    assert!(!looked(&host));
    host.start(&read(1), &segments, 1).unwrap();
    report(&mut host, INT_ERROR | ERROR_DATA_CRC, &segments).phase.unwrap().unwrap_err();
    host.port.regs.take_log();

    let free = PRESENT_DAT | PRESENT_INSERTED;
    host.port.regs.set(PRESENT, 4, free | PRESENT_DAT_INHIBIT);
    assert_eq!(host.start(&read(1), &segments, 1), Err(StartError::DataLine));
    assert_eq!(host.start(&command(6, Resp::R1b), &[], 1), Err(StartError::DataLine));
    host.port.regs.set(PRESENT, 4, free & !PRESENT_DAT0);
    assert_eq!(host.start(&read(1), &segments, 1), Err(StartError::DataLine));
    host.port.regs.set(PRESENT, 4, free | PRESENT_CMD_INHIBIT);
    assert_eq!(host.start(&command(13, Resp::R1), &[], 1), Err(StartError::CommandLine));
    // No command was sent so far; CMD12 may be sent while DAT is in use.
    assert!(
        !host.port.regs.take_log().iter().any(|access| matches!(access, Access::Write(TRANSFER_MODE, ..)))
    );
    host.port.regs.set(PRESENT, 4, free | PRESENT_DAT_INHIBIT);
    host.start(&command(12, Resp::R1b), &[], 1).unwrap();
}

/// Tests a command with busy while DAT0 is stuck low: the driver does not start it, because the
/// controller would report the end of busy only after the longest busy.
#[test]
fn busy_is_not_waited_for_on_a_line_that_is_held_before() {
    let held = PRESENT_INSERTED | PRESENT_DAT & !PRESENT_DAT0;
    for quirks in [SdhciQuirks::NONE, SdhciQuirks::NO_BUSY_IRQ] {
        let mut host = ready(quirk(quirks));
        run(&mut host, &read(1), &[far(0, 512)]);
        host.port.regs.set(PRESENT, 4, held);
        for index in [6, 7, 28, 38] {
            let refused = host.start(&command(index, Resp::R1b), &[], 1);
            assert_eq!(refused, Err(StartError::DataLine), "CMD{index}");
        }
        // CMD13 and CMD12 can be sent nevertheless.
        run(&mut host, &command(13, Resp::R1), &[]);
        host.start(&command(12, Resp::R1b), &[], 1).unwrap();
    }
    let mut host = ready(quirk(SdhciQuirks::NO_DAT0_LEVEL));
    run(&mut host, &read(1), &[far(0, 512)]);
    host.port.regs.set(PRESENT, 4, held);
    host.start(&command(6, Resp::R1b), &[], 1).unwrap();
}

#[test]
fn stop_beside_a_transfer_leaves_the_lines_in_doubt() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    host.start(&read(1), &segments, 1).unwrap();
    assert_eq!(host.start(&read(1), &segments, 1), Err(StartError::DataLine));
    host.start(&command(12, Resp::R1), &[], 1).unwrap();
    assert!(report(&mut host, INT_COMMAND, &[]).phase.unwrap().is_ok());
    host.port.regs.take_log();
    host.start(&read(1), &segments, 1).unwrap();
    let log = host.port.regs.take_log();
    assert_eq!(log[..2], [Access::Read(PRESENT), Access::Write(INT_STATUS, 4, OF_PHASE)]);
}

#[test]
fn automatic_count_and_sdma_exclude_each_other() {
    let sdma = build(2, CAPS, by(TransferMode::Sdma), Box::leak(Box::default())).unwrap();
    assert!(!sdma.caps().auto_count && sdma.caps().auto_stop);
    let v4 = build(4, CAPS, by(TransferMode::Sdma), Box::leak(Box::default())).unwrap();
    assert!(v4.caps().auto_count);
}

#[test]
fn without_a_busy_interrupt_the_response_ends_the_phase() {
    for (quirks, detect) in [
        (SdhciQuirks::NO_BUSY_IRQ, BusyDetect::Level),
        (SdhciQuirks::NO_BUSY_IRQ.with(SdhciQuirks::NO_DAT0_LEVEL), BusyDetect::Status),
    ] {
        let mut host = ready(quirk(quirks));
        assert_eq!(host.caps().busy, detect);
        assert!(run(&mut host, &command(12, Resp::R1b), &[]).stop.is_none());
        host.port.regs.take_log();
        host.start(&read(1), &[far(0, 512)], 1).unwrap();
        assert_eq!(host.port.regs.take_log()[0], Access::Read(PRESENT), "busy may go on");
    }
}

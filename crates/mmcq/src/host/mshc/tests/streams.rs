//! Tests of transfers that stay open, on registers whose values the test sets.

use super::*;

const AT: Offsets = DesignWareLayout::AT;
const RCV_R1: u32 = 6 << 9 | 0x100;
const SELECTED: u32 = 0x1234_0000;
const BUSY: u32 = STATUS_BUSY;

type Open = OpenDesignWare<&'static Fake, &'static FakeDma, FakeBoard, 8>;

fn open_with(open: OpenTransfers) -> Open {
    let scrap = Box::leak(Box::new(Scrap::new()));
    let mut host = OpenDesignWare::new(ready::<DesignWareLayout>(), scrap, open).unwrap();
    let select = Phase::of(Command::new(7, SELECTED, Resp::R1));
    host.start(&select, &[], 0).unwrap();
    raise(host.controller(), INT_COMMAND);
    host.ack(&[]).phase.unwrap().unwrap();
    host.controller().regs.take_log();
    host
}

fn open() -> Open {
    open_with(OpenTransfers::NONE.reads(true).writes(true))
}

fn phase(direction: Direction, blocks: u32, auto: Auto) -> Phase {
    Phase { auto, ..transfer(direction, blocks) }
}

fn map(host: &mut Open, memory: &mut [u8], direction: Direction) -> Segment {
    let mut segment = Segment { ptr: NonNull::from(&mut *memory).cast(), len: memory.len() as u32, bus: 0 };
    host.map(&mut segment, direction).unwrap();
    segment
}

/// Returns the values that were written to the register at `offset`, from this log.
fn written(log: &[(u16, u32)], offset: u16) -> Vec<u32> {
    log.iter().filter(|write| write.0 == offset).map(|write| write.1).collect()
}

/// Sets the DMA status of a DMA that has stopped at a descriptor that it does not own.
fn stops(host: &Open) {
    let dma = &host.controller().regs.dma;
    dma.set(dma.get() | DMA_UNAVAILABLE | DMA_ABNORMAL);
}

/// Returns a driver with an open read, and the segment of its first block, whose data have arrived.
fn with_read_open() -> (Open, Segment) {
    let mut host = open();
    let memory = Box::leak(Box::new([0u8; 512]));
    let segment = map(&mut host, memory, Direction::Read);
    host.start(&phase(Direction::Read, 1, Auto::Open), &[segment], 0).unwrap();
    raise(host.controller(), INT_COMMAND);
    stops(&host);
    host.ack(&[segment]).phase.unwrap().unwrap();
    host.controller().regs.take_log();
    (host, segment)
}

#[test]
fn a_read_has_no_count_and_is_over_where_the_dma_stops() {
    let mut host = open();
    let mut memory = [0u8; 1024];
    let segment = map(&mut host, &mut memory, Direction::Read);
    assert!(host.goes_on_with(&segment, 2, Direction::Read));
    host.start(&phase(Direction::Read, 2, Auto::Open), &[segment], 0).unwrap();
    let log = host.controller().regs.take_log();
    assert_eq!(written(&log, AT.byte_count), [0]);
    assert_eq!(written(&log, AT.threshold), [16], "one word asks for the DMA");
    let command = written(&log, AT.command)[0];
    assert_eq!(command & (COMMAND_DATA | COMMAND_WRITE | COMMAND_AUTO_STOP | 0x3f), COMMAND_DATA | 18);
    // After the response, only an interrupt of the DMA ends the data.
    raise(host.controller(), INT_COMMAND);
    assert!(!host.controller().regs.line() && host.ack(&[segment]).phase.is_none());
    stops(&host);
    assert!(host.controller().regs.line());
    host.controller().regs.set(AT.response, 0x900);
    assert_eq!(host.ack(&[segment]).phase.unwrap().unwrap().response.words[0], 0x900);
    assert!(!host.controller().regs.line());
}

#[test]
fn data_that_are_faster_than_the_response_wait_for_it() {
    let mut host = open();
    let mut memory = [0u8; 512];
    let segment = map(&mut host, &mut memory, Direction::Read);
    host.start(&phase(Direction::Read, 1, Auto::Open), &[segment], 0).unwrap();
    stops(&host);
    assert!(host.ack(&[segment]).phase.is_none());
    raise(host.controller(), INT_COMMAND);
    assert!(host.controller().regs.line());
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
}

#[test]
fn a_read_goes_on_by_the_poll_demand_and_without_a_command() {
    let (mut host, _first) = with_read_open();
    let mut memory = [0u8; 4096];
    let segment = map(&mut host, &mut memory, Direction::Read);
    assert!(host.goes_on_with(&segment, 8, Direction::Read));
    assert!(!host.goes_on_with(&segment, 8, Direction::Write));
    host.start(&phase(Direction::Read, 8, Auto::Continue), &[segment], 0).unwrap();
    let log = host.controller().regs.take_log();
    assert_eq!(log.last(), Some(&(DW_DMA_KICK, 1)));
    assert!(log.iter().all(|write| ![AT.command, AT.raw, AT.control, AT.list].contains(&write.0)), "{log:?}");
    // The controller reports starvation, since the read was not continued for a long time.
    raise(host.controller(), INT_STARVED);
    assert!(host.ack(&[segment]).phase.is_none());
    stops(&host);
    assert_eq!(host.ack(&[segment]).phase, Some(Ok(Done::default())));
}

/// Tests an error of a block that arrives between two requests of an open read: the next phase
/// reports it.
#[test]
fn an_error_of_a_block_ahead_is_that_of_the_next_phase() {
    let (mut host, segment) = with_read_open();
    raise(host.controller(), INT_DATA_CRC);
    assert!(host.controller().regs.line());
    assert!(host.ack(&[]).phase.is_none());
    assert!(!host.controller().regs.line());
    host.start(&phase(Direction::Read, 1, Auto::Continue), &[segment], 0).unwrap();
    assert!(host.controller().regs.line());
    stops(&host);
    let fault = host.ack(&[segment]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Crc, Stage::Data));
    // No phase can start before a reset.
    let again = phase(Direction::Read, 1, Auto::None);
    assert_eq!(host.start(&again, &[segment], 0), Err(StartError::Unsupported));
}

/// Tests a controller for which a byte count of 0 means no data: it ends the data by itself, which
/// is a fault.
#[test]
fn data_that_end_without_an_end_are_a_fault() {
    let mut host = open();
    let mut memory = [0u8; 512];
    let segment = map(&mut host, &mut memory, Direction::Read);
    host.start(&phase(Direction::Read, 1, Auto::Open), &[segment], 0).unwrap();
    raise(host.controller(), INT_COMMAND | INT_DATA);
    assert!(host.controller().regs.line());
    let fault = host.ack(&[segment]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Other, Stage::Data));
}

#[test]
fn a_stop_is_written_before_the_dma_gets_memory_and_is_over_with_the_data() {
    let (mut host, segment) = with_read_open();
    assert_eq!(host.start(&Phase::of(command::send_status(1)), &[], 0), Err(StartError::Unsupported));
    raise(host.controller(), INT_STARVED | INT_DATA_CRC);
    host.start(&Phase::of(command::stop_transmission()), &[], 0).unwrap();
    let log = host.controller().regs.take_log();
    let place = |offset: u16| log.iter().position(|write| write.0 == offset).unwrap();
    assert!(place(AT.command) < place(DW_DMA_KICK));
    let command = written(&log, AT.command)[0];
    assert_eq!(command & (COMMAND_ABORTS | COMMAND_WAITS | 0x3f), COMMAND_ABORTS | 12);
    // The stop cuts off a block, so its error is ignored; the response alone is not the end.
    raise(host.controller(), INT_COMMAND | INT_END_BIT);
    assert!(host.ack(&[]).phase.is_none());
    assert!(!host.controller().regs.line());
    raise(host.controller(), INT_DATA);
    assert!(host.controller().regs.line());
    host.controller().regs.set(AT.response, 0xb00);
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap().response.words[0], 0xb00);
    let log = host.controller().regs.take_log();
    assert_eq!(written(&log, AT.threshold), [15 << 16 | 16 | 2 << 28], "as ever");
    assert!(written(&log, AT.control)[0] & CONTROL_FIFO_RESET != 0);
    // The DMA was stopped before its end, so it is reset.
    host.start(&phase(Direction::Read, 1, Auto::Stop), &[segment], 0).unwrap();
    assert!(written(&host.controller().regs.take_log(), AT.dma_mode).contains(&DMA_RESET));
}

#[test]
fn a_stop_of_data_that_have_ended_waits_for_no_more() {
    let (mut host, _segment) = with_read_open();
    raise(host.controller(), INT_DATA | INT_DATA_TIMEOUT);
    host.ack(&[]);
    host.start(&Phase::of(command::stop_transmission()), &[], 0).unwrap();
    raise(host.controller(), INT_COMMAND);
    assert!(host.ack(&[]).phase.unwrap().is_ok());
}

#[test]
fn what_cannot_stay_open_is_refused_before() {
    let mut host = open();
    // Eight descriptors: three full ones, up to four for ends of segments, one where the DMA stops.
    let mut memory = std::vec![0u8; 16384];
    let segment = map(&mut host, &mut memory, Direction::Read);
    assert!(host.goes_on_with(&segment, 24, Direction::Read));
    assert!(!host.goes_on_with(&segment, 25, Direction::Read));
    assert!(!host.goes_on_with(&Segment { bus: BY_CPU, ..segment }, 1, Direction::Read));
    // At a fast clock the FIFO must hold a block.
    host.host.bus.set_fast();
    assert!(!host.goes_on_with(&segment, 1, Direction::Read));
    let none = open_with(OpenTransfers::NONE);
    assert!(!none.caps().continue_data && !none.goes_on_with(&segment, 1, Direction::Write));
}

#[test]
fn a_write_goes_on_as_the_data_of_a_status_command_and_ends_behind_busy() {
    let mut host = open();
    let mut memory = [0u8; 512];
    let segment = map(&mut host, &mut memory, Direction::Write);
    assert!(host.goes_on_with(&segment, 1, Direction::Write));
    for (auto, index, argument) in [(Auto::Open, 25, 0x77), (Auto::Continue, 13, SELECTED)] {
        host.start(&phase(Direction::Write, 1, auto), &[segment], 0).unwrap();
        let log = host.controller().regs.take_log();
        assert_eq!(
            (written(&log, AT.byte_count), written(&log, AT.argument)),
            ([512].into(), [argument].into())
        );
        let bits = COMMAND_DATA | COMMAND_WRITE | COMMAND_AUTO_STOP | 0x3f;
        assert_eq!(written(&log, AT.command)[0] & bits, COMMAND_DATA | COMMAND_WRITE | index);
        host.controller().regs.set(AT.response, RCV_R1);
        // The DMA has read the memory.
        host.controller().regs.dma.set(1 | DMA_NORMAL);
        raise(host.controller(), INT_COMMAND);
        assert!(host.ack(&[segment]).phase.is_none());
        // The card has the data, and is busy.
        host.controller().regs.set(AT.status, BUSY);
        raise(host.controller(), INT_DATA);
        assert!(host.ack(&[segment]).phase.is_none());
        assert_eq!(host.start(&Phase::of(command::send_status(1)), &[], 0), Err(StartError::CommandLine));
        host.controller().regs.set(AT.status, 0);
        raise(host.controller(), INT_START_BIT);
        assert!(host.controller().regs.line());
        let response = host.ack(&[segment]).phase.unwrap().unwrap().response.words[0];
        assert_eq!(response, if auto == Auto::Open { RCV_R1 } else { 0 });
        assert!(!host.controller().regs.line());
    }
    assert!(host.goes_on_with(&segment, 1, Direction::Write));
    assert!(!host.goes_on_with(&segment, 1, Direction::Read));
}

/// Tests a lost interrupt at the end of busy: the next poll sees the level of DAT0.
#[test]
fn an_end_of_busy_without_its_interrupt_is_seen_by_the_next_look() {
    let mut host = open();
    let mut memory = [0u8; 512];
    let segment = map(&mut host, &mut memory, Direction::Write);
    host.start(&phase(Direction::Write, 1, Auto::Open), &[segment], 0).unwrap();
    host.controller().regs.set(AT.status, BUSY);
    raise(host.controller(), INT_COMMAND | INT_DATA);
    assert!(host.ack(&[segment]).phase.is_none());
    assert!(host.ack(&[segment]).phase.is_none());
    host.controller().regs.set(AT.status, 0);
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
}

/// Tests an error in the response to a carrier's CMD13, which the engine does not see: the next
/// status that the engine gets reports the error.
#[test]
fn an_error_of_an_earlier_write_is_told_with_the_next_status() {
    let late = crate::spec::response::R1::ERROR;
    let mut host = open();
    let mut memory = [0u8; 512];
    let segment = map(&mut host, &mut memory, Direction::Write);
    for (auto, r1) in [(Auto::Open, RCV_R1), (Auto::Continue, RCV_R1 | late)] {
        host.start(&phase(Direction::Write, 1, auto), &[segment], 0).unwrap();
        host.controller().regs.set(AT.response, r1);
        raise(host.controller(), INT_COMMAND | INT_DATA);
        assert!(host.ack(&[segment]).phase.unwrap().is_ok());
    }
    host.start(&Phase::of(command::stop_transmission()), &[], 0).unwrap();
    host.controller().regs.set(AT.response, 0xd00);
    raise(host.controller(), INT_COMMAND);
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap().response.words[0], 0xd00 | late);
    // A card that reports another state has not received the data.
    host.start(&phase(Direction::Write, 1, Auto::Open), &[segment], 0).unwrap();
    raise(host.controller(), INT_COMMAND | INT_DATA);
    host.ack(&[segment]).phase.unwrap().unwrap();
    host.start(&phase(Direction::Write, 1, Auto::Continue), &[segment], 0).unwrap();
    host.controller().regs.set(AT.response, 0x900);
    raise(host.controller(), INT_COMMAND | INT_DATA);
    assert!(host.ack(&[segment]).phase.unwrap().is_err());
}

#[test]
fn a_reset_forgets_all_and_a_controller_that_is_gone_is_told() {
    let (mut host, segment) = with_read_open();
    host.start(&phase(Direction::Read, 1, Auto::Continue), &[segment], 0).unwrap();
    host.controller().regs.gone.set(true);
    assert_eq!(host.ack(&[segment]).phase.unwrap().unwrap_err().cause, Cause::Gone);
    host.controller().regs.gone.set(false);
    let mut now_ns = 7;
    let mut step = host.set_bus(BusOp::ResetLines, true, now_ns);
    while let Step::Wait(at_ns) = step {
        now_ns = at_ns;
        step = host.set_bus(BusOp::ResetLines, false, now_ns);
    }
    assert_eq!(step, Step::Done);
    assert_eq!(
        host.start(&phase(Direction::Read, 1, Auto::Continue), &[segment], 0),
        Err(StartError::Unsupported)
    );
    host.start(&phase(Direction::Read, 1, Auto::Stop), &[segment], 0).unwrap();
}

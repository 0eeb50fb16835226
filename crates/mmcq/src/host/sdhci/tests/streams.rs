//! Tests of the driver for open transfers: its short methods (`start_fast`, `ack_fast`) access the
//! same registers as `start` and `ack`, and report the same.

use super::super::streams::{OpenWrites, StreamConfig, Streams};
use super::*;
use crate::spec::response::R1;

type Open = Streams<Fake, &'static FakeDma, 8>;

/// Interrupt status at the end of a carrier.
const DONE: u32 = INT_COMMAND | INT_TRANSFER;
/// R1 of a card in the middle of a write: state rcv, ready for data.
const RCV: u32 = 0xd00;

/// What an interrupt reports: the result of the phase, the R1 of an automatic CMD12, and whether
/// there was another event.
type Reported = (Option<Result<u32, Fault>>, u32, bool);

/// Data of a request that continues the transfer; then the interrupts, each with the R1 that the
/// controller shows.
struct Part {
    blocks: u32,
    segments: Vec<Segment>,
    interrupts: Vec<(u32, u32)>,
}

fn part(blocks: u32, segments: &[(u64, u32)], interrupts: &[(u32, u32)]) -> Part {
    let segments = segments.iter().map(|&(bus, len)| far(bus, len)).collect();
    Part { blocks, segments, interrupts: interrupts.to_vec() }
}

/// Returns a driver with an open transfer of this direction, of which 8 blocks are over.
fn opened(direction: Direction) -> Open {
    let mut host =
        Streams::new(ready(SdhciConfig::new()), StreamConfig::NONE.reads(true).writes(OpenWrites::Carrier));
    host.start(&command(7, Resp::R1), &[], 1).unwrap();
    set_status(&host, INT_COMMAND, 0x900);
    host.ack(&[]);
    let (index, status) = if direction == Direction::Read { (18, INT_DMA) } else { (25, INT_TRANSFER) };
    let phase = Phase { auto: Auto::Open, ..data(index, direction, 512, 8) };
    let segment = [far(0x8000, 4096)];
    host.start(&phase, &segment, 100_000_000).unwrap();
    set_status(&host, INT_COMMAND | status, 0x900);
    assert!(matches!(host.ack(&segment).phase, Some(Ok(_))));
    host.controller().port.regs.take_log();
    host
}

fn set_status(host: &Open, status: u32, response: u32) {
    let regs = &host.controller().port.regs;
    regs.set(INT_STATUS, 4, status);
    regs.set(RESPONSE_0, 4, response);
}

fn reported(end: Result<crate::host::FastEnd, Events>) -> Reported {
    let events = end.map_or_else(|events| events, |end| end.events(false));
    let phase = events.phase.map(|end| end.map(|done| done.response.words[0]));
    let stop = events.phase.and_then(|end| end.ok()?.stop).unwrap_or(0);
    (phase, stop, events.card_irq | events.presence | events.retune)
}

/// Sends the parts, and at last a CMD12. Returns the register accesses, the answers to the starts,
/// and the reports. `fast`: by the short methods.
fn sent(
    direction: Direction,
    parts: &[Part],
    fast: bool,
) -> (Vec<Access>, Vec<Result<(), StartError>>, Vec<Reported>) {
    let mut host = opened(direction);
    let (mut starts, mut reports) = (Vec::new(), Vec::new());
    for Part { blocks, segments, interrupts } in parts {
        let index = if direction == Direction::Read { 18 } else { 25 };
        let phase = Phase { auto: Auto::Continue, ..data(index, direction, 512, *blocks) };
        let begun = match fast {
            true => host.start_fast(&phase, segments, 100_000_000),
            false => host.start(&phase, segments, 100_000_000),
        };
        starts.push(begun);
        for &(status, response) in interrupts {
            set_status(&host, status, response);
            let end = if fast { host.ack_fast(segments) } else { Err(host.ack(segments)) };
            reports.push(reported(end));
        }
    }
    starts.push(host.start(&command(12, Resp::R1), &[], 1));
    set_status(&host, INT_COMMAND, 0x900);
    reports.push(reported(Err(host.ack(&[]))));
    (host.controller().port.regs.take_log(), starts, reports)
}

fn assert_alike(direction: Direction, parts: &[Part]) -> Vec<Reported> {
    let (accesses, starts, reports) = sent(direction, parts, true);
    assert_eq!((accesses, starts, reports.clone()), sent(direction, parts, false));
    reports
}

#[test]
fn reads_go_on_in_few_steps_as_by_the_long_way() {
    let page = [(0x1_0000, 4096)];
    let well = || part(8, &page, &[(INT_DMA, 0)]);
    let others: [&[(u32, u32)]; 8] = [
        &[(0, 0), (INT_DMA, 0)],
        &[(INT_DMA | INT_RETUNE, 0)],
        &[(INT_DMA | INT_COMMAND, 0)],
        &[(INT_TRANSFER, 0), (INT_DMA, 0)],
        &[(ERROR_DATA_CRC, 0)],
        &[(INT_DMA | ERROR_DATA_CRC, 0)],
        &[(INT_RETUNE, 0), (INT_DMA, 0)],
        &[(u32::MAX, 0), (INT_DMA, 0)],
    ];
    for other in others {
        assert_alike(Direction::Read, &[well(), part(8, &page, other), well()]);
    }
    // Several boundaries and segments; memory or a length that does not fit.
    let memory: [(u32, &[(u64, u32)]); 6] = [
        (16, &[(0x1_0000, 8192)]),
        (16, &[(0x1_0000, 4096), (0x4_0000, 4096)]),
        (8, &[(0x1_0200, 4096)]),
        (7, &page),
        (9, &page),
        (8, &[(0xffff_f000, 4096)]),
    ];
    for (blocks, segments) in memory {
        let ends = [(INT_DMA, 0), (INT_DMA, 0)];
        let reports = assert_alike(Direction::Read, &[well(), part(blocks, segments, &ends)]);
        assert_eq!(reports[0], (Some(Ok(0)), 0, false));
    }
}

#[test]
fn carriers_go_on_in_few_steps_as_by_the_long_way() {
    let page = [(0x1_0200, 4096)];
    let well = || part(8, &page, &[(DONE, RCV)]);
    let others: [&[(u32, u32)]; 9] = [
        &[(DONE, 0xe00)],
        &[(DONE, 0x900)],
        &[(DONE, RCV | R1::ERROR)],
        &[(DONE, RCV | R1::OUT_OF_RANGE)],
        &[(DONE, RCV | R1::EXCEPTION_EVENT)],
        &[(INT_COMMAND, RCV), (INT_TRANSFER, RCV)],
        &[(0, RCV), (DONE, RCV)],
        &[(DONE | INT_RETUNE, RCV | R1::WP_VIOLATION)],
        &[(INT_COMMAND | ERROR_DATA_CRC, RCV | R1::ERROR)],
    ];
    for other in others {
        let reports = assert_alike(Direction::Write, &[well(), part(8, &page, other), well()]);
        assert_eq!(reports[0], (Some(Ok(0)), 0, false));
        // An error of the card in a carrier is in the response to the CMD12.
        let told = other.iter().fold(0, |told, &(_, response)| told | response & R1::DEFERRED);
        assert_eq!(reports.last().unwrap().0, Some(Ok(0x900 | told)), "{other:?}");
    }
}

/// Tests that a carrier is started as the wrapped driver starts a CMD13 with data.
#[test]
fn a_carrier_has_the_registers_of_an_ordinary_phase() {
    let segment = [far(0x1_0200, 4096)];
    let (log, ..) = sent(Direction::Write, &[part(8, &[(0x1_0200, 4096)], &[])], true);
    let mut plain = ready(SdhciConfig::new());
    run(&mut plain, &data(25, Direction::Write, 512, 8), &[far(0x8000, 4096)]);
    plain.port.regs.take_log();
    plain.start(&data(13, Direction::Write, 512, 8), &segment, 100_000_000).unwrap();
    let expected = plain.port.regs.take_log();
    assert!(expected.len() > 3);
    assert_eq!(log[..expected.len()], expected);
}

#[test]
fn memory_that_sdma_does_not_reach_neither_opens_nor_continues_a_transfer() {
    // A controller of version 3 with ADMA2 of 64 bits: its SDMA has addresses of 32 bits.
    let config = StreamConfig::NONE.reads(true).writes(OpenWrites::Gap);
    let (low, last, high) = (far(0x8000, 4096), far(0xffff_f000, 4096), far(1 << 32, 4096));
    let fresh = Streams::new(ready(SdhciConfig::new()), config);
    for direction in [Direction::Read, Direction::Write] {
        assert!(fresh.goes_on_with(&low, 8, direction), "{direction:?}");
        assert!(fresh.goes_on_with(&last, 8, direction), "{direction:?}");
        assert!(!fresh.goes_on_with(&high, 8, direction), "{direction:?}");
    }
    let open = opened(Direction::Read);
    assert!(open.goes_on_with(&low, 8, Direction::Read));
    assert!(!open.goes_on_with(&high, 8, Direction::Read));
}

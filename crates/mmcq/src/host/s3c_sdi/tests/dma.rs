//! Tests of data that the board's DMA controller transfers: those at least as long as the
//! configured threshold.

use super::*;

fn config() -> S3cSdiConfig {
    S3cSdiConfig { dma: DmaUse::From(256), ..S3cSdiConfig::new(PCLK_HZ) }
}

/// Returns memory whose address is a multiple of 4.
fn aligned(len: usize) -> &'static mut [u8] {
    let words: &'static mut [u32] = vec![0u32; len.div_ceil(4) + 1].leak();
    // SAFETY: the same memory as the words, seen as bytes.
    let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), 4 * words.len()) };
    &mut bytes[..len]
}

#[test]
fn the_threshold_decides() {
    let mut host = ready_with(config());
    for (len, offset, mapped) in
        [(252, 0, false), (256, 0, true), (257, 0, false), (2048, 0, true), (2048, 1, false), (0, 0, false)]
    {
        let memory = aligned(len + offset);
        let mut segment = near(&mut memory[offset..]);
        host.map(&mut segment, Direction::Read).unwrap();
        assert_eq!(host.dma.open.get(), i32::from(mapped), "{len} at {offset}");
        assert_eq!(segment.bus, if mapped { 0x3000_0000 | MAPPED } else { 0 });
        host.unmap(&segment, Direction::Read);
        assert_eq!(host.dma.open.get(), 0);
    }
    let mut never = ready();
    let mut segment = near(aligned(2048));
    never.map(&mut segment, Direction::Read).unwrap();
    assert_eq!((segment.bus, never.dma.open.get()), (0, 0));
}

#[test]
fn memory_that_dma_does_not_reach_is_refused() {
    let mut host = ready_with(config());
    for (bus, error) in [
        (0x1_0000_0000, DmaError::Unreachable),
        (0xffff_ff04, DmaError::Unreachable),
        (u64::MAX - 3, DmaError::Unreachable),
        (0x3000_0002, DmaError::Alignment),
    ] {
        host.dma.bus.set(bus);
        let mut segment = near(aligned(256));
        assert_eq!(host.map(&mut segment, Direction::Write), Err(error), "{bus:x}");
        assert_eq!((segment.bus, host.dma.open.get()), (0, 0));
    }
    host.dma.bus.set(0xffff_ff00);
    host.map(&mut near(aligned(256)), Direction::Write).unwrap();
}

#[test]
fn a_transfer_costs_thirteen_accesses() {
    for (direction, length) in [(Direction::Read, 2048), (Direction::Write, 1 << 31 | 2048)] {
        let mut host = ready_with(config());
        let mut segment = near(aligned(2048));
        host.map(&mut segment, direction).unwrap();
        let phase = cmd53(direction, 512, 4);
        for first in [true, false] {
            host.start(&phase, &[segment], 0).unwrap();
            let mut log = host.regs.take_log();
            log.retain(|access| !matches!(access, Write(BSIZE | IMSK, _)) || !first);
            let arg = if direction == Direction::Read { 0x1800_0004 } else { 0x9800_0004 };
            assert_eq!(
                log[1..],
                [
                    Write(DMA_ADDRESS, 0x3000_0000),
                    Write(DMA_LENGTH, length),
                    Write(DMA_START, 1),
                    Write(CMDARG, arg),
                    Write(CMDCON, 0x375),
                ]
            );
            let Write(DCON, dcon) = log[0] else { panic!("{log:?}") };
            assert_ne!(dcon & DCON_DMA, 0);
            // The CPU ignores the fill level of the FIFO.
            for fill in [0, 32, 64] {
                host.regs.fifo.borrow_mut().resize(fill, 0);
                assert!(!host.regs.line());
            }
            host.regs.fifo.borrow_mut().clear();
            host.regs.set(DMA_START, 0);
            let end = report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &[segment]);
            assert!(end.phase.unwrap().is_ok());
            assert_eq!(host.regs.take_log().len(), 7);
        }
    }
}

#[test]
fn what_is_mapped_is_moved_by_dma_or_not_at_all() {
    let mut host = ready_with(config());
    let mut mapped = near(aligned(512));
    host.map(&mut mapped, Direction::Read).unwrap();
    let small = near(aligned(4));
    let refused = Err(StartError::Unsupported);
    assert_eq!(host.start(&cmd53(Direction::Read, 512, 1), &[mapped, small], 0), refused);
    assert_eq!(host.start(&cmd53(Direction::Read, 512, 2), &[mapped, mapped], 0), refused);
    assert_eq!(host.start(&cmd53(Direction::Read, 510, 1), &[mapped], 0), refused);
    assert_eq!(host.caps().max_segments, 1);
    // The rest of a buffer whose beginning the DMA has transferred also belongs to the DMA, however
    // small it is.
    let rest = Segment { len: 4, bus: mapped.bus.wrapping_add(508), ..mapped };
    host.start(&cmd53(Direction::Read, 4, 1), &[rest], 0).unwrap();
    assert_eq!(host.regs.get(DMA_ADDRESS), 0x3000_01fc);
}

/// Returns a driver with a read whose data have ended on the bus, with 64 bytes of them in the
/// FIFO.
fn over_on_the_lines() -> (Driver, Segment) {
    let mut host = ready_with(config());
    let mut segment = near(aligned(2048));
    host.map(&mut segment, Direction::Read).unwrap();
    host.start(&cmd53(Direction::Read, 512, 4), &[segment], 0).unwrap();
    host.regs.fifo.borrow_mut().resize(64, 0xee);
    assert!(report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &[segment]).phase.is_none());
    (host, segment)
}

#[test]
fn a_read_ends_when_dma_has_fetched_its_last_words() {
    let (mut host, segment) = over_on_the_lines();
    assert!(!host.regs.line(), "a full FIFO does not interrupt");
    host.regs.fifo.borrow_mut().truncate(32);
    assert!(host.regs.line());
    assert!(host.ack(&[segment]).phase.is_none());
    host.regs.fifo.borrow_mut().clear();
    assert!(host.ack(&[segment]).phase.is_none(), "the last word is on its way to memory");
    host.regs.set(DMA_START, 0);
    assert!(host.ack(&[segment]).phase.unwrap().is_ok());
    assert!(!host.regs.line());
}

#[test]
fn dma_that_stops_early_or_never_is_a_fault() {
    let fault = |host: &mut Driver, segment| host.ack(&[segment]).phase.map(|end| end.unwrap_err().cause);
    let (mut host, segment) = over_on_the_lines();
    host.regs.set(DMA_START, 0);
    assert_eq!(fault(&mut host, segment), Some(Cause::Dma));
    let (mut host, segment) = over_on_the_lines();
    let looks = (0..1000).take_while(|_| fault(&mut host, segment).is_none()).count();
    assert_eq!(looks, 63);
}

#[test]
fn a_reset_stops_dma_first() {
    let mut host = ready_with(config());
    let mut segment = near(aligned(512));
    host.map(&mut segment, Direction::Read).unwrap();
    host.start(&cmd53(Direction::Read, 512, 1), &[segment], 0).unwrap();
    report(&mut host, CMDSTAT_RESPONSE, DSTA_CRC, &[segment]).phase.unwrap().unwrap_err();
    host.regs.take_log();
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    let log = host.regs.take_log();
    assert_eq!(log[0], Write(DMA_START, 0));
    assert!(matches!(log[1], Write(CON, con) if con & CON_RESET != 0));
}

/// Tests that memory is released only when the board's DMA controller has stopped: neither a reset
/// nor the absence of the SD controller stops it.
#[test]
fn memory_is_not_let_go_before_dma_has_stopped() {
    let (mut host, segment) = over_on_the_lines();
    host.regs.dma_sticks.set(true);
    let mut now = 0;
    let mut step = host.set_bus(BusOp::ResetLines, true, now);
    assert!(matches!(step, Step::Wait(_)), "DMA writes on");
    while let Step::Wait(until) = step {
        assert!(until > now && until <= 1_000_000);
        now = until;
        step = host.set_bus(BusOp::ResetLines, false, now);
    }
    assert_eq!(step, Step::Failed);
    assert!(!host.isolate());

    assert!(matches!(host.set_bus(BusOp::ResetAll, true, now), Step::Wait(_)));
    host.regs.set(DMA_START, 0);
    assert_eq!(host.set_bus(BusOp::ResetAll, false, now), Step::Done);
    assert!(host.isolate());

    host.start(&cmd53(Direction::Read, 512, 4), &[segment], 0).unwrap();
    host.regs.gone.set(true);
    let fault = host.ack(&[segment]).phase.unwrap().unwrap_err();
    assert_ne!(fault.cause, Cause::Gone, "DMA is still there");
    // Without DMA, a controller that is gone accesses no memory.
    let mut host = ready();
    host.start(&cmd53(Direction::Read, 512, 4), &[near(aligned(2048))], 0).unwrap();
    host.regs.gone.set(true);
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap_err().cause, Cause::Gone);
}

//! Tests with random register values at any time: no panic, bounded work, and one end for each
//! start.

use super::*;
use arbtest::arbitrary::{Result, Unstructured};

fn arbitrary_phase(u: &mut Unstructured<'_>) -> Result<Phase> {
    let resp = *u.choose(&[Resp::None, Resp::R1, Resp::R1b, Resp::R2, Resp::R3, Resp::R4, Resp::R5])?;
    let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
    let sizes = Data { direction, block_size: u.arbitrary()?, blocks: u.arbitrary()? };
    let small = Data { direction, block_size: u.int_in_range(1..=512)?, blocks: u.int_in_range(1..=4)? };
    Ok(Phase {
        command: Command::new(u.arbitrary()?, u.arbitrary()?, resp),
        data: *u.choose(&[None, Some(small), Some(small), Some(sizes)])?,
        auto: *u.choose(&[Auto::None, Auto::None, Auto::None, Auto::Stop])?,
        tuning: u.ratio(1, 16)?,
    })
}

/// Returns random register values in which the bits with a meaning are frequent.
fn arbitrary_registers(u: &mut Unstructured<'_>) -> Result<Vec<u32>> {
    let mut values = Vec::new();
    for _ in 0..u.int_in_range(0..=24)? {
        let any: u32 = u.arbitrary()?;
        values.push(*u.choose(&[0, 0, any, any & 0x1fff, CMDSTAT_RESPONSE, DSTA_FINISH, 64, u32::MAX])?);
    }
    Ok(values)
}

#[test]
fn fuzz_anything_at_any_time() {
    crate::fuzz::fuzz("s3c_sdi: fuzz_anything_at_any_time", 500, |u| {
        let dma = if u.arbitrary()? { DmaUse::From(64) } else { DmaUse::Never };
        let mut host = ready_with(S3cSdiConfig { dma, ..S3cSdiConfig::new(PCLK_HZ) });
        let mut guarded = vec![0x77u8; 4 + 2048 + 4];
        let memory = near(&mut guarded[4..2052]);
        let mut running = false;
        let mut now = 0;
        while !u.is_empty() {
            host.regs.reads.set(0);
            *host.regs.random.borrow_mut() = Some(arbitrary_registers(u)?);
            // Data that go to the card do not matter in this test.
            host.regs.fifo.borrow_mut().clear();
            match u.int_in_range(0..=4)? {
                0 => {
                    let phase = arbitrary_phase(u)?;
                    let bus = if u.ratio(1, 4)? { 0x3000_0000 | MAPPED } else { 0 };
                    if host.start(&phase, &[Segment { bus, ..memory }], u.arbitrary()?).is_ok() {
                        assert!(!running);
                        running = true;
                    }
                    assert!(host.regs.reads.get() <= 2);
                }
                1 | 2 => {
                    // Sometimes passes other segments than the start had.
                    let segments: &[Segment] = if u.ratio(1, 8)? { &[] } else { &[memory] };
                    let ended = host.ack(segments).phase.is_some();
                    assert!(running || !ended);
                    running &= !ended;
                    assert!(host.regs.reads.get() <= 16 + 10);
                    assert!(host.regs.fifo.borrow().len() <= 64);
                }
                3 => {
                    let on: bool = u.arbitrary()?;
                    host.card_irq(on);
                    assert_eq!(host.regs.imsk.get() & INT_SDIO != 0, on);
                }
                _ => {
                    let hz = u.arbitrary()?;
                    let op = *u.choose(&[
                        BusOp::ResetLines,
                        BusOp::ResetAll,
                        BusOp::PowerOn,
                        BusOp::PowerOff,
                        BusOp::Clock(hz),
                    ])?;
                    let mut step = host.set_bus(op, true, now);
                    for _ in 0..200 {
                        let Step::Wait(until) = step else { break };
                        now = until;
                        step = host.set_bus(op, false, now);
                    }
                    assert!(!matches!(step, Step::Wait(_)), "{op:?}");
                    running &= matches!(op, BusOp::Clock(_));
                }
            }
        }
        assert!(guarded[..4].iter().chain(&guarded[2052..]).all(|&byte| byte == 0x77));
        Ok(())
    });
}

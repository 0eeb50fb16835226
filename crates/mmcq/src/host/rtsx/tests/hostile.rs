//! Tests with random register values at any time: no panic, bounded work, and one end for each
//! start.

use super::*;
use arbtest::arbitrary::Unstructured;

fn arbitrary_phase(u: &mut Unstructured<'_>) -> arbtest::arbitrary::Result<Phase> {
    let resp = *u.choose(&[Resp::None, Resp::R1, Resp::R1b, Resp::R2, Resp::R3, Resp::R7])?;
    let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
    let sizes = Data { direction, block_size: u.arbitrary()?, blocks: u.arbitrary()? };
    let small = Data { direction, block_size: *u.choose(&[8, 64, 512])?, blocks: u.int_in_range(1..=8)? };
    Ok(Phase {
        command: Command::new(u.arbitrary()?, u.arbitrary()?, resp),
        data: *u.choose(&[None, Some(small), Some(sizes)])?,
        auto: *u.choose(&[Auto::None, Auto::Continue, Auto::Stop, Auto::Count(1)])?,
        tuning: u.ratio(1, 4)?,
    })
}

#[test]
fn fuzz_anything_at_any_time() {
    crate::fuzz::fuzz("rtsx: fuzz_anything_at_any_time", 300, |u| {
        let mut host = ready(RtsxConfig { coherent: u.arbitrary()?, ..RtsxConfig::new(Chip::Rts5249) });
        let memory = [far(0x2000_0000, 4096)];
        let mut running = false;
        let mut now = 0;
        while !u.is_empty() {
            host.port.regs.reads.set(0);
            match u.int_in_range(0..=3)? {
                0 => {
                    if host.start(&arbitrary_phase(u)?, &memory, u.arbitrary()?).is_ok() {
                        assert!(!running);
                        running = true;
                    }
                    assert_eq!(host.port.regs.reads.get(), 0);
                }
                1 => {
                    host.port.regs.pending.set(u.arbitrary()?);
                    host.port.regs.fail(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
                    host.port.regs.answer(&u.arbitrary::<[u8; 5]>()?);
                    host.dma.give_back(&u.arbitrary::<[u8; 18]>()?);
                    let ended = host.ack(&memory).phase.is_some();
                    assert!(running || !ended);
                    running &= !ended;
                    assert!(host.port.regs.reads.get() <= 64 * 20);
                }
                2 => {
                    let hz = u.arbitrary()?;
                    let op = *u.choose(&[
                        BusOp::ResetLines,
                        BusOp::ResetAll,
                        BusOp::PowerOn,
                        BusOp::TuneStart,
                        BusOp::TuneAbort,
                        BusOp::Clock(hz),
                    ])?;
                    host.port.regs.slow.set(u.int_in_range(0..=100)?);
                    let mut step = host.set_bus(op, true, now);
                    for _ in 0..3_000 {
                        let Step::Wait(until) = step else { break };
                        now = now.max(until);
                        step = host.set_bus(op, false, now);
                    }
                    assert!(!matches!(step, Step::Wait(_)), "{op:?}");
                    running &= !matches!(
                        op,
                        BusOp::ResetLines | BusOp::ResetAll | BusOp::PowerOn | BusOp::TuneAbort
                    );
                    host.port.regs.slow.set(0);
                    host.port.regs.left.set(0);
                }
                _ => {
                    let _ = (host.dat0_busy(), host.present(), host.write_protected());
                }
            }
        }
        Ok(())
    });
}

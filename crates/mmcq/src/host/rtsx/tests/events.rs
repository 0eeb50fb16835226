//! Tests of how phases end, of errors, and of interrupts that come at the wrong time.

use super::*;

const R1_TRAN: [u8; 5] = [0, 0, 0, 0x09, 0];

fn answered(index: u8) -> Driver {
    let host = ready(RtsxConfig::new(Chip::Rts5249));
    host.port.regs.answer(&[index, R1_TRAN[1], R1_TRAN[2], R1_TRAN[3], R1_TRAN[4]]);
    host
}

fn reading() -> Driver {
    let mut host = answered(18);
    host.start(&data(18, Direction::Read, 512, 8), &[far(0x2000_0000, 4096)], 1).unwrap();
    host.port.regs.take();
    host
}

#[test]
fn data_need_both_ends_in_any_order() {
    for (first, second, enables) in [(TABLE_OK, LIST_OK, 0), (LIST_OK, TABLE_OK, 2)] {
        let mut host = reading();
        assert!(report(&mut host, first).phase.is_none());
        // One interrupt is sufficient: the end of DMA is enabled only if it is the later event.
        let done = report(&mut host, second).phase.unwrap().unwrap();
        assert_eq!(done.response.words[0], 0x900);
        let enable: Vec<_> =
            host.port.regs.take().into_iter().filter(|(offset, _)| *offset == 0x18).collect();
        assert_eq!(enable.len(), enables);
        assert_eq!(enable, [(0x18, 0xd2c0_0000), (0x18, 0x92c0_0000)][..enables]);
        assert_eq!(host.ack(&[]).phase, None);
    }
    let mut host = reading();
    assert!(report(&mut host, LIST_OK | TABLE_OK).phase.unwrap().is_ok());
}

#[test]
fn twelve_byte_wise_accesses_fetch_a_response() {
    let mut host = answered(13);
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    host.port.regs.take();
    let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
    assert_eq!(done, Done { response: Response::short(0x900), ..Done::default() });
    assert_eq!(host.port.regs.reads.get(), 6);
    let at = |register: u32| (0x10, 0x8000_0000 | register << 16);
    assert_eq!(
        host.port.regs.take(),
        [(0x14, LIST_OK), at(0x3da9), at(0x3daa), at(0x3dab), at(0x3dac), at(0x3dad)]
    );
}

#[test]
fn long_responses_are_in_the_ping_pong_buffer() {
    let mut host = answered(0x3f);
    for at in 0..16 {
        host.port.regs.set(0xfa00 + at, 0x30 + at as u8);
    }
    host.start(&command(9, Resp::R2), &[], 1).unwrap();
    let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
    assert_eq!(done.response.words, [0x3132_3334, 0x3536_3738, 0x393a_3b3c, 0x3d3e_3f00]);
}

#[test]
fn responses_must_be_the_commands_own() {
    for (first, resp, good) in [
        (13, Resp::R1, true),
        (17, Resp::R1, false),
        // Direction or start bit is wrong, so the bytes are those of the command itself.
        (0x40 | 13, Resp::R1, false),
        (0x80 | 13, Resp::R1, false),
        (0x3f, Resp::R3, true),
        (0x7f, Resp::R3, false),
        (0x3f, Resp::R2, true),
        (13, Resp::R2, false),
    ] {
        let mut host = answered(first);
        host.start(&command(13, resp), &[], 1).unwrap();
        let end = report(&mut host, LIST_OK).phase;
        if good {
            assert!(end.unwrap().is_ok(), "{first:#x} {resp:?}");
        } else {
            assert_eq!(end, fault(Cause::Index, Stage::Command, None), "{first:#x} {resp:?}");
        }
    }
}

#[test]
fn status_says_why_a_list_failed() {
    let failed = 0x30;
    let none = None;
    let r1 = Some(0x900);
    for (phase, transfer, stat1, stat2, cause, stage, response) in [
        (command(13, Resp::R1), failed, 0, 1, Cause::Timeout, Stage::Command, none),
        (command(13, Resp::R1), failed, 0x80, 0, Cause::Crc, Stage::Command, none),
        (command(13, Resp::R1), failed, 0, 0, Cause::Other, Stage::Command, none),
        (command(13, Resp::R1), 0x88, 0, 0, Cause::Timeout, Stage::Command, none),
        (command(13, Resp::R1b), 0x88, 0, 0, Cause::Timeout, Stage::Busy, r1),
        (data(13, Direction::Read, 512, 8), failed, 0, 1, Cause::Timeout, Stage::Command, none),
        (data(13, Direction::Read, 512, 8), failed, 0xc0, 0, Cause::Crc, Stage::Command, none),
        (data(13, Direction::Read, 512, 8), failed, 0x40, 0, Cause::Crc, Stage::Data, r1),
        (data(13, Direction::Read, 512, 8), 0x8e, 0, 0, Cause::Timeout, Stage::Data, r1),
        (data(13, Direction::Read, 512, 8), failed, 0, 0, Cause::Dma, Stage::Data, r1),
        (more(Direction::Read, 8), failed, 0x40, 0, Cause::Crc, Stage::Data, none),
        (more(Direction::Write, 8), failed, 0x34, 0, Cause::Crc, Stage::Data, none),
        (more(Direction::Write, 8), failed, 0x02, 0, Cause::Timeout, Stage::Data, none),
        (data(13, Direction::Write, 512, 8), failed, 0, 1, Cause::Timeout, Stage::Command, none),
    ] {
        for coherent in [false, true] {
            let mut host = ready(RtsxConfig { coherent, ..RtsxConfig::new(Chip::Rts5249) });
            host.port.regs.answer(&[13, 0, 0, 0x09, 0]);
            host.start(&phase, &[far(0x2000_0000, 4096)], 1).unwrap();
            host.port.regs.fail(transfer, stat1, stat2);
            let end = report(&mut host, LIST_FAIL).phase;
            assert_eq!(end, fault(cause, stage, response), "{phase:?} {transfer:#x} {stat1:#x} {stat2:#x}");
            // The lines must be reset before the next phase.
            let next = host.start(&command(13, Resp::R1), &[], 1);
            assert_eq!(next, Err(StartError::CommandLine));
            assert_eq!(finish(&mut host, BusOp::ResetLines).0, Step::Done);
            assert!(host.start(&command(13, Resp::R1), &[], 1).is_ok());
        }
    }
}

#[test]
fn a_written_block_that_fails_still_has_its_response() {
    let mut host = answered(25);
    host.start(&data(25, Direction::Write, 512, 8), &[far(0x2000_0000, 4096)], 1).unwrap();
    assert!(report(&mut host, LIST_OK).phase.is_none());
    host.port.regs.fail(0x31, 0x34, 0);
    assert_eq!(report(&mut host, TABLE_OK | LIST_FAIL).phase, fault(Cause::Crc, Stage::Data, Some(0x900)));
}

#[test]
fn a_refused_write_sends_no_data() {
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    // The R1 has OUT_OF_RANGE, bit 31.
    host.port.regs.answer(&[25, 0x80, 0, 0x09, 0]);
    host.start(&data(25, Direction::Write, 512, 8), &[far(0x2000_0000, 4096)], 1).unwrap();
    host.port.regs.take();
    let done = report(&mut host, LIST_OK).phase.unwrap().unwrap();
    assert_eq!(done.response.words[0], 0x8000_0900);
    assert!(host.port.regs.take().iter().all(|(offset, _)| matches!(offset, 0x10 | 0x14)));
    assert!(host.start(&command(13, Resp::R1), &[], 1).is_ok());
}

/// Tests a list that fails during the register write that starts it, before the DMA is started.
#[test]
fn a_failure_as_fast_as_the_start_is_not_lost() {
    let mut host = answered(18);
    // The failure is latched while `start` still runs. So `start` must write to the pending
    // register before it starts the list.
    host.port.regs.fail(0x30, 0, 1);
    host.start(&data(18, Direction::Read, 512, 8), &[far(0x2000_0000, 4096)], 1).unwrap();
    let writes = host.port.regs.take();
    let begun = writes.iter().position(|(offset, _)| *offset == 0x04).unwrap();
    assert!(writes[begun..].iter().all(|(offset, _)| *offset != 0x14 && *offset != 0x18), "{writes:x?}");
    assert_eq!(report(&mut host, LIST_FAIL).phase, fault(Cause::Timeout, Stage::Command, None));

    // A failure during `start` after a spurious event, when `start` must clear the pending register
    // first.
    let mut host = answered(13);
    assert!(report(&mut host, LIST_OK).phase.is_none());
    host.port.regs.pending.set(LIST_OK);
    host.port.regs.take();
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    assert_eq!(host.port.regs.take()[..2], [(0x14, 0xf000_0000), (0x00, 0x1000_0000)]);
    assert_eq!(host.port.regs.pending.get(), 0);
    assert!(host.ack(&[]).phase.is_none());
    assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
}

#[test]
fn foreign_and_odd_interrupts_are_survived() {
    let mut host = answered(13);
    // Interrupts of other kinds of cards, no interrupt, and the levels.
    for latched in [0, 0x0c00_0000, 0x0009_0000, TABLE_OK] {
        let events = report(&mut host, latched);
        assert!(events.phase.is_none() && !events.presence, "{latched:#x}");
        assert_eq!(events.acknowledged, latched & 0xffc0_0000 != 0, "{latched:#x}");
    }
    assert!(host.present() && host.write_protected());
    let events = report(&mut host, 0x0200_0000);
    assert!(events.presence && events.phase.is_none());

    // An end that reports neither success nor failure.
    host.port.regs.pending.set(0);
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    assert_eq!(report(&mut host, 0x8000_0000).phase, fault(Cause::Other, Stage::Command, None));

    let mut host = reading();
    assert_eq!(report(&mut host, 0x0040_0000).phase, fault(Cause::Power, Stage::Data, None));

    let mut host = reading();
    host.port.regs.gone.set(true);
    host.port.regs.take();
    assert_eq!(host.ack(&[]).phase, fault(Cause::Gone, Stage::Data, None));
    assert_eq!((host.port.regs.take(), host.present(), host.dat0_busy()), (vec![], false, false));
    assert!(host.ack(&[]).phase.is_none());
}

#[test]
fn a_chip_that_never_answers_costs_a_bounded_number_of_looks() {
    let mut host = answered(13);
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    host.port.regs.slow.set(u32::MAX);
    host.port.regs.take();
    assert_eq!(report(&mut host, LIST_OK).phase, fault(Cause::Other, Stage::Command, None));
    assert!(host.port.regs.reads.get() < 100);

    // A slow chip that still works: the response is complete.
    let mut host = answered(13);
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    host.port.regs.slow.set(3);
    assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
}

/// Tests single reads that return all ones because they are lost on the bus: the chip does not
/// count as gone.
#[test]
fn one_read_of_ones_is_no_chip_that_is_gone() {
    for lost in [1, 2] {
        let mut host = reading();
        host.port.regs.lost.set(lost);
        let cause = host.ack(&[]).phase.map(|end| end.unwrap_err().cause);
        assert_ne!(cause, Some(Cause::Gone), "{lost}");
        host.port.regs.lost.set(1);
        assert!(!host.isolate());
    }
}

/// Calls `ack` until the interrupt line is inactive, at most three times. Returns the number of
/// calls, and the end of the phase, if there was one.
fn settle(host: &mut Driver) -> (u32, Option<Result<Done, Fault>>) {
    let mut end = None;
    for calls in 0..3 {
        if host.port.regs.pending.get() & host.enable == 0 {
            return (calls, end);
        }
        end = end.or(host.ack(&[]).phase);
    }
    panic!("a storm: pending {:#x}, enabled {:#x}", host.port.regs.pending.get(), host.enable);
}

/// Tests an overcurrent that lasts for ever: it interrupts only one time.
#[test]
fn too_much_current_that_stays_interrupts_once() {
    for bit in [INT_OVERCURRENT, INT_CARD_OVERCURRENT] {
        let mut host = reading();
        host.port.regs.stays.set(bit);
        host.port.regs.pending.set(bit);
        assert_eq!(settle(&mut host), (1, fault(Cause::Power, Stage::Data, None)));
        // The overcurrent is remembered: a phase that ends while it lasts has failed.
        assert_eq!(finish(&mut host, BusOp::ResetLines).0, Step::Done);
        host.start(&command(13, Resp::R1), &[], 1).unwrap();
        host.port.regs.pending.set(bit | LIST_OK);
        assert_eq!(settle(&mut host).1, fault(Cause::Power, Stage::Command, None));
        // The overcurrent comes while no phase is in progress.
        assert_eq!(finish(&mut host, BusOp::ResetAll).0, Step::Done);
        assert_eq!(settle(&mut host), (1, None));
        // The overcurrent has ended, and may be reported again.
        host.port.regs.stays.set(0);
        assert_eq!(finish(&mut host, BusOp::PowerOn).0, Step::Done);
        host.port.regs.pending.set(bit);
        assert_eq!(settle(&mut host), (1, None));
    }
}

#[test]
fn an_event_that_does_not_go_away_is_no_storm() {
    for bit in [INT_COMMAND, INT_FAIL] {
        let mut host = answered(13);
        host.port.regs.stays.set(bit);
        host.port.regs.pending.set(bit);
        assert_eq!(settle(&mut host), (2, None));
        // The next phase is reported again.
        host.port.regs.stays.set(0);
        host.start(&command(13, Resp::R1), &[], 1).unwrap();
        host.port.regs.pending.set(LIST_OK);
        assert!(settle(&mut host).1.unwrap().is_ok());
        // A reset ends the masking of such an event too, without a start before it.
        host.port.regs.stays.set(bit);
        host.port.regs.pending.set(bit);
        assert_eq!(settle(&mut host), (2, None));
        host.port.regs.stays.set(0);
        assert_eq!(finish(&mut host, BusOp::ResetLines).0, Step::Done);
        host.start(&command(13, Resp::R1), &[], 1).unwrap();
        host.port.regs.pending.set(LIST_OK);
        assert!(settle(&mut host).1.unwrap().is_ok());
    }
}

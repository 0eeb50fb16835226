//! Tests of the search for the sampling point.

use super::*;
use crate::spec::command::sd;
use crate::spec::timing::{TUNING_64, TUNING_128};

const TAPS: u8 = 8;

fn tuned<L: MshcLayout>(config: MshcConfig) -> Driver<L> {
    let config = config.max_clock_hz(200_000_000).high_speed(true).signal18(true).width(Width::W8);
    let mut host = build_on(Fake::new::<L>(), config, 1, TAPS).unwrap();
    for op in
        [BusOp::PowerOn, BusOp::Width(Width::W4), BusOp::Timing(Timing::Sdr104), BusOp::Clock(200_000_000)]
    {
        assert_eq!(settle(&mut host, op), Step::Done, "{op:?}");
    }
    host.board.told.clear();
    host.regs.take_log();
    host
}

fn block(bytes: u16) -> Phase {
    let data = Some(Data { direction: Direction::Read, block_size: bytes, blocks: 1 });
    Phase { command: sd::send_tuning_block(), data, auto: Auto::None, tuning: true }
}

/// Runs a tuning block with these bytes, and with these raw status bits at its end.
fn tried<L: MshcLayout>(host: &mut Driver<L>, bytes: &[u8], raw: u32) -> Result<Done, Fault> {
    host.start(&block(bytes.len().max(64) as u16), &[], 0).unwrap();
    for piece in bytes.chunks(64) {
        assert!(host.ack(&[]).phase.is_none());
        host.regs
            .fifo
            .borrow_mut()
            .extend(piece.chunks(4).map(|w| u32::from_le_bytes(w.try_into().unwrap())));
        raise(host, INT_RX);
        // The status bits come together with the last bytes.
        if piece.as_ptr_range().end == bytes.as_ptr_range().end {
            raise(host, raw);
        }
        if let Some(end) = host.ack(&[]).phase {
            return end;
        }
    }
    raise(host, raw);
    host.ack(&[]).phase.expect("no end")
}

const GOOD: u32 = INT_COMMAND | INT_DATA;

fn the_middle_of_the_good_phases_is_taken<L: MshcLayout>() {
    let mut host = tuned::<L>(MshcConfig::new(200_000_000));
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    let mut other = TUNING_64;
    other[40] ^= 1;
    for tap in 0..TAPS {
        let end = match tap {
            2..=6 => tried(&mut host, &TUNING_64, GOOD),
            // Bad blocks: a wrong bit that the controller does not report, and two kinds of
            // reported errors.
            0 => tried(&mut host, &other, GOOD),
            1 => tried(&mut host, &TUNING_64, GOOD | INT_DATA_CRC),
            _ => tried(&mut host, &TUNING_64, GOOD | INT_RESPONSE_CRC),
        };
        assert!(!end.unwrap().tuned, "{tap}");
        assert_eq!(host.regs.get(L::AT.timeout), u32::MAX);
    }
    assert!(tried(&mut host, &TUNING_64, GOOD).unwrap().tuned);
    let taps: Vec<Option<u8>> = (0..TAPS).chain([4]).map(Some).collect();
    assert_eq!(host.board.told, taps);
    // A slower timing selects the sampling point that needs no tuning.
    assert_eq!(settle(&mut host, BusOp::Timing(Timing::HighSpeed)), Step::Done);
    assert_eq!(host.board.told.last(), Some(&None));
}

fn a_bad_block_leaves_nothing_behind<L: MshcLayout>() {
    let mut host = tuned::<L>(MshcConfig::new(200_000_000));
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    host.regs.take_log();
    // The data end after half a block, by a timeout that is shorter than a whole tuning.
    let end = tried(&mut host, &TUNING_64[..32], INT_COMMAND | INT_DATA | INT_DATA_TIMEOUT);
    assert!(!end.unwrap().tuned);
    let log = host.regs.take_log();
    assert!(log.contains(&(L::AT.timeout, 1_000_000 << 8 | 0xff)), "{log:x?}");
    assert!(log.contains(&(L::AT.control, CONTROL_INTERRUPTS | CONTROL_FIFO_RESET)), "{log:x?}");
    // A missing response is reported as such.
    let fault = tried(&mut host, &[], INT_NO_RESPONSE | INT_COMMAND).unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Command));
    assert_eq!(host.start(&block(64), &[], 0), Err(StartError::DataLine));
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
    // Both failed blocks have counted as bad taps.
    assert_eq!(host.board.told, [Some(0), Some(1), Some(2)]);
}

fn no_good_point_is_a_fault<L: MshcLayout>() {
    let mut host = tuned::<L>(MshcConfig::new(200_000_000));
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    for _ in 1..TAPS {
        assert!(!tried(&mut host, &TUNING_64, GOOD | INT_DATA_CRC).unwrap().tuned);
    }
    let fault = tried(&mut host, &TUNING_64, GOOD | INT_DATA_CRC).unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Crc, Stage::Data));
    assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
    // The search has ended.
    assert_eq!(host.start(&block(64), &[], 0), Err(StartError::Unsupported));
    assert_eq!(settle(&mut host, BusOp::TuneAbort), Step::Done);
    assert_eq!(host.board.told.last(), Some(&None));
}

fn eight_lines_have_a_longer_block<L: MshcLayout>() {
    let mut host = tuned::<L>(MshcConfig::new(200_000_000));
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    for _ in 0..TAPS {
        assert!(!tried(&mut host, &TUNING_128, GOOD).unwrap().tuned);
    }
    assert!(tried(&mut host, &TUNING_128, GOOD).unwrap().tuned);
}

/// Tests that a reset of the controller, which clears the register, makes the next fast read write
/// it again.
fn a_reset_forgets_the_room_of_reads<L: MshcLayout>() {
    let mut memory = [0u8; 1024];
    let mut host = tuned::<L>(MshcConfig::new(200_000_000).fifo_words(Some(128)));
    let segment = mapped(&mut host, &mut memory, Direction::Read);
    for _ in 0..2 {
        host.start(&transfer(Direction::Read, 2), &[segment], 0).unwrap();
        assert_eq!(host.regs.get(L::AT.read_room), 512 << 16 | 1);
        host.regs.set(L::AT.read_room, 0);
        assert_eq!(settle(&mut host, BusOp::ResetAll), Step::Done);
    }
    host.unmap(&segment, Direction::Read);
}

/// Tests that at a fast clock a read waits until the FIFO has space for a block, if the FIFO is
/// large enough.
fn fast_reads_wait_for_room<L: MshcLayout>() {
    let mut memory = [0u8; 1024];
    for (words, room) in [(64u16, 0), (128, 512 << 16 | 1)] {
        let mut host = tuned::<L>(MshcConfig::new(200_000_000).fifo_words(Some(words)));
        let segment = mapped(&mut host, &mut memory, Direction::Read);
        host.start(&transfer(Direction::Read, 2), &[segment], 0).unwrap();
        assert_eq!(host.regs.get(L::AT.read_room), room);
        assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
        assert_eq!(settle(&mut host, BusOp::Timing(Timing::HighSpeed)), Step::Done);
        host.start(&transfer(Direction::Read, 2), &[segment], 0).unwrap();
        assert_eq!(host.regs.get(L::AT.read_room), 0);
        assert_eq!(settle(&mut host, BusOp::ResetLines), Step::Done);
        host.unmap(&segment, Direction::Read);
    }
}

fn what_is_no_tuning_is_refused<L: MshcLayout>() {
    let mut host = tuned::<L>(MshcConfig::new(200_000_000));
    assert_eq!(host.start(&block(64), &[], 0), Err(StartError::Unsupported));
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    assert_eq!(host.start(&block(512), &[], 0), Err(StartError::Unsupported));
    let none = Phase { data: None, ..block(64) };
    assert_eq!(host.start(&none, &[], 0), Err(StartError::Unsupported));
    let stops = Phase { auto: Auto::Stop, ..block(64) };
    assert_eq!(host.start(&stops, &[], 0), Err(StartError::Unsupported));
    // A controller that is gone is not reported as a bad sampling point.
    host.start(&block(64), &[], 0).unwrap();
    host.regs.gone.set(true);
    assert_eq!(host.ack(&[]).phase.unwrap().unwrap_err().cause, Cause::Gone);
}

in_both_layouts!(
    the_middle_of_the_good_phases_is_taken,
    a_bad_block_leaves_nothing_behind,
    no_good_point_is_a_fault,
    eight_lines_have_a_longer_block,
    a_reset_forgets_the_room_of_reads,
    fast_reads_wait_for_room,
    what_is_no_tuning_is_refused,
);

/// Tests the tuning by SMHC's delay line, whose taps do not form a circle.
#[test]
fn an_smhc_moves_its_delay_line() {
    let config = MshcConfig::new(200_000_000).sample_delay(true).new_timing(true);
    let mut host = tuned::<SmhcLayout>(config);
    assert_eq!(host.regs.get(SMHC_TIMING), TIMING_NEW);
    assert_eq!(host.regs.get(SMHC_SAMPLE_DELAY), DELAY_ON);
    assert_eq!(host.set_bus(BusOp::TuneStart, true, 0), Step::Done);
    for tap in 0..32 {
        assert_eq!(host.regs.get(SMHC_SAMPLE_DELAY), DELAY_ON | (2 * tap));
        let raw = if (1..12).contains(&tap) { GOOD } else { GOOD | INT_DATA_CRC };
        assert!(!tried(&mut host, &TUNING_64, raw).unwrap().tuned);
    }
    assert!(tried(&mut host, &TUNING_64, GOOD).unwrap().tuned);
    assert!(host.board.told.is_empty());
    // A reset keeps the selected tap, and a slower timing drops it.
    assert_eq!(settle(&mut host, BusOp::ResetAll), Step::Done);
    assert_eq!(host.regs.get(SMHC_SAMPLE_DELAY), DELAY_ON | (2 * 6));
    assert_eq!(settle(&mut host, BusOp::Timing(Timing::Legacy)), Step::Done);
    assert_eq!(host.regs.get(SMHC_SAMPLE_DELAY), DELAY_ON);
}

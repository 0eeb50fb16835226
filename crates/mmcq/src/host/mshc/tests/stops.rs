//! Tests of the two R1 of a transfer that the controller stops. The R1 of the command reports
//! earlier writes, the R1 of CMD12 reports this transfer.

use super::*;
use crate::spec::response::R1;

/// R1 of a card in the state `tran`.
const COMMAND_R1: u32 = 0x900;
/// R1 of a card in the state `data`.
const READ_STOP_R1: u32 = 0xb00;
/// R1 of a card in the state `rcv`.
const WRITE_STOP_R1: u32 = 0xd00;

type Found = (Option<u32>, Option<u32>);

/// Runs a transfer whose response registers have one value at the end of the command, and another
/// at the end of the transfer. Returns the R1 of the command and the R1 of CMD12, as the driver
/// reports them.
fn found<L: MshcLayout>(
    host: &mut Driver<L>,
    direction: Direction,
    at_command: Option<[u32; 2]>,
    at_end: [u32; 2],
) -> Found {
    let mut memory = [0u8; 1024];
    let segment = mapped(host, &mut memory, direction);
    host.start(&transfer(direction, 2), &[segment], 0).unwrap();
    let tell = |host: &Driver<L>, words: [u32; 2]| {
        for (at, word) in (0..).zip(words) {
            host.regs.set(L::AT.response + 4 * at, word);
        }
    };
    if let Some(words) = at_command {
        tell(host, words);
        raise(host, INT_COMMAND);
        if host.regs.line() {
            assert!(host.ack(&[segment]).phase.is_none());
            assert!(!host.regs.line());
        }
    }
    tell(host, at_end);
    host.regs.dma.set(DMA_RECEIVED);
    raise(host, INT_COMMAND | INT_DATA | INT_AUTO_STOP);
    assert!(host.regs.line());
    let done = host.ack(&[segment]).phase.unwrap().unwrap();
    host.unmap(&segment, direction);
    (Some(done.response.words[0]), done.stop)
}

#[test]
fn design_ware_keeps_both() {
    let mut host = ready::<DesignWareLayout>();
    let late = R1::ERROR | COMMAND_R1;
    let words = [late, WRITE_STOP_R1];
    assert_eq!(found(&mut host, Direction::Write, Some(words), words), (Some(late), Some(WRITE_STOP_R1)));
}

/// Tests a controller like QEMU's: at the end RESP0 has the R1 of CMD12, and all events come at the
/// same time.
#[test]
fn the_r1_of_cmd12_is_not_taken_for_that_of_the_command() {
    let mut host = ready::<SmhcLayout>();
    for (direction, stop) in [
        (Direction::Read, READ_STOP_R1),
        // Some cards set this bit when a read ends with their last block [SD 4.3.3].
        (Direction::Read, READ_STOP_R1 | R1::OUT_OF_RANGE),
        (Direction::Write, WRITE_STOP_R1),
        // This write has failed, and no earlier one.
        (Direction::Write, WRITE_STOP_R1 | R1::ERROR),
    ] {
        assert_eq!(found(&mut host, direction, None, [stop, 0]), (Some(COMMAND_R1), Some(stop)), "{stop:#x}");
    }
}

/// Tests a controller with time between both responses: the register has the command's R1 until the
/// R1 of CMD12 arrives.
#[test]
fn an_earlier_write_that_failed_is_heard_before_cmd12() {
    let mut host = ready::<SmhcLayout>();
    let late = COMMAND_R1 | R1::ERROR;
    for direction in [Direction::Read, Direction::Write] {
        let end = [READ_STOP_R1, 0];
        assert_eq!(found(&mut host, direction, Some([late, 0]), end), (Some(late), Some(READ_STOP_R1)));
        // The R1 of an earlier transfer is not reported for this one.
        assert_eq!(found(&mut host, direction, None, end), (Some(COMMAND_R1), Some(READ_STOP_R1)));
    }
}

/// Tests an SMHC that keeps both R1, like DesignWare's controller: after the first transfer it
/// needs only one interrupt for each transfer.
#[test]
fn an_smhc_that_keeps_both_is_learned() {
    let mut host = ready::<SmhcLayout>();
    let late = COMMAND_R1 | R1::ERROR;
    for words in [[COMMAND_R1, WRITE_STOP_R1], [late, WRITE_STOP_R1 | R1::ERROR]] {
        let both = (Some(words[0]), Some(words[1]));
        assert_eq!(found(&mut host, Direction::Write, Some(words), words), both);
    }
    // RESP1 has a part of a CSD, for example, and not the R1 of CMD12.
    let words = [COMMAND_R1, 0x3280_1234];
    assert_eq!(found(&mut host, Direction::Write, None, words), (Some(COMMAND_R1), None));
    let mut memory = [0u8; 1024];
    let segment = mapped(&mut host, &mut memory, Direction::Write);
    host.start(&transfer(Direction::Write, 2), &[segment], 0).unwrap();
    raise(&host, INT_COMMAND);
    assert!(!host.regs.line(), "the command's end has nothing new");
    // The driver checks at the end of each transfer whether the command's R1 was kept, since that
    // may change.
    raise(&host, INT_DATA | INT_AUTO_STOP);
    host.regs.set(SmhcLayout::AT.response, WRITE_STOP_R1);
    assert_eq!(host.ack(&[segment]).phase.unwrap().unwrap().stop, Some(WRITE_STOP_R1));
    host.start(&transfer(Direction::Write, 2), &[segment], 0).unwrap();
    raise(&host, INT_COMMAND);
    assert!(host.regs.line());
}

/// Tests that a fault has the R1 of its own command, or no R1.
#[test]
fn a_fault_has_no_other_commands_r1() {
    for (word, told) in [(COMMAND_R1 | R1::ERROR, true), (READ_STOP_R1 | R1::ERROR, false)] {
        let mut host = ready::<SmhcLayout>();
        let mut memory = [0u8; 1024];
        let segment = mapped(&mut host, &mut memory, Direction::Read);
        host.start(&transfer(Direction::Read, 2), &[segment], 0).unwrap();
        host.regs.set(SmhcLayout::AT.response, word);
        raise(&host, INT_COMMAND | INT_DATA_CRC | INT_AUTO_STOP);
        let fault = host.ack(&[segment]).phase.unwrap().unwrap_err();
        assert_eq!((fault.cause, fault.stage), (Cause::Crc, Stage::Data));
        assert_eq!(fault.response.map(|response| response.words[0]), told.then_some(word));
    }
}

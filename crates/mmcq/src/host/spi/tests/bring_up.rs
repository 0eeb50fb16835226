use super::*;
use crate::spec::response::{R1, State};

const IDLE: u8 = 1;

#[test]
fn what_the_bus_of_sd_has_is_said_in_other_words() {
    let mut b = fresh();
    // CMD0, and CMD59, which switches CRC on.
    b.command(0, 0, &[0xff, IDLE, 0xff, 0xff, 0xff]);
    b.command(59, 1, &[IDLE]);
    assert!(b.run(&command(0, 0, Resp::None)).is_ok());
    b.played();
    assert_eq!(b.script.borrow().selected, [true]);
    b.command(8, 0x1aa, &[IDLE, 0, 0, 1, 0xaa]);
    assert_eq!(b.run(&command(8, 0x1aa, Resp::R7)).unwrap().response.r7().pattern(), 0xaa);
    // An ACMD41 that only inquires must not start the card's initialisation.
    let prefix = |b: &mut Bench| b.run(&command(55, 0, Resp::R1)).unwrap().response.r1();
    assert_eq!(prefix(&mut b).0 & R1::APP_CMD, R1::APP_CMD);
    b.command(58, 0, &[IDLE, 0, 0xff, 0x80, 0]);
    assert_eq!(b.run(&command(41, 0, Resp::R3)).unwrap().response.ocr().0, 0x00ff_8000);
    // The card is not ready at first, and then it is.
    for (r1, ready) in [(IDLE, false), (0, true)] {
        prefix(&mut b);
        b.command(55, 0, &[IDLE, 0xff, 0xff, 0xff, 0xff]);
        b.command(41, 1 << 30, &[r1, 0xff, 0xff, 0xff, 0xff]);
        if ready {
            // Some cards report the idle state in the response to CMD58.
            b.command(58, 0, &[IDLE, 0xc0, 0xff, 0x80, 0]);
        }
        let ocr = b.run(&command(41, 0x40ff_8000, Resp::R3)).unwrap().response.ocr();
        assert_eq!((ocr.ready(), ocr.ccs()), (ready, ready));
        b.played();
    }
    // The driver reads the CID by CMD10, as data.
    let cid = content(9, 16);
    b.command_then(10, 0, &[0xff, 0, 0xff]);
    b.block_comes(&cid);
    let words = b.run(&command(2, 0, Resp::R2)).unwrap().response.words;
    assert_eq!(words[0].to_be_bytes(), cid[..4]);
    assert_eq!(words[3].to_be_bytes(), [cid[12], cid[13], cid[14], 0]);
    let bytes = b.script.borrow().bytes;
    assert_eq!(b.run(&command(3, 0, Resp::R6)).unwrap().response.r6().rca(), 1);
    assert!(b.run(&command(7, 1 << 16, Resp::R1b)).is_ok());
    assert_eq!(b.script.borrow().bytes, bytes + 2, "no command, a byte each");
    b.command(13, 0, &[0, 0, 0xff]);
    let status = b.run(&command(13, 1 << 16, Resp::R1)).unwrap().response.r1();
    assert_eq!(
        (status.current_state(), status.ready_for_data(), status.0 & R1::ERRORS),
        (State::Tran, true, 0)
    );
    b.played();
}

#[test]
fn what_a_card_does_not_know_it_does_not_answer() {
    let mut b = fresh();
    b.command(0, 0, &[IDLE, 0xff, 0xff, 0xff, 0xff]);
    b.command(59, 1, &[IDLE]);
    assert!(b.run(&command(0, 0, Resp::None)).is_ok());
    b.command(8, 0x1aa, &[IDLE | 4]);
    assert_eq!(fault(b.run(&command(8, 0x1aa, Resp::R7))), (Cause::Timeout, Stage::Command));
    // Commands that only an eMMC or an I/O card supports.
    assert_eq!(fault(b.run(&command(5, 0, Resp::R4))), (Cause::Timeout, Stage::Command));
    assert_eq!(b.start(&command(52, 0, Resp::R5)), Err(StartError::Unsupported));
    // What the driver reports for an R1 to CMD17 of an initialised card: an illegal command is a
    // timeout, a wrong argument is OUT_OF_RANGE, and a damaged command is a CRC error. With the
    // idle bit the card was reset, and counts as missing.
    for (r1, expected) in [
        (0x04, Err((Cause::Timeout, Stage::Command))),
        (0x40, Ok(R1::OUT_OF_RANGE)),
        (0x08, Err((Cause::Crc, Stage::Command))),
        (IDLE, Err((Cause::Timeout, Stage::Command))),
        (IDLE | 4, Err((Cause::Timeout, Stage::Command))),
    ] {
        let mut b = bench();
        b.command(17, 9, &[0xff, r1]);
        let end = b.run(&read(17, 1, Auto::None));
        match expected {
            Ok(bits) => assert_eq!(end.unwrap().response.r1().0 & R1::ERRORS, bits),
            Err(expected) => assert_eq!(fault(end), expected, "{r1:#x}"),
        }
    }
}

/// Tests bring-up of a card that is in the middle of a transfer when the supply is switched on.
#[test]
fn a_card_that_was_left_in_a_transfer_is_brought_back() {
    let mut b = fresh();
    b.set(BusOp::PowerOn);
    // The clocks of power-up, a CMD0 that the card ignores, the rest of a block, the end of a
    // write, the end of a read.
    b.comes(&[0x55; 12]);
    b.command(0, 0, &[0x55, 0xff, 0x80, 0x99, 0xff]);
    b.comes(&[0x77; 576]);
    b.expect(&[0xff, 0xfd], &[]);
    b.comes(&[0; 10]);
    b.comes(&[0; 8]);
    b.comes(&[&[0; 15][..], &[0xff]].concat());
    b.command(12, 0, &[0x12, 0xff, 0, 0xff, 0xff]);
    b.comes(&[0xff; 12]);
    b.command(0, 0, &[0xff, IDLE]);
    assert_eq!(b.set(BusOp::Clock(400_000)), Step::Done);
    b.played();
    assert_eq!(b.script.borrow().selected, [true, false, true]);
    // The clocks are sent only once.
    let bytes = b.script.borrow().bytes;
    assert_eq!(b.set(BusOp::Clock(400_000)), Step::Done);
    assert_eq!(b.script.borrow().bytes, bytes);
}

/// Tests a line that is silent or always has the same value: bring-up ends with an error that names
/// the cause.
#[test]
fn a_bus_without_a_card_has_an_end_and_a_name() {
    for (then, expected) in [(0xff, None), (0, Some(Cause::LineLow)), (0x55, Some(Cause::Response))] {
        let mut b = fresh();
        b.script.borrow_mut().then = then;
        b.set(BusOp::PowerOn);
        assert_eq!(b.set(BusOp::Clock(400_000)), Step::Done);
        let reset = b.run(&command(0, 0, Resp::None));
        assert_eq!(reset.err().map(|fault| fault.cause), expected, "{then:#x}");
        if expected.is_none() {
            assert_eq!(fault(b.run(&command(8, 0x1aa, Resp::R7))), (Cause::Timeout, Stage::Command));
        }
        // One byte takes 20 us; the driver may wait half a second for a card that programs an
        // aborted write.
        let bytes = b.script.borrow().bytes;
        assert!(bytes < 35_000, "{bytes} bytes for {then:#x}");
    }
}

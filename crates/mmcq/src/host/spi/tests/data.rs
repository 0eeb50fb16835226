use super::*;
use crate::spec::response::{R1, State};

const ACCEPTED: u8 = 0xe5;

#[test]
fn blocks_come_whatever_lies_before_their_tokens() {
    for gap in [0, 1, 5, 7, 8, 60, 63, 200] {
        let mut b = bench();
        b.command_then(18, 9, &[0xff, 0]);
        for n in 0..3 {
            b.comes(&vec![0xff; gap]);
            b.block_comes(&content(n, 512));
        }
        // No byte after the last block is fetched, except the one in which the card sends nothing:
        // CMD12 may come next.
        let bytes = b.script.borrow().beats.len() + 1;
        let done = b.run(&read(18, 3, Auto::None)).unwrap();
        assert_eq!((done.response.r1().0 & R1::ERRORS, done.stop), (0, None));
        assert_eq!(b.script.borrow().bytes, bytes, "gap {gap}");
        for n in 0..3 {
            let part = n as usize * 512..n as usize * 512 + 512;
            assert_eq!(b.memory[part], content(n, 512)[..], "gap {gap}");
        }
    }
}

/// Tests a card that misses clocks between its token and the data, so that all bits are late: the
/// block counts as bad, even if it ends with enough zeros for a right CRC.
#[test]
fn a_block_that_comes_late_by_some_bits_is_bad_whatever_its_crc() {
    for late in 1..8 {
        let mut block = content(3, 512);
        while crc16(&block) & ((1 << late) - 1) != 0 {
            block[7] = block[7].wrapping_add(1);
            block[8] = block[8].wrapping_add(u8::from(block[7] == 0));
        }
        let sent = [&block[..], &crc16(&block).to_be_bytes()].concat();
        let mut before = 0;
        let shifted: Vec<u8> = sent
            .iter()
            .chain(&[0xff])
            .map(|&byte| (core::mem::replace(&mut before, byte), byte))
            .map(|(before, byte)| before << (8 - late) | byte >> late)
            .collect();
        assert_eq!(crc16(&shifted[..512]).to_be_bytes(), shifted[512..514], "the CRC is right");
        for blocks in [1, 2] {
            let mut b = bench();
            b.command_then(18, 9, &[0]);
            b.comes(&[0xfe]);
            b.comes(&shifted);
            assert_eq!(fault(b.run(&read(18, blocks, Auto::None))), (Cause::Crc, Stage::Data), "{late}");
        }
    }
}

/// Tests a card that has missed CMD12, sends its next block, and accepts no command: a zero byte in
/// that block is not taken for an R1, and the block after it not for the requested block.
#[test]
fn what_comes_from_a_transfer_that_goes_on_is_no_answer() {
    for data in [&[0xff, 0xfe, 0, 0, 0][..], &[0xfe, 0, 0, 0, 0], &[0xff, 0xff, 0xff, 0xa5, 0]] {
        let mut b = bench();
        b.command_then(17, 9, data);
        b.comes(&[0xff]);
        b.block_comes(&content(9, 512));
        assert_eq!(fault(b.run(&read(17, 1, Auto::None))), (Cause::Response, Stage::Command), "{data:02x?}");
    }
    // The token comes in the byte before the command, and a block of zeros during the command.
    let mut b = bench();
    let frame = crate::host::spi::frame::of(17, 9);
    b.expect(&[&[0xff], &frame[..]].concat(), &[0xfe, 0, 0, 0, 0, 0, 0]);
    b.comes(&[0; 512]);
    b.comes(&[0xff, 0xff]);
    b.block_comes(&content(9, 512));
    assert_eq!(fault(b.run(&read(17, 1, Auto::None))), (Cause::Response, Stage::Command));
}

#[test]
fn the_byte_after_cmd12_is_no_answer() {
    let mut b = bench();
    b.command_then(18, 9, &[0]);
    b.block_comes(&content(1, 512));
    b.comes(&[0xff]);
    // A byte that the card was still sending looks like a valid R1; the true R1 has an error bit.
    b.command(12, 0, &[0x00, 0xff, 0x40, 0, 0]);
    let done = b.run(&read(18, 1, Auto::Stop)).unwrap();
    assert_eq!(done.stop.map(|r1| r1 & R1::ERRORS), Some(R1::OUT_OF_RANGE));
    b.played();
    // The card was busy when it was last seen, so the driver polls it before the next command.
    b.comes(&[0, 0, 0, 0, 0, 0, 0, 0xff]);
    b.command_then(17, 9, &[0]);
    b.block_comes(&content(2, 512));
    assert!(b.run(&read(17, 1, Auto::None)).is_ok());
    b.played();
}

#[test]
fn a_transfer_stays_open_over_phases() {
    let mut b = bench();
    b.command_then(18, 9, &[0]);
    b.block_comes(&content(1, 512));
    assert!(b.run(&read(18, 1, Auto::None)).is_ok());
    b.comes(&[0xff, 0xff]);
    b.block_comes(&content(2, 512));
    assert!(b.run(&read(18, 1, Auto::Continue)).is_ok());
    assert_eq!(b.memory[..512], content(2, 512));
    // The driver knows the card's state. The card would take a CMD13 as the end of the transfer.
    let state = b.run(&command(13, 0, Resp::R1)).unwrap().response.r1().current_state();
    assert_eq!(state, State::Data);
    b.command(12, 0, &[0, 0xff, 0, 0xff]);
    assert!(b.run(&command(12, 0, Resp::R1b)).is_ok());
    b.played();
    assert_eq!(b.start(&read(18, 1, Auto::Continue)), Err(StartError::Unsupported));

    b.comes(&[0xff; 8]);
    b.command(25, 9, &[0]);
    b.block_goes(0xfc, &[0x33; 512], &[ACCEPTED, 0, 0, 0, 0, 0]);
    b.memory.fill(0x33);
    assert!(b.run(&write(25, 1, Auto::None)).is_ok());
    b.comes(&[0, 0, 0, 0, 0, 0, 0, 0xff]);
    b.block_goes(0xfc, &[0x33; 512], &[ACCEPTED, 0, 0, 0, 0, 0xff]);
    assert!(b.run(&write(25, 1, Auto::Continue)).is_ok());
    let state = b.run(&command(13, 0, Resp::R1)).unwrap().response.r1().current_state();
    assert_eq!(state, State::Rcv);
    // The stop token ends the write, not CMD12.
    b.expect(&[0xff, 0xfd], &[]);
    assert!(b.run(&command(12, 0, Resp::R1b)).is_ok());
    b.played();
}

#[test]
fn blocks_go_when_the_card_is_ready_and_the_token_ends_them() {
    let mut b = bench();
    b.memory[..512].copy_from_slice(&content(3, 512));
    b.memory[512..1024].copy_from_slice(&content(4, 512));
    b.command(25, 9, &[0xff, 0]);
    b.block_goes(0xfc, &content(3, 512), &[ACCEPTED, 0, 0, 0, 0, 0]);
    b.comes(&[0; 8]);
    b.comes(&[0; 16]);
    b.comes(&[&[0; 31][..], &[0xff]].concat());
    b.block_goes(0xfc, &content(4, 512), &[ACCEPTED, 0, 0, 0, 0, 0xff]);
    b.expect(&[0xff, 0xfd], &[0xff, 0xff, 0x33, 0, 0, 0, 0, 0]);
    let done = b.run(&write(25, 2, Auto::Stop)).unwrap();
    assert_eq!(done.stop.map(|r1| r1 & R1::ERRORS), Some(0));
    b.played();
    // While the card is busy, the driver sends no CMD13, since the card would not receive it.
    let status = b.run_with(&command(13, 0, Resp::R1), 0).response.r1();
    assert_eq!((status.current_state(), status.ready_for_data()), (State::Prg, false));
    // When the card is ready, CMD13 reports the result of the blocks.
    b.comes(&[0xff; 8]);
    b.command(13, 0, &[0, 0x04]);
    let status = b.run_with(&command(13, 0, Resp::R1), 0xff).response.r1();
    assert_eq!((status.current_state(), status.0 & R1::ERRORS), (State::Tran, R1::ERROR));
    b.played();
}

#[test]
fn a_block_that_is_refused_is_told_by_the_next_status() {
    for (word, cause, late) in
        [(0xeb, Cause::Crc, 0), (0xed, Cause::Response, R1::ERROR), (0xff, Cause::Timeout, 0)]
    {
        let mut b = bench();
        b.memory.fill(0x33);
        b.command(24, 9, &[0xff, 0]);
        b.block_goes(0xfe, &[0x33; 512], &[word]);
        assert_eq!(fault(b.run(&write(24, 1, Auto::None))), (cause, Stage::Data));
        b.comes(&[0xff; 32]);
        b.script.borrow_mut().beats.clear();
        assert_eq!(b.set(BusOp::ResetLines), Step::Done);
        b.comes(&[0xff; 8]);
        b.command(13, 0, &[0, 0]);
        let status = b.run(&command(13, 0, Resp::R1)).unwrap().response.r1();
        assert_eq!(status.0 & R1::ERRORS, late);
    }
    // One block of several is refused; the open transfer then ends by CMD12.
    let mut b = bench();
    b.command(25, 9, &[0xff, 0, 0xff, 0xff, 0xff]);
    b.block_goes(0xfc, &[0x33; 512], &[0xeb]);
    assert!(b.run(&write(25, 1, Auto::Stop)).is_err());
    b.script.borrow_mut().beats.clear();
    assert_eq!(b.set(BusOp::ResetLines), Step::Done);
    // The card may be busy already, because an earlier CMD12 was executed and its response was
    // lost.
    b.comes(&[0, 0, 0, 0, 0, 0, 0, 0xff]);
    b.command(12, 0, &[0xff, 0]);
    assert!(b.run(&command(12, 0, Resp::R1b)).is_ok());
    b.played();
}

#[test]
fn a_token_instead_of_a_block_says_why() {
    let tokens = [(0x05, Cause::Response, R1::CARD_ECC_FAILED | R1::ERROR), (0x7e, Cause::EndBit, 0)];
    for (token, cause, late) in tokens {
        let mut b = bench();
        b.command(17, 9, &[0xff, 0, 0xff, token]);
        assert_eq!(fault(b.run(&read(17, 1, Auto::None))), (cause, Stage::Data));
        assert_eq!(b.set(BusOp::ResetLines), Step::Done);
        b.comes(&[0xff; 8]);
        b.command(13, 0, &[0, 0]);
        let status = b.run(&command(13, 0, Resp::R1)).unwrap().response.r1();
        assert_eq!(status.0 & R1::ERRORS, late, "{token:#x}");
    }
}

#[test]
fn a_damaged_block_is_none() {
    let mut b = bench();
    b.command_then(17, 9, &[0xff, 0, 0xff, 0xfe]);
    b.comes(&content(1, 512));
    b.comes(&[0x12, 0x34]);
    assert_eq!(fault(b.run(&read(17, 1, Auto::None))), (Cause::Crc, Stage::Data));
}

/// Tests a card that sends no block: the driver waits, measured in bytes on the bus, and then
/// receives and drops what the card may still send.
#[test]
fn a_block_that_does_not_come_is_drained() {
    let mut b = bench();
    b.command(17, 9, &[0xff, 0]);
    assert_eq!(fault(b.run(&read(17, 1, Auto::None))), (Cause::Timeout, Stage::Data));
    let bytes = b.script.borrow().bytes as u64;
    let limit = 100_000_000 / 320;
    assert!((limit..limit + 128).contains(&bytes), "{bytes} bytes");
    assert_eq!(b.set(BusOp::ResetLines), Step::Done);
    // One more byte is sent after the card is deselected.
    assert_eq!(b.script.borrow().bytes as u64 - bytes, 1 + 576);
}

/// Tests a port that reports the end of an exchange late, and a port that reports an error.
#[test]
fn a_port_has_its_time_and_its_errors() {
    let mut b = bench();
    b.script.borrow_mut().slow = 3;
    b.command_then(17, 9, &[0xff, 0, 0xff]);
    b.block_comes(&content(1, 512));
    assert!(b.run(&read(17, 1, Auto::None)).is_ok());
    b.script.borrow_mut().failed = true;
    assert_eq!(fault(b.run(&command(13, 0, Resp::R1))).0, Cause::Other);
}

#[test]
fn memory_in_pieces_of_whole_blocks_is_taken_and_other_is_refused() {
    let mut b = bench();
    let mut pieces = |lengths: &[u32]| -> Vec<Segment> {
        let first = NonNull::from(&mut b.memory[0]);
        // SAFETY: the segments are inside of the leaked memory; only their lengths differ.
        lengths.iter().map(|&len| unsafe { Segment::new(first, len, 0) }).collect()
    };
    let (whole, torn, short) = (pieces(&[512, 1024]), pieces(&[100, 1436]), pieces(&[512, 512]));
    for (segments, right) in [(&torn, false), (&short, false), (&whole, true)] {
        assert_eq!(b.host.start(&read(18, 3, Auto::None), segments, 1_000_000).is_ok(), right);
    }
    assert_eq!(b.host.start(&read(18, 3, Auto::None), &whole, 1_000_000), Err(StartError::CommandLine));
}

impl Bench {
    /// Runs a phase like `run`; after the end of the script the card sends the byte `then`.
    fn run_with(&mut self, phase: &Phase, then: u8) -> Done {
        self.script.borrow_mut().then = then;
        self.run(phase).unwrap()
    }
}

#[test]
fn memory_of_an_exchange_that_the_port_cannot_stop_stays_with_the_port() {
    let mut b = bench();
    assert!(b.host.isolate(), "the port has no exchange");
    b.script.borrow_mut().slow = 3;
    b.start(&read(17, 1, Auto::None)).unwrap();
    assert!(!b.host.isolate() && !b.host.isolate());
    b.script.borrow_mut().stops = true;
    assert!(b.host.isolate());
    b.script.borrow_mut().waits = u32::MAX;
    assert!(b.host.isolate(), "the stopped exchange is not polled again");
}

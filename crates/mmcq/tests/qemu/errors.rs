//! Errors that QEMU's controller can be made to report, and the way back from them.

use crate::image::{BLOCK, Random};
use crate::machine::{Machine, Options};
use crate::runner::{Close, Outcome, Runner, plain};
use mmcq::host::sdhci::TransferMode;
use mmcq::host::{BusOp, Cause, Direction, Fault, Host, Phase, Regs, Segment, Stage};
use mmcq::spec::command::Resp;
use std::ptr::NonNull;

/// Force Event for the automatic command's errors [SDHC 2.2.32].
const FORCE_AUTO: u16 = 0x50;
/// Force Event for the error interrupts [SDHC 2.2.33].
const FORCE_ERROR: u16 = 0x52;
/// A read that the tests use.
const BLOCKS: u32 = 8;
const WAIT_NS: u64 = 200_000_000;

/// Brings a card up whose first blocks are `content`.
fn prepare(machine: &Machine, mode: TransferMode) -> (Runner<'_, impl Host>, Vec<u8>) {
    let content = Random(7).bytes(BLOCKS as usize * BLOCK);
    machine.image().write(0, &content);
    let mut runner = Runner::new(machine, machine.host(mode));
    runner.bring_up().unwrap_or_else(|error| panic!("{mode:?}: {error}"));
    (runner, content)
}

/// Starts a phase and makes the controller report an error before anybody has looked.
fn forced<H: Host>(runner: &mut Runner<'_, H>, phase: &Phase, force: (u16, u16)) -> Fault {
    let mut buffer = vec![0u8; if phase.data.is_some() { BLOCKS as usize * BLOCK } else { 0 }];
    let mut segments = Vec::new();
    if phase.data.is_some() {
        let len = buffer.len() as u32;
        segments.push(Segment { ptr: NonNull::from(buffer.as_mut_slice()).cast(), len, bus: 0 });
    }
    for segment in &mut segments {
        runner.host.map(segment, Direction::Read).expect("map");
    }
    runner.start(phase, &segments).expect("the phase starts");
    runner.machine.registers().write16(force.0, force.1);
    let outcome = runner.finish(phase, &segments, WAIT_NS);
    runner.bus(BusOp::ResetLines).expect("reset of the lines");
    for segment in &segments {
        runner.host.unmap(segment, Direction::Read);
    }
    match outcome {
        Outcome::Ended(Err(fault)) => fault,
        other => panic!("{phase:?} with {:#06x} in {:#04x}: {other:?}, expected a fault", force.1, force.0),
    }
}

/// After an error: nothing is left over, and a read works.
fn works_again<H: Host>(runner: &mut Runner<'_, H>, content: &[u8]) {
    assert!(!runner.machine.irq(), "the interrupt is still asserted");
    let status = runner.command(13, runner.rca(), Resp::R1)[0];
    if status >> 9 & 0xf != 4 {
        runner.command(12, 0, Resp::R1b);
    }
    // Errors of the past are told once.
    runner.command(13, runner.rca(), Resp::R1);
    runner.expect_tran();
    let mut bytes = vec![0; content.len()];
    runner.transfer(Direction::Read, 0, &mut bytes, &[BLOCKS], Close::Stop);
    assert!(bytes == content, "the read after the error is not what the card holds");
}

/// Forces each error on the same phase and looks at what the driver makes of it.
fn decodes(mode: TransferMode, close: Option<Close>, cases: &[(u16, u16, Cause, Stage)]) {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let (mut runner, content) = prepare(&machine, mode);
    for &(register, bits, cause, stage) in cases {
        let phase = match close {
            Some(close) => runner.transfer_phase(Direction::Read, 0, BLOCKS, close),
            None => plain(13, runner.rca(), Resp::R1),
        };
        let fault = forced(&mut runner, &phase, (register, bits));
        assert_eq!(
            (fault.cause, fault.stage),
            (cause, stage),
            "{mode:?}: {bits:#06x} forced in {register:#04x}"
        );
        works_again(&mut runner, &content);
    }
}

#[test]
fn command_errors() {
    decodes(
        TransferMode::Adma2,
        None,
        &[
            (FORCE_ERROR, 0x0001, Cause::Timeout, Stage::Command),
            (FORCE_ERROR, 0x0002, Cause::Crc, Stage::Command),
            (FORCE_ERROR, 0x0004, Cause::EndBit, Stage::Command),
            (FORCE_ERROR, 0x0008, Cause::Index, Stage::Command),
        ],
    );
}

#[test]
fn command_errors_with_data() {
    decodes(
        TransferMode::Pio,
        Some(Close::Stop),
        &[
            (FORCE_ERROR, 0x0001, Cause::Timeout, Stage::Command),
            (FORCE_ERROR, 0x0002, Cause::Crc, Stage::Command),
        ],
    );
}

#[test]
fn data_errors() {
    // By PIO, because the transfer is still going on when the error comes: complete and timed out means complete.
    decodes(
        TransferMode::Pio,
        Some(Close::Stop),
        &[
            (FORCE_ERROR, 0x0010, Cause::Timeout, Stage::Data),
            (FORCE_ERROR, 0x0020, Cause::Crc, Stage::Data),
            (FORCE_ERROR, 0x0040, Cause::EndBit, Stage::Data),
        ],
    );
}

#[test]
fn dma_errors() {
    let cases =
        &[(FORCE_ERROR, 0x0200, Cause::Dma, Stage::Data), (FORCE_ERROR, 0x0020, Cause::Crc, Stage::Data)];
    decodes(TransferMode::Adma2, Some(Close::Stop), cases);
}

#[test]
fn automatic_stop_errors() {
    decodes(
        TransferMode::Adma2,
        Some(Close::AutoStop),
        &[
            (FORCE_AUTO, 0x0002, Cause::Timeout, Stage::Stop),
            (FORCE_AUTO, 0x0004, Cause::Crc, Stage::Stop),
            (FORCE_AUTO, 0x0008, Cause::EndBit, Stage::Stop),
            (FORCE_AUTO, 0x0010, Cause::Index, Stage::Stop),
        ],
    );
}

#[test]
fn a_command_without_an_answer() {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let (mut runner, content) = prepare(&machine, TransferMode::Adma2);
    let outcome = runner.run(&plain(5, 0, Resp::R4), &mut []);
    let Outcome::Ended(Err(fault)) = outcome else { panic!("CMD5: {outcome:?}, expected a fault") };
    assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Command));
    runner.bus(BusOp::ResetLines).expect("reset of the lines");
    works_again(&mut runner, &content);
}

#[test]
fn a_refused_read() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let Some(machine) = crate::machine(&Options::default()) else { return };
        let (mut runner, content) = prepare(&machine, mode);
        let beyond = machine.image().blocks();
        let phase = runner.transfer_phase(Direction::Read, beyond, 1, Close::Stop);
        let mut buffer = vec![0u8; BLOCK];
        let ptr = NonNull::from(buffer.as_mut_slice()).cast();
        let outcome = runner.run(&phase, &mut [Segment { ptr, len: BLOCK as u32, bus: 0 }]);
        println!("{mode:?}: {outcome:x?}");
        runner.bus(BusOp::ResetLines).expect("reset of the lines");
        works_again(&mut runner, &content);
    }
}

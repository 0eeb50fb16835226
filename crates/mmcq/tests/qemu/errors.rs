//! Tests of errors that QEMU's controller can be made to report, and of the recovery after them.

use crate::image::{BLOCK, Random};
use crate::machine::{Machine, Options};
use crate::runner::{Close, Outcome, Runner, SILENCE_NS, plain, segment};
use mmcq::host::sdhci::TransferMode;
use mmcq::host::{BusOp, Cause, Direction, Done, Fault, Host, Phase, Regs, Stage};
use mmcq::spec::command::Resp;

/// Force Event for the automatic command's errors [SDHC 2.2.32].
const FORCE_AUTO: u16 = 0x50;
/// Force Event for the error interrupts [SDHC 2.2.33].
const FORCE_ERROR: u16 = 0x52;
/// Number of blocks of the read that the tests use.
const BLOCKS: u32 = 8;

/// Prepares a machine whose card is brought up, and whose first blocks have known content. Returns
/// the runner and that content.
fn prepare(machine: &Machine, mode: TransferMode) -> (Runner<'_, impl Host>, Vec<u8>) {
    let content = Random(7).bytes(BLOCKS as usize * BLOCK);
    machine.image().write(0, &content);
    let mut runner = Runner::new(machine, machine.host(mode));
    runner.bring_up().unwrap_or_else(|error| panic!("{mode:?}: {error}"));
    (runner, content)
}

/// Starts a phase, and makes the controller report an error before the driver reads the interrupt
/// status.
fn forced<H: Host>(runner: &mut Runner<'_, H>, phase: &Phase, force: (u16, u16)) -> Result<Done, Fault> {
    let mut buffer = vec![0u8; if phase.data.is_some() { BLOCKS as usize * BLOCK } else { 0 }];
    let mut segments = Vec::new();
    if phase.data.is_some() {
        segments.push(segment(&mut buffer));
    }
    for segment in &mut segments {
        runner.host.map(segment, Direction::Read).expect("map");
    }
    runner.start(phase, &segments).expect("the phase starts");
    runner.machine.registers().write16(force.0, force.1);
    let outcome = runner.finish(phase, &segments);
    runner.bus(BusOp::ResetLines).expect("reset of the lines");
    for segment in &segments {
        runner.host.unmap(segment, Direction::Read);
    }
    match outcome {
        Outcome::Ended(end) => end,
        other => panic!("{phase:?} with {:#06x} in {:#04x}: {other:?}, expected an end", force.1, force.0),
    }
}

/// Checks after an error that nothing of it is left and that a read works.
fn works_again<H: Host>(runner: &mut Runner<'_, H>, content: &[u8]) {
    assert!(!runner.machine.irq(), "the interrupt is still asserted");
    runner.back_to_tran();
    let mut bytes = vec![0; content.len()];
    runner.transfer(Direction::Read, 0, &mut bytes, &[BLOCKS], Close::Stop);
    assert!(bytes == content, "the read after the error is not what the card holds");
}

/// Forces each error on the same phase, and checks the fault that the driver reports.
fn decodes(mode: TransferMode, close: Option<Close>, cases: &[(u16, u16, Cause, Stage)]) {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let (mut runner, content) = prepare(&machine, mode);
    for &(register, bits, cause, stage) in cases {
        let phase = match close {
            Some(close) => runner.transfer_phase(Direction::Read, 0, BLOCKS, close),
            None => plain(13, runner.rca(), Resp::R1),
        };
        let end = forced(&mut runner, &phase, (register, bits));
        let said = end.map_err(|fault| (fault.cause, fault.stage));
        assert_eq!(said, Err((cause, stage)), "{mode:?}: {bits:#06x} forced in {register:#04x}");
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
    // By PIO, because then the transfer is still going on when the error comes. Data Timeout Error
    // together with Transfer Complete would mean that the transfer is complete.
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
    decodes(
        TransferMode::Adma2,
        Some(Close::Stop),
        &[
            (FORCE_ERROR, 0x0200, Cause::Dma, Stage::Data),
            (FORCE_ERROR, 0x0080, Cause::Power, Stage::Data),
            (FORCE_ERROR, 0x0020, Cause::Crc, Stage::Data),
        ],
    );
}

/// Tests that Transfer Complete and Data Timeout Error together mean that the transfer is complete
/// [SDHC 2.2.17].
#[test]
fn a_timeout_after_the_end_is_none() {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let (mut runner, content) = prepare(&machine, TransferMode::Adma2);
    let phase = runner.transfer_phase(Direction::Read, 0, BLOCKS, Close::AutoStop);
    let end = forced(&mut runner, &phase, (FORCE_ERROR, 0x0010));
    assert!(end.is_ok_and(|done| done.stop.is_some()), "{end:?}");
    works_again(&mut runner, &content);
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

/// Tests a read that the card refuses. QEMU's DMA then transfers zeros, and QEMU's PIO waits for
/// ever.
#[test]
fn a_refused_read() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let Some(machine) = crate::machine(&Options::default()) else { return };
        let (mut runner, content) = prepare(&machine, mode);
        let beyond = machine.image().blocks();
        let phase = runner.transfer_phase(Direction::Read, beyond, 1, Close::Stop);
        if mode == TransferMode::Pio {
            runner.patience_ns = SILENCE_NS;
        }
        let outcome = runner.run(&phase, &mut [segment(&mut [0; BLOCK])]);
        match outcome {
            Outcome::Silent if mode == TransferMode::Pio => {}
            // ADDRESS_ERROR, or OUT_OF_RANGE in later versions.
            Outcome::Ended(Ok(done)) if done.response.words[0] & 0xc000_0000 != 0 => {}
            other => panic!("{mode:?}: {other:x?}, expected an error in R1"),
        }
        runner.bus(BusOp::ResetLines).expect("reset of the lines");
        works_again(&mut runner, &content);
    }
}

/// Tests a data command without a response: it leaves the controller prepared for a transfer that
/// never came.
#[test]
fn a_data_command_without_an_answer() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let Some(machine) = crate::machine(&Options::default()) else { return };
        let (mut runner, mut content) = prepare(&machine, mode);
        // A card that is not selected does not answer.
        runner.command(7, 0, Resp::None);
        let phase = runner.transfer_phase(Direction::Read, 0, BLOCKS, Close::Stop);
        let mut buffer = vec![0u8; BLOCKS as usize * BLOCK];
        let outcome = runner.run(&phase, &mut [segment(&mut buffer)]);
        let Outcome::Ended(Err(fault)) = outcome else { panic!("{mode:?}: {outcome:?}, expected a fault") };
        assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Command), "{mode:?}");
        runner.bus(BusOp::ResetLines).expect("reset of the lines");
        runner.command(7, runner.rca(), Resp::R1b);
        // A write, so that what an unwanted transfer did to memory would be seen on the card.
        content = Random(8).bytes(content.len());
        let mut bytes = content.clone();
        runner.transfer(Direction::Write, 0, &mut bytes, &[BLOCKS], Close::Stop);
        assert!(machine.image().read(0, BLOCKS) == content, "{mode:?}: the write is not what was written");
        works_again(&mut runner, &content);
    }
}

/// Tests that after a reset of the whole controller the bus has its earlier settings; the reset
/// does not affect the card.
#[test]
fn reset_of_everything() {
    let Some(machine) = crate::machine(&Options::default()) else { return };
    let (mut runner, content) = prepare(&machine, TransferMode::Adma2);
    // In the middle of a read that the card will not finish by itself.
    let phase = runner.transfer_phase(Direction::Read, 0, BLOCKS, Close::Stop);
    let mut bytes = vec![0; content.len()];
    assert!(matches!(runner.run(&phase, &mut [segment(&mut bytes)]), Outcome::Ended(Ok(_))));
    let settings = |runner: &Runner<'_, _>| {
        let registers = runner.machine.registers();
        (registers.read8(0x28), registers.read8(0x29), registers.read16(0x2c))
    };
    let before = settings(&runner);
    runner.bus(BusOp::ResetAll).expect("reset of everything");
    assert_eq!(settings(&runner), before, "host control, power control, clock control");
    works_again(&mut runner, &content);
}

//! Tests of data that are no blocks of the medium: registers of the card, and the tuning block.

use crate::machine::Options;
use crate::runner::{Outcome, Runner, SILENCE_NS, plain};
use mmcq::host::sdhci::TransferMode;
use mmcq::host::{BusOp, Data, Direction, Phase, Regs};
use mmcq::spec::command::Resp;

/// Offset of Host Control 2 [SDHC 2.2.26].
const CONTROL_2: u16 = 0x3e;
/// Bit of Host Control 2: Execute Tuning.
const EXECUTE: u16 = 0x40;
/// Bit of Host Control 2: Sampling Clock Select.
const SAMPLING: u16 = 0x80;
const TUNING: u16 = EXECUTE | SAMPLING;

#[test]
fn registers_of_the_card() {
    for mode in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let Some(machine) = crate::machine(&Options::default()) else { return };
        let mut runner = Runner::new(&machine, machine.host(mode));
        runner.bring_up().unwrap_or_else(|error| panic!("{mode:?}: {error}"));

        let mut scr = [0xee; 8];
        runner.register(51, true, 0, &mut scr);
        assert_eq!((scr[0], scr[1] & 0x0f), (0x02, 0x05), "{mode:?}: SCR {scr:02x?}: version, 1 and 4 bits");
        assert_eq!(scr[2] & 0x80, 0x80, "{mode:?}: SCR {scr:02x?}: version 3");

        let mut status = [0xee; 64];
        runner.register(13, true, 0, &mut status);
        assert_eq!(status[0] & 0xc0, 0x80, "{mode:?}: SD status {status:02x?}: 4 bits wide");

        let mut function = [0xee; 64];
        runner.register(6, false, 0x00ff_fff1, &mut function);
        assert_ne!(function, [0xee; 64], "{mode:?}: switch status");
        assert_eq!(function[17], 0, "{mode:?}: switch status {function:02x?}: structure version 0");
        runner.expect_tran();
    }
}

/// Tests a tuning that is aborted. QEMU's controller tunes with the first block and does not set
/// Buffer Read Ready, so the phase has no interrupt. After the abort the bus must work.
#[test]
fn tuning_can_be_given_up() {
    for mode in [TransferMode::Adma2, TransferMode::Pio] {
        let Some(machine) = crate::machine(&Options::version_3()) else { return };
        let mut runner = Runner::new(&machine, machine.host(mode));
        runner.bring_up().unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        runner.bus(BusOp::TuneStart).expect("start of tuning");
        let registers = machine.registers();
        assert_eq!(registers.read16(CONTROL_2) & TUNING, EXECUTE, "{mode:?}: Execute Tuning");
        let data = Data { direction: Direction::Read, block_size: 64, blocks: 1 };
        let phase = Phase { data: Some(data), tuning: true, ..plain(19, 0, Resp::R1) };
        runner.patience_ns = SILENCE_NS;
        assert_eq!(runner.run(&phase, &mut []), Outcome::Silent, "{mode:?}: {phase:?}");
        assert_eq!(registers.read16(CONTROL_2) & TUNING, SAMPLING, "{mode:?}: tuned, as QEMU sees it");
        runner.bus(BusOp::TuneAbort).expect("end of tuning");
        assert_eq!(registers.read16(CONTROL_2) & TUNING, 0, "{mode:?}: fixed sampling point");
        // The card, too, waits for one byte more to be read.
        runner.back_to_tran();
        assert!(machine.commands().iter().any(|&(index, _)| index == 19), "{mode:?}: the card saw CMD19");
    }
}

//! A minimal user of a driver: it runs one phase at a time, and calls `ack` only after the
//! interrupt was raised.

use crate::image::BLOCK;
use crate::machine::Machine;
use mmcq::host::{
    Auto, BusOp, Data, Direction, Done, Fault, Host, Phase, Segment, StartError, Step, Timing, Width,
};
use mmcq::spec::command::{Command, Resp};
use std::ptr::NonNull;

/// Longest time of a phase, in nanoseconds; QEMU needs microseconds.
const PHASE_NS: u64 = 10_000_000_000;
/// Time in nanoseconds for which a test waits where no event may come.
pub const SILENCE_NS: u64 = 300_000_000;
/// Longest time of a bus operation, in nanoseconds.
const BUS_NS: u64 = 2_000_000_000;
/// Largest number of calls of `ack` or `set_bus` for one phase or operation: one for each block by
/// PIO, and some more.
const CALLS: u32 = 2000;

/// The end of a phase, if the machine itself has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The driver reported the end of the phase.
    Ended(Result<Done, Fault>),
    /// The driver did not start the phase.
    Refused(StartError),
    /// The interrupt did not come.
    Silent,
}

/// How a transfer of several blocks ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The controller sends CMD12.
    AutoStop,
    /// CMD12 is sent as a phase of its own.
    Stop,
    /// CMD23 sets the length before the transfer.
    Count,
}

/// Counters of what a runner has done, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Number of phases that ended.
    pub phases: u64,
    /// Number of transfers of blocks.
    pub transfers: u64,
    /// Number of blocks in these transfers.
    pub blocks: u64,
    /// Number of CMD12 that this program has sent, or that it has requested from the controller.
    pub stops: u64,
}

/// A driver, its machine and the card's address.
#[derive(Debug)]
pub struct Runner<'m, H> {
    /// The machine on which the driver runs.
    pub machine: &'m Machine,
    /// The driver under test.
    pub host: H,
    /// Counters of what this runner has done.
    pub tally: Tally,
    /// Longest time to wait for the end of a phase, in nanoseconds.
    pub patience_ns: u64,
    rca: u32,
}

/// Returns a phase without data.
pub const fn plain(index: u8, arg: u32, resp: Resp) -> Phase {
    Phase { command: Command::new(index, arg, resp), data: None, auto: Auto::None, tuning: false }
}

/// Returns a segment of this memory, which is not mapped yet.
pub fn segment(bytes: &mut [u8]) -> Segment {
    let len = bytes.len() as u32;
    // SAFETY: each test unmaps it before its memory goes, and gives it to the one driver.
    unsafe { Segment::new(NonNull::from(bytes).cast(), len, 0) }
}

impl<'m, H: Host> Runner<'m, H> {
    /// Makes a runner with a driver that has not used the bus yet.
    pub fn new(machine: &'m Machine, host: H) -> Self {
        Runner { machine, host, tally: Tally::default(), patience_ns: PHASE_NS, rca: 0 }
    }

    /// Returns the card's RCA, in the upper half of an argument.
    pub fn rca(&self) -> u32 {
        self.rca
    }

    /// Executes a bus operation to its end.
    pub fn bus(&mut self, op: BusOp) -> Result<(), String> {
        let end_ns = self.machine.now_ns() + BUS_NS;
        for call in 0..CALLS {
            let now_ns = self.machine.now_ns();
            match self.host.set_bus(op, call == 0, now_ns) {
                Step::Done => return Ok(()),
                Step::Failed => return Err(format!("{op:?} failed in call {call}")),
                Step::Wait(at_ns) if at_ns < now_ns => {
                    return Err(format!("{op:?} waits for {at_ns} ns, which is before {now_ns}"));
                }
                Step::Wait(at_ns) if at_ns > end_ns => return Err(format!("{op:?} takes too long")),
                Step::Wait(at_ns) => self.machine.sleep_until(at_ns),
            }
        }
        Err(format!("{op:?} is not done after {CALLS} calls"))
    }

    /// Starts a phase with mapped segments.
    pub fn start(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        self.host.start(phase, segments, PHASE_NS)
    }

    /// Waits for the end of the phase in progress.
    pub fn finish(&mut self, phase: &Phase, segments: &[Segment]) -> Outcome {
        for call in 0..CALLS {
            if !self.machine.wait_irq(self.patience_ns) {
                return Outcome::Silent;
            }
            let events = self.host.ack(segments);
            if let Some(end) = events.phase {
                assert!(!self.machine.irq(), "{phase:?}: ended in ack {call}, but the interrupt is asserted");
                self.tally.phases += 1;
                return Outcome::Ended(end);
            }
        }
        panic!("{phase:?}: {CALLS} interrupts and no end");
    }

    /// Maps the segments, runs the phase to its end, and unmaps the segments.
    pub fn run(&mut self, phase: &Phase, segments: &mut [Segment]) -> Outcome {
        assert!(!self.machine.irq(), "{phase:?}: the interrupt is asserted before it starts");
        let before = self.machine.irqs();
        let direction = phase.data.map_or(Direction::Read, |data| data.direction);
        for segment in segments.iter_mut() {
            self.host.map(segment, direction).expect("the segment can be mapped");
        }
        let outcome = match self.start(phase, segments) {
            Ok(()) => self.finish(phase, segments),
            Err(error) => Outcome::Refused(error),
        };
        if outcome == Outcome::Silent {
            // Unmapping needs a controller that has let go.
            self.bus(BusOp::ResetLines).expect("reset of the lines");
        }
        for segment in segments.iter() {
            self.host.unmap(segment, direction);
        }
        if matches!(outcome, Outcome::Ended(_)) {
            assert!(self.machine.irqs() > before, "{phase:?}: ended without an interrupt");
        }
        outcome
    }

    /// Sends a command without data, which must succeed. Returns the words of the response.
    pub fn command(&mut self, index: u8, arg: u32, resp: Resp) -> [u32; 4] {
        match self.run(&plain(index, arg, resp), &mut []) {
            Outcome::Ended(Ok(done)) => done.response.words,
            other => panic!("CMD{index} with argument {arg:#010x}: {other:?}"),
        }
    }

    /// Reads a register of the card by a command with data: `index` is the index of the command, of
    /// an application command if `app`.
    pub fn register(&mut self, index: u8, app: bool, arg: u32, bytes: &mut [u8]) {
        if app {
            self.command(55, self.rca, Resp::R1);
        }
        let data = Data { direction: Direction::Read, block_size: bytes.len() as u16, blocks: 1 };
        let phase = Phase { data: Some(data), ..plain(index, arg, Resp::R1) };
        let outcome = self.run(&phase, &mut [segment(bytes)]);
        assert!(matches!(outcome, Outcome::Ended(Ok(_))), "{phase:?}: {outcome:?}");
    }

    /// Brings the card from power-up to the state `tran`, with four data lines at 25 MHz.
    pub fn bring_up(&mut self) -> Result<(), String> {
        self.bus(BusOp::ResetAll)?;
        self.bus(BusOp::PowerOn)?;
        self.bus(BusOp::Clock(400_000))?;
        self.machine.sleep_until(self.machine.now_ns() + 1_000_000);
        if !self.host.present() {
            return Err("the driver sees no card".to_string());
        }
        self.command(0, 0, Resp::None);
        let echo = self.command(8, 0x1aa, Resp::R7)[0];
        if echo != 0x1aa {
            return Err(format!("CMD8 answers {echo:#010x}, expected 0x000001aa"));
        }
        let end_ns = self.machine.now_ns() + BUS_NS;
        let ocr = loop {
            self.command(55, 0, Resp::R1);
            let ocr = self.command(41, 0x40ff_8000, Resp::R3)[0];
            if ocr & 1 << 31 != 0 {
                break ocr;
            }
            if self.machine.now_ns() > end_ns {
                return Err(format!("ACMD41 answers {ocr:#010x}, expected bit 31"));
            }
            self.machine.sleep_until(self.machine.now_ns() + 1_000_000);
        };
        if (ocr & 1 << 30 != 0) != self.machine.image().high_capacity() {
            return Err(format!("OCR {ocr:#010x}: CCS does not fit the image"));
        }
        let cid = self.command(2, 0, Resp::R2);
        // QEMU's CID: manufacturer 0xaa, "XY", "QEMU!".
        if cid[0] != 0xaa58_5951 || cid[1] >> 8 != 0x45_4d55 || cid[3] & 0xff != 0 {
            return Err(format!("CMD2 answers {cid:08x?}, expected aa585951 454d55.., last byte 0"));
        }
        self.rca = self.command(3, 0, Resp::R6)[0] & 0xffff_0000;
        let csd = self.command(9, self.rca, Resp::R2);
        let blocks = capacity_blocks(&csd);
        if blocks != u64::from(self.machine.image().blocks()) {
            return Err(format!("CSD {csd:08x?}: {blocks} blocks, the image has another number"));
        }
        self.command(7, self.rca, Resp::R1b);
        if !self.machine.image().high_capacity() {
            self.command(16, BLOCK as u32, Resp::R1);
        }
        self.command(55, self.rca, Resp::R1);
        self.command(6, 2, Resp::R1);
        self.bus(BusOp::Width(Width::W4))?;
        self.bus(BusOp::Timing(Timing::Legacy))?;
        self.bus(BusOp::Clock(25_000_000))?;
        self.expect_tran();
        Ok(())
    }

    /// Checks that the card is in the state `tran` and ready for data.
    pub fn expect_tran(&mut self) {
        let status = self.command(13, self.rca, Resp::R1)[0];
        assert_eq!(status & 0xfff9_ff00, 0x0900, "status {status:#010x}: ready, in tran, no error");
    }

    /// Ends a failed transfer that may still be open on the card, and reads the card's errors,
    /// which the card reports only one time.
    pub fn back_to_tran(&mut self) {
        let status = self.command(13, self.rca, Resp::R1)[0];
        if status >> 9 & 0xf != 4 {
            self.command(12, 0, Resp::R1b);
        }
        self.command(13, self.rca, Resp::R1);
        self.expect_tran();
    }

    /// Returns the phase of a transfer.
    pub fn transfer_phase(&self, direction: Direction, block: u32, blocks: u32, close: Close) -> Phase {
        let index = match (direction, blocks) {
            (Direction::Read, 1) => 17,
            (Direction::Read, _) => 18,
            (Direction::Write, 1) => 24,
            (Direction::Write, _) => 25,
        };
        let unit = if self.machine.image().high_capacity() { 1 } else { BLOCK as u32 };
        let auto = if blocks > 1 && close == Close::AutoStop { Auto::Stop } else { Auto::None };
        Phase {
            command: Command::new(index, block * unit, Resp::R1),
            data: Some(Data { direction, block_size: BLOCK as u16, blocks }),
            auto,
            tuning: false,
        }
    }

    /// Reads or writes whole blocks, which must succeed. `pieces` are the lengths of the segments,
    /// in blocks.
    pub fn transfer(
        &mut self,
        direction: Direction,
        block: u32,
        bytes: &mut [u8],
        pieces: &[u32],
        close: Close,
    ) {
        let blocks = (bytes.len() / BLOCK) as u32;
        assert_eq!(pieces.iter().sum::<u32>(), blocks, "pieces {pieces:?} of {blocks} blocks");
        let phase = self.transfer_phase(direction, block, blocks, close);
        if blocks > 1 && close == Close::Count {
            self.command(23, blocks, Resp::R1);
        }
        let mut segments = Vec::new();
        let mut rest = bytes;
        for &piece in pieces {
            let (head, tail) = rest.split_at_mut(piece as usize * BLOCK);
            segments.push(segment(head));
            rest = tail;
        }
        let outcome = self.run(&phase, &mut segments);
        let Outcome::Ended(Ok(done)) = outcome else { panic!("{phase:?}, pieces {pieces:?}: {outcome:?}") };
        let status = done.response.words[0];
        assert_eq!(status & 0xfff9_e000, 0, "{phase:?}: R1 {status:#010x} has errors");
        assert_eq!(status >> 9 & 0xf, 4, "{phase:?}: R1 {status:#010x} comes from tran");
        self.tally.transfers += 1;
        self.tally.blocks += u64::from(blocks);
        if blocks == 1 || close == Close::Count {
            assert_eq!(done.stop, None, "{phase:?}: no CMD12 was asked for");
            return;
        }
        self.tally.stops += 1;
        let stopped = match close {
            Close::AutoStop => done.stop.unwrap_or_else(|| panic!("{phase:?}: no R1 of CMD12 in {done:?}")),
            _ => {
                assert_eq!(done.stop, None, "{phase:?}: no automatic CMD12 was asked for");
                self.command(12, 0, Resp::R1b)[0]
            }
        };
        let state = if direction == Direction::Read { 5 } else { 6 };
        assert_eq!(stopped >> 9 & 0xf, state, "{phase:?}: CMD12 answers {stopped:#010x}, from state {state}");
        assert_eq!(stopped & 0xfff9_e000, 0, "{phase:?}: CMD12 answers {stopped:#010x}, with errors");
    }
}

/// Returns the number of blocks of a card from its CSD, first word first [SD 5.3.2, 5.3.3].
fn capacity_blocks(csd: &[u32; 4]) -> u64 {
    if csd[0] >> 30 == 1 {
        return (u64::from(csd[1] & 0x3f) << 16 | u64::from(csd[2] >> 16)).wrapping_add(1) * 1024;
    }
    let size = u64::from(csd[1] & 0x3ff) << 2 | u64::from(csd[2] >> 30);
    let factor = csd[2] >> 15 & 7;
    let length = csd[1] >> 16 & 0xf;
    ((size + 1) << (factor + 2) << length) / BLOCK as u64
}

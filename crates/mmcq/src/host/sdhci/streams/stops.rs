//! Transfers by SDMA that stop at boundaries of memory.
//!
//! The block count of such a transfer is 65 535, far more than will be transferred. The boundary is
//! the largest that the memory of the first request allows, 4 KiB to 512 KiB, and stays the same
//! until the transfer ends. So each request consists of whole steps from boundary to boundary. The
//! engine closes the transfer before the block count reaches 0.

use super::{Open, Streams};
use crate::host::sdhci::Sdhci;
use crate::host::sdhci::events::{ACKNOWLEDGED, NEVER, RARE, decode};
use crate::host::sdhci::phase::{Automatic, Work};
use crate::host::sdhci::regs::*;
use crate::host::{
    Cause, Data, Direction, Dma, Done, Events, Fault, Phase, Regs, Segment, Stage, StartError,
};
use crate::spec::response::Response;

/// The smallest boundary in bytes, whose code in Block Size is 0 [SDHC 2.2.2].
const STEP_MIN: u32 = 4096;
const STEP_MAX: u32 = 512 * 1024;
const BOUNDARY_SHIFT: u32 = 12;
const BLOCK_BYTES: u32 = 512;
/// Largest value of the Block Count register.
const COUNT: u32 = 65_535;

/// An open transfer whose SDMA has stopped at a boundary of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stops {
    direction: Direction,
    /// Bytes from one SDMA buffer boundary in memory to the next: the controller stops at each.
    step: u32,
    /// Number of blocks that the Block Count register still counts before it reaches 0.
    left: u32,
    /// Whether the transfer is stopped at a block gap: the card has received all blocks that were
    /// sent.
    at_gap: bool,
}

impl Stops {
    /// Returns whether a request of `blocks` blocks with this memory can continue the transfer.
    #[inline(always)]
    pub(super) fn takes(&self, segment: &Segment, blocks: u32, direction: Direction) -> bool {
        self.direction == direction && blocks < self.left && is_stepped(segment.bus, segment.len, self.step)
    }
}

/// State of the phase (the data of one request) in progress, in a transfer that the controller
/// stops at each boundary of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Whether CMD18 or CMD25 was sent before the data, and its response was not received yet.
    answers: bool,
    begins: bool,
    segment: usize,
    offset: u32,
    /// Number of steps that the data in progress still have, including the step under way. A step
    /// goes from one boundary in memory, at which SDMA stops, to the next.
    steps: u32,
    /// Block gaps that may still occur before the gap after the last block.
    gaps: u32,
}

/// Returns whether `len` bytes at `address` are whole steps of `step` bytes, a power of two.
#[inline(always)]
fn is_stepped(address: u64, len: u32, step: u32) -> bool {
    (address | u64::from(len)) & u64::from(step - 1) == 0 && len != 0
}

/// Returns whether SDMA can stop at the end of this segment. Only then may a transfer that begins
/// with it stay open. Address and length must be multiples of the smallest boundary, and `blocks`,
/// the blocks of that transfer so far, fewer than the block count with which it is opened.
pub(super) fn fits(segment: &Segment, blocks: u32) -> bool {
    blocks < COUNT && is_stepped(segment.bus, segment.len, STEP_MIN)
}

/// Returns the largest boundary, in bytes, at which SDMA may stop: all segments begin and end at
/// multiples of it. The segments must have exactly `blocks` blocks. `None`: there is no such
/// boundary.
pub(super) fn step(segments: &[Segment], blocks: u32) -> Option<u32> {
    let bits = segments.iter().fold(u64::from(STEP_MAX), |bits, at| bits | at.bus | u64::from(at.len));
    let step = 1 << bits.trailing_zeros();
    let whole = bytes_of(segments) == u64::from(blocks) * u64::from(BLOCK_BYTES);
    (step >= STEP_MIN && whole && blocks < COUNT && blocks > 0).then_some(step)
}

fn bytes_of(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.len)).sum()
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Streams<R, D, DESCRIPTORS> {
    /// Starts CMD18 or CMD25 with the data of the first request. `step`: bytes from one stop of
    /// SDMA to the next; `timeout_ns`: how long the controller waits for the card.
    pub(super) fn begin_stops(
        &mut self,
        phase: &Phase,
        data: Data,
        segments: &[Segment],
        step: u32,
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        let Data { direction, blocks, .. } = data;
        let first = segments.first().ok_or(StartError::Unsupported)?.bus;
        let host = &mut self.host;
        if !segments.iter().all(|segment| host.reaches(segment)) {
            return Err(StartError::Unsupported);
        }
        if !host.idle {
            host.check_lines(true)?;
        }
        host.set_timeout(timeout_ns);
        self.open = Some(Open::Stops(Stops { direction, step, left: COUNT - blocks, at_gap: false }));
        self.run_stops(blocks, step, true);
        let host = &mut self.host;
        host.port.write8(CONTROL, host.bus.control() & !CONTROL_ADMA3);
        host.set_sdma(first);
        let boundary = ((step / STEP_MIN).trailing_zeros() << BOUNDARY_SHIFT) as u16;
        host.port.write_pair(BLOCK_SIZE, BLOCK_BYTES as u16 | boundary, COUNT as u16);
        host.port.write32(ARGUMENT, phase.command.arg);
        let way = if direction == Direction::Read { MODE_READ } else { 0 };
        let mode = way | MODE_MULTI | MODE_DMA | MODE_BLOCK_COUNT;
        let command = host.command_bits(&phase.command) | COMMAND_DATA;
        host.port.write_pair(TRANSFER_MODE, mode, command);
        Ok(())
    }

    /// Continues a transfer by SDMA that stops at boundaries of memory ([`Stops`]), with the memory
    /// of the next request (`segments`). One or two register writes do this. An error, before any
    /// write: the request does not fit the open transfer.
    pub(super) fn continue_stops(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        let (Some(Open::Stops(stops)), Some(data)) = (&mut self.open, &phase.data) else {
            return Err(StartError::Unsupported);
        };
        let bytes = u64::from(data.blocks) * u64::from(BLOCK_BYTES);
        let fits = |at: &Segment| stops.takes(at, data.blocks, data.direction) && self.host.reaches(at);
        let first = match segments {
            [one] if u64::from(one.len) == bytes && fits(one) => one.bus,
            [first, _, ..] if bytes_of(segments) == bytes && segments.iter().all(fits) => first.bus,
            _ => return Err(StartError::Unsupported),
        };
        if self.run.is_some() {
            return Err(StartError::DataLine);
        }
        let stood = core::mem::replace(&mut stops.at_gap, false);
        stops.left -= data.blocks;
        let step = stops.step;
        self.host.set_timeout(timeout_ns);
        self.run_stops(data.blocks, step, false);
        self.host.set_sdma(first);
        if stood {
            self.host.port.write8(BLOCK_GAP, GAP_GO_ON);
        }
        Ok(())
    }

    /// Prepares the driver's state for `blocks` blocks of data, during which SDMA stops at memory
    /// boundaries. `begins`: the data begin a transfer; otherwise they continue one. `step`: bytes
    /// from one boundary to the next.
    #[inline(always)]
    fn run_stops(&mut self, blocks: u32, step: u32, begins: bool) {
        // Both are powers of two.
        let steps = blocks >> (step.trailing_zeros() - BLOCK_BYTES.trailing_zeros());
        self.run = Some(Run { answers: begins, begins, segment: 0, offset: 0, steps, gaps: blocks });
        let host = &mut self.host;
        (host.idle, host.fast_end, host.auto) = (false, NEVER, Automatic::Nothing);
        // The registers no longer hold the values on which the fast path relies.
        (host.shadow.fast_blocks, host.shadow.adma_high) = (0, None);
        host.set_signal(host.shadow.base_signal | INT_TRANSFER | INT_DMA);
    }

    /// Returns whether the interrupt status says exactly this: SDMA has stopped at the last
    /// boundary of a read that continues an open transfer.
    #[inline(always)]
    pub(super) fn is_last_stop(&self, status: u32) -> bool {
        let read = matches!(self.open, Some(Open::Stops(Stops { direction: Direction::Read, .. })));
        status == INT_DMA && read && self.run.is_some_and(|run| run.steps == 1 && !run.begins)
    }

    /// Handles the interrupt status of a phase (a command with its data) that uses SDMA. Its DMA
    /// stops at every memory boundary, and then the driver sets the next address. `segments`:
    /// memory of the phase's data. Returns the events for the engine.
    pub(super) fn take_stops(&mut self, status: u32, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let (Some(mut run), Some(Open::Stops(mut stops))) = (self.run.take(), self.open) else {
            return events;
        };
        if status == u32::MAX && self.host.present_state().is_none() {
            events.phase = Some(Err(Fault { cause: Cause::Gone, stage: Stage::Data, response: None }));
            return events;
        }
        if status & ACKNOWLEDGED != 0 {
            self.host.port.write32(INT_STATUS, status & ACKNOWLEDGED);
            events.acknowledged = true;
        }
        if status & RARE != 0 {
            self.host.take_rare(status, &mut events);
        }
        events.phase = self.step_stops(&mut stops, &mut run, status, segments);
        self.open = Some(Open::Stops(stops));
        if events.phase.is_none() {
            self.run = Some(run);
        }
        events
    }

    fn step_stops(
        &mut self,
        stops: &mut Stops,
        run: &mut Run,
        status: u32,
        segments: &[Segment],
    ) -> Option<Result<Done, Fault>> {
        let masked = if self.host.bus.timeout_masked { ERROR_DATA_TIMEOUT } else { 0 };
        let errors = status & ERRORS & !masked;
        if errors != 0 {
            let (cause, stage) = decode(Work::Sdma, Automatic::Nothing, errors, 0);
            return Some(Err(Fault { cause, stage, response: None }));
        }
        run.answers &= status & INT_COMMAND == 0;
        stops.at_gap |= status & INT_TRANSFER != 0;
        if status & INT_DMA != 0 && run.steps > 0 {
            self.host.pass_boundary(stops, run, segments);
        }
        let over = match stops.direction {
            Direction::Read => run.steps == 0,
            Direction::Write => run.steps == 0 && stops.at_gap,
        };
        if !over {
            return None;
        }
        if stops.direction == Direction::Write && !self.host.end_or_pass_gap(stops, run) {
            return (run.gaps == 0).then_some(Err(Fault {
                cause: Cause::Dma,
                stage: Stage::Data,
                response: None,
            }));
        }
        if run.answers {
            // The data ended before the response arrived, so enable Command Complete.
            self.host.set_signal(self.host.shadow.signal | INT_COMMAND);
            return None;
        }
        let response =
            if run.begins { Response::short(self.host.port.read32(RESPONSE_0)) } else { Response::default() };
        Some(Ok(Done { response, ..Done::default() }))
    }

    /// Sets DMA mode and Block Gap Control back to the values for ordinary transfers.
    pub(super) fn leave_stops(&mut self) {
        self.host.port.write8(BLOCK_GAP, 0);
        self.host.port.write8(CONTROL, self.host.bus.control());
    }
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    /// Returns whether SDMA can reach the segment. Below version 4, or without 64-bit Addressing,
    /// SDMA addresses have 32 bits.
    #[inline(always)]
    pub(super) fn reaches(&self, segment: &Segment) -> bool {
        let wide = self.model.v4 && self.model.wide;
        segment.bus.checked_add(segment.len.into()).is_some_and(|end| wide || end <= 1 << 32)
    }

    /// Lets SDMA continue behind a boundary in memory at which it has stopped, up to the next
    /// boundary. After the last boundary of a write, requests a stop at the block gap.
    fn pass_boundary(&mut self, stops: &Stops, run: &mut Run, segments: &[Segment]) {
        run.steps -= 1;
        run.offset += stops.step;
        if segments.get(run.segment).is_some_and(|segment| run.offset >= segment.len) {
            (run.segment, run.offset) = (run.segment + 1, 0);
        }
        if run.steps > 0 {
            if let Some(segment) = segments.get(run.segment) {
                self.set_sdma(segment.bus + u64::from(run.offset));
            }
        } else if stops.direction == Direction::Write {
            // The last block is in the controller, but was not yet sent to the card.
            self.port.write8(BLOCK_GAP, GAP_STOP);
        }
    }

    /// Returns whether the transfer has stopped at the gap after its last block. A stop request
    /// that came while an earlier block was being sent stops after that block; then this function
    /// lets the transfer continue to the next gap.
    fn end_or_pass_gap(&mut self, stops: &mut Stops, run: &mut Run) -> bool {
        if u32::from(self.port.read16(BLOCK_COUNT)) <= stops.left {
            return true;
        }
        stops.at_gap = false;
        run.gaps = run.gaps.saturating_sub(1);
        self.port.write8(BLOCK_GAP, GAP_GO_ON);
        self.port.write8(BLOCK_GAP, GAP_STOP);
        false
    }
}

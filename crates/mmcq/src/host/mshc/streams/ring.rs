//! Open reads: CMD18 with a byte count of 0, whose data the DMA transfers by a ring of descriptors.
//!
//! The ring is the driver's table of descriptors. Each request's descriptors begin where the DMA
//! has stopped: at the descriptor after those of the last request, which the DMA did not own. In a
//! continued read no descriptor is marked as the first one, because that mark resets the FIFO,
//! which already has the beginning of the next block. No descriptor is marked as the last one,
//! because that mark ends the DMA.
//!
//! CMD12 needs the card's clock, which is stopped while the FIFO is full. So the driver writes
//! CMD12 first, and then gives the DMA descriptors that lead to memory for dropped data
//! ([`Scrap`](super::Scrap)). The controller ends the data when the FIFO is empty.
//!
//! While the transfer is open, the threshold at which the FIFO requests DMA is 0: otherwise the
//! last words of a request would stay in the FIFO until the next block comes.

use super::{Open, OpenDesignWare, SCRAP_BYTES};
use crate::host::mshc::layout::*;
use crate::host::mshc::phase::{Active, COMMAND_ERRORS, READ_ERRORS, Work, check, command_bits};
use crate::host::mshc::regs::*;
use crate::host::mshc::tune::MshcBoard;
use crate::host::mshc::{BY_CPU, DesignWare, Fifo};
use crate::host::{Cause, Data, Direction, Dma, Done, Fault, Phase, Regs, Segment, Stage, StartError};
use crate::spec::response::Response;

const AT: Offsets = DesignWareLayout::AT;
/// Interrupts of the DMA that are enabled during an open read: the DMA has stopped, or has failed.
const DMA_INTERRUPTS: u32 = DMA_UNAVAILABLE | DMA_BUS_ERROR | DMA_ABNORMAL;
/// Length of a block in bytes.
const BLOCK_BYTES: u32 = 512;

/// Returns the number of descriptors for the data that the DMA drops at CMD12: the content of a
/// full FIFO, and what the card sends until the end bit of CMD12, which is less than a block.
pub(super) const fn scraps(fifo: &Fifo) -> usize {
    fifo.bytes.div_ceil(SCRAP_BYTES) as usize + 1
}

/// Returns bus address and length in bytes of each segment.
fn pieces(segments: &[Segment]) -> impl Iterator<Item = (u64, u32)> + Clone {
    segments.iter().map(|segment| (segment.bus, segment.len))
}

/// State of an open read: a CMD18 that further requests continue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    /// Index of the descriptor in the table at which the DMA stops.
    next: usize,
    /// Whether the controller has ended the data, so that the read cannot be continued.
    over: bool,
}

impl Ring {
    /// Returns whether the open read can be continued: the controller has not ended its data.
    pub(super) fn goes_on(&self) -> bool {
        !self.over
    }
}

/// The phase in progress (one command, or more data) of an open read: a CMD18 that is not stopped
/// after a request's last block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) active: Active,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The driver sends CMD18 and transfers its first data.
    Begins,
    /// The phase transfers more data of the open read, without a command.
    GoesOn,
    /// The driver sends CMD12, which ends the open read.
    Stops,
}

impl Run {
    /// Returns the raw status bits that must be set before the phase has ended.
    fn needs(&self) -> u32 {
        match self.kind {
            Kind::Begins => INT_COMMAND,
            Kind::GoesOn => 0,
            Kind::Stops => INT_COMMAND | INT_DATA,
        }
    }

    fn wants_dma(&self) -> bool {
        self.kind != Kind::Stops && self.active.dma_seen & DMA_UNAVAILABLE == 0
    }

    /// Returns the raw status bits that must interrupt. The stop of the DMA is no such bit: the DMA
    /// status register reports it.
    fn wanted(&self) -> u32 {
        let missing = self.needs() & !self.active.seen;
        match self.kind {
            // A stop cuts off a block, so errors of data are expected.
            Kind::Stops => COMMAND_ERRORS | missing,
            _ if self.wants_dma() => COMMAND_ERRORS | READ_ERRORS | INT_DATA,
            _ => COMMAND_ERRORS | READ_ERRORS | missing,
        }
    }
}

impl<R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> OpenDesignWare<R, D, S, DESCRIPTORS> {
    /// Returns whether an open read (a CMD18 that was not ended) can transfer `blocks` blocks to
    /// this memory.
    pub(super) fn fits(&self, segment: &Segment, blocks: u32) -> bool {
        let bytes = blocks.saturating_mul(BLOCK_BYTES);
        segment.bus & BY_CPU == 0 && bytes <= self.ring_bytes && self.host.stops_between_blocks()
    }

    /// Starts a read that can stay open: CMD18 with the data of the first request. Its descriptors
    /// begin the DMA's ring of descriptors, to which later requests add theirs.
    pub(super) fn begin_ring(
        &mut self,
        phase: &Phase,
        data: Data,
        segments: &[Segment],
    ) -> Result<(), StartError> {
        let bytes = check(&data, segments)?;
        let host = &mut self.host;
        host.check_lines(true)?;
        let next =
            host.table.append(host.form, 0, pieces(segments), bytes, true).ok_or(StartError::Unsupported)?;
        host.sync_whole();
        // The DMA reads as soon as the FIFO has one word, and reads one word at a time.
        host.regs.write32(AT.threshold, host.fifo.threshold & 0xfff);
        host.point_dma(DMA_INTERRUPTS);
        host.set_read_room(&data);
        host.regs.write32(AT.block_size, data.block_size.into());
        host.regs.write32(AT.byte_count, 0);
        host.regs.write32(AT.raw, u32::MAX);
        self.open = Some(Open::Ring(Ring { next, over: false }));
        let active = Active::new(phase.command.resp, Work::Dma(Direction::Read));
        self.run(Run { active, kind: Kind::Begins });
        self.host.send(phase.command.arg, command_bits(&phase.command) | COMMAND_DATA | COMMAND_WAITS);
        Ok(())
    }

    /// Continues the read with the next request's memory: writes its descriptors, and three
    /// registers.
    pub(super) fn continue_ring(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        let (Some(Open::Ring(ring)), Some(data)) = (self.open, phase.data) else {
            return Err(StartError::Unsupported);
        };
        let fits = |segment: &Segment| self.fits(segment, data.blocks);
        let goes_on = ring.goes_on()
            && data.direction == Direction::Read
            && u32::from(data.block_size) == BLOCK_BYTES
            && segments.iter().all(fits);
        if !goes_on {
            return Err(StartError::Unsupported);
        }
        let bytes = check(&data, segments)?;
        let host = &mut self.host;
        let form = host.form;
        let next = host
            .table
            .append(form, ring.next, pieces(segments), bytes, false)
            .ok_or(StartError::Unsupported)?;
        host.sync_whole();
        self.open = Some(Open::Ring(Ring { next, ..ring }));
        // Status bits of blocks that came in advance belong to this phase.
        let active = Active::new(phase.command.resp, Work::Dma(Direction::Read));
        self.run(Run { active, kind: Kind::GoesOn });
        self.host.regs.write32(AT.dma_enable, DMA_INTERRUPTS);
        self.host.regs.write32(DW_DMA_KICK, 1);
        Ok(())
    }

    /// Sends CMD12, and gives the DMA memory for the data that the card has sent after the last
    /// request.
    pub(super) fn stop_ring(&mut self, ring: Ring, phase: &Phase) -> Result<(), StartError> {
        let host = &mut self.host;
        host.check_lines(false)?;
        let (count, scrap) = (scraps(&host.fifo), (self.scrap_bus, SCRAP_BYTES));
        let pieces = (0..count).map(|_| scrap);
        let bytes = count as u32 * SCRAP_BYTES;
        host.table.append(host.form, ring.next, pieces, bytes, false).ok_or(StartError::Unsupported)?;
        host.sync_whole();
        let raw = host.regs.read32(AT.raw);
        if raw != u32::MAX {
            // Clears only the bits that were read, since the data may end at this moment.
            host.regs.write32(AT.raw, raw);
        }
        host.regs.write32(AT.dma_enable, 0);
        let mut active = Active::new(phase.command.resp, Work::Command);
        if ring.over || raw != u32::MAX && raw & INT_DATA != 0 {
            active.seen = INT_DATA;
        }
        self.run(Run { active, kind: Kind::Stops });
        self.host.send(phase.command.arg, command_bits(&phase.command));
        self.host.regs.write32(DW_DMA_KICK, 1);
        Ok(())
    }

    fn run(&mut self, run: Run) {
        self.host.set_mask(run.wanted());
        self.run = Some(run);
    }

    /// Acknowledges the events of that part of an open read which one request gets, and returns its
    /// result; `None` if that part has not ended.
    pub(super) fn take_ring(&mut self) -> Option<Result<Done, Fault>> {
        let (Some(mut run), Some(Open::Ring(mut ring))) = (self.run.take(), self.open) else { return None };
        self.host.look(&mut run.active);
        if run.active.seen != u32::MAX {
            // Until the next request continues the read, the controller stops the clock, for any
            // time. INT_STARVED is no error then.
            run.active.seen &= !INT_STARVED;
            ring.over |= run.active.seen & INT_DATA != 0 && run.kind != Kind::Stops;
        }
        self.open = Some(Open::Ring(ring));
        let end = self.step_ring(&run);
        match &end {
            None => {
                self.run(run);
                return None;
            }
            Some(Ok(_)) if run.kind == Kind::Stops => {
                self.open = None;
                self.host.leave_ring();
            }
            // An error in a block that comes in advance interrupts; then `hush` masks it.
            Some(Ok(_)) => {}
            Some(Err(Fault { cause: Cause::Gone, .. })) => self.host.mask = None,
            Some(Err(_)) => {
                self.host.dirty = true;
                self.host.set_mask(0);
                self.host.regs.write32(AT.dma_enable, 0);
            }
        }
        end
    }

    fn step_ring(&mut self, run: &Run) -> Option<Result<Done, Fault>> {
        let active = &run.active;
        if let Some(fault) = self.host.fault(active) {
            return Some(Err(Fault { response: None, ..fault }));
        }
        if run.wants_dma() {
            // If the controller ends the data by itself, without CMD12, the DMA never reaches the
            // descriptor at which it stops.
            let fault = Fault { cause: Cause::Other, stage: Stage::Data, response: None };
            return (active.seen & INT_DATA != 0).then_some(Err(fault));
        }
        if run.needs() & !active.seen != 0 {
            return None;
        }
        let response = match run.kind {
            Kind::GoesOn => Response::default(),
            _ => self.host.response(active.resp),
        };
        Some(Ok(Done { response, ..Done::default() }))
    }

    /// Masks the interrupts while an open read waits for its next request. Errors of blocks that
    /// arrive in that time stay in the raw status, where the next request's transfer finds them.
    pub(super) fn hush(&mut self) {
        self.host.set_mask(0);
        self.host.regs.write32(AT.dma_enable, 0);
    }
}

impl<R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> DesignWare<R, D, S, DESCRIPTORS> {
    /// Returns whether the controller stops the card's clock only where that is allowed. At a slow
    /// clock it may stop in the middle of a block; at a fast clock only between blocks, when the
    /// FIFO has no space for a whole block.
    fn stops_between_blocks(&self) -> bool {
        !self.bus.is_fast() || self.fifo.read_room && self.fifo.bytes >= BLOCK_BYTES
    }

    fn sync_whole(&mut self) {
        self.sync_table(16 * DESCRIPTORS);
    }

    /// Sets DMA and FIFO back to the register values for ordinary transfers, when an open read (a
    /// CMD18 over several requests) has ended.
    fn leave_ring(&mut self) {
        self.set_mask(0);
        self.regs.write32(AT.dma_mode, 0);
        // The FIFO still has words only if the data ended before CMD12 was sent.
        self.regs.write32(AT.control, self.control() | CONTROL_FIFO_RESET);
        self.regs.write32(AT.threshold, self.fifo.threshold);
        self.stale = true;
    }
}

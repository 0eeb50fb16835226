//! Continues and ends a phase (a command with its data), and detects the card interrupt, when the
//! controller interrupts.

use super::S3cSdi;
use super::phase::{Active, Work};
use super::regs::*;
use crate::host::{Cause, Dma, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::Response;

/// What one call of the interrupt handling did for the phase (command, data or busy) in progress.
enum Progress {
    /// The interrupt did not belong to the phase.
    None,
    /// The command or its data have advanced, and have not ended.
    Some,
    /// The command, with its data or busy, has ended with this result.
    Ended(Result<Done, Fault>),
}

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let Some(mut active) = self.active.take() else {
            self.take_idle(&mut events);
            return events;
        };
        let progress = match active.work {
            Work::Command => self.step_command(&mut active),
            _ => self.step_data(&mut active, segments),
        };
        match progress {
            Progress::None => {
                self.active = Some(active);
                events.card_irq = self.edge_asks();
            }
            Progress::Some => {
                self.active = Some(active);
                events.acknowledged = true;
            }
            Progress::Ended(result) => {
                self.idle = result.is_ok();
                if result.is_err() {
                    // After an error, further events of the circuits are ignored, so mask them.
                    self.enable(0);
                } else if core::mem::take(&mut self.transfer.odd) {
                    // Empty the FIFO: it may still hold bytes that fill up the last word, or that
                    // came after the data.
                    self.regs.write32(FSTA, FSTA_RESET);
                }
                events.phase = Some(result);
                // Edges of DAT1 during the phase were lost, so read the level. If data may still be
                // moving, DAT1 carries data; the reset that must follow reads the level again.
                let moving = active.work != Work::Command && active.data & DSTA_FINISH == 0;
                events.card_irq = !moving && self.level_asks();
            }
        }
        events
    }

    /// Clears late events while no phase is in progress. Reports whether the card requests
    /// attention; if so, masks the card interrupt.
    fn take_idle(&mut self, events: &mut Events) {
        let (command, data) = (self.regs.read32(CMDSTAT), self.regs.read32(DSTA));
        if command == u32::MAX || data == u32::MAX {
            self.idle = false;
            return;
        }
        if command & CMDSTAT_LATCHED != 0 || data & DSTA_LATCHED != 0 {
            // The event is late or spurious, so the next phase checks the lines before it starts.
            self.idle = false;
            self.forget(command, data);
            events.acknowledged = true;
        }
        // No phase expects an event. If the driver itself caused this interrupt (`ring`), its
        // purpose is fulfilled.
        self.enable(0);
        if !self.card_irq {
            return;
        }
        if data & DSTA_SDIO != 0 {
            self.mask_card();
            events.card_irq = true;
            return;
        }
        events.card_irq = self.level_asks();
    }

    fn step_command(&mut self, active: &mut Active) -> Progress {
        let status = self.regs.read32(CMDSTAT);
        if status == u32::MAX {
            return self.gone(active, Stage::Command);
        }
        if status & CMDSTAT_LATCHED == 0 {
            return Progress::None;
        }
        self.forget(status, 0);
        active.command |= status & CMDSTAT_LATCHED;
        match command_error(active) {
            Some(cause) => Progress::Ended(Err(Fault { cause, stage: Stage::Command, response: None })),
            None if active.answered() => self.done(active),
            None => Progress::Some,
        }
    }

    fn step_data(&mut self, active: &mut Active, segments: &[Segment]) -> Progress {
        // First move words between FIFO and memory, which is all that most calls need; other events
        // interrupt again.
        match active.work {
            Work::Read if self.transfer.left >= FIFO_HALF => {
                let fifo = self.regs.read32(FSTA);
                let count = fifo & FSTA_COUNT;
                if fifo != u32::MAX && fifo & FSTA_FAIL == 0 && count >= FIFO_HALF {
                    self.drain(segments, count);
                    return Progress::Some;
                }
            }
            Work::Write if self.transfer.left != 0 => {
                let fifo = self.regs.read32(FSTA);
                let count = fifo & FSTA_COUNT;
                if fifo & FSTA_FAIL == 0 && count <= FIFO_HALF {
                    self.fill(segments, count);
                    if self.transfer.left == 0 {
                        self.enable(self.events & !INT_TX_HALF);
                    }
                    return Progress::Some;
                }
            }
            _ => {}
        }
        let (data, command) = (self.regs.read32(DSTA), self.regs.read32(CMDSTAT));
        if data == u32::MAX || command == u32::MAX {
            return self.gone(active, Stage::Data);
        }
        let known = (active.command, active.data);
        active.command |= command & CMDSTAT_LATCHED;
        active.data |= data & DSTA_LATCHED;
        self.forget(command, data);
        if let Some(cause) = command_error(active) {
            return Progress::Ended(Err(Fault { cause, stage: Stage::Command, response: None }));
        }
        if let Some(cause) = data_error(active) {
            return self.data_fault(active, cause);
        }
        if active.data & DSTA_FINISH == 0 {
            if self.regs.read32(FSTA) & FSTA_FAIL != 0 {
                return self.data_fault(active, Cause::Other);
            }
            return if known == (active.command, active.data) { Progress::None } else { Progress::Some };
        }
        if active.work == Work::Dma
            && let Some(progress) = self.wait_for_dma(active)
        {
            return progress;
        }
        let ended = match active.work {
            Work::Read => self.take_last(segments),
            _ => self.transfer.left == 0,
        };
        if !ended {
            return self.data_fault(active, Cause::Other);
        }
        if active.answered() {
            return self.done(active);
        }
        // The data ended before the response arrived, so enable the interrupt of the response.
        self.enable(self.events | active.command_end());
        Progress::Some
    }

    /// Reads the remaining data of a read from the FIFO, after the data have ended on the bus.
    /// Returns false if the FIFO holds fewer bytes than are still missing, or has failed.
    fn take_last(&mut self, segments: &[Segment]) -> bool {
        let fifo = self.regs.read32(FSTA);
        let count = (fifo & FSTA_COUNT).min(FIFO_BYTES);
        if fifo & FSTA_FAIL != 0 || count < self.transfer.left {
            return false;
        }
        // Bytes that are in the FIFO after the last byte would become the first bytes of the next
        // transfer.
        self.transfer.odd |= count > self.transfer.left;
        self.drain(segments, count);
        true
    }

    /// Checks whether the board's DMA controller has transferred the last bytes, after the data
    /// have ended on the bus. Returns `None` when the DMA has stopped; until then it uses the
    /// memory.
    ///
    /// Only a FIFO that is at most half full raises another interrupt. For a fuller FIFO, the DMA
    /// controller's own interrupt or the engine's deadline leads to the next call.
    fn wait_for_dma(&mut self, active: &mut Active) -> Option<Progress> {
        let fifo = self.regs.read32(FSTA);
        let running = self.regs.read32(DMA_START) & 1 != 0;
        let left = active.looks.checked_sub(1);
        match (fifo & FSTA_COUNT != 0, running, left) {
            _ if fifo == u32::MAX => Some(self.gone(active, Stage::Data)),
            _ if fifo & FSTA_FAIL != 0 => Some(self.data_fault(active, Cause::Other)),
            (false, false, _) => {
                self.enable(self.events & !INT_TX_HALF);
                None
            }
            (_, true, Some(left)) => {
                active.looks = left;
                self.enable(self.events | INT_TX_HALF);
                Some(Progress::Some)
            }
            _ => Some(self.data_fault(active, Cause::Dma)),
        }
    }

    /// Ends the command or data transfer in progress because the registers read as all ones. The
    /// cause is [`Cause::Gone`] if no DMA for it runs. Otherwise the board's DMA controller still
    /// uses the memory, and the cause is [`Cause::Dma`].
    fn gone(&self, active: &Active, stage: Stage) -> Progress {
        self.stop_dma();
        let lets_go = active.work != Work::Dma || !self.dma_runs();
        let cause = if lets_go { Cause::Gone } else { Cause::Dma };
        Progress::Ended(Err(Fault { cause, stage, response: None }))
    }

    /// Clears the status bits that were read (`command` from [`CMDSTAT`], `data` from [`DSTA`]),
    /// except the card interrupt.
    fn forget(&self, command: u32, data: u32) {
        if command & CMDSTAT_LATCHED != 0 {
            self.regs.write32(CMDSTAT, command & CMDSTAT_LATCHED);
        }
        if data & DSTA_LATCHED != 0 {
            self.regs.write32(DSTA, data & DSTA_LATCHED);
        }
    }

    fn done(&self, active: &Active) -> Progress {
        let response = self.response(active.resp);
        Progress::Ended(Ok(Done { response, ..Done::default() }))
    }

    fn data_fault(&self, active: &Active, cause: Cause) -> Progress {
        let response = active.answered().then(|| self.response(active.resp));
        Progress::Ended(Err(Fault { cause, stage: Stage::Data, response }))
    }

    fn response(&self, resp: Resp) -> Response {
        match resp {
            Resp::None => Response::default(),
            Resp::R2 => {
                let [a, b, c, d] = [RSP0, RSP0 + 4, RSP0 + 8, RSP0 + 12].map(|at| self.regs.read32(at));
                Response { words: [a, b, c, d & !0xff] }
            }
            _ => Response::short(self.regs.read32(RSP0)),
        }
    }
}

/// Returns the error of the command, or `None`. The driver reports it before errors of the data,
/// because after an error of the command these mean nothing.
fn command_error(active: &Active) -> Option<Cause> {
    match () {
        () if active.resp == Resp::None => None,
        () if active.command & CMDSTAT_CRC != 0 && !active.without_crc() => Some(Cause::Crc),
        () if active.command & CMDSTAT_TIMEOUT != 0 => Some(Cause::Timeout),
        () => None,
    }
}

fn data_error(active: &Active) -> Option<Cause> {
    let has = |bits: u32| active.data & bits != 0;
    match () {
        () if has(DSTA_CRC | DSTA_CRC_STATUS) => Some(Cause::Crc),
        () if has(DSTA_FIFO) => Some(Cause::Other),
        // If all data have ended, they were in time, so a timeout is ignored.
        () if has(DSTA_TIMEOUT) && !has(DSTA_FINISH) => Some(Cause::Timeout),
        () => None,
    }
}

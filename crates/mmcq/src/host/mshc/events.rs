//! How a phase goes on and ends.

use super::Mshc;
use super::layout::*;
use super::phase::{Active, COMMAND_ERRORS, Work};
use super::regs::*;
use crate::host::{Cause, Direction, Dma, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::Response;

/// Words that one call moves at most. What is left interrupts again.
const WORDS_MAX: u32 = 256;

impl<L: MshcLayout, R: Regs, D: Dma, const DESCRIPTORS: usize> Mshc<L, R, D, DESCRIPTORS> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let Some(mut active) = self.active.take() else {
            self.silence();
            return events;
        };
        events.phase = self.advance(&mut active, segments);
        match &events.phase {
            None => {
                self.set_mask(active.wanted());
                self.active = Some(active);
            }
            Some(Ok(_)) => {
                if matches!(active.work, Work::Dma(_)) {
                    self.regs.write32(L::AT.dma_mode, 0);
                }
            }
            Some(Err(Fault { cause: Cause::Gone, .. })) => self.mask = None,
            // What the circuits still do is of no interest; they are reset before the next phase.
            Some(Err(_)) => {
                self.dirty = active.work != Work::Command;
                self.set_mask(0);
                self.regs.write32(L::AT.dma_enable, 0);
            }
        }
        events
    }

    /// Nothing is in progress, so nothing may interrupt.
    fn silence(&mut self) {
        let raw = self.regs.read32(L::AT.raw);
        if raw != u32::MAX && self.mask.is_some_and(|mask| raw & mask != 0) {
            self.set_mask(0);
            self.regs.write32(L::AT.dma_enable, 0);
        }
    }

    fn advance(&mut self, active: &mut Active, segments: &[Segment]) -> Option<Result<Done, Fault>> {
        self.look(active);
        if let Some(fault) = self.fault(active) {
            return Some(Err(fault));
        }
        if let Work::Cpu(direction) = active.work {
            if self.move_words(active, direction, segments) {
                // SMHC of QEMU says with the last word that the data have ended.
                self.look(active);
                if let Some(fault) = self.fault(active) {
                    return Some(Err(fault));
                }
            }
            if active.seen & INT_DATA != 0 && active.left_bytes != 0 && self.is_stuck(direction) {
                return Some(Err(self.failed(active, Cause::Other, Stage::Data)));
            }
        }
        if active.needs() & !active.seen != 0 || active.left_bytes != 0 {
            return None;
        }
        if active.work == Work::Dma(Direction::Read) && active.dma_seen & DMA_RECEIVED == 0 {
            // The last words are on their way to memory.
            self.regs.write32(L::AT.dma_enable, DMA_RECEIVED | DMA_BUS_ERROR | DMA_NORMAL | DMA_ABNORMAL);
            return None;
        }
        let response = self.response(active.resp);
        // SMHC keeps one of the two R1, and DesignWare both.
        let stop = (active.stops && L::DESIGN_WARE).then(|| self.regs.read32(L::AT.response + 4));
        Some(Ok(Done { response, stop, tuned: false }))
    }

    /// Takes and clears what has come. What is gone shows as all that can be seen.
    fn look(&mut self, active: &mut Active) {
        let raw = self.regs.read32(L::AT.raw);
        if raw == u32::MAX {
            // One read may get lost.
            if self.is_gone() {
                active.seen = raw;
            }
            return;
        }
        if raw != 0 {
            self.regs.write32(L::AT.raw, raw);
            active.seen |= raw;
        }
        if matches!(active.work, Work::Dma(_)) {
            let dma = self.regs.read32(L::AT.dma_status) & DMA_LATCHED;
            if dma != 0 {
                self.regs.write32(L::AT.dma_status, dma);
                active.dma_seen |= dma;
            }
        }
    }

    fn fault(&self, active: &Active) -> Option<Fault> {
        let has = |bits: u32| active.seen & bits != 0;
        if active.seen == u32::MAX {
            let stage = if active.work == Work::Command { Stage::Command } else { Stage::Data };
            return Some(Fault { cause: Cause::Gone, stage, response: None });
        }
        if has(COMMAND_ERRORS) {
            let cause = if has(INT_NO_RESPONSE) {
                Cause::Timeout
            } else if has(INT_RESPONSE_CRC) {
                Cause::Crc
            } else if has(INT_RESPONSE) && !has(INT_COMMAND) {
                // Without an end of the command: QEMU's way to say that none answers.
                Cause::Timeout
            } else {
                Cause::Other
            };
            if active.stops && has(INT_DATA) {
                return Some(self.failed(active, cause, Stage::Stop));
            }
            return Some(Fault { cause, stage: Stage::Command, response: None });
        }
        let errors = active.seen & active.data_errors();
        let write = matches!(active.work, Work::Dma(Direction::Write) | Work::Cpu(Direction::Write));
        let cause = if errors & INT_DATA_CRC != 0 {
            Cause::Crc
        } else if errors & INT_DATA_TIMEOUT != 0 || write && errors & INT_END_BIT != 0 {
            Cause::Timeout
        } else if errors & (INT_START_BIT | INT_END_BIT) != 0 {
            Cause::EndBit
        } else if errors & INT_STARVED != 0 || active.dma_seen & DMA_BUS_ERROR != 0 {
            Cause::Dma
        } else if errors != 0 {
            Cause::Other
        } else {
            return None;
        };
        Some(self.failed(active, cause, Stage::Data))
    }

    /// A fault after the response, if that had come.
    fn failed(&self, active: &Active, cause: Cause, stage: Stage) -> Fault {
        let response = (active.seen & INT_COMMAND != 0).then(|| self.response(active.resp));
        Fault { cause, stage, response }
    }

    /// Moves words for as long as the FIFO has them or room for them; true if there were some.
    fn move_words(&mut self, active: &mut Active, direction: Direction, segments: &[Segment]) -> bool {
        let before = active.left_bytes;
        if direction == Direction::Write && active.seen & INT_COMMAND == 0 {
            return false;
        }
        for _ in 0..WORDS_MAX {
            if active.left_bytes == 0 || self.is_stuck(direction) {
                break;
            }
            let count = active.left_bytes.min(4);
            match direction {
                Direction::Read => {
                    let word = self.regs.read32(self.fifo);
                    active.cursor.store(segments, word, count);
                }
                Direction::Write => {
                    let word = active.cursor.load(segments, count);
                    self.regs.write32(self.fifo, word);
                }
            }
            active.left_bytes -= count;
        }
        before != active.left_bytes
    }

    /// Has the FIFO no words, or no room?
    fn is_stuck(&self, direction: Direction) -> bool {
        let stuck = if direction == Direction::Read { STATUS_EMPTY } else { STATUS_FULL };
        self.regs.read32(L::AT.status) & stuck != 0
    }

    fn response(&self, resp: Resp) -> Response {
        let word = |at: u16| self.regs.read32(L::AT.response + 4 * at);
        match resp {
            Resp::None => Response::default(),
            Resp::R2 => Response { words: [word(3), word(2), word(1), word(0) & !0xff] },
            _ => Response::short(word(0)),
        }
    }
}

//! The progress and the end of a phase.

use super::Mshc;
use super::layout::*;
use super::phase::{Active, COMMAND_ERRORS, Work};
use super::regs::*;
use super::tune::MshcBoard;
use crate::host::{BusyDetect, Cause, Direction, Dma, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::{R1, Response, State};
use crate::spec::timing::{TUNING_64, TUNING_128};

/// Most words that one call transfers. The rest interrupts again.
const WORDS_MAX: u32 = 256;
/// The R1 of a card that has accepted a data command, without errors.
const TAKEN: u32 = 4 << 9 | R1::READY_FOR_DATA;

/// Returns whether an R1 is the response to a data command, and not to the CMD12 that ends it.
fn in_tran(r1: u32) -> bool {
    R1(r1).current_state() == State::Tran
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
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
            Some(Ok(_)) => match active.work {
                Work::Dma(_) => self.regs.write32(L::AT.dma_mode, 0),
                Work::Voltage => self.bus.begin_switch(),
                _ => {}
            },
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

    /// Masks the interrupts: nothing is in progress.
    fn silence(&mut self) {
        let raw = self.regs.read32(L::AT.raw);
        if raw != u32::MAX && self.mask.is_some_and(|mask| raw & mask != 0) {
            self.set_mask(0);
            self.regs.write32(L::AT.dma_enable, 0);
        }
    }

    fn advance(&mut self, active: &mut Active, segments: &[Segment]) -> Option<Result<Done, Fault>> {
        self.look(active);
        if let Work::Tune(bytes) = active.work {
            return self.advance_tuning(active, bytes);
        }
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
        if self.await_busy(active) {
            return None;
        }
        let (response, stop) = self.answers(active);
        // A card that has sent its data, or taken them, has taken the command.
        let response = response.unwrap_or(Response::short(TAKEN));
        if active.stops && !L::DESIGN_WARE {
            self.keeps_r1 = in_tran(self.regs.read32(L::AT.response));
        }
        Some(Ok(Done { response, stop, tuned: false }))
    }

    /// Starts the wait for the end of the card's busy. A change of the clock that changes nothing
    /// is done when DAT0 is high, and interrupts. It is used once: if the status shows busy after
    /// it, the controller does not wait for DAT0.
    fn await_busy(&mut self, active: &mut Active) -> bool {
        let waits = self.caps.busy == BusyDetect::Interrupt && !active.waited;
        if !waits || !active.may_be_busy() || !self.dat0_low() {
            return false;
        }
        active.waited = true;
        active.seen &= !INT_COMMAND;
        self.regs.write32(L::AT.command, COMMAND_START | COMMAND_UPDATE_CLOCK | COMMAND_WAITS);
        true
    }

    /// Reads a tuning block, or the part of it that has come.
    fn advance_tuning(&mut self, active: &mut Active, bytes: u32) -> Option<Result<Done, Fault>> {
        let has = |active: &Active, bits: u32| active.seen & bits != 0;
        if active.seen == u32::MAX {
            return self.fault(active).map(Err);
        }
        self.compare_words(active, bytes);
        // A read goes on after a bad response, and not after none.
        let none = has(active, INT_NO_RESPONSE | INT_LOCKED)
            || has(active, INT_RESPONSE) && !has(active, INT_COMMAND | INT_DATA);
        if !none && !has(active, INT_DATA) {
            return None;
        }
        self.regs.write32(L::AT.timeout, u32::MAX);
        let good = active.seen & (COMMAND_ERRORS | active.data_errors()) == 0
            && active.seen & active.needs() == active.needs()
            && active.left_bytes == 0
            && active.right;
        let tuned = self.tried(good);
        if none {
            return self.fault(active).map(Err);
        }
        if !good {
            // What is left in the FIFO would be the beginning of the next block.
            self.regs.write32(L::AT.control, self.control() | CONTROL_FIFO_RESET);
        }
        let response = if good { self.response(active.resp) } else { Response::default() };
        Some(match tuned {
            Some(tuned) => Ok(Done { response, stop: None, tuned }),
            None => Err(Fault { cause: Cause::Crc, stage: Stage::Data, response: None }),
        })
    }

    /// Reads the words that have come, and compares them with the tuning block.
    fn compare_words(&self, active: &mut Active, bytes: u32) {
        let pattern: &[u8] = if bytes == 64 { &TUNING_64 } else { &TUNING_128 };
        for _ in 0..WORDS_MAX {
            if active.left_bytes == 0 || self.is_stuck(Direction::Read) {
                return;
            }
            let at = bytes.saturating_sub(active.left_bytes) as usize;
            let word = self.regs.read32(self.fifo.offset).to_le_bytes();
            active.right &= pattern.get(at..).is_some_and(|rest| rest.starts_with(&word));
            active.left_bytes = active.left_bytes.saturating_sub(4);
        }
    }

    /// Reads and clears the events. A controller that is gone shows all bits.
    pub(super) fn look(&mut self, active: &mut Active) {
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
        if active.hears && active.seen & (INT_COMMAND | INT_AUTO_STOP) == INT_COMMAND {
            // CMD12's may have come since: then it is too late.
            let r1 = Some(self.regs.read32(L::AT.response)).filter(|&r1| in_tran(r1));
            active.heard = active.heard.or(r1);
        }
        if matches!(active.work, Work::Dma(_)) {
            let dma = self.regs.read32(L::AT.dma_status) & DMA_LATCHED;
            if dma != 0 {
                self.regs.write32(L::AT.dma_status, dma);
                active.dma_seen |= dma;
            }
        }
    }

    pub(super) fn fault(&self, active: &Active) -> Option<Fault> {
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

    /// Makes a fault with the response, if it came.
    fn failed(&self, active: &Active, cause: Cause, stage: Stage) -> Fault {
        let response = (active.seen & INT_COMMAND != 0).then(|| self.answers(active).0).flatten();
        Fault { cause, stage, response }
    }

    /// Transfers words while the FIFO has words or space; returns true if it transferred some.
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
                    let word = self.regs.read32(self.fifo.offset);
                    active.cursor.store(segments, word, count);
                }
                Direction::Write => {
                    let word = active.cursor.load(segments, count);
                    self.regs.write32(self.fifo.offset, word);
                }
            }
            active.left_bytes -= count;
        }
        before != active.left_bytes
    }

    /// Returns whether the FIFO has no words, or no space.
    fn is_stuck(&self, direction: Direction) -> bool {
        let stuck = if direction == Direction::Read { STATUS_EMPTY } else { STATUS_FULL };
        self.regs.read32(L::AT.status) & stuck != 0
    }

    /// Returns the command's response, if it is still there, and the R1 of an automatic CMD12.
    fn answers(&self, active: &Active) -> (Option<Response>, Option<u32>) {
        let response = self.response(active.resp);
        if !active.stops {
            return (Some(response), None);
        }
        let second = self.regs.read32(L::AT.response + 4);
        if L::DESIGN_WARE {
            return (Some(response), Some(second));
        }
        let first = self.regs.read32(L::AT.response);
        if in_tran(first) {
            // Else it is what a longer response has left there.
            let stop = matches!(R1(second).current_state(), State::Data | State::Rcv);
            return (Some(response), stop.then_some(second));
        }
        (active.heard.map(Response::short), Some(first))
    }

    pub(super) fn response(&self, resp: Resp) -> Response {
        let word = |at: u16| self.regs.read32(L::AT.response + 4 * at);
        match resp {
            Resp::None => Response::default(),
            Resp::R2 => Response { words: [word(3), word(2), word(1), word(0) & !0xff] },
            _ => Response::short(word(0)),
        }
    }
}

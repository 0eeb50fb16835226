//! Continues the command in progress, with its data and busy, at each interrupt until it ends.

use super::Mshc;
use super::layout::*;
use super::phase::{Active, COMMAND_ERRORS, Work};
use super::regs::*;
use super::tune::MshcBoard;
use crate::host::{BusyDetect, Cause, Direction, Dma, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::{R1, Response, State};
use crate::spec::timing::{TUNING_64, TUNING_128};

/// Largest number of words that one call transfers before the data have ended. The FIFO raises
/// another interrupt for the remaining words.
const WORDS_MAX: u32 = 256;
/// Largest number of words in a FIFO. The driver moves at most this number in one call after the
/// end of the data, because no further interrupt comes then.
const FIFO_WORDS_MAX: u32 = 4096;
/// The R1 of a card that accepted a data command without errors: state `tran`, ready for data.
const TAKEN: u32 = 4 << 9 | R1::READY_FOR_DATA;

/// Returns whether the R1 belongs to a data command: state `tran`. The R1 of a CMD12 shows another
/// state.
fn in_tran(r1: u32) -> bool {
    R1(r1).current_state() == State::Tran
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let Some(mut active) = self.active.take() else {
            events.acknowledged = self.silence();
            return events;
        };
        let before = active.progress();
        events.phase = self.advance(&mut active, segments);
        events.acknowledged = active.progress() != before;
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
            // After an error, further events are ignored. Unless the failed phase was a command
            // without data, the driver starts no data until a reset.
            Some(Err(_)) => {
                self.dirty = active.work != Work::Command;
                self.set_mask(0);
                self.regs.write32(L::AT.dma_enable, 0);
            }
        }
        events
    }

    /// Masks all interrupts if one is raised; called when the controller executes no command.
    /// Returns whether an interrupt was raised.
    fn silence(&mut self) -> bool {
        let raw = self.regs.read32(L::AT.raw);
        let interrupts = raw != u32::MAX && self.mask.is_some_and(|mask| raw & mask != 0);
        if interrupts {
            self.set_mask(0);
            self.regs.write32(L::AT.dma_enable, 0);
        }
        interrupts
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
            let ended = active.seen & INT_DATA;
            if self.move_words(active, direction, segments) {
                // QEMU's SMHC reports the end of the data with the last word.
                self.look(active);
                if let Some(fault) = self.fault(active) {
                    return Some(Err(fault));
                }
                if active.seen & INT_DATA != ended {
                    // Words may have arrived between the last one and the end.
                    self.move_words(active, direction, segments);
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
            // The last words are still on their way from the controller to memory, so wait for the
            // DMA.
            self.regs.write32(L::AT.dma_enable, DMA_RECEIVED | DMA_BUS_ERROR | DMA_NORMAL | DMA_ABNORMAL);
            return None;
        }
        if self.await_busy(active) {
            return None;
        }
        let (response, stop) = self.answers(active);
        // The data were transferred, so the card did accept the command. Report an R1 without
        // errors if the response was overwritten.
        let response = response.unwrap_or(Response::short(TAKEN));
        if active.stops && !L::DESIGN_WARE {
            self.keeps_r1 = in_tran(self.regs.read32(L::AT.response));
        }
        Some(Ok(Done { response, stop, tuned: false }))
    }

    /// Starts to wait for the end of the card's busy; returns true if an interrupt will follow. The
    /// driver sends a clock update that changes nothing; the controller completes it when DAT0 is
    /// high. Only one such update is sent for each phase: if the card is busy after it, the
    /// controller does not wait for DAT0.
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

    /// Reads the words of a tuning block of `bytes` bytes that have arrived, and checks whether the
    /// block has ended. Returns the result of the tuning command; `None` if its block has not
    /// ended.
    fn advance_tuning(&mut self, active: &mut Active, bytes: u32) -> Option<Result<Done, Fault>> {
        let has = |active: &Active, bits: u32| active.seen & bits != 0;
        if active.seen == u32::MAX {
            return self.fault(active).map(Err);
        }
        self.compare_words(active, bytes);
        // A read continues after a malformed response, but ends if there was no response.
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
            // Words that stay in the FIFO would become the beginning of the next block.
            self.regs.write32(L::AT.control, self.control() | CONTROL_FIFO_RESET);
        }
        let response = if good { self.response(active.resp) } else { Response::default() };
        Some(match tuned {
            Some(tuned) => Ok(Done { response, stop: None, tuned }),
            None => Err(Fault { cause: Cause::Crc, stage: Stage::Data, response: None }),
        })
    }

    /// Reads the words in the FIFO and compares them with the tuning pattern.
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

    /// Reads and clears the status bits, and adds them to those that were seen since the command
    /// started. A controller that is gone shows all bits.
    pub(super) fn look(&mut self, active: &mut Active) {
        let raw = self.regs.read32(L::AT.raw);
        if raw == u32::MAX {
            // A single read of all ones may be a transfer error on the bus, so check again.
            if self.is_gone() {
                active.seen = raw;
            }
            return;
        }
        if raw != 0 {
            self.regs.write32(L::AT.raw, raw);
            active.seen |= raw;
            active.acknowledged = active.acknowledged.wrapping_add(1);
        }
        if active.hears && active.seen & (INT_COMMAND | INT_AUTO_STOP) == INT_COMMAND {
            // The R1 of CMD12 may have replaced the command's R1 in the meantime; then the R1 is
            // lost.
            let r1 = Some(self.regs.read32(L::AT.response)).filter(|&r1| in_tran(r1));
            active.heard = active.heard.or(r1);
        }
        if matches!(active.work, Work::Dma(_)) {
            let dma = self.regs.read32(L::AT.dma_status) & DMA_LATCHED;
            if dma != 0 {
                self.regs.write32(L::AT.dma_status, dma);
                active.dma_seen |= dma;
                active.acknowledged = active.acknowledged.wrapping_add(1);
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
                // QEMU reports a missing response as a malformed one, without the end of the
                // command.
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

    /// Returns a fault, with the response if one was received.
    fn failed(&self, active: &Active, cause: Cause, stage: Stage) -> Fault {
        let response = (active.seen & INT_COMMAND != 0).then(|| self.answers(active).0).flatten();
        Fault { cause, stage, response }
    }

    /// Transfers words while the FIFO has words or space; returns true if at least one word was
    /// transferred.
    fn move_words(&mut self, active: &mut Active, direction: Direction, segments: &[Segment]) -> bool {
        let before = active.left_bytes;
        if direction == Direction::Write && active.seen & INT_COMMAND == 0 {
            return false;
        }
        let most = if active.seen & INT_DATA == 0 { WORDS_MAX } else { FIFO_WORDS_MAX };
        for _ in 0..most {
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

    /// Returns whether the FIFO is empty during a read, or full during a write.
    fn is_stuck(&self, direction: Direction) -> bool {
        let stuck = if direction == Direction::Read { STATUS_EMPTY } else { STATUS_FULL };
        self.regs.read32(L::AT.status) & stuck != 0
    }

    /// Returns the command's response, if the controller has not overwritten it, and the R1 of the
    /// automatic CMD12, if the controller sent one.
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
            // In other states the register holds a remainder of an earlier 136-bit response.
            let stop = matches!(R1(second).current_state(), State::Data | State::Rcv);
            return (Some(response), stop.then_some(second));
        }
        (active.heard.map(Response::short), Some(first))
    }

    /// Returns the first word of the response of the phase in progress; `None` if no good response
    /// was seen so far.
    pub(super) fn response_so_far(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        let answered = active.seen & (INT_COMMAND | COMMAND_ERRORS) == INT_COMMAND;
        answered.then(|| self.response(active.resp).words[0])
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

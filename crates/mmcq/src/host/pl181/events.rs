//! Continues the command in progress, with its data and busy, at each interrupt until it ends.

use super::Pl181;
use super::phase::{Active, Work};
use super::regs::*;
use crate::host::{Cause, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::Response;

/// Largest number of words that one call transfers, unless the FIFO is longer: a block of 512
/// bytes. The FIFO raises another interrupt for the remaining words.
const WORDS_MAX: u32 = 128;
const DATA_ERRORS: u32 = DATA_CRC_FAIL | DATA_TIMEOUT | TX_UNDERRUN | RX_OVERRUN | START_BIT;

impl<R: Regs> Pl181<R> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        match self.active.take() {
            Some(mut active) => {
                let before = (active.seen, self.transfer.left_bytes);
                events.phase = self.advance(&mut active, segments);
                events.acknowledged = (active.seen, self.transfer.left_bytes) != before;
                match &events.phase {
                    None => {
                        self.set_mask(self.wanted_mask(&active));
                        self.active = Some(active);
                    }
                    Some(Ok(_)) => self.finish(active.work),
                    Some(Err(Fault { cause: Cause::Gone, .. })) => self.mask = None,
                    Some(Err(_)) => self.quiet(),
                }
            }
            None => events.acknowledged = self.silence(),
        }
        events
    }

    /// Masks all interrupts if one is pending although no command is in progress. Returns whether
    /// one was pending.
    fn silence(&mut self) -> bool {
        if self.mask.is_some_and(|mask| mask != 0) {
            let status = self.regs.read32(STATUS);
            if status != u32::MAX && self.mask.is_some_and(|mask| status & mask != 0) {
                self.set_mask(0);
                return true;
            }
        }
        false
    }

    /// Reads the status and transfers the words that the FIFO certainly holds or accepts. Repeats
    /// both until no words are ready, or the limit of words is reached. Returns the result if the
    /// phase has ended.
    fn advance(&mut self, active: &mut Active, segments: &[Segment]) -> Option<Result<Done, Fault>> {
        let mut words_left = WORDS_MAX.max(self.fifo_words.into());
        let mut look_again = false;
        // Each pass of this loop transfers at least one word, or follows a pass that did. Only the
        // passes of the response and of the end do not.
        for _ in 0..2 * words_left + 2 {
            let status = self.regs.read32(STATUS);
            if status == u32::MAX {
                let stage = if active.work == Work::Command { Stage::Command } else { Stage::Data };
                return Some(Err(Fault { cause: Cause::Gone, stage, response: None }));
            }
            // Flags are cleared after the words of the last turn, because QEMU's model reports the
            // end of the data with each word.
            if status & STATIC != 0 {
                self.regs.write32(CLEAR, status & STATIC);
            }
            active.seen |= status & STATIC;
            if let Some(fault) = self.fault(active) {
                return Some(Err(fault));
            }
            if active.work == Work::WriteLater {
                if active.seen & active.command_good() == 0 {
                    return None;
                }
                self.start_sending(active);
                continue;
            }
            let words = self.due(active.work, status).min(words_left);
            if words == 0 {
                let result = self.over(active);
                // QEMU's model refills the FIFO only when the status is read, and shows the new
                // data in the next read of the status.
                if result.is_some() || !look_again || words_left == 0 {
                    return result;
                }
                look_again = false;
                continue;
            }
            self.move_words(active.work, words, segments);
            words_left -= words;
            look_again = active.work == Work::Read && self.transfer.left_bytes != 0;
        }
        None
    }

    /// Starts the data of a write after the response was received.
    fn start_sending(&mut self, active: &mut Active) {
        active.work = Work::Write;
        // Flags about data belong to an earlier transfer, so they are dropped.
        active.seen &= active.command_ends();
        self.regs.write32(DATA_CONTROL, self.transfer.control);
    }

    /// Returns how many words the CPU can certainly transfer now: words in the FIFO, or space in
    /// it, but no more than the command's data still need.
    fn due(&self, work: Work, status: u32) -> u32 {
        let fifo = u32::from(self.fifo_words);
        let left = self.transfer.left_bytes.div_ceil(4);
        let ready = match work {
            Work::Read if status & RX_FULL != 0 => fifo,
            Work::Read if status & RX_HALF_FULL != 0 => fifo / 2,
            // More data will arrive, so wait for half a FIFO; only the last words are read one by
            // one.
            Work::Read if status & RX_AVAILABLE != 0 && left < fifo / 2 => 1,
            Work::Write if status & TX_EMPTY != 0 => fifo,
            Work::Write if status & TX_HALF_EMPTY != 0 => fifo / 2,
            _ => 0,
        };
        ready.min(left)
    }

    fn move_words(&mut self, work: Work, words: u32, segments: &[Segment]) {
        let bytes = words.saturating_mul(4).min(self.transfer.left_bytes);
        let (regs, cursor) = (&self.regs, &mut self.transfer.cursor);
        if work == Work::Read {
            cursor.fill(segments, bytes, || regs.read32(FIFO));
        } else {
            cursor.drain(segments, bytes, |word| regs.write32(FIFO, word));
        }
        self.transfer.left_bytes -= bytes;
    }

    /// Returns the fault that ends the command in progress or its data; `None` if there is none.
    fn fault(&self, active: &Active) -> Option<Fault> {
        let has = |bits: u32| active.seen & bits != 0;
        let answered = has(active.command_good());
        if !answered {
            let cause = match active.seen & active.command_ends() {
                0 => None,
                flags if flags & COMMAND_CRC_FAIL != 0 => Some(Cause::Crc),
                _ => Some(Cause::Timeout),
            };
            if let Some(cause) = cause {
                return Some(Fault { cause, stage: Stage::Command, response: None });
            }
        }
        if !active.work.moves() || !has(DATA_ERRORS) {
            return None;
        }
        let cause = match () {
            () if has(DATA_CRC_FAIL) => Cause::Crc,
            () if has(DATA_TIMEOUT) => Cause::Timeout,
            // Start bits that do not arrive together count as a malformed frame.
            () if has(START_BIT) => Cause::EndBit,
            // The FIFO overran or ran empty, because the CPU read or wrote it too late.
            () => Cause::Other,
        };
        let response = answered.then(|| self.response(active.resp));
        Some(Fault { cause, stage: Stage::Data, response })
    }

    /// Returns the result of the command in progress if all events of the command and its data have
    /// arrived; `None` otherwise. The result is a fault if the response carries the index of
    /// another command.
    fn over(&self, active: &Active) -> Option<Result<Done, Fault>> {
        if active.seen & active.command_good() == 0 {
            return None;
        }
        if active.work.moves() && (self.transfer.left_bytes != 0 || active.seen & DATA_END == 0) {
            return None;
        }
        if self.answers_another(active) {
            return Some(Err(Fault { cause: Cause::Index, stage: Stage::Command, response: None }));
        }
        Some(Ok(Done { response: self.response(active.resp), ..Done::default() }))
    }

    /// Returns whether the response carries the index of another command. The index 0 counts as
    /// right: QEMU's model always reads as 0, and a real response never has it, because CMD0 has no
    /// response.
    fn answers_another(&self, active: &Active) -> bool {
        if matches!(active.resp, Resp::None | Resp::R2 | Resp::R3 | Resp::R4) {
            return false;
        }
        let index = self.regs.read32(RESPONSE_INDEX) & 0x3f;
        index != 0 && index != active.index.into()
    }

    fn response(&self, resp: Resp) -> Response {
        match resp {
            Resp::None => Response::default(),
            Resp::R2 => {
                let [a, b, c, d] =
                    [RESPONSE_0, RESPONSE_1, RESPONSE_2, RESPONSE_3].map(|at| self.regs.read32(at));
                Response { words: [a, b, c, d & !0xff] }
            }
            _ => Response::short(self.regs.read32(RESPONSE_0)),
        }
    }

    /// Ends a successful phase: disables command path and data path, which are idle.
    fn finish(&mut self, work: Work) {
        self.regs.write32(COMMAND, 0);
        if work.moves() {
            self.regs.write32(DATA_CONTROL, 0);
        }
        if work == Work::Write {
            // The FIFO is empty now, and would signal that all the time.
            self.set_mask(0);
        }
    }

    /// Stops command path and data path, empties the FIFO and clears every flag.
    pub(super) fn quiet(&mut self) {
        self.active = None;
        self.transfer = super::Transfer::default();
        self.regs.write32(MASK_0, 0);
        self.mask = Some(0);
        self.regs.write32(COMMAND, 0);
        self.regs.write32(DATA_CONTROL, 0);
        for _ in 0..self.fifo_words {
            let status = self.regs.read32(STATUS);
            if status & RX_AVAILABLE == 0 || status == u32::MAX {
                break;
            }
            self.regs.read32(FIFO);
        }
        self.regs.write32(CLEAR, STATIC);
    }
}

//! Continues the command in progress, with its data and busy, at each interrupt until it ends.

use super::Stm32Sdmmc;
use super::phase::{Active, COMMAND_ERRORS, DATA_ERRORS, Work};
use super::regs::*;
use super::tune::Stm32Board;
use crate::host::search::Found;
use crate::host::{Cause, Direction, Dma, Done, Events, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::Response;

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Stm32Sdmmc<R, D, S, PIECES> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        let status = self.look(&mut events);
        let Some(mut active) = self.active.take() else {
            // No phase is in progress, so mask the interrupts.
            if status != u32::MAX && self.mask.is_some_and(|mask| status & mask & !CARD_INTERRUPT != 0) {
                self.set_mask(0);
                events.acknowledged = true;
            }
            return events;
        };
        events.phase = self.advance(&mut active, status, segments);
        match &events.phase {
            None => {
                self.set_mask(active.wanted());
                self.active = Some(active);
            }
            Some(Ok(_)) => self.listen(),
            Some(Err(fault)) => {
                if active.work.moves() {
                    self.failed = Some(active.end);
                }
                if fault.cause == Cause::Gone {
                    self.mask = None;
                } else {
                    self.set_mask(0);
                    self.listen();
                }
            }
        }
        events
    }

    /// Reads the status and clears its flags. Reports and masks the card interrupt first, if the
    /// engine has unmasked it. Returns the status that was read; all ones if the controller is
    /// gone.
    fn look(&mut self, events: &mut Events) -> u32 {
        let status = self.regs.read32(STATUS);
        if status == u32::MAX {
            return status;
        }
        if self.bus.hears_card() && status & CARD_INTERRUPT != 0 {
            self.bus.card_was_heard();
            self.regs.write32(CLEAR, CARD_INTERRUPT);
            let mask = self.mask.unwrap_or(0) & !CARD_INTERRUPT;
            self.set_mask(mask);
            events.card_irq = true;
        }
        if status & STATIC != 0 {
            self.regs.write32(CLEAR, status & STATIC);
            events.acknowledged = true;
        }
        status
    }

    fn advance(
        &mut self,
        active: &mut Active,
        status: u32,
        segments: &[Segment],
    ) -> Option<Result<Done, Fault>> {
        if status == u32::MAX {
            let stage = if active.work.moves() { Stage::Data } else { Stage::Command };
            return Some(Err(Fault { cause: Cause::Gone, stage, response: None }));
        }
        active.seen |= status & STATIC;
        active.busy = active.may_be_busy() && status & BUSY != 0 && active.seen & BUSY_END == 0;
        if active.work == Work::TuneEnds {
            return self.tuning_has_ended(active, status);
        }
        if let Some(fault) = self.fault(active) {
            let tunes = active.work == Work::Tune;
            return if tunes { self.tuning_failed(active, status) } else { Some(Err(fault)) };
        }
        if active.needs() & !active.seen != 0 || active.busy {
            return None;
        }
        if self.answers_another(active) {
            return Some(Err(Fault { cause: Cause::Index, stage: Stage::Command, response: None }));
        }
        if active.work == Work::Tune {
            return self.tried(active, true);
        }
        if let Work::Bounce(direction) = active.work {
            self.unmap_bounce();
            if direction == Direction::Read {
                self.list.empty_bounce(segments, active.bytes);
            }
        }
        Some(Ok(Done { response: self.response(active.resp), ..Done::default() }))
    }

    /// Returns the fault that ends the command or its data; `None` if there is none so far.
    fn fault(&self, active: &Active) -> Option<Fault> {
        let has = |bits: u32| active.seen & bits != 0;
        let answered = has(active.command_good());
        if !answered && has(COMMAND_ERRORS) {
            let cause = if has(COMMAND_CRC_FAIL) { Cause::Crc } else { Cause::Timeout };
            return Some(Fault { cause, stage: Stage::Command, response: None });
        }
        let response = answered.then(|| self.response(active.resp));
        if !active.work.moves() {
            let late = active.resp == Resp::R1b && has(DATA_TIMEOUT);
            return late.then_some(Fault { cause: Cause::Timeout, stage: Stage::Busy, response });
        }
        if !has(DATA_ERRORS) {
            return None;
        }
        let cause = match () {
            () if has(DATA_CRC_FAIL) => Cause::Crc,
            () if has(DATA_TIMEOUT) => Cause::Timeout,
            () if has(DMA_ERROR) => Cause::Dma,
            // The FIFO overran or ran empty, although flow control should have stopped the clock.
            () => Cause::Other,
        };
        Some(Fault { cause, stage: Stage::Data, response })
    }

    /// Ends a bad tuning block. If `status` shows that the data path is still active, a CMD12
    /// resets it before the next block. Returns the result of the tuning command; `None` while the
    /// reset is in progress.
    fn tuning_failed(&mut self, active: &mut Active, status: u32) -> Option<Result<Done, Fault>> {
        if status & DATA_ACTIVE == 0 {
            return self.tried(active, false);
        }
        *active = Active { work: Work::TuneEnds, seen: 0, ..*active };
        self.regs.write32(CLEAR, STATIC);
        self.send(0, 12 | COMMAND_SHORT | COMMAND_STOP);
        None
    }

    fn tuning_has_ended(&mut self, active: &mut Active, status: u32) -> Option<Result<Done, Fault>> {
        if status & DATA_ACTIVE != 0 {
            return None;
        }
        let answered = active.seen & (DATA_ABORTED | RESPONSE_END | COMMAND_ERRORS) != 0;
        answered.then(|| self.tried(active, false)).flatten()
    }

    /// Records whether a tap was good; selects the next one, or ends the tuning. Returns the result
    /// of the phase.
    fn tried(&mut self, active: &Active, good: bool) -> Option<Result<Done, Fault>> {
        if !good {
            self.regs.write32(DATA_CONTROL, self.bus.data_control() | DATA_FIFO_RESET);
        }
        self.set_mask(0);
        self.unmap_bounce();
        let response = if good { self.response(active.resp) } else { Response::default() };
        let done = |tuned| Some(Ok(Done { response, stop: None, tuned }));
        match self.bus.tried(good) {
            Found::Next(tap) => {
                self.board.select(tap);
                done(false)
            }
            Found::Tuned => done(true),
            Found::None => Some(Err(Fault { cause: Cause::Crc, stage: Stage::Data, response: None })),
        }
    }

    /// Returns whether the received response belongs to another command than `active`, the one in
    /// progress: it carries another command index. False for responses without an index.
    fn answers_another(&self, active: &Active) -> bool {
        if matches!(active.resp, Resp::None | Resp::R2 | Resp::R3 | Resp::R4) {
            return false;
        }
        self.regs.read32(RESPONSE_INDEX) & 0x3f != u32::from(active.index)
    }

    /// Returns the first word of the response of the phase in progress; `None` if no good response
    /// was seen so far.
    pub(super) fn response_so_far(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        let answered = active.seen & active.command_good() != 0 && !self.answers_another(active);
        answered.then(|| self.response(active.resp).words[0])
    }

    fn response(&self, resp: Resp) -> Response {
        let word = |n: u16| self.regs.read32(RESPONSE_1 + 4 * n);
        match resp {
            Resp::None => Response::default(),
            Resp::R2 => Response { words: [word(0), word(1), word(2), word(3) & !0xff] },
            _ => Response::short(word(0)),
        }
    }
}

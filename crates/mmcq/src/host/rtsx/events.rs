//! Handles an interrupt of the reader: continues or ends the command and data transfer in progress
//! (the phase), and reports other events.

use super::Rtsx;
use super::phase::{Active, Work};
use super::regs::*;
use crate::host::{Cause, Direction, Dma, Done, Events, Fault, Regs, Stage};
use crate::spec::command::Resp;
use crate::spec::response::{R1, R5, Response};
use core::sync::atomic::{Ordering, fence};

/// Mask of the interrupt bits of the command in progress: a list of the chip or the DMA has ended,
/// well or with an error.
pub(super) const OF_PHASE: u32 = INT_COMMAND | INT_DATA | INT_OK | INT_FAIL;
/// First byte of an R2 or R3: the command index field has only ones.
const RESERVED_INDEX: u8 = 0x3f;

impl<R: Regs, D: Dma> Rtsx<R, D> {
    pub(super) fn take_events(&mut self) -> Events {
        let mut events = Events::default();
        let Some(status) = self.pending() else {
            events.phase = self.active.take().map(|active| {
                self.state.upset = true;
                Err(Fault { cause: Cause::Gone, stage: late(&active), response: active.response })
            });
            return events;
        };
        let latched = status & INT_LATCHED;
        if latched == 0 {
            return events;
        }
        self.port.regs.write32(BIPR, latched);
        events.acknowledged = true;
        events.presence = latched & INT_CARD != 0 && !self.config.fixed;
        self.masked |= latched & OVERCURRENT;
        if let Some(mut active) = self.active.take() {
            events.phase = self.advance(&mut active, latched);
            match events.phase {
                None => self.active = Some(active),
                Some(result) => {
                    self.state.upset |= result.is_err();
                    self.set_enable(self.base_enable());
                }
            }
        } else {
            if latched & OF_PHASE != 0 {
                // The event is late or spurious, so the next phase checks the state before it
                // starts. An event that repeats is masked.
                self.masked |= if self.state.unsettled { OF_PHASE } else { 0 };
                self.state.unsettled = true;
            }
            if self.enable & self.masked != 0 {
                self.set_enable(self.base_enable());
            }
        }
        events
    }

    /// Continues the command and data transfer in progress, with the interrupts in `latched`.
    /// Returns the result if it has ended.
    fn advance(&mut self, active: &mut Active, latched: u32) -> Option<Result<Done, Fault>> {
        active.seen |= latched & OF_PHASE;
        let seen = active.seen;
        if latched & OVERCURRENT != 0 {
            return Some(Err(Fault { cause: Cause::Power, stage: late(active), response: active.response }));
        }
        if seen & INT_FAIL != 0 && active.work == Work::Tuning {
            return Some(self.tuned(false));
        }
        if seen & INT_FAIL != 0 {
            return Some(Err(self.fault(active)));
        }
        let needs = active.work.needs();
        if seen & needs != needs {
            if seen & INT_COMMAND != 0 {
                // The list has ended before the DMA, so enable the DMA's interrupt.
                self.set_enable(self.base_enable() | INT_DATA);
            }
            return None;
        }
        if seen & INT_OK == 0 {
            return Some(Err(Fault { cause: Cause::Other, stage: late(active), response: active.response }));
        }
        self.go_on(active).transpose()
    }

    /// Continues the phase (the command with its data) after a list of register accesses that ended
    /// without an error: returns the phase's result, or starts the list with the data of a write
    /// and returns `None`.
    fn go_on(&mut self, active: &mut Active) -> Result<Option<Done>, Fault> {
        let data = match active.work {
            Work::Tuning => return self.tuned(true).map(Some),
            Work::CommandOfWrite(data) => Some(data),
            Work::Command | Work::Read | Work::Data => None,
        };
        if active.work.answered() {
            let fail = |cause| Fault { cause, stage: Stage::Command, response: None };
            active.response = Some(self.response(active, self.config.coherent).map_err(fail)?);
        }
        let response = active.response.unwrap_or_default();
        let done = Done { response, ..Done::default() };
        // A card that refuses the command accepts no data. Then the phase ends, and the engine
        // checks the response.
        let Some(data) = data.filter(|_| !refused(active.command.resp, &response)) else {
            return Ok(Some(done));
        };
        let unlisted = Fault { cause: Cause::Other, stage: Stage::Data, response: active.response };
        let extent = self.list_data(&data, false).ok_or(unlisted)?;
        active.work = Work::Data;
        active.seen = 0;
        self.launch(extent, Some(Direction::Write));
        Ok(None)
    }

    /// Records whether a tuning block matched the pattern (`good`), and returns the result of the
    /// command that read this block.
    fn tuned(&mut self, good: bool) -> Result<Done, Fault> {
        // Tuning tries phases that do not work, so an error is expected; the next list clears it.
        self.state.uncleared = !good;
        let tuned = self.sweep.judge(good);
        if let Some(phase) = tuned {
            self.bus.set_sample_phase(phase);
        }
        Ok(Done { tuned: tuned.is_some(), ..Done::default() })
    }

    /// Returns the response of a command that ended without an error. The response is read from the
    /// beginning of the list if `from_list`, else from the chip's registers.
    fn response(&self, active: &Active, from_list: bool) -> Result<Response, Cause> {
        let resp = active.command.resp;
        let mut bytes = [0u8; 17];
        let (count, rest) = match resp {
            Resp::None => return Ok(Response::default()),
            Resp::R2 => (16, PING_PONG),
            _ => (5, SD_CMD0),
        };
        if from_list {
            // The list must not be read before the interrupt was seen.
            fence(Ordering::Acquire);
        }
        for (at, (byte, register)) in bytes.iter_mut().take(count).zip(rest..).enumerate() {
            // The list's own CHECK returned the first byte.
            let register = if at == 0 { SD_CMD0 } else { register };
            *byte = if from_list { self.buffers.returned(at + 1) } else { self.port.fetch(register)? };
        }
        let [first, content @ ..] = bytes;
        let right = match resp {
            Resp::R2 => first & RESERVED_INDEX == RESERVED_INDEX,
            Resp::R3 | Resp::R4 => true,
            _ => first & RESERVED_INDEX == active.command.index,
        };
        // The first byte has start bit and direction, then the command index.
        if first >> 6 != 0 || !right {
            return Err(Cause::Index);
        }
        let mut words = [0; 4];
        let (groups, _) = content.as_chunks::<4>();
        for (word, group) in words.iter_mut().zip(groups) {
            *word = u32::from_be_bytes(*group);
        }
        if resp != Resp::R2 {
            words = [words.first().copied().unwrap_or(0), 0, 0, 0];
        }
        Ok(Response { words })
    }

    /// Returns why the list of register operations failed, and whether in its command, data or
    /// busy.
    fn fault(&self, active: &Active) -> Fault {
        let mut response = active.response;
        let (cause, stage) = match self.diagnose(active) {
            Ok(found) => found,
            Err(cause) => return Fault { cause, stage: late(active), response },
        };
        if stage != Stage::Command && active.work.answered() {
            // Read the response by registers: a list that failed may have returned nothing.
            response = self.response(active, false).ok();
        }
        Fault { cause, stage, response }
    }

    fn diagnose(&self, active: &Active) -> Result<(Cause, Stage), Cause> {
        let transfer = self.port.fetch(SD_TRANSFER)?;
        let stat1 = self.port.fetch(SD_STAT1)?;
        let stat2 = self.port.fetch(SD_STAT2)?;
        Ok(decode(transfer, stat1, stat2, late(active)))
    }
}

/// Returns the stage in which the list of register operations has stopped, if the chip reports no
/// error of the command itself.
fn late(active: &Active) -> Stage {
    match active.work {
        Work::Command if active.command.resp == Resp::R1b => Stage::Busy,
        Work::Command | Work::CommandOfWrite(_) => Stage::Command,
        Work::Read | Work::Data | Work::Tuning => Stage::Data,
    }
}

/// Returns the fault that the status registers `transfer`, `stat1` and `stat2` show. `late` is the
/// stage to report if the registers name no error. Errors of the command are decoded first: after
/// them, errors of the data mean nothing.
fn decode(transfer: u8, stat1: u8, stat2: u8, late: Stage) -> (Cause, Stage) {
    match () {
        () if stat2 & STAT2_RESPONSE_TIMEOUT != 0 => (Cause::Timeout, Stage::Command),
        () if stat1 & STAT1_CRC7 != 0 => (Cause::Crc, Stage::Command),
        () if stat1 & (STAT1_CRC16 | STAT1_WRITE_CRC | STAT1_TUNING) != 0 => (Cause::Crc, Stage::Data),
        () if stat1 & STAT1_CRC_TIMEOUT != 0 => (Cause::Timeout, Stage::Data),
        // The status has no error, so a CHECK has waited for its longest time.
        () if transfer & TRANSFER_ERROR == 0 => (Cause::Timeout, late),
        // The chip reports a failure, but no error of the card.
        () if late == Stage::Data => (Cause::Dma, Stage::Data),
        () => (Cause::Other, late),
    }
}

/// Returns whether the card has refused the command.
fn refused(resp: Resp, response: &Response) -> bool {
    match resp {
        Resp::R1 | Resp::R1b => response.r1().0 & R1::OWN != 0,
        Resp::R5 => response.r5().0 & R5::ERRORS != 0,
        _ => false,
    }
}

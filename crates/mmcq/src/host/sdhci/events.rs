//! Continues and ends a phase (a command with its data), and reports other events, when the
//! controller interrupts.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Sdhci;
use super::config::SdhciQuirks;
use super::phase::{Active, Automatic, BOUNDARY_BYTES, Work};
use super::regs::*;
use crate::host::{Cause, Direction, Dma, Done, Events, FastEnd, Fault, Regs, Segment, Stage};
use crate::spec::command::Resp;
use crate::spec::response::{R1, Response};

/// Interrupt status bits that belong to a command or its data: all except insertion and removal of
/// the card, card interrupt, shared interrupts and re-tuning.
pub(super) const OF_PHASE: u32 = !(INT_INSERT | INT_REMOVE | INT_CARD | INT_SHARED | INT_RETUNE | INT_ERROR);
/// Interrupt status bits that the driver clears by writing 1.
pub(super) const ACKNOWLEDGED: u32 = OF_PHASE | INT_INSERT | INT_REMOVE | INT_RETUNE;
/// All interrupt status bits except Error Interrupt, which only summarises the others.
pub(super) const ALL_BITS: u32 = !INT_ERROR;
/// Value that no masked interrupt status equals: only the bit Error Interrupt, which [`ALL_BITS`]
/// removes.
pub(super) const NEVER: u32 = INT_ERROR;
const PRESENCE: u32 = INT_INSERT | INT_REMOVE;
/// Interrupt status bits that belong to no phase.
pub(super) const RARE: u32 = PRESENCE | INT_CARD | INT_RETUNE;
/// Largest number of reads while the driver waits for a late ready bit of the buffer: ten to a
/// hundred microseconds.
const READY_LOOKS: u32 = 256;
/// Largest number of reads of Present State before the driver decides that a Transfer Complete
/// belonged to another transfer: about ten microseconds.
const END_LOOKS: u32 = 64;
/// Flag in `Active::seen`: Transfer Complete came before the command's response, so it may belong
/// to an earlier transfer. The flag uses a bit that is no status bit of a command or its data.
const END_FIRST: u32 = INT_ERROR;

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    pub(super) fn take_events(&mut self, segments: &[Segment]) -> Events {
        let status = self.port.read32(INT_STATUS) & self.own_bits;
        self.take_others(status, segments)
    }

    /// Returns the end of the command in progress (and of its data) in short form, if it is the
    /// only event and has no error. The command has an R1, and no data or data by ADMA. In all
    /// other cases, returns all events in the full form.
    #[inline(always)]
    pub(super) fn take_end(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        let status = self.port.read32(INT_STATUS) & self.own_bits;
        // An expected bit is missing, or other bits are set.
        if status != self.fast_end {
            return Err(self.take_others(status, segments));
        }
        self.port.write32(INT_STATUS, status);
        self.fast_end = NEVER;
        (self.active, self.idle) = (None, true);
        let mut end = FastEnd { status: self.port.read32(RESPONSE_0), stop: 0 };
        if self.auto >= Automatic::Stop {
            let told = self.port.read32(RESPONSE_3);
            match self.auto {
                Automatic::Stop => end.stop = told,
                _ => end.status |= told & R1::DEFERRED,
            }
        }
        Ok(end)
    }

    /// Acknowledges the events in the interrupt status `status` that are not simply the expected
    /// end of the command in progress, and returns them.
    #[cold]
    #[inline(never)]
    fn take_others(&mut self, status: u32, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        if status == 0 && self.active.is_none_or(|active| !matches!(active.work, Work::Tuning)) {
            return events;
        }
        if status == self.own_bits && self.present_state().is_none() {
            // The controller is off the bus; two reads confirm it, since one read may be lost on
            // the bus. It accesses no memory any more, and no register write would help.
            self.fast_end = NEVER;
            events.phase = self.active.take().map(|active| Err(gone(&active)));
            self.idle = false;
            return events;
        }
        let auto_status = self.auto_status(status);
        if status & ACKNOWLEDGED != 0 {
            // Acknowledge before the data move: if the buffer becomes ready meanwhile, its bit must
            // be set again.
            self.port.write32(INT_STATUS, status & ACKNOWLEDGED);
            events.acknowledged = true;
        }
        if status & RARE != 0 {
            self.take_rare(status, &mut events);
        }
        if let Some(mut active) = self.active.take() {
            self.fast_end = NEVER;
            events.phase = self.advance(&mut active, status, auto_status, segments);
            if events.phase.is_none() {
                self.active = Some(active);
            }
        } else if status & OF_PHASE != 0 {
            // The event is late or spurious, so the next phase checks the lines before it starts.
            // Such an event may repeat, so the interrupts of phases are disabled until the next
            // phase.
            self.idle = false;
            if self.concurrent.is_none() {
                self.set_signal(RARE);
            }
        }
        events
    }

    /// Returns why an automatic command failed. Called before the interrupt status is acknowledged:
    /// the register is valid only while Auto CMD Error is set [SDHC 2.2.23].
    pub(super) fn auto_status(&self, status: u32) -> u16 {
        if status & ERROR_AUTO != 0 { self.port.read16(AUTO_STATUS) } else { 0 }
    }

    /// Reports in `events` which of these the interrupt status `status` shows: insertion or removal
    /// of the card, card interrupt, re-tuning. Masks each reported event until it can change again,
    /// so that a level cannot interrupt for ever.
    pub(super) fn take_rare(&mut self, status: u32, events: &mut Events) {
        let mut enable = self.shadow.enable;
        if status & PRESENCE & enable != 0 {
            events.presence = true;
            enable = enable & !PRESENCE | self.presence_enable();
        }
        if status & INT_CARD & enable != 0 {
            events.card_irq = true;
            self.bus.card_irq = false;
            enable &= !INT_CARD;
        }
        if status & INT_RETUNE & enable != 0 {
            events.retune = true;
            enable &= !INT_RETUNE;
        }
        self.set_enable(enable);
    }

    /// Returns the enable bit of the event that can come next: removal if a card is in the slot,
    /// otherwise insertion. The status bit of the other one may be a level that stays set.
    pub(super) fn presence_enable(&self) -> u32 {
        match self.present_state() {
            _ if self.caps.fixed => 0,
            Some(state) if state & PRESENT_INSERTED != 0 => INT_REMOVE,
            _ => INT_INSERT,
        }
    }

    /// Continues the phase (a command with its data and busy) in progress; returns its result if it
    /// has ended. `status` is the interrupt status, `auto_status` that of the automatic command.
    fn advance(
        &mut self,
        active: &mut Active,
        status: u32,
        auto_status: u16,
        segments: &[Segment],
    ) -> Option<Result<Done, Fault>> {
        active.seen |= status & (INT_COMMAND | INT_TRANSFER | INT_BUFFER_READ | INT_BUFFER_WRITE);
        let errors = self.errors_that_count(active, status);
        if errors != 0 {
            return Some(Err(self.fault(active, errors, auto_status)));
        }
        let transferred = active.seen & INT_TRANSFER != 0;
        match active.work {
            Work::Tuning => return self.tuned(active.seen & INT_BUFFER_READ != 0),
            Work::Pio(direction) => {
                let offered = status & (INT_BUFFER_READ | INT_BUFFER_WRITE) != 0;
                self.move_blocks(direction == Direction::Read, offered, segments);
                if self.transfer.blocks != 0 {
                    // The phase goes on until the CPU has transferred all blocks: Transfer Complete
                    // may come while the buffer still holds the last block of a read.
                    return None;
                }
            }
            // At the end of the data SDMA is not continued: the next address is other memory.
            Work::Sdma
                if status & INT_DMA != 0
                    && !transferred
                    && self.transfer.sdma_next < self.transfer.sdma_end =>
            {
                self.set_sdma(self.transfer.sdma_next);
                self.transfer.sdma_next = self.transfer.sdma_next.wrapping_add(BOUNDARY_BYTES);
            }
            _ => {}
        }
        let needs = active.work.needs();
        if active.seen & needs == needs {
            if active.seen & END_FIRST != 0 && self.dat_stays_in_use() {
                active.seen = INT_COMMAND;
                return None;
            }
            return Some(Ok(self.done(active)));
        }
        if transferred {
            // The data ended before the response arrived, so Command Complete is now enabled. Or
            // the end belongs to the transfer before and is reported twice.
            active.seen |= if needs & INT_TRANSFER != 0 { END_FIRST } else { 0 };
            self.set_signal(self.shadow.signal | INT_COMMAND);
        }
        None
    }

    /// Returns the error bits of `status`, without those that the driver must ignore: errors that
    /// tuning expects, and a Data Timeout that is masked or comes with Transfer Complete.
    fn errors_that_count(&self, active: &Active, status: u32) -> u32 {
        let mut errors = status & ERRORS;
        if matches!(active.work, Work::Tuning) {
            // Tuning tries sampling points that do not work, so their errors are expected.
            return errors & ERROR_TUNING;
        }
        if active.seen & INT_TRANSFER != 0 || self.bus.timeout_masked {
            // If Transfer Complete is also set, Data Timeout is ignored [SDHC 2.2.17].
            errors &= !ERROR_DATA_TIMEOUT;
        }
        errors
    }

    fn done(&mut self, active: &Active) -> Done {
        // After a busy that was not awaited, or a transfer that was cut short, more events may
        // follow.
        self.idle = active.alone && (active.resp != Resp::R1b || !matches!(active.work, Work::Command));
        Done {
            response: self.answer(active),
            stop: (self.auto == Automatic::Stop).then(|| self.port.read32(RESPONSE_3)),
            tuned: false,
        }
    }

    /// Returns the response. If the response to the automatic CMD23 has errors of an earlier write,
    /// adds them: the card reports them only once.
    fn answer(&self, active: &Active) -> Response {
        let mut response = self.response(active.resp);
        if self.auto == Automatic::TellingCount {
            response.words[0] |= self.port.read32(RESPONSE_3) & R1::DEFERRED;
        }
        response
    }

    /// Returns the result of a tuning command after an event; `None` if it has not ended. `block`
    /// says that the tuning block was received. Without a block, Host Control 2 is read: some
    /// controllers report only there, and only the end of the whole tuning.
    fn tuned(&mut self, block: bool) -> Option<Result<Done, Fault>> {
        let control = self.port.read16(CONTROL_2);
        if control & CONTROL_2_TUNE != 0 {
            return block.then(|| Ok(Done::default()));
        }
        if control & CONTROL_2_TUNED == 0 {
            return Some(Err(Fault { cause: Cause::Other, stage: Stage::Data, response: None }));
        }
        self.set_enable(self.shadow.enable | INT_RETUNE);
        Some(Ok(Done { tuned: true, ..Done::default() }))
    }

    fn response(&self, resp: Resp) -> Response {
        match resp {
            Resp::None => Response::short(self.kept_response()),
            Resp::R2 => self.long_response(),
            _ => Response::short(self.port.read32(RESPONSE_0)),
        }
    }

    fn long_response(&self) -> Response {
        let read = [RESPONSE_3, RESPONSE_2, RESPONSE_1, RESPONSE_0].map(|at| self.port.read32(at));
        let [a, b, c, d] = read;
        let words = if self.config.quirks.has(SdhciQuirks::RSP136_HAS_CRC) {
            [a, b, c, d & !0xff]
        } else {
            [a << 8 | b >> 24, b << 8 | c >> 24, c << 8 | d >> 24, d << 8]
        };
        Response { words }
    }

    fn fault(&mut self, active: &Active, errors: u32, auto_status: u16) -> Fault {
        self.idle = false;
        let (cause, stage) = decode(active.work, self.auto, errors, auto_status);
        let answered = active.seen & INT_COMMAND != 0 && errors & ERRORS_COMMAND == 0;
        Fault { cause, stage, response: answered.then(|| self.answer(active)) }
    }

    /// Transfers blocks by the CPU, from the controller's buffer to memory if `read`, else from
    /// memory to the buffer. Goes on while the buffer is ready and the transfer has blocks left.
    /// `offered`: an interrupt has reported that the buffer is ready. `segments`: the memory.
    fn move_blocks(&mut self, read: bool, offered: bool, segments: &[Segment]) {
        let ready = if read { PRESENT_BUFFER_READ } else { PRESENT_BUFFER_WRITE };
        let bytes = self.transfer.block_bytes;
        let mut looks =
            if offered && self.config.quirks.has(SdhciQuirks::PIO_DELAY) { READY_LOOKS } else { 1 };
        while self.transfer.blocks != 0 && self.buffer_is(ready, looks) {
            looks = 1;
            match self.transfer.cursor.take(segments, bytes) {
                Some(place) if read => self.read_block(place, bytes),
                Some(place) => self.write_block(place, bytes),
                None => self.move_pieces(read, segments),
            }
            self.transfer.blocks -= 1;
        }
    }

    /// Returns whether the DAT lines stay in use after a Transfer Complete that came before the
    /// command's response. If so, that Transfer Complete belonged to an earlier transfer [SDHC
    /// 2.2.9]. The lines are read several times, because they may also stay in use for a short time
    /// after the command's own end.
    #[cold]
    #[inline(never)]
    fn dat_stays_in_use(&self) -> bool {
        (0..END_LOOKS).all(|_| self.port.read32(PRESENT) & PRESENT_DAT_INHIBIT != 0)
    }

    /// Returns whether one of the bits `ready` (buffer ready for a read or a write) is set in
    /// Present State, which is read at most `looks` times.
    fn buffer_is(&self, ready: u32, looks: u32) -> bool {
        (0..looks).any(|_| self.present_state().is_some_and(|state| state & ready != 0))
    }

    /// Transfers one block that lies in several segments, between them and the buffer port: to the
    /// segments if `read`, otherwise from them.
    fn move_pieces(&mut self, read: bool, segments: &[Segment]) {
        let bytes = self.transfer.block_bytes;
        let cursor = &mut self.transfer.cursor;
        for at in (0..bytes).step_by(4) {
            let count = (bytes - at).min(4);
            if read {
                cursor.store(segments, self.port.read32(BUFFER), count);
            } else {
                self.port.write_lanes(BUFFER, cursor.load(segments, count), count);
            }
        }
    }

    /// Reads one block of `bytes` bytes from the buffer port into contiguous memory at `place`.
    fn read_block(&self, place: core::ptr::NonNull<u8>, bytes: u32) {
        let (whole, tail) = (bytes as usize / 4, bytes as usize % 4);
        let words = place.cast::<u32>();
        for at in 0..whole {
            // SAFETY: `place` has room for `bytes` bytes, which include this word; the phase owns
            // that memory.
            unsafe { words.add(at).write_unaligned(self.port.read32(BUFFER).to_le()) };
        }
        if tail != 0 {
            let last = self.port.read32(BUFFER).to_le_bytes();
            for (at, value) in last.into_iter().take(tail).enumerate() {
                // SAFETY: the byte is one of the `bytes` bytes at `place`, since `4 * whole + at <
                // bytes`.
                unsafe { place.add(4 * whole + at).write(value) };
            }
        }
    }

    /// Writes one block of `bytes` bytes from contiguous memory at `place` to the buffer port.
    fn write_block(&self, place: core::ptr::NonNull<u8>, bytes: u32) {
        let (whole, tail) = (bytes as usize / 4, bytes as usize % 4);
        let words = place.cast::<u32>();
        for at in 0..whole {
            // SAFETY: `place` holds `bytes` bytes, which include this word; the phase owns that
            // memory.
            self.port.write32(BUFFER, u32::from_le(unsafe { words.add(at).read_unaligned() }));
        }
        if tail != 0 {
            let mut last = [0; 4];
            for (at, value) in last.iter_mut().take(tail).enumerate() {
                // SAFETY: the byte is one of the `bytes` bytes at `place`, since `4 * whole + at <
                // bytes`.
                *value = unsafe { place.add(4 * whole + at).read() };
            }
            self.port.write_lanes(BUFFER, u32::from_le_bytes(last), tail as u32);
        }
    }
}

fn gone(active: &Active) -> Fault {
    let stage = if active.work.has_data() { Stage::Data } else { Stage::Command };
    Fault { cause: Cause::Gone, stage, response: None }
}

/// Returns the fault for the bits `errors` of a command with its data; `auto_status` has the errors
/// of an automatic command. Errors of the command are decoded first: after them, errors of the data
/// mean nothing.
pub(super) fn decode(work: Work, auto: Automatic, errors: u32, auto_status: u16) -> (Cause, Stage) {
    let has = |bits: u32| errors & bits != 0;
    let late = match work {
        Work::Command => Stage::Command,
        Work::Busy => Stage::Busy,
        _ => Stage::Data,
    };
    match () {
        // Timeout and CRC error together mean that another device drives the CMD line
        // [SDHC 2.2.18].
        () if has(ERROR_COMMAND_CRC) => (Cause::Crc, Stage::Command),
        () if has(ERROR_COMMAND_TIMEOUT) => (Cause::Timeout, Stage::Command),
        () if has(ERROR_COMMAND_END) => (Cause::EndBit, Stage::Command),
        () if has(ERROR_COMMAND_INDEX) => (Cause::Index, Stage::Command),
        () if has(ERROR_RESPONSE) => (Cause::Response, Stage::Command),
        () if has(ERROR_ADMA) => (Cause::Dma, late),
        () if has(ERROR_DATA_CRC) => (Cause::Crc, late),
        () if has(ERROR_DATA_END) => (Cause::EndBit, late),
        () if has(ERROR_DATA_TIMEOUT) => (Cause::Timeout, late),
        () if has(ERROR_POWER) => (Cause::Power, late),
        () if has(ERROR_AUTO) => decode_auto(auto, auto_status, late),
        () if has(ERROR_TUNING) => (Cause::Crc, late),
        () => (Cause::Other, late),
    }
}

fn decode_auto(auto: Automatic, status: u16, late: Stage) -> (Cause, Stage) {
    let stage = match auto {
        Automatic::Stop => Stage::Stop,
        Automatic::Count | Automatic::TellingCount => Stage::Count,
        Automatic::Nothing => late,
    };
    let has = |bit: u16| status & bit != 0;
    let cause = match () {
        () if has(AUTO_NOT_EXECUTED) => Cause::Other,
        () if has(AUTO_CRC) => Cause::Crc,
        () if has(AUTO_TIMEOUT) => Cause::Timeout,
        () if has(AUTO_END) => Cause::EndBit,
        () if has(AUTO_INDEX) => Cause::Index,
        () if has(AUTO_RESPONSE) => Cause::Response,
        () => Cause::Other,
    };
    (cause, stage)
}

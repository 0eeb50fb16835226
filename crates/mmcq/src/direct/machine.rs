//! One exchange with the card at a time: a command with its data and busy, a bus operation or a
//! pause. The state machine is told the time, does one bounded piece of work, and returns when it
//! wants to be called again.
//!
//! Each wait has a deadline. After a fault, or a deadline that has passed, the lines of the
//! controller are reset before the exchange ends: only then the controller has released the memory.

use crate::engine::{
    COMMAND_TIMEOUT_NS, Completion, DmaBuf, Error, Kind, Output, Request, SLACK_NS, START_RETRY_NS,
};
use crate::host::{BusOp, Cause, Direction, Host, Phase, Segment, StartError, Step};
use crate::spec::response::R1;
use core::task::Waker;

/// Largest number of steps that one call carries out.
const STEPS_MAX: u32 = 8;
/// Longest time for which a start is repeated that the controller refuses, because its lines are
/// still in use [SD 4.6.2.2].
const REFUSED_NS: u64 = 500_000_000;
/// A transfer may take the card's longest wait once more for each group of this many blocks, as a
/// power of two.
const BLOCKS_PER_TIMEOUT_LOG: u32 = 6;

/// Upper bound of the time of a block on the wire at the slowest clock, in nanoseconds.
const SLOWEST_BLOCK_NS: u32 = 100_000_000;

/// Returns an upper bound of the time of a block on the wire at this clock, in nanoseconds: twice
/// the time of its bits on one line. Three steps do without a division.
fn block_ns(hz: u32) -> u32 {
    match hz {
        0..1_000_000 => SLOWEST_BLOCK_NS,
        1_000_000..16_000_000 => 10_000_000,
        _ => 600_000,
    }
}

/// What the machine does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is no exchange, or its result was taken.
    Idle,
    /// The phase of the exchange is to be started. `prefix`: the command before it, such as CMD55.
    Start { prefix: bool },
    /// The controller carries out the phase, or the command before it.
    Phase { prefix: bool },
    /// A bus operation is carried out.
    Bus(BusOp),
    /// The exchange pauses until the deadline.
    Pause,
    /// The exchange has ended.
    Over,
}

/// The driver, and the exchange that it carries out.
#[derive(Debug)]
pub(super) struct Machine<H> {
    state: State,
    /// Whether the next call for a bus operation is the first one.
    first: bool,
    /// Direction of the data for which the memory is mapped; `None`: it is not mapped.
    mapped: Option<Direction>,
    kind: Kind,
    segment: Segment,
    buf: DmaBuf,
    /// The deadline of the present state.
    until_ns: u64,
    /// Longest time of a block on the wire at the present clock, in nanoseconds.
    block_ns: u32,
    /// The response of the last phase, and whether it has found the sampling point.
    output: Option<Output>,
    result: Result<(), Error>,
    host: H,
    /// The task that waits for the end of the exchange.
    pub waker: Option<Waker>,
}

impl<H> Machine<H> {
    pub const fn new(host: H) -> Self {
        Machine {
            state: State::Idle,
            first: false,
            mapped: None,
            kind: Kind::Flush,
            segment: Segment::NONE,
            buf: DmaBuf::EMPTY,
            until_ns: u64::MAX,
            block_ns: SLOWEST_BLOCK_NS,
            output: None,
            result: Err(Error::Silent),
            host,
            waker: None,
        }
    }

    pub fn host(&self) -> &H {
        &self.host
    }

    pub fn host_mut(&mut self) -> &mut H {
        &mut self.host
    }

    /// Returns whether the driver may still have memory of an exchange.
    pub fn has_memory(&self) -> bool {
        self.mapped.is_some()
    }

    /// Takes the end of the exchange, if it has ended.
    pub fn take(&mut self) -> Option<Completion> {
        if self.state != State::Over {
            return None;
        }
        self.state = State::Idle;
        // Memory that the controller may still access stays here for ever.
        let buf = if self.has_memory() { DmaBuf::EMPTY } else { self.buf.take() };
        // After a pause this is the output of an earlier phase, and nothing reads it.
        let result = self.result.map(|()| self.output.unwrap_or_default());
        Some(Completion { result, done_bytes: 0, buf })
    }
}

impl<H: Host> Machine<H> {
    /// Begins an exchange. A bus operation may replace an exchange that has not ended: that is how
    /// an exchange is abandoned whose future was dropped.
    pub fn begin(&mut self, request: &mut Request, now_ns: u64) {
        self.kind = request.kind;
        let buf = request.buf.take();
        if !self.has_memory() {
            self.buf = buf;
        }
        self.state = match self.kind {
            Kind::Raw { .. } if self.has_memory() => return self.end(Err(Error::Dead)),
            Kind::Raw { prefix, phase, .. } => {
                if let Some(data) = phase.data.filter(|_| !phase.tuning) {
                    let bytes = data.blocks.saturating_mul(data.block_size.into());
                    self.segment = self.buf.segment(bytes);
                    if let Err(error) = self.host.map(&mut self.segment, data.direction) {
                        return self.end(Err(Error::Dma(error)));
                    }
                    self.mapped = Some(data.direction);
                }
                State::Start { prefix: prefix.is_some() }
            }
            Kind::Pause { .. } => State::Pause,
            Kind::Bus(op) => State::Bus(op),
            _ => return self.end(Err(Error::Unsupported)),
        };
        self.first = true;
        let wait_ns = if let Kind::Pause { ns } = self.kind { ns } else { REFUSED_NS };
        self.until_ns = now_ns.wrapping_add(wait_ns);
    }

    /// Continues the exchange as far as possible. Returns the time at which the next call is due at
    /// the latest; `None` if there is nothing to wait for.
    pub fn advance(&mut self, now_ns: u64) -> Option<u64> {
        if !matches!(self.state, State::Phase { .. }) {
            // Events of the slot, and the end of an exchange of bytes, keep the interrupt asserted.
            let _ = self.host.ack(&[]);
        }
        for _ in 0..STEPS_MAX {
            let due_ns = match self.state {
                State::Idle | State::Over => return None,
                State::Pause if now_ns >= self.until_ns => {
                    self.end(Ok(()));
                    None
                }
                State::Pause => Some(self.until_ns),
                State::Bus(_) if !self.first && now_ns < self.until_ns => Some(self.until_ns),
                State::Bus(op) => self.step_bus(op, now_ns),
                State::Start { prefix } => self.start(prefix, now_ns),
                State::Phase { prefix } => self.look(prefix, now_ns),
            };
            if due_ns.is_some() {
                return due_ns;
            }
        }
        Some(now_ns)
    }

    fn step_bus(&mut self, op: BusOp, now_ns: u64) -> Option<u64> {
        match self.host.set_bus(op, core::mem::take(&mut self.first), now_ns) {
            Step::Wait(until_ns) => {
                self.until_ns = until_ns.max(now_ns);
                return Some(self.until_ns);
            }
            Step::Done => {
                match op {
                    BusOp::Clock(hz) => self.block_ns = block_ns(hz),
                    BusOp::ResetLines | BusOp::ResetAll => self.unmap(),
                    _ => {}
                }
                match self.kind {
                    Kind::Raw { .. } => self.state = State::Over,
                    _ => {
                        // The memory of an abandoned exchange has no owner any more.
                        self.buf = DmaBuf::EMPTY;
                        self.end(Ok(()));
                    }
                }
            }
            Step::Failed if op == BusOp::ResetLines => self.reset(BusOp::ResetAll),
            Step::Failed => {
                if op == BusOp::ResetAll && self.host.isolate() {
                    self.unmap();
                }
                let error = if self.has_memory() { Error::Dead } else { Error::Bus(op) };
                self.end(Err(error));
            }
        }
        None
    }

    /// Starts the phase, or the command before it.
    fn start(&mut self, prefix: bool, now_ns: u64) -> Option<u64> {
        let Kind::Raw { prefix: before, phase, timeout_ns } = self.kind else { return None };
        let before = before.filter(|_| prefix).map(Phase::of);
        let has_data = before.is_none() && self.has_memory();
        let (phase, timeout_ns) = before.map_or((phase, timeout_ns), |phase| (phase, COMMAND_TIMEOUT_NS));
        let segments = if has_data { core::slice::from_ref(&self.segment) } else { &[] };
        match self.host.start(&phase, segments, timeout_ns) {
            Ok(()) => {
                message!(trace, "CMD{} {:#010x}", phase.command.index, phase.command.arg);
                let blocks = phase.data.map_or(0, |data| data.blocks);
                let waits = 1 + u64::from(blocks >> BLOCKS_PER_TIMEOUT_LOG);
                // Far from an overflow of 64 bits: no card declares more than minutes.
                let wire_ns = u64::from(blocks) * u64::from(self.block_ns);
                self.until_ns = now_ns.wrapping_add(timeout_ns * waits + wire_ns + SLACK_NS);
                self.state = State::Phase { prefix };
                Some(self.until_ns)
            }
            Err(StartError::Unsupported) => self.fail(Error::Unsupported, false),
            Err(_) if now_ns < self.until_ns => Some(now_ns.wrapping_add(START_RETRY_NS)),
            Err(_) => self.fail(Error::Silent, true),
        }
    }

    /// Asks the driver whether the phase has ended.
    fn look(&mut self, prefix: bool, now_ns: u64) -> Option<u64> {
        let segments = if self.has_memory() && !prefix { core::slice::from_ref(&self.segment) } else { &[] };
        match self.host.ack(segments).phase {
            Some(Ok(_)) if prefix => {
                self.state = State::Start { prefix: false };
                self.until_ns = now_ns.wrapping_add(REFUSED_NS);
            }
            Some(Ok(done)) => {
                let mut response = done.response;
                // A card clears most errors when it has reported them, so none may be lost.
                response.words[0] |= done.stop.unwrap_or(0) & R1::DEFERRED;
                self.unmap();
                self.output = Some(Output { bytes: done.tuned.into(), response });
                self.end(Ok(()));
            }
            Some(Err(fault)) => return self.fail(Error::Host(fault), fault.cause != Cause::Gone),
            None if now_ns < self.until_ns => return Some(self.until_ns),
            None => return self.fail(Error::Silent, true),
        }
        None
    }

    /// Ends the exchange with this error, after a reset of the lines if `reset`.
    fn fail(&mut self, error: Error, reset: bool) -> Option<u64> {
        message!(debug, "failed: {}", error);
        self.result = Err(error);
        if reset {
            self.reset(BusOp::ResetLines);
        } else {
            self.unmap();
            self.state = State::Over;
        }
        None
    }

    fn reset(&mut self, op: BusOp) {
        self.state = State::Bus(op);
        self.first = true;
    }

    fn end(&mut self, result: Result<(), Error>) {
        self.result = result;
        self.state = State::Over;
    }

    fn unmap(&mut self) {
        if let Some(direction) = self.mapped.take() {
            self.host.unmap(&self.segment, direction);
        }
    }
}

#[cfg(test)]
mod tests;

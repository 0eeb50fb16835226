//! The Bluetooth Type-A driver as a state machine: each completion calls a callback, which submits
//! the next phase. The state machine checks, retries, aborts and gives up as
//! `mmcq::sdio::bluetooth` does. It transfers only payloads that fit into one command, and serves
//! one client only.

use super::TIMER;
use super::card::{BLOCK_BYTES, Card};
use super::steps::{self, FUNCTION};
use mmcq::engine::{Completion, Config, DmaBuf, Engine, Error, Kind, Request, SlotId};
use mmcq::sdio::bluetooth::{HEADER_BYTES, RETRIES};
use mmcq::spec::command::sdio as cmd;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Idle,
    Pending,
    Interrupt,
    Clear,
    Header,
    Payload,
    Answer {
        again: bool,
    },
    /// A read of the card's own error flags, after an error on the wire, is in progress.
    Asked {
        data: bool,
    },
    Abort,
}

pub struct Machine {
    engine: Engine<Card, 4>,
    state: State,
    id: Option<SlotId>,
    buf: DmaBuf,
    /// Functions that may interrupt, one bit each.
    enabled: u8,
    bytes: u32,
    failures: u8,
    owes: bool,
    pub packets: u64,
    pub lost: u64,
}

impl Machine {
    pub fn new(buf: DmaBuf, enabled: u8) -> Self {
        let mut engine = Engine::new(Card::new(), Config::DEFAULT);
        engine.unmask_card_irq();
        let state = State::Idle;
        let (bytes, failures, owes, packets, lost) = (0, 0, false, 0, 0);
        Machine { engine, state, id: None, buf, enabled, bytes, failures, owes, packets, lost }
    }

    pub fn on_irq(&mut self) {
        let now_ns = (TIMER.now_ns)();
        let work = self.engine.on_irq(now_ns);
        if work.completed != 0
            && let Some(id) = self.id
            && let Some(done) = self.engine.take(id)
        {
            self.completed(done, now_ns);
        } else if work.card_irq && self.state == State::Idle {
            self.begin(now_ns);
        }
        (TIMER.set_alarm)(self.engine.next_deadline_ns());
    }

    fn submit(&mut self, state: State, kind: Kind, buf: DmaBuf, now_ns: u64) {
        self.state = state;
        match self.engine.submit(Request::new(kind, buf), now_ns) {
            Ok(id) => self.id = Some(id),
            Err((_, request)) => {
                self.take_back(request.buf);
                self.give_up();
            }
        }
    }

    fn register(&mut self, state: State, kind: Kind, now_ns: u64) {
        self.submit(state, kind, DmaBuf::EMPTY, now_ns);
    }

    fn data(&mut self, state: State, bytes: u32, now_ns: u64) {
        let buf = core::mem::replace(&mut self.buf, DmaBuf::EMPTY);
        self.submit(state, steps::data(bytes), buf, now_ns);
    }

    fn take_back(&mut self, buf: DmaBuf) {
        if buf.len_bytes() > 0 {
            self.buf = buf;
        }
    }

    fn begin(&mut self, now_ns: u64) {
        if self.owes {
            self.register(State::Answer { again: true }, steps::answer(true), now_ns);
        } else if self.enabled.is_power_of_two() {
            self.register(State::Interrupt, steps::interrupt(), now_ns);
        } else {
            self.register(State::Pending, steps::pending(), now_ns);
        }
    }

    /// Ends the handling of a packet, and enables the card interrupt again.
    fn end(&mut self) {
        (self.state, self.id) = (State::Idle, None);
        if self.engine.take_card_irq() {
            self.engine.unmask_card_irq();
        }
    }

    fn completed(&mut self, done: Completion, now_ns: u64) {
        self.take_back(done.buf);
        let response = match done.result {
            Ok(output) => output.response.r5(),
            Err(error) => return self.failed(matches!(error, Error::Host(_)), now_ns),
        };
        if response.errors() != 0 {
            return self.failed(false, now_ns);
        }
        match self.state {
            State::Pending => match response.data() & self.enabled & 1 << FUNCTION {
                0 => self.end(),
                _ => self.register(State::Interrupt, steps::interrupt(), now_ns),
            },
            State::Interrupt if response.data() & 1 == 0 => self.end(),
            State::Interrupt => {
                self.owes = true;
                self.register(State::Clear, steps::clear(), now_ns);
            }
            State::Clear => self.data(State::Header, HEADER_BYTES, now_ns),
            State::Header => {
                let [a, b, c, kind] = self.buf.first_chunk().copied().unwrap_or_default();
                let bytes = u32::from_le_bytes([a, b, c, 0]);
                let payload = bytes.wrapping_sub(HEADER_BYTES);
                let size = u32::from(BLOCK_BYTES);
                let whole = payload <= size || payload.is_multiple_of(size) && payload / size < 512;
                if bytes > HEADER_BYTES && payload <= self.buf.len_bytes() && (2..=5).contains(&kind) && whole
                {
                    self.bytes = payload;
                    self.data(State::Payload, payload, now_ns);
                } else {
                    self.again(now_ns);
                }
            }
            State::Payload => {
                self.register(State::Answer { again: false }, steps::answer(false), now_ns);
            }
            State::Answer { again } => {
                self.owes = false;
                if again {
                    return self.begin(now_ns);
                }
                match self.failures {
                    0..=RETRIES => self.packets += 1,
                    _ => self.lost += 1,
                }
                self.failures = 0;
                self.end();
            }
            State::Asked { data: true } => self.abort(now_ns),
            State::Asked { data: false } | State::Abort => self.again(now_ns),
            State::Idle => {}
        }
    }

    fn failed(&mut self, wire: bool, now_ns: u64) {
        let data = matches!(self.state, State::Header | State::Payload | State::Asked { data: true });
        if wire && !matches!(self.state, State::Asked { .. } | State::Abort) {
            self.register(State::Asked { data }, steps::direct(cmd::io_read(0, 0), false), now_ns);
        } else if data {
            self.abort(now_ns);
        } else {
            self.again(now_ns);
        }
    }

    fn abort(&mut self, now_ns: u64) {
        self.register(State::Abort, steps::direct(cmd::io_write(0, 0x06, FUNCTION), false), now_ns);
    }

    /// Counts a failed try, and starts the next one if tries are left.
    fn again(&mut self, now_ns: u64) {
        self.failures += 1;
        let again = self.failures <= RETRIES;
        if self.failures > RETRIES + 1 || !again && !self.owes {
            self.give_up();
        } else if self.owes {
            self.register(State::Answer { again }, steps::answer(again), now_ns);
        } else {
            self.begin(now_ns);
        }
    }

    fn give_up(&mut self) {
        self.lost += 1;
        self.failures = 0;
        self.end();
    }

    /// Returns the number of bytes in the last packet's payload.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }
}

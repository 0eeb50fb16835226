//! Linux's way to the controller: each request is one raw phase of the engine, exactly as its block driver builds it.

use super::elevator::Request;
use super::{Ended, Port};
use crate::board::Alone;
use crate::buffers;
use crate::system::{Event, System};
use mmcq::engine::{DmaBuf, Kind, Request as EngineRequest, SlotId, Target, Work};
use mmcq::host::{Auto, Data, Direction, Host, Phase};
use mmcq::spec::command;
use mmcq::task::Shared;

/// One thing at a time through an engine.
pub struct EnginePort<H: Host> {
    /// The engine.
    pub stack: Shared<Alone, H, 1>,
    target: Target,
    /// All data of a request in one piece.
    memory: Option<DmaBuf>,
    under_way: Option<(SlotId, Option<Request>)>,
    timer: u64,
    timer_ns: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// Timers of the port are numbered from here, those of a front end from 0.
const TIMERS: u64 = 1 << 63;

impl<H: Host> EnginePort<H> {
    /// Takes an engine whose card is in the transfer state. `max_bytes`: the largest request.
    pub fn new(stack: Shared<Alone, H, 1>, target: Target, max_bytes: usize) -> Self {
        let memory = Some(buffers::piece(max_bytes));
        EnginePort { stack, target, memory, under_way: None, timer: 0, timer_ns: u64::MAX, errors: 0 }
    }

    fn submit(&mut self, sys: &mut System, phase: Phase, timeout_ns: u64, request: Option<Request>) {
        let buf = if request.is_some() { self.memory.take() } else { None };
        let kind = Kind::Raw { prefix: None, phase, timeout_ns };
        let engine_request = EngineRequest::new(kind, buf.unwrap_or(DmaBuf::EMPTY));
        match self.stack.with(|e| e.submit(engine_request, sys.time.now())) {
            Ok(id) => {
                self.under_way = Some((id, request));
                self.set_timer(sys);
            }
            Err((error, back)) => {
                // One request at a time, of a size the host was asked for: only a broken board description comes here.
                debug_assert!(false, "{error}");
                self.errors += 1;
                self.memory = Some(back.buf);
            }
        }
    }

    /// One timer, which is never set later: if it goes off too early, it is set again then.
    fn set_timer(&mut self, sys: &mut System) {
        let deadline_ns = self.stack.with(|e| e.next_deadline_ns());
        let Some(at_ns) = deadline_ns.filter(|&at| at > 0 && at < self.timer_ns) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(TIMERS + self.timer));
    }

    fn ended(&mut self, sys: &mut System, work: Work) -> Option<Ended> {
        if work.deferred {
            // The host wants the rest in a thread; the front end knows, and calls from its context what unmapping costs. The data are here.
            let work = self.stack.with(|e| e.poll(sys.time.now()));
            return self.ended(sys, work);
        }
        if work.completed == 0 {
            return None;
        }
        let (id, request) = self.under_way.take()?;
        let completion = self.stack.with(|e| e.take(id))?;
        let output = completion.result;
        let Some(request) = request else {
            return Some(Ended::Status(output.map_or(0, |o| o.response.words[0])));
        };
        let errors = mmcq::spec::response::R1::ERRORS;
        let ok = output.is_ok_and(|o| o.response.words[0] & errors == 0);
        self.errors += u64::from(!ok);
        if ok && request.direction == Direction::Read {
            let mut at = 0;
            for io in &request.ios {
                let bytes = io.bytes();
                sys.buffers.get_mut(io.buffer)[..bytes].copy_from_slice(&completion.buf[at..at + bytes]);
                at += bytes;
            }
        }
        self.memory = Some(completion.buf);
        Some(Ended::Transfer { ok })
    }
}

impl<H: Host> Port for EnginePort<H> {
    fn transfer(&mut self, sys: &mut System, request: &Request) {
        if request.direction == Direction::Write
            && let Some(memory) = &mut self.memory
        {
            let mut at = 0;
            for io in &request.ios {
                let data = sys.buffers.get(io.buffer);
                memory[at..at + io.bytes()].copy_from_slice(&data[..io.bytes()]);
                at += io.bytes();
            }
        }
        let (lba, blocks) = (request.lba as u32, request.blocks);
        let address = if self.target.block_addressed { lba } else { lba.wrapping_mul(512) };
        let (command, timeout_ns) = match (request.direction, blocks) {
            (Direction::Read, 1) => (command::read_single_block(address), self.target.read_timeout_ns),
            (Direction::Read, _) => (command::read_multiple_block(address), self.target.read_timeout_ns),
            (Direction::Write, 1) => (command::write_block(address), self.target.write_timeout_ns),
            (Direction::Write, _) => (command::write_multiple_block(address), self.target.write_timeout_ns),
        };
        let auto_count = self.stack.with(|e| e.host().caps().auto_count);
        let auto = match blocks {
            1 => Auto::None,
            _ if self.target.count && auto_count => Auto::Count(command::set_block_count(blocks, false).arg),
            _ => Auto::Stop,
        };
        let data = Some(Data { direction: request.direction, block_size: 512, blocks });
        let phase = Phase { command, data, auto, tuning: false };
        self.submit(sys, phase, timeout_ns, Some(request.clone()));
    }

    fn status(&mut self, sys: &mut System) {
        let command = command::send_status(self.target.rca);
        let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
        self.submit(sys, phase, 20_000_000, None);
    }

    fn irq(&mut self, sys: &mut System) -> Option<Ended> {
        let work = self.stack.with(|e| e.on_irq(sys.time.now()));
        self.ended(sys, work)
    }

    fn busy(&self) -> bool {
        self.stack.with(|e| e.host().dat0_busy())
    }

    fn timer(&mut self, sys: &mut System, number: u64) -> Option<Ended> {
        if number != TIMERS + self.timer {
            return None;
        }
        self.timer_ns = u64::MAX;
        let now_ns = sys.time.now();
        let due = self.stack.with(|e| e.next_deadline_ns()).is_some_and(|at| at <= now_ns);
        let ended = if due {
            let work = self.stack.with(|e| e.poll(now_ns));
            self.ended(sys, work)
        } else {
            None
        };
        self.set_timer(sys);
        ended
    }
}

impl<H: Host> Drop for EnginePort<H> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            buffers::free(memory);
        }
    }
}

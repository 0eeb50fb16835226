//! Linux's own use of a card's command queue, by the controller's engine (`cqhci`): the worker takes
//! requests out of the scheduler and hands each to the engine as a task, as long as that has room.
//! The interrupt that tells of ends completes them by a soft interrupt, and a hop to the worker takes
//! the next ones out. A flush is the engine's direct command.
//!
//! The tasks go by our engine's lane of queue engines, with nothing merged: what is merged, the
//! scheduler before it has merged.

use super::elevator::{DiskUse, Elevator, Request};
use super::port::Memory;
use crate::platform::Profile;
use crate::system::{Event, Front, Io, Step, System};
use mmcq::board::NoLock;
use mmcq::engine::{DmaBuf, Kind, PollOutcome, Request as Asked, SlotId};
use mmcq::host::{Direction, Host};
use mmcq::task::Stack;
use mmcq_sim::cpu::{Priority, Thread};
use std::collections::VecDeque;

/// Linux leaves the engine's pause between two questions at what the controller has: so many
/// clocks of its timer.
pub const POLL_CLOCKS: u32 = 4096;
/// Tasks under way at most: the last of 32 slots is the direct command's.
const DEPTH: usize = 31;

/// What is under way in a slot of the engine.
enum Task {
    /// A request, whose data are the job's own memory.
    Lent(Request),
    /// A request of several I/Os, whose data are gathered.
    Gathered(Request, Memory),
    /// A flush, for all who asked for one by then.
    Flush(Vec<Io>),
}

/// The front end.
pub struct Cqe<H: Host, const N: usize> {
    /// The engine.
    pub stack: Stack<(NoLock, H, Profile), N>,
    elevator: Elevator,
    worker: Thread,
    runs: bool,
    kicked: bool,
    flushes: Vec<Io>,
    /// One is under way.
    flushing: bool,
    /// The card has a cache, so that the block layer passes flushes on.
    has_cache: bool,
    depth: usize,
    in_flight: usize,
    taken: Option<Request>,
    slots: [Option<(SlotId, Task)>; N],
    finished: VecDeque<(Task, bool)>,
    spare: Vec<Memory>,
    max_bytes: usize,
    timer: u64,
    timer_ns: u64,
}

impl<H: Host, const N: usize> Cqe<H, N> {
    /// Sets it up on a machine: a card's queue of so many tasks, requests of so many bytes at most.
    pub fn new(
        stack: Stack<(NoLock, H, Profile), N>,
        elevator: Elevator,
        depth: u8,
        max_bytes: usize,
        sys: &mut System,
    ) -> Self {
        Cqe {
            stack,
            elevator,
            worker: sys.cpu.spawn(Priority::Normal),
            runs: false,
            kicked: false,
            flushes: Vec::new(),
            flushing: false,
            has_cache: false,
            depth: usize::from(depth).min(DEPTH).min(N - 1),
            in_flight: 0,
            taken: None,
            slots: std::array::from_fn(|_| None),
            finished: VecDeque::new(),
            spare: Vec::new(),
            max_bytes,
            timer: 0,
            timer_ns: u64::MAX,
        }
    }

    /// The card has a cache that is on.
    #[must_use]
    pub fn with_cache(self, has_cache: bool) -> Self {
        Cqe { has_cache, ..self }
    }

    /// What the block layer counted of its requests.
    pub fn disk(&self) -> DiskUse {
        self.elevator.disk()
    }

    fn kick(&mut self, sys: &mut System, core: u8) {
        if std::mem::replace(&mut self.runs, true) {
            self.kicked = true;
        } else {
            sys.hop(self.worker, core, Step::Take);
        }
    }

    /// Nothing can be taken: the worker sleeps, unless it was kicked meanwhile.
    fn rest(&mut self, sys: &mut System) {
        if std::mem::take(&mut self.kicked) {
            sys.go_on(self.worker, 0, Step::Take);
        } else {
            self.runs = false;
        }
    }

    /// A request's data for the engine.
    fn task(&mut self, sys: &mut System, request: Request) -> (DmaBuf, Task) {
        if let [io] = request.ios[..] {
            return (sys.buffers.lend(io.buffer), Task::Lent(request));
        }
        let mut memory = self.spare.pop().unwrap_or_else(|| Memory::new(self.max_bytes));
        memory.gather(sys, &request);
        let piece = memory.piece.take().unwrap_or(DmaBuf::EMPTY);
        (piece, Task::Gathered(request, memory))
    }

    /// Hands something to the engine.
    fn enter(&mut self, sys: &mut System, kind: Kind, buf: DmaBuf, task: Task) {
        match self.stack.with(|e| e.submit(Asked::new(kind, buf), sys.time.now())) {
            Ok(id) => self.slots[id.index()] = Some((id, task)),
            Err((_, request)) => self.end(sys, task, request.buf, false),
        }
        match self.stack.with(|e| e.next_deadline_ns()) {
            Some(0) => {
                let work = self.stack.with(|e| e.poll(sys.time.now()));
                self.handle(sys, work);
            }
            later => self.set_timer(sys, later),
        }
    }

    /// A task is over: its memory goes back, and a soft interrupt completes it.
    fn end(&mut self, sys: &mut System, task: Task, buf: DmaBuf, ok: bool) {
        sys.time.charge(sys.costs.done_ns);
        let task = match task {
            Task::Lent(request) => {
                sys.buffers.restore(request.ios[0].buffer, buf);
                Task::Lent(request)
            }
            Task::Gathered(request, mut memory) => {
                memory.scatter(sys, &request, ok, buf);
                self.spare.push(memory);
                Task::Lent(request)
            }
            flush @ Task::Flush(_) => flush,
        };
        self.finished.push_back((task, ok));
        sys.defer(sys.irq_core, sys.costs.softirq_ns, Step::Complete);
    }

    fn handle(&mut self, sys: &mut System, mut work: PollOutcome) {
        loop {
            let mut bits = work.completed;
            while bits != 0 {
                let index = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some((id, task)) = self.slots[index].take() else { continue };
                if let Some(completion) = self.stack.with(|e| e.take(id)) {
                    self.end(sys, task, completion.buf, completion.result.is_ok());
                }
            }
            if !work.deferred {
                break;
            }
            work = self.stack.with(|e| e.poll(sys.time.now()));
        }
        self.set_timer(sys, work.next_deadline_ns);
    }

    /// One timer, which is never set later: if it goes off too early, it is set again then.
    fn set_timer(&mut self, sys: &mut System, deadline_ns: Option<u64>) {
        let Some(at_ns) = deadline_ns.filter(|&at| at > 0 && at < self.timer_ns) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(self.timer));
    }

    /// The worker runs: a flush goes first, and one at a time.
    fn take(&mut self, sys: &mut System) {
        self.kicked = false;
        let price_ns = sys.costs.dispatch_ns + sys.costs.prep_ns;
        if !self.flushes.is_empty() && !self.flushing {
            self.flushing = true;
            return sys.go_on(self.worker, price_ns, Step::Prepared);
        }
        if self.in_flight >= self.depth {
            return self.rest(sys);
        }
        match self.elevator.dispatch(sys.time.now()) {
            Some(request) => {
                self.in_flight += 1;
                sys.taken(&request.ios);
                self.taken = Some(request);
                sys.go_on(self.worker, price_ns, Step::Prepared);
            }
            None => self.rest(sys),
        }
    }

    /// What the worker took is ready for the engine.
    fn prepared(&mut self, sys: &mut System) {
        sys.lock();
        match self.taken.take() {
            Some(request) => {
                let (lba, blocks) = (request.lba, request.blocks);
                let kind = match request.direction {
                    Direction::Read => Kind::Read { lba, blocks },
                    Direction::Write => Kind::Write { lba, blocks },
                };
                let (buf, task) = self.task(sys, request);
                self.enter(sys, kind, buf, task);
            }
            None => {
                let ios = std::mem::take(&mut self.flushes);
                sys.taken(&ios);
                self.enter(sys, Kind::Flush, DmaBuf::EMPTY, Task::Flush(ios));
            }
        }
        sys.unlock();
        sys.go_on(self.worker, 0, Step::Take);
    }

    /// A soft interrupt completes what is over, and has the worker look for more.
    fn complete(&mut self, sys: &mut System, core: u8) {
        match self.finished.pop_front() {
            Some((Task::Flush(ios), ok)) => {
                self.flushing = false;
                ios.iter().for_each(|io| sys.complete(*io, ok));
            }
            Some((Task::Lent(request) | Task::Gathered(request, _), ok)) => {
                self.in_flight -= 1;
                request.ios.iter().for_each(|io| sys.complete(*io, ok));
                self.elevator.completed(request, sys.time.now());
            }
            None => return,
        }
        if !self.elevator.is_empty() || !self.flushes.is_empty() {
            self.kick(sys, core);
        }
    }
}

impl<H: Host, const N: usize> Front for Cqe<H, N> {
    fn submit(&mut self, sys: &mut System, io: Io) {
        if io.blocks == 0 && !self.has_cache {
            return sys.complete(io, true);
        }
        if io.blocks == 0 {
            self.flushes.push(io);
            return self.kick(sys, io.core);
        }
        if self.elevator.insert(io, sys.time.now()) {
            self.kick(sys, io.core);
        }
    }

    fn irq(&mut self, sys: &mut System) {
        let work = self.stack.with(|e| e.on_irq(sys.time.now()));
        self.handle(sys, work);
    }

    fn act(&mut self, sys: &mut System, step: Step, core: u8) {
        match step {
            Step::Take => self.take(sys),
            Step::Prepared => self.prepared(sys),
            Step::Complete => self.complete(sys, core),
            _ => {}
        }
    }

    fn timer(&mut self, sys: &mut System, number: u64) {
        if number != self.timer {
            return;
        }
        self.timer_ns = u64::MAX;
        match self.stack.with(|e| e.next_deadline_ns()) {
            Some(at_ns) if at_ns <= sys.time.now() => {
                let work = self.stack.with(|e| e.poll(sys.time.now()));
                self.handle(sys, work);
            }
            later => self.set_timer(sys, later),
        }
    }
}

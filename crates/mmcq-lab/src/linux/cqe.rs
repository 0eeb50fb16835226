//! Model of Linux's driver for a card's command queue, on a controller with a CQHCI engine
//! (`cqhci`). The worker thread takes requests out of the scheduler. It hands each to the CQHCI
//! engine as a task, while the engine has a free slot. The interrupt that reports finished tasks
//! raises a soft interrupt, which completes them and wakes the worker for the next ones. A flush is
//! the engine's direct command.
//!
//! The tasks go through the part of mmcq that drives queue engines. This part merges nothing here:
//! the scheduler has already merged what it could.

use super::elevator::{DiskUse, Elevator, Request};
use super::port::Memory;
use super::split::Split;
use crate::platform::Profile;
use crate::system::{Event, Front, Io, Step, System};
use mmcq::board::NoLock;
use mmcq::engine::{DmaBuf, Kind, PollOutcome, Request as Asked, SlotId};
use mmcq::host::{Direction, Host};
use mmcq::task::Stack;
use mmcq_sim::cpu::{Priority, Thread};
use std::collections::VecDeque;

/// Pause between two status polls of the CQHCI engine, in clocks of the engine's timer. This is the
/// controller's reset value, which Linux does not change.
pub const POLL_CLOCKS: u32 = 4096;
/// Largest number of tasks that the driver has in the CQHCI engine: 31 of the 32 slots. The last
/// slot belongs to the direct command.
const DEPTH: usize = 31;

/// Work that is under way in one slot of mmcq's engine.
enum Task {
    /// A request of a single I/O that was not split; its data stay in the memory of the job.
    Lent(Request),
    /// A request of several I/Os, or of pieces of a split I/O; their data are gathered in one
    /// buffer.
    Gathered(Request, Memory),
    /// A flush of the card's cache, for all I/Os that had asked for a flush when it began.
    Flush(Vec<Io>),
}

/// Model of Linux's block driver in front of mmcq's engine.
pub struct Cqe<H: Host, const N: usize> {
    /// mmcq's engine, with the host driver.
    pub stack: Stack<(NoLock, H, Profile), N>,
    elevator: Elevator,
    split: Split,
    worker: Thread,
    runs: bool,
    kicked: bool,
    flushes: Vec<Io>,
    /// Whether a flush of the card's cache is under way.
    flushing: bool,
    /// Whether the card has a cache. Only then does the block layer pass flushes on to the driver.
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
    /// Makes the driver on the machine `sys`. `depth`: number of tasks that the card's queue can
    /// hold; `max_bytes`: size of the largest request.
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
            split: Split::default(),
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

    /// Sets whether the card has a cache that is switched on.
    #[must_use]
    pub fn with_cache(self, has_cache: bool) -> Self {
        Cqe { has_cache, ..self }
    }

    /// Returns the statistics of the block layer.
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

    /// Ends a turn of the worker in which it can send nothing. If the worker was woken during its
    /// turn, it asks the scheduler for work again; otherwise it sleeps.
    fn rest(&mut self, sys: &mut System) {
        if std::mem::take(&mut self.kicked) {
            sys.go_on(self.worker, 0, Step::Take);
        } else {
            self.runs = false;
        }
    }

    /// Turns a request into a task. Returns the buffer that mmcq's engine transfers, and the task.
    fn task(&mut self, sys: &mut System, request: Request) -> (DmaBuf, Task) {
        if let [io] = request.ios[..]
            && !self.split.is_piece(&io)
        {
            return (sys.buffers.lend(io.buffer), Task::Lent(request));
        }
        let mut memory = self.spare.pop().unwrap_or_else(|| Memory::new(self.max_bytes));
        memory.gather(sys, &request);
        let piece = memory.piece.take().unwrap_or(DmaBuf::EMPTY);
        (piece, Task::Gathered(request, memory))
    }

    /// Submits a task to mmcq's engine.
    fn enter(&mut self, sys: &mut System, asked: Asked, task: Task) {
        match self.stack.with(|e| e.submit(asked, sys.time.now())) {
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

    /// Ends a task: gives its memory back, and raises the soft interrupt that completes it. `ok`:
    /// the task ended without an error.
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

    /// Sets the machine's timer to `deadline_ns`, mmcq's next deadline (`None`: there is none). A
    /// set timer is never moved to a later time: if it expires before the deadline, it is set
    /// again.
    fn set_timer(&mut self, sys: &mut System, deadline_ns: Option<u64>) {
        let Some(at_ns) = deadline_ns.filter(|&at| at > 0 && at < self.timer_ns) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(self.timer));
    }

    /// Lets the worker take its next work from the scheduler. A waiting flush goes first; only one
    /// flush is under way at a time.
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

    /// Submits to mmcq's engine the request or the flush that the worker took, when the time of its
    /// preparation has passed.
    fn prepared(&mut self, sys: &mut System) {
        sys.lock();
        match self.taken.take() {
            Some(request) => {
                let (lba, blocks) = (request.lba, request.blocks);
                let kind = match request.direction {
                    Direction::Read => Kind::Read { lba, blocks },
                    Direction::Write => Kind::Write { lba, blocks },
                };
                let durable = request.durable;
                let (buf, task) = self.task(sys, request);
                let asked = Asked::new(kind, buf);
                self.enter(sys, if durable { asked.durable() } else { asked }, task);
            }
            None => {
                let ios = std::mem::take(&mut self.flushes);
                sys.taken(&ios);
                self.enter(sys, Asked::new(Kind::Flush, DmaBuf::EMPTY), Task::Flush(ios));
            }
        }
        sys.unlock();
        sys.go_on(self.worker, 0, Step::Take);
    }

    /// Completes one finished task in the soft interrupt of CPU core `core`. Wakes the worker if
    /// more requests or a flush wait.
    fn complete(&mut self, sys: &mut System, core: u8) {
        match self.finished.pop_front() {
            Some((Task::Flush(ios), ok)) => {
                self.flushing = false;
                ios.iter().for_each(|io| sys.complete(*io, ok));
            }
            Some((Task::Lent(request) | Task::Gathered(request, _), ok)) => {
                self.in_flight -= 1;
                request.ios.iter().for_each(|io| self.split.complete(sys, *io, ok));
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
        if self.split.insert(&mut self.elevator, io, sys.time.now()) {
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

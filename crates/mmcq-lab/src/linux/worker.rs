//! Model of Linux without a software queue. A worker thread takes a request, prepares it, and waits
//! until the previous request has ended. After a write, the worker also polls the card's status.
//! Then it starts the new request, and only then completes the previous one. Each request takes two
//! context switches.

use super::elevator::{DiskUse, Elevator, Request};
use super::split::Split;
use super::{Ended, Port, ready};
use crate::system::{Front, Io, Step, System};
use mmcq::host::Direction;
use mmcq_sim::cpu::{Priority, Thread};
use mmcq_sim::world::Stream;

/// First pause in ns between two polls of the card's status. Each further pause is twice as long,
/// up to [`LAST_PAUSE_NS`].
const FIRST_PAUSE_NS: u64 = 32_000;
const LAST_PAUSE_NS: u64 = 32_768_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// The worker sleeps until the transfer in progress has ended.
    WaitTransfer,
    /// The worker sleeps until the card's status has arrived.
    WaitStatus,
}

/// Work that the worker sends to the card.
enum Work {
    Transfer(Request),
    /// A flush of the card's cache, for all I/Os that had asked for a flush when it began.
    Flush(Vec<Io>),
}

struct Active {
    work: Work,
    over: bool,
    ok: bool,
    pause_ns: u64,
}

/// Model of Linux's worker thread, which sends its requests to the controller through a port.
pub struct Worker<P> {
    /// Port to the controller, by which the worker sends its requests.
    pub port: P,
    elevator: Elevator,
    thread: Thread,
    state: State,
    prepared: Option<Work>,
    /// I/Os that asked for a flush which has not begun.
    flushes: Vec<Io>,
    /// Number of requests that the worker still takes before it handles a flush. When it is 0, the
    /// worker sets it to the number of requests that wait in the scheduler. mq-deadline hands these
    /// out together, so a flush that arrives later comes after them.
    batch: usize,
    /// Whether the card has a cache. Only then does the block layer pass flushes on to the driver.
    has_cache: bool,
    active: Option<Active>,
    finished: Option<Active>,
    status: u32,
    pauses: Stream,
    split: Split,
}

impl<P: Port> Worker<P> {
    /// Makes the worker on the machine `sys`. The seed determines the random pauses between status
    /// polls.
    pub fn new(port: P, elevator: Elevator, sys: &mut System, seed: u64) -> Self {
        let thread = sys.cpu.spawn(Priority::Normal);
        Worker {
            split: Split::default(),
            port,
            elevator,
            thread,
            state: State::Idle,
            prepared: None,
            flushes: Vec::new(),
            batch: 0,
            has_cache: false,
            active: None,
            finished: None,
            status: 0,
            pauses: Stream::new(seed, "status pause"),
        }
    }

    /// Sets whether the card has a cache that is switched on.
    #[must_use]
    pub fn with_cache(self, has_cache: bool) -> Self {
        Worker { has_cache, ..self }
    }

    /// Returns the statistics of the block layer.
    pub fn disk(&self) -> DiskUse {
        self.elevator.disk()
    }

    /// Takes the next request out of the scheduler; `None`: no request waits.
    fn dispatch(&mut self, sys: &System) -> Option<Request> {
        if self.batch == 0 {
            self.batch = self.elevator.waiting();
        }
        let request = self.elevator.dispatch(sys.time.now());
        self.batch = if request.is_some() { self.batch.saturating_sub(1) } else { 0 };
        request
    }

    fn kick(&mut self, sys: &mut System, core: u8) {
        if self.state == State::Idle {
            self.state = State::Running;
            sys.hop(self.thread, core, Step::Take);
        }
    }

    /// Handles the end of the previous request or flush, if there was one. After a write or a
    /// flush, polls the card's status; otherwise starts the prepared work.
    fn over(&mut self, sys: &mut System) {
        let programs = self.active.as_ref().is_some_and(|active| match &active.work {
            Work::Transfer(request) => request.direction == Direction::Write,
            Work::Flush(_) => true,
        });
        if programs {
            sys.lock();
            self.port.status(sys);
            sys.unlock();
            self.state = State::WaitStatus;
        } else {
            self.start(sys);
        }
    }

    fn start(&mut self, sys: &mut System) {
        self.finished = self.active.take();
        if let Some(work) = self.prepared.take() {
            sys.lock();
            match &work {
                Work::Transfer(request) => self.port.transfer(sys, request),
                Work::Flush(_) => self.port.flush(sys),
            }
            sys.unlock();
            self.active = Some(Active { work, over: false, ok: true, pause_ns: FIRST_PAUSE_NS });
        }
        if self.finished.is_some() {
            sys.go_on(self.thread, sys.costs.softirq_ns, Step::Complete);
        } else {
            sys.go_on(self.thread, 0, Step::Take);
        }
    }

    /// Handles the operation that the port reports as finished, and wakes the worker that waits for
    /// it.
    fn ended(&mut self, sys: &mut System, ended: Ended) {
        sys.time.charge(sys.costs.done_ns);
        match (ended, &mut self.active) {
            (Ended::Transfer { ok } | Ended::Flush { ok }, Some(active)) => {
                active.over = true;
                active.ok = ok;
                match self.state {
                    State::WaitTransfer => {
                        self.state = State::Running;
                        sys.wake(self.thread, Step::Finished);
                    }
                    // No thread waits: the work queue handles the completion.
                    State::Idle => self.kick(sys, sys.irq_core),
                    _ => {}
                }
            }
            (Ended::Status(status), _) => {
                self.status = status;
                self.state = State::Running;
                sys.wake(self.thread, Step::Polled);
            }
            (Ended::Transfer { .. } | Ended::Flush { .. }, None) => {}
        }
    }
}

impl<P: Port> Front for Worker<P> {
    fn submit(&mut self, sys: &mut System, io: Io) {
        // Without a cache, completed writes are on the medium, and the block layer does not pass
        // the flush on.
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
        if let Some(ended) = self.port.irq(sys) {
            self.ended(sys, ended);
        }
    }

    fn timer(&mut self, sys: &mut System, number: u64) {
        if let Some(ended) = self.port.timer(sys, number) {
            self.ended(sys, ended);
        }
    }

    fn act(&mut self, sys: &mut System, step: Step, _core: u8) {
        match step {
            Step::Take => {
                let flushes = |active: &Active| !active.over && matches!(active.work, Work::Flush(_));
                if self.active.as_ref().is_some_and(flushes) {
                    // The thread that flushes waits for its end, and prepares no request meanwhile.
                    self.state = State::WaitTransfer;
                } else if !self.flushes.is_empty() && self.batch == 0 {
                    // A flush bypasses the scheduler. It covers the writes that were complete when
                    // it arrived.
                    let ios = std::mem::take(&mut self.flushes);
                    sys.taken(&ios);
                    self.prepared = Some(Work::Flush(ios));
                    sys.go_on(self.thread, sys.costs.dispatch_ns + sys.costs.prep_ns, Step::Prepared);
                } else if let Some(request) = self.dispatch(sys) {
                    sys.taken(&request.ios);
                    self.prepared = Some(Work::Transfer(request));
                    sys.go_on(self.thread, sys.costs.dispatch_ns + sys.costs.prep_ns, Step::Prepared);
                } else if self.active.as_ref().is_some_and(|a| a.over) {
                    self.over(sys);
                } else {
                    self.state = State::Idle;
                }
            }
            Step::Prepared => match &self.active {
                Some(active) if !active.over => self.state = State::WaitTransfer,
                Some(_) => self.over(sys),
                None => self.start(sys),
            },
            Step::Finished => self.over(sys),
            Step::Polled => {
                if ready(self.status) {
                    self.start(sys);
                } else if let Some(active) = &mut self.active {
                    let pause = active.pause_ns + self.pauses.below(active.pause_ns);
                    active.pause_ns = (active.pause_ns * 2).min(LAST_PAUSE_NS);
                    sys.pause(self.thread, pause, Step::Finished);
                }
            }
            Step::Complete => {
                if let Some(done) = self.finished.take() {
                    match done.work {
                        Work::Transfer(request) => {
                            for io in &request.ios {
                                self.split.complete(sys, *io, done.ok);
                            }
                            self.elevator.completed(request, sys.time.now());
                        }
                        Work::Flush(ios) => ios.iter().for_each(|io| sys.complete(*io, done.ok)),
                    }
                }
                sys.go_on(self.thread, 0, Step::Take);
            }
            Step::HostWork => {
                if let Some(ended) = self.port.work(sys) {
                    self.ended(sys, ended);
                }
            }
            _ => {}
        }
    }
}

//! Model of Linux's software queue (mmc_hsq). The queue admits a request while at most two are in
//! flight; this is tested before the new request is counted, so three get in. The interrupt that
//! ends a transfer starts the next one. A soft interrupt completes the request. A work item then
//! takes the next request out of the scheduler.

use super::elevator::{DiskUse, Elevator, Request};
use super::split::Split;
use super::tags::Tags;
use super::{Ended, Port, ready};
use crate::platform::Defer;
use crate::system::{Front, Io, Step, System};
use mmcq::host::Direction;
use mmcq_sim::cpu::{Priority, Thread};
use mmcq_sim::world::Stream;
use std::collections::VecDeque;

/// Number of requests in flight up to which the queue admits one more.
const DEPTH: u32 = 2;
/// Number of slots in the queue, as many as there are tags.
const SLOTS: u32 = 64;
/// Time in ns after which a refused request is tried again although nothing has completed.
const RESOURCE_DELAY_NS: u64 = 3_000_000;
/// First pause in ns between two polls of the card's status while a flush lasts. Each further pause
/// is twice as long, up to [`LAST_PAUSE_NS`].
const FIRST_PAUSE_NS: u64 = 32_000;
const LAST_PAUSE_NS: u64 = 32_768_000;

/// Order in which the queue dispatches its requests to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The queue picks the request whose tag follows the tag of the last request. If no such
    /// request is queued, it picks the one with the lowest tag.
    Tag,
    /// The queue picks the request that arrived first.
    Fifo,
}

/// Settings of Linux's software queue (mmc_hsq).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Order in which the queue dispatches its requests.
    pub order: Order,
    /// Requests that the host driver completes in the thread of its interrupt; the others complete
    /// in the interrupt handler.
    pub defer: Defer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Idle,
    Running,
}

/// A flush in progress, and the I/Os that asked for it. The worker waits for its end.
struct Flushing {
    ios: Vec<Io>,
    /// Whether the flush command was already sent to the card.
    told: bool,
    ok: bool,
    status: u32,
    pause_ns: u64,
}

/// Model of Linux's software queue; it sends its requests to the controller through a port.
pub struct Hsq<P> {
    /// Interface through which the model sends commands to the controller.
    pub port: P,
    settings: Settings,
    elevator: Elevator,
    split: Split,
    tags: Tags,
    worker: (Thread, Worker),
    worker_core: u8,
    kicked: bool,
    irq_thread: Thread,
    retry_thread: Thread,
    retrying: bool,
    /// Whether the worker has taken a refused request again since the last completion. If the queue
    /// refuses that request once more, the worker waits for a completion or for
    /// [`RESOURCE_DELAY_NS`].
    restart: bool,
    /// Requests that were taken out of the scheduler, but refused by the queue. The worker sends
    /// them first when it runs again, and nothing merges into them any more.
    refused: VecDeque<Request>,
    /// Flushes that wait until no request is in flight.
    flushes: Vec<Io>,
    /// The flush in progress, with the I/Os that asked for it; `None`: there is none.
    flushing: Option<Flushing>,
    /// Whether the card has a cache. Only then does the block layer pass flushes on to the driver.
    has_cache: bool,
    taken: Option<(Request, u32)>,
    in_flight: u32,
    slots: Vec<Option<Request>>,
    queued: u32,
    next_tag: Option<u32>,
    fifo: VecDeque<u32>,
    active: Option<u32>,
    result: bool,
    finished: VecDeque<(Request, u32, bool)>,
    timer: u64,
    retries: Stream,
    /// Number of requests that the queue refused.
    pub refusals: u64,
}

impl<P: Port> Hsq<P> {
    /// Makes the model of Linux's software queue on the machine `sys`. The seed determines the
    /// random pauses before retries and the hints by which the block layer searches a free tag.
    pub fn new(port: P, settings: Settings, elevator: Elevator, sys: &mut System, seed: u64) -> Self {
        let worker = sys.cpu.spawn(Priority::Normal);
        let retry_thread = sys.cpu.spawn(Priority::Normal);
        let irq_thread = sys.cpu.spawn(Priority::RealTime);
        let tags = Tags::new(SLOTS, sys.cpu.cores(), &mut Stream::new(seed, "tags"));
        Hsq {
            port,
            settings,
            elevator,
            split: Split::default(),
            tags,
            worker: (worker, Worker::Idle),
            worker_core: 0,
            kicked: false,
            irq_thread,
            retry_thread,
            retrying: false,
            restart: false,
            refused: VecDeque::new(),
            flushes: Vec::new(),
            flushing: None,
            has_cache: false,
            taken: None,
            in_flight: 0,
            slots: (0..SLOTS).map(|_| None).collect(),
            queued: 0,
            next_tag: None,
            fifo: VecDeque::new(),
            active: None,
            result: true,
            finished: VecDeque::new(),
            timer: 0,
            retries: Stream::new(seed, "retry"),
            refusals: 0,
        }
    }

    /// Sets whether the card has a cache that is switched on.
    #[must_use]
    pub fn with_cache(self, has_cache: bool) -> Self {
        Hsq { has_cache, ..self }
    }

    /// Returns the statistics of the block layer.
    pub fn disk(&self) -> DiskUse {
        self.elevator.disk()
    }

    fn kick(&mut self, sys: &mut System, core: u8) {
        if self.worker.1 == Worker::Idle {
            self.worker.1 = Worker::Running;
            self.worker_core = core;
            sys.hop(self.worker.0, core, Step::Take);
        } else {
            self.kicked = true;
        }
    }

    /// Dispatches the next queued request to the controller.
    fn pump(&mut self, sys: &mut System) {
        if self.active.is_some() || self.queued == 0 || self.retrying {
            return;
        }
        let tag = match self.settings.order {
            Order::Tag => self.next_tag,
            Order::Fifo => self.fifo.front().copied(),
        };
        let Some(tag) = tag else { return };
        if self.port.busy() {
            self.retrying = true;
            sys.hop(self.retry_thread, sys.irq_core, Step::Retry);
            return;
        }
        self.fifo.retain(|&t| t != tag);
        if let Some(request) = &self.slots[tag as usize] {
            self.queued -= 1;
            self.active = Some(tag);
            self.port.transfer(sys, request);
        }
    }

    /// Handles the end of a transfer in the interrupt, or hands it to the thread of the interrupt.
    /// `ok`: the transfer succeeded.
    fn ended(&mut self, sys: &mut System, ok: bool) {
        self.result = ok;
        let read = || {
            let request = self.active.and_then(|tag| self.slots[tag as usize].as_ref());
            request.is_some_and(|request| request.direction == Direction::Read)
        };
        let defers = match self.settings.defer {
            Defer::Never => false,
            Defer::Reads => read(),
            Defer::Always => true,
        };
        if defers {
            sys.wake(self.irq_thread, Step::IrqThread);
        } else {
            self.finalize(sys, sys.irq_core);
        }
    }

    /// Ends the transfer that the controller has finished: raises the soft interrupt that completes
    /// its request, on `core`, then starts the next transfer.
    fn finalize(&mut self, sys: &mut System, core: u8) {
        sys.time.charge(sys.costs.done_ns);
        let Some(tag) = self.active.take() else { return };
        if let Some(request) = self.slots[tag as usize].take() {
            self.finished.push_back((request, tag, self.result));
            sys.defer(core, sys.costs.softirq_ns, Step::Complete);
        }
        let following = (tag + 1 < SLOTS && self.slots[tag as usize + 1].is_some()).then_some(tag + 1);
        let lowest = || self.slots.iter().position(Option::is_some).map(|t| t as u32);
        self.next_tag = if self.queued == 0 { None } else { following.or_else(lowest) };
        self.pump(sys);
    }

    /// Handles the operation that the port reports as finished: a transfer, a status poll or a
    /// flush.
    fn heard(&mut self, sys: &mut System, ended: Ended) {
        match (ended, &mut self.flushing) {
            (Ended::Transfer { ok }, _) => self.ended(sys, ok),
            (Ended::Flush { ok }, Some(flushing)) => {
                (flushing.told, flushing.ok) = (true, ok);
                sys.wake(self.worker.0, Step::Finished);
            }
            (Ended::Status(status), Some(flushing)) => {
                flushing.status = status;
                sys.wake(self.worker.0, Step::Polled);
            }
            (Ended::Flush { .. } | Ended::Status(_), None) => {}
        }
    }

    /// Begins a flush, which bypasses the scheduler and the queue, if no request is in flight;
    /// otherwise the next completion tries again. The worker polls the card's status first, since a
    /// write may be reported before the card has ended it.
    fn begin_flush(&mut self, sys: &mut System) {
        if self.in_flight > 0 {
            // Each completion runs the worker again.
            self.worker.1 = Worker::Idle;
            return;
        }
        let ios = std::mem::take(&mut self.flushes);
        sys.taken(&ios);
        let (status, pause_ns) = (0, FIRST_PAUSE_NS);
        self.flushing = Some(Flushing { ios, told: false, ok: true, status, pause_ns });
        self.ask_status(sys);
    }

    fn ask_status(&mut self, sys: &mut System) {
        sys.lock();
        self.port.status(sys);
        sys.unlock();
    }

    /// Continues a flush when the worker runs again: after the command was sent, after a pause, or
    /// after the status has arrived.
    fn go_on_with_flush(&mut self, sys: &mut System) {
        let Some(mut flushing) = self.flushing.take() else { return };
        let status = std::mem::take(&mut flushing.status);
        if status == 0 {
            self.flushing = Some(flushing);
            return self.ask_status(sys);
        }
        if !ready(status) {
            let pause_ns = flushing.pause_ns + self.retries.below(flushing.pause_ns);
            flushing.pause_ns = (flushing.pause_ns * 2).min(LAST_PAUSE_NS);
            self.flushing = Some(flushing);
            return sys.pause(self.worker.0, pause_ns, Step::Finished);
        }
        if flushing.told {
            flushing.ios.iter().for_each(|io| sys.complete(*io, flushing.ok));
            return sys.go_on(self.worker.0, 0, Step::Take);
        }
        flushing.pause_ns = FIRST_PAUSE_NS;
        self.flushing = Some(flushing);
        sys.lock();
        self.port.flush(sys);
        sys.unlock();
    }

    /// Puts a request that the queue refused in front of all waiting requests, and frees its tag.
    /// The worker takes the request again: at once the first time, otherwise after a completion or
    /// [`RESOURCE_DELAY_NS`].
    fn refuse(&mut self, sys: &mut System, request: Request, tag: Option<u32>) {
        self.refusals += 1;
        if let Some(tag) = tag {
            self.tags.put(tag, request.ios[0].core);
        }
        self.refused.push_front(request);
        self.worker.1 = Worker::Idle;
        if std::mem::take(&mut self.kicked) || !self.restart {
            // The work queue runs an item that was queued meanwhile at once, on the same thread.
            self.worker.1 = Worker::Running;
            sys.go_on(self.worker.0, 0, Step::Take);
        } else {
            self.timer += 1;
            sys.queue.push(sys.time.now() + RESOURCE_DELAY_NS, crate::system::Event::Timer(self.timer));
        }
    }
}

impl<P: Port> Front for Hsq<P> {
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
        if let Some(ended) = self.port.irq(sys) {
            self.heard(sys, ended);
        }
    }

    fn act(&mut self, sys: &mut System, step: Step, core: u8) {
        match step {
            Step::Take => {
                self.kicked = false;
                if !self.flushes.is_empty() {
                    return self.begin_flush(sys);
                }
                let request = match self.refused.pop_front() {
                    Some(request) => {
                        self.restart = true;
                        Some(request)
                    }
                    None => self.elevator.dispatch(sys.time.now()),
                };
                match request {
                    Some(request) => {
                        let tag = self.tags.get(self.worker_core);
                        match tag {
                            Some(tag) => {
                                self.taken = Some((request, tag));
                                sys.go_on(self.worker.0, sys.costs.dispatch_ns, Step::Admit);
                            }
                            None => self.refuse(sys, request, None),
                        }
                    }
                    None => self.worker.1 = Worker::Idle,
                }
            }
            Step::Admit => {
                if self.in_flight > DEPTH {
                    if let Some((request, tag)) = self.taken.take() {
                        self.refuse(sys, request, Some(tag));
                    }
                } else {
                    self.in_flight += 1;
                    if let Some((request, _)) = &self.taken {
                        sys.taken(&request.ios);
                    }
                    sys.go_on(self.worker.0, sys.costs.prep_ns, Step::Prepared);
                }
            }
            Step::Prepared => {
                if let Some((request, tag)) = self.taken.take() {
                    sys.lock();
                    self.slots[tag as usize] = Some(request);
                    self.queued += 1;
                    self.next_tag.get_or_insert(tag);
                    self.fifo.push_back(tag);
                    self.pump(sys);
                    sys.unlock();
                }
                sys.go_on(self.worker.0, 0, Step::Take);
            }
            Step::Finished | Step::Polled => self.go_on_with_flush(sys),
            Step::IrqThread => {
                sys.lock();
                self.finalize(sys, core);
                sys.unlock();
            }
            Step::Retry => {
                if self.port.busy() {
                    let pause = sys.costs.retry_ns + self.retries.below(sys.costs.retry_ns / 4 + 1);
                    sys.pause(self.retry_thread, pause, Step::Retry);
                } else {
                    sys.lock();
                    self.retrying = false;
                    self.pump(sys);
                    sys.unlock();
                }
            }
            Step::Complete => {
                if let Some((request, tag, ok)) = self.finished.pop_front() {
                    self.in_flight -= 1;
                    self.tags.put(tag, request.ios[0].core);
                    for io in &request.ios {
                        self.split.complete(sys, *io, ok);
                    }
                    self.elevator.completed(request, sys.time.now());
                    self.restart = false;
                    self.kick(sys, core);
                }
            }
            _ => {}
        }
    }

    fn timer(&mut self, sys: &mut System, number: u64) {
        if let Some(ended) = self.port.timer(sys, number) {
            self.heard(sys, ended);
        }
        if number == self.timer && !self.refused.is_empty() {
            self.kick(sys, sys.irq_core);
        }
    }
}

//! Front end of mmcq's engine without a block layer: jobs submit to the engine directly, and the
//! context that calls the engine picks the next transfer from all pending requests.
//!
//! The board chooses the context that calls the engine ([`Advance`]):
//!
//! - The hard interrupt calls the engine.
//! - The hard interrupt leaves its line masked, and raises a deferred interrupt or wakes a
//!   real-time thread. That context calls the engine and unmasks the line.
//! - No interrupt is used. The first job that would sleep until one of its I/Os is done becomes the
//!   spinner and keeps its core.
//!
//! The spinner polls the controller's status in a loop, calls the engine (also at deadlines), and
//! completes the I/Os of all jobs. It stops when an I/O of its own is done, or when its own time to
//! wait is over. Other jobs that wait in this time sleep. If the spinner stops and has no I/O under
//! way, it wakes one of the jobs whose I/Os are still under way, which becomes the next spinner. If
//! there is no such job, no job polls the controller until a job waits again. A spinner does not
//! yield its core to other threads, so the machine needs a core to spare.

use crate::platform::{Advance, Profile};
use crate::system::{Event, Front, HeldWatch, How, Io, Step, System};
use mmcq::board::NoLock;
use mmcq::engine::{Count, Erase, Error, Kind, PartitionAccess, PollOutcome, Request, SlotId};
use mmcq::host::{Direction, Host};
use mmcq::sched::Origin;
use mmcq::task::{Entry, Stack};
use mmcq_sim::cpu::{Priority, Thread};
use std::collections::VecDeque;

/// Largest number of polls of the controller that a thread makes without interruption when it polls
/// without sleeping. The thread sees what other threads do only after these polls.
const LOOKS_MAX: u64 = 64;

/// Context that calls the engine, and the costs of entering it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// The context (hard interrupt, deferred interrupt or thread) that calls the engine.
    pub advance: Advance,
    /// Time in ns of interrupt entry and exit alone; part of
    /// [`Costs::irq_ns`](crate::system::Costs::irq_ns).
    pub entry_ns: u64,
    /// Time in ns from the hard interrupt to the start of the deferred interrupt (tasklet).
    pub tasklet_ns: u64,
    /// Time in ns of one poll of the controller by a thread or handler that polls it instead of
    /// leaving.
    pub look_ns: u64,
}

/// Boot areas of an eMMC, and how mmcq's engine reaches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Size in bytes of each boot area.
    pub bytes: u64,
    /// Value of PARTITION_CONFIG (EXT_CSD) in which the bits that select a partition are 0.
    pub config: u8,
    /// Longest time in ns that the card may need to switch to another partition.
    pub switch_ns: u64,
}

/// The request that was submitted to the engine last.
#[derive(Clone, Copy)]
struct Newest {
    direction: Direction,
    end: u64,
    /// Number of transfers that the engine had begun before the request was submitted. While the
    /// engine's number is still the same, the request has not started.
    transfers: Count,
}

/// mmcq's engine as the stack that serves the jobs. For each slot of the engine, this struct knows
/// which job waits for the slot's request.
pub struct Ours<H: Host, const N: usize> {
    /// mmcq's engine, with the host driver.
    pub stack: Stack<(NoLock, H, Profile), N>,
    /// For each job, the I/O that it is submitting to the engine.
    entering: Vec<Option<Io>>,
    /// I/Os that wait for a free slot of the engine.
    outside: VecDeque<Io>,
    slots: [Option<(SlotId, Io)>; N],
    finished: VecDeque<Vec<(Io, bool)>>,
    spare: Vec<Vec<(Io, bool)>>,
    thread: Thread,
    thread_runs: bool,
    context: Context,
    /// Whether a hard interrupt has masked the controller's interrupt line, and the context that
    /// calls the engine has not run since.
    noted: bool,
    /// Latest time in ns until which the spinning job spins; `None`: no job spins.
    spinner: Option<u64>,
    /// I/Os that the job which polls the controller (the spinner) will complete next, each with
    /// true if it succeeded.
    spun: Vec<(Io, bool)>,
    /// For each job, the number of its I/Os that are not complete.
    outstanding: Vec<u32>,
    timer_ns: u64,
    timer: u64,
    /// Request that was submitted last, if a contiguous one can still join its transfer.
    newest: Option<Newest>,
    held: HeldWatch,
    /// Boot areas of the card; `None`: jobs cannot read them.
    boot: Option<Boot>,
    /// First error that any request had; `None`: no request failed.
    pub error: Option<Error>,
}

impl<H: Host, const N: usize> Ours<H, N> {
    /// Makes the connection between the jobs of a machine and mmcq's engine. `jobs` is the number
    /// of jobs.
    pub fn new(stack: Stack<(NoLock, H, Profile), N>, sys: &mut System, jobs: u32) -> Self {
        Ours {
            stack,
            entering: vec![None; jobs as usize],
            outside: VecDeque::new(),
            slots: [None; N],
            finished: VecDeque::new(),
            spare: Vec::new(),
            thread: sys.cpu.spawn(Priority::RealTime),
            thread_runs: false,
            context: Context::default(),
            noted: false,
            spinner: None,
            spun: Vec::new(),
            outstanding: vec![0; jobs as usize],
            timer_ns: u64::MAX,
            timer: 0,
            newest: None,
            held: HeldWatch::default(),
            boot: None,
            error: None,
        }
    }

    /// Makes the engine be called from this context instead of the hard interrupt. Call it before
    /// the machine runs.
    pub fn moved_by(mut self, context: Context, sys: &mut System) -> Self {
        self.context = context;
        if context.advance == Advance::Spin {
            sys.mask();
        }
        self
    }

    /// Sets the boot areas from which jobs may read; `None`: there are none. Call it before the
    /// machine runs.
    pub fn with_boot(mut self, boot: Option<Boot>) -> Self {
        self.boot = boot;
        self
    }

    /// Calls the engine by `call`, with the present time in ns. If the engine ended a hold in this
    /// call (a bounded delay of a start, to wait for the rest of a batch), reports the hold to the
    /// log.
    fn tell<R>(&mut self, sys: &mut System, call: impl FnOnce(&mut Entry<'_, H, N, Profile>, u64) -> R) -> R {
        let now_ns = sys.time.now();
        let result = self.stack.with(|e| call(e, now_ns));
        if let Some(log) = &mut sys.held_log
            && let Some(held) = self.held.look(self.stack.with(|e| e.holds()), now_ns)
        {
            log(held);
        }
        result
    }

    /// Returns the kind of erase that a discard uses: discard or trim if the card has one of them,
    /// otherwise an ordinary erase.
    fn discard(&self) -> Erase {
        let kinds = self.stack.with(|e| e.abilities().erase.kinds);
        let known = [Erase::Discard, Erase::Trim].into_iter().find(|how| kinds & how.bit() != 0);
        known.unwrap_or(Erase::Erase)
    }

    /// Returns the partition access that reads this I/O from the boot area with the number `area`.
    fn visit(&self, area: u8, io: &Io) -> PartitionAccess {
        let (config, switch_ns) = self.boot.map_or((0, 0), |boot| (boot.config, boot.switch_ns));
        PartitionAccess {
            config: config | area,
            switch_ns,
            lba: u32::try_from(io.lba).unwrap_or(u32::MAX),
            out: 0,
            reliable: false,
            ask: false,
            back: u16::try_from(io.blocks).unwrap_or(u16::MAX),
        }
    }

    fn enter(&mut self, sys: &mut System, io: Io) {
        let (lba, blocks) = (io.lba, io.blocks);
        let kind = match (io.direction, io.how) {
            _ if blocks == 0 => Kind::Flush,
            (_, How::Boot(area)) => Kind::PartitionAccess(self.visit(area, &io)),
            (_, How::Discard) => Kind::Erase { lba, blocks, how: self.discard() },
            (Direction::Read, _) => Kind::Read { lba, blocks },
            (Direction::Write, _) => Kind::Write { lba, blocks },
        };
        let buf = sys.buffers.lend(io.buffer);
        let client = u8::try_from(io.job).unwrap_or(u8::MAX);
        let request = Request::new(kind, buf).from(Origin { client, sync: io.sync });
        let request = if io.how == How::Durable { request.durable() } else { request };
        let before = self.stack.with(|e| e.stats().transfers);
        let submitted = self.tell(sys, |e, now_ns| e.submit(request, now_ns));
        let transfers = self.stack.with(|e| e.stats().transfers);
        let (direction, end) = (io.direction, lba + u64::from(blocks));
        let goes_on = transfers == before && !matches!(io.how, How::Boot(_));
        self.newest = goes_on.then_some(Newest { direction, end, transfers });
        match submitted {
            Ok(id) => {
                if let Some(place) = self.slots.get_mut(id.index()) {
                    *place = Some((id, io));
                }
            }
            Err((error, request)) => {
                sys.buffers.restore(io.buffer, request.buf);
                if error == Error::Full {
                    self.outside.push_back(io);
                } else {
                    self.error.get_or_insert(error);
                    self.finished.push_back(vec![(io, false)]);
                    sys.defer(sys.irq_core, 0, Step::Complete);
                }
            }
        }
        self.set_timer(sys, self.stack.with(|e| e.next_deadline_ns()));
    }

    /// Takes the completed I/Os of `work` from the engine. They are completed for their jobs later:
    /// by a soft interrupt of this core, or by the job that spins.
    fn handle(&mut self, sys: &mut System, work: PollOutcome, core: u8) {
        if work.completed != 0 {
            sys.time.charge(sys.costs.done_ns);
            let mut list = self.spare.pop().unwrap_or_default();
            let mut bits = work.completed;
            while bits != 0 {
                let index = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let Some((id, io)) = self.slots.get_mut(index).and_then(Option::take) else { continue };
                if let Some(completion) = self.stack.with(|e| e.take(id)) {
                    sys.buffers.restore(io.buffer, completion.buf);
                    if let Err(error) = completion.result {
                        self.error.get_or_insert(error);
                    }
                    list.push((io, completion.result.is_ok()));
                }
            }
            if self.context.advance == Advance::Spin {
                self.spun.append(&mut list);
                self.spare.push(list);
            } else {
                self.finished.push_back(list);
                sys.defer(core, sys.costs.softirq_ns, Step::Complete);
            }
            while self.stack.with(|e| e.slots_in_use()) < N {
                let Some(io) = self.outside.pop_front() else { break };
                self.enter(sys, io);
                if self.stack.with(|e| e.next_deadline_ns()) == Some(0) {
                    self.wake_thread(sys);
                }
            }
        }
        if work.deferred {
            self.wake_thread(sys);
        }
        if !work.deferred {
            self.set_timer(sys, work.next_deadline_ns);
        }
    }

    /// Returns whether an I/O continues the newest request while that request still waits, so that
    /// both share a transfer.
    fn joins(&self, io: &Io) -> bool {
        self.newest.is_some_and(|newest| {
            !matches!(io.how, How::Boot(_))
                && newest.direction == io.direction
                && newest.end == io.lba
                && self.stack.with(|e| e.stats().transfers) == newest.transfers
        })
    }

    fn wake_thread(&mut self, sys: &mut System) {
        if !std::mem::replace(&mut self.thread_runs, true) {
            sys.wake(self.thread, Step::IrqThread);
        }
    }

    /// Handles the hard interrupt if it does not call the engine itself: starts the deferred
    /// interrupt or the thread that calls the engine.
    fn pass_on(&mut self, sys: &mut System) {
        sys.time.charge(self.context.entry_ns);
        match self.context.advance {
            Advance::Tasklet => sys.defer(sys.irq_core, self.context.tasklet_ns, Step::Tasklet),
            _ => self.wake_thread(sys),
        }
    }

    /// Calls the engine from the deferred interrupt or a thread. `interrupt`: the controller has an
    /// event for the engine. The engine also handles a deadline that has passed.
    fn turn(&mut self, sys: &mut System, core: u8, interrupt: bool) {
        // Some hosts may unmap only in a thread: the deferred interrupt leaves the deadline 0 ("at
        // once") to it.
        let first = if self.context.advance == Advance::Tasklet { 1 } else { 0 };
        let mut work = PollOutcome::default();
        if interrupt {
            work = self.tell(sys, |e, now_ns| e.on_irq(now_ns));
        } else if self.context.advance != Advance::Spin {
            sys.time.charge(sys.costs.irq_ns.saturating_sub(self.context.entry_ns));
        }
        let next_ns = self.stack.with(|e| e.next_deadline_ns());
        if next_ns.is_some_and(|at| (first..=sys.time.now()).contains(&at)) {
            let before = work.completed;
            work = self.tell(sys, |e, now_ns| e.poll(now_ns));
            work.completed |= before;
        } else if !interrupt {
            work.next_deadline_ns = next_ns;
        }
        self.handle(sys, work, core);
    }

    /// Calls the engine from the deferred interrupt or the thread, on the CPU core `core`. If a
    /// hard interrupt came before, unmasks its line afterwards.
    fn turn_noted(&mut self, sys: &mut System, core: u8) {
        sys.lock();
        let noted = std::mem::take(&mut self.noted);
        self.turn(sys, core, noted);
        if noted {
            sys.unmask();
        }
        sys.unlock();
    }

    /// Handles a poll of the controller by the spinning job with the number `job`, on the CPU core
    /// `core`.
    fn look(&mut self, sys: &mut System, job: u32, core: u8) {
        let mut list = std::mem::take(&mut self.spun);
        self.complete(sys, &mut list);
        self.spun = list;
        let thread = sys.job_thread(job);
        let until_ns = self.spinner;
        if sys.has_completions(job) || until_ns.is_some_and(|at| at <= sys.time.now()) {
            return self.leave(sys, job);
        }
        let deadline_ns = self.stack.with(|e| e.next_deadline_ns());
        if sys.line.up || deadline_ns.is_some_and(|at| at <= sys.time.now()) {
            sys.lock();
            self.turn(sys, core, sys.line.up);
            sys.unlock();
            let cost = if self.spun.is_empty() { self.context.look_ns } else { sys.costs.softirq_ns };
            return sys.go_on(thread, cost.max(1), Step::Look(job));
        }
        // Polls that cannot see anything new are done in one step. If no event is to come at all,
        // the spinner stops, or it would spin for ever.
        let next_ns = [sys.line.next_ns, deadline_ns, until_ns].into_iter().flatten().min();
        if let Some(next_ns) = next_ns.or_else(|| sys.queue.next_ns()) {
            let look_ns = self.context.look_ns.max(1);
            let looks = next_ns.saturating_sub(sys.time.now()).div_ceil(look_ns).clamp(1, LOOKS_MAX);
            sys.go_on(thread, looks * look_ns, Step::Look(job));
        }
    }

    /// Ends the spinning of this job: an I/O of the job is done, or its time to wait is over. If
    /// the job has no other I/O under way, another waiting job is woken to poll.
    fn leave(&mut self, sys: &mut System, job: u32) {
        self.spinner = None;
        let jobs = self.outstanding.len() as u32;
        if self.outstanding[job as usize] == 0 {
            let next = (1..jobs)
                .map(|n| (job + n) % jobs)
                .find(|&other| self.outstanding[other as usize] > 0 && sys.sleeps(other));
            if let Some(next) = next {
                sys.rouse(next);
            }
        }
        sys.submitted(job);
    }

    fn complete(&mut self, sys: &mut System, list: &mut Vec<(Io, bool)>) {
        for (io, ok) in list.drain(..) {
            self.outstanding[io.job as usize] -= 1;
            sys.complete(io, ok);
        }
    }

    /// Sets the machine's timer to `deadline_ns`, the engine's next deadline (`None`: there is
    /// none). A set timer is never moved to a later time: if it expires before the deadline, it is
    /// set again.
    fn set_timer(&mut self, sys: &mut System, deadline_ns: Option<u64>) {
        if self.context.advance == Advance::Spin {
            return;
        }
        let Some(at_ns) = deadline_ns.filter(|&at| at < self.timer_ns && at > 0) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(self.timer));
    }
}

impl<H: Host, const N: usize> Front for Ours<H, N> {
    fn submit(&mut self, sys: &mut System, io: Io) {
        self.entering[io.job as usize] = Some(io);
        self.outstanding[io.job as usize] += 1;
        // With Linux's costs, dispatching and preparing is paid once for a transfer, however many
        // requests are merged into it. With mmcq's own costs, each request pays.
        let paid = sys.costs.dispatch_ns > 0 && self.joins(&io);
        let price_ns = if paid { 0 } else { sys.costs.dispatch_ns + sys.costs.prep_ns };
        sys.go_on(sys.job_thread(io.job), price_ns, Step::Submit(io.job));
    }

    fn irq_locks(&self) -> bool {
        self.context.advance == Advance::Irq
    }

    fn waits(&mut self, sys: &mut System, job: u32, until_ns: Option<u64>) -> bool {
        let looks = self.context.advance == Advance::Spin
            && self.outstanding[job as usize] > 0
            && self.spinner.is_none();
        if looks {
            self.spinner = Some(until_ns.unwrap_or(u64::MAX));
            sys.go_on(sys.job_thread(job), self.context.look_ns, Step::Look(job));
        }
        looks
    }

    fn irq(&mut self, sys: &mut System) {
        if self.context.advance != Advance::Irq {
            sys.mask();
            self.noted = true;
            return self.pass_on(sys);
        }
        let work = self.tell(sys, |e, now_ns| e.on_irq(now_ns));
        self.handle(sys, work, sys.irq_core);
    }

    fn act(&mut self, sys: &mut System, step: Step, core: u8) {
        match step {
            Step::Submit(job) => {
                if let Some(io) = self.entering[job as usize].take() {
                    sys.lock();
                    self.enter(sys, io);
                    // A flush with nothing to do ends at once.
                    if self.stack.with(|e| e.next_deadline_ns()) == Some(0) {
                        let work = self.tell(sys, |e, now_ns| e.poll(now_ns));
                        self.handle(sys, work, core);
                    }
                    sys.unlock();
                }
                sys.submitted(job);
            }
            Step::IrqThread => {
                self.thread_runs = false;
                if self.context.advance == Advance::Thread {
                    return self.turn_noted(sys, core);
                }
                sys.lock();
                let work = self.tell(sys, |e, now_ns| e.poll(now_ns));
                self.handle(sys, work, core);
                sys.unlock();
            }
            Step::Tasklet => self.turn_noted(sys, core),
            Step::Look(job) => self.look(sys, job, core),
            Step::Complete => {
                if let Some(mut list) = self.finished.pop_front() {
                    self.complete(sys, &mut list);
                    self.spare.push(list);
                }
            }
            _ => {}
        }
    }

    fn timer(&mut self, sys: &mut System, number: u64) {
        if number != self.timer {
            return;
        }
        self.timer_ns = u64::MAX;
        match self.stack.with(|e| e.next_deadline_ns()) {
            Some(at) if at > 0 && at <= sys.time.now() && self.context.advance != Advance::Irq => {
                self.pass_on(sys);
            }
            Some(at) if at > 0 && at <= sys.time.now() => {
                sys.time.charge(sys.costs.irq_ns);
                let work = self.tell(sys, |e, now_ns| e.poll(now_ns));
                self.handle(sys, work, sys.irq_core);
            }
            later => self.set_timer(sys, later),
        }
    }
}

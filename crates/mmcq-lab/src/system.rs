//! A running machine: its event loop, its CPU, its jobs, and the stack that serves them.

mod costs;
mod held;
mod workload;

pub use costs::{Costs, SleepDepth};
pub(crate) use held::HeldWatch;
pub use held::{Held, HeldLog};
pub use workload::{Io, Next, Workload};

use crate::buffers::Buffers;
pub use crate::fio::script::How;
use mmcq::host::Direction;
use mmcq_sim::cpu::{Cpu, CpuEvent, Priority, Thread};
use mmcq_sim::time::Time;
use mmcq_sim::world::{Device, Queue, Stream};

/// One step of the stack that serves the jobs, or of the code around it ([`Front`]). The CPU first
/// spends the step's cost in time; then the step is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The block layer's worker takes a request from the scheduler.
    Take,
    /// The driver admits the taken request, or refuses it.
    Admit,
    /// The worker has prepared the taken request (built its commands and mapped its memory).
    Prepared,
    /// The worker was informed of the end of the previous transfer.
    Finished,
    /// The card's response to a status poll (CMD13) has arrived.
    Polled,
    /// The block layer completes finished requests.
    Complete,
    /// The stack tries a transfer again that the busy controller refused.
    Retry,
    /// The threaded half of the interrupt handler runs.
    IrqThread,
    /// The deferred half of the interrupt handler runs.
    Tasklet,
    /// The work item of the host driver runs. Only some drivers have one; it then does all their
    /// work.
    HostWork,
    /// A spinning job polls the controller.
    Look(u32),
    /// A job's I/O is prepared, and the job passes it to the stack.
    Submit(u32),
}

/// What a thread or a soft interrupt does when its CPU cost has been spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A job takes its completed I/Os, at the end of its system calls.
    Reap(u32),
    /// A job submits its next I/O, or waits.
    Next(u32),
    /// A step of the stack that serves the jobs, as [`Front::act`] executes it.
    Step(Step),
}

/// An event of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An event of the CPU.
    Cpu(CpuEvent),
    /// The controller's interrupt reaches the core that handles it.
    Irq,
    /// A timer of the front end ([`Front`], the model of a stack) has expired. The field is the
    /// timer's number: if a newer timer was set, the event is outdated.
    Timer(u64),
    /// The sleep of the job with this number is over.
    Alarm(u32),
}

impl From<CpuEvent> for Event {
    fn from(event: CpuEvent) -> Self {
        Event::Cpu(event)
    }
}

/// Front end: a stack with its environment. It receives I/Os, interrupts and timers.
pub trait Front {
    /// Submits an I/O of a job to the stack, in the job's own context.
    fn submit(&mut self, sys: &mut System, io: Io);

    /// Handles the controller's interrupt, in interrupt context.
    fn irq(&mut self, sys: &mut System);

    /// Executes on this core a step of the stack's code, after the step's CPU cost has been spent.
    fn act(&mut self, sys: &mut System, step: Step, core: u8);

    /// Handles the timer `number` of this stack or its environment, whose time has come. Called in
    /// interrupt context.
    fn timer(&mut self, sys: &mut System, number: u64) {
        let _ = (sys, number);
    }

    /// Called when the job with the number `job` has nothing to do until one of its I/Os is done,
    /// or until `until_ns`. Returns true if the job must stay awake; the front end has then given
    /// it a step to execute.
    fn waits(&mut self, sys: &mut System, job: u32, until_ns: Option<u64>) -> bool {
        let _ = (sys, job, until_ns);
        false
    }

    /// Returns whether the interrupt handler of this stack takes the stack's lock.
    fn irq_locks(&self) -> bool {
        true
    }
}

/// Time in ns between the starts of two job threads: fio releases one after the other, by a system
/// call each.
const RELEASE_NS: u64 = 10_000;

/// Machine without the stack: CPU, virtual time, costs, memory and events.
pub struct System {
    /// Queue of future events, in the order of their times.
    pub queue: Queue<Event>,
    /// CPU of the machine: its cores and threads.
    pub cpu: Cpu<Action>,
    /// Virtual time that the running code has reached.
    pub time: Time,
    /// CPU costs of the software around the stack, such as system calls, interrupts and wake-ups.
    pub costs: Costs,
    /// Random stream for the delays of kernel threads that are woken.
    pub wakes: Stream,
    /// Random stream for the delays between queueing a work item and its start.
    pub hops: Stream,
    /// Core that handles the controller's interrupt.
    pub irq_core: u8,
    /// Memory with the data of the I/Os.
    pub buffers: Buffers,
    /// State of the controller's interrupt line before the code that runs now (a job, the stack,
    /// or an interrupt handler).
    pub line: Line,
    /// Function that is called at each submission of an I/O, and at each completion; `None`: no
    /// function is called.
    pub log: Option<IoLog>,
    /// Function that is called when the driver takes an I/O from the scheduler; `None`: no function
    /// is called.
    pub driver_log: Option<DriverLog>,
    /// Function that is called when a hold ends; `None`: no function is called. In a hold the
    /// engine delays a start for a bounded time, to wait for the rest of a batch.
    pub held_log: Option<HeldLog>,
    heard_from_ns: u64,
    job_wakes: Stream,
    users: Stream,
    jobs: Vec<JobThread>,
    done: Vec<(Io, bool)>,
    locked_until_ns: u64,
}

/// Function that is called with an I/O, its result, and the time in ns. The result is `None` at the
/// submission; at the completion it is true for success and false for an error.
pub type IoLog = Box<dyn FnMut(&Io, Option<bool>, u64)>;

/// Function that is called with an I/O that the driver has taken, and the time in ns.
pub type DriverLog = Box<dyn FnMut(&Io, u64)>;

/// State of the controller's interrupt line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Whether the interrupt line is asserted.
    pub up: bool,
    /// Time in ns of the controller's next event; `None`: no event is planned.
    pub next_ns: Option<u64>,
}

struct JobThread {
    thread: Thread,
    asleep: bool,
    asleep_since_ns: u64,
    /// I/O that the job has prepared and will submit next; `None`: none is prepared.
    pinned: Option<Io>,
    done: Vec<(Io, bool)>,
}

impl System {
    /// Adds `log` to the log of I/Os: a function that is already set is called first, then `log`.
    pub fn also_tell(&mut self, mut log: IoLog) {
        let mut before = self.log.take();
        self.log = Some(Box::new(move |io, result, now_ns| {
            if let Some(before) = &mut before {
                before(io, result, now_ns);
            }
            log(io, result, now_ns);
        }));
    }

    /// Makes a machine with this number of cores, and one thread for each job. `migration`:
    /// probability, 0 to 1, that the search for a woken thread's core begins at a random core and
    /// not at the thread's last one.
    pub fn new(time: Time, cores: u8, migration: f64, costs: Costs, jobs: u32, seed: u64) -> Self {
        let mut cpu = Cpu::new(cores, migration, seed);
        let mut job = || JobThread {
            thread: cpu.spawn(Priority::Normal),
            asleep: true,
            asleep_since_ns: 0,
            pinned: None,
            done: Vec::new(),
        };
        let jobs = (0..jobs).map(|_| job()).collect();
        System {
            queue: Queue::new(),
            cpu,
            time,
            costs,
            wakes: Stream::new(seed, "wake"),
            hops: Stream::new(seed, "hop"),
            irq_core: 0,
            buffers: Buffers::default(),
            line: Line::default(),
            log: None,
            driver_log: None,
            held_log: None,
            heard_from_ns: 0,
            job_wakes: Stream::new(seed, "job wake"),
            users: Stream::new(seed, "user"),
            jobs,
            done: Vec::new(),
            locked_until_ns: 0,
        }
    }

    /// Takes the lock of the stack. The running code spins until the previous holder has released
    /// it.
    pub fn lock(&mut self) {
        self.time.set(self.time.now().max(self.locked_until_ns));
    }

    /// Releases the stack's lock.
    pub fn unlock(&mut self) {
        self.locked_until_ns = self.time.now();
    }

    /// Masks the controller's interrupt at the CPU until [`unmask`](Self::unmask).
    pub fn mask(&mut self) {
        self.heard_from_ns = u64::MAX;
    }

    /// Unmasks the controller's interrupt at the CPU, at the virtual time that the running code has
    /// reached.
    pub fn unmask(&mut self) {
        self.heard_from_ns = self.time.now();
    }

    /// Returns whether the job has completed I/Os that it has not yet taken.
    pub fn has_completions(&self, job: u32) -> bool {
        !self.jobs[job as usize].done.is_empty() || self.done.iter().any(|(io, _)| io.job == job)
    }

    /// Returns whether the job sleeps and nothing has happened yet that will wake it.
    pub fn sleeps(&self, job: u32) -> bool {
        self.jobs[job as usize].asleep && !self.has_completions(job)
    }

    /// Returns the thread of the job with this number.
    pub fn job_thread(&self, job: u32) -> Thread {
        self.jobs[job as usize].thread
    }

    /// Records that the I/O of this job has been submitted, so that the job may go on.
    pub fn submitted(&mut self, job: u32) {
        self.cpu.go_on(self.jobs[job as usize].thread, 0, Action::Next(job));
    }

    /// Completes an I/O with the result `ok`, and wakes its job.
    pub fn complete(&mut self, io: Io, ok: bool) {
        self.note(&io, Some(ok));
        self.done.push((io, ok));
    }

    /// Records that the driver has taken these I/Os from the scheduler. From now on the driver
    /// decides their order.
    pub fn taken(&mut self, ios: &[Io]) {
        if let Some(log) = &mut self.driver_log {
            ios.iter().for_each(|io| log(io, self.time.now()));
        }
    }

    /// Returns for each job the number of context switches of the job's own thread.
    pub fn job_switches(&self) -> Vec<u64> {
        self.jobs.iter().map(|job| self.cpu.switches_of(job.thread)).collect()
    }

    fn note(&mut self, io: &Io, ok: Option<bool>) {
        if let Some(log) = &mut self.log {
            log(io, ok, self.time.now());
        }
    }

    /// Wakes a kernel thread that sleeps; the thread then executes `step`.
    pub fn wake(&mut self, thread: Thread, step: Step) {
        let latency = self.costs.wake.draw(&mut self.wakes);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// Lets a thread sleep for this time in ns and then execute a step.
    pub fn pause(&mut self, thread: Thread, ns: u64, step: Step) {
        let latency = ns + self.costs.wake.draw(&mut self.wakes);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// Wakes the thread of a work queue, preferably on this core. The thread then executes `step`.
    pub fn hop(&mut self, thread: Thread, core: u8, step: Step) {
        let latency = self.costs.hop.draw(&mut self.hops);
        self.cpu.prefer(thread, core);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// Lets the running thread spend a CPU cost and then execute a step.
    pub fn go_on(&mut self, thread: Thread, cost_ns: u64, step: Step) {
        self.cpu.go_on(thread, cost_ns, Action::Step(step));
    }

    /// Raises a soft interrupt on this core, which spends a CPU cost and then executes a step.
    pub fn defer(&mut self, core: u8, cost_ns: u64, step: Step) {
        self.cpu.defer(core, self.time.now(), cost_ns, Action::Step(step), &mut self.queue);
    }

    /// Runs the machine until every job has finished, or until the load ends the run
    /// ([`Workload::is_over`]). Returns the time in ns at the end.
    pub fn run<F: Front>(
        &mut self,
        front: &mut F,
        device: &mut dyn Device,
        workload: &mut dyn Workload,
    ) -> Result<u64, Stuck> {
        let mut running = workload.jobs();
        let (count, bytes) = workload.memory();
        self.buffers.resize(count, bytes);
        self.release(0..running);
        let mut irq_pending = false;
        let masked = u64::MAX;
        let mut end_ns = self.time.now();
        while !workload.is_over() {
            if running == 0 {
                let came = workload.arrived(true);
                if came.is_empty() {
                    break;
                }
                running += came.len() as u32;
                self.release(came);
            }
            let limit = self.queue.next_ns().unwrap_or(u64::MAX);
            let line = Line { up: device.irq(), next_ns: device.next_event_ns() };
            if !irq_pending {
                if !line.up && line.next_ns.is_some_and(|at| at <= limit) {
                    let came = device.advance(limit);
                    end_ns = end_ns.max(came.min(limit));
                    if device.irq() && self.heard_from_ns != masked {
                        self.queue.push(came.max(end_ns).max(self.heard_from_ns), Event::Irq);
                        irq_pending = true;
                    }
                    continue;
                }
                if line.up && self.heard_from_ns != masked {
                    self.queue.push(end_ns.max(self.heard_from_ns), Event::Irq);
                    irq_pending = true;
                    continue;
                }
            }
            let Some((now, event)) = self.queue.pop() else { return Err(Stuck { at_ns: end_ns, running }) };
            end_ns = end_ns.max(now);
            self.time.set(now);
            self.line = line;
            match event {
                Event::Irq | Event::Timer(_) => {
                    let start = self.cpu.interruptible_ns(self.irq_core, now);
                    if start > now {
                        self.queue.push(start, event);
                        continue;
                    }
                    self.cpu.interrupt(self.irq_core);
                    if front.irq_locks() {
                        self.lock();
                    }
                    match event {
                        Event::Timer(number) => front.timer(self, number),
                        _ => {
                            irq_pending = false;
                            front.irq(self);
                        }
                    }
                    if front.irq_locks() {
                        self.unlock();
                    }
                    if self.time.now() > now || event == Event::Irq {
                        self.cpu.interrupted(self.irq_core, now, self.time.now(), &mut self.queue);
                    } else {
                        self.cpu.resume(self.irq_core, now, now, &mut self.queue);
                    }
                }
                Event::Alarm(job) => self.wake_job(job, Action::Next(job)),
                Event::Cpu(event) => {
                    let Some((core, action)) = self.cpu.event(event, now, &mut self.queue) else { continue };
                    match action {
                        Action::Step(step) => front.act(self, step, core),
                        Action::Reap(job) => self.reap(job, workload),
                        Action::Next(job) => {
                            if self.next(job, core, front, workload) {
                                running -= 1;
                                self.wake_sleepers(workload);
                            }
                            let came = workload.arrived(false);
                            running += came.len() as u32;
                            self.release(came);
                        }
                    }
                    self.cpu.resume(core, now, self.time.now(), &mut self.queue);
                }
            }
            self.wake_jobs(workload);
        }
        Ok(end_ns)
    }

    /// Starts these jobs one after the other, at the intervals at which fio releases its threads.
    fn release(&mut self, jobs: impl IntoIterator<Item = u32>) {
        for (nth, job) in (0..).zip(jobs) {
            while self.jobs.len() <= job as usize {
                let thread = self.cpu.spawn(Priority::Normal);
                let (asleep, done) = (true, Vec::new());
                self.jobs.push(JobThread { thread, asleep, asleep_since_ns: 0, pinned: None, done });
            }
            let thread = &mut self.jobs[job as usize];
            thread.asleep = false;
            let latency = nth * RELEASE_NS + self.costs.job_wake.draw(&mut self.job_wakes);
            let first = (0, Action::Next(job));
            self.cpu.wake(thread.thread, self.time.now(), latency, first, &mut self.queue);
        }
    }

    /// Gives the job its completed I/Os; then the job continues with its own work.
    fn reap(&mut self, job: u32, workload: &mut dyn Workload) {
        let thread = &mut self.jobs[job as usize];
        let mut done = std::mem::take(&mut thread.done);
        let others = done.len().saturating_sub(1) as u64;
        for (io, ok) in done.drain(..) {
            workload.done(&io, ok, self.buffers.get(io.buffer), self.time.now());
            self.buffers.release(io.buffer);
        }
        thread.done = done;
        let cost_ns = self.costs.user.draw(&mut self.users) + others * self.costs.each_ns;
        self.cpu.go_on(self.jobs[job as usize].thread, cost_ns, Action::Next(job));
    }

    /// Lets the job submit its next I/Os, sleep, or go on with its completed I/Os, on the CPU core
    /// `core`. Returns true if the job has finished.
    fn next<F: Front>(&mut self, job: u32, core: u8, front: &mut F, workload: &mut dyn Workload) -> bool {
        loop {
            if let Some(io) = self.jobs[job as usize].pinned.take() {
                self.note(&io, None);
                workload.passes(true, self.time.now());
                front.submit(self, io);
                if self.cpu.goes_on(self.jobs[job as usize].thread) {
                    return false;
                }
            }
            let next = workload.next(job, self.time.now());
            let thread = &mut self.jobs[job as usize];
            if !matches!(next, Next::Io(_)) && !thread.done.is_empty() {
                let cost = self.costs.syscall.draw(&mut self.users);
                self.cpu.go_on(thread.thread, cost, Action::Reap(job));
                return false;
            }
            match next {
                Next::Io(mut io) => {
                    io.core = core;
                    io.buffer = self.buffers.acquire();
                    if io.direction == Direction::Write {
                        workload.fill(&io, &mut self.buffers.get_mut(io.buffer)[..io.bytes()]);
                    }
                    let thread = &mut self.jobs[job as usize];
                    thread.pinned = Some(io);
                    let cost_ns = self.costs.pin(&io);
                    if cost_ns > 0 {
                        self.cpu.go_on(thread.thread, cost_ns, Action::Next(job));
                        return false;
                    }
                }
                Next::Wait => {
                    let asleep = !front.waits(self, job, None);
                    self.sleep(job, asleep);
                    return false;
                }
                Next::Until(at_ns) => {
                    let asleep = !front.waits(self, job, Some(at_ns));
                    self.sleep(job, asleep);
                    self.queue.push(at_ns.max(self.time.now()), Event::Alarm(job));
                    return false;
                }
                Next::Finished => return true,
            }
        }
    }

    fn sleep(&mut self, job: u32, asleep: bool) {
        let thread = &mut self.jobs[job as usize];
        (thread.asleep, thread.asleep_since_ns) = (asleep, self.time.now());
    }

    /// Wakes the jobs whose I/Os have just been completed.
    fn wake_jobs(&mut self, workload: &mut dyn Workload) {
        if self.done.is_empty() {
            return;
        }
        let mut done = std::mem::take(&mut self.done);
        for (io, ok) in done.drain(..) {
            workload.passes(false, self.time.now());
            let cost = self.costs.syscall.draw(&mut self.users);
            self.jobs[io.job as usize].done.push((io, ok));
            self.wake_job_with(io.job, cost, Action::Reap(io.job));
        }
        self.done = done;
    }

    /// Wakes the jobs that wait for another job to finish.
    fn wake_sleepers(&mut self, workload: &mut dyn Workload) {
        for job in (0..self.jobs.len() as u32).filter(|&job| workload.waits_for_others(job)) {
            self.wake_job(job, Action::Next(job));
        }
    }

    /// Wakes a sleeping job, which then decides again what to do next.
    pub fn rouse(&mut self, job: u32) {
        self.wake_job(job, Action::Next(job));
    }

    fn wake_job(&mut self, job: u32, action: Action) {
        self.wake_job_with(job, 0, action);
    }

    fn wake_job_with(&mut self, job: u32, cost_ns: u64, action: Action) {
        let thread = &mut self.jobs[job as usize];
        if !std::mem::take(&mut thread.asleep) {
            return;
        }
        let asleep_ns = self.time.now().saturating_sub(thread.asleep_since_ns);
        let latency = self.costs.job_wake.draw(&mut self.job_wakes) + self.costs.depth.extra(asleep_ns);
        self.cpu.wake(thread.thread, self.time.now(), latency, (cost_ns, action), &mut self.queue);
    }
}

/// Error: jobs wait for I/Os, but no event is left, because a completion was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing happens any more at {at_ns} ns, but {running} jobs still wait")]
pub struct Stuck {
    /// Virtual time in ns of the last event. No later event was planned, although jobs waited.
    pub at_ns: u64,
    /// Number of jobs that wait for an I/O which will never complete.
    pub running: u32,
}

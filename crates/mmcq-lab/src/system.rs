//! One machine at work: its event loop, its CPU, its jobs, and the stack that serves them.

use mmcq::host::Direction;
use mmcq_sim::cpu::{Cpu, CpuEvent, Delay, Priority, Thread};
use mmcq_sim::time::Time;
use mmcq_sim::world::{Device, Queue, Stream};

/// One I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Whose.
    pub job: u32,
    /// Which core it was submitted on.
    pub core: u8,
    /// Which way.
    pub direction: Direction,
    /// First block of 512 bytes.
    pub lba: u64,
    /// How many blocks.
    pub blocks: u32,
}

/// Where I/Os come from, and who is told that they are done.
pub trait Workload {
    /// How many jobs, each a thread that waits for its I/O.
    fn jobs(&self) -> u32;

    /// The next I/O of a job; `None`: it has finished. `core` is for [`Io::core`].
    fn next(&mut self, job: u32, core: u8, now_ns: u64) -> Option<Io>;

    /// An I/O of a job is done, well or not.
    fn done(&mut self, io: &Io, ok: bool, now_ns: u64);
}

/// What the software around the stack costs. Each has a name, a unit and a source in the platform's file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Interrupt entry, and the handler up to "the transfer is over".
    pub irq_ns: u64,
    /// Ending a request in the handler.
    pub done_ns: u64,
    /// Starting a request on the controller.
    pub start_ns: u64,
    /// Starting a command without data (a status poll).
    pub poll_ns: u64,
    /// Taking a request out of the scheduler and finding out whether the driver admits it.
    pub dispatch_ns: u64,
    /// Building its commands and mapping its memory.
    pub prep_ns: u64,
    /// Completion in the soft interrupt.
    pub softirq_ns: u64,
    /// A job from its wake-up to its next submission.
    pub user: Delay,
    /// From waking a job to the moment it runs.
    pub job_wake: Delay,
    /// From waking a kernel thread to the moment it runs.
    pub wake: Delay,
    /// From kicking the block layer's worker to the moment it runs.
    pub hop: Delay,
    /// How long a retry of a busy controller sleeps (at least; up to a quarter more).
    pub retry_ns: u64,
}

/// Named steps of a front end, done when their cost has been spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The worker asks the scheduler.
    Take,
    /// The driver admits the request, or not.
    Admit,
    /// The request is prepared.
    Prepared,
    /// The transfer before is known to be over.
    Finished,
    /// The status of the card has come.
    Polled,
    /// The block layer completes.
    Complete,
    /// The controller was busy: try again.
    Retry,
    /// The threaded half of the interrupt handler.
    IrqThread,
    /// A job's I/O is ready to be handed to the stack.
    Submit(u32),
}

/// What a thread or a soft interrupt does when its cost is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A job wakes up with its I/O done (or for the first time).
    Reap(u32),
    /// A job hands out its next I/O.
    Next(u32),
    /// A step of the front end.
    Step(Step),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// In the CPU.
    Cpu(CpuEvent),
    /// The controller's interrupt reaches its core.
    Irq,
    /// A timer of the front end; stale ones carry an old number.
    Timer(u64),
}

impl From<CpuEvent> for Event {
    fn from(event: CpuEvent) -> Self {
        Event::Cpu(event)
    }
}

/// A stack with whatever stands around it: it gets I/Os, interrupts and timers.
pub trait Front {
    /// A job hands an I/O over, in its own context.
    fn submit(&mut self, sys: &mut System, io: Io);

    /// The controller interrupts.
    fn irq(&mut self, sys: &mut System);

    /// A step's cost has been spent, on this core.
    fn act(&mut self, sys: &mut System, step: Step, core: u8);

    /// A timer went off, in interrupt context.
    fn timer(&mut self, sys: &mut System, number: u64) {
        let _ = (sys, number);
    }
}

/// The machine without the stack.
pub struct System {
    /// Events to come.
    pub queue: Queue<Event>,
    /// Cores and threads.
    pub cpu: Cpu<Action>,
    /// The time of whoever runs.
    pub time: Time,
    /// Costs.
    pub costs: Costs,
    /// Draws of wake-ups of kernel threads.
    pub wakes: Stream,
    /// Draws of hops to the worker.
    pub hops: Stream,
    /// Which core takes the controller's interrupt.
    pub irq_core: u8,
    job_wakes: Stream,
    users: Stream,
    threads: Vec<Thread>,
    done: Vec<(Io, bool)>,
    waiting: Vec<Option<(Io, bool)>>,
    locked_until_ns: u64,
}

impl System {
    /// A machine with so many cores, and one thread for each job.
    pub fn new(time: Time, cores: u8, migration: f64, costs: Costs, jobs: u32, seed: u64) -> Self {
        let mut cpu = Cpu::new(cores, migration, seed);
        let threads = (0..jobs).map(|_| cpu.spawn(Priority::Normal)).collect();
        System {
            queue: Queue::new(),
            cpu,
            time,
            costs,
            wakes: Stream::new(seed, "wake"),
            hops: Stream::new(seed, "hop"),
            irq_core: 0,
            job_wakes: Stream::new(seed, "job wake"),
            users: Stream::new(seed, "user"),
            threads,
            done: Vec::new(),
            waiting: vec![None; jobs as usize],
            locked_until_ns: 0,
        }
    }

    /// The running code takes the stack's lock: it spins until the last holder has let go.
    pub fn lock(&mut self) {
        self.time.set(self.time.now().max(self.locked_until_ns));
    }

    /// ... and lets go.
    pub fn unlock(&mut self) {
        self.locked_until_ns = self.time.now();
    }

    /// The job's thread.
    pub fn job_thread(&self, job: u32) -> Thread {
        self.threads[job as usize]
    }

    /// An I/O is complete: its job is woken.
    pub fn complete(&mut self, io: Io, ok: bool) {
        self.done.push((io, ok));
    }

    /// Wakes a kernel thread that sleeps until an event.
    pub fn wake(&mut self, thread: Thread, step: Step) {
        let latency = self.costs.wake.draw(&mut self.wakes);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// A thread sleeps for so long.
    pub fn pause(&mut self, thread: Thread, ns: u64, step: Step) {
        let latency = ns + self.costs.wake.draw(&mut self.wakes);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// Wakes a worker through the work queue, preferably on this core.
    pub fn hop(&mut self, thread: Thread, core: u8, step: Step) {
        let latency = self.costs.hop.draw(&mut self.hops);
        self.cpu.prefer(thread, core);
        self.cpu.wake(thread, self.time.now(), latency, (0, Action::Step(step)), &mut self.queue);
    }

    /// The acting thread spends a cost and then does a step.
    pub fn go_on(&mut self, thread: Thread, cost_ns: u64, step: Step) {
        self.cpu.go_on(thread, cost_ns, Action::Step(step));
    }

    /// Adds a soft interrupt.
    pub fn defer(&mut self, core: u8, cost_ns: u64, step: Step) {
        self.cpu.defer(core, self.time.now(), cost_ns, Action::Step(step), &mut self.queue);
    }

    /// Runs until every job has finished. Returns the time of the end.
    pub fn run<F: Front>(
        &mut self,
        front: &mut F,
        device: &mut dyn Device,
        workload: &mut dyn Workload,
    ) -> Result<u64, Stuck> {
        let mut running = workload.jobs();
        for job in 0..running {
            let thread = self.threads[job as usize];
            let first = (0, Action::Next(job));
            self.cpu.wake(thread, self.time.now(), u64::from(job) * 100, first, &mut self.queue);
        }
        let mut irq_pending = false;
        let mut end_ns = self.time.now();
        while running > 0 {
            let limit = self.queue.next_ns().unwrap_or(u64::MAX);
            if !irq_pending {
                if !device.irq() && device.next_event_ns().is_some_and(|at| at <= limit) {
                    let came = device.advance(limit);
                    end_ns = end_ns.max(came.min(limit));
                    if device.irq() {
                        self.queue.push(came.max(end_ns), Event::Irq);
                        irq_pending = true;
                    }
                    continue;
                }
                if device.irq() {
                    self.queue.push(end_ns, Event::Irq);
                    irq_pending = true;
                    continue;
                }
            }
            let Some((now, event)) = self.queue.pop() else { return Err(Stuck { at_ns: end_ns, running }) };
            end_ns = end_ns.max(now);
            self.time.set(now);
            match event {
                Event::Irq | Event::Timer(_) => {
                    let start = self.cpu.interruptible_ns(self.irq_core, now);
                    if start > now {
                        self.queue.push(start, event);
                        continue;
                    }
                    self.lock();
                    match event {
                        Event::Timer(number) => front.timer(self, number),
                        _ => {
                            irq_pending = false;
                            front.irq(self);
                        }
                    }
                    self.unlock();
                    if self.time.now() > now {
                        self.cpu.interrupted(self.irq_core, now, self.time.now(), &mut self.queue);
                    }
                }
                Event::Cpu(event) => {
                    let Some((core, action)) = self.cpu.event(event, now, &mut self.queue) else { continue };
                    match action {
                        Action::Step(step) => front.act(self, step, core),
                        Action::Reap(job) => {
                            if let Some((io, ok)) = self.waiting[job as usize].take() {
                                workload.done(&io, ok, now);
                            }
                            let cost = self.costs.user.draw(&mut self.users);
                            self.cpu.go_on(self.threads[job as usize], cost, Action::Next(job));
                        }
                        Action::Next(job) => match workload.next(job, core, now) {
                            Some(io) => front.submit(self, io),
                            None => running -= 1,
                        },
                    }
                    self.cpu.resume(core, now, self.time.now(), &mut self.queue);
                }
            }
            while let Some((io, ok)) = self.done.pop() {
                let latency = self.costs.job_wake.draw(&mut self.job_wakes);
                self.waiting[io.job as usize] = Some((io, ok));
                let thread = self.threads[io.job as usize];
                self.cpu.wake(thread, self.time.now(), latency, (0, Action::Reap(io.job)), &mut self.queue);
            }
        }
        Ok(end_ns)
    }
}

/// Nothing more will happen, but jobs still wait: a lost completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nothing happens any more at {at_ns} ns, but {running} jobs still wait")]
pub struct Stuck {
    /// When.
    pub at_ns: u64,
    /// How many jobs.
    pub running: u32,
}

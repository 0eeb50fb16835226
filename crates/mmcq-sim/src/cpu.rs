//! Model of the CPU: cores, priorities, and the cost of switching between contexts.
//!
//! Hard interrupts come before deferred work (softirq, tasklet), deferred work before real-time
//! threads, and these before normal threads. A piece of work first spends its cost, which is a
//! time, and then does its action. An interruption during this time delays the action. Code that
//! cannot be interrupted (an interrupt handler, an action under a lock) acts at once. It charges
//! its time to [`Time`](crate::time::Time), and keeps its core until that time.

use crate::world::{Queue, Stream};
use std::collections::VecDeque;

/// A random latency: a gamma distribution with a coefficient of variation of 1/4. In rare cases an
/// exponential delay (the tail) is added.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// Mean of the gamma distribution in ns.
    pub mean_ns: u64,
    /// Probability, 0 to 1, that the exponential delay (the tail) is added to the gamma
    /// distribution.
    pub tail_share: f64,
    /// Mean in ns of the exponential delay that is added in rare cases.
    pub tail_ns: u64,
}

impl Delay {
    /// Draws a random delay in ns: around the mean, and with some probability much longer.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let tail = stream.chance(self.tail_share);
        let mut ns = if self.mean_ns == 0 { 0.0 } else { self.mean_ns as f64 * stream.gamma16() };
        if tail {
            ns += self.tail_ns as f64 * stream.exponential();
        }
        ns as u64
    }
}

/// Priority of a thread: real-time threads preempt normal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// An ordinary thread, without real-time priority.
    Normal,
    /// A real-time thread (a threaded interrupt handler).
    RealTime,
}

/// Number by which the CPU model identifies a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread(pub u32);

/// An event of the CPU itself; pass it to [`Cpu::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuEvent {
    /// The present work of a core ends. The event has no effect if the core's work has changed
    /// since the event was scheduled.
    End {
        /// Number of the core whose work ends.
        core: u8,
        /// Generation number of the core's work when the event was scheduled. Each change of the
        /// work raises the number.
        generation: u64,
    },
    /// A thread was woken, and its wake-up latency is over: the thread can now get a core.
    Ready(Thread),
}

/// Counters since the CPU was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of hard interrupts.
    pub interrupts: u64,
    /// Number of times that a core switched to another thread than the one that it executed last.
    pub switches: u64,
    /// Number of times that a sleeping thread was woken.
    pub wakeups: u64,
    /// Number of times that a core executed deferred work (a softirq or tasklet).
    pub deferred: u64,
    /// Sum in ns of the busy time of all cores.
    pub busy_ns: u64,
}

/// Context in which a core spends time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// The core is in a hard interrupt.
    Hard,
    /// The core does deferred work.
    Deferred,
    /// The core runs this thread.
    Thread(Thread),
}

/// A time for which a core was in one context. The span of a thread or of deferred work includes
/// the hard interrupts in it, which also have their own spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Number of the core.
    pub core: u8,
    /// Context in which the core was.
    pub context: Context,
    /// Time in ns at which the core entered the context.
    pub from_ns: u64,
    /// Time in ns at which the core left the context.
    pub to_ns: u64,
}

type Log = Box<dyn FnMut(Span)>;

#[derive(Clone, Copy, Debug)]
enum Who {
    Thread(Thread),
    Deferred,
}

#[derive(Clone, Copy, Debug)]
struct Running<A> {
    who: Who,
    start_ns: u64,
    end_ns: u64,
    action: A,
}

struct Core<A> {
    running: Option<Running<A>>,
    /// A thread that holds this core and does not run now, with the cost in ns that the thread
    /// still has to spend, and its next action. Either deferred work or an interrupt came first, or
    /// the action of the thread is over and the thread has further work.
    aside: Option<(Thread, u64, A)>,
    deferred: VecDeque<(u64, A)>,
    blocked_until_ns: u64,
    generation: u64,
    last: Option<Thread>,
    acting: Option<Option<Thread>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    Waking,
    Ready,
    OnCore,
}

struct Task<A> {
    priority: Priority,
    state: State,
    work: Option<(u64, A)>,
    core: u8,
    /// Whether [`Cpu::prefer`] has chosen the core of the thread's next wake-up. Such a thread
    /// takes another core only if that one is not free.
    preferred: bool,
    /// Number of times that the thread gave up its core, to sleep or for a real-time thread.
    switches: u64,
}

/// Model of a CPU; `A` is the type of the actions of its work.
pub struct Cpu<A> {
    cores: Vec<Core<A>>,
    tasks: Vec<Task<A>>,
    ready: [VecDeque<Thread>; 2],
    /// Probability, 0 to 1, that the search for a woken thread's core begins at a random core, and
    /// not at the thread's last one.
    migration: f64,
    stream: Stream,
    counts: Counts,
    /// Whether the choice of the cores can have changed the times of this run. It can if two pieces
    /// of work were present at the same time on any cores, or if an action took time.
    met: bool,
    log: Option<Log>,
}

fn note(log: &mut Option<Log>, core: u8, context: Context, from_ns: u64, to_ns: u64) {
    if let Some(log) = log.as_mut().filter(|_| to_ns > from_ns) {
        log(Span { core, context, from_ns, to_ns });
    }
}

impl Who {
    fn context(self) -> Context {
        match self {
            Who::Thread(thread) => Context::Thread(thread),
            Who::Deferred => Context::Deferred,
        }
    }
}

impl<A: Copy> Cpu<A> {
    /// Makes a CPU with 1 to 64 cores. `migration`: probability, 0 to 1, that the search for a
    /// woken thread's core begins at a random core, and not at the thread's last one.
    pub fn new(cores: u8, migration: f64, seed: u64) -> Self {
        let core = || Core {
            running: None,
            aside: None,
            deferred: VecDeque::new(),
            blocked_until_ns: 0,
            generation: 0,
            last: None,
            acting: None,
        };
        Cpu {
            cores: (0..cores.clamp(1, 64)).map(|_| core()).collect(),
            tasks: Vec::new(),
            ready: Default::default(),
            migration,
            stream: Stream::new(seed, "migration"),
            counts: Counts::default(),
            met: false,
            log: None,
        }
    }

    /// Returns whether another seed could have changed the times. The seed decides only on which
    /// core a woken thread runs. This makes no difference while never two pieces of work are
    /// present at the same time.
    pub fn is_seeded(&self) -> bool {
        self.met && self.draws()
    }

    /// Returns whether the model draws the cores of woken threads at random.
    fn draws(&self) -> bool {
        self.cores.len() > 1 && self.migration > 0.0
    }

    /// Sets `met` if a piece of work begins now while other work is present on any core. An action
    /// that is being executed on core `beside` does not count, since the new work begins after it.
    fn meet(&mut self, beside: Option<u8>, now_ns: u64) {
        let idle = |(number, c): (usize, &Core<A>)| {
            let free = c.running.is_none() && c.aside.is_none();
            let quiet = c.acting.is_none() && c.deferred.is_empty() && c.blocked_until_ns <= now_ns;
            free && (quiet || beside.is_some_and(|beside| usize::from(beside) == number))
        };
        let alone = || self.ready.iter().all(VecDeque::is_empty) && self.cores.iter().enumerate().all(idle);
        self.met = self.met || self.draws() && !alone();
    }

    /// Sets a callback that gets each [`Span`] (core, context, begin and end) from now on; `None`
    /// removes it.
    pub fn set_log(&mut self, log: Option<Log>) {
        self.log = log;
    }

    /// Adds a thread, which sleeps until it is woken.
    pub fn spawn(&mut self, priority: Priority) -> Thread {
        let id = Thread(self.tasks.len() as u32);
        let core = (self.tasks.len() % self.cores.len()) as u8;
        self.tasks.push(Task {
            priority,
            state: State::Asleep,
            work: None,
            core,
            preferred: false,
            switches: 0,
        });
        id
    }

    /// Returns the counters of the CPU, such as interrupts, context switches and busy time.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Returns the number of times that a thread gave up its core, to sleep or for a real-time
    /// thread. An operating system counts these as context switches.
    pub fn switches_of(&self, thread: Thread) -> u64 {
        self.tasks[thread.0 as usize].switches
    }

    /// Returns the core on which a thread is, or was last.
    pub fn core_of(&self, thread: Thread) -> u8 {
        self.tasks[thread.0 as usize].core
    }

    /// Returns the time in ns at which a core can take a hard interrupt that comes at `now_ns`.
    pub fn interruptible_ns(&self, core: u8, now_ns: u64) -> u64 {
        self.cores[core as usize].blocked_until_ns.max(now_ns)
    }

    /// Begins a hard interrupt on a core: work that it raises there waits for the end of the
    /// interrupt. The caller must next call [`Cpu::interrupted`], or [`Cpu::resume`] if there was
    /// no interrupt.
    pub fn interrupt(&mut self, core: u8) {
        // An interrupt does not wait for an action on another core.
        self.meet(None, u64::MAX);
        self.cores[core as usize].acting = Some(None);
    }

    /// Ends a hard interrupt that took a core from `from_ns` to `to_ns`. The work that it
    /// interrupted ends that much later.
    pub fn interrupted<E: From<CpuEvent>>(
        &mut self,
        core: u8,
        from_ns: u64,
        to_ns: u64,
        queue: &mut Queue<E>,
    ) {
        self.counts.interrupts += 1;
        self.counts.busy_ns += to_ns - from_ns;
        note(&mut self.log, core, Context::Hard, from_ns, to_ns);
        let c = &mut self.cores[core as usize];
        c.acting = None;
        c.blocked_until_ns = c.blocked_until_ns.max(to_ns);
        if let Some(running) = &mut c.running {
            running.end_ns += to_ns - from_ns;
            c.generation += 1;
            queue.push(running.end_ns, CpuEvent::End { core, generation: c.generation }.into());
        }
        self.fill(core, to_ns, queue);
    }

    /// Adds deferred work (such as a soft interrupt) to a core, which does it before any thread. It
    /// takes `cost_ns` of CPU time in ns; then `action` is due.
    pub fn defer<E: From<CpuEvent>>(
        &mut self,
        core: u8,
        now_ns: u64,
        cost_ns: u64,
        action: A,
        queue: &mut Queue<E>,
    ) {
        self.counts.deferred += 1;
        self.meet(Some(core), now_ns);
        self.cores[core as usize].deferred.push_back((cost_ns, action));
        self.fill(core, now_ns, queue);
    }

    /// Makes a thread try this core first at its next wake-up, as a worker does that is bound to
    /// the core that woke it.
    pub fn prefer(&mut self, thread: Thread, core: u8) {
        let task = &mut self.tasks[thread.0 as usize];
        task.core = core;
        task.preferred = true;
    }

    /// Gives a thread further work: the thread spends `cost_ns`, and then does `action`. The thread
    /// must be on a core, or its action is being executed now.
    pub fn go_on(&mut self, thread: Thread, cost_ns: u64, action: A) {
        let task = &mut self.tasks[thread.0 as usize];
        debug_assert!(task.state == State::OnCore, "only a thread on a core can go on");
        task.work = Some((cost_ns, action));
    }

    /// Returns whether the thread has further work after the action that it executes now.
    pub fn goes_on(&self, thread: Thread) -> bool {
        self.tasks[thread.0 as usize].work.is_some()
    }

    /// Wakes a sleeping thread, or lets the thread that acts now sleep for `latency_ns`. After
    /// `latency_ns` the thread can get a core, spends its cost and acts.
    pub fn wake<E: From<CpuEvent>>(
        &mut self,
        thread: Thread,
        now_ns: u64,
        latency_ns: u64,
        (cost_ns, action): (u64, A),
        queue: &mut Queue<E>,
    ) {
        let task = &mut self.tasks[thread.0 as usize];
        debug_assert!(task.work.is_none(), "a thread does one thing at a time");
        self.counts.wakeups += 1;
        task.work = Some((cost_ns, action));
        // A thread that wakes itself sleeps from the end of its action on.
        if matches!(task.state, State::Asleep | State::OnCore) {
            task.state = State::Waking;
            queue.push(now_ns + latency_ns, CpuEvent::Ready(thread).into());
        }
    }

    /// Handles an event of the CPU. If it ends a piece of work, returns the core and the action of
    /// that work: the caller must do the action now, on that core, and then call [`Cpu::resume`].
    /// `None`: there is nothing to do.
    pub fn event<E: From<CpuEvent>>(
        &mut self,
        event: CpuEvent,
        now_ns: u64,
        queue: &mut Queue<E>,
    ) -> Option<(u8, A)> {
        match event {
            CpuEvent::Ready(thread) => {
                let core = self.place(thread, now_ns);
                let task = &mut self.tasks[thread.0 as usize];
                task.state = State::Ready;
                self.ready[task.priority as usize].push_back(thread);
                self.fill(core, now_ns, queue);
                None
            }
            CpuEvent::End { core, generation } => {
                let c = &mut self.cores[core as usize];
                if c.generation != generation {
                    return None;
                }
                let running = c.running.take()?;
                note(&mut self.log, core, running.who.context(), running.start_ns, now_ns);
                c.acting = Some(match running.who {
                    Who::Thread(thread) => Some(thread),
                    Who::Deferred => None,
                });
                Some((core, running.action))
            }
        }
    }

    /// Resumes a core after the action that [`Cpu::event`] returned. The action lasted from
    /// `from_ns` to `end_ns`. Events of the core are added to `queue`.
    pub fn resume<E: From<CpuEvent>>(&mut self, core: u8, from_ns: u64, end_ns: u64, queue: &mut Queue<E>) {
        self.counts.busy_ns += end_ns - from_ns;
        // An interrupt waits for the end of an action only on the same core, so the choice of cores
        // matters.
        self.met |= end_ns > from_ns;
        let c = &mut self.cores[core as usize];
        c.blocked_until_ns = c.blocked_until_ns.max(end_ns);
        let acting = c.acting.take();
        let acted = acting.flatten();
        if acting.is_some() {
            let context = acted.map_or(Context::Deferred, Context::Thread);
            note(&mut self.log, core, context, from_ns, end_ns);
        }
        if let Some(thread) = acted {
            let task = &mut self.tasks[thread.0 as usize];
            if task.state == State::Waking {
                // The thread has called `wake` for itself: it sleeps until that wake-up.
                task.switches += 1;
            } else if let Some((cost, action)) = task.work.take() {
                c.aside = Some((thread, cost, action));
            } else {
                task.state = State::Asleep;
                task.switches += 1;
            }
        }
        self.fill(core, end_ns, queue);
    }

    /// Picks the core for a woken thread: its last core if that is free, otherwise another free
    /// core, otherwise its last core. With the probability `migration` the search begins at a
    /// random core instead.
    fn place(&mut self, thread: Thread, now_ns: u64) -> u8 {
        self.meet(None, now_ns);
        let last = self.tasks[thread.0 as usize].core;
        let free = |c: &Core<A>| {
            c.running.is_none() && c.acting.is_none() && c.aside.is_none() && c.blocked_until_ns <= now_ns
        };
        let preferred = std::mem::take(&mut self.tasks[thread.0 as usize].preferred);
        let moves = !preferred && self.cores.len() > 1 && self.stream.chance(self.migration);
        if !moves && free(&self.cores[last as usize]) {
            return last;
        }
        let n = self.cores.len();
        let start = if moves { self.stream.below(n as u64) as usize } else { last as usize };
        let core =
            (0..n).map(|i| (start + i) % n).find(|&i| free(&self.cores[i])).unwrap_or(last as usize) as u8;
        self.tasks[thread.0 as usize].core = core;
        core
    }

    /// Gives a core its next piece of work, and lets a real-time thread preempt a normal one.
    fn fill<E: From<CpuEvent>>(&mut self, core: u8, now_ns: u64, queue: &mut Queue<E>) {
        let Cpu { cores, tasks, ready, counts, log, .. } = self;
        let c = &mut cores[core as usize];
        if c.acting.is_some() {
            return;
        }
        if let Some(running) = c.running {
            let Who::Thread(thread) = running.who else { return };
            let outranked = !c.deferred.is_empty()
                || (tasks[thread.0 as usize].priority == Priority::Normal && !ready[1].is_empty());
            if !outranked {
                return;
            }
            // The cost that the thread has spent so far stays spent; time in which the core was
            // blocked does not count.
            let left = running.end_ns.saturating_sub(now_ns.max(c.blocked_until_ns));
            counts.busy_ns -= left;
            note(log, core, running.who.context(), running.start_ns, now_ns);
            c.running = None;
            c.generation += 1;
            c.aside = Some((thread, left, running.action));
        }
        let start = now_ns.max(c.blocked_until_ns);
        let (who, cost, action) = if let Some((cost, action)) = c.deferred.pop_front() {
            (Who::Deferred, cost, action)
        } else {
            let aside_rt =
                c.aside.as_ref().is_some_and(|(t, ..)| tasks[t.0 as usize].priority == Priority::RealTime);
            let other = if aside_rt { None } else { ready[1].pop_front() };
            let other = match other {
                None if c.aside.is_none() => ready[0].pop_front(),
                found => found,
            };
            let (thread, cost, action) = if let Some(thread) = other {
                if let Some((old, left, action)) = c.aside.take() {
                    let task = &mut tasks[old.0 as usize];
                    task.work = Some((left, action));
                    task.state = State::Ready;
                    task.switches += 1;
                    ready[task.priority as usize].push_front(old);
                }
                let Some((cost, action)) = tasks[thread.0 as usize].work.take() else { return };
                (thread, cost, action)
            } else if let Some(aside) = c.aside.take() {
                aside
            } else {
                return;
            };
            let task = &mut tasks[thread.0 as usize];
            task.state = State::OnCore;
            task.core = core;
            if c.last != Some(thread) {
                counts.switches += 1;
                c.last = Some(thread);
            }
            (Who::Thread(thread), cost, action)
        };
        counts.busy_ns += cost;
        c.running = Some(Running { who, start_ns: start, end_ns: start + cost, action });
        c.generation += 1;
        queue.push(start + cost, CpuEvent::End { core, generation: c.generation }.into());
    }
}

#[cfg(test)]
mod tests;

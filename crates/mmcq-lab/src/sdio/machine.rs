//! Model of the CPU beside the SDIO controller: one core with an interrupt, a tasklet, threads, and
//! a counter that counts only while the CPU is idle.

use super::model::Model;
use super::platform::Costs;
use mmcq_sim::cpu::{Cpu, CpuEvent, Priority, Thread};
use mmcq_sim::time::Time;
use mmcq_sim::world::{Queue, Stream};

/// An event of the simulation: of the CPU, or of another device whose driver also needs the CPU.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// An event of the CPU.
    Cpu(CpuEvent),
    /// Another device has received frames, so that its driver takes the CPU from the measured
    /// stack.
    Thief,
}

impl From<CpuEvent> for Event {
    fn from(event: CpuEvent) -> Self {
        Event::Cpu(event)
    }
}

/// What happens in the machine when the time of a CPU cost has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The stack's tasklet runs.
    Tasklet,
    /// The kernel thread of the stack runs.
    Thread,
    /// The CPU time that driver and user need for one packet has passed.
    Worked,
    /// Another device's driver has ended its tasklet, during which the stack could not use this CPU
    /// core.
    Robbed,
}

/// Code of a stack that the machine calls in the interrupt, the tasklet and the thread. The code
/// charges its CPU costs to the virtual time.
pub trait Handler {
    /// Called when the controller interrupts, in the interrupt handler.
    fn irq(&mut self, m: &mut Machine);
    /// Called in the tasklet after it was raised by [`Machine::defer`].
    fn tasklet(&mut self, m: &mut Machine);
    /// Called in the stack's thread after the thread was woken.
    fn thread(&mut self, m: &mut Machine);
    /// Returns the time in ns at which the machine must call [`alarm`](Handler::alarm) even without
    /// an interrupt; `None`: never.
    fn alarm_ns(&self) -> Option<u64> {
        None
    }
    /// Called when the time that [`alarm_ns`](Handler::alarm_ns) returned has come.
    fn alarm(&mut self, m: &mut Machine) {
        let _ = m;
    }
}

/// Driver of another device that takes the CPU from the measured stack: its tasklet holds the CPU
/// for random times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thief {
    /// Longest time in ns for which the tasklet holds the CPU.
    pub hold_ns: u64,
    /// Mean number of times per second that the tasklet holds the CPU.
    pub per_second: f64,
}

/// A machine of the SDIO experiment: CPU, controller and, if wanted, another device.
pub struct Machine {
    queue: Queue<Event>,
    cpu: Cpu<Action>,
    /// Virtual time at the CPU: code that runs advances it by its costs.
    pub time: Time,
    /// Model of the SDIO controller.
    pub model: Model,
    costs: Costs,
    thread: Thread,
    user: Thread,
    packets_waiting: u64,
    /// Whether the present call of the interrupt handler woke a thread or raised a tasklet.
    raised: bool,
    /// Whether the stack's thread let other threads run, and must run again since it has more to
    /// do.
    yielded: bool,
    masked: bool,
    heard_from_ns: u64,
    wakes: u64,
    thief: Option<(Thief, Stream)>,
}

const CORE: u8 = 0;

impl Machine {
    /// Makes a machine whose virtual time begins at `time`. `thief`: another device whose driver
    /// takes CPU time, if any.
    pub fn new(time: Time, model: Model, costs: Costs, thief: Option<Thief>, seed: u64) -> Self {
        let mut cpu = Cpu::new(1, 0.0, seed);
        let (thread, user) = (cpu.spawn(Priority::RealTime), cpu.spawn(Priority::Normal));
        let mut machine = Machine {
            queue: Queue::new(),
            cpu,
            heard_from_ns: time.now(),
            time,
            model,
            costs,
            thread,
            user,
            packets_waiting: 0,
            raised: false,
            yielded: false,
            masked: false,
            wakes: 0,
            thief: thief.map(|thief| (thief, Stream::new(seed, "thief"))),
        };
        machine.next_theft();
        machine
    }

    /// Reports the CPU's activity to the recorder from now on.
    pub fn watch(&mut self) {
        crate::trace::watch_cpu(self.time.now(), &mut self.cpu, &["sdio thread", "user"]);
    }

    /// Returns for how many ns the CPU was busy so far.
    pub fn busy_ns(&self) -> u64 {
        self.cpu.counts().busy_ns
    }

    /// Returns the number of interrupts that the CPU has handled so far.
    pub fn interrupts(&self) -> u64 {
        self.cpu.counts().interrupts
    }

    /// Returns two counts so far: the wake-ups of the stack's thread, and the context switches of
    /// the CPU.
    pub fn switches(&self) -> (u64, u64) {
        (self.wakes, self.cpu.counts().switches)
    }

    /// Wakes the stack's thread, at the cost of a wake-up.
    pub fn wake(&mut self) {
        self.raised = true;
        self.wakes += 1;
        let cost = (self.costs.wake_ns, Action::Thread);
        self.cpu.wake(self.thread, self.time.now(), 0, cost, &mut self.queue);
    }

    /// Lets other threads run before the stack's thread, which has more to do. This calls the
    /// scheduler, which costs a context switch.
    pub fn yield_now(&mut self) {
        self.yielded = true;
    }

    /// Raises the tasklet, and masks the controller's interrupt until [`listen`](Self::listen).
    pub fn defer(&mut self) {
        self.raised = true;
        self.masked = true;
        let cost = self.costs.tasklet_ns;
        self.cpu.defer(CORE, self.time.now(), cost, Action::Tasklet, &mut self.queue);
    }

    /// Unmasks the controller's interrupt, which [`defer`](Self::defer) masked.
    pub fn listen(&mut self) {
        self.masked = false;
        self.heard_from_ns = self.time.now();
    }

    /// Reports that the stack has received a packet, for which driver and user then need CPU time.
    pub fn packet(&mut self) {
        self.packets_waiting += 1;
        if self.packets_waiting == 1 {
            let cost = (self.costs.work_ns, Action::Worked);
            self.cpu.wake(self.user, self.time.now(), 0, cost, &mut self.queue);
        }
    }

    /// Returns whether the controller's interrupt line is asserted now.
    pub fn line(&self) -> bool {
        self.model.advance(self.time.now());
        self.model.irq()
    }

    /// Polls the controller's interrupt line every `look_ns`, for at most `patience_ns`; the
    /// running code keeps the CPU. Returns true if the line is asserted.
    pub fn spin(&self, patience_ns: u64, look_ns: u64) -> bool {
        if !self.line() {
            let began_ns = self.time.now();
            let came_ns = self.model.advance(began_ns + patience_ns).max(began_ns);
            // The spinning code sees the line at its next poll.
            let look_ns = look_ns.max(1);
            self.time.set(began_ns + (came_ns - began_ns).div_ceil(look_ns) * look_ns);
        }
        self.line()
    }

    fn next_theft(&mut self) {
        let now = self.time.now();
        if let Some((thief, stream)) = &mut self.thief
            && thief.per_second > 0.0
        {
            let gap_ns = (1e9 / thief.per_second * stream.exponential()) as u64;
            self.queue.push(now + gap_ns, Event::Thief);
        }
    }

    /// Returns the time in ns at which the CPU can enter the interrupt handler; `None`: no
    /// interrupt is pending. `clock_ns`: present time of the controller.
    fn irq_ns(&self, clock_ns: u64) -> Option<u64> {
        if self.masked || !self.model.irq() {
            return None;
        }
        let asked_ns = self.model.irq_rose_ns().unwrap_or(0).max(self.heard_from_ns).max(clock_ns);
        Some(self.cpu.interruptible_ns(CORE, asked_ns))
    }

    /// Runs the machine for `for_ns` of virtual time; `handler` is the code of the stack.
    pub fn run(&mut self, handler: &mut dyn Handler, for_ns: u64) {
        let mut clock_ns = self.time.now();
        let end_ns = clock_ns + for_ns;
        while clock_ns < end_ns {
            let queued_ns = self.queue.next_ns().unwrap_or(u64::MAX);
            let alarm_ns = handler.alarm_ns().map_or(u64::MAX, |at| at.max(clock_ns));
            let limit_ns = queued_ns.min(alarm_ns).min(end_ns);
            let irq_ns = self.irq_ns(clock_ns);
            if irq_ns.is_none() && !self.masked {
                let next_ns = self.model.next_event_ns();
                if next_ns.is_some_and(|at| at <= limit_ns) {
                    let came_ns = self.model.advance(limit_ns);
                    clock_ns = clock_ns.max(came_ns);
                    if self.model.irq() {
                        continue;
                    }
                }
            }
            if let Some(at_ns) = irq_ns.filter(|at| *at <= limit_ns) {
                clock_ns = at_ns;
                self.interrupt(at_ns, true, |m| handler.irq(m));
            } else if queued_ns <= limit_ns {
                let Some((at_ns, event)) = self.queue.pop() else { return };
                clock_ns = clock_ns.max(at_ns);
                self.happen(at_ns, event, handler);
            } else if alarm_ns <= limit_ns {
                clock_ns = self.cpu.interruptible_ns(CORE, alarm_ns);
                self.interrupt(clock_ns, false, |m| handler.alarm(m));
            } else {
                clock_ns = end_ns;
            }
        }
        self.time.set(end_ns);
    }

    fn interrupt(&mut self, at_ns: u64, controllers: bool, mut handle: impl FnMut(&mut Machine)) {
        self.time.set(at_ns);
        if controllers {
            self.model.advance(at_ns);
            if !self.model.irq() {
                return;
            }
        }
        self.cpu.interrupt(CORE);
        self.raised = false;
        self.time.charge(self.costs.irq_in_ns);
        handle(self);
        if !self.raised {
            self.time.charge(self.costs.irq_out_ns);
        }
        self.cpu.interrupted(CORE, at_ns, self.time.now(), &mut self.queue);
    }

    fn happen(&mut self, at_ns: u64, event: Event, handler: &mut dyn Handler) {
        self.time.set(at_ns);
        let event = match event {
            Event::Cpu(event) => event,
            Event::Thief => {
                if let Some((thief, stream)) = &mut self.thief {
                    let hold_ns = stream.below(thief.hold_ns + 1);
                    self.cpu.defer(CORE, at_ns, hold_ns, Action::Robbed, &mut self.queue);
                }
                return self.next_theft();
            }
        };
        let Some((core, action)) = self.cpu.event(event, at_ns, &mut self.queue) else { return };
        match action {
            Action::Tasklet => handler.tasklet(self),
            Action::Thread => {
                handler.thread(self);
                self.time.charge(self.costs.switch_out_ns);
                if std::mem::take(&mut self.yielded) {
                    self.cpu.go_on(self.thread, 0, Action::Thread);
                }
            }
            Action::Worked => {
                self.packets_waiting -= 1;
                if self.packets_waiting > 0 {
                    self.cpu.go_on(self.user, self.costs.work_ns, Action::Worked);
                }
            }
            Action::Robbed => {}
        }
        self.cpu.resume(core, at_ns, self.time.now(), &mut self.queue);
    }
}

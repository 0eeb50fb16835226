//! Our engine alone: jobs submit to it directly, the interrupt picks the next transfer from everything that is pending, and nothing is parked anywhere else.

use crate::board::Alone;
use crate::system::{Event, Front, Io, Step, System};
use mmcq::engine::{Error, Kind, Request, SlotId, Work};
use mmcq::host::{Direction, Host};
use mmcq::task::Shared;
use mmcq_sim::cpu::{Priority, Thread};
use std::collections::VecDeque;

/// The front end: an engine with its table of who waits for which slot.
pub struct Ours<H: Host, const N: usize> {
    /// The engine.
    pub stack: Shared<Alone, H, N>,
    /// I/Os whose job is on its way into the engine.
    entering: Vec<Option<Io>>,
    /// I/Os for which there was no slot.
    outside: VecDeque<Io>,
    slots: [Option<(SlotId, Io)>; N],
    finished: VecDeque<Vec<(Io, bool)>>,
    spare: Vec<Vec<(Io, bool)>>,
    thread: Thread,
    thread_runs: bool,
    timer_ns: u64,
    timer: u64,
    /// The first error that a request had.
    pub error: Option<Error>,
}

impl<H: Host, const N: usize> Ours<H, N> {
    /// Sets it up on a machine with so many jobs.
    pub fn new(stack: Shared<Alone, H, N>, sys: &mut System, jobs: u32) -> Self {
        Ours {
            stack,
            entering: vec![None; jobs as usize],
            outside: VecDeque::new(),
            slots: [None; N],
            finished: VecDeque::new(),
            spare: Vec::new(),
            thread: sys.cpu.spawn(Priority::RealTime),
            thread_runs: false,
            timer_ns: u64::MAX,
            timer: 0,
            error: None,
        }
    }

    fn enter(&mut self, sys: &mut System, io: Io) {
        let (lba, blocks) = (io.lba, io.blocks);
        let kind = match io.direction {
            _ if blocks == 0 => Kind::Flush,
            Direction::Read => Kind::Read { lba, blocks },
            Direction::Write => Kind::Write { lba, blocks },
        };
        let buf = sys.buffers.lend(io.buffer);
        match self.stack.with(|e| e.submit(Request { kind, buf }, sys.time.now())) {
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

    /// Takes what is done, and has it completed by a soft interrupt of this core.
    fn handle(&mut self, sys: &mut System, work: Work, core: u8) {
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
            self.finished.push_back(list);
            sys.defer(core, sys.costs.softirq_ns, Step::Complete);
            while self.stack.with(|e| e.slots_in_use()) < N {
                let Some(io) = self.outside.pop_front() else { break };
                self.enter(sys, io);
            }
        }
        if work.deferred && !std::mem::replace(&mut self.thread_runs, true) {
            sys.wake(self.thread, Step::IrqThread);
        }
        if !work.deferred {
            self.set_timer(sys, work.next_deadline_ns);
        }
    }

    /// One timer, which is never set later: if it goes off too early, it is set again then.
    fn set_timer(&mut self, sys: &mut System, deadline_ns: Option<u64>) {
        let Some(at_ns) = deadline_ns.filter(|&at| at < self.timer_ns && at > 0) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(self.timer));
    }
}

impl<H: Host, const N: usize> Front for Ours<H, N> {
    fn submit(&mut self, sys: &mut System, io: Io) {
        self.entering[io.job as usize] = Some(io);
        sys.go_on(sys.job_thread(io.job), sys.costs.dispatch_ns + sys.costs.prep_ns, Step::Submit(io.job));
    }

    fn irq(&mut self, sys: &mut System) {
        let work = self.stack.with(|e| e.on_irq(sys.time.now()));
        self.handle(sys, work, sys.irq_core);
    }

    fn act(&mut self, sys: &mut System, step: Step, core: u8) {
        match step {
            Step::Submit(job) => {
                if let Some(io) = self.entering[job as usize].take() {
                    sys.lock();
                    self.enter(sys, io);
                    sys.unlock();
                }
                sys.submitted(job);
            }
            Step::IrqThread => {
                self.thread_runs = false;
                sys.lock();
                let work = self.stack.with(|e| e.poll(sys.time.now()));
                self.handle(sys, work, core);
                sys.unlock();
            }
            Step::Complete => {
                if let Some(mut list) = self.finished.pop_front() {
                    for (io, ok) in list.drain(..) {
                        sys.complete(io, ok);
                    }
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
            Some(at) if at > 0 && at <= sys.time.now() => {
                sys.time.charge(sys.costs.irq_ns);
                let work = self.stack.with(|e| e.poll(sys.time.now()));
                self.handle(sys, work, sys.irq_core);
            }
            later => self.set_timer(sys, later),
        }
    }
}

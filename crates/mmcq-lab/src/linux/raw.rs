//! Raw phases through an engine, one at a time, with the one timer that their deadlines need.

use crate::platform::Profile;
use crate::system::{Event, System};
use mmcq::board::NoLock;
use mmcq::engine::{Completion, DmaBuf, Kind, PollOutcome, Request, SlotId};
use mmcq::host::{Host, Phase};
use mmcq::task::Stack;

/// First number of a port's timers; those of a front end begin at 0.
const TIMERS: u64 = 1 << 63;

/// mmcq's engine, used for raw phases.
pub struct Raw<H: Host> {
    /// mmcq's engine.
    pub stack: Stack<(NoLock, H, Profile), 1>,
    under_way: Option<SlotId>,
    timer: u64,
    timer_ns: u64,
}

impl<H: Host> Raw<H> {
    /// Makes it of an engine whose card is in the transfer state.
    pub fn new(stack: Stack<(NoLock, H, Profile), 1>) -> Self {
        Raw { stack, under_way: None, timer: 0, timer_ns: u64::MAX }
    }

    /// Starts a phase. If it is refused, its memory is returned.
    pub fn start(
        &mut self,
        sys: &mut System,
        phase: Phase,
        timeout_ns: u64,
        buf: DmaBuf,
    ) -> Result<(), DmaBuf> {
        let request = Request::new(Kind::Raw { prefix: None, phase, timeout_ns }, buf);
        match self.stack.with(|e| e.submit(request, sys.time.now())) {
            Ok(id) => {
                self.under_way = Some(id);
                self.set_timer(sys);
                Ok(())
            }
            Err((error, back)) => {
                // One phase at a time, of a size the host was asked for: only a broken board
                // description comes here.
                debug_assert!(false, "{error}");
                Err(back.buf)
            }
        }
    }

    /// Sets the one timer, which is never set later: if it expires too early, it is set again then.
    fn set_timer(&mut self, sys: &mut System) {
        let deadline_ns = self.stack.with(|e| e.next_deadline_ns());
        let Some(at_ns) = deadline_ns.filter(|&at| at > 0 && at < self.timer_ns) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(TIMERS + self.timer));
    }

    fn ended(&mut self, sys: &mut System, work: PollOutcome) -> Option<Completion> {
        if work.deferred {
            // The host wants the rest in a thread; the front end knows, and calls from its context
            // what unmapping costs. The data are here.
            let work = self.stack.with(|e| e.poll(sys.time.now()));
            return self.ended(sys, work);
        }
        if work.completed == 0 {
            return None;
        }
        let id = self.under_way.take()?;
        self.stack.with(|e| e.take(id))
    }

    /// Handles an interrupt; returns the phase if it has ended.
    pub fn irq(&mut self, sys: &mut System) -> Option<Completion> {
        let work = self.stack.with(|e| e.on_irq(sys.time.now()));
        self.ended(sys, work)
    }

    /// Handles a timer that expired; it may be the port's.
    pub fn timer(&mut self, sys: &mut System, number: u64) -> Option<Completion> {
        if number != TIMERS + self.timer {
            return None;
        }
        self.timer_ns = u64::MAX;
        let now_ns = sys.time.now();
        let due = self.stack.with(|e| e.next_deadline_ns()).is_some_and(|at| at <= now_ns);
        let ended = if due {
            let work = self.stack.with(|e| e.poll(now_ns));
            self.ended(sys, work)
        } else {
            None
        };
        self.set_timer(sys);
        ended
    }
}

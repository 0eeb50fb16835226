//! Sends raw phases (single commands with their data and busy) through mmcq's engine, one at a
//! time, with the timer for their deadlines.

use crate::platform::Profile;
use crate::system::{Event, System};
use mmcq::board::NoLock;
use mmcq::engine::{Completion, DmaBuf, Kind, PollOutcome, Request, SlotId};
use mmcq::host::{Host, Phase};
use mmcq::task::Stack;

/// Smallest timer number that a port uses. The front ends (queue, worker) number their own timers
/// from 0.
const TIMERS: u64 = 1 << 63;

/// Sends single commands, each with its data and busy ([`Kind::Raw`]), through mmcq's engine.
pub struct Raw<H: Host> {
    /// mmcq's engine, with the host driver.
    pub stack: Stack<(NoLock, H, Profile), 1>,
    under_way: Option<SlotId>,
    timer: u64,
    timer_ns: u64,
}

impl<H: Host> Raw<H> {
    /// Makes the sender from an engine whose card is in the state `tran`.
    pub fn new(stack: Stack<(NoLock, H, Profile), 1>) -> Self {
        Raw { stack, under_way: None, timer: 0, timer_ns: u64::MAX }
    }

    /// Starts a command with its data and busy, for which the card may take `timeout_ns`
    /// nanoseconds. If the engine refuses it, returns the memory of the data.
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
                // Only one phase is under way, and its size is one that the host accepts. So this
                // happens only with a broken board description.
                debug_assert!(false, "{error}");
                Err(back.buf)
            }
        }
    }

    /// Sets the machine's timer to the engine's next deadline. A set timer is never moved to a
    /// later time: if it expires before the deadline, it is set again.
    fn set_timer(&mut self, sys: &mut System) {
        let deadline_ns = self.stack.with(|e| e.next_deadline_ns());
        let Some(at_ns) = deadline_ns.filter(|&at| at > 0 && at < self.timer_ns) else { return };
        self.timer_ns = at_ns;
        self.timer += 1;
        sys.queue.push(at_ns.max(sys.time.now()), Event::Timer(TIMERS + self.timer));
    }

    fn ended(&mut self, sys: &mut System, work: PollOutcome) -> Option<Completion> {
        if work.deferred {
            // The host driver wants to finish the phase in a thread. The front end charges for
            // unmapping in its own context, so the phase is finished here at once: its data have
            // arrived.
            let work = self.stack.with(|e| e.poll(sys.time.now()));
            return self.ended(sys, work);
        }
        if work.completed == 0 {
            return None;
        }
        let id = self.under_way.take()?;
        self.stack.with(|e| e.take(id))
    }

    /// Handles an interrupt of the controller. Returns the completion of the command in progress,
    /// with its data, if it has ended.
    pub fn irq(&mut self, sys: &mut System) -> Option<Completion> {
        let work = self.stack.with(|e| e.on_irq(sys.time.now()));
        self.ended(sys, work)
    }

    /// Handles a timer that has expired, if it is a timer of this port. Returns the completion of
    /// the command (with its data) that was in progress, if it has ended.
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

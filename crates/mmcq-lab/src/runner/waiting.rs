//! Measures the time without work for the bus: the stack has no request, and no command of the
//! stack itself (such as the close of a transfer) is on the wires.

use mmcq_sim::sdhci::BusEvent;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Number of idle periods that are stored, since a later bus event may overlap the last of them.
const IDLES_KEPT: usize = 4;

/// Measures how long the stack and the bus had nothing to do in one run. All clones share one
/// measurement.
#[derive(Clone)]
pub struct Waiting(Rc<RefCell<State>>);

struct State {
    /// Number of requests that the stack has at present.
    inside: u32,
    idle_from_ns: u64,
    /// Last periods in which the stack had no request: start and end in ns.
    idles: VecDeque<(u64, u64)>,
    /// Periods in which command or data lines were in use: start and end in ns. A period stays here
    /// as long as it may overlap an idle period that is not yet recorded.
    bus: VecDeque<(u64, u64)>,
    waited_ns: u64,
    /// Total time in ns in which the stack had no request so far.
    without_ns: u64,
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

impl State {
    fn idle(&mut self, until_ns: u64) {
        let idle = (self.idle_from_ns, until_ns.max(self.idle_from_ns));
        let used: u64 = self.bus.iter().map(|&bus| overlap(bus, idle)).sum();
        self.without_ns += idle.1 - idle.0;
        self.waited_ns += (idle.1 - idle.0).saturating_sub(used);
        self.idles.push_back(idle);
        if self.idles.len() > IDLES_KEPT {
            self.idles.pop_front();
        }
    }

    fn used(&mut self, bus: (u64, u64)) {
        // Idle periods are sorted by their ends.
        if self.idles.back().is_some_and(|last| last.1 > bus.0) {
            let idle: u64 = self.idles.iter().map(|&idle| overlap(bus, idle)).sum();
            self.waited_ns = self.waited_ns.saturating_sub(idle);
        }
        if self.inside > 0 {
            while self.bus.front().is_some_and(|old| old.1 <= bus.0) {
                self.bus.pop_front();
            }
        }
        self.bus.push_back(bus);
    }
}

impl Waiting {
    /// Makes a measurement of the time in which neither the stack nor the bus has anything to do.
    /// It begins at this time.
    pub fn new(now_ns: u64) -> Self {
        let (idles, bus) = (VecDeque::new(), VecDeque::new());
        Waiting(Rc::new(RefCell::new(State {
            inside: 0,
            idle_from_ns: now_ns,
            idles,
            bus,
            waited_ns: 0,
            without_ns: 0,
        })))
    }

    /// Records the time in which an event keeps the bus in use. Data blocks are left out: while
    /// they are on the bus, the stack has a request, so that time counts as work in any case.
    pub fn bus(&self, event: BusEvent) {
        if let BusEvent::Block { .. } | BusEvent::Interrupt { .. } = event {
            return;
        }
        let mut state = self.0.borrow_mut();
        match event {
            BusEvent::Command { start_ns, end_ns, .. } => state.used((start_ns, end_ns)),
            BusEvent::Response { end_ns, .. } => {
                let from_ns = state.bus.back().map_or(end_ns, |last| last.1.min(end_ns));
                state.used((from_ns, end_ns));
            }
            BusEvent::Busy { from_ns, until_ns } => state.used((from_ns, until_ns)),
            BusEvent::Block { .. } | BusEvent::Interrupt { .. } => {}
        }
    }

    /// Records that a job passes a request to the stack.
    pub fn enters(&self, now_ns: u64) {
        let mut state = self.0.borrow_mut();
        if state.inside == 0 {
            state.idle(now_ns);
        }
        state.inside += 1;
    }

    /// Records that the stack has completed one of its requests at the time `now_ns`.
    pub fn leaves(&self, now_ns: u64) {
        let mut state = self.0.borrow_mut();
        state.inside = state.inside.saturating_sub(1);
        if state.inside == 0 {
            state.idle_from_ns = now_ns;
        }
    }

    /// Ends the measurement. Returns two times in ns: how long the bus had nothing to do, and how
    /// long the stack had no request.
    pub fn end(&self, now_ns: u64) -> (u64, u64) {
        let mut state = self.0.borrow_mut();
        if state.inside == 0 {
            state.idle(now_ns);
        }
        (state.waited_ns, state.without_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_without_request_and_without_bus_counts() {
        let waiting = Waiting::new(100);
        waiting.enters(150);
        waiting.enters(160);
        waiting.leaves(200);
        waiting.bus(BusEvent::Busy { from_ns: 190, until_ns: 260 });
        waiting.leaves(210);
        // Idle from 210 on: busy lasts until 260, and a close takes from 270 to 285 with its
        // response.
        let close = BusEvent::Command { index: 12, arg: 0, auto: false, start_ns: 270, end_ns: 280 };
        waiting.bus(close);
        waiting.bus(BusEvent::Response { index: 12, content: 0, errors: 0, end_ns: 285 });
        waiting.enters(300);
        waiting.leaves(400);
        // Busy that is reported in the idle time and lasts into the next request.
        waiting.bus(BusEvent::Busy { from_ns: 410, until_ns: 500 });
        waiting.enters(450);
        waiting.leaves(480);
        assert_eq!(waiting.end(520), (50 + (90 - 50 - 15) + 10 + 20, 50 + 90 + 50 + 40));
    }

    #[test]
    fn what_is_told_late_counts_for_its_own_time() {
        let waiting = Waiting::new(0);
        waiting.bus(BusEvent::Command { index: 12, arg: 0, auto: false, start_ns: 80, end_ns: 95 });
        waiting.enters(100);
        waiting.bus(BusEvent::Response { index: 12, content: 0, errors: 0, end_ns: 120 });
        assert_eq!(waiting.end(200), (80, 100));
    }
}

//! Wraps a driver, and calls some of its methods between the calls of the engine: methods that may
//! be called at any time, also while a command is in progress.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::{BusOp, Events, FastEnd, Host, Phase, Segment, StartError, Step};

/// A driver that gets further calls in addition to those of the engine: a group of them after every
/// `every` ordinary calls. All of these may come at any time: an interrupt without an event, the
/// card interrupt on and off, and questions about the lines.
#[derive(Debug)]
pub struct Meddled<H> {
    host: H,
    /// Number of the engine's calls between two groups of inserted calls; 0: no calls are inserted.
    every: u16,
    calls: u16,
}

impl<H: Host> Meddled<H> {
    /// Wraps a driver, and calls further methods of the driver between the engine's calls. `every`:
    /// number of the engine's calls between two groups of such inserted calls; 0: none are
    /// inserted.
    pub const fn new(host: H, every: u16) -> Self {
        Meddled { host, every, calls: 0 }
    }

    /// Counts an ordinary call by the engine. After every `every` calls also calls a group of other
    /// methods of the wrapped driver, and returns true.
    fn meddle(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        self.calls += 1;
        if self.calls < self.every {
            return false;
        }
        self.calls = 0;
        if H::CARD_IRQ {
            self.host.card_irq(true);
            self.host.card_irq(false);
        }
        let _ = (self.host.present(), self.host.write_protected(), self.host.retune_ns());
        let _ = (self.host.dat0_busy(), self.host.dat_levels(), self.host.early_r1());
        let _ = self.host.command_hangs();
        true
    }

    /// Makes the further calls after an `ack`, and a second `ack` if the phase has not ended.
    /// Returns the events of both.
    fn meddled(&mut self, mut events: Events, segments: &[Segment]) -> Events {
        if self.meddle() && events.phase.is_none() {
            let more = self.host.ack(segments);
            events.phase = more.phase;
            events.card_irq |= more.card_irq;
            events.presence |= more.presence;
            events.retune |= more.retune;
            events.acknowledged |= more.acknowledged;
        }
        events
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged. The
// further calls are those that the contract of `Host` allows at any time.
unsafe impl<H: Host> Host for Meddled<H> {
    mmcq::forward_host!(const H);
    mmcq::forward_host!(self.host => caps goes_on_with is_prompt map unmap start_concurrent ack_concurrent
        abort_concurrent early_r1 interrupt_lost command_hangs isolate dat0_busy dat_levels retune_ns
        supply_ma take_waker card_irq queue chain present write_protected);

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.host.start(phase, segments, timeout_ns)?;
        self.meddle();
        Ok(())
    }

    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.host.start_fast(phase, segments, timeout_ns)?;
        self.meddle();
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let events = self.host.ack(segments);
        self.meddled(events, segments)
    }

    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        match self.host.ack_fast(segments) {
            Err(events) => Err(self.meddled(events, segments)),
            end => {
                self.meddle();
                end
            }
        }
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let step = self.host.set_bus(op, first, now_ns);
        self.meddle();
        step
    }
}

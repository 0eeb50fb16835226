//! What the program of a case does with its whole stack while requests are under way: it suspends,
//! halts and resumes the stack, stops the transfer in progress, and its clock jumps.

use super::machine::{Machine, Stack};
use super::run::{Run, Trace};
use super::usage::Act;
use mmcq::task::Platform;
use mmcq_sim::checker::{Fault, Violation};

/// A time in which the program has suspended or halted the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    /// Time in ns at which the program lets the stack work again.
    until_ns: u64,
    /// Whether the stack is suspended; otherwise it is halted.
    refuses: bool,
    /// Whether the stack has refused a request since the program suspended it.
    refused: bool,
}

impl Run<'_> {
    /// Returns whether clients must not submit requests, because the stack is suspended. Returns
    /// false once in each suspension: the stack must then refuse a request.
    pub(super) fn holds_back(&mut self) -> bool {
        self.pause.as_mut().is_some_and(|pause| pause.refuses && std::mem::replace(&mut pause.refused, true))
    }

    /// Returns whether the stack is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        self.pause.is_some_and(|pause| pause.refuses)
    }

    /// Ends a pause of the stack whose time is over. Outside of a pause, performs the next planned
    /// act of the program ([`Act`], such as a halt of the stack), if the event at which it is
    /// planned has happened. Returns true if it did either.
    pub(super) fn meanwhile<B: Platform>(
        &mut self,
        machine: &Machine<B>,
        trace: &mut Trace<'_>,
    ) -> Result<bool, Violation> {
        if let Some(Pause { until_ns, .. }) = self.pause {
            self.look_at_rest(machine)?;
            if machine.now() >= until_ns || machine.rests_until(until_ns) {
                self.resume(&machine.stack);
                return Ok(true);
            }
            return Ok(false);
        }
        let Some((&(event, act), rest)) = self.acts.split_first() else { return Ok(false) };
        if event > self.outcome.events {
            return Ok(false);
        }
        self.acts = rest;
        if let Some(trace) = trace {
            trace(format!("{:>14} ## {act:?}", machine.now()));
        }
        match act {
            Act::Suspend(ns) | Act::Halt(ns) => {
                let refuses = matches!(act, Act::Suspend(_));
                machine.stack.with(|engine| if refuses { engine.suspend() } else { engine.halt() });
                self.pause = Some(Pause { until_ns: machine.now() + ns, refuses, refused: false });
            }
            Act::Abort => {
                self.bench.checker.trouble();
                machine.stack.with(|engine| engine.abort(machine.stack_ns()));
            }
            Act::Jump(ns) => {
                self.bench.checker.trouble();
                machine.jump(ns);
            }
        }
        Ok(true)
    }

    /// Resumes the stack if it is paused.
    pub(super) fn resume<B: Platform>(&mut self, stack: &Stack<B>) {
        if self.pause.take().is_some() {
            stack.with(|engine| engine.resume(super::machine::stack_ns()));
        }
    }

    /// Checks, when the engine of a suspended stack is idle, that a power cut would lose no data:
    /// all written sectors are in the card's flash.
    fn look_at_rest<B: Platform>(&mut self, machine: &Machine<B>) -> Result<(), Violation> {
        if !self.is_suspended() || !machine.is_settled() {
            return Ok(());
        }
        let mut model = machine.model.borrow_mut();
        let stake = model.card_mut().map_or(Vec::new(), |card| card.at_stake(machine.now()));
        match stake.first() {
            Some(what) => {
                let text = format!("a suspended stack is idle, and sector {} is not written", what.sector);
                Err(Violation::new(Fault::Untrue, text))
            }
            None => Ok(()),
        }
    }
}

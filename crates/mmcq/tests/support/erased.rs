//! Drivers and schedulers behind one type each, called by a table of functions. The stack is built
//! once for each such type, not once for each driver and scheduler of the tests: that is most of the
//! time of their build.

#[path = "../../../mmcq-sim/src/erased.rs"]
mod driver;

pub use driver::{Erased, constants};
use mmcq::sched::{Choice, Policy, Waiting};
use std::any::Any;

/// The methods of [`Policy`], for a table of functions.
trait Scheduler: Any {
    fn is_in_order(&self) -> bool;
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool;
    fn yields(&self) -> bool;
    fn arrived(&mut self, request: &Waiting, now_ns: u64);
    fn pick_of(&mut self, waiting: &[Waiting], now_ns: u64) -> Choice;
    fn sent(&mut self, request: &Waiting, now_ns: u64);
    fn cancelled(&mut self, request: &Waiting);
    fn done(&mut self, request: &Waiting, now_ns: u64);
}

impl<P: Policy + 'static> Scheduler for P {
    fn is_in_order(&self) -> bool {
        Policy::is_in_order(self)
    }
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        Policy::bears(self, picked, until_ns)
    }
    fn yields(&self) -> bool {
        Policy::yields(self)
    }
    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        Policy::arrived(self, request, now_ns);
    }
    fn pick_of(&mut self, waiting: &[Waiting], now_ns: u64) -> Choice {
        self.pick(waiting.iter().copied(), now_ns)
    }
    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        Policy::sent(self, request, now_ns);
    }
    fn cancelled(&mut self, request: &Waiting) {
        Policy::cancelled(self, request);
    }
    fn done(&mut self, request: &Waiting, now_ns: u64) {
        Policy::done(self, request, now_ns);
    }
}

/// A scheduler of any type that is never in order.
pub struct Scheduled {
    policy: Box<dyn Scheduler>,
    /// The waiting requests of the last question, so that no question needs new memory.
    waiting: Vec<Waiting>,
}

impl Scheduled {
    pub fn new<P: Policy + 'static>(policy: P) -> Self {
        const { assert!(!P::IN_ORDER && !P::MAY_BE_IN_ORDER, "the engine takes other paths for it") }
        Scheduled { policy: Box::new(policy), waiting: Vec::new() }
    }

    /// Returns the scheduler, which must be of this type.
    pub fn get<P: Policy + 'static>(&self) -> &P {
        let policy: &dyn Any = &*self.policy;
        policy.downcast_ref().expect("a scheduler of another type")
    }
}

impl Policy for Scheduled {
    fn is_in_order(&self) -> bool {
        self.policy.is_in_order()
    }
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        self.policy.bears(picked, until_ns)
    }
    fn yields(&self) -> bool {
        self.policy.yields()
    }
    fn arrived(&mut self, request: &Waiting, now_ns: u64) {
        self.policy.arrived(request, now_ns);
    }
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        self.waiting.clear();
        for request in waiting {
            self.waiting.push(request);
        }
        self.policy.pick_of(&self.waiting, now_ns)
    }
    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        self.policy.sent(request, now_ns);
    }
    fn cancelled(&mut self, request: &Waiting) {
        self.policy.cancelled(request);
    }
    fn done(&mut self, request: &Waiting, now_ns: u64) {
        self.policy.done(request, now_ns);
    }
}

/// Returns the names of the constants and methods of a trait, in this source text.
fn names_of<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
    let body = source.split_once(head).unwrap().1.split_once("\n}\n").unwrap().0;
    let named = |line: &'a str| line.strip_prefix("    fn ").or(line.strip_prefix("    const "));
    let ends = |c: char| !(c.is_alphanumeric() || c == '_');
    body.lines().filter_map(named).filter_map(|rest| rest.split(ends).next()).collect()
}

/// Checks that no method is left to its default here, and no constant: a driver would lose it, and
/// the compiler would not warn.
#[test]
fn no_method_and_no_constant_is_forgotten() {
    let mut names = names_of(include_str!("../../src/host/mod.rs"), "pub unsafe trait Host {");
    assert!(names.len() > 30, "{names:?}");
    let mut passed = driver::NAMES.to_vec();
    names.sort_unstable();
    passed.sort_unstable();
    assert_eq!(passed, names);
    let mut names = names_of(include_str!("../../src/sched/mod.rs"), "pub trait Policy {");
    // Both constants are false in the drivers.
    names.retain(|name| !matches!(*name, "IN_ORDER" | "MAY_BE_IN_ORDER"));
    let passed = names_of(include_str!("erased.rs"), "impl Policy for Scheduled {");
    names.sort_unstable();
    let mut passed = passed;
    passed.sort_unstable();
    assert_eq!(passed, names);
}

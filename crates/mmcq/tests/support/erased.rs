//! Drivers and schedulers behind one type each, called by a table of functions. The stack is built
//! once for each such type, not once for each driver and scheduler of the tests: that is most of the
//! time of their build.

use mmcq::host::{
    BusOp, Caps, Cause, ChainHost, CommandQueueHost, Direction, DmaError, Events, FastEnd, Host, Phase,
    Segment, StartError, Step,
};
use mmcq::sched::{Choice, Policy, Waiting};
use mmcq::spec::command::Command;
use std::any::Any;
use std::task::Waker;

/// Makes the constants of [`Host`] bits, and its methods those of [`Driver`] and [`Erased`].
macro_rules! erased {
    ($this:ident;
     const { $($constant:ident = $bit:literal;)* }
     ref { $($says:ident($($said:ident: $of:ty),*) -> $answer:ty;)* }
     mut { $($does:ident($($given:ident: $by:ty),*) -> $result:ty;)* }) => {
        /// The constants and methods of [`Host`] that this file passes on.
        const NAMES: &[&str] =
            &[$(stringify!($constant),)* $(stringify!($says),)* $(stringify!($does),)*];

        /// Returns the constants of this driver, as the parameter of [`Erased`].
        pub const fn constants<H: Host>() -> u16 {
            0 $(| (H::$constant as u16) << $bit)*
        }

        /// The methods of [`Host`], for a table of functions.
        trait Driver: Any {
            $(fn $says(&self, $($said: $of),*) -> $answer;)*
            $(fn $does(&mut self, $($given: $by),*) -> $result;)*
        }

        impl<H: Host + 'static> Driver for H {
            $(fn $says(&$this, $($said: $of),*) -> $answer {
                Host::$says($this, $($said),*)
            })*
            $(fn $does(&mut $this, $($given: $by),*) -> $result {
                Host::$does($this, $($given),*)
            })*
        }

        // SAFETY: all calls go to the driver inside, in their order and with the segments unchanged.
        unsafe impl<const CONSTANTS: u16> Host for Erased<CONSTANTS> {
            $(const $constant: bool = CONSTANTS >> $bit & 1 != 0;)*
            $(fn $says(&$this, $($said: $of),*) -> $answer {
                $this.0.$says($($said),*)
            })*
            $(fn $does(&mut $this, $($given: $by),*) -> $result {
                $this.0.$does($($given),*)
            })*
        }
    };
}

erased! { self;
    const {
        CONTINUES = 0;
        ALWAYS_CONTINUES = 1;
        CONTINUES_BY_REQUEST = 2;
        CONCURRENT = 3;
        EARLY_R1 = 4;
        CARD_IRQ = 5;
        ONE_LINE = 6;
        WAKES = 7;
        DEFERS_BY_REQUEST = 8;
    }
    ref {
        caps() -> &Caps;
        is_prompt(segment: &Segment, direction: Direction) -> bool;
        goes_on_with(segment: &Segment, blocks: u32, direction: Direction) -> bool;
        command_hangs() -> bool;
        dat0_busy() -> bool;
        dat_levels() -> u8;
        present() -> bool;
        retune_ns() -> u64;
        supply_ma() -> u16;
        write_protected() -> bool;
    }
    mut {
        map(segment: &mut Segment, direction: Direction) -> Result<(), DmaError>;
        unmap(segment: &Segment, direction: Direction) -> ();
        start(phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;
        start_fast(phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;
        start_concurrent(command: &Command) -> Result<(), StartError>;
        ack_concurrent() -> Option<Result<u32, Cause>>;
        abort_concurrent() -> ();
        ack(segments: &[Segment]) -> Events;
        ack_fast(segments: &[Segment]) -> Result<FastEnd, Events>;
        early_r1() -> Option<u32>;
        interrupt_lost() -> ();
        set_bus(op: BusOp, first: bool, now_ns: u64) -> Step;
        isolate() -> bool;
        take_waker() -> Option<Waker>;
        queue() -> Option<&mut dyn CommandQueueHost>;
        chain() -> Option<&mut dyn ChainHost>;
        card_irq(on: bool) -> ();
    }
}

/// A driver of any type whose constants are these ([`constants`]): the engine sees the constants
/// and calls of that driver.
pub struct Erased<const CONSTANTS: u16>(Box<dyn Driver>);

impl<const CONSTANTS: u16> Erased<CONSTANTS> {
    pub fn new<H: Host + 'static>(host: H) -> Self {
        const { assert!(constants::<H>() == CONSTANTS, "the driver's constants are others") }
        Erased(Box::new(host))
    }

    /// Returns the driver, which must be of this type.
    pub fn get<H: Host + 'static>(&self) -> &H {
        let driver: &dyn Any = &*self.0;
        driver.downcast_ref().expect("a driver of another type")
    }

    /// Returns the driver, which must be of this type, to change it.
    pub fn get_mut<H: Host + 'static>(&mut self) -> &mut H {
        let driver: &mut dyn Any = &mut *self.0;
        driver.downcast_mut().expect("a driver of another type")
    }
}

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
    let mut passed = NAMES.to_vec();
    names.sort_unstable();
    passed.sort_unstable();
    assert_eq!(passed, names);
    let mut names = names_of(include_str!("../../src/sched/mod.rs"), "pub trait Policy {");
    // `Scheduled::new` checks that both constants are false.
    names.retain(|name| !matches!(*name, "IN_ORDER" | "MAY_BE_IN_ORDER"));
    let mut passed = names_of(include_str!("erased.rs"), "impl Policy for Scheduled {");
    names.sort_unstable();
    passed.sort_unstable();
    assert_eq!(passed, names);
}

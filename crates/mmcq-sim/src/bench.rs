//! Test bench for programs that use mmcq: a controller with a card in its slot and the stack that
//! drives it, in virtual time.
//!
//! ```
//! use mmcq::block::BlockDevice;
//! use mmcq::card::{Options, bring_up};
//! use mmcq_sim::bench::{Bench, buffer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bench = Bench::new("sdhc-16g-hs")?;
//! let stack = bench.stack();
//! let (card, _scratch) = bench.run(bring_up(stack, buffer(1), Options::DEFAULT))?;
//! println!("{} blocks", card?.params.sectors);
//! let (read, _buf) = bench.run(BlockDevice::new(stack).read(0, buffer(8)))?;
//! read?;
//! # Ok(())
//! # }
//! ```

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::card::io::IoProfile;
use crate::card::medium::{Fill, Medium, MediumError};
use crate::card::profile::{CardProfile, ProfileError};
use crate::card::{AtStake, Card, Kept};
use crate::faults::{Faults, Plan, Point};
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::sdhci::{Port, Sdhci, SdhciConfig};
use crate::slot::Controller;
use crate::time::Time;
use crate::world::Device;
use mmcq::board::NoLock;
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::sdhci;
use mmcq::sched::{Fifo, Profile};
use mmcq::task::{Idle, Timer};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Type of the driver for the bench's controller.
pub type Host = sdhci::Sdhci<Port, ShadowMemory, 129>;
/// Type of the stack on the bench, with the scheduler [`Fifo`] (first in, first out).
pub type Stack = mmcq::task::Stack<(NoLock, Host, Fifo), 16>;

/// Time in ns that a register access takes.
const ACCESS_NS: u64 = 50;
/// Longest time in ns for which one call of [`Machine::wait`] waits.
const IDLE_NS: u64 = 10_000;
/// Number of calls of [`Bench::step`] after which a future that is not ready counts as stalled.
const STEPS_MAX: u32 = 10_000_000;
/// Number of interrupt handler calls in a row, with the interrupt still asserted, that count as a
/// storm.
const STORM: u32 = 4096;

/// Reasons why a bench cannot be made, or why a future on it never ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No card of [`CARDS`](crate::cards::CARDS) has this name.
    #[error("card {0}: unknown; mmcq_sim::cards::CARDS lists those that are")]
    Unknown(String),
    /// The card's profile is not valid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The card's medium cannot be made.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The driver refuses the controller with this error.
    #[error("controller: {0}")]
    Controller(sdhci::SdhciInitError),
    /// No event will ever happen again, and the future is not ready.
    #[error("at {at_ns} ns nothing is left that could happen, and the future is not ready")]
    Stalled {
        /// Virtual time in ns at which the bench stalled.
        at_ns: u64,
    },
    /// A fault of the plan can never strike on this machine. The value is the point (kind of event)
    /// of this fault, which never occurs here.
    #[error("a fault at {0:?} can never strike: nothing on this bench comes by there")]
    NeverStrikes(Point),
    /// The controller's interrupt stays asserted, however often its handler is called.
    #[error("at {at_ns} ns the driver leaves the interrupt asserted")]
    Storm {
        /// Virtual time in ns at which the bench found that the interrupt stays asserted.
        at_ns: u64,
    },
}

thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });

/// Returns the virtual time in ns of this thread's [`Machine`]. A board's own `now_ns` would read
/// its timer instead.
pub fn now_ns() -> u64 {
    NOW_NS.get()
}

/// A board without a stack: a controller with a card in its slot, memory, and a clock ([`now_ns`]).
/// A thread can have one machine at a time.
pub struct Machine {
    time: Time,
    slot: Rc<RefCell<Sdhci>>,
    memory: ShadowMemory,
    faults: RefCell<Faults>,
}

impl Machine {
    /// Makes a machine with one of the [`CARDS`](crate::cards::CARDS) on an SDHCI controller of
    /// version 4.20.
    ///
    /// # Errors
    /// [`BenchError::Unknown`] if no card has this name.
    pub fn new(card: &str) -> Result<Machine, BenchError> {
        Ok(Self::with(card_named(card)?, SdhciConfig::GENERIC_4_20))
    }

    /// Makes a machine with any card and controller.
    pub fn with(card: Box<dyn Card>, controller: SdhciConfig) -> Machine {
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let slot = Rc::new(RefCell::new(Sdhci::new(controller, memory.clone(), Some(card))));
        NOW_NS.set(0);
        let machine = Machine { time: Time::new(), slot, memory, faults: RefCell::new(Faults::default()) };
        // From now on the card tracks its writes, so that a power cut can decide about them.
        machine.tell_card();
        machine
    }

    /// Sets the plan of faults that strike the controller and the card from now on.
    ///
    /// # Errors
    /// [`BenchError::NeverStrikes`] if a fault of the plan can never strike: it needs an SPI bus, a
    /// queue engine, or a card with functions. A fault of a command queue or of packed commands is
    /// accepted even if the card does not have them or no request uses them; it then strikes
    /// nothing. After an error the old plan stays in force.
    pub fn set_faults(&self, plan: Plan) -> Result<(), BenchError> {
        let functions = self.slot.borrow_mut().card_mut().is_some_and(|card| card.has_functions());
        let never = |point: &Point| {
            point.is_of_spi() || point.is_of_queue_engine() || *point == Point::Function && !functions
        };
        if let Some(point) = plan.points().find(never) {
            return Err(BenchError::NeverStrikes(point));
        }
        let faults = Faults::new(plan);
        self.slot.borrow_mut().set_faults(faults.clone());
        *self.faults.borrow_mut() = faults;
        self.tell_card();
        Ok(())
    }

    fn tell_card(&self) {
        if let Some(card) = self.slot.borrow_mut().card_mut() {
            card.set_faults(self.faults.borrow().clone());
        }
    }

    /// Returns the port to the controller's registers.
    pub fn registers(&self) -> Port {
        Port::new(self.slot.clone(), self.time.clone(), ACCESS_NS, ACCESS_NS)
    }

    /// Returns the memory that the controller's DMA can reach.
    pub fn memory(&self) -> ShadowMemory {
        self.memory.clone()
    }

    /// Waits for a short time, or until the controller interrupts, like the CPU instruction `wfi`.
    pub fn wait(&self) {
        self.go_to(self.time.now() + IDLE_NS);
    }

    fn go_to(&self, until_ns: u64) {
        let reached_ns = self.slot.borrow_mut().advance(until_ns);
        self.time.set(reached_ns.max(self.time.now()));
        NOW_NS.set(self.time.now());
    }
}

/// A controller, a card and the stack: [`Stack`], or a stack with another scheduler.
pub struct Bench<P: Profile = Fifo> {
    machine: Machine,
    stack: mmcq::task::Stack<(NoLock, Host, P), 16>,
    /// Times in ns at which sleeping futures continue.
    timers: RefCell<Vec<u64>>,
}

impl Bench {
    /// Makes a bench with one of the [`CARDS`](crate::cards::CARDS) on an SDHCI controller of
    /// version 4.20.
    ///
    /// # Errors
    /// [`BenchError::Unknown`] if no card has this name.
    pub fn new(card: &str) -> Result<Bench, BenchError> {
        Self::with(card_named(card)?, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new())
    }

    /// Makes a bench with any card, controller and settings of the driver.
    ///
    /// # Errors
    /// [`BenchError::Controller`] if the driver refuses the controller.
    pub fn with(
        card: Box<dyn Card>,
        controller: SdhciConfig,
        driver: sdhci::SdhciConfig,
    ) -> Result<Bench, BenchError> {
        Self::with_policy(card, controller, driver, Config::DEFAULT, Fifo)
    }
}

impl<P: Profile> Bench<P> {
    /// Makes a bench with any scheduler, such as [`Fair`](mmcq::sched::Fair), and settings of the
    /// engine.
    ///
    /// # Errors
    /// The errors of [`with`](Bench::with).
    pub fn with_policy(
        card: Box<dyn Card>,
        controller: SdhciConfig,
        driver: sdhci::SdhciConfig,
        config: Config,
        policy: P,
    ) -> Result<Bench<P>, BenchError> {
        let machine = Machine::with(card, controller);
        let table = Box::leak(Box::new(sdhci::Table::new()));
        let host = sdhci::Sdhci::new(machine.registers(), machine.memory(), table, driver)
            .map_err(BenchError::Controller)?;
        let timer = Timer::polled(now_ns);
        let stack = mmcq::task::Stack::with_policy(NoLock::new(), timer, host, config, policy);
        Ok(Bench { machine, stack, timers: RefCell::new(Vec::new()) })
    }

    /// Returns the stack. The caller has to bring the card up first.
    pub fn stack(&self) -> &mmcq::task::Stack<(NoLock, Host, P), 16> {
        &self.stack
    }

    /// Returns the virtual time of the bench in ns.
    pub fn now_ns(&self) -> u64 {
        self.machine.time.now()
    }

    /// Returns the controller model, for functions that this type does not offer.
    pub fn controller(&self) -> &Rc<RefCell<Sdhci>> {
        &self.machine.slot
    }

    /// Returns the memory that the DMA of the bench's controller can reach.
    pub fn memory(&self) -> &ShadowMemory {
        &self.machine.memory
    }

    /// Returns the function that a blocking call uses to wait: it lets the models continue for a
    /// short time, or until the controller interrupts.
    pub fn idle(&self) -> impl Fn(&Idle) + Copy + '_ {
        |_| self.machine.wait()
    }

    /// Sets the plan of faults, as [`Machine::set_faults`] does.
    ///
    /// # Errors
    /// The errors of [`Machine::set_faults`].
    pub fn set_faults(&self, plan: Plan) -> Result<(), BenchError> {
        self.machine.set_faults(plan)
    }

    /// Waits for `ns` nanoseconds of virtual time.
    pub async fn sleep(&self, ns: u64) {
        let until_ns = self.machine.time.now().saturating_add(ns);
        self.timers.borrow_mut().push(until_ns);
        poll_fn(|_| if self.machine.time.now() < until_ns { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Cuts the card's power now. `keep` decides what is left of each block that is not durable
    /// yet. The card stays in its slot without power until the stack brings it up again.
    pub fn cut(&self, keep: &mut dyn FnMut(&AtStake) -> Kept) {
        let now_ns = self.machine.time.now();
        if let Some(card) = self.machine.slot.borrow_mut().card_mut() {
            card.cut(now_ns, keep);
        }
    }

    /// Removes the card from the slot and returns it; `None` if the slot is empty. The controller
    /// reports the removal to the stack. [`insert`](Self::insert) puts a card into the slot again.
    /// If less than 50 ms pass between removal and insertion ([`sleep`](Self::sleep)), the stack
    /// takes both for a bounce of the switch. A card that
    /// [`Strike::Remove`](crate::faults::Strike::Remove) took out is returned by
    /// [`Controller::removed`] of [`controller`](Self::controller).
    pub fn remove(&self) -> Option<Box<dyn Card>> {
        self.machine.slot.borrow_mut().remove(self.machine.time.now())
    }

    /// Puts a card into the empty slot.
    pub fn insert(&self, card: Box<dyn Card>) {
        self.machine.slot.borrow_mut().insert(card, self.machine.time.now());
        self.machine.tell_card();
    }

    /// Advances to the controller's next interrupt, the engine's next deadline or the end of a
    /// [`sleep`](Self::sleep), whichever comes first. Then calls the stack.
    ///
    /// # Errors
    /// [`BenchError::Stalled`] if no event can happen any more, [`BenchError::Storm`] if the
    /// interrupt stays asserted.
    pub fn step(&self) -> Result<(), BenchError> {
        if !self.machine.slot.borrow().irq() {
            let deadline_ns = self.stack.with(|engine| engine.next_deadline_ns());
            let next_ns = self.machine.slot.borrow().next_event_ns();
            let now_ns = self.machine.time.now();
            self.timers.borrow_mut().retain(|&at_ns| at_ns > now_ns);
            let timer_ns = self.timers.borrow().iter().copied().min();
            let until_ns = deadline_ns.or(next_ns).into_iter().chain(timer_ns).min();
            let until_ns = until_ns.ok_or(BenchError::Stalled { at_ns: now_ns })?;
            self.machine.go_to(until_ns.max(now_ns));
        }
        NOW_NS.set(self.machine.time.now());
        if !self.machine.slot.borrow().irq() {
            self.stack.poll();
            return Ok(());
        }
        for _ in 0..STORM {
            self.stack.on_irq();
            if !self.machine.slot.borrow().irq() {
                return Ok(());
            }
        }
        Err(BenchError::Storm { at_ns: self.machine.time.now() })
    }

    /// Polls a future until it is ready. Between two polls the bench makes one
    /// [`step`](Self::step).
    ///
    /// # Errors
    /// The errors of [`step`](Self::step).
    pub fn run<F: Future>(&self, future: F) -> Result<F::Output, BenchError> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..STEPS_MAX {
            NOW_NS.set(self.machine.time.now());
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            self.step()?;
        }
        Err(BenchError::Stalled { at_ns: self.machine.time.now() })
    }
}

/// Returns the model of one of the [`CARDS`](crate::cards::CARDS). A storage card holds a pattern.
///
/// # Errors
/// [`BenchError::Unknown`] if no card has this name.
pub fn card_named(name: &str) -> Result<Box<dyn Card>, BenchError> {
    let text = crate::cards::named(name).ok_or_else(|| BenchError::Unknown(name.into()))?;
    if name.starts_with("bt-") {
        return Ok(Box::new(IoProfile::from_toml(text, name)?.build().0));
    }
    let profile = CardProfile::from_toml(text, name)?;
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7))?;
    Ok(profile.build(medium)?)
}

/// Returns a buffer of zeros for DMA, with this number of 512-byte blocks. Its memory is never
/// freed.
pub fn buffer(blocks: usize) -> DmaBuf {
    let words: &'static mut [u64] = Box::leak(vec![0; blocks * 64].into_boxed_slice());
    // SAFETY: the slice covers exactly the bytes of `words`, which nothing else uses.
    DmaBuf::from_static(unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), blocks * 512) })
}

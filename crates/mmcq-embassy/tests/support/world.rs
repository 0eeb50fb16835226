//! A simulated controller and card, whose clock advances whenever it is read, so that code that
//! spins makes progress.

#![allow(dead_code)]

use mmcq::engine::Config;
use mmcq::host::sdhci::{self, Sdhci as Driver, Table};
use mmcq::task::Timer;
use mmcq_embassy::CriticalSection;
use mmcq_sim::card::Card;
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::RefCell;
use std::rc::Rc;

pub type Host = Driver<Port, ShadowMemory, 129>;
pub type Stack = mmcq::task::Stack<(CriticalSection, Host), 8>;

/// Time that a read of the clock takes, in nanoseconds.
const LOOK_NS: u64 = 5_000;

thread_local!(static NOW: RefCell<Option<(Rc<RefCell<Sdhci>>, Time)>> = const { RefCell::new(None) });

/// Returns the time in nanoseconds, and advances it by [`LOOK_NS`].
pub fn now_ns() -> u64 {
    NOW.with_borrow(|now| {
        let Some((model, time)) = now else { return 0 };
        move_to(model, time, time.now() + LOOK_NS);
        time.now()
    })
}

/// Advances the simulation to `until_ns`; stops early if the controller interrupts.
pub fn move_to(model: &Rc<RefCell<Sdhci>>, time: &Time, until_ns: u64) {
    let reached = if model.borrow().irq() { until_ns } else { model.borrow_mut().advance(until_ns) };
    time.set(reached.max(time.now()));
}

pub struct World {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
}

impl World {
    /// Makes a world with one of the simulator's cards, in memory filled with a pattern.
    pub fn new(card: &str) -> World {
        Self::of(card, SdhciConfig::GENERIC_4_20)
    }

    /// Makes such a world with another controller.
    pub fn of(card: &str, controller: SdhciConfig) -> World {
        let profile = CardProfile::from_toml(mmcq_sim::cards::named(card).unwrap(), card).unwrap();
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
        Self::made(profile.build(medium).unwrap(), controller)
    }

    /// Makes a world with this card.
    pub fn with(card: Box<dyn Card>) -> World {
        Self::made(card, SdhciConfig::GENERIC_4_20)
    }

    fn made(card: Box<dyn Card>, controller: SdhciConfig) -> World {
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Sdhci::new(controller, memory.clone(), Some(card))));
        let world = World { time: Time::new(), model, memory };
        NOW.set(Some((world.model.clone(), world.time.clone())));
        world
    }

    pub fn host(&self) -> Host {
        self.host_with(sdhci::SdhciConfig::new())
    }

    pub fn host_with(&self, config: sdhci::SdhciConfig) -> Host {
        let port = Port::new(self.model.clone(), self.time.clone(), 0, 0);
        let table = Box::leak(Box::new(Table::new()));
        Driver::new(port, self.memory.clone(), table, config).unwrap()
    }

    /// Makes a stack on the clock that advances by itself.
    pub fn stack(&self) -> &'static Stack {
        self.stack_with(Timer { now_ns, set_alarm: |_| {} })
    }

    pub fn stack_with(&self, timer: Timer) -> &'static Stack {
        self.stack_on(self.host(), timer)
    }

    pub fn stack_on(&self, host: Host, timer: Timer) -> &'static Stack {
        Box::leak(Box::new(Stack::new(CriticalSection, timer, host, Config::DEFAULT)))
    }
}

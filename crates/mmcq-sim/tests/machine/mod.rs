//! A rig: the whole stack on the SDHCI model, moved from interrupt to interrupt in virtual time.

#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]

use crate::timed::{self, one_thread::NOW_NS};
use mmcq::card::{self, Card};
use mmcq::engine::{Config, Error};
use mmcq::host::sdhci::{self, Table};
use mmcq_sim::card::Card as CardModel;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::sdhci::{Port, Sdhci, SdhciConfig};
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
pub use timed::{blocks as buffer, bytes};

pub type Driver = sdhci::Sdhci<Port, ShadowMemory, 129>;
pub type Stack = timed::On<Driver>;

pub struct Rig {
    pub time: Time,
    pub model: Rc<RefCell<Sdhci>>,
    pub memory: ShadowMemory,
    pub stack: Stack,
}

/// Returns the model of a storage card, by the name of its profile file.
pub fn storage_card(card: &str) -> Box<dyn CardModel> {
    timed::card(&timed::profile(card))
}

impl Rig {
    pub fn new(card: &str, model: SdhciConfig, driver: sdhci::SdhciConfig) -> Rig {
        Self::with_card(storage_card(card), model, driver, 0).unwrap()
    }

    /// Returns a rig with this card, whose register accesses take `access_ns` each.
    pub fn with_card(
        card: Box<dyn CardModel>,
        model: SdhciConfig,
        driver: sdhci::SdhciConfig,
        access_ns: u64,
    ) -> Result<Rig, String> {
        let time = Time::new();
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Rc::new(RefCell::new(Sdhci::new(model, memory.clone(), Some(card))));
        let port = Port::new(model.clone(), time.clone(), access_ns, access_ns);
        let table = Box::leak(Box::new(Table::new()));
        let host =
            sdhci::Sdhci::new(port, memory.clone(), table, driver).map_err(|error| error.to_string())?;
        NOW_NS.set(0);
        Ok(Rig { time, model, memory, stack: timed::on(host, Config::DEFAULT) })
    }

    /// Advances to the next interrupt or deadline, and lets the stack handle it.
    pub fn turn(&self) {
        self.try_turn().unwrap();
    }

    pub fn try_turn(&self) -> Result<(), String> {
        timed::turn(&self.stack, &self.model, &self.time)
    }

    pub fn drive<F: Future>(&self, future: F) -> F::Output {
        self.try_drive(future).unwrap()
    }

    pub fn try_drive<F: Future>(&self, future: F) -> Result<F::Output, String> {
        timed::try_drive(&self.time, || self.try_turn(), future)
    }

    pub fn bring_up(&self, options: card::Options) -> Result<Card, Error> {
        self.drive(card::bring_up(&self.stack, buffer(1), options)).0
    }

    /// Checks that neither driver nor controller did anything forbidden.
    pub fn checked(&self) {
        self.try_checked().unwrap();
    }

    pub fn try_checked(&self) -> Result<(), String> {
        let (memory, protocol) = (self.memory.violations(), self.model.borrow().protocol_violations());
        if memory.is_empty() && protocol == 0 {
            return Ok(());
        }
        Err(format!("violations: {protocol} of the controller's rules, of memory {memory:?}"))
    }

    fn lost_interrupts(&self) -> u64 {
        self.stack.with(|engine| engine.stats().lost_interrupts)
    }

    /// Runs [`mixed_load`](Self::mixed_load) where interrupts may have been lost before.
    pub fn mixed_load_after(&self, sectors: u64) {
        let before = self.lost_interrupts();
        self.load(sectors, 20).unwrap();
        assert_eq!(self.lost_interrupts(), before);
    }

    /// Runs random reads and writes, up to 16 at a time, and compares the data with a copy in
    /// memory.
    pub fn mixed_load(&self, sectors: u64, rounds: u64) {
        self.load(sectors, rounds).unwrap();
        assert_eq!(self.lost_interrupts(), 0);
    }

    pub fn load(&self, sectors: u64, rounds: u64) -> Result<(), String> {
        timed::load::mixed(&self.stack, &self.model, &self.time, sectors, rounds)?;
        // Only the descriptor table stays mapped when no request is in the engine.
        match self.memory.live_mappings() {
            0 | 1 => Ok(()),
            live => Err(format!("{live} mappings are left")),
        }
    }
}

//! Tests of the whole stack on the model of ST's SDMMC, whose driver was written independently of
//! the model.

mod bad;
mod bring_up;
mod card_interrupt;
mod data;
mod embassy;
mod faults;
mod odd;
mod open;

use crate::timed::{
    self,
    erased::{Erased, constants},
    one_thread::NOW_NS,
};
use mmcq::card::{self, Card};
use mmcq::engine::{Completion, Config, DmaBuf, Error, Kind, Request, SlotId, Stats};
use mmcq::host::stm32_sdmmc::{self as driver, Pieces};
use mmcq::host::surroundings::Surrounded;
use mmcq_sim::card::Card as CardModel;
use mmcq_sim::faults::{Faults, Plan};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::{Board, Port, Stm32Sdmmc, Stm32SdmmcConfig};
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use timed::blocks as buffer;

/// A controller model (a chip), and the settings of the board around it.
#[derive(Clone, Copy)]
struct Chip {
    model: Stm32SdmmcConfig,
    driver: driver::Stm32SdmmcConfig,
    memory: MemoryConfig,
    resets: bool,
    taps: u8,
    stuck_at: Option<u8>,
    access_ns: u64,
}

impl Chip {
    /// Returns a chip with this controller and all that a board can have, for SD cards.
    fn of(model: Stm32SdmmcConfig) -> Chip {
        let driver = driver::Stm32SdmmcConfig::new(model.kernel_hz)
            .max_clock_hz(200_000_000)
            .high_speed(true)
            .busy_after_data(model.data_end_after_busy)
            .signal18(true);
        Chip {
            model,
            driver,
            memory: MemoryConfig::BITS32,
            resets: true,
            taps: 12,
            stuck_at: None,
            access_ns: 20,
        }
    }

    /// Returns the chip with an eMMC on eight lines at 1.8 V.
    fn emmc(self) -> Chip {
        let driver =
            self.driver.signal18(false).signal18_fixed(true).fixed(true).width(mmcq::host::Width::W8);
        Chip { driver, ..self }
    }

    /// Returns the chip with the settings that this card needs.
    fn holds(self, card: &str) -> Chip {
        if card.contains("emmc") || card == "hbg4a2" { self.emmc() } else { self }
    }
}

type Driver = Surrounded<driver::Stm32Sdmmc<Port, ShadowMemory, Board, 1>, Board>;
type Stack = timed::On<Erased<{ constants::<Driver>() }>>;

/// The stack on the model.
struct Rig {
    time: Time,
    model: Rc<RefCell<Stm32Sdmmc>>,
    memory: ShadowMemory,
    port: Port,
    stack: Stack,
    is_list: bool,
}

impl Rig {
    fn new<const PIECES: usize>(card: Option<Box<dyn CardModel>>, chip: Chip) -> Rig {
        Rig::built::<PIECES>(card, chip).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a rig. With `PIECES` 1 the DMA uses a single buffer, with more a list.
    fn built<const PIECES: usize>(
        card: Option<Box<dyn CardModel>>,
        chip: Chip,
    ) -> Result<Rig, driver::Stm32SdmmcInitError> {
        chip.model.check().unwrap();
        let time = Time::new();
        let memory = ShadowMemory::new(chip.memory);
        let model = Rc::new(RefCell::new(Stm32Sdmmc::new(chip.model, memory.clone(), card)));
        let port = Port::new(model.clone(), time.clone(), chip.access_ns, chip.access_ns);
        let signal18_fixed = chip.driver.signal18_fixed;
        let board = Board {
            resets: chip.resets,
            taps: chip.taps,
            stuck_at: chip.stuck_at,
            signal18_fixed,
            ..Board::new(model.clone(), time.clone())
        };
        let list = Box::leak(Box::new(Pieces::<PIECES>::new()));
        let host = driver::Stm32Sdmmc::new(port.clone(), memory.clone(), board.clone(), list, chip.driver)?;
        let host = Surrounded::new(host, board);
        NOW_NS.set(0);
        Ok(Rig {
            time,
            model,
            memory,
            port,
            stack: timed::on(Erased::new(host), Config::DEFAULT),
            is_list: PIECES > 1,
        })
    }

    /// Returns a rig with a card of this profile in the slot, brought up to `tran`.
    fn up<const PIECES: usize>(card: &str, chip: Chip) -> (Rig, Card) {
        let rig = Rig::new::<PIECES>(Some(timed::card(&timed::profile(card))), chip.holds(card));
        let found = rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{card}: {error}"));
        (rig, found)
    }

    /// Advances to the next interrupt or deadline, and lets the stack handle it.
    fn turn(&self) {
        timed::turn(&self.stack, &self.model, &self.time).unwrap();
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        timed::drive(&self.stack, &self.model, &self.time, future)
    }

    fn bring_up(&self, options: card::Options) -> Result<Card, Error> {
        self.drive(card::bring_up(&self.stack, buffer(1), options)).0
    }

    fn try_submit(&self, kind: Kind, buf: DmaBuf) -> Result<SlotId, Error> {
        let now = self.time.now();
        self.stack.with(|engine| engine.submit(Request::new(kind, buf), now)).map_err(|(error, _)| error)
    }

    fn submit(&self, kind: Kind, buf: DmaBuf) -> SlotId {
        self.try_submit(kind, buf).unwrap()
    }

    fn finish(&self, id: SlotId) -> Completion {
        loop {
            if let Some(done) = self.stack.with(|engine| engine.take(id)) {
                return done;
            }
            self.turn();
        }
    }

    fn mixed_load(&self, sectors: u64, rounds: u64) {
        timed::load::mixed(&self.stack, &self.model, &self.time, sectors, rounds).unwrap();
        assert_eq!(self.memory.live_mappings(), usize::from(self.is_list), "mappings are left");
    }

    fn stats(&self) -> Stats {
        self.stack.with(|engine| *engine.stats())
    }

    /// Applies these faults to the controller and its bus from now on.
    fn faults(&self, plan: Plan) -> Faults {
        let faults = Faults::new(plan);
        self.model.borrow_mut().set_faults(faults.clone());
        faults
    }

    /// Checks that nothing was done that the controller, the card or the memory forbids, and that
    /// no interrupt was missed.
    fn checked(&self) {
        timed::checked(&self.memory, &self.model);
        assert_eq!(self.stats().lost_interrupts, 0);
        let violations = self.model.borrow_mut().card_mut().map(|card| card.violations().to_vec());
        assert_eq!(violations.unwrap_or_default(), []);
    }
}

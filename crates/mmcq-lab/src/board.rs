//! Builds a running machine from files: controller, card, driver and engine, brought up and ready.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod card;

pub use card::{
    SPREAD, card_names, card_profile, card_table, card_text, card_text_with, profile, slot_card, table,
};

use crate::buffers::{self, Pieces};
use crate::controller::{self, Controller};
use crate::ours::{Boot, Context};
use crate::platform::{Advance, Defer, Platform, Profile, Scheduler};
use crate::registers::binary;
use crate::system::{Costs, SleepDepth};
use mmcq::board::NoLock;
use mmcq::card::{Card, Family, Options, SdQueue, bring_up};
use mmcq::engine::{DmaBuf, Error};
use mmcq::sched::{Any, Fifo};
use mmcq::spec::ext_csd::ExtCsd;
use mmcq::task::Timer;
use mmcq_sim::card::{CardProfile, Fill, Medium, ProfileError};
use mmcq_sim::charged::{CallCosts, Charged};
use mmcq_sim::cpu::Delay;
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::time::Time;
use mmcq_sim::world::Device;
use std::cell::{Cell, RefCell};

/// Largest number of successive turns of [`drive`] in which neither controller nor alarm has an
/// event ahead. After more such turns, the stack counts as stuck. A few are normal: a step of the
/// stack that takes no time schedules no event.
const QUIET_MAX: u32 = 100;
/// Longest virtual time in ns that bring-up, or another operation of [`drive`], may take; a longer
/// one counts as failed.
const BRING_UP_LIMIT_NS: u64 = 30_000_000_000;

/// Driver of the board's controller, with CPU costs for its calls.
pub type Driver = Charged<controller::Driver>;

/// Shared handle of mmcq's engine, with the driver of the board.
pub type Stack<const N: usize> = mmcq::task::Stack<(NoLock, Driver, Profile), N>;

thread_local! {
    /// Clock of the board that is being brought up. Afterwards the machine passes the time to the
    /// engine.
    static CLOCK: RefCell<Time> = RefCell::new(Time::new());
    static ALARM: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Clock and alarm that mmcq's stack uses during bring-up.
pub const TIMER: Timer = Timer {
    now_ns: || CLOCK.with(|clock| clock.borrow().now()),
    set_alarm: |at| ALARM.with(|alarm| alarm.set(at)),
};

/// Reasons why a board cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The board's file is not valid.
    #[error(transparent)]
    Platform(#[from] crate::platform::PlatformError),
    /// No built-in card has the requested name.
    #[error("card {name}: unknown; expected a file ending in .toml or one of: {known}")]
    NoCard {
        /// Name of the card that was requested.
        name: String,
        /// Names of the built-in cards.
        known: String,
    },
    /// The card's file cannot be read.
    #[error("card {name}: cannot be read: {source}")]
    CardFile {
        /// Name or path of the card's file, as the user gave it.
        name: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The card is an I/O card (SDIO), which has functions instead of blocks.
    #[error(
        "card {name}: an I/O card without blocks ({description}); expected an SD card or an eMMC; the I/O card that the laboratory runs is bt-type-a, by \
         `mmcq reproduce sdio` and `mmcq trace --sdio`; Linux has it by `mmcq guest` and `mmcq device`"
    )]
    Io {
        /// Name of the card that was requested.
        name: String,
        /// Description of the I/O card, as in its file.
        description: String,
    },
    /// An image was given for an I/O card, which has no blocks.
    #[error("card {name}: an I/O card has no blocks; expected no image")]
    IoImage {
        /// Name of the card that was requested.
        name: String,
    },
    /// No card of the board's own kind can have the size of the image.
    #[error(
        "{image}: the image has {bytes} bytes ({}), and the board's own card, {name}, takes its size; expected {expected}", binary(*bytes)
    )]
    Image {
        /// Path of the image file.
        image: String,
        /// Size of the image in bytes.
        bytes: u64,
        /// Name of the board's own card.
        name: String,
        /// Card sizes that the board's own card could take from the image, as a text for the error
        /// message.
        expected: String,
    },
    /// The image is smaller than the card.
    #[error(
        "card {name}: the card has {capacity} bytes ({}), the image {bytes} ({}); expected an image at least as large (truncate -s {capacity} IMAGE), or no --card: \
         then the board's own card takes the image's size", binary(*capacity), binary(*bytes)
    )]
    Size {
        /// Name of the card that was requested.
        name: String,
        /// Capacity of the card in bytes.
        capacity: u64,
        /// Size of the image in bytes.
        bytes: u64,
    },
    /// A range or an interval in a card's file does not contain the value of its key, or the key
    /// has no value.
    #[error("{key}: {what}")]
    Range {
        /// Key to which the range or the interval belongs.
        key: String,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// A change `--set card.KEY=VALUE` is not valid.
    #[error("--set card.{change}: {what}")]
    Change {
        /// Text of the change as the user gave it, without the prefix `card.`.
        change: String,
        /// Reason why the value cannot be changed in this way.
        what: String,
    },
    /// The card's profile is not valid.
    #[error(transparent)]
    Profile(#[from] mmcq_sim::card::ProfileError),
    /// The memory that holds the card's content cannot be made.
    #[error(transparent)]
    Medium(#[from] mmcq_sim::card::MediumError),
    /// The driver refuses the board's controller.
    #[error("platform {platform}: {error}")]
    Driver {
        /// Name of the board.
        platform: String,
        /// Reason why the driver refuses the controller.
        error: String,
    },
    /// The card cannot be brought up.
    #[error("platform {platform}, card {card}: bring-up failed: {error}{hint}")]
    BringUp {
        /// Name of the board.
        platform: String,
        /// Name of the card.
        card: String,
        /// Reason why the card cannot be brought up.
        error: String,
        /// Possible reason why bring-up failed; empty: none is known.
        hint: &'static str,
    },
}

/// Builds a card with its memory. `card` names a card that replaces the board's own card, and
/// `medium` replaces the generated memory. A named card must fit into the medium; the card does not
/// use the end of a larger medium. The board's own card takes the medium's size.
pub fn card_with(
    platform: &Platform,
    card: Option<&str>,
    medium: Option<Medium>,
) -> Result<(CardProfile, Medium), BoardError> {
    let mut profile = profile(platform, card)?;
    let medium = match medium {
        Some(medium) => {
            let (capacity, bytes) = (profile.capacity_bytes(), medium.bytes());
            match card {
                None if bytes != capacity => {
                    profile = profile.with_capacity_bytes(bytes).map_err(|error| match error {
                        ProfileError::Capacity { name, bytes, expected } => {
                            let image =
                                medium.path().map_or_else(String::new, |path| path.display().to_string());
                            BoardError::Image { image, bytes, name, expected }
                        }
                        error => error.into(),
                    })?;
                }
                Some(name) if bytes < capacity => {
                    return Err(BoardError::Size { name: name.to_owned(), capacity, bytes });
                }
                _ => {}
            }
            medium
        }
        None => Medium::sparse(profile.capacity_bytes(), Fill::Zeros)?,
    };
    Ok((profile, medium))
}

/// Choice of the CPU costs that are charged for the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// The costs in the board's file, which are those of Linux.
    Linux,
    /// The CPU costs of mmcq's own code and register accesses. All other code of the kernel costs
    /// as much as in the board's file, except the dispatch of Linux's queue, which costs nothing.
    Own,
    /// No costs: only the times of wire and card remain.
    Nothing,
}

/// A machine whose card is brought up and in the state `tran`.
pub struct Board<const N: usize> {
    /// mmcq's engine with the driver of the controller.
    pub stack: Stack<N>,
    /// EXT_CSD register of an eMMC, as it was last read; `None`: the card is no eMMC.
    pub ext_csd: Option<Box<[u8; 512]>>,
    /// Model of the controller.
    pub controller: Controller,
    /// Virtual time of the simulated board: controller, card and CPU.
    pub time: Time,
    /// The card that was brought up.
    pub card: Card,
    /// CPU costs of the software around the stack.
    pub costs: Costs,
    /// Number of CPU cores.
    pub cores: u8,
    /// Probability, 0 to 1, that the search for a woken thread's core begins at a random core, and
    /// not at the thread's last one.
    pub migration: f64,
    /// Which requests the host driver completes in a thread, not in its interrupt.
    pub defer: Defer,
    /// Context that calls mmcq's engine (such as the interrupt or a thread), and its costs.
    pub context: Context,
    /// Memory that DMA can reach.
    pub memory: ShadowMemory,
    /// Memory of the buffers that the engine uses for packed commands and for extension registers.
    pub(crate) pages: RefCell<Pieces>,
}

/// Returns the CPU costs of a board for the choice `price`. The parts are: costs of the software,
/// costs of the driver's calls, and the time in ns of a register read and of a register write.
fn costs(platform: &Platform, price: Price) -> (Costs, CallCosts, (u64, u64)) {
    if price == Price::Nothing {
        return Default::default();
    }
    let ns = |name: &str| platform.costs.ns(name);
    let tail_share = platform.shares.value("tail");
    let delay = |name: &str| Delay { mean_ns: ns(name), tail_share, tail_ns: ns("tail") };
    let steady = |name: &str| Delay { mean_ns: ns(name), ..Delay::default() };
    let mut costs = Costs {
        irq_ns: ns("irq"),
        done_ns: ns("done"),
        start_ns: ns("start"),
        poll_ns: ns("poll"),
        dispatch_ns: ns("dispatch"),
        prep_ns: ns("prep"),
        softirq_ns: ns("softirq"),
        syscall: steady("syscall"),
        user: steady("user"),
        job_wake: delay("job_wake"),
        wake: delay("wake"),
        hop: delay("hop"),
        retry_ns: ns("retry"),
        setup_ns: ns("setup"),
        close_ns: ns("stop_pause") + ns("flush"),
        each_ns: ns("each"),
        pin_ns: ns("pin"),
        depth: SleepDepth {
            light_ns: ns("light_sleep"),
            deep_ns: ns("deep_sleep"),
            extra_ns: ns("deep_wake"),
        },
    };
    let mut registers = (0, 0);
    if price == Price::Own {
        let own = |name: &str| (platform.own.value(name) * platform.own.value("cycle_ns")).round() as u64;
        costs.irq_ns = own("interrupt_instructions") + own("ack_instructions");
        costs.start_ns = own("start_instructions");
        costs.poll_ns = own("start_instructions");
        costs.done_ns = own("done_instructions");
        costs.dispatch_ns = 0;
        costs.prep_ns = own("submit_instructions");
        registers = (platform.own.ns("register_read_ns"), platform.own.ns("register_write_ns"));
    }
    let calls = CallCosts {
        start_data_ns: costs.start_ns,
        start_command_ns: costs.poll_ns,
        ack_ns: costs.irq_ns,
        map_ns: 0,
        unmap_ns: 0,
        // A task needs three calls (describe, ring, acknowledge), which together cost as much as
        // starting and acknowledging a transfer. Measured by `tools/guest-time.sh queues`: a random
        // read at depth 8 needs 1267 instructions, 2 register reads and 6 writes in the single
        // lane, and 1391, 2 and 3 with the queue engine. At the costs of the board `hsq-sprd` that
        // is 1.81 us and 1.82 us.
        queue_ns: (costs.start_ns + costs.irq_ns) / 3,
    };
    (costs, calls, registers)
}

/// Returns the context that calls mmcq's engine on this board, with the costs of entering it.
fn context(platform: &Platform, price: Price, costs: &Costs) -> Context {
    let entry_ns = match price {
        Price::Nothing => return Context::default(),
        Price::Own => {
            let cycles = platform.own.value("interrupt_instructions");
            (cycles * platform.own.value("cycle_ns")).round() as u64
        }
        Price::Linux if platform.costs.has("entry") => platform.costs.ns("entry"),
        Price::Linux => costs.irq_ns,
    };
    Context {
        advance: platform.stack.advance,
        entry_ns: entry_ns.min(costs.irq_ns),
        tasklet_ns: platform.costs.ns("tasklet"),
        look_ns: platform.own.ns("register_read_ns"),
    }
}

impl<const N: usize> Board<N> {
    /// Builds a board and brings its card up. `card` and `medium` have the meaning that they have
    /// for [`card_with`].
    pub fn new(
        platform: &Platform,
        card: Option<&str>,
        medium: Option<Medium>,
        price: Price,
    ) -> Result<Self, BoardError> {
        #[cfg(test)]
        crate::counted::built();
        let (profile, medium) = card_with(platform, card, medium)?;
        let time = Time::new();
        let memory =
            ShadowMemory::new(MemoryConfig { natural: buffers::ALIGN_MAX as u64, ..MemoryConfig::BITS32 });
        let (costs, mut calls, registers) = costs(platform, price);
        // The models of Linux have one slot, and their own contexts.
        if N == 1 {
            // The host driver's work item pays the setup once, so it is not part of each call.
            calls.start_data_ns = calls.start_data_ns.saturating_sub(costs.setup_ns);
            calls.start_command_ns = calls.start_command_ns.saturating_sub(costs.setup_ns);
        }
        let context = if N > 1 { context(platform, price, &costs) } else { Context::default() };
        if context.advance != Advance::Irq {
            // The interrupt's entry is charged when the interrupt occurs, not in the
            // acknowledgement.
            calls.ack_ns -= context.entry_ns;
        }
        let card = profile.build(medium)?;
        let (controller, driver) = Controller::new(platform, N > 1, &memory, &time, card, registers)
            .map_err(|error| BoardError::Driver { platform: platform.name.clone(), error })?;
        let host = Charged::new(driver, time.clone(), CallCosts::default());
        let (config, scheduler) = (platform.stack.config(), platform.stack.scheduler);
        // Linux has its own scheduler in front of the engine.
        let scheduler = if N > 1 { scheduler } else { Any::Fifo(Fifo) };
        // The costs of a queue engine's calls were measured in the general path, which rings
        // several tasks at once. So a board with a queue engine uses that path.
        let scheduler = Scheduler::new(scheduler, platform.stack.queue_engine);
        let stack =
            Stack::with_policy(NoLock::new(), TIMER, host, config, crate::platform::profile(scheduler));
        let (card, ext_csd) = start(&stack, &controller, &time).map_err(|error| BoardError::BringUp {
            platform: platform.name.clone(),
            card: profile.name().to_owned(),
            error,
            hint: other_kind(platform, &profile),
        })?;
        stack.with(|engine| {
            // SAFETY: only the costs change, and no call of the driver is running.
            if let Some(host) = unsafe { engine.host_mut() } {
                host.costs = calls;
            }
        });
        controller.take_stats();
        controller.take_work();
        let migration = platform.shares.value("migration");
        let (cores, defer) = (platform.cores, platform.defer_completion);
        Ok(Board {
            stack,
            ext_csd,
            controller,
            time,
            card,
            costs,
            cores,
            migration,
            defer,
            context,
            memory,
            pages: RefCell::default(),
        })
    }

    /// Makes the engine initialise its card again. The data in the card's cache are then lost.
    #[cfg(test)]
    pub fn initialise_again(&self) -> Result<(), String> {
        start(&self.stack, &self.controller, &self.time)?;
        self.enable_extended_ops()
    }

    /// Returns the boot areas of an eMMC; `None` if the card has none.
    pub fn boot(&self) -> Option<Boot> {
        let ext_csd = ExtCsd::parse(self.ext_csd.as_deref()?).ok()?;
        let (config, switch_ns) = (ext_csd.partition_config() & !7, ext_csd.part_switch_time_ns());
        let bytes = ext_csd.boot_bytes();
        (bytes > 0).then_some(Boot { bytes, config, switch_ns })
    }

    /// Enables erases, zeroes and durable writes on the engine.
    pub fn enable_extended_ops(&self) -> Result<(), String> {
        let mut pieces = Pieces::default();
        let scratch = pieces.piece(mmcq::card::SCRATCH_BYTES as usize);
        let future = mmcq::card::enable_extended_ops(&self.stack, &self.card, scratch);
        let (result, scratch) = drive(&self.stack, &self.controller, &self.time, future)?;
        pieces.free(scratch);
        result.map_err(|e| e.to_string())
    }

    /// Enables packed commands: one transfer for several writes, or several reads, of different
    /// places. Returns false if the card or its controller does not support them.
    pub fn enable_packed(&self) -> Result<bool, String> {
        let page = self.pages.borrow_mut().piece(mmcq::card::SCRATCH_BYTES as usize);
        let future = mmcq::card::enable_packed(&self.stack, &self.card, page);
        match drive(&self.stack, &self.controller, &self.time, future)? {
            Ok(before) => {
                self.pages.borrow_mut().free(before);
                Ok(true)
            }
            Err((error, page)) => {
                self.pages.borrow_mut().free(page);
                if error == Error::Unsupported { Ok(false) } else { Err(error.to_string()) }
            }
        }
    }

    /// Makes the engine send reads and writes as chains: lists of several transfers, which the
    /// controller executes without the CPU. Returns false if the controller cannot execute chains.
    pub fn enable_chains(&self) -> bool {
        self.stack.with(|engine| engine.set_chains(u8::MAX))
    }

    /// Returns whether the controller's command queue engine drives the card's queue.
    pub fn has_queue_engine(&self) -> bool {
        let left = self.stack.with(|engine| engine.task_stats().is_some_and(|tasks| tasks.engine.is_some()));
        self.stack.with(|engine| engine.host().is_some_and(|host| host.inner().has_queue_engine())) && !left
    }

    /// Enables the card's command queue for reads and writes. Returns the queue's depth in tasks;
    /// 0: the card has no queue. On an SD card, its cache is enabled, too, if it has one.
    pub fn enable_task_queue(&self) -> Result<u8, String> {
        let mut pieces = Pieces::default();
        let scratch = pieces.piece(mmcq::card::SCRATCH_BYTES as usize);
        if matches!(self.card.family, Family::Sd(_)) {
            return self.enable_sd_task_queue(&mut pieces, scratch);
        }
        let future = mmcq::card::enable_task_queue(&self.stack, &self.card, scratch);
        let (result, scratch) = drive(&self.stack, &self.controller, &self.time, future)?;
        pieces.free(scratch);
        result.map_err(|e| e.to_string())
    }

    fn enable_sd_task_queue(&self, pieces: &mut Pieces, scratch: DmaBuf) -> Result<u8, String> {
        self.stack.with(|engine| engine.enable_extended_ops());
        let page = self.pages.borrow_mut().piece(512);
        let future = mmcq::card::extension::enable_cache(&self.stack, &self.card, page);
        let (error, page) = match drive(&self.stack, &self.controller, &self.time, future)? {
            Ok(before) => (None, before),
            Err((error, page)) => (Some(error), page),
        };
        self.pages.borrow_mut().free(page);
        if let Some(error) = error.filter(|error| *error != Error::Unsupported) {
            return Err(error.to_string());
        }
        // The models of cards are known to support the SD queue; a real card might not.
        let how = SdQueue::DEFAULT.any(true);
        let future = mmcq::card::enable_sd_task_queue(&self.stack, &self.card, scratch, how);
        let (result, scratch) = drive(&self.stack, &self.controller, &self.time, future)?;
        pieces.free(scratch);
        result.map_err(|e| e.to_string())
    }
}

/// Result of bringing a card up: the card, and the EXT_CSD register if the card is an eMMC.
type Found = (Card, Option<Box<[u8; 512]>>);

/// Returns a hint for an error if the card is of another kind (SD or eMMC) than the board's own
/// card; otherwise an empty text.
fn other_kind(platform: &Platform, card: &CardProfile) -> &'static str {
    match (card_profile(&platform.card).is_ok_and(|own| own.is_emmc()), card.is_emmc()) {
        (true, false) => "; the board is made for an eMMC, and this is an SD card",
        (false, true) => "; the board is made for an SD card, and this is an eMMC",
        _ => "",
    }
}

fn start<const N: usize>(stack: &Stack<N>, controller: &Controller, time: &Time) -> Result<Found, String> {
    let mut pieces = Pieces::default();
    let scratch = pieces.piece(mmcq::card::SCRATCH_BYTES as usize);
    let future = async {
        let (result, scratch) = bring_up(stack, scratch, Options::DEFAULT).await;
        let ext_csd = scratch.first_chunk().copied().map(Box::new);
        pieces.free(scratch);
        result.map(|card| (card, ext_csd.filter(|_| matches!(card.family, Family::Emmc(_)))))
    };
    drive(stack, controller, time, future)?.map_err(|e| e.to_string())
}

/// Runs a future of the stack to its end. Virtual time advances whenever the stack waits.
fn drive<const N: usize, F: Future>(
    stack: &Stack<N>,
    controller: &Controller,
    time: &Time,
    future: F,
) -> Result<F::Output, String> {
    CLOCK.with(|clock| *clock.borrow_mut() = time.clone());
    ALARM.with(|alarm| alarm.set(None));
    let mut device = controller.clone();
    let limit_ns = time.now().saturating_add(BRING_UP_LIMIT_NS);
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut quiet = 0;
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Ok(output);
        }
        stack.turn();
        if device.irq() {
            continue;
        }
        let alarm = ALARM.with(Cell::get).map(|at| at.max(time.now()));
        let next = [device.next_event_ns(), alarm].into_iter().flatten().min();
        match next {
            Some(at) if at <= limit_ns => {
                let came = device.advance(at);
                time.set(time.now().max(came));
                quiet = 0;
            }
            // This turn itself may have completed what the future waits for.
            None if quiet < QUIET_MAX => quiet += 1,
            _ => return Err("nothing happens any more".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mmcq::host::{Timing, Width};

    #[test]
    fn every_platform_comes_up_at_its_speed() {
        for (name, timing) in [
            ("hsq-sprd", Timing::Hs400Es),
            ("hsq-sprd-busy", Timing::Hs400Es),
            ("hsq-defer", Timing::Hs400Es),
            ("fifo-allwinner", Timing::Hs200),
            ("fifo-allwinner-busy", Timing::Hs200),
            ("fifo-sdhci", Timing::Hs400),
            ("hsq-nobusy", Timing::Hs200),
            ("stream-rtsx", Timing::Sdr104),
            ("stm32h7-sdmmc", Timing::HighSpeed),
        ] {
            let platform = Platform::load(name).unwrap();
            let board = Board::<64>::new(&platform, None, None, Price::Linux).unwrap();
            let four = matches!(name, "stream-rtsx" | "stm32h7-sdmmc");
            let width = if four { Width::W4 } else { Width::W8 };
            assert_eq!((board.card.timing, board.card.width), (timing, width), "{name}");
            assert_eq!(board.memory.violation_count(), 0, "{name}: {:?}", board.memory.violations());
        }
    }

    /// Checks a bug of the past: the driver divided the 200 MHz of the capability register,
    /// although the board had another clock.
    #[test]
    fn the_driver_divides_the_base_clock_that_the_board_has() {
        for hz in [200_000_000, 104_000_000, 99_500_000] {
            let change = format!("controller.base_clock_hz={hz}");
            let platform = Platform::load_with("hsq-sprd", &[change]).unwrap();
            let board = Board::<64>::new(&platform, None, None, Price::Nothing).unwrap();
            assert_eq!(board.stack.with(|engine| engine.caps().clock_hz.1), hz);
        }
    }

    #[test]
    fn an_unknown_card_is_named() {
        let platform = Platform::load("hsq-sprd").unwrap();
        let error = Board::<8>::new(&platform, Some("hbg4a3"), None, Price::Linux).err().unwrap();
        assert!(error.to_string().contains("hbg4a2"), "{error}");
    }
}

//! Setup of a run's machine: controller, card, and their settings.

use mmcq::card::{Options, Rest, Upkeep};
use mmcq::host::sdhci::{OpenWrites, SdhciQuirks, TransferMode};
use mmcq_sim::card::quirk::{Discarded, Quirks};
use mmcq_sim::card::{CardProfile, TaskOrder};
use mmcq_sim::world::Stream;

/// How the host learns of the end of busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyBy {
    /// By an interrupt.
    Interrupt,
    /// By polling the level of DAT0.
    Level,
    /// By polling the card's status.
    Status,
}

/// Part of the card that requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From sector 0.
    Start,
    /// In the middle.
    Middle,
    /// Up to the last sector.
    End,
}

/// Completions that are handled in a context that may sleep instead of the interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defer {
    /// None.
    Nothing,
    /// Those of reads by DMA; the others are handled in the interrupt.
    Reads,
    /// All completions.
    Everything,
}

impl Defer {
    /// Share of the cases that defer everything; as many defer reads alone.
    const SHARE: f64 = 0.125;

    fn draw(random: &mut Stream) -> Defer {
        match random.unit() {
            drawn if drawn < Self::SHARE => Defer::Reads,
            drawn if drawn < 2.0 * Self::SHARE => Defer::Everything,
            _ => Defer::Nothing,
        }
    }
}

/// Controller of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// An SDHCI.
    Sdhci,
    /// An SDHCI that leaves transfers open, and writes in this way.
    Open(OpenWrites),
    /// Realtek's reader, which leaves transfers open.
    Reader,
    /// Allwinner's mobile storage host.
    Smhc,
    /// DesignWare's mobile storage host.
    DesignWare,
    /// DesignWare's, which leaves transfers open.
    OpenDesignWare,
    /// ST's SDMMC, as in this chip.
    Sdmmc(Chip),
    /// No controller: a card in SPI mode on a bus of its own, where transfers stay open as well.
    Spi,
}

/// A chip with ST's SDMMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// Version 2, with one buffer.
    H7,
    /// Version 2, with a list.
    U5,
    /// Version 3, with a list.
    N6,
}

/// What an unused card does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// It stays ready.
    Ready,
    /// Its clock stops.
    ClockOff,
    /// An eMMC sleeps; of other cards the clock stops.
    Sleeps,
}

/// What the card refuses to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuses {
    /// Nothing.
    Nothing,
    /// Everything, from the end of its life on: it has written a mebibyte.
    Worn,
    /// The mebibyte in the middle of the sectors used.
    Middle,
}

/// Pause in ns after which an unused card rests.
const UNUSED_NS: u64 = 5_000_000;
static CLOCK_OFF: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: UNUSED_NS });
static SLEEPS: Upkeep = Upkeep::DEFAULT.rest(Rest::Sleep { after_ns: UNUSED_NS });
const MIB: u64 = 1 << 20;

/// Settings of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of the card in the campaign's list.
    pub card: usize,
    /// How data are transferred.
    pub transfer: TransferMode,
    /// How the host learns of the end of busy.
    pub busy: BusyBy,
    /// Whether the controller is of version 3.00 instead of 4.20.
    pub old_host: bool,
    /// Whether the controller sends CMD12 by itself.
    pub auto_stop: bool,
    /// Whether the controller sends CMD23 by itself.
    pub auto_count: bool,
    /// Whether CMD23 is used at all.
    pub count: bool,
    /// Completions that are handled in a context that may sleep.
    pub defer: Defer,
    /// Whether the card's volatile cache is on, if it has one.
    pub cache: bool,
    /// Most requests under way at once.
    pub depth: u8,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// Scheduler: 0 first in first out, 1 by deadline, 2 fair.
    pub scheduler: u8,
    /// Size in sectors of the window that requests go to.
    pub window: u32,
    /// Place of the window on the card.
    pub place: Place,
    /// Virtual time at power-on in ns.
    pub start_ns: u64,
    /// Time of a register access in ns, during which the controller continues its work.
    pub access_ns: u8,
    /// Whether request memory lies across SDMA's boundaries.
    pub near_boundary: bool,
    /// Whether faults may strike while the card is brought up.
    pub armed_early: bool,
    /// Whether a supervisor ([`mmcq::card::supervise`]) handles removal and recovery.
    pub supervisor: bool,
    /// Delay in ns after which a CMD12 without busy raises a Transfer Complete of its own; 0: none.
    pub stop_tells_ns: u16,
    /// Controller. Settings that concern an SDHCI alone have no effect on another.
    pub host: Host,
    /// Whether writes are reported complete with their data
    /// ([`Acknowledge::Transferred`](mmcq::engine::Acknowledge::Transferred)).
    pub early: bool,
    /// Whether reads and writes may use the card's command queue or packed commands.
    pub queue: bool,
    /// Number of the controller's command queue engine; 0: software drives the queue.
    pub engine: u8,
    /// Whether transfers go to the controller in chains, which it executes by itself (ADMA3).
    pub chains: bool,
    /// Order in which the card makes tasks ready; `None`: as in its profile.
    pub tasks: Option<TaskOrder>,
    /// Whether erased memory reads as ones.
    pub ones: bool,
    /// What discarded sectors read as.
    pub discarded: Discarded,
    /// Whether erases are secure erases of whole groups and secure trims.
    pub secure: bool,
    /// What an unused card does.
    pub unused: Unused,
    /// Whether the memory of every second request is aligned to 8 bytes only, and the controller
    /// needs 64: such memory is copied.
    pub bounce: bool,
    /// What the card refuses to write.
    pub refuses: Refuses,
    /// Whether an entry of a packed command that fails shows by the exception bit alone.
    pub exception_alone: bool,
}

impl Setup {
    /// A plain machine. The programs of the exhaustive search run on it.
    pub const PLAIN: Setup = Setup {
        card: 0,
        transfer: TransferMode::Adma2,
        busy: BusyBy::Interrupt,
        old_host: false,
        auto_stop: true,
        auto_count: true,
        count: true,
        defer: Defer::Nothing,
        cache: true,
        depth: 4,
        merge: true,
        scheduler: 0,
        window: 16,
        place: Place::Start,
        start_ns: 0,
        access_ns: 0,
        near_boundary: false,
        armed_early: false,
        supervisor: true,
        stop_tells_ns: 0,
        host: Host::Sdhci,
        early: false,
        queue: false,
        engine: 0,
        chains: false,
        tasks: None,
        ones: false,
        discarded: Discarded::Erased,
        secure: false,
        unused: Unused::Ready,
        bounce: false,
        refuses: Refuses::Nothing,
        exception_alone: false,
    };

    /// Returns whether the card can be removed.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        super::run::EVERY_CARD[self.card].starts_with("sd")
    }

    /// Returns whether transfers stay open, and writes are complete before the card was sent their
    /// end.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        matches!(self.host, Host::Reader | Host::Open(_) | Host::OpenDesignWare | Host::Spi)
    }

    /// Returns the driver's quirks that this machine needs.
    #[must_use]
    pub fn quirks(&self) -> SdhciQuirks {
        let some = [
            (self.busy != BusyBy::Interrupt, SdhciQuirks::NO_BUSY_IRQ),
            (self.busy == BusyBy::Status, SdhciQuirks::NO_DAT0_LEVEL),
            (!self.auto_stop, SdhciQuirks::NO_AUTO_CMD12),
            (!self.auto_count, SdhciQuirks::NO_AUTO_CMD23),
            (!self.count, SdhciQuirks::NO_CMD23),
            (self.defer == Defer::Reads, SdhciQuirks::DEFER_READS),
            (self.defer == Defer::Everything, SdhciQuirks::DEFER_COMPLETION),
        ];
        some.iter().filter(|(on, _)| *on).fold(SdhciQuirks::NONE, |all, (_, quirk)| all.with(*quirk))
    }

    /// Draws a machine with this card.
    pub fn draw(random: &mut Stream, card: usize) -> Setup {
        let window = [16, 64, 64, 256][random.below(4) as usize];
        Setup {
            card,
            transfer: [TransferMode::Adma2, TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio]
                [random.below(4) as usize],
            busy: [BusyBy::Interrupt, BusyBy::Interrupt, BusyBy::Level, BusyBy::Status]
                [random.below(4) as usize],
            old_host: random.chance(0.2),
            auto_stop: random.chance(0.7),
            auto_count: random.chance(0.7),
            count: random.chance(0.9),
            defer: Defer::draw(random),
            cache: random.chance(0.7),
            depth: [1, 2, 4, 8, 16, 32][random.below(6) as usize],
            merge: random.chance(0.8),
            scheduler: [0, 0, 1, 2][random.below(4) as usize],
            window,
            place: [Place::Start, Place::Middle, Place::End][random.below(3) as usize],
            // Now and then the nanoseconds are about to pass 32 bits.
            start_ns: if random.chance(0.1) { (1 << 32) - random.below(400_000_000) } else { 0 },
            access_ns: [0, 0, 150][random.below(3) as usize],
            near_boundary: random.chance(0.3),
            armed_early: random.chance(0.1),
            ..Setup::PLAIN
        }
    }

    /// Returns what bring-up and supervisor are told.
    pub(super) fn options(&self) -> Options {
        let options = Options::DEFAULT.cache(self.cache);
        match self.unused {
            Unused::Ready => options,
            Unused::ClockOff => options.upkeep(&CLOCK_OFF),
            Unused::Sleeps => options.upkeep(&SLEEPS),
        }
    }

    /// Changes the card of this profile to the one of the setup.
    pub(super) fn equip(&self, mut profile: CardProfile) -> CardProfile {
        if let Some(order) = self.tasks {
            profile = profile.with_task_order(order);
        }
        if self.exception_alone {
            profile = profile.with_exception_alone();
        }
        let middle_mib = profile.capacity_bytes() / 2 / MIB;
        let quirks: &mut Quirks = profile.quirks_mut();
        quirks.erases_to_ones |= self.ones;
        quirks.discarded = self.discarded;
        match self.refuses {
            Refuses::Nothing => {}
            Refuses::Worn => quirks.life_mib = Some(1),
            Refuses::Middle => quirks.protected_mib = vec![(middle_mib + 1, 1)],
        }
        profile
    }
}

//! Settings of a case's machine: controller, card, and how they are used.

use super::usage::Tuned;
use mmcq::card::{Options, Rest, Upkeep};
use mmcq::host::sdhci::{OpenWrites, SdhciQuirks, TransferMode};
use mmcq_sim::card::quirk::{Discarded, Quirks};
use mmcq_sim::card::{CardProfile, TaskOrder};
use mmcq_sim::world::Stream;

/// How the host notices the end of busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyBy {
    /// The controller reports the end of busy by an interrupt.
    Interrupt,
    /// The host polls the level of DAT0.
    Level,
    /// The host polls the card's status (CMD13) until the card is no longer busy.
    Status,
}

/// Part of the card that requests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first sectors of the card, from sector 0 on.
    Start,
    /// Sectors in the middle of the card.
    Middle,
    /// The last sectors of the card.
    End,
}

/// Which completions the stack handles in a context that may sleep, and not in the interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defer {
    /// The interrupt handler handles all completions.
    Nothing,
    /// Only the completions of reads by DMA are handled later, outside the interrupt handler; all
    /// others are handled in it.
    Reads,
    /// All completions are handled later, outside the interrupt handler.
    Everything,
}

impl Defer {
    /// Share of the cases in which the engine reports all completions outside of the interrupt
    /// (deferred). In as many other cases it defers only those of reads.
    const SHARE: f64 = 0.125;

    fn draw(random: &mut Stream) -> Defer {
        match random.unit() {
            drawn if drawn < Self::SHARE => Defer::Reads,
            drawn if drawn < 2.0 * Self::SHARE => Defer::Everything,
            _ => Defer::Nothing,
        }
    }
}

/// Controller that the simulated board has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// An SDHCI controller.
    Sdhci,
    /// An SDHCI controller that leaves transfers open. The field says how it keeps writes open.
    Open(OpenWrites),
    /// Realtek's card reader. Its driver leaves transfers open: it sends no CMD12 after the last
    /// block, so that the next request can continue the transfer.
    Reader,
    /// Allwinner's mobile storage host.
    Smhc,
    /// DesignWare's mobile storage host.
    DesignWare,
    /// DesignWare's mobile storage host, which leaves transfers open.
    OpenDesignWare,
    /// ST's SDMMC of this chip.
    Sdmmc(Chip),
    /// ST's SDMMC, version 2 with a single buffer. Its driver leaves writes open: no CMD12 follows
    /// the last block, so that the next request can continue the write.
    OpenSdmmc,
    /// A card in SPI mode on its own bus, without an SD controller. A transfer stays open for a
    /// next request that may continue it.
    Spi,
}

/// Chips with ST's SDMMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// Version 2 of the SDMMC, with a single buffer.
    H7,
    /// Version 2 of the SDMMC, with a linked list.
    U5,
    /// Version 3 of the SDMMC, with a linked list.
    N6,
}

/// What happens to a card that is not used for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// The unused card stays ready.
    Ready,
    /// The unused card's clock is stopped.
    ClockOff,
    /// An eMMC is sent to sleep; the clock of other cards is stopped.
    Sleeps,
}

/// Which writes the card refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuses {
    /// The card refuses no writes.
    Nothing,
    /// The card refuses all writes after it has written one mebibyte: it is worn out then.
    Worn,
    /// The card refuses writes to the mebibyte in the middle of the sectors that the case uses.
    Middle,
}

/// Time in ns after which an unused card is sent to sleep or its clock is stopped.
const UNUSED_NS: u64 = 5_000_000;
static CLOCK_OFF: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: UNUSED_NS });
static SLEEPS: Upkeep = Upkeep::DEFAULT.rest(Rest::Sleep { after_ns: UNUSED_NS });
const MIB: u64 = 1 << 20;

/// Settings of a case's machine: its controller, its card, and how they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of the card in [`EVERY_CARD`](super::run::EVERY_CARD), from 0.
    pub card: usize,
    /// How data are transferred (DMA or PIO).
    pub transfer: TransferMode,
    /// How the host notices the end of busy.
    pub busy: BusyBy,
    /// Whether the controller follows version 3.00 of the SDHCI specification instead of 4.20; a
    /// DesignWare controller is then an old one.
    pub old_host: bool,
    /// Whether the controller sends CMD12 automatically.
    pub auto_stop: bool,
    /// Whether the controller sends CMD23 automatically.
    pub auto_count: bool,
    /// Whether the driver uses CMD23 at all.
    pub count: bool,
    /// Which completions the stack handles in a context that may sleep.
    pub defer: Defer,
    /// Whether the card's volatile cache is on, if it has one.
    pub cache: bool,
    /// Largest number of requests that are under way at a time.
    pub depth: u8,
    /// Whether the scheduler merges adjacent requests.
    pub merge: bool,
    /// Scheduler: 0 is first in first out, 1 by deadline, 2 fair, 3 any request by chance, 4 the newest,
    /// 5 reads first.
    pub scheduler: u8,
    /// Size in sectors of the window: the part of the card to which the requests go.
    pub window: u32,
    /// Place on the card of the window of sectors that requests use.
    pub place: Place,
    /// Virtual time at power-on in ns.
    pub start_ns: u64,
    /// Time in ns that a register access takes; the controller continues its work meanwhile.
    pub access_ns: u8,
    /// Whether the memory of requests crosses the boundaries at which SDMA stops.
    pub near_boundary: bool,
    /// Whether faults may strike while the card is brought up.
    pub armed_early: bool,
    /// Whether a supervisor ([`mmcq::card::supervise`]) handles removal and recovery.
    pub supervisor: bool,
    /// Delay in ns after which a CMD12 without busy raises a further Transfer Complete; 0: none.
    pub stop_tells_ns: u16,
    /// Controller of the machine. Most settings for SDHCI controllers have no effect on others.
    pub host: Host,
    /// Whether writes are reported complete when their data are transferred
    /// ([`Acknowledge::Transferred`](mmcq::engine::Acknowledge::Transferred)).
    pub early: bool,
    /// Whether reads and writes may use the card's command queue or packed commands.
    pub queue: bool,
    /// Command queue engine of the controller: 1 has tasks of 64 bits, 2 of 128 bits, and 3 is like
    /// Intel's. 0: no engine, and the stack drives the card's queue.
    pub engine: u8,
    /// Whether the controller gets lists of several transfers (chains), which it executes by itself
    /// (ADMA3).
    pub chains: bool,
    /// Order in which the card makes tasks ready; `None`: the order in its profile.
    pub tasks: Option<TaskOrder>,
    /// Whether erased memory reads as ones.
    pub ones: bool,
    /// What a read of a discarded sector returns.
    pub discarded: Discarded,
    /// Whether erases are secure: secure erase for whole groups, secure trim for others.
    pub secure: bool,
    /// What happens to the card while no request uses it: whether its clock stops, or it sleeps.
    pub unused: Unused,
    /// Whether the memory of every second request is aligned only to 8 bytes while the controller
    /// needs 64; such memory is copied.
    pub bounce: bool,
    /// Which writes the card refuses.
    pub refuses: Refuses,
    /// Whether the card reports a failed entry of a packed command by EXCEPTION_EVENT alone.
    pub exception_alone: bool,
    /// Number of the engine's ordinary calls between two groups of inserted calls (`Meddled`),
    /// which the driver must be able to handle at any time; 0: no calls are inserted. Drivers of
    /// SDHCI controllers, card readers and SPI buses get none.
    pub meddles: u16,
    /// Largest number of blocks that the driver takes at a time; 0: as many as it can.
    pub most_blocks: u16,
    /// Number of sectors of a reliable write of an old eMMC; 0: any number.
    pub reliable_unit: u8,
    /// Whether an SD card does not know CMD25.
    pub singly: bool,
    /// Whether the stack is the small one, which does not recover ([`mmcq::sched::Lean`]).
    pub lean: bool,
    /// Limits and times in the configuration of mmcq's engine; `None`: the default ones.
    pub tuned: Option<Tuned>,
}

impl Setup {
    /// Settings of a plain machine, which executes the sequences of operations of the exhaustive
    /// campaign.
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
        meddles: 0,
        most_blocks: 0,
        reliable_unit: 0,
        singly: false,
        lean: false,
        tuned: None,
    };

    /// Returns whether the card can be removed.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        super::run::EVERY_CARD[self.card].starts_with("sd")
    }

    /// Returns whether transfers stay open, so that a write is complete before the card has seen
    /// its end.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        matches!(self.host, Host::Reader | Host::Open(_) | Host::OpenDesignWare | Host::OpenSdmmc | Host::Spi)
    }

    /// Returns the quirks that the driver needs for this machine.
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

    /// Draws random settings for a machine with this card.
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
            // In some cases the time in ns soon exceeds 32 bits.
            start_ns: if random.chance(0.1) { (1 << 32) - random.below(400_000_000) } else { 0 },
            access_ns: [0, 0, 150][random.below(3) as usize],
            near_boundary: random.chance(0.3),
            armed_early: random.chance(0.1),
            ..Setup::PLAIN
        }
    }

    /// Returns the options for bring-up and supervisor.
    pub(super) fn options(&self) -> Options {
        let options = Options::DEFAULT.cache(self.cache);
        match self.unused {
            Unused::Ready => options,
            Unused::ClockOff => options.upkeep(&CLOCK_OFF),
            Unused::Sleeps => options.upkeep(&SLEEPS),
        }
    }

    /// Changes the profile of a card as the settings want.
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
        quirks.reliable_unit = self.reliable_unit;
        quirks.no_multiple_write |= self.singly;
        match self.refuses {
            Refuses::Nothing => {}
            Refuses::Worn => quirks.life_mib = Some(1),
            Refuses::Middle => quirks.protected_mib = vec![(middle_mib + 1, 1)],
        }
        profile
    }
}

//! The machine of a run: controller, card, and how they are set up.

use mmcq::host::sdhci::{OpenWrites, SdhciQuirks, TransferMode};
use mmcq_sim::card::TaskOrder;
use mmcq_sim::world::Stream;

/// How the host learns of the end of busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyBy {
    /// By interrupt.
    Interrupt,
    /// By looking at DAT0.
    Level,
    /// By asking the card.
    Status,
}

/// Where on the card the requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// From sector 0.
    Start,
    /// In the middle.
    Middle,
    /// Up to the last sector.
    End,
}

/// Which completions wait for a context that may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defer {
    /// None.
    Nothing,
    /// Those of reads by DMA; others are complete in the interrupt.
    Reads,
    /// All.
    Everything,
}

impl Defer {
    /// Everything in so many cases, and reads alone in as many.
    const SHARE: f64 = 0.125;

    fn draw(random: &mut Stream) -> Defer {
        match random.unit() {
            drawn if drawn < Self::SHARE => Defer::Reads,
            drawn if drawn < 2.0 * Self::SHARE => Defer::Everything,
            _ => Defer::Nothing,
        }
    }
}

/// Which controller has the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// An SDHCI.
    Sdhci,
    /// The same that leaves transfers open, and writes in this way.
    Open(OpenWrites),
    /// Realtek's reader, which leaves transfers open.
    Reader,
    /// Allwinner's mobile storage host.
    Smhc,
    /// DesignWare's mobile storage host.
    DesignWare,
    /// ST's SDMMC, as this chip has it.
    Sdmmc(Chip),
    /// None: a card in SPI mode on a bus of its own, where transfers stay open as well.
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

/// The machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of the card in the campaign's list.
    pub card: usize,
    /// How data move.
    pub transfer: TransferMode,
    /// How the end of busy is learned.
    pub busy: BusyBy,
    /// A controller of version 3.00 instead of 4.20.
    pub old_host: bool,
    /// The controller's CMD12 and CMD23 of its own.
    pub auto_stop: bool,
    /// CMD23 of its own.
    pub auto_count: bool,
    /// CMD23 at all.
    pub count: bool,
    /// Which completions wait for a context that may sleep.
    pub defer: Defer,
    /// The card's volatile cache is on, if it has one.
    pub cache: bool,
    /// Requests under way at most.
    pub depth: u8,
    /// Neighbours are joined.
    pub merge: bool,
    /// 0 first in first out, 1 by deadline, 2 fair.
    pub scheduler: u8,
    /// Sectors that requests go to.
    pub window: u32,
    /// Where they are.
    pub place: Place,
    /// The clock at power-on.
    pub start_ns: u64,
    /// Price of a register access: what the controller does goes on meanwhile.
    pub access_ns: u8,
    /// Memory that lies across SDMA's boundaries.
    pub near_boundary: bool,
    /// Things may go wrong while the card is brought up.
    pub armed_early: bool,
    /// A supervisor helps the engine ([`mmcq::card::supervise`]).
    pub supervisor: bool,
    /// A CMD12 without busy brings a Transfer Complete of its own, so much after its answer; 0: it
    /// does not.
    pub stop_tells_ns: u16,
    /// The controller. What is said here of an SDHCI alone is without meaning for another.
    pub host: Host,
    /// Writes are complete with their data
    /// ([`Acknowledge::Transferred`](mmcq::engine::Acknowledge::Transferred)).
    pub early: bool,
    /// Reads and writes may go through the card's command queue, or in packed commands.
    pub queue: bool,
    /// ... and that is driven by the controller's engine: 0 by software, 1 to 3 by an engine, as
    /// the machine has them.
    pub engine: u8,
    /// Transfers go to the controller in chains, which it executes by itself (ADMA3).
    pub chains: bool,
    /// In which order the card has tasks ready; `None`: as its profile says.
    pub tasks: Option<TaskOrder>,
}

impl Setup {
    /// A plain machine: the programs of the bounded search run on it.
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
    };

    /// The card is not soldered.
    #[must_use]
    pub fn is_removable(&self) -> bool {
        super::run::EVERY_CARD[self.card].starts_with("sd")
    }

    /// Transfers stay open, and a write is complete before the card was told of their end.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        matches!(self.host, Host::Reader | Host::Open(_) | Host::Spi)
    }

    /// The driver's quirks that this machine needs.
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

    /// Any machine with this card.
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
            supervisor: true,
            stop_tells_ns: 0,
            host: Host::Sdhci,
            early: false,
            queue: false,
            engine: 0,
            chains: false,
            tasks: None,
        }
    }
}

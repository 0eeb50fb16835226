//! What the engine is told of card and policy, and what it tells of its work.

use super::erase::Erasing;
use super::recover::RecoveryStep;
pub use super::stream::Close;
use crate::sched::slot_set::SlotSet;
use crate::spec::command::sd::Extension;
use crate::spec::quirks::Quirks;
use crate::spec::timing::sd as limits;

/// How a flush reaches the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBy {
    /// The card has no volatile cache switched on: its status says all.
    Status,
    /// CMD6, `FLUSH_CACHE` [eMMC 6.6.31].
    EmmcCache {
        /// Longest time it may take.
        timeout_ns: u64,
    },
    /// The extension register of the performance function [SD 5.8.2]. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops) and
    /// [`Engine::set_page`](super::Engine::set_page).
    SdCache {
        /// The register that starts a flush when bit 0 is written, and keeps that bit until it is
        /// over.
        at: Extension,
        /// Longest time it may take.
        timeout_ns: u64,
    },
}

/// The parameters of a card that reads and writes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardParams {
    /// The card's address on the bus.
    pub rca: u16,
    /// Blocks of 512 bytes.
    pub sectors: u64,
    /// Commands carry block numbers; otherwise bytes.
    pub block_addressed: bool,
    /// Whether the card knows CMD23.
    pub count: bool,
    /// Addresses beyond 32 bits go by CMD22 (SDUC).
    pub extended_address: bool,
    /// Longest wait for the first byte of a read.
    pub read_timeout_ns: u64,
    /// Longest busy after a block.
    pub write_timeout_ns: u64,
    /// How to flush.
    pub flush: FlushBy,
    /// Nothing may be written: the switch of the card, or a bit of its CSD.
    pub protected: bool,
    /// The paths that this card needs otherwise than its standard says.
    pub quirks: Quirks,
    /// Whether the card is an eMMC, which has other partitions to visit.
    pub emmc: bool,
}

setters!(CardParams {
    rca: u16,
    sectors: u64,
    block_addressed: bool,
    count: bool,
    extended_address: bool,
    read_timeout_ns: u64,
    write_timeout_ns: u64,
    flush: FlushBy,
    protected: bool,
    quirks: Quirks,
    emmc: bool,
});

impl CardParams {
    /// An SD card of more than 2 GB that knows CMD23, with the standard's longest waits: for programs
    /// that know their card and do not [bring it up](crate::card::bring_up).
    pub const fn sd(rca: u16, sectors: u64) -> CardParams {
        CardParams {
            rca,
            sectors,
            count: true,
            read_timeout_ns: limits::READ_NS,
            write_timeout_ns: limits::WRITE_XC_NS,
            ..Self::NONE
        }
    }

    /// A card without blocks and abilities, for the fields that one does not care about.
    pub const NONE: CardParams = CardParams {
        rca: 0,
        emmc: false,
        sectors: 0,
        block_addressed: true,
        count: false,
        extended_address: false,
        read_timeout_ns: 0,
        write_timeout_ns: 0,
        flush: FlushBy::Status,
        protected: false,
        quirks: Quirks::NONE,
    };
}

/// The parameters of a card for all but reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// Sectors of a reliable write [eMMC 6.6.12]: 0 there is none, [`u32::MAX`] any number, else 1
    /// or so many from a multiple of it on. Only asked where a cache is on.
    pub reliable_blocks: u32,
    /// How to erase.
    pub erase: Erasing,
}

setters!(Abilities { reliable_blocks: u32, erase: Erasing });

impl Abilities {
    /// None.
    pub const NONE: Abilities = Abilities { reliable_blocks: 0, erase: Erasing::NONE };

    /// Not told yet: [`card::enable_extended_ops`](crate::card::enable_extended_ops) does.
    pub const UNKNOWN: Abilities =
        Abilities { reliable_blocks: 0, erase: Erasing { unit_blocks: 0, ..Erasing::NONE } };

    /// Has the engine been told?
    pub const fn are_known(&self) -> bool {
        self.erase.unit_blocks != 0
    }

    /// May a write of these blocks be a reliable one?
    pub(super) fn reliable(&self, lba: u64, blocks: u32) -> bool {
        match self.reliable_blocks {
            0 => false,
            u32::MAX => true,
            unit => blocks == 1 || blocks == unit && lba.is_multiple_of(unit.into()),
        }
    }
}

/// When an ordinary write is complete. Durable writes, zeroes and whatever is no read or write are
/// complete as ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// When a status of the card shows that it was programmed. An error in that status is the
    /// write's own result.
    #[default]
    Programmed,
    /// When the card has taken its data with a good CRC. The card may still be busy with them, and
    /// no status is asked for: the next command's tells, or CMD13 before a flush, a barrier and a
    /// rest, or once nothing has gone to the card for a millisecond.
    ///
    /// *What is given up:* a write that the card could not program is told as done. Its client has
    /// its memory back, so nothing can be written again. The error is not lost: the next flush
    /// fails with it ([`Error::Program`](super::Error::Program)), once, and [`Stats::unowned`]
    /// counts it. If the card loses its supply before the status came, the next flush or durable
    /// write fails with [`Error::CacheLost`](super::Error::CacheLost). So a client that needs its
    /// data must flush, or write durably, as with a volatile cache. After a flush that went well,
    /// all writes before it are on the medium.
    ///
    /// *What stays:* flush, barriers, durable writes, erase, other partitions, and the order of
    /// requests on the same blocks. Hosts that do not tell the end of busy gain most: the next
    /// request is on its way while the card programs. Linux's software queue tells all writes like
    /// this.
    ///
    /// Firmware whose profile [does not recover](crate::sched::Profile::RECOVERS) has no flush that
    /// could tell of it, and keeps to `Programmed`.
    Transferred,
}

/// When a transfer stays open for what may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaysOpen {
    /// Never: each transfer is closed.
    Never,
    /// While what continues it is queued, and in pauses after which the next request has gone on
    /// often enough to pay for the others.
    #[default]
    WherePays,
    /// In each pause, whatever comes after it: for runs alone, and for measurements.
    Always,
}

/// The three numbers of the queue, and what may be joined.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Requests that may be in the engine at a time (at most N).
    pub admitted: u8,
    /// Requests that are mapped for DMA ahead of their turn.
    pub prepared: u8,
    /// Blocks in a merged transfer at most; the host's limits apply as well. 1 switches merging
    /// off.
    pub merge_blocks: u32,
    /// ... and as soon as a request would join that came in later than one which stays behind: so
    /// long may those that follow keep the oldest waiting more. Longer runs that go before the
    /// oldest request have fewer blocks than that together; what continues an open transfer, than
    /// four times that.
    pub fair_blocks: u32,
    /// A write is completed when the card's next status shows that it was programmed. If the next
    /// transfer is longer than this many blocks, CMD13 asks first, so that no client waits for a
    /// long read to learn the fate of a short write.
    pub settle_blocks: u32,
    /// When a write is complete.
    pub acknowledge: Acknowledge,
    /// When a transfer stays open for the next request; hosts that can
    /// [continue](crate::host::Caps::continue_data) only.
    pub stays_open: StaysOpen,
    /// How long a transfer is held open at most while nothing waits, in nanoseconds. Whatever comes
    /// ends that at once. 0: a transfer stays open only while what continues it is queued already.
    pub hold_ns: u64,
    /// Writes in an open transfer are complete before the card's status is known. So long after the
    /// first of them the transfer is closed, and the card asked, also if requests would continue it;
    /// in nanoseconds. A loss of supply takes no more than what was written in that time, and since.
    pub owed_ns: u64,
    /// How long the start of a transfer is held at most for the requests that are about to continue
    /// it, in nanoseconds; the engine learns when that pays
    /// ([`Engine::holds`](super::Engine::holds)). 0: never. Firmware whose profile says so
    /// ([`Profile::Tails`](crate::sched::Profile::Tails)) does not carry that at all.
    pub tail_ns: u32,
    /// Phases of I/O functions in a row while memory requests wait; then one of those gets its
    /// turn.
    pub io_burst: u8,
    /// How long the bus is kept for the next step of a chain of I/O phases while memory requests
    /// wait, in nanoseconds.
    pub chain_ns: u64,
    /// A piece of an erase keeps the others waiting for about so long, in nanoseconds: the first by
    /// what the card declares, later ones by what they took.
    pub erase_budget_ns: u64,
    /// A host [without a card interrupt](crate::host::Host::CARD_IRQ) has an I/O card asked so
    /// often: the shortest and the longest time between two looks, in nanoseconds. It is halved
    /// when a function wants attention, and grows by [`CARD_IRQ_STEP_NS`] when none does. The rule
    /// and the 10 ms are those of Linux's `sdio_irq_thread`. Linux's shortest time is none; ours
    /// leaves 98 % of the bus free (a CMD52 takes 5 us at 25 MHz).
    pub card_irq_looks_ns: (u64, u64),
}

setters!(Config {
    admitted: u8,
    prepared: u8,
    merge_blocks: u32,
    fair_blocks: u32,
    settle_blocks: u32,
    acknowledge: Acknowledge,
    stays_open: StaysOpen,
    hold_ns: u64,
    owed_ns: u64,
    tail_ns: u32,
    io_burst: u8,
    chain_ns: u64,
    erase_budget_ns: u64,
    card_irq_looks_ns: (u64, u64),
});

/// See [`Config::card_irq_looks_ns`]: Linux's jiffy at 1000 Hz, in nanoseconds.
pub const CARD_IRQ_STEP_NS: u64 = 1_000_000;

impl Config {
    /// Everything the host can do.
    pub const DEFAULT: Config = Config {
        admitted: u8::MAX,
        prepared: u8::MAX,
        merge_blocks: u32::MAX,
        fair_blocks: 1024,
        settle_blocks: 128,
        acknowledge: Acknowledge::Programmed,
        stays_open: StaysOpen::WherePays,
        hold_ns: 150_000_000,
        owed_ns: 1_000_000_000,
        tail_ns: 2_000_000,
        io_burst: 8,
        chain_ns: 50_000,
        erase_budget_ns: 250_000_000,
        card_irq_looks_ns: (250_000, 10_000_000),
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A counter of [`Stats`]: 64 bits where a pointer has 64, else 32. It begins again at 0 when it is
/// full.
#[cfg(target_pointer_width = "64")]
pub type Count = u64;
/// A counter of [`Stats`]: 64 bits where a pointer has 64, else 32. It begins again at 0 when it is
/// full.
#[cfg(not(target_pointer_width = "64"))]
pub type Count = u32;

/// Counters of what has happened since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Requests accepted.
    pub requests: Count,
    /// Data transfers started for reads and writes.
    pub transfers: Count,
    /// Requests that went out in another request's transfer.
    pub merged: Count,
    /// Phases started.
    pub phases: Count,
    /// Calls of `on_irq` that found an event.
    pub interrupts: Count,
    /// Calls of `on_irq` that found nothing.
    pub spurious: Count,
    /// Phases that were found complete only when their deadline had passed.
    pub lost_interrupts: Count,
    /// Phases that failed.
    pub faults: Count,
    /// Questions to a busy card (CMD13 or DAT0).
    pub busy_polls: Count,
    /// Writes whose status had to be asked by a CMD13 of its own.
    pub status_asked: Count,
    /// Starts refused because the lines were still in use, tried again later.
    pub start_retries: Count,
    /// Late errors that came when no write was waiting for its status: there was none, or it was
    /// complete ([`Acknowledge::Transferred`], open transfers).
    pub unowned: Count,
    /// Buffers that were not taken back before their slot was needed.
    pub leaked: Count,
    /// Transfers that went on in an open one, without a command.
    pub continued: Count,
    /// Open transfers closed, by [`Close`].
    pub closed: [Count; Close::COUNT],
    /// Attempts to continue that failed and were made again with a command.
    pub not_continued: Count,
    /// Commands sent beside the data of a phase.
    pub concurrent: Count,
    /// Steps of recovery, by [`RecoveryStep`].
    pub recovery_steps: [Count; RecoveryStep::COUNT],
    /// Times that completed writes were lost with the card's cache.
    pub cache_lost: Count,
    /// Pieces of erases.
    pub erase_pieces: Count,
    /// Durable writes that needed a flush of their own.
    pub durable_flushes: Count,
    /// Tunings because it was time, and not because of damage.
    pub tunings: Count,
    /// Background works of a card that were done to their end because it asked for them.
    pub background_works: Count,
    /// Times that an unused card was put to rest ([`Rest`](crate::card::Rest)).
    pub rests: Count,
}

impl Stats {
    pub(crate) const ZERO: Self = Stats {
        requests: 0,
        transfers: 0,
        merged: 0,
        phases: 0,
        interrupts: 0,
        spurious: 0,
        lost_interrupts: 0,
        faults: 0,
        busy_polls: 0,
        status_asked: 0,
        start_retries: 0,
        unowned: 0,
        leaked: 0,
        continued: 0,
        closed: [0; Close::COUNT],
        not_continued: 0,
        concurrent: 0,
        recovery_steps: [0; RecoveryStep::COUNT],
        cache_lost: 0,
        erase_pieces: 0,
        durable_flushes: 0,
        tunings: 0,
        background_works: 0,
        rests: 0,
    };
}

/// The result of a call, and what the platform has to do about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "clients may wait for these completions, and the engine wants to be called again"]
#[non_exhaustive]
pub struct PollOutcome {
    /// Slots whose completion can be taken now, one bit each; a bit is reported once.
    pub completed: SlotSet,
    /// Completions wait for a [`poll`](super::Engine::poll) from a context that may unmap
    /// ([`Caps::defer_completion`](crate::host::Caps::defer_completion)).
    pub deferred: bool,
    /// A card function asks for attention.
    pub card_irq: bool,
    /// The supervisor is needed ([`card::supervise`](crate::card::supervise)).
    pub help: bool,
    /// Call [`poll`](super::Engine::poll) at this time.
    pub next_deadline_ns: Option<u64>,
}

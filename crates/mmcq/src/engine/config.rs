//! Parameters of the card, settings of the engine, and counters of its work.

use super::erase::Erasing;
use super::recover::RecoveryStep;
pub use super::runs::Close;
use crate::sched::slot_set::SlotSet;
use crate::spec::command::sd::Extension;
use crate::spec::quirks::Quirks;
use crate::spec::timing::sd as limits;

/// How the engine flushes the cache of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBy {
    /// The card has no volatile cache switched on: a flush only reads the card's status (CMD13).
    Status,
    /// CMD6 writes `FLUSH_CACHE` in EXT_CSD [eMMC 6.6.31].
    EmmcCache {
        /// Longest time of the flush, in nanoseconds.
        timeout_ns: u64,
    },
    /// The extension register of the performance function [SD 5.8.2]. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops) and
    /// [`Engine::set_page`](super::Engine::set_page).
    SdCache {
        /// The register that starts a flush when bit 0 is written. The bit stays set until the
        /// flush is over.
        at: Extension,
        /// Longest time of the flush, in nanoseconds.
        timeout_ns: u64,
    },
}

/// The parameters of a card that reads and writes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CardParams {
    /// The card's relative address (RCA) on the bus.
    pub rca: u16,
    /// Size of the card in blocks of 512 bytes.
    pub sectors: u64,
    /// Whether commands carry block numbers; if false, they carry byte addresses.
    pub block_addressed: bool,
    /// Whether the card knows CMD23.
    pub count: bool,
    /// Whether addresses beyond 32 bits are sent by CMD22 (SDUC).
    pub extended_address: bool,
    /// Longest wait for the first byte of a read, in nanoseconds.
    pub read_timeout_ns: u64,
    /// Longest busy after a written block, in nanoseconds.
    pub write_timeout_ns: u64,
    /// How to flush the card's cache.
    pub flush: FlushBy,
    /// Whether the card is write-protected, by its switch or by a bit of its CSD.
    pub protected: bool,
    /// The quirks of the card: the standard paths that do not work with it.
    pub quirks: Quirks,
    /// Whether the card is an eMMC. An eMMC has boot, RPMB and general purpose partitions besides
    /// the user area.
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
    /// Returns the parameters of an SD card of more than 2 GB that knows CMD23, with the standard's
    /// longest waits. `rca`: the card's relative address; `sectors`: its size in blocks of 512
    /// bytes. For programs that know their card and do not [bring it up](crate::card::bring_up).
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

    /// The parameters of a card without blocks and abilities, as a base for literals.
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

/// Abilities of a card in addition to reads and writes: reliable writes, and erases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// Blocks of a reliable write [eMMC 6.6.12]. 0: the card has no reliable writes. [`u32::MAX`]:
    /// any number of blocks. Any other value: a reliable write has one block, or exactly this many
    /// that begin at a multiple of this number. Used only where a cache is on.
    pub reliable_blocks: u32,
    /// How the card erases.
    pub erase: Erasing,
}

setters!(Abilities { reliable_blocks: u32, erase: Erasing });

impl Abilities {
    /// The abilities of a card that can only read and write.
    pub const NONE: Abilities = Abilities { reliable_blocks: 0, erase: Erasing::NONE };

    /// The abilities are not known yet:
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) sets them.
    pub const UNKNOWN: Abilities =
        Abilities { reliable_blocks: 0, erase: Erasing { unit_blocks: 0, ..Erasing::NONE } };

    /// Returns whether the card's abilities were read: false for [`UNKNOWN`](Self::UNKNOWN).
    pub const fn are_known(&self) -> bool {
        self.erase.unit_blocks != 0
    }

    /// Returns whether a write of these blocks may be a reliable write.
    pub(super) fn reliable(&self, lba: u64, blocks: u32) -> bool {
        match self.reliable_blocks {
            0 => false,
            u32::MAX => true,
            unit => blocks == 1 || blocks == unit && lba.is_multiple_of(unit.into()),
        }
    }
}

/// When an ordinary write is complete. Durable writes, zeroes and all kinds but reads and writes do
/// not depend on this setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// A write is complete when a status of the card shows that it was programmed. An error in that
    /// status is the write's own result.
    #[default]
    Programmed,
    /// A write is complete when the card has taken its data with a good CRC. The card may still be
    /// busy with them. The engine sends no CMD13 for this write: the response of the next command
    /// shows its status. If no command follows, CMD13 reads the status before a flush, before a
    /// barrier, before the card is put to [rest](crate::card::Rest), and when no command has been
    /// sent for a millisecond.
    ///
    /// *The cost:* a write that the card could not program is reported as done. Its client has its
    /// memory back, so the engine cannot write the data again. The error is not lost: the next
    /// flush fails with it ([`Error::Program`](super::Error::Program)), once, and
    /// [`Stats::unowned`] counts it. If the card loses power before the status came, the next flush
    /// or durable write fails with [`Error::CacheLost`](super::Error::CacheLost). So a client that
    /// needs its data must flush, or write durably, as with a volatile cache. After a flush that
    /// went well, all writes before it are on the medium.
    ///
    /// *Unchanged:* flush, barriers, durable writes, erase, other partitions, and the order of
    /// requests on the same blocks.
    ///
    /// *The gain:* it is largest on hosts that do not signal the end of busy, since the next
    /// request comes while the card programs. Linux's software queue reports all writes in this
    /// way.
    ///
    /// Firmware whose profile [does not recover](crate::sched::Profile::RECOVERS) has no flush that
    /// could report the error. Such firmware always uses `Programmed`.
    Transferred,
}

/// When a transfer stays open: whether the engine leaves it without an end after its last block, so
/// that requests which continue it need no new command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StaysOpen {
    /// Never: the engine closes each transfer when its requests are done.
    Never,
    /// A transfer stays open while a request that continues it is queued. It also stays open during
    /// a pause, if that has saved more time than it has cost in earlier pauses: the engine measures
    /// both.
    #[default]
    WherePays,
    /// A transfer stays open in each pause, also if later requests do not continue it. For purely
    /// sequential loads, and for measurements.
    Always,
}

/// The limits of the queue, of merging, and of delays.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Largest number of requests that may be in the engine at a time; N, the number of its slots,
    /// at most.
    pub admitted: u8,
    /// Largest number of requests whose memory is mapped for DMA before their turn comes.
    pub prepared: u8,
    /// Most blocks of a merged transfer; the host's limits apply as well. 1 switches merging off.
    pub merge_blocks: u32,
    /// Most blocks of a merged transfer if it contains a younger request while an older one stays
    /// behind. So this limits how much longer the oldest request waits because of younger ones.
    ///
    /// On a host that can continue a transfer, a run (contiguous requests) that is longer than the
    /// run of the oldest request may also start before it. All such runs together have fewer blocks
    /// than this, or than four times this if one of them continues an open transfer.
    pub fair_blocks: u32,
    /// Longest transfer, in blocks, that may start while the status of earlier writes is not known.
    /// A write is complete when the card's next status shows that it was programmed. If the next
    /// transfer is longer than this, an extra CMD13 reads the status first, so that the client of a
    /// short write does not wait for a long read.
    pub settle_blocks: u32,
    /// When a write is complete: when it is programmed, or when its data are transferred.
    pub acknowledge: Acknowledge,
    /// The rule when a transfer stays open, so that the next request can continue it. It has an
    /// effect only if the host can [continue](crate::host::Caps::continue_data) transfers.
    pub stays_open: StaysOpen,
    /// Longest time in nanoseconds that a transfer stays open (its CMD18 or CMD25 is not ended)
    /// while no request waits. Any request ends that time at once, either by continuing the
    /// transfer or by closing it. 0: a transfer stays open only while a request that continues it
    /// is queued.
    pub hold_ns: u64,
    /// Longest time from the first write in an open transfer until the transfer is closed and the
    /// card's status is read, in nanoseconds. Writes in an open transfer are complete before that
    /// status is known. The transfer is closed then even if requests would continue it. A loss of
    /// power loses no writes that are older than this time.
    pub owed_ns: u64,
    /// Longest time, in nanoseconds, by which the start of a transfer is delayed so that requests
    /// that are about to come can join it. From measured times the engine computes when a delay
    /// saves time ([`Engine::holds`](super::Engine::holds)). 0: no start is delayed. The profile
    /// ([`Profile::Tails`](crate::sched::Profile::Tails)) may leave this code out of the firmware.
    pub tail_ns: u32,
    /// Largest number of I/O function commands (each with its data) in a row while reads or writes
    /// of memory wait; then one of these gets its turn.
    pub io_burst: u8,
    /// Longest time, in nanoseconds, that the bus is reserved for the next command of an I/O
    /// function's driver ([`Chain::More`](crate::sdio::Chain)) while reads and writes of memory
    /// wait.
    pub chain_ns: u64,
    /// Time that one piece of an erase should take, in nanoseconds; other requests wait for it. The
    /// first piece is sized by what the card declares, later ones by the time that pieces took.
    pub erase_budget_ns: u64,
    /// The shortest and the longest time between two polls for the card's interrupt, in
    /// nanoseconds, with an I/O card on a host [without a card
    /// interrupt](crate::host::Host::CARD_IRQ). The time is halved when a poll finds that a
    /// function requests attention, and grows by [`CARD_IRQ_STEP_NS`] when it finds none. This rule
    /// and the longest time of 10 ms come from Linux's `sdio_irq_thread`. Linux has no shortest
    /// time. The default of 250 us leaves 98 % of the bus free: a CMD52 takes 5 us at 25 MHz.
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

/// Step by which the time between polls grows ([`Config::card_irq_looks_ns`]): Linux's jiffy at
/// 1000 Hz, in nanoseconds.
pub const CARD_IRQ_STEP_NS: u64 = 1_000_000;

impl Config {
    /// Default settings: they use everything that the host can do.
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

/// A counter of [`Stats`]: 64 bits where a pointer has 64, else 32. It wraps to 0.
#[cfg(target_pointer_width = "64")]
pub type Count = u64;
/// A counter of [`Stats`]: 64 bits where a pointer has 64, else 32. It wraps to 0.
#[cfg(not(target_pointer_width = "64"))]
pub type Count = u32;

/// Counters of what has happened since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Number of requests that the engine accepted.
    pub requests: Count,
    /// Number of data transfers that were started for reads and writes.
    pub transfers: Count,
    /// Number of requests that were merged: sent in the transfer of another request.
    pub merged: Count,
    /// Number of phases (commands, with their data if they have any) that were started.
    pub phases: Count,
    /// Number of calls of `on_irq` that found an event.
    pub interrupts: Count,
    /// Number of calls of `on_irq` that found no event.
    pub spurious: Count,
    /// Number of commands (with their data and busy) that were found complete only when their
    /// deadline had passed.
    pub lost_interrupts: Count,
    /// Number of phases (commands with their data and busy) that failed.
    pub faults: Count,
    /// Number of polls of a busy card (CMD13 or DAT0).
    pub busy_polls: Count,
    /// Number of writes after which the engine sent an extra CMD13, only to read their status.
    pub status_asked: Count,
    /// Number of starts that the driver refused because the lines were still in use; each was tried
    /// again later.
    pub start_retries: Count,
    /// Number of late errors (errors of earlier writes) that came when no write was waiting for its
    /// status. Either no write had been sent, or the writes were already complete
    /// ([`Acknowledge::Transferred`], open transfers).
    pub unowned: Count,
    /// Number of buffers that were lost because the caller had not taken them back when another
    /// request needed their slot.
    pub leaked: Count,
    /// Number of transfers that continued a multi-block transfer which the card still had open, so
    /// that no new command was sent.
    pub continued: Count,
    /// Number of open transfers that were closed, for each reason ([`Close`]).
    pub closed: [Count; Close::COUNT],
    /// How often an open transfer could not be continued for a new request, so that the request was
    /// sent again with a command of its own.
    pub not_continued: Count,
    /// Number of commands that were sent during the data transfer of another command.
    pub concurrent: Count,
    /// Number of steps that recovery took, for each [`RecoveryStep`].
    pub recovery_steps: [Count; RecoveryStep::COUNT],
    /// How many times completed writes were lost with the card's cache.
    pub cache_lost: Count,
    /// Number of pieces of erases that were begun.
    pub erase_pieces: Count,
    /// Number of durable writes that needed a flush of their own.
    pub durable_flushes: Count,
    /// Number of tunings that were made because the last one was too long ago, and not because of
    /// damaged data.
    pub tunings: Count,
    /// Number of background operations that a card requested and that were run to their end.
    pub background_works: Count,
    /// How many times an unused card was put into a [`Rest`](crate::card::Rest).
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

/// The result of a call, and what the platform has to do next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "clients may wait for these completions, and the engine wants to be called again"]
#[non_exhaustive]
pub struct PollOutcome {
    /// Slots whose completion can be taken now, bit n for slot n; each bit is reported only one
    /// time.
    pub completed: SlotSet,
    /// Whether completions wait for a [`poll`](super::Engine::poll) from a context that may unmap
    /// ([`Caps::defer_completion`](crate::host::Caps::defer_completion)).
    pub deferred: bool,
    /// Whether a function of the I/O card requests attention.
    pub card_irq: bool,
    /// Whether the supervisor is needed ([`card::supervise`](crate::card::supervise)).
    pub help: bool,
    /// Time of the next [`poll`](super::Engine::poll), in nanoseconds; `None`: none is needed.
    pub next_deadline_ns: Option<u64>,
}

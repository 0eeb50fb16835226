//! The scheduler that sends batches in address order, with an expiry for each direction.
//!
//! Source: the published behaviour and defaults of Linux' mq-deadline, without its priority classes
//! and zones. The defaults: reads expire after 500 ms, writes after 5 s, two read batches go before
//! a write batch, and a batch has 16 requests.
//!
//! A batch has requests of one direction, and proceeds to higher addresses only. A batch ends when
//! it is full, or when no request of its direction has a higher address. The next batch is reads,
//! unless reads have gone before waiting writes `writes_starved` times. A batch starts with the
//! oldest request of its direction if that request has expired, or if no request begins at or above
//! the end of this direction's last transfer. Otherwise the batch continues upwards from that end.
//!
//! # Bound
//! The bound is counted in transfers, that is, in calls of `pick` whose result was sent; merged
//! requests are included in them. Let b be `batch` and s `writes_starved`. A request that has
//! expired, while k older ones of its direction wait, is sent
//!
//! - a read: after at most b · (1 + k + ⌈(k + 1) / s⌉) other transfers;
//! - a write: after at most b · (1 + k + s · (k + 1)) other transfers.
//!
//! For the oldest request (k = 0) the bounds are 2 b for a read and (1 + s) b for a write: 32 and
//! 48 with the defaults.
//!
//! Why: a batch has at most b transfers. One batch may be running. From then on every batch of the
//! direction starts with its oldest request, since all older requests have expired too. So the
//! request is at the latest the first of batch k + 1. Between two write batches there are at most s
//! batches of reads. While reads wait, a write batch comes only after s read batches during which
//! writes waited.
//!
//! Cost: each pick makes one pass over the waiting requests, with about 30 instructions for each.
//! For a request that waits alone, all calls together take 130 instructions (x86-64, optimised).
//! State and settings take 48 bytes.

use super::{Choice, ConfigError, Policy, Waiting};
use crate::host::Direction;

/// The settings of [`Deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineConfig {
    read_expire_ns: u64,
    write_expire_ns: u64,
    writes_starved: u8,
    batch: u8,
}

impl DeadlineConfig {
    /// Reads expire after 500 ms, writes after 5 s; 2 read batches may go before waiting writes; a
    /// batch has 16 requests.
    pub const DEFAULT: DeadlineConfig = DeadlineConfig {
        read_expire_ns: 500_000_000,
        write_expire_ns: 5_000_000_000,
        writes_starved: 2,
        batch: 16,
    };

    /// Makes the settings.
    /// - `read_expire_ns`, `write_expire_ns`: a request expires after this time, in nanoseconds.
    ///   With 0 every batch starts with the oldest request.
    /// - `writes_starved`: number of read batches that may go before waiting writes, 1 to 255 (0
    ///   would starve reads).
    /// - `batch`: most requests in a batch, 1 to 255.
    pub const fn new(
        read_expire_ns: u64,
        write_expire_ns: u64,
        writes_starved: u8,
        batch: u8,
    ) -> Result<DeadlineConfig, ConfigError> {
        if let Err(error) = ConfigError::check("deadline.writes_starved", writes_starved as u64, 1, 255) {
            return Err(error);
        }
        if let Err(error) = ConfigError::check("deadline.batch", batch as u64, 1, 255) {
            return Err(error);
        }
        Ok(DeadlineConfig { read_expire_ns, write_expire_ns, writes_starved, batch })
    }
}

impl Default for DeadlineConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The request that the scheduler has picked, stored until the engine sends it. A picked request
/// that is not sent changes nothing else.
#[derive(Clone, Copy, Debug)]
struct Proposal {
    index: u8,
    /// Whether the proposed request starts a new batch; if not, it continues the batch in progress.
    starts: bool,
    /// Whether the proposed request starts a batch of reads although writes wait.
    passes_writes: bool,
}

/// The scheduler of mq-deadline's kind: sends batches in address order, and first the requests that
/// have waited longer than an expiry time; see [the module](self).
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    config: DeadlineConfig,
    /// The direction of the batch in progress.
    direction: Direction,
    /// Number of transfers sent in the batch in progress.
    batched: u8,
    /// Number of read batches that went before waiting writes since the last write batch.
    starved: u8,
    proposal: Option<Proposal>,
    read_from_lba: u64,
    write_from_lba: u64,
}

/// The waiting requests of one direction (reads or writes).
#[derive(Clone, Copy, Default)]
struct Side {
    /// Slot index and arrival time of the oldest request.
    oldest: Option<(u8, u64)>,
    /// Slot index and first block of the lowest request at or above the end of the direction's last
    /// transfer.
    above: Option<(u8, u64)>,
}

impl Side {
    fn see(&mut self, request: &Waiting, from_lba: u64) {
        self.oldest.get_or_insert((request.index, request.arrived_ns));
        if request.lba >= from_lba && self.above.is_none_or(|(_, best_lba)| request.lba < best_lba) {
            self.above = Some((request.index, request.lba));
        }
    }
}

impl Deadline {
    /// Makes a scheduler without requests.
    pub const fn new(config: DeadlineConfig) -> Self {
        Deadline {
            config,
            direction: Direction::Read,
            batched: config.batch,
            starved: 0,
            proposal: None,
            read_from_lba: 0,
            write_from_lba: 0,
        }
    }

    /// Returns the request that a new batch of this direction starts with. That is the oldest
    /// request if it has expired, or if no request begins at or above the end of this direction's
    /// last transfer. Otherwise it is the request with the lowest address from that end on.
    fn start_of(side: &Side, expire_ns: u64, now_ns: u64) -> Option<u8> {
        let (oldest, arrived_ns) = side.oldest?;
        let expired = arrived_ns.saturating_add(expire_ns) <= now_ns;
        Some(side.above.filter(|_| !expired).map_or(oldest, |(index, _)| index))
    }
}

impl Policy for Deadline {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        let (mut reads, mut writes) = (Side::default(), Side::default());
        for request in waiting {
            match request.direction {
                Direction::Read => reads.see(&request, self.read_from_lba),
                Direction::Write => writes.see(&request, self.write_from_lba),
            }
        }
        let current = match self.direction {
            Direction::Read => &reads,
            Direction::Write => &writes,
        };
        if let Some((index, _)) = current.above
            && self.batched < self.config.batch
        {
            self.proposal = Some(Proposal { index, starts: false, passes_writes: false });
            return Choice::Go(index);
        }
        let passes_writes = writes.oldest.is_some();
        let writes_due = passes_writes && self.starved >= self.config.writes_starved;
        if let Some(index) = Self::start_of(&reads, self.config.read_expire_ns, now_ns)
            && !writes_due
        {
            self.proposal = Some(Proposal { index, starts: true, passes_writes });
            return Choice::Go(index);
        }
        let Some(index) = Self::start_of(&writes, self.config.write_expire_ns, now_ns) else {
            return Choice::IdleUntil(now_ns);
        };
        self.proposal = Some(Proposal { index, starts: true, passes_writes: false });
        Choice::Go(index)
    }

    /// Returns whether the picked request may be delayed until `until_ns`: only if it expires
    /// later.
    fn bears(&self, picked: &Waiting, until_ns: u64) -> bool {
        let expire_ns = match picked.direction {
            Direction::Read => self.config.read_expire_ns,
            Direction::Write => self.config.write_expire_ns,
        };
        until_ns < picked.arrived_ns.saturating_add(expire_ns)
    }

    fn sent(&mut self, request: &Waiting, _now_ns: u64) {
        let end_lba = request.lba.saturating_add(u64::from(request.blocks));
        let from_lba = match request.direction {
            Direction::Read => &mut self.read_from_lba,
            Direction::Write => &mut self.write_from_lba,
        };
        let Some(picked) = self.proposal.take_if(|picked| picked.index == request.index) else {
            // The request was sent in the transfer of another request.
            if request.lba == *from_lba {
                *from_lba = end_lba;
            }
            return;
        };
        *from_lba = end_lba;
        if !picked.starts {
            self.batched = self.batched.saturating_add(1);
            return;
        }
        self.batched = 1;
        self.direction = request.direction;
        match request.direction {
            Direction::Write => self.starved = 0,
            Direction::Read if picked.passes_writes => self.starved = self.starved.saturating_add(1),
            Direction::Read => {}
        }
    }

    fn cancelled(&mut self, request: &Waiting) {
        self.proposal.take_if(|picked| picked.index == request.index);
    }
}

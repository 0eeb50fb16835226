//! Runs fio jobs on a board, in virtual time.

use crate::board::{Board, BoardError, Price};
use crate::fio::offsets::Seeds;
use crate::fio::script::Op;
use crate::fio::stats::{Cpu as FioCpu, Stats};
use crate::fio::{ParseError, Worker as FioWorker};
use crate::platform::Platform;
use crate::system::Stuck;
use mmcq::engine::FlushBy;
use mmcq::host::Caps;
use mmcq_sim::card::Medium;
use mmcq_sim::cpu::Counts;
use mmcq_sim::sdhci::BusStats;

pub(crate) mod chances;
mod limit;
mod load;
mod meaning;
mod pace;
pub mod place;
mod rules;
pub(crate) mod served;
mod steady;
pub mod waiting;

pub use chances::Chances;
use load::Load;
pub use load::is_partition;
pub use pace::{Pace, allowed_mib_per_s};
use place::{Serve, Visit};
pub use served::{Keeping, Served};
pub use steady::Steady;
pub use waiting::Waiting;

/// Slots of our engine.
const SLOTS: usize = mmcq::engine::SLOTS_MAX;

/// Which stack serves the jobs, and at what price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Linux without a queue.
    None,
    /// Linux's software queue, in the order of tags.
    HsqTag,
    /// Linux's software queue, first in first out.
    HsqFifo,
    /// Linux's own use of the card's command queue, by the controller's engine.
    LinuxCqe,
    /// Linux on a host that can continue data: every multi-block request is ended by CMD12.
    Close,
    /// The same with the STREAM thread's patch: a transfer stays open until a request does not
    /// continue it.
    Patch,
    /// Ours, at Linux's prices.
    Mmcq,
    /// Ours, at the price of its own path.
    MmcqOwn,
    /// Ours at Linux's prices, told to complete writes with their data
    /// ([`mmcq::engine::Acknowledge::Transferred`]).
    MmcqEarly,
    /// The same at the price of its own path.
    MmcqEarlyOwn,
    /// Ours at Linux's prices, with the command queue of the card.
    Tasks,
    /// The same at the price of its own path.
    TasksOwn,
    /// Ours at Linux's prices: the command queue of the card by the controller's engine, for all
    /// that it can be used for.
    Cqe,
    /// The same at the price of its own path.
    CqeOwn,
    /// Ours at Linux's prices: the command queue where it pays, by the engine if there is one.
    Auto,
    /// The same at the price of its own path.
    AutoOwn,
    /// Ours at Linux's prices, with packed commands.
    Packed,
    /// The same at the price of its own path.
    PackedOwn,
    /// Ours at Linux's prices, in chains that the controller executes.
    Adma3,
    /// The same at the price of its own path.
    Adma3Own,
    /// What wire and card allow: software that costs nothing, and perfect batches.
    Limit,
}

impl Setting {
    /// All of them.
    pub const ALL: [Setting; 21] = [
        Setting::None,
        Setting::HsqTag,
        Setting::HsqFifo,
        Setting::LinuxCqe,
        Setting::Close,
        Setting::Patch,
        Setting::Mmcq,
        Setting::MmcqOwn,
        Setting::MmcqEarly,
        Setting::MmcqEarlyOwn,
        Setting::Tasks,
        Setting::TasksOwn,
        Setting::Cqe,
        Setting::CqeOwn,
        Setting::Auto,
        Setting::AutoOwn,
        Setting::Packed,
        Setting::PackedOwn,
        Setting::Adma3,
        Setting::Adma3Own,
        Setting::Limit,
    ];

    /// Its name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Setting::None => "none",
            Setting::HsqTag => "hsq-tag",
            Setting::HsqFifo => "hsq-fifo",
            Setting::LinuxCqe => "linux-cqe",
            Setting::Close => "close",
            Setting::Patch => "patch",
            Setting::Mmcq => "mmcq",
            Setting::MmcqOwn => "mmcq-own",
            Setting::MmcqEarly => "mmcq-early",
            Setting::MmcqEarlyOwn => "mmcq-early-own",
            Setting::Tasks => "tasks",
            Setting::TasksOwn => "tasks-own",
            Setting::Cqe => "cqe",
            Setting::CqeOwn => "cqe-own",
            Setting::Auto => "auto",
            Setting::AutoOwn => "auto-own",
            Setting::Packed => "packed",
            Setting::PackedOwn => "packed-own",
            Setting::Adma3 => "adma3",
            Setting::Adma3Own => "adma3-own",
            Setting::Limit => "limit",
        }
    }

    /// It stands for Linux, and not for our engine.
    pub fn is_linux(self) -> bool {
        use Setting::{Close, HsqFifo, HsqTag, LinuxCqe, None, Patch};
        matches!(self, None | HsqTag | HsqFifo | LinuxCqe | Close | Patch)
    }

    /// Whether what the setting does makes writes durable on a card that is flushed so. Linux's
    /// settings send the flush of an eMMC, but that of the reader, whose cards are SD; and where no
    /// cache is on, there is nothing to send.
    pub(crate) fn may_flush(self, flush: FlushBy) -> bool {
        match flush {
            FlushBy::Status => true,
            FlushBy::EmmcCache { .. } => !matches!(self, Setting::Close | Setting::Patch),
            FlushBy::SdCache { .. } => !self.is_linux(),
        }
    }

    fn price(self) -> Price {
        match self {
            Setting::None | Setting::HsqTag | Setting::HsqFifo | Setting::LinuxCqe => Price::Linux,
            Setting::Close | Setting::Patch | Setting::Mmcq | Setting::MmcqEarly => Price::Linux,
            Setting::Tasks | Setting::Cqe | Setting::Auto => Price::Linux,
            Setting::Packed | Setting::Adma3 => Price::Linux,
            Setting::MmcqOwn | Setting::MmcqEarlyOwn | Setting::TasksOwn => Price::Own,
            Setting::CqeOwn | Setting::AutoOwn | Setting::PackedOwn | Setting::Adma3Own => Price::Own,
            Setting::Limit => Price::Nothing,
        }
    }

    /// Why the setting cannot run on a host: what it lacks, and the settings that can.
    fn misses(self, caps: &Caps) -> Option<&'static str> {
        match self {
            Setting::Close | Setting::Patch if !caps.continue_data => Some(
                "cannot continue the data of an open transfer; expected setting none, hsq-tag or hsq-fifo",
            ),
            Setting::None | Setting::HsqTag | Setting::HsqFifo if !caps.auto_stop => {
                Some("sends no CMD12 by itself; expected setting close or patch")
            }
            _ => None,
        }
    }
}

impl std::str::FromStr for Setting {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Setting::ALL.map(Setting::name).join(", ");
        let found = Setting::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or_else(|| format!("setting {name}: unknown; expected one of: {names}"))
    }
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The board.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// A job that does not fit.
    #[error(transparent)]
    Job(#[from] ParseError),
    /// The files of all jobs do not fit the card.
    #[error("file {name}: {bytes} bytes do not fit the card; {left} bytes are left")]
    Space {
        /// The file.
        name: String,
        /// Its size.
        bytes: u64,
        /// What is left.
        left: u64,
    },
    /// Jobs are in the user area.
    #[error("file {name}: a partition of its own on the card, {why}")]
    Partition {
        /// The device.
        name: String,
        /// Why jobs do not go there, and where they do.
        why: String,
    },
    /// The settings of the reader send no flush to a card with a cache, and none of Linux's sends one
    /// to an SD card.
    #[error(
        "job {job}: fsync, fdatasync, sync or end_fsync with setting {setting} on a card with a cache; expected setting mmcq, mmcq-own or limit, \
         a card without a cache, or --set job.fsync=0"
    )]
    Flush {
        /// Which job.
        job: String,
        /// The setting.
        setting: &'static str,
    },
    /// The settings that stand for Linux discard nothing; some flush no cache.
    #[error(
        "setting {setting} has not all that the trace has; expected setting mmcq, mmcq-own or limit, or --without {without}"
    )]
    Recorded {
        /// The setting.
        setting: &'static str,
        /// What it does not have.
        without: String,
    },
    /// The card cannot do more than read, write and flush.
    #[error("card {card}: discards and durable writes: {found}; expected --without discard,fua")]
    Extended {
        /// The card.
        card: String,
        /// Why.
        found: String,
    },
    /// The board's host is not one that this setting was made for.
    #[error("platform {platform}, setting {setting}: the host {misses} (or mmcq, mmcq-own, limit)")]
    Host {
        /// The board.
        platform: String,
        /// The setting.
        setting: &'static str,
        /// What it lacks, and what to use instead.
        misses: &'static str,
    },
    /// The card has no command queue.
    #[error(
        "card {card}, setting {setting}: no command queue: {found}; expected an eMMC with one (emmc-queue, say)"
    )]
    Queue {
        /// The card.
        card: String,
        /// The setting.
        setting: &'static str,
        /// What was found instead.
        found: String,
    },
    /// Nothing is packed there.
    #[error(
        "card {card}, setting {setting}: no packed commands: {found}; expected an eMMC that takes them (emmc-packed, say)"
    )]
    Packed {
        /// The card.
        card: String,
        /// The setting.
        setting: &'static str,
        /// What was found instead.
        found: String,
    },
    /// The controller executes no chains.
    #[error("platform {platform}, setting {setting}: no ADMA3; expected a board with it (adma3-sprd, say)")]
    Chains {
        /// The board.
        platform: String,
        /// The setting.
        setting: &'static str,
    },
    /// A lost completion.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The stack touched memory that it must not touch.
    #[error("DMA violation: {0}")]
    Memory(String),
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The jobs, expanded.
    pub workers: &'a [FioWorker],
    /// The board.
    pub platform: &'a Platform,
    /// Another card than the board's.
    pub card: Option<&'a str>,
    /// The stack.
    pub setting: Setting,
    /// Seed of everything random that is not fio's own.
    pub seed: u64,
}

/// What was counted besides fio's statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// I/Os.
    pub ios: u64,
    /// Data commands.
    pub transfers: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// The bus.
    pub bus: BusStats,
    /// The CPU.
    pub cpu: Counts,
    /// Register reads and writes.
    pub accesses: (u64, u64),
    /// From the first submission to the last completion.
    pub elapsed_ns: u64,
    /// Cores.
    pub cores: u8,
    /// I/Os that failed.
    pub failed: u64,
    /// No job had work for the bus: no I/O was with the stack, and the wires were quiet.
    pub waiting_ns: u64,
    /// No request was with the stack.
    pub without_ns: u64,
    /// Context switches of each job's own thread.
    pub job_switches: Vec<u64>,
    /// What requests could have been joined with when they came.
    pub chances: Chances,
    /// The card is an eMMC.
    pub emmc: bool,
    /// What the stack itself counted.
    pub stack: Served,
    /// The rate without beginning and end.
    pub steady: Steady,
    /// Bytes over time.
    pub pace: Pace,
}

impl Counters {
    /// Counts what another run on the same board has done as well. Times and rates stay.
    fn add(&mut self, other: &Counters) {
        self.ios += other.ios;
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.bus.add(&other.bus);
        self.cpu.interrupts += other.cpu.interrupts;
        self.cpu.switches += other.cpu.switches;
        self.cpu.wakeups += other.cpu.wakeups;
        self.cpu.deferred += other.cpu.deferred;
        self.cpu.busy_ns += other.cpu.busy_ns;
        self.accesses.0 += other.accesses.0;
        self.accesses.1 += other.accesses.1;
        self.failed += other.failed;
    }

    /// Mean of 4 KiB units in a transfer.
    pub fn merge(&self) -> f64 {
        self.bytes as f64 / 4096.0 / self.transfers.max(1) as f64
    }

    /// Share of the time in which wire or card were at work for a request.
    pub fn bus_share(&self) -> f64 {
        self.bus.physical_ns() as f64 / self.elapsed_ns.max(1) as f64
    }

    /// Share of the CPU's time that was left.
    pub fn idle_share(&self) -> f64 {
        1.0 - self.cpu.busy_ns as f64 / (self.elapsed_ns.max(1) as f64 * f64::from(self.cores.max(1)))
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Statistics of each worker, in order.
    pub stats: Vec<Stats>,
    /// The workers' states, for logs and verify errors.
    pub verify_errors: Vec<String>,
    /// fio's log files: name and content.
    pub logs: Vec<(String, String)>,
    /// Counters.
    pub counters: Counters,
    /// Another seed may give another outcome. It does not where this is false, as it may be at the
    /// limit.
    pub seeded: bool,
}

impl Outcome {
    /// All workers as one group.
    pub fn group(&self) -> Stats {
        let mut all = Stats::default();
        for stats in &self.stats {
            all.sum(stats);
        }
        all
    }
}

/// Runs the jobs. `medium` instead of generated memory; `progress` is told bytes moved and planned,
/// now and then.
pub fn run(
    run: &Run<'_>,
    medium: Option<Medium>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, RunError> {
    match run.setting {
        Setting::Limit => limit::run(run, medium, progress),
        _ => place::on(run, medium, Jobs { progress }),
    }
}

/// fio's jobs, for any board.
struct Jobs<'p> {
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Jobs<'_> {
    /// The settings that stand for Linux discard nothing. Those with a block driver for SDHCI flush the
    /// cache of an eMMC, and no other.
    fn refused(run: &Run<'_>, flush: FlushBy) -> Option<RunError> {
        // Without a cache Linux's block layer ends a flush at once.
        let flushes_well = run.setting.may_flush(flush);
        let has = |w: &FioWorker, op| w.script.as_ref().is_some_and(|script| script.has(op));
        let barriers = [(Op::Flush, "flush"), (Op::WriteDurable, "fua")];
        let mut refused = vec![(Op::Discard, "discard")];
        refused.extend(barriers.into_iter().filter(|_| !flushes_well));
        refused.retain(|(op, _)| run.workers.iter().any(|w| has(w, *op)));
        if !refused.is_empty() {
            let without = refused.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(",");
            return Some(RunError::Recorded { setting: run.setting.name(), without });
        }
        let flushes =
            |w: &&FioWorker| w.job.fsync > 0 || w.job.fdatasync > 0 || w.job.end_fsync || w.job.sync;
        let worker = run.workers.iter().find(flushes).filter(|_| !flushes_well)?;
        Some(RunError::Flush { job: worker.job.name.clone(), setting: run.setting.name() })
    }
}

impl Visit for Jobs<'_> {
    type Out = Outcome;

    fn visit<const N: usize>(self, run: &Run<'_>, board: Board<N>) -> Result<Outcome, RunError>
    where
        Board<N>: Serve<N>,
    {
        if N == 1
            && let Some(error) = Jobs::refused(run, board.card.params.flush)
        {
            return Err(error);
        }
        on_board(run, board, self.progress)
    }
}

fn on_board<const N: usize>(
    run: &Run<'_>,
    board: Board<N>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, RunError>
where
    Board<N>: Serve<N>,
{
    let wants = |op| run.workers.iter().any(|w| w.script.as_ref().is_some_and(|script| script.has(op)));
    if N > 1 && (wants(Op::Discard) || wants(Op::WriteDurable)) {
        board.enable_extended_ops().map_err(|found| {
            let card = run.card.unwrap_or(&run.platform.card).to_owned();
            RunError::Extended { card, found }
        })?;
    }
    let sectors = board.card.params.sectors;
    let waiting = Waiting::new(board.time.now());
    let boot_bytes = board.boot().map(|boot| boot.bytes);
    let mut load = Load::new(run, (sectors, boot_bytes), waiting.clone(), progress)?;
    if load.reads_boot() {
        // Linked where the settings are ours, which alone get here.
        board.stack.with(|engine| engine.enable_extended_ops());
    }
    let ended = place::machine(run, board, &mut load, waiting, run.workers.len() as u32)?;
    let place::Ended { mut counters, end_ns, seeded } = ended;
    counters.pace = std::mem::take(&mut load.pace);
    let seeded = seeded || run.workers.iter().any(|worker| Seeds::are_of_run(&worker.job));
    let (mut verify_errors, mut logs) = (Vec::new(), Vec::new());
    let mut stats = Vec::new();
    for (state, worker) in load.states.iter_mut().zip(run.workers) {
        verify_errors.extend(state.verify_errors().iter().map(ToString::to_string));
        stats.push(state.finish(end_ns, FioCpu::default()));
        if let Some(kept) = state.logs() {
            logs.extend(kept.files(worker.thread_number, &worker.files));
        }
    }
    Ok(Outcome { stats, verify_errors, logs, counters, seeded })
}

#[cfg(test)]
mod tests;

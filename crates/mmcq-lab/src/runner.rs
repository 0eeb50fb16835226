//! Runs fio jobs on a board, in virtual time.

use crate::board::{Board, BoardError, Price};
use crate::fio::offsets::Seeds;
use crate::fio::script::Op;
use crate::fio::stats::{Cpu as FioCpu, Stats};
use crate::fio::{ParseError, Worker as FioWorker};
use crate::platform::Platform;
use crate::system::{Stuck, Workload};
use mmcq::engine::FlushBy;
use mmcq::host::Caps;
use mmcq_sim::card::Medium;
use mmcq_sim::card::flash::Work;
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
#[cfg(all(feature = "outside", target_os = "linux"))]
pub(crate) use load::{boot_area, readable};
pub use pace::{Pace, allowed_mib_per_s};
use place::{Serve, Visit};
pub use served::{Keeping, Served};
pub use steady::Steady;
pub use waiting::Waiting;

/// Number of request slots of mmcq's engine in a run.
const SLOTS: usize = mmcq::engine::SLOTS_MAX;

/// Which stack serves the jobs: Linux or mmcq, in which configuration, and with which CPU costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Linux's block driver without the software queue (HSQ): it prepares one request while the one
    /// before is transferred.
    None,
    /// Linux's software queue (HSQ); the next request is the one with the next tag number.
    HsqTag,
    /// Linux's software queue (HSQ); the next request is the one that arrived first.
    HsqFifo,
    /// Linux's driver for the card's command queue (CQE, command queue engine), on a controller
    /// with such an engine (CQHCI).
    LinuxCqe,
    /// Linux on a host that can continue a transfer without a new command. Each multi-block request
    /// ends with CMD12 nevertheless.
    Close,
    /// Linux with a proposed patch, on a host that can continue a transfer without a new command: a
    /// transfer stays open until a request comes that does not continue it.
    Patch,
    /// mmcq with Linux's CPU costs.
    Mmcq,
    /// mmcq with the CPU costs of its own code.
    MmcqOwn,
    /// mmcq with Linux's CPU costs. Writes are complete when their data are transferred
    /// ([`mmcq::engine::Acknowledge::Transferred`]).
    MmcqEarly,
    /// [`Setting::MmcqEarly`] with the CPU costs of mmcq's own code.
    MmcqEarlyOwn,
    /// mmcq with Linux's CPU costs; software drives the card's command queue, whose entries are
    /// called tasks.
    Tasks,
    /// [`Setting::Tasks`] with the CPU costs of mmcq's own code.
    TasksOwn,
    /// mmcq with Linux's CPU costs; the controller's command queue engine (CQE) drives the card's
    /// queue, for all requests that the engine can handle.
    Cqe,
    /// [`Setting::Cqe`] with the CPU costs of mmcq's own code.
    CqeOwn,
    /// mmcq with Linux's CPU costs; the card's command queue is used where that is faster, driven
    /// by the controller's queue engine if there is one.
    Auto,
    /// [`Setting::Auto`] with the CPU costs of mmcq's own code.
    AutoOwn,
    /// mmcq with Linux's CPU costs and packed commands.
    Packed,
    /// [`Setting::Packed`] with the CPU costs of mmcq's own code.
    PackedOwn,
    /// mmcq with Linux's CPU costs and chains: lists of several transfers that the controller
    /// executes (ADMA3).
    Adma3,
    /// [`Setting::Adma3`] with the CPU costs of mmcq's own code.
    Adma3Own,
    /// Physical limit, which wire and card allow: software costs nothing, and each batch is as long
    /// as the jobs' depth and the host allow.
    Limit,
}

impl Setting {
    /// All settings that a run can have: which stack serves the jobs, and whose CPU costs count.
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

    /// Returns the name of the setting in commands and reports.
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

    /// Returns whether the setting is a model of Linux; false for mmcq's engine and the limit.
    pub fn is_linux(self) -> bool {
        use Setting::{Close, HsqFifo, HsqTag, LinuxCqe, None, Patch};
        matches!(self, None | HsqTag | HsqFifo | LinuxCqe | Close | Patch)
    }

    /// Returns whether a flush with this setting makes writes durable on a card that is flushed by
    /// `flush`. Linux's settings can flush the cache of an eMMC, except `Close` and `Patch`. They
    /// cannot flush the cache of an SD card. Without a cache there is nothing to flush.
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

    /// Returns the reason why the setting cannot run on a host with the capabilities `caps`, and
    /// which settings can run there; `None`: the setting can run.
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

/// Reason why a run did not end normally.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The board cannot be built.
    #[error(transparent)]
    Board(#[from] BoardError),
    /// A job is not valid, or its file does not fit on the card.
    #[error(transparent)]
    Job(#[from] ParseError),
    /// The files of all jobs do not fit the card.
    #[error("file {name}: {bytes} bytes do not fit the card; {left} bytes are left")]
    Space {
        /// Name of the job's file that does not fit.
        name: String,
        /// Size in bytes of the job's file that does not fit.
        bytes: u64,
        /// Number of bytes that other files leave on the card for this file.
        left: u64,
    },
    /// A job names a partition of the card other than the user area, which the laboratory does not
    /// support for this job (see `why`).
    #[error("file {name}: a partition of its own on the card, {why}")]
    Partition {
        /// Path of the partition's device.
        name: String,
        /// Reason why the job cannot use the partition, and what it can use instead.
        why: String,
    },
    /// The setting cannot do the flush that the job asks for. If the card has a cache, `Close` and
    /// `Patch` cannot flush it, and no setting of Linux can flush that of an SD card.
    #[error(
        "job {job}: fsync, fdatasync, sync or end_fsync with setting {setting} on a card with a cache; expected setting mmcq, mmcq-own or limit, \
         a card without a cache, or --set job.fsync=0"
    )]
    Flush {
        /// Name of the job.
        job: String,
        /// Name of the setting (the stack and its scheduler) that cannot execute the job's flushes.
        setting: &'static str,
    },
    /// The setting does not support some requests of the recorded trace: models of Linux discard
    /// nothing, and some cannot flush a cache.
    #[error(
        "setting {setting} has not all that the trace has; expected setting mmcq, mmcq-own or limit, or --without {without}"
    )]
    Recorded {
        /// Name of the setting (the compared stack) that cannot replay the trace.
        setting: &'static str,
        /// Kinds of requests that are not supported, as a list with commas (such as
        /// `discard,flush`).
        without: String,
    },
    /// The card supports only read, write and flush, but a job needs other requests, such as an
    /// erase.
    #[error("card {card}: discards and durable writes: {found}; expected --without discard,fua")]
    Extended {
        /// Name of the card.
        card: String,
        /// Reason why the card supports neither discards nor durable writes.
        found: String,
    },
    /// The board's host lacks a capability that the setting needs.
    #[error("platform {platform}, setting {setting}: the host {misses} (or mmcq, mmcq-own, limit)")]
    Host {
        /// Name of the board.
        platform: String,
        /// Name of the setting (the compared stack) that needs the capability.
        setting: &'static str,
        /// What the host lacks, and which setting to use instead.
        misses: &'static str,
    },
    /// The card has no command queue, or the controller has no engine that the setting needs.
    #[error(
        "card {card}, setting {setting}: no command queue: {found}; expected an eMMC with one (emmc-queue, say)"
    )]
    Queue {
        /// Name of the card that has no usable command queue.
        card: String,
        /// Name of the setting (stack and configuration) that was to run.
        setting: &'static str,
        /// What the card or the controller has instead of a command queue that the setting can use.
        found: String,
    },
    /// The card or the controller supports no packed commands.
    #[error(
        "card {card}, setting {setting}: no packed commands: {found}; expected an eMMC that takes them (emmc-packed, say)"
    )]
    Packed {
        /// Name of the card.
        card: String,
        /// Name of the setting (the stack, and the context in which it runs).
        setting: &'static str,
        /// What the card or the controller has instead of what the setting needs.
        found: String,
    },
    /// The board's controller cannot execute chains (ADMA3), which the setting needs.
    #[error("platform {platform}, setting {setting}: no ADMA3; expected a board with it (adma3-sprd, say)")]
    Chains {
        /// Name of the board.
        platform: String,
        /// Name of the setting (the stack, and the context in which it runs).
        setting: &'static str,
    },
    /// A completion was lost, so that jobs wait for ever.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The stack accessed memory that it must not access; the text says where.
    #[error("DMA violation: {0}")]
    Memory(String),
    /// The run was asked to end early ([`mmcq_sim::parallel::Stop`]).
    #[error("stopped before its end")]
    Stopped,
}

/// Input of a run: jobs, board, card, setting and seed.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Workers of the jobs: one for each thread, so a job with `numjobs=4` has four.
    pub workers: &'a [FioWorker],
    /// Board on which the jobs run.
    pub platform: &'a Platform,
    /// Name of the card that replaces the board's own; `None`: the board's own card.
    pub card: Option<&'a str>,
    /// Stack that serves the jobs.
    pub setting: Setting,
    /// Seed of all random numbers of the models. fio's random numbers come from fio's own seeds.
    pub seed: u64,
}

/// Counters of a run, in addition to fio's statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Number of I/Os of all jobs.
    pub ios: u64,
    /// Number of flushes that the jobs asked for, including those of durable writes.
    pub flushes: u64,
    /// Number of commands with data that the host sent to the card.
    pub transfers: u64,
    /// Number of bytes transferred between host and card.
    pub bytes: u64,
    /// Counters of the bus: commands, and times in which the bus was in use or waited.
    pub bus: BusStats,
    /// Work inside the card's flash that the bus does not show, such as garbage collection.
    pub work: Work,
    /// Counters of the CPU: interrupts, context switches, wake-ups, busy time.
    pub cpu: Counts,
    /// Number of register reads, and number of register writes, of the host driver.
    pub accesses: (u64, u64),
    /// Time in ns from the first submission to the last completion.
    pub elapsed_ns: u64,
    /// Number of CPU cores.
    pub cores: u8,
    /// Number of I/Os and flushes of all jobs that failed.
    pub failed: u64,
    /// Time in ns in which the stack had no I/O and the wires were quiet: no job had work for the
    /// bus.
    pub waiting_ns: u64,
    /// Time in ns in which the stack had no request.
    pub without_ns: u64,
    /// For each job, the number of context switches of the job's own thread.
    pub job_switches: Vec<u64>,
    /// For each request, whether it could have been merged with another one when it arrived,
    /// counted by reason.
    pub chances: Chances,
    /// Whether the card is an eMMC.
    pub emmc: bool,
    /// Counters of the stack that served the jobs, such as merged requests.
    pub stack: Served,
    /// Rate of the run, measured without its beginning and its end.
    pub steady: Steady,
    /// Bytes transferred over time. With them the run is compared with the run that gives the
    /// physical limit.
    pub pace: Pace,
}

impl Counters {
    /// Adds the counts of another run on the same board to these counters. Fields that are no
    /// counts, such as the elapsed time, the waiting times and the rates, keep the values of this
    /// run.
    fn add(&mut self, other: &Counters) {
        self.ios += other.ios;
        self.flushes += other.flushes;
        self.work.add(&other.work);
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

    /// Returns the mean size of a transfer, in units of 4 KiB: how many requests of this size were
    /// merged into one.
    pub fn merge(&self) -> f64 {
        self.bytes as f64 / 4096.0 / self.transfers.max(1) as f64
    }

    /// Returns the share of the time, 0 to 1, in which wire or card worked for a request. It is at
    /// most 1, even if busy after a write lasts beyond the last completion.
    pub fn bus_share(&self) -> f64 {
        (self.bus.physical_ns() as f64 / self.elapsed_ns.max(1) as f64).min(1.0)
    }

    /// Returns the share of the CPU time, 0 to 1, that was idle.
    pub fn idle_share(&self) -> f64 {
        1.0 - self.cpu.busy_ns as f64 / (self.elapsed_ns.max(1) as f64 * f64::from(self.cores.max(1)))
    }
}

/// Results of a finished run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Statistics of each worker, in the order of [`Run::workers`].
    pub stats: Vec<Stats>,
    /// Differences that the workers' verification found, as text.
    pub verify_errors: Vec<String>,
    /// fio's log files: name and content.
    pub logs: Vec<(String, String)>,
    /// Counters of the run, in addition to fio's statistics.
    pub counters: Counters,
    /// Whether another seed may give another outcome. Always true, except for some runs with
    /// [`Setting::Limit`].
    pub seeded: bool,
}

impl Outcome {
    /// Returns the statistics of all workers as one group.
    pub fn group(&self) -> Stats {
        let mut all = Stats::default();
        for stats in &self.stats {
            all.sum(stats);
        }
        all
    }
}

/// Runs the jobs. `medium` replaces generated data on the card. Calls `progress` from time to time
/// with two numbers of bytes: transferred so far, and planned for the whole run.
///
/// # Errors
/// The jobs cannot run on the board, or the run did not come to its end: see [`RunError`].
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

/// Jobs of fio, which run on any board.
struct Jobs<'p> {
    progress: &'p mut dyn FnMut(u64, u64),
}

impl Jobs<'_> {
    /// Returns an error if the setting does not support the jobs, otherwise `None`. Models of Linux
    /// cannot discard. Which of them can flush, and on which cards, says [`Setting::may_flush`].
    fn refused(run: &Run<'_>, flush: FlushBy) -> Option<RunError> {
        // If the card has no cache, Linux's block layer ends a flush at once.
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
        let mut workers = run.workers.iter().filter(|_| !flushes_well);
        let worker = workers.find(|worker| worker.job.asks_for_flushes())?;
        Some(RunError::Flush { job: worker.job.name.clone(), setting: run.setting.name() })
    }
}

impl Visit for Jobs<'_> {
    type Out = Outcome;

    fn visit<const N: usize>(self, run: &Run<'_>, board: Board<N>) -> Result<Outcome, RunError>
    where
        Board<N>: Serve<N>,
    {
        if run.setting.is_linux()
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
    // With the card's queue, a synchronous write of Linux is a task that is a reliable write.
    let syncs = run.setting == Setting::LinuxCqe && run.workers.iter().any(|worker| worker.job.sync);
    if N > 1 && (wants(Op::Discard) || wants(Op::WriteDurable) || syncs) {
        board.enable_extended_ops().map_err(|found| {
            let card = run.card.unwrap_or(&run.platform.card).to_owned();
            RunError::Extended { card, found }
        })?;
    }
    let sectors = board.card.params.sectors;
    let waiting = Waiting::new(board.time.now());
    let boot_bytes = board.boot().map(|boot| boot.bytes);
    let mut load = Load::new(run, (sectors, boot_bytes), waiting.clone(), progress)?;
    load.reliable_blocks = place::reliable_blocks(&board, run.setting);
    if load.reads_boot() {
        // Only mmcq's settings get here, since the models of Linux cannot read boot areas.
        board.stack.with(|engine| engine.enable_extended_ops());
    }
    let ended = place::machine(run, board, &mut load, waiting, run.workers.len() as u32);
    if load.is_over() {
        return Err(RunError::Stopped);
    }
    let place::Ended { mut counters, end_ns, seeded } = ended?;
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

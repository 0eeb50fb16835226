//! Runs unmodified programs on a simulated card, in virtual time: `mmcq exec` and `mmcq fio`.
//!
//! A library, built by `library.rs` from C code in `preload/`, is loaded into the program. It
//! redirects the program's clocks, its sleeps, and its reads and writes of the card's paths to the
//! laboratory, through shared memory (`shared.rs`). The program's threads become jobs of the
//! simulated machine (`programs.rs`), like the fio jobs of `mmcq run`. Only one of all threads runs
//! at a time, and no virtual time passes while it runs.

mod cut;
mod ending;
pub mod fio;
mod library;
mod luck;
mod programs;
mod shared;
mod standin;

pub use cut::Lost;
pub use library::library;
pub use programs::{JOBS_MAX, Tally};
pub use shared::{FILES_MAX, PATH_BYTES_MAX};

use crate::board::Board;
use crate::runner::place::{self, Serve, Visit};
use crate::runner::{Counters, Run, RunError, Setting, Waiting, is_partition, readable};
use cut::Supply;
use mmcq::engine::FlushBy;
use mmcq_sim::card::Medium;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use programs::Programs;
use rustix::process::Signal;
use shared::{Part, Shared, Word};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Alignment in bytes of the card's files, as in `mmcq run`.
const FILE_ALIGN: u64 = 1 << 20;

/// Program to run, and the paths by which it sees the card.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's path and its arguments.
    pub words: Vec<OsString>,
    /// Paths that the program sees as block devices: the whole card, or a boot area of an eMMC.
    pub devices: Vec<PathBuf>,
    /// Paths that the program sees as files, with their lengths in bytes. They are parts of the
    /// card, one after the other.
    pub files: Vec<(PathBuf, u64)>,
    /// Whether the program is fio.
    pub is_fio: bool,
    /// Time in ns after the program's start at which the power is cut; `None`: at no time.
    pub cut_at_ns: Option<u64>,
    /// Number of flushes of the card after which the power is cut; `None`: at no flush.
    pub cut_after_flush: Option<u64>,
    /// Whether the card lies: its cache loses data, and it reports flushes as done that it did not
    /// do.
    pub lying: bool,
}

impl Program {
    /// Returns whether the power is to be cut while the program runs.
    pub fn is_cut(&self) -> bool {
        self.cut_at_ns.is_some() || self.cut_after_flush.is_some()
    }
}

/// Result of a user's program that ran on a simulated card and has ended: its exit status, its use
/// of the card, and the sectors that a power cut damaged.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit status of the program.
    pub status: ExitStatus,
    /// How much the program used the card.
    pub tally: Tally,
    /// Counters of the run on the simulated board, such as I/Os, bus times and CPU times.
    pub counters: Counters,
    /// Sectors that the power cut damaged; `None`: the power was not cut.
    pub cut: Option<Lost>,
    /// Whether the program never reported to the laboratory, as a statically linked program does
    /// not.
    pub absent: bool,
    /// Number of the program's waits for other processes (`select`, `poll`) that advanced the
    /// virtual clock. The virtual time at which such a wait ends depends on the speed of this
    /// machine.
    pub polled: u32,
    /// Number of the signal to this process that ended the program; `None`: no signal came.
    pub interrupted: Option<i32>,
}

/// Reason why a program did not run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The board cannot be built, or the run on it failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Something that the program needs does not exist, or the program cannot be started; the text
    /// says what.
    #[error("{0}")]
    Program(String),
}

/// Runs a program; `medium` replaces generated data on the card. A signal that ends this process
/// ends the program first. Processes that the program started are ended together with the program.
///
/// # Errors
/// The program cannot be started, something that it needs does not exist, or the board cannot be
/// built.
pub fn exec(run: &Run<'_>, medium: Option<Medium>, program: &Program) -> Result<Ended, ExecError> {
    let library = library::library().map_err(ExecError::Program)?;
    ending::adopt();
    place::on(run, medium, Start { program, library })?
}

/// Returns the path with symbolic links of its folders resolved, as far as the folders exist.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

struct Start<'p> {
    program: &'p Program,
    library: PathBuf,
}

impl Start<'_> {
    /// Returns the paths that the program may open for the card of `capacity` bytes, each with the
    /// range of bytes of the card for which it stands. Boot areas of `boot_bytes` bytes each follow
    /// the user area.
    fn parts(&self, setting: Setting, capacity: u64, boot_bytes: Option<u64>) -> Result<Vec<Part>, RunError> {
        let text = |path: &PathBuf| real(path).to_string_lossy().into_owned();
        let mut parts = Vec::new();
        for path in self.program.devices.iter().map(text) {
            let (start, bytes) = match is_partition(&path) {
                true => {
                    let (area, bytes) = readable(setting, &path, boot_bytes)?;
                    (capacity + u64::from(area.saturating_sub(1)) * bytes, bytes)
                }
                false => (0, capacity),
            };
            parts.push(Part { path, start, bytes, device: true });
        }
        let mut start = 0;
        for (path, bytes) in &self.program.files {
            let left = capacity - start;
            if *bytes > left {
                return Err(RunError::Space { name: text(path), bytes: *bytes, left });
            }
            parts.push(Part { path: text(path), start, bytes: *bytes, device: false });
            start = (start + bytes).next_multiple_of(FILE_ALIGN).min(capacity);
        }
        Ok(parts)
    }

    fn spawn(&self, shared: &Shared, parts: &[Part]) -> Result<Child, String> {
        let Some((program, arguments)) = self.program.words.split_first() else {
            return Err("no program; expected one after --".to_owned());
        };
        let mut preload = self.library.clone().into_os_string();
        if let Some(more) = std::env::var_os("LD_PRELOAD") {
            preload.push(":");
            preload.push(more);
        }
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", preload).env("MMCQ_SHARED", shared.path());
        if let Some(part) = parts.first() {
            command.env("MMCQ_CARD", &part.path);
        }
        command.spawn().map_err(|error| format!("{}: {error}", program.display()))
    }
}

impl Visit for Start<'_> {
    type Out = Result<Ended, ExecError>;

    fn visit<const N: usize>(self, run: &Run<'_>, board: Board<N>) -> Result<Self::Out, RunError>
    where
        Board<N>: Serve<N>,
    {
        let program = self.program;
        let params = board.card.params;
        let cached = params.flush != FlushBy::Status;
        let card = run.card.unwrap_or(&run.platform.card);
        if program.lying && !cached {
            let what =
                format!("card {card}: no cache that could lie; expected an eMMC with one (emmc-queue, say)");
            return Ok(Err(ExecError::Program(what)));
        }
        let capacity = params.sectors * 512;
        let boot_bytes = board.boot().map(|boot| boot.bytes);
        let parts = self.parts(run.setting, capacity, boot_bytes)?;
        let twice = |(at, part): (usize, &Part)| parts[..at].iter().any(|other| other.path == part.path);
        if let Some((_, part)) = parts.iter().enumerate().find(|one| twice(*one)) {
            let what = format!("{}: two places on the card; expected another path", part.path);
            return Ok(Err(ExecError::Program(what)));
        }
        if parts.iter().any(|part| part.start >= capacity) {
            board.stack.with(|engine| engine.enable_extended_ops());
        }
        let shared = match Shared::new(JOBS_MAX, program.is_fio, &parts) {
            Ok(shared) => Arc::new(shared),
            Err(error) => return Ok(Err(ExecError::Program(format!("shared memory: {error}")))),
        };
        let waiting = Waiting::new(board.time.now());
        let mut load = Programs::new(shared.clone(), params.sectors, board.time.now(), waiting.clone());
        load.boot_bytes = boot_bytes.unwrap_or(0);
        load.no_flush = !run.setting.may_flush(params.flush);
        if program.lying || program.is_cut() {
            let plan = Plan::seeded(run.seed);
            let plan = if program.lying { plan.from(Point::Cache, 1, Strike::Lost) } else { plan };
            board.controller.set_card_faults(&Faults::new(plan));
            let controller = board.controller.clone();
            let (at_ns, flush) = (program.cut_at_ns, program.cut_after_flush);
            load.supply = Some(Supply::new(controller, at_ns, flush, run.seed));
        }
        let signals = ending::Watch::hears();
        let mut child = match self.spawn(&shared, &parts) {
            Ok(child) => child,
            Err(why) => return Ok(Err(ExecError::Program(why))),
        };
        let pid = child.id().cast_signed();
        let watch = signals.map(|signals| ending::Watch::over(signals, pid, shared.clone()));
        let told = shared.clone();
        let waiter = std::thread::spawn(move || {
            let status = child.wait();
            told.ended();
            status
        });
        let result = place::machine(run, board, &mut load, waiting, 1);
        let refusal = shared.refusal();
        if (result.is_err() || load.is_stopped() || refusal.is_some()) && !waiter.is_finished() {
            ending::kill(pid, Signal::KILL);
        }
        let status = waiter.join().unwrap_or_else(|_| Ok(ExitStatus::from_raw(libc::SIGKILL)));
        ending::sweep(&shared.path());
        let interrupted = watch.ok().and_then(ending::Watch::ends);
        if let Some(what) = refusal {
            return Ok(Err(ExecError::Program(what)));
        }
        if load.flush_refused {
            let job = program.words.first().map_or_else(String::new, |word| word.display().to_string());
            return Err(RunError::Flush { job, setting: run.setting.name() });
        }
        let counters = result?.counters;
        let status = match status {
            Ok(status) => status,
            Err(error) => return Ok(Err(ExecError::Program(format!("the program's end: {error}")))),
        };
        let cut = load.supply.as_ref().and_then(|supply| supply.failed);
        let (tally, absent) = (load.tally, load.was_unused());
        let polled = shared.word(Word::Polled).load(Ordering::Acquire);
        Ok(Ok(Ended { status, tally, counters, cut, absent, polled, interrupted }))
    }
}

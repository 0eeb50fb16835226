//! `mmcq exec` and `mmcq fio`: run unmodified programs on a simulated card.

use super::Error;
use clap::Args;
use mmcq_lab::exec::{self, Ended, Program};
use mmcq_lab::fio::{Worker, program_words};
use mmcq_lab::image::Lock;
use mmcq_lab::platform::JOB;
use mmcq_lab::scene::{Loaded, Scene};
use mmcq_sim::card::Medium;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

/// Default path at which the program sees the card.
const DEVICE: &str = "/dev/mmcblk0";

/// Options about how the card appears to the program.
#[derive(Debug, Args)]
struct Slot {
    #[command(flatten)]
    scene: Scene,
    /// Image file with the card's content; the program's writes go to this file [default: zeros,
    /// which are lost after the run]
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
    /// A path that the program sees as a file of this length (such as 64M); its content is a part
    /// of the card. May be repeated: the parts lie one after the other from the start of the card,
    /// each aligned to 1 MiB
    #[arg(long = "file", value_name = "PATH=SIZE", value_parser = part)]
    files: Vec<(PathBuf, u64)>,
    /// Print no line about the card at the end
    #[arg(long, short)]
    quiet: bool,
}

/// Parses the value PATH=SIZE of the option `--file`, which makes a part of the card a file.
fn part(text: &str) -> Result<(PathBuf, u64), String> {
    let wrong = || format!("{text}: expected PATH=SIZE, with a size as 64M of whole 512 bytes");
    let (path, size) = text.split_once('=').ok_or_else(wrong)?;
    let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match size[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    let bytes =
        digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).filter(|n| *n > 0 && n % 512 == 0);
    let path = absolute(path).map_err(|_| wrong())?;
    Ok((path, bytes.ok_or_else(wrong)?))
}

impl Slot {
    fn run(self, program: &Program) -> Result<(ExitCode, Ended), Error> {
        if program.devices.len() + program.files.len() > exec::FILES_MAX {
            return Err(Error::Input(format!("more than {} paths of the card", exec::FILES_MAX)));
        }
        let paths = program.devices.iter().chain(program.files.iter().map(|(path, _)| path));
        if let Some(long) = paths.into_iter().find(|path| path.as_os_str().len() > exec::PATH_BYTES_MAX) {
            let most = exec::PATH_BYTES_MAX;
            return Err(Error::Input(format!("{}: expected a path of at most {most} bytes", long.display())));
        }
        if let Some(change) = self.scene.set.iter().find(|change| change.starts_with(JOB)) {
            let why = "a program has no jobs of the laboratory; expected a key of board or card";
            return Err(Error::Input(format!("--set {change}: {why}")));
        }
        let workers: &[Worker] = &[];
        let loaded: Loaded = self.scene.load_workers(workers, &self.scene.set).map_err(Error::input)?;
        let image = self.image.as_deref().map(|path| super::image(path, true)).transpose()?;
        let (medium, _lock): (Option<Medium>, Option<Lock>) = image.unzip();
        let ended = exec::exec(&self.scene.run_of(&loaded), medium, program).map_err(Error::input)?;
        let tally = &ended.tally;
        let seconds = tally.now_ns as f64 / 1e9;
        if let Some(exec::Lost { at_stake, old, torn }) = ended.cut {
            eprintln!(
                "mmcq: the supply failed after {seconds:.6} s: {at_stake} sectors were not safe, {old} of them are what they were before, {torn} are half new"
            );
        } else if ended.absent && ended.status.success() && !self.quiet {
            eprintln!(
                "mmcq: the program did nothing with the card; it must open {} and be linked dynamically",
                program
                    .devices
                    .first()
                    .or(program.files.first().map(|f| &f.0))
                    .map_or("a path".into(), |p| p.display().to_string())
            );
        } else if !ended.absent && !self.quiet {
            let [reads, writes, flushes] = tally.ios;
            let [read, written] = tally.bytes.map(|bytes| bytes as f64 / 1_048_576.0);
            eprintln!(
                "mmcq: {seconds:.6} s in virtual time: {reads} reads ({read:.2} MiB), {writes} writes ({written:.2} MiB), {flushes} flushes, {} failed",
                tally.failed
            );
        }
        if ended.polled > 0 && !self.quiet {
            eprintln!(
                "mmcq: {} waits for other processes (select, poll) moved the clock: the time depends on this machine",
                ended.polled
            );
        }
        let uncut = program.is_cut() && ended.cut.is_none() && ended.interrupted.is_none();
        if uncut {
            let flushed = tally.flushed;
            eprintln!(
                "mmcq: the supply did not fail: the program ended after {seconds:.6} s and {flushed} flushes"
            );
        }
        let code = match (ended.cut, ended.status.code(), ended.status.signal()) {
            (Some(_), ..) => 0,
            _ if ended.interrupted.is_some() => signalled(ended.interrupted),
            (_, Some(0), _) if uncut => NO_CUT,
            (_, Some(code), _) => u8::try_from(code).unwrap_or(1),
            (_, None, signal) => signalled(signal),
        };
        Ok((ExitCode::from(code), ended))
    }
}

/// Exit code of `mmcq exec` if the user asked for a power cut, none came, and the program
/// succeeded.
const NO_CUT: u8 = 125;

/// Returns the exit code of this program after a signal, as a shell does: 130 for Ctrl-C.
fn signalled(signal: Option<i32>) -> u8 {
    128_u8.saturating_add(u8::try_from(signal.unwrap_or(0)).unwrap_or(0))
}

/// Run an unmodified program on a simulated card, in virtual time
///
/// Only this program sees the card, at /dev/mmcblk0 (or --at PATH). What it reads, writes and
/// flushes there goes to the simulated card. Its clocks show virtual time, and its sleeps last
/// virtual time; its own computing takes none. A small C library is loaded into the program; it is
/// compiled at the first run.
///
///   mmcq exec -- dd if=/dev/zero of=/dev/mmcblk0 bs=64k count=256 conv=fsync
///   mmcq exec --file t.db=4M --file t.db-journal=4M --image card.img -- python3 job.py
///   mmcq exec --card emmc-queue --image card.img --file t.db=4M --cut-after-flush 7 -- ./store
///   mmcq exec --platform hsq-sprd --at /dev/mmcblk0boot0 -- dd if=/dev/mmcblk0boot0 of=boot.img
///
/// The length of a --file never changes: truncating does nothing, appending finds no room,
/// removing is refused. O_SYNC and O_DSYNC make writes durable. Programs must be linked
/// dynamically. What the library does not know fails and does nothing: io_uring, splice, a static
/// program behind a shell's redirection (for these, mmcq guest has a whole kernel). mmap, freopen
/// and timerfd end the program with a message and exit code 2. A program that reads the clock
/// again and again until some time has passed is refused: the clock moves only while the program
/// uses the card or sleeps.
///
/// Several threads may use the card. One of them runs at a time; the system chooses the order in
/// which they begin. A program may wait for other programs with a timeout (select, poll, epoll, as
/// rsync does). Such a wait moves the clock until they have answered, so the clock then depends on
/// the speed of this machine; a line at the end says so. If you asked for a power cut and none
/// came, a line says so, and the exit code is 125 if the program succeeded.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Exec {
    #[command(flatten)]
    slot: Slot,
    /// Path at which the program sees the whole card; the path need not exist
    #[arg(long, value_name = "PATH", default_value = DEVICE)]
    at: PathBuf,
    /// Cuts the card's power this many microseconds after the program's start, and kills the
    /// program. Each sector that is not safe on the medium then has its old or its new content, by
    /// the seed. A sector that was being programmed is half new
    #[arg(long, value_name = "US")]
    cut_at: Option<u64>,
    /// Cuts the card's power when the card has done this many flushes (1 or more), before the
    /// program gets the answer to the last of them
    #[arg(long, value_name = "N", conflicts_with = "cut_at", value_parser = flushes)]
    cut_after_flush: Option<u64>,
    /// Makes the card lie: its cache loses data, and it reports flushes as done that it has not
    /// done. A test of whether your program's own checks notice that
    #[arg(long)]
    lying_cache: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Parses the number of flushes after which the supply fails.
fn flushes(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

impl Exec {
    pub fn run(self) -> Result<ExitCode, Error> {
        let at = absolute(&self.at).map_err(|e| Error::Input(format!("--at {}: {e}", self.at.display())))?;
        let program = Program {
            words: self.program,
            devices: vec![at],
            files: self.slot.files.clone(),
            is_fio: false,
            cut_at_ns: self.cut_at.map(|us| us.saturating_mul(1000)),
            cut_after_flush: self.cut_after_flush,
            lying: self.lying_cache,
        };
        self.slot.run(&program).map(|(code, _)| code)
    }
}

/// Run your own fio, unmodified, on a simulated card, in virtual time
///
/// All arguments after -- are fio's; a pasted line may begin with fio, ./fio or sudo fio. The jobs
/// use /dev/mmcblk0. Any other device of /dev that they name is the same card; mmcblk0boot0 and
/// mmcblk0boot1 are its boot areas, for reads only. If the jobs name a directory, its files are
/// parts of the card, as long as size says. fio's clock shows virtual time: a job of an hour is
/// over in minutes, and each run gives the same figures, to the nanosecond. `mmcq run` runs fio's
/// jobs without fio.
///
///   mmcq fio -- --name=a --rw=randread --bs=4k --iodepth=32 --ioengine=libaio --runtime=60s --time_based
///   mmcq fio --platform hsq-sprd --setting none -- my.fio --output-format=json
///   mmcq fio --file data=1G -- --filename=data --name=a --rw=write --bs=1M --end_fsync=1
///
/// I/O engines: libaio, psync, sync, vsync, pvsync, pvsync2. Options that cannot be simulated
/// (other engines, discards, startdelay, threads that a job starts itself) are refused. CPU times
/// in fio's report are 0. The CPU time of a job is that in the board's file (`mmcq params`), not
/// that of this machine.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Fio {
    #[command(flatten)]
    slot: Slot,
    /// The fio program: a name that is searched in PATH, or a path
    #[arg(long, value_name = "PROGRAM", default_value = "fio")]
    fio: PathBuf,
    /// fio's own arguments
    #[arg(last = true, required = true, value_name = "FIO ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl Fio {
    pub fn run(self) -> Result<ExitCode, Error> {
        let (front, arguments) = self.arguments.split_at(program_words(&self.arguments));
        // A pasted line may begin with the path of a fio that exists.
        let named = front.last().map(Path::new).filter(|fio| fio.components().count() > 1 && fio.is_file());
        let fio = exec::fio::program(named.unwrap_or(&self.fio)).map_err(Error::Input)?;
        let asked = exec::fio::asked(&fio, arguments).map_err(Error::Input)?;
        for file in &asked.files {
            let known =
                absolute(file).is_ok_and(|path| self.slot.files.iter().any(|(known, _)| *known == path));
            if !known {
                return Err(Error::Input(format!(
                    "fio's filename {0}: not on the card; expected filename={DEVICE}, or --file {0}=SIZE before --",
                    file.display()
                )));
            }
        }
        let mut devices = vec![PathBuf::from(DEVICE)];
        devices.extend(asked.devices.into_iter().filter(|path| path != Path::new(DEVICE)));
        let mut words = vec![fio.into_os_string(), "--eta=never".into()];
        // If the jobs name no device, the whole card is added as fio's file.
        if asked.names_none {
            words.push(format!("--filename={DEVICE}").into());
        }
        words.extend(arguments.iter().cloned());
        let mut files = self.slot.files.clone();
        for (path, bytes) in asked.made {
            let path = absolute(&path).map_err(|e| Error::Input(format!("{}: {e}", path.display())))?;
            if !files.iter().any(|(known, _)| *known == path) {
                files.push((path, bytes));
            }
        }
        let program = Program {
            words,
            devices,
            files,
            is_fio: true,
            cut_at_ns: None,
            cut_after_flush: None,
            lying: false,
        };
        self.slot.run(&program).map(|(code, _)| code)
    }
}

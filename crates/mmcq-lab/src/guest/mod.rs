//! Runs a guest: an unmodified kernel in a virtual machine, with the laboratory's controller and
//! card, in virtual time.
//!
//! The *parts* are files in a folder, built by `tools/guest-parts.sh`: QEMU, the plugin that
//! connects the model to QEMU, the kernel, and the initial file system. This program is not linked
//! with them: it starts QEMU, waits for its end, and reads its output.

mod compare;
mod driver;
mod initrd;
mod recovery;
mod report;
mod table;

pub use compare::Twice;
use driver::Kind;
pub use driver::{Driver, MODULE};
pub use recovery::{Recovered, recovered};
pub use report::{Counters, Load, Report};
pub use table::table;

use crate::controller::ControllerConfig;
use crate::platform::Platform;
use mmcq::host::Timing;
use mmcq_sim::mshc::Layout;
use mmcq_sim::schedule::Schedule;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The only version of QEMU that the plugin works with, since the plugin depends on internals of
/// that version.
pub const QEMU: &str = "QEMU emulator version 11.1.3";

/// Register offset at which the guest's driver expects the command queue engine (CQHCI).
const ENGINE_AT: u16 = 0x200;

/// Names of the files that a guest needs (its *parts*: QEMU, kernel, initial file system, plugin,
/// library) in the folder of these files.
const PARTS: [&str; 5] = ["qemu", "kernel", "initrd", "plugin.so", "library.so"];

/// Longest time that QEMU may take to print its version.
const ASKED: Duration = Duration::from_secs(20);

/// Exit code of QEMU by which a firmware image reports success.
const IMAGE_WELL: i32 = 33;
const COMMAND_LINE_MAX: usize = 200;

/// Interval between two checks whether a running machine has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Last line that the guest prints for a job that ran to its end.
const END: &str = "guest: end";
/// Line that the guest prints when the job begins.
const BEGIN: &str = "guest: begin";
const WRONG: &str = "guest: wrong: ";

/// Reason why a guest did not run, or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An input is wrong, and no machine was started; the text says why.
    Input(String),
    /// The machine failed while it ran; the text says why.
    Run(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Input(text) | Failure::Run(text)) = self;
        f.write_str(text)
    }
}

/// A virtual machine and its options.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Folder with the parts (QEMU, plugin, kernel, initial file system).
    pub parts: PathBuf,
    /// Kernel of the guest; `None`: the kernel in the folder `parts`.
    pub kernel: Option<PathBuf>,
    /// Initial file system that replaces that of the parts; it must run `/job`. `None`: that of the
    /// parts.
    pub initrd: Option<PathBuf>,
    /// Words to add to the command line of the guest's kernel.
    pub arguments: String,
    /// Firmware without an operating system that replaces Linux; the job is its command line.
    /// `None`: the guest is Linux.
    pub image: Option<PathBuf>,
    /// File with the schedule of events at the slot ([`mmcq_sim::schedule`]); `None`: no events.
    pub schedule: Option<PathBuf>,
    /// Board, whose controller must be an SDHCI, DesignWare's, or Realtek's card reader.
    pub platform: String,
    /// Name of the card in the slot; `None`: the board's own.
    pub card: Option<String>,
    /// Setting that the user chose: `none`, `hsq-tag` or `cqe`; for an image any name.
    pub setting: String,
    /// Driver that the guest uses for the slot.
    pub driver: Driver,
    /// Linux's I/O scheduler for the card; `None`: the kernel's default.
    pub scheduler: Option<String>,
    /// Number of CPUs of the machine.
    pub cpus: u8,
    /// Time in ns that the guest's CPUs need for an instruction: 1, 2, 4, 8 or 16.
    pub instruction_ns: u32,
    /// Time in ns from the wake-up of a thread to its first instruction; `None`: the board's
    /// `cost.job_wake`.
    pub wake_ns: Option<u64>,
    /// Delay in ns from the controller's interrupt output to the interrupt of the guest's CPU.
    pub irq_ns: u64,
    /// Longest real time that the virtual machine may run.
    pub limit: Duration,
}

/// Results of one run of the virtual machine.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) console: String,
    pub(crate) counters: String,
    /// Path of the bus log, in a folder that is removed when this value is dropped.
    pub(crate) log: PathBuf,
    _folder: tempfile::TempDir,
}

/// A machine that was checked: its parts exist, and QEMU has the version that the plugin needs.
struct Checked {
    machine: Machine,
    settings: Settings,
    initrd: Vec<u8>,
    /// Command line of a firmware image; empty if the guest is Linux.
    command_line: String,
    /// Description of the times at which the run cuts the card's power or injects faults, as text
    /// lines of the report.
    schedule: Vec<String>,
}

/// Settings of the virtual machine that follow from the board.
#[derive(Clone, Debug)]
struct Settings {
    /// Name of the setting in the report: Linux's own queue (such as `none` or `cqe`), or mmcq's
    /// module.
    setting: String,
    wake_ns: u64,
    read_ns: u64,
    write_ns: u64,
    hs400: bool,
    fixed: bool,
    /// Kind of PCI device that the guest finds in its slot.
    kind: Kind,
    /// Parameters of `mmcq.ko` on the kernel's command line.
    module_words: String,
}

impl Machine {
    /// Runs the guest with `job`, a script for its shell. Copies the bus log to the path `log`.
    /// `stop` ends the run early.
    pub fn run(&self, job: &str, log: Option<&Path>, stop: &AtomicBool) -> Result<Report, Failure> {
        let checked = self.check(job, stop)?;
        let run = checked.run(cores().first().copied(), log.is_some(), stop)?;
        if let Some(path) = log {
            keep(&run.log, path)?;
        }
        checked.report(&run)
    }

    /// Runs the guest with the job twice, on two cores if there are two, and compares all results
    /// of both runs.
    pub fn run_twice(
        &self,
        job: &str,
        log: Option<&Path>,
        stop: &AtomicBool,
    ) -> Result<(Report, Twice), Failure> {
        let checked = self.check(job, stop)?;
        let cores = cores();
        let core = |at: usize| cores.get(at % cores.len().max(1)).copied();
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| checked.run(core(1), true, stop));
            let one = checked.run(core(0), true, stop);
            (one, other.join().unwrap_or_else(|_| Err(Failure::Run("the second run was lost".to_owned()))))
        });
        let (one, other) = (one?, other?);
        if let Some(path) = log {
            keep(&one.log, path)?;
        }
        let (report, second) = (checked.report(&one)?, checked.report(&other)?);
        let twice = Twice::compare((&one, &report), (&other, &second))?;
        Ok((report, twice))
    }

    fn check(&self, job: &str, stop: &AtomicBool) -> Result<Checked, Failure> {
        let settings = self.settings()?;
        let schedule = self.schedule.as_deref().map(read_schedule).transpose()?.unwrap_or_default();
        for part in PARTS {
            let path = self.parts.join(part);
            if fs::metadata(&path).is_err() {
                let path = path.display();
                return Err(Failure::Input(format!("{path}: not there; tools/guest-parts.sh builds it")));
            }
        }
        let mut asked = Command::new(self.parts.join("qemu"));
        asked.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let version = bounded(&mut asked, ASKED, stop)?;
        let version = version.lines().next().unwrap_or_default();
        if !version.starts_with(&format!("{QEMU} ")) && version != QEMU {
            return Err(Failure::Input(format!("{version}: the plugin is made for {QEMU} alone")));
        }
        if let Some(image) = &self.image {
            fs::metadata(image).map_err(|error| Failure::Input(format!("{}: {error}", image.display())))?;
            let command_line = job.lines().next().unwrap_or_default();
            if command_line.len() > COMMAND_LINE_MAX {
                let bytes = command_line.len();
                return Err(Failure::Input(format!(
                    "the job has {bytes} bytes: an image takes one line of at most {COMMAND_LINE_MAX}"
                )));
            }
            let command_line = format!("guest {command_line}");
            let (machine, initrd) = (self.clone(), Vec::new());
            return Ok(Checked { machine, settings, initrd, command_line, schedule });
        }
        let begins = self.initrd.clone().unwrap_or_else(|| self.parts.join("initrd"));
        let mut initrd =
            fs::read(&begins).map_err(|error| Failure::Input(format!("{}: {error}", begins.display())))?;
        let module = self.module()?;
        let mut files = vec![("job", 0o755, job.as_bytes())];
        files.extend(module.as_deref().map(|module| ("modules/mmcq.ko", 0o644, module)));
        initrd::append(&mut initrd, &files);
        Ok(Checked { machine: self.clone(), settings, initrd, command_line: String::new(), schedule })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let platform = Platform::load(&self.platform).map_err(|error| Failure::Input(error.to_string()))?;
        let name = &platform.name;
        let setting = self.setting()?;
        let is_module = self.driver == Driver::Mmcq;
        let module_words = if is_module { self.module_words(&platform)? } else { String::new() };
        let (engine, fixed, kind) = match &platform.controller {
            ControllerConfig::Sdhci(controller) => {
                (controller.command_queue.map(|queue| queue.offset), controller.fixed, Kind::Sdhci)
            }
            ControllerConfig::Mshc(controller) if controller.layout == Layout::DesignWare => {
                (None, false, Kind::DesignWare)
            }
            ControllerConfig::Rtsx(controller) => (None, controller.fixed, Kind::Realtek),
            _ => {
                return Err(Failure::Input(format!(
                    "platform {name}: expected one whose controller is an sdhci, an rtsx, or a DesignWare mshc"
                )));
            }
        };
        let is_linux = self.image.is_none() && !is_module;
        if is_linux && !matches!(setting, "none" | "hsq-tag" | "cqe") {
            return Err(Failure::Input(format!("setting {setting}: expected none, hsq-tag or cqe")));
        }
        if is_linux && kind != Kind::Sdhci && setting != "none" || self.image.is_some() && kind != Kind::Sdhci
        {
            return Err(Failure::Input(format!("platform {name}: expected setting none, and no image")));
        }
        if is_linux && setting == "cqe" && engine != Some(ENGINE_AT) {
            return Err(Failure::Input(format!(
                "setting cqe: platform {name}: expected one with a queue engine at {ENGINE_AT:#x}"
            )));
        }
        Ok(Settings {
            setting: setting.to_owned(),
            wake_ns: self.wake_ns.unwrap_or_else(|| platform.costs.ns("job_wake")),
            read_ns: platform.own.ns("register_read_ns"),
            write_ns: platform.own.ns("register_write_ns"),
            hs400: platform.timings.iter().any(|t| matches!(t, Timing::Hs400 | Timing::Hs400Es)),
            fixed,
            kind,
            module_words,
        })
    }
}

impl Checked {
    fn run(&self, core: Option<usize>, logged: bool, stop: &AtomicBool) -> Result<Run, Failure> {
        let folder = tempfile::tempdir().map_err(|error| Failure::Run(format!("a folder: {error}")))?;
        let place = |name: &str| folder.path().join(name);
        let (console, counters, log) = (place("console"), place("counters"), place("bus"));
        let initrd = place("initrd");
        fs::write(&initrd, &self.initrd)
            .map_err(|error| Failure::Run(format!("{}: {error}", initrd.display())))?;
        let said = place("said");
        let output = fs::File::create(&said).map_err(|e| Failure::Run(format!("{}: {e}", said.display())))?;
        let mut command = self.command(core, &folder, logged);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let begun = Instant::now();
        let mut child = Kept(command.spawn().map_err(|error| Failure::Run(format!("setpriv: {error}")))?);
        let status = loop {
            match child.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => {}
                Err(error) => return Err(Failure::Run(format!("QEMU: {error}"))),
            }
            let last = || text(&console).lines().last().unwrap_or("nothing").trim().to_owned();
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Run("ended by a signal".to_owned()));
            }
            if begun.elapsed() > self.machine.limit {
                let seconds = self.machine.limit.as_secs();
                return Err(Failure::Run(format!("no end after {seconds} s; it said last: {}", last())));
            }
            std::thread::sleep(LOOK);
        };
        let console = text(&console);
        if let Some(why) = console.lines().find_map(|line| line.strip_prefix(WRONG)) {
            return Err(Failure::Run(format!("the guest: {why}")));
        }
        let said = text(&said);
        let complaint = said.lines().find(|line| !line.trim().is_empty());
        // A firmware image ends QEMU through a device whose exit code is never 0.
        let well =
            if self.machine.image.is_some() { status.code() == Some(IMAGE_WELL) } else { status.success() };
        if !well {
            let why = complaint.or(console.lines().last()).unwrap_or("it said nothing");
            return Err(Failure::Run(format!("QEMU ended with {status}: {}", why.trim())));
        }
        if !console.lines().any(|line| line == END) {
            let last = console.lines().last().unwrap_or("nothing");
            return Err(Failure::Run(format!("the job came to no end; it said last: {last}")));
        }
        Ok(Run { console, counters: text(&counters), log, _folder: folder })
    }

    /// Returns the command that runs QEMU on a single CPU core, `core` if given: if two threads of
    /// QEMU ran at the same time, their order could vary. `folder`: place of its files; `logged`:
    /// it writes a log of the bus. QEMU ends when this program ends.
    fn command(&self, core: Option<usize>, folder: &tempfile::TempDir, logged: bool) -> Command {
        let Checked { machine, settings, .. } = self;
        let part = |name: &str| machine.parts.join(name).into_os_string();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(core) = core {
            command.args(["taskset", "-c", &core.to_string()]);
        }
        let mut plugin: OsString = part("plugin.so");
        plugin.push(",lib=");
        plugin.push(part("library.so"));
        if let Some(schedule) = &machine.schedule {
            plugin.push(",schedule=");
            plugin.push(schedule);
        }
        let shift = machine.instruction_ns.trailing_zeros();
        let Settings { read_ns, write_ns, kind, .. } = settings;
        plugin.push(format!(
            ",platform={},card={},read={read_ns},write={write_ns},irq={},shift={shift},counters={},kind={}",
            machine.platform,
            machine.card.as_deref().unwrap_or_default(),
            machine.irq_ns,
            file("counters"),
            kind.word(),
        ));
        if logged {
            plugin.push(format!(",log={}", file("bus")));
        }
        command.arg(part("qemu"));
        command.args(["-M", "q35", "-accel", "tcg,thread=single", "-m", "384"]);
        if let Some(image) = &machine.image {
            command.args(["-bios", "qboot.rom", "-device", "isa-debug-exit,iobase=0xf4,iosize=1"]);
            command.args(["-chardev", &format!("file,id=report,path={}", file("console"))]);
            command.args(["-device", "isa-debugcon,iobase=0xe9,chardev=report"]);
            command.arg("-kernel").arg(image).args(["-append", &self.command_line]);
        } else {
            self.linux(&mut command, folder);
        }
        // The date, and the seed that QEMU gives to the kernel's random numbers, must be the same
        // in each run.
        command.args(["-seed", "1", "-rtc", "base=2026-01-01T00:00:00,clock=vm"]);
        command.args(["-icount", &format!("shift={shift},sleep=off,align=off")]);
        command.args([
            "-smp",
            &machine.cpus.to_string(),
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
            "-S",
        ]);
        command.arg("-plugin").arg(plugin).args(["-device", "sdhci-pci,id=slot"]);
        command
    }

    /// Adds the kernel and its initial file system to QEMU's command line.
    fn linux(&self, command: &mut Command, folder: &tempfile::TempDir) {
        let Checked { machine, settings, .. } = self;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let Settings { setting, wake_ns, hs400, fixed, kind, module_words, .. } = settings;
        command.args(["-serial", &format!("file:{}", file("console"))]);
        command.arg("-kernel").arg(machine.kernel.clone().unwrap_or_else(|| machine.parts.join("kernel")));
        command.args(["-initrd", &file("initrd")]);
        let mut arguments = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off cryptomgr.notests nokaslr \
             mmcq.setting={} mmcq.worker_ns={wake_ns} mmcq.job_ns={wake_ns} mmcq.hs400={} mmcq.fixed={} mmcq.kind={}",
            if machine.driver == Driver::Mmcq { "none" } else { setting.as_str() },
            u8::from(*hs400),
            u8::from(*fixed),
            kind.word(),
        );
        arguments += module_words;
        if let Some(scheduler) = &machine.scheduler {
            arguments += &format!(" mmcq.scheduler={scheduler}");
        }
        if !machine.arguments.is_empty() {
            arguments += &format!(" {}", machine.arguments);
        }
        command.args(["-append", &arguments]);
    }

    fn report(&self, run: &Run) -> Result<Report, Failure> {
        let Checked { machine, settings, .. } = self;
        let said = run.console.lines().skip_while(|line| *line != BEGIN).skip(1);
        let output: Vec<String> = said.take_while(|line| *line != END).map(str::to_owned).collect();
        let before = run.console.lines().take_while(|line| *line != BEGIN).map(str::to_owned);
        let (loads, counters) = report::join(&output, &run.counters).map_err(Failure::Run)?;
        Ok(Report {
            platform: machine.platform.clone(),
            card: machine.card.clone().unwrap_or_default(),
            setting: settings.setting.clone(),
            cpus: machine.cpus,
            instruction_ns: machine.instruction_ns,
            wake_ns: settings.wake_ns,
            irq_ns: machine.irq_ns,
            register_read_ns: settings.read_ns,
            register_write_ns: settings.write_ns,
            schedule: self.schedule.clone(),
            begin: before.collect(),
            output,
            loads,
            counters,
        })
    }
}

/// Returns the lines of a schedule file, after a check of each line.
fn read_schedule(path: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::Input(format!("{}: {why}", path.display()));
    // A comma would end the path in the plugin's options.
    if path.to_string_lossy().contains(',') {
        return Err(wrong("expected a name without a comma".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let schedule = Schedule::parse(&text).map_err(wrong)?;
    Ok(schedule.lines().iter().map(ToString::to_string).collect())
}

/// Child process that is killed when this value is dropped.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // A process that has ended refuses the signal; this error is ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a short program, at most for the time `limit`, and returns its output.
fn bounded(command: &mut Command, limit: Duration, stop: &AtomicBool) -> Result<String, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.spawn().map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    let mut child = Kept(child);
    let begun = Instant::now();
    while !matches!(child.0.try_wait(), Ok(Some(_))) {
        if begun.elapsed() > limit || stop.load(Ordering::Relaxed) {
            return Err(Failure::Input(format!("{name} --version: no answer")));
        }
        std::thread::sleep(LOOK);
    }
    let mut said = String::new();
    if let Some(mut pipe) = child.0.stdout.take() {
        use std::io::Read;
        pipe.read_to_string(&mut said).map_err(|error| Failure::Input(format!("{name}: {error}")))?;
    }
    Ok(said)
}

/// Returns the text of a file that the guest or QEMU wrote; empty if the file does not exist.
fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\r', "")
}

/// Copies the bus log to the path that the user gave.
fn keep(log: &Path, path: &Path) -> Result<(), Failure> {
    let copied = fs::copy(log, path);
    copied.map(|_| ()).map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
}

/// Returns the numbers of the CPU cores that this program may use.
#[cfg(target_os = "linux")]
fn cores() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None);
    allowed.map_or_else(
        |_| Vec::new(),
        |set| (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect(),
    )
}

/// Returns an empty list: this system does not list its CPU cores.
#[cfg(not(target_os = "linux"))]
fn cores() -> Vec<usize> {
    Vec::new()
}

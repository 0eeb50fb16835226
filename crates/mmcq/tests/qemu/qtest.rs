//! QEMU as a child process, and the protocol qtest over a pair of sockets. Each command and each
//! reply is one text line, with reports of interrupts in between. If QEMU ends, its socket closes;
//! if QEMU hangs, the watchdog ends the test.

use crate::watchdog::{self, Watchdog};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// Shortest and longest step of a wait in nanoseconds: each step is twice the one before.
const STEP_NS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;
/// Largest number of writes under way whose replies were not read.
const POSTED: u32 = 64;
/// Number of interrupt lines that are watched (an I/O APIC has 24, a PLIC up to 187).
const LINES: usize = 192;

/// A QEMU binary that was found on this machine.
#[derive(Clone, Debug)]
pub struct Qemu {
    /// Path of the QEMU program.
    pub program: PathBuf,
    /// Whether this QEMU has the qtest accelerator, and so a virtual clock. Otherwise QEMU runs TCG
    /// with a halted CPU: its timers follow real time, and the test's clock counts turns of QEMU's
    /// loop.
    pub virtual_clock: bool,
}

impl Qemu {
    /// Finds the QEMU binary: `MMCQ_QEMU` if that variable is set, otherwise `qemu-system-x86_64`
    /// in the path. The error is one line of text.
    pub fn find() -> Result<Qemu, String> {
        match std::env::var_os("MMCQ_QEMU") {
            Some(path) => Qemu::at(PathBuf::from(path), "MMCQ_QEMU"),
            None => Qemu::named("qemu-system-x86_64"),
        }
    }

    /// Finds the QEMU binary of another machine in the path. The error is one line of text.
    pub fn named(program: &str) -> Result<Qemu, String> {
        Qemu::at(PathBuf::from(program), "PATH")
    }

    fn at(program: PathBuf, from: &str) -> Result<Qemu, String> {
        let say = |arguments: &[&str]| {
            let output = Command::new(&program)
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .map_err(|error| format!("{} (from {from}): {error}", program.display()))?;
            if !output.status.success() {
                return Err(format!("{} {arguments:?}: {}", program.display(), output.status));
            }
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let virtual_clock = say(&["-accel", "help"])?.lines().any(|line| line.trim() == "qtest");
        Ok(Qemu { program, virtual_clock })
    }
}

/// A running QEMU. Dropping it kills the process.
#[derive(Debug)]
pub struct Qtest {
    link: Mutex<Link>,
    clock: Clock,
}

#[derive(Debug)]
struct Clock {
    /// Whether the clock is QEMU's virtual clock, which QEMU's timers follow.
    is_virtual: bool,
    /// The time in nanoseconds: as QEMU reported it last, or the sum of the times of all steps.
    now_ns: Mutex<u64>,
}

#[derive(Debug)]
struct Link {
    child: Child,
    socket: UnixStream,
    received: Vec<u8>,
    level: [bool; LINES],
    raised: [u64; LINES],
    operations: u64,
    posted: u32,
    stderr: PathBuf,
    _alive: Watchdog,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Errors mean that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Qtest {
    /// Starts QEMU with these arguments and those that qtest needs. Its files are in `folder`,
    /// which must exist as long as this value.
    pub fn start(qemu: &Qemu, folder: &Path, arguments: &[String]) -> Result<Qtest, String> {
        let socket = |error| format!("qtest socket: {error}");
        let stderr = folder.join("stderr");
        let log = File::create(&stderr).map_err(|error| format!("{}: {error}", stderr.display()))?;
        let (ours, theirs) = UnixStream::pair().map_err(socket)?;
        let theirs = OwnedFd::from(theirs);
        let output = theirs.try_clone().map_err(socket)?;
        let child = Command::new(&qemu.program)
            .args(arguments)
            .args(["-accel", if qemu.virtual_clock { "qtest" } else { "tcg" }])
            .args(["-qtest", "stdio", "-qtest-log", "/dev/null"])
            .stdin(theirs)
            .stdout(output)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", qemu.program.display()))?;
        let mut link = Link {
            child,
            socket: ours,
            received: Vec::new(),
            level: [false; LINES],
            raised: [0; LINES],
            operations: 0,
            posted: 0,
            stderr,
            _alive: watchdog::watch(),
        };
        if link.run(TURN).is_err() {
            let why = link.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            return Err(format!("QEMU did not start: {why}; it said: {}", said(&link.stderr)));
        }
        let clock = Clock { is_virtual: qemu.virtual_clock, now_ns: Mutex::new(0) };
        Ok(Qtest { link: Mutex::new(link), clock })
    }

    /// Runs `work` with the connection to QEMU. If it fails, panics with QEMU's error output,
    /// because register accesses cannot return an error.
    fn link<T>(&self, what: &str, work: impl FnOnce(&mut Link) -> Result<T, String>) -> T {
        let mut link = self.link.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match work(&mut link) {
            Ok(value) => value,
            Err(error) => panic!("qtest `{what}`: {error}; QEMU said: {}", said(&link.stderr)),
        }
    }

    /// Sends one command, and returns the number in its reply; 0 if the reply has no number.
    fn run(&self, command: &str) -> u64 {
        self.link(command, |link| link.run(command))
    }

    /// Sends one command without reading its reply, like a posted write on PCI. QEMU executes
    /// commands in order.
    fn post(&self, command: &str) {
        self.link(command, |link| link.post(command));
    }

    /// Reads an I/O port with `width` bits (8, 16 or 32).
    pub fn port_read(&self, width: u8, port: u16) -> u32 {
        self.run(&format!("in{} {port:#x}", letter(width))) as u32
    }

    /// Writes an I/O port with `width` bits (8, 16 or 32).
    pub fn port_write(&self, width: u8, port: u16, value: u32) {
        self.run(&format!("out{} {port:#x} {value:#x}", letter(width)));
    }

    /// Reads `width` bits (8, 16 or 32) at a guest physical address.
    pub fn read(&self, width: u8, address: u64) -> u32 {
        self.run(&format!("read{} {address:#x}", letter(width))) as u32
    }

    /// Writes `width` bits (8, 16 or 32) at a guest physical address.
    pub fn write(&self, width: u8, address: u64, value: u32) {
        self.post(&format!("write{} {address:#x} {value:#x}", letter(width)));
    }

    /// Makes QEMU report the inputs of this interrupt controller to the test from now on, instead
    /// of to the guest's CPU.
    pub fn intercept_interrupts(&self, controller: &str) {
        self.run(&format!("irq_intercept_in {controller}"));
    }

    /// Returns whether this interrupt line is asserted. QEMU reports a change before it replies to
    /// the access that caused it.
    pub fn line(&self, line: u8) -> bool {
        self.link("interrupt line", |link| {
            link.flush()?;
            Ok(link.level.get(line as usize) == Some(&true))
        })
    }

    /// Returns how many times this interrupt line was raised.
    pub fn raised(&self, line: u8) -> u64 {
        self.link("interrupt line", |link| {
            link.flush()?;
            Ok(link.raised.get(line as usize).copied().unwrap_or(0))
        })
    }

    /// Returns the number of commands sent so far.
    pub fn operations(&self) -> u64 {
        self.link("operations", |link| Ok(link.operations))
    }

    /// Waits until this line is asserted, at most `timeout_ns`; time passes only in waits. Returns
    /// whether the line is asserted.
    pub fn wait_line(&self, line: u8, timeout_ns: u64) -> bool {
        let end_ns = self.now_ns().saturating_add(timeout_ns);
        let mut step_ns = *STEP_NS.start();
        loop {
            if self.line(line) {
                return true;
            }
            let left_ns = end_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return false;
            }
            self.step(left_ns.min(step_ns));
            step_ns = (step_ns * 2).min(*STEP_NS.end());
        }
    }

    /// Returns the time since the start in nanoseconds, by a clock that only QEMU advances.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns.lock().map(|now| *now).unwrap_or(0)
    }

    /// Lets time pass until `at_ns`, while QEMU's timers run.
    pub fn sleep_until(&self, at_ns: u64) {
        let left_ns = at_ns.saturating_sub(self.now_ns());
        // A step of 0 is refused.
        if left_ns > 0 {
            self.step(left_ns);
        }
    }

    /// Advances QEMU's clock by `ns`. A QEMU without a virtual clock makes one turn of its loop
    /// instead, which runs the timers that are due, such as a controller's timers of 100 ns. Code
    /// that waits for something longer, such as the card's power-up, polls again.
    fn step(&self, ns: u64) {
        let reached = if self.clock.is_virtual {
            self.run(&format!("clock_step {ns}"))
        } else {
            self.run(TURN);
            self.now_ns() + ns
        };
        if let Ok(mut now) = self.clock.now_ns.lock() {
            *now = reached;
        }
    }
}

/// A command of qtest that changes nothing.
const TURN: &str = "endianness";

impl Link {
    fn send(&mut self, command: &str) -> Result<(), String> {
        self.operations += 1;
        self.socket.write_all(format!("{command}\n").as_bytes()).map_err(|error| error.to_string())
    }

    fn run(&mut self, command: &str) -> Result<u64, String> {
        self.send(command)?;
        self.flush()?;
        self.reply()
    }

    fn post(&mut self, command: &str) -> Result<(), String> {
        if self.posted >= POSTED {
            self.flush()?;
        }
        self.send(command)?;
        self.posted += 1;
        Ok(())
    }

    /// Reads the replies to the posted writes.
    fn flush(&mut self) -> Result<(), String> {
        while self.posted > 0 {
            self.posted -= 1;
            self.reply()?;
        }
        Ok(())
    }

    /// Waits for the next reply, and records the reports of interrupts before it.
    fn reply(&mut self) -> Result<u64, String> {
        loop {
            while let Some(line) = self.line() {
                if let Some(reply) = self.digest(&line)? {
                    return Ok(reply);
                }
            }
            self.fill()?;
        }
    }

    /// Handles one line from QEMU: `OK`, `OK 0x12`, `OK 12`, `OK little`, `IRQ raise 20`, `FAIL
    /// ...`.
    fn digest(&mut self, line: &str) -> Result<Option<u64>, String> {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("OK"), Some("little" | "big"), _) => Ok(Some(0)),
            (Some("OK"), value, _) => {
                let value = value.unwrap_or("0");
                let parsed = match value.strip_prefix("0x") {
                    Some(digits) => u64::from_str_radix(digits, 16),
                    None => value.parse(),
                };
                parsed.map(Some).map_err(|_| format!("reply `{line}`: expected a number"))
            }
            (Some("IRQ"), Some(what), Some(number)) => {
                let number: usize = number.parse().map_err(|_| format!("`{line}`: expected a line"))?;
                let (Some(level), Some(raised)) = (self.level.get_mut(number), self.raised.get_mut(number))
                else {
                    return Err(format!("`{line}`: expected a line below {LINES}"));
                };
                let up = what == "raise";
                *raised += u64::from(up && !*level);
                *level = up;
                Ok(None)
            }
            _ => Err(format!("reply `{line}`: expected OK")),
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.received.iter().position(|&byte| byte == b'\n')?;
        let rest = self.received.split_off(end + 1);
        let line = std::mem::replace(&mut self.received, rest);
        Some(String::from_utf8_lossy(&line).trim_end().to_string())
    }

    fn fill(&mut self) -> Result<(), String> {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(0) => Err("QEMU closed the socket".to_string()),
            Ok(count) => {
                self.received.extend(buffer.iter().take(count));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the letter for a width in a command of qtest.
fn letter(width: u8) -> char {
    match width {
        8 => 'b',
        16 => 'w',
        32 => 'l',
        _ => panic!("an access of {width} bits: expected 8, 16 or 32"),
    }
}

/// Returns what QEMU wrote to its standard error, on one line.
fn said(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let text = text.trim().replace('\n', " | ");
    if text.is_empty() { "nothing".to_string() } else { text }
}

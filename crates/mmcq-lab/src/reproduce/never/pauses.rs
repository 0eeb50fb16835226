//! Jobs that read or write the card sequentially and pause after each request, alone and beside
//! another job. Shows the gain of transfers that stay open in the pauses, and the cost for the
//! other job.
//!
//! The rate is that of all jobs together. All jobs end as soon as the first of them has finished
//! (fio's `exitall`), so no job has the card for itself at the end.

use super::cell::{Cell, Load, size};
use super::judge::Measured;
use super::{Pauses, Place};
use crate::fio::Worker;
use crate::fio::error::Place as Where;
use crate::fio::script::{Entry, Op, Remap, Script, When};
use crate::runner::Setting;
use std::fmt::{self, Write};
use std::sync::Arc;

/// A further job that uses the card at the same time as the jobs that pause after each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// No other job uses the card.
    Nothing,
    /// Another job has the same load at another place of the card.
    Twin,
    /// Another job reads at random places, with requests and pauses of the same length.
    Reader,
}

/// A pause of a job after each of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Mean length of the pause in microseconds.
    pub us: u32,
    /// Whether the length of the pause is random between 0 and twice the mean.
    pub jitter: bool,
    /// Other job that uses the card at the same time.
    pub beside: Beside,
}

/// Start in bytes of the second job's part of the card.
const SECOND_BYTES: u64 = 8 << 30;
/// Byte offset on the card before which all random places of these jobs lie.
const LAST_BYTES: u64 = 40 << 30;
/// Time to wake a thread, in microseconds, in all cases of this file.
const WAKE_US: u32 = 20;

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.jitter { "about " } else { "" };
        let beside = match self.beside {
            Beside::Nothing => "alone",
            Beside::Twin => "beside another",
            Beside::Reader => "beside a reader",
        };
        write!(f, "pauses of {about}{} us, {beside}", self.us)
    }
}

impl Pauses {
    /// Returns all combinations of load, size and pause to run on this board with this card.
    pub(super) fn cells(&self, place: Place) -> Vec<Cell> {
        let mut cells = Vec::new();
        for load in [Load::Read, Load::Write] {
            for beside in [Beside::Nothing, Beside::Twin, Beside::Reader] {
                for &jitter in self.jitters {
                    for &bytes in self.sizes {
                        for &us in self.pauses_us {
                            let pause = Some(Pause { us, jitter, beside });
                            let jobs = if beside == Beside::Nothing { 1 } else { 2 };
                            cells.push(Cell { place, load, bytes, depth: 1, jobs, wake_us: WAKE_US, pause });
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Random numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end.max(1)
    }
}

impl Pause {
    /// Returns the text of the jobs, each of which gets a [script](Self::script). `global` has the
    /// options of all jobs, and `rw` the kind of their accesses, as in fio.
    pub(super) fn jobs(&self, global: &str, rw: &str) -> String {
        let job = |name: &str, rw: &str| format!("[{name}]\nioengine=psync\nexitall\nrw={rw}\n");
        let second = match self.beside {
            Beside::Nothing => String::new(),
            Beside::Twin => job("twin", rw),
            Beside::Reader => job("reader", "randread"),
        };
        format!("{global}{}{second}", job("first", rw))
    }

    /// Gives each job a script of this number of requests with pauses.
    pub(super) fn script(&self, cell: &Cell, requests: u64, workers: &mut [Worker]) {
        for (n, worker) in (0u64..).zip(workers) {
            let random = n > 0 && self.beside == Beside::Reader;
            let op = if cell.load == Load::Read || random { Op::Read } else { Op::Write };
            let mut chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (n << 32) ^ u64::from(self.us));
            let entries = (0..requests).map(|at| {
                let place = if random { chance.below((LAST_BYTES - SECOND_BYTES) / cell.bytes) } else { at };
                let us = u64::from(self.us);
                let pause_ns = if self.jitter { chance.below(us * 2_000) } else { us * 1_000 };
                let before = u32::try_from(at).unwrap_or(u32::MAX).checked_sub(1);
                let when = before.map_or(When::AtOnce, |before| When::AfterEnd(before, pause_ns));
                Entry {
                    op,
                    offset: n * SECOND_BYTES + place * cell.bytes,
                    bytes: cell.bytes,
                    when,
                    due: None,
                }
            });
            let extent = (LAST_BYTES, Where::Whole("pauses".to_owned()));
            worker.script = Some(Script {
                entries: Arc::new(entries.collect()),
                programs: Arc::default(),
                extent,
                remap: Remap::Refuse,
            });
        }
    }
}

/// Writes a table for one board with a card: one line for each case (cell) of the comparison whose
/// jobs pause after each request. The line has the rate of every setting, and the difference of
/// mmcq and the better of Linux's settings.
pub(super) fn table(out: &mut String, measured: &[Measured], place: Place) {
    let cells: Vec<(&Measured, Pause)> = measured
        .iter()
        .filter(|one| one.cell.place == place)
        .filter_map(|one| one.cell.pause.map(|pause| (one, pause)))
        .collect();
    let Some((first, _)) = cells.first() else { return };
    let settings: Vec<Setting> = first.cell.settings().collect();
    let _ = write!(out, "{}, {}: MiB/s\n{:5} {:>5} {:45}", place.platform, place.card, "load", "bytes", "");
    for setting in &settings {
        let _ = write!(out, "{:>10}", setting.name());
    }
    let _ = writeln!(out, "  ours to Linux");
    for (one, pause) in cells {
        let name = pause.to_string();
        let _ = write!(out, "{:5} {:>5} {name:45}", one.cell.load.name(), size(one.cell.bytes));
        for &setting in &settings {
            let rate = one.of(setting).map_or(0.0, |figures| figures.mib_per_s);
            let _ = write!(out, "{rate:>10.3}");
        }
        let _ = writeln!(out, "  {:+.1} %", one.gain_percent());
    }
    out.push('\n');
}

//! Never slower: compares mmcq's engine with the best of Linux's settings, over boards, cards,
//! loads, sizes, depths, jobs and wake-up times. One combination of these is a *cell*.
//!
//! A cell is *below* in two cases: mmcq is more than 1 % slower than the best setting of Linux, or
//! the 99th percentile of mmcq's latency is more than 2 % longer than that of Linux's best setting.
//! The percentile is compared for random loads, and for a reader beside a writer. If a job flushes
//! after each write, the percentile is that of writes and flushes together. Only the cells that are
//! listed in [`KNOWN`] may be below.
//!
//! Some of Linux's settings report a write as complete before the card has answered for it. These
//! settings are compared with mmcq in a setting that does so too. All other settings of Linux are
//! compared with mmcq in its default setting ([`TOLD_EARLY`]). A 99th percentile beyond which
//! requests starve is not compared ([`STARVES`]).
//!
//! If mmcq and the best setting of Linux are both within 1 % of what wire and card allow, nothing
//! can be gained: the cell is *at the limit*. Of the other sequential cells, at least half must be
//! faster.
//!
//! A rate is that of the steady state ([`crate::runner::Steady`]). If the result of a cell is near
//! a border, the cell runs again before the verdict, four and sixteen times as long. A cell with a
//! rate above the limit also runs 64 times as long. So a rate that is not yet steady decides
//! nothing.

mod cell;
mod judge;
mod kept;
mod known;
pub mod original;
mod pauses;
mod table;

use cell::Side;
pub use cell::{Cell, Load, size};
pub use judge::{Figures, Measured, Verdict};
pub use kept::{Kept, KeptError};
pub use known::{KNOWN, Known};
pub use pauses::{Beside, Pause};
pub use table::{Summary, text};

use super::{Amount, Row};
use crate::board::BoardError;
use crate::platform::Platform;
use crate::runner::{Outcome, Run, RunError, Setting, run};
use mmcq_sim::parallel;

/// A board with a card, and the settings of Linux that the board's host can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the board.
    pub platform: &'static str,
    /// Name of the card.
    pub card: &'static str,
    /// Settings of Linux that the host of this board can run.
    pub linux: &'static [Setting],
    /// Settings among `linux` that report a write as done before the result of the write is known
    /// ([`TOLD_EARLY`]).
    pub early: &'static [Setting],
}

/// Reason why writes are compared twice on a host that does not report the end of busy.
pub const TOLD_EARLY: &str = "the host does not tell the end of busy. There HSQ tells a write as done when its data have moved: it asks no CMD13 \
     and does not wait for the card (mmc_blk_hsq_req_done). mmcq-early does the same (Acknowledge::Transferred), and its next flush tells of \
     an error. Ours by default and none ask the card first (mmc_blk_card_busy)";

/// Reason why a 99th percentile of Linux is not compared: it says too little, since requests
/// starve.
pub const STARVES: &str = "the mean of its latencies is longer than 99 of 100 of them. The rate says the same, by Little's law: mean = requests under way / rate. \
     So the setting starves some requests, and the others get their time. What a client waits for is beyond that percentile. Or one request \
     waits for half of the run and more: one client gets nothing, and the others share what it would have had";

const QUEUES: &[Setting] = &[Setting::None, Setting::HsqTag, Setting::HsqFifo];
const STREAMS: &[Setting] = &[Setting::Close, Setting::Patch];

/// mmcq's settings: with Linux's CPU costs, and with its own.
pub const OURS: [Setting; 2] = [Setting::Mmcq, Setting::MmcqOwn];

/// mmcq's settings in which a write is complete when its data are transferred: with Linux's CPU
/// costs, and with its own.
pub const EARLY: [Setting; 2] = [Setting::MmcqEarly, Setting::MmcqEarlyOwn];

const fn place(platform: &'static str, card: &'static str, linux: &'static [Setting]) -> Place {
    Place { platform, card, linux, early: &[] }
}

/// Returns this place (a board with a card) for a host that does not report the end of the card's
/// busy. On such a host Linux's software queue reports writes as done early.
const fn unseen(place: Place) -> Place {
    Place { early: &[Setting::HsqTag, Setting::HsqFifo], ..place }
}

/// Places of the sweep, in this order: a soldered eMMC; an eMMC whose busy the controller does not
/// see; a fast SD card; an old SD card; an older eMMC; a reader that can continue data.
const PLACES: [Place; 6] = [
    place("hsq-sprd", "hbg4a2", QUEUES),
    unseen(place("hsq-nobusy", "hbg4a2", QUEUES)),
    place("generic", "sdxc-128g-uhs", QUEUES),
    place("generic", "sdhc-16g-hs", QUEUES),
    place("generic", "emmc-hs200", QUEUES),
    place("stream-rtsx", "pro-plus-128", STREAMS),
];

/// Places of the loads that flush: three eMMCs with a cache, each on another board. The host of the
/// last board has a command queue engine.
const FLUSHED: [Place; 3] = [
    place("hsq-sprd", "hbg4a2", QUEUES),
    place("generic", "emmc-hs200", QUEUES),
    place("intel-jsl", "emmc-queue", &[Setting::None, Setting::HsqTag, Setting::HsqFifo, Setting::LinuxCqe]),
];

/// Values of each parameter (board, size, depth, and so on). The sweep runs every combination of
/// these values, called a cell.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Boards on which the loads run, each with a card and the settings of Linux.
    pub places: &'static [Place],
    /// Sizes in bytes of a request. Each combination of a size with the other parameters is one
    /// cell.
    pub sizes: &'static [u64],
    /// Values to try for the number of requests that each job has under way.
    pub depths: &'static [u32],
    /// Values to try for the number of jobs that run at the same time.
    pub jobs: &'static [u32],
    /// Times in us that the CPU needs to wake a thread.
    pub wakes_us: &'static [u32],
    /// For each writer of [`Load::Beside`]: the size of its requests in bytes, and its depth.
    pub writers: &'static [(u64, u32)],
    /// Values to try for the number of jobs of [`Load::Flushed`], in which each job flushes after
    /// each write of 4 KiB.
    pub flushing: &'static [u32],
    /// Loads that pause after each request, on hosts that can continue a transfer after a pause
    /// without a new command.
    pub pauses: Pauses,
}

/// Sequential jobs that pause after each request.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Sizes in bytes that a request may have.
    pub sizes: &'static [u64],
    /// Lengths in microseconds of the pause that a job makes after each request.
    pub pauses_us: &'static [u32],
    /// Values to try for [`Pause::jitter`]: whether the length of the pause is random between 0 and
    /// twice that length.
    pub jitters: &'static [bool],
}

impl Grid {
    /// All combinations of board, card and load for which mmcq is compared with Linux.
    pub const FULL: Grid = Grid {
        places: &PLACES,
        sizes: &[512, 4 << 10, 16 << 10, 64 << 10, 512 << 10],
        depths: &[1, 2, 4, 8, 32],
        jobs: &[1, 4, 20],
        wakes_us: &[5, 20, 60],
        writers: &[(4 << 10, 8), (64 << 10, 1), (64 << 10, 8), (64 << 10, 32), (512 << 10, 8)],
        flushing: &[1, 2, 4, 8, 16, 32, 64],
        pauses: Pauses {
            sizes: &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
            pauses_us: &[50, 200, 400, 1_000, 5_000, 20_000, 140_000],
            jitters: &[false, true],
        },
    };
    /// A part of [`FULL`](Self::FULL) that runs in a minute.
    pub const THIN: Grid = Grid {
        places: &PLACES,
        sizes: &[4 << 10, 64 << 10],
        depths: &[1, 2, 8],
        jobs: &[1, 20],
        wakes_us: &[20],
        writers: &[(64 << 10, 8)],
        flushing: &[1, 8, 32],
        pauses: Pauses { sizes: &[64 << 10], pauses_us: &[400, 5_000], jitters: &[true] },
    };

    /// Returns the names of all boards on which the sweep's cases run.
    pub fn platforms(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.places.iter().chain(&FLUSHED).map(|place| place.platform).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the cells of the grid (a cell is a combination of board, card and load), on all
    /// boards or on the board `platform`. Also returns the reasons why cells are left out.
    pub fn cells(&self, platform: Option<&str>) -> (Vec<Cell>, Vec<String>) {
        let (mut cells, mut reasons) = (Vec::new(), Vec::new());
        for &place in self.places.iter().filter(|place| platform.is_none_or(|name| name == place.platform)) {
            for load in Load::RATES {
                for &bytes in self.sizes {
                    for &depth in self.depths {
                        for &jobs in self.jobs {
                            for &wake_us in self.wakes_us {
                                let cell = Cell { place, load, bytes, depth, jobs, wake_us, pause: None };
                                match cell.senseless() {
                                    None => cells.push(cell),
                                    Some(reason) if !reasons.contains(&reason) => reasons.push(reason),
                                    Some(_) => {}
                                }
                            }
                        }
                    }
                }
            }
            for &(bytes, depth) in self.writers {
                for &wake_us in self.wakes_us {
                    let (load, jobs, pause) = (Load::Beside, 1, None);
                    cells.push(Cell { place, load, bytes, depth, jobs, wake_us, pause });
                }
            }
            if place.linux == STREAMS {
                cells.extend(self.pauses.cells(place));
            }
        }
        for &place in FLUSHED.iter().filter(|place| platform.is_none_or(|name| name == place.platform)) {
            for &jobs in self.flushing {
                for &wake_us in self.wakes_us {
                    let (load, bytes, depth, pause) = (Load::Flushed, 4 << 10, 1, None);
                    cells.push(Cell { place, load, bytes, depth, jobs, wake_us, pause });
                }
            }
        }
        (cells, reasons)
    }
}

/// Further lengths of runs, as multiples of the shortest length. The first two are for a cell
/// (board, card and load) whose result is near the border between two verdicts. The last one is for
/// a cell with a rate above the physical limit: where a card's cache fills only a little faster
/// than it drains, it takes that long to fill.
const LONGER: [u64; 3] = [4, 16, 64];
/// Bounds beyond which the longest request of a run is left out of the figures: a share of the
/// length of the run, and a multiple of the mean latency. Only a request that exceeds both is left
/// out.
const LEFT_OUT: (f64, f64) = (0.5, 8.0);

/// Runs the load of a cell (board, card and load) with all settings and this seed, and returns the
/// figures.
pub fn measure(cell: &Cell, seed: u64) -> Result<Measured, RunError> {
    measure_on(&cell.platform().map_err(BoardError::from)?, cell, seed)
}

/// Runs the cell (a card with a load) in all its settings, and repeats with longer runs until the
/// result is clear. `platform` is the cell's board, and already has the cell's time to wake a
/// thread. `seed`: seed of the runs' random numbers.
fn measure_on(platform: &Platform, cell: &Cell, seed: u64) -> Result<Measured, RunError> {
    let mut measured = once(platform, cell, seed, 1)?;
    for (length, times) in LONGER.into_iter().enumerate() {
        if measured.is_clear(length) {
            break;
        }
        measured = once(platform, cell, seed, times)?;
    }
    Ok(measured)
}

fn once(platform: &Platform, cell: &Cell, seed: u64, times: u64) -> Result<Measured, RunError> {
    let workers = cell.workers(times)?;
    let mut figures = Vec::new();
    for setting in cell.settings() {
        let card = Some(cell.place.card);
        let one = Run { workers: &workers, platform, card, setting, seed };
        figures.push((setting, figure(cell, &run(&one, None, &mut |_, _| ())?)));
    }
    Ok(Measured { cell: *cell, times, figures })
}

/// Returns the figures (rate and latencies) of one setting's run with this board, card and load.
fn figure(cell: &Cell, outcome: &Outcome) -> Figures {
    let rate = outcome.counters.steady.mib_per_s().unwrap_or_else(|| super::mib_per_s(outcome));
    let group = match (cell.load, &outcome.stats[..]) {
        (Load::Beside, [_, reader]) => reader.clone(),
        _ => outcome.group(),
    };
    let mut latency = group.dirs[0].clat.clone();
    latency.pool(&group.dirs[1].clat);
    // A job waits for its write, and then for its flush.
    latency.pool(&group.sync);
    let p99_ns = latency.histogram.percentiles(&[99.0]).first().copied().unwrap_or(0);
    // By Little's law, a run lasts this many times the mean latency.
    let rounds = latency.ns.samples as f64 / f64::from(cell.under_way().max(1));
    let (share, means) = LEFT_OUT;
    let longest_us = latency.ns.max as f64 / 1e3;
    let mean_us = latency.ns.mean / 1e3;
    let is_left_out = cell.load != Load::Beside && longest_us > mean_us * means.max(rounds * share);
    let starved_us = if is_left_out { longest_us } else { 0.0 };
    Figures { mib_per_s: rate, p99_us: p99_ns as f64 / 1e3, mean_us, starved_us }
}

/// Runs each combination of board, card, load and settings in `cells`. Calls `progress` with each
/// result.
pub fn sweep(
    cells: &[Cell],
    amount: Amount,
    progress: &(dyn Fn(&Measured) + Sync),
) -> Result<Vec<Measured>, RunError> {
    let measured = parallel::each(cells.len(), amount.threads, |at| {
        let measured = measure(&cells[at], amount.seed)?;
        progress(&measured);
        Ok(measured)
    });
    measured.into_iter().collect()
}

/// Returns the results of all comparisons as rows for [`super::json_lines`].
pub fn rows(measured: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in measured {
        let limit = one.limit();
        for (setting, figures) in one.figures.iter().skip(1) {
            let mut row = |cell: String, unit: &str, model, limit| {
                let (setting, unit) = (setting.name().to_owned(), unit.to_owned());
                rows.push(Row { cell, setting, unit, published: None, fitted: false, model, limit });
            };
            let cell = one.cell.to_string();
            if one.cell.load != Load::Beside {
                row(cell.clone(), "MiB/s", figures.mib_per_s, Some(limit));
            }
            row(format!("{cell}, p99"), "us", figures.p99_us, None);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that starving is detected. HSQ admits three requests. In tag order, three other
    /// clients always come before the fourth, until one of them has no work left.
    #[test]
    fn a_client_that_is_left_out_while_three_are_served_is_seen() {
        let (cells, _) = Grid::FULL.cells(Some("generic"));
        for shape in ["depth 1, 4 jobs", "depth 4, 1 jobs"] {
            let name = format!("generic, sdhc-16g-hs, 70/30 16k, {shape}, wake 20 us");
            let cell = cells.iter().find(|cell| cell.to_string() == name).unwrap();
            let measured = measure(cell, 1).unwrap();
            let starving = measured.figures.iter().filter(|(_, figures)| figures.starves());
            assert_eq!(
                starving.map(|(setting, _)| *setting).collect::<Vec<_>>(),
                [Setting::HsqTag],
                "{name}"
            );
            assert!(measured.of(Setting::HsqTag).unwrap().starved_us > 100e3, "{measured:?}");
            assert_eq!(measured.verdict(), Verdict::AtLimit, "{measured:?}");
        }
    }
}

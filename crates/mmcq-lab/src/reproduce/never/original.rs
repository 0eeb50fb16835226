//! Loads that unmodified Linux ran on the laboratory's controller and card (`mmcq guest`), next to
//! the results of the models of Linux and of mmcq.

use super::{Cell, Grid, Load, Measured, OURS, measure_on};
use crate::board::BoardError;
use crate::guest::Report;
use crate::reproduce::{Amount, original::reports, original::simulated};
use crate::runner::{RunError, Setting};
use mmcq_sim::parallel;
use std::fmt::Write;

/// Settings with which unmodified Linux can run a case (a board, a card and a load).
const LINUX: [Setting; 2] = [Setting::None, Setting::HsqTag];

/// Setting with which `mmcq.ko` is compared: the same stack in the simulator.
const MODULE: Setting = Setting::Mmcq;

/// Rates of unmodified Linux with one board, card and load (a cell).
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Case (board, card and load) that was measured on unmodified Linux.
    pub cell: Cell,
    /// Rates in MiB/s by setting. The rate of `mmcq.ko` is listed with the setting of the simulated
    /// stack.
    pub rates: Vec<(Setting, f64)>,
}

/// Results of one compared case (board, card and load) on unmodified Linux and in the laboratory.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Figures of the models in the laboratory.
    pub measured: Measured,
    /// Rates of unmodified Linux in MiB/s, by setting.
    pub original: Vec<(Setting, f64)>,
}

impl Judged {
    /// Returns the rate in MiB/s of unmodified Linux with the setting `wanted`; `None`: it did not
    /// run.
    pub fn of(&self, wanted: Setting) -> Option<f64> {
        self.original.iter().find(|(setting, _)| *setting == wanted).map(|(_, rate)| *rate)
    }

    /// Returns by how many percent the rate of the model of Linux is above that of unmodified
    /// Linux, with this setting; negative: below. `None`: one of them did not run with it.
    pub fn error_percent(&self, setting: Setting) -> Option<f64> {
        let (original, stand_in) = (self.of(setting)?, self.measured.of(setting)?);
        Some(100.0 * (stand_in.mib_per_s / original - 1.0))
    }

    /// Returns the rate of unmodified Linux in MiB/s, with or without its software queue, whichever
    /// is higher.
    pub fn best(&self) -> f64 {
        let linux = self.original.iter().filter(|(setting, _)| LINUX.contains(setting));
        linux.map(|(_, rate)| *rate).fold(0.0, f64::max)
    }

    /// Returns by how many percent `mmcq.ko` is faster than the better of unmodified Linux's
    /// settings, in the same comparison; `None`: `mmcq.ko` did not run it.
    pub fn module_percent(&self) -> Option<f64> {
        Some(100.0 * (self.of(MODULE)? / self.best().max(f64::MIN_POSITIVE) - 1.0))
    }

    /// Returns how much faster mmcq is than the better of unmodified Linux's settings, in percent.
    /// The slower of mmcq's settings counts.
    pub fn gain_percent(&self) -> f64 {
        100.0 * (self.measured.ours() / self.best().max(f64::MIN_POSITIVE) - 1.0)
    }
}

/// Parses a file of reports of `mmcq guest`. Returns the measured cases (board, card and load) with
/// the rates of unmodified Linux. An error is one line.
pub fn parse(text: &str) -> Result<Vec<Seen>, String> {
    let mut cells: Vec<Seen> = Vec::new();
    for (number, report) in (1..).zip(reports(text)?) {
        let place =
            Grid::FULL.places.iter().find(|p| (p.platform, p.card) == (&report.platform, &report.card));
        let setting = LINUX.into_iter().chain([MODULE]).find(|setting| setting.name() == simulated(&report));
        let (Some(&place), Some(setting)) = (place, setting) else {
            let Report { platform, card, setting, .. } = report;
            return Err(format!("line {number}: {platform} {card} {setting}: no cell of the sweep"));
        };
        let wake_us = u32::try_from(report.wake_ns / 1000).unwrap_or(u32::MAX);
        for load in &report.loads {
            let Some(kind) = Load::RATES.into_iter().find(|kind| kind.name() == load.load) else {
                return Err(format!("line {number}: {}: no cell of the sweep", load.load));
            };
            if !(load.mib_per_s.is_finite() && load.mib_per_s > 0.0) {
                return Err(format!("line {number}: {} MiB/s: expected a rate", load.mib_per_s));
            }
            let (bytes, depth, jobs) = (load.bytes, load.depth, load.jobs);
            // Any depth from 1 to 32 is allowed, not only those of the sweep, since these results
            // are not stored.
            if !Grid::FULL.sizes.contains(&bytes) || !(1..=32).contains(&depth) || jobs == 0 {
                let sizes = [bytes, u64::from(depth), u64::from(jobs)];
                return Err(format!("line {number}: bytes, depth, jobs {sizes:?}: no cell of the sweep"));
            }
            let cell = Cell { place, load: kind, bytes, depth, jobs, wake_us, pause: None };
            let rate = (setting, load.mib_per_s);
            match cells.iter_mut().find(|seen| seen.cell == cell) {
                Some(seen) if seen.rates.iter().any(|(known, _)| *known == setting) => {
                    return Err(format!("line {number}: {cell}, {}: a second time", setting.name()));
                }
                Some(seen) => seen.rates.push(rate),
                None => cells.push(Seen { cell, rates: vec![rate] }),
            }
        }
    }
    Ok(cells)
}

/// Runs the loads that unmodified Linux ran (`cells`) with the laboratory's models of Linux and
/// mmcq. Returns each load with the rates of all three.
pub fn judge(cells: &[Seen], amount: Amount) -> Result<Vec<Judged>, RunError> {
    let judged = parallel::each(cells.len(), amount.threads, |at| {
        let Seen { cell, rates } = &cells[at];
        let platform = cell.priced().map_err(BoardError::from)?;
        Ok(Judged { measured: measure_on(&platform, cell, amount.seed)?, original: rates.clone() })
    });
    judged.into_iter().collect()
}

/// Returns a table in Markdown, in MiB/s: unmodified Linux, its model, and mmcq against the better
/// setting of unmodified Linux.
pub fn table(judged: &[Judged]) -> String {
    let mut out = String::from("| cell ");
    for setting in LINUX {
        let _ = write!(out, "| Linux, {0} | stand-in `{0}` | off by ", setting.name());
    }
    for setting in OURS {
        let _ = write!(out, "| `{}` ", setting.name());
    }
    out.push_str("| limit | ours to Linux | `mmcq.ko` | `mmcq.ko` to Linux |\n|---|");
    out.push_str(&"---:|".repeat(3 * LINUX.len() + OURS.len() + 4));
    out.push('\n');
    for one in judged {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.2}"));
        let percent = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:+.1} %"));
        let of = |setting| rate(one.measured.of(setting).map(|figures| figures.mib_per_s));
        let cell = &one.measured.cell;
        let size = super::size(cell.bytes);
        let jobs = if cell.jobs == 1 { String::new() } else { format!(", {} jobs", cell.jobs) };
        let _ =
            write!(out, "| {}, {} {size}, depth {}{jobs} ", cell.place.card, cell.load.name(), cell.depth);
        for setting in LINUX {
            let error = percent(one.error_percent(setting));
            let _ = write!(out, "| {} | {} | {error} ", rate(one.of(setting)), of(setting));
        }
        for setting in OURS {
            let _ = write!(out, "| {} ", of(setting));
        }
        let gain = percent(Some(one.gain_percent()));
        let module = [rate(one.of(MODULE)), percent(one.module_percent())].join(" | ");
        let _ = writeln!(out, "| {:.2} | {gain} | {module} |", one.measured.limit());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::never::Figures;

    const LINE: &str = r#"{"platform":"generic","card":"emmc-hs200","setting":"none","cpus":1,"instruction_ns":1,"wake_ns":20000,"irq_ns":1500,"register_read_ns":150,"register_write_ns":40,"begin":[],"output":[],"loads":[{"load":"write","bytes":4096,"depth":8,"jobs":1,"requests":9,"reaps":"all","mib_per_s":53.1,"latency_us":1,"merged":8,"elapsed_us":1,"switches":1,"percentiles_us":{}}],"counters":{"at_ns":1,"instructions":1,"register_reads":1,"register_writes":1,"interrupts":1,"commands":1,"violations":0}}"#;

    #[test]
    fn lines_of_one_cell_come_together_and_what_is_no_cell_is_named_with_its_line() {
        let queue = LINE.replace("none", "hsq-tag").replace("53.1", "66.5");
        let deep = LINE.replace("\"depth\":8", "\"depth\":32");
        let module = LINE.replace("none", "mmcq.ko").replace("53.1", "68.5");
        let cells = parse(&[LINE, &queue, &module, &deep].join("\n")).unwrap();
        assert_eq!(cells.len(), 2);
        assert_eq!(cells[0].rates, [(Setting::None, 53.1), (Setting::HsqTag, 66.5), (Setting::Mmcq, 68.5)]);
        assert_eq!((cells[1].cell.depth, cells[1].cell.wake_us), (32, 20));
        for (bad, words) in [
            (LINE.replace("emmc-hs200", "no-card"), "no-card"),
            (LINE.replace("none", "close"), "close"),
            (LINE.replace("4096", "4097"), "[4097, 8, 1]"),
            (LINE.replace("\"depth\":8", "\"depth\":33"), "[4096, 33, 1]"),
            (LINE.replace("53.1", "0"), "0 MiB/s"),
            (LINE.to_owned(), "a second time"),
            (LINE.replace("\"jobs\":1,", ""), "jobs"),
        ] {
            let error = parse(&format!("{LINE}\n{bad}\n")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(words), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }

    #[test]
    fn the_stand_in_has_the_board_s_own_prices_where_the_guest_had_its_wake_up() {
        let mut cell = parse(LINE).unwrap().remove(0).cell;
        let us = |cell: &Cell| {
            let costs = cell.priced().unwrap().costs;
            ["wake", "job_wake", "hop"].map(|cost| costs.value(cost))
        };
        assert_eq!(us(&cell), [26.5, 20.0, 28.0]);
        cell.wake_us = 60;
        assert_eq!(us(&cell), [66.5, 60.0, 68.0]);
    }

    #[test]
    fn the_table_says_how_much_the_stand_in_is_off_and_what_ours_gains() {
        let Seen { cell, rates: original } = parse(LINE).unwrap().remove(0);
        let rates = [(Setting::Limit, 80.0), (Setting::None, 55.755), (Setting::Mmcq, 66.375)];
        let of = |(setting, mib_per_s)| {
            (setting, Figures { mib_per_s, p99_us: 1.0, mean_us: 1.0, starved_us: 0.0 })
        };
        let measured = Measured { cell, times: 1, figures: rates.map(of).to_vec() };
        // The rate of `mmcq.ko` does not count as one of Linux's own.
        let original = [original, vec![(Setting::Mmcq, 58.41)]].concat();
        let text = table(&[Judged { measured, original }]);
        let line = "| emmc-hs200, write 4k, depth 8 | 53.10 | 55.76 | +5.0 % |  |  |  | 66.38 |  | 80.00 | +25.0 % | 58.41 | +10.0 % |";
        assert_eq!(text.lines().nth(2), Some(line), "{text}");
        let columns = |line: &str| line.matches('|').count();
        assert!(text.lines().all(|line| columns(line) == columns(text.lines().next().unwrap())), "{text}");
    }
}

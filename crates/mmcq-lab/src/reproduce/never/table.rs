//! The results of the sweep `mmcq reproduce never` as text and tables.

use super::{Cell, KNOWN, Known, Load, Measured, Place, STARVES, TOLD_EARLY, Verdict, known, pauses, size};
use crate::runner::Setting;
use std::fmt::Write;

/// Summary of a sweep: how many of the compared cases (cells: board, card, load) had each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of all compared cases (cells: board, card and load) that were measured.
    pub cells: usize,
    /// Number of measured cases for each verdict, in the order of [`Verdict`].
    pub by_verdict: [usize; 6],
    /// Number of comparisons with a sequential load without pauses.
    pub sequential: usize,
    /// Number of comparisons, with a sequential load without pauses, in which mmcq is faster than
    /// the best setting of Linux.
    pub sequential_faster: usize,
    /// Number of cases with a sequential load and without pauses that reach the physical limit,
    /// where no stack can be faster.
    pub sequential_at_limit: usize,
    /// Number of cells (board, card and load) in which a setting is faster than the physical limit,
    /// so that the limit must be wrong.
    pub beyond_limit: usize,
    /// Number of cells (board, card and load) that are in the list of open losses, although mmcq is
    /// not slower there any more.
    pub mended: usize,
}

impl Summary {
    /// Counts the comparisons of mmcq with Linux by their results (mmcq faster, equal, slower and
    /// so on).
    pub fn of(measured: &[Measured]) -> Self {
        Self::with(measured, KNOWN)
    }

    /// Counts how many of the cells `measured` have each verdict, such as "faster". `open` is the
    /// list of the cells in which mmcq is known to be slower than Linux.
    pub(super) fn with(measured: &[Measured], open: &[Known]) -> Self {
        let mut sum = Summary { cells: measured.len(), ..Summary::default() };
        for one in measured {
            let verdict = one.verdict_with(open);
            sum.by_verdict[verdict as usize] += 1;
            let is_sequential = one.cell.load.sequential() && one.cell.pause.is_none();
            let sequential = |wanted| usize::from(is_sequential && verdict == wanted);
            sum.sequential += usize::from(is_sequential);
            sum.sequential_faster += sequential(Verdict::Faster);
            sum.sequential_at_limit += sequential(Verdict::AtLimit);
            sum.beyond_limit += usize::from(one.passes().is_some());
            sum.mended += usize::from(known::find(open, &one.cell).is_some() && verdict != Verdict::Known);
        }
        sum
    }

    /// Returns true if all of these hold. First, mmcq is slower than Linux, or has a longer 99th
    /// percentile, only in cases that a list names, and still in all of these. Second, no setting
    /// is faster than the physical limit. Third, of the sequential cases below that limit, mmcq is
    /// faster in at least half.
    pub fn holds(&self) -> bool {
        let [slower, longer, ..] = self.by_verdict;
        let wrong = slower + longer + self.mended + self.beyond_limit;
        wrong == 0 && 2 * self.sequential_faster >= self.sequential_with_room()
    }

    /// Returns the number of cases with a sequential load in which Linux or mmcq is below the
    /// physical limit, so that a stack can still gain.
    fn sequential_with_room(&self) -> usize {
        self.sequential - self.sequential_at_limit
    }
}

/// Returns the whole text: a table of all results (cells), what was left out, the cells in which
/// mmcq is slower than Linux or has a longer 99th percentile, and the counts.
pub fn text(measured: &[Measured], left_out: &[String]) -> String {
    text_with(measured, left_out, KNOWN)
}

/// Returns the tables of the comparison with Linux as text. `open` lists the cases for which a
/// reason is known why mmcq is slower than Linux. [`text`] calls this with the built-in list.
pub(super) fn text_with(measured: &[Measured], left_out: &[String], open: &[Known]) -> String {
    let mut out = String::new();
    for place in places(measured) {
        rates(&mut out, measured, place);
        readers(&mut out, measured, place);
        pauses::table(&mut out, measured, place);
    }
    for reason in left_out {
        let _ = writeln!(out, "left out: {reason}");
    }
    below(&mut out, measured, open);
    twice(&mut out, measured);
    open_losses(&mut out, measured, open);
    starving(&mut out, measured);
    beyond(&mut out, measured);
    counts(&mut out, &Summary::with(measured, open));
    out
}

fn places(measured: &[Measured]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for one in measured {
        if !places.contains(&one.cell.place) {
            places.push(one.cell.place);
        }
    }
    places
}

/// Writes, in percent, by how much mmcq is faster than Linux at one place (board and card): a line
/// for each load, size and wake-up time, and a column for each number of jobs and depth.
fn rates(out: &mut String, measured: &[Measured], place: Place) {
    let of_place = |one: &&Measured| {
        one.cell.place == place && one.cell.load != Load::Beside && one.cell.pause.is_none()
    };
    let all: Vec<&Measured> = measured.iter().filter(of_place).collect();
    let mut columns: Vec<(u32, u32)> = all.iter().map(|one| (one.cell.jobs, one.cell.depth)).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut lines: Vec<(&str, u64, u32)> = Vec::new();
    for one in &all {
        let line = line_of(&one.cell);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let _ = writeln!(out, "{}, {}: ours to the best of Linux, percent", place.platform, place.card);
    let _ = write!(out, "{:10} {:>5} {:>7}", "load", "bytes", "wake us");
    for (jobs, depth) in &columns {
        let _ = write!(out, "{:>7}", format!("{jobs}x{depth}"));
    }
    out.push('\n');
    for line in lines {
        let _ = write!(out, "{:10} {:>5} {:>7}", line.0, size(line.1), line.2);
        for &column in &columns {
            let found =
                all.iter().find(|m| line_of(&m.cell) == line && (m.cell.jobs, m.cell.depth) == column);
            let text = found.map_or(String::new(), |one| format!("{:+.1}", one.gain_percent()));
            let _ = write!(out, "{text:>7}");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out.push('\n');
}

fn line_of(cell: &Cell) -> (&'static str, u64, u32) {
    (cell.load.name(), cell.bytes, cell.wake_us)
}

/// Writes one line for each load with this board and card in which a reader runs beside a writer.
fn readers(out: &mut String, measured: &[Measured], place: Place) {
    let of_place = |one: &&Measured| one.cell.place == place && one.cell.load == Load::Beside;
    for one in measured.iter().filter(of_place) {
        let _ = writeln!(
            out,
            "reader beside a writer of {}, depth {}, wake {} us: p99 {:.0} us{}",
            size(one.cell.bytes),
            one.cell.depth,
            one.cell.wake_us,
            one.tail_us(),
            against_shortest(one),
        );
    }
    out.push('\n');
}

/// Writes a line for every case (board, card and load) in which mmcq has a lower rate than Linux or
/// a longer 99th percentile of latency, the worst first.
fn below(out: &mut String, measured: &[Measured], open: &[Known]) {
    let slower = |one: &&Measured| one.verdict_with(open) == Verdict::Slower;
    let mut slower: Vec<&Measured> = measured.iter().filter(slower).collect();
    slower.sort_by(|a, b| a.gain_percent().total_cmp(&b.gain_percent()));
    for one in slower {
        let _ = writeln!(out, "slower: {}: {}", one.cell, against_best(one));
    }
    let tail = |one: &Measured| one.tail_percent().unwrap_or(0.0);
    let counts = |one: &&Measured| matches!(one.verdict_with(open), Verdict::Slower | Verdict::Longer);
    let mut longer: Vec<&Measured> = measured.iter().filter(counts).filter(|m| tail(m) > 2.0).collect();
    longer.sort_by(|a, b| tail(b).total_cmp(&tail(a)));
    for one in longer {
        let _ = writeln!(out, "longer: {}: p99 {:.0} us{}", one.cell, one.tail_us(), against_shortest(one));
    }
}

/// Returns as text the rates of mmcq and of the best setting of Linux in one comparison, and how
/// much mmcq loses.
fn against_best(one: &Measured) -> String {
    let (best, rate) = one.best();
    format!("{} {rate:.2} MiB/s{}: {:+.1} %", best.name(), rates_of(one), one.gain_percent())
}

/// Returns as text the shortest 99th percentile of latency that a setting of Linux has in this
/// cell, and by how many percent mmcq's is longer.
fn against_shortest(one: &Measured) -> String {
    let (best, us) = one.shortest();
    one.tail_percent().map_or(String::new(), |tail| format!(", {} {us:.0}: {tail:+.1} %", best.name()))
}

/// Writes a line for each measured cell that is in `open`, the list of known losses. The line gives
/// the reason for the loss. If mmcq does not lose in this cell any more, the line says instead that
/// the cell must leave the list.
fn open_losses(out: &mut String, measured: &[Measured], open: &[Known]) {
    for one in measured {
        let Some(loss) = known::find(open, &one.cell) else { continue };
        if one.verdict_with(open) == Verdict::Known {
            let p99 = against_shortest(one);
            let _ = writeln!(
                out,
                "known: {}: {}; p99 {:.0} us{p99}: {}",
                one.cell,
                against_best(one),
                one.tail_us(),
                loss.reason
            );
        } else {
            let _ =
                writeln!(out, "not lost any more: {}: {}: take it out of KNOWN", one.cell, against_best(one));
        }
    }
}

/// Lists the cells in which Linux has a shorter 99th percentile of latency than mmcq, but is not
/// compared: some of its requests starve (wait very long), which this percentile does not show.
fn starving(out: &mut String, measured: &[Measured]) {
    let mut any = false;
    for one in measured {
        for (setting, figures) in one.starving() {
            any = true;
            let starved = match figures.starved_us {
                us if us > 0.0 => format!(", one request {us:.0}"),
                _ => String::new(),
            };
            let _ = writeln!(
                out,
                "not compared: {}: {} p99 {:.0} us, mean {:.0}{starved}; ours p99 {:.0}{}",
                one.cell,
                setting.name(),
                figures.p99_us,
                figures.mean_us,
                one.tail_us(),
                against_shortest(one),
            );
        }
    }
    if any {
        let _ = writeln!(out, "not compared because {STARVES}");
    }
}

/// Writes that some results are compared twice, and why: in one comparison mmcq completes a write
/// when its data are transferred, in the other when it is programmed.
fn twice(out: &mut String, measured: &[Measured]) {
    let count = measured.iter().filter(|one| one.cell.sides().len() > 1).count();
    if count > 0 {
        let _ = writeln!(out, "{count} cells are compared twice because {TOLD_EARLY}");
    }
}

fn rates_of(one: &Measured) -> String {
    let rate = |setting: Setting| one.of(setting).map_or(0.0, |figures| figures.mib_per_s);
    let named = |setting: Setting| format!(", {} {:.2}", setting.name(), rate(setting));
    one.slower_side().ours.map(named).concat() + &named(Setting::Limit)
}

/// Writes a line for every cell (board, card and load) in which a setting is faster than the
/// physical limit.
fn beyond(out: &mut String, measured: &[Measured]) {
    for one in measured {
        if let Some((setting, above)) = one.passes() {
            let rate = one.of(setting).map_or(0.0, |figures| figures.mib_per_s);
            let _ = writeln!(
                out,
                "beyond the limit: {}: {} {rate:.2} MiB/s, limit {:.2}: {above:+.1} %",
                one.cell,
                setting.name(),
                one.limit()
            );
        }
    }
}

fn counts(out: &mut String, sum: &Summary) {
    let [slower, longer, known, level, at_limit, faster] = sum.by_verdict;
    let _ = writeln!(
        out,
        "{} cells: {slower} slower by more than 1 %, {longer} with a longer p99, {known} known, {level} level, {at_limit} at the limit, \
         {faster} faster by more than 1 %; sequential: {} of {} faster, {} at the limit (of those with room {:.0} % faster); beyond the limit: {}",
        sum.cells,
        sum.sequential_faster,
        sum.sequential,
        sum.sequential_at_limit,
        100.0 * sum.sequential_faster as f64 / sum.sequential_with_room().max(1) as f64,
        sum.beyond_limit
    );
}

//! Computes the verdict on a cell (board, card and load) from its figures: whether mmcq is faster
//! or slower there than Linux.

use super::{Cell, KNOWN, Known, Load, Side, known};
use crate::runner::Setting;

/// Percentage by which mmcq may be slower than the best setting of Linux without being counted as
/// slower. It is several times the error of a steady rate.
const SLOWER_PERCENT: f64 = 1.0;
/// Percentage by which mmcq's 99th percentile of latency may be longer than Linux's. A bucket of
/// fio's histogram is 1.6 % wide.
const LONGER_PERCENT: f64 = 2.0;
/// Ranges of mmcq's gain over Linux, in percent, for which there is no verdict yet, since a rate
/// that is not yet steady might decide. A cell (board, card and load) with a gain in such a range
/// runs again for longer. There is one range for each length of a run. The border of the verdict is
/// -[`SLOWER_PERCENT`].
const NEAR_PERCENT: [std::ops::Range<f64>; 2] = [-10.0..-0.3, -10.0..-0.5];
/// Ranges in which the difference between the 99th percentiles of mmcq and Linux, in percent, is
/// too close to decide whether mmcq loses. A cell (board, card and load) in such a range runs again
/// for longer; there is one range for each length of a run. The limit that decides is
/// [`LONGER_PERCENT`].
///
/// The ranges are wide: with few requests under way a single slow request can make the percentile
/// half as long again.
const NEAR_TAIL_PERCENT: [std::ops::Range<f64>; 2] = [2.0..60.0, 2.0..20.0];
/// Percentage by which a measured rate may be above the physical limit (the simulated rate of wire
/// and card alone) and still count as within it.
const LIMIT_PERCENT: f64 = 0.5;

/// Figures of one setting (a compared stack) in one cell (a board, a card and a load).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Rate of the setting in MiB/s.
    pub mib_per_s: f64,
    /// 99th percentile of the latencies, in microseconds.
    pub p99_us: f64,
    /// Mean of the latencies, in microseconds.
    pub mean_us: f64,
    /// Latency in microseconds of a request that waited for half of the run and is left out of the
    /// other figures; 0: no request waited so long.
    pub starved_us: f64,
}

impl Figures {
    /// Returns whether requests starve: the mean latency is more than 2 % above the 99th
    /// percentile, so a few requests wait much longer than all others; or a request waited for half
    /// of the run and was left out of the figures ([`super::STARVES`]).
    pub fn starves(&self) -> bool {
        self.starved_us > 0.0 || percent(self.mean_us, self.p99_us) > LONGER_PERCENT
    }
}

/// Result of one cell (a board, a card and a load): the figures of all settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Board, card and load whose results are compared here.
    pub cell: Cell,
    /// Length of the run, as a multiple of the shortest run that a comparison does.
    pub times: u64,
    /// Figures of each setting; the setting `limit` comes first.
    pub figures: Vec<(Setting, Figures)>,
}

/// Result of one case (board, card, load and request size): how mmcq compares with the best setting
/// of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// mmcq is slower than the best setting of Linux by more than 1 %.
    Slower,
    /// mmcq is not slower than Linux, but the 99th percentile of mmcq's latency is more than 2 %
    /// longer than Linux's.
    Longer,
    /// mmcq is slower, or has a longer percentile, but the cell is in the list of cells for which
    /// this is known ([`super::KNOWN`]).
    Known,
    /// mmcq is within 1 % of the best setting of Linux; or its rate is not compared, since a reader
    /// runs beside a writer.
    Level,
    /// mmcq is within 1 % of the best setting of Linux, and both are within 1 % of what wire and
    /// card allow: no stack can be faster.
    AtLimit,
    /// mmcq is faster than the best setting of Linux by more than 1 %.
    Faster,
}

fn percent(this: f64, than: f64) -> f64 {
    100.0 * (this / than.max(f64::MIN_POSITIVE) - 1.0)
}

impl Measured {
    /// Returns the figures of the setting `wanted` in this comparison; `None`: the setting did not
    /// run.
    pub fn of(&self, wanted: Setting) -> Option<Figures> {
        self.figures.iter().find(|(setting, _)| *setting == wanted).map(|(_, figures)| *figures)
    }

    /// Returns the physical limit in MiB/s: the rate of this board and card with software that
    /// takes no time.
    pub fn limit(&self) -> f64 {
        self.of(Setting::Limit).map_or(0.0, |figures| figures.mib_per_s)
    }

    fn linux<'a>(&'a self, side: &'a Side) -> impl Iterator<Item = &'a (Setting, Figures)> {
        self.figures.iter().filter(|(setting, _)| side.linux.contains(setting))
    }

    /// Returns the comparison with the worst result for mmcq. A cell has one or two comparisons
    /// ([`Side`]), each of some settings of mmcq with some of Linux; the worst is that in which
    /// mmcq's rate gains least over Linux's best.
    pub(super) fn slower_side(&self) -> Side {
        let mut sides = self.cell.sides();
        sides.sort_by(|a, b| self.gain_of(a).total_cmp(&self.gain_of(b)));
        sides.swap_remove(0)
    }

    /// Returns the group of compared settings in which mmcq's 99th percentile of latency is longest
    /// in relation to Linux's.
    fn longer_side(&self) -> Side {
        let mut sides = self.cell.sides();
        sides.sort_by(|a, b| self.tail_of(b).total_cmp(&self.tail_of(a)));
        sides.swap_remove(0)
    }

    /// Returns Linux's fastest setting in this comparison and its rate in MiB/s.
    pub fn best(&self) -> (Setting, f64) {
        self.best_of(&self.slower_side())
    }

    fn best_of(&self, side: &Side) -> (Setting, f64) {
        let rates = self.linux(side).map(|(setting, figures)| (*setting, figures.mib_per_s));
        rates.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Setting::None, 0.0))
    }

    /// Returns Linux's setting with the shortest 99th percentile; also the percentile in us.
    /// Settings with which requests starve are left out, unless requests starve with all settings.
    pub fn shortest(&self) -> (Setting, f64) {
        self.shortest_of(&self.longer_side())
    }

    fn shortest_of(&self, side: &Side) -> (Setting, f64) {
        let measures = |f: &Figures| self.slowest_is_the_card(side) || !f.starves();
        let linux = self.linux(side).filter(|(_, figures)| measures(figures));
        let times = linux.map(|(setting, figures)| (*setting, figures.p99_us));
        times.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Setting::None, 0.0))
    }

    /// Returns whether requests starve (a few wait much longer than all others) with each of
    /// Linux's settings in this group of compared settings. Then the card is the cause, not the
    /// order of requests.
    fn slowest_is_the_card(&self, side: &Side) -> bool {
        self.linux(side).all(|(_, figures)| figures.starves())
    }

    /// Returns Linux's settings whose 99th percentile would be the shortest, but is no valid
    /// measure since requests starve.
    pub(super) fn starving(&self) -> Vec<(Setting, Figures)> {
        if self.cell.load.sequential() {
            return Vec::new();
        }
        let of_side = |side: Side| {
            let ours_us = self.tail_us_of(&side);
            let shorter = |f: &Figures| percent(ours_us, f.p99_us) > LONGER_PERCENT;
            let counts = !self.slowest_is_the_card(&side);
            let found = self.linux(&side).filter(|(_, f)| counts && f.starves() && shorter(f));
            found.copied().collect::<Vec<_>>()
        };
        self.cell.sides().into_iter().flat_map(of_side).collect()
    }

    /// Returns how much faster mmcq is than the best setting of Linux, in percent of Linux's rate.
    ///
    /// A setting is a stack with its context (an interrupt thread, a tasklet). Settings are
    /// compared in groups, some of mmcq with some of Linux. The result is for the group with the
    /// smallest gain, and there for the slower one of mmcq's settings.
    pub fn gain_percent(&self) -> f64 {
        self.gain_of(&self.slower_side())
    }

    /// Returns the rate in MiB/s of the slower one of mmcq's settings, in the comparison with Linux
    /// in which mmcq has the worst result.
    pub(super) fn ours(&self) -> f64 {
        self.ours_of(&self.slower_side())
    }

    fn ours_of(&self, side: &Side) -> f64 {
        let ours = side.ours.into_iter().filter_map(|setting| self.of(setting));
        ours.map(|figures| figures.mib_per_s).fold(f64::INFINITY, f64::min)
    }

    fn gain_of(&self, side: &Side) -> f64 {
        percent(self.ours_of(side), self.best_of(side).1)
    }

    /// Returns how much longer mmcq's 99th percentile is than Linux's, in percent; `None`: it is
    /// not compared for this load.
    pub fn tail_percent(&self) -> Option<f64> {
        (!self.cell.load.sequential()).then(|| self.tail_of(&self.longer_side()))
    }

    fn tail_of(&self, side: &Side) -> f64 {
        percent(self.tail_us_of(side), self.shortest_of(side).1)
    }

    /// Returns the 99th percentile of mmcq's latency in us. If mmcq and Linux are compared in
    /// several groups of settings, takes the group in which mmcq's latency is longest in proportion
    /// to Linux's.
    pub(super) fn tail_us(&self) -> f64 {
        self.tail_us_of(&self.longer_side())
    }

    /// Returns mmcq's longest 99th percentile in us in one group of compared settings. If requests
    /// of a setting of mmcq starve (a few wait much longer than all others), the longer of two
    /// latencies counts for this setting: its mean, and that of a request that was left out of the
    /// figures. This is not done if requests starve with all of Linux's settings in this group,
    /// too.
    fn tail_us_of(&self, side: &Side) -> f64 {
        let card = self.slowest_is_the_card(side);
        let ours = side.ours.into_iter().filter_map(|setting| self.of(setting));
        let tails = ours.map(|f| if f.starves() && !card { f.mean_us.max(f.starved_us) } else { f.p99_us });
        tails.fold(0.0, f64::max)
    }

    /// Returns whether this run was long enough for a verdict: neither mmcq's gain nor its 99th
    /// percentile is near a limit between two verdicts. If false, the case must run again for
    /// longer. `length`: index of the run's length, from 0.
    pub(super) fn is_clear(&self, length: usize) -> bool {
        let inside = |ranges: &[std::ops::Range<f64>], percent: f64| {
            ranges.get(length).is_some_and(|range| range.contains(&percent))
        };
        let near = self.cell.load != Load::Beside && inside(&NEAR_PERCENT, self.gain_percent());
        let tail = self.tail_percent().is_some_and(|tail| inside(&NEAR_TAIL_PERCENT, tail));
        !near && !tail && self.passes().is_none()
    }

    /// Returns how mmcq compares with Linux in this cell: faster, slower, or slower as the list
    /// [`super::KNOWN`] says.
    pub fn verdict(&self) -> Verdict {
        self.verdict_with(KNOWN)
    }

    /// Compares mmcq with Linux in this cell (a board, a card and a load), and returns the result.
    /// `open`: the cells in which mmcq is known to be slower, or to have a longer percentile.
    pub(super) fn verdict_with(&self, open: &[Known]) -> Verdict {
        if let Some(below) = self.below() {
            let is_open = known::find(open, &self.cell).is_some();
            return if is_open { Verdict::Known } else { below };
        }
        let rate_counts = self.cell.load != Load::Beside;
        let near = |rate: f64| percent(rate, self.limit()) >= -SLOWER_PERCENT;
        match () {
            () if rate_counts && self.gain_percent() > SLOWER_PERCENT => Verdict::Faster,
            () if rate_counts && near(self.best().1) && near(self.ours()) => Verdict::AtLimit,
            () => Verdict::Level,
        }
    }

    /// Returns `Slower` if mmcq is slower than the best of Linux's settings in this case (board,
    /// card and load). Otherwise returns `Longer` if mmcq's latency percentile is longer than that
    /// of Linux. `None`: mmcq is neither slower nor longer.
    fn below(&self) -> Option<Verdict> {
        let slower = self.cell.load != Load::Beside && self.gain_percent() < -SLOWER_PERCENT;
        let longer = self.tail_percent().is_some_and(|tail| tail > LONGER_PERCENT);
        slower.then_some(Verdict::Slower).or(longer.then_some(Verdict::Longer))
    }

    /// Returns a setting that is faster than the physical limit, and by how many percent; `None`:
    /// there is none. If there is one, the limit is wrong.
    pub fn passes(&self) -> Option<(Setting, f64)> {
        if self.cell.load == Load::Beside {
            return None;
        }
        let above =
            |(setting, figures): &(Setting, Figures)| (*setting, percent(figures.mib_per_s, self.limit()));
        let most = self.figures.iter().map(above).max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, above)| *above > LIMIT_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::text_with;
    use super::super::{Grid, Summary, text};
    use super::*;

    fn measured(load: Load, rates: [f64; 4], p99_us: [f64; 4]) -> Measured {
        measured_on("hsq-sprd", load, rates, p99_us)
    }

    fn measured_on(platform: &str, load: Load, rates: [f64; 4], p99_us: [f64; 4]) -> Measured {
        let (cells, _) = Grid::THIN.cells(Some(platform));
        let cell = *cells.iter().find(|cell| cell.load == load).unwrap();
        let settings = [Setting::Limit, Setting::None, Setting::HsqTag, Setting::Mmcq, Setting::MmcqOwn];
        // The own CPU costs are lower, but the rate stays within the limit unless that of `mmcq`
        // does not.
        let own = (rates[3] * 1.5).min(rates[0].max(rates[3]));
        let rates = [rates[0], rates[1], rates[2], rates[3], own];
        let p99_us = [p99_us[0], p99_us[1], p99_us[2], p99_us[3], p99_us[3] / 2.0];
        let both = rates.into_iter().zip(p99_us);
        let both = both.map(|(mib_per_s, p99_us)| Figures {
            mib_per_s,
            p99_us,
            mean_us: p99_us / 2.0,
            starved_us: 0.0,
        });
        Measured { cell, times: 1, figures: settings.into_iter().zip(both).collect() }
    }

    #[test]
    fn the_slower_one_of_ours_is_compared_with_the_fastest_of_linux() {
        let p99 = [1.0; 4];
        for (ours, verdict) in [
            (98.9, Verdict::Slower),
            (99.1, Verdict::Level),
            (100.9, Verdict::Level),
            (101.1, Verdict::Faster),
        ] {
            let one = measured(Load::Read, [200.0, 90.0, 100.0, ours], p99);
            assert_eq!(one.verdict(), verdict, "{ours}");
            assert_eq!(one.best(), (Setting::HsqTag, 100.0));
        }
    }

    #[test]
    fn a_longer_tail_counts_for_random_loads_and_for_a_reader_beside_a_writer() {
        let of = |load| measured(load, [300.0, 100.0, 100.0, 150.0], [1.0, 100.0, 110.0, 103.0]).verdict();
        assert_eq!(of(Load::RandRead), Verdict::Longer);
        assert_eq!(of(Load::Beside), Verdict::Longer);
        assert_eq!(of(Load::Read), Verdict::Faster);
        // The rate of a reader beside a writer is not compared, since it depends on the writer's
        // share.
        let slow = measured(Load::Beside, [300.0, 100.0, 100.0, 50.0], [1.0, 100.0, 110.0, 101.0]);
        assert_eq!(slow.verdict(), Verdict::Level);
    }

    #[test]
    fn a_limit_that_is_passed_and_cells_below_are_named_and_nothing_holds() {
        let p99 = [1.0; 4];
        let fine = measured(Load::Read, [200.0, 90.0, 100.0, 110.0], p99);
        let below = measured(Load::Write, [200.0, 90.0, 100.0, 80.0], p99);
        let beyond = measured(Load::RandRead, [100.0, 90.0, 101.0, 101.0], p99);
        assert!(Summary::of(&[fine.clone(), fine.clone()]).holds());
        for one in [&below, &beyond] {
            assert!(!Summary::of(&[fine.clone(), one.clone()]).holds(), "{one:?}");
        }
        let all = text(&[fine, below, beyond], &["depth 9: why".to_owned()]);
        for part in [
            "slower: hsq-sprd, hbg4a2, write 4k, depth 1, 1 jobs, wake 20 us: hsq-tag 100.00 MiB/s, mmcq 80.00",
            "-20.0 %",
            "beyond the limit: hsq-sprd, hbg4a2, randread 4k",
            "left out: depth 9: why",
            "3 cells: 1 slower by more than 1 %, 0 with a longer p99, 0 known, 0 level, 1 at the limit, 1 faster",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }

    #[test]
    fn where_linux_is_at_the_limit_there_is_nothing_to_gain_and_half_of_the_rest_must_be_faster() {
        let of = |limit: f64, ours: f64| measured(Load::Read, [limit, 90.0, 100.0, ours], [1.0; 4]);
        let (at, level, faster) = (of(100.9, 100.2), of(102.0, 100.2), of(120.0, 110.0));
        let verdicts = [&at, &level, &faster].map(Measured::verdict);
        assert_eq!(verdicts, [Verdict::AtLimit, Verdict::Level, Verdict::Faster]);
        assert_eq!(of(100.9, 98.5).verdict(), Verdict::Slower);
        let holds = |all: &[&Measured]| {
            let all: Vec<Measured> = all.iter().map(|one| (*one).clone()).collect();
            Summary::of(&all).holds()
        };
        assert!(holds(&[&at, &at, &at]) && holds(&[&level, &faster, &at]));
        assert!(!holds(&[&level, &level, &faster, &at, &at]));
    }

    #[test]
    fn a_setting_that_starves_is_no_measure_of_the_slowest_hundredth() {
        // Found in the sweep: a 99th percentile of 359 us with a slowest request of 1.2 s. mmcq has
        // 489 us, and no request starves.
        let mut one = measured(Load::RandRead, [300.0, 100.0, 100.0, 150.0], [1.0, 480.0, 359.0, 488.0]);
        assert_eq!(one.verdict(), Verdict::Longer);
        let of = |one: &mut Measured, wanted: Setting, mean_us: f64| {
            let found = one.figures.iter_mut().find(|(setting, _)| *setting == wanted);
            found.unwrap().1.mean_us = mean_us;
        };
        // A mean within the same bucket of the histogram as the percentile does not show starving.
        of(&mut one, Setting::HsqTag, 364.0);
        assert_eq!((one.verdict(), one.starving().len()), (Verdict::Longer, 0));
        of(&mut one, Setting::HsqTag, 475.0);
        assert_eq!((one.verdict(), one.starving().len()), (Verdict::Faster, 1));
        assert_eq!(one.shortest(), (Setting::None, 480.0));
        let all = text(&[one.clone()], &[]);
        for part in [
            "not compared: hsq-sprd, hbg4a2, randread 4k, depth 1, 1 jobs, wake 20 us: hsq-tag p99 359 us, mean 475; ours p99 488, none 480: +1.7 %",
            "not compared because the mean of its latencies is longer",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        // A setting that leaves a request out also starves, whatever the mean of the others is.
        let mut left_out = measured(Load::RandRead, [300.0, 100.0, 100.0, 150.0], [1.0, 480.0, 359.0, 488.0]);
        left_out.figures[2].1.starved_us = 7e6;
        assert_eq!((left_out.verdict(), left_out.starving().len()), (Verdict::Faster, 1));
        assert!(
            text(&[left_out.clone()], &[])
                .contains("hsq-tag p99 359 us, mean 180, one request 7000000; ours")
        );
        // If mmcq leaves a request out, mmcq has lost.
        left_out.figures[3].1 =
            Figures { p99_us: 100.0, mean_us: 50.0, starved_us: 7e6, ..left_out.figures[3].1 };
        assert_eq!(left_out.verdict(), Verdict::Longer);
        // Starving requests of mmcq count against it.
        of(&mut one, Setting::Mmcq, 520.0);
        assert_eq!(one.verdict(), Verdict::Longer);
        // If requests starve with all settings of Linux, the card is the cause, and percentiles are
        // compared as they are.
        of(&mut one, Setting::None, 600.0);
        assert_eq!((one.verdict(), one.shortest()), (Verdict::Longer, (Setting::HsqTag, 359.0)));
        assert_eq!(one.starving().len(), 0);
    }

    #[test]
    fn a_loss_that_is_known_is_told_with_its_reason_and_only_there() {
        let p99 = [1.0; 4];
        let lost = measured(Load::Write, [200.0, 90.0, 100.0, 80.0], p99);
        let mended = measured(Load::Write, [200.0, 90.0, 100.0, 110.0], p99);
        let other = measured(Load::RandWrite, [200.0, 90.0, 100.0, 80.0], p99);
        let Cell { place, load, bytes, depth, jobs, wake_us, .. } = lost.cell;
        let reason = "runs begin at the oldest request";
        let place = (place.platform, place.card);
        let open = [Known { place, load, bytes, depth, jobs, wake_us, reason }];
        assert_eq!(lost.verdict_with(&[]), Verdict::Slower);
        assert_eq!(lost.verdict_with(&open), Verdict::Known);
        assert_eq!(other.verdict_with(&open), Verdict::Slower);
        let faster = measured(Load::Read, [200.0, 90.0, 100.0, 110.0], p99);
        let holds = |one: &Measured, open| Summary::with(&[one.clone(), faster.clone()], open).holds();
        assert!(holds(&lost, &open) && !holds(&lost, &[]) && !holds(&other, &open));
        // The list must stay correct: a cell that is no longer lost has to be removed.
        assert!(holds(&mended, &[]) && !holds(&mended, &open));
        let said = text_with(&[lost], &[], &open);
        assert!(said.contains(
            "known: hsq-sprd, hbg4a2, write 4k, depth 1, 1 jobs, wake 20 us: hsq-tag 100.00 MiB/s, mmcq 80.00"
        ));
        assert!(said.contains("-20.0 %") && said.contains(": runs begin at the oldest request\n"), "{said}");
        let said = text_with(&[mended], &[], &open);
        assert!(said.contains("not lost any more: hsq-sprd, hbg4a2, write 4k"), "{said}");
    }

    #[test]
    fn a_write_that_is_told_early_is_compared_with_ours_that_tell_it_early() {
        let p99 = [1.0; 4];
        let rates = [200.0, 60.0, 100.0, 80.0];
        let early = |load, mib_per_s: f64| {
            let mut one = measured_on("hsq-nobusy", load, rates, p99);
            let figures = Figures { mib_per_s, p99_us: 1.0, mean_us: 0.5, starved_us: 0.0 };
            one.figures.extend(super::super::EARLY.map(|setting| (setting, figures)));
            one
        };
        assert_eq!(early(Load::RandWrite, 110.0).verdict(), Verdict::Faster);
        let slower = early(Load::RandWrite, 90.0);
        assert_eq!((slower.verdict(), slower.best()), (Verdict::Slower, (Setting::HsqTag, 100.0)));
        // Settings that wait for the card are compared with each other.
        let mut waits = early(Load::RandWrite, 110.0);
        waits.figures[1].1.mib_per_s = 90.0;
        assert_eq!((waits.verdict(), waits.best()), (Verdict::Slower, (Setting::None, 90.0)));
        // Only writes are compared separately, and only on this board.
        assert_eq!(measured_on("hsq-nobusy", Load::RandRead, rates, p99).verdict(), Verdict::Slower);
        assert_eq!(measured(Load::RandWrite, rates, p99).verdict(), Verdict::Slower);
        let settings = |platform: &str, load| -> Vec<Setting> {
            let (cells, _) = Grid::THIN.cells(Some(platform));
            cells.iter().find(|cell| cell.load == load).unwrap().settings().collect()
        };
        assert!(settings("hsq-nobusy", Load::Write).contains(&Setting::MmcqEarlyOwn));
        assert!(!settings("hsq-nobusy", Load::Read).contains(&Setting::MmcqEarly));
        assert!(!settings("hsq-sprd", Load::Write).contains(&Setting::MmcqEarly));
        let all = text(&[slower], &[]);
        for part in [
            "slower: hsq-nobusy, hbg4a2, randwrite 4k, depth 1, 1 jobs, wake 20 us: hsq-tag 100.00 MiB/s, mmcq-early 90.00",
            "compared twice because the host does not tell the end of busy",
        ] {
            assert!(all.contains(part), "{part}: {all}");
        }
        assert!(!text(&[measured(Load::Read, [200.0, 90.0, 100.0, 110.0], p99)], &[]).contains("because"));
    }

    #[test]
    fn only_what_is_near_a_line_runs_again_and_not_for_ever() {
        let clear =
            |ours: f64, length| measured(Load::Read, [200.0, 90.0, 100.0, ours], [1.0; 4]).is_clear(length);
        assert!(clear(120.0, 0) && clear(100.0, 0) && clear(50.0, 0));
        assert!(!clear(98.0, 0) && !clear(95.0, 1) && clear(89.0, 1) && clear(98.0, 2));
        let tail =
            |ours_us| measured(Load::RandRead, [300.0, 100.0, 100.0, 120.0], [1.0, 100.0, 100.0, ours_us]);
        assert!(!tail(126.5).is_clear(0) && tail(126.5).is_clear(1) && !tail(110.0).is_clear(1));
        // A rate above the limit is not steady yet, so the run must be longer.
        assert!(!clear(202.0, 0) && !clear(202.0, 2));
    }
}

//! Two curves over the virtual time of a run: the rate, and the number of requests under way. They
//! have steps of equal length; the number of steps is limited, however long the run is.

use crate::system::{Io, System};
use mmcq::host::Direction;
use std::cell::RefCell;
use std::rc::Rc;

/// Largest number of time steps of a run. A run that is long enough has at least half of them.
const STEPS: usize = 256;
/// Length in ns of the time steps at the beginning of a run, by which the rate is recorded. A
/// longer run has longer steps.
const STEP_NS: u64 = 1_000;
/// Smallest mean number of I/Os that end in a time step; with fewer, the rate of the step would be
/// noise.
const IOS: usize = 32;

thread_local! {
    /// Recorder of rate and depth over time for the simulation that runs on this thread; `None`:
    /// nothing is recorded.
    static KEEPER: RefCell<Option<Rc<RefCell<Series>>>> = const { RefCell::new(None) };
}

/// What happened in one step (a short interval) of the run's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the I/Os that ended in the step, `[read, write]`.
    pub bytes: [u64; 2],
    /// Sum over all I/Os of the time in ns for which each was under way within this step. Divided
    /// by the length of the step, it is the mean queue depth.
    pub depth_ns: u64,
    /// Time in ns after the start of the load at which the first I/O of this time step was
    /// submitted; `None`: no I/O was submitted during the step.
    pub first_ns: Option<u64>,
}

/// Rate and depth of a run, in time steps of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// Length in ns of each time step in which the rate of the run is recorded.
    pub step_ns: u64,
    /// The time steps of the run in order.
    pub steps: Vec<Step>,
    /// Time in ns after the start of the load at which the run's last I/O ended.
    pub end_ns: u64,
    begin_ns: u64,
    under_way: u64,
    ios: usize,
}

impl Default for Series {
    fn default() -> Self {
        let steps = Vec::new();
        Series { step_ns: STEP_NS, steps, end_ns: 0, begin_ns: 0, under_way: 0, ios: 0 }
    }
}

impl Series {
    /// Returns each time step with its start and length in ns. The last step may be shorter; it is
    /// left out if it is too short for a rate.
    pub fn timed(&self) -> impl Iterator<Item = (u64, u64, &Step)> {
        let spans = (0u64..).map(|index| index * self.step_ns);
        let timed = spans
            .zip(&self.steps)
            .map(|(from_ns, step)| (from_ns, self.end_ns.saturating_sub(from_ns).min(self.step_ns), step));
        timed.filter(|(from_ns, length_ns, _)| *from_ns == 0 || length_ns * 2 >= self.step_ns)
    }

    /// Returns the mean time in ns per request: the length of the run divided by the number of
    /// requests.
    pub fn turn_ns(&self) -> u64 {
        self.end_ns / (self.ios as u64).max(1)
    }

    /// Returns the time in ns of the first submission of an I/O in one time step of the run: of the
    /// steps with a submission, the one nearest to the middle. `None`: no I/O was submitted.
    pub fn middle_ns(&self) -> Option<u64> {
        let middle = self.steps.len() / 2;
        let comes = self.steps.iter().enumerate().filter_map(|(at, step)| Some((at, step.first_ns?)));
        comes.min_by_key(|(at, _)| at.abs_diff(middle)).map(|(_, first_ns)| first_ns)
    }

    fn io(&mut self, io: &Io, result: Option<bool>, now_ns: u64) {
        self.advance(now_ns.saturating_sub(self.begin_ns));
        let at_ns = self.end_ns;
        let step = self.step(at_ns);
        if result.is_none() {
            step.first_ns.get_or_insert(at_ns);
            self.under_way += 1;
            return;
        }
        step.bytes[usize::from(io.direction == Direction::Write)] += io.bytes() as u64;
        self.under_way = self.under_way.saturating_sub(1);
        self.ios += 1;
    }

    /// Advances the recorder to this time, and adds the time of the I/Os that were under way since
    /// the last call. Between two calls the number of I/Os under way is constant.
    fn advance(&mut self, to_ns: u64) {
        let mut from_ns = self.end_ns;
        // The last step is made first, since that may join steps and change their length.
        self.step(to_ns.max(from_ns));
        while from_ns < to_ns {
            let end_ns = to_ns.min((from_ns / self.step_ns + 1) * self.step_ns);
            let depth_ns = self.under_way * (end_ns - from_ns);
            self.step(from_ns).depth_ns += depth_ns;
            from_ns = end_ns;
        }
        self.end_ns = from_ns;
    }

    /// Returns the time step that contains this time, after making it and all steps before it.
    fn step(&mut self, at_ns: u64) -> &mut Step {
        while at_ns / self.step_ns >= STEPS as u64 {
            self.join();
        }
        let at = (at_ns / self.step_ns) as usize;
        if self.steps.len() <= at {
            self.steps.resize(at + 1, Step::default());
        }
        &mut self.steps[at]
    }

    /// Joins the time steps in pairs, so that each is twice as long.
    fn join(&mut self) {
        self.step_ns *= 2;
        let joined = self.steps.chunks(2).map(|pair| {
            pair.iter().fold(Step::default(), |a, b| Step {
                bytes: [a.bytes[0] + b.bytes[0], a.bytes[1] + b.bytes[1]],
                depth_ns: a.depth_ns + b.depth_ns,
                first_ns: a.first_ns.or(b.first_ns),
            })
        });
        self.steps = joined.collect();
    }
}

/// Calls `run`, and records the time steps of the last machine that `run` runs.
pub fn record<R>(run: impl FnOnce() -> R) -> (R, Series) {
    let keeper = Rc::new(RefCell::new(Series::default()));
    KEEPER.with(|k| *k.borrow_mut() = Some(keeper.clone()));
    let result = run();
    KEEPER.with(|k| *k.borrow_mut() = None);
    let mut series = std::mem::take(&mut *keeper.borrow_mut());
    while series.steps.len() > 2 && series.ios < IOS * series.steps.len() {
        series.join();
    }
    (result, series)
}

/// Attaches this thread's recorder of time series, if there is one, to a simulation whose load
/// begins now. A log of I/Os that was set before stays in use.
pub(crate) fn watch(sys: &mut System) {
    let Some(keeper) = KEEPER.with(|k| k.borrow().clone()) else { return };
    *keeper.borrow_mut() = Series { begin_ns: sys.time.now(), ..Series::default() };
    sys.also_tell(Box::new(move |io, result, now_ns| keeper.borrow_mut().io(io, result, now_ns)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::How;

    fn io(direction: Direction) -> Io {
        let (how, sync) = (How::Plain, true);
        Io { job: 0, core: 0, direction, how, lba: 0, sync, blocks: 8, buffer: 0, skip: 0 }
    }

    #[test]
    fn nothing_is_lost_when_steps_are_joined() {
        let mut series = Series { begin_ns: 7, ..Series::default() };
        let (read, write) = (io(Direction::Read), io(Direction::Write));
        for at in 0..1_000_u64 {
            let from_ns = 7 + at * 10_000;
            series.io(&read, None, from_ns);
            series.io(&write, None, from_ns + 1_000);
            series.io(&read, Some(true), from_ns + 4_000);
            series.io(&write, Some(true), from_ns + 5_000);
        }
        assert_eq!((series.end_ns, series.under_way), (9_995_000, 0));
        assert!((STEPS / 2..=STEPS).contains(&series.steps.len()), "{}", series.steps.len());
        let sum = |f: fn(&Step) -> u64| series.steps.iter().map(f).sum::<u64>();
        assert_eq!([sum(|s| s.bytes[0]), sum(|s| s.bytes[1])], [4_096_000; 2]);
        assert_eq!(sum(|s| s.depth_ns), 1_000 * 8_000, "two I/Os of 4 us each");
        assert!(series.timed().all(|(_, length_ns, _)| length_ns > 0));
        let middle_ns = series.middle_ns().unwrap();
        assert!(middle_ns.abs_diff(5_000_000) < 2 * series.step_ns && middle_ns.is_multiple_of(10_000));
    }

    #[test]
    fn a_pause_has_a_depth_of_its_own() {
        let mut series = Series::default();
        let read = io(Direction::Read);
        series.io(&read, None, 500);
        series.io(&read, Some(true), 2_500);
        assert_eq!(series.steps.iter().map(|s| s.depth_ns).collect::<Vec<_>>(), [500, 1_000, 500]);
        assert_eq!(Series::default().middle_ns(), None);
    }
}

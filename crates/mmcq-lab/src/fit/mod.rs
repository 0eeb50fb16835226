//! Fits values of board and card to measured figures.
//!
//! - [`measured`] reads the figures.
//! - [`free`] determines which values may change, and within which bounds.
//! - [`model`] runs the same jobs on the modelled board.
//! - [`solve`] finds the values with which the model agrees best.
//! - [`design`] proposes jobs that would add information.
//! - [`save`] writes the board or the card with the fitted values.

pub mod design;
pub mod free;
pub mod measured;
pub mod model;
pub mod report;
pub mod save;
pub mod solve;

pub use free::Free;
pub use measured::{Figure, Load};
pub use model::Bench;
pub use report::{Fit, Held, Value};

use measured::What;
use solve::{Problem, Solution};

/// Ratio of the residuals to the noise above which the fit is repeated from other start values.
const DOUBTFUL: f64 = 4.0;
/// Factors by which all start values are multiplied when the fit is repeated.
const ELSEWHERE: [f64; 4] = [0.33, 0.6, 1.7, 3.0];

/// Input of a fit.
#[derive(Clone, Debug)]
pub struct Task {
    /// The board, card and stack that the model simulates for this fit.
    pub bench: Bench,
    /// Values of board and card that the fit may change.
    pub free: Vec<Free>,
    /// Loads to whose figures the values are fitted.
    pub fitted: Vec<Load>,
    /// Loads that are held out: the values are not fitted to them, but the result is compared with
    /// them.
    pub held: Vec<Load>,
    /// Smallest standard deviation that is expected of a measured figure, as a share of the figure
    /// (0.1 is 10 %).
    pub noise: f64,
}

/// Free values of a fit, in the form that the solver uses. The solver varies the logarithms of the
/// values without steps. The values with steps are fixed here.
struct Space<'a> {
    free: &'a [Free],
    /// For each free value that is limited to steps, the step at which it is fixed; `None` for the
    /// other values.
    steps: Vec<Option<f64>>,
}

impl Space<'_> {
    fn smooth(&self) -> impl Iterator<Item = (usize, &Free)> {
        self.free.iter().enumerate().filter(|(at, _)| self.steps[*at].is_none())
    }

    /// Returns all free values in the units of the model's files. `at` has the logarithms of those
    /// values that the fit changes smoothly; the others have the fixed values in `steps`.
    fn values(&self, at: &[f64]) -> Vec<f64> {
        let mut at = at.iter();
        self.steps.iter().map(|step| step.unwrap_or_else(|| at.next().map_or(1.0, |x| x.exp()))).collect()
    }

    fn changes(&self, at: &[f64]) -> Vec<String> {
        self.free.iter().zip(self.values(at)).map(|(free, value)| free.change(value)).collect()
    }
}

/// Text for a measured figure that only a card with read-ahead can reach, while the model's card
/// has none.
const NO_READ_AHEAD: Option<&str> =
    Some("the model cannot: this card reads nothing ahead (prefetch_kib, prefetch_us, prefetch_mib_s)");
/// Share of the measured rate by which the model may be slower; noise cannot explain a larger
/// difference.
const TOO_SLOW: f64 = 0.05;

/// Returns whether the model is clearly slower than a measured rate of sequential reads.
fn is_too_slow_in_sequence(load: &Load, held: &Held) -> bool {
    let in_sequence =
        !load.jobs.is_empty() && load.jobs.iter().all(|job| job.rw.read && !job.rw.write && !job.rw.random);
    in_sequence && held.what == What::Rate && held.error() < -TOO_SLOW
}

impl Task {
    /// Fits the values. Before the model runs, calls `told` with the count of the next runs.
    ///
    /// # Errors
    /// There are too few figures, or the model cannot run a load; the error is one line.
    pub fn fit(&self, told: &mut dyn FnMut(usize)) -> Result<Fit, String> {
        let figures: usize = self.fitted.iter().map(|load| load.figures.len()).sum();
        let values = self.free.len();
        if figures < values {
            let of = if figures == 1 { "figure" } else { "figures" };
            return Err(format!(
                "--measured: {figures} {of} for {values} free values; expected at least as many (more jobs, or fewer \
                 keys by --free)"
            ));
        }
        let begin: Vec<Option<f64>> =
            self.free.iter().map(|free| (!free.steps.is_empty()).then_some(free.before)).collect();
        let mut best = self.at(&begin, None, told)?;
        if best.1.scale > DOUBTFUL * self.noise {
            for factor in ELSEWHERE {
                let from: Vec<f64> = Space { free: &self.free, steps: begin.clone() }
                    .smooth()
                    .map(|(_, free)| (free.before * factor).ln())
                    .collect();
                let other = self.at(&begin, Some(&from), told)?;
                if other.1.is_better(&best.1) {
                    best = other;
                }
            }
        }
        // Values with steps are handled one after the other: each other step is tried, with all
        // else fitted again.
        let mut ranges = vec![None; values];
        for (at, free) in self.free.iter().enumerate() {
            let mut tried = vec![(best.0[at].unwrap_or(free.before), best.1.clone())];
            for step in &free.steps {
                if best.0[at] == Some(*step) {
                    continue;
                }
                let mut steps = best.0.clone();
                steps[at] = Some(*step);
                let from = best.1.at.clone();
                let other = self.at(&steps, Some(&from), told)?;
                tried.push((*step, other.1.clone()));
                if other.1.is_better(&best.1) {
                    best = other;
                }
            }
            if !free.steps.is_empty() {
                // Increase of the sum of squares at the border of the 95 % interval of one value
                // (chi-square 3.84).
                let scale = best.1.scale;
                let most = best.1.cost(scale) + 3.84;
                let likely =
                    tried.iter().filter(|(_, other)| other.cost(scale) <= most).map(|(step, _)| *step);
                ranges[at] = Some(likely.fold((f64::MAX, 0.0), |(a, b): (f64, f64), x| (a.min(x), b.max(x))));
            }
        }
        self.report(best, &ranges, told)
    }

    /// Runs the solver. Values that can only change in steps are fixed at `steps`. The search
    /// starts at `from`; `None`: at the values before the fit. Returns the steps and the solution.
    fn at(
        &self,
        steps: &[Option<f64>],
        from: Option<&[f64]>,
        told: &mut dyn FnMut(usize),
    ) -> Result<(Vec<Option<f64>>, Solution), String> {
        let space = Space { free: &self.free, steps: steps.to_vec() };
        let before: Vec<f64> = space.smooth().map(|(_, free)| free.before.ln()).collect();
        let bounds: Vec<(f64, f64)> =
            space.smooth().map(|(_, free)| (free.bounds[0].ln(), free.bounds[1].ln())).collect();
        let measured: Vec<f64> =
            self.fitted.iter().flat_map(|load| &load.figures).map(|figure| figure.measured.ln()).collect();
        let problem = Problem { measured: &measured, before: &before, bounds: &bounds, noise: self.noise };
        let mut model = |points: &[Vec<f64>]| {
            let changes: Vec<Vec<String>> = points.iter().map(|at| space.changes(at)).collect();
            told(points.len() * self.fitted.len());
            logarithms(self.bench.figures(&self.fitted, &changes)?)
        };
        let solution = solve::solve(&problem, from.unwrap_or(&before), &mut model)?;
        Ok((steps.to_vec(), solution))
    }

    fn report(
        &self,
        best: (Vec<Option<f64>>, Solution),
        ranges: &[Option<(f64, f64)>],
        told: &mut dyn FnMut(usize),
    ) -> Result<Fit, String> {
        let (steps, solution) = best;
        let space = Space { free: &self.free, steps };
        let after = space.values(&solution.at);
        let smooth: Vec<usize> = space.smooth().map(|(at, _)| at).collect();
        let mut values: Vec<Value> = self
            .free
            .iter()
            .zip(&after)
            .zip(ranges)
            .map(|((free, after), range)| Value::new(free, *after, *range))
            .collect();
        for (place, at) in smooth.iter().enumerate() {
            let traded = solution.traded[place].map(|other| self.free[smooth[other]].key.clone());
            values[*at].said(solution.half[place], traded);
        }
        let open: Vec<usize> =
            (0..smooth.len()).filter(|place| !values[smooth[*place]].determined()).collect();
        if !open.is_empty() {
            let changes = space.changes(&solution.at);
            let bench = &self.bench;
            let information = solve::information(&solution.jacobian, &solution.weights, solution.scale);
            let keys: Vec<usize> = smooth.clone();
            let jobs = design::more(
                &design::Open {
                    bench,
                    free: &self.free,
                    smooth: &keys,
                    changes: &changes,
                    at: &solution.at,
                    information: &information,
                    noise: self.noise,
                },
                &open,
                told,
            )?;
            for (place, job) in open.iter().zip(jobs) {
                values[smooth[*place]].would = job;
            }
        }
        let point = [space.changes(&solution.at)];
        told(self.held.len());
        let held = match self.held.is_empty() {
            true => Vec::new(),
            false => self.bench.figures(&self.held, &point)?.remove(0),
        };
        let reads_ahead = self.bench.card_reads_ahead()?;
        let cells = |loads: &[Load], model: &[f64], weights: Option<&[f64]>| -> Vec<Held> {
            let figures = loads.iter().flat_map(|load| load.figures.iter().map(move |figure| (load, figure)));
            let held = figures.zip(model).enumerate().map(|(at, ((load, figure), model))| {
                let held = Held::new(figure, *model, weights.map_or(1.0, |w| w[at]));
                let cannot = NO_READ_AHEAD.filter(|_| !reads_ahead && is_too_slow_in_sequence(load, &held));
                Held { cannot, cut_to: self.bench.cut_to(load), ..held }
            });
            held.collect()
        };
        let model: Vec<f64> = solution.model.iter().map(|figure| figure.exp()).collect();
        Ok(Fit {
            values,
            fitted: cells(&self.fitted, &model, Some(&solution.weights)),
            held: cells(&self.held, &held, None),
            scale: solution.scale,
        })
    }
}

fn logarithms(figures: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, String> {
    Ok(figures.into_iter().map(|all| all.into_iter().map(f64::ln).collect()).collect())
}

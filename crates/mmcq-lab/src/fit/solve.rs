//! Least squares in logarithms: steps of Levenberg and Marquardt by finite differences, within
//! bounds, robust against single figures. Also computes how well the figures determine each value.
//!
//! A value `v` and a figure are handled as their logarithms: so an error of a third counts as much
//! for 4 us as for 4 ms. Figures that are far off count less (Huber). A weak pull, with a standard
//! deviation of a factor of four, holds each value near its start value. It has an effect only on
//! values that the figures do not determine.

use nalgebra::{DMatrix, DVector, SymmetricEigen};

/// Largest half width of the 95 % interval of a value that counts as determined, as a factor: 1.25
/// is 25 %.
pub const DETERMINED: f64 = 1.25;
/// Standard deviation, in logarithms, of the weak pull that holds each value near its start value:
/// a factor of four.
const PULL: f64 = 1.386;
/// Size of a residual, in standard deviations, above which Huber's weights decrease.
const HUBER: f64 = 1.5;
/// Step of the finite differences, in logarithms. It is large because the model's results change in
/// small jumps.
const DIFFERENCE: f64 = 0.02;
/// Step of the finite differences from which the uncertainty is computed, in logarithms.
const DIFFERENCE_LAST: f64 = 0.03;
/// Largest change of a value in one step of the search, in logarithms.
const STEP_MOST: f64 = 1.1;
/// Largest number of steps of the search; each step makes the cost smaller.
const STEPS_MOST: usize = 25;
/// The search ends when a step changes no value's logarithm by more than this.
const STEP_LEAST: f64 = 1e-3;
/// Relative decrease of the cost in one step below which the search ends.
const GAIN_LEAST: f64 = 1e-3;
/// Largest number of tries of one step of the search, each with more damping, so that the step is
/// shorter. If no try makes the cost smaller, the search ends.
const SHORTENED_MOST: usize = 6;
/// Eigenvalue of the information matrix below which the figures do not determine a combination of
/// values.
const NOTHING: f64 = 1e-9;

/// Model function: computes for each given point (logarithms of the values) the logarithms of the
/// model's figures.
pub type Model<'a> = dyn FnMut(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> + 'a;

/// Least-squares problem: figures, start values and bounds, all in logarithms.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// Logarithms of the measured figures.
    pub measured: &'a [f64],
    /// Logarithms of the start values; a weak pull holds each value near its start value.
    pub before: &'a [f64],
    /// Lower and upper bound of each value, in logarithms.
    pub bounds: &'a [(f64, f64)],
    /// Smallest standard deviation that is expected of a measured figure's logarithm.
    pub noise: f64,
}

/// Solution of a least-squares problem.
#[derive(Clone, Debug)]
pub struct Solution {
    /// Logarithms of the values that were found.
    pub at: Vec<f64>,
    /// Logarithms of the model's figures with the values of `at`.
    pub model: Vec<f64>,
    /// Weight that each figure has at the solution, 0 to 1.
    pub weights: Vec<f64>,
    /// Derivative of each figure (row) by each value (column), in logarithms.
    pub jacobian: DMatrix<f64>,
    /// Standard deviation of a measured figure, computed from the residuals; never below the
    /// expected noise.
    pub scale: f64,
    /// Differences between the model's and the measured figures, in logarithms.
    residuals: Vec<f64>,
    /// Standard deviation of the residuals, computed from the median of their sizes.
    robust: f64,
    /// Sum of the squares of the weak pull that holds each value near its start value.
    pull: f64,
    /// Half of the width of each value's 95 % interval, in logarithms; infinite: these figures do
    /// not determine the value.
    pub half: Vec<f64>,
    /// For each value, the index of the value that it can be traded for: both can change together
    /// with little effect on the figures.
    pub traded: Vec<Option<usize>>,
}

impl Solution {
    /// Returns the cost that the solver makes small. It is the robust (Huber) sum of squares of the
    /// residuals, in units of the standard deviation `scale`, plus the squares that hold the values
    /// near their start values.
    pub fn cost(&self, scale: f64) -> f64 {
        self.residuals.iter().map(|residual| huber(*residual, scale)).sum::<f64>() + self.pull
    }

    /// Returns whether this solution agrees better with the measured figures than `other`.
    pub fn is_better(&self, other: &Solution) -> bool {
        let scale = self.robust.min(other.robust);
        self.cost(scale) < other.cost(scale)
    }
}

fn huber(residual: f64, scale: f64) -> f64 {
    let size = (residual / scale).abs();
    if size <= HUBER { size * size } else { HUBER * (2.0 * size - HUBER) }
}

/// Finds the values with which the model's figures agree best with the measured figures. The search
/// starts at `from`.
///
/// # Errors
/// The model cannot compute its figures at a point; the text is the model's.
pub fn solve(problem: &Problem<'_>, from: &[f64], model: &mut Model<'_>) -> Result<Solution, String> {
    let clamp = |at: &[f64]| -> Vec<f64> {
        at.iter().zip(problem.bounds).map(|(x, (least, most))| x.clamp(*least, *most)).collect()
    };
    let mut at = clamp(from);
    let mut figures = one(model, &at)?;
    // Far from the solution, a residual is not noise. So the first search uses the expected noise,
    // and only the second estimates the noise from the residuals.
    for known in [true, false] {
        let scale = |figures: &[f64]| if known { problem.noise } else { problem.scale(figures) };
        (at, figures) = descend(problem, at, figures, &scale, &clamp, model)?;
    }
    problem.solution(at, figures, model)
}

/// Takes steps from the point `at`, where the model has the figures `figures`, that reduce the
/// cost, until a step is short or reduces the cost little. `scale` returns the standard deviation
/// by which residuals are divided; `clamp` moves a point into the bounds of the values.
fn descend(
    problem: &Problem<'_>,
    mut at: Vec<f64>,
    mut figures: Vec<f64>,
    scale: &dyn Fn(&[f64]) -> f64,
    clamp: &dyn Fn(&[f64]) -> Vec<f64>,
    model: &mut Model<'_>,
) -> Result<(Vec<f64>, Vec<f64>), String> {
    let mut damping = 1e-2;
    for _ in 0..STEPS_MOST {
        let scale = scale(&figures);
        let cost = problem.cost(&at, &figures, scale);
        let jacobian = problem.jacobian(&at, &figures, DIFFERENCE, model)?;
        let mut step_taken = None;
        for _ in 0..SHORTENED_MOST {
            // Two dampings are tried at once, since even a small machine has two cores.
            let tries: Vec<Vec<f64>> = [damping, damping * 10.0]
                .iter()
                .map(|damping| clamp(&problem.step(&at, &figures, scale, &jacobian, *damping)))
                .collect();
            let all = model(&tries)?;
            let best = tries
                .into_iter()
                .zip(all)
                .map(|(at, figures)| (problem.cost(&at, &figures, scale), at, figures))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            match best {
                Some((less, next, of_next)) if less < cost => {
                    step_taken = Some((less, next, of_next));
                    damping = (damping / 5.0).max(1e-6);
                    break;
                }
                _ => damping *= 30.0,
            }
        }
        let Some((less, next, of_next)) = step_taken else { break };
        let moved = at.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        (at, figures) = (next, of_next);
        if moved < STEP_LEAST || cost - less < GAIN_LEAST * (1.0 + cost) {
            break;
        }
    }
    Ok((at, figures))
}

fn one(model: &mut Model<'_>, at: &[f64]) -> Result<Vec<f64>, String> {
    Ok(model(&[at.to_vec()])?.pop().unwrap_or_default())
}

impl Problem<'_> {
    fn residuals<'a>(&'a self, figures: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        figures.iter().zip(self.measured).map(|(model, measured)| model - measured)
    }

    /// Returns the standard deviation of the residuals, at least the expected noise. It is computed
    /// from the median of their sizes, which a few bad figures do not change.
    fn scale(&self, figures: &[f64]) -> f64 {
        let mut sizes: Vec<f64> = self.residuals(figures).map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
        (1.4826 * middle).max(self.noise)
    }

    fn cost(&self, at: &[f64], figures: &[f64], scale: f64) -> f64 {
        self.residuals(figures).map(|residual| huber(residual, scale)).sum::<f64>() + self.pull(at)
    }

    /// Returns the penalty for values that have moved away from their start values: the sum of the
    /// squared distances, each divided by `PULL`.
    fn pull(&self, at: &[f64]) -> f64 {
        at.iter().zip(self.before).map(|(x, from)| ((x - from) / PULL).powi(2)).sum()
    }

    fn weights(&self, figures: &[f64], scale: f64) -> Vec<f64> {
        self.residuals(figures).map(|residual| (HUBER * scale / residual.abs().max(1e-12)).min(1.0)).collect()
    }

    /// Returns the derivatives of the model's figures by the values: by forward differences, or by
    /// backward differences if a forward step would exceed the value's upper bound. `by`: size of a
    /// step.
    fn jacobian(
        &self,
        at: &[f64],
        figures: &[f64],
        by: f64,
        model: &mut Model<'_>,
    ) -> Result<DMatrix<f64>, String> {
        let steps: Vec<f64> =
            at.iter().zip(self.bounds).map(|(x, (_, most))| if x + by > *most { -by } else { by }).collect();
        let points: Vec<Vec<f64>> = (0..at.len())
            .map(|value| {
                let mut point = at.to_vec();
                point[value] += steps[value];
                point
            })
            .collect();
        let all = model(&points)?;
        Ok(DMatrix::from_fn(figures.len(), at.len(), |row, column| {
            (all[column][row] - figures[row]) / steps[column]
        }))
    }

    fn step(
        &self,
        at: &[f64],
        figures: &[f64],
        scale: f64,
        jacobian: &DMatrix<f64>,
        damping: f64,
    ) -> Vec<f64> {
        let weights = self.weights(figures, scale);
        let count = at.len();
        let (mut square, mut slope) = (DMatrix::<f64>::zeros(count, count), DVector::<f64>::zeros(count));
        for (row, residual) in self.residuals(figures).enumerate() {
            let weight = weights[row] / (scale * scale);
            for a in 0..count {
                slope[a] += weight * jacobian[(row, a)] * residual;
                for b in 0..count {
                    square[(a, b)] += weight * jacobian[(row, a)] * jacobian[(row, b)];
                }
            }
        }
        for value in 0..count {
            square[(value, value)] += 1.0 / (PULL * PULL);
            slope[value] += (at[value] - self.before[value]) / (PULL * PULL);
        }
        // A value at its bound that would move beyond it stays at the bound.
        for value in 0..count {
            let (least, most) = self.bounds[value];
            let pushed = at[value] <= least && slope[value] > 0.0 || at[value] >= most && slope[value] < 0.0;
            if pushed {
                square.row_mut(value).fill(0.0);
                square.column_mut(value).fill(0.0);
                square[(value, value)] = 1.0;
                slope[value] = 0.0;
            }
        }
        for value in 0..count {
            square[(value, value)] *= 1.0 + damping;
        }
        let step = square.cholesky().map_or(DVector::zeros(count), |square| square.solve(&slope));
        let longest = step.amax().max(STEP_MOST) / STEP_MOST;
        at.iter().zip(step.iter()).map(|(x, step)| x - step / longest).collect()
    }

    fn solution(&self, at: Vec<f64>, figures: Vec<f64>, model: &mut Model<'_>) -> Result<Solution, String> {
        // Central differences within the bounds.
        let ends = |value: usize| {
            let (least, most) = self.bounds[value];
            ((at[value] - DIFFERENCE_LAST).max(least), (at[value] + DIFFERENCE_LAST).min(most))
        };
        let mut points = Vec::new();
        for value in 0..at.len() {
            for end in [ends(value).0, ends(value).1] {
                let mut point = at.clone();
                point[value] = end;
                points.push(point);
            }
        }
        let all = model(&points)?;
        let jacobian = DMatrix::from_fn(figures.len(), at.len(), |row, column| {
            let (low, high) = ends(column);
            (all[2 * column + 1][row] - all[2 * column][row]) / (high - low)
        });
        let robust = self.scale(&figures);
        let weights = self.weights(&figures, robust);
        let left = figures.len().saturating_sub(at.len());
        let squares: f64 = self.residuals(&figures).zip(&weights).map(|(r, w)| w * r * r).sum();
        // A few residuals do not tell the noise, so the expected noise counts as much as some of
        // them.
        let spread = (EXPECTED * self.noise * self.noise + squares) / (EXPECTED + left as f64);
        let scale = spread.sqrt().max(self.noise);
        let (residuals, pull) = (self.residuals(&figures).collect(), self.pull(&at));
        let information = information(&jacobian, &weights, scale);
        let (variances, traded) = variances(&information);
        let quantile = quantile(EXPECTED as usize + left);
        let half = variances.iter().map(|variance| quantile * variance.sqrt()).collect();
        Ok(Solution { at, model: figures, weights, jacobian, scale, residuals, robust, pull, half, traded })
    }
}

/// Weight of the expected noise in [`Solution::scale`], which combines this noise with the scatter
/// of the residuals: the expected noise counts as much as this number of residuals.
const EXPECTED: f64 = 4.0;

/// Returns the information matrix of figures whose derivatives are the rows of `jacobian`, each
/// with its weight in `weights`. `scale`: standard deviation of a figure of weight 1. The inverse
/// of the matrix is the covariance of the values.
pub fn information(jacobian: &DMatrix<f64>, weights: &[f64], scale: f64) -> DMatrix<f64> {
    let count = jacobian.ncols();
    DMatrix::from_fn(count, count, |a, b| {
        let rows = (0..jacobian.nrows()).map(|row| weights[row] * jacobian[(row, a)] * jacobian[(row, b)]);
        rows.sum::<f64>() / (scale * scale)
    })
}

/// Returns the variance of each value (infinite: not determined). Also returns, for each value, the
/// index of another value: if both change together, the figures change least. `None`: there is no
/// such value.
pub fn variances(information: &DMatrix<f64>) -> (Vec<f64>, Vec<Option<usize>>) {
    let count = information.ncols();
    let eigen = SymmetricEigen::new(information.clone());
    let mut variances = vec![0.0; count];
    let mut traded = vec![None; count];
    for value in 0..count {
        let mut most = 0.0;
        for (at, said) in eigen.eigenvalues.iter().enumerate() {
            let direction = eigen.eigenvectors.column(at);
            let share = direction[value] * direction[value];
            if share < 1e-9 {
                continue;
            }
            let part = if *said < NOTHING { f64::INFINITY } else { share / said };
            variances[value] += part;
            if part > most {
                most = part;
                let others = (0..count).filter(|other| *other != value);
                let other = others.max_by(|a, b| direction[*a].abs().total_cmp(&direction[*b].abs()));
                traded[value] = other.filter(|other| direction[*other].abs() > 0.3);
            }
        }
    }
    (variances, traded)
}

/// Returns the factor of Student's t for a 95 % interval with this number of degrees of freedom.
pub fn quantile(freedom: usize) -> f64 {
    const FIRST: [f64; 12] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179];
    match freedom {
        0 => f64::INFINITY,
        n => FIRST.get(n - 1).copied().unwrap_or(1.96 + 2.6 / n as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Model for tests: a figure is a time with a fixed part and a part in proportion to the size.
    fn affine(points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> {
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0];
        Ok(points
            .iter()
            .map(|at| sizes.iter().map(|size| (at[0].exp() + at[1].exp() * size).ln()).collect())
            .collect())
    }

    fn problem<'a>(measured: &'a [f64], before: &'a [f64], bounds: &'a [(f64, f64)]) -> Problem<'a> {
        Problem { measured, before, bounds, noise: 0.01 }
    }

    /// Checks that a solution with small residuals is better than one with large residuals,
    /// although its values are farther from the start. The last line shows why costs of two
    /// solutions must have the same unit: each in units of its own residuals, the bad solution
    /// would cost less.
    #[test]
    fn a_solution_with_small_residuals_is_better_than_one_with_large_residuals() {
        let truth = [1000_f64.ln(), 7_f64.ln()];
        let measured = affine(&[truth.to_vec()]).unwrap().remove(0);
        let before = [20_f64.ln(), 6_f64.ln()];
        let solved = |most: f64| {
            let bounds = [(0.0, most.ln()), (0.0, 10.0)];
            solve(&problem(&measured, &before, &bounds), &before, &mut affine).unwrap()
        };
        let (good, bad) = (solved(5000.0), solved(25.0));
        assert!(good.is_better(&bad) && !bad.is_better(&good));
        assert!(bad.cost(bad.robust) < good.cost(good.robust), "{bad:?} {good:?}");
    }

    #[test]
    fn two_parts_are_told_apart() {
        let truth = [100_f64.ln(), 7_f64.ln()];
        let measured = affine(&[truth.to_vec()]).unwrap().remove(0);
        let before = [300_f64.ln(), 2_f64.ln()];
        let bounds = [(0.0, 10.0); 2];
        let found = solve(&problem(&measured, &before, &bounds), &before, &mut affine).unwrap();
        for (found, truth) in found.at.iter().zip(truth) {
            assert!((found - truth).abs() < 0.002, "{found} {truth}");
        }
        assert!(found.half.iter().all(|half| *half < 0.06), "{:?}", found.half);
    }

    #[test]
    fn one_wrong_figure_moves_little() {
        let truth = [100_f64.ln(), 7_f64.ln()];
        let mut measured = affine(&[truth.to_vec()]).unwrap().remove(0);
        measured[1] += 1.0;
        let before = [150_f64.ln(), 5_f64.ln()];
        let bounds = [(0.0, 10.0); 2];
        let found = solve(&problem(&measured, &before, &bounds), &before, &mut affine).unwrap();
        assert!((found.at[0] - truth[0]).abs() < 0.05, "{:?}", found.at);
        assert!(found.weights[1] < 0.2, "{:?}", found.weights);
    }

    #[test]
    fn what_no_figure_says_stays_where_it_began_and_is_known_as_such() {
        let mut model = |points: &[Vec<f64>]| {
            Ok(points.iter().map(|at| vec![at[0] + at[1], 2.0 * (at[0] + at[1])]).collect())
        };
        let before = [1.0, 2.0, 3.0];
        let bounds = [(-9.0, 9.0); 3];
        let found = solve(&problem(&[5.0, 10.0], &before, &bounds), &before, &mut model).unwrap();
        assert!((found.at[0] + found.at[1] - 5.0).abs() < 0.01);
        assert!((found.at[0] - 2.0).abs() < 0.01, "both give way alike: {:?}", found.at);
        assert_eq!(found.at[2], 3.0);
        assert!(found.half.iter().all(|half| *half > 10.0), "{:?}", found.half);
        assert_eq!((found.traded[0], found.traded[1]), (Some(1), Some(0)));
    }

    #[test]
    fn two_figures_move_a_value_that_is_ten_times_off() {
        let truth = [60_f64.ln(), 7_f64.ln()];
        let mut two = |points: &[Vec<f64>]| {
            let at = |x: f64| [(x.exp() + 90.0).ln(), (x.exp() + 400.0).ln()].to_vec();
            Ok(points.iter().map(|point| at(point[0])).collect::<Vec<_>>())
        };
        let measured = two(&[truth[..1].to_vec()]).unwrap().remove(0);
        for from in [6_f64, 600.0] {
            let before = [from.ln()];
            let found = solve(&problem(&measured, &before, &[(0.0, 9.0)]), &before, &mut two).unwrap();
            assert!((found.at[0] - truth[0]).abs() < 0.01, "from {from}: {}", found.at[0].exp());
            assert!(found.half[0] < DETERMINED.ln(), "from {from}: {:?}", found.half);
        }
    }

    #[test]
    fn a_bound_holds() {
        let truth = [100_f64.ln(), 7_f64.ln()];
        let measured = affine(&[truth.to_vec()]).unwrap().remove(0);
        let bounds = [(0.0, 4.0), (0.0, 10.0)];
        let before = [3.0, 1.0];
        let found = solve(&problem(&measured, &before, &bounds), &before, &mut affine).unwrap();
        assert_eq!(found.at[0], 4.0);
    }
}

//! Writes the result of a fit, as a table and as JSON.

use super::free::Free;
use super::measured::{Figure, What};
use super::solve::DETERMINED;
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// Result of the fit for one free value (a value that the fit may change).
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Key of the value, as in `--set`.
    pub key: String,
    /// Unit of the value, which follows from the ending of its key.
    pub unit: &'static str,
    /// Value from which the fit started.
    pub before: f64,
    /// Value that agrees best with the figures.
    pub after: f64,
    /// Ends of the 95 % interval within the bounds of the value; `None`: these jobs do not
    /// determine the value at all.
    pub interval: Option<[f64; 2]>,
    /// Whether the value is at one of its bounds.
    pub at_bound: bool,
    /// Key of the other value if the figures determine only a combination of the two values;
    /// `None`: the figures determine this value alone, or no such value is known.
    pub traded: Option<String>,
    /// Job that would determine the value if it was measured too; `None`: no single job is known.
    pub would: Option<String>,
    steps: bool,
    /// Whether the value must be a whole number.
    pub(super) whole: bool,
    /// Ends that the 95 % interval would have if the value had no bounds.
    unbounded: Option<[f64; 2]>,
    bounds: [f64; 2],
}

impl Value {
    pub(super) fn new(free: &Free, after: f64, range: Option<(f64, f64)>) -> Self {
        let near = |bound: f64| (after / bound).ln().abs() < 1e-3;
        Value {
            key: free.key.clone(),
            unit: free.unit,
            before: free.before,
            // The value has the digits that a file will have.
            after: free.shown(after).parse().unwrap_or(after),
            interval: range.map(|(least, most)| [least, most]),
            at_bound: free.bounds.iter().any(|bound| near(*bound)),
            traded: None,
            would: None,
            steps: range.is_some(),
            whole: free.whole,
            unbounded: range.map(|(least, most)| [least, most]),
            bounds: free.bounds,
        }
    }

    /// Returns the value as text for a file of a board or card.
    pub(super) fn written(&self) -> String {
        if self.whole { format!("{:.0}", self.after) } else { format!("{:?}", self.after) }
    }

    /// Returns the ends of the 95 % interval as the fit computed them, even if they are beyond the
    /// bounds of the value; `None`: the jobs do not determine the value.
    pub(super) fn unbounded(&self) -> Option<[f64; 2]> {
        self.unbounded
    }

    /// Returns the number that is nearest to `end` and within the bounds of the value.
    pub(super) fn within(&self, end: f64) -> f64 {
        let [least, most] = self.bounds;
        end.max(least).min(most)
    }

    /// Sets the 95 % interval from half of its width in logarithms. `traded`: key of the other
    /// value if only a combination of both is determined.
    pub(super) fn said(&mut self, half: f64, traded: Option<String>) {
        self.unbounded = half.is_finite().then(|| [self.after * (-half).exp(), self.after * half.exp()]);
        self.interval = self.unbounded.map(|ends| ends.map(|end| self.within(end)));
        self.traded = traded.filter(|_| !self.determined());
    }

    /// Returns whether the fitted jobs determine the value closely: the upper end of its 95 %
    /// interval is at most [`DETERMINED`] (1.25) squared times the lower end, or, if only powers of
    /// two are possible, at most twice the lower end.
    pub fn determined(&self) -> bool {
        let Some([least, most]) = self.unbounded else { return false };
        match self.steps {
            true => most / least <= 2.0,
            false => (most / least).sqrt() <= DETERMINED,
        }
    }

    /// Returns whether the fitted jobs determine the value at least roughly: the upper end of its
    /// 95 % interval is at most four times the lower end.
    pub fn is_of_the_jobs(&self) -> bool {
        self.unbounded.is_some_and(|[least, most]| (most / least).sqrt() <= 2.0)
    }

    /// Returns the uncertainty of the value as text: a percentage, or the range of steps.
    fn uncertainty(&self) -> String {
        match self.unbounded {
            None => "?".to_owned(),
            Some([least, most]) if self.steps => format!("{least} to {most}"),
            Some([_, most]) => match 100.0 * (most / self.after - 1.0) {
                percent if percent > 1000.0 => "?".to_owned(),
                percent if percent >= 10.0 => format!("+-{percent:.0} %"),
                percent => format!("+-{percent:.1} %"),
            },
        }
    }

    fn note(&self) -> String {
        let bound = if self.at_bound { "at its bound" } else { "" };
        if self.determined() {
            return bound.to_owned();
        }
        let mut note = "not determined by these jobs".to_owned();
        if let Some(other) = &self.traded {
            let _ = write!(note, " (only together with {})", short(other));
        }
        note += &match &self.would {
            Some(job) => format!(": add {job}"),
            None => ": no single job is known that would".to_owned(),
        };
        if self.at_bound { format!("{bound}; {note}") } else { note }
    }
}

fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// A measured figure, and the figure that the fitted model gives for the same job.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// File and the place in this file where the figure was read.
    pub place: String,
    /// Name of the job.
    pub name: String,
    /// What the figure measures, such as a rate or a latency.
    pub what: What,
    /// Value that was measured on the board.
    pub measured: f64,
    /// Value of the figure in the model, with the fitted values.
    pub model: f64,
    /// Weight of the figure in the fit, 0 to 1.
    pub weight: f64,
    /// Reason why the model cannot be as fast as measured; `None`: no reason is known.
    pub cannot: Option<&'static str>,
    /// Number of bytes that the model's run transfers, if the job was longer on the board; `None`:
    /// it was not.
    pub cut_to: Option<u64>,
}

impl Held {
    pub(super) fn new(figure: &Figure, model: f64, weight: f64) -> Self {
        Held {
            place: figure.place.clone(),
            name: figure.name.clone(),
            what: figure.what,
            measured: figure.measured,
            model,
            weight,
            cannot: None,
            cut_to: None,
        }
    }

    fn note(&self) -> String {
        let odd = (self.weight < ODD).then_some("does not go with the others");
        let cut = self.cut_to.map(|bytes| format!("cut to {} MiB", bytes.div_ceil(1 << 20)));
        let notes: Vec<String> = self.cannot.or(odd).map(str::to_owned).into_iter().chain(cut).collect();
        notes.join("; ")
    }

    /// Returns the relative error of the model; above 0 if the model's value is larger than the
    /// measured one.
    pub fn error(&self) -> f64 {
        self.model / self.measured - 1.0
    }
}

/// Result of fitting the values of a model to measured figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Result for each value that the fit was allowed to change (a free value).
    pub values: Vec<Value>,
    /// Measured figures to which the values were fitted; each beside the model's figure.
    pub fitted: Vec<Held>,
    /// Measured figures that were held out of the fit, to test it; each beside the model's figure.
    pub held: Vec<Held>,
    /// Standard deviation, as a share, of the measured figures around the model's figures.
    pub scale: f64,
}

/// Returns the mean of the absolute relative errors of the model's figures.
pub fn mean_error(figures: &[Held]) -> f64 {
    figures.iter().map(|held| held.error().abs()).sum::<f64>() / figures.len().max(1) as f64
}

fn worst(figures: &[Held]) -> Option<&Held> {
    figures.iter().max_by(|a, b| a.error().abs().total_cmp(&b.error().abs()))
}

/// Weight in the fit below which the report marks a figure, since it does not agree with the other
/// figures.
const ODD: f64 = 0.5;

impl Fit {
    /// Returns the mean of the absolute relative errors of those figures that were held out of the
    /// fit to test it; `None`: nothing was held out.
    pub fn held_error(&self) -> Option<f64> {
        (!self.held.is_empty()).then(|| mean_error(&self.held))
    }

    /// Returns one line of text about the quality of the fit.
    pub fn verdict(&self) -> String {
        let said = |figures: &[Held]| {
            let worst = worst(figures).map_or(String::new(), |held| {
                format!("; worst {:+.0} %: {}", 100.0 * held.error(), held.name)
            });
            (100.0 * mean_error(figures), figures.len(), worst)
        };
        match self.held.is_empty() {
            false => {
                let (percent, count, worst) = said(&self.held);
                format!(
                    "Your board is predicted within {percent:.1} % on average (holdout, {}{worst}).",
                    counted(count)
                )
            }
            true => {
                let (percent, count, worst) = said(&self.fitted);
                format!(
                    "The model agrees within {percent:.1} % on average (fitted to {}{worst}); nothing was held out, so \
                     nothing says how well it predicts (--holdout).",
                    counted(count)
                )
            }
        }
    }

    /// Returns advice for the user if the held-out figures differ from the model by more than noise
    /// explains; otherwise `None`.
    pub fn advice(&self) -> Option<&'static str> {
        let fixed = !self.values.iter().any(|value| value.key.starts_with("cost."));
        let far = self.held_error()? > 2.0 * self.scale.max(0.01);
        (far && fixed).then_some(
            "That is more than noise: a value that was not free is wrong, and the intervals above do not know \
             that. Free costs of the board too: --free 'card.flash.*,cost.irq_us,cost.job_wake_us'.",
        )
    }

    /// Returns the result of the fit as readable text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let wide = self.values.iter().map(|value| value.key.len()).max().unwrap_or(0).max(5);
        let _ = writeln!(out, "{:<wide$}  {:<6} {:>10} {:>10}  95 %", "value", "unit", "before", "after");
        for value in &self.values {
            let line = format!(
                "{:<wide$}  {:<6} {:>10} {:>10}  {:<10} {}",
                value.key,
                value.unit,
                number(value.before),
                number(value.after),
                value.uncertainty(),
                value.note()
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for (title, figures) in [("fitted to", &self.fitted), ("held out", &self.held)] {
            if figures.is_empty() {
                continue;
            }
            let wide = figures.iter().map(|held| held.name.len()).max().unwrap_or(0).max(title.len());
            let _ = writeln!(
                out,
                "\n{title:<wide$}  {:<9} {:<6} {:>10} {:>10} {:>8}",
                "figure", "unit", "measured", "model", "error"
            );
            for held in figures {
                let line = format!(
                    "{:<wide$}  {:<9} {:<6} {:>10} {:>10} {:>+6.1} %  {}",
                    held.name,
                    held.what.to_string(),
                    held.what.unit(),
                    number(held.measured),
                    number(held.model),
                    100.0 * held.error(),
                    held.note()
                );
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        let _ = writeln!(out, "\n{}", self.verdict());
        if let Some(advice) = self.advice() {
            let _ = writeln!(out, "{advice}");
        }
        out
    }

    /// Returns the result of the fit as JSON.
    pub fn json(&self) -> Json {
        let value = |value: &Value| {
            json!({
                "key": value.key,
                "unit": value.unit,
                "before": value.before,
                "after": value.after,
                "interval_95": value.interval,
                "determined": value.determined(),
                "at_bound": value.at_bound,
                "only_together_with": value.traded,
                "add_job": value.would,
            })
        };
        let held = |held: &Held| {
            json!({
                "place": held.place,
                "job": held.name,
                "figure": held.what.to_string(),
                "unit": held.what.unit(),
                "measured": held.measured,
                "model": held.model,
                "error": held.error(),
                "weight": held.weight,
                "model_cannot": held.cannot,
                "cut_to_bytes": held.cut_to,
            })
        };
        json!({
            "values": self.values.iter().map(value).collect::<Vec<_>>(),
            "fitted": self.fitted.iter().map(held).collect::<Vec<_>>(),
            "held": self.held.iter().map(held).collect::<Vec<_>>(),
            "figure_deviation": self.scale,
            "fitted_mean_error": mean_error(&self.fitted),
            "held_mean_error": self.held_error(),
            "verdict": self.verdict(),
            "advice": self.advice(),
        })
    }
}

fn counted(figures: usize) -> String {
    format!("{figures} figure{}", if figures == 1 { "" } else { "s" })
}

/// Returns a number as text: below 10 with three digits after the point, and with one digit fewer
/// for each further power of ten.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

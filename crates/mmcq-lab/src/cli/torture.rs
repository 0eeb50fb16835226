//! `mmcq torture`: the stack under faults and power cuts.

use super::{Error, print};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mmcq_lab::torture::case::Case;
use mmcq_lab::torture::run::{Bench, CARDS, run};
use mmcq_lab::torture::score::Score;
use mmcq_lab::torture::shrink::shrink;
use mmcq_lab::torture::swarm::Swarm;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

/// Torture the stack: faults, power cuts, and a checker that knows what every sector may hold
///
/// Runs are small and depend on their seed alone. A run that breaks a promise is shrunk to a few events and printed; `--replay` prints one run with all
/// that was on the bus.
#[derive(Debug, Args)]
pub struct Torture {
    /// Seed of the first run; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests, at least
    #[arg(long, default_value_t = 1_000_000)]
    ios: u64,
    /// Mean share of events that go wrong, 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.002)]
    faults: f64,
    /// Power cuts, about
    #[arg(long, value_name = "N", default_value_t = 8_000)]
    cuts: u64,
    /// Only this card
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Prints the run of this seed, event by event
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
}

impl Torture {
    pub fn run(self) -> Result<ExitCode, Error> {
        if !(0.0..=1.0).contains(&self.faults) {
            return Err(Error::Input(format!("--faults {}: expected 0 to 1", self.faults)));
        }
        let card = match &self.card {
            None => None,
            Some(name) => Some(CARDS.iter().position(|card| card == name).ok_or_else(|| {
                Error::Input(format!("--card {name}: expected one of {}", CARDS.join(", ")))
            })?),
        };
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or_else(cores);
        let swarm =
            Swarm { seed: self.seed, requests: self.ios, faults: self.faults, cuts: self.cuts, card, jobs };
        if let Some(seed) = self.replay {
            return replay(&Case::draw(seed, &swarm.wishes()));
        }
        let bar = progress_bar(self.ios);
        let began = Instant::now();
        let score = swarm.run(&|requests| bar.inc(requests));
        bar.finish_and_clear();
        print(&score.text("random runs", began.elapsed()))?;
        self.explain(&score, &swarm)
    }

    fn explain(&self, score: &Score, swarm: &Swarm) -> Result<ExitCode, Error> {
        let Some((seed, violation)) = score.failures.first() else { return Ok(ExitCode::SUCCESS) };
        for (seed, violation) in &score.failures {
            print(&format!("seed {seed}: {violation}\n"))?;
        }
        let mut bench = Bench::new();
        if let Some(short) = shrink(&Case::draw(*seed, &swarm.wishes()), &mut bench) {
            print(&format!("\nseed {seed}, made short ({violation}):\n{}", describe(&short)))?;
            replay(&short)?;
        }
        Ok(ExitCode::from(1))
    }
}

fn describe(case: &Case) -> String {
    let mut text = format!("  card {}, {:?}\n", CARDS[case.setup.card], case.setup);
    for operation in &case.operations {
        text += &format!("  {operation}\n");
    }
    for cut in &case.cuts {
        text += &format!("  cut at event {}, keeps {:?}\n", cut.at, cut.keeps);
    }
    text + &format!("  {:?}\n", case.luck)
}

fn replay(case: &Case) -> Result<ExitCode, Error> {
    let mut bench = Bench::new();
    let mut failed = None;
    let mut lines = |line: String| {
        if failed.is_none() {
            failed = print(&(line + "\n")).err();
        }
    };
    let outcome = run(case, &mut bench, Some(&mut lines));
    if let Some(error) = failed {
        return Err(error);
    }
    for shot in &outcome.struck {
        print(&format!("struck: {shot:?}\n"))?;
    }
    match &outcome.violation {
        Some(violation) => {
            print(&format!("{violation}\n"))?;
            Ok(ExitCode::from(1))
        }
        None => {
            print(&format!("{} requests, {} cuts, nothing broken\n", outcome.requests, outcome.cuts))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(requests: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(requests);
    let style = "{bar:40} {human_pos}/{human_len} requests {elapsed} eta {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

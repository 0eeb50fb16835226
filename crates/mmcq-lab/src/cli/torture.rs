//! `mmcq torture`: the stack under faults and power cuts.

use super::{Error, print};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use mmcq_lab::torture::case::Case;
use mmcq_lab::torture::run::{Bench, CARDS, run};
use mmcq_lab::torture::score::Score;
use mmcq_lab::torture::shrink::shrink;
use mmcq_lab::torture::swarm::Swarm;
use mmcq_lab::torture::{aimed, catalogue, exhaustive, presence, sweep, workloads};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Torture the stack: faults, power cuts, and a checker that knows what every sector may hold
///
/// Runs are small and depend on their seed alone. A run that breaks a promise is made short and printed with all that was on the bus; then the exit code is 1, as it is if
/// a recovery took longer than its class may (2 ms and the transfer for a damaged block, 10 ms after its deadline for a lost interrupt ...).
/// `--replay` prints the random run of a seed in the same way. Without options: the fast set.
#[derive(Debug, Args)]
pub struct Torture {
    /// Seed of the first random run; the others follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Requests at random, at least
    #[arg(long, default_value_t = 5_000_000)]
    ios: u64,
    /// Mean share of events that go wrong in random runs, 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.002)]
    faults: f64,
    /// Power cuts in random runs, about
    #[arg(long, value_name = "N", default_value_t = 30_000)]
    cuts: u64,
    /// Only this card in random runs
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Which campaigns
    #[arg(long, value_enum, default_value_t = Mode::All)]
    mode: Mode,
    /// Operations of the longest program that is tried with all its cuts
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=6))]
    length: u32,
    /// 100 million requests, 400 thousand cuts, programs of five operations
    #[arg(long, conflicts_with_all = ["ios", "cuts", "length"])]
    long: bool,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Prints the random run of this seed, event by event
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// Prints the table of known failures: what proves each, how often it was tried, what the worst recovery cost
    #[arg(long)]
    catalogue: bool,
    /// Writes that table to a file
    #[arg(long, value_name = "FILE", requires = "catalogue")]
    write: Option<PathBuf>,
    /// Plants bugs in the core, one after the other, and tells how soon each is found
    #[cfg(feature = "plant")]
    #[arg(long)]
    plants: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Random machines, requests, faults and cuts
    Swarm,
    /// All small programs, cut at every event in every way
    Exhaustive,
    /// Each kind of fault at every event of twelve workloads
    Sweep,
    /// A second fault at every event of the recovery from the first
    Double,
    /// Faults that stay
    Permanent,
    /// Another card in the slot, at every event
    Swap,
    /// The same card out and in many times, at every event
    Bounce,
    /// What chance seldom hits: answers late or lost at the worst moment, stops that complete twice, bad pieces of writes, brown-outs before a flush
    Aimed,
    /// All of these
    All,
}

impl Torture {
    pub fn run(mut self) -> Result<ExitCode, Error> {
        if !(0.0..=1.0).contains(&self.faults) {
            return Err(Error::Input(format!("--faults {}: expected 0 to 1", self.faults)));
        }
        if self.long {
            (self.ios, self.cuts, self.length) = (100_000_000, 400_000, 5);
        }
        let swarm = self.swarm()?;
        if let Some(seed) = self.replay {
            return replay(&Case::draw(seed, &swarm.wishes()));
        }
        if self.catalogue {
            return self.catalogue(swarm.jobs);
        }
        #[cfg(feature = "plant")]
        if self.plants {
            return plants(swarm.card, swarm.jobs);
        }
        let began = Instant::now();
        let (mut broken, mut over) = (0, 0);
        let sweeps = (sweep::kinds().len() * workloads::NAMES.len()) as u64;
        let modes: [(Mode, &str, u64); 8] = [
            (Mode::Swarm, "random runs, requests", self.ios),
            (Mode::Exhaustive, "all small programs with all cuts", 3 * exhaustive::programs(self.length)),
            (Mode::Sweep, "single faults at every event", sweeps),
            (Mode::Double, "second faults during recovery", sweeps),
            (Mode::Permanent, "faults that stay", sweeps),
            (Mode::Swap, "another card at every event", workloads::NAMES.len() as u64),
            (Mode::Bounce, "a card that bounces at every event", workloads::NAMES.len() as u64),
            (Mode::Aimed, "what chance seldom hits", aimed::NAMES.len() as u64),
        ];
        for (mode, title, size) in modes {
            if self.mode != Mode::All && self.mode != mode {
                continue;
            }
            let bar = progress_bar(title, size);
            let progress = |done| bar.inc(done);
            let mode_began = Instant::now();
            let score = match mode {
                Mode::Exhaustive => exhaustive::exhaustive(self.length, swarm.jobs, &progress),
                Mode::Sweep => sweep::sweep(swarm.jobs, &progress),
                Mode::Double => sweep::double(swarm.jobs, &progress),
                Mode::Permanent => sweep::permanent(swarm.jobs, &progress),
                Mode::Swap => presence::swaps(swarm.jobs, &progress),
                Mode::Bounce => presence::bounces(swarm.jobs, &progress),
                Mode::Aimed => aimed::aimed(swarm.jobs, &progress),
                Mode::Swarm | Mode::All => swarm.run(&progress),
            };
            bar.finish_and_clear();
            let took = mode_began.elapsed();
            print(&score.text(title, took))?;
            if mode == Mode::Swarm && !self.long {
                print(&extrapolated(&score, took))?;
            }
            broken += score.violations();
            over += score.over_budget();
            explain(&score)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        print(&format!("{broken} promises broken, {over} recoveries over budget, {seconds:.1} s\n"))?;
        Ok(if broken + over > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    fn catalogue(&self, jobs: usize) -> Result<ExitCode, Error> {
        if let Some(path) = &self.write {
            super::writable("--write", path)?;
        }
        let bar = progress_bar("campaigns", 7);
        let tried = catalogue::Tried::run(jobs, &|done| bar.inc(done));
        bar.finish_and_clear();
        let page = catalogue::page(&tried);
        match &self.write {
            Some(path) => std::fs::write(path, &page)
                .map_err(|error| Error::Run(format!("--write {}: {error}", path.display())))?,
            None => print(&page)?,
        }
        explain(&tried.all)?;
        Ok(if tried.broken().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn swarm(&self) -> Result<Swarm, Error> {
        let card = match &self.card {
            None => None,
            Some(name) => Some(CARDS.iter().position(|card| card == name).ok_or_else(|| {
                Error::Input(format!("--card {name}: expected one of {}", CARDS.join(", ")))
            })?),
        };
        let jobs = self.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let (seed, requests, faults, cuts) = (self.seed, self.ios, self.faults, self.cuts);
        Ok(Swarm { seed, requests, faults, cuts, card, jobs })
    }
}

/// Failing runs that are made short.
const SHORTENED: usize = 3;

/// What the long command would take.
fn extrapolated(score: &Score, took: Duration) -> String {
    let hours = took.as_secs_f64() * 1e8 / score.requests.max(1) as f64 / 3600.0;
    format!("  100 million requests (--long) would take {hours:.1} h here\n")
}

/// The broken promises, and the first of the runs made short.
fn explain(score: &Score) -> Result<(), Error> {
    for (case, violation) in &score.failures {
        print(&format!("  seed {}: {violation}\n", case.seed))?;
    }
    for (case, violation) in score.failures.iter().take(SHORTENED) {
        if let Some(short) = shrink(case, &mut Bench::new()) {
            print(&format!("\nseed {}, made short ({violation}):\n", case.seed))?;
            replay(&short)?;
        }
    }
    Ok(())
}

fn describe(case: &Case) -> String {
    let mut text = format!("  card {}, {:?}\n", CARDS[case.setup.card], case.setup);
    for (number, operation) in case.operations.iter().enumerate() {
        text += &format!("  {}: {operation}\n", number + 1);
    }
    for cut in &case.cuts {
        text += &format!("  cut at event {}, keeps {:?}\n", cut.at, cut.keeps);
    }
    text + &format!("  luck: {:?}\n", case.luck)
}

fn replay(case: &Case) -> Result<ExitCode, Error> {
    print(&describe(case))?;
    let mut failed = None;
    let mut lines = |line: String| {
        if failed.is_none() {
            failed = print(&(line + "\n")).err();
        }
    };
    let outcome = run(case, &mut Bench::new(), Some(&mut lines));
    if let Some(error) = failed {
        return Err(error);
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

/// So many planted bugs are found; fewer is a step back.
#[cfg(feature = "plant")]
const FOUND_MIN: usize = mmcq::plant::Bug::ALL.len();

#[cfg(feature = "plant")]
fn plants(card: Option<usize>, jobs: usize) -> Result<ExitCode, Error> {
    use mmcq::plant::Bug;
    use mmcq_lab::torture::plants::{look_for_all, without};
    let began = Instant::now();
    if let Some((campaign, violation)) = without(card, jobs) {
        let what = "a promise is broken without any planted bug";
        return Err(Error::Run(format!("--plants: {what} ({}: {violation})", campaign.name())));
    }
    let bar = progress_bar("planted bugs", Bug::ALL.len() as u64);
    let results = look_for_all(card, jobs, &|| bar.inc(1));
    bar.finish_and_clear();
    print(&format!(
        "{:<20} {:<13} {:>8} {:>8} {:>8}  broke\n",
        "bug", "found by", "requests", "median", "seconds"
    ))?;
    for (bug, result) in Bug::ALL.iter().zip(&results) {
        let bug = format!("{bug:?}");
        print(&match result {
            Some(found) => format!(
                "{bug:<20} {:<13} {:>8} {:>8} {:>8.2}  {}\n",
                found.campaign.name(),
                found.requests.first().copied().unwrap_or(0),
                found.median_requests(),
                found.took.as_secs_f64(),
                found.violation
            ),
            None => format!("{bug:<20} not found\n"),
        })?;
    }
    let (found, seconds) = (results.iter().flatten().count(), began.elapsed().as_secs_f64());
    print(&format!("{found} of {} found, {FOUND_MIN} must be; {seconds:.1} s\n", Bug::ALL.len()))?;
    Ok(if found < FOUND_MIN { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// A bar on a terminal, nothing elsewhere.
fn progress_bar(title: &str, size: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(size);
    if let Ok(style) =
        ProgressStyle::with_template("{msg} {bar:40} {human_pos}/{human_len} {elapsed} eta {eta}")
    {
        bar.set_style(style);
    }
    bar.with_message(title.to_owned())
}

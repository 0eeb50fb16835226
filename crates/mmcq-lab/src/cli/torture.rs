//! `mmcq torture`: runs the stack under faults and power cuts.

mod broken;
#[cfg(planted)]
mod plants;

use super::page::{Place, command_line};
use super::progress::{Progress, Unit};
use super::{Error, print, shards, threads, whole};
use broken::{explain, replay};
use clap::{Args, ValueEnum};
use mmcq_lab::page::campaigns::{self, Campaign};
use mmcq_lab::sweep::Shard;
use mmcq_torture::case::Case;
use mmcq_torture::run::CARDS;
use mmcq_torture::score::counted;
use mmcq_torture::spread::Share;
use mmcq_torture::summary::Summary;
use mmcq_torture::swarm::Swarm;
use mmcq_torture::{
    aimed, bring_up, catalogue, corners, exhaustive, hosts, large, narrow, presence, queue_sweep, queues,
    spi, streams, sweep, workloads,
};
#[cfg(planted)]
use plants::plants;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fast set: number of requests, number of power cuts, probability of a fault, and length in
/// requests of the longest program (sequence of requests) of the campaign `exhaustive`.
const FAST: (u64, u64, f64, u32) = (5_000_000, 30_000, 0.002, 4);
/// Long set (`--long`): number of requests, number of power cuts, and length in requests of the
/// longest program of the campaign `exhaustive`.
const LONG: (u64, u64, u32) = (100_000_000, 400_000, 5);

/// When all campaigns run, each of `streams`, `hosts`, `sdmmc`, `narrow`, `corners` and `queues` has
/// the number of requests of `swarm` divided by this.
const STREAMED: u64 = 5;
/// When all campaigns run, each of `spi` and `large` has the number of requests of `swarm` divided
/// by this.
const WIRED: u64 = 100;

/// Names of the campaigns of random runs.
const RANDOM: &str = "swarm, streams, hosts, sdmmc, spi, large, narrow, corners, queues";

/// Torture the stack: faults, power cuts, and a checker that knows what every sector may hold
///
/// A promise is what the stack guarantees about data, such as that flushed data survive a power
/// cut. If a run breaks a promise, the program names it (a random run by the command that replays
/// it), shortens it, and prints it with all events on the bus. The exit code is then 1. It is also
/// 1 if a recovery took longer than its class allows, such as 2 ms and the transfer for a damaged
/// block, or 10 ms after the deadline for a lost interrupt.
///
/// Runs are small. A random run depends only on its seed and the options of the random runs.
/// Without options the fast set runs.
#[derive(Debug, Args)]
pub struct Torture {
    /// Seed of the first random run; the others follow [default: 1]
    #[arg(long, value_name = "N", value_parser = whole)]
    seed: Option<u64>,
    /// Smallest number of random requests [default: 5000000]
    #[arg(long, value_name = "N", value_parser = whole)]
    ios: Option<u64>,
    /// Rate of faults in random runs, 0 to 1 [default: 0.002]
    ///
    /// There are 23 kinds of faults. One run in five has no faults; in the other runs each kind is
    /// on with a probability of 0.3. RATE is the mean probability that a kind which is on strikes
    /// at an event at which it can. So the number of faults that is printed is about 0.6 x RATE of
    /// the controller's events. In a tenth of the runs with faults, the card also fails flushes: 20
    /// x RATE of them.
    #[arg(long, value_name = "RATE", value_parser = share)]
    faults: Option<f64>,
    /// Approximate number of power cuts in random runs [default: 30000]
    ///
    /// Each run (of 250 requests in the mean) ends with a power cut, even if fewer cuts are asked
    /// for, and has at most about 20 more. Cuts that would come after the end of their run do not
    /// happen, so about a quarter fewer are printed.
    #[arg(long, value_name = "N", value_parser = whole)]
    cuts: Option<u64>,
    /// Use only this card in random runs, one of: sdhc-16g-hs, emmc-hs200, hbg4a2, emmc-4g-old,
    /// sdsc-1g
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
    /// Campaign to run [default: all]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Length in operations of the longest program of the campaign exhaustive, 1 to 6 [default: 4]
    #[arg(long, value_name = "N", value_parser = length)]
    length: Option<u32>,
    /// Runs the long set: 100 million requests and 400 thousand cuts (the random runs take about 6
    /// minutes on two free cores), and programs of up to five operations
    #[arg(long, conflicts_with_all = ["ios", "cuts", "length"])]
    long: bool,
    /// Runs only a part of a campaign of random runs, with --mode: 3/16 has the seeds whose number
    /// modulo 16 is 2. All parts together have the runs of the whole campaign (--shard 1/1); they
    /// may run on several computers
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Prints a line of JSON for each campaign, as --merge reads it
    #[arg(long)]
    json: bool,
    /// Also writes one HTML file of the campaigns
    #[arg(long, value_name = "FILE.html", conflicts_with_all = ["merge", "replay", "catalogue"])]
    report: Option<PathBuf>,
    /// Adds up the results of shards, from files that --json printed, and says which shards are
    /// missing. If one is missing, the exit code is 1
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["seed", "ios", "faults", "cuts", "card", "mode", "length", "long", "jobs", "shard", "json", "catalogue", "replay"])]
    merge: Vec<PathBuf>,
    /// Threads, 1 to 1024 [default: one for each core]
    #[arg(long, value_name = "N", value_parser = threads)]
    jobs: Option<usize>,
    /// Prints the random run of this seed: the machine, the requests, the faults, and all events on
    /// the bus
    ///
    /// A run follows from its seed and from options of the campaign: give --long, --ios, --cuts,
    /// --faults and --card as the campaign had them. (The mean number of cuts within a run follows
    /// from cuts and requests: a run has 250 requests in the mean and ends with one cut, so it is
    /// 250 x cuts / ios - 1.) A campaign prints the whole command beside a seed that fails. With
    /// --mode the run is one of that campaign of random runs; except in the campaign swarm, it
    /// depends only on its seed.
    #[arg(long, value_name = "SEED", value_parser = whole, conflicts_with_all = ["seed", "length", "jobs", "shard", "json", "catalogue"])]
    replay: Option<u64>,
    /// Prints the table of known failures: the test of each, how often it was tried, and what its
    /// worst recovery cost
    #[arg(long, conflicts_with_all = ["seed", "ios", "faults", "cuts", "card", "mode", "length", "long", "shard", "json"])]
    catalogue: bool,
    /// Writes the table of --catalogue to a file
    #[arg(long, value_name = "FILE", requires = "catalogue")]
    write: Option<PathBuf>,
    /// Plants bugs in mmcq's core, one after the other, and prints how soon each bug is found
    ///
    /// Columns: what found the bug; `requests` that this took with the first seed; the `median` of
    /// three seeds (if the bug is found by chance; otherwise the same number); `seconds` that this
    /// took on one thread; the promise that was broken first. With TEXT: only bugs whose name
    /// contains it.
    #[cfg(planted)]
    #[arg(long, value_name = "TEXT", num_args = 0..=1, conflicts_with_all = ["seed", "ios", "faults", "cuts", "mode", "length", "long", "replay", "catalogue"])]
    plants: Option<Option<String>>,
}

/// Parses a share, 0 to 1, from the value of an option.
fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1, such as 0.002".to_owned())
}

fn length(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|n| (1..=6).contains(n)).ok_or_else(|| "expected 1 to 6".to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Random machines, requests, faults and power cuts
    Swarm,
    /// All small programs (sequences of requests), each with a power cut of every kind at every
    /// event
    Exhaustive,
    /// Each kind of fault at every event of thirteen workloads
    Sweep,
    /// A second fault at every event of the recovery from a first fault: about two minutes of
    /// processor time, one minute on two free cores
    Double,
    /// Faults that last for ever
    Permanent,
    /// Another card is put into the slot, at every event
    Swap,
    /// The card is taken out and put in again many times, at every event
    Bounce,
    /// Cases that random runs seldom reach: late or lost responses at the worst moment, stops
    /// (CMD12) that complete twice, bad blocks in writes that are sent in parts, brown-outs before
    /// a flush, and brown-outs before the status of a complete write
    Aimed,
    /// Random runs on a reader that leaves transfers open
    Streams,
    /// Random runs on a mobile storage host, Allwinner's or DesignWare's
    Hosts,
    /// Random runs on ST's SDMMC
    Sdmmc,
    /// Random runs on a card in SPI mode
    Spi,
    /// Random runs with requests of up to 1 MiB, and erases that are sent in several parts
    Large,
    /// Random runs on controllers that take at most 1 to 24 blocks at a time, so that requests are
    /// sent in parts, and with requests that overlap. Also reliable writes of old eMMCs, and SD
    /// cards without CMD25
    Narrow,
    /// Random runs under one of seven special conditions: a card above 2 TB; erased memory that
    /// reads as ones; secure erases; a card whose clock stops or that sleeps in pauses; memory that
    /// is copied for DMA; writes that fail after they were reported as complete; write protection.
    /// Seeds take turns: the next seed has the next condition
    Corners,
    /// Random runs with a card's command queue
    Queues,
    /// Each kind of fault at every event of eleven workloads that use a card's command queue
    QueueSweep,
    /// A bad block in the workloads of queue-sweep, and a second fault at every event after it
    QueueDouble,
    /// One fault at every command, response, block and byte of a bring-up, on every controller.
    /// Prints a table, which the page of --report does not have; does not run with --json
    BringUp,
    /// All these campaigns
    All,
}

impl Mode {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns whether the campaign draws runs from seeds until it has enough requests.
    fn is_random(self) -> bool {
        self == Mode::Swarm || self.draws().is_some()
    }

    /// Returns the function that draws a case of the campaign from a seed. `None`: the campaign has
    /// no random runs, or it is the swarm, whose cases depend on more than the seed.
    fn draws(self) -> Option<fn(u64) -> Case> {
        match self {
            Mode::Streams => Some(streams::draw),
            Mode::Hosts => Some(hosts::draw),
            Mode::Sdmmc => Some(hosts::draw_sdmmc),
            Mode::Spi => Some(spi::draw),
            Mode::Large => Some(large::draw),
            Mode::Narrow => Some(narrow::draw),
            Mode::Corners => Some(corners::draw),
            Mode::Queues => Some(queues::draw),
            _ => None,
        }
    }
}

/// Runs the campaign `bring-up` on `jobs` threads, prints its table, and returns the number of
/// broken promises (guarantees about data).
fn bring_ups(jobs: usize) -> Result<u64, Error> {
    let shown = Progress::new("a fault at every event of a bring-up", bring_up::STEPS, Unit::Count);
    let rows = bring_up::sweeps(&bring_up::SLOTS, jobs, &|done| shown.inc(done));
    shown.end();
    print(&format!("a fault at every event of a bring-up\n\n{}\n", bring_up::table(&rows)))?;
    for (_, row) in &rows {
        for line in &row.first {
            print(&format!("  {line}\n"))?;
        }
    }
    Ok(rows.iter().map(|(_, row)| row.broken()).sum())
}

impl Torture {
    pub fn run(self) -> Result<ExitCode, Error> {
        if !self.merge.is_empty() {
            return shards::merge(&self.merge);
        }
        self.go_together()?;
        let swarm = self.swarm()?;
        if let Some(seed) = self.replay {
            return match self.mode.unwrap_or(Mode::Swarm) {
                Mode::Swarm => replay(&swarm.draw(seed)),
                mode => match mode.draws() {
                    Some(draw) => replay(&draw(seed)),
                    None => Err(Error::Input(format!(
                        "--replay: the runs of --mode {} have no seeds; expected a campaign of random runs",
                        mode.name()
                    ))),
                },
            };
        }
        if self.catalogue {
            return self.catalogue(swarm.share.jobs);
        }
        #[cfg(planted)]
        if let Some(named) = &self.plants {
            return plants(named.as_deref().unwrap_or_default(), swarm.card, swarm.share.jobs);
        }
        let wanted = self.mode.unwrap_or(Mode::All);
        let length = self.length.unwrap_or(if self.long { LONG.2 } else { FAST.3 });
        let began = Instant::now();
        let (mut broken, mut over) = (0, 0);
        let sweeps = (sweep::kinds().len() * workloads::NAMES.len()) as u64;
        // A campaign that runs alone (`--mode`) has all the requests that were asked for.
        let streamed = swarm.share.requests / if wanted == Mode::All { STREAMED } else { 1 };
        let by_wire = swarm.share.requests / if wanted == Mode::All { WIRED } else { 1 };
        let queued = queue_sweep::WORKLOADS * queue_sweep::kinds().len() as u64;
        let modes: [(Mode, &str, u64); 18] = [
            (Mode::Swarm, "random runs, requests", swarm.share.requests),
            (Mode::Exhaustive, "all small programs with all cuts", 3 * exhaustive::programs(length)),
            (Mode::Sweep, "single faults at every event", sweeps),
            (Mode::Double, "second faults during recovery", sweep::PLACES * sweeps),
            (Mode::Permanent, "faults that stay", sweeps),
            (Mode::Swap, "another card at every event", workloads::NAMES.len() as u64),
            (Mode::Bounce, "a card that bounces at every event", workloads::NAMES.len() as u64),
            (Mode::Aimed, "what chance seldom hits", aimed::NAMES.len() as u64),
            (Mode::Streams, "random runs with open transfers, requests", streamed),
            (Mode::Hosts, "random runs on a mobile storage host, requests", streamed),
            (Mode::Sdmmc, "random runs on ST's SDMMC, requests", streamed),
            (Mode::Spi, "random runs on a card in SPI mode, requests", by_wire),
            (Mode::Large, "random runs with requests of up to 1 MiB, requests", by_wire),
            (Mode::Narrow, "random runs with few blocks at a time, requests", streamed),
            (Mode::Corners, "random runs in the corners, requests", streamed),
            (Mode::Queues, "random runs through a card's queue, requests", streamed),
            (Mode::QueueSweep, "single faults at every event of a card's queue", queued),
            (Mode::QueueDouble, "a bad block, and a second fault at every event of a queue", queued),
        ];
        let page = self.report.as_deref().map(|path| Place::new("--report", path)).transpose()?;
        let mut campaigns = Vec::new();
        for (mode, title, size) in modes {
            if wanted != Mode::All && wanted != mode {
                continue;
            }
            let shown = Progress::new(title, size, Unit::Count);
            let progress = |done| shown.inc(done);
            let mode_began = Instant::now();
            // The size of a random campaign is its number of requests.
            let requests = if mode.is_random() { size } else { 0 };
            let share = Share { requests, ..swarm.share };
            let score = match mode {
                Mode::Exhaustive => exhaustive::exhaustive(length, share.jobs, &progress),
                Mode::Sweep => sweep::sweep(share.jobs, &progress),
                Mode::Double => sweep::double(share.jobs, &progress),
                Mode::Permanent => sweep::permanent(share.jobs, &progress),
                Mode::Swap => presence::swaps(share.jobs, &progress),
                Mode::Bounce => presence::bounces(share.jobs, &progress),
                Mode::Aimed => aimed::aimed(share.jobs, &progress),
                Mode::Streams => streams::streams(&share, &progress),
                Mode::Hosts => hosts::hosts(&share, &progress),
                Mode::Sdmmc => hosts::sdmmc(&share, &progress),
                Mode::Spi => spi::spi(&share, &progress),
                Mode::Large => large::large(&share, &progress),
                Mode::Narrow => narrow::narrow(&share, &progress),
                Mode::Corners => corners::corners(&share, &progress),
                Mode::Queues => queues::queues(&share, &progress),
                Mode::QueueSweep => queue_sweep::singles(&|_| true, share.jobs, &progress),
                Mode::QueueDouble => queue_sweep::doubles(share.jobs, &progress),
                Mode::Swarm | Mode::BringUp | Mode::All => swarm.run(&progress),
            };
            shown.end();
            let took = mode_began.elapsed();
            broken += score.violations();
            over += score.over_budget();
            let summary = Summary::of(self.campaign(mode, &swarm), &share, &score).line();
            if page.is_some() {
                let text = score.text(title, None);
                campaigns.push(Campaign { title: title.to_owned(), text, summary: summary.clone() });
            }
            if self.json {
                print(&summary)?;
                continue;
            }
            print(&score.text(title, Some(took)))?;
            if mode == Mode::Swarm
                && self.shard.is_none()
                && !self.long
                && let Some(line) = extrapolated(score.requests, took)
            {
                print(&line)?;
            }
            explain(&score, &|seed| match mode {
                Mode::Swarm => Some(self.replaying(seed)),
                _ => mode.draws().map(|_| format!("mmcq torture --mode {} --replay {seed}", mode.name())),
            })?;
        }
        if matches!(wanted, Mode::All | Mode::BringUp) && !self.json {
            broken += bring_ups(swarm.share.jobs)?;
        }
        if let Some(page) = page {
            page.write(&campaigns::page(&campaigns, broken, over, &command_line()))?;
        }
        if self.json {
            return Ok(if broken + over > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS });
        }
        let seconds = began.elapsed().as_secs_f64();
        let (promises, recoveries) =
            (counted(broken, "promise"), if over == 1 { "recovery" } else { "recoveries" });
        print(&format!("{promises} broken, {over} {recoveries} over budget, {seconds:.1} s\n"))?;
        Ok(if broken + over > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
    }

    fn catalogue(&self, jobs: usize) -> Result<ExitCode, Error> {
        if let Some(path) = &self.write {
            super::writable("--write", path)?;
        }
        let shown = Progress::new("campaigns", 8, Unit::Count);
        let tried = catalogue::Tried::run(jobs, &|done| shown.inc(done));
        shown.end();
        let page = catalogue::page(&tried);
        match &self.write {
            Some(path) => std::fs::write(path, &page)
                .map_err(|error| Error::Run(format!("--write {}: {error}", path.display())))?,
            None => print(&page)?,
        }
        explain(&tried.all, &|_| None)?;
        Ok(if tried.broken().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn swarm(&self) -> Result<Swarm, Error> {
        let card = match &self.card {
            None => None,
            Some(name) => Some(CARDS.iter().position(|card| card == name).ok_or_else(|| {
                Error::Input(format!("--card {name}: expected one of {}", CARDS.join(", ")))
            })?),
        };
        let jobs = self.jobs.unwrap_or_else(mmcq_sim::parallel::cores);
        let (requests, cuts) = if self.long { (LONG.0, LONG.1) } else { (FAST.0, FAST.1) };
        let (requests, cuts) = (self.ios.unwrap_or(requests), self.cuts.unwrap_or(cuts));
        let (seed, faults) = (self.seed.unwrap_or(1), self.faults.unwrap_or(FAST.2));
        Ok(Swarm { share: Share { seed, requests, shard: self.shard, jobs }, faults, cuts, card })
    }

    /// Checks that each given option is used by a campaign that runs.
    fn go_together(&self) -> Result<(), Error> {
        let mode = self.mode.unwrap_or(Mode::All);
        let random = matches!(mode, Mode::Swarm | Mode::All);
        let seeded = mode == Mode::All || mode.is_random();
        let programs = matches!(mode, Mode::Exhaustive | Mode::All);
        let fits = [
            ("--seed", self.seed.is_some(), seeded, RANDOM),
            ("--ios", self.ios.is_some(), seeded, RANDOM),
            ("--faults", self.faults.is_some(), random, "swarm"),
            ("--cuts", self.cuts.is_some(), random, "swarm"),
            ("--card", self.card.is_some(), random, "swarm"),
            ("--length", self.length.is_some(), programs, "exhaustive"),
            (
                "--long",
                self.long,
                seeded || programs,
                "swarm, exhaustive, streams, hosts, sdmmc, spi, large, narrow, corners, queues",
            ),
        ];
        if self.json && mode == Mode::BringUp {
            let what = "expected --mode bring-up without it";
            return Err(Error::Input(format!(
                "--json: bring-up has a table, and no summary for --merge; {what}"
            )));
        }
        if self.shard.is_some() && !mode.is_random() {
            let what =
                "expected --mode swarm, streams, hosts, sdmmc, spi, large, narrow, corners or queues with it";
            return Err(Error::Input(format!("--shard: random runs have shards; {what}")));
        }
        let Some((option, .., whose)) = fits.iter().find(|(_, given, fits, _)| *given && !fits) else {
            return Ok(());
        };
        Err(Error::Input(format!(
            "{option}: does nothing with --mode {}; expected --mode {whose} or all",
            mode.name()
        )))
    }

    /// Returns the name of a campaign. For the swarm, adds all options from which its runs are
    /// drawn, except the seed and the number of requests.
    fn campaign(&self, mode: Mode, swarm: &Swarm) -> String {
        let name = mode.name();
        if mode != Mode::Swarm {
            return name;
        }
        let card = self.card.as_ref().map_or_else(String::new, |card| format!(" --card {card}"));
        format!("{name} --faults {} --cuts {}{card}", swarm.faults, swarm.cuts)
    }

    /// Returns the command that replays the random run of this seed.
    fn replaying(&self, seed: u64) -> String {
        let mut text = "mmcq torture".to_owned();
        if self.long {
            text += " --long";
        }
        if let Some(ios) = self.ios.filter(|ios| *ios != FAST.0) {
            text += &format!(" --ios {ios}");
        }
        if let Some(cuts) = self.cuts.filter(|cuts| *cuts != FAST.1) {
            text += &format!(" --cuts {cuts}");
        }
        if let Some(faults) = self.faults.filter(|faults| *faults != FAST.2) {
            text += &format!(" --faults {faults}");
        }
        if let Some(card) = &self.card {
            text += &format!(" --card {card}");
        }
        text + &format!(" --replay {seed}")
    }
}

/// Returns a line about how long `--long` would take on this machine, from the number of requests
/// that were done and the time that they took. `None`: the run was too short to estimate that.
fn extrapolated(requests: u64, took: Duration) -> Option<String> {
    let seconds = took.as_secs_f64();
    if requests < 1_000_000 || seconds < 10.0 {
        return None;
    }
    let minutes = seconds * LONG.0 as f64 / requests as f64 / 60.0;
    Some(format!("  100 million requests (--long) would take about {minutes:.0} minutes here\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        torture: Torture,
    }

    fn parse(line: &str) -> Result<Torture, String> {
        let words = line.split_whitespace().skip(1);
        Program::try_parse_from(words).map(|program| program.torture).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_beside_a_seed_draws_the_same_run() {
        for (given, options) in [
            ("", ""),
            ("--long --jobs 2", " --long"),
            ("--ios 1000000 --mode swarm", " --ios 1000000"),
            ("--cuts 100000 --faults 0.01 --seed 900", " --cuts 100000 --faults 0.01"),
            ("--card sdsc-1g --long", " --long --card sdsc-1g"),
            ("--ios 5000000 --cuts 30000 --faults 0.002", ""),
        ] {
            let campaign = parse(&format!("mmcq torture {given}")).unwrap();
            let command = campaign.replaying(199_585);
            assert_eq!(command, format!("mmcq torture{options} --replay 199585"));
            let again = parse(&command).unwrap();
            assert_eq!((again.go_together().is_ok(), again.replay), (true, Some(199_585)));
            let draw = |torture: &Torture| Case::draw(199_585, &torture.swarm().unwrap().wishes());
            assert_eq!(draw(&campaign), draw(&again), "{given}");
        }
    }

    #[test]
    fn a_campaign_that_draws_by_seeds_alone_is_replayed_by_its_name() {
        let corner = parse("mmcq torture --mode corners --replay 7").unwrap();
        let draw = corner.mode.and_then(Mode::draws).unwrap();
        assert_eq!((corner.replay, draw(7)), (Some(7), corners::draw(7)));
        let error = parse("mmcq torture --mode sweep --replay 7").unwrap().run().unwrap_err().to_string();
        assert!(error.contains("the runs of --mode sweep have no seeds"), "{error}");
    }

    #[test]
    fn the_help_names_the_cards() {
        let help = <Program as clap::CommandFactory>::command().render_help().to_string();
        // The help is folded at the width of the terminal.
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(&CARDS.join(", ")), "{help}");
    }

    #[test]
    fn what_would_do_nothing_is_refused() {
        for line in [
            "--replay 1 --seed 2",
            "--replay 1 --catalogue",
            "--catalogue --mode swap",
            "--catalogue --card sdsc-1g",
            "--long --ios 5",
            "--write page.md",
        ] {
            assert!(parse(&format!("mmcq torture {line}")).is_err(), "{line}");
        }
        for (line, expected) in [
            (
                "--mode swap --card sdsc-1g",
                "--card: does nothing with --mode swap; expected --mode swarm or all",
            ),
            ("--mode sweep --seed 3", "--seed: does nothing with --mode sweep"),
            ("--mode swarm --length 3", "expected --mode exhaustive or all"),
            (
                "--mode double --long",
                "expected --mode swarm, exhaustive, streams, hosts, sdmmc, spi, large, narrow, corners, queues or all",
            ),
        ] {
            let error =
                parse(&format!("mmcq torture {line}")).unwrap().go_together().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for (line, expected) in [
            ("--ios x", "expected a whole number"),
            ("--faults 2", "expected a number from 0 to 1"),
            ("--length 7", "expected 1 to 6"),
            ("--jobs 0", "expected a whole number from 1 to 1024"),
            ("--jobs 1025", "expected a whole number from 1 to 1024"),
        ] {
            let error = parse(&format!("mmcq torture {line}")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn only_long_runs_say_what_a_longer_one_would_take() {
        assert_eq!(extrapolated(1_000, Duration::from_secs(60)), None);
        assert_eq!(extrapolated(5_000_000, Duration::from_secs(2)), None);
        let line = extrapolated(5_000_000, Duration::from_secs(18)).unwrap();
        assert_eq!(line, "  100 million requests (--long) would take about 6 minutes here\n");
    }
}

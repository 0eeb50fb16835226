//! Physical limit of a job: what wire and card allow, whatever the stack is.
//!
//! Software costs nothing here, and sequential requests are sent in perfect batches. A job that
//! keeps a fixed number of requests under way (its depth) is a closed loop. No transfer of a closed
//! loop is longer than that many requests. Jobs that read or write the same file sequentially share
//! one batch, as if each request followed another exactly. So these jobs become one job whose
//! requests are batches, and the next batch is always ready. The card's buffers are then always
//! busy.
//!
//! A job that thinks, limits its rate, flushes, verifies or jumps is not a closed loop: it runs
//! unchanged, without CPU costs. A random job runs unchanged too, since no stack can merge requests
//! that are not adjacent.
//!
//! The card is at its best: it repeats no read, and no write meets garbage collection. These events
//! are random, and a run that had none of them by luck would otherwise be faster than its limit.
//!
//! The limit contains no rule of mmcq's engine. Where a transfer can stay open, two runs are made.
//! In one run every transfer stays open, however long the pause is. In the other a transfer stays
//! open only for a request that is already queued. The faster of both is the limit. Jobs that pause
//! beside other jobs run alone on the card, since no stack can serve them better.
//!
//! If a job reads a boot area, all jobs run unchanged, and the engine switches between the areas as
//! in mmcq's settings.

use super::{Board, Counters, Medium, Outcome, Run, RunError, SLOTS, is_partition, on_board};
use crate::board;
use crate::fio::Worker;
use crate::fio::job::{IoEngine, Job, Size, Verify};
use crate::fio::script::When;
use crate::fio::stats::Stats;
use crate::platform::ControllerConfig;
use mmcq::engine::{Acknowledge, StaysOpen};
use mmcq::host::Host;
use mmcq_sim::card::CardProfile;
use std::sync::Arc;

/// Size in bytes of the longest transfer of a host: the block count has 16 bits.
const TRANSFER_BYTES: u64 = 65_535 * 512;
/// Smallest number of batches (long requests, each of which stands for all requests under way) in a
/// run at the limit, since a single batch has no rate.
const BATCHES: u64 = 8;

/// The jobs of a run at its physical limit: the given jobs, changed to the form that bus and card
/// execute fastest (such as large requests instead of consecutive small ones).
pub(super) struct Perfect {
    /// Workers in the fastest form. Each represents one or more workers of the original jobs.
    pub(super) workers: Vec<Worker>,
    /// For each worker in `workers`: how many of the jobs' own requests one request of this worker
    /// replaces.
    requests: Vec<u64>,
    /// For each worker that the job file describes: the index in `workers` of the fast worker that
    /// replaces it.
    stands: Vec<usize>,
}

impl Perfect {
    /// Makes workers that do the same work as the jobs' `workers`, in the form that is fastest for
    /// wire and card.
    pub(super) fn of(workers: &[Worker]) -> Self {
        let mut pools: Vec<(usize, u64)> = Vec::new();
        let mut stands = Vec::new();
        for worker in workers {
            let known = pools.iter().position(|&(first, _)| meet(&workers[first], worker));
            let at = known.unwrap_or_else(|| {
                pools.push((stands.len(), 0));
                pools.len() - 1
            });
            pools[at].1 += 1;
            stands.push(at);
        }
        let (mut made, mut requests) = (Vec::new(), Vec::new());
        for (first, count) in pools {
            let (worker, each) = perfect(&workers[first], count);
            made.push(worker);
            requests.push(each);
        }
        Perfect { workers: made, requests, stands }
    }

    /// Makes the form in which the jobs' workers run unchanged: each request is sent as it is,
    /// without batches.
    fn as_they_are(workers: &[Worker]) -> Self {
        let count = workers.len();
        Perfect { workers: workers.to_vec(), requests: vec![1; count], stands: (0..count).collect() }
    }

    /// Returns whether each worker is one of the jobs' own workers, so that no requests were joined
    /// into batches.
    fn is_plain(&self, workers: &[Worker]) -> bool {
        let mut pairs = self.workers.iter().zip(workers);
        self.workers.len() == workers.len() && pairs.all(|(made, old)| Arc::ptr_eq(&made.job, &old.job))
    }
}

/// Returns whether the job only reads or writes a file sequentially and once, in blocks of one
/// size. It must also be a closed loop without pauses, flushes or checks.
fn is_plain(job: &Job) -> bool {
    let in_order = !job.rw.random && job.rw_every <= 1 && job.rw_add_bytes == 0 && job.number_ios.is_none();
    let paced = job.thinktime_ns > 0
        || job.rate_bytes.iter().any(Option::is_some)
        || job.rate_iops.iter().any(Option::is_some)
        || job.iodepth_low > 0
        || job.is_grouped()
        || job.flow > 0
        || job.startdelay_ns > 0;
    let flushes = job.asks_for_flushes();
    let one_size =
        [(job.rw.read, 0), (job.rw.write, 1)].into_iter().filter(|(used, _)| *used).all(|(_, dir)| {
            let bs = &job.bs[dir];
            bs.split.is_empty()
                && bs.min == bs.max
                && bs.max == job.max_block()
                && job.blockalign[dir].is_none()
        });
    let whole = job.max_block().is_multiple_of(512) && !job.bs_unaligned;
    in_order && !paced && !flushes && one_size && whole && job.verify == Verify::Off && job.loops == 1
}

/// Returns whether two workers do the same sequential reads or writes of the same bytes at the same
/// time.
fn meet(one: &Worker, other: &Worker) -> bool {
    let together = one.script.is_none() && Arc::ptr_eq(&one.job, &other.job) && one.files == other.files;
    let same_place = matches!(one.job.offset_increment, Size::Bytes(0) | Size::Percent(0));
    together && same_place && is_plain(&one.job) && !other.waits_for_earlier
}

/// Returns one worker that replaces `count` workers like this one, and the number of requests in
/// one of its batches. A batch has all requests that these workers would keep under way, as one
/// contiguous transfer.
fn perfect(worker: &Worker, count: u64) -> (Worker, u64) {
    let old = &worker.job;
    let bytes = old.max_block();
    let loop_requests = count * u64::from(old.depth());
    if loop_requests <= 1 || worker.script.is_some() || !is_plain(old) {
        return (worker.clone(), 1);
    }
    let bytes_of = |size: Option<Size>| match size {
        Some(Size::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    let file = bytes_of(old.size).unwrap_or(u64::MAX);
    let requests = loop_requests.min(TRANSFER_BYTES.min(file) / bytes).max(1);
    let batch = requests * bytes;
    let mut made = worker.clone();
    let job = Arc::make_mut(&mut made.job);
    (job.ioengine, job.iodepth) = (IoEngine::Libaio, 2);
    for bs in &mut job.bs {
        (bs.min, bs.max) = (batch, batch);
    }
    if !job.time_based
        && let Some(each) = bytes_of(job.io_size).or(bytes_of(job.size))
    {
        let whole = (each * count).div_ceil(batch).max(BATCHES) * batch;
        job.io_size = Some(Size::Bytes(whole));
    }
    (made, requests)
}

/// Lane (way to drive the card) for which a limit is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    /// A single transfer at a time. It ends (with CMD12 if needed) as soon as no queued request
    /// continues it.
    Closed,
    /// A single transfer at a time, which stays open until another transfer comes.
    Open,
    /// The card's command queue, driven by software (mmcq's engine).
    Tasks,
    /// The card's command queue, driven by the controller's command queue engine (CQHCI).
    Engine,
    /// Packed commands, which transfer several requests at once.
    Packed,
    /// Requests are sent in chains: lists of transfers that the controller executes.
    Chains,
}

impl Lane {
    /// Returns the ways to drive the card (lanes) that a run's board and card support according to
    /// their files. This takes less time than building a board.
    fn of(run: &Run<'_>) -> Result<Vec<Lane>, RunError> {
        let profile = board::profile(run.platform, run.card)?;
        let controller = &run.platform.controller;
        let all = [
            (Lane::Closed, true),
            (Lane::Open, run.platform.leaves_open()),
            (Lane::Tasks, profile.has_queue()),
            (Lane::Engine, profile.has_queue() && controller.has_queue_engine()),
            (Lane::Packed, profile.takes_packed()),
            (Lane::Chains, controller.executes_chains()),
        ];
        Ok(all.into_iter().filter(|(_, may)| *may).map(|(lane, _)| lane).collect())
    }

    /// Enables this way of transfers (such as packed commands) on the board. Returns false if board
    /// and card do not support it.
    fn switch_on(self, board: &Board<SLOTS>) -> bool {
        let queue = || board.enable_task_queue().is_ok_and(|depth| depth > 0);
        match self {
            Lane::Closed => true,
            Lane::Open => {
                board.stack.with(|engine| engine.host().is_some_and(|host| host.caps().continue_data))
            }
            Lane::Tasks => queue(),
            Lane::Engine => {
                let has = queue() && board.has_queue_engine();
                board.stack.with(|engine| engine.always_use_task_queue(has));
                has
            }
            Lane::Packed => board.enable_packed().is_ok_and(|can| can),
            Lane::Chains => board.enable_chains(),
        }
    }
}

/// Returns the rate of a run in bytes per ns.
fn rate(outcome: &Outcome) -> f64 {
    outcome.counters.bytes as f64 / outcome.counters.elapsed_ns.max(1) as f64
}

/// Returns whether the job pauses: it thinks between requests, or its script has pauses.
fn pauses(worker: &Worker) -> bool {
    let after = |when: When| matches!(when, When::AfterEnd(_, gap_ns) if gap_ns > 0);
    let script = worker.script.as_ref();
    worker.job.thinktime_ns > 0
        || script.is_some_and(|script| script.entries.iter().any(|entry| after(entry.when)))
}

/// Runs the jobs once for each way to drive the card ([`Lane`]), and returns the fastest outcome:
/// their physical limit. `medium`: content of the card in the run with [`Lane::Closed`]; `progress`
/// is called during that run only.
///
/// For every lane but [`Lane::Closed`], the jobs run in batches and also one by one, since the
/// card's dies may read single requests in parallel. If one worker represents several, the first of
/// these gets the statistics of all.
pub(super) fn run(
    run: &Run<'_>,
    medium: Option<Medium>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, RunError> {
    if run.workers.len() > 1 && run.workers.iter().any(pauses) {
        return each_alone(run, progress);
    }
    let switches = run.workers.iter().flat_map(|worker| &worker.files).any(|file| is_partition(file));
    let perfect = if switches { Perfect::as_they_are(run.workers) } else { Perfect::of(run.workers) };
    let plain = Some(Perfect::as_they_are(run.workers)).filter(|_| !perfect.is_plain(run.workers));
    let mut medium = medium;
    let mut best: Option<Outcome> = None;
    for lane in Lane::of(run)? {
        let also = plain.as_ref().filter(|_| lane != Lane::Closed);
        for workers in [Some(&perfect), also].into_iter().flatten() {
            let found = match lane {
                Lane::Closed => on_lane(run, lane, workers, medium.take(), progress)?,
                _ => on_lane(run, lane, workers, None, &mut |_, _| ())?,
            };
            best = match (best, found) {
                (Some(best), Some(other)) => Some(better(best, other)),
                (best, found) => best.or(found),
            };
        }
    }
    best.ok_or_else(|| RunError::Memory("no lane".to_owned()))
}

/// Returns the outcome with the higher rate; if both are equal, `first`. The result counts as
/// dependent on the seed if that of either outcome does, since another seed might make the slower
/// one the faster.
fn better(first: Outcome, other: Outcome) -> Outcome {
    let seeded = first.seeded || other.seeded;
    let (mut best, also) = if rate(&other) > rate(&first) { (other, first) } else { (first, other) };
    best.counters.pace.join(also.counters.pace);
    Outcome { seeded, ..best }
}

/// Runs each worker alone at its limit, and adds the results. The total time is the number of all
/// bytes divided by the sum of the workers' rates. `progress` gets the bytes transferred so far and
/// those planned.
fn each_alone(run: &Run<'_>, progress: &mut dyn FnMut(u64, u64)) -> Result<Outcome, RunError> {
    let (mut all, mut bytes_per_ns) = (None::<Outcome>, 0.0);
    for worker in run.workers {
        let workers = std::slice::from_ref(worker);
        let one = self::run(&Run { workers, ..*run }, None, progress)?;
        // The mean rate would include the beginning, when the card's cache is empty.
        let steady = one.counters.steady.mib_per_s().unwrap_or(0.0) * f64::from(1 << 20) / 1e9;
        bytes_per_ns += rate(&one).max(steady);
        match &mut all {
            None => all = Some(one),
            Some(all) => {
                all.seeded |= one.seeded;
                all.counters.add(&one.counters);
                all.stats.extend(one.stats);
                all.verify_errors.extend(one.verify_errors);
                all.logs.extend(one.logs);
            }
        }
    }
    let mut all = all.ok_or_else(|| RunError::Memory("no job".to_owned()))?;
    let Counters { bytes, elapsed_ns, steady, pace, .. } = &mut all.counters;
    *elapsed_ns = (*bytes as f64 / bytes_per_ns.max(f64::MIN_POSITIVE)) as u64;
    (*steady, *pace) = Default::default();
    Ok(all)
}

/// Returns the changes `key=value` of a card's file that remove all random events (repeated reads,
/// garbage collection).
fn without_chance(profile: &CardProfile) -> Vec<String> {
    let Some(spread) = profile.flash().spread else { return Vec::new() };
    let shares = [("read_retry_share", spread.retries), ("gc_share", spread.collections)];
    let given = shares.into_iter().filter(|(_, delays)| delays.is_some());
    given.map(|(key, _)| format!("flash.spread.{key}=0")).collect()
}

/// Runs the fastest form of the jobs on one lane, that is, one way to send requests (such as the
/// command queue engine, chains or open transfers). `None`: board and card do not have it.
fn on_lane(
    run: &Run<'_>,
    lane: Lane,
    perfect: &Perfect,
    medium: Option<Medium>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Outcome>, RunError> {
    let mut platform = run.platform.clone();
    platform.card_changes.extend(without_chance(&board::profile(run.platform, run.card)?));
    platform.stack.queue_engine = lane == Lane::Engine;
    platform.stack.chains = lane == Lane::Chains;
    // On all lanes but `Lane::Open`, a transfer stays open only if it is certain that it goes on:
    // for the rest of a long request, or for a queued request.
    let (streams, hold_ns) = match lane {
        Lane::Open => (StaysOpen::Always, u64::MAX),
        _ => (StaysOpen::WherePays, 0),
    };
    (platform.stack.streams, platform.stack.hold_ns, platform.stack.owed_ns) = (streams, hold_ns, u64::MAX);
    // The patch reports a write as complete with its data, so no stack can be faster than that.
    if matches!(platform.controller, ControllerConfig::Rtsx(_)) {
        platform.stack.acknowledge = Acknowledge::Transferred;
    }
    // A batch is the whole loop. Two batches under way would be more than the loop has, so batches
    // must not merge.
    platform.stack.merging &= perfect.requests.iter().all(|&requests| requests == 1);
    let board = Board::<SLOTS>::new(&platform, run.card, medium, run.setting.price())?;
    if !lane.switch_on(&board) {
        return Ok(None);
    }
    let mut outcome = on_board(&Run { workers: &perfect.workers, ..*run }, board, progress)?;
    outcome.counters.ios =
        outcome.stats.iter().zip(&perfect.requests).map(|(stats, each)| stats.transfers() * each).sum();
    let mut made: Vec<Option<Stats>> = outcome.stats.into_iter().map(Some).collect();
    outcome.stats = perfect.stands.iter().map(|&at| made[at].take().unwrap_or_default()).collect();
    Ok(Some(outcome))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted;
    use crate::fio;
    use crate::platform::Platform;
    use crate::runner::Setting;

    fn workers(options: &str) -> Vec<Worker> {
        let text = format!("[t]\nfilename=/dev/mmcblk0\nsize=1G\n{}\n", options.replace(' ', "\n"));
        let file = fio::parse_text("test", text.as_bytes(), &fio::System).unwrap();
        fio::expand(&file.jobs).unwrap()
    }

    fn on<'a>(platform: &'a Platform, card: Option<&'a str>, workers: &'a [Worker], seed: u64) -> Run<'a> {
        Run { workers, platform, card, setting: Setting::Limit, seed }
    }

    fn of(run: &Run<'_>) -> Outcome {
        super::run(run, None, &mut |_, _| ()).unwrap()
    }

    const RANDOM: &str = "rw=randread bs=4k io_size=128k";
    const MERGED: &str = "rw=read bs=4k io_size=1M ioengine=libaio iodepth=8";

    #[test]
    fn no_board_is_built_for_a_lane_that_is_not_there() {
        for (platform, card, job, boards) in [
            ("generic", None, RANDOM, 1),
            ("generic", None, MERGED, 1),
            // The card's queue is driven by software: once with batches, and once request by
            // request.
            ("generic", Some("emmc-queue"), RANDOM, 2),
            ("generic", Some("emmc-queue"), MERGED, 3),
            ("intel-jsl", Some("emmc-queue"), RANDOM, 3),
            ("generic", Some("emmc-packed"), RANDOM, 2),
            ("adma3-sprd", Some("hbg4a2"), RANDOM, 2),
        ] {
            let (platform, workers) = (Platform::load(platform).unwrap(), workers(job));
            let (_, _, built) = counted::by(|| of(&on(&platform, card, &workers, 1)));
            assert_eq!(built, boards, "{}, {card:?}, {job}", platform.name);
        }
    }

    #[test]
    fn every_lane_that_can_be_switched_on_is_tried() {
        let workers = workers(RANDOM);
        let mut found = 0;
        for name in Platform::names() {
            let platform = Platform::load(name).unwrap();
            for card in [None, Some("emmc-queue"), Some("emmc-packed"), Some("sdxc-64g-a2")] {
                let run = on(&platform, card, &workers, 1);
                let may = Lane::of(&run).unwrap();
                for lane in [Lane::Closed, Lane::Open, Lane::Tasks, Lane::Engine, Lane::Packed, Lane::Chains]
                {
                    // Some cards cannot be brought up on some boards.
                    let there = on_lane(&run, lane, &Perfect::of(&workers), None, &mut |_, _| ());
                    let there = there.ok().flatten();
                    found += usize::from(there.is_some());
                    assert!(there.is_none() || may.contains(&lane), "{name}, {card:?}: {lane:?}");
                }
            }
        }
        assert!(found > 90, "{found}");
    }

    #[test]
    fn what_does_not_depend_on_the_seed_is_the_same_for_all() {
        let boards = ["generic", "hsq-defer", "fifo-allwinner", "stream-rtsx", "stm32h7-sdmmc", "intel-jsl"];
        let jobs = [
            RANDOM,
            MERGED,
            "rw=randwrite bs=4k io_size=128k ioengine=libaio iodepth=8",
            "rw=write bs=16k io_size=4M numjobs=3",
            "rw=read bs=4k io_size=512k iodepth=4 ioengine=libaio numjobs=4 offset_increment=64k",
            "rw=randread bs=4k io_size=128k randrepeat=0",
        ];
        // For each job: on how many of the boards the limit does not depend on the seed.
        let alike = jobs.map(|options| {
            let workers = workers(options);
            let mut found = 0;
            for name in boards {
                let platform = Platform::load(name).unwrap();
                let limit_of = |seed| {
                    let outcome = of(&on(&platform, None, &workers, seed));
                    (outcome.counters.bytes, outcome.counters.elapsed_ns, outcome.seeded)
                };
                let first = limit_of(1);
                found += usize::from(!first.2);
                for seed in 2..6 {
                    assert!(first.2 || limit_of(seed) == first, "{name}, {options}: seed {seed}");
                }
            }
            found
        });
        // If a transfer may stay open, the rate depends on which of several jobs is next.
        assert_eq!(alike, [6, 6, 6, 4, 5, 0]);
    }

    #[test]
    fn a_closed_loop_becomes_one_of_batches() {
        let perfect = Perfect::of(&workers("rw=write bs=4k io_size=1M ioengine=libaio iodepth=8 numjobs=4"));
        let [one] = &perfect.workers[..] else { panic!("{}", perfect.workers.len()) };
        assert_eq!((one.job.max_block(), one.job.depth(), one.job.numjobs), (32 * 4096, 2, 4));
        assert_eq!((&perfect.requests, &perfect.stands), (&vec![32], &vec![0; 4]));
        for options in ["rw=write bs=4k ioengine=libaio iodepth=8", "rw=read bs=4k numjobs=2"] {
            let before = workers(options);
            assert!(!Perfect::of(&before).is_plain(&before), "{options}");
        }
        // The length of a transfer is limited.
        let long = Perfect::of(&workers("rw=read bs=512k ioengine=libaio iodepth=32 numjobs=4"));
        assert_eq!(long.requests, [63]);
    }

    #[test]
    fn what_is_no_closed_loop_in_sequence_stays_as_it_is() {
        for options in [
            "rw=randwrite bs=4k iodepth=8 ioengine=libaio numjobs=2",
            "rw=write bs=4k numjobs=2 offset_increment=10M",
            "rw=write bs=4k fsync=4 numjobs=2",
            "rw=read bs=4k thinktime=100 numjobs=2",
            "rw=read bs=4k rate_iops=100 numjobs=2",
            "rw=write bs=4k verify=crc32c iodepth=8 ioengine=libaio",
            "rw=read:64k bs=4k numjobs=2",
            "rw=read bsrange=4k-64k iodepth=8 ioengine=libaio",
            "rw=read bs=4k iodepth=8 iodepth_batch_complete_min=8 ioengine=libaio",
        ] {
            let before = workers(options);
            let perfect = Perfect::of(&before);
            assert_eq!(perfect.workers.len(), before.len(), "{options}");
            assert!(perfect.workers.iter().zip(&before).all(|(a, b)| a.job == b.job), "{options}");
            assert!(perfect.is_plain(&before), "{options}");
        }
    }
}

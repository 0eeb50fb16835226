//! Tests of the torture campaigns in a short form, and of the page that they make.

use mmcq::host::sdhci::SdhciQuirks;
use mmcq_sim::checker::Asked;
use mmcq_sim::faults::catalogue::entries;
use mmcq_sim::faults::{Point, Shot, Strike};
use mmcq_torture::case::{BusyBy, Case, Defer, Luck, Operation, Setup, Visit, Wishes};
use mmcq_torture::catalogue::{self, Proof, Tried, proof};
use mmcq_torture::corners::Corner;
use mmcq_torture::run::{Bench, CARDS, EVERY_CARD, POINTS, run};
use mmcq_torture::shrink::shrink;
use mmcq_torture::sweep::kinds;
use mmcq_torture::workloads::{NAMES, VISITS, workload};
use mmcq_torture::{
    aimed, corners, exhaustive, hosts, narrow, presence, queue_sweep, queues, streams, usage,
};
use std::path::Path;
use std::sync::OnceLock;

const WISHES: Wishes = Wishes { faults: 0.002, cuts: 1.0, operations: 120, cards: CARDS.len(), card: None };

#[test]
fn a_seed_is_a_run() {
    let mut bench = Bench::new();
    for seed in 0..20 {
        let case = Case::draw(seed, &WISHES);
        let mut lines = Vec::new();
        let first = run(&case, &mut bench, Some(&mut |line| lines.push(line)));
        let mut again = Vec::new();
        let second = run(&case, &mut Bench::new(), Some(&mut |line| again.push(line)));
        assert_eq!(
            (first.requests, first.events, first.elapsed_ns),
            (second.requests, second.events, second.elapsed_ns)
        );
        assert_eq!(lines, again, "seed {seed}");
    }
}

#[test]
fn random_runs_keep_every_promise() {
    let mut bench = Bench::new();
    let (mut requests, mut struck) = (0, 0);
    for seed in 0..400 {
        let outcome = run(&Case::draw(seed, &WISHES), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        requests += outcome.requests;
        struck += outcome.struck.len();
        // A case that breaks no promise cannot be made shorter.
        if seed == 0 {
            assert!(shrink(&Case::draw(seed, &WISHES), &mut bench).is_none());
        }
    }
    assert!(requests > 40_000 && struck > 200, "{requests} requests, {struck} faults");
}

/// Checks hosts that complete writes in the interrupt and reads in a thread: an eighth of the
/// random cases, with and without a queue.
#[test]
fn random_runs_that_defer_reads_alone_keep_every_promise() {
    let mut bench = Bench::new();
    let draws: [&dyn Fn(u64) -> Case; 2] = [&|seed| Case::draw(seed, &WISHES), &queues::draw];
    for draw in draws {
        let cases: Vec<(u64, Case)> = (0..1_000).map(|seed| (seed, draw(seed))).collect();
        let of = |defer| cases.iter().filter(move |(_, case)| case.setup.defer == defer);
        let shares = [Defer::Reads, Defer::Everything].map(|defer| of(defer).count());
        assert!(shares.iter().all(|share| (90..170).contains(share)), "{shares:?}");
        let (mut requests, mut struck) = (0, 0);
        for (seed, case) in of(Defer::Reads) {
            assert!(case.setup.quirks().has(SdhciQuirks::DEFER_READS));
            let outcome = run(case, &mut bench, None);
            assert_eq!(outcome.violation, None, "seed {seed}");
            requests += outcome.requests;
            struck += outcome.struck.len();
        }
        assert!(requests > 10_000 && struck > 50, "{requests} requests, {struck} faults");
    }
}

#[test]
fn random_runs_through_a_queue_keep_every_promise() {
    let mut bench = Bench::new();
    let (mut requests, mut struck) = (0, 0);
    for seed in 1..=150 {
        let outcome = run(&queues::draw(seed), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        requests += outcome.requests;
        struck += outcome.struck.len();
    }
    assert!(requests > 25_000 && struck > 200, "{requests} requests, {struck} faults");
}

/// Checks a case that broke a promise in the past: a durable write waits for its flush, the
/// supervisor flushes and resets the card, and then the write was sent again, over a younger write.
#[test]
fn a_durable_write_that_was_flushed_is_not_sent_again() {
    let outcome = run(&queues::draw(3421), &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

/// Checks a case that broke a promise in the past: the response with the error of an earlier write
/// was lost, and an engine that does not recover completed that write as good.
#[test]
fn a_lean_engine_doubts_a_write_whose_status_was_lost() {
    let wishes = Wishes { faults: 0.01, cuts: 14.0, operations: 250, ..WISHES };
    let case = usage::with(Case::draw(598, &wishes));
    assert!(case.setup.lean);
    let outcome = run(&case, &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

/// Checks a case that the checker once refused wrongly: the card was taken out after it had flushed,
/// and before the engine had completed the flush.
#[test]
fn a_flush_that_ended_before_the_power_has_covered_all_before_it() {
    let wishes = Wishes { faults: 0.01, cuts: 0.25, operations: 250, ..WISHES };
    let outcome = run(&usage::with(Case::draw(4261, &wishes)), &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

/// Checks a case that the checker once refused wrongly: the card lost its cache while two durable
/// writes were under way, and each reported the loss of its own blocks.
#[test]
fn each_durable_write_may_report_the_loss_of_its_own_blocks() {
    let outcome = run(&narrow::draw(7060), &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

#[test]
fn random_runs_in_the_corners_keep_every_promise() {
    let mut bench = Bench::new();
    let (mut requests, mut struck) = (0, 0);
    for seed in 0..140 {
        let outcome = run(&corners::draw(seed), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        requests += outcome.requests;
        struck += outcome.struck.len();
    }
    assert!(requests > 20_000 && struck > 150, "{requests} requests, {struck} faults");
}

/// Checks cases that broke a promise in the past: a refused write took nine seconds, got another
/// error, or made an earlier write fail.
#[test]
fn a_refused_write_costs_no_other() {
    let mut bench = Bench::new();
    for seed in [20, 27, 41, 55, 244, 342, 377, 1266] {
        let outcome = run(&corners::draw(seed), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Checks a case that broke a promise in the past: ST's controller stays in its busy state if a card
/// is busy for longer than the data timer runs, and refuses to stop the clock.
#[test]
fn a_busy_may_last_longer_than_a_command() {
    let outcome = run(&corners::draw(9_300_700), &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

/// Checks that the cases of a corner really use what the corner is named for: an eMMC sleeps
/// (CMD5), and an eMMC erases securely.
#[test]
fn the_corners_are_visited() {
    let mut bench = Bench::new();
    let mut heard = |corner: Corner, command: &str| {
        let mut times = 0;
        for seed in (0..210).filter(|&seed| Corner::of(seed) == corner) {
            run(
                &corners::draw(seed),
                &mut bench,
                Some(&mut |line| times += u32::from(line.contains(command))),
            );
        }
        times
    };
    assert!(heard(Corner::Rest, " CMD5 ") > 100);
    for erase in [" CMD38 80000000", " CMD38 80000001", " CMD38 80008000"] {
        assert!(heard(Corner::Secure, erase) > 5, "{erase}");
    }
    assert!(heard(Corner::Sduc, " CMD22 00000001") > 100);
    assert!(heard(Corner::Protected, "write-protected") > 100);
}

/// Checks random cases on a mobile storage host and on ST's SDMMC, with all chips of each, and with
/// a card at 1.8 V.
#[test]
fn random_runs_on_other_controllers_keep_every_promise() {
    let mut bench = Bench::new();
    let draws: [fn(u64) -> Case; 2] = [hosts::draw, hosts::draw_sdmmc];
    for draw in draws {
        let (mut requests, mut struck, mut hosts) = (0, 0, Vec::new());
        for seed in 1..=120 {
            let case = draw(seed);
            let outcome = run(&case, &mut bench, None);
            assert_eq!(outcome.violation, None, "seed {seed}");
            requests += outcome.requests;
            struck += outcome.struck.len();
            if !hosts.contains(&case.setup.host) {
                hosts.push(case.setup.host);
            }
        }
        assert!(requests > 20_000 && struck > 100, "{requests} requests, {struck} faults");
        assert!(hosts.len() > 1, "{hosts:?}");
    }
}

/// Checks chips that report the end of data before the end of busy. In the past, a write was sent
/// during the busy of the write before; now a setting of the driver names such chips.
#[test]
fn a_chip_that_ends_data_before_busy_keeps_every_promise() {
    let mut bench = Bench::new();
    for seed in [4, 70, 84] {
        let mut case = hosts::draw_sdmmc(seed);
        case.setup.busy = BusyBy::Status;
        let outcome = run(&case, &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Checks that a read has no data if its memory was given up to a controller that no reset stops.
#[test]
fn a_read_whose_memory_is_leaked_brought_nothing() {
    let mut bench = Bench::new();
    let mut never = 0;
    for seed in 960..1_060 {
        let outcome = run(&hosts::draw(seed), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        never += usize::from(outcome.struck.iter().any(|shot| shot.strike == Strike::Never));
    }
    assert!(never > 0);
}

/// Checks cases that broke a promise in the past.
#[test]
fn runs_that_failed_once_stay_good() {
    let mut bench = Bench::new();
    for (seeds, faults, cuts) in [
        (&[45, 55, 101, 121, 138, 177, 193, 383, 795, 2150, 2952][..], 0.003, 2.0),
        (&[84, 209, 281, 349, 384, 577, 1931, 2083][..], 0.01, 2.0),
        (&[6829, 8486][..], 0.002, 0.5),
        (&[210, 1064, 1497][..], 0.03, 5.25),
        (&[35_837, 165_850, 173_877, 199_585, 255_308][..], 0.002, 0.0),
    ] {
        let wishes = Wishes { faults, cuts, operations: 250, ..WISHES };
        for &seed in seeds {
            let outcome = run(&Case::draw(seed, &wishes), &mut bench, None);
            assert_eq!(outcome.violation, None, "seed {seed}");
        }
    }
    // A status that was lost between two pieces of a write made the engine write durable writes
    // again that waited for their flush alone, over younger data.
    let outcome = run(&streams::draw_plain(25_517), &mut bench, None);
    assert_eq!(outcome.violation, None);
}

/// Checks programs with several clients, schedulers that pick anything, requests that are taken back,
/// pauses, jumps of the clock and the small stack; and cases of these that broke a promise in the
/// past.
#[test]
fn other_uses_of_the_stack_keep_every_promise() {
    let mut bench = Bench::new();
    let (mut requests, mut left) = (0, 0);
    for seed in 0..150 {
        let outcome = run(&usage::with(Case::draw(seed, &WISHES)), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
        requests += outcome.requests;
        left += outcome.dropped;
    }
    assert!(requests > 12_000 && left > 100, "{requests} requests, {left} given up");
    // A policy that changed its mind while the card's queue was on stopped everything. The interrupt
    // of a chain that was given up stayed asserted.
    for seed in [195, 389, 622] {
        let outcome = run(&queues::draw(seed), &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Checks cases of the campaign of queues that broke a promise in the past.
#[test]
fn runs_through_a_queue_that_failed_once_stay_good() {
    let mut bench = Bench::new();
    // What these cases have found: writes in doubt after CMD48 must be repeated before younger
    // writes, even if another lane is used. If the interrupt of an error is lost and only a
    // completion shows, the engine is asked about errors first. A dead command queue engine left
    // the queue by commands, and its memory stayed mapped. A card that still programs reports only
    // once that it does not leave its queue, or that a write to a boot area goes on.
    for seed in [1785, 8642, 20_003_695, 100_044_697, 100_236_673] {
        let mut case = queues::draw_plain(seed);
        if seed < 10_000 {
            // At that time cards used only the order of their profile.
            case.setup.tasks = None;
        }
        let outcome = run(&case, &mut bench, None);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
}

/// Checks late errors: a card reports only once that it could not program a block. Here it reports
/// the error in a response after which another fault strikes, or while it still programs the block.
#[test]
fn a_late_error_is_heard_in_an_answer_that_fails_in_the_end() {
    let mut bench = Bench::new();
    let late = Strike::Status(0x10_0000);
    for (index, bad, point, nth, strike) in [
        (0, 25, Point::Interrupt, 163, late),
        (1, 24, Point::Interrupt, 153, late),
        (1, 29, Point::Busy, 17, Strike::Hidden),
        (2, 23, Point::Interrupt, 73, late),
        (4, 19, Point::Interrupt, 70, late),
        (7, 15, Point::WriteBlock, 12, Strike::Crc),
    ] {
        let shot = |point, nth, strike| Shot { point, nth, strike };
        let shots = vec![shot(Point::Medium, bad, Strike::Fail), shot(point, nth, strike)];
        let case = Case { luck: Luck::Shots(shots), ..queue_sweep::workload(index) };
        let outcome = run(&case, &mut bench, None);
        assert_eq!((&outcome.violation, outcome.struck.len()), (&None, 2), "{index}: {point:?} {nth}");
    }
}

/// Checks late errors without random faults: a block that cannot be programmed, and then an error
/// without a cause or a lost interrupt, at each event of the command queue engine's workloads.
#[test]
fn a_bad_block_and_a_fault_of_the_queue_engine_keep_every_promise() {
    let mut bench = Bench::new();
    let mut struck = 0;
    for index in 2..6 {
        let whole = queue_sweep::workload(index);
        let clean = run(&whole, &mut bench, None);
        assert_eq!((&clean.violation, clean.errors), (&None, 0), "{index}");
        let range = |point| {
            let place = POINTS.iter().position(|known| *known == point).unwrap();
            clean.before.1[place] + 1..=clean.points[place]
        };
        for (point, strike) in [(Point::TaskEnd, Strike::Spurious(1)), (Point::Interrupt, Strike::Lost)] {
            for bad in range(Point::Medium) {
                for nth in range(point) {
                    let shot = |point, nth, strike| Shot { point, nth, strike };
                    let shots = vec![shot(Point::Medium, bad, Strike::Fail), shot(point, nth, strike)];
                    let case = Case { luck: Luck::Shots(shots), ..whole.clone() };
                    let outcome = run(&case, &mut bench, None);
                    assert_eq!(outcome.violation, None, "{index}: block {bad}, {point:?} {nth}");
                    struck += outcome.struck.len();
                }
            }
        }
    }
    assert!(struck > 5_000, "{struck}");
}

/// Checks each fault of a queue at each of its events.
#[test]
fn what_goes_wrong_with_a_queue_keeps_every_promise() {
    let score = queue_sweep::singles(&|point: Point| point.is_of_queue(), 2, &|_| {});
    assert_eq!(score.failures, []);
    assert!(score.runs > 700 && score.over_budget() == 0, "{}", score.runs);
}

/// Checks that the supervisor may end the last request, whose future was dropped: this is not a
/// hang.
#[test]
fn the_supervisor_may_end_the_last_request() {
    let wishes = Wishes { faults: 0.01, cuts: 1.0, operations: 250, card: Some(4), ..WISHES };
    let outcome = run(&Case::draw(30_006_945, &wishes), &mut Bench::new(), None);
    assert_eq!(outcome.violation, None);
}

/// Checks what the recovery ladder promises: a single passing fault costs time and nothing else,
/// whatever it strikes.
#[test]
fn a_single_passing_fault_ends_in_success() {
    let passes = |point, strike| {
        use Strike::{Crc, EndBit, Index, Late, Lost, NoStatus, Spurious};
        match point {
            Point::Command => strike == Lost,
            Point::Response => matches!(strike, Lost | Crc | EndBit | Index),
            Point::ReadBlock => matches!(strike, Crc | EndBit | Index),
            Point::WriteBlock => matches!(strike, Crc | EndBit | NoStatus | Lost),
            Point::Interrupt => matches!(strike, Lost | Late(_) | Spurious(_)),
            _ => false,
        }
    };
    let mut bench = Bench::new();
    let mut struck = 0;
    for (name, point, strike) in kinds().into_iter().filter(|&(_, point, strike)| passes(point, strike)) {
        for (index, load) in NAMES.iter().enumerate().skip(1) {
            let whole = workload(index);
            let clean = run(&whole, &mut bench, None);
            let place = POINTS.iter().position(|known| *known == point).unwrap();
            for nth in clean.before.1[place] + 1..=clean.points[place] {
                let luck = Luck::Shots(vec![Shot { point, nth, strike }]);
                let outcome = run(&Case { luck, ..whole.clone() }, &mut bench, None);
                assert_eq!(outcome.violation, None, "{name} {nth}, {load}");
                assert!(outcome.errors == 0 || index == VISITS, "{name} {nth}, {load}");
                struck += 1;
            }
        }
    }
    assert!(struck > 1_000, "{struck}");
}

#[test]
fn small_programs_keep_every_promise_wherever_they_are_cut() {
    let score = exhaustive::exhaustive(3, 2, &|_| {});
    assert_eq!(score.failures, []);
    assert!(score.cuts > 1_000, "{}", score.cuts);
}

#[test]
fn cards_come_and_go() {
    for score in [presence::swaps(2, &|_| {}), presence::bounces(2, &|_| {})] {
        assert_eq!(score.failures, []);
        assert!(score.runs > 100, "{}", score.runs);
    }
}

/// Checks an SD card with bouncing contacts and its cache on. A card that comes back at once has
/// lost nothing, and a flush that succeeds hides nothing. The next flush must report what a dip of
/// the supply took from the cache.
#[test]
fn an_sd_card_bounces_with_its_cache_on() {
    let card = EVERY_CARD.iter().position(|name| *name == "sdxc-64g-a2").unwrap();
    let write = |at, blocks| Operation::plain(Asked::Write { durable: false }, at, blocks);
    let read = |at, blocks| Operation::plain(Asked::Read, at, blocks);
    let flush = Operation::plain(Asked::Flush, 0, 0);
    let operations =
        vec![write(0, 2), write(5, 1), read(0, 8), flush, write(0, 1), read(1, 4), flush, write(1, 1)];
    let setup = Setup { card, queue: true, depth: 1, ..Setup::PLAIN };
    let whole = Case { seed: 1, setup, operations, ..workload(7) };
    let mut bench = Bench::new();
    let clean = run(&whole, &mut bench, None);
    assert_eq!((clean.violation, clean.errors), (None, 0));
    for event in clean.before.0 + 1..=clean.events {
        for times in [1, 2, 9, 20] {
            let visit = Some((event, Visit::Bounce(times)));
            let outcome = run(&Case { visit, ..whole.clone() }, &mut bench, None);
            assert_eq!(outcome.violation, None, "{times} times from event {event} on");
        }
    }
    let place = POINTS.iter().position(|known| *known == Point::Response).unwrap();
    let mut told = 0;
    for nth in clean.before.1[place] + 1..=clean.points[place] {
        let luck = Luck::Shots(vec![Shot { point: Point::Response, nth, strike: Strike::BrownOut }]);
        let outcome = run(&Case { luck, ..whole.clone() }, &mut bench, None);
        assert_eq!(outcome.violation, None, "answer {nth}");
        told += outcome.errors;
    }
    assert!(told > 0);
}

#[test]
fn what_chance_seldom_hits_keeps_every_promise() {
    let score = aimed::aimed(2, &|_| {});
    assert_eq!(score.failures, []);
    assert!(score.runs > 1_000 && score.faults() > 1_000, "{} runs, {} faults", score.runs, score.faults());
}

/// Checks that CMD27, CMD28, CMD42 and similar commands are sent only for callers that ask for them
/// by name, and that CMD8 does not offer PCIe to an SD card.
#[test]
fn nothing_irreversible_is_ever_sent() {
    let mut bench = Bench::new();
    for (index, workload_name) in NAMES.iter().enumerate() {
        let case = Case { ..workload(index) };
        let case = Case { setup: mmcq_torture::case::Setup { armed_early: true, ..case.setup }, ..case };
        let mut commands = Vec::new();
        let mut note = |line: String| {
            if let Some(at) = line.find("CMD").filter(|_| !line.contains("answer")) {
                commands.push(line[at..].to_owned());
            }
        };
        let outcome = run(&case, &mut bench, Some(&mut note));
        assert_eq!(outcome.violation, None, "{workload_name}");
        assert!(commands.len() > 10);
        let mut application = false;
        for command in &commands {
            let mut words = command.split_whitespace();
            let name = words.next().unwrap_or_default();
            let argument = u32::from_str_radix(words.next().unwrap_or_default(), 16).unwrap_or(0);
            let after_cmd55 = std::mem::replace(&mut application, name == "CMD55");
            for never in [
                "CMD26", "CMD27", "CMD28", "CMD29", "CMD38", "CMD42", "CMD56", "CMD60", "CMD61", "CMD62",
                "CMD63",
            ] {
                // ACMD42 only connects a resistor; CMD42 locks the card.
                assert!(name != never || after_cmd55, "{}: {command}", NAMES[index]);
            }
            // With a voltage in its argument CMD8 is SEND_IF_COND, otherwise it is eMMC's
            // SEND_EXT_CSD.
            if name == "CMD8" && argument != 0 {
                assert_eq!(argument & 0xffff_f000, 0, "PCIe is offered: {command}");
            }
        }
    }
}

#[test]
fn every_entry_has_a_proof_and_every_test_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for entry in entries() {
        for injection in entry.injections {
            let proof = proof(injection);
            assert!(proof.is_some(), "{}: nothing proves {}", entry.id, injection.name);
            if let Some(Proof::Test(file, function)) = proof {
                let text = std::fs::read_to_string(root.join(file)).unwrap_or_default();
                let declared = format!("fn {function}(");
                let at =
                    text.find(&declared).unwrap_or_else(|| panic!("{}: no {function} in {file}", entry.id));
                let test = text[..at].trim_end().ends_with("#[test]");
                assert!(test, "{}: {file}: {function} is no test", entry.id);
            }
        }
    }
}

/// Returns the results of the campaigns that the page names. They run once for all tests.
pub fn tried() -> &'static Tried {
    static TRIED: OnceLock<Tried> = OnceLock::new();
    TRIED.get_or_init(|| Tried::run(2, &|_| {}))
}

fn page_as_it_is() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/FAILURES.md");
    std::fs::read_to_string(path).unwrap()
}

/// Checks those parts of the page that depend on no run, without executing any.
#[test]
fn the_page_has_its_introduction_and_every_row() {
    let page = page_as_it_is();
    assert!(page.starts_with(catalogue::INTRODUCTION));
    for entry in entries() {
        let row = catalogue::fixed(entry);
        assert!(page.contains(&format!("\n{row}")), "not on the page: {row}");
    }
}

/// Checks that the page is up to date, to the last digit: it is made in virtual time.
#[test]
fn the_page_is_up_to_date() {
    let page = page_as_it_is();
    let tried = tried();
    assert_eq!(tried.broken(), []);
    let made = catalogue::page(tried);
    let again = "the page says something else; run mmcq torture --catalogue --write docs/FAILURES.md";
    for (there, new) in page.lines().zip(made.lines()) {
        assert_eq!(there, new, "{again}");
    }
    assert_eq!(page, made, "{again}");
    for entry in entries() {
        let runs = entry.injections.iter().any(|i| !matches!(proof(i), Some(Proof::Test(..))));
        let tries: usize = entry.injections.iter().flat_map(|i| tried.of(i)).flatten().map(|(n, _)| n).sum();
        assert_eq!(runs, tries > 0, "{}: tried {tries} times", entry.id);
        for injection in entry.injections {
            let [once, stays] = tried.of(injection).map(|tried| tried.is_some_and(|(runs, _)| runs > 0));
            let struck = match proof(injection) {
                Some(Proof::Sweep) => once,
                Some(Proof::Lasting) => stays,
                _ => true,
            };
            assert!(struck, "{}: {} never struck", entry.id, injection.name);
        }
    }
}

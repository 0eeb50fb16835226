//! The table of known failures: what proves that the stack survives each, how often it was tried,
//! and how long the worst recovery took.
//!
//! The sweeps execute failures that a single fault in the models can cause. Power cuts, replaced
//! cards, and clocks that wrap have their own campaigns. For the remaining failures single tests
//! prove that the stack survives; the table has their names, and `tests/torture.rs` checks that
//! these tests exist.

use super::case::{Case, Wishes};
use super::exhaustive::exhaustive;
use super::run::{CARDS, run};
use super::score::Score;
use super::spread::spread;
use super::{bring_up, presence, sweep};
use mmcq_sim::checker::Violation;
use mmcq_sim::faults::Point;
use mmcq_sim::faults::catalogue::{CHAPTERS, Entry, Injection, entries};
use std::fmt::Write;

/// What proves that the stack survives an injection (a way to cause a failure).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The sweep: a fault strikes each event of thirteen workloads once, and a lasting fault
    /// strikes from each of four events on.
    Sweep,
    /// The sweep of lasting faults: the fault strikes at one event and at every later one.
    Lasting,
    /// A campaign of the torture with this name.
    Campaign(&'static str),
    /// A single test: its file, and the name of its function.
    Test(&'static str, &'static str),
}

const QUIRKS: Proof = Proof::Test("crates/mmcq-sim/tests/quirks.rs", "the_stack_lives_with_every_profile");
const PROFILES: Proof =
    Proof::Test("crates/mmcq-sim/tests/stack.rs", "misbehaving_cards_work_where_they_can");
const LIFE: &str = "crates/mmcq-sim/src/card/tests/life.rs";
const CARD_QUIRKS: &str = "crates/mmcq-sim/src/card/tests/quirks.rs";
const QUEUE: &str = "crates/mmcq-sim/src/sdhci/cqhci/tests/faults.rs";
const SPI: &str = "crates/mmcq-sim/src/spi/tests/faults.rs";
const SPI_LEFT: &str = "crates/mmcq-sim/src/spi/tests/interrupted.rs";
const LISTS: &str = "crates/mmcq-sim/tests/chained.rs";
const PACKS: &str = "crates/mmcq-sim/tests/packed.rs";
const TASKS: &str = "crates/mmcq-sim/tests/task_queue.rs";
const ODD: &str = "crates/mmcq-sim/tests/odd_cards.rs";
const ODD_SPI: &str = "crates/mmcq-sim/tests/spi_odd.rs";
const OURS: &str = "crates/mmcq-torture/tests/campaigns.rs";

/// What proves that the stack survives failures that no fault in the models can cause, for each
/// such failure by its name.
const PROOFS: &[(&str, Proof)] = &[
    ("discard-corrupts", PROFILES),
    ("hpi-breaks", PROFILES),
    ("power-off-never-ready", PROFILES),
    ("sd-cache-broken", PROFILES),
    ("secure-erase-2s", PROFILES),
    ("secure-erase-corrupts", PROFILES),
    ("trim-corrupts", PROFILES),
    ("flush-hangs", PROFILES),
    ("queue-astray", Proof::Test(TASKS, "a_test_that_writes_nothing_finds_wrong_data")),
    (
        "queue-flush-hangs",
        Proof::Test(TASKS, "an_sd_cards_reads_go_through_its_queue_and_a_flush_finds_it_off"),
    ),
    ("queue-forgets", Proof::Test(TASKS, "an_sd_card_that_is_not_worth_it_loses_its_queue_and_no_request")),
    ("queue-late", Proof::Test(TASKS, "an_sd_cards_reads_go_through_its_queue_and_a_flush_finds_it_off")),
    (
        "cid_mutate",
        Proof::Test("crates/mmcq-sim/tests/recovery.rs", "nothing_meant_for_one_card_reaches_another"),
    ),
    ("eol_drop", Proof::Test(LIFE, "health_goes_down_to_the_end")),
    ("eol_ro", Proof::Test(LIFE, "health_goes_down_to_the_end")),
    ("wp_range", Proof::Test(LIFE, "protection_of_all_kinds")),
    ("broken-timeout", QUIRKS),
    ("broken_hpi", Proof::Test(CARD_QUIRKS, "an_interrupt_that_breaks")),
    ("flush_hang", Proof::Test(CARD_QUIRKS, "flushes")),
    ("clock_wrap", Proof::Campaign("clock")),
    ("irq_any_time", Proof::Test("crates/mmcq/src/host/sdhci/tests/events.rs", "every_status_has_a_meaning")),
    ("zero-length-descriptor", QUIRKS),
    ("dma_window", Proof::Campaign("always")),
    ("preset-broken", QUIRKS),
    ("no-capabilities", QUIRKS),
    ("32-bit-only", QUIRKS),
    ("broken-64-bit", QUIRKS),
    ("broken-adma", QUIRKS),
    ("coherency_model", Proof::Campaign("always")),
    (
        "model_fuzz",
        Proof::Test(
            "crates/mmcq-sim/src/sdhci/tests/random.rs",
            "fuzz_register_storms_never_panic_and_time_goes_forward",
        ),
    ),
    ("hostile_cis", Proof::Test("crates/mmcq/tests/sdio.rs", "hostile_tuples_end_soon_and_clearly")),
    ("hostile_csd", Proof::Test("crates/mmcq/tests/fuzz.rs", "fuzz_registers")),
    ("hostile_ext_csd", Proof::Test("crates/mmcq/tests/fuzz.rs", "fuzz_hostile_card")),
    ("no_sd_express", Proof::Test(OURS, "nothing_irreversible_is_ever_sent")),
    ("rpmb_forged", Proof::Test("crates/mmcq/tests/rpmb.rs", "any_changed_byte_of_an_answer_is_seen")),
    ("irreversible_commands", Proof::Test(OURS, "nothing_irreversible_is_ever_sent")),
    ("hostile_client", Proof::Test("crates/mmcq/tests/engine.rs", "bad_requests_come_back_whole")),
    ("stuck_1v8", Proof::Test(ODD, "a_card_that_is_still_at_1v8_is_kept_there")),
    ("sdio-always-1v8", Proof::Test(ODD, "a_soldered_radio_at_1v8_is_fast_without_a_switch")),
    ("slow_power_up", Proof::Test(ODD, "a_card_that_says_it_is_busy_gets_five_seconds")),
    ("reset_in_power_up", Proof::Test(ODD, "an_emmc_is_not_reset_while_it_powers_up")),
    ("inquiry_makes_ready", Proof::Test(ODD, "an_emmc_gets_no_inquiry_before_its_cmd1")),
    ("inquiry_pause", Proof::Test(ODD, "a_card_has_time_between_the_inquiry_and_its_power_up")),
    ("no_supply_echo", Proof::Test(ODD, "a_card_that_echoes_no_supply_is_taken")),
    ("reads-past-end", Proof::Test(ODD, "a_card_that_reads_ahead_beyond_its_end_loses_no_request")),
    ("no-multiple-write", Proof::Test(ODD, "a_card_without_cmd25_is_written_block_by_block")),
    ("limbo", Proof::Test(LIFE, "fake_capacity")),
    ("wrap", Proof::Test(LIFE, "fake_capacity")),
    ("csd_mutate", Proof::Test(LIFE, "a_card_that_shrinks_and_one_that_keeps_its_voltage")),
    ("trim_broken", Proof::Test(CARD_QUIRKS, "erases_that_hit_others")),
    ("secure_erase_broken", Proof::Test(CARD_QUIRKS, "erases_that_hit_others")),
    ("broken_discard", Proof::Test(CARD_QUIRKS, "erases_that_hit_others")),
    ("swap", Proof::Campaign("swap")),
    ("cd_bounce", Proof::Campaign("bounce")),
    ("cut", Proof::Campaign("programs")),
    ("cut_cache", Proof::Campaign("programs")),
    ("neighbour_damage", Proof::Test(LIFE, "cuts_that_damage_more")),
    ("shorn_writes", Proof::Test(LIFE, "cuts_that_damage_more")),
    ("sleep_swap", Proof::Campaign("swap")),
    (
        "poweroff_ignored",
        Proof::Test("crates/mmcq-sim/src/card/tests/extension.rs", "power_off_notification"),
    ),
    ("tag_reuse", Proof::Campaign("always")),
    ("fail_in_queue", Proof::Test("crates/mmcq/tests/engine.rs", "a_failed_merge_fails_only_its_owner")),
    ("drop_future", Proof::Test("crates/mmcq/tests/task.rs", "a_future_may_be_dropped_at_every_poll")),
    ("lost_waker", Proof::Campaign("always")),
    ("starvation", Proof::Test("crates/mmcq/tests/sched.rs", "deadline_keeps_its_bound")),
    ("planted_order", Proof::Campaign("always")),
    ("partition", Proof::Test("crates/mmcq/tests/device.rs", "visits_in_a_row_stay_there")),
    ("pool_of_one", Proof::Test("crates/mmcq/tests/task.rs", "a_full_queue_gives_the_buffer_back")),
    ("queue_stale", Proof::Test(QUEUE, "completions_that_were_cleared")),
    ("task_early", Proof::Test(QUEUE, "a_completion_before_the_data")),
    ("halt_never", Proof::Test(QUEUE, "halts_that_do_not_come")),
    ("halt_late", Proof::Test(QUEUE, "halts_that_do_not_come")),
    ("doorbell_lost", Proof::Test(QUEUE, "a_doorbell_that_does_nothing")),
    ("blame_missing", Proof::Test(QUEUE, "an_error_of_no_task")),
    ("red_late", Proof::Test(QUEUE, "an_error_of_a_task_that_is_complete")),
    ("task_unanswered", Proof::Test(QUEUE, "a_task_that_is_not_answered")),
    ("task_never_ready", Proof::Test(QUEUE, "a_task_that_never_gets_ready")),
    ("task_ready_falls", Proof::Test(QUEUE, "a_task_that_is_shown_and_is_not_ready")),
    ("discard_refused", Proof::Test(QUEUE, "tasks_that_are_not_discarded")),
    ("queue_forgotten", Proof::Test(QUEUE, "a_card_that_forgets_at_a_stop")),
    ("task_overtaken", Proof::Test(QUEUE, "a_task_that_is_overtaken")),
    ("task_astray", Proof::Test(QUEUE, "a_task_that_goes_astray")),
    ("poll_pause_reset", Proof::Test(QUEUE, "a_pause_that_falls_back")),
    ("spi_flip_di", Proof::Test(SPI, "a_bit_of_either_direction")),
    ("spi_flip_do", Proof::Test(SPI, "a_bit_of_either_direction")),
    ("spi_byte_lost", Proof::Test(SPI, "a_byte_or_a_clock_that_the_card_does_not_see")),
    ("spi_clock_lost", Proof::Test(SPI, "a_byte_or_a_clock_that_the_card_does_not_see")),
    ("spi_clock_extra", Proof::Test(SPI, "a_byte_or_a_clock_that_the_card_does_not_see")),
    ("spi_do_low", Proof::Test(SPI, "a_line_that_is_stuck_until_the_supply_goes")),
    ("spi_do_high", Proof::Test(SPI, "a_line_that_is_stuck_until_the_supply_goes")),
    ("spi_mute", Proof::Test(SPI, "a_card_that_says_nothing_more")),
    (
        "spi_stuff_byte",
        Proof::Test("crates/mmcq-sim/src/spi/tests/reads.rs", "cmd18_until_cmd12_with_its_stuff_byte"),
    ),
    ("spi_late_busy", Proof::Test("crates/mmcq-sim/src/spi/tests/writes.rs", "cmd25_until_its_token")),
    ("spi_select_ends", Proof::Test(SPI_LEFT, "some_cards_end_their_transfers_with_the_selection")),
    ("spi_select_keeps", Proof::Test(SPI_LEFT, "the_end_of_the_selection_ends_nothing")),
    ("spi_left_in_the_middle", Proof::Test(SPI_LEFT, "a_card_left_in_the_middle_comes_back")),
    ("spi_crc_off", Proof::Test(ODD_SPI, "checksums_are_on_although_one_cmd59_was_lost")),
    ("spi_busy_prefix", Proof::Test(ODD_SPI, "a_card_that_is_busy_after_cmd55")),
    ("spi_select_clock", Proof::Test(ODD_SPI, "a_card_that_sees_chip_select_with_a_clock")),
    ("spi_select_ones", Proof::Test("crates/mmcq-sim/tests/spi_shared.rs", "two_users_take_turns")),
    ("pack_entry_fails", Proof::Test(PACKS, "an_entry_that_fails_costs_no_other_and_no_data")),
    ("pack_index_late", Proof::Test(PACKS, "an_entry_that_fails_costs_no_other_and_no_data")),
    ("pack_index_early", Proof::Test(PACKS, "an_entry_that_fails_costs_no_other_and_no_data")),
    ("list_ends_early", Proof::Test(LISTS, "a_list_that_ends_early_loses_nothing_and_is_the_last")),
    ("odd_buffers", Proof::Test("crates/mmcq/tests/task.rs", "any_memory_goes_through_a_bounce_buffer")),
];

/// Returns the test or campaign which shows that the stack survives this injected fault; `None`:
/// there is none, and the table is not complete.
#[must_use]
pub fn proof(injection: &Injection) -> Option<Proof> {
    if injection.aim().is_some_and(|(point, _)| point == Point::Function) {
        return Some(Proof::Test("crates/mmcq/tests/sdio.rs", "a_fault_is_cleaned_up_by_its_owner"));
    }
    // Faults of a command queue and of an SPI bus have their own tests.
    let own = injection.aim().is_some_and(|(point, _)| point.is_of_queue() || point.is_of_spi());
    if injection.shot(1).is_some() && !own {
        return Some(Proof::Sweep);
    }
    if injection.aim().is_some() && !own {
        return Some(Proof::Lasting);
    }
    PROOFS.iter().find(|(name, _)| *name == injection.name).map(|(_, proof)| *proof)
}

/// Number of requests in each of the two random campaigns `always` and `clock`.
const REQUESTS: u64 = 50_000;

/// Results of the campaigns that the table names.
#[derive(Debug, Default)]
pub struct Tried {
    /// Scores of all campaigns, added up.
    pub all: Score,
    /// Results of the bring-up sweeps.
    pub bring_ups: Vec<(bring_up::Slot, bring_up::Row)>,
}

impl Tried {
    /// Executes the campaigns. Calls `progress` after each.
    pub fn run(jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Self {
        let silent: &(dyn Fn(u64) + Sync) = &|_| {};
        let mut all = Score::default();
        let mut add = |name: Option<&str>, mut score: Score| {
            if let Some(name) = name {
                let runs = score.runs;
                score.recovered(name, score.errors, 0);
                if let Some(recovery) = score.recoveries.get_mut(name) {
                    recovery.times_ns.resize(runs as usize, 0);
                }
            }
            all.merge(score);
            progress(1);
        };
        add(None, sweep::sweep(jobs, silent));
        add(None, sweep::permanent(jobs, silent));
        add(Some("programs"), exhaustive(3, jobs, silent));
        add(Some("swap"), presence::swaps(jobs, silent));
        add(Some("bounce"), presence::bounces(jobs, silent));
        let wishes = Wishes { faults: 0.002, cuts: 1.0, operations: 250, cards: CARDS.len(), card: None };
        let seeds = REQUESTS / u64::from(wishes.operations);
        let draw = |wrap: bool| {
            spread(jobs, &|index, bench, score| {
                if index >= seeds {
                    return false;
                }
                let mut case = Case::draw(index, &wishes);
                if wrap {
                    case.setup.start_ns = (1 << 32) - 200_000_000;
                }
                let outcome = run(&case, bench, None);
                score.add(&case, &outcome);
                true
            })
        };
        add(Some("always"), draw(false));
        add(Some("clock"), draw(true));
        let bring_ups = bring_up::sweeps(&bring_up::SLOTS, jobs, silent);
        progress(1);
        Tried { all, bring_ups }
    }

    /// Returns the results of an injection (a way to cause a failure): first of the runs in which
    /// the fault strikes once, then of the runs in which it lasts. Each result has the number of
    /// tries, and the longest extra time in ns that a try took.
    #[must_use]
    pub fn of(&self, injection: &Injection) -> [Option<(usize, u64)>; 2] {
        let name = match proof(injection) {
            Some(Proof::Sweep | Proof::Lasting) => injection.name,
            Some(Proof::Campaign(name)) => name,
            Some(Proof::Test(..)) | None => return [None; 2],
        };
        [&self.all.recoveries, &self.all.lasting].map(|recoveries| {
            recoveries.get(name).map(|recovery| (recovery.times_ns.len(), recovery.p50_p100_ns().1))
        })
    }

    /// Returns the cases in which the stack broke a guarantee about data, each with the violation;
    /// at most eight are stored.
    #[must_use]
    pub fn broken(&self) -> &[(Case, Violation)] {
        &self.all.failures
    }
}

/// Returns those columns of a row of the page on failures that are known without running a
/// campaign, as text.
#[must_use]
pub fn fixed(entry: &Entry) -> String {
    let mut proofs: Vec<String> = Vec::new();
    for injection in entry.injections {
        let text = match proof(injection) {
            None => "nothing".to_owned(),
            Some(Proof::Sweep) => format!("`{}` swept", injection.name),
            Some(Proof::Lasting) => format!("`{}` lasting", injection.name),
            Some(Proof::Campaign(name)) => format!("`{}` by campaign {name}", injection.name),
            Some(Proof::Test(file, function)) => format!("`{file}::{function}`"),
        };
        if !proofs.contains(&text) {
            proofs.push(text);
        }
    }
    format!("| {} | {} | {} | {} |", entry.id, entry.failure, entry.response, proofs.join("; "))
}

/// Text of the page on failures (`docs/FAILURES.md`) above its tables, up to the row that serves as
/// an example.
pub const INTRODUCTION: &str = "\
# Failures that the stack lives with

Each row is a known failure of a card, a controller or a board. It says what the stack does about
this failure, and what proves that. The command `mmcq torture --catalogue --write docs/FAILURES.md`
writes this page. A test executes the campaigns again, and compares their results with the page.

The columns:

- **Failure**: what goes wrong.
- **Response**: what the stack does.
- **Proved by**: either the test that is named, or a fault of the models and how it was tried:
  - *swept*: each of thirteen workloads ran many times, with one fault in each run. The fault
    struck at the first possible event of the first run, at the second event of the second run, and
    so on to the last event. In four more runs of each workload the fault struck at every event,
    from the 1st, 2nd, 4th or 10th event on.
  - *lasting*: only the runs in which the fault struck at every event.
  - *by campaign*: the runs of a campaign, which has one of these names. `always`: random runs; in
    each of them the checker checks memory, order, and that a request's slot number is not used
    again too early. `clock`: random runs in which the clock passes 2^32 ns. `programs`: all
    programs of three operations, with a power cut at every event. `swap`: another card is put in,
    at each event of a workload. `bounce`: the same card loses contact many times, at each event of
    a workload.
- **Once**: the number of runs in which the fault struck once; for *by campaign*, the number of the
  campaign's runs.
- **Worst (once)**: the largest difference between such a run and the same run without the fault,
  in milliseconds of virtual time. The time of a run is measured from the first request after
  bring-up to the last answer.
- **Stays**: the number of runs in which the fault struck at every event from one event on.
- **Worst (stays)**: the largest such difference among the runs of the column *Stays*.

";

/// Returns the text below the table: it explains one row as an example, and says what the times in
/// the table do not show.
fn reading(tried: &Tried) -> String {
    let mut text = String::new();
    let [once, stays] = entries()
        .find(|entry| entry.id == "A1")
        .and_then(|entry| entry.injections.first())
        .map_or([None; 2], |injection| tried.of(injection));
    if let (Some((once, once_ns)), Some((stays, stays_ns))) = (once, stays) {
        let _ = write!(
            text,
            "An example is row A1. `resp_crc` damaged one response in each of {once} runs. The slowest of them took\n\
             {:.3} ms longer than without it. In {stays} more runs it damaged every response from some event on.\n\
             The slowest of these took {:.3} ms longer.\n\n",
            once_ns as f64 / 1e6,
            stays_ns as f64 / 1e6
        );
    }
    text + "\
If a fault strikes at every event, every request needs a recovery, until the stack declares the
card dead. Each recovery is within its time budget. The column *Worst (stays)* has the sum of these
recoveries.

Some faults show only when a deadline passes: a lost interrupt, a circuit that hangs, a busy
without end, a controller that is gone. Such a fault costs the whole deadline, also if it strikes
once. The deadline is up to 30 s for a flush, and as long again for the status commands after the
flush. So a time in the columns *Worst* may be longer than the time that the column *Response*
states: the latter begins when the stack sees the failure.

An example is row C1. In a card slot with card detection, requests end some milliseconds after the
card was taken out. The eMMC of other workloads has no card detection. There the stack notices the
loss only at the deadline of a read (0.2 s) or of a write (0.5 s).
"
}

/// Text above the table of bring-ups.
const BRING_UP: &str = "
## Bring-up

In the tables above a run's time is measured from the first request after bring-up. This table is
about the time before: one fault struck during bring-up. In each run one command, response,
register block, byte of an SPI bus (one byte in seven was tried) or step of the bus was lost,
damaged or late. The command is `mmcq torture --mode bring-up`.

Each bring-up found its card. It took at most 500 ms longer than a bring-up without the fault, and
chose the same speed or the next lower one. The column *Worst* has the longest extra time of the
row's runs, in virtual milliseconds. If a command or response is lost before the speed is chosen,
the stack sends the command again, or begins bring-up again from power-up, at most three times. If
the interrupt at the end of a card's busy is lost, the stack notices that after 250 ms.

The last three columns are about runs with two faults. For each row 300 pairs of faults were tried
at random; a pair is counted if both faults struck. Such a bring-up may find no card, but it ends
at most four seconds later than a bring-up without faults. *Stuck* counts two kinds of runs: those
that ended later than that, and those after which the next bring-up, without faults, found no card
either.

";

/// Returns the text of the documentation page about known failures, with the results `tried`.
#[must_use]
pub fn page(tried: &Tried) -> String {
    let mut text = INTRODUCTION.to_owned() + &reading(tried);
    for (letter, title) in CHAPTERS {
        let _ = write!(
            text,
            "\n## {letter}. {title}\n\n| | Failure | Response | Proved by | Once | Worst (once) | Stays | Worst (stays) |\n\
             |---|---|---|---|---:|---:|---:|---:|\n"
        );
        for entry in entries().filter(|entry| entry.id.starts_with(letter)) {
            let all: Vec<_> = entry.injections.iter().map(|injection| tried.of(injection)).collect();
            let _ = write!(text, "{}", fixed(entry));
            for place in 0..2 {
                let tries: Vec<_> = all.iter().filter_map(|tried| tried[place]).collect();
                let (count, worst) =
                    tries.iter().fold((0, 0), |(count, worst), (n, ns)| (count + n, worst.max(*ns)));
                text += &match tries.is_empty() {
                    true => " | |".to_owned(),
                    false => format!(" {count} | {:.3} |", worst as f64 / 1e6),
                };
            }
            text.push('\n');
        }
    }
    text + BRING_UP + &bring_up::table(&tried.bring_ups)
}

//! Sequences of faults with which the graph tests have found an error, at every place where they
//! can happen.

use crate::choice::Bad::{self, *};
use crate::explore::explore;
use crate::run::Start;
use crate::workload::ALL;

/// Runs the workload with these faults in this order, at every place where they can happen.
fn wherever(workload: &str, bad: &'static [Bad]) {
    let found = ALL.into_iter().find(|one| one.name == workload).expect("there is such a workload");
    let mut start = Start::new(found);
    start.only = Some(bad);
    let report = explore(&start, bad.len(), 1);
    assert!(report.runs > 1, "it fits nowhere");
    let broken: Vec<_> = report.found.iter().map(|(what, found)| (what, found.times, &found.plan)).collect();
    assert!(broken.is_empty(), "of {} runs: {broken:?}", report.runs);
}

#[test]
fn one_lost_answer_while_a_card_is_initialised_again_costs_no_speed() {
    wherever("reads and writes", &[BrownOut, CommandLost]);
    wherever("tuned", &[BrownOut, CommandLost]);
    wherever("tuned", &[BrownOut, BusFails]);
}

#[test]
fn one_lost_answer_in_a_tuning_costs_no_speed() {
    wherever("tuned", &[RetuneAsked, Silence]);
    wherever("tuned", &[RetuneAsked, CommandLost]);
    wherever("tuned", &[RetuneAsked, BrownOut]);
    wherever("tuned", &[RetuneAsked, Mute]);
}

#[test]
fn a_bus_that_is_too_fast_is_no_reason_to_initialise_the_card_again() {
    wherever("tuned", &[Noise, ResetHangs]);
}

#[test]
fn a_card_that_was_initialised_again_may_be_tuned_again() {
    wherever("tuned, a reset takes the supply", &[BrownOut, CommandLost, DataDamaged]);
    wherever("tuned", &[ResponseDamaged, BrownOut, DataDamaged]);
    wherever("tuned", &[Mute, CommandLost, ResetHangs]);
}

#[test]
fn nothing_is_tuned_when_all_is_given_up() {
    wherever("tuned", &[ResponseDamaged, ResetHangs, Gone]);
}

#[test]
fn a_supervisor_that_comes_too_late_is_waited_for_once() {
    wherever("tuned, a reset takes the supply", &[BrownOut, SupervisorTooSlow]);
    wherever("streams", &[ResponseDamaged, BrownOut, SupervisorTooSlow]);
}

#[test]
fn memory_of_a_visit_comes_back_however_it_ends() {
    wherever("accesses to a boot area", &[Gone]);
    wherever("accesses to a boot area", &[Swapped]);
}

#[test]
fn a_durable_write_whose_flush_was_not_understood_is_made_again() {
    wherever("flush with a cache", &[CommandLost]);
    wherever("flush with a cache", &[Silence]);
    wherever("flush with a cache", &[BrownOut]);
}

#[test]
fn a_flush_that_never_ends_leaves_time_to_initialise_the_card() {
    wherever("flush with a cache", &[Stuck]);
    wherever("flush with a cache", &[BrownOut, Stuck]);
}

#[test]
fn a_queue_that_holds_every_mapping_does_not_keep_the_supervisor_from_the_card() {
    wherever("room for three mappings", &[BrownOut]);
    wherever("room for three mappings", &[Mute]);
}

#[test]
fn an_exhausted_mapping_is_waited_for() {
    wherever("room for three mappings", &[MapExhausted]);
}

#[test]
fn a_visit_that_is_cancelled_during_a_tuning_leaves_the_card_in_the_user_area() {
    wherever("accesses to a boot area", &[RetuneAsked, Cancel(0)]);
}

#[test]
fn a_card_that_never_got_its_stop_is_tuned_all_the_same() {
    wherever("tuned", &[ResponseDamaged, ResetHangs, CommandLost]);
}

#[test]
fn one_damaged_tuning_block_before_silence_costs_no_speed() {
    wherever("tuned", &[RetuneAsked, ResponseDamaged, BrownOut]);
    wherever("tuned, a reset takes the supply", &[RetuneAsked, ResponseDamaged, ResetHangs]);
}

#[test]
fn one_damaged_answer_and_a_reset_that_hangs_cost_no_speed() {
    wherever("tuned, a reset takes the supply", &[ResponseDamaged, ResetHangs]);
    wherever("tuned, a reset takes the supply", &[DataDamaged, ResetHangs]);
    wherever("tuned", &[ResponseDamaged, BrownOut]);
}

#[test]
fn a_sampling_point_that_a_reset_took_is_looked_for_again() {
    wherever("tuned", &[CommandLost, ResetHangs]);
    wherever("accesses to a boot area", &[CommandLost, ResetHangs]);
}

/// Tests a card between two partitions that was initialised in this incident already, and has lost
/// its tuning since: it is tuned again before it is given up.
#[test]
fn a_card_between_two_partitions_is_tuned_before_it_is_given_up() {
    wherever("accesses to a boot area", &[Mute, CommandLost, ResetHangs]);
}

//! Tests of the sweep: which events are struck, and how long recovery takes at the worst place.

use mmcq_sim::faults::{Point, Shot, Strike};
use mmcq_torture::case::{BusyBy, Case, Luck};
use mmcq_torture::run::{Bench, POINTS, run};
use mmcq_torture::score::Score;
use mmcq_torture::stopwatch::Class;
use mmcq_torture::sweep::{first, judge_whole, picked, seconds};
use mmcq_torture::workloads::{NAMES, workload};

#[test]
fn short_stretches_are_struck_everywhere_and_long_ones_at_both_ends() {
    assert_eq!(picked(3, 7, 12), [3, 4, 5, 6, 7]);
    assert!(picked(8, 7, 12).is_empty());
    let long = picked(1, 1000, 12);
    assert_eq!(long, [1, 2, 3, 4, 5, 6, 7, 337, 667, 998, 999, 1000]);
    let mut sorted = picked(5, 30, 12);
    sorted.dedup();
    assert_eq!(sorted.len(), 12);
}

/// Checks a card that stays slow: the last attempt begins only while time is left in the incident's
/// budget.
#[test]
fn a_card_that_is_slow_for_ever_ends_each_incident_in_its_budget() {
    let mut bench = Bench::new();
    let mut incidents = 0;
    for (index, load) in NAMES.iter().enumerate().skip(1) {
        let busy = Shot { point: Point::Busy, nth: 1, strike: Strike::Late(5_000_000_000) };
        let outcome = run(&Case { luck: Luck::Always(busy), ..workload(index) }, &mut bench, None);
        assert_eq!(outcome.violation, None, "{load}");
        let budget_ns = Class::Whole.budget_ns() + outcome.allowance(Class::Whole, 0);
        for (_, ns) in outcome.times.iter().filter(|(class, _)| *class == Class::Whole) {
            assert!(*ns <= budget_ns, "{ns} of {budget_ns} ns, {load}");
            incidents += 1;
        }
    }
    assert!(incidents > 10, "{incidents}");
}

/// Checks a flush that never ends and a second fault. All status requests after the flush together
/// may take as long as one flush. The flush is not begun again if no time is left.
#[test]
fn a_flush_that_never_ends_and_a_second_fault_end_in_the_budget_of_one_incident() {
    let busy = Shot { point: Point::Busy, nth: 7, strike: Strike::Never };
    let alone = run(&Case { luck: Luck::Shots(vec![busy]), ..workload(3) }, &mut Bench::new(), None);
    let interrupt = POINTS.iter().position(|known| *known == Point::Interrupt).unwrap();
    // The second fault strikes among the status requests, and after them.
    let questions = (alone.points[interrupt] / 2, alone.points[interrupt] - 8);
    for (point, nth) in [
        (Point::Command, 81),
        (Point::Command, 82),
        (Point::Command, 83),
        (Point::Interrupt, questions.0),
        (Point::Interrupt, questions.1),
    ] {
        let lost = Shot { point, nth, strike: Strike::Lost };
        let case = Case { luck: Luck::Shots(vec![busy, lost]), ..workload(3) };
        let outcome = run(&case, &mut Bench::new(), None);
        assert_eq!((outcome.struck.len(), outcome.violation.as_ref()), (2, None));
        let mut score = Score::default();
        judge_whole(&case, "busy_forever", &outcome, &mut score);
        let longest_ns = score.classes.values().map(|times| times.longest_ns).max();
        assert!(longest_ns >= Some(30_000_000_000), "{longest_ns:?}");
        assert_eq!((score.over_budget(), score.late), (0, vec![]), "{point:?} {nth}");
    }
}

/// Checks that a lost response to a status request costs only the time of one status request, and
/// not the time of the busy. In the past, three lost responses in a row made a read behind three
/// flushes wait for ninety seconds.
#[test]
fn a_lost_answer_to_a_question_costs_the_time_of_a_question_and_not_of_the_busy() {
    let mut bench = Bench::new();
    let mut questions = 0;
    for (index, load) in NAMES.iter().enumerate().skip(1) {
        let mut whole = workload(index);
        whole.setup.busy = BusyBy::Status;
        let clean = run(&whole, &mut bench, None);
        let point = Point::Interrupt;
        let place = POINTS.iter().position(|known| *known == point).unwrap();
        for nth in clean.before.1[place] + 1..=clean.points[place] {
            let lost = Shot { point, nth, strike: Strike::Lost };
            // The interrupt of a transfer itself is missed only at its deadline.
            let case = Case { luck: Luck::Shots(vec![lost]), ..whole.clone() };
            let outcome = run(&case, &mut bench, None);
            assert_eq!(outcome.violation, None, "{nth}, {load}");
            let longer_ns = outcome.work_ns.saturating_sub(clean.work_ns);
            // An access to another partition has a second for its data. A CMD12 after a write to an
            // SD card has the three seconds in which the card may program. Both have the slack of a
            // deadline.
            assert!(longer_ns < 3_100_000_000, "{longer_ns} ns, {nth}, {load}");
            questions += 1;
        }
    }
    assert!(questions > 100, "{questions}");
}

/// Checks that the stack takes the controller for hung, although only its reset failed.
#[test]
fn a_reset_that_hangs_in_the_recovery_from_a_busy_that_never_ends() {
    let busy = Shot { point: Point::Busy, nth: 2, strike: Strike::Never };
    let mut bench = Bench::new();
    let mut dead = 0;
    for (index, name) in NAMES.iter().enumerate().skip(1) {
        for nth in 1..=4 {
            let reset = Shot { point: Point::Reset, nth, strike: Strike::Never };
            let case = Case { luck: Luck::Shots(vec![busy, reset]), ..workload(index) };
            let outcome = run(&case, &mut bench, None);
            assert_eq!(outcome.violation, None, "{nth}, {name}");
            dead += u64::from(outcome.times.iter().any(|(class, _)| *class == Class::Dead));
        }
    }
    assert!(dead > 0);
}

#[test]
fn second_faults_lie_between_the_first_and_the_end_of_its_recovery() {
    let (whole, mut bench) = (workload(1), Bench::new());
    let clean = run(&whole, &mut bench, None);
    let nth = first(&clean, &whole, Point::ReadBlock);
    let shot = Shot { point: Point::ReadBlock, nth, strike: Strike::Crc };
    let case = Case { luck: Luck::Shots(vec![shot]), dry: true, ..whole.clone() };
    let marks = run(&case, &mut bench, None).marks;
    let all = seconds(shot, &marks, u64::MAX);
    let blocks: Vec<u64> = all.iter().filter(|s| s.point == Point::ReadBlock).map(|s| s.nth).collect();
    assert_eq!(blocks.first(), Some(&(nth + 1)));
    // The status requests, and the repeated read.
    assert!(all.iter().filter(|s| s.point == Point::Command).count() >= 2 && blocks.len() >= 8);
    for second in all {
        let case = Case { luck: Luck::Shots(vec![shot, second]), ..whole.clone() };
        let outcome = run(&case, &mut bench, None);
        assert_eq!((outcome.struck.len(), outcome.violation), (2, None), "{second:?}");
    }
}

//! Tests of the recovery times.

use mmcq::engine::RecoveryStep;
use mmcq_torture::stopwatch::{Class, Stopwatch};

const MS: u64 = 1_000_000;

#[test]
fn steps_and_incidents_are_timed_until_the_next_step_or_answer() {
    let (mut watch, mut times) = (Stopwatch::default(), Vec::new());
    assert!(!watch.answered(0, 5, &mut times));
    watch.climbed(10, RecoveryStep::Classify, &mut times);
    watch.climbed(12, RecoveryStep::Status, &mut times);
    watch.climbed(13, RecoveryStep::Retry, &mut times);
    assert!(watch.answered(0, 20, &mut times));
    assert_eq!(std::mem::take(&mut times), [(Class::Whole, 10), (Class::Again, 10)]);
    watch.climbed(30, RecoveryStep::Classify, &mut times);
    watch.climbed(31, RecoveryStep::Retune, &mut times);
    watch.climbed(40, RecoveryStep::Slower, &mut times);
    watch.climbed(60, RecoveryStep::Dead, &mut times);
    assert!(watch.answered(0, 61, &mut times));
    let steps = [(Class::RetuneInVain, 9), (Class::Slower, 20), (Class::Dead, 1), (Class::Whole, 31)];
    assert_eq!(std::mem::take(&mut times), steps);
    assert!(!watch.answered(70, 72, &mut times));
    assert_eq!(times, [(Class::Dead, 2)]);
}

#[test]
fn every_class_has_a_name_and_a_budget() {
    let mut names: Vec<String> = Class::ALL.iter().map(ToString::to_string).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), Class::COUNT);
    assert!(Class::ALL.iter().all(|class| (1..=12_000 * MS).contains(&class.budget_ns())));
}

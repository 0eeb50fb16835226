extern crate std;

use super::*;
use std::vec::Vec;

/// Returns a queue that may have `depth` tasks and that is switched on.
fn queue(depth: u8) -> Tasks {
    let mut tasks = Tasks::NEW;
    assert!(tasks.configure(depth));
    tasks.enter_on();
    tasks
}

fn announce(tasks: &mut Tasks, direction: Direction, start: u64, slot: u8, now_ns: u64) -> u8 {
    let id = tasks.describe(direction, start, start + 8, &[slot], now_ns);
    tasks.announced(now_ns);
    id
}

#[test]
fn a_queue_of_one_task_is_none() {
    let mut tasks = Tasks::NEW;
    assert!(!tasks.configure(0) && !tasks.configure(1) && !tasks.is_armed());
    assert!(tasks.configure(2) && tasks.is_armed());
}

#[test]
fn no_more_are_announced_than_the_card_holds_and_than_pay() {
    for (depth, most) in [(4, 4), (32, ANNOUNCED_MAX), (200, ANNOUNCED_MAX)] {
        let mut tasks = queue(depth);
        let mut count = 0;
        while tasks.has_room(0) {
            announce(&mut tasks, Direction::Read, u64::from(count) * 8, count, 0);
            count += 1;
        }
        assert_eq!(count, most);
        // A task that is executed keeps its number until it ends.
        tasks.apply_ready_bits(1, 0).unwrap();
        assert_eq!(tasks.execute(), Some(0));
        assert!(!tasks.has_room(0));
        tasks.clear_running(0);
        assert!(tasks.has_room(0));
    }
}

/// Tests a guaranteed bound: once a task has waited for `AGE_NS`, no other is announced.
#[test]
fn a_task_that_starves_ends_the_announcing_of_others() {
    let mut tasks = queue(32);
    let starved = announce(&mut tasks, Direction::Read, 0, 0, 1_000);
    let (mut now_ns, mut passed) = (1_000, 0);
    while tasks.has_room(now_ns) {
        let id = announce(&mut tasks, Direction::Read, 800, 1, now_ns);
        tasks.apply_ready_bits(1 << id, now_ns).unwrap();
        assert_eq!(tasks.execute(), Some(id));
        now_ns += 100_000;
        tasks.clear_running(now_ns);
        passed += 1;
    }
    assert_eq!(passed, AGE_NS / 100_000);
    tasks.apply_ready_bits(1 << starved, now_ns).unwrap();
    assert_eq!(tasks.execute(), Some(starved));
    assert!(tasks.has_room(now_ns));
}

#[test]
fn writes_meet_what_is_announced_or_executed_and_reads_only_writes() {
    let mut tasks = queue(8);
    announce(&mut tasks, Direction::Read, 0, 0, 0);
    let write = announce(&mut tasks, Direction::Write, 100, 1, 0);
    assert!(!tasks.meets(Direction::Read, 0, 8) && tasks.meets(Direction::Write, 7, 9));
    assert!(!tasks.meets(Direction::Write, 8, 100));
    assert!(tasks.meets(Direction::Read, 107, 108));
    tasks.apply_ready_bits(1 << write, 0).unwrap();
    assert_eq!(tasks.execute(), Some(write));
    assert!(tasks.meets(Direction::Read, 107, 108), "it is executed still");
    tasks.clear_running(0);
    assert!(!tasks.meets(Direction::Read, 107, 108));
}

#[test]
fn what_was_announced_first_is_executed_first() {
    let mut tasks = queue(8);
    let ids: Vec<_> = (0..4)
        .map(|n| announce(&mut tasks, Direction::Read, u64::from(n) * 8, n, 10 * u64::from(n)))
        .collect();
    tasks.apply_ready_bits(0b1110, 100).unwrap();
    assert_eq!(tasks.execute(), Some(ids[1]));
    tasks.clear_running(100);
    // The number of the executed task is free again; the next task that gets it is the youngest.
    assert_eq!(announce(&mut tasks, Direction::Read, 800, 4, 200), ids[1]);
    tasks.apply_ready_bits(0b1110, 300).unwrap();
    assert_eq!([tasks.execute(), tasks.execute(), tasks.execute()], [Some(2), Some(3), Some(1)]);
}

#[test]
fn a_card_that_contradicts_itself_is_not_believed() {
    let mut tasks = queue(8);
    let id = announce(&mut tasks, Direction::Read, 0, 0, 0);
    assert_eq!(tasks.apply_ready_bits(0x900, 0), Err(Demotion::Unknown(0x900)));
    tasks.apply_ready_bits(1 << id, 0).unwrap();
    assert_eq!(tasks.apply_ready_bits(0, 0), Err(Demotion::Fell(1)));
}

#[test]
fn all_requests_of_what_was_not_executed_come_back() {
    let mut tasks = queue(8);
    let merged = tasks.describe(Direction::Read, 0, 24, &[5, 3, 9], 0);
    tasks.announced(0);
    assert_eq!(tasks.members(merged).collect::<Vec<_>>(), [5, 3, 9]);
    let gone = announce(&mut tasks, Direction::Read, 80, 1, 0);
    tasks.describe(Direction::Write, 160, 168, &[2], 0);
    tasks.apply_ready_bits(1 << gone, 0).unwrap();
    assert_eq!(tasks.execute(), Some(gone));
    assert!(tasks.has(9) && tasks.has(2) && !tasks.has(1));
    assert_eq!(tasks.fall_back(), 1 << 5 | 1 << 3 | 1 << 9 | 1 << 2);
    assert!(tasks.is_empty() && tasks.mode() == Mode::Lost);
    let tries: Vec<_> = (0..4).map(|_| tasks.count_cleaning()).collect();
    assert_eq!(tries, [Some(true), Some(false), Some(true), None]);
}

#[test]
fn the_queue_is_for_several_reads() {
    let mut tasks = Tasks::NEW;
    tasks.configure(32);
    let looks =
        [(2, 0), (1, 0), (2, 3), (3, 3), (2, 0)].map(|(reads, writes)| tasks.would_pay(reads, writes));
    assert_eq!(looks, [false, false, false, false, true], "twice in a row");
    let mut tasks = queue(32);
    for n in 0..DULL_MAX {
        assert!(!tasks.is_dull());
        let id = announce(&mut tasks, Direction::Write, u64::from(n) * 8, n, 0);
        tasks.apply_ready_bits(1 << id, 0).unwrap();
        tasks.execute();
        tasks.clear_running(0);
    }
    assert!(tasks.is_dull());
    let id = announce(&mut tasks, Direction::Read, 800, 1, 0);
    tasks.apply_ready_bits(1 << id, 0).unwrap();
    tasks.execute();
    assert!(!tasks.is_dull());
}

#[test]
fn failures_count_by_their_rate() {
    let seconds = |n: u64| n * 1_000_000_000;
    let mut tasks = queue(8);
    assert!(!tasks.note_failure(0) && !tasks.note_failure(seconds(11)) && tasks.note_failure(seconds(20)));
    let mut tasks = queue(8);
    let fails: Vec<_> = (0..6).map(|n| tasks.note_failure(seconds(100 + 110 * n))).collect();
    assert_eq!(fails, [false, false, false, false, true, true]);
    let mut tasks = queue(8);
    assert!((0..20).all(|n| !tasks.note_failure(seconds(160 * n))));
}

#[test]
fn questions_come_as_often_as_tasks_become_ready() {
    let mut tasks = queue(32);
    for n in 0..16 {
        announce(&mut tasks, Direction::Read, u64::from(n) * 8, n, 0);
    }
    let mut now_ns = 0;
    let mut ready = 0;
    for n in 0..16u32 {
        let asked_ns = tasks.ask_ns();
        assert!((5_000..=200_000).contains(&(asked_ns - now_ns)), "{n}: {asked_ns} after {now_ns}");
        now_ns = asked_ns;
        ready |= 1 << n;
        tasks.apply_ready_bits(ready, now_ns).unwrap();
    }
}

//! Tests of what a flush covers, and of who may report which loss.

use super::*;

/// Returns a checker with an open transfer, in which a write was complete when the card lost its
/// supply.
fn open() -> (Checker, Ticket) {
    let mut judge = judge(false);
    let write = written(&mut judge, 3);
    judge.supply_lost_open();
    (judge, write)
}

fn torn(ticket: Ticket, lba: u64) -> Vec<u8> {
    [&bytes(ticket, lba)[..128], &untouched(lba)[128..]].concat()
}

/// Checks a write that was submitted before the flush and is answered after the flush, or while the
/// flush is under way.
#[test]
fn a_flush_covers_the_writes_that_were_submitted_before_it() {
    for answered_first in [true, false] {
        let mut judge = judge(false);
        let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
        let flush = judge.submit(Asked::Flush, 0, 0, 0);
        let [first, second] = if answered_first { [write, flush] } else { [flush, write] };
        judge.answered(first, Answer::Done, &[]).unwrap();
        judge.answered(second, Answer::Done, &[]).unwrap();
        assert_eq!(cut(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    }
    // A write that fails then may be there or not.
    let mut judge = judge(false);
    let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    flush(&mut judge, Answer::Done).unwrap();
    judge.answered(write, Answer::Failed(0), &[]).unwrap();
    assert_eq!(cut(&mut judge, 3, &untouched(3)), Ok(()));
}

#[test]
fn a_flush_after_a_loss_in_an_open_transfer_confirms_the_writes_or_reports_them() {
    let (mut judge, write) = open();
    flush(&mut judge, Answer::Done).unwrap();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    let (mut judge, _) = open();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Err(Fault::Untrue));
    let (mut judge, write) = open();
    flush(&mut judge, Answer::CacheLost).unwrap();
    flush(&mut judge, Answer::Done).unwrap();
    assert_eq!(read(&mut judge, 3, &torn(write, 3)), Ok(()));
    // When the host loses its power too, no stack is left that could report a loss.
    let (mut judge, write) = open();
    judge.power_lost_open();
    assert_eq!(cut(&mut judge, 3, &torn(write, 3)), Ok(()));
}

#[test]
fn a_write_that_failed_late_and_is_not_there_must_be_reported() {
    let mut judge = judge(false);
    written(&mut judge, 3);
    judge.doubt_writes();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Err(Fault::Untrue));
    flush(&mut judge, Answer::Failed(0)).unwrap();
    flush(&mut judge, Answer::Done).unwrap();
}

#[test]
fn only_a_loss_of_power_tears_a_sector() {
    let mut judge = judge(false);
    let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    judge.answered(write, Answer::Failed(0), &[]).unwrap();
    assert_eq!(read(&mut judge, 3, &torn(write, 3)), Err(Fault::Torn));
    judge.supply_lost();
    assert_eq!(read(&mut judge, 3, &torn(write, 3)), Ok(()));
}

#[test]
fn only_some_requests_report_a_lost_cache() {
    let (mut judge, _) = open();
    for asked in [Asked::Read, Asked::Write { durable: false }] {
        let ticket = judge.submit(asked, 9, 1, 0);
        assert_eq!(judge.answered(ticket, Answer::CacheLost, &[]).unwrap_err().fault, Fault::Untrue);
    }
    let mut judge = super::judge(false);
    let erase = judge.submit(Asked::Erase, 9, 1, 0);
    let other = judge.submit(Asked::Erase, 9, 1, 0);
    assert_eq!(judge.answered(erase, Answer::CacheLost, &[]).unwrap_err().fault, Fault::Untrue);
    judge.note_reset();
    judge.answered(other, Answer::CacheLost, &[]).unwrap();
}

//! Tests of content that does not change any more after a read, a flush or a power cut has shown
//! it.

use super::*;

fn failed(judge: &mut Checker, lba: u64) -> Ticket {
    let ticket = judge.submit(Asked::Write { durable: false }, lba, 1, 0);
    judge.answered(ticket, Answer::Failed(0), &[]).unwrap();
    ticket
}

fn done(judge: &mut Checker, asked: Asked) -> Ticket {
    let ticket = judge.submit(asked, 3, 1, 0);
    judge.answered(ticket, Answer::Done, &[]).unwrap();
    ticket
}

fn reads(judge: &mut Checker, contents: &[&[u8]]) -> Vec<Result<(), Fault>> {
    contents.iter().map(|content| read(judge, 3, content)).collect()
}

const LOST: Result<(), Fault> = Err(Fault::Lost);

#[test]
fn a_failed_write_is_there_or_not_from_the_first_read_on() {
    for write_through in [false, true] {
        let mut judge = judge(write_through);
        let old = written(&mut judge, 3);
        let new = failed(&mut judge, 3);
        let (old, new) = (bytes(old, 3), bytes(new, 3));
        assert_eq!(reads(&mut judge, &[&old, &new, &old, &new]), [Ok(()), LOST, Ok(()), LOST]);
        let new = failed(&mut judge, 3);
        let new = bytes(new, 3);
        assert_eq!(reads(&mut judge, &[&new, &old, &new]), [Ok(()), LOST, Ok(())]);
        // The next failed write may again be on the card or not.
        let next = failed(&mut judge, 3);
        assert_eq!(reads(&mut judge, &[&bytes(next, 3), &new]), [Ok(()), LOST]);
    }
}

/// Checks that a failed write which a read has shown may be gone after a reset: a card may read
/// from its buffer what it has not written.
#[test]
fn a_failed_write_that_was_seen_may_be_gone_after_a_reset() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    let new = failed(&mut judge, 3);
    let (old, new) = (bytes(old, 3), bytes(new, 3));
    assert_eq!(read(&mut judge, 3, &new), Ok(()));
    judge.note_reset();
    assert_eq!(reads(&mut judge, &[&old, &new]), [Ok(()), LOST]);
    // A read that was under way at the reset may have seen the write before it.
    let late = failed(&mut judge, 3);
    let look = judge.submit(Asked::Read, 3, 1, 0);
    judge.note_reset();
    assert_eq!(judge.answered(look, Answer::Done, &bytes(late, 3)).map_err(|wrong| wrong.fault), Ok(()));
    assert_eq!(read(&mut judge, 3, &old), Ok(()));
    // Content that a flush has made durable stays after a reset.
    let next = failed(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &bytes(next, 3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    judge.note_reset();
    assert_eq!(reads(&mut judge, &[&old, &bytes(next, 3)]), [LOST, Ok(())]);
}

/// Checks that a write which a read has shown before its answer may be gone after a loss, whether
/// transfers stay open or not.
#[test]
fn a_write_that_was_seen_before_its_answer_may_be_gone_after_a_loss() {
    for lose in [Checker::supply_lost_open, Checker::supply_lost, Checker::cache_gave_up] {
        let mut judge = judge(false);
        let old = done(&mut judge, Asked::Write { durable: true });
        let new = judge.submit(Asked::Write { durable: true }, 3, 1, 0);
        assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
        assert_eq!(read(&mut judge, 3, &bytes(old, 3)), LOST);
        lose(&mut judge);
        judge.answered(new, Answer::Failed(0), &[]).unwrap();
        assert_eq!(reads(&mut judge, &[&bytes(old, 3), &bytes(new, 3)]), [Ok(()), LOST]);
    }
}

#[test]
fn a_failed_write_does_not_come_after_a_flush() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    let new = failed(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &bytes(old, 3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), LOST);
    assert_eq!(judge_after(&mut judge, 3, &bytes(new, 3)), Some(Fault::Lost));
}

/// Checks that content which a read finds after a flush is on the medium, although the flush itself
/// shows nothing.
#[test]
fn what_failed_before_a_flush_is_durable_once_it_is_seen() {
    let flushed = || {
        let mut judge = judge(false);
        let old = written(&mut judge, 3);
        let new = failed(&mut judge, 3);
        assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
        (judge, bytes(old, 3), bytes(new, 3))
    };
    let (mut judge, old, new) = flushed();
    assert_eq!(reads(&mut judge, &[&new, &old]), [Ok(()), LOST]);
    assert_eq!(cut(&mut judge, 3, &old), LOST);
    let (mut judge, old, new) = flushed();
    assert_eq!(reads(&mut judge, &[&old, &new]), [Ok(()), LOST]);
    assert_eq!(cut(&mut judge, 3, &old), Ok(()));
    // Without a read, both the old and the new content are allowed.
    let (mut judge, old, new) = flushed();
    assert_eq!((judge.check_survival(3, &old), judge.check_survival(3, &new)), (Ok(()), Ok(())));
}

/// Checks that, with a cache, a cut may lose a failed write that a read has returned, like any
/// other write that is not flushed.
#[test]
fn a_cut_may_take_a_failed_write_that_only_reads_have_seen() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    let new = failed(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
    assert_eq!(judge.check_survival(3, &bytes(old, 3)), Ok(()));
    // The sector must be whole, not torn.
    let torn = [&bytes(new, 3)[..128], &bytes(old, 3)[128..]].concat();
    assert_eq!(judge_after(&mut judge, 3, &torn), Some(Fault::Torn));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(cut(&mut judge, 3, &bytes(old, 3)), LOST);
}

#[test]
fn a_loss_of_the_supply_may_take_what_failed_and_was_seen_without_a_word() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    let new = failed(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
    judge.supply_lost();
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(reads(&mut judge, &[&bytes(old, 3), &bytes(new, 3)]), [Ok(()), LOST]);
}

#[test]
fn what_a_read_saw_while_the_write_was_under_way_is_not_taken_back_by_its_failure() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    let new = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(old, 3)), LOST);
    judge.answered(new, Answer::Failed(0), &[]).unwrap();
    assert_eq!(read(&mut judge, 3, &bytes(old, 3)), LOST);
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
    // The other case: a read has returned the old content, so the failed write is never seen.
    let next = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    assert_eq!(read(&mut judge, 3, &bytes(new, 3)), Ok(()));
    judge.answered(next, Answer::Failed(0), &[]).unwrap();
    assert_eq!(read(&mut judge, 3, &bytes(next, 3)), LOST);
}

#[test]
fn an_abandoned_write_does_not_come_after_a_read_that_did_not_see_it() {
    for write_through in [false, true] {
        let mut judge = judge(write_through);
        let old = written(&mut judge, 3);
        let left = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
        judge.abandon(left);
        for _ in 0..3 {
            assert_eq!(read(&mut judge, 3, &bytes(old, 3)), Ok(()));
            assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
        }
        assert_eq!(read(&mut judge, 3, &bytes(left, 3)), LOST);
        // A write that a read has shown is not lost again.
        let left = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
        judge.abandon(left);
        assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
        assert_eq!(reads(&mut judge, &[&bytes(left, 3), &bytes(old, 3)]), [Ok(()), LOST]);
    }
}

#[test]
fn a_discarded_sector_is_erased_once_and_stays_so() {
    for erased in [[0; 512], [0xff; 512]] {
        let mut judge = judge(true);
        let old = written(&mut judge, 3);
        done(&mut judge, Asked::Discard);
        let old = bytes(old, 3);
        // The card may erase later. But content that was erased does not come back, and the erased
        // value stays the same.
        let other = [!erased[0]; 512];
        let seen = reads(&mut judge, &[&old, &old, &erased, &old, &other, &erased]);
        assert_eq!(seen, [Ok(()), Ok(()), Ok(()), LOST, LOST, Ok(())]);
        assert_eq!(cut(&mut judge, 3, &old), LOST);
    }
}

#[test]
fn an_erased_sector_keeps_its_value() {
    for erased in [[0; 512], [0xff; 512]] {
        let mut judge = judge(true);
        done(&mut judge, Asked::Erase);
        let other = [!erased[0]; 512];
        assert_eq!(reads(&mut judge, &[&erased, &other, &erased]), [Ok(()), LOST, Ok(())]);
        assert_eq!(cut(&mut judge, 3, &other), LOST);
        // The content after a power cut counts like a read.
        done(&mut judge, Asked::Erase);
        assert_eq!(cut(&mut judge, 3, &other), Ok(()));
        assert_eq!(reads(&mut judge, &[&erased, &other]), [LOST, Ok(())]);
    }
}

/// Checks that an erase is as safe as a write: a cut may undo it before a flush, and not after it.
#[test]
fn an_erase_is_undone_by_a_cut_only_before_the_flush() {
    let mut judge = judge(false);
    let old = written(&mut judge, 3);
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    done(&mut judge, Asked::Erase);
    assert_eq!(read(&mut judge, 3, &[0; 512]), Ok(()));
    assert_eq!(judge.check_survival(3, &bytes(old, 3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(cut(&mut judge, 3, &bytes(old, 3)), LOST);
}

#[test]
fn a_torn_sector_holds_what_it_was_seen_to_hold() {
    let torn_by_a_cut = |unreadable: bool| {
        let mut judge = judge(false);
        let first = written(&mut judge, 3);
        assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
        let old = written(&mut judge, 3);
        assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
        let new = failed(&mut judge, 3);
        let torn = [&bytes(new, 3)[..128], &bytes(old, 3)[128..]].concat();
        judge.cut(|_| {});
        match unreadable {
            true => judge.unreadable(3).unwrap(),
            false => judge.survived(3, &torn).unwrap(),
        }
        let mut never = vec![0; 512];
        CONTENT().write(3, 4_000_000, &mut never);
        (judge, torn, [bytes(old, 3), bytes(new, 3)], [bytes(first, 3), never, untouched(3), vec![0; 512]])
    };
    // The pieces that a power cut has shown stay.
    let (mut judge, torn, versions, others) = torn_by_a_cut(false);
    for wrong in versions.iter().chain(&others) {
        assert!(read(&mut judge, 3, wrong).is_err());
    }
    let other = [&torn[..96], &versions[0][96..]].concat();
    assert_eq!(reads(&mut judge, &[&torn, &other]), [Ok(()), Err(Fault::Torn)]);
    // A sector that could not be read may later have the old content, the new content or pieces of
    // both; this content then stays.
    let (mut judge, _, _, others) = torn_by_a_cut(true);
    let ticket = judge.submit(Asked::Read, 3, 1, 0);
    assert!(judge.may_fail(ticket));
    judge.answered(ticket, Answer::Failed(0), &[]).unwrap();
    for wrong in &others {
        assert!(read(&mut judge, 3, wrong).is_err());
    }
    let (mut judge, torn, [old, new], _) = torn_by_a_cut(true);
    assert_eq!(reads(&mut judge, &[&new, &old, &torn]), [Ok(()), LOST, Err(Fault::Torn)]);
    let (mut judge, torn, [old, new], _) = torn_by_a_cut(true);
    assert_eq!(reads(&mut judge, &[&torn, &old, &new, &torn]), [Ok(()), LOST, LOST, Ok(())]);
    assert_eq!(cut(&mut judge, 3, &torn), Ok(()));
}

#[test]
fn pieces_come_from_versions_that_were_asked_for() {
    let mut judge = judge(false);
    let older = written(&mut judge, 3);
    let old = written(&mut judge, 3);
    let new = failed(&mut judge, 3);
    let mut never = vec![0; 512];
    CONTENT().write(3, 4_000_000, &mut never);
    let torn = |first: &[u8], second: &[u8]| [&first[..128], &second[128..]].concat();
    let (older, old, new) = (bytes(older, 3), bytes(old, 3), bytes(new, 3));
    assert_eq!(judge_after(&mut judge, 3, &torn(&new, &never)), Some(Fault::Torn));
    assert_eq!(judge.check_survival(3, &torn(&new, &older)), Ok(()));
    judge.supply_lost();
    for wrong in [torn(&new, &never), torn(&new, &[0; 512])] {
        assert_eq!(read(&mut judge, 3, &wrong), Err(Fault::Torn));
    }
    assert_eq!(reads(&mut judge, &[&torn(&new, &old), &old, &new]), [Ok(()), LOST, LOST]);
}

#[test]
fn an_error_has_a_cause() {
    let mut judge = judge(true);
    written(&mut judge, 3);
    let may_fail = |judge: &mut Checker, answer| {
        let ticket = judge.submit(Asked::Read, 3, 1, 0);
        let content = bytes(Ticket { slot: 0, number: 1 }, 3);
        let may = judge.may_fail(ticket);
        judge.answered(ticket, answer, &content).unwrap();
        may
    };
    assert!(!may_fail(&mut judge, Answer::Failed(0)));
    judge.trouble();
    assert!(may_fail(&mut judge, Answer::Failed(0)) && may_fail(&mut judge, Answer::Failed(0)));
    // A request that was under way at the fault may still fail because of it; requests after it may
    // not.
    let under_way = judge.submit(Asked::Read, 4, 1, 0);
    assert!(may_fail(&mut judge, Answer::Done));
    assert!(judge.may_fail(under_way) && !may_fail(&mut judge, Answer::Failed(0)));
    judge.answered(under_way, Answer::Failed(0), &[]).unwrap();
    // The success of a request that was submitted before the fault proves nothing.
    let before = judge.submit(Asked::Read, 4, 1, 0);
    judge.trouble();
    judge.answered(before, Answer::Done, &untouched(4)).unwrap();
    assert!(may_fail(&mut judge, Answer::Failed(0)));
    // A flush may report the fault later, until a flush has succeeded.
    assert!(may_fail(&mut judge, Answer::Done) && !may_fail(&mut judge, Answer::Done));
    for (may, answer) in [(true, Answer::Failed(0)), (true, Answer::Done), (false, Answer::Done)] {
        let flush = judge.submit(Asked::Flush, 0, 0, 0);
        assert_eq!(judge.may_fail(flush), may);
        judge.answered(flush, answer, &[]).unwrap();
    }
}

#[test]
fn only_what_a_request_named_is_changed() {
    let mut judge = judge(true);
    written(&mut judge, 3);
    assert_eq!(read(&mut judge, 4, &untouched(4)), Ok(()));
    let fault = |result: Result<(), Violation>| result.map_err(|violation| violation.fault);
    assert_eq!(fault(judge.touched(0, 3)), Ok(()));
    for (partition, lba) in [(0, 4), (0, 3 + 2048), (1, 3), (4, 3)] {
        assert_eq!(fault(judge.touched(partition, lba)), Err(Fault::Misdirected), "{partition}, {lba}");
    }
}

#[test]
fn what_a_card_gave_up_in_a_flush_is_told_by_an_error_of_that_flush_or_the_next() {
    let gave_up = || {
        let mut judge = judge(false);
        let write = written(&mut judge, 3);
        judge.cache_gave_up();
        (judge, write)
    };
    // The flush that the card failed reports the loss: the next flush confirms nothing from before
    // it.
    let (mut judge, _) = gave_up();
    assert_eq!(flush(&mut judge, Answer::Failed(0)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    // A stack that hides the loss is found when the next flush reports nothing.
    let (mut judge, _) = gave_up();
    assert_eq!(flush(&mut judge, Answer::Done), Err(Fault::Untrue));
    // A durable write between the two flushes succeeds, and changes nothing about the report.
    let (mut judge, _) = gave_up();
    let durable = judge.submit(Asked::Write { durable: true }, 9, 1, 0);
    assert_eq!(judge.answered(durable, Answer::Done, &[]), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Err(Fault::Untrue));
    // The answer `CacheLost` reports the loss too.
    let (mut judge, _) = gave_up();
    assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    // The response that reported the loss was itself lost: the repeated flush succeeds.
    let (mut judge, _) = gave_up();
    judge.failure_unheard();
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    let later = written(&mut judge, 3);
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost), "what came after is owed");
    assert_eq!(read(&mut judge, 3, &bytes(later, 3)), Ok(()));
    // A durable write, whose own flush failed in this way, also succeeds.
    let mut judge = super::judge(false);
    let durable = judge.submit(Asked::Write { durable: true }, 3, 1, 0);
    judge.cache_gave_up();
    judge.failure_unheard();
    judge.answered(durable, Answer::Done, &[]).unwrap();
    assert_eq!(judge_after(&mut judge, 3, &untouched(3)), None);
    // An erase that the card dropped does not take effect by the next flush.
    let mut erased = super::judge(false);
    let erase = erased.submit(Asked::Erase, 3, 1, 0);
    erased.answered(erase, Answer::Done, &[]).unwrap();
    erased.cache_gave_up();
    assert_eq!(flush(&mut erased, Answer::Failed(0)), Ok(()));
    assert_eq!(flush(&mut erased, Answer::Done), Ok(()));
    assert_eq!(read(&mut erased, 3, &untouched(3)), Ok(()));
    // If nothing was lost, an error reports nothing, and complete writes must be found as before.
    let mut clean = super::judge(false);
    clean.cache_gave_up();
    let write = written(&mut clean, 3);
    assert_eq!(flush(&mut clean, Answer::Failed(0)), Ok(()));
    assert_eq!(flush(&mut clean, Answer::Done), Ok(()));
    assert_eq!(read(&mut clean, 3, &untouched(3)), Err(Fault::Lost));
    assert_eq!(read(&mut clean, 3, &bytes(write, 3)), Ok(()));
}

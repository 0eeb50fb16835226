//! Tests of every promise: one case keeps the promise, another one breaks it.

mod settled;
mod strict;

use super::*;
use crate::card::Fill;

const CONTENT: fn() -> Content = || Content::new(1, 1, Fill::Pattern(5));

fn judge(write_through: bool) -> Checker {
    Checker::new(Promise { content: CONTENT(), write_through })
}

fn bytes(ticket: Ticket, lba: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR_BYTES];
    CONTENT().write(lba, ticket.version(), &mut bytes);
    bytes
}

fn untouched(lba: u64) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR_BYTES];
    Fill::Pattern(5).generate(lba * 512, &mut bytes);
    bytes
}

fn written(judge: &mut Checker, lba: u64) -> Ticket {
    let ticket = judge.submit(Asked::Write { durable: false }, lba, 1, 0);
    judge.answered(ticket, Answer::Done, &[]).unwrap();
    ticket
}

fn read(judge: &mut Checker, lba: u64, data: &[u8]) -> Result<(), Fault> {
    let ticket = judge.submit(Asked::Read, lba, 1, 0);
    judge.answered(ticket, Answer::Done, data).map_err(|violation| violation.fault)
}

fn cut(judge: &mut Checker, lba: u64, data: &[u8]) -> Result<(), Fault> {
    let mut touched = Vec::new();
    judge.cut(|lba| touched.push(lba));
    judge.survived(lba, data).map_err(|violation| violation.fault)
}

#[test]
fn a_read_brings_the_last_write_before_it() {
    let mut judge = judge(false);
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    let first = written(&mut judge, 3);
    let second = written(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &bytes(second, 3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(first, 3)), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 4, &bytes(second, 3)), Err(Fault::Misdirected));
    let mut torn = bytes(second, 3);
    torn[256..].copy_from_slice(&bytes(first, 3)[256..]);
    assert_eq!(read(&mut judge, 3, &torn), Err(Fault::Torn));
}

#[test]
fn requests_on_one_sector_keep_their_order() {
    let mut judge = judge(false);
    let early = judge.submit(Asked::Read, 3, 1, 0);
    let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    let late = judge.submit(Asked::Read, 3, 1, 0);
    let violation = judge.answered(early, Answer::Done, &bytes(write, 3)).unwrap_err();
    assert_eq!(violation.fault, Fault::Misordered);
    // The later read returns the old content, which only a failure of the write can excuse.
    judge.answered(late, Answer::Done, &untouched(3)).unwrap();
    assert_eq!(judge.answered(write, Answer::Done, &[]).unwrap_err().fault, Fault::Misordered);

    let write = judge.submit(Asked::Write { durable: false }, 4, 1, 0);
    let late = judge.submit(Asked::Read, 4, 1, 0);
    judge.answered(late, Answer::Done, &untouched(4)).unwrap();
    judge.answered(write, Answer::Failed(0), &[]).unwrap();
}

#[test]
fn a_flush_makes_durable_what_was_complete_when_it_was_asked_for() {
    let mut judge = judge(false);
    let first = written(&mut judge, 3);
    let flush = judge.submit(Asked::Flush, 0, 0, 0);
    let second = written(&mut judge, 3);
    judge.answered(flush, Answer::Done, &[]).unwrap();
    let mut copy = judge_after(&mut judge, 3, &untouched(3));
    assert_eq!(copy.take(), Some(Fault::Lost));
    assert_eq!(judge.check_survival(3, &bytes(first, 3)), Ok(()));
    assert_eq!(cut(&mut judge, 3, &bytes(second, 3)), Ok(()));
    // What a read has returned is the sector's content now.
    assert_eq!(read(&mut judge, 3, &bytes(first, 3)), Err(Fault::Lost));
}

fn judge_after(judge: &mut Checker, lba: u64, data: &[u8]) -> Option<Fault> {
    judge.check_survival(lba, data).err().map(|violation| violation.fault)
}

#[test]
fn durable_writes_and_cards_without_a_cache_lose_nothing() {
    let mut cached = judge(false);
    let write = cached.submit(Asked::Write { durable: true }, 3, 1, 0);
    assert_eq!(judge_after(&mut cached, 3, &untouched(3)), None);
    cached.answered(write, Answer::Done, &[]).unwrap();
    assert_eq!(judge_after(&mut cached, 3, &untouched(3)), Some(Fault::Lost));
    let mut through = judge(true);
    written(&mut through, 3);
    assert_eq!(cut(&mut through, 3, &untouched(3)), Err(Fault::Lost));
}

#[test]
fn only_a_write_under_way_or_failed_may_be_torn() {
    let torn = |ticket| [&bytes(ticket, 3)[..128], &untouched(3)[128..]].concat();
    let mut judge = judge(false);
    let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
    assert_eq!(judge_after(&mut judge, 3, &torn(write)), None);
    judge.answered(write, Answer::Failed(0), &[]).unwrap();
    assert_eq!(judge_after(&mut judge, 3, &torn(write)), None);
    // While the card has its power, a block is old or new.
    assert_eq!(read(&mut judge, 3, &torn(write)), Err(Fault::Torn));
    judge.supply_lost();
    assert_eq!(read(&mut judge, 3, &torn(write)), Ok(()));
    let good = written(&mut judge, 3);
    assert_eq!(read(&mut judge, 3, &torn(write)), Err(Fault::Torn));
    let flush = judge.submit(Asked::Flush, 0, 0, 0);
    judge.answered(flush, Answer::Done, &[]).unwrap();
    assert_eq!(cut(&mut judge, 3, &torn(good)), Err(Fault::Torn));
}

#[test]
fn of_a_failed_write_what_is_surely_done_is_there() {
    let mut judge = judge(false);
    let write = judge.submit(Asked::Write { durable: false }, 3, 4, 0);
    judge.answered(write, Answer::Failed(2), &[]).unwrap();
    assert_eq!(read(&mut judge, 4, &untouched(4)), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 4, &bytes(write, 4)), Ok(()));
    assert_eq!(read(&mut judge, 5, &untouched(5)), Ok(()));
    assert_eq!(read(&mut judge, 6, &bytes(write, 6)), Ok(()));
}

#[test]
fn a_lost_cache_is_told_once() {
    let mut judge = judge(false);
    let write = written(&mut judge, 3);
    judge.supply_lost();
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    let flush = |judge: &mut Checker, answer| {
        let ticket = judge.submit(Asked::Flush, 0, 0, 0);
        judge.answered(ticket, answer, &[]).map_err(|violation| violation.fault)
    };
    assert_eq!(flush(&mut judge, Answer::Done), Err(Fault::Untrue));
    assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(flush(&mut judge, Answer::CacheLost), Err(Fault::Untrue));
}

#[test]
fn discards_erases_and_zeros() {
    let mut judge = judge(true);
    let content = written(&mut judge, 3);
    let ask = |judge: &mut Checker, asked| {
        let ticket = judge.submit(asked, 3, 1, 0);
        judge.answered(ticket, Answer::Done, &[]).unwrap();
    };
    ask(&mut judge, Asked::Discard);
    assert_eq!(read(&mut judge, 3, &bytes(content, 3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &[0xff; 512]), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    ask(&mut judge, Asked::Erase);
    assert_eq!(read(&mut judge, 3, &bytes(content, 3)), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 3, &[0; 512]), Ok(()));
    ask(&mut judge, Asked::Zero);
    assert_eq!(read(&mut judge, 3, &[0xff; 512]), Err(Fault::Lost));
    assert_eq!(read(&mut judge, 3, &[0; 512]), Ok(()));
}

#[test]
fn an_answer_comes_once() {
    let mut judge = judge(false);
    let ticket = judge.submit(Asked::Flush, 0, 0, 7);
    assert_eq!((judge.under_way(), judge.oldest_ns()), (1, Some(7)));
    judge.answered(ticket, Answer::Done, &[]).unwrap();
    assert_eq!(judge.answered(ticket, Answer::Done, &[]).unwrap_err().fault, Fault::Twice);
    // A second answer is also found if another request uses the same entry.
    let other = judge.submit(Asked::Flush, 0, 0, 8);
    assert_eq!(judge.answered(ticket, Answer::Done, &[]).unwrap_err().fault, Fault::Twice);
    judge.answered(other, Answer::Done, &[]).unwrap();
}

#[test]
fn after_a_cut_no_client_waits() {
    let mut judge = judge(false);
    let write = judge.submit(Asked::Write { durable: false }, 3, 2, 0);
    let mut touched = Vec::new();
    judge.cut(|lba| touched.push(lba));
    assert_eq!(touched, [3, 4]);
    assert_eq!(judge.survived(3, &bytes(write, 3)), Ok(()));
    assert_eq!(judge.survived(4, &untouched(4)), Ok(()));
    assert_eq!((judge.under_way(), judge.dirty().len()), (0, 0));
    assert_eq!(judge.answered(write, Answer::Done, &[]).unwrap_err().fault, Fault::Twice);
    assert_eq!(read(&mut judge, 4, &bytes(write, 4)), Err(Fault::Lost));
}

/// Makes a checker with a complete write, after which the card lost its power.
fn lost_one() -> (Checker, Ticket) {
    let mut judge = judge(false);
    let write = written(&mut judge, 3);
    judge.supply_lost();
    (judge, write)
}

fn flush(judge: &mut Checker, answer: Answer) -> Result<(), Fault> {
    let ticket = judge.submit(Asked::Flush, 0, 0, 0);
    judge.answered(ticket, answer, &[]).map_err(|violation| violation.fault)
}

#[test]
fn what_a_read_saw_after_a_loss_stays() {
    let (mut judge, write) = lost_one();
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    // Data that a read has shown to be lost do not come back.
    let (mut judge, write) = lost_one();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Err(Fault::Lost));
    // The next loss may still take the data.
    let (mut judge, write) = lost_one();
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    judge.supply_lost();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    // A read that was under way at the loss proves nothing.
    let mut judge = judge_with_a_read_across_a_loss();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
}

fn judge_with_a_read_across_a_loss() -> Checker {
    let mut judge = judge(false);
    let write = written(&mut judge, 3);
    let across = judge.submit(Asked::Read, 3, 1, 0);
    judge.supply_lost();
    judge.answered(across, Answer::Done, &bytes(write, 3)).unwrap();
    judge
}

#[test]
fn a_write_under_way_at_a_loss_is_old_or_new_until_it_is_read() {
    let under_way = || {
        let mut judge = judge(false);
        let write = judge.submit(Asked::Write { durable: false }, 3, 1, 0);
        judge.supply_lost();
        judge.answered(write, Answer::Done, &[]).unwrap();
        (judge, write)
    };
    let (mut judge, write) = under_way();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Err(Fault::Lost));
    // The loss of a write under way need not be reported, but a later flush without an error
    // confirms the write.
    let (mut judge, _) = under_way();
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
}

#[test]
fn a_flush_that_saw_a_loss_and_ends_well_answers_for_all_before_it() {
    let across = || {
        let mut judge = judge(false);
        let write = written(&mut judge, 3);
        let flush = judge.submit(Asked::Flush, 0, 0, 0);
        judge.supply_lost();
        judge.answered(flush, Answer::Done, &[]).unwrap();
        (judge, write)
    };
    let (mut judge, _) = across();
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
    // If the write is really on the card, nothing has to be reported.
    let (mut judge, write) = across();
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
}

/// Checks a flush during which the card loses its power again. If a read has shown the first loss,
/// the success of this flush does not confirm the write that is lost, so the next one must report
/// the loss.
#[test]
fn a_loss_that_a_read_has_shown_is_told_despite_the_next_loss() {
    for lose in [Checker::supply_lost, Checker::supply_lost_open] {
        for shown in [false, true] {
            let mut judge = judge(false);
            let write = written(&mut judge, 3);
            lose(&mut judge);
            if shown {
                assert_eq!(read(&mut judge, 3, &untouched(3)), Ok(()));
            }
            let across = judge.submit(Asked::Flush, 0, 0, 0);
            judge.supply_lost();
            judge.answered(across, Answer::Done, &[]).unwrap();
            let expected = if shown { Err(Fault::Untrue) } else { Ok(()) };
            assert_eq!(flush(&mut judge, Answer::Done), expected);
            assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()));
            assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
            let content = if shown { untouched(3) } else { bytes(write, 3) };
            assert_eq!(read(&mut judge, 3, &content), Ok(()));
        }
    }
}

#[test]
fn a_reset_excuses_only_who_had_something_to_lose() {
    let mut judge = judge(false);
    judge.note_reset();
    assert_eq!(flush(&mut judge, Answer::CacheLost), Err(Fault::Untrue));
    let mut judge = self::judge(false);
    written(&mut judge, 3);
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    judge.supply_lost();
    assert_eq!(flush(&mut judge, Answer::CacheLost), Err(Fault::Untrue));
    // The card may have stored the write by itself, which the host cannot know.
    let mut judge = self::judge(false);
    written(&mut judge, 3);
    judge.note_reset();
    assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()));
    // The rule is the same for erased sectors.
    for asked in [Asked::Erase, Asked::Discard, Asked::Zero] {
        let mut judge = self::judge(false);
        let ticket = judge.submit(asked, 3, 1, 0);
        judge.answered(ticket, Answer::Done, &[]).unwrap();
        judge.note_reset();
        assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()), "{asked:?}");
    }
}

#[test]
fn an_erase_that_a_loss_took_is_the_next_flushs_word() {
    let erased = || {
        let mut judge = judge(false);
        let ticket = judge.submit(Asked::Erase, 3, 1, 0);
        judge.answered(ticket, Answer::Done, &[]).unwrap();
        judge.supply_lost();
        judge
    };
    assert_eq!(read(&mut erased(), 3, &untouched(3)), Ok(()));
    let mut judge = erased();
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
    assert_eq!(read(&mut judge, 3, &untouched(3)), Err(Fault::Lost));
}

#[test]
fn no_client_is_told_twice_of_the_same_loss() {
    let (mut judge, write) = lost_one();
    assert_eq!(flush(&mut judge, Answer::CacheLost), Ok(()));
    assert_eq!(read(&mut judge, 3, &bytes(write, 3)), Ok(()));
    judge.supply_lost();
    assert_eq!(flush(&mut judge, Answer::Done), Ok(()));
}

/// Checks that a report of a loss is false if it comes before the loss.
#[test]
fn a_message_that_comes_before_the_loss_is_not_true() {
    for durable in [false, true] {
        let told = |judge: &mut Checker| match durable {
            true => {
                let ticket = judge.submit(Asked::Write { durable }, 9, 1, 0);
                judge.answered(ticket, Answer::CacheLost, &[]).map_err(|violation| violation.fault)
            }
            false => flush(judge, Answer::CacheLost),
        };
        let mut judge = judge(false);
        written(&mut judge, 3);
        assert_eq!(told(&mut judge), Err(Fault::Untrue));
        judge.supply_lost();
        assert_eq!(told(&mut judge), Ok(()));
        assert_eq!(told(&mut judge), Err(Fault::Untrue), "of one loss");
    }
}

//! The smallest programs that have found a fault of the engine.

use super::card::Trouble;
use super::program::{Lane, Op, Program, Sched, What};
use super::shrink;
use mmcq::engine::{Erase, StaysOpen};
use mmcq::host::{BusyDetect, Cause};

fn submit(what: What, lba: u32, blocks: u32) -> Op {
    Op::Submit { what, lba, blocks, handle: 0, durable: false }
}

fn write(lba: u32, blocks: u32) -> (u32, Op) {
    (0, submit(What::Write, lba, blocks))
}

fn durable(lba: u32, blocks: u32) -> (u32, Op) {
    (0, Op::Submit { what: What::Write, lba, blocks, handle: 0, durable: true })
}

fn keeps(program: &Program) {
    assert!(shrink::shrunk(program).is_none(), "{}", shrink::told(program));
}

/// Tests a reliable write of the card's unit on a controller that takes fewer blocks: a piece of it
/// is no reliable write.
#[test]
fn a_piece_of_a_unit_is_no_reliable_write() {
    keeps(&Program { max_blocks: 2, reliable: 4, ops: vec![durable(8, 4)], ..Program::PLAIN });
}

/// Tests a reliable write in pieces whose CMD23 was lost for a while: the pieces without it are
/// flushed.
#[test]
fn pieces_that_were_not_reliable_are_flushed() {
    for shift in 0..12 {
        let plan = [
            (5, Trouble::AnswerLost(Cause::Crc)),
            (7, Trouble::AnswerLost(Cause::Crc)),
            (15, Trouble::Data(0, Cause::Crc, true)),
        ];
        let plan = plan.iter().map(|&(nth, trouble)| (nth + shift, trouble)).collect();
        let ops = vec![durable(3, 7)];
        keeps(&Program { max_blocks: 1, reliable: u32::MAX, ops, plan, ..Program::PLAIN });
    }
}

/// Tests a flush that the card refuses: it is not done.
#[test]
fn a_refused_flush_is_no_flush() {
    let plan = vec![(3, Trouble::Refused)];
    keeps(&Program { ops: vec![durable(3, 1)], plan, ..Program::PLAIN });
}

/// Tests an error of the cache that the card reports while it is busy: one flush of each handle
/// fails, and not all from then on.
#[test]
fn an_error_before_a_busy_is_told_once() {
    let plan = vec![(2, Trouble::Dropped(0))];
    for polls in 1..3 {
        let (busy, ops) = (BusyDetect::Response, vec![write(12, 1)]);
        keeps(&Program { busy, polls, ops, plan: plan.clone(), ..Program::PLAIN });
    }
}

/// Tests an error that the card reports after the last piece of a write: it may be an earlier
/// piece's, so all pieces are written again.
#[test]
fn an_error_after_a_piece_may_be_of_an_earlier_piece() {
    let plan = vec![(2, Trouble::Dropped(0))];
    let program = Program { continues: true, max_blocks: 1, ops: vec![write(4, 2)], ..Program::PLAIN };
    keeps(&Program { plan, ..program });
    for cached in [false, true] {
        for spoilt in 1..4 {
            let plan = vec![(spoilt, Trouble::Program(0))];
            let ops = vec![write(4, 3)];
            keeps(&Program { continues: true, max_blocks: 1, cached, ops, plan, ..Program::PLAIN });
        }
    }
    for nth in 0..4 {
        let plan = vec![(5, Trouble::Busy), (6, Trouble::Dropped(nth))];
        keeps(&Program { max_blocks: 1, ops: vec![write(13, 9)], plan, ..Program::PLAIN });
    }
}

/// Tests a younger write just before the rest of an older one: it does not join that rest, which
/// perhaps is written once more as a whole.
#[test]
fn nothing_joins_in_front_of_the_rest_of_a_write() {
    for trouble in [Trouble::Silent(false), Trouble::Unheard(Cause::Crc), Trouble::AnswerLost(Cause::Crc)] {
        let (plan, ops) = (vec![(3, trouble)], vec![write(1, 7), write(6, 1)]);
        keeps(&Program { max_blocks: 3, ops, plan, ..Program::PLAIN });
    }
}

/// Tests a write in pieces that waits while it is restarted: its first piece counts again for the
/// order of requests.
#[test]
fn a_restarted_write_waits_with_all_its_blocks() {
    for sched in [Sched::Latest, Sched::Drawn, Sched::Deadline] {
        let ops = vec![write(6, 3), (0, Op::Halt), write(6, 1)];
        let plan = vec![(2, Trouble::AnswerLost(Cause::Timeout))];
        keeps(&Program { sched, max_blocks: 2, ops, plan, ..Program::PLAIN });
    }
}

/// Tests a durable write that has failed between its pieces: it ends, and its rest is not written
/// over a younger write.
#[test]
fn a_durable_write_that_has_failed_is_not_continued() {
    let (plan, ops) = (vec![(3, Trouble::Dropped(0))], vec![durable(2, 3), durable(3, 2)]);
    keeps(&Program { max_blocks: 1, ops, plan, ..Program::PLAIN });
}

/// Tests a write that is complete in an open transfer whose end fails: a later error of the cache
/// may be its own, and the next flush reports it.
#[test]
fn writes_of_a_broken_open_transfer_may_be_lost_later() {
    let plan = vec![(2, Trouble::Data(2, Cause::Dma, false)), (7, Trouble::Dropped(0))];
    let ops = vec![write(7, 2), write(9, 1)];
    keeps(&Program { continues: true, stays: StaysOpen::Always, ops, plan, ..Program::PLAIN });
}

/// Tests requests that go in pieces while the card's queue is on: nothing is sent between their
/// pieces that overlaps the rest.
#[test]
fn nothing_overlapping_is_a_task_between_two_pieces() {
    let read = (0, submit(What::Read, 14, 2));
    for ops in [vec![read, write(15, 1)], vec![write(6, 2), write(5, 3)], vec![write(5, 4), write(2, 7)]] {
        for max_blocks in 1..4 {
            let ops = ops.clone();
            keeps(&Program { lane: Lane::Queue, max_blocks, ops, ..Program::PLAIN });
        }
    }
}

/// Tests a card that is taken out while its queue is switched on: a request to the next card does
/// not take the place of that switch.
#[test]
fn a_switch_of_the_queue_ends_with_its_card() {
    let erase = (3, submit(What::Erase(Erase::Trim), 10, 1));
    let ops = vec![write(1, 1), (0, Op::Remove), (0, Op::Insert(false)), erase];
    keeps(&Program { lane: Lane::Queue, ops, ..Program::PLAIN });
}

/// Tests packs and chains before a flush: the policy is not asked when it has nothing to pick from.
#[test]
fn a_policy_is_not_asked_in_front_of_a_barrier() {
    for lane in [Lane::Packs, Lane::Chains] {
        let flush = (0, submit(What::Flush, 0, 0));
        let ops = vec![write(0, 1), write(8, 1), write(16, 1), flush, write(20, 1)];
        keeps(&Program { lane, sched: Sched::Drawn, ops, ..Program::PLAIN });
    }
}

/// Tests an error of the cache that stops a chain after its first write: the next flush reports it.
#[test]
fn an_error_that_stops_a_chain_may_be_of_complete_writes() {
    for nth in 1..12 {
        let plan = vec![(nth, Trouble::Dropped(0))];
        let ops =
            vec![write(19, 1), write(13, 3), (6, submit(What::Read, 30, 1)), durable(1, 1), write(18, 1)];
        keeps(&Program { lane: Lane::Chains, reliable: 1, ops, plan, ..Program::PLAIN });
    }
}

/// Tests a write that failed and waits to be tried again: it may have changed blocks, so it is not
/// taken back as if it had never begun.
#[test]
fn a_write_that_was_tried_is_not_taken_back() {
    for last in [Op::Cancel(0), Op::TakeBack(0)] {
        for steps in 0..5 {
            let plan = vec![(1, Trouble::Data(2, Cause::Crc, false))];
            let ops = vec![write(4, 1), (0, Op::Halt), (steps, last)];
            keeps(&Program { ops, plan, ..Program::PLAIN });
            let plan = vec![(2, Trouble::AnswerLost(Cause::Timeout))];
            let ops = vec![durable(15, 3), (1, Op::Halt), (steps, last)];
            keeps(&Program { max_blocks: 2, ops, plan, ..Program::PLAIN });
        }
    }
}

/// Tests reliable writes in a pack or a chain, after an older write of the same blocks that waits for
/// its flush and is sent again if the cache is lost: the flush comes first.
#[test]
fn no_pack_and_no_chain_passes_what_waits_for_its_flush() {
    // The first of the two that wait for a flush reports the loss, and the second is sent again.
    for nth in 1..14 {
        for after in [false, true] {
            for lane in [Lane::Packs, Lane::Chains] {
                let plan = vec![(nth, Trouble::Brownout(after))];
                let ops = vec![durable(30, 3), durable(20, 3), durable(21, 1), durable(27, 1)];
                keeps(&Program { lane, reliable: 1, ops, plan, ..Program::PLAIN });
            }
        }
    }
}

//! Tests of the order of requests: requests with adjacent blocks do not overlap, and the bound
//! `fair_blocks` limits a merged transfer only if it overtakes another request.

use crate::erased::Scheduled;
use crate::support;
use mmcq::engine::{Config, Engine, Kind, Request};
use mmcq::sched::{Choice, Fifo, Origin, Policy, Waiting};
use support::{TestHost, World, buffer, target};

const BLOCKS: u64 = 512;

fn read(lba: u64, blocks: u32) -> Request {
    Request::new(Kind::Read { lba, blocks }, buffer(blocks, 0))
}

fn write(lba: u64, blocks: u32) -> Request {
    Request::new(Kind::Write { lba, blocks }, buffer(blocks, 1))
}

/// Returns the transfers of these requests, which are all queued while another transfer is under
/// way: (first block, blocks) for a read, and a negative first block for a write.
fn transfers<P: Policy, const N: usize>(
    config: Config,
    policy: P,
    requests: Vec<Request>,
) -> Vec<(i64, u32)> {
    let world = World::new(BLOCKS);
    let mut e: Engine<TestHost, N, P> = Engine::with_policy(TestHost::new(&world), config, policy);
    e.set_card_params(Some(target(BLOCKS)));
    e.submit(read(500, 1), 0).unwrap();
    for request in requests {
        e.submit(request, 0).unwrap();
    }
    let mut now = 0;
    for _ in 0..1_000 {
        now += 1_000;
        let _ = e.on_irq(now);
        let _ = e.poll(now);
    }
    assert!(e.is_idle());
    let sent = world.borrow().transfers();
    assert_eq!(sent[0].arg, 500);
    let place = |index: u8, arg: u32| if index < 20 { i64::from(arg) } else { -i64::from(arg) };
    sent[1..].iter().map(|seen| (place(seen.index, seen.arg), seen.blocks)).collect()
}

fn in_order(requests: Vec<Request>) -> Vec<(i64, u32)> {
    transfers::<_, 16>(Config::DEFAULT, Fifo, requests)
}

/// A scheduler that picks the request that came last.
struct Latest;

impl Policy for Latest {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, _: u64) -> Choice {
        Choice::Go(waiting.last().expect("at least one").index)
    }
}

fn latest(requests: Vec<Request>) -> Vec<(i64, u32)> {
    transfers::<_, 8>(Config::DEFAULT, Scheduled::new(Latest), requests)
}

#[test]
fn a_choice_stands_unless_older_blocks_are_the_same() {
    // Just before it, and just behind it.
    assert_eq!(latest(vec![write(8, 8), read(16, 8)]), [(16, 8), (-8, 8)]);
    assert_eq!(latest(vec![write(24, 8), read(16, 8)]), [(16, 8), (-24, 8)]);
    // One block in common, at either end.
    assert_eq!(latest(vec![write(8, 9), read(16, 8)]), [(-8, 9), (16, 8)]);
    assert_eq!(latest(vec![write(23, 8), read(16, 8)]), [(-23, 8), (16, 8)]);
    // Two reads may pass each other, and a write no read.
    assert_eq!(latest(vec![read(12, 8), read(16, 8)]), [(16, 8), (12, 8)]);
    assert_eq!(latest(vec![read(12, 8), write(16, 8)]), [(12, 8), (-16, 8)]);
    assert_eq!(latest(vec![write(12, 8), write(16, 8)]), [(-12, 8), (-16, 8)]);
    // What must go first may have to wait for something else.
    assert_eq!(latest(vec![read(8, 8), write(12, 8), read(16, 8)]), [(8, 8), (-12, 8), (16, 8)]);
}

#[test]
fn requests_are_joined_past_older_ones_that_they_do_not_meet() {
    // Elsewhere, and with their ends together.
    for lba in [100, 16, 4] {
        let sent = in_order(vec![read(0, 8), write(lba, 4), read(8, 8)]);
        assert_eq!(sent, [(0, 16), (-(lba as i64), 4)], "a write at {lba}");
    }
    for lba in [15, 5, 8, 12] {
        let sent = in_order(vec![read(0, 8), write(lba, 4), read(8, 8)]);
        assert_eq!(sent, [(0, 8), (-(lba as i64), 4), (8, 8)], "a write at {lba}");
    }
    // Writes pass neither an older read of their blocks nor an older write.
    assert_eq!(in_order(vec![write(0, 8), read(12, 4), write(8, 8)]), [(0, 8), (12, 4), (-8, 8)]);
    assert_eq!(in_order(vec![write(0, 8), write(14, 4), write(8, 8)]), [(0, 8), (-14, 4), (-8, 8)]);
    assert_eq!(in_order(vec![write(0, 8), read(100, 4), write(8, 8)]), [(0, 16), (100, 4)]);
}

#[test]
fn in_front_and_behind_in_whatever_order_they_came() {
    assert_eq!(in_order(vec![read(16, 8), read(8, 8), read(24, 8), read(0, 8)]), [(0, 32)]);
    // A gap of one block prevents a merge.
    assert_eq!(in_order(vec![read(16, 8), read(25, 8), read(7, 8)]), [(16, 8), (25, 8), (7, 8)]);
}

#[test]
fn the_bound_holds_where_a_request_stays_behind_and_only_there() {
    let config = Config::DEFAULT.fair_blocks(16).merge_blocks(24);
    let run = || (0..4).map(|i| read(8 * i, 8));
    // No request is overtaken: only the limit `merge_blocks` counts.
    assert_eq!(transfers::<_, 16>(config, Fifo, run().collect()), [(0, 24), (24, 8)]);
    // The last request is not overtaken by those before it.
    let last = run().chain([read(100, 4)]).collect();
    assert_eq!(transfers::<_, 16>(config, Fifo, last), [(0, 24), (24, 8), (100, 4)]);
    // The second request is overtaken by the third.
    let second = run().take(1).chain([read(100, 4)]).chain(run().skip(1)).collect();
    assert_eq!(transfers::<_, 16>(config, Fifo, second), [(0, 16), (100, 4), (16, 16)]);
    // A first request that has the largest size is sent alone.
    let large = vec![read(0, 24), read(24, 8)];
    assert_eq!(transfers::<_, 16>(config, Fifo, large), [(0, 24), (24, 8)]);
}

/// Tests two requests of different clients that both continue a batch: the request of the batch's
/// last client joins, although the other one is longer and came first.
#[test]
fn of_two_that_continue_a_batch_the_one_of_its_last_client_joins() {
    let of = |client, lba, blocks| read(lba, blocks).from(Origin { client, sync: true });
    assert_eq!(in_order(vec![of(1, 100, 1), of(2, 101, 2), of(1, 101, 1)]), [(100, 2), (101, 2)]);
    // No waiting request is of the batch's last client: the request joins whose client has no other
    // one waiting.
    let torn = [of(2, 99, 2), of(2, 101, 2), of(3, 101, 1)];
    assert_eq!(in_order([of(1, 100, 1)].into_iter().chain(torn).collect()), [(100, 2), (99, 4)]);
}

/// Tests two clients that read the same blocks, the second client one request behind the first. The
/// last request of the second client continues the requests of the first client, so it could join
/// their transfer. A read shorter than a page of the card goes with the other requests of its own
/// client instead; writes and longer reads join.
#[test]
fn a_clients_short_reads_are_not_torn_apart_by_another_that_they_continue() {
    let all = |kind: fn(u64, u32) -> Request, blocks: u32, second: core::ops::Range<u64>| {
        let of =
            |client, n: u64| kind(80 + n * u64::from(blocks), blocks).from(Origin { client, sync: true });
        in_order((0..4).map(|n| of(1, n)).chain(second.map(|n| of(2, n))).collect())
    };
    assert_eq!(all(read, 1, 1..5), [(80, 4), (81, 4)]);
    assert_eq!(all(write, 1, 1..5), [(-80, 5), (-81, 3)]);
    assert_eq!(all(read, 8, 1..5), [(80, 40), (88, 24)]);
    // A request whose client has no other request waiting does join.
    assert_eq!(all(read, 1, 4..5), [(80, 5)]);
}

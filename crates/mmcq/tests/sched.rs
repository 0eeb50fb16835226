//! Tests of the bounds that the documentation of the schedulers promises, on a synthetic server.
//! The checks use only the log of the server, and nothing of how a scheduler works.

#[path = "sched/bounds.rs"]
mod bounds;
#[path = "sched/reads_first.rs"]
mod reads_first;
#[path = "sched/server.rs"]
mod server;

use crate::fuzz;
use bounds::*;
use mmcq::host::Direction::{self, Read, Write};
use mmcq::sched::{
    Any, Choice, ConfigError, Deadline, Fair, Fifo, Origin, Policy, ReadsFirst, Waiting, deadline, fair,
};
use server::*;

fn some_clients(r: &mut Random) -> Vec<Client> {
    (0..r.within(1..=5)).map(|_| Client::random(r.below(10) as u8, r)).collect()
}

fn some_server(r: &mut Random) -> Server {
    Server {
        block_ns: r.within(1_000..=50_000),
        transfer_ns: r.below(3 * MS),
        longest_blocks: r.within(1..=600) as u32,
        merges: r.below(2) == 0,
        cancels: r.below(100),
        late_done: r.below(2) == 0,
    }
}

fn some_fair(r: &mut Random, server: &Server) -> (fair::FairConfig, Told) {
    let heaviest = [1, 4, 1000][r.below(3) as usize];
    let weights = std::array::from_fn(|_| r.within(1..=heaviest) as u16);
    let told = Told {
        weights,
        budget_blocks: r.within(1..=3000) as u32,
        longest_blocks: server.longest_blocks,
        sync_turns: r.within(1..=5) as u32,
        async_blocks: r.within(1..=1000) as u32,
    };
    let config = fair::FairConfig::new(weights)
        .and_then(|c| c.with_budget(told.budget_blocks, 125 * MS))
        .and_then(|c| c.with_async(told.sync_turns as u8, told.async_blocks))
        .unwrap();
    (config, told)
}

fn some_deadline(r: &mut Random) -> ([u64; 2], u8, u8, deadline::DeadlineConfig) {
    let expire_ns = [r.below(100) * MS, r.below(300) * MS];
    let (starved, batch) = (r.within(1..=4) as u8, r.within(1..=20) as u8);
    (
        expire_ns,
        starved,
        batch,
        deadline::DeadlineConfig::new(expire_ns[0], expire_ns[1], starved, batch).unwrap(),
    )
}

/// Returns all schedulers in the order of [`Any::NAMES`], with these settings.
fn all_of(deadline: deadline::DeadlineConfig, fair: fair::FairConfig) -> [Any; 4] {
    let (deadline, fair) = (Deadline::new(deadline), Fair::new(fair));
    [Any::Fifo(Fifo), Any::Deadline(deadline), Any::Fair(fair), Any::ReadsFirst(ReadsFirst::new())]
}

#[test]
fn each_is_served_once_by_every_scheduler() {
    fuzz::fuzz("each_is_served_once_by_every_scheduler", 400, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let (clients, server) = (some_clients(r), some_server(r));
        let (_, _, _, deadline) = some_deadline(r);
        let (fair, _) = some_fair(r, &server);
        let all = all_of(deadline, fair);
        for (mut policy, name) in all.into_iter().zip(Any::NAMES) {
            assert_eq!(policy.name(), name);
            let log = serve(&mut policy, &clients, server, seed);
            assert_eq!(check_served_once(&log), Ok(()), "{name}, {seed}");
        }
        Ok(())
    });
}

#[test]
fn a_choice_at_run_time_is_the_same_scheduler() {
    let r = &mut Random(7);
    for seed in 0..20 {
        let (clients, server) = (some_clients(r), some_server(r));
        let (config, _) = some_fair(r, &server);
        let (_, _, _, deadline) = some_deadline(r);
        let direct = serve(&mut Fair::new(config), &clients, server, seed);
        assert!(direct == serve(&mut Any::Fair(Fair::new(config)), &clients, server, seed));
        let direct = serve(&mut Deadline::new(deadline), &clients, server, seed);
        assert!(direct == serve(&mut Any::<8>::Deadline(Deadline::new(deadline)), &clients, server, seed));
    }
}

#[test]
fn fifo_keeps_the_order() {
    fuzz::fuzz("fifo_keeps_the_order", 400, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let (clients, server) = (some_clients(r), some_server(r));
        assert_eq!(check_fifo(&serve(&mut Fifo, &clients, server, seed)), Ok(()), "{seed}");
        Ok(())
    });
}

#[test]
fn deadline_keeps_its_bound() {
    let mut bound = 0;
    fuzz::fuzz("deadline_keeps_its_bound", 400, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let (clients, server) = (some_clients(r), some_server(r));
        let (expire_ns, starved, batch, config) = some_deadline(r);
        let log = serve(&mut Deadline::new(config), &clients, server, seed);
        let checked = check_deadline(&log, expire_ns, starved.into(), batch.into());
        bound += checked.unwrap_or_else(|e| panic!("{seed}: {e}"));
        Ok(())
    });
    assert!(bound > 100, "only {bound} requests expired");
}

#[test]
fn deadline_serves_expired_requests_in_order() {
    // Batches of one: every choice starts a batch, so no expired request may be passed by a younger
    // one of its direction.
    let mut checked = 0;
    for seed in 0..200 {
        let r = &mut Random(seed);
        let (clients, server) = (some_clients(r), Server { merges: false, ..some_server(r) });
        let expire_ns = r.below(100) * MS;
        let config = deadline::DeadlineConfig::new(expire_ns, expire_ns, 2, 1).unwrap();
        let mut waiting: Vec<(u32, Waiting)> = vec![];
        for event in serve(&mut Deadline::new(config), &clients, server, seed) {
            match event {
                Event::Arrived(id, w) => waiting.push((id, w)),
                Event::Cancelled(id) => waiting.retain(|(other, _)| *other != id),
                Event::Sent(id, sent, now_ns, _) => {
                    let oldest = waiting.iter().find(|(_, w)| w.direction == sent.direction).unwrap();
                    if oldest.1.arrived_ns + expire_ns <= now_ns {
                        assert_eq!(id, oldest.0, "{seed}: {:?} has expired", oldest.1);
                        checked += 1;
                    }
                    waiting.retain(|(other, _)| *other != id);
                }
                Event::Idle(..) => panic!("idles"),
            }
        }
    }
    assert!(checked > 1000, "only {checked} choices with an expired request");
}

fn waiting(index: u8, direction: Direction, lba: u64, arrived_ns: u64) -> Waiting {
    Waiting { index, direction, lba, blocks: 8, origin: Origin::DEFAULT, arrived_ns }
}

#[test]
fn deadline_goes_up_in_batches() {
    let mut policy = Deadline::new(deadline::DeadlineConfig::new(500 * MS, 5_000 * MS, 2, 3).unwrap());
    let lbas = [
        (Read, 500),
        (Write, 40),
        (Read, 100),
        (Read, 900),
        (Write, 20),
        (Read, 300),
        (Read, 700),
        (Read, 8),
    ];
    let mut queue: Vec<_> =
        lbas.iter().zip(0..).map(|(&(direction, lba), index)| waiting(index, direction, lba, 0)).collect();
    let mut order = vec![];
    while !queue.is_empty() {
        let Choice::Go(index) = policy.pick(queue.iter().copied(), MS) else { panic!("idles") };
        let at = queue.iter().position(|w| w.index == index).unwrap();
        let w = queue.remove(at);
        policy.sent(&w, MS);
        order.push(w.lba);
    }
    // Two batches of three reads each go before the writes; then the writes must be sent.
    assert_eq!(order, [8, 100, 300, 500, 700, 900, 20, 40]);
}

#[test]
fn fair_keeps_its_bounds_in_blocks() {
    let mut used: f64 = 0.0;
    fuzz::fuzz("fair_keeps_its_bounds_in_blocks", 800, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let server = Server { longest_blocks: r.within(1..=600) as u32, cancels: r.below(100), ..FAST };
        let (config, told) = some_fair(r, &server);
        // The budgets are small against the time-out, and there is no idling, so clients pay in
        // blocks.
        let config = config.with_budget(told.budget_blocks, 10_000 * MS).unwrap().with_idling(0, 0).unwrap();
        let log = serve(&mut Fair::new(config), &some_clients(r), server, seed);
        for sync in [false, true] {
            let checked = check_fair_waiting(&log, &told, sync);
            used = used.max(checked.unwrap_or_else(|e| panic!("{seed}: {e}")));
        }
        assert_eq!(check_fair_classes(&log, &told), Ok(()), "{seed}");
        assert!(!log.iter().any(|event| matches!(event, Event::Idle(..))));
        Ok(())
    });
    assert!(used > 0.3, "the bound was never put to the test: {used}");
}

/// Returns four clients that always have a waiting request.
fn backlogged(blocks: [u64; 4]) -> Vec<Client> {
    blocks.iter().zip(0..).map(|(&blocks, client)| Client::reader(client, 4, 3000, blocks)).collect()
}

#[test]
fn weights_give_service_in_proportion() {
    for (weights, blocks) in [
        ([100, 100, 100, 100], [8, 64, 512, 1]),
        ([1, 2, 3, 4], [8, 8, 8, 8]),
        ([1000, 1, 500, 250], [512, 8, 100, 3]),
    ] {
        let [a, b, c, d] = weights;
        let told = Told {
            weights: [a, b, c, d, 1, 1, 1, 1],
            budget_blocks: 1000,
            longest_blocks: 512,
            sync_turns: 2,
            async_blocks: 1,
        };
        let config = fair::FairConfig::new(told.weights).unwrap();
        let config = config.with_budget(1000, 125 * MS).unwrap().with_idling(0, 0).unwrap();
        let log = serve(&mut Fair::new(config), &backlogged(blocks), FAST, 1);
        let mut used: f64 = 0.0;
        for (i, j) in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)] {
            used = used.max(check_fair_share(&log, &told, i, j).unwrap());
        }
        assert!(used > 0.4, "{used}");
        // The planted fault: weights that the policy was not told.
        let told = Told { weights: [a, b * 9, c, d, 1, 1, 1, 1], ..told };
        assert!(check_fair_share(&log, &told, 0, 1).is_err());
    }
}

#[test]
fn who_is_slow_pays_for_time() {
    // The client `slow` transfers 8 blocks in 5 ms, the other client 128 blocks in 7.4 ms. With
    // equal numbers of blocks, `slow` would have 91 % of the card's time.
    let slow = Client { sequential: false, ..Client::reader(0, 4, 2000, 8) };
    let clients = [slow, Client::reader(1, 4, 2000, 128)];
    let server = Server { block_ns: 20_000, transfer_ns: 4_840_000, ..FAST };
    let config =
        fair::FairConfig::<8>::DEFAULT.with_budget(4096, 125 * MS).unwrap().with_idling(0, 0).unwrap();
    let log = serve(&mut Fair::new(config), &clients, server, 1);
    let (mut time_ns, mut apart_ns) = ([0i64; 2], 0);
    let mut last: Option<(usize, u64)> = None;
    let mut sent = [0; 2];
    for event in &log {
        if let Event::Sent(_, w, at_ns, _) = event {
            if let Some((who, from_ns)) = last {
                time_ns[who] += (at_ns - from_ns) as i64;
            }
            let who = usize::from(w.origin.client);
            last = Some((who, *at_ns));
            sent[who] += 1;
            if sent[who] == 1900 {
                break;
            }
            apart_ns = apart_ns.max((time_ns[0] - time_ns[1]).abs());
        }
    }
    // Both clients are slower than the rate budget / time-out. So each turn lasts for the time-out
    // and one transfer at most, and the card times of the clients differ by at most two turns.
    let transfer_ns = 4_840_000 + 128 * 20_000;
    assert!(apart_ns <= 2 * (125_000_000 + transfer_ns), "{apart_ns}");
    assert!(apart_ns > 100_000_000, "turns are longer than that: {apart_ns}");
}

#[test]
fn asynchronous_writes_wait_but_do_not_starve() {
    let writer = Client { writes: 100, ..Client::reader(1, 8, 500, 512) };
    let reader = Client { sequential: false, ..Client::reader(0, 4, 20_000, 8) };
    let server = Server { transfer_ns: 100_000, ..FAST };
    let told = Told {
        weights: [100; 8],
        budget_blocks: 4096,
        longest_blocks: 512,
        sync_turns: 2,
        async_blocks: 512,
    };
    let config = fair::FairConfig::<8>::DEFAULT.with_budget(4096, 125 * MS).unwrap();
    let log = serve(&mut Fair::new(config), &[writer.clone(), reader.clone()], server, 3);
    assert_eq!(check_fair_classes(&log, &told), Ok(()));
    assert!(check_fair_classes(&log, &Told { sync_turns: 0, ..told.clone() }).is_err());
    // If its writes are synchronous, the writer is treated like the reader.
    let log = serve(&mut Fair::new(config), &[Client { sync: true, ..writer }, reader], server, 3);
    assert!(check_fair_waiting(&log, &told, true).unwrap() > 0.1);
}

/// Tests asynchronous writes next to a reader with one request at a time. The scheduler keeps the
/// card idle for the reader until its next request comes, and the writes still get their turns.
#[test]
fn asynchronous_writes_do_not_starve_behind_a_reader_that_is_waited_for() {
    for (think_ns, sync_turns) in [(1_000, 1), (100_000, 2), (MS, 2), (2 * MS, 5)] {
        let reader =
            Client { sequential: false, think_ns: think_ns / 2..=think_ns, ..Client::reader(0, 1, 4_000, 8) };
        let writer = Client { writes: 100, ..Client::reader(1, 8, 100, 64) };
        let told =
            Told { weights: [100; 8], budget_blocks: 256, longest_blocks: 512, sync_turns, async_blocks: 64 };
        let config = fair::FairConfig::<8>::DEFAULT.with_budget(256, 125 * MS).unwrap();
        let config = config.with_async(sync_turns as u8, 64).unwrap();
        let log = serve(&mut Fair::new(config), &[writer, reader], FAST, 3);
        assert!(log.iter().any(|event| matches!(event, Event::Idle(..))), "it is waited for");
        assert_eq!(check_fair_classes(&log, &told), Ok(()), "{think_ns}");
    }
}

/// Returns how long the card was idle although a request waited: the sum, and the longest idle time
/// between two transfers of the client `other`.
fn idled(log: &[Event], other: u8) -> (u64, u64) {
    let (mut all, mut since, mut longest) = (0, 0, 0);
    for event in log {
        match event {
            Event::Idle(from_ns, to_ns) => {
                assert!(to_ns - from_ns <= 8 * MS);
                all += to_ns - from_ns;
                since += to_ns - from_ns;
                longest = longest.max(since);
            }
            Event::Sent(_, w, ..) if w.origin.client == other => since = 0,
            _ => {}
        }
    }
    (all, longest)
}

#[test]
fn idling_is_for_the_quick_and_is_bounded() {
    let thinker = Client { think_ns: MS / 2..=MS, ..Client::reader(0, 1, 4000, 8) };
    let writer = Client { writes: 100, sync: true, ..Client::reader(1, 8, 2000, 128) };
    let run = |thinker: &Client, weights| {
        let config = fair::FairConfig::<8>::new(weights).unwrap();
        let log = serve(&mut Fair::new(config), &[thinker.clone(), writer.clone()], FAST, 5);
        assert_eq!(check_served_once(&log), Ok(()));
        idled(&log, 1)
    };
    let equal = [100; 8];
    let (all, longest) = run(&thinker, equal);
    assert!(all > 100 * MS, "a quick reader is worth it: {all}");
    // The thinker may have two turns in a row, if the writer was ahead by a turn. The thinker pays
    // for all of that card time.
    assert!(longest <= 2 * 40 * MS * (4096 + 127) / 4096, "{longest}");
    let jumps = Client { sequential: false, ..thinker.clone() };
    assert!(
        run(&jumps, equal).0 > 100 * MS,
        "so is one that jumps about: the card takes one command at a time"
    );
    let (all, longest) = run(&jumps, [300, 100, 100, 100, 100, 100, 100, 100]);
    assert!(all > 100 * MS, "a weight is worth nothing to a client that is not waited for: {all}");
    assert!(longest <= 4 * 40 * MS * (4096 + 127) / 4096, "{longest}");
    let slow = Client { think_ns: 20 * MS..=30 * MS, ..thinker.clone() };
    assert_eq!(run(&slow, equal).0, 0, "too slow a thinker");
    let long = Client { blocks: 3000..=3000, requests: 300, ..slow };
    assert_eq!(run(&long, equal).0, 0, "the rest of a long request is no thought");
    let asynchronous = Client { writes: 100, ..thinker };
    assert_eq!(run(&asynchronous, equal).0, 0, "asynchronous");
}

#[test]
fn idling_ends_when_no_request_comes() {
    let mut policy = Fair::<8>::new(fair::FairConfig::DEFAULT);
    let mut now_ns = 0;
    let own = |lba, arrived_ns| waiting(0, Read, lba, arrived_ns);
    for nth in 0..10 {
        let w = own(nth * 8, now_ns);
        policy.arrived(&w, now_ns);
        assert_eq!(policy.pick([w].into_iter(), now_ns), Choice::Go(0));
        policy.sent(&w, now_ns);
        now_ns += MS / 4;
        policy.done(&w, now_ns);
        now_ns += MS / 2;
    }
    let origin = Origin { client: 3, sync: false };
    let other = Waiting { origin, blocks: 64, ..waiting(9, Read, 5000, now_ns) };
    policy.arrived(&other, now_ns);
    let Choice::IdleUntil(until_ns) = policy.pick([other].into_iter(), now_ns) else { panic!("no idling") };
    assert!(until_ns > now_ns && until_ns <= now_ns + 8 * MS);
    // A second call of `pick` does not extend the idle time.
    assert_eq!(policy.pick([other].into_iter(), until_ns - 1), Choice::IdleUntil(until_ns));
    // The client's request comes at the last moment, and is sent. Then the idle time begins again,
    // and this time no request comes.
    let w = own(80, until_ns - 1);
    policy.arrived(&w, until_ns - 1);
    assert_eq!(policy.pick([other, w].into_iter(), until_ns - 1), Choice::Go(0));
    policy.sent(&w, until_ns - 1);
    policy.done(&w, until_ns);
    let Choice::IdleUntil(again_ns) = policy.pick([other].into_iter(), until_ns) else { panic!("no idling") };
    assert!(again_ns > until_ns && again_ns <= until_ns + 8 * MS);
    assert_eq!(policy.pick([other].into_iter(), again_ns), Choice::Go(9));
}

#[test]
fn nobody_is_waited_for_among_readers_that_ask_alike() {
    // Client 0 reads at random places, one at a time, and thinks for a moment; another request waits.
    // A read that continues the last one takes `follows_ns`, another one a millisecond.
    let timed = |own: &dyn Fn(u64) -> u64, other: &dyn Fn(Waiting) -> Waiting, weights, follows_ns| {
        let mut policy = Fair::<8>::new(fair::FairConfig::new(weights).unwrap());
        let mut now_ns = 0;
        for nth in 0..10 {
            let w = waiting(0, Read, own(nth), now_ns);
            policy.arrived(&w, now_ns);
            assert_eq!(policy.pick([w].into_iter(), now_ns), Choice::Go(0));
            policy.sent(&w, now_ns);
            let follows = nth > 0 && own(nth) == own(nth - 1) + 8;
            now_ns += if follows { follows_ns } else { MS };
            policy.done(&w, now_ns);
            now_ns += MS / 2;
        }
        let origin = Origin { client: 3, sync: true };
        let other = other(Waiting { origin, ..waiting(9, Read, 5000, now_ns) });
        policy.arrived(&other, now_ns);
        policy.pick([other].into_iter(), now_ns)
    };
    let choice = |own: &dyn Fn(u64) -> u64, other: &dyn Fn(Waiting) -> Waiting, weights| {
        timed(own, other, weights, MS / 4)
    };
    let equal = [100; 8];
    let random = |nth: u64| nth * 100;
    assert_eq!(choice(&random, &|w| w, equal), Choice::Go(9));
    // One read that begins by chance where the last one ended is no stream; two in a row are a stream.
    let follow = |count: u64| move |nth: u64| if nth + count > 9 { 8 * nth } else { 5000 + nth * 100 };
    let chance = |nth: u64| if nth == 9 { random(8) + 8 } else { random(nth) };
    assert_eq!(choice(&chance, &|w| w, equal), Choice::Go(9));
    // Otherwise it waits for client 0: if the other request is longer or a write, if the weights
    // differ, or if client 0 has a stream.
    let idles = |choice| matches!(choice, Choice::IdleUntil(_));
    assert!(idles(choice(&follow(3), &|w| w, equal)));
    // The client thinks for half a millisecond: a stream that saves less is not waited for.
    assert_eq!(timed(&follow(3), &|w| w, equal, 3 * MS / 4), Choice::Go(9));
    assert!(idles(choice(&random, &|w| Waiting { blocks: 64, ..w }, equal)));
    assert!(idles(choice(&random, &|w| Waiting { direction: Direction::Write, ..w }, equal)));
    assert!(idles(choice(&random, &|w| w, [300, 100, 100, 100, 100, 100, 100, 100])));
    assert!(idles(choice(&|nth| nth * 8, &|w| w, equal)));
}

#[test]
fn a_long_silence_settles_debts() {
    // Client 0 uses up a turn; a while after, both ask, client 0 first.
    let second = |silence_ns, done| {
        let config = fair::FairConfig::<8>::DEFAULT.with_budget(1000, 125 * MS).unwrap();
        let mut policy = Fair::new(config);
        let first = Waiting { blocks: 1000, ..waiting(0, Read, 0, 0) };
        policy.arrived(&first, 0);
        assert_eq!(policy.pick([first].into_iter(), 0), Choice::Go(0));
        policy.sent(&first, 0);
        let mut now_ns = MS;
        if done {
            policy.done(&first, now_ns);
        }
        now_ns += silence_ns;
        let own = waiting(1, Read, 1000, now_ns);
        let origin = Origin { client: 1, sync: false };
        let other = Waiting { origin, ..waiting(2, Read, 5000, now_ns) };
        policy.arrived(&own, now_ns);
        policy.arrived(&other, now_ns);
        policy.pick([own, other].into_iter(), now_ns)
    };
    assert_eq!(second(MS, true), Choice::Go(2));
    assert_eq!(second(100 * MS, true), Choice::Go(1));
    assert_eq!(second(100 * MS, false), Choice::Go(2), "a slow card is no silence");
}

/// A scheduler that picks the newest request, so that old requests starve.
struct Newest;

impl Policy for Newest {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, _: u64) -> Choice {
        Choice::Go(waiting.last().unwrap().index)
    }
}

/// A scheduler that ignores client 0 while another client waits.
struct Blind<P>(P);

impl<P: Policy> Policy for Blind<P> {
    fn pick<I: Iterator<Item = Waiting> + Clone>(&mut self, waiting: I, now_ns: u64) -> Choice {
        let others = waiting.clone().filter(|w| w.origin.client != 0);
        if others.clone().next().is_some() {
            self.0.pick(others, now_ns)
        } else {
            self.0.pick(waiting, now_ns)
        }
    }
    fn sent(&mut self, request: &Waiting, now_ns: u64) {
        self.0.sent(request, now_ns);
    }
}

#[test]
fn the_checkers_find_who_starves() {
    let clients = backlogged([8, 8, 8, 8]);
    let told = Told {
        weights: [100; 8],
        budget_blocks: 1000,
        longest_blocks: 512,
        sync_turns: 2,
        async_blocks: 512,
    };
    let config = fair::FairConfig::DEFAULT.with_budget(1000, 125 * MS).unwrap().with_idling(0, 0).unwrap();
    let honest = serve(&mut Fair::<8>::new(config), &clients, FAST, 1);
    assert!(check_fair_waiting(&honest, &told, true).is_ok() && check_fifo(&honest).is_err());
    for log in [
        serve(&mut Newest, &clients, FAST, 1),
        serve(&mut Blind(Fair::<8>::new(config)), &clients, FAST, 1),
        serve(&mut Blind(Fifo), &clients, FAST, 1),
    ] {
        assert_eq!(check_served_once(&log), Ok(()));
        assert!(check_fair_waiting(&log, &told, true).is_err());
        assert!(check_fair_share(&log, &told, 0, 1).is_err());
        assert!(check_fifo(&log).is_err());
        assert!(check_deadline(&log, [MS, MS], 2, 16).is_err());
    }
    let config = deadline::DeadlineConfig::new(MS, MS, 2, 255).unwrap();
    let log = serve(&mut Deadline::new(config), &clients, FAST, 1);
    assert!(check_deadline(&log, [MS, MS], 2, 16).is_err(), "batches of 255 are not of 16");
    assert!(check_deadline(&log, [MS, MS], 2, 255).is_ok());
}

#[test]
fn reports_in_any_order_leave_it_working() {
    fuzz::fuzz("reports_in_any_order_leave_it_working", 400, |u| {
        let seed: u64 = u.arbitrary()?;
        let r = &mut Random(seed);
        let (_, _, _, deadline) = some_deadline(r);
        let (config, _) = some_fair(r, &FAST);
        for mut policy in all_of(deadline, config) {
            let far = [1, 1000, u64::MAX][r.below(3) as usize];
            let mut w = || Waiting {
                index: r.below(64) as u8,
                direction: if r.below(2) == 0 { Read } else { Write },
                lba: u64::MAX - r.below(far),
                blocks: r.below(1 << 32) as u32,
                origin: Origin { client: r.below(256) as u8, sync: r.below(2) == 0 },
                arrived_ns: r.below(far),
            };
            for _ in 0..300 {
                let (a, b, now_ns) = (w(), w(), w().arrived_ns);
                match a.index % 6 {
                    0 => policy.arrived(&b, now_ns),
                    1 => policy.sent(&b, now_ns),
                    2 => policy.done(&b, now_ns),
                    3 => policy.cancelled(&b),
                    4 => assert!(matches!(policy.pick(std::iter::empty(), now_ns), Choice::IdleUntil(_))),
                    _ => match policy.pick([a, b].into_iter(), now_ns) {
                        Choice::Go(index) => assert!(index == a.index || index == b.index),
                        Choice::IdleUntil(until_ns) => {
                            assert!(until_ns > now_ns && until_ns <= now_ns.saturating_add(8 * MS));
                        }
                    },
                }
            }
            let log = serve(&mut policy, &some_clients(r), FAST, seed);
            assert_eq!(check_served_once(&log), Ok(()), "{seed}");
        }
        Ok(())
    });
}

#[test]
fn clients_beyond_the_last_share_and_are_counted() {
    let mut policy = Fair::<2>::new(fair::FairConfig::new([1, 1]).unwrap());
    for client in [0, 1, 2, 255] {
        policy.arrived(&Waiting { origin: Origin { client, sync: false }, ..waiting(client, Read, 0, 0) }, 0);
    }
    assert_eq!(policy.crowded(), 2);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let shown = |e: Result<(), ConfigError>| e.unwrap_err().to_string();
    let fair = fair::FairConfig::<8>::DEFAULT;
    for (refused, line) in [
        (
            deadline::DeadlineConfig::new(1, 1, 0, 16).map(drop),
            "deadline.writes_starved: 0, expected 1..=255",
        ),
        (deadline::DeadlineConfig::new(1, 1, 2, 0).map(drop), "deadline.batch: 0, expected 1..=255"),
        (fair::FairConfig::new([100, 0]).map(drop), "fair.weight: 0, expected 1..=1000"),
        (fair::FairConfig::new([1001]).map(drop), "fair.weight: 1001, expected 1..=1000"),
        (fair.with_budget(0, MS).map(drop), "fair.budget_blocks: 0, expected 1..=1048576"),
        (fair.with_budget(1, 0).map(drop), "fair.timeout_ns: 0, expected 1000000..=10000000000"),
        (fair.with_idling(2_000 * MS, 0).map(drop), "fair.idle_ns: 2000000000, expected 0..=1000000000"),
        (fair.with_idling(5, 6).map(drop), "fair.think_ns: 6, expected 0..=5"),
        (fair.with_async(0, 1).map(drop), "fair.sync_turns: 0, expected 1..=254"),
        (fair.with_async(1, 0).map(drop), "fair.async_blocks: 0, expected 1..=1048576"),
    ] {
        assert_eq!(shown(refused), line);
    }
}

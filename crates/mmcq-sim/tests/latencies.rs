//! Measures how long a request takes: the tables of docs/latency.md.

use crate::timed::erased::Scheduled;
use mmcq::card::{Card as Found, Options, bring_up, supervise};
use mmcq::engine::{Config, DmaBuf, Error, Kind, Request};
use mmcq::host::sdhci;
use mmcq::sched::fair::FairConfig;
use mmcq::sched::{Deadline, Fair, Fifo, Origin, Profile, deadline};
use mmcq_sim::bench::{Bench, buffer, card_named};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const MS: u64 = 1_000_000;
const READER: Origin = Origin { client: 0, sync: true };
const WRITER: Origin = Origin { client: 1, sync: false };
const CARDS: [&str; 3] = ["sdhc-16g-hs", "sdxc-128g-uhs", "emmc-hs200"];

/// The result of each request, and its time in ns from the first submission on.
type Ends = Vec<(Result<(), Error>, u64)>;

fn up<P: Profile>(card: &str, policy: P) -> (Bench<P>, Found, DmaBuf) {
    let card = card_named(card).unwrap();
    let (controller, driver) = (SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::emmc_18());
    let bench = Bench::with_policy(card, controller, driver, Config::DEFAULT, policy).unwrap();
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap();
    (bench, card.unwrap(), scratch)
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    if let Poll::Ready(it) = poll { Some(it) } else { None }
}

/// Submits all these requests at once and waits for the last answer; with `supervised`, a
/// supervisor runs too.
fn ends<P: Profile>(bench: &Bench<P>, requests: Vec<Request>, supervised: Option<(Found, DmaBuf)>) -> Ends {
    let begin_ns = bench.now_ns();
    let mut under_way: Vec<_> =
        requests.into_iter().map(|request| (Box::pin(bench.stack().request(request)), None)).collect();
    let mut supervisor: Pin<Box<dyn Future<Output = ()>>> = match supervised {
        None => Box::pin(std::future::pending()),
        Some((card, scratch)) => Box::pin(async move {
            let _ = supervise(bench.stack(), scratch, Options::DEFAULT, card).await;
        }),
    };
    let mut context = Context::from_waker(Waker::noop());
    loop {
        assert!(supervisor.as_mut().poll(&mut context).is_pending(), "the supervisor has something to tell");
        for (request, end) in &mut under_way {
            if end.is_none() {
                let done = ready(request.as_mut().poll(&mut context));
                *end = done.map(|done| (done.result.map(drop), bench.now_ns() - begin_ns));
            }
        }
        if under_way.iter().all(|(_, end)| end.is_some()) {
            return under_way.into_iter().filter_map(|(_, end)| end).collect();
        }
        bench.step().unwrap();
    }
}

fn write(n: u64, blocks: u32) -> Request {
    let kind = Kind::Write { lba: 100_000 + n * 10_000, blocks };
    Request::new(kind, buffer(blocks as usize)).from(WRITER)
}

fn read() -> Request {
    Request::new(Kind::Read { lba: 8, blocks: 8 }, buffer(8)).from(READER)
}

fn late(nth: u64, ns: u64) -> Plan {
    Plan::none().shot(Point::Busy, nth, Strike::Late(ns))
}

/// Returns how long a read takes that is submitted behind this many writes of 64 KiB, in us.
fn behind<P: Profile>(card: &str, policy: P, writes: u64) -> u64 {
    let (bench, ..) = up(card, policy);
    // Fills the card's buffer first.
    for n in 0..8 {
        ends(&bench, vec![write(n, 128)], None);
    }
    let requests = (0..writes).map(|n| write(10 + n, 128)).chain([read()]).collect();
    let all = ends(&bench, requests, None);
    let (result, ns) = all.last().copied().unwrap();
    assert_eq!(result, Ok(()));
    ns / 1000
}

fn behind_writes() -> String {
    let mut rows = String::new();
    for card in CARDS {
        for writes in [0, 1, 8] {
            let fifo = behind(card, Fifo, writes);
            let deadline = Deadline::new(deadline::DeadlineConfig::DEFAULT);
            let deadline = behind(card, Scheduled::new(deadline), writes);
            let fair = behind(card, Scheduled::new(Fair::<2>::new(FairConfig::DEFAULT)), writes);
            let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
            rows += &format!("| `{card}` | {writes} | {} | {} | {} |\n", ms(fifo), ms(deadline), ms(fair));
        }
    }
    rows
}

/// Returns rows of a table: how long eight writes of 4 KiB take on a card whose busy lasts longer
/// than it should.
fn trouble() -> String {
    let mut rows = String::new();
    let plans: [(&str, &dyn Fn() -> Plan); 5] = [
        ("250 ms longer once", &|| late(1, 250 * MS)),
        ("2 s longer once", &|| late(1, 2_000 * MS)),
        ("250 ms longer each time", &|| Plan::none().from(Point::Busy, 1, Strike::Late(250 * MS))),
        ("900 ms longer each time", &|| Plan::none().from(Point::Busy, 1, Strike::Late(900 * MS))),
        ("busy for ever", &|| Plan::none().from(Point::Busy, 1, Strike::Never)),
    ];
    for (what, plan) in plans {
        for supervised in [false, true] {
            let (bench, card, scratch) = up("sdhc-16g-hs", Fifo);
            bench.set_faults(plan()).unwrap();
            let all =
                ends(&bench, (0..8).map(|n| write(n, 8)).collect(), supervised.then_some((card, scratch)));
            let well = all.iter().filter(|(result, _)| result.is_ok()).count();
            let (first, last) = (all.iter().map(|end| end.1).min(), all.iter().map(|end| end.1).max());
            let (first, last) = (first.unwrap() / MS, last.unwrap() / MS);
            let with = if supervised { "yes" } else { "no" };
            rows += &format!("| {what} | {with} | {well} of 8 | {first} | {last} |\n");
        }
    }
    rows
}

/// Result of a simulated logger: how many records were lost, and the longest time of a write.
struct Log {
    lost: u32,
    write_ms: u64,
}

/// Simulates a logger: records of 512 bytes, one a millisecond, for 30 s. Two writers write them in
/// pieces of 32 KiB, from this many buffers. One write in 80 is busy for 250 ms more.
fn log(card: &str, buffers: usize) -> Log {
    const RECORDS: u64 = 64;
    let (bench, ..) = up(card, Fifo);
    bench
        .set_faults(
            (1..12).fold(Plan::none(), |plan, n| plan.shot(Point::Busy, n * 80, Strike::Late(250 * MS))),
        )
        .unwrap();
    let free = RefCell::new((0..buffers).map(|_| buffer(RECORDS as usize)).collect::<Vec<_>>());
    let full = RefCell::new(VecDeque::new());
    let (lost, longest, ended, lba) = (Cell::new(0), Cell::new(0), Cell::new(false), Cell::new(0));
    let begin_ns = bench.now_ns();
    let producer = async {
        let (mut filling, mut held) = (None, 0);
        for n in 1..=30_000 {
            bench.sleep((begin_ns + n * MS).saturating_sub(bench.now_ns())).await;
            if filling.is_none() {
                filling = free.borrow_mut().pop();
            }
            match &filling {
                None => lost.set(lost.get() + 1),
                Some(_) => held += 1,
            }
            if held == RECORDS {
                full.borrow_mut().extend(filling.take());
                held = 0;
            }
        }
        ended.set(true);
    };
    let writer = async || loop {
        let next = poll_fn(|_| match full.borrow_mut().pop_front() {
            Some(buf) => Poll::Ready(Some(buf)),
            None if ended.get() => Poll::Ready(None),
            None => Poll::Pending,
        });
        let Some(buf) = next.await else { return };
        let at_ns = bench.now_ns();
        lba.set(lba.get() + RECORDS);
        let kind = Kind::Write { lba: lba.get(), blocks: RECORDS as u32 };
        let done = bench.stack().request(Request::new(kind, buf).from(WRITER)).await;
        assert!(done.result.is_ok(), "{:?}", done.result);
        longest.set(longest.get().max(bench.now_ns() - at_ns));
        free.borrow_mut().push(done.buf);
    };
    let (mut producer, mut one, mut other) = (pin!(producer), pin!(writer()), pin!(writer()));
    let over = Cell::new([false; 3]);
    let all = poll_fn(|context| {
        let mut now = over.get();
        now[0] = now[0] || producer.as_mut().poll(context).is_ready();
        now[1] = now[1] || one.as_mut().poll(context).is_ready();
        now[2] = now[2] || other.as_mut().poll(context).is_ready();
        over.set(now);
        if now == [true; 3] { Poll::Ready(()) } else { Poll::Pending }
    });
    bench.run(all).unwrap();
    Log { lost: lost.get(), write_ms: longest.get() / MS }
}

fn logger() -> String {
    let mut rows = String::new();
    for card in CARDS {
        for buffers in [2, 4, 8, 16] {
            let Log { lost, write_ms } = log(card, buffers);
            rows += &format!("| `{card}` | {} | {lost} | {write_ms} |\n", buffers * 32);
        }
    }
    rows
}

#[test]
fn the_page_has_the_latencies_of_today() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/latency.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut wrong = String::new();
    for (name, rows) in [("behind", behind_writes()), ("trouble", trouble()), ("logger", logger())] {
        let (_, rest) = page.split_once(&format!("<!-- {name} -->\n")).unwrap();
        let found: String = rest
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(|line| format!("{line}\n"))
            .collect();
        if found != rows {
            wrong += &format!("{name}:\n{rows}\n");
        }
    }
    assert!(wrong.is_empty(), "what docs/latency.md should have:\n{wrong}");
}

//! Measures what it costs to let a card rest: the table of docs/low-power.md.

use mmcq::block::BlockDevice;
use mmcq::card::power::{self, Off};
use mmcq::card::{Options, Rest, Upkeep, bring_up, supervise};
use mmcq_sim::bench::{Bench, buffer};
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const SECOND: u64 = 1_000_000_000;
static CLOCK: Upkeep = Upkeep::DEFAULT.rest(Rest::ClockOff { after_ns: SECOND / 10 });
static SLEEP: Upkeep = Upkeep::DEFAULT.rest(Rest::Sleep { after_ns: SECOND / 10 });

/// Returns the time of a read of 4 KiB, in ns.
fn read_ns(bench: &Bench) -> u64 {
    let begin_ns = bench.now_ns();
    bench.run(BlockDevice::new(bench.stack()).read(4096, buffer(8))).unwrap().0.unwrap();
    bench.now_ns() - begin_ns
}

/// Returns the time of a read of 4 KiB while a supervisor runs, in ns.
fn beside(bench: &Bench, mut supervisor: Pin<&mut impl Future>) -> u64 {
    let begin_ns = bench.now_ns();
    let device = BlockDevice::new(bench.stack());
    let mut read = pin!(device.read(4096, buffer(8)));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        assert!(supervisor.as_mut().poll(&mut context).is_pending());
        if let Poll::Ready((result, _)) = read.as_mut().poll(&mut context) {
            result.unwrap();
            return bench.now_ns() - begin_ns;
        }
        bench.step().unwrap();
    }
}

/// Returns the times of two reads in ns: one directly after another read, and one after a second in
/// which the supervisor lets the card rest.
fn rested(name: &str, upkeep: &'static Upkeep) -> (u64, u64) {
    let bench = Bench::new(name).unwrap();
    let options = Options::DEFAULT.upkeep(upkeep);
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), options)).unwrap();
    let mut supervisor = pin!(supervise(bench.stack(), scratch, options, card.unwrap()));
    let mut context = Context::from_waker(Waker::noop());
    beside(&bench, supervisor.as_mut());
    let plain_ns = beside(&bench, supervisor.as_mut());
    // In this second the supervisor works, too.
    let until_ns = bench.now_ns() + SECOND;
    let mut pause = pin!(bench.sleep(SECOND));
    while bench.now_ns() < until_ns {
        assert!(supervisor.as_mut().poll(&mut context).is_pending());
        assert!(pause.as_mut().poll(&mut context).is_pending());
        bench.step().unwrap();
    }
    assert_eq!(bench.stack().with(|engine| engine.bus().clock_hz), 0, "{name}: the clock goes on");
    (plain_ns, beside(&bench, supervisor.as_mut()))
}

/// Returns the times of two reads in ns: one directly after another read, and one after the supply
/// was off, including the bring-up of the card.
fn off(name: &str) -> (u64, u64) {
    let bench = Bench::new(name).unwrap();
    let (card, scratch) = bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap();
    read_ns(&bench);
    let plain_ns = read_ns(&bench);
    let (off, scratch) =
        bench.run(power::power_off(bench.stack(), &card.unwrap(), scratch, Off::Long)).unwrap();
    off.unwrap();
    bench.run(bench.sleep(SECOND)).unwrap();
    let begin_ns = bench.now_ns();
    bench.run(bring_up(bench.stack(), scratch, Options::DEFAULT)).unwrap().0.unwrap();
    read_ns(&bench);
    (plain_ns, bench.now_ns() - begin_ns)
}

#[test]
fn the_page_says_what_a_rest_costs() {
    let mut rows = String::new();
    for name in ["sdhc-16g-hs", "sdxc-64g-a2", "emmc-hs200"] {
        let emmc = name.starts_with("emmc");
        let slept = emmc.then(|| ("`Rest::Sleep`", rested(name, &SLEEP)));
        let all = [Some(("`Rest::ClockOff`", rested(name, &CLOCK))), slept, Some(("the supply", off(name)))];
        for (what, (plain_ns, after_ns)) in all.into_iter().flatten() {
            rows +=
                &format!("| `{name}` | {what} | {} | {} |\n", after_ns / 1000, (after_ns - plain_ns) / 1000);
        }
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/low-power.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("|---|---|---:|---:|\n").unwrap();
    let (found, _) = rest.split_once("<!-- end -->").unwrap();
    assert_eq!(found, rows, "what docs/low-power.md should have:\n{rows}");
}

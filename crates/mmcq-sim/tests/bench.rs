//! Tests of the bench: faults strike, power cuts take effect, any scheduler works, and programs can
//! wait.

use crate::timed::erased::Scheduled;
use mmcq::block::BlockDevice;
use mmcq::card::{Options, bring_up};
use mmcq::engine::Config;
use mmcq::host::sdhci;
use mmcq::sched::Fair;
use mmcq::sched::fair::FairConfig;
use mmcq_sim::bench::{Bench, BenchError, buffer, card_named};
use mmcq_sim::card::Kept;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

const MS: u64 = 1_000_000;

fn up(name: &str) -> Bench {
    let bench = Bench::new(name).unwrap();
    bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
    bench
}

/// Checks that faults reach the card in the slot, and a card that is inserted later.
#[test]
fn faults_reach_the_card() {
    let bench = up("sdhc-16g-hs");
    let write = |bench: &Bench| {
        let begin_ns = bench.now_ns();
        bench.run(BlockDevice::new(bench.stack()).write(8, buffer(1))).unwrap().0.unwrap();
        bench.now_ns() - begin_ns
    };
    let late = || Plan::none().from(Point::Busy, 1, Strike::Late(250 * MS));
    let plain_ns = write(&bench);
    bench.set_faults(late()).unwrap();
    assert!(write(&bench) > plain_ns + 249 * MS);
    bench.set_faults(Plan::none()).unwrap();
    assert!(write(&bench) < plain_ns + 10 * MS);

    drop(bench.remove());
    bench.set_faults(late()).unwrap();
    bench.insert(card_named("sdhc-16g-hs").unwrap());
    bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
    assert!(write(&bench) > 249 * MS);
}

#[test]
fn a_fault_that_can_never_strike_is_refused() {
    let bench = up("sdhc-16g-hs");
    for point in [Point::Exchange, Point::Doorbell, Point::List, Point::Function] {
        for plan in [
            Plan::none().shot(point, 1, Strike::Lost),
            Plan::none().from(point, 1, Strike::Lost),
            Plan::none().next(Point::Command, &[Strike::Lost]).shot(point, 9, Strike::Lost),
        ] {
            let told = bench.set_faults(plan);
            assert!(matches!(told, Err(BenchError::NeverStrikes(at)) if at == point), "{told:?}");
        }
    }
    bench.set_faults(Plan::none().shot(Point::Medium, 1, Strike::Lost)).unwrap();
    let functions = Bench::new("bt-type-a").unwrap();
    functions.set_faults(Plan::none().shot(Point::Function, 1, Strike::Lost)).unwrap();
}

/// Checks a power cut in the middle of a write, on a card without a cache and without any other
/// fault.
#[test]
fn a_cut_cuts() {
    let bench = up("sdhc-16g-hs");
    let device = BlockDevice::new(bench.stack());
    let mut buf = buffer(64);
    buf.fill(0x11);
    bench.run(device.write(0, buf)).unwrap().0.unwrap();
    let mut new = buffer(64);
    new.fill(0x22);
    {
        let mut write = pin!(device.write(0, new));
        let mut context = Context::from_waker(Waker::noop());
        assert!(write.as_mut().poll(&mut context).is_pending());
        // The cut comes after half of the data: 32 blocks at 25 MB/s take 0.66 ms.
        bench.run(bench.sleep(MS / 2)).unwrap();
        let mut asked = 0;
        bench.cut(&mut |_| {
            asked += 1;
            Kept::Old
        });
        assert!((1..=64).contains(&asked), "{asked} blocks at stake");
    }
    bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
    let (read, back) = bench.run(BlockDevice::new(bench.stack()).read(0, buffer(64))).unwrap();
    assert!(read.is_ok() && back.iter().all(|byte| *byte == 0x11), "new blocks are left");
}

#[test]
fn it_takes_any_scheduler_and_programs_that_wait() {
    let card = card_named("sdhc-16g-hs").unwrap();
    let (controller, driver) = (SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new());
    let fair = Scheduled::new(Fair::<4>::new(FairConfig::DEFAULT));
    let bench = Bench::with_policy(card, controller, driver, Config::DEFAULT, fair).unwrap();
    bench.run(bring_up(bench.stack(), buffer(1), Options::DEFAULT)).unwrap().0.unwrap();
    let device = BlockDevice::new(bench.stack());
    let begin_ns = bench.now_ns();
    let program = async {
        for _ in 0..10 {
            device.write(0, buffer(1)).await.0.unwrap();
            bench.sleep(100 * MS).await;
        }
    };
    bench.run(program).unwrap();
    let took_ms = (bench.now_ns() - begin_ns) / MS;
    assert!((1_000..1_100).contains(&took_ms), "{took_ms} ms");
}

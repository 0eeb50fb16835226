//! Tests of typical workloads, with an interrupt at every access to shared state, and a second
//! interrupt at every access of the first one's handler.

use crate::bench::{Bench, LATE_NS, Wired, Woken, poll_once};
use crate::io_card::{self, IoHost};
use crate::lock::{self, Interrupted, Plan, What};
use crate::one_thread::NOW_NS;
use crate::support::{self, TestHost, World, caps, target};
use mmcq::block::{BlockDevice, Bounced};
use mmcq::card::{IoCard, Options, bring_up_io};
use mmcq::engine::{Kind, Request};
use mmcq::host::{BusyDetect, Caps};
use mmcq::sdio::bluetooth::{Packet, TypeA};
use mmcq::sdio::{At, CardInterrupt, Chain, Function};
use mmcq::spec::command::send_status;
use mmcq::task::IrqTask;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Prints the plan of the interrupts if the run fails.
struct Report<'a>(&'a str, Plan);

impl Drop for Report<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: failed with {:?}", self.0, self.1);
        }
    }
}

/// Runs a workload with every plan of interrupts. `make` prepares each run without interrupts.
/// Returns the number of runs.
fn every<H: Wired + 'static, S>(
    name: &str,
    make: impl Fn() -> (Rc<Bench<H>>, S),
    workload: impl Fn(&Bench<H>, &S),
) -> u32 {
    let run = |plan| {
        let (bench, setup) = make();
        let _report = Report(name, plan);
        lock::arm(bench.clone(), plan);
        workload(&bench, &setup);
        let seen = lock::disarm();
        assert_eq!(bench.end(), 0);
        seen
    };
    let mut runs = 0;
    for what in [What::Turn, What::Late] {
        for first in 0.. {
            let [outside, inside] = run(Plan { what, first, second: None });
            runs += 1;
            if first >= outside {
                break;
            }
            for second in 0..inside {
                run(Plan { what, first, second: Some(second) });
                runs += 1;
            }
        }
    }
    println!("{name}: {runs} runs");
    runs
}

const BLOCKS: u64 = 64;

fn pattern(at: u64) -> u8 {
    (at * 7 + 3) as u8
}

fn memory_card(caps: Caps) -> (Rc<Bench<TestHost>>, Rc<std::cell::RefCell<World>>) {
    let world = World::new(BLOCKS);
    {
        let mut world = world.borrow_mut();
        world.caps = caps;
        world.busy_polls = 2;
        for (at, block) in (0..).zip(world.medium.chunks_mut(512)) {
            block.fill(pattern(at));
        }
    }
    let bench = Bench::new(TestHost::new(&world));
    bench.stack.with(|engine| engine.set_card_params(Some(target(BLOCKS))));
    (Rc::new(bench), world)
}

/// Runs a workload of a memory card on every kind of controller.
fn on_all_hosts(name: &str, workload: fn(&Bench<TestHost>)) {
    let hosts = [
        ("busy by interrupt", caps()),
        ("deferred completion", caps().defer_completion(true)),
        ("busy by status", caps().busy(BusyDetect::Status).auto_stop(false)),
        ("continued data", caps().continue_data(true).auto_stop(false).auto_count(false)),
    ];
    for (host, caps) in hosts {
        let runs = every(&format!("{name}, {host}"), || memory_card(caps), |bench, _| workload(bench));
        assert!(runs > 100, "{name}: hardly anything was interrupted");
    }
}

async fn reads(bench: &Bench<TestHost>, lba: u64, blocks: u32, expected: impl Fn(u64) -> u8) {
    let buf = bench.buffer(blocks * 512, 0xee);
    let (result, buf) = BlockDevice::new(&bench.stack).read(lba, buf).await;
    assert_eq!(result, Ok(blocks));
    for (at, block) in (lba..).zip(buf.chunks(512)) {
        assert!(block.iter().all(|&byte| byte == expected(at)), "block {at} has other data");
    }
    bench.back(buf);
}

async fn writes(bench: &Bench<TestHost>, lba: u64, blocks: u32, fill: u8) {
    let buf = bench.buffer(blocks * 512, fill);
    let (result, buf) = BlockDevice::new(&bench.stack).write(lba, buf).await;
    assert_eq!(result, Ok(blocks));
    bench.back(buf);
}

#[test]
fn read() {
    on_all_hosts("read", |bench| bench.run(reads(bench, 8, 4, pattern)));
}

#[test]
fn write_and_flush() {
    on_all_hosts("write and flush", |bench| {
        bench.run(async {
            writes(bench, 8, 4, 0x5a).await;
            BlockDevice::new(&bench.stack).flush().await.unwrap();
            reads(bench, 7, 3, |at| if at < 8 { pattern(at) } else { 0x5a }).await;
        });
    });
}

#[test]
fn write_in_any_memory() {
    on_all_hosts("copied write", |bench| {
        bench.run(async {
            let mut device = Bounced::new(BlockDevice::new(&bench.stack), support::buffer(2, 0)).unwrap();
            let data = vec![0x33; 3 * 512];
            assert_eq!(device.write(20, &data).await, Ok(3));
            let mut back = vec![0; 3 * 512];
            assert_eq!(device.read(20, &mut back).await, Ok(3));
            assert!(back == data);
        });
    });
}

#[test]
fn a_dropped_future() {
    on_all_hosts("dropped future", |bench| {
        bench.run(async {
            let buf = bench.buffer(1024, 0);
            let mut op = Box::pin(bench.stack.request(Request::new(Kind::Read { lba: 30, blocks: 2 }, buf)));
            match poll_once(op.as_mut(), Waker::noop()) {
                Some(done) => bench.back(done.buf),
                None => drop(op),
            }
            reads(bench, 40, 1, pattern).await;
        });
    });
}

#[test]
fn a_cancelled_request() {
    on_all_hosts("cancelled request", |bench| {
        let submit = |lba| {
            let request = Request::new(Kind::Read { lba, blocks: 1 }, bench.buffer(512, 0));
            let now_ns = bench.stack.now_ns();
            bench.stack.with(|engine| engine.submit(request, now_ns)).unwrap()
        };
        let ids = [submit(3), submit(9), submit(50)];
        for id in [ids[1], ids[0]] {
            if let Some(buf) = bench.stack.with(|engine| engine.cancel(id)) {
                bench.back(buf);
            }
        }
        let done = loop {
            if let Some(done) = bench.stack.with(|engine| engine.take(ids[2])) {
                break done;
            }
            // Submitted without the edges' help, so the alarm may not know of it.
            bench.stack.turn();
        };
        assert!(done.result.is_ok() && done.buf.iter().all(|&byte| byte == pattern(50)));
        bench.back(done.buf);
    });
}

#[test]
fn a_run_that_stays_open() {
    on_all_hosts("sequential run", |bench| {
        bench.run(async {
            for lba in 0..4 {
                reads(bench, 10 + lba, 1, pattern).await;
            }
            for lba in 0..3 {
                writes(bench, 20 + lba, 1, 0x77).await;
            }
            reads(bench, 19, 5, |at| if (20..23).contains(&at) { 0x77 } else { pattern(at) }).await;
        });
    });
}

#[test]
fn two_tasks_and_one_queue() {
    on_all_hosts("two tasks", |bench| {
        bench.drive(vec![
            Box::pin(async {
                writes(bench, 0, 2, 0x11).await;
                reads(bench, 0, 3, |at| if at < 2 { 0x11 } else { pattern(at) }).await;
            }),
            Box::pin(async {
                reads(bench, 40, 1, pattern).await;
                writes(bench, 41, 1, 0x22).await;
                BlockDevice::new(&bench.stack).flush().await.unwrap();
            }),
        ]);
    });
}

/// Marks a future as `Send`, since the test has only one thread.
struct Here<F>(F);
// SAFETY: everything of a test runs on its own thread.
unsafe impl<F> Send for Here<F> {}
impl<F: Future> Future for Here<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the field is pinned with the whole.
        unsafe { self.map_unchecked_mut(|here| &mut here.0) }.poll(context)
    }
}

/// A waker that polls its task when it is woken, as the last step of an interrupt.
struct Tail(Here<Rc<IrqTask<Interrupted>>>);
// SAFETY: as for `Here`; the waker stays on the thread of its test.
unsafe impl Sync for Tail {}

impl Wake for Tail {
    fn wake(self: Arc<Self>) {
        assert!(!lock::held(), "a waker is called under the lock");
        let waker = Waker::from(self.clone());
        assert!(!self.0.0.poll(&waker), "turns are left over");
    }
}

#[test]
fn straight_line_code_in_the_interrupt() {
    on_all_hosts("interrupt task", |bench| {
        let task = Rc::new(IrqTask::new(Interrupted::default()));
        let waker = Waker::from(Arc::new(Tail(Here(task.clone()))));
        let rounds = Cell::new(0);
        let chain = async {
            for rca in 1..=3 {
                bench.stack.command(send_status(rca), 1_000_000).await.unwrap();
                rounds.set(rounds.get() + 1);
            }
        };
        task.scope(Here(chain), &waker, || {
            while !task.is_finished() {
                assert!(bench.idle() || task.is_finished(), "a step was lost");
            }
        });
        assert_eq!(rounds.get(), 3);
    });
}

type IoWorld = Rc<std::cell::RefCell<io_card::World>>;

fn io_bench() -> (Rc<Bench<IoHost>>, (IoWorld, IoCard)) {
    let world = io_card::World::new(2);
    let bench = Bench::new(IoHost::new(&world));
    let (card, scratch) = bench.run(bring_up_io(&bench.stack, bench.buffer(512, 0), Options::DEFAULT));
    bench.back(scratch);
    (Rc::new(bench), (world, card.unwrap()))
}

fn arrives(world: &IoWorld, payload: &[u8]) {
    let header = ((payload.len() as u32 + 4) | 2 << 24).to_le_bytes();
    world.borrow_mut().type_a.incoming.push_back([&header[..], payload].concat());
}

#[test]
fn the_registers_and_fifo_of_a_function() {
    every("function", io_bench, |bench, (_, card)| {
        bench.run(async {
            let mut function = Function::new(&bench.stack, card, 2).unwrap();
            function.enable().await.unwrap();
            function.set_block_size(64).await.unwrap();
            let buf = bench.buffer(200, 0x5c);
            let (result, buf) = function.write(At::Fifo(0x30), 200, buf, Chain::Last).await;
            result.unwrap();
            bench.back(buf);
            let (result, buf) = function.read(At::Fifo(0x30), 200, bench.buffer(200, 0), Chain::Last).await;
            result.unwrap();
            assert!(buf.iter().all(|&byte| byte == 0x5c));
            bench.back(buf);
        });
    });
}

/// Tests packets that the card interrupt signals: each packet comes one time and in order, whenever
/// the interrupt line is read.
#[test]
fn packets_by_the_card_interrupt() {
    every("card interrupt", io_bench, |bench, (world, card)| {
        bench.run(async {
            let mut irq = CardInterrupt::new(&bench.stack, card);
            let bluetooth =
                TypeA::open(Function::new(&bench.stack, card, 1).unwrap(), &mut irq, 512).await.unwrap();
            let mut buf = bench.buffer(64, 0);
            for payload in [&b"first"[..], b"second"] {
                arrives(world, payload);
                let result;
                (result, buf) = bluetooth.receive(&mut irq, buf).await;
                assert_eq!(result, Ok(Packet { kind: 2, bytes: payload.len() as u32 }));
                assert_eq!(&buf[..payload.len()], payload);
            }
            bench.back(buf);
            assert_eq!(world.borrow().type_a.given_up, 0);
        });
    });
}

/// Tests an alarm that comes only when the time of a busy card is over, because the platform was
/// late: the card is polled one more time, and is ready.
#[test]
fn a_late_alarm_is_not_the_cards_fault() {
    for busy in [BusyDetect::Status, BusyDetect::Level] {
        let (bench, world) = memory_card(caps().busy(busy));
        world.borrow_mut().busy_polls = 1;
        let flag = Woken::new();
        let mut write = Box::pin(writes(&bench, 8, 4, 0x5a));
        let waker = Waker::from(flag.clone());
        let mut polls = 0;
        while poll_once(write.as_mut(), &waker).is_none() {
            polls += 1;
            assert!(polls < 10);
            if !bench.irq() {
                NOW_NS.set(NOW_NS.get() + 4 * LATE_NS);
                // The poll finds the command still running: no command ends in no time.
                world.borrow_mut().silent = true;
                bench.stack.poll();
                world.borrow_mut().silent = false;
            }
        }
        assert!(
            bench.stack.with(|engine| engine.stats().busy_polls) == 2,
            "asked once in time, and once late"
        );
        drop(write);
        assert_eq!(bench.end(), 0);
    }
}

#[test]
fn a_lost_buffer_is_noticed() {
    // Tests the bench itself: `end` must notice a buffer that does not come back.
    let (bench, _) = memory_card(support::caps());
    let _lost = bench.buffer(512, 0);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bench.end())).is_err());
}

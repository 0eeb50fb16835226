//! Runs the Linux models without registers, in front of a server whose service times are formulas.
//! A run takes a second and shows whether the scheduler, the tags and the workers alone reproduce
//! the published tables.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::elevator::Elevator;
use super::hsq::{Hsq, Order, Settings};
use super::port::EnginePort;
use super::worker::Worker;
use crate::board::TIMER;
use crate::ours::Ours;
use crate::platform::Defer;
use crate::system::{Costs, How, Io, Next, System, Workload};
use mmcq::board::NoLock;
use mmcq::engine::{CardParams, Config};
use mmcq::host::{
    BusOp, BusyDetect, Caps, Direction, DmaError, Done, Events, Host, Phase, Segment, StartError,
    Step as HostStep, Width,
};
use mmcq::sched::{Any, Fifo};
use mmcq::spec::response::Response;
use mmcq::task::Stack;
use mmcq_sim::charged::{CallCosts, Charged};
use mmcq_sim::cpu::Delay;
use mmcq_sim::time::Time;
use mmcq_sim::world::{Device, Stream};
use std::cell::RefCell;
use std::rc::Rc;

/// A card whose service times are formulas; times in microseconds.
#[derive(Clone, Copy)]
struct Card {
    command: f64,
    read4k: f64,
    write4k: f64,
    t_rand: f64,
    t_seq4k: f64,
    w0: f64,
    w4k: f64,
    drain_bytes_per_us: f64,
    cache_bytes: f64,
}

const HBG4A2: Card = Card {
    command: 0.56,
    read4k: 11.28,
    write4k: 11.68,
    t_rand: 100.5,
    t_seq4k: 40.2,
    w0: 24.2,
    w4k: 10.0,
    drain_bytes_per_us: 69.7 * 1.048_576,
    cache_bytes: 512.0 * 1024.0,
};

struct Server {
    card: Card,
    done_ns: Option<u64>,
    line: bool,
    drained_us: f64,
    transfers: u64,
    bytes: u64,
}

impl Device for Server {
    fn advance(&mut self, until_ns: u64) -> u64 {
        match self.done_ns {
            Some(at) if at <= until_ns => {
                self.done_ns = None;
                self.line = true;
                at
            }
            _ => until_ns,
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.done_ns
    }

    fn irq(&self) -> bool {
        self.line
    }
}

/// Makes a stack over this host driver that serves requests in the order of their arrival.
fn stack_over<const N: usize>(
    host: Charged<Formula>,
) -> Stack<(NoLock, Charged<Formula>, crate::platform::Profile), N> {
    Stack::with_policy(
        NoLock::new(),
        TIMER,
        host,
        Config::DEFAULT,
        crate::platform::profile(Any::Fifo(Fifo).into()),
    )
}

/// A host driver without registers; its service times come from the card's formulas.
struct Formula {
    server: Rc<RefCell<Server>>,
    time: Time,
    caps: Caps,
}

// SAFETY: it touches no memory.

unsafe impl Host for Formula {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, _: &mut Segment, _: Direction) -> Result<(), DmaError> {
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, _: &[Segment], _: u64) -> Result<(), StartError> {
        let mut s = self.server.borrow_mut();
        let s = &mut *s;
        let now = self.time.now() as f64 / 1e3;
        let c = s.card;
        let end = match phase.data {
            None => now + 0.52,
            Some(data) => {
                let n = f64::from(data.blocks) / 8.0;
                s.transfers += 1;
                s.bytes += u64::from(data.blocks) * 512;
                match data.direction {
                    Direction::Read => {
                        now + 2.0 * c.command + c.t_rand + (n - 1.0) * c.t_seq4k + n * c.read4k
                    }
                    Direction::Write => {
                        let end = now + 2.0 * c.command + n * c.write4k + c.w0 + n * c.w4k;
                        s.drained_us = s.drained_us.max(now) + n * 4096.0 / c.drain_bytes_per_us;
                        end.max(s.drained_us - c.cache_bytes / c.drain_bytes_per_us)
                    }
                }
            }
        };
        s.done_ns = Some((end * 1e3) as u64);
        Ok(())
    }

    fn ack(&mut self, _: &[Segment]) -> Events {
        let line = std::mem::take(&mut self.server.borrow_mut().line);
        let done = Done { response: Response { words: [0x900, 0, 0, 0] }, ..Done::default() };
        Events { phase: line.then_some(Ok(done)), ..Events::default() }
    }

    fn set_bus(&mut self, _: BusOp, _: bool, _: u64) -> HostStep {
        HostStep::Done
    }

    fn dat0_busy(&self) -> bool {
        false
    }

    fn present(&self) -> bool {
        true
    }
}

/// Jobs that read or write 4 KiB at a time. They end after a total number of I/Os, which they
/// share.
struct Jobs {
    direction: Direction,
    random: Option<Stream>,
    positions: Vec<u64>,
    left: u64,
    warm_up: u64,
    began: Vec<u64>,
    busy: Vec<bool>,
    from_ns: u64,
    counted: u64,
    latencies_us: Vec<u64>,
}

impl Jobs {
    fn new(direction: Direction, random: bool, jobs: usize, total: u64) -> Self {
        Jobs {
            direction,
            random: random.then(|| Stream::new(7, "lba")),
            positions: vec![0; jobs],
            left: total,
            warm_up: total / 10,
            began: vec![0; jobs],
            busy: vec![false; jobs],
            from_ns: 0,
            counted: 0,
            latencies_us: Vec::new(),
        }
    }

    fn percentile(&mut self, share: f64) -> u64 {
        self.latencies_us.sort_unstable();
        self.latencies_us
            [((self.latencies_us.len() as f64 * share) as usize).min(self.latencies_us.len() - 1)]
    }
}

impl Workload for Jobs {
    fn jobs(&self) -> u32 {
        self.positions.len() as u32
    }

    fn memory(&self) -> (usize, usize) {
        (self.positions.len(), 4096)
    }

    fn next(&mut self, job: u32, now_ns: u64) -> Next {
        let busy = &mut self.busy[job as usize];
        if *busy {
            return Next::Wait;
        }
        if self.left == 0 {
            return Next::Finished;
        }
        *busy = true;
        self.left -= 1;
        let lba = match &mut self.random {
            Some(stream) => (u64::from(job) * (1 << 18) + stream.below(1 << 18)) * 8,
            None => {
                self.positions[job as usize] += 8;
                self.positions[job as usize] - 8
            }
        };
        self.began[job as usize] = now_ns;
        Next::Io(Io {
            job,
            core: 0,
            direction: self.direction,
            how: How::Plain,
            sync: true,
            lba,
            blocks: 8,
            buffer: 0,
            skip: 0,
        })
    }

    fn done(&mut self, io: &Io, ok: bool, _: &[u8], now_ns: u64) {
        assert!(ok);
        self.busy[io.job as usize] = false;
        if self.warm_up > 0 {
            self.warm_up -= 1;
            self.from_ns = now_ns;
        } else {
            self.counted += 1;
            self.latencies_us.push((now_ns - self.began[io.job as usize]) / 1000);
        }
    }
}

fn delay(us: u64) -> Delay {
    Delay { mean_ns: us * 1000, tail_share: 0.0, tail_ns: 0 }
}

fn hsq_costs() -> Costs {
    Costs {
        irq_ns: 2500,
        done_ns: 500,
        start_ns: 2000,
        poll_ns: 1600,
        dispatch_ns: 3000,
        prep_ns: 7000,
        softirq_ns: 6000,
        syscall: delay(0),
        user: delay(10),
        job_wake: delay(20),
        wake: Delay { mean_ns: 26_500, ..Delay::default() },
        hop: delay(28),
        retry_ns: 1_000_000,
        ..Costs::default()
    }
}

#[derive(Clone, Copy, Debug)]
enum Setting {
    None,
    Tag,
    Fifo,
    Ours,
}

/// Runs the jobs with the Linux model `setting` on this card. `costs`: CPU times; `cores`: number
/// of CPU cores; `migration`: see [`System::new`]. Returns the rate in MiB/s, the mean number of
/// I/Os in a transfer, and the jobs with their results.
fn run(
    card: Card,
    costs: Costs,
    cores: u8,
    migration: f64,
    setting: Setting,
    mut jobs: Jobs,
) -> (f64, f64, Jobs) {
    let time = Time::new();
    let server = Server { card, done_ns: None, line: false, drained_us: 0.0, transfers: 0, bytes: 0 };
    let server = Rc::new(RefCell::new(server));
    let mut sys = System::new(time.clone(), cores, migration, costs, jobs.jobs(), 1);
    let caps = Caps::NONE
        .auto_stop(true)
        .auto_count(true)
        .no_count(false)
        .busy(BusyDetect::Interrupt)
        .max_busy_ns(u64::MAX)
        .max_segments(128)
        .max_segment_bytes(65536)
        .max_block_bytes(512)
        .max_blocks(65535)
        .max_bytes(1 << 20)
        .align(4)
        .dma_bits(32)
        .clock_hz((400_000, 200_000_000))
        .width(Width::W8)
        .timings(u16::MAX)
        .signal18(true)
        .fixed(true);
    let target = CardParams::sd(1, 1 << 32);
    let calls = CallCosts {
        start_data_ns: costs.start_ns,
        start_command_ns: costs.poll_ns,
        ack_ns: costs.irq_ns,
        ..CallCosts::default()
    };
    let host = Charged::new(Formula { server: server.clone(), time: time.clone(), caps }, time, calls);
    let mut device = Line(server.clone());
    let elevator = Elevator::default();
    let order = match setting {
        Setting::Tag => Order::Tag,
        _ => Order::Fifo,
    };
    let end = match setting {
        Setting::Ours => {
            let stack = stack_over::<64>(host);
            stack.with(|engine| engine.set_card_params(Some(target)));
            let mut front = Ours::new(stack, &mut sys, jobs.jobs());
            sys.run(&mut front, &mut device, &mut jobs).unwrap()
        }
        Setting::None => {
            let port = EnginePort::new(stack_over(host), target, 1 << 20);
            let mut front = Worker::new(port, elevator, &mut sys, 1);
            sys.run(&mut front, &mut device, &mut jobs).unwrap()
        }
        Setting::Tag | Setting::Fifo => {
            let port = EnginePort::new(stack_over(host), target, 1 << 20);
            let mut front = Hsq::new(port, Settings { order, defer: Defer::Never }, elevator, &mut sys, 1);
            sys.run(&mut front, &mut device, &mut jobs).unwrap()
        }
    };
    let s = server.borrow();
    (
        jobs.counted as f64 * 4096.0 / 1.048_576 / ((end - jobs.from_ns) as f64 / 1e3),
        s.bytes as f64 / 4096.0 / s.transfers as f64,
        jobs,
    )
}

struct Line(Rc<RefCell<Server>>);

impl Device for Line {
    fn advance(&mut self, until_ns: u64) -> u64 {
        self.0.borrow_mut().advance(until_ns)
    }
    fn next_event_ns(&self) -> Option<u64> {
        self.0.borrow().next_event_ns()
    }
    fn irq(&self) -> bool {
        self.0.borrow().irq()
    }
}

#[test]
fn the_software_queue_helps_random_and_not_sequential_access() {
    let n = 20_000;
    let go = |direction, random, setting| {
        let (rate, merge, _) = run(HBG4A2, hsq_costs(), 8, 0.3, setting, Jobs::new(direction, random, 20, n));
        (rate, merge)
    };
    let near = |model: f64, published: f64, share: f64| {
        assert!((model / published - 1.0).abs() < share, "{model} is not {published}");
    };
    near(go(Direction::Read, true, Setting::None).0, 27.04, 0.02);
    near(go(Direction::Read, true, Setting::Tag).0, 31.36, 0.08);
    near(go(Direction::Write, true, Setting::None).0, 35.96, 0.02);
    near(go(Direction::Write, true, Setting::Tag).0, 68.76, 0.08);
    assert!(go(Direction::Write, true, Setting::Ours).0 > go(Direction::Write, true, Setting::Fifo).0);
    // The queue takes more requests out of the scheduler, so fewer I/Os merge into each.
    let (without, with) =
        (go(Direction::Read, false, Setting::None).1, go(Direction::Read, false, Setting::Tag).1);
    assert!(without > 4.3 && with < 4.2 && without > with + 0.5, "{without} {with}");
}

fn fifo_costs() -> Costs {
    let tail = |us| Delay { tail_share: 0.0015, tail_ns: 150_000, ..delay(us) };
    Costs {
        syscall: delay(125),
        user: delay(0),
        job_wake: tail(25),
        wake: tail(25),
        hop: tail(25),
        ..hsq_costs()
    }
}

#[test]
fn the_order_of_tags_starves_and_first_in_first_out_does_not() {
    let card = Card { t_rand: 143.3, ..HBG4A2 };
    let ratio = |setting| {
        let (_, _, mut jobs) =
            run(card, fifo_costs(), 8, 0.3, setting, Jobs::new(Direction::Read, true, 8, 60_000));
        jobs.percentile(0.9995) as f64 / jobs.percentile(0.5) as f64
    };
    let (tag, fifo) = (ratio(Setting::Tag), ratio(Setting::Fifo));
    assert!(tag > 20.0 && fifo < 3.0, "{tag} {fifo}");
}

//! The SDIO experiment: a Bluetooth card on a slow CPU, and the contexts that advance the six steps
//! of each packet.
//!
//! - The machine: `machine.rs` is the CPU, `model.rs` the controller, `host.rs` its driver with CPU
//!   costs.
//! - The stacks: `linux.rs` has the historic drivers, `ours.rs` mmcq's engine. mmcq's engine stays
//!   in the interrupt or leaves it as [`mmcq::advance`] decides.
//! - The measurement: `platform.rs` reads the board's file, `trace.rs` finds the steps in the bus
//!   events, `spin.rs` compares the ways to wait.
//! - The picture: `packet.rs` records one packet, and `stacked.rs` draws it.
//! - A function that a user describes in a file: `load.rs` reads its file, `scripted.rs` is the
//!   card's side, `served.rs` the driver's side, and `rounds.rs` finds its steps on the bus.

pub mod host;
pub mod linux;
pub mod load;
pub mod machine;
pub mod model;
pub mod ours;
pub mod packet;
pub mod platform;
pub mod rounds;
pub mod scripted;
pub mod served;
pub mod spin;
pub mod stacked;
pub mod trace;

use crate::platform::PlatformError;
use host::Priced;
use linux::{Advance, Chain, Plan};
use machine::{Handler, Machine, Thief};
use mmcq::advance::WaitStrategy as Policy;
use mmcq::board::NoLock;
use mmcq::card::{self, Options};
use mmcq::engine::{Config, DmaBuf};
use mmcq::host::s3c_sdi::DmaUse;
use mmcq::sdio::bluetooth::TypeA;
use mmcq::sdio::{self, CardInterrupt, Function};
use mmcq::task::{IrqTask, Timer};
use mmcq_sim::card::io::{Behind, IoCard, IoProfile, type_a};
use mmcq_sim::memory::{MemoryConfig, ShadowMemory};
use mmcq_sim::time::Time;
use model::Model;
use ours::{Alone, Here, InIrq, Ours, Stay};
use platform::Board;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use trace::Trace;

/// Shared handle of mmcq's engine with a host driver whose calls cost CPU time.
pub type Stack = mmcq::task::Stack<(NoLock, Priced), 4>;

thread_local!(static CLOCK: RefCell<Time> = RefCell::new(Time::new()));
const TIMER: Timer = Timer { now_ns: || CLOCK.with(|clock| clock.borrow().now()), set_alarm: |_| {} };

/// Name of the built-in I/O card.
pub const CARD_NAME: &str = "bt-type-a";
/// Profile text of a second function on the card, which may also interrupt. So the driver must read
/// INTx, which shows which function did.
const NEIGHBOUR: &str = "\n[[io.function]]\nsource = \"prior\"\nkind = \"loopback\"\nclass = 0\n\
    max_block_bytes = 512\nenable_us = 5000\nenable_timeout_ms = 1000\naccess_us = 2\nwrite_busy_us = 0\n";
const BLOCK_BYTES: u16 = 512;
/// Longest time in ns that the card's bring-up may take; it needs some tens of milliseconds.
const BRING_UP_LIMIT_NS: u64 = 10_000_000_000;
/// Time in ns for which the machine handles packets before the measurement begins.
const WARM_UP_NS: u64 = 40_000_000;

fn profile() -> &'static str {
    mmcq_sim::cards::named(CARD_NAME).unwrap_or_default()
}

/// Returns the profile of the built-in card [`CARD_NAME`].
pub fn card() -> Result<IoProfile, mmcq_sim::card::ProfileError> {
    IoProfile::from_toml(profile(), CARD_NAME)
}

/// Stack that handles a packet, and the context (interrupt, tasklet or thread) in which it starts
/// the packet's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A model of a Linux driver, as the driver was or as a patch proposed it.
    Linux(Advance),
    /// mmcq's engine starts the steps of a packet.
    Ours {
        /// Events for which the interrupt handler may wait, instead of leaving the interrupt.
        stay: Stay,
        /// Whether the engine has its own CPU costs (its path lengths) instead of Linux's costs.
        own: bool,
        /// Whether DMA transfers the payload.
        dma: bool,
        /// Whether two functions may interrupt, so that the driver must read INTx.
        asks: bool,
    },
}

/// Result of a run of the SDIO experiment.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Latencies in ns, sorted. Each is the time from an interrupt of the function to the end of
    /// the command that clears it.
    pub latency_ns: Vec<u64>,
    /// Rate in kcycles/s of the counter that runs while the CPU is idle.
    pub kcycles: f64,
    /// For each step of a packet, the mean time in ns from the end of the step before to the end of
    /// this step.
    pub steps_ns: Vec<(trace::Step, f64)>,
    /// Time in ns per packet for which the controller stopped the bus clock because its FIFO had no
    /// room.
    pub held_ns: f64,
    /// Number of packets that the driver received.
    pub packets: u64,
    /// Number of packets lost in the card because they were not read in time.
    pub overrun: u64,
    /// Number of interrupts of the CPU per packet.
    pub interrupts: f64,
    /// Number of wake-ups of the stack's thread per packet.
    pub wakes: f64,
    /// Length in ns of the measurement, after the warm-up.
    pub for_ns: u64,
    /// Number of context switches of the CPU per second.
    pub switches_per_s: f64,
    /// Mean time in ns from the end of a command, or of its data, to the start of the next command.
    /// In this time the completion reaches the waiting code, and that code runs.
    pub completion_ns: f64,
}

impl Outcome {
    /// Returns the mean of the latencies in ns.
    pub fn mean_ns(&self) -> f64 {
        self.latency_ns.iter().sum::<u64>() as f64 / self.latency_ns.len().max(1) as f64
    }

    /// Returns the latency in ns that `percent` of the interrupts do not exceed.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let rank = (percent / 100.0 * self.latency_ns.len() as f64).ceil() as usize;
        self.latency_ns.get(rank.max(1) - 1).copied().unwrap_or(0)
    }
}

/// Reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The board's file is not valid.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The card's file is not valid.
    #[error("{0}")]
    Card(String),
    /// The controller cannot be set up.
    #[error("{0}")]
    Setup(String),
    /// The card cannot be brought up.
    #[error("bring-up: {0}")]
    BringUp(sdio::IoError),
    /// Bring-up did not end; the field is the time in ns. No further event was planned then, or the
    /// limit for the time of a bring-up had been reached.
    #[error("bring-up: not done after {0} ns")]
    Stuck(u64),
    /// Commands failed, or packets arrived damaged; the field is their number.
    #[error("{0} commands failed")]
    Commands(u64),
    /// The card's function got register accesses that do not belong to the transfer of a packet;
    /// the field is their number.
    #[error("{0} accesses are no step of a packet")]
    Stray(u64),
}

/// Parameters of one run of the SDIO experiment.
pub struct Run<'a> {
    /// Board on which the experiment runs.
    pub board: &'a Board,
    /// Stack that handles a packet, and the context (interrupt, tasklet or thread) in which it
    /// starts the packet's next command.
    pub way: Way,
    /// Another device whose driver takes CPU time from the measured stack; `None`: there is none.
    pub thief: Option<Thief>,
    /// Length in ns of the measurement.
    pub for_ns: u64,
    /// Seed of the random times of the CPU and of the other device.
    pub seed: u64,
}

/// A controller model with its card, the host driver and mmcq's engine.
struct Bench {
    time: Time,
    model: Model,
    host: Priced,
    stack: Stack,
    counts: type_a::Handle,
}

impl Bench {
    fn new(board: &Board, dma: DmaUse, neighbour: bool) -> Result<Self, Failure> {
        let text = profile().to_owned() + if neighbour { NEIGHBOUR } else { "" };
        let mut profile =
            IoProfile::from_toml(&text, &board.card).map_err(|error| Failure::Card(error.to_string()))?;
        for behind in profile.behind_mut() {
            if let Behind::TypeA(source) = behind {
                source.packets = None;
            }
        }
        let (card, handles) = profile.build();
        let Some((_, counts)) = handles.into_iter().next() else {
            return Err(Failure::Card(format!("card {}: no Type-A function", board.card)));
        };
        Bench::with(board, dma, card, counts)
    }

    /// Makes the bench of this board with this card; `counts` are the counters of the card's
    /// function.
    fn with(board: &Board, dma: DmaUse, card: IoCard, counts: type_a::Handle) -> Result<Self, Failure> {
        let time = Time::new();
        CLOCK.with(|clock| *clock.borrow_mut() = time.clone());
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let model = Model::new(board, &memory, Box::new(card));
        let host = Priced::new(board, model.clone(), memory, time.clone(), dma).map_err(Failure::Setup)?;
        let stack = Stack::new(NoLock::new(), TIMER, host.clone(), Config::DEFAULT);
        Ok(Bench { time, model, host, stack, counts })
    }

    /// Runs a future to its end, calling the engine at interrupts and deadlines. This costs no CPU
    /// time.
    fn drive<F: Future>(&self, future: F) -> Result<F::Output, Failure> {
        let mut future = pin!(future);
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Ok(output);
            }
            let now = self.time.now();
            let deadline = self.stack.with(|engine| engine.next_deadline_ns());
            if !self.model.irq() {
                let next = self.model.next_event_ns();
                let until = deadline.or(next).filter(|_| now < BRING_UP_LIMIT_NS);
                let until = until.ok_or(Failure::Stuck(now))?.max(now);
                let reached = self.model.advance(until);
                self.time.set(reached.max(now));
            }
            if self.model.irq() { self.stack.on_irq() } else { self.stack.poll() }
        }
    }

    /// Runs the machine through the warm-up and the measurement, and returns the result of the
    /// measurement.
    fn measure(&self, run: &Run<'_>, m: &mut Machine, handler: &mut dyn Handler) -> Outcome {
        let (outcome, trace) = self.measure_by(run, m, handler, Trace::start);
        Outcome { steps_ns: trace.steps(), completion_ns: trace.completion_ns(), ..outcome }
    }

    /// Runs warm-up and measurement like [`measure`](Self::measure). `listen` makes the observer of
    /// the bus that measures the steps of a packet. It is called after the warm-up, and its
    /// observer is returned.
    fn measure_by<L>(
        &self,
        run: &Run<'_>,
        m: &mut Machine,
        handler: &mut dyn Handler,
        listen: impl FnOnce(&Model) -> L,
    ) -> (Outcome, L) {
        m.run(handler, WARM_UP_NS);
        let listener = listen(&self.model);
        m.watch();
        self.model.take_stats();
        self.counts.borrow_mut().latency_ns.clear();
        let (busy_ns, interrupts, overrun) = (m.busy_ns(), m.interrupts(), self.counts.borrow().overrun);
        let delivered = self.counts.borrow().delivered;
        let (wakes, switches) = m.switches();
        m.run(handler, run.for_ns);
        let busy_ns = m.busy_ns() - busy_ns;
        let stats = self.model.take_stats();
        let counts = self.counts.borrow();
        let packets = counts.delivered - delivered;
        // The function acts at the end of the command's token; the step ends with the response.
        let response_ns = trace::RESPONSE_CLK * 1_000_000_000 / u64::from(run.board.clock_hz);
        let mut latency_ns: Vec<u64> = counts.latency_ns.iter().map(|ns| ns + response_ns).collect();
        latency_ns.sort_unstable();
        let idle = 1.0 - busy_ns as f64 / run.for_ns as f64;
        let each = |total: u64| total as f64 / packets.max(1) as f64;
        let outcome = Outcome {
            latency_ns,
            kcycles: run.board.idle_kcycles * idle.max(0.0),
            steps_ns: Vec::new(),
            held_ns: each(stats.held_ns),
            packets,
            overrun: counts.overrun - overrun,
            interrupts: each(m.interrupts() - interrupts),
            wakes: each(m.switches().0 - wakes),
            for_ns: run.for_ns,
            switches_per_s: (m.switches().1 - switches) as f64 / (run.for_ns as f64 / 1e9),
            completion_ns: 0.0,
        };
        (outcome, listener)
    }
}

fn buffer(bytes: usize) -> DmaBuf {
    DmaBuf::from_static(Box::leak(vec![0u8; bytes].into_boxed_slice()))
}

/// Runs the experiment with the built-in card, and returns its results.
pub fn run(run: &Run<'_>) -> Result<Outcome, Failure> {
    let (dma, asks, own) = match run.way {
        Way::Linux(_) => (false, false, false),
        Way::Ours { dma, asks, own, .. } => (dma, asks, own),
    };
    let costs = if own { run.board.own_costs() } else { run.board.cost };
    let pays = costs.advance().dma_from_bytes();
    let dma = pays.filter(|_| dma).map_or(DmaUse::Never, DmaUse::From);
    let bench = Bench::new(run.board, dma, asks)?;
    let stack = &bench.stack;
    let brought = bench.drive(async {
        let (card, _) = card::bring_up_io(stack, buffer(512), Options::DEFAULT).await;
        let card = card?;
        let function = Function::new(stack, &card, 1)?;
        let mut irq = CardInterrupt::new(stack, &card);
        if asks {
            irq.enable(2).await?;
        }
        let bluetooth = TypeA::open(function, &mut irq, BLOCK_BYTES).await?;
        Ok((bluetooth, irq))
    })?;
    let (bluetooth, mut irq) = brought.map_err(Failure::BringUp)?;
    bench.host.set_costs(costs);
    let (time, model) = (bench.time.clone(), bench.model.clone());
    let mut machine = Machine::new(time, model, costs, run.thief, run.seed);
    match run.way {
        Way::Linux(advance) => {
            let mut chain = Chain::new(bench.host.clone(), advance, Plan::type_a(), machine.time.now());
            let outcome = bench.measure(run, &mut machine, &mut chain);
            if chain.failures == 0 { Ok(outcome) } else { Err(Failure::Commands(chain.failures)) }
        }
        Way::Ours { stay, .. } => {
            let received = Rc::new(Cell::new(0));
            let failed = Cell::new(0);
            let driver = Here(async {
                let mut buf = buffer(2048);
                loop {
                    let packet;
                    (packet, buf) = bluetooth.receive(&mut irq, buf).await;
                    match packet {
                        Ok(_) => received.set(received.get() + 1),
                        Err(_) => failed.set(failed.get() + 1),
                    }
                }
            });
            let advance = Policy::new(costs.advance());
            advance.set_bus(stack.with(|engine| engine.bus()));
            let mut ours = Ours::new(stack, bench.host.clone(), stay, advance, Rc::clone(&received));
            // The task must live as long as the wakers that may point to it.
            let task: &'static IrqTask<Alone> = Box::leak(Box::new(IrqTask::new(Alone::new())));
            let waker = Waker::from(Arc::new(InIrq(task)));
            let outcome = task.scope(driver, &waker, || bench.measure(run, &mut machine, &mut ours));
            let faults = failed.get();
            outcome.filter(|_| faults == 0).ok_or(Failure::Commands(faults))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::NAME;

    fn second(stay: Stay, own: bool, dma: bool) -> Outcome {
        let board = Board::load(NAME).unwrap();
        let way = Way::Ours { stay, own, dma, asks: false };
        run(&Run { board: &board, way, thief: None, for_ns: 1_000_000_000, seed: 1 }).unwrap()
    }

    #[test]
    fn a_second_by_the_cpu_has_all_its_packets() {
        let outcome = second(Stay::Never, true, false);
        assert_eq!((outcome.packets, outcome.overrun), (250, 0));
        let steps: Vec<trace::Step> = outcome.steps_ns.iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, trace::Step::ALL[2..]);
    }

    #[test]
    fn a_second_by_dma_has_all_its_packets() {
        let outcome = second(Stay::Never, true, true);
        assert_eq!((outcome.packets, outcome.overrun), (250, 0));
        // One interrupt of the card, and one for each of five commands.
        assert!((outcome.interrupts - 6.0).abs() < 0.05, "{}", outcome.interrupts);
    }

    #[test]
    fn one_seed_gives_one_result() {
        let board = Board::load(NAME).unwrap();
        let thief = Some(Thief { hold_ns: 12_000_000, per_second: 20.0 });
        let way = Way::Linux(Advance::Thread);
        let once =
            |seed| run(&Run { board: &board, way, thief, for_ns: 1_000_000_000, seed }).unwrap().latency_ns;
        assert_eq!(once(1), once(1));
        assert_ne!(once(1), once(2));
        assert!(once(1).last().is_some_and(|&ns| ns > 1_000_000), "the thief holds the thread up");
    }
}

//! Runs an SDIO function that the user has described in a file, on a board, in several settings.

use super::linux::{Chain, Plan};
use super::load::{Load, Step};
use super::machine::Machine;
use super::ours::{Alone, Here, InIrq, Ours};
use super::packet::SETTINGS;
use super::platform::Board;
use super::rounds::{Means, Rounds};
use super::scripted::Scripted;
use super::{Bench, CARD_NAME, Failure, Outcome, Policy, Run, Stack, Way, buffer, profile};
use crate::trace::{Capture, Start, Window, WindowError};
use mmcq::board::NoLock;
use mmcq::card::{self, Options};
use mmcq::engine::DmaBuf;
use mmcq::host::s3c_sdi::DmaUse;
use mmcq::sdio::{At, CardInterrupt, Chain as Turn, Function, IoError};
use mmcq::task::IrqTask;
use mmcq_sim::card::io::{IoCard, IoProfile};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

/// A function of the card, accessed through mmcq's engine.
type Io<'a> = Function<'a, (NoLock, super::Priced), 4>;
/// The card interrupt, received through mmcq's engine.
type Irq<'a> = CardInterrupt<'a, (NoLock, super::Priced), 4>;

/// Result of a run with an I/O function that the user described in a file.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Result in the same form as for the built-in function; its `steps_ns` is empty.
    pub outcome: Outcome,
    /// Mean times of the commands by which the driver handles one packet of the user's SDIO
    /// function, and of the pauses between these commands.
    pub means: Means,
}

/// Makes a controller model, a card with the SDIO function that the user has described (`load`),
/// and the driver. `dma`: which buffers the driver transfers by DMA.
fn bench(board: &Board, load: &Load, dma: DmaUse) -> Result<Bench, Failure> {
    let of_card = IoProfile::from_toml(profile(), CARD_NAME);
    let mut of_card = of_card.map_err(|error| Failure::Card(error.to_string()))?;
    let function = Scripted::new(load);
    let counts = function.counts();
    let card = IoCard::new(of_card.config_mut().clone(), vec![Box::new(function)]);
    Bench::with(board, dma, card, counts)
}

/// Executes one step of a packet (a CMD52, or CMD53 commands) through mmcq's engine. Returns the
/// byte that was read, if the step reads one register; otherwise `None`.
async fn does(
    function: &Io<'_>,
    step: &Step,
    turn: Turn,
    buffer: &RefCell<DmaBuf>,
) -> Result<Option<u8>, IoError> {
    let Some(bytes) = step.bytes else {
        return match (step.write, step.function) {
            (true, _) => function.write_u8(step.address, step.value, turn).await.map(|()| None),
            (false, 0) => function.read_common_u8(step.address, turn).await.map(Some),
            (false, _) => function.read_u8(step.address, turn).await.map(Some),
        };
    };
    let at = if step.increments { At::From(step.address) } else { At::Fifo(step.address) };
    let memory = buffer.replace(DmaBuf::EMPTY);
    let (result, memory) = match step.write {
        true => function.write(at, bytes, memory, turn).await,
        false => function.read(at, bytes, memory, turn).await,
    };
    buffer.replace(memory);
    result.map(|()| None)
}

/// Executes the steps of one packet. Returns false if a poll finds no packet.
async fn packet(function: &Io<'_>, load: &Load, buffer: &RefCell<DmaBuf>) -> Result<bool, IoError> {
    for (step, n) in load.steps.iter().zip(1..) {
        let turn = if n == load.steps.len() { Turn::Last } else { Turn::More };
        let read = does(function, step, turn, buffer).await?;
        if n == 1 && load.poll_ns.is_some() && read == Some(0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings the card up and enables the function. Enables the function's interrupt unless the driver
/// polls.
async fn open<'a>(stack: &'a Stack, load: &Load) -> Result<(Io<'a>, Irq<'a>), IoError> {
    let (card, _) = card::bring_up_io(stack, buffer(512), Options::DEFAULT).await;
    let card = card?;
    let mut function = Function::new(stack, &card, super::load::FUNCTION)?;
    let mut irq = CardInterrupt::new(stack, &card);
    function.reset().await?;
    function.set_block_size(load.block_bytes).await?;
    if load.poll_ns.is_none() {
        irq.enable(function.number()).await?;
    }
    Ok((function, irq))
}

/// Runs a load on a board in one setting.
///
/// # Errors
/// The card cannot be brought up, or a command fails.
pub fn run(board: &Board, load: &Load, way: Way, seed: u64) -> Result<Seen, Failure> {
    let board = &load.on(board);
    let (dma, own) = match way {
        Way::Linux(_) => (false, false),
        Way::Ours { dma, own, .. } => (dma, own),
    };
    let costs = if own { board.own_costs() } else { board.cost };
    let dma = costs.advance().dma_from_bytes().filter(|_| dma).map_or(DmaUse::Never, DmaUse::From);
    let bench = bench(board, load, dma)?;
    let stack = &bench.stack;
    let (function, mut irq) = bench.drive(open(stack, load))?.map_err(Failure::BringUp)?;
    bench.host.set_costs(costs);
    let (time, model) = (bench.time.clone(), bench.model.clone());
    let run = Run { board, way, thief: None, for_ns: load.for_ns, seed };
    let mut machine = Machine::new(time.clone(), model, costs, None, seed);
    let listen = |model: &_| Rounds::start(load, model);
    let now_ns = time.now();
    let (outcome, rounds) = match way {
        Way::Linux(advance) => {
            let plan = Plan { phases: load.phases(), poll_ns: load.poll_ns };
            let mut chain = Chain::new(bench.host.clone(), advance, plan, now_ns);
            let seen = bench.measure_by(&run, &mut machine, &mut chain, listen);
            if chain.failures > 0 {
                return Err(Failure::Commands(chain.failures));
            }
            seen
        }
        Way::Ours { stay, .. } => {
            let (received, failed) = (Rc::new(Cell::new(0)), Cell::new(0));
            let advance = Policy::new(costs.advance());
            advance.set_bus(stack.with(|engine| engine.bus()));
            let mut ours = Ours::new(stack, bench.host.clone(), stay, advance, Rc::clone(&received));
            let looks = Rc::clone(&ours.looks);
            let driver = Here(async {
                let memory = RefCell::new(buffer(load.bytes_max().next_multiple_of(512) as usize));
                let mut next_ns = now_ns;
                loop {
                    let waited = match load.poll_ns {
                        None => irq.wait().await,
                        Some(poll_ns) => {
                            next_ns += (time.now().saturating_sub(next_ns) / poll_ns + 1) * poll_ns;
                            looks.until(next_ns).await;
                            Ok(())
                        }
                    };
                    failed.set(failed.get() + u64::from(waited.is_err()));
                    loop {
                        match packet(&function, load, &memory).await {
                            Ok(true) => received.set(received.get() + 1),
                            Ok(false) => break,
                            Err(_) => failed.set(failed.get() + 1),
                        }
                        if load.poll_ns.is_none() {
                            break irq.ack();
                        }
                    }
                }
            });
            // The task must live as long as the wakers that may point to it.
            let task: &'static IrqTask<Alone> = Box::leak(Box::new(IrqTask::new(Alone::new())));
            let waker = Waker::from(Arc::new(InIrq(task)));
            let measure = || bench.measure_by(&run, &mut machine, &mut ours, listen);
            let seen = task.scope(driver, &waker, measure);
            let faults = failed.get();
            seen.filter(|_| faults == 0).ok_or(Failure::Commands(faults))?
        }
    };
    let stray = bench.counts.borrow().stray;
    if stray > 0 {
        return Err(Failure::Stray(stray));
    }
    let means = rounds.means();
    Ok(Seen { outcome: Outcome { completion_ns: means.completion_ns, ..outcome }, means })
}

/// Returns the stack and context that a setting's name stands for.
///
/// # Errors
/// No setting has this name; the error is one line of text.
pub fn way(setting: &str) -> Result<Way, String> {
    let known = SETTINGS.iter().find(|(name, _)| *name == setting);
    known.map(|(_, way)| *way).ok_or_else(|| {
        let names = SETTINGS.map(|(name, _)| name).join(", ");
        format!("{setting}: no way to advance a function's steps; expected one of {names}")
    })
}

/// Reason why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The run that was to be recorded failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// The recorder has no such window; the field says why.
    #[error(transparent)]
    Window(#[from] WindowError),
}

/// Records the first measured packet, from the card's interrupt on. With a driver that polls, the
/// recording starts with the measurement. `for_ns`: length of the window; `None`: nearly up to the
/// next packet, but at most 4 ms.
///
/// # Errors
/// The run fails, or no packet arrives.
pub fn record(
    board: &Board,
    load: &Load,
    way: Way,
    seed: u64,
    for_ns: Option<u64>,
) -> Result<Capture, RecordError> {
    let start = if load.poll_ns.is_some() { Start::At(0) } else { Start::CardInterrupt { n: 1 } };
    let to_next_ns = load.period_ns - load.period_ns / 40;
    let for_ns = for_ns.unwrap_or(to_next_ns.min(WINDOW_MAX_NS));
    let window = Window { start, before_ns: Window::BEFORE_NS, for_ns: Some(for_ns) };
    let short = Load { for_ns: 2 * load.period_ns + for_ns, ..load.clone() };
    let (seen, recording) = crate::trace::record(window, || run(board, &short, way, seed));
    seen?;
    Ok(recording.capture()?)
}

/// Longest length in ns of the recorded window if the user gave no length.
const WINDOW_MAX_NS: u64 = 4_000_000;

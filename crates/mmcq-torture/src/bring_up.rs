//! Campaign of bring-ups with one fault. Each command, response, register block, tuning block,
//! voltage switch, busy, power-up and interrupt, and one byte in seven on an SPI bus, is lost,
//! damaged or late in one of the bring-ups.
//!
//! In spite of the fault the card must come up, at most [`EXTRA_NS`] later than without it, and at
//! most one bus speed slower.
//!
//! In a slot with a supervisor the card was removed and is inserted again: the first report of the
//! supervisor counts.
//!
//! A second part has two such faults at once, with [`PAIRS`] random pairs for each slot. The card
//! comes up, or bring-up returns an error and the next bring-up finds the card.

use super::case::{Chip, Host, Setup};
use super::machine::{Machine, Step};
use super::places::EVERY_CARD;
use super::streams::ACCESS_NS;
use mmcq::card::{self, Event, Options};
use mmcq::engine::{DmaBuf, Error};
use mmcq::host::{Caps, Timing, Width};
use mmcq::sched::{Fifo, Lean};
use mmcq::task::Platform;
use mmcq_sim::bench::{buffer, card_named};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::{Card, CardProfile, Fill, Medium};
use mmcq_sim::cards;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::world::Stream;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Extra time in ns that a bring-up with one fault may take.
pub const EXTRA_NS: u64 = 500_000_000;
/// Number of steps of the simulated machine after which a bring-up counts as endless.
const STEPS_MAX: u64 = 20_000_000;
/// Largest number of events at which one kind of fault strikes.
const EVENTS_MAX: u64 = 4_000;
/// Interval of the bytes on an SPI bus that a fault strikes: one in seven.
const EVERY_BYTE: u64 = 7;
/// Number of pairs of faults that the campaign injects in the bring-ups of each [`Slot`].
pub const PAIRS: u64 = 300;
/// Extra time in ns that a bring-up with two faults may take.
const PAIR_EXTRA_NS: u64 = 4_000_000_000;
/// Largest number of failures that a row stores as text.
const KEPT: usize = 8;

/// A slot of the campaign: a controller, a card, and the function of the stack that brings the card
/// up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name of the controller in the table of results ([`table`]).
    pub name: &'static str,
    host: Host,
    /// Which function of the stack brings the card up.
    kind: Kind,
    /// Name of the card: one of [`CARDS`](mmcq_sim::cards::CARDS), or `combo`.
    pub card: &'static str,
}

/// Function of the stack that brings the card up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The function [`bring_up`](card::bring_up), which finds out itself what kind of card is in
    /// the slot.
    Any,
    /// The function `bring_up_sd` for an SD card, or `bring_up_emmc` for an eMMC.
    Named,
    /// The function `bring_up_sd`, or `bring_up_emmc`, with a lean profile of the engine.
    Lean,
    /// The function `bring_up_io`, for a card with I/O functions.
    Io,
    /// The function `supervise`, which notices that the card was removed, and brings it up after it
    /// is inserted again.
    Kept,
}

/// Names of the I/O cards: one without memory, and a combo card with memory and functions.
const IO: [&str; 2] = ["bt-type-a", "combo"];
/// Name of the card that is the memory part of the combo card.
const COMBO_MEMORY: &str = "sdhc-16g-hs";

const fn slot(name: &'static str, host: Host, kind: Kind, card: &'static str) -> Slot {
    Slot { name, host, kind, card }
}

/// All slots of the campaign: which controller, which card, and which function brings the card up.
pub const SLOTS: [Slot; 28] = [
    slot("SDHCI", Host::Sdhci, Kind::Any, "sdsc-1g"),
    slot("SDHCI", Host::Sdhci, Kind::Any, "sdhc-16g-hs"),
    slot("SDHCI", Host::Sdhci, Kind::Any, "sdxc-64g-a2"),
    slot("SDHCI", Host::Sdhci, Kind::Any, "emmc-4g-old"),
    slot("SDHCI", Host::Sdhci, Kind::Any, "emmc-hs200"),
    slot("SDHCI", Host::Sdhci, Kind::Any, "hbg4a2"),
    slot("SDHCI", Host::Sdhci, Kind::Io, "bt-type-a"),
    slot("SDHCI", Host::Sdhci, Kind::Io, "combo"),
    slot("DesignWare", Host::DesignWare, Kind::Io, "combo"),
    slot("ST, H7", Host::Sdmmc(Chip::H7), Kind::Io, "combo"),
    slot("SDHCI, supervised", Host::Sdhci, Kind::Kept, "sdhc-16g-hs"),
    slot("SDHCI, supervised", Host::Sdhci, Kind::Kept, "sdxc-64g-a2"),
    slot("Realtek, supervised", Host::Reader, Kind::Kept, "sdhc-16g-hs"),
    slot("SDHCI, one family", Host::Sdhci, Kind::Named, "sdhc-16g-hs"),
    slot("SDHCI, one family", Host::Sdhci, Kind::Named, "emmc-hs200"),
    slot("SDHCI, `Lean`", Host::Sdhci, Kind::Lean, "sdhc-16g-hs"),
    slot("SDHCI, `Lean`", Host::Sdhci, Kind::Lean, "sdxc-64g-a2"),
    slot("SDHCI, `Lean`", Host::Sdhci, Kind::Lean, "emmc-hs200"),
    slot("Realtek", Host::Reader, Kind::Any, "sdhc-16g-hs"),
    slot("Allwinner", Host::Smhc, Kind::Any, "sdhc-16g-hs"),
    slot("Allwinner", Host::Smhc, Kind::Any, "emmc-hs200"),
    slot("DesignWare", Host::DesignWare, Kind::Any, "sdxc-64g-a2"),
    slot("DesignWare", Host::DesignWare, Kind::Any, "hbg4a2"),
    slot("ST, H7", Host::Sdmmc(Chip::H7), Kind::Any, "sdxc-64g-a2"),
    slot("ST, U5", Host::Sdmmc(Chip::U5), Kind::Any, "emmc-hs200"),
    slot("SPI", Host::Spi, Kind::Named, "sdsc-1g"),
    slot("SPI", Host::Spi, Kind::Named, "sdhc-16g-hs"),
    slot("SPI, `Lean`", Host::Spi, Kind::Lean, "sdhc-16g-hs"),
];

const MS: u64 = 1_000_000;

/// Faults that the campaign tries: each at every event of its [`Point`] (the kind of event that it
/// can strike). There is one bring-up for each fault and event.
const STRIKES: [(Point, Strike); 18] = [
    (Point::Command, Strike::Lost),
    (Point::Response, Strike::Lost),
    (Point::Response, Strike::Crc),
    (Point::Response, Strike::Index),
    (Point::Response, Strike::EndBit),
    (Point::ReadBlock, Strike::Lost),
    (Point::ReadBlock, Strike::Crc),
    (Point::ReadBlock, Strike::EndBit),
    (Point::ReadBlock, Strike::Late(20 * MS)),
    (Point::Tuning, Strike::Crc),
    (Point::Voltage, Strike::Fail),
    (Point::Busy, Strike::Late(20 * MS)),
    (Point::PowerUp, Strike::Late(20 * MS)),
    (Point::Interrupt, Strike::Lost),
    (Point::Interrupt, Strike::Late(MS)),
    (Point::Exchange, Strike::Flip(3)),
    (Point::Exchange, Strike::Flip(11)),
    (Point::Exchange, Strike::Lost),
];

/// Bus speed (timing and width) at which a bring-up has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Speed {
    timing: Timing,
    width: Width,
}

/// Results of the bring-ups in one slot (a controller with a card).
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Number of bring-ups in which a fault happened.
    pub runs: u64,
    /// Number of bring-ups that a fault struck and that ended without a card.
    pub failed: u64,
    /// Number of bring-ups that a fault struck and that took more than [`EXTRA_NS`] longer than
    /// without the fault.
    pub late: u64,
    /// Number of bring-ups with a fault that ended at a bus speed more than one step below the
    /// best.
    pub slow: u64,
    /// Longest time in ns by which a fault made a successful bring-up longer than without faults.
    pub worst_ns: u64,
    /// Number of bring-ups that two faults struck.
    pub pairs: u64,
    /// Number of bring-ups with two faults that ended without a card.
    pub refused: u64,
    /// Number of bring-ups with two faults for which this holds: the next bring-up found no card
    /// either, or took more than four seconds longer than a bring-up without faults.
    pub stuck: u64,
    /// Descriptions of the first bring-ups that broke a promise.
    pub first: Vec<String>,
}

impl Row {
    /// Returns the number of bring-ups that broke a rule of the campaign: they ended without a
    /// card, took too long, or ended at too low a bus speed.
    #[must_use]
    pub fn broken(&self) -> u64 {
        self.failed + self.late + self.slow + self.stuck
    }

    fn note(&mut self, what: String) {
        if self.first.len() < KEPT {
            self.first.push(what);
        }
    }
}

thread_local!(static SCRATCH: RefCell<Option<DmaBuf>> = const { RefCell::new(None) });

/// Returns the setup of a machine with a card like this slot's card.
fn setup_of(slot: Slot) -> Setup {
    let like = if IO.contains(&slot.card) { COMBO_MEMORY } else { slot.card };
    let card = EVERY_CARD.iter().position(|name| *name == like).unwrap_or(0);
    // With the card reader, each register access takes time.
    let access_ns = if slot.host == Host::Reader { ACCESS_NS } else { 0 };
    Setup { card, host: slot.host, access_ns, ..Setup::PLAIN }
}

async fn programs<B: Platform, const N: usize>(
    slot: Slot,
    stack: &mmcq::task::Stack<B, N>,
    scratch: DmaBuf,
    options: Options,
) -> (Result<Speed, Error>, DmaBuf) {
    let emmc = slot.card.starts_with("emmc") || slot.card == "hbg4a2";
    let (card, scratch) = match slot.kind {
        Kind::Io => {
            let (card, scratch) = card::bring_up_io(stack, scratch, options).await;
            let speed = card.map(|card| Speed { timing: card.timing, width: card.width });
            return (speed.map_err(|_| Error::NoCard), scratch);
        }
        Kind::Any => card::bring_up(stack, scratch, options).await,
        _ if emmc => card::bring_up_emmc(stack, scratch, options).await,
        _ => card::bring_up_sd(stack, scratch, options).await,
    };
    (card.map(|card| Speed { timing: card.timing, width: card.width }), scratch)
}

/// Result of a bring-up, and its time in ns. The outer `Err` says why the bring-up never ended.
type Ended = Result<(Result<Speed, Error>, u64), String>;

/// Brings the card of this machine up. With `again`, tries a second bring-up if no card was found.
/// Returns the first result and its time in ns.
fn drive<B: Platform>(
    slot: Slot,
    machine: Result<Machine<B>, String>,
    options: Options,
    (again, faults): (bool, &Faults),
) -> Ended {
    let machine = machine?;
    if slot.kind == Kind::Kept {
        return kept(&machine, options, again, faults);
    }
    let (first, at_ns) = bring_up(slot, &machine, options)?;
    if again && let Err(error) = first {
        let (second, _) = bring_up(slot, &machine, options)?;
        second.map_err(|next| format!("{error}; the next bring-up: {next}"))?;
    }
    Ok((first, at_ns))
}

fn bring_up<B: Platform>(slot: Slot, machine: &Machine<B>, options: Options) -> Ended {
    let scratch = SCRATCH.take().unwrap_or_else(|| buffer(1));
    let mut future = pin!(programs(slot, &machine.stack, scratch, options));
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..STEPS_MAX {
        if let Poll::Ready((result, scratch)) = future.as_mut().poll(&mut context) {
            SCRATCH.set(Some(scratch));
            if let Some(text) = machine.misbehaviour(true) {
                return Err(text);
            }
            return Ok((result, machine.now()));
        }
        match machine.step() {
            Step::Quiet => machine.stack.poll(),
            Step::Storm => return Err("the interrupt stays asserted".to_owned()),
            Step::Event | Step::Called => {}
        }
    }
    Err("no end".to_owned())
}

/// Takes the card out of a slot with a supervisor, and inserts it again; from then on these faults
/// strike. Returns the first report of the supervisor, and the time in ns until it came. With
/// `again`, a report of no card must be followed by a report of the card.
fn kept<B: Platform>(machine: &Machine<B>, options: Options, again: bool, faults: &Faults) -> Ended {
    let (told, up) = (RefCell::new(Vec::new()), Cell::new(false));
    let stack = &machine.stack;
    let mut program = pin!(async {
        let (card, mut scratch) = card::bring_up(stack, buffer(1), options).await;
        up.set(card.is_ok());
        let Ok(mut card) = card else { return };
        loop {
            let (event, back) = card::supervise(stack, scratch, options, card).await;
            scratch = back;
            if let Event::Inserted(Ok(found)) = event {
                card = found;
            }
            told.borrow_mut().push(event);
        }
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut until = |over: &dyn Fn() -> bool| {
        for _ in 0..STEPS_MAX {
            if program.as_mut().poll(&mut context).is_ready() {
                return Err("the card did not come up at first".to_owned());
            }
            if over() {
                return Ok(());
            }
            match machine.step() {
                Step::Quiet => stack.poll(),
                Step::Storm => return Err("the interrupt stays asserted".to_owned()),
                Step::Event | Step::Called => {}
            }
        }
        Err("no end".to_owned())
    };
    until(&|| up.get())?;
    let out = machine.model.borrow_mut().remove(machine.now());
    until(&|| told.borrow().contains(&Event::Removed))?;
    let mut card = out.ok_or("the slot is empty")?;
    card.set_faults(faults.clone());
    let began_ns = machine.now();
    let mut model = machine.model.borrow_mut();
    model.set_faults(faults.clone());
    model.insert(card, began_ns);
    drop(model);
    let reports = || told.borrow().iter().copied().filter_map(report).collect::<Vec<_>>();
    until(&|| !reports().is_empty())?;
    let (first, took_ns) = (reports().remove(0), machine.now() - began_ns);
    if again && let Err(error) = first {
        until(&|| reports().iter().any(Result::is_ok)).map_err(|what| format!("{error}; then: {what}"))?;
    }
    match machine.misbehaviour(true) {
        Some(text) => Err(text),
        None => Ok((first, took_ns)),
    }
}

/// Returns what an event of the supervisor reports about an inserted card; `None` if the event is
/// about something else.
fn report(event: Event) -> Option<Result<Speed, Error>> {
    match event {
        Event::Inserted(result) => Some(result.map(|card| Speed { timing: card.timing, width: card.width })),
        _ => None,
    }
}

/// Makes the model of the card in the slot.
fn card_of(slot: Slot) -> Result<Box<dyn Card>, String> {
    if slot.card != "combo" {
        return card_named(slot.card).map_err(|error| error.to_string());
    }
    let text = |name| cards::named(name).ok_or_else(|| format!("no card {name}"));
    let memory =
        CardProfile::from_toml(text(COMBO_MEMORY)?, COMBO_MEMORY).map_err(|error| error.to_string())?;
    let medium =
        Medium::sparse(memory.capacity_bytes(), Fill::Pattern(1)).map_err(|error| error.to_string())?;
    let memory = memory.build_sd(medium).map_err(|error| error.to_string())?;
    let io = IoProfile::from_toml(text(IO[0])?, IO[0]).map_err(|error| error.to_string())?;
    Ok(Box::new(io.build().0.with_memory(memory)))
}

/// Executes one bring-up of the card in this slot, with the faults of `plan`. With `again`,
/// executes a second bring-up if the first has found no card. Returns how the last one ended, and
/// the faults with their counters.
fn once(slot: Slot, options: Options, plan: Plan, again: bool) -> (Ended, Faults) {
    let faults = Faults::new(plan);
    let setup = &setup_of(slot);
    let card = match card_of(slot) {
        Ok(card) => card,
        Err(error) => return (Err(error), faults),
    };
    let emmc = !setup.is_removable();
    // In a slot with a supervisor, the first bring-up has no faults.
    let none = Faults::none();
    let at = if slot.kind == Kind::Kept { &none } else { &faults };
    let again = (again, &faults);
    let result = match slot.host {
        Host::Sdhci if slot.kind == Kind::Lean => {
            drive(slot, Machine::sdhci(setup, Lean(Fifo), emmc, card, at, 0), options, again)
        }
        Host::Sdhci => drive(slot, Machine::sdhci(setup, Fifo, emmc, card, at, 0), options, again),
        Host::Open(writes) => drive(slot, Machine::open(setup, writes, card, at, 0), options, again),
        Host::Reader => drive(slot, Machine::reader(setup, card, at, 0), options, again),
        Host::Smhc => drive(slot, Machine::smhc(setup, card, at, 0), options, again),
        Host::DesignWare => drive(slot, Machine::designware(setup, card, at, 0), options, again),
        Host::OpenDesignWare => drive(slot, Machine::open_designware(setup, card, at, 0), options, again),
        Host::OpenSdmmc => drive(slot, Machine::open_sdmmc(setup, card, at, 0), options, again),
        Host::Sdmmc(Chip::H7) => drive(slot, Machine::sdmmc(setup, card, at, 0), options, again),
        Host::Sdmmc(chip) => drive(slot, Machine::sdmmc_with_list(chip, setup, card, at, 0), options, again),
        Host::Spi if slot.kind == Kind::Lean => {
            drive(slot, Machine::spi(setup, Lean(Fifo), card, at, 0), options, again)
        }
        Host::Spi => drive(slot, Machine::spi(setup, Fifo, card, at, 0), options, again),
    };
    (result, faults)
}

/// Executes a bring-up without faults. Returns the best bus speed of this slot, the next lower
/// speed, and the time in ns.
fn clean(slot: Slot) -> Result<(Speed, Speed, u64), String> {
    let up = |options| {
        let (result, ns) = once(slot, options, Plan::none(), false).0?;
        result.map(|speed| (speed, ns)).map_err(|error| error.to_string())
    };
    let (best, ns) = up(Options::DEFAULT)?;
    let without = Options::DEFAULT.without(Caps::timing_bit(best.timing));
    let below = if best.timing == Timing::Legacy { best } else { up(without)?.0 };
    Ok((best, below, ns))
}

/// Makes one kind of fault strike in one slot, in one bring-up for each of its events, and counts
/// the results in the row.
fn sweep(slot: Slot, (point, strike): (Point, Strike), row: &mut Row) -> Result<(), String> {
    let (best, below, clean_ns) = clean(slot)?;
    let stride = if point == Point::Exchange { EVERY_BYTE } else { 1 };
    // Without the interrupt that reports the inserted card, nothing would wake the supervisor.
    let first = if slot.kind == Kind::Kept && point == Point::Interrupt { 2 } else { 1 };
    for nth in (first..).step_by(stride as usize).take(EVENTS_MAX as usize) {
        let (result, faults) = once(slot, Options::DEFAULT, Plan::none().shot(point, nth, strike), false);
        if faults.strikes() == 0 {
            return Ok(());
        }
        row.runs += 1;
        let name = format!("{} {} {point:?} {strike:?} {nth}", slot.card, slot.name);
        let (result, at_ns) = match result {
            Ok(ended) => ended,
            Err(what) => {
                row.failed += 1;
                row.note(format!("{name}: {what}"));
                continue;
            }
        };
        match result {
            Err(error) => {
                row.failed += 1;
                row.note(format!("{name}: {error}, after {} ms", at_ns / MS));
            }
            Ok(speed) => {
                let extra_ns = at_ns.saturating_sub(clean_ns);
                row.worst_ns = row.worst_ns.max(extra_ns);
                if extra_ns > EXTRA_NS {
                    row.late += 1;
                    row.note(format!("{name}: {} ms more", extra_ns / MS));
                }
                if speed != best && speed != below {
                    row.slow += 1;
                    row.note(format!("{name}: {speed:?}"));
                }
            }
        }
    }
    Ok(())
}

/// Executes bring-ups in one slot with random pairs of faults.
fn pairs(slot: Slot, row: &mut Row) -> Result<(), String> {
    let (result, events) = once(slot, Options::DEFAULT, Plan::none(), false);
    let (_, clean_ns) = result?;
    let kinds: Vec<_> = STRIKES.into_iter().filter(|(point, _)| events.events(*point) > 0).collect();
    let mut random = Stream::new(0, "pairs of faults in bring-up");
    for pair in 0..PAIRS {
        let mut shot = |plan: Plan, more: u64| {
            let (point, strike) = kinds[random.below(kinds.len() as u64) as usize];
            // The second fault may strike in an event that exists only because of the first.
            plan.shot(point, 1 + random.below(events.events(point) + more), strike)
        };
        let plan = shot(Plan::none(), 0);
        let (result, faults) = once(slot, Options::DEFAULT, shot(plan, 8), true);
        if faults.strikes() < 2 {
            continue;
        }
        row.pairs += 1;
        let name = format!("{} {} pair {pair} {:?}", slot.card, slot.name, faults.struck());
        match result {
            Err(what) => {
                row.stuck += 1;
                row.note(format!("{name}: {what}"));
            }
            Ok((_, at_ns)) if at_ns.saturating_sub(clean_ns) > PAIR_EXTRA_NS => {
                row.stuck += 1;
                row.note(format!("{name}: {} ms", at_ns / MS));
            }
            Ok((result, _)) => row.refused += u64::from(result.is_err()),
        }
    }
    Ok(())
}

/// Sweeps faults over the bring-up of each of these slots (a controller with a card), on `jobs`
/// threads. Calls `progress` in each slot after each kind of fault, and once more after the pairs
/// of faults.
#[must_use]
pub fn sweeps(slots: &[Slot], jobs: usize, progress: &(dyn Fn(u64) + Sync)) -> Vec<(Slot, Row)> {
    let rows: Vec<_> = slots.iter().map(|&slot| Mutex::new((slot, Row::default()))).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut row = row.lock().unwrap_or_else(|poison| poison.into_inner());
                    let slot = row.0;
                    for kind in STRIKES {
                        if let Err(what) = sweep(slot, kind, &mut row.1) {
                            row.1.failed += 1;
                            row.1.note(format!("{} {}: {kind:?}: {what}", slot.card, slot.name));
                        }
                        progress(1);
                    }
                    if let Err(what) = pairs(slot, &mut row.1) {
                        row.1.failed += 1;
                        row.1.note(format!("{} {}: pairs: {what}", slot.card, slot.name));
                    }
                    progress(1);
                }
            });
        }
    });
    rows.into_iter().map(|row| row.into_inner().unwrap_or_else(|poison| poison.into_inner())).collect()
}

/// Number of calls of `progress` when [`sweeps`] gets all slots.
pub const STEPS: u64 = (SLOTS.len() * (STRIKES.len() + 1)) as u64;

/// Returns the rows as a table of text.
#[must_use]
pub fn table(rows: &[(Slot, Row)]) -> String {
    let mut text = "| Controller | Card | Runs | No card | Over 500 ms | Over one speed | Worst | Pairs | No card | Stuck |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (slot, row) in rows {
        let worst_ms = row.worst_ns as f64 / 1e6;
        let Row { runs, failed, late, slow, pairs, refused, stuck, .. } = row;
        let _ = writeln!(
            text,
            "| {} | {} | {runs} | {failed} | {late} | {slow} | {worst_ms:.3} | {pairs} | {refused} | {stuck} |",
            slot.name, slot.card
        );
    }
    text
}

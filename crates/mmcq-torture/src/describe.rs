//! Describes a case in words: the machine, the requests, and what goes wrong.

use super::case::{BusyBy, Case, Chip, Cut, Defer, Host, Luck, Place, Refuses, Setup, Unused, Visit};
use super::machine::Keeps;
use super::run::EVERY_CARD;
use super::workloads::{NAMES, workload};
use mmcq::host::sdhci::{OpenWrites, TransferMode};
use mmcq_sim::card::quirk::Discarded;
use mmcq_sim::faults::{Point, Shot, Strike};
use std::fmt::Write;

/// Returns a time as text, in the largest unit that gives a whole number.
#[must_use]
pub fn time(ns: u64) -> String {
    match ns {
        0 => "0 ns".to_owned(),
        ns if ns % 1_000_000 == 0 => format!("{} ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{} us", ns / 1_000),
        ns => format!("{ns} ns"),
    }
}

/// Returns the words for a kind of event that faults strike.
#[must_use]
pub fn point(point: Point) -> &'static str {
    match point {
        Point::Command => "command",
        Point::Response => "response",
        Point::ReadBlock => "block read",
        Point::WriteBlock => "block written",
        Point::Busy => "busy",
        Point::Tuning => "tuning block",
        Point::PowerUp => "power-up",
        Point::Voltage => "voltage switch",
        Point::Interrupt => "interrupt",
        Point::Dma => "DMA access",
        Point::Reset => "controller reset",
        Point::Clock => "start of the clock",
        Point::AutoCommand => "automatic command",
        Point::Cache => "data into the card's cache",
        Point::Medium => "access to the medium",
        Point::Function => "access to a function",
        Point::Exchange => "byte on the SPI bus",
        Point::Doorbell => "doorbell",
        Point::TaskEnd => "last block of a task",
        Point::Halt => "halt",
        Point::Clear => "clearing of tasks",
        Point::Enable => "start of the queue engine",
        Point::Blame => "error of a task",
        Point::Task => "task told to the card",
        Point::Discard => "tasks discarded",
        Point::Stop => "stop with the queue on",
        Point::Ready => "question for what is ready",
        Point::Pack => "header of a packed command",
        Point::List => "entry of a list",
    }
}

/// Returns the words for a kind of fault.
#[must_use]
pub fn strike(strike: Strike) -> String {
    match strike {
        Strike::Lost => "lost".to_owned(),
        Strike::Crc => "wrong CRC".to_owned(),
        Strike::EndBit => "wrong end bit".to_owned(),
        Strike::Index => "wrong index".to_owned(),
        Strike::Status(bits) => format!("status bits {bits:08x} set"),
        Strike::Early => "told too early".to_owned(),
        Strike::NoStatus => "no CRC status".to_owned(),
        Strike::Late(ns) => format!("{} late", time(ns)),
        Strike::Never => "never ends".to_owned(),
        Strike::Hidden => "not shown on DAT0".to_owned(),
        Strike::Fail => "fails".to_owned(),
        Strike::Flip(bit) => format!("bit {bit} wrong, the CRC right"),
        Strike::Astray(blocks) => format!("{blocks} blocks astray"),
        Strike::Spurious(times) => format!("{times} times without a cause"),
        Strike::Remove => "the card is taken out".to_owned(),
        Strike::BrownOut => "the card loses its supply for a moment".to_owned(),
        Strike::Gone => "the controller reads as ones from now on".to_owned(),
        Strike::Stuck => "the circuit stays in use until a reset".to_owned(),
        Strike::Line(line) => format!("DAT{line} is stuck low from now on"),
        Strike::Drift => "the sampling point no longer fits".to_owned(),
        Strike::CrcAndEnd => "wrong CRC, told together with the end of the transfer".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns the words for a fault and the event that it strikes.
#[must_use]
pub fn shot(shot: &Shot) -> String {
    format!("{} {}: {}", point(shot.point), shot.nth, strike(shot.strike))
}

fn cut(cut: &Cut) -> String {
    let keeps = match cut.keeps {
        Keeps::Nothing => "all that was at stake is lost".to_owned(),
        Keeps::Everything => "all that was at stake is kept".to_owned(),
        Keeps::Choice(choice) => format!("choice {choice} of what is kept of each sector at stake"),
        Keeps::Luck(seed) => format!("each sector at stake by luck (seed {seed})"),
    };
    format!("power cut at event {}: {keeps}", cut.at)
}

/// Returns what goes wrong in a case, one line for each thing.
fn wrong(case: &Case) -> Vec<String> {
    let mut lines: Vec<String> = case.cuts.iter().map(cut).collect();
    match &case.luck {
        Luck::Good => {}
        Luck::Chances(seed, chances) => {
            lines.push(format!("by chance (seed {seed}):"));
            lines.extend(chances.iter().map(|&(at, what, share)| {
                format!("  {:.3} % of all: {}: {}", 100.0 * share, point(at), strike(what))
            }));
        }
        Luck::Shots(shots) => lines.extend(shots.iter().map(shot)),
        Luck::Always(first) => lines.push(format!("{}, and all later ones", shot(first))),
        Luck::Brought(cause, first) => {
            lines.extend([shot(cause), format!("{}, and all later ones", shot(first))]);
        }
    }
    lines.extend(case.acts.iter().map(|(event, act)| format!("at event {event}: {act:?}")));
    match case.visit {
        Some((event, Visit::Swap)) => lines.push(format!("another card comes at event {event}")),
        Some((event, Visit::Swaps { back, other })) => {
            let size = if other { " of another size" } else { "" };
            lines.push(format!("another card{size} comes at event {event}, the first {back} events later"));
        }
        Some((event, Visit::Protect(events))) => {
            let end = event.saturating_add(events.into());
            lines.push(format!("the card is write-protected from event {event} to event {end}"));
        }
        Some((event, Visit::Bounce(times))) => {
            lines.push(format!("the card goes out and in from event {event} on, {times} times"));
        }
        None => {}
    }
    lines
}

fn machine(setup: &Setup) -> Vec<(&'static str, String)> {
    let Setup { old_host, auto_stop, auto_count, count, depth, window, start_ns, access_ns, .. } = *setup;
    let yes = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_owned();
    let data = match setup.transfer {
        TransferMode::Auto => "what is there",
        TransferMode::Adma2 => "ADMA2",
        TransferMode::Sdma => "SDMA",
        TransferMode::Pio => "PIO",
    };
    let boundary = if setup.near_boundary { ", in memory that lies across SDMA's boundaries" } else { "" };
    let busy = match setup.busy {
        BusyBy::Interrupt => "by interrupt",
        BusyBy::Level => "by looking at DAT0",
        BusyBy::Status => "by asking the card",
    };
    let counted = match (count, auto_count) {
        (true, true) => "by the controller",
        (true, false) => "by the driver",
        (false, _) => "not used",
    };
    let order = match setup.scheduler {
        0 => "first in, first out",
        1 => "by deadline",
        2 => "fair",
        3 => "any, by chance",
        4 => "the newest first",
        _ => "reads first",
    };
    let controller = match setup.host {
        Host::Sdhci if old_host => "SDHCI, version 3.00",
        Host::Sdhci => "SDHCI, version 4.20",
        Host::Open(OpenWrites::Carrier) => "SDHCI that leaves transfers open, writes behind a CMD13",
        Host::Open(_) => "SDHCI that leaves transfers open, writes to a block gap",
        Host::Reader => "a reader that leaves transfers open",
        Host::Smhc if old_host => "Allwinner's SMHC, at high speed",
        Host::Smhc => "Allwinner's SMHC",
        Host::DesignWare if old_host => "DesignWare's MSHC, at high speed",
        Host::DesignWare => "DesignWare's MSHC",
        Host::OpenDesignWare if old_host => "DesignWare's MSHC at high speed, which leaves transfers open",
        Host::OpenDesignWare => "DesignWare's MSHC, which leaves transfers open",
        Host::Sdmmc(Chip::H7) => "ST's SDMMC, version 2, one buffer",
        Host::Sdmmc(Chip::U5) => "ST's SDMMC, version 2, a list of buffers",
        Host::Sdmmc(Chip::N6) => "ST's SDMMC, version 3, a list of buffers",
        Host::OpenSdmmc => "ST's SDMMC, version 2, which leaves writes open",
        Host::Spi => "an SPI bus of the card's own",
    };
    let place = match setup.place {
        Place::Start => "from its first sector on",
        Place::Middle => "in its middle",
        Place::End => "up to its last",
    };
    let mut all = vec![
        ("card", EVERY_CARD[setup.card].to_owned()),
        ("its cache", yes(setup.cache, "on, if it has one", "off")),
        ("its command queue, or packed commands", yes(setup.queue, "used", "not used")),
        ("chains of transfers", yes(setup.chains, "executed by the controller", "none")),
        ("that queue is driven by", yes(setup.engine > 0, "the controller's engine", "software")),
        ("order of its tasks", setup.tasks.map_or("its own".to_owned(), |order| format!("{order:?}"))),
        ("controller", controller.to_owned()),
        ("data move by", format!("{data}{boundary}")),
        ("end of busy", busy.to_owned()),
        ("CMD12", yes(auto_stop, "by the controller", "by the driver")),
        ("CMD23", counted.to_owned()),
        (
            "stray completions",
            match setup.stop_tells_ns {
                0 => "none".to_owned(),
                ns => format!("{} after a CMD12 without busy", time(ns.into())),
            },
        ),
        ("register access", time(access_ns.into())),
        ("writes", yes(setup.early, "complete with their data", "complete with their status")),
        (
            "completions",
            match setup.defer {
                Defer::Nothing => "in the interrupt",
                Defer::Reads => "in the interrupt, of reads by DMA in a context that may sleep",
                Defer::Everything => "in a context that may sleep",
            }
            .to_owned(),
        ),
        ("upkeep of the card", yes(setup.supervisor, "by a task", "none")),
        ("requests at a time", format!("{depth} at most")),
        ("neighbours", yes(setup.merge, "joined", "not joined")),
        ("order", order.to_owned()),
        ("sectors used", format!("{window} of the card, {place}")),
        ("clock starts at", time(start_ns)),
        ("faults in bring-up", yes(setup.armed_early, "yes", "no")),
    ];
    all.extend(corner(setup));
    all
}

/// Returns those settings of the case that differ from the usual ones, each with its value as text.
/// Most of these settings are drawn in the [corners](super::corners).
fn corner(setup: &Setup) -> Vec<(&'static str, String)> {
    let some = [
        (setup.ones, "erased memory", "ones".to_owned()),
        (setup.discarded != Discarded::Erased, "discarded memory", format!("{:?}", setup.discarded)),
        (setup.secure, "erases", "secure".to_owned()),
        (setup.unused != Unused::Ready, "an unused card", format!("{:?}", setup.unused)),
        (setup.bounce, "memory", "every second request's is copied".to_owned()),
        (setup.exception_alone, "failed entries", "show by the exception bit alone".to_owned()),
        (setup.meddles != 0, "further calls", format!("one after {} of the driver's", setup.meddles)),
        (setup.most_blocks != 0, "blocks at a time", format!("{} at most", setup.most_blocks)),
        (setup.reliable_unit != 0, "reliable writes", format!("of 1 or {} sectors", setup.reliable_unit)),
        (setup.singly, "CMD25", "illegal".to_owned()),
        (setup.lean, "the stack", "does not recover".to_owned()),
        (setup.tuned.is_some(), "the engine has", format!("{:?}", setup.tuned.as_slice())),
        (setup.refuses != Refuses::Nothing, "writes are refused", format!("{:?}", setup.refuses)),
    ];
    some.into_iter().filter(|(has, ..)| *has).map(|(_, what, value)| (what, value)).collect()
}

/// Returns a description of the whole case for printing before its execution: machine, requests,
/// what goes wrong.
#[must_use]
pub fn run(case: &Case) -> String {
    let mut text = "machine\n".to_owned();
    for (what, value) in machine(&case.setup) {
        let _ = writeln!(text, "  {what:<20}{value}");
    }
    text += "requests in order: first sector of those used + count\n";
    for (number, operation) in case.operations.iter().enumerate() {
        let _ = writeln!(text, "  {}: {operation}", number + 1);
    }
    text += "what goes wrong\n";
    let wrong = wrong(case);
    if wrong.is_empty() {
        text += "  nothing\n";
    }
    for line in wrong {
        let _ = writeln!(text, "  {line}");
    }
    let end = if case.one_life { "the first power cut is the end" } else { "a power cut is the end" };
    text + "  " + end + "\n"
}

/// Returns one line that identifies the case among those of the campaigns. A random case is
/// identified by its seed.
#[must_use]
pub fn line(case: &Case) -> String {
    let known = (0..NAMES.len())
        .find(|&n| {
            let Case { setup, operations, .. } = workload(n);
            let setup = Setup { armed_early: case.setup.armed_early, ..setup };
            (setup, &operations) == (case.setup, &case.operations)
        })
        .map(|n| format!("\"{}\"", NAMES[n]));
    let program = || {
        let operations: Vec<String> = case.operations.iter().map(ToString::to_string).collect();
        format!("{} with {} at a time", operations.join("; "), case.setup.depth)
    };
    let what = match (&case.luck, case.operations.len()) {
        (Luck::Chances(..), _) | (_, 17..) => format!("seed {}", case.seed),
        _ => known.unwrap_or_else(program),
    };
    let mut wrong = wrong(case);
    if matches!(case.luck, Luck::Chances(..)) {
        wrong.clear();
    }
    format!(
        "{}, {what}{}{}",
        EVERY_CARD[case.setup.card],
        if wrong.is_empty() { "" } else { "; " },
        wrong.join("; ")
    )
}

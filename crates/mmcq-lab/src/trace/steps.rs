//! The recorded window in words: each activity on the lines with its name, and the phases that the
//! driver gave the controller.

use super::capture::{Capture, Event, What};
use super::lines;
use super::window::time;
use crate::system::Held;
use mmcq::host::Direction;
use mmcq::spec::command::name;
use mmcq_sim::card::Answer;
use mmcq_sim::cpu::Context;
use std::fmt::Write;

/// Row of the picture in which an activity of the bus (a step) is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Row of the command line CMD.
    Cmd,
    /// Row of the data lines DAT.
    Dat,
}

/// A named activity with its start and end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Row of the picture (CMD or DAT) in which the step is shown.
    pub lane: Lane,
    /// Time in ns at which the step starts.
    pub from_ns: u64,
    /// Time in ns at which the step ends.
    pub to_ns: u64,
    /// Short text for the step, such as `CMD18`, `R1`, `512 B`, `busy`.
    pub label: String,
    /// Full description of the step.
    pub detail: String,
}

/// Returns the activity on the bus lines as steps, sorted by start.
pub fn steps(capture: &Capture) -> Vec<Step> {
    let mut command = (0, false);
    capture
        .events
        .iter()
        .map(|event| {
            if let What::Command { index, app, .. } = event.what {
                command = (index, app);
            }
            step(event, command, capture)
        })
        .collect()
}

fn step(event: &Event, command: (u8, bool), capture: &Capture) -> Step {
    let (lane, label, detail) = match &event.what {
        What::Command { index, arg, auto, app } => {
            let label = format!("{}CMD{index}", if *app { "A" } else { "" });
            let by = if *auto { ", by the controller itself" } else { "" };
            let detail = format!("{label} {} {arg:#010x}{by}", name(*index, *app, capture.emmc));
            (Lane::Cmd, label, detail)
        }
        What::Response { command: index, answer, crc_ok, end_ok } => {
            let (label, content) = match answer {
                Answer::Long(bytes) => {
                    let hex = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
                    ("R2".to_owned(), hex)
                }
                Answer::Short { content, .. } => {
                    (kind(*index, command.1, capture.emmc).to_owned(), format!("{content:#010x}"))
                }
            };
            let wrong = match (crc_ok, end_ok) {
                (true, true) => "",
                (false, _) => ", wrong CRC7",
                (true, false) => ", wrong end bit",
            };
            (Lane::Cmd, label.clone(), format!("{label} {content}{wrong}"))
        }
        What::Block { read, data, crc_ok, cut, width, ddr } => {
            let way = if *read { "read" } else { "write" };
            let rate = if *ddr { ", both edges" } else { "" };
            let fate = match (cut, crc_ok) {
                (true, _) => ", cut off",
                (false, true) => "",
                (false, false) => ", wrong CRC16",
            };
            let detail = format!("{way} {} bytes on {width} lines{rate}{fate}", data.len());
            (Lane::Dat, format!("{} B", data.len()), detail)
        }
        What::CrcStatus { good } => {
            (Lane::Dat, "crc".to_owned(), format!("CRC status {}", if *good { "010" } else { "101" }))
        }
        What::Busy => (Lane::Dat, "busy".to_owned(), "busy".to_owned()),
        What::ClockStopped => (Lane::Dat, "clock stopped".to_owned(), "clock stopped".to_owned()),
    };
    let to_ns = event.end_ns.min(capture.until_ns);
    Step { lane, from_ns: event.start_ns, to_ns, label, detail }
}

/// Returns the name of the format, such as R1, of the response to the command CMD`index`. `app`:
/// the command is an application command (ACMD). `emmc`: the card is an eMMC.
fn kind(index: u8, app: bool, emmc: bool) -> &'static str {
    match (index, app, emmc) {
        (41, true, _) | (1, _, true) => "R3",
        (3, false, false) => "R6",
        (8, false, false) => "R7",
        (5, false, false) => "R4",
        (52 | 53, false, false) => "R5",
        _ => "R1",
    }
}

/// A phase: what a driver gives the controller as one piece of work. It has a command with its
/// data, busy, and automatic commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name of the command and of the transferred data.
    pub label: String,
    /// Time in ns of the start bit of the phase's first token, such as its command.
    pub from_ns: u64,
    /// Time in ns at which the last activity of this command ends: response, data or busy.
    pub to_ns: u64,
    /// Blocks that the phase transfers; `None`: its command does not transfer blocks by an address.
    pub data: Option<Data>,
}

/// Blocks that a command transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Direction of the data.
    pub direction: Direction,
    /// Argument of the command: address of the first block, in blocks or (on small cards) in bytes.
    pub first: u32,
    /// Number of blocks that the phase (a command with its data) transferred.
    pub blocks: u32,
}

/// Returns the direction of the data of a read or write command, whose argument is an address;
/// `None` for all other commands. `app`: the command follows CMD55.
fn moves(index: u8, app: bool) -> Option<Direction> {
    match (index, app) {
        (17 | 18, false) => Some(Direction::Read),
        (24 | 25, false) => Some(Direction::Write),
        _ => None,
    }
}

/// Returns the phases in the window (each a command with its data and busy), sorted by their start.
pub fn phases(capture: &Capture) -> Vec<Phase> {
    let mut phases: Vec<(Phase, u32)> = Vec::new();
    let mut prefix = false;
    for event in &capture.events {
        if let What::Command { index, arg, auto, app } = event.what {
            let opens = !auto || index == 23;
            if opens && !std::mem::replace(&mut prefix, false) {
                let (label, from_ns) = (String::new(), event.start_ns);
                phases.push((Phase { label, from_ns, to_ns: 0, data: None }, 0));
            }
            prefix = auto && index == 23;
            if let (false, Some((phase, _))) = (auto, phases.last_mut()) {
                phase.label = format!("{}CMD{index}", if app { "A" } else { "" });
                phase.data = moves(index, app).map(|direction| Data { direction, first: arg, blocks: 0 });
            }
        }
        let Some((phase, blocks)) = phases.last_mut() else { continue };
        *blocks += u32::from(matches!(event.what, What::Block { .. }));
        phase.to_ns = phase.to_ns.max(event.end_ns.min(capture.until_ns));
    }
    let named = |(mut phase, blocks): (Phase, u32)| {
        if let Some(data) = &mut phase.data {
            data.blocks = blocks;
        }
        if blocks > 0 {
            let _ = write!(phase.label, ", {blocks} block{}", if blocks == 1 { "" } else { "s" });
        }
        phase
    };
    phases.into_iter().map(named).collect()
}

/// Returns a text about a delayed start of a transfer: whether the rest of the batch came
/// meanwhile, and the time that the delay gained.
pub fn held_name(held: &Held) -> String {
    match held.came {
        true => format!("start held for the tail, which came: gained {}", time(held.gained_ns)),
        false => "start held for the tail, which did not come".to_owned(),
    }
}

/// Returns the name of the thread with the number `thread`. The first `jobs` threads are the jobs;
/// `names` are names of threads on a machine without jobs.
pub fn thread_name(names: &[&'static str], jobs: u32, thread: u32) -> String {
    match names.get(thread as usize) {
        Some(name) => (*name).to_owned(),
        None if thread < jobs => format!("job {}", thread + 1),
        None => format!("thread {thread}"),
    }
}

/// Returns the name of a context in which a CPU core runs.
pub fn context_name(capture: &Capture, context: Context) -> String {
    match context {
        Context::Hard => "irq".to_owned(),
        Context::Deferred => "softirq".to_owned(),
        Context::Thread(thread) => thread_name(&capture.threads, capture.jobs, thread.0),
    }
}

/// Returns the consecutive contexts of a CPU core, without idle times: start and end in ns,
/// context.
pub fn contexts(capture: &Capture, core: u8) -> Vec<(u64, u64, Context)> {
    let flat = lines::flat(capture, core);
    let ends = flat.iter().skip(1).map(|(at_ns, _)| *at_ns).chain([capture.until_ns]);
    flat.iter().zip(ends).filter_map(|((from_ns, what), to_ns)| what.map(|w| (*from_ns, to_ns, w))).collect()
}

/// Returns the window as a list, one activity per line: start in ns from the window's start,
/// duration, text.
pub fn list(capture: &Capture) -> String {
    let mut out = format!("{:>14} {:>11}  what\n", "at ns", "for ns");
    for (from_ns, to_ns, what) in rows(capture) {
        let length = if to_ns > from_ns { (to_ns - from_ns).to_string() } else { String::new() };
        let _ = writeln!(out, "{from_ns:>14} {length:>11}  {what}");
    }
    out
}

/// Returns the list of what happened in the capture, sorted by start, as JSON lines. Each line has
/// the members from_ns, to_ns and what.
pub fn json_lines(capture: &Capture) -> String {
    let line = |(from_ns, to_ns, what): (u64, u64, String)| {
        format!("{}\n", serde_json::json!({ "from_ns": from_ns, "to_ns": to_ns, "what": what }))
    };
    rows(capture).into_iter().map(line).collect()
}

/// Returns start, end and text of every line of the list, sorted by start.
fn rows(capture: &Capture) -> Vec<(u64, u64, String)> {
    let mut rows: Vec<(u64, u64, String)> = steps(capture)
        .into_iter()
        .map(|step| (step.from_ns.max(capture.from_ns), step.to_ns, step.detail))
        .collect();
    for held in &capture.holds {
        let from_ns = held.from_ns.max(capture.from_ns);
        rows.push((from_ns, held.to_ns.min(capture.until_ns), held_name(held)));
    }
    for (at_ns, level) in capture.interrupts.iter().skip(1) {
        rows.push((*at_ns, *at_ns, format!("interrupt line {}", if *level { "up" } else { "down" })));
    }
    for (at_ns, low) in capture.card_irqs.iter().skip(1) {
        let what = if *low { "DAT1 low: the card asks" } else { "DAT1 high: the card is content" };
        rows.push((*at_ns, *at_ns, what.to_owned()));
    }
    for (at_ns, bus, low) in capture.bus.iter().skip(1) {
        let clock = if bus.clock_hz == 0 { "stopped".to_owned() } else { format!("{} Hz", bus.clock_hz) };
        let power = if bus.powered { "on" } else { "off" };
        let low = if *low { ", lines held low" } else { "" };
        let rate = if bus.ddr { ", both edges" } else { "" };
        let volts = if bus.signal18 { ", 1.8 V" } else { "" };
        rows.push((
            *at_ns,
            *at_ns,
            format!("bus: power {power}, clock {clock}, {} lines{rate}{volts}{low}", bus.width),
        ));
    }
    for request in &capture.requests {
        rows.push((request.submitted_ns, request.submitted_ns, format!("request {}", request.label())));
        if let Some((at_ns, ok)) = request.done.filter(|(at_ns, _)| *at_ns <= capture.until_ns) {
            let latency = time(at_ns - request.submitted_ns);
            let how = if ok { "done" } else { "failed" };
            rows.push((at_ns, at_ns, format!("request {} {how} after {latency}", request.label())));
        }
    }
    rows.retain(|row| row.0 >= capture.from_ns);
    rows.sort_by_key(|row| row.0);
    let begin_ns = capture.from_ns;
    let moved = |(from_ns, to_ns, what): (u64, u64, String)| {
        (from_ns - begin_ns, to_ns.saturating_sub(begin_ns), what)
    };
    rows.into_iter().map(moved).collect()
}

//! A capture as slices for about://tracing and Perfetto (the Trace Event Format): requests, phases,
//! the bus, the cores.

use super::recorder::Capture;
use super::steps::{self, Lane};
use serde_json::{Value, json};

const BUS: u32 = 1;
const CPU: u32 = 2;
const REQUESTS: u32 = 3;

/// The lane of the bus that shows starts that are held.
const HELD: u32 = 5;

/// The file. Times are microseconds from the begin of the window.
pub fn write(capture: &Capture) -> String {
    let mut events = names(capture);
    let at = |ns: u64| ns.saturating_sub(capture.from_ns) as f64 / 1_000.0;
    let slice = |process: u32, lane: u32, name: &str, from_ns: u64, to_ns: u64, detail: &str| {
        let from_ns = from_ns.max(capture.from_ns);
        json!({
            "ph": "X", "pid": process, "tid": lane, "name": name, "ts": at(from_ns),
            "dur": (to_ns.saturating_sub(from_ns)) as f64 / 1_000.0, "args": { "what": detail },
        })
    };
    for phase in steps::phases(capture) {
        events.push(slice(BUS, 1, &phase.label, phase.from_ns, phase.to_ns, &phase.label));
    }
    for step in steps::steps(capture) {
        let lane = if step.lane == Lane::Cmd { 2 } else { 3 };
        events.push(slice(BUS, lane, &step.label, step.from_ns, step.to_ns, &step.detail));
    }
    for held in &capture.holds {
        let to_ns = held.to_ns.min(capture.until_ns);
        events.push(slice(BUS, HELD, "held start", held.from_ns, to_ns, &steps::held_name(held)));
    }
    let ends = capture.interrupts.iter().skip(1).map(|i| i.0).chain([capture.until_ns]);
    for ((from_ns, level), to_ns) in capture.interrupts.iter().zip(ends) {
        if *level {
            events.push(slice(
                BUS,
                4,
                "interrupt",
                *from_ns,
                to_ns,
                "the controller's interrupt line is high",
            ));
        }
    }
    for core in 0..capture.cores as u8 {
        for (from_ns, to_ns, context) in steps::contexts(capture, core) {
            let name = steps::context_name(capture, context);
            events.push(slice(CPU, u32::from(core) + 1, &name, from_ns, to_ns, &name));
        }
    }
    // Requests overlap: asynchronous events, each with its number.
    for (id, request) in capture.requests.iter().enumerate() {
        let name = request.label();
        let failed = matches!(request.done, Some((_, false)));
        let ends = request.done.map_or(capture.until_ns, |(at_ns, _)| at_ns).min(capture.until_ns);
        for (ph, at_ns) in [("b", request.submitted_ns.max(capture.from_ns)), ("e", ends)] {
            events.push(json!({
                "ph": ph, "cat": "request", "id": id, "pid": REQUESTS, "tid": request.io.job + 1, "name": name,
                "ts": at(at_ns), "args": { "failed": failed },
            }));
        }
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events }).to_string()
}

/// Names of processes and lanes.
fn names(capture: &Capture) -> Vec<Value> {
    let mut events = Vec::new();
    let mut name = |kind: &str, process: u32, lane: u32, name: String| {
        events
            .push(json!({ "ph": "M", "name": kind, "pid": process, "tid": lane, "args": { "name": name } }));
    };
    for (process, title) in [(BUS, "bus"), (CPU, "cores"), (REQUESTS, "requests")] {
        name("process_name", process, 0, title.to_owned());
    }
    for (lane, title) in ["phases", "CMD", "DAT", "interrupt line"].into_iter().enumerate() {
        name("thread_name", BUS, lane as u32 + 1, title.to_owned());
    }
    if !capture.holds.is_empty() {
        name("thread_name", BUS, HELD, "held starts".to_owned());
    }
    for core in 0..capture.cores as u32 {
        name("thread_name", CPU, core + 1, format!("core {core}"));
    }
    events
}

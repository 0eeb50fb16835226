//! Writes a capture as a trace for Perfetto (ui.perfetto.dev): requests, bus, CPU cores and
//! counters on a tree of tracks. Arrows lead from a request to its transfer, the interrupt and the
//! completion.

mod packets;

use super::capture::{Capture, What};
use super::steps::{self, Lane, Phase};
use packets::{
    CLEARED, CounterDescriptor, DebugAnnotation, Kind, Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use prost::Message;

/// Number of the packet sequence that all packets of the trace belong to.
const SEQUENCE: u32 = 1;
/// Value of Perfetto's field `child_ordering`: child tracks are sorted by their ranks.
const BY_RANK: i32 = 3;
/// Number of equal intervals of the trace for each of which a counter has a value: the share of the
/// interval in which something was in use. A short trace has fewer intervals ([`SHARE_MIN_NS`]).
const SHARES: u64 = 200;
/// Shortest interval in ns for which a counter has a value. A trace that is too short for
/// [`SHARES`] such intervals has fewer of them.
const SHARE_MIN_NS: u64 = 10_000;

/// Returns the bytes of the trace file. Times in the file are in ns from the start of the window.
pub fn write(capture: &Capture) -> Vec<u8> {
    let mut out = Out { from_ns: capture.from_ns, until_ns: capture.until_ns, ..Out::default() };
    let phases = steps::phases(capture);
    let ways = ways(capture, &phases);
    requests(&mut out, capture, &ways);
    bus(&mut out, capture, &phases, &ways);
    cores(&mut out, capture);
    counters(&mut out, capture, &phases);
    out.encode()
}

/// The two events of the recording that belong to a request, by their indexes: the command (with
/// its data) that transferred the request's first block, and the interrupt after it. `None`: not in
/// the recording.
#[derive(Clone, Copy, Default)]
struct Way {
    phase: Option<usize>,
    interrupt: Option<usize>,
}

/// Returns for each request its command on the bus and its interrupt. The command is `None` if no
/// data command of the window names the request's first block. That is so for a task of the card's
/// queue, and for a request in a packed transfer.
fn ways(capture: &Capture, phases: &[Phase]) -> Vec<Way> {
    let rises: Vec<u64> = rises(capture).map(|(from_ns, _)| from_ns).collect();
    let way = |request: &super::Request| {
        let until_ns = request.done.map_or(capture.until_ns, |(at_ns, _)| at_ns);
        let begun = phases.partition_point(|phase| phase.from_ns < until_ns);
        let in_time = || {
            let before = phases[..begun].iter().enumerate().rev();
            before.take_while(|(_, phase)| phase.to_ns > request.submitted_ns)
        };
        let moves = |phase: &Phase, unit: u32| {
            let Some(data) = phase.data.filter(|data| data.first % unit == 0) else { return false };
            let first = u64::from(data.first / unit);
            let holds = (first..first + u64::from(data.blocks)).contains(&request.io.lba);
            holds && data.direction == request.io.direction
        };
        // The argument is the number of a block, or of a byte on cards of up to 2 GiB.
        let units = [1, 512].into_iter().filter(|_| request.io.blocks > 0);
        let phase =
            units.filter_map(|unit| in_time().find(|(_, phase)| moves(phase, unit))).map(|(at, _)| at).next();
        let interrupt = phase.and_then(|phase| {
            let at = rises.partition_point(|rise| *rise < phases[phase].to_ns);
            rises.get(at).filter(|rise| **rise <= until_ns).map(|_| at)
        });
        Way { phase, interrupt }
    };
    capture.requests.iter().map(way).collect()
}

/// Returns start and end in ns of each time in which the controller's interrupt line is asserted.
fn rises(capture: &Capture) -> impl Iterator<Item = (u64, u64)> + '_ {
    let ends = capture.interrupts.iter().skip(1).map(|i| i.0).chain([capture.until_ns]);
    capture.interrupts.iter().zip(ends).filter(|(from, _)| from.1).map(|(from, to_ns)| (from.0, to_ns))
}

/// Returns the number by which Perfetto joins a request by arrows (a flow) with its command on the
/// bus and its interrupt; never 0.
fn flow(request: usize) -> u64 {
    request as u64 + 1
}

fn requests(out: &mut Out, capture: &Capture, ways: &[Way]) {
    let group = out.group("requests");
    // Slices on one track must not overlap, so each job has as many tracks as it has requests at a
    // time. Perfetto shows tracks of one name as one.
    let mut tracks: Vec<(u32, u64, u64)> = Vec::new();
    for (number, request) in capture.requests.iter().enumerate() {
        let job = request.io.job;
        let (from_ns, to_ns) = (request.submitted_ns, request.done.map_or(capture.until_ns, |d| d.0));
        if to_ns < capture.from_ns || from_ns > capture.until_ns {
            continue;
        }
        let free = tracks.iter().position(|track| track.0 == job && track.2 <= from_ns);
        let at = free.unwrap_or_else(|| {
            let track = out.track(group, &format!("job {}", job + 1));
            tracks.push((job, track, 0));
            tracks.len() - 1
        });
        tracks[at].2 = to_ns;
        let track = tracks[at].1;
        let name = request.label();
        let what = match request.done {
            Some((_, true)) => "complete",
            Some((_, false)) => "failed",
            None => "not complete in the run",
        };
        let has_way = ways[number].phase.is_some();
        let flows = if has_way { vec![flow(number)] } else { Vec::new() };
        out.slice(track, &name, (from_ns, to_ns), what, flows.clone());
        if request.done.is_some_and(|(at_ns, _)| at_ns <= capture.until_ns) {
            // The completion is an instant, so that the arrow does not end at the start of the
            // request's slice.
            out.done(track, to_ns, flows);
        }
    }
}

fn bus(out: &mut Out, capture: &Capture, phases: &[Phase], ways: &[Way]) {
    let group = out.group("bus");
    let of = |which: &dyn Fn(&Way) -> bool| -> Vec<u64> {
        let numbers = ways.iter().enumerate();
        numbers.filter(|(_, way)| which(way)).map(|(number, _)| flow(number)).collect()
    };
    let track = out.track(group, "phases");
    for (at, phase) in phases.iter().enumerate() {
        let flows = of(&|way| way.phase == Some(at));
        out.slice(track, &phase.label, (phase.from_ns, phase.to_ns), &phase.label, flows);
    }
    let (cmd, dat, clk) = (out.track(group, "CMD"), out.track(group, "DAT"), out.track(group, "clock"));
    for (step, event) in steps::steps(capture).into_iter().zip(&capture.events) {
        let lane = match (step.lane, &event.what) {
            // The clock is stopped within a block.
            (_, What::ClockStopped) => clk,
            (Lane::Cmd, _) => cmd,
            (Lane::Dat, _) => dat,
        };
        out.slice(lane, &step.label, (step.from_ns, step.to_ns), &step.detail, Vec::new());
    }
    let track = out.track(group, "interrupt line");
    for (at, span) in rises(capture).enumerate() {
        let flows = of(&|way| way.interrupt == Some(at));
        out.slice(track, "interrupt", span, "the controller's interrupt line is high", flows);
    }
    if !capture.holds.is_empty() {
        let track = out.track(group, "held starts");
        for held in &capture.holds {
            let span = (held.from_ns, held.to_ns);
            out.slice(track, "held start", span, &steps::held_name(held), Vec::new());
        }
    }
}

fn cores(out: &mut Out, capture: &Capture) {
    let group = out.group("cores");
    for core in 0..capture.cores as u8 {
        let track = out.track(group, &format!("core {core}"));
        for (from_ns, to_ns, context) in steps::contexts(capture, core) {
            let name = steps::context_name(capture, context);
            out.slice(track, &name, (from_ns, to_ns), &name, Vec::new());
        }
    }
}

fn counters(out: &mut Out, capture: &Capture, phases: &[Phase]) {
    let group = out.group("counters");
    let depth = out.counter(group, "requests under way", "requests");
    let mut changes: Vec<(u64, i64)> = Vec::new();
    for request in &capture.requests {
        changes.push((request.submitted_ns.max(capture.from_ns), 1));
        changes.extend(request.done.map(|(at_ns, _)| (at_ns.max(capture.from_ns), -1)));
    }
    changes.sort_unstable();
    let mut under_way = 0;
    for (at, (at_ns, change)) in changes.iter().enumerate() {
        under_way += change;
        // Only the last of several values at one time is written.
        if changes.get(at + 1).is_none_or(|next| next.0 != *at_ns) {
            out.count(depth, *at_ns, f64::from(under_way as i32));
        }
    }
    let busy: Vec<(u64, u64)> = phases.iter().map(|phase| (phase.from_ns, phase.to_ns)).collect();
    shares(out, group, "bus in use", &busy, 1);
    let cores = capture.cores as u8;
    let mut busy = Vec::new();
    for core in 0..cores {
        busy.extend(steps::contexts(capture, core).iter().map(|&(from_ns, to_ns, _)| (from_ns, to_ns)));
    }
    shares(out, group, "CPU in use", &busy, u64::from(cores.max(1)));
}

/// Writes a counter `name` in percent, in the group of tracks `group`: for each of about [`SHARES`]
/// equal intervals, how much of the interval is covered by `spans` (begin and end in ns). Spans may
/// overlap: 100 % means that `lanes` spans are in progress during the whole interval.
fn shares(out: &mut Out, group: u64, name: &str, spans: &[(u64, u64)], lanes: u64) {
    let track = out.counter(group, name, "%");
    let (from_ns, until_ns) = (out.from_ns, out.until_ns);
    let window_ns = ((until_ns - from_ns) / SHARES).max(SHARE_MIN_NS);
    let mut used = vec![0; (until_ns - from_ns).div_ceil(window_ns) as usize];
    for &(begin, end) in spans {
        let (mut at, end) = (begin.max(from_ns), end.min(until_ns));
        while at < end {
            let window = (at - from_ns) / window_ns;
            let next = (from_ns + (window + 1) * window_ns).min(end);
            used[window as usize] += next - at;
            at = next;
        }
    }
    for (window, used) in used.into_iter().enumerate() {
        let at_ns = from_ns + window as u64 * window_ns;
        let length_ns = window_ns.min(until_ns - at_ns);
        out.count(track, at_ns, 100.0 * used as f64 / (length_ns * lanes) as f64);
    }
    out.count(track, until_ns, 0.0);
}

/// Packets of the trace that were made so far, and the tracks that they describe.
#[derive(Default)]
struct Out {
    from_ns: u64,
    until_ns: u64,
    tracks: u64,
    described: Vec<TracePacket>,
    /// Events with their time and a rank. At equal times, an end has a lower rank than a begin.
    events: Vec<(u64, u8, TracePacket)>,
}

impl Out {
    fn describe(&mut self, track: TrackDescriptor) -> u64 {
        self.tracks += 1;
        let track = TrackDescriptor {
            uuid: Some(self.tracks),
            sibling_order_rank: Some(self.tracks as i32),
            ..track
        };
        self.described.push(TracePacket { track_descriptor: Some(track), ..TracePacket::default() });
        self.tracks
    }

    fn group(&mut self, name: &str) -> u64 {
        let (name, child_ordering) = (Some(name.to_owned()), Some(BY_RANK));
        self.describe(TrackDescriptor { name, child_ordering, ..TrackDescriptor::default() })
    }

    fn track(&mut self, group: u64, name: &str) -> u64 {
        let (name, parent_uuid) = (Some(name.to_owned()), Some(group));
        self.describe(TrackDescriptor { name, parent_uuid, ..TrackDescriptor::default() })
    }

    fn counter(&mut self, group: u64, name: &str, unit: &str) -> u64 {
        let (name, parent_uuid) = (Some(name.to_owned()), Some(group));
        let counter = Some(CounterDescriptor { unit_name: Some(unit.to_owned()) });
        self.describe(TrackDescriptor { name, parent_uuid, counter, ..TrackDescriptor::default() })
    }

    fn event(&mut self, at_ns: u64, rank: u8, track: u64, kind: Kind, event: TrackEvent) {
        let timestamp = Some(at_ns.clamp(self.from_ns, self.until_ns) - self.from_ns);
        let track_event = Some(TrackEvent { r#type: Some(kind.into()), track_uuid: Some(track), ..event });
        self.events.push((at_ns, rank, TracePacket { timestamp, track_event, ..TracePacket::default() }));
    }

    /// Writes a slice with this name on a track, from `span.0` to `span.1` in ns, cut at the ends
    /// of the window. `what` is the text that the viewer shows for the slice; `flow_ids` are the
    /// arrows to other slices.
    fn slice(&mut self, track: u64, name: &str, span: (u64, u64), what: &str, flow_ids: Vec<u64>) {
        let (from_ns, to_ns) = (span.0.max(self.from_ns), span.1.min(self.until_ns));
        if to_ns < from_ns {
            return;
        }
        let annotation =
            DebugAnnotation { name: Some("what".to_owned()), string_value: Some(what.to_owned()) };
        let name = Some(name.to_owned());
        let begin =
            TrackEvent { name, debug_annotations: vec![annotation], flow_ids, ..TrackEvent::default() };
        // A slice of length 0 must end after its own begin.
        let ends = if to_ns == from_ns { 3 } else { 0 };
        self.event(from_ns, 2, track, Kind::SliceBegin, begin);
        self.event(to_ns, ends, track, Kind::SliceEnd, TrackEvent::default());
    }

    fn done(&mut self, track: u64, at_ns: u64, flows: Vec<u64>) {
        let name = Some("done".to_owned());
        let event = TrackEvent { name, terminating_flow_ids: flows, ..TrackEvent::default() };
        self.event(at_ns, 1, track, Kind::Instant, event);
    }

    fn count(&mut self, track: u64, at_ns: u64, value: f64) {
        if at_ns > self.until_ns {
            return;
        }
        let event = TrackEvent { double_counter_value: Some(value), ..TrackEvent::default() };
        self.event(at_ns, 2, track, Kind::Counter, event);
    }

    fn encode(mut self) -> Vec<u8> {
        self.events.sort_by_key(|event| (event.0, event.1));
        let events = self.events.into_iter().map(|event| event.2);
        let mut packet: Vec<TracePacket> = self.described.into_iter().chain(events).collect();
        for (at, packet) in packet.iter_mut().enumerate() {
            packet.trusted_packet_sequence_id = Some(SEQUENCE);
            packet.sequence_flags = (at == 0).then_some(CLEARED);
        }
        Trace { packet }.encode_to_vec()
    }
}

//! Makes workers from recorded requests: decides which thread issues each request, and when it may
//! start.

use super::described::Described;
use super::records::Records;
use super::{Event, Format, Op, Record, What};
use crate::fio::job::{Continue, IoEngine, Rw};
use crate::fio::report::{Fact, Replayed};
use crate::fio::script::{self, Entries, Entry, Remap, Script, When};
use crate::fio::{Job, ParseError, Place, Worker};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Rule that says when the requests of a replay start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Requests start at the times of the trace, even if the card is slower.
    #[default]
    Open,
    /// Requests start as soon as fewer requests than the depth are under way (closed loop).
    Closed,
    /// A request starts after the same pause as in the trace. The pause counts from the end of the
    /// request for which the process had waited.
    Think,
}

impl Mode {
    /// Returns the name of the rule in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Open => "open",
            Mode::Closed => "closed",
            Mode::Think => "think",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Mode::Open, Mode::Closed, Mode::Think];
        all.into_iter().find(|m| m.name() == name).ok_or_else(|| "expected open, closed or think".to_owned())
    }
}

/// Options for the replay of a trace.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Rule that says when requests start.
    pub mode: Mode,
    /// Largest number of requests that a worker may have under way.
    pub depth: u32,
    /// Factor by which all times of the trace are multiplied.
    pub scale: f64,
    /// Longest pause in ns between two requests, before scaling; `None`: no limit.
    pub gap_max_ns: Option<u64>,
    /// How the offsets of the trace are mapped to the card.
    pub remap: Remap,
    /// Whether to sort the requests by time, if the trace has them in another order.
    pub sort: bool,
    /// Largest number of requests of the trace to use.
    pub count: usize,
    /// Whether the replay leaves out the flushes of the trace.
    pub without_flush: bool,
    /// Whether durable writes (FUA) of the trace become ordinary writes.
    pub without_fua: bool,
    /// Whether the replay leaves out the discards of the trace.
    pub without_discard: bool,
}

impl Wishes {
    /// Refuses options that are out of range, and those that have no effect.
    fn checked(&self) -> Result<(), ParseError> {
        let fault = |option: &str, why: String| Err(ParseError::new(&Place::Whole(option.to_owned()), why));
        let closed = "a closed loop has no times of the trace; expected none";
        match self.mode {
            _ if !(0.0..=1e6).contains(&self.scale) => {
                fault("--scale", format!("{}: expected a number from 0 to 1000000", self.scale))
            }
            _ if !(1..=DEPTH_MAX).contains(&self.depth) => {
                fault("--depth", format!("{}: expected a whole number from 1 to {DEPTH_MAX}", self.depth))
            }
            Mode::Closed if self.scale != 1.0 => fault("--scale", closed.to_owned()),
            Mode::Closed if self.gap_max_ns.is_some() => fault("--gap-max", closed.to_owned()),
            _ => Ok(()),
        }
    }
}

/// Largest number of requests that a worker of a replay may have under way.
const DEPTH_MAX: u32 = 4096;
/// Largest number of requests of a trace, which need 0.5 GB of memory.
pub const REQUESTS_MAX: usize = 1 << 24;
/// Largest number of workers that replay a trace. Each process of the trace has one, and further
/// processes share them.
const WORKERS_MAX: usize = 32;
/// Size in bytes of the largest read or write: the block count of a command has 16 bits.
const BYTES_MAX: u64 = 65_535 * 512;
/// Start of the message about a trace of which no request is left.
pub const NO_REQUEST: &str = "no request is left";

/// Keys of flushes in the map of requests under way: this plus the flush's number in the trace. All
/// other keys are offsets on a device, which are smaller.
const OF_FLUSH: u64 = 1 << 62;
/// Longest time in ns, in the trace, for which its reader goes on after the last wanted request, to
/// find when the wanted requests ended.
const ENDS_NS: u64 = 30_000_000_000;
/// Alignment in bytes of each device of a trace in the load's address space.
const DEVICE_ALIGN: u64 = 1 << 20;

/// Workers that replay a trace, with facts about the trace.
#[derive(Debug)]
pub struct Plan {
    /// The workers, each with a script of its requests.
    pub workers: Vec<Worker>,
    /// Number of requests of the trace that are used.
    pub requests: usize,
    /// Time in ns from the first request to the last, as recorded.
    pub span_ns: u64,
    /// Number of processes in the trace.
    pub processes: usize,
    /// Number of devices or files in the trace.
    pub devices: usize,
    /// Size in bytes of the load's address space, before it is mapped to the card.
    pub extent: u64,
    /// Differences of the replay from the recording, one line each.
    pub notes: Vec<String>,
    /// Names of the programs, by their number in the scripts; empty: the trace has none.
    pub programs: Vec<String>,
    described: Described,
}

impl Plan {
    /// Returns the part of a report about the trace: `name` is the trace's name, `format` the
    /// format in which it was read.
    pub fn replayed(&self, name: &str, format: Format, wishes: &Wishes) -> Replayed {
        let count = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {more}"),
        };
        let processes = count(self.processes, "process", "processes");
        let head = format!("The recorded load {name} ({}), of {processes}", format.name());
        Replayed {
            facts: self.facts(name, format, wishes),
            told: self.described.told(&head, self.span_ns),
            names: self.programs.clone(),
        }
    }

    fn facts(&self, name: &str, format: Format, wishes: &Wishes) -> Vec<(String, Fact)> {
        let word = |word: &str| Fact::Word(word.to_owned());
        let mut facts = vec![
            ("trace", word(name)),
            ("format", word(format.name())),
            ("requests", Fact::Count(self.requests as u64)),
            ("processes", Fact::Count(self.processes as u64)),
            ("devices", Fact::Count(self.devices as u64)),
            ("seconds", Fact::Number(self.span_ns as f64 / 1e9)),
            ("extent_bytes", Fact::Count(self.extent)),
            ("mode", word(wishes.mode.name())),
            ("depth", Fact::Count(u64::from(wishes.depth))),
            ("scale", Fact::Number(wishes.scale)),
            ("remap", word(wishes.remap.name())),
        ];
        if let Some(gap_ns) = wishes.gap_max_ns {
            facts.push(("gap_max_us", Fact::Number(gap_ns as f64 / 1e3)));
        }
        let without = [
            ("flush", wishes.without_flush),
            ("discard", wishes.without_discard),
            ("fua", wishes.without_fua),
        ];
        let without: Vec<&str> =
            without.into_iter().filter(|(_, left)| *left).map(|(what, _)| what).collect();
        if !without.is_empty() {
            facts.push(("without", word(&without.join("+"))));
        }
        let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
        facts.chain(self.described.facts()).collect()
    }
}

/// A request that has begun and has not ended.
#[derive(Clone, Copy)]
struct Open {
    number: usize,
    bytes: u64,
    left: u64,
}

impl Open {
    fn of(number: usize, record: &Record) -> Self {
        Open { number, bytes: record.bytes, left: record.bytes }
    }
}

/// Requests of a trace, collected while the trace is read. The plan of the replay is made from
/// them.
#[derive(Default)]
struct Gathered {
    records: Records,
    /// Each request that has not ended, by device and offset: its index in `records`, its length in
    /// bytes, and how many of these bytes are not complete. `None`: the trace has had no end of a
    /// request so far; most formats have none.
    open: Option<BTreeMap<(u32, u64), Open>>,
    /// For each device: the byte address at which its used part ends, and the place in the trace of
    /// the request that reaches this address.
    ends: BTreeMap<u32, (u64, Place)>,
    /// Name of each process. A format may give it only with some of the requests.
    names: HashMap<u32, Arc<str>>,
    rounded: u64,
    empty: u64,
    durations: u64,
}

impl Gathered {
    fn begins(&mut self, mut record: Record, place: &Place) -> Result<(), ParseError> {
        if record.op != Op::Flush {
            let end = record.offset.checked_add(record.bytes).filter(|end| *end <= 1 << 60);
            let Some(end) = end else {
                return Err(ParseError::new(
                    place,
                    format!("offset {}: expected an end below 2^60", record.offset),
                ));
            };
            if record.bytes == 0 {
                self.empty += 1;
                return Ok(());
            }
            let whole = (record.offset & !511, end.next_multiple_of(512));
            self.rounded += u64::from(whole != (record.offset, end));
            (record.offset, record.bytes) = (whole.0, whole.1 - whole.0);
            if record.op != Op::Discard && record.bytes > BYTES_MAX {
                let why = format!("{} bytes: expected at most {BYTES_MAX} in a request", record.bytes);
                return Err(ParseError::new(place, why));
            }
            let known = self.ends.entry(record.device).or_insert_with(|| (0, place.clone()));
            if whole.1 > known.0 {
                *known = (whole.1, place.clone());
            }
        }
        if let Some(open) = &mut self.open {
            let number = self.records.len();
            open.insert(place_of(number, &record), Open::of(number, &record));
        }
        if let Some(program) = &record.program {
            self.names.entry(record.process).or_insert_with(|| program.clone());
        }
        self.durations += u64::from(record.took_ns.is_some());
        self.records.push(&record);
        Ok(())
    }

    /// Records that `bytes` bytes of a device, from byte `offset` on, are complete at the time
    /// `at_ns`. A request ends when its last byte is complete: a driver may get it in pieces, or
    /// together with others. 0 bytes: the oldest flush is complete.
    fn ended(&mut self, at_ns: u64, device: u32, offset: u64, bytes: u64) {
        let open = self.open.get_or_insert_with(|| {
            let all = (0..).zip(self.records.iter());
            all.map(|(number, record)| (place_of(number, &record), Open::of(number, &record))).collect()
        });
        let (from, to) = match bytes {
            // An end names no flush, so it is that of the oldest one.
            0 => match open.range((device, OF_FLUSH)..=(device, u64::MAX)).next() {
                Some(((_, flush), _)) => (*flush, *flush + 1),
                None => return,
            },
            _ => (offset, offset.saturating_add(bytes)),
        };
        // Requests under way do not overlap, so at most one reaches into the range from before it.
        let before = open.range((device, 0)..(device, from)).next_back();
        let before = before.filter(|(key, one)| key.1.saturating_add(one.bytes) > from);
        let within = open.range((device, from)..(device, to));
        let keys: Vec<(u32, u64)> = before.into_iter().chain(within).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(one) = open.get_mut(&key) else { continue };
            let part = key.1.saturating_add(one.bytes).min(to).saturating_sub(key.1.max(from));
            one.left = one.left.saturating_sub(part);
            if one.left == 0 {
                self.durations += u64::from(self.records.ended(one.number, at_ns));
                open.remove(&key);
            }
        }
    }
}

/// Returns the key (device and offset) by which this request is found among the requests that have
/// not ended. A flush has a key made of its number.
fn place_of(number: usize, record: &Record) -> (u32, u64) {
    (record.device, if record.op == Op::Flush { OF_FLUSH + number as u64 } else { record.offset })
}

fn gather(
    events: impl Iterator<Item = Result<Event, ParseError>>,
    wishes: &Wishes,
) -> Result<Gathered, ParseError> {
    let mut all = Gathered::default();
    let mut newest_ns = 0_u64;
    for event in events {
        let is_full = all.records.len() >= wishes.count;
        // Of the rest only the ends of the requests that are replayed count.
        let Event { at_ns, place, what } = match event {
            Err(_) if is_full => break,
            event => event?,
        };
        let record = match what {
            What::Begins(record) => record,
            What::Ends { device, offset, bytes } => {
                all.ended(at_ns, device, offset, bytes);
                continue;
            }
        };
        let left_out = match record.op {
            Op::Flush => wishes.without_flush,
            Op::Discard => wishes.without_discard,
            Op::Read | Op::Write => false,
        };
        if left_out {
            continue;
        }
        if is_full {
            let over = at_ns > newest_ns.saturating_add(ENDS_NS);
            if over || all.open.as_ref().is_some_and(BTreeMap::is_empty) {
                break;
            }
            continue;
        }
        if at_ns < newest_ns && !wishes.sort {
            let back_ns = newest_ns - at_ns;
            return Err(ParseError::new(
                &place,
                format!("the time goes back by {back_ns} ns; --sort puts requests in order"),
            ));
        }
        newest_ns = newest_ns.max(at_ns);
        if all.records.len() == REQUESTS_MAX {
            let why = format!("more than {REQUESTS_MAX} requests; --count replays the first ones");
            return Err(ParseError::new(&place, why));
        }
        all.begins(record, &place)?;
    }
    all.open = None;
    Ok(all)
}

/// Returns the requests of a trace that a replay with these options uses, sorted by time.
///
/// # Errors
///
/// The trace has an error, times that decrease, a request that is too long or ends beyond the
/// largest offset, or too many requests. (A trace without requests is no error.)
pub fn records(
    events: impl Iterator<Item = Result<Event, ParseError>>,
    wishes: &Wishes,
) -> Result<Vec<Record>, ParseError> {
    Ok(gather(events, wishes)?.records.drain().collect())
}

/// Converts times of the trace into times of the plan: long pauses are shortened and all times
/// scaled.
struct Clock {
    last_ns: u64,
    gap_max_ns: u64,
    scale: f64,
    now_ns: u64,
}

impl Clock {
    fn scaled(&self, ns: u64) -> u64 {
        if self.scale == 1.0 { ns } else { (ns as f64 * self.scale) as u64 }
    }

    /// Returns the planned time in ns of the next request, counted from the first request.
    /// `recorded_ns`: its time in the trace.
    fn at(&mut self, recorded_ns: u64) -> u64 {
        self.now_ns += recorded_ns.saturating_sub(self.last_ns).min(self.gap_max_ns);
        self.last_ns = recorded_ns;
        self.scaled(self.now_ns)
    }
}

/// State of a process while its requests are planned.
#[derive(Default)]
struct Thread {
    entries: Entries,
    /// For each request of the process, the number of the program that made it.
    programs: Vec<u16>,
    /// Recorded start in ns of the process's newest request.
    went_ns: u64,
    /// Requests of the process that have not ended when the next one starts: recorded end in ns,
    /// and index.
    under_way: Vec<(u64, u32)>,
    /// Latest recorded end of a request before the start of the newest one: time in ns, and index
    /// of the request that ended. `None`: no request had ended before.
    last_end: Option<(u64, u32)>,
}

impl Thread {
    /// Returns when the next request of the process may start in mode [`Mode::Think`]. If a request
    /// of the process has ended since its newest request started, the pause counts from that end.
    /// Otherwise the pause counts from the start of the newest request.
    fn think(&mut self, record: &Record, clock: &Clock) -> When {
        let passed = self.under_way.iter().filter(|(end_ns, _)| *end_ns <= record.at_ns).max().copied();
        self.under_way.retain(|(end_ns, _)| *end_ns > record.at_ns);
        self.last_end = self.last_end.max(passed);
        let gap = |from_ns: u64| clock.scaled(record.at_ns.saturating_sub(from_ns).min(clock.gap_max_ns));
        match self.last_end {
            // The process waited for this request after it had issued its last one.
            Some((end_ns, number)) if end_ns >= self.went_ns => When::AfterEnd(number, gap(end_ns)),
            _ => When::AfterStart(gap(self.went_ns)),
        }
    }
}

/// Makes the workers that replay a trace from its events. `name` is the trace's name, `wishes` are
/// the options of the replay.
///
/// # Errors
///
/// An option is out of range or has no effect. Or the trace has an error, times that decrease, a
/// request that is too long or ends beyond the largest offset, too many requests, or none at all.
pub fn plan(
    name: &str,
    events: impl Iterator<Item = Result<Event, ParseError>>,
    wishes: &Wishes,
) -> Result<Plan, ParseError> {
    wishes.checked()?;
    let mut all = gather(events, wishes)?;
    let whole = Place::Whole(name.to_owned());
    let Some((first_ns, last_ns)) = all.records.span_ns() else {
        let why = "--event (Q, D or C) is what the trace must have, --device, --without and --count leave requests out";
        return Err(ParseError::new(&whole, format!("{NO_REQUEST}; expected at least one: {why}")));
    };
    let span_ns = last_ns - first_ns;
    let mut notes = Vec::new();
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            notes.push(format!("{count} requests {text}"));
        }
    };
    note(all.rounded, "are rounded to whole blocks of 512 bytes");
    note(all.empty, "of no bytes are left out");
    // Each device begins where the previous one ends.
    let (mut bases, mut extent) = (HashMap::new(), (0, whole));
    for (device, (end, place)) in &all.ends {
        let base = u64::next_multiple_of(extent.0, DEVICE_ALIGN);
        bases.insert(*device, base);
        extent = (base.saturating_add(*end), place.clone());
    }
    let ends_known = all.durations > 0;
    if wishes.mode == Mode::Think && !ends_known {
        notes.push("the trace does not say when requests end: all of a gap is thought".to_owned());
    }
    let mut clock = Clock {
        last_ns: first_ns,
        gap_max_ns: wishes.gap_max_ns.unwrap_or(u64::MAX),
        scale: wishes.scale,
        now_ns: 0,
    };
    let (mut numbers, mut threads) = (HashMap::new(), Vec::<Thread>::new());
    let requests = all.records.len();
    let all_names = std::mem::take(&mut all.names);
    let (mut described, mut programs) = (Described::default(), Programs::default());
    for record in all.records.drain() {
        described.add(&record);
        let name = record.program.as_ref().or_else(|| all_names.get(&record.process));
        let program = programs.number(name);
        let known = numbers.len();
        let process = *numbers.entry(record.process).or_insert(known);
        let thread = if wishes.mode == Mode::Closed { 0 } else { process % WORKERS_MAX };
        if thread == threads.len() {
            threads.push(Thread { went_ns: first_ns, ..Thread::default() });
        }
        let thread = &mut threads[thread];
        let due_ns = clock.at(record.at_ns);
        let due = Some(due_ns).filter(|_| wishes.mode != Mode::Closed);
        let mut when = match wishes.mode {
            Mode::Open => When::At(due_ns),
            Mode::Closed => When::AtOnce,
            Mode::Think if thread.entries.is_empty() => When::At(due_ns),
            Mode::Think if ends_known => thread.think(&record, &clock),
            Mode::Think => {
                let gap_ns = record.at_ns.saturating_sub(thread.went_ns).min(clock.gap_max_ns);
                When::AfterEnd(thread.entries.len() as u32 - 1, clock.scaled(gap_ns))
            }
        };
        thread.went_ns = record.at_ns;
        if record.flush_first && !wishes.without_flush {
            thread.entries.push(Entry { op: script::Op::Flush, offset: 0, bytes: 0, when, due });
            thread.programs.push(program);
            when = When::AfterStart(0);
        }
        if let Some(took_ns) = record.took_ns {
            thread.under_way.push((record.at_ns.saturating_add(took_ns), thread.entries.len() as u32));
        }
        let op = match record.op {
            Op::Read => script::Op::Read,
            Op::Write if record.durable && !wishes.without_fua => script::Op::WriteDurable,
            Op::Write => script::Op::Write,
            Op::Flush => script::Op::Flush,
            Op::Discard => script::Op::Discard,
        };
        let base = if record.op == Op::Flush { 0 } else { bases.get(&record.device).copied().unwrap_or(0) };
        thread.entries.push(Entry { op, offset: base + record.offset, bytes: record.bytes, when, due });
        thread.programs.push(program);
    }
    let names = programs.names();
    let workers = threads.into_iter().enumerate().map(|(number, mut thread)| {
        thread.entries.shrink_to_fit();
        let programs = if names.is_empty() { Vec::new() } else { thread.programs };
        let (entries, extent) = (thread.entries.into(), extent.clone());
        let script = Script { entries, programs: programs.into(), extent, remap: wishes.remap };
        worker(name, number, script, wishes)
    });
    let workers = workers.collect();
    Ok(Plan {
        workers,
        requests,
        span_ns,
        processes: numbers.len(),
        devices: all.ends.len(),
        extent: extent.0,
        notes,
        programs: names,
        described,
    })
}

/// Programs of a trace by number, while they are collected.
#[derive(Default)]
struct Programs {
    known: HashMap<Arc<str>, u16>,
    names: Vec<String>,
    nameless: bool,
}

/// Largest number of programs with a number of their own; all others share this number.
const PROGRAMS_MAX: u16 = 255;
/// Name in reports for two groups: requests whose program the trace does not name, and requests of
/// programs that have no number of their own because there are more than [`PROGRAMS_MAX`].
const OTHERS: &str = "(others)";

impl Programs {
    /// Returns the number of the program with this name; a new name gets the next number.
    fn number(&mut self, name: Option<&Arc<str>>) -> u16 {
        let next = self.names.len() as u16;
        match name {
            Some(name) if self.known.contains_key(name) => self.known[name],
            Some(name) if next < PROGRAMS_MAX => {
                self.known.insert(name.clone(), next);
                self.names.push((**name).to_owned());
                next
            }
            _ => {
                self.nameless = true;
                PROGRAMS_MAX
            }
        }
    }

    /// Returns the names of the programs by their numbers; empty if no request has a name.
    fn names(self) -> Vec<String> {
        let mut names = self.names;
        if self.nameless && !names.is_empty() {
            names.resize(usize::from(PROGRAMS_MAX), String::new());
            names.push(OTHERS.to_owned());
        }
        names
    }
}

fn worker(name: &str, number: usize, script: Script, wishes: &Wishes) -> Worker {
    let mut job = Job::new(name, Place::Whole(name.to_owned()));
    let writes = |op: &script::Op| script.has(*op);
    job.rw = Rw {
        read: script.has(script::Op::Read),
        write: [script::Op::Write, script::Op::WriteDurable, script::Op::Discard].iter().any(writes),
        random: false,
    };
    (job.ioengine, job.iodepth, job.direct) = (IoEngine::Libaio, wishes.depth, true);
    job.group_reporting = true;
    // Failed requests are counted, and the load continues.
    job.continue_on_error = Continue { read: true, write: true, verify: true };
    Worker {
        job: Arc::new(job),
        thread_number: number as u32 + 1,
        subjob: number as u32,
        group: 0,
        waits_for_earlier: false,
        files: vec!["/dev/mmcblk0".to_owned()],
        script: Some(script),
    }
}

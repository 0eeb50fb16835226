//! Tests that the fast path through the engine and the general path give the same phases at the
//! same times, results, data, counters and deadlines. One engine takes the fast path wherever it
//! can, a second engine never takes it, and both get the same events.

#[path = "fast_path/continued.rs"]
mod continued;

use crate::erased::Erased;
use crate::{fuzz, support};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::engine::{
    Acknowledge, Completion, Config, DmaBuf, Engine, Error, Kind, Output, PollOutcome, RecoveryEvent,
    Request, SlotId, Span, Stats, StaysOpen,
};
use mmcq::host::{
    Auto, BusOp, BusyDetect, Caps, Cause, Direction, DmaError, Events, Host, Phase, Segment, Stage,
    StartError, Step,
};
use mmcq::sched::{
    Any, Deadline, Fifo, Holds, Origin, Policy, Profile, ReadsFirst, Single, Whole, deadline::DeadlineConfig,
};
use mmcq::spec::response::R1;
use std::cell::RefCell;
use std::rc::Rc;
use support::{READY, TestHost, World, buffer, target};

const BLOCKS: u64 = 256;
const SLOTS: usize = 8;
const MODES: [StaysOpen; 3] = [StaysOpen::WherePays, StaysOpen::Always, StaysOpen::Never];

/// A profile with this scheduler, and without the fast path.
struct GeneralPath<P = Fifo>(P);

impl<P: Policy> Profile for GeneralPath<P> {
    type Policy = P;
    type Tails = Whole;
    type Lanes = Single;
    const FAST: bool = false;

    fn policy(&self) -> &P {
        &self.0
    }

    fn policy_mut(&mut self) -> &mut P {
        &mut self.0
    }
}

/// The tests' host, which by its type may continue an open transfer (`CONSTANTS` is [`OPEN`]) or
/// never does ([`SHUT`]). It records the phases, and refuses some starts.
struct Closed<const CONSTANTS: u16> {
    host: TestHost,
    /// Number of phases that the fast path has started.
    fast: u32,
    /// Number of those that continued an open transfer.
    fast_on: u32,
    started: Vec<(Phase, Vec<u32>, u64)>,
    refuse: u32,
    /// Whether the card has sent the response of the phase in progress.
    answered: bool,
}

/// The constants of both hosts, which the compiler checks.
const SHUT: u16 = 0x10;
const OPEN: u16 = SHUT | 1;

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl<const CONSTANTS: u16> Host for Closed<CONSTANTS> {
    const CONTINUES: bool = CONSTANTS == OPEN;
    const ALWAYS_CONTINUES: bool = false;
    const EARLY_R1: bool = true;

    support::handed_on!();
    support::bus_handed_on!();
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.refuse > 0 {
            self.refuse -= 1;
            return Err(StartError::DataLine);
        }
        self.host.start(phase, segments, timeout_ns)?;
        self.started.push((*phase, segments.iter().map(Segment::len_bytes).collect(), timeout_ns));
        Ok(())
    }
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.fast += 1;
        self.fast_on += u32::from(phase.auto == Auto::Continue);
        self.start(phase, segments, timeout_ns)
    }
    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.host.ack(segments)
    }
    fn early_r1(&mut self) -> Option<u32> {
        let world = self.host.world.borrow();
        (self.answered && world.running()).then_some(READY | world.next_status)
    }
}

struct Side<P: Profile, const CONSTANTS: u16> {
    world: Rc<RefCell<World>>,
    engine: Engine<Erased<CONSTANTS>, SLOTS, P>,
}

/// The visible result of one event.
#[derive(Debug, PartialEq)]
enum Seen {
    Submitted(Result<usize, String>),
    PollOutcome(PollOutcome),
    Done(Option<(Result<Output, Error>, u32, Vec<u8>)>),
    Back(Option<Vec<u8>>),
    Nothing,
}

/// What is visible of an engine from outside.
#[derive(Debug, PartialEq)]
struct Looks {
    stats: Stats,
    holds: Holds,
    held_until_ns: Option<u64>,
    next_deadline_ns: Option<u64>,
    last_phase: Option<Span>,
    awaited: Option<Phase>,
    slots_in_use: usize,
    mapped: usize,
    is_idle: bool,
    incidents: Vec<RecoveryEvent>,
}

/// An event for an engine.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Submit { kind: Kind, client: u8, fill: u8, durable: bool, short: bool },
    Interrupt,
    Poll,
    Deadline,
    Take(usize),
    Abandon(usize),
    TakeBack(usize),
    Fault { cause: Cause, stage: Stage, executed: bool },
    Status(u32),
    Silent(bool),
    Refuse(u32),
    Answered(bool),
    Halt(bool),
    Suspend,
    Again,
    Retune,
    StaysOpen(StaysOpen),
}

impl<P: Profile, const CONSTANTS: u16> Side<P, CONSTANTS> {
    fn new(caps: Caps, policy: P, config: Config, protected: bool, busy_polls: u32) -> Self {
        let world = World::new(BLOCKS);
        world.borrow_mut().caps = caps;
        world.borrow_mut().busy_polls = busy_polls;
        let (host, started) = (TestHost::new(&world), Vec::new());
        let host = Closed::<CONSTANTS> { host, fast: 0, fast_on: 0, started, refuse: 0, answered: false };
        let mut engine = Engine::with_policy(Erased::new(host), config, policy);
        engine.set_card_params(Some(target(BLOCKS).protected(protected)));
        Side { world, engine }
    }

    fn host(&self) -> &Closed<CONSTANTS> {
        self.engine.host().get()
    }

    fn happens(&mut self, step: Turn, ids: &[Option<SlotId>; SLOTS], now: u64) -> (Seen, Option<SlotId>) {
        let seen = match step {
            Turn::Submit { kind, client, fill, durable, short } => {
                let blocks = match kind {
                    Kind::Read { blocks, .. } | Kind::Write { blocks, .. } => blocks,
                    _ => 0,
                };
                let buf = if blocks == 0 { DmaBuf::EMPTY } else { buffer(blocks - u32::from(short), fill) };
                let request = Request::new(kind, buf).from(Origin { client, sync: true });
                let request = if durable { request.durable() } else { request };
                return match self.engine.submit(request, now) {
                    Ok(id) => (Seen::Submitted(Ok(id.index())), Some(id)),
                    Err((error, _)) => (Seen::Submitted(Err(format!("{error:?}"))), None),
                };
            }
            Turn::Interrupt => Seen::PollOutcome(self.engine.on_irq(now)),
            Turn::Poll | Turn::Deadline => Seen::PollOutcome(self.engine.poll(now)),
            Turn::Take(at) => {
                let done = ids[at].and_then(|id| self.engine.take(id));
                Seen::Done(
                    done.map(|Completion { result, done_bytes, buf, .. }| (result, done_bytes, buf.to_vec())),
                )
            }
            Turn::Abandon(at) => {
                if let Some(id) = ids[at] {
                    self.engine.abandon(id);
                }
                Seen::Nothing
            }
            Turn::TakeBack(at) => {
                let buf = ids[at].and_then(|id| self.engine.take_back(id));
                Seen::Back(buf.map(|buf| buf.to_vec()))
            }
            Turn::Fault { cause, stage, executed } => {
                let mut world = self.world.borrow_mut();
                let nth = world.log.len();
                world.faults.insert(nth, (cause, stage, executed));
                Seen::Nothing
            }
            Turn::Status(status) => {
                self.world.borrow_mut().next_status = status;
                Seen::Nothing
            }
            Turn::Silent(silent) => {
                self.world.borrow_mut().silent = silent;
                Seen::Nothing
            }
            Turn::Refuse(times) => {
                // SAFETY: only the test's own setting is written.
                unsafe { self.engine.host_mut() }.get_mut::<Closed<CONSTANTS>>().refuse = times;
                Seen::Nothing
            }
            Turn::Answered(answered) => {
                // SAFETY: only the test's own setting is written.
                unsafe { self.engine.host_mut() }.get_mut::<Closed<CONSTANTS>>().answered = answered;
                Seen::Nothing
            }
            Turn::Halt(true) => {
                self.engine.halt();
                Seen::Nothing
            }
            Turn::Halt(false) => {
                self.engine.resume(now);
                Seen::Nothing
            }
            Turn::Suspend => {
                self.engine.suspend();
                Seen::Nothing
            }
            Turn::Again => {
                self.engine.set_card_params(Some(target(BLOCKS)));
                Seen::Nothing
            }
            Turn::Retune => {
                self.world.borrow_mut().retune = true;
                Seen::Nothing
            }
            Turn::StaysOpen(when) => {
                self.engine.set_stays_open(when);
                Seen::Nothing
            }
        };
        (seen, None)
    }

    fn looks(&self) -> Looks {
        Looks {
            stats: *self.engine.stats(),
            holds: self.engine.holds(),
            held_until_ns: self.engine.held_until_ns(),
            next_deadline_ns: self.engine.next_deadline_ns(),
            last_phase: self.engine.last_phase(),
            awaited: self.engine.awaited().copied(),
            slots_in_use: self.engine.slots_in_use(),
            mapped: self.world.borrow().mapped(),
            is_idle: self.engine.is_idle(),
            incidents: self.engine.incidents().collect(),
        }
    }
}

/// Passes an event to both engines, and compares their results and all that is visible of them.
fn alike<P: Profile, Q: Policy, const CONSTANTS: u16>(
    one: &mut Side<P, CONSTANTS>,
    other: &mut Side<GeneralPath<Q>, CONSTANTS>,
    step: Turn,
    ids: &[Option<SlotId>; SLOTS],
    now: u64,
) -> (Seen, Option<SlotId>) {
    let (seen, id) = one.happens(step, ids, now);
    assert_eq!(seen, other.happens(step, ids, now).0, "{step:?} at {now}");
    assert_eq!(one.looks(), other.looks(), "after {step:?} at {now}");
    (seen, id)
}

/// Compares the phases that two engines have started, and the content of their cards.
fn alike_at_last<P: Profile, Q: Policy, const CONSTANTS: u16>(
    one: &Side<P, CONSTANTS>,
    other: &Side<GeneralPath<Q>, CONSTANTS>,
) {
    assert_eq!(one.host().started, other.host().started);
    assert_eq!(one.world.borrow().medium, other.world.borrow().medium);
    assert_eq!(other.host().fast, 0);
}

/// Passes random events to an engine with the scheduler `policy` and to one with the scheduler
/// `general` and without the fast path, and compares them. Returns how many phases the first engine
/// started by the fast path, and how many transfers it continued. `wide`: also with streams and
/// every kind of busy.
fn same<P: Profile, Q: Policy, const CONSTANTS: u16>(
    u: &mut Unstructured<'_>,
    policy: P,
    general: Q,
    wide: bool,
) -> Result<[u32; 2]> {
    let may_continue = CONSTANTS == OPEN;
    let mut caps = support::caps();
    caps.auto_count = u.arbitrary()?;
    caps.auto_stop = u.ratio(3, 4)?;
    caps.no_count = u.ratio(1, 8)?;
    caps.defer_completion = u.ratio(1, 4)?;
    caps.max_bytes = 512 * u.int_in_range(8..=64)?;
    let busy = [BusyDetect::Interrupt, BusyDetect::Interrupt, BusyDetect::Status, BusyDetect::Level];
    caps.busy = *u.choose(&busy[..if wide { 4 } else { 3 }])?;
    if may_continue {
        (caps.continue_data, caps.open_until_stopped) = (u.ratio(3, 4)?, u.arbitrary()?);
    }
    let mut config = Config::DEFAULT;
    if u.ratio(1, 4)? {
        (config.settle_blocks, config.admitted) = (u.int_in_range(0..=8)?, u.int_in_range(1..=9)?);
        config.prepared = u.int_in_range(1..=9)?;
        config.acknowledge = *u.choose(&[Acknowledge::Programmed, Acknowledge::Transferred])?;
    }
    if may_continue {
        config.stays_open = *u.choose(&MODES)?;
        config.hold_ns = *u.choose(&[config.hold_ns, 300_000])?;
    }
    let (protected, busy_polls) = (u.ratio(1, 16)?, u.int_in_range(0..=2)?);
    let mut one = Side::<P, CONSTANTS>::new(caps, policy, config, protected, busy_polls);
    let mut other = Side::<_, CONSTANTS>::new(caps, GeneralPath(general), config, protected, busy_polls);
    // Clients that read or write on and on.
    let share = if may_continue { 2 } else { 1 };
    let (streams, mut next) = (wide && u.ratio(share, 3)?, [0, BLOCKS / 2]);
    let clients = if may_continue && u.arbitrary()? { 1 } else { next.len() };
    let mut ids = [None; SLOTS];
    let mut now = 1_000;
    for turn in 0..u.int_in_range(1..=80)? {
        now += u.int_in_range(1..=200_000)?;
        let step = match u.int_in_range(0..=32)? {
            0..=11 if streams => {
                let client = u.choose_index(clients)?;
                let (lba, blocks) = (next[client] % (BLOCKS - 4), 4);
                next[client] += 4;
                let kind = if client == 0 { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
                let kind = if u.ratio(1, 16)? { Kind::Write { lba, blocks } } else { kind };
                Turn::Submit { kind, client: client as u8, fill: turn as u8, durable: false, short: false }
            }
            0..=11 => {
                let blocks = u.int_in_range(1..=12)?;
                let lba = u.int_in_range(0..=BLOCKS)? & !3;
                let kind = match u.int_in_range(0..=15)? {
                    0..=7 => Kind::Read { lba, blocks },
                    8..=14 => Kind::Write { lba, blocks },
                    _ => Kind::Flush,
                };
                let short = u.ratio(1, 32)? && blocks > 1;
                Turn::Submit { kind, client: 0, fill: turn as u8, durable: u.ratio(1, 16)?, short }
            }
            12..=19 => Turn::Interrupt,
            20 => Turn::Poll,
            21 => Turn::Deadline,
            22..=25 => Turn::Take(u.int_in_range(0..=SLOTS - 1)?),
            26 if u.arbitrary()? => Turn::Abandon(u.int_in_range(0..=SLOTS - 1)?),
            26 => Turn::TakeBack(u.int_in_range(0..=SLOTS - 1)?),
            27 => {
                let stage = *u.choose(&[Stage::Data, Stage::Data, Stage::Count])?;
                let cause = *u.choose(&[Cause::Crc, Cause::Timeout])?;
                // Without CMD23 the data command is not sent.
                Turn::Fault { cause, stage, executed: stage == Stage::Data && u.arbitrary()? }
            }
            28 => Turn::Status(*u.choose(&[R1::ERROR, R1::WP_VIOLATION, R1::OUT_OF_RANGE])?),
            29 => Turn::Silent(u.ratio(1, 4)?),
            30 => Turn::Refuse(u.int_in_range(1..=2)?),
            31 => Turn::Answered(u.arbitrary()?),
            _ => match u.int_in_range(0..=3)? {
                0 => Turn::Halt(true),
                1 | 2 => Turn::Halt(false),
                _ => Turn::Again,
            },
        };
        if let Turn::Deadline = step
            && let Some(at) = one.engine.next_deadline_ns()
        {
            now = now.max(at);
        }
        let (_, id) = alike(&mut one, &mut other, step, &ids, now);
        if let Some(id) = id {
            ids[id.index()] = Some(id);
        }
    }
    alike_at_last(&one, &other);
    Ok([one.host().fast, one.engine.stats().continued as u32])
}

#[test]
fn both_paths_are_the_same() {
    // Input that has found an error: five slots were in use and the last waiting request was
    // already sent, but the fast path did not read the early R1.
    let fifo = |u: &mut Unstructured<'_>| same::<_, _, SHUT>(u, Fifo, Fifo, false).map(|_| ());
    arbtest::arbtest(fifo).seed(0x2848_2a2f_0001_0000).run();
    // Input that has found an error: in the middle of a transfer without CMD23, the card got new
    // parameters with CMD23.
    arbtest::arbtest(fifo).seed(0x9c49_3246_0000_1000).run();
    let mut fast = 0;
    fuzz::fuzz("both_paths_are_the_same", 4_000, |u| {
        fast += same::<_, _, SHUT>(u, Fifo, Fifo, true)?[0];
        Ok(())
    });
    assert!(fast > 4_000, "the fast path was taken {fast} times");
}

/// Tests that the fast path is taken although the engine learns only at run time that the scheduler
/// works in order, or whether the host can continue a transfer.
#[test]
fn what_is_known_late_leads_to_the_same_path() {
    let (mut fast, mut continued) = ([0; 2], 0);
    fuzz::fuzz("what_is_known_late_leads_to_the_same_path", 2_000, |u| {
        fast[0] += same::<_, _, SHUT>(u, Any::<8>::Fifo(Fifo), Fifo, true)?[0];
        let [phases, on] = same::<_, _, OPEN>(u, Fifo, Fifo, true)?;
        (fast[1], continued) = (fast[1] + phases, continued + on);
        Ok(())
    });
    assert!(continued > 100, "{continued} transfers were continued");
    assert!(fast.iter().all(|count| *count > 500), "the fast path was taken {fast:?} times");
}

/// Tests that a scheduler which sends reads before older writes makes the same choices on both
/// paths, and that the fast path is taken with it.
#[test]
fn reads_go_before_writes_on_both_paths() {
    let (first, mut fast) = (ReadsFirst::new(), [0; 2]);
    // Input that has found an error: the fast path took a write that a read then went before for
    // the next request of a stream.
    let shut = |u: &mut Unstructured<'_>| same::<_, _, SHUT>(u, first, first, true).map(|_| ());
    arbtest::arbtest(shut).seed(0x9945_8d63_0000_1000).run();
    fuzz::fuzz("reads_go_before_writes_on_both_paths", 2_000, |u| {
        fast[0] += same::<_, _, SHUT>(u, first, first, true)?[0];
        fast[1] += same::<_, _, OPEN>(u, first, first, true)?[0];
        Ok(())
    });
    assert!(fast.iter().all(|count| *count > 500), "the fast path was taken {fast:?} times");
}

/// Returns how many phases the fast path has started for a first and for a second read; `between`
/// is called between the two reads.
fn fast_reads<P: Profile, const CONSTANTS: u16>(
    caps: Caps,
    policy: P,
    between: impl FnOnce(&mut P::Policy),
) -> [u32; 2] {
    let mut side = Side::<P, CONSTANTS>::new(caps, policy, Config::DEFAULT, false, 0);
    let (mut between, mut now) = (Some(between), 1_000);
    [0, 64].map(|lba| {
        let before = side.host().fast;
        let read = Request::new(Kind::Read { lba, blocks: 4 }, buffer(4, 0));
        let id = side.engine.submit(read, now).map_err(|(error, _)| error).unwrap();
        for _ in 0..20 {
            now += 100_000;
            let _ = side.engine.on_irq(now);
            let _ = side.engine.poll(now);
        }
        assert!(side.engine.take(id).unwrap().result.is_ok());
        if let Some(between) = between.take() {
            between(side.engine.policy_mut());
        }
        side.host().fast - before
    })
}

#[test]
fn a_scheduler_that_must_be_told_keeps_the_general_path() {
    let (caps, deadline) = (support::caps(), Deadline::new(DeadlineConfig::DEFAULT));
    assert_eq!(fast_reads::<_, SHUT>(caps, Any::<8>::Fifo(Fifo), |_| ()), [1, 1]);
    assert_eq!(fast_reads::<_, SHUT>(caps, Any::<8>::Deadline(deadline), |_| ()), [0, 0]);
    // The scheduler is exchanged for another one between the two reads.
    assert_eq!(
        fast_reads::<_, SHUT>(caps, Any::<8>::Fifo(Fifo), |any| *any = Any::Deadline(deadline)),
        [1, 0]
    );
    assert_eq!(fast_reads::<_, OPEN>(caps, Fifo, |_| ()), [1, 1]);
    let mut continues = caps;
    continues.continue_data = true;
    assert_eq!(fast_reads::<_, OPEN>(continues, Fifo, |_| ()), [1, 1]);
}

/// Tests a CMD23 that fails twice: on both paths it is not sent any more, and the controller ends
/// transfers by CMD12.
#[test]
fn a_count_that_fails_is_given_up_on_both_paths() {
    let mut caps = support::caps();
    (caps.auto_count, caps.auto_stop, caps.busy) = (true, true, BusyDetect::Interrupt);
    let mut one = Side::<_, SHUT>::new(caps, Fifo, Config::DEFAULT, false, 0);
    let mut other = Side::<_, SHUT>::new(caps, GeneralPath(Fifo), Config::DEFAULT, false, 0);
    for world in [&one.world, &other.world] {
        // Each try is followed by a CMD13.
        for nth in [1, 3] {
            world.borrow_mut().faults.insert(nth, (Cause::Timeout, Stage::Count, false));
        }
    }
    let mut now = 1_000;
    for round in 0..4 {
        let kind = Kind::Read { lba: 8, blocks: 4 };
        let read = Turn::Submit { kind, client: 0, fill: 0, durable: false, short: false };
        let (_, id) = one.happens(read, &[None; SLOTS], now);
        other.happens(read, &[None; SLOTS], now);
        let id = id.expect("a slot is free");
        let mut ids = [None; SLOTS];
        ids[id.index()] = Some(id);
        for _ in 0..20 {
            now += 100_000;
            for step in [Turn::Interrupt, Turn::Poll] {
                assert_eq!(one.happens(step, &ids, now).0, other.happens(step, &ids, now).0);
            }
        }
        let taken = one.happens(Turn::Take(id.index()), &ids, now).0;
        assert_eq!(taken, other.happens(Turn::Take(id.index()), &ids, now).0);
        assert!(matches!(taken, Seen::Done(Some(_))), "round {round}: {taken:?}");
    }
    let ends = |side: &[(Phase, Vec<u32>, u64)]| {
        let data = side.iter().filter(|(phase, ..)| phase.data.is_some());
        data.map(|(phase, ..)| phase.auto).collect::<Vec<_>>()
    };
    let expected = [Auto::Count(4), Auto::Count(4), Auto::Stop, Auto::Stop, Auto::Stop, Auto::Stop];
    assert_eq!(ends(&other.host().started), expected);
    assert_eq!(ends(&one.host().started), expected);
}

/// Tests that both paths learn the pauses of streams alike. Two clients write without end, four
/// requests at a time each, on a host that detects the end of busy by DAT0. The requests of one
/// client are complete, and its next requests come, while the card programs those of the other
/// client.
#[test]
fn what_a_stream_needs_to_come_back_is_learned_alike() {
    const EACH: u64 = 4;
    let mut caps = support::caps();
    (caps.auto_stop, caps.busy) = (true, BusyDetect::Level);
    let mut one = Side::<_, SHUT>::new(caps, Fifo, Config::DEFAULT, false, 2);
    let mut other = Side::<_, SHUT>::new(caps, GeneralPath(Fifo), Config::DEFAULT, false, 2);
    let (mut ids, mut owners, mut next) = ([None; SLOTS], [0; SLOTS], [0, BLOCKS / 2]);
    // When requests come, and of whom; when the transfer in progress is over.
    let mut coming: Vec<(u64, usize)> = (0..EACH).flat_map(|n| [(n, 0), (10 + n, 1)]).collect();
    let (mut now, mut phases, mut ends_ns) = (0, 0, None);
    for turn in 0..20_000_u64 {
        let mut step = |step, ids: &_, now| alike(&mut one, &mut other, step, ids, now);
        coming.sort_unstable();
        if let Some(&(at, client)) = coming.first().filter(|(at, _)| *at <= now) {
            coming.remove(0);
            let kind = Kind::Write { lba: next[client] % (BLOCKS - 4), blocks: 4 };
            next[client] += 4;
            let submit = Turn::Submit { kind, client: client as u8, fill: 1, durable: false, short: false };
            let id = step(submit, &ids, now.max(at)).1.expect("a slot is free");
            (owners[id.index()], ids[id.index()]) = (client, Some(id));
        } else if ends_ns.is_some_and(|at| at <= now) {
            ends_ns = None;
            step(Turn::Interrupt, &ids, now);
        } else {
            step(Turn::Poll, &ids, now);
        }
        let (mut back_ns, fresh) = ([now + 40_000; 2], turn % 7 * 3_000);
        for at in 0..SLOTS {
            if ids[at].is_some()
                && let (Seen::Done(Some(_)), _) = step(Turn::Take(at), &ids, now)
            {
                ids[at] = None;
                coming.push((back_ns[owners[at]], owners[at]));
                back_ns[owners[at]] += 10_000 + fresh;
            }
        }
        let log = one.world.borrow().log.len();
        if log != phases {
            phases = log;
            let blocks = one.world.borrow().log.last().unwrap().blocks;
            ends_ns = Some(now + if blocks == 0 { 5_000 } else { 1_000_000 + 10_000 * u64::from(blocks) });
        }
        let arrives_ns = coming.iter().map(|(at, _)| *at).min();
        let soon = [ends_ns, arrives_ns, one.engine.next_deadline_ns()].into_iter().flatten().min();
        now = soon.expect("something goes on").max(now);
    }
    let holds = one.engine.holds();
    assert!(holds.count > 50 && holds.came > 5, "{holds:?}");
}

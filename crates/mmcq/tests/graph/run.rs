//! One run of the graph tests: engine, supervisor and clients on the abstract controller, with the
//! faults of a plan.

use crate::card::{Card as ModelCard, Tag};
use crate::choice::Bad;
use crate::host::{Puppet, World};
use crate::judge::{Fate, Work};
use crate::one_thread::{NOW_NS, OneThread, TIMER};
use crate::supervisor::{Flag, Supervisor};
use crate::workload::{Do, Workload};
use mmcq::card::{self, Card, Options};
use mmcq::engine::{
    Abilities, Claim, Config, DmaBuf, Erase, Erasing, FlushBy, Kind, PartitionAccess, RecoveryStep, Request,
    SlotId,
};
use mmcq::host::{BusOp, Timing};
use mmcq::sched::Fifo;
use mmcq::task::Entry;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ptr::NonNull;
use std::rc::Rc;

pub const SLOTS: usize = 8;
pub type Stack = mmcq::task::Stack<(OneThread, Puppet), SLOTS>;
pub const MS: u64 = 1_000_000;
/// Time of a phase, in nanoseconds.
const PHASE_NS: u64 = 10_000;
/// Time limit of a flush in nanoseconds, where the supervisor does not set it.
const FLUSH_NS: u64 = 1_000 * MS;
/// Largest number of turns of a run.
const TURNS: u32 = 1_000_000;
const BUFFER_BYTES: usize = 2048;

/// The state with which all runs of a workload begin.
pub struct Start {
    pub workload: Workload,
    pub card: Card,
    /// The only faults that happen, in this order; `None`: all faults may happen.
    pub only: Option<&'static [Bad]>,
    model: ModelCard,
    pub timing: Timing,
    /// Time in nanoseconds of a bring-up without a fault.
    pub bring_up_ns: u64,
}

impl Start {
    /// Brings the card up one time without a fault, and stores the state of card and bus with which
    /// each run begins.
    pub fn new(workload: Workload) -> Start {
        let world = Rc::new(RefCell::new(World::new(workload.board(), workload.card())));
        world.borrow_mut().chooser.closed = true;
        let stack: Stack = Stack::new(OneThread, TIMER, Puppet::new(&world), Config::DEFAULT);
        let scratch = DmaBuf::from_static(Box::leak(Box::new([0; 512])));
        let idle = || {
            let next = stack.with(|engine| engine.next_deadline_ns());
            let mut world = world.borrow_mut();
            world.decide();
            world.now = next.filter(|_| world.running().is_none()).unwrap_or(0).max(world.now + PHASE_NS);
            NOW_NS.set(world.now);
        };
        let began = world.borrow().now;
        let (result, _) =
            stack.block_on(card::bring_up_emmc(&stack, scratch, options(&workload)), |_| idle());
        let card = result.expect("all is well");
        let mut card = card;
        if let FlushBy::EmmcCache { timeout_ns } = &mut card.params.flush {
            // With the standard's time limit, the engine would poll so often that the runs take too
            // long.
            *timeout_ns = FLUSH_NS;
        }
        let world = world.borrow();
        assert!(world.judge.violations.is_empty(), "{:?}", world.judge.violations);
        assert_eq!(card.timing == Timing::Hs200, workload.fast);
        let mut model = world.card.clone();
        model.initialised = 0;
        let bring_up_ns = world.now - began;
        if workload.cold {
            model = workload.card();
        }
        Start { workload, card, only: None, model, timing: world.timing, bring_up_ns }
    }
}

fn options(workload: &Workload) -> Options {
    let hs200 = if workload.fast { 0 } else { mmcq::host::Caps::timing_bit(Timing::Hs200) };
    Options::DEFAULT.without(hs200)
}

/// Memory and records that all runs of a thread use, one run after the other.
pub struct Room {
    memory: Vec<[u32; BUFFER_BYTES / 4]>,
    pub states: HashSet<u64>,
    pub steps: u64,
}

impl Room {
    pub fn new() -> Room {
        Room { memory: vec![[0; BUFFER_BYTES / 4]; 64], states: HashSet::new(), steps: 0 }
    }
}

/// Result of one run: the number of alternatives at each choice point, the violations, the faults
/// with their times, and a trace.
pub struct Outcome {
    pub points: Vec<u8>,
    pub violations: Vec<&'static str>,
    pub bad: Vec<(u64, Bad)>,
    pub log: Vec<String>,
}

struct User {
    serial: u8,
    id: SlotId,
}

pub struct Run<'a> {
    pub start: &'a Start,
    room: &'a mut Room,
    pub world: Rc<RefCell<World>>,
    pub stack: &'a Stack,
    flag: &'static Flag,
    users: Vec<User>,
    group: usize,
    buffers: usize,
    claims: Vec<Claim>,
    /// Slots of the requests that their clients have cancelled.
    given_up: Vec<SlotId>,
    /// When a cancellation was last a choice: number of ended phases, number of requests with
    /// results, and whether the supervisor was sending commands.
    thought: (u64, usize, bool),
}

/// Runs the workload of `start` with the faults of one plan, and checks it.
pub fn run(start: &Start, room: &mut Room, plan: &[(u32, u8)], traced: bool) -> Outcome {
    let mut world = World::new(start.workload.board(), start.model.clone());
    world.chooser.begin(plan, start.only);
    world.chooser.closed = true;
    NOW_NS.set(world.now);
    let world = Rc::new(RefCell::new(world));
    let stack: Stack = Stack::new(OneThread, TIMER, Puppet::new(&world), Config::DEFAULT);
    if !start.workload.cold {
        stack.with(|engine| {
            engine.set_card_params(Some(start.card.params));
            enable_extended_ops(engine);
        });
        told_of_the_bus(&stack, &start.card);
        let mut world = world.borrow_mut();
        (world.timing, world.tuned, world.clocked) = (start.timing, true, true);
    }
    {
        let mut world = world.borrow_mut();
        world.chooser.closed = false;
        world.log = traced.then(Vec::new);
    }
    let flag = Flag::of_thread();
    flag.clear();
    let mut run = Run {
        start,
        room,
        world: world.clone(),
        stack: &stack,
        flag,
        users: Vec::new(),
        group: 0,
        buffers: 0,
        claims: Vec::new(),
        given_up: Vec::new(),
        thought: (0, 0, false),
    };
    run.go();
    drop(run);
    let mut world = world.borrow_mut();
    if let Some(log) = &mut world.log {
        log.extend(stack.with(|engine| {
            engine
                .incidents()
                .map(|e| format!("step {:?} at {} us", e.step, e.at_ns / 1000))
                .collect::<Vec<_>>()
        }));
    }
    Outcome {
        points: std::mem::take(&mut world.chooser.points),
        violations: std::mem::take(&mut world.judge.violations),
        bad: std::mem::take(&mut world.judge.bad),
        log: world.log.take().unwrap_or_default(),
    }
}

/// Makes the bus settings known to the engine by requests, as bring-up does.
fn told_of_the_bus(stack: &Stack, card: &Card) {
    for op in [BusOp::Width(card.width), BusOp::Timing(card.timing), BusOp::Clock(card.clock_hz)] {
        let request = Request::new(Kind::Bus(op), DmaBuf::EMPTY);
        let now_ns = NOW_NS.get();
        let id = stack.with(|engine| engine.submit(request, now_ns).map_err(|(error, _)| error));
        stack.poll();
        let done = id.ok().and_then(|id| stack.with(|engine| engine.take(id)));
        assert!(done.is_some_and(|done| done.result.is_ok()), "{op:?}");
    }
}

pub fn enable_extended_ops(engine: &mut Entry<'_, Puppet, SLOTS, Fifo>) {
    engine.enable_extended_ops();
    let erase =
        Erasing::NONE.kinds(Erase::Erase.bit() | Erase::Trim.bit()).emmc(true).erase_ms(10).trim_ms(10);
    engine.set_abilities(Abilities::NONE.erase(erase));
}

impl Run<'_> {
    fn go(&mut self) {
        let workload = &self.start.workload;
        let card = (!workload.cold).then_some(self.start.card);
        let mut supervisor = Supervisor::new(self.stack, options(workload), card, workload.supervisor);
        match workload.cold {
            true => self.flag.raise(),
            false => _ = supervisor.poll(self.flag, true),
        }
        let mut last = None;
        for turn in 0..=TURNS {
            if turn == TURNS {
                return self.violation("it never comes to rest");
            }
            self.keep(&mut supervisor);
            let done = self.take();
            if supervisor.brings_up() {
                // Requests follow when there is a card.
            } else if self.users.is_empty() && self.group < self.start.workload.groups.len() {
                self.submit_group();
            } else if self.users.is_empty() && self.is_quiet(&supervisor) {
                match last {
                    None => {
                        // No more faults from here on. One more flush reports what was lost.
                        self.at_first_rest(&supervisor);
                        self.world.borrow_mut().chooser.closed = true;
                        self.submit(Do::Flush);
                        last = Some(self.world.borrow().now);
                    }
                    Some(_) => return self.at_last(),
                }
            }
            self.note_rest();
            if done {
                self.offer_cancels();
            }
            self.check_timer(&supervisor);
            self.turn(&mut supervisor);
            self.mark();
        }
    }

    fn note_rest(&self) {
        let waits = !self.users.is_empty() || !self.stack.with(|engine| engine.is_idle());
        let mut world = self.world.borrow_mut();
        let now = world.now;
        world.judge.rest_ns = if waits { None } else { world.judge.rest_ns.or(Some(now)) };
    }

    fn violation(&self, what: &'static str) {
        self.world.borrow_mut().judge.violation(what);
    }

    fn keep<'k>(&mut self, supervisor: &mut Supervisor<'k>) {
        let now = self.world.borrow().now;
        if !self.flag.is_set() || now < supervisor.ready_at {
            return;
        }
        let users = self.users.len() + self.orphans();
        let conversing = self.stack.with(|engine| engine.slots_in_use()) > users || supervisor.talks;
        if !conversing && !supervisor.told {
            supervisor.told = true;
            let bad = self.world.borrow_mut().choose(&[
                Bad::SupervisorSlow,
                Bad::SupervisorTooSlow,
                Bad::SupervisorGone,
            ]);
            match bad {
                Some(Bad::SupervisorSlow) => supervisor.ready_at = now + 300 * MS,
                Some(Bad::SupervisorTooSlow) => supervisor.ready_at = now + 20_000 * MS,
                Some(Bad::SupervisorGone) => supervisor.leave(),
                _ => {}
            }
            if bad.is_some() {
                return;
            }
        }
        self.flag.clear();
        self.world.borrow_mut().judge.helping = true;
        let is_there = {
            let world = self.world.borrow();
            world.card.present || world.inserts_at != u64::MAX
        };
        let event = supervisor.poll(self.flag, is_there);
        let in_use = self.stack.with(|engine| engine.slots_in_use());
        supervisor.talks = in_use > self.users.len() + self.orphans();
        if !supervisor.talks {
            supervisor.told = false;
        }
        self.world.borrow_mut().judge.helping = supervisor.talks;
        if let Some(event) = event {
            let mut world = self.world.borrow_mut();
            let now = world.now;
            if world.judge.up_ns.is_none() {
                world.judge.up_ns = Some(now);
                if self.start.workload.cold {
                    // What was sent to bring the card up is no recovery.
                    world.card.initialised = 0;
                }
            }
            world.say(|| event);
            drop(world);
            self.stack.with(enable_extended_ops);
        }
    }

    /// Returns the number of requests that were cancelled while the controller had them, and that
    /// are not over.
    fn orphans(&self) -> usize {
        let is_there = |id: &&SlotId| self.stack.with(|engine| engine.id_of(id.index())) == Some(**id);
        self.given_up.iter().filter(is_there).count()
    }

    /// Takes the completions. Returns true if a request may be cancelled now.
    fn take(&mut self) -> bool {
        let mut at = 0;
        while let Some(user) = self.users.get(at) {
            let (serial, id) = (user.serial, user.id);
            let Some(completion) = self.stack.with(|engine| engine.take(id)) else {
                at += 1;
                continue;
            };
            self.users.swap_remove(at);
            self.world
                .borrow_mut()
                .say(|| format!("request {serial}: {:?}", completion.result.map(|o| o.bytes)));
            let mut tags = [Tag::NONE; BUFFER_BYTES / 512];
            let blocks = completion.buf.chunks_exact(512).zip(&mut tags);
            for (bytes, tag) in blocks {
                *tag = Tag(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            }
            let mut world = self.world.borrow_mut();
            let World { judge, card, .. } = &mut *world;
            let blocks = judge.asked[usize::from(serial) - 1].blocks as usize;
            if let (Ok(output), true) = (completion.result, judge.asked[usize::from(serial) - 1].moves())
                && output.bytes as usize != blocks * 512
            {
                judge.violation("a request was well, and moved another length");
            }
            judge.answered(serial, completion.result.map(|_| ()), &tags[..blocks], card);
        }
        if self.orphans() > 0 {
            for &claim in &self.claims {
                let _ = self.stack.with(|engine| engine.reclaim(claim));
            }
        }
        !self.users.is_empty()
    }

    fn submit_group(&mut self) {
        let group = self.start.workload.groups[self.group];
        self.group += 1;
        for &what in group {
            self.submit(what);
        }
    }

    fn submit(&mut self, what: Do) {
        let (work, area, lba, blocks) = match what {
            Do::W(lba, blocks) => (Work::Write, 0, lba, blocks),
            Do::D(lba, blocks) => (Work::Durable, 0, lba, blocks),
            Do::R(lba, blocks) => (Work::Read, 0, lba, blocks),
            Do::BootW(lba, blocks) => (Work::Write, 1, lba, blocks),
            Do::BootR(lba, blocks) => (Work::Read, 1, lba, blocks),
            Do::Erase(lba, blocks) => (Work::Erase, 0, lba, blocks),
            Do::Flush => (Work::Flush, 0, 0, 0),
        };
        let serial = {
            let mut world = self.world.borrow_mut();
            let identity = world.card.identity;
            world.judge.ask(work, area, lba, blocks, identity)
        };
        let fills = matches!(what, Do::W(..) | Do::D(..) | Do::BootW(..));
        let buf = match what {
            Do::Flush | Do::Erase(..) => DmaBuf::EMPTY,
            _ => self.buffer(blocks, |n| if fills { Tag::new(serial, area, lba + n) } else { Tag::NONE }),
        };
        let visit = |out: u32, back: u32| {
            let (out, back) = (out as u16, back as u16);
            Kind::PartitionAccess(PartitionAccess {
                config: 1,
                switch_ns: 50 * MS,
                lba,
                out,
                reliable: false,
                ask: false,
                back,
            })
        };
        let at = u64::from(lba);
        let kind = match what {
            Do::W(..) | Do::D(..) => Kind::Write { lba: at, blocks },
            Do::R(..) => Kind::Read { lba: at, blocks },
            Do::BootW(..) => visit(blocks, 0),
            Do::BootR(..) => visit(0, blocks),
            Do::Erase(..) => Kind::Erase { lba: at, blocks, how: Erase::Trim },
            Do::Flush => Kind::Flush,
        };
        let request = Request::new(kind, buf);
        let request = if matches!(what, Do::D(..)) { request.durable() } else { request };
        self.world.borrow_mut().say(|| format!("request {serial}: {what:?}"));
        let now = self.world.borrow().now;
        match self.stack.with(|engine| engine.submit(request, now).map_err(|(error, _)| error)) {
            Ok(id) => self.users.push(User { serial, id }),
            Err(error) => {
                let mut world = self.world.borrow_mut();
                world.say(|| format!("request {serial}: refused, {error:?}"));
                let World { judge, card, .. } = &mut *world;
                judge.answered(serial, Err(error), &[], card);
            }
        }
    }

    fn buffer(&mut self, blocks: u32, tag: impl Fn(u32) -> Tag) -> DmaBuf {
        let memory = &mut self.room.memory[self.buffers];
        self.buffers += 1;
        for n in 0..blocks {
            memory[n as usize * 128] = tag(n).0;
        }
        let ptr = NonNull::from(memory).cast();
        // SAFETY: the room outlives the run's stack, and each piece of it is lent once in a run.
        let buf = unsafe { DmaBuf::from_raw(ptr, blocks * 512) };
        self.claims.push(buf.claim());
        buf
    }

    /// Makes it a choice whether the client of one of the requests cancels it now.
    fn offer_cancels(&mut self) {
        let (ended, helping) = {
            let world = self.world.borrow();
            // A cancellation during the supervisor's commands is tried only at their beginning.
            (if world.judge.helping { self.thought.0 } else { world.ended }, world.judge.helping)
        };
        let thought = (ended, self.users.len(), helping);
        if std::mem::replace(&mut self.thought, thought) == thought {
            return;
        }
        let mut alternatives = [Bad::Gone; SLOTS];
        for (place, user) in alternatives.iter_mut().zip(&self.users) {
            *place = Bad::Cancel(user.serial);
        }
        let bad = self.world.borrow_mut().choose(&alternatives[..self.users.len()]);
        let Some(Bad::Cancel(serial)) = bad else { return };
        let Some(at) = self.users.iter().position(|user| user.serial == serial) else { return };
        let user = self.users.swap_remove(at);
        let back = self.stack.with(|engine| engine.cancel(user.id));
        self.given_up.push(user.id);
        let asked = &mut self.world.borrow_mut().judge.asked[usize::from(serial) - 1];
        asked.fate = if back.is_some() { Fate::Withdrawn } else { Fate::Orphan };
    }

    /// Returns whether no request waits and none is under way.
    fn is_quiet(&self, supervisor: &Supervisor<'_>) -> bool {
        let waits = self.flag.is_set() && !supervisor.is_gone();
        !waits
            && !supervisor.talks
            && self.world.borrow().inserts_at == u64::MAX
            && self.stack.with(|engine| {
                engine.is_idle() && engine.slots_in_use() == 0 && engine.next_deadline_ns().is_none()
            })
    }

    /// Checks that the engine has a deadline while anything is in progress.
    fn check_timer(&self, supervisor: &Supervisor<'_>) {
        let (deadline, busy) =
            self.stack.with(|engine| (engine.next_deadline_ns(), engine.slots_in_use() > 0));
        if deadline.is_none() && busy && !self.flag.is_set() && !supervisor.talks_idle() {
            self.violation("something is in progress, and no timer runs");
        }
    }

    /// Advances the run: to an interrupt, or to the next time at which anything happens.
    fn turn(&mut self, supervisor: &mut Supervisor<'_>) {
        self.step(supervisor);
        // A busy card is polled thousands of times, while nothing else happens.
        for _ in 0..100_000 {
            if !self.world.borrow().only_asks() || self.flag.is_set() {
                return;
            }
            self.step(supervisor);
        }
    }

    fn step(&mut self, supervisor: &mut Supervisor<'_>) {
        self.room.steps += 1;
        if self.flag.is_set() && self.world.borrow().now >= supervisor.ready_at && !supervisor.is_gone() {
            return;
        }
        if self.world.borrow_mut().decide() {
            self.pass(PHASE_NS);
            self.stack.on_irq();
            return;
        }
        let deadline = self.stack.with(|engine| engine.next_deadline_ns());
        let inserts_at = self.world.borrow().inserts_at;
        let supervisor_at =
            if self.flag.is_set() && !supervisor.is_gone() { supervisor.ready_at } else { u64::MAX };
        let now = self.world.borrow().now;
        let next = deadline.unwrap_or(u64::MAX).min(inserts_at).min(supervisor_at);
        if next == u64::MAX {
            return;
        }
        self.pass(next.saturating_sub(now));
        if inserts_at <= self.world.borrow().now {
            self.world.borrow_mut().insert();
            self.stack.on_irq();
        } else {
            self.stack.poll();
        }
    }

    fn pass(&self, ns: u64) {
        let mut world = self.world.borrow_mut();
        world.now += ns;
        NOW_NS.set(world.now);
    }

    pub fn taken(&self, step: RecoveryStep) -> u64 {
        self.stack.with(|engine| engine.stats().recovery_steps[step as usize])
    }

    fn at_last(&self) {
        let (in_use, quiet) = self.stack.with(|engine| (engine.slots_in_use(), engine.is_idle()));
        let mut world = self.world.borrow_mut();
        let mapped = world.mapped();
        let World { judge, card, .. } = &mut *world;
        if in_use != 0 || !quiet {
            judge.violation("at rest a slot is in use");
        }
        // A controller that cannot be stopped keeps its memory.
        if mapped != 0 && !judge.wedged {
            judge.violation("at rest memory is mapped");
        }
        judge.at_rest(card);
    }

    /// Records the state of the stack as it is visible from outside.
    fn mark(&mut self) {
        let steps = self.stack.with(|engine| engine.stats().recovery_steps);
        let world = self.world.borrow();
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let mut add = |value: u64| hash = (hash ^ value).wrapping_mul(0x0100_0000_01b3);
        for count in steps {
            add(count.min(7));
        }
        for asked in &world.judge.asked {
            add(match asked.fate {
                Fate::Pending => 0,
                Fate::Orphan => 1,
                Fate::Withdrawn => 2,
                Fate::Answered(Ok(())) => 3,
                Fate::Answered(Err(_)) => 4,
            });
        }
        add(world.running().map_or(255, u64::from));
        let card = &world.card;
        add(card.state as u64 | u64::from(card.area) << 4 | (world.timing as u64) << 8);
        add(u64::from(world.tuned) | u64::from(world.judge.helping) << 1 | u64::from(card.present) << 2);
        add(u64::from(card.mute) | u64::from(card.stuck) << 1 | u64::from(card.identity) << 2);
        self.room.states.insert(hash);
    }
}

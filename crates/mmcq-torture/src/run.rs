//! Executes a case. After each power cut there is a new machine, with the same card and the same
//! checker.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

pub use super::bench::Bench;
use super::bench::lend;
use super::case::{Case, Chip, Cut, Host, Luck, Place, Refuses, SLOTS, Visit};
use super::chosen::Chosen;
use super::clients::{Began, Client, next_of};
use super::machine::{Keeps, Machine, Step};
use super::meanwhile::Pause;
use super::order::Ends;
pub use super::outcome::{Outcome, Steps};
pub(super) use super::places::BOOTS;
pub use super::places::{CARDS, EVERY_CARD, POINTS};
use super::remains::hang;
use super::stopwatch::Stopwatch;
use super::supervisor::{News, Supervisor, equip};
use super::usage::Act;
use mmcq::card::{Card as Found, bring_up};
use mmcq::engine::{Error, RecoveryStep};
use mmcq::host::sdhci::TransferMode;
use mmcq::sched::{Chained, Fifo, HostQueued, Lean, Packed, Queued};
use mmcq::task::Platform;
use mmcq_sim::card::{AtStake, Card, Fill, Medium};
use mmcq_sim::checker::{Checker, Content, Fault, Promise, Violation};
use mmcq_sim::faults::{Faults, Point, Shot, Strike};
use mmcq_sim::sdhci::BusEvent;
use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// Longest virtual time in ns without an answer: more than all budgets of one recovery together.
pub(super) const PATIENCE_NS: u64 = 150_000_000_000;
/// Largest number of events between two power cuts: far more than the requests of a case need.
const EVENTS_MAX: u64 = 20_000_000;
/// Number of attempts to bring the card up; the last attempt is without faults.
const BRING_UPS: u32 = 3;
/// Largest number of calls of the stack in a row in which time does not advance.
const CALLS_MAX: u32 = 100_000;
/// After this many events a client is polled although nothing has woken it, as an executor may.
const POLLED_EVERY: u64 = 61;
/// Callback that gets the lines of a replay; `None`: no replay.
pub type Trace<'a> = Option<&'a mut dyn FnMut(String)>;

/// How the time between a power-on and the next power cut (a life) has ended.
pub(super) enum End {
    /// All operations were answered, or the card could not be brought up.
    Over,
    /// A power cut of the case came before all operations were answered.
    Cut(Cut),
}

/// State after a power cut: why the time since power-on has ended, when it ended (`at_ns`), and the
/// card in the slot (`None`: the card is out of the slot).
struct Off {
    end: End,
    at_ns: u64,
    in_slot: Option<Box<dyn Card>>,
}

/// Executes the case and returns its counters. `trace` gets a line for each event.
pub fn run(case: &Case, bench: &mut Bench, mut trace: Trace<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let faults = Faults::new(case.luck.plan());
    let mut run = Run {
        case,
        bench,
        outcome: &mut outcome,
        faults: &faults,
        next: 0,
        cuts: &case.cuts,
        base: 0,
        strikes: 0,
        up: false,
        visit: case.visit,
        acts: &case.acts,
        pause: None,
        ends: Ends::default(),
        rest_until_ns: None,
        bounces: 0,
        out: None,
        away: None,
        is_stranger: false,
        back_at: None,
        is_back: false,
        cid: [0; 4],
        settings: [Vec::new(), Vec::new()],
        losses: (0, 0),
        unheard: 0,
        protected_until: None,
        protected_ns: None,
        late_failures: 0,
        settled: false,
        watch: Stopwatch::default(),
        quiet: [0; Point::COUNT],
        stake: (Vec::new(), 0, 0),
    };
    let result = run.all(&mut trace);
    outcome.struck = faults.struck();
    outcome.points = POINTS.map(|point| faults.events(point));
    outcome.violation = result.err();
    outcome
}

pub(super) struct Run<'r> {
    pub case: &'r Case,
    pub bench: &'r mut Bench,
    pub outcome: &'r mut Outcome,
    pub faults: &'r Faults,
    /// Number of the case's operations that were begun so far.
    next: usize,
    /// Power cuts of the case that have not happened yet.
    pub cuts: &'r [Cut],
    /// First sector of the window of sectors that the case uses.
    pub base: u64,
    /// Number of struck faults that this run has already handled.
    pub strikes: usize,
    /// Whether the card has been brought up since power-on.
    up: bool,
    /// Number of times that the bouncing card still has to go out or in.
    pub bounces: u8,
    /// What the program still will do with its stack (suspend, halt, abort), each with the number
    /// of its event.
    pub acts: &'r [(u64, Act)],
    /// Time in which the program has suspended or halted the whole stack; `None`: the stack runs.
    pub pause: Option<Pause>,
    /// Order in which requests and flushes have ended since power-on.
    pub ends: Ends,
    /// Time in ns until which the program submits no request; `None`: it does not pause.
    pub rest_until_ns: Option<u64>,
    /// The part of the case's [`Visit`] that is still to come: the event, and what happens to the
    /// card then.
    pub visit: Option<(u64, Visit)>,
    /// The card while it is out of the slot; `None`: no card was taken out.
    pub out: Option<Box<dyn Card>>,
    /// The checker of the card that is not in the slot.
    pub away: Option<Checker>,
    /// Whether the checker in use is that of the card which replaced the first.
    pub is_stranger: bool,
    /// Number of the event at which the first card comes back; `None`: the first card is in the
    /// slot, or does not come back.
    pub back_at: Option<u64>,
    /// Whether the first card is in the slot again, and the other one out of it.
    pub is_back: bool,
    /// CID of the card whose checker is in use.
    pub cid: [u32; 4],
    /// Names and values of what a host can set in a card and that survives a power cycle: first
    /// those of the first card, then those of the card that replaces it. No request changes one.
    pub settings: [Vec<(&'static str, u8)>; 2],
    /// Number of losses of data, as [`Card::losses`] counts them, of which the checker has been
    /// informed.
    pub losses: (u64, u64),
    /// Number of responses that did not reach the host although they had the bit ERROR. This counts
    /// those of which the checker has been informed.
    pub unheard: u64,
    /// Number of the event at which the present write protection of the card ends; `None`: the card
    /// is not write-protected now.
    pub protected_until: Option<u64>,
    /// Last time in ns at which the card was write-protected; `None`: it never was.
    pub protected_ns: Option<u64>,
    /// Number of reads and writes that failed on the medium and that were already reported to the
    /// checker.
    pub late_failures: usize,
    /// Whether all complete writes were on the card at the last power cut. That is so if the engine
    /// was idle, had the status of all writes and had no error to report, and the card has no
    /// cache or its cache was off.
    pub settled: bool,
    /// Stopwatch for the times of recovery.
    pub watch: Stopwatch,
    /// Number of events of each [`Point`] (kind of event that a fault may strike) when the
    /// machine's last step began. At the first fault these numbers become the first entry of
    /// [`Outcome::marks`]. Used only in dry runs.
    pub quiet: [u64; Point::COUNT],
    /// State at the last event: the sectors whose content a power cut could change, the number of
    /// answers, and the number of requests.
    stake: (Vec<AtStake>, u64, usize),
}

impl Run<'_> {
    fn all(&mut self, trace: &mut Trace<'_>) -> Result<(), Violation> {
        let profile = self.profile();
        let fill = Fill::Pattern(self.case.seed);
        let content = Content::new(self.case.seed, 1, fill);
        self.bench.checker.start_over(Promise { content, write_through: false });
        let broken = |error: &dyn std::fmt::Display| Violation::new(Fault::Untrue, error.to_string());
        let medium = Medium::sparse(profile.capacity_bytes(), fill).map_err(|error| broken(&error))?;
        let mut card = profile.build(medium).map_err(|error| broken(&error))?;
        card.set_boot(BOOTS[0]);
        self.settings[0] = card.settings();
        let mut now_ns = self.case.setup.start_ns;
        loop {
            self.bench.free = (0..self.bench.memory.len()).collect();
            self.bench.stale.clear();
            self.bench.is_shifted = self.case.setup.bounce;
            let (case, faults) = (self.case, self.faults);
            let setup = &case.setup;
            macro_rules! lives {
                ($machine:ident) => {
                    self.lives(Machine::$machine(setup, card, faults, now_ns), now_ns, trace)
                };
            }
            let off = match setup.host {
                Host::Sdhci => self.sdhci(card, now_ns, trace),
                Host::Open(writes) => {
                    self.lives(Machine::open(setup, writes, card, faults, now_ns), now_ns, trace)
                }
                Host::Reader => lives!(reader),
                Host::Smhc => lives!(smhc),
                Host::DesignWare => lives!(designware),
                Host::OpenDesignWare => lives!(open_designware),
                Host::Sdmmc(Chip::H7) => lives!(sdmmc),
                Host::Sdmmc(chip) => {
                    self.lives(Machine::sdmmc_with_list(chip, setup, card, faults, now_ns), now_ns, trace)
                }
                Host::OpenSdmmc => lives!(open_sdmmc),
                Host::Spi => self.lives(Machine::spi(setup, Fifo, card, faults, now_ns), now_ns, trace),
            }?;
            let end = off.end;
            now_ns = off.at_ns;
            let gone = || Violation::new(Fault::Untrue, "the card is gone");
            self.back_at = None;
            let pair = if std::mem::take(&mut self.is_back) {
                (self.out.take(), off.in_slot)
            } else {
                (off.in_slot, self.out.take())
            };
            card = match pair {
                (Some(mut other), Some(mut first)) => {
                    // Both have lost their power; one of them was in the slot.
                    other.power_cut(now_ns);
                    self.examine_stranger(&mut *other)?;
                    first.power_cut(now_ns);
                    if let Some(judge) = self.away.take().filter(|_| self.is_stranger) {
                        self.bench.checker = judge;
                    }
                    self.is_stranger = false;
                    first
                }
                (Some(card), None) => card,
                (None, out) => {
                    // The card is still out of the slot, and has lost its power like the host.
                    let mut card = out.ok_or_else(gone)?;
                    card.power_cut(now_ns);
                    card
                }
            };
            self.outcome.cuts += 1;
            if let Some(trace) = trace {
                trace(format!("{now_ns:>14} power cut"));
            }
            self.examine(&mut *card, 0)?;
            if matches!(end, End::Over) || self.case.one_life {
                return Ok(());
            }
        }
    }

    /// Executes the case from the power-on at `on_ns` to the next power cut, on a new machine with
    /// an SDHCI controller.
    fn sdhci(&mut self, card: Box<dyn Card>, on_ns: u64, trace: &mut Trace<'_>) -> Result<Off, Violation> {
        let (case, faults) = (self.case, self.faults);
        let setup = &case.setup;
        let emmc = self.bench.profiles[setup.card].is_emmc();
        let policy = Chosen::of(setup.scheduler, case.seed);
        // The scheduler `Fifo` under its own type has the engine's fast path, to the card and to
        // the command queue engine.
        match policy {
            policy if setup.lean => {
                let policy = Lean(policy.unwrap_or(Chosen::FIFO));
                self.lives(Machine::sdhci(setup, policy, emmc, card, faults, on_ns), on_ns, trace)
            }
            policy if setup.chains => {
                let policy = Chained(Packed(Queued(policy.unwrap_or(Chosen::FIFO))));
                self.lives(Machine::chains(setup, policy, emmc, card, faults, on_ns), on_ns, trace)
            }
            Some(policy) if setup.queue && setup.engine > 0 => {
                let machine = Machine::queue_engine(setup, HostQueued(policy), emmc, card, faults, on_ns);
                self.lives(machine, on_ns, trace)
            }
            None if setup.queue && setup.engine > 0 => {
                let machine = Machine::queue_engine(setup, HostQueued(Fifo), emmc, card, faults, on_ns);
                self.lives(machine, on_ns, trace)
            }
            Some(policy) if setup.queue => {
                let policy = Packed(Queued(policy));
                self.lives(Machine::sdhci(setup, policy, emmc, card, faults, on_ns), on_ns, trace)
            }
            None if setup.queue => {
                let policy = Packed(Queued(Fifo));
                self.lives(Machine::sdhci(setup, policy, emmc, card, faults, on_ns), on_ns, trace)
            }
            Some(policy) => {
                self.lives(Machine::sdhci(setup, policy, emmc, card, faults, on_ns), on_ns, trace)
            }
            None if setup.bounce => {
                self.lives(Machine::bounced(setup, emmc, card, faults, on_ns), on_ns, trace)
            }
            None => self.lives(Machine::sdhci(setup, Fifo, emmc, card, faults, on_ns), on_ns, trace),
        }
    }

    fn lives<B: Platform>(
        &mut self,
        machine: Result<Machine<B>, String>,
        on_ns: u64,
        trace: &mut Trace<'_>,
    ) -> Result<Off, Violation> {
        let machine = machine.map_err(|error| Violation::new(Fault::Untrue, error))?;
        if trace.is_some() {
            let log = |event| LOG.with_borrow_mut(|log| log.push(event));
            machine.model.borrow_mut().set_log(Some(Box::new(log)));
        }
        let end = self.life(&machine, trace);
        let at_ns = machine.now();
        self.outcome.elapsed_ns += at_ns - on_ns;
        // Some faults excuse wrong actions of the driver. A circuit that stays in use without
        // showing it ignores a command. If the reset of a controller never ends, the driver
        // switches off clock and power against the rules, since nothing else is left to do. The
        // same is true for a command queue engine that does not halt.
        let stuck = |shot: &Shot| {
            let never = matches!(shot.point, Point::Reset | Point::Halt) && shot.strike == Strike::Never;
            // A card in SPI mode that has lost count of the clocks sees frames and tokens of its
            // own. A card that does not show its busy gets commands, and so does a card that has
            // missed the token at the end of a write: no response shows that.
            let deaf = shot.point == Point::Exchange
                || shot.strike == Strike::Hidden
                || (shot.point, shot.strike) == (Point::Command, Strike::Lost);
            shot.strike == Strike::Stuck || never || self.case.setup.host == Host::Spi && deaf
        };
        let struck = self.faults.struck();
        // With PIO a transfer may fail while the CPU is in the middle of a block.
        let disturbed = !struck.is_empty() || self.case.visit.is_some();
        let setup = &self.case.setup;
        let pio = setup.transfer == TransferMode::Pio && matches!(setup.host, Host::Sdhci);
        // The driver of the reader is also in the middle of its work while contacts bounce.
        let bounces = setup.host == Host::Reader && self.case.visit.is_some();
        let midway = setup.access_ns > 0 && disturbed && (pio || bounces);
        let lenient = midway || struck.iter().any(stuck);
        if let Some(text) = machine.misbehaviour(lenient) {
            return Err(Violation::new(Fault::Misdirected, text));
        }
        let end = end?;
        let keeps = match end {
            End::Cut(cut) => cut.keeps,
            // A run of a sweep ends with the worst result: nothing that is at stake is kept.
            End::Over if self.case.one_life => Keeps::Nothing,
            End::Over => Keeps::Luck(self.case.seed),
        };
        Ok(Off { end, at_ns, in_slot: machine.cut(keeps) })
    }

    fn life<B: Platform>(&mut self, machine: &Machine<B>, trace: &mut Trace<'_>) -> Result<End, Violation> {
        (self.up, self.bounces, self.settled) = (false, 0, false);
        (self.pause, self.ends) = (None, Ends::default());
        let card = match self.bring_up(machine, trace)? {
            Ok(card) => card,
            Err(end) => return Ok(end),
        };
        self.up = true;
        self.losses = machine.model.borrow_mut().card_mut().map_or((0, 0), |card| card.losses());
        LOG.with_borrow_mut(Vec::clear);
        let window = u64::from(self.case.setup.window);
        self.base = match self.case.setup.place {
            Place::Start => 0,
            Place::Middle => machine.sectors() / 2,
            Place::End => machine.sectors().saturating_sub(window),
        };
        self.bench.checker.set_write_through(machine.write_through());
        if self.outcome.work_ns == 0 {
            self.outcome.before = (self.outcome.events, POINTS.map(|point| self.faults.events(point)));
        }
        let began_ns = machine.now();
        self.watch(machine);
        let news = News::default();
        let mut supervisor = self.supervisor(machine, card, &news);
        let mut clients: [Option<Client<'_, B>>; SLOTS] = [const { None }; SLOTS];
        let end = self.requests(machine, &mut supervisor, &mut clients, trace);
        self.last_mark();
        self.outcome.steps.add(machine.stack.with(|engine| engine.stats().recovery_steps));
        if self.outcome.work_ns == 0 {
            self.outcome.work_ns = machine.now() - began_ns;
        }
        let good = self.case.luck == Luck::Good && self.case.visit.is_none() && self.outcome.cuts == 0;
        let good = good && !self.case.acts.iter().any(|(_, act)| act.disturbs());
        let good = good && self.case.setup.refuses == Refuses::Nothing && !self.case.setup.singly;
        if good && self.outcome.steps.0[RecoveryStep::Classify as usize] > 0 && end.is_ok() {
            let text = "something was recovered from, and nothing had gone wrong";
            return Err(Violation::new(Fault::Untrue, text.to_owned()));
        }
        // The power cut ends the requests of the clients that are left.
        self.outcome.requests += clients.iter().flatten().count() as u64;
        end
    }

    fn requests<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        supervisor: &mut Supervisor<'m>,
        clients: &mut [Option<Client<'m, B>>; SLOTS],
        trace: &mut Trace<'_>,
    ) -> Result<End, Violation> {
        let depth = usize::from(self.case.setup.depth).clamp(1, SLOTS);
        let (mut busy, mut events, mut calls) = (0usize, 0u64, 0u32);
        let mut progress_ns = machine.now();
        let (mut drops, mut full) = (false, false);
        self.kept(machine, supervisor, clients, trace)?;
        loop {
            while busy < depth && !full && self.next < self.case.operations.len() && !self.holds_back() {
                let operation = &self.case.operations[self.next];
                if operation.alone && busy > 0 || !self.wait_for_rest(machine, operation.rest_us) {
                    break;
                }
                let Some(piece) = self.piece(operation, &machine.stack) else { break };
                let client = clients.iter().position(Option::is_none).unwrap_or(0);
                self.next += 1;
                match self.ask(machine, operation, piece, client, events, trace)? {
                    Began::Client(began) => {
                        drops |= operation.dropped_after > 0;
                        busy += 1;
                        clients[client] = Some(began);
                    }
                    Began::Answered => {}
                    Began::Full => (self.next, full) = (self.next - 1, true),
                }
                if self.next == self.case.operations.len() {
                    self.outcome.all_asked = self.outcome.events;
                }
            }
            if busy == 0 && !full && self.next >= self.case.operations.len() {
                return self.over(machine, supervisor, clients, drops, trace);
            }
            if self.meanwhile(machine, trace)? {
                continue;
            }
            let before_ns = machine.now();
            match machine.step() {
                Step::Event => {
                    events += 1;
                    full = false;
                    self.look_for_losses(machine);
                    if self.event(machine, trace) {
                        return Ok(self.take_cut());
                    }
                    if drops {
                        busy -= self.drop_due(&machine.stack, clients, events, trace)?;
                    }
                    if events.is_multiple_of(POLLED_EVERY) {
                        let client = (events / POLLED_EVERY) as usize % SLOTS;
                        busy -= usize::from(self.poll(machine, clients, client, trace)?);
                    }
                }
                Step::Called => {
                    calls += 1;
                    self.look_for_losses(machine);
                }
                // The clients that were polled may have woken others.
                Step::Quiet if self.bench.mask.load(Ordering::Relaxed) != 0 => {}
                // The last call may have freed a dropped request's slot, which wakes no client.
                Step::Quiet if std::mem::take(&mut full) => calls += 1,
                Step::Quiet => {
                    return Err(hang(&self.bench.checker, machine, "nothing will ever happen again"));
                }
                Step::Storm => {
                    return Err(hang(&self.bench.checker, machine, "the interrupt stays asserted"));
                }
            }
            if self.case.one_life {
                self.look_at_ladder(machine);
            }
            if machine.now() != before_ns {
                calls = 0;
            } else if calls > CALLS_MAX {
                return Err(hang(&self.bench.checker, machine, "the stack is called again and again"));
            }
            let mut woken = self.bench.mask.swap(0, Ordering::Relaxed);
            if woken != 0 {
                (progress_ns, full) = (machine.now(), false);
            }
            while woken != 0 {
                let client = next_of(woken, clients);
                woken &= !(1 << client);
                if client == SLOTS {
                    busy -= self.kept(machine, supervisor, clients, trace)?;
                    self.look_for_losses(machine);
                    continue;
                }
                busy -= usize::from(self.poll(machine, clients, client, trace)?);
            }
            self.ends.judge(clients)?;
            if machine.now() > progress_ns.saturating_add(PATIENCE_NS) || events > EVENTS_MAX {
                return Err(hang(&self.bench.checker, machine, "no answer for minutes"));
            }
        }
    }

    /// Handles an event of the controller. Returns true if the power is to be cut now.
    fn event<B: Platform>(&mut self, machine: &Machine<B>, trace: &mut Trace<'_>) -> bool {
        self.outcome.events += 1;
        if self.case.setup.early || self.case.setup.leaves_open() {
            self.look_for_late_failures();
        }
        let strikes = self.faults.strikes();
        if strikes > self.strikes {
            let news = self.faults.struck();
            self.bench.checker.trouble();
            for shot in &news[self.strikes..] {
                if shot.strike == Strike::Remove {
                    self.supply_is_lost();
                }
                if let Some(trace) = trace {
                    trace(format!("{:>14} ** {}", machine.now(), super::describe::shot(shot)));
                }
            }
            self.strikes = strikes;
        }
        if let Some(trace) = trace
            && (self.up || self.case.setup.armed_early)
        {
            let events: Vec<_> = LOG.with_borrow_mut(std::mem::take);
            events.iter().for_each(|event| trace(super::trace::line(event)));
        }
        if self.up {
            self.visited(machine);
        }
        if self.case.dry {
            let mut model = machine.model.borrow_mut();
            let stake = model.card_mut().map_or(Vec::new(), |card| card.at_stake(machine.now()));
            let stake = (stake, self.outcome.requests, self.next);
            if stake == self.stake && !self.outcome.stakes.is_empty() {
                self.outcome.same_stakes += 1;
            } else {
                self.outcome.stakes.push((self.outcome.events, Keeps::choices(&stake.0)));
                self.stake = stake;
            }
        }
        self.cuts.first().is_some_and(|cut| cut.at <= self.outcome.events)
    }

    fn bring_up<B: Platform>(
        &mut self,
        machine: &Machine<B>,
        trace: &mut Trace<'_>,
    ) -> Result<Result<Found, End>, Violation> {
        let options = self.case.setup.options();
        for attempt in 1..=BRING_UPS {
            self.faults.arm(self.case.setup.armed_early && attempt < BRING_UPS);
            // SAFETY: `bring_up` has ended or the machine is dropped before the memory is used
            // again; only this machine's engine uses the page.
            let (scratch, page) = unsafe { (lend(&mut self.bench.scratch), lend(&mut self.bench.page)) };
            let mut future = std::pin::pin!(async {
                let (card, scratch) = bring_up(&machine.stack, scratch, options).await;
                let card = card?;
                equip(&machine.stack, &card, scratch, page, self.case).await?;
                Ok::<_, Error>(card)
            });
            let mut context = Context::from_waker(Waker::noop());
            let began_ns = machine.now();
            let mut calls = (0, began_ns);
            let result = loop {
                if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
                    break result;
                }
                match machine.step() {
                    Step::Event if self.event(machine, trace) => return Ok(Err(self.take_cut())),
                    Step::Event | Step::Called => {}
                    // The call of the stack may have completed what the future waits for, and the
                    // future was not polled since.
                    Step::Quiet => machine.stack.poll(),
                    Step::Storm => {
                        return Err(Violation::new(Fault::Hang, "bring-up: the interrupt stays asserted"));
                    }
                }
                calls = if calls.1 == machine.now() { (calls.0 + 1, calls.1) } else { (0, machine.now()) };
                if calls.0 > CALLS_MAX || machine.now() > began_ns.saturating_add(PATIENCE_NS) {
                    return Err(Violation::new(Fault::Hang, "bring-up: no end in minutes"));
                }
            };
            self.faults.arm(true);
            match result {
                Ok(card) => return Ok(Ok(card)),
                // The fault may last: then there is no card, and no client was promised one.
                Err(_) if attempt == BRING_UPS && self.case.luck != Luck::Good => return Ok(Err(End::Over)),
                Err(error) if attempt == BRING_UPS => {
                    return Err(Violation::new(
                        Fault::Untrue,
                        format!("a good card does not come up: {error}"),
                    ));
                }
                Err(_) => {}
            }
        }
        Ok(Err(End::Over))
    }
}

thread_local!(static LOG: RefCell<Vec<BusEvent>> = const { RefCell::new(Vec::new()) });

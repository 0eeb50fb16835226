//! Runs a case: machine after machine from power cut to power cut, the card and the judge going on.

use super::case::{Case, Cut, LONGEST, Luck, Operation, Place, SLOTS};
use super::machine::{Keeps, Machine, Request, Stack, Step};
use crate::board;
use mmcq::card::{Options, SCRATCH_BYTES, bring_up};
use mmcq::engine::{BLOCK_BYTES, Completion, DmaBuf, Error, Kind, Request as Asking};
use mmcq_sim::card::{Card, CardProfile, Fill, Medium};
use mmcq_sim::checker::{Answer, Asked, Checker, Content, Fault, Promise, SECTOR_BYTES, Ticket, Violation};
use mmcq_sim::faults::{Faults, Shot, Strike};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The campaign's cards: SD and eMMC, addressed by bytes and by blocks, with and without a cache that power takes away.
pub const CARDS: [&str; 5] = ["sdhc-16g-hs", "emmc-hs200", "hbg4a2", "emmc-4g-old", "sdsc-1g"];

/// Longest virtual time without any answer: longer than all budgets of one recovery together.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Events of one life: far more than its requests need.
const EVENTS_MAX: u64 = 20_000_000;
/// Sectors beside the window that are looked at as well: nobody writes there.
const MARGIN: u64 = 4;
/// Attempts to bring the card up, the last without faults.
const BRING_UPS: u32 = 3;

/// Counters of one run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests answered or cut off.
    pub requests: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// Futures dropped before their answer.
    pub dropped: u64,
    /// Device events.
    pub events: u64,
    /// Virtual time.
    pub elapsed_ns: u64,
    /// Longest time from submission to answer.
    pub longest_ns: u64,
    /// What struck.
    pub struck: Vec<Shot>,
    /// The promise that was broken, if any.
    pub violation: Option<Violation>,
}

/// Says what happens, in a replay.
pub type Trace<'a> = Option<&'a mut dyn FnMut(String)>;

struct Flag {
    mask: Arc<AtomicU64>,
    bit: u64,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.mask.fetch_or(self.bit, Ordering::Relaxed);
    }
}

/// What runs use again: profiles, memory, wakers.
pub struct Bench {
    profiles: Vec<CardProfile>,
    /// Memory of the requests; the engine has what is not in `free`.
    memory: Vec<Box<[u64]>>,
    free: Vec<usize>,
    scratch: Box<[u64]>,
    mask: Arc<AtomicU64>,
    wakers: Vec<Waker>,
    checker: Checker,
}

fn piece(bytes: usize) -> Box<[u64]> {
    vec![0; bytes / 8].into_boxed_slice()
}

/// # Safety
/// Nobody uses the memory until the buffer has come back, or the machine that had it is gone.
unsafe fn lend(memory: &mut [u64]) -> DmaBuf {
    let len = size_of_val(memory) as u32;
    let start = std::ptr::NonNull::from(memory).cast();
    // SAFETY: initialised memory of this length; the rest is the caller's promise.
    unsafe { DmaBuf::from_raw(start, len) }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

impl Bench {
    /// A bench of its own for each thread.
    #[must_use]
    pub fn new() -> Self {
        let mask = Arc::new(AtomicU64::new(0));
        let flag = |client: usize| Waker::from(Arc::new(Flag { mask: mask.clone(), bit: 1 << client }));
        let wakers = (0..SLOTS).map(flag).collect();
        let profile = |name: &&str| board::card_profile(name).expect("the campaign's cards are good");
        Bench {
            profiles: CARDS.iter().map(profile).collect(),
            // Dropped requests keep their memory for a while.
            memory: (0..2 * SLOTS).map(|_| piece((LONGEST * BLOCK_BYTES) as usize)).collect(),
            free: Vec::new(),
            scratch: piece(SCRATCH_BYTES as usize),
            mask,
            wakers,
            checker: Checker::new(Promise {
                content: Content::new(0, 0, Fill::Pattern(0)),
                write_through: false,
            }),
        }
    }
}

/// A request under way.
struct Client<'a> {
    request: Request<'a>,
    ticket: Ticket,
    asked: Asked,
    piece: Option<usize>,
    submitted_ns: u64,
    /// Dropped at this event of the life.
    drop_at: u64,
}

/// How a life ended.
enum End {
    /// All operations are answered.
    Over,
    /// By a power cut.
    Cut(Cut),
}

/// Runs the case. `trace` hears of everything.
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
    };
    let result = run.all(&mut trace);
    outcome.struck = faults.struck();
    outcome.violation = result.err();
    outcome
}

struct Run<'r> {
    case: &'r Case,
    bench: &'r mut Bench,
    outcome: &'r mut Outcome,
    faults: &'r Faults,
    /// Operations begun.
    next: usize,
    /// Cuts to come.
    cuts: &'r [Cut],
    /// First sector of the window.
    base: u64,
    /// Strikes that were seen.
    strikes: usize,
}

impl Run<'_> {
    fn all(&mut self, trace: &mut Trace<'_>) -> Result<(), Violation> {
        let profile = self.bench.profiles[self.case.setup.card].clone();
        let fill = Fill::Pattern(self.case.seed);
        let content = Content::new(self.case.seed, 1, fill);
        self.bench.checker.start_over(Promise { content, write_through: false });
        let broken = |error: &dyn std::fmt::Display| Violation::new(Fault::Untrue, error.to_string());
        let medium = Medium::sparse(profile.capacity_bytes(), fill).map_err(|error| broken(&error))?;
        let mut card = profile.build(medium).map_err(|error| broken(&error))?;
        let mut now_ns = self.case.setup.start_ns;
        loop {
            self.bench.free = (0..self.bench.memory.len()).collect();
            let machine = Machine::new(&self.case.setup, profile.is_emmc(), card, self.faults, now_ns)
                .map_err(|error| broken(&error))?;
            if trace.is_some() {
                let log = |event| LOG.with_borrow_mut(|log| log.push(event));
                machine.model.borrow_mut().set_log(Some(Box::new(log)));
            }
            let end = self.life(&machine, trace);
            self.outcome.elapsed_ns += machine.now() - now_ns;
            now_ns = machine.now();
            if let Some(text) = machine.misbehaviour() {
                return Err(Violation::new(Fault::Misdirected, text));
            }
            let end = end?;
            let keeps = if let End::Cut(cut) = end { cut.keeps } else { Keeps::Luck(self.case.seed) };
            card = machine.cut(keeps).ok_or_else(|| Violation::new(Fault::Untrue, "the card is gone"))?;
            self.outcome.cuts += 1;
            if let Some(trace) = trace {
                trace(format!("{now_ns:>14} power cut"));
            }
            self.examine(&mut *card)?;
            if matches!(end, End::Over) {
                return Ok(());
            }
        }
    }

    /// What is left on the card, sector by sector.
    fn examine(&mut self, card: &mut dyn Card) -> Result<(), Violation> {
        let checker = &mut self.bench.checker;
        checker.cut(|_| {});
        let first = self.base.saturating_sub(MARGIN);
        let mut sector = [0; SECTOR_BYTES];
        for lba in first..self.base + u64::from(self.case.setup.window) + MARGIN {
            match card.peek(lba * SECTOR_BYTES as u64, &mut sector) {
                Ok(()) => checker.survived(lba, &sector)?,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
                Err(_) => checker.unreadable(lba)?,
            }
        }
        Ok(())
    }

    fn life(&mut self, machine: &Machine, trace: &mut Trace<'_>) -> Result<End, Violation> {
        if let Some(end) = self.bring_up(machine, trace)? {
            return Ok(end);
        }
        let window = u64::from(self.case.setup.window);
        self.base = match self.case.setup.place {
            Place::Start => 0,
            Place::Middle => machine.sectors() / 2,
            Place::End => machine.sectors().saturating_sub(window),
        };
        self.bench.checker.set_write_through(machine.write_through());
        let mut clients: [Option<Client<'_>>; SLOTS] = [const { None }; SLOTS];
        let end = self.requests(machine, &mut clients, trace);
        // Whoever is left is cut off.
        self.outcome.requests += clients.iter().flatten().count() as u64;
        end
    }

    fn requests<'m>(
        &mut self,
        machine: &'m Machine,
        clients: &mut [Option<Client<'m>>; SLOTS],
        trace: &mut Trace<'_>,
    ) -> Result<End, Violation> {
        let depth = usize::from(self.case.setup.depth).clamp(1, SLOTS);
        let mut busy = 0usize;
        let mut events = 0;
        let mut progress_ns = machine.now();
        let mut drops = false;
        let mut retry = false;
        loop {
            while busy < depth && !retry && self.next < self.case.operations.len() {
                let operation = &self.case.operations[self.next];
                if operation.alone && busy > 0 {
                    break;
                }
                let Some(piece) = self.piece(operation, &machine.stack) else { break };
                self.next += 1;
                let client = clients.iter().position(Option::is_none).expect("there are as many as slots");
                let (request, full) = self.ask(machine, operation, piece, client, events, trace)?;
                if full {
                    // Dropped requests may still have their slots.
                    (self.next, retry) = (self.next - 1, true);
                    break;
                }
                drops |= operation.dropped_after > 0;
                busy += usize::from(request.is_some());
                clients[client] = request;
            }
            if busy == 0 && !retry && self.next >= self.case.operations.len() {
                return Ok(End::Over);
            }
            match machine.step() {
                Step::Event => {
                    events += 1;
                    if self.event(machine, trace) {
                        return Ok(self.take_cut());
                    }
                    if drops && self.drop_due(clients, events, &mut busy, trace) {
                        retry = false;
                    }
                }
                Step::Called => {}
                Step::Quiet => {
                    return Err(hang(&self.bench.checker, machine, "nothing will ever happen again"));
                }
                Step::Storm => {
                    return Err(hang(&self.bench.checker, machine, "the interrupt stays asserted"));
                }
            }
            let mut woken = self.bench.mask.swap(0, Ordering::Relaxed);
            if woken != 0 {
                (progress_ns, retry) = (machine.now(), false);
            }
            while woken != 0 {
                let client = woken.trailing_zeros() as usize;
                woken &= woken - 1;
                let Some(waiting) = &mut clients[client] else { continue };
                let mut context = Context::from_waker(&self.bench.wakers[client]);
                if let Poll::Ready(completion) = Pin::new(&mut waiting.request).poll(&mut context)
                    && let Some(client) = clients[client].take()
                {
                    busy -= 1;
                    self.answered(machine, client, completion, trace)?;
                }
            }
            if machine.now() > progress_ns.saturating_add(PATIENCE_NS) || events > EVENTS_MAX {
                return Err(hang(&self.bench.checker, machine, "no answer for a minute"));
            }
        }
    }

    /// Something has happened in the controller. True if the power goes now.
    fn event(&mut self, machine: &Machine, trace: &mut Trace<'_>) -> bool {
        self.outcome.events += 1;
        let strikes = self.faults.strikes();
        if strikes > self.strikes {
            let news = self.faults.struck();
            for shot in &news[self.strikes..] {
                if matches!(shot.strike, Strike::BrownOut | Strike::Remove) {
                    self.bench.checker.supply_lost();
                }
                if let Some(trace) = trace {
                    trace(format!(
                        "{:>14} ** {:?} {}: {:?}",
                        machine.now(),
                        shot.point,
                        shot.nth,
                        shot.strike
                    ));
                }
            }
            self.strikes = strikes;
        }
        if let Some(trace) = trace {
            let events: Vec<_> = LOG.with_borrow_mut(std::mem::take);
            events.iter().for_each(|event| trace(super::trace::line(event)));
        }
        self.cuts.first().is_some_and(|cut| cut.at <= self.outcome.events)
    }

    fn take_cut(&mut self) -> End {
        match self.cuts.split_first() {
            Some((cut, rest)) => {
                self.cuts = rest;
                End::Cut(*cut)
            }
            None => End::Over,
        }
    }

    fn bring_up(&mut self, machine: &Machine, trace: &mut Trace<'_>) -> Result<Option<End>, Violation> {
        let options = Options { cache: self.case.setup.cache, ..Options::DEFAULT };
        for attempt in 1..=BRING_UPS {
            self.faults.arm(self.case.setup.armed_early && attempt < BRING_UPS);
            // SAFETY: `bring_up` is over, or the machine gone, before the memory is used again.
            let scratch = unsafe { lend(&mut self.bench.scratch) };
            let mut future = std::pin::pin!(bring_up(&machine.stack, scratch, options));
            let mut context = Context::from_waker(Waker::noop());
            let began_ns = machine.now();
            let result = loop {
                if let Poll::Ready((result, _)) = future.as_mut().poll(&mut context) {
                    break result;
                }
                match machine.step() {
                    Step::Event if self.event(machine, trace) => return Ok(Some(self.take_cut())),
                    Step::Event | Step::Called => {}
                    // The turn may have completed what the future waits for: it was not polled since.
                    Step::Quiet => machine.stack.poll(),
                    Step::Storm => {
                        return Err(Violation::new(Fault::Hang, "bring-up: the interrupt stays asserted"));
                    }
                }
                if machine.now() > began_ns.saturating_add(PATIENCE_NS) {
                    return Err(Violation::new(Fault::Hang, "bring-up: no end in a minute"));
                }
            };
            self.faults.arm(true);
            match result {
                Ok(_) => return Ok(None),
                Err(error) if attempt == BRING_UPS => {
                    return Err(Violation::new(
                        Fault::Untrue,
                        format!("a good card does not come up: {error}"),
                    ));
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Memory for an operation; `None` if dropped requests have it all.
    fn piece(&mut self, operation: &Operation, stack: &Stack) -> Option<Option<usize>> {
        if operation.blocks == 0 || !matches!(operation.asked, Asked::Read | Asked::Write { .. }) {
            return Some(None);
        }
        if self.bench.free.is_empty() {
            while let Some(back) = stack.with(|engine| engine.reclaim()) {
                let address = back.as_non_null().as_ptr() as usize;
                let piece = self.bench.memory.iter().position(|m| m.as_ptr() as usize == address);
                self.bench.free.extend(piece);
            }
        }
        self.bench.free.pop().map(Some)
    }

    /// Submits an operation. `None`: it was answered at once. True: there was no room.
    #[allow(clippy::too_many_arguments)]
    fn ask<'m>(
        &mut self,
        machine: &'m Machine,
        operation: &Operation,
        piece: Option<usize>,
        client: usize,
        events: u64,
        trace: &mut Trace<'_>,
    ) -> Result<(Option<Client<'m>>, bool), Violation> {
        let (lba, blocks) = (self.base + u64::from(operation.at), operation.blocks);
        let now_ns = machine.now();
        let ticket = self.bench.checker.submit(operation.asked, lba, blocks, now_ns);
        if let Some(trace) = trace {
            trace(format!("{now_ns:>14} -> {}: {operation}", ticket.version()));
        }
        let mut buf = DmaBuf::EMPTY;
        if let Some(piece) = piece {
            let bytes = (blocks * BLOCK_BYTES) as usize;
            // SAFETY: the piece is free: its last request has given it back, or its machine is gone.
            buf = unsafe { lend(&mut self.bench.memory[piece][..bytes / 8]) };
            if matches!(operation.asked, Asked::Write { .. }) {
                self.bench.checker.fill(ticket, &mut buf);
            }
        }
        let Some(asking) = asking(operation.asked, lba, blocks, buf) else {
            self.bench.checker.withdraw(ticket);
            self.bench.free.extend(piece);
            return Ok((None, false));
        };
        let mut client_of = Client {
            request: machine.stack.request(asking),
            ticket,
            asked: operation.asked,
            piece,
            submitted_ns: now_ns,
            drop_at: match operation.dropped_after {
                0 => u64::MAX,
                after => events + u64::from(after),
            },
        };
        let mut context = Context::from_waker(&self.bench.wakers[client]);
        match Pin::new(&mut client_of.request).poll(&mut context) {
            Poll::Pending => Ok((Some(client_of), false)),
            Poll::Ready(Completion { result: Err(Error::Full), .. }) => {
                self.bench.checker.withdraw(ticket);
                self.bench.free.extend(piece);
                Ok((None, true))
            }
            Poll::Ready(completion) => {
                self.answered(machine, client_of, completion, trace)?;
                Ok((None, false))
            }
        }
    }

    fn answered(
        &mut self,
        machine: &Machine,
        client: Client<'_>,
        completion: Completion,
        trace: &mut Trace<'_>,
    ) -> Result<(), Violation> {
        let now_ns = machine.now();
        if let Some(trace) = trace {
            let number = client.ticket.version();
            match &completion.result {
                Ok(_) => trace(format!("{now_ns:>14} <- {number}: done")),
                Err(error) => {
                    trace(format!("{now_ns:>14} <- {number}: {error}, {} bytes done", completion.done_bytes))
                }
            }
        }
        self.outcome.requests += 1;
        self.outcome.longest_ns = self.outcome.longest_ns.max(now_ns - client.submitted_ns);
        let done_blocks = completion.done_bytes / BLOCK_BYTES;
        let answer = match completion.result {
            Ok(_) => Answer::Done,
            Err(Error::CacheLost) => Answer::CacheLost,
            Err(Error::OutOfRange { .. } | Error::Buffer { .. }) => Answer::Refused,
            Err(_) => Answer::Failed(done_blocks),
        };
        if answer != Answer::Done {
            self.outcome.errors += 1;
            if self.case.luck == Luck::Good && !self.bench.checker.may_fail(client.ticket) {
                let text = format!("request {} failed, and nothing had gone wrong", client.ticket.version());
                return Err(Violation::new(Fault::Untrue, text));
            }
        }
        let data: &[u8] = if client.asked == Asked::Read { &completion.buf } else { &[] };
        let result = self.bench.checker.answered(client.ticket, answer, data);
        self.bench.free.extend(client.piece);
        result
    }

    /// Drops the futures whose time has come. True if there were any.
    fn drop_due(
        &mut self,
        clients: &mut [Option<Client<'_>>; SLOTS],
        events: u64,
        busy: &mut usize,
        trace: &mut Trace<'_>,
    ) -> bool {
        let mut some = false;
        for slot in clients.iter_mut() {
            if slot.as_ref().is_some_and(|client| client.drop_at <= events)
                && let Some(client) = slot.take()
            {
                self.bench.checker.abandon(client.ticket);
                if let Some(trace) = trace {
                    trace(format!("{:>14} -- {}: dropped", "", client.ticket.version()));
                }
                (self.outcome.requests, self.outcome.dropped) =
                    (self.outcome.requests + 1, self.outcome.dropped + 1);
                *busy -= 1;
                some = true;
            }
        }
        some
    }
}

thread_local!(static LOG: std::cell::RefCell<Vec<mmcq_sim::sdhci::BusEvent>> = const { std::cell::RefCell::new(Vec::new()) });

fn hang(checker: &Checker, machine: &Machine, what: &str) -> Violation {
    let text = format!("{what}, at {} ns, {} requests wait", machine.now(), checker.under_way());
    Violation::new(Fault::Hang, text)
}

/// The request as the engine takes it; `None` for what it does not know.
fn asking(asked: Asked, lba: u64, blocks: u32, buf: DmaBuf) -> Option<Asking> {
    Some(match asked {
        Asked::Read => Asking::new(Kind::Read { lba, blocks }, buf),
        Asked::Write { durable: false } => Asking::new(Kind::Write { lba, blocks }, buf),
        Asked::Write { durable: true } => Asking::new(Kind::Write { lba, blocks }, buf).durable(),
        Asked::Flush => Asking::new(Kind::Flush, buf),
        Asked::Erase | Asked::Discard | Asked::Zero => return None,
    })
}

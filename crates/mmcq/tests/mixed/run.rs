//! A run of a program, and the reference that judges it.

use super::card::{BLOCKS, Card, ERASED, NEVER, Note};
use super::host::CardHost;
use super::program::{HANDLES, MOST, Op, Program, What};
use mmcq::engine::{
    Abilities, Acknowledge, Claim, Completion, Config, DmaBuf, Engine, Erase, Erasing, Error, Handshake,
    Kind, Request, ServiceRequest, SlotId,
};
use mmcq::sched::{Origin, Profile};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::Waker;

const SLOTS: usize = 8;

/// A request as the reference knows it. Its number is its place in the list, from 1 on.
#[derive(Clone, Debug)]
struct Known {
    what: What,
    lba: u32,
    blocks: u32,
    handle: u8,
    durable: bool,
    id: Option<SlotId>,
    claim: Claim,
    /// Whether it was taken back, and must never reach the card.
    back: bool,
    dropped: bool,
    ok: bool,
    shown: bool,
    kept: bool,
    /// Whether no flush owes it any more, for each handle.
    waived: u8,
    /// Whether the card's own error, which was lost on the way, excuses its loss.
    excused: bool,
    /// Whether its error may come after its result.
    late: bool,
}

impl Known {
    fn covers(&self, block: usize) -> bool {
        let first = self.lba as usize;
        (first..first + self.blocks as usize).contains(&block)
    }

    fn changes(&self) -> bool {
        !matches!(self.what, What::Read | What::Flush)
    }

    fn erases(&self) -> bool {
        matches!(self.what, What::Zero | What::Erase(_))
    }

    fn settles(&self) -> bool {
        self.changes() && self.what != What::Erase(Erase::Discard)
    }
}

const ROOM_BYTES: usize = 41 * MOST as usize * 512;

thread_local! {
    /// Memory of all requests of a program, used again by the next one.
    static ROOM: NonNull<u8> = {
        let room = vec![0u64; ROOM_BYTES / 8].leak();
        NonNull::from(room).cast()
    };
}

pub struct Run<'a, P: Profile> {
    program: &'a Program,
    card: Rc<RefCell<Card>>,
    e: Engine<CardHost, SLOTS, P>,
    known: Vec<Known>,
    used: usize,
    losses: [u8; HANDLES],
    now: u64,
    helping: Option<(u32, ServiceRequest)>,
    dead: bool,
    /// Whether another card is in the slot.
    removed: bool,
    other: bool,
    troubled: bool,
    wrong: Option<String>,
    steps: u32,
    /// How many times the supervisor still fails.
    failing: u32,
}

impl<'a, P: Profile> Run<'a, P> {
    pub fn new(program: &'a Program, policy: P, logs: bool) -> Self {
        let card = Card::new(program.caps());
        {
            let mut card = card.borrow_mut();
            (card.cached, card.reliable, card.polls) = (program.cached, program.reliable, program.polls);
            (card.slow, card.logs) = (program.slow, logs);
            card.names = program.names;
            card.plan = program.plan.iter().copied().collect();
        }
        let config = Config::DEFAULT
            .stays_open(program.stays)
            .settle_blocks(program.settle)
            .prepared(program.prepared)
            .erase_budget_ns(1)
            .acknowledge(if program.transferred {
                Acknowledge::Transferred
            } else {
                Acknowledge::Programmed
            });
        let mut e = Engine::with_policy(CardHost::new(&card), config, policy);
        e.set_card_params(Some(program.target()));
        let mut run = Run {
            program,
            card,
            e,
            known: Vec::new(),
            used: 0,
            losses: [0; HANDLES],
            now: 1_000,
            helping: None,
            dead: false,
            removed: false,
            other: false,
            troubled: false,
            wrong: None,
            steps: 0,
            failing: program.fails.0,
        };
        let page = run.memory(1, |_| 0);
        assert!(run.e.set_page(page).is_ok());
        run.equip();
        if program.supervised {
            drop(run.e.set_service_waker(Some(Waker::noop().clone())));
        }
        run
    }

    fn equip(&mut self) {
        let erase = Erasing::NONE
            .kinds(0b111)
            .emmc(true)
            .unit_blocks(4)
            .group_blocks(4)
            .zeros(self.program.zeros)
            .erase_ms(100)
            .trim_ms(100);
        self.e.set_abilities(Abilities::NONE.reliable_blocks(self.program.reliable).erase(erase));
        self.e.enable_extended_ops();
        self.e.set_task_queue(8);
        self.e.always_use_task_queue(true);
        self.e.set_packed(8, 8);
        self.e.set_chains(8);
    }

    fn fails(&mut self, what: String) {
        if self.wrong.is_none() {
            self.card.borrow_mut().say(|| format!("WRONG: {what}"));
            self.wrong = Some(what);
        }
    }

    /// Returns memory of so many blocks, of which each begins with its word.
    fn memory(&mut self, blocks: u32, word: impl Fn(u32) -> u32) -> DmaBuf {
        let bytes = blocks as usize * 512;
        assert!(self.used + bytes <= ROOM_BYTES);
        // SAFETY: inside of the room, of which each part is given out once in a program.
        let at = unsafe { ROOM.with(|room| *room).add(self.used) };
        self.used += bytes;
        for block in 0..blocks {
            // SAFETY: as above, and aligned.
            unsafe { at.add(block as usize * 512).cast::<u32>().write(word(block)) };
        }
        // SAFETY: the room lives for ever; the engine of the program before is gone.
        unsafe { DmaBuf::from_raw(at, bytes as u32) }
    }

    fn submit(&mut self, (what, lba, blocks): (What, u32, u32), handle: u8, durable: bool) {
        let number = self.known.len() as u32 + 1;
        let (at, kind_lba) = (number << 8, u64::from(lba));
        let (kind, buf) = match what {
            What::Read => (Kind::Read { lba: kind_lba, blocks }, self.memory(blocks, |_| NEVER - 1)),
            What::Write => (Kind::Write { lba: kind_lba, blocks }, self.memory(blocks, |n| at | n)),
            What::Zero => (Kind::Zero { lba: kind_lba, blocks }, self.memory(2, |_| ERASED)),
            What::Erase(how) => (Kind::Erase { lba: kind_lba, blocks, how }, DmaBuf::EMPTY),
            What::Flush => (Kind::Flush, DmaBuf::EMPTY),
        };
        let claim = buf.claim();
        let request = Request::new(kind, buf).from(Origin { client: handle, sync: true });
        let request = if durable { request.durable() } else { request };
        let id = match self.e.submit(request, self.now) {
            Ok(id) => Some(id),
            Err((error, _)) => {
                self.dead |= matches!(error, Error::Dead | Error::NoCard);
                self.card.borrow_mut().say(|| format!("#{number} refused: {error:?}"));
                None
            }
        };
        let card = self.card.clone();
        card.borrow_mut().say(|| {
            format!("#{number} {what:?} {lba}+{blocks} of {handle}{}", if durable { ", durable" } else { "" })
        });
        self.known.push(Known {
            what,
            lba,
            blocks,
            handle,
            durable,
            id,
            claim,
            back: id.is_none(),
            dropped: false,
            ok: false,
            shown: false,
            kept: false,
            waived: 0,
            excused: false,
            late: false,
        });
    }

    /// Handles the end of a request.
    fn ended(&mut self, at: usize, done: &Completion) {
        let Known { what, lba, blocks, handle, durable, .. } = self.known[at];
        self.card.borrow_mut().say(|| format!("#{} ended: {:?}", at + 1, done.result));
        if done.result == Err(Error::Dead) {
            self.dead = true;
        }
        match what {
            What::Flush => {
                let now = self.e.losses();
                let result = match done.result {
                    Ok(_) if now != self.losses[usize::from(handle)] => Err(Error::CacheLost),
                    result => result.map(|_| ()),
                };
                if let Err(Error::CacheLost | Error::Program(_)) = result {
                    self.losses[usize::from(handle)] = now;
                }
                match result {
                    Ok(()) => {
                        for known in &mut self.known[..at] {
                            let owed = known.ok && known.settles() && known.waived >> handle & 1 == 0;
                            known.kept |= owed && !known.excused;
                        }
                    }
                    Err(Error::Full | Error::Suspended) => {}
                    Err(_) => {
                        for known in &mut self.known {
                            known.waived |= u8::from(known.ok) << handle;
                        }
                    }
                }
            }
            What::Read => {
                if done.result.is_ok() {
                    for n in 0..blocks {
                        // SAFETY: the memory is the caller's again.
                        let word =
                            unsafe { done.buf.as_non_null().add(n as usize * 512).cast::<u32>().read() };
                        self.read_found(at, (lba + n) as usize, word);
                    }
                }
            }
            _ => {
                let settles = self.known[at].settles() && done.result.is_ok();
                let known = &mut self.known[at];
                known.ok = done.result.is_ok();
                let settles = settles && !(durable && known.excused);
                (known.shown, known.kept) = (settles && !known.late, settles && durable);
            }
        }
    }

    fn read_found(&mut self, at: usize, block: usize, word: u32) {
        let least =
            (0..at).rev().find(|&n| self.known[n].shown && self.known[n].covers(block)).map_or(0, |n| n + 1);
        let fits = match self.number(block, word, at) {
            Ok(number) => number >= least,
            Err(_) => false,
        };
        if !fits {
            self.fails(format!("#{} read {word:#x} of block {block}, not of #{least} or later", at + 1));
        }
    }

    /// Returns the greatest number of a request before `end` that may have left this word.
    fn number(&self, block: usize, word: u32, end: usize) -> Result<usize, String> {
        let reached = |n: usize| !self.known[n].back && self.known[n].covers(block);
        match word {
            NEVER => Ok(0),
            ERASED => (0..end)
                .rev()
                .find(|&n| reached(n) && self.known[n].erases())
                .map(|n| n + 1)
                .ok_or_else(|| format!("block {block} is erased")),
            _ => {
                let (number, offset) = ((word >> 8) as usize, word & 0xff);
                let fits = (1..=end).contains(&number)
                    && reached(number - 1)
                    && self.known[number - 1].what == What::Write
                    && self.known[number - 1].lba + offset == block as u32;
                if fits { Ok(number) } else { Err(format!("block {block} has {word:#x}")) }
            }
        }
    }

    /// Handles what the card has lost.
    fn note(&mut self) {
        let early = self.program.continues || self.program.transferred;
        let notes = std::mem::take(&mut self.card.borrow_mut().notes);
        for note in notes {
            for known in &mut self.known {
                match note {
                    Note::Cache => known.shown &= known.kept,
                    Note::Block(at) | Note::Spoilt(at) if known.covers(at) && early && !known.durable => {
                        (known.shown, known.late) = (false, true);
                    }
                    Note::Block(at) if known.covers(at) && !known.kept => known.shown = false,
                    Note::Untold(at) if known.covers(at) && !known.kept => {
                        (known.excused, known.shown) = (true, false)
                    }
                    Note::Block(_) | Note::Spoilt(_) | Note::Untold(_) => {}
                }
            }
        }
    }

    /// Looks at all blocks.
    fn look(&mut self) {
        if self.other {
            return;
        }
        for block in 0..BLOCKS {
            let (seen, medium) = {
                let card = self.card.borrow();
                (card.seen[block], card.medium[block])
            };
            for (word, of_read) in [(seen, true), (medium, false)] {
                let due = |known: &Known| {
                    known.covers(block) && if of_read { known.shown || known.kept } else { known.kept }
                };
                let least = self.known.iter().rposition(due).map_or(0, |n| n + 1);
                let number = self.number(block, word, self.known.len());
                let place = if of_read { "reads as" } else { "is on the medium as" };
                match number {
                    Ok(number) if number >= least => {}
                    Ok(number) => {
                        self.fails(format!("block {block} {place} #{number}, after #{least} was done"))
                    }
                    Err(what) => self.fails(format!("{what} ({place})")),
                }
            }
        }
    }

    fn under_way(&self, nth: u8) -> Option<usize> {
        let all: Vec<usize> =
            (0..self.known.len()).filter(|&n| self.known[n].id.is_some() && !self.known[n].dropped).collect();
        (!all.is_empty()).then(|| all[usize::from(nth) % all.len()])
    }

    fn carry_out(&mut self, op: Op) {
        if !matches!(op, Op::Submit { .. }) {
            self.card.borrow_mut().say(|| format!("{op:?}"));
        }
        match op {
            Op::Submit { what, lba, blocks, handle, durable } => {
                self.submit((what, lba, blocks), handle, durable);
            }
            Op::Cancel(nth) => {
                if let Some(at) = self.under_way(nth)
                    && let Some(id) = self.known[at].id
                {
                    let done = self.e.take(id);
                    if let Some(done) = done {
                        self.known[at].id = None;
                        return self.ended(at, &done);
                    }
                    let back = self.e.cancel(id).is_some();
                    (self.known[at].dropped, self.known[at].back) = (true, back);
                    if back {
                        self.known[at].id = None;
                    }
                }
            }
            Op::TakeBack(nth) => {
                if let Some(at) = self.under_way(nth)
                    && let Some(id) = self.known[at].id
                    && self.e.take_back(id).is_some()
                {
                    (self.known[at].back, self.known[at].id) = (true, None);
                }
            }
            Op::Halt => self.e.halt(),
            Op::Suspend => self.e.suspend(),
            Op::Resume => self.e.resume(self.now),
            Op::Remove => {
                if self.card.borrow().present {
                    (self.removed, self.troubled) = (true, true);
                    self.card.borrow_mut().remove();
                }
            }
            Op::Insert(same) => {
                if !self.card.borrow().present {
                    self.card.borrow_mut().insert();
                    self.other |= !same;
                }
            }
            Op::Supervisor(there) => {
                drop(self.e.set_service_waker(there.then(|| Waker::noop().clone())));
                self.troubled |= !there;
                if !there {
                    self.helping = None;
                }
            }
            Op::Abort => {
                self.e.abort(self.now);
                self.troubled = true;
            }
            Op::Streams(stays) => {
                self.e.set_stays_open(stays);
            }
        }
    }

    fn help(&mut self) {
        if self.helping.is_none()
            && let Some(help) = self.e.take_service_request()
        {
            self.card.borrow_mut().say(|| format!("help: {help:?}"));
            self.helping = Some((self.program.helps_after, help));
        }
        match self.helping {
            Some((0, help)) if self.e.is_quiet() => {
                self.helping = None;
                let result = match help {
                    _ if self.failing > 0 => {
                        self.failing -= 1;
                        Err(Error::Silent)
                    }
                    ServiceRequest::Reinit if self.program.fails.1 => {
                        self.card.borrow_mut().initialise();
                        self.other = true;
                        Err(Error::Changed)
                    }
                    ServiceRequest::Slower
                    | ServiceRequest::Reinit
                    | ServiceRequest::PowerCycle
                    | ServiceRequest::Inserted => {
                        self.card.borrow_mut().initialise();
                        Ok(self.program.target())
                    }
                    ServiceRequest::Removed => Err(Error::Removed),
                    ServiceRequest::Retune => Ok(self.program.target()),
                    _ => return,
                };
                self.e.service_done(result, self.now);
                if help == ServiceRequest::Inserted {
                    self.equip();
                }
            }
            // The supervisor's commands wait until nothing is with the controller.
            Some(_) if !self.e.is_quiet() => {}
            Some((left, help)) => self.helping = Some((left - 1, help)),
            None => {}
        }
    }

    /// Takes one step: an interrupt, or the next deadline.
    fn step(&mut self) {
        self.steps += 1;
        self.now += 1_000;
        let answers = self.card.borrow().answers();
        if answers {
            let _ = self.e.on_irq(self.now);
        } else {
            if self.helping.is_none() || !self.e.is_quiet() {
                self.now = self.e.next_deadline_ns().map_or(self.now, |at| at.max(self.now));
            }
            let _ = self.e.poll(self.now);
        }
        self.note();
        self.take();
        let later = std::mem::take(&mut self.card.borrow_mut().later);
        self.card.borrow_mut().notes.extend(later);
        self.help();
        self.note();
        self.take();
        self.look();
    }

    fn take(&mut self) {
        for at in 0..self.known.len() {
            let Known { id: Some(id), dropped, claim, .. } = self.known[at] else { continue };
            if dropped {
                if self.e.reclaim(claim).is_some() {
                    self.known[at].id = None;
                }
            } else if let Some(done) = self.e.take(id) {
                self.known[at].id = None;
                self.ended(at, &done);
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..3_000 {
            if self.wrong.is_some() {
                return;
            }
            let rests = self.e.is_idle() && self.helping.is_none() && !self.card.borrow().answers();
            if rests && self.under_way(0).is_none() && self.e.next_deadline_ns().is_none() {
                return;
            }
            let far = self.e.next_deadline_ns().is_none_or(|at| at > self.now + 1_000_000_000);
            if rests && self.under_way(0).is_none() && far {
                return;
            }
            self.step();
        }
        let left: Vec<usize> =
            (0..self.known.len()).filter(|&n| self.known[n].id.is_some()).map(|n| n + 1).collect();
        let (idle, next) = (self.e.is_idle(), self.e.next_deadline_ns());
        self.fails(format!(
            "does not come to rest: {left:?} are under way, idle {idle}, next {next:?}, now {}",
            self.now
        ));
    }

    pub fn all(mut self) -> Result<Vec<String>, (String, Vec<String>)> {
        for &(wait, op) in &self.program.ops {
            for _ in 0..wait {
                self.step();
            }
            if self.wrong.is_some() {
                break;
            }
            self.carry_out(op);
        }
        for _ in 0..4 {
            self.step();
        }
        if !self.card.borrow().present {
            self.carry_out(Op::Insert(true));
        }
        if self.program.supervised || self.removed {
            self.carry_out(Op::Supervisor(true));
        }
        self.carry_out(Op::Resume);
        self.settle();
        self.card.borrow_mut().plan.clear();
        self.last_flushes();
        let log = std::mem::take(&mut self.card.borrow_mut().log);
        let used = self.e.slots_in_use();
        let mapped = self.card.borrow().mapped();
        if self.wrong.is_none() && (mapped != 0 || used != 0) {
            self.fails(format!("{mapped} mapped, {used} slots in use"));
        }
        match self.wrong.take() {
            None => Ok(log),
            Some(wrong) => Err((wrong, log)),
        }
    }

    /// Flushes each handle twice: the second flush fails with nothing that the first has told.
    fn last_flushes(&mut self) {
        for round in 0..2 {
            for handle in 0..HANDLES as u8 {
                if self.wrong.is_some() || self.dead {
                    return;
                }
                let before = self.losses;
                self.submit((What::Flush, 0, 0), handle, false);
                let at = self.known.len() - 1;
                let refused = self.known[at].id.is_none();
                if self.dead {
                    return;
                }
                self.settle();
                if self.wrong.is_some() || self.dead {
                    return;
                }
                let told = self.losses != before;
                if refused || round == 1 && told {
                    self.fails(format!("the flush #{} fails again", at + 1));
                }
                if !self.troubled && self.program.plan.is_empty() && told {
                    self.fails(format!("the flush #{} tells of a loss", at + 1));
                }
            }
        }
    }
}

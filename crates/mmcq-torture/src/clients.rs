//! Clients of the stack. Some are futures: they are polled after a wake-up, polled without one, or
//! dropped before the answer. Others are no futures, and name a request by its slot.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::bench::lend;
use super::case::{Operation, SLOTS, Visit};
use super::machine::{Machine, Request, Stack};
use super::run::{BOOTS, Run, Trace};
use super::usage::GivesUp;
use mmcq::engine::{
    BLOCK_BYTES, Claim, Completion, DmaBuf, Erase, Erasing, Error, Irreversible, Kind, PartitionAccess,
    Request as Asking, SlotId,
};
use mmcq::task::Platform;
use mmcq_sim::checker::{Answer, Asked, Fault, SECTOR_BYTES, Ticket, Violation, place};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Largest number of [`SlotId`]s of ended requests that are stored, to try whether the engine still
/// accepts one.
const STALE_MAX: usize = 8;

/// How a client waits for its answer.
enum Way<'a, B: Platform> {
    Future(Request<'a, B>),
    /// The client names its request by the slot, like a user that keeps a table of its requests.
    Slot(SlotId),
}

/// A client whose request is under way.
pub(super) struct Client<'a, B: Platform> {
    way: Way<'a, B>,
    ticket: Ticket,
    asked: Asked,
    area: u8,
    lba: u64,
    piece: Option<usize>,
    blocks: u32,
    origin: u8,
    gives_up: GivesUp,
    submitted_ns: u64,
    /// Number of the event, counted from the end of bring-up, at which the client drops its future.
    drop_at: u64,
}

/// Result of an attempt to submit a request.
pub(super) enum Began<'a, B: Platform> {
    /// The request is under way; its client waits for the answer.
    Client(Client<'a, B>),
    /// The request was answered at once.
    Answered,
    /// No slot of the engine is free. Dropped requests may occupy slots for some time.
    Full,
}

impl<B: Platform> Client<'_, B> {
    /// Returns the kind of the request.
    pub(super) fn asked(&self) -> Asked {
        self.asked
    }

    /// Returns the number of the request in the order of submission.
    pub(super) fn number(&self) -> u32 {
        self.ticket.version()
    }

    /// Returns the number of the client in the stack.
    pub(super) fn origin(&self) -> u8 {
        self.origin
    }

    fn poll(&mut self, stack: &Stack<B>, waker: &Waker) -> Option<Completion> {
        match &mut self.way {
            Way::Future(request) => match Pin::new(request).poll(&mut Context::from_waker(waker)) {
                Poll::Ready(completion) => Some(completion),
                Poll::Pending => None,
            },
            Way::Slot(id) => stack.with(|engine| engine.take(*id)),
        }
    }
}

/// Returns the client that is polled next. `woken` has one bit for each client that was woken. The
/// client with the oldest request comes first: if two flushes end together, the first one to be
/// submitted must report a loss of data.
pub(super) fn next_of<B: Platform>(woken: u64, clients: &[Option<Client<'_, B>>; SLOTS]) -> usize {
    let number =
        |client: &usize| clients.get(*client).and_then(Option::as_ref).map_or(u32::MAX, Client::number);
    (0..=SLOTS).filter(|client| woken >> client & 1 != 0).min_by_key(number).unwrap_or(0)
}

impl Run<'_> {
    /// Begins or continues a pause of `rest_us` microseconds, in which no request is submitted
    /// while other events may happen. Returns true when the pause is over.
    pub(super) fn wait_for_rest<B: Platform>(&mut self, machine: &Machine<B>, rest_us: u32) -> bool {
        if rest_us == 0 {
            return true;
        }
        let rest_ns = u64::from(rest_us) * 1_000;
        let until_ns = *self.rest_until_ns.get_or_insert_with(|| machine.now() + rest_ns);
        let over = machine.rests_until(until_ns);
        self.rest_until_ns = self.rest_until_ns.filter(|_| !over);
        over
    }

    /// Takes memory of the bench for the data of an operation, and returns its index. `None`:
    /// dropped requests still own all memory. `Some(None)`: the operation has no data.
    pub(super) fn piece<B: Platform>(
        &mut self,
        operation: &Operation,
        stack: &Stack<B>,
    ) -> Option<Option<usize>> {
        let moves = matches!(operation.asked, Asked::Read | Asked::Write { .. } | Asked::Zero);
        if operation.blocks == 0 || !moves {
            return Some(None);
        }
        if let Some(piece) = self.bench.take_piece(operation.blocks) {
            return Some(Some(piece));
        }
        let lost = |&claim: &Claim| stack.with(|engine| engine.reclaim(claim)).is_some();
        for piece in 0..self.bench.memory.len() {
            if lost(&self.bench.claims[self.bench.first_word(piece)][piece]) {
                self.bench.free.push(piece);
            }
        }
        self.bench.take_piece(operation.blocks).map(Some)
    }

    /// Submits an operation as a request to the stack. `piece`: index of the memory for its data;
    /// `client`: index of the client that waits for the answer; `events`: number of events of the
    /// run so far.
    pub(super) fn ask<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        operation: &Operation,
        piece: Option<usize>,
        client: usize,
        events: u64,
        trace: &mut Trace<'_>,
    ) -> Result<Began<'m, B>, Violation> {
        let Operation { asked, area, blocks, .. } = *operation;
        let lba = self.first(area) + u64::from(operation.at);
        let now_ns = machine.now();
        let ticket = self.bench.checker.submit(asked, place(area, lba), blocks, now_ns);
        if let Some(trace) = trace {
            trace(format!("{now_ns:>14} -> {}: {operation}", ticket.version()));
        }
        let mut buf = DmaBuf::EMPTY;
        if let Some(piece) = piece {
            let bytes = (blocks * BLOCK_BYTES) as usize;
            let first = self.bench.first_word(piece);
            // SAFETY: the piece is free: its last request has returned it, or the machine is
            // dropped.
            buf = unsafe { lend(&mut self.bench.memory[piece][first..][..bytes / 8]) };
            match operation.asked {
                Asked::Write { .. } => self.bench.checker.fill(ticket, &mut buf),
                Asked::Zero => buf.fill(0),
                _ => {}
            }
        }
        let erasing = machine.stack.with(|engine| engine.abilities().erase);
        let asking = match area {
            0 if self.case.setup.secure && asked == Asked::Erase => {
                Asking::new(Kind::Erase { lba, blocks, how: secure(&erasing, lba, blocks) }, buf)
            }
            0 => asking(asked, lba, blocks, buf, erasing.can(Erase::Trim)),
            _ => visiting(asked, BOOTS[usize::from(self.is_stranger)] | area, lba as u32, blocks as u16, buf),
        };
        let asking = asking.from(operation.origin);
        let (origin, gives_up) = (operation.origin.client, operation.gives_up);
        let drop_at = match operation.dropped_after {
            0 => u64::MAX,
            after => events + u64::from(after),
        };
        let made = |way| Client {
            way,
            ticket,
            asked,
            area,
            lba,
            piece,
            blocks,
            origin,
            gives_up,
            submitted_ns: now_ns,
            drop_at,
        };
        let way = if operation.by_slot {
            match machine.stack.with(|engine| engine.submit(asking, machine.stack_ns())) {
                Ok(id) => {
                    let waker = self.bench.wakers[client].clone();
                    drop(machine.stack.with(|engine| engine.set_waker(id, waker)));
                    self.try_stale(&machine.stack)?;
                    Way::Slot(id)
                }
                Err((Error::Full, _)) => return Ok(self.full(ticket, piece)),
                Err((error, request)) => {
                    let completion = Completion { result: Err(error), done_bytes: 0, buf: request.buf };
                    let client =
                        made(Way::Future(machine.stack.request(Asking::new(Kind::Flush, DmaBuf::EMPTY))));
                    self.answered(machine, client, completion, trace)?;
                    return Ok(Began::Answered);
                }
            }
        } else {
            Way::Future(machine.stack.request(asking))
        };
        let mut began = made(way);
        match began.poll(&machine.stack, &self.bench.wakers[client]) {
            None => Ok(Began::Client(began)),
            Some(Completion { result: Err(Error::Full), .. }) => Ok(self.full(ticket, piece)),
            Some(completion) => {
                self.answered(machine, began, completion, trace)?;
                Ok(Began::Answered)
            }
        }
    }

    fn full<'m, B: Platform>(&mut self, ticket: Ticket, piece: Option<usize>) -> Began<'m, B> {
        self.bench.checker.withdraw(ticket);
        self.bench.free.extend(piece);
        Began::Full
    }

    /// Stores the id of a request that has ended, in place of the oldest one if there are too many.
    fn note_stale(&mut self, id: SlotId) {
        if self.bench.stale.len() >= STALE_MAX {
            self.bench.stale.remove(0);
        }
        self.bench.stale.push(id);
    }

    /// Checks that the ids of ended requests are no longer valid: the engine must neither return
    /// nor cancel a request by such an id, though its slot may be used again.
    fn try_stale<B: Platform>(&mut self, stack: &Stack<B>) -> Result<(), Violation> {
        for &id in &self.bench.stale {
            if stack.with(|engine| engine.take(id)).is_some() {
                let text = format!("slot {} is answered again under its old name", id.index());
                return Err(Violation::new(Fault::Twice, text));
            }
            if stack.with(|engine| engine.cancel(id)).is_some() {
                let text = format!("slot {} can be cancelled under its old name", id.index());
                return Err(Violation::new(Fault::Twice, text));
            }
        }
        Ok(())
    }

    /// Polls a client. Returns true if its request was answered.
    pub(super) fn poll<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        clients: &mut [Option<Client<'m, B>>; SLOTS],
        client: usize,
        trace: &mut Trace<'_>,
    ) -> Result<bool, Violation> {
        let Some(waiting) = &mut clients[client] else { return Ok(false) };
        let Some(completion) = waiting.poll(&machine.stack, &self.bench.others[client]) else {
            return Ok(false);
        };
        if let Some(client) = clients[client].take() {
            self.answered(machine, client, completion, trace)?;
        }
        Ok(true)
    }

    fn answered<B: Platform>(
        &mut self,
        machine: &Machine<B>,
        client: Client<'_, B>,
        completion: Completion,
        trace: &mut Trace<'_>,
    ) -> Result<(), Violation> {
        let now_ns = machine.now();
        if self.case.setup.early || self.case.setup.leaves_open() {
            self.look_for_late_failures();
        }
        if let Some(trace) = trace {
            let number = client.ticket.version();
            match &completion.result {
                Ok(_) => trace(format!("{now_ns:>14} <- {number}: done")),
                Err(error) => {
                    trace(format!("{now_ns:>14} <- {number}: {error}, {} bytes done", completion.done_bytes))
                }
            }
        }
        if let Way::Slot(id) = client.way {
            self.note_stale(id);
        }
        self.outcome.requests += 1;
        self.outcome.longest_ns = self.outcome.longest_ns.max(now_ns - client.submitted_ns);
        if self.case.one_life {
            // The call before may have started a step of recovery.
            self.look_at_ladder(machine);
            self.stop_watch(client.submitted_ns, now_ns);
        }
        let left = machine.stack.with(|engine| engine.stats().leaked) > 0;
        self.came_back(&client, &completion, left)?;
        let done_blocks = completion.done_bytes / BLOCK_BYTES;
        let moves = matches!(client.asked, Asked::Read | Asked::Write { .. } | Asked::Flush);
        let special = client.area > 0 || !moves;
        let answer = match completion.result {
            Ok(_) => Answer::Done,
            Err(Error::CacheLost) => Answer::CacheLost,
            Err(Error::Suspended) if self.is_suspended() => Answer::Refused,
            Err(Error::OutOfRange { .. } | Error::Buffer { .. }) => Answer::Refused,
            // These errors are allowed for special requests: a card may not support erases, or not
            // of this size; a controller without CMD23 cannot move so many blocks in another
            // partition; and the engine may not know a new card yet.
            Err(Error::Unsupported | Error::Unequipped) if special => Answer::Refused,
            Err(_) => Answer::Failed(done_blocks),
        };
        // A card of another size refuses what lies behind its last block.
        let end = client.lba + u64::from(client.blocks);
        let smaller = matches!(self.case.visit, Some((_, Visit::Swaps { other: true, .. })))
            && end > self.other_size().capacity_bytes() / SECTOR_BYTES as u64;
        let why = match completion.result {
            Err(Error::Suspended) => true,
            Err(Error::OutOfRange { .. }) => smaller,
            _ => special,
        };
        let refused = answer == Answer::Refused && why;
        if answer != Answer::Done && !refused {
            self.outcome.errors += 1;
            // A fault that strikes a register access of the driver is noticed only at the next
            // event.
            if self.faults.strikes() > self.strikes {
                self.bench.checker.trouble();
            }
            let because = match completion.result {
                // In a case without write protection, a fault may have set WP_VIOLATION in a
                // response.
                Err(Error::Protected) if self.case.protects() => Some(self.was_protected(machine, &client)),
                // A status of an open transfer does not name the write that failed.
                Err(Error::Program(_)) if self.case.setup.leaves_open() => {
                    Some(self.late_failures > 0).filter(|late| *late)
                }
                _ => None,
            };
            // The checker has its own rule for answers that report a lost cache.
            if answer != Answer::CacheLost
                && !because.unwrap_or_else(|| self.bench.checker.may_fail(client.ticket))
            {
                let number = client.ticket.version();
                let why = completion.result.err().map_or_else(String::new, |error| error.to_string());
                let text = format!("request {number} failed ({why}), and nothing had gone wrong");
                return Err(Violation::new(Fault::Untrue, text));
            }
        }
        self.ends.note(client.ticket.version(), client.origin, client.asked, answer);
        // An erase reports only the reset in its own middle.
        let tells = matches!(client.asked, Asked::Flush | Asked::Write { durable: true });
        if let Some(away) = self.away.as_mut().filter(|_| tells && answer == Answer::CacheLost) {
            away.told_with_another();
        }
        let data: &[u8] = if client.asked == Asked::Read { &completion.buf } else { &[] };
        let result = self.bench.checker.answered(client.ticket, answer, data);
        self.bench.free.extend(client.piece);
        result
    }

    /// Returns whether write protection may be why this request failed: the request's sectors are
    /// protected now; or the whole card was protected after the request was submitted; or the whole
    /// card was protected at some time, and the engine still takes it as protected.
    fn was_protected<B: Platform>(&self, machine: &Machine<B>, client: &Client<'_, B>) -> bool {
        let (at, bytes) = (client.lba * SECTOR_BYTES as u64, u64::from(client.blocks) * SECTOR_BYTES as u64);
        let mut model = machine.model.borrow_mut();
        let is_so = model.card_mut().is_some_and(|card| card.is_protected(client.area, at, bytes.max(512)));
        let known = machine.stack.with(|engine| engine.card_params().is_some_and(|card| card.protected));
        is_so || self.protected_ns.is_some_and(|ns| known || ns >= client.submitted_ns)
    }

    /// Checks the memory of a request that has ended: the request must give back the memory that it
    /// was lent. After a write, one of its sectors must be unchanged; after a write of zeros, one
    /// must be zero. `left`: a failed request may come back without its memory, since the engine
    /// has given the memory up to a controller that no reset stops.
    fn came_back<B: Platform>(
        &self,
        client: &Client<'_, B>,
        completion: &Completion,
        left: bool,
    ) -> Result<(), Violation> {
        let wrong = |what: &str| {
            let text = format!("request {} came back {what}", client.ticket.version());
            Err(Violation::new(Fault::Untrue, text))
        };
        let (buf, done) = (&completion.buf, completion.result.is_ok());
        let Some(piece) = client.piece else { return Ok(()) };
        if buf.is_empty() {
            return if left && !done { Ok(()) } else { wrong("without its memory") };
        }
        let blocks = client.blocks as usize;
        if buf.as_ptr() != self.bench.memory[piece][self.bench.first_word(piece)..].as_ptr().cast()
            || buf.len() != blocks * BLOCK_BYTES as usize
        {
            return wrong("with other memory than its own");
        }
        if done && completion.done_bytes as usize != buf.len() {
            return wrong("done, and not as long as it was");
        }
        // The check compares one sector of the request, each time another one.
        let sector = client.ticket.version() as usize % blocks;
        let bytes = &buf[sector * SECTOR_BYTES..][..SECTOR_BYTES];
        let same = match client.asked {
            Asked::Write { .. } => self.bench.checker.is_filled(client.ticket, sector as u64, bytes),
            Asked::Zero => bytes.iter().all(|&byte| byte == 0),
            _ => true,
        };
        if same { Ok(()) } else { wrong("with other data than it was given") }
    }

    /// Makes the clients whose time has come give up their requests. Returns how many have left.
    pub(super) fn drop_due<B: Platform>(
        &mut self,
        stack: &Stack<B>,
        clients: &mut [Option<Client<'_, B>>; SLOTS],
        events: u64,
        trace: &mut Trace<'_>,
    ) -> Result<usize, Violation> {
        let mut count = 0;
        for slot in clients.iter_mut() {
            let Some(client) = slot.as_mut().filter(|client| client.drop_at <= events) else { continue };
            client.drop_at = u64::MAX;
            if self.leaves(stack, client, trace)? {
                *slot = None;
                count += 1;
            }
        }
        self.outcome.requests += count as u64;
        self.outcome.dropped += count as u64;
        Ok(count)
    }

    /// Gives up the request of a client. Returns false if the client goes on waiting for it.
    fn leaves<B: Platform>(
        &mut self,
        stack: &Stack<B>,
        client: &Client<'_, B>,
        trace: &mut Trace<'_>,
    ) -> Result<bool, Violation> {
        let (ticket, number) = (client.ticket, client.ticket.version());
        let mut note = |what: &str| {
            if let Some(trace) = trace {
                trace(format!("{:>14} -- {number}: {what}", ""));
            }
        };
        let Way::Slot(id) = client.way else {
            self.bench.checker.abandon(ticket);
            self.ends.note_left(client.origin, client.asked);
            note("dropped");
            return Ok(true);
        };
        let finished = stack.with(|engine| engine.finished() >> id.index() & 1 != 0);
        let back = match client.gives_up {
            GivesUp::Drops => {
                stack.with(|engine| engine.abandon(id));
                None
            }
            GivesUp::TakesBack => match stack.with(|engine| engine.take_back(id)) {
                None => return Ok(false),
                back => back,
            },
            GivesUp::Cancels => stack.with(|engine| engine.cancel(id)),
        };
        self.note_stale(id);
        // A flush without a client goes on, and counts for its client.
        self.ends.note_left(client.origin, client.asked);
        match back {
            // The card must never get the request.
            Some(buf) if !finished => {
                note("taken back");
                let back = Completion { result: Err(Error::Suspended), done_bytes: 0, buf };
                // The memory of a cancelled access to a partition is wiped: it may hold a secret.
                if client.area == 0 || client.gives_up == GivesUp::TakesBack {
                    self.came_back(client, &back, false)?;
                }
                self.bench.checker.withdraw(ticket);
                self.bench.free.extend(client.piece);
            }
            Some(_) => {
                note("cancelled after its end");
                self.bench.checker.abandon(ticket);
                self.bench.free.extend(client.piece);
            }
            None => {
                note("dropped");
                self.bench.checker.abandon(ticket);
            }
        }
        Ok(true)
    }
}

/// Longest time in ns of a switch to another partition: no card of the campaign declares a longer
/// one.
const SWITCH_NS: u64 = 100_000_000;

/// Builds the request for an access to another partition than the user area. `config` is the value
/// of PARTITION_CONFIG that selects this partition.
fn visiting(asked: Asked, config: u8, lba: u32, blocks: u16, buf: DmaBuf) -> Asking {
    let (out, back) = if asked == Asked::Read { (0, blocks) } else { (blocks, 0) };
    let visit = PartitionAccess { config, switch_ns: SWITCH_NS, lba, out, reliable: false, ask: false, back };
    Asking::new(Kind::PartitionAccess(visit), buf)
}

/// Returns the secure operation for the `blocks` blocks from `lba` on: secure erase for whole
/// groups, secure trim for others.
fn secure(erasing: &Erasing, lba: u64, blocks: u32) -> Erase {
    let sure = Irreversible::i_know_that_this_cannot_be_undone();
    let group = u64::from(erasing.group_blocks.max(1));
    let is_whole = lba.is_multiple_of(group) && u64::from(blocks).is_multiple_of(group);
    if is_whole { Erase::SecureErase(sure) } else { Erase::SecureTrim(sure) }
}

/// Builds the request for the engine. `trims`: the card has a trim, by which single blocks can be
/// erased.
fn asking(asked: Asked, lba: u64, blocks: u32, buf: DmaBuf, trims: bool) -> Asking {
    let erase = |how| Kind::Erase { lba, blocks, how };
    match asked {
        Asked::Read => Asking::new(Kind::Read { lba, blocks }, buf),
        Asked::Write { durable: false } => Asking::new(Kind::Write { lba, blocks }, buf),
        Asked::Write { durable: true } => Asking::new(Kind::Write { lba, blocks }, buf).durable(),
        Asked::Flush => Asking::new(Kind::Flush, buf),
        Asked::Erase if trims => Asking::new(erase(Erase::Trim), buf),
        Asked::Erase => Asking::new(erase(Erase::Erase), buf),
        Asked::Discard => Asking::new(erase(Erase::Discard), buf),
        Asked::Zero => Asking::new(Kind::Zero { lba, blocks }, buf),
    }
}

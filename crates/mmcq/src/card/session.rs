//! The exchange of commands between bring-up and a card, one at a time.
//!
//! Bring-up waits for a card at about eighty places in its code, each time by the same small future
//! ([`CardExchange`]). If a step fails, the session stores the error, and `?` returns only a marker
//! without a size. This halves the code of bring-up.

mod exchange;

use super::link::{Answer, Link};
use crate::engine::{BLOCK_BYTES, Breach, CardNumber, DmaBuf, Error, Kind, Request};
use crate::host::{Auto, BusOp, BusyDetect, Caps, Cause, Data, Direction, Fault, Host, Phase, Stage};
use crate::spec::ParseError;
use crate::spec::command::{self, Command, Resp};
use crate::spec::response::{R1, State};
use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
pub use exchange::CardExchange;

/// Longest time of a command and its response, in nanoseconds; at the slowest identification clock
/// both take about a millisecond.
const COMMAND_NS: u64 = 20_000_000;
/// Longest time to read a register as data, in nanoseconds.
const REGISTER_NS: u64 = 150_000_000;
/// Bits that an R1 must not have: errors of the command or of earlier commands, and the lock, since
/// a locked card executes nothing else.
const JUDGED: u32 = R1::OWN | R1::DEFERRED | R1::CARD_IS_LOCKED;
/// Length of the first wait for the end of busy in nanoseconds; a lost interrupt costs no more than
/// that.
const BUSY_LOOK_NS: u64 = 250_000_000;
/// Index of CMD5, SLEEP_AWAKE of an eMMC.
const SLEEP_AWAKE: u8 = 5;
/// Time between two polls of a busy card, in nanoseconds.
const BUSY_INTERVAL_NS: u64 = 200_000;
/// Largest number of responses to CMD13 that the bus may lose while a card is waited for.
const MISSED_MAX: u8 = 3;
/// Longest time that a card programs an aborted write, in nanoseconds [SD 4.6.2.2].
const PROGRAM_NS: u64 = 500_000_000;

/// Returns the number of polls for a card that may be busy for `timeout_ns`.
fn questions<L: Link>(timeout_ns: u64) -> u32 {
    if !L::BLOCKS {
        return u32::try_from(timeout_ns / BUSY_INTERVAL_NS).unwrap_or(u32::MAX).saturating_add(1);
    }
    // Two steps, since a division of 64 bits is long code. No card is waited for as long as the first
    // step can tell.
    let intervals = u32::try_from(timeout_ns >> 6).unwrap_or(u32::MAX) / (BUSY_INTERVAL_NS >> 6) as u32;
    intervals.saturating_add(1)
}

/// Returns whether a card in this state is no longer busy.
fn is_over<L: Link>(state: State) -> bool {
    if L::STRICT { state == State::Tran } else { state != State::Prg }
}

/// An action of bring-up that sends no command.
#[derive(Clone, Copy)]
pub enum Line {
    Set(BusOp),
    /// Waits for this number of nanoseconds.
    Pause(u32),
}

/// A future that is linked only for hosts with more than one data line, where 1.8 V and tuning may
/// be used. It is written by hand,
/// because a compiler does not remove code that an `async` function waits for.
pub(super) struct OnMoreLines<L, F>(F, PhantomData<fn() -> L>);

impl<L: Link, F> OnMoreLines<L, F> {
    #[inline(always)]
    pub fn of(future: F) -> Self {
        OnMoreLines(future, PhantomData)
    }
}

#[allow(unsafe_code, reason = "docs/safety.md says why")]
impl<L: Link, F: Future<Output = Result<(), Failed>>> Future for OnMoreLines<L, F> {
    type Output = Result<(), Failed>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if L::Host::ONE_LINE || !L::TUNES {
            return Poll::Ready(Err(Failed));
        }
        // SAFETY: the field is pinned whenever the whole value is: nothing moves the field, the
        // type has no `Drop`, no other code accesses the field, and the whole is `Unpin` only if
        // the field is.
        unsafe { self.map_unchecked_mut(|whole| &mut whole.0) }.poll(context)
    }
}

/// Marker of a failed step; [`Session::error`] has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

/// The exchange of commands with one card, one command at a time.
pub struct Session<L: Link> {
    /// What carries the exchanges out.
    pub link: L,
    /// Memory for register data; empty while a request uses it.
    scratch: DmaBuf,
    /// The card's relative address; 0 before it has one.
    pub rca: u16,
    /// Number of the card to which commands are sent. Before the card is known, this is the number
    /// that stands for any card.
    pub card: CardNumber,
    /// The exchange in progress, if there is one: a command, a bus operation or a pause.
    op: Option<L::Exchange>,
    answer: L::Answer,
    /// Whether the exchange's response is an R1 that must show no error.
    judged: bool,
    /// Whether the exchange is a command with a response.
    asks: bool,
    /// Whether a card has responded to a command of this session.
    heard: bool,
    /// Whether the exchange may end while the card is still busy; then the caller polls the card.
    patient: bool,
    /// Whether the session's last command or bus operation has ended while the card was still busy.
    late: bool,
    /// Whether the last command was a tuning command with which the controller has found its
    /// sampling point.
    tuned: bool,
    /// Number of restarts of this bring-up; after several restarts, bring-up leaves out steps that
    /// are not required.
    pub starts: u32,
    /// Whether the engine has stopped its queue for this session, so that the session's requests go
    /// first.
    pub urgent: bool,
    /// Whether the next power cycle of this session only begins identification again, and does not
    /// switch the supply off.
    pub warm: bool,
    /// Error of the last command or bus operation that failed.
    pub error: Error,
}

impl<L: Link> Session<L> {
    pub fn new(link: L, scratch: DmaBuf) -> Self {
        Session {
            link,
            scratch,
            rca: 0,
            card: CardNumber::ANY,
            op: None,
            answer: L::Answer::default(),
            judged: false,
            asks: false,
            heard: false,
            patient: false,
            late: false,
            tuned: false,
            starts: 0,
            urgent: false,
            warm: false,
            error: Error::Silent,
        }
    }

    pub fn into_scratch(self) -> DmaBuf {
        self.scratch
    }

    /// Takes the memory for register data, and leaves none.
    pub fn take_scratch(&mut self) -> DmaBuf {
        self.scratch.take()
    }

    /// Returns why a bring-up has failed: if something has responded, the error of the last step
    /// tells more than that there is no card.
    pub fn reason(&self) -> Error {
        if self.heard_nothing() { Error::NoCard } else { self.error }
    }

    /// Returns the size in bytes of the buffer into which the card's registers are read.
    pub fn scratch_bytes(&self) -> u32 {
        self.scratch.len_bytes()
    }

    /// Records `error` as the session's error, and returns [`Failed`], which ends the present step.
    pub fn fail<T>(&mut self, error: Error) -> Result<T, Failed> {
        self.error = error;
        Err(Failed)
    }

    /// Ends a step with an error, because card or host has violated the protocol as `breach` says.
    #[inline(always)]
    pub fn refuse<T>(&mut self, breach: Breach) -> Result<T, Failed> {
        self.note_refused(breach);
        Err(Failed)
    }

    #[inline(never)]
    fn note_refused(&mut self, breach: Breach) {
        self.error = Error::Protocol(breach);
    }

    /// Returns the decoded register, or fails with the parser's error.
    pub fn parsed<T>(&mut self, result: Result<T, ParseError>) -> Result<T, Failed> {
        result.or_else(|error| self.fail(error.into()))
    }

    /// Returns whether the last step failed without any response. Then the card is of another kind,
    /// or does not support the command.
    #[inline(never)]
    pub fn unanswered(&self) -> bool {
        matches!(self.error, Error::Host(fault) if fault.cause == Cause::Timeout)
    }

    /// Returns whether the last step failed without any response, and no card has responded to an
    /// earlier command of this session either. So no card is there.
    pub fn heard_nothing(&self) -> bool {
        self.unanswered() && !self.heard
    }

    /// Excuses one missing response: returns true, and sets `lost`, if the last command had no
    /// response and `lost` was not set.
    pub fn excuse_loss_once(&self, lost: &mut bool) -> bool {
        L::RECOVERS && self.unanswered() && !core::mem::replace(lost, true)
    }

    /// Returns whether another try may succeed after the last failed step. False: there is no card,
    /// the card is locked, the step is not supported, or the buffer for the card's registers is too
    /// small.
    pub fn is_passing(&self) -> bool {
        !matches!(
            self.error,
            Error::NoCard | Error::Removed | Error::Locked | Error::Unsupported | Error::Buffer { .. }
        )
    }

    #[inline(never)]
    fn ask(&mut self, kind: Kind, buf: DmaBuf, judged: bool) -> CardExchange<'_, L> {
        self.judged = judged;
        self.asks = matches!(kind, Kind::Raw { phase, .. } if phase.command.resp != Resp::None);
        let urgent = L::RECOVERS && self.urgent;
        let request = Request { urgent, ..Request::new(kind, buf).for_card(self.card) };
        let op = self.link.begin(request);
        if L::BLOCKS {
            let mut op = op;
            if let Poll::Ready(done) = Pin::new(&mut op).poll(&mut Context::from_waker(Waker::noop())) {
                let result = self.judge(done);
                self.answer.set(result);
            }
        } else {
            self.op = Some(op);
        }
        CardExchange { session: self }
    }

    #[inline(never)]
    fn send(
        &mut self,
        prefix: Option<Command>,
        command: Command,
        timeout_ns: u64,
        judged: bool,
    ) -> CardExchange<'_, L> {
        let phase = Phase::of(command);
        self.ask(Kind::Raw { prefix, phase, timeout_ns }, DmaBuf::EMPTY, judged)
    }

    /// Requests the bus operation `op`, such as a new clock or width.
    pub fn bus(&mut self, op: BusOp) -> CardExchange<'_, L> {
        self.ask(Kind::Bus(op), DmaBuf::EMPTY, false)
    }

    /// Waits for `ns` nanoseconds.
    pub fn pause(&mut self, ns: u64) -> CardExchange<'_, L> {
        if L::RECOVERS && self.urgent {
            self.link.note_work();
        }
        self.ask(Kind::Pause { ns }, DmaBuf::EMPTY, false)
    }

    /// Sends a command, and leaves the check of its response to the caller.
    pub fn command(&mut self, command: Command) -> CardExchange<'_, L> {
        self.send(None, command, COMMAND_NS, false)
    }

    /// Sends a command with an R1 that must show no error of its own or of earlier commands.
    pub fn status_of(&mut self, command: Command) -> CardExchange<'_, L> {
        self.send(None, command, COMMAND_NS, true)
    }

    /// Sends a command like [`command`](Self::command), after CMD55.
    pub fn app_command(&mut self, command: Command) -> CardExchange<'_, L> {
        self.send(Some(command::app_cmd(self.rca)), command, COMMAND_NS, false)
    }

    /// Sends a command like [`status_of`](Self::status_of), after CMD55.
    pub fn app_status_of(&mut self, command: Command) -> CardExchange<'_, L> {
        self.send(Some(command::app_cmd(self.rca)), command, COMMAND_NS, true)
    }

    /// Sends a command with R1b, waits at most `timeout_ns` nanoseconds for the end of busy, and
    /// checks the status after it.
    pub fn busy_command(
        &mut self,
        command: Command,
        timeout_ns: u64,
    ) -> L::Stage<impl Future<Output = Result<(), Failed>>> {
        L::stage(move || self.busy_command_steps(command, timeout_ns))
    }

    async fn busy_command_steps(&mut self, command: Command, timeout_ns: u64) -> Result<(), Failed> {
        self.begin_busy(command, timeout_ns).await?;
        self.wait_ready(timeout_ns).await
    }

    /// Starts a command with R1b whose busy may last `timeout_ns`. The first wait for an interrupt
    /// is shorter ([`BUSY_LOOK_NS`]). If busy has not ended then, the step is [late](Self::late),
    /// and the caller polls the card's status.
    fn begin_busy(&mut self, command: Command, timeout_ns: u64) -> CardExchange<'_, L> {
        (self.patient, self.late) = (true, false);
        self.send(None, command, timeout_ns.min(BUSY_LOOK_NS), true)
    }

    /// Sends a command like [`busy_command`](Self::busy_command), for a switch that the host must
    /// follow before the next command. The busy after it may last `timeout_ns`. So the status is
    /// read only if nothing else shows the end of busy.
    pub async fn switch_then(&mut self, command: Command, timeout_ns: u64) -> Result<(), Failed> {
        self.begin_busy(command, timeout_ns).await?;
        match self.busy_detect() {
            BusyDetect::Interrupt | BusyDetect::Response if !self.late => Ok(()),
            // A card that sleeps, or is not selected, sends no status.
            BusyDetect::Status if command.index == SLEEP_AWAKE => self.pause(timeout_ns).await.map(|_| ()),
            BusyDetect::Status => self.wait_ready(timeout_ns).await,
            _ => {
                for _ in 0..questions::<L>(timeout_ns) {
                    if !self.dat0_busy() {
                        return Ok(());
                    }
                    self.pause(BUSY_INTERVAL_NS).await?;
                }
                self.fail(Error::Silent)
            }
        }
    }

    /// Carries out these changes of the bus and these pauses, one after the other.
    pub fn lines(&mut self, steps: &[Line]) -> L::Stage<impl Future<Output = Result<(), Failed>>> {
        L::stage(move || self.lines_steps(steps))
    }

    async fn lines_steps(&mut self, steps: &[Line]) -> Result<(), Failed> {
        for &step in steps {
            let kind = match step {
                Line::Set(op) => Kind::Bus(op),
                Line::Pause(ns) => Kind::Pause { ns: ns.into() },
            };
            self.ask(kind, DmaBuf::EMPTY, false).await?;
        }
        Ok(())
    }

    /// Returns what `question` reads from the host. If the call comes from inside another call of
    /// the stack, returns `nested` instead. One function serves all such reads, to save code size.
    #[inline(never)]
    pub fn asked(&self, nested: u32, question: fn(&L::Host) -> u32) -> u32 {
        self.link.ask_host(nested, question)
    }

    /// Returns the slowest clock of the controller.
    pub fn slowest_hz(&self) -> u32 {
        self.asked(0, |host| host.caps().clock_hz.0)
    }

    /// Returns how the controller detects the end of busy.
    #[inline(never)]
    fn busy_detect(&self) -> BusyDetect {
        self.link.ask_host(Caps::NONE.busy, |host| host.caps().busy)
    }

    /// Waits until the card has left the state `prg`, at most for `timeout_ns`; otherwise fails
    /// with [`Error::Silent`]. If the controller has detected the end of busy, this takes a single
    /// CMD13.
    pub fn wait_ready(&mut self, timeout_ns: u64) -> L::Stage<impl Future<Output = Result<(), Failed>>> {
        L::stage(move || self.wait_ready_steps(timeout_ns))
    }

    async fn wait_ready_steps(&mut self, timeout_ns: u64) -> Result<(), Failed> {
        let detect = self.busy_detect();
        let mut missed = 0;
        for _ in 0..questions::<L>(timeout_ns) {
            if detect != BusyDetect::Level || !self.dat0_busy() {
                match self.status_of(command::send_status(self.rca)).await {
                    Ok(status) if is_over::<L>(status.r1().current_state()) => return Ok(()),
                    Err(Failed) if !L::RECOVERS || !self.asks_again(&mut missed) => {
                        return Err(Failed);
                    }
                    Ok(_) | Err(Failed) => {}
                }
            }
            self.pause(BUSY_INTERVAL_NS).await?;
        }
        self.fail(Error::Silent)
    }

    /// Returns true if CMD13 must be sent again after this failure: the bus has lost or damaged the
    /// response, and this has happened at most [`MISSED_MAX`] times. `missed` counts these
    /// responses.
    #[inline(never)]
    pub fn asks_again(&self, missed: &mut u8) -> bool {
        *missed = missed.saturating_add(1);
        let on_bus = matches!(self.error, Error::Host(fault) if fault.cause != Cause::Gone);
        on_bus && *missed <= MISSED_MAX
    }

    /// Returns whether the host sees that the card holds DAT0 low. On an SPI bus the result is
    /// always false.
    pub fn dat0_busy(&self) -> bool {
        self.asked(0, |host| host.dat0_busy().into()) != 0
    }

    /// Returns the current that the host's supply can give the card, in mA; 0 if not known. Lean
    /// firmware always returns 0.
    pub fn supply_ma(&self) -> u16 {
        if L::RECOVERS { self.asked(0, |host| host.supply_ma().into()) as u16 } else { 0 }
    }

    /// Returns whether DAT3 to DAT0 have these levels: bit n of `levels` is the level of DATn.
    pub fn lines_are(&self, levels: u8) -> bool {
        self.asked(0, |host| host.dat_levels().into()) == levels.into()
    }

    /// Reads `bytes` bytes (at most 512) of register data by a command, after CMD55 if `app`.
    /// [`bytes`](Self::bytes) returns them afterwards.
    #[inline(never)]
    pub fn register(&mut self, command: Command, app: bool, bytes: u16) -> CardExchange<'_, L> {
        let data = Data { direction: Direction::Read, block_size: bytes, blocks: 1 };
        let prefix = app.then_some(command::app_cmd(self.rca));
        let scratch = core::mem::replace(&mut self.scratch, DmaBuf::EMPTY);
        let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: false };
        self.ask(Kind::Raw { prefix, phase, timeout_ns: REGISTER_NS }, scratch, true)
    }

    /// Reads `blocks` blocks of 512 bytes by a command that ends by itself.
    pub fn blocks(&mut self, command: Command, blocks: u32) -> CardExchange<'_, L> {
        let data = Data { direction: Direction::Read, block_size: BLOCK_BYTES as u16, blocks };
        let scratch = core::mem::replace(&mut self.scratch, DmaBuf::EMPTY);
        let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: false };
        self.ask(Kind::Raw { prefix: None, phase, timeout_ns: REGISTER_NS }, scratch, true)
    }

    /// Carries out a read or write of blocks, without its memory's first `skip` bytes.
    pub fn transfer(&mut self, phase: Phase, timeout_ns: u64, skip: u32) -> CardExchange<'_, L> {
        let buf = self.scratch.take().after(skip);
        self.ask(Kind::Raw { prefix: None, phase, timeout_ns }, buf, true)
    }

    /// Sends CMD12 after the data of a transfer, and leaves the check of its response to the
    /// caller.
    pub fn stopped(&mut self, timeout_ns: u64) -> CardExchange<'_, L> {
        self.send(None, command::stop_transmission(), timeout_ns, false)
    }

    /// Writes a block from the scratch memory by `command`; the first byte of the block is set to
    /// `first`. The card may take `timeout_ns` nanoseconds for the data and the busy.
    #[inline(never)]
    pub fn write_page(&mut self, command: Command, first: u8, timeout_ns: u64) -> CardExchange<'_, L> {
        let mut page = core::mem::replace(&mut self.scratch, DmaBuf::EMPTY);
        if let Some(byte) = page.first_mut() {
            *byte = first;
        }
        let data = Data { direction: Direction::Write, block_size: BLOCK_BYTES as u16, blocks: 1 };
        let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: false };
        self.ask(Kind::Raw { prefix: None, phase, timeout_ns }, page, true)
    }

    /// Sends CMD42 with the block that `fill` writes, and clears the block afterwards. Returns the
    /// card status when the card is ready again; the caller checks it.
    pub async fn lock(
        &mut self,
        fill: impl Fn(&mut [u8]) -> Result<(), Error> + Copy,
        timeout_ns: u64,
    ) -> Result<R1, Failed> {
        self.command(command::set_blocklen(BLOCK_BYTES)).await?;
        if let Err(error) = fill(&mut self.scratch) {
            return self.fail(error);
        }
        let block = core::mem::replace(&mut self.scratch, DmaBuf::EMPTY);
        let data = Data { direction: Direction::Write, block_size: BLOCK_BYTES as u16, blocks: 1 };
        let phase =
            Phase { command: command::lock_unlock(), data: Some(data), auto: Auto::None, tuning: false };
        let sent = self.ask(Kind::Raw { prefix: None, phase, timeout_ns }, block, false).await;
        self.scratch.fill(0);
        // A forced erase may last longer than the controller's timer. So a timeout is an error only
        // if the card is not busy afterwards.
        let mut late = match (&sent, self.error) {
            (Err(Failed), error @ Error::Host(fault))
                if fault.cause == Cause::Timeout && fault.stage != Stage::Command =>
            {
                Some(error)
            }
            _ => None,
        };
        let mut seen = match sent {
            Err(Failed) if late.is_some() => 0,
            sent => sent?.r1().0 & R1::ERRORS,
        };
        for _ in 0..questions::<L>(timeout_ns) {
            let status = self.command(command::send_status(self.rca)).await?.r1();
            seen |= status.0 & R1::ERRORS;
            if status.ready_for_data() && status.current_state() != State::Prg {
                return match late {
                    Some(error) => self.fail(error),
                    None => Ok(R1(status.0 | seen)),
                };
            }
            late = None;
            self.pause(BUSY_INTERVAL_NS).await?;
        }
        self.fail(Error::Silent)
    }

    /// Copies the content of the register that this session has read last into `to`.
    #[inline(never)]
    pub fn copy(&mut self, to: &mut [u8]) -> Result<(), Failed> {
        let Some(from) = self.scratch.get(..to.len()) else {
            return self.refuse(Breach::ScratchLost);
        };
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
        Ok(())
    }

    /// Returns the content of the register that this session has read last; it is in the scratch
    /// memory.
    pub fn bytes<const BYTES: usize>(&mut self) -> Result<&[u8; BYTES], Failed> {
        self.error = Error::Protocol(Breach::ScratchLost);
        self.scratch.first_chunk().ok_or(Failed)
    }

    /// Returns block number `block` of the blocks that were read last.
    pub fn block(&mut self, block: u32) -> Result<&[u8], Failed> {
        self.error = Error::Protocol(Breach::ScratchLost);
        let at = block.saturating_mul(BLOCK_BYTES) as usize;
        self.scratch.get(at..at.saturating_add(BLOCK_BYTES as usize)).ok_or(Failed)
    }

    /// Tunes by this command, which reads blocks of `bytes` bytes [SD 4.2.4.5], [eMMC 6.6.5]. The
    /// controller compares the blocks, and reports when it has found its sampling point. Fails with
    /// [`Error::Silent`] if the card did not respond to most of the commands, which proves nothing
    /// about the bus. The command is sent at most `blocks_max` times.
    pub async fn tune(&mut self, command: Command, bytes: u16, blocks_max: u32) -> Result<(), Failed> {
        self.bus(BusOp::TuneStart).await?;
        // Number of blocks with a response, correct or not, minus the number of blocks without one.
        let (mut heard, mut gone) = (0i32, false);
        for _ in 0..blocks_max {
            let block = self.tuning_block(command, bytes).await;
            let no_response = |fault: Fault| (fault.cause, fault.stage) == (Cause::Timeout, Stage::Command);
            let silent = block.is_err() && matches!(self.error, Error::Host(fault) if no_response(fault));
            if L::RECOVERS {
                heard = heard.saturating_add(if silent { -1 } else { 1 });
            }
            match block {
                Ok(_) if self.tuned => return Ok(()),
                // Tuning may lose blocks at a bad sampling point; an error of another kind, such as
                // a controller that is gone, ends it.
                Err(Failed) if !matches!(self.error, Error::Host(_)) => {
                    gone = true;
                    break;
                }
                _ => {}
            }
        }
        if self.bus(BusOp::TuneAbort).await.is_err() {
            // If the reset of the lines hangs, they accept no further command. The result of the
            // tuning then proves nothing.
            self.bus(BusOp::ResetAll).await?;
            (heard, gone) = (-1, false);
        }
        match (gone, !L::RECOVERS || heard >= 0) {
            (true, _) => Err(Failed),
            (false, true) => self.refuse(Breach::NoSamplingPoint),
            (false, false) => self.fail(Error::Silent),
        }
    }

    /// Ends a CMD18 or CMD25 that may still be open on the card after a failure. A card without an
    /// open transfer does not respond.
    pub async fn stop(&mut self) {
        let _ = self.command(command::stop_transmission()).await;
        // A card that has not received CMD12 does not accept CMD13 either, so poll DAT0.
        for _ in 0..PROGRAM_NS / BUSY_INTERVAL_NS {
            if !self.dat0_busy() || self.pause(BUSY_INTERVAL_NS).await.is_err() {
                return;
            }
        }
    }

    fn tuning_block(&mut self, command: Command, bytes: u16) -> CardExchange<'_, L> {
        let data = Data { direction: Direction::Read, block_size: bytes, blocks: 1 };
        let phase = Phase { command, data: Some(data), auto: Auto::None, tuning: true };
        let kind = Kind::Raw { prefix: None, phase, timeout_ns: REGISTER_NS };
        self.ask(kind, DmaBuf::EMPTY, false)
    }
}

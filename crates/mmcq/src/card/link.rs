//! What carries out the exchanges of a session: a stack with a queue, or a card that is driven
//! directly. Bring-up is the same code for both.

use super::session::{Failed, Session};
use super::{Card, Sd};
use crate::engine::{Completion, DmaBuf, Request};
use crate::host::Host;
use crate::sched::Profile;
use crate::spec::response::Response;
use crate::task::{Platform, RequestFuture, Stack};
use core::future::Future;

/// Carries out a session's exchanges, one at a time: a command, a bus operation or a pause.
pub trait Link: Copy {
    /// The controller's driver.
    type Host: Host;
    /// An exchange in progress. The exchange begins when the future is first polled, or before.
    type Exchange: Future<Output = Completion> + Unpin;
    /// Whether the firmware contains the code that is only needed after failures
    /// ([`Profile::RECOVERS`]).
    const RECOVERS: bool;
    /// Whether bring-up may use timings that need 1.8 V or tuning. False where nothing tunes again
    /// later.
    const TUNES: bool = true;
    /// Whether a busy has ended only when the card is back in `tran`, and not in any state but `prg`.
    const STRICT: bool = false;
    /// Whether bring-up reads registers that only the caller needs.
    const KEEPS: bool = true;
    /// Memory for an SD card's registers, from their reading until the end of bring-up.
    type Registers: Registers;
    /// Whether [`begin`](Self::begin) waits for the end of the exchange.
    const BLOCKS: bool = false;

    /// Where the session keeps the judged result of an exchange that has ended where it began.
    type Answer: Answer;
    /// A step of bring-up that is used at several places.
    type Stage<F: Future>: Future<Output = F::Output>;

    /// Makes a step of bring-up. A back end that [blocks](Self::BLOCKS) carries the step out at once,
    /// in a function of its own: a small frame on the call stack makes short instructions.
    fn stage<F: Future>(make: impl FnOnce() -> F) -> Self::Stage<F>;

    /// Begins an exchange.
    fn begin(self, request: Request) -> Self::Exchange;

    /// Returns what `question` reads from the driver. If the call comes from inside another call of
    /// the same stack, returns `nested` instead.
    fn ask_host<R>(self, nested: R, question: impl Fn(&Self::Host) -> R) -> R;

    /// Returns the time now, by the platform's clock.
    fn now_ns(self) -> u64;

    /// Notes that the session, which works on a card that has failed, goes on with its work.
    fn note_work(self) {}
}

/// Memory for an SD card's registers. The choice is a type, so that registers that are not kept take
/// no memory.
pub trait Registers {
    /// The value before a register was read.
    const NONE: Self;

    /// Returns the memory, if registers are kept.
    fn sd(&mut self) -> Option<&mut Sd>;

    /// Returns the registers; zeros if they are not kept.
    fn into_sd(self, version2: bool, signal18: bool) -> Sd;
}

impl Registers for Sd {
    const NONE: Sd = Sd { scr: [0; 8], ssr: [0; 64], switch: [0; 64], version2: false, signal18: false };

    #[inline(always)]
    fn sd(&mut self) -> Option<&mut Sd> {
        Some(self)
    }

    #[inline(always)]
    fn into_sd(mut self, version2: bool, signal18: bool) -> Sd {
        (self.version2, self.signal18) = (version2, signal18);
        self
    }
}

impl Registers for () {
    const NONE: () = ();

    #[inline(always)]
    fn sd(&mut self) -> Option<&mut Sd> {
        None
    }

    #[inline(always)]
    fn into_sd(self, version2: bool, signal18: bool) -> Sd {
        <Sd as Registers>::NONE.into_sd(version2, signal18)
    }
}

/// The judged result of an exchange.
pub trait Answer: Default {
    /// Stores the result.
    fn set(&mut self, result: Result<Response, Failed>);

    /// Returns the result that was stored last.
    fn get(&self) -> Result<Response, Failed>;
}

/// For back ends that do not block: nothing is stored.
impl Answer for () {
    fn set(&mut self, _: Result<Response, Failed>) {}

    fn get(&self) -> Result<Response, Failed> {
        Err(Failed)
    }
}

impl<'a, B: Platform, const N: usize> Link for &'a Stack<B, N> {
    type Host = B::Host;
    type Exchange = RequestFuture<'a, B, N>;
    const RECOVERS: bool = B::Profile::RECOVERS;
    type Registers = Sd;
    type Answer = ();
    type Stage<F: Future> = F;

    #[inline(always)]
    fn stage<F: Future>(make: impl FnOnce() -> F) -> F {
        make()
    }

    #[inline(always)]
    fn begin(self, request: Request) -> RequestFuture<'a, B, N> {
        self.request(request)
    }

    #[inline(always)]
    fn ask_host<R>(self, nested: R, question: impl Fn(&B::Host) -> R) -> R {
        self.enter(nested, |engine| question(engine.host()))
    }

    #[inline(always)]
    fn now_ns(self) -> u64 {
        Stack::now_ns(self)
    }

    fn note_work(self) {
        // The engine waits for the card, and must know that the supervisor still works.
        let now_ns = Stack::now_ns(self);
        self.with(|engine| engine.extend_help(now_ns));
    }
}

/// A session by the queue of a stack.
pub(super) type Queued<'a, B, const N: usize> = Session<&'a Stack<B, N>>;

impl<'a, B: Platform, const N: usize> Queued<'a, B, N> {
    /// Starts a session with `card`. If another card has taken its place, no command is sent to
    /// that card.
    pub fn with(stack: &'a Stack<B, N>, scratch: DmaBuf, card: &Card) -> Self {
        let number = stack.with(|engine| engine.number_of(card.identity()));
        let mut session = Session::new(stack, scratch);
        (session.rca, session.card) = (card.params.rca, number);
        session
    }

    /// Returns whether the session's card is no longer the one in the slot: it was taken out or
    /// replaced.
    pub fn is_over(&self) -> bool {
        self.link.with(|engine| !engine.is_meant(self.card))
    }
}

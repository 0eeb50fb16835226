//! What carries out the exchanges of a session: a stack with a queue, or a card that is driven
//! directly. Bring-up is the same code for both.

use super::Card;
use super::session::Session;
use crate::engine::{Completion, DmaBuf, Request};
use crate::host::Host;
use crate::sched::Profile;
use crate::task::{Platform, RequestFuture, Stack};
use core::future::Future;

/// Carries out a session's exchanges, one at a time: a command, a bus operation or a pause.
pub(crate) trait Link: Copy {
    /// The controller's driver.
    type Host: Host;
    /// An exchange in progress. The exchange begins when the future is first polled, or before.
    type Exchange: Future<Output = Completion> + Unpin;
    /// Whether the firmware contains the code that is only needed after failures
    /// ([`Profile::RECOVERS`]).
    const RECOVERS: bool;

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

impl<'a, B: Platform, const N: usize> Link for &'a Stack<B, N> {
    type Host = B::Host;
    type Exchange = RequestFuture<'a, B, N>;
    const RECOVERS: bool = B::Profile::RECOVERS;

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

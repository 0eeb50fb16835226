//! One exchange of a session, and how its result is judged.

use super::{Failed, JUDGED, Session};
use crate::card::link::{Answer, Link};
use crate::engine::{Completion, Error};
use crate::host::{Cause, Fault, Stage};
use crate::spec::response::{R1, Response};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

/// A command to the card as a future, from its submission to its end.
#[must_use = "nothing happens unless it is awaited"]
pub struct CardExchange<'s, L: Link> {
    pub(super) session: &'s mut Session<L>,
}

impl<L: Link> Future for CardExchange<'_, L> {
    type Output = Result<Response, Failed>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if L::BLOCKS {
            // The compiler sees that bring-up never waits here, and makes plain code of it.
            return Poll::Ready(self.session.answer.get());
        }
        self.session.look(context)
    }
}

impl<L: Link> Session<L> {
    /// Polls the exchange in progress, and judges its result.
    #[inline(never)]
    fn look(&mut self, context: &mut Context<'_>) -> Poll<Result<Response, Failed>> {
        let Some(op) = &mut self.op else { return Poll::Pending };
        let done = ready!(Pin::new(op).poll(context));
        Poll::Ready(self.judge(done))
    }

    #[inline(always)]
    pub(super) fn judge(&mut self, done: Completion) -> Result<Response, Failed> {
        if !L::BLOCKS {
            self.op = None;
        }
        let patient = core::mem::take(&mut self.patient);
        let silent = |fault: Fault| (fault.cause, fault.stage) == (Cause::Timeout, Stage::Command);
        self.heard |= self.asks && !matches!(done.result, Err(Error::Host(fault)) if silent(fault));
        if done.buf.len_bytes() > 0 {
            self.scratch = done.buf;
        }
        match done.result {
            // Errors that any R1 of the bring-up may show. Bit 7 is reserved on SD cards, so
            // `SWITCH_ERROR` is not in the mask.
            Ok(output) if self.judged && output.response.r1().0 & JUDGED != 0 => {
                let status = output.response.r1().0;
                let locked = status & R1::CARD_IS_LOCKED != 0;
                self.fail(if locked { Error::Locked } else { Error::Card(status) })
            }
            Ok(output) => {
                self.tuned = output.is_tuned();
                Ok(output.response)
            }
            Err(Error::Host(fault))
                if patient && fault.cause == Cause::Timeout && fault.stage != Stage::Command =>
            {
                self.late = true;
                Ok(Response::short(0))
            }
            Err(error) => self.fail(error),
        }
    }
}

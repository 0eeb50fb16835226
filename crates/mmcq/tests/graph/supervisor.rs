//! The real supervisor in the graph tests: it is polled when it was woken, may be slow, and may be
//! dropped. Where the run begins with a card without power, the real bring-up goes before it.

use crate::one_thread::NOW_NS;
use crate::run::{MS, Stack};
use mmcq::card::{self, Card, Event, Options};
use mmcq::engine::DmaBuf;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// The supervisor's waker, with a flag that is set when the waker was woken.
pub struct Flag {
    set: Arc<Woken>,
    waker: Waker,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

thread_local!(static FLAG: &'static Flag = Box::leak(Box::new(Flag::new())));

impl Flag {
    fn new() -> Flag {
        let set = Arc::new(Woken(AtomicBool::new(false)));
        Flag { waker: set.clone().into(), set }
    }

    /// Returns the flag of this thread.
    pub fn of_thread() -> &'static Flag {
        FLAG.with(|flag| *flag)
    }

    pub fn is_set(&self) -> bool {
        self.set.0.load(Relaxed)
    }

    pub fn clear(&self) {
        self.set.0.store(false, Relaxed);
    }

    pub fn raise(&self) {
        self.set.0.store(true, Relaxed);
    }
}

/// Pause between two calls of bring-up, in nanoseconds.
const PAUSE_NS: u64 = 1_000 * MS;
/// Largest number of calls of bring-up in a run.
const CALLS: usize = 5;

type Kept<'a> = Pin<Box<dyn Future<Output = (Event, DmaBuf)> + 'a>>;

pub struct Supervisor<'a> {
    stack: &'a Stack,
    options: Options,
    /// `None`: no card was brought up yet.
    card: Option<Card>,
    /// Whether the supervisor is called when a card was brought up.
    keeps: bool,
    /// Number of calls of bring-up that have found no card.
    pub refused: usize,
    future: Option<Kept<'a>>,
    scratch: Box<[u64; 64]>,
    /// Time before which the supervisor is not polled.
    pub ready_at: u64,
    /// Whether the supervisor has an exchange with the card under way.
    pub talks: bool,
    /// Whether it was chosen how the supervisor answers the present request for help.
    pub told: bool,
}

impl<'a> Supervisor<'a> {
    pub fn new(stack: &'a Stack, options: Options, card: Option<Card>, keeps: bool) -> Self {
        let scratch = Box::new([0; 64]);
        let (refused, ready_at, talks, told) = (0, 0, false, false);
        let future = None;
        let mut supervisor =
            Supervisor { stack, options, card, keeps, refused, future, scratch, ready_at, talks, told };
        supervisor.begin();
        supervisor
    }

    fn begin(&mut self) {
        let ptr = NonNull::from(&mut *self.scratch).cast();
        // SAFETY: one future at a time has it, and is dropped before the memory.
        let scratch = unsafe { DmaBuf::from_raw(ptr, 512) };
        let (stack, options) = (self.stack, self.options);
        self.future = match self.card {
            Some(card) if self.keeps => Some(Box::pin(card::supervise_emmc(stack, scratch, options, card))),
            Some(_) => None,
            None => Some(Box::pin(async move {
                let (card, scratch) = card::bring_up_emmc(stack, scratch, options).await;
                (Event::Inserted(card), scratch)
            })),
        };
    }

    /// Returns whether a card is being brought up, or will be.
    pub fn brings_up(&self) -> bool {
        self.card.is_none() && self.future.is_some()
    }

    pub fn is_gone(&self) -> bool {
        self.future.is_none()
    }

    /// Returns whether the supervisor has an exchange with the card under way, and is not polled at
    /// present.
    pub fn talks_idle(&self) -> bool {
        self.talks && self.ready_at != 0
    }

    /// Drops the supervisor's future, as when its task is cancelled.
    pub fn leave(&mut self) {
        self.future = None;
        self.talks = false;
    }

    /// Polls the supervisor one time. Returns the event that it reports, as text; `None` if it
    /// reports none. A bring-up that has found no card is called again while `is_there` says that a
    /// card is in the slot.
    pub fn poll(&mut self, flag: &'static Flag, is_there: bool) -> Option<String> {
        let future = self.future.as_mut()?;
        let mut context = Context::from_waker(&flag.waker);
        let Poll::Ready((event, _)) = future.as_mut().poll(&mut context) else { return None };
        let text = match event {
            Event::Removed => "event: removed".into(),
            Event::Inserted(Ok(card)) | Event::Changed(card) => {
                self.card = Some(card);
                "event: a card is there".into()
            }
            Event::Inserted(Err(error)) => format!("event: no card can be brought up, {error:?}"),
            Event::Exception { .. } => "event: exception".into(),
            Event::Dismissed => "event: dismissed".into(),
            other => format!("event: {other:?}"),
        };
        self.future = None;
        if self.card.is_none() {
            self.refused += 1;
            if self.refused < CALLS && is_there {
                self.begin();
                self.ready_at = NOW_NS.get() + PAUSE_NS;
                flag.raise();
            }
            return Some(text);
        }
        self.begin();
        if let Some(future) = self.future.as_mut() {
            let _ = future.as_mut().poll(&mut context);
        }
        Some(text)
    }
}

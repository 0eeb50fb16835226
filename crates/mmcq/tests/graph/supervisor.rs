//! The real supervisor in the graph tests: it is polled when it was woken, may be slow, and may be
//! dropped.

use crate::run::Stack;
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
}

type Kept<'a> = Pin<Box<dyn Future<Output = (Event, DmaBuf)> + 'a>>;

pub struct Supervisor<'a> {
    stack: &'a Stack,
    options: Options,
    card: Card,
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
    pub fn new(stack: &'a Stack, options: Options, card: Card, present: bool) -> Self {
        let scratch = Box::new([0; 64]);
        let (ready_at, talks, told) = (0, false, false);
        let mut supervisor =
            Supervisor { stack, options, card, future: None, scratch, ready_at, talks, told };
        if present {
            supervisor.begin();
        }
        supervisor
    }

    fn begin(&mut self) {
        let ptr = NonNull::from(&mut *self.scratch).cast();
        // SAFETY: one future at a time has it, and is dropped before the memory.
        let scratch = unsafe { DmaBuf::from_raw(ptr, 512) };
        self.future = Some(Box::pin(card::supervise_emmc(self.stack, scratch, self.options, self.card)));
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
    /// reports none.
    pub fn poll(&mut self, flag: &'static Flag) -> Option<String> {
        let future = self.future.as_mut()?;
        let mut context = Context::from_waker(&flag.waker);
        let Poll::Ready((event, _)) = future.as_mut().poll(&mut context) else { return None };
        let text = match event {
            Event::Removed => "event: removed".into(),
            Event::Inserted(Ok(card)) | Event::Changed(card) => {
                self.card = card;
                "event: a card is there".into()
            }
            Event::Inserted(Err(error)) => format!("event: no card can be brought up, {error:?}"),
            Event::Exception { .. } => "event: exception".into(),
            Event::Dismissed => "event: dismissed".into(),
            other => format!("event: {other:?}"),
        };
        self.future = None;
        self.begin();
        if let Some(future) = self.future.as_mut() {
            let _ = future.as_mut().poll(&mut context);
        }
        Some(text)
    }
}

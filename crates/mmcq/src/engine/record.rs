//! Record for diagnosis: counters, and the last steps of recovery.

use super::config::Count;
use super::recover::Trace;
use super::{Close, RecoveryEvent, Stats};

/// Counters and the last steps of recovery. The engine decides nothing by them, with one exception:
/// intervals between tunings and between damages are counted in transfers.
#[derive(Debug)]
pub(super) struct Record {
    stats: Stats,
    trace: Trace,
}

/// Macro that makes a method for each kind of event; the method adds 1 to the counter of that kind.
macro_rules! counted {
    ($($doc:literal $event:ident: $counter:ident;)*) => {
        impl Record {
            $(
                #[doc = $doc]
                #[inline(always)]
                pub fn $event(&mut self) {
                    self.stats.$counter = self.stats.$counter.wrapping_add(1);
                }
            )*
        }
    };
}

counted! {
    "A request was accepted." request_accepted: requests;
    "A data transfer for reads or writes goes out." transfer_started: transfers;
    "The driver has started a phase." phase_started: phases;
    "A phase has failed." phase_failed: faults;
    "An interrupt brought an event." interrupt_served: interrupts;
    "An interrupt brought nothing." interrupt_was_spurious: spurious;
    "A phase was over, and no interrupt had told it." interrupt_lost: lost_interrupts;
    "A busy card is asked." busy_polled: busy_polls;
    "Writes need a CMD13 of their own." status_asked: status_asked;
    "The driver cannot start a phase now." start_refused: start_retries;
    "A late error belongs to no write that waits." late_error_unowned: unowned;
    "Memory is given up." memory_leaked: leaked;
    "An open transfer goes on." transfer_continued: continued;
    "It should have gone on, and failed." not_continued: not_continued;
    "A command goes beside data." concurrent_started: concurrent;
    "Complete writes were lost with the cache." cache_lost: cache_lost;
    "A piece of an erase begins." erase_piece_begun: erase_pieces;
    "A durable write needs a flush of its own." durable_flushed: durable_flushes;
    "It is time for a tuning." tuning_asked: tunings;
    "Background work is done." background_work_done: background_works;
    "The card rests." rest_begun: rests;
}

impl Record {
    /// Makes an empty record. This is a function, because a constant (nearly all zeros) would be
    /// copied into the firmware image.
    pub const fn empty() -> Record {
        Record { stats: Stats::ZERO, trace: Trace::new() }
    }

    #[inline(always)]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the number of data transfers so far.
    #[inline(always)]
    pub fn transfers(&self) -> Count {
        self.stats.transfers
    }

    /// Counts requests that were sent in another request's transfer.
    #[inline(always)]
    pub fn merged(&mut self, requests: Count) {
        self.stats.merged = self.stats.merged.wrapping_add(requests);
    }

    /// Counts an open transfer that is closed, by reason.
    #[inline(always)]
    pub fn closed(&mut self, reason: Close) {
        if let Some(count) = self.stats.closed.get_mut(reason as usize) {
            *count = count.wrapping_add(1);
        }
    }

    /// Counts a step of recovery, and stores it in the trace.
    #[inline(always)]
    pub fn climbed(&mut self, event: RecoveryEvent) {
        if let Some(count) = self.stats.recovery_steps.get_mut(event.step as usize) {
            *count = count.wrapping_add(1);
        }
        self.trace.push(event);
    }

    /// Returns the last steps of recovery, oldest first.
    pub fn steps(&self) -> impl Iterator<Item = RecoveryEvent> + '_ {
        self.trace.iter()
    }
}

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
    "Counts an accepted request." request_accepted: requests;
    "Counts a started data transfer of reads or writes." transfer_started: transfers;
    "Counts a started phase." phase_started: phases;
    "Counts a failed phase." phase_failed: faults;
    "Counts an interrupt with an event." interrupt_served: interrupts;
    "Counts an interrupt without an event." interrupt_was_spurious: spurious;
    "Counts a phase whose end came without an interrupt." interrupt_lost: lost_interrupts;
    "Counts a poll of a busy card." busy_polled: busy_polls;
    "Counts a CMD13 that only completes writes." status_asked: status_asked;
    "Counts a start that the driver refused because its lines were in use." start_refused: start_retries;
    "Counts a late error that belongs to no waiting write." late_error_unowned: unowned;
    "Counts a buffer that is lost for ever." memory_leaked: leaked;
    "Counts a request that continued an open transfer." transfer_continued: continued;
    "Counts a failed continuation of an open transfer." not_continued: not_continued;
    "Counts a command that was sent during data." concurrent_started: concurrent;
    "Counts a loss of complete writes in the card's cache." cache_lost: cache_lost;
    "Counts a started piece of an erase." erase_piece_begun: erase_pieces;
    "Counts a flush that makes a durable write durable." durable_flushed: durable_flushes;
    "Counts a requested tuning." tuning_asked: tunings;
    "Counts background work that has ended well." background_work_done: background_works;
    "Counts a rest of the card that has begun." rest_begun: rests;
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

    /// Counts, by reason, that the engine closes a transfer which it had left open.
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

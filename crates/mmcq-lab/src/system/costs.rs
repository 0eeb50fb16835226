//! What the software around the stack costs.

use super::Io;
use mmcq_sim::cpu::Delay;

/// What the software around the stack costs. Each has a name, a unit and a source in the platform's
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Interrupt entry, and the handler up to "the transfer is over".
    pub irq_ns: u64,
    /// Ending a request in the handler.
    pub done_ns: u64,
    /// Starting a request on the controller.
    pub start_ns: u64,
    /// Starting a command without data (a status poll).
    pub poll_ns: u64,
    /// Taking a request out of the scheduler and finding out whether the driver admits it.
    pub dispatch_ns: u64,
    /// Building its commands and mapping its memory.
    pub prep_ns: u64,
    /// Completion in the soft interrupt.
    pub softirq_ns: u64,
    /// What is left of the system call when the job runs again (copying, decrypting); part of the
    /// I/O's latency.
    pub syscall: Delay,
    /// A job from the end of its system call to its next submission.
    pub user: Delay,
    /// The same for each I/O but the first of those that end together: they are completed, reaped
    /// and submitted one by one.
    pub each_ns: u64,
    /// From waking a job to the moment it runs.
    pub job_wake: Delay,
    /// From waking a kernel thread to the moment it runs.
    pub wake: Delay,
    /// From kicking the block layer's worker to the moment it runs.
    pub hop: Delay,
    /// How long a retry of a busy controller sleeps (at least; up to a quarter more).
    pub retry_ns: u64,
    /// What a host driver's work item does before its first round: clock, card selection, waking
    /// the chip.
    pub setup_ns: u64,
    /// After a CMD12 that the host driver sends to close an open transfer: its pause, and the flush
    /// of its buffer.
    pub close_ns: u64,
    /// A job's own work for each started 512 KiB of an I/O of more than 1 MiB, before it is handed
    /// over.
    pub pin_ns: u64,
    /// Waking a job takes longer if it has slept for long, because its core sleeps deeper.
    pub depth: SleepDepth,
}

/// Blocks of a part of an I/O that costs the job [`Costs::pin_ns`], and those that an I/O may have
/// for nothing.
const PIN_BLOCKS: u32 = 1024;
const PIN_FREE_BLOCKS: u32 = 2048;

impl Costs {
    /// What an I/O costs its job before it is handed over.
    pub(super) fn pin(&self, io: &Io) -> u64 {
        if io.blocks <= PIN_FREE_BLOCKS { 0 } else { self.pin_ns * u64::from(io.blocks.div_ceil(PIN_BLOCKS)) }
    }
}

/// What a core's idle states cost a thread that is woken there: nothing after a short sleep,
/// `extra_ns` after a long one, evenly more in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepDepth {
    /// Longest sleep that costs nothing.
    pub light_ns: u64,
    /// Shortest sleep that costs all.
    pub deep_ns: u64,
    /// What that is.
    pub extra_ns: u64,
}

impl SleepDepth {
    /// What waking costs more after so long a sleep.
    pub fn extra(&self, asleep_ns: u64) -> u64 {
        let span_ns = self.deep_ns.saturating_sub(self.light_ns).max(1);
        let into_ns = asleep_ns.saturating_sub(self.light_ns).min(span_ns);
        (u128::from(self.extra_ns) * u128::from(into_ns) / u128::from(span_ns)) as u64
    }
}

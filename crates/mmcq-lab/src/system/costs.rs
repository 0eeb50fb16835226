//! Costs of the software around the stack.

use super::Io;
use mmcq_sim::cpu::Delay;

/// Costs of the software around the stack. Each has a name, a unit and a source in the platform's
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Interrupt entry, and the handler until it knows that the transfer is over.
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
    /// Rest of the system call when the job runs again (copying, decrypting); part of the I/O's
    /// latency.
    pub syscall: Delay,
    /// Time of a job from the end of its system call to its next submission.
    pub user: Delay,
    /// Time of a job for each I/O after the first of those that end together: they are completed,
    /// reaped and submitted one by one.
    pub each_ns: u64,
    /// Time from waking a job until it runs.
    pub job_wake: Delay,
    /// Time from waking a kernel thread until it runs.
    pub wake: Delay,
    /// Time from waking the block layer's worker until it runs.
    pub hop: Delay,
    /// Least sleep before a busy controller is tried again (up to a quarter more).
    pub retry_ns: u64,
    /// Time of a host driver's work item before its first round: clock, card selection, waking the
    /// chip.
    pub setup_ns: u64,
    /// Time after a CMD12 that the host driver sends to close an open transfer: its pause, and the
    /// flush of its buffer.
    pub close_ns: u64,
    /// Time of a job before it submits an I/O of more than 1 MiB, for each started 512 KiB.
    pub pin_ns: u64,
    /// Extra time of waking a job that has slept for long, because its core is in a deeper idle
    /// state.
    pub depth: SleepDepth,
}

/// Blocks of a part of an I/O that costs the job [`Costs::pin_ns`], and the blocks up to which an
/// I/O costs nothing.
const PIN_BLOCKS: u32 = 1024;
const PIN_FREE_BLOCKS: u32 = 2048;

impl Costs {
    /// Returns the cost in ns of an I/O for its job before it is submitted.
    pub(super) fn pin(&self, io: &Io) -> u64 {
        if io.blocks <= PIN_FREE_BLOCKS { 0 } else { self.pin_ns * u64::from(io.blocks.div_ceil(PIN_BLOCKS)) }
    }
}

/// Extra time of waking a thread on a core in an idle state: nothing after a short sleep,
/// `extra_ns` after a long one, and proportionally between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepDepth {
    /// Longest sleep in ns without extra time.
    pub light_ns: u64,
    /// Shortest sleep in ns with the full extra time.
    pub deep_ns: u64,
    /// Full extra time in ns.
    pub extra_ns: u64,
}

impl SleepDepth {
    /// Returns the extra time in ns of waking after this sleep.
    pub fn extra(&self, asleep_ns: u64) -> u64 {
        let span_ns = self.deep_ns.saturating_sub(self.light_ns).max(1);
        let into_ns = asleep_ns.saturating_sub(self.light_ns).min(span_ns);
        (u128::from(self.extra_ns) * u128::from(into_ns) / u128::from(span_ns)) as u64
    }
}

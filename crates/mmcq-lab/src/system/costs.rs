//! CPU costs of the software around the stack.

use super::Io;
use mmcq_sim::cpu::Delay;

/// CPU costs of the software around the stack. In the board's file, each has a name, a unit and a
/// source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Time in ns of the interrupt entry, and of the handler until it knows that the transfer is
    /// over.
    pub irq_ns: u64,
    /// Time in ns for ending a request in the interrupt handler.
    pub done_ns: u64,
    /// Time in ns for starting a request on the controller.
    pub start_ns: u64,
    /// Time in ns for starting a command without data (a status poll).
    pub poll_ns: u64,
    /// Time in ns for taking a request out of the scheduler and checking whether the driver admits
    /// it.
    pub dispatch_ns: u64,
    /// Time in ns for building the commands of a request and mapping its memory.
    pub prep_ns: u64,
    /// Time in ns for completing a request in the soft interrupt.
    pub softirq_ns: u64,
    /// Remaining part of the system call after the job was woken (copying, decrypting); part of the
    /// I/O's latency.
    pub syscall: Delay,
    /// Time of a job from the end of its system call to its next submission.
    pub user: Delay,
    /// Time in ns that a job needs for each I/O after the first if several end together, since they
    /// are completed, reaped and submitted one by one.
    pub each_ns: u64,
    /// Time from waking a job until it runs.
    pub job_wake: Delay,
    /// Time from waking a kernel thread until it runs.
    pub wake: Delay,
    /// Time from waking the block layer's worker until it runs.
    pub hop: Delay,
    /// Shortest time in ns before a busy controller is tried again; up to a quarter is added.
    pub retry_ns: u64,
    /// Time in ns of a host driver's work item before its first round: clock, card selection,
    /// waking the chip.
    pub setup_ns: u64,
    /// Time in ns after a CMD12 that closes an open transfer: the host driver's pause, and the
    /// flush of its buffer.
    pub close_ns: u64,
    /// Time in ns that a job needs before it submits an I/O of more than 1 MiB, for each started
    /// 512 KiB.
    pub pin_ns: u64,
    /// Extra time of waking a job that has slept for long, since its core is then in a deeper idle
    /// state.
    pub depth: SleepDepth,
}

/// Number of blocks of an I/O for which a job needs [`Costs::pin_ns`].
const PIN_BLOCKS: u32 = 1024;
/// Largest number of blocks of an I/O for which a job does not need [`Costs::pin_ns`].
const PIN_FREE_BLOCKS: u32 = 2048;

impl Costs {
    /// Returns the cost in ns of an I/O for its job before it is submitted.
    pub(super) fn pin(&self, io: &Io) -> u64 {
        if io.blocks <= PIN_FREE_BLOCKS { 0 } else { self.pin_ns * u64::from(io.blocks.div_ceil(PIN_BLOCKS)) }
    }
}

/// Extra time of waking a thread on an idle core: nothing after a short sleep, `extra_ns` after a
/// long one, and in proportion between.
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

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
    /// Time in ns that the interrupt handler needs to end a request.
    pub done_ns: u64,
    /// Time in ns that the driver needs to start a request on the controller.
    pub start_ns: u64,
    /// Time in ns that the driver needs to start a command without data, such as a status poll.
    pub poll_ns: u64,
    /// Time in ns that the worker needs to take a request out of the scheduler, and to check
    /// whether the driver admits it.
    pub dispatch_ns: u64,
    /// Time in ns that the driver needs to build the commands of a request and to map its memory.
    pub prep_ns: u64,
    /// Time in ns that the soft interrupt needs to complete a request.
    pub softirq_ns: u64,
    /// Time that a job's system call needs after the job was woken (copying, decrypting); part of
    /// the I/O's latency.
    pub syscall: Delay,
    /// Time of a job from the end of its system call to its next submission.
    pub user: Delay,
    /// Time in ns that a job needs for each further I/O if several of its I/Os end together. The
    /// job takes and submits them one by one.
    pub each_ns: u64,
    /// Time from the wake-up of a job's thread until the thread runs.
    pub job_wake: Delay,
    /// Time from the wake-up of a kernel thread until the thread runs.
    pub wake: Delay,
    /// Time from queuing work for the block layer's worker until the worker runs.
    pub hop: Delay,
    /// Shortest time in ns before the driver tries a busy controller again; a random part of up to
    /// a quarter is added.
    pub retry_ns: u64,
    /// Time in ns that a host driver's work item needs before its first round: it starts the clock,
    /// selects the card and wakes the chip.
    pub setup_ns: u64,
    /// Time in ns after a CMD12 that closes an open transfer: the host driver's pause, and the
    /// flush of the controller's buffer.
    pub close_ns: u64,
    /// Time in ns that a job needs to pin the memory of an I/O of more than 1 MiB before it submits
    /// it, for each started 512 KiB.
    pub pin_ns: u64,
    /// Extra time to wake a job that has slept for long, since its core is then in a deeper idle
    /// state.
    pub depth: SleepDepth,
}

/// Number of blocks of an I/O for each of which, also if it is only begun, a job needs
/// [`Costs::pin_ns`].
const PIN_BLOCKS: u32 = 1024;
/// Largest number of blocks of an I/O for which a job does not need [`Costs::pin_ns`].
const PIN_FREE_BLOCKS: u32 = 2048;

impl Costs {
    /// Returns the CPU time in ns that a job needs to pin the memory of this I/O before it submits
    /// it; 0 for an I/O of at most 1 MiB.
    pub(super) fn pin(&self, io: &Io) -> u64 {
        if io.blocks <= PIN_FREE_BLOCKS { 0 } else { self.pin_ns * u64::from(io.blocks.div_ceil(PIN_BLOCKS)) }
    }
}

/// Extra time to wake a thread on an idle core: nothing after a short sleep, `extra_ns` after a
/// long one, and in proportion to the sleep between these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SleepDepth {
    /// Longest sleep in ns of a thread after which waking it takes no extra time.
    pub light_ns: u64,
    /// Shortest sleep in ns of a thread after which waking it takes the full extra time.
    pub deep_ns: u64,
    /// Extra time in ns of a wake-up after a sleep of at least `deep_ns`.
    pub extra_ns: u64,
}

impl SleepDepth {
    /// Returns the extra time in ns to wake a thread that has slept for `asleep_ns`.
    pub fn extra(&self, asleep_ns: u64) -> u64 {
        let span_ns = self.deep_ns.saturating_sub(self.light_ns).max(1);
        let into_ns = asleep_ns.saturating_sub(self.light_ns).min(span_ns);
        (u128::from(self.extra_ns) * u128::from(into_ns) / u128::from(span_ns)) as u64
    }
}

//! Interface of a load: the jobs of a machine and their I/Os.

use super::How;
use mmcq::host::Direction;

/// An I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Number of the job that the I/O belongs to.
    pub job: u32,
    /// Core on which the I/O was submitted.
    pub core: u8,
    /// Direction of the I/O's data.
    pub direction: Direction,
    /// Kind of the I/O: plain, durable, a discard, or of a boot area.
    pub how: How,
    /// Address on the card of the first block, in units of 512 bytes.
    pub lba: u64,
    /// Whether a job waits for this I/O: a read, or a write that bypasses the page cache.
    pub sync: bool,
    /// Number of 512-byte blocks; 0: the I/O is a flush.
    pub blocks: u32,
    /// Number of the buffer with the I/O's data, in [`super::System::buffers`].
    pub buffer: u32,
    /// Number of 512-byte blocks in the buffer before this I/O's data; not 0 if the I/O is a later
    /// piece of a larger I/O that was split.
    pub skip: u32,
}

impl Io {
    /// Returns the length of the I/O's data in bytes.
    pub fn bytes(&self) -> usize {
        if self.how == How::Discard { 0 } else { self.blocks as usize * 512 }
    }

    /// Returns the byte range of the I/O's data in its buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.skip as usize * 512;
        start..start + self.bytes()
    }
}

/// Next action of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The job submits this I/O. ([`Io::core`] and [`Io::buffer`] are filled in by the machine.)
    Io(Io),
    /// The job waits until one of its I/Os ends.
    Wait,
    /// The job waits until this time in ns, or until one of its I/Os ends.
    Until(u64),
    /// The job has finished.
    Finished,
}

/// A load: returns the I/Os of its jobs, and is told when they are done.
pub trait Workload {
    /// Returns the number of jobs at the start; each is a thread.
    fn jobs(&self) -> u32;

    /// Returns the largest number of jobs that there may be during the run.
    fn jobs_max(&self) -> u32 {
        self.jobs()
    }

    /// Returns the numbers of jobs that have arrived since the last call. `wait`: all jobs so far
    /// have finished, so the load must wait for more; an empty result then ends the run.
    fn arrived(&mut self, wait: bool) -> Vec<u32> {
        let _ = wait;
        Vec::new()
    }

    /// Returns whether the run must end now, even with I/Os under way.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the largest number of I/Os that all jobs together have under way, and the size of
    /// the largest I/O in bytes.
    fn memory(&self) -> (usize, usize);

    /// Returns what the job with the number `job` does next: submit an I/O, wait, or end.
    fn next(&mut self, job: u32, now_ns: u64) -> Next;

    /// Returns whether the job waits until other jobs finish.
    fn waits_for_others(&self, job: u32) -> bool {
        let _ = job;
        false
    }

    /// Fills `data`, the buffer of a write that is about to be submitted.
    fn fill(&mut self, io: &Io, data: &mut [u8]) {
        let _ = (io, data);
    }

    /// Called when an I/O enters the stack at its submission (`_into_stack` is true), and when it
    /// leaves the stack at its completion, before its job wakes up.
    fn passes(&mut self, _into_stack: bool, _now_ns: u64) {}

    /// Called when an I/O of a job is done; `ok` is false if it failed, `data` is its buffer.
    fn done(&mut self, io: &Io, ok: bool, data: &[u8], now_ns: u64);
}

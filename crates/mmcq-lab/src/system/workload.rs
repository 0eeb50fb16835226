//! Source of I/Os: the jobs of a machine.

use super::How;
use mmcq::host::Direction;

/// One I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Number of the job.
    pub job: u32,
    /// Core on which it was submitted.
    pub core: u8,
    /// Direction.
    pub direction: Direction,
    /// Kind of transfer.
    pub how: How,
    /// First block of 512 bytes.
    pub lba: u64,
    /// Whether a job waits for it: a read, or a write that bypasses the page cache.
    pub sync: bool,
    /// Number of blocks; 0 is a flush.
    pub blocks: u32,
    /// Number of its data's buffer in [`super::System::buffers`].
    pub buffer: u32,
    /// Blocks before its own in that buffer, if it is a piece of an I/O.
    pub skip: u32,
}

impl Io {
    /// Returns the length of its data in bytes.
    pub fn bytes(&self) -> usize {
        if self.how == How::Discard { 0 } else { self.blocks as usize * 512 }
    }

    /// Returns the range of its data in its buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.skip as usize * 512;
        start..start + self.bytes()
    }
}

/// Next action of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another I/O ([`Io::core`] and [`Io::buffer`] are filled in by the machine).
    Io(Io),
    /// The job waits for an I/O.
    Wait,
    /// The job waits until this time, or for an I/O.
    Until(u64),
    /// The job has finished.
    Finished,
}

/// A load: returns I/Os, and is told when they are done.
pub trait Workload {
    /// Returns the number of jobs, each a thread.
    fn jobs(&self) -> u32;

    /// Returns the number of jobs that there may be in the end.
    fn jobs_max(&self) -> u32 {
        self.jobs()
    }

    /// Returns the jobs that have come since the last call, each only once while it runs. `wait`:
    /// all jobs so far have finished, so the next are waited for. If there are none, the run is
    /// over.
    fn arrived(&mut self, wait: bool) -> Vec<u32> {
        let _ = wait;
        Vec::new()
    }

    /// Returns whether the run ends here, whatever is under way.
    fn is_over(&self) -> bool {
        false
    }

    /// Returns the most I/Os that all jobs together have under way, and the largest of them in
    /// bytes.
    fn memory(&self) -> (usize, usize);

    /// Returns the next action of a job.
    fn next(&mut self, job: u32, now_ns: u64) -> Next;

    /// Returns whether the job waits for others to finish.
    fn waits_for_others(&self, job: u32) -> bool {
        let _ = job;
        false
    }

    /// Fills the memory of a write that is about to be submitted.
    fn fill(&mut self, io: &Io, data: &mut [u8]) {
        let _ = (io, data);
    }

    /// Called when a job submits an I/O to the stack, or when the I/O is complete and its job must
    /// still wake up.
    fn passes(&mut self, _into_stack: bool, _now_ns: u64) {}

    /// Called when an I/O of a job is done, with success or not; `data` is its memory.
    fn done(&mut self, io: &Io, ok: bool, data: &[u8], now_ns: u64);
}

//! Where I/Os come from: the jobs of a machine.

use super::How;
use mmcq::host::Direction;

/// One I/O of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Whose.
    pub job: u32,
    /// Which core it was submitted on.
    pub core: u8,
    /// Which way.
    pub direction: Direction,
    /// How.
    pub how: How,
    /// First block of 512 bytes.
    pub lba: u64,
    /// A job waits for it: a read, or a write past the page cache.
    pub sync: bool,
    /// How many blocks; 0 is a flush.
    pub blocks: u32,
    /// Where its data are, in [`super::System::buffers`].
    pub buffer: u32,
    /// Blocks before its own in there, if it is a piece of an I/O.
    pub skip: u32,
}

impl Io {
    /// The length of its data.
    pub fn bytes(&self) -> usize {
        if self.how == How::Discard { 0 } else { self.blocks as usize * 512 }
    }

    /// Where its data are inside of its buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.skip as usize * 512;
        start..start + self.bytes()
    }
}

/// What a job does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another I/O ([`Io::core`] and [`Io::buffer`] are filled in by the machine).
    Io(Io),
    /// It waits for an I/O.
    Wait,
    /// It waits until this time, or for an I/O.
    Until(u64),
    /// It has finished.
    Finished,
}

/// Where I/Os come from, and what is told that they are done.
pub trait Workload {
    /// How many jobs, each a thread.
    fn jobs(&self) -> u32;

    /// How many there may be in the end.
    fn jobs_max(&self) -> u32 {
        self.jobs()
    }

    /// Jobs that have come since the last call, each only once while it runs. `wait`: all that there
    /// were have finished, so the next are waited for; none, and the run is over.
    fn arrived(&mut self, wait: bool) -> Vec<u32> {
        let _ = wait;
        Vec::new()
    }

    /// The run ends here, whatever is under way.
    fn is_over(&self) -> bool {
        false
    }

    /// Most I/Os that all jobs together have under way, and the largest of them in bytes.
    fn memory(&self) -> (usize, usize);

    /// The next I/O of a job.
    fn next(&mut self, job: u32, now_ns: u64) -> Next;

    /// Does the job wait for others to finish?
    fn waits_for_others(&self, job: u32) -> bool {
        let _ = job;
        false
    }

    /// Fills the memory of a write that is about to be submitted.
    fn fill(&mut self, io: &Io, data: &mut [u8]) {
        let _ = (io, data);
    }

    /// A job hands an I/O to the stack; or it is complete, and its job has still to wake up.
    fn passes(&mut self, _into_stack: bool, _now_ns: u64) {}

    /// An I/O of a job is done, well or not; `data` is its memory.
    fn done(&mut self, io: &Io, ok: bool, data: &[u8], now_ns: u64);
}

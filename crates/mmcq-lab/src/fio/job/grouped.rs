//! How many transfers a job has under way, and how many it submits and collects together.

use super::Job;

impl Job {
    /// Returns how many transfers the job may have in flight at a time: `iodepth`, or 1 with an I/O
    /// engine that blocks (unless separate threads submit the transfers).
    pub fn depth(&self) -> u32 {
        if self.ioengine.blocks() && !self.offload { 1 } else { self.iodepth }
    }

    /// Returns whether the job submits or collects several transfers in one call. False with fio's
    /// defaults, and with an I/O engine that blocks: each transfer then has its own calls.
    pub fn is_grouped(&self) -> bool {
        let most = self.iodepth_batch.max(self.iodepth_batch_complete_min);
        !self.ioengine.blocks() && !self.offload && most.max(self.iodepth_batch_complete_max) > 1
    }

    /// Returns the number of queued transfers that the job submits together; as in fio at most
    /// `iodepth`.
    pub fn submits(&self) -> u32 {
        self.iodepth_batch.clamp(1, self.depth().max(1))
    }

    /// Returns the smallest number of completions that the job collects in one call while
    /// `outstanding` transfers are under way.
    pub fn collects(&self, outstanding: u32) -> u32 {
        self.iodepth_batch_complete_min.min(outstanding).max(1)
    }
}

//! How many transfers a job has under way, how many it submits and collects together, and whether
//! it flushes and verifies them.

use super::{IoEngine, Job, Verify};
use crate::fio::error::Note;

impl Job {
    /// Returns how many transfers the job may have in flight at a time: `iodepth`, or 1 with an I/O
    /// engine that blocks (unless separate threads submit the transfers). As in fio, the engine
    /// `null` takes further transfers only when it has ended those that were submitted together.
    pub fn depth(&self) -> u32 {
        match self.ioengine {
            _ if self.offload => self.iodepth,
            IoEngine::Null => self.iodepth_batch.clamp(1, self.iodepth.max(1)),
            engine if engine.blocks() => 1,
            _ => self.iodepth,
        }
    }

    /// Returns whether the job itself collects completions, by calls of its own: with an I/O engine
    /// that does not block, unless separate threads submit the transfers. As in fio, the engine
    /// `null` blocks if `iodepth` is 1.
    pub fn is_collecting(&self) -> bool {
        let blocks = self.ioengine.blocks() || self.ioengine == IoEngine::Null && self.iodepth == 1;
        !blocks && !self.offload
    }

    /// Returns whether the job submits or collects several transfers in one call. False with fio's
    /// defaults, and with an I/O engine that blocks: each transfer then has its own calls.
    pub fn is_grouped(&self) -> bool {
        let most = self.iodepth_batch.max(self.iodepth_batch_complete_min);
        self.is_collecting() && most.max(self.iodepth_batch_complete_max) > 1
    }

    /// Returns whether the job flushes its files at the end of each pass in which it wrote.
    pub fn flushes_at_end(&self) -> bool {
        self.rw.write && (self.end_fsync || self.fsync_on_close)
    }

    /// Returns whether the job asks for any flush, or for durable writes.
    pub fn asks_for_flushes(&self) -> bool {
        self.fsync > 0 || self.fdatasync > 0 || self.end_fsync || self.fsync_on_close || self.sync
    }

    /// Returns whether the job reads back what it writes, to verify it. As in fio, a job with
    /// `time_based` does so after each round over its files only if it collects completions;
    /// otherwise its writes take the whole run time.
    pub fn reads_back(&self) -> bool {
        let in_time = !self.time_based || self.is_collecting() || self.verify_backlog > 0;
        self.verify != Verify::Off && self.do_verify && in_time
    }

    /// Returns the number of queued transfers that the job submits together; as in fio at most
    /// `iodepth`.
    pub fn submits(&self) -> u32 {
        self.iodepth_batch.clamp(1, self.depth().max(1))
    }

    /// Returns the smallest number of completions that the job collects in one call while
    /// `outstanding` transfers are under way. The engine `null` returns all.
    pub fn collects(&self, outstanding: u32) -> u32 {
        let is_null = self.ioengine == IoEngine::Null;
        let least = if is_null { outstanding } else { self.iodepth_batch_complete_min };
        least.min(outstanding).max(1)
    }

    /// Returns a note if the job asks to verify and its writes take the whole run time; otherwise
    /// `None`.
    pub(super) fn never_read_back(&self) -> Option<Note> {
        let is_asked = self.verify != Verify::Off && self.do_verify && self.rw.write;
        (is_asked && !self.reads_back()).then(|| Note {
            place: self.place.clone(),
            option: "verify".to_owned(),
            reason:
                "with time_based and an I/O engine that blocks, the writes take the whole runtime, as in fio"
                    .to_owned(),
        })
    }
}

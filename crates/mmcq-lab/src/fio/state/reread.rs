//! Verify phase (`verify=`): after a pass, or during it with `verify_backlog=`, reads the written
//! data again and compares them.

use super::{Io, JobState, Next, Phase, Seeds, Stamp, Taus88};
use crate::fio::job::Verify;
use crate::fio::verify;

impl JobState {
    pub(super) fn begin_verify(&mut self, now_ns: u64) {
        if self.job.verify != Verify::Off
            && self.job.do_verify
            && self.job.rw.write
            && !self.written.is_empty()
        {
            self.phase_start_ns = now_ns;
            self.offsets.reopen();
            self.phase = Phase::Verify;
        } else {
            self.written.clear();
            // The phase must not be `Waiting`, by which `begin_pass` recognises a first pass.
            self.phase = Phase::Draining;
            self.begin_pass(now_ns);
        }
    }

    pub(super) fn next_of_verify(&mut self, now_ns: u64) -> Option<Next> {
        if self.outstanding > 0 && !self.update_filling() {
            return Some(Next::AfterCompletion);
        }
        if !self.stop
            && !self.timed_out(now_ns)
            && let Some(next) = self.flows(now_ns)
        {
            return Some(next);
        }
        let next = match self.rest.pop_front() {
            Some(io) if !self.stop => Some(io),
            _ if self.stop || self.timed_out(now_ns) => None,
            _ => self.written.pop(),
        };
        match next {
            Some(io) => Some(self.issue(io)),
            None if self.outstanding > 0 => Some(Next::AfterCompletion),
            None => None,
        }
    }

    /// Returns the worker's next action for `verify_backlog=`: after a number of writes, the worker
    /// waits until they are complete and reads them back. `None`: there is nothing to read back
    /// now.
    pub(super) fn next_of_backlog(&mut self) -> Option<Next> {
        let every = self.job.verify_backlog;
        if every == 0 || self.written.is_empty() {
            self.backlog = 0;
            return None;
        }
        if self.backlog == 0 {
            if self.last_read || !self.written.len().is_multiple_of(every as usize) {
                return None;
            }
            self.backlog =
                if self.job.verify_backlog_batch == 0 { every } else { self.job.verify_backlog_batch };
        }
        if self.outstanding_writes > 0 {
            return Some(Next::AfterCompletion);
        }
        let io = self.written.pop()?;
        self.backlog -= 1;
        self.pass_issued_bytes += io.bytes;
        Some(self.issue(io))
    }

    pub(super) fn verify_seeds(&self) -> Taus88 {
        Taus88::new(Seeds::of(&self.job, self.thread, 0).verify)
    }

    pub(super) fn stamp(&mut self) -> Stamp {
        let seed = u64::from(self.seeds.next_u32()).wrapping_mul(u64::from(self.seeds.next_u32()));
        let number = (self.write_number & 0xffff) as u16;
        self.write_number += 1;
        Stamp { seed, number, thread: (self.thread & 0xffff) as u16 }
    }

    /// Fills `buffer` with the content of a write; `now_ns` is the time in verification headers.
    pub fn fill(&self, io: &Io, now_ns: u64, buffer: &mut [u8]) {
        if let Some(stamp) = &io.stamp {
            verify::fill(&self.job, stamp, io.offset, now_ns, buffer);
        }
    }
}

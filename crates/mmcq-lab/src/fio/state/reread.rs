//! Verify phase (`verify=`): after a pass, reads the written data again and compares them.

use super::{JobState, Next, Phase};
use crate::fio::job::Verify;

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
}

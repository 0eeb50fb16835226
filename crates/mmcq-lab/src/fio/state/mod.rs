//! A running worker, without a clock and without I/O. The runner asks for the next action, executes
//! it in its own time, and reports when it was complete.
//!
//! ```text
//! let mut state = JobState::new(&worker, &file_bytes, run_seed)?;
//! loop {
//!     match state.next(now) {
//!         Next::Io(io) => { if io.dir == Dir::Write { state.fill(&io, now, &mut buffer) }; /* submit */ }
//!         Next::Sync(sync) => { /* flush */ }
//!         Next::Wait(until_ns) => { /* call again then, or after a completion */ }
//!         Next::AfterCompletion => { /* call again after a completion */ }
//!         Next::Done => break,
//!     }
//!     // at each completion: state.complete(io, times, result, data) or state.complete_sync(..)
//! }
//! let stats = state.finish(now, cpu);
//! ```
//! The times in successive calls never decrease. At most [`crate::fio::Job::depth`] transfers and
//! flushes are outstanding.

mod complete;
mod grouped;
mod pace;
mod played;
mod reread;
mod written;

use super::error::ParseError;
use super::job::{Dir, Distribution, Job, Size, Verify, Worker};
use super::logs::Logs;
use super::offsets::{Extent, Offsets, Place, Seeds, Step, Taus88, extent};
use super::stats::{Cpu, Stats, Windows};
use super::verify::{Stamp, VerifyError};
pub use crate::fio::script::How;
use grouped::Groups;
use pace::{Flow, Held, Poisson, Think};
use played::Player;
use std::collections::VecDeque;
use std::sync::Arc;
use written::Written;

/// One transfer (an I/O) that the worker wants to do next. The caller does it, and passes this
/// value back to [`JobState::complete`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Direction of the transfer's data.
    pub dir: Dir,
    /// Way in which the stack does the transfer.
    pub how: How,
    /// Index of the file among the worker's files.
    pub file: usize,
    /// Offset in bytes in the file of the transfer's first byte.
    pub offset: u64,
    /// Length of the transfer in bytes.
    pub bytes: u64,
    /// Identity of a write's content, which a read of the verify phase must find again; `None` for
    /// other reads, and for the requests of a script.
    pub stamp: Option<Stamp>,
    /// Whether the data of a read must be passed to [`JobState::complete`], where they are checked.
    pub check: bool,
    /// Index of the request in the worker's script; 0 without a script.
    pub entry: u32,
}

/// A flush for the caller to do. The caller passes it back to [`JobState::complete_sync`]. As in
/// fio, transfers that were submitted earlier may be under way meanwhile: the flush covers only
/// completed transfers. The worker submits nothing until the flush ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Index among the worker's files of the file to flush.
    pub file: usize,
    /// Whether the flush is that of `fdatasync`, which leaves out the file's own metadata.
    pub data_only: bool,
    /// Index of the request in the worker's script; 0 without a script.
    pub entry: u32,
}

/// Next action of a worker, which the caller must execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The caller must do this transfer now.
    Io(Io),
    /// The caller must do this flush now.
    Sync(Sync),
    /// The caller must ask again at this time in ns, or after a completion.
    Wait(u64),
    /// The caller must ask again after the next completion.
    AfterCompletion,
    /// The worker has finished, and nothing is outstanding.
    Done,
}

/// Times of a transfer or flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time in ns at which the worker began to submit the transfer or flush.
    pub start_ns: u64,
    /// Time in ns at which the submission returned. With an I/O engine that blocks, the time at
    /// which the call began to wait.
    pub issue_ns: u64,
    /// Time in ns at which the worker saw the completion.
    pub complete_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The worker's start delay (`startdelay=`) is not over.
    Waiting,
    /// The worker issues the transfers of a pass, which is one of its `loops=`.
    Pass,
    /// All transfers of the pass are issued, and the worker waits until outstanding ones complete.
    Draining,
    /// The worker flushes its files for `end_fsync`; the field is the index of the next file to
    /// flush.
    EndSync(usize),
    /// The worker reads the written data back.
    Verify,
    Done,
}

/// State of a running worker.
#[derive(Debug)]
pub struct JobState {
    job: Arc<Job>,
    thread: u32,
    extent: Extent,
    offsets: Offsets,
    seeds: Taus88,
    poisson: Poisson,
    /// Number of reads that the present round of `verify_backlog=` still has to do.
    backlog: u32,
    last_read: bool,
    phase: Phase,
    outstanding: u32,
    outstanding_writes: u32,
    /// Whether the worker waits for the end of a flush.
    flushing: bool,
    filling: bool,
    started_ns: u64,
    begin_ns: Option<u64>,
    ramping: bool,
    phase_start_ns: u64,
    /// Bytes that the worker has transferred in the present part of the run (the passes over its
    /// files, or the verification): reads, writes, discards.
    phase_bytes: [u64; 3],
    last_ns: u64,
    loops_left: u32,
    issued_bytes: [u64; 2],
    pass_issued_bytes: u64,
    pass_issued: u64,
    issued: u64,
    done_bytes: u64,
    write_number: u64,
    held: Option<Held>,
    rest: VecDeque<Io>,
    think: Think,
    flow: Flow,
    paced_from_ns: u64,
    paced_bytes: [u64; 2],
    written: Written,
    verify_errors: Vec<VerifyError>,
    stop: bool,
    stats: Stats,
    windows: [(Windows, Windows); 2],
    logs: Option<Logs>,
    player: Option<Player>,
    groups: Groups,
}

/// Largest number of verify errors that are stored; later ones are only counted.
pub const VERIFY_ERRORS_KEPT: usize = 100;

impl JobState {
    /// Makes the state of a worker over files of these sizes. `run_seed` is used where fio would
    /// use the system's randomness.
    pub fn new(worker: &Worker, file_bytes: &[u64], run_seed: u64) -> Result<Self, ParseError> {
        let job = Arc::clone(&worker.job);
        let seeds = Seeds::of(&job, worker.thread_number, run_seed);
        let extent = extent(&job, worker.subjob, file_bytes, seeds.file_size)?;
        let capacity = file_bytes.first().copied().unwrap_or(0);
        let player = worker
            .script
            .as_ref()
            .map(|script| script.fit(capacity).map(|()| Player::new(script.clone(), capacity)));
        let player = player.transpose()?;
        Ok(JobState {
            offsets: Offsets::new(&job, &extent.regions, seeds),
            seeds: Taus88::new(seeds.verify),
            poisson: Poisson::new(seeds.poisson),
            backlog: 0,
            last_read: false,
            thread: worker.thread_number,
            extent,
            phase: Phase::Waiting,
            outstanding: 0,
            outstanding_writes: 0,
            flushing: false,
            filling: true,
            started_ns: 0,
            begin_ns: None,
            ramping: job.ramp_time_ns > 0,
            phase_start_ns: 0,
            phase_bytes: [0; 3],
            last_ns: 0,
            loops_left: job.loops,
            issued_bytes: [0; 2],
            pass_issued_bytes: 0,
            pass_issued: 0,
            issued: 0,
            done_bytes: 0,
            write_number: 0,
            held: None,
            rest: VecDeque::new(),
            think: Think::default(),
            flow: Flow::default(),
            paced_from_ns: 0,
            paced_bytes: [0; 2],
            written: Written::new(job.has_map()),
            verify_errors: Vec::new(),
            stop: false,
            stats: Stats::default(),
            windows: [0, 1].map(|_| (Windows::new(0, job.bwavgtime_ms), Windows::new(0, job.iopsavgtime_ms))),
            logs: Logs::wanted(&job).then(|| Logs::new(&job)),
            player,
            groups: Groups::default(),
            job,
        })
    }

    /// Returns the worker's job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// Returns the number of bytes that the worker will transfer without its verify phase, for a
    /// progress bar.
    pub fn planned_bytes(&self) -> u64 {
        if let Some(player) = &self.player {
            return player.planned_bytes();
        }
        let passes = u64::from(self.job.loops).saturating_mul(self.extent.pass_bytes);
        passes.max(self.extent.limit_bytes).min(self.extent.limit_bytes.saturating_mul(self.job.loops.into()))
    }

    /// Returns the number of bytes that the worker has transferred so far.
    pub fn moved_bytes(&self) -> u64 {
        self.done_bytes
    }

    /// Returns what the caller has to do next; `now_ns` is the present time.
    pub fn next(&mut self, now_ns: u64) -> Next {
        if self.has_groups() { self.next_of_groups(now_ns) } else { self.step(now_ns) }
    }

    fn step(&mut self, now_ns: u64) -> Next {
        let begin_ns = match self.begin_ns {
            Some(at) => at,
            None => self.begin(now_ns),
        };
        self.tick(now_ns);
        if self.flushing {
            return Next::AfterCompletion;
        }
        // Each turn changes the phase or returns. A pass that issues nothing ends the worker, so
        // the loop ends.
        loop {
            match self.phase {
                Phase::Waiting if now_ns < begin_ns => return Next::Wait(begin_ns),
                Phase::Waiting => self.begin_pass(now_ns),
                Phase::Done if self.outstanding > 0 => return Next::AfterCompletion,
                Phase::Done => return Next::Done,
                Phase::Pass => {
                    if let Some(next) = self.next_of_pass(now_ns) {
                        return next;
                    }
                    self.phase = Phase::Draining;
                }
                Phase::Draining if self.outstanding > 0 => return Next::AfterCompletion,
                Phase::Draining if !self.rest.is_empty() && !self.stop => self.phase = Phase::Pass,
                Phase::Draining => self.after_pass(),
                Phase::EndSync(_) if self.outstanding > 0 => return Next::AfterCompletion,
                Phase::EndSync(file) if file < self.extent.regions.len() => {
                    self.phase = Phase::EndSync(file + 1);
                    self.outstanding += 1;
                    return Next::Sync(Sync { file, data_only: false, entry: 0 });
                }
                Phase::EndSync(_) => self.begin_verify(now_ns),
                Phase::Verify => {
                    if let Some(next) = self.next_of_verify(now_ns) {
                        return next;
                    }
                    self.end_phase(now_ns);
                    self.begin_pass(now_ns);
                }
            }
        }
    }

    fn begin(&mut self, now_ns: u64) -> u64 {
        let begin_ns = now_ns.saturating_add(self.job.startdelay_ns);
        self.begin_ns = Some(begin_ns);
        self.set_start(begin_ns);
        begin_ns
    }

    /// Lets all measurements of the worker start at this time.
    fn set_start(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
        self.last_ns = at_ns;
        self.phase_start_ns = at_ns;
        self.paced_from_ns = at_ns;
        self.paced_bytes = [0; 2];
        let job = &self.job;
        self.windows =
            [0, 1].map(|_| (Windows::new(at_ns, job.bwavgtime_ms), Windows::new(at_ns, job.iopsavgtime_ms)));
    }

    /// Ends the ramp time if it is over at this time. Closes those time windows of the rates that
    /// have ended.
    fn tick(&mut self, now_ns: u64) {
        if self.ramping {
            let end_ns = self.begin_ns.unwrap_or(now_ns).saturating_add(self.job.ramp_time_ns);
            if now_ns < end_ns {
                return;
            }
            self.ramping = false;
            self.stats = Stats { error: self.stats.error.take(), ..Stats::default() };
            // As in fio, `number_ios` counts what ends after the ramp time.
            self.issued = self.outstanding.into();
            self.phase_bytes = [0; 3];
            self.set_start(end_ns);
            self.logs = Logs::wanted(&self.job).then(|| Logs::new(&self.job));
        }
        for (dir, (bw, iops)) in Dir::ALL.into_iter().zip(&mut self.windows) {
            let stats = &mut self.stats.dirs[dir.index()];
            bw.advance(now_ns, 1024, &mut stats.bw_kib);
            iops.advance(now_ns, 1, &mut stats.iops);
        }
    }

    /// Returns whether the worker's run time (`runtime=`) is over at this time.
    fn timed_out(&self, now_ns: u64) -> bool {
        let Some(runtime_ns) = self.job.runtime_ns.filter(|ns| *ns > 0) else { return false };
        let ramp_ns = if self.ramping { self.job.ramp_time_ns } else { 0 };
        now_ns.saturating_sub(self.started_ns) >= runtime_ns.saturating_add(ramp_ns)
    }

    /// Begins the worker's next pass over its files (fio's `loops=`, or another one while a
    /// `time_based` job lasts), or ends the worker if no pass is left.
    fn begin_pass(&mut self, now_ns: u64) {
        let job = &self.job;
        let first = self.phase == Phase::Waiting;
        let again = if self.stop || self.timed_out(now_ns) {
            false
        } else if self.player.is_some() {
            first
        } else if job.time_based {
            true
        } else if self.loops_left > 0 {
            self.loops_left -= 1;
            true
        } else if job.number_ios.is_some_and(|n| self.issued >= n) {
            false
        } else {
            let left = self.extent.limit_bytes.saturating_sub(self.done_bytes);
            let is_at_end = self.offsets.all_done() && !matches!(job.io_size, Some(Size::Bytes(_)));
            left >= job.largest_block() && !is_at_end
        };
        if !again || (!first && self.pass_issued == 0) {
            self.phase = Phase::Done;
            return;
        }
        if !first {
            self.offsets.restart();
            if job.randrepeat {
                self.seeds = self.verify_seeds();
            }
        }
        (self.pass_issued_bytes, self.pass_issued) = (0, 0);
        self.phase_start_ns = now_ns.max(self.started_ns);
        self.phase = Phase::Pass;
    }

    /// Ends the pass whose transfers have all completed, and begins the next phase: the flush for
    /// `end_fsync=`, or what comes after it.
    fn after_pass(&mut self) {
        self.end_phase(self.last_ns);
        self.phase = if self.stop {
            Phase::Done
        } else if self.job.flushes_at_end() && !self.offsets.last_was_sync() {
            Phase::EndSync(0)
        } else {
            Phase::EndSync(usize::MAX)
        };
    }

    /// Ends a part of the run (such as the passes, or the verification). Its length is added to the
    /// running time of each direction that transferred bytes in it.
    fn end_phase(&mut self, now_ns: u64) {
        let start_ns = self.phase_start_ns;
        let elapsed_ns = now_ns.saturating_sub(start_ns);
        let all = self.stats.dirs.iter_mut().chain([&mut self.stats.discards]);
        for (stats, bytes) in all.zip(&mut self.phase_bytes) {
            if std::mem::take(bytes) > 0 {
                stats.runtime_ns += elapsed_ns;
                stats.active.add(start_ns, now_ns);
            }
        }
        self.phase_start_ns = now_ns;
    }

    /// Decides, from the depth and the number of outstanding requests, whether the worker issues
    /// requests now. Returns true if so.
    fn update_filling(&mut self) -> bool {
        let depth = self.job.depth();
        let low = if self.job.iodepth_low == 0 { depth - 1 } else { self.job.iodepth_low.min(depth - 1) };
        if self.outstanding >= depth {
            self.filling = false;
        } else if self.outstanding <= low {
            self.filling = true;
        }
        self.filling
    }

    /// Returns the worker's next action in a pass (one run through the job's size); `None` when all
    /// transfers of the pass are issued.
    fn next_of_pass(&mut self, now_ns: u64) -> Option<Next> {
        if self.stop {
            return None;
        }
        if !self.update_filling() {
            return Some(Next::AfterCompletion);
        }
        if let Some(io) = self.rest.pop_front() {
            return Some(self.issue(io));
        }
        if self.player.is_some() {
            return self.next_of_script(now_ns);
        }
        // As in fio, a pause follows the last transfer too.
        if let Some(next) = self.think(now_ns) {
            return Some(next);
        }
        if self.timed_out(now_ns) || self.pass_is_issued() {
            return None;
        }
        if let Some(next) = self.flows(now_ns) {
            return Some(next);
        }
        if let Some(next) = self.next_of_backlog() {
            return Some(next);
        }
        loop {
            let (file, dir) = match self.held.take() {
                Some(held) => match self.still_held(held, now_ns) {
                    Some(next) => return Some(next),
                    None => (held.file, held.dir),
                },
                None => match self.offsets.step() {
                    Step::Transfer { file, dir } => match self.paced(file, dir, now_ns) {
                        Ok(dir) => (file, dir),
                        Err(next) => return Some(next),
                    },
                    Step::Sync { file, data_only } => {
                        return Some(self.flush(Sync { file, data_only, entry: 0 }));
                    }
                    Step::End => return None,
                },
            };
            if let Some(place) = self.offsets.place(file, dir) {
                return Some(self.issue_place(place));
            }
        }
    }

    fn pass_is_issued(&self) -> bool {
        let job = &self.job;
        // As in fio, only a job that collects its completions counts the bytes of a pass.
        let counts = job.is_collecting() && (!job.time_based || job.verify != Verify::Off);
        if counts && self.pass_issued_bytes >= self.bytes_of_pass() {
            return true;
        }
        if job.time_based {
            // The run time alone ends the job.
            return false;
        }
        if job.number_ios.is_some_and(|n| self.issued >= n.saturating_mul(job.loops.into())) {
            return true;
        }
        let limit = self.extent.limit_bytes.saturating_mul(job.loops.into());
        self.issued_bytes.iter().sum::<u64>() >= limit
    }

    /// Returns the number of bytes after which a worker that counts them ends its pass. As in fio,
    /// writes that may hit a block again go on to `io_size=`, and reads for `verify_backlog=` count.
    fn bytes_of_pass(&self) -> u64 {
        let (job, Extent { pass_bytes, limit_bytes, .. }) = (&self.job, &self.extent);
        let repeats = job.norandommap || job.random_distribution != Distribution::Uniform;
        let is_unmapped = job.rw.write && job.rw.random && repeats;
        let written = if is_unmapped { *limit_bytes.max(pass_bytes) } else { *pass_bytes };
        let reads =
            if job.rw.write && job.verify_backlog > 0 && job.verify != Verify::Off { *pass_bytes } else { 0 };
        written.saturating_add(reads)
    }

    fn issue_place(&mut self, place: Place) -> Next {
        let Place { dir, file, offset, bytes } = place;
        let verifies = self.job.verify != Verify::Off;
        let stamp = (dir == Dir::Write).then(|| self.stamp());
        if let Some(stamp) = stamp
            && self.job.reads_back()
        {
            self.written.add(file, offset, bytes, stamp);
        }
        let check = dir == Dir::Read && verifies && !self.job.rw.mixed();
        self.issued_bytes[dir.index()] += bytes;
        self.pass_issued_bytes += bytes;
        self.pass_issued += 1;
        self.issued += 1;
        self.paced_bytes[dir.index()] += bytes;
        self.poisson.gone(dir);
        self.issue(Io { dir, how: How::Plain, file, offset, bytes, stamp, check, entry: 0 })
    }

    fn issue(&mut self, io: Io) -> Next {
        self.flow.goes();
        if let Some(logs) = &mut self.logs {
            logs.issued(&io);
        }
        self.last_read = io.dir == Dir::Read;
        self.think.issued += 1;
        self.think.is_due = true;
        self.outstanding_writes += u32::from(io.dir == Dir::Write);
        if self.has_groups() {
            self.outstanding += 1;
        } else {
            self.submitted();
        }
        Next::Io(io)
    }

    /// Counts a submitted request in fio's statistics of the queue depth. As in fio, flushes count,
    /// too.
    fn submitted(&mut self) {
        self.outstanding += 1;
        self.stats.mark_depth(self.outstanding);
        self.stats.mark_submit(1);
    }

    /// Stops the worker from outside: the next call of [`JobState::next`] ends it, after
    /// outstanding transfers have completed.
    pub fn stop(&mut self) {
        self.stop = true;
    }

    /// Returns the errors that verification found in read data, at most [`VERIFY_ERRORS_KEPT`].
    pub fn verify_errors(&self) -> &[VerifyError] {
        &self.verify_errors
    }

    /// Returns the measurements of the worker so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the logs that the job requested; `None`: it requested none.
    pub fn logs(&self) -> Option<&Logs> {
        self.logs.as_ref()
    }

    /// Ends the measurement at this time, adds the CPU time `cpu` that the model counted, and
    /// returns all measurements.
    pub fn finish(&mut self, now_ns: u64, cpu: Cpu) -> Stats {
        // Behind the worker's end there is no time of it to measure, even if others run on.
        if self.phase != Phase::Done {
            self.tick(now_ns);
        }
        self.end_phase(self.last_ns);
        self.stats.cpu = cpu;
        self.stats.job_runtime_ns = self.last_ns.saturating_sub(self.started_ns);
        if let Some(logs) = &mut self.logs {
            logs.end(self.stats.job_runtime_ns);
        }
        self.stats.clone()
    }
}

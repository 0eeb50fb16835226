//! Load of fio's workers: gives their I/Os to the machine as the I/Os of its jobs.

use super::place::{Carried, Counted};
use super::{Pace, Run, RunError, Setting, Steady, Waiting};
use crate::fio::job::{ExitWhat, IoEngine, Size};
use crate::fio::offsets::{Seeds, file_sizes};
use crate::fio::state::{How, Io as FioIo, JobState, Next as FioNext, Sync as FioSync, Times};
use crate::fio::stats::WorkerError;
use crate::fio::{Dir, Worker as FioWorker};
use crate::system::{Io, Next, Workload};
use mmcq::host::Direction;
use mmcq_sim::parallel::Stop;
use std::collections::BTreeMap;

/// A fio I/O that was submitted and is not complete.
#[derive(Clone, Copy)]
enum UnderWay {
    Io(FioIo, u64),
    Sync(FioSync, u64),
    /// The flush that follows a durable write and makes it durable, with the time in ns at which
    /// the write began.
    Durable(FioIo, u64),
}

/// Key by which an ended I/O is found in its job: address, length, direction and kind. I/Os with
/// equal keys are interchangeable.
type Key = (u64, u32, Direction, How);

/// Key of a flush, which has no address.
const FLUSH: Key = (u64::MAX, 0, Direction::Write, How::Plain);

fn key(io: &Io) -> Key {
    (io.lba, io.blocks, io.direction, io.how)
}

fn flush(job: u32) -> Io {
    let (core, direction, how, sync) = (0, Direction::Write, How::Plain, true);
    Io { job, core, direction, how, sync, lba: u64::MAX, blocks: 0, buffer: 0, skip: 0 }
}

/// Load of fio's workers, each of which is a job of the machine.
pub(super) struct Load<'a> {
    pub(super) states: Vec<JobState>,
    workers: &'a [FioWorker],
    /// For each worker, the first block on the card of each of its files.
    files: Vec<Vec<u64>>,
    /// For each worker, the number of the boot area that each of its files is; 0: the file is in
    /// the user area.
    areas: Vec<Vec<u8>>,
    under_way: Vec<Vec<(Key, UnderWay)>>,
    /// For each job, durable writes whose flush has not begun, each with the time in ns at which
    /// the write began.
    owed: Vec<Vec<(FioIo, u64)>>,
    finished: Vec<bool>,
    behind_wall: Vec<bool>,
    /// Time in ns that an I/O takes with fio's I/O engine `null`, which transfers nothing.
    null_ns: u64,
    max_bytes: usize,
    depth: usize,
    pub(super) ios: u64,
    flushes: u64,
    pub(super) failed: u64,
    /// Whether a model of Linux runs the load. Its block layer turns a durable write into a
    /// reliable write if it can, and otherwise into a write and a flush.
    is_linux: bool,
    /// Length in blocks of a reliable write of Linux; a single block is possible too. `u32::MAX`:
    /// any length. 0: there are no reliable writes.
    pub(super) reliable_blocks: u32,
    planned: u64,
    moved: u64,
    told: u64,
    /// Time in ns at which the first job began; `None`: none has begun yet.
    origin_ns: Option<u64>,
    waiting: Waiting,
    pub(super) steady: Steady,
    pub(super) pace: Pace,
    progress: &'a mut dyn FnMut(u64, u64),
    /// Handle by which another thread asks the run to end early; `None`: the run always comes to
    /// its end.
    stop: Option<Stop>,
}

/// Number of I/Os with the I/O engine `null` after which a job lets others run.
const NULL_BATCH: u32 = 64;
/// Shortest time in ns that an I/O with fio's I/O engine `null` takes.
const NULL_LEAST_NS: u64 = 100;

/// Alignment in bytes of each file's start on the card, as in a file system.
const FILE_ALIGN: u64 = 1 << 20;

/// Returns whether the device name is that of an eMMC's hardware partition: mmcblk0boot0,
/// mmcblk0rpmb, mmcblk0gp0.
pub fn is_partition(device: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = device.strip_prefix("/dev/mmcblk") else { return false };
    let part = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() > part.len()
        && (part == "rpmb" || ["boot", "gp"].iter().any(|name| part.strip_prefix(name).is_some_and(digits)))
}

/// Returns the number of the eMMC's boot area that this device name means; `None`: the name means
/// no boot area.
pub(crate) fn boot_area(device: &str) -> Option<u8> {
    match device.rsplit_once("boot") {
        Some((_, "0")) => Some(1),
        Some((_, "1")) => Some(2),
        _ => None,
    }
}

/// Returns what a setting can read of the partition `name`: the number of the boot area, and its
/// size in bytes. `boot_bytes`: size of a boot area of the card; `None`: the card has none.
///
/// # Errors
/// The partition is no boot area, the card has none, or the setting does not read them.
pub(crate) fn readable(setting: Setting, name: &str, boot_bytes: Option<u64>) -> Result<(u8, u64), RunError> {
    let refused = |why: String| Err(RunError::Partition { name: name.to_owned(), why });
    let Some(area) = boot_area(name) else {
        return refused("and jobs are in the user area; expected /dev/mmcblk0, or a file".to_owned());
    };
    if setting.is_linux() {
        let setting = setting.name();
        return refused(format!("which setting {setting} does not read; expected mmcq or mmcq-own"));
    }
    match boot_bytes {
        Some(bytes) => Ok((area, bytes)),
        None => refused("and this card has none; expected an eMMC with boot areas".to_owned()),
    }
}

/// Returns what a job can use of the partition `name`: the number of the boot area, and its size in
/// bytes. `boot_bytes`: size of each boot area; `None`: the card has none.
fn partition(
    run: &Run<'_>,
    worker: &FioWorker,
    name: &str,
    boot_bytes: Option<u64>,
) -> Result<(u8, u64), RunError> {
    let found = readable(run.setting, name, boot_bytes)?;
    if worker.job.rw.write || worker.script.is_some() {
        let job = &worker.job.name;
        let why = format!("read-only as Linux has it, and job {job} may write; expected rw=read or randread");
        return Err(RunError::Partition { name: name.to_owned(), why });
    }
    Ok(found)
}

/// Returns the length in bytes that each file of a worker must have, so that all its transfers are
/// inside; 0: the worker takes the file as it is. As in fio, a worker extends a file that is too
/// short.
fn needs(worker: &FioWorker) -> u64 {
    let bytes = |size: Size| if let Size::Bytes(bytes) = size { bytes } else { 0 };
    let job = &worker.job;
    match (job.filesize, job.size) {
        (Some((least, most)), _) => {
            if least == most {
                most
            } else {
                0
            }
        }
        (None, Some(Size::Bytes(total))) => {
            let increment = bytes(job.offset_increment).saturating_mul(worker.subjob.into());
            let start = bytes(job.offset).saturating_add(increment);
            start.saturating_add(total / u64::from(job.nrfiles.max(1)))
        }
        (None, _) => 0,
    }
}

impl<'a> Load<'a> {
    pub(super) fn new(
        run: &Run<'a>,
        (sectors, boot_bytes): (u64, Option<u64>),
        waiting: Waiting,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Result<Self, RunError> {
        let capacity = sectors * 512;
        let mut place = 0;
        let mut known: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let mut areas = Vec::new();
        let (mut states, mut files) = (Vec::new(), Vec::new());
        let mut needed: BTreeMap<&str, u64> = BTreeMap::new();
        for (worker, name) in run.workers.iter().flat_map(|w| w.files.iter().map(move |name| (w, name))) {
            let length = needed.entry(name).or_default();
            *length = needs(worker).max(*length);
        }
        for worker in run.workers {
            let (mut bytes, mut bases) = (Vec::new(), Vec::new());
            let mut of_files = Vec::new();
            let seeds = Seeds::of(&worker.job, worker.thread_number, run.seed);
            let mut own_size = file_sizes(&worker.job, seeds.file_size);
            for name in &worker.files {
                if is_partition(name) {
                    let (area, size) = partition(run, worker, name, boot_bytes)?;
                    bases.push(0);
                    bytes.push(size);
                    of_files.push(area);
                    continue;
                }
                of_files.push(0);
                let (base, size) = match known.get(name.as_str()) {
                    Some(&found) => found,
                    // A path in /dev means the whole card.
                    None if name.starts_with("/dev/") => (0, capacity),
                    None => {
                        let share = worker.job.size.map_or(capacity, |size| size.of(capacity))
                            / u64::from(worker.job.nrfiles.max(1));
                        let own = worker.job.filesize.map_or(share, |_| own_size());
                        let each = own.max(needed.get(name.as_str()).copied().unwrap_or(0));
                        if each > capacity - place {
                            return Err(RunError::Space {
                                name: name.clone(),
                                bytes: each,
                                left: capacity - place,
                            });
                        }
                        let base = place;
                        place = (place + each).next_multiple_of(FILE_ALIGN).min(capacity);
                        (base, each)
                    }
                };
                known.insert(name, (base, size));
                bases.push(base / 512);
                bytes.push(size);
            }
            states.push(JobState::new(worker, &bytes, run.seed)?);
            files.push(bases);
            areas.push(of_files);
        }
        let depth = run.workers.iter().map(|w| w.job.depth() as usize).sum();
        let max_bytes = run.workers.iter().map(FioWorker::max_bytes).max().unwrap_or(512) as usize;
        let planned = states.iter().map(JobState::planned_bytes).sum();
        Ok(Load {
            under_way: states.iter().map(|_| Vec::new()).collect(),
            owed: states.iter().map(|_| Vec::new()).collect(),
            finished: vec![false; states.len()],
            behind_wall: vec![false; states.len()],
            null_ns: (run.platform.costs.ns("user") + run.platform.costs.ns("syscall")).max(NULL_LEAST_NS),
            states,
            workers: run.workers,
            files,
            areas,
            max_bytes: max_bytes.next_multiple_of(512),
            depth,
            ios: 0,
            flushes: 0,
            failed: 0,
            is_linux: run.setting.is_linux(),
            reliable_blocks: 0,
            planned,
            moved: 0,
            told: 0,
            origin_ns: None,
            waiting,
            steady: Steady::new(planned),
            pace: Pace::default(),
            progress,
            stop: Stop::heard(),
        })
    }

    /// Returns the kind of transfer that the stack uses for an I/O of this job: plain, durable, a
    /// discard, or of a boot area. The last argument is the place on the card: first block, and
    /// number of blocks.
    fn how(&self, job: usize, fio: &FioIo, (lba, blocks): (u64, u32)) -> How {
        match self.areas[job].get(fio.file) {
            Some(&area) if area > 0 => return How::Boot(area),
            _ if !self.is_linux => return fio.how,
            _ => {}
        }
        let is_synced = fio.how == How::Plain && fio.dir == Dir::Write && self.workers[job].job.sync;
        let is_reliable = match self.reliable_blocks {
            0 => false,
            u32::MAX => true,
            unit => blocks == 1 || blocks == unit && lba.is_multiple_of(unit.into()),
        };
        match fio.how == How::Durable || is_synced {
            true if is_reliable => How::Durable,
            true => How::Plain,
            false => fio.how,
        }
    }

    /// Returns whether a flush follows a write of job number `job`. `how`: what the job asked for.
    /// `sent`: what the stack has sent. Linux flushes after a synchronous write even if it was a
    /// reliable write.
    fn is_flushed_after(&self, job: usize, how: How, sent: How) -> bool {
        match how {
            How::Plain => self.workers[job].job.sync,
            How::Durable => self.is_linux && sent != How::Durable,
            How::Discard | How::Boot(_) => false,
        }
    }

    /// Returns whether any file of any job is a boot area.
    pub(super) fn reads_boot(&self) -> bool {
        self.areas.iter().flatten().any(|area| *area > 0)
    }

    /// Returns whether a worker may start: after a stonewall, only when all workers before the
    /// stonewall have finished; with `wait_for=`, only when all workers of the job of this name
    /// have finished.
    fn may_run(&self, job: usize) -> bool {
        let wall = (0..=job).rev().find(|&j| self.workers[j].waits_for_earlier);
        let before = wall.is_none_or(|wall| self.finished[..wall].iter().all(|f| *f));
        let named = self.workers[job].job.wait_for.as_ref();
        let mut all = self.workers.iter().zip(&self.finished);
        before && named.is_none_or(|name| all.all(|(worker, done)| *done || worker.job.name != *name))
    }

    /// Tells a job how many I/Os it may begin before it is ahead of the other jobs of its flow
    /// (fio's `flow=`). As in fio, it is ahead if its part of the I/Os of all running jobs of the
    /// flow, plus one, is larger than its part of their values of `flow=`.
    fn allow_flow(&mut self, job: usize) {
        let own = &self.workers[job].job;
        if own.flow == 0 {
            return;
        }
        let (mut weights, mut begun) = (0, 1);
        for (j, worker) in self.workers.iter().enumerate() {
            let runs = !self.finished[j] && self.may_run(j);
            if worker.job.flow > 0 && worker.job.flow_id == own.flow_id && runs {
                weights += u128::from(worker.job.flow);
                begun += u128::from(self.states[j].begun());
            }
        }
        let weight = u128::from(own.flow);
        let left = match (weight * begun).checked_sub(u128::from(self.states[job].begun()) * weights) {
            None => 0,
            Some(room) => room.checked_div(weights - weight).map_or(u128::MAX, |ios| ios + 1),
        };
        self.states[job].allow(u64::try_from(left).unwrap_or(u64::MAX));
    }

    /// Applies fio's `exitall` when this job ends: stops the other workers that the job's
    /// `exit_what` names. As in fio, one section with the option is enough: it applies when any job
    /// ends.
    fn exit_all(&mut self, job: usize) {
        let (own, what) = (&self.workers[job], self.workers[job].job.exit_what);
        if !self.workers.iter().any(|worker| worker.job.exitall) {
            return;
        }
        let group = own.group;
        let ends = |j: usize| match what {
            ExitWhat::Group => self.workers[j].group == group,
            ExitWhat::Stonewall => self.may_run(j),
            ExitWhat::All => true,
        };
        let ends: Vec<usize> = (0..self.states.len()).filter(|&j| j != job && ends(j)).collect();
        ends.into_iter().for_each(|j| self.states[j].stop());
    }

    /// Returns the next step of worker `j`, whose jobs use fio's I/O engine `null`. An I/O of this
    /// engine is complete at once, without the stack.
    fn next_of_null(&mut self, j: usize, now_ns: u64) -> Next {
        let mut at_ns = now_ns;
        for _ in 0..NULL_BATCH {
            let times = Times { start_ns: at_ns, issue_ns: at_ns, complete_ns: at_ns + self.null_ns };
            match self.states[j].next(at_ns) {
                FioNext::Io(fio) => self.states[j].complete(&fio, times, Ok(fio.bytes), None),
                FioNext::Sync(sync) => self.states[j].complete_sync(&sync, times, Ok(())),
                FioNext::Wait(until_ns) => return Next::Until(until_ns),
                FioNext::AfterCompletion => {}
                FioNext::Done => {
                    self.finished[j] = true;
                    self.exit_all(j);
                    return Next::Finished;
                }
            }
            at_ns = times.complete_ns;
        }
        Next::Until(at_ns)
    }
}

impl Carried for Load<'_> {
    fn counted(&self) -> Counted {
        Counted { ios: self.ios, flushes: self.flushes, failed: self.failed, steady: self.steady }
    }
}

impl Workload for Load<'_> {
    fn jobs(&self) -> u32 {
        self.states.len() as u32
    }

    fn is_over(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_asked)
    }

    fn memory(&self) -> (usize, usize) {
        (self.depth + self.states.len(), self.max_bytes)
    }

    fn next(&mut self, job: u32, now_ns: u64) -> Next {
        let j = job as usize;
        self.behind_wall[j] = !self.may_run(j);
        if self.behind_wall[j] {
            return Next::Wait;
        }
        let origin_ns = *self.origin_ns.get_or_insert(now_ns);
        self.states[j].begins_at(origin_ns);
        self.allow_flow(j);
        if self.workers[j].job.ioengine == IoEngine::Null {
            return self.next_of_null(j, now_ns);
        }
        if let Some((fio, start_ns)) = self.owed[j].pop() {
            self.under_way[j].push((FLUSH, UnderWay::Durable(fio, start_ns)));
            self.flushes += 1;
            return Next::Io(flush(job));
        }
        loop {
            match self.states[j].next(now_ns) {
                FioNext::Io(fio) => {
                    let start = self.files[j].get(fio.file).copied().unwrap_or(0);
                    let whole = fio.offset % 512 == 0 && fio.bytes % 512 == 0 && fio.bytes > 0;
                    let (lba, blocks) = (start + fio.offset / 512, (fio.bytes / 512) as u32);
                    if !whole {
                        let text = format!(
                            "offset {} and length {} must be multiples of 512",
                            fio.offset, fio.bytes
                        );
                        let times = Times { start_ns: now_ns, issue_ns: now_ns, complete_ns: now_ns };
                        self.failed += 1;
                        self.states[j].complete(&fio, times, Err(WorkerError { errno: 22, text }), None);
                        continue;
                    }
                    let direction = match fio.dir {
                        Dir::Read => Direction::Read,
                        Dir::Write => Direction::Write,
                    };
                    self.ios += 1;
                    let io = Io {
                        job,
                        core: 0,
                        direction,
                        how: self.how(j, &fio, (lba, blocks)),
                        sync: direction == Direction::Read || self.workers[j].job.direct,
                        lba,
                        blocks,
                        buffer: 0,
                        skip: 0,
                    };
                    self.under_way[j].push((key(&io), UnderWay::Io(fio, now_ns)));
                    return Next::Io(io);
                }
                FioNext::Sync(sync) => {
                    self.under_way[j].push((FLUSH, UnderWay::Sync(sync, now_ns)));
                    self.flushes += 1;
                    return Next::Io(flush(job));
                }
                FioNext::Wait(until_ns) => return Next::Until(until_ns),
                FioNext::AfterCompletion => return Next::Wait,
                FioNext::Done => {
                    self.finished[j] = true;
                    self.exit_all(j);
                    return Next::Finished;
                }
            }
        }
    }

    fn waits_for_others(&self, job: u32) -> bool {
        self.behind_wall[job as usize]
    }

    fn passes(&mut self, into_stack: bool, now_ns: u64) {
        if into_stack { self.waiting.enters(now_ns) } else { self.waiting.leaves(now_ns) }
    }

    fn fill(&mut self, io: &Io, data: &mut [u8]) {
        let j = io.job as usize;
        if let Some((_, UnderWay::Io(fio, start_ns))) = self.under_way[j].last() {
            self.states[j].fill(fio, *start_ns, data);
        }
    }

    fn done(&mut self, io: &Io, ok: bool, data: &[u8], now_ns: u64) {
        let j = io.job as usize;
        let Some(at) = self.under_way[j].iter().position(|(kept, _)| *kept == key(io)) else { return };
        let failed = || WorkerError { errno: 5, text: format!("I/O error at block {}", io.lba) };
        self.failed += u64::from(!ok);
        match self.under_way[j].remove(at).1 {
            UnderWay::Io(fio, start_ns)
                if ok && fio.dir == Dir::Write && self.is_flushed_after(j, fio.how, io.how) =>
            {
                self.owed[j].push((fio, start_ns));
            }
            UnderWay::Io(fio, start_ns) | UnderWay::Durable(fio, start_ns) => {
                let times = Times { start_ns, issue_ns: start_ns, complete_ns: now_ns };
                let result = if ok { Ok(fio.bytes) } else { Err(failed()) };
                self.states[j].complete(&fio, times, result, fio.check.then_some(&data[..io.bytes()]));
                self.moved += if ok && fio.how != How::Discard { fio.bytes } else { 0 };
                self.steady.moved(self.moved, now_ns);
                let origin_ns = self.origin_ns.unwrap_or(now_ns);
                self.pace.moved(self.moved, now_ns.saturating_sub(origin_ns));
            }
            UnderWay::Sync(sync, start_ns) => {
                let times = Times { start_ns, issue_ns: start_ns, complete_ns: now_ns };
                self.states[j].complete_sync(&sync, times, if ok { Ok(()) } else { Err(failed()) });
            }
        }
        if self.moved - self.told >= 1 << 22 {
            self.told = self.moved;
            (self.progress)(self.moved, self.planned);
        }
    }
}

//! Makes a program's threads jobs of the simulated machine.

use super::cut::Supply;
use super::luck::Luck;
use super::shared::{Asked, Command, IO_BYTES_MAX, Op, RING, Shared, Word};
use crate::fio::script::How;
use crate::runner::place::{Carried, Counted};
use crate::runner::{Steady, Waiting};
use crate::system::{Io, Next, Workload};
use mmcq::host::Direction;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time for which a job may post no command before the laboratory asks the kernel for the state of
/// the job's thread.
const LOOK: Duration = Duration::from_millis(20);
/// Number of times that the kernel must report a job as waiting for something outside the
/// laboratory, before the job lets other jobs run.
const LOOKS: u32 = 3;
/// Time in ns for which a job that waits for something outside the laboratory lets other jobs run.
const ASIDE_NS: u64 = 1_000_000;
/// Error number EPERM (operation not permitted), as the program sees it.
const EPERM: i64 = 1;
const EIO: i64 = 5;
/// Error number for a bad address, as the program sees it.
const EFAULT: i64 = 14;
/// Error number for an invalid argument, as the program sees it.
const EINVAL: i64 = 22;

/// Key by which an ended I/O is found in its job: address, blocks, direction, and kind (such as a
/// read of a boot area). I/Os with equal keys are interchangeable.
type Key = (u64, u32, Direction, How);

fn key(io: &Io) -> Key {
    (io.lba, io.blocks, io.direction, io.how)
}

#[derive(Default)]
struct Job {
    /// Number of commands of the job that the laboratory has handled.
    seen: u32,
    /// Whether the job waits for the laboratory's answer to its last command.
    asks: bool,
    /// Whether the job was waiting for something outside the laboratory when the laboratory last
    /// read the state of its thread.
    aside: bool,
    under_way: Vec<(Key, Asked)>,
    /// Number of I/Os that the laboratory has taken out of the job's ring.
    taken: u32,
    /// Number of the job's I/Os that have ended at the card or were refused.
    done: u32,
    /// Number of the job's I/Os that have ended or were refused since the job last ran.
    ready: u64,
    finished: bool,
}

/// Largest number of threads that a program may have at the same time.
pub const JOBS_MAX: u32 = 64;

/// How much a program has used the card.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Numbers of reads, writes and flushes that the program requested, without those that the
    /// laboratory refused.
    pub ios: [u64; 3],
    /// Number of bytes of the program's I/Os that have ended, also of failed ones: `[read,
    /// written]`.
    pub bytes: [u64; 2],
    /// Number of the program's flushes that have ended.
    pub flushed: u64,
    /// Number of the program's I/Os that failed at the card.
    pub failed: u64,
    /// The last virtual time in ns that the program saw.
    pub now_ns: u64,
}

/// The threads of a program, as jobs of the simulated board.
pub struct Programs {
    shared: Arc<Shared>,
    jobs: BTreeMap<u32, Job>,
    /// Value of [`Word::Ready`] that the laboratory has handled last; 0: no thread has announced
    /// itself yet.
    known: u32,
    helper: bool,
    start_ns: u64,
    sectors: u64,
    /// Size in bytes of each boot area, of which the first follows the user area; 0: there is none.
    pub(super) boot_bytes: u64,
    /// Whether flushes are refused, because this setting cannot flush a card with a cache.
    pub(super) no_flush: bool,
    /// Whether the program has requested a flush that was refused.
    pub(super) flush_refused: bool,
    pub(super) supply: Option<Supply>,
    pub(super) tally: Tally,
    waiting: Waiting,
    steady: Steady,
    luck: Luck,
    /// Data of the write that was last taken from a job's ring of requested I/Os.
    data: Vec<u8>,
}

/// What a job did while the laboratory waited for the job's command.
enum Heard {
    Command,
    /// No command came: the job waits for something outside the laboratory.
    Nothing,
    Dead,
}

impl Programs {
    /// Makes the jobs of a program on a card of this number of sectors. The program's time starts
    /// at `start_ns`.
    pub fn new(shared: Arc<Shared>, sectors: u64, start_ns: u64, waiting: Waiting) -> Self {
        Programs {
            shared,
            jobs: BTreeMap::new(),
            known: 0,
            helper: false,
            start_ns,
            sectors,
            boot_bytes: 0,
            no_flush: false,
            flush_refused: false,
            supply: None,
            tally: Tally::default(),
            waiting,
            steady: Steady::new(0),
            luck: Luck::default(),
            data: Vec::new(),
        }
    }

    /// Returns whether the laboratory ended the run before the program ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_over()
    }

    /// Returns whether no thread of the program ever reported to the laboratory.
    pub(super) fn was_unused(&self) -> bool {
        self.known == 0
    }

    fn program_is_over(&self) -> bool {
        self.shared.word(Word::Over).load(Ordering::Acquire) != 0
    }

    /// Returns the number of an extra job that only cuts the card's power: it sleeps until the time
    /// of the cut.
    fn supply_job(&self) -> u32 {
        self.shared.background() + 1
    }

    /// Returns the number of the program's jobs that have not finished, without fio's helper.
    fn in_front(&self) -> usize {
        let background = self.shared.background();
        self.jobs.iter().filter(|(id, job)| **id < background && !job.finished).count()
    }

    fn tell_front(&self) {
        let front = self.in_front() as u32;
        self.shared.word(Word::Front).store(front, Ordering::Release);
        if front == 0 {
            self.shared.look();
        }
    }

    /// Waits until the job `id` has posted a command, has ended, or waits for something outside the
    /// laboratory. Until then the job runs, and no virtual time passes. `seen`: number of its
    /// commands that were taken before. `was_aside`: the last call found that it waited for
    /// something outside.
    fn hear(&self, id: u32, seen: u32, was_aside: bool) -> Heard {
        let others =
            || self.in_front() > 1 || self.shared.word(Word::Ready).load(Ordering::Acquire) != self.known;
        if was_aside && self.shared.posted(id) == seen {
            let sleeps = matches!(state(self.shared.thread(id)), State::Sleeps);
            if sleeps && self.shared.posted(id) == seen && others() {
                return Heard::Nothing;
            }
        }
        if self.luck.spins(|| self.shared.posted(id) != seen) {
            return Heard::Command;
        }
        let mut looks = 0;
        loop {
            if self.shared.wait_posted(id, seen, LOOK) && self.shared.posted(id) != seen {
                return Heard::Command;
            }
            if self.program_is_over() {
                return Heard::Dead;
            }
            match state(self.shared.thread(id)) {
                State::Runs => looks = 0,
                State::Gone if self.shared.posted(id) == seen => return Heard::Dead,
                State::Gone => {}
                State::Sleeps => looks += 1,
            }
            if looks >= LOOKS && others() {
                return Heard::Nothing;
            }
        }
    }

    /// Returns where an I/O begins: number of the boot area (0: the user area), offset of the I/O
    /// in this area, and size of the area. Offset and size are in bytes. `None`: the I/O begins
    /// behind all areas.
    fn area(&self, asked: &Asked) -> Option<(u8, u64, u64)> {
        let Some(behind) = asked.offset.checked_sub(self.sectors * 512) else {
            return Some((0, asked.offset, self.sectors * 512));
        };
        let area = behind.checked_div(self.boot_bytes).and_then(|area| u8::try_from(area).ok());
        let area = area.filter(|area| *area < 2)?;
        Some((area + 1, behind - u64::from(area) * self.boot_bytes, self.boot_bytes))
    }

    fn checked(&self, asked: &Asked) -> bool {
        let bytes = u64::from(asked.bytes);
        let inside = |(_, start, size): (u8, u64, u64)| start % 512 == 0 && bytes <= size - start;
        match asked.op {
            Op::Flush => true,
            _ => {
                let long = bytes % 512 == 0 && bytes > 0 && asked.bytes <= IO_BYTES_MAX;
                long && self.area(asked).is_some_and(inside)
            }
        }
    }

    /// Returns the next I/O in the ring of the job with the number `id`, which has posted a
    /// command; `None`: the ring has no more. I/Os that the laboratory refuses get their error at
    /// once and are skipped.
    fn next_io(&mut self, id: u32) -> Option<Io> {
        while let Some(taken) = self.shared.take(id, self.jobs.get(&id).map_or(0, |job| job.taken)) {
            let job = self.job(id);
            job.taken = job.taken.wrapping_add(1);
            let (refused, error) = match taken {
                Err(place) => (place, EINVAL),
                Ok(asked) if !self.checked(&asked) => (asked.place, EINVAL),
                // Linux's devices of boot areas are read-only.
                Ok(asked)
                    if asked.op == Op::Write && self.area(&asked).is_some_and(|(area, ..)| area > 0) =>
                {
                    (asked.place, EPERM)
                }
                Ok(asked) if asked.op == Op::Flush && self.no_flush => {
                    self.flush_refused = true;
                    (asked.place, EINVAL)
                }
                // As in Linux, nothing of a write is written if a part of its memory is missing.
                Ok(asked) if asked.op == Op::Write && !self.fetch(id, &asked) => (asked.place, EFAULT),
                Ok(asked) => {
                    let direction = if asked.op == Op::Read { Direction::Read } else { Direction::Write };
                    let (how, lba, blocks) = match (asked.op, self.area(&asked)) {
                        (Op::Flush, _) | (_, None) => (How::Plain, u64::MAX, 0),
                        (_, Some((0, start, _))) => (How::Plain, start / 512, asked.bytes / 512),
                        (_, Some((area, start, _))) => (How::Boot(area), start / 512, asked.bytes / 512),
                    };
                    let sync = true;
                    let io = Io { job: id, core: 0, direction, how, lba, sync, blocks, buffer: 0, skip: 0 };
                    self.tally.ios[asked.op as usize] += 1;
                    self.job(id).under_way.push((key(&io), asked));
                    return Some(io);
                }
            };
            self.tell_done(id, refused, -error);
        }
        None
    }

    /// Copies the data of a write that job `id` has requested (`asked`) from the program's memory
    /// into `data`. Returns false if a part of the address range is no memory of the program.
    fn fetch(&mut self, id: u32, asked: &Asked) -> bool {
        self.data.resize(asked.bytes as usize, 0);
        self.shared.fetch(id, asked, &mut self.data)
    }

    /// Records the result of an I/O of the job `id`: the number of bytes, or a negative error
    /// number. `place` is the I/O's index in the job's ring of requests. The job sees the result
    /// when it runs next.
    fn tell_done(&mut self, id: u32, place: u32, result: i64) {
        let job = self.jobs.entry(id).or_default();
        self.shared.done(id, job.done, place, result);
        job.done = job.done.wrapping_add(1);
        job.ready += 1;
    }

    fn job(&mut self, id: u32) -> &mut Job {
        self.jobs.entry(id).or_default()
    }

    fn let_go(&mut self, id: u32, now_ns: u64) {
        let now_ns = now_ns - self.start_ns;
        self.tally.now_ns = self.tally.now_ns.max(now_ns);
        self.shared.set_now(now_ns);
        let job = self.job(id);
        (job.asks, job.ready) = (false, 0);
        let done = job.done;
        self.shared.release(id, done);
    }

    fn cut_now(&mut self, now_ns: u64) {
        if let Some(supply) = &mut self.supply {
            supply.fails(now_ns);
            self.tally.now_ns = now_ns - self.start_ns;
            self.shared.ended();
        }
    }

    fn end(&mut self, id: u32) -> Next {
        let job = self.job(id);
        if !job.under_way.is_empty() {
            return Next::Wait;
        }
        job.finished = true;
        self.shared.free(id);
        self.tell_front();
        Next::Finished
    }
}

enum State {
    Runs,
    Sleeps,
    Gone,
}

/// Returns the kernel's state of a thread. A thread that has not started yet counts as running.
fn state((pid, tid): (i32, i32)) -> State {
    if pid == 0 {
        return State::Runs;
    }
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    match text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
        Some('R' | 'D') => State::Runs,
        None | Some('Z' | 'X') => State::Gone,
        _ => State::Sleeps,
    }
}

impl Carried for Programs {
    fn counted(&self) -> Counted {
        let Tally { ios, failed, .. } = &self.tally;
        Counted { ios: ios.iter().sum(), flushes: ios[2], failed: *failed, steady: self.steady }
    }
}

impl Workload for Programs {
    fn jobs(&self) -> u32 {
        0
    }

    fn jobs_max(&self) -> u32 {
        self.shared.background() + 2
    }

    fn waits_for_others(&self, id: u32) -> bool {
        let supply = || self.supply.as_ref().is_some_and(Supply::runs);
        let here = if id == self.supply_job() { supply() } else { self.helper };
        id >= self.shared.background() && here && self.in_front() == 0
    }

    fn memory(&self) -> (usize, usize) {
        ((self.jobs_max() * RING) as usize, IO_BYTES_MAX as usize)
    }

    fn arrived(&mut self, wait: bool) -> Vec<u32> {
        let background = self.shared.background();
        let ready = self.shared.word(Word::Ready);
        let mut came = Vec::new();
        let mut now = ready.load(Ordering::Acquire);
        while now != self.known || wait {
            self.known = now;
            came = self.shared.begin();
            if !came.is_empty() || !wait || self.program_is_over() {
                break;
            }
            self.shared.wait(ready, now, LOOK);
            now = ready.load(Ordering::Acquire);
        }
        if came.is_empty() {
            return came;
        }
        for &id in &came {
            self.jobs.insert(id, Job::default());
        }
        self.tell_front();
        if !self.helper && self.shared.thread(background).0 != 0 {
            self.helper = true;
            self.job(background).finished = false;
            came.push(background);
        }
        if self.supply.as_mut().is_some_and(|supply| supply.begins()) {
            came.push(self.supply_job());
        }
        came
    }

    fn is_over(&self) -> bool {
        self.supply.as_ref().is_some_and(|supply| supply.failed.is_some()) || self.flush_refused
    }

    fn next(&mut self, id: u32, now_ns: u64) -> Next {
        if id == self.supply_job() {
            let at_ns = self.supply.as_ref().and_then(|supply| supply.at_ns).map(|at| at + self.start_ns);
            return match at_ns {
                Some(at_ns) if now_ns < at_ns && self.in_front() > 0 => Next::Until(at_ns),
                Some(at_ns) if now_ns >= at_ns => {
                    self.cut_now(now_ns);
                    Next::Finished
                }
                _ => {
                    self.supply.iter_mut().for_each(Supply::rests);
                    Next::Finished
                }
            };
        }
        let background = self.shared.background();
        loop {
            if id == background && self.in_front() == 0 {
                // Fio's helper alone must not advance the time.
                self.helper = false;
                return self.end(id);
            }
            let job = self.job(id);
            if job.finished {
                return Next::Finished;
            }
            if !job.asks {
                let (seen, was_aside) = (job.seen, job.aside);
                match self.hear(id, seen, was_aside) {
                    Heard::Command => {
                        let job = self.job(id);
                        (job.seen, job.asks, job.aside) = (seen.wrapping_add(1), true, false);
                    }
                    Heard::Nothing => {
                        self.job(id).aside = true;
                        return Next::Until(now_ns + ASIDE_NS);
                    }
                    Heard::Dead => return self.end(id),
                }
            }
            if let Some(io) = self.next_io(id) {
                return Next::Io(io);
            }
            if self.flush_refused {
                return Next::Wait;
            }
            let command = self.shared.command(id);
            let job = self.job(id);
            match command {
                Command::Wait(least) if job.ready < least && !job.under_way.is_empty() => return Next::Wait,
                Command::Sleep(at_ns) if now_ns - self.start_ns < at_ns => {
                    return Next::Until(self.start_ns.saturating_add(at_ns));
                }
                Command::End => return self.end(id),
                Command::Wait(_) | Command::Sleep(_) => self.let_go(id, now_ns),
            }
        }
    }

    /// Copies the data of a write into `data`, as the program's memory held them when the
    /// laboratory took the write from the program's ring.
    fn fill(&mut self, io: &Io, data: &mut [u8]) {
        let is_write = |job: &Job| job.under_way.last().is_some_and(|(_, asked)| asked.op == Op::Write);
        if self.jobs.get(&io.job).is_some_and(is_write) && data.len() == self.data.len() {
            data.copy_from_slice(&self.data);
        }
    }

    fn passes(&mut self, into_stack: bool, now_ns: u64) {
        if into_stack { self.waiting.enters(now_ns) } else { self.waiting.leaves(now_ns) }
    }

    fn done(&mut self, io: &Io, ok: bool, data: &[u8], now_ns: u64) {
        let job = self.job(io.job);
        let Some(at) = job.under_way.iter().position(|(kept, _)| *kept == key(io)) else { return };
        let (_, asked) = job.under_way.remove(at);
        let mut result = i64::from(asked.bytes);
        if !ok {
            result = -EIO;
            self.tally.failed += 1;
        } else if asked.op == Op::Read && !self.shared.bring(io.job, &asked, &data[..io.bytes()]) {
            result = -EFAULT;
        }
        match asked.op {
            Op::Flush => {
                if self
                    .supply
                    .as_ref()
                    .is_some_and(|supply| supply.after_flush == Some(self.tally.flushed + 1))
                {
                    self.cut_now(now_ns);
                }
                self.tally.flushed += 1;
            }
            op => self.tally.bytes[op as usize] += u64::from(asked.bytes),
        }
        self.tell_done(io.job, asked.place, result);
    }
}

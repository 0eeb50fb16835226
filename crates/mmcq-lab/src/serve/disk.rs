//! The card behind the export: one thread that owns the machine and moves it, and a queue of jobs to it.

use super::extents::Extents;
use super::machine::{Machine, SLOTS, Step};
use super::protocol::Errno;
use mmcq::engine::{DmaBuf, Erase, Error, Kind, Request, SlotId};
use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

/// A request for zeros goes to the engine in pieces of so many bytes, and where they must be written, from so much memory.
const ZEROS_BYTES: u64 = 16 << 20;
const ZERO_BUFFER_BYTES: usize = 64 << 10;

/// What a client wants done; offsets and lengths in bytes, checked.
#[derive(Debug)]
pub enum Op {
    /// Data from the card.
    Read { offset: u64, length: u32 },
    /// Data to the card.
    Write { offset: u64, data: Vec<u8>, durable: bool },
    /// What was written before is on the medium.
    Flush,
    /// The data are not wanted any more.
    Trim { offset: u64, length: u32 },
    /// Zeros to the card.
    Zeros { offset: u64, length: u32, hole: bool, durable: bool },
    /// Which ranges hold data: lengths with "is a hole that reads as zeros".
    Status { offset: u64, length: u32, one: bool },
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// Done.
    Done,
    /// Data of a read.
    Data(Vec<u8>),
    /// Ranges.
    Extents(Vec<(u32, bool)>),
    /// Not done, with the reason for people.
    Failed(Errno, String),
}

/// A job for the disk's thread.
pub struct Job {
    /// Which connection asks.
    pub client: u64,
    /// What.
    pub op: Op,
    /// Told once, from the disk's thread.
    pub done: Box<dyn FnOnce(Outcome) + Send>,
}

/// What the disk's thread is told.
pub enum Message {
    /// Something to do.
    Job(Job),
    /// The machine wants to be served.
    Interrupt,
    /// The card's supply fails now, and comes back.
    PowerCut,
    /// No more jobs: flush, and end.
    Stop,
}

/// What a power cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Requests that were under way and failed.
    pub failed: usize,
    /// Requests that wait and are done by the new card.
    pub waiting: usize,
    /// Sectors that had been written and not flushed, and are what they were before.
    pub lost_sectors: u64,
}

/// A job that has not ended.
struct Progress {
    job: Job,
    /// Bytes that are done.
    done: u64,
    /// What has been read.
    read: Vec<u8>,
}

impl Progress {
    fn new(job: Job) -> Self {
        Progress { job, done: 0, read: Vec::new() }
    }
}

/// A job with a request under way, and how many bytes there are in all.
struct Running {
    id: SlotId,
    progress: Progress,
    total: u64,
}

/// The machine at work.
pub struct Disk {
    machine: Box<dyn Machine>,
    extents: Extents,
    waiting: VecDeque<Progress>,
    running: [Option<Running>; SLOTS],
    under_way: usize,
    /// Clients that have not been told yet that the power failed.
    untold: HashSet<u64>,
    clients: HashSet<u64>,
}

impl Disk {
    /// `extents`: what of the card is known to be zeros.
    pub fn new(machine: Box<dyn Machine>, extents: Extents) -> Self {
        Disk {
            machine,
            extents,
            waiting: VecDeque::new(),
            running: [const { None }; SLOTS],
            under_way: 0,
            untold: HashSet::new(),
            clients: HashSet::new(),
        }
    }

    /// Has the machine tell the disk's thread, by this queue, when it wants to be served.
    pub fn listen(&mut self, disk: Sender<Message>) {
        self.machine.listen(Box::new(move || disk.send(Message::Interrupt).is_ok()));
    }

    /// Serves until told to stop, or until nobody is left who could ask. `cut` hears of power cuts.
    pub fn run(mut self, messages: &Receiver<Message>, cut: &dyn Fn(Damage)) -> Result<(), String> {
        loop {
            if self.under_way == 0 && self.waiting.is_empty() {
                let message = match self.machine.idle() {
                    None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                    Some(wait) => messages.recv_timeout(wait),
                };
                match message {
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return self.end(messages),
                    Ok(message) => self.take(message, cut)?,
                    Err(RecvTimeoutError::Timeout) => {
                        self.step()?;
                        continue;
                    }
                }
                self.machine.resume();
            }
            loop {
                match messages.try_recv() {
                    Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return self.end(messages),
                    Ok(message) => self.take(message, cut)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.admit();
            if self.under_way > 0
                && let Some(wait) = self.step()?
            {
                match messages.recv_timeout(wait) {
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return self.end(messages),
                    Ok(message) => self.take(message, cut)?,
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        }
    }

    fn take(&mut self, message: Message, cut: &dyn Fn(Damage)) -> Result<(), String> {
        match message {
            Message::Job(job) => {
                self.clients.insert(job.client);
                self.waiting.push_back(Progress::new(job));
            }
            Message::Interrupt => {
                let completed = self.machine.interrupted()?;
                self.completed(completed);
            }
            Message::PowerCut => cut(self.power_cut()?),
            Message::Stop => {}
        }
        Ok(())
    }

    /// Hands waiting jobs to the engine as far as it has room.
    fn admit(&mut self) {
        while let Some(progress) = self.waiting.pop_front() {
            if let Some(progress) = self.begin(progress) {
                self.waiting.push_front(progress);
                return;
            }
        }
    }

    /// Gives a job's next piece to the engine; returns it if there is no room.
    fn begin(&mut self, progress: Progress) -> Option<Progress> {
        let Progress { job, done, .. } = &progress;
        let lba = |offset: u64| (offset + done) / 512;
        let piece = |total: u64, most: u64| (total - done).min(most).min(self.machine.buffer_bytes_max());
        let (kind, bytes, total) = match &job.op {
            Op::Read { offset, length } => {
                let bytes = piece((*length).into(), u64::MAX);
                let blocks = (bytes / 512) as u32;
                (Kind::Read { lba: lba(*offset), blocks }, bytes, u64::from(*length))
            }
            Op::Write { offset, data, .. } => {
                let bytes = piece(data.len() as u64, u64::MAX);
                let blocks = (bytes / 512) as u32;
                (Kind::Write { lba: lba(*offset), blocks }, bytes, data.len() as u64)
            }
            Op::Zeros { offset, length, .. } => {
                let bytes = (u64::from(*length) - done).min(ZEROS_BYTES);
                let blocks = (bytes / 512) as u32;
                let memory = (ZERO_BUFFER_BYTES as u64).min(self.machine.buffer_bytes_max());
                (Kind::Zero { lba: lba(*offset), blocks }, memory, u64::from(*length))
            }
            Op::Flush => (Kind::Flush, 0, 0),
            Op::Trim { offset, length } => {
                let Some((lba, blocks, how)) = self.freed(offset / 512, length / 512) else {
                    // A wish that the card cannot fulfil exactly: what is not wanted stays.
                    (progress.job.done)(Outcome::Done);
                    return None;
                };
                (Kind::Erase { lba, blocks, how }, 0, 0)
            }
            Op::Status { offset, length, one } => {
                let extents = self.extents.of(*offset, *length, *one);
                (progress.job.done)(Outcome::Extents(extents));
                return None;
            }
        };
        let mut memory = DmaBuf::EMPTY;
        if bytes > 0 {
            let Some(buffer) = self.machine.buffer(bytes as usize) else { return Some(progress) };
            memory = buffer;
        }
        let mut durable = false;
        match &job.op {
            Op::Write { data, durable: asked, .. } => {
                let (at, bytes) = (*done as usize, bytes as usize);
                memory[..bytes].copy_from_slice(&data[at..at + bytes]);
                durable = *asked;
            }
            Op::Zeros { .. } => memory.fill(0),
            _ => {}
        }
        let request = Request::new(kind, memory);
        match self.machine.submit(if durable { request.durable() } else { request }) {
            Ok(id) => {
                match &job.op {
                    Op::Write { offset, data, .. } => self.extents.written(*offset, data.len() as u64),
                    // What is freed may read as ones.
                    Op::Trim { offset, length } => self.extents.written(*offset, u64::from(*length)),
                    _ => {}
                }
                if let Some(place) = self.running.get_mut(id.index()) {
                    *place = Some(Running { id, progress, total });
                    self.under_way += 1;
                }
                None
            }
            Err((error, request)) => {
                self.machine.free(request.buf);
                if error == Error::Full {
                    return Some(progress);
                }
                (progress.job.done)(failed(error));
                None
            }
        }
    }

    /// The part of a range that the card can free, and how.
    fn freed(&self, lba: u64, blocks: u32) -> Option<(u64, u32, Erase)> {
        let (how, grain) = self.machine.discarding().map(|(how, grain)| (how, grain.max(1)))?;
        let first = lba.next_multiple_of(grain);
        let end = (lba + u64::from(blocks)) / grain * grain;
        let blocks = u32::try_from(end.checked_sub(first)?).ok().filter(|&blocks| blocks > 0)?;
        Some((first, blocks, how))
    }

    /// Moves the machine on by one event. `Some`: it is not time yet for so long.
    fn step(&mut self) -> Result<Option<Duration>, String> {
        match self.machine.step()? {
            Step::Wait(wait) => Ok(Some(wait)),
            Step::Done(completed) => {
                self.completed(completed);
                Ok(None)
            }
        }
    }

    fn completed(&mut self, mut completed: u64) {
        while completed != 0 {
            let index = completed.trailing_zeros() as usize;
            completed &= completed - 1;
            self.complete(index);
        }
    }

    fn complete(&mut self, index: usize) {
        let Some(running) = self.running.get_mut(index).and_then(Option::take) else { return };
        self.under_way -= 1;
        let Some(completion) = self.machine.take(running.id) else { return };
        let Running { mut progress, total, .. } = running;
        let outcome = match completion.result {
            Err(error) => Some(failed(error)),
            Ok(output) => {
                if matches!(progress.job.op, Op::Read { .. }) {
                    progress.read.extend_from_slice(&completion.buf[..output.bytes as usize]);
                }
                progress.done += u64::from(output.bytes);
                if progress.done < total { None } else { self.ended(&mut progress) }
            }
        };
        self.machine.free(completion.buf);
        match outcome {
            Some(outcome) => (progress.job.done)(outcome),
            // Before those that came later: its next piece.
            None => self.waiting.push_front(progress),
        }
    }

    /// All pieces of a job are done. `None`: it goes on as another.
    fn ended(&mut self, progress: &mut Progress) -> Option<Outcome> {
        let Progress { job, done, read } = progress;
        match &job.op {
            Op::Zeros { offset, length, hole, durable } => {
                if *hole {
                    self.extents.zeroed(*offset, u64::from(*length));
                }
                if *durable {
                    (job.op, *done) = (Op::Flush, 0);
                    return None;
                }
                Some(Outcome::Done)
            }
            Op::Read { .. } => Some(Outcome::Data(std::mem::take(read))),
            // The promise of earlier flushes holds; what came after them may be gone.
            Op::Flush if self.untold.remove(&job.client) => Some(Outcome::Failed(
                Errno::Io,
                "the card lost its power: unflushed writes may be gone".into(),
            )),
            _ => Some(Outcome::Done),
        }
    }

    /// The supply fails: what is under way fails with it, and the card starts anew.
    fn power_cut(&mut self) -> Result<Damage, String> {
        let lost_sectors = self.machine.power_cut()?;
        let damage = Damage { failed: self.under_way, waiting: self.waiting.len(), lost_sectors };
        for running in self.running.iter_mut().filter_map(Option::take) {
            (running.progress.job.done)(Outcome::Failed(Errno::Io, "the card lost its power".to_owned()));
        }
        self.under_way = 0;
        self.untold.clone_from(&self.clients);
        Ok(damage)
    }

    /// Serves nobody any more; what the card has in its cache goes to its medium.
    fn end(mut self, messages: &Receiver<Message>) -> Result<(), String> {
        let refuse = |job: Job| (job.done)(Outcome::Failed(Errno::ShutDown, "the server ends".to_owned()));
        for progress in self.waiting.drain(..) {
            refuse(progress.job);
        }
        let (told, result) = std::sync::mpsc::channel();
        let done = Box::new(move |outcome| drop(told.send(outcome)));
        self.waiting.push_back(Progress::new(Job { client: u64::MAX, op: Op::Flush, done }));
        while self.under_way > 0 || !self.waiting.is_empty() {
            self.admit();
            if let Some(wait) = self.step()? {
                match messages.recv_timeout(wait) {
                    Ok(Message::Job(job)) => refuse(job),
                    Ok(message @ Message::Interrupt) => self.take(message, &|_| {})?,
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
                }
            }
        }
        match result.try_recv() {
            Ok(Outcome::Failed(_, why)) => Err(format!("the last flush failed: {why}")),
            _ => Ok(()),
        }
    }
}

fn failed(error: Error) -> Outcome {
    let errno = match error {
        Error::ReadOnly | Error::Protected => Errno::Permission,
        Error::OutOfRange { .. } | Error::Unsupported => Errno::Invalid,
        _ => Errno::Io,
    };
    Outcome::Failed(errno, error.to_string())
}

/// The map of an image file: its holes read as zeros.
pub fn map_of(path: &Path) -> std::io::Result<Extents> {
    Extents::of_file(&std::fs::File::open(path)?)
}

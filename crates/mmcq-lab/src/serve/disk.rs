//! The card behind the export: one thread that owns the machine and moves it, and a queue of jobs to it.

use super::extents::Extents;
use super::protocol::Errno;
use crate::board::{Board, BoardError, Price};
use crate::buffers;
use crate::platform::Platform;
use mmcq::engine::{DmaBuf, Erase, Error, Kind, Request, SlotId};
use mmcq_sim::card::Medium;
use mmcq_sim::world::Device;
use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Requests that the engine has at a time.
const SLOTS: usize = 64;
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
    /// The card's supply fails now, and comes back.
    PowerCut,
    /// No more jobs: flush, and end.
    Stop,
}

/// What the machine is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The board.
    pub platform: Platform,
    /// The card, if not the board's own.
    pub card: Option<String>,
    /// The bytes.
    pub image: PathBuf,
    /// They may change.
    pub writable: bool,
    /// Virtual time runs no faster than real time.
    pub paced: bool,
}

impl Setup {
    fn board(&self) -> Result<Board<SLOTS>, BoardError> {
        let medium = Medium::image(&self.image, !self.writable)?;
        let board = Board::new(&self.platform, self.card.as_deref(), Some(medium), Price::Nothing)?;
        board.equip().map_err(|error| BoardError::BringUp {
            platform: self.platform.name.clone(),
            card: self.card.clone().unwrap_or_else(|| self.platform.card.clone()),
            error,
        })?;
        Ok(board)
    }
}

/// A job under way.
struct Running {
    id: SlotId,
    job: Job,
    /// Bytes of the job that are done, and how many there are.
    done: u64,
    total: u64,
}

/// The machine at work.
pub struct Disk {
    setup: Setup,
    board: Board<SLOTS>,
    extents: Extents,
    waiting: VecDeque<(Job, u64)>,
    running: [Option<Running>; SLOTS],
    under_way: usize,
    /// Clients that have not been told yet that the power failed.
    untold: HashSet<u64>,
    clients: HashSet<u64>,
    /// Where virtual and real time were equal.
    origin: (Instant, u64),
}

impl Disk {
    /// Brings the card up. `extents`: what of the image is known to be zeros.
    pub fn new(setup: Setup, extents: Extents) -> Result<Self, BoardError> {
        let board = setup.board()?;
        let origin = (Instant::now(), board.time.now());
        Ok(Disk {
            setup,
            board,
            extents,
            waiting: VecDeque::new(),
            running: [const { None }; SLOTS],
            under_way: 0,
            untold: HashSet::new(),
            clients: HashSet::new(),
            origin,
        })
    }

    /// Blocks of 512 bytes.
    pub fn blocks(&self) -> u64 {
        self.board.card.target.sectors
    }

    /// Serves until told to stop, or until nobody is left who could ask.
    pub fn run(mut self, messages: &Receiver<Message>) -> Result<(), String> {
        loop {
            if self.under_way == 0 && self.waiting.is_empty() {
                match messages.recv() {
                    Ok(message) if !matches!(message, Message::Stop) => self.take(message)?,
                    _ => return self.end(),
                }
                self.catch_up();
            }
            loop {
                match messages.try_recv() {
                    Ok(Message::Stop) | Err(TryRecvError::Disconnected) => return self.end(),
                    Ok(message) => self.take(message)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.admit();
            if self.under_way > 0
                && let Some(wait) = self.step()?
            {
                match messages.recv_timeout(wait) {
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return self.end(),
                    Ok(message) => self.take(message)?,
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<(), String> {
        match message {
            Message::Job(job) => {
                self.clients.insert(job.client);
                self.waiting.push_back((job, 0));
            }
            Message::PowerCut => self.power_cut()?,
            Message::Stop => {}
        }
        Ok(())
    }

    /// While nothing was to be done, time went on all the same.
    fn catch_up(&mut self) {
        if self.setup.paced {
            self.board.time.set(self.board.time.now().max(self.real_ns()));
        }
    }

    /// Real time as virtual time.
    fn real_ns(&self) -> u64 {
        let elapsed = u64::try_from(self.origin.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.origin.1.saturating_add(elapsed)
    }

    /// Hands waiting jobs to the engine as far as it has room.
    fn admit(&mut self) {
        while let Some((job, done)) = self.waiting.pop_front() {
            if let Some((job, done)) = self.begin(job, done) {
                self.waiting.push_front((job, done));
                return;
            }
        }
    }

    /// Gives a job's next piece to the engine; returns it if there is no room.
    fn begin(&mut self, job: Job, done: u64) -> Option<(Job, u64)> {
        let at = |offset: u64| (offset + done) / 512;
        let (request, total) = match &job.op {
            Op::Read { offset, length } => {
                let kind = Kind::Read { lba: at(*offset), blocks: *length / 512 };
                (Request::new(kind, buffers::piece(*length as usize)), u64::from(*length))
            }
            Op::Write { offset, data, durable } => {
                let kind = Kind::Write { lba: at(*offset), blocks: data.len() as u32 / 512 };
                let mut memory = buffers::piece(data.len());
                memory.copy_from_slice(data);
                let request = Request::new(kind, memory);
                (if *durable { request.durable() } else { request }, data.len() as u64)
            }
            Op::Zeros { offset, length, .. } => {
                let bytes = (u64::from(*length) - done).min(ZEROS_BYTES);
                let kind = Kind::Zero { lba: at(*offset), blocks: (bytes / 512) as u32 };
                (Request::new(kind, buffers::piece(ZERO_BUFFER_BYTES)), u64::from(*length))
            }
            Op::Flush => (Request::new(Kind::Flush, DmaBuf::EMPTY), 0),
            Op::Trim { offset, length } => {
                let Some((lba, blocks, how)) = self.freed(offset / 512, length / 512) else {
                    // A wish that the card cannot fulfil exactly: what is not wanted stays.
                    (job.done)(Outcome::Done);
                    return None;
                };
                (Request::new(Kind::Erase { lba, blocks, how }, DmaBuf::EMPTY), 0)
            }
            Op::Status { offset, length, one } => {
                let extents = self.extents.of(*offset, *length, *one);
                (job.done)(Outcome::Extents(extents));
                return None;
            }
        };
        let now_ns = self.board.time.now();
        match self.board.stack.with(|engine| engine.submit(request, now_ns)) {
            Ok(id) => {
                match &job.op {
                    Op::Write { offset, data, .. } => self.extents.written(*offset, data.len() as u64),
                    // What is freed may read as ones.
                    Op::Trim { offset, length } => self.extents.written(*offset, u64::from(*length)),
                    _ => {}
                }
                if let Some(place) = self.running.get_mut(id.index()) {
                    *place = Some(Running { id, job, done, total });
                    self.under_way += 1;
                }
                None
            }
            Err((error, request)) => {
                buffers::free(request.buf);
                if error == Error::Full {
                    return Some((job, done));
                }
                (job.done)(failed(error));
                None
            }
        }
    }

    /// The part of a range that the card can free, and how.
    fn freed(&self, lba: u64, blocks: u32) -> Option<(u64, u32, Erase)> {
        let (how, grain) = self.board.stack.with(|engine| {
            let erase = &engine.abilities().erase;
            erase.discarding().map(|how| (how, u64::from(erase.grain_blocks(how)).max(1)))
        })?;
        let first = lba.next_multiple_of(grain);
        let end = (lba + u64::from(blocks)) / grain * grain;
        let blocks = u32::try_from(end.checked_sub(first)?).ok().filter(|&blocks| blocks > 0)?;
        Some((first, blocks, how))
    }

    /// Moves the machine on by one event. `Some`: it is not time yet for so long.
    fn step(&mut self) -> Result<Option<Duration>, String> {
        let controller = &mut self.board.controller;
        let work = if controller.irq() {
            let now_ns = self.board.time.now();
            self.board.stack.with(|engine| engine.on_irq(now_ns))
        } else {
            let deadline = self.board.stack.with(|engine| engine.next_deadline_ns());
            let now_ns = self.board.time.now();
            let Some(next_ns) = [deadline, controller.next_event_ns()].into_iter().flatten().min() else {
                return Err("the machine stands still with requests under way".to_owned());
            };
            let next_ns = next_ns.max(now_ns);
            if self.setup.paced && next_ns > self.real_ns() {
                return Ok(Some(Duration::from_nanos(next_ns - self.real_ns())));
            }
            let reached = self.board.controller.advance(next_ns);
            self.board.time.set(reached.max(now_ns));
            if self.board.controller.irq() {
                return Ok(None);
            }
            let now_ns = self.board.time.now();
            self.board.stack.with(|engine| engine.poll(now_ns))
        };
        let mut completed = work.completed;
        while completed != 0 {
            let index = completed.trailing_zeros() as usize;
            completed &= completed - 1;
            self.complete(index);
        }
        Ok(None)
    }

    fn complete(&mut self, index: usize) {
        let Some(running) = self.running.get_mut(index).and_then(Option::take) else { return };
        self.under_way -= 1;
        let Some(completion) = self.board.stack.with(|engine| engine.take(running.id)) else { return };
        let Running { mut job, mut done, total, .. } = running;
        let outcome = match completion.result {
            Err(error) => failed(error),
            Ok(output) => {
                done += u64::from(output.bytes);
                match &job.op {
                    Op::Zeros { .. } if done < total => {
                        buffers::free(completion.buf);
                        self.waiting.push_front((job, done));
                        return;
                    }
                    Op::Zeros { offset, length, hole, durable } => {
                        if *hole {
                            self.extents.zeroed(*offset, u64::from(*length));
                        }
                        if *durable {
                            buffers::free(completion.buf);
                            job.op = Op::Flush;
                            self.waiting.push_front((job, 0));
                            return;
                        }
                        Outcome::Done
                    }
                    Op::Read { .. } => Outcome::Data(completion.buf.to_vec()),
                    // The promise of earlier flushes holds; what came after them may be gone.
                    Op::Flush if self.untold.remove(&job.client) => Outcome::Failed(
                        Errno::Io,
                        "the card lost its power: unflushed writes may be gone".into(),
                    ),
                    _ => Outcome::Done,
                }
            }
        };
        buffers::free(completion.buf);
        let done = std::mem::replace(&mut job.done, Box::new(|_| {}));
        done(outcome);
    }

    /// The supply fails: what is under way fails with it, and the card starts anew.
    fn power_cut(&mut self) -> Result<(), String> {
        let now_ns = self.board.time.now();
        self.board.controller.power_cut(now_ns);
        for running in self.running.iter_mut().filter_map(Option::take) {
            (running.job.done)(Outcome::Failed(Errno::Io, "the card lost its power".to_owned()));
        }
        self.under_way = 0;
        self.untold.clone_from(&self.clients);
        // The medium is an image: the new card finds what the old one kept.
        self.board = self.setup.board().map_err(|e| e.to_string())?;
        self.origin = (Instant::now(), self.board.time.now());
        Ok(())
    }

    /// Serves nobody any more; what the card has in its cache goes to its medium.
    fn end(mut self) -> Result<(), String> {
        for (job, _) in self.waiting.drain(..) {
            (job.done)(Outcome::Failed(Errno::ShutDown, "the server ends".to_owned()));
        }
        let (told, result) = std::sync::mpsc::channel();
        let done = Box::new(move |outcome| drop(told.send(outcome)));
        self.waiting.push_back((Job { client: u64::MAX, op: Op::Flush, done }, 0));
        while self.under_way > 0 || !self.waiting.is_empty() {
            self.admit();
            if let Some(wait) = self.step()? {
                std::thread::sleep(wait);
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

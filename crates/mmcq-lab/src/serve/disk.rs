//! The thread that executes all operations of the NBD server. It owns the machine with the card,
//! and the queue of operations (jobs) that clients have requested.

use super::extents::{Ended, Extents};
use super::losses::Losses;
use super::machine::{Machine, SLOTS, Step};
use super::protocol::Errno;
use mmcq::engine::{Completion, DmaBuf, Erase, Error, Kind, Request, SlotId, SlotSet};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

/// Size in bytes of the pieces into which a request for zeros is divided.
const ZEROS_BYTES: u64 = 16 << 20;
/// Size in bytes of the buffer full of zeros, from which zeros are written to the card.
const ZERO_BUFFER_BYTES: usize = 64 << 10;

/// Text of the refusal of a flush: the card has done this flush, but acknowledged writes before it
/// may be lost.
const LOST: &str = "the card lost its power or its cache: writes that were not flushed may be gone";

/// Operation that a client requests; offsets and lengths are in bytes and already checked.
#[derive(Debug)]
pub enum Op {
    /// Reads data from the card.
    Read { offset: u64, length: u32 },
    /// Writes data to the card. `durable`: the request ends only when the data are on the medium.
    Write { offset: u64, data: Vec<u8>, durable: bool },
    /// Flushes: all earlier writes reach the medium.
    Flush,
    /// Trims: the client does not need these data any more.
    Trim { offset: u64, length: u32, durable: bool },
    /// Writes zeros to the range. `hole`: the blocks may also be erased, so that the range counts
    /// as a hole. `durable`: the request ends only when the zeros are on the medium.
    Zeros { offset: u64, length: u32, hole: bool, durable: bool },
    /// Asks which ranges hold data and which are holes that read as zeros. The answer is a list of
    /// lengths, each with true for a hole. `one`: the client wants only the first of them.
    Status { offset: u64, length: u32, one: bool },
}

/// Result of an operation that a client requested.
#[derive(Debug)]
pub enum Outcome {
    /// The operation is done and has no data to return.
    Done,
    /// Data that a read has returned.
    Data(Vec<u8>),
    /// Ranges that a status query asked for: the length of each, and true for a hole.
    Extents(Vec<(u32, bool)>),
    /// The operation failed; the text says why.
    Failed(Errno, String),
    /// A flush is refused because earlier writes were lost. The connection sends
    /// [`Message::RefusalWritten`] when it has written the refusal to the client's socket.
    Lost(String),
}

/// An operation that a client has requested, on its way to the thread that executes all operations
/// (the disk's thread).
pub struct Job {
    /// Number of the connection that sent the job.
    pub client: u64,
    /// Operation that the disk must execute.
    pub op: Op,
    /// Function that the disk's thread calls once with the result.
    pub done: Box<dyn FnOnce(Outcome) + Send>,
}

/// A message to the disk's thread.
pub enum Message {
    /// A client has connected.
    Came(u64),
    /// A request of a client, which the disk must execute.
    Job(Job),
    /// The refusal that reports a loss ([`Outcome::Lost`]) has been written to a client's socket.
    RefusalWritten(u64),
    /// A client has disconnected, and all its jobs have ended.
    Left {
        /// Number of the client that has disconnected.
        client: u64,
        /// Whether the client disconnected in order, after all answers.
        in_order: bool,
    },
    /// The interrupt of the controller, simulated or in a real card reader, must be handled.
    Interrupt,
    /// The card's power must be cut and restored now.
    PowerCut,
    /// No more jobs will come: the disk must flush and end.
    Stop,
}

/// What a power cut of the card did to requests and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Number of requests that were under way and failed.
    pub failed: usize,
    /// Number of requests that wait and that the card will execute when the power is back.
    pub waiting: usize,
    /// Number of sectors that were written but not flushed, and have their old content.
    pub lost_sectors: u64,
}

/// State of a job that has not ended.
struct Progress {
    job: Job,
    /// Number of bytes of the client's operation ([`Job`]) that the card has transferred so far.
    done: u64,
    /// Data that the job has read so far.
    read: Vec<u8>,
    /// Number that the map of holes has given to this job's change of the map; `None`: the job does
    /// not change the map.
    change: Option<u64>,
    /// Number of losses of written data that the card had had when the job began.
    losses: u64,
    /// Whether only the flush that makes the job durable is still to do.
    flushing: bool,
    /// Number of acknowledged writes of all clients that the job's flush covers.
    covered: u64,
}

impl Progress {
    fn new(job: Job) -> Self {
        let read = Vec::new();
        Progress { job, done: 0, read, change: None, losses: 0, flushing: false, covered: 0 }
    }

    fn flushes(&self) -> bool {
        self.flushing || matches!(self.job.op, Op::Flush)
    }
}

/// A job that has a request in the engine. `total`: number of bytes of the whole job (its request
/// in the engine may be only a piece of it); 0 for a flush and a trim.
struct Running {
    id: SlotId,
    progress: Progress,
    total: u64,
}

/// The card of the export, with the jobs of its clients.
pub struct Disk {
    machine: Box<dyn Machine>,
    extents: Extents,
    waiting: VecDeque<Progress>,
    running: [Option<Running>; SLOTS],
    under_way: usize,
    losses: Losses,
}

impl Disk {
    /// Makes the disk. `extents`: the parts of the card that are known to read as zeros.
    pub fn new(machine: Box<dyn Machine>, extents: Extents) -> Self {
        Disk {
            machine,
            extents,
            waiting: VecDeque::new(),
            running: [const { None }; SLOTS],
            under_way: 0,
            losses: Losses::default(),
        }
    }

    /// Makes the machine send [`Message::Interrupt`] through `disk`, which leads to this disk's
    /// queue, whenever its interrupt must be handled.
    pub fn listen(&mut self, disk: Sender<Message>) {
        self.machine.listen(Box::new(move || disk.send(Message::Interrupt).is_ok()));
    }

    /// Serves until [`Message::Stop`], or until no sender is left that could send a job. Calls
    /// `cut` with the effects of each power cut.
    ///
    /// # Errors
    /// The machine failed, or the last flush failed. Also an error: acknowledged writes are lost,
    /// or may be lost since no flush covered them, and a client may not know it. No later server
    /// can tell the client.
    pub fn run(mut self, messages: &Receiver<Message>, cut: &dyn Fn(Damage)) -> Result<(), String> {
        let result = self.work(messages, cut);
        let untold = match self.losses.untold() {
            0 if self.losses.unflushed() => {
                Some("acknowledged writes that were not flushed may be lost".to_owned())
            }
            0 => None,
            connections => Some(format!(
                "acknowledged writes are lost, and {connections} of the connections that made them may not know"
            )),
        };
        match (result, untold) {
            (result, None) => result,
            (Ok(()), Some(untold)) => Err(untold),
            (Err(why), Some(untold)) => Err(format!("{why}; {untold}")),
        }
    }

    fn work(&mut self, messages: &Receiver<Message>, cut: &dyn Fn(Damage)) -> Result<(), String> {
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
            Message::Came(client) => self.losses.came(client),
            Message::Job(job) => {
                self.losses.asked(job.client);
                self.waiting.push_back(Progress::new(job));
            }
            Message::RefusalWritten(client) => self.losses.refusal_written(client),
            Message::Left { client, in_order } => self.losses.left(client, in_order),
            Message::Interrupt => {
                let completed = self.machine.interrupted()?;
                self.completed(completed);
            }
            Message::PowerCut => cut(self.power_cut()?),
            Message::Stop => {}
        }
        Ok(())
    }

    /// Passes waiting jobs to the engine while the engine has free slots.
    fn admit(&mut self) {
        while let Some(progress) = self.waiting.pop_front() {
            if let Some(progress) = self.begin(progress) {
                self.waiting.push_front(progress);
                return;
            }
        }
    }

    /// Passes the next part of a job to the engine, as one request. Returns the job if the engine
    /// has no room for it now.
    fn begin(&mut self, mut progress: Progress) -> Option<Progress> {
        if progress.change.is_none() && progress.done == 0 {
            let durable = matches!(
                progress.job.op,
                Op::Write { durable: true, .. }
                    | Op::Zeros { durable: true, .. }
                    | Op::Trim { durable: true, .. }
            );
            if durable && self.losses.refuses_write(progress.job.client) {
                self.end_job(progress, Outcome::Failed(Errno::Io, LOST.to_owned()));
                return None;
            }
            progress.losses = self.losses.count();
        }
        let Progress { job, done, .. } = &progress;
        let lba = |offset: u64| (offset + done) / 512;
        let piece = |total: u64, most: u64| (total - done).min(most).min(self.machine.buffer_bytes_max());
        let (kind, bytes, total) = match &job.op {
            _ if progress.flushes() => (Kind::Flush, 0, 0),
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
            Op::Trim { offset, length, .. } => {
                let Some((lba, blocks, how)) = self.freed(offset / 512, length / 512) else {
                    // The card cannot trim exactly this range, so its data stay. Trim is only a
                    // hint.
                    self.end_job(progress, Outcome::Done);
                    return None;
                };
                (Kind::Erase { lba, blocks, how }, 0, 0)
            }
            Op::Status { offset, length, one } => {
                let extents = self.extents.of(*offset, *length, *one);
                self.end_job(progress, Outcome::Extents(extents));
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
            Op::Zeros { .. } if bytes > 0 => memory.fill(0),
            _ => {}
        }
        let request = Request::new(kind, memory);
        match self.machine.submit(if durable { request.durable() } else { request }) {
            Ok(id) => {
                self.begun(&mut progress);
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
                let outcome = self.failed(&progress, error);
                self.end_job(progress, outcome);
                None
            }
        }
    }

    /// Records that the engine has accepted a request that does a part of this client's operation.
    fn begun(&mut self, progress: &mut Progress) {
        if progress.flushes() {
            progress.covered = self.losses.covered();
        }
        let changed = match &progress.job.op {
            Op::Write { offset, data, .. } => (*offset, data.len() as u64, false),
            // A trimmed range may read as ones.
            Op::Trim { offset, length, .. } => (*offset, u64::from(*length), false),
            Op::Zeros { offset, length, .. } => (*offset, u64::from(*length), true),
            _ => return,
        };
        let (offset, length, zeros) = changed;
        let extents = &mut self.extents;
        progress.change.get_or_insert_with(|| extents.begins(offset, length, zeros));
    }

    /// Returns the part of a range that the card can free (address and number of blocks), and the
    /// kind of erase that frees it; `None`: the card can free no part.
    fn freed(&self, lba: u64, blocks: u32) -> Option<(u64, u32, Erase)> {
        let (how, grain) = self.machine.discarding().map(|(how, grain)| (how, grain.max(1)))?;
        let first = lba.next_multiple_of(grain);
        let end = (lba + u64::from(blocks)) / grain * grain;
        let blocks = u32::try_from(end.checked_sub(first)?).ok().filter(|&blocks| blocks > 0)?;
        Some((first, blocks, how))
    }

    /// Advances the machine by one event. Returns `Some` with the time until the next event if none
    /// is due.
    fn step(&mut self) -> Result<Option<Duration>, String> {
        match self.machine.step()? {
            Step::Wait(wait) => Ok(Some(wait)),
            Step::Done(completed) => {
                self.completed(completed);
                Ok(None)
            }
        }
    }

    fn completed(&mut self, mut completed: SlotSet) {
        let mut ended = Vec::with_capacity(completed.count_ones() as usize);
        while completed != 0 {
            let index = completed.trailing_zeros() as usize;
            completed &= completed - 1;
            let Some(running) = self.running.get_mut(index).and_then(Option::take) else { continue };
            self.under_way -= 1;
            let Some(completion) = self.machine.take(running.id) else { continue };
            ended.push((running, completion));
        }
        // Requests that report a loss come first, before any other result is acknowledged.
        ended.sort_by_key(|(running, completion)| {
            let error = completion.result.err();
            !(error == Some(Error::CacheLost) || error.is_some() && running.progress.flushes())
        });
        for (running, completion) in ended {
            self.complete(running, completion);
        }
    }

    fn complete(&mut self, running: Running, completion: Completion) {
        let Running { mut progress, total, .. } = running;
        let outcome = match completion.result {
            Err(error) => Some(self.failed(&progress, error)),
            Ok(output) => {
                if matches!(progress.job.op, Op::Read { .. }) {
                    progress.read.extend_from_slice(&completion.buf[..output.bytes as usize]);
                }
                if !progress.flushing {
                    progress.done += u64::from(output.bytes);
                }
                if progress.done < total { None } else { self.ended(&mut progress) }
            }
        };
        self.machine.free(completion.buf);
        match outcome {
            Some(outcome) => self.end_job(progress, outcome),
            // The next piece of this job goes before jobs that came later.
            None => self.waiting.push_front(progress),
        }
    }

    /// Ends a job whose parts are all done, and returns its result. Returns `None` if a flush must
    /// still make the job durable.
    fn ended(&mut self, progress: &mut Progress) -> Option<Outcome> {
        let client = progress.job.client;
        if progress.flushes() {
            self.losses.flushed(progress.covered);
            self.extents.flushed(progress.covered);
        }
        // A piece that was written before a loss may be lost, too.
        let whole = progress.losses == self.losses.count();
        match &progress.job.op {
            Op::Read { .. } => Some(Outcome::Data(std::mem::take(&mut progress.read))),
            Op::Flush if self.losses.refuses_flush(client) => Some(Outcome::Lost(LOST.to_owned())),
            Op::Flush | Op::Status { .. } | Op::Write { durable: true, .. } => Some(Outcome::Done),
            _ if !whole => Some(Outcome::Failed(Errno::Io, LOST.to_owned())),
            Op::Zeros { durable: true, .. } | Op::Trim { durable: true, .. } if !progress.flushing => {
                progress.flushing = true;
                None
            }
            Op::Zeros { durable: true, .. } | Op::Trim { durable: true, .. } => Some(Outcome::Done),
            Op::Write { .. } | Op::Zeros { .. } | Op::Trim { .. } => {
                self.losses.acknowledged(client);
                Some(Outcome::Done)
            }
        }
    }

    /// Handles a failed request of a job, and returns the job's result. A failed flush, or a lost
    /// cache, affects all writes before it, and the engine reports it only once.
    fn failed(&mut self, progress: &Progress, error: Error) -> Outcome {
        let client = progress.job.client;
        if error == Error::CacheLost || progress.flushes() {
            self.losses.lost();
            self.extents.lost();
            if matches!(progress.job.op, Op::Flush) {
                self.losses.refuses_flush(client);
                return Outcome::Lost(error.to_string());
            }
            self.losses.refuses_write(client);
        }
        let errno = match error {
            Error::Protected | Error::Locked => Errno::Permission,
            Error::OutOfRange { .. } | Error::Unsupported => Errno::Invalid,
            _ => Errno::Io,
        };
        Outcome::Failed(errno, error.to_string())
    }

    fn end_job(&mut self, progress: Progress, outcome: Outcome) {
        if let Some(change) = progress.change {
            let done = matches!(outcome, Outcome::Done);
            let how = match progress.job.op {
                Op::Zeros { hole: true, durable, .. } if done => {
                    Ended::Hole { acknowledged: (!durable).then(|| self.losses.covered()) }
                }
                _ => Ended::Data,
            };
            self.extents.ends(change, how);
        }
        (progress.job.done)(outcome);
    }

    /// Cuts the card's power and restores it. Requests under way fail, and the card is initialised
    /// again. Returns how many requests failed, how many wait, and how many sectors have their old
    /// content.
    fn power_cut(&mut self) -> Result<Damage, String> {
        let lost_sectors = self.machine.power_cut()?;
        let damage = Damage { failed: self.under_way, waiting: self.waiting.len(), lost_sectors };
        self.losses.supply_failed();
        self.extents.lost();
        for running in std::mem::replace(&mut self.running, [const { None }; SLOTS]).into_iter().flatten() {
            let progress = running.progress;
            let outcome = match progress.job.op {
                Op::Flush if self.losses.refuses_flush(progress.job.client) => Outcome::Lost(LOST.to_owned()),
                _ => Outcome::Failed(Errno::Io, "the card lost its power".to_owned()),
            };
            self.end_job(progress, outcome);
        }
        self.under_way = 0;
        for progress in &mut self.waiting {
            // Pieces that were written may be lost, so the job starts again.
            (progress.done, progress.flushing, progress.losses) = (0, false, self.losses.count());
            progress.read.clear();
        }
        Ok(damage)
    }

    /// Ends the service: refuses all waiting jobs, and flushes the card's cache.
    fn end(&mut self, messages: &Receiver<Message>) -> Result<(), String> {
        let refuse = |job: Job| (job.done)(Outcome::Failed(Errno::ShutDown, "the server ends".to_owned()));
        for progress in self.waiting.drain(..) {
            refuse(progress.job);
        }
        let (told, result) = std::sync::mpsc::channel();
        let done = Box::new(move |outcome| drop(told.send(outcome)));
        // The flush must come after the last piece of the jobs under way, since it covers only
        // earlier writes.
        let mut flush = Some(Progress::new(Job { client: u64::MAX, op: Op::Flush, done }));
        loop {
            if self.under_way == 0 && self.waiting.is_empty() {
                match flush.take() {
                    Some(flush) => self.waiting.push_back(flush),
                    None => break,
                }
            }
            self.admit();
            if let Some(wait) = self.step()? {
                match messages.recv_timeout(wait) {
                    Ok(Message::Job(job)) => refuse(job),
                    Ok(
                        message @ (Message::Interrupt | Message::RefusalWritten(_) | Message::Left { .. }),
                    ) => {
                        self.take(message, &|_| {})?;
                    }
                    Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
                }
            }
        }
        match result.try_recv() {
            Ok(Outcome::Failed(_, why) | Outcome::Lost(why)) => Err(format!("the last flush failed: {why}")),
            _ => Ok(()),
        }
    }
}

/// Returns the map of holes of an image file, in which the file's holes read as zeros.
pub fn map_of(path: &Path) -> std::io::Result<Extents> {
    Extents::of_file(&std::fs::File::open(path)?)
}

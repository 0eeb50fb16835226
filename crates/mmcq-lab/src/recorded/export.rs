//! Exports a run as Linux's block layer would have recorded it: a file of blktrace, or a list of
//! its requests ([`snoop`](super::snoop)).
//!
//! Each I/O is a separate request. It arrives (Q, G, I), is given to the driver (D) and completes
//! (C). The time of D is the start of a data command on the bus:
//!
//! - the command that names the I/O's first block;
//! - for an I/O that continues another I/O, the command of that other I/O;
//! - if no command names the I/O (its transfer was already open, or it was packed), the newest data
//!   command since its arrival;
//! - for a flush, the command that flushes the card's cache, which may serve several flushes.
//!
//! Times count from the start of the load.

use super::blktrace::{MAGIC, RECORD_BYTES, category, event};
use crate::system::{How, Io, System};
use mmcq::host::Direction;
use mmcq_sim::stats::BusEvent;
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::rc::Rc;

/// Byte of the EXT_CSD by which a host flushes the cache.
const FLUSH_CACHE: u32 = 32;
/// Device number of mmcblk0 in the recording: major 179, minor 0.
const DEVICE: u32 = 179 << 20;

thread_local! {
    /// Recorder of the requests of the machine that this thread runs; `None`: nothing is recorded.
    static KEEPER: RefCell<Option<Rc<RefCell<Keeper>>>> = const { RefCell::new(None) };
}

/// Event of a request, as it will be written to blktrace's file.
struct Row {
    at_ns: u64,
    code: u32,
    io: Io,
    ok: bool,
}

/// An I/O that is under way: the stack has not completed it.
struct Open {
    io: Io,
    came_ns: u64,
    driver_ns: Option<u64>,
    went_ns: Option<u64>,
}

/// Returns whether an I/O is a flush of the card's cache.
pub(super) fn is_flush(io: &Io) -> bool {
    io.blocks == 0
}

/// A completed I/O of the recorded run. Times count from the start of the load.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// I/O that is complete.
    pub io: Io,
    /// Time in ns at which the job submitted the I/O.
    pub came_ns: u64,
    /// Time in ns at which the driver got the I/O: when it was taken from the scheduler, or at once
    /// where the driver is the scheduler.
    pub driver_ns: u64,
    /// Time in ns at which the I/O's data command, or the flush of the card that served it, began.
    pub went_ns: u64,
    /// Time in ns at which the I/O was complete.
    pub done_ns: u64,
    /// Whether the I/O succeeded.
    pub ok: bool,
}

#[derive(Default)]
struct Keeper {
    begin_ns: u64,
    block_addressed: bool,
    jobs: u32,
    rows: Vec<Row>,
    completed: Vec<Completed>,
    open: Vec<Open>,
    /// Time in ns at which the newest data command on the bus began.
    command_ns: u64,
}

impl Keeper {
    fn row(&mut self, at_ns: u64, code: u32, io: &Io, ok: bool) {
        self.rows.push(Row { at_ns: at_ns.saturating_sub(self.begin_ns), code, io: *io, ok });
    }

    fn io(&mut self, io: &Io, result: Option<bool>, now_ns: u64) {
        let Some(ok) = result else {
            for code in [event::QUEUE, event::GET_REQUEST, event::INSERT] {
                self.row(now_ns, code, io, true);
            }
            return self.open.push(Open { io: *io, came_ns: now_ns, driver_ns: None, went_ns: None });
        };
        let same = |open: &Open| open.io.job == io.job && open.io.buffer == io.buffer;
        let Some(at) = self.open.iter().position(same) else { return };
        let open = self.open.remove(at);
        let newest_ns = || self.command_ns.min(now_ns).max(open.came_ns);
        let went_ns = open.went_ns.unwrap_or_else(newest_ns);
        if open.went_ns.is_none() || is_flush(io) {
            self.row(went_ns, event::ISSUE, io, true);
        }
        let done_ns = now_ns.max(went_ns);
        self.row(done_ns, event::COMPLETE, io, ok);
        let driver_ns = open.driver_ns.unwrap_or(open.came_ns).min(went_ns);
        let [came_ns, driver_ns, went_ns, done_ns] =
            [open.came_ns, driver_ns, went_ns, done_ns].map(|ns| ns.saturating_sub(self.begin_ns));
        self.completed.push(Completed { io: *io, came_ns, driver_ns, went_ns, done_ns, ok });
    }

    /// Records that the driver has taken an I/O, or the first piece of an I/O, from the scheduler.
    fn taken(&mut self, io: &Io, now_ns: u64) {
        let same = |open: &&mut Open| open.io.job == io.job && open.io.buffer == io.buffer;
        if let Some(open) = self.open.iter_mut().find(same) {
            open.driver_ns.get_or_insert(now_ns);
        }
    }

    /// Records a data command that begins at the block `first`. An I/O that begins at this block,
    /// and the I/Os that continue it, get the command's time. `direction`: of the command's data;
    /// `None`: not known.
    fn command(&mut self, first: u64, mut direction: Option<Direction>, at_ns: u64) {
        self.command_ns = at_ns;
        let mut next = first;
        let goes = |open: &Open, next: u64, direction: Option<Direction>| {
            let data = open.io.blocks > 0 && open.io.how != How::Discard;
            open.went_ns.is_none()
                && data
                && open.io.lba == next
                && direction.is_none_or(|d| d == open.io.direction)
        };
        while let Some(at) = self.open.iter().position(|open| goes(open, next, direction)) {
            let open = &mut self.open[at];
            let (io, went_ns) = (open.io, at_ns.max(open.came_ns));
            open.went_ns = Some(went_ns);
            (next, direction) = (io.lba + u64::from(io.blocks), Some(io.direction));
            self.row(went_ns, event::ISSUE, &io, true);
        }
    }

    /// Records a command that flushes the card's cache. Each flush of a job was served by the last
    /// such command before the flush's end.
    fn flush(&mut self, at_ns: u64) {
        for open in self.open.iter_mut().filter(|open| is_flush(&open.io)) {
            open.went_ns = Some(at_ns.max(open.came_ns));
        }
    }

    fn write(&mut self, out: &mut impl Write) -> std::io::Result<()> {
        self.rows.sort_by_key(|row| row.at_ns);
        let mut sequence = 0;
        for job in 0..self.jobs {
            // The process's name, as the kernel tells it.
            let mut name = [0; 16];
            let text = format!("job{}", job + 1);
            name.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
            sequence += 1;
            record(out, sequence, 0, (0, 0), category::NOTIFY, job + 1, 0, &name)?;
        }
        for row in &self.rows {
            let io = &row.io;
            let place = match io.blocks {
                0 => (0, 0),
                blocks => (io.lba, blocks.saturating_mul(512)),
            };
            let way = match (io.direction, io.how, io.blocks) {
                (_, _, 0) => category::WRITE | category::FLUSH,
                (_, How::Discard, _) => category::WRITE | category::DISCARD,
                (Direction::Read, ..) => category::READ,
                (Direction::Write, How::Durable, _) => category::WRITE | category::FUA,
                (Direction::Write, ..) => category::WRITE,
            };
            let sync = if io.sync && io.how != How::Discard { category::SYNC } else { 0 };
            let of_code = match row.code {
                event::ISSUE => category::ISSUE,
                event::COMPLETE => category::COMPLETE,
                _ => category::QUEUE,
            };
            sequence += 1;
            let error = if row.ok { 0 } else { 5 };
            let action = row.code | way | sync | of_code;
            record(out, sequence, row.at_ns, place, action, io.job + 1, error, &[])?;
        }
        Ok(())
    }
}

#[allow(clippy::too_many_arguments, reason = "the fields of the record, in their order")]
fn record(
    out: &mut impl Write,
    sequence: u32,
    at_ns: u64,
    (sector, bytes): (u64, u32),
    action: u32,
    process: u32,
    error: u16,
    behind: &[u8],
) -> std::io::Result<()> {
    let mut raw = Vec::with_capacity(RECORD_BYTES + behind.len());
    raw.extend(MAGIC.to_le_bytes());
    raw.extend(sequence.to_le_bytes());
    raw.extend(at_ns.to_le_bytes());
    raw.extend(sector.to_le_bytes());
    // blktrace writes a file for each CPU. Readers expect each record of a file to have that CPU.
    for word in [bytes, action, process, DEVICE, 0] {
        raw.extend(word.to_le_bytes());
    }
    raw.extend(error.to_le_bytes());
    raw.extend((behind.len() as u16).to_le_bytes());
    raw.extend(behind);
    out.write_all(&raw)
}

/// Calls `run`, and records the requests of its machine's block layer.
fn kept<R>(run: impl FnOnce() -> R) -> (R, Keeper) {
    let keeper = Rc::new(RefCell::new(Keeper::default()));
    KEEPER.with(|k| *k.borrow_mut() = Some(keeper.clone()));
    let result = run();
    KEEPER.with(|k| *k.borrow_mut() = None);
    (result, std::mem::take(&mut *keeper.borrow_mut()))
}

/// Calls `run`, and writes the requests of its machine's block layer into this open file.
pub fn blktrace<R>(file: File, run: impl FnOnce() -> R) -> std::io::Result<R> {
    let mut out = BufWriter::new(file);
    let (result, mut keeper) = kept(run);
    keeper.write(&mut out)?;
    out.flush()?;
    Ok(result)
}

/// Calls `run`, and returns the I/Os of its machine, in the order of their completion.
pub fn completed<R>(run: impl FnOnce() -> R) -> (R, Vec<Completed>) {
    let (result, keeper) = kept(run);
    (result, keeper.completed)
}

/// Attaches the recorder to a machine with this number of jobs, whose load begins now.
pub(crate) fn watch(sys: &mut System, jobs: u32, block_addressed: bool) {
    let Some(keeper) = KEEPER.with(|k| k.borrow().clone()) else { return };
    *keeper.borrow_mut() = Keeper { begin_ns: sys.time.now(), block_addressed, jobs, ..Keeper::default() };
    let taken = keeper.clone();
    sys.driver_log = Some(Box::new(move |io, now_ns| taken.borrow_mut().taken(io, now_ns)));
    sys.also_tell(Box::new(move |io, result, now_ns| keeper.borrow_mut().io(io, result, now_ns)));
}

/// Returns whether the machine that runs on this thread is recorded.
pub(crate) fn is_kept() -> bool {
    KEEPER.with(|keeper| keeper.borrow().is_some())
}

/// Records an event on the bus of the machine that runs on this thread.
pub(crate) fn note(event: BusEvent) {
    let BusEvent::Command { index, arg, start_ns, .. } = event else { return };
    // Commands that begin a transfer, or queue one, at the block of their argument. Also commands
    // that flush: a write of FLUSH_CACHE [eMMC 6.6.39], or of an extension register of an SD card.
    let flushes = index == 49 || index == 6 && arg >> 24 == 3 && arg >> 16 & 0xff == FLUSH_CACHE;
    let direction = match index {
        17 | 18 => Some(Direction::Read),
        24 | 25 => Some(Direction::Write),
        45 => None,
        _ if flushes => None,
        _ => return,
    };
    KEEPER.with(|keeper| {
        if let Some(keeper) = &*keeper.borrow() {
            let mut keeper = keeper.borrow_mut();
            if flushes {
                return keeper.flush(start_ns);
            }
            let first = if keeper.block_addressed { u64::from(arg) } else { u64::from(arg / 512) };
            keeper.command(first, direction, start_ns);
        }
    });
}

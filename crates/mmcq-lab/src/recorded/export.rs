//! Exports a run as Linux's block layer would have recorded it: a file of blktrace, or a list of
//! its requests ([`snoop`](super::snoop)).
//!
//! Each I/O is a separate request. It arrives (Q, G, I), is given to the driver (D) and completes
//! (C). The time of D is the start of a data command on the bus:
//!
//! - the command that names the I/O's first block;
//! - for an I/O whose blocks follow those of another I/O in the same transfer, the command of this
//!   transfer;
//! - if no command is known to move the I/O (it was packed), the newest data command since its
//!   arrival;
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
/// Bit of CMD23's argument: the command that follows is packed.
const PACKED: u32 = 1 << 30;
/// Bit of CMD44's argument: the task reads.
const TASK_READS: u32 = 1 << 30;
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
    /// Transfer on the DAT lines; `None`: there is none, or it is not known which blocks it moves.
    moving: Option<Moving>,
    /// Whether the next data command is packed, so that its blocks are those of several places.
    packed: bool,
    /// Parameters of the task that the next CMD45 queues: number of blocks, and direction. `None`:
    /// no CMD44 has come since the last CMD45.
    task: Option<(u64, Direction)>,
}

/// The transfer that is on the DAT lines now.
struct Moving {
    direction: Direction,
    /// Time in ns at which the transfer's command began.
    at_ns: u64,
    /// Next block that the transfer moves.
    next: u64,
    /// First block behind the I/Os that are known to be part of the transfer.
    edge: u64,
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

    /// Gives the time `at_ns` of a command to an I/O that has none yet and begins at the block
    /// `first`. Returns the first block behind this I/O; `None`: there is no such I/O. `direction`:
    /// of the command's data; `None`: not known.
    fn goes(&mut self, first: u64, direction: Option<Direction>, at_ns: u64) -> Option<u64> {
        let open = self.open.iter_mut().find(|open| {
            let data = open.io.blocks > 0 && open.io.how != How::Discard;
            open.went_ns.is_none()
                && data
                && open.io.lba == first
                && direction.is_none_or(|d| d == open.io.direction)
        })?;
        let (io, went_ns) = (open.io, at_ns.max(open.came_ns));
        open.went_ns = Some(went_ns);
        self.row(went_ns, event::ISSUE, &io, true);
        Some(io.lba + u64::from(io.blocks))
    }

    /// Records a command, sent at the time `at_ns`, that begins a transfer at the block `first`.
    fn transfer(&mut self, first: u64, direction: Direction, at_ns: u64) {
        self.command_ns = at_ns;
        let edge = self.goes(first, Some(direction), at_ns).unwrap_or(first);
        let is_packed = std::mem::take(&mut self.packed);
        self.moving = (!is_packed).then_some(Moving { direction, at_ns, next: first, edge });
    }

    /// Records a command, sent at the time `at_ns`, that queues a task at the block `first`.
    fn queued(&mut self, first: u64, at_ns: u64) {
        self.command_ns = at_ns;
        let task = self.task.take();
        let direction = task.map(|(_, direction)| direction);
        let end = first + task.map_or(1, |(blocks, _)| blocks);
        let mut next = first;
        // Each turn goes on by the length of an I/O.
        while next < end
            && let Some(behind) = self.goes(next, direction, at_ns)
        {
            next = behind;
        }
    }

    /// Records a data block on the DAT lines, sent by the card (`read`) or by the host. If the
    /// block is the first of an I/O that waits, this I/O belongs to the transfer and has begun.
    fn block(&mut self, read: bool) {
        let Some(Moving { direction, at_ns, next, edge }) = self.moving else { return };
        if read != (direction == Direction::Read) {
            return;
        }
        let behind = if next < edge { None } else { self.goes(next, Some(direction), at_ns) };
        let edge = behind.unwrap_or(edge);
        self.moving = Some(Moving { direction, at_ns, next: next + 1, edge });
    }

    /// Records an event on the bus.
    fn bus(&mut self, event: BusEvent) {
        let (index, arg, at_ns) = match event {
            BusEvent::Command { index, arg, start_ns, .. } => (index, arg, start_ns),
            BusEvent::Block { read, bytes: 512, .. } => return self.block(read),
            _ => return,
        };
        let first = if self.block_addressed { u64::from(arg) } else { u64::from(arg / 512) };
        match index {
            // A status is possible while the transfer is open.
            13 => return,
            17 | 18 => return self.transfer(first, Direction::Read, at_ns),
            24 | 25 => return self.transfer(first, Direction::Write, at_ns),
            23 => self.packed = arg & PACKED != 0,
            44 => {
                let direction = if arg & TASK_READS != 0 { Direction::Read } else { Direction::Write };
                self.task = Some((u64::from(arg & 0xffff), direction));
            }
            45 => self.queued(first, at_ns),
            // A write of FLUSH_CACHE [eMMC 6.6.39], or of an extension register of an SD card.
            49 => self.flush(at_ns),
            6 if arg >> 24 == 3 && arg >> 16 & 0xff == FLUSH_CACHE => self.flush(at_ns),
            _ => {}
        }
        self.moving = None;
    }

    /// Records that a command which flushes the card's cache was sent at `at_ns`. Each flush of a
    /// job was served by the last such command before the flush's end.
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

/// Calls `run`, and records the requests that reach the block layer of the machine in it. Returns
/// what `run` returned, and the recorder with the requests.
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
/// `block_addressed`: the card's commands carry block numbers, not byte addresses.
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

/// Records an event on the bus of the simulation that runs on this thread.
pub(crate) fn note(event: BusEvent) {
    KEEPER.with(|keeper| {
        if let Some(keeper) = &*keeper.borrow() {
            keeper.borrow_mut().bus(event);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(lba: u64, direction: Direction) -> Io {
        let (job, core, how, sync, skip) = (0, 0, How::Plain, true, 0);
        Io { job, core, direction, how, sync, lba, blocks: 8, buffer: lba as u32, skip }
    }

    fn command(index: u8, arg: u32, start_ns: u64) -> BusEvent {
        BusEvent::Command { index, arg, auto: false, start_ns, end_ns: start_ns + 240 }
    }

    /// Returns for each of `ios` I/Os of eight blocks the time of the command that carried it.
    /// `bus` has the events on the bus, each with the number of data blocks that come after it.
    fn went(direction: Direction, ios: u64, bus: &[(BusEvent, u32)]) -> Vec<u64> {
        let mut keeper = Keeper { block_addressed: true, ..Keeper::default() };
        let all: Vec<Io> = (0..ios).map(|n| io(100 + 8 * n, direction)).collect();
        all.iter().for_each(|io| keeper.io(io, None, 1));
        for &(event, blocks) in bus {
            keeper.bus(event);
            for _ in 0..blocks {
                let read = direction == Direction::Read;
                keeper.bus(BusEvent::Block { read, bytes: 512, good: true, start_ns: 0, end_ns: 0 });
            }
        }
        all.iter().for_each(|io| keeper.io(io, Some(true), 9_000));
        keeper.completed.iter().map(|one| one.went_ns).collect()
    }

    /// Checks which command's time each I/O gets: that of its own command, or, if one command
    /// transfers several adjacent I/Os, that of this command.
    #[test]
    fn an_io_goes_with_the_command_that_moves_its_blocks() {
        let each = [100, 108, 116].map(|lba| (command(18, lba, u64::from(lba) * 10), 8));
        assert_eq!(went(Direction::Read, 3, &each), [1000, 1080, 1160]);
        let two = [(command(23, 16, 490), 0), (command(25, 100, 500), 16), (command(25, 116, 700), 8)];
        assert_eq!(went(Direction::Write, 3, &two), [500, 500, 700]);
        // A status, and a register that is read, are no part of it.
        let status = [(command(18, 100, 500), 8), (command(13, 0, 600), 8), (command(8, 0, 650), 1)];
        assert_eq!(went(Direction::Read, 3, &status), [500, 500, 500]);
        let stopped = [(command(18, 100, 500), 8), (command(12, 0, 600), 1), (command(18, 108, 700), 8)];
        assert_eq!(went(Direction::Read, 2, &stopped), [500, 700]);
    }

    #[test]
    fn tasks_of_the_queue_have_the_time_at_which_they_are_queued() {
        let task = |id: u32, blocks, lba, at_ns| {
            [(command(44, TASK_READS | id << 16 | blocks, at_ns - 9), 0), (command(45, lba, at_ns), 0)]
        };
        let bus = [task(0, 16, 100, 500), task(1, 8, 116, 800)].concat();
        assert_eq!(went(Direction::Read, 3, &bus), [500, 500, 800]);
    }
}

//! What the end of a transfer or flush changes in a worker: measurements, errors, verification.

use super::{How, Io, JobState, Phase, Sync, Times, VERIFY_ERRORS_KEPT};
use crate::fio::job::Dir;
use crate::fio::programs::{self, Kind};
use crate::fio::stats::WorkerError;
use crate::fio::verify::{self, VerifyError};

const EIO: u32 = 5;
/// Error number with which fio reports data that differ (EILSEQ, "invalid or incomplete multibyte
/// character").
const EILSEQ: u32 = 84;

/// Transfer that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    io: Io,
    pub(super) times: Times,
    /// Time in ns at which the transfer was complete; the worker may collect it later.
    came_ns: u64,
    result: Result<u64, WorkerError>,
    /// Difference that the check of the read data found.
    difference: Option<VerifyError>,
}

impl JobState {
    /// Records the end of a transfer: its times, and the number of bytes or an error. `data`: what
    /// a read has returned, if the transfer is to be verified ([`Io::check`]).
    pub fn complete(&mut self, io: &Io, times: Times, result: Result<u64, WorkerError>, data: Option<&[u8]>) {
        let whole = result.as_ref().is_ok_and(|bytes| *bytes >= io.bytes);
        let data = data.filter(|_| io.check && whole);
        let check = |data| verify::check(&self.job, io.stamp.as_ref(), io.offset, data).err();
        let came_ns = times.complete_ns;
        let ended = Ended { io: *io, times, came_ns, result, difference: data.and_then(check) };
        if self.has_groups() {
            return self.keep(ended);
        }
        self.tick(times.complete_ns);
        self.stats.mark_complete(1);
        self.ended(ended);
    }

    /// Records a completion that the worker has collected.
    pub(super) fn ended(&mut self, Ended { io, times, came_ns, result, difference }: Ended) {
        let io = &io;
        self.outstanding = self.outstanding.saturating_sub(1);
        self.outstanding_writes = self.outstanding_writes.saturating_sub(u32::from(io.dir == Dir::Write));
        self.last_ns = self.last_ns.max(times.complete_ns);
        self.entry_ended(io.entry, times.complete_ns);
        if let Some(logs) = &mut self.logs {
            logs.began(times.start_ns.saturating_sub(self.started_ns), io);
        }
        let bytes = match result {
            Ok(0) if io.bytes > 0 => {
                let text = format!("{} of 0 bytes at offset {}", word(io.dir), io.offset);
                return self.failed(io, WorkerError { errno: EIO, text });
            }
            Ok(bytes) => bytes.min(io.bytes),
            Err(error) => return self.failed(io, error),
        };
        self.account(io, bytes, times);
        if io.how != How::Discard {
            let took_ns = came_ns.saturating_sub(times.start_ns);
            self.stats.dirs[io.dir.index()].under_way_ns += took_ns;
        }
        self.think.ended += 1;
        if bytes < io.bytes {
            self.stats.dirs[io.dir.index()].short_ios += 1;
        }
        if let Some(error) = difference {
            return self.differs(error);
        }
        if bytes < io.bytes && !io.check {
            // The rest of a short transfer goes next. A checked read is not continued, since its
            // stamp covers the whole block.
            let rest = Io { offset: io.offset + bytes, bytes: io.bytes - bytes, ..*io };
            self.rest.push_back(rest);
        } else if bytes < io.bytes {
            let text = format!("short read of {bytes} bytes at offset {} cannot be verified", io.offset);
            self.failed(io, WorkerError { errno: EIO, text });
        }
    }

    fn account(&mut self, io: &Io, bytes: u64, times: Times) {
        let Times { start_ns, issue_ns, complete_ns } = times;
        let slat_ns = (!self.job.ioengine.blocks()).then(|| issue_ns.saturating_sub(start_ns));
        let clat_ns = complete_ns.saturating_sub(issue_ns);
        let lat_ns = complete_ns.saturating_sub(start_ns);
        let kind = if io.how == How::Discard { Kind::Discard } else { Kind::Transfer(io.dir) };
        self.of_program(io.entry, kind, bytes, clat_ns);
        if io.how == How::Discard {
            self.stats.discard(bytes, slat_ns, clat_ns, lat_ns);
            self.phase_bytes[2] += bytes;
            return;
        }
        self.stats.transfer(io.dir, bytes, slat_ns, clat_ns, lat_ns);
        self.done_bytes += bytes;
        self.phase_bytes[io.dir.index()] += bytes;
        let (bw, iops) = &mut self.windows[io.dir.index()];
        bw.add(bytes);
        iops.add(1);
        if let Some(logs) = &mut self.logs {
            let at_ns = complete_ns.saturating_sub(self.started_ns);
            logs.transfer(at_ns, io, bytes, [slat_ns, Some(clat_ns), Some(lat_ns)]);
        }
    }

    /// Counts a finished request in the statistics of the program that made it. `entry`: index of
    /// the request in the script; `ns`: its duration.
    fn of_program(&mut self, entry: u32, kind: Kind, bytes: u64, ns: u64) {
        if let Some(number) = self.player.as_ref().and_then(|player| player.program(entry)) {
            programs::add(&mut self.stats.programs, number, kind, bytes, ns);
        }
    }

    /// Records the end of the script's request with the index `entry`.
    fn entry_ended(&mut self, entry: u32, at_ns: u64) {
        if let Some(player) = &mut self.player {
            player.ended(entry, at_ns);
        }
    }

    /// Records the end of a flush. `times`: when it was submitted and when it ended; `result`:
    /// success or an error.
    pub fn complete_sync(&mut self, sync: &Sync, times: Times, result: Result<(), WorkerError>) {
        self.tick(times.complete_ns);
        self.outstanding = self.outstanding.saturating_sub(1);
        self.flushing = false;
        self.last_ns = self.last_ns.max(times.complete_ns);
        self.entry_ended(sync.entry, times.complete_ns);
        if let Some(logs) = &mut self.logs {
            logs.flushed(times.start_ns.saturating_sub(self.started_ns), sync);
        }
        // As in fio, flushes of `end_fsync` and `fsync_on_close` are not counted.
        let counts = !matches!(self.phase, Phase::EndSync(_));
        if counts {
            self.stats.mark_complete(1);
        }
        match result {
            Ok(()) if !counts => {}
            Ok(()) => {
                let took_ns = times.complete_ns.saturating_sub(times.start_ns);
                self.stats.sync.add(took_ns);
                self.of_program(sync.entry, Kind::Flush, 0, took_ns);
            }
            Err(error) => self.fail(error, self.job.continue_on_error.write),
        }
    }

    fn failed(&mut self, io: &Io, error: WorkerError) {
        if io.dir == Dir::Write {
            self.written.remove(io.file, io.offset);
        }
        let go_on = match io.dir {
            Dir::Read => self.job.continue_on_error.read,
            Dir::Write => self.job.continue_on_error.write,
        };
        self.stats.dirs[io.dir.index()].total_ios += 1;
        self.fail(error, go_on);
    }

    fn differs(&mut self, error: VerifyError) {
        let text = error.to_string();
        if self.verify_errors.len() < VERIFY_ERRORS_KEPT {
            self.verify_errors.push(error);
        }
        // Without verify_fatal, fio reads to the end of the phase and counts every difference; then
        // it fails.
        let go_on = self.job.continue_on_error.verify;
        let stop_now = self.job.verify_fatal && !go_on;
        self.stats.total_errors += 1;
        self.stats.error.get_or_insert(WorkerError { errno: EILSEQ, text });
        self.stop |= stop_now || (!go_on && self.phase != Phase::Verify);
    }

    fn fail(&mut self, error: WorkerError, go_on: bool) {
        self.stats.total_errors += 1;
        // As in fio, no job continues after another error than these two.
        self.stop |= !go_on || ![EIO, EILSEQ].contains(&error.errno);
        self.stats.error.get_or_insert(error);
    }
}

fn word(dir: Dir) -> &'static str {
    match dir {
        Dir::Read => "read",
        Dir::Write => "write",
    }
}

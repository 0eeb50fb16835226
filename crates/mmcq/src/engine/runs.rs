//! State of sequential runs (contiguous requests of one direction): the transfer that is left open,
//! how the transfer in progress ends, and the last run of each direction.

use super::timers::{NEVER, later};
use super::worth::{Case, Worth};
use crate::host::Direction;

/// Reasons to close an open transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The next request does not continue the open transfer.
    Break,
    /// The next request is a flush, or another request that is not a read or write.
    Barrier,
    /// No request continued the open transfer in the time for which it was kept open.
    Idle,
    /// No request was known that might continue the open transfer (CMD18 or CMD25).
    End,
    /// The transfer has reached the end of the card.
    Edge,
    /// An open transfer is closed because the platform has suspended or halted the engine.
    Stop,
    /// The transfer is closed because the controller has asked for a new tuning.
    Retune,
    /// The host failed to continue the open transfer (with data but without a new command).
    Fault,
    /// Writes of the transfer are complete, and their status has been missing for the longest
    /// allowed time ([`Config::owed_ns`](super::Config::owed_ns)).
    Owed,
    /// The host cannot continue the transfer with the next request's memory, or its length.
    Memory,
}

impl Close {
    /// Number of reasons to close (end by CMD12) an open transfer.
    pub const COUNT: usize = 10;

    /// All reasons to close an open transfer, in the order of
    /// [`Stats::closed`](super::Stats::closed).
    pub const ALL: [Close; Self::COUNT] = [
        Close::Break,
        Close::Barrier,
        Close::Idle,
        Close::End,
        Close::Edge,
        Close::Stop,
        Close::Retune,
        Close::Fault,
        Close::Owed,
        Close::Memory,
    ];
}

/// A transfer that was not ended on the card: a further request may continue it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub direction: Direction,
    /// The block at which a request would continue the transfer.
    pub next: u64,
    /// Time in ns at which the first write of this transfer was completed; `None`: no write was.
    pub told_ns: Option<u64>,
    /// Number of blocks that are left of the count in CMD23; 0: no CMD23 was sent.
    pub counted: u32,
}

impl Open {
    /// Returns whether writes of this open transfer were reported complete, and the card's status
    /// that shows their result is still missing.
    #[inline(always)]
    pub fn owes(&self) -> bool {
        self.told_ns.is_some()
    }

    /// Returns the time at which an open transfer must be closed, so that the status of its
    /// complete writes comes. `owed_ns`: how long such a status may be missing.
    pub fn owed_by_ns(&self, owed_ns: u64) -> u64 {
        self.told_ns.map_or(NEVER, |told_ns| later(told_ns, owed_ns))
    }
}

/// How a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The transfer ends with the last block of its requests.
    Here,
    /// The engine ends the transfer by CMD12. This end is chosen when the data command is sent,
    /// because the card's parameters may have changed when the data are over.
    Stopped,
    /// The transfer ends after this many blocks in all, in several phases: the request is longer
    /// than one phase.
    After(u32),
    /// The end is not known: the transfer stays open as long as contiguous requests follow.
    Unknown,
    /// The transfer ends with the last block of its requests, and CMD23 has made it a reliable
    /// write.
    Reliable,
}

/// A sequential run: requests of which each begins at the block where the one before ended.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The block after the last one that this sequential run of requests has transferred.
    next: u64,
    /// Whether the last request began at the block where the one before ended.
    on: bool,
    /// Learned pause, in ns, from the end of a request's data until the next request comes; 0: not
    /// known.
    think_ns: u32,
    ended_ns: u64,
}

/// A client's next contiguous request counts as late when this many times the client's usual pause
/// between two requests has passed.
const LATE: u64 = 4;

impl Run {
    const NEW: Run = Run { next: u64::MAX, on: false, think_ns: 0, ended_ns: 0 };

    /// Notes a request that begins at block `lba` and came in at the time `arrived_ns`: whether it
    /// continues the run, and after which pause.
    #[inline(always)]
    fn arrived(&mut self, lba: u64, arrived_ns: u64) {
        self.on = lba == self.next;
        if self.on && arrived_ns > self.ended_ns {
            let think = u32::try_from(arrived_ns - self.ended_ns).unwrap_or(u32::MAX);
            self.think_ns = match self.think_ns {
                0 => think,
                known => (known / 4).saturating_mul(3).saturating_add(think / 4),
            };
        }
    }

    /// Returns the case for which the pause after the last request is included in the measured
    /// times: [`Case::Run`] if it continued the request before, otherwise [`Case::First`].
    #[inline(always)]
    fn case(&self) -> Case {
        if self.on { Case::Run } else { Case::First }
    }

    /// Returns the pause in ns after which the next request that continues these sequential
    /// requests counts as late.
    #[inline(always)]
    fn late_ns(&self) -> u64 {
        if self.think_ns == 0 { u64::MAX } else { LATE * u64::from(self.think_ns) }
    }
}

/// The last two runs (sequential requests) of one direction: the run of the last request, and
/// another one, which may continue.
#[derive(Clone, Copy, Debug)]
struct Runs {
    last: Run,
    other: Run,
    worth: Worth,
}

impl Runs {
    const NEW: Runs = Runs { last: Run::NEW, other: Run::NEW, worth: Worth::NEW };

    /// Records a request that begins at block `lba` and came in at `arrived_ns`. It continues one
    /// of the two last runs (contiguous requests), or begins a new one.
    #[inline(always)]
    fn arrived(&mut self, lba: u64, arrived_ns: u64) {
        if lba != self.last.next {
            let think_ns = self.last.think_ns;
            core::mem::swap(&mut self.last, &mut self.other);
            if lba != self.last.next {
                // Most likely the same client has gone to other blocks, so the learned pause is
                // kept.
                self.last = Run { think_ns, ..Run::NEW };
            }
        }
        self.last.arrived(lba, arrived_ns);
    }

    /// Learns from the request after a pause whether keeping the transfer open is right.
    /// `direction`: that of the transfer. `went_on`: the request continued the transfer.
    /// `arrived_ns`: time in ns at which the request came. A pause longer than `limit_ns` teaches
    /// nothing.
    fn judge(&mut self, direction: Direction, went_on: bool, arrived_ns: u64, limit_ns: u64) {
        let run = self.last;
        let pause_ns = arrived_ns.saturating_sub(run.ended_ns);
        if pause_ns > limit_ns || pause_ns == 0 && went_on {
            return;
        }
        let late_ns = pause_ns.saturating_sub(run.late_ns());
        if late_ns == 0 || self.worth.keeps(Case::Late) {
            self.worth.learn(run.case(), direction, pause_ns, went_on);
        }
        if late_ns > 0 {
            self.worth.learn(Case::Late, direction, late_ns, went_on);
        }
    }

    /// Returns how long a transfer is kept open (not ended by CMD12) while no request waits, in ns
    /// and at most `limit_ns`; 0: not at all. The time is 0 if the usual pause between the requests
    /// of this run is longer than twice `limit_ns`.
    #[inline]
    fn hold_ns(&self, limit_ns: u64) -> u64 {
        if !self.worth.keeps(self.last.case()) || u64::from(self.last.think_ns) / 2 > limit_ns {
            0
        } else if self.worth.keeps(Case::Late) {
            limit_ns
        } else {
            self.last.late_ns().min(limit_ns)
        }
    }
}

/// Number of failed continuations in a row after which the engine leaves no transfer open any more.
const CONTINUE_FAULTS_MAX: u8 = 2;

/// The state of open transfers, and for each direction the last run (contiguous requests).
#[derive(Debug)]
pub(super) struct Streams {
    /// The open transfer: the card still waits for its next blocks, or for its stop command;
    /// `None`: there is none.
    open: Option<Open>,
    /// How the transfer in progress ends.
    end: End,
    /// Whether the card's present busy follows the CMD12 that has closed an open transfer, after
    /// all of its requests were complete.
    closing: bool,
    runs: [Runs; 2],
    /// Direction of the last transfer, if its data are over and no request has begun since.
    paused: Option<Direction>,
    /// Time in ns at which the transfer in progress began; `None` if no transfer is in progress or
    /// its data are over.
    began_ns: Option<u64>,
    /// The transfer that is being ended now (CMD12 or stop token, and busy): its direction, and the
    /// time in ns at which that began. `None`: no transfer is being ended.
    ending: Option<(Direction, u64)>,
    faults: u8,
    lost: bool,
    notice: bool,
}

impl Streams {
    pub const fn new() -> Self {
        Streams {
            open: None,
            end: End::Here,
            closing: false,
            runs: [Runs::NEW; 2],
            paused: None,
            began_ns: None,
            ending: None,
            faults: 0,
            lost: false,
            notice: false,
        }
    }

    #[inline(always)]
    pub fn open(&self) -> Option<Open> {
        self.open
    }

    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    #[inline(always)]
    pub fn leave_open(&mut self, open: Option<Open>) {
        self.open = open;
    }

    /// Takes the open transfer: none is open any more.
    #[inline(always)]
    pub fn take_open(&mut self) -> Option<Open> {
        self.open.take()
    }

    #[inline(always)]
    pub fn end(&self) -> End {
        self.end
    }

    #[inline(always)]
    pub fn set_end(&mut self, end: End) {
        self.end = end;
    }

    /// Returns whether the engine, and not the card or the host, ends the transfer in progress.
    pub fn is_open_ended(&self) -> bool {
        matches!(self.end, End::Stopped | End::After(_) | End::Unknown)
    }

    /// Notes that CMD12 has ended the open transfer, and the card is busy with its last blocks.
    #[inline(always)]
    pub fn busy_of_the_end(&mut self) {
        self.closing = true;
    }

    /// Takes the mark that the busy in progress belongs to the end of an open transfer. Returns
    /// true if it was set.
    #[inline(always)]
    pub fn take_busy_of_the_end(&mut self) -> bool {
        core::mem::take(&mut self.closing)
    }

    #[inline(always)]
    fn runs(&mut self, direction: Direction) -> &mut Runs {
        let [reads, writes] = &mut self.runs;
        match direction {
            Direction::Read => reads,
            Direction::Write => writes,
        }
    }

    /// Notes that a request of this direction, which came in at `arrived_ns`, begins at this block.
    /// `limit_ns`: the longest time that a transfer is kept open.
    pub fn note_request(&mut self, direction: Direction, lba: u64, arrived_ns: u64, limit_ns: u64) {
        if let Some(last) = self.paused.take() {
            let runs = self.runs(last);
            let went_on = last == direction && lba == runs.last.next;
            runs.judge(last, went_on, arrived_ns, limit_ns);
        }
        self.runs(direction).arrived(lba, arrived_ns);
    }

    /// Ends the run of contiguous requests, because the next request, which came in at
    /// `arrived_ns`, is not a read or write. `limit_ns`: the longest time that a transfer is kept
    /// open.
    pub fn break_run(&mut self, arrived_ns: u64, limit_ns: u64) {
        if let Some(last) = self.paused.take() {
            self.runs(last).judge(last, false, arrived_ns, limit_ns);
        }
    }

    /// Returns how long a transfer of this direction is kept open (not ended by CMD12) while no
    /// request waits, in ns and at most `limit_ns`; 0: not at all.
    #[inline(always)]
    pub fn hold_ns(&self, direction: Direction, limit_ns: u64) -> u64 {
        let [reads, writes] = &self.runs;
        let runs = if direction == Direction::Read { reads } else { writes };
        runs.hold_ns(limit_ns)
    }

    /// Returns whether the client pauses between its requests, as seen in the last run (contiguous
    /// requests) of this direction.
    pub fn pauses(&self, direction: Direction) -> bool {
        let [reads, writes] = &self.runs;
        let runs = if direction == Direction::Read { reads } else { writes };
        runs.last.think_ns > 0
    }

    /// Notes that the data of this direction are over, and their requests are complete. A request
    /// at block `next` would continue them.
    #[inline(always)]
    pub fn went_out(&mut self, direction: Direction, next: u64, now_ns: u64) {
        let run = &mut self.runs(direction).last;
        (run.next, run.ended_ns) = (next, now_ns);
        self.paused = Some(direction);
    }

    /// Records the time at which the first phase (command) of a transfer is sent.
    #[inline(always)]
    pub fn note_transfer_start(&mut self, now_ns: u64) {
        self.began_ns = Some(now_ns);
    }

    /// Records that the data of a transfer are over; `wire_ns`: their time on the wire in ns. `on`:
    /// the transfer continued an open one, so it had no command of its own.
    #[inline(always)]
    pub fn note_data_end(&mut self, direction: Direction, wire_ns: u64, on: bool, now_ns: u64) {
        if let Some(began_ns) = self.began_ns.take() {
            let beside_ns = now_ns.saturating_sub(began_ns).saturating_sub(wire_ns);
            self.runs(direction).worth.moved(beside_ns, on);
        }
    }

    /// Notes that the end of a transfer begins now: CMD12, or the stop token.
    #[inline(always)]
    pub fn note_end_start(&mut self, direction: Direction, now_ns: u64) {
        self.ending.get_or_insert((direction, now_ns));
    }

    /// If the end of an open transfer was in progress, notes that the card is free again, and
    /// includes the time that this end took in the measured times.
    #[inline(always)]
    pub fn note_end(&mut self, now_ns: u64) {
        if let Some((direction, since_ns)) = self.ending.take() {
            self.runs(direction).worth.closed(now_ns.saturating_sub(since_ns));
        }
    }

    /// Forgets the runs of contiguous requests that were seen: another card may be in the card
    /// slot.
    #[inline(always)]
    pub fn forget_runs(&mut self) {
        (self.runs, self.paused, self.ending) = ([Runs::NEW; 2], None, None);
    }

    /// Drops the time measurements in progress. The caller does so after a failed command, whose
    /// times are not usual for the card.
    pub fn forget_times(&mut self) {
        (self.began_ns, self.ending) = (None, None);
    }

    /// Returns whether the engine may continue a transfer on this host: false after too many
    /// failures in a row.
    #[inline(always)]
    pub fn may_continue(&self) -> bool {
        !self.lost
    }

    /// Notes that the controller has continued an open transfer, which ends the count of failures
    /// in a row.
    #[inline(always)]
    pub fn continued(&mut self) {
        self.faults = 0;
    }

    /// Counts a transfer that should have continued an open one, and failed. `unsupported`: the
    /// host has reported that it can never continue one.
    #[inline(always)]
    pub fn failed_to_continue(&mut self, unsupported: bool) {
        self.faults += 1;
        if unsupported || self.faults >= CONTINUE_FAULTS_MAX {
            (self.lost, self.notice) = (true, true);
        }
    }

    /// Returns true once after the engine has given up continuing open transfers, so that this is
    /// reported one time.
    #[inline(always)]
    pub fn take_notice(&mut self) -> bool {
        core::mem::take(&mut self.notice)
    }
}

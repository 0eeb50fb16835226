//! What is known of runs: the transfer that is left open, how the one in progress ends, and the run
//! of each direction.

use crate::host::Direction;

/// A transfer that the card has not seen the end of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub direction: Direction,
    /// The block that would continue it.
    pub next: u64,
    /// Writes of it were completed.
    pub acknowledged: bool,
    /// Blocks left of what CMD23 announced; 0: nothing was announced.
    pub counted: u32,
}

/// Where a transfer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With the blocks that are collected.
    Here,
    /// The same, by a CMD12 of the engine. Noted when the data command goes: the card's parameters
    /// may be others when the data are over.
    Stopped,
    /// After so many blocks in all, in several phases: the request is longer than one.
    After(u32),
    /// It goes on as long as the run does.
    Unknown,
    /// With the blocks that are collected, which a CMD23 has announced as a reliable write.
    Reliable,
}

/// The run of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// One past the last block that went out.
    next: u64,
    /// Requests that continued the one before.
    length: u8,
    /// Learned pause between the end of the data and the next request; 0: not known.
    think_ns: u32,
    ended_ns: u64,
}

impl Run {
    pub const NEW: Run = Run { next: u64::MAX, length: 0, think_ns: 0, ended_ns: 0 };

    /// A request begins here that came in then.
    #[inline(always)]
    pub fn arrived(&mut self, lba: u64, arrived_ns: u64) {
        if lba != self.next {
            self.length = 0;
            return;
        }
        self.length = self.length.saturating_add(1);
        if arrived_ns > self.ended_ns {
            let think = u32::try_from(arrived_ns - self.ended_ns).unwrap_or(u32::MAX);
            self.think_ns = match self.think_ns {
                0 => think,
                known => (known / 4).saturating_mul(3).saturating_add(think / 4),
            };
        }
    }

    /// Its data ended before this block, at this time.
    #[inline(always)]
    pub fn went_out(&mut self, next: u64, ended_ns: u64) {
        (self.next, self.ended_ns) = (next, ended_ns);
    }

    /// No request has continued it in time.
    #[inline(always)]
    pub fn ends(&mut self) {
        self.length = 0;
    }

    /// Has a request continued the one before?
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.length > 0
    }

    /// How long to wait for the next request of the run, if that is worth it.
    #[inline(always)]
    pub fn hold_ns(&self, limit_ns: u64) -> u64 {
        let think_ns = u64::from(self.think_ns);
        match think_ns {
            0 => limit_ns,
            _ if 2 * think_ns > limit_ns => 0,
            _ => (4 * think_ns).min(limit_ns),
        }
    }
}

/// Continuations in a row that may fail before the host is not believed any more.
const CONTINUE_FAULTS_MAX: u8 = 2;

/// The one owner of that knowledge.
#[derive(Debug)]
pub(super) struct Streams {
    /// The transfer that the card has not seen the end of.
    open: Option<Open>,
    /// How the transfer in progress ends.
    end: End,
    /// The busy being watched belongs to the end of an open transfer whose requests are complete.
    closing: bool,
    runs: [Run; 2],
    faults: u8,
    lost: bool,
    notice: bool,
}

impl Streams {
    pub const fn none() -> Self {
        Streams {
            open: None,
            end: End::Here,
            closing: false,
            runs: [Run::NEW; 2],
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

    /// No transfer is open any more; what was.
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

    /// The engine, and not the card or the host, ends the transfer in progress.
    pub fn is_open_ended(&self) -> bool {
        matches!(self.end, End::Stopped | End::After(_) | End::Unknown)
    }

    /// CMD12 has ended the open transfer, and the card is busy with its last blocks.
    #[inline(always)]
    pub fn busy_of_the_end(&mut self) {
        self.closing = true;
    }

    /// Was the busy that is over, or that has failed, such a one?
    #[inline(always)]
    pub fn take_busy_of_the_end(&mut self) -> bool {
        core::mem::take(&mut self.closing)
    }

    #[inline(always)]
    pub fn run(&mut self, direction: Direction) -> &mut Run {
        let [reads, writes] = &mut self.runs;
        match direction {
            Direction::Read => reads,
            Direction::Write => writes,
        }
    }

    /// Another card: its runs are not known.
    #[inline(always)]
    pub fn forget_runs(&mut self) {
        self.runs = [Run::NEW; 2];
    }

    /// Has the host not failed to continue a transfer?
    #[inline(always)]
    pub fn may_continue(&self) -> bool {
        !self.lost
    }

    /// The host has continued a transfer.
    #[inline(always)]
    pub fn continued(&mut self) {
        self.faults = 0;
    }

    /// It has not. `unsupported`: it says that it never will.
    #[inline(always)]
    pub fn failed_to_continue(&mut self, unsupported: bool) {
        self.faults += 1;
        if unsupported || self.faults >= CONTINUE_FAULTS_MAX {
            (self.lost, self.notice) = (true, true);
        }
    }

    /// The host is not believed any more; true once.
    #[inline(always)]
    pub fn take_notice(&mut self) -> bool {
        core::mem::take(&mut self.notice)
    }
}

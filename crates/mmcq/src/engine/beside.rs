//! A command of an I/O function beside data that move.
//!
//! A card whose CCCR has SDC set answers CMD52 while data of CMD53, or of its memory, are on the DAT lines [SDIO 6.9]. Where the host can send it
//! ([`Caps::beside`](crate::host::Caps::beside)), the oldest waiting phase of an I/O function goes to the CMD line at once if it is such a command. It has a slot and a deadline
//! of its own. Data and command do not know of each other's end: nothing new begins until both are over, and a failure of the data ends the
//! command too, since the lines are reset then. A failure of the command leaves the data alone.
//!
//! Not beside data go writes to function 0 (but for IENx): they abort, reset, or change the bus under the data. They wait.

use super::phases::{SLACK_NS, START_RETRY_NS, Stage};
use super::slot::{NONE, State};
use super::{Engine, Error, Kind, Mode, Output};
use crate::host::{self, Cause, Fault, Host, Phase, StartError};
use crate::sched::Policy;
use crate::sdio::cccr::reg;
use crate::spec::command::Resp;
use crate::spec::response::Response;

/// IO_RW_DIRECT.
const CMD52: u8 = 52;

/// The command beside.
#[derive(Debug)]
pub(super) struct Beside {
    /// The card answers it.
    pub allowed: bool,
    /// Its slot while it is on the line.
    slot: u8,
    /// When it is given up; while there is none, when the next is tried again.
    pub wake_ns: u64,
}

impl Beside {
    pub const NONE: Self = Beside { allowed: false, slot: NONE, wake_ns: u64::MAX };
}

/// May this go beside data?
fn suits(phase: &Phase) -> bool {
    let command = &phase.command;
    let (write, function) = (command.arg >> 31 != 0, command.arg >> 28 & 7);
    let addr = command.arg >> 9 & 0x1_ffff;
    command.index == CMD52
        && command.resp == Resp::R5
        && phase.data.is_none()
        && (!write || function != 0 || addr == reg::INT_ENABLE)
}

fn failed(cause: Cause) -> Error {
    Error::Host(Fault { cause, stage: host::Stage::Command, response: None })
}

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    /// Whether the I/O card answers CMD52 while data move (SDC in its CCCR). Bring-up tells; a board may take it back. Without a card it is off.
    pub fn set_beside(&mut self, allowed: bool) {
        self.beside.allowed = allowed;
    }

    /// Is a command on the line beside data, or left over from beside them?
    pub(super) fn is_beside(&self) -> bool {
        H::BESIDE && self.beside.slot != NONE
    }

    /// Something is in progress: what waits may go beside it.
    #[inline]
    pub(super) fn try_beside(&mut self, now_ns: u64) -> bool {
        H::BESIDE && self.slots.has_io() && self.begin_beside(now_ns)
    }

    #[inline(never)]
    fn begin_beside(&mut self, now_ns: u64) -> bool {
        let moving = self.stage == Stage::Main && !self.blocked && self.phase.data.is_some();
        let theirs = self.control == NONE || matches!(self.slots.at(self.control).kind, Kind::Io { .. });
        let free = self.beside.allowed && !self.is_beside() && self.mode != Mode::Halted;
        if !(moving && theirs && free && self.host.caps().beside) {
            return false;
        }
        let Some(index) = self.slots.oldest_io() else { return false };
        let Kind::Io { phase, timeout_ns, .. } = self.slots.at(index).kind else { return false };
        if !suits(&phase) {
            return false;
        }
        match self.host.start_beside(&phase.command) {
            Ok(()) => {
                self.slots.unlink(index);
                self.slots.at_mut(index).state = State::Active;
                self.beside.slot = index;
                self.beside.wake_ns = now_ns.saturating_add(timeout_ns).saturating_add(SLACK_NS);
                self.stats.phases += 1;
                self.stats.beside += 1;
                return true;
            }
            Err(StartError::CommandLine) => self.beside.wake_ns = now_ns.saturating_add(START_RETRY_NS),
            Err(StartError::DataLine | StartError::Unsupported) => self.beside.wake_ns = u64::MAX,
        }
        false
    }

    /// Asks the host what has become of it. True if it is over.
    #[inline(never)]
    pub(super) fn ack_beside(&mut self, now_ns: u64) -> bool {
        let Some(result) = self.host.ack_beside() else { return false };
        match (&result, self.slots.at(self.beside.slot).kind) {
            (Ok(_), Kind::Io { chain: true, .. }) => {
                self.chain_until_ns = now_ns.saturating_add(self.config.chain_ns);
            }
            (Ok(_), _) => {}
            (Err(_), _) => self.stats.faults += 1,
        }
        let output = |content| Output { response: Response::short(content), ..Output::default() };
        self.end_beside(result.map(output).map_err(failed));
        true
    }

    fn end_beside(&mut self, result: Result<Output, Error>) {
        let index = core::mem::replace(&mut self.beside.slot, NONE);
        self.beside.wake_ns = u64::MAX;
        if index != NONE {
            self.end_slot(index, result);
        }
    }

    /// After the controller's events: what waited for the CMD line. True if a command went out.
    #[inline]
    pub(super) fn go_on_beside(&mut self, ended: bool, now_ns: u64) -> bool {
        if ended {
            self.line_is_free(now_ns);
        }
        self.try_beside(now_ns) || ended
    }

    fn line_is_free(&mut self, now_ns: u64) {
        if self.stage == Stage::Idle {
            self.dispatch(now_ns);
        } else if self.blocked {
            self.try_start(self.retry_timeout_ns(now_ns), now_ns);
        }
    }

    /// A second try is due, or the command's deadline has passed: maybe only the interrupt was lost.
    #[inline(never)]
    pub(super) fn beside_due(&mut self, now_ns: u64) {
        if !self.is_beside() {
            self.beside.wake_ns = u64::MAX;
            self.try_beside(now_ns);
            return;
        }
        self.acknowledge(now_ns);
        if now_ns < self.beside.wake_ns {
            self.stats.lost_interrupts += 1;
            return;
        }
        self.host.abort_beside();
        self.stats.faults += 1;
        self.end_beside(Err(Error::Silent));
        self.line_is_free(now_ns);
    }

    /// The data have failed, and the lines are about to be reset: nobody will know what became of the command.
    pub(super) fn beside_lost(&mut self, error: Error) {
        if !self.is_beside() {
            return;
        }
        self.end_beside(Err(if error == Error::Removed { error } else { failed(Cause::Other) }));
    }
}

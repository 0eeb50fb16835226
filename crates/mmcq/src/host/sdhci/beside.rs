//! A command beside data.
//!
//! While Command Inhibit (DAT) is set, commands that leave DAT alone may be issued as soon as Command Inhibit
//! (CMD) is clear [SDHC 2.2.9]. There is one set of response registers, so the response of the phase itself is
//! read before such a command goes out; Command Complete and the errors of the CMD line belong to that command
//! from then on. If it fails, the CMD circuit alone is reset [SDHC 2.2.16], except while the controller may yet
//! send a CMD12 of its own through it: then after the data.

use super::Sdhci;
use super::events::decode;
use super::phase::{Active, Work};
use super::regs::*;
use crate::host::{Auto, Cause, Dma, Fault, Regs, Stage, StartError};
use crate::spec::command::{Command, Resp};
use crate::spec::response::Response;

/// The errors of a command on the CMD line.
const ERRORS_LINE: u32 = ERRORS_COMMAND | ERROR_RESPONSE;

/// What a phase must know of the commands that went beside its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// The phase's own response.
    response: Response,
    line: Line,
}

/// The CMD line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Free,
    /// A command is on it that expects this.
    Sent(Resp),
    /// Its circuit is to be reset once the data are over.
    Broken,
    /// Its circuit is being reset.
    Resetting,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    pub(super) fn send_beside(&mut self, command: &Command) -> Result<(), StartError> {
        let Some(mut active) = self.active else { return Err(StartError::DataLine) };
        // A long response would overwrite that of an automatic CMD12.
        let short = !matches!(command.resp, Resp::R1b | Resp::R2);
        if !(self.caps.beside && short && active.work.has_data() && active.work != Work::Tuning) {
            return Err(StartError::Unsupported);
        }
        self.free_line()?;
        let status = self.port.read32(INT_STATUS);
        if (status | active.seen) & (ERRORS | INT_TRANSFER) != 0 {
            return Err(StartError::DataLine);
        }
        if self.beside.is_none() {
            if (status | active.seen) & INT_COMMAND == 0 {
                // The phase has no response yet: that it comes is of interest now.
                self.set_signal(self.shadow.signal.unwrap_or(0) | INT_COMMAND);
                return Err(StartError::CommandLine);
            }
            if status & INT_COMMAND != 0 {
                self.port.write32(INT_STATUS, INT_COMMAND);
            }
            active.seen |= INT_COMMAND;
            self.active = Some(active);
            self.beside = Some(Beside { response: self.response(active.resp), line: Line::Free });
        }
        if self.present_state().is_none_or(|state| state & PRESENT_CMD_INHIBIT != 0) {
            return Err(StartError::CommandLine);
        }
        self.set_signal(self.shadow.signal.unwrap_or(0) | INT_COMMAND);
        self.set_line(Line::Sent(command.resp));
        self.port.write32(ARGUMENT, command.arg);
        // The transfer mode below it belongs to the data.
        self.port.write16(COMMAND, self.command_bits(command));
        Ok(())
    }

    fn set_line(&mut self, line: Line) {
        if let Some(beside) = &mut self.beside {
            beside.line = line;
        }
    }

    /// Is the line free for a command beside the phase in progress?
    fn free_line(&mut self) -> Result<(), StartError> {
        match self.beside.map(|beside| beside.line) {
            None | Some(Line::Free) => Ok(()),
            Some(Line::Resetting) if self.port.read8(RESET) & RESET_CMD == 0 => {
                self.port.write32(INT_STATUS, INT_COMMAND | ERRORS_LINE);
                self.set_line(Line::Free);
                Ok(())
            }
            Some(Line::Sent(_) | Line::Resetting) => Err(StartError::CommandLine),
            Some(Line::Broken) => Err(StartError::Unsupported),
        }
    }

    /// Before the next phase: is all over that went beside the last?
    pub(super) fn end_beside(&mut self) -> Result<(), StartError> {
        if self.active.is_none() && self.beside.is_some() {
            self.free_line().map_err(|_| StartError::CommandLine)?;
            self.beside = None;
        }
        Ok(())
    }

    /// What has become of the command on the line, and the status bits that are not its own.
    #[cold]
    pub(super) fn take_beside(&mut self, status: u32) -> (Option<Result<Response, Fault>>, u32) {
        let (errors, rest) = (status & ERRORS_LINE, status & !(ERRORS_LINE | INT_COMMAND));
        let resp = match self.beside.map(|beside| beside.line) {
            Some(Line::Sent(resp)) => resp,
            Some(Line::Broken | Line::Resetting) => return (None, rest),
            Some(Line::Free) | None => return (None, status),
        };
        if errors != 0 {
            self.reset_beside();
            let of = Active { resp, auto: Auto::None, work: Work::Command, alone: false, seen: 0 };
            let (cause, stage) = decode(&of, errors, 0);
            return (Some(Err(Fault { cause, stage, response: None })), rest);
        }
        if status & INT_COMMAND == 0 {
            return (None, status);
        }
        self.set_line(Line::Free);
        (Some(Ok(self.response(resp))), rest)
    }

    /// The controller is gone.
    #[cold]
    pub(super) fn beside_is_gone(&mut self) -> Option<Result<Response, Fault>> {
        let sent = self.beside.take().is_some_and(|beside| matches!(beside.line, Line::Sent(_)));
        sent.then_some(Err(Fault { cause: Cause::Gone, stage: Stage::Command, response: None }))
    }

    /// Brings the CMD circuit back.
    #[cold]
    pub(super) fn reset_beside(&mut self) {
        if self.active.is_some_and(|active| active.auto == Auto::Stop) {
            return self.set_line(Line::Broken);
        }
        self.set_line(Line::Resetting);
        self.idle = false;
        self.port.write8(RESET, RESET_CMD);
    }

    /// The phase is over: its own response. What is still on the line, or to be done there, comes before the next phase.
    #[cold]
    pub(super) fn leave_beside(&mut self) -> Response {
        let Some(Beside { response, line }) = self.beside else { return Response::default() };
        match line {
            Line::Free => self.beside = None,
            Line::Broken => self.reset_beside(),
            Line::Sent(_) | Line::Resetting => self.idle = false,
        }
        response
    }
}

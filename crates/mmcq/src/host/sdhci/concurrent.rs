//! Commands that are sent while a data transfer is in progress.
//!
//! While Command Inhibit (DAT) is set, commands that do not use DAT may be issued as soon as
//! Command Inhibit (CMD) is clear [SDHC 2.2.9]. The controller has one set of response registers.
//! So the driver reads the response of the transfer before it sends another command. From then on
//! Command Complete and the errors of the CMD line belong to that other command. If the command
//! fails, only the CMD circuit is reset [SDHC 2.2.16]. If the controller may still send an
//! automatic CMD12 by that circuit, the driver resets the circuit only after the data.
//!
//! This feature costs one more instruction in each phase during which no such command is sent.

use super::Sdhci;
use super::events::{ALL_BITS, NEVER, decode};
use super::phase::{Active, Automatic, Work};
use super::regs::*;
use crate::host::{Cause, Dma, Regs, StartError};
use crate::spec::command::{Command, Resp};

/// Interrupt status bits that belong to a command on the CMD line.
const OF_LINE: u32 = INT_COMMAND | ERRORS_COMMAND | ERROR_RESPONSE;

/// State of the commands that are sent while the data of another command are transferred.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concurrent {
    /// Response to the data command in progress, if it is a short one (32 bits). Another command
    /// during the data overwrites the response register.
    response: u32,
    line: Line,
}

/// State of the CMD line during the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Free,
    /// A command was sent; its response is awaited.
    Sent,
    /// The command has failed, so the controller's CMD circuit must be reset after the data.
    Broken,
    /// The CMD circuit is being reset.
    Resetting,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Sdhci<R, D, DESCRIPTORS> {
    pub(super) fn send_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        let Some(active) = self.active else { return Err(StartError::DataLine) };
        // A long response would overwrite the response of an automatic CMD12.
        let short = !matches!(command.resp, Resp::R1b | Resp::R2);
        if !(self.caps.concurrent_command
            && short
            && active.work.has_data()
            && !matches!(active.work, Work::Tuning))
        {
            return Err(StartError::Unsupported);
        }
        self.free_line()?;
        let status = self.port.read32(INT_STATUS);
        if (status | active.seen) & (ERRORS | INT_TRANSFER) != 0 {
            return Err(StartError::DataLine);
        }
        let signal = self.shadow.signal | INT_COMMAND;
        if self.concurrent.is_none() {
            if (status | active.seen) & INT_COMMAND == 0 {
                // The phase has no response yet, so enable Command Complete to learn when it
                // arrives.
                self.set_signal(signal);
                return Err(StartError::CommandLine);
            }
            self.keep_response(active, status);
        }
        if self.present_state().is_none_or(|state| state & PRESENT_CMD_INHIBIT != 0) {
            return Err(StartError::CommandLine);
        }
        self.set_signal(signal);
        self.set_line(Line::Sent);
        self.port.write32(ARGUMENT, command.arg);
        // Write only the upper half: the lower half, Transfer Mode, belongs to the data in
        // progress.
        self.port.write16(COMMAND, self.command_bits(command));
        Ok(())
    }

    /// Saves the response of the data command in progress (`active`), and acknowledges its Command
    /// Complete if `status` (the interrupt status) has it. Called before the first other command is
    /// sent during the data, which would overwrite that response.
    fn keep_response(&mut self, active: Active, status: u32) {
        if status & INT_COMMAND != 0 {
            self.port.write32(INT_STATUS, INT_COMMAND);
        }
        self.concurrent = Some(Concurrent { response: self.port.read32(RESPONSE_0), line: Line::Free });
        // The response is no longer in the registers, and the next phase must check the lines
        // before it starts.
        let seen = active.seen | INT_COMMAND;
        self.active = Some(Active { resp: Resp::None, alone: false, seen, ..active });
        self.fast_end = NEVER;
    }

    /// Returns the saved response of a data command during whose data another command was sent; 0
    /// for all other commands, whose response is in the registers. If the controller is gone, the
    /// result may be all ones, as its registers are.
    pub(super) fn kept_response(&self) -> u32 {
        match &self.concurrent {
            Some(_) if self.present_state().is_none() => u32::MAX,
            Some(beside) => beside.response,
            None => 0,
        }
    }

    fn set_line(&mut self, line: Line) {
        self.own_bits = if line == Line::Sent { ALL_BITS & !OF_LINE } else { ALL_BITS };
        if let Some(beside) = &mut self.concurrent {
            beside.line = line;
        }
    }

    pub(super) fn forget_concurrent(&mut self) {
        (self.concurrent, self.own_bits) = (None, ALL_BITS);
    }

    /// Checks whether the CMD line is free for a second command during the data of the first one.
    fn free_line(&mut self) -> Result<(), StartError> {
        match self.concurrent.map(|beside| beside.line) {
            None | Some(Line::Free) => Ok(()),
            Some(Line::Resetting) if self.port.read8(RESET) & RESET_CMD == 0 => {
                self.set_line(Line::Free);
                Ok(())
            }
            Some(Line::Sent | Line::Resetting) => Err(StartError::CommandLine),
            Some(Line::Broken) => Err(StartError::Unsupported),
        }
    }

    /// Checks, before the next phase (a command with its data), that all commands sent during the
    /// data of the last one have ended.
    pub(super) fn end_concurrent(&mut self) -> Result<(), StartError> {
        let Some(beside) = self.concurrent.filter(|_| self.active.is_none()) else { return Ok(()) };
        if beside.line == Line::Broken {
            self.reset_concurrent();
        }
        self.free_line().map_err(|_| StartError::CommandLine)?;
        self.forget_concurrent();
        Ok(())
    }

    /// Returns the result of the command on the CMD line; `None` if it has not ended yet.
    pub(super) fn take_concurrent(&mut self) -> Option<Result<u32, Cause>> {
        self.concurrent.filter(|beside| beside.line == Line::Sent)?;
        let status = self.port.read32(INT_STATUS);
        if status == u32::MAX && self.present_state().is_none() {
            self.forget_concurrent();
            return Some(Err(Cause::Gone));
        }
        if status & OF_LINE == 0 {
            return None;
        }
        if status & OF_LINE == INT_COMMAND {
            self.port.write32(INT_STATUS, INT_COMMAND);
            self.set_line(Line::Free);
            return Some(Ok(self.port.read32(RESPONSE_0)));
        }
        self.reset_concurrent();
        Some(Err(decode(Work::Command, Automatic::Nothing, status & OF_LINE, 0).0))
    }

    /// Resets the CMD circuit, and clears the status bits of the command, which was sent during a
    /// data transfer. If the controller may still send an automatic CMD12, the reset follows after
    /// the data.
    pub(super) fn reset_concurrent(&mut self) {
        if self.active.is_some() && self.auto == Automatic::Stop {
            self.set_line(Line::Broken);
        } else {
            self.set_line(Line::Resetting);
            self.port.write8(RESET, RESET_CMD);
        }
        self.port.write32(INT_STATUS, OF_LINE);
    }
}

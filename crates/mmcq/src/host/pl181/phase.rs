//! Starts a command with its data: checks whether the controller can execute it, and writes the
//! registers.

use super::Pl181;
use super::regs::*;
use crate::host::pio::Cursor;
use crate::host::{Auto, Data, Direction, Phase, Regs, Segment, StartError};
use crate::spec::command::{Command, Resp};

/// Card clocks for a command, N_CR and a response. They are added to the data timeout, because the
/// timer of a read starts before the command.
const COMMAND_CLOCKS: u64 = 48 + 64 + 136;

/// The phase (a command with its data) that is in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) index: u8,
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Those flags of MCIStatus that stay set until software clears them, and that were set since
    /// the start of the command in progress.
    pub(super) seen: u32,
}

/// What the controller's data path does for the command in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The phase (a command, perhaps with data and busy) has no data.
    Command,
    /// The data path receives data from the card.
    Read,
    /// The data path will send data when the response has been received.
    WriteLater,
    /// The data path sends data to the card.
    Write,
}

impl Work {
    /// Returns whether the data path is enabled.
    pub(super) const fn moves(self) -> bool {
        matches!(self, Work::Read | Work::Write)
    }
}

/// The data of the command in progress, which the CPU transfers through the FIFO.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transfer {
    /// Bytes that the CPU has not transferred yet.
    pub(super) left_bytes: u32,
    pub(super) cursor: Cursor,
    /// Value of MCIDataCtrl that starts the data path.
    pub(super) control: u32,
}

impl Active {
    /// Returns the flags that end the command, with or without an error.
    pub(super) const fn command_ends(&self) -> u32 {
        match self.resp {
            Resp::None => COMMAND_SENT,
            _ => RESPONSE_END | COMMAND_CRC_FAIL | COMMAND_TIMEOUT,
        }
    }

    /// Returns the flags of a command without an error. The controller checks the CRC even for R3
    /// and R4, which have none, so a CRC failure counts as success there.
    pub(super) const fn command_good(&self) -> u32 {
        match self.resp {
            Resp::None => COMMAND_SENT,
            Resp::R3 | Resp::R4 => RESPONSE_END | COMMAND_CRC_FAIL,
            _ => RESPONSE_END,
        }
    }
}

impl<R: Regs> Pl181<R> {
    pub(super) fn start_phase(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        if phase.auto != Auto::None || phase.tuning {
            return Err(StartError::Unsupported);
        }
        let transfer = match &phase.data {
            Some(data) => Some(plan(data, segments)?),
            None => None,
        };
        match self.active {
            Some(Active { work: Work::Command, .. }) => return Err(StartError::CommandLine),
            Some(_) if phase.data.is_some() => return Err(StartError::DataLine),
            Some(_) => return Err(StartError::CommandLine),
            None => {}
        }
        // A controller that is gone reads as all ones, so it also shows this bit.
        if self.regs.read32(STATUS) & COMMAND_ACTIVE != 0 {
            return Err(StartError::CommandLine);
        }
        // Clear late flags of earlier phases. QEMU's model also reports an end of data with every
        // command.
        self.regs.write32(CLEAR, STATIC);
        let work = match (&phase.data, transfer) {
            (Some(data), Some((bytes, transfer))) => {
                self.transfer = transfer;
                self.regs.write32(DATA_TIMER, self.timeout_clocks(timeout_ns));
                self.regs.write32(DATA_LENGTH, bytes);
                match data.direction {
                    Direction::Read => {
                        self.regs.write32(DATA_CONTROL, transfer.control);
                        Work::Read
                    }
                    Direction::Write => Work::WriteLater,
                }
            }
            _ => Work::Command,
        };
        let active = Active { index: phase.command.index, resp: phase.command.resp, work, seen: 0 };
        self.active = Some(active);
        self.set_mask(self.wanted_mask(&active));
        self.regs.write32(ARGUMENT, phase.command.arg);
        // The command path was disabled when the last phase ended; the accesses to status, clear
        // and argument have used up a part of the required pause.
        self.rest(3);
        self.regs.write32(COMMAND, command_bits(&phase.command));
        Ok(())
    }

    /// Returns the status flags that must raise an interrupt so that the phase `active` can
    /// continue.
    pub(super) fn wanted_mask(&self, active: &Active) -> u32 {
        let answered = active.seen & active.command_good() != 0;
        let command = if answered { 0 } else { active.command_ends() };
        let left = self.transfer.left_bytes;
        let end = DATA_END & !active.seen;
        match active.work {
            Work::Command | Work::WriteLater => command,
            Work::Read => {
                let level = match left {
                    0 => 0,
                    _ if left >= self.half_bytes() => RX_HALF_FULL,
                    _ => RX_AVAILABLE,
                };
                // The response is read when data arrive; its own interrupt is needed only when all
                // data are there.
                let response = if level | end != 0 { RESPONSE_END } else { 0 };
                command & !response | end | DATA_CRC_FAIL | DATA_TIMEOUT | RX_OVERRUN | START_BIT | level
            }
            Work::Write => {
                let level = if left != 0 { TX_HALF_EMPTY } else { 0 };
                command | end | DATA_CRC_FAIL | DATA_TIMEOUT | TX_UNDERRUN | START_BIT | level
            }
        }
    }

    pub(super) fn half_bytes(&self) -> u32 {
        u32::from(self.fifo_words) / 2 * 4
    }

    fn timeout_clocks(&self, timeout_ns: u64) -> u32 {
        let clocks = timeout_ns.saturating_mul(self.bus.clock_hz.into()).div_ceil(1_000_000_000);
        u32::try_from(clocks.saturating_add(COMMAND_CLOCKS)).unwrap_or(u32::MAX)
    }
}

/// Returns the length of the data in bytes, and the initial state of their transfer; an error if
/// the controller cannot transfer these data.
fn plan(data: &Data, segments: &[Segment]) -> Result<(u32, Transfer), StartError> {
    let size = data.block_size;
    let bytes = data.blocks.checked_mul(size.into()).ok_or(StartError::Unsupported)?;
    // Blocks shorter than a word would share a word of the FIFO.
    let stack = size < 4 && data.blocks != 1;
    if bytes == 0 || bytes > DATA_BYTES_MAX || !size.is_power_of_two() || size > DATA_BLOCK_BYTES_MAX || stack
    {
        return Err(StartError::Unsupported);
    }
    if segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len)) < bytes {
        return Err(StartError::Unsupported);
    }
    let read = if data.direction == Direction::Read { DATA_READ } else { 0 };
    let control = DATA_ENABLE | read | size.trailing_zeros() << DATA_BLOCK_SHIFT;
    Ok((bytes, Transfer { left_bytes: bytes, cursor: Cursor::default(), control }))
}

fn command_bits(command: &Command) -> u32 {
    let resp = match command.resp {
        Resp::None => 0,
        Resp::R2 => COMMAND_RESPONSE | COMMAND_LONG,
        _ => COMMAND_RESPONSE,
    };
    u32::from(command.index & 0x3f) | resp | COMMAND_ENABLE
}

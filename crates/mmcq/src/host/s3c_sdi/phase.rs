//! Starts a phase (one command, with or without data): checks whether the controller supports it,
//! and writes the registers.

use super::fifo::Transfer;
use super::regs::*;
use super::{BLOCK_BYTES_MAX, MAPPED, S3cSdi};
use crate::host::{Auto, Data, Direction, Dma, Phase, Regs, Segment, StartError, Width};
use crate::spec::command::{Command, Resp};

/// Interrupts that report an error of a command.
const COMMAND_ERRORS: u32 = INT_RESPONSE_CRC | INT_COMMAND_TIMEOUT;
/// Interrupts that end the data, with or without an error.
const DATA_EVENTS: u32 = INT_FIFO | INT_CRC_STATUS | INT_DATA_CRC | INT_DATA_TIMEOUT | INT_FINISH;

/// Largest number of polls of the board's DMA controller after the data have ended on the bus. The
/// DMA then has at most 16 words to read, and one poll takes as long as several words.
const DMA_LOOKS: u16 = 64;

/// The phase (a command with its data or busy) that the controller executes now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Active {
    pub(super) resp: Resp,
    pub(super) work: Work,
    /// Bits of the command status register (SDICmdSta) that were set since the start of the phase
    /// (the command).
    pub(super) command: u32,
    /// Bits of the data status register (SDIDatSta) that were set since the start of the phase.
    pub(super) data: u32,
    /// Number of polls of the board's DMA controller that are left after the end of the data on the
    /// bus.
    pub(super) looks: u16,
}

/// How the data of the command in progress are transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// The command has no data.
    Command,
    /// The CPU reads data from the FIFO.
    Read,
    /// The CPU writes data into the FIFO.
    Write,
    /// The board's DMA controller transfers the data.
    Dma,
}

impl Active {
    /// Returns the interrupt that signals the end of the command.
    pub(super) fn command_end(&self) -> u32 {
        if self.resp == Resp::None { INT_SENT } else { INT_RESPONSE }
    }

    /// Returns whether the response has no CRC [SD 4.9.4], [SDIO 3.3].
    pub(super) fn without_crc(&self) -> bool {
        matches!(self.resp, Resp::R3 | Resp::R4)
    }

    /// Returns whether the command has ended, and its response was received.
    pub(super) fn answered(&self) -> bool {
        let wanted = match self.resp {
            Resp::None => CMDSTAT_SENT,
            // For R3 and R4 a CRC error also shows that a response was received, since they have no
            // CRC.
            _ if self.without_crc() => CMDSTAT_RESPONSE | CMDSTAT_CRC,
            _ => CMDSTAT_RESPONSE,
        };
        self.command & wanted != 0
    }
}

impl<R: Regs, D: Dma> S3cSdi<R, D> {
    pub(super) fn start_phase(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        if phase.auto != Auto::None || phase.tuning {
            return Err(StartError::Unsupported);
        }
        let plan = match &phase.data {
            Some(data) => Some((data, self.plan(data, segments)?)),
            None => None,
        };
        if self.active.is_some() {
            // While a phase is in progress, the controller cannot send another command.
            return Err(StartError::CommandLine);
        }
        if !self.idle {
            self.check_lines(plan.is_some())?;
        }
        let work = plan.map_or(Work::Command, |(_, work)| work);
        let active = Active { resp: phase.command.resp, work, command: 0, data: 0, looks: DMA_LOOKS };
        match plan {
            Some((data, work)) => self.program_data(data, work, segments),
            None => {
                self.disarm();
                self.enable(COMMAND_ERRORS | active.command_end());
            }
        }
        self.idle = false;
        self.active = Some(active);
        self.regs.write32(CMDARG, phase.command.arg);
        self.regs.write32(CMDCON, command_bits(&phase.command));
        Ok(())
    }

    /// Returns how the data will be transferred, or an error; writes no register.
    fn plan(&self, data: &Data, segments: &[Segment]) -> Result<Work, StartError> {
        let block = u32::from(data.block_size);
        if !(1..=BLOCK_BYTES_MAX).contains(&data.block_size) || !(1..=COUNT_MAX).contains(&data.blocks) {
            return Err(StartError::Unsupported);
        }
        if data.blocks > 1 && !block.is_multiple_of(4) {
            // The FIFO is accessed in words, and a word cannot hold bytes of two blocks.
            return Err(StartError::Unsupported);
        }
        let bytes = block * data.blocks;
        let held = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
        let mapped = segments.iter().filter(|segment| segment.bus & MAPPED != 0).count();
        match (mapped, segments) {
            _ if held < bytes => Err(StartError::Unsupported),
            (0, _) if data.direction == Direction::Read => Ok(Work::Read),
            (0, _) => Ok(Work::Write),
            (_, [_]) if bytes.is_multiple_of(4) => Ok(Work::Dma),
            // The CPU must not access memory that is mapped for DMA, so either the DMA or the CPU
            // transfers all segments.
            _ => Err(StartError::Unsupported),
        }
    }

    /// Writes the registers for a data transfer, except argument and command.
    fn program_data(&mut self, data: &Data, work: Work, segments: &[Segment]) {
        let block = u32::from(data.block_size);
        let bytes = block * data.blocks;
        if self.block_bytes != Some(block) {
            self.regs.write32(BSIZE, block);
            self.block_bytes = Some(block);
        }
        let way = match data.direction {
            Direction::Read => DCON_RECEIVE | DCON_AFTER_COMMAND,
            Direction::Write => DCON_TRANSMIT | DCON_AFTER_RESPONSE,
        };
        let dma = if work == Work::Dma { DCON_DMA } else { 0 };
        let wide = if self.bus.width == Width::W4 { DCON_WIDE } else { 0 };
        let dcon = DCON_WORDS | DCON_BLOCKS | DCON_START | way | dma | wide | data.blocks;
        self.regs.write32(DCON, dcon);
        self.armed = true;
        self.transfer = Transfer { left: 0, odd: !bytes.is_multiple_of(4), ..Transfer::default() };
        let mut events = COMMAND_ERRORS | DATA_EVENTS;
        match (work, segments) {
            (Work::Read, _) => {
                self.transfer.left = bytes;
                if bytes >= FIFO_HALF {
                    events |= INT_RX_HALF;
                }
            }
            (Work::Write, _) => {
                self.transfer.left = bytes;
                self.fill(segments, 0);
                if self.transfer.left != 0 {
                    events |= INT_TX_HALF;
                }
            }
            (Work::Dma, [segment, ..]) => {
                let to_card = if data.direction == Direction::Write { DMA_TO_CARD } else { 0 };
                self.regs.write32(DMA_ADDRESS, segment.bus as u32);
                self.regs.write32(DMA_LENGTH, bytes | to_card);
                self.regs.write32(DMA_START, 1);
            }
            (Work::Dma | Work::Command, _) => {}
        }
        // The interrupts are enabled last: before the first words are written, the FIFO is half
        // empty.
        self.enable(events);
    }

    /// Clears the last transfer in the data circuits, so that a command without data does not start
    /// it again.
    fn disarm(&mut self) {
        if self.armed {
            self.regs.write32(DCON, 0);
            self.armed = false;
        }
    }

    /// Checks whether the CMD line is free, and with `data` the DAT lines too. Called after a
    /// failed command that no reset followed, or after a late event. If the lines are free, clears
    /// late events and data.
    #[cold]
    fn check_lines(&self, data: bool) -> Result<(), StartError> {
        if self.regs.read32(CMDSTAT) & CMDSTAT_ON != 0 {
            return Err(StartError::CommandLine);
        }
        if data && self.regs.read32(DSTA) & DSTA_ON != 0 {
            return Err(StartError::DataLine);
        }
        self.forget_status();
        Ok(())
    }

    /// Clears all status bits that stay set, except the card interrupt, and empties the FIFO.
    pub(super) fn forget_status(&self) {
        self.regs.write32(FSTA, FSTA_RESET | FSTA_FAIL);
        self.regs.write32(CMDSTAT, CMDSTAT_LATCHED);
        self.regs.write32(DSTA, DSTA_LATCHED);
    }
}

fn command_bits(command: &Command) -> u32 {
    let resp = match command.resp {
        Resp::None => 0,
        Resp::R2 => CMDCON_RESPONSE | CMDCON_LONG,
        _ => CMDCON_RESPONSE,
    };
    CMDCON_START | CMDCON_HOST | resp | u32::from(command.index & 0x3f)
}

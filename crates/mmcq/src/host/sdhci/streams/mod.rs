//! Transfers that stay open on an SDHCI, by two methods: the next request continues such a transfer
//! without a new command.
//!
// Read first: `stops.rs` (data that stop at a memory boundary). This page explains the carrier.
//!
//! The standard has no transfer whose memory is supplied in parts. Two of its features allow one:
//!
//! - **Stops.** SDMA stops at each boundary of memory, raises the DMA Interrupt, and continues at
//!   the address that the driver writes then [SDHC 2.2.1]. A read ends at the interrupt of its last
//!   boundary: its data are in memory. A write does not end there: the interrupt only means that
//!   memory was *read*, and the last block is still to be sent. So the driver sets Stop At Block
//!   Gap Request [SDHC 2.2.12], and the write ends when the controller stops at the gap: the card
//!   has received every block.
//! - **A carrier.** Only the card keeps the transfer open; for the controller, each phase is a
//!   complete write that ends with Transfer Complete. The first phase sends CMD25 and its data.
//!   By the standard CMD13 has no data, but in each later phase (a *carrier*) the controller sends
//!   a CMD13 with the next blocks as its data. The card answers the CMD13, and takes these blocks
//!   as the next data of the open CMD25. No standard promises that a controller sends data with a
//!   CMD13, and none forbids it.
//!
//! This project has seen neither method on real hardware. Both are off until a board enables them
//! by [`StreamConfig`]. After two failures in a row the engine stops using them.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod stops;

use super::Sdhci;
use super::capabilities::ByCpu;
use super::config::{SdhciQuirks, TransferMode};
use super::regs::*;
use crate::host::carrier::Carrier;
use crate::host::{
    Auto, BusOp, Caps, Direction, Dma, Done, Events, FastEnd, Fault, Host, Phase, Regs, Segment, StartError,
    Step,
};
use crate::spec::command::Command;
use stops::{Run, Stops};

const STOP_TRANSMISSION: u8 = 12;
const SEND_STATUS: u8 = 13;

/// How the driver keeps a write open, so that the next request can continue it with more data
/// instead of a new command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenWrites {
    /// No write stays open: each write ends with its request.
    #[default]
    No,
    /// SDMA stops at boundaries, and each request ends at a block gap. Only a write whose memory
    /// consists of whole 4 KiB pages is kept open.
    Gap,
    /// The first data are sent with CMD25, and later data with a CMD13 in the middle of that write
    /// (a carrier). Any memory is allowed.
    Carrier,
}

/// Which transfers the driver leaves open (without a CMD12), so that the next request can continue
/// them. Enable only what was tried on the controller.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct StreamConfig {
    /// Whether reads stay open, by stops of SDMA. Only a read whose memory consists of whole 4 KiB
    /// pages is kept open.
    pub reads: bool,
    /// How the driver keeps writes open on the card, so that the next request can continue them.
    pub writes: OpenWrites,
}

setters!(StreamConfig { reads: bool, writes: OpenWrites });

impl StreamConfig {
    /// No transfer stays open: the setting for a controller on which nothing was tried.
    pub const NONE: StreamConfig = StreamConfig { reads: false, writes: OpenWrites::No };
}

/// An SDHCI driver that can keep the card's multi-block reads and writes open between requests, so
/// that the next request continues the transfer without a new command. The board decides which ones
/// ([`StreamConfig`]).
///
/// For other requests the driver works like the wrapped driver. To keep transfers open, the driver
/// needs a controller that transfers by ADMA2 and has SDMA, and a [`Dma::line_bytes`] of 1. A
/// controller with the quirk [`DMA_SIZE_32BIT`](SdhciQuirks::DMA_SIZE_32BIT) or
/// [`RESET_CMD_DATA_TOGETHER`](SdhciQuirks::RESET_CMD_DATA_TOGETHER) cannot keep transfers open.
pub struct Streams<R: Regs, D: Dma, const DESCRIPTORS: usize> {
    host: Sdhci<R, D, DESCRIPTORS>,
    caps: Caps,
    config: StreamConfig,
    open: Option<Open>,
    /// Stops of the data transfer in progress, if SDMA stops this transfer at boundaries in memory.
    run: Option<Run>,
    /// Which command the wrapped driver executes now, if this module must do something at the end
    /// of that command.
    plain: Plain,
    resets: Resets,
    carrier: Carrier,
}

/// A multi-block transfer whose end was not sent to the card yet, so that more blocks can follow.
#[derive(Clone, Copy, Debug)]
enum Open {
    Stops(Stops),
    /// A write that only the card keeps open. For the controller each of its parts, a command with
    /// its data, is a complete transfer.
    Carrier,
    /// No more blocks can follow: the controller has ended its part of the transfer, and only the
    /// CMD12 to the card is still to be sent.
    Ended,
}

/// Meaning, for an open transfer, of a command that the wrapped driver executes in the ordinary
/// way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    Other,
    /// The command is a CMD12.
    Stop,
    /// The phase sends CMD13.
    Status,
    /// The phase sends CMD13, and the next blocks of the open write as its data (the module calls
    /// such a command a carrier).
    Carrier,
}

/// State of the resets of CMD and DAT after an abort, one after the other [SDHC 3.8].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resets {
    Over,
    Command,
    Data,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Streams<R, D, DESCRIPTORS> {
    /// Makes a driver that leaves those transfers open (without a CMD12) that `config` names, so
    /// that the next request can continue them. Writes no register.
    ///
    /// If one of the conditions in [`Streams`] is not met, `config` has no effect.
    pub fn new(host: Sdhci<R, D, DESCRIPTORS>, config: StreamConfig) -> Self {
        let able = host.model.mode == TransferMode::Adma2
            && host.model.by_cpu == ByCpu::Never
            && host.model.sdma
            && !host.config.quirks.has(SdhciQuirks::RESET_CMD_DATA_TOGETHER);
        let config = if able { config } else { StreamConfig::NONE };
        let any = config.reads || config.writes != OpenWrites::No;
        let caps = host.caps.continue_data(any).open_until_stopped(any);
        Streams {
            host,
            caps,
            config,
            open: None,
            run: None,
            plain: Plain::Other,
            resets: Resets::Over,
            carrier: Carrier::new(),
        }
    }

    /// Returns the driver of the controller.
    pub fn controller(&self) -> &Sdhci<R, D, DESCRIPTORS> {
        &self.host
    }

    fn begin(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let plain = Phase { auto: Auto::None, ..*phase };
        let Some(data) = phase.data.filter(|data| data.block_size == 512) else {
            return self.host.start(&plain, segments, timeout_ns);
        };
        let carried = data.direction == Direction::Write && self.config.writes == OpenWrites::Carrier;
        if !carried && let Some(step) = stops::step(segments, data.blocks) {
            return self.begin_stops(phase, data, segments, step, timeout_ns);
        }
        self.host.start(&plain, segments, timeout_ns)?;
        self.open = Some(if carried { Open::Carrier } else { Open::Ended });
        Ok(())
    }

    fn go_on(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        match self.open {
            Some(Open::Stops(_)) => self.continue_stops(phase, segments, timeout_ns),
            Some(Open::Carrier) => {
                self.host.start_fast(&self.carrier.phase(phase), segments, timeout_ns)?;
                self.plain = Plain::Carrier;
                Ok(())
            }
            _ => Err(StartError::Unsupported),
        }
    }

    /// Does the same as [`start`](Host::start) while a transfer is open, or is being reset. First
    /// tries what is most frequent: data that continue the open transfer.
    #[inline(never)]
    fn start_open(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.resets == Resets::Over && phase.auto == Auto::Continue {
            return self.go_on(phase, segments, timeout_ns);
        }
        self.start(phase, segments, timeout_ns)
    }

    /// Does the same as [`ack_fast`](Host::ack_fast) while a transfer is open. First tries what is
    /// most frequent: the end of data that continue the open transfer.
    #[inline(never)]
    fn ack_open(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        if self.run.is_some() {
            let status = self.host.port.read32(INT_STATUS);
            if !self.is_last_stop(status) {
                return self.take_stops(status, segments).in_short();
            }
            self.host.port.write32(INT_STATUS, status);
            self.run = None;
            return Ok(FastEnd::default());
        }
        if self.plain != Plain::Carrier {
            return self.ack(segments).in_short();
        }
        let end = self.host.ack_fast(segments);
        if end.is_ok_and(|end| Carrier::is_well(end.status)) {
            self.plain = Plain::Other;
            return Ok(FastEnd::default());
        }
        let mut events = end.map_or_else(|events| events, |end| end.events(false));
        events.phase = events.phase.map(|end| self.ended(end));
        events.in_short()
    }

    /// Converts the result of a phase of the wrapped driver into the one that the engine gets.
    ///
    /// - If a CMD12 has ended a transfer whose DMA stopped at memory boundaries, the driver resets
    ///   the CMD and DAT circuits.
    /// - Earlier blocks of an open write may have been sent with a CMD13 (a carrier). The error
    ///   bits of those responses are added to the response of the next CMD12 or CMD13.
    fn ended(&mut self, end: Result<Done, Fault>) -> Result<Done, Fault> {
        let plain = core::mem::replace(&mut self.plain, Plain::Other);
        if plain == Plain::Carrier {
            return self.carrier.end(end);
        }
        let mut done = end?;
        if plain == Plain::Stop
            && let Some(Open::Stops(_)) = self.open.take()
        {
            self.leave_stops();
            self.resets = Resets::Command;
            self.host.port.write8(RESET, RESET_CMD);
            // The resets end at once on most controllers; otherwise the next start checks them.
            let _ = self.finish_resets();
        }
        if plain != Plain::Other {
            self.carrier.tell(&mut done);
        }
        Ok(done)
    }

    /// Returns whether a transfer by stops may begin with the memory `segment` of `blocks` blocks.
    fn begins_with(&self, segment: &Segment, blocks: u32) -> bool {
        stops::fits(segment, blocks) && self.host.reaches(segment)
    }

    /// Continues the resets of the CMD circuit and then of the DAT circuit, without waiting.
    /// Returns an error if they have not ended yet.
    fn finish_resets(&mut self) -> Result<(), StartError> {
        if self.resets == Resets::Over {
            return Ok(());
        }
        if self.resets == Resets::Command && self.host.port.read8(RESET) & RESET_CMD == 0 {
            self.resets = Resets::Data;
            self.host.port.write8(RESET, RESET_DAT);
        }
        if self.resets == Resets::Data && self.host.port.read8(RESET) & RESET_DAT == 0 {
            self.resets = Resets::Over;
            return Ok(());
        }
        Err(StartError::CommandLine)
    }

    /// Forgets the open transfer, because the lines or the whole controller are reset.
    fn forget(&mut self) {
        if let Some(Open::Stops(_)) = self.open.take() {
            self.leave_stops();
        }
        if self.plain == Plain::Carrier {
            self.carrier.drop_phase(self.host.response_so_far());
        }
        (self.run, self.plain) = (None, Plain::Other);
        self.resets = Resets::Over;
    }

    /// Returns the events about the card while a transfer is open and no phase is in progress.
    /// Events of data are left for the next phase.
    fn take_rare_alone(&mut self) -> Events {
        let mut events = Events::default();
        let status = self.host.port.read32(INT_STATUS);
        if status == u32::MAX {
            return events;
        }
        if status & super::events::RARE != 0 {
            self.host.port.write32(INT_STATUS, status & super::events::ACKNOWLEDGED & super::events::RARE);
            self.host.take_rare(status, &mut events);
            events.acknowledged = true;
        }
        if status & super::events::OF_PHASE != 0 {
            events.acknowledged |= status & self.host.shadow.signal & super::events::OF_PHASE != 0;
            // Status bits of data that stay set must not interrupt again.
            self.host.set_signal(super::events::RARE);
        }
        events
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged,
// except phases that use stops. For those, SDMA addresses come only from the segments, one boundary
// at a time, each inside of a segment, and the controller stops at each: see `stops.rs`. A phase
// ends `Ok` when the controller has stopped at its last boundary and has no address beyond it; it
// accesses no memory until the next address is written. After any other end a reset stops its
// access.
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize> Host for Streams<R, D, DESCRIPTORS> {
    const CONTINUES: bool = true;
    const ALWAYS_CONTINUES: bool = false;
    const CONTINUES_BY_REQUEST: bool = true;
    const CONCURRENT: bool = true;
    const CARD_IRQ: bool = true;
    const EARLY_R1: bool = true;
    const DEFERS_BY_REQUEST: bool = true;

    crate::forward_host!(self.host => is_prompt map unmap ack_concurrent abort_concurrent
        interrupt_lost command_hangs isolate dat0_busy dat_levels present retune_ns supply_ma
        write_protected take_waker card_irq);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    #[inline(always)]
    fn goes_on_with(&self, segment: &Segment, blocks: u32, direction: Direction) -> bool {
        match (&self.open, direction) {
            (Some(Open::Stops(stops)), _) => {
                stops.takes(segment, blocks, direction) && self.host.reaches(segment)
            }
            (Some(Open::Carrier), Direction::Write) => true,
            (Some(_), _) => false,
            (None, Direction::Read) => self.config.reads && self.begins_with(segment, blocks),
            (None, Direction::Write) => match self.config.writes {
                OpenWrites::No => false,
                OpenWrites::Gap => self.begins_with(segment, blocks),
                OpenWrites::Carrier => self.carrier.is_ready(),
            },
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.finish_resets()?;
        match phase.auto {
            Auto::Open => return self.begin(phase, segments, timeout_ns),
            Auto::Continue => return self.go_on(phase, segments, timeout_ns),
            _ => {}
        }
        let plain = match phase.command.index {
            _ if phase.data.is_some() => Plain::Other,
            STOP_TRANSMISSION => Plain::Stop,
            SEND_STATUS => Plain::Status,
            _ => Plain::Other,
        };
        if plain != Plain::Stop && matches!(self.open, Some(Open::Stops(_))) {
            // The controller is in the middle of an open transfer.
            return Err(StartError::Unsupported);
        }
        self.host.start(phase, segments, timeout_ns)?;
        self.plain = plain;
        if phase.data.is_some() {
            self.open = None;
        }
        self.carrier.note(&phase.command);
        Ok(())
    }

    #[inline(always)]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.open.is_some() || self.resets != Resets::Over {
            return self.start_open(phase, segments, timeout_ns);
        }
        self.host.start_fast(phase, segments, timeout_ns)?;
        self.plain = if phase.data.is_none() { Plain::Status } else { Plain::Other };
        Ok(())
    }

    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        if self.open.is_some() {
            return Err(StartError::Unsupported);
        }
        self.host.start_concurrent(command)
    }

    fn early_r1(&mut self) -> Option<u32> {
        if self.plain == Plain::Carrier || self.run.is_some() { None } else { self.host.early_r1() }
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        if self.run.is_some() {
            let status = self.host.port.read32(INT_STATUS);
            return self.take_stops(status, segments);
        }
        if matches!(self.open, Some(Open::Stops(_))) && self.plain != Plain::Stop {
            return self.take_rare_alone();
        }
        let mut events = self.host.ack(segments);
        events.phase = events.phase.map(|end| self.ended(end));
        events
    }

    #[inline(always)]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        // The response to CMD13 gets the errors of carriers.
        if self.open.is_some() || self.run.is_some() || self.plain == Plain::Status && self.carrier.owes() {
            return self.ack_open(segments);
        }
        let end = self.host.ack_fast(segments);
        end.inspect(|_| self.plain = Plain::Other).map_err(|mut events| {
            events.phase = events.phase.map(|end| self.ended(end));
            events
        })
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        match op {
            BusOp::ResetLines | BusOp::ResetAll if first => self.forget(),
            BusOp::PowerOff | BusOp::PowerOn if first => {
                self.forget();
                self.carrier = Carrier::new();
            }
            _ => {}
        }
        self.host.set_bus(op, first, now_ns)
    }
}

//! Writes that stay open on ST's SDMMC.
//!
//! Only the card keeps the transfer open; for the controller, each phase is a complete write. The
//! first phase sends CMD25 and its data. By the standard CMD13 has no data, but in each later phase
//! (a *carrier*) the controller sends a CMD13 with the next blocks as its data. The card answers
//! the CMD13, and takes these blocks as the next data of the open CMD25.
//!
//! The bit CMDTRANS of the command register, not the command's index, starts the data path. The
//! driver never starts the data path without a command (bit DTEN): the manual forbids it with SD
//! cards and eMMC.
//!
//! Reads do not stay open, because the DMA cannot wait: it overwrites the first of two buffers, and
//! a list entry that is not ready is an error. `docs/open-transfers.md` quotes the manual.
//!
//! This project has not seen carriers on real hardware. They are off until a board enables them.
//! After two failures in a row the engine stops using them.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::Stm32Sdmmc;
use super::tune::Stm32Board;
use crate::host::carrier::Carrier;
use crate::host::{Auto, BusOp, Caps, Direction, Dma, Events, Host, Phase, Regs, Segment, StartError, Step};

const STOP_TRANSMISSION: u8 = 12;
const SEND_STATUS: u8 = 13;

/// A driver for ST's SDMMC that leaves a write open (a CMD25 without its CMD12), so that the next
/// request can continue it.
///
/// For other requests the driver works like the wrapped [`Stm32Sdmmc`].
pub struct OpenStm32Sdmmc<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> {
    host: Stm32Sdmmc<R, D, S, PIECES>,
    caps: Caps,
    /// The write that is open on the card, so that later requests can continue it; `None` if there
    /// is none.
    open: Option<Open>,
    plain: Plain,
    carrier: Carrier,
}

/// A multi-block transfer whose end was not sent to the card yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// A write that a CMD13 with further data (a carrier) can continue.
    Carrier,
    /// The transfer cannot be continued.
    Ended,
}

/// Kind of the phase (a command with or without data) in progress, by its use for an open write: a
/// write that has transferred its blocks, and that later phases may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    Other,
    /// The driver sends CMD12 or CMD13 without data.
    Status,
    /// CMD13 that carries the next blocks of an open write as its data (the module calls it a
    /// carrier).
    Carrier,
}

impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> OpenStm32Sdmmc<R, D, S, PIECES> {
    /// Makes a driver that keeps writes open if `writes` is true; writes no register. Enable writes
    /// only on a controller on which they were tried.
    ///
    /// Writes stay open only if [`busy_after_data`](super::Stm32SdmmcConfig::busy_after_data) is
    /// set. Otherwise a write ends before the card's busy does, and the next data could be sent
    /// while the card is busy.
    pub fn new(host: Stm32Sdmmc<R, D, S, PIECES>, writes: bool) -> Self {
        let able = writes && host.config.busy_after_data;
        let caps = host.caps.continue_data(able).open_until_stopped(able);
        OpenStm32Sdmmc { host, caps, open: None, plain: Plain::Other, carrier: Carrier::new() }
    }

    /// Returns the wrapped driver of the controller.
    pub fn controller(&self) -> &Stm32Sdmmc<R, D, S, PIECES> {
        &self.host
    }

    fn begin(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let plain = Phase { auto: Auto::None, ..*phase };
        self.host.start(&plain, segments, timeout_ns)?;
        let write = phase.data.is_some_and(|data| data.direction == Direction::Write);
        let carried = write && self.caps.continue_data;
        self.open = Some(if carried { Open::Carrier } else { Open::Ended });
        self.plain = Plain::Other;
        Ok(())
    }

    fn go_on(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.open != Some(Open::Carrier) {
            return Err(StartError::Unsupported);
        }
        self.host.start(&self.carrier.phase(phase), segments, timeout_ns)?;
        self.plain = Plain::Carrier;
        Ok(())
    }

    /// Forgets the open transfer (a write that was not ended on the card), because the lines or the
    /// whole controller are reset.
    fn forget(&mut self) {
        if self.plain == Plain::Carrier {
            self.carrier.drop_phase(self.host.response_so_far());
        }
        (self.open, self.plain) = (None, Plain::Other);
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged. Only
// the command of a phase is replaced.
unsafe impl<R: Regs, D: Dma, S: Stm32Board, const PIECES: usize> Host for OpenStm32Sdmmc<R, D, S, PIECES> {
    const CONTINUES: bool = true;
    const ALWAYS_CONTINUES: bool = false;
    const CONTINUES_BY_REQUEST: bool = true;
    const CARD_IRQ: bool = true;

    crate::forward_host!(self.host => map unmap isolate dat0_busy present card_irq);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn goes_on_with(&self, _: &Segment, _: u32, direction: Direction) -> bool {
        let ready = match self.open {
            None => self.carrier.is_ready(),
            Some(open) => open == Open::Carrier,
        };
        direction == Direction::Write && self.caps.continue_data && ready
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        match phase.auto {
            Auto::Open => return self.begin(phase, segments, timeout_ns),
            Auto::Continue => return self.go_on(phase, segments, timeout_ns),
            _ => {}
        }
        self.host.start(phase, segments, timeout_ns)?;
        let index = phase.command.index;
        let alone = phase.data.is_none();
        let status = alone && matches!(index, STOP_TRANSMISSION | SEND_STATUS);
        self.plain = if status { Plain::Status } else { Plain::Other };
        if !alone || index == STOP_TRANSMISSION {
            self.open = None;
        }
        self.carrier.note(&phase.command);
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut events = self.host.ack(segments);
        if let Some(end) = events.phase {
            let plain = core::mem::replace(&mut self.plain, Plain::Other);
            events.phase = Some(match (plain, end) {
                (Plain::Carrier, end) => self.carrier.end(end),
                (Plain::Status, Ok(mut done)) => {
                    self.carrier.tell(&mut done);
                    Ok(done)
                }
                (_, end) => end,
            });
        }
        events
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

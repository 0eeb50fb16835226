//! SD memory cards in SPI mode [SD 7], on any port that exchanges bytes.
//!
// Read first: `port.rs` (the interface below the driver), `program.rs` (how a phase proceeds) and
// `card.rs` (how SPI mode is translated to the SD bus). `line.rs` has the bytes, `bus.rs` clock and
// reset.
//!
//! The driver carries out a phase as a *program*: a sequence of exchanges of bytes with the card.
//! The end of each exchange selects the next one, and the driver never waits: it polls a slow card
//! by exchanges that grow from 8 to 64 bytes. CRC is on in both directions.
//!
//! The engine and bring-up see an SD bus with one data line. Registers arrive as R2, a card that
//! does not know a command does not respond, and R2 of SPI mode becomes the card status. So
//! [`bring_up_sd`](crate::card::bring_up_sd) initialises the card, and recovery and supervision
//! work as with every other host. Not supported: I/O cards, eMMC devices and 1.8 V in SPI mode.
//!
//! On a bus without other devices, a card's transfers stay open over several requests
//! ([`Host::CONTINUES`]); sequential access gains most from that. On a [shared](Port::SHARED) bus
//! the driver deselects the card after each phase, and releases the bus.

mod blocks;
mod bus;
mod card;
mod config;
mod frame;
#[cfg(feature = "embedded-hal")]
mod hal;
mod line;
mod port;
mod program;
#[cfg(feature = "embedded-hal")]
mod shared;
mod step;
#[cfg(test)]
mod tests;

use crate::host::{BusOp, Caps, Direction, DmaError, Events, Host, Phase, Segment, StartError, Step};
use bus::Chore;
pub use config::SpiConfig;
use core::task::Waker;
use frame::Input;
pub use frame::SpiMemory;
#[cfg(feature = "embedded-hal")]
pub use hal::HalPort;
use line::Line;
pub use port::{Exchange, Port, Progress};
use program::Program;
#[cfg(feature = "embedded-hal")]
pub use shared::{BusLease, SharedHalPort};

/// The driver for an SD card in SPI mode behind a [`Port`].
pub struct Spi<P: Port> {
    caps: Caps,
    line: Line<P>,
    program: Option<Program>,
    chore: Chore,
}

impl<P: Port> Spi<P> {
    /// Makes a driver for the card at this port; exchanges no bytes yet.
    pub fn new(port: P, memory: &'static mut SpiMemory, config: SpiConfig) -> Self {
        Spi {
            caps: config.caps(P::SHARED, P::DMA_BITS),
            line: Line::new(port, memory),
            program: None,
            chore: Chore::NONE,
        }
    }

    /// Returns the port, for the port's interrupt handler.
    pub fn port(&mut self) -> &mut P {
        &mut self.line.port
    }

    fn start_phase(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
        let line = &mut self.line;
        if self.program.is_some() || self.chore.is_going() || line.progress() == Progress::Going {
            return Err(StartError::CommandLine);
        }
        let program = Program::of(phase, &mut line.card, segments, timeout_ns)?;
        line.input = Input::default();
        let program = self.program.insert(program);
        if program.is_said() {
            // Receive a single byte, so that its end is reported like that of any exchange.
            line.more(1);
        } else {
            line.select(true);
            program.begin(line, segments);
        }
        Ok(())
    }
}

// SAFETY: the port keeps its contract: it uses a segment's memory from `exchange` until `done`
// reports the end, or `stop` ended it. Only then a phase's end is reported, a reset is `Done`, and
// `isolate` returns true. The driver itself accesses only memory inside the segments, by `Cursor`,
// while the phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<P: Port> Host for Spi<P> {
    const CONTINUES: bool = !P::SHARED;
    const ONE_LINE: bool = true;
    const WAKES: bool = P::WAKES;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        let first = segment.ptr.addr().get() as u64;
        let end = first.saturating_add(segment.len.into());
        segment.bus = 0;
        if P::DMA_BITS == 0 {
            return Ok(());
        }
        if P::DMA_BITS < 64 && end > 1 << P::DMA_BITS {
            return Err(DmaError::Unreachable);
        }
        segment.bus = first;
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {}

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments, timeout_ns)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        self.line.begin_call();
        match &mut self.program {
            Some(program) => events.phase = program.run(&mut self.line, segments),
            None => self.chore.go_on(&mut self.line),
        }
        if events.phase.is_some() {
            self.program = None;
            if P::SHARED {
                self.line.select(false);
            }
        }
        events.acknowledged = self.line.has_ended();
        events
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    /// Stops the exchange that the port still carries out. Returns false if the port cannot stop
    /// it, because the port may then use the exchange's memory later.
    fn isolate(&mut self) -> bool {
        self.line.stop()
    }

    /// Returns false, because the driver can read the line only by exchanges.
    fn dat0_busy(&self) -> bool {
        false
    }

    /// Returns true, because a missing card shows only by its missing response.
    fn present(&self) -> bool {
        true
    }

    fn take_waker(&mut self) -> Option<Waker> {
        self.line.port.take_waker()
    }
}

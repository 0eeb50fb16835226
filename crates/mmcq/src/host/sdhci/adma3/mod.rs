//! ADMA3: executes several transfers from one list [SDHC 4.10, 1.13.5].
//!
// Read first: `list.rs` (what the controller reads in memory), then `run.rs` (how a chain starts
// and ends).
//!
//! A chain costs six register accesses:
//!
//! - two writes to start: ADMA System Address, and the address of the list, which starts the list,
//! - reading the interrupt status and acknowledging it,
//! - two reads of addresses that show how far the list was executed.
//!
//! The driver checks these two addresses each time, because a controller that ends a list early
//! also reports success.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod list;
mod run;

use super::Sdhci;
use super::capabilities::{ByCpu, VERSION_4_10};
use super::config::TransferMode;
use super::events::{ACKNOWLEDGED, RARE};
use super::phase::Automatic;
use super::regs::*;
use crate::host::{
    BusOp, BusyDetect, ChainCaps, ChainError, ChainEvents, ChainHost, Direction, Dma, DmaError, Events,
    FastEnd, Host, Phase, Regs, Segment, StartError, Step,
};
use crate::spec::command::Command;
use core::ptr::NonNull;
pub use list::ChainList;

/// An SDHCI driver that executes chains of up to `ENTRIES` transfers, each with up to `PIECES`
/// ADMA2 descriptors.
///
/// If the controller cannot execute chains ([`chain_caps`](ChainHost::chain_caps) has the reason),
/// the driver works like the wrapped driver.
pub struct Adma3<R: Regs, D: Dma, const DESCRIPTORS: usize, const ENTRIES: usize, const PIECES: usize> {
    host: Sdhci<R, D, DESCRIPTORS>,
    list: &'static mut ChainList<ENTRIES, PIECES>,
    list_bus: u64,
    caps: Result<ChainCaps, ChainError>,
    at: At,
    /// Number of transfers that the list for the controller describes so far.
    count: u8,
    /// Whether one of the described transfers is a write.
    writes: bool,
    auto: Automatic,
}

/// State of the list of a chain (several transfers that the controller executes by itself).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Rest,
    /// The controller executes the list.
    Runs,
    /// The list has failed; the CMD and DAT circuits of the controller must be reset.
    Stopped,
}

impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const ENTRIES: usize, const PIECES: usize>
    Adma3<R, D, DESCRIPTORS, ENTRIES, PIECES>
{
    /// Joins an SDHCI driver with memory for chains. Reads the capabilities and maps the list for
    /// DMA for the lifetime of the program; writes no register.
    pub fn new(host: Sdhci<R, D, DESCRIPTORS>, list: &'static mut ChainList<ENTRIES, PIECES>) -> Self {
        let caps = Err(ChainError::Transfer);
        let (at, auto) = (At::Rest, Automatic::Nothing);
        let mut made = Adma3 { host, list, list_bus: 0, caps, at, count: 0, writes: false, auto };
        made.caps = made.look();
        made
    }

    fn look(&mut self) -> Result<ChainCaps, ChainError> {
        let model = &self.host.model;
        let seen = self.host.port.read32(CAPABILITIES_2);
        if seen & CAP2_ADMA3 == 0 {
            return Err(ChainError::Capabilities(seen));
        }
        if model.version < VERSION_4_10 || !model.v4 {
            return Err(ChainError::Version(model.version));
        }
        let ends = self.host.caps.auto_count || self.host.caps.auto_stop;
        if model.mode != TransferMode::Adma2 || model.busy != BusyDetect::Interrupt || !ends {
            return Err(ChainError::Transfer);
        }
        let (max_segments, _, max_bytes) = model.scatter(PIECES);
        let bytes = ChainList::<ENTRIES, PIECES>::BYTES;
        let place = NonNull::from(&mut *self.list).cast();
        let bus = self.host.dma.map(place, bytes, Direction::Write).map_err(ChainError::List)?;
        let end = bus.checked_add(bytes as u64);
        let within = end.is_some_and(|end| end >> 32 == bus >> 32 && (model.wide || bus >> 32 == 0));
        if !within || !bus.is_multiple_of(8) {
            self.host.dma.unmap(bus, place, bytes, Direction::Write);
            let why = if within { DmaError::Alignment } else { DmaError::Unreachable };
            return Err(ChainError::List(why));
        }
        self.list_bus = bus;
        Ok(ChainCaps { entries: ENTRIES as u8, max_segments, max_bytes })
    }

    /// Returns the driver of the SD controller.
    pub fn controller(&self) -> &Sdhci<R, D, DESCRIPTORS> {
        &self.host
    }

    /// Returns whether the DMA of a list can transfer this memory.
    fn by_dma(&self, segments: &[Segment]) -> bool {
        self.host.model.by_cpu == ByCpu::Never || !segments.iter().any(|segment| self.host.by_pio(segment))
    }

    /// Acknowledges and returns the events that belong to no command: card interrupt, insertion or
    /// removal of the card, re-tuning. Called by `ack` while a list is executed.
    #[cold]
    fn take_rare_alone(&mut self) -> Events {
        let mut events = Events::default();
        let status = self.host.port.read32(INT_STATUS) & RARE;
        if status != 0 && status != RARE {
            self.host.port.write32(INT_STATUS, status & ACKNOWLEDGED);
            self.host.take_rare(status, &mut events);
            events.acknowledged = true;
        }
        events
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged; no
// phase starts while a list is executed. The memory of a list is free when the wrapped driver
// reports its own memory as free, since a reset stops the list too [SDHC 2.2.20].
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const ENTRIES: usize, const PIECES: usize> Host
    for Adma3<R, D, DESCRIPTORS, ENTRIES, PIECES>
{
    const CONCURRENT: bool = true;
    const CARD_IRQ: bool = true;
    const EARLY_R1: bool = true;
    const DEFERS_BY_REQUEST: bool = true;

    crate::forward_host!(self.host => caps is_prompt map unmap ack_concurrent abort_concurrent early_r1
        interrupt_lost command_hangs isolate dat0_busy dat_levels present retune_ns supply_ma
        write_protected take_waker card_irq);

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.at != At::Rest {
            return Err(StartError::CommandLine);
        }
        self.host.start(phase, segments, timeout_ns)
    }

    #[inline(always)]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.at != At::Rest {
            return Err(StartError::CommandLine);
        }
        self.host.start_fast(phase, segments, timeout_ns)
    }

    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        if self.at != At::Rest {
            return Err(StartError::Unsupported);
        }
        self.host.start_concurrent(command)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        if self.at == At::Runs {
            return self.take_rare_alone();
        }
        self.host.ack(segments)
    }

    #[inline(always)]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        if self.at == At::Runs {
            return Err(self.take_rare_alone());
        }
        self.host.ack_fast(segments)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        // The supply may be switched off while a list is executed: then a controller that no reset
        // stops reaches no card. The supply is switched on only after a reset has ended the list,
        // because the list would continue with the card.
        let allowed = matches!(op, BusOp::ResetLines | BusOp::ResetAll | BusOp::PowerOff);
        if self.at != At::Rest && !allowed {
            return Step::Failed;
        }
        if self.at == At::Runs {
            // The list ends here. Its interrupt, for which no request waits now, is acknowledged.
            self.at = At::Stopped;
        }
        let step = self.host.set_bus(op, first, now_ns);
        if matches!((op, step), (BusOp::ResetLines | BusOp::ResetAll, Step::Done)) {
            self.at = At::Rest;
        }
        step
    }

    #[inline(always)]
    fn chain(&mut self) -> Option<&mut dyn ChainHost> {
        Some(self)
    }
}

// SAFETY: descriptors come only from the segments, for no more bytes than the segments have;
// otherwise the transfer is refused. They are written only while no list is executed. The end is
// reported when the controller reports it and its address registers show that the last transfer was
// executed; after a failure, a reset stops the controller's access. The list is `'static`.
unsafe impl<R: Regs, D: Dma, const DESCRIPTORS: usize, const ENTRIES: usize, const PIECES: usize> ChainHost
    for Adma3<R, D, DESCRIPTORS, ENTRIES, PIECES>
{
    fn chain_caps(&mut self) -> Result<ChainCaps, ChainError> {
        self.caps
    }

    fn begin_chain(&mut self) -> bool {
        if self.at == At::Rest {
            (self.count, self.writes) = (0, false);
        }
        self.at == At::Rest
    }

    fn describe_transfer(&mut self, phase: &Phase, segments: &[Segment]) -> Result<(), StartError> {
        self.describe(phase, segments)
    }

    fn start_chain(&mut self, timeout_ns: u64) -> Result<(), StartError> {
        self.start_list(timeout_ns)
    }

    fn ack_chain(&mut self) -> ChainEvents {
        self.take_end()
    }

    fn passed(&mut self) -> Option<u8> {
        self.behind()
    }
}

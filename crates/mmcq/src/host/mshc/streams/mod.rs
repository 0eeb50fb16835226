//! Transfers that stay open on DesignWare's controller: the next request continues such a transfer
//! without a new command.
//!
// Read first: `ring.rs` (reads). This text explains carriers (writes).
//!
//! Reads stay open by one method and writes by another, since only for a read does the controller
//! report that all data of an open transfer have arrived:
//!
//! - **Reads by a ring of descriptors.** A byte count of 0 makes a transfer without an end. The DMA
//!   stops at a descriptor that it does not own, and raises an interrupt; the data of all
//!   descriptors before it are in memory then. The FIFO fills, and the controller stops the card's
//!   clock. The driver writes the next request's descriptors from that place on, and a write to the
//!   poll demand register lets the DMA continue.
//! - **Writes by a carrier.** A write with a byte count of 0 is not possible: no event shows that
//!   the card has received the last block, and the controller sends no CMD12 while the FIFO is
//!   empty. So only the card keeps the transfer open; for the controller, each phase is a complete
//!   write. The first phase sends CMD25 and its data. By the standard CMD13 has no data, but in
//!   each later phase (a *carrier*) the controller sends a CMD13 with the next blocks as its data.
//!   The card answers the CMD13, and takes these blocks as the next data of the open CMD25. The
//!   command register has bits for data and their direction, which work with every command. The
//!   controller reports the end of each CMD25 or CMD13 (Data Transfer Over) after the CRC status of
//!   its last block. The card's busy follows; the phase ends when DAT0 is high.
//!
//! This project has seen neither method on real hardware. Both are off until a board enables them
//! by [`OpenTransfers`]. After two failures in a row the engine stops using them.
//! `docs/open-transfers.md` quotes what the manuals say.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod ring;

use super::regs::*;
use super::tune::MshcBoard;
use super::{DesignWare, DesignWareLayout, MshcInitError, MshcLayout};
use crate::host::carrier::Carrier;
use crate::host::dma::map_whole;
use crate::host::{
    Auto, BusOp, Caps, Cause, Direction, Dma, DmaError, Done, Events, Fault, Host, Phase, Regs, Segment,
    Stage, StartError, Step,
};
use core::ptr::NonNull;
use ring::{Ring, Run};

const STOP_TRANSMISSION: u8 = 12;
const SEND_STATUS: u8 = 13;
/// Size in bytes of the memory for read data that no request wants ([`Scrap`]).
const SCRAP_BYTES: u32 = 512;

/// Which transfers the driver leaves open (without a CMD12), so that the next request can continue
/// them. Enable only what was tried on the controller.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct OpenTransfers {
    /// Whether reads stay open: the driver starts them with a byte count of 0, which has no end.
    pub reads: bool,
    /// Whether writes stay open: the driver sends the first data with CMD25, and later data with a
    /// CMD13 in the middle of that write (a carrier).
    pub writes: bool,
}

setters!(OpenTransfers { reads: bool, writes: bool });

impl OpenTransfers {
    /// No transfer stays open for a later request: each is ended with its last block. The setting
    /// for a controller on which nothing was tried.
    pub const NONE: OpenTransfers = OpenTransfers { reads: false, writes: false };
}

/// Memory for the data that the card sends after the last wanted block of an open read (a CMD18
/// that serves several requests). The controller writes into this memory, so the memory must live
/// as long as the program.
#[repr(C, align(512))]
#[derive(Debug)]
pub struct Scrap {
    bytes: [u8; SCRAP_BYTES as usize],
}

impl Scrap {
    /// Makes the memory; put it in a static variable.
    pub const fn new() -> Self {
        Scrap { bytes: [0; SCRAP_BYTES as usize] }
    }
}

impl Default for Scrap {
    fn default() -> Self {
        Self::new()
    }
}

/// A driver for DesignWare's controller that keeps transfers open where its board has enabled it.
///
/// For other requests the driver works like the wrapped [`DesignWare`].
pub struct OpenDesignWare<R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> {
    pub(super) host: DesignWare<R, D, S, DESCRIPTORS>,
    caps: Caps,
    config: OpenTransfers,
    /// Bus address of the memory for read data that no request wants ([`Scrap`]).
    scrap_bus: u64,
    /// Size in bytes up to which an open read accepts a request. The descriptor table is long
    /// enough for every request of this size, however its memory is divided into segments.
    ring_bytes: u32,
    open: Option<Open>,
    /// The phase (the data of one request) in progress, if it transfers data of an open read, or
    /// sends the CMD12 of one.
    run: Option<Run>,
    /// Kind of the command in progress, if the wrapped driver executes it in the ordinary way and
    /// not as part of an open transfer.
    plain: Plain,
    /// The result of a write whose data have ended, kept while the card is still busy; `None` if no
    /// such write is in progress.
    busy: Option<Result<Done, Fault>>,
    carrier: Carrier,
}

/// An open transfer: its end was not sent to the card yet.
#[derive(Clone, Copy, Debug)]
enum Open {
    Ring(Ring),
    /// A write that is open on the card only, which stays in its CMD25. For each further part the
    /// driver sends a CMD13, and tells the controller that data follow it (a carrier). So the
    /// controller sends the blocks, and for it each part is a complete transfer.
    Carrier,
    /// The transfer cannot be continued.
    Ended,
}

/// What a phase (a command with its data) that the wrapped driver executes means for a write that
/// is open on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plain {
    Other,
    /// The phase sends CMD12 or CMD13 without data.
    Status,
    /// The command is CMD25 with its data. The card's write stays open afterwards, so that later
    /// blocks can continue it without a new CMD25.
    Write,
    /// The phase sends CMD13 with data. The card takes these data as the next ones of the open
    /// CMD25 (a carrier).
    Carrier,
}

impl<R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> OpenDesignWare<R, D, S, DESCRIPTORS> {
    /// Makes a driver that leaves those transfers open (without a CMD12) that `config` names, so
    /// that the next request can continue them. Writes no register. Maps `scrap` for DMA for the
    /// lifetime of the program.
    ///
    /// While CMD12 ends an open read, more data arrive, and need descriptors. If the descriptor
    /// table of `host` is too small for them, no read stays open.
    ///
    /// # Errors
    /// [`MshcInitError::Table`]: the controller cannot reach `scrap`.
    pub fn new(
        host: DesignWare<R, D, S, DESCRIPTORS>,
        scrap: &'static mut Scrap,
        config: OpenTransfers,
    ) -> Result<Self, MshcInitError> {
        let scrap_bus = map_scrap(&host.dma, scrap).map_err(MshcInitError::Table)?;
        let room = ring::scraps(&host.fifo) < DESCRIPTORS;
        let config = OpenTransfers { reads: config.reads && room, ..config };
        let any = config.reads || config.writes;
        let caps = host.caps.continue_data(any).open_until_stopped(any);
        let ring_bytes =
            super::Descriptors::<DESCRIPTORS>::ring_bytes(host.form.chunk, host.caps.max_segments);
        Ok(OpenDesignWare {
            host,
            caps,
            config,
            scrap_bus,
            ring_bytes,
            open: None,
            run: None,
            plain: Plain::Other,
            busy: None,
            carrier: Carrier::new(),
        })
    }

    /// Returns the wrapped driver of the controller.
    pub fn controller(&self) -> &DesignWare<R, D, S, DESCRIPTORS> {
        &self.host
    }

    fn begin(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        let plain = Phase { auto: Auto::None, ..*phase };
        let Some(data) = phase.data.filter(|data| data.block_size == 512) else {
            return self.host.start(&plain, segments, timeout_ns);
        };
        let fits = |segment: &Segment| self.fits(segment, data.blocks);
        if data.direction == Direction::Read && self.config.reads && segments.iter().all(fits) {
            return self.begin_ring(phase, data, segments);
        }
        self.host.start(&plain, segments, timeout_ns)?;
        let carried = data.direction == Direction::Write && self.config.writes;
        self.open = Some(if carried { Open::Carrier } else { Open::Ended });
        self.plain = if carried { Plain::Write } else { Plain::Other };
        Ok(())
    }

    fn go_on(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        match self.open {
            Some(Open::Ring(_)) => self.continue_ring(phase, segments),
            Some(Open::Carrier) => {
                self.host.start(&self.carrier.phase(phase), segments, timeout_ns)?;
                self.plain = Plain::Carrier;
                Ok(())
            }
            _ => Err(StartError::Unsupported),
        }
    }

    /// Converts the end of a phase of the wrapped driver to the end that the engine gets; `None` if
    /// the card is still busy with the data of a write that stays open.
    fn ended(&mut self, end: Result<Done, Fault>) -> Option<Result<Done, Fault>> {
        let plain = core::mem::replace(&mut self.plain, Plain::Other);
        let end = match plain {
            Plain::Other => return Some(end),
            Plain::Status => {
                let mut done = match end {
                    Ok(done) => done,
                    Err(fault) => return Some(Err(fault)),
                };
                self.carrier.tell(&mut done);
                return Some(Ok(done));
            }
            Plain::Write => end,
            Plain::Carrier => self.carrier.end(end),
        };
        if end.is_err() || !self.host.dat0_low() {
            return Some(end);
        }
        self.busy = Some(end);
        self.host.set_mask(INT_START_BIT);
        None
    }

    /// Returns the result of a write that stays open when DAT0 is high; `None` while the card is
    /// busy. Sets `acknowledged` to true if the raw status had bits, which are cleared. Bit 13 of
    /// the raw status (the end of busy) serves only as an interrupt: DAT0 alone decides.
    fn take_busy(&mut self, acknowledged: &mut bool) -> Option<Result<Done, Fault>> {
        let raw = self.host.regs.read32(DesignWareLayout::AT.raw);
        if raw == u32::MAX && self.host.is_gone() {
            (self.host.mask, self.busy) = (None, None);
            return Some(Err(Fault { cause: Cause::Gone, stage: Stage::Data, response: None }));
        }
        self.host.regs.write32(DesignWareLayout::AT.raw, raw);
        *acknowledged = raw != 0;
        if self.host.dat0_low() {
            return None;
        }
        self.host.set_mask(0);
        self.busy.take()
    }

    /// Forgets the open transfer (a CMD18 or CMD25 that was not ended), because the lines or the
    /// whole controller are reset.
    fn forget(&mut self) {
        if self.plain == Plain::Carrier {
            self.carrier.drop_phase(self.host.response_so_far());
        }
        (self.open, self.run, self.busy) = (None, None, None);
        self.plain = Plain::Other;
    }
}

/// Maps the memory for read data that no request wants; returns its bus address.
fn map_scrap<D: Dma>(dma: &D, scrap: &'static mut Scrap) -> Result<u64, DmaError> {
    let (place, bytes) = (NonNull::from(&mut *scrap).cast(), SCRAP_BYTES as usize);
    let bus = map_whole(dma, place, bytes, Direction::Read)?;
    let reached = bus.checked_add(SCRAP_BYTES.into()).is_some_and(|end| end <= 1 << 32);
    if reached && bus.is_multiple_of(4) {
        return Ok(bus);
    }
    dma.unmap(bus, place, bytes, Direction::Read);
    Err(if reached { DmaError::Alignment } else { DmaError::Unreachable })
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged,
// except phases of an open read. `table.rs` makes the descriptors of such a phase only from the
// mapped segments, followed by one descriptor that the DMA does not own. The phase ends `Ok` when
// the DMA has stopped at that descriptor: it has finished all descriptors before it, and fetches
// none until the poll demand. By then the driver has written descriptors for the next request, or
// for `scrap`, which is `'static`. After any other end a reset stops the DMA's access.
unsafe impl<R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Host
    for OpenDesignWare<R, D, S, DESCRIPTORS>
{
    const CONTINUES: bool = true;
    const ALWAYS_CONTINUES: bool = false;
    const CONTINUES_BY_REQUEST: bool = true;

    crate::forward_host!(self.host => map unmap isolate dat0_busy present write_protected);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn goes_on_with(&self, segment: &Segment, blocks: u32, direction: Direction) -> bool {
        match (self.open, direction) {
            (None, Direction::Read) => self.config.reads && self.fits(segment, blocks),
            (Some(Open::Ring(ring)), Direction::Read) => ring.goes_on() && self.fits(segment, blocks),
            (None, Direction::Write) => self.config.writes && self.carrier.is_ready(),
            (Some(Open::Carrier), Direction::Write) => true,
            (Some(_), _) => false,
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        if self.run.is_some() || self.busy.is_some() {
            return Err(StartError::CommandLine);
        }
        match phase.auto {
            Auto::Open => return self.begin(phase, segments, timeout_ns),
            Auto::Continue => return self.go_on(phase, segments, timeout_ns),
            _ => {}
        }
        let stops = phase.data.is_none() && phase.command.index == STOP_TRANSMISSION;
        if let Some(Open::Ring(ring)) = self.open {
            // The read is still in progress in the controller.
            return if stops { self.stop_ring(ring, phase) } else { Err(StartError::Unsupported) };
        }
        self.host.start(phase, segments, timeout_ns)?;
        let status = stops || phase.data.is_none() && phase.command.index == SEND_STATUS;
        self.plain = if status { Plain::Status } else { Plain::Other };
        if stops || phase.data.is_some() {
            self.open = None;
        }
        self.carrier.note(&phase.command);
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut events = Events::default();
        if let Some(run) = &self.run {
            let before = run.active.progress();
            events.phase = self.take_ring();
            events.acknowledged = self.run.as_ref().is_some_and(|run| run.active.progress() != before);
        } else if self.busy.is_some() {
            events.phase = self.take_busy(&mut events.acknowledged);
        } else if let Some(Open::Ring(_)) = self.open {
            events.acknowledged = self.host.mask.is_some_and(|mask| mask != 0);
            self.hush();
        } else {
            events = self.host.ack(segments);
            events.phase = events.phase.and_then(|end| self.ended(end));
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

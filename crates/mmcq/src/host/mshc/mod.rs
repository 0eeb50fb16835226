//! MSHC: the SD controller of Allwinner's SoCs ([`Smhc`]), and Synopsys DesignWare's
//! ([`DesignWare`]): Rockchip, StarFive JH7110, HiSilicon, Exynos, SoCFPGA, ESP32. One core, two
//! maps of the registers.
//!
// Read first: `layout.rs` and `regs.rs` (the register maps), then `phase.rs` (how a phase starts),
// `events.rs` (how it ends), `bus.rs` (power, clock, voltage, reset), `tune.rs` (the sampling point)
// and `table.rs` (descriptors). `streams/` is a driver around this one, for transfers that stay open.
//!
//! The internal DMA transfers data by a list of descriptors. The CPU transfers through the FIFO
//! what the DMA cannot: lengths that are not whole words, or not whole cache lines. A read ends
//! when the DMA also reports that the data are in memory. The controller sends CMD12 after the last
//! block.
//!
//! A change of the clock becomes effective by a command that sends nothing. It takes three such
//! steps: off, divider, on. Each may take 100 ms; if one never ends, the result is
//! [`Step::Failed`].
//!
//! CMD11 ends when the card holds its lines low. From then until the clock runs again, the changes
//! of the clock are marked as parts of the voltage switch. DesignWare's controller drives a pin for
//! the level shifter (UHS register). An SMHC has no such pin;
//! [`Surroundings::signalling`](crate::host::surroundings::Surroundings::signalling) switches the
//! voltage.
//!
//! Above 52 MHz the sampling point is searched. Its taps are phases of the board's clock unit
//! ([`MshcBoard`]), or steps of an SMHC's delay line ([`MshcConfig::sample_delay`]). For each tap
//! the CPU compares a tuning block with the expected one. The middle of the longest good row is
//! tried once more, and used.
//!
//! The end of busy does not interrupt by itself: [`BusyDetect::Level`]. An SMHC delays data that
//! are started while the card is busy: bit 13 of their command waits for DAT0, as in Linux's
//! driver. There all commands with that bit wait, even those that only change the clock; A64 and
//! later have a bit to mask DAT0 meanwhile. A board may use that ([`MshcConfig::busy_by_update`]):
//! then a change of the clock that changes nothing signals the end of busy. There is no HS400, no
//! automatic CMD23, and no card interrupt: QEMU's model, which tests this driver, raises it with
//! each transfer. Clock tree, reset lines and pins of the SoC are handled by the platform. The data
//! timer has 24 bits: at 200 MHz it ends after 84 ms.
//!
//! DesignWare's controller keeps both responses. In an SMHC the R1 of CMD12 may replace the
//! command's (QEMU's does so), and with it an error of an earlier write. A card accepts CMD18 and
//! CMD25 in `tran`, and CMD12 in other states [SD 4.8], so the state in an R1 shows which command
//! it belongs to. If CMD12's R1 was found in place of the other, or nothing is known yet, the end
//! of the command interrupts too, and its R1 is read then. If that interrupt is served after CMD12,
//! the R1 is lost, and the driver reports one without errors.
//!
//! [`BusyDetect::Level`]: crate::host::BusyDetect::Level

mod bus;
mod config;
mod events;
mod layout;
mod phase;
mod regs;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod tune;

use crate::host::dma::{at_a_line, map_whole};
use crate::host::{
    BusOp, BusyDetect, Caps, Direction, Dma, DmaError, Events, Host, Phase, Regs, Segment, StartError, Step,
};
use bus::Bus;
pub use config::{MshcConfig, MshcInitError};
use core::marker::PhantomData;
use core::ptr::NonNull;
use layout::*;
pub use layout::{DesignWareLayout, MshcLayout, SmhcLayout};
use phase::Active;
use regs::*;
pub use streams::{OpenDesignWare, OpenTransfers, Scrap};
pub use table::Descriptors;
use table::Form;
pub use tune::MshcBoard;

/// Mark in [`Segment::bus`]: the CPU transfers this segment. Bus addresses have 32 bits, so no
/// address has this bit.
const BY_CPU: u64 = 1 << 63;

/// The controller's FIFO.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    offset: u16,
    bytes: u32,
    /// Value of the threshold register.
    threshold: u32,
    /// Whether the controller has the register (100h) that lets a read wait until the FIFO has
    /// enough space.
    read_room: bool,
}

/// The driver for Allwinner's controller.
pub type Smhc<R, D, S, const DESCRIPTORS: usize> = Mshc<SmhcLayout, R, D, S, DESCRIPTORS>;
/// The driver for DesignWare's controller, its first slot.
pub type DesignWare<R, D, S, const DESCRIPTORS: usize> = Mshc<DesignWareLayout, R, D, S, DESCRIPTORS>;

/// A controller: layout `L`, registers `R`, memory accessed through `D`, on a board `S`.
///
/// Nothing is written by [`new`](Mshc::new); [`BusOp::PowerOn`] brings the controller up.
pub struct Mshc<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> {
    regs: R,
    dma: D,
    board: S,
    table: &'static mut Descriptors<DESCRIPTORS>,
    table_bus: u64,
    form: Form,
    config: MshcConfig,
    caps: Caps,
    fifo: Fifo,
    /// Value last written to the register for the space of reads.
    read_room: u32,
    active: Option<Active>,
    bus: Bus,
    /// Whether data have failed without a reset since: the DMA may still be transferring them.
    dirty: bool,
    /// Whether the DMA must be reset before it transfers data: the CPU has transferred some, or a
    /// transfer was left in its middle.
    stale: bool,
    /// Whether the command's R1 is kept after an automatic CMD12.
    keeps_r1: bool,
    /// Interrupt mask as last written.
    mask: Option<u32>,
    layout: PhantomData<L>,
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    /// Makes a driver for the controller at `regs`; only reads registers. Maps the descriptors,
    /// once and for good.
    pub fn new(
        regs: R,
        dma: D,
        board: S,
        table: &'static mut Descriptors<DESCRIPTORS>,
        config: MshcConfig,
    ) -> Result<Self, MshcInitError> {
        if config.address_shift != 0 && config.address_shift != 2 {
            return Err(MshcInitError::Shift(config.address_shift));
        }
        let told = !L::DESIGN_WARE && config.busy_by_update;
        let caps = config
            .caps(
                DESCRIPTORS,
                !L::DESIGN_WARE,
                if !L::DESIGN_WARE && config.sample_delay { true } else { board.taps() != 0 },
            )?
            .busy(if told { BusyDetect::Interrupt } else { BusyDetect::Level });
        if regs.read32(L::AT.status) == u32::MAX && regs.read32(L::AT.control) == u32::MAX {
            return Err(MshcInitError::Gone);
        }
        let fifo = if L::DESIGN_WARE { designed(&regs, &config)? } else { allwinners(&config)? };
        let place = NonNull::from(&mut *table).cast();
        let bytes = Descriptors::<DESCRIPTORS>::BYTES;
        let table_bus = dma.map(place, bytes, Direction::Write).map_err(MshcInitError::Table)?;
        let reached = table_bus.checked_add(bytes as u64).is_some_and(|end| end <= 1 << 32);
        if !reached || !table_bus.is_multiple_of(16) {
            dma.unmap(table_bus, place, bytes, Direction::Write);
            let error = if reached { DmaError::Alignment } else { DmaError::Unreachable };
            return Err(MshcInitError::Table(error));
        }
        let form = Form {
            bus: table_bus as u32,
            chunk: config.descriptor_bytes,
            shift: config.address_shift,
            last: if L::DESIGN_WARE { 0 } else { DESCRIPTOR_END },
        };
        Ok(Mshc {
            regs,
            dma,
            board,
            table,
            table_bus,
            form,
            config,
            caps,
            fifo,
            read_room: 0,
            active: None,
            bus: Bus::new(),
            dirty: false,
            stale: false,
            keeps_r1: L::DESIGN_WARE,
            mask: None,
            layout: PhantomData,
        })
    }

    /// Returns the registers, for other code that uses them (vendor registers, models).
    ///
    /// # Safety
    /// The caller writes no register that the driver owns, and reads none that reading changes:
    /// register writes decide which memory the controller accesses.
    #[allow(unsafe_code, reason = "docs/safety.md says why")]
    pub unsafe fn regs(&self) -> &R {
        &self.regs
    }

    fn set_mask(&mut self, mask: u32) {
        if self.mask != Some(mask) {
            self.regs.write32(L::AT.mask, mask);
            self.mask = Some(mask);
        }
    }

    /// Returns whether the controller is off the bus, and reads as all ones.
    fn is_gone(&self) -> bool {
        self.regs.read32(L::AT.status) == u32::MAX && self.regs.read32(L::AT.raw) == u32::MAX
    }

    fn dat0_low(&self) -> bool {
        let status = self.regs.read32(L::AT.status);
        status != u32::MAX && status & STATUS_BUSY != 0
    }

    /// Returns whether the CPU transfers a buffer of this length.
    fn by_cpu(&self, len: u32) -> bool {
        len & (self.dma.line_bytes().max(4) - 1) != 0
    }
}

/// Returns the parameters of DesignWare's FIFO.
fn designed<R: Regs>(regs: &R, config: &MshcConfig) -> Result<Fifo, MshcInitError> {
    let hardware = regs.read32(DW_HARDWARE);
    if hardware & (HARDWARE_DMA | HARDWARE_WIDE) != 0 || hardware >> HARDWARE_FIFO_SHIFT & 7 != 1 {
        return Err(MshcInitError::Hardware(hardware));
    }
    let reset_mark = regs.read32(DesignWareLayout::AT.threshold) >> 16 & 0xfff;
    let words = fifo_words(config, reset_mark + 1)?;
    // Bursts of 8 words where both marks are multiples of that, else of 1.
    let burst = if words.is_multiple_of(16) { 2 << 28 } else { 0 };
    let old = regs.read32(DW_VERSION) & 0xffff < DW_VERSION_240A;
    Ok(Fifo {
        offset: config.fifo_offset.unwrap_or(if old { 0x100 } else { 0x200 }),
        bytes: 4 * words,
        threshold: burst | (words / 2 - 1) << 16 | (words / 2),
        read_room: !old,
    })
}

/// Returns the parameters of SMHC's FIFO. In an A10 it is at the offset where others have the
/// register for the space of reads.
fn allwinners(config: &MshcConfig) -> Result<Fifo, MshcInitError> {
    let words = fifo_words(config, SMHC_FIFO_WORDS)?;
    let offset = config.fifo_offset.unwrap_or(SMHC_FIFO);
    let read_room = offset != SmhcLayout::AT.read_room;
    Ok(Fifo { offset, bytes: 4 * words, threshold: SMHC_THRESHOLD, read_room })
}

fn fifo_words(config: &MshcConfig, own: u32) -> Result<u32, MshcInitError> {
    let words = config.fifo_words.map_or(own, u32::from);
    if (4..=4096).contains(&words) { Ok(words) } else { Err(MshcInitError::Fifo(words)) }
}

// SAFETY: descriptors are made in `table.rs` from the mapped segments alone, for no more bytes than
// they have, or the phase is refused; the CPU moves what `Cursor` finds inside segments that are
// not mapped for DMA. `active` is taken when the end is reported: for a read after the DMA's own.
// A reset is `Done` when the controller has cleared its bits, and its DMA with them. The table is
// `'static`, and written only when no phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Host
    for Mshc<L, R, D, S, DESCRIPTORS>
{
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = BY_CPU;
        if self.by_cpu(segment.len) {
            return Ok(());
        }
        let len = segment.len as usize;
        if !at_a_line(segment.ptr.addr().get(), direction, self.dma.line_bytes()) {
            return Err(DmaError::Alignment);
        }
        let bus = map_whole(&self.dma, segment.ptr, len, direction)?;
        let reached = bus.checked_add(segment.len.into()).is_some_and(|end| end <= 1 << 32);
        if reached && bus.is_multiple_of(4) {
            segment.bus = bus;
            return Ok(());
        }
        self.dma.unmap(bus, segment.ptr, len, direction);
        Err(if reached { DmaError::Alignment } else { DmaError::Unreachable })
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        if segment.bus & BY_CPU == 0 {
            self.dma.unmap(segment.bus, segment.ptr, segment.len as usize, direction);
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments)
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.take_events(segments)
    }

    fn isolate(&mut self) -> bool {
        self.is_gone() || self.dma.isolate()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    fn dat0_busy(&self) -> bool {
        self.dat0_low()
    }

    /// SMHC: always true, since there is no card detection.
    fn present(&self) -> bool {
        self.caps.fixed || self.regs.read32(DW_NO_CARD) & 1 == 0
    }

    fn write_protected(&self) -> bool {
        !self.caps.fixed && self.regs.read32(DW_PROTECTED) & 1 != 0
    }
}

//! MSHC: the SD controller in Allwinner's SoCs ([`Smhc`]), and Synopsys DesignWare's SD controller
//! ([`DesignWare`]) in Rockchip, StarFive JH7110, HiSilicon, Exynos, SoCFPGA and ESP32. Both have
//! the same core and differ in the register map.
//!
// Read first: `layout.rs` and `regs.rs` (the register maps), then `phase.rs` (how a phase starts),
// `events.rs` (how a phase ends), `bus.rs` (power, clock, voltage, reset), `tune.rs` (the sampling
// point) and `table.rs` (descriptors).
//!
//! The internal DMA transfers data by a list of descriptors. The CPU transfers data through the
//! FIFO if their length is not a multiple of a word or of a cache line. A read ends when the DMA
//! also reports that the data are in memory. The controller sends CMD12 after the last block.
//!
//! A change of the clock takes effect by a command that sends nothing on the bus. The driver sends
//! three of them: clock off, new divider, clock on. Each may take 100 ms; if one does not end, the
//! result is [`Step::Failed`].
//!
//! CMD11 ends when the card holds its lines low. Until the clock is enabled again, the driver marks
//! its clock changes as parts of the voltage switch. DesignWare's controller drives a pin for the
//! level shifter (UHS register). An SMHC has no such pin;
//! [`Surroundings::signalling`](crate::host::surroundings::Surroundings::signalling) switches the
//! voltage.
//!
//! Above 52 MHz the driver searches for the sampling point. Its taps are phases of the board's
//! clock unit ([`MshcBoard`]), or steps of an SMHC's delay line ([`MshcConfig::sample_delay`]). For
//! each tap the CPU compares a tuning block with the expected pattern. The driver tries the middle
//! of the longest row of good taps once more, and then uses it.
//!
//! The end of busy raises no interrupt: [`BusyDetect::Level`]. For data commands the driver sets
//! bit 13 of the command register, as Linux's driver does: an SMHC then sends the command only when
//! DAT0 is high. With that bit, an SMHC also holds back a command that only changes the clock; A64
//! and later can mask DAT0 during that time. A board may use the wait to detect the end of busy
//! ([`MshcConfig::busy_by_update`]): the driver sends a clock change that changes nothing.
//!
//! Not supported: HS400, automatic CMD23, and card interrupts, since QEMU's model raises one with
//! each transfer. The platform code handles clock tree, reset lines and pins of the SoC. The data
//! timer has 24 bits: at 200 MHz its longest timeout is 84 ms.
//!
//! DesignWare's controller keeps the response of the command and the R1 of the automatic CMD12. In
//! an SMHC the R1 of CMD12 may overwrite the command's R1 (in QEMU it does), which may report an
//! error of an earlier write. A card accepts CMD18 and CMD25 in `tran`, and CMD12 in other states
//! [SD 4.8], so the state in an R1 shows which command it belongs to.
//!
//! Until an SMHC has shown that it keeps the command's R1, the driver also enables the interrupt at
//! the end of the command, and reads the R1 then. If the driver handles this interrupt only after
//! the R1 of CMD12 has come, the command's R1 is lost, and the driver reports an R1 without errors.
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

/// Flag in [`Segment::bus`]: the CPU transfers this segment. Bus addresses have 32 bits, so no
/// address uses this bit.
const BY_CPU: u64 = 1 << 63;

/// Parameters of the controller's FIFO.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    offset: u16,
    bytes: u32,
    /// Value of the FIFO threshold register.
    threshold: u32,
    /// Whether the controller has the card read threshold register (100h), which delays a read
    /// until the FIFO has enough space.
    read_room: bool,
}

/// The driver for Allwinner's controller, SMHC.
pub type Smhc<R, D, S, const DESCRIPTORS: usize> = Mshc<SmhcLayout, R, D, S, DESCRIPTORS>;
/// The driver for the first slot of DesignWare's controller.
pub type DesignWare<R, D, S, const DESCRIPTORS: usize> = Mshc<DesignWareLayout, R, D, S, DESCRIPTORS>;

/// The driver of a controller with register map `L`, registers `R`, memory access `D` and board
/// `S`.
///
/// [`new`](Mshc::new) writes no register; [`BusOp::PowerOn`] initialises the controller.
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
    /// Value last written to the card read threshold register.
    read_room: u32,
    active: Option<Active>,
    bus: Bus,
    /// Whether data have failed and the controller was not reset since; the DMA may still be
    /// transferring them.
    dirty: bool,
    /// Whether the DMA must be reset before it transfers data: the CPU has transferred data since
    /// the last reset, or a transfer was stopped before its end.
    stale: bool,
    /// Whether the controller's response register still holds the command's own R1 after an
    /// automatic CMD12 (true), or the R1 of the CMD12 (false).
    keeps_r1: bool,
    /// Last value written to the interrupt mask; `None` if unknown.
    mask: Option<u32>,
    layout: PhantomData<L>,
}

impl<L: MshcLayout, R: Regs, D: Dma, S: MshcBoard, const DESCRIPTORS: usize> Mshc<L, R, D, S, DESCRIPTORS> {
    /// Makes a driver for the controller at `regs`; reads registers, but writes none. Maps the
    /// descriptors for DMA for the lifetime of the program.
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
        let caps = caps.align(caps.align.max(dma.line_bytes()));
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

    /// Returns the registers, for other code that accesses them (vendor registers, models).
    ///
    /// # Safety
    /// The caller writes no register that the driver uses, because register writes decide which
    /// memory the controller accesses. The caller also reads no register whose value a read
    /// changes.
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

    /// Returns whether the controller is off the bus: all registers then read as all ones.
    fn is_gone(&self) -> bool {
        self.regs.read32(L::AT.status) == u32::MAX && self.regs.read32(L::AT.raw) == u32::MAX
    }

    fn dat0_low(&self) -> bool {
        let status = self.regs.read32(L::AT.status);
        status != u32::MAX && status & STATUS_BUSY != 0
    }

    /// Returns whether the CPU transfers a buffer of `len` bytes, because DMA needs whole words and
    /// cache lines.
    fn by_cpu(&self, len: u32) -> bool {
        len & (self.dma.line_bytes().max(4) - 1) != 0
    }
}

/// Returns the parameters of DesignWare's FIFO, read from the HCON and threshold registers.
fn designed<R: Regs>(regs: &R, config: &MshcConfig) -> Result<Fifo, MshcInitError> {
    let hardware = regs.read32(DW_HARDWARE);
    if hardware & (HARDWARE_DMA | HARDWARE_WIDE) != 0 || hardware >> HARDWARE_FIFO_SHIFT & 7 != 1 {
        return Err(MshcInitError::Hardware(hardware));
    }
    let reset_mark = regs.read32(DesignWareLayout::AT.threshold) >> 16 & 0xfff;
    let words = fifo_words(config, reset_mark + 1)?;
    // Use bursts of 8 words if both thresholds are multiples of 8, single words otherwise.
    let burst = if words.is_multiple_of(16) { 2 << 28 } else { 0 };
    let old = regs.read32(DW_VERSION) & 0xffff < DW_VERSION_240A;
    Ok(Fifo {
        offset: config.fifo_offset.unwrap_or(if old { 0x100 } else { 0x200 }),
        bytes: 4 * words,
        threshold: burst | (words / 2 - 1) << 16 | (words / 2),
        read_room: !old,
    })
}

/// Returns the parameters of SMHC's FIFO. An A10 has its FIFO at 100h, where others have the card
/// read threshold register.
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

// SAFETY: `table.rs` makes descriptors only from the mapped segments, for no more bytes than they
// have; otherwise it refuses the phase. The CPU accesses only segments that are not mapped for DMA,
// by `Cursor`. `active` is cleared when the end is reported; for a read, after the DMA's own
// report. A reset is `Done` when the controller has cleared its reset bits, so its DMA has stopped.
// The table is `'static`, and written only when no phase is active.
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

    /// True if a card is in the slot. Always true for an SMHC, which has no card detection.
    fn present(&self) -> bool {
        self.caps.fixed || self.regs.read32(DW_NO_CARD) & 1 == 0
    }

    fn write_protected(&self) -> bool {
        !self.caps.fixed && self.regs.read32(DW_PROTECTED) & 1 != 0
    }
}

//! Realtek's PCIe card readers: RTS5209 and those of its successors that [`Chip`] names.
//!
// Read first: `regs.rs` (the registers), `list.rs` (what the chip reads from memory), then
// `phase.rs` (how a phase starts), `events.rs` (how a phase ends), `bus.rs` (clock, timing, reset),
// `chip.rs` (supply, voltage) and `tuning.rs`.
//!
//! A phase is one list of register operations, plus a scatter/gather table for data. A mapping may
//! consist of several pieces ([`Dma::piece`]); each has an entry of the table. Only a write
//! with its command needs two lists: the interrupt at the end of the command's list starts the
//! data's list. The DMA transfers all data, also card registers of a few bytes. The chip itself
//! sends no CMD12 and no CMD23. The chip can transfer data of a transfer that is open on the card
//! without a command, any number of times ([`Auto::Continue`](crate::host::Auto::Continue)).
//!
//! # Register accesses
//! Number of register accesses by the CPU in a phase. A `response` costs 0 accesses with
//! [`RtsxConfig::coherent`], else 5 writes and at least 5 reads (R2: 16 of each):
//!
//! | phase | to start | from the interrupt |
//! |---|---|---|
//! | command | 2 writes | 1 read, 1 write, response |
//! | read | 4 writes | 1 read, 1 write, response |
//! | write | 2 writes | 2 reads, 6 writes, response |
//! | data alone | 4 writes | 1 read, 1 write |
//!
//! One interrupt ends a list: the end of DMA raises an interrupt only if it comes after the end of
//! the list.
//!
//! # Busy
//! The chip can delay the end of a command until the card releases DAT0, and does so for each R1b.
//! The data of a write end with the card's CRC status; it is not known whether the real chip can
//! delay that end too. So [`Caps::busy`] is [`Response`](BusyDetect::Response) unless
//! [`RtsxConfig::busy_after_data`] is set: the engine then polls the card's status (CMD13) after a
//! write. It cannot poll DAT0, because the chip samples DAT0 only while the SD clock runs. After a
//! CMD12, which waits for the end of busy, the first CMD13 finds the card ready.

mod bus;
mod chip;
mod config;
mod events;
mod list;
mod phase;
mod port;
mod regs;
#[cfg(test)]
mod tests;
mod tuning;

use crate::host::{
    BlockSizes, BusOp, BusyDetect, Caps, Direction, Dma, DmaError, Events, Host, Phase, Regs, Segment,
    StartError, Step, Timing, Width,
};
use bus::Bus;
pub use config::{Chip, RtsxConfig, RtsxInitError};
use core::ptr::NonNull;
pub use list::Buffers;
use phase::{Active, Work};
use port::Port;
use regs::*;
use tuning::Sweep;

/// Longest time that a CHECK waits, in nanoseconds.
const CHECK_NS: u64 = 1_000_000_000;

/// The driver of a reader with registers `R` and memory access `D`.
///
/// [`new`](Rtsx::new) writes no register; [`BusOp::PowerOff`] and [`BusOp::PowerOn`] initialise the
/// reader.
pub struct Rtsx<R: Regs, D: Dma> {
    port: Port<R>,
    dma: D,
    buffers: &'static mut Buffers,
    list_bus: u32,
    table_bus: u32,
    config: RtsxConfig,
    caps: Caps,
    active: Option<Active>,
    bus: Bus,
    sweep: Sweep,
    state: Condition,
    /// Last value written to [`BIER`].
    enable: u32,
    /// Interrupts that are masked because they may persist. Overcurrent is masked until the supply
    /// is switched or the chip is reset, and the end of a command or its data until the next
    /// command.
    masked: u32,
}

/// State of the chip between two phases (commands with their data).
#[derive(Clone, Copy, Debug, Default)]
struct Condition {
    /// Whether the last command, its data or its busy has failed, and the lines were not reset
    /// since.
    upset: bool,
    /// Whether an interrupt event of a command came while no command was in progress. The driver
    /// clears such events before it starts the next command.
    unsettled: bool,
    /// Whether the last tuning block was bad, so that the next list must clear the error.
    uncleared: bool,
    /// Whether the SD clock was left running after CMD11 or after its start. The next list of
    /// register operations then makes it run only during transfers.
    toggling: bool,
    /// Whether CMD12 has ended a transfer, and no data were transferred since.
    stopped: bool,
}

impl<R: Regs, D: Dma> Rtsx<R, D> {
    /// Makes a driver for the reader at `regs`; maps list and table for DMA for the lifetime of the
    /// program.
    pub fn new(
        regs: R,
        dma: D,
        buffers: &'static mut Buffers,
        config: RtsxConfig,
    ) -> Result<Self, RtsxInitError> {
        if regs.read32(BIPR) == u32::MAX {
            return Err(RtsxInitError::Gone);
        }
        if dma.line_bytes() > 1 {
            return Err(RtsxInitError::CacheLines(dma.line_bytes()));
        }
        let list = NonNull::from(&mut buffers.operations).cast();
        let table = NonNull::from(&mut buffers.table).cast();
        let list_bus = map_low(&dma, list, Buffers::LIST_BYTES).map_err(RtsxInitError::List)?;
        let table_bus = match map_low(&dma, table, Buffers::TABLE_BYTES) {
            Ok(bus) => bus,
            Err(why) => {
                dma.unmap(list_bus.into(), list, Buffers::LIST_BYTES, Direction::Write);
                return Err(RtsxInitError::Table(why));
            }
        };
        Ok(Rtsx {
            port: Port { regs },
            dma,
            buffers,
            list_bus,
            table_bus,
            config,
            caps: caps(&config),
            active: None,
            bus: Bus::new(&config),
            sweep: Sweep::new(),
            state: Condition::default(),
            enable: 0,
            masked: 0,
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
        &self.port.regs
    }

    /// Returns pending interrupts and levels (BIPR); `None` if the reader is off the bus.
    fn pending(&self) -> Option<u32> {
        let status = self.port.regs.read32(BIPR);
        (status != u32::MAX || !self.is_gone()).then_some(status)
    }

    /// Returns whether the reader is off the bus. Two reads must return all ones, since one read
    /// may be lost on the bus. A reader that is off the bus accesses no memory.
    fn is_gone(&self) -> bool {
        self.port.regs.read32(BIPR) == u32::MAX && self.port.regs.read32(HAIMR) == u32::MAX
    }

    /// Writes the interrupt enable register if its value changes.
    fn set_enable(&mut self, enable: u32) {
        if self.enable != enable {
            self.port.regs.write32(BIER, enable);
            self.enable = enable;
        }
    }

    /// Returns the interrupts that are always enabled. The end of DMA is not among them, because it
    /// comes before the end of the list.
    fn base_enable(&self) -> u32 {
        let card = if self.config.fixed { 0 } else { INT_CARD };
        (INT_COMMAND | INT_FAIL | OVERCURRENT | card) & !self.masked
    }

    /// Enables the interrupts `bits` again, if they were masked.
    fn unmask(&mut self, bits: u32) {
        if self.masked & bits != 0 {
            self.masked &= !bits;
            self.set_enable(self.base_enable());
        }
    }
}

/// Maps `bytes` bytes of memory that the chip reads, and returns their bus address. An error if
/// they are not all below 4 GiB, or the address is not a multiple of 8.
fn map_low<D: Dma>(dma: &D, place: NonNull<u8>, bytes: usize) -> Result<u32, DmaError> {
    let bus = dma.map(place, bytes, Direction::Write)?;
    let end = bus.checked_add(bytes as u64);
    let wrong = match u32::try_from(bus) {
        Ok(low) if low.is_multiple_of(8) && end.is_some_and(|end| end <= 1 << 32) => return Ok(low),
        Ok(low) if !low.is_multiple_of(8) => DmaError::Alignment,
        _ => DmaError::Unreachable,
    };
    dma.unmap(bus, place, bytes, Direction::Write);
    Err(wrong)
}

fn caps(config: &RtsxConfig) -> Caps {
    let bit = Caps::timing_bit;
    let mut timings = bit(Timing::Legacy) | bit(Timing::HighSpeed);
    if config.signal18 {
        timings |= bit(Timing::Sdr12)
            | bit(Timing::Sdr25)
            | bit(Timing::Sdr50)
            | Caps::SDR50_TUNED
            | bit(Timing::Sdr104)
            | bit(Timing::Ddr50);
    }
    Caps {
        auto_stop: false,
        auto_count: false,
        no_count: false,
        continue_data: config.continue_data,
        open_until_stopped: false,
        concurrent_command: false,
        busy: if config.busy_after_data { BusyDetect::Interrupt } else { BusyDetect::Response },
        max_busy_ns: CHECK_NS,
        max_segments: list::SEGMENTS as u16,
        max_segment_bytes: list::SEGMENT_BYTES,
        max_block_bytes: phase::BLOCK_BYTES_MAX,
        block_sizes: BlockSizes::Any,
        max_blocks: u16::MAX.into(),
        max_bytes: list::SEGMENT_BYTES,
        align: 4,
        max_odd_bytes: u32::MAX,
        dma_bits: 32,
        defer_completion: false,
        clock_hz: (bus::CLOCK_HZ_MIN, bus::CLOCK_HZ_MAX.min(config.max_clock_hz).max(bus::CLOCK_HZ_MIN)),
        width: config.width.min(Width::W4),
        timings,
        signal18: config.signal18,
        signal18_fixed: false,
        fixed: config.fixed,
    }
}

// SAFETY: the table is built only from the segments and their pieces, for no more bytes than the
// segments have; otherwise the phase is refused. The CPU accesses none of the segments. The end is reported after
// the chip's own "DMA done", and a reset is `Done` when the DMA has stopped. List and table are
// `'static`, and written only when no phase is active.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
unsafe impl<R: Regs, D: Dma> Host for Rtsx<R, D> {
    const CONTINUES: bool = true;
    const EARLY_R1: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
        segment.bus = 0;
        let bus = self.dma.map(segment.ptr, segment.len as usize, direction)?;
        let wrong = match bus.checked_add(segment.len.into()) {
            Some(end) if end <= 1 << 32 && bus.is_multiple_of(4) => {
                segment.bus = bus;
                return Ok(());
            }
            Some(end) if end <= 1 << 32 => DmaError::Alignment,
            _ => DmaError::Unreachable,
        };
        self.dma.unmap(bus, segment.ptr, segment.len as usize, direction);
        Err(wrong)
    }

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        self.dma.unmap(segment.bus, segment.ptr, segment.len as usize, direction);
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _timeout_ns: u64) -> Result<(), StartError> {
        self.start_phase(phase, segments)
    }

    fn ack(&mut self, _segments: &[Segment]) -> Events {
        self.take_events()
    }

    fn early_r1(&mut self) -> Option<u32> {
        // A write has two lists: its response came with the first, before the list of its data.
        let active = self.active.as_ref().filter(|active| active.work == Work::Data)?;
        active.response.map(|response| response.r1().0)
    }

    fn isolate(&mut self) -> bool {
        // A reader that is off the bus accesses no memory.
        self.is_gone() || self.dma.isolate()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        self.step_bus(op, first, now_ns)
    }

    fn dat0_busy(&self) -> bool {
        self.dat_levels() & 1 == 0
    }

    fn dat_levels(&self) -> u8 {
        if self.bus.in_progress() {
            return 0xf;
        }
        self.port.fetch(SD_BUS_STAT).map_or(0xf, |levels| (levels & BUS_DAT) >> 1)
    }

    fn present(&self) -> bool {
        self.caps.fixed || self.pending().is_some_and(|status| status & LEVEL_SD != 0)
    }

    fn write_protected(&self) -> bool {
        !self.caps.fixed && self.pending().is_some_and(|status| status & LEVEL_WRITE_PROTECT != 0)
    }
}

//! The settings of the bus, and what follows from them: how long data take, and whether the
//! sampling point is valid.
//!
//! Each bus operation that the driver has finished is passed to this module; nothing else changes
//! the state of this module.

use crate::host::{BusOp, Timing, Width};
use crate::spec::bus::Bus;

/// Slowest clock for which the time of a block is computed; a slower clock, or none, counts as this
/// one. No card is slower: identification has 100 kHz at least [SD 6.4], [SD 4.2.1].
const SLOWEST_HZ: u32 = 4_000;
/// Number of clocks that the card needs after the last token before the clock changes [SD 4.4].
const LAST_CLOCKS: u64 = 8;

/// The settings of the bus, and the state of its tuning.
#[derive(Debug)]
pub(in super::super) struct Wire {
    /// Wire time in ns of a block at the present clock and width, if each line carries one bit a
    /// clock.
    block_ns: u64,
    clock_hz: u32,
    width: Width,
    timing: Timing,
    /// Whether the sampling point may be wrong: the controller has requested a new tuning, or lost
    /// the old result.
    doubted: bool,
    /// Whether a tuning has begun. The controller accepts only tuning blocks then.
    tuning: bool,
}

impl Wire {
    pub const UNSET: Wire = Wire {
        block_ns: 0,
        clock_hz: 0,
        width: Width::W1,
        timing: Timing::Legacy,
        doubted: false,
        tuning: false,
    };

    /// Notes a bus operation that the driver has finished: the new clock, width or timing, or the
    /// end of a tuning.
    pub fn done(&mut self, op: BusOp) {
        message!(debug, "bus: {:?}", op);
        match op {
            BusOp::Clock(hz) => self.clock_hz = hz,
            BusOp::Width(width) => self.width = width,
            BusOp::Timing(timing) => self.timing = timing,
            BusOp::TuneStart => self.tuning = true,
            BusOp::TuneAbort | BusOp::ResetAll => self.tuning = false,
            BusOp::PowerOff | BusOp::PowerOn => {
                (self.clock_hz, self.width, self.timing) = (0, Width::W1, Timing::Legacy);
                // With its supply the card loses the tuning, and the driver ends the controller's.
                self.tuning = false;
            }
            _ => return,
        }
        let lines = match self.width {
            Width::W1 => 1,
            Width::W4 => 4,
            Width::W8 => 8,
        };
        // 4096 bits, and some clocks for start, CRC and end; of any number of blocks the time is
        // below 2^64 ns.
        self.block_ns = (4096 / lines + 40) * 1_000_000_000 / u64::from(self.clock_hz.max(SLOWEST_HZ));
    }

    /// Returns the longest time of this many blocks on the wire: twice the time of their bits,
    /// since a controller may pause its clock.
    #[inline(always)]
    pub fn data_ns(&self, blocks: u32) -> u64 {
        2 * u64::from(blocks) * self.block_ns
    }

    /// Returns the shortest time in ns of `blocks` blocks on the wire.
    pub fn bits_ns(&self, blocks: u32) -> u64 {
        u64::from(blocks) * self.block_ns / if self.as_set().ddr { 2 } else { 1 }
    }

    /// Returns for how many nanoseconds the clock must run before this operation may begin [SD
    /// 4.4]. `None`: the operation may begin at once.
    pub fn last_clocks_ns(&self, op: BusOp) -> Option<u64> {
        if self.clock_hz == 0 || !matches!(op, BusOp::Clock(_)) {
            return None;
        }
        let clock_ns = 1_000_000_000 / self.clock_hz.max(1);
        Some(LAST_CLOCKS * u64::from(clock_ns + 1))
    }

    /// Returns whether the present timing has a sampling point that only tuning finds: SDR50,
    /// SDR104, HS200 or HS400.
    pub fn is_tuned(&self) -> bool {
        matches!(self.timing, Timing::Sdr50 | Timing::Sdr104 | Timing::Hs200 | Timing::Hs400)
    }

    /// Notes that the controller has found its sampling point.
    pub fn tuned(&mut self) {
        self.tuning = false;
    }

    /// Returns whether a tuning is in progress, or was interrupted.
    pub fn is_tuning(&self) -> bool {
        self.tuning
    }

    /// Notes that the sampling point is wrong, or may soon be. From then on no transfer is left
    /// open, so that a tuning can start.
    pub fn doubt(&mut self) {
        self.doubted = true;
    }

    #[inline]
    pub fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Clears the note that the sampling point may be wrong: a tuning has run or was attempted, or
    /// the request for a tuning was passed to the platform. Returns true if there was such a note.
    pub fn trust(&mut self) -> bool {
        core::mem::take(&mut self.doubted)
    }

    /// Returns timing, width and clock (in hertz) as they were set last.
    pub fn mode(&self) -> (Timing, Width, u32) {
        (self.timing, self.width, self.clock_hz)
    }

    /// Returns the bus settings. The clock is the requested one; the driver may have rounded it
    /// down.
    pub fn as_set(&self) -> Bus {
        use Timing::{Ddr50, Ddr52, Hs400, Hs400Es};
        let ddr = matches!(self.timing, Ddr50 | Ddr52 | Hs400 | Hs400Es);
        Bus { clock_hz: self.clock_hz, width: self.width, ddr }
    }
}

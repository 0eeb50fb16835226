//! Checks whether the host drives the bus as the card's mode requires.

use super::BusState;

/// Highest clock in Hz during identification, open drain or not [SD 4.2.1] [eMMC 6.4].
pub(crate) const IDENTIFICATION_HZ: u32 = 400_000;
/// Highest clock in Hz at which the host needs no tuning: any sampling point works.
const UNTUNED_HZ: u32 = 52_000_000;
/// Highest clock in Hz at which the data eye is wide; above this clock it is narrow.
const WIDE_EYE_HZ: u32 = 100_000_000;

/// Bus settings that the card's present mode needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// Highest clock in Hz that the mode allows.
    pub(crate) max_hz: u32,
    /// Number of data lines that the mode uses.
    pub(crate) width: u8,
    /// Whether data go on both edges of the clock.
    pub(crate) ddr: bool,
    /// Signalling voltage: `Some(true)` needs 1.8 V, `Some(false)` forbids it, `None` allows both.
    pub(crate) signal18: Option<bool>,
    /// Whether the card sends its data strobe also with responses (HS400ES).
    pub(crate) strobe: bool,
}

impl Mode {
    /// Returns whether the card's receiver understands a command with these bus settings.
    pub(crate) fn hears(&self, bus: &BusState) -> bool {
        bus.powered
            && bus.clock_hz > 0
            && bus.clock_hz <= self.max_hz
            && self.signal18.is_none_or(|want| want == bus.signal18)
    }

    /// Returns whether the host's receiver understands a response with these bus settings.
    pub(crate) fn is_heard(&self, bus: &BusState) -> bool {
        bus.strobe == self.strobe && (self.strobe || bus.sample_error <= limits(bus).0)
    }

    /// Returns whether data of either direction arrive undamaged with these bus settings.
    pub(crate) fn data_ok(&self, bus: &BusState) -> bool {
        self.hears(bus)
            && bus.strobe == self.strobe
            && bus.width == self.width
            && bus.ddr == self.ddr
            && (self.strobe || bus.sample_error <= limits(bus).1)
    }
}

/// Returns the largest sampling errors (see [`BusState::sample_error`]) at which responses still
/// arrive, and at which data still arrive.
fn limits(bus: &BusState) -> (u8, u8) {
    match bus.clock_hz {
        0..=UNTUNED_HZ => (100, 100),
        hz if hz <= WIDE_EYE_HZ => (80, 70),
        _ => (60, 40),
    }
}

/// Returns the time in ns of a block's payload of `bytes` bytes on the data lines, without start,
/// CRC and end bits.
pub(crate) fn payload_ns(bus: &BusState, bytes: u16) -> u64 {
    let lines = u64::from(bus.width.max(1)) << u32::from(bus.ddr);
    clocks_ns(bus, (u64::from(bytes) * 8).div_ceil(lines))
}

/// Returns the number of clocks of a block on the data lines: start bit, payload, CRC16, end bit.
pub(crate) fn block_clk(bus: &BusState, bytes: u16) -> u64 {
    let lines = u64::from(bus.width.max(1)) << u32::from(bus.ddr);
    1 + (u64::from(bytes) * 8).div_ceil(lines) + 16 + 1
}

/// Returns the time in ns that this number of clocks of the bus takes.
pub(crate) fn clocks_ns(bus: &BusState, clocks: u64) -> u64 {
    clocks * 1_000_000_000 / u64::from(bus.clock_hz.max(1))
}

/// State of a card's power-up. The card accepts commands after 1 ms of stable power and 74 clocks
/// [SD 6.4.1] [eMMC 10.1].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PowerUp {
    /// Time in ns at which 1 ms of stable power, or the time tRSCA after a reset, is over. The 74
    /// clocks may end later.
    ready_ns: u64,
    clocked_ns: Option<u64>,
    awake: bool,
}

impl PowerUp {
    const SUPPLY_NS: u64 = 1_000_000;
    const CLOCKS: u64 = 74;
    /// Time in ns from a reset by RST_n to the first command (tRSCA) [eMMC 6.15.10].
    const RESET_NS: u64 = 200_000;

    /// Makes the state of a power-up that begins at this time.
    pub(crate) fn on(now_ns: u64) -> Self {
        Self { ready_ns: now_ns.saturating_add(Self::SUPPLY_NS), clocked_ns: None, awake: false }
    }

    /// Makes the state of the waiting time (tRSCA) of an eMMC, which begins when RST_n is released.
    pub(crate) fn after_reset(now_ns: u64) -> Self {
        Self { ready_ns: now_ns.saturating_add(Self::RESET_NS), ..Self::on(now_ns) }
    }

    /// Records that the card's clock runs (`running`) or is stopped, from `now_ns` on.
    pub(crate) fn clock(&mut self, running: bool, now_ns: u64) {
        self.clocked_ns = if running { self.clocked_ns.or(Some(now_ns)) } else { None };
    }

    /// Returns whether the card accepts commands at this time.
    pub(crate) fn awake(&mut self, bus: &BusState, now_ns: u64) -> bool {
        self.awake |= now_ns >= self.ready_ns
            && self.clocked_ns.is_some_and(|at| now_ns >= at.saturating_add(clocks_ns(bus, Self::CLOCKS)));
        self.awake
    }
}

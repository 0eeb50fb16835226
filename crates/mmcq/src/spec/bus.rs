//! Settings of the bus: data lines, timing, clock.

/// The data lines that the bus uses.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One data line, DAT0.
    W1,
    /// Four data lines, DAT0 to DAT3.
    W4,
    /// Eight data lines, DAT0 to DAT7 (eMMC).
    W8,
}

/// Bus timing (speed mode) of card and host.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Default speed of SD (25 MHz) or legacy timing of eMMC (26 MHz); also used for
    /// identification.
    Legacy,
    /// High speed: up to 50 MHz on SD, 52 MHz on eMMC.
    HighSpeed,
    /// SDR12 (SD): up to 25 MHz at 1.8 V.
    Sdr12,
    /// SDR25 (SD): up to 50 MHz at 1.8 V.
    Sdr25,
    /// SDR50 (SD): up to 100 MHz at 1.8 V.
    Sdr50,
    /// SDR104 (SD): up to 208 MHz at 1.8 V.
    Sdr104,
    /// DDR50 (SD): up to 50 MHz at 1.8 V, data on both clock edges.
    Ddr50,
    /// DDR52 (eMMC): up to 52 MHz, data on both clock edges.
    Ddr52,
    /// HS200 (eMMC): up to 200 MHz.
    Hs200,
    /// HS400 (eMMC): up to 200 MHz, data on both clock edges.
    Hs400,
    /// HS400 with enhanced strobe (eMMC).
    Hs400Es,
}

impl Timing {
    /// Number of timings in this enumeration.
    pub const COUNT: usize = 11;
}

/// Present settings of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Clock in hertz; 0 while it is stopped.
    pub clock_hz: u32,
    /// Data lines in use.
    pub width: Width,
    /// Whether data are transferred on both clock edges (DDR).
    pub ddr: bool,
}

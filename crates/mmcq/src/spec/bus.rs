//! Settings of the bus: lines, timing, clock.

/// Data lines in use.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// DAT0.
    W1,
    /// DAT0 to DAT3.
    W4,
    /// DAT0 to DAT7.
    W8,
}

/// Bus timing.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Default speed of SD (25 MHz), legacy of eMMC (26 MHz); also identification.
    Legacy,
    /// High speed: SD 50 MHz, eMMC 52 MHz.
    HighSpeed,
    /// 25 MHz at 1.8 V.
    Sdr12,
    /// 50 MHz at 1.8 V.
    Sdr25,
    /// 100 MHz at 1.8 V.
    Sdr50,
    /// 208 MHz at 1.8 V.
    Sdr104,
    /// 50 MHz at 1.8 V, both edges.
    Ddr50,
    /// eMMC 52 MHz, both edges.
    Ddr52,
    /// eMMC 200 MHz.
    Hs200,
    /// eMMC 200 MHz, both edges.
    Hs400,
    /// HS400 with enhanced strobe.
    Hs400Es,
}

impl Timing {
    /// Number of timings.
    pub const COUNT: usize = 11;
}

/// Present settings of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Clock in hertz; 0: stopped.
    pub clock_hz: u32,
    /// Data lines.
    pub width: Width,
    /// Whether data are on both edges.
    pub ddr: bool,
}

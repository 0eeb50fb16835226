//! Decides what the driver uses, from the controller's version and capabilities and the
//! configuration.

use super::clock::Clocks;
use super::config::{SdhciConfig, SdhciInitError, SdhciQuirks, TransferMode};
use super::regs::*;
use super::table::Form;
use crate::host::{BlockSizes, BusyDetect, Caps, Timing, Width};

/// Specification Version Number of version 3.00 [SDHC 2.2.34].
pub(super) const VERSION_3_00: u8 = 2;
/// Specification Version Number of version 4.00.
pub(super) const VERSION_4_00: u8 = 3;
/// Specification Version Number of version 4.10.
pub(super) const VERSION_4_10: u8 = 4;

const MAX_BLOCKS: u32 = 65_535;
/// Largest SDMA or PIO transfer in bytes: the distance between two SDMA boundaries.
const MAX_BYTES_UNSCATTERED: u32 = 512 * 1024;
const DESCRIPTOR_BYTES: u32 = 65_536;

/// The modes that the driver has chosen for one controller; constant after construction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) version: u8,
    /// Whether the controller has SDMA, even if the driver uses another mode.
    pub(super) sdma: bool,
    /// Whether Host Version 4 Enable is set.
    pub(super) v4: bool,
    /// Whether DMA uses 64-bit addresses.
    pub(super) wide: bool,
    pub(super) mode: TransferMode,
    pub(super) form: Form,
    pub(super) max_block_bytes: u16,
    pub(super) clocks: Clocks,
    /// Value of SD Bus Voltage Select at power-on.
    pub(super) voltage: u8,
    /// Mask of the error bits in the interrupt status that exist in the controller's version.
    pub(super) errors: u32,
    pub(super) busy: BusyDetect,
    /// Timer Count for Re-Tuning from the capabilities: a code for the time until the next tuning
    /// [SDHC 2.2.25].
    retune_count: u8,
    pub(super) by_cpu: ByCpu,
}

/// Which segments the CPU transfers through the buffer port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByCpu {
    Never,
    /// Segments whose length is not a multiple of 4, or of a longer cache line.
    OddLengths,
    Always,
}

impl Model {
    /// Decides which modes the driver uses. `version` is the Specification Version Number, `caps`
    /// the capabilities register (044h:040h), `slots` the number of descriptors in the table, and
    /// `line_bytes` the length of a cache line.
    pub(super) fn new(
        version: u8,
        caps: u64,
        config: &SdhciConfig,
        slots: usize,
        line_bytes: u32,
    ) -> Result<Self, SdhciInitError> {
        let (low, high) = (caps as u32, (caps >> 32) as u32);
        let quirks = config.quirks;
        let v4 = version >= VERSION_4_00 && !quirks.has(SdhciQuirks::NO_V4_MODE);
        let nop_end = quirks.has(SdhciQuirks::ADMA_NOP_END);
        let adma =
            low & CAP_ADMA2 != 0 && !quirks.has(SdhciQuirks::BROKEN_ADMA) && slots > usize::from(nop_end);
        let sdma = low & CAP_SDMA != 0 && !quirks.has(SdhciQuirks::BROKEN_SDMA);
        let mode = match config.transfer {
            TransferMode::Auto if adma => TransferMode::Adma2,
            TransferMode::Auto if sdma => TransferMode::Sdma,
            TransferMode::Auto => TransferMode::Pio,
            TransferMode::Adma2 if !adma => return Err(SdhciInitError::TransferMode(TransferMode::Adma2)),
            TransferMode::Sdma if !sdma => return Err(SdhciInitError::TransferMode(TransferMode::Sdma)),
            forced => forced,
        };
        let announced = low & if v4 { CAP_64BIT_V4 } else { CAP_64BIT_V3 } != 0;
        // Version 3 has 64-bit addresses only in ADMA2.
        let wide = version >= VERSION_3_00
            && announced
            && !quirks.has(SdhciQuirks::BROKEN_ADMA_64)
            && (mode == TransferMode::Adma2 || v4 && mode == TransferMode::Sdma);
        let words = match (wide, v4) {
            (false, _) => 2,
            (true, false) => 3,
            (true, true) => 4,
        };
        let short = quirks.has(SdhciQuirks::ADMA_ZERO_LENGTH_BROKEN);
        let chunk = if short { DESCRIPTOR_BYTES / 2 } else { DESCRIPTOR_BYTES };
        let voltage = match low {
            low if low & CAP_3V3 != 0 => POWER_3V3,
            low if low & CAP_3V0 != 0 => POWER_3V0,
            low if low & CAP_1V8 != 0 => POWER_1V8,
            _ => POWER_3V3,
        };
        let busy = match (quirks.has(SdhciQuirks::NO_BUSY_IRQ), quirks.has(SdhciQuirks::NO_DAT0_LEVEL)) {
            (false, _) => BusyDetect::Interrupt,
            (true, false) => BusyDetect::Level,
            (true, true) => BusyDetect::Status,
        };
        let errors = match version {
            ..VERSION_3_00 => 0x03ff_0000,
            VERSION_3_00 => 0x07ff_0000,
            _ => 0x0fff_0000,
        };
        Ok(Model {
            version,
            sdma,
            v4,
            wide,
            mode,
            form: Form { words, chunk, nop_end },
            max_block_bytes: match (low >> 16) & 3 {
                1 => 1024,
                2 => 2048,
                _ => 512,
            },
            clocks: Clocks::new(version, low, high, config)?,
            voltage,
            errors,
            busy,
            retune_count: (high >> 8) as u8 & 0xf,
            by_cpu: match mode {
                TransferMode::Pio => ByCpu::Always,
                // Card registers and short packets end inside of a cache line, and DMA would
                // overwrite the rest of the line.
                _ if line_bytes > 1 || quirks.has(SdhciQuirks::DMA_SIZE_32BIT) => ByCpu::OddLengths,
                _ => ByCpu::Never,
            },
        })
    }

    /// Returns the time in nanoseconds after which tuning must be repeated, in any of the three
    /// re-tuning modes. Count 0 means that there is no timer, 15 that the value has another source;
    /// 12 to 14 are reserved.
    pub(super) fn retune_ns(&self) -> u64 {
        match self.retune_count {
            count @ 1..=11 if self.version >= VERSION_3_00 => 1_000_000_000 << (count - 1),
            _ => 0,
        }
    }

    /// Returns the capabilities for the engine; `caps` is the capabilities register, `slots` the
    /// number of descriptors in the table, and `line_bytes` the length of a cache line.
    pub(super) fn caps(&self, caps: u64, config: &SdhciConfig, slots: usize, line_bytes: u32) -> Caps {
        let (low, high) = (caps as u32, (caps >> 32) as u32);
        let quirks = config.quirks;
        let (max_segments, max_segment_bytes, max_bytes) = match self.mode {
            TransferMode::Adma2 => self.scatter(slots),
            TransferMode::Pio => (u16::MAX, MAX_BYTES_UNSCATTERED, MAX_BYTES_UNSCATTERED),
            _ => (1, MAX_BYTES_UNSCATTERED, MAX_BYTES_UNSCATTERED),
        };
        let uhs = if self.version >= VERSION_3_00 { high } else { 0 };
        // A board that enables eMMC's fast timings has 1.8 V lines, whatever the bits for SD cards
        // say.
        let fast_emmc = [Timing::Hs200, Timing::Hs400, Timing::Hs400Es]
            .map(Caps::timing_bit)
            .iter()
            .fold(0, |a, b| a | b);
        let low_voltage =
            uhs & (CAP2_SDR50 | CAP2_SDR104 | CAP2_DDR50) != 0 || config.extra_timings & fast_emmc != 0;
        let signal18 =
            quirks.has(SdhciQuirks::FIXED_18) || low_voltage && !quirks.has(SdhciQuirks::NO_SIGNAL_18);
        let wide_bus = low & CAP_8BIT != 0;
        Caps {
            auto_stop: !quirks.has(SdhciQuirks::NO_AUTO_CMD12),
            // Below version 4, the address of SDMA and the argument of the automatic CMD23 share
            // one register.
            auto_count: self.version >= VERSION_3_00
                && (self.v4 || self.mode == TransferMode::Adma2)
                && !quirks.has(SdhciQuirks::NO_AUTO_CMD23)
                && !quirks.has(SdhciQuirks::NO_CMD23),
            no_count: quirks.has(SdhciQuirks::NO_CMD23),
            continue_data: false,
            open_until_stopped: false,
            // After a failed command during data, the driver resets only the CMD circuit.
            concurrent_command: !quirks.has(SdhciQuirks::RESET_CMD_DATA_TOGETHER),
            busy: self.busy,
            max_busy_ns: if quirks.has(SdhciQuirks::MASK_LONG_TIMEOUT) {
                u64::MAX
            } else {
                self.clocks.max_timeout_ns()
            },
            max_segments,
            max_segment_bytes,
            max_block_bytes: self.max_block_bytes,
            block_sizes: BlockSizes::Any,
            max_blocks: MAX_BLOCKS,
            max_bytes,
            align: if self.mode == TransferMode::Pio { 1 } else { line_bytes.max(4) },
            max_odd_bytes: u32::MAX,
            dma_bits: match self.mode {
                TransferMode::Pio => 0,
                _ if self.wide => 64,
                _ => 32,
            },
            defer_completion: quirks.has(SdhciQuirks::DEFER_COMPLETION)
                || quirks.has(SdhciQuirks::DEFER_READS),
            clock_hz: self.clocks.range(config.max_clock_hz),
            width: if wide_bus { config.width } else { config.width.min(Width::W4) },
            timings: config.extra_timings | timings(low, uhs, signal18),
            signal18,
            signal18_fixed: quirks.has(SdhciQuirks::FIXED_18),
            fixed: config.fixed,
        }
    }

    /// Returns the largest number of segments, of bytes in a segment and of bytes in a transfer.
    /// Within these limits every transfer fits a table of `slots` descriptors: `n` segments with
    /// the bytes of `t` full descriptors need at most `n + t - 1` descriptors.
    pub(super) fn scatter(&self, slots: usize) -> (u16, u32, u32) {
        let slots = u32::try_from(slots).unwrap_or(u32::MAX).saturating_sub(self.form.nop_end.into());
        // A chunk is neither 0 nor longer than a transfer; `max` makes a panic impossible.
        let most = MAX_BLOCKS * 512 / self.form.chunk.max(1);
        let chunks = slots.div_ceil(2).min(most).max(1);
        let bytes = chunks * self.form.chunk;
        let segments = u16::try_from(slots.saturating_sub(chunks - 1)).unwrap_or(u16::MAX);
        (segments, bytes, bytes)
    }
}

fn timings(low: u32, uhs: u32, signal18: bool) -> u16 {
    let fast = low & CAP_HIGH_SPEED != 0;
    let of = |can: bool, timing| if can { Caps::timing_bit(timing) } else { 0 };
    let sdr104 = uhs & CAP2_SDR104 != 0;
    let ddr50 = uhs & CAP2_DDR50 != 0;
    let mut bits =
        Caps::timing_bit(Timing::Legacy) | of(fast, Timing::HighSpeed) | of(fast && ddr50, Timing::Ddr52);
    if signal18 {
        bits |= Caps::timing_bit(Timing::Sdr12) | Caps::timing_bit(Timing::Sdr25);
        bits |= of(sdr104 || uhs & CAP2_SDR50 != 0, Timing::Sdr50) | of(ddr50, Timing::Ddr50);
        bits |= of(sdr104, Timing::Sdr104) | of(sdr104, Timing::Hs200);
    }
    if uhs & CAP2_SDR50_TUNED != 0 { bits | Caps::SDR50_TUNED } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests Timer Count for Re-Tuning, bits 43:40 of the capabilities [SDHC 2.2.25].
    #[test]
    fn a_tuning_lasts_as_long_as_the_timer_count_says() {
        let model = |version, count: u64| {
            let caps = 200 << 8 | u64::from(CAP_3V3) | count << 40;
            Model::new(version, caps, &SdhciConfig::new(), 0, 1).unwrap().retune_ns()
        };
        let of = |count| model(VERSION_3_00, count);
        assert_eq!((of(1), of(2), of(6)), (1_000_000_000, 2_000_000_000, 32_000_000_000));
        assert_eq!(of(11), 1_024_000_000_000);
        for none in [0, 12, 13, 14, 15] {
            assert_eq!(of(none), 0);
        }
        assert_eq!(model(VERSION_3_00 - 1, 1), 0);
    }
}

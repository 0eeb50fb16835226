//! Parameters of a mobile storage host.

use serde::{Deserialize, Serialize};

/// Register layout of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Layout of Allwinner's SMHC.
    Smhc,
    /// Layout of Synopsys' DesignWare MSHC.
    DesignWare,
}

/// Parameters of a controller. A key that a TOML table does not have gets its value from
/// [`MshcConfig::H3`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MshcConfig {
    /// Register layout of the controller.
    pub layout: Layout,
    /// Clock in Hz before the divider; 0: the controller gets no clock.
    pub source_hz: u32,
    /// Number of 4-byte words in the FIFO.
    pub fifo_words: u16,
    /// Offset of the register through which the CPU accesses the FIFO.
    pub fifo_offset: u16,
    /// Value of the version register VERID; SMHC does not have this register.
    pub version: u32,
    /// Number of bits of the length in a DMA descriptor: 13, or 16 on most SMHC controllers.
    pub size_bits: u8,
    /// Number of bits by which addresses of DMA descriptors and buffers are shifted right: 0 or 2.
    pub address_shift: u8,
    /// Whether the internal DMA has 64-bit addresses and descriptors of eight words.
    pub wide_dma: bool,
    /// Whether the controller has an internal DMA.
    pub internal_dma: bool,
    /// Whether the response to an automatic CMD12 goes to the first response register, and
    /// overwrites the response to the data command. Otherwise it goes to the second.
    pub auto_answer_first: bool,
    /// Number of data lines that the board connects.
    pub lines: u8,
    /// Time in ns from the end of a read's last block on the lines until it is in memory.
    pub memory_ns: u32,
    /// Middle of the data eye, in degrees of the card's clock after the edge at which the
    /// controller samples by default.
    pub best_phase: u16,
    /// Number of sampling phases of the board's clock unit, evenly spaced; 0: the clock unit cannot
    /// move the sampling edge.
    pub phases: u8,
    /// Length of a step of SMHC's own delay line (SAMP_DL) in picoseconds; 0: there is no delay
    /// line.
    pub delay_step_ps: u16,
    /// Whether the board has a level shifter that switches the lines to 1.8 V.
    pub signal18: bool,
    /// Whether the lines are fixed at 1.8 V.
    pub signal18_fixed: bool,
    /// Whether the registers get their clock. Without it each register reads as ones and ignores
    /// writes.
    pub bus_clock: bool,
    /// Fault: whether a write to the poll demand register has no effect, so that a suspended DMA
    /// stays suspended.
    pub ignores_poll: bool,
    /// Fault: whether a command that has no data itself (such as CMD13) never carries data. Without
    /// the fault such a command can carry further blocks of a write that the card has open.
    pub carries_nothing: bool,
}

impl MshcConfig {
    /// Allwinner H3: 50 MHz source clock, descriptors of up to 64 KiB.
    pub const H3: MshcConfig = MshcConfig {
        layout: Layout::Smhc,
        source_hz: 50_000_000,
        fifo_words: 16,
        fifo_offset: 0x200,
        version: 0,
        size_bits: 16,
        address_shift: 0,
        wide_dma: false,
        internal_dma: true,
        auto_answer_first: true,
        lines: 4,
        memory_ns: 200,
        best_phase: 90,
        phases: 0,
        delay_step_ps: 0,
        signal18: true,
        signal18_fixed: false,
        bus_clock: true,
        ignores_poll: false,
        carries_nothing: false,
    };

    /// Allwinner A10: another FIFO offset than the H3, and shorter descriptors.
    pub const A10: MshcConfig = MshcConfig { fifo_offset: 0x100, size_bits: 13, ..Self::H3 };

    /// Allwinner D1: descriptors hold addresses in 4-byte words.
    pub const D1: MshcConfig = MshcConfig { size_bits: 13, address_shift: 2, ..Self::H3 };

    /// The eMMC port of Allwinner's A64: 200 MHz, eight lines at 1.8 V, a FIFO of 1 KiB, and its
    /// own delay line.
    pub const A64: MshcConfig = MshcConfig {
        source_hz: 200_000_000,
        fifo_words: 256,
        size_bits: 13,
        lines: 8,
        delay_step_ps: 80,
        signal18: false,
        signal18_fixed: true,
        ..Self::H3
    };

    /// The DesignWare MSHC of StarFive's JH7110.
    pub const JH7110: MshcConfig = MshcConfig {
        layout: Layout::DesignWare,
        source_hz: 100_000_000,
        fifo_words: 32,
        version: 0x5342_290a,
        size_bits: 13,
        auto_answer_first: false,
        ..Self::H3
    };

    /// The DesignWare MSHC of Rockchip's RK3399 for SD cards: 200 MHz, a FIFO of 1 KiB, and a clock
    /// unit with sixteen sampling phases. Its divider reaches 400 kHz from at most 204 MHz.
    pub const RK3399: MshcConfig = MshcConfig {
        source_hz: 200_000_000,
        fifo_words: 256,
        version: 0x5342_270a,
        phases: 16,
        ..Self::JH7110
    };

    /// The DesignWare MSHC behind Linux's driver `dw_mmc-pci`: 33 MHz, eight lines, 3.3 V.
    pub const PCI: MshcConfig =
        MshcConfig { source_hz: 33_000_000, lines: 8, signal18: false, ..Self::JH7110 };

    /// Checks all values. The error for a value that no controller can have is one line with the
    /// key, the value and what was expected.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |key: &str, value: u64, expected: &str| {
            Err(format!("mshc: {key} = {value}: expected {expected}"))
        };
        if self.source_hz != 0 && !(1_000_000..=400_000_000).contains(&self.source_hz) {
            return wrong("source_hz", self.source_hz.into(), "0, or 1000000 to 400000000");
        }
        if !self.fifo_words.is_power_of_two() || !(8..=1024).contains(&self.fifo_words) {
            return wrong("fifo_words", self.fifo_words.into(), "a power of two from 8 to 1024");
        }
        if !matches!(self.fifo_offset, 0x100 | 0x200) {
            return wrong("fifo_offset", self.fifo_offset.into(), "256 or 512");
        }
        if !matches!(self.size_bits, 13 | 16) || self.layout == Layout::DesignWare && self.size_bits != 13 {
            return wrong("size_bits", self.size_bits.into(), "13, or 16 with layout smhc");
        }
        if !matches!(self.address_shift, 0 | 2) {
            return wrong("address_shift", self.address_shift.into(), "0 or 2");
        }
        if self.wide_dma && (self.layout == Layout::Smhc || self.address_shift != 0) {
            return Err("mshc: wide_dma = true: expected layout design_ware, and address_shift 0".into());
        }
        if !matches!(self.lines, 1 | 4 | 8) {
            return wrong("lines", self.lines.into(), "1, 4 or 8");
        }
        if self.best_phase >= 360 {
            return wrong("best_phase", self.best_phase.into(), "0 to 359");
        }
        if self.phases > 32 {
            return wrong("phases", self.phases.into(), "0 to 32");
        }
        if self.delay_step_ps > 1000 || self.layout == Layout::DesignWare && self.delay_step_ps != 0 {
            return wrong("delay_step_ps", self.delay_step_ps.into(), "0, or up to 1000 with layout smhc");
        }
        if self.signal18 && self.signal18_fixed {
            return Err("mshc: signal18 = true with signal18_fixed = true: expected one of them".into());
        }
        Ok(())
    }

    pub(super) fn is_smhc(&self) -> bool {
        self.layout == Layout::Smhc
    }
}

impl Default for MshcConfig {
    fn default() -> Self {
        Self::H3
    }
}

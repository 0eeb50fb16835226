//! Offsets of the registers. The layouts of Allwinner's SMHC and of Synopsys' DesignWare have
//! mostly the same registers, at different offsets.

use super::config::{Layout, MshcConfig};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    Control,
    /// PWREN (only DesignWare): register that switches the card's power on.
    Power,
    /// CKCR (only SMHC): divider and clock enable in one register.
    Clock,
    /// CLKDIV (only DesignWare): the divider, one of three clock registers.
    Divider,
    Source,
    Enable,
    Timeout,
    Width,
    BlockSize,
    ByteCount,
    Command,
    Argument,
    Response(u8),
    Mask,
    Masked,
    Raw,
    Status,
    Threshold,
    /// CDETECT (only DesignWare): card detection. The register `Protect` (WRTPRT) shows the write
    /// protection.
    Detect,
    Protect,
    /// Register with the number of bytes moved on the data lines. (The register `FifoBytes` counts
    /// the bytes moved between the FIFO and memory or CPU.)
    LineBytes,
    FifoBytes,
    Version,
    Features,
    Uhs,
    /// NTSR (only SMHC): new timing mode.
    Timing,
    /// SAMP_DL (only SMHC): sampling delay.
    SampleDelay,
    /// CDTHRCTL (DesignWare) or THLDC (SMHC): room that a read block needs before it starts.
    ReadRoom,
    /// Register that drives RST_n of an eMMC.
    CardReset,
    AutoArgument,
    DmaMode,
    /// PLDMND (only DesignWare): poll demand of the internal DMA.
    Poll,
    ListLow,
    ListHigh,
    DmaStatus,
    DmaEnable,
    /// Register with the bus address of the internal DMA's present descriptor (0) or buffer (1).
    DmaAt(u8),
    Fifo,
    /// A register that the model stores without an effect, such as debouncing.
    Kept(u8),
}

/// Number of registers that the model stores without an effect.
pub(super) const KEPT: usize = 7;

impl MshcConfig {
    /// Returns the register at this offset; `None` if there is none.
    pub(super) fn at(&self, offset: u16) -> Option<Reg> {
        if !offset.is_multiple_of(4) {
            return None;
        }
        if offset >= self.fifo_offset && offset < self.fifo_offset + 0x100 {
            return Some(Reg::Fifo);
        }
        match self.layout {
            Layout::Smhc => smhc(offset),
            Layout::DesignWare => designware(offset, self.wide_dma),
        }
    }
}

fn smhc(offset: u16) -> Option<Reg> {
    Some(match offset {
        0x00 => Reg::Control,
        0x04 => Reg::Clock,
        0x08 => Reg::Timeout,
        0x0c => Reg::Width,
        0x10 => Reg::BlockSize,
        0x14 => Reg::ByteCount,
        0x18 => Reg::Command,
        0x1c => Reg::Argument,
        0x20..=0x2c => Reg::Response((offset - 0x20) as u8 / 4),
        0x30 => Reg::Mask,
        0x34 => Reg::Masked,
        0x38 => Reg::Raw,
        0x3c => Reg::Status,
        0x40 => Reg::Threshold,
        0x44 => Reg::Kept(0),
        0x48 => Reg::LineBytes,
        0x4c => Reg::FifoBytes,
        0x50 => Reg::Kept(1),
        0x54 => Reg::Kept(2),
        0x58 => Reg::AutoArgument,
        0x5c => Reg::Timing,
        0x78 => Reg::CardReset,
        0x80 => Reg::DmaMode,
        0x84 => Reg::ListLow,
        0x88 => Reg::DmaStatus,
        0x8c => Reg::DmaEnable,
        0x100 => Reg::ReadRoom,
        0x10c => Reg::Kept(3),
        0x140 => Reg::Kept(4),
        0x144 => Reg::SampleDelay,
        _ => return None,
    })
}

fn designware(offset: u16, wide: bool) -> Option<Reg> {
    // With 64-bit DMA addresses the DMA registers from 88h on have other offsets.
    let dma = |narrow, then| if wide { then } else { narrow };
    Some(match offset {
        0x00 => Reg::Control,
        0x04 => Reg::Power,
        0x08 => Reg::Divider,
        0x0c => Reg::Source,
        0x10 => Reg::Enable,
        0x14 => Reg::Timeout,
        0x18 => Reg::Width,
        0x1c => Reg::BlockSize,
        0x20 => Reg::ByteCount,
        0x24 => Reg::Mask,
        0x28 => Reg::Argument,
        0x2c => Reg::Command,
        0x30..=0x3c => Reg::Response((offset - 0x30) as u8 / 4),
        0x40 => Reg::Masked,
        0x44 => Reg::Raw,
        0x48 => Reg::Status,
        0x4c => Reg::Threshold,
        0x50 => Reg::Detect,
        0x54 => Reg::Protect,
        0x58 => Reg::Kept(0),
        0x5c => Reg::LineBytes,
        0x60 => Reg::FifoBytes,
        0x64 => Reg::Kept(1),
        0x68 => Reg::Kept(2),
        0x6c => Reg::Version,
        0x70 => Reg::Features,
        0x74 => Reg::Uhs,
        0x78 => Reg::CardReset,
        0x80 => Reg::DmaMode,
        0x84 => Reg::Poll,
        0x88 => Reg::ListLow,
        0x8c => dma(Reg::DmaStatus, Reg::ListHigh),
        0x90 => dma(Reg::DmaEnable, Reg::DmaStatus),
        0x94 => dma(Reg::DmaAt(0), Reg::DmaEnable),
        0x98 => dma(Reg::DmaAt(1), Reg::DmaAt(0)),
        0xa0 if wide => Reg::DmaAt(1),
        0x100 => Reg::ReadRoom,
        0x104 => Reg::Kept(3),
        0x108 => Reg::Kept(4),
        0x10c => Reg::Kept(5),
        0x110 => Reg::Kept(6),
        _ => return None,
    })
}

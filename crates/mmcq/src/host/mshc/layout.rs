//! The offsets of the registers: Allwinner's SMHC and DesignWare's MSHC are one controller with two
//! register maps.

/// Offsets of the registers that both have.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// Control.
    pub control: u16,
    /// Longest times for a response and for data, in card clocks.
    pub timeout: u16,
    /// Data lines.
    pub width: u16,
    /// Bytes in a block.
    pub block_size: u16,
    /// Bytes in a transfer.
    pub byte_count: u16,
    /// Argument.
    pub argument: u16,
    /// Command; a write of its start bit sends it.
    pub command: u16,
    /// Four words, bits 31:0 first; a short response is in the first one.
    pub response: u16,
    /// Interrupt mask.
    pub mask: u16,
    /// Raw interrupt status; cleared by writing ones.
    pub raw: u16,
    /// Levels.
    pub status: u16,
    /// FIFO thresholds, and the burst length.
    pub threshold: u16,
    /// The DMA's mode.
    pub dma_mode: u16,
    /// The address of its first descriptor.
    pub list: u16,
    /// The DMA's interrupt status; cleared by writing ones.
    pub dma_status: u16,
    /// The DMA's interrupt enable.
    pub dma_enable: u16,
    /// Free space in the FIFO that a read waits for.
    pub read_room: u16,
}

mod sealed {
    pub trait Sealed {}
}

/// A register map of the controller.
pub trait MshcLayout: sealed::Sealed {
    /// Its name in messages.
    const NAME: &'static str;
    /// Where the registers are.
    const AT: Offsets;
    /// Whether DesignWare's own registers are there; otherwise SMHC's are.
    const DESIGN_WARE: bool;
}

/// Allwinner's SMHC (A10 to H616, D1, T113).
#[derive(Clone, Copy, Debug)]
pub struct SmhcLayout;

impl sealed::Sealed for SmhcLayout {}
impl MshcLayout for SmhcLayout {
    const NAME: &'static str = "smhc";
    const AT: Offsets = Offsets {
        control: 0x00,
        timeout: 0x08,
        width: 0x0c,
        block_size: 0x10,
        byte_count: 0x14,
        argument: 0x1c,
        command: 0x18,
        response: 0x20,
        mask: 0x30,
        raw: 0x38,
        status: 0x3c,
        threshold: 0x40,
        dma_mode: 0x80,
        list: 0x84,
        dma_status: 0x88,
        dma_enable: 0x8c,
        read_room: 0x100,
    };
    const DESIGN_WARE: bool = false;
}

/// SMHC's clock: divider and switch.
pub const SMHC_CLOCK: u16 = 0x04;
/// SMHC's function select, and what it is set to.
pub const SMHC_FUNCTION: u16 = 0x44;
/// See above.
pub const SMHC_FUNCTION_VALUE: u32 = 0xceaa_0000;
/// SMHC's debug control, and what it is set to.
pub const SMHC_DEBUG: u16 = 0x50;
/// See above.
pub const SMHC_DEBUG_VALUE: u32 = 0xdeb;
/// SMHC's timing mode.
pub const SMHC_TIMING: u16 = 0x5c;
/// SMHC's sample delay (A64 and later).
pub const SMHC_SAMPLE_DELAY: u16 = 0x144;
/// SMHC's marks: bursts of 8, 8 words to the card, 7 from it.
pub const SMHC_THRESHOLD: u32 = 0x2007_0008;
/// SMHC's FIFO; the A10's is at 100h.
pub const SMHC_FIFO: u16 = 0x200;
/// Words in that FIFO, at least.
pub const SMHC_FIFO_WORDS: u32 = 16;

/// Synopsys DesignWare's MSHC (`dw_mshc`).
#[derive(Clone, Copy, Debug)]
pub struct DesignWareLayout;

impl sealed::Sealed for DesignWareLayout {}
impl MshcLayout for DesignWareLayout {
    const NAME: &'static str = "dw_mshc";
    const AT: Offsets = Offsets {
        control: 0x00,
        timeout: 0x14,
        width: 0x18,
        block_size: 0x1c,
        byte_count: 0x20,
        argument: 0x28,
        command: 0x2c,
        response: 0x30,
        mask: 0x24,
        raw: 0x44,
        status: 0x48,
        threshold: 0x4c,
        dma_mode: 0x80,
        list: 0x88,
        dma_status: 0x8c,
        dma_enable: 0x90,
        read_room: 0x100,
    };
    const DESIGN_WARE: bool = true;
}

/// DesignWare's power switch, a bit for each slot.
pub const DW_POWER: u16 = 0x04;
/// Its clock divider.
pub const DW_DIVIDER: u16 = 0x08;
/// Which divider a slot has.
pub const DW_SOURCE: u16 = 0x0c;
/// Its clock switch, a bit for each slot.
pub const DW_CLOCK_ENABLE: u16 = 0x10;
/// No card: a bit for each slot.
pub const DW_NO_CARD: u16 = 0x50;
/// Write protection: a bit for each slot.
pub const DW_PROTECTED: u16 = 0x54;
/// Its version in 15:0.
pub const DW_VERSION: u16 = 0x6c;
/// From this version on the FIFO is at 200h, and there is a register for the space of reads.
pub const DW_VERSION_240A: u32 = 0x240a;
/// How it was built.
pub const DW_HARDWARE: u16 = 0x70;
/// DesignWare's voltage and edges, a bit of each for a slot.
pub const DW_UHS: u16 = 0x74;
/// A write has the internal DMA look for a descriptor.
pub const DW_DMA_KICK: u16 = 0x84;

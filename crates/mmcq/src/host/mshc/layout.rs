//! Register offsets. Allwinner's SMHC and DesignWare's MSHC are one controller with two register
//! maps.

/// Offsets of the registers that SMHC and DesignWare share.
#[derive(Clone, Copy, Debug)]
pub struct Offsets {
    /// Control register: resets, interrupt enable and DMA enable.
    pub control: u16,
    /// Timeout register: timeouts of the response and of data, in card clocks.
    pub timeout: u16,
    /// Card type register: bus width.
    pub width: u16,
    /// Block size register: length of a block in bytes.
    pub block_size: u16,
    /// Byte count register: bytes of the transfer.
    pub byte_count: u16,
    /// Command argument register.
    pub argument: u16,
    /// Command register; a write with its start bit sends the command.
    pub command: u16,
    /// Response registers: four words, bits 31:0 first. A short response is in the first word.
    pub response: u16,
    /// Interrupt mask register: which raw status bits raise the interrupt.
    pub mask: u16,
    /// Raw interrupt status register. Writing 1 clears a bit.
    pub raw: u16,
    /// Status register: levels of the FIFO and of DAT0 (busy).
    pub status: u16,
    /// FIFO threshold register: fill levels for DMA requests, and the burst length.
    pub threshold: u16,
    /// Mode register of the internal DMA.
    pub dma_mode: u16,
    /// Register with the address of the first DMA descriptor.
    pub list: u16,
    /// Interrupt status register of the internal DMA. Writing 1 clears a bit.
    pub dma_status: u16,
    /// Interrupt enable register of the internal DMA.
    pub dma_enable: u16,
    /// Card read threshold register: free space that the FIFO must have before a read begins.
    pub read_room: u16,
}

mod sealed {
    pub trait Sealed {}
}

/// A register map of the controller: [`SmhcLayout`] or [`DesignWareLayout`].
pub trait MshcLayout: sealed::Sealed {
    /// Name of the controller in messages.
    const NAME: &'static str;
    /// Offsets of the registers that both controllers have.
    const AT: Offsets;
    /// True if the controller has DesignWare's own registers, false if it has SMHC's.
    const DESIGN_WARE: bool;
}

/// Register map of Allwinner's SMHC (A10 to H616, D1, T113).
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

/// SMHC's clock register: divider and enable of the card's clock.
pub const SMHC_CLOCK: u16 = 0x04;
/// SMHC's function select register. After a reset the driver writes [`SMHC_FUNCTION_VALUE`] to it.
pub const SMHC_FUNCTION: u16 = 0x44;
/// Value of [`SMHC_FUNCTION`] after initialisation. The driver writes the same value as Linux's
/// driver, whose name for it says that CE-ATA is on.
pub const SMHC_FUNCTION_VALUE: u32 = 0xceaa_0000;
/// SMHC's debug control register. After a reset the driver writes [`SMHC_DEBUG_VALUE`] to it.
pub const SMHC_DEBUG: u16 = 0x50;
/// Value of [`SMHC_DEBUG`] after initialisation. The driver writes the same value as Linux's
/// driver, which calls the register undocumented.
pub const SMHC_DEBUG_VALUE: u32 = 0xdeb;
/// SMHC's timing mode register.
pub const SMHC_TIMING: u16 = 0x5c;
/// SMHC's sample delay register (A64 and later).
pub const SMHC_SAMPLE_DELAY: u16 = 0x144;
/// Value for SMHC's FIFO threshold register: bursts of 8 words, thresholds of 8 words for data to
/// the card and 7 for data from the card.
pub const SMHC_THRESHOLD: u32 = 0x2007_0008;
/// Offset of SMHC's FIFO, except on the A10, whose FIFO is at 100h.
pub const SMHC_FIFO: u16 = 0x200;
/// Least number of words in SMHC's FIFO.
pub const SMHC_FIFO_WORDS: u32 = 16;

/// Register map of Synopsys DesignWare's MSHC (`dw_mshc`).
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

/// DesignWare's power enable register, one bit for each slot.
pub const DW_POWER: u16 = 0x04;
/// DesignWare's clock divider register.
pub const DW_DIVIDER: u16 = 0x08;
/// DesignWare's clock source register: which divider a slot uses.
pub const DW_SOURCE: u16 = 0x0c;
/// DesignWare's clock enable register, one bit for each slot.
pub const DW_CLOCK_ENABLE: u16 = 0x10;
/// DesignWare's card detect register, one bit for each slot: 1 means no card.
pub const DW_NO_CARD: u16 = 0x50;
/// DesignWare's write protect register, one bit for each slot: 1 means write-protected.
pub const DW_PROTECTED: u16 = 0x54;
/// DesignWare's version register (VERID); the version is in 15:0.
pub const DW_VERSION: u16 = 0x6c;
/// First version whose FIFO is at 200h and which has the card read threshold register.
pub const DW_VERSION_240A: u32 = 0x240a;
/// DesignWare's hardware configuration register (HCON): how the controller was synthesised.
pub const DW_HARDWARE: u16 = 0x70;
/// DesignWare's UHS register: 1.8 V and DDR, one bit of each for every slot.
pub const DW_UHS: u16 = 0x74;
/// DesignWare's poll demand register: a write makes the internal DMA read its next descriptor.
pub const DW_DMA_KICK: u16 = 0x84;

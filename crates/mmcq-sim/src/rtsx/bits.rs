//! Registers of the card reader and their bits. Internal registers have 16-bit names; 14 bits of
//! the name are the address.

/// Registers of the MMIO window, by offset.
pub mod window {
    /// Host command buffer: bus address of the command list.
    pub const HCBAR: u16 = 0x00;
    pub const HCBCTLR: u16 = 0x04;
    /// Host data buffer: bus address of the scatter-gather (SG) table.
    pub const HDBAR: u16 = 0x08;
    pub const HDBCTLR: u16 = 0x0c;
    /// Register for the immediate access to one internal register.
    pub const HAIMR: u16 = 0x10;
    pub const BIPR: u16 = 0x14;
    pub const BIER: u16 = 0x18;
    pub const SCRATCH: u16 = 0x1c;

    /// Starts the operation: bit of the control registers of command list (HCBCTLR) and data
    /// (HDBCTLR), and of the access to one internal register without a list (HAIMR).
    pub const START: u32 = 1 << 31;
    /// Control register of the command list (HCBCTLR): writes the bytes of READ and CHECK entries
    /// back to memory.
    pub const WRITE_BACK: u32 = 1 << 30;
    /// Stops the operation: bit of the control registers of command list (HCBCTLR) and data
    /// (HDBCTLR).
    pub const STOP: u32 = 1 << 28;
    /// HAIMR, by which the host accesses one internal register without a list: the access is a
    /// write.
    pub const WRITE: u32 = 1 << 30;
    /// Control register of the data (HDBCTLR): the DMA goes from the card to memory.
    pub const TO_MEMORY: u32 = 1 << 29;
    /// Control register of the data (HDBCTLR): mask of the field with the mode of the DMA, bits
    /// 27:26.
    pub const DMA_MODE: u32 = 3 << 26;
    /// Control register of the data (HDBCTLR): the DMA mode that uses a scatter-gather table.
    pub const ADMA: u32 = 2 << 26;
}

/// Bits of the registers of pending interrupts (BIPR) and enabled interrupts (BIER).
pub mod int {
    pub const CMD_DONE: u32 = 1 << 31;
    pub const DATA_DONE: u32 = 1 << 30;
    pub const TRANS_OK: u32 = 1 << 29;
    pub const TRANS_FAIL: u32 = 1 << 28;
    pub const SD: u32 = 1 << 25;
    /// Bits of the register of pending interrupts (BIPR) that stay set until the driver clears
    /// them.
    pub const LATCHED: u32 = 0xffc0_0000;
    /// Bit of BIPR that shows a level, not an event: the card's write protection switch is on.
    pub const WRITE_PROTECT: u32 = 1 << 19;
    /// Bit of BIPR that shows a level, not an event: a card is in the slot.
    pub const SD_EXIST: u32 = 1 << 16;
}

/// Internal registers of clocks and phases.
pub mod clk {
    pub const CLK_CTL: u16 = 0xfc02;
    pub const CHANGE_CLK: u8 = 1;
    pub const CLK_DIV: u16 = 0xfc03;
    pub const SSC_DIV_N_0: u16 = 0xfc0f;
    pub const SSC_CTL1: u16 = 0xfc11;
    pub const SSC_RSTB: u8 = 0x80;
    /// Register with the phase at which the chip sends.
    pub const VPTX: u16 = 0xfc2a;
    /// Register with the clock phase at which the chip samples responses and data.
    pub const VPRX: u16 = 0xfc2b;
    pub const PHASE_NOT_RESET: u8 = 0x40;
}

/// Internal registers of card power, pins and card selection.
pub mod card {
    pub const PWR_CTL: u16 = 0xfd50;
    pub const POWER_MASK: u8 = 3;
    pub const POWER_OFF: u8 = 3;
    pub const SHARE_MODE: u16 = 0xfd52;
    pub const SHARE_SD: u8 = 4;
    pub const STOP: u16 = 0xfd54;
    pub const SD_STOP: u8 = 4;
    pub const SD_CLR_ERR: u8 = 0x40;
    pub const OE: u16 = 0xfd55;
    pub const SD_OE: u8 = 4;
    pub const DATA_SOURCE: u16 = 0xfd5b;
    pub const SELECT: u16 = 0xfd5c;
    pub const SELECT_SD: u8 = 2;
    pub const CLK_EN: u16 = 0xfd69;
    pub const SD_CLK_EN: u8 = 4;
}

/// Internal registers of the SD part.
pub mod sd {
    pub const CFG1: u16 = 0xfda0;
    pub const CFG2: u16 = 0xfda1;
    pub const CFG3: u16 = 0xfda2;
    pub const STAT1: u16 = 0xfda3;
    pub const STAT2: u16 = 0xfda4;
    pub const BUS_STAT: u16 = 0xfda5;
    pub const PAD_CTL: u16 = 0xfda6;
    pub const CMD0: u16 = 0xfda9;
    /// Byte count: a pair of registers, the lower byte first.
    pub const BYTE_CNT: u16 = 0xfdaf;
    /// Block count: a pair of registers, the lower byte first.
    pub const BLOCK_CNT: u16 = 0xfdb1;
    pub const TRANSFER: u16 = 0xfdb3;
    pub const CMD_STATE: u16 = 0xfdb5;
    pub const DATA_STATE: u16 = 0xfdb6;
    /// First address of ping-pong buffer 2, which holds a single block of a transfer.
    pub const PING_PONG: u16 = 0xfa00;
    /// Size in bytes of ping-pong buffer 2, which holds a single block of a transfer.
    pub const PING_PONG_BYTES: usize = 512;

    /// SD configuration 1 (CFG1): bus mode with data on both clock edges.
    pub const MODE_DDR: u8 = 0x04;
    /// SD configuration 1 (CFG1): bus mode of UHS-I timings.
    pub const MODE_SD30: u8 = 0x08;
    /// SD configuration 2 (CFG2): the chip does not check the CRC7 of a response.
    pub const NO_CRC7_CHECK: u8 = 1 << 2;
    /// SD configuration 2 (CFG2): a command or a write ends only when the card releases DAT0.
    pub const WAIT_BUSY_END: u8 = 1 << 3;
    pub const NO_STATUS_TIMEOUT: u8 = 1 << 5;
    pub const NO_CRC16_CHECK: u8 = 1 << 6;
    pub const NO_CRC7: u8 = 1 << 7;
    /// SD configuration 3 (CFG3): a missing response ends with a timeout.
    pub const RESPONSE_TIMEOUT: u8 = 1;
    /// SD status 1 (STAT1): the response of the last transfer had a wrong CRC7.
    pub const CRC7_ERR: u8 = 0x80;
    /// SD status 1 (STAT1): a read block of the last transfer had a wrong CRC16.
    pub const CRC16_ERR: u8 = 0x40;
    /// SD status 1 (STAT1): the card reported a CRC error for a written block of the last transfer.
    pub const CRC_WRITE_ERR: u8 = 0x20;
    /// SD status 1 (STAT1): the CRC status token was 010 (good).
    pub const STATUS_GOOD: u8 = 0b010 << 2;
    /// SD status 1 (STAT1): the CRC status token was 101 (CRC error).
    pub const STATUS_BAD: u8 = 0b101 << 2;
    pub const CRC_TIMEOUT: u8 = 0x02;
    pub const TUNING_ERR: u8 = 0x01;
    /// SD status 2 (STAT2): no response came.
    pub const NO_RESPONSE: u8 = 1;
    /// SD bus status (BUS_STAT): the SD clock keeps running without a transfer.
    pub const TOGGLE: u8 = 0x80;
    pub const FORCE_STOP: u8 = 0x40;
    /// SD bus status (BUS_STAT): levels of CMD and DAT3 to DAT0.
    pub const LINES: u8 = 0x1f;
    /// SD pad control (PAD_CTL): the pads signal at 1.8 V.
    pub const AT_18V: u8 = 0x80;
    /// SD transfer register (TRANSFER): the transfer starts.
    pub const START: u8 = 0x80;
    /// SD transfer register (TRANSFER): the transfer has ended without an error.
    pub const END: u8 = 0x40;
    /// SD transfer register (TRANSFER): no transfer is under way.
    pub const IDLE: u8 = 0x20;
    /// SD transfer register (TRANSFER): the transfer has ended with an error.
    pub const ERR: u8 = 0x10;
}

/// Internal registers of DMA and the ring buffer.
pub mod dma {
    pub const IRQSTAT0: u16 = 0xfe21;
    pub const DONE: u8 = 0x80;
    /// Byte count of the DMA, four registers, lowest byte first.
    pub const COUNT: u16 = 0xfe28;
    pub const CTL: u16 = 0xfe2c;
    pub const RESET: u8 = 0x80;
    pub const BUSY: u8 = 0x04;
    pub const FROM_CARD: u8 = 0x02;
    pub const ENABLE: u8 = 0x01;
    pub const RBCTL: u16 = 0xfe34;
    pub const FLUSH: u8 = 0x80;
}

/// Internal registers by which the driver reads and writes the registers of the PCI Express link
/// (PHY). Each register of the link has 16 bits.
pub mod phy {
    pub const CTL: u16 = 0xfe3c;
    /// Control register of an access to the PCI Express link (CTL): the access starts; reads 1
    /// until it has ended.
    pub const START: u8 = 0x80;
    /// Control register of an access to the PCI Express link (CTL): the access is a write.
    pub const WRITE: u8 = 0x01;
    /// Data of an access to the PCI Express link: a pair of registers, the lower byte first.
    pub const DATA: u16 = 0xfe3d;
    pub const ADDRESS: u16 = 0xfe3f;

    /// Register of the PCI Express link with the voltage of the pads.
    pub const TUNE: usize = 0x08;
    /// Register [`TUNE`] of the PCI Express link: mask of the voltage. All ones are 3.3 V, and all
    /// other values that drivers write are 1.8 V.
    pub const VOLTAGE: u16 = 0x03c0;
    /// Register of the PCI Express link whose bits [`BASIC`] the driver of an RTS5249 must clear
    /// before it selects 1.8 V. The name comes from Linux's driver (PHY_BACR), which does not say
    /// what the letters stand for.
    pub const BACR: usize = 0x11;
    /// Mask in the link register [`BACR`]. While one of these bits is set, the pads of an RTS5249
    /// stay at 3.3 V, so its driver clears both before it selects 1.8 V.
    pub const BASIC: u16 = 0x000c;
}

/// Internal registers of the pads: supply, pull-ups and pull-downs, drive strength.
pub mod pads {
    /// First of four registers with the pull-ups and pull-downs of the pads.
    pub const PULL1: u16 = 0xfd60;
    /// Registers with the drive strength of clock, CMD and DAT.
    pub const DRIVE: [u16; 3] = [0xfd5a, 0xfd5e, 0xfd5f];
    pub const GATE: u16 = 0xfe75;
    /// Mask of the field in the register GATE that switches the pads' supply.
    pub const GATE_MASK: u8 = 6;
    /// Register with the voltage of the pads' supply on the RTS525A.
    pub const LDO: u16 = 0xff71;
    pub const LDO_MASK: u8 = 7;
    pub const LDO_33V: u8 = 7;
    pub const LDO_18V: u8 = 2;
    /// Register with the version of the chip.
    pub const VERSION: u16 = 0xfe90;
}

//! Registers of Realtek's PCIe card readers, and their bits.
//!
//! The CPU can access seven registers of 32 bits. All other registers have 8 bits and a 14-bit
//! address. The chip accesses them while it executes a list of operations from memory, or the
//! driver accesses one at a time by [`HAIMR`].

// --- Registers with 32 bits, which the CPU accesses ---

/// Address register for the list of operations: bus address of the list.
pub const HCBAR: u16 = 0x00;
/// Control register for the list: starts and stops the list; its length in bytes is in 23:0.
pub const HCBCTLR: u16 = 0x04;
/// [`HCBCTLR`]: starts the list.
pub const HCB_START: u32 = 1 << 31;
/// [`HCBCTLR`]: the chip writes the bytes that READ and CHECK return over the beginning of the
/// list.
pub const HCB_RETURN: u32 = 1 << 30;
/// [`HCBCTLR`]: stops the execution of the list of register operations.
pub const HCB_STOP: u32 = 1 << 28;

/// Address register for data: bus address of the scatter/gather table.
pub const HDBAR: u16 = 0x08;
/// Control register for data: starts and stops DMA.
pub const HDBCTLR: u16 = 0x0c;
/// [`HDBCTLR`]: starts the DMA that the table describes.
pub const HDB_START: u32 = 1 << 31;
/// [`HDBCTLR`]: the data go from the card to memory.
pub const HDB_READ: u32 = 1 << 29;
/// [`HDBCTLR`]: stops DMA.
pub const HDB_STOP: u32 = 1 << 28;
/// [`HDBCTLR`], field 27:26: [`HDBAR`] is the address of a table.
pub const HDB_TABLE: u32 = 2 << 26;

/// Register for immediate access to one 8-bit register: address in 29:16, mask in 15:8, data in
/// 7:0.
pub const HAIMR: u16 = 0x10;
/// [`HAIMR`]: starts the access; reads 1 until the access is complete.
pub const HAIMR_BUSY: u32 = 1 << 31;
/// [`HAIMR`]: the access is a write.
pub const HAIMR_WRITE: u32 = 1 << 30;

/// Interrupt pending register: pending interrupts in 31:22, where writing 1 clears a bit, and
/// levels below bit 22.
pub const BIPR: u16 = 0x14;
/// Interrupt enable register: which bits of [`BIPR`] raise the interrupt.
pub const BIER: u16 = 0x18;
/// [`BIPR`]: the chip has executed its list of register operations, which is how this chip gets a
/// command.
pub const INT_COMMAND: u32 = 1 << 31;
/// [`BIPR`]: the DMA of the scatter/gather table has ended.
pub const INT_DATA: u32 = 1 << 30;
/// [`BIPR`]: the list or the DMA ended without an error.
pub const INT_OK: u32 = 1 << 29;
/// [`BIPR`]: a CHECK was not fulfilled in time, or the transfer failed.
pub const INT_FAIL: u32 = 1 << 28;
/// [`BIPR`]: an SD card was inserted or removed.
pub const INT_CARD: u32 = 1 << 25;
/// [`BIPR`]: the chip draws too much current.
pub const INT_OVERCURRENT: u32 = 1 << 23;
/// [`BIPR`]: the SD card draws too much current.
pub const INT_CARD_OVERCURRENT: u32 = 1 << 22;
/// [`BIPR`]: both overcurrent bits.
pub const OVERCURRENT: u32 = INT_OVERCURRENT | INT_CARD_OVERCURRENT;
/// [`BIPR`]: all bits that stay set until the driver clears them.
pub const INT_LATCHED: u32 = 0xffc0_0000;
/// [`BIPR`], level: the SD card's write-protect switch is on.
pub const LEVEL_WRITE_PROTECT: u32 = 1 << 19;
/// [`BIPR`], level: an SD card is in the slot.
pub const LEVEL_SD: u32 = 1 << 16;

// --- Registers with 8 bits: clock, sampling, supply, card selection ---

/// Clock control: holds the SD clock while its source changes.
pub const CLOCK_CTL: u16 = 0xfc02;
/// [`CLOCK_CTL`]: holds the SD clock.
pub const CLOCK_CHANGE: u8 = 1 << 0;
/// Divider of the PLL's output, in 6:4: the values 1, 2, 3, 4 divide by 1, 2, 4, 8.
pub const CLOCK_DIV: u16 = 0xfc03;
/// Mask of the divider in [`CLOCK_DIV`].
pub const CLOCK_DIV_MASK: u8 = 7 << 4;
/// PLL multiplier, 80 to 208: the PLL's output in MHz is this value plus 2.
pub const PLL_N: u16 = 0xfc0f;
/// PLL control: starts the PLL of the SD clock.
pub const PLL_CTL: u16 = 0xfc11;
/// [`PLL_CTL`]: the PLL runs; a rising edge of the bit loads [`PLL_N`].
pub const PLL_RUN: u8 = 1 << 7;
/// Phase of the clock that drives CMD and DAT, in 4:0.
pub const PHASE_SEND: u16 = 0xfc2a;
/// Phase of the clock that samples CMD and DAT, in 4:0.
pub const PHASE_SAMPLE: u16 = 0xfc2b;
/// [`PHASE_SEND`], [`PHASE_SAMPLE`]: uses the phase; a rising edge of the bit loads it.
pub const PHASE_NOT_RESET: u8 = 1 << 6;
/// [`PHASE_SEND`], [`PHASE_SAMPLE`]: mask of the phase, 32 steps.
pub const PHASE_MASK: u8 = 0x1f;
/// Supply of the card.
pub const POWER_CTL: u16 = 0xfd50;
/// [`POWER_CTL`]: mask of the supply's state.
pub const POWER_MASK: u8 = 3;
/// [`POWER_CTL`]: the supply is on.
pub const POWER_ON: u8 = 0;
/// [`POWER_CTL`]: the supply is on with limited current (soft start).
pub const POWER_PARTIAL: u8 = 1;
/// [`POWER_CTL`]: like [`POWER_PARTIAL`], on the chips from RTS5249 on.
pub const POWER_PARTIAL_VCC: u8 = 2;
/// [`POWER_CTL`]: the supply is off.
pub const POWER_OFF: u8 = 3;
/// Card share mode: which kind of card uses the shared pins.
pub const CARD_SHARE_MODE: u16 = 0xfd52;
/// [`CARD_SHARE_MODE`]: mask of the kind of card.
pub const SHARE_MASK: u8 = 0xf;
/// [`CARD_SHARE_MODE`]: an SD card uses the shared pins.
pub const SHARE_SD: u8 = 4;
/// Card stop: stops transfers and clears errors.
pub const CARD_STOP: u16 = 0xfd54;
/// [`CARD_STOP`]: stops the SD transfer.
pub const STOP_SD: u8 = 1 << 2;
/// [`CARD_STOP`]: clears the SD error.
pub const STOP_SD_CLEAR: u8 = 1 << 6;
/// Card output enable: which outputs the chip drives.
pub const CARD_OE: u16 = 0xfd55;
/// [`CARD_OE`]: drives the SD outputs.
pub const OE_SD: u8 = 1 << 2;
/// Drive strength of the pad of the clock.
pub const DRIVE_CLOCK: u16 = 0xfd5a;
/// Drive strength of the pad of CMD; on RTS5209 and RTS5229 of all pads, in 2:0.
pub const DRIVE_CMD: u16 = 0xfd5e;
/// Drive strength of the pads of DAT.
pub const DRIVE_DAT: u16 = 0xfd5f;
/// Pull-ups and pull-downs of the pads, first of four registers. Each register has four fields of
/// two bits: 1 pulls down, 2 pulls up.
pub const PULL_1: u16 = 0xfd60;
/// Pull-ups and pull-downs of the pads, second register, in the format of [`PULL_1`].
pub const PULL_2: u16 = 0xfd61;
/// Pull-ups and pull-downs of the pads, third register, in the format of [`PULL_1`]; one field is
/// CMD's.
pub const PULL_3: u16 = 0xfd62;
/// Pull-ups and pull-downs of the pads, fourth register, in the format of [`PULL_1`].
pub const PULL_4: u16 = 0xfd63;
/// Card data source: which buffer holds the data of a transfer.
pub const DATA_SOURCE: u16 = 0xfd5b;
/// [`DATA_SOURCE`]: the ring buffer between the card and DMA.
pub const SOURCE_RING: u8 = 0;
/// [`DATA_SOURCE`]: the ping-pong buffer [`PING_PONG`].
pub const SOURCE_PING_PONG: u8 = 1;
/// Card select: which kind of card the chip uses.
pub const CARD_SELECT: u16 = 0xfd5c;
/// [`CARD_SELECT`]: mask of the kind of card.
pub const SELECT_MASK: u8 = 7;
/// [`CARD_SELECT`]: the SD card.
pub const SELECT_SD: u8 = 2;
/// Card clock enable: which card circuits have a clock.
pub const CLOCK_ENABLE: u16 = 0xfd69;
/// [`CLOCK_ENABLE`]: the SD circuit has a clock.
pub const CLOCK_SD: u8 = 1 << 2;

// --- Registers with 8 bits: supply of the pads, link ---

/// Control of an access to a register of the PCI Express link (PHY), which has 16 bits.
pub const LINK_CTL: u16 = 0xfe3c;
/// [`LINK_CTL`]: starts the access; reads 1 until it has ended.
pub const LINK_START: u8 = 1 << 7;
/// [`LINK_CTL`]: the access is a write.
pub const LINK_WRITE: u8 = 1 << 0;
/// Data of an access to a register of the PCI Express link, in two registers, the lower byte first.
pub const LINK_DATA: u16 = 0xfe3d;
/// Register that selects which register of the PCI Express link (PHY) the next access concerns.
pub const LINK_ADDRESS: u16 = 0xfe3f;
/// Register of the link with the voltage of the pads.
pub const LINK_VOLTAGE: u8 = 0x08;
/// [`LINK_VOLTAGE`]: mask of the voltage; all ones are 3.3 V.
pub const LINK_VOLTAGE_MASK: u16 = 0x03c0;
/// Register of the PCI Express link that the driver of some chips must write before it selects 1.8
/// V. Linux's driver names the register PHY_BACR, and does not say what the letters stand for.
pub const LINK_BASE: u8 = 0x11;
/// Switch of the pads' supply (LDO3318).
pub const POWER_GATE: u16 = 0xfe75;
/// [`POWER_GATE`]: mask of the switch's state.
pub const GATE_MASK: u8 = 3 << 1;
/// [`POWER_GATE`]: the pads have no supply.
pub const GATE_OFF: u8 = 0;
/// [`POWER_GATE`]: the pads have supply with limited current.
pub const GATE_PARTIAL: u8 = 1 << 1;
/// [`POWER_GATE`]: the pads have supply.
pub const GATE_ON: u8 = 3 << 1;
/// Version of the chip, in 3:0.
pub const VERSION: u16 = 0xfe90;
/// [`VERSION`]: mask of the version.
pub const VERSION_MASK: u8 = 0xf;
/// [`VERSION`]: version C.
pub const VERSION_C: u8 = 2;
/// RTS525A: voltage of the pads' supply.
pub const LDO_PADS: u16 = 0xff71;
/// RTS525A: voltage of the card's supply.
pub const LDO_VCC: u16 = 0xff73;
/// [`LDO_PADS`], [`LDO_VCC`]: mask of the voltage.
pub const LDO_MASK: u8 = 7;
/// [`LDO_PADS`], [`LDO_VCC`]: 3.3 V.
pub const LDO_3V3: u8 = 7;
/// [`LDO_PADS`]: 1.8 V.
pub const LDO_PADS_1V8: u8 = 2;

// --- Registers with 8 bits: SD ---

/// SD configuration 1: clock divider (7:6), mode (3:2), bus width (1:0).
pub const SD_CFG1: u16 = 0xfda0;
/// [`SD_CFG1`]: mask of the clock divider.
pub const CFG1_DIVIDER: u8 = 3 << 6;
/// [`SD_CFG1`]: the SD clock is not divided.
pub const CFG1_DIVIDE_1: u8 = 0;
/// [`SD_CFG1`]: the SD clock is divided by 128, for the identification of the card.
pub const CFG1_DIVIDE_128: u8 = 2 << 6;
/// [`SD_CFG1`]: the SD clock is divided by 256.
pub const CFG1_DIVIDE_256: u8 = 3 << 6;
/// [`SD_CFG1`]: mask of the mode.
pub const CFG1_MODE: u8 = 3 << 2;
/// [`SD_CFG1`]: mode for default speed and high speed.
pub const CFG1_SD20: u8 = 0;
/// [`SD_CFG1`]: mode for data on both clock edges (DDR).
pub const CFG1_DDR: u8 = 1 << 2;
/// [`SD_CFG1`]: mode for SDR50 and SDR104.
pub const CFG1_SD30: u8 = 2 << 2;
/// [`SD_CFG1`]: mask of the bus width: 0, 1, 2 for 1, 4, 8 data lines.
pub const CFG1_WIDTH: u8 = 3;

/// SD configuration 2: length of the response, and what the chip checks.
pub const SD_CFG2: u16 = 0xfda1;
/// [`SD_CFG2`]: the command has no response.
pub const CFG2_LENGTH_0: u8 = 0;
/// [`SD_CFG2`]: the response has 48 bits.
pub const CFG2_LENGTH_6: u8 = 1;
/// [`SD_CFG2`]: the response has 136 bits.
pub const CFG2_LENGTH_17: u8 = 2;
/// [`SD_CFG2`]: the chip does not check the response's CRC7.
pub const CFG2_NO_CHECK_CRC7: u8 = 1 << 2;
/// [`SD_CFG2`]: a late CRC status is no error. Cards without UHS may send the CRC status late.
pub const CFG2_NO_CRC_TIMEOUT: u8 = 1 << 5;
/// [`SD_CFG2`]: the command ends when the card's busy ends.
pub const CFG2_WAIT_BUSY_END: u8 = 1 << 3;
/// [`SD_CFG2`]: the chip sends the command without a CRC7.
pub const CFG2_NO_CRC7: u8 = 1 << 7;

/// SD configuration 3: timeout of the response.
pub const SD_CFG3: u16 = 0xfda2;
/// [`SD_CFG3`]: a response that does not begin within 80 clocks is an error.
pub const CFG3_RESPONSE_TIMEOUT: u8 = 1 << 0;

/// SD status 1: errors of the last transfer.
pub const SD_STAT1: u16 = 0xfda3;
/// [`SD_STAT1`]: the CRC7 of the response is wrong.
pub const STAT1_CRC7: u8 = 1 << 7;
/// [`SD_STAT1`]: the CRC16 of data from the card is wrong.
pub const STAT1_CRC16: u8 = 1 << 6;
/// [`SD_STAT1`]: the card rejected a written block because of its CRC.
pub const STAT1_WRITE_CRC: u8 = 1 << 5;
/// [`SD_STAT1`]: the card sent no CRC status for a written block.
pub const STAT1_CRC_TIMEOUT: u8 = 1 << 1;
/// [`SD_STAT1`]: the block from the card differs from the tuning pattern.
pub const STAT1_TUNING: u8 = 1 << 0;
/// SD status 2: more errors of the last transfer.
pub const SD_STAT2: u16 = 0xfda4;
/// [`SD_STAT2`]: no response within 80 clocks.
pub const STAT2_RESPONSE_TIMEOUT: u8 = 1 << 0;

/// SD bus status: levels of the bus lines, and state of the clock.
pub const SD_BUS_STAT: u16 = 0xfda5;
/// [`SD_BUS_STAT`]: the clock also runs between transfers.
pub const BUS_CLOCK_TOGGLE: u8 = 1 << 7;
/// [`SD_BUS_STAT`]: the clock is stopped.
pub const BUS_CLOCK_STOP: u8 = 1 << 6;
/// [`SD_BUS_STAT`]: levels of DAT3 to DAT0.
pub const BUS_DAT: u8 = 0xf << 1;

/// SD pad control: voltage of the pads on an RTS525A.
pub const SD_PAD_CTL: u16 = 0xfda6;
/// [`SD_PAD_CTL`]: the pads use 1.8 V.
pub const PAD_1V8: u8 = 1 << 7;

/// SD command, byte 0. Bytes 1 to 4 follow at the next addresses; after the command the response is
/// here.
pub const SD_CMD0: u16 = 0xfda9;
/// Block length in bytes, in two registers, the lower byte first.
pub const SD_BYTE_COUNT: u16 = 0xfdaf;
/// Number of blocks, in two registers, the lower byte first.
pub const SD_BLOCK_COUNT: u16 = 0xfdb1;

/// SD transfer: selects and starts a transfer, and shows its state.
pub const SD_TRANSFER: u16 = 0xfdb3;
/// [`SD_TRANSFER`]: starts the transfer.
pub const TRANSFER_START: u8 = 1 << 7;
/// [`SD_TRANSFER`]: the transfer has ended.
pub const TRANSFER_END: u8 = 1 << 6;
/// [`SD_TRANSFER`]: no transfer is in progress.
pub const TRANSFER_IDLE: u8 = 1 << 5;
/// [`SD_TRANSFER`]: the transfer failed.
pub const TRANSFER_ERROR: u8 = 1 << 4;
/// [`SD_TRANSFER`]: writes data without a command: the card has a multi-block transfer open
/// already.
pub const MODE_WRITE_DATA: u8 = 0x1;
/// [`SD_TRANSFER`]: reads data without a command: the card has a multi-block transfer open already.
pub const MODE_READ_DATA: u8 = 0x5;
/// [`SD_TRANSFER`]: sends a command and receives its response.
pub const MODE_COMMAND: u8 = 0x8;
/// [`SD_TRANSFER`]: sends a command, receives its response, and reads blocks into the ring buffer.
pub const MODE_READ: u8 = 0xe;
/// [`SD_TRANSFER`]: sends CMD19 and compares the received block with the tuning pattern.
pub const MODE_TUNING: u8 = 0xf;

// --- Registers with 8 bits: DMA ---

/// Interrupt status 0: interrupts of the DMA circuit.
pub const IRQ_STAT0: u16 = 0xfe21;
/// [`IRQ_STAT0`]: the DMA has ended. Writing 1 clears the bit.
pub const IRQ_DMA_DONE: u8 = 1 << 7;
/// DMA count: bytes to transfer, in four registers, the lowest byte first.
pub const DMA_COUNT: u16 = 0xfe28;
/// DMA control: direction, burst size and enable.
pub const DMA_CTL: u16 = 0xfe2c;
/// [`DMA_CTL`]: aborts the DMA transfer in progress.
pub const DMA_RESET: u8 = 1 << 7;
/// [`DMA_CTL`]: mask of the burst size.
pub const DMA_BURST: u8 = 3 << 4;
/// [`DMA_CTL`]: bursts of 512 bytes.
pub const DMA_BURST_512: u8 = 2 << 4;
/// [`DMA_CTL`]: the data go from the card to memory.
pub const DMA_FROM_CARD: u8 = 1 << 1;
/// [`DMA_CTL`]: enables DMA.
pub const DMA_ENABLE: u8 = 1 << 0;
/// Ring buffer control: empties the ring buffer.
pub const RING_CTL: u16 = 0xfe34;
/// [`RING_CTL`]: empties the ring buffer.
pub const RING_FLUSH: u8 = 1 << 7;
/// Ping-pong buffer 2, 512 bytes. A 136-bit response is stored here too.
pub const PING_PONG: u16 = 0xfa00;

//! Registers and their bits.
//!
//! The CPU can access seven registers of 32 bits. All others have 8 bits and a 14-bit address. They
//! are accessed by the lists of operations that the chip reads from memory, or one at a time by
//! [`HAIMR`].

// --- Seen by the CPU ---

/// Bus address of the list of operations.
pub const HCBAR: u16 = 0x00;
/// Starts and stops a list; its length in bytes is in 23:0.
pub const HCBCTLR: u16 = 0x04;
/// Runs the list.
pub const HCB_START: u32 = 1 << 31;
/// Writes the bytes that READ and CHECK return over the beginning of the list.
pub const HCB_RETURN: u32 = 1 << 30;
/// Stops the list.
pub const HCB_STOP: u32 = 1 << 28;

/// Bus address of the scatter/gather table.
pub const HDBAR: u16 = 0x08;
/// Starts and stops DMA.
pub const HDBCTLR: u16 = 0x0c;
/// Runs the table.
pub const HDB_START: u32 = 1 << 31;
/// From the device to memory.
pub const HDB_READ: u32 = 1 << 29;
/// Stops DMA.
pub const HDB_STOP: u32 = 1 << 28;
/// 27:26 = 2: the address is a table's.
pub const HDB_TABLE: u32 = 2 << 26;

/// Immediate access to one register of 8 bits: address in 29:16, mask in 15:8, data in 7:0.
pub const HAIMR: u16 = 0x10;
/// Starts the access; reads as 1 until it is over.
pub const HAIMR_BUSY: u32 = 1 << 31;
/// A write.
pub const HAIMR_WRITE: u32 = 1 << 30;

/// Pending interrupts in 31:22, each cleared by writing a one; levels below.
pub const BIPR: u16 = 0x14;
/// Enabled interrupts.
pub const BIER: u16 = 0x18;
/// The list has ended.
pub const INT_COMMAND: u32 = 1 << 31;
/// The table has ended.
pub const INT_DATA: u32 = 1 << 30;
/// List or table ended well.
pub const INT_OK: u32 = 1 << 29;
/// A CHECK was not met in time, or the transfer failed.
pub const INT_FAIL: u32 = 1 << 28;
/// The SD card came or went.
pub const INT_CARD: u32 = 1 << 25;
/// Too much current, of the chip.
pub const INT_OVERCURRENT: u32 = 1 << 23;
/// Too much current, of the SD card.
pub const INT_CARD_OVERCURRENT: u32 = 1 << 22;
/// Both overcurrent bits.
pub const OVERCURRENT: u32 = INT_OVERCURRENT | INT_CARD_OVERCURRENT;
/// All latching bits.
pub const INT_LATCHED: u32 = 0xffc0_0000;
/// Level: the SD card's write-protect switch is on.
pub const LEVEL_WRITE_PROTECT: u32 = 1 << 19;
/// Level: an SD card is in the slot.
pub const LEVEL_SD: u32 = 1 << 16;

// --- Clock, sampling, supply, card selection ---

/// Holds the SD clock while its source changes.
pub const CLOCK_CTL: u16 = 0xfc02;
/// Holds the clock.
pub const CLOCK_CHANGE: u8 = 1 << 0;
/// Divider of the PLL's output, 6:4: 1, 2, 3, 4 for 1, 2, 4, 8.
pub const CLOCK_DIV: u16 = 0xfc03;
/// The divider's bits.
pub const CLOCK_DIV_MASK: u8 = 7 << 4;
/// PLL: its output is this and 2, in MHz; 80 to 208.
pub const PLL_N: u16 = 0xfc0f;
/// PLL control.
pub const PLL_CTL: u16 = 0xfc11;
/// The PLL runs; a rising edge loads [`PLL_N`].
pub const PLL_RUN: u8 = 1 << 7;
/// Phase of what is sent (4:0).
pub const PHASE_SEND: u16 = 0xfc2a;
/// Phase of the sampling (4:0).
pub const PHASE_SAMPLE: u16 = 0xfc2b;
/// The phase is used; a rising edge loads it.
pub const PHASE_NOT_RESET: u8 = 1 << 6;
/// The phase's bits.
pub const PHASE_MASK: u8 = 0x1f;
/// The card's supply.
pub const POWER_CTL: u16 = 0xfd50;
/// Its bits.
pub const POWER_MASK: u8 = 3;
/// Supply on.
pub const POWER_ON: u8 = 0;
/// Soft start.
pub const POWER_PARTIAL: u8 = 1;
/// Supply off.
pub const POWER_OFF: u8 = 3;
/// Which card owns the shared pins.
pub const CARD_SHARE_MODE: u16 = 0xfd52;
/// Its bits.
pub const SHARE_MASK: u8 = 0xf;
/// The SD card.
pub const SHARE_SD: u8 = 4;
/// Stops transfers and clears errors.
pub const CARD_STOP: u16 = 0xfd54;
/// Stops the SD transfer.
pub const STOP_SD: u8 = 1 << 2;
/// Clears the SD error.
pub const STOP_SD_CLEAR: u8 = 1 << 6;
/// Output enables.
pub const CARD_OE: u16 = 0xfd55;
/// SD outputs.
pub const OE_SD: u8 = 1 << 2;
/// Where a transfer's data are.
pub const DATA_SOURCE: u16 = 0xfd5b;
/// The ring buffer between card and DMA.
pub const SOURCE_RING: u8 = 0;
/// The ping-pong buffer, [`PING_PONG`].
pub const SOURCE_PING_PONG: u8 = 1;
/// Which card is selected.
pub const CARD_SELECT: u16 = 0xfd5c;
/// Its bits.
pub const SELECT_MASK: u8 = 7;
/// The SD card.
pub const SELECT_SD: u8 = 2;
/// Clocks of the card circuits.
pub const CLOCK_ENABLE: u16 = 0xfd69;
/// SD.
pub const CLOCK_SD: u8 = 1 << 2;

// --- SD ---

/// Clock divider (7:6), mode (3:2), bus width (1:0).
pub const SD_CFG1: u16 = 0xfda0;
/// Divider and its values.
pub const CFG1_DIVIDER: u8 = 3 << 6;
/// Clock undivided.
pub const CFG1_DIVIDE_1: u8 = 0;
/// Clock divided by 128: identification.
pub const CFG1_DIVIDE_128: u8 = 2 << 6;
/// Clock divided by 256.
pub const CFG1_DIVIDE_256: u8 = 3 << 6;
/// Mode and its values.
pub const CFG1_MODE: u8 = 3 << 2;
/// Up to high speed.
pub const CFG1_SD20: u8 = 0;
/// Both edges.
pub const CFG1_DDR: u8 = 1 << 2;
/// SDR50 and SDR104.
pub const CFG1_SD30: u8 = 2 << 2;
/// Width: 0, 1, 2 for 1, 4, 8 lines.
pub const CFG1_WIDTH: u8 = 3;

/// The response, and what is checked.
pub const SD_CFG2: u16 = 0xfda1;
/// No response.
pub const CFG2_LENGTH_0: u8 = 0;
/// 48 bits.
pub const CFG2_LENGTH_6: u8 = 1;
/// 136 bits.
pub const CFG2_LENGTH_17: u8 = 2;
/// The response's CRC7 is not checked.
pub const CFG2_NO_CHECK_CRC7: u8 = 1 << 2;
/// A late CRC status is not an error. For cards without UHS, which may take longer.
pub const CFG2_NO_CRC_TIMEOUT: u8 = 1 << 5;
/// The command ends when the card's busy does.
pub const CFG2_WAIT_BUSY_END: u8 = 1 << 3;
/// No CRC7 is sent.
pub const CFG2_NO_CRC7: u8 = 1 << 7;

/// Response timeout.
pub const SD_CFG3: u16 = 0xfda2;
/// A response must begin within 80 clocks.
pub const CFG3_RESPONSE_TIMEOUT: u8 = 1 << 0;

/// Errors of the last transfer.
pub const SD_STAT1: u16 = 0xfda3;
/// CRC7 of the response.
pub const STAT1_CRC7: u8 = 1 << 7;
/// CRC16 of data from the card.
pub const STAT1_CRC16: u8 = 1 << 6;
/// The card refused a block that was written to it.
pub const STAT1_WRITE_CRC: u8 = 1 << 5;
/// The CRC status of a written block never came.
pub const STAT1_CRC_TIMEOUT: u8 = 1 << 1;
/// Tuning error: the block from the card differs from the expected tuning pattern.
pub const STAT1_TUNING: u8 = 1 << 0;
/// More errors of the last transfer.
pub const SD_STAT2: u16 = 0xfda4;
/// No response within 80 clocks.
pub const STAT2_RESPONSE_TIMEOUT: u8 = 1 << 0;

/// Levels of the lines, and whether the clock runs.
pub const SD_BUS_STAT: u16 = 0xfda5;
/// The clock also runs between transfers.
pub const BUS_CLOCK_TOGGLE: u8 = 1 << 7;
/// The clock is stopped.
pub const BUS_CLOCK_STOP: u8 = 1 << 6;
/// DAT3 to DAT0.
pub const BUS_DAT: u8 = 0xf << 1;

/// Pads.
pub const SD_PAD_CTL: u16 = 0xfda6;
/// The pads run at 1.8 V.
pub const PAD_1V8: u8 = 1 << 7;

/// First byte of a command, and after it of the response; CMD1 to CMD4 follow.
pub const SD_CMD0: u16 = 0xfda9;
/// Bytes in a block, two registers, the lower first.
pub const SD_BYTE_COUNT: u16 = 0xfdaf;
/// Number of blocks, two registers, the lower first.
pub const SD_BLOCK_COUNT: u16 = 0xfdb1;

/// Starts a transfer and shows its state.
pub const SD_TRANSFER: u16 = 0xfdb3;
/// Start.
pub const TRANSFER_START: u8 = 1 << 7;
/// The transfer is over.
pub const TRANSFER_END: u8 = 1 << 6;
/// No transfer is in progress.
pub const TRANSFER_IDLE: u8 = 1 << 5;
/// The transfer failed.
pub const TRANSFER_ERROR: u8 = 1 << 4;
/// Writes data without a command: the card has a multi-block transfer open already.
pub const MODE_WRITE_DATA: u8 = 0x1;
/// Reads data without a command: the card has a multi-block transfer open already.
pub const MODE_READ_DATA: u8 = 0x5;
/// A command and its response.
pub const MODE_COMMAND: u8 = 0x8;
/// A command, its response, and blocks into the ring buffer.
pub const MODE_READ: u8 = 0xe;
/// CMD19 and a comparison of its block.
pub const MODE_TUNING: u8 = 0xf;

// --- DMA ---

/// Interrupts of the DMA circuit.
pub const IRQ_STAT0: u16 = 0xfe21;
/// DMA done; cleared by writing a one.
pub const IRQ_DMA_DONE: u8 = 1 << 7;
/// Bytes to move, four registers, the lowest first.
pub const DMA_COUNT: u16 = 0xfe28;
/// DMA control.
pub const DMA_CTL: u16 = 0xfe2c;
/// Clears the work in progress.
pub const DMA_RESET: u8 = 1 << 7;
/// Burst size and its value of 512 bytes.
pub const DMA_BURST: u8 = 3 << 4;
/// 512 bytes.
pub const DMA_BURST_512: u8 = 2 << 4;
/// From the card to memory.
pub const DMA_FROM_CARD: u8 = 1 << 1;
/// On.
pub const DMA_ENABLE: u8 = 1 << 0;
/// Ring buffer control.
pub const RING_CTL: u16 = 0xfe34;
/// Empties the ring buffer.
pub const RING_FLUSH: u8 = 1 << 7;
/// Ping-pong buffer 2, 512 bytes; also the place of a 136-bit response.
pub const PING_PONG: u16 = 0xfa00;

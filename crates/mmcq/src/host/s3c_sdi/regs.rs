//! Registers of Samsung's S3C2440 SD controller and their bits, and additional registers of a
//! board.
//!
//! All registers are accessed as 32 bits.

/// SDICON: reset, SDIO interrupt detection and clock enable.
pub const CON: u16 = 0x00;
/// [`CON`]: resets the whole controller; reads 1 until the reset is complete.
pub const CON_RESET: u32 = 1 << 8;
/// [`CON`]: detects interrupts of an SDIO card on DAT1.
pub const CON_SDIO: u32 = 1 << 3;
/// [`CON`]: enables the SD clock.
pub const CON_CLOCK: u32 = 1 << 0;

/// SDIPRE: 8-bit prescaler n; SD clock = PCLK / (n + 1).
pub const PRE: u16 = 0x04;
/// Largest divisor of PCLK: the largest value of [`PRE`] plus 1.
pub const DIVISOR_MAX: u32 = 256;

/// SDICmdArg: the argument of the next command.
pub const CMDARG: u16 = 0x08;

/// SDICmdCon: index of the command in 5:0; a write with [`CMDCON_START`] sends the command.
pub const CMDCON: u16 = 0x0c;
/// [`CMDCON`]: the response has 136 bits.
pub const CMDCON_LONG: u32 = 1 << 10;
/// [`CMDCON`]: expects a response.
pub const CMDCON_RESPONSE: u32 = 1 << 9;
/// [`CMDCON`]: sends the command.
pub const CMDCON_START: u32 = 1 << 8;
/// [`CMDCON`]: the transmission bit of a command, always 1 from the host.
pub const CMDCON_HOST: u32 = 1 << 6;

/// SDICmdSta: state of the command. Bits 12:9 stay set until the driver writes 1 to them.
pub const CMDSTAT: u16 = 0x10;
/// [`CMDSTAT`]: the CRC of the response is wrong.
pub const CMDSTAT_CRC: u32 = 1 << 12;
/// [`CMDSTAT`]: the command was sent.
pub const CMDSTAT_SENT: u32 = 1 << 11;
/// [`CMDSTAT`]: the card sent no response in time.
pub const CMDSTAT_TIMEOUT: u32 = 1 << 10;
/// [`CMDSTAT`]: a response was received.
pub const CMDSTAT_RESPONSE: u32 = 1 << 9;
/// [`CMDSTAT`], level: the CMD line is in use.
pub const CMDSTAT_ON: u32 = 1 << 8;
/// [`CMDSTAT`]: all bits that stay set until the driver clears them.
pub const CMDSTAT_LATCHED: u32 = 0xf << 9;

/// SDIRSP0: the response without index and CRC. A 136-bit response fills this register and the next
/// three, highest bits first.
pub const RSP0: u16 = 0x14;

/// SDIDTimer: timeout of data and busy in SD clocks, 23 bits.
pub const TIMER: u16 = 0x24;
/// Largest value of [`TIMER`].
pub const TIMER_MAX: u32 = 0x7f_ffff;

/// SDIBSize: bytes in a block, 12 bits.
pub const BSIZE: u16 = 0x28;

/// SDIDatCon: number of blocks in 11:0, and direction, width and start of the data.
pub const DCON: u16 = 0x2c;
/// [`DCON`]: the CPU or DMA accesses the FIFO in words of 32 bits.
pub const DCON_WORDS: u32 = 2 << 22;
/// [`DCON`]: data to the card begin after the response.
pub const DCON_AFTER_RESPONSE: u32 = 1 << 20;
/// [`DCON`]: data from the card may begin after the command.
pub const DCON_AFTER_COMMAND: u32 = 1 << 19;
/// [`DCON`]: data are transferred in blocks, not as a stream.
pub const DCON_BLOCKS: u32 = 1 << 17;
/// [`DCON`]: uses four data lines instead of one.
pub const DCON_WIDE: u32 = 1 << 16;
/// [`DCON`]: the DMA controller of the board moves the data between FIFO and memory.
pub const DCON_DMA: u32 = 1 << 15;
/// [`DCON`]: starts the data circuits, which then wait for the command.
pub const DCON_START: u32 = 1 << 14;
/// [`DCON`]: the data go from the card to the host.
pub const DCON_RECEIVE: u32 = 2 << 12;
/// [`DCON`]: the data go from the host to the card.
pub const DCON_TRANSMIT: u32 = 3 << 12;
/// Largest number of blocks in [`DCON`], and of bytes in [`BSIZE`].
pub const COUNT_MAX: u32 = 0xfff;

/// SDIDatSta: state of the data. Bits 9:3 stay set until the driver writes 1 to them.
pub const DSTA: u16 = 0x34;
/// [`DSTA`]: DAT1 had a falling edge, the interrupt of an SDIO card.
pub const DSTA_SDIO: u32 = 1 << 9;
/// [`DSTA`]: the FIFO overran or ran empty.
pub const DSTA_FIFO: u32 = 1 << 8;
/// [`DSTA`]: the CRC of a block from the card is wrong.
pub const DSTA_CRC: u32 = 1 << 7;
/// [`DSTA`]: the card reported a CRC error of a written block (CRC status).
pub const DSTA_CRC_STATUS: u32 = 1 << 6;
/// [`DSTA`]: no data, or no end of busy, within [`TIMER`].
pub const DSTA_TIMEOUT: u32 = 1 << 5;
/// [`DSTA`]: all blocks are transferred, and the card's busy has ended.
pub const DSTA_FINISH: u32 = 1 << 4;
/// [`DSTA`]: all bits that stay set and belong to a phase, that is, all but [`DSTA_SDIO`].
pub const DSTA_LATCHED: u32 = 0x3f << 3;
/// [`DSTA`], levels: data are being received (bit 0) or sent (bit 1).
pub const DSTA_ON: u32 = 3;

/// SDIFSTA: state of the FIFO; the number of bytes in the FIFO is in 6:0.
pub const FSTA: u16 = 0x38;
/// [`FSTA`]: empties the FIFO.
pub const FSTA_RESET: u32 = 1 << 16;
/// [`FSTA`]: the FIFO overran or ran empty; the bits stay set until the driver clears them.
pub const FSTA_FAIL: u32 = 3 << 14;
/// [`FSTA`]: mask of the number of bytes in the FIFO.
pub const FSTA_COUNT: u32 = 0x7f;
/// Size of the FIFO in bytes.
pub const FIFO_BYTES: u32 = 64;
/// Bytes in the FIFO at which the half-full and half-empty interrupts are raised.
pub const FIFO_HALF: u32 = 32;

/// SDIIntMsk: enabled interrupts.
pub const IMSK: u16 = 0x3c;
/// [`IMSK`]: interrupt on [`CMDSTAT_CRC`].
pub const INT_RESPONSE_CRC: u32 = 1 << 17;
/// [`IMSK`]: interrupt on [`CMDSTAT_SENT`].
pub const INT_SENT: u32 = 1 << 16;
/// [`IMSK`]: interrupt on [`CMDSTAT_TIMEOUT`].
pub const INT_COMMAND_TIMEOUT: u32 = 1 << 15;
/// [`IMSK`]: interrupt on [`CMDSTAT_RESPONSE`].
pub const INT_RESPONSE: u32 = 1 << 14;
/// [`IMSK`]: interrupt on [`DSTA_SDIO`].
pub const INT_SDIO: u32 = 1 << 12;
/// [`IMSK`]: interrupt on [`FSTA_FAIL`].
pub const INT_FIFO: u32 = 1 << 11;
/// [`IMSK`]: interrupt on [`DSTA_CRC_STATUS`].
pub const INT_CRC_STATUS: u32 = 1 << 10;
/// [`IMSK`]: interrupt on [`DSTA_CRC`].
pub const INT_DATA_CRC: u32 = 1 << 9;
/// [`IMSK`]: interrupt on [`DSTA_TIMEOUT`].
pub const INT_DATA_TIMEOUT: u32 = 1 << 8;
/// [`IMSK`]: interrupt on [`DSTA_FINISH`].
pub const INT_FINISH: u32 = 1 << 7;
/// [`IMSK`], level: interrupt while at most half of the FIFO is full.
pub const INT_TX_HALF: u32 = 1 << 4;
/// [`IMSK`], level: interrupt while at least half of the FIFO is full.
pub const INT_RX_HALF: u32 = 1 << 0;

/// SDIDAT: the FIFO, one word of 32 bits at a time.
pub const DATA: u16 = 0x40;

/// Register of the board's GPIO that shows the level of DAT1.
pub const DAT1: u16 = 0x100;
/// [`DAT1`]: DAT1 is high, so no SDIO interrupt is signalled.
pub const DAT1_HIGH: u32 = 1 << 0;

/// Register of the board's DMA controller: bus address of the data. The board's
/// [`Regs`](crate::host::Regs) maps the registers of that controller at offsets 0x110 to 0x118,
/// after those of the SDI.
pub const DMA_ADDRESS: u16 = 0x110;
/// Register of the board's DMA controller: length of the transfer in bytes, and its direction.
pub const DMA_LENGTH: u16 = 0x114;
/// [`DMA_LENGTH`]: the data go from memory to the card.
pub const DMA_TO_CARD: u32 = 1 << 31;
/// Register of the board's DMA controller: writing 1 starts it, 0 stops it; reads 1 while a
/// transfer is in progress.
pub const DMA_START: u16 = 0x118;

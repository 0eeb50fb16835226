//! Registers and their bits: the layout of the S3C2440, and additional registers of a board.
//!
//! All accesses have 32 bits.

/// Control.
pub const CON: u16 = 0x00;
/// Resets the whole controller; reads as 1 until it is over.
pub const CON_RESET: u32 = 1 << 8;
/// Detects SDIO interrupts.
pub const CON_SDIO: u32 = 1 << 3;
/// The SD clock runs.
pub const CON_CLOCK: u32 = 1 << 0;

/// Prescaler, 8 bits: SD clock = PCLK / (this + 1).
pub const PRE: u16 = 0x04;
/// Largest divisor of PCLK.
pub const DIVISOR_MAX: u32 = 256;

/// The command's argument.
pub const CMDARG: u16 = 0x08;

/// Command: index in 5:0; writing it with [`CMDCON_START`] sends the command.
pub const CMDCON: u16 = 0x0c;
/// The response has 136 bits.
pub const CMDCON_LONG: u32 = 1 << 10;
/// There is a response.
pub const CMDCON_RESPONSE: u32 = 1 << 9;
/// Send.
pub const CMDCON_START: u32 = 1 << 8;
/// The transmission bit: the host sends.
pub const CMDCON_HOST: u32 = 1 << 6;

/// State of the command; 12:9 latch and are cleared by writing ones.
pub const CMDSTAT: u16 = 0x10;
/// The response's CRC is wrong.
pub const CMDSTAT_CRC: u32 = 1 << 12;
/// The command is sent.
pub const CMDSTAT_SENT: u32 = 1 << 11;
/// No response.
pub const CMDSTAT_TIMEOUT: u32 = 1 << 10;
/// The response has come.
pub const CMDSTAT_RESPONSE: u32 = 1 << 9;
/// Level: the CMD line is in use.
pub const CMDSTAT_ON: u32 = 1 << 8;
/// All latching bits.
pub const CMDSTAT_LATCHED: u32 = 0xf << 9;

/// The response without index and CRC: 48 bits here, 136 bits in this and the next three, highest
/// first.
pub const RSP0: u16 = 0x14;

/// Data and busy timer, 23 bits, in SD clocks.
pub const TIMER: u16 = 0x24;
/// Its longest time.
pub const TIMER_MAX: u32 = 0x7f_ffff;

/// Bytes in a block, 12 bits.
pub const BSIZE: u16 = 0x28;

/// Data: number of blocks in 11:0.
pub const DCON: u16 = 0x2c;
/// The FIFO is accessed by words.
pub const DCON_WORDS: u32 = 2 << 22;
/// Data to the card start after the response.
pub const DCON_AFTER_RESPONSE: u32 = 1 << 20;
/// Data from the card are expected after the command.
pub const DCON_AFTER_COMMAND: u32 = 1 << 19;
/// Data are blocks.
pub const DCON_BLOCKS: u32 = 1 << 17;
/// Four data lines.
pub const DCON_WIDE: u32 = 1 << 16;
/// The platform's DMA serves the FIFO.
pub const DCON_DMA: u32 = 1 << 15;
/// Arms the data circuits.
pub const DCON_START: u32 = 1 << 14;
/// From the card.
pub const DCON_RECEIVE: u32 = 2 << 12;
/// To the card.
pub const DCON_TRANSMIT: u32 = 3 << 12;
/// Largest number of blocks, and of bytes in a block.
pub const COUNT_MAX: u32 = 0xfff;

/// State of the data; 9:3 latch and are cleared by writing ones.
pub const DSTA: u16 = 0x34;
/// A falling edge of DAT1 was seen.
pub const DSTA_SDIO: u32 = 1 << 9;
/// The FIFO overran or ran dry.
pub const DSTA_FIFO: u32 = 1 << 8;
/// The CRC of data from the card is wrong.
pub const DSTA_CRC: u32 = 1 << 7;
/// The card's CRC status of data to it is negative.
pub const DSTA_CRC_STATUS: u32 = 1 << 6;
/// No data, or no end of busy, in time.
pub const DSTA_TIMEOUT: u32 = 1 << 5;
/// All blocks are over, with the card's busy.
pub const DSTA_FINISH: u32 = 1 << 4;
/// All latching bits that belong to a phase.
pub const DSTA_LATCHED: u32 = 0x3f << 3;
/// Levels: data are under way, to or from the card.
pub const DSTA_ON: u32 = 3;

/// State of the FIFO: bytes in it in 6:0.
pub const FSTA: u16 = 0x38;
/// Empties the FIFO.
pub const FSTA_RESET: u32 = 1 << 16;
/// The FIFO overran or ran dry; latches.
pub const FSTA_FAIL: u32 = 3 << 14;
/// Bytes in the FIFO.
pub const FSTA_COUNT: u32 = 0x7f;
/// Its size in bytes.
pub const FIFO_BYTES: u32 = 64;
/// The fill level at which its interrupts come: half.
pub const FIFO_HALF: u32 = 32;

/// Interrupts that are enabled.
pub const IMSK: u16 = 0x3c;
/// [`CMDSTAT_CRC`].
pub const INT_RESPONSE_CRC: u32 = 1 << 17;
/// [`CMDSTAT_SENT`].
pub const INT_SENT: u32 = 1 << 16;
/// [`CMDSTAT_TIMEOUT`].
pub const INT_COMMAND_TIMEOUT: u32 = 1 << 15;
/// [`CMDSTAT_RESPONSE`].
pub const INT_RESPONSE: u32 = 1 << 14;
/// [`DSTA_SDIO`].
pub const INT_SDIO: u32 = 1 << 12;
/// [`FSTA_FAIL`].
pub const INT_FIFO: u32 = 1 << 11;
/// [`DSTA_CRC_STATUS`].
pub const INT_CRC_STATUS: u32 = 1 << 10;
/// [`DSTA_CRC`].
pub const INT_DATA_CRC: u32 = 1 << 9;
/// [`DSTA_TIMEOUT`].
pub const INT_DATA_TIMEOUT: u32 = 1 << 8;
/// [`DSTA_FINISH`].
pub const INT_FINISH: u32 = 1 << 7;
/// Level: at most half of the FIFO is full.
pub const INT_TX_HALF: u32 = 1 << 4;
/// Level: at least half of the FIFO is full.
pub const INT_RX_HALF: u32 = 1 << 0;

/// The FIFO, a word at a time.
pub const DATA: u16 = 0x40;

/// The level of DAT1 as the board's GPIO sees it.
pub const DAT1: u16 = 0x100;
/// High: no SDIO interrupt.
pub const DAT1_HIGH: u32 = 1 << 0;

/// The platform's DMA: bus address.
pub const DMA_ADDRESS: u16 = 0x110;
/// Length of its transfer in bytes, and its direction.
pub const DMA_LENGTH: u16 = 0x114;
/// From memory to the card.
pub const DMA_TO_CARD: u32 = 1 << 31;
/// Writing 1 starts it, 0 stops it; reads as 1 while it runs.
pub const DMA_START: u16 = 0x118;

//! The register map of ARM's PrimeCell MCI, PL180 and PL181 [ARM DDI 0172, DDI 0205]. All registers
//! are accessed as 32 bits.

/// MCIPower: supply of the card ([`POWER_UP`], [`POWER_ON`]).
pub const POWER: u16 = 0x00;
/// MCIClock: divider and enable bits of the card's clock, and bus width.
pub const CLOCK: u16 = 0x04;
/// MCIArgument: the argument of the next command.
pub const ARGUMENT: u16 = 0x08;
/// MCICommand: index of the command in 5:0; a write with [`COMMAND_ENABLE`] sends it.
pub const COMMAND: u16 = 0x0c;
/// MCIRespCmd: the index of the last response.
pub const RESPONSE_INDEX: u16 = 0x10;
/// MCIResponse0: the content of a short response, or bits 127:96 of a long one.
pub const RESPONSE_0: u16 = 0x14;
/// MCIResponse1: bits 95:64 of a long response.
pub const RESPONSE_1: u16 = 0x18;
/// MCIResponse2: bits 63:32 of a long response.
pub const RESPONSE_2: u16 = 0x1c;
/// MCIResponse3: bits 31:1 of a long response; bit 0 reads as 0.
pub const RESPONSE_3: u16 = 0x20;
/// MCIDataTimer: data timeout in periods of the card's clock.
pub const DATA_TIMER: u16 = 0x24;
/// MCIDataLength: length of the transfer in bytes, 16 bits.
pub const DATA_LENGTH: u16 = 0x28;
/// MCIDataCtrl: direction and block size; a write with [`DATA_ENABLE`] starts the data.
pub const DATA_CONTROL: u16 = 0x2c;
/// MCIStatus: flags of the command, the data and the FIFO.
pub const STATUS: u16 = 0x34;
/// MCIClear: writing 1 clears the flag of [`STATUS`], for the flags in [`STATIC`].
pub const CLEAR: u16 = 0x38;
/// MCIMask0: which flags of [`STATUS`] raise the first interrupt line.
pub const MASK_0: u16 = 0x3c;
/// MCIMask1: which flags of [`STATUS`] raise the second interrupt line.
pub const MASK_1: u16 = 0x40;
/// MCIFIFO: the data FIFO. Each word up to offset 0BCh accesses the same FIFO.
pub const FIFO: u16 = 0x80;
/// MCIPeriphID0: the first of four identification registers, 8 bits each.
pub const PERIPHERAL_ID_0: u16 = 0xfe0;

/// [`POWER`]: the supply rises.
pub const POWER_UP: u32 = 0b10;
/// [`POWER`]: the supply is on, and the clock runs.
pub const POWER_ON: u32 = 0b11;

/// [`CLOCK`]: largest divider; card clock = MCLK / (2 * (divider + 1)).
pub const CLOCK_DIVIDER_MAX: u32 = 0xff;
/// [`CLOCK`]: enables the card's clock.
pub const CLOCK_ENABLE: u32 = 1 << 8;
/// [`CLOCK`]: bypasses the divider; the card's clock is MCLK.
pub const CLOCK_BYPASS: u32 = 1 << 10;
/// [`CLOCK`]: uses four data lines instead of one.
pub const CLOCK_WIDE: u32 = 1 << 11;

/// [`COMMAND`]: expects a response.
pub const COMMAND_RESPONSE: u32 = 1 << 6;
/// [`COMMAND`]: the response has 136 bits.
pub const COMMAND_LONG: u32 = 1 << 7;
/// [`COMMAND`]: enables the command path, which sends the command.
pub const COMMAND_ENABLE: u32 = 1 << 10;

/// [`DATA_CONTROL`]: enables the data path, which starts the transfer.
pub const DATA_ENABLE: u32 = 1 << 0;
/// [`DATA_CONTROL`]: the data go from the card to the host.
pub const DATA_READ: u32 = 1 << 1;
/// [`DATA_CONTROL`]: lowest bit of the base 2 logarithm of the block size in bytes.
pub const DATA_BLOCK_SHIFT: u32 = 4;
/// Longest block, in bytes: 2^11.
pub const DATA_BLOCK_BYTES_MAX: u16 = 2048;
/// Longest transfer, in bytes: the largest value of [`DATA_LENGTH`].
pub const DATA_BYTES_MAX: u32 = 0xffff;

/// [`STATUS`]: a response was received with a wrong CRC.
pub const COMMAND_CRC_FAIL: u32 = 1 << 0;
/// [`STATUS`]: a block was received or sent, and its CRC is wrong.
pub const DATA_CRC_FAIL: u32 = 1 << 1;
/// [`STATUS`]: no response within 64 clocks.
pub const COMMAND_TIMEOUT: u32 = 1 << 2;
/// [`STATUS`]: no data, or no end of busy, within [`DATA_TIMER`].
pub const DATA_TIMEOUT: u32 = 1 << 3;
/// [`STATUS`]: the FIFO ran empty while the controller sent data.
pub const TX_UNDERRUN: u32 = 1 << 4;
/// [`STATUS`]: the FIFO overran while the controller received data.
pub const RX_OVERRUN: u32 = 1 << 5;
/// [`STATUS`]: a response was received with a correct CRC.
pub const RESPONSE_END: u32 = 1 << 6;
/// [`STATUS`]: a command without a response was sent.
pub const COMMAND_SENT: u32 = 1 << 7;
/// [`STATUS`]: all bytes of the transfer are done (the data counter is zero).
pub const DATA_END: u32 = 1 << 8;
/// [`STATUS`]: the data lines did not all show the start bit at the same time.
pub const START_BIT: u32 = 1 << 9;
/// [`STATUS`]: one block was transferred with a correct CRC.
pub const DATA_BLOCK_END: u32 = 1 << 10;
/// [`STATUS`]: the controller is sending a command or waits for its response.
pub const COMMAND_ACTIVE: u32 = 1 << 11;
/// [`STATUS`]: at least half of the FIFO is free for writing.
pub const TX_HALF_EMPTY: u32 = 1 << 14;
/// [`STATUS`]: at least half of the FIFO holds received data.
pub const RX_HALF_FULL: u32 = 1 << 15;
/// [`STATUS`]: the FIFO is full of received data.
pub const RX_FULL: u32 = 1 << 17;
/// [`STATUS`]: the FIFO is empty and can be written as a whole.
pub const TX_EMPTY: u32 = 1 << 18;
/// [`STATUS`]: the FIFO holds at least one received word.
pub const RX_AVAILABLE: u32 = 1 << 21;

/// The flags of [`STATUS`] that stay set until the driver clears them by [`CLEAR`].
pub const STATIC: u32 = 0x7ff;

//! The register map of ARM's PrimeCell MCI, PL180 and PL181 [ARM DDI 0172, DDI 0205]. 32 bits each.

/// MCIPower.
pub const POWER: u16 = 0x00;
/// MCIClock.
pub const CLOCK: u16 = 0x04;
/// MCIArgument.
pub const ARGUMENT: u16 = 0x08;
/// MCICommand.
pub const COMMAND: u16 = 0x0c;
/// MCIRespCmd: the index of the last response.
pub const RESPONSE_INDEX: u16 = 0x10;
/// MCIResponse0: the content of a short response, or bits 127:96 of a long one.
pub const RESPONSE_0: u16 = 0x14;
/// MCIResponse1: bits 95:64.
pub const RESPONSE_1: u16 = 0x18;
/// MCIResponse2: bits 63:32.
pub const RESPONSE_2: u16 = 0x1c;
/// MCIResponse3: bits 31:1; bit 0 reads as 0.
pub const RESPONSE_3: u16 = 0x20;
/// MCIDataTimer: data timeout in periods of the card's clock.
pub const DATA_TIMER: u16 = 0x24;
/// MCIDataLength: bytes of a transfer, 16 bits.
pub const DATA_LENGTH: u16 = 0x28;
/// MCIDataCtrl.
pub const DATA_CONTROL: u16 = 0x2c;
/// MCIStatus.
pub const STATUS: u16 = 0x34;
/// MCIClear: clears the static flags of [`STATUS`] that are written as one.
pub const CLEAR: u16 = 0x38;
/// MCIMask0: flags that raise the first interrupt line.
pub const MASK_0: u16 = 0x3c;
/// MCIMask1: flags that raise the second interrupt line.
pub const MASK_1: u16 = 0x40;
/// MCIFIFO: any word up to 0BCh is the same FIFO.
pub const FIFO: u16 = 0x80;
/// MCIPeriphID0, the first of four, 8 bits each.
pub const PERIPHERAL_ID_0: u16 = 0xfe0;

/// Power-up phase.
pub const POWER_UP: u32 = 0b10;
/// Power-on phase.
pub const POWER_ON: u32 = 0b11;

/// The divider: card clock = MCLK / (2 * (divider + 1)).
pub const CLOCK_DIVIDER_MAX: u32 = 0xff;
/// The card's clock runs.
pub const CLOCK_ENABLE: u32 = 1 << 8;
/// The card's clock is MCLK.
pub const CLOCK_BYPASS: u32 = 1 << 10;
/// Four data lines.
pub const CLOCK_WIDE: u32 = 1 << 11;

/// A response is awaited.
pub const COMMAND_RESPONSE: u32 = 1 << 6;
/// It has 136 bits.
pub const COMMAND_LONG: u32 = 1 << 7;
/// The command path works.
pub const COMMAND_ENABLE: u32 = 1 << 10;

/// The data path works.
pub const DATA_ENABLE: u32 = 1 << 0;
/// From the card.
pub const DATA_READ: u32 = 1 << 1;
/// Base 2 logarithm of the block size.
pub const DATA_BLOCK_SHIFT: u32 = 4;
/// Longest block: 2^11 bytes.
pub const DATA_BLOCK_BYTES_MAX: u16 = 2048;
/// What [`DATA_LENGTH`] holds.
pub const DATA_BYTES_MAX: u32 = 0xffff;

/// The response came, its CRC is wrong.
pub const COMMAND_CRC_FAIL: u32 = 1 << 0;
/// A block came or was sent, its CRC is wrong.
pub const DATA_CRC_FAIL: u32 = 1 << 1;
/// No response within 64 clocks.
pub const COMMAND_TIMEOUT: u32 = 1 << 2;
/// No data, or no end of busy, within the data timer.
pub const DATA_TIMEOUT: u32 = 1 << 3;
/// The FIFO ran empty while sending.
pub const TX_UNDERRUN: u32 = 1 << 4;
/// The FIFO ran over while receiving.
pub const RX_OVERRUN: u32 = 1 << 5;
/// The response came, its CRC is right.
pub const RESPONSE_END: u32 = 1 << 6;
/// A command without response is out.
pub const COMMAND_SENT: u32 = 1 << 7;
/// The data counter is zero.
pub const DATA_END: u32 = 1 << 8;
/// Not all data lines had their start bit at once.
pub const START_BIT: u32 = 1 << 9;
/// One block is through, its CRC is right.
pub const DATA_BLOCK_END: u32 = 1 << 10;
/// A command is on its way.
pub const COMMAND_ACTIVE: u32 = 1 << 11;
/// Half of the FIFO, or more, can be written.
pub const TX_HALF_EMPTY: u32 = 1 << 14;
/// Half of the FIFO, or more, can be read.
pub const RX_HALF_FULL: u32 = 1 << 15;
/// All of the FIFO can be read.
pub const RX_FULL: u32 = 1 << 17;
/// All of the FIFO can be written.
pub const TX_EMPTY: u32 = 1 << 18;
/// A word can be read.
pub const RX_AVAILABLE: u32 = 1 << 21;

/// The flags that stay until they are cleared.
pub const STATIC: u32 = 0x7ff;

//! The register map of ST's SDMMC, versions 2 and 3 (RM0433 58.10, RM0455, RM0486). 32 bits
//! each; below 40h it is PL181's.

/// Power.
pub const POWER: u16 = 0x00;
/// Clock, lines, timing.
pub const CLOCK: u16 = 0x04;
/// Argument.
pub const ARGUMENT: u16 = 0x08;
/// Command; a write with [`COMMAND_ENABLE`] sends it.
pub const COMMAND: u16 = 0x0c;
/// Index of the last response.
pub const RESPONSE_INDEX: u16 = 0x10;
/// The content of a short response, or bits 127:96 of a long one; three more words follow.
pub const RESPONSE_1: u16 = 0x14;
/// Longest time for data and busy, in card clocks.
pub const DATA_TIMER: u16 = 0x24;
/// Bytes of a transfer.
pub const DATA_LENGTH: u16 = 0x28;
/// Data path.
pub const DATA_CONTROL: u16 = 0x2c;
/// Status.
pub const STATUS: u16 = 0x34;
/// Clears the flags of [`STATUS`] that are written as one.
pub const CLEAR: u16 = 0x38;
/// Flags that interrupt.
pub const MASK: u16 = 0x3c;
/// Internal DMA.
pub const DMA_CONTROL: u16 = 0x50;
/// Bytes of the first piece, where there is a list.
pub const DMA_SIZE: u16 = 0x54;
/// Address of the first piece.
pub const DMA_BASE: u16 = 0x58;
/// What follows the first piece.
pub const DMA_NEXT: u16 = 0x64;
/// Address of the list.
pub const DMA_LIST: u16 = 0x68;

/// The card's supply is off, and the lines are high. Only a reset leads from [`POWER_ON`] to here.
pub const POWER_OFF: u32 = 0;
/// All lines are low, so that the card loses its last charge.
pub const POWER_CYCLE: u32 = 2;
/// The clock runs.
pub const POWER_ON: u32 = 3;
/// Mask of the three states.
pub const POWER_STATE: u32 = 3;
/// Continues the voltage switch: the supply is at 1.8 V.
pub const POWER_SWITCH: u32 = 1 << 2;
/// Set before CMD11: the clock stops after it.
pub const POWER_SWITCH_ENABLE: u32 = 1 << 3;
/// The level shifter's direction pins are high for what the controller drives (DIRPOL).
pub const POWER_DIRECTION: u32 = 1 << 4;

/// Largest divider; the card's clock is the kernel's, divided by twice that, or by 1 with 0.
pub const CLOCK_DIVIDER_MAX: u32 = 0x3ff;
/// The clock runs only while something is on the lines.
pub const CLOCK_SAVES: u32 = 1 << 12;
/// Data lines: 0 one, 1 four, 2 eight.
pub const CLOCK_WIDTH_SHIFT: u32 = 14;
/// The clock stops where the FIFO would overrun or underrun.
pub const CLOCK_FLOW_CONTROL: u32 = 1 << 17;
/// Data on both edges.
pub const CLOCK_DDR: u32 = 1 << 18;
/// Above 50 MHz, or on both edges.
pub const CLOCK_FAST: u32 = 1 << 19;
/// Data are sampled by the clock that comes back through the delay block.
pub const CLOCK_FEEDBACK: u32 = 2 << 20;
/// Data are sampled by the clock at the pin CKIN.
pub const CLOCK_IN: u32 = 1 << 20;
/// Command and data change at the falling edge.
pub const CLOCK_FALLING: u32 = 1 << 16;

/// The command has data.
pub const COMMAND_DATA: u32 = 1 << 6;
/// The command ends data.
pub const COMMAND_STOP: u32 = 1 << 7;
/// A short response with CRC.
pub const COMMAND_SHORT: u32 = 1 << 8;
/// A short response without CRC.
pub const COMMAND_SHORT_PLAIN: u32 = 2 << 8;
/// A long response.
pub const COMMAND_LONG: u32 = 3 << 8;
/// Sends the command.
pub const COMMAND_ENABLE: u32 = 1 << 12;

/// From the card.
pub const DATA_READ: u32 = 1 << 1;
/// One block of any length (CMD53 in byte mode).
pub const DATA_BYTES: u32 = 1 << 2;
/// Base 2 logarithm of the block size.
pub const DATA_BLOCK_SHIFT: u32 = 4;
/// The card interrupts by DAT1.
pub const DATA_SDIO: u32 = 1 << 11;
/// Empties the FIFO.
pub const DATA_FIFO_RESET: u32 = 1 << 13;
/// What [`DATA_LENGTH`] holds.
pub const DATA_BYTES_MAX: u32 = (1 << 25) - 1;
/// Longest block.
pub const DATA_BLOCK_BYTES_MAX: u16 = 2048;

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
/// All data have been transferred.
pub const DATA_END: u32 = 1 << 8;
/// A block has been transferred.
pub const DATA_BLOCK_END: u32 = 1 << 10;
/// [`COMMAND_STOP`] has ended data.
pub const DATA_ABORTED: u32 = 1 << 11;
/// The data path works.
pub const DATA_ACTIVE: u32 = 1 << 12;
/// The command path works.
pub const COMMAND_ACTIVE: u32 = 1 << 13;
/// The card holds DAT0 low: sampled at the end of a response, and two clocks later.
pub const BUSY: u32 = 1 << 20;
/// The card has released DAT0.
pub const BUSY_END: u32 = 1 << 21;
/// A function on the card requests attention.
pub const CARD_INTERRUPT: u32 = 1 << 22;
/// The voltage switch is over.
pub const SWITCH_END: u32 = 1 << 25;
/// The clock has stopped for it.
pub const CLOCK_STOPPED: u32 = 1 << 26;
/// The DMA met an address that it does not reach.
pub const DMA_ERROR: u32 = 1 << 27;

/// The flags that stay until they are cleared, except the card's interrupt.
pub const STATIC: u32 = COMMAND_CRC_FAIL
    | DATA_CRC_FAIL
    | COMMAND_TIMEOUT
    | DATA_TIMEOUT
    | TX_UNDERRUN
    | RX_OVERRUN
    | RESPONSE_END
    | COMMAND_SENT
    | DATA_END
    | 1 << 9
    | DATA_BLOCK_END
    | DATA_ABORTED
    | BUSY_END
    | 3 << 23
    | SWITCH_END
    | CLOCK_STOPPED
    | DMA_ERROR
    | 1 << 28;

/// The DMA works.
pub const DMA_ENABLE: u32 = 1 << 0;
/// The DMA uses a list.
pub const DMA_BY_LIST: u32 = 1 << 1;
/// [`DMA_NEXT`]: a piece follows.
pub const NEXT_FOLLOWS: u32 = 1 << 31;
/// [`DMA_NEXT`]: its size is in the list.
pub const NEXT_HAS_SIZE: u32 = 1 << 30;
/// [`DMA_NEXT`]: the list is ready.
pub const NEXT_READY: u32 = 1 << 29;

//! The register map of ST's SDMMC, versions 2 and 3 (RM0433 58.10, RM0455, RM0486). Each register
//! has 32 bits; offsets below 40h are those of PL181.

/// SDMMC_POWER: state of the card's supply, and the voltage switch.
pub const POWER: u16 = 0x00;
/// SDMMC_CLKCR: divider of the card's clock, bus width and timing.
pub const CLOCK: u16 = 0x04;
/// SDMMC_ARGR: the argument of the next command.
pub const ARGUMENT: u16 = 0x08;
/// SDMMC_CMDR: the command; a write with [`COMMAND_ENABLE`] sends it.
pub const COMMAND: u16 = 0x0c;
/// SDMMC_RESPCMDR: index of the last response.
pub const RESPONSE_INDEX: u16 = 0x10;
/// SDMMC_RESP1R: the content of a short response, or bits 127:96 of a long one; the other 96 bits
/// are in the next three words.
pub const RESPONSE_1: u16 = 0x14;
/// SDMMC_DTIMER: timeout for data and busy, in card clocks.
pub const DATA_TIMER: u16 = 0x24;
/// SDMMC_DLENR: length of the transfer in bytes.
pub const DATA_LENGTH: u16 = 0x28;
/// SDMMC_DCTRL: direction, block size and mode of the data.
pub const DATA_CONTROL: u16 = 0x2c;
/// SDMMC_STAR: flags of the command, the data, busy and the DMA.
pub const STATUS: u16 = 0x34;
/// SDMMC_ICR: writing 1 clears the flag of [`STATUS`].
pub const CLEAR: u16 = 0x38;
/// SDMMC_MASKR: which flags of [`STATUS`] raise the interrupt.
pub const MASK: u16 = 0x3c;
/// SDMMC_IDMACTRLR: enables the internal DMA.
pub const DMA_CONTROL: u16 = 0x50;
/// SDMMC_IDMABSIZER: length of the first piece in bytes, if the DMA uses a list.
pub const DMA_SIZE: u16 = 0x54;
/// SDMMC_IDMABASER: bus address of the transfer's memory, or of its first piece if the DMA uses a
/// list.
pub const DMA_BASE: u16 = 0x58;
/// SDMMC_IDMALAR: offset and flags of the list entry that follows the first piece.
pub const DMA_NEXT: u16 = 0x64;
/// SDMMC_IDMABAR: bus address of the list of pieces.
pub const DMA_LIST: u16 = 0x68;

/// [`POWER`]: the card's supply is off, and the lines are high. Only a reset leads from
/// [`POWER_ON`] to this state.
pub const POWER_OFF: u32 = 0;
/// [`POWER`]: all lines are low, so that the card loses its remaining charge.
pub const POWER_CYCLE: u32 = 2;
/// [`POWER`]: the card is supplied, and the clock runs.
pub const POWER_ON: u32 = 3;
/// [`POWER`]: mask of the field with the state of the supply.
pub const POWER_STATE: u32 = 3;
/// [`POWER`]: continues the voltage switch, after the lines were switched to 1.8 V.
pub const POWER_SWITCH: u32 = 1 << 2;
/// [`POWER`]: set before CMD11, so that the clock stops after the response.
pub const POWER_SWITCH_ENABLE: u32 = 1 << 3;
/// [`POWER`]: polarity of the level shifter's direction pins (DIRPOL): high while the controller
/// drives the line.
pub const POWER_DIRECTION: u32 = 1 << 4;

/// [`CLOCK`]: largest divider n; card clock = kernel clock / 2n, or the kernel clock itself if n is
/// 0.
pub const CLOCK_DIVIDER_MAX: u32 = 0x3ff;
/// [`CLOCK`]: stops the card's clock while the bus is idle (power saving).
pub const CLOCK_SAVES: u32 = 1 << 12;
/// [`CLOCK`]: lowest bit of the bus width: 0, 1, 2 for 1, 4, 8 data lines.
pub const CLOCK_WIDTH_SHIFT: u32 = 14;
/// [`CLOCK`]: hardware flow control, which stops the clock before the FIFO overruns or runs empty.
pub const CLOCK_FLOW_CONTROL: u32 = 1 << 17;
/// [`CLOCK`]: data are transferred on both clock edges (DDR).
pub const CLOCK_DDR: u32 = 1 << 18;
/// [`CLOCK`]: the bus runs faster than 50 MHz, or on both clock edges.
pub const CLOCK_FAST: u32 = 1 << 19;
/// [`CLOCK`]: the receive clock is the card's clock, fed back through the delay block.
pub const CLOCK_FEEDBACK: u32 = 2 << 20;
/// [`CLOCK`]: the receive clock is the clock at pin CKIN.
pub const CLOCK_IN: u32 = 1 << 20;
/// [`CLOCK`]: the controller changes CMD and DAT at the falling clock edge.
pub const CLOCK_FALLING: u32 = 1 << 16;

/// [`COMMAND`]: data follow the command.
pub const COMMAND_DATA: u32 = 1 << 6;
/// [`COMMAND`]: the command stops the data transfer in progress.
pub const COMMAND_STOP: u32 = 1 << 7;
/// [`COMMAND`]: expects a short response, and checks its CRC.
pub const COMMAND_SHORT: u32 = 1 << 8;
/// [`COMMAND`]: expects a short response without a CRC.
pub const COMMAND_SHORT_PLAIN: u32 = 2 << 8;
/// [`COMMAND`]: expects a long response (136 bits).
pub const COMMAND_LONG: u32 = 3 << 8;
/// [`COMMAND`]: sends the command.
pub const COMMAND_ENABLE: u32 = 1 << 12;

/// [`DATA_CONTROL`]: the data go from the card to the host.
pub const DATA_READ: u32 = 1 << 1;
/// [`DATA_CONTROL`]: one block of any length (CMD53 in byte mode).
pub const DATA_BYTES: u32 = 1 << 2;
/// [`DATA_CONTROL`]: lowest bit of the base 2 logarithm of the block size in bytes.
pub const DATA_BLOCK_SHIFT: u32 = 4;
/// [`DATA_CONTROL`]: the controller detects card interrupts on DAT1.
pub const DATA_SDIO: u32 = 1 << 11;
/// [`DATA_CONTROL`]: empties the FIFO.
pub const DATA_FIFO_RESET: u32 = 1 << 13;
/// Longest transfer, in bytes: the largest value of [`DATA_LENGTH`].
pub const DATA_BYTES_MAX: u32 = (1 << 25) - 1;
/// Longest block, in bytes.
pub const DATA_BLOCK_BYTES_MAX: u16 = 2048;

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
/// [`STATUS`]: all bytes of the transfer have been transferred.
pub const DATA_END: u32 = 1 << 8;
/// [`STATUS`]: one block is done.
pub const DATA_BLOCK_END: u32 = 1 << 10;
/// [`STATUS`]: a command with [`COMMAND_STOP`] has stopped the data transfer.
pub const DATA_ABORTED: u32 = 1 << 11;
/// [`STATUS`]: the data path is active: a transfer is in progress.
pub const DATA_ACTIVE: u32 = 1 << 12;
/// [`STATUS`]: the command path is active: a command or its response is in progress.
pub const COMMAND_ACTIVE: u32 = 1 << 13;
/// [`STATUS`]: the card holds DAT0 low (busy); sampled at the end of a response, and two clocks
/// later.
pub const BUSY: u32 = 1 << 20;
/// [`STATUS`]: the card has released DAT0, so busy has ended.
pub const BUSY_END: u32 = 1 << 21;
/// [`STATUS`]: a function of an I/O card signals an interrupt on DAT1.
pub const CARD_INTERRUPT: u32 = 1 << 22;
/// [`STATUS`]: the timing of the voltage switch is complete.
pub const SWITCH_END: u32 = 1 << 25;
/// [`STATUS`]: the clock has stopped for the voltage switch.
pub const CLOCK_STOPPED: u32 = 1 << 26;
/// [`STATUS`]: the DMA could not access an address.
pub const DMA_ERROR: u32 = 1 << 27;

/// The flags of [`STATUS`] that stay set until the driver clears them, except [`CARD_INTERRUPT`].
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

/// [`DMA_CONTROL`]: enables the DMA.
pub const DMA_ENABLE: u32 = 1 << 0;
/// [`DMA_CONTROL`]: the DMA uses a list of pieces.
pub const DMA_BY_LIST: u32 = 1 << 1;
/// [`DMA_NEXT`]: another list entry, with a further memory segment, follows.
pub const NEXT_FOLLOWS: u32 = 1 << 31;
/// [`DMA_NEXT`]: the list entry holds the size of its memory segment.
pub const NEXT_HAS_SIZE: u32 = 1 << 30;
/// [`DMA_NEXT`]: the list entry is ready for the DMA.
pub const NEXT_READY: u32 = 1 << 29;

//! Bits of the registers that both layouts have; [`layout`](super::layout) has the offsets.
//!
//! All accesses have 32 bits.

/// In the control register: resets the controller; clears itself, as the next two.
pub const CONTROL_RESET: u32 = 1 << 0;
/// Empties the FIFO.
pub const CONTROL_FIFO_RESET: u32 = 1 << 1;
/// Stops the DMA interface.
pub const CONTROL_DMA_RESET: u32 = 1 << 2;
/// All three resets.
pub const CONTROL_RESETS: u32 = CONTROL_RESET | CONTROL_FIFO_RESET | CONTROL_DMA_RESET;
/// Enables the interrupt output.
pub const CONTROL_INTERRUPTS: u32 = 1 << 4;
/// DMA serves the FIFO.
pub const CONTROL_DMA: u32 = 1 << 5;
/// SMHC: the CPU serves the FIFO.
pub const CONTROL_BY_CPU: u32 = 1 << 31;
/// SMHC: data on both edges.
pub const CONTROL_DDR: u32 = 1 << 10;
/// DesignWare: the DMA is the internal one.
pub const CONTROL_INTERNAL_DMA: u32 = 1 << 25;

/// SMHC: the card's clock runs; its divider is in 7:0.
pub const CLOCK_ON: u32 = 1 << 16;
/// SMHC: DAT0 is ignored while the clock changes.
pub const CLOCK_MASKS_DAT0: u32 = 1 << 31;
/// Largest divider: the card's clock is the source's, divided by twice this; 0: not divided.
pub const DIVIDER_MAX: u32 = 0xff;

/// In the command register: the index is in 5:0. There is a response.
pub const COMMAND_RESPONSE: u32 = 1 << 6;
/// The response has 136 bits.
pub const COMMAND_LONG: u32 = 1 << 7;
/// The response's CRC is checked.
pub const COMMAND_CRC: u32 = 1 << 8;
/// There are data.
pub const COMMAND_DATA: u32 = 1 << 9;
/// The data go to the card.
pub const COMMAND_WRITE: u32 = 1 << 10;
/// CMD12 follows the last block.
pub const COMMAND_AUTO_STOP: u32 = 1 << 12;
/// The command waits for the end of earlier data.
pub const COMMAND_WAITS: u32 = 1 << 13;
/// The command ends data that are under way.
pub const COMMAND_ABORTS: u32 = 1 << 14;
/// 80 clocks precede the command.
pub const COMMAND_INIT: u32 = 1 << 15;
/// Nothing is sent: the values of the clock registers become effective.
pub const COMMAND_UPDATE_CLOCK: u32 = 1 << 21;
/// The command is CMD11, or a change of the clock that belongs to the voltage switch.
pub const COMMAND_VOLTAGE: u32 = 1 << 28;
/// DesignWare: CMD and DAT pass through the hold register.
pub const COMMAND_HOLD: u32 = 1 << 29;
/// Starts the command; clears itself when the controller has accepted it.
pub const COMMAND_START: u32 = 1 << 31;

/// In the raw, the masked and the mask register: the response is malformed.
pub const INT_RESPONSE: u32 = 1 << 1;
/// The command is over.
pub const INT_COMMAND: u32 = 1 << 2;
/// The data are over.
pub const INT_DATA: u32 = 1 << 3;
/// The FIFO has space.
pub const INT_TX: u32 = 1 << 4;
/// The FIFO has data.
pub const INT_RX: u32 = 1 << 5;
/// The CRC of the response is wrong.
pub const INT_RESPONSE_CRC: u32 = 1 << 6;
/// A CRC of the data is wrong.
pub const INT_DATA_CRC: u32 = 1 << 7;
/// No response.
pub const INT_NO_RESPONSE: u32 = 1 << 8;
/// No data in time.
pub const INT_DATA_TIMEOUT: u32 = 1 << 9;
/// Memory was slower than the card for too long.
pub const INT_STARVED: u32 = 1 << 10;
/// During CMD11 and the voltage switch: the lines are low, or high again.
pub const INT_VOLTAGE: u32 = INT_STARVED;
/// The FIFO overran or ran dry.
pub const INT_FIFO: u32 = 1 << 11;
/// A register was written while a command used it.
pub const INT_LOCKED: u32 = 1 << 12;
/// A start bit is missing; of a write (DesignWare): busy is over.
pub const INT_START_BIT: u32 = 1 << 13;
/// The automatic CMD12 is over.
pub const INT_AUTO_STOP: u32 = 1 << 14;
/// An end bit is missing; of a write: the CRC status.
pub const INT_END_BIT: u32 = 1 << 15;

/// In the status register: the FIFO is empty.
pub const STATUS_EMPTY: u32 = 1 << 2;
/// The FIFO is full.
pub const STATUS_FULL: u32 = 1 << 3;
/// The card holds DAT0 low.
pub const STATUS_BUSY: u32 = 1 << 9;
/// DMA is requested.
pub const STATUS_DMA_REQUEST: u32 = 1 << 31;

/// In the timeout register: for the response, in 7:0; for data in 31:8.
pub const TIMEOUT_RESPONSE: u32 = 0xff;
/// Shift of the data timeout.
pub const TIMEOUT_DATA_SHIFT: u32 = 8;
/// Largest data timeout.
pub const TIMEOUT_DATA_MAX: u32 = 0xff_ffff;

/// In the register for the space of reads: a read begins when the FIFO has space for this many
/// bytes.
pub const READ_ROOM_ON: u32 = 1 << 0;
/// Shift of that number of bytes.
pub const READ_ROOM_SHIFT: u32 = 16;

/// In SMHC's timing register: the new mode.
pub const TIMING_NEW: u32 = 1 << 31;
/// In SMHC's sample delay: the steps in 5:0 are used.
pub const DELAY_ON: u32 = 1 << 7;
/// Steps of one tap.
pub const DELAY_TAP_STEPS: u32 = 2;
/// Taps of the delay.
pub const DELAY_TAPS: u8 = 32;

/// In DesignWare's UHS register: 1.8 V.
pub const UHS_18: u32 = 1 << 0;
/// Data on both edges.
pub const UHS_DDR: u32 = 1 << 16;

/// In the DMA's mode register: resets it.
pub const DMA_RESET: u32 = 1 << 0;
/// Bursts of a fixed length.
pub const DMA_FIXED_BURST: u32 = 1 << 1;
/// It is on.
pub const DMA_ON: u32 = 1 << 7;

/// In the DMA's status and interrupt enable: data from the card are in memory.
pub const DMA_RECEIVED: u32 = 1 << 1;
/// The bus reported an error.
pub const DMA_BUS_ERROR: u32 = 1 << 2;
/// The DMA has stopped at a descriptor that it does not own.
pub const DMA_UNAVAILABLE: u32 = 1 << 4;
/// Summary bits; DesignWare interrupts only by these.
pub const DMA_NORMAL: u32 = 1 << 8;
/// Summary of the abnormal bits.
pub const DMA_ABNORMAL: u32 = 1 << 9;
/// All bits that are cleared by writing ones.
pub const DMA_LATCHED: u32 = 0x337;

/// In a descriptor: its end does not interrupt.
pub const DESCRIPTOR_QUIET: u32 = 1 << 1;
/// The last one.
pub const DESCRIPTOR_LAST: u32 = 1 << 2;
/// The first one.
pub const DESCRIPTOR_FIRST: u32 = 1 << 3;
/// Its fourth word is the address of the next one.
pub const DESCRIPTOR_CHAINED: u32 = 1 << 4;
/// SMHC: the last one of all.
pub const DESCRIPTOR_END: u32 = 1 << 5;
/// The descriptor belongs to the DMA.
pub const DESCRIPTOR_OWNED: u32 = 1 << 31;

/// DesignWare's HCON: width of the FIFO, 1 for 32 bits.
pub const HARDWARE_FIFO_SHIFT: u32 = 7;
/// Type of DMA: 0 is the internal one.
pub const HARDWARE_DMA: u32 = 3 << 16;
/// Descriptors have addresses of 64 bits.
pub const HARDWARE_WIDE: u32 = 1 << 27;

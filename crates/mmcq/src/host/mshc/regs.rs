//! Bits of the registers that Allwinner's SMHC and DesignWare's MSHC share;
//! [`layout`](super::layout) has the offsets.
//!
//! All registers are accessed as 32 bits.

/// Control register: resets the controller. Reads 1 until the reset is complete.
pub const CONTROL_RESET: u32 = 1 << 0;
/// Control register: empties the FIFO. Reads 1 until the reset is complete.
pub const CONTROL_FIFO_RESET: u32 = 1 << 1;
/// Control register: resets the DMA interface. Reads 1 until the reset is complete.
pub const CONTROL_DMA_RESET: u32 = 1 << 2;
/// Control register: resets the controller, the FIFO and the DMA interface.
pub const CONTROL_RESETS: u32 = CONTROL_RESET | CONTROL_FIFO_RESET | CONTROL_DMA_RESET;
/// Control register: enables the interrupt line of the controller.
pub const CONTROL_INTERRUPTS: u32 = 1 << 4;
/// Control register: DMA moves the data between the FIFO and memory.
pub const CONTROL_DMA: u32 = 1 << 5;
/// Control register, SMHC only: the CPU moves the data between the FIFO and memory.
pub const CONTROL_BY_CPU: u32 = 1 << 31;
/// Control register, SMHC only: data are transferred on both clock edges (DDR).
pub const CONTROL_DDR: u32 = 1 << 10;
/// Control register, DesignWare only: selects the internal DMA.
pub const CONTROL_INTERNAL_DMA: u32 = 1 << 25;

/// SMHC's clock register: enables the card's clock. The divider is in 7:0.
pub const CLOCK_ON: u32 = 1 << 16;
/// SMHC's clock register: ignores DAT0 (busy) while the clock changes.
pub const CLOCK_MASKS_DAT0: u32 = 1 << 31;
/// Largest divider n of the card's clock: source / 2n. A divider of 0 passes the source clock
/// unchanged.
pub const DIVIDER_MAX: u32 = 0xff;

/// Command register: expects a response. The command's index is in 5:0.
pub const COMMAND_RESPONSE: u32 = 1 << 6;
/// Command register: the response has 136 bits.
pub const COMMAND_LONG: u32 = 1 << 7;
/// Command register: the controller checks the CRC of the response.
pub const COMMAND_CRC: u32 = 1 << 8;
/// Command register: data follow the command.
pub const COMMAND_DATA: u32 = 1 << 9;
/// Command register: the data go from the host to the card.
pub const COMMAND_WRITE: u32 = 1 << 10;
/// Command register: the controller sends CMD12 after the last block.
pub const COMMAND_AUTO_STOP: u32 = 1 << 12;
/// Command register: the controller sends the command after the earlier data have ended.
pub const COMMAND_WAITS: u32 = 1 << 13;
/// Command register: the command stops the transfer in progress.
pub const COMMAND_ABORTS: u32 = 1 << 14;
/// Command register: the controller sends 80 clocks before the command.
pub const COMMAND_INIT: u32 = 1 << 15;
/// Command register: sends no command, but puts the values of the clock registers into effect.
pub const COMMAND_UPDATE_CLOCK: u32 = 1 << 21;
/// Command register: the command is CMD11, or a clock change that belongs to the voltage switch.
pub const COMMAND_VOLTAGE: u32 = 1 << 28;
/// Command register, DesignWare only: CMD and DAT are driven through the hold register.
pub const COMMAND_HOLD: u32 = 1 << 29;
/// Command register: starts the command. Reads 0 once the controller has accepted the command.
pub const COMMAND_START: u32 = 1 << 31;

/// Interrupt registers (raw, masked, mask): the response is malformed.
pub const INT_RESPONSE: u32 = 1 << 1;
/// Interrupt: the command has ended.
pub const INT_COMMAND: u32 = 1 << 2;
/// Interrupt: the data transfer has ended.
pub const INT_DATA: u32 = 1 << 3;
/// Interrupt: the FIFO has space for data to the card.
pub const INT_TX: u32 = 1 << 4;
/// Interrupt: the FIFO holds data from the card.
pub const INT_RX: u32 = 1 << 5;
/// Interrupt: the CRC of the response is wrong.
pub const INT_RESPONSE_CRC: u32 = 1 << 6;
/// Interrupt: the CRC of a data block is wrong.
pub const INT_DATA_CRC: u32 = 1 << 7;
/// Interrupt: the card sent no response within the timeout.
pub const INT_NO_RESPONSE: u32 = 1 << 8;
/// Interrupt: the card sent no data within the timeout.
pub const INT_DATA_TIMEOUT: u32 = 1 << 9;
/// Interrupt: memory supplied or accepted data too slowly, and the FIFO stayed empty or full too
/// long.
pub const INT_STARVED: u32 = 1 << 10;
/// Interrupt during CMD11 and the voltage switch: the card pulled the lines low, or released them.
pub const INT_VOLTAGE: u32 = INT_STARVED;
/// Interrupt: the FIFO overran or ran empty.
pub const INT_FIFO: u32 = 1 << 11;
/// Interrupt: the driver wrote a register that a command was using.
pub const INT_LOCKED: u32 = 1 << 12;
/// Interrupt: a start bit is missing. After a write, on DesignWare: the card's busy has ended.
pub const INT_START_BIT: u32 = 1 << 13;
/// Interrupt: the automatic CMD12 has ended.
pub const INT_AUTO_STOP: u32 = 1 << 14;
/// Interrupt: the end bit of a read block, or the CRC status of a written block, is wrong.
pub const INT_END_BIT: u32 = 1 << 15;

/// Status register: the FIFO is empty.
pub const STATUS_EMPTY: u32 = 1 << 2;
/// Status register: the FIFO is full.
pub const STATUS_FULL: u32 = 1 << 3;
/// Status register: the card holds DAT0 low (busy).
pub const STATUS_BUSY: u32 = 1 << 9;
/// Status register: the FIFO requests DMA.
pub const STATUS_DMA_REQUEST: u32 = 1 << 31;

/// Timeout register: the longest response timeout, 255 card clocks (bits 7:0).
pub const TIMEOUT_RESPONSE: u32 = 0xff;
/// Timeout register: lowest bit of the field with the data timeout, in card clocks.
pub const TIMEOUT_DATA_SHIFT: u32 = 8;
/// Timeout register: largest data timeout, in card clocks.
pub const TIMEOUT_DATA_MAX: u32 = 0xff_ffff;

/// Card read threshold register: a read begins only when the FIFO has space for the number of bytes
/// in the register.
pub const READ_ROOM_ON: u32 = 1 << 0;
/// Card read threshold register: lowest bit of the number of bytes.
pub const READ_ROOM_SHIFT: u32 = 16;

/// SMHC's timing register: selects the new timing mode.
pub const TIMING_NEW: u32 = 1 << 31;
/// SMHC's sample delay register: enables the delay in 5:0.
pub const DELAY_ON: u32 = 1 << 7;
/// Number of steps of SMHC's sample delay between two neighbouring taps of the driver's tuning.
pub const DELAY_TAP_STEPS: u32 = 2;
/// Number of taps of SMHC's sample delay that the driver's tuning tries.
pub const DELAY_TAPS: u8 = 32;

/// DesignWare's UHS register: switches the signal lines of slot 0 to 1.8 V.
pub const UHS_18: u32 = 1 << 0;
/// DesignWare's UHS register: slot 0 transfers data on both clock edges (DDR).
pub const UHS_DDR: u32 = 1 << 16;

/// DMA mode register: resets the internal DMA.
pub const DMA_RESET: u32 = 1 << 0;
/// DMA mode register: uses bursts of a fixed length.
pub const DMA_FIXED_BURST: u32 = 1 << 1;
/// DMA mode register: enables the internal DMA.
pub const DMA_ON: u32 = 1 << 7;

/// DMA status and DMA interrupt enable registers: data from the card are in memory.
pub const DMA_RECEIVED: u32 = 1 << 1;
/// DMA status and interrupt enable: the system bus reported an error.
pub const DMA_BUS_ERROR: u32 = 1 << 2;
/// DMA status and interrupt enable: the DMA has stopped at a descriptor that it does not own.
pub const DMA_UNAVAILABLE: u32 = 1 << 4;
/// DMA status and interrupt enable: summary of the normal bits; DesignWare interrupts only by a
/// summary.
pub const DMA_NORMAL: u32 = 1 << 8;
/// DMA status and interrupt enable: summary of the abnormal bits.
pub const DMA_ABNORMAL: u32 = 1 << 9;
/// DMA status register: all bits that writing 1 clears.
pub const DMA_LATCHED: u32 = 0x337;

/// DMA descriptor: its completion raises no interrupt.
pub const DESCRIPTOR_QUIET: u32 = 1 << 1;
/// DMA descriptor: the last descriptor of a transfer.
pub const DESCRIPTOR_LAST: u32 = 1 << 2;
/// DMA descriptor: the first descriptor of a transfer.
pub const DESCRIPTOR_FIRST: u32 = 1 << 3;
/// DMA descriptor: its fourth word is the address of the next descriptor.
pub const DESCRIPTOR_CHAINED: u32 = 1 << 4;
/// DMA descriptor, SMHC only: the end of the descriptor list.
pub const DESCRIPTOR_END: u32 = 1 << 5;
/// DMA descriptor: set while the DMA owns the descriptor, cleared when the descriptor is done.
pub const DESCRIPTOR_OWNED: u32 = 1 << 31;

/// DesignWare's HCON register: lowest bit of the FIFO's data width; 1 stands for 32 bits.
pub const HARDWARE_FIFO_SHIFT: u32 = 7;
/// DesignWare's HCON register: mask of the field with the kind of DMA; 0 is the internal DMA.
pub const HARDWARE_DMA: u32 = 3 << 16;
/// DesignWare's HCON register: descriptors have 64-bit addresses.
pub const HARDWARE_WIDE: u32 = 1 << 27;

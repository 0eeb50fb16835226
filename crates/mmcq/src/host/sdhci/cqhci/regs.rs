//! Registers of the queue engine, from its own offset on, and their bits [eMMC 5.1, B].

/// Version.
pub const VER: u16 = 0x00;
/// Capabilities.
pub const CAP: u16 = 0x04;
/// Configuration.
pub const CFG: u16 = 0x08;
/// Control.
pub const CTL: u16 = 0x0c;
/// Interrupt status; written ones clear.
pub const IS: u16 = 0x10;
/// Enabled bits of the status.
pub const ISTE: u16 = 0x14;
/// Bits of the status that interrupt.
pub const ISGE: u16 = 0x18;
/// Interrupt coalescing.
pub const IC: u16 = 0x1c;
/// Task descriptor list base address, lower half.
pub const TDLBA: u16 = 0x20;
/// Its upper half.
pub const TDLBAU: u16 = 0x24;
/// Doorbells: writing a one rings the task; reads as one until it is done.
pub const TDBR: u16 = 0x28;
/// Task completion notification; written ones clear.
pub const TCN: u16 = 0x2c;
/// The card's last report of ready tasks.
pub const DQS: u16 = 0x30;
/// Tasks that the card knows.
pub const DPT: u16 = 0x34;
/// Task clear.
pub const TCLR: u16 = 0x38;
/// Parameters of the polls for ready tasks.
pub const SSC1: u16 = 0x40;
/// The card's address for these polls.
pub const SSC2: u16 = 0x44;
/// The response of a direct command.
pub const CRDCT: u16 = 0x48;
/// Bits of an R1 that stop the queue.
pub const RMEM: u16 = 0x50;
/// The command and data on the lines when a fault happened.
pub const TERRI: u16 = 0x54;
/// Argument of the last response.
pub const CRA: u16 = 0x5c;

/// VER: the major number.
pub const VER_MAJOR_SHIFT: u32 = 8;
/// CAP: unit of the timer's clock, a power of ten of kHz up to 4.
pub const CAP_UNIT_SHIFT: u32 = 12;
/// CAP: the clock in that unit.
pub const CAP_CLOCK: u32 = 0x3ff;

/// CFG: on.
pub const CFG_ENABLE: u32 = 1;
/// CFG: task descriptors of 128 bits.
pub const CFG_WIDE: u32 = 1 << 8;
/// CFG: slot 31 is that of direct commands.
pub const CFG_DIRECT: u32 = 1 << 12;

/// CTL: halt; reads 1 when halted.
pub const CTL_HALT: u32 = 1;
/// CTL: clear all tasks.
pub const CTL_CLEAR_ALL: u32 = 1 << 8;

/// IS: the halt is complete.
pub const INT_HALT: u32 = 1;
/// IS: tasks are complete.
pub const INT_DONE: u32 = 1 << 1;
/// IS: a response had a bit of RMEM.
pub const INT_RESPONSE: u32 = 1 << 2;
/// IS: tasks are cleared.
pub const INT_CLEARED: u32 = 1 << 3;

/// IC: on.
pub const IC_ENABLE: u32 = 1 << 31;
/// IC: restarts count and time.
pub const IC_RESET: u32 = 1 << 16;
/// IC: the threshold is written.
pub const IC_TASKS_WRITE: u32 = 1 << 15;
/// IC: shift of the threshold.
pub const IC_TASKS_SHIFT: u32 = 8;
/// IC: the timeout is written.
pub const IC_TIME_WRITE: u32 = 1 << 7;
/// IC: the largest timeout.
pub const IC_TIME_MAX: u64 = 0x7f;
/// IC: clocks in a step of the timeout.
pub const IC_TIME_CLOCKS: u64 = 1024;

/// SSC1: shift of the number of blocks left at which the card is polled during data.
pub const SSC1_BLOCKS_SHIFT: u32 = 16;
/// SSC1: longest pause between two polls, in clocks.
pub const SSC1_CLOCKS_MAX: u64 = 0xffff;

/// TERRI: a command was on the line; its index is in 5:0, its task in 12:8.
pub const TERRI_COMMAND: u32 = 1 << 15;
/// TERRI: data were being transferred; index and task are 16 bits above those of the command.
pub const TERRI_DATA: u32 = 1 << 31;

/// The slot of direct commands.
pub const DIRECT_SLOT: u8 = 31;

/// In a descriptor: valid.
pub const VALID: u32 = 1;
/// In a descriptor: the last of its list.
pub const END: u32 = 1 << 1;
/// In a descriptor: its end interrupts at once.
pub const INT: u32 = 1 << 2;
/// Act: transfer data.
pub const ACT_TRANSFER: u32 = 4 << 3;
/// Act: a task.
pub const ACT_TASK: u32 = 5 << 3;
/// Act: a link.
pub const ACT_LINK: u32 = 6 << 3;
/// In a task: card to host.
pub const TASK_READ: u32 = 1 << 12;
/// In a task: shift of the context.
pub const TASK_CONTEXT_SHIFT: u32 = 7;
/// In a task: shift of the blocks, or of a command's index.
pub const TASK_BLOCKS_SHIFT: u32 = 16;
/// In a command: it needs no idle data lines.
pub const COMMAND_BESIDE: u32 = 1 << 22;
/// In a command: a response of 48 bits.
pub const COMMAND_R1: u32 = 2 << 23;
/// In a command: a response of 48 bits and busy.
pub const COMMAND_R1B: u32 = 3 << 23;

/// Normal Interrupt Status of the controller: the engine's [`IS`] has an event [SDHC 4.20].
pub const INT_QUEUE: u32 = 1 << 14;

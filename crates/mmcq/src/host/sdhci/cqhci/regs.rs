//! Registers of the command queue engine and their bits, at offsets from the engine's base
//! [eMMC 5.1, B].

/// CQVER: version of the CQHCI standard that the engine implements.
pub const VER: u16 = 0x00;
/// CQCAP: capabilities, which give the frequency of the engine's timer.
pub const CAP: u16 = 0x04;
/// CQCFG: configuration, which enables the engine.
pub const CFG: u16 = 0x08;
/// CQCTL: control, which halts the engine and clears tasks.
pub const CTL: u16 = 0x0c;
/// CQIS: interrupt status. Writing 1 clears a bit.
pub const IS: u16 = 0x10;
/// CQISTE: which events set their bit in [`IS`].
pub const ISTE: u16 = 0x14;
/// CQISGE: which bits of [`IS`] raise the interrupt line.
pub const ISGE: u16 = 0x18;
/// CQIC: interrupt coalescing, which raises one interrupt for several completed tasks.
pub const IC: u16 = 0x1c;
/// CQTDLBA: base address of the task descriptor list, bits 31:0.
pub const TDLBA: u16 = 0x20;
/// CQTDLBAU: base address of the task descriptor list, bits 63:32.
pub const TDLBAU: u16 = 0x24;
/// CQTDBR: doorbells, one bit for each task. Writing 1 starts the task; the bit reads 1 until the
/// task is done.
pub const TDBR: u16 = 0x28;
/// CQTCN: completed tasks, one bit for each task. Writing 1 clears a bit.
pub const TCN: u16 = 0x2c;
/// CQDQS: the card's last report of ready tasks (queue status register), one bit for each task.
pub const DQS: u16 = 0x30;
/// CQDPT: tasks that were sent to the card and are not done yet, one bit for each task.
pub const DPT: u16 = 0x34;
/// CQTCLR: clears single tasks, one bit for each task.
pub const TCLR: u16 = 0x38;
/// CQSSC1: when the engine asks the card for ready tasks (CMD13).
pub const SSC1: u16 = 0x40;
/// CQSSC2: the RCA in the CMD13 by which the engine asks the card for ready tasks.
pub const SSC2: u16 = 0x44;
/// CQCRDCT: response of the last direct command.
pub const CRDCT: u16 = 0x48;
/// CQRMEM: mask of the bits in an R1 that stop the queue.
pub const RMEM: u16 = 0x50;
/// CQTERRI: index and task of the command and of the data that were on the bus when an error
/// happened.
pub const TERRI: u16 = 0x54;
/// CQCRA: argument of the last response.
pub const CRA: u16 = 0x5c;

/// Lowest bit of the field of [`VER`] with the major version number.
pub const VER_MAJOR_SHIFT: u32 = 8;
/// Lowest bit of the field of [`CAP`] with the unit of the timer's frequency: 10^n kHz, n up to 4.
pub const CAP_UNIT_SHIFT: u32 = 12;
/// Mask of the field of [`CAP`] with the timer's frequency, in the unit at [`CAP_UNIT_SHIFT`].
pub const CAP_CLOCK: u32 = 0x3ff;

/// [`CFG`]: enables the command queue engine.
pub const CFG_ENABLE: u32 = 1;
/// [`CFG`]: task descriptors have 128 bits instead of 64.
pub const CFG_WIDE: u32 = 1 << 8;
/// [`CFG`]: slot 31 carries direct commands instead of a task.
pub const CFG_DIRECT: u32 = 1 << 12;

/// [`CTL`]: halts the engine; the bit reads 1 once the engine is halted.
pub const CTL_HALT: u32 = 1;
/// [`CTL`]: clears all tasks; the engine must be halted.
pub const CTL_CLEAR_ALL: u32 = 1 << 8;

/// [`IS`]: the engine is halted.
pub const INT_HALT: u32 = 1;
/// [`IS`]: at least one task is complete.
pub const INT_DONE: u32 = 1 << 1;
/// [`IS`]: a response had a bit of [`RMEM`] set.
pub const INT_RESPONSE: u32 = 1 << 2;
/// [`IS`]: the tasks of a clear request are cleared.
pub const INT_CLEARED: u32 = 1 << 3;

/// [`IC`]: enables interrupt coalescing.
pub const IC_ENABLE: u32 = 1 << 31;
/// [`IC`]: restarts interrupt coalescing: the count of completed tasks and the timer begin again.
pub const IC_RESET: u32 = 1 << 16;
/// [`IC`]: write enable for the threshold in 12:8.
pub const IC_TASKS_WRITE: u32 = 1 << 15;
/// [`IC`]: lowest bit of the threshold, the number of completed tasks that raises the interrupt.
pub const IC_TASKS_SHIFT: u32 = 8;
/// [`IC`]: write enable for the timeout in 6:0.
pub const IC_TIME_WRITE: u32 = 1 << 7;
/// [`IC`]: largest timeout, in steps of [`IC_TIME_CLOCKS`].
pub const IC_TIME_MAX: u64 = 0x7f;
/// [`IC`]: clocks of the engine's timer in one step of the timeout.
pub const IC_TIME_CLOCKS: u64 = 1024;

/// [`SSC1`]: lowest bit of the field that says how many blocks before the end of data the engine
/// asks the card for ready tasks.
pub const SSC1_BLOCKS_SHIFT: u32 = 16;
/// [`SSC1`]: largest time between two CMD13, in clocks of the engine's timer.
pub const SSC1_CLOCKS_MAX: u64 = 0xffff;

/// [`TERRI`]: the fields of the command are valid: its index in 5:0, its task in 12:8.
pub const TERRI_COMMAND: u32 = 1 << 15;
/// [`TERRI`]: the fields of the data are valid: the command's index in 21:16, its task in 28:24.
pub const TERRI_DATA: u32 = 1 << 31;

/// Slot that carries direct commands while [`CFG_DIRECT`] is set.
pub const DIRECT_SLOT: u8 = 31;

/// Valid bit of a task or transfer descriptor.
pub const VALID: u32 = 1;
/// End bit of a descriptor: the last descriptor of its list.
pub const END: u32 = 1 << 1;
/// Int bit of a task descriptor: the end of the task raises an interrupt at once, without
/// coalescing.
pub const INT: u32 = 1 << 2;
/// Act field: a transfer descriptor, which points to data in memory.
pub const ACT_TRANSFER: u32 = 4 << 3;
/// Act field: a task descriptor.
pub const ACT_TASK: u32 = 5 << 3;
/// Act field: a link descriptor, which points to more transfer descriptors.
pub const ACT_LINK: u32 = 6 << 3;
/// Task descriptor: the data go from the card to the host.
pub const TASK_READ: u32 = 1 << 12;
/// Task descriptor: lowest bit of the context ID.
pub const TASK_CONTEXT_SHIFT: u32 = 7;
/// Lowest bit of the block count in a task descriptor, and of the command's index in the descriptor
/// of a direct command.
pub const TASK_BLOCKS_SHIFT: u32 = 16;
/// Descriptor of a direct command: the engine may send the command while the data lines are in use.
pub const COMMAND_BESIDE: u32 = 1 << 22;
/// Descriptor of a direct command: a response of 48 bits.
pub const COMMAND_R1: u32 = 2 << 23;
/// Descriptor of a direct command: a response of 48 bits, followed by busy (R1b).
pub const COMMAND_R1B: u32 = 3 << 23;

/// Normal Interrupt Status of the SD host controller: [`IS`] of the command queue engine has an
/// event [SDHC 4.20].
pub const INT_QUEUE: u32 = 1 << 14;

//! Registers of the command queue engine (CQHCI) by their offset from its first register, and their
//! bits [eMMC 5.1, B].

pub const VER: u16 = 0x00;
pub const CAP: u16 = 0x04;
pub const CFG: u16 = 0x08;
pub const CTL: u16 = 0x0c;
pub const IS: u16 = 0x10;
pub const ISTE: u16 = 0x14;
pub const ISGE: u16 = 0x18;
pub const IC: u16 = 0x1c;
pub const TDLBA: u16 = 0x20;
pub const TDLBAU: u16 = 0x24;
pub const TDBR: u16 = 0x28;
pub const TCN: u16 = 0x2c;
pub const DQS: u16 = 0x30;
pub const DPT: u16 = 0x34;
pub const TCLR: u16 = 0x38;
pub const SSC1: u16 = 0x40;
pub const SSC2: u16 = 0x44;
pub const CRDCT: u16 = 0x48;
pub const RMEM: u16 = 0x50;
pub const TERRI: u16 = 0x54;
pub const CRI: u16 = 0x58;
pub const CRA: u16 = 0x5c;

/// Value of the version register CQVER: version 5.10.
pub const VERSION: u32 = 0x0510;
/// Reset value of the send status configuration register (SSC1): the engine polls the card's queue
/// status at one block before the end of a task's data, and otherwise every 4096 clocks.
pub const SSC1_RESET: u32 = 0x0001_1000;
/// Reset value of the response mode error mask (RMEM): the error bits of R1, but neither
/// EXCEPTION_EVENT nor CARD_IS_LOCKED.
pub const RMEM_RESET: u32 = 0xfdf9_a080;

/// Bits of the configuration register CQCFG.
pub mod cfg {
    pub const ENABLE: u32 = 1;
    /// Bit of CQCFG: makes task descriptors 128 bits long, not 64.
    pub const WIDE: u32 = 1 << 8;
    /// Bit of CQCFG: reserves slot 31 for direct commands.
    pub const DIRECT: u32 = 1 << 12;
    /// All bits of CQCFG that exist.
    pub const ALL: u32 = ENABLE | WIDE | DIRECT;
}

/// Bits of the control register CQCTL.
pub mod ctl {
    pub const HALT: u32 = 1;
    pub const CLEAR_ALL: u32 = 1 << 8;
}

/// Interrupt bits, in the registers CQIS (status), CQISTE (status enable) and CQISGE (signal
/// enable).
pub mod int {
    /// Halt Complete: the engine has halted.
    pub const HAC: u32 = 1;
    /// Task Complete: the number of completed tasks that causes an interrupt is reached.
    pub const TCC: u32 = 1 << 1;
    /// Response Error Detected: a response had an error bit that the mask RMEM selects.
    pub const RED: u32 = 1 << 2;
    /// Task Cleared: the engine has dropped the tasks that the driver cleared.
    pub const TCL: u32 = 1 << 3;
    /// All interrupt bits of the engine that exist.
    pub const ALL: u32 = 0x3f;
}

/// Bits of the interrupt coalescing register CQIC.
pub mod ic {
    pub const ENABLE: u32 = 1 << 31;
    /// Read-only bit of CQIC: the engine has counted completed tasks that no interrupt has reported
    /// yet.
    pub const COUNTED: u32 = 1 << 20;
    pub const RESET: u32 = 1 << 16;
    pub const THRESHOLD_WRITE: u32 = 1 << 15;
    pub const THRESHOLD: u32 = 0x1f << 8;
    pub const TIMEOUT_WRITE: u32 = 1 << 7;
    pub const TIMEOUT: u32 = 0x7f;
}

/// Bits of the task error register CQTERRI.
pub mod terri {
    pub const RESPONSE_VALID: u32 = 1 << 15;
    pub const DATA_VALID: u32 = 1 << 31;
}

/// Number of the slot for direct commands.
pub const DIRECT_SLOT: u8 = 31;

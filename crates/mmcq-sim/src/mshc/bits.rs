//! Register bits of the mobile storage host. They are the same in both register layouts, except for
//! those of clock and width.

pub(super) mod ctrl {
    pub const RESET: u32 = 1 << 0;
    pub const FIFO_RESET: u32 = 1 << 1;
    pub const DMA_RESET: u32 = 1 << 2;
    pub const RESETS: u32 = RESET | FIFO_RESET | DMA_RESET;
    pub const INTERRUPTS: u32 = 1 << 4;
    pub const DMA: u32 = 1 << 5;
    /// Bit of the control register: double data rate, data on both clock edges (only SMHC).
    pub const DDR: u32 = 1 << 10;
    /// Bit of the control register: enables the internal DMA (only DesignWare).
    pub const INTERNAL_DMA: u32 = 1 << 25;
    /// Bit of the control register: gives the FIFO to the CPU instead of the DMA (only SMHC).
    pub const BY_CPU: u32 = 1 << 31;
    /// Reserved bit of the control register, which must be 0 (SMHC).
    pub const RESERVED_30: u32 = 1 << 30;
}

/// Bit of the new timing set register (NTSR): selects the new timing mode (only SMHC).
pub(super) const NEW_TIMING: u32 = 1 << 31;

/// Bits of the sample delay register (SAMP_DL, only SMHC): the sampling delay in steps, and whether
/// software sets it.
pub(super) mod delay {
    pub const STEPS: u32 = 0x3f;
    pub const BY_SOFTWARE: u32 = 1 << 7;
}

/// Bits of the card threshold register (CDTHRCTL of DesignWare, THLDC of SMHC): a read block starts
/// only if the FIFO has room for this number of bytes.
pub(super) mod read_room {
    pub const ON: u32 = 1 << 0;
    pub const BYTES_SHIFT: u32 = 16;
}

/// Bits of SMHC's clock control register (CKCR). DesignWare's clock enable register (CLKENA) has
/// the enable and low power bits 16 places lower.
pub(super) mod clock {
    pub const DIVIDER: u32 = 0xff;
    pub const ENABLE: u32 = 1 << 16;
    pub const LOW_POWER: u32 = 1 << 17;
}

pub(super) mod cmd {
    pub const INDEX: u32 = 0x3f;
    pub const RESPONSE: u32 = 1 << 6;
    pub const LONG: u32 = 1 << 7;
    pub const CHECK_CRC: u32 = 1 << 8;
    pub const DATA: u32 = 1 << 9;
    pub const WRITE: u32 = 1 << 10;
    pub const STREAM: u32 = 1 << 11;
    pub const AUTO_STOP: u32 = 1 << 12;
    pub const WAIT_DATA: u32 = 1 << 13;
    pub const STOP: u32 = 1 << 14;
    pub const INITIALIZE: u32 = 1 << 15;
    pub const UPDATE_CLOCK: u32 = 1 << 21;
    /// Bits of the command register for CE-ATA and boot, which the model does not support.
    pub const ELSE: u32 = 0xf << 22 | 1 << 26 | 1 << 27;
    pub const VOLTAGE: u32 = 1 << 28;
    pub const START: u32 = 1 << 31;
}

pub(super) mod int {
    /// Interrupt bit: a card was inserted or removed (only DesignWare).
    pub const DETECT: u32 = 1 << 0;
    pub const RESPONSE_ERROR: u32 = 1 << 1;
    pub const COMMAND_DONE: u32 = 1 << 2;
    pub const DATA_OVER: u32 = 1 << 3;
    pub const TX_REQUEST: u32 = 1 << 4;
    pub const RX_REQUEST: u32 = 1 << 5;
    pub const RESPONSE_CRC: u32 = 1 << 6;
    pub const DATA_CRC: u32 = 1 << 7;
    pub const RESPONSE_TIMEOUT: u32 = 1 << 8;
    pub const DATA_TIMEOUT: u32 = 1 << 9;
    /// Interrupt bit: the CPU or the DMA filled or emptied the FIFO too late. After CMD11: the
    /// lines have changed their state.
    pub const STARVED: u32 = 1 << 10;
    pub const LOCKED: u32 = 1 << 12;
    /// Interrupt bit: the busy after the last block of a write has ended.
    pub const BUSY_CLEAR: u32 = 1 << 13;
    pub const AUTO_DONE: u32 = 1 << 14;
    pub const END_BIT: u32 = 1 << 15;
    pub const SDIO: u32 = 1 << 16;
    /// Interrupt bit: a card was inserted (only SMHC).
    pub const CAME: u32 = 1 << 30;
    /// Interrupt bit: a card was removed (only SMHC).
    pub const WENT: u32 = 1 << 31;
}

pub(super) mod status {
    pub const RX_MARK: u32 = 1 << 0;
    pub const TX_MARK: u32 = 1 << 1;
    pub const EMPTY: u32 = 1 << 2;
    pub const FULL: u32 = 1 << 3;
    /// Bit of the status register: shows that DAT3 is high.
    pub const DAT3: u32 = 1 << 8;
    pub const BUSY: u32 = 1 << 9;
    pub const DATA_BUSY: u32 = 1 << 10;
    pub const INDEX_SHIFT: u32 = 11;
    pub const COUNT_SHIFT: u32 = 17;
}

/// Bits of the internal DMA's mode register.
pub(super) mod mode {
    pub const RESET: u32 = 1 << 0;
    pub const SKIP_SHIFT: u32 = 2;
    pub const ON: u32 = 1 << 7;
}

/// Bits of the internal DMA's status register.
pub(super) mod dma {
    pub const SENT: u32 = 1 << 0;
    pub const RECEIVED: u32 = 1 << 1;
    pub const BUS_ERROR: u32 = 1 << 2;
    pub const UNAVAILABLE: u32 = 1 << 4;
    pub const CARD_ERROR: u32 = 1 << 5;
    pub const NORMAL: u32 = 1 << 8;
    pub const ABNORMAL: u32 = 1 << 9;
    pub const ALL: u32 = 0x337;
    /// Shift of the read-only field of the internal DMA's status register that shows what the DMA
    /// does.
    pub const STATE_SHIFT: u32 = 13;
}

/// Bits of a DMA descriptor's first word.
pub(super) mod des {
    pub const NO_INTERRUPT: u32 = 1 << 1;
    pub const LAST: u32 = 1 << 2;
    pub const FIRST: u32 = 1 << 3;
    pub const CHAINED: u32 = 1 << 4;
    pub const END_OF_RING: u32 = 1 << 5;
    pub const ERROR: u32 = 1 << 30;
    pub const OWN: u32 = 1 << 31;
}

//! Bits of the registers. They are the same in both layouts, except for the clock and the width.

pub(super) mod ctrl {
    pub const RESET: u32 = 1 << 0;
    pub const FIFO_RESET: u32 = 1 << 1;
    pub const DMA_RESET: u32 = 1 << 2;
    pub const RESETS: u32 = RESET | FIFO_RESET | DMA_RESET;
    pub const INTERRUPTS: u32 = 1 << 4;
    pub const DMA: u32 = 1 << 5;
    /// SMHC.
    pub const DDR: u32 = 1 << 10;
    /// DesignWare.
    pub const INTERNAL_DMA: u32 = 1 << 25;
    /// SMHC: the CPU accesses the FIFO.
    pub const BY_CPU: u32 = 1 << 31;
    /// SMHC: must be 0.
    pub const RESERVED_30: u32 = 1 << 30;
}

/// Bits of SMHC's NTSR.
pub(super) const NEW_TIMING: u32 = 1 << 31;

/// Bits of SMHC's SAMP_DL: the delay in steps, if software sets it.
pub(super) mod delay {
    pub const STEPS: u32 = 0x3f;
    pub const BY_SOFTWARE: u32 = 1 << 7;
}

/// Bits of CDTHRCTL and SMHC's THLDC: a read begins when there is room for this number of bytes.
pub(super) mod read_room {
    pub const ON: u32 = 1 << 0;
    pub const BYTES_SHIFT: u32 = 16;
}

/// Bits of SMHC's CKCR; DesignWare's CLKENA has the same shifted down by 16.
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
    /// CE-ATA and boot: not modelled.
    pub const ELSE: u32 = 0xf << 22 | 1 << 26 | 1 << 27;
    pub const VOLTAGE: u32 = 1 << 28;
    pub const START: u32 = 1 << 31;
}

pub(super) mod int {
    /// DesignWare: a card was inserted or removed.
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
    /// Neither CPU nor DMA served the FIFO in time; or the line state after CMD11.
    pub const STARVED: u32 = 1 << 10;
    pub const LOCKED: u32 = 1 << 12;
    /// The busy after the last block of a write is over.
    pub const BUSY_CLEAR: u32 = 1 << 13;
    pub const AUTO_DONE: u32 = 1 << 14;
    pub const END_BIT: u32 = 1 << 15;
    pub const SDIO: u32 = 1 << 16;
    /// SMHC: card inserted, card removed.
    pub const CAME: u32 = 1 << 30;
    pub const WENT: u32 = 1 << 31;
}

pub(super) mod status {
    pub const RX_MARK: u32 = 1 << 0;
    pub const TX_MARK: u32 = 1 << 1;
    pub const EMPTY: u32 = 1 << 2;
    pub const FULL: u32 = 1 << 3;
    /// DAT3 is high.
    pub const DAT3: u32 = 1 << 8;
    pub const BUSY: u32 = 1 << 9;
    pub const DATA_BUSY: u32 = 1 << 10;
    pub const INDEX_SHIFT: u32 = 11;
    pub const COUNT_SHIFT: u32 = 17;
}

/// Mode of the internal DMA.
pub(super) mod mode {
    pub const RESET: u32 = 1 << 0;
    pub const SKIP_SHIFT: u32 = 2;
    pub const ON: u32 = 1 << 7;
}

/// Status of the internal DMA.
pub(super) mod dma {
    pub const SENT: u32 = 1 << 0;
    pub const RECEIVED: u32 = 1 << 1;
    pub const BUS_ERROR: u32 = 1 << 2;
    pub const UNAVAILABLE: u32 = 1 << 4;
    pub const CARD_ERROR: u32 = 1 << 5;
    pub const NORMAL: u32 = 1 << 8;
    pub const ABNORMAL: u32 = 1 << 9;
    pub const ALL: u32 = 0x337;
    /// Shift of what the DMA is doing, which is only read.
    pub const STATE_SHIFT: u32 = 13;
}

/// The first word of a descriptor.
pub(super) mod des {
    pub const NO_INTERRUPT: u32 = 1 << 1;
    pub const LAST: u32 = 1 << 2;
    pub const FIRST: u32 = 1 << 3;
    pub const CHAINED: u32 = 1 << 4;
    pub const END_OF_RING: u32 = 1 << 5;
    pub const ERROR: u32 = 1 << 30;
    pub const OWN: u32 = 1 << 31;
}

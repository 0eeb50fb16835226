//! Register offsets and bits of the SDI, the SD controller of Samsung's S3C2440.

/// Register offsets.
pub(super) mod reg {
    pub const CON: u16 = 0x00;
    pub const PRE: u16 = 0x04;
    pub const CMD_ARG: u16 = 0x08;
    pub const CMD_CON: u16 = 0x0c;
    pub const CMD_STA: u16 = 0x10;
    pub const RSP0: u16 = 0x14;
    pub const RSP3: u16 = 0x20;
    pub const TIMER: u16 = 0x24;
    pub const BSIZE: u16 = 0x28;
    pub const DCON: u16 = 0x2c;
    pub const DCNT: u16 = 0x30;
    pub const DSTA: u16 = 0x34;
    pub const FSTA: u16 = 0x38;
    pub const IMSK: u16 = 0x3c;
    pub const DATA: u16 = 0x40;
    /// GPIO of the board: bit 0 is the level of DAT1.
    pub const GPIO: u16 = 0x100;
    /// DMA of the board: bus address of the data.
    pub const DMA_ADDRESS: u16 = 0x110;
    /// DMA of the board: number of bytes, with the direction in bit 31.
    pub const DMA_LENGTH: u16 = 0x114;
    /// DMA of the board: writing 1 starts it, writing 0 stops it; it reads as 1 while the DMA is at
    /// work.
    pub const DMA_START: u16 = 0x118;
}

pub(super) mod con {
    pub const CLOCK: u32 = 1 << 0;
    pub const SDIO_IRQ: u32 = 1 << 3;
    pub const RESET: u32 = 1 << 8;
    /// Bits of the control register that read as they were written.
    pub const KEPT: u32 = 0x3f;
}

pub(super) mod cmd_con {
    pub const INDEX: u32 = 0x3f;
    pub const FROM_HOST: u32 = 1 << 6;
    pub const ZERO: u32 = 1 << 7;
    pub const START: u32 = 1 << 8;
    pub const WAIT_RESPONSE: u32 = 1 << 9;
    pub const LONG: u32 = 1 << 10;
}

pub(super) mod cmd_sta {
    pub const ON: u32 = 1 << 8;
    pub const RESPONSE: u32 = 1 << 9;
    pub const TIMEOUT: u32 = 1 << 10;
    pub const SENT: u32 = 1 << 11;
    pub const CRC: u32 = 1 << 12;
    pub const LATCHED: u32 = RESPONSE | TIMEOUT | SENT | CRC;
}

pub(super) mod dcon {
    pub const BLOCKS: u32 = 0xfff;
    pub const MODE_SHIFT: u32 = 12;
    pub const START: u32 = 1 << 14;
    pub const DMA: u32 = 1 << 15;
    pub const WIDE: u32 = 1 << 16;
    pub const BLOCK_MODE: u32 = 1 << 17;
    pub const RX_AFTER_COMMAND: u32 = 1 << 19;
    pub const TX_AFTER_RESPONSE: u32 = 1 << 20;
    pub const SIZE: u32 = 3 << 22;
    /// Data control register (DCON): the data size is a word of 4 bytes.
    pub const WORDS: u32 = 2 << 22;
}

pub(super) mod dsta {
    pub const RX_ON: u32 = 1 << 0;
    pub const TX_ON: u32 = 1 << 1;
    pub const FINISH: u32 = 1 << 4;
    pub const TIMEOUT: u32 = 1 << 5;
    /// Data status register (DSTA): the card reported a CRC error in a written block.
    pub const CRC_STATUS: u32 = 1 << 6;
    /// Data status register (DSTA): a read block had a wrong CRC16.
    pub const DATA_CRC: u32 = 1 << 7;
    pub const SDIO_IRQ: u32 = 1 << 9;
    pub const LATCHED: u32 = 0x3f8;
}

pub(super) mod fsta {
    pub const COUNT: u32 = 0x7f;
    pub const RX_HALF: u32 = 1 << 7;
    pub const RX_FULL: u32 = 1 << 8;
    pub const RX_LAST: u32 = 1 << 9;
    pub const TX_EMPTY: u32 = 1 << 10;
    pub const TX_HALF: u32 = 1 << 11;
    /// FIFO status register (FSTA): the FIFO holds data to read.
    pub const RX_DETECT: u32 = 1 << 12;
    /// FIFO status register (FSTA): the FIFO has room for writes.
    pub const TX_DETECT: u32 = 1 << 13;
    pub const FAIL: u32 = 1 << 14;
    pub const FAIL_BITS: u32 = 3 << 14;
    pub const RESET: u32 = 1 << 16;
}

/// Interrupt events, with the bit numbers of the mask register IMSK.
pub(super) mod event {
    pub const RX_HALF: u32 = 1 << 0;
    pub const RX_LAST: u32 = 1 << 2;
    pub const TX_HALF: u32 = 1 << 4;
    pub const FINISH: u32 = 1 << 7;
    pub const DATA_TIMEOUT: u32 = 1 << 8;
    pub const DATA_CRC: u32 = 1 << 9;
    pub const CRC_STATUS: u32 = 1 << 10;
    pub const FIFO_FAIL: u32 = 1 << 11;
    pub const SDIO_IRQ: u32 = 1 << 12;
    pub const RESPONSE: u32 = 1 << 14;
    pub const TIMEOUT: u32 = 1 << 15;
    pub const SENT: u32 = 1 << 16;
    pub const RESPONSE_CRC: u32 = 1 << 17;
    pub const ALL: u32 = 0x3_ffff;
}

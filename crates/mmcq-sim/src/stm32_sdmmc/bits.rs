//! Register offsets and bits of ST's SDMMC [RM0399 58.10].

/// Register offsets.
pub(super) mod reg {
    pub const POWER: u16 = 0x00;
    pub const CLKCR: u16 = 0x04;
    pub const ARG: u16 = 0x08;
    pub const CMD: u16 = 0x0c;
    pub const RESPCMD: u16 = 0x10;
    pub const RESP1: u16 = 0x14;
    pub const RESP4: u16 = 0x20;
    pub const DTIMER: u16 = 0x24;
    pub const DLEN: u16 = 0x28;
    pub const DCTRL: u16 = 0x2c;
    pub const DCOUNT: u16 = 0x30;
    pub const STA: u16 = 0x34;
    pub const ICR: u16 = 0x38;
    pub const MASK: u16 = 0x3c;
    pub const ACKTIME: u16 = 0x40;
    /// FIFO threshold register; only version 3 has it.
    pub const FIFOTHR: u16 = 0x44;
    pub const IDMACTRL: u16 = 0x50;
    pub const IDMABSIZE: u16 = 0x54;
    pub const IDMABASE0: u16 = 0x58;
    /// Register with the address of the second buffer; only an IDMA with two buffers has it.
    pub const IDMABASE1: u16 = 0x5c;
    /// Link address register; only an IDMA with a linked list has it.
    pub const IDMALAR: u16 = 0x64;
    pub const IDMABAR: u16 = 0x68;
    /// Offset of the first of sixteen words that all access the same FIFO.
    pub const FIFO: u16 = 0x80;
    /// Offset of the last of the sixteen words that access the FIFO.
    pub const FIFO_LAST: u16 = 0xbc;
}

pub(super) mod power {
    pub const STATE: u32 = 3;
    pub const OFF: u32 = 0;
    pub const CYCLE: u32 = 2;
    pub const ON: u32 = 3;
    pub const VSWITCH: u32 = 1 << 2;
    pub const VSWITCHEN: u32 = 1 << 3;
    pub const DIRPOL: u32 = 1 << 4;
}

pub(super) mod clkcr {
    pub const DIVIDER: u32 = 0x3ff;
    pub const POWER_SAVE: u32 = 1 << 12;
    pub const WIDTH_SHIFT: u32 = 14;
    pub const FLOW_CONTROL: u32 = 1 << 17;
    pub const DDR: u32 = 1 << 18;
    pub const BUS_SPEED: u32 = 1 << 19;
    pub const RECEIVE_SHIFT: u32 = 20;
    /// Value of the receive clock selection in the clock control register (CLKCR): the clock from
    /// the delay block.
    pub const RECEIVE_TUNED: u32 = 2;
    pub const ALL: u32 = 0x3f_d3ff;
}

pub(super) mod cmd {
    pub const INDEX: u32 = 0x3f;
    pub const TRANS: u32 = 1 << 6;
    pub const STOP: u32 = 1 << 7;
    pub const RESPONSE_SHIFT: u32 = 8;
    pub const ENABLE: u32 = 1 << 12;
    pub const HOLD: u32 = 1 << 13;
    /// Bits of the command register that the model does not support: wait for an interrupt, wait
    /// for the end of a stream, boot, suspend.
    pub const ELSE: u32 = 1 << 10 | 1 << 11 | 1 << 14 | 1 << 15 | 1 << 16;
    pub const ALL: u32 = 0x1_ffff;
}

pub(super) mod dctrl {
    pub const ENABLE: u32 = 1 << 0;
    pub const READ: u32 = 1 << 1;
    pub const MODE_SHIFT: u32 = 2;
    /// Data mode: one block of any length from 1 to 512 bytes (SDIO multibyte).
    pub const MODE_BYTES: u32 = 1;
    pub const MODE_STREAM: u32 = 2;
    /// Data mode: blocks, which a CMD12 ends.
    pub const MODE_STOPPED: u32 = 3;
    pub const BLOCK_SHIFT: u32 = 4;
    pub const WAIT_START: u32 = 1 << 8;
    pub const WAIT_STOP: u32 = 1 << 9;
    pub const WAIT_MODE: u32 = 1 << 10;
    pub const SDIO: u32 = 1 << 11;
    pub const BOOT_ACK: u32 = 1 << 12;
    pub const FIFO_RESET: u32 = 1 << 13;
    /// Bits of the data control register (DCTRL) that the driver may change only while no data are
    /// active.
    pub const FIXED: u32 = 0xff | WAIT_MODE | SDIO | BOOT_ACK;
}

pub(super) mod sta {
    pub const COMMAND_CRC: u32 = 1 << 0;
    pub const DATA_CRC: u32 = 1 << 1;
    pub const COMMAND_TIMEOUT: u32 = 1 << 2;
    pub const DATA_TIMEOUT: u32 = 1 << 3;
    pub const UNDERRUN: u32 = 1 << 4;
    pub const OVERRUN: u32 = 1 << 5;
    pub const RESPONSE: u32 = 1 << 6;
    pub const SENT: u32 = 1 << 7;
    pub const DATA_END: u32 = 1 << 8;
    pub const HOLD: u32 = 1 << 9;
    pub const BLOCK_END: u32 = 1 << 10;
    pub const ABORTED: u32 = 1 << 11;
    pub const DATA_ACTIVE: u32 = 1 << 12;
    pub const COMMAND_ACTIVE: u32 = 1 << 13;
    pub const TX_HALF_EMPTY: u32 = 1 << 14;
    pub const RX_HALF_FULL: u32 = 1 << 15;
    pub const TX_FULL: u32 = 1 << 16;
    pub const RX_FULL: u32 = 1 << 17;
    pub const TX_EMPTY: u32 = 1 << 18;
    pub const RX_EMPTY: u32 = 1 << 19;
    pub const BUSY: u32 = 1 << 20;
    pub const BUSY_END: u32 = 1 << 21;
    pub const SDIO: u32 = 1 << 22;
    pub const SWITCH_END: u32 = 1 << 25;
    pub const CLOCK_STOPPED: u32 = 1 << 26;
    pub const IDMA_ERROR: u32 = 1 << 27;
    pub const IDMA_BUFFER: u32 = 1 << 28;
    /// Bits of the status register that stay set until the driver clears them by the interrupt
    /// clear register (ICR).
    pub const LATCHED: u32 = 0x1fe0_0fff;
    /// Bits of the status register that can interrupt: all but the activity of the two paths and
    /// the transfer error of the IDMA.
    pub const MASKABLE: u32 = 0x17e6_cfff;
}

pub(super) mod idma {
    pub const ENABLE: u32 = 1 << 0;
    /// Bit of the IDMA control register (IDMACTRL): selects the second mode of the IDMA: two
    /// buffers, or a linked list.
    pub const MODE: u32 = 1 << 1;
    /// Bit of the IDMA control register (IDMACTRL): shows that the second of two buffers is in use.
    pub const SECOND: u32 = 1 << 2;
    /// Link address register: offset of the next item from the base address of the list (IDMABAR).
    pub const OFFSET: u32 = 0xfffc;
    /// Link address register: the buffer of this item is ready.
    pub const READY: u32 = 1 << 29;
    /// Link address register: the next item also has a size.
    pub const NEW_SIZE: u32 = 1 << 30;
    /// Link address register: there is a next item.
    pub const MORE: u32 = 1 << 31;
}

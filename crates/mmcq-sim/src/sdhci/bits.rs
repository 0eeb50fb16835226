//! Bits of the registers, by their offset [SDHC 2].

/// Normal and error interrupts, in registers 30h, 34h and 38h taken as 32 bits.
pub mod int {
    /// A response came.
    pub const COMMAND_COMPLETE: u32 = 1;
    /// A transfer, or the busy after a command, is over.
    pub const TRANSFER_COMPLETE: u32 = 1 << 1;
    /// A transfer stopped at a block gap.
    pub const BLOCK_GAP: u32 = 1 << 2;
    /// SDMA is at a boundary, or ADMA at a descriptor with the Int attribute.
    pub const DMA: u32 = 1 << 3;
    /// The buffer takes a block.
    pub const BUFFER_WRITE_READY: u32 = 1 << 4;
    /// The buffer holds a block.
    pub const BUFFER_READ_READY: u32 = 1 << 5;
    /// A card was inserted.
    pub const INSERTION: u32 = 1 << 6;
    /// The card was removed.
    pub const REMOVAL: u32 = 1 << 7;
    /// A function of the card asserts its interrupt.
    pub const CARD: u32 = 1 << 8;
    /// The command queue engine interrupts; a level.
    pub const QUEUE: u32 = 1 << 14;
    /// Any error bit; read-only.
    pub const ERROR: u32 = 1 << 15;
    /// No response within 64 clocks.
    pub const COMMAND_TIMEOUT: u32 = 1 << 16;
    /// Wrong CRC7 of a response.
    pub const COMMAND_CRC: u32 = 1 << 17;
    /// Wrong end bit of a response.
    pub const COMMAND_END_BIT: u32 = 1 << 18;
    /// Wrong index in a response.
    pub const COMMAND_INDEX: u32 = 1 << 19;
    /// No data, no CRC status or no end of busy in time.
    pub const DATA_TIMEOUT: u32 = 1 << 20;
    /// Wrong CRC16 of a block, or a CRC status other than 010.
    pub const DATA_CRC: u32 = 1 << 21;
    /// Wrong end bit of a block.
    pub const DATA_END_BIT: u32 = 1 << 22;
    /// Error of an automatic command; details in register 3Ch.
    pub const AUTO_COMMAND: u32 = 1 << 24;
    /// Error of ADMA; details in register 54h.
    pub const ADMA: u32 = 1 << 25;
    /// R1 or R5 had error bits.
    pub const RESPONSE: u32 = 1 << 27;
    /// All error bits of a response.
    pub const ERRORS_OF_COMMAND: u32 =
        COMMAND_TIMEOUT | COMMAND_CRC | COMMAND_END_BIT | COMMAND_INDEX | RESPONSE;
    /// Every error bit.
    pub const ERRORS: u32 = 0xffff_0000;
    /// Bits of 30h that exist.
    pub const NORMAL: u32 = 0x71ff;
}

/// Bits of the transfer mode, register 0Ch.
pub mod mode {
    /// DMA.
    pub const DMA: u16 = 1;
    /// The block count is used.
    pub const BLOCK_COUNT: u16 = 1 << 1;
    /// From card to host.
    pub const READ: u16 = 1 << 4;
    /// More than one block.
    pub const MULTI: u16 = 1 << 5;
    /// The controller checks an R5 for errors, not an R1.
    pub const R5: u16 = 1 << 6;
    /// The controller checks the response for errors.
    pub const RESPONSE_CHECK: u16 = 1 << 7;
    /// No Command Complete is raised.
    pub const NO_COMMAND_COMPLETE: u16 = 1 << 8;
}

/// Present state, 24h.
pub mod present {
    pub const CMD_INHIBIT: u32 = 1;
    pub const DAT_INHIBIT: u32 = 1 << 1;
    pub const DAT_ACTIVE: u32 = 1 << 2;
    pub const WRITE_ACTIVE: u32 = 1 << 8;
    pub const READ_ACTIVE: u32 = 1 << 9;
    pub const BUFFER_WRITE: u32 = 1 << 10;
    pub const BUFFER_READ: u32 = 1 << 11;
    pub const INSERTED: u32 = 1 << 16;
    pub const STABLE: u32 = 1 << 17;
    pub const CARD_DETECT: u32 = 1 << 18;
    pub const WRITE_ENABLED: u32 = 1 << 19;
    pub const DAT_LEVELS: u32 = 0xf << 20;
    pub const CMD_LEVEL: u32 = 1 << 24;
    pub const NOT_ISSUED: u32 = 1 << 27;
}

/// Host control 1, 28h.
pub mod host1 {
    pub const FOUR_BITS: u8 = 1 << 1;
    pub const HIGH_SPEED: u8 = 1 << 2;
    pub const EIGHT_BITS: u8 = 1 << 5;
}

/// Clock control, 2Ch.
pub mod clock {
    pub const INTERNAL: u16 = 1;
    pub const STABLE: u16 = 1 << 1;
    pub const CARD: u16 = 1 << 2;
    pub const PLL: u16 = 1 << 3;
    pub const PROGRAMMABLE: u16 = 1 << 5;
}

/// Software reset, 2Fh.
pub mod reset {
    pub const ALL: u8 = 1;
    pub const CMD: u8 = 1 << 1;
    pub const DAT: u8 = 1 << 2;
}

/// Auto command error status, 3Ch.
pub mod auto {
    pub const TIMEOUT: u16 = 1 << 1;
    pub const CRC: u16 = 1 << 2;
    pub const END_BIT: u16 = 1 << 3;
    pub const INDEX: u16 = 1 << 4;
    pub const RESPONSE: u16 = 1 << 5;
    pub const NOT_ISSUED: u16 = 1 << 7;
}

/// Host control 2, 3Eh.
pub mod host2 {
    pub const UHS_MODE: u16 = 7;
    pub const SIGNAL_18: u16 = 1 << 3;
    pub const EXECUTE_TUNING: u16 = 1 << 6;
    pub const SAMPLING_CLOCK: u16 = 1 << 7;
    pub const LENGTH_26: u16 = 1 << 10;
    pub const CMD23: u16 = 1 << 11;
    pub const VERSION_4: u16 = 1 << 12;
    pub const ADDRESS_64: u16 = 1 << 13;
    pub const PRESET: u16 = 1 << 15;
}

/// Capabilities, 40h.
pub mod cap {
    pub const EIGHT_BITS: u32 = 1 << 18;
    pub const ADMA2: u32 = 1 << 19;
    pub const SDMA: u32 = 1 << 22;
    pub const V33: u32 = 1 << 24;
    pub const V30: u32 = 1 << 25;
    pub const V18: u32 = 1 << 26;
    pub const ADDRESS_64_V4: u32 = 1 << 27;
    pub const ADDRESS_64_V3: u32 = 1 << 28;
}

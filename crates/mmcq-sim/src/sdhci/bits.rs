//! Offsets and bits of the SDHCI registers [SDHC 2].

/// Bits of normal and error interrupts: status 30h, status enable 34h and signal enable 38h, each
/// as 32 bits.
pub mod int {
    /// Command Complete: the response to a command came.
    pub const COMMAND_COMPLETE: u32 = 1;
    /// Transfer Complete: a transfer, or the busy after a command, has ended.
    pub const TRANSFER_COMPLETE: u32 = 1 << 1;
    /// Block Gap Event: a transfer stopped between two blocks.
    pub const BLOCK_GAP: u32 = 1 << 2;
    /// DMA Interrupt: SDMA reached a boundary, or ADMA a descriptor with the attribute Int.
    pub const DMA: u32 = 1 << 3;
    /// Buffer Write Ready: the buffer has room for a block.
    pub const BUFFER_WRITE_READY: u32 = 1 << 4;
    /// Buffer Read Ready: the buffer holds a block.
    pub const BUFFER_READ_READY: u32 = 1 << 5;
    /// Card Insertion: a card was inserted.
    pub const INSERTION: u32 = 1 << 6;
    /// Card Removal: the card was removed.
    pub const REMOVAL: u32 = 1 << 7;
    /// Card Interrupt: a function of the card requests an interrupt on DAT1.
    pub const CARD: u32 = 1 << 8;
    /// Command Queuing Event: the command queue engine interrupts. The bit follows the engine's own
    /// status.
    pub const QUEUE: u32 = 1 << 14;
    /// Error Interrupt: an error bit is set; read-only.
    pub const ERROR: u32 = 1 << 15;
    /// Command Timeout Error: no response came within 64 clocks.
    pub const COMMAND_TIMEOUT: u32 = 1 << 16;
    /// Command CRC Error: the CRC7 of a response is wrong.
    pub const COMMAND_CRC: u32 = 1 << 17;
    /// Command End Bit Error: the end bit of a response is wrong.
    pub const COMMAND_END_BIT: u32 = 1 << 18;
    /// Command Index Error: the index in a response is wrong.
    pub const COMMAND_INDEX: u32 = 1 << 19;
    /// Data Timeout Error: data, CRC status or the end of busy did not come in time.
    pub const DATA_TIMEOUT: u32 = 1 << 20;
    /// Data CRC Error: the CRC16 of a block is wrong, or a CRC status is not 010.
    pub const DATA_CRC: u32 = 1 << 21;
    /// Data End Bit Error: the end bit of a block is wrong.
    pub const DATA_END_BIT: u32 = 1 << 22;
    /// Auto CMD Error: an automatic command failed; register 3Ch has details.
    pub const AUTO_COMMAND: u32 = 1 << 24;
    /// ADMA Error: ADMA failed; register 54h has details.
    pub const ADMA: u32 = 1 << 25;
    /// Response Error: R1 or R5 had error bits.
    pub const RESPONSE: u32 = 1 << 27;
    /// All error interrupt bits that concern a response.
    pub const ERRORS_OF_COMMAND: u32 =
        COMMAND_TIMEOUT | COMMAND_CRC | COMMAND_END_BIT | COMMAND_INDEX | RESPONSE;
    /// All error interrupt bits, 31:16.
    pub const ERRORS: u32 = 0xffff_0000;
    /// Bits of the normal interrupt status (30h) that exist.
    pub const NORMAL: u32 = 0x71ff;
}

/// Bits of the Transfer Mode register, 0Ch.
pub mod mode {
    /// Bit of Transfer Mode: enables DMA.
    pub const DMA: u16 = 1;
    /// Bit of Transfer Mode: enables the block count.
    pub const BLOCK_COUNT: u16 = 1 << 1;
    /// Bit of Transfer Mode: data go from the card to the host.
    pub const READ: u16 = 1 << 4;
    /// Bit of Transfer Mode: the transfer has more than one block.
    pub const MULTI: u16 = 1 << 5;
    /// Bit of Transfer Mode: makes the response check look for the error bits of an R5, not of an
    /// R1.
    pub const R5: u16 = 1 << 6;
    /// Bit of Transfer Mode: makes the controller check the response for error bits.
    pub const RESPONSE_CHECK: u16 = 1 << 7;
    /// Bit of Transfer Mode: suppresses the interrupt Command Complete.
    pub const NO_COMMAND_COMPLETE: u16 = 1 << 8;
}

/// Bits of the Present State register, 24h.
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

/// Bits of the Host Control 1 register, 28h.
pub mod host1 {
    pub const FOUR_BITS: u8 = 1 << 1;
    pub const HIGH_SPEED: u8 = 1 << 2;
    pub const EIGHT_BITS: u8 = 1 << 5;
}

/// Bits of the Clock Control register, 2Ch.
pub mod clock {
    pub const INTERNAL: u16 = 1;
    pub const STABLE: u16 = 1 << 1;
    pub const CARD: u16 = 1 << 2;
    pub const PLL: u16 = 1 << 3;
    pub const PROGRAMMABLE: u16 = 1 << 5;
}

/// Bits of the Software Reset register, 2Fh.
pub mod reset {
    pub const ALL: u8 = 1;
    pub const CMD: u8 = 1 << 1;
    pub const DAT: u8 = 1 << 2;
}

/// Bits of the Auto CMD Error Status register, 3Ch.
pub mod auto {
    pub const TIMEOUT: u16 = 1 << 1;
    pub const CRC: u16 = 1 << 2;
    pub const END_BIT: u16 = 1 << 3;
    pub const INDEX: u16 = 1 << 4;
    pub const RESPONSE: u16 = 1 << 5;
    pub const NOT_ISSUED: u16 = 1 << 7;
}

/// Bits of the Host Control 2 register, 3Eh.
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

/// Bits of the Capabilities register, 40h.
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

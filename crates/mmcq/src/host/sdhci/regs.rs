//! Registers and their bits, named as the standard names them.
//!
//! Sections are those of the SD Host Controller Simplified Specification 3.00 unless a later
//! edition is given.

// --- 000h SDMA System Address / Argument 2 / 32-bit Block Count [SDHC 2.2.1] ---

/// SDMA System Address; Argument 2 of an automatic CMD23; with Host Version 4 Enable no longer an
/// address.
pub const SDMA_ADDRESS: u16 = 0x00;
/// Argument 2 shares its place with the SDMA address.
pub const ARGUMENT_2: u16 = 0x00;

// --- 004h Block Size [SDHC 2.2.2], 006h Block Count [SDHC 2.2.3] ---

/// Transfer Block Size (11:0) and SDMA Buffer Boundary (14:12).
pub const BLOCK_SIZE: u16 = 0x04;
/// Block Count; what is left of it while a transfer stands at a block gap.
pub const BLOCK_COUNT: u16 = 0x06;
/// SDMA Buffer Boundary 512 KiB.
pub const BOUNDARY_512K: u16 = 7 << 12;

// --- 008h Argument 1 [SDHC 2.2.4] ---

/// The command's argument.
pub const ARGUMENT: u16 = 0x08;

// --- 00Ch Transfer Mode [SDHC 2.2.5] ---

/// Transfer Mode; the Command register is its upper half.
pub const TRANSFER_MODE: u16 = 0x0c;
/// DMA Enable.
pub const MODE_DMA: u16 = 1 << 0;
/// Block Count Enable.
pub const MODE_BLOCK_COUNT: u16 = 1 << 1;
/// Auto CMD12 Enable.
pub const MODE_AUTO_CMD12: u16 = 1 << 2;
/// Auto CMD23 Enable.
pub const MODE_AUTO_CMD23: u16 = 2 << 2;
/// Data Transfer Direction Select: card to host.
pub const MODE_READ: u16 = 1 << 4;
/// Multi / Single Block Select.
pub const MODE_MULTI: u16 = 1 << 5;
/// Response Error Check Enable: errors in an R1 stop the transfer [SDHC 4.00].
pub const MODE_RESPONSE_CHECK: u16 = 1 << 7;
/// Response Interrupt Disable: no Command Complete [SDHC 4.00].
pub const MODE_NO_COMMAND_COMPLETE: u16 = 1 << 8;

// --- 00Eh Command [SDHC 2.2.6] ---

/// Command; writing its upper byte sends it.
pub const COMMAND: u16 = 0x0e;
/// Response Type Select: 136 bits.
pub const COMMAND_136: u16 = 1;
/// Response Type Select: 48 bits.
pub const COMMAND_48: u16 = 2;
/// Response Type Select: 48 bits, check busy after it.
pub const COMMAND_48_BUSY: u16 = 3;
/// Command CRC Check Enable.
pub const COMMAND_CRC: u16 = 1 << 3;
/// Command Index Check Enable.
pub const COMMAND_INDEX: u16 = 1 << 4;
/// Data Present Select.
pub const COMMAND_DATA: u16 = 1 << 5;
/// Command Type: abort (CMD12).
pub const COMMAND_ABORT: u16 = 3 << 6;
/// Where the command index begins.
pub const COMMAND_INDEX_SHIFT: u16 = 8;

// --- 010h Response [SDHC 2.2.7] ---

/// R\[39:8\] of a short response, R\[39:8\] of a long one.
pub const RESPONSE_0: u16 = 0x10;
/// R\[71:40\] of a long response.
pub const RESPONSE_1: u16 = 0x14;
/// R\[103:72\] of a long response.
pub const RESPONSE_2: u16 = 0x18;
/// R\[127:104\] of a long response; the R1 of an automatic CMD12.
pub const RESPONSE_3: u16 = 0x1c;

// --- 020h Buffer Data Port [SDHC 2.2.8] ---

/// The window on the block buffer.
pub const BUFFER: u16 = 0x20;

// --- 024h Present State [SDHC 2.2.9] ---

/// Present State.
pub const PRESENT: u16 = 0x24;
/// Command Inhibit (CMD).
pub const PRESENT_CMD_INHIBIT: u32 = 1 << 0;
/// Command Inhibit (DAT).
pub const PRESENT_DAT_INHIBIT: u32 = 1 << 1;
/// Buffer Write Enable.
pub const PRESENT_BUFFER_WRITE: u32 = 1 << 10;
/// Buffer Read Enable.
pub const PRESENT_BUFFER_READ: u32 = 1 << 11;
/// Card Inserted.
pub const PRESENT_INSERTED: u32 = 1 << 16;
/// Write Protect Switch Pin Level: 1 is write enabled.
pub const PRESENT_WRITE_ENABLED: u32 = 1 << 19;
/// DAT\[0\] Line Signal Level.
pub const PRESENT_DAT0: u32 = 1 << 20;
/// DAT\[3:0\] Line Signal Level.
pub const PRESENT_DAT: u32 = 0xf << PRESENT_DAT_SHIFT;
/// Lowest bit of the field.
pub const PRESENT_DAT_SHIFT: u32 = 20;

// --- 028h Host Control 1 [SDHC 2.2.10] ---

/// Host Control 1.
pub const CONTROL: u16 = 0x28;
/// Data Transfer Width: 4 bits.
pub const CONTROL_4BIT: u8 = 1 << 1;
/// High Speed Enable.
pub const CONTROL_HIGH_SPEED: u8 = 1 << 2;
/// DMA Select: ADMA2 (32-bit, or as 64-bit Addressing says with Host Version 4 Enable).
pub const CONTROL_ADMA2: u8 = 2 << 3;
/// DMA Select: ADMA2 with 64-bit addresses, version 3.
pub const CONTROL_ADMA2_64: u8 = 3 << 3;
/// DMA Select: ADMA2 or ADMA3, with Host Version 4 Enable [SDHC 4.10].
pub const CONTROL_ADMA3: u8 = 3 << 3;
/// Extended Data Transfer Width: 8 bits.
pub const CONTROL_8BIT: u8 = 1 << 5;

// --- 029h Power Control [SDHC 2.2.11] ---

/// Power Control.
pub const POWER: u16 = 0x29;
/// SD Bus Power for VDD1.
pub const POWER_ON: u8 = 1 << 0;
/// SD Bus Voltage Select: 1.8 V.
pub const POWER_1V8: u8 = 5 << 1;
/// SD Bus Voltage Select: 3.0 V.
pub const POWER_3V0: u8 = 6 << 1;
/// SD Bus Voltage Select: 3.3 V.
pub const POWER_3V3: u8 = 7 << 1;

// --- 02Ah Block Gap Control [SDHC 2.2.12] ---

/// Block Gap Control.
pub const BLOCK_GAP: u16 = 0x2a;
/// Stop At Block Gap Request.
pub const GAP_STOP: u8 = 1 << 0;
/// Continue Request, without a new request to stop.
pub const GAP_GO_ON: u8 = 1 << 1;

// --- 02Ch Clock Control [SDHC 2.2.14] ---

/// Clock Control.
pub const CLOCK: u16 = 0x2c;
/// Internal Clock Enable.
pub const CLOCK_INTERNAL: u16 = 1 << 0;
/// Internal Clock Stable.
pub const CLOCK_STABLE: u16 = 1 << 1;
/// SD Clock Enable.
pub const CLOCK_CARD: u16 = 1 << 2;
/// PLL Enable [SDHC 4.10, 2.2.14].
pub const CLOCK_PLL: u16 = 1 << 3;
/// Clock Generator Select: programmable clock.
pub const CLOCK_PROGRAMMABLE: u16 = 1 << 5;

// --- 02Eh Timeout Control [SDHC 2.2.15] ---

/// Data Timeout Counter Value (3:0): 2^(13 + n) periods of TMCLK.
pub const TIMEOUT: u16 = 0x2e;
/// The largest counter value.
pub const TIMEOUT_MAX: u8 = 0xe;

// --- 02Fh Software Reset [SDHC 2.2.16] ---

/// Software Reset.
pub const RESET: u16 = 0x2f;
/// Software Reset For All.
pub const RESET_ALL: u8 = 1 << 0;
/// Software Reset For CMD Line.
pub const RESET_CMD: u8 = 1 << 1;
/// Software Reset For DAT Line.
pub const RESET_DAT: u8 = 1 << 2;

// --- 030h Normal and Error Interrupt Status [SDHC 2.2.17, 2.2.18] ---

/// Normal (15:0) and Error (31:16) Interrupt Status.
pub const INT_STATUS: u16 = 0x30;
/// Normal and Error Interrupt Status Enable [SDHC 2.2.19, 2.2.20].
pub const INT_ENABLE: u16 = 0x34;
/// Normal and Error Interrupt Signal Enable [SDHC 2.2.21, 2.2.22].
pub const INT_SIGNAL: u16 = 0x38;
/// Command Complete.
pub const INT_COMMAND: u32 = 1 << 0;
/// Transfer Complete.
pub const INT_TRANSFER: u32 = 1 << 1;
/// DMA Interrupt (SDMA boundary).
pub const INT_DMA: u32 = 1 << 3;
/// Buffer Write Ready.
pub const INT_BUFFER_WRITE: u32 = 1 << 4;
/// Buffer Read Ready.
pub const INT_BUFFER_READ: u32 = 1 << 5;
/// Card Insertion.
pub const INT_INSERT: u32 = 1 << 6;
/// Card Removal.
pub const INT_REMOVE: u32 = 1 << 7;
/// Card Interrupt: a level, it cannot be acknowledged here.
pub const INT_CARD: u32 = 1 << 8;
/// INT_A, INT_B, INT_C: levels of shared buses.
pub const INT_SHARED: u32 = 7 << 9;
/// Re-Tuning Event.
pub const INT_RETUNE: u32 = 1 << 12;
/// Error Interrupt: any of the upper half.
pub const INT_ERROR: u32 = 1 << 15;
/// Command Timeout Error.
pub const ERROR_COMMAND_TIMEOUT: u32 = 1 << 16;
/// Command CRC Error.
pub const ERROR_COMMAND_CRC: u32 = 1 << 17;
/// Command End Bit Error.
pub const ERROR_COMMAND_END: u32 = 1 << 18;
/// Command Index Error.
pub const ERROR_COMMAND_INDEX: u32 = 1 << 19;
/// Data Timeout Error.
pub const ERROR_DATA_TIMEOUT: u32 = 1 << 20;
/// Data CRC Error.
pub const ERROR_DATA_CRC: u32 = 1 << 21;
/// Data End Bit Error.
pub const ERROR_DATA_END: u32 = 1 << 22;
/// Current Limit Error.
pub const ERROR_POWER: u32 = 1 << 23;
/// Auto CMD Error.
pub const ERROR_AUTO: u32 = 1 << 24;
/// ADMA Error.
pub const ERROR_ADMA: u32 = 1 << 25;
/// Tuning Error.
pub const ERROR_TUNING: u32 = 1 << 26;
/// Response Error [SDHC 4.00, 2.2.18].
pub const ERROR_RESPONSE: u32 = 1 << 27;
/// The errors of a command and its response.
pub const ERRORS_COMMAND: u32 = 0xf << 16;
/// All errors, those of the vendor too.
pub const ERRORS: u32 = 0xffff << 16;

// --- 03Ch Auto CMD Error Status [SDHC 2.2.23] ---

/// Auto CMD Error Status.
pub const AUTO_STATUS: u16 = 0x3c;
/// Auto CMD12 Not Executed.
pub const AUTO_NOT_EXECUTED: u16 = 1 << 0;
/// Auto CMD Timeout Error.
pub const AUTO_TIMEOUT: u16 = 1 << 1;
/// Auto CMD CRC Error.
pub const AUTO_CRC: u16 = 1 << 2;
/// Auto CMD End Bit Error.
pub const AUTO_END: u16 = 1 << 3;
/// Auto CMD Index Error.
pub const AUTO_INDEX: u16 = 1 << 4;
/// Auto CMD Response Error [SDHC 4.10].
pub const AUTO_RESPONSE: u16 = 1 << 5;

// --- 03Eh Host Control 2 [SDHC 2.2.24] ---

/// Host Control 2.
pub const CONTROL_2: u16 = 0x3e;
/// UHS Mode Select: SDR12.
pub const UHS_SDR12: u16 = 0;
/// UHS Mode Select: SDR25.
pub const UHS_SDR25: u16 = 1;
/// UHS Mode Select: SDR50.
pub const UHS_SDR50: u16 = 2;
/// UHS Mode Select: SDR104, HS200 too.
pub const UHS_SDR104: u16 = 3;
/// UHS Mode Select: DDR50, eMMC's DDR52 too.
pub const UHS_DDR50: u16 = 4;
/// UHS Mode Select: reserved by the standard, used for HS400 by most controllers that can.
pub const UHS_HS400: u16 = 5;
/// UHS Mode Select: likewise, for HS400 with enhanced strobe.
pub const UHS_HS400ES: u16 = 6;
/// UHS Mode Select.
pub const UHS_MASK: u16 = 7;
/// 1.8V Signaling Enable.
pub const CONTROL_2_1V8: u16 = 1 << 3;
/// Execute Tuning.
pub const CONTROL_2_TUNE: u16 = 1 << 6;
/// Sampling Clock Select.
pub const CONTROL_2_TUNED: u16 = 1 << 7;
/// Host Version 4 Enable [SDHC 4.00].
pub const CONTROL_2_V4: u16 = 1 << 12;
/// 64-bit Addressing [SDHC 4.00].
pub const CONTROL_2_64BIT: u16 = 1 << 13;

// --- 040h Capabilities [SDHC 2.2.25]; 044h is its upper half ---

/// Capabilities 1.
pub const CAPABILITIES: u16 = 0x40;
/// Capabilities 2.
pub const CAPABILITIES_2: u16 = 0x44;
/// Timeout Clock Unit: MHz, else kHz.
pub const CAP_TIMEOUT_MHZ: u32 = 1 << 7;
/// 8-bit Support for Embedded Device.
pub const CAP_8BIT: u32 = 1 << 18;
/// ADMA2 Support.
pub const CAP_ADMA2: u32 = 1 << 19;
/// High Speed Support.
pub const CAP_HIGH_SPEED: u32 = 1 << 21;
/// SDMA Support.
pub const CAP_SDMA: u32 = 1 << 22;
/// Voltage Support 3.3 V.
pub const CAP_3V3: u32 = 1 << 24;
/// Voltage Support 3.0 V.
pub const CAP_3V0: u32 = 1 << 25;
/// Voltage Support 1.8 V.
pub const CAP_1V8: u32 = 1 << 26;
/// 64-bit System Address Support for V4 [SDHC 4.00].
pub const CAP_64BIT_V4: u32 = 1 << 27;
/// 64-bit System Address Support for V3.
pub const CAP_64BIT_V3: u32 = 1 << 28;
/// SDR50 Support.
pub const CAP2_SDR50: u32 = 1 << 0;
/// SDR104 Support.
pub const CAP2_SDR104: u32 = 1 << 1;
/// DDR50 Support.
pub const CAP2_DDR50: u32 = 1 << 2;
/// Use Tuning for SDR50.
pub const CAP2_SDR50_TUNED: u32 = 1 << 13;
/// ADMA3 Support [SDHC 4.10].
pub const CAP2_ADMA3: u32 = 1 << 27;

// --- 048h Maximum Current Capabilities [SDHC 2.2.26] ---

/// A byte each for 3.3, 3.0 and 1.8 V.
pub const MAX_CURRENT: u16 = 0x48;
/// What 1 means there, in mA.
pub const MAX_CURRENT_STEP_MA: u16 = 4;

// --- 058h ADMA System Address [SDHC 2.2.30] ---

/// ADMA System Address 31:0; with Host Version 4 Enable SDMA's address too.
pub const ADMA_ADDRESS: u16 = 0x58;
/// ADMA System Address 63:32.
pub const ADMA_ADDRESS_HIGH: u16 = 0x5c;

// --- 078h ADMA3 Integrated Descriptor Address [SDHC 4.10] ---

/// ADMA3 Integrated Descriptor Address 31:0: the descriptor at work. Writing its last half begins
/// the list.
pub const ADMA3_ADDRESS: u16 = 0x78;
/// ADMA3 Integrated Descriptor Address 63:32.
pub const ADMA3_ADDRESS_HIGH: u16 = 0x7c;

// --- 0FCh Slot Interrupt Status [SDHC 2.2.33], 0FEh Host Controller Version [SDHC 2.2.34] ---

/// Host Controller Version: Specification Version Number in 7:0.
pub const VERSION: u16 = 0xfe;

// --- ADMA2 descriptors [SDHC 1.13.4] ---

/// Valid.
pub const ADMA_VALID: u32 = 1 << 0;
/// End of descriptor.
pub const ADMA_END: u32 = 1 << 1;
/// Act: transfer data. No operation is 0.
pub const ADMA_TRANSFER: u32 = 2 << 4;

// --- ADMA3 descriptors [SDHC 4.10, 1.13.5] ---

/// Act: a word for a register of the command.
pub const ADMA_COMMAND: u32 = 1 << 3;
/// Act: the address of a command and its ADMA2 descriptors.
pub const ADMA_INTEGRATED: u32 = 7 << 3;

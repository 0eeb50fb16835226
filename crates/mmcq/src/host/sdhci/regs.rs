//! Registers and their bits, named as the standard names them.
//!
//! Sections are those of the SD Host Controller Simplified Specification 3.00 unless a later
//! edition is given.

// --- 000h SDMA System Address / Argument 2 / 32-bit Block Count [SDHC 2.2.1] ---

/// SDMA System Address register, or Argument 2 of an automatic CMD23. With Host Version 4 Enable
/// the register holds no address.
pub const SDMA_ADDRESS: u16 = 0x00;
/// Argument 2 register: the argument of an automatic CMD23, at the offset of [`SDMA_ADDRESS`].
pub const ARGUMENT_2: u16 = 0x00;

// --- 004h Block Size [SDHC 2.2.2], 006h Block Count [SDHC 2.2.3] ---

/// Block Size register: block length in 11:0, and SDMA Buffer Boundary in 14:12.
pub const BLOCK_SIZE: u16 = 0x04;
/// Block Count register: blocks of the transfer. At a block gap the register shows how many blocks
/// are left.
pub const BLOCK_COUNT: u16 = 0x06;
/// SDMA Buffer Boundary field: SDMA pauses at each multiple of 512 KiB.
pub const BOUNDARY_512K: u16 = 7 << 12;

// --- 008h Argument 1 [SDHC 2.2.4] ---

/// Argument 1 register: the argument of the next command.
pub const ARGUMENT: u16 = 0x08;

// --- 00Ch Transfer Mode [SDHC 2.2.5] ---

/// Transfer Mode register, 16 bits: direction, block count, DMA and automatic commands of the
/// transfer.
pub const TRANSFER_MODE: u16 = 0x0c;
/// DMA Enable: the controller moves the data to or from memory by itself.
pub const MODE_DMA: u16 = 1 << 0;
/// Block Count Enable: the transfer ends after [`BLOCK_COUNT`] blocks.
pub const MODE_BLOCK_COUNT: u16 = 1 << 1;
/// Auto CMD12 Enable: the controller sends CMD12 after the last block.
pub const MODE_AUTO_CMD12: u16 = 1 << 2;
/// Auto CMD23 Enable: the controller sends CMD23 before the command, with [`ARGUMENT_2`].
pub const MODE_AUTO_CMD23: u16 = 2 << 2;
/// Data Transfer Direction Select: set for data from the card to the host.
pub const MODE_READ: u16 = 1 << 4;
/// Multi / Single Block Select: set for a transfer of several blocks.
pub const MODE_MULTI: u16 = 1 << 5;
/// Response Error Check Enable: error bits in the R1 response stop the transfer [SDHC 4.00].
pub const MODE_RESPONSE_CHECK: u16 = 1 << 7;
/// Response Interrupt Disable: the command does not raise Command Complete [SDHC 4.00].
pub const MODE_NO_COMMAND_COMPLETE: u16 = 1 << 8;

// --- 00Eh Command [SDHC 2.2.6] ---

/// Command register, 16 bits. Writing the upper byte sends the command.
pub const COMMAND: u16 = 0x0e;
/// Response Type Select: a response of 136 bits (R2).
pub const COMMAND_136: u16 = 1;
/// Response Type Select: a response of 48 bits.
pub const COMMAND_48: u16 = 2;
/// Response Type Select: a response of 48 bits, followed by busy on DAT0 (R1b).
pub const COMMAND_48_BUSY: u16 = 3;
/// Command CRC Check Enable: the controller checks the CRC of the response.
pub const COMMAND_CRC: u16 = 1 << 3;
/// Command Index Check Enable: the controller compares the index in the response with the
/// command's.
pub const COMMAND_INDEX: u16 = 1 << 4;
/// Data Present Select: data follow the command.
pub const COMMAND_DATA: u16 = 1 << 5;
/// Command Type field, abort: marks a CMD12 or CMD52 that stops a transfer.
pub const COMMAND_ABORT: u16 = 3 << 6;
/// Lowest bit of the Command Index field, which holds the number of the command.
pub const COMMAND_INDEX_SHIFT: u16 = 8;

// --- 010h Response [SDHC 2.2.7] ---

/// Response register, bits 31:0: R\[39:8\] of a short or a long response.
pub const RESPONSE_0: u16 = 0x10;
/// Response register, bits 63:32: R\[71:40\] of a long response.
pub const RESPONSE_1: u16 = 0x14;
/// Response register, bits 95:64: R\[103:72\] of a long response.
pub const RESPONSE_2: u16 = 0x18;
/// Response register, bits 127:96: R\[127:104\] of a long response, or the R1 of an automatic CMD12
/// or CMD23.
pub const RESPONSE_3: u16 = 0x1c;

// --- 020h Buffer Data Port [SDHC 2.2.8] ---

/// Buffer Data Port register: the CPU reads or writes the data of a block here, without DMA.
pub const BUFFER: u16 = 0x20;

// --- 024h Present State [SDHC 2.2.9] ---

/// Present State register: inhibit bits, buffer state, card detection and line levels.
pub const PRESENT: u16 = 0x24;
/// Command Inhibit (CMD): the CMD line is in use, so no command can be sent.
pub const PRESENT_CMD_INHIBIT: u32 = 1 << 0;
/// Command Inhibit (DAT): the data lines are in use, by data or by busy.
pub const PRESENT_DAT_INHIBIT: u32 = 1 << 1;
/// Buffer Write Enable: [`BUFFER`] has space for one block.
pub const PRESENT_BUFFER_WRITE: u32 = 1 << 10;
/// Buffer Read Enable: [`BUFFER`] holds one block that was received.
pub const PRESENT_BUFFER_READ: u32 = 1 << 11;
/// Card Inserted: a card is in the slot.
pub const PRESENT_INSERTED: u32 = 1 << 16;
/// Write Protect Switch Pin Level: 1 if the card may be written, 0 if its switch protects it.
pub const PRESENT_WRITE_ENABLED: u32 = 1 << 19;
/// Level of the line DAT0; 0 while the card signals busy.
pub const PRESENT_DAT0: u32 = 1 << 20;
/// Levels of the lines DAT3 to DAT0, in bits 23:20.
pub const PRESENT_DAT: u32 = 0xf << PRESENT_DAT_SHIFT;
/// Lowest bit of the field [`PRESENT_DAT`].
pub const PRESENT_DAT_SHIFT: u32 = 20;

// --- 028h Host Control 1 [SDHC 2.2.10] ---

/// Host Control 1 register: bus width, high speed and kind of DMA.
pub const CONTROL: u16 = 0x28;
/// Data Transfer Width: set for 4 data lines, clear for 1.
pub const CONTROL_4BIT: u8 = 1 << 1;
/// High Speed Enable: selects the high-speed timing, up to 50 MHz (eMMC: 52 MHz).
pub const CONTROL_HIGH_SPEED: u8 = 1 << 2;
/// DMA Select: ADMA2 with 32-bit addresses. With Host Version 4 Enable, [`CONTROL_2_64BIT`] selects
/// the width of the addresses.
pub const CONTROL_ADMA2: u8 = 2 << 3;
/// DMA Select: ADMA2 with 64-bit addresses, only without Host Version 4 Enable.
pub const CONTROL_ADMA2_64: u8 = 3 << 3;
/// DMA Select: ADMA2 or ADMA3, only with Host Version 4 Enable [SDHC 4.10].
pub const CONTROL_ADMA3: u8 = 3 << 3;
/// Extended Data Transfer Width: set for 8 data lines.
pub const CONTROL_8BIT: u8 = 1 << 5;

// --- 029h Power Control [SDHC 2.2.11] ---

/// Power Control register, 8 bits: supply of the card (VDD1) and its voltage.
pub const POWER: u16 = 0x29;
/// SD Bus Power: switches the supply VDD1 of the card on.
pub const POWER_ON: u8 = 1 << 0;
/// SD Bus Voltage Select: supplies the card with 1.8 V.
pub const POWER_1V8: u8 = 5 << 1;
/// SD Bus Voltage Select: supplies the card with 3.0 V.
pub const POWER_3V0: u8 = 6 << 1;
/// SD Bus Voltage Select: supplies the card with 3.3 V.
pub const POWER_3V3: u8 = 7 << 1;

// --- 02Ah Block Gap Control [SDHC 2.2.12] ---

/// Block Gap Control register, 8 bits: pauses a transfer between two blocks, and continues it.
pub const BLOCK_GAP: u16 = 0x2a;
/// Stop At Block Gap Request: the transfer pauses after the block in progress.
pub const GAP_STOP: u8 = 1 << 0;
/// Continue Request: a transfer that paused at a block gap continues.
pub const GAP_GO_ON: u8 = 1 << 1;

// --- 02Ch Clock Control [SDHC 2.2.14] ---

/// Clock Control register: divider, clock generator and enable bits of the SD clock.
pub const CLOCK: u16 = 0x2c;
/// Internal Clock Enable: starts the clock inside the controller.
pub const CLOCK_INTERNAL: u16 = 1 << 0;
/// Internal Clock Stable: reads 1 when the internal clock, or the PLL, is stable.
pub const CLOCK_STABLE: u16 = 1 << 1;
/// SD Clock Enable: drives the clock to the card.
pub const CLOCK_CARD: u16 = 1 << 2;
/// PLL Enable: starts the PLL of the clock [SDHC 4.10, 2.2.14].
pub const CLOCK_PLL: u16 = 1 << 3;
/// Clock Generator Select: set for the programmable clock, clear for the divided clock.
pub const CLOCK_PROGRAMMABLE: u16 = 1 << 5;

// --- 02Eh Timeout Control [SDHC 2.2.15] ---

/// Timeout Control register: n in bits 3:0 is the data timeout, 2^(13 + n) periods of TMCLK.
pub const TIMEOUT: u16 = 0x2e;
/// Largest value of [`TIMEOUT`]: 2^27 periods of TMCLK.
pub const TIMEOUT_MAX: u8 = 0xe;

// --- 02Fh Software Reset [SDHC 2.2.16] ---

/// Software Reset register, 8 bits. A written bit reads 1 until its reset is complete.
pub const RESET: u16 = 0x2f;
/// Software Reset For All: resets the whole controller.
pub const RESET_ALL: u8 = 1 << 0;
/// Software Reset For CMD Line: resets the command circuit.
pub const RESET_CMD: u8 = 1 << 1;
/// Software Reset For DAT Line: resets the data circuit and DMA.
pub const RESET_DAT: u8 = 1 << 2;

// --- 030h Normal and Error Interrupt Status [SDHC 2.2.17, 2.2.18] ---

/// Normal (15:0) and Error (31:16) Interrupt Status registers. Writing 1 clears a bit.
pub const INT_STATUS: u16 = 0x30;
/// Normal and Error Interrupt Status Enable: which events set their bit in [`INT_STATUS`]
/// [SDHC 2.2.19, 2.2.20].
pub const INT_ENABLE: u16 = 0x34;
/// Normal and Error Interrupt Signal Enable: which bits of [`INT_STATUS`] raise the interrupt line
/// [SDHC 2.2.21, 2.2.22].
pub const INT_SIGNAL: u16 = 0x38;
/// Command Complete: the response was received, or the command without a response was sent.
pub const INT_COMMAND: u32 = 1 << 0;
/// Transfer Complete: the data are transferred, or the busy of an R1b response has ended.
pub const INT_TRANSFER: u32 = 1 << 1;
/// DMA Interrupt: SDMA reached the buffer boundary and waits for a new address.
pub const INT_DMA: u32 = 1 << 3;
/// Buffer Write Ready: [`BUFFER`] has space for the next block.
pub const INT_BUFFER_WRITE: u32 = 1 << 4;
/// Buffer Read Ready: [`BUFFER`] holds the next block.
pub const INT_BUFFER_READ: u32 = 1 << 5;
/// Card Insertion: a card was inserted into the slot.
pub const INT_INSERT: u32 = 1 << 6;
/// Card Removal: the card was removed from the slot.
pub const INT_REMOVE: u32 = 1 << 7;
/// Card Interrupt: level of the interrupt from an I/O card. Writing 1 here does not clear the bit.
pub const INT_CARD: u32 = 1 << 8;
/// INT_A, INT_B, INT_C: interrupt levels of devices on a shared bus.
pub const INT_SHARED: u32 = 7 << 9;
/// Re-Tuning Event: the controller asks the driver to tune again.
pub const INT_RETUNE: u32 = 1 << 12;
/// Error Interrupt: at least one error bit in 31:16 is set.
pub const INT_ERROR: u32 = 1 << 15;
/// Command Timeout Error: no response within 64 clocks.
pub const ERROR_COMMAND_TIMEOUT: u32 = 1 << 16;
/// Command CRC Error: the CRC of the response is wrong.
pub const ERROR_COMMAND_CRC: u32 = 1 << 17;
/// Command End Bit Error: the end bit of the response is 0.
pub const ERROR_COMMAND_END: u32 = 1 << 18;
/// Command Index Error: the response carries the index of another command.
pub const ERROR_COMMAND_INDEX: u32 = 1 << 19;
/// Data Timeout Error: data, CRC status or the end of busy did not arrive within [`TIMEOUT`].
pub const ERROR_DATA_TIMEOUT: u32 = 1 << 20;
/// Data CRC Error: the CRC of a block, or the CRC status of a written block, is wrong.
pub const ERROR_DATA_CRC: u32 = 1 << 21;
/// Data End Bit Error: the end bit of a block, or of its CRC status, is 0.
pub const ERROR_DATA_END: u32 = 1 << 22;
/// Current Limit Error: the card draws too much current and has lost its supply.
pub const ERROR_POWER: u32 = 1 << 23;
/// Auto CMD Error: an automatic CMD12 or CMD23 failed; [`AUTO_STATUS`] says how.
pub const ERROR_AUTO: u32 = 1 << 24;
/// ADMA Error: a descriptor is invalid, or access to memory failed.
pub const ERROR_ADMA: u32 = 1 << 25;
/// Tuning Error: the tuning circuit has an error that it cannot correct.
pub const ERROR_TUNING: u32 = 1 << 26;
/// Response Error: the R1 response has an error bit set [SDHC 4.00, 2.2.18].
pub const ERROR_RESPONSE: u32 = 1 << 27;
/// All four errors of a command or its response: timeout, CRC, end bit, index.
pub const ERRORS_COMMAND: u32 = 0xf << 16;
/// All error bits of [`INT_STATUS`], including the vendor's bits 31:28.
pub const ERRORS: u32 = 0xffff << 16;

// --- 03Ch Auto CMD Error Status [SDHC 2.2.23] ---

/// Auto CMD Error Status register, 16 bits: why an automatic command failed.
pub const AUTO_STATUS: u16 = 0x3c;
/// Auto CMD12 Not Executed: the controller could not send the automatic CMD12.
pub const AUTO_NOT_EXECUTED: u16 = 1 << 0;
/// Auto CMD Timeout Error: no response to the automatic command.
pub const AUTO_TIMEOUT: u16 = 1 << 1;
/// Auto CMD CRC Error: the CRC of the response to the automatic command is wrong.
pub const AUTO_CRC: u16 = 1 << 2;
/// Auto CMD End Bit Error: the end bit of the response to the automatic command is 0.
pub const AUTO_END: u16 = 1 << 3;
/// Auto CMD Index Error: the response to the automatic command carries another index.
pub const AUTO_INDEX: u16 = 1 << 4;
/// Auto CMD Response Error: the R1 of the automatic command has an error bit set [SDHC 4.10].
pub const AUTO_RESPONSE: u16 = 1 << 5;

// --- 03Eh Host Control 2 [SDHC 2.2.24] ---

/// Host Control 2 register: bus timing, 1.8 V signaling, tuning and Version 4 modes.
pub const CONTROL_2: u16 = 0x3e;
/// UHS Mode Select: SDR12 timing, up to 25 MHz.
pub const UHS_SDR12: u16 = 0;
/// UHS Mode Select: SDR25 timing, up to 50 MHz.
pub const UHS_SDR25: u16 = 1;
/// UHS Mode Select: SDR50 timing, up to 100 MHz.
pub const UHS_SDR50: u16 = 2;
/// UHS Mode Select: SDR104 or HS200 timing.
pub const UHS_SDR104: u16 = 3;
/// UHS Mode Select: DDR50 timing, or DDR52 of eMMC.
pub const UHS_DDR50: u16 = 4;
/// UHS Mode Select: HS400. The standard reserves the value; most controllers with HS400 use it.
pub const UHS_HS400: u16 = 5;
/// UHS Mode Select: HS400 with enhanced strobe. The standard reserves the value.
pub const UHS_HS400ES: u16 = 6;
/// Mask of the field UHS Mode Select, bits 2:0.
pub const UHS_MASK: u16 = 7;
/// 1.8V Signaling Enable: switches the signal lines to 1.8 V.
pub const CONTROL_2_1V8: u16 = 1 << 3;
/// Execute Tuning: starts tuning; reads 1 until tuning has ended.
pub const CONTROL_2_TUNE: u16 = 1 << 6;
/// Sampling Clock Select: 1 if tuning succeeded and the tuned sampling clock is used.
pub const CONTROL_2_TUNED: u16 = 1 << 7;
/// Host Version 4 Enable: switches the registers and descriptors to version 4 [SDHC 4.00].
pub const CONTROL_2_V4: u16 = 1 << 12;
/// 64-bit Addressing: DMA uses 64-bit addresses, in Host Version 4 mode [SDHC 4.00].
pub const CONTROL_2_64BIT: u16 = 1 << 13;

// --- 040h Capabilities [SDHC 2.2.25]; 044h is its upper half ---

/// Capabilities register, bits 31:0.
pub const CAPABILITIES: u16 = 0x40;
/// Capabilities register, bits 63:32.
pub const CAPABILITIES_2: u16 = 0x44;
/// Timeout Clock Unit: the frequency of TMCLK is given in MHz if set, in kHz if clear.
pub const CAP_TIMEOUT_MHZ: u32 = 1 << 7;
/// 8-bit Support for Embedded Device: the controller has 8 data lines.
pub const CAP_8BIT: u32 = 1 << 18;
/// ADMA2 Support: the controller can use ADMA2 descriptors.
pub const CAP_ADMA2: u32 = 1 << 19;
/// High Speed Support: the controller can use the high-speed timing.
pub const CAP_HIGH_SPEED: u32 = 1 << 21;
/// SDMA Support: the controller can use SDMA.
pub const CAP_SDMA: u32 = 1 << 22;
/// Voltage Support 3.3 V: the controller can supply the card with 3.3 V.
pub const CAP_3V3: u32 = 1 << 24;
/// Voltage Support 3.0 V: the controller can supply the card with 3.0 V.
pub const CAP_3V0: u32 = 1 << 25;
/// Voltage Support 1.8 V: the controller can supply the card with 1.8 V.
pub const CAP_1V8: u32 = 1 << 26;
/// 64-bit System Address Support for V4: 64-bit addresses with Host Version 4 Enable [SDHC 4.00].
pub const CAP_64BIT_V4: u32 = 1 << 27;
/// 64-bit System Address Support for V3: 64-bit addresses without Host Version 4 Enable.
pub const CAP_64BIT_V3: u32 = 1 << 28;
/// SDR50 Support: the controller can use SDR50 timing.
pub const CAP2_SDR50: u32 = 1 << 0;
/// SDR104 Support: the controller can use SDR104 timing.
pub const CAP2_SDR104: u32 = 1 << 1;
/// DDR50 Support: the controller can use DDR50 timing.
pub const CAP2_DDR50: u32 = 1 << 2;
/// Use Tuning for SDR50: SDR50 needs tuning on this controller.
pub const CAP2_SDR50_TUNED: u32 = 1 << 13;
/// ADMA3 Support: the controller can use ADMA3 descriptors [SDHC 4.10].
pub const CAP2_ADMA3: u32 = 1 << 27;

// --- 048h Maximum Current Capabilities [SDHC 2.2.26] ---

/// Maximum Current Capabilities register: one byte for each of 3.3, 3.0 and 1.8 V.
pub const MAX_CURRENT: u16 = 0x48;
/// Unit of each byte in [`MAX_CURRENT`], in mA: the byte times 4 is the current in mA.
pub const MAX_CURRENT_STEP_MA: u16 = 4;

// --- 058h ADMA System Address [SDHC 2.2.30] ---

/// ADMA System Address register, bits 31:0. With Host Version 4 Enable the register is also SDMA's
/// address.
pub const ADMA_ADDRESS: u16 = 0x58;
/// ADMA System Address register, bits 63:32.
pub const ADMA_ADDRESS_HIGH: u16 = 0x5c;

// --- 078h ADMA3 Integrated Descriptor Address [SDHC 4.10] ---

/// ADMA3 Integrated Descriptor Address register, bits 31:0: the descriptor in progress. Writing the
/// highest bits of the address starts the list.
pub const ADMA3_ADDRESS: u16 = 0x78;
/// ADMA3 Integrated Descriptor Address register, bits 63:32.
pub const ADMA3_ADDRESS_HIGH: u16 = 0x7c;

// --- 0FCh Slot Interrupt Status [SDHC 2.2.33], 0FEh Host Controller Version [SDHC 2.2.34] ---

/// Host Controller Version register: Specification Version Number in bits 7:0.
pub const VERSION: u16 = 0xfe;

// --- ADMA2 descriptors [SDHC 1.13.4] ---

/// Valid bit of a descriptor; an invalid descriptor is an ADMA error.
pub const ADMA_VALID: u32 = 1 << 0;
/// End bit of a descriptor: the last descriptor of its list.
pub const ADMA_END: u32 = 1 << 1;
/// Act field, Tran: the descriptor transfers data. Act 0 is no operation.
pub const ADMA_TRANSFER: u32 = 2 << 4;

// --- ADMA3 descriptors [SDHC 4.10, 1.13.5] ---

/// Act field of an ADMA3 command descriptor, which holds the value of one 32-bit register, such as
/// the argument. The controller writes the value when it executes the descriptor.
pub const ADMA_COMMAND: u32 = 1 << 3;
/// Act field of an integrated descriptor: points to a command descriptor and its ADMA2 descriptors.
pub const ADMA_INTEGRATED: u32 = 7 << 3;

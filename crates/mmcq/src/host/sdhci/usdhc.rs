//! NXP's uSDHC (i.MX 6, 7, 8, RT 10xx and 11xx) as an SDHCI.
//!
// Read first: `regs.rs`. uSDHC has the registers of an SDHCI, but some fields are at other bit
// positions. The facts come from NXP's manuals (i.MX 6UltraLite, chapter 58) and from Linux's
// driver.
//!
//! A uSDHC has the registers of an SDHCI, with these differences: Transfer Mode is a separate
//! register (MIX_CTRL), the bit that enables the SD clock is in VEND_SPEC, and some bits have other
//! positions. All accesses are 32 bits wide.

use super::regs::*;
use crate::host::Regs;
use core::cell::Cell;

const BLOCK_ATTRIBUTES: u16 = BLOCK_SIZE;
/// Bits of Block Attributes (BLK_ATT) that are copied from SDHCI's registers at this offset: the
/// block count, and bits 11:0 of the block size. SDHCI's bits 14:12 (buffer boundary) are masked
/// off. So bit 12 of uSDHC's block size, which only a block of 4096 bytes needs, is always 0.
const BLOCK_ATTRIBUTES_MASK: u32 = 0xffff_0fff;
/// Command Transfer Type (CMD_XFR_TYP): the command. SDHCI's word at this offset has Transfer Mode
/// in its lower half.
const TRANSFER_TYPE: u16 = TRANSFER_MODE;
const DATA_PRESENT: u32 = (COMMAND_DATA as u32) << 16;

/// Present State (PRES_STATE): SD Clock Stable.
const STATE_CLOCK_STABLE: u32 = 1 << 3;
/// Bits of Present State (PRES_STATE) that SDHCI has at the same position: inhibits, activity,
/// buffer, card detect.
const STATE_SAME: u32 = 0x000d_0f07;
const STATE_CMD_SHIFT: u32 = 23;
const STATE_DAT_SHIFT: u32 = 24;
/// Lowest bit of CMD Line Signal Level in SDHCI's Present State register.
const PRESENT_CMD_SHIFT: u32 = 24;

/// Protocol Control (PROT_CTRL): little-endian mode (EMODE).
const PROTOCOL_LITTLE: u32 = 2 << 4;
const PROTOCOL_4BIT: u32 = 1 << 1;
const PROTOCOL_8BIT: u32 = 2 << 1;
const PROTOCOL_DMA: u32 = 3 << 8;
/// Bits of block gap and wakeup control that Protocol Control (PROT_CTRL) and SDHCI have at the
/// same position.
const PROTOCOL_SAME: u32 = 0x070f_0000;
/// Bits of Protocol Control (PROT_CTRL) that SDHCI does not have; the driver does not change them.
/// They are: burst length enable (BURST_LEN_EN; the DMA uses single beats if it is 0), non-exact
/// block read, and reserved bits.
const PROTOCOL_KEPT: u32 = 0xf8f0_0000;
/// Left shift from the DMA Select field of SDHCI to the one in Protocol Control (PROT_CTRL).
const DMA_UP: u32 = 5;
const CONTROL_DMA: u32 = 3 << 3;

/// Bits of System Control (SYS_CTRL) that must be written as 1, and the level of the card's RST_n,
/// which stays high.
const SYSTEM_ONES: u32 = 1 << 23 | 0xf;
const DIVISOR_MAX: u32 = 16;
const PRESCALER_MAX: u32 = 256;

/// Interrupt Status (INT_STATUS): DMA error, which SDHCI has as ADMA Error at bit 25.
const INT_DMA_ERROR: u32 = 1 << 28;
/// Interrupt bits that uSDHC and SDHCI have at the same position.
const INT_SAME: u32 = 0x057f_11ff;

/// Host Controller Capabilities (HOST_CTRL_CAP): ADMA2 Support.
const ABLE_ADMA2: u32 = 1 << 20;
/// Bits of Host Controller Capabilities (HOST_CTRL_CAP) that SDHCI has at the same position: high
/// speed, SDMA, suspend, voltages.
const ABLE_SAME: u32 = 0x07e0_0000;
/// SDHCI's capabilities register: blocks of up to 2048 bytes.
const ABLE_2048: u32 = 2 << 16;

const WATERMARK: u16 = 0x44;
/// Watermark Level (WTMK_LVL): bursts of 16 words for reads and for writes.
const WATERMARK_BURSTS: u32 = 0x1000_1000;
const WATERMARK_DMA: u32 = 0x40;
const WATERMARK_MAX: u32 = 0x80;

const MIX_CONTROL: u16 = 0x48;
/// Bits of Mixer Control (MIX_CTRL) that SDHCI's Transfer Mode has at the same position: DMA, block
/// count, CMD12, direction, multi-block.
const MIX_SAME: u32 = 0x37;
const MIX_AUTO_CMD12: u32 = 1 << 2;
const MIX_DDR: u32 = 1 << 3;
const MIX_AUTO_CMD23: u32 = 1 << 7;
const MIX_FEEDBACK_CLOCK: u32 = 1 << 25;
/// Bit of Mixer Control (MIX_CTRL) that reads as 1 and must be written as 1.
const MIX_ONES: u32 = 1 << 31;

const VENDOR: u16 = 0xc0;
const VENDOR_1V8: u32 = 1 << 1;
const VENDOR_CLOCK_ON: u32 = 1 << 8;

/// Specification Version Number 3.00 in SDHCI's Host Controller Version register.
const AS_VERSION_3: u32 = 2 << 16;

/// Presents the registers of a uSDHC as those of an SDHCI 3.0, for [`Sdhci`](super::Sdhci) with the
/// profile [`USDHC`](super::profiles::USDHC).
///
/// Tested on QEMU's mcimx6ul-evk at high speed. Timings at 1.8 V, DDR and tuning are untested;
/// [`uhs`](Usdhc::uhs) enables them.
#[derive(Debug)]
pub struct Usdhc<R> {
    regs: R,
    uhs: bool,
    /// Clock Control of the SDHCI as last written.
    clock: Cell<u16>,
    power: Cell<u8>,
    /// High Speed Enable of the SDHCI as last written; a uSDHC has no such bit.
    high_speed: Cell<u8>,
    uhs_mode: Cell<u32>,
    mix: Cell<u32>,
    watermark: Cell<u32>,
    block_bytes: Cell<u32>,
}

impl<R: Regs> Usdhc<R> {
    /// Makes the translation for the uSDHC at `regs`, a block of 256 bytes.
    pub const fn new(regs: R) -> Self {
        Usdhc {
            regs,
            uhs: false,
            clock: Cell::new(0),
            power: Cell::new(0),
            high_speed: Cell::new(0),
            uhs_mode: Cell::new(0),
            mix: Cell::new(MIX_ONES),
            watermark: Cell::new(0),
            block_bytes: Cell::new(0),
        }
    }

    /// Enables the UHS-I timings that the lower half of Host Controller Capabilities
    /// (HOST_CTRL_CAP) shows. Allowed on the i.MX 6SoloLite and later chips, whose lines can switch
    /// to 1.8 V. The board sets Tuning Control (TUNING_CTRL).
    #[must_use]
    pub const fn uhs(mut self) -> Self {
        self.uhs = true;
        self
    }

    fn read(&self, offset: u16, bytes: u16) -> u32 {
        let word = self.read_word(offset & !3) >> (8 * u32::from(offset & 3));
        if bytes == 4 { word } else { word & ((1 << (8 * bytes)) - 1) }
    }

    fn write(&self, offset: u16, bytes: u16, value: u32) {
        if bytes == 4 {
            return self.write_word(offset, value);
        }
        let (at, shift) = (offset & !3, 8 * u32::from(offset & 3));
        let mask = ((1 << (8 * bytes)) - 1) << shift;
        // Status bits are cleared by writing 1, so the old value must not be written back.
        let old = if at == INT_STATUS { 0 } else { self.read_word(at) };
        self.write_word(at, old & !mask | value << shift & mask);
    }

    /// Reads the 32-bit word of the SDHCI at `at`, translated from uSDHC's registers.
    fn read_word(&self, at: u16) -> u32 {
        match at {
            ADMA_ADDRESS_HIGH | MAX_CURRENT | 0x4c | 0x60..VERSION_WORD => 0,
            _ => match (at, self.regs.read32(if at == CAPABILITIES_2 { CAPABILITIES } else { at })) {
                // The controller is gone if any of its registers reads as all ones.
                (_, u32::MAX) => u32::MAX,
                (TRANSFER_TYPE, word) => word & 0xffff_0000 | self.transfer_mode(),
                (PRESENT, word) => {
                    word & STATE_SAME
                        | (word >> STATE_CMD_SHIFT & 1) << PRESENT_CMD_SHIFT
                        | (word >> STATE_DAT_SHIFT & 0xf) << PRESENT_DAT_SHIFT
                }
                (CONTROL, word) => self.control(word),
                (CLOCK, word) => self.clock_word(word),
                (INT_STATUS..=INT_SIGNAL, word) => {
                    word & INT_SAME | if word & INT_DMA_ERROR != 0 { ERROR_ADMA } else { 0 }
                }
                (AUTO_STATUS, word) => self.auto_word(word),
                (CAPABILITIES, word) => {
                    let adma = if word & ABLE_ADMA2 != 0 { CAP_ADMA2 } else { 0 };
                    word & ABLE_SAME | adma | CAP_8BIT | ABLE_2048
                }
                (CAPABILITIES_2, word) => {
                    if self.uhs {
                        word & 0xffff
                    } else {
                        0
                    }
                }
                (VERSION_WORD, _) => AS_VERSION_3,
                (_, word) => word,
            },
        }
    }

    /// Writes the 32-bit word of the SDHCI at `at`, translated to uSDHC's registers.
    fn write_word(&self, at: u16, word: u32) {
        match at {
            BLOCK_ATTRIBUTES => {
                self.block_bytes.set(word & 0xfff);
                self.regs.write32(at, word & BLOCK_ATTRIBUTES_MASK);
            }
            TRANSFER_TYPE => self.send(word),
            CONTROL => self.set_control(word),
            CLOCK => self.set_clock(word),
            INT_STATUS..=INT_SIGNAL => {
                let dma = if word & ERROR_ADMA != 0 { INT_DMA_ERROR } else { 0 };
                self.regs.write32(at, word & INT_SAME | dma);
            }
            AUTO_STATUS => self.set_control_2(word >> 16),
            // uSDHC lacks these registers, or has another register at their offset.
            PRESENT | CAPABILITIES..=0x4c | ADMA_ADDRESS_HIGH | 0x60..=VERSION_WORD => {}
            _ => self.regs.write32(at, word),
        }
    }

    fn transfer_mode(&self) -> u32 {
        let mix = self.mix.get();
        mix & MIX_SAME | if mix & MIX_AUTO_CMD23 != 0 { MODE_AUTO_CMD23.into() } else { 0 }
    }

    fn set_mix(&self, mix: u32) {
        if self.mix.replace(mix) != mix {
            self.regs.write32(MIX_CONTROL, mix);
        }
    }

    /// Writes Transfer Mode (the lower half of `word`) to Mixer Control (MIX_CTRL), and then the
    /// command (the upper half).
    fn send(&self, word: u32) {
        let mix = self.mix.get();
        if word & DATA_PRESENT != 0 {
            let count = if word & u32::from(MODE_AUTO_CMD23) != 0 { MIX_AUTO_CMD23 } else { 0 };
            self.set_watermark(word & u32::from(MODE_DMA) != 0);
            self.set_mix(mix & !(MIX_SAME | MIX_AUTO_CMD23) | word & MIX_SAME | count);
        } else if mix & (MIX_AUTO_CMD12 | MIX_AUTO_CMD23) != 0
            && self.regs.read32(PRESENT) & PRESENT_DAT_INHIBIT == 0
        {
            // The automatic commands in MIX_CTRL belong to an earlier transfer; this command is
            // sent alone.
            self.set_mix(mix & !(MIX_AUTO_CMD12 | MIX_AUTO_CMD23));
        }
        self.regs.write32(TRANSFER_TYPE, word & 0xffff_0000);
    }

    /// Sets how many words make the buffer ready: for the CPU a whole block, at most
    /// [`WATERMARK_MAX`] words; for DMA [`WATERMARK_DMA`] words.
    fn set_watermark(&self, dma: bool) {
        let block = self.block_bytes.get().div_ceil(4).clamp(1, WATERMARK_MAX);
        let words = if dma { WATERMARK_DMA } else { block };
        let watermark = WATERMARK_BURSTS | words << 16 | words;
        if self.watermark.replace(watermark) != watermark {
            self.regs.write32(WATERMARK, watermark);
        }
    }

    /// Returns Host Control 1 and Power Control of the SDHCI; `word` is Protocol Control
    /// (PROT_CTRL).
    fn control(&self, word: u32) -> u32 {
        let width = match word & (PROTOCOL_4BIT | PROTOCOL_8BIT) {
            PROTOCOL_4BIT => CONTROL_4BIT,
            PROTOCOL_8BIT => CONTROL_8BIT,
            _ => 0,
        };
        u32::from(width | self.high_speed.get())
            | (word & PROTOCOL_DMA) >> DMA_UP
            | u32::from(self.power.get()) << 8
            | word & PROTOCOL_SAME
    }

    /// Writes `word`, the SDHCI's registers Host Control 1 (bits 7:0) and Power Control (15:8). The
    /// board switches the supply, so Power Control is only stored, and read back later.
    fn set_control(&self, word: u32) {
        let control = word as u8;
        self.high_speed.set(control & CONTROL_HIGH_SPEED);
        self.power.set((word >> 8) as u8);
        let width = match control & (CONTROL_4BIT | CONTROL_8BIT) {
            0 => 0,
            CONTROL_4BIT => PROTOCOL_4BIT,
            _ => PROTOCOL_8BIT,
        };
        let dma = (word & CONTROL_DMA) << DMA_UP;
        let kept = self.regs.read32(CONTROL) & PROTOCOL_KEPT;
        self.regs.write32(CONTROL, kept | PROTOCOL_LITTLE | width | dma | word & PROTOCOL_SAME);
    }

    /// Returns Clock Control as last written, with Internal Clock Stable from Present State, and
    /// Timeout Control and Software Reset from `word`, which is System Control (SYS_CTRL).
    fn clock_word(&self, word: u32) -> u32 {
        let clock = self.clock.get();
        let state = self.regs.read32(PRESENT);
        let stable = clock & CLOCK_INTERNAL != 0 && state != u32::MAX && state & STATE_CLOCK_STABLE != 0;
        u32::from(clock & !CLOCK_STABLE)
            | if stable { CLOCK_STABLE.into() } else { 0 }
            | word & (u32::from(TIMEOUT_MAX | 1) << 16)
            | word & (7 << 24)
    }

    fn set_clock(&self, word: u32) {
        let reset = (word >> 24) as u8 & 7;
        let clock = if reset & RESET_ALL != 0 { 0 } else { word as u16 };
        if clock & CLOCK_CARD == 0 {
            // The dividers must not change while the SD clock is forced on, and the reset of the
            // controller leaves VEND_SPEC unchanged, as does a boot loader.
            self.set_vendor(VENDOR_CLOCK_ON, false);
        }
        let timeout = word >> 16 & 0xf;
        let system = SYSTEM_ONES | self.divided(clock) | timeout << 16 | u32::from(reset) << 24;
        self.regs.write32(CLOCK, system);
        if clock & CLOCK_CARD != 0 {
            self.set_vendor(VENDOR_CLOCK_ON, true);
        }
        self.clock.set(clock);
        if reset & RESET_ALL != 0 {
            // The reset of the controller leaves MIX_CTRL unchanged, so the driver writes it.
            self.mix.set(MIX_ONES);
            self.regs.write32(MIX_CONTROL, MIX_ONES);
            self.power.set(0);
            self.high_speed.set(0);
            self.watermark.set(0);
            self.uhs_mode.set(0);
        }
    }

    /// Returns the fields SDCLKFS (a prescaler) and DVS (a divisor) of System Control, for the
    /// SDHCI's Clock Control `clock`. The product of both is at least the SDHCI's divider, so the
    /// SD clock is never faster than requested.
    fn divided(&self, clock: u16) -> u32 {
        let half = u32::from(clock >> 8 | (clock & 0xc0) << 2);
        // With DDR the prescaler divides by two once more.
        let divider = if self.mix.get() & MIX_DDR != 0 { half } else { 2 * half };
        let divider = divider.max(1);
        let mut prescaler = 1;
        while prescaler < PRESCALER_MAX && divider.div_ceil(prescaler) > DIVISOR_MAX {
            prescaler *= 2;
        }
        let divisor = divider.div_ceil(prescaler).min(DIVISOR_MAX);
        (prescaler / 2) << 8 | (divisor - 1) << 4
    }

    fn set_vendor(&self, bit: u32, on: bool) {
        let old = self.regs.read32(VENDOR);
        self.regs.write32(VENDOR, if on { old | bit } else { old & !bit });
    }

    /// Converts the uSDHC register `word` into SDHCI's: Auto CMD Error Status and, in the upper
    /// half, Host Control 2. The two tuning bits need no translation.
    fn auto_word(&self, word: u32) -> u32 {
        let tuning = u32::from(CONTROL_2_TUNE | CONTROL_2_TUNED) << 16;
        let low = if self.uhs && self.regs.read32(VENDOR) & VENDOR_1V8 != 0 { CONTROL_2_1V8 } else { 0 };
        word & (0x9f | tuning) | (self.uhs_mode.get() | u32::from(low)) << 16
    }

    fn set_control_2(&self, control: u32) {
        let has = |bits: u16| control & u32::from(bits) != 0;
        self.uhs_mode.set(control & u32::from(UHS_MASK));
        let ddr = if control & u32::from(UHS_MASK) == UHS_DDR50.into() { MIX_DDR } else { 0 };
        let feedback = if has(CONTROL_2_TUNE | CONTROL_2_TUNED) { MIX_FEEDBACK_CLOCK } else { 0 };
        self.set_mix(self.mix.get() & !(MIX_DDR | MIX_FEEDBACK_CLOCK) | ddr | feedback);
        if self.uhs {
            self.set_vendor(VENDOR_1V8, has(CONTROL_2_1V8));
            let tuning = control & u32::from(CONTROL_2_TUNE | CONTROL_2_TUNED);
            self.regs.write32(AUTO_STATUS, tuning << 16);
        }
    }
}

/// Offset of the 32-bit word that contains Host Controller Version.
const VERSION_WORD: u16 = VERSION & !3;

crate::regs_by_width!([R: Regs] Usdhc<R>);

//! What differs between the chips: supply of the card and of the pads, pull-ups, voltage and drive
//! strength of the pads, phases of the clocks.
// The facts come from Linux's drivers, since the chips have no public documentation.

use super::bus::Script;
use super::config::{Chip, RtsxConfig};
use super::regs::*;
use crate::host::Timing;

/// Time after which an access to a register of the PCI Express link has ended, in nanoseconds.
const LINK_NS: u32 = 100_000;
/// Values of the register [`PULL_3`] (pull-ups and pull-downs of pads): the first pulls CMD down,
/// the second pulls CMD up. The other three fields are those of the card's clock, of its detection
/// and of its write-protect switch.
const PULLS_3: [u8; 2] = [0xd5, 0xe9];
/// Bits of the register [`PULL_3`] that version C of the RTS5229 needs inverted: the field of the
/// write-protect switch.
const PULL_3_VERSION_C: u8 = 3 << 4;

impl Chip {
    /// Switches the supply of card and pads on in two steps, with the pads at 3.3 V and CMD and DAT
    /// pulled up; or off, with CMD and DAT pulled down.
    pub(super) fn script_supply(self, script: &mut Script, on: bool) {
        let (partial, soft_start_ns) = match self {
            Chip::Rts5209 | Chip::Rts5229 => (POWER_PARTIAL, 150_000),
            Chip::Rts5227 | Chip::Rts522a => (POWER_PARTIAL, 20_000_000),
            Chip::Rts5249 | Chip::Rts524a | Chip::Rts525a => (POWER_PARTIAL_VCC, 5_000_000),
        };
        // The RTS5209 has the inverse of the other chips' values.
        let inverse = if self == Chip::Rts5209 { GATE_MASK } else { 0 };
        if on {
            self.script_voltage(script, false);
            self.script_pulls(script, true);
            if self == Chip::Rts525a {
                script.write(LDO_VCC, LDO_MASK, LDO_3V3);
            }
            script.write(POWER_CTL, POWER_MASK, partial);
            script.write(POWER_GATE, GATE_MASK, GATE_PARTIAL ^ inverse);
            script.pause(soft_start_ns);
            script.write(POWER_CTL, POWER_MASK, POWER_ON);
            script.write(POWER_GATE, GATE_MASK, GATE_ON ^ inverse);
        } else {
            script.write(POWER_CTL, POWER_MASK, POWER_OFF);
            script.write(POWER_GATE, GATE_MASK, GATE_OFF ^ inverse);
            self.script_pulls(script, false);
        }
    }

    /// Adds the register writes to `script` that pull CMD and DAT up if `up`, else down.
    fn script_pulls(self, script: &mut Script, up: bool) {
        let dat = if up { 0xaa } else { 0x55 };
        match self {
            Chip::Rts5209 => script.write(PULL_1, 0xff, dat),
            Chip::Rts5249 | Chip::Rts524a | Chip::Rts525a => {
                script.write(PULL_1, 0xff, 0x66);
                script.write(PULL_4, 0xff, dat);
            }
            Chip::Rts5229 => script.on_version_c(PULL_3_VERSION_C),
            Chip::Rts5227 | Chip::Rts522a => {}
        }
        script.write(PULL_3, 0xff, PULLS_3[usize::from(up)]);
        script.write(PULL_2, 0xff, dat);
    }

    /// Adds to `script` the register writes that set the voltage and the drive strength of the
    /// pads: 1.8 V if `low`, else 3.3 V.
    pub(super) fn script_voltage(self, script: &mut Script, low: bool) {
        let pick = |high: u16, at_18v: u16| if low { at_18v } else { high };
        let (mask, value) = match self {
            Chip::Rts5209 | Chip::Rts5229 => (0xffff, pick(0x4fe4, 0x4c64)),
            Chip::Rts5227 => (0xffff, pick(0x4fe4, 0x4ca4)),
            Chip::Rts522a => (0xffff, pick(0x57e4, 0x54a4)),
            Chip::Rts5249 => (LINK_VOLTAGE_MASK, pick(LINK_VOLTAGE_MASK, 0x0080)),
            Chip::Rts524a => (LINK_VOLTAGE_MASK, pick(LINK_VOLTAGE_MASK, 0x0100)),
            Chip::Rts525a => (0, 0),
        };
        match self {
            Chip::Rts5227 | Chip::Rts522a if low => script.link(LINK_BASE, 0xffff, 0x3c02),
            Chip::Rts5249 if low => script.link(LINK_BASE, 0x000c, 0),
            Chip::Rts525a => {
                script.write(LDO_PADS, LDO_MASK, if low { LDO_PADS_1V8 } else { LDO_3V3 });
                script.write(SD_PAD_CTL, PAD_1V8, if low { PAD_1V8 } else { 0 });
            }
            _ => {}
        }
        if mask != 0 {
            script.link(LINK_VOLTAGE, mask, value);
        }
        if matches!(self, Chip::Rts5209 | Chip::Rts5229) {
            script.write(DRIVE_CMD, 7, if low { 3 } else { 1 });
        } else {
            for register in [DRIVE_CLOCK, DRIVE_CMD, DRIVE_DAT] {
                script.write(register, 0xff, if low { 0xb3 } else { 0x96 });
            }
        }
    }
}

impl Script {
    /// Adds the steps that set the bits under `mask` of the 16-bit register `address` of the PCI
    /// Express link to those of `value`.
    fn link(&mut self, address: u8, mask: u16, value: u16) {
        self.write(LINK_ADDRESS, 0xff, address);
        self.write(LINK_CTL, 0xff, LINK_START);
        self.link_ends();
        let ([low_mask, high_mask], [low, high]) = (mask.to_le_bytes(), value.to_le_bytes());
        self.merge(LINK_DATA, low_mask, low);
        self.merge(LINK_DATA + 1, high_mask, high);
        self.write(LINK_CTL, 0xff, LINK_START | LINK_WRITE);
        self.link_ends();
    }

    fn link_ends(&mut self) {
        self.pause(LINK_NS);
        self.expect_clear(LINK_CTL, LINK_START);
    }
}

impl RtsxConfig {
    /// Returns the phases of the clocks that send and sample bits, for use before tuning: those of
    /// the board, or those that are usual for the chip and the timing.
    pub(super) fn phases(&self, timing: Timing) -> (u8, u8) {
        let fast = timing == Timing::Sdr104;
        let send = match self.chip {
            Chip::Rts5209 | Chip::Rts5227 | Chip::Rts5229 => 27,
            Chip::Rts522a => 20,
            Chip::Rts5249 if fast => 1,
            Chip::Rts524a if fast => 27,
            Chip::Rts525a if fast => 25,
            Chip::Rts5249 | Chip::Rts524a | Chip::Rts525a => 29,
        };
        let sample = match self.chip {
            Chip::Rts5227 | Chip::Rts522a | Chip::Rts5229 if fast => 30,
            _ if fast => 24,
            Chip::Rts5227 | Chip::Rts522a => 7,
            _ => 6,
        };
        let of_board = |phase: Option<u8>, usual: u8| phase.unwrap_or(usual) & PHASE_MASK;
        (of_board(self.send_phase, send), of_board(self.sample_phase, sample))
    }
}

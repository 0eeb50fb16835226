//! Supply, pull-ups, voltage and drive strength of the pads. Each chip sets them in other
//! registers. The values are those that Linux's drivers write.

use super::Rtsx;
use super::bits::{card, pads, phy, sd};

/// Numbers of the chips that the model knows: their PCI device IDs.
pub(super) const DEVICES: [u16; 7] = [0x5209, 0x5227, 0x522a, 0x5229, 0x5249, 0x524a, 0x525a];

/// Register values and times that a chip needs before its card answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Value of the supply's bits in PWR_CTL while the weak switch charges the card's capacitors.
    pub partial: u8,
    /// Shortest time in ns for which the weak switch of the card's supply must charge the
    /// capacitors, before the full switch closes.
    pub partial_ns: u64,
    /// Value of the bits GATE_MASK in the register GATE when the supply of the pads is switched on.
    gate_on: u8,
    /// Values of the registers PULL1 to PULL4 with CMD and DAT pulled up; `None`: any value.
    pulls: [Option<u8>; 4],
    /// Values of the drive registers for clock, CMD and DAT at 1.8 V; `None`: any value.
    drive_18v: [Option<u8>; 3],
}

impl Needs {
    /// Returns the register values and times that a chip with this PCI device ID and this version
    /// needs before its card answers.
    pub fn of(device: u16, version: u8) -> Needs {
        let (partial, partial_ns) = match device {
            0x5209 | 0x5229 => (1, 150_000),
            0x5227 | 0x522a => (1, 20_000_000),
            _ => (2, 5_000_000),
        };
        // On version C of the RTS5229 the pull-up of the write-protect switch has another value.
        let third = if (device, version) == (0x5229, 2) { 0xd9 } else { 0xe9 };
        let pulls = match device {
            0x5209 => [Some(0xaa), Some(0xaa), Some(third), None],
            0x5249 | 0x524a | 0x525a => [Some(0x66), Some(0xaa), Some(third), Some(0xaa)],
            _ => [None, Some(0xaa), Some(third), None],
        };
        let whole = Some(0xb3);
        Needs {
            partial,
            partial_ns,
            gate_on: if device == 0x5209 { 0 } else { pads::GATE_MASK },
            pulls,
            drive_18v: if matches!(device, 0x5209 | 0x5229) { [None, Some(3), None] } else { [whole; 3] },
        }
    }
}

/// Registers of a chip as Linux's driver leaves it, as (register, value) pairs: internal registers,
/// and registers of the PCI Express link.
pub(super) struct Left {
    pub registers: [(u16, u8); 10],
    pub link: [(usize, u16); 2],
}

/// Returns the registers as Linux's driver leaves a chip (PCI device ID `device`): the pads without
/// supply, CMD and DAT pulled down, 3.3 V.
pub(super) fn as_linux_left_it(device: u16) -> Left {
    let (gate, drive) = match device {
        0x5209 => (pads::GATE_MASK, 1),
        0x5229 => (0, 1),
        _ => (0, 0x96),
    };
    let tune = if matches!(device, 0x522a | 0x524a) { 0x57e4 } else { 0x4fe4 };
    let registers = [
        (pads::GATE, gate),
        (pads::PULL1, if device == 0x5209 { 0x55 } else { 0x66 }),
        (pads::PULL1 + 1, 0x55),
        (pads::PULL1 + 2, 0xd5),
        (pads::PULL1 + 3, 0x55),
        (pads::DRIVE[0], drive),
        (pads::DRIVE[1], drive),
        (pads::DRIVE[2], drive),
        (pads::LDO, pads::LDO_33V),
        (card::PWR_CTL, 0x0f),
    ];
    Left { registers, link: [(phy::TUNE, tune), (phy::BACR, phy::BASIC | 2)] }
}

impl Rtsx {
    /// Returns whether the pads can signal: they have supply, and CMD and DAT are pulled up.
    pub(super) fn pads_work(&self) -> bool {
        let pulled = (pads::PULL1..).zip(self.needs.pulls);
        self.regs.at(pads::GATE) & pads::GATE_MASK == self.needs.gate_on
            && pulled.into_iter().all(|(at, need)| need.is_none_or(|value| self.regs.at(at) == value))
    }

    /// Returns whether the pads signal at 1.8 V, by the registers to which this chip listens.
    pub(super) fn is_low_voltage(&self) -> bool {
        if self.config.device == 0x525a {
            return self.regs.at(sd::PAD_CTL) & sd::AT_18V != 0
                && self.regs.at(pads::LDO) & pads::LDO_MASK == pads::LDO_18V;
        }
        let ready = self.config.device != 0x5249 || self.regs.link(phy::BACR) & phy::BASIC == 0;
        ready && self.regs.link(phy::TUNE) & phy::VOLTAGE != phy::VOLTAGE
    }

    /// Returns whether the drive strength of the pads is that for signalling at 1.8 V.
    pub(super) fn drive_fits(&self) -> bool {
        let drives = pads::DRIVE.into_iter().zip(self.needs.drive_18v);
        drives.into_iter().all(|(at, need)| need.is_none_or(|value| self.regs.at(at) == value))
    }
}

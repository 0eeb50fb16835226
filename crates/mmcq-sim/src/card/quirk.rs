//! What memory cards do wrong: quirks of real ones, lies about themselves, and damage beyond any
//! contract.
//!
//! The table `[quirk]` of a profile; a campaign may also set them through
//! [`super::CardProfile::quirks_mut`]. What a host must not do to such a card is counted in
//! [`super::Card::violations`].

use super::odd::{OddAnswer, RegisterBytes};
use super::registers::Identity;
use serde::Deserialize;

/// What a memory card does wrong; by default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// Where this is known from.
    pub source: String,

    /// A transfer counted by CMD23 locks the card up.
    pub cmd23_locks_up: bool,
    /// The first block of a read counted by CMD23, and the end of such a write, come so much later.
    pub cmd23_late_us: u64,
    /// Every 32nd read has its first block so much later, whatever the registers promise.
    pub read_late_ms: u64,
    /// A secure erase or trim damages the erase group behind its range.
    pub secure_corrupts: bool,
    /// The same by a plain trim.
    pub trim_corrupts: bool,
    /// The same by a discard (SD).
    pub discard_corrupts: bool,
    /// A secure erase or trim takes this time, whatever its size.
    pub secure_ms: Option<u64>,
    /// CMD38's argument is ignored: what to do stands in byte 113 of EXT_CSD (eMMC).
    pub inand_cmd38: bool,
    /// A flush with nothing written since power-up fails.
    pub flush_needs_write: bool,
    /// A flush never ends.
    pub flush_hangs: bool,
    /// The power-off notification is taken and never answered (SD).
    pub power_off_never_ready: bool,
    /// No tuning block in DDR50 (SD).
    pub ddr50_tuning_fails: bool,
    /// HPI locks the card up (eMMC).
    pub hpi_breaks: bool,
    /// A multi-block read that comes to the last sector locks the card up (SD).
    pub last_block_locks_up: bool,
    /// With the command queue on, reads are damaged and flushes never end (SD).
    pub command_queue_broken: bool,
    /// Of so many reads through the command queue one gives what lies behind it (SD); 0: none.
    pub queue_astray_every: u32,
    /// With the command queue on, a flush never ends (SD).
    pub queue_flush_hangs: bool,
    /// After so many tasks the command queue is empty, whatever it was told (SD); 0: never.
    pub queue_forgets_every: u32,
    /// The command queue is on, or off, so long after its switch (SD).
    pub queue_late_ms: u64,

    /// Of the capacity only so many MiB are there; beyond, see `beyond`.
    pub real_mib: Option<u64>,
    /// What happens beyond.
    pub beyond: Beyond,
    /// After so many MiB written the card is worn out, see `worn_out`.
    pub life_mib: Option<u64>,
    /// How a worn-out card behaves.
    pub worn_out: WornOut,
    /// Erased memory is ones, and the registers say so.
    pub erases_to_ones: bool,
    /// What discarded sectors read as until they are written.
    pub discarded: Discarded,
    /// After so many MiB written the card asks for background work by its exception bit (eMMC).
    pub urgent_after_mib: Option<u64>,
    /// After so many MiB written its pool of system blocks is used up, and its exception bit says
    /// so if that is enabled (eMMC).
    pub pool_mib: Option<u64>,
    /// A sanitize takes so long (eMMC).
    pub sanitize_ms: u64,
    /// Ranges that are write protected for ever: first MiB and number of MiB.
    pub protected_mib: Vec<(u64, u64)>,
    /// Write protection in the CSD.
    pub csd_protection: CsdProtection,

    /// The supply is never really off: 1.8 V signalling outlives a power cycle (SD).
    pub stuck_1v8: bool,
    /// Halves the card's capacity from its second initialisation on.
    pub shrinks: bool,
    /// From the second initialisation on the card has another serial number.
    pub changes_serial: bool,
    /// A power cut makes the sectors around those in flight unreadable as well, 16 KiB of them.
    pub neighbour_damage: bool,
    /// Of a sector in flight a power cut may leave parts even if it was to be kept whole.
    pub shorn: bool,

    /// Single answers, as [`OddAnswer`] describes them.
    pub answers: Vec<OddAnswer>,
    /// Bytes that stand in registers, as [`RegisterBytes`] describes them.
    pub registers: Vec<RegisterBytes>,
    /// After power-up so many CMD0 pass before the card hears anything; 0: none is needed.
    pub deaf_resets: u32,
    /// Operating conditions never get ready.
    pub never_ready: bool,
    /// These bits are set in every R1.
    pub status_bits: u32,
    /// Bytes of EXT_CSD: place and value.
    pub ext_csd: Vec<(u16, u8)>,
    /// Fields of the CSD: highest bit, lowest bit, value.
    pub csd: Vec<(u8, u8, u64)>,
}

/// What lies beyond the real capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// Nothing: writes vanish, reads give zeros.
    #[default]
    Limbo,
    /// The beginning again.
    Wrap,
}

/// A worn-out card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WornOut {
    /// Writes are refused (WP_VIOLATION).
    #[default]
    ReadOnly,
    /// Writes are taken and dropped.
    Drop,
}

/// Discarded sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarded {
    /// As erased ones.
    #[default]
    Erased,
    /// FF.
    Ones,
    /// What was there.
    Old,
    /// One of these, sector by sector.
    Mixed,
}

/// Write protection of the whole card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CsdProtection {
    /// None.
    #[default]
    None,
    /// TMP_WRITE_PROTECT, which the host may clear.
    Temporary,
    /// PERM_WRITE_PROTECT.
    Permanent,
}

impl CsdProtection {
    /// Bits 5:4 of byte 14 of the CSD.
    pub(crate) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Temporary => 0x10,
            Self::Permanent => 0x20,
        }
    }
}

const MIB: u64 = 1 << 20;

impl Quirks {
    /// What a byte of erased memory reads as.
    pub(crate) fn erased(&self) -> u8 {
        if self.erases_to_ones { 0xff } else { 0 }
    }

    /// Is any byte of the range protected for ever?
    #[inline]
    pub(crate) fn protects(&self, at: u64, bytes: u64) -> bool {
        !self.protected_mib.is_empty()
            && self.protected_mib.iter().any(|&(from, count)| {
                let (from, to) = (from.saturating_mul(MIB), from.saturating_add(count).saturating_mul(MIB));
                at < to && at.saturating_add(bytes) > from
            })
    }

    /// The card was up, and is reset: it may be another one from now on, each time once.
    pub(crate) fn come_up_again(&mut self, identity: &mut Identity, capacity_bytes: &mut u64, unit: u64) {
        if std::mem::take(&mut self.changes_serial) {
            identity.serial ^= 0x00ff_00ff;
        }
        if std::mem::take(&mut self.shrinks) {
            *capacity_bytes = *capacity_bytes / 2 / unit * unit;
        }
    }

    /// The registers lie as this card's do.
    pub(crate) fn falsify_csd(&self, csd: &mut [u8; 16]) {
        for &(msb, lsb, value) in &self.csd {
            if lsb <= msb && msb < 128 {
                super::registers::put(csd, msb.into(), lsb.into(), value);
            }
        }
        if !self.csd.is_empty() {
            super::registers::seal(csd);
        }
    }

    /// The same for EXT_CSD.
    pub(crate) fn falsify_ext_csd(&self, ext_csd: &mut [u8; 512]) {
        // ERASED_MEM_CONT.
        ext_csd[181] = self.erases_to_ones.into();
        for &(place, value) in &self.ext_csd {
            if let Some(byte) = ext_csd.get_mut(usize::from(place)) {
                *byte = value;
            }
        }
    }

    /// What goes on in the flash.
    pub(crate) fn wear(&self) -> Wear {
        Wear {
            real_bytes: self.real_mib.map(|mib| mib.saturating_mul(MIB).max(512)),
            beyond: self.beyond,
            life_bytes: self.life_mib.map(|mib| mib.saturating_mul(MIB)),
            worn_out: self.worn_out,
            written_bytes: 0,
        }
    }
}

/// The flash as it is, not as the registers say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wear {
    real_bytes: Option<u64>,
    beyond: Beyond,
    life_bytes: Option<u64>,
    worn_out: WornOut,
    /// So far.
    pub(crate) written_bytes: u64,
}

impl Wear {
    /// Where a byte address really is; `None`: nowhere.
    #[inline]
    pub(crate) fn place(&self, at: u64) -> Option<u64> {
        match (self.real_bytes, self.beyond) {
            (Some(real), Beyond::Wrap) if at >= real => Some(at % real),
            (Some(real), Beyond::Limbo) if at >= real => None,
            _ => Some(at),
        }
    }

    /// How a worn-out card behaves, if it is one.
    pub(crate) fn worn_out(&self) -> Option<WornOut> {
        self.life_bytes.filter(|&life| self.written_bytes >= life).map(|_| self.worn_out)
    }

    /// Of a card with an end: how much of its life has gone, in percent, up to 100.
    pub(crate) fn used_percent(&self) -> Option<u8> {
        let life = self.life_bytes?.max(1);
        Some((self.written_bytes.min(life).saturating_mul(100) / life) as u8)
    }
}

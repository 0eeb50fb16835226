//! Quirks of memory cards: those of real ones, wrong registers, and damage beyond any contract.
//!
//! They are in the table `[quirk]` of a profile. A campaign may also set them through
//! [`super::CardProfile::quirks_mut`]. Actions of a host that such a card does not support are
//! counted in [`super::Card::violations`].

use super::odd::{OddAnswer, RegisterBytes, SpiBytes};
use super::registers::Identity;
use serde::Deserialize;

/// Quirks of a memory card; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// Source of the knowledge about the quirks.
    pub source: String,

    /// A transfer counted by CMD23 locks the card up.
    pub cmd23_locks_up: bool,
    /// Extra delay in microseconds of the first block of a read counted by CMD23, and of the end of
    /// such a write.
    pub cmd23_late_us: u64,
    /// Extra delay in ms of the first block of every 32nd read, whatever the registers declare.
    pub read_late_ms: u64,
    /// A secure erase or trim damages the erase group after its range.
    pub secure_corrupts: bool,
    /// A plain trim damages the erase group after its range.
    pub trim_corrupts: bool,
    /// A discard damages the erase group after its range (SD).
    pub discard_corrupts: bool,
    /// Time in ms of a secure erase or trim, whatever its size.
    pub secure_ms: Option<u64>,
    /// CMD38's argument is ignored: the operation is in byte 113 of EXT_CSD (eMMC).
    pub inand_cmd38: bool,
    /// A flush fails if nothing was written since power-up.
    pub flush_needs_write: bool,
    /// A flush never ends.
    pub flush_hangs: bool,
    /// The power-off notification is accepted and never answered (SD).
    pub power_off_never_ready: bool,
    /// There is no tuning block in DDR50 (SD).
    pub ddr50_tuning_fails: bool,
    /// HPI locks the card up (eMMC).
    pub hpi_breaks: bool,
    /// Blocks that an open-ended read is ahead of the host: one that is stopped so near to the last
    /// sector reports OUT_OF_RANGE (SD); 0: none.
    pub reads_ahead_blocks: u64,
    /// The card reports that only in the response after that of CMD12 (SD).
    pub tells_past_end_late: bool,
    /// Any CMD1 starts the power-up, and CMD0 before its end makes the card inactive (eMMC).
    pub reset_in_power_up_hangs: bool,
    /// An inquiry by CMD1 makes a device ready that has powered up: it answers no further CMD1
    /// (eMMC).
    pub inquiry_makes_ready: bool,
    /// Time in microseconds after an inquiry by ACMD41 within which the next one starts a power-up
    /// that never ends (SD); 0: none.
    pub inquiry_pause_us: u64,
    /// The answer to CMD8 has the pattern, and no supply (SD).
    pub no_supply_echo: bool,
    /// CMD25 is illegal, whatever the CSD declares (SD).
    pub no_multiple_write: bool,
    /// A multi-block read that reaches the last sector locks the card up (SD).
    pub last_block_locks_up: bool,
    /// With the command queue on, reads are damaged and flushes never end (SD).
    pub command_queue_broken: bool,
    /// Interval of reads through the command queue of which one returns the data after its place
    /// (SD); 0: none.
    pub queue_astray_every: u32,
    /// With the command queue on, a flush never ends (SD).
    pub queue_flush_hangs: bool,
    /// Number of tasks after which the command queue is empty, whatever was sent to it (SD); 0:
    /// never.
    pub queue_forgets_every: u32,
    /// Delay in ms after which the command queue is switched on or off (SD).
    pub queue_late_ms: u64,

    /// Real capacity in MiB; see `beyond`.
    pub real_mib: Option<u64>,
    /// What happens beyond the real capacity.
    pub beyond: Beyond,
    /// Written MiB after which the card is worn out; see `worn_out`.
    pub life_mib: Option<u64>,
    /// How a worn-out card behaves.
    pub worn_out: WornOut,
    /// Erased memory is ones, and the registers say so.
    pub erases_to_ones: bool,
    /// What discarded sectors read as until they are written.
    pub discarded: Discarded,
    /// Written MiB after which the card requests background work by its exception bit (eMMC).
    pub urgent_after_mib: Option<u64>,
    /// Written MiB after which the card's pool of system blocks is used up. Its exception bit
    /// reports that if enabled (eMMC).
    pub pool_mib: Option<u64>,
    /// Time in ms of a sanitize (eMMC).
    pub sanitize_ms: u64,
    /// Ranges that are write protected for ever: first MiB and number of MiB.
    pub protected_mib: Vec<(u64, u64)>,
    /// Write protection in the CSD.
    pub csd_protection: CsdProtection,

    /// The power is never really off: 1.8 V signalling survives a power cycle. The card also
    /// understands 3.3 V then, up to 25 MHz (SD).
    pub stuck_1v8: bool,
    /// Halves the card's capacity from its second initialisation on.
    pub shrinks: bool,
    /// The card has another serial number from the second initialisation on.
    pub changes_serial: bool,
    /// A power cut makes the sectors around those in flight unreadable as well, 16 KiB of them.
    pub neighbour_damage: bool,
    /// A power cut may tear a sector in flight even if it was to be kept whole.
    pub shorn: bool,

    /// Single answers, as [`OddAnswer`] describes them.
    pub answers: Vec<OddAnswer>,
    /// Bytes of registers that are replaced, as [`RegisterBytes`] describes them.
    pub registers: Vec<RegisterBytes>,
    /// Bytes on an SPI bus that arrive damaged, as [`SpiBytes`] describes them.
    pub spi_bytes: Vec<SpiBytes>,
    /// Number of CMD0 after power-up that the card needs before it receives anything else; 0: none.
    pub deaf_resets: u32,
    /// The operating conditions never become ready.
    pub never_ready: bool,
    /// Bits that are set in every R1.
    pub status_bits: u32,
    /// Bytes of EXT_CSD: place and value.
    pub ext_csd: Vec<(u16, u8)>,
    /// Fields of the CSD: highest bit, lowest bit, value.
    pub csd: Vec<(u8, u8, u64)>,
}

/// Behaviour beyond the real capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// Writes are lost, reads return zeros.
    #[default]
    Limbo,
    /// Addresses start again at 0.
    Wrap,
}

/// Behaviour of a worn-out card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WornOut {
    /// Writes are refused (WP_VIOLATION).
    #[default]
    ReadOnly,
    /// Writes are accepted and dropped.
    Drop,
}

/// Content of discarded sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarded {
    /// As erased ones.
    #[default]
    Erased,
    /// FF.
    Ones,
    /// The content before.
    Old,
    /// One of these, different from sector to sector.
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

/// TMP_WRITE_PROTECT in byte 14 of the CSD.
pub(crate) const TMP_WRITE_PROTECT: u8 = 0x10;

impl CsdProtection {
    /// Returns bits 5:4 of byte 14 of the CSD.
    pub(crate) fn flags(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Temporary => TMP_WRITE_PROTECT,
            Self::Permanent => 0x20,
        }
    }
}

const MIB: u64 = 1 << 20;

impl Quirks {
    /// Returns the value of a byte of erased memory.
    pub(crate) fn erased(&self) -> u8 {
        if self.erases_to_ones { 0xff } else { 0 }
    }

    /// Returns whether any byte of the range is protected for ever.
    #[inline]
    pub(crate) fn protects(&self, at: u64, bytes: u64) -> bool {
        !self.protected_mib.is_empty()
            && self.protected_mib.iter().any(|&(from, count)| {
                let (from, to) = (from.saturating_mul(MIB), from.saturating_add(count).saturating_mul(MIB));
                at < to && at.saturating_add(bytes) > from
            })
    }

    /// Applies the changes of a card that is initialised again: serial number and capacity, each
    /// once.
    pub(crate) fn come_up_again(&mut self, identity: &mut Identity, capacity_bytes: &mut u64, unit: u64) {
        if std::mem::take(&mut self.changes_serial) {
            identity.serial ^= 0x00ff_00ff;
        }
        if std::mem::take(&mut self.shrinks) {
            *capacity_bytes = *capacity_bytes / 2 / unit * unit;
        }
    }

    /// Puts wrong values into the CSD.
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

    /// Puts wrong values into EXT_CSD.
    pub(crate) fn falsify_ext_csd(&self, ext_csd: &mut [u8; 512]) {
        // ERASED_MEM_CONT.
        ext_csd[181] = self.erases_to_ones.into();
        for &(place, value) in &self.ext_csd {
            if let Some(byte) = ext_csd.get_mut(usize::from(place)) {
                *byte = value;
            }
        }
    }

    /// Returns the real state of the flash.
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

/// Real capacity and life of the flash, independent of the registers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wear {
    real_bytes: Option<u64>,
    beyond: Beyond,
    life_bytes: Option<u64>,
    worn_out: WornOut,
    /// Bytes written so far.
    pub(crate) written_bytes: u64,
}

impl Wear {
    /// Returns the real place of a byte address; `None`: there is none.
    #[inline]
    pub(crate) fn place(&self, at: u64) -> Option<u64> {
        match (self.real_bytes, self.beyond) {
            (Some(real), Beyond::Wrap) if at >= real => Some(at % real),
            (Some(real), Beyond::Limbo) if at >= real => None,
            _ => Some(at),
        }
    }

    /// Returns the behaviour of a worn-out card, if it is worn out.
    pub(crate) fn worn_out(&self) -> Option<WornOut> {
        self.life_bytes.filter(|&life| self.written_bytes >= life).map(|_| self.worn_out)
    }

    /// Returns the used part of the card's life in percent, up to 100, if its life is limited.
    pub(crate) fn used_percent(&self) -> Option<u8> {
        let life = self.life_bytes?.max(1);
        Some((self.written_bytes.min(life).saturating_mul(100) / life) as u8)
    }
}

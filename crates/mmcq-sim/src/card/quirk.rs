//! Quirks of memory cards: faults of real cards, wrong register values, and damage that no standard
//! allows.
//!
//! The table `[quirk]` of a profile sets them. A torture campaign can also set them by
//! [`super::CardProfile::quirks_mut`]. [`super::Card::violations`] lists the actions of a host that
//! a card with quirks does not support.

use super::odd::{OddAnswer, RegisterBytes, SpiBytes};
use super::registers::Identity;
use serde::Deserialize;

/// Quirks of a memory card; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// Where the knowledge about the quirks comes from.
    pub source: String,

    /// The card locks up (ignores everything until power-off) at a closed-ended transfer (after
    /// CMD23).
    pub cmd23_locks_up: bool,
    /// Extra delay in microseconds of the first block of a closed-ended read (after CMD23), and of
    /// the end of a closed-ended write.
    pub cmd23_late_us: u64,
    /// Extra delay in ms of the first block of every 32nd read; the registers do not declare it.
    pub read_late_ms: u64,
    /// A secure erase or secure trim damages the erase group after its range.
    pub secure_corrupts: bool,
    /// A trim damages the erase group after its range.
    pub trim_corrupts: bool,
    /// A discard damages the allocation unit (AU) after its range (SD).
    pub discard_corrupts: bool,
    /// Time in ms of a secure erase or secure trim of any size; `None`: the usual time.
    pub secure_ms: Option<u64>,
    /// True: the card ignores the argument of CMD38 and takes the operation from byte 113 of
    /// EXT_CSD (eMMC).
    pub inand_cmd38: bool,
    /// A cache flush fails if nothing was written since power-up.
    pub flush_needs_write: bool,
    /// True: a cache flush never ends, and the card stays busy.
    pub flush_hangs: bool,
    /// The card accepts the power-off notification and never reports that it is ready for power-off
    /// (SD).
    pub power_off_never_ready: bool,
    /// The card sends no tuning block in DDR50 (SD).
    pub ddr50_tuning_fails: bool,
    /// An HPI (high priority interrupt) locks the card up (eMMC).
    pub hpi_breaks: bool,
    /// Number of blocks by which an open-ended read runs ahead of the host. If the host stops a
    /// read so near to the end of the card, the card reports OUT_OF_RANGE (SD). 0: no such report.
    pub reads_ahead_blocks: u64,
    /// The card reports the OUT_OF_RANGE of `reads_ahead_blocks` in the response after the response
    /// to CMD12 (SD).
    pub tells_past_end_late: bool,
    /// Any CMD1 starts the power-up, and a CMD0 before the power-up ends makes the card inactive
    /// (eMMC).
    pub reset_in_power_up_hangs: bool,
    /// True: an inquiry by CMD1 (without voltages in its argument) makes a powered-up device ready,
    /// so that it does not answer a further CMD1 (eMMC).
    pub inquiry_makes_ready: bool,
    /// Time in microseconds after an inquiry by ACMD41 (without voltages in its argument) in which
    /// a further ACMD41 starts a power-up that never ends (SD); 0: none.
    pub inquiry_pause_us: u64,
    /// The response to CMD8 repeats the check pattern, but not the supply voltage (SD).
    pub no_supply_echo: bool,
    /// Size of a reliable write in sectors, on an eMMC before 4.41: a reliable write has one
    /// sector, or this many sectors at an address that is a multiple of this number (eMMC). 0: a
    /// reliable write may have any size.
    pub reliable_unit: u8,
    /// True: CMD25 is illegal, although the CSD declares its command class (SD).
    pub no_multiple_write: bool,
    /// A multi-block read that reaches the last sector locks the card up (SD).
    pub last_block_locks_up: bool,
    /// With the command queue on, reads are damaged and flushes never end (SD).
    pub command_queue_broken: bool,
    /// Interval n of wrong reads: each n-th executed task, if it is a read, returns the blocks that
    /// follow its range (SD); 0: never.
    pub queue_astray_every: u32,
    /// True: a flush never ends while the command queue is on (SD).
    pub queue_flush_hangs: bool,
    /// Interval n of losses: at each n-th executed task the card also empties its queue, so that
    /// waiting tasks are lost (SD); 0: never.
    pub queue_forgets_every: u32,
    /// Delay in ms until a switch of the command queue takes effect (SD).
    pub queue_late_ms: u64,

    /// Real capacity of the flash in MiB; `None`: the capacity in the registers. `beyond` says what
    /// happens above it.
    pub real_mib: Option<u64>,
    /// What accesses beyond the real capacity do.
    pub beyond: Beyond,
    /// Number of written MiB after which the card is worn out; `worn_out` says how it behaves then.
    pub life_mib: Option<u64>,
    /// What the card does when it is worn out, such as refuse writes.
    pub worn_out: WornOut,
    /// True: erased memory reads as ones, and the registers declare it.
    pub erases_to_ones: bool,
    /// What a read of discarded sectors returns until they are written again.
    pub discarded: Discarded,
    /// Number of written MiB after which the card requests background work by EXCEPTION_EVENT
    /// (eMMC).
    pub urgent_after_mib: Option<u64>,
    /// Number of written MiB after which the card's pool of system blocks is used up. The card
    /// reports it by EXCEPTION_EVENT if the host has enabled this event (eMMC).
    pub pool_mib: Option<u64>,
    /// Time in ms of a sanitize (eMMC).
    pub sanitize_ms: u64,
    /// Ranges that are write protected permanently: first MiB and number of MiB.
    pub protected_mib: Vec<(u64, u64)>,
    /// Write protection of the whole card that the CSD shows.
    pub csd_protection: CsdProtection,

    /// The power of the card never goes off completely: 1.8 V signalling survives a power cycle.
    /// After the power cycle the card also understands 3.3 V, up to 25 MHz (SD).
    pub stuck_1v8: bool,
    /// True: the card has half of its capacity from its second initialisation on.
    pub shrinks: bool,
    /// True: the card has another serial number from the second initialisation on.
    pub changes_serial: bool,
    /// A power cut also destroys the other sectors of the 16 KiB page around each sector that is
    /// being programmed.
    pub neighbour_damage: bool,
    /// True: a power cut may tear a sector that is being programmed even if the test wants to keep
    /// it whole.
    pub shorn: bool,

    /// Wrong answers to single commands.
    pub answers: Vec<OddAnswer>,
    /// Replacement bytes for registers.
    pub registers: Vec<RegisterBytes>,
    /// Bytes that arrive damaged on an SPI bus.
    pub spi_bytes: Vec<SpiBytes>,
    /// Number of CMD0 that the card needs after power-up. Until it has received that many CMD0, it
    /// ignores all commands. 0: it needs none.
    pub deaf_resets: u32,
    /// Time in ms for which the card holds DAT0 low after CMD7 has selected it.
    pub select_busy_ms: u64,
    /// The card never becomes ready after CMD1 or ACMD41.
    pub never_ready: bool,
    /// Bytes of EXT_CSD that CMD6 cannot write: the card reports SWITCH_ERROR (eMMC).
    pub refused_switches: Vec<u8>,
    /// Bits that the card sets in every R1.
    pub status_bits: u32,
    /// Bytes of EXT_CSD whose values the profile replaces: index and new value.
    pub ext_csd: Vec<(u16, u8)>,
    /// Fields of the CSD whose values the profile replaces: highest bit, lowest bit and new value.
    pub csd: Vec<(u8, u8, u64)>,
}

/// Behaviour of accesses beyond the real capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beyond {
    /// Behind the real capacity, writes are lost and reads return zeros.
    #[default]
    Limbo,
    /// Addresses start again at 0, so that old data are overwritten.
    Wrap,
}

/// Behaviour of a worn-out card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WornOut {
    /// The card refuses writes (WP_VIOLATION).
    #[default]
    ReadOnly,
    /// The card accepts writes and drops their data.
    Drop,
}

/// What a read of a discarded sector returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discarded {
    /// Discarded sectors read as erased sectors do.
    #[default]
    Erased,
    /// Discarded sectors read as FFh.
    Ones,
    /// Discarded sectors keep the content from before the discard.
    Old,
    /// Each discarded sector reads as 00h, as FFh, or with its content from before the discard. The
    /// choice differs from sector to sector.
    Mixed,
}

/// Write protection of the whole card by its CSD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CsdProtection {
    /// The card is not write protected.
    #[default]
    None,
    /// TMP_WRITE_PROTECT is set, and the host may clear it.
    Temporary,
    /// PERM_WRITE_PROTECT is set, and stays set.
    Permanent,
}

/// Bit TMP_WRITE_PROTECT in byte 14 of the CSD.
pub(crate) const TMP_WRITE_PROTECT: u8 = 0x10;

impl CsdProtection {
    /// Returns the write protection bits of byte 14 of the CSD (bits 5:4).
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
    /// Returns the value that each byte of erased memory reads as.
    pub(crate) fn erased(&self) -> u8 {
        if self.erases_to_ones { 0xff } else { 0 }
    }

    /// Returns whether any of the `bytes` bytes from byte address `at` on is write protected
    /// permanently.
    #[inline]
    pub(crate) fn protects(&self, at: u64, bytes: u64) -> bool {
        !self.protected_mib.is_empty()
            && self.protected_mib.iter().any(|&(from, count)| {
                let (from, to) = (from.saturating_mul(MIB), from.saturating_add(count).saturating_mul(MIB));
                at < to && at.saturating_add(bytes) > from
            })
    }

    /// Applies the quirks that show at the second initialisation: the card gets another serial
    /// number or half its capacity (in multiples of `unit` bytes). Each happens once.
    pub(crate) fn come_up_again(&mut self, identity: &mut Identity, capacity_bytes: &mut u64, unit: u64) {
        if std::mem::take(&mut self.changes_serial) {
            identity.serial ^= 0x00ff_00ff;
        }
        if std::mem::take(&mut self.shrinks) {
            *capacity_bytes = *capacity_bytes / 2 / unit * unit;
        }
    }

    /// Writes the wrong values of the quirk `csd` into a CSD.
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

    /// Writes the wrong values of the quirk `ext_csd` into an EXT_CSD.
    pub(crate) fn falsify_ext_csd(&self, ext_csd: &mut [u8; 512]) {
        // Byte ERASED_MEM_CONT of EXT_CSD.
        ext_csd[181] = self.erases_to_ones.into();
        for &(place, value) in &self.ext_csd {
            if let Some(byte) = ext_csd.get_mut(usize::from(place)) {
                *byte = value;
            }
        }
    }

    /// Returns the state of wear of a new card: its real capacity, after how many written bytes it
    /// is worn out, and what happens beyond each.
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

/// Real capacity and life of the flash. The registers may show other values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wear {
    real_bytes: Option<u64>,
    beyond: Beyond,
    life_bytes: Option<u64>,
    worn_out: WornOut,
    /// Number of bytes written over the card's life.
    pub(crate) written_bytes: u64,
}

impl Wear {
    /// Returns the byte address in the real flash for byte address `at` of the card; `None` if the
    /// flash does not have this byte.
    #[inline]
    pub(crate) fn place(&self, at: u64) -> Option<u64> {
        match (self.real_bytes, self.beyond) {
            (Some(real), Beyond::Wrap) if at >= real => Some(at % real),
            (Some(real), Beyond::Limbo) if at >= real => None,
            _ => Some(at),
        }
    }

    /// Returns the behaviour of a worn-out card; `None` if the card is not worn out.
    pub(crate) fn worn_out(&self) -> Option<WornOut> {
        self.life_bytes.filter(|&life| self.written_bytes >= life).map(|_| self.worn_out)
    }

    /// Returns the used part of the card's life in percent, at most 100; `None` if its life has no
    /// limit.
    pub(crate) fn used_percent(&self) -> Option<u8> {
        let life = self.life_bytes?.max(1);
        Some((self.written_bytes.min(life).saturating_mul(100) / life) as u8)
    }
}

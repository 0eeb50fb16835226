//! Identity registers of an SD card [SD 5].

use super::super::flash::Timing;
use super::super::queue::QueueConfig;
use super::super::quirk::Quirks;
use super::super::registers::{Identity, put, sd_cid, seal};

/// Version of the physical layer specification that the card follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spec {
    V1_01,
    V1_10,
    V2,
    V3,
    V4,
    V5,
    V6,
    /// Version 7.xx of the specification.
    V7,
}

/// Capacity class of the card, which decides how commands address it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Standard capacity: byte addresses, CSD version 1.
    Sdsc,
    /// High capacity: block addresses, CSD version 2.
    Sdhc,
    /// Extended capacity: block addresses, CSD version 2, more than 32 GiB.
    Sdxc,
    /// Ultra capacity: block addresses of 38 bits, CSD version 3, more than 2 TiB.
    Sduc,
}

/// Bus speed modes that the card supports: the functions of CMD6's group 1. At 3.3 V the card has
/// default speed, and high speed if `high_speed` is set. At 1.8 V it has SDR12 and the modes in
/// `uhs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) high_speed: bool,
    /// UHS modes: bits 0 SDR12, 1 SDR25, 2 SDR50, 3 SDR104, 4 DDR50.
    pub(crate) uhs: u8,
}

/// Configuration of an SD card, without its medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SdConfig {
    pub(crate) identity: Identity,
    pub(crate) capacity_bytes: u64,
    pub(crate) class: Class,
    pub(crate) spec: Spec,
    pub(crate) modes: Modes,
    pub(crate) cmd23: bool,
    pub(crate) speed_class: u8,
    pub(crate) uhs_grade: u8,
    pub(crate) video_class: u8,
    pub(crate) app_class: u8,
    pub(crate) au_bytes: u64,
    pub(crate) early_out_of_range: bool,
    /// Whether the card has a volatile write cache (performance function).
    pub(crate) cache: bool,
    /// Whether the card supports the power-off notification (power management function).
    pub(crate) power_off_notification: bool,
    /// The command queue; `None`: the card has none.
    pub(crate) queue: Option<QueueConfig>,
    pub(crate) power_up_ns: u64,
    pub(crate) voltage_release_ns: u64,
    pub(crate) flash: Timing,
    pub(crate) quirks: Quirks,
}

/// Returns C_SIZE, C_SIZE_MULT and READ_BL_LEN of a CSD version 1 for this capacity; `None` if no
/// values give exactly this capacity.
pub(crate) fn csd1_size(capacity_bytes: u64) -> Option<(u64, u64, u64)> {
    for block_len in 9..=11u64 {
        for mult in (0..=7u64).rev() {
            let unit = 1u64 << (block_len + mult + 2);
            if capacity_bytes.is_multiple_of(unit) && (1..=4096).contains(&(capacity_bytes / unit)) {
                return Some((capacity_bytes / unit - 1, mult, block_len));
            }
        }
    }
    None
}

impl SdConfig {
    pub(crate) fn block_addressed(&self) -> bool {
        self.class != Class::Sdsc
    }

    /// Returns the block length in bytes that reads and writes have after a reset: READ_BL_LEN of
    /// the CSD.
    pub(super) fn default_block_len(&self) -> u16 {
        match csd1_size(self.capacity_bytes) {
            Some((.., block_len)) if self.class == Class::Sdsc => 1 << block_len,
            _ => 512,
        }
    }

    pub(crate) fn cid(&self) -> [u8; 16] {
        sd_cid(&self.identity)
    }

    /// Returns the CSD with this value of the field TRAN_SPEED [SD 5.3].
    pub(crate) fn csd(&self, tran_speed: u8) -> [u8; 16] {
        let mut csd = [0u8; 16];
        put(&mut csd, 103, 96, tran_speed.into());
        // Command classes 0, 2, 4, 5, 7 and 8; from version 1.10 on also 10 (CMD6).
        put(&mut csd, 95, 84, if self.spec >= Spec::V1_10 { 0x5b5 } else { 0x1b5 });
        // Erase unit of one block, erase sector of 64 KiB, write protect group of one sector;
        // R2W_FACTOR 4.
        put(&mut csd, 46, 46, 1);
        put(&mut csd, 45, 39, 0x7f);
        put(&mut csd, 28, 26, 2);
        if self.class == Class::Sdsc {
            let (c_size, mult, block_len) = csd1_size(self.capacity_bytes).unwrap_or((0, 0, 9));
            // TAAC 1.5 ms.
            put(&mut csd, 119, 112, 0x26);
            put(&mut csd, 83, 80, block_len);
            // READ_BL_PARTIAL is always 1 for SDSC.
            put(&mut csd, 79, 79, 1);
            put(&mut csd, 73, 62, c_size);
            // Current fields VDD_R_CURR and VDD_W_CURR: code 5 each, 35 mA at the minimum and 45 mA
            // at the maximum voltage.
            put(&mut csd, 61, 50, 0o5555);
            put(&mut csd, 49, 47, mult);
            put(&mut csd, 25, 22, block_len);
        } else {
            let size = self.capacity_bytes / (512 * 1024) - 1;
            put(&mut csd, 127, 126, if self.class == Class::Sduc { 2 } else { 1 });
            // TAAC 1 ms, a fixed value in CSD version 2.
            put(&mut csd, 119, 112, 0x0e);
            put(&mut csd, 83, 80, 9);
            put(&mut csd, if self.class == Class::Sduc { 75 } else { 69 }, 48, size);
            put(&mut csd, 25, 22, 9);
        }
        seal(&mut csd);
        csd
    }

    /// Returns the SCR [SD 5.6].
    pub(crate) fn scr(&self) -> [u8; 8] {
        let mut scr = [0u8; 8];
        let sd_spec = match self.spec {
            Spec::V1_01 => 0,
            Spec::V1_10 => 1,
            _ => 2,
        };
        put(&mut scr, 59, 56, sd_spec);
        let security = match self.class {
            Class::Sdsc => 2,
            Class::Sdhc => 3,
            Class::Sdxc | Class::Sduc => 4,
        };
        // Bit DATA_STAT_AFTER_ERASE: the value of erased memory.
        put(&mut scr, 55, 55, self.quirks.erases_to_ones.into());
        put(&mut scr, 54, 52, security);
        put(&mut scr, 51, 48, 0b0101);
        put(&mut scr, 47, 47, (self.spec >= Spec::V3).into());
        put(&mut scr, 42, 42, (self.spec >= Spec::V4).into());
        let specx = match self.spec {
            Spec::V5 => 1,
            Spec::V6 => 2,
            Spec::V7 => 3,
            _ => 0,
        };
        put(&mut scr, 41, 38, specx);
        put(&mut scr, 33, 33, self.cmd23.into());
        put(&mut scr, 34, 34, self.has_extensions().into());
        scr
    }

    /// Returns the queue depth in the code of the registers: 0 is no queue, 1 is a queue of two
    /// tasks [SD 4.10.2, 5.8.2].
    pub(crate) fn shown_depth(&self) -> u8 {
        self.queue.map_or(0, |queue| queue.depth.saturating_sub(1) & 0x1f)
    }

    /// Returns the SD status [SD 4.10.2]; `width` is the number of data lines in use.
    pub(crate) fn sd_status(&self, width: u8) -> [u8; 64] {
        let mut ssr = [0u8; 64];
        put(&mut ssr, 511, 510, if width == 4 { 2 } else { 0 });
        let speed_class = match self.speed_class {
            10 => 4,
            6 => 3,
            4 => 2,
            2 => 1,
            _ => 0,
        };
        put(&mut ssr, 447, 440, speed_class);
        put(&mut ssr, 431, 428, au_code(self.au_bytes));
        // ERASE_SIZE, ERASE_TIMEOUT, ERASE_OFFSET: one AU (allocation unit) in about a second,
        // offset of one second.
        put(&mut ssr, 423, 408, 1);
        put(&mut ssr, 407, 402, 1);
        put(&mut ssr, 401, 400, 1);
        put(&mut ssr, 399, 396, self.uhs_grade.into());
        if self.uhs_grade > 0 {
            put(&mut ssr, 395, 392, au_code(self.au_bytes));
        }
        put(&mut ssr, 391, 384, self.video_class.into());
        put(&mut ssr, 339, 336, self.app_class.into());
        put(&mut ssr, 335, 331, self.shown_depth().into());
        put(&mut ssr, 330, 330, self.cache.into());
        put(&mut ssr, 313, 313, (self.spec >= Spec::V5).into());
        ssr
    }
}

/// Returns the AU_SIZE code of a size in bytes: 16 KiB << (code - 1) up to 4 MiB; larger sizes
/// include 12 and 24 MiB.
fn au_code(bytes: u64) -> u64 {
    const MIB: [u64; 6] = [8, 12, 16, 24, 32, 64];
    match bytes / 1024 {
        kib @ 16..=4096 => u64::from(kib.ilog2()) - 3,
        kib => match MIB.iter().position(|mib| mib * 1024 == kib) {
            Some(place) => 10 + place as u64,
            None => 0,
        },
    }
}

/// Returns whether an AU_SIZE code exists for this size in KiB.
pub(crate) fn au_is_sayable(kib: u64) -> bool {
    let small = (16..=4096).contains(&kib) && kib.is_power_of_two();
    small || [8, 12, 16, 24, 32, 64].iter().any(|mib| mib * 1024 == kib)
}

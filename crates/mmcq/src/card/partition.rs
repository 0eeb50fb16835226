//! The other partitions of an eMMC: boot areas and general purpose partitions [eMMC 6.2].
//!
//! Data of these partitions are read and written by
//! [`PartitionAccess`](crate::engine::PartitionAccess): the engine waits until its queue is empty,
//! and then switches the card to the partition and back. No other request is executed in between.
//! RPMB is a partition as well, but cannot be read and written as blocks: see the module `rpmb`
//! (feature of the same name).

use super::session::Session;
use super::{Card, Family};
use crate::engine::{BLOCK_BYTES, DmaBuf, Error};
use crate::spec::command::emmc;
use crate::spec::ext_csd::ExtCsd;
use crate::task::{Platform, Stack};

/// A partition of an eMMC other than the user area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The first boot area.
    Boot1,
    /// The second boot area.
    Boot2,
    /// A general purpose partition, 1 to 4.
    General(u8),
    /// The replay-protected area (RPMB), which cannot be read and written as blocks.
    Rpmb,
}

impl Area {
    /// Returns the partition's access bits in PARTITION_CONFIG; 0 if no such partition exists.
    pub const fn access(self) -> u8 {
        match self {
            Area::Boot1 => 1,
            Area::Boot2 => 2,
            Area::Rpmb => 3,
            Area::General(number @ 1..=4) => 3 + number,
            Area::General(_) => 0,
        }
    }
}

/// A partition's parameters from EXT_CSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// Value of PARTITION_CONFIG that selects the partition.
    pub config: u8,
    /// Longest time of a switch to the partition, in nanoseconds.
    pub switch_ns: u64,
    /// Size in blocks of 512 bytes.
    pub blocks: u32,
    /// Whether the partition is write-protected, until the next power cycle or for ever.
    pub protected: bool,
    /// RPMB: largest number of 256-byte units in one authenticated write.
    pub rpmb_write_units: u16,
}

/// Reads the parameters of a partition. Returns [`Error::Unsupported`] if the card is not an eMMC
/// or has no such partition.
pub async fn layout<B: Platform, const N: usize>(
    stack: &Stack<B, N>,
    card: &Card,
    scratch: DmaBuf,
    area: Area,
) -> (Result<Layout, Error>, DmaBuf) {
    if !matches!(card.family, Family::Emmc(_)) || area.access() == 0 {
        return (Err(Error::Unsupported), scratch);
    }
    let mut session = Session::with(stack, scratch, card);
    let layout = match session.register(emmc::send_ext_csd(), false, 512).await {
        Ok(_) => session.bytes().ok().map(|bytes| ExtCsd::parse(bytes).map(|ext| of(&ext, area))),
        Err(_) => None,
    };
    let result = match layout {
        Some(Ok(layout)) if layout.blocks == 0 => Err(Error::Unsupported),
        Some(Ok(layout)) => Ok(layout),
        Some(Err(error)) => Err(error.into()),
        None => Err(session.error),
    };
    (result, session.into_scratch())
}

fn of(ext: &ExtCsd<'_>, area: Area) -> Layout {
    let bytes = match area {
        Area::Boot1 | Area::Boot2 => ext.boot_bytes(),
        Area::Rpmb => ext.rpmb_bytes(),
        Area::General(number) => ext.gp_bytes(number),
    };
    // BOOT_WP_STATUS has two bits for each area: 0 is no protection, 1 until power-off, 2 for ever.
    let protected = match area {
        Area::Boot1 => ext.boot_wp_status() & 3 != 0,
        Area::Boot2 => ext.boot_wp_status() >> 2 & 3 != 0,
        _ => false,
    };
    Layout {
        config: ext.partition_config() & !7 | area.access(),
        switch_ns: ext.part_switch_time_ns(),
        blocks: u32::try_from(bytes / u64::from(BLOCK_BYTES)).unwrap_or(u32::MAX),
        protected,
        rpmb_write_units: match (ext.wr_rel_param() & 1 << 4 != 0, ext.rel_wr_sec_c()) {
            (true, _) => 32,
            (false, 0) => 1,
            (false, _) => 2,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_bits_and_sizes() {
        let mut bytes = [0; 512];
        (bytes[224], bytes[221]) = (1, 1);
        bytes[143..146].copy_from_slice(&[3, 0, 0]);
        (bytes[226], bytes[168]) = (32, 4);
        (bytes[179], bytes[174], bytes[166]) = (0x48, 0b0100, 1 << 4);
        let ext = ExtCsd::parse(&bytes).unwrap();
        let boot = of(&ext, Area::Boot1);
        assert_eq!((boot.config, boot.blocks, boot.protected), (0x49, 8192, false));
        assert!(of(&ext, Area::Boot2).protected);
        assert_eq!(of(&ext, Area::General(1)).blocks, 3 * 1024);
        assert_eq!(of(&ext, Area::General(2)).blocks, 0);
        assert_eq!(Area::General(4).access(), 7);
        assert_eq!(Area::General(5).access(), 0);
        let rpmb = of(&ext, Area::Rpmb);
        assert_eq!((rpmb.config & 7, rpmb.blocks, rpmb.rpmb_write_units), (3, 1024, 32));
    }
}

//! Memory other than the program's blocks that a controller reads and writes: descriptors and
//! registers of the card.

use crate::sizes::DESCRIPTORS;
use mmcq::card::SCRATCH_BYTES;
use mmcq::host::sdhci::Table;

/// Memory for registers of a card; it consists of whole cache lines on every machine.
#[repr(C, align(128))]
pub(crate) struct Scratch(pub [u8; SCRATCH_BYTES as usize]);

impl Scratch {
    const fn new() -> Self {
        Scratch([0; SCRATCH_BYTES as usize])
    }
}

/// The memory of one controller. Any content is valid. In `mmcq.h` its length is `MMCQ_DMA_BYTES`.
#[repr(C, align(128))]
pub(crate) struct Room {
    pub table: Table<DESCRIPTORS>,
    pub scratch: Scratch,
    /// Memory for registers of the card that the supervisor uses.
    pub supervisor_scratch: Scratch,
}

const _: () = assert!(size_of::<Room>() == Table::<DESCRIPTORS>::BYTES.next_multiple_of(128) + 1024);

impl Room {
    pub const fn new() -> Self {
        Room { table: Table::new(), scratch: Scratch::new(), supervisor_scratch: Scratch::new() }
    }
}

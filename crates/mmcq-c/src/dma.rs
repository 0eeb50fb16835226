//! Memory other than the program's blocks that a controller reads and writes: descriptors and
//! registers of the card.

use crate::sizes::DESCRIPTORS;
use mmcq::card::SCRATCH_BYTES;
#[cfg(feature = "rtsx")]
use mmcq::host::rtsx::Buffers;
use mmcq::host::sdhci::Table;
#[cfg(feature = "stm32-sdmmc")]
use mmcq::host::stm32_sdmmc::Pieces;

/// Buffer into which the card's registers (such as EXT_CSD) are read. It consists of whole cache
/// lines on every machine.
#[repr(C, align(128))]
pub(crate) struct Scratch(pub [u8; SCRATCH_BYTES as usize]);

impl Scratch {
    const fn new() -> Self {
        Scratch([0; SCRATCH_BYTES as usize])
    }
}

/// The lists and buffers that the drivers write for their controllers.
#[repr(C)]
pub(crate) struct Lists {
    /// Memory of the driver of Realtek's card reader: its list of register accesses, and its DMA
    /// table.
    #[cfg(feature = "rtsx")]
    pub buffers: Buffers,
    /// The bounce buffer of ST's SDMMC. It is at the begin of cache lines.
    #[cfg(feature = "stm32-sdmmc")]
    pub pieces: Pieces<1>,
    /// The descriptors of an SDHCI controller.
    pub table: Table<DESCRIPTORS>,
}

impl Lists {
    const fn new() -> Self {
        Lists {
            #[cfg(feature = "rtsx")]
            buffers: Buffers::new(),
            #[cfg(feature = "stm32-sdmmc")]
            pieces: Pieces::new(),
            table: Table::new(),
        }
    }
}

/// Memory that one controller reads and writes: lists, and registers of the card. Any content is
/// valid. In `mmcq.h` its length is `MMCQ_DMA_BYTES`.
#[repr(C, align(128))]
pub(crate) struct Room {
    pub lists: Lists,
    pub scratch: Scratch,
    /// Buffer into which the supervisor reads the card's registers.
    pub supervisor_scratch: Scratch,
}

/// Length of the lists except Realtek's, which `mmcq.h` has as `MMCQ_LIST_BYTES`.
const LIST_BYTES: usize = Table::<DESCRIPTORS>::BYTES + if cfg!(feature = "stm32-sdmmc") { 576 } else { 0 };
#[cfg(not(feature = "rtsx"))]
const _: () = assert!(size_of::<Room>() == LIST_BYTES.next_multiple_of(128) + 1024);
#[cfg(feature = "rtsx")]
const _: () =
    assert!(size_of::<Room>() == LIST_BYTES.next_multiple_of(1024) + 4096 && align_of::<Room>() == 1024);
#[cfg(feature = "stm32-sdmmc")]
const _: () = assert!(core::mem::offset_of!(Lists, pieces).is_multiple_of(128));

impl Room {
    pub const fn new() -> Self {
        Room { lists: Lists::new(), scratch: Scratch::new(), supervisor_scratch: Scratch::new() }
    }
}

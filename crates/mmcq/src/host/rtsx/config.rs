//! Settings of the reader that the board knows and the driver cannot read.

use crate::host::{DmaError, Width};
use core::fmt;

/// Realtek's PCI vendor number.
const VENDOR: u16 = 0x10ec;

/// A chip that this driver supports. It is identified by the PCI function, not by its registers.
///
/// The RTL8411 family switches its power in another way, and the chips from RTS5260 on have another
/// PLL or another power: the driver must not touch those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chip {
    /// 10ec:5209.
    Rts5209,
    /// 10ec:5227.
    Rts5227,
    /// 10ec:522a.
    Rts522a,
    /// 10ec:5229.
    Rts5229,
    /// 10ec:5249.
    Rts5249,
    /// 10ec:524a.
    Rts524a,
    /// 10ec:525a.
    Rts525a,
}

impl Chip {
    /// Returns the chip with these PCI IDs.
    ///
    /// # Errors
    /// [`RtsxInitError::Chip`] for any other.
    pub const fn of_pci(vendor: u16, device: u16) -> Result<Chip, RtsxInitError> {
        Ok(match (vendor, device) {
            (VENDOR, 0x5209) => Chip::Rts5209,
            (VENDOR, 0x5227) => Chip::Rts5227,
            (VENDOR, 0x522a) => Chip::Rts522a,
            (VENDOR, 0x5229) => Chip::Rts5229,
            (VENDOR, 0x5249) => Chip::Rts5249,
            (VENDOR, 0x524a) => Chip::Rts524a,
            (VENDOR, 0x525a) => Chip::Rts525a,
            _ => return Err(RtsxInitError::Chip { vendor, device }),
        })
    }
}

/// A reader and its board.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct RtsxConfig {
    /// The chip.
    pub chip: Chip,
    /// Whether data of an open transfer can be transferred without a command:
    /// [`Caps::continue_data`](crate::host::Caps::continue_data).
    pub continue_data: bool,
    /// Whether the chip can also wait for the end of busy after written data (it can after a
    /// response). The end of a write is then an interrupt, and the engine does not poll. Known
    /// drivers never use it there, so it is off unless tried on the very chip.
    pub busy_after_data: bool,
    /// Whether the CPU sees what the chip writes into the list's memory without further measures.
    /// The driver asks [`Dma`](crate::host::Dma) only for a mapping for `Write`, so this is true on
    /// x86, unless an IOMMU forbids it. Responses then come with the end of the list. Otherwise
    /// they are read byte by byte through `HAIMR`.
    pub coherent: bool,
    /// Fastest SD clock that the board's wires support, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that are wired, at most four.
    pub width: Width,
    /// Whether the socket has a supply for 1.8 V signalling.
    pub signal18: bool,
    /// Whether the card is soldered: its presence is never checked.
    pub fixed: bool,
    /// Phase of the host's output in SDR50 and SDR104, 0 to 31; depends on the board.
    pub send_phase: u8,
    /// Phase of the sampling in these modes before (or without) tuning, 0 to 31.
    pub sample_phase: u8,
}

setters!(RtsxConfig {
    chip: Chip,
    continue_data: bool,
    busy_after_data: bool,
    coherent: bool,
    max_clock_hz: u32,
    width: Width,
    signal18: bool,
    fixed: bool,
    send_phase: u8,
    sample_phase: u8,
});

impl RtsxConfig {
    /// Makes settings with all functions, for a card in a slot.
    pub const fn new(chip: Chip) -> Self {
        RtsxConfig {
            chip,
            continue_data: true,
            busy_after_data: false,
            coherent: false,
            max_clock_hz: u32::MAX,
            width: Width::W4,
            signal18: true,
            fixed: false,
            send_phase: 26,
            sample_phase: 12,
        }
    }
}

/// Why the driver cannot be made.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtsxInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The PCI function is not one that the driver supports.
    Chip {
        /// Its vendor.
        vendor: u16,
        /// Its device.
        device: u16,
    },
    /// The platform invalidates cache lines of this many bytes. The chip writes bytes by DMA, and
    /// the invalidation would destroy the rest of a line.
    CacheLines(u32),
    /// The list's memory cannot be mapped, or is out of the chip's reach (32 bits).
    List(DmaError),
    /// The table's memory cannot be mapped, or is out of the chip's reach.
    Table(DmaError),
}

impl fmt::Display for RtsxInitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RtsxInitError::Gone => f.write_str("rtsx: BIPR reads as all ones, expected a reader"),
            RtsxInitError::Chip { vendor, device } => write!(
                f,
                "rtsx: PCI {vendor:04x}:{device:04x}, expected 10ec:5209, 5227, 522a, 5229, 5249, 524a or 525a"
            ),
            RtsxInitError::CacheLines(bytes) => {
                write!(
                    f,
                    "rtsx: the platform invalidates cache lines of {bytes} bytes, expected coherent memory"
                )
            }
            RtsxInitError::List(why) => write!(f, "rtsx: list of operations cannot be used for DMA: {why}"),
            RtsxInitError::Table(why) => {
                write!(f, "rtsx: scatter/gather table cannot be used for DMA: {why}")
            }
        }
    }
}

impl core::error::Error for RtsxInitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            RtsxInitError::List(why) | RtsxInitError::Table(why) => Some(why),
            _ => None,
        }
    }
}

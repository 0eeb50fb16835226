//! What a board knows about its reader and cannot read from it.

use crate::host::{DmaError, Width};
use core::fmt;

/// Realtek, as PCI numbers vendors.
const VENDOR: u16 = 0x10ec;

/// A chip whose registers are those of this driver. Registers do not tell; the PCI function does.
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
    /// The chip behind the PCI function with these IDs.
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

/// A reader and how it is wired.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct RtsxConfig {
    /// Which chip it is.
    pub chip: Chip,
    /// Data of an open transfer can be moved without a command:
    /// [`Caps::continue_data`](crate::host::Caps::continue_data).
    pub continue_data: bool,
    /// The chip's waiting for the end of busy also works after written data (it does after a
    /// response). The end of a write is then an interrupt, and the engine does not poll. The
    /// drivers that are known never ask for it there, so it is off unless tried on the very chip.
    pub busy_after_data: bool,
    /// The chip may write into the list's memory, and the CPU sees it there without more ado. The
    /// driver asks [`Dma`](crate::host::Dma) for a mapping for `Write` only, so this holds on x86,
    /// unless an IOMMU forbids it. Responses then come with the end of the list. Otherwise they are
    /// read byte by byte through `HAIMR`.
    pub coherent: bool,
    /// Fastest SD clock that the board's wires carry, in hertz.
    pub max_clock_hz: u32,
    /// Data lines that are wired, at most four.
    pub width: Width,
    /// The socket's supply for 1.8 V signalling is there.
    pub signal18: bool,
    /// The card is soldered: presence is never asked.
    pub fixed: bool,
    /// Phase of what the host sends in SDR50 and SDR104, 0 to 31: the board's.
    pub send_phase: u8,
    /// Phase of the sampling there before (or without) tuning, 0 to 31.
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
    /// A reader with everything, in a slot.
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

/// Why there is no driver.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtsxInitError {
    /// The registers read as all ones: clock off, or nothing there.
    Gone,
    /// The PCI function is none of those that the driver knows.
    Chip {
        /// Its vendor.
        vendor: u16,
        /// Its device.
        device: u16,
    },
    /// The platform invalidates cache lines of so many bytes. The chip moves registers of 8 bytes
    /// by DMA, which would take the rest of a line along.
    CacheLines(u32),
    /// The list's memory cannot be mapped, or lies where the chip cannot reach (32 bits).
    List(DmaError),
    /// The same of the table's.
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

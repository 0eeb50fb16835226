//! Settings of the reader that only the board knows.

use crate::host::{DmaError, Width};
use core::fmt;

/// PCI vendor ID of Realtek.
const VENDOR: u16 = 0x10ec;

/// A chip that this driver supports, identified by its PCI IDs and not by its registers.
///
/// The RTL8411 family controls its supply in another way, and the chips from RTS5260 on have
/// another PLL or another supply control. The driver must not access these chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chip {
    /// RTS5209, PCI 10ec:5209.
    Rts5209,
    /// RTS5227, PCI 10ec:5227.
    Rts5227,
    /// RTS522A, PCI 10ec:522a.
    Rts522a,
    /// RTS5229, PCI 10ec:5229.
    Rts5229,
    /// RTS5249, PCI 10ec:5249.
    Rts5249,
    /// RTS524A, PCI 10ec:524a.
    Rts524a,
    /// RTS525A, PCI 10ec:525a.
    Rts525a,
}

impl Chip {
    /// Returns the chip with the PCI vendor ID `vendor` and device ID `device`.
    ///
    /// # Errors
    /// [`RtsxInitError::Chip`] if the driver supports no chip with these IDs.
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

/// Settings that the board gives the driver. Start from [`RtsxConfig::new`].
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct RtsxConfig {
    /// The chip in the reader.
    pub chip: Chip,
    /// Whether the chip may transfer data of an open transfer without a command:
    /// [`Caps::continue_data`](crate::host::Caps::continue_data).
    pub continue_data: bool,
    /// Whether the chip can also wait for the end of busy after written data, as it can after a
    /// response. The end of a write then raises an interrupt, and the engine does not poll. Known
    /// drivers never use this, so it is off; set it only after a test on the chip.
    pub busy_after_data: bool,
    /// Whether the CPU sees, without cache maintenance, what the chip writes into the list's
    /// memory. The driver maps this memory only for `Write` ([`Dma`](crate::host::Dma)). On x86 the
    /// chip can write there nevertheless, unless an IOMMU forbids it, so the value may be true. If
    /// it is true, the responses arrive with the end of the list. If it is false, the driver reads
    /// them byte by byte through `HAIMR`.
    pub coherent: bool,
    /// Fastest SD clock that the board's wiring supports, in hertz.
    pub max_clock_hz: u32,
    /// Number of data lines that the board connects, at most four.
    pub width: Width,
    /// Whether the socket has a supply for 1.8 V on the signal lines.
    pub signal18: bool,
    /// Whether the card is soldered, so that its presence is never checked.
    pub fixed: bool,
    /// Phase of the clock that drives CMD and DAT in SDR50 and SDR104, 0 to 31; depends on the
    /// board. `None`: the phase that is usual for the chip and the timing.
    pub send_phase: Option<u8>,
    /// Phase of the clock that samples CMD and DAT in SDR50 and SDR104 before (or without) tuning,
    /// 0 to 31. `None`: the phase that is usual for the chip and the timing.
    pub sample_phase: Option<u8>,
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
    send_phase: Option<u8>,
    sample_phase: Option<u8>,
});

impl RtsxConfig {
    /// Makes settings with all functions enabled, for a card in a slot.
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
            send_phase: None,
            sample_phase: None,
        }
    }
}

/// Why [`Rtsx::new`](super::Rtsx::new) failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RtsxInitError {
    /// The register BIPR reads as all ones: the reader's clock is off, or no reader is at this
    /// address.
    Gone,
    /// The driver does not support the chip with these PCI IDs.
    Chip {
        /// PCI vendor ID of the chip.
        vendor: u16,
        /// PCI device ID of the chip.
        device: u16,
    },
    /// The platform invalidates cache lines of this many bytes. The chip writes single bytes by
    /// DMA, and the invalidation would destroy the other bytes of a line.
    CacheLines(u32),
    /// The list's memory cannot be mapped, or the chip cannot reach it (32-bit addresses).
    List(DmaError),
    /// The memory of the table of DMA addresses (scatter-gather) cannot be mapped, or the chip
    /// cannot reach it.
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

//! The drivers of the controllers, and the functions that open one.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::place;
use crate::code::{self, MMCQ_E_ARGUMENT};
use crate::platform::{Its, MMCQ_EMMC_18, MMCQ_QUICK_MAP, mmcq_platform};
use crate::sizes::DESCRIPTORS;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, TransferMode};

type Standard = Sdhci<Its, Its, DESCRIPTORS>;

/// Driver of a controller. Without feature `rtsx` all controllers are SDHCI controllers.
#[cfg(not(feature = "rtsx"))]
pub(crate) type Driver = Standard;
#[cfg(feature = "rtsx")]
pub(crate) use either::Driver;

/// Returns whether the driver supports scatter/gather: the memory of a request may consist of
/// several segments.
#[cfg(not(feature = "rtsx"))]
pub(crate) fn writes_lists(driver: &Driver) -> bool {
    driver.transfer_mode() == TransferMode::Adma2
}
#[cfg(feature = "rtsx")]
pub(crate) fn writes_lists(driver: &Driver) -> bool {
    match driver {
        Driver::Sdhci(driver) => driver.transfer_mode() == TransferMode::Adma2,
        Driver::Rtsx(_) => true,
    }
}

/// Returns whether the CPU moves data of this length, so that the driver does not map their memory.
#[cfg(not(feature = "rtsx"))]
pub(crate) fn moves_by_cpu(driver: &Driver, bytes: u32) -> bool {
    driver.moves_by_cpu(bytes)
}
#[cfg(feature = "rtsx")]
pub(crate) fn moves_by_cpu(driver: &Driver, bytes: u32) -> bool {
    match driver {
        Driver::Sdhci(driver) => driver.moves_by_cpu(bytes),
        Driver::Rtsx(_) => false,
    }
}

/// Returns what the C program supplies; `None` if a member is missing or wrong.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_open` in `mmcq.h`.
unsafe fn complete(platform: *const mmcq_platform) -> Option<mmcq_platform> {
    if platform.is_null() || !platform.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, and the caller promises a complete structure.
    let platform = unsafe { platform.read() };
    platform.is_complete().then_some(platform)
}

/// Opens a controller; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_open` in `mmcq.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmcq_open(host: u32, platform: *const mmcq_platform) -> i32 {
    let Some((place, timer)) = place(host) else { return MMCQ_E_ARGUMENT };
    // SAFETY: the caller's promise.
    let Some(platform) = (unsafe { complete(platform) }) else { return MMCQ_E_ARGUMENT };
    let Some(quirks) = platform.quirks() else { return MMCQ_E_ARGUMENT };
    if platform.flags & !(MMCQ_EMMC_18 | MMCQ_QUICK_MAP) != 0 {
        return MMCQ_E_ARGUMENT;
    }
    let emmc = platform.flags & MMCQ_EMMC_18 != 0;
    let mut config = if emmc { SdhciConfig::emmc_18() } else { SdhciConfig::new() };
    config.quirks = config.quirks.with(quirks);
    // SAFETY: the caller's promise; the platform is complete.
    unsafe {
        place.open(timer, platform, |its, lists| {
            let driver = Sdhci::new(its, its, &mut lists.table, config).map_err(code::of_init)?;
            Ok((driver.into(), its.0.config(DESCRIPTORS as u32 - 1)))
        })
    }
}

#[cfg(feature = "rtsx")]
mod either {
    use super::*;
    use crate::code::{MMCQ_E_CONTROLLER, MMCQ_E_DMA, MMCQ_E_UNSUPPORTED};
    use mmcq::host::Host;
    use mmcq::host::rtsx::{Buffers, Chip, Rtsx, RtsxConfig, RtsxInitError};

    /// Driver of a controller; the variant is the kind of controller.
    // The variants differ in size, but the memory of a controller has room for each.
    #[allow(clippy::large_enum_variant)]
    pub(crate) enum Driver {
        /// An SDHCI controller.
        Sdhci(Standard),
        /// Realtek's card reader.
        Rtsx(Rtsx<Its, Its>),
    }

    impl From<Standard> for Driver {
        fn from(driver: Standard) -> Self {
            Driver::Sdhci(driver)
        }
    }

    /// Calls a method of the driver, whichever kind of driver that is.
    macro_rules! driver {
        ($self:ident, $driver:ident => $call:expr) => {
            match $self {
                Driver::Sdhci($driver) => $call,
                Driver::Rtsx($driver) => $call,
            }
        };
    }

    // SAFETY: all calls go to one inner driver, in the same order and with unchanged segments.
    unsafe impl Host for Driver {
        const CONTINUES: bool = <Rtsx<Its, Its> as Host>::CONTINUES;
        const ALWAYS_CONTINUES: bool = false;
        const CONCURRENT: bool = <Standard as Host>::CONCURRENT;
        const CARD_IRQ: bool = <Standard as Host>::CARD_IRQ;
        const EARLY_R1: bool = true;
        const DEFERS_BY_REQUEST: bool = <Standard as Host>::DEFERS_BY_REQUEST;

        mmcq::forward_host!(driver! => caps goes_on_with is_prompt map unmap start start_fast start_concurrent
            ack_concurrent abort_concurrent ack ack_fast early_r1 interrupt_lost command_hangs set_bus isolate
            dat0_busy dat_levels present retune_ns supply_ma write_protected take_waker card_irq queue chain);
    }

    fn of_init(error: RtsxInitError) -> i32 {
        match error {
            RtsxInitError::Gone => MMCQ_E_CONTROLLER,
            RtsxInitError::Chip { .. } => MMCQ_E_UNSUPPORTED,
            _ => MMCQ_E_DMA,
        }
    }

    /// Opens Realtek's card reader; `mmcq.h` has the contract.
    ///
    /// # Safety
    /// The caller fulfils the contract of `mmcq_open` in `mmcq.h`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn mmcq_open_rtsx(
        host: u32,
        platform: *const mmcq_platform,
        vendor: u16,
        device: u16,
    ) -> i32 {
        let Some((place, timer)) = place(host) else { return MMCQ_E_ARGUMENT };
        // SAFETY: the caller's promise.
        let Some(platform) = (unsafe { complete(platform) }) else { return MMCQ_E_ARGUMENT };
        if platform.flags & !MMCQ_QUICK_MAP != 0 || !platform.quirks.is_null() {
            return MMCQ_E_ARGUMENT;
        }
        let chip = match Chip::of_pci(vendor, device) {
            Ok(chip) => chip,
            Err(error) => return of_init(error),
        };
        let config = RtsxConfig::new(chip).coherent(platform.sees_lists());
        // SAFETY: the caller's promise; the platform is complete.
        unsafe {
            place.open(timer, platform, |its, lists| {
                let driver = Rtsx::new(its, its, &mut lists.buffers, config).map_err(of_init)?;
                Ok((Driver::Rtsx(driver), its.0.config(Buffers::SEGMENTS as u32)))
            })
        }
    }
}
#[cfg(feature = "rtsx")]
pub use either::mmcq_open_rtsx;

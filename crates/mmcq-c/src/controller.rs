//! The drivers of the controllers, and the functions that open one.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::api::place;
use crate::code::{self, MMCQ_E_ARGUMENT};
use crate::platform::{Its, MMCQ_EMMC_18, MMCQ_QUICK_MAP, mmcq_platform};
use crate::sizes::DESCRIPTORS;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, TransferMode};

/// Registers of an SDHCI controller.
#[cfg(not(feature = "usdhc"))]
type Registers = Its;
#[cfg(feature = "usdhc")]
use usdhc::Registers;

type Standard = Sdhci<Registers, Its, DESCRIPTORS>;

/// Driver of a controller. Without features `rtsx` and `stm32-sdmmc` all controllers are SDHCI
/// controllers, or are presented as such.
#[cfg(not(any(feature = "rtsx", feature = "stm32-sdmmc")))]
pub(crate) type Driver = Standard;
#[cfg(any(feature = "rtsx", feature = "stm32-sdmmc"))]
pub(crate) use several::Driver;

/// The scheduler of the library: requests in the order in which they come, or reads before writes.
#[cfg(not(feature = "reads-first"))]
type Scheduler = mmcq::sched::Fifo;
#[cfg(not(feature = "reads-first"))]
pub(crate) const SCHEDULER: Scheduler = mmcq::sched::Fifo;
#[cfg(feature = "reads-first")]
type Scheduler = mmcq::sched::ReadsFirst;
#[cfg(feature = "reads-first")]
pub(crate) const SCHEDULER: Scheduler = mmcq::sched::ReadsFirst::new();

/// What the stack is made of: the lock of the platform, the driver, the scheduler.
pub(crate) type Parts = (Its, Driver, Scheduler);

/// Returns whether the driver supports scatter/gather: the memory of a request may consist of
/// several segments.
pub(crate) fn writes_lists(driver: &Driver) -> bool {
    #[cfg(any(feature = "rtsx", feature = "stm32-sdmmc"))]
    let driver = match driver {
        Driver::Sdhci(driver) => driver,
        #[cfg(feature = "rtsx")]
        Driver::Rtsx(_) => return true,
        #[cfg(feature = "stm32-sdmmc")]
        Driver::Stm32(_) => return false,
    };
    driver.transfer_mode() == TransferMode::Adma2
}

/// Returns whether the CPU moves data of `bytes` bytes, so that the driver does not map their
/// memory.
pub(crate) fn moves_by_cpu(driver: &Driver, bytes: u32) -> bool {
    #[cfg(any(feature = "rtsx", feature = "stm32-sdmmc"))]
    let driver = match driver {
        Driver::Sdhci(driver) => driver,
        #[cfg(feature = "rtsx")]
        Driver::Rtsx(_) => return false,
        #[cfg(feature = "stm32-sdmmc")]
        Driver::Stm32(driver) => return driver.moves_by_cpu(bytes),
    };
    driver.moves_by_cpu(bytes)
}

/// Returns a structure that the C program supplies; `None` if the pointer is null or not aligned.
///
/// # Safety
/// A pointer that is not null points to a whole structure.
unsafe fn supplied<T: Copy>(structure: *const T) -> Option<T> {
    if structure.is_null() || !structure.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, and the caller promises a whole structure.
    Some(unsafe { structure.read() })
}

/// Returns whether the controller reports the interrupt of an I/O card.
#[cfg(not(feature = "rtsx"))]
pub(crate) fn hears_card_irq(_: &Driver) -> bool {
    true
}
#[cfg(feature = "rtsx")]
pub(crate) fn hears_card_irq(driver: &Driver) -> bool {
    !matches!(driver, Driver::Rtsx(_))
}

/// Returns a copy of the structure that the C program supplies; `None` if the pointer is null, or
/// if a function or a value that the library needs is missing.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_open` in `mmcq.h`.
unsafe fn complete(platform: *const mmcq_platform) -> Option<mmcq_platform> {
    // SAFETY: the caller promises a whole structure.
    unsafe { supplied(platform) }.filter(mmcq_platform::is_complete)
}

/// Returns the number of data lines that `lines`, a member of a C structure, stands for (0 stands
/// for four); `None`: there is no such number of lines.
#[cfg(any(feature = "usdhc", feature = "stm32-sdmmc"))]
fn width(lines: u8) -> Option<mmcq::host::Width> {
    use mmcq::host::Width;
    match lines {
        1 => Some(Width::W1),
        0 | 4 => Some(Width::W4),
        8 => Some(Width::W8),
        _ => None,
    }
}

/// Opens a controller; `mmcq.h` has the contract.
///
/// # Safety
/// The caller fulfils the contract of `mmcq_open` in `mmcq.h`.
#[allow(clippy::useless_conversion, reason = "without features there is one kind of controller")]
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
            let driver = Sdhci::new(its.into(), its, &mut lists.table, config).map_err(code::of_init)?;
            Ok((driver.into(), its.0.config(DESCRIPTORS as u32 - 1)))
        })
    }
}

#[cfg(any(feature = "rtsx", feature = "stm32-sdmmc"))]
mod several {
    use super::*;
    use mmcq::host::Host;
    use mmcq::host::rtsx::Rtsx;
    use mmcq::host::stm32_sdmmc::Stm32Sdmmc;

    /// Driver of a controller; the variant is the kind of controller.
    // The variants differ in size, but the memory of a controller has room for each.
    #[allow(clippy::large_enum_variant)]
    pub(crate) enum Driver {
        /// An SDHCI controller, or one (a uSDHC) that `Registers` presents with the registers of an
        /// SDHCI.
        Sdhci(Standard),
        /// Realtek's card reader.
        #[cfg(feature = "rtsx")]
        Rtsx(Rtsx<Its, Its>),
        /// ST's SDMMC.
        #[cfg(feature = "stm32-sdmmc")]
        Stm32(Stm32Sdmmc<Its, Its, super::stm32::Board, 1>),
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
                #[cfg(feature = "rtsx")]
                Driver::Rtsx($driver) => $call,
                #[cfg(feature = "stm32-sdmmc")]
                Driver::Stm32($driver) => $call,
            }
        };
    }

    /// Whether a constant of `Host` is true for at least one of the drivers in the library.
    macro_rules! one_has {
        ($name:ident) => {
            <Standard as Host>::$name
                || (cfg!(feature = "rtsx") && <Rtsx<Its, Its> as Host>::$name)
                || (cfg!(feature = "stm32-sdmmc") && <Stm32Sdmmc<Its, Its, (), 1> as Host>::$name)
        };
    }

    // SAFETY: all calls go to one inner driver, in the same order and with unchanged segments.
    unsafe impl Host for Driver {
        const CONTINUES: bool = one_has!(CONTINUES);
        // True only if it is true for all drivers, like `ONE_LINE`, and it is not for SDHCI.
        const ALWAYS_CONTINUES: bool = false;
        const CONTINUES_BY_REQUEST: bool = one_has!(CONTINUES_BY_REQUEST);
        const CONCURRENT: bool = one_has!(CONCURRENT);
        const EARLY_R1: bool = one_has!(EARLY_R1);
        // Realtek's reader has none, so `mmcq_io_irq_enable` refuses to enable it.
        const CARD_IRQ: bool = one_has!(CARD_IRQ);
        const WAKES: bool = one_has!(WAKES);
        const DEFERS_BY_REQUEST: bool = one_has!(DEFERS_BY_REQUEST);

        mmcq::forward_host!(driver! => caps goes_on_with is_prompt map unmap start start_fast start_concurrent
            ack_concurrent abort_concurrent ack ack_fast early_r1 interrupt_lost command_hangs set_bus isolate
            dat0_busy dat_levels present retune_ns supply_ma write_protected take_waker card_irq queue chain);
    }
}

#[cfg(feature = "rtsx")]
mod rtsx {
    use super::*;
    use crate::code::{MMCQ_E_CONTROLLER, MMCQ_E_DMA, MMCQ_E_UNSUPPORTED};
    use mmcq::host::rtsx::{Buffers, Chip, Rtsx, RtsxConfig, RtsxInitError};

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
    /// The caller fulfils the contract of `mmcq_open_rtsx` in `mmcq.h`.
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
pub use rtsx::mmcq_open_rtsx;

#[cfg(feature = "usdhc")]
mod usdhc {
    use super::*;
    use mmcq::host::Regs;
    use mmcq::host::sdhci::{Usdhc, profiles};

    /// Registers of an SDHCI controller, or those of a uSDHC, which [`Usdhc`] presents in the
    /// layout of an SDHCI.
    pub(crate) enum Registers {
        Sdhci(Its),
        Usdhc(Usdhc<Its>),
    }

    impl From<Its> for Registers {
        fn from(its: Its) -> Self {
            Registers::Sdhci(its)
        }
    }

    macro_rules! registers {
        ($($read:ident $write:ident $type:ty;)*) => {
            impl Regs for Registers {
                $(
                    fn $read(&self, offset: u16) -> $type {
                        match self {
                            Registers::Sdhci(regs) => regs.$read(offset),
                            Registers::Usdhc(regs) => regs.$read(offset),
                        }
                    }
                    fn $write(&self, offset: u16, value: $type) {
                        match self {
                            Registers::Sdhci(regs) => regs.$write(offset, value),
                            Registers::Usdhc(regs) => regs.$write(offset, value),
                        }
                    }
                )*
            }
        };
    }
    registers! {
        read8 write8 u8;
        read16 write16 u16;
        read32 write32 u32;
    }

    /// The board around a uSDHC, declared in `mmcq.h`.
    #[derive(Clone, Copy, Debug)]
    #[repr(C)]
    #[allow(missing_docs, reason = "the header says it")]
    pub struct mmcq_usdhc {
        pub root_hz: u32,
        pub max_hz: u32,
        pub width: u8,
        pub fixed: u8,
        pub reserved: [u8; 2],
    }

    /// Opens NXP's uSDHC; `mmcq.h` has the contract.
    ///
    /// # Safety
    /// The caller fulfils the contract of `mmcq_open_usdhc` in `mmcq.h`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn mmcq_open_usdhc(
        host: u32,
        platform: *const mmcq_platform,
        board: *const mmcq_usdhc,
    ) -> i32 {
        let Some((place, timer)) = place(host) else { return MMCQ_E_ARGUMENT };
        // SAFETY: the caller's promise.
        let Some(platform) = (unsafe { complete(platform) }) else { return MMCQ_E_ARGUMENT };
        let Some(quirks) = platform.quirks() else { return MMCQ_E_ARGUMENT };
        // SAFETY: the caller's promise.
        let Some(board) = (unsafe { supplied(board) }) else { return MMCQ_E_ARGUMENT };
        let Some(width) = width(board.width) else { return MMCQ_E_ARGUMENT };
        if platform.flags & !MMCQ_QUICK_MAP != 0
            || board.root_hz == 0
            || board.fixed > 1
            || board.reserved != [0; 2]
        {
            return MMCQ_E_ARGUMENT;
        }
        let mut config = profiles::USDHC.clock(board.root_hz).width(width).fixed(board.fixed != 0);
        config.quirks = config.quirks.with(quirks);
        if board.max_hz != 0 {
            config.max_clock_hz = board.max_hz;
        }
        // SAFETY: the caller's promise; the platform is complete.
        unsafe {
            place.open(timer, platform, |its, lists| {
                let regs = Registers::Usdhc(Usdhc::new(its));
                let driver = Sdhci::new(regs, its, &mut lists.table, config).map_err(code::of_init)?;
                Ok((driver.into(), its.0.config(DESCRIPTORS as u32 - 1)))
            })
        }
    }
}
#[cfg(feature = "usdhc")]
pub use usdhc::{mmcq_open_usdhc, mmcq_usdhc};

#[cfg(feature = "stm32-sdmmc")]
mod stm32 {
    use super::*;
    use crate::code::{MMCQ_E_CONTROLLER, MMCQ_E_DMA};
    use core::ffi::c_void;
    use mmcq::host::stm32_sdmmc::{Stm32Board, Stm32Sdmmc, Stm32SdmmcConfig, Stm32SdmmcInitError};

    /// Fastest card clock in hertz without high-speed timing.
    const DEFAULT_SPEED_HZ: u32 = 25_000_000;

    /// The board around ST's SDMMC, declared in `mmcq.h`.
    ///
    /// # Safety
    ///
    /// The function is C's, so a call of it is `unsafe`. The header says what it must do; the
    /// caller of `mmcq_open_stm32` promises that.
    #[derive(Clone, Copy)]
    #[repr(C)]
    #[allow(missing_docs, reason = "the header says it")]
    pub struct mmcq_stm32 {
        pub kernel_hz: u32,
        pub max_hz: u32,
        pub dma_first: u32,
        pub dma_last: u32,
        pub power_up_us: u32,
        pub width: u8,
        pub fixed: u8,
        pub busy_after_data: u8,
        pub falling_edge: u8,
        pub reset: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    }

    impl mmcq_stm32 {
        /// Returns the settings of the driver; `None` if a member is out of its range.
        fn config(&self) -> Option<Stm32SdmmcConfig> {
            let flags = [self.fixed, self.busy_after_data, self.falling_edge];
            let last = if self.dma_last == 0 { u32::MAX } else { self.dma_last };
            if flags.iter().any(|&flag| flag > 1) || self.dma_first > last {
                return None;
            }
            let max_hz = if self.max_hz == 0 { DEFAULT_SPEED_HZ } else { self.max_hz };
            let mut config = Stm32SdmmcConfig::new(self.kernel_hz)
                .max_clock_hz(max_hz)
                .high_speed(max_hz > DEFAULT_SPEED_HZ)
                .width(width(self.width)?)
                .fixed(self.fixed != 0)
                .busy_after_data(self.busy_after_data != 0)
                .falling_edge(self.falling_edge != 0)
                .dma_window((self.dma_first, last));
            if self.power_up_us != 0 {
                config.power_up_ns = u64::from(self.power_up_us) * 1000;
            }
            Some(config)
        }
    }

    /// The reset line of the controller, which the C program operates.
    pub(crate) struct Board {
        platform: &'static mmcq_platform,
        reset: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
    }

    impl Stm32Board for Board {
        fn reset(&mut self) -> bool {
            // SAFETY: the caller of `mmcq_open_stm32` promises that its functions may be called
            // with its context.
            self.reset.is_some_and(|reset| unsafe { reset(self.platform.context) } != 0)
        }
    }

    fn of_init(error: Stm32SdmmcInitError) -> i32 {
        match error {
            Stm32SdmmcInitError::Clock { .. } => MMCQ_E_ARGUMENT,
            Stm32SdmmcInitError::List(_) => MMCQ_E_DMA,
            _ => MMCQ_E_CONTROLLER,
        }
    }

    /// Opens ST's SDMMC; `mmcq.h` has the contract.
    ///
    /// # Safety
    /// The caller fulfils the contract of `mmcq_open_stm32` in `mmcq.h`.
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn mmcq_open_stm32(
        host: u32,
        platform: *const mmcq_platform,
        board: *const mmcq_stm32,
    ) -> i32 {
        let Some((place, timer)) = place(host) else { return MMCQ_E_ARGUMENT };
        // SAFETY: the caller's promise.
        let Some(platform) = (unsafe { complete(platform) }) else { return MMCQ_E_ARGUMENT };
        // SAFETY: the caller's promise.
        let Some(board) = (unsafe { supplied(board) }) else { return MMCQ_E_ARGUMENT };
        let Some(mut config) = board.config() else { return MMCQ_E_ARGUMENT };
        if platform.flags & !(MMCQ_EMMC_18 | MMCQ_QUICK_MAP) != 0 || !platform.quirks.is_null() {
            return MMCQ_E_ARGUMENT;
        }
        if platform.flags & MMCQ_EMMC_18 != 0 {
            config = config.fixed(true).signal18_fixed(true);
        }
        // SAFETY: the caller's promise; the platform is complete.
        unsafe {
            place.open(timer, platform, |its, lists| {
                let board = Board { platform: its.0, reset: board.reset };
                let driver = Stm32Sdmmc::new(its, its, board, &mut lists.pieces, config).map_err(of_init)?;
                Ok((Driver::Stm32(driver), its.0.config(1)))
            })
        }
    }
}
#[cfg(feature = "stm32-sdmmc")]
pub use stm32::{mmcq_open_stm32, mmcq_stm32};

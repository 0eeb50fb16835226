//! Errors as numbers with names.

use core::ffi::CStr;
use mmcq::engine::Error;
use mmcq::host::sdhci::SdhciInitError;
use mmcq::host::{Cause, DmaError};

macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        $(pub(crate) const $name: i32 = $value;)*

        /// Every code with its name, as in the header.
        pub const CODES: &[(i32, &CStr)] = &[$(($value, match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        })),*];
    };
}

codes! {
    MMCQ_OK = 0;
    MMCQ_E_ARGUMENT = -1;
    MMCQ_E_STATE = -2;
    MMCQ_E_CONTROLLER = -3;
    MMCQ_E_NO_CARD = -4;
    MMCQ_E_REMOVED = -5;
    MMCQ_E_RANGE = -6;
    MMCQ_E_DMA = -7;
    MMCQ_E_TIMEOUT = -8;
    MMCQ_E_CRC = -9;
    MMCQ_E_HOST = -10;
    MMCQ_E_CARD = -11;
    MMCQ_E_FULL = -12;
    MMCQ_E_UNSUPPORTED = -13;
    MMCQ_E_DEAD = -14;
    MMCQ_E_READ_ONLY = -15;
    MMCQ_E_PROTECTED = -16;
    MMCQ_E_CACHE_LOST = -17;
    MMCQ_E_CHANGED = -18;
    MMCQ_E_LOCKED = -19;
}

pub(crate) fn name(code: i32) -> &'static CStr {
    CODES.iter().find(|(value, _)| *value == code).map_or(c"unknown code", |(_, name)| name)
}

pub(crate) fn of_init(error: SdhciInitError) -> i32 {
    match error {
        SdhciInitError::Table(_) => MMCQ_E_DMA,
        _ => MMCQ_E_CONTROLLER,
    }
}

pub(crate) fn of(result: Result<(), Error>) -> i32 {
    let Err(error) = result else { return MMCQ_OK };
    match error {
        Error::Full => MMCQ_E_FULL,
        Error::Suspended | Error::Unequipped => MMCQ_E_STATE,
        Error::NoCard => MMCQ_E_NO_CARD,
        Error::Removed => MMCQ_E_REMOVED,
        Error::OutOfRange { .. } => MMCQ_E_RANGE,
        Error::Buffer { .. } => MMCQ_E_ARGUMENT,
        Error::Dma(DmaError::Exhausted) => MMCQ_E_FULL,
        Error::Dma(_) => MMCQ_E_DMA,
        Error::Host(fault) => match fault.cause {
            Cause::Timeout => MMCQ_E_TIMEOUT,
            Cause::Crc | Cause::EndBit | Cause::Index => MMCQ_E_CRC,
            _ => MMCQ_E_HOST,
        },
        Error::Silent => MMCQ_E_TIMEOUT,
        Error::Bus(_) => MMCQ_E_HOST,
        Error::Unsupported | Error::Unaligned { .. } => MMCQ_E_UNSUPPORTED,
        Error::Card(_) | Error::Program(_) | Error::Register(_) | Error::Protocol(_) => MMCQ_E_CARD,
        Error::Dead => MMCQ_E_DEAD,
        Error::ReadOnly => MMCQ_E_READ_ONLY,
        Error::Protected => MMCQ_E_PROTECTED,
        Error::CacheLost => MMCQ_E_CACHE_LOST,
        Error::Changed => MMCQ_E_CHANGED,
        Error::Locked => MMCQ_E_LOCKED,
        _ => MMCQ_E_HOST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_own_name() {
        for (i, (code, known)) in CODES.iter().enumerate() {
            assert_eq!(*code, -(i as i32));
            assert_eq!(name(*code), *known);
        }
        assert_eq!(name(1), c"unknown code");
        assert_eq!(of(Err(Error::Silent)), MMCQ_E_TIMEOUT);
        assert_eq!(of(Ok(())), MMCQ_OK);
    }
}

//! Error codes for C, with their names.

use core::ffi::CStr;
use mmcq::engine::Error;
use mmcq::host::sdhci::SdhciInitError;
use mmcq::host::{Cause, DmaError};
use mmcq::sdio::IoError;

macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        $(pub(crate) const $name: i32 = $value;)*

        /// Every error code with its name, as in `mmcq.h`.
        pub const CODES: &[(i32, &CStr)] = &[$(($name, match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
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
    MMCQ_E_NO_KEY = -20;
    MMCQ_E_FORGED = -21;
    MMCQ_E_AMBIGUOUS = -22;
    MMCQ_E_MEMORY = -23;
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

/// Returns the code for an error of `Place::take_scratch` (which takes the buffer for the card's
/// registers), in a call that does not wait. [`Error::Full`] (another call uses the buffer) becomes
/// `MMCQ_E_STATE`.
pub(crate) fn of_scratch(error: Error) -> i32 {
    if error == Error::Full { MMCQ_E_STATE } else { of(Err(error)) }
}

/// Why a call of the library failed.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// An error of the engine or of a layer below it. If the error says that no slot is free, the
    /// call may be tried again.
    Engine(Error),
    /// Any other error; the value is its code in `mmcq.h`.
    Code(i32),
}

impl Failure {
    pub fn code(self) -> i32 {
        match self {
            Failure::Engine(error) => of(Err(error)),
            Failure::Code(code) => code,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        Failure::Code(match error {
            IoError::Engine(error) => return Failure::Engine(error),
            IoError::NoFunction { .. }
            | IoError::BlockSize { .. }
            | IoError::OddBlockSize { .. }
            | IoError::Range { .. }
            | IoError::NotVendors { .. } => MMCQ_E_ARGUMENT,
            IoError::NotReady { .. } => MMCQ_E_TIMEOUT,
            _ => MMCQ_E_CARD,
        })
    }
}

#[cfg(feature = "rpmb")]
impl From<mmcq::rpmb::RpmbError> for Failure {
    fn from(error: mmcq::rpmb::RpmbError) -> Self {
        use mmcq::rpmb::RpmbError;
        Failure::Code(match error {
            RpmbError::Card(error) | RpmbError::NotWritten(error) => return Failure::Engine(error),
            RpmbError::NoKey => MMCQ_E_NO_KEY,
            RpmbError::Expired => MMCQ_E_READ_ONLY,
            RpmbError::Forged => MMCQ_E_FORGED,
            RpmbError::Ambiguous => MMCQ_E_AMBIGUOUS,
            RpmbError::Size { .. } => MMCQ_E_ARGUMENT,
            _ => MMCQ_E_CARD,
        })
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

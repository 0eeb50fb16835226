//! Sizes of the library, chosen when it is built.
//!
//! `MMCQ_HOSTS`, `MMCQ_SLOTS` and `MMCQ_PIECES` are variables of the build's environment, and the
//! names of macros in the header.

use mmcq::engine::SLOTS_MAX;

/// Returns a whole number, at least 1 and below a bound, from a variable of the build's
/// environment. `number` is a macro and no function, because the type checker needs these numbers
/// before it can check calls of this crate's functions.
macro_rules! number {
    ($name:literal, $otherwise:expr, $bound:expr) => {
        match option_env!($name) {
            None => $otherwise,
            Some(text) => {
                let (digits, mut value, mut at): (&[u8], usize, usize) = (text.as_bytes(), 0, 0);
                while at < digits.len() {
                    assert!(digits[at].is_ascii_digit(), concat!($name, " is a whole number"));
                    value = value * 10 + (digits[at] - b'0') as usize;
                    assert!(value < $bound, concat!($name, " is too large"));
                    at += 1;
                }
                assert!(value != 0, concat!($name, " is 1 at least"));
                value
            }
        }
    };
}

/// Number of controllers that a program can open at the same time.
pub(crate) const HOSTS: usize = number!("MMCQ_HOSTS", 2, 9);
/// Largest number of requests at a time, plus one slot for the library itself.
pub(crate) const SLOTS: usize = number!("MMCQ_SLOTS", 7, SLOTS_MAX) + 1;
/// Largest number of descriptors of one transfer, plus one for controllers that need a separate end
/// descriptor.
pub(crate) const DESCRIPTORS: usize = number!("MMCQ_PIECES", 128, 4096) + 1;

//! Arbitrary input: the same in every run, or other input for so long.

#![allow(dead_code, reason = "each test binary uses its own part")]

extern crate std;

use arbtest::arbitrary::{Result, Unstructured};
use core::ops::Range;

/// Milliseconds of input that differs from run to run: `MMCQ_FUZZ_MS`. `check` sets none, so that
/// it says the same of the same code each time.
fn search_ms() -> Option<u64> {
    std::env::var("MMCQ_FUZZ_MS").ok().and_then(|ms| ms.parse().ok())
}

/// Gives `f` so many inputs, or a search; prints how many there were. Up to 4 KiB each: more would
/// take longer to make than to try.
pub fn fuzz(name: &str, inputs: u64, f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    sized(name, inputs, 32..4_096, f);
}

/// Runs what is drawn by 500 seeds; one of them gives the same twice.
pub fn repeatable<T: PartialEq + std::fmt::Debug>(name: &str, run: impl Fn(u64) -> T) {
    fuzz(name, 500, |u| {
        run(u.arbitrary()?);
        Ok(())
    });
    assert_eq!(run(7), run(7));
}

/// Gives `f` so many inputs of so many bytes that are the same in every run, a search or not: for
/// what must be seen to have been reached.
pub fn always(inputs: u64, bytes: u32, mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for seed in 1..=inputs {
        arbtest::arbtest(&mut f).seed(seed << 32 | u64::from(bytes)).run();
    }
}

/// The same as [`fuzz`] with so many bytes for an input: small ones first, and again after the
/// largest. An input that ends too early for `f` says nothing; there must be others.
pub fn sized(
    name: &str,
    inputs: u64,
    bytes: Range<u32>,
    mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) {
    let (mut tried, mut used) = (0u64, 0u64);
    let mut one = |u: &mut Unstructured<'_>| {
        tried += 1;
        used += u64::from(f(u).is_ok());
        Ok(())
    };
    if let Some(ms) = search_ms() {
        arbtest::arbtest(&mut one).size_min(bytes.start).size_max(bytes.end).budget_ms(ms);
    } else {
        let mut size = bytes.start;
        for seed in 1..=inputs {
            arbtest::arbtest(&mut one).seed(seed << 32 | u64::from(size)).run();
            if seed % 3 == 0 {
                size = if size < bytes.end { (size + size / 4).min(bytes.end) } else { bytes.start };
            }
        }
    }
    std::println!("{name}: {tried} inputs, {used} long enough");
    assert!(used > 0, "{name}: no input was long enough");
}

//! Arbitrary input for so long, and how many inputs that were.

#![allow(dead_code, reason = "each test binary uses its own part")]

extern crate std;

use arbtest::arbitrary::{Result, Unstructured};

/// Milliseconds for each target: `MMCQ_FUZZ_MS`, or this.
pub fn budget_ms(usual_ms: u64) -> u64 {
    std::env::var("MMCQ_FUZZ_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(usual_ms)
}

/// Gives `f` arbitrary input; prints how many there were. Up to 4 KiB each: more would take longer
/// to make than to try.
pub fn fuzz(name: &str, usual_ms: u64, f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    sized(name, usual_ms, 32..4_096, f);
}

/// Gives `f` so many inputs of so many bytes that are the same in every run, however little time a
/// busy machine has: for what must be seen to have been reached.
pub fn always(inputs: u64, bytes: u32, mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for seed in 1..=inputs {
        arbtest::arbtest(&mut f).seed(seed << 32 | u64::from(bytes)).run();
    }
}

/// The same as [`fuzz`] with so many bytes for an input.
pub fn sized(
    name: &str,
    usual_ms: u64,
    bytes: core::ops::Range<u32>,
    mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) {
    let mut inputs = 0u64;
    arbtest::arbtest(|u| {
        inputs += 1;
        f(u)
    })
    .size_min(bytes.start)
    .size_max(bytes.end)
    .budget_ms(budget_ms(usual_ms));
    std::println!("{name}: {inputs} inputs");
}

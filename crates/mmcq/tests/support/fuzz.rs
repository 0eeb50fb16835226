//! Arbitrary input for tests: the same in every run or, in a search of given length, different in
//! each run.

#![allow(dead_code, reason = "each test binary uses its own part")]

extern crate std;

use arbtest::arbitrary::{Result, Unstructured};
use core::ops::Range;

/// Returns `MMCQ_FUZZ_MS`, the length of a search in ms with input that differs from run to run;
/// `None` if it is not set. The project's `check` does not set it, so it has the same result each
/// time.
fn search_ms() -> Option<u64> {
    std::env::var("MMCQ_FUZZ_MS").ok().and_then(|ms| ms.parse().ok())
}

/// Calls `f` with this number of random inputs, or with the inputs of a search, and prints their
/// number. An input has at most 4 KiB, since longer ones take more time to make than to test.
pub fn fuzz(name: &str, inputs: u64, f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    sized(name, inputs, 32..4_096, f);
}

/// Runs `run` with 500 random seeds, none of which may make it panic. Then runs it twice with one
/// seed, and checks that both runs give the same result.
pub fn repeatable<T: PartialEq + std::fmt::Debug>(name: &str, run: impl Fn(u64) -> T) {
    fuzz(name, 500, |u| {
        run(u.arbitrary()?);
        Ok(())
    });
    assert_eq!(run(7), run(7));
}

/// Calls `f` with this number of random inputs of this length, which are the same in every run even
/// during a search. For tests that must reach a certain case.
pub fn always(inputs: u64, bytes: u32, mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for seed in 1..=inputs {
        arbtest::arbtest(&mut f).seed(seed << 32 | u64::from(bytes)).run();
    }
}

/// Calls `f` as [`fuzz`] does, with input lengths that grow from the smallest of `bytes` to the
/// largest, again and again. An input that is too short for `f` is left out; enough other inputs
/// must be long enough.
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

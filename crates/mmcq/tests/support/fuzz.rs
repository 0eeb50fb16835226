//! Arbitrary input for tests. By default it is the same in every run; in a search of a given length
//! it differs from run to run.

#![allow(dead_code, reason = "each test binary uses its own part")]

extern crate std;

use arbtest::arbitrary::{Result, Unstructured};
use core::ops::Range;

/// Returns the length of a search in ms, from the environment variable `MMCQ_FUZZ_MS`; `None` if it
/// is not set. In a search the input differs from run to run. The project's script `check` sets the
/// variable only in its part `fuzz`, so every other part has the same result each time.
fn search_ms() -> Option<u64> {
    std::env::var("MMCQ_FUZZ_MS").ok().and_then(|ms| ms.parse().ok())
}

/// Calls `f` with `inputs` random inputs. In a search (`MMCQ_FUZZ_MS` is set) calls it until that
/// time is over. Prints the number of inputs. An input has at most 4 KiB, since longer ones take
/// more time to make than to test.
pub fn fuzz(name: &str, inputs: u64, mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    each(name, inputs, 32..4_096, &mut f);
}

/// Calls `run` twice with each of 500 arbitrary seeds. The test fails if a call panics, or if both
/// results differ. `name`: name of the test.
pub fn repeatable<T: PartialEq + std::fmt::Debug>(name: &str, run: impl Fn(u64) -> T) {
    fuzz(name, 500, |u| {
        let seed = u.arbitrary()?;
        assert_eq!(run(seed), run(seed), "seed {seed}");
        Ok(())
    });
}

/// Calls `f` with `inputs` random inputs of `bytes` bytes each. The inputs are the same in every
/// run, also where `MMCQ_FUZZ_MS` makes [`fuzz`] use new ones. For tests that must reach a certain
/// case.
pub fn always(inputs: u64, bytes: u32, mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>) {
    for seed in 1..=inputs {
        arbtest::arbtest(&mut f).seed(seed << 32 | u64::from(bytes)).run();
    }
}

/// Calls `f` as [`fuzz`] does, with input lengths that grow from the smallest of `bytes` to the
/// largest, again and again. An input that is too short for `f` is left out; at least one other
/// input must be long enough.
pub fn sized(
    name: &str,
    inputs: u64,
    bytes: Range<u32>,
    mut f: impl FnMut(&mut Unstructured<'_>) -> Result<()>,
) {
    each(name, inputs, bytes, &mut f);
}

/// Does what [`sized`] does; compiled once, and not once for each test.
fn each(name: &str, inputs: u64, bytes: Range<u32>, f: &mut dyn FnMut(&mut Unstructured<'_>) -> Result<()>) {
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

//! Sweeps over many like cases: `check` takes a share of them, the part `sweeps` of `check long`
//! (`MMCQ_SWEEPS=1`) takes all.

/// Returns whether all cases are taken.
pub fn is_whole() -> bool {
    std::env::var_os("MMCQ_SWEEPS").is_some()
}

/// Returns the first case and each `share`th after it, or all cases.
pub fn some<T>(share: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if is_whole() { 1 } else { share })
}

/// Returns one of the cases, another one at each turn, or all cases.
pub fn one_of<T>(turn: usize, cases: &[T]) -> &[T] {
    if is_whole() { cases } else { &cases[turn % cases.len()..][..1] }
}

/// Returns a number of rounds: the `share`th part of all, or all.
pub fn rounds(share: u64, all: u64) -> u64 {
    if is_whole() { all } else { all / share }
}

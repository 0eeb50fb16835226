//! Parses words that several trace formats share.

use super::Op;

/// Parses a time: decimal digits with an optional fraction, in units of `unit_ns`. Returns
/// nanoseconds.
pub fn time_ns(text: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole_ns = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    let kept = &fraction[..fraction.len().min(18)];
    let parts = if kept.is_empty() { 0 } else { kept.parse::<u64>().ok()? };
    let part_ns = u128::from(parts) * u128::from(unit_ns) / 10u128.pow(kept.len() as u32);
    whole_ns.checked_add(u64::try_from(part_ns).ok()?)
}

/// Parses Linux's letters for an operation, such as `FWFSM`. Returns the operation, whether a flush
/// comes before it, and whether it is a forced unit access. `None`: the letters name no read,
/// write, flush or discard.
pub(super) fn letters(text: &str) -> Option<(Op, bool, bool)> {
    let (first, rest) = match text.strip_prefix('F') {
        Some(rest) if !rest.is_empty() => (true, rest),
        _ => (false, text),
    };
    let op = match rest.chars().next()? {
        'R' => Op::Read,
        'W' => Op::Write,
        'D' => Op::Discard,
        'F' => Op::Flush,
        'N' if first => Op::Flush,
        // A flush alone; other flags may follow it.
        _ if first => return letters(rest).map_or(Some((Op::Flush, false, false)), Some),
        _ => return None,
    };
    let flush_first = first && op != Op::Flush;
    Some((op, flush_first, rest[1..].contains('F') && op == Op::Write))
}

/// Parses a number of blocks of 512 bytes. Returns the number of bytes.
pub(super) fn sectors(text: &str) -> Option<u64> {
    text.parse::<u64>().ok()?.checked_mul(512)
}

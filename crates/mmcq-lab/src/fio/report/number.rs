//! Formats numbers as fio does: `16.9MiB`, `2805k`, `4057.1k`.

/// Returns `number` with at most `figures` digits and with `unit` behind it, divided by a power of
/// 1024 (`Ki`) if `binary` is true, otherwise by a power of 1000 (`k`).
pub fn short(number: u64, figures: u8, binary: bool, unit: &str) -> String {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let (step, prefixes) = if binary { (1024, BINARY) } else { (1000, DECIMAL) };
    let figures = usize::from(figures.max(1));
    let (mut whole, mut rest, mut power) = (number, None, 0);
    while digits(whole) > figures && power + 1 < prefixes.len() {
        rest = Some(whole % step);
        whole /= step;
        power += 1;
    }
    let prefix = prefixes[power];
    let Some(rest) = rest else { return format!("{whole}{prefix}{unit}") };
    let room = figures.saturating_sub(digits(whole));
    if room <= 1 {
        // A point and a digit would not fit, so the number is rounded.
        let rounded = whole + u64::from(rest >= step / 2);
        return format!("{rounded}{prefix}{unit}");
    }
    let precision = room - 1;
    format!("{:.precision$}{prefix}{unit}", whole as f64 + rest as f64 / step as f64)
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |n| n as usize + 1)
}

/// Returns a readable unit for latencies with this minimum, maximum and deviation in ns: the
/// divisor, and the unit's name.
pub fn latency_unit(min: u64, max: u64, deviation: f64) -> (f64, &'static str) {
    if min > 2_000_000 && max > 99_999_999 && deviation > 1_000_000.0 {
        (1_000_000.0, "msec")
    } else if min > 2_000 && max > 99_999 && deviation > 1_000.0 {
        (1_000.0, "usec")
    } else {
        (1.0, "nsec")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_fio_prints_them() {
        for (number, figures, binary, unit, text) in [
            (4_057_107, 6, false, "", "4057.1k"),
            (281_188, 6, false, "", "281188"),
            (2_805_069, 4, false, "", "2805k"),
            (17_674_000, 4, true, "B", "16.9MiB"),
            (17_674_000, 4, false, "B", "17.7MB"),
            (4096, 4, true, "B", "4096B"),
            (0, 4, true, "B", "0B"),
            (10_240, 4, true, "B", "10.0KiB"),
            (1_000_000, 4, true, "B", "977KiB"),
            (17_821_696, 4, true, "B", "17.0MiB"),
            (u64::MAX, 4, true, "B", "16.0EiB"),
        ] {
            assert_eq!(short(number, figures, binary, unit), text);
        }
    }
}

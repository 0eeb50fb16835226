//! Parsers of option values: sizes, times, booleans, numbers, lists, byte patterns. Each parser
//! returns the value, or a text that says what was expected and can follow the word "expected".

/// Text about what a parser expected, for example `a size such as 4k`.
pub type Expected = String;

const SIZE: &str = "a size such as 4k";

/// Parses a size in bytes, decimal or `0x` hexadecimal. `k m g t p` are powers of 1024; with
/// `kb_base` 1000, powers of 1000. As in fio, the spelling `kib` means the other base.
pub fn size(text: &str, kb_base: u64) -> Result<u64, Expected> {
    let expected = || SIZE.to_string();
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).map_err(|_| expected());
    }
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let suffix = suffix.to_ascii_lowercase();
    let (unit, rest) = match suffix.chars().next() {
        None => return Ok(number),
        Some('b') if suffix.len() == 1 => return Ok(number),
        Some(c) => ("kmgtp".find(c).ok_or_else(expected)?, suffix.get(1..).unwrap_or("")),
    };
    let base = match (rest, kb_base) {
        ("" | "b" | "i", base) => base,
        ("ib", 1000) => 1024,
        ("ib", _) => 1000,
        _ => return Err(expected()),
    };
    let power = u32::try_from(unit).unwrap_or(0) + 1;
    base.checked_pow(power).and_then(|f| number.checked_mul(f)).ok_or("a size below 16 EiB".to_string())
}

/// Parses a size in bytes, or a share of the file such as `20%`. `kb_base` (1000 or 1024) is the
/// value of the suffix `k`.
pub fn size_or_percent(text: &str, kb_base: u64) -> Result<super::job::Size, Expected> {
    if let Some(number) = text.trim().strip_suffix('%') {
        let percent: u8 =
            number.parse().ok().filter(|p| (1..=100).contains(p)).ok_or("a share from 1% to 100%")?;
        return Ok(super::job::Size::Percent(percent));
    }
    size(text, kb_base).map(super::job::Size::Bytes)
}

/// Parses a time and returns nanoseconds; a number without a unit counts in `default_unit_ns`.
pub fn time_ns(text: &str, default_unit_ns: u64) -> Result<u64, Expected> {
    let expected = || "a time such as 30s or 500ms".to_string();
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| expected())?;
    let unit_ns: u64 = match suffix.to_ascii_lowercase().as_str() {
        "" => default_unit_ns,
        "ns" | "nsec" => 1,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(unit_ns).ok_or("a time below 584 years".to_string())
}

/// Parses a whole number in `min..=max`. Size suffixes such as `k` are allowed; `kb_base` (1000 or
/// 1024) is the value of `k`.
pub fn number(text: &str, kb_base: u64, min: u64, max: u64) -> Result<u64, Expected> {
    let expected = || format!("a number from {min} to {max}");
    let n = size(text, kb_base).map_err(|_| expected())?;
    if (min..=max).contains(&n) { Ok(n) } else { Err(expected()) }
}

/// Parses `0` or `1`.
pub fn boolean(text: &str) -> Result<bool, Expected> {
    match text.trim() {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1".to_string()),
    }
}

/// Parses one of the words in this list, and returns its value. The error lists all words.
pub fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, Expected> {
    let text = text.trim();
    words.iter().find(|(w, _)| *w == text).map(|(_, v)| *v).ok_or_else(|| {
        let mut seen: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        seen.dedup();
        format!("one of {}", seen.join(", "))
    })
}

/// Parses percentiles `50:99:99.9`: at most 20, each in 0 < p <= 100. Returns them in rising order.
pub fn percentiles(text: &str) -> Result<Vec<f64>, Expected> {
    let expected = || "percentiles above 0 and up to 100 such as 50:99:99.9, at most 20".to_string();
    let mut list = Vec::new();
    for part in text.split(':') {
        let p: f64 = part.trim().parse().map_err(|_| expected())?;
        if !(p > 0.0 && p <= 100.0) || list.len() == 20 {
            return Err(expected());
        }
        list.push(p);
    }
    list.sort_by(f64::total_cmp);
    Ok(list)
}

/// Length in bytes of the longest byte pattern.
pub const PATTERN_BYTES_MAX: usize = 512;

/// Parses a byte pattern: `0x` hexadecimal (most significant byte first), a decimal number (least
/// significant byte first), or text in double quotes. Several parts may follow each other, without
/// a separator beside a quoted part.
pub fn pattern(text: &str) -> Result<Vec<u8>, Expected> {
    let expected =
        || format!("a pattern such as 0xdeadbeef, 255 or \"abcd\", of 1 to {PATTERN_BYTES_MAX} bytes");
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (bytes, left) = pattern_part(rest).ok_or_else(expected)?;
        out.extend_from_slice(&bytes);
        if out.len() > PATTERN_BYTES_MAX {
            return Err(expected());
        }
        rest = left;
    }
    if out.is_empty() { Err(expected()) } else { Ok(out) }
}

/// Parses the quoted, hexadecimal or decimal part at the start of a pattern. Also returns the text
/// after this part.
fn pattern_part(text: &str) -> Option<(Vec<u8>, &str)> {
    if let Some(inner) = text.strip_prefix('"') {
        let (quoted, left) = inner.split_once('"')?;
        return Some((quoted.as_bytes().to_vec(), left));
    }
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        let (digits, left) = hex.split_at(end);
        let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_string() };
        let bytes: Option<Vec<u8>> = padded
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        return bytes.filter(|b| !b.is_empty()).map(|b| (b, left));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, left) = text.split_at(end);
    let number: u32 = digits.parse().ok()?;
    let bytes = number.to_le_bytes();
    let used = bytes.iter().rposition(|b| *b != 0).map_or(1, |i| i + 1);
    bytes.get(..used).map(|b| (b.to_vec(), left))
}

/// Splits `a:b\:c` at colons that have no backslash before them, and removes those backslashes.
pub fn colon_list(text: &str) -> Vec<String> {
    let mut list = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&':') {
            chars.next();
            list.last_mut().expect("never empty").push(':');
        } else if c == ':' {
            list.push(String::new());
        } else {
            list.last_mut().expect("never empty").push(c);
        }
    }
    list.retain(|name| !name.is_empty());
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_fios() {
        // Sizes that fio 3.33 prints in its line "bs=(R) ..." for each spelling.
        for (text, base, bytes) in [
            ("4k", 1024, 4096),
            ("4KB", 1024, 4096),
            ("4ki", 1024, 4096),
            ("4kib", 1024, 4000),
            ("1MiB", 1024, 1_000_000),
            ("4k", 1000, 4000),
            ("4kb", 1000, 4000),
            ("4KiB", 1000, 4096),
            ("4096b", 1000, 4096),
            ("0x1000", 1024, 4096),
            ("2g", 1024, 2 << 30),
        ] {
            assert_eq!(size(text, base), Ok(bytes), "{text} with kb_base={base}");
        }
        for text in
            ["", "k", "4q", "-4", "4kk", "4kibb", "1.5g", "0x", "4 k", "99999999999999999999", "9999999p"]
        {
            assert!(size(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        const S: u64 = 1_000_000_000;
        for (text, ns) in
            [("10", 10 * S), ("10s", 10 * S), ("2m", 120 * S), ("1h", 3600 * S), ("5ms", 5_000_000)]
        {
            assert_eq!(time_ns(text, S), Ok(ns), "{text}");
        }
        for text in ["", "s", "1x", "-1", "1m30", "999999999999d"] {
            assert!(time_ns(text, S).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns() {
        assert_eq!(pattern("0xdeadbeef"), Ok(vec![0xde, 0xad, 0xbe, 0xef]));
        assert_eq!(pattern("0xabc"), Ok(vec![0x0a, 0xbc]));
        assert_eq!(pattern("\"abcd\""), Ok(b"abcd".to_vec()));
        assert_eq!(pattern("\"abcd\"0xff"), Ok(b"abcd\xff".to_vec()));
        assert_eq!(pattern("255"), Ok(vec![255]));
        assert_eq!(pattern("258"), Ok(vec![2, 1]));
        assert_eq!(pattern("0"), Ok(vec![0]));
        for text in ["", "\"", "\"\"", "0x", "%o", "-1", "4294967296"] {
            assert!(pattern(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(colon_list("a:b\\:c::d"), ["a", "b:c", "d"]);
        assert_eq!(percentiles("99:50"), Ok(vec![50.0, 99.0]));
        for text in ["", "0", "101", "nan", "a", "inf", "-1"] {
            assert!(percentiles(text).is_err(), "{text}");
        }
    }
}

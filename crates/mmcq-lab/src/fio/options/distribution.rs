//! Parses the value of `random_distribution=`.

use crate::fio::job::{Distribution, Zone};
use crate::fio::value::{self, Expected};

/// Largest number of zones that a distribution may have.
const ZONES_MAX: usize = 64;

/// Parses `random`, `zipf:1.2`, `pareto:0.2:0.5`, `normal:10`, `zoned:60/10:40/90` or
/// `zoned_abs:60/1g:40/9g`. `kb_base`: number of bytes that `k` means, 1000 or 1024.
pub(super) fn read(text: &str, kb_base: u64) -> Result<Distribution, Expected> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    match word {
        "random" if rest.is_empty() => Ok(Distribution::Uniform),
        "zipf" => {
            let (theta, center) = law(rest, "zipf:1.2", 1.1, |theta| theta > 0.0 && theta != 1.0)?;
            Ok(Distribution::Zipf { theta, center })
        }
        "pareto" => {
            let (h, center) = law(rest, "pareto:0.2", 0.2, |h| h > 0.0 && h < 1.0)?;
            Ok(Distribution::Pareto { h, center })
        }
        "normal" | "gauss" => {
            let (percent, center) = law(rest, "normal:10", 0.0, |p| (0.0..=100.0).contains(&p))?;
            Ok(Distribution::Normal { percent, center })
        }
        "zoned" => {
            let size = |text: &str| text.parse::<u64>().ok().filter(|percent| *percent <= 100);
            zones(rest, "zoned:60/10:40/90", size, Some(100)).map(Distribution::Zoned)
        }
        "zoned_abs" => {
            let size = |text: &str| value::size(text, kb_base).ok();
            zones(rest, "zoned_abs:60/1g:40/9g", size, None).map(Distribution::ZonedBytes)
        }
        _ => Err("random, zipf, pareto, normal, zoned or zoned_abs".to_string()),
    }
}

/// Parses the parameter of a random distribution, and the optional center behind it, as in
/// `1.2:0.5`. Without a parameter, returns `usual`. `fits` checks the parameter; `example` is a
/// valid value for the error text.
fn law(text: &str, example: &str, usual: f64, fits: fn(f64) -> bool) -> Result<(f64, Option<f64>), Expected> {
    let expected = || format!("a value such as {example}, and perhaps :CENTER from 0 to 1");
    let (value, center) = match text.split_once(':') {
        Some((value, center)) => (value, Some(center)),
        None => (text, None),
    };
    let value = if value.is_empty() { usual } else { value.parse().map_err(|_| expected())? };
    let center = center.map(|text| text.parse::<f64>().map_err(|_| expected())).transpose()?;
    let inside = center.is_none_or(|center| (0.0..=1.0).contains(&center));
    if fits(value) && value <= 100.0 && inside { Ok((value, center)) } else { Err(expected()) }
}

/// Parses zones such as `60/10:30/:10/`; `size` parses the part of a zone behind the slash. Zones
/// without a size share what the zones with a size leave of `whole`, the size of the file in the
/// same unit; `None`: every zone must have a size. `example` is named in errors.
fn zones(
    text: &str,
    example: &str,
    size: impl Fn(&str) -> Option<u64>,
    whole: Option<u64>,
) -> Result<Vec<Zone>, Expected> {
    let expected = || format!("zones such as {example}: the same for all directions, 100 percent in all");
    let mut parts = Vec::new();
    for part in text.split(':').filter(|part| !part.is_empty()) {
        let (percent, bytes) = part.split_once('/').ok_or_else(expected)?;
        let percent = percent.parse::<u8>().ok().filter(|p| *p <= 100).ok_or_else(expected)?;
        let bytes = if bytes.is_empty() { None } else { Some(size(bytes).ok_or_else(expected)?) };
        parts.push((percent, bytes));
    }
    let draws: u32 = parts.iter().map(|(percent, _)| u32::from(*percent)).sum();
    if parts.len() > ZONES_MAX || draws != 100 {
        return Err(expected());
    }
    let said = parts.iter().filter_map(|(_, size)| *size).fold(0u64, u64::saturating_add);
    let open = parts.iter().filter(|(_, size)| size.is_none()).count() as u64;
    let left = whole.map(|whole| whole.checked_sub(said).ok_or_else(expected)).transpose()?;
    let share = match (left, open) {
        (Some(0), 0) | (None, 0) => 0,
        (Some(left), 1..) if left >= open => left / open,
        _ => return Err(expected()),
    };
    if said > 1 << 62 {
        return Err(expected());
    }
    Ok(parts.into_iter().map(|(percent, size)| Zone { percent, size: size.unwrap_or(share) }).collect())
}

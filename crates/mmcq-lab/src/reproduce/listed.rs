//! Writes the results of a reproduced experiment as an HTML page.

use super::{Row, json_lines, table};
use crate::page::chart;
use crate::page::listed::{Part, listed};

/// Returns the page `title` with these parts of a reproduction's table; `svg` is the picture of the
/// rates.
///
/// # Errors
/// A figure is not a number.
pub fn page(
    title: &str,
    parts: &[Vec<Row>],
    svg: Option<&str>,
    command: &str,
) -> Result<String, serde_json::Error> {
    let all: Vec<Row> = parts.concat();
    let predicted = all.iter().filter(|row| !row.fitted).filter_map(Row::error_percent);
    let mut sizes: Vec<f64> = predicted.map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let verdict = match (sizes.len(), sizes.last()) {
        (0, _) | (_, None) => "Nothing was published for these cells: they are predictions.".to_owned(),
        (count, Some(most)) => format!(
            "{count} published values that no parameter was fitted to are predicted within {:.1} % on average, \
             {most:.1} % at most.",
            sizes.iter().sum::<f64>() / count as f64
        ),
    };
    let mut shown: Vec<Part> = Vec::new();
    for rows in parts {
        let picture = svg.filter(|_| shown.is_empty()).map(|svg| {
            (chart::scaled(svg, "Rates", "paper"), "Rates; a line is what wire and card allow.".to_owned())
        });
        let heading = match rows.first().map(|row| row.unit.as_str()) {
            Some(unit) if parts.len() > 1 => format!("Part {}, {unit}", shown.len() + 1),
            _ => "All cells".to_owned(),
        };
        shown.push(Part { heading, picture, table: Some(table(rows)), lines: String::new() });
    }
    let intro = "A published experiment with SD and eMMC cards, run again on models. Under each setting: what was \
                 published (paper; with a star, parameters were fitted to it), what the model says, the error, and \
                 the share of what wire and card allow.";
    Ok(listed(title, intro, &[verdict], &shown, command, &json_lines(&all)?))
}

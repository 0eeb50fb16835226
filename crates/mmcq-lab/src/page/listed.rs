//! Writes pages that show lists: results of a sweep, a reproduction or a campaign of torture tests.

use super::frame;
use crate::table::Table;
use maud::html;

/// Largest number of rows of a table on a page, so that the page stays below 500 KB.
const ROWS_MAX: usize = 400;
/// Largest number of bytes of data on a page, so that the page stays below 500 KB.
const DATA_MAX: usize = 250_000;

/// Section of a page, with its heading.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Heading of the section.
    pub heading: String,
    /// An SVG picture, and what it shows; `None`: the section has no picture.
    pub picture: Option<(String, String)>,
    /// Table of the section; `None`: the section has no table.
    pub table: Option<Table>,
    /// Further lines of the section, as the program prints them.
    pub lines: String,
}

/// Returns an HTML page with a section for each of `parts`. `intro` explains the page to a reader
/// who does not know the project. `verdict` is the result of the whole page, shown at its top.
/// `command` is the command that writes all data. `data` is JSON, one object per line.
pub fn listed(
    title: &str,
    intro: &str,
    verdict: &[String],
    parts: &[Part],
    command: &str,
    data: &str,
) -> String {
    let top = html! {
        p.soft { (intro) }
        section.verdict aria-label="Verdict" { @for line in verdict { p { (line) } } }
    };
    let body = html! {
        @for part in parts {
            h2 { (part.heading) }
            @if let Some((svg, said)) = &part.picture { (frame::figure_wide(svg, said)) }
            @if let Some(table) = &part.table {
                @let heads = table.heads().collect::<Vec<_>>();
                @let heads = heads.iter().map(String::as_str).collect::<Vec<_>>();
                @let rows = table.rows().take(ROWS_MAX).collect::<Vec<_>>();
                (frame::table(&part.heading, &heads, &rows, None))
                @if table.lines() > rows.len() {
                    p.soft {
                        "The first " (rows.len()) " of " (table.lines()) " rows; the command below writes all of them."
                    }
                }
            }
            @if !part.lines.is_empty() { pre tabindex="0" { (part.lines) } }
        }
        h2 { "Run again" }
        pre tabindex="0" { code { (command) } }
    };
    let whole = data.len() <= DATA_MAX;
    let end = if whole { data.len() } else { data[..DATA_MAX].rfind('\n').map_or(0, |at| at + 1) };
    frame::page(title, &top, &body, &data[..end], None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_says_how_much_of_it_is_there() {
        let rows: String = (0..1000).map(|n| format!("{{\"point\":{n},\"rate\":\"<{n}\"}}\n")).collect();
        let table = Table::of_lines(&rows);
        let part = Part { heading: "All points".to_owned(), table: Some(table), ..Part::default() };
        let page = listed("A & B", "What it is.", &["Well.".to_owned()], &[part], "mmcq sweep", &rows);
        assert!(page.len() < 500_000 && page.contains("A &amp; B") && page.contains("&lt;399"));
        assert!(page.contains("The first 400 of 1000 rows") && !page.contains("&lt;400"));
        let (_, data) = page.split_once(frame::DATA).unwrap();
        let data = data.split_once(frame::DATA_END).unwrap().0.trim();
        assert!(data.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }
}

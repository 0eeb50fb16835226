//! Tables of results: as aligned text that is split at the width of a page, as Markdown, and as
//! CSV.

use serde_json::{Map, Value};
use std::fmt::Write;

/// Width in characters at which text is split into lines or parts.
pub const PAGE: usize = 100;

/// Splits a text into lines that fit the page when they are indented by `indent` characters.
pub fn folded(text: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if indent + line.chars().count() + 1 + word.chars().count() <= PAGE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Group of the column, such as the name of a setting. Empty: the column belongs to no group,
    /// such as a column with names of the lines; it is repeated in every part of the table.
    pub group: String,
    /// Heading of the column.
    pub head: String,
    /// Texts of the column's cells, one for each line of the table.
    pub cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.head]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// Table of columns with equal length. In text, the first two columns are aligned left, all others
/// right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Adds a column with the heading `head`, in the group `group`, to the table, unless all its
    /// cells are empty.
    pub fn add(&mut self, group: &str, head: &str, cells: Vec<String>) {
        if cells.iter().any(|text| !text.is_empty()) {
            self.columns.push(Column { group: group.to_owned(), head: head.to_owned(), cells });
        }
    }

    /// Makes a table from JSON objects, one per line. There is a column for each name, in the order
    /// of their first use; missing values are empty.
    pub fn of_lines(text: &str) -> Self {
        let rows: Vec<Map<String, Value>> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut table = Table::default();
        for name in rows.iter().flat_map(Map::keys) {
            if table.columns.iter().any(|column| column.head == *name) {
                continue;
            }
            let cell = |row: &Map<String, Value>| match row.get(name) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            let (group, head) = (String::new(), name.clone());
            table.columns.push(Column { group, head, cells: rows.iter().map(cell).collect() });
        }
        table
    }

    /// Returns the number of lines of the table.
    pub fn lines(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }

    /// Splits the table into parts that fit the page's width, and returns the columns of each part.
    /// Columns without a group are in every part, followed by as many whole groups as fit.
    fn parts(&self) -> Vec<Vec<&Column>> {
        let (own, grouped): (Vec<&Column>, Vec<&Column>) =
            self.columns.iter().partition(|column| column.group.is_empty());
        let room = |columns: &[&Column]| columns.iter().map(|c| c.width() + 2).sum::<usize>();
        let mut parts: Vec<Vec<&Column>> = vec![own.clone()];
        for group in grouped.chunk_by(|a, b| a.group == b.group) {
            let named = group[0].group.chars().count() + 3;
            let needed = (room(group) + 1).max(named);
            let full = parts.last().is_some_and(|p| p.len() > own.len() && room(p) + p.len() + needed > PAGE);
            if full {
                parts.push(own.clone());
            }
            if let Some(part) = parts.last_mut() {
                part.extend(group);
            }
        }
        parts
    }

    /// Returns the table as aligned text. Parts that do not fit side by side are below one another.
    pub fn text(&self) -> String {
        let parts: Vec<String> = self.parts().iter().map(|part| aligned(part, self.lines())).collect();
        parts.join("\n")
    }

    /// Returns the headings of the columns, each with its group.
    pub fn heads(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|c| match c.group.is_empty() {
            true => c.head.clone(),
            false => format!("{} {}", c.group, c.head),
        })
    }

    /// Returns the lines of the table, each with one text for every column.
    pub fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        (0..self.lines()).map(|line| self.columns.iter().map(|column| column.cells[line].clone()).collect())
    }

    /// Returns the table in Markdown.
    pub fn markdown(&self) -> String {
        let row = |cells: &mut dyn Iterator<Item = String>| {
            cells.fold("|".to_owned(), |line, cell| line + " " + &cell.replace('|', "\\|") + " |") + "\n"
        };
        let mut text = row(&mut self.heads());
        // Columns of numbers are aligned right.
        let number =
            |cell: &String| cell.is_empty() || cell.starts_with(|c: char| "+-0123456789".contains(c));
        let line = |column: &Column| if column.cells.iter().all(number) { "---:" } else { "---" };
        text += &row(&mut self.columns.iter().map(|column| line(column).to_owned()));
        for line in 0..self.lines() {
            text += &row(&mut self.columns.iter().map(|c| c.cells[line].clone()));
        }
        text
    }

    /// Returns the table as CSV: lines with commas [RFC 4180].
    pub fn csv(&self) -> String {
        let quoted = |cell: String| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        };
        let mut text = self.heads().map(quoted).collect::<Vec<_>>().join(",") + "\r\n";
        for line in 0..self.lines() {
            let cells = self.columns.iter().map(|c| quoted(c.cells[line].clone()));
            text += &(cells.collect::<Vec<_>>().join(",") + "\r\n");
        }
        text
    }
}

fn aligned(columns: &[&Column], lines: usize) -> String {
    let bar = |i: usize| if i > 0 && columns[i - 1].group != columns[i].group { " | " } else { "  " };
    let (mut text, mut groups, mut heads) = (String::new(), String::new(), String::new());
    for (i, column) in columns.iter().enumerate() {
        if bar(i) == " | " {
            // The name of a group is above its first column, and may be wider than this column.
            let room = heads.chars().count();
            let left = room - groups.chars().count().min(room);
            let _ = write!(groups, "{:left$} | {}", "", column.group);
        }
        let w = column.width();
        let _ = if i < 2 {
            write!(heads, "{:w$}  ", column.head)
        } else {
            write!(heads, "{}{:>w$}", bar(i), column.head)
        };
    }
    for line in [groups, heads] {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for line in 0..lines {
        let mut out = String::new();
        for (i, column) in columns.iter().enumerate() {
            let (w, cell) = (column.width(), &column.cells[line]);
            let _ = if i < 2 { write!(out, "{cell:w$}  ") } else { write!(out, "{}{cell:>w$}", bar(i)) };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide() -> Table {
        let mut table = Table::default();
        let cells = |text: &str| vec![text.to_owned(), format!("{text}, \"b\"|")];
        table.add("", "cell", cells("4 KiB"));
        table.add("", "unit", cells("MiB/s"));
        table.add("", "nothing", vec![String::new(); 2]);
        for setting in ["none", "hsq-tag", "mmcq", "mmcq-own"] {
            table.add(setting, "paper", cells("12.34*"));
            table.add(setting, "model", cells("12.3"));
        }
        table
    }

    #[test]
    fn objects_become_lines_with_a_column_for_each_name() {
        let table = Table::of_lines("{\"a\":1,\"b\":null}\n{\"a\":\"x, y\",\"c\":[1,2]}\n");
        assert_eq!(table.csv(), "a,b,c\r\n1,,\r\n\"x, y\",,\"[1,2]\"\r\n");
        assert_eq!(table.markdown().lines().next(), Some("| a | b | c |"));
        assert_eq!(Table::of_lines("").csv(), "\r\n");
    }

    #[test]
    fn what_does_not_fit_the_page_folds_and_nothing_is_lost() {
        let text = wide().text();
        assert!(text.lines().all(|line| line.chars().count() <= PAGE), "{text}");
        assert_eq!(text.matches("paper").count(), 4, "{text}");
        assert!(text.matches("cell").count() > 1, "each part says which line it is: {text}");
        assert!(!text.contains("nothing"));
    }

    #[test]
    fn other_programs_read_every_cell() {
        let markdown = wide().markdown();
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(markdown.lines().all(|line| bars(line) == 11), "{markdown}");
        let csv = wide().csv();
        assert_eq!(csv.lines().count(), 3);
        assert!(csv.starts_with("cell,unit,none paper,none model,hsq-tag paper"), "{csv}");
        assert!(csv.contains("\"4 KiB, \"\"b\"\"|\""), "{csv}");
    }
}

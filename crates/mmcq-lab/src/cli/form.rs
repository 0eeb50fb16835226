//! Forms in which a list is printed: as text, JSON, Markdown or CSV.

use super::{Error, print};
use clap::Args;
use mmcq_lab::sweep::Format;
use mmcq_lab::table::Table;
pub use mmcq_lab::table::folded;

#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Form {
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// A table in Markdown
    #[arg(long)]
    markdown: bool,
    /// CSV: values separated by commas, with the names in the first line
    #[arg(long)]
    csv: bool,
}

impl Form {
    /// Returns the form for rows of a list that are printed one by one.
    pub fn of_rows(&self) -> Format {
        match self {
            Form { markdown: true, .. } => Format::Markdown,
            Form { csv: true, .. } => Format::Csv,
            _ => Format::Json,
        }
    }

    /// Prints the list in the chosen form. `text` returns the list for people, `lines` returns it
    /// as JSON lines, from which the other forms are made.
    pub fn print(&self, text: impl FnOnce() -> String, lines: impl FnOnce() -> String) -> Result<(), Error> {
        print(&match self {
            Form { json: true, .. } => lines(),
            Form { markdown: true, .. } => Table::of_lines(&lines()).markdown(),
            Form { csv: true, .. } => Table::of_lines(&lines()).csv(),
            _ => text(),
        })
    }
}

//! fio: job files, offsets, verification, statistics and reports, all in the caller's time.

pub mod error;
pub mod hist;
pub mod job;
pub mod offsets;
pub mod options;
pub mod parse;
pub mod stats;
pub mod value;

pub use error::{Note, ParseError, Place};
pub use job::{Dir, Job, Worker, expand};
pub use parse::{JobFile, OutputFormat, Sources, System, parse_command_line, parse_file, parse_text};

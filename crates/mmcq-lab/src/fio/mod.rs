//! fio: job files, offsets, verification, statistics and reports, all in the caller's time.

pub mod error;
pub mod hist;
pub mod job;
pub mod logs;
pub mod offsets;
pub mod options;
pub mod parse;
pub mod state;
pub mod stats;
pub mod value;
pub mod verify;

pub use error::{Note, ParseError, Place};
pub use job::{Dir, Job, Worker, expand};
pub use parse::{JobFile, OutputFormat, Sources, System, parse_command_line, parse_file, parse_text};

//! fio for the laboratory: job files, the order of transfers, contents, statistics and reports, all
//! in the caller's time and without I/O of its own.
//!
//! A run goes through these steps:
//!
//! 1. [`parse_file`] or [`parse_command_line`] gives a [`JobFile`]; its `notes` name options
//!    without effect.
//! 2. [`expand`] turns its jobs into [`Worker`]s. One that `waits_for_earlier` starts after all
//!    before it.
//! 3. [`state::JobState`] says, for each worker, what to submit and when, and is told what
//!    completed.
//! 4. [`report::Report`] gathers the workers' [`stats::Stats`]; [`report::normal()`],
//!    [`report::json::json`] and [`report::terse()`] write it. [`logs::Logs::files`] gives the log
//!    files.
//!
//! The rules are those of fio 3.33, which the tests hold beside it: same offsets for the same job,
//! same bytes of a report for the same measurements, and contents that either verifies.

pub mod error;
pub mod hist;
pub mod job;
pub mod logs;
pub mod offsets;
pub mod options;
pub mod parse;
pub mod report;
pub mod script;
pub mod state;
pub mod stats;
pub mod value;
pub mod verify;

pub use error::{Note, ParseError, Place};
pub use job::{Dir, Job, Worker, expand};
pub use parse::{
    FILE_BYTES_MAX, JobFile, OutputFormat, Sources, System, parse_command_line, parse_file, parse_text,
    program_words,
};

//! fio for the laboratory: job files, the order of transfers, contents, statistics and reports. All
//! of it uses the caller's time and does no I/O of its own.
//!
//! A run has these steps:
//!
//! 1. [`parse_file`] or [`parse_command_line`] returns a [`JobFile`]; its `notes` name options
//!    without effect.
//! 2. [`expand`] turns its jobs into [`Worker`]s. A worker with `waits_for_earlier` starts after
//!    all workers before it have ended.
//! 3. [`state::JobState`] returns, for each worker, what to submit and when. The caller reports
//!    each completion to it.
//! 4. [`report::Report`] collects the workers' [`stats::Stats`]; [`report::normal()`],
//!    [`report::json::json`] and [`report::terse()`] write it. [`logs::Logs::files`] returns the
//!    log files.
//!
//! A *pass* of a worker is one time through its `size=`; `loops=` and `time_based` repeat it.
//!
//! The rules are those of fio 3.33, with which the tests compare: the same offsets for the same
//! job, the same bytes of a report for the same measurements, and contents that either program can
//! verify.

pub mod error;
pub mod hist;
pub mod job;
pub mod logs;
pub mod offsets;
pub mod options;
pub mod parse;
pub mod programs;
pub mod report;
pub mod script;
pub mod spans;
pub mod state;
pub mod stats;
pub mod value;
pub mod verify;

pub use error::{Note, ParseError, Place};
pub use job::{Dir, Job, Worker, expand};
pub use parse::{
    FILE_BYTES_MAX, JobFile, OutputFormat, Sources, System, parse_command_line, parse_file, parse_lines,
    parse_text, program_words,
};

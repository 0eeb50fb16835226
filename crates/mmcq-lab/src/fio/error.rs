//! Errors and notes of the job reader, each one line: where, which value, what was expected.

use std::fmt;

/// Place of an option or an error in the input: a line of a file, or an argument of the command
/// line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a job file.
    Line {
        /// Name of the job file, as the user gave it.
        file: String,
        /// Number of the line in the file, counted from 1.
        line: u32,
    },
    /// An argument of the command line; its number is counted from 1.
    Argument(u32),
    /// A job file or command line as a whole.
    Whole(String),
    /// A job as a whole; the field is the job's name.
    Job(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Argument(n) => write!(f, "argument {n}"),
            Place::Whole(name) => f.write_str(name),
            Place::Job(name) => write!(f, "job '{name}'"),
        }
    }
}

/// Error: a job file or command line cannot be used. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Place of the error in the input.
    pub place: Place,
    /// The value that was found, and what was expected.
    pub message: String,
}

impl ParseError {
    /// Makes an error at `place`.
    pub fn new(place: &Place, message: impl Into<String>) -> Self {
        ParseError { place: place.clone(), message: one_line(&message.into()) }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ParseError {}

/// A note about an option that was accepted but has no effect in the laboratory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Place of the option in the input.
    pub place: Place,
    /// Name of the option.
    pub option: String,
    /// Reason why the option has no effect.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} has no effect: {}", self.place, self.option, self.reason)
    }
}

/// Makes text from an untrusted file safe for one terminal line: escapes control characters and
/// limits the length.
fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 400;
    let mut out = String::new();
    for c in text.chars().take(MAX_CHARS) {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if text.chars().nth(MAX_CHARS).is_some() {
        out.push_str("...");
    }
    out
}

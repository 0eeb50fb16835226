//! Prints notes and errors to standard error, in colour on a terminal.

use clap::{Args, ColorChoice};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants no notes and no progress.
static QUIET: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Args)]
#[command(next_display_order = 1000)]
pub struct Voice {
    /// Print no notes and no progress, only results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colours of notes, errors and help; NO_COLOR in the environment turns them off, too
    #[arg(long = "color", value_name = "WHEN", global = true, default_value = "auto")]
    _color: ColorChoice,
}

impl Voice {
    /// Stores these options (`--quiet`, `--color`), so that all output from now on follows them.
    pub fn take(&self) {
        QUIET.store(self.quiet, Ordering::Relaxed);
    }
}

/// Chooses the colours. Help and errors about the command line need them before it is parsed, so
/// this function searches for `--color` by itself.
pub fn colours() -> ColorChoice {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.take_while(|word| word != "--").collect();
    let joined = words.iter().find_map(|word| word.strip_prefix("--color="));
    let apart = words.iter().skip_while(|word| *word != "--color").nth(1).map(String::as_str);
    match joined.or(apart) {
        Some("always") => {
            anstream::ColorChoice::Always.write_global();
            ColorChoice::Always
        }
        Some("never") => {
            anstream::ColorChoice::Never.write_global();
            ColorChoice::Never
        }
        _ => ColorChoice::Auto,
    }
}

/// Returns whether the program prints notes (the user did not give `--quiet`).
pub fn speaks() -> bool {
    !QUIET.load(Ordering::Relaxed)
}

/// Prints a note: information for the user that does not concern the result.
pub fn note(what: impl Display) {
    if speaks() {
        anstream::eprintln!("\x1b[36mmmcq:\x1b[0m {what}");
    }
}

/// Prints an error to standard error.
pub fn fault(what: impl Display) {
    anstream::eprintln!("\x1b[1;31mmmcq:\x1b[0m {what}");
}

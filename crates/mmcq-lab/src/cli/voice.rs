//! What is said beside the results, on standard error: notes and faults, in colour on a terminal.

use clap::{Args, ColorChoice};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// Notes and progress are not wanted.
static QUIET: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Args)]
#[command(next_display_order = 1000)]
pub struct Voice {
    /// No notes and no progress: results and errors alone
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Colours of notes, errors and help; NO_COLOR in the environment turns them off, too
    #[arg(long = "color", value_name = "WHEN", global = true, default_value = "auto")]
    _color: ColorChoice,
}

impl Voice {
    /// From now on.
    pub fn take(&self) {
        QUIET.store(self.quiet, Ordering::Relaxed);
    }
}

/// Chooses the colours. Help and errors of the command line need them before it is read whole, so
/// `--color` is looked for here.
pub fn colours() -> ColorChoice {
    let words: Vec<String> = std::env::args().take_while(|word| word != "--").collect();
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

/// Notes are wanted.
pub fn speaks() -> bool {
    !QUIET.load(Ordering::Relaxed)
}

/// What is good to know; the result is as it is.
pub fn note(what: impl Display) {
    if speaks() {
        anstream::eprintln!("\x1b[36mmmcq:\x1b[0m {what}");
    }
}

/// What went wrong.
pub fn fault(what: impl Display) {
    anstream::eprintln!("\x1b[1;31mmmcq:\x1b[0m {what}");
}

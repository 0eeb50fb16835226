//! Progress of a long command: a bar on a terminal, otherwise a line from time to time.

use super::voice;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which the bar updates the elapsed time.
const TICK: Duration = Duration::from_millis(250);
/// Interval between two lines of progress if there is no terminal.
const LINE: Duration = Duration::from_secs(20);

/// Unit in which progress is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The work consists of items, which are counted.
    Count,
    /// The work consists of bytes, which are counted.
    Bytes,
    /// No unit: only the name of the present step is shown.
    Step,
}

/// Progress display of a command.
pub struct Progress {
    bar: ProgressBar,
    unit: Unit,
    /// Time at which the next line is printed. `None`: there is a terminal, or the program is
    /// quiet.
    line: Option<Mutex<Instant>>,
}

impl Progress {
    /// Makes a progress display for `size` units of work; 0: the size is not known yet.
    pub fn new(title: &str, size: u64, unit: Unit) -> Self {
        let (speaks, terminal) = (voice::speaks(), std::io::stderr().is_terminal());
        let bar = match terminal && speaks {
            true => ProgressBar::new(size),
            false => ProgressBar::with_draw_target(Some(size), ProgressDrawTarget::hidden()),
        };
        let style = match unit {
            Unit::Count => "{msg} {bar:40} {human_pos}/{human_len} {elapsed} eta {eta}",
            Unit::Bytes => "{msg} {bar:40} {bytes}/{total_bytes} {percent}% {elapsed} eta {eta}",
            Unit::Step => "{spinner} {msg} {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        bar.set_message(title.to_owned());
        if terminal && speaks {
            bar.enable_steady_tick(TICK);
        }
        Progress { bar, unit, line: (!terminal && speaks).then(|| Mutex::new(Instant::now() + LINE)) }
    }

    /// Makes the first update print its line at once, so that the user sees that the program works.
    pub fn at_once(self) -> Progress {
        Progress { line: self.line.map(|_| Mutex::new(Instant::now())), ..self }
    }

    /// Adds `done` units to the amount of work done.
    pub fn inc(&self, done: u64) {
        self.bar.inc(done);
        self.line();
    }

    /// Sets the amount of work done and the size of the whole work.
    pub fn set(&self, done: u64, size: u64) {
        self.bar.set_length(size);
        self.bar.set_position(done);
        self.line();
    }

    /// Shows this text, the name of what the command does now, beside the progress bar.
    pub fn step(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.line();
    }

    /// Ends the display, and removes the bar from the terminal.
    pub fn end(self) {
        self.bar.finish_and_clear();
    }

    fn line(&self) {
        let Some(due) = &self.line else { return };
        let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() < *due {
            return;
        }
        *due = Instant::now() + LINE;
        let seconds = self.bar.elapsed().as_secs();
        let (done, size) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let left = match (self.unit, done) {
            (Unit::Step, _) | (_, 0) => String::new(),
            _ => format!(", {} s left", seconds.saturating_mul(size.saturating_sub(done)) / done),
        };
        voice::note(format_args!("{}, {seconds} s{left}", self.text()));
    }

    fn text(&self) -> String {
        let (title, done, size) = (self.bar.message(), self.bar.position(), self.bar.length().unwrap_or(0));
        let percent = done.saturating_mul(100).checked_div(size).unwrap_or(0);
        match self.unit {
            Unit::Count => format!("{title}: {} of {}, {percent} %", HumanCount(done), HumanCount(size)),
            Unit::Bytes => format!("{title}: {} of {}, {percent} %", HumanBytes(done), HumanBytes(size)),
            Unit::Step => title,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_much_of_how_much() {
        let progress = Progress::new("random runs, requests", 5_000_000, Unit::Count);
        progress.inc(1_250_000);
        assert_eq!(progress.text(), "random runs, requests: 1,250,000 of 5,000,000, 25 %");
        let progress = Progress::new("jobs", 0, Unit::Bytes);
        assert_eq!(progress.text(), "jobs: 0 B of 0 B, 0 %");
        progress.set(3 << 30, 4 << 30);
        assert_eq!(progress.text(), "jobs: 3.00 GiB of 4.00 GiB, 75 %");
        let progress = Progress::new("", 0, Unit::Step);
        progress.step("seq read, none");
        assert_eq!(progress.text(), "seq read, none");
    }
}

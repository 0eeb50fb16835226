//! Reports by semihosting, a line at a time.

use crate::cpu::write_line;
use core::fmt::{self, Write};

/// A line, and the zero at its end.
struct Line {
    bytes: [u8; 160],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // What is too long is cut: the last byte stays 0.
        let room = self.bytes.len() - 1 - self.used;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..self.used + text.len()].copy_from_slice(text);
        self.used += text.len();
        Ok(())
    }
}

/// One line of the report.
pub fn say(line: fmt::Arguments<'_>) {
    let mut buffer = Line { bytes: [0; _], used: 0 };
    // A line cannot fail.
    let _ = buffer.write_fmt(format_args!("{line}\n"));
    write_line(&mut buffer.bytes);
}

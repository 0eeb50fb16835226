//! Prints reports by semihosting, one line at a time.

use crate::cpu::write_line;
use core::fmt::{self, Write};

/// A line of text with a zero byte at its end.
struct Line {
    bytes: [u8; 160],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // A line that is too long is cut: its last byte stays 0.
        let room = self.bytes.len() - 1 - self.used;
        let text = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.used..self.used + text.len()].copy_from_slice(text);
        self.used += text.len();
        Ok(())
    }
}

/// Prints one line of the report.
pub fn say(line: fmt::Arguments<'_>) {
    let mut buffer = Line { bytes: [0; _], used: 0 };
    // Writing to a line cannot fail.
    let _ = buffer.write_fmt(format_args!("{line}\n"));
    write_line(&mut buffer.bytes);
}

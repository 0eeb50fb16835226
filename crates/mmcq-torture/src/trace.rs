//! A replay, line by line: what was on the bus.

use mmcq_sim::sdhci::BusEvent;

/// Columns of the time with which a line begins.
pub const TIME: usize = 14;

/// What the columns of a replay are.
pub const HEADING: &str = "       time/ns  what: -> request asked, <- its answer, ** what goes wrong, == the card's supervisor, deeper: the bus
                (requests are numbered as they are asked; one that finds no room is asked again)\n";

/// One event of the bus.
pub fn line(event: &BusEvent) -> String {
    match *event {
        BusEvent::Command { index, arg, auto, start_ns, .. } => {
            let auto = if auto { " (automatic)" } else { "" };
            format!("{start_ns:>TIME$}    CMD{index} {arg:08x}{auto}")
        }
        BusEvent::Response { index, content, errors, end_ns } => {
            let errors = if errors != 0 { format!(", errors {errors:#x}") } else { String::new() };
            format!("{end_ns:>TIME$}      answer to CMD{index}: {content:08x}{errors}")
        }
        BusEvent::Block { read, bytes, good, end_ns, .. } => {
            let way = if read { "from" } else { "to" };
            let bad = if good { "" } else { ", bad" };
            format!("{end_ns:>TIME$}      {bytes} bytes {way} the card{bad}")
        }
        BusEvent::Busy { from_ns, until_ns } => {
            format!("{from_ns:>TIME$}      busy for {} ns", until_ns.saturating_sub(from_ns))
        }
        BusEvent::Interrupt { at_ns, status } => format!("{at_ns:>TIME$}    interrupt, status {status:08x}"),
    }
}

/// Lines that wait for those of an earlier time: where a register access takes a while, what the
/// bus did meanwhile is told after what the stack did.
pub const HELD: usize = 256;

/// Puts the lines of a replay in the order of their times. What it still holds is told when it
/// goes, so that the end is seen even if the run panics.
pub struct InOrder<F: FnMut(String)> {
    tell: F,
    /// By time; of one time in the order in which they came.
    held: Vec<(u64, String)>,
    /// Of the last line that had one.
    last_ns: u64,
}

impl<F: FnMut(String)> InOrder<F> {
    /// Hands the lines to `tell`.
    pub fn new(tell: F) -> Self {
        InOrder { tell, held: Vec::with_capacity(HELD + 1), last_ns: 0 }
    }

    /// One line more. Without a time it has that of the line before.
    pub fn line(&mut self, line: String) {
        let time = line.get(..TIME).and_then(|time| time.trim().parse().ok());
        self.last_ns = time.unwrap_or(self.last_ns);
        let at = self.held.partition_point(|(ns, _)| *ns <= self.last_ns);
        self.held.insert(at, (self.last_ns, line));
        if self.held.len() > HELD {
            (self.tell)(self.held.remove(0).1);
        }
    }
}

impl<F: FnMut(String)> Drop for InOrder<F> {
    fn drop(&mut self) {
        self.held.drain(..).for_each(|(_, line)| (self.tell)(line));
    }
}

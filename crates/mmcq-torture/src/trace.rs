//! A replay of a run as text: one line for each event on the bus.

use mmcq_sim::sdhci::BusEvent;

/// Width in characters of the time at the beginning of a line.
pub const TIME: usize = 14;

/// Heading that explains the columns of a replay.
pub const HEADING: &str = "       time/ns  what: -> request asked, <- its answer, ** what goes wrong, == the card's supervisor, deeper: the bus
                (requests are numbered as they are asked; one that finds no room is asked again)\n";

/// Returns the line for an event on the bus.
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

/// Number of lines that are held back for sorting. During a register access the bus continues.
/// Events of the bus in this time are reported after the action of the stack, but with earlier
/// times.
pub const HELD: usize = 256;

/// Sorts the lines of a replay by their times. Dropping the sorter passes on the lines that it
/// still holds, so that the end of a run is shown even if the run panics.
pub struct InOrder<F: FnMut(String)> {
    tell: F,
    /// Lines of text that are not passed on yet, with their times. Lines with equal times stay in
    /// the order of arrival.
    held: Vec<(u64, String)>,
    /// Time in ns of the last line that had a time.
    last_ns: u64,
}

impl<F: FnMut(String)> InOrder<F> {
    /// Makes a list that collects lines, sorts them by time, and passes them to `tell` in that
    /// order.
    pub fn new(tell: F) -> Self {
        InOrder { tell, held: Vec::with_capacity(HELD + 1), last_ns: 0 }
    }

    /// Adds a line. A line without a time gets the time of the line before it.
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

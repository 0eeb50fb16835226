//! A replay, line by line: what was on the bus.

use mmcq_sim::sdhci::BusEvent;

/// One event of the bus.
pub fn line(event: &BusEvent) -> String {
    match *event {
        BusEvent::Command { index, arg, auto, start_ns, .. } => {
            let auto = if auto { " (automatic)" } else { "" };
            format!("{start_ns:>14}    CMD{index} {arg:08x}{auto}")
        }
        BusEvent::Response { index, content, errors, end_ns } => {
            let errors = if errors != 0 { format!(", errors {errors:#x}") } else { String::new() };
            format!("{end_ns:>14}      answer to CMD{index}: {content:08x}{errors}")
        }
        BusEvent::Block { read, bytes, good, end_ns, .. } => {
            let way = if read { "from" } else { "to" };
            let bad = if good { "" } else { ", bad" };
            format!("{end_ns:>14}      {bytes} bytes {way} the card{bad}")
        }
        BusEvent::Busy { from_ns, until_ns } => {
            format!("{from_ns:>14}      busy for {} ns", until_ns.saturating_sub(from_ns))
        }
        BusEvent::Interrupt { at_ns, status } => format!("{at_ns:>14}    interrupt {status:08x}"),
    }
}

//! Tests of the order of a replay's lines.

use mmcq_torture::trace::{HELD, InOrder, TIME};

#[test]
fn lines_come_in_the_order_of_their_times() {
    let mut told = Vec::new();
    let mut order = InOrder::new(|line| told.push(line));
    let at = |ns: u64, what: &str| format!("{ns:>TIME$} {what}");
    for (ns, what) in [(300, "asked"), (100, "command"), (200, "answer"), (300, "done"), (250, "block")] {
        order.line(at(ns, what));
    }
    order.line(format!("{:>TIME$} dropped", ""));
    for ns in 400..400 + HELD as u64 {
        order.line(at(ns, "more"));
    }
    drop(order);
    let words: Vec<_> = told.iter().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(words[..7], ["command", "answer", "block", "dropped", "asked", "done", "more"]);
    assert_eq!(told.len(), 6 + HELD);
}

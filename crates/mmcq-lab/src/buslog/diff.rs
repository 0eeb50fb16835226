//! Compares two logs of the bus.

use super::gaps::{Direction, Gaps};
use mmcq_sim::stats::BusEvent;
use serde_json::json;
use std::fmt::{self, Write};

/// Index and argument of a data command. Data commands transfer, erase or flush data, or belong to
/// such a command (as CMD23 and CMD12 do).
type Data = (u8, u32);

/// First difference between the data commands of two bus logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the data command, from 1.
    pub number: usize,
    /// Index, argument and start in ns of this command in each log; `None`: the log has no more
    /// data commands.
    pub commands: [Option<(u8, u32, u64)>; 2],
}

impl Difference {
    /// Finds the first difference between two logs. Returns `None` if both logs have the same data
    /// commands in the same order.
    pub fn first(one: &[BusEvent], other: &[BusEvent]) -> Option<Self> {
        let (one, other) = (commands(one), commands(other));
        let same = |a: &(Data, u64), b: &(Data, u64)| a.0 == b.0;
        let at = one.iter().zip(&other).take_while(|(a, b)| same(a, b)).count();
        let shown = |all: &[(Data, u64)]| all.get(at).map(|&((index, arg), ns)| (index, arg, ns));
        let commands = [shown(&one), shown(&other)];
        (commands != [None, None]).then_some(Difference { number: at + 1, commands })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, other] = self.commands;
        write!(f, "data command {}: {} | {}", self.number, shown(one), shown(other))
    }
}

fn shown(command: Option<(u8, u32, u64)>) -> String {
    match command {
        Some((index, arg, ns)) => format!("CMD{index} {arg:#010x} at {ns} ns"),
        None => "no more".to_owned(),
    }
}

/// Returns whether this is a data command: it transfers, erases or flushes data, or belongs to such
/// a command (as CMD23 and CMD12 do).
fn is_data(index: u8, arg: u32) -> bool {
    match index {
        // Transfers, with CMD23 before them and CMD12 after them.
        12 | 17 | 18 | 23 | 24 | 25 => true,
        // Erases and discards.
        32..=36 | 38 => true,
        // The queue of a card: requests, their data, its management.
        43..=47 => true,
        // Extension registers of an SD card, by which its cache is flushed. CMD48 of an eMMC removes
        // tasks from its queue.
        48 | 49 => true,
        // A byte of the EXT_CSD of an eMMC is written: that which flushes the cache.
        6 => arg >> 24 == 3 && arg >> 16 & 0xff == FLUSH_CACHE,
        _ => false,
    }
}

/// Byte of the EXT_CSD; the card flushes its cache when this byte is written (eMMC).
const FLUSH_CACHE: u32 = 32;

/// Returns the data commands of a log, with their starts in ns.
fn commands(events: &[BusEvent]) -> Vec<(Data, u64)> {
    let data = |event: &BusEvent| match *event {
        BusEvent::Command { index, arg, start_ns, .. } if is_data(index, arg) => {
            Some(((index, arg), start_ns))
        }
        _ => None,
    };
    events.iter().filter_map(data).collect()
}

/// A line of the comparison: one figure, with its values in both logs.
struct Line {
    direction: &'static str,
    what: String,
    /// Value of the figure in each of the two logs; `None`: no transfer of the log has this figure.
    both: [Option<f64>; 2],
}

impl Line {
    fn difference(&self) -> Option<f64> {
        let [a, b] = self.both;
        a.zip(b).map(|(a, b)| b - a)
    }
}

/// Returns figures about the gaps between transfers, for each direction, with the values of both
/// logs (`one`, `other`). A transfer counts as sent without waking a thread if its first command
/// came less than `wake_ns` after the last interrupt.
fn figures(one: &[BusEvent], other: &[BusEvent], wake_ns: u64) -> Vec<Line> {
    let mut lines = Vec::new();
    for (direction, name) in [(Direction::Read, "reads"), (Direction::Write, "writes")] {
        let both = [Gaps::of(one, direction), Gaps::of(other, direction)];
        if both.iter().all(|gaps| gaps.all == 0) {
            continue;
        }
        let mut add = |what: &str, of: &dyn Fn(&Gaps) -> Option<f64>| {
            lines.push(Line { direction: name, what: what.to_owned(), both: [of(&both[0]), of(&both[1])] });
        };
        add("transfers", &|gaps| Some(gaps.all as f64));
        add("of them with another right behind", &|gaps| Some(gaps.transfers as f64));
        // The other figures are of these.
        let mut line = |what: &str, of: &dyn Fn(&Gaps) -> f64| {
            add(what, &|gaps| (gaps.transfers > 0).then(|| of(gaps)));
        };
        line("4 KiB in each", &|gaps| gaps.each(gaps.bytes) / 4096.0);
        line("commands for each", &|gaps| gaps.each(gaps.commands));
        line("interrupts for each", &|gaps| gaps.each(gaps.interrupts));
        line("on the bus, us", &|gaps| gaps.each(gaps.work_ns) / 1e3);
        line("gap, mean, us", &|gaps| Gaps::mean_us(&gaps.gaps_ns));
        for percent in [5, 25, 50, 75, 95, 99] {
            line(&format!("gap, {percent} %, us"), &|gaps| Gaps::percentile_us(&gaps.gaps_ns, percent));
        }
        line("interrupt to next command, mean, us", &|gaps| Gaps::mean_us(&gaps.reply_ns));
        line("sent with no thread woken for it, %", &|gaps| gaps.filled_percent(wake_ns));
    }
    lines
}

/// Returns the comparison as text for a person: the first data command that differs between the two
/// logs, then figures about the gaps between transfers. One figure is the share of transfers after
/// which no thread had to be woken: the next transfer began less than `wake_ns` after the last
/// interrupt.
pub fn text(one: &[BusEvent], other: &[BusEvent], wake_ns: u64) -> String {
    let mut out = match Difference::first(one, other) {
        Some(difference) => format!("first difference: {difference}\n"),
        None => "the data commands are the same\n".to_owned(),
    };
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    for line in figures(one, other, wake_ns) {
        let ([a, b], Line { direction, what, .. }) = (line.both.map(shown), &line);
        let difference = line.difference().map_or("-".to_owned(), |value| format!("{value:+.2}"));
        let _ = writeln!(out, "{direction:7}{what:44}{a:>12} |{b:>12}  {difference:>12}");
    }
    out
}

/// Returns the comparison of two bus logs as JSON lines with direction, name, a, b and difference.
/// For the first difference, a and b are the two commands as text. If less than `wake_ns` lies
/// between the last interrupt and the next transfer, no thread had to be woken.
pub fn json_lines(one: &[BusEvent], other: &[BusEvent], wake_ns: u64) -> String {
    let first = Difference::first(one, other).map(|difference| {
        let [a, b] = difference.commands.map(shown);
        json!({"direction": "", "name": format!("data command {}", difference.number), "a": a, "b": b,
               "difference": null})
    });
    let figures = figures(one, other, wake_ns).into_iter().map(|line| {
        let [a, b] = line.both;
        json!({"direction": line.direction, "name": line.what, "a": a, "b": b, "difference": line.difference()})
    });
    first.into_iter().chain(figures).map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a log of two reads. The interrupt of the first read is at 1000 ns. The second read
    /// begins `gap_ns` later, at the address `second`.
    fn log(gap_ns: u64, second: u32) -> Vec<BusEvent> {
        let command =
            |arg, start_ns| BusEvent::Command { index: 18, arg, auto: false, start_ns, end_ns: start_ns + 1 };
        let block = |start_ns| BusEvent::Block {
            read: true,
            bytes: 4096,
            good: true,
            start_ns,
            end_ns: start_ns + 100,
        };
        vec![
            command(8, 0),
            block(800),
            BusEvent::Interrupt { at_ns: 1000, status: 2 },
            command(second, 1000 + gap_ns),
            block(5_000_000),
        ]
    }

    #[test]
    fn the_first_command_that_differs_is_named_with_both_times() {
        assert_eq!(Difference::first(&log(1, 16), &log(900, 16)), None);
        let difference = Difference::first(&log(1, 16), &log(2, 24)).unwrap();
        assert_eq!(
            difference.to_string(),
            "data command 2: CMD18 0x00000010 at 1001 ns | CMD18 0x00000018 at 1002 ns"
        );
        let shorter = Difference::first(&log(1, 16), &log(1, 16)[..3]).unwrap();
        assert!(shorter.to_string().ends_with("| no more"), "{shorter}");
    }

    /// Checks that logs that differ in the queue, an erase or a flush are not taken for the same.
    #[test]
    fn commands_of_the_queue_erases_and_flushes_are_compared() {
        let log = |index, arg| vec![BusEvent::Command { index, arg, auto: false, start_ns: 1, end_ns: 2 }];
        for index in [32, 33, 34, 35, 36, 38, 44, 45, 46, 47, 48, 49] {
            let found = Difference::first(&log(index, 1), &log(index, 2)).unwrap();
            assert_eq!(found.commands, [1, 2].map(|arg| Some((index, arg, 1))), "CMD{index}");
        }
        // A flush of the cache is a write of byte 32; a write of another byte is no data.
        assert!(Difference::first(&log(6, 0x0320_0100), &[]).is_some());
        assert_eq!(Difference::first(&log(6, 0x03b9_0100), &log(13, 7)), None);
    }

    /// Checks that tasks of a card's queue are transfers, and that a single one has no gap.
    #[test]
    fn tasks_of_a_queue_are_transfers_and_no_gap_is_no_number() {
        let command = |index, start_ns| BusEvent::Command {
            index,
            arg: 0,
            auto: false,
            start_ns,
            end_ns: start_ns + 1,
        };
        let block = |read, start_ns| BusEvent::Block {
            read,
            bytes: 512,
            good: true,
            start_ns,
            end_ns: start_ns + 10,
        };
        let log = [
            command(44, 0),
            command(45, 5),
            command(46, 10),
            block(true, 20),
            command(44, 32),
            command(45, 34),
            command(46, 50),
            block(true, 60),
            command(47, 100),
            block(false, 110),
        ];
        let [reads, writes] = [Direction::Read, Direction::Write].map(|direction| Gaps::of(&log, direction));
        assert_eq!(
            (reads.all, reads.transfers, reads.commands, reads.gaps_ns.as_slice()),
            (2, 1, 3, &[20][..])
        );
        assert_eq!((writes.all, writes.transfers), (1, 0));
        let text = text(&log, &log, 20_000);
        let of_writes = |what: &str| {
            let line = text.lines().find(|line| line.starts_with("writes") && line.contains(what));
            line.unwrap_or_else(|| panic!("{what}: {text}")).split_whitespace().next_back().unwrap()
        };
        assert_eq!([of_writes("transfers"), of_writes("gap, mean")], ["+0.00", "-"]);
        let rows = json_lines(&log, &log, 20_000);
        assert!(rows.lines().any(|row| row.contains("gap, mean") && row.contains("null")), "{rows}");
    }

    #[test]
    fn a_gap_that_a_thread_was_woken_for_is_told_from_one_that_the_queue_filled() {
        let gaps = Gaps::of(&log(5_000, 16), Direction::Read);
        assert_eq!((gaps.transfers, gaps.bytes, gaps.interrupts), (1, 4096, 1));
        assert_eq!((gaps.gaps_ns.as_slice(), gaps.reply_ns.as_slice()), (&[5_100][..], &[5_000][..]));
        assert_eq!((gaps.filled_percent(20_000), gaps.filled_percent(4_000)), (100.0, 0.0));
        assert_eq!(Gaps::of(&log(5_000, 16), Direction::Write), Gaps::default());
        // A pause longer than the limit is no gap.
        assert_eq!(Gaps::of(&log(6_000_000, 16), Direction::Read).transfers, 0);
        let rows = json_lines(&log(5_000, 16), &log(25_000, 24), 20_000);
        let rows: Vec<serde_json::Value> =
            rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(
            (&rows[0]["name"], &rows[0]["b"]),
            (&json!("data command 2"), &json!("CMD18 0x00000018 at 26000 ns"))
        );
        assert_eq!(rows.last().unwrap()["difference"], -100.0);
        let text = text(&log(5_000, 16), &log(25_000, 16), 20_000);
        let line = text.lines().find(|line| line.contains("no thread woken")).unwrap();
        assert_eq!(
            line.split_whitespace().rev().take(4).collect::<Vec<_>>(),
            ["-100.00", "0.00", "|", "100.00"],
            "{text}"
        );
    }
}

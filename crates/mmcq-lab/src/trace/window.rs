//! The window: which part of a run the recorder records.

use crate::fio::value;
use std::fmt;
use std::str::FromStr;

/// Trigger at which a window starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The window starts at power-on. Without a length, it ends where the jobs begin.
    BringUp,
    /// The window starts at this time in ns after the jobs begin.
    At(u64),
    /// The window starts at the n-th token of a command, counted from power-on.
    Command {
        /// Index of the command whose token starts the window.
        index: u8,
        /// Number of the command's token since power-on, counted from 1.
        n: u64,
    },
    /// The window starts when the controller's interrupt line is asserted for the n-th time after
    /// the jobs began.
    Interrupt {
        /// Number of the assertion of the interrupt line since the jobs began, counted from 1.
        n: u64,
    },
    /// The window starts when DAT1 falls for the n-th time after the work began; by this fall an
    /// I/O card interrupts.
    CardInterrupt {
        /// Number of the event: DAT1 falls for the n-th time since the start of the load, counted
        /// from 1.
        n: u64,
    },
}

/// Part of a run to record. The window never cuts a token or a block: it grows until none crosses
/// its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Trigger: where the recorded time starts.
    pub start: Start,
    /// Time in ns that is shown before the trigger.
    pub before_ns: u64,
    /// Length in ns of the window from the trigger on; `None`: [`Window::LENGTH_NS`], or the whole
    /// bring-up.
    pub for_ns: Option<u64>,
}

impl Window {
    /// Default length in ns of the window, counted from the trigger.
    pub const LENGTH_NS: u64 = 1_000_000;
    /// Default time in ns that is shown before the trigger.
    pub const BEFORE_NS: u64 = 5_000;
}

/// Parses a trigger, such as `bringup`, `irq,n=2` or `cmd=18,n=3`.
impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "trigger {text}: unknown; expected bringup, irq or cmd=INDEX (0 to 63), the last two with ,n=COUNT if wanted"
            )
        };
        let (what, n) = match text.split_once(",n=") {
            Some((what, n)) => (what, n.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?),
            None => (text, 1),
        };
        match (what, what.strip_prefix("cmd=")) {
            ("bringup", _) if what == text => Ok(Start::BringUp),
            ("irq", _) => Ok(Start::Interrupt { n }),
            (_, Some(index)) => {
                let index = index.parse().ok().filter(|i| *i < 64).ok_or_else(wrong)?;
                Ok(Start::Command { index, n })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Start::BringUp => f.write_str("bringup"),
            Start::At(ns) => write!(f, "{}", time(ns)),
            Start::Command { index, n } => write!(f, "cmd={index},n={n}"),
            Start::Interrupt { n } => write!(f, "irq,n={n}"),
            Start::CardInterrupt { n } => write!(f, "card interrupt {n}"),
        }
    }
}

/// Parses a time of the command line: a number with the unit ns, us, ms or s. Returns ns.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let known = ["ns", "us", "usec", "ms", "msec", "s", "sec"].contains(&unit);
    let whole = number.bytes().all(|b| b.is_ascii_digit()) && !number.is_empty();
    let parsed = if unit == "ns" { number.parse().ok() } else { value::time_ns(text, 1_000).ok() };
    parsed
        .filter(|_| known && whole)
        .ok_or_else(|| format!("time {text}: expected a whole number with ns, us, ms or s, as 250us"))
}

/// Returns a time in ns as readable text: up to six digits and a unit.
pub fn time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = format!("{value:.3}");
    format!("{} {unit}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Reason why there is no recorded window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// The board's controller model has no probe, so it cannot be recorded.
    #[error("the controller cannot be traced; expected a board with an SDHCI controller, as generic")]
    NoProbe,
    /// The trigger did not occur as often as the window wanted.
    #[error("trigger {start}: it comes {came} times in the run; expected at least {n}")]
    NotSeen {
        /// Trigger for which the recorder waited until the run ended.
        start: Start,
        /// Number of the trigger's occurrence (1: the first) at which the window should have begun.
        n: u64,
        /// Number of times that the trigger occurred in the run; fewer than `n`.
        came: u64,
    },
    /// The window would start after the end of the run.
    #[error(
        "window from {}: the run ends {} after the jobs begin; expected an earlier start",
        time(*from_ns),
        time(*end_ns)
    )]
    Outside {
        /// Time in ns after the start of the jobs at which the window would start.
        from_ns: u64,
        /// Time in ns after the start of the jobs at which the run ends.
        end_ns: u64,
    },
    /// The window has more records than can be stored in memory.
    #[error(
        "window: more than {most} records, which a list, a picture or Perfetto's trace would keep in memory; \
         expected a shorter --for, or --no-list with --vcd or --fst alone"
    )]
    TooMany {
        /// Largest number of records that are stored in memory.
        most: usize,
    },
    /// The window has more clock cycles than can reasonably be written.
    #[error(
        "window of {}: {cycles} clock cycles; expected at most {most}, so a shorter --for, or --clk gated",
        time(*length_ns)
    )]
    TooLong {
        /// Length in ns of the window, the part of a run that is recorded.
        length_ns: u64,
        /// Number of cycles of the bus clock in the window.
        cycles: u64,
        /// Largest number of clock cycles that the format can write.
        most: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read_as_they_are_shown() {
        for text in ["bringup", "irq,n=2", "cmd=18,n=3", "cmd=0,n=1"] {
            assert_eq!(text.parse::<Start>().unwrap().to_string(), text);
        }
        assert_eq!("cmd=17".parse::<Start>().unwrap(), Start::Command { index: 17, n: 1 });
        for text in ["", "cmd", "cmd=64", "cmd=18,n=0", "cmd=18,n=x", "bringup,n=1", "irq,m=1", "cmd=-1"] {
            let error = text.parse::<Start>().unwrap_err();
            assert!(error.contains("expected bringup, irq or cmd="), "{error}");
        }
    }

    #[test]
    fn times_have_units() {
        let good = [("250us", 250_000), ("3ns", 3), ("2ms", 2_000_000), ("1s", 1_000_000_000)];
        for (text, ns) in good {
            assert_eq!(parse_time(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "us", "1.5us", "-1us", "1h", "1 us", "99999999999999999999s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
        assert_eq!([time(999), time(1_500), time(2_000_000)], ["999 ns", "1.5 us", "2 ms"]);
    }
}

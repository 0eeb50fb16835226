//! The board's file: every number with its kind and source.

use crate::platform::{PlatformError, Quantity};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The platform that comes with the program.
pub const NAME: &str = "sdio-s3c24a0";
const TEXT: &str = include_str!("../../../../platforms/sdio-s3c24a0.toml");

/// One table of the file.
type Section = BTreeMap<String, Quantity>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    card: String,
    bus: Section,
    cost: Section,
    thief: Section,
    fast: Section,
    own: Section,
}

/// A board; times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// One line about it.
    pub description: String,
    /// Its card's name.
    pub card: String,
    /// Clock of the peripherals.
    pub pclk_hz: u32,
    /// Clock of the bus.
    pub clock_hz: u32,
    /// What the idle counter counts on an idle CPU.
    pub idle_kcycles: f64,
    /// Linux's costs.
    pub cost: Costs,
    /// The same on a fast CPU.
    pub fast: Costs,
    /// The longest hold of the other device's driver.
    pub thief_hold_ns: u64,
    /// How often it holds the CPU.
    pub thief_per_second: f64,
    /// Our own path.
    pub own: Own,
}

/// What Linux's software costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// From the interrupt line to the driver's handler.
    pub irq_in_ns: u64,
    /// Ending a command, or signalling the card's interrupt.
    pub finalize_ns: u64,
    /// Leaving the interrupt.
    pub irq_out_ns: u64,
    /// From the handler to the tasklet.
    pub tasklet_ns: u64,
    /// Sending a command.
    pub issue_ns: u64,
    /// A thread goes to sleep.
    pub switch_out_ns: u64,
    /// A thread wakes up.
    pub wake_ns: u64,
    /// Driver and user, for each packet.
    pub work_ns: u64,
    /// A word through the FIFO.
    pub fifo_word_ns: u64,
    /// Reading the FIFO's fill.
    pub fifo_count_ns: u64,
    /// Any other register.
    pub register_ns: u64,
    /// The cache's maintenance around DMA of a packet.
    pub cache_ns: u64,
    /// One turn of the FIFO, besides its accesses.
    pub fifo_turn_ns: u64,
}

/// What our own code takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// A cycle.
    pub cycle_ns: f64,
    /// Cycles of an instruction.
    pub cycles_per_instruction: f64,
    /// ... at most: the upper end of its range.
    pub cycles_per_instruction_most: f64,
    /// Interrupt entry.
    pub entry: f64,
    /// Interrupt exit.
    pub exit: f64,
    /// From an acknowledged interrupt to the next command.
    pub step: f64,
    /// Around a turn of the FIFO.
    pub fifo: f64,
    /// An access to a register.
    pub register_ns: u64,
}

impl Board {
    /// The board that comes with the program, or one from a file whose name ends in `.toml`.
    pub fn load(name: &str) -> Result<Self, PlatformError> {
        if name == NAME {
            return Self::read(name, TEXT);
        }
        if !name.ends_with(".toml") {
            let line = format!("platform {name}: not an SDIO board; expected {NAME} or a file .toml");
            return Err(PlatformError::new(line));
        }
        let text = std::fs::read_to_string(name)
            .map_err(|error| PlatformError::new(format!("platform {name}: {error}")))?;
        Self::read(name, &text)
    }

    fn read(name: &str, text: &str) -> Result<Self, PlatformError> {
        let fault = |line: String| PlatformError::new(format!("platform {name}: {line}"));
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
            fault(line)
        })?;
        let value = |section: &Section, table: &str, key: &str, most: f64| {
            let Some(found) = section.get(key) else {
                return Err(fault(format!("{table}.{key}: missing; expected a quantity")));
            };
            if found.value.is_finite() && (0.0..=most).contains(&found.value) {
                return Ok(found.value);
            }
            Err(fault(format!("{table}.{key}: {}; expected 0 to {most}", found.value)))
        };
        let ns = |section: &Section, table: &str, key: &str| {
            value(section, table, key, 1e6).map(|us| (us * 1e3).round() as u64)
        };
        let known: [(&str, &Section, &[&str]); 5] = [
            ("bus", &file.bus, &["pclk_hz", "clock_hz", "idle_kcycles"]),
            (
                "cost",
                &file.cost,
                &[
                    "irq_in_us",
                    "finalize_us",
                    "irq_out_us",
                    "tasklet_us",
                    "issue_us",
                    "switch_out_us",
                    "wake_us",
                    "work_us",
                    "fifo_word_us",
                    "fifo_count_us",
                    "cache_us",
                ],
            ),
            (
                "fast",
                &file.fast,
                &["irq_in_us", "finalize_us", "irq_out_us", "issue_us", "switch_out_us", "wake_us"],
            ),
            ("thief", &file.thief, &["hold_us", "per_second"]),
            (
                "own",
                &file.own,
                &[
                    "cycle_us",
                    "cycles_per_instruction",
                    "cycles_per_instruction_most",
                    "entry_instructions",
                    "exit_instructions",
                    "step_instructions",
                    "fifo_instructions",
                    "register_us",
                ],
            ),
        ];
        for (table, section, keys) in known {
            if let Some(key) = section.keys().find(|key| !keys.contains(&key.as_str())) {
                return Err(fault(format!("{table}.{key}: unknown; expected one of {}", keys.join(", "))));
            }
        }
        let cost = |key: &str| ns(&file.cost, "cost", key);
        let fast = |key: &str| ns(&file.fast, "fast", key);
        let own = |key: &str| value(&file.own, "own", key, 1e6);
        let hz = |key: &str| value(&file.bus, "bus", key, 200e6).map(|hz| hz.round() as u32);
        let board = Board {
            description: file.description.clone(),
            card: file.card.clone(),
            pclk_hz: hz("pclk_hz")?,
            clock_hz: hz("clock_hz")?,
            idle_kcycles: value(&file.bus, "bus", "idle_kcycles", 1e6)?,
            cost: Costs {
                irq_in_ns: cost("irq_in_us")?,
                finalize_ns: cost("finalize_us")?,
                irq_out_ns: cost("irq_out_us")?,
                tasklet_ns: cost("tasklet_us")?,
                issue_ns: cost("issue_us")?,
                switch_out_ns: cost("switch_out_us")?,
                wake_ns: cost("wake_us")?,
                work_ns: cost("work_us")?,
                fifo_word_ns: cost("fifo_word_us")?,
                fifo_count_ns: cost("fifo_count_us")?,
                register_ns: 0,
                cache_ns: cost("cache_us")?,
                fifo_turn_ns: 0,
            },
            fast: Costs {
                irq_in_ns: fast("irq_in_us")?,
                finalize_ns: fast("finalize_us")?,
                irq_out_ns: fast("irq_out_us")?,
                issue_ns: fast("issue_us")?,
                switch_out_ns: fast("switch_out_us")?,
                wake_ns: fast("wake_us")?,
                ..Costs::default()
            },
            thief_hold_ns: ns(&file.thief, "thief", "hold_us")?,
            thief_per_second: value(&file.thief, "thief", "per_second", 1e4)?,
            own: Own {
                cycle_ns: own("cycle_us")? * 1e3,
                cycles_per_instruction: own("cycles_per_instruction")?,
                cycles_per_instruction_most: own("cycles_per_instruction_most")?,
                entry: own("entry_instructions")?,
                exit: own("exit_instructions")?,
                step: own("step_instructions")?,
                fifo: own("fifo_instructions")?,
                register_ns: ns(&file.own, "own", "register_us")?,
            },
        };
        if board.pclk_hz < 1_000_000 || board.clock_hz == 0 || board.clock_hz > 25_000_000 {
            let Board { pclk_hz, clock_hz, .. } = board;
            return Err(fault(format!(
                "bus: pclk_hz {pclk_hz}, clock_hz {clock_hz}; expected at least 1000000, and 1 to 25000000"
            )));
        }
        Ok(board)
    }

    /// What our code costs where it stands for itself: path lengths instead of Linux's times. The packet's
    /// work and the FIFO's words stay.
    pub fn own_costs(&self) -> Costs {
        let Own { cycle_ns, cycles_per_instruction, entry, exit, step, fifo, register_ns, .. } = self.own;
        let ns = |instructions: f64| (instructions * cycles_per_instruction * cycle_ns).round() as u64;
        Costs {
            irq_in_ns: ns(entry),
            irq_out_ns: ns(exit),
            // The step is one path; where it is cut does not matter, as it runs in one interrupt.
            issue_ns: ns(step / 2.0),
            finalize_ns: ns(step / 2.0),
            fifo_count_ns: register_ns,
            register_ns,
            fifo_turn_ns: ns(fifo),
            ..self.cost
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_board_reads_and_mistakes_are_named() {
        let board = Board::load(NAME).unwrap();
        assert_eq!((board.clock_hz, board.cost.irq_in_ns), (10_000_000, 7_000));
        for (line, instead, expected) in [
            ("irq_in_us", "irq_inn_us", "cost.irq_inn_us: unknown"),
            ("value = 10_000_000", "value = 40_000_000", "clock_hz 40000000"),
            ("value = 0.22", "value = -1", "cost.fifo_word_us: -1; expected 0 to"),
        ] {
            let text = TEXT.replace(line, instead);
            assert_ne!(text, TEXT);
            let message = Board::read("x", &text).unwrap_err().to_string();
            assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        }
        assert!(Board::load("hsq-sprd").unwrap_err().to_string().contains(NAME));
    }
}

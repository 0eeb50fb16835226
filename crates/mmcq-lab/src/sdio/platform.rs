//! Reads the file of a board of the SDIO experiment. In the file, each number has its kind and its
//! source.

use super::machine::Thief;
use crate::platform::{self, PlatformError, Quantity, SDIO};
use mmcq::advance;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Name of the SDIO experiment's board.
pub const NAME: &str = SDIO[0].0;
/// Name of the board that models a fast PC with the same card.
pub const PC: &str = SDIO[1].0;
/// Names of the tables in a board's file that hold quantities.
const QUANTITIES: [&str; 5] = ["bus", "cost", "thief", "fast", "own"];
/// Lower bound in ns for the CPU time of one poll of the controller.
const LOOK_NS: u64 = 250;

/// Kind of the board's controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `"s3c-sdi"`: Samsung's SDI, with a data FIFO.
    S3cSdi,
    /// `"sdhci"`: SD Host Controller standard, with ADMA2.
    Sdhci,
}

/// One table of the board's file: the board's numbers by name.
type Section = BTreeMap<String, Quantity>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    card: String,
    controller: Value,
    bus: Section,
    cost: Section,
    #[serde(default)]
    thief: Option<Section>,
    #[serde(default)]
    fast: Option<Section>,
    own: Section,
}

/// A board of the SDIO experiment; times in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    /// Description of the board, one line of text.
    pub description: String,
    /// Name of the board's card.
    pub card: String,
    /// Kind of the board's controller.
    pub controller: Kind,
    /// Frequency in Hz of the clock that feeds the controller; a divider makes the bus clock from
    /// it.
    pub pclk_hz: u32,
    /// Frequency of the bus clock in Hz.
    pub clock_hz: u32,
    /// Rate in kcycles/s of the experiment's counter on a CPU that is idle all the time. The
    /// counter counts only while the CPU is idle; one cycle is one system call of the measuring
    /// loop.
    pub idle_kcycles: f64,
    /// CPU costs of Linux on this board.
    pub cost: Costs,
    /// CPU costs of Linux on a fast CPU, which the comparison of ways to wait uses; `None`: the
    /// board's file has none.
    pub fast: Option<Costs>,
    /// Driver of another device that takes the CPU away; `None`: the board has none.
    pub thief: Option<Thief>,
    /// CPU costs of mmcq's own code.
    pub own: Own,
}

/// CPU costs of Linux's software for each action, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Time in ns from the assertion of the interrupt line to the driver's handler.
    pub irq_in_ns: u64,
    /// Cost in ns of ending a command in the interrupt, or of signalling the card's interrupt to
    /// its waiter.
    pub finalize_ns: u64,
    /// Cost in ns of leaving the interrupt handler.
    pub irq_out_ns: u64,
    /// Time in ns from the end of the interrupt handler to the start of the tasklet.
    pub tasklet_ns: u64,
    /// Cost of sending a command to the card, in nanoseconds.
    pub issue_ns: u64,
    /// Cost in ns of putting a thread to sleep.
    pub switch_out_ns: u64,
    /// Cost of waking a thread, in nanoseconds.
    pub wake_ns: u64,
    /// CPU time of driver and user for each packet, in ns.
    pub work_ns: u64,
    /// Cost in ns of moving one 32-bit word through the data FIFO.
    pub fifo_word_ns: u64,
    /// Cost of reading the controller's register with the FIFO's fill level.
    pub fifo_count_ns: u64,
    /// Cost in ns of reading a register of the controller, except the one with the FIFO's fill
    /// level.
    pub register_ns: u64,
    /// Cost in ns of writing a register of the controller.
    pub register_write_ns: u64,
    /// Cost of cache maintenance for the DMA of one packet.
    pub cache_ns: u64,
    /// Cost in ns of one round of the FIFO loop, without the register accesses in it.
    pub fifo_turn_ns: u64,
}

/// CPU costs of mmcq's own code, as numbers of instructions and the speed of the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// Length of a CPU cycle in ns.
    pub cycle_ns: f64,
    /// Mean number of CPU cycles per instruction.
    pub cycles_per_instruction: f64,
    /// Upper end of the range of CPU cycles per instruction.
    pub cycles_per_instruction_most: f64,
    /// Number of instructions that mmcq's code executes to enter the interrupt.
    pub entry: f64,
    /// Number of instructions that mmcq's code executes to leave the interrupt.
    pub exit: f64,
    /// Number of instructions from an acknowledged interrupt to the next command.
    pub step: f64,
    /// Number of instructions of one round of the loop that moves words between FIFO and memory.
    pub fifo: f64,
    /// Cost in ns of reading a register of the controller.
    pub register_ns: u64,
    /// Cost in ns of writing a register of the controller.
    pub register_write_ns: u64,
}

impl Costs {
    /// Returns the costs in the form that [`mmcq::advance`] uses. They are the CPU times of FIFO
    /// words, of cache maintenance for DMA, and of each context to which a waiting handler can
    /// leave (interrupt, tasklet, thread).
    pub fn advance(&self) -> advance::Costs {
        let ns = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        advance::Costs::UNKNOWN
            .interrupt_ns(ns(self.irq_in_ns + self.irq_out_ns))
            .deferred_ns(ns(self.irq_in_ns + self.tasklet_ns))
            .thread_ns(ns(self.irq_in_ns + self.wake_ns + self.switch_out_ns))
            .look_ns(ns(self.register_ns.max(LOOK_NS)))
            .pio_kib_ns(ns(256 * self.fifo_word_ns))
            .dma_ns(ns(self.cache_ns))
    }
}

impl Board {
    /// Loads a built-in board by its name, or a board from a file if the name ends in `.toml`.
    pub fn load(name: &str) -> Result<Self, PlatformError> {
        Self::load_with(name, &[])
    }

    /// Loads a board as [`load`](Self::load) does, and changes single values, as in
    /// `cost.wake_us=30`.
    pub fn load_with(name: &str, changes: &[String]) -> Result<Self, PlatformError> {
        let text = match SDIO.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => (*text).to_owned(),
            None if name.ends_with(".toml") => std::fs::read_to_string(name)
                .map_err(|error| PlatformError::new(format!("platform {name}: {error}")))?,
            None => {
                let known = Self::names().collect::<Vec<_>>().join(", ");
                let line = format!("platform {name}: not an SDIO board; expected {known} or a file .toml");
                return Err(PlatformError::new(line));
            }
        };
        Self::read(name, &text, changes)
    }

    /// Returns the names of the built-in boards.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SDIO.iter().map(|(name, _)| *name)
    }

    fn read(name: &str, text: &str, changes: &[String]) -> Result<Self, PlatformError> {
        let fault = |line: String| PlatformError::new(format!("platform {name}: {line}"));
        let one_line = |error: toml::de::Error| {
            fault(error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "))
        };
        let mut table: Table = text.parse().map_err(one_line)?;
        for change in changes {
            platform::set(&mut table, change, &QUANTITIES)?;
        }
        let file: File = Value::Table(table).try_into().map_err(one_line)?;
        let controller = match file.controller.as_str() {
            Some("s3c-sdi") => Kind::S3cSdi,
            Some("sdhci") => Kind::Sdhci,
            _ => {
                let line = format!("controller: {}; expected \"s3c-sdi\" or \"sdhci\"", file.controller);
                return Err(fault(line));
            }
        };
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
        let none = Section::new();
        let (given_thief, given_fast) = (file.thief.as_ref(), file.fast.as_ref());
        let (thief, fast) = (given_thief.unwrap_or(&none), given_fast.unwrap_or(&none));
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
                fast,
                &["irq_in_us", "finalize_us", "irq_out_us", "issue_us", "switch_out_us", "wake_us"],
            ),
            ("thief", thief, &["hold_us", "per_second"]),
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
                    "register_write_us",
                ],
            ),
        ];
        for (table, section, keys) in known {
            if let Some(key) = section.keys().find(|key| !keys.contains(&key.as_str())) {
                return Err(fault(format!("{table}.{key}: unknown; expected one of {}", keys.join(", "))));
            }
        }
        let cost = |key: &str| ns(&file.cost, "cost", key);
        let fast = |key: &str| ns(fast, "fast", key);
        let own = |key: &str| value(&file.own, "own", key, 1e6);
        let hz = |key: &str| value(&file.bus, "bus", key, 200e6).map(|hz| hz.round() as u32);
        let board = Board {
            description: file.description.clone(),
            card: file.card.clone(),
            controller,
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
                register_write_ns: 0,
                cache_ns: cost("cache_us")?,
                fifo_turn_ns: 0,
            },
            fast: match given_fast {
                None => None,
                Some(_) => Some(Costs {
                    irq_in_ns: fast("irq_in_us")?,
                    finalize_ns: fast("finalize_us")?,
                    irq_out_ns: fast("irq_out_us")?,
                    issue_ns: fast("issue_us")?,
                    switch_out_ns: fast("switch_out_us")?,
                    wake_ns: fast("wake_us")?,
                    ..Costs::default()
                }),
            },
            thief: match given_thief {
                None => None,
                Some(thief) => Some(Thief {
                    hold_ns: ns(thief, "thief", "hold_us")?,
                    per_second: value(thief, "thief", "per_second", 1e4)?,
                }),
            },
            own: Own {
                cycle_ns: own("cycle_us")? * 1e3,
                cycles_per_instruction: own("cycles_per_instruction")?,
                cycles_per_instruction_most: own("cycles_per_instruction_most")?,
                entry: own("entry_instructions")?,
                exit: own("exit_instructions")?,
                step: own("step_instructions")?,
                fifo: own("fifo_instructions")?,
                register_ns: ns(&file.own, "own", "register_us")?,
                register_write_ns: ns(&file.own, "own", "register_write_us")?,
            },
        };
        let fastest_hz = match controller {
            Kind::S3cSdi => 25_000_000,
            Kind::Sdhci => 50_000_000,
        };
        let Board { pclk_hz, clock_hz, .. } = board;
        if pclk_hz < 1_000_000 || clock_hz == 0 || clock_hz > fastest_hz {
            return Err(fault(format!(
                "bus: pclk_hz {pclk_hz}, clock_hz {clock_hz}; expected at least 1000000, and 1 to {fastest_hz}"
            )));
        }
        Ok(board)
    }

    /// Returns the costs of mmcq's own code: times from its path lengths instead of Linux's times.
    /// All other costs, such as a packet's work and FIFO words, stay Linux's.
    pub fn own_costs(&self) -> Costs {
        let Own { cycle_ns, cycles_per_instruction, entry, exit, step, fifo, .. } = self.own;
        let Own { register_ns, register_write_ns, .. } = self.own;
        let ns = |instructions: f64| (instructions * cycles_per_instruction * cycle_ns).round() as u64;
        Costs {
            irq_in_ns: ns(entry),
            irq_out_ns: ns(exit),
            // This path of code is split in two equal costs; how does not matter, as both are in
            // one interrupt.
            issue_ns: ns(step / 2.0),
            finalize_ns: ns(step / 2.0),
            fifo_count_ns: register_ns,
            register_ns,
            register_write_ns,
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
            ("\"s3c-sdi\"", "\"s3c\"", "controller: \"s3c\"; expected \"s3c-sdi\" or \"sdhci\""),
        ] {
            let original = SDIO[0].1;
            let text = original.replace(line, instead);
            assert_ne!(text, original);
            let message = Board::read("x", &text, &[]).unwrap_err().to_string();
            assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        }
        assert!(Board::load("hsq-sprd").unwrap_err().to_string().contains(NAME));
        let pc = Board::load(PC).unwrap();
        assert_eq!((pc.controller, pc.thief, pc.fast), (Kind::Sdhci, None, None));
    }

    #[test]
    fn single_values_can_be_changed() {
        let with = |change: &str| Board::load_with(NAME, &[change.to_owned()]);
        assert_eq!(with("cost.wake_us=30").unwrap().cost.wake_ns, 30_000);
        assert_eq!(with("bus.clock_hz=25000000").unwrap().clock_hz, 25_000_000);
        for (change, expected) in [
            ("cost.wake=30", "--set cost.wake=30"),
            ("cost.wake_us=fast", "expected a number"),
            ("bus.clock_hz=40000000", "clock_hz 40000000; expected at least 1000000, and 1 to 25000000"),
            ("stack.advance=irq", "unknown field `stack`"),
        ] {
            let message = with(change).unwrap_err().to_string();
            assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        }
    }

    #[test]
    fn the_policy_is_told_what_leaving_costs() {
        let costs = Board::load(NAME).unwrap().cost.advance();
        assert_eq!((costs.interrupt_ns, costs.deferred_ns, costs.thread_ns), (11_000, 12_000, 81_000));
        // Cache maintenance of 6 us costs as much as FIFO words of 0.22 us for 110 bytes.
        assert_eq!(costs.dma_from_bytes(), Some(110));
    }
}

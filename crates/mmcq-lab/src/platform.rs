//! Platform files: a board as a TOML file. Each cost has its unit in its name, a kind and a source.
//!
//! `[stack] advance` says which context calls mmcq's engine: `"irq"` (the default), `"tasklet"`,
//! `"thread"` or `"spin"`, see [`Advance`]. A file may leave out these costs:
//!
//! - `cost.each_us`: a job's time for each I/O after the first one if several I/Os end together.
//! - `cost.entry_us`: the part of `cost.irq_us` for interrupt entry and exit. Without it, the whole
//!   `cost.irq_us` counts as entry.
//! - `cost.tasklet_us`: the time from the hard interrupt to the deferred one. Only a board that
//!   uses a tasklet must have it.
//! - `cost.setup_us`: the part of `cost.start_us` and `cost.poll_us` that Linux's driver of a
//!   reader needs once for each request. It needs the other part for each command list of the
//!   request that the chip executes.
//! - `cost.stop_pause_us` and `cost.flush_us`: the pause and the flush of the chip's buffer that
//!   Linux's driver of a reader makes after a late CMD12.
//! - `cost.pin_us`: a job's CPU time for each 512 KiB of an I/O of more than 1 MiB.
//! - `cost.deep_wake_us`: the extra time to wake a job that has slept for `cost.deep_sleep_us` or
//!   longer. Up to `cost.light_sleep_us` of sleep there is no extra time.

mod change;
mod controller;
pub mod drivers;
mod files;
mod open;
mod scheduler;
mod stack;
#[cfg(test)]
mod tests;
mod wires;

pub(crate) use change::set;
pub use change::{CARD, JOB};
pub use controller::ControllerConfig;
pub use files::{Files, Profiles};
pub use open::Continue;
pub use scheduler::Scheduler;
pub use stack::{Profile, Stack, profile};
pub use wires::Wires;

use mmcq_sim::document;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Built-in platforms (boards): name, and text of the file.
const BUILT_IN: [(&str, &str); 19] = [
    ("generic", include_str!("../platforms/generic.toml")),
    ("hsq-sprd", include_str!("../platforms/hsq-sprd.toml")),
    ("hsq-sprd-busy", include_str!("../platforms/hsq-sprd-busy.toml")),
    ("hsq-defer", include_str!("../platforms/hsq-defer.toml")),
    ("hsq-nobusy", include_str!("../platforms/hsq-nobusy.toml")),
    ("fifo-allwinner", include_str!("../platforms/fifo-allwinner.toml")),
    ("fifo-allwinner-busy", include_str!("../platforms/fifo-allwinner-busy.toml")),
    ("fifo-sdhci", include_str!("../platforms/fifo-sdhci.toml")),
    ("mshc-pci", include_str!("../platforms/mshc-pci.toml")),
    ("stm32h7-sdmmc", include_str!("../platforms/stm32h7-sdmmc.toml")),
    ("stream-rtsx", include_str!("../platforms/stream-rtsx.toml")),
    ("intel-emmc", include_str!("../platforms/intel-emmc.toml")),
    ("intel-glk", include_str!("../platforms/intel-glk.toml")),
    ("intel-jsl", include_str!("../platforms/intel-jsl.toml")),
    ("intel-jsl-32", include_str!("../platforms/intel-jsl-32.toml")),
    ("queue-24mhz", include_str!("../platforms/queue-24mhz.toml")),
    ("cmdq-mt6761", include_str!("../platforms/cmdq-mt6761.toml")),
    ("sdcq-a2", include_str!("../platforms/sdcq-a2.toml")),
    ("adma3-sprd", include_str!("../platforms/adma3-sprd.toml")),
];

/// Files of the boards of the SDIO experiment, by name. They have other keys than the files of
/// boards with a block device.
pub(crate) const SDIO: [(&str, &str); 2] = [
    ("sdio-s3c24a0", include_str!("../platforms/sdio-s3c24a0.toml")),
    ("sdio-pc", include_str!("../platforms/sdio-pc.toml")),
];

/// Largest length of a chain of board files of which each extends the next one (`extends`).
const DEPTH_MAX: usize = 8;

/// Error in a board's file; one line of text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlatformError(String);

impl PlatformError {
    /// Makes an error. Line breaks in the text, which may come from the file, are replaced.
    pub(crate) fn new(line: String) -> Self {
        PlatformError(line.replace('\n', "\\n"))
    }
}

/// Kind of origin of a number in a board's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The number is from a standard or a data sheet.
    Spec,
    /// The number is a usual value, assumed without a measurement.
    Prior,
    /// The number was fitted to published figures. If the publication proposes a patch, these are
    /// the figures of Linux without the patch.
    Fit,
    /// The number was not fitted; it was checked against other published figures.
    Val,
    /// The number was measured on mmcq's own code.
    Measured,
}

/// A number in a board's file, and where the number comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// Value, in the unit that the quantity's name ends with.
    pub value: f64,
    /// Where the number is from: a data sheet, an assumption, a fit, or a measurement.
    pub kind: Kind,
    /// Origin of the number in words.
    pub source: String,
    /// Smallest and largest value that the source allows; `None`: the file has no range for it.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// Ends of the 95 % interval, as `mmcq fit` found them; `None`: the file has no interval.
    #[serde(default)]
    pub interval: Option<[f64; 2]>,
}

/// Named times and costs of a board's file, in ns, each with where it comes from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    named: Vec<(String, f64, Quantity)>,
    /// Names that the entries of the table may have; another name is an error.
    known: Vec<&'static str>,
}

impl Times {
    /// Returns the number of this name, a time in ns; 0 if the file does not contain it.
    pub fn ns(&self, name: &str) -> u64 {
        debug_assert!(self.known.contains(&name), "{name}: expected one of {:?}", self.known);
        self.named.iter().find(|t| t.0 == name).map_or(0, |t| t.1.round() as u64)
    }

    /// Returns all numbers of the table: name, value (times in ns), origin.
    pub fn iter(&self) -> impl Iterator<Item = &(String, f64, Quantity)> {
        self.named.iter()
    }
}

/// How the driver learns that the card's busy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// The controller raises an interrupt when the card's busy ends.
    Interrupt,
    /// The driver reads the level of DAT0 in a register to learn whether the card is busy.
    Level,
    /// The controller does not show the end of busy: the driver polls the card's status (CMD13).
    Status,
}

/// Which requests the host driver completes in a thread, not in its interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defer {
    /// The driver completes no requests in a thread.
    #[default]
    Never,
    /// The driver completes reads in a thread, because their data must be copied or made visible to
    /// the CPU there. Other requests are completed in the interrupt.
    Reads,
    /// The driver completes all requests in a thread.
    Always,
}

/// Context that calls mmcq's engine when the controller has an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Advance {
    /// The hard interrupt calls the engine.
    #[default]
    Irq,
    /// The deferred interrupt calls the engine; the hard interrupt raises it.
    Tasklet,
    /// A real-time kernel thread calls the engine; the interrupt wakes it.
    Thread,
    /// No interrupt is used: a job that waits for its I/O stays on its core and polls the
    /// controller's status.
    Spin,
}

/// A board with its controller, card and CPU costs.
#[derive(Clone, Debug)]
pub struct Platform {
    /// Name of the board.
    pub name: String,
    /// Description of the board, one line.
    pub description: String,
    /// Name of the board's card.
    pub card: String,
    /// Changes of the card in the slot (`--set card.KEY=VALUE`), as `key=value` without the prefix
    /// `card.`.
    pub card_changes: Vec<String>,
    /// How the driver learns that the card's busy has ended.
    pub busy: Busy,
    /// Which requests the host driver completes in a thread.
    pub defer_completion: Defer,
    /// Setup of mmcq's engine.
    pub stack: Stack,
    /// Description of the controller.
    pub controller: ControllerConfig,
    /// Bus timings that the wires can carry but that the controller's capability registers have no
    /// bit for.
    pub timings: Vec<mmcq::host::Timing>,
    /// Which transfers the driver leaves open (without CMD12, so that later requests can continue
    /// them). `None`: the board's file does not say it.
    pub continue_data: Option<Continue>,
    /// Limits that the board's wires set for the bus.
    pub wires: Wires,
    /// Number of the board's CPU cores.
    pub cores: u8,
    /// Costs of the software around the stack, as times in ns.
    pub costs: Times,
    /// Shares and probabilities of the board, each from 0 to 1.
    pub shares: Times,
    /// CPU costs of mmcq's own code.
    pub own: Times,
    /// Card profiles that were loaded for this board.
    pub profiles: Profiles,
}

/// Keys of a board's file that are outside of tables, and names of its tables.
const KEYS: [&str; 12] = [
    "extends",
    "description",
    "card",
    "busy",
    "defer_completion",
    "controller",
    "driver",
    "stack",
    "cost",
    "share",
    "cpu",
    "own",
];
/// Names of costs that a board must give, without their unit.
const COSTS: [&str; 14] = [
    "irq", "done", "start", "poll", "dispatch", "prep", "softirq", "syscall", "user", "job_wake", "wake",
    "hop", "tail", "retry",
];
/// Names of costs that a board may leave out, without their unit.
pub(crate) const COSTS_OPTIONAL: [&str; 10] = [
    "each",
    "entry",
    "tasklet",
    "setup",
    "stop_pause",
    "flush",
    "pin",
    "light_sleep",
    "deep_sleep",
    "deep_wake",
];
/// Names of the tables of a board's file that contain quantities.
pub(crate) const QUANTITIES: [&str; 3] = ["cost", "share", "own"];
const SHARES: [&str; 2] = ["tail", "migration"];
/// Keys of the table `own` in a board's file: what mmcq's own code costs. `cycle_ns` and the
/// register accesses are times; all others are numbers of instructions.
const OWN: [&str; 8] = [
    "cycle_ns",
    "interrupt_instructions",
    "ack_instructions",
    "start_instructions",
    "done_instructions",
    "submit_instructions",
    "register_read_ns",
    "register_write_ns",
];
const UNITS: [(&str, f64); 4] = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];

impl Platform {
    /// Loads a built-in board by name, or a board from a file whose name ends in `.toml`.
    pub fn load(name: &str) -> Result<Self, PlatformError> {
        Self::load_with(name, &[])
    }

    /// Loads a board as [`load`](Self::load) does, and changes single values: `cost.wake_us=30`,
    /// `card="sdsc-1g"`, `controller.signal18_fails=true`. A change that begins with `card.`
    /// concerns the card in the slot.
    pub fn load_with(name: &str, changes: &[String]) -> Result<Self, PlatformError> {
        Files::default().load_with(name, changes).map(|(platform, _)| platform)
    }

    /// Returns the names of the built-in boards.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns whether the driver of the board's controller may leave transfers open: without
    /// CMD12, so that later requests can continue them.
    pub fn leaves_open(&self) -> bool {
        self.controller.continues_data(self.continue_data)
    }

    fn read(name: &str, mut table: Table) -> Result<Self, PlatformError> {
        let place = |key: &str| format!("platform {name}: {key}");
        let mut section = |key: &str| match table.remove(key) {
            Some(Value::Table(section)) => Ok(section),
            Some(other) => Err(error(&place(key), &other, "a table")),
            None => Ok(Table::new()),
        };
        let (costs, shares, own) = (section("cost")?, section("share")?, section("own")?);
        let (controller, mut driver, mut cpu) = (section("controller")?, section("driver")?, section("cpu")?);
        let controller = ControllerConfig::read(&place("controller"), controller)?;
        let stack = section("stack")?;
        let stack = Stack::read(&place, stack)?;
        let timings = match driver.remove("timings") {
            Some(value) => timings(&place("driver.timings"), &value)?,
            None => Vec::new(),
        };
        let continue_data = match driver.remove("continue_data") {
            Some(value) => Some(Continue::read(&place("driver.continue_data"), &value, &controller)?),
            None => None,
        };
        let wires = Wires::read(&place, &mut driver, &controller)?;
        let cores = match cpu.remove("cores") {
            Some(Value::Integer(n @ 1..=64)) => n as u8,
            Some(other) => return Err(error(&place("cpu.cores"), &other, "1 to 64")),
            None => 1,
        };
        let busy = match table.remove("busy") {
            Some(value) => value
                .clone()
                .try_into()
                .map_err(|_| error(&place("busy"), &value, "\"interrupt\", \"level\" or \"status\""))?,
            None => Busy::Interrupt,
        };
        let defer_completion = match table.remove("defer_completion") {
            Some(Value::Boolean(true)) => Defer::Always,
            Some(Value::String(word)) if word == "reads" => Defer::Reads,
            Some(Value::Boolean(false)) | None => Defer::Never,
            Some(other) => return Err(error(&place("defer_completion"), &other, "true, false or \"reads\"")),
        };
        let mut text = |key: &str| match table.remove(key) {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(error(&place(key), &other, "a text")),
            None => Err(PlatformError::new(format!("{}: missing; expected a text", place(key)))),
        };
        let (card, description) = (text("card")?, text("description")?);
        for (section, left) in [("", &table), ("driver.", &driver), ("cpu.", &cpu)] {
            if let Some(key) = left.keys().next() {
                let known: &[&str] = match section {
                    "driver." => {
                        &["timings", "continue_data", wires::KEYS[0], wires::KEYS[1], wires::KEYS[2]]
                    }
                    "cpu." => &["cores"],
                    _ => &KEYS,
                };
                return Err(unknown(&place(&format!("{section}{key}")), key, known));
            }
        }
        let costs = quantities(&place("cost"), costs, &COSTS, &COSTS_OPTIONAL, true)?;
        if stack.advance == Advance::Tasklet && !costs.has("tasklet") {
            return Err(PlatformError::new(format!(
                "{}: missing; expected a quantity, because stack.advance is \"tasklet\"",
                place("cost.tasklet")
            )));
        }
        Ok(Platform {
            name: name.to_owned(),
            description,
            card,
            card_changes: Vec::new(),
            busy,
            defer_completion,
            stack,
            controller,
            timings,
            continue_data,
            wires,
            cores,
            costs,
            shares: quantities(&place("share"), shares, &SHARES, &[], false)?,
            own: quantities(&place("own"), own, &OWN, &[], false)?,
            profiles: Profiles::default(),
        })
    }
}

/// Returns the table of the platform `name`, merged over the table of the platform that it extends.
/// `beside`: folder from which the path of a file counts; `depth`: number of platforms that extend
/// this one, to end an endless chain.
fn tree(name: &str, beside: Option<&Path>, depth: usize) -> Result<Table, PlatformError> {
    if depth >= DEPTH_MAX {
        return Err(PlatformError::new(format!(
            "platform {name}: extends: more than {DEPTH_MAX} platforms on each other"
        )));
    }
    let (text, directory) = text(name, beside)?;
    #[cfg(test)]
    crate::counted::parsed();
    let mut table: Table = text.parse().map_err(|e: toml::de::Error| {
        let error = document::syntax(&e, &text);
        PlatformError::new(format!("platform {name}: line {}: {error}", error.line(&text)))
    })?;
    if ["identity", "flash"].iter().any(|section| table.contains_key(*section)) {
        return Err(PlatformError::new(format!("platform {name}: a card, for --card; expected a board")));
    }
    if is_quirk(&table, &text) {
        return Err(PlatformError::new(format!(
            "platform {name}: a controller with a quirk, for the simulator's tests (crates/mmcq-sim/controllers/README.md); expected a board"
        )));
    }
    match table.remove("extends") {
        None => Ok(table),
        Some(Value::String(parent)) => {
            let mut base = tree(&parent, directory.as_deref(), depth + 1)?;
            lay(&mut base, table);
            Ok(base)
        }
        Some(other) => Err(error(&format!("platform {name}: extends"), &other, "a platform's name")),
    }
}

/// Returns whether a file describes a pair of model and driver ([`mmcq_sim::sdhci::Profile`]),
/// which is not a board: the file has settings for the driver, or is one of the built-in profiles.
fn is_quirk(table: &Table, text: &str) -> bool {
    let driver = table.get("driver").and_then(Value::as_table);
    let told = ["quirks", "transfer", "capabilities"];
    driver.is_some_and(|driver| told.iter().any(|key| driver.contains_key(*key)))
        || mmcq_sim::sdhci::PROFILES.iter().any(|(_, shipped)| *shipped == text)
}

fn text(name: &str, beside: Option<&Path>) -> Result<(String, Option<PathBuf>), PlatformError> {
    if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        return Ok(((*text).to_owned(), None));
    }
    if name.ends_with(".toml") {
        let path = beside.map_or_else(|| PathBuf::from(name), |d| d.join(name));
        return match std::fs::read_to_string(&path) {
            Ok(text) => Ok((text, path.parent().map(Path::to_owned))),
            Err(e) => Err(PlatformError::new(format!("platform {}: cannot be read: {e}", path.display()))),
        };
    }
    let known = Platform::names().collect::<Vec<_>>().join(", ");
    if SDIO.iter().any(|(sdio, _)| *sdio == name) {
        return Err(PlatformError::new(format!(
            "platform {name}: an SDIO board, for reproduce sdio; expected a file ending in .toml or one of: {known}"
        )));
    }
    Err(PlatformError::new(format!(
        "platform {name}: unknown; expected a file ending in .toml or one of: {known}"
    )))
}

/// Merges `over` into `base`. Tables are merged key by key. A quantity in `over` replaces the whole
/// quantity of that name, even if the units differ. A table with the key `kind`, such as a
/// controller, also replaces the whole table.
fn lay(base: &mut Table, over: Table) {
    let names: Vec<_> = over.keys().filter_map(|key| Some((unit(key)?.0.to_owned(), key.clone()))).collect();
    base.retain(|old, _| {
        unit(old).is_none_or(|(name, _)| !names.iter().any(|(above, key)| above == name && key != old))
    });
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above))
                if !above.contains_key("value") && !above.contains_key("kind") =>
            {
                lay(below, above)
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Splits the key of a time, such as `wake_us`, into the name without the unit and the length of
/// the unit in ns. `None`: the key ends with no unit.
fn unit(key: &str) -> Option<(&str, f64)> {
    UNITS.iter().find_map(|(unit, factor)| key.strip_suffix(unit).map(|name| (name, *factor)))
}

/// Reads all quantities of `needed`, and those of `optional` that the table has. `timed`: they are
/// times, and each key ends with a unit (`_ns`, `_us`, `_ms` or `_s`).
fn quantities(
    place: &str,
    table: Table,
    needed: &[&'static str],
    optional: &[&'static str],
    timed: bool,
) -> Result<Times, PlatformError> {
    let known = [needed, optional].concat();
    let names = &known[..];
    let mut named = Vec::new();
    for (key, value) in table {
        let (name, factor) = if timed {
            match unit(&key) {
                Some((name, factor)) => (name.to_owned(), factor),
                None if names.contains(&key.as_str()) => {
                    return Err(PlatformError::new(format!(
                        "{place}.{key}: no unit; expected {key}_ns, {key}_us, {key}_ms or {key}_s"
                    )));
                }
                None => return Err(unknown(&format!("{place}.{key}"), &key, names)),
            }
        } else {
            (key.clone(), 1.0)
        };
        if !names.contains(&name.as_str()) {
            return Err(unknown(&format!("{place}.{key}"), &name, names));
        }
        if !value.is_table() {
            let expected =
                format!("{{ value = {value}, kind = \"measured\", source = \"where it is from\" }}");
            return Err(error(&format!("{place}.{key}"), &value, &expected));
        }
        let quantity: Quantity = value.try_into().map_err(|e: toml::de::Error| {
            PlatformError::new(format!("{place}.{key}: {}; expected {{ value, kind, source }}, and range = [least, most] if it is known", e.message()))
        })?;
        let most = if place.ends_with("share") { 1.0 } else { 1e9 };
        if !(0.0..=most).contains(&quantity.value) {
            return Err(PlatformError::new(format!(
                "{place}.{key}: {} is out of range; expected 0 to {most}",
                quantity.value
            )));
        }
        // A value that `--set` gives may be outside.
        let outside = |ends: &[f64; 2]| {
            !quantity.source.starts_with("--set") && !(ends[0]..=ends[1]).contains(&quantity.value)
        };
        let wrong = |ends: &[f64; 2]| !(0.0 <= ends[0] && ends[0] < ends[1]) || outside(ends);
        for (part, ends) in [("range", quantity.range), ("interval", quantity.interval)] {
            if let Some([least, most]) = ends.filter(wrong) {
                return Err(PlatformError::new(format!(
                    "{place}.{key}: {part} = [{least}, {most}]; expected the least and the most, with {} between",
                    quantity.value
                )));
            }
        }
        if named.iter().any(|(known, _, _)| *known == name) {
            return Err(PlatformError::new(format!("{place}.{key}: given twice, in two units")));
        }
        named.push((name, quantity.value * factor, quantity));
    }
    match needed.iter().find(|name| !named.iter().any(|(known, _, _)| known == *name)) {
        Some(missing) => Err(PlatformError::new(format!("{place}.{missing}: missing; expected a quantity"))),
        None => Ok(Times { named, known }),
    }
}

impl Times {
    /// Returns whether the board's file contains a time of this name, such as a cost.
    pub fn has(&self, name: &str) -> bool {
        debug_assert!(self.known.contains(&name), "{name}: expected one of {:?}", self.known);
        self.named.iter().any(|t| t.0 == name)
    }

    /// Returns the number of this name as written in the file, in its own unit; 0 if it is not
    /// there.
    pub fn value(&self, name: &str) -> f64 {
        self.named.iter().find(|t| t.0 == name).map_or(0.0, |t| t.2.value)
    }
}

fn timings(place: &str, value: &Value) -> Result<Vec<mmcq::host::Timing>, PlatformError> {
    use mmcq::host::Timing;
    let names = [
        ("hs200", Timing::Hs200),
        ("hs400", Timing::Hs400),
        ("hs400es", Timing::Hs400Es),
        ("ddr52", Timing::Ddr52),
    ];
    let known: Vec<_> = names.iter().map(|(name, _)| *name).collect();
    let Value::Array(list) = value else { return Err(error(place, value, "a list")) };
    list.iter()
        .map(|item| {
            let found = names.iter().find(|(name, _)| Some(*name) == item.as_str());
            found.map(|(_, timing)| *timing).ok_or_else(|| error(place, item, &known.join(", ")))
        })
        .collect()
}

fn error(place: &str, value: &Value, expected: &str) -> PlatformError {
    PlatformError::new(format!("{place}: {value}; expected {expected}"))
}

fn unknown(place: &str, name: &str, known: &[&str]) -> PlatformError {
    // The known names have no unit, so it is removed before the comparison.
    let name = unit(name).map_or(name, |(name, _)| name);
    let nearest = known.iter().max_by(|a, b| strsim::jaro(a, name).total_cmp(&strsim::jaro(b, name)));
    PlatformError::new(format!(
        "{place}: unknown; the nearest known name is {}; all: {}",
        nearest.unwrap_or(&"none"),
        known.join(", ")
    ))
}

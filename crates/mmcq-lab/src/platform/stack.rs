//! Section `[stack]`: what a board's file says about mmcq's engine.
//!
//! - `advance`: the context that calls the engine, see [`Advance`].
//! - `streams`: `"off"` closes each transfer, even if the host could continue it. `"always"` keeps
//!   transfers open in a pause. `"on"` (the default) keeps a transfer open where this saves time.
//! - `hold_us`: for how many microseconds a transfer stays open while no request comes.
//! - `owed_us`: after how many microseconds at the latest the engine asks the card whether the
//!   writes of an open transfer have succeeded. For this it closes the transfer.
//! - `merging`: `"off"` sends each request alone.
//! - `acknowledge`: with `"transferred"` a write is complete when its data are transferred, not
//!   when the card has programmed them.
//! - `scheduler`: `"fifo"` (the default), `"deadline"`, `"fair"` or `"reads-first"`.
//! - `weights`: the weights of the fair scheduler by client, such as `[1, 4]`. The first job is
//!   client 0. Clients without a weight have 1.

use super::{Advance, PlatformError, Scheduler, error, unknown};
use mmcq::engine::{Acknowledge, Config, StaysOpen};
use mmcq::sched::{Any, Chained, Deadline, Fair, Fifo, HostQueued, Packed, ReadsFirst, deadline, fair};
use toml::{Table, Value};

/// Longest time in us that a transfer may stay open: an hour.
const US_MAX: i64 = 3_600_000_000;
/// Number of clients for which a scheduler has separate queues.
const CLIENTS: usize = 8;

/// Type that selects the parts of mmcq's engine: a scheduler by name, the card's command queue
/// (driven by the controller's engine or by software), packed commands, and chains.
pub type Profile = Chained<Packed<HostQueued<Scheduler>>>;

/// Returns the [`Profile`], which says what parts mmcq's engine has, with this scheduler.
#[must_use]
pub fn profile(scheduler: Scheduler) -> Profile {
    Chained(Packed(HostQueued(scheduler)))
}

/// Setup of mmcq's engine on a board.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// Which contexts (interrupt, tasklet, thread or spinning job) call mmcq's engine.
    pub advance: Advance,
    /// In which cases transfers stay open after their last request.
    pub streams: StaysOpen,
    /// Time in ns for which a transfer stays open while no request comes.
    pub hold_ns: u64,
    /// Longest time in ns until the engine asks the card for the status of the writes of an open
    /// transfer, that is, whether they have succeeded.
    pub owed_ns: u64,
    /// Whether the engine merges contiguous requests into one transfer.
    pub merging: bool,
    /// Event at which a write counts as complete.
    pub acknowledge: Acknowledge,
    /// Scheduler that picks which waiting request is next.
    pub scheduler: Any<CLIENTS>,
    /// Whether the driver of the controller's queue engine (CQHCI) is used. A setting decides this,
    /// not a key of the file.
    pub queue_engine: bool,
    /// Interval at which the queue engine polls the card, in clocks of the engine's timer; `None`:
    /// the driver's default. A setting decides this, not a key of the file.
    pub queue_poll_clocks: Option<u32>,
    /// Whether the controller executes chains of transfers. The setting of a run decides this; a
    /// board's file has no key for it.
    pub chains: bool,
}

impl Stack {
    /// Returns the configuration of mmcq's engine for this setup.
    pub(crate) fn config(&self) -> Config {
        let merge_blocks = if self.merging { Config::DEFAULT.merge_blocks } else { 1 };
        Config::DEFAULT
            .stays_open(self.streams)
            .hold_ns(self.hold_ns)
            .owed_ns(self.owed_ns)
            .merge_blocks(merge_blocks)
            .acknowledge(self.acknowledge)
    }

    /// Reads the section `[stack]` of a board's file; `place` adds the name of the board to a key,
    /// for errors.
    pub(super) fn read(place: &dyn Fn(&str) -> String, mut table: Table) -> Result<Self, PlatformError> {
        let advance = match table.remove("advance") {
            Some(value) => value.clone().try_into().map_err(|_| {
                let expected = "\"irq\", \"tasklet\", \"thread\" or \"spin\"";
                error(&place("stack.advance"), &value, expected)
            })?,
            None => Advance::default(),
        };
        let mut switch = |key: &str| match table.remove(key) {
            None => Ok(true),
            Some(Value::String(word)) if word == "on" => Ok(true),
            Some(Value::String(word)) if word == "off" => Ok(false),
            Some(other) => Err(error(&place(&format!("stack.{key}")), &other, "\"on\" or \"off\"")),
        };
        let merging = switch("merging")?;
        let streams = match table.remove("streams") {
            None => StaysOpen::WherePays,
            Some(Value::String(word)) if word == "on" => StaysOpen::WherePays,
            Some(Value::String(word)) if word == "off" => StaysOpen::Never,
            Some(Value::String(word)) if word == "always" => StaysOpen::Always,
            Some(other) => {
                return Err(error(&place("stack.streams"), &other, "\"on\", \"off\" or \"always\""));
            }
        };
        let mut time = |key: &str, default_ns: u64| match table.remove(key) {
            None => Ok(default_ns),
            Some(Value::Integer(us)) if (0..=US_MAX).contains(&us) => Ok(us as u64 * 1_000),
            Some(other) => Err(error(&place(&format!("stack.{key}")), &other, "an integer, 0 to 3600000000")),
        };
        let hold_ns = time("hold_us", Config::DEFAULT.hold_ns)?;
        let owed_ns = time("owed_us", Config::DEFAULT.owed_ns)?;
        let acknowledge = match table.remove("acknowledge") {
            None => Acknowledge::Programmed,
            Some(Value::String(word)) if word == "programmed" => Acknowledge::Programmed,
            Some(Value::String(word)) if word == "transferred" => Acknowledge::Transferred,
            Some(other) => {
                return Err(error(&place("stack.acknowledge"), &other, "\"programmed\" or \"transferred\""));
            }
        };
        let name = match table.remove("scheduler") {
            None => "fifo".to_owned(),
            Some(Value::String(name)) if Any::NAMES.contains(&name.as_str()) => name,
            Some(other) => {
                let known = "\"fifo\", \"deadline\", \"fair\" or \"reads-first\"";
                let linux = ["none", "mq-deadline", "kyber", "bfq"];
                let expected = match other.as_str().is_some_and(|name| linux.contains(&name)) {
                    true => &format!(
                        "{known}, which are our engine's. The settings of Linux have mq-deadline; any \
                         scheduler of Linux runs in mmcq guest --scheduler"
                    ),
                    false => known,
                };
                return Err(error(&place("stack.scheduler"), &other, expected));
            }
        };
        let weights = match table.remove("weights") {
            None => None,
            Some(value) if name != "fair" => {
                return Err(error(&place("stack.weights"), &value, "stack.scheduler = \"fair\" beside them"));
            }
            Some(value) => Some(weights(&place("stack.weights"), &value)?),
        };
        if let Some(key) = table.keys().next() {
            let known = [
                "advance",
                "streams",
                "hold_us",
                "owed_us",
                "merging",
                "acknowledge",
                "scheduler",
                "weights",
            ];
            return Err(unknown(&place(&format!("stack.{key}")), key, &known));
        }
        let scheduler = match name.as_str() {
            "fair" => {
                let config = match weights {
                    Some(weights) => fair::FairConfig::new(weights)
                        .map_err(|e| PlatformError::new(format!("{}: {e}", place("stack.weights"))))?,
                    None => fair::FairConfig::DEFAULT,
                };
                Any::Fair(Fair::new(config))
            }
            "deadline" => Any::Deadline(Deadline::new(deadline::DeadlineConfig::DEFAULT)),
            "reads-first" => Any::ReadsFirst(ReadsFirst::new()),
            _ => Any::Fifo(Fifo),
        };
        Ok(Stack {
            advance,
            streams,
            hold_ns,
            owed_ns,
            merging,
            acknowledge,
            scheduler,
            queue_engine: false,
            queue_poll_clocks: None,
            chains: false,
        })
    }
}

fn weights(place: &str, value: &Value) -> Result<[u16; CLIENTS], PlatformError> {
    let fault = || error(place, value, "an array of up to 8 integers, 1 to 1000");
    let mut weights = [1; CLIENTS];
    let given = value.as_array().ok_or_else(fault)?;
    if given.len() > CLIENTS {
        return Err(fault());
    }
    for (at, (weight, value)) in weights.iter_mut().zip(given).enumerate() {
        let fault = || error(&format!("{place}[{at}]"), value, "1 to 1000");
        *weight = value
            .as_integer()
            .and_then(|n| u16::try_from(n).ok())
            .filter(|n| (1..=1000).contains(n))
            .ok_or_else(fault)?;
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use crate::platform::Platform;
    use mmcq::engine::{Acknowledge, StaysOpen};
    use mmcq::sched::Any;

    fn with(changes: &[&str]) -> Result<Platform, String> {
        let changes: Vec<String> = changes.iter().map(|c| (*c).to_owned()).collect();
        Platform::load_with("hsq-sprd", &changes).map_err(|e| e.to_string())
    }

    #[test]
    fn a_scheduler_is_chosen_by_name() {
        for name in Any::NAMES {
            let platform = with(&[&format!("stack.scheduler={name}")]).unwrap();
            assert_eq!(platform.stack.scheduler.name(), name);
        }
        assert!(with(&["stack.scheduler=fair", "stack.weights=[1, 4]"]).is_ok());
        for (word, streams) in
            [("off", StaysOpen::Never), ("on", StaysOpen::WherePays), ("always", StaysOpen::Always)]
        {
            assert_eq!(with(&[&format!("stack.streams={word}")]).unwrap().stack.streams, streams);
        }
        let stack = with(&["stack.hold_us=400", "stack.owed_us=0"]).unwrap().stack;
        assert_eq!((stack.hold_ns, stack.owed_ns, stack.config().hold_ns), (400_000, 0, 400_000));
        let stack = with(&[]).unwrap().stack;
        assert_eq!((stack.hold_ns, stack.owed_ns), (150_000_000, 1_000_000_000));
        let early = with(&["stack.acknowledge=transferred"]).unwrap();
        assert_eq!(early.stack.acknowledge, Acknowledge::Transferred);
        assert_eq!(with(&[]).unwrap().stack.acknowledge, Acknowledge::Programmed);
    }

    #[test]
    fn faults_name_the_place_and_what_was_expected() {
        let fault = |changes: &[&str]| with(changes).unwrap_err();
        assert_eq!(
            fault(&["stack.scheduler=fare"]),
            "platform hsq-sprd: stack.scheduler: \"fare\"; expected \"fifo\", \"deadline\", \"fair\" or \"reads-first\""
        );
        assert!(fault(&["stack.scheduler=bfq"]).contains("mmcq guest --scheduler"));
        assert_eq!(
            fault(&["stack.scheduler=fair", "stack.weights=[1, 0]"]),
            "platform hsq-sprd: stack.weights[1]: 0; expected 1 to 1000"
        );
        assert!(fault(&["stack.weights=[1, 2]"]).contains("expected stack.scheduler"));
        assert!(fault(&["stack.scheduler=fair", "stack.weights=[-1]"]).contains("stack.weights[0]: -1"));
        assert!(fault(&["stack.scheduler=fair", "stack.weights=3"]).contains("up to 8 integers"));
        assert!(fault(&["stack.acknowledge=soon"]).contains("expected \"programmed\" or \"transferred\""));
        assert!(fault(&["stack.streams=3"]).contains("expected \"on\", \"off\" or \"always\""));
        assert!(fault(&["stack.hold_us=-1"]).contains("stack.hold_us: -1; expected an integer"));
        assert!(fault(&["stack.hold_ms=1"]).contains("nearest known name is hold_us"));
        assert!(fault(&["stack.schedule=fair"]).contains("nearest known name is scheduler"));
    }
}

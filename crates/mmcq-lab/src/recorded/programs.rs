//! Names of programs in a trace.

use std::collections::HashMap;
use std::sync::Arc;

/// Common name for all kernel workers, whose own names contain a CPU and a queue.
const WORKER: &str = "kworker";
/// Text that tracefs prints if it has lost the name of a process.
const LOST: &str = "<...>";

/// Names of programs seen so far in the trace, each stored once.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, Arc<str>>,
}

impl Names {
    /// Returns the name of the program that a process with this name runs. `None`: the trace has no
    /// name for it.
    pub(super) fn of(&mut self, name: &str) -> Option<Arc<str>> {
        let name = name.trim();
        let name = if name.starts_with(WORKER) { WORKER } else { name };
        if name.is_empty() || name == LOST {
            return None;
        }
        if let Some(known) = self.known.get(name) {
            return Some(known.clone());
        }
        let made: Arc<str> = name.into();
        self.known.insert(name.to_owned(), made.clone());
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_one_program_and_others_have_their_names() {
        let mut names = Names::default();
        let mut of = |name: &str| names.of(name).as_deref().map(str::to_owned);
        assert_eq!(of("kworker/u8:2-flush-179:0").as_deref(), Some("kworker"));
        assert_eq!(of("jbd2/mmcblk0p2-8").as_deref(), Some("jbd2/mmcblk0p2-8"));
        assert_eq!((of(""), of("  "), of("<...>")), (None, None, None));
    }
}

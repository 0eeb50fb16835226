//! Load of a sweep, which runs once for each combination of the sweep's values: jobs, or a trace.

use crate::fio::script::When;
use crate::fio::{JobFile, Worker};

/// Load of a sweep: jobs or a trace.
#[derive(Clone, Debug)]
pub enum Load {
    /// The jobs of a job file run at each point (combination of values) of the grid.
    Jobs(JobFile),
    /// Each run of the sweep replays a trace, with these workers.
    Trace {
        /// Workers with their requests.
        workers: Vec<Worker>,
        /// Hash over all requests of the trace, which identifies the trace.
        hash: u64,
        /// Program whose requests the rows describe, by number and name; `None`: all programs.
        program: Option<(u16, String)>,
    },
}

impl From<JobFile> for Load {
    fn from(file: JobFile) -> Self {
        Load::Jobs(file)
    }
}

impl Load {
    /// Makes a load of the workers of a trace.
    pub fn trace(workers: Vec<Worker>) -> Self {
        let mut hash = super::NOTHING;
        for (number, worker) in (0_u64..).zip(&workers) {
            let depth = u64::from(worker.job.iodepth);
            hash = on(hash, &[number, depth]);
            let Some(script) = &worker.script else { continue };
            hash = super::hash_on(hash, &[script.remap.name()]);
            for entry in script.entries.iter() {
                let (kind, before, ns) = match entry.when {
                    When::AtOnce => (0, 0, 0),
                    When::At(ns) => (1, 0, ns),
                    When::AfterStart(ns) => (2, 0, ns),
                    When::AfterEnd(before, ns) => (3, before.into(), ns),
                };
                hash = on(hash, &[entry.op as u64, entry.offset, entry.bytes, kind, before, ns]);
            }
        }
        Load::Trace { workers, hash, program: None }
    }

    /// Limits the rows to the requests of one program, which must be one of `names`. All programs
    /// run.
    ///
    /// # Errors
    /// The trace does not have this program, or the load is not a trace; the error is one line.
    pub fn of_program(self, name: &str, names: &[String]) -> Result<Self, String> {
        let known = || names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>().join(", ");
        let number = names.iter().position(|known| known == name).filter(|_| !name.is_empty());
        match (self, number.and_then(|number| u16::try_from(number).ok())) {
            (Load::Trace { workers, hash, .. }, Some(number)) => {
                let hash = super::hash_on(hash, &[name]);
                Ok(Load::Trace { workers, hash, program: Some((number, name.to_owned())) })
            }
            (Load::Trace { .. }, None) if names.is_empty() => Err("the trace names no programs".to_owned()),
            (Load::Trace { .. }, None) => Err(format!("no such program; the trace has {}", known())),
            (Load::Jobs(_), _) => Err("jobs have no programs; expected a trace".to_owned()),
        }
    }

    /// Returns the program whose requests the rows describe; `None`: all programs.
    pub(super) fn program(&self) -> Option<&(u16, String)> {
        match self {
            Load::Jobs(_) => None,
            Load::Trace { program, .. } => program.as_ref(),
        }
    }

    /// Returns a hash over the jobs or the trace, which identifies the load.
    pub(super) fn hash(&self) -> u64 {
        match self {
            Load::Jobs(file) => {
                // The lines have flags, too, which are no values of a job.
                super::hash(&[&file.lines.join("\n")])
            }
            Load::Trace { hash, .. } => *hash,
        }
    }
}

/// Continues the FNV-1a hash `before` over words of 64 bits.
fn on(before: u64, words: &[u64]) -> u64 {
    words.iter().fold(before, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}

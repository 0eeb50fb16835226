//! Ends a program before its time when the laboratory receives a signal (Ctrl-C), together with all
//! processes that the program started.

use super::shared::{Shared, Word};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two checks whether the program has ended, after a signal came.
const STEP: Duration = Duration::from_millis(50);
/// Number of checks (one each [`STEP`]), after a signal came, before the signal is forwarded to the
/// program. (If the program runs in the terminal, the terminal has already sent it the signal.)
const FORWARD_AT: u32 = 4;
/// Number of checks (one each [`STEP`]), after a signal came, before the program is killed.
const KILL_AT: u32 = 100;
/// Largest number of rounds in which processes that the program left behind are killed: each round
/// may orphan more of them.
const ROUNDS: u32 = 64;

/// Sends a signal to a process, if it has not ended.
pub fn kill(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // The process may end just now, so an error is ignored.
        let _ = kill_process(pid, signal);
    }
}

/// Handles SIGINT and SIGTERM while a program runs.
pub struct Watch {
    handle: Handle,
    thread: JoinHandle<Option<i32>>,
}

impl Watch {
    /// Installs the signal handlers. [`Watch::over`] then says which program the signals end.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn hears() -> io::Result<Signals> {
        Signals::new([SIGINT, SIGTERM])
    }

    /// Makes a thread that handles signals while the program with the process ID `program` runs.
    /// After the first signal the program may end by itself. After a second signal, or after five
    /// seconds, the thread kills the program.
    pub fn over(mut signals: Signals, program: i32, shared: Arc<Shared>) -> Self {
        let handle = signals.handle();
        let closed = handle.clone();
        let thread = std::thread::spawn(move || {
            let first = signals.forever().next()?;
            let signal = if first == SIGINT { Signal::INT } else { Signal::TERM };
            let is_over = || closed.is_closed() || shared.word(Word::Over).load(Ordering::Acquire) != 0;
            for nth in 0..=KILL_AT {
                if is_over() {
                    break;
                }
                if nth == KILL_AT || signals.pending().next().is_some() {
                    kill(program, Signal::KILL);
                    break;
                }
                if nth == FORWARD_AT {
                    kill(program, signal);
                    shared
                        .processes()
                        .iter()
                        .filter(|pid| **pid != program)
                        .for_each(|pid| kill(*pid, signal));
                }
                std::thread::sleep(STEP);
            }
            Some(first)
        });
        Watch { handle, thread }
    }

    /// Stops waiting for signals, after the program has ended. Returns the number of the signal
    /// that this process has received meanwhile; `None`: no signal came.
    pub fn ends(self) -> Option<i32> {
        self.handle.close();
        self.thread.join().ok().flatten()
    }
}

/// Makes this process the parent of the program's orphaned processes, so that it can find them.
pub fn adopt() {
    // A kernel without this call makes orphans children of process 1; the error is ignored.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Kills the processes that the program has left behind. `mark`, the name of the shared memory in
/// their environment, identifies them.
pub fn sweep(mark: &str) {
    let mark = format!("MMCQ_SHARED={mark}");
    for _ in 0..ROUNDS {
        let left = children(mark.as_bytes());
        if left.is_empty() {
            break;
        }
        for pid in left {
            kill(pid, Signal::KILL);
            let _ = waitpid(Pid::from_raw(pid), WaitOptions::empty());
        }
    }
    let _ = set_child_subreaper(None);
}

/// Returns the children of this process whose environment contains `mark`.
fn children(mark: &[u8]) -> BTreeSet<i32> {
    let own = getpid().as_raw_nonzero().get();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_ours = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        parent == Some(own)
            && std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|words| words.split(|byte| *byte == 0).any(|word| word == mark))
    };
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
}

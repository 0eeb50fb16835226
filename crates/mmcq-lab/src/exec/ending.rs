//! Ends a program before its time: on a signal to the laboratory (Ctrl-C), together with all
//! processes that it started.

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

/// Interval at which an interrupted program is polled.
const STEP: Duration = Duration::from_millis(50);
/// Number of polls before the signal is forwarded to the program. From a terminal it has received
/// it already.
const FORWARD_AT: u32 = 4;
/// Number of polls before the program is killed.
const KILL_AT: u32 = 100;
/// Most rounds of killing what is left: each round may make orphans of other processes.
const ROUNDS: u32 = 64;

/// Sends a signal to a process, if it has not ended.
pub fn kill(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may end in this moment.
        let _ = kill_process(pid, signal);
    }
}

/// Handles SIGINT and SIGTERM while a program runs.
pub struct Watch {
    handle: Handle,
    thread: JoinHandle<Option<i32>>,
}

impl Watch {
    /// Installs the signal handlers. [`Watch::over`] names the program.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn hears() -> io::Result<Signals> {
        Signals::new([SIGINT, SIGTERM])
    }

    /// Watches this program. After a first signal the program may end by itself. A second signal,
    /// or five seconds, kill it.
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

    /// Ends the watch when the program has ended. Returns the number of the signal, if there was
    /// one.
    pub fn ends(self) -> Option<i32> {
        self.handle.close();
        self.thread.join().ok().flatten()
    }
}

/// Makes orphans of the program children of this process, so that they can be found.
pub fn adopt() {
    // An old kernel without it leaves them to process 1.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Kills the processes that the program has left behind. They are identified by the name of the
/// shared memory in their environment.
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

/// Returns the children of this process with these words in their environment.
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

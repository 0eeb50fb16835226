//! How a program ends before its time: by a signal to the laboratory (Ctrl-C), and with all that it
//! has started.

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

/// What an interrupted program is looked at in.
const STEP: Duration = Duration::from_millis(50);
/// Steps before the signal is handed to the program: from a terminal it has it already.
const FORWARD_AT: u32 = 4;
/// Steps before it is killed.
const KILL_AT: u32 = 100;
/// Rounds of ending what is left: each may make orphans of others.
const ROUNDS: u32 = 64;

/// Ends a process, if it has not ended.
pub fn kill(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may end in this moment.
        let _ = kill_process(pid, signal);
    }
}

/// Hears SIGINT and SIGTERM while a program runs.
pub struct Watch {
    handle: Handle,
    thread: JoinHandle<Option<i32>>,
}

impl Watch {
    /// Hears them from now on; [`Watch::over`] says for which program.
    ///
    /// # Errors
    /// The system takes no handler.
    pub fn hears() -> io::Result<Signals> {
        Signals::new([SIGINT, SIGTERM])
    }

    /// Over this program. A first signal lets it end by itself; a second one, or five seconds, kill it.
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

    /// The program has ended: was there a signal, and which?
    pub fn ends(self) -> Option<i32> {
        self.handle.close();
        self.thread.join().ok().flatten()
    }
}

/// Orphans of the program become children of this process, so that they can be found.
pub fn adopt() {
    // An old kernel without it leaves them to process 1.
    let _ = set_child_subreaper(Some(getpid()));
}

/// Ends what the program has left behind. They are known by the memory that was named to them.
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

/// Children of this process with these words in their environment.
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

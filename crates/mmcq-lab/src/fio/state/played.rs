//! A worker that replays a script (a list of requests): its next request, when that request may
//! start, and how late it is.

use super::{How, Io, JobState, Next, Sync};
use crate::fio::job::Dir;
use crate::fio::script::{Op, Script, When};

/// Value that stands for the end time of a request that has not ended.
const UNDER_WAY: u64 = u64::MAX;

/// Position of a worker in its script, and the times of the requests so far.
#[derive(Debug)]
pub(super) struct Player {
    script: Script,
    capacity: u64,
    at: usize,
    /// Time in ns at which the newest request of the script started.
    went_ns: u64,
    /// End time in ns of each request; empty if no request waits for another's end.
    ended_ns: Vec<u64>,
}

/// When the next request of the script may start.
enum Ready {
    Over,
    At(u64),
    WhenSomethingEnds,
}

impl Player {
    /// Makes a player at the start of its script, on a card of `capacity` bytes.
    pub(super) fn new(script: Script, capacity: u64) -> Self {
        let waits = script.entries.iter().any(|entry| matches!(entry.when, When::AfterEnd(..)));
        let ended_ns = if waits { vec![UNDER_WAY; script.entries.len()] } else { Vec::new() };
        Player { script, capacity, at: 0, went_ns: 0, ended_ns }
    }

    /// Returns the number of bytes that all requests of the script transfer.
    pub(super) fn planned_bytes(&self) -> u64 {
        self.script.bytes()
    }

    /// Returns the number of the program that made the request with the index `entry`; `None` if it
    /// is not known.
    pub(super) fn program(&self, entry: u32) -> Option<u16> {
        self.script.programs.get(entry as usize).copied()
    }

    /// Records that the request with the index `entry` ended at this time.
    pub(super) fn ended(&mut self, entry: u32, at_ns: u64) {
        if let Some(ended_ns) = self.ended_ns.get_mut(entry as usize) {
            *ended_ns = at_ns;
        }
    }

    fn ready(&self, began_ns: u64) -> Ready {
        let Some(entry) = self.script.entries.get(self.at) else { return Ready::Over };
        match entry.when {
            When::AtOnce => Ready::At(0),
            When::At(after_ns) => Ready::At(began_ns.saturating_add(after_ns)),
            When::AfterStart(gap_ns) => Ready::At(self.went_ns.max(began_ns).saturating_add(gap_ns)),
            When::AfterEnd(before, gap_ns) => match self.ended_ns.get(before as usize) {
                Some(&ended_ns) if ended_ns != UNDER_WAY => Ready::At(ended_ns.saturating_add(gap_ns)),
                _ => Ready::WhenSomethingEnds,
            },
        }
    }
}

impl JobState {
    /// Sets the time in ns at which the replay of the script begins. The start times of the
    /// script's requests count from this time.
    pub fn begins_at(&mut self, at_ns: u64) {
        if self.player.is_some() && self.begin_ns.is_none() {
            self.begin_ns = Some(at_ns);
            self.set_start(at_ns);
        }
    }

    /// Returns the next request of the script; `None` when all have started.
    pub(super) fn next_of_script(&mut self, now_ns: u64) -> Option<Next> {
        let began_ns = self.started_ns;
        let player = self.player.as_mut()?;
        match player.ready(began_ns) {
            Ready::Over => return None,
            Ready::At(at_ns) if now_ns < at_ns => return Some(Next::Wait(at_ns)),
            Ready::At(_) => {}
            // The request waits for an earlier one, which is under way.
            Ready::WhenSomethingEnds => return Some(Next::AfterCompletion),
        }
        let number = player.at as u32;
        let entry = player.script.entries.get(player.at)?;
        player.at += 1;
        player.went_ns = now_ns;
        if let Some(due_ns) = entry.due {
            self.stats.late.add_long(now_ns.saturating_sub(began_ns.saturating_add(due_ns)));
        }
        let (offset, bytes) = player.script.place(&entry, player.capacity);
        let (dir, how) = match entry.op {
            Op::Flush => {
                self.submitted();
                return Some(Next::Sync(Sync { file: 0, data_only: false, entry: number }));
            }
            Op::Read => (Dir::Read, How::Plain),
            Op::Write => (Dir::Write, How::Plain),
            Op::WriteDurable => (Dir::Write, How::Durable),
            Op::Discard => (Dir::Write, How::Discard),
        };
        self.pass_issued += 1;
        self.issued += 1;
        Some(self.issue(Io { dir, how, file: 0, offset, bytes, stamp: None, check: false, entry: number }))
    }
}

//! A recorded window of a run: activity on the bus lines and in the CPU cores, and the requests.

use super::window::Start;
use crate::system::{Held, Io};
use mmcq::host::Direction;
use mmcq_sim::card::{Answer, BusState};
use mmcq_sim::cpu::Span;

/// Length in ns of the part of a window that is drawn in one step. The memory that drawing needs is
/// proportional to it.
pub(super) const PART_NS: u64 = 2_000_000;

/// Idle time in ns. The trace is drawn in parts, and a part ends only where the bus is idle for
/// this long before and after. So all clocks between a command and its response are in one part.
pub(super) const IDLE_NS: u64 = 100_000;

/// Kind of activity on a bus line, with its content.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A command token on CMD.
    Command {
        /// Index of the command: 18 for CMD18.
        index: u8,
        /// Argument of the command.
        arg: u32,
        /// Whether the controller sent the command by itself (auto command).
        auto: bool,
        /// Whether the command follows CMD55, so that it is an application command.
        app: bool,
    },
    /// A response token on CMD.
    Response {
        /// Index of the command that the response answers.
        command: u8,
        /// Content of the response.
        answer: Answer,
        /// Whether the CRC7 of the response is right.
        crc_ok: bool,
        /// Whether the end bit of the response is right.
        end_ok: bool,
    },
    /// A data block on the DAT lines.
    Block {
        /// Whether the card sends the block (a read); false: the host sends it.
        read: bool,
        /// Data bytes of the block, without CRC16.
        data: Vec<u8>,
        /// Whether the CRC16 of every data line is right.
        crc_ok: bool,
        /// Whether an abort command ended the block early.
        cut: bool,
        /// Number of data lines that carry the block.
        width: u8,
        /// Whether the block has data on both clock edges.
        ddr: bool,
    },
    /// A CRC status token, by which the card answers a written block.
    CrcStatus {
        /// Whether the token (the card's CRC status) is 010: the card received the block without an
        /// error.
        good: bool,
    },
    /// Busy: the card holds DAT0 low.
    Busy,
    /// The controller has stopped the bus clock, since its buffer has no room or no data.
    ClockStopped,
}

/// Activity on the bus lines, with its start and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time in ns of the start bit, or of the start of the activity.
    pub start_ns: u64,
    /// Time in ns of the end bit, or of the activity's end.
    pub end_ns: u64,
    /// Kind and content of the activity.
    pub what: What,
}

impl Event {
    /// Returns whether the activity has bits: a token or a data block.
    pub fn has_bits(&self) -> bool {
        !matches!(self.what, What::Busy | What::ClockStopped)
    }
}

/// An I/O of a job, with the times of its submission and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// I/O that a job submitted.
    pub io: Io,
    /// Time in ns at which the job submitted the I/O.
    pub submitted_ns: u64,
    /// Time in ns of the completion, and whether the I/O succeeded; `None`: not completed in the
    /// recorded run.
    pub done: Option<(u64, bool)>,
}

impl Request {
    /// Returns a readable label of the I/O, such as `read 8 at 4096`.
    pub fn label(&self) -> String {
        match self.io {
            Io { blocks: 0, .. } => "flush".to_owned(),
            Io { direction: Direction::Read, lba, blocks, .. } => format!("read {blocks} at {lba}"),
            Io { direction: Direction::Write, lba, blocks, .. } => format!("write {blocks} at {lba}"),
        }
    }
}

/// A recorded window of a run. All times count from power-on. Activity that crosses an end of the
/// window is recorded completely.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Start of the window in ns.
    pub from_ns: u64,
    /// End of the window in ns.
    pub until_ns: u64,
    /// Time in ns at which the jobs began; `None`: they had not begun when the recording ended.
    pub work_ns: Option<u64>,
    /// Trigger that started the window.
    pub start: Start,
    /// Time in ns at which the event occurred that started the window (its trigger).
    pub start_ns: u64,
    /// Whether the card is an eMMC.
    pub emmc: bool,
    /// Number of CPU cores of the machine.
    pub cores: usize,
    /// Number of jobs. In the machine's numbering of threads, the jobs come first.
    pub jobs: u32,
    /// Names of the threads of the simulated machine, in the order of their numbers. Only a machine
    /// without fio jobs has such names (that of the SDIO experiment); empty on other machines.
    pub threads: Vec<&'static str>,
    /// Changes of the bus: time in ns, new state, and whether the card holds the lines low. The
    /// first entry is the state at the start of the window.
    pub bus: Vec<(u64, BusState, bool)>,
    /// Changes of the controller's interrupt line: time in ns and level. The first entry is the
    /// level at the start of the window.
    pub interrupts: Vec<(u64, bool)>,
    /// Changes of the card interrupt on DAT1: time in ns, and whether it is asserted. The first
    /// entry is the state at the window's start.
    pub card_irqs: Vec<(u64, bool)>,
    /// Activity on the bus lines, sorted by its start.
    pub events: Vec<Event>,
    /// Spans of time in which a CPU core was busy, each with the core and the context in which it
    /// ran.
    pub spans: Vec<Span>,
    /// Delayed starts of transfers: mmcq's engine waited for further requests that could join them.
    pub holds: Vec<Held>,
    /// I/Os of the jobs in the window.
    pub requests: Vec<Request>,
}

impl Capture {
    /// Moves the end of the window to the earlier time `until_ns`, or to the end of the token or
    /// block that is on the bus then.
    pub fn shorten(&mut self, until_ns: u64) {
        self.until_ns = whole(&self.events, self.from_ns, until_ns.clamp(self.from_ns, self.until_ns)).1;
        self.drop_the_rest();
    }

    /// Returns start and end in ns of consecutive parts of the window, each about `length_ns` long.
    /// A part ends where activity begins or the lines are idle, so no token or block crosses its
    /// end.
    pub(super) fn parts(&self, length_ns: u64) -> Vec<(u64, u64)> {
        let (mut parts, mut from_ns, mut free_ns) = (Vec::new(), self.from_ns, self.from_ns);
        let tokens = self.events.iter().filter(|event| event.has_bits());
        let tokens = tokens.map(|event| (event.start_ns, event.end_ns));
        for (start_ns, end_ns) in tokens.chain([(self.until_ns, self.until_ns)]) {
            if start_ns >= free_ns {
                let mut idle_ns = (from_ns + length_ns).max(free_ns.saturating_add(IDLE_NS));
                while idle_ns.saturating_add(IDLE_NS) <= start_ns {
                    parts.push((from_ns, idle_ns));
                    from_ns = idle_ns;
                    idle_ns = from_ns + length_ns;
                }
                if start_ns - from_ns >= length_ns && start_ns < self.until_ns {
                    parts.push((from_ns, start_ns));
                    from_ns = start_ns;
                }
            }
            free_ns = free_ns.max(end_ns);
        }
        parts.push((from_ns, self.until_ns));
        parts
    }

    /// Returns the activity on the lines and in the cores in a part of the window, without the
    /// requests.
    pub(super) fn part(&self, (from_ns, until_ns): (u64, u64)) -> Capture {
        let events = self.events.iter().filter(|e| e.end_ns > from_ns && e.start_ns < until_ns);
        let spans = self.spans.iter().filter(|s| s.to_ns > from_ns && s.from_ns < until_ns);
        let holds = self.holds.iter().filter(|held| held.to_ns > from_ns && held.from_ns < until_ns);
        Capture {
            from_ns,
            until_ns,
            threads: self.threads.clone(),
            bus: within(&self.bus, from_ns, until_ns, |b| b.0),
            interrupts: within(&self.interrupts, from_ns, until_ns, |i| i.0),
            card_irqs: within(&self.card_irqs, from_ns, until_ns, |i| i.0),
            events: events.cloned().collect(),
            spans: spans.copied().collect(),
            holds: holds.copied().collect(),
            requests: Vec::new(),
            ..*self
        }
    }

    /// Removes from the capture all activity outside of the window.
    pub(super) fn drop_the_rest(&mut self) {
        self.drop_before();
        let until_ns = self.until_ns;
        self.events.retain(|e| e.start_ns < until_ns);
        self.spans.retain(|s| s.from_ns < until_ns);
        self.holds.retain(|held| held.from_ns < until_ns);
        self.requests.retain(|r| r.submitted_ns < until_ns);
        self.bus.retain(|b| b.0 < until_ns);
        self.interrupts.retain(|i| i.0 < until_ns);
        self.card_irqs.retain(|i| i.0 < until_ns);
    }

    /// Removes from the capture all activity that ended before the window begins.
    pub(super) fn drop_before(&mut self) {
        let from_ns = self.from_ns;
        self.events.retain(|e| e.end_ns > from_ns);
        self.spans.retain(|s| s.to_ns > from_ns);
        self.holds.retain(|held| held.to_ns > from_ns);
        self.requests.retain(|r| r.done.is_none_or(|(at_ns, _)| at_ns > from_ns));
        forget(&mut self.bus, from_ns, |b| b.0);
        forget(&mut self.interrupts, from_ns, |i| i.0);
        forget(&mut self.card_irqs, from_ns, |i| i.0);
    }
}

/// Moves the start `from_ns` of a window back, and its end `until_ns` forward, until they cut no
/// token or block. Returns the new start and end in ns.
pub(super) fn whole(events: &[Event], mut from_ns: u64, mut until_ns: u64) -> (u64, u64) {
    for event in events.iter().rev().filter(|e| e.has_bits()) {
        if event.start_ns < from_ns && event.end_ns > from_ns {
            from_ns = event.start_ns;
        }
    }
    for event in events.iter().filter(|e| e.has_bits()) {
        if event.start_ns < until_ns && event.end_ns > until_ns {
            until_ns = event.end_ns;
        }
    }
    (from_ns, until_ns)
}

/// Removes each change that another one replaced before the time `by_ns`, so that the list begins
/// with the state at this time.
pub(super) fn forget<T>(changes: &mut Vec<T>, by_ns: u64, at_ns: fn(&T) -> u64) {
    let past = changes.iter().take_while(|change| at_ns(change) <= by_ns).count();
    changes.drain(..past.saturating_sub(1));
}

/// Returns the changes from `from_ns` to `until_ns`. The first one returned is the newest change
/// not after `from_ns`: it gives the state at the start.
fn within<T: Copy>(changes: &[T], from_ns: u64, until_ns: u64, at_ns: fn(&T) -> u64) -> Vec<T> {
    let first = changes.partition_point(|change| at_ns(change) <= from_ns).saturating_sub(1);
    let end = changes.partition_point(|change| at_ns(change) < until_ns).max(first);
    changes[first..end].to_vec()
}

//! Measures the gaps between transfers in a bus log.

use mmcq_sim::stats::BusEvent;

/// Longest gap in ns. A longer time between two transfers is a pause of the load and does not count
/// as a gap.
const PAUSE_NS: u64 = 5_000_000;

/// Direction of a transfer's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Data go from the card to the host.
    Read,
    /// Data go from the host to the card.
    Write,
}

/// Transfer of the log whose events are still being collected.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    direction: Direction,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    commands: u64,
    interrupts: u64,
    /// Time in ns of the last interrupt before the next transfer began; `None`: no interrupt has
    /// come yet.
    interrupt_ns: Option<u64>,
}

/// Gaps of one direction: each lasts from the end of a transfer to the first command of the next
/// transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaps {
    /// Number of all transfers of this direction. All other fields count only transfers that are
    /// followed, after a gap, by another transfer of the same direction.
    pub all: u64,
    /// Number of transfers that are followed, after a gap, by another transfer of the same
    /// direction.
    pub transfers: u64,
    /// Number of data bytes of the transfers that [`Gaps::transfers`] counts.
    pub bytes: u64,
    /// Number of commands of the transfers that [`Gaps::transfers`] counts. Each is counted from
    /// its first command to the first command of the next transfer.
    pub commands: u64,
    /// Number of interrupts of the transfers that [`Gaps::transfers`] counts. Each is counted from
    /// its first command to the first command of the next transfer.
    pub interrupts: u64,
    /// Sum in ns of the times of the transfers that [`Gaps::transfers`] counts. Each time lasts
    /// from the first command to the end of data and busy.
    pub work_ns: u64,
    /// Length of each gap in ns, sorted.
    pub gaps_ns: Vec<u64>,
    /// Times in ns from the last interrupt of a transfer to the next transfer's first command,
    /// sorted.
    pub reply_ns: Vec<u64>,
}

/// Returns whether the command with this index transfers data of the load.
fn is_transfer(index: u8) -> bool {
    // CMD46 and CMD47 transfer the data of a task of the card's queue.
    matches!(index, 17 | 18 | 24 | 25 | 46 | 47)
}

impl Gaps {
    /// Computes the gaps between the transfers of the direction `wanted` from the events of a log.
    pub fn of(events: &[BusEvent], wanted: Direction) -> Self {
        let mut gaps = Gaps::default();
        let mut open: Option<Transfer> = None;
        // CMD23, which announces the number of blocks, belongs to the transfer after it.
        let mut count: Option<u64> = None;
        for event in events {
            // If another command follows a CMD23, the CMD23 belongs to the transfer before it.
            if let BusEvent::Command { index, .. } = *event
                && !is_transfer(index)
                && count.take().is_some()
                && let Some(open) = &mut open
            {
                open.commands += 1;
            }
            match *event {
                BusEvent::Command { index: 23, start_ns, .. } => count = Some(start_ns),
                BusEvent::Command { index, start_ns, .. } if is_transfer(index) => {
                    let is_read = matches!(index, 17 | 18 | 46);
                    let direction = if is_read { Direction::Read } else { Direction::Write };
                    gaps.all += u64::from(direction == wanted);
                    let commands = 1 + u64::from(count.is_some());
                    let start_ns = count.take().unwrap_or(start_ns);
                    if let Some(before) = open.take() {
                        gaps.close(before, direction, start_ns, wanted);
                    }
                    open = Some(Transfer {
                        direction,
                        start_ns,
                        end_ns: start_ns,
                        bytes: 0,
                        commands,
                        interrupts: 0,
                        interrupt_ns: None,
                    });
                }
                BusEvent::Command { index: 12 | 13, end_ns, .. } => {
                    if let Some(open) = &mut open {
                        open.commands += 1;
                        if let BusEvent::Command { index: 12, .. } = event {
                            open.end_ns = open.end_ns.max(end_ns);
                        }
                    }
                }
                // A task is put into the card's queue.
                BusEvent::Command { index: 44 | 45, .. } => {
                    if let Some(open) = &mut open {
                        open.commands += 1;
                    }
                }
                // Another command: the transfer after it follows no transfer directly.
                BusEvent::Command { .. } => open = None,
                BusEvent::Block { bytes, end_ns, .. } => {
                    if let Some(open) = &mut open {
                        open.bytes += u64::from(bytes);
                        open.end_ns = open.end_ns.max(end_ns);
                    }
                }
                BusEvent::Busy { until_ns, .. } => {
                    if let Some(open) = &mut open {
                        open.end_ns = open.end_ns.max(until_ns);
                    }
                }
                BusEvent::Interrupt { at_ns, .. } => {
                    if let Some(open) = &mut open {
                        open.interrupts += 1;
                        open.interrupt_ns = Some(at_ns);
                    }
                }
                BusEvent::Response { .. } => {}
            }
        }
        gaps.gaps_ns.sort_unstable();
        gaps.reply_ns.sort_unstable();
        gaps
    }

    fn close(&mut self, transfer: Transfer, next: Direction, next_ns: u64, wanted: Direction) {
        let gap = next_ns.saturating_sub(transfer.end_ns);
        if transfer.direction != wanted || next != wanted || gap > PAUSE_NS {
            return;
        }
        self.transfers += 1;
        self.bytes += transfer.bytes;
        self.commands += transfer.commands;
        self.interrupts += transfer.interrupts;
        self.work_ns += transfer.end_ns - transfer.start_ns;
        self.gaps_ns.push(gap);
        self.reply_ns.extend(transfer.interrupt_ns.map(|at| next_ns.saturating_sub(at)));
    }

    /// Returns `count` divided by [`Gaps::transfers`], or `count` itself without transfers.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.transfers.max(1) as f64
    }

    /// Returns the mean in us of the given times in ns.
    pub fn mean_us(all: &[u64]) -> f64 {
        all.iter().sum::<u64>() as f64 / all.len().max(1) as f64 / 1e3
    }

    /// Returns in us the time that `percent` of the given sorted times in ns do not exceed.
    pub fn percentile_us(all: &[u64], percent: u64) -> f64 {
        let at = (all.len() as u64 * percent / 100).min(all.len().saturating_sub(1) as u64);
        all.get(at as usize).map_or(0.0, |ns| *ns as f64 / 1e3)
    }

    /// Returns the percentage of transfers after which no thread had to be woken. After these, the
    /// first command of the next transfer came less than `wake_ns` after the last interrupt: the
    /// next request was already queued.
    pub fn filled_percent(&self, wake_ns: u64) -> f64 {
        let soon = self.reply_ns.iter().filter(|ns| **ns < wake_ns).count();
        100.0 * soon as f64 / self.transfers.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(index: u8, start_ns: u64) -> BusEvent {
        BusEvent::Command { index, arg: 0, auto: false, start_ns, end_ns: start_ns + 100 }
    }

    /// Checks that a CMD23 begins a transfer only if that transfer is the next command.
    #[test]
    fn a_count_that_another_command_follows_begins_no_transfer() {
        let with = |between: &[BusEvent]| {
            let first = [command(18, 0), command(23, 1_000)];
            Gaps::of(&[&first[..], between, &[command(18, 9_000)]].concat(), Direction::Read)
        };
        let gaps = with(&[]);
        assert_eq!((gaps.gaps_ns, gaps.commands), (vec![1_000], 1));
        for index in [12, 13, 44, 45] {
            let gaps = with(&[command(index, 2_000)]);
            let end_ns = if index == 12 { 2_100 } else { 0 };
            assert_eq!((gaps.gaps_ns, gaps.commands), (vec![9_000 - end_ns], 3), "CMD{index}");
        }
        let gaps = with(&[command(23, 2_000)]);
        assert_eq!((gaps.gaps_ns, gaps.commands), (vec![2_000], 2));
        // A command of another kind ends the row of transfers.
        assert_eq!(with(&[command(6, 2_000)]).transfers, 0);
        let late = [command(23, 0), command(6, 500), command(18, 9_000), command(18, 10_000)];
        assert_eq!(Gaps::of(&late, Direction::Read).work_ns, 0);
    }
}

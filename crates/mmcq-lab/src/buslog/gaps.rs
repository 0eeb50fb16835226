//! What stands between the transfers of a log.

use mmcq_sim::stats::BusEvent;

/// Pauses longer than this are no gap: the load has ended, or begins.
const PAUSE_NS: u64 = 5_000_000;

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the card.
    Read,
    /// To it.
    Write,
}

/// A transfer, as far as it has come.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    direction: Direction,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    commands: u64,
    interrupts: u64,
    /// The last interrupt before the next one.
    interrupt_ns: Option<u64>,
}

/// Gaps of one direction: from the end of a transfer to the first command of the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaps {
    /// Transfers that have one behind them.
    pub transfers: u64,
    /// Their data.
    pub bytes: u64,
    /// Commands, from the first of a transfer to that of the next.
    pub commands: u64,
    /// Interrupts, the same.
    pub interrupts: u64,
    /// The bus is at work for so long.
    pub work_ns: u64,
    /// Gaps, in order.
    pub gaps_ns: Vec<u64>,
    /// From the last interrupt to the next command, in order.
    pub reply_ns: Vec<u64>,
}

impl Gaps {
    /// Of the events of a log, by direction.
    pub fn of(events: &[BusEvent], wanted: Direction) -> Self {
        let mut gaps = Gaps::default();
        let mut open: Option<Transfer> = None;
        // The command that says how many blocks follow belongs to the transfer behind it.
        let mut count: Option<u64> = None;
        for event in events {
            match *event {
                BusEvent::Command { index: 23, start_ns, .. } => count = Some(start_ns),
                BusEvent::Command { index: index @ (17 | 18 | 24 | 25), start_ns, .. } => {
                    let direction = if index < 20 { Direction::Read } else { Direction::Write };
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
                // Something else is on: what comes behind it follows no transfer.
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

    /// For each transfer.
    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.transfers.max(1) as f64
    }

    /// The mean of all, in microseconds.
    pub fn mean_us(all: &[u64]) -> f64 {
        all.iter().sum::<u64>() as f64 / all.len().max(1) as f64 / 1e3
    }

    /// What so many percent do not exceed, in microseconds.
    pub fn percentile_us(all: &[u64], percent: u64) -> f64 {
        let at = (all.len() as u64 * percent / 100).min(all.len().saturating_sub(1) as u64);
        all.get(at as usize).map_or(0.0, |ns| *ns as f64 / 1e3)
    }

    /// The share of the transfers, in percent, whose first command came so soon after an interrupt
    /// that no thread can have been woken for it: the queue was filled before. The others waited
    /// for a thread that fills it.
    pub fn filled_percent(&self, wake_ns: u64) -> f64 {
        let soon = self.reply_ns.iter().filter(|ns| **ns < wake_ns).count();
        100.0 * soon as f64 / self.transfers.max(1) as f64
    }
}

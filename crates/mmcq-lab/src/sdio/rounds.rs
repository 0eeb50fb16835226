//! Finds the steps (commands) of each packet in the events on the bus, and measures their times.
//! The packet belongs to an I/O function whose commands the user has described.

use super::load::Load;
use super::model::Model;
use mmcq_sim::stats::BusEvent;
use std::cell::RefCell;
use std::rc::Rc;

/// Mask of the argument bits of CMD52 or CMD53 that name the target: direction, function, address.
const PLACE: u32 = 1 << 31 | 7 << 28 | 0x1_ffff << 9;
const BLOCKS: u32 = 1 << 27;
const COUNT: u32 = 0x1ff;

/// Sum of times in ns, and the number of times that were added.
#[derive(Clone, Copy, Debug, Default)]
struct Sum(u64, u64);

impl Sum {
    fn add(&mut self, ns: u64) {
        *self = Sum(self.0 + ns, self.1 + 1);
    }

    fn mean(self) -> f64 {
        self.0 as f64 / self.1.max(1) as f64
    }
}

/// Mean times in the handling of packets, measured on the bus.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// For each step, the time in ns from the end of the step before to the end of this step. The
    /// first step counts from the start of its command.
    pub steps_ns: Vec<f64>,
    /// Time in ns from the start of a packet's first command to the end of the command that clears
    /// the interrupt.
    pub to_clear_ns: f64,
    /// Time in ns from the end of a command, or of its data, to the start of the packet's next
    /// command.
    pub completion_ns: f64,
    /// Sum in ns of the times between the commands of one packet.
    pub completions_ns: f64,
    /// Time in ns from the start of a packet's first command to the end of its last command.
    pub whole_ns: f64,
}

struct Expected {
    index: u8,
    place: u32,
    increments: bool,
    bytes: u32,
    clears: bool,
}

#[derive(Default)]
struct Log {
    steps: Vec<Expected>,
    block_bytes: u32,
    /// Index of the command in progress among the packet's commands, and the number of bytes that
    /// it still has to transfer. `None`: no command is in progress.
    at: Option<(usize, u32)>,
    first_ns: u64,
    /// Time in ns at which the packet's previous step (command) ended.
    before_ns: u64,
    end_ns: u64,
    /// Times in ns of those steps of the packet under way that have ended.
    round: Vec<u64>,
    between_ns: u64,
    gaps: u64,
    sums: Vec<Sum>,
    to_clear: Sum,
    between: Sum,
    completions: Sum,
    whole: Sum,
}

impl Log {
    fn is(&self, step: usize, index: u8, arg: u32) -> bool {
        let Some(expected) = self.steps.get(step) else { return false };
        let place = if expected.increments { arg & PLACE & !(0x1_ffff << 9) } else { arg & PLACE };
        (expected.index, expected.place) == (index, place)
    }

    /// Returns the number of bytes that the command CMD`index` (52 or 53) with this argument
    /// transfers.
    fn bytes(&self, index: u8, arg: u32) -> u32 {
        match (index, arg & COUNT) {
            (52, _) => 1,
            (_, blocks) if arg & BLOCKS != 0 => blocks * self.block_bytes,
            (_, 0) => 512,
            (_, bytes) => bytes,
        }
    }

    fn command(&mut self, index: u8, arg: u32, start_ns: u64) {
        let bytes = self.bytes(index, arg);
        let goes_on = self.at.filter(|&(step, left)| left > 0 && self.is(step, index, arg));
        if let Some((step, left)) = goes_on {
            self.gap(start_ns);
            self.at = Some((step, left.saturating_sub(bytes)));
            return;
        }
        let over = self.close();
        let next = match over {
            Some(step) if self.is(step + 1, index, arg) => step + 1,
            _ if self.is(0, index, arg) => 0,
            _ => {
                self.at = None;
                return;
            }
        };
        if next == 0 {
            (self.first_ns, self.before_ns, self.between_ns, self.gaps) = (start_ns, start_ns, 0, 0);
            self.round.clear();
        } else {
            self.gap(start_ns);
        }
        self.at = Some((next, self.steps[next].bytes.saturating_sub(bytes)));
    }

    /// Adds the gap before a command to the packet's sum of gaps. The gap lasts from `end_ns`, the end
    /// of the command before it, to `start_ns`.
    fn gap(&mut self, start_ns: u64) {
        self.between_ns += start_ns.saturating_sub(self.end_ns);
        self.gaps += 1;
    }

    /// Ends the step under way (a step is one command of the driver's sequence for a packet). If it
    /// was the last step, ends the packet too. Returns the index of the ended step, except at the
    /// end of a packet; `None` also if no step was under way.
    fn close(&mut self) -> Option<usize> {
        let (step, _) = self.at.take()?;
        self.round.push(self.end_ns.saturating_sub(self.before_ns));
        self.before_ns = self.end_ns;
        if self.round.len() != self.steps.len() {
            return Some(step);
        }
        self.sums.iter_mut().zip(&self.round).for_each(|(sum, ns)| sum.add(*ns));
        let clear = self.steps.iter().position(|step| step.clears).unwrap_or(0);
        self.to_clear.add(self.round[..=clear].iter().sum());
        self.between = Sum(self.between.0 + self.between_ns, self.between.1 + self.gaps);
        self.completions.add(self.between_ns);
        self.whole.add(self.end_ns - self.first_ns);
        self.round.clear();
        None
    }

    fn take(&mut self, event: BusEvent) {
        match event {
            BusEvent::Command { index, arg, start_ns, .. } => self.command(index, arg, start_ns),
            BusEvent::Response { end_ns, .. } | BusEvent::Block { end_ns, .. } => {
                self.end_ns = self.end_ns.max(end_ns);
            }
            BusEvent::Busy { until_ns, .. } => self.end_ns = self.end_ns.max(until_ns),
            BusEvent::Interrupt { .. } => {}
        }
    }
}

/// Listens to the events on the bus, and measures the steps of each packet.
pub struct Rounds {
    log: Rc<RefCell<Log>>,
}

impl Rounds {
    /// Starts to record the bus events of the controller `model`, and returns the recorder, which
    /// measures the steps of `load` in them.
    pub fn start(load: &Load, model: &Model) -> Self {
        let expected = |step: &super::load::Step| Expected {
            index: if step.bytes.is_some() { 53 } else { 52 },
            place: u32::from(step.write) << 31
                | u32::from(step.function) << 28
                | if step.increments { 0 } else { step.address << 9 },
            increments: step.increments,
            bytes: step.moved_bytes(),
            clears: step.clears,
        };
        let log = Rc::new(RefCell::new(Log {
            steps: load.steps.iter().map(expected).collect(),
            block_bytes: load.block_bytes.into(),
            sums: vec![Sum::default(); load.steps.len()],
            ..Log::default()
        }));
        let sink = Rc::clone(&log);
        model.set_log(Box::new(move |event| sink.borrow_mut().take(event)));
        Rounds { log }
    }

    /// Returns the mean times of all packets whose steps were completed in order.
    pub fn means(&self) -> Means {
        let log = self.log.borrow();
        Means {
            steps_ns: log.sums.iter().map(|sum| sum.mean()).collect(),
            to_clear_ns: log.to_clear.mean(),
            completion_ns: log.between.mean(),
            completions_ns: log.completions.mean(),
            whole_ns: log.whole.mean(),
        }
    }
}

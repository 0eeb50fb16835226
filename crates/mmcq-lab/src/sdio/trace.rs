//! Finds the steps (commands) of each packet in the events on the bus, and measures their times.
//! The packets are those of the built-in I/O card.

use super::model::Model;
use mmcq_sim::card::io::type_a::register;
use mmcq_sim::stats::BusEvent;
use std::cell::RefCell;
use std::rc::Rc;

/// Number of bus clocks from the end of a command's token to the end of its response: a gap of 8,
/// and 48 for the response.
pub const RESPONSE_CLK: u64 = 8 + 48;

/// Step in the reception of a packet. For each step the driver sends one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// CMD52: the driver reads CCCR INTx, to find the function that interrupts.
    Whose,
    /// CMD52: the driver reads the function's interrupt register.
    Ask,
    /// CMD52: the driver clears the function's interrupt register.
    Clear,
    /// CMD53: the driver reads the packet's length and type.
    Header,
    /// CMD53: the driver reads the packet's data.
    Payload,
    /// CMD52: the driver acknowledges the packet to the function.
    Acknowledge,
}

impl Step {
    /// All steps by which the driver receives a packet (one command each), in their order.
    pub const ALL: [Step; 6] =
        [Step::Whose, Step::Ask, Step::Clear, Step::Header, Step::Payload, Step::Acknowledge];

    /// Returns the name that the tables use for the step.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Whose => "1 whose interrupt",
            Step::Ask => "2 function's register",
            Step::Clear => "3 clear it",
            Step::Header => "4 header",
            Step::Payload => "5 payload",
            Step::Acknowledge => "6 acknowledge",
        }
    }

    /// Returns the step of a packet to which the command CMD`index` with this argument belongs.
    /// `None`: the command is not part of the handling of a packet.
    pub fn of(index: u8, arg: u32) -> Option<Step> {
        let (write, function, address) = (arg >> 31 != 0, arg >> 28 & 7, arg >> 9 & 0x1_ffff);
        match (index, write, function, address) {
            (52, false, 0, 0x05) => Some(Step::Whose),
            (52, false, 1, register::INTRD) => Some(Step::Ask),
            (52, true, 1, register::INTRD) => Some(Step::Clear),
            (52, true, 1, register::PC_RRT) => Some(Step::Acknowledge),
            (53, false, 1, register::DATA) if arg >> 27 & 1 == 0 => Some(Step::Header),
            (53, false, 1, register::DATA) => Some(Step::Payload),
            _ => None,
        }
    }
}

/// Listens to the events on the bus, and measures the steps of each packet.
pub struct Trace {
    log: Rc<RefCell<Log>>,
}

#[derive(Default)]
struct Log {
    step: Option<Step>,
    end_ns: u64,
    before_ns: Option<u64>,
    /// For each step in the order of [`Step::ALL`]: the sum in ns of its times, and their number.
    sums: [(u64, u64); 6],
    /// Sum in ns of the times between two commands of a packet, and the number of these times.
    between: (u64, u64),
}

impl Log {
    fn take(&mut self, event: BusEvent) {
        match event {
            BusEvent::Command { index, arg, start_ns, .. } => {
                self.close();
                self.step = Step::of(index, arg);
                if let Some(before_ns) = self.before_ns {
                    self.between.0 += start_ns.saturating_sub(before_ns);
                    self.between.1 += 1;
                }
            }
            BusEvent::Response { end_ns, .. } | BusEvent::Block { end_ns, .. } => {
                self.end_ns = self.end_ns.max(end_ns);
            }
            BusEvent::Busy { .. } | BusEvent::Interrupt { .. } => {}
        }
    }

    /// Ends the measurement of the step whose command was on the bus, and adds the step's time to
    /// its sum.
    fn close(&mut self) {
        let Some(step) = self.step.take() else { return };
        if let Some(before_ns) = self.before_ns {
            let (sum, count) = &mut self.sums[step as usize];
            *sum += self.end_ns - before_ns;
            *count += 1;
        }
        // The next packet's interrupt may come at any time, so nothing is measured from the last
        // step on.
        self.before_ns = (step != Step::Acknowledge).then_some(self.end_ns);
    }
}

impl Trace {
    /// Begins to record the events on the bus of the controller `model`.
    pub fn start(model: &Model) -> Self {
        let log = Rc::new(RefCell::new(Log::default()));
        let sink = Rc::clone(&log);
        model.set_log(Box::new(move |event| sink.borrow_mut().take(event)));
        Trace { log }
    }

    /// Returns the mean time in ns from the end of a command, or of its data, to the start of the
    /// packet's next command.
    pub fn completion_ns(&self) -> f64 {
        let (sum, count) = self.log.borrow().between;
        sum as f64 / count.max(1) as f64
    }

    /// Returns, for each step, the mean time in ns from the end of the step before to the end of
    /// this step. The first step is left out if its start, the card's interrupt, is not on the bus.
    pub fn steps(&self) -> Vec<(Step, f64)> {
        let log = self.log.borrow();
        let means = Step::ALL.into_iter().zip(log.sums);
        means.filter(|(_, (_, n))| *n > 0).map(|(step, (sum, n))| (step, sum as f64 / n as f64)).collect()
    }
}

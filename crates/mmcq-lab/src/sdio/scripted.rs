//! Model of an SDIO function that a user describes in a load file. Packets arrive in the function
//! at a steady rate. For each packet the file lists the steps: accesses (CMD52 or CMD53) that the
//! host's driver must make. A packet is done when the driver has made all its steps in order.

use super::load::{FUNCTION, Load, Step};
use mmcq_sim::card::io::function::Function;
use mmcq_sim::card::io::type_a::{Counts, Handle};
use std::cell::RefCell;
use std::rc::Rc;

/// Model of an SDIO function that a user describes in a load file; it handles the host's accesses
/// to this function.
pub struct Scripted {
    /// Accesses to this function that the driver must make for each packet, in order; accesses to
    /// function 0 are left out.
    steps: Vec<Step>,
    period_ns: u64,
    access_ns: u64,
    buffer_packets: usize,
    counts: Handle,
    waiting: usize,
    next_ns: u64,
    /// Time in ns at which the function asserted its interrupt; `None`: not asserted.
    up_ns: Option<u64>,
    /// Index in `steps` of the access that the driver makes now for the packet.
    at: usize,
    /// Number of bytes of the step at index `at` that the driver has transferred so far.
    passed: u32,
}

impl Scripted {
    /// Makes the function of this load in its state after power-up.
    pub fn new(load: &Load) -> Self {
        let steps = load.steps.iter().filter(|step| step.function == FUNCTION);
        Scripted {
            steps: steps.cloned().collect(),
            period_ns: load.period_ns,
            access_ns: load.access_ns,
            buffer_packets: load.buffer_packets,
            counts: Rc::new(RefCell::new(Counts::default())),
            waiting: 0,
            next_ns: load.period_ns,
            up_ns: None,
            at: 0,
            passed: 0,
        }
    }

    /// Returns the function's counters. An access that is no step of a packet is counted as stray.
    pub fn counts(&self) -> Handle {
        Rc::clone(&self.counts)
    }

    /// Adds to the card's buffer all packets that have arrived by the time `now_ns`.
    fn settle(&mut self, now_ns: u64) {
        while self.next_ns <= now_ns {
            let mut counts = self.counts.borrow_mut();
            counts.offered += 1;
            if self.waiting < self.buffer_packets {
                if self.waiting == 0 {
                    self.up_ns.get_or_insert(self.next_ns);
                }
                self.waiting += 1;
            } else {
                counts.overrun += 1;
            }
            self.next_ns += self.period_ns.max(1);
        }
    }

    /// Handles one byte that the host writes to the register at `address` (`write`), or reads from
    /// it: checks that it belongs to the next step of the script.
    fn pass(&mut self, write: bool, address: u32, now_ns: u64) {
        // A poll while no packet waits is not a step.
        if self.waiting == 0 {
            return;
        }
        let Some(step) = self.steps.get(self.at) else { return };
        let expected = if step.increments { step.address + self.passed } else { step.address };
        if (step.write, expected) != (write, address) {
            self.counts.borrow_mut().stray += 1;
            return;
        }
        self.passed += 1;
        if self.passed < step.moved_bytes() {
            return;
        }
        if step.clears
            && let Some(up_ns) = self.up_ns.take()
        {
            self.counts.borrow_mut().latency_ns.push(now_ns - up_ns);
        }
        (self.at, self.passed) = (self.at + 1, 0);
        if self.at == self.steps.len() {
            self.at = 0;
            self.waiting -= 1;
            self.counts.borrow_mut().delivered += 1;
            if self.waiting > 0 {
                self.up_ns.get_or_insert(now_ns);
            }
        }
    }
}

impl Function for Scripted {
    /// Reads a byte from the register at `address` for the host: 1 if a packet waits in the card,
    /// otherwise 0.
    fn read(&mut self, address: u32, now_ns: u64) -> u8 {
        self.settle(now_ns);
        let waits = self.waiting > 0;
        self.pass(false, address, now_ns);
        waits.into()
    }

    fn write(&mut self, address: u32, _value: u8, now_ns: u64) {
        self.settle(now_ns);
        self.pass(true, address, now_ns);
    }

    fn access_ns(&self) -> u64 {
        self.access_ns
    }

    fn interrupt(&self, now_ns: u64) -> bool {
        self.up_ns.is_some() || (self.waiting == 0 && self.next_ns <= now_ns)
    }

    fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        let down = self.up_ns.is_none() && self.waiting == 0;
        Some(self.next_ns).filter(|&at_ns| down && at_ns > now_ns)
    }

    fn reset(&mut self, now_ns: u64) {
        self.settle(now_ns);
        (self.waiting, self.up_ns, self.at, self.passed) = (0, None, 0, 0);
        self.next_ns = now_ns + self.period_ns;
    }
}

//! The ways to wait for a CMD52: in a loop, by the interrupt, in a thread; and the policy that chooses.

use super::host::Priced;
use super::machine::{Handler, Machine};
use super::platform::{Board, Costs};
use super::policy::{Class, Learned};
use super::{Bench, Failure, buffer};
use mmcq::card::{self, Options};
use mmcq::host::s3c_sdi::DmaUse;
use mmcq::host::{Auto, Host, Phase};
use mmcq::spec::command::sdio as cmd;

/// Who waits, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In a loop, in the interrupt or wherever.
    Spin,
    /// The interrupt sends the next command.
    Interrupt,
    /// A thread sleeps, is woken, and sends the next.
    Thread,
    /// In the interrupt: spins or leaves, as learned.
    PolicyInterrupt,
    /// In a thread: spins or sleeps, as learned.
    PolicyThread,
}

impl Wait {
    /// All, in the order of the tables.
    pub const ALL: [Wait; 5] =
        [Wait::Spin, Wait::Interrupt, Wait::Thread, Wait::PolicyInterrupt, Wait::PolicyThread];

    /// As the tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Spin => "spin",
            Wait::Interrupt => "leave",
            Wait::Thread => "sleep",
            Wait::PolicyInterrupt => "policy or leave",
            Wait::PolicyThread => "policy or sleep",
        }
    }

    fn in_thread(self) -> bool {
        matches!(self, Wait::Thread | Wait::PolicyThread)
    }
}

/// Between two looks of whoever spins.
const LOOK_NS: u64 = 250;
/// What is measured.
const FOR_NS: u64 = 100_000_000;

/// One CMD52 after the other.
struct Repeat {
    host: Priced,
    wait: Wait,
    price_ns: u64,
    learned: Learned,
    since_ns: u64,
    done: u64,
    failures: u64,
}

impl Repeat {
    fn send(&mut self, m: &Machine) {
        let command = cmd::io_read(0, 0);
        let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
        self.failures += u64::from(self.host.start(&phase, &[], 0).is_err());
        self.since_ns = m.time.now();
    }

    fn stays(&self) -> bool {
        match self.wait {
            Wait::Spin => true,
            Wait::Interrupt | Wait::Thread => false,
            Wait::PolicyInterrupt | Wait::PolicyThread => self.learned.stays(Class::Command, self.price_ns),
        }
    }

    /// The command is over, known `late_ns` after it was.
    fn take(&mut self, m: &Machine, late_ns: u64) -> bool {
        self.learned.saw(Class::Command, m.time.now().saturating_sub(self.since_ns + late_ns));
        match self.host.ack(&[]).phase {
            Some(result) => {
                self.failures += u64::from(result.is_err());
                self.done += 1;
                true
            }
            None => false,
        }
    }

    /// Sends, and waits here as long as that is the way; at most `END` commands, so that others get a turn.
    fn go_on(&mut self, m: &Machine) {
        const END: u32 = 100;
        self.send(m);
        for _ in 0..END {
            if !self.stays() {
                return;
            }
            let patience_ns = match self.wait {
                Wait::Spin => 1_000_000,
                _ => Learned::patience_ns(self.price_ns),
            };
            if !m.spin(patience_ns, LOOK_NS) || !self.take(m, 0) {
                return;
            }
            self.send(m);
        }
    }
}

impl Handler for Repeat {
    fn irq(&mut self, m: &mut Machine) {
        let entry_ns = self.host.costs().irq_in_ns;
        if !self.take(m, entry_ns) {
            return;
        }
        if self.wait.in_thread() { m.wake() } else { self.go_on(m) }
    }

    fn tasklet(&mut self, _: &mut Machine) {}

    fn thread(&mut self, m: &mut Machine) {
        self.go_on(m);
    }
}

/// CPU time of a CMD52 in nanoseconds, without building and ending it, which all ways pay alike.
pub fn price_ns(board: &Board, costs: Costs, clock_hz: u32, wait: Wait) -> Result<f64, Failure> {
    let board = Board { clock_hz, ..board.clone() };
    let bench = Bench::new(&board, DmaUse::Never, false)?;
    let brought =
        bench.drive(async { card::bring_up_io(&bench.stack, buffer(512), Options::DEFAULT).await.0 })?;
    brought.map_err(Failure::BringUp)?;
    bench.host.set_costs(costs);
    let mut machine = Machine::new(bench.time.clone(), bench.model.clone(), costs, None, 1);
    let price_ns = match wait.in_thread() {
        true => costs.irq_in_ns + costs.wake_ns + costs.switch_out_ns,
        false => costs.irq_in_ns + costs.irq_out_ns,
    };
    let (host, learned) = (bench.host.clone(), Learned::default());
    let mut repeat = Repeat { host, wait, price_ns, learned, since_ns: 0, done: 0, failures: 0 };
    repeat.send(&machine);
    machine.run(&mut repeat, FOR_NS / 10);
    let (busy_ns, done) = (machine.busy_ns(), repeat.done);
    machine.run(&mut repeat, FOR_NS);
    if repeat.failures > 0 {
        return Err(Failure::Commands(repeat.failures));
    }
    let each_ns = (machine.busy_ns() - busy_ns) as f64 / (repeat.done - done).max(1) as f64;
    Ok(each_ns - (costs.issue_ns + costs.finalize_ns) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdio::platform::NAME;

    #[test]
    fn the_policy_is_never_much_worse_than_the_best() {
        let board = Board::load(NAME).unwrap();
        for costs in [board.cost, board.fast] {
            for clock_hz in [400_000, 10_000_000, 25_000_000, 50_000_000] {
                let price = |wait| price_ns(&board, costs, clock_hz, wait).unwrap();
                let [spin, interrupt, thread, in_interrupt, in_thread] = Wait::ALL.map(price);
                let all_ns = (costs.issue_ns + costs.finalize_ns) as f64;
                let worse = |chosen: f64, best: f64| (chosen + all_ns) / (best + all_ns);
                println!("{clock_hz}: {spin} {interrupt} {thread} {in_interrupt} {in_thread}");
                assert!(worse(in_interrupt, spin.min(interrupt)) <= 1.05, "{clock_hz}");
                assert!(worse(in_thread, spin.min(thread)) <= 1.05, "{clock_hz}");
            }
        }
    }
}

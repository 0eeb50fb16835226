//! Compares the ways to wait for the end of a CMD52: to poll in a loop, to wait for the interrupt,
//! to sleep until a thread has handled the interrupt, and the policy ([`mmcq::advance`]) that chooses
//! among these.

use super::host::Priced;
use super::machine::{Handler, Machine};
use super::platform::{Board, Costs};
use super::{Bench, Failure, buffer};
use mmcq::advance::{Advice, Context, Wait as Awaited, WaitStrategy};
use mmcq::card::{self, Options};
use mmcq::host::s3c_sdi::DmaUse;
use mmcq::host::{Auto, Host, Phase};
use mmcq::spec::command::sdio as cmd;

/// Way in which a CPU waits for the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The CPU polls in a loop, in the interrupt or in any other context.
    Spin,
    /// The interrupt handler sends the next command.
    Interrupt,
    /// A thread sleeps, is woken by the interrupt, and sends the next command.
    Thread,
    /// In the interrupt handler, the policy decides from the times that it has measured whether to
    /// spin or to return from the handler.
    PolicyInterrupt,
    /// In a thread, the policy decides from the times that it has measured whether to spin or to
    /// sleep.
    PolicyThread,
}

impl Wait {
    /// All ways to wait, in the order in which the tables of results list them.
    pub const ALL: [Wait; 5] =
        [Wait::Spin, Wait::Interrupt, Wait::Thread, Wait::PolicyInterrupt, Wait::PolicyThread];

    /// Returns the name that the tables use for this way to wait.
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

/// Length in ns of virtual time of a measurement of repeated CMD52s, after a warm-up of a tenth of
/// it.
const FOR_NS: u64 = 100_000_000;
/// Length of a CMD52 with its response, in bus clocks.
pub const COMMAND_CLK: u64 = 104;
/// Longest time in ns for which a caller that always polls (no policy decides how long) waits for
/// the end of a command; no command takes so long.
const FOREVER_NS: u64 = 1_000_000;
/// Number of commands after which a thread that spins lets other threads run.
const TURN: u32 = 100;

/// User of the driver that sends CMD52 again and again, one after the other.
struct Repeat {
    host: Priced,
    wait: Wait,
    advance: WaitStrategy,
    since_ns: u64,
    done: u64,
    failures: u64,
}

impl Repeat {
    fn phase() -> Phase {
        Phase { command: cmd::io_read(0, 0), data: None, auto: Auto::None, tuning: false }
    }

    fn send(&mut self, m: &Machine) {
        self.failures += u64::from(self.host.start(&Self::phase(), &[], 0).is_err());
        self.since_ns = m.time.now();
    }

    fn chooses(&self, spent_ns: u64) -> Advice {
        let from = if self.wait.in_thread() { Context::Thread } else { Context::Interrupt };
        match self.wait {
            Wait::Spin => Advice::Spin { at_most_ns: FOREVER_NS },
            Wait::Interrupt | Wait::Thread => Advice::Leave(Context::Interrupt),
            Wait::PolicyInterrupt | Wait::PolicyThread => {
                self.advance.choose(&Awaited::of(&Self::phase()), from, spent_ns)
            }
        }
    }

    /// Records the end of the command on the bus. `late_ns`: time in ns from this end until the CPU
    /// began to handle it. Returns whether a command had ended.
    fn take(&mut self, m: &Machine, late_ns: u64) -> bool {
        let took_ns = m.time.now().saturating_sub(self.since_ns + late_ns);
        self.advance.saw(&Awaited::of(&Self::phase()), took_ns);
        match self.host.ack(&[]).phase {
            Some(result) => {
                self.failures += u64::from(result.is_err());
                self.done += 1;
                true
            }
            None => false,
        }
    }

    /// Sends commands, and waits in this call as long as the [`Wait`] allows. In a thread: after
    /// [`TURN`] commands lets other threads run, with no command on the bus, and is called again.
    /// In an interrupt handler: leaves with a command on the bus, whose end calls this function
    /// again.
    fn go_on(&mut self, m: &mut Machine) {
        let called_ns = m.time.now();
        for _ in 0..TURN {
            self.send(m);
            let Advice::Spin { at_most_ns } = self.chooses(m.time.now() - called_ns) else { return };
            if !m.spin(at_most_ns, self.advance.costs().look_ns.into()) {
                return self.advance.gave_up(&Awaited::of(&Self::phase()), at_most_ns);
            }
            if !self.take(m, 0) {
                return;
            }
        }
        if self.wait.in_thread() { m.yield_now() } else { self.send(m) }
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

/// Returns the CPU time in ns of waiting for a CMD52. Building the command and ending it cost the
/// same in all ways and are left out. The card needs eight clocks between a response and the next
/// command [SD 4.12]. If the CPU builds the command faster, it also spins for the rest of these
/// clocks. `wait` is the way of waiting, and `clock_hz` the bus clock in hertz.
pub fn price_ns(board: &Board, costs: Costs, clock_hz: u32, wait: Wait) -> Result<f64, Failure> {
    let board = Board { clock_hz, ..board.clone() };
    let bench = Bench::new(&board, DmaUse::Never, false)?;
    let brought =
        bench.drive(async { card::bring_up_io(&bench.stack, buffer(512), Options::DEFAULT).await.0 })?;
    brought.map_err(Failure::BringUp)?;
    bench.host.set_costs(costs);
    let mut machine = Machine::new(bench.time.clone(), bench.model.clone(), costs, None, 1);
    let advance = WaitStrategy::new(costs.advance());
    advance.set_bus(bench.stack.with(|engine| engine.bus()));
    let mut repeat = Repeat { host: bench.host.clone(), wait, advance, since_ns: 0, done: 0, failures: 0 };
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

/// Returns the bus clock in Hz for this divider, rounded up so that the driver computes the same
/// divider.
pub fn clock_hz(board: &Board, divider: u32) -> u32 {
    board.pclk_hz.div_ceil(divider)
}

/// Returns the smallest divider of the bus clock at which spinning until the end of a CMD52 costs
/// more CPU time than leaving the interrupt handler and coming back. With `in_thread`, the
/// alternative is to let the thread sleep. Both times are measured in the model.
pub fn crossover(board: &Board, costs: Costs, in_thread: bool) -> Result<u32, Failure> {
    let other = if in_thread { Wait::Thread } else { Wait::Interrupt };
    let (mut spins, mut leaves) = (1, 125);
    while leaves - spins > 1 {
        let divider = (spins + leaves) / 2;
        let price = |wait| price_ns(board, costs, clock_hz(board, divider), wait);
        if price(Wait::Spin)? <= price(other)? { spins = divider } else { leaves = divider }
    }
    Ok(leaves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdio::platform::NAME;

    /// Checks that the policy's choice (to spin, or to leave the CPU to other threads) costs at
    /// most 5 % more than the better one. The bus clocks are those around the break-even divider,
    /// where a wrong choice is most likely.
    #[test]
    fn the_policy_is_never_much_worse_than_the_best() {
        let board = Board::load(NAME).unwrap();
        for costs in [board.cost, board.fast.unwrap()] {
            for (in_thread, other, policy) in
                [(false, Wait::Interrupt, Wait::PolicyInterrupt), (true, Wait::Thread, Wait::PolicyThread)]
            {
                let leaves = crossover(&board, costs, in_thread).unwrap();
                for divider in leaves.saturating_sub(2).max(1)..leaves + 2 {
                    let price = |wait| price_ns(&board, costs, clock_hz(&board, divider), wait).unwrap();
                    let (best, chosen) = (price(Wait::Spin).min(price(other)), price(policy));
                    assert!(
                        chosen <= 1.05 * best,
                        "{policy:?} of {costs:?} at 1/{divider}: {chosen}, {best}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_crossover_is_where_a_command_takes_as_long_as_leaving() {
        let board = Board::load(NAME).unwrap();
        // 104 clocks take as long as leaving (11 us) at 9.45 MHz, and as long as sleeping (81 us)
        // at 1.28 MHz.
        assert_eq!(crossover(&board, board.cost, false).unwrap(), 6);
        assert_eq!(crossover(&board, board.cost, true).unwrap(), 40);
    }
}

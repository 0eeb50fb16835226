//! Decides whether code that waits for the controller spins, or leaves and is called again later.
//!
//! A platform keeps one [`WaitStrategy`] for each board, in a `static` if it likes.
//! - Input: what leaving costs on this board ([`Costs`]), or samples of it from code that slept
//!   ([`WaitStrategy::slept`]).
//! - Prediction: the length of each phase (a command with its data and busy). It follows from the
//!   number of bytes, the bus's clock and width, and the card's delay. That delay is learned for
//!   each [`Class`] of waits ([`WaitStrategy::saw`]).
//! - Answer of [`WaitStrategy::choose`]: spin for some time, or leave; in that case also which
//!   context (hard interrupt, deferred interrupt or thread) calls the engine next.
//!
//! This code has no clock and no lock, and uses integers only. If two cores update it at the same
//! time, one update may be lost; the next phase makes up for that.
//! [`Stack::request_with`](crate::task::Stack::request_with) uses this code.
//!
//! The rule compares with the CPU time of leaving and coming back. Spin if the phase is expected to
//! take at most this time, and give up after twice this time. A wrong guess therefore costs at most
//! three times the CPU time of leaving at once. A spin that did not see the end raises the next
//! expectation.

use crate::host::{Data, Direction, Phase, Width};
pub use crate::spec::bus::Bus;
use crate::spec::command::Resp;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// The context in which code waits for the controller, or continues after the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Code runs in the hard interrupt.
    Interrupt,
    /// Code runs in the deferred interrupt: tasklet, soft interrupt, PendSV.
    Deferred,
    /// Code runs in a thread.
    Thread,
}

/// Costs of a board's CPU and software, in nanoseconds of CPU time.
///
/// In `interrupt_ns`, `deferred_ns` and `thread_ns` a 0 means "not known": no code spins in that
/// context before [`WaitStrategy::slept`] has measured the cost. In every other field a 0 counts as
/// zero nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Costs {
    /// Time in ns that the CPU spends to leave a hard interrupt, and to enter the next one up to
    /// its call of the engine.
    pub interrupt_ns: u32,
    /// Time in ns that the CPU spends if code leaves a deferred interrupt (softirq): the way out,
    /// the next hard interrupt, and the next deferred interrupt.
    pub deferred_ns: u32,
    /// Cost of a thread's sleep: the thread goes to sleep, the interrupt comes, and the thread runs
    /// again.
    pub thread_ns: u32,
    /// Least time in ns of one poll of the controller.
    pub look_ns: u32,
    /// CPU time in nanoseconds for a transfer of 1024 bytes through the FIFO by the CPU.
    pub pio_kib_ns: u32,
    /// Fixed additional cost of a transfer by DMA, in ns: descriptors, one more interrupt.
    pub dma_ns: u32,
    /// CPU time in ns for the cache maintenance before and after DMA of 1024 bytes.
    pub dma_kib_ns: u32,
    /// Longest time in ns in the hard interrupt, spinning included; other devices wait that long.
    pub interrupt_max_ns: u32,
    /// Longest time in ns for which code may stay in the deferred interrupt, spinning included.
    pub deferred_max_ns: u32,
}

setters!(Costs {
    interrupt_ns: u32,
    deferred_ns: u32,
    thread_ns: u32,
    look_ns: u32,
    pio_kib_ns: u32,
    dma_ns: u32,
    dma_kib_ns: u32,
    interrupt_max_ns: u32,
    deferred_max_ns: u32,
});

impl Costs {
    /// Costs of which none is known, and no limits; a board sets the costs that it knows.
    pub const UNKNOWN: Costs = Costs {
        interrupt_ns: 0,
        deferred_ns: 0,
        thread_ns: 0,
        look_ns: 0,
        pio_kib_ns: 0,
        dma_ns: 0,
        dma_kib_ns: 0,
        interrupt_max_ns: u32::MAX,
        deferred_max_ns: u32::MAX,
    };

    /// Returns the least number of bytes for which DMA costs the CPU less than copying, if any.
    ///
    /// ```
    /// use mmcq::advance::Costs;
    /// let costs = Costs::UNKNOWN.pio_kib_ns(56_320).dma_ns(6_000);
    /// assert_eq!(costs.dma_from_bytes(), Some(110));
    /// ```
    pub const fn dma_from_bytes(&self) -> Option<u32> {
        if self.pio_kib_ns <= self.dma_kib_ns {
            return None;
        }
        let saved_kib_ns = (self.pio_kib_ns - self.dma_kib_ns) as u64;
        let bytes = (self.dma_ns as u64 * 1024).div_ceil(saved_kib_ns);
        if bytes > u32::MAX as u64 { None } else { Some(bytes as u32) }
    }

    const fn price_ns(&self, from: Context) -> u32 {
        match from {
            Context::Interrupt => self.interrupt_ns,
            Context::Deferred => self.deferred_ns,
            Context::Thread => self.thread_ns,
        }
    }

    /// Returns the CPU time in ns that the caller needs after a wait: to copy the data itself, or
    /// for the cache maintenance after DMA.
    fn end_ns(&self, wait: &Wait) -> u64 {
        let bytes = u64::from(wait.bytes);
        let by_dma =
            wait.class != Class::Fifo && self.dma_from_bytes().is_some_and(|from| wait.bytes >= from);
        match by_dma {
            true => u64::from(self.dma_ns) + bytes * u64::from(self.dma_kib_ns) / 1024,
            false => bytes * u64::from(self.pio_kib_ns) / 1024,
        }
    }
}

/// Classes of waits. Each wait takes the time of its bits on the wire, plus a delay. The delays of
/// all waits of one class are about the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A command without data or busy: CMD13, CMD52.
    Command,
    /// A command with busy: CMD12, CMD6 of eMMC.
    Busy,
    /// A command with data from the card.
    Read,
    /// Data to the card, and its busy.
    Write,
    /// The wait from one service of a controller's FIFO to the next.
    Fifo,
}

impl Class {
    const COUNT: usize = 5;
}

/// A wait for the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Kind of the event for which the engine waits, such as a command or data from the card.
    pub class: Class,
    /// Bits of the response; 0: there is none.
    pub response_bits: u8,
    /// Bytes of data that are transferred before the event for which the code waits.
    pub bytes: u32,
    /// Number of data blocks that end before the wait ends.
    pub blocks: u32,
}

impl Wait {
    /// Describes the wait for the end of this phase (a command with its data) by what its length
    /// depends on: the bits of the command, and the data's direction and size.
    pub const fn of(phase: &Phase) -> Wait {
        let response_bits = match phase.command.resp {
            Resp::None => 0,
            Resp::R2 => 136,
            _ => 48,
        };
        let (class, bytes, blocks) = match phase.data {
            Some(Data { direction, block_size, blocks }) => {
                let bytes = (block_size as u32).saturating_mul(blocks);
                let class = match direction {
                    Direction::Read => Class::Read,
                    Direction::Write => Class::Write,
                };
                (class, bytes, blocks)
            }
            None if matches!(phase.command.resp, Resp::R1b) => (Class::Busy, 0, 0),
            None => (Class::Command, 0, 0),
        };
        Wait { class, response_bits, bytes, blocks }
    }

    /// Returns the wait until the CPU must first serve the FIFO, in a phase whose data the CPU
    /// copies. It ends after this many bytes of data, or at the phase's end if that comes first.
    pub const fn first(phase: &Phase, bytes: u32) -> Wait {
        let wait = Wait::of(phase);
        if wait.bytes <= bytes { wait } else { Wait { bytes, blocks: 0, ..wait } }
    }

    /// Describes the wait until the FIFO must be served again, which is when `bytes` bytes have
    /// passed on the bus.
    pub const fn fifo(bytes: u32) -> Wait {
        Wait { class: Class::Fifo, response_bits: 0, bytes, blocks: 0 }
    }

    /// Returns how many bus clocks the waited-for command, data and response take, with the
    /// shortest usual delays of a card [SD 4.12].
    fn clocks(&self, bus: Bus) -> u64 {
        /// Length of a command's token, in bits.
        const TOKEN: u64 = 48;
        /// Usual gap on the bus, in clocks. It stands for two gaps: from a command to its response
        /// (N_CR, 2 to 64), or from a command to the first data (N_AC, 8 or more).
        const GAP: u64 = 8;
        /// Number of clocks for start bit, CRC16 and end bit of a block, and for the gap to the
        /// next block.
        const AROUND: u64 = 18 + 8;
        let lines = match bus.width {
            Width::W1 => 1,
            Width::W4 => 4,
            Width::W8 => 8,
        };
        let bits = u64::from(self.bytes) * 8 / if bus.ddr { 2 * lines } else { lines };
        let data = bits + u64::from(self.blocks) * AROUND;
        let answered = match self.response_bits {
            0 => TOKEN,
            bits => TOKEN + GAP + u64::from(bits),
        };
        match self.class {
            Class::Command | Class::Busy => answered,
            // The card may begin its data before its response.
            Class::Read => answered.max(TOKEN + GAP + data),
            Class::Write => answered + data,
            Class::Fifo => bits,
        }
    }
}

/// Advice to code that waits for the controller: spin, or leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Poll the controller again and again, and leave after this time at the latest.
    Spin {
        /// Longest time in ns for which the caller spins.
        at_most_ns: u64,
    },
    /// Return, or go to sleep. When the command has ended, this context calls the engine.
    Leave(Context),
}

/// Weight of a new sample in the running mean: it counts one part in `1 << SHIFT`.
const SHIFT: u32 = 3;
/// The value of a delay that has not been measured.
const UNKNOWN: i32 = i32::MIN;

/// Decides for a board whether code that waits for the controller spins, or leaves and is called
/// again. Learns how long the waits take. The documentation of this module has the rule.
#[derive(Debug)]
pub struct WaitStrategy {
    costs: Costs,
    /// Measured CPU costs in ns of leaving a [`Context`] (interrupt, deferred interrupt or thread)
    /// and being called again: one for each context. Used where the platform does not give the
    /// cost; 0: not measured yet.
    prices_ns: [AtomicU32; 3],
    /// For each class of phases (such as commands, reads, writes): the mean time in ns that a phase
    /// takes more (or less) than its bits on the wire.
    delays_ns: [AtomicI32; Class::COUNT],
    clock_hz: AtomicU32,
    /// Width and data rate of the bus as one number: log2 of the number of data lines, plus 8 for
    /// data on both edges.
    lines: AtomicU32,
    listen: fn(bool),
}

impl WaitStrategy {
    /// Makes the policy of a board with these costs, for a stopped bus: no code spins before
    /// [`set_bus`](Self::set_bus). A command without data is expected to take only the time of its
    /// bits. The time of data and busy depends on the card, so code does not spin for them before
    /// one has been measured.
    pub const fn new(costs: Costs) -> Self {
        WaitStrategy {
            costs,
            prices_ns: [AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)],
            delays_ns: [
                AtomicI32::new(0),
                AtomicI32::new(UNKNOWN),
                AtomicI32::new(UNKNOWN),
                AtomicI32::new(UNKNOWN),
                AtomicI32::new(0),
            ],
            clock_hz: AtomicU32::new(0),
            lines: AtomicU32::new(0),
            listen: |_| {},
        }
    }

    /// Sets the function by which the platform enables (true) and disables (false) the controller's
    /// interrupt. A thread calls `listen(false)` before it spins and `listen(true)` afterwards, so
    /// that no interrupt comes for an event that the thread itself sees. If several threads spin,
    /// the pairs of calls may nest: enable the interrupt at the last `listen(true)`.
    pub const fn listening_by(mut self, listen: fn(bool)) -> Self {
        self.listen = listen;
        self
    }

    /// Enables (`on`) or disables the controller's interrupt, by the function of
    /// [`listening_by`](Self::listening_by).
    pub fn listen(&self, on: bool) {
        (self.listen)(on);
    }

    /// Returns the costs of the board's interrupts, threads and polls, as CPU time.
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Sets the bus settings (width, clock, double data rate), for the estimate of the transfer
    /// times. The delays of the card that were measured before stay valid.
    pub fn set_bus(&self, bus: Bus) {
        let lines = match bus.width {
            Width::W1 => 0,
            Width::W4 => 2,
            Width::W8 => 3,
        };
        self.lines.store(lines | if bus.ddr { 8 } else { 0 }, Relaxed);
        self.clock_hz.store(bus.clock_hz, Relaxed);
    }

    /// Returns the settings of the bus.
    pub fn bus(&self) -> Bus {
        let lines = self.lines.load(Relaxed);
        let width = match lines & 3 {
            0 => Width::W1,
            3 => Width::W8,
            _ => Width::W4,
        };
        Bus { clock_hz: self.clock_hz.load(Relaxed), width, ddr: lines & 8 != 0 }
    }

    /// Returns how long the wait is expected to take from its beginning. `None`: the clock is
    /// stopped, or no wait of its class was measured yet. The classes [`Command`](Class::Command)
    /// and [`Fifo`](Class::Fifo) need no measurement.
    pub fn expected_ns(&self, wait: &Wait) -> Option<u64> {
        let wire_ns = self.wire_ns(wait)?;
        let delay_ns = self.delays_ns.get(wait.class as usize)?.load(Relaxed);
        (delay_ns != UNKNOWN).then(|| wire_ns.saturating_add_signed(i64::from(delay_ns)))
    }

    fn wire_ns(&self, wait: &Wait) -> Option<u64> {
        let bus = self.bus();
        wait.clocks(bus).saturating_mul(1_000_000_000).checked_div(u64::from(bus.clock_hz))
    }

    /// Returns the CPU cost in ns of leaving this context (interrupt or thread) and coming back;
    /// `None`: not known yet.
    pub fn price_ns(&self, from: Context) -> Option<u64> {
        let told_ns = self.costs.price_ns(from);
        let price_ns = match told_ns {
            0 => self.prices_ns.get(from as usize)?.load(Relaxed),
            _ => told_ns,
        };
        (price_ns > 0).then_some(u64::from(price_ns))
    }

    /// Returns the advice to code in this context: spin until the wait is over, or leave.
    /// `spent_ns`: how long this code has already run since it was called or woken.
    pub fn choose(&self, wait: &Wait, from: Context, spent_ns: u64) -> Advice {
        let left_ns = self.longest_ns(from).saturating_sub(spent_ns);
        match (self.expected_ns(wait), self.price_ns(from)) {
            (Some(expected_ns), Some(price_ns)) if expected_ns <= price_ns.min(left_ns) => {
                Advice::Spin { at_most_ns: price_ns.saturating_mul(2).min(left_ns) }
            }
            _ => Advice::Leave(self.advanced_by(wait)),
        }
    }

    fn longest_ns(&self, context: Context) -> u64 {
        match context {
            Context::Interrupt => self.costs.interrupt_max_ns.into(),
            Context::Deferred => self.costs.deferred_max_ns.into(),
            Context::Thread => u64::MAX,
        }
    }

    /// Returns which context advances the stack at the end of a wait for which no code spins. The
    /// result is the first context, in the order hard interrupt, deferred interrupt, thread, that
    /// has time for the work at that end: words through the FIFO, or cache maintenance.
    pub fn advanced_by(&self, wait: &Wait) -> Context {
        let work_ns = self.costs.end_ns(wait);
        let may = |context: &Context| work_ns <= self.longest_ns(*context);
        [Context::Interrupt, Context::Deferred].into_iter().find(may).unwrap_or(Context::Thread)
    }

    /// Learns how long the controller and the card take for commands or data of the kind of `wait`.
    /// This one took `took_ns`, in ns, from its begin to its end. The caller must have seen both.
    pub fn saw(&self, wait: &Wait, took_ns: u64) {
        let (Some(wire_ns), Some(known)) = (self.wire_ns(wait), self.delays_ns.get(wait.class as usize))
        else {
            return;
        };
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let delay_ns = signed(took_ns).saturating_sub(signed(wire_ns));
        let before = known.load(Relaxed);
        let after = match before {
            UNKNOWN => delay_ns,
            _ => {
                // Rounded away from zero, so that the stored delay reaches the measured one.
                let step = delay_ns.saturating_sub(i64::from(before));
                i64::from(before) + step / (1 << SHIFT) + step.signum() * i64::from(step % (1 << SHIFT) != 0)
            }
        };
        known.store(after.clamp(i64::from(UNKNOWN + 1), i64::from(i32::MAX)) as i32, Relaxed);
    }

    /// Learns from a waiter that polled for `waited_ns` and gave up before the event came: such a
    /// wait takes at least this long.
    pub fn gave_up(&self, wait: &Wait, waited_ns: u64) {
        if self.expected_ns(wait).is_none_or(|expected_ns| expected_ns < waited_ns) {
            self.saw(wait, waited_ns);
        }
    }

    /// Updates the learned cost of leaving this context, by a waiter that left it for a wait of
    /// `took_ns` and was back after `away_ns`. The difference is the cost. A sample counts for at
    /// most twice the known cost, because other work may have delayed the waiter. Ignored if the
    /// platform gave the cost.
    pub fn slept(&self, from: Context, away_ns: u64, took_ns: u64) {
        let Some(known) = self.prices_ns.get(from as usize) else { return };
        let late_ns = u32::try_from(away_ns.saturating_sub(took_ns)).unwrap_or(u32::MAX).max(1);
        let before = known.load(Relaxed);
        let after = match before {
            0 => late_ns,
            _ if late_ns > before => before + ((late_ns - before).min(before) >> SHIFT),
            _ => before - (before - late_ns) / 2,
        };
        known.store(after, Relaxed);
    }
}

#[cfg(test)]
mod tests;

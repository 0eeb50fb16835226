//! The parts of a board around a controller: supplies, pins, clocks, PHY.
//!
//! A board implements [`Surroundings`]. Every method has a default that does nothing, so a board
//! implements only what it has. [`Surrounded`] joins it with a driver and is a driver itself: each
//! change of the bus ([`BusOp`]) is carried out by the board and by the driver, in the order that
//! the card needs.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::{
    BusOp, CommandQueueHost, Events, FastEnd, Host, QueueCaps, QueueError, QueueEvents, QueueSettings,
    QueueState, Segment, Step, Task, Timing,
};
use crate::spec::command::Command;

/// Time for which RST_n is held low, in nanoseconds: at least 1 us [eMMC 6.15.10, tRSTW].
const RESET_LOW_NS: u64 = 10_000;
/// Time from the rising edge of RST_n to the first command, in nanoseconds: at least 200 us
/// [eMMC 6.15.10, tRSCA].
const RESET_RECOVERY_NS: u64 = 400_000;
/// Largest number of steps in one change of the bus; a step is a call of the driver, or of one
/// method of the board.
const PARTS_MAX: u8 = 4;

/// Control of a board's parts around its controller. Every default does nothing.
///
/// A method that returns a [`Step`] may need time (a supply's ramp, a PHY's lock): it returns
/// [`Step::Wait`] and is called again with the same arguments and `first` false. No method blocks.
/// [`Step::Failed`] fails the change of the bus.
///
/// # Examples
/// A slot whose supply is switched by a pin and ramps up in 10 ms:
/// ```
/// use mmcq::host::{Step, surroundings::Surroundings};
/// struct Slot { ready_ns: u64 }
/// impl Surroundings for Slot {
///     fn supply(&mut self, on: bool, first: bool, now_ns: u64) -> Step {
///         if first {
///             // Switch the pin here.
///             self.ready_ns = now_ns + if on { 10_000_000 } else { 0 };
///         }
///         if now_ns < self.ready_ns { Step::Wait(self.ready_ns) } else { Step::Done }
///     }
/// }
/// ```
pub trait Surroundings {
    /// Switches the card's supply (VDD of an SD card, VCC of an eMMC). Called before the
    /// controller's own power bit is set, and after that bit is cleared. `first` is false if the
    /// call only repeats one that has returned [`Step::Wait`].
    fn supply(&mut self, on: bool, first: bool, now_ns: u64) -> Step {
        let _ = (on, first, now_ns);
        Step::Done
    }

    /// Switches the supply of the signal lines (VCCQ, the controller's pads) to 1.8 V if `low`,
    /// else to 3.3 V. Called before the controller is switched [SDHC 3.6.1]. `first` is false if
    /// the method is called again because it returned [`Step::Wait`].
    fn signalling(&mut self, low: bool, first: bool, now_ns: u64) -> Step {
        let _ = (low, first, now_ns);
        Step::Done
    }

    /// Drives the card's reset line RST_n: low if `active`, else high. Returns false if the board
    /// has no such line. Called twice after each [`supply`](Self::supply) that switches on: first
    /// with true, then with false. So the card is reset even if the board cannot really switch the
    /// supply [eMMC 6.15.10].
    fn reset_card(&mut self, active: bool) -> bool {
        let _ = active;
        false
    }

    /// Returns whether a card is in the slot, by the board's card-detect line; `None` if the line
    /// is connected to the controller. The board reports a change of the line to
    /// [`Engine::presence_changed`](crate::engine::Engine::presence_changed).
    fn present(&self) -> Option<bool> {
        None
    }

    /// Returns whether the write-protect switch is on; `None` if its line is connected to the
    /// controller.
    fn write_protected(&self) -> Option<bool> {
        None
    }

    /// Sets the pins (drive strength, delays) for a timing, before the controller changes to it.
    /// `first` is false if the call only repeats one that has returned [`Step::Wait`].
    fn pins(&mut self, timing: Timing, first: bool, now_ns: u64) -> Step {
        let _ = (timing, first, now_ns);
        Step::Done
    }

    /// Sets the clock that the controller divides. Called before the controller makes an SD clock
    /// of `hz` hertz, and with 0 after the controller has stopped the SD clock. The controller's
    /// registers must stay readable. `first` is false if the method is called again because it
    /// returned [`Step::Wait`].
    fn clock(&mut self, hz: u32, first: bool, now_ns: u64) -> Step {
        let _ = (hz, first, now_ns);
        Step::Done
    }

    /// Prepares the PHY for a tuning in this timing. `first` is false if the method is called again
    /// because it returned [`Step::Wait`].
    fn before_tuning(&mut self, timing: Timing, first: bool, now_ns: u64) -> Step {
        let _ = (timing, first, now_ns);
        Step::Done
    }

    /// Sets the PHY after a tuning; `found` says whether a sampling point was found. With `found`
    /// true, the method may be called from the interrupt.
    fn after_tuning(&mut self, found: bool) {
        let _ = found;
    }

    /// Sets the PHY after a reset of the whole controller; pins and clock are already set for
    /// `timing`. `first` is false if the method is called again because it returned [`Step::Wait`].
    fn after_reset(&mut self, timing: Timing, first: bool, now_ns: u64) -> Step {
        let _ = (timing, first, now_ns);
        Step::Done
    }
}

/// A board that controls no parts around its controller.
impl Surroundings for () {}

/// One step of a change of the bus: a call of the driver, or of one method of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The driver carries out its part of the bus operation, in the controller's registers.
    Driver,
    Supply(bool),
    Signalling(bool),
    ResetActive,
    ResetOver,
    Pins(Timing),
    Clock(u32),
    BeforeTuning,
    NothingFound,
    AfterReset,
}

/// Returns part `n` of a change of the bus; `None` after the last part.
fn part(op: BusOp, n: u8) -> Option<Part> {
    let parts: [Option<Part>; PARTS_MAX as usize] = match op {
        BusOp::PowerOn => {
            [Some(Part::Supply(true)), Some(Part::Driver), Some(Part::ResetActive), Some(Part::ResetOver)]
        }
        BusOp::PowerOff => [Some(Part::Driver), Some(Part::Supply(false)), None, None],
        BusOp::Signal18(low) => [Some(Part::Signalling(low)), Some(Part::Driver), None, None],
        BusOp::Timing(timing) => [Some(Part::Pins(timing)), Some(Part::Driver), None, None],
        BusOp::Clock(0) => [Some(Part::Driver), Some(Part::Clock(0)), None, None],
        BusOp::Clock(hz) => [Some(Part::Clock(hz)), Some(Part::Driver), None, None],
        BusOp::TuneStart => [Some(Part::BeforeTuning), Some(Part::Driver), None, None],
        BusOp::TuneAbort => [Some(Part::Driver), Some(Part::NothingFound), None, None],
        BusOp::ResetAll => [Some(Part::Driver), Some(Part::AfterReset), None, None],
        BusOp::Width(_) | BusOp::ResetLines => [Some(Part::Driver), None, None, None],
    };
    parts.get(usize::from(n)).copied().flatten()
}

/// A driver that also controls the parts of its board around the controller.
#[derive(Debug)]
pub struct Surrounded<H, S> {
    host: H,
    board: S,
    /// Index of the present step of a bus operation, whose steps are done by the board and the
    /// driver; see [`Part`].
    at: u8,
    /// Whether the present step of the bus operation was called before. If not, the next call tells
    /// the board or driver that it is the first one (`first` = true).
    begun: bool,
    /// Time until which RST_n keeps its level, in nanoseconds.
    until_ns: u64,
    timing: Timing,
    tunes: bool,
}

impl<H: Host, S: Surroundings> Surrounded<H, S> {
    /// Joins a driver with its board's parts.
    pub const fn new(host: H, board: S) -> Self {
        Surrounded { host, board, at: 0, begun: false, until_ns: 0, timing: Timing::Legacy, tunes: false }
    }

    /// Returns the wrapped driver.
    pub fn driver(&self) -> &H {
        &self.host
    }

    /// Returns the control of the board's parts around the controller: supplies, pins, clocks, PHY.
    pub fn board(&self) -> &S {
        &self.board
    }

    fn step_part(&mut self, part: Part, op: BusOp, first: bool, now_ns: u64) -> Step {
        match part {
            Part::Driver => self.host.set_bus(op, first, now_ns),
            Part::Supply(on) => self.board.supply(on, first, now_ns),
            Part::Signalling(low) => self.board.signalling(low, first, now_ns),
            Part::Pins(timing) => {
                self.timing = timing;
                self.board.pins(timing, first, now_ns)
            }
            Part::Clock(hz) => self.board.clock(hz, first, now_ns),
            Part::BeforeTuning => {
                self.tunes = true;
                self.board.before_tuning(self.timing, first, now_ns)
            }
            Part::NothingFound => {
                self.end_tuning(false);
                Step::Done
            }
            Part::AfterReset => self.board.after_reset(self.timing, first, now_ns),
            Part::ResetActive => {
                if first {
                    self.until_ns =
                        if self.board.reset_card(true) { now_ns.saturating_add(RESET_LOW_NS) } else { 0 };
                }
                self.until(now_ns)
            }
            Part::ResetOver => {
                if first {
                    self.until_ns = if self.board.reset_card(false) {
                        now_ns.saturating_add(RESET_RECOVERY_NS)
                    } else {
                        0
                    };
                }
                self.until(now_ns)
            }
        }
    }

    fn until(&self, now_ns: u64) -> Step {
        if now_ns < self.until_ns { Step::Wait(self.until_ns) } else { Step::Done }
    }

    #[cold]
    fn end_tuning(&mut self, found: bool) {
        if core::mem::take(&mut self.tunes) {
            self.board.after_tuning(found);
        }
    }

    #[inline]
    fn look_for_the_end_of_tuning(&mut self, events: &Events) {
        if self.tunes && matches!(events.phase, Some(Ok(done)) if done.tuned) {
            self.end_tuning(true);
        }
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged. An
// operation on the bus is `Done` no earlier than the driver's own part of it.
unsafe impl<H: Host, S: Surroundings> Host for Surrounded<H, S> {
    crate::forward_host!(const H);
    crate::forward_host!(self.host => caps goes_on_with is_prompt map unmap start start_fast start_concurrent
        ack_concurrent abort_concurrent early_r1 interrupt_lost command_hangs isolate dat0_busy
        dat_levels retune_ns supply_ma take_waker card_irq queue chain);

    #[inline]
    fn ack(&mut self, segments: &[Segment]) -> Events {
        let events = self.host.ack(segments);
        self.look_for_the_end_of_tuning(&events);
        events
    }

    #[inline]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        // The short form never ends a step of tuning.
        self.host.ack_fast(segments)
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            (self.at, self.begun) = (0, false);
        }
        for _ in 0..PARTS_MAX {
            let Some(part) = part(op, self.at) else { return Step::Done };
            let fresh = !core::mem::replace(&mut self.begun, true);
            match self.step_part(part, op, fresh, now_ns) {
                Step::Done => (self.at, self.begun) = (self.at.saturating_add(1), false),
                Step::Wait(at_ns) => return Step::Wait(at_ns.max(now_ns)),
                Step::Failed => return Step::Failed,
            }
        }
        Step::Done
    }

    fn present(&self) -> bool {
        self.board.present().unwrap_or_else(|| self.host.present())
    }

    fn write_protected(&self) -> bool {
        self.board.write_protected().unwrap_or_else(|| self.host.write_protected())
    }
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged.
unsafe impl<H: Host + CommandQueueHost, S: Surroundings> CommandQueueHost for Surrounded<H, S> {
    fn queue_caps(&self) -> Result<&QueueCaps, QueueError> {
        self.host.queue_caps()
    }

    fn enable_queue(&mut self, settings: &QueueSettings) -> Result<(), QueueError> {
        self.host.enable_queue(settings)
    }

    fn disable_queue(&mut self) -> Result<(), QueueError> {
        self.host.disable_queue()
    }

    #[inline]
    fn prepare_task(&mut self, slot: u8, task: &Task, segments: &[Segment]) -> Result<(), QueueError> {
        self.host.prepare_task(slot, task, segments)
    }

    fn prepare_command(&mut self, command: &Command, barrier: bool) -> Result<(), QueueError> {
        self.host.prepare_command(command, barrier)
    }

    fn withdraw(&mut self, slots: u32) {
        self.host.withdraw(slots);
    }

    #[inline]
    fn ring(&mut self, slots: u32) -> u32 {
        self.host.ring(slots)
    }

    #[inline]
    fn ack_queue(&mut self) -> QueueEvents {
        self.host.ack_queue()
    }

    #[inline]
    fn ack_ends(&mut self) -> u32 {
        self.host.ack_ends()
    }

    fn halt_queue(&mut self) -> Result<(), QueueError> {
        self.host.halt_queue()
    }

    fn resume_queue(&mut self) -> Result<(), QueueError> {
        self.host.resume_queue()
    }

    fn clear_task(&mut self, slot: u8) -> Result<(), QueueError> {
        self.host.clear_task(slot)
    }

    fn clear_tasks(&mut self) -> Result<(), QueueError> {
        self.host.clear_tasks()
    }

    fn queue_state(&self) -> QueueState {
        self.host.queue_state()
    }
}

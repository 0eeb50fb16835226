//! The interface that every driver of a controller implements.
//!
//! A driver starts phases (a phase is a command with its response, data and busy), and reports how
//! they ended. It never blocks, and never spins without a bound. The engine decides the order of
//! phases, and does all waiting, by deadlines. Read first: [`Host`].

pub mod bounce;
mod caps;
mod carrier;
mod chain;
pub mod dma;
mod events;
pub mod faulty;
mod forward;
pub mod mshc;
pub mod pio;
pub mod pl181;
mod queue;
pub mod regs;
pub mod rtsx;
pub mod s3c_sdi;
pub mod sdhci;
pub(crate) mod search;
mod segment;
pub mod spi;
pub mod stm32_sdmmc;
pub mod surroundings;

pub use crate::spec::bus::{Timing, Width};
use crate::spec::command::Command;
pub use caps::{BlockSizes, BusyDetect, Caps};
pub use chain::{ChainCaps, ChainError, ChainEvents, ChainFault, ChainHost};
use core::task::Waker;
pub use dma::{Dma, DmaError};
pub use events::{Cause, Done, Events, FastEnd, Fault, Stage};
pub use queue::{
    Coalescing, CommandQueueHost, QueueCaps, QueueError, QueueEvents, QueueFault, QueueSettings, QueueState,
    Task, TaskFlags,
};
pub use regs::Regs;
pub use segment::Segment;

/// Direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The data go from the card to memory.
    Read,
    /// The data go from memory to the card.
    Write,
}

/// The data of a phase (of a command): direction, number of blocks and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Direction of the data.
    pub direction: Direction,
    /// Block length in bytes, 1 to 2048.
    pub block_size: u16,
    /// Number of blocks, at least 1.
    pub blocks: u32,
}

/// Which commands the controller itself adds to a data command; or that data follow without a
/// command [SDHC 1.15].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// The controller sends no command by itself before or after the command.
    None,
    /// The command is an open-ended CMD18 or CMD25 (no CMD23 before it), and the controller adds no
    /// command. The card's transfer stays open after the phase's data. More data
    /// ([`Continue`](Auto::Continue)) or the engine's CMD12 follow (needs [`Caps::continue_data`]).
    Open,
    /// There is no command and no response, only data. An open-ended CMD18 or CMD25 (`command`) was
    /// sent earlier, and its transfer is still open on the card (needs [`Caps::continue_data`]).
    ///
    /// A driver may send the data with a command of its own. If the response to that is lost, the
    /// fault is one of [`Stage::Command`]: the response may have shown an error of earlier data.
    Continue,
    /// The controller sends CMD12 after the last block (needs [`Caps::auto_stop`]).
    Stop,
    /// The controller sends CMD23 with this argument before the command (needs
    /// [`Caps::auto_count`]).
    Count(u32),
}

/// The unit of work that a controller is given at a time: a command with its response, data and
/// busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The command that the controller sends.
    pub command: Command,
    /// The command's data, if it has any.
    pub data: Option<Data>,
    /// Which commands the controller itself adds.
    pub auto: Auto,
    /// Whether the phase is a step of tuning (CMD19/CMD21). Its block goes to no segment: the
    /// controller or the driver compares it with the tuning pattern [SDHC 2.2.24].
    pub tuning: bool,
}

impl Phase {
    /// Returns the phase of a command without data.
    #[inline(always)]
    pub const fn of(command: Command) -> Phase {
        Phase { command, data: None, auto: Auto::None, tuning: false }
    }
}

/// Why a [`Phase`] could not be started. The controller has sent nothing.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The CMD line is still in use by an earlier command.
    CommandLine,
    /// The DAT lines are in use, or the card signals busy on DAT0.
    DataLine,
    /// The controller can never execute this command with its data (too many segments, unsupported
    /// block size ...).
    Unsupported,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            StartError::CommandLine => "the CMD line is in use",
            StartError::DataLine => "the DAT lines are in use, or the card is busy",
            StartError::Unsupported => "the controller cannot do this",
        })
    }
}

impl core::error::Error for StartError {}

/// A change of the bus. It may need several calls (see [`Host::set_bus`]).
///
/// Every driver returns [`Step::Done`] for the operations that lead back to the initial bus, even
/// if it has nothing to do: `PowerOff`, `PowerOn`, `Signal18(false)`, `Width(W1)`,
/// `Timing(Legacy)`, `Clock`, `TuneAbort`, `ResetLines`, `ResetAll`. If one of these returns
/// `Failed`, bring-up fails, or the card is given up. The other operations are requested only if
/// [`Caps`] allows them: `Width` up to [`Caps::width`], `Timing` by [`Caps::timings`],
/// `Signal18(true)` by [`Caps::signal18`], `TuneStart` for a timing that needs tuning. A driver
/// that lacks them returns `Failed`.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusOp {
    /// Switches the card's supply off, and stops the clock and the lines.
    PowerOff,
    /// Switches the supply on at 3.3 V, with one data line and without a clock.
    PowerOn,
    /// Sets the SD clock in hertz, rounded down to a frequency that the divider can make; 0 stops
    /// the clock.
    Clock(u32),
    /// Sets the number of data lines that the controller uses.
    Width(Width),
    /// Sets the bus timing of the controller, not of the card.
    Timing(Timing),
    /// Switches the signal lines to 1.8 V (true) or 3.3 V (false); fails if the regulator does not
    /// follow.
    Signal18(bool),
    /// Begins tuning. Afterwards the engine sends the tuning commands, as phases with `tuning` set.
    TuneStart,
    /// Ends tuning without a result, and selects the fixed sampling point again.
    TuneAbort,
    /// Resets the CMD and DAT circuits of the controller to idle and stops DMA.
    ResetLines,
    /// Resets the whole controller to its power-on state, then restores the bus settings.
    ResetAll,
}

/// Progress of a bus operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The operation has ended successfully.
    Done,
    /// The operation has not ended: call the same method again at this time, in nanoseconds, which
    /// is never earlier than the `now_ns` of the call.
    Wait(u64),
    /// The operation has failed (clock never stable, reset bit stuck, voltage wrong).
    Failed,
}

/// The driver of a controller. No method blocks, and no method is called from two contexts at once.
///
/// # Safety
/// Safe code gets its memory back when a driver reports an end, so a driver promises:
///
/// 1. Driver and controller access a segment's memory only between [`map`](Host::map) and
///    [`unmap`](Host::unmap), and there only while they *have* it.
/// 2. Driver and controller have the memory from the [`start`](Host::start) that returned `Ok` with
///    it. They have released the memory when
///    - [`ack`](Host::ack) or [`ack_fast`](Host::ack_fast) reports the phase's end as `Ok`, or
///    - the phase has failed or has not ended, and [`set_bus`](Host::set_bus) with
///      [`BusOp::ResetLines`] or [`BusOp::ResetAll`] returns [`Step::Done`], or
///    - the end is a fault with [`Cause::Gone`]: such a controller accesses no memory, or
///    - [`isolate`](Host::isolate) returns true.
///
///    After an error of `start`, driver and controller do not have the memory.
/// 3. Driver and controller only read the memory of a write, and write the memory of a read only in
///    its `len` bytes.
/// 4. The driver gives the controller only addresses that `map` set and that have not been
///    unmapped, and addresses of memory that belongs to the driver, such as a descriptor table.
///    Memory of the driver outlives the driver, or `drop` ends the controller's access to it. This
///    holds for any phase and any segments, even too few, and for any content of the registers.
/// 5. The driver keeps no copy of a segment's address after it has released the segment's memory.
///
/// A call of a [`pio::Cursor`] is an access by the driver.
///
/// A driver that wraps another one ([`faulty::Faulty`], for example) keeps these promises if it
/// passes the calls on in order and changes no segment.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait Host {
    /// Whether [`Caps::continue_data`] may be set. If false, the engine's code that keeps transfers
    /// open is not linked.
    const CONTINUES: bool = false;

    /// Whether [`Caps::continue_data`] is always set, except in a special configuration. If true,
    /// the engine's fast path for ordinary requests, which hosts that continue transfers do not
    /// use, is not linked.
    const ALWAYS_CONTINUES: bool = Self::CONTINUES;

    /// Whether [`goes_on_with`](Self::goes_on_with) may return false. If not, the engine's code
    /// that calls it is not linked.
    const CONTINUES_BY_REQUEST: bool = false;

    /// Whether [`Caps::concurrent_command`] may be set. If false, the engine's code that sends
    /// commands during data is not linked.
    const CONCURRENT: bool = false;

    /// Whether [`early_r1`](Self::early_r1) may return a response. If false, the engine's code that
    /// calls it is not linked.
    const EARLY_R1: bool = false;

    /// Whether the controller signals the card interrupt ([`card_irq`](Self::card_irq)). If false,
    /// the engine [polls](crate::sdio::CardInterrupt::wait) the card from time to time instead.
    const CARD_IRQ: bool = false;

    /// Whether there is only one data line at 3.3 V, without tuning. If true, bring-up's code for
    /// more lines, 1.8 V and tuning is not linked.
    const ONE_LINE: bool = false;

    /// Whether [`take_waker`](Self::take_waker) may return a waker. If false, the stack does not
    /// call it.
    const WAKES: bool = false;

    /// Whether [`is_prompt`](Self::is_prompt) may return true. If false, the engine's code that
    /// calls it is not linked.
    const DEFERS_BY_REQUEST: bool = false;

    /// Returns the controller's capabilities; constant once the driver exists.
    fn caps(&self) -> &Caps;

    /// Makes a segment ready for a transfer and sets `segment.bus`. Called at submission, so that
    /// the interrupt need not do it.
    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError>;

    /// Ends the mapping of [`map`](Host::map), after the controller has released the memory. Only
    /// then may the CPU read the received data.
    fn unmap(&mut self, segment: &Segment, direction: Direction);

    /// Returns whether a request with this segment may be completed in the hard interrupt although
    /// [`Caps::defer_completion`] is set, because its [`unmap`](Host::unmap) needs no thread. A
    /// request without data always may.
    fn is_prompt(&self, segment: &Segment, direction: Direction) -> bool {
        let _ = (segment, direction);
        false
    }

    /// Returns whether a transfer of `blocks` blocks, of which `segment` holds a part, can stay
    /// open or continue an open transfer. Called when the segment is mapped.
    fn goes_on_with(&self, segment: &Segment, blocks: u32, direction: Direction) -> bool {
        let _ = (segment, blocks, direction);
        true
    }

    /// Starts a phase. `segments` (mapped, in order) hold the data; their lengths add up to at
    /// least the data's size. `timeout_ns` is the longest time that the card may take for data and
    /// busy; the driver sets the controller's timer by it.
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;

    /// Does the same as [`start`](Host::start) for the most frequent commands: a read or write of
    /// blocks in one segment, or a command without data, each with an R1. A driver implements it if
    /// it needs fewer instructions for these. Firmware without
    /// [`Profile::FAST`](crate::sched::Profile::FAST) does not contain it.
    #[inline]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start(phase, segments, timeout_ns)
    }

    /// Starts a command that does not use DAT (no data, no busy, a short response) during the data
    /// of the phase in progress. [`ack_concurrent`](Host::ack_concurrent) reports its end, perhaps
    /// after the end of the phase. If the command fails, the driver itself resets the CMD line
    /// only, and starts nothing until the reset is complete. [`BusOp::ResetLines`] and
    /// [`BusOp::ResetAll`] drop the command.
    ///
    /// [`StartError::CommandLine`]: not possible yet, try again; if the response of the phase
    /// itself is still missing, its arrival interrupts. [`StartError::DataLine`]: the data have
    /// ended, or nearly. [`StartError::Unsupported`]: not possible during this phase.
    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        let _ = command;
        Err(StartError::Unsupported)
    }

    /// Acknowledges the end of the command that was sent during data. Returns its R1, or the cause
    /// of its failure; `None` if it has not ended. Called before each [`ack`](Host::ack) while such
    /// a command is in progress.
    fn ack_concurrent(&mut self) -> Option<Result<u32, Cause>> {
        None
    }

    /// Drops the command that was sent during data; the data transfer continues.
    fn abort_concurrent(&mut self) {}

    /// Acknowledges all events of the controller, transfers PIO data, and returns the events.
    /// Called from the interrupt, and by the engine before it treats a deadline as missed.
    /// `segments` are those of the phase in progress, as given to [`start`](Host::start).
    /// Afterwards no acknowledged event keeps the interrupt line asserted.
    fn ack(&mut self, segments: &[Segment]) -> Events;

    /// Acknowledges events like [`ack`](Host::ack), for a caller that waits for the end of a phase
    /// (a command, with its data or busy) with an R1. A driver returns the short form if it can
    /// detect in a few instructions that the phase ended without an error and that nothing else
    /// happened.
    #[inline]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        self.ack(segments).in_short()
    }

    /// Returns the R1 of the command in progress while its data are still transferred. If the R1 of
    /// an automatic CMD23 has reported errors of an earlier write, the returned R1 has these error
    /// bits too. `None` if the R1 was not received yet (its arrival then interrupts), the command's
    /// data and busy have ended, or the R1 cannot be read before that. The end of the phase (the
    /// command with its data and busy) reports the same R1 again.
    fn early_r1(&mut self) -> Option<u32> {
        None
    }

    /// Tells the driver that the end of a phase was found only after its deadline. The driver
    /// should stop using a shortcut on which its interrupt depends.
    #[inline]
    fn interrupt_lost(&mut self) {}

    /// Returns whether the command is still in the controller while the data lines are idle. Called
    /// for a transfer that began at least 50 ms ago and for which [`ack`](Host::ack) has had no
    /// event. If true, the transfer will never end, and the engine aborts it at once.
    #[inline]
    fn command_hangs(&self) -> bool {
        false
    }

    /// Begins or continues a bus operation. The caller repeats the call with the same `op` until it
    /// returns `Done` or `Failed`; `first` is true in the first call.
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step;

    /// Isolates the controller permanently from all memory, by the platform's means
    /// ([`Dma::isolate`]), when no reset has stopped it. Returns true if the controller certainly
    /// accesses no segment any more. The default returns true if the CPU transfers all data
    /// ([`Caps::dma_bits`] is 0), false otherwise. So a PIO driver need not implement it, unless
    /// something beside the driver may still hold the address of a segment.
    fn isolate(&mut self) -> bool {
        self.caps().dma_bits == 0
    }

    /// Returns whether the card holds DAT0 low (busy).
    fn dat0_busy(&self) -> bool;

    /// Returns the levels of DAT3 to DAT0 in bits 3 to 0, for the voltage switch [SDHC 3.6.1]. A
    /// driver that sees only DAT0 returns its level for all four.
    fn dat_levels(&self) -> u8 {
        if self.dat0_busy() { 0 } else { 0xf }
    }

    /// Returns whether a card is in the slot.
    fn present(&self) -> bool;

    /// Returns the time in nanoseconds after which the controller needs a new tuning, as the
    /// controller declares it [SDHC 2.2.25]; 0 if it declares no time. The controller may also
    /// request a tuning earlier by [`Events::retune`].
    fn retune_ns(&self) -> u64 {
        0
    }

    /// Returns the current that the supply can give a card at 2.7 to 3.6 V, in mA [SDHC 2.2.26]; 0
    /// if not known.
    fn supply_ma(&self) -> u16 {
        0
    }

    /// Returns whether the card's write-protect switch is on.
    fn write_protected(&self) -> bool {
        false
    }

    /// Returns the waker of an async task of the driver that now has work, if there is one. (In
    /// some drivers a task carries out what a call has begun.) A driver wakes no task itself,
    /// because it is called under the stack's lock and a waker may run any code. The
    /// [stack](crate::task::Stack) calls this method after each of its calls, and wakes the task
    /// when it has released its lock.
    fn take_waker(&mut self) -> Option<Waker> {
        None
    }

    /// Returns the controller's command queue engine, if it has one. Only firmware whose profile is
    /// [`HostQueued`](crate::sched::HostQueued) calls it.
    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        None
    }

    /// Returns the controller's interface for chains (several transfers from one list), if it has
    /// one. Only firmware whose profile is [`Chained`](crate::sched::Chained) calls it.
    fn chain(&mut self) -> Option<&mut dyn ChainHost> {
        None
    }

    /// Enables (`on`) or disables the card interrupt (SDIO). A driver that implements this sets
    /// [`CARD_IRQ`](Self::CARD_IRQ).
    fn card_irq(&mut self, on: bool) {
        let _ = on;
    }
}

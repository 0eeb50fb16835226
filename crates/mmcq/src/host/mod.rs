//! What a controller's driver must do.
//!
//! A driver starts phases and acknowledges events; it never blocks, spins without a bound, or
//! decides order. All waiting is done by the caller, with deadlines the engine keeps. Read first:
//! [`Host`].

pub mod bounce;
mod caps;
mod chain;
pub mod dma;
mod events;
pub mod faulty;
mod forward;
pub mod mshc;
pub(crate) mod pio;
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

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the card to memory.
    Read,
    /// From memory to the card.
    Write,
}

/// The data of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Which way it goes.
    pub direction: Direction,
    /// Bytes in a block, 1 to 2048.
    pub block_size: u16,
    /// Number of blocks, at least 1.
    pub blocks: u32,
}

/// What the host does by itself around a data command, or without it [SDHC 1.15].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auto {
    /// Nothing.
    None,
    /// Nothing: CMD18 or CMD25 without an end, and the transfer stays open when these data are over.
    /// More data follow ([`Continue`](Auto::Continue)), or the engine's CMD12 (needs
    /// [`Caps::continue_data`]).
    Open,
    /// Only the data move: `command` (CMD18 or CMD25) was sent before without an end, and its
    /// transfer is still open (needs [`Caps::continue_data`]). There is no response.
    Continue,
    /// CMD12 after the last block (needs [`Caps::auto_stop`]).
    Stop,
    /// CMD23 with this argument before the command (needs [`Caps::auto_count`]).
    Count(u32),
}

/// One thing the controller is given: a command with its response, data and busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// The command.
    pub command: Command,
    /// Its data, if any.
    pub data: Option<Data>,
    /// What the host adds by itself.
    pub auto: Auto,
    /// A step of the tuning procedure (CMD19/CMD21): the data stay in the controller [SDHC 2.2.26].
    pub tuning: bool,
}

impl Phase {
    /// A command without data.
    #[inline(always)]
    pub const fn of(command: Command) -> Phase {
        Phase { command, data: None, auto: Auto::None, tuning: false }
    }
}

/// A phase could not be started now; nothing was sent.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The CMD line is still in use.
    CommandLine,
    /// The DAT lines are in use, or the card signals busy on DAT0.
    DataLine,
    /// The controller cannot do this at all (too many segments, unsupported block size ...).
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

/// One change of the bus; a step that may need several calls (see [`Host::set_bus`]).
///
/// Every driver answers [`Step::Done`] to those that lead back to a fresh bus, also where there is
/// nothing to do: `PowerOff`, `PowerOn`, `Signal18(false)`, `Width(W1)`, `Timing(Legacy)`, `Clock`,
/// `TuneAbort`, `ResetLines`, `ResetAll`. A `Failed` there ends bring-up, or the card. The rest is
/// asked for only where [`Caps`] has it: `Width` up to [`Caps::width`], `Timing` by
/// [`Caps::timings`], `Signal18(true)` by [`Caps::signal18`], `TuneStart` for a timing that is
/// tuned. A driver without it answers `Failed`.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusOp {
    /// Power off; clock and lines go quiet.
    PowerOff,
    /// Power on at 3.3 V, 1 bit, no clock.
    PowerOn,
    /// SD clock in hertz, rounded down to what the divider can do; 0 stops it.
    Clock(u32),
    /// Data lines.
    Width(Width),
    /// Timing of the host's side.
    Timing(Timing),
    /// 1.8 V signalling on or off; fails if the regulator does not follow.
    Signal18(bool),
    /// Begin tuning: phases with `tuning` set follow.
    TuneStart,
    /// Give tuning up and go back to the fixed sampling point.
    TuneAbort,
    /// Bring CMD and DAT circuits back to idle and stop DMA.
    ResetLines,
    /// Bring the whole controller back to its power-on state, then restore the bus settings.
    ResetAll,
}

/// How far a bus operation has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Finished.
    Done,
    /// Call again at this time, in nanoseconds (never earlier than the `now` that was given).
    Wait(u64),
    /// It will not happen (clock never stable, reset bit stuck, voltage wrong).
    Failed,
}

/// A controller's driver. No method blocks; none is called from two contexts at once.
///
/// # Safety
/// Safe code gets its memory back by what a driver says, so a driver promises:
///
/// 1. Driver and controller touch a segment's memory between [`map`](Host::map) and
///    [`unmap`](Host::unmap) alone, and between these only while they *have* it.
/// 2. They have it from the [`start`](Host::start) that returned `Ok` with it. They have let go
///    when
///    - [`ack`](Host::ack) or [`ack_fast`](Host::ack_fast) reports the phase's end as `Ok`, or
///    - after any other end, or none, [`set_bus`](Host::set_bus) with [`BusOp::ResetLines`] or
///      [`BusOp::ResetAll`] returns [`Step::Done`], or
///    - the end is a fault with [`Cause::Gone`]: what is gone reaches no memory, or
///    - [`isolate`](Host::isolate) returns true.
///
///    A phase that did not start, by an error of `start`, has nothing.
/// 3. They only read the memory of a write, and write the memory of a read in its `len` bytes
///    alone.
/// 4. The controller is given only those addresses that `map` set and that have not been unmapped,
///    and memory of the driver's own that outlives the driver, or that its `drop` takes back. This
///    holds for any phase and any segments, also too few, and for any content of the registers.
/// 5. The driver keeps no copy of a segment's address after it has let go.
///
/// A driver over another ([`faulty::Faulty`], say) keeps the promise where it hands the calls on in
/// their order and changes no segment.
#[allow(unsafe_code, reason = "docs/safety.md says why")]
pub unsafe trait Host {
    /// [`Caps::continue_data`] may be set. Where it is false, the engine's part that keeps
    /// transfers open is not even linked.
    const CONTINUES: bool = false;

    /// [`Caps::continue_data`] is set wherever it may be, but for a special configuration. Where it
    /// is true, the engine's shorter way for ordinary requests, which hosts that continue do not
    /// take, is not even linked.
    const ALWAYS_CONTINUES: bool = Self::CONTINUES;

    /// [`goes_on_with`](Self::goes_on_with) may answer false. Where it never does, the engine's part
    /// that asks is not even linked.
    const CONTINUES_BY_REQUEST: bool = false;

    /// [`Caps::concurrent_command`] may be set. Where it is false, the engine's part that sends
    /// commands beside data is not even linked.
    const CONCURRENT: bool = false;

    /// [`early_r1`](Self::early_r1) may answer. Where it is false, the engine's part that asks is
    /// not even linked.
    const EARLY_R1: bool = false;

    /// The controller tells of the card interrupt ([`card_irq`](Self::card_irq)). Where it is
    /// false, the engine has the card [asked](crate::sdio::CardInterrupt::wait) from time to time
    /// instead.
    const CARD_IRQ: bool = false;

    /// There is one data line at 3.3 V, and nothing is tuned. Where it is true, bring-up's part for
    /// more lines, 1.8 V and tuning is not even linked.
    const ONE_LINE: bool = false;

    /// [`take_waker`](Self::take_waker) may answer. Where it is false, the stack does not ask.
    const WAKES: bool = false;

    /// [`is_prompt`](Self::is_prompt) may answer true. Where it is false, the engine's part that asks is
    /// not even linked.
    const DEFERS_BY_REQUEST: bool = false;

    /// Its capabilities; constant once the driver exists.
    fn caps(&self) -> &Caps;

    /// Makes a segment ready for a transfer and sets `segment.bus`. Called by the submitter, so
    /// that the interrupt finds it ready.
    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError>;

    /// The opposite of [`map`](Host::map), after the controller has let go; only then may the CPU
    /// read what came in.
    fn unmap(&mut self, segment: &Segment, direction: Direction);

    /// Whether a request over this segment may be completed in the hard interrupt although
    /// [`Caps::defer_completion`] is set: its [`unmap`](Host::unmap) needs no thread. One without data
    /// always may.
    fn is_prompt(&self, segment: &Segment, direction: Direction) -> bool {
        let _ = (segment, direction);
        false
    }

    /// Can a transfer stay open that begins, or goes on, with so many blocks, of which this segment
    /// holds a part? Asked when the segment is mapped.
    fn goes_on_with(&self, segment: &Segment, blocks: u32, direction: Direction) -> bool {
        let _ = (segment, blocks, direction);
        true
    }

    /// Starts a phase. `segments` (mapped, in order) hold the data; their lengths add up to at
    /// least the data's size. `timeout_ns` is the longest time the card may take for data and busy,
    /// for the controller's own timer.
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;

    /// As [`start`](Host::start), for the phases that are started most: a read or write of blocks
    /// in one piece, or a command without data, each with an R1. A driver that can do these in
    /// fewer instructions does so here; firmware without
    /// [`Profile::FAST`](crate::sched::Profile::FAST) does not carry that.
    #[inline]
    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.start(phase, segments, timeout_ns)
    }

    /// Starts a command that leaves DAT alone (no data, no busy, a short response) while the data
    /// of the phase in progress move. It ends by [`ack_concurrent`](Host::ack_concurrent), maybe
    /// after that phase has. A fault of it is the driver's to clean up, on the CMD line alone;
    /// until that is done nothing starts. [`BusOp::ResetLines`] and [`BusOp::ResetAll`] forget it.
    ///
    /// [`StartError::CommandLine`]: not yet, try again; when the response of the phase itself is
    /// still missing, its coming interrupts. [`StartError::DataLine`]: the data are over, or as
    /// good as. [`StartError::Unsupported`]: not beside this phase.
    fn start_concurrent(&mut self, command: &Command) -> Result<(), StartError> {
        let _ = command;
        Err(StartError::Unsupported)
    }

    /// Acknowledges the end of the command beside the data: the content of its response, or what
    /// went wrong. Called before each [`ack`](Host::ack) while there is one.
    fn ack_concurrent(&mut self) -> Option<Result<u32, Cause>> {
        None
    }

    /// Gives the command beside the data up, without harm to the data.
    fn abort_concurrent(&mut self) {}

    /// Acknowledges whatever the controller has to say, moves PIO data, and reports. Called from
    /// the interrupt, and by the engine before it believes a deadline. `segments` are those of the
    /// phase in progress, as given to [`start`](Host::start). After it returns no acknowledged
    /// event keeps the interrupt line asserted.
    fn ack(&mut self, segments: &[Segment]) -> Events;

    /// As [`ack`](Host::ack), for a caller that waits for the end of a phase with an R1. A driver
    /// that can tell in a few instructions that it ended well, and that nothing else happened, says
    /// so in few words.
    #[inline]
    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        match self.ack(segments) {
            Events { phase: Some(Ok(done)), card_irq: false, presence: false, retune: false } => {
                Ok(FastEnd { status: done.response.words[0], stop: done.stop.unwrap_or(0) })
            }
            events => Err(events),
        }
    }

    /// The R1 of the phase in progress, whose data still move; with what an automatic CMD23 was
    /// told of earlier writes. `None`: it has not come yet, and its coming interrupts; or the phase
    /// is over, or is none whose R1 can be had before its end. The phase's end reports the same R1
    /// once more.
    fn early_r1(&mut self) -> Option<u32> {
        None
    }

    /// The end of a phase was found when its deadline had passed: whatever short way led to its
    /// interrupt is not to be relied on.
    #[inline]
    fn interrupt_lost(&mut self) {}

    /// A transfer began 50 ms ago and more, and [`ack`](Host::ack) has had nothing to tell: is its
    /// command still in the controller, and nothing on DAT? Then it will never end, and is given up
    /// at once.
    #[inline]
    fn command_hangs(&self) -> bool {
        false
    }

    /// Begins or continues a bus operation: call with the same `op` until it is `Done` or `Failed`.
    /// `first` marks the beginning.
    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step;

    /// Neither kind of reset has helped: cuts the controller off from all memory for good, by the
    /// platform's means ([`Dma::isolate`]). True: surely nothing of a segment is touched any more.
    /// The default is true where the CPU moves all data ([`Caps::dma_bits`] is 0), and false
    /// elsewhere: a driver by PIO need not write it.
    fn isolate(&mut self) -> bool {
        self.caps().dma_bits == 0
    }

    /// Is DAT0 held low by the card?
    fn dat0_busy(&self) -> bool;

    /// Levels of DAT3 to DAT0 in bits 3 to 0, for the voltage switch [SDHC 3.6.1]. A driver that
    /// sees DAT0 alone takes it for all four.
    fn dat_levels(&self) -> u8 {
        if self.dat0_busy() { 0 } else { 0xf }
    }

    /// Is a card in the slot?
    fn present(&self) -> bool;

    /// How long a tuning lasts, by the controller's own account [SDHC 2.2.25]; 0: it does not say,
    /// or asks by itself ([`Events::retune`]).
    fn retune_ns(&self) -> u64 {
        0
    }

    /// Current that the supply gives a card at 2.7 to 3.6 V, in mA [SDHC 2.2.26]; 0: not known.
    fn supply_ma(&self) -> u16 {
        0
    }

    /// Is its write-protect switch on?
    fn write_protected(&self) -> bool {
        false
    }

    /// The waker of a task that carries out what was begun, if it has something to do. A driver
    /// wakes no task itself: its calls come under the stack's lock, and a waker may run anything.
    /// The [stack](crate::task::Stack) asks after each of its calls, and wakes when its lock is
    /// released.
    fn take_waker(&mut self) -> Option<Waker> {
        None
    }

    /// The engine for the card's queue, if the controller has one. Firmware whose profile is not
    /// [`HostQueued`](crate::sched::HostQueued) does not ask.
    fn queue(&mut self) -> Option<&mut dyn CommandQueueHost> {
        None
    }

    /// The controller as one that executes several transfers from one list, if it is one. Firmware
    /// whose profile is not [`Chained`](crate::sched::Chained) does not ask.
    fn chain(&mut self) -> Option<&mut dyn ChainHost> {
        None
    }

    /// Unmasks or masks the card interrupt (SDIO). A driver that has it says so by
    /// [`CARD_IRQ`](Self::CARD_IRQ).
    fn card_irq(&mut self, on: bool) {
        let _ = on;
    }
}

//! What a controller's driver must do.
//!
//! A driver starts phases and acknowledges events; it never blocks, spins without a bound, or
//! decides order. All waiting is done by the caller, with deadlines the engine keeps. Read first:
//! [`Host`].

pub mod bounce;
mod chain;
pub mod dma;
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
mod segment;
pub mod spi;
pub mod stm32_sdmmc;
pub mod surroundings;

pub use crate::spec::bus::{Timing, Width};
use crate::spec::command::Command;
use crate::spec::response::Response;
pub use chain::{ChainCaps, ChainError, ChainEvents, ChainFault, ChainHost};
use core::task::Waker;
pub use dma::{Dma, DmaError};
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

/// What went wrong in a phase.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No response, no data or no end of busy in time.
    Timeout,
    /// CRC error.
    Crc,
    /// The end bit was not 1.
    EndBit,
    /// The response carried another index.
    Index,
    /// DMA: bad descriptor or bus error.
    Dma,
    /// The card draws too much current.
    Power,
    /// The response had error bits that the controller checked itself [SDHC 4.x response error].
    Response,
    /// The controller reads as all ones: it is off the bus, and reaches no memory.
    Gone,
    /// The card's line is low all the time (SPI mode): no card answers so. It is not wired, or
    /// shorted, or its port is not set up.
    LineLow,
    /// Anything else that the controller calls an error.
    Other,
}

/// Where in a phase it went wrong.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The command or its response.
    Command,
    /// The data, or the busy after it.
    Data,
    /// An automatic CMD12.
    Stop,
    /// An automatic CMD23.
    Count,
    /// Busy after an R1b response.
    Busy,
}

/// A failed phase.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub cause: Cause,
    /// Where.
    pub stage: Stage,
    /// The command's response, if it had come.
    pub response: Option<Response>,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} error in the {:?} stage", self.cause, self.stage)
    }
}

impl core::error::Error for Fault {}

/// A phase that ended well. The engine judges an R1 itself: a driver hands over what the card sent,
/// also error bits, and reports a fault only for what the controller found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The command's response.
    pub response: Response,
    /// The R1 of an automatic CMD12.
    pub stop: Option<u32>,
    /// Tuning: the controller has found its sampling point.
    pub tuned: bool,
}

/// A phase with an R1 that ended well, in few words: see [`Host::ack_plain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain {
    /// The command's R1.
    pub status: u32,
    /// The R1 of an automatic CMD12; 0 without one.
    pub stop: u32,
}

/// What [`Host::ack`] found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Events {
    /// The phase in progress ended.
    pub phase: Option<Result<Done, Fault>>,
    /// A function on the card asks for attention; masked until [`Host::card_irq`] turns it on
    /// again.
    pub card_irq: bool,
    /// A card was inserted or removed.
    pub presence: bool,
    /// The controller asks for a new tuning [SDHC 2.2.18 re-tuning event].
    pub retune: bool,
}

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

/// How the controller learns that the card's busy is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyDetect {
    /// The end of a phase includes the end of busy, by interrupt.
    Interrupt,
    /// The same for busy after a response (R1b); after data only the card's status (CMD13) tells.
    Response,
    /// [`Host::dat0_busy`] can be read, nothing interrupts.
    Level,
    /// Only the card's status (CMD13) tells.
    Status,
}

/// Which lengths a block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSizes {
    /// Any.
    Any,
    /// Powers of two. Where several blocks move, they have 4 bytes at least.
    PowersOfTwo,
    /// The same, but for the one block of a CMD53 in byte mode, which may have any length.
    PowersOfTwoOrBytes,
}

/// What a controller can do. Sizes in bytes, times in nanoseconds, clocks in hertz.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Caps {
    /// The host sends CMD12 by itself after the last block.
    pub auto_stop: bool,
    /// The host sends CMD23 by itself before a transfer.
    pub auto_count: bool,
    /// CMD23 must not be sent, neither by the host nor as a phase: some controllers cannot.
    pub no_count: bool,
    /// The data of an open transfer (CMD18 or CMD25 without an end) can be moved in several phases:
    /// see [`Auto::Continue`].
    pub continue_data: bool,
    /// A command can go beside the data of a phase: see [`Host::start_concurrent`].
    pub concurrent_command: bool,
    /// End of busy.
    pub busy: BusyDetect,
    /// Longest busy its own timer can wait for.
    pub max_busy_ns: u64,
    /// Segments in a transfer.
    pub max_segments: u16,
    /// Bytes in a segment.
    pub max_segment_bytes: u32,
    /// Bytes in a block, at least 512.
    pub max_block_bytes: u16,
    /// Which lengths up to that a block may have.
    pub block_sizes: BlockSizes,
    /// Blocks in a transfer.
    pub max_blocks: u32,
    /// Bytes in a transfer.
    pub max_bytes: u32,
    /// Alignment a segment's address must have; a power of two.
    pub align: u32,
    /// Address bits its DMA reaches; 0 where the CPU moves the data.
    pub dma_bits: u8,
    /// Data requests must not be completed in the hard interrupt (unmapping sleeps, say): the
    /// engine ends the transfer and starts the next one there, and completes in the next
    /// [`poll`](crate::engine::Engine::poll).
    pub defer_completion: bool,
    /// Slowest and fastest SD clock.
    pub clock_hz: (u32, u32),
    /// Widest bus.
    pub width: Width,
    /// Timings, one bit each: see [`Caps::can`]; and [`Caps::SDR50_TUNED`].
    pub timings: u16,
    /// 1.8 V signalling.
    pub signal18: bool,
    /// The lines are at 1.8 V and cannot leave it (VCCQ of a soldered eMMC on a rail of its own):
    /// bring-up never asks for 3.3 V.
    pub signal18_fixed: bool,
    /// The card is soldered: presence is never asked.
    pub fixed: bool,
}

setters!(Caps {
    auto_stop: bool,
    auto_count: bool,
    no_count: bool,
    continue_data: bool,
    concurrent_command: bool,
    busy: BusyDetect,
    max_busy_ns: u64,
    max_segments: u16,
    max_segment_bytes: u32,
    max_block_bytes: u16,
    block_sizes: BlockSizes,
    max_blocks: u32,
    max_bytes: u32,
    align: u32,
    dma_bits: u8,
    defer_completion: bool,
    clock_hz: (u32, u32),
    width: Width,
    timings: u16,
    signal18: bool,
    signal18_fixed: bool,
    fixed: bool,
});

impl Caps {
    /// Those of no controller; a driver names what it has and takes the rest from here. Mind
    /// [`no_count`](Self::no_count): it is true here.
    pub const NONE: Caps = Caps {
        auto_stop: false,
        auto_count: false,
        no_count: true,
        continue_data: false,
        concurrent_command: false,
        busy: BusyDetect::Status,
        max_busy_ns: 0,
        max_segments: 0,
        max_segment_bytes: 0,
        max_block_bytes: 512,
        block_sizes: BlockSizes::Any,
        max_blocks: 0,
        max_bytes: 0,
        align: 1,
        dma_bits: 0,
        defer_completion: false,
        clock_hz: (0, 0),
        width: Width::W1,
        timings: 0,
        signal18: false,
        signal18_fixed: false,
        fixed: false,
    };

    /// A bit of [`Caps::timings`]: the host needs a tuned sampling point in SDR50 [SDHC 2.2.25].
    /// Without it bring-up sends no CMD19 there.
    pub const SDR50_TUNED: u16 = 1 << 15;

    /// The bit of a timing in [`Caps::timings`].
    pub const fn timing_bit(timing: Timing) -> u16 {
        1 << timing as u16
    }

    /// Can it move several blocks of this length?
    pub const fn moves_blocks_of(&self, bytes: u16) -> bool {
        let any = matches!(self.block_sizes, BlockSizes::Any);
        bytes > 0 && bytes <= self.max_block_bytes && (any || bytes.is_power_of_two() && bytes >= 4)
    }

    /// Blocks of 512 bytes that a transfer from or to one piece of memory may have, 1 to 65535.
    pub fn blocks_in_one_piece(&self) -> u16 {
        let bytes = self.max_bytes.min(self.max_segment_bytes);
        u16::try_from(self.max_blocks.min(bytes / 512).max(1)).unwrap_or(u16::MAX)
    }

    /// Does the host do this timing?
    pub const fn can(&self, timing: Timing) -> bool {
        self.timings & Self::timing_bit(timing) != 0
    }
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
///    - [`ack`](Host::ack) or [`ack_plain`](Host::ack_plain) reports the phase's end as `Ok`, or
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

    /// Its capabilities; constant once the driver exists.
    fn caps(&self) -> &Caps;

    /// Makes a segment ready for a transfer and sets `segment.bus`. Called by the submitter, so
    /// that the interrupt finds it ready.
    fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError>;

    /// The opposite of [`map`](Host::map), after the controller has let go; only then may the CPU
    /// read what came in.
    fn unmap(&mut self, segment: &Segment, direction: Direction);

    /// Starts a phase. `segments` (mapped, in order) hold the data; their lengths add up to at
    /// least the data's size. `timeout_ns` is the longest time the card may take for data and busy,
    /// for the controller's own timer.
    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError>;

    /// As [`start`](Host::start), for the phases that are started most: a read or write of blocks
    /// in one piece, or a command without data, each with an R1. A driver that can do these in
    /// fewer instructions does so here; firmware without
    /// [`Profile::FAST`](crate::sched::Profile::FAST) does not carry that.
    #[inline]
    fn start_plain(
        &mut self,
        phase: &Phase,
        segments: &[Segment],
        timeout_ns: u64,
    ) -> Result<(), StartError> {
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
    fn ack_plain(&mut self, segments: &[Segment]) -> Result<Plain, Events> {
        match self.ack(segments) {
            Events { phase: Some(Ok(done)), card_irq: false, presence: false, retune: false } => {
                Ok(Plain { status: done.response.words[0], stop: done.stop.unwrap_or(0) })
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

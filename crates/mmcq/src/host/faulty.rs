//! Fault injection between the engine and any driver: on a desk, in a test, or on the real board.
//!
//! [`Faulty`] passes the engine's calls to the wrapped driver, but sometimes reports to the engine
//! something that did not happen. The hardware has done its work in any case. A phase that is
//! reported as failed has ended on the bus, so the controller does not use its memory any more. A
//! bus operation that is reported as failed was carried out. The engine cannot know this, and must
//! handle the report like a real fault. Only [`Strike::Refused`] and [`Strike::Unsent`] keep a
//! phase from the bus. Some optional abilities of the wrapped driver are not used: commands during
//! data, the early R1, its command queue engine, and chains.
//!
//! The code allocates no memory and reads no clock: the same seed and the same order of calls give
//! the same faults again.
//!
//! ```
//! use mmcq::host::faulty::{Faulty, Shot, Strike, When};
//! use mmcq::host::{Cause, Host, Stage};
//!
//! /// The board's driver, in a bad mood: the third response is damaged, and one interrupt in a thousand is lost.
//! fn on_a_bad_day<H: Host>(driver: H, seed: u64) -> Faulty<H, 4> {
//!     let mut host = Faulty::new(driver, seed);
//!     host.add(Shot { strike: Strike::Failed(Cause::Crc, Stage::Command), when: When::Nth(3) });
//!     host.add(Shot { strike: Strike::Late(0), when: When::Chance(u32::MAX / 1000) });
//!     host
//! }
//! ```

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::{Auto, BusOp, Cause, Direction, Done, Events, FastEnd, Fault, Host, Phase};
use super::{Segment, Stage, StartError, Step};
use crate::spec::command::Resp;
use core::cell::Cell;
use core::ops::Range;

/// The kinds of calls at which a fault can be injected. Each kind counts its own events, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The engine starts a [`Phase`] (a command with its data and busy).
    Start,
    /// The driver reports the end of a command (with its data and busy); a fault can change this
    /// report.
    End,
    /// The engine reads the driver's events (a poll).
    Ack,
    /// The engine begins a bus operation.
    Bus,
}

/// The kinds of faults. In brackets: the entry of the failure catalogue (`docs/FAILURES.md`), and
/// the name of the injection in the simulator. A fault that is impossible at its event, such as a
/// data error of a command without data, is not injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strike {
    /// At a start: the driver reports that the lines are in use, or that it does not support the
    /// phase; nothing is sent (E10, `inhibit_stuck`).
    Refused(StartError),
    /// At a start: the command does not reach the card, and there is no interrupt; a later `ack`
    /// returns a timeout (A2, `cmd_lost`).
    Unsent,
    /// At the end of a command (with its data and busy): the command is reported as failed, with
    /// this cause at this stage. The card has executed it. `Crc` at `Command` is a damaged response
    /// (A1, `resp_crc`), `Timeout` at `Command` a lost one (A3, `resp_lost`), `Index` and `EndBit`
    /// a wrong one (A4, `resp_idx`, `resp_end`). `Crc` at `Data` is a damaged block (A6, `rd_crc`;
    /// A7, `wr_crc`), `Timeout` at `Data` a block without CRC status, or one that comes too late
    /// (A7, `wr_nostat`; A9, `rd_delay`). `Dma` is a bad descriptor (E6, `adma_err`); `Stop` and
    /// `Count` are automatic commands (E8, `acmd_crc`). `Gone` is a controller without a clock for
    /// a moment (E15, `mmio_dead`).
    Failed(Cause, Stage),
    /// At the end of a [`Phase`] whose response is an R1: these bits are set in the R1 (faults A5,
    /// `cmd_illegal`; D1, `out_of_range`; D2, `wp`; G4, `r1_all_errors`).
    Status(u32),
    /// At the end of a command (with its data): the report of this end is held back until the
    /// engine has polled the driver this many more times. With 0 the interrupt is lost, and the
    /// next poll finds the end (E1, `irq_drop`). With a large number, the end comes after the
    /// engine's deadline (E4, `irq_late`). A reset drops the end.
    Late(u32),
    /// At the end of a read: this bit of the data is inverted, counted from the highest bit of the
    /// first byte (D4, `silent_flip`).
    Flip(u32),
    /// At a poll: the driver reports a change of the card slot that did not happen (C3,
    /// `cd_bounce`).
    Bounce,
    /// At a poll: the card is absent for this many reads of its presence, and present afterwards.
    /// Both changes are reported (faults C1, `remove`, and C2, `swap`, of the catalogue).
    Absent(u32),
    /// At a poll: the controller requests a new tuning (A11, `sample_drift`).
    Retune,
    /// At this many polls in a row: a function requests attention, if the card interrupt is enabled
    /// (G5, `sdio_irq_storm`).
    CardIrq(u32),
    /// At a bus operation: the operation is carried out, but reported as failed (A13,
    /// `vswitch_fail`; E9, `reset_hang`; E11, `clk_unstable`).
    BusFailed,
}

impl Strike {
    /// Returns the kind of call at which the fault is injected.
    pub const fn point(self) -> Point {
        match self {
            Strike::Refused(_) | Strike::Unsent => Point::Start,
            Strike::Failed(..) | Strike::Status(_) | Strike::Late(_) | Strike::Flip(_) => Point::End,
            Strike::Bounce | Strike::Absent(_) | Strike::Retune | Strike::CardIrq(_) => Point::Ack,
            Strike::BusFailed => Point::Bus,
        }
    }
}

/// When a fault is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At one call of the driver: the one with this number, counted from 1 for each kind of call.
    Nth(u64),
    /// At the event with this number, and at every later one; events are counted as for
    /// [`When::Nth`].
    From(u64),
    /// By chance, with this probability in units of 2^-32.
    Chance(u32),
}

/// A fault, and when to inject it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shot {
    /// The fault to inject.
    pub strike: Strike,
    /// When to inject the fault.
    pub when: When,
}

/// A fault that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Struck {
    /// The injected fault.
    pub strike: Strike,
    /// Number of the event at which the fault was injected.
    pub nth: u64,
}

/// A driver that injects faults: up to `M` planned ones ([`Shot`]).
pub struct Faulty<H, const M: usize> {
    inner: H,
    shots: [Option<Shot>; M],
    random: u64,
    armed: bool,
    events: [u64; 4],
    hits: u64,
    last: Option<Struck>,
    /// The command (phase) in progress; if there is none, the last one.
    phase: Option<Phase>,
    /// Whether [`Strike::Unsent`] has prevented that the wrapped driver gets the command in
    /// progress.
    unsent: bool,
    /// The end of a [`Phase`] that a fault holds back, and after how many polls it is reported.
    kept: Option<(u32, Result<Done, Fault>)>,
    /// A byte of read data that is to be damaged when the CPU gets it: its address, and the bit
    /// mask.
    flip: Option<(usize, u8)>,
    /// Number of reads of the presence that still find no card, plus one. At 1, the next poll
    /// reports the card's return.
    absent: Cell<u32>,
    card_irqs: u32,
    card_irq_on: bool,
    /// Whether the bus operation in progress will be reported as failed.
    bus_fails: bool,
}

impl<H, const M: usize> Faulty<H, M> {
    /// Wraps a driver; no fault is injected until [`add`](Self::add). `seed` starts the random
    /// numbers for [`When::Chance`].
    pub const fn new(inner: H, seed: u64) -> Self {
        Faulty {
            inner,
            shots: [None; M],
            random: seed,
            armed: true,
            events: [0; 4],
            hits: 0,
            last: None,
            phase: None,
            unsent: false,
            kept: None,
            flip: None,
            absent: Cell::new(0),
            card_irqs: 0,
            card_irq_on: false,
            bus_fails: false,
        }
    }

    /// Adds a shot, that is, a fault and when to inject it. Returns false if all `M` places are
    /// used. If several shots match one event, the one that was added first is injected.
    pub fn add(&mut self, shot: Shot) -> bool {
        let free = self.shots.iter_mut().find(|place| place.is_none());
        free.map(|place| *place = Some(shot)).is_some()
    }

    /// Removes all faults that were added. Events continue to be counted.
    pub fn clear(&mut self) {
        self.shots = [None; M];
    }

    /// Switches injection on (the initial state) or off. Events are counted in both cases.
    pub fn arm(&mut self, on: bool) {
        self.armed = on;
    }

    /// Returns the number of faults injected so far.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Returns the last injected fault; `None` before the first one.
    pub fn last(&self) -> Option<Struck> {
        self.last
    }

    /// Returns how many calls of this kind ([`Point`]) the wrapper has received so far.
    pub fn events(&self, point: Point) -> u64 {
        self.events.get(point as usize).copied().unwrap_or(0)
    }

    /// Returns the wrapped driver.
    pub fn inner(&self) -> &H {
        &self.inner
    }

    /// Returns the wrapped driver for changes.
    pub fn inner_mut(&mut self) -> &mut H {
        &mut self.inner
    }

    /// Returns the wrapped driver, and drops the shots.
    pub fn into_inner(self) -> H {
        self.inner
    }

    /// Returns the next number of a splitmix64 generator.
    fn draw(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 32) as u32
    }

    /// Counts an event of this kind of call, and returns the fault to inject (`None`: no fault);
    /// `fits` selects the faults that are possible at this event.
    fn strike(&mut self, point: Point, fits: impl Fn(Strike) -> bool) -> Option<Strike> {
        let count = self.events.get_mut(point as usize)?;
        *count = count.saturating_add(1);
        let nth = *count;
        let mut strike = None;
        for at in 0..M {
            let Some(shot) = self.shots.get(at).copied().flatten() else { continue };
            if shot.strike.point() != point {
                continue;
            }
            let hit = match shot.when {
                When::Nth(n) => n == nth,
                When::From(n) => n <= nth,
                // A random number is drawn even if another shot matched. So the random numbers of
                // this shot do not depend on the other shots.
                When::Chance(share) => self.draw() < share,
            };
            if hit && strike.is_none() && fits(shot.strike) {
                strike = Some(shot.strike);
            }
        }
        let strike = strike.filter(|_| self.armed)?;
        self.hits = self.hits.saturating_add(1);
        self.last = Some(Struck { strike, nth });
        Some(strike)
    }

    /// Forgets the fault on the command in progress, because the engine has given that command up
    /// or begins another one.
    fn forget(&mut self) {
        self.unsent = false;
        self.kept = None;
    }

    /// Returns the result of a phase (a command with its data) as the engine is to see it now:
    /// `result`, or the injected fault. `None` if the engine must not see the end yet. `segments`:
    /// memory of the data, in which a fault may flip a bit.
    fn ended(&mut self, result: Result<Done, Fault>, segments: &[Segment]) -> Option<Result<Done, Fault>> {
        let phase = self.phase;
        // A phase that failed by itself needs no injected failure.
        let fits = |strike| match strike {
            Strike::Late(_) => true,
            _ => result.is_ok() && phase.is_some_and(|phase| means_something(strike, &phase)),
        };
        match (self.strike(Point::End, fits), result) {
            (Some(Strike::Failed(cause, stage)), Ok(done)) => {
                let answered = !matches!(stage, Stage::Command | Stage::Count) && cause != Cause::Gone;
                Some(Err(Fault { cause, stage, response: answered.then_some(done.response) }))
            }
            (Some(Strike::Status(bits)), Ok(mut done)) => {
                let [status, ..] = &mut done.response.words;
                *status |= bits;
                Some(Ok(done))
            }
            (Some(Strike::Late(asks)), result) => {
                self.kept = Some((asks, result));
                None
            }
            (Some(Strike::Flip(bit)), result) => {
                self.flip = place(segments, bit);
                Some(result)
            }
            (_, result) => Some(result),
        }
    }

    /// Adds the injected faults of a poll to the driver's own events.
    fn asked(&mut self, events: &mut Events) {
        match self.strike(Point::Ack, |_| true) {
            Some(Strike::Bounce) => events.presence = true,
            Some(Strike::Absent(looks)) => {
                self.absent.set(looks.saturating_add(1));
                events.presence = true;
            }
            Some(Strike::Retune) => events.retune = true,
            Some(Strike::CardIrq(times)) => self.card_irqs = times,
            _ => {}
        }
        if self.absent.get() == 1 {
            self.absent.set(0);
            events.presence = true;
        }
        if self.card_irq_on && self.card_irqs > 0 {
            self.card_irqs = self.card_irqs.saturating_sub(1);
            events.card_irq = true;
        }
        if events.card_irq {
            // The card interrupt stays masked until the engine enables it again, as in a driver.
            self.card_irq_on = false;
        }
    }

    /// Starts a phase by `start` of the wrapped driver, unless a fault strikes here.
    fn begin(
        &mut self,
        phase: &Phase,
        start: impl FnOnce(&mut H) -> Result<(), StartError>,
    ) -> Result<(), StartError> {
        self.forget();
        match self.strike(Point::Start, |_| true) {
            Some(Strike::Refused(error)) => return Err(error),
            Some(Strike::Unsent) => self.unsent = true,
            _ => start(&mut self.inner)?,
        }
        self.flip = None;
        self.phase = Some(*phase);
        Ok(())
    }

    /// Returns the events of the wrapped driver with the faults that strike them.
    fn reported(&mut self, mut events: Events, segments: &[Segment]) -> Events {
        if let Some(result) = events.phase.take() {
            events.phase = self.ended(result, segments);
        } else if let Some((asks, result)) = self.kept.take() {
            match asks.checked_sub(1) {
                None => events.phase = Some(result),
                Some(left) => self.kept = Some((left, result)),
            }
        } else if core::mem::take(&mut self.unsent) {
            let fault = Fault { cause: Cause::Timeout, stage: Stage::Command, response: None };
            events.phase = Some(Err(fault));
        }
        self.asked(&mut events);
        events
    }
}

/// Returns whether this fault is possible at the end of this phase (a command with its response,
/// data and busy). A fault of the data, say, needs a phase with data.
fn means_something(strike: Strike, phase: &Phase) -> bool {
    match strike {
        Strike::Failed(_, Stage::Command) => phase.command.resp != Resp::None && phase.auto != Auto::Continue,
        Strike::Failed(_, Stage::Data) => phase.data.is_some(),
        Strike::Failed(_, Stage::Stop) => phase.auto == Auto::Stop,
        Strike::Failed(_, Stage::Count) => matches!(phase.auto, Auto::Count(_)),
        Strike::Failed(_, Stage::Busy) => phase.command.resp == Resp::R1b,
        Strike::Status(_) => matches!(phase.command.resp, Resp::R1 | Resp::R1b),
        Strike::Flip(_) => phase.data.is_some_and(|data| data.direction == Direction::Read),
        _ => true,
    }
}

/// Returns the address of the byte with bit number `bit` of the segments (modulo their length), and
/// the mask of the bit in that byte. `None` if the segments are empty.
fn place(segments: &[Segment], bit: u32) -> Option<(usize, u8)> {
    let total = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
    let mut at = (bit / 8).checked_rem(total)?;
    for segment in segments {
        if at < segment.len {
            let address = segment.ptr.addr().get().checked_add(at as usize)?;
            return Some((address, 0x80 >> (bit % 8)));
        }
        at -= segment.len;
    }
    None
}

/// Returns the address range of a segment's bytes.
fn addresses(segment: &Segment) -> Range<usize> {
    let start = segment.ptr.addr().get();
    start..start.saturating_add(segment.len as usize)
}

// SAFETY: all calls go to the wrapped driver, in their order and with the segments unchanged. An
// end that is held back comes later than the driver's own; an end that is reported as failed makes
// the engine reset the lines. The byte that is damaged lies in a segment that the wrapped driver
// has released.
unsafe impl<H: Host, const M: usize> Host for Faulty<H, M> {
    const CARD_IRQ: bool = H::CARD_IRQ;
    const WAKES: bool = H::WAKES;
    const DEFERS_BY_REQUEST: bool = H::DEFERS_BY_REQUEST;

    const CONTINUES: bool = H::CONTINUES;
    const ALWAYS_CONTINUES: bool = H::ALWAYS_CONTINUES;
    const CONTINUES_BY_REQUEST: bool = H::CONTINUES_BY_REQUEST;
    const ONE_LINE: bool = H::ONE_LINE;

    crate::forward_host!(self.inner => caps goes_on_with is_prompt map interrupt_lost command_hangs isolate dat0_busy
        dat_levels retune_ns supply_ma write_protected take_waker);

    fn unmap(&mut self, segment: &Segment, direction: Direction) {
        self.inner.unmap(segment, direction);
        if let Some((address, mask)) = self.flip.filter(|flip| addresses(segment).contains(&flip.0)) {
            self.flip = None;
            let offset = address.saturating_sub(segment.ptr.addr().get());
            // SAFETY: the byte is in the segment, whose memory its slot lends to the driver until
            // the completion is taken; the controller has released it.
            unsafe {
                let byte = segment.ptr.add(offset);
                byte.write(byte.read() ^ mask);
            }
        }
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.begin(phase, |inner| inner.start(phase, segments, timeout_ns))
    }

    fn start_fast(&mut self, phase: &Phase, segments: &[Segment], timeout_ns: u64) -> Result<(), StartError> {
        self.begin(phase, |inner| inner.start_fast(phase, segments, timeout_ns))
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let events = self.inner.ack(segments);
        self.reported(events, segments)
    }

    fn ack_fast(&mut self, segments: &[Segment]) -> Result<FastEnd, Events> {
        let stops = self.phase.is_some_and(|phase| phase.auto == Auto::Stop);
        let events = self.inner.ack_fast(segments).map_or_else(|events| events, |end| end.events(stops));
        self.reported(events, segments).in_short()
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        if first {
            self.bus_fails = self.strike(Point::Bus, |_| true).is_some();
            if matches!(op, BusOp::ResetLines | BusOp::ResetAll | BusOp::PowerOff | BusOp::PowerOn) {
                self.forget();
            }
        }
        match self.inner.set_bus(op, first, now_ns) {
            Step::Done if core::mem::take(&mut self.bus_fails) => Step::Failed,
            step => step,
        }
    }

    fn present(&self) -> bool {
        match self.absent.get() {
            0 | 1 => self.inner.present(),
            looks => {
                self.absent.set(looks - 1);
                false
            }
        }
    }

    fn card_irq(&mut self, on: bool) {
        self.card_irq_on = on;
        self.inner.card_irq(on);
    }
}

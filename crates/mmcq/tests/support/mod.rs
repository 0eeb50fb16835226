//! A simple model of a controller with a card. The engine's tests control its time, its faults and
//! its busy.
//!
//! The model checks what every controller requires: one phase at a time, only mapped memory, no
//! data command to a busy card.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod guard;

use guard::Guarded;
use mmcq::engine::{Claim, DmaBuf, Kind, PartitionAccess, Request};
use mmcq::host::{
    Auto, BusOp, BusyDetect, Caps, Cause, Data, Direction, DmaError, Done, Events, Fault, Host, Phase,
    Segment, Stage, StartError, Step, Timing, Width,
};
use mmcq::spec::response::{R1, Response};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// R1 of a card in the state `tran`, ready for data.
pub const READY: u32 = 4 << 9 | R1::READY_FOR_DATA;
/// R1 of a card in the state `prg`, not ready for data.
pub const PROGRAMMING: u32 = 7 << 9;

/// A phase as the card has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub index: u8,
    pub arg: u32,
    pub blocks: u32,
    pub segments: usize,
    /// Whether the phase has only data, which continue an open transfer.
    pub continued: bool,
}

/// A model of a part of the card with rules of its own, which receives or sends blocks.
pub type Frames = Box<dyn FnMut(Direction, &mut [u8])>;

/// The state that the test and the driver share.
pub struct World {
    pub medium: Vec<u8>,
    pub caps: Caps,
    /// Every phase that was started.
    pub log: Vec<Seen>,
    /// Bad blocks: a transfer that includes one fails with this cause.
    pub bad: HashMap<u64, Cause>,
    /// Whether only writes of bad blocks fail.
    pub bad_for_writes: bool,
    /// R1 bits that the card sets after such a failure, to report a bad block.
    pub bad_says: u32,
    /// Failures of single phases, by their number in [`World::log`], counted from 1: cause, stage,
    /// and whether the card has executed the phase.
    pub faults: HashMap<usize, (Cause, Stage, bool)>,
    /// Card state that CMD13 shows whatever happens; `None`: CMD13 shows the real state.
    pub stuck_state: Option<u32>,
    /// Number of resets of the whole controller.
    pub resets_of_all: u32,
    /// Bits that are set in the next R1: errors of earlier commands.
    pub next_status: u32,
    /// Bits that are set in the R1 after the next one.
    pub status_after_next: u32,
    /// Whether the controller never ends the phases that are started from now on.
    pub silent: bool,
    /// Number of CMD13 after a write that find the card programming.
    pub busy_polls: u32,
    still_busy: u32,
    mapped: Vec<(usize, u32)>,
    running: Option<Phase>,
    resetting: bool,
    /// Whether the controller is in the middle of a tuning.
    pub tuning: bool,
    pub present: bool,
    presence_event: bool,
    pub resets: u32,
    pub unsent_irq: bool,
    /// The open transfer, of which the card has not seen the end: direction and next block.
    pub open: Option<(Direction, u64)>,
    /// Blocks left of the count that CMD23 has set for the open transfer; 0: no CMD23 was sent.
    counted: u32,
    /// Number of continuations of an open transfer that fail.
    pub refuse_continue: u32,
    /// Whether the controller requests a new tuning at the next interrupt.
    pub retune: bool,
    /// Content of the other partitions, by their access bits.
    pub areas: HashMap<u8, Vec<u8>>,
    /// Access bits of the partition that CMD6 has switched to.
    pub area: u8,
    /// The bits of PARTITION_CONFIG other than the access bits.
    pub boots: u8,
    /// The model of the replay-protected area, which receives and sends frames.
    pub rpmb: Option<Frames>,
    /// The model of the extension registers, which receives (CMD49) and sends (CMD48) pages.
    pub register: Option<Frames>,
    /// First and last address of an erase, from CMD35 or CMD32 and from CMD36 or CMD33.
    erase: (u64, u64),
    /// A command whose phases fail: its index, the number of its phases that still succeed, and the
    /// cause.
    pub strike: Option<(u8, u32, Cause)>,
    /// Number of phases of that command that fail.
    pub strikes: u32,
    /// Number of starts that are refused because the lines are in use.
    pub refuse_starts: u32,
    /// Whether the command that was started last never leaves the controller until a reset.
    pub hangs: bool,
    /// Whether resets of the lines fail, and whether resets of the whole controller fail.
    pub fails_resets: (bool, bool),
    /// A function that the driver calls in each of its own calls, as a real driver calls its
    /// registers and its memory.
    pub called: Option<fn()>,
    /// Number of bytes by which the controller misses the memory of a read.
    pub beside: isize,
}

impl World {
    pub fn new(blocks: u64) -> Rc<RefCell<World>> {
        Rc::new(RefCell::new(World {
            medium: vec![0; blocks as usize * 512],
            caps: caps(),
            log: Vec::new(),
            bad: HashMap::new(),
            bad_for_writes: false,
            bad_says: 0,
            faults: HashMap::new(),
            stuck_state: None,
            resets_of_all: 0,
            next_status: 0,
            status_after_next: 0,
            silent: false,
            busy_polls: 0,
            still_busy: 0,
            mapped: Vec::new(),
            running: None,
            resetting: false,
            tuning: false,
            present: true,
            presence_event: false,
            resets: 0,
            unsent_irq: false,
            open: None,
            counted: 0,
            refuse_continue: 0,
            retune: false,
            areas: HashMap::new(),
            boots: 0,
            area: 0,
            rpmb: None,
            register: None,
            erase: (0, 0),
            strike: None,
            strikes: 1,
            refuse_starts: 0,
            hangs: false,
            fails_resets: (false, false),
            called: None,
            beside: 0,
        }))
    }

    /// Returns whether a phase has started and not ended.
    pub fn running(&self) -> bool {
        self.running.is_some()
    }

    pub fn mapped(&self) -> usize {
        self.mapped.len()
    }

    pub fn remove(&mut self) {
        self.present = false;
        self.presence_event = true;
    }

    pub fn insert(&mut self) {
        self.present = true;
        self.presence_event = true;
    }

    /// Returns the data commands that the card has seen.
    pub fn transfers(&self) -> Vec<Seen> {
        self.log.iter().filter(|s| matches!(s.index, 17 | 18 | 24 | 25)).cloned().collect()
    }
}

pub fn caps() -> Caps {
    Caps::NONE
        .auto_stop(true)
        .auto_count(true)
        .no_count(false)
        .busy(BusyDetect::Interrupt)
        .max_busy_ns(1_000_000_000)
        .max_segments(128)
        .max_segment_bytes(65_536)
        .max_block_bytes(512)
        .max_blocks(65_535)
        .max_bytes(524_288)
        .align(4)
        .dma_bits(32)
        .clock_hz((400_000, 200_000_000))
        .width(Width::W8)
        .timings(Caps::timing_bit(Timing::Legacy))
        .fixed(true)
}

pub fn target(blocks: u64) -> mmcq::engine::CardParams {
    mmcq::engine::CardParams::sd(1, blocks).emmc(true).write_timeout_ns(250_000_000)
}

/// Makes the methods of a wrapper of the tests' host (its field `host`) that pass each call on
/// unchanged.
#[allow(unused_macros, reason = "not every test has such a host")]
macro_rules! handed_on {
    () => {
        fn caps(&self) -> &Caps {
            self.host.caps()
        }
        fn map(&mut self, segment: &mut Segment, direction: Direction) -> Result<(), DmaError> {
            self.host.map(segment, direction)
        }
        fn unmap(&mut self, segment: &Segment, direction: Direction) {
            self.host.unmap(segment, direction);
        }
    };
}

#[allow(unused_imports, reason = "as above")]
pub(crate) use handed_on;

/// Makes the methods for the bus and for the card's presence that pass each call on unchanged.
#[allow(unused_macros, reason = "as above")]
macro_rules! bus_handed_on {
    () => {
        fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
            self.host.set_bus(op, first, now_ns)
        }
        fn dat0_busy(&self) -> bool {
            self.host.dat0_busy()
        }
        fn present(&self) -> bool {
            self.host.present()
        }
    };
}

#[allow(unused_imports, reason = "as above")]
pub(crate) use bus_handed_on;

pub struct TestHost {
    pub world: Rc<RefCell<World>>,
    caps: Caps,
}

impl TestHost {
    pub fn new(world: &Rc<RefCell<World>>) -> Self {
        TestHost { world: world.clone(), caps: world.borrow().caps }
    }
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl Host for TestHost {
    const CONTINUES: bool = true;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        self.called();
        let mut world = self.world.borrow_mut();
        if !(segment.ptr().as_ptr() as usize).is_multiple_of(4) {
            return Err(DmaError::Alignment);
        }
        segment.set_bus(segment.ptr().as_ptr() as u64);
        world.mapped.push((segment.bus() as usize, segment.len_bytes()));
        Ok(())
    }

    fn unmap(&mut self, segment: &Segment, _: Direction) {
        self.called();
        let mut world = self.world.borrow_mut();
        let at = world.mapped.iter().position(|&m| m == (segment.bus() as usize, segment.len_bytes()));
        world.mapped.remove(at.expect("unmapped what was never mapped"));
    }

    fn start(&mut self, phase: &Phase, segments: &[Segment], _: u64) -> Result<(), StartError> {
        self.called();
        let mut world = self.world.borrow_mut();
        assert!(world.running.is_none(), "{phase:?} started while {:?} runs", world.running);
        if world.resetting {
            return Err(StartError::CommandLine);
        }
        if world.refuse_starts > 0 {
            world.refuse_starts -= 1;
            return Err(StartError::CommandLine);
        }
        for s in segments {
            let inside = |&(at, len): &(usize, u32)| {
                s.bus() as usize >= at && s.bus() as usize + s.len_bytes() as usize <= at + len as usize
            };
            assert!(world.mapped.iter().any(inside), "segment is not mapped");
        }
        let blocks = phase.data.map_or(0, |d| d.blocks);
        if let Some(data) = phase.data {
            let bytes: u32 = segments.iter().map(|s| s.len_bytes()).sum();
            assert_eq!(bytes, data.blocks * u32::from(data.block_size), "segments do not make up the data");
            assert_eq!(world.still_busy, 0, "data command to a busy card");
            assert!(!world.tuning || phase.tuning, "CMD{} in the middle of a tuning", phase.command.index);
        }
        let index = phase.command.index;
        let continued = phase.auto == Auto::Continue;
        match (world.open, continued) {
            (Some((direction, next)), true) => {
                let data = phase.data.expect("nothing to continue with");
                assert_eq!(
                    (direction, next),
                    (data.direction, u64::from(phase.command.arg)),
                    "another transfer is open"
                );
            }
            (None, true) => panic!("nothing is open that could be continued"),
            (Some(_), false) => assert!(matches!(index, 12 | 13), "CMD{index} while a transfer is open"),
            (None, false) => {}
        }
        let seen = Seen { index, arg: phase.command.arg, blocks, segments: segments.len(), continued };
        world.log.push(seen);
        world.running = Some(*phase);
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        self.called();
        let (nth, running) = (self.world.borrow().log.len(), self.world.borrow().running());
        let fault =
            self.world.borrow().faults.get(&nth).copied().filter(|_| running && !self.world.borrow().silent);
        let Some((cause, stage, executed)) = fault else { return self.executed(segments) };
        let events = if executed { self.executed(segments) } else { Events::default() };
        self.world.borrow_mut().running = None;
        Events { phase: Some(Err(Fault { cause, stage, response: None })), ..events }
    }

    fn set_bus(&mut self, op: BusOp, first: bool, now_ns: u64) -> Step {
        let mut world = self.world.borrow_mut();
        if matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
            if first {
                world.resets += 1;
                world.resets_of_all += u32::from(op == BusOp::ResetAll);
                let (lines, all) = world.fails_resets;
                if if op == BusOp::ResetAll { all } else { lines } {
                    return Step::Failed;
                }
                world.resetting = true;
                return Step::Wait(now_ns + 1_000);
            }
            (world.silent, world.hangs) = (world.silent && !world.hangs, false);
            world.tuning &= op != BusOp::ResetAll;
            world.resetting = false;
            world.running = None;
            world.still_busy = 0;
        }
        match op {
            BusOp::TuneStart => world.tuning = true,
            BusOp::TuneAbort => world.tuning = false,
            _ => {}
        }
        Step::Done
    }

    fn command_hangs(&self) -> bool {
        self.world.borrow().hangs
    }

    fn dat0_busy(&self) -> bool {
        let mut world = self.world.borrow_mut();
        let busy = world.still_busy > 0;
        world.still_busy = world.still_busy.saturating_sub(1);
        busy
    }

    fn present(&self) -> bool {
        self.world.borrow().present
    }
}

impl TestHost {
    /// Calls [`World::called`], while nothing of the driver is borrowed.
    fn called(&self) {
        let called = self.world.borrow().called;
        if let Some(called) = called {
            called();
        }
    }

    fn executed(&mut self, segments: &[Segment]) -> Events {
        let mut world = self.world.borrow_mut();
        let mut events = Events { presence: std::mem::take(&mut world.presence_event), ..Events::default() };
        if world.silent || !world.present {
            return events;
        }
        events.retune = std::mem::take(&mut world.retune);
        let Some(phase) = world.running.take() else { return events };
        let index = phase.command.index;
        if let Some((struck, left, cause)) = world.strike
            && struck == index
        {
            world.strike = Some((struck, left.saturating_sub(1), cause));
            if left == 0 {
                world.strikes -= 1;
                if world.strikes == 0 {
                    world.strike = None;
                }
                let stage = if phase.data.is_some() { Stage::Data } else { Stage::Command };
                events.phase = Some(Err(Fault { cause, stage, response: None }));
                return events;
            }
        }
        if phase.auto == Auto::Continue && world.refuse_continue > 0 {
            world.refuse_continue -= 1;
            let fault = Fault { cause: Cause::Dma, stage: Stage::Data, response: None };
            events.phase = Some(Err(fault));
            return events;
        }
        if index == 12 && world.open.is_none() {
            // Illegal in `tran`: no answer.
            let fault = Fault { cause: Cause::Timeout, stage: Stage::Command, response: None };
            events.phase = Some(Err(fault));
            return events;
        }
        if world.open.is_none() && !matches!(index, 18 | 25) {
            // CMD23 is for the next command alone.
            world.counted = 0;
        }
        match index {
            12 => {
                world.counted = 0;
                let wrote = world.open.take().is_some_and(|(direction, _)| direction == Direction::Write);
                if wrote && !matches!(self.caps.busy, BusyDetect::Interrupt | BusyDetect::Response) {
                    world.still_busy = world.busy_polls;
                }
            }
            23 => world.counted = phase.command.arg & 0xffff,
            6 if phase.command.arg >> 16 & 0xff == 179 => {
                let (before, value) = (world.boots | world.area, (phase.command.arg >> 8) as u8);
                let config = match phase.command.arg >> 24 & 3 {
                    1 => before | value,
                    2 => before & !value,
                    _ => value,
                };
                (world.boots, world.area) = (config & !7, config & 7);
            }
            32 | 35 => world.erase.0 = phase.command.arg.into(),
            33 | 36 => world.erase.1 = phase.command.arg.into(),
            38 => {
                let (first, last) = world.erase;
                world.medium[first as usize * 512..(last as usize + 1) * 512].fill(0);
            }
            _ => {}
        }
        let next = std::mem::take(&mut world.status_after_next);
        let mut status = READY | std::mem::replace(&mut world.next_status, next);
        if index == 13 && world.still_busy > 0 {
            world.still_busy -= 1;
            status = PROGRAMMING;
        }
        if index == 13
            && let Some((direction, _)) = world.open
        {
            let state = if direction == Direction::Read { 5 } else { 6 };
            status = status & !(0xf << 9) | state << 9;
        }
        if let Some(state) = world.stuck_state.filter(|_| index == 13) {
            status = status & !(0xf << 9 | R1::READY_FOR_DATA) | state;
        }
        if let (48 | 49, Some(data), Some(register), [segment, ..]) =
            (index, phase.data, world.register.as_mut(), segments)
        {
            // SAFETY: the engine owns the memory and lends it until the transfer ends.
            register(data.direction, unsafe {
                std::slice::from_raw_parts_mut(segment.ptr().as_ptr(), segment.len_bytes() as usize)
            });
        }
        let response = Response::short(status);
        let mut done = Done { response, ..Done::default() };
        if let Some(Data { direction, blocks, .. }) = phase.data
            && matches!(index, 17 | 18 | 24 | 25)
        {
            let first = u64::from(phase.command.arg);
            let spared = world.bad_for_writes && direction == Direction::Read;
            if !spared
                && let Some(&cause) =
                    (first..first + u64::from(blocks)).find_map(|block| world.bad.get(&block))
            {
                if matches!(index, 18 | 25) {
                    world.open = Some((direction, first));
                    world.counted = 0;
                }
                world.next_status |= world.bad_says;
                events.phase = Some(Err(Fault { cause, stage: Stage::Data, response: Some(response) }));
                return events;
            }
            let mut at = first as usize * 512;
            let area = world.area;
            for s in segments {
                let World { medium, areas, rpmb, beside, .. } = &mut *world;
                if let (3, Some(rpmb)) = (area, rpmb) {
                    // SAFETY: as below.
                    rpmb(direction, unsafe {
                        std::slice::from_raw_parts_mut(s.ptr().as_ptr(), s.len_bytes() as usize)
                    });
                    continue;
                }
                let medium =
                    if area == 0 { medium } else { areas.get_mut(&area).expect("no such partition") };
                let memory = &mut medium[at..at + s.len_bytes() as usize];
                // SAFETY: the engine owns the memory and lends it until the transfer ends.
                let buffer = unsafe {
                    let at = s.ptr().as_ptr().offset(*beside);
                    std::slice::from_raw_parts_mut(at, s.len_bytes() as usize)
                };
                match direction {
                    Direction::Read => buffer.copy_from_slice(memory),
                    Direction::Write => memory.copy_from_slice(buffer),
                }
                at += s.len_bytes() as usize;
            }
            let counted = world.counted;
            world.counted = counted.saturating_sub(blocks);
            assert!(counted == 0 || counted >= blocks, "more blocks than CMD23 said");
            let by_itself = matches!(index, 17 | 24) || counted == blocks;
            let ends = by_itself || !matches!(phase.auto, Auto::None | Auto::Open | Auto::Continue);
            world.open = (!ends).then_some((direction, first + u64::from(blocks)));
            if direction == Direction::Write && self.caps.busy != BusyDetect::Interrupt && ends {
                world.still_busy = world.busy_polls;
            }
            if phase.auto == Auto::Stop {
                done.stop = Some(READY);
            }
        }
        events.phase = Some(Ok(done));
        events
    }
}

thread_local! {
    /// Claims of all buffers that this test has made.
    static CLAIMS: RefCell<Vec<Claim>> = const { RefCell::new(Vec::new()) };
}

/// Returns a buffer that lives for ever, with `blocks` blocks of bytes with the value `fill`.
pub fn buffer(blocks: u32, fill: u8) -> DmaBuf {
    let bytes = blocks * 512;
    // SAFETY: the memory is no other owner's, and is never given up.
    claimed(unsafe { DmaBuf::from_raw(Guarded::leaked(bytes as usize, fill), bytes) })
}

/// Returns a read into memory that has other content than the card.
pub fn read(lba: u64, blocks: u32) -> Request {
    Request::new(Kind::Read { lba, blocks }, buffer(blocks, 0xee))
}

/// Returns a write of blocks whose bytes all have the value `fill`.
pub fn write(lba: u64, blocks: u32, fill: u8) -> Request {
    Request::new(Kind::Write { lba, blocks }, buffer(blocks, fill))
}

/// Returns a partition access with a switch of up to 10 ms that writes `out` blocks and reads
/// `back` blocks.
pub fn partition_access(config: u8, lba: u32, out: u16, back: u16) -> Kind {
    Kind::PartitionAccess(PartitionAccess {
        config,
        switch_ns: 10_000_000,
        lba,
        out,
        reliable: false,
        ask: false,
        back,
    })
}

/// Stores the claim of a buffer, so that [`reclaimed`] finds the buffer.
pub fn claimed(buf: DmaBuf) -> DmaBuf {
    CLAIMS.with_borrow_mut(|claims| claims.push(buf.claim()));
    buf
}

/// Takes back the next of this test's buffers whose request was dropped; `None`: there is none.
pub fn reclaimed(mut reclaim: impl FnMut(Claim) -> Option<DmaBuf>) -> Option<DmaBuf> {
    CLAIMS.with_borrow(|claims| claims.iter().find_map(|&claim| reclaim(claim)))
}

//! A model of a controller with an I/O card, in the tests' virtual time. CCCR, FBR and CIS are one
//! memory, function 1 is a Bluetooth Type-A device, the other functions are plain memory. On
//! request the card is a combo card with SD memory.
//!
//! The model checks what a card requires: one phase at a time, the block sizes that were set, and
//! the order of the steps with which a Type-A packet is received.

#![allow(dead_code, reason = "each test binary uses its own part")]

use crate::one_thread::NOW_NS;
use mmcq::host::{
    BlockSizes, BusOp, BusyDetect, Caps, Cause, Data, Direction, DmaError, Done, Events, Fault, Host, Phase,
    Segment, Stage, StartError, Step, Timing, Width,
};
use mmcq::spec::command::Command;
use mmcq::spec::response::Response;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// R1 of a card in the state `tran`, ready for data.
const READY: u32 = 4 << 9 | 1 << 8;
const CSD: [u32; 4] = [0x400e_0032, 0x5b59_0000, 0x73a7_7f80, 0x0a40_0000];
/// Time from the end of a phase on the wire to its interrupt, in nanoseconds.
pub const HOST_NS: u64 = 1_000;

/// State of the Bluetooth Type-A function.
#[derive(Default)]
pub struct TypeA {
    pub incoming: VecDeque<Vec<u8>>,
    pub sent: Vec<Vec<u8>>,
    /// Number of packets that were acknowledged without being read.
    pub given_up: u32,
    pub retries: u32,
    pub write_retries: u32,
    at: usize,
    partial: Vec<u8>,
    interrupt: bool,
    /// Whether an interrupt has reported the first packet.
    shown: bool,
    enabled: bool,
}

impl TypeA {
    fn show(&mut self) {
        if !self.shown && !self.incoming.is_empty() {
            (self.shown, self.interrupt) = (true, true);
        }
    }

    fn read(&mut self, addr: u32) -> u8 {
        match addr {
            0x00 => {
                assert!(!self.interrupt, "data are read before the interrupt was cleared");
                let byte = self.incoming.front().and_then(|packet| packet.get(self.at)).copied();
                self.at += 1;
                byte.unwrap_or(0xee)
            }
            0x13 => u8::from(self.interrupt),
            _ => 0,
        }
    }

    fn write(&mut self, addr: u32, value: u8) {
        match (addr, value) {
            (0x00, _) => {
                self.partial.push(value);
                let header = self.partial.first_chunk().map(|&[a, b, c, _]| u32::from_le_bytes([a, b, c, 0]));
                if header.is_some_and(|bytes| self.partial.len() >= bytes as usize) {
                    self.sent.push(std::mem::take(&mut self.partial));
                }
            }
            (0x10, 0) => {
                let packet = self.incoming.pop_front();
                self.given_up += u32::from(packet.is_some_and(|packet| self.at < packet.len()));
                (self.at, self.shown) = (0, false);
            }
            (0x10, _) => {
                self.retries += 1;
                (self.at, self.shown) = (0, false);
            }
            (0x11, 1) => {
                self.write_retries += 1;
                self.partial.clear();
            }
            (0x13, value) => self.interrupt &= value & 1 == 0,
            (0x14, value) => self.enabled = value & 1 != 0,
            _ => {}
        }
    }
}

pub struct World {
    pub caps: Caps,
    /// Time that the host adds to each phase, in nanoseconds.
    pub host_ns: u64,
    /// The registers of function 0.
    pub f0: Vec<u8>,
    pub functions: u8,
    /// Whether the card sets S18A: it can switch to 1.8 V.
    pub s18a: bool,
    /// Number of CMD5 during which the card is still powering up.
    pub powering: u32,
    /// Content of a combo card's memory; `None`: the card has no memory.
    pub medium: Option<Vec<u8>>,
    /// Whether the memory refuses ACMD6 (true) or does not respond to it (false); `None`: the
    /// memory accepts it.
    pub refuses_width: Option<bool>,
    /// Whether the card does not respond at all.
    pub absent: bool,
    pub log: Vec<(u64, Command)>,
    /// Failures of later CMD53: the number of the CMD53, and the cause.
    pub faults: HashMap<u32, Cause>,
    pub data_phases: u32,
    /// Flags that the next R5 has.
    pub flags: u32,
    /// Functions that never become ready, bit n for function n.
    pub never_ready: u8,
    /// Number of tuning blocks until the sampling point is found; `None`: it is never found.
    pub tuning_blocks: Option<u32>,
    pub type_a: TypeA,
    /// Registers of the other functions, by function and address.
    pub ram: HashMap<(u8, u32), u8>,
    pub fifos: HashMap<(u8, u32), VecDeque<u8>>,
    /// Functions that request attention, bit n for function n.
    pub asserts: u8,
    pub resets: u32,
    pub bus: (Timing, Width, u32, bool),
    /// Whether the engine has enabled the card interrupt.
    listening: bool,
    pub listened: u32,
    running: Option<(Phase, u64)>,
    selected: bool,
    app: bool,
    switching: bool,
    mapped: usize,
}

pub fn caps() -> Caps {
    let bit = Caps::timing_bit;
    Caps::NONE
        .auto_stop(true)
        .auto_count(true)
        .no_count(false)
        .busy(BusyDetect::Interrupt)
        .max_busy_ns(1_000_000_000)
        .max_segments(16)
        .max_segment_bytes(65_536)
        .max_block_bytes(2048)
        .max_blocks(65_535)
        .max_bytes(65_536)
        .align(4)
        .dma_bits(32)
        .clock_hz((400_000, 208_000_000))
        .width(Width::W4)
        .timings(
            bit(Timing::Legacy)
                | bit(Timing::HighSpeed)
                | bit(Timing::Sdr12)
                | bit(Timing::Sdr25)
                | bit(Timing::Sdr50)
                | bit(Timing::Sdr104)
                | bit(Timing::Ddr50),
        )
        .fixed(true)
}

/// Returns a CISTPL_FUNCE of a function, with this largest block size and this time to become ready
/// in units of 10 ms.
pub fn function_tuple(max_block: u16, enable_10ms: u16) -> Vec<u8> {
    let mut body = vec![0; 42];
    body[0] = 1;
    body[12..14].copy_from_slice(&max_block.to_le_bytes());
    body[28..30].copy_from_slice(&enable_10ms.to_le_bytes());
    [vec![0x22, 42], body].concat()
}

impl World {
    /// Makes a full-speed card of SDIO 3.00 with this number of functions; function 1 is Bluetooth
    /// Type-A.
    pub fn new(functions: u8) -> Rc<RefCell<World>> {
        let mut world = World {
            caps: caps(),
            host_ns: HOST_NS,
            f0: vec![0; 1 << 17],
            functions,
            s18a: false,
            powering: 2,
            medium: None,
            refuses_width: None,
            absent: false,
            log: Vec::new(),
            faults: HashMap::new(),
            data_phases: 0,
            flags: 0,
            never_ready: 0,
            tuning_blocks: Some(3),
            type_a: TypeA::default(),
            ram: HashMap::new(),
            fifos: HashMap::new(),
            asserts: 0,
            resets: 0,
            bus: (Timing::Legacy, Width::W1, 0, false),
            listening: false,
            listened: 0,
            running: None,
            selected: false,
            app: false,
            switching: false,
            mapped: 0,
        };
        world.f0[..2].copy_from_slice(&[0x43, 3]);
        world.f0[8..12].copy_from_slice(&[0x17, 0, 0x10, 0]);
        world.f0[0x13..0x17].copy_from_slice(&[1, 7, 0, 1]);
        let common = [0x21, 2, 0x0c, 0, 0x20, 4, 0x92, 0x02, 0x21, 0x43, 0x22, 4, 0, 0, 2, 0x32, 0xff];
        world.put(0x1000, &common);
        for number in 1..=functions {
            let (fbr, cis) = (usize::from(number) << 8, 0x2000 + 0x100 * u32::from(number));
            world.f0[fbr] = if number == 1 { 2 } else { 7 };
            world.put(fbr as u32 + 9, &cis.to_le_bytes()[..3]);
            world.put(cis, &[&function_tuple(512, 10)[..], &[0x91, 2, 9, 9, 0xff]].concat());
        }
        Rc::new(RefCell::new(world))
    }

    pub fn put(&mut self, at: u32, bytes: &[u8]) {
        self.f0[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the CMD52 and CMD53 in the log from entry `from` on, as (index, function, address,
    /// write).
    pub fn accesses(&self, from: usize) -> Vec<(u8, u8, u32, bool)> {
        let io = self.log[from..].iter().filter(|(_, command)| matches!(command.index, 52 | 53));
        io.map(|(_, c)| (c.index, (c.arg >> 28 & 7) as u8, c.arg >> 9 & 0x1_ffff, c.arg >> 31 != 0)).collect()
    }

    pub fn mapped(&self) -> usize {
        self.mapped
    }

    fn level(&mut self) -> bool {
        self.pending() & self.f0[4] & 0xfe != 0 && self.f0[4] & 1 != 0
    }

    /// Returns the pending interrupts, as in CCCR INTx.
    fn pending(&mut self) -> u8 {
        self.type_a.show();
        let one = self.type_a.interrupt && self.type_a.enabled && self.f0[2] & 2 != 0;
        self.asserts & 0xfc | u8::from(one) << 1
    }

    fn read(&mut self, function: u8, addr: u32, fifo: bool) -> u8 {
        match (function, addr) {
            (0, 3) => self.f0[2] & !self.never_ready,
            (0, 5) => self.pending(),
            (0, _) => self.f0[addr as usize],
            (1, 0..0x40) => self.type_a.read(addr),
            _ if fifo => self.fifos.entry((function, addr)).or_default().pop_front().unwrap_or(0xee),
            _ => self.ram.get(&(function, addr)).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, function: u8, addr: u32, value: u8, fifo: bool) {
        match (function, addr) {
            (0, 6) if value & 8 != 0 => {
                self.resets += 1;
                self.f0[2] = 0;
                self.f0[4] = 0;
            }
            (0, 2 | 4 | 7 | 0x10 | 0x11) => self.f0[addr as usize] = value,
            (0, 0x13) => self.f0[0x13] = self.f0[0x13] & 1 | value & 0x0e,
            (0, 0x16) => self.f0[0x16] = self.f0[0x16] & 1 | value & 2,
            (0, 0x110..0x800) if addr & 0xfe == 0x10 => self.f0[addr as usize] = value,
            (0, _) => {}
            (1, 0..0x40) => self.type_a.write(addr, value),
            _ if fifo => self.fifos.entry((function, addr)).or_default().push_back(value),
            _ => drop(self.ram.insert((function, addr), value)),
        }
    }

    fn io(&mut self, phase: &Phase, segments: &[Segment]) -> Option<Result<u32, Cause>> {
        let arg = phase.command.arg;
        let (function, addr, write) = ((arg >> 28 & 7) as u8, arg >> 9 & 0x1_ffff, arg >> 31 != 0);
        if !self.selected && addr != 6 {
            return None;
        }
        let flags = 0x1000 | std::mem::take(&mut self.flags);
        if function > self.functions {
            return Some(Ok(flags | 0x0200));
        }
        if phase.command.index == 52 {
            if write {
                self.write(function, addr, arg as u8, false);
            }
            let data = if write && arg >> 27 & 1 == 0 { arg as u8 } else { self.read(function, addr, false) };
            return Some(Ok(flags | u32::from(data)));
        }
        let data = phase.data.expect("CMD53 without data");
        let (by_blocks, fifo) = (arg >> 27 & 1 != 0, arg >> 26 & 1 == 0);
        let count = match (arg & 0x1ff, by_blocks) {
            (0, false) => 512,
            (0, true) => panic!("endless"),
            (count, _) => count,
        };
        if by_blocks {
            let fbr = (usize::from(function) << 8) + 0x10;
            let size = u16::from_le_bytes([self.f0[fbr], self.f0[fbr + 1]]);
            assert_eq!((data.block_size, data.blocks), (size, count), "block mode");
        } else {
            assert_eq!((u32::from(data.block_size), data.blocks), (count, 1), "byte mode");
        }
        if self.f0[2] >> function & 1 == 0 {
            return Some(Ok(flags | 0x0800));
        }
        let bytes = u32::from(data.block_size) * data.blocks;
        assert!(!write || data.direction == Direction::Write);
        assert_eq!(segments.iter().map(|s| s.len_bytes()).sum::<u32>(), bytes);
        let at = |i: u32| if fifo { addr } else { addr + i };
        assert!(at(bytes - 1) < 1 << 17, "beyond the last register");
        let fault = self.faults.get(&self.data_phases).copied();
        self.data_phases += 1;
        // SAFETY: the engine owns the memory and lends it until the transfer ends.
        let memory = unsafe { std::slice::from_raw_parts_mut(segments[0].ptr().as_ptr(), bytes as usize) };
        for (i, byte) in (0..).zip(memory) {
            if write {
                self.write(function, at(i), *byte, fifo);
            } else {
                *byte = self.read(function, at(i), fifo) ^ if fault.is_some() { 0x55 } else { 0 };
            }
        }
        Some(fault.map_or(Ok(flags), Err))
    }

    fn memory(&mut self, phase: &Phase, segments: &[Segment], app: bool) -> Option<Response> {
        let medium = self.medium.as_mut()?;
        let Command { index, arg, .. } = phase.command;
        let give = |bytes: &[u8]| {
            // SAFETY: as in `io`.
            let memory = unsafe { std::slice::from_raw_parts_mut(segments[0].ptr().as_ptr(), bytes.len()) };
            memory.copy_from_slice(bytes);
        };
        match (index, app) {
            (41, true) => return Some(Response::short(0xc0ff_8000)),
            (8, _) => return Some(Response::short(arg & 0xfff)),
            (2, _) => return Some(Response { words: [0x0353_4442; 4] }),
            (9, _) => return Some(Response { words: CSD }),
            (6, true) if arg == 2 && self.refuses_width.is_some() => {
                let answers = self.refuses_width == Some(true);
                return answers.then_some(Response::short(READY | 1 << 31));
            }
            (51, true) => give(&[2, 0x35, 0x80, 2, 0, 0, 0, 0]),
            (13, true) => give(&[0; 64]),
            (6, false) => {
                let mut status = [0; 64];
                (status[1], status[13], status[16]) = (100, 3, (arg & 0xf).min(1) as u8);
                give(&status);
            }
            (17 | 18, _) => {
                let bytes: u32 = segments.iter().map(|s| s.len_bytes()).sum();
                let from = arg as usize * 512;
                give(&medium[from..from + bytes as usize]);
            }
            (24 | 25, _) => {
                let mut from = arg as usize * 512;
                for s in segments {
                    // SAFETY: as in `io`.
                    let memory =
                        unsafe { std::slice::from_raw_parts(s.ptr().as_ptr(), s.len_bytes() as usize) };
                    medium[from..from + memory.len()].copy_from_slice(memory);
                    from += memory.len();
                }
            }
            _ => {}
        }
        Some(Response::short(READY))
    }

    /// Executes the phase's command on the card. Returns its result; `None`: the card does not
    /// respond.
    fn answer(&mut self, phase: &Phase, segments: &[Segment]) -> Option<Result<Done, Cause>> {
        let app = std::mem::take(&mut self.app);
        let Command { index, arg, .. } = phase.command;
        if self.absent {
            return (index == 0).then(|| Ok(Done::default()));
        }
        let mut done = Done::default();
        done.response = match index {
            0 => Response::default(),
            3 => Response::short(0xb368_0500),
            5 if app => return None,
            5 => {
                let ready = arg & 0xff_ffff != 0 && self.powering == 0;
                if arg & 0xff_ffff != 0 {
                    self.powering = self.powering.saturating_sub(1);
                }
                let s18 = u32::from(ready && self.s18a && arg >> 24 & 1 != 0) << 24;
                let memory = u32::from(self.medium.is_some()) << 27;
                let ocr = 0x00ff_8000 | u32::from(self.functions) << 28 | memory | s18;
                Response::short(ocr | u32::from(ready) << 31)
            }
            7 => {
                self.selected = arg >> 16 == 0xb368;
                Response::short(if self.medium.is_some() { 3 << 9 | 1 << 8 } else { 0x1e00 })
            }
            11 if self.s18a => {
                self.switching = true;
                Response::short(0x1e00)
            }
            19 if self.bus.3 => {
                assert!(phase.tuning && self.bus.2 > 50_000_000 && self.bus.1 == Width::W4);
                let left = self.tuning_blocks.map(|left| left.saturating_sub(1));
                self.tuning_blocks = left;
                if left != Some(0) {
                    // The sampling point is bad: the card receives a damaged command, which shows
                    // in its next R5.
                    self.flags = 0x8000;
                    return Some(Err(Cause::Crc));
                }
                done.tuned = true;
                Response::short(0x1e00)
            }
            52 | 53 => match self.io(phase, segments)? {
                Ok(r5) => Response::short(r5),
                Err(cause) => return Some(Err(cause)),
            },
            55 if self.medium.is_some() => {
                self.app = true;
                Response::short(READY | 1 << 5)
            }
            _ => self.memory(phase, segments, app)?,
        };
        Some(Ok(done))
    }
}

/// The driver of this controller. With `HEARS` it has a card interrupt.
pub struct IoHost<const HEARS: bool = true> {
    pub world: Rc<RefCell<World>>,
    caps: Caps,
}

// SAFETY: memory is touched in `ack` alone, inside the segments of the phase that it ends.

unsafe impl<const HEARS: bool> Host for IoHost<HEARS> {
    const CARD_IRQ: bool = HEARS;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn map(&mut self, segment: &mut Segment, _: Direction) -> Result<(), DmaError> {
        if !(segment.ptr().as_ptr() as usize).is_multiple_of(self.caps.align as usize) {
            return Err(DmaError::Alignment);
        }
        segment.set_bus(segment.ptr().as_ptr() as u64);
        self.world.borrow_mut().mapped += 1;
        Ok(())
    }

    fn unmap(&mut self, _: &Segment, _: Direction) {
        self.world.borrow_mut().mapped -= 1;
    }

    fn start(&mut self, phase: &Phase, _: &[Segment], _: u64) -> Result<(), StartError> {
        let mut world = self.world.borrow_mut();
        assert!(world.running.is_none(), "two phases at a time");
        if let Some(Data { block_size, blocks, .. }) = phase.data {
            let odd = world.caps.block_sizes == BlockSizes::PowersOfTwo && !block_size.is_power_of_two();
            if odd || blocks > 1 && !world.caps.moves_blocks_of(block_size) {
                return Err(StartError::Unsupported);
            }
        }
        let (_, width, hz, _) = world.bus;
        assert!(hz > 0, "no clock");
        let lines = if width == Width::W4 { 4 } else { 1 };
        let clocks = phase.data.map_or(0, |Data { block_size, blocks, .. }| {
            u64::from(blocks) * (u64::from(block_size) * 8 / lines + 24)
        });
        let now = NOW_NS.get();
        world.log.push((now, phase.command));
        world.running = Some((*phase, now + (112 + clocks) * 1_000_000_000 / u64::from(hz) + world.host_ns));
        Ok(())
    }

    fn ack(&mut self, segments: &[Segment]) -> Events {
        let mut world = self.world.borrow_mut();
        let mut events = Events::default();
        if let Some((phase, end_ns)) = world.running
            && end_ns <= NOW_NS.get()
        {
            world.running = None;
            let lost = |cause, stage| Err(Fault { cause, stage, response: None });
            events.phase = Some(match world.answer(&phase, segments) {
                Some(Ok(done)) => Ok(done),
                Some(Err(cause)) => lost(cause, Stage::Data),
                None => lost(Cause::Timeout, Stage::Command),
            });
        }
        if HEARS && world.listening && world.level() {
            world.listening = false;
            events.card_irq = true;
        }
        events
    }

    fn set_bus(&mut self, op: BusOp, _: bool, _: u64) -> Step {
        let mut world = self.world.borrow_mut();
        match op {
            BusOp::PowerOff => {
                (world.selected, world.switching) = (false, false);
                world.f0[0x13] &= 1;
            }
            BusOp::Clock(hz) => {
                world.bus.2 = hz;
                world.switching &= !(world.bus.3 && hz > 0);
            }
            BusOp::Width(width) => world.bus.1 = width,
            BusOp::Timing(timing) => world.bus.0 = timing,
            BusOp::Signal18(on) => world.bus.3 = on,
            BusOp::ResetLines | BusOp::ResetAll => world.running = None,
            _ => {}
        }
        Step::Done
    }

    fn dat0_busy(&self) -> bool {
        self.world.borrow().switching
    }

    fn present(&self) -> bool {
        true
    }

    fn card_irq(&mut self, on: bool) {
        let mut world = self.world.borrow_mut();
        world.listened += u32::from(on);
        world.listening = on;
    }
}

impl<const HEARS: bool> IoHost<HEARS> {
    pub fn new(world: &Rc<RefCell<World>>) -> Self {
        IoHost { world: world.clone(), caps: world.borrow().caps }
    }

    /// Returns when the phase in progress ends (`None`: never, or no phase is in progress), and
    /// whether a card interrupt is pending and enabled.
    pub fn due(&self) -> (Option<u64>, bool) {
        let mut world = self.world.borrow_mut();
        (world.running.map(|(_, end_ns)| end_ns), HEARS && world.listening && world.level())
    }
}

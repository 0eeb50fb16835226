//! Tests of every combination of status bits in every state of the SDHCI driver: the driver does
//! not panic, ends a phase at most one time, and never leaves the interrupt line asserted.
//!
//! Of errors that are handled alike, one bit is tested (2^17 words for every state). With
//! `MMCQ_FUZZ_MS` set, as in the long check, all bits that the standard defines are combined (2^21
//! words).

use mmcq::host::sdhci::regs::*;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table, TransferMode};
use mmcq::host::{Auto, BusOp, Data, Direction, Dma, DmaError, Host, Phase, Regs, Segment, Step};
use mmcq::spec::command::{Command, Resp};
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

/// Registers that latch the enabled status bits, as in the standard.
struct Latched {
    words: [Cell<u32>; 64],
    latched: Cell<u32>,
    /// Whether the card requests attention (a level).
    asks: Cell<bool>,
}

/// The capabilities of the controller: ADMA2, SDMA, high speed, 3.3 V, SDR50, SDR104, DDR50.
const CAPS: u64 = 0x0000_0007_016e_3281;

impl Latched {
    fn new() -> Rc<Self> {
        let regs =
            Latched { words: [const { Cell::new(0) }; 64], latched: Cell::new(0), asks: Cell::new(false) };
        regs.put(VERSION, 2, 2);
        regs.put(CAPABILITIES, 4, CAPS as u32);
        regs.put(CAPABILITIES_2, 4, (CAPS >> 32) as u32);
        let ready = PRESENT_BUFFER_READ | PRESENT_BUFFER_WRITE;
        regs.put(PRESENT, 4, PRESENT_INSERTED | PRESENT_DAT | PRESENT_WRITE_ENABLED | ready);
        Rc::new(regs)
    }

    /// Returns the word of a register, the place of the register in it, and its mask.
    fn place(&self, offset: u16, width: usize) -> (&Cell<u32>, u32, u32) {
        let (at, shift) = (usize::from(offset / 4), u32::from(offset % 4) * 8);
        debug_assert_eq!(usize::from(offset) % width, 0);
        (&self.words[at], shift, u32::MAX >> (32 - 8 * width))
    }

    fn put(&self, offset: u16, width: usize, value: u32) {
        let (word, shift, mask) = self.place(offset, width);
        word.set(word.get() & !(mask << shift) | (value & mask) << shift);
    }

    fn get(&self, offset: u16, width: usize) -> u32 {
        let (word, shift, mask) = self.place(offset, width);
        word.get() >> shift & mask
    }

    fn status(&self) -> u32 {
        let enable = self.get(INT_ENABLE, 4);
        let level = if self.asks.get() { INT_CARD & enable } else { 0 };
        let shown = self.latched.get() | level;
        shown | if shown & ERRORS != 0 { INT_ERROR } else { 0 }
    }

    /// Sets status bits. Bits that are not enabled stay clear.
    fn happen(&self, bits: u32) {
        self.latched.set(self.latched.get() | bits & self.get(INT_ENABLE, 4) & !(INT_CARD | INT_ERROR));
        self.asks.set(bits & INT_CARD != 0);
    }

    fn line(&self) -> bool {
        self.status() & self.get(INT_SIGNAL, 4) != 0
    }

    fn read(&self, offset: u16, width: usize) -> u32 {
        if offset == INT_STATUS { self.status() } else { self.get(offset, width) }
    }

    fn write(&self, offset: u16, width: usize, value: u32) {
        match offset {
            INT_STATUS => self.latched.set(self.latched.get() & !value),
            RESET => self.reset(value as u8),
            CLOCK if width == 4 => {
                self.put(CLOCK, 4, value & 0x00ff_ffff | u32::from(CLOCK_STABLE));
                self.reset((value >> 24) as u8);
            }
            CLOCK => self.put(CLOCK, width, value | u32::from(CLOCK_STABLE)),
            _ => self.put(offset, width, value),
        }
    }

    fn reset(&self, what: u8) {
        if what & RESET_ALL != 0 {
            self.latched.set(0);
            self.put(INT_ENABLE, 4, 0);
            self.put(INT_SIGNAL, 4, 0);
        }
        let commands = if what & RESET_CMD != 0 { INT_COMMAND } else { 0 };
        let data = INT_TRANSFER | INT_DMA | INT_BUFFER_READ | INT_BUFFER_WRITE;
        self.latched.set(self.latched.get() & !commands & !if what & RESET_DAT != 0 { data } else { 0 });
    }
}

struct Window(Rc<Latched>);

impl Regs for Window {
    fn read8(&self, offset: u16) -> u8 {
        self.0.read(offset, 1) as u8
    }
    fn read16(&self, offset: u16) -> u16 {
        self.0.read(offset, 2) as u16
    }
    fn read32(&self, offset: u16) -> u32 {
        self.0.read(offset, 4)
    }
    fn write8(&self, offset: u16, value: u8) {
        self.0.write(offset, 1, value.into());
    }
    fn write16(&self, offset: u16, value: u16) {
        self.0.write(offset, 2, value.into());
    }
    fn write32(&self, offset: u16, value: u32) {
        self.0.write(offset, 4, value);
    }
}

struct Nowhere;

// SAFETY: no controller reads or writes what this maps.
unsafe impl Dma for Nowhere {
    fn map(&self, _: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        Ok(0x4000)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {}
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
}

/// The state of the driver when the status comes.
struct State {
    name: &'static str,
    by: TransferMode,
    phase: Option<Phase>,
    /// Earlier events of this phase, each of which was acknowledged alone.
    before: &'static [u32],
}

fn command(index: u8, resp: Resp) -> Phase {
    Phase { command: Command::new(index, 0, resp), data: None, auto: Auto::None, tuning: false }
}

fn data(index: u8, direction: Direction, block_size: u16, blocks: u32) -> Phase {
    Phase { data: Some(Data { direction, block_size, blocks }), ..command(index, Resp::R1) }
}

fn states() -> Vec<State> {
    use TransferMode::{Adma2, Pio, Sdma};
    let (read, write) = (data(18, Direction::Read, 512, 2), data(25, Direction::Write, 512, 2));
    let stop = Phase { auto: Auto::Stop, ..read };
    let tuning = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    let state = |name, by, phase| State { name, by, phase, before: &[] };
    vec![
        state("idle", Adma2, None),
        state("command", Adma2, Some(command(13, Resp::R1))),
        state("command with busy", Adma2, Some(command(12, Resp::R1b))),
        State { before: &[INT_COMMAND], ..state("busy", Adma2, Some(command(12, Resp::R1b))) },
        state("read by ADMA2", Adma2, Some(read)),
        State { before: &[INT_COMMAND], ..state("read after its response", Adma2, Some(read)) },
        State { before: &[INT_TRANSFER], ..state("read before its response", Adma2, Some(read)) },
        state("read with CMD12", Adma2, Some(stop)),
        state("write by ADMA2", Adma2, Some(write)),
        state("read by SDMA", Sdma, Some(read)),
        State { before: &[INT_COMMAND, INT_DMA], ..state("write across a boundary", Sdma, Some(write)) },
        state("read by PIO", Pio, Some(read)),
        State { before: &[INT_COMMAND], ..state("read by PIO after its response", Pio, Some(read)) },
        state("write by PIO", Pio, Some(write)),
        state("tuning", Adma2, Some(tuning)),
    ]
}

fn every_word(state: &State, bits: &[u32]) -> u64 {
    let regs = Latched::new();
    let config = SdhciConfig::new().transfer(state.by);
    let table: &'static mut Table<8> = Box::leak(Box::new(Table::new()));
    let mut host = Sdhci::new(Window(regs.clone()), Nowhere, table, config).unwrap();
    for op in [BusOp::ResetAll, BusOp::PowerOn, BusOp::Clock(25_000_000)] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    let mut memory = vec![0u64; 128];
    let bytes = state.phase.and_then(|p| p.data).map_or(0, |d| u32::from(d.block_size) * d.blocks);
    // SAFETY: the registers are a model's, which moves nothing.
    let segments = [unsafe { Segment::new(NonNull::from(&mut memory[..]).cast(), bytes, 0x8000) }];
    let segments = if bytes > 0 { &segments[..] } else { &[] };
    let mut ended = 0;
    for word in 0u32..1 << bits.len() {
        let status = bits.iter().enumerate().fold(0, |all, (at, bit)| all | ((word >> at & 1) * bit));
        regs.happen(0);
        assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
        host.card_irq(word & 1 == 0);
        if let Some(phase) = &state.phase {
            host.start(phase, segments, 1_000_000).unwrap();
            for &event in state.before {
                regs.happen(event);
                assert!(host.ack(segments).phase.is_none(), "{}: ended before its time", state.name);
            }
        }
        regs.happen(status);
        let events = host.ack(segments);
        assert!(!regs.line(), "{}: {status:#010x} leaves the line asserted", state.name);
        assert!(state.phase.is_some() || events.phase.is_none(), "an end without a start");
        if events.phase.is_some() {
            ended += 1;
            // The same word again belongs to no request.
            regs.happen(status);
            assert!(host.ack(segments).phase.is_none(), "{}: {status:#010x} ends it twice", state.name);
            assert!(!regs.line(), "{}: {status:#010x} leaves the line asserted when idle", state.name);
        }
    }
    ended
}

#[test]
fn every_status_in_every_state() {
    let mut bits = vec![
        INT_COMMAND,
        INT_TRANSFER,
        INT_DMA,
        INT_BUFFER_WRITE,
        INT_BUFFER_READ,
        INT_INSERT,
        INT_REMOVE,
        INT_CARD,
        INT_RETUNE,
        ERROR_COMMAND_TIMEOUT,
        ERROR_COMMAND_CRC,
        ERROR_DATA_TIMEOUT,
        ERROR_DATA_CRC,
        ERROR_AUTO,
        ERROR_ADMA,
        ERROR_TUNING,
        ERROR_RESPONSE,
    ];
    if std::env::var_os("MMCQ_FUZZ_MS").is_some() {
        bits.extend([ERROR_COMMAND_END, ERROR_COMMAND_INDEX, ERROR_DATA_END, ERROR_POWER]);
    }
    for state in states() {
        let ended = every_word(&state, &bits);
        println!("{}: {} words, {ended} end it", state.name, 1u64 << bits.len());
        assert!(state.phase.is_none() || ended > 0, "{}: nothing ends it", state.name);
    }
}

//! Compares embassy-stm32's `sdmmc` driver with ours, on one controller and card in virtual time:
//! the rate, and how much of the CPU is left. `cargo test -p mmcq-sim --test all embassys_way_spins
//! -- --nocapture` prints the table.
//!
//! The model of embassy's driver was written from its documentation and its register accesses. Each
//! call moves one buffer: the driver sends the command and spins until it ends, awaits the end of
//! data, then spins for CMD12 and for the end of the data path. After a write it sends CMD13 and
//! spins until the card is in `tran` again. A second request waits for all that.
//!
//! Both drivers pay for register accesses and for the entry of an interrupt. Ours also pays for
//! each call of the stack: 1462 instructions a request in all, the sum of the constants from
//! `SUBMIT_NS` to `TAKE_NS`. (docs/path-length.md has 1662 instructions for a random read on the
//! general path.) Embassy's driver pays only for its loops. Neither pays for the executor.

use super::{Chip, Rig, buffer};
use crate::timed::erased::Erased;
use crate::timed::one_thread::NOW_NS;
use mmcq::card::{self, Card};
use mmcq::engine::{Config, DmaBuf, Kind, Request, SlotId};
use mmcq::host::stm32_sdmmc::{self as driver, Pieces};
use mmcq::host::{Direction, Dma, Regs};
use mmcq_sim::charged::{CallCosts, Charged};
use mmcq_sim::memory::ShadowMemory;
use mmcq_sim::slot::Controller;
use mmcq_sim::stm32_sdmmc::{Board, Port, Stm32Sdmmc, Stm32SdmmcConfig};
use mmcq_sim::time::Time;
use mmcq_sim::world::{Device, Stream};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;

/// Time of a CPU cycle in ps: a core of 400 MHz that executes an instruction a cycle.
const CYCLE_PS: u64 = 2_500;
/// Time of a register access over AHB, in ns.
const ACCESS_NS: u64 = 40;
/// Time of one turn of a loop that polls a register (compare, count, branch), in ns.
const LOOP_NS: u64 = instructions(4);
/// Time in ns to enter and leave an interrupt and to call the driver.
const ENTRY_NS: u64 = instructions(60);
/// Time in ns that the stack needs to submit a request on its general path.
const SUBMIT_NS: u64 = instructions(263);
/// Time in ns that the stack needs to start a transfer on its general path.
const START_NS: u64 = instructions(729);
/// Time in ns that the stack needs to acknowledge an interrupt on its general path.
const ACK_NS: u64 = instructions(365);
/// Time in ns that the stack needs to hand out a completion on its general path.
const TAKE_NS: u64 = instructions(105);

const fn instructions(count: u64) -> u64 {
    count * CYCLE_PS / 1000
}

const CARD: &str = "sdhc-16g-hs";
/// Bus clock in Hz: high speed at 3.3 V, on four lines.
const HZ: u32 = 50_000_000;
/// Number of requests in a load.
const COUNT: u64 = 64;
/// Number of blocks over which random requests are spread: 2 GiB.
const SPREAD: u64 = 4 << 20;

/// A load, that is, [`COUNT`] requests: their direction, size and order.
#[derive(Clone, Copy, Debug)]
struct Load {
    random: bool,
    write: bool,
    blocks: u32,
}

impl Load {
    fn all() -> Vec<Load> {
        let mut all = Vec::new();
        for write in [false, true] {
            for random in [false, true] {
                all.extend([1, 8, 128].map(|blocks| Load { random, write, blocks }));
            }
        }
        all
    }

    /// Returns the first block of each request.
    fn places(self) -> Vec<u64> {
        let mut random = Stream::new(7, "places");
        let blocks = u64::from(self.blocks);
        let place = |n| if self.random { random.below(SPREAD / blocks) * blocks } else { n * blocks };
        (0..COUNT).map(place).collect()
    }

    fn name(self) -> String {
        let order = if self.random { "random" } else { "sequential" };
        let (way, bytes) = (if self.write { "write" } else { "read" }, u64::from(self.blocks) * 512);
        let size = if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) };
        format!("{order} {way}, {size}")
    }

    fn buffer(self, n: usize) -> DmaBuf {
        let mut buf = buffer(self.blocks as usize);
        if self.write {
            buf.fill(n as u8 + 1);
        }
        buf
    }
}

/// Times that were measured while a driver executed a load.
#[derive(Clone, Copy, Debug)]
struct Measured {
    elapsed_ns: u64,
    idle_ns: u64,
    /// Time in ns in which the bus or the card was at work.
    physical_ns: u64,
}

impl Measured {
    fn mib_s(self, load: Load) -> f64 {
        (COUNT * u64::from(load.blocks) * 512) as f64 / 1_048_576.0 / (self.elapsed_ns as f64 / 1e9)
    }

    fn idle(self) -> f64 {
        100.0 * self.idle_ns as f64 / self.elapsed_ns as f64
    }
}

fn chip(model: Stm32SdmmcConfig) -> Chip {
    let chip = Chip { access_ns: ACCESS_NS, taps: 0, ..Chip::of(model) };
    Chip { driver: chip.driver.signal18(false).max_clock_hz(HZ), ..chip }
}

/// Checks that these bytes are those on the card.
fn checked(model: &RefCell<Stm32Sdmmc>, lba: u64, bytes: &[u8]) {
    let mut held = vec![0; bytes.len()];
    model.borrow_mut().card_mut().unwrap().peek(lba * 512, &mut held).unwrap();
    assert!(held == bytes, "block {lba}");
}

/// Sleeps until the controller interrupts, or until this time. Returns how long, in ns.
fn sleep(model: &RefCell<Stm32Sdmmc>, time: &Time, until_ns: Option<u64>) -> u64 {
    let began_ns = time.now();
    let mut model = model.borrow_mut();
    while !model.irq() && until_ns.is_none_or(|at| at > time.now()) {
        let next = [model.next_event_ns(), until_ns].into_iter().flatten().min();
        let reached = model.advance(next.expect("something happens"));
        time.set(time.now().max(reached));
    }
    time.now() - began_ns
}

// Registers and bits that embassy's driver uses.
const ARG: u16 = 0x08;
const CMD: u16 = 0x0c;
const RESP1: u16 = 0x14;
const DTIMER: u16 = 0x24;
const DLEN: u16 = 0x28;
const DCTRL: u16 = 0x2c;
const STA: u16 = 0x34;
const ICR: u16 = 0x38;
const MASK: u16 = 0x3c;
const IDMACTRL: u16 = 0x50;
const IDMABASE0: u16 = 0x58;
const ENDED: u32 = 1 << 0 | 1 << 2 | 1 << 6;
const DATA_ENDS: u32 = 1 << 1 | 1 << 3 | 1 << 8 | 1 << 11;
const ACTIVE: u32 = 3 << 12;
const STATIC: u32 = 0x1fe0_0fff;

/// Embassy's driver, after a bring-up by our stack, so that both use the bus in the same mode.
struct Theirs {
    port: Port,
    model: Rc<RefCell<Stm32Sdmmc>>,
    time: Time,
    memory: ShadowMemory,
    rca: u32,
    idle_ns: u64,
}

impl Theirs {
    fn up(model: Stm32SdmmcConfig) -> Theirs {
        let (rig, _) = Rig::up::<1>(CARD, chip(model));
        let rca = u32::from(rig.stack.with(|engine| engine.card_params().unwrap().rca)) << 16;
        let Rig { time, model, memory, port, .. } = rig;
        Theirs { port, model, time, memory, rca, idle_ns: 0 }
    }

    fn spin_until(&self, good: impl Fn(u32) -> bool) -> u32 {
        loop {
            let status = self.port.read32(STA);
            if good(status) {
                return status;
            }
            self.time.charge(LOOP_NS);
        }
    }

    fn command(&self, arg: u32, command: u32) -> u32 {
        self.port.write32(ICR, STATIC);
        self.spin_until(|status| status & ACTIVE & 1 << 13 == 0);
        self.port.write32(ARG, arg);
        self.port.write32(CMD, 1 << 12 | 1 << 8 | command);
        let status = self.spin_until(|status| status & ENDED != 0);
        assert_eq!(status & ENDED, 1 << 6, "CMD{}", command & 0x3f);
        self.port.read32(RESP1)
    }

    /// Models one call of embassy's `read_blocks` or `write_blocks`.
    fn request(&mut self, load: Load, lba: u64, buf: &mut DmaBuf) {
        let direction = if load.write { Direction::Write } else { Direction::Read };
        let place = NonNull::from(&mut buf[..]).cast();
        let bytes = load.blocks * 512;
        let bus = self.memory.map(place, bytes as usize, direction).unwrap();
        self.spin_until(|status| status & ACTIVE == 0);
        self.port.write32(ICR, STATIC);
        self.port.write32(DTIMER, HZ / 4);
        self.port.write32(DLEN, bytes);
        self.port.write32(IDMABASE0, bus as u32);
        self.port.write32(IDMACTRL, 1);
        self.port.write32(DCTRL, 9 << 4 | u32::from(!load.write) << 1);
        self.port.write32(MASK, DATA_ENDS);
        let many = load.blocks > 1;
        let index = if load.write { 24 } else { 17 } + u32::from(many);
        self.command(lba as u32, 1 << 6 | index);
        self.idle_ns += sleep(&self.model, &self.time, None);
        self.time.charge(ENTRY_NS);
        self.port.write32(MASK, 0);
        assert_eq!(self.port.read32(STA) & DATA_ENDS, 1 << 8);
        if many {
            self.command(0, 1 << 7 | 12);
        }
        self.port.write32(ICR, STATIC);
        self.spin_until(|status| status & ACTIVE == 0);
        self.port.write32(IDMACTRL, 0);
        if load.write {
            while self.command(self.rca, 13) >> 8 & 0x1f != 4 << 1 | 1 {}
        }
        self.memory.unmap(bus, place, bytes as usize, direction);
    }
}

fn theirs(load: Load, model: Stm32SdmmcConfig) -> Measured {
    let mut theirs = Theirs::up(model);
    let began_ns = theirs.time.now();
    theirs.model.borrow_mut().take_stats();
    for (n, lba) in load.places().into_iter().enumerate() {
        let mut buf = load.buffer(n);
        theirs.request(load, lba, &mut buf);
        checked(&theirs.model, lba, &buf);
    }
    let physical_ns = theirs.model.borrow().stats().physical_ns();
    assert_eq!((theirs.memory.violation_count(), theirs.model.borrow().protocol_violations()), (0, 0));
    Measured { elapsed_ns: theirs.time.now() - began_ns, idle_ns: theirs.idle_ns, physical_ns }
}

type Host<const PIECES: usize> = Charged<driver::Stm32Sdmmc<Port, ShadowMemory, Board, PIECES>>;

/// Measures our stack, with `depth` requests at a time.
fn ours<const PIECES: usize>(load: Load, depth: usize, model: Stm32SdmmcConfig) -> Measured {
    let chip = chip(model);
    // The rig's stack brings the card up, as for embassy's driver; then a stack that pays for its
    // register accesses takes over.
    let (rig, found) = Rig::up::<PIECES>(CARD, chip);
    let Rig { time, model, memory, .. } = rig;
    let port = Port::new(model.clone(), time.clone(), ACCESS_NS, ACCESS_NS);
    let board = Board { taps: 0, ..Board::new(model.clone(), time.clone()) };
    let list = Box::leak(Box::new(Pieces::new()));
    let host = driver::Stm32Sdmmc::new(port, memory.clone(), board, list, chip.driver).unwrap();
    let costs = CallCosts {
        start_data_ns: START_NS,
        start_command_ns: START_NS / 2,
        ack_ns: ACK_NS,
        ..CallCosts::default()
    };
    let host: Host<PIECES> = Charged::new(host, time.clone(), costs);
    let stack: super::Stack = crate::timed::on(Erased::new(host), Config::DEFAULT);
    let again: Card =
        crate::timed::drive(&stack, &model, &time, card::bring_up(&stack, buffer(1), card::Options::DEFAULT))
            .0
            .unwrap();
    assert_eq!((again.timing, again.width), (found.timing, found.width));
    let began_ns = time.now();
    model.borrow_mut().take_stats();
    let mut idle_ns = 0;
    let mut coming: VecDeque<(usize, u64)> = load.places().into_iter().enumerate().collect();
    let mut flying: Vec<(SlotId, u64)> = Vec::new();
    loop {
        while flying.len() < depth
            && let Some((n, lba)) = coming.pop_front()
        {
            time.charge(SUBMIT_NS);
            let blocks = load.blocks;
            let kind = if load.write { Kind::Write { lba, blocks } } else { Kind::Read { lba, blocks } };
            let request = Request::new(kind, load.buffer(n));
            let id = stack.with(|engine| engine.submit(request, time.now())).map_err(|(error, _)| error);
            flying.push((id.unwrap(), lba));
        }
        if flying.is_empty() {
            break;
        }
        let deadline = stack.with(|engine| engine.next_deadline_ns());
        idle_ns += sleep(&model, &time, deadline);
        time.charge(ENTRY_NS);
        NOW_NS.set(time.now());
        if model.borrow().irq() {
            stack.on_irq();
        } else {
            stack.poll();
        }
        flying.retain(|&(id, lba)| {
            let Some(done) = stack.with(|engine| engine.take(id)) else { return true };
            time.charge(TAKE_NS);
            done.result.unwrap();
            checked(&model, lba, &done.buf);
            false
        });
    }
    let physical_ns = model.borrow().stats().physical_ns();
    assert_eq!((memory.violation_count(), model.borrow().protocol_violations()), (0, 0));
    Measured { elapsed_ns: time.now() - began_ns, idle_ns, physical_ns }
}

/// Measures each load four times: embassy's driver; ours with one request at a time; with four;
/// with four and a list of buffers.
fn table(data_end_after_busy: bool) -> Vec<(Load, Measured, [Measured; 3])> {
    let h7 = Stm32SdmmcConfig { data_end_after_busy, ..Stm32SdmmcConfig::H7 };
    let u5 = Stm32SdmmcConfig { data_end_after_busy, ..Stm32SdmmcConfig::U5 };
    println!("data end after busy: {data_end_after_busy}; MiB/s and idle share of the CPU");
    println!(
        "{:<26} {:>14} {:>14} {:>14} {:>14}  limit",
        "", "embassy's way", "ours", "ours, 4", "4, by list"
    );
    let mut rows = Vec::new();
    for load in Load::all() {
        let theirs = theirs(load, h7);
        let ours = [ours::<1>(load, 1, h7), ours::<1>(load, 4, h7), ours::<64>(load, 4, u5)];
        // The limit is the time of bus and card alone, one request at a time. If the controller
        // does not show busy, the model cannot measure it.
        let limit = Measured { elapsed_ns: ours[0].physical_ns, ..ours[0] }.mib_s(load);
        let shown = data_end_after_busy || !load.write || load.blocks > 1;
        let limit = if shown { format!("{limit:>6.2}") } else { String::new() };
        let cell = |m: Measured| format!("{:>6.2} {:>5.1} %", m.mib_s(load), m.idle());
        println!(
            "{:<26} {:>14} {:>14} {:>14} {:>14} {limit}",
            load.name(),
            cell(theirs),
            cell(ours[0]),
            cell(ours[1]),
            cell(ours[2])
        );
        rows.push((load, theirs, ours));
    }
    rows
}

/// Checks that our stack reaches embassy's rate to 2 %, although it pays for its own code, and
/// leaves the CPU free. If the card is busy and the controller does not report the end, embassy's
/// driver spins. Sequential requests become one transfer if the controller has a list.
#[test]
fn embassys_way_spins_where_ours_sleeps() {
    for after_busy in [true, false] {
        for (load, theirs, ours) in table(after_busy) {
            for ours in ours {
                assert!(ours.mib_s(load) > 0.98 * theirs.mib_s(load), "{load:?}: {ours:?}, {theirs:?}");
                assert!(ours.idle() > 97.0, "{load:?}: {ours:?}");
            }
            let spins = load.write && (load.blocks > 1 || !after_busy);
            assert_eq!(theirs.idle() < 60.0, spins, "{load:?}: {theirs:?}");
            if !load.random && load.blocks <= 8 {
                assert!(ours[2].mib_s(load) > 1.7 * theirs.mib_s(load), "{load:?}: {ours:?}, {theirs:?}");
            }
        }
    }
}

//! Tests of the driver of chains with registers that have arbitrary values at any time. The driver
//! does not panic, and its work is bounded. It reports no end of a chain that was not started, no
//! end twice, and no success that the address registers contradict. It starts no phase while the
//! controller has a chain.

use crate::{anything, fuzz};
use anything::{Anything, Memory, Parts, parts};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::engine::DmaBuf;
use mmcq::host::sdhci::{self, Adma3, ChainList};
use mmcq::host::{Auto, BusOp, ChainHost, Data, Direction, Host, Phase, Regs, Segment, Step};
use mmcq::spec::command::{Command, Resp};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const ENTRIES: usize = 5;
const ACCESSES_MAX: u32 = 200;

/// Registers with arbitrary values. In seven of eight inputs (`honest`), those registers have fixed
/// values whose arbitrary values would stop the driver at its beginning: the version, idle lines,
/// an end, and the addresses as after a chain of `done` transfers.
struct Controller {
    any: Anything,
    honest: bool,
    /// Bus address of the list.
    list: Cell<u32>,
    /// Number of transfers of the list that count as done.
    done: &'static Cell<u32>,
}

impl Regs for Controller {
    fn read8(&self, offset: u16) -> u8 {
        self.any.read8(offset)
    }
    fn read16(&self, offset: u16) -> u16 {
        if offset == 0xfe && self.honest { 4 } else { self.any.read16(offset) }
    }
    fn read32(&self, offset: u16) -> u32 {
        let said = self.any.read32(offset);
        let done = self.done.get();
        match offset {
            0x44 if self.honest => 0x0800_0007,
            0x24 if self.honest => 0x01ff_0000,
            // The interrupt status of a block: the end, or an error for a damaged block.
            0x30 if self.honest && done > 0 => {
                if said & 1 == 0 {
                    2
                } else {
                    0x0020_8000
                }
            }
            0x78 if self.honest => self.list.get().wrapping_add(8 * done),
            // The address behind a descriptor of the transfer before.
            0x58 if self.honest => {
                let each = 32 + 16 * 3;
                self.list.get().wrapping_add(16 * ENTRIES as u32 + each * done).wrapping_sub(each - 40)
            }
            _ => said,
        }
    }
    fn write8(&self, offset: u16, value: u8) {
        self.any.write8(offset, value);
    }
    fn write16(&self, offset: u16, value: u16) {
        self.any.write16(offset, value);
    }
    fn write32(&self, offset: u16, value: u32) {
        if offset == 0x78 {
            self.list.set(value);
        }
        self.any.write32(offset, value);
    }
}

type Driver = Adma3<Controller, anything::AnyDma, 17, ENTRIES, 3>;
type Tables = (NonNull<sdhci::Table<17>>, NonNull<ChainList<ENTRIES, 3>>, NonNull<Cell<u32>>);

thread_local! {
    static TABLES: RefCell<Vec<Tables>> = const { RefCell::new(Vec::new()) };
    /// Numbers of inputs that reached these stages: the start of a chain, an end without an error,
    /// a failure, a failure whose transfer is known.
    static REACHED: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

fn reached(stage: usize) {
    let mut all = REACHED.get();
    all[stage] += 1;
    REACHED.set(all);
}

fn driver(
    regs: Anything,
    dma: anything::AnyDma,
    u: &mut Unstructured<'_>,
) -> Result<Option<(Driver, &'static Cell<u32>)>> {
    let (table, list, done) = TABLES.with_borrow_mut(|tables| {
        if tables.is_empty() {
            let table = NonNull::from(Box::leak(Box::new(sdhci::Table::new())));
            let list = NonNull::from(Box::leak(Box::new(ChainList::new())));
            tables.push((table, list, NonNull::from(Box::leak(Box::new(Cell::new(0))))));
        }
        tables[0]
    });
    let config = sdhci::SdhciConfig::new()
        .quirks(*u.choose(&[sdhci::SdhciQuirks::NONE, sdhci::SdhciQuirks::DMA_SIZE_32BIT])?)
        .capabilities(Some(0x0000_0007_016e_3281));
    // SAFETY: leaked, and the driver before has gone.
    let (table, list, done) = unsafe { (&mut *table.as_ptr(), &mut *list.as_ptr(), &*done.as_ptr()) };
    done.set(0);
    let regs = Controller { any: regs, honest: u.ratio(7, 8)?, list: Cell::new(0), done };
    let Ok(host) = sdhci::Sdhci::new(regs, dma, table, config) else { return Ok(None) };
    Ok(Some((Adma3::new(host, list), done)))
}

fn transfer(u: &mut Unstructured<'_>) -> Result<Phase> {
    let blocks = *u.choose(&[1, 1, 8, 8, 0, 200, u32::MAX])?;
    let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
    let auto = *u.choose(&[Auto::Count(blocks), Auto::Count(blocks), Auto::Stop, Auto::None])?;
    let data = Some(Data { direction, block_size: *u.choose(&[512, 512, 512, 4, u16::MAX])?, blocks });
    let resp = *u.choose(&[Resp::R1, Resp::R1, Resp::R1, Resp::R1b])?;
    Ok(Phase { command: Command::new(18, u.arbitrary()?, resp), data, auto, tuning: u.ratio(1, 16)? })
}

fn one(u: &mut Unstructured<'_>) -> Result<()> {
    let Parts { regs, dma, accesses } = parts(u)?;
    let Some((mut host, done)) = driver(regs, dma, u)? else { return Ok(()) };
    let memory = Memory::default();
    let mut mapped: Vec<(Segment, Direction, DmaBuf)> = Vec::new();
    let entries = host.chain_caps().map_or(0, |caps| caps.entries);
    // Number of described transfers; whether the controller has the chain; whether the chain still
    // runs.
    let (mut count, mut has, mut runs) = (0u8, false, false);
    for _ in 0..300 {
        if u.is_empty() {
            break;
        }
        accesses.set(0);
        match u.int_in_range(0..=9)? {
            0 => {
                assert_eq!(host.begin_chain(), !has);
                count = if has { count } else { 0 };
            }
            1..=4 => {
                let phase = transfer(u)?;
                let bytes = *u.choose(&[512, 4096, 102_400])?;
                let buf = memory.take(bytes);
                let direction = phase.data.map_or(Direction::Read, |data| data.direction);
                // SAFETY: `mapped` keeps the buffer until it is unmapped.
                let mut segment = unsafe { Segment::new(buf.as_non_null(), bytes, 0) };
                let segments = if host.map(&mut segment, direction).is_ok() {
                    // SAFETY: the same memory, for the same driver.
                    let again = unsafe { Segment::new(segment.ptr(), bytes, segment.bus()) };
                    mapped.push((again, direction, buf));
                    vec![segment]
                } else {
                    Vec::new()
                };
                if host.describe_transfer(&phase, &segments).is_ok() {
                    let data = phase.data.unwrap();
                    let fits = data.blocks * u32::from(data.block_size) <= bytes;
                    assert!(!has && count < entries && fits && data.blocks > 0, "{phase:?} {bytes}");
                    count += 1;
                }
            }
            5 => {
                if host.start_chain(u.arbitrary()?).is_ok() {
                    assert!(!has && count > 0);
                    reached(0);
                    (has, runs) = (true, true);
                    done.set(0);
                }
            }
            6 => done.set(if u.ratio(3, 4)? { u32::from(count) } else { u.int_in_range(0..=9)? }),
            7 => {
                let op = *u.choose(&[BusOp::ResetLines, BusOp::ResetAll, BusOp::PowerOff])?;
                let mut step = host.set_bus(op, true, 0);
                for at in 0..100_000 {
                    let Step::Wait(until_ns) = step else { break };
                    accesses.set(0);
                    step = host.set_bus(op, false, until_ns.max(at));
                }
                assert!(!matches!(step, Step::Wait(_)), "{op:?} has no end");
                if step == Step::Done && op != BusOp::PowerOff {
                    (has, runs) = (false, false);
                }
            }
            8 => {
                let phase = Phase::of(Command::new(13, 1 << 16, Resp::R1));
                let started = host.start(&phase, &[], 1_000_000).is_ok();
                assert!(!(started && has), "a phase beside a chain");
                assert!(!runs || host.ack(&[]).phase.is_none(), "an end of no phase");
            }
            _ => {
                let passed = host.passed();
                assert!(has || passed.is_none());
                match host.ack_chain().end {
                    None => {}
                    Some(_) if !runs => panic!("an end of no chain"),
                    Some(Ok(())) => {
                        reached(1);
                        (has, runs) = (false, false);
                    }
                    Some(Err(fault)) => {
                        reached(2);
                        assert!(fault.passed.is_none_or(|passed| passed < count), "{fault:?} of {count}");
                        if fault.passed.is_some() {
                            reached(3);
                        }
                        runs = false;
                        has = fault.fault.cause != mmcq::host::Cause::Gone;
                    }
                }
            }
        }
        assert!(accesses.get() <= ACCESSES_MAX, "{} accesses in one call", accesses.get());
    }
    for (segment, direction, _) in mapped.drain(..) {
        host.unmap(&segment, direction);
    }
    memory.check();
    Ok(())
}

#[test]
fn fuzz_adma3() {
    fuzz::fuzz("fuzz_adma3", 3_000, one);
    let [starts, ends, failures, known] = REACHED.get();
    println!(
        "fuzz_adma3: {starts} starts, {ends} good ends, {failures} failures, {known} of a known transfer"
    );
    assert!(starts > 100 && ends > 10 && failures > 10 && known > 2, "{starts} {ends} {failures} {known}");
}

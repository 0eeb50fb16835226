//! Tests of the driver of a command queue engine with registers that have arbitrary values at any
//! time. The driver does not panic, and its work is bounded. It reports no end of a task that was
//! not rung, no end twice, and no end after a reset.

use crate::{anything, fuzz};
use anything::{Anything, Memory, Parts, parts};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::engine::DmaBuf;
use mmcq::host::sdhci::{self, Cqhci, CqhciConfig, CqhciQuirks, TaskList};
use mmcq::host::{
    BusOp, Coalescing, CommandQueueHost, Direction, Host, Phase, QueueSettings, Regs, Segment, Step, Task,
    TaskFlags,
};
use mmcq::spec::command::{Command, Resp};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

const OFFSET: u16 = 0x200;
/// Largest number of register accesses in one call of the driver. A buffer that stays full is read
/// a thousand times, and its state is read as many times.
const ACCESSES_MAX: u32 = 3_000;

/// Registers with arbitrary values. In seven of eight inputs (`honest`), those registers have fixed
/// values whose arbitrary values would stop the driver at its beginning: the version, the clock,
/// idle lines, and a configuration that reads as it was written.
struct Engine {
    any: Anything,
    honest: bool,
    config: Cell<u32>,
}

impl Regs for Engine {
    fn read8(&self, offset: u16) -> u8 {
        self.any.read8(offset)
    }
    fn read16(&self, offset: u16) -> u16 {
        self.any.read16(offset)
    }
    fn read32(&self, offset: u16) -> u32 {
        let said = self.any.read32(offset);
        match offset.wrapping_sub(OFFSET) {
            0x00 if self.honest => 0x510,
            0x04 if self.honest => 0x30c0,
            0x08 if self.honest => self.config.get(),
            // Present State, at 24h: idle lines; the read buffer may be full.
            _ if offset == 0x24 && self.honest => 0x01f0_0000 | said & 0x800,
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
        if offset == OFFSET + 0x08 {
            self.config.set(value);
        }
        self.any.write32(offset, value);
    }
}

type Driver = Cqhci<Engine, anything::AnyDma, 17, 3>;

thread_local! {
    static TABLES: RefCell<Vec<(NonNull<sdhci::Table<17>>, NonNull<TaskList<3>>)>> =
        const { RefCell::new(Vec::new()) };
    /// Numbers of inputs that reached these stages: the engine is on, a task has ended, the engine
    /// has halted, tasks were cleared.
    static REACHED: Cell<[u32; 4]> = const { Cell::new([0; 4]) };
}

fn reached(stage: usize) {
    let mut all = REACHED.get();
    all[stage] += 1;
    REACHED.set(all);
}

fn driver(regs: Anything, dma: anything::AnyDma, u: &mut Unstructured<'_>) -> Result<Option<Driver>> {
    let (table, list) = TABLES.with_borrow_mut(|tables| {
        if tables.is_empty() {
            let table = Box::leak(Box::new(sdhci::Table::new()));
            tables.push((NonNull::from(table), NonNull::from(Box::leak(Box::new(TaskList::new())))));
        }
        tables[0]
    });
    let config = sdhci::SdhciConfig::new()
        .quirks(*u.choose(&[sdhci::SdhciQuirks::NONE, sdhci::SdhciQuirks::DMA_SIZE_32BIT])?)
        .capabilities(Some(0x0000_0007_016e_3281 | u64::from(u.int_in_range(0..=3u8)?) << 27));
    let regs = Engine { any: regs, honest: u.ratio(7, 8)?, config: Cell::new(0) };
    // SAFETY: leaked, and the driver before has gone.
    let (table, list) = unsafe { (&mut *table.as_ptr(), &mut *list.as_ptr()) };
    let Ok(host) = sdhci::Sdhci::new(regs, dma, table, config) else { return Ok(None) };
    let quirks = [
        CqhciQuirks::NONE,
        CqhciQuirks::INTEL_GLK,
        CqhciQuirks::INTEL,
        CqhciQuirks::TEGRA,
        CqhciQuirks::DWC_MSHC,
    ];
    // SAFETY: the registers are a table.
    let config = unsafe { CqhciConfig::at(OFFSET) }.quirks(*u.choose(&quirks)?);
    Ok(Some(Cqhci::new(host, list, config)))
}

/// The state of the slots as the test expects it.
#[derive(Default)]
struct Known {
    prepared: u32,
    rung: u32,
    asked_to_halt: bool,
    asked_to_clear: u32,
}

fn settings(u: &mut Unstructured<'_>) -> Result<QueueSettings> {
    let coalescing = Coalescing { tasks: u.arbitrary()?, wait_ns: u.arbitrary()? };
    Ok(QueueSettings::new(u.arbitrary()?)
        .poll_ns(u.arbitrary()?)
        .poll_blocks(u.arbitrary()?)
        .coalescing(u.arbitrary::<bool>()?.then_some(coalescing)))
}

fn task(u: &mut Unstructured<'_>) -> Result<(Task, u32)> {
    let blocks = *u.choose(&[0, 1, 1, 8, 200, u16::MAX])?;
    let flags = *u.choose(&[TaskFlags::NONE, TaskFlags::BARRIER.with(TaskFlags::RELIABLE)])?;
    let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
    let task = Task { direction, address: u.arbitrary()?, blocks, flags, context: u.int_in_range(0..=16)? };
    let bytes = *u.choose(&[u32::from(blocks) * 512, 512])?;
    Ok((task, bytes.min(200 * 512)))
}

fn one(u: &mut Unstructured<'_>) -> Result<()> {
    let Parts { regs, dma, accesses } = parts(u)?;
    let Some(mut host) = driver(regs, dma, u)? else { return Ok(()) };
    let memory = Memory::default();
    let mut mapped: Vec<(Segment, Direction, DmaBuf)> = Vec::new();
    let mut known = Known::default();
    let depth = host.queue_caps().map_or(0, |caps| caps.depth);
    for _ in 0..300 {
        if u.is_empty() {
            break;
        }
        accesses.set(0);
        match u.int_in_range(0..=15)? {
            0 | 1 => {
                if host.enable_queue(&settings(u)?).is_ok() {
                    assert!(depth >= 31, "on, and of no use");
                    reached(0);
                    known = Known::default();
                }
            }
            2..=4 => {
                let slot = u.int_in_range(0..=40u8)?;
                let (task, bytes) = task(u)?;
                let buf = memory.take(bytes);
                // SAFETY: `mapped` keeps the buffer until it is unmapped.
                let mut segment = unsafe { Segment::new(buf.as_non_null(), bytes, 0) };
                let segments = if host.map(&mut segment, task.direction).is_ok() {
                    // SAFETY: the same memory, for the same driver.
                    let again = unsafe { Segment::new(segment.ptr(), bytes, segment.bus()) };
                    mapped.push((again, task.direction, buf));
                    vec![segment]
                } else {
                    Vec::new()
                };
                let free = known.rung.checked_shr(slot.into()).unwrap_or(0) & 1 == 0;
                if host.prepare_task(slot, &task, &segments).is_ok() {
                    assert!(slot < depth && free && task.blocks != 0, "{task:?} in slot {slot}");
                    known.prepared |= 1 << slot;
                } else if slot < depth && free {
                    known.prepared &= !(1 << slot);
                }
            }
            5 => {
                let resp = *u.choose(&[Resp::None, Resp::R1, Resp::R1b, Resp::R2])?;
                let command = Command::new(u.arbitrary()?, u.arbitrary()?, resp);
                if host.prepare_command(&command, u.arbitrary()?).is_ok() {
                    assert!(known.rung >> 31 == 0);
                    known.prepared |= 1 << 31;
                }
            }
            6 | 7 => {
                let asked = u.arbitrary()?;
                let rung = host.ring(asked);
                assert_eq!(rung & !(asked & known.prepared), 0);
                known.prepared &= !rung;
                known.rung |= rung;
            }
            8 => {
                known.asked_to_halt |= host.halt_queue().is_ok();
            }
            9 => {
                let _ = host.resume_queue();
            }
            10 => {
                let slot = u.int_in_range(0..=33)?;
                if host.clear_task(slot).is_ok() {
                    assert!(known.rung >> slot & 1 == 1);
                    known.asked_to_clear = 1 << slot;
                }
            }
            11 => {
                if host.clear_tasks().is_ok() {
                    known.asked_to_clear = u32::MAX;
                }
            }
            12 => {
                let op = *u.choose(&[BusOp::ResetLines, BusOp::ResetAll, BusOp::PowerOff])?;
                let mut step = host.set_bus(op, true, 0);
                for at in 0..100_000 {
                    let Step::Wait(until_ns) = step else { break };
                    accesses.set(0);
                    step = host.set_bus(op, false, until_ns.max(at));
                }
                assert!(!matches!(step, Step::Wait(_)), "{op:?} has no end");
                known = Known::default();
            }
            13 => {
                let phase = Phase::of(Command::new(13, 1 << 16, Resp::R1));
                if host.start(&phase, &[], 1_000_000).is_ok() {
                    let _ = host.ack(&[]);
                }
            }
            _ => {
                let events = host.ack_queue();
                let Known { rung, asked_to_halt, asked_to_clear, .. } = known;
                assert_eq!(events.done & !rung, 0, "{events:?}, rung {rung:#x}");
                assert_eq!(events.cleared & !(rung & asked_to_clear), 0, "{events:?}");
                assert_eq!(events.done & events.cleared, 0, "{events:?}");
                assert!(!events.halted || asked_to_halt, "halted unasked");
                assert!(!events.emptied || asked_to_clear == u32::MAX, "emptied unasked");
                let blamed = events.fault.and_then(|fault| fault.slot);
                assert!(blamed.is_none_or(|slot| rung >> slot & 1 == 1), "{events:?}");
                known.rung &= !(events.done | events.cleared);
                if events.halted {
                    known.asked_to_halt = false;
                    reached(2);
                }
                if events.cleared != 0 || events.emptied {
                    known.asked_to_clear = 0;
                    reached(3);
                }
                if events.done != 0 {
                    reached(1);
                }
                if events.emptied || events.fault.is_some_and(|it| it.cause == mmcq::host::Cause::Gone) {
                    known = Known::default();
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
fn fuzz_cqhci() {
    fuzz::fuzz("fuzz_cqhci", 3_000, one);
    let [on, ends, halts, clears] = REACHED.get();
    println!("fuzz_cqhci: {on} times on, {ends} ends, {halts} halts, {clears} clears");
    assert!(on > 100 && ends > 10 && halts > 10 && clears > 2, "{on} {ends} {halts} {clears}");
}

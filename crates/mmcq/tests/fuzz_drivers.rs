//! Tests of every driver, alone and under the whole stack, with registers that have arbitrary
//! values at any time. The driver does not panic, its work is bounded, each start has one end, and
//! no byte outside of the buffers is accessed.

use crate::erased::{Erased, constants};
use crate::{anything, fuzz, one_thread};
use anything::{AnyDma, Anything, Memory, Parts, parts};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::block::BlockDevice;
use mmcq::card::{self, Options};
use mmcq::engine::{CardParams, Config, DmaBuf, FlushBy};
use mmcq::host::{Auto, BusOp, Data, Direction, Host, Phase, Segment, Step, Width};
use mmcq::host::{Regs, mshc, pl181, rtsx, s3c_sdi, sdhci, spi, stm32_sdmmc};
use mmcq::spec::command::{Command, Resp};
use mmcq::task::Stack;
use one_thread::{NOW_NS, OneThread, TIMER};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

fn any_phase(u: &mut Unstructured<'_>) -> Result<(Phase, u32)> {
    let resp = *u.choose(&[
        Resp::None,
        Resp::R1,
        Resp::R1b,
        Resp::R2,
        Resp::R3,
        Resp::R4,
        Resp::R5,
        Resp::R6,
        Resp::R7,
    ])?;
    let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
    let small = Data { direction, block_size: *u.choose(&[4, 8, 64, 512])?, blocks: u.int_in_range(1..=4)? };
    let wild = Data { direction, block_size: u.arbitrary()?, blocks: u.arbitrary()? };
    let data = *u.choose(&[None, Some(small), Some(small), Some(wild)])?;
    let bytes = data.map_or(0, |d| u32::from(d.block_size).saturating_mul(d.blocks)).min(4096);
    let phase = Phase {
        command: Command::new(u.int_in_range(0..=63)?, u.arbitrary()?, resp),
        data,
        auto: *u.choose(&[Auto::None, Auto::None, Auto::Stop, Auto::Count(2), Auto::Open, Auto::Continue])?,
        tuning: u.ratio(1, 8)?,
    };
    Ok((phase, bytes))
}

/// Largest number of register accesses in one call of the driver; a block by PIO takes 128 accesses
/// and some more.
const ACCESSES_MAX: u32 = 20_000;

/// Calls the driver in any order, also with phases that no engine would start.
fn alone<const CONSTANTS: u16>(
    mut host: Erased<CONSTANTS>,
    accesses: &Cell<u32>,
    u: &mut Unstructured<'_>,
) -> Result<()> {
    let memory = Memory::default();
    let mut mapped: Vec<(Segment, Direction, DmaBuf)> = Vec::new();
    // SAFETY: the same memory, for the same driver, as long as it is mapped.
    let again = |(segment, _, _): &(Segment, Direction, DmaBuf)| unsafe {
        Segment::new(segment.ptr(), segment.len_bytes(), segment.bus())
    };
    let (mut running, mut now_ns) = (false, 0u64);
    for _ in 0..200 {
        if u.is_empty() {
            break;
        }
        accesses.set(0);
        match u.int_in_range(0..=6)? {
            0 | 1 if !running => {
                for (segment, direction, _) in mapped.drain(..) {
                    host.unmap(&segment, direction);
                }
                let (phase, bytes) = any_phase(u)?;
                if let Some(data) = phase.data {
                    let buf = memory.take(bytes);
                    // SAFETY: `mapped` keeps the buffer until it is unmapped.
                    let mut segment = unsafe { Segment::new(buf.as_non_null(), bytes, 0) };
                    if host.map(&mut segment, data.direction).is_ok() {
                        mapped.push((segment, data.direction, buf));
                    } else {
                        continue;
                    }
                }
                let segments: Vec<Segment> = mapped.iter().map(again).collect();
                running = host.start(&phase, &segments, u.arbitrary()?).is_ok();
            }
            2..=4 => {
                let segments: Vec<Segment> = mapped.iter().map(again).collect();
                let ended = host.ack(&segments).phase.is_some();
                assert!(running || !ended, "an end without a start");
                running &= !ended;
            }
            5 => host.card_irq(u.arbitrary()?),
            _ => {
                let hz = u.arbitrary()?;
                let op = *u.choose(&[
                    BusOp::ResetLines,
                    BusOp::ResetAll,
                    BusOp::PowerOn,
                    BusOp::PowerOff,
                    BusOp::TuneStart,
                    BusOp::TuneAbort,
                    BusOp::Clock(hz),
                    BusOp::Width(Width::W4),
                ])?;
                if running && !matches!(op, BusOp::ResetLines | BusOp::ResetAll) {
                    continue;
                }
                let mut step = host.set_bus(op, true, now_ns);
                // The longest wait is 150 ms, looked at each 10 us.
                for _ in 0..20_000 {
                    let Step::Wait(until_ns) = step else { break };
                    now_ns = now_ns.max(until_ns);
                    accesses.set(0);
                    step = host.set_bus(op, false, now_ns);
                    assert!(accesses.get() <= ACCESSES_MAX, "{op:?}");
                }
                assert!(!matches!(step, Step::Wait(_)), "{op:?} has no end");
                running &= !matches!(op, BusOp::ResetLines | BusOp::ResetAll);
            }
        }
        let _ = (host.dat0_busy(), host.present(), host.write_protected());
        assert!(accesses.get() <= ACCESSES_MAX, "{} accesses in one call", accesses.get());
    }
    memory.check();
    Ok(())
}

type Tested<const CONSTANTS: u16> = Stack<(OneThread, Erased<CONSTANTS>), 16>;

/// Largest number of interrupts and alarms in one call: every wait of the stack is bounded, so a
/// call that needs more hangs.
const TURNS_MAX: u32 = 1_000_000;
/// Time of a turn in nanoseconds. It is long, so that a start that is tried again every 10 us until
/// a deadline takes few turns.
const TURN_NS: u64 = 1_000_000;

fn drive<const CONSTANTS: u16, F: Future>(stack: &Tested<CONSTANTS>, future: F) -> F::Output {
    let mut future = pin!(future);
    for turn in 0..TURNS_MAX {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        // Often the interrupt is lost, and only the deadline is left.
        if turn % 5 == 4 {
            NOW_NS.set(stack.with(|e| e.next_deadline_ns()).unwrap_or(0).max(NOW_NS.get()));
            stack.poll();
        } else {
            NOW_NS.set(NOW_NS.get() + TURN_NS);
            stack.turn();
        }
    }
    panic!("no end after {TURNS_MAX} turns");
}

/// Calls bring-up, and then submits requests, whether bring-up has succeeded or not. Returns how
/// many buffers stay mapped, because no reset has stopped the controller that uses them.
fn with_stack<const CONSTANTS: u16>(host: Erased<CONSTANTS>, u: &mut Unstructured<'_>) -> Result<u64> {
    let memory = Memory::default();
    let leaked = {
        let stack: Tested<CONSTANTS> = Stack::new(OneThread, TIMER, host, Config::DEFAULT);
        NOW_NS.set(0);
        let _ = drive(&stack, card::bring_up(&stack, memory.take(512), Options::DEFAULT));
        let target = CardParams::sd(1, 1 << 20)
            .count(u.arbitrary()?)
            .extended_address(u.ratio(1, 8)?)
            .write_timeout_ns(250_000_000)
            .flush(*u.choose(&[FlushBy::Status, FlushBy::EmmcCache { timeout_ns: 1_000_000 }])?);
        for round in 0..3 {
            stack.with(|engine| engine.set_card_params(Some(target)));
            let device = BlockDevice::new(&stack);
            let _ = drive(&stack, device.read(round * 8, memory.take(4096)));
            let _ = drive(&stack, device.write(round * 8, memory.take(4096)));
            let _ = drive(&stack, device.flush());
            let (phase, bytes) = any_phase(u)?;
            let (data, buf) = (phase.data, memory.take(bytes));
            let _ = drive(&stack, stack.raw(None, phase.command, data, buf, 1_000_000));
        }
        let in_use = stack.with(|engine| engine.slots_in_use());
        assert_eq!(in_use, 0, "a slot leaked");
        stack.with(|engine| engine.stats().leaked)
    };
    memory.check();
    Ok(leaked)
}

/// Inputs that have found an error: a transfer whose time on a very slow bus did not fit into its
/// type.
const FAILED_ONCE: [u64; 1] = [0x8750_a021_0000_1000];

fn both<const CONSTANTS: u16, H: Host + 'static>(
    name: &str,
    make: impl Fn(Anything, AnyDma, &mut Unstructured<'_>) -> Result<Option<H>>,
) {
    let built = Cell::new(0u32);
    let mut one = |u: &mut Unstructured<'_>| {
        let whole: bool = u.arbitrary()?;
        let Parts { regs, dma, accesses } = parts(u)?;
        let open = dma.open.clone();
        let Some(host) = make(regs, dma, u)? else { return Ok(()) };
        let host = Erased::<CONSTANTS>::new(host);
        built.set(built.get() + 1);
        let before = open.get();
        if whole {
            let leaked = with_stack(host, u)?;
            let stayed = open.get().saturating_sub(before) as u64;
            assert!(stayed <= leaked, "{stayed} mappings stayed, {leaked} buffers were given up");
            Ok(())
        } else {
            alone(host, &accesses, u)
        }
    };
    for seed in FAILED_ONCE {
        arbtest::arbtest(&mut one).seed(seed).run();
    }
    fuzz::fuzz(name, 500, one);
    println!("{name}: {} of them got as far as a driver", built.get());
    assert!(built.get() > 0, "{name}: no input got as far as a driver");
}

#[test]
fn fuzz_sdhci() {
    thread_local!(static TABLES: RefCell<Vec<NonNull<sdhci::Table<17>>>> = const { RefCell::new(Vec::new()) });
    both::<{ constants::<sdhci::Sdhci<Anything, AnyDma, 17>>() }, _>("fuzz_sdhci", |regs, dma, u| {
        // One table for all drivers of this thread: there is one at a time.
        let table = TABLES.with_borrow_mut(|tables| {
            if tables.is_empty() {
                tables.push(NonNull::from(Box::leak(Box::new(sdhci::Table::new()))));
            }
            tables[0]
        });
        let all: [sdhci::SdhciQuirks; 6] = [
            sdhci::SdhciQuirks::NONE,
            sdhci::SdhciQuirks::NO_BUSY_IRQ,
            sdhci::SdhciQuirks::ACCESS_32BIT,
            sdhci::SdhciQuirks::ACCESS_16BIT,
            sdhci::SdhciQuirks::DEFER_COMPLETION,
            sdhci::SdhciQuirks::DMA_SIZE_32BIT,
        ];
        let quirks = u.choose(&all)?.with(*u.choose(&all)?);
        let transfer =
            *u.choose(&[sdhci::TransferMode::Adma2, sdhci::TransferMode::Sdma, sdhci::TransferMode::Pio])?;
        // One input in three has the capabilities of a good controller, so that bring-up gets
        // further.
        let any = u.arbitrary()?;
        let capabilities = *u.choose(&[None, Some(0x0000_0007_016e_3281), Some(any)])?;
        let config = sdhci::SdhciConfig::new().quirks(quirks).transfer(transfer).capabilities(capabilities);
        // SAFETY: leaked, and the driver before has gone.
        let table = unsafe { &mut *table.as_ptr() };
        Ok(sdhci::Sdhci::<_, _, 17>::new(regs, dma, table, config).ok())
    });
}

#[test]
fn fuzz_usdhc() {
    thread_local!(static TABLES: RefCell<Vec<NonNull<sdhci::Table<17>>>> = const { RefCell::new(Vec::new()) });
    both::<{ constants::<sdhci::Sdhci<Anything, AnyDma, 17>>() }, _>("fuzz_usdhc", |regs, dma, u| {
        let table = TABLES.with_borrow_mut(|tables| {
            if tables.is_empty() {
                tables.push(NonNull::from(Box::leak(Box::new(sdhci::Table::new()))));
            }
            tables[0]
        });
        let regs = if u.arbitrary()? { sdhci::Usdhc::new(regs).uhs() } else { sdhci::Usdhc::new(regs) };
        let mut config = sdhci::profiles::USDHC.clock(u.int_in_range(0..=400_000_000)?);
        config.capabilities = *u.choose(&[None, Some(0x0000_0007_016e_3281)])?;
        config.transfer = *u.choose(&[sdhci::TransferMode::Auto, sdhci::TransferMode::Pio])?;
        // SAFETY: leaked, and the driver before has gone.
        let table = unsafe { &mut *table.as_ptr() };
        Ok(sdhci::Sdhci::<_, _, 17>::new(regs, dma, table, config).ok())
    });
}

/// Registers with arbitrary values, except those that show how a DesignWare controller was
/// synthesised: a controller that the driver refuses would be no test.
struct Built(Anything);

mmcq::regs_by_width!([] Built);

/// Offset of HCON.
const HARDWARE: u16 = 0x70;
/// Lowest bit of the FIFO's width in HCON.
const HARDWARE_FIFO_SHIFT: u32 = 7;

impl Built {
    fn read(&self, offset: u16, bytes: usize) -> u32 {
        match self.0.read32(offset) {
            _ if offset == HARDWARE => 1 << HARDWARE_FIFO_SHIFT,
            value if bytes == 4 => value,
            _ => panic!("only 32 bits"),
        }
    }
    fn write(&self, offset: u16, _: usize, value: u32) {
        self.0.write32(offset, value);
    }
}

/// A clock unit with this number of clock phases.
struct Phases(u8);

impl mshc::MshcBoard for Phases {
    fn taps(&self) -> u8 {
        self.0
    }
}

/// Makes an MSHC driver with the register layout `L` and arbitrary settings.
fn any_mshc<L: mshc::MshcLayout>(
    regs: Anything,
    dma: AnyDma,
    u: &mut Unstructured<'_>,
) -> Result<Option<mshc::Mshc<L, Built, AnyDma, Phases, 9>>> {
    thread_local!(static TABLES: RefCell<Vec<NonNull<mshc::Descriptors<9>>>> = const { RefCell::new(Vec::new()) });
    let table = TABLES.with_borrow_mut(|tables| {
        if tables.is_empty() {
            tables.push(NonNull::from(Box::leak(Box::new(mshc::Descriptors::new()))));
        }
        tables[0]
    });
    let config = mshc::MshcConfig::new(u.int_in_range(0..=200_000_000)?)
        .max_clock_hz(u.int_in_range(0..=250_000_000)?)
        .high_speed(u.arbitrary()?)
        .ddr(u.arbitrary()?)
        .signal18(u.arbitrary()?)
        .signal18_fixed(u.arbitrary()?)
        .sample_delay(u.arbitrary()?)
        .new_timing(u.arbitrary()?)
        .fixed(u.arbitrary()?)
        .mask_dat0(u.arbitrary()?)
        .busy_by_update(u.arbitrary()?)
        .descriptor_bytes(*u.choose(&[4096, 512, 32_768])?)
        .address_shift(*u.choose(&[0, 2])?)
        .fifo_words(*u.choose(&[Some(16), Some(32), Some(256), None])?);
    let board = Phases(*u.choose(&[0, 1, 16, 32, 255])?);
    // SAFETY: leaked, and the driver before has gone.
    let table = unsafe { &mut *table.as_ptr() };
    Ok(mshc::Mshc::new(Built(regs), dma, board, table, config).ok())
}

#[test]
fn fuzz_smhc() {
    both::<{ constants::<mshc::Smhc<Built, AnyDma, Phases, 9>>() }, _>(
        "fuzz_smhc",
        any_mshc::<mshc::SmhcLayout>,
    );
}

#[test]
fn fuzz_design_ware() {
    both::<{ constants::<mshc::DesignWare<Built, AnyDma, Phases, 9>>() }, _>(
        "fuzz_design_ware",
        any_mshc::<mshc::DesignWareLayout>,
    );
}

#[test]
fn fuzz_open_design_ware() {
    thread_local!(static SCRAPS: RefCell<Vec<NonNull<mshc::Scrap>>> = const { RefCell::new(Vec::new()) });
    both::<{ constants::<mshc::OpenDesignWare<Built, AnyDma, Phases, 9>>() }, _>(
        "fuzz_open_design_ware",
        |regs, dma, u| {
            let scrap = SCRAPS.with_borrow_mut(|scraps| {
                if scraps.is_empty() {
                    scraps.push(NonNull::from(Box::leak(Box::new(mshc::Scrap::new()))));
                }
                scraps[0]
            });
            let open = mshc::OpenTransfers::NONE.reads(u.arbitrary()?).writes(u.arbitrary()?);
            let Some(host) = any_mshc::<mshc::DesignWareLayout>(regs, dma, u)? else { return Ok(None) };
            // SAFETY: leaked, and the driver before has gone.
            let scrap = unsafe { &mut *scrap.as_ptr() };
            Ok(mshc::OpenDesignWare::new(host, scrap, open).ok())
        },
    );
}

/// Registers with arbitrary values, except those of ST's DMA that keep what is written: the driver
/// refuses a controller without these registers.
struct Holds(Anything, Cell<[u32; 3]>);

mmcq::regs_by_width!([] Holds);

/// Offsets of the registers that keep what is written: IDMABSIZE, IDMABASE0, IDMABAR.
const HELD: [u16; 3] = [0x54, 0x58, 0x68];

impl Holds {
    fn read(&self, offset: u16, bytes: usize) -> u32 {
        assert_eq!(bytes, 4, "only 32 bits");
        let said = self.0.read32(offset);
        HELD.iter().position(|&held| held == offset).map_or(said, |at| self.1.get()[at])
    }
    fn write(&self, offset: u16, _: usize, value: u32) {
        self.0.write32(offset, value);
        if let Some(at) = HELD.iter().position(|&held| held == offset) {
            let mut words = self.1.get();
            words[at] = value;
            self.1.set(words);
        }
    }
}

/// A board that has any of the functions of [`Stm32Board`](stm32_sdmmc::Stm32Board), or none.
struct AnyBoard {
    taps: u8,
    resets: bool,
    locks: bool,
}

impl stm32_sdmmc::Stm32Board for AnyBoard {
    fn reset(&mut self) -> bool {
        self.resets
    }
    fn taps(&self) -> u8 {
        self.taps
    }
    fn lock(&mut self) -> bool {
        self.locks
    }
}

fn any_stm32_sdmmc<const PIECES: usize>(
    regs: Anything,
    dma: AnyDma,
    u: &mut Unstructured<'_>,
) -> Result<Option<stm32_sdmmc::Stm32Sdmmc<Holds, AnyDma, AnyBoard, PIECES>>> {
    thread_local!(static LISTS: RefCell<Vec<(usize, NonNull<()>)>> = const { RefCell::new(Vec::new()) });
    let list = LISTS.with_borrow_mut(|lists| match lists.iter().find(|(pieces, _)| *pieces == PIECES) {
        Some((_, list)) => *list,
        None => {
            let list = NonNull::from(Box::leak(Box::new(stm32_sdmmc::Pieces::<PIECES>::new()))).cast();
            lists.push((PIECES, list));
            list
        }
    });
    let config = stm32_sdmmc::Stm32SdmmcConfig::new(u.int_in_range(0..=250_000_000)?)
        .max_clock_hz(u.int_in_range(0..=250_000_000)?)
        .high_speed(u.arbitrary()?)
        .signal18(u.arbitrary()?)
        .signal18_fixed(u.arbitrary()?)
        .fixed(u.arbitrary()?)
        .piece_bytes(*u.choose(&[4096, 512, 65_536])?);
    let taps = *u.choose(&[0, 1, 12, 32, 255])?;
    let board = AnyBoard { taps, resets: u.arbitrary()?, locks: u.arbitrary()? };
    // SAFETY: leaked, of this type, and the driver before has gone.
    let list = unsafe { list.cast::<stm32_sdmmc::Pieces<PIECES>>().as_mut() };
    let regs = Holds(regs, Cell::default());
    Ok(stm32_sdmmc::Stm32Sdmmc::new(regs, dma, board, list, config).ok())
}

#[test]
fn fuzz_stm32_sdmmc() {
    both::<{ constants::<stm32_sdmmc::Stm32Sdmmc<Holds, AnyDma, AnyBoard, 1>>() }, _>(
        "fuzz_stm32_sdmmc",
        any_stm32_sdmmc::<1>,
    );
    both::<{ constants::<stm32_sdmmc::Stm32Sdmmc<Holds, AnyDma, AnyBoard, 16>>() }, _>(
        "fuzz_stm32_sdmmc_list",
        any_stm32_sdmmc::<16>,
    );
}

#[test]
fn fuzz_rtsx() {
    thread_local!(static BUFFERS: RefCell<Vec<NonNull<rtsx::Buffers>>> = const { RefCell::new(Vec::new()) });
    both::<{ constants::<rtsx::Rtsx<Anything, AnyDma>>() }, _>("fuzz_rtsx", |regs, dma, u| {
        let buffers = BUFFERS.with_borrow_mut(|buffers| {
            if buffers.is_empty() {
                buffers.push(NonNull::from(Box::leak(Box::new(rtsx::Buffers::new()))));
            }
            buffers[0]
        });
        let config = rtsx::RtsxConfig::new(rtsx::Chip::Rts5249)
            .coherent(u.arbitrary()?)
            .continue_data(u.arbitrary()?)
            .busy_after_data(u.arbitrary()?);
        // SAFETY: leaked, and the driver before has gone.
        let buffers = unsafe { &mut *buffers.as_ptr() };
        Ok(rtsx::Rtsx::new(regs, dma, buffers, config).ok())
    });
}

#[test]
fn fuzz_s3c_sdi() {
    both::<{ constants::<s3c_sdi::S3cSdi<Anything, AnyDma>>() }, _>("fuzz_s3c_sdi", |regs, dma, u| {
        let way = if u.arbitrary()? { s3c_sdi::DmaUse::From(64) } else { s3c_sdi::DmaUse::Never };
        let config = s3c_sdi::S3cSdiConfig::new(u.int_in_range(0..=100_000_000)?).dma(way);
        Ok(s3c_sdi::S3cSdi::new(regs, dma, config).ok())
    });
}

#[test]
fn fuzz_pl181() {
    both::<{ constants::<pl181::Pl181<Anything>>() }, _>("fuzz_pl181", |regs, _, u| {
        let mut config = pl181::Pl181Config::new(u.int_in_range(0..=100_000_000)?, u.arbitrary()?);
        let any = u.arbitrary()?;
        config.fifo_words = *u.choose(&[None, Some(16), Some(128), Some(any)])?;
        config.high_speed = u.arbitrary()?;
        Ok(pl181::Pl181::new(regs, config).ok())
    });
}

/// A port whose card sends arbitrary bytes: mostly 0xff, and bytes that may be responses or tokens.
struct AnyPort(Anything);

impl AnyPort {
    fn byte(&self) -> u8 {
        match self.0.read8(0) % 16 {
            0..=7 => 0xff,
            8 | 9 => 0,
            10 | 11 => 0xfe,
            12 => 1,
            13 => 0xe5,
            _ => self.0.read8(0),
        }
    }
}

// SAFETY: the memory is touched in `exchange` alone, and only read for `Send`.
unsafe impl spi::Port for AnyPort {
    fn exchange(&mut self, exchange: spi::Exchange) {
        match exchange {
            spi::Exchange::Swap(segment) | spi::Exchange::Receive(segment) => {
                for at in 0..segment.len_bytes() as usize {
                    // SAFETY: inside of the segment, which is ours until `done`.
                    unsafe { segment.ptr().add(at).write(self.byte()) };
                }
            }
            spi::Exchange::Send(segment) => {
                for at in 0..segment.len_bytes() as usize {
                    // SAFETY: as above.
                    let byte = unsafe { segment.ptr().add(at).read() };
                    self.0.write8(0, byte);
                }
            }
            spi::Exchange::Idle(count) => assert!(count <= 64),
        }
    }

    fn done(&mut self) -> spi::Progress {
        match self.0.read8(0) % 64 {
            0..=7 => spi::Progress::Going,
            63 => spi::Progress::Failed,
            _ => spi::Progress::Done,
        }
    }

    fn select(&mut self, _: bool) {}

    fn clock(&mut self, _: u32) {}
}

#[test]
fn fuzz_spi() {
    thread_local!(static WIRES: RefCell<Vec<NonNull<spi::SpiMemory>>> = const { RefCell::new(Vec::new()) });
    both::<{ constants::<spi::Spi<AnyPort>>() }, _>("fuzz_spi", |regs, _, u| {
        // One memory for all drivers of this thread: there is one at a time.
        let mut wire = WIRES.with_borrow_mut(|wires| {
            if wires.is_empty() {
                wires.push(NonNull::from(Box::leak(Box::new(spi::SpiMemory::new()))));
            }
            wires[0]
        });
        let config = spi::SpiConfig::new(u.arbitrary()?).max_blocks(u.int_in_range(0..=64)?);
        // SAFETY: the memory is leaked, and the driver before is gone.
        let wire: &'static mut spi::SpiMemory = unsafe { wire.as_mut() };
        Ok(Some(spi::Spi::new(AnyPort(regs), wire, config)))
    });
}

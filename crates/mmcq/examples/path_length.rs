//! How many instructions a 4 KiB request takes through queue and driver; run the example by
//! `tools/path-length.sh`, which counts the instructions with callgrind.
//!
//! The controller is a model of a few memory cells: a command completes as soon as the stack writes
//! it, so that only the stack's own work is measured. The model counts the register accesses.

use mmcq::engine::{CardParams, Config, DmaBuf, Engine, Kind, Request, SlotId, SlotSet, StaysOpen};
use mmcq::host::sdhci::{
    Cqhci, CqhciConfig, OpenWrites, Sdhci, SdhciConfig, StreamConfig, Streams, Table, TaskList, TransferMode,
};
use mmcq::host::{
    BusOp, CommandQueueHost, Direction, Dma, DmaError, Host, Phase, QueueSettings, Regs, Segment, Step, Task,
    TaskFlags, Timing, Width,
};
use mmcq::sched::{Fifo, HostQueued, Profile, Queued};
use mmcq::spec::command::{Command, Resp};
use std::cell::Cell;
use std::hint::black_box;
use std::ptr::NonNull;

/// The registers of a controller that completes each command at once. Tasks of its command queue
/// engine end one at a time.
struct Cells {
    words: [Cell<u32>; 192],
    accesses: Cell<u64>,
    /// The task of the card's queue that the last CMD44 described.
    described: Cell<u32>,
    /// The tasks of the card's queue that were announced and not executed.
    announced: Cell<u32>,
    /// The tasks of the card's queue that CMD13 reports as ready.
    ready: Cell<u32>,
    /// The tasks of the command queue engine that were rung and have not ended, bit n for task n.
    rung: Cell<u32>,
    /// The task of the command queue engine that ended last.
    ended: Cell<u32>,
    /// Whether SDMA stands at a boundary in the middle of a read.
    stands: Cell<bool>,
}

const STATUS: usize = 0x30 / 4;
/// Interrupt status at the end of a command: Command Complete and Transfer Complete.
const DONE: u32 = 3;
/// Interrupt status at a boundary of SDMA: DMA Interrupt.
const DMA_INTERRUPT: u32 = 1 << 3;
/// Offset of the command queue engine's registers.
const QUEUE: u16 = 0x200;
const IS: u16 = QUEUE + 0x10;
const TDBR: u16 = QUEUE + 0x28;
const TCN: u16 = QUEUE + 0x2c;
const TASKS_DONE: u32 = 1 << 14;

impl Cells {
    fn count(&self) {
        self.accesses.set(self.accesses.get() + 1);
    }

    #[inline(never)]
    fn write(&self, offset: u16, mask: u32, value: u32) {
        self.count();
        let at = offset as usize / 4;
        if let Some(cell) = self.words.get(at) {
            let old = cell.get();
            match offset {
                // SDMA goes on at this address; the data come at once, up to the next boundary.
                0x00 if self.stands.get() => self.words[STATUS].set(DMA_INTERRUPT),
                // Write one to clear.
                0x30 | 0x32 | TCN => cell.set(old & !value),
                // A write rings these tasks; the register itself is not modelled.
                TDBR => self.rung.set(self.rung.get() | value),
                // A write to the engine's interrupt status also clears the interrupt of the
                // controller.
                IS => self.words[STATUS].set(self.words[STATUS].get() & !TASKS_DONE),
                // Software reset clears itself; the clock is stable at once.
                0x2c..0x30 => cell.set((old & !mask | value | 2) & 0x00ff_ffff),
                _ => cell.set(old & !mask | value),
            }
            if offset == 0x0c || offset == 0x0e {
                let command = self.words[0x0c / 4].get() >> 16;
                // Data, or busy.
                let more = command & 1 << 5 != 0 || command & 3 == 3;
                // A read by SDMA stops at its first boundary.
                let sdma = self.words[0x28 / 4].get() & 3 << 3 == 0;
                self.stands.set(sdma && command >> 8 & 0x3f == 18);
                self.words[STATUS].set(match (self.stands.get(), more) {
                    (true, _) => DONE & 1 | DMA_INTERRUPT,
                    (false, true) => DONE,
                    (false, false) => DONE & 1,
                });
                self.answer(command >> 8 & 0x3f, self.words[0x08 / 4].get(), command & 1 << 5 != 0);
            }
        }
    }

    /// Answers a command as a card with a queue does. One more task becomes ready between two polls
    /// (CMD13).
    fn answer(&self, index: u32, argument: u32, has_data: bool) {
        let response = &self.words[0x10 / 4];
        match index {
            // A carrier: the card is in the middle of a write (rcv).
            13 if has_data => return response.set(0xd00),
            13 if argument & 1 << 15 != 0 => {
                let waits = self.announced.get() & !self.ready.get();
                self.ready.set(self.ready.get() | waits & waits.wrapping_neg());
                return response.set(self.ready.get());
            }
            44 => self.described.set(argument >> 16 & 31),
            45 => self.announced.set(self.announced.get() | 1 << self.described.get()),
            46 | 47 => {
                let others = !(1 << (argument >> 16 & 31));
                self.announced.set(self.announced.get() & others);
                self.ready.set(self.ready.get() & others);
            }
            _ => {}
        }
        // Every other R1 says: tran, ready.
        response.set(0x900);
    }

    /// Ends the rung task with the lowest number after the last one that ended, as if its data were
    /// transferred. Returns false if no task is rung.
    fn end_task(&self) -> bool {
        let rung = self.rung.get();
        if rung == 0 {
            return false;
        }
        let above = rung & (u32::MAX << ((self.ended.get() + 1) % 32));
        let next = if above != 0 { above } else { rung }.trailing_zeros();
        self.ended.set(next);
        self.rung.set(rung & !(1 << next));
        let done = &self.words[TCN as usize / 4];
        done.set(done.get() | 1 << next);
        self.words[STATUS].set(TASKS_DONE);
        true
    }

    #[inline(never)]
    fn read(&self, offset: u16) -> u32 {
        self.count();
        self.words.get(offset as usize / 4).map_or(0, Cell::get) >> (8 * (offset & 3))
    }
}

/// Access to the cells, which live for ever, so that the example can read them too.
#[derive(Clone, Copy)]
struct Port(&'static Cells);

impl Regs for Port {
    fn read8(&self, offset: u16) -> u8 {
        self.0.read(offset) as u8
    }
    fn read16(&self, offset: u16) -> u16 {
        self.0.read(offset) as u16
    }
    fn read32(&self, offset: u16) -> u32 {
        self.0.read(offset)
    }
    fn write8(&self, offset: u16, value: u8) {
        let shift = 8 * (offset & 3);
        self.0.write(offset, 0xff << shift, u32::from(value) << shift);
    }
    fn write16(&self, offset: u16, value: u16) {
        let shift = 8 * (offset & 3);
        self.0.write(offset, 0xffff << shift, u32::from(value) << shift);
    }
    fn write32(&self, offset: u16, value: u32) {
        self.0.write(offset, u32::MAX, value);
    }
}

/// Memory that has the same addresses for CPU and controller.
struct Identity;

// SAFETY: the pretended controller touches no memory at all.
unsafe impl Dma for Identity {
    fn map(&self, ptr: NonNull<u8>, _: usize, _: Direction) -> Result<u64, DmaError> {
        Ok(ptr.as_ptr() as u64 & 0xffff_ffff)
    }
    fn unmap(&self, _: u64, _: NonNull<u8>, _: usize, _: Direction) {}
    fn sync(&self, _: u64, _: NonNull<u8>, _: usize) {}
}

type Controller = Sdhci<Port, Identity, 64>;
type Stack<H, P> = Engine<H, 32, P>;

#[inline(never)]
fn submit<H: Host, P: Profile>(stack: &mut Stack<H, P>, kind: Kind, buf: DmaBuf, now_ns: u64) -> SlotId {
    match stack.submit(Request::new(kind, buf), now_ns) {
        Ok(id) => id,
        Err((error, _)) => panic!("refused: {error}"),
    }
}

#[inline(never)]
fn interrupt<H: Host, P: Profile>(stack: &mut Stack<H, P>, now_ns: u64) -> SlotSet {
    stack.on_irq(now_ns).completed
}

/// Polls the engine, as a platform does when its alarm rings. Returns the completed slots.
#[inline(never)]
fn alarm<H: Host, P: Profile>(stack: &mut Stack<H, P>, now_ns: u64) -> SlotSet {
    stack.poll(now_ns).completed
}

#[inline(never)]
fn take<H: Host, P: Profile>(stack: &mut Stack<H, P>, id: SlotId) -> Option<DmaBuf> {
    let completion = stack.take(id)?;
    completion.result.expect("a transfer failed");
    Some(completion.buf)
}

/// Returns a driver for the model of the controller, with a card on eight data lines, and the
/// model's cells.
fn controller() -> (Controller, &'static Cells) {
    let none = || Cell::new(0);
    let cells: &'static Cells = Box::leak(Box::new(Cells {
        words: std::array::from_fn(|_| Cell::new(0)),
        accesses: Cell::new(0),
        described: none(),
        announced: none(),
        ready: none(),
        rung: none(),
        ended: none(),
        stands: Cell::new(false),
    }));
    // Version 3, ADMA2, 8 bits, all voltages, 200 MHz; a card is inserted and DAT is high.
    cells.words[0x40 / 4].set(0x076c_c881);
    cells.words[0xfc / 4].set(2 << 16);
    cells.words[0x24 / 4].set(0x01ff_0000);
    let config = SdhciConfig::emmc_18().transfer(TransferMode::Adma2);
    let table = Box::leak(Box::new(Table::new()));
    let mut host = Sdhci::new(Port(cells), Identity, table, config).expect("a controller");
    for op in
        [BusOp::PowerOn, BusOp::Clock(50_000_000), BusOp::Width(Width::W8), BusOp::Timing(Timing::HighSpeed)]
    {
        let mut now_ns = 0;
        let mut first = true;
        while let Step::Wait(at) = host.set_bus(op, first, now_ns) {
            (now_ns, first) = (at, false);
        }
    }
    // Every R1 says: tran, ready.
    cells.words[0x10 / 4].set(0x900);
    (host, cells)
}

fn machine() -> (Stack<Controller, Fifo>, &'static Cells) {
    let (host, cells) = controller();
    let mut stack = Engine::new(host, Config::DEFAULT);
    stack.set_card_params(Some(CardParams::sd(1, 1 << 26)));
    (stack, cells)
}

/// Returns a stack with an eMMC whose command queue is used for all reads and writes.
fn with_queue<H: Host, P: Profile>(host: H, profile: P) -> Stack<H, P> {
    let mut stack = Engine::with_policy(host, Config::DEFAULT, profile);
    stack.set_card_params(Some(CardParams::sd(1, 1 << 26).emmc(true)));
    assert!(stack.set_task_queue(32));
    stack.always_use_task_queue(true);
    stack
}

type Queue = Cqhci<Port, Identity, 64, 8>;

/// Maps the memory of a task, describes the task, and rings its doorbell.
#[inline(never)]
fn announce(host: &mut Queue, slot: u8, address: u32, segment: &mut Segment) {
    host.map(segment, Direction::Read).expect("mapped");
    let task = Task { direction: Direction::Read, address, blocks: 8, flags: TaskFlags::NONE, context: 0 };
    host.prepare_task(slot, &task, core::slice::from_ref(segment)).expect("a task");
    host.ring(1 << slot);
}

/// Acknowledges the ends of tasks, and unmaps the memory of one task. Returns the ended tasks.
#[inline(never)]
fn end(host: &mut Queue, segment: &Segment) -> u32 {
    let done = match host.ack_ends() {
        0 => host.ack_queue().done,
        done => done,
    };
    host.unmap(segment, Direction::Read);
    done
}

/// Returns a driver for the model of the controller with its command queue engine, and the model's
/// cells.
fn controller_with_queue() -> (Queue, &'static Cells) {
    let (host, cells) = controller();
    cells.words[QUEUE as usize / 4].set(0x510);
    cells.words[(QUEUE as usize + 4) / 4].set(0x30c0);
    let list = Box::leak(Box::new(TaskList::new()));
    // SAFETY: the cells reach as far.
    let config = unsafe { CqhciConfig::at(QUEUE) };
    (Queue::new(host, list, config), cells)
}

/// Executes `count` tasks by the driver of the command queue engine alone, without the engine of
/// the stack.
fn tasks(count: u64) {
    let (mut host, cells) = controller_with_queue();
    host.enable_queue(&QueueSettings::new(1)).expect("an engine");
    let memory: &'static mut [u64] = Box::leak(vec![0u64; 512].into_boxed_slice());
    // SAFETY: never freed, and of one task at a time.
    let mut segment = unsafe { Segment::new(NonNull::from(&mut memory[0]).cast(), 4096, 0) };
    for turn in 0..32 + count {
        // The driver looks twice at the first end of each slot, so the count begins after 32 turns.
        if turn == 32 {
            cells.accesses.set(0);
        }
        let slot = (turn % 31) as u8;
        announce(&mut host, slot, (turn * 8) as u32, &mut segment);
        cells.end_task();
        assert_eq!(black_box(end(&mut host, &segment)), 1 << slot);
    }
    println!(
        "requests {} accesses {:.2} interrupts 1 alarms 0",
        32 + count,
        cells.accesses.get() as f64 / count as f64
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [what, count] = args.as_slice()
        && what == "tasks"
    {
        return tasks(count.parse().expect("COUNT is a number"));
    }
    let [lane, direction, order, depth, count] = args.as_slice() else {
        eprintln!(
            "usage: path_length single|open|tasks|cqe read|write random|sequential DEPTH COUNT, or tasks COUNT"
        );
        std::process::exit(2);
    };
    let load = Load {
        reads: direction == "read",
        random: order == "random",
        depth: depth.parse().expect("DEPTH is a number"),
        count: count.parse().expect("COUNT is a number"),
    };
    match lane.as_str() {
        // Writes stay open by a carrier, reads by stops of SDMA.
        "open" => {
            let (host, cells) = controller();
            let mut host = Streams::new(host, StreamConfig::NONE.reads(true).writes(OpenWrites::Carrier));
            // A carrier needs the address of the card, which the driver takes from CMD7.
            let select = Phase::of(Command::new(7, 1 << 16, Resp::R1));
            host.start(&select, &[], 1_000_000).expect("a command");
            host.ack(&[]);
            // The cells take no time, so by itself the engine would see no gain in an open transfer.
            let stays = if load.random { StaysOpen::WherePays } else { StaysOpen::Always };
            let mut stack = Engine::new(host, Config::DEFAULT.stays_open(stays));
            stack.set_card_params(Some(CardParams::sd(1, 1 << 26)));
            run(stack, cells, &load);
        }
        "tasks" => {
            let (host, cells) = controller();
            run(with_queue(host, Queued(Fifo)), cells, &load);
        }
        "cqe" => {
            let (host, cells) = controller_with_queue();
            run(with_queue(host, HostQueued(Fifo)), cells, &load);
        }
        _ => {
            let (stack, cells) = machine();
            run(stack, cells, &load);
        }
    }
}

struct Load {
    reads: bool,
    random: bool,
    depth: usize,
    count: u64,
}

fn run<H: Host, P: Profile>(mut stack: Stack<H, P>, cells: &Cells, load: &Load) {
    let buffer = || DmaBuf::from_static(Box::leak(Box::new(Page([0; 512]))).0.as_mut_slice().as_bytes());
    let mut buffers: Vec<DmaBuf> = (0..load.depth).map(|_| buffer()).collect();
    let mut pending: [Option<SlotId>; 32] = [None; 32];
    let (mut done, mut next, mut now_ns, mut interrupts, mut alarms) = (0, 0u64, 0, 0u64, 0u64);
    cells.accesses.set(0);
    // Only what an interrupt reported is taken, as a driver of ours would.
    while done < load.count {
        while let Some(buf) = buffers.pop() {
            let slot = if load.random { next.wrapping_mul(0x9e37_79b9) % (1 << 22) } else { next };
            next += 1;
            let (lba, blocks) = (8 * slot, 8);
            let kind = if load.reads { Kind::Read { lba, blocks } } else { Kind::Write { lba, blocks } };
            let id = submit(&mut stack, kind, buf, now_ns);
            pending[id.index()] = Some(id);
        }
        let mut completed = if cells.words[STATUS].get() != 0 || cells.end_task() {
            now_ns += 100_000;
            interrupts += 1;
            black_box(interrupt(&mut stack, now_ns))
        } else {
            now_ns = stack.next_deadline_ns().expect("a deadline").max(now_ns);
            alarms += 1;
            black_box(alarm(&mut stack, now_ns))
        };
        while completed != 0 {
            let index = completed.trailing_zeros() as usize;
            completed &= completed - 1;
            let id = pending[index].take().expect("a slot in use");
            buffers.push(take(&mut stack, id).expect("a completion"));
            done += 1;
        }
    }
    let per = |n: u64| n as f64 / done as f64;
    println!(
        "requests {done} accesses {:.2} interrupts {:.2} alarms {:.2}",
        per(cells.accesses.get()),
        per(interrupts),
        per(alarms)
    );
}

/// A page of memory: stops need whole pages.
#[repr(align(4096))]
struct Page([u64; 512]);

/// Views words as bytes: a buffer made of words is aligned.
trait AsBytes {
    fn as_bytes(&'static mut self) -> &'static mut [u8];
}

impl AsBytes for [u64] {
    fn as_bytes(&'static mut self) -> &'static mut [u8] {
        // SAFETY: any bytes are a `u64` and the other way round; the length is that of the same
        // memory.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * 8) }
    }
}

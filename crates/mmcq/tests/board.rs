//! Tests of the ready-made parts of a board: values that only one call gets, the static place of a
//! stack, PCI.

use mmcq::board::pci::{self, Address, ConfigSpace, PciFunction};
use mmcq::board::{Buffer, Coherent, Home, NoLock, Once};
use mmcq::engine::{Config, Error};
use mmcq::host::regs::Regs;
use mmcq::host::sdhci::{self, Sdhci, Table};
use mmcq::host::{Direction, Dma};
use mmcq::spec::command;
use mmcq::task::{Clock, Lock, Stack, Timer};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A controller whose registers all read as 0. It counts the accesses.
struct Quiet(&'static AtomicU32);

impl Quiet {
    fn seen<T: Default>(&self) -> T {
        self.0.fetch_add(1, Relaxed);
        T::default()
    }
}

impl Regs for Quiet {
    fn read8(&self, _: u16) -> u8 {
        self.seen()
    }
    fn read16(&self, _: u16) -> u16 {
        self.seen()
    }
    fn read32(&self, _: u16) -> u32 {
        self.seen()
    }
    fn write8(&self, _: u16, _: u8) {
        self.seen()
    }
    fn write16(&self, _: u16, _: u16) {
        self.seen()
    }
    fn write32(&self, _: u16, _: u32) {
        self.seen()
    }
}

static NOW_NS: AtomicU64 = AtomicU64::new(0);

/// Returns the time in nanoseconds; each call advances the clock by a microsecond.
fn now_ns() -> u64 {
    NOW_NS.fetch_add(1_000, Relaxed)
}

struct Locked(Mutex<()>);

// SAFETY: a mutex lets one context in.
unsafe impl Lock for Locked {
    fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().unwrap();
        f()
    }
}

fn driver(accesses: &'static AtomicU32, table: &'static mut Table<4>) -> Sdhci<Quiet, Coherent, 4> {
    let config = sdhci::SdhciConfig::new().base_clock_hz(Some(48_000_000));
    // SAFETY: this controller touches no memory at all.
    Sdhci::new(Quiet(accesses), unsafe { Coherent::new() }, table, config).unwrap()
}

#[test]
fn what_is_in_a_static_is_handed_out_once() {
    static VALUE: Once<[u8; 3]> = Once::new([7; 3]);
    let taken: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| VALUE.take().is_some())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(taken.iter().filter(|&&taken| taken).count(), 1);
    assert!(VALUE.take().is_none());
}

#[test]
fn a_buffer_is_blocks_on_cache_lines_of_its_own() {
    static SMALL: Buffer<1> = Buffer::new();
    static LARGE: Buffer<8> = Buffer::new();
    let (small, large) = (SMALL.take().unwrap(), LARGE.take().unwrap());
    assert_eq!((small.len_bytes(), large.len_bytes()), (512, 4096));
    for buffer in [&small, &large] {
        assert_eq!(buffer.as_non_null().addr().get() % 64, 0);
        assert!(buffer.iter().all(|&byte| byte == 0));
    }
    assert!(SMALL.take().is_none());
}

#[test]
fn interrupts_before_the_stack_is_there_do_nothing() {
    static ACCESSES: AtomicU32 = AtomicU32::new(0);
    static TABLES: [Once<Table<4>>; 2] = [const { Once::new(Table::new()) }; 2];
    static CARD: Home<(Locked, Sdhci<Quiet, Coherent, 4>), 2> = Home::new();
    let made = |table: usize| {
        let host = driver(&ACCESSES, TABLES[table].take().unwrap());
        Stack::new(Locked(Mutex::new(())), Timer::polled(now_ns), host, Config::DEFAULT)
    };
    CARD.on_irq();
    CARD.poll();
    assert!(CARD.get().is_none());
    assert_eq!(ACCESSES.load(Relaxed), 0);
    let stack = CARD.put(made(0)).unwrap();
    let before = ACCESSES.load(Relaxed);
    CARD.on_irq();
    assert!(ACCESSES.load(Relaxed) > before, "the handler has looked at the controller");
    assert!(std::ptr::eq(CARD.get().unwrap(), stack));
    assert!(CARD.put(made(1)).is_none(), "one place, one stack");
    assert!(std::ptr::eq(CARD.get().unwrap(), stack));
}

/// Tests that blocking calls end by their deadlines although there is no interrupt and no alarm.
#[test]
fn a_stack_without_lock_alarm_and_interrupt_keeps_its_deadlines() {
    static ACCESSES: AtomicU32 = AtomicU32::new(0);
    static TABLE: Once<Table<4>> = Once::new(Table::new());
    let host = driver(&ACCESSES, TABLE.take().unwrap());
    let stack: Stack<(NoLock, _), 2> =
        Stack::new(NoLock::new(), Timer::polled(now_ns), host, Config::DEFAULT);
    let result = stack.block_on(stack.command(command::go_idle_state(), 1_000_000), |_| {});
    assert!(matches!(result, Err(Error::Silent | Error::Host(_) | Error::Dead)), "{result:?}");
    Timer::polled(|| 5).set_alarm(Some(3));
    assert_eq!(Timer::polled(|| 5).now_ns(), 5);
}

#[test]
fn coherent_memory_is_where_it_is() {
    // SAFETY: no controller is told the address.
    let memory = unsafe { Coherent::new() };
    let mut block = [0_u8; 64];
    let place = NonNull::from(&mut block).cast::<u8>();
    let bus = memory.map(place, 64, Direction::Read).unwrap();
    assert_eq!(bus, place.addr().get() as u64);
    memory.sync(bus, place, 64);
    memory.unmap(bus, place, 64, Direction::Read);
    assert_eq!(memory.line_bytes(), 1);
    assert!(!memory.isolate());
}

/// The configuration space of a machine with some PCI functions: the registers by bus, device,
/// function and offset.
#[derive(Default)]
struct Machine {
    words: std::cell::RefCell<BTreeMap<(u8, u8, u8, u16), u32>>,
    reads: Cell<u32>,
}

impl Machine {
    fn with(self, (bus, device, function): (u8, u8, u8), words: &[(u16, u32)]) -> Self {
        for &(offset, word) in words {
            self.words.borrow_mut().insert((bus, device, function, offset), word);
        }
        self
    }

    fn at(&self, found: PciFunction, offset: u16) -> u32 {
        self.read(found.address, offset)
    }
}

impl ConfigSpace for Machine {
    fn read(&self, at: Address, offset: u16) -> u32 {
        self.reads.set(self.reads.get() + 1);
        let words = self.words.borrow();
        let there = words.contains_key(&(at.bus, at.device, at.function, 0));
        let none = if there { 0 } else { u32::MAX };
        words.get(&(at.bus, at.device, at.function, offset)).copied().unwrap_or(none)
    }

    fn write(&self, at: Address, offset: u16, value: u32) {
        self.words.borrow_mut().insert((at.bus, at.device, at.function, offset), value);
    }
}

#[test]
fn controllers_are_found_on_every_bus_and_function() {
    let machine = Machine::default()
        .with((0, 0, 0), &[(0, 0x29c0_8086), (8, 0x0600_0000)])
        // A device with one function, which answers for every function number.
        .with((0, 3, 0), &[(0, 0x0007_1b36), (8, 0x0805_0100), (0x10, 0xfebf_1000), (0x3c, 0x0100)])
        .with((0, 3, 1), &[(0, 0x0007_1b36), (8, 0x0805_0100)])
        // Several functions; the second is a controller with an address of 64 bits.
        .with((2, 31, 0), &[(0, 0x5287_10ec), (8, 0xff00_0000), (0x0c, 0x80_0000), (0x10, 0xe001)])
        .with((2, 31, 5), &[(0, 0x1234_8086), (8, 0x0805_0000), (0x14, 0xd000_000c), (0x18, 2)]);
    let all: Vec<PciFunction> = pci::functions(&machine, 0..=3).collect();
    assert_eq!(all.len(), 4);
    let hosts: Vec<PciFunction> = all.iter().copied().filter(|found| found.class == pci::SD_HOST).collect();
    assert_eq!((hosts[0].vendor, hosts[0].device), (0x1b36, 0x0007));
    assert_eq!(hosts[0].memory(&machine, 0), Some(0xfebf_1000));
    assert_eq!(hosts[0].memory(&machine, 1), None, "no address");
    assert_eq!(hosts[0].interrupt_pin(&machine), 1);
    assert_eq!(hosts[1].address, Address { bus: 2, device: 31, function: 5 });
    assert_eq!(hosts[1].memory(&machine, 1), Some(0x2_d000_0000));
    assert_eq!(hosts[1].memory(&machine, 6), None, "there are six");
    let reader = all.iter().find(|found| found.vendor == pci::REALTEK).unwrap();
    assert_eq!(reader.memory(&machine, 0), None, "ports");

    machine.write(hosts[0].address, 4, 0x0290_0001);
    hosts[0].enable(&machine);
    assert_eq!(machine.at(hosts[0], 4), 7, "and no bit of the status is cleared by writing it back");
    hosts[0].isolate(&machine);
    assert_eq!(machine.at(hosts[0], 4), 3);
    hosts[0].set_memory(&machine, 1, 0xe000_0000);
    assert_eq!(hosts[0].memory(&machine, 1), Some(0xe000_0000));
}

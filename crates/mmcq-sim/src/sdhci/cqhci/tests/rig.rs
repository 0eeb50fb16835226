//! Test bench: a controller with its command queue engine and a card model. The tests access
//! registers as a driver does.

use crate::card::tests::{medium, profile};
use crate::card::{Card, CardProfile};
use crate::memory::{BusError, DeviceMemory};
use crate::sdhci::{CqhciConfig, Sdhci, SdhciConfig};
use crate::slot::Controller;
use crate::world::Device;
use std::cell::RefCell;
use std::rc::Rc;

pub const READ: u64 = 1 << 12;
pub const INT: u64 = 1 << 2;
pub const BARRIER: u64 = 1 << 14;

/// Offset in the controller of the engine's register CQCFG.
pub const CFG: u16 = 0x208;
pub const CTL: u16 = 0x20c;
pub const IS: u16 = 0x210;
pub const IC: u16 = 0x21c;
pub const TDBR: u16 = 0x228;
pub const TCN: u16 = 0x22c;
pub const DQS: u16 = 0x230;
pub const DPT: u16 = 0x234;
pub const TCLR: u16 = 0x238;
pub const SSC1: u16 = 0x240;
pub const CRDCT: u16 = 0x248;
pub const TERRI: u16 = 0x254;

/// Bus address of the list of task descriptors.
const LIST: u64 = 0x400;
/// Bus address of the lists of transfer descriptors.
const LISTS: u64 = 0x1000;
/// Bus address of the data of slot 0.
const DATA: u64 = 0x1_0000;
/// Number of data bytes for each slot.
const ROOM: u64 = 0x4000;

/// Memory that a test reads and writes directly, at fixed bus addresses.
#[derive(Clone)]
pub struct Ram(Rc<RefCell<Vec<u8>>>);

impl DeviceMemory for Ram {
    fn device_read(&self, address: u64, to: &mut [u8]) -> Result<(), BusError> {
        let at = address as usize;
        to.copy_from_slice(self.0.borrow().get(at..at + to.len()).ok_or(BusError)?);
        Ok(())
    }

    fn device_write(&self, address: u64, from: &[u8]) -> Result<(), BusError> {
        let at = address as usize;
        self.0.borrow_mut().get_mut(at..at + from.len()).ok_or(BusError)?.copy_from_slice(from);
        Ok(())
    }
}

/// Forms of task and transfer descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Narrow,
    Wide,
    Short,
}

pub struct Rig {
    pub host: Sdhci,
    pub ram: Ram,
    pub now: u64,
    form: Form,
    /// Index and argument of each command that the command queue engine has sent.
    pub commands: Rc<RefCell<Vec<(u8, u32)>>>,
}

impl Rig {
    pub fn new(form: Form) -> Self {
        Self::with(form, profile("emmc-queue"), CqhciConfig::INTEL)
    }

    /// Makes a test bench: the card is identified, on eight lines at 52 MHz, its queue on, and the
    /// engine enabled.
    pub fn with(form: Form, card: CardProfile, queue: CqhciConfig) -> Self {
        let queue = CqhciConfig { short_descriptors: form == Form::Short, ..queue };
        let config = SdhciConfig { command_queue: Some(queue), ..SdhciConfig::GENERIC_4_20 };
        let ram = Ram(Rc::new(RefCell::new(vec![0; 0x10_0000])));
        let card = card.build(medium(&card)).unwrap();
        let host = Sdhci::new(config, ram.clone(), Some(card));
        let mut rig = Rig { host, ram, now: 0, form, commands: Rc::default() };
        rig.bring_up();
        let commands = rig.commands.clone();
        rig.host.set_log(Some(Box::new(move |event| {
            if let crate::stats::BusEvent::Command { index, arg, .. } = event {
                commands.borrow_mut().push((index, arg));
            }
        })));
        rig.enable();
        rig
    }

    pub fn r(&mut self, offset: u16) -> u32 {
        self.host.read(offset, 4, self.now)
    }

    pub fn w(&mut self, offset: u16, value: u32) {
        self.host.write(offset, 4, value, self.now);
    }

    pub fn run(&mut self, ns: u64) {
        let until = self.now + ns;
        while self.host.advance(until) < until {}
        self.now = until;
    }

    fn clock(&mut self, divider: u32) {
        self.host.write(0x2c, 2, 0, self.now);
        self.host.write(0x2c, 2, divider << 8 | 1, self.now);
        self.run(100_000);
        self.host.write(0x2c, 2, divider << 8 | 5, self.now);
        self.run(1_000_000);
    }

    /// Sends a command of the driver. Returns the first word of its response.
    pub fn command(&mut self, index: u32, arg: u32, flags: u32) -> u32 {
        self.w(0x08, arg);
        self.host.write(0x0e, 2, index << 8 | flags, self.now);
        let end = if flags & 3 == 3 { 2 } else { 1 };
        for _ in 0..100_000 {
            let status = self.r(0x30);
            if status & (end | 0x8000) != 0 || flags & 3 == 0 && status & 1 != 0 {
                break;
            }
            self.run(10_000);
        }
        let status = self.r(0x30);
        self.w(0x30, status);
        assert_eq!(status & 0xffff_8000, 0, "CMD{index} {arg:#x}");
        self.r(0x10)
    }

    fn bring_up(&mut self) {
        self.host.write(0x29, 1, 0x0f, self.now);
        self.host.write(0x3e, 2, 8, self.now);
        self.run(4_000_000);
        self.w(0x34, 0xffff_ffff);
        self.clock(250);
        self.run(2_000_000);
        self.command(0, 0, 0);
        while self.command(1, 0x40ff_8080, 2) >> 31 == 0 {
            self.run(10_000_000);
        }
        self.command(2, 0, 9);
        self.command(3, 1 << 16, 0x1a);
        self.command(7, 1 << 16, 0x1b);
        self.command(6, 0x03b7_0200, 0x1b);
        self.command(6, 0x03b9_0100, 0x1b);
        self.clock(2);
        self.host.write(0x28, 1, 0x20, self.now);
        self.host.write(0x2e, 1, 0x0e, self.now);
        self.command(6, 0x030f_0100, 0x1b);
        assert_eq!(self.command(13, 1 << 16, 0x1a), 0x900);
    }

    /// Enables only the interrupts and errors of the command queue engine, as a driver does.
    pub fn enable(&mut self) {
        let wide = if self.form == Form::Narrow { 0 } else { 1 << 8 };
        self.w(0x34, 0xffff_4000);
        self.w(0x38, 0xffff_4000);
        self.w(CFG, wide | 1 << 12);
        self.w(0x220, LIST as u32);
        self.w(0x224, 0);
        self.w(0x244, 1);
        self.w(0x214, 0xf);
        self.w(0x218, 0xf);
        self.w(CFG, wide | 1 << 12 | 1);
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.ram.device_write(at, bytes).unwrap();
    }

    fn half(&self) -> u64 {
        if self.form == Form::Narrow { 8 } else { 16 }
    }

    pub fn raw(&mut self, slot: u64, task: u64) {
        let at = LIST + 2 * self.half() * slot;
        self.put(at, &[0; 32][..2 * self.half() as usize]);
        self.put(at, &task.to_le_bytes());
    }

    /// Writes the task descriptor of a slot, with data in two parts.
    pub fn describe(&mut self, slot: u64, how: u64, blocks: u64, sector: u64) {
        self.raw(slot, sector << 32 | blocks << 16 | how | 0x2b);
        let (list, data) = (LISTS + 0x100 * slot, Self::data(slot));
        let mut link = 0x31u64.to_le_bytes().to_vec();
        link[4..8].copy_from_slice(&(list as u32).to_le_bytes());
        link.resize(self.half() as usize, 0);
        let at = LIST + 2 * self.half() * slot + self.half();
        self.put(at, &link);
        let bytes = match self.form {
            Form::Narrow => 8,
            Form::Short => 12,
            Form::Wide => 16,
        };
        let first = 256.min(blocks * 512);
        for (piece, (at, len, end)) in
            [(data, first, 0), (data + first, blocks * 512 - first, 2)].into_iter().enumerate()
        {
            let mut descriptor = (0x21u32 | end | (len as u32) << 16).to_le_bytes().to_vec();
            descriptor.extend_from_slice(&at.to_le_bytes()[..if bytes == 8 { 4 } else { 8 }]);
            descriptor.resize(bytes, 0);
            self.put(list + (piece * bytes) as u64, &descriptor);
        }
    }

    fn data(slot: u64) -> u64 {
        DATA + ROOM * slot
    }

    pub fn fill(&mut self, slot: u64, bytes: &[u8]) {
        self.put(Self::data(slot), bytes);
    }

    pub fn bytes(&mut self, slot: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.ram.device_read(Self::data(slot), &mut bytes).unwrap();
        bytes
    }

    /// Returns bytes of the card from this sector on.
    pub fn card(&mut self, sector: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let card: &mut dyn Card = self.host.card_mut().unwrap();
        card.peek(sector * 512, &mut bytes).unwrap();
        bytes
    }

    /// Waits at most one second for an interrupt. Returns the interrupt status of the controller
    /// and of the engine; zeros if none came.
    pub fn interrupt(&mut self) -> (u32, u32) {
        if !self.host.irq() {
            self.now = self.host.advance(self.now + 1_000_000_000);
        }
        if self.host.irq() { (self.r(0x30), self.r(IS)) } else { (0, 0) }
    }

    /// Waits until the tasks of these slots are complete, and acknowledges them. Returns the slots
    /// in the order of completion.
    pub fn complete(&mut self, mut slots: u32) -> Vec<u8> {
        let mut order = Vec::new();
        while slots != 0 {
            let (status, is) = self.interrupt();
            assert_eq!((status, is), (1 << 14, 2), "TDBR {:#x} DPT {:#x}", self.r(TDBR), self.r(DPT));
            self.w(IS, is);
            let done = self.r(TCN);
            self.w(TCN, done);
            assert!(done != 0 && done & !slots == 0, "TCN {done:#x} of {slots:#x}");
            order.extend((0..32u8).filter(|slot| done >> slot & 1 == 1));
            slots &= !done;
        }
        assert!(!self.host.irq());
        order
    }

    /// Halts the command queue engine. Returns the time in ns until the halt was complete.
    pub fn halt(&mut self) -> u64 {
        let from = self.now;
        self.w(CTL, 1);
        for _ in 0..100_000 {
            if self.r(CTL) & 1 == 1 {
                return self.now - from;
            }
            self.run(1_000);
        }
        panic!("no halt");
    }

    /// Returns the indexes of the commands that the engine has sent.
    pub fn said(&self) -> Vec<u8> {
        self.commands.borrow().iter().map(|command| command.0).collect()
    }

    pub fn assert_clean(&mut self) {
        assert_eq!(self.host.first_violation(), None);
    }
}

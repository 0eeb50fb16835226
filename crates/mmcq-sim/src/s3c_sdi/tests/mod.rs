//! Tests of the SDI model with an I/O card and a memory card. They use only registers.

mod commands;
mod fifo;
mod interrupts;
mod packets;
mod random;
mod window;

use super::{BusEvent, S3cSdi, S3cSdiConfig};
use crate::card::io::tests::loopback_card;
use crate::card::{Card, IoCard};
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::ShadowMemory;
use crate::slot::Controller;
use crate::world::Device;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const CON: u16 = 0x00;
pub(super) const PRE: u16 = 0x04;
pub(super) const ARG: u16 = 0x08;
pub(super) const CMD: u16 = 0x0c;
pub(super) const CSTA: u16 = 0x10;
pub(super) const RSP: u16 = 0x14;
pub(super) const TIMER: u16 = 0x24;
pub(super) const BSIZE: u16 = 0x28;
pub(super) const DCON: u16 = 0x2c;
pub(super) const DCNT: u16 = 0x30;
pub(super) const DSTA: u16 = 0x34;
pub(super) const FSTA: u16 = 0x38;
pub(super) const IMSK: u16 = 0x3c;
pub(super) const DATA: u16 = 0x40;
pub(super) const GPIO: u16 = 0x100;

/// Value of DCON for a read: words, block mode, 4 lines, start.
pub(super) const READ: u32 = 2 << 22 | 1 << 19 | 1 << 17 | 1 << 16 | 1 << 14 | 2 << 12;
/// Value of DCON for a write: words, block mode, 4 lines, start.
pub(super) const WRITE: u32 = 2 << 22 | 1 << 20 | 1 << 17 | 1 << 16 | 1 << 14 | 3 << 12;

/// Test bench that accesses registers as a driver does.
pub(super) struct Rig {
    pub host: S3cSdi,
    pub memory: ShadowMemory,
    pub now: u64,
    pub log: Rc<RefCell<Vec<BusEvent>>>,
    pub holds: Rc<RefCell<Vec<(u64, u64)>>>,
}

impl Rig {
    /// Makes a test bench with registers as after reset, 400 kHz, and stable card power.
    pub fn new(card: Option<Box<dyn Card>>) -> Self {
        let memory = ShadowMemory::default();
        let mut host = S3cSdi::new(S3cSdiConfig::S3C2440, memory.clone(), card);
        let log = Rc::new(RefCell::new(Vec::new()));
        let holds = Rc::new(RefCell::new(Vec::new()));
        let (to, to_holds) = (Rc::clone(&log), Rc::clone(&holds));
        host.set_log(Some(Box::new(move |event| to.borrow_mut().push(event))));
        host.set_hold_log(Some(Box::new(move |from, until| to_holds.borrow_mut().push((from, until)))));
        let mut rig = Rig { host, memory, now: 1_000, log, holds };
        rig.w(PRE, 124);
        rig.w(CON, 1);
        rig.w(TIMER, 0x7f_ffff);
        rig.now += 2_000_000;
        rig
    }

    /// Sets the faults that strike the next events at a point.
    pub fn next(&mut self, point: Point, strikes: &[Strike]) {
        self.host.set_faults(Faults::new(Plan::none().next(point, strikes)));
    }

    /// Makes a test bench with an I/O card selected, 4 lines, 10 MHz, and function 1 ready with
    /// blocks of `block` bytes.
    pub fn ready(card: IoCard, block: u32) -> Self {
        let mut rig = Rig::new(Some(Box::new(card)));
        rig.select();
        for (address, value) in [(7, 2), (2, 2), (0x110, block & 0xff), (0x111, block >> 8)] {
            rig.put(0, address, value as u8);
        }
        rig.now += 10_000_000;
        rig
    }

    pub fn select(&mut self) {
        self.command(5, 0x00ff_8000, false);
        self.now += 100_000_000;
        assert_eq!(self.command(5, 0x00ff_8000, false) >> 31, 1);
        let rca = self.command(3, 0, true);
        self.command(7, rca, true);
        self.w(PRE, 4);
    }

    pub fn r(&mut self, offset: u16) -> u32 {
        self.host.read(offset, 4, self.now)
    }

    pub fn w(&mut self, offset: u16, value: u32) {
        self.host.write(offset, 4, value, self.now);
    }

    /// Starts a command with a short response.
    pub fn start(&mut self, index: u32, arg: u32) {
        self.w(CSTA, 0x1e00);
        self.w(ARG, arg);
        self.w(CMD, 1 << 9 | 1 << 8 | 1 << 6 | index);
    }

    /// Waits until one of these bits is set in a register. Returns the register's value.
    pub fn until(&mut self, offset: u16, bits: u32) -> u32 {
        for _ in 0..1_000_000 {
            let value = self.r(offset);
            if value & bits != 0 {
                return value;
            }
            self.now = self.host.next_event_ns().expect("something is to happen").max(self.now + 1);
        }
        panic!("register {offset:#x} never showed {bits:#x}");
    }

    /// Sends a command with a short response, by polling. Returns the content of the response.
    pub fn command(&mut self, index: u32, arg: u32, crc: bool) -> u32 {
        self.start(index, arg);
        let status = self.until(CSTA, 1 << 9 | 1 << 10);
        assert_eq!(status & 0x1c00, 1 << 11 | u32::from(!crc) << 12, "status {status:#x} of CMD{index}");
        self.r(RSP)
    }

    pub fn put(&mut self, number: u32, address: u32, value: u8) {
        let content = self.command(52, 1 << 31 | number << 28 | address << 9 | u32::from(value), true);
        assert_eq!(content >> 8 & 0xcf, 0);
    }

    pub fn get(&mut self, number: u32, address: u32) -> u8 {
        let content = self.command(52, number << 28 | address << 9, true);
        assert_eq!(content >> 8 & 0xcf, 0);
        content as u8
    }

    /// Prepares a data transfer as drivers do: clears the status, writes DCON and BSIZE.
    pub fn prepare(&mut self, dcon: u32, blocks: u32, block: u32) {
        self.w(DSTA, 0x3f8);
        self.w(FSTA, 1 << 16 | 3 << 14);
        self.w(DCON, dcon | blocks);
        self.w(BSIZE, block);
    }

    /// Waits at most one second for the interrupt line. Returns whether it rose.
    pub fn interrupt(&mut self) -> bool {
        let limit = self.now + 1_000_000_000;
        if !self.host.irq() {
            self.now = self.host.advance(limit);
        }
        self.host.irq()
    }
}

/// Returns the argument of a CMD53 to function 1 in block mode, with incrementing addresses from
/// 100h on.
pub(super) fn blocks_at_100(write: bool, count: u32) -> u32 {
    u32::from(write) << 31 | 1 << 28 | 1 << 27 | 1 << 26 | 0x100 << 9 | count
}

/// Returns the argument of a CMD53 to function 1 in byte mode, for the FIFO at address 0.
pub(super) fn bytes_at_0(write: bool, count: u32) -> u32 {
    u32::from(write) << 31 | 1 << 28 | count
}

pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 13 + i / 256) as u8).collect()
}

//! The bus for code that waits for its wire.

use std::cell::RefCell;
use std::rc::Rc;

use super::SpiSlot;
use crate::time::Time;

/// An SPI bus for the code that runs at [`Time::now`]: each byte moves that time on by eight clocks.
///
/// Clones share bus and time. What lives beside the code, a clock or another device, is the
/// caller's to move on.
#[derive(Clone)]
pub struct SpiLine {
    /// The bus.
    pub slot: Rc<RefCell<SpiSlot>>,
    /// The time of the code that uses it.
    pub time: Time,
}

impl SpiLine {
    /// This bus, for code of this time.
    pub fn new(slot: SpiSlot, time: Time) -> Self {
        SpiLine { slot: Rc::new(RefCell::new(slot)), time }
    }

    /// One byte each way.
    pub fn exchange(&self, out: u8) -> u8 {
        let (back, end_ns) = self.slot.borrow_mut().exchange(out, self.time.now());
        self.time.set(end_ns);
        back
    }

    /// Sends these bytes and puts what comes back in their place.
    pub fn transfer(&self, bytes: &mut [u8]) {
        let end_ns = self.slot.borrow_mut().transfer(bytes, self.time.now());
        self.time.set(end_ns);
    }

    /// Chip select: `true` is low.
    pub fn select(&self, low: bool) {
        self.slot.borrow_mut().select(low, self.time.now());
    }

    /// The clock, in hertz.
    pub fn clock_hz(&self) -> u32 {
        self.slot.borrow().clock_hz()
    }

    /// The clock from now on, in hertz.
    pub fn set_clock(&self, hz: u32) {
        self.slot.borrow_mut().set_clock(hz, self.time.now());
    }
}

//! The SPI bus for code that waits for each transfer.

use std::cell::RefCell;
use std::rc::Rc;

use super::SpiSlot;
use crate::time::Time;

/// An SPI bus for the code that runs at [`Time::now`]: each byte advances that time by eight
/// clocks.
///
/// Clones share bus and time. Other models, such as a clock or another device, must be advanced by
/// the caller.
#[derive(Clone)]
pub struct SpiLine {
    /// The bus.
    pub slot: Rc<RefCell<SpiSlot>>,
    /// Time of the code that uses it.
    pub time: Time,
}

impl SpiLine {
    /// Makes the line of this bus, for code of this time.
    pub fn new(slot: SpiSlot, time: Time) -> Self {
        SpiLine { slot: Rc::new(RefCell::new(slot)), time }
    }

    /// Transfers one byte in each direction.
    pub fn exchange(&self, out: u8) -> u8 {
        let (back, end_ns) = self.slot.borrow_mut().exchange(out, self.time.now());
        self.time.set(end_ns);
        back
    }

    /// Sends these bytes and replaces them by what comes back.
    pub fn transfer(&self, bytes: &mut [u8]) {
        let end_ns = self.slot.borrow_mut().transfer(bytes, self.time.now());
        self.time.set(end_ns);
    }

    /// Sets chip select; `true` is low.
    pub fn select(&self, low: bool) {
        self.slot.borrow_mut().select(low, self.time.now());
    }

    /// Returns the clock in hertz.
    pub fn clock_hz(&self) -> u32 {
        self.slot.borrow().clock_hz()
    }

    /// Sets the clock in hertz.
    pub fn set_clock(&self, hz: u32) {
        self.slot.borrow_mut().set_clock(hz, self.time.now());
    }
}

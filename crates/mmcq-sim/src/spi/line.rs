//! An SPI bus for code that waits for the end of each transfer.

use std::cell::RefCell;
use std::rc::Rc;

use super::SpiSlot;
use crate::time::Time;

/// An SPI bus for code whose time is [`Time::now`]: each byte advances the time by eight clocks.
///
/// Clones share the bus and the time. The caller must advance other models, such as a clock or
/// another device.
#[derive(Clone)]
pub struct SpiLine {
    /// The SPI bus with its card.
    pub slot: Rc<RefCell<SpiSlot>>,
    /// Virtual time of the code that uses the bus.
    pub time: Time,
}

impl SpiLine {
    /// Makes a handle of the bus `slot` for code whose clock is `time`. Each exchange on the bus
    /// advances this clock.
    pub fn new(slot: SpiSlot, time: Time) -> Self {
        SpiLine { slot: Rc::new(RefCell::new(slot)), time }
    }

    /// Sends one byte. Returns the byte that was received meanwhile.
    pub fn exchange(&self, out: u8) -> u8 {
        let (back, end_ns) = self.slot.borrow_mut().exchange(out, self.time.now());
        self.time.set(end_ns);
        back
    }

    /// Sends these bytes, and replaces them by the bytes received meanwhile.
    pub fn transfer(&self, bytes: &mut [u8]) {
        let end_ns = self.slot.borrow_mut().transfer(bytes, self.time.now());
        self.time.set(end_ns);
    }

    /// Sets chip select; `low` selects the card.
    pub fn select(&self, low: bool) {
        self.slot.borrow_mut().select(low, self.time.now());
    }

    /// Returns the frequency of the bus clock in hertz.
    pub fn clock_hz(&self) -> u32 {
        self.slot.borrow().clock_hz()
    }

    /// Sets the frequency of the bus clock in hertz.
    pub fn set_clock(&self, hz: u32) {
        self.slot.borrow_mut().set_clock(hz, self.time.now());
    }
}

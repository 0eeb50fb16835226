//! An SPI port with DMA for the card in SPI mode. An exchange (bytes in both directions) takes the
//! time of its bytes, and an interrupt comes at its end.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress};
use mmcq_sim::spi::SpiSlot;
use mmcq_sim::time::Time;
use std::cell::RefCell;
use std::rc::Rc;

/// Port through which the driver uses an SPI bus.
pub struct Wire {
    slot: Rc<RefCell<SpiSlot>>,
    time: Time,
    end_ns: u64,
}

impl Wire {
    /// Makes the port through which a driver exchanges bytes with the card in this SPI slot. `time`
    /// is the virtual time of the driver's code.
    pub fn new(slot: Rc<RefCell<SpiSlot>>, time: Time) -> Self {
        Wire { slot, time, end_ns: 0 }
    }
}

// SAFETY: only `exchange` touches the memory, and for `Send` only reads it.
unsafe impl Port for Wire {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver lends the memory until `done`.
        let bytes = |segment: &Segment| unsafe {
            std::slice::from_raw_parts_mut(segment.ptr().as_ptr(), segment.len_bytes() as usize)
        };
        let mut slot = self.slot.borrow_mut();
        let now_ns = self.time.now();
        self.end_ns = match &exchange {
            Exchange::Swap(segment) => slot.transfer_and_tell(bytes(segment), now_ns),
            Exchange::Receive(segment) => {
                bytes(segment).fill(0xff);
                slot.transfer_and_tell(bytes(segment), now_ns)
            }
            Exchange::Send(segment) => slot.transfer_and_tell(&mut bytes(segment).to_vec(), now_ns),
            Exchange::Idle(count) => slot.transfer_and_tell(&mut vec![0xff; *count as usize], now_ns),
        };
    }

    fn done(&mut self) -> Progress {
        let now_ns = self.time.now();
        if now_ns < self.end_ns {
            return Progress::Going;
        }
        self.slot.borrow_mut().seen(now_ns);
        Progress::Done
    }

    fn stop(&mut self) -> bool {
        self.end_ns = 0;
        true
    }

    fn select(&mut self, on: bool) {
        self.slot.borrow_mut().select(on, self.time.now());
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            self.slot.borrow_mut().set_clock(hz, self.time.now());
        }
    }
}

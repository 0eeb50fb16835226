//! A port for an SPI bus of `embedded-hal` 1.0.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::port::{Exchange, Port, Progress};
use crate::host::Segment;
use embedded_hal::digital::OutputPin;
use embedded_hal::spi::SpiBus;

/// Bytes of 0xff that are sent at a time.
const ONES: [u8; 8] = [0xff; 8];

/// An `embedded-hal` bus with a chip select. A call waits for the transfer on the bus (164 us for a
/// block at 25 MHz), but never for the card.
///
/// The card is the only device on the bus. The port uses an `SpiBus`, because an `SpiDevice`
/// deselects the card after each transaction and cannot make the clocks of power-up. For a bus with
/// other devices use [`SharedHalPort`](super::SharedHalPort). The bus is in mode 0. The closure
/// `clock` sets the bus clock in hertz, rounded down, since the trait has no function for it.
///
/// The port raises no interrupt: the firmware calls [`Stack::turn`](crate::task::Stack::turn) in
/// its main loop, or uses the blocking calls, which themselves call `turn`.
pub struct HalPort<B, C, F> {
    bus: B,
    select: C,
    clock: F,
    failed: bool,
}

impl<B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)> HalPort<B, C, F> {
    /// Makes a port for the card on `bus`, with its chip select `select` (low selects the card).
    pub fn new(bus: B, select: C, clock: F) -> Self {
        HalPort { bus, select, clock, failed: false }
    }
}

/// Carries out an SPI exchange (bytes in both directions), and waits until it is complete.
///
/// # Safety
/// The caller may use the memory of the exchange, and nothing else uses it during the call.
pub(super) unsafe fn carry_out<B: SpiBus>(bus: &mut B, exchange: Exchange) -> Result<(), B::Error> {
    // SAFETY: the caller promises that nothing else uses the memory.
    let bytes = |segment: &Segment| unsafe {
        core::slice::from_raw_parts_mut(segment.ptr().as_ptr(), segment.len_bytes() as usize)
    };
    match exchange {
        Exchange::Swap(segment) => bus.transfer_in_place(bytes(&segment))?,
        Exchange::Receive(segment) => {
            let bytes = bytes(&segment);
            bytes.fill(0xff);
            bus.transfer_in_place(bytes)?;
        }
        // SAFETY: the caller promises that nothing else uses the memory; it is only read.
        Exchange::Send(segment) => bus.write(unsafe {
            core::slice::from_raw_parts(segment.ptr().as_ptr(), segment.len_bytes() as usize)
        })?,
        Exchange::Idle(mut count) => {
            while let Some(ones) =
                ONES.get(..(count as usize).min(ONES.len())).filter(|some| !some.is_empty())
            {
                bus.write(ones)?;
                count -= ones.len() as u32;
            }
        }
    }
    bus.flush()
}

// SAFETY: only `exchange` accesses the memory, and only reads it for `Send`.
unsafe impl<B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)> Port for HalPort<B, C, F> {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver leaves the memory to the port until `done`.
        let result = unsafe { carry_out(&mut self.bus, exchange) };
        self.failed |= result.is_err();
    }

    fn done(&mut self) -> Progress {
        match core::mem::take(&mut self.failed) {
            true => Progress::Failed,
            false => Progress::Done,
        }
    }

    fn stop(&mut self) -> bool {
        true
    }

    fn select(&mut self, on: bool) {
        let result = if on { self.select.set_low() } else { self.select.set_high() };
        self.failed |= result.is_err();
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            (self.clock)(&mut self.bus, hz);
        }
    }
}

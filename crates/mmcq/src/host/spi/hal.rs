//! A port of `embedded-hal` 1.0.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::port::{Exchange, Port, Progress};
use crate::host::Segment;
use embedded_hal::digital::OutputPin;
use embedded_hal::spi::SpiBus;

/// Bytes of ones that are sent at a time.
const ONES: [u8; 8] = [0xff; 8];

/// An `embedded-hal` bus with a chip select. The caller waits for the wire (164 us for a block at
/// 25 MHz), and never for the card.
///
/// The bus has no other device. It is an `SpiBus`, not an `SpiDevice`, which deselects the card
/// after each transaction, and cannot make the clocks of power-up. For a bus with other devices use
/// [`SharedHalPort`](super::SharedHalPort). The bus is in mode 0. `clock` sets its clock in hertz,
/// rounded down, since the trait has no function for it.
///
/// Nothing interrupts: the program calls [`Stack::turn`](crate::task::Stack::turn) in its loop, or
/// uses the blocking calls, which call it.
pub struct HalPort<B, C, F> {
    bus: B,
    select: C,
    clock: F,
    failed: bool,
}

impl<B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)> HalPort<B, C, F> {
    /// Makes a port for the card on this bus, with its chip select (low: selected).
    pub fn new(bus: B, select: C, clock: F) -> Self {
        HalPort { bus, select, clock, failed: false }
    }
}

/// Carries an exchange out, and waits for the wire.
///
/// # Safety
/// The memory of the exchange is lent to the caller, and nothing else uses it meanwhile.
pub(super) unsafe fn carry_out<B: SpiBus>(bus: &mut B, exchange: Exchange) -> Result<(), B::Error> {
    // SAFETY: see above.
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
        // SAFETY: as above; it is only read.
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

// SAFETY: the memory is touched in `exchange` alone, and only read for `Send`.
unsafe impl<B: SpiBus, C: OutputPin, F: FnMut(&mut B, u32)> Port for HalPort<B, C, F> {
    fn exchange(&mut self, exchange: Exchange) {
        // SAFETY: the driver lends the memory until `done`.
        let result = unsafe { carry_out(&mut self.bus, exchange) };
        self.failed |= result.is_err();
    }

    fn done(&mut self) -> Progress {
        match core::mem::take(&mut self.failed) {
            true => Progress::Failed,
            false => Progress::Done,
        }
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

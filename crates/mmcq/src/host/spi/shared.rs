//! A port for an SPI bus of `embedded-hal` 1.0 that the card shares with other devices.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::hal::carry_out;
use super::port::{Exchange, Port, Progress};
use core::cell::{RefCell, RefMut};
use core::ops::DerefMut;
use embedded_hal::digital::OutputPin;
use embedded_hal::spi::SpiBus;

/// A bus that several users share. A lease is exclusive use of the bus, until the lease is dropped.
///
/// `&RefCell` of a bus implements the trait for users of one thread; `RefCellDevice` of the crate
/// embedded-hal-bus takes the same `RefCell`. For users of several threads, implement the trait
/// with a mutex that has `try_lock`.
pub trait BusLease {
    /// Type of the shared bus.
    type Bus: SpiBus;
    /// Type of a lease: exclusive use of the bus.
    type Lease: DerefMut<Target = Self::Bus>;

    /// Returns a lease of the bus, or `None` while another user has one. Never waits.
    fn lease(&self) -> Option<Self::Lease>;
}

impl<'a, B: SpiBus> BusLease for &'a RefCell<B> {
    type Bus = B;
    type Lease = RefMut<'a, B>;

    fn lease(&self) -> Option<RefMut<'a, B>> {
        self.try_borrow_mut().ok()
    }
}

/// A port for a card on a bus with other devices. The port leases the bus from the beginning of a
/// command until the card is deselected. A call waits for the transfer on the bus, but never for
/// the card or for another user.
///
/// While another user has the bus, the card's exchange waits; each [`Stack::turn`] tries again. A
/// phase may take several turns, and the port keeps the bus between them. So another user must
/// check whether the bus is free before it uses the bus (`RefCell::try_borrow_mut`). If all users
/// make blocking calls, one after the other, the bus is always free. No transfer stays open, so
/// sequential access is much slower than on a bus without other devices.
///
/// The port sets the card's clock with each lease, since another device may have used another
/// clock. The closure `clock` sets it in hertz, rounded down. All devices use SPI mode 0, or the
/// closure sets the mode too.
///
/// A port that is dropped deselects its card, so that the other devices can use the bus.
///
/// [`Stack::turn`]: crate::task::Stack::turn
pub struct SharedHalPort<L: BusLease, C: OutputPin, F: FnMut(&mut L::Bus, u32)> {
    bus: L,
    lease: Option<L::Lease>,
    select: C,
    clock: F,
    hz: u32,
    selected: bool,
    /// The exchange that waits for a lease of the bus; `None`: no exchange waits.
    waiting: Option<Exchange>,
    failed: bool,
}

impl<L: BusLease, C: OutputPin, F: FnMut(&mut L::Bus, u32)> SharedHalPort<L, C, F> {
    /// Makes a port for the card on `bus`, with its chip select `select`. Low selects the card; the
    /// chip select must be high at this call.
    pub fn new(bus: L, select: C, clock: F) -> Self {
        SharedHalPort {
            bus,
            lease: None,
            select,
            clock,
            hz: 0,
            selected: false,
            waiting: None,
            failed: false,
        }
    }

    /// Returns the bus; `None` while another user has it. If the bus was leased anew and the driver
    /// wants the card selected, selects the card.
    fn leased(&mut self) -> Option<&mut L::Bus> {
        if self.lease.is_none() {
            let bus = self.lease.insert(self.bus.lease()?);
            if self.hz != 0 {
                (self.clock)(bus, self.hz);
            }
            if self.selected {
                // Some cards miss the selection if the last byte before was not 0xff, but a byte
                // for another device.
                let result = bus.write(&[0xff]).and_then(|()| bus.flush());
                self.failed |= result.is_err();
                let result = self.select.set_low();
                self.failed |= result.is_err();
            }
        }
        self.lease.as_deref_mut()
    }

    fn exchange_waiting(&mut self) {
        if self.waiting.is_none() || self.leased().is_none() {
            return;
        }
        if let (Some(bus), Some(exchange)) = (self.lease.as_deref_mut(), self.waiting.take()) {
            // SAFETY: the driver leaves the memory to the port until `done` reports the end of the
            // exchange.
            let result = unsafe { carry_out(bus, exchange) };
            self.failed |= result.is_err();
        }
        if !self.selected {
            self.lease = None;
        }
    }
}

impl<L: BusLease, C: OutputPin, F: FnMut(&mut L::Bus, u32)> Drop for SharedHalPort<L, C, F> {
    fn drop(&mut self) {
        if self.selected {
            self.select(false);
        }
    }
}

// SAFETY: only `exchange_waiting` accesses the memory, and only reads it for `Send`. `exchange` and
// `done` call it until the exchange has ended.
unsafe impl<L: BusLease, C: OutputPin, F: FnMut(&mut L::Bus, u32)> Port for SharedHalPort<L, C, F> {
    const SHARED: bool = true;

    fn exchange(&mut self, exchange: Exchange) {
        self.waiting = Some(exchange);
        self.exchange_waiting();
    }

    fn done(&mut self) -> Progress {
        self.exchange_waiting();
        if self.waiting.is_some() {
            return Progress::Going;
        }
        match core::mem::take(&mut self.failed) {
            true => Progress::Failed,
            false => Progress::Done,
        }
    }

    fn stop(&mut self) -> bool {
        self.waiting = None;
        true
    }

    fn select(&mut self, on: bool) {
        self.selected = on;
        if on {
            // The card is selected with the lease. If the bus is not free now, the first exchange
            // tries again.
            let _ = self.leased();
            return;
        }
        let result = self.select.set_high();
        self.failed |= result.is_err();
        if let Some(mut bus) = self.lease.take() {
            // The card releases its output with these clocks.
            let result = bus.write(&[0xff]).and_then(|()| bus.flush());
            self.failed |= result.is_err();
        }
    }

    fn clock(&mut self, hz: u32) {
        self.hz = hz;
        if hz != 0
            && let Some(bus) = &mut self.lease
        {
            (self.clock)(bus, hz);
        }
    }
}

//! The interface below the SPI driver: a port that exchanges bytes.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::Segment;
use core::task::Waker;

/// An exchange of bytes on the bus, in SPI mode 0, the highest bit first.
#[derive(Debug)]
pub enum Exchange {
    /// Sends the bytes in memory; the received bytes replace them.
    Swap(Segment),
    /// Sends bytes of 0xff; the received bytes go to the memory.
    Receive(Segment),
    /// Sends the bytes in memory; the received bytes are dropped.
    Send(Segment),
    /// Sends this number of bytes of 0xff, at most 64; the received bytes are dropped.
    Idle(u32),
}

/// Progress of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The exchange is in progress, and its end will raise an interrupt.
    Going,
    /// The exchange has ended without an error.
    Done,
    /// The exchange has ended with an error (overrun, mode fault, DMA error).
    Failed,
}

/// An SPI port with a chip select for the card. No method waits for the card.
///
/// A port with DMA or interrupts starts an exchange and returns. The end of each exchange raises an
/// interrupt, and the handler calls [`Stack::on_irq`](crate::task::Stack::on_irq). A port that
/// completes the exchange inside of [`exchange`](Port::exchange) needs no interrupt if the firmware
/// calls [`Stack::turn`](crate::task::Stack::turn) in a loop.
///
/// # Safety
/// 1. The port accesses a segment's memory from the [`exchange`](Port::exchange) that has it until
///    [`done`](Port::done) returns [`Progress::Done`] or [`Progress::Failed`], or
///    [`stop`](Port::stop) returns true, and at no other time. A port that is dropped earlier has
///    stopped the exchange.
/// 2. The port only reads the memory of [`Exchange::Send`], and accesses no byte outside of a
///    segment.
/// 3. The port keeps no address after the exchange.
pub unsafe trait Port {
    /// Whether other devices are on the same bus. The driver then deselects the card after each
    /// command with its data, and leaves no transfer open.
    const SHARED: bool = false;

    /// Whether [`take_waker`](Self::take_waker) may return a waker.
    const WAKES: bool = false;

    /// Number of address bits that the port's DMA reaches; 0 if the CPU transfers the bytes. The
    /// DMA must use the CPU's addresses and need no cache maintenance.
    const DMA_BITS: u8 = 0;

    /// Starts an exchange. The previous exchange has ended.
    fn exchange(&mut self, exchange: Exchange);

    /// Returns the progress of the exchange. The driver repeats the call until the exchange has
    /// ended; a PIO port transfers its bytes in these calls.
    fn done(&mut self) -> Progress;

    /// Stops the exchange in progress; called if it has not ended within seconds. Returns true if
    /// the port no longer accesses the exchange's memory. The exchange has then ended, and `done`
    /// is not called for it. The default returns false, and the memory stays with the port.
    ///
    /// A port whose CPU moves the bytes inside of `exchange` and `done` returns true; it first
    /// disables its interrupt. A port with DMA returns true if it has stopped the DMA.
    fn stop(&mut self) -> bool {
        false
    }

    /// Selects the card (chip select low), or deselects it (high). On a [shared](Self::SHARED) bus,
    /// selecting reserves the bus: the next exchange starts when the bus is free, and one byte of
    /// 0xff is sent before the chip select falls. Deselecting sends one more byte, so that the card
    /// releases its output, and then releases the bus. No exchange is in progress.
    fn select(&mut self, on: bool);

    /// Sets the bus clock in hertz, rounded down; 0 means that no clock is needed.
    fn clock(&mut self, hz: u32);

    /// Returns the waker of an async task that carries out exchanges and now has work, if there is
    /// one: see [`Host::take_waker`](crate::host::Host::take_waker).
    fn take_waker(&mut self) -> Option<Waker> {
        None
    }
}

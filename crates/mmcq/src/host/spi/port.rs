//! The interface below the driver: a port that exchanges bytes.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::Segment;
use core::task::Waker;

/// One exchange of bytes on the bus: mode 0, the upper bit first.
#[derive(Debug)]
pub enum Exchange {
    /// Sends the memory's bytes; received bytes replace them.
    Swap(Segment),
    /// Sends 0xff; received bytes go to the memory.
    Receive(Segment),
    /// Sends the memory's bytes; received bytes are dropped.
    Send(Segment),
    /// Sends this many bytes of 0xff, at most 64; received bytes are dropped.
    Idle(u32),
}

/// Progress of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The exchange is in progress, and its end interrupts.
    Going,
    /// The exchange is over.
    Done,
    /// The exchange is over, and failed (an overrun, a mode fault, a DMA error).
    Failed,
}

/// An SPI port with a chip select of its own. No method waits for the card.
///
/// A port with DMA or interrupts starts an exchange and returns. The end of each exchange
/// interrupts, and the handler calls [`Stack::on_irq`](crate::task::Stack::on_irq). A port that
/// finishes inside of [`exchange`](Port::exchange) needs no interrupt if the program calls
/// [`Stack::turn`](crate::task::Stack::turn) in a loop.
///
/// # Safety
/// 1. The port accesses a segment's memory from the [`exchange`](Port::exchange) that has it until
///    [`done`](Port::done) returns [`Progress::Done`] or [`Progress::Failed`], and at no other time.
///    A port that is dropped before has stopped.
/// 2. It only reads the memory of [`Exchange::Send`], and accesses no byte outside of a segment.
/// 3. It keeps no address afterwards.
pub unsafe trait Port {
    /// Whether other devices are on the same wires. The chip select then rises after each phase,
    /// and no transfer is left open.
    const SHARED: bool = false;

    /// Whether [`take_waker`](Self::take_waker) may return a waker.
    const WAKES: bool = false;

    /// Number of address bits that its DMA reaches; 0 where the CPU transfers the bytes. The DMA
    /// uses the CPU's own addresses, and needs no cache maintenance.
    const DMA_BITS: u8 = 0;

    /// Starts an exchange. The one before is over.
    fn exchange(&mut self, exchange: Exchange);

    /// Returns the progress of the exchange. Called until it is over; a PIO port transfers its
    /// bytes here.
    fn done(&mut self) -> Progress;

    /// Selects the card (low), or deselects it (high). On a [shared](Self::SHARED) bus selecting
    /// reserves the bus: the next exchange starts when it is free, and a byte of ones goes first,
    /// before the chip select falls. Deselecting sends one more byte, so that the card releases its
    /// output, and releases the bus. No exchange is in progress.
    fn select(&mut self, on: bool);

    /// Sets the clock, rounded down; 0: no clock is needed.
    fn clock(&mut self, hz: u32);

    /// Takes the waker of a task that carries out exchanges: see
    /// [`Host::take_waker`](crate::host::Host).
    fn take_waker(&mut self) -> Option<Waker> {
        None
    }
}

//! What is below the driver: a port that exchanges bytes.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use crate::host::Segment;
use core::task::Waker;

/// One exchange of bytes on the bus: mode 0, the upper bit first.
#[derive(Debug)]
pub enum Exchange {
    /// Sends the memory's bytes; what comes in takes their place.
    Swap(Segment),
    /// Sends 0xff; what comes in goes to the memory.
    Receive(Segment),
    /// Sends the memory's bytes; what comes in is dropped.
    Send(Segment),
    /// Sends so many bytes of 0xff, at most 64; what comes in is dropped.
    Idle(u32),
}

/// How far an exchange has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on, and its end interrupts.
    Going,
    /// It is over.
    Done,
    /// It is over, and went wrong (an overrun, a mode fault, an error of DMA).
    Failed,
}

/// An SPI port with a chip select of its own. No method blocks for the card.
///
/// A port by DMA or by interrupts starts an exchange and returns. Each end of an exchange
/// interrupts, and the handler calls [`Stack::on_irq`](crate::task::Stack::on_irq). A port that has
/// finished inside of [`exchange`](Port::exchange) needs no interrupt where the program calls
/// [`Stack::turn`](crate::task::Stack::turn) in a loop.
///
/// # Safety
/// 1. The port touches a segment's memory from the [`exchange`](Port::exchange) that has it until
///    [`done`](Port::done) answers [`Progress::Done`] or [`Progress::Failed`], and at no other
///    time. A port that is dropped before has stopped.
/// 2. It only reads the memory of [`Exchange::Send`], and touches no byte outside of a segment.
/// 3. It keeps no address after that.
pub unsafe trait Port {
    /// Other devices are on the same wires. The chip select rises after each phase then, and no
    /// transfer is left open.
    const SHARED: bool = false;

    /// [`take_waker`](Self::take_waker) may answer.
    const WAKES: bool = false;

    /// Address bits that its DMA reaches; 0 where the CPU moves the bytes. It reaches memory at the
    /// CPU's own addresses, and needs no cache maintenance.
    const DMA_BITS: u8 = 0;

    /// Starts an exchange. The one before is over.
    fn exchange(&mut self, exchange: Exchange);

    /// How far the exchange has got. Asked until it is over; a port by PIO moves its bytes here.
    fn done(&mut self) -> Progress;

    /// Selects the card (low), or lets it go (high). On a [shared](Self::SHARED) bus selecting
    /// takes the bus: the next exchange starts when it is free. Letting go sends a byte more, so
    /// that the card lets go of its output, and gives the bus back. No exchange is going on.
    fn select(&mut self, on: bool);

    /// Sets the clock, rounded down; 0: none is needed.
    fn clock(&mut self, hz: u32);

    /// The waker of a task that carries exchanges out: see [`Host::take_waker`](crate::host::Host).
    fn take_waker(&mut self) -> Option<Waker> {
        None
    }
}

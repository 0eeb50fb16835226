//! Model of the PL022 (PrimeCell SSP), register by register: a master of an SPI bus with two FIFOs
//! of eight words.
//!
//! [`Pl022`] is passive: each call gives it the time, and
//! [`Device::next_event_ns`](crate::world::Device::next_event_ns) returns the time of the next
//! event inside the model. Its SPI bus with the card is a [`SpiSlot`].
//!
//! The board adds a GPIO block at 1000h, whose pin 0 is chip select. The block has the registers of
//! a PL061 (masked data at 1000h to 13FCh, DIR at 1400h) and DEN at 151Ch. While the pin is not a
//! digital output, a resistor keeps chip select high.
//!
//! Where the manual leaves something open, the model chooses the strict behaviour. It counts
//! mistakes in [`Controller::protocol_violations`](crate::slot::Controller::protocol_violations).
//! Counted and without effect are: a write to a full FIFO, a read of an empty FIFO, accesses that
//! are not 4 bytes, unknown registers. Only counted are a change of clock, format or chip select
//! while busy, and each frame with settings that the card does not understand: not 8 or 16 bits,
//! not Motorola's format, slave mode, or another clock mode than 0 and 3. Instead of such a frame
//! the card receives ones.
//!
//! In Motorola's format with SPH = 0 there is one clock between two frames, in which the frame
//! signal goes up. DMACR only stores what is written, since the board has no DMA.

mod registers;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::alarms::NEVER;
use crate::card::Card;
use crate::faults::{Point, Strike};
use crate::slot::{Core, Slot};
use crate::spi::SpiSlot;
use crate::wire::Beat;
use registers::{Registers, irq};

/// Access to the controller's registers, as a driver has it.
pub type Port = crate::port::Port<Pl022>;

/// Number of words in each FIFO.
const WORDS: usize = 8;
/// Receive timeout in clocks of the SPI bus.
const TIMEOUT_CLK: u64 = 32;

impl crate::port::RegisterFile for Pl022 {
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        Pl022::read(self, offset, size, now_ns)
    }

    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        Pl022::write(self, offset, size, value, now_ns);
    }
}

/// Timers of the PL022 model: the end of a frame, and the receive timeout.
#[derive(Clone, Copy)]
enum Timer {
    Frame,
    Timeout,
}

const TIMERS: [Timer; 2] = [Timer::Frame, Timer::Timeout];

/// The frame that is on the wire.
#[derive(Clone, Copy)]
struct Shifting {
    word: u16,
    start: Beat,
}

/// Model of a PL022, with its SPI bus and slot.
pub struct Pl022 {
    bus: SpiSlot,
    clock_hz: u32,
    regs: Registers,
    send: VecDeque<u16>,
    received: VecDeque<u16>,
    shifting: Option<Shifting>,
    /// Interrupt events that were present and enabled when the interrupt line was last updated, one
    /// bit each.
    pending: u32,
}

impl Core for Pl022 {
    fn slot(&self) -> &Slot {
        self.bus.slot()
    }

    fn slot_mut(&mut self) -> &mut Slot {
        self.bus.slot_mut()
    }

    fn alarm(&mut self, alarm: usize, now_ns: u64) {
        match TIMERS[alarm] {
            Timer::Frame => self.frame_ends(now_ns),
            Timer::Timeout => self.regs.latched |= irq::TIMEOUT,
        }
    }

    fn card_came(&mut self, now_ns: u64) {
        self.bus.card_came(now_ns);
    }

    fn card_went(&mut self, now_ns: u64) {
        self.bus.card_went(now_ns);
    }

    fn look(&mut self, now_ns: u64) {
        self.update_irq(now_ns);
    }
}

impl Pl022 {
    /// Makes a controller in its state after reset, at time 0; the card has power. `clock_hz` is
    /// the frequency of SSPCLK.
    pub fn new(clock_hz: u32, card: Option<Box<dyn Card>>) -> Self {
        Pl022 {
            bus: SpiSlot::new(card),
            clock_hz: clock_hz.max(1),
            regs: Registers::default(),
            send: VecDeque::with_capacity(WORDS),
            received: VecDeque::with_capacity(WORDS),
            shifting: None,
            pending: 0,
        }
    }

    /// Returns the SPI bus with its card. Tests must not send bytes on it: the controller does.
    pub fn spi_mut(&mut self) -> &mut SpiSlot {
        &mut self.bus
    }

    fn is_busy(&self) -> bool {
        self.shifting.is_some() || (self.regs.enabled() && !self.send.is_empty())
    }

    /// Starts to send the next word of the transmit FIFO.
    fn begin_frame(&mut self, at: Beat) {
        if !self.regs.enabled() || self.shifting.is_some() {
            return;
        }
        let Some(word) = self.send.pop_front() else { return };
        if !self.regs.is_spoken() {
            self.bus.slot_mut().violation();
        }
        let end_ns = at.plus(self.regs.frame_clk()).ns();
        self.shifting = Some(Shifting { word, start: at });
        self.bus.slot_mut().set_alarm(Timer::Frame as usize, end_ns);
    }

    fn frame_ends(&mut self, now_ns: u64) {
        let Some(Shifting { word, start }) = self.shifting.take() else { return };
        let back = if self.regs.loops_back() { word } else { self.shift(word, start) };
        if self.received.len() < WORDS {
            self.received.push_back(back);
        } else {
            self.regs.latched |= irq::OVERRUN;
        }
        self.watch_received(now_ns);
        self.begin_frame(start.plus(self.regs.frame_clk() + self.regs.gap_clk()));
    }

    /// Moves one word in each direction, from the edge `start` on. Returns the received word.
    fn shift(&mut self, word: u16, start: Beat) -> u16 {
        let half = start.plus(8);
        match self.regs.frame_clk() {
            _ if !self.regs.is_spoken() => {
                self.bus.byte(0xff, start, half);
                u16::MAX >> (16 - self.regs.frame_clk())
            }
            16 => {
                let high = self.bus.byte((word >> 8) as u8, start, half);
                u16::from_be_bytes([high, self.bus.byte(word as u8, half, half.plus(8))])
            }
            _ => self.bus.byte(word as u8, start, half).into(),
        }
    }

    /// Starts the receive timeout if received words wait to be read.
    fn watch_received(&mut self, now_ns: u64) {
        let hz = self.bus.clock_hz();
        let at_ns = match self.received.is_empty() {
            true => NEVER,
            false => Beat::new(now_ns, hz).plus(TIMEOUT_CLK).ns(),
        };
        self.bus.slot_mut().set_alarm(Timer::Timeout as usize, at_ns);
    }

    /// Returns all interrupt events that are present, enabled or not, one bit each as in RIS.
    fn events(&self) -> u32 {
        let mut events = self.regs.latched;
        if self.received.len() >= WORDS / 2 {
            events |= irq::RECEIVE;
        }
        if self.send.len() <= WORDS / 2 {
            events |= irq::SEND;
        }
        events
    }

    /// Updates the interrupt line, which is asserted while an enabled event is present.
    fn update_irq(&mut self, now_ns: u64) {
        let pending = self.events() & self.regs.mask;
        let before = std::mem::replace(&mut self.pending, pending);
        let slot = self.bus.slot_mut();
        if pending == 0 || pending & !before != 0 {
            slot.line.forgive();
        }
        if pending != 0 && slot.line.may_rise() {
            if self.strike(Point::Interrupt, now_ns) == Some(Strike::Lost) {
                self.bus.slot_mut().line.lose();
            } else {
                self.bus.slot_mut().interrupt(now_ns, pending);
            }
        }
        let slot = self.bus.slot_mut();
        let high = pending != 0 && !slot.line.is_lost();
        slot.set_line(high, now_ns);
    }
}

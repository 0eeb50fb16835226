//! The port together with the driver's own memory: bytes to send, and bytes that were received.

use super::card::Card;
use super::frame::{self, Input, SpiMemory, WIRE_BYTES, WITH_ANSWER, WITH_LATE_ANSWER};
use super::port::{Exchange, Port, Progress};
use crate::host::Segment;
use core::ptr::NonNull;

/// The port, the driver's memory, the state of the card, and the exchange in progress: the part of
/// the driver [`Spi`](super::Spi) that phases and bus operations share.
pub(super) struct Line<P: Port> {
    pub port: P,
    memory: &'static mut SpiMemory,
    pub input: Input,
    pub card: Card,
    /// Duration of a byte at the present clock, in nanoseconds.
    pub byte_ns: u32,
    clock_hz: u32,
    selected: bool,
    /// Whether an SPI exchange (bytes in both directions) was started and the port has not reported
    /// its end yet.
    going: bool,
    /// Whether an SPI exchange has ended since the engine's present call of the driver began
    /// ([`begin_call`](Self::begin_call)).
    ended: bool,
}

impl<P: Port> Line<P> {
    pub fn new(port: P, memory: &'static mut SpiMemory) -> Self {
        Line {
            port,
            memory,
            input: Input::default(),
            card: Card::default(),
            byte_ns: 0,
            clock_hz: 0,
            selected: false,
            going: false,
            ended: false,
        }
    }

    /// Notes that a call of the driver begins. [`has_ended`](Self::has_ended) is false until an
    /// exchange ends in this call.
    pub fn begin_call(&mut self) {
        self.ended = false;
    }

    /// Returns whether an exchange has ended since the last [`begin_call`](Self::begin_call).
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns how far the last SPI exchange of the driver has got.
    #[inline]
    pub fn progress(&mut self) -> Progress {
        if !self.going {
            return Progress::Done;
        }
        let progress = self.port.done();
        self.going = progress == Progress::Going;
        self.ended |= !self.going;
        progress
    }

    /// Stops the exchange in progress. Returns true if the port uses no memory of an exchange any
    /// more.
    pub fn stop(&mut self) -> bool {
        if self.progress() == Progress::Going {
            self.going = !self.port.stop();
        }
        !self.going
    }

    /// Selects the card if `on` is true, and deselects it otherwise.
    pub fn select(&mut self, on: bool) {
        if self.selected != on {
            self.selected = on;
            self.port.select(on);
        }
    }

    /// Sets the clock to `hz` hertz; `None` sets the last clock again, 0 stops it.
    pub fn clock(&mut self, hz: Option<u32>) {
        self.clock_hz = hz.unwrap_or(self.clock_hz);
        // Eight clocks. Numbers of 32 bits save the division of 64.
        let byte_ns = 4_000_000_000u32.checked_div(self.clock_hz).unwrap_or(0);
        self.byte_ns = byte_ns.saturating_mul(2);
        if self.clock_hz == 0 {
            self.select(false);
        }
        self.port.clock(self.clock_hz);
    }

    pub fn exchange(&mut self, exchange: Exchange) {
        self.going = true;
        self.port.exchange(exchange);
    }

    /// Exchanges `count` bytes of the driver's memory from `at` on.
    fn swap(&mut self, at: usize, count: usize) {
        let Some(part) = self.memory.0.get_mut(at..WIRE_BYTES.min(at + count)) else { return };
        let len = part.len() as u32;
        if part.is_empty() {
            return;
        }
        let ptr = NonNull::from(&mut *part).cast::<u8>();
        let bus = if P::DMA_BITS == 0 { 0 } else { ptr.addr().get() as u64 };
        self.exchange(Exchange::Swap(Segment { ptr, len, bus }));
    }

    /// Sends the command `index` with the argument `arg`, and receives bytes for its response. The
    /// bytes that come in during the command, and `skip` bytes after it, are marked as read.
    pub fn send_frame(&mut self, index: u8, arg: u32, skip: usize) {
        let [a, b, c, d, e, f] = frame::of(index, arg);
        // The driver does not poll once more for a late response to CMD0, so receive enough bytes
        // at once.
        let count = if index == 0 { WITH_LATE_ANSWER } else { WITH_ANSWER };
        self.put(&[0xff, a, b, c, d, e, f], count);
        self.input.skip(7 + skip);
    }

    /// Sends `bytes` followed by bytes of 0xff, `count` bytes in total.
    pub fn put(&mut self, bytes: &[u8], count: usize) {
        let mut bytes = bytes.iter();
        for to in self.memory.0.iter_mut().take(count) {
            *to = bytes.next().copied().unwrap_or(0xff);
        }
        self.input = Input::of(count);
        self.swap(0, count);
    }

    /// Sends the CRC of a block, and receives bytes for the card's data response.
    pub fn put_crc(&mut self, crc: u16) {
        const BYTES: usize = 8;
        self.put(&crc.to_be_bytes(), BYTES);
        self.input.skip(2);
    }

    /// Receives `count` more bytes after the received bytes that were not read yet.
    pub fn more(&mut self, count: usize) {
        let left = self.input.settle(self.memory, count);
        let count = count.min(WIRE_BYTES - left.min(WIRE_BYTES));
        self.input = Input::of(left + count);
        self.swap(left, count);
    }

    /// Returns whether `bytes` bytes are received and unread. If not, starts to receive the missing
    /// ones and `extra` more.
    pub fn fetch(&mut self, bytes: usize, extra: usize) -> bool {
        let lacking = bytes.saturating_sub(self.input.len());
        if lacking > 0 {
            self.more(lacking + extra);
        }
        lacking == 0
    }

    /// Returns the next received byte that was not read, and marks it as read; `None` if there is
    /// none.
    #[inline]
    pub fn next(&mut self) -> Option<u8> {
        self.input.next(self.memory)
    }

    /// Returns the received bytes, and does not mark them as read.
    pub fn bytes(&self) -> &[u8] {
        self.input.bytes(self.memory)
    }

    /// Returns whether the card sent bytes, or became busy, while the driver sent the last command.
    pub fn was_noisy_in_frame(&self) -> bool {
        self.memory.0.iter().take(7).skip(1).any(|&byte| byte != 0xff)
    }

    /// Returns whether the card's line was low in all first bytes of the last exchange that sent a
    /// command.
    pub fn was_low(&self) -> bool {
        self.memory.0.iter().take(WITH_ANSWER).all(|&byte| byte == 0)
    }

    /// Returns whether the card's line is high, by the last received byte.
    pub fn is_high(&self) -> bool {
        self.input.last(self.memory) == Some(0xff)
    }
}

//! Driver of Arm's PL022 by interrupts: a port for a card in SPI mode. Its two FIFOs hold eight
//! words each.

use crate::arm::{read, write};
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress};

const SSI: usize = 0x4000_8000;
const CONTROL_0: usize = SSI;
/// Register value: frames of eight bits, SPI mode 0.
const EIGHT_BITS: u32 = 7;
const CONTROL_1: usize = SSI + 0x04;
const ON: u32 = 1 << 1;
const DATA: usize = SSI + 0x08;
const STATUS: usize = SSI + 0x0c;
const RX_NOT_EMPTY: u32 = 1 << 2;
const PRESCALE: usize = SSI + 0x10;
const MASK: usize = SSI + 0x14;
/// Interrupt bits of the receive FIFO: timeout, and half full.
const RX: u32 = 1 << 1 | 1 << 2;
/// Interrupt bit of the transmit FIFO: half empty.
const TX: u32 = 1 << 3;
const FIFO: u32 = 8;
/// Register of port D, bit 0: the card's chip select.
const SELECT: usize = 0x4000_7004;
const PORT_D_DIRECTION: usize = 0x4000_7400;
const PORT_D_ENABLE: usize = 0x4000_751c;
/// Registers of port A, bits 2, 4 and 5: clock and data lines.
const PORT_A_FUNCTION: usize = 0x4000_4420;
const PORT_A_ENABLE: usize = 0x4000_451c;
const PINS: u32 = 0b11_0100;
/// Frequency of the system clock after reset in hertz.
const CLOCK_HZ: u32 = 12_500_000;

/// The port, with its present exchange.
pub struct Pl022 {
    /// Addresses from which bytes are sent, and to which received bytes go.
    from: *const u8,
    to: *mut u8,
    bytes: u32,
    sent: u32,
    received: u32,
}

// SAFETY: the addresses belong to the present exchange, whose memory only the driver uses.
unsafe impl Send for Pl022 {}

impl Pl022 {
    /// Switches on the SSI and its pins.
    pub fn new() -> Self {
        write(PORT_A_FUNCTION, read(PORT_A_FUNCTION) | PINS);
        write(PORT_A_ENABLE, read(PORT_A_ENABLE) | PINS);
        write(PORT_D_DIRECTION, read(PORT_D_DIRECTION) | 1);
        write(PORT_D_ENABLE, read(PORT_D_ENABLE) | 1);
        write(SELECT, 1);
        write(CONTROL_0, EIGHT_BITS);
        write(CONTROL_1, ON);
        Pl022 { from: core::ptr::null(), to: core::ptr::null_mut(), bytes: 0, sent: 0, received: 0 }
    }

    /// Moves bytes between memory and the FIFOs, as many as possible.
    fn pump(&mut self) {
        // On a slow bus an empty FIFO ends this loop, on a fast bus the end of the exchange.
        loop {
            while self.sent < self.bytes && self.sent - self.received < FIFO {
                // A null address sends FFh.
                let byte = if self.from.is_null() {
                    0xff
                } else {
                    // SAFETY: the address is inside the exchange's memory.
                    unsafe { self.from.add(self.sent as usize).read() }
                };
                write(DATA, byte.into());
                self.sent += 1;
            }
            if self.received == self.bytes || read(STATUS) & RX_NOT_EMPTY == 0 {
                return;
            }
            let byte = read(DATA) as u8;
            if !self.to.is_null() {
                // SAFETY: the address is inside the exchange's memory.
                unsafe { self.to.add(self.received as usize).write(byte) };
            }
            self.received += 1;
        }
    }
}

// SAFETY: only `pump` touches memory. `exchange` and `done` call it until all bytes have come in.
// For `Send` there is no memory for received bytes, so it is only read.
unsafe impl Port for Pl022 {
    fn exchange(&mut self, exchange: Exchange) {
        let (ptr, len) = match &exchange {
            Exchange::Swap(s) | Exchange::Receive(s) | Exchange::Send(s) => {
                (s.ptr().as_ptr(), Segment::len_bytes(s))
            }
            Exchange::Idle(count) => (core::ptr::null_mut(), *count),
        };
        (self.from, self.to) = match exchange {
            Exchange::Swap(_) => (ptr.cast_const(), ptr),
            Exchange::Receive(_) => (core::ptr::null(), ptr),
            Exchange::Send(_) => (ptr.cast_const(), core::ptr::null_mut()),
            Exchange::Idle(_) => (core::ptr::null(), core::ptr::null_mut()),
        };
        (self.bytes, self.sent, self.received) = (len, 0, 0);
        #[cfg(feature = "path")]
        crate::path::exchanges(len);
        self.pump();
        // The transmit FIFO is half empty soon or already, so the end of the exchange causes an
        // interrupt too.
        write(MASK, RX | TX);
    }

    fn done(&mut self) -> Progress {
        self.pump();
        if self.received == self.bytes {
            write(MASK, 0);
            return Progress::Done;
        }
        write(MASK, if self.sent < self.bytes { RX | TX } else { RX });
        Progress::Going
    }

    fn stop(&mut self) -> bool {
        (self.bytes, self.sent, self.received) = (0, 0, 0);
        write(MASK, 0);
        // The next exchange must not take these bytes for its own.
        for _ in 0..FIFO {
            let _ = read(DATA);
        }
        true
    }

    fn select(&mut self, on: bool) {
        write(SELECT, u32::from(!on));
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            // The divider must be even, from 2 to 254.
            let divider = CLOCK_HZ.div_ceil(hz).next_multiple_of(2).clamp(2, 254);
            write(PRESCALE, divider);
        }
    }
}

//! Driver of SiFive's SPI controller by interrupts: a port for a card in SPI mode. Its two FIFOs
//! hold eight bytes each.

use crate::cpu::{read, write};
use mmcq::host::spi::{Exchange, Port, Progress};

const SPI: usize = 0x1005_0000;
const DIVIDER: usize = SPI;
const SELECT_MODE: usize = SPI + 0x18;
/// Chip select mode "auto": the line goes high when nothing is sent. (Real hardware needs the mode
/// "off" for the clocks of power-up, but QEMU's model selects the card in that mode.)
const AUTO: u32 = 0;
const HOLD: u32 = 2;
/// Register of the frame format: eight bits, highest bit first, one line for each direction.
const FORMAT: usize = SPI + 0x40;
const EIGHT_BITS: u32 = 8 << 16;
const TX: usize = SPI + 0x48;
const RX: usize = SPI + 0x4c;
const EMPTY: u32 = 1 << 31;
const RX_MARK: usize = SPI + 0x54;
const ENABLE: usize = SPI + 0x70;
/// Interrupt bit: more bytes have come in than the threshold.
const RX_ABOVE: u32 = 1 << 1;
const FIFO: u32 = 8;
/// Frequency of the bus clock of QEMU's machine in hertz.
const CLOCK_HZ: u32 = 500_000_000;

/// The port, with its present exchange.
pub struct SifiveSpi {
    /// Addresses from which bytes are sent, and to which received bytes go. A null address sends
    /// FFh, or drops received bytes.
    from: *const u8,
    to: *mut u8,
    bytes: u32,
    sent: u32,
    received: u32,
}

// SAFETY: the addresses belong to the present exchange, whose memory only the driver uses.
unsafe impl Send for SifiveSpi {}

impl SifiveSpi {
    /// Switches on the controller.
    pub fn new() -> Self {
        write(ENABLE, 0);
        write(SELECT_MODE, AUTO);
        write(FORMAT, EIGHT_BITS);
        SifiveSpi { from: core::ptr::null(), to: core::ptr::null_mut(), bytes: 0, sent: 0, received: 0 }
    }

    /// Exchanges bytes by polling, for tests that do not use the driver. Returns the last received
    /// byte.
    pub fn at_once(&mut self, bytes: impl IntoIterator<Item = u8>) -> u8 {
        bytes.into_iter().fold(0xff, |_, byte| {
            write(TX, byte.into());
            loop {
                let came = read(RX);
                if came & EMPTY == 0 {
                    return came as u8;
                }
            }
        })
    }

    /// Writes bytes to the transmit FIFO until it is full.
    fn fill(&mut self) {
        while self.sent < self.bytes && self.sent - self.received < FIFO {
            // A null address sends FFh.
            let byte = if self.from.is_null() {
                0xff
            } else {
                // SAFETY: the address is inside the exchange's memory.
                unsafe { self.from.add(self.sent as usize).read() }
            };
            write(TX, byte.into());
            self.sent += 1;
        }
    }

    /// Moves bytes between memory and the FIFOs, as many as possible.
    fn pump(&mut self) {
        loop {
            self.fill();
            if self.received == self.bytes {
                return;
            }
            let came = read(RX);
            if came & EMPTY != 0 {
                return;
            }
            if !self.to.is_null() {
                // SAFETY: the address is inside the exchange's memory.
                unsafe { self.to.add(self.received as usize).write(came as u8) };
            }
            self.received += 1;
        }
    }

    /// Sets the threshold: the port interrupts when all bytes on their way have come in, or when
    /// five of them have, whichever is first.
    fn listen(&self) {
        write(RX_MARK, (self.sent - self.received).saturating_sub(1).min(FIFO / 2));
        write(ENABLE, RX_ABOVE);
    }
}

// SAFETY: only `fill` and `pump` touch memory. `exchange` and `done` call them until all bytes have
// come in. For `Send` there is no memory for received bytes, so it is only read.
unsafe impl Port for SifiveSpi {
    fn exchange(&mut self, exchange: Exchange) {
        let none = core::ptr::null_mut::<u8>();
        let (from, to, bytes) = match &exchange {
            Exchange::Swap(s) => (s.ptr().as_ptr(), s.ptr().as_ptr(), s.len_bytes()),
            Exchange::Receive(s) => (none, s.ptr().as_ptr(), s.len_bytes()),
            Exchange::Send(s) => (s.ptr().as_ptr(), none, s.len_bytes()),
            Exchange::Idle(count) => (none, none, *count),
        };
        (self.from, self.to) = (from.cast_const(), to);
        (self.bytes, self.sent, self.received) = (bytes, 0, 0);
        #[cfg(feature = "path")]
        crate::path::exchanges(bytes);
        self.fill();
        // The first bytes are being sent: their end causes an interrupt.
        self.listen();
    }

    fn done(&mut self) -> Progress {
        self.pump();
        if self.received == self.bytes {
            write(ENABLE, 0);
            return Progress::Done;
        }
        self.listen();
        Progress::Going
    }

    fn stop(&mut self) -> bool {
        (self.bytes, self.sent, self.received) = (0, 0, 0);
        write(ENABLE, 0);
        // The next exchange must not take these bytes for its own.
        for _ in 0..FIFO {
            let _ = read(RX);
        }
        true
    }

    fn select(&mut self, on: bool) {
        write(SELECT_MODE, if on { HOLD } else { AUTO });
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            // The clock is the bus clock divided by 2 * (divider + 1).
            write(DIVIDER, (CLOCK_HZ.div_ceil(2 * hz) - 1).min(0xfff));
        }
    }
}

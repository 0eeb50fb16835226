//! The port of the images for SPI: Arm's SSI with its FIFO, by interrupts.

use crate::late;
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};

static WIRE: late::Once<SpiMemory> = late::Once::new(SpiMemory::new());

/// Makes the driver for the card at this port; `None` if it was made before.
#[inline(always)]
pub fn driver() -> Option<Spi<Ssi>> {
    let none = core::ptr::null_mut();
    let port = Ssi { from: none, to: none, bytes: 0, sent: 0, received: 0 };
    Some(Spi::new(port, WIRE.take()?, SpiConfig::new(24_000_000)))
}

const SSI: usize = 0x4500_0000;
const DATA: usize = SSI + 0x08;
const STATUS: usize = SSI + 0x0c;
const RX_NOT_EMPTY: u32 = 1 << 2;
const PRESCALE: usize = SSI + 0x10;
const MASK: usize = SSI + 0x14;
const SELECT: usize = 0x4600_0000;
const FIFO: u32 = 8;

fn read(address: usize) -> u32 {
    // SAFETY: the address is a register of the port.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

fn write(address: usize, value: u32) {
    // SAFETY: the address is a register of the port.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// The SPI port, with its present exchange.
#[derive(Debug)]
pub struct Ssi {
    from: *const u8,
    to: *mut u8,
    bytes: u32,
    sent: u32,
    received: u32,
}

// SAFETY: the addresses belong to the present exchange, whose memory only the driver uses.
unsafe impl Send for Ssi {}

// SAFETY: only `done` touches memory, until all bytes have come in; for `Send` there is no memory
// for received bytes.
unsafe impl Port for Ssi {
    fn exchange(&mut self, exchange: Exchange) {
        let place = |s: &Segment| (s.ptr().as_ptr(), s.len_bytes());
        let none = core::ptr::null_mut();
        let (from, to, bytes) = match &exchange {
            Exchange::Swap(s) => (place(s).0, place(s).0, place(s).1),
            Exchange::Receive(s) => (none, place(s).0, place(s).1),
            Exchange::Send(s) => (place(s).0, none, place(s).1),
            Exchange::Idle(count) => (none, none, *count),
        };
        *self = Ssi { from, to, bytes, sent: 0, received: 0 };
        write(MASK, 0b1110);
    }

    fn done(&mut self) -> Progress {
        loop {
            while self.sent < self.bytes && self.sent - self.received < FIFO {
                let byte = match self.from.is_null() {
                    true => 0xff,
                    // SAFETY: the address is inside the exchange's memory.
                    false => unsafe { self.from.add(self.sent as usize).read() },
                };
                write(DATA, byte.into());
                self.sent += 1;
            }
            if self.received == self.bytes {
                write(MASK, 0);
                return Progress::Done;
            }
            if read(STATUS) & RX_NOT_EMPTY == 0 {
                return Progress::Going;
            }
            let byte = read(DATA) as u8;
            if !self.to.is_null() {
                // SAFETY: the address is inside the exchange's memory.
                unsafe { self.to.add(self.received as usize).write(byte) };
            }
            self.received += 1;
        }
    }

    fn stop(&mut self) -> bool {
        (self.bytes, self.sent, self.received) = (0, 0, 0);
        write(MASK, 0);
        true
    }

    fn select(&mut self, on: bool) {
        write(SELECT, u32::from(!on));
    }

    fn clock(&mut self, hz: u32) {
        if hz != 0 {
            write(PRESCALE, 48_000_000u32.div_ceil(hz).next_multiple_of(2).clamp(2, 254));
        }
    }
}

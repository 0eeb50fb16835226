//! A complete card reader for an SD card in SPI mode, on a port with a FIFO: Arm's SSI, by
//! interrupts.
#![no_std]
#![no_main]

use mmcq::engine::Config;
use mmcq::host::Segment;
use mmcq::host::spi::{Exchange, Port, Progress, Spi, SpiConfig, SpiMemory};
use size::{BlockDevice, Lean, Options, TIMER, board, late};

type Stack = mmcq::task::Stack<(board::InterruptsOff, Spi<Ssi>, Lean), 8>;

static STACK: late::Late<Stack> = late::Late::new();
static BLOCK: late::Once<[u8; 512]> = late::Once::new([0; _]);
static WIRE: late::Once<SpiMemory> = late::Once::new(SpiMemory::new());

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
struct Ssi {
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
                // SAFETY: the address is inside the exchange's memory; a null address sends FFh.
                let byte =
                    if self.from.is_null() { 0xff } else { unsafe { self.from.add(self.sent as usize).read() } };
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

/// Main function of the image: reads block 0 and writes it back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

/// Makes the stack in its own stack frame, from which it is moved to its static place.
#[inline(never)]
fn made() -> Option<&'static Stack> {
    let none = core::ptr::null_mut();
    let port = Ssi { from: none, to: none, bytes: 0, sent: 0, received: 0 };
    let host = Spi::new(port, WIRE.take()?, SpiConfig::new(24_000_000));
    STACK.set(Stack::with_policy(board::InterruptsOff, TIMER, host, Config::DEFAULT, Lean::default()))
}

fn copy() -> Option<()> {
    let stack = made()?;
    let bring_up = mmcq::card::bring_up_sd(stack, size::scratch()?, Options::DEFAULT);
    let (card, _) = stack.block_on(bring_up, board::idle);
    card.ok()?;
    let device = BlockDevice::new(stack);
    let block = BLOCK.take()?;
    device.read_blocking(0, block, board::idle).ok()?;
    device.write_blocking(0, block, board::idle).ok()?;
    device.flush_blocking(board::idle).ok()
}

/// Interrupt handler of the port.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {
    if let Some(stack) = STACK.get() {
        stack.on_irq();
    }
}

//! Example for a Raspberry Pi Pico 2 (RP2350): an SD card in SPI mode on SPI0, with embassy-rp. The
//! driver was tested on QEMU's lm3s6965evb and on a model. This program was built, but never tried
//! on hardware.
//!
//! Wires: GP16 MISO, GP17 chip select, GP18 SCK, GP19 MOSI; a pull-up resistor of 10 kOhm on each
//! line of the card. The program switches the LED on after it has read block 0.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use cortex_m_rt::entry;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::spi::{self, Spi};
use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, NoLock, Once};
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, Error};
use mmcq::host::spi::{HalPort, Spi as SdSpi, SpiConfig, SpiMemory};
use mmcq::task::{Idle, Stack, Timer};

/// Highest clock in hertz that the wires of a breadboard allow.
const FASTEST_HZ: u32 = 16_000_000;

static WIRE: Once<SpiMemory> = Once::new(SpiMemory::new());
static SCRATCH: Buffer<1> = Buffer::new();

#[entry]
fn main() -> ! {
    let mut led = None;
    // A product would report the error, and use the data. Here a debugger can show both.
    let read = first_block(&mut led);
    if let (Ok(_), Some(led)) = (&read, &mut led) {
        led.set_high();
    }
    loop {
        cortex_m::asm::wfi();
    }
}

fn first_block(led: &mut Option<Output<'static>>) -> Result<Block, Error> {
    let pins = embassy_rp::init(Default::default());
    *led = Some(Output::new(pins.PIN_25, Level::Low));
    let bus = Spi::new_blocking(pins.SPI0, pins.PIN_18, pins.PIN_19, pins.PIN_16, spi::Config::default());
    let select = Output::new(pins.PIN_17, Level::High);
    let port = HalPort::new(bus, select, |bus: &mut Spi<'_, _, _>, hz| bus.set_frequency(hz));

    let host = SdSpi::new(port, WIRE.take().ok_or(Error::Full)?, SpiConfig::new(FASTEST_HZ));
    let stack: Stack<(NoLock, _), 4> =
        Stack::new(NoLock::new(), Timer::polled(now_ns), host, Config::DEFAULT);
    let scratch = SCRATCH.take().ok_or(Error::Full)?;
    let (card, _scratch) = stack.block_on(bring_up_sd(&stack, scratch, Options::DEFAULT), spin);
    let _card = card?;
    let mut block = Block([0; 512]);
    BlockDevice::new(&stack).read_blocking(0, &mut block.0, spin)?;
    Ok(block)
}

/// Returns at once, since no interrupt comes: the blocking call checks again.
fn spin(_: &Idle) {
    core::hint::spin_loop();
}

fn now_ns() -> u64 {
    embassy_time::Instant::now().as_micros() * 1000
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}

//! Example for an nRF52840-DK: an SD card in SPI mode on SPIM3, with embassy-nrf. The driver was
//! tested on QEMU's lm3s6965evb and on a model. This program was built, but never tried on
//! hardware.
//!
//! Wires: P1.12 chip select, P1.13 MOSI, P1.14 MISO, P1.15 SCK; a pull-up resistor of 10 kOhm on
//! each line of the card. The program switches LED 1 on after it has read block 0.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use cortex_m_rt::entry;
use embassy_embedded_hal::SetConfig;
use embassy_nrf::gpio::{Level, Output, OutputDrive};
use embassy_nrf::spim::{self, Frequency, Spim};
use embassy_nrf::{bind_interrupts, peripherals};
use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, NoLock, Once};
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, Error};
use mmcq::host::spi::{HalPort, Spi, SpiConfig, SpiMemory};
use mmcq::task::{Idle, Stack, Timer};

bind_interrupts!(struct Irqs {
    SPIM3 => spim::InterruptHandler<peripherals::SPI3>;
});

/// Highest clock in hertz that the wires of a breadboard allow.
const FASTEST_HZ: u32 = 8_000_000;

static WIRE: Once<SpiMemory> = Once::new(SpiMemory::new());
static SCRATCH: Buffer<1> = Buffer::new();

#[entry]
fn main() -> ! {
    let mut led = None;
    // A product would report the error, and use the data. Here a debugger can show both.
    let read = first_block(&mut led);
    if let (Ok(_), Some(led)) = (&read, &mut led) {
        led.set_low();
    }
    loop {
        cortex_m::asm::wfi();
    }
}

fn first_block(led: &mut Option<Output<'static>>) -> Result<Block, Error> {
    let pins = embassy_nrf::init(Default::default());
    *led = Some(Output::new(pins.P0_13, Level::High, OutputDrive::Standard));
    let bus = Spim::new(pins.SPI3, Irqs, pins.P1_15, pins.P1_14, pins.P1_13, spim::Config::default());
    let select = Output::new(pins.P1_12, Level::High, OutputDrive::Standard);
    let port = HalPort::new(bus, select, set_clock);

    let host = Spi::new(port, WIRE.take().ok_or(Error::Full)?, SpiConfig::new(FASTEST_HZ));
    let stack: Stack<(NoLock, _), 4> =
        Stack::new(NoLock::new(), Timer::polled(now_ns), host, Config::DEFAULT);
    let scratch = SCRATCH.take().ok_or(Error::Full)?;
    let (card, _scratch) = stack.block_on(bring_up_sd(&stack, scratch, Options::DEFAULT), spin);
    let _card = card?;
    let mut block = Block([0; 512]);
    BlockDevice::new(&stack).read_blocking(0, &mut block.0, spin)?;
    Ok(block)
}

/// Sets the fastest clock of the port that is not above `hz`.
fn set_clock(bus: &mut Spim<'_>, hz: u32) {
    let mut config = spim::Config::default();
    config.frequency = match hz {
        8_000_000.. => Frequency::M8,
        4_000_000.. => Frequency::M4,
        1_000_000.. => Frequency::M1,
        250_000.. => Frequency::K250,
        _ => Frequency::K125,
    };
    // The port supports every configuration.
    let _ = bus.set_config(&config);
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

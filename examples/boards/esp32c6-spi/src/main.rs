//! Example for an ESP32-C6: an SD card in SPI mode on SPI2, with esp-hal. The driver was tested on
//! QEMU's lm3s6965evb and on a model. This program was built, but never tried on hardware.
//!
//! Wires: GPIO18 chip select, GPIO19 SCK, GPIO20 MOSI, GPIO21 MISO; a pull-up resistor of 10 kOhm
//! on each line of the card. The program writes what it has read to the console.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::main;
use esp_hal::spi::master::{Config as BusConfig, Spi as Bus};
use esp_hal::time::{Instant, Rate};
use esp_println::println;
use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, NoLock, Once};
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, Error};
use mmcq::host::spi::{HalPort, Spi, SpiConfig, SpiMemory};
use mmcq::task::{Idle, Stack, Timer};

esp_bootloader_esp_idf::esp_app_desc!();

/// Highest clock in hertz that the wires of a breadboard allow.
const FASTEST_HZ: u32 = 20_000_000;

static WIRE: Once<SpiMemory> = Once::new(SpiMemory::new());
static SCRATCH: Buffer<1> = Buffer::new();

#[main]
fn main() -> ! {
    match first_block() {
        Ok(block) => println!("block 0 ends with {:02x?}", &block.0[510..]),
        Err(error) => println!("no block 0: {error}"),
    }
    loop {
        core::hint::spin_loop();
    }
}

fn first_block() -> Result<Block, Error> {
    let pins = esp_hal::init(esp_hal::Config::default());
    let bus = Bus::new(pins.SPI2, BusConfig::default())
        .map_err(|_| Error::Unsupported)?
        .with_sck(pins.GPIO19)
        .with_mosi(pins.GPIO20)
        .with_miso(pins.GPIO21);
    let select = Output::new(pins.GPIO18, Level::High, OutputConfig::default());
    let port = HalPort::new(bus, select, |bus: &mut Bus<'_, _>, hz| {
        // The port supports every clock that the driver sets: 100 kHz is the slowest.
        let _ = bus.apply_config(&BusConfig::default().with_frequency(Rate::from_hz(hz)));
    });

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

/// Returns at once, since no interrupt comes: the blocking call checks again.
fn spin(_: &Idle) {
    core::hint::spin_loop();
}

fn now_ns() -> u64 {
    Instant::now().duration_since_epoch().as_micros() * 1000
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    esp_hal::system::software_reset()
}

//! Example for an STM32H743 (WeAct MiniSTM32H743): an SD card on SDMMC1, with clocks and pins by
//! embassy-stm32. The driver was tested on the project's register model. This program was built,
//! but never tried on hardware.
//!
//! Pins: PC8 to PC11 data, PC12 clock, PD2 command. The program switches the LED at PE3 on after it
//! has read block 0. The data cache stays off, so that DMA and the core see the same memory.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use cortex_m_rt::entry;
use embassy_stm32::gpio::{AfType, AnyPin, Flex, Level, Output, OutputType, Pull, Speed};
use embassy_stm32::interrupt::{self, InterruptExt};
use embassy_stm32::rcc::{self, Pll, PllDiv, PllMul, PllPreDiv, PllSource};
use embassy_stm32::{Peri, pac, peripherals};
use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, Coherent, CriticalSection, Home, Once};
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, Error};
use mmcq::host::regs::Mmio;
use mmcq::host::stm32_sdmmc::{Pieces, Stm32Board, Stm32Sdmmc, Stm32SdmmcConfig};
use mmcq::task::{Idle, Stack, Timer};

/// Lock and driver of the stack. The H7's DMA has no list of segments.
type Board = (CriticalSection, Stm32Sdmmc<Mmio, Coherent, Rcc, 1>);

static CARD: Home<Board, 8> = Home::new();
static PIECES: Once<Pieces<1>> = Once::new(Pieces::new());
static SCRATCH: Buffer<1> = Buffer::new();

/// The reset line of the controller in the clock tree.
struct Rcc;

impl Stm32Board for Rcc {
    fn reset(&mut self) -> bool {
        pac::RCC.ahb3rstr().modify(|w| w.set_sdmmc1rst(true));
        pac::RCC.ahb3rstr().modify(|w| w.set_sdmmc1rst(false));
        true
    }
}

#[entry]
fn main() -> ! {
    let mut config = embassy_stm32::Config::default();
    // 64 MHz / 4 * 25 = 400 MHz: the controller gets a quarter of it, and the core's clock does not
    // change.
    config.rcc.pll1 = Some(Pll {
        source: PllSource::HSI,
        prediv: PllPreDiv::DIV4,
        mul: PllMul::MUL25,
        fracn: None,
        divp: None,
        divq: Some(PllDiv::DIV4),
        divr: None,
    });
    let p = embassy_stm32::init(config);
    for pin in [p.PC8.into(), p.PC9.into(), p.PC10.into(), p.PC11.into(), p.PD2.into()] {
        hand_over(pin, Pull::Up);
    }
    hand_over(p.PC12.into(), Pull::None);
    let mut led = Output::new(p.PE3, Level::Low, Speed::Low);
    // A product would report the error, and use the data. Here a debugger can show both.
    if first_block().is_ok() {
        led.set_high();
    }
    loop {
        cortex_m::asm::wfi();
    }
}

/// Connects a pin to SDMMC1.
fn hand_over(pin: Peri<'static, AnyPin>, pull: Pull) {
    let mut pin = Flex::new(pin);
    pin.set_as_af_unchecked(12, AfType::output_pull(OutputType::PushPull, Speed::VeryHigh, pull));
    core::mem::forget(pin);
}

fn first_block() -> Result<Block, Error> {
    rcc::enable_and_reset::<peripherals::SDMMC1>();
    let config = Stm32SdmmcConfig::new(rcc::frequency::<peripherals::SDMMC1>().0)
        .high_speed(true)
        .max_clock_hz(50_000_000)
        .dma_window((0x2400_0000, 0x2407_ffff));
    // SAFETY: the address is the controller's register block, which no other code uses; the data
    // cache is off.
    let (registers, memory) = unsafe { (Mmio::at_address(0x5200_7000), Coherent::new()) };
    let pieces = PIECES.take().ok_or(Error::Full)?;
    let host = Stm32Sdmmc::new(registers, memory, Rcc, pieces, config)
        .inspect_err(|error| {
            // A debugger can show here why the driver refuses the controller.
            core::hint::black_box(error);
        })
        .map_err(|_| Error::Unsupported)?;
    let stack = Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT);
    let stack = CARD.put(stack).ok_or(Error::Full)?;
    // SAFETY: the stack is in place, and its lock masks this interrupt.
    unsafe { interrupt::SDMMC1.enable() };

    let scratch = SCRATCH.take().ok_or(Error::Full)?;
    let (card, _scratch) = stack.block_on(bring_up_sd(stack, scratch, Options::DEFAULT), look_again);
    let _card = card?;
    let mut block = Block([0; 512]);
    BlockDevice::new(stack).read_blocking(0, &mut block.0, look_again)?;
    Ok(block)
}

/// Returns at once: the interrupt drives the stack, and the blocking call checks its deadlines.
fn look_again(_: &Idle) {
    core::hint::spin_loop();
}

#[unsafe(no_mangle)]
extern "C" fn SDMMC1() {
    CARD.on_irq();
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

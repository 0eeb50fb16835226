//! Builds for an STM32H743 (WeAct MiniSTM32H743): an SD card on SDMMC1; clocks and pins by
//! embassy-stm32.
//! The project's own register model has judged the driver; it has never met hardware.
//!
//! Pins: PC8 to PC11 data, PC12 clock, PD2 command. The LED at PE3 comes on when block 0 has been
//! read. The data cache stays off, so that DMA sees memory as the core does.
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

/// Lock, driver. The H7's DMA has no list of pieces.
type Board = (CriticalSection, Stm32Sdmmc<Mmio, Coherent, Rcc, 1>);

static CARD: Home<Board, 8> = Home::new();
static PIECES: Once<Pieces<1>> = Once::new(Pieces::new());
static SCRATCH: Buffer<1> = Buffer::new();

/// The clock tree resets the controller.
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
    // 64 MHz / 4 * 25 = 400 MHz: the controller has a quarter of that, the core runs on.
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
    // A product tells of the error, and of what it has read. A debugger sees both here.
    if first_block().is_ok() {
        led.set_high();
    }
    loop {
        cortex_m::asm::wfi();
    }
}

/// A pin of SDMMC1 from now on.
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
    // SAFETY: the controller's registers, which no other code uses; the data cache is off.
    let (registers, memory) = unsafe { (Mmio::at_address(0x5200_7000), Coherent::new()) };
    let pieces = PIECES.take().ok_or(Error::Full)?;
    let host = Stm32Sdmmc::new(registers, memory, Rcc, pieces, config)
        .inspect_err(|error| {
            // What is wrong with the controller is to be seen by a debugger here.
            core::hint::black_box(error);
        })
        .map_err(|_| Error::Unsupported)?;
    let stack = Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT);
    let stack = CARD.put(stack).ok_or(Error::Full)?;
    // SAFETY: the stack is there, and its lock masks this interrupt.
    unsafe { interrupt::SDMMC1.enable() };

    let scratch = SCRATCH.take().ok_or(Error::Full)?;
    let (card, _scratch) = stack.block_on(bring_up_sd(stack, scratch, Options::DEFAULT), look_again);
    let _card = card?;
    let mut block = Block([0; 512]);
    BlockDevice::new(stack).read_blocking(0, &mut block.0, look_again)?;
    Ok(block)
}

/// The interrupt moves the stack; the blocking calls look at its deadlines.
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

//! Example for a Teensy 4.1 (i.MX RT1062): the SD card in its slot on uSDHC1, with imxrt-ral. The
//! driver was tested on QEMU's mcimx6ul-evk. This program was built, but never tried on hardware.
//!
//! The program switches the LED on after it has read block 0. The data cache stays off, so that DMA
//! and the core see the same memory.
#![no_std]
#![no_main]

use core::panic::PanicInfo;
use cortex_m::peripheral::NVIC;
use imxrt_ral::{self as ral, modify_reg, read_reg, write_reg};
use imxrt_rt::entry;
use mmcq::block::{Block, BlockDevice};
use mmcq::board::{Buffer, Coherent, CriticalSection, Home, Once};
use mmcq::card::{Options, bring_up_sd};
use mmcq::engine::{Config, Error};
use mmcq::host::Width;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Sdhci, Table, Usdhc, profiles};
use mmcq::task::{Idle, Stack, Timer};
use teensy4_fcb as _;

/// Root clock of the controller in hertz: half of PFD2 of PLL2, which is 396 MHz.
const ROOT_HZ: u32 = 198_000_000;

/// Lock and driver of the stack.
type Board = (CriticalSection, Sdhci<Usdhc<Mmio>, Coherent, 9>);

static CARD: Home<Board, 8> = Home::new();
static TABLE: Once<Table<9>> = Once::new(Table::new());
static SCRATCH: Buffer<1> = Buffer::new();

#[entry]
fn main() -> ! {
    start_clocks();
    hand_over_pins();
    // A product would report the error, and use the data. Here a debugger can show both.
    if first_block().is_ok() {
        light_up();
    }
    loop {
        cortex_m::asm::wfi();
    }
}

/// Starts PLL2, the controller's root clock and gate, and a 64-bit timer at 24 MHz.
fn start_clocks() {
    // SAFETY: no other code is executed yet.
    let (analog, ccm, pit) = unsafe {
        (ral::ccm_analog::CCM_ANALOG::instance(), ral::ccm::CCM::instance(), ral::pit::PIT::instance())
    };
    modify_reg!(ral::ccm_analog, analog, PLL_SYS, POWERDOWN: 0, ENABLE: 1);
    while read_reg!(ral::ccm_analog, analog, PLL_SYS, LOCK == 0) {}
    modify_reg!(ral::ccm_analog, analog, PLL_SYS, BYPASS: 0);
    modify_reg!(ral::ccm_analog, analog, PFD_528, PFD2_FRAC: 24, PFD2_CLKGATE: 0);
    modify_reg!(ral::ccm, ccm, CSCDR1, USDHC1_PODF: 1);
    modify_reg!(ral::ccm, ccm, CSCMR1, USDHC1_CLK_SEL: 0, PERCLK_CLK_SEL: 1, PERCLK_PODF: 0);
    modify_reg!(ral::ccm, ccm, CCGR1, CG6: 3);
    modify_reg!(ral::ccm, ccm, CCGR6, CG1: 3);
    write_reg!(ral::pit, pit, MCR, 0);
    for channel in &pit.TIMER[..2] {
        write_reg!(ral::pit::timer, channel, LDVAL, u32::MAX);
    }
    write_reg!(ral::pit::timer, &pit.TIMER[1], TCTRL, CHN: 1, TEN: 1);
    write_reg!(ral::pit::timer, &pit.TIMER[0], TCTRL, TEN: 1);
}

/// Connects the six pins of the slot to uSDHC1; all except the clock have a pull-up of 47 kOhm.
fn hand_over_pins() {
    const PULLED_UP: u32 = 0x1_70b1;
    const CLOCK: u32 = 0x0_00b1;
    // SAFETY: no other code is executed yet.
    let pads = unsafe { ral::iomuxc::IOMUXC::instance() };
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_00, 0);
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_01, 0);
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_02, 0);
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_03, 0);
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_04, 0);
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_SD_B0_05, 0);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_00, PULLED_UP);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_01, CLOCK);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_02, PULLED_UP);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_03, PULLED_UP);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_04, PULLED_UP);
    write_reg!(ral::iomuxc, pads, SW_PAD_CTL_PAD_GPIO_SD_B0_05, PULLED_UP);
}

fn first_block() -> Result<Block, Error> {
    // None of the six pins reports that a card is in the slot.
    let config = profiles::USDHC.clock(ROOT_HZ).width(Width::W4).fixed(true);
    // SAFETY: the address is the controller's register block, which no other code uses; the data
    // cache is off.
    let (registers, memory) = unsafe { (Mmio::at_address(ral::usdhc::USDHC1.addr()), Coherent::new()) };
    let table = TABLE.take().ok_or(Error::Full)?;
    let host = Sdhci::new(Usdhc::new(registers), memory, table, config)
        .inspect_err(|error| {
            // A debugger can show here why the driver refuses the controller.
            core::hint::black_box(error);
        })
        .map_err(|_| Error::Unsupported)?;
    let stack = Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT);
    let stack = CARD.put(stack).ok_or(Error::Full)?;
    // SAFETY: the stack is in place, and its lock masks this interrupt.
    unsafe { NVIC::unmask(ral::Interrupt::USDHC1) };

    let mut scratch = SCRATCH.take().ok_or(Error::Full)?;
    let mut tries = 5;
    let _card = loop {
        let (card, back) = stack.block_on(bring_up_sd(stack, scratch, Options::DEFAULT), look_again);
        scratch = back;
        match card {
            // A card whose contacts are not stable yet gives no response; some milliseconds later
            // it does.
            Err(Error::NoCard) if tries > 0 => tries -= 1,
            found => break found?,
        }
        let until_ns = now_ns() + 50_000_000;
        while now_ns() < until_ns {}
    };
    let mut block = Block([0; 512]);
    BlockDevice::new(stack).read_blocking(0, &mut block.0, look_again)?;
    Ok(block)
}

/// Returns at once: the interrupt drives the stack, and the blocking call checks its deadlines.
fn look_again(_: &Idle) {
    core::hint::spin_loop();
}

#[unsafe(no_mangle)]
extern "C" fn USDHC1() {
    CARD.on_irq();
}

/// Returns the time in ns; the timer PIT counts down.
fn now_ns() -> u64 {
    cortex_m::interrupt::free(|_| {
        // SAFETY: the timer is only read; reading the upper half latches the lower half.
        let pit = unsafe { ral::pit::PIT::instance() };
        let upper = u64::from(read_reg!(ral::pit, pit, LTMR64H));
        let lower = u64::from(read_reg!(ral::pit, pit, LTMR64L));
        !(upper << 32 | lower) / 24 * 1000
    })
}

/// Switches on the LED of a Teensy 4.1, at GPIO_B0_03 (GPIO2, bit 3).
fn light_up() {
    // SAFETY: no other code uses this pin.
    let (pads, port) = unsafe { (ral::iomuxc::IOMUXC::instance(), ral::gpio::GPIO2::instance()) };
    write_reg!(ral::iomuxc, pads, SW_MUX_CTL_PAD_GPIO_B0_03, 5);
    modify_reg!(ral::gpio, port, GDIR, |pins| pins | 1 << 3);
    write_reg!(ral::gpio, port, DR_SET, 1 << 3);
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}

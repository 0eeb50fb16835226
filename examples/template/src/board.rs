//! The board: controller, memory, clock, interrupts. The numbers are for an ATSAM E54 at its reset
//! clock. Your chip's crate must set up the pins and the clock of the controller before [`start`].

use core::cell::Cell;
use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{NVIC, SCB, SYST};
use cortex_m_rt::exception;
use critical_section::Mutex;
use mmcq::board::{Coherent, CriticalSection, Home, Once};
use mmcq::engine::Config;
use mmcq::host::regs::Mmio;
use mmcq::host::sdhci::{Sdhci, SdhciConfig, Table};
use mmcq::task::Timer;

/// Address of the controller's registers: here SDHC0. The socket of an E54 Xplained Pro is at
/// SDHC1, 0x4600_0000, interrupt 86.
const CONTROLLER: usize = 0x4500_0000;
/// Number of the controller's interrupt.
const CONTROLLER_IRQ: u16 = 85;
/// Clock of the core in hertz. A HAL that sets up clocks changes it, on this chip to 120 MHz.
const CORE_HZ: u32 = 48_000_000;
/// Clock of the controller in hertz, if its registers do not show it. It differs from the core's
/// clock: ask the HAL.
const CONTROLLER_HZ: Option<u32> = Some(48_000_000);

/// Lock and driver of the stack. A chip with data caches needs its own `Dma` in place of
/// [`Coherent`].
type Board = (CriticalSection, Sdhci<Mmio, Coherent, 9>);
/// Type of the card's stack, with up to 8 requests at a time.
pub type Stack = mmcq::task::Stack<Board, 8>;

/// Static place of the stack, which [`start`] fills.
pub static CARD: Home<Board, 8> = Home::new();
static TABLE: Once<Table<9>> = Once::new(Table::new());
static MILLISECONDS: Mutex<Cell<u64>> = Mutex::new(Cell::new(0));
const TICK_CYCLES: u32 = CORE_HZ / 1000;

/// Starts clock, controller and interrupt. Returns the stack; `None` if there is no controller, or
/// if it was started before.
pub fn start() -> Option<&'static Stack> {
    let mut core = cortex_m::Peripherals::take()?;
    // Set up the clocks and pins of your chip's controller here.
    start_clock(&mut core.SYST);
    // SAFETY: the address is the controller's register block, which no other code uses; the
    // controller sees memory as the CPU does.
    let (registers, memory) = unsafe { (Mmio::at_address(CONTROLLER), Coherent::new()) };
    let config = SdhciConfig::new().base_clock_hz(CONTROLLER_HZ);
    // A debugger can show here why the driver refuses the controller.
    let host = Sdhci::new(registers, memory, TABLE.take()?, config)
        .inspect_err(|error| {
            core::hint::black_box(error);
        })
        .ok()?;
    let stack = CARD.put(Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT))?;
    // SAFETY: the stack is in place, and its lock masks this interrupt.
    unsafe { NVIC::unmask(Irq(CONTROLLER_IRQ)) };
    Some(stack)
}

fn start_clock(tick: &mut SYST) {
    tick.set_clock_source(SystClkSource::Core);
    tick.set_reload(TICK_CYCLES - 1);
    tick.clear_current();
    tick.enable_counter();
    tick.enable_interrupt();
}

/// Waits this number of milliseconds.
pub fn pause_ms(ms: u64) {
    let until_ns = now_ns() + ms * 1_000_000;
    while now_ns() < until_ns {
        cortex_m::asm::wfi();
    }
}

/// Returns the nanoseconds since the start.
fn now_ns() -> u64 {
    critical_section::with(|section| {
        let mut ms = MILLISECONDS.borrow(section).get();
        let mut left = SYST::get_current();
        if SCB::is_pendst_pending() {
            // SysTick has reached zero, and its handler below waits until this function ends.
            ms += 1;
            left = SYST::get_current();
        }
        let cycles = u64::from(TICK_CYCLES - 1 - left.min(TICK_CYCLES - 1));
        ms * 1_000_000 + cycles * 1_000_000_000 / u64::from(CORE_HZ)
    })
}

/// Tick: counts the time and handles the stack's deadlines.
#[exception]
fn SysTick() {
    critical_section::with(|section| {
        let ms = MILLISECONDS.borrow(section);
        ms.set(ms.get() + 1);
    });
    CARD.poll();
}

/// Handles all interrupts of the chip. With your chip's crate it is `#[interrupt] fn SDHC0()`, and
/// has one line.
#[exception]
unsafe fn DefaultHandler(irq: i16) {
    if irq == CONTROLLER_IRQ as i16 {
        CARD.on_irq();
    }
}

/// An interrupt by its number. Your chip's crate has names for them.
#[derive(Clone, Copy)]
struct Irq(u16);

// SAFETY: the number belongs to one interrupt of this chip.
unsafe impl InterruptNumber for Irq {
    fn number(self) -> u16 {
        self.0
    }
}

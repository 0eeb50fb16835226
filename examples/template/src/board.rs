//! The board: controller, memory, clock, interrupts. The numbers are those of an ATSAM E54 at its
//! reset clock; the pins, and the clock of the controller, are switched on by your chip's crate
//! before [`start`].

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

/// Registers of the controller: here SDHC0. The socket of an E54 Xplained Pro is at SDHC1,
/// 0x4600_0000, interrupt 86.
const CONTROLLER: usize = 0x4500_0000;
/// Its interrupt.
const CONTROLLER_IRQ: u16 = 85;
/// The clock of the core. A HAL that sets up clocks changes it: on this chip to 120 MHz.
const CORE_HZ: u32 = 48_000_000;
/// The clock of the controller, where its registers do not tell it. It is its own: ask the HAL.
const CONTROLLER_HZ: Option<u32> = Some(48_000_000);

/// Lock, driver. A chip with data caches has a `Dma` of its own in the place of [`Coherent`].
type Board = (CriticalSection, Sdhci<Mmio, Coherent, 9>);
/// The card's stack: up to 8 requests at a time.
pub type Stack = mmcq::task::Stack<Board, 8>;

/// The stack, once [`start`] has made it.
pub static CARD: Home<Board, 8> = Home::new();
static TABLE: Once<Table<9>> = Once::new(Table::new());
static MILLISECONDS: Mutex<Cell<u64>> = Mutex::new(Cell::new(0));
const TICK_CYCLES: u32 = CORE_HZ / 1000;

/// Starts clock, controller and interrupt. `None`: there is no controller, or it was started
/// before.
pub fn start() -> Option<&'static Stack> {
    let mut core = cortex_m::Peripherals::take()?;
    // Your chip's: clocks and pins of the controller.
    start_clock(&mut core.SYST);
    // SAFETY: the controller's registers, which no other code uses; it sees memory as the CPU does.
    let (registers, memory) = unsafe { (Mmio::at_address(CONTROLLER), Coherent::new()) };
    let config = SdhciConfig::new().base_clock_hz(CONTROLLER_HZ);
    // What is wrong with the controller is to be seen by a debugger here.
    let host = Sdhci::new(registers, memory, TABLE.take()?, config)
        .inspect_err(|error| {
            core::hint::black_box(error);
        })
        .ok()?;
    let stack = CARD.put(Stack::new(CriticalSection, Timer::polled(now_ns), host, Config::DEFAULT))?;
    // SAFETY: the stack is there, and its lock masks this interrupt.
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

/// Waits.
pub fn pause_ms(ms: u64) {
    let until_ns = now_ns() + ms * 1_000_000;
    while now_ns() < until_ns {
        cortex_m::asm::wfi();
    }
}

/// Nanoseconds since the start.
fn now_ns() -> u64 {
    critical_section::with(|section| {
        let mut ms = MILLISECONDS.borrow(section).get();
        let mut left = SYST::get_current();
        if SCB::is_pendst_pending() {
            // It has come to zero, and the handler below waits for us.
            ms += 1;
            left = SYST::get_current();
        }
        let cycles = u64::from(TICK_CYCLES - 1 - left.min(TICK_CYCLES - 1));
        ms * 1_000_000 + cycles * 1_000_000_000 / u64::from(CORE_HZ)
    })
}

/// The tick: time, and the deadlines of the stack.
#[exception]
fn SysTick() {
    critical_section::with(|section| {
        let ms = MILLISECONDS.borrow(section);
        ms.set(ms.get() + 1);
    });
    CARD.poll();
}

/// All interrupts of the chip come here. With your chip's crate it is `#[interrupt] fn SDHC0()`,
/// and has one line.
#[exception]
unsafe fn DefaultHandler(irq: i16) {
    if irq == CONTROLLER_IRQ as i16 {
        CARD.on_irq();
    }
}

/// An interrupt by its number. Your chip's crate has them by name.
#[derive(Clone, Copy)]
struct Irq(u16);

// SAFETY: the number of one interrupt of this chip.
unsafe impl InterruptNumber for Irq {
    fn number(self) -> u16 {
        self.0
    }
}

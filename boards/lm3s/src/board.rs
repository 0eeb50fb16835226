//! QEMU's machine lm3s6965evb: a Cortex-M3 with SysTick, a timer and a UART. The engine's lock
//! switches interrupts off.

pub use crate::arm::sleep_until;
use crate::arm::{read, write};
use crate::pl011;
pub use crate::pl011::say;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Period in ns of the system clock after reset.
const CLOCK_NS: u64 = 80;
/// Registers of SysTick, which counts 24 bits down and interrupts every 1.34 s.
const SYST_CSR: usize = 0xe000_e010;
const SYST_RVR: usize = 0xe000_e014;
const SYST_CVR: usize = 0xe000_e018;
const SYST_MAX: u32 = 0xff_ffff;
const ICSR: usize = 0xe000_ed04;
const ICSR_PENDSTSET: u32 = 1 << 26;
const NVIC_ENABLE: usize = 0xe000_e100;
/// Number of the interrupt of the SSI, the SPI port.
pub const SSI_IRQ: u32 = 7;
/// Number of the interrupt of timer 0.
pub const ALARM_IRQ: u32 = 19;
/// Registers of timer 0, used with 32 bits and one shot.
const TIMER: usize = 0x4003_0000;
const TIMER_MODE: usize = TIMER + 0x04;
const TIMER_CONTROL: usize = TIMER + 0x0c;
const TIMER_MASK: usize = TIMER + 0x18;
const TIMER_CLEAR: usize = TIMER + 0x24;
const TIMER_LOAD: usize = TIMER + 0x28;
/// Registers that switch on the clocks of SSI, timer, UART and ports.
const RUN_CLOCKS_1: usize = 0x400f_e104;
const RUN_CLOCKS_2: usize = 0x400f_e108;
/// Address of the UART.
pub const UART: usize = 0x4000_c000;

/// Calls `f` with interrupts off, and restores the interrupt mask.
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u32;
    // SAFETY: reads PRIMASK and sets it; memory accesses do not move across, since the asm may
    // touch memory.
    unsafe {
        core::arch::asm!("mrs {0}, PRIMASK", "cpsid i", out(reg) before, options(nostack, preserves_flags))
    };
    let result = f();
    // SAFETY: restores PRIMASK.
    unsafe { core::arch::asm!("msr PRIMASK, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

/// Switches on clocks, UART and interrupts.
pub fn start() {
    write(RUN_CLOCKS_1, 1 << 16 | 1 << 4 | 1);
    write(RUN_CLOCKS_2, 1 << 3 | 1);
    pl011::start();
    write(SYST_RVR, SYST_MAX);
    write(SYST_CVR, 0);
    write(SYST_CSR, 0b111);
    write(TIMER_MODE, 1);
    write(TIMER_MASK, 1);
    write(NVIC_ENABLE, 1 << SSI_IRQ | 1 << ALARM_IRQ);
}

/// Number of times that SysTick has reached 0 and started again.
static WRAPS: AtomicU32 = AtomicU32::new(0);

/// Counts one more start of SysTick; its interrupt handler calls this function.
pub fn wrap() {
    interrupts_off(|| WRAPS.store(WRAPS.load(Relaxed) + 1, Relaxed));
}

/// Returns the nanoseconds since the start.
pub fn now_ns() -> u64 {
    interrupts_off(|| {
        let (mut left, mut wraps) = (read(SYST_CVR), WRAPS.load(Relaxed));
        if read(ICSR) & ICSR_PENDSTSET != 0 {
            // SysTick has started again, and its handler has not counted it yet.
            left = read(SYST_CVR);
            wraps += 1;
        }
        (u64::from(wraps) * u64::from(SYST_MAX + 1) + u64::from(SYST_MAX - left)) * CLOCK_NS
    })
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
pub fn set_alarm(at_ns: Option<u64>) {
    interrupts_off(|| {
        write(TIMER_CONTROL, 0);
        if let Some(at_ns) = at_ns {
            let ticks = at_ns.saturating_sub(now_ns()).div_ceil(CLOCK_NS).clamp(1, u32::MAX.into());
            write(TIMER_LOAD, ticks as u32);
            write(TIMER_CONTROL, 1);
        }
    });
}

/// Clears the alarm's interrupt after it has come.
pub fn silence_alarm() {
    write(TIMER_CLEAR, 1);
}

/// Ends QEMU with this status, by semihosting.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const APPLICATION_EXIT: u32 = 0x2_0026;
    let block = [APPLICATION_EXIT, status];
    loop {
        // SAFETY: the call reads two words at r1.
        unsafe {
            core::arch::asm!(
                "bkpt #0xab",
                inout("r0") SYS_EXIT_EXTENDED => _,
                in("r1") block.as_ptr(),
                options(nostack)
            );
        }
    }
}

//! A 64-bit Arm core in exception level 1: its interrupt mask, its virtual timer, and calls to QEMU
//! by semihosting.

use crate::board;
use core::arch::asm;

const SECOND_NS: u64 = 1_000_000_000;

/// Calls `f` with interrupts off, and restores the interrupt mask.
#[inline]
pub fn interrupts_off<R>(f: impl FnOnce() -> R) -> R {
    let before: u64;
    // SAFETY: reads the masks and sets that of IRQ; memory accesses do not move across, since the
    // asm may touch memory.
    unsafe { asm!("mrs {0}, daif", "msr daifset, #2", out(reg) before, options(nostack, preserves_flags)) };
    let result = f();
    // SAFETY: restores the interrupt masks.
    unsafe { asm!("msr daif, {0}", in(reg) before, options(nostack, preserves_flags)) };
    result
}

/// Orders memory accesses, also those of devices: earlier writes happen before the call, later
/// reads after it.
#[inline]
pub fn barrier() {
    // SAFETY: the instruction only orders memory accesses.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Returns the ticks of the timer in a second.
#[inline]
fn timer_hz() -> u64 {
    let hz: u64;
    // SAFETY: reads the frequency that the machine has set.
    unsafe { asm!("mrs {0}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz.max(1)
}

/// Returns the nanoseconds since the machine started.
#[inline]
pub fn now_ns() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter.
    unsafe { asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    let hz = timer_hz();
    // Computed in two parts, so that nothing overflows while the timer is slower than 18 GHz.
    ticks / hz * SECOND_NS + ticks % hz * SECOND_NS / hz
}

fn control_timer(on: bool) {
    // SAFETY: writes the timer's control register: the timer interrupts if it is on and its time
    // has come.
    unsafe { asm!("msr cntv_ctl_el0, {0}", in(reg) u64::from(on), options(nomem, nostack, preserves_flags)) };
}

/// Sets the time at which the alarm interrupts; `None` switches the alarm off.
#[inline]
pub fn set_alarm(at_ns: Option<u64>) {
    if let Some(at_ns) = at_ns {
        let hz = timer_hz();
        let part = (at_ns % SECOND_NS * hz).div_ceil(SECOND_NS);
        let ticks = (at_ns / SECOND_NS).saturating_mul(hz).saturating_add(part);
        // SAFETY: sets the tick at which the timer interrupts.
        unsafe { asm!("msr cntv_cval_el0, {0}", in(reg) ticks, options(nomem, nostack, preserves_flags)) };
    }
    control_timer(at_ns.is_some());
}

/// Switches off the alarm after it has interrupted; otherwise it would interrupt again at once.
pub fn silence_alarm() {
    control_timer(false);
}

/// Calls QEMU by semihosting, with an operation and the address of its data. Returns QEMU's answer.
pub fn semihost<T: ?Sized>(operation: u32, block: &mut T) -> u32 {
    let result: u32;
    // SAFETY: QEMU accesses only what the block points to.
    unsafe {
        asm!(
            "hlt #0xf000",
            inlateout("w0") operation => result,
            in("x1") core::ptr::from_mut(block).cast::<u8>(),
            options(nostack)
        );
    }
    result
}

/// Ends QEMU with this status.
pub fn exit(status: u32) -> ! {
    const SYS_EXIT: u32 = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    loop {
        semihost(SYS_EXIT, &mut [APPLICATION_EXIT, status.into()]);
    }
}

/// Reports an exception that was not expected, and ends the program.
#[unsafe(no_mangle)]
extern "C" fn exception(syndrome: u64, at: u64, address: u64) -> ! {
    board::say(format_args!("exception {syndrome:#x} at {at:#x}, address {address:#x}"));
    board::exit(3)
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    board::say(format_args!("{info}"));
    board::exit(2)
}

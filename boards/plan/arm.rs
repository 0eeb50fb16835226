//! What Arm's machines have in common: the UART (a PL011, the board says where), and how the core
//! sleeps.

use crate::board::{UART, interrupts_off};
use core::arch::asm;
use core::fmt::{self, Write};

/// UARTFR: the transmit FIFO is full.
const UART_FLAGS: usize = UART + 0x18;
const UART_TX_FULL: u32 = 1 << 5;
const UART_CONTROL: usize = UART + 0x30;
const UART_ON: u32 = 0x301;

/// Reads a register of the board's.
pub fn read(address: usize) -> u32 {
    // SAFETY: a register that this file or the board lists.
    unsafe { core::ptr::without_provenance::<u32>(address).read_volatile() }
}

/// Writes a register of the board's.
pub fn write(address: usize, value: u32) {
    // SAFETY: as in `read`.
    unsafe { core::ptr::without_provenance_mut::<u32>(address).write_volatile(value) }
}

/// Takes the UART into use.
pub fn start() {
    write(UART_CONTROL, UART_ON);
}

/// Sleeps until an interrupt is pending, masked or not.
pub fn wait_for_interrupt() {
    // SAFETY: has no effect but time, and on the order of memory accesses.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) };
}

/// Sleeps until `ready`, which an interrupt makes true.
pub fn sleep_until(mut ready: impl FnMut() -> bool) {
    loop {
        let go_on = interrupts_off(|| {
            let go_on = ready();
            if !go_on {
                wait_for_interrupt();
            }
            go_on
        });
        if go_on {
            return;
        }
    }
}

struct Uart;

impl Write for Uart {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while read(UART_FLAGS) & UART_TX_FULL != 0 {}
            write(UART, byte.into());
        }
        Ok(())
    }
}

/// One line to the UART.
pub fn say(line: fmt::Arguments<'_>) {
    // The UART cannot fail.
    let _ = Uart.write_fmt(format_args!("{line}\n"));
}

//! What Arm's machines have in common: the interrupt controller (a GIC of version 1 or 2), the UART
//! (a PL011), and how the core sleeps. The board says where they are.

use crate::board::{self, GIC_CPU, GIC_DISTRIBUTOR, UART, interrupts_off};
use crate::plan::firmware::{Source, serve};
use core::arch::asm;
use core::fmt::{self, Write};

const GIC_PRIORITY_MASK: usize = GIC_CPU + 0x04;
const GIC_ACKNOWLEDGE: usize = GIC_CPU + 0x0c;
const GIC_END: usize = GIC_CPU + 0x10;
/// Numbers from here on mean that nothing is pending.
const GIC_SPURIOUS: u32 = 1020;
const GIC_ENABLE: usize = GIC_DISTRIBUTOR + 0x100;
const GIC_PRIORITY: usize = GIC_DISTRIBUTOR + 0x400;
const GIC_TARGET: usize = GIC_DISTRIBUTOR + 0x800;
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

/// Takes UART and interrupt controller into use.
pub fn start() {
    write(UART_CONTROL, UART_ON);
    write(GIC_PRIORITY_MASK, 0xf0);
    write(GIC_CPU, 1);
    write(GIC_DISTRIBUTOR, 1);
}

/// Listens to an interrupt.
pub fn listen(irq: u32) {
    let (word, shift) = (irq as usize / 4 * 4, 8 * (irq % 4));
    write(GIC_PRIORITY + word, read(GIC_PRIORITY + word) & !(0xff << shift) | 0xa0 << shift);
    write(GIC_TARGET + word, read(GIC_TARGET + word) & !(0xff << shift) | 1 << shift);
    write(GIC_ENABLE + irq as usize / 32 * 4, 1 << (irq % 32));
}

/// The interrupt handler: what is not the alarm's is the controller's, there are no others.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    let id = read(GIC_ACKNOWLEDGE);
    match id & 0x3ff {
        GIC_SPURIOUS.. => return,
        board::ALARM_IRQ => {
            board::silence_alarm();
            serve(Source::Alarm);
        }
        _ => serve(Source::Card),
    }
    write(GIC_END, id);
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

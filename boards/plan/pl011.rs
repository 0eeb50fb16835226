//! The UART of some of Arm's machines, a PL011. The board module has its address.

use crate::arm::{read, write};
use crate::board::UART;
use core::fmt::{self, Write};

/// Flag register UARTFR and its bit: the transmit FIFO is full.
const UART_FLAGS: usize = UART + 0x18;
const UART_TX_FULL: u32 = 1 << 5;
const UART_CONTROL: usize = UART + 0x30;
const UART_ON: u32 = 0x301;

/// Switches on the UART.
pub fn start() {
    write(UART_CONTROL, UART_ON);
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

/// Writes one line to the UART.
pub fn say(line: fmt::Arguments<'_>) {
    // The UART cannot fail.
    let _ = Uart.write_fmt(format_args!("{line}\n"));
}

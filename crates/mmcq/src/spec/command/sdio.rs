//! Commands of I/O cards [SDIO 4, 5].

use super::{Command, Resp};

/// CMD5 `IO_SEND_OP_COND`: sends the voltage window in OCR bits 23:0; 0 only inquires the OCR.
/// `s18r` requests 1.8 V on the signal lines [SDIO 3.2].
pub const fn io_send_op_cond(voltages: u32, s18r: bool) -> Command {
    Command::new(5, voltages & 0x00ff_ffff | (s18r as u32) << 24, Resp::R4)
}

/// Returns function (0 to 7) and register address (17 bits) in their fields of an I/O command.
const fn place(function: u8, addr: u32) -> u32 {
    ((function & 7) as u32) << 28 | (addr & 0x1_ffff) << 9
}

/// CMD52 `IO_RW_DIRECT`: reads one register [SDIO 5.1].
pub const fn io_read(function: u8, addr: u32) -> Command {
    Command::new(52, place(function, addr), Resp::R5)
}

/// CMD52 `IO_RW_DIRECT`: writes one register; the response repeats the byte that was sent
/// [SDIO 5.1].
pub const fn io_write(function: u8, addr: u32, data: u8) -> Command {
    Command::new(52, 1 << 31 | place(function, addr) | data as u32, Resp::R5)
}

/// CMD52 `IO_RW_DIRECT` with the RAW flag: writes one register and reads it back [SDIO 5.1].
pub const fn io_write_read(function: u8, addr: u32, data: u8) -> Command {
    Command::new(52, 1 << 31 | 1 << 27 | place(function, addr) | data as u32, Resp::R5)
}

/// The amount of data in a CMD53 [SDIO 5.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Bytes: their number, 1 to 512.
    Bytes(u16),
    /// Blocks of the function's block size: their number, 1 to 511.
    Blocks(u16),
    /// Blocks without an end, until the host aborts the function by the CCCR.
    Endless,
}

/// Parameters of CMD53 [SDIO 5.3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Whether the data go to the card.
    pub write: bool,
    /// Function number, 0 to 7.
    pub function: u8,
    /// Address of the first register, 17 bits.
    pub addr: u32,
    /// Whether each byte goes to the next address; otherwise all bytes go to one address (a FIFO).
    pub increment: bool,
    /// Amount of data.
    pub count: Amount,
}

/// CMD53 `IO_RW_EXTENDED`: reads or writes several bytes [SDIO 5.3].
///
/// In byte mode, 512 is coded as 0. A count that is 0 or out of range has no code of its own:
/// `Bytes(0)` means 512, `Blocks(0)` means without an end.
pub const fn io_rw_extended(what: Extended) -> Command {
    let (block_mode, count) = match what.count {
        Amount::Bytes(n) => (0, n & 0x1ff),
        Amount::Blocks(n) => (1, n & 0x1ff),
        Amount::Endless => (1, 0),
    };
    let arg = (what.write as u32) << 31
        | place(what.function, what.addr)
        | block_mode << 27
        | (what.increment as u32) << 26
        | count as u32;
    Command::new(53, arg, Resp::R5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_arguments() {
        // Reset of an I/O card: bit 3 of the CCCR's abort register, address 6.
        assert_eq!(io_write(0, 0x06, 0x08).arg, 0x8000_0c08);
        assert_eq!(io_read(7, 0x1_ffff).arg, 0x73ff_fe00);
        assert_eq!(io_write_read(1, 0, 0).arg, 0x9800_0000);
    }

    #[test]
    fn extended_arguments() {
        let base =
            Extended { write: false, function: 1, addr: 0x10, increment: true, count: Amount::Bytes(512) };
        assert_eq!(io_rw_extended(base).arg, 0x1400_2000);
        assert_eq!(io_rw_extended(Extended { count: Amount::Blocks(4), ..base }).arg, 0x1c00_2004);
        assert_eq!(io_rw_extended(Extended { count: Amount::Endless, write: true, ..base }).arg, 0x9c00_2000);
    }
}

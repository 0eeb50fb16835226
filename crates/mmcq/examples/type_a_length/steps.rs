//! The phases of a receive chain, as a driver written by hand has them.

use super::card::BLOCK_BYTES;
use mmcq::engine::Kind;
use mmcq::host::{Auto, Data, Direction, Phase};
use mmcq::spec::command::Command;
use mmcq::spec::command::sdio::{self as cmd, Amount, Extended};

pub const FUNCTION: u8 = 1;
const DIRECT_NS: u64 = 20_000_000;
const DATA_NS: u64 = 1_000_000_000;

pub fn direct(command: Command, chain: bool) -> Kind {
    let phase = Phase { command, data: None, auto: Auto::None, tuning: false };
    Kind::Io { phase, timeout_ns: DIRECT_NS, chain }
}

/// Returns the read of the card's pending interrupts (CCCR INTx).
pub fn pending() -> Kind {
    direct(cmd::io_read(0, 0x05), true)
}

pub fn interrupt() -> Kind {
    direct(cmd::io_read(FUNCTION, 0x13), true)
}

pub fn clear() -> Kind {
    direct(cmd::io_write(FUNCTION, 0x13, 1), true)
}

/// Returns the write that acknowledges the packet, or (`again`) requests it again.
pub fn answer(again: bool) -> Kind {
    direct(cmd::io_write(FUNCTION, 0x10, u8::from(again)), false)
}

/// Returns a CMD53 that reads `bytes` bytes from the function's FIFO: in block mode if these are
/// whole blocks, otherwise in byte mode.
pub fn data(bytes: u32) -> Kind {
    let size = u32::from(BLOCK_BYTES);
    let (count, block_size, blocks) = match bytes {
        _ if bytes > size && bytes.is_multiple_of(size) => {
            (Amount::Blocks((bytes / size) as u16), BLOCK_BYTES, bytes / size)
        }
        _ => (Amount::Bytes(bytes as u16), bytes as u16, 1),
    };
    let what = Extended { write: false, function: FUNCTION, addr: 0, increment: false, count };
    let data = Some(Data { direction: Direction::Read, block_size, blocks });
    let phase = Phase { command: cmd::io_rw_extended(what), data, auto: Auto::None, tuning: false };
    Kind::Io { phase, timeout_ns: DATA_NS, chain: true }
}

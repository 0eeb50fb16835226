//! Simulates a program that is reset in the middle of a transfer, and so leaves the card inside a
//! block. The next program must bring the card back.

use crate::board::say;
use crate::port::SifiveSpi;
use mmcq::host::spi::Port;

/// Number of bytes of the block that are transferred before the transfer stops.
const MOVED: usize = 100;
/// Largest number of ACMD41 that are sent until the card is ready.
const TRIES: u32 = 100;

/// Sends a command in SPI mode [SD 7.3.1.1]. Returns the first byte of its response.
fn command(port: &mut SifiveSpi, index: u8, argument: u32, crc: u8) -> u8 {
    port.at_once([0xff, 0x40 | index]);
    port.at_once(argument.to_be_bytes());
    port.at_once([crc]);
    let mut answer = 0xff;
    for _ in 0..9 {
        answer = port.at_once([0xff]);
        if answer & 0x80 == 0 {
            break;
        }
    }
    answer
}

/// Brings the card up by single commands, and leaves it inside a block of a read or write. Returns
/// whether the card responded.
pub fn left(port: &mut SifiveSpi, write: bool) -> bool {
    port.clock(400_000);
    port.select(false);
    port.at_once([0xff; 10]);
    port.select(true);
    command(port, 0, 0, 0x95);
    command(port, 8, 0x1aa, 0x87);
    port.at_once([0xff; 4]);
    let ready = (0..TRIES).any(|_| {
        command(port, 55, 0, 0x65);
        command(port, 41, 1 << 30, 0x77) == 0
    });
    // Block 0 exists on cards of every size.
    let answer = if write { command(port, 25, 0, 0x01) } else { command(port, 18, 0, 0x01) };
    if write {
        port.at_once([0xff, 0xfc]);
        port.at_once([0; MOVED]);
    } else {
        let token = (0..100).any(|_| port.at_once([0xff]) == 0xfe);
        port.at_once([0xff; MOVED]);
        if !token {
            say(format_args!("left: no block came"));
            return false;
        }
    }
    let what = if write { "write" } else { "read" };
    say(format_args!("left: in the middle of a {what}, ready {ready}, answered {answer:#04x}"));
    ready && answer == 0
}

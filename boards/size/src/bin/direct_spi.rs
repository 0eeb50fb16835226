//! A card reader for an SD card in SPI mode, without a queue. It polls the port between sleeps, so
//! it needs no interrupt handler and no lock.
#![no_std]
#![no_main]

use mmcq::board::NoLock;
use mmcq::direct::{DirectCard, OnlySd};
use mmcq::engine::DmaBuf;
use size::{Options, Polled, board, late, ssi};

static BLOCK: late::Once<[u8; 512]> = late::Once::new([0; _]);

/// Main function of the image: reads block 0 and writes it back.
#[unsafe(no_mangle)]
pub extern "C" fn main() {
    board::start_clock();
    let _ = copy();
}

fn copy() -> Option<()> {
    let host = ssi::driver()?;
    let card: DirectCard<Polled<_>, OnlySd> =
        DirectCard::new(NoLock::new(), board::Ticks, host, size::scratch()?);
    let card = card.blocking(board::idle);
    card.bring_up(Options::DEFAULT).ok()?;
    let (result, block) = card.read(0, DmaBuf::from_static(BLOCK.take()?));
    result.ok()?;
    card.write(0, block).0.ok()?;
    card.flush().ok()
}

/// Interrupt handler of the port, which is not used.
#[unsafe(no_mangle)]
pub extern "C" fn controller_interrupt() {}

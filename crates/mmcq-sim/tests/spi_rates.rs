//! Rates of consecutive 512-byte and 4 KiB requests over SPI at 25 MHz, on the same model of a card:
//! by this stack, and by the driver of the crate `embedded-sdmmc`.
//!
//! The time of the CPU does not count: only bytes on the wire, the card, and the pauses that a driver
//! asks for. The table is printed with `--nocapture`; docs/results.md has it.

use crate::cases;
use crate::embedded_sdmmc::{PROMPT, Rig as Theirs};
use crate::spi_rig::{Rig, buffer};
use embedded_sdmmc::{Block, BlockDevice as _, BlockIdx};
use mmcq::block::BlockDevice;
use mmcq_sim::time::Time;

/// Number of blocks that each run transfers: 1 MiB.
const BLOCKS: u32 = 2048;

/// The rate of a run, and its longest request.
#[derive(Clone, Copy, Debug)]
struct Figures {
    kib_s: f64,
    longest_ms: f64,
}

/// Runs `request`, which transfers `blocks` blocks from a first block on, until all are transferred.
fn measure(time: &Time, blocks: u32, mut request: impl FnMut(u32)) -> Figures {
    let began_ns = time.now();
    let mut longest_ns = 0;
    for at in (0..BLOCKS).step_by(blocks as usize) {
        let before_ns = time.now();
        request(at);
        longest_ns = longest_ns.max(time.now() - before_ns);
    }
    let took_s = (time.now() - began_ns) as f64 / 1e9;
    Figures { kib_s: f64::from(BLOCKS / 2) / took_s, longest_ms: longest_ns as f64 / 1e6 }
}

fn theirs(card: &str, blocks: u32, writes: bool) -> Figures {
    let rig = Theirs::up(card, PROMPT);
    let mut data = vec![Block::new(); blocks as usize];
    measure(&rig.line.time.clone(), blocks, |at| {
        let result =
            if writes { rig.peer.write(&data, BlockIdx(at)) } else { rig.peer.read(&mut data, BlockIdx(at)) };
        result.unwrap();
    })
}

fn ours(card: &str, blocks: u32, writes: bool) -> Figures {
    let rig = Rig::new(card, PROMPT);
    rig.bring_up().unwrap();
    let device = BlockDevice::new(&rig.stack);
    let mut data = Some(buffer(blocks as usize));
    let figures = measure(&rig.line.time.clone(), blocks, |at| {
        let buf = data.take().unwrap();
        let (result, buf) = match writes {
            true => rig.drive(device.write(at.into(), buf)).unwrap(),
            false => rig.drive(device.read(at.into(), buf)).unwrap(),
        };
        result.unwrap();
        data = Some(buf);
    });
    rig.drive(device.flush()).unwrap().unwrap();
    figures
}

#[test]
fn consecutive_requests_by_this_stack_and_by_embedded_sdmmc() {
    println!("| card | load | embedded-sdmmc, KiB/s | longest, ms | mmcq, KiB/s | longest, ms |");
    for card in cases::some(2, ["sdhc-16g-hs", "sdxc-64g-a2"]) {
        for (what, blocks, writes) in [
            ("write 512 bytes", 1, true),
            ("write 4 KiB", 8, true),
            ("read 512 bytes", 1, false),
            ("read 4 KiB", 8, false),
        ] {
            let [theirs, ours] = [theirs(card, blocks, writes), ours(card, blocks, writes)];
            println!(
                "| {card} | {what} | {:.0} | {:.2} | {:.0} | {:.2} |",
                theirs.kib_s, theirs.longest_ms, ours.kib_s, ours.longest_ms
            );
            assert!(ours.kib_s > 0.98 * theirs.kib_s, "{card}, {what}: {ours:?}, {theirs:?}");
        }
    }
}

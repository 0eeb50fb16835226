//! Tests of this project's driver, phase by phase: transfers of every size in every mode, compared
//! with the file that has the card's content.

use crate::image::{BLOCK, Random};
use crate::machine::{Options, SDSC_BYTES};
use crate::runner::{Close, Runner};
use crate::window::{FAR, Guarded, Window};
use mmcq::host::sdhci::TransferMode;
use mmcq::host::{Caps, Direction, Host};

/// Numbers of blocks of the transfers.
const SIZES: [u32; 8] = [1, 2, 3, 8, 64, 128, 255, 256];
/// Largest number of pieces of memory in one transfer: more than QEMU's DMA processes without a
/// pause.
const PIECES: u32 = 8;

/// Returns the lengths of the segments of a transfer, in blocks: at most as many as the driver
/// allows, each of random length.
fn pieces(caps: &Caps, blocks: u32, random: &mut Random) -> Vec<u32> {
    let most = caps.max_segment_bytes / BLOCK as u32;
    let count = u32::from(caps.max_segments).min(PIECES).min(blocks);
    let mut pieces = Vec::new();
    let mut left = blocks;
    for after in (0..count).rev() {
        // Each of the pieces after this one gets at least a block.
        let piece = if after == 0 { left } else { 1 + random.below(left - after) };
        assert!(piece <= most, "a piece of {piece} blocks is more than the driver takes: {caps:?}");
        pieces.push(piece);
        left -= piece;
    }
    pieces
}

/// Reads or writes blocks with a guarded buffer, and updates the model of the card's content.
fn transfer<H: Host>(
    runner: &mut Runner<'_, H>,
    window: &mut Window<'_>,
    random: &mut Random,
    (direction, block, blocks, close): (Direction, u32, u32, Close),
) {
    let bytes = blocks as usize * BLOCK;
    let caps = *runner.host.caps();
    let mut buffer = Guarded::new(bytes, caps.align as usize, random);
    if direction == Direction::Write {
        buffer.bytes().copy_from_slice(&random.bytes(bytes));
        window.note(block, buffer.bytes());
    }
    let pieces = pieces(&caps, blocks, random);
    runner.transfer(direction, block, buffer.bytes(), &pieces, close);
    assert!(
        buffer.bytes() == window.bytes(block, bytes),
        "{direction:?} of {blocks} blocks at {block}, pieces {pieces:?}: not what the card must hold"
    );
    buffer.check();
}

/// Makes transfers of all sizes, `rounds` of each.
fn transfers(mode: TransferMode, options: &Options, base: u32, rounds: u32) {
    let Some(machine) = crate::machine(options) else { return };
    let host = machine.host(mode);
    // The descriptor table stays mapped.
    let kept = machine.dma().live();
    let mut runner = Runner::new(&machine, host);
    runner.bring_up().unwrap_or_else(|error| panic!("{mode:?}: {error}"));
    let caps = *runner.host.caps();
    let mut random = Random(0x6d6d_6371);
    let mut window = Window::new(&machine, base, &mut random);
    let mut closes = vec![Close::Stop, Close::Count];
    if caps.auto_stop {
        closes.push(Close::AutoStop);
    }
    for round in 0..rounds {
        for (number, blocks) in SIZES.into_iter().enumerate() {
            assert!(
                blocks <= caps.max_blocks && blocks * BLOCK as u32 <= caps.max_bytes,
                "{mode:?}: {caps:?}"
            );
            let close = closes[(number + round as usize) % closes.len()];
            let written = window.place(&mut random, blocks);
            transfer(&mut runner, &mut window, &mut random, (Direction::Write, written, blocks, close));
            let elsewhere = window.place(&mut random, blocks);
            // By PIO each word is a round trip to QEMU.
            let reads: &[u32] = if mode == TransferMode::Pio { &[written] } else { &[written, elsewhere] };
            for &block in reads {
                transfer(&mut runner, &mut window, &mut random, (Direction::Read, block, blocks, close));
            }
        }
    }
    runner.expect_tran();
    window.check();

    let seen = machine.commands();
    let count = |indices: &[u8]| seen.iter().filter(|(index, _)| indices.contains(index)).count() as u64;
    assert_eq!(count(&[12]), runner.tally.stops, "CMD12 that the card saw");
    assert_eq!(count(&[17, 18, 24, 25]), runner.tally.transfers, "transfers that the card saw");
    println!(
        "{mode:?}: {:?}, {} interrupts, {} register operations",
        runner.tally,
        machine.irqs(),
        machine.operations()
    );
    assert_eq!(machine.dma().live(), kept, "{mode:?}: mappings that were not ended");
}

#[test]
fn adma2_moves_what_it_should() {
    transfers(TransferMode::Adma2, &Options::default(), FAR, 12);
}

#[test]
fn sdma_moves_what_it_should() {
    transfers(TransferMode::Sdma, &Options::default(), FAR, 12);
}

#[test]
fn pio_moves_what_it_should() {
    transfers(TransferMode::Pio, &Options::default(), FAR, 1);
}

#[test]
fn standard_capacity_is_addressed_in_bytes() {
    let options = Options { image_bytes: SDSC_BYTES, ..Options::default() };
    transfers(TransferMode::Adma2, &options, 1000, 6);
}

#[test]
fn descriptors_of_96_bits() {
    transfers(TransferMode::Adma2, &Options::version_3(), FAR, 4);
}

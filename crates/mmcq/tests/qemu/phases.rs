//! Our driver, phase by phase: transfers of every size in every mode, checked against the file behind the
//! card.

use crate::image::{BLOCK, Random};
use crate::machine::{Machine, Options, SDSC_BYTES};
use crate::runner::{Close, Runner};
use mmcq::host::sdhci::TransferMode;
use mmcq::host::{Direction, Host};

/// Blocks in the transfers.
const SIZES: [u32; 8] = [1, 2, 3, 8, 64, 128, 255, 256];
/// Blocks of the card that the tests use.
const WINDOW: u32 = 4096;
/// Bytes before and after a buffer that must stay as they are.
const GUARD: usize = 4096;

/// The part of the card that is used, twice: as it is, and as it has to be.
struct Window<'m> {
    machine: &'m Machine,
    base: u32,
    shadow: Vec<u8>,
}

impl<'m> Window<'m> {
    /// Filled from behind the card's back.
    fn new(machine: &'m Machine, base: u32, random: &mut Random) -> Self {
        let shadow = random.bytes(WINDOW as usize * BLOCK);
        machine.image().write(base, &shadow);
        Window { machine, base, shadow }
    }

    fn range(&self, block: u32, bytes: usize) -> std::ops::Range<usize> {
        let start = (block - self.base) as usize * BLOCK;
        start..start + bytes
    }

    /// Compares what the file holds.
    fn check(&self) {
        let image = self.machine.image().read(self.base, WINDOW);
        let wrong = image.iter().zip(&self.shadow).position(|(is, must)| is != must);
        if let Some(at) = wrong {
            panic!("the image differs from the shadow at block {}", self.base as usize + at / BLOCK);
        }
        let edge = 64;
        for start in [self.base - edge, self.base + WINDOW] {
            let outside = self.machine.image().read(start, edge);
            assert!(
                outside.iter().all(|&byte| byte == 0),
                "something was written outside, at {start} or later"
            );
        }
    }
}

/// Reads or writes `blocks` blocks at `block` by way of a guarded buffer, and keeps the shadow.
fn transfer<H: Host>(
    runner: &mut Runner<'_, H>,
    window: &mut Window<'_>,
    random: &mut Random,
    (direction, block, blocks, close): (Direction, u32, u32, Close),
) {
    let bytes = blocks as usize * BLOCK;
    let caps = *runner.host.caps();
    let align = caps.align.max(1) as usize;
    let fill = random.next() as u8;
    let mut memory = vec![fill; bytes + 2 * GUARD + 2 * align];
    let skew = random.below((GUARD / align) as u32) as usize * align;
    let start = (memory.as_ptr() as usize + skew).next_multiple_of(align) - memory.as_ptr() as usize;
    let range = start..start + bytes;
    if direction == Direction::Write {
        memory[range.clone()].copy_from_slice(&random.bytes(bytes));
        let at = window.range(block, bytes);
        window.shadow[at].copy_from_slice(&memory[range.clone()]);
    }

    // Pieces: as many as the driver takes at most, of random length.
    let most = (caps.max_segment_bytes / BLOCK as u32).min(blocks);
    let mut pieces = Vec::new();
    let mut left = blocks;
    while left > 0 {
        let last = pieces.len() as u32 + 1 >= u32::from(caps.max_segments).min(6);
        let piece = if last { left } else { 1 + random.below(left) };
        assert!(piece <= most || !last, "{blocks} blocks do not fit what the driver takes: {caps:?}");
        pieces.push(piece.min(most));
        left -= piece.min(most);
    }
    runner.transfer(direction, block, &mut memory[range.clone()], &pieces, close);
    if direction == Direction::Read {
        assert!(
            memory[range.clone()] == window.shadow[window.range(block, bytes)],
            "read of {blocks} blocks at {block}, pieces {pieces:?}: not what the card holds"
        );
    }
    let guards = memory[..range.start].iter().chain(&memory[range.end..]);
    assert!(guards.into_iter().all(|&byte| byte == fill), "bytes outside the buffer have changed");
}

/// Transfers of all sizes, `rounds` times each.
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
            let place = |random: &mut Random| base + random.below(WINDOW - blocks);
            let written = place(&mut random);
            transfer(&mut runner, &mut window, &mut random, (Direction::Write, written, blocks, close));
            let elsewhere = place(&mut random);
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

/// Around 4 GiB, where a byte address has no room in 32 bits.
const FAR: u32 = (1 << 23) - WINDOW / 2;

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

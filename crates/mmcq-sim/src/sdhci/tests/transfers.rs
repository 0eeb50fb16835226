//! Every way to move data, and how long it takes.

use super::rig::*;
use crate::memory::MemoryConfig;
use crate::sdhci::{SdhciConfig, bits::int};
use mmcq::host::Direction;

const CC: u32 = int::COMMAND_COMPLETE;
const TC: u32 = int::TRANSFER_COMPLETE;

/// Cuts `total` bytes into pieces of the sizes given, again and again.
fn split(bus: u64, total: usize, sizes: &[usize]) -> Vec<(u64, u32, u32)> {
    let mut entries = Vec::new();
    let mut at = 0;
    for &size in sizes.iter().cycle() {
        if at == total {
            break;
        }
        let n = size.min(total - at);
        entries.push((bus + at as u64, n as u32, 0x21));
        at += n;
    }
    entries.last_mut().unwrap().2 |= 2;
    entries
}

fn adma_read(rig: &mut Rig, form: usize, blocks: usize, sizes: &[usize]) {
    let buffer = rig.mapped(vec![0; blocks * 512], Direction::Read);
    let table = rig.table(form, &split(buffer.bus, blocks * 512, sizes));
    rig.point_at(&table);
    rig.set_up(512, blocks as u16);
    rig.command(18, 3, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert_eq!(rig.r32(0x24) & 0xfff, 0, "idle");
    assert_eq!(rig.r16(0x06), 0, "block count used up");
    assert!(buffer.take() == rig.card_bytes(3, blocks * 512));
    table.take();
}

fn adma_write(rig: &mut Rig, form: usize, blocks: usize, sizes: &[usize]) {
    let data = pattern(blocks * 512);
    let buffer = rig.mapped(data.clone(), Direction::Write);
    let table = rig.table(form, &split(buffer.bus, blocks * 512, sizes));
    rig.point_at(&table);
    rig.set_up(512, blocks as u16);
    rig.command(25, 5, R1 | DATA, WRITE_MANY);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert!(data == rig.card_bytes(5, blocks * 512));
    buffer.take();
    table.take();
}

#[test]
fn adma2_moves_1_to_256_blocks_in_every_descriptor_form() {
    for (form, select, v4, memory) in [
        (8, 2, None, MemoryConfig::BITS32),
        (12, 3, None, MemoryConfig::BITS64),
        (8, 2, Some(false), MemoryConfig::BITS32),
        (16, 3, Some(true), MemoryConfig::BITS64),
    ] {
        let mut rig = Rig::with_memory(SdhciConfig::GENERIC_4_20, memory);
        rig.bring_up();
        if let Some(wide) = v4 {
            rig.version4(wide);
        }
        rig.select(select);
        for blocks in [1, 2, 3, 8, 127, 128, 129, 256] {
            adma_read(&mut rig, form, blocks, &[65536]);
            adma_write(&mut rig, form, blocks, &[65536]);
        }
        adma_read(&mut rig, form, 8, &[4, 508, 1024, 36, 4]);
        adma_write(&mut rig, form, 8, &[12, 4, 700, 8]);
        rig.assert_clean();
    }
}

#[test]
fn adma2_on_a_3_00_controller() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_3_00);
    rig.select(2);
    adma_read(&mut rig, 8, 9, &[512]);
    adma_write(&mut rig, 8, 9, &[4096]);
    rig.assert_clean();
}

#[test]
fn hs400_times_of_a_4_kib_read_and_write() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.card.0.borrow_mut().access_ns = 50_000;
    let start = rig.now;
    adma_read(&mut rig, 8, 8, &[4096]);
    // Command 0.52 us (and 0.04 us gap after it), data 11.28 us, all from the timing diagrams.
    assert_eq!(rig.now - start, 520 + 11_280 + 50_000);
    rig.run(40);
    let read = rig.host.take_stats();
    assert_eq!((read.command_ns, read.data_ns, read.access_ns, read.busy_ns), (560, 11_280, 50_000, 0));
    assert_eq!((read.commands[18], read.blocks_read, read.bytes, read.interrupts), (1, 8, 4096, 2));
    let start = rig.now;
    rig.card.0.borrow_mut().write_busy_ns = 10_000;
    adma_write(&mut rig, 8, 8, &[4096]);
    // The busy of 10 us counts from the end of the block, so it covers the CRC status.
    let write = rig.host.stats().clone();
    assert_eq!((write.command_ns, write.data_ns), (560, 11_680));
    assert_eq!(write.busy_ns, 8 * (10_000 - 50));
    assert_eq!(rig.now - start, 520 + 11_680 + 8 * 9_950);
    assert_eq!(write.physical_ns(), 560 + 11_680 + 8 * 9_950);
}

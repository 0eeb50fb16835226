//! Tests of each kind of data transfer, and of its time.

use super::rig::*;
use crate::memory::MemoryConfig;
use crate::sdhci::{SdhciConfig, bits::int};
use crate::slot::Controller;
use mmcq::host::Direction;

const CC: u32 = int::COMMAND_COMPLETE;
const TC: u32 = int::TRANSFER_COMPLETE;

/// Splits `total` bytes into parts of the given sizes, which are used again and again.
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
    // The command takes 0.52 us (and a gap of 0.04 us after it), the data 11.28 us; both follow
    // from the timing diagrams.
    assert_eq!(rig.now - start, 520 + 11_280 + 50_000);
    rig.run(40);
    let read = rig.host.take_stats();
    assert_eq!((read.command_ns, read.data_ns, read.access_ns, read.busy_ns), (560, 11_280, 50_000, 0));
    assert_eq!((read.commands[18], read.blocks_read, read.bytes, read.interrupts), (1, 8, 4096, 2));
    let start = rig.now;
    rig.card.0.borrow_mut().write_busy_ns = 10_000;
    adma_write(&mut rig, 8, 8, &[4096]);
    // The busy of 10 us counts from the end of the block, so that it includes the CRC status.
    let write = rig.host.stats().clone();
    assert_eq!((write.command_ns, write.data_ns), (560, 11_680));
    assert_eq!(write.busy_ns, 8 * (10_000 - 50));
    assert_eq!(rig.now - start, 520 + 11_680 + 8 * 9_950);
    assert_eq!(write.physical_ns(), 560 + 11_680 + 8 * 9_950);
}

#[test]
fn table_with_link_nop_int_and_an_end_of_its_own() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    let buffer = rig.mapped(vec![0; 2048], Direction::Read);
    let second = rig.table(8, &[(buffer.bus + 512, 1536, 0x21), (0, 0, 0x03)]);
    let first = rig.table(8, &[(0, 0, 0x01), (buffer.bus, 512, 0x25), (second.bus, 0, 0x31)]);
    rig.point_at(&first);
    rig.set_up(512, 4);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    let seen = rig.wait_for(CC | TC);
    assert_eq!(seen, CC | TC | int::DMA, "the Int attribute interrupts");
    assert_eq!(rig.r32(0x58) as u64, second.bus + 16, "points behind the last descriptor");
    assert!(buffer.take() == rig.card_bytes(0, 2048));
    assert_eq!(rig.host.stats().descriptors, 5);
    rig.assert_clean();
}

#[test]
fn length_zero_is_64_kib_and_26_bit_lengths_go_further() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.version4(false);
    rig.select(2);
    let buffer = rig.mapped(vec![0; 0x1_8000], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 0, 0x21), (buffer.bus + 0x1_0000, 0x8000, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 0xc0);
    rig.command(18, 1, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert!(buffer.take() == rig.card_bytes(1, 0x1_8000));
    let old = rig.r16(0x3e);
    rig.w16(0x3e, old | 1 << 10);
    let buffer = rig.mapped(vec![0; 0x1_8000], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 0x1_8000, 0x23)]);
    rig.point_at(&table);
    rig.set_up(512, 0xc0);
    rig.command(18, 1, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert!(buffer.take() == rig.card_bytes(1, 0x1_8000));
    rig.assert_clean();
}

#[test]
fn without_a_block_count_the_table_ends_the_transfer() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    for tail in [false, true] {
        let buffer = rig.mapped(vec![0; 1536], Direction::Read);
        let mut entries = vec![(buffer.bus, 1536, if tail { 0x21 } else { 0x23 })];
        if tail {
            entries.push((0, 0, 0x03));
        }
        let table = rig.table(8, &entries);
        rig.point_at(&table);
        rig.set_up(512, 77);
        // Transfer mode: multi-block, no block count, automatic CMD12.
        rig.command(18, 9, R1 | DATA, 0x35);
        assert_eq!(rig.wait_for(CC | TC), CC | TC);
        assert_eq!(rig.r16(0x06), 77);
        assert!(buffer.take() == rig.card_bytes(9, 1536));
        assert_eq!(rig.card.0.borrow().commands.last().unwrap().0, 12);
    }
    let buffer = rig.mapped(pattern(1024), Direction::Write);
    let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
    rig.point_at(&table);
    rig.command(25, 9, R1 | DATA, 0x25);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert_eq!(rig.card_bytes(9, 1024), pattern(1024));
    rig.assert_clean();
}

#[test]
fn sdma_stops_at_every_boundary_until_its_address_is_written() {
    for v4 in [None, Some(false), Some(true)] {
        for write in [false, true] {
            let memory = if v4 == Some(true) { MemoryConfig::BITS64 } else { MemoryConfig::BITS32 };
            let mut rig = Rig::with_memory(SdhciConfig::GENERIC_4_20, memory);
            rig.bring_up();
            if let Some(wide) = v4 {
                rig.version4(wide);
            }
            rig.select(0);
            let at = if v4.is_some() { 0x58 } else { 0x00 };
            // SDMA with a boundary of 4 KiB; the buffer begins in the middle of a block before a
            // boundary.
            let data = pattern(0x5000);
            let direction = if write { Direction::Write } else { Direction::Read };
            let buffer = rig.mapped(data.clone(), direction);
            let start = (buffer.bus | 0xfff) + 1 - 300;
            let blocks = 20;
            rig.w32(at, start as u32);
            if v4.is_some() {
                rig.w32(at + 4, (start >> 32) as u32);
            }
            rig.set_up(512, blocks);
            if write {
                rig.command(25, 40, R1 | DATA, WRITE_MANY);
            } else {
                rig.command(18, 40, R1 | DATA, READ_MANY);
            }
            let mut stops = 0;
            loop {
                let seen = rig.wait_for(int::DMA);
                if seen & TC != 0 {
                    break;
                }
                assert_eq!(seen & int::ERRORS, 0);
                stops += 1;
                rig.run(1_000_000);
                assert_eq!(rig.r32(0x30) & TC, 0, "it waits");
                let low = rig.r32(at);
                assert_eq!(low & 0xfff, 0);
                rig.w32(at, low);
                if v4 == Some(true) {
                    rig.w32(at + 4, (start >> 32) as u32);
                }
            }
            // Stops after 300 bytes, 4096 bytes and 4096 bytes.
            assert_eq!(stops, 3);
            let n = usize::from(blocks) * 512;
            let skip = (start - buffer.bus) as usize;
            let there = buffer.take();
            assert!(there[skip..skip + n] == rig.card_bytes(40, n)[..]);
            rig.assert_clean();
        }
    }
}

#[test]
fn sdma_that_ends_on_a_boundary_does_not_stop_there() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let buffer = rig.mapped(vec![0; 0x3000], Direction::Read);
    let start = (buffer.bus | 0xfff) + 1;
    rig.w32(0x00, start as u32);
    rig.set_up(512, 8);
    rig.command(18, 0, R1 | DATA, READ_MANY);
    assert_eq!(rig.wait_for(CC | TC), CC | TC, "no DMA interrupt");
    assert_eq!(rig.r32(0), start as u32 + 0x1000);
    rig.assert_clean();
}

fn pio_read(rig: &mut Rig, blocks: usize, size: u8) {
    rig.set_up(512, blocks as u16);
    rig.command(18, 2, R1 | DATA, READ_MANY & !1);
    let mut got = Vec::new();
    while got.len() < blocks * 512 {
        let seen = rig.wait_for(int::BUFFER_READ_READY);
        assert_eq!(seen & (int::ERRORS | TC), 0);
        let mut block = 0;
        while block < 512 {
            assert_ne!(rig.r32(0x24) & 1 << 11, 0, "buffer read enable");
            let word = rig.host.read(0x20, size, rig.now);
            got.extend_from_slice(&word.to_le_bytes()[..size.into()]);
            block += usize::from(size);
        }
    }
    assert_eq!(rig.wait_for(TC), TC);
    assert_eq!(rig.r32(0x24) & 0xfff, 0);
    assert!(got == rig.card_bytes(2, blocks * 512));
}

fn pio_write(rig: &mut Rig, blocks: usize, size: u8) {
    let data = pattern(blocks * 512);
    rig.set_up(512, blocks as u16);
    rig.command(25, 2, R1 | DATA, WRITE_MANY & !1);
    let mut sent = 0;
    while sent < data.len() {
        let seen = rig.wait_for(int::BUFFER_WRITE_READY);
        assert_eq!(seen & (int::ERRORS | TC), 0);
        assert_ne!(rig.r32(0x24) & 1 << 10, 0, "buffer write enable");
        for _ in 0..512 / usize::from(size) {
            let mut word = [0; 4];
            word[..size.into()].copy_from_slice(&data[sent..sent + usize::from(size)]);
            rig.host.write(0x20, size, u32::from_le_bytes(word), rig.now);
            sent += usize::from(size);
        }
    }
    assert_eq!(rig.wait_for(TC), TC);
    assert!(data == rig.card_bytes(2, data.len()));
}

#[test]
fn pio_with_one_and_two_buffers_and_every_access_width() {
    for config in [SdhciConfig::GENERIC_4_20, SdhciConfig::GENERIC_3_00] {
        let mut rig = Rig::warm(config);
        for size in [4, 2, 1] {
            for blocks in [1, 2, 3, 64] {
                pio_read(&mut rig, blocks, size);
                pio_write(&mut rig, blocks, size);
            }
        }
        rig.assert_clean();
    }
}

#[test]
fn a_full_buffer_stops_the_clock_and_loses_nothing() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.set_up(512, 5);
    rig.command(18, 0, R1 | DATA, READ_MANY & !1);
    rig.run(1_000_000);
    assert_eq!(rig.host.stats().blocks_read, 2, "two buffers");
    let mut got = Vec::new();
    for _ in 0..5 {
        rig.wait_for(int::BUFFER_READ_READY);
        for _ in 0..128 {
            got.extend_from_slice(&rig.r32(0x20).to_le_bytes());
        }
        rig.run(100_000);
    }
    assert_eq!(rig.wait_for(TC), TC);
    assert!(got == rig.card_bytes(0, 2560));
    assert!(rig.host.stats().held_ns > 900_000);
    // The buffer is empty, so that a further read of the port is a violation.
    rig.r32(0x20);
    assert_eq!(rig.host.protocol_violations(), 1);
}

#[test]
fn single_block_ignores_the_count_and_odd_block_sizes_work() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.set_up(512, 9);
    let buffer = rig.mapped(vec![0; 512], Direction::Read);
    let table = rig.table(8, &[(buffer.bus, 512, 0x23)]);
    rig.point_at(&table);
    rig.command(17, 6, R1 | DATA, 0x11);
    assert_eq!(rig.wait_for(CC | TC), CC | TC);
    assert_eq!((rig.r16(0x06), buffer.take()), (9, rig.card_bytes(6, 512)));
    // A block of 64 bytes outside of the tuning procedure is ordinary data.
    rig.set_up(64, 1);
    rig.command(19, 0, R1 | DATA, 0x10);
    rig.wait_for(int::BUFFER_READ_READY);
    for _ in 0..16 {
        rig.r32(0x20);
    }
    assert_eq!(rig.wait_for(TC), TC);
    rig.assert_clean();
}

#[test]
fn automatic_commands_go_before_and_after_and_leave_their_response_in_1c() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.select(2);
    rig.card.0.borrow_mut().r1b_busy_ns = 30_000;
    for (index, auto, order) in
        [(18, 0x04, &[18, 12][..]), (25, 0x04, &[25, 12]), (18, 0x08, &[23, 18]), (25, 0x08, &[23, 25])]
    {
        let write = index == 25;
        let buffer = rig.mapped(vec![0; 1024], if write { Direction::Write } else { Direction::Read });
        let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
        rig.point_at(&table);
        rig.card.0.borrow_mut().commands.clear();
        rig.card.0.borrow_mut().status = 0x900 + index as u32;
        rig.w32(0x00, 0x8000_0002);
        rig.set_up(512, 2);
        let start = rig.now;
        rig.command(index, 0, R1 | DATA, if write { WRITE_MANY } else { READ_MANY } | auto);
        assert_eq!(rig.wait_for(CC | TC), CC | TC);
        let seen: Vec<_> = rig.card.0.borrow().commands.iter().map(|c| (c.0, c.1)).collect();
        assert_eq!(seen.iter().map(|c| c.0).collect::<Vec<_>>(), order);
        assert!(auto == 4 || seen[0].1 == 0x8000_0002, "CMD23 carries argument 2");
        assert_eq!(rig.r32(0x1c), 0x900 + index as u32);
        let stopped_late = rig.now - start > 30_000;
        assert_eq!(stopped_late, auto == 4, "the busy of CMD12 is waited for");
    }
    rig.assert_clean();
}

#[test]
fn auto_select_needs_version_4_and_follows_cmd23_enable() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.version4(false);
    rig.select(2);
    for enable in [false, true] {
        let old = rig.r16(0x3e) & !(1 << 11);
        rig.w16(0x3e, old | u16::from(enable) << 11);
        let buffer = rig.mapped(vec![0; 1024], Direction::Read);
        let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
        rig.point_at(&table);
        rig.card.0.borrow_mut().commands.clear();
        // The 32-bit block count is used while the 16-bit one is 0; it is also the argument of
        // CMD23.
        rig.w32(0x00, 2);
        rig.set_up(512, 0);
        rig.command(18, 0, R1 | DATA, READ_MANY | 0x0c);
        assert_eq!(rig.wait_for(CC | TC), CC | TC);
        let seen: Vec<_> = rig.card.0.borrow().commands.iter().map(|c| c.0).collect();
        assert_eq!(seen, if enable { [23, 18] } else { [18, 12] });
        assert_eq!(rig.r32(0x00), 0, "counted down");
    }
    rig.assert_clean();
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.set_up(512, 1);
    rig.command(18, 0, R1 | DATA, READ_MANY | 0x0c);
    assert_eq!(rig.host.protocol_violations(), 1);
}

#[test]
fn a_stop_at_the_block_gap_and_a_continue() {
    for write in [false, true] {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        rig.select(2);
        let data = pattern(2048);
        let buffer = rig.mapped(data, if write { Direction::Write } else { Direction::Read });
        let table = rig.table(8, &[(buffer.bus, 2048, 0x23)]);
        rig.point_at(&table);
        rig.set_up(512, 4);
        rig.w8(0x2a, 1);
        rig.command(if write { 25 } else { 18 }, 0, R1 | DATA, if write { WRITE_MANY } else { READ_MANY });
        assert_eq!(rig.wait_for(TC), CC | TC | int::BLOCK_GAP);
        rig.run(50_000);
        assert_eq!(rig.r16(0x06), 3, "one block went");
        rig.w8(0x2a, 2);
        assert_eq!(rig.wait_for(TC), TC);
        assert!(buffer.take() == rig.card_bytes(0, 2048));
        rig.assert_clean();
    }
}

#[test]
fn an_open_transfer_ends_by_an_abort_command() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.set_up(512, 0);
    rig.command(18, 0, R1 | DATA, 0x30);
    assert_eq!(rig.wait_for(int::BUFFER_READ_READY) & int::ERRORS, 0);
    rig.run(10_000);
    rig.card.0.borrow_mut().r1b_busy_ns = 5_000;
    // A CMD12 that does not have the abort type must wait for the DAT lines, which are in use.
    rig.command(12, 0, R1B, 0);
    assert_eq!(rig.host.protocol_violations(), 1);
    rig.command(12, 0, R1B | ABORT, 0);
    assert_eq!(rig.wait_for(CC | TC) & (CC | TC | int::ERRORS), CC | TC);
    assert_eq!(rig.r32(0x24) & 0xfff, 0);
}

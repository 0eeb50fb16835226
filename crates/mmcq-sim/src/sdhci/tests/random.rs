//! Random registers, times and card faults: the model must not panic, and its time must not
//! decrease.

use super::rig::*;
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::sdhci::{Busy, Sdhci, SdhciConfig};
use crate::slot::Controller;
use crate::world::Device;
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::host::{Direction, Dma};
use std::ptr::NonNull;

fn any_config(u: &mut Unstructured) -> Result<SdhciConfig> {
    let mut config = if u.arbitrary()? { SdhciConfig::GENERIC_4_20 } else { SdhciConfig::GENERIC_3_00 };
    config.buffer_blocks = u.int_in_range(0..=3)?;
    config.busy = if u.arbitrary()? { Busy::Interrupt } else { Busy::Ignored };
    config.tuning_rounds = u.arbitrary()?;
    config.uhs_at_33v = u.arbitrary()?;
    config.clock_stable_ns = 100;
    config.adma_align = u.int_in_range(0..=8)?;
    Ok(config)
}

/// Returns memory full of descriptors that point to each other, or to the buffer at bus address
/// `data`.
fn any_tables(u: &mut Unstructured, memory: &ShadowMemory, data: u64) -> Result<Mapped> {
    let mut tables = Mapped::new(memory, vec![0; 512], Direction::Write);
    for entry in tables.cpu.chunks_mut(8) {
        let attributes = *u.choose(&[0x21, 0x21, 0x23, 0x25, 0x01, 0x31, 0x03, 0x00])?;
        let length = u32::from(*u.choose(&[512u16, 1024, 4, 64, 3, 0])?);
        let base = if attributes == 0x31 { tables.bus } else { data };
        let address = base as u32 + u32::from(u.arbitrary::<u8>()?) * 4;
        entry[..4].copy_from_slice(&(length << 16 | attributes).to_le_bytes());
        entry[4..].copy_from_slice(&address.to_le_bytes());
    }
    let ptr = NonNull::new(tables.cpu.as_mut_ptr()).unwrap();
    memory.sync(tables.bus, ptr, 512);
    Ok(tables)
}

/// Returns a random register write, which in most cases is a valid one.
fn any_write(u: &mut Unstructured, bus: u64) -> Result<(u16, u8, u32)> {
    let value = u.arbitrary()?;
    Ok(match u.int_in_range(0..=11)? {
        0 if u.ratio(1, 4)? => (u.int_in_range(0..=0x103)?, u.int_in_range(0..=5)?, value),
        1 => (0x29, 1, 0x0f),
        2 => (0x2c, 2, 0x000d),
        3 => (0x34, 4, !0),
        4 => (0x04, 4, u32::from(u.int_in_range(0u16..=5)?) << 16 | *u.choose(&[512, 64, 128, 0, 1, 4095])?),
        5 => {
            let usual = *u.choose(&[0x11, 0x33, 0x37, 0x3b, 0x31, 0x32, 0x01, 0x23, 0x27, 0x21, 0x22])?;
            (0x0c, 2, if u.ratio(1, 8)? { value } else { usual })
        }
        6 => {
            let index = *u.choose(&[0, 2, 7, 12, 13, 17, 18, 19, 21, 23, 24, 25])?;
            let usual = *u.choose(&[R1 | DATA, R1 | DATA, R1, R1B, R2, R1B | ABORT])?;
            let flags = if u.ratio(1, 8)? { value & 0xff } else { usual.into() };
            (0x0e, 2, index << 8 | flags)
        }
        7 => (*u.choose(&[0x00, 0x58])?, 4, (bus as u32).wrapping_add(value & 0x1f8)),
        8 => (0x20, 4, value),
        9 => (0x28, 1, *u.choose(&[0x10, 0x12, 0x36, 0x18, 0x00])?),
        10 if u.ratio(1, 4)? => (0x3e, 2, value),
        10 => (0x2f, 1, *u.choose(&[2, 4, 6])?),
        _ => (0x08, 4, value & 0xff),
    })
}

#[test]
fn fuzz_register_storms_never_panic_and_time_goes_forward() {
    let moved = std::cell::Cell::new((0, 0));
    let mut storm = |u: &mut Unstructured| {
        let memory = ShadowMemory::new(MemoryConfig::BITS32);
        let card = TestCard::new();
        {
            let mut script = card.0.borrow_mut();
            script.access_ns = u.int_in_range(0..=100_000)?;
            script.write_busy_ns = u.int_in_range(0..=100_000)?;
            script.r1b_busy_ns = u.int_in_range(0..=100_000)?;
            script.stops_after = Some(u.int_in_range(0..=700)?);
            script.crc_status = u.arbitrary()?;
        }
        let mut host = Sdhci::new(any_config(u)?, memory.clone(), Some(Box::new(card.clone())));
        // Power and clock are on, so that commands can be sent.
        for (offset, size, value, now) in
            [(0x29, 1, 0x0f, 0), (0x2c, 2, 0x0009, 0), (0x2c, 2, 0x000d, 10_000)]
        {
            host.write(offset, size, value, now);
        }
        host.write(0x34, 4, !0, 10_000);
        let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
        let data = Mapped::new(&memory, vec![0; 4096], direction);
        let tables = any_tables(u, &memory, data.bus)?;
        let bus = if u.ratio(1, 8)? { data.bus } else { tables.bus };
        let mut now = 10_000;
        let mut told = now;
        let mut inside = true;
        for _ in 0..u.int_in_range(0..=200)? {
            now += u.int_in_range(0..=20_000)?;
            match u.int_in_range(0..=9)? {
                0 | 1 => {
                    // The model knows only the time `told`, so it may stop between `told` and
                    // `now`.
                    let came = host.advance(now + u.int_in_range(0..=10_000_000)?);
                    assert!(came >= told, "time went back from {told} to {came}");
                    assert!(host.next_event_ns().is_none_or(|at| at >= came), "nothing is left behind");
                    now = came;
                }
                2 => {
                    let (offset, size, _) = any_write(u, bus)?;
                    host.read(offset, size, now);
                }
                // A write that makes sense, among random ones.
                3 | 4 => {
                    let read = direction == Direction::Read;
                    let mode = if read { READ_MANY } else { WRITE_MANY } & !u16::from(u.arbitrary::<bool>()?);
                    let command = if read { 18 << 8 } else { 25 << 8 } | R1 | DATA;
                    let blocks = u.int_in_range(1..=8)? << 16;
                    for (offset, size, value) in [
                        (0x2f, 1, 6),
                        (0x58, 4, tables.bus as u32 + u.int_in_range(0..=63)? * 8),
                        (0x00, 4, data.bus as u32),
                        (0x04, 4, blocks | 512),
                        (0x0c, 4, u32::from(command) << 16 | u32::from(mode)),
                    ] {
                        host.write(offset, size, value, now);
                        now += 600;
                    }
                }
                5 if u.ratio(1, 8)? => {
                    if inside {
                        assert!(host.remove(now).is_some());
                    } else {
                        host.insert(Box::new(card.clone()), now);
                    }
                    inside = !inside;
                }
                _ => {
                    let (offset, size, value) = any_write(u, bus)?;
                    host.write(offset, size, value, now);
                }
            }
            let status = host.read(0x30, 4, now);
            let signal = host.read(0x38, 4, now);
            told = now;
            assert_eq!(host.irq(), status & signal & !0x8000 != 0, "the line follows its registers");
            assert_eq!(status & 0x8000 != 0, status >> 16 != 0, "the summary follows the errors");
        }
        let (read, written) = moved.get();
        moved.set((read + host.stats().blocks_read, written + host.stats().blocks_written));
        Ok(())
    };
    crate::fuzz::always(64, 32_768, &mut storm);
    let (read, written) = moved.get();
    assert!(read > 0 && written > 0, "the storms reached the data: {read} and {written} blocks");
    crate::fuzz::sized("sdhci: fuzz_register_storms", 1_500, 4096..65_536, storm);
}

#[test]
fn fuzz_after_any_storm_a_reset_makes_the_controller_usable() {
    crate::fuzz::sized("sdhci: fuzz_after_any_storm", 1_500, 4096..65_536, |u| {
        let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
        let data = rig.mapped(vec![0; 4096], if u.arbitrary()? { Direction::Read } else { Direction::Write });
        let tables = any_tables(u, &rig.memory, data.bus)?;
        for _ in 0..u.int_in_range(0..=60)? {
            let (offset, size, value) = any_write(u, tables.bus)?;
            rig.host.write(offset, size, value, rig.now);
            rig.run(u.int_in_range(0..=20_000)?);
        }
        rig.w8(0x2f, 1);
        rig.run(1_000);
        let violations = rig.host.protocol_violations();
        assert_eq!((rig.r32(0x24) & 0xfff, rig.r32(0x30), rig.r8(0x2f)), (0, 0, 0));
        rig.w8(0x29, 0x0f);
        rig.w16(0x2c, 0x0001);
        rig.run(100_000);
        rig.w16(0x2c, 0x0005);
        rig.w8(0x2e, 0x0e);
        rig.w32(0x34, !0);
        rig.w32(0x38, !0);
        rig.select(2);
        // A CMD23 from before the reset must have no effect.
        rig.card.0.borrow_mut().commands.clear();
        let buffer = rig.mapped(vec![0; 1024], Direction::Read);
        let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
        rig.point_at(&table);
        rig.set_up(512, 2);
        rig.command(18, 1, R1 | DATA, READ_MANY);
        assert_eq!(rig.wait_for(3), 3);
        assert!(buffer.take() == rig.card_bytes(1, 1024));
        assert_eq!(rig.host.protocol_violations(), violations);
        Ok(())
    });
}

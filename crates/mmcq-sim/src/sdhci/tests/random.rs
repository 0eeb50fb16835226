//! Any registers, any time, any card trouble: no panic, and time goes forward.

use super::rig::*;
use crate::memory::{MemoryConfig, ShadowMemory};
use crate::sdhci::{Busy, Sdhci, SdhciConfig};
use arbtest::arbitrary::{Result, Unstructured};
use mmcq::host::Direction;

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

/// A write that is more often meaningful than not.
fn any_write(u: &mut Unstructured, bus: u64) -> Result<(u16, u8, u32)> {
    let value = u.arbitrary()?;
    Ok(match u.int_in_range(0..=11)? {
        0 => (u.arbitrary()?, u.int_in_range(0..=5)?, value),
        1 => (0x29, 1, 0x0f),
        2 => (0x2c, 2, 0x000d),
        3 => (0x34, 4, !0),
        4 => (0x04, 4, u32::from(u.int_in_range(0u16..=5)?) << 16 | *u.choose(&[512, 64, 128, 0, 1, 4095])?),
        5 => (0x0c, 2, u32::from(u.arbitrary::<u16>()?)),
        6 => {
            let index = *u.choose(&[0, 2, 7, 12, 13, 17, 18, 19, 21, 23, 24, 25])?;
            (0x0e, 2, index << 8 | u32::from(u.arbitrary::<u8>()?))
        }
        7 => (*u.choose(&[0x00, 0x58])?, 4, (bus as u32).wrapping_add(value & 0x1ff)),
        8 => (0x20, 4, value),
        9 => (0x28, 1, value),
        10 => (0x3e, 2, value),
        _ => (0x08, 4, value & 0xff),
    })
}

#[test]
fn register_storms_never_panic_and_time_goes_forward() {
    arbtest::arbtest(|u| {
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
        let direction = if u.arbitrary()? { Direction::Read } else { Direction::Write };
        // Memory full of anything, descriptors too.
        let _window = Mapped::new(&memory, u.bytes(512)?.to_vec(), direction);
        let bus = _window.bus;
        let mut now = 0;
        let mut inside = true;
        for _ in 0..u.int_in_range(0..=200)? {
            now += u.int_in_range(0..=20_000)?;
            match u.int_in_range(0..=9)? {
                0 | 1 => {
                    let before = now;
                    now = host.advance(now + u.int_in_range(0..=10_000_000)?);
                    assert!(now >= before);
                    assert!(host.next_event_ns().is_none_or(|at| at >= now), "nothing is left behind");
                }
                2 => {
                    let (offset, size, _) = any_write(u, bus)?;
                    host.read(offset, size, now);
                }
                3 if u.ratio(1, 8)? => {
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
            assert_eq!(host.irq(), status & signal & !0x8000 != 0, "the line follows its registers");
            assert_eq!(status & 0x8000 != 0, status >> 16 != 0, "the summary follows the errors");
        }
        Ok(())
    })
    .budget_ms(2_000);
}

#[test]
fn after_any_storm_a_reset_makes_the_controller_usable() {
    arbtest::arbtest(|u| {
        let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
        let window = rig.mapped(u.bytes(512)?.to_vec(), Direction::Write);
        for _ in 0..u.int_in_range(0..=60)? {
            let (offset, size, value) = any_write(u, window.bus)?;
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
        let buffer = rig.mapped(vec![0; 1024], Direction::Read);
        let table = rig.table(8, &[(buffer.bus, 1024, 0x23)]);
        rig.point_at(&table);
        rig.set_up(512, 2);
        rig.command(18, 1, R1 | DATA, READ_MANY);
        assert_eq!(rig.wait_for(3), 3);
        assert!(buffer.take() == rig.card_bytes(1, 1024));
        assert_eq!(rig.host.protocol_violations(), violations);
        Ok(())
    })
    .budget_ms(1_000);
}

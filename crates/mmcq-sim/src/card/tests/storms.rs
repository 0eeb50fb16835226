//! Random commands, bus changes and blocks: the card model must not panic, and its times must never
//! decrease.

use super::{ALL, medium, profile};
use crate::card::{BusState, Card, Flow, Kept, Medium, ReadBlock};
use crate::faults::{Faults, Plan, Point, Strike};

fn check(
    card: &mut dyn Card,
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<()> {
    let mut now_ns: u64 = 0;
    let mut bus = BusState { powered: true, clock_hz: 400_000, width: 1, ..BusState::default() };
    card.bus_changed(&bus, now_ns);
    now_ns = 2_000_000;
    let mut rca = 1u32;
    let mut block = 512usize;
    let mut buffer = [0u8; 1024];
    while !u.is_empty() {
        now_ns += match u.int_in_range(0..=3)? {
            0 => 0,
            1 => u.int_in_range(0..=2_000)?,
            2 => u.int_in_range(0..=200_000)?,
            _ => 100_000_000,
        };
        match u.int_in_range(0..=9)? {
            // Commands of a bring-up are frequent, so that the random commands reach the later
            // states.
            0..=3 => {
                let (index, arg) = *u.choose(&[
                    (0, 0),
                    (1, 0x40ff_8080),
                    (8, 0x1aa),
                    (55, rca << 16),
                    (55, 0),
                    (41, 0x41ff_8000),
                    (2, 0),
                    (3, 1 << 16),
                    (7, rca << 16),
                    (17, 0),
                    (18, 5),
                    (23, 3),
                    (24, 0),
                    (6, 0x03b3_0300),
                    (6, 0x0321_0100),
                    (6, 0x0320_0100),
                    (13, rca << 16 | 1),
                    (48, 2 << 27 | 0x1ff),
                    (49, 2 << 27 | 260 << 9),
                    (25, 8),
                    (12, 0),
                    (13, rca << 16),
                    (6, 0x03b9_0100),
                    (6, 0x80ff_fff1),
                    (35, 0),
                    (36, 5),
                    (32, 0),
                    (33, 5),
                    (38, 0),
                    (42, 0),
                ])?;
                command(card, index, arg, now_ns, &mut rca, &mut block);
            }
            4 | 5 => {
                let (index, arg): (u8, u32) = (u.int_in_range(0..=63)?, u.arbitrary()?);
                command(card, index, arg, now_ns, &mut rca, &mut block);
            }
            6 => {
                let len = if u.ratio(1, 8)? { u.int_in_range(0..=1024)? } else { block };
                if let ReadBlock::At { start_ns, .. } = card.read_block(&mut buffer[..len], now_ns) {
                    assert!(start_ns >= now_ns);
                    now_ns = start_ns;
                }
            }
            7 => {
                let len = if u.ratio(1, 8)? { u.int_in_range(0..=1024)? } else { block };
                let taken = card.write_block(&buffer[..len], u.ratio(7, 8)?, now_ns);
                assert!(taken.busy_until_ns >= now_ns);
                if taken.busy_until_ns > now_ns {
                    assert!(card.busy(now_ns) && !card.busy(taken.busy_until_ns));
                }
            }
            8 => {
                bus = BusState {
                    powered: !u.ratio(1, 20)?,
                    clock_hz: *u.choose(&[
                        0,
                        400_000,
                        25_000_000,
                        26_000_000,
                        50_000_000,
                        200_000_000,
                        u32::MAX,
                    ])?,
                    width: *u.choose(&[0, 1, 4, 8])?,
                    ddr: u.ratio(1, 8)?,
                    signal18: u.ratio(1, 8)?,
                    strobe: u.ratio(1, 16)?,
                    reset: u.ratio(1, 16)?,
                    sample_error: u.arbitrary()?,
                };
                card.bus_changed(&bus, now_ns);
            }
            _ => {
                bus.powered = true;
                bus.clock_hz = 400_000;
                bus.sample_error = 0;
                bus.strobe = false;
                bus.reset = false;
                card.bus_changed(&bus, now_ns);
            }
        }
        let _ = (card.busy(now_ns), card.switching_voltage(now_ns));
    }
    Ok(())
}

fn command(card: &mut dyn Card, index: u8, arg: u32, now_ns: u64, rca: &mut u32, block: &mut usize) {
    let reply = card.command(index, arg, now_ns);
    if let Some(until_ns) = reply.busy_until_ns {
        assert!(!card.busy(until_ns.max(now_ns)));
    }
    if let Some(crate::card::Answer::Short { index: 3, content, .. }) = reply.answer {
        *rca = if content >> 16 == 0 { 1 } else { content >> 16 };
    }
    if let Flow::Read { block_size } | Flow::Write { block_size } = reply.flow {
        *block = block_size.into();
        assert!(matches!(block_size, 1..=512));
    }
}

#[test]
fn fuzz_no_panic_and_no_time_backwards() {
    for file in ALL {
        let profile = profile(file);
        let profile = profile.with_capacity_bytes(16 << 20).unwrap();
        crate::fuzz::sized(&format!("{file}: fuzz_card"), 700, 32..20_000, |u| {
            let mut card = profile.build(medium(&profile)).unwrap();
            check(&mut *card, u)
        });
    }
}

#[test]
fn a_medium_larger_than_the_card_is_no_part_of_it() {
    let profile = profile("sdhc-16g-hs").with_capacity_bytes(1 << 20).unwrap();
    let large = Medium::sparse(2 << 20, crate::card::Fill::Zeros).unwrap();
    let mut host = super::host::Host::new(profile.build(large).unwrap());
    host.bring_up_sd(false);
    assert_eq!(host.short(17, 2048) >> 31, 1);
    host.ok(18, 2047);
    host.receive(1);
    assert_eq!(host.block(&mut [0; 512]), ReadBlock::Never);
    assert_eq!(host.short(12, 0) >> 31, 1);
}

/// Checks that the card models do not panic under random commands to cards with quirks, with faults
/// at every point of the card.
#[test]
fn no_panic_whatever_is_wrong() {
    let files = [
        "quirks/cmd23-locks-up",
        "quirks/inand-cmd38",
        "quirks/hpi-breaks",
        "quirks/command-queue-broken",
        "quirks/power-off-never-ready",
        "emmc-51-full",
        "sdxc-64g-a2",
    ];
    let strikes = [
        Strike::Late(1_000_000),
        Strike::Never,
        Strike::Hidden,
        Strike::Fail,
        Strike::Lost,
        Strike::Flip(77),
        Strike::Astray(-3),
        Strike::BrownOut,
    ];
    let points = [Point::Busy, Point::PowerUp, Point::Voltage, Point::Cache, Point::Medium];
    for file in files {
        let profile = profile(file).with_capacity_bytes(16 << 20).unwrap();
        crate::fuzz::sized("no_panic_whatever_is_wrong", 500, 32..20_000, |u| {
            let mut profile = profile.clone();
            let quirks = profile.quirks_mut();
            quirks.real_mib = u.ratio(1, 4)?.then_some(1);
            quirks.life_mib = u.ratio(1, 4)?.then_some(0);
            quirks.urgent_after_mib = u.ratio(1, 4)?.then_some(0);
            quirks.shrinks = u.arbitrary()?;
            quirks.neighbour_damage = u.arbitrary()?;
            quirks.shorn = u.arbitrary()?;
            let mut plan = Plan::seeded(u.arbitrary()?);
            for point in points {
                plan = plan.chance(point, *u.choose(&strikes)?, 0.05);
            }
            let mut card = profile.build(medium(&profile)).unwrap();
            card.set_faults(Faults::new(plan));
            check(&mut *card, u)?;
            let mut kept = [Kept::Old, Kept::New, Kept::Torn, Kept::Mixed].into_iter().cycle();
            card.cut(1 << 60, &mut |_| kept.next().unwrap_or(Kept::Old));
            assert!(card.at_stake(1 << 60).is_empty());
            Ok(())
        });
    }
}

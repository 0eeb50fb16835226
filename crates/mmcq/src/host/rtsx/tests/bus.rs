//! Tests of bus operations: their scripts and their time limits.

use super::*;

/// Returns the register writes of an operation: writes by HAIMR as (register, mask, value), other
/// registers as (offset, 0, value).
fn script(host: &mut Driver, op: BusOp) -> Vec<(u16, u8, u32)> {
    host.port.regs.take();
    assert_eq!(finish(host, op).0, Step::Done, "{op:?}");
    let decode = |(offset, value): (u16, u32)| match offset {
        0x10 => {
            assert_eq!(value >> 30, 3);
            ((value >> 16 & 0x3fff) as u16 | 0xc000, (value >> 8) as u8, value & 0xff)
        }
        _ => (offset, 0, value),
    };
    host.port.regs.take().into_iter().map(decode).collect()
}

const STOP: [(u16, u8, u32); 3] = [(0xfd54, 0x44, 0x44), (0xfe2c, 0x80, 0x80), (0xfe34, 0x80, 0x80)];
const HALT: [(u16, u8, u32); 2] = [(0x04, 0, 0x1000_0000), (0x0c, 0, 0x1000_0000)];
const FORGET: [(u16, u8, u32); 1] = [(0x14, 0, 0xf000_0000)];
const ENABLE: [(u16, u8, u32); 1] = [(0x18, 0, 0x92c0_0000)];

fn clock(n: u32, divider: u32, cfg1: u32, phases: &[(u16, u8, u32)]) -> Vec<(u16, u8, u32)> {
    let before =
        [(0xfc02, 1, 1), (0xfc11, 0x80, 0), (0xfc0f, 0xff, n), (0xfc03, 0x70, divider), (0xfc11, 0x80, 0x80)];
    let after = [(0xfc02, 1, 0), (0xfd69, 4, 4), (0xfda0, 0xc0, cfg1), (0xfda5, 0xc0, 0x80)];
    [&before[..], phases, &after[..]].concat()
}

#[test]
fn power_comes_softly_and_goes() {
    let mut host = build(RtsxConfig::new(Chip::Rts5249));
    let selected = [
        (0xfd55, 4, 0),
        (0xfd69, 4, 0),
        (0xfda5, 0xc0, 0x40),
        (0xfd52, 0x0f, 4),
        (0xfd5c, 7, 2),
        (0xfda0, 0xcf, 0),
        (0xfda2, 1, 1),
        (0xfda6, 0x80, 0),
    ];
    let off = script(&mut host, BusOp::PowerOff);
    assert_eq!(off, [&HALT[..], &ENABLE, &STOP, &selected, &[(0xfd50, 3, 3)], &FORGET].concat());
    let on = script(&mut host, BusOp::PowerOn);
    let supply = [(0xfd50, 3, 1), (0xfd50, 3, 0), (0xfd55, 4, 4)];
    assert_eq!(on, [&HALT[..], &ENABLE, &STOP, &selected, &supply, &FORGET].concat());
    assert!(finish(&mut host, BusOp::PowerOn).1 >= 150_000);
}

#[test]
fn clocks_are_the_nearest_not_above() {
    // Mode, requested clock, PLL N, divider bits, CFG1 7:6; the clock is (N + 2) MHz / divider /
    // (2, or 1 at SD30) / slow.
    for (timing, hz, n, divider, cfg1) in [
        (Timing::Legacy, 400_000, 100, 0x10, 0x80),
        (Timing::Legacy, 25_000_000, 98, 0x20, 0),
        (Timing::HighSpeed, 50_000_000, 98, 0x10, 0),
        (Timing::Ddr50, 50_000_000, 98, 0x10, 0),
        (Timing::Sdr50, 100_000_000, 98, 0x10, 0),
        (Timing::Sdr104, 208_000_000, 206, 0x10, 0),
        (Timing::Sdr104, u32::MAX, 206, 0x10, 0),
        (Timing::Legacy, 40_040, 80, 0x40, 0x80),
    ] {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        assert_eq!(finish(&mut host, BusOp::Timing(timing)).0, Step::Done);
        let phases = [(0xfc2a, 0x5f, 26), (0xfc2a, 0x5f, 0x5a), (0xfc2b, 0x5f, 12), (0xfc2b, 0x5f, 0x4c)];
        let sd30 = matches!(timing, Timing::Sdr50 | Timing::Sdr104);
        let expected = clock(n, divider, cfg1, if sd30 { &phases } else { &[] });
        assert_eq!(script(&mut host, BusOp::Clock(hz)), expected, "{timing:?} {hz}");
    }
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    // For every mode and every requested clock: the clock is never faster, and the PLL stays within
    // its range.
    for (timing, half) in [(Timing::Legacy, 2), (Timing::Sdr104, 1)] {
        assert_eq!(finish(&mut host, BusOp::Timing(timing)).0, Step::Done);
        for hz in (0..64).map(|at| 40_040 * (1 << (at / 5)) + 7_919 * at).filter(|&hz| hz < 208_000_000) {
            let written = script(&mut host, BusOp::Clock(hz));
            let value = |register| written.iter().find(|(at, ..)| *at == register).unwrap().2;
            let n = value(0xfc0f);
            assert!((80..=208).contains(&n));
            let divider = 1 << ((value(0xfc03) >> 4) - 1);
            let slow = match written[written.len() - 2].2 {
                0 => 1,
                0x80 => 128,
                0xc0 => 256,
                other => panic!("{other:#x}"),
            };
            let result = u64::from(n + 2) * 1_000_000 / (half * divider * slow);
            assert!(result <= hz.into(), "{hz} became {result}");
            assert!(
                hz > 1_000_000 || result * 10 >= u64::from(hz) * 9 || result * 2 > hz.into(),
                "{hz}: {result}"
            );
        }
    }
    assert_eq!(finish(&mut host, BusOp::Clock(1_000)).0, Step::Failed);
    assert_eq!(script(&mut host, BusOp::Clock(0)), [(0xfda5, 0x40, 0x40)]);
    // The driver waits until the PLL is stable.
    assert!(finish(&mut host, BusOp::Clock(25_000_000)).1 >= 130_000);
}

#[test]
fn width_timing_voltage() {
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    assert_eq!(script(&mut host, BusOp::Width(Width::W4)), [(0xfda0, 3, 1)]);
    assert_eq!(script(&mut host, BusOp::Width(Width::W1)), [(0xfda0, 3, 0)]);
    assert_eq!(finish(&mut host, BusOp::Width(Width::W8)).0, Step::Failed);
    assert_eq!(script(&mut host, BusOp::Timing(Timing::Ddr50)), [(0xfda0, 0x0c, 4)]);
    assert_eq!(script(&mut host, BusOp::Timing(Timing::Sdr25)), [(0xfda0, 0x0c, 0)]);
    // The new mode does not halve the clock, which would double; so the driver sets the clock
    // again.
    let written = script(&mut host, BusOp::Timing(Timing::Sdr50));
    assert_eq!((written[0], written[3]), ((0xfda0, 0x0c, 8), (0xfc0f, 0xff, 98)));
    assert_eq!(written[4], (0xfc03, 0x70, 0x30));
    assert_eq!(finish(&mut host, BusOp::Timing(Timing::Hs200)).0, Step::Failed);
    assert_eq!(script(&mut host, BusOp::Signal18(true)), [(0xfda6, 0x80, 0x80)]);
    assert!(finish(&mut host, BusOp::Signal18(false)).1 >= 5_000_000);
    assert!(finish(&mut host, BusOp::Signal18(false)).1 < 1_000_000);

    let mut host = ready(RtsxConfig { signal18: false, ..RtsxConfig::new(Chip::Rts5249) });
    assert_eq!(finish(&mut host, BusOp::Signal18(true)).0, Step::Failed);
    assert_eq!(finish(&mut host, BusOp::Timing(Timing::Sdr50)).0, Step::Failed);
    assert_eq!(finish(&mut host, BusOp::Timing(Timing::HighSpeed)).0, Step::Done);
}

#[test]
fn resets_stop_everything_and_restore_the_bus() {
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    host.start(&data(18, Direction::Read, 512, 8), &[far(0x2000_0000, 4096)], 1).unwrap();
    assert_eq!(script(&mut host, BusOp::ResetLines), [&HALT[..], &STOP, &FORGET].concat());
    assert!(report(&mut host, LIST_OK | TABLE_OK).phase.is_none());
    for op in [BusOp::Timing(Timing::Sdr104), BusOp::Width(Width::W4), BusOp::Clock(208_000_000)] {
        assert_eq!(finish(&mut host, op).0, Step::Done);
    }
    host.bus.set_sample_phase(3);
    let phases = [(0xfc2a, 0x5f, 26), (0xfc2a, 0x5f, 0x5a), (0xfc2b, 0x5f, 3), (0xfc2b, 0x5f, 0x43)];
    let select = [(0xfd52, 0x0f, 4), (0xfd5c, 7, 2), (0xfda0, 0xcf, 9), (0xfda2, 1, 1), (0xfda6, 0x80, 0)];
    let clock = clock(206, 0x10, 0, &phases);
    // The longest script.
    assert_eq!(
        script(&mut host, BusOp::ResetAll),
        [&HALT[..], &ENABLE, &STOP, &select, &clock, &FORGET].concat()
    );
    let abort = script(&mut host, BusOp::TuneAbort);
    let fixed = [(0xfc2a, 0x5f, 26), (0xfc2a, 0x5f, 0x5a), (0xfc2b, 0x5f, 12), (0xfc2b, 0x5f, 0x4c)];
    let held = [&[(0xfc02, 1, 1)][..], &fixed, &[(0xfc02, 1, 0)]].concat();
    assert_eq!(abort, [&HALT[..], &STOP, &held, &FORGET].concat());
}

#[test]
fn no_call_blocks_and_every_operation_ends() {
    for op in [
        BusOp::PowerOff,
        BusOp::PowerOn,
        BusOp::Clock(25_000_000),
        BusOp::Clock(0),
        BusOp::Width(Width::W4),
        BusOp::Timing(Timing::Sdr50),
        BusOp::Signal18(true),
        BusOp::TuneStart,
        BusOp::TuneAbort,
        BusOp::ResetLines,
        BusOp::ResetAll,
    ] {
        // An access that needs many polls: one call makes only a few of them.
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        host.port.regs.slow.set(20);
        let mut first = true;
        let mut now = 0;
        let end = (0..10_000).find_map(|_| {
            host.port.regs.take();
            let step = host.set_bus(op, first, now);
            assert!(host.port.regs.reads.get() <= 16 * 8, "{op:?}");
            first = false;
            match step {
                Step::Wait(until) => {
                    assert!(until >= now);
                    // While an operation is in progress, no phase starts.
                    assert_eq!(host.start(&command(13, Resp::R1), &[], 1), Err(StartError::CommandLine));
                    now = until;
                    None
                }
                step => Some(step),
            }
        });
        assert_eq!(end, Some(Step::Done), "{op:?}");
        // An access that never ends, a lost write, and a chip that is gone: the operation fails
        // soon.
        for break_it in [
            |fake: &Fake| fake.slow.set(u32::MAX),
            |fake: &Fake| fake.left.set(u32::MAX),
            |fake: &Fake| fake.gone.set(true),
        ] {
            let mut host = ready(RtsxConfig::new(Chip::Rts5249));
            break_it(&host.port.regs);
            let (step, took_ns) = finish(&mut host, op);
            assert_eq!(step, Step::Failed, "{op:?}");
            assert!(took_ns <= 20_000_000, "{op:?}: {took_ns}");
        }
    }
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    host.port.regs.broken.set(true);
    assert_eq!(finish(&mut host, BusOp::Width(Width::W4)).0, Step::Failed);
}

#[test]
fn a_clock_that_runs_between_transfers_is_stopped_by_the_next_list() {
    for (ops, stops) in [
        (&[][..], false),
        (&[BusOp::Clock(25_000_000)], true),
        (&[BusOp::Clock(25_000_000), BusOp::Width(Width::W4), BusOp::ResetLines], true),
        (&[BusOp::ResetLines], false),
        (&[BusOp::ResetAll], true),
        (&[BusOp::Timing(Timing::HighSpeed)], false),
        (&[BusOp::Timing(Timing::Sdr50)], true),
        (&[BusOp::Clock(25_000_000), BusOp::PowerOff], false),
        (&[BusOp::TuneStart, BusOp::TuneAbort], false),
    ] {
        let mut host = ready(RtsxConfig::new(Chip::Rts5249));
        for &op in ops {
            assert_eq!(finish(&mut host, op).0, Step::Done);
        }
        host.start(&command(0, Resp::None), &[], 1).unwrap();
        assert_eq!(host.dma.list()[0] == 0x7da5_8000, stops, "{ops:?}");
        assert!(report(&mut host, LIST_OK).phase.unwrap().is_ok());
        host.start(&command(0, Resp::None), &[], 1).unwrap();
        assert_eq!(host.dma.list()[0], 0x7da9_ff40);
    }
}

/// Tests a call that is held up between the reading of the clock and the write of a register: the
/// pause after the write is not shorter for that.
#[test]
fn a_pause_begins_after_the_write() {
    let mut host = build(RtsxConfig::new(Chip::Rts5249));
    let mut now = 0;
    // Up to the pause of the soft start, for which the driver wants no time to pass before the next
    // call.
    for call in 0..100 {
        assert_eq!(host.set_bus(BusOp::PowerOn, call == 0, now), Step::Wait(now));
        if host.port.regs.get(0xfd50) & 3 == 1 {
            break;
        }
    }
    now += 10_000_000;
    assert_eq!(host.set_bus(BusOp::PowerOn, false, now), Step::Wait(now + 150_000));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, now + 149_999), Step::Wait(now + 150_000));
    assert_ne!(host.set_bus(BusOp::PowerOn, false, now + 150_000), Step::Wait(now + 150_000));
}

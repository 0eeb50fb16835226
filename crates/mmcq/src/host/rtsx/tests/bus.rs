//! Tests of bus operations: their scripts and their time limits.

use super::*;

/// Returns the register writes of an operation: writes by HAIMR as (register, mask, value), other
/// registers as (offset, 0, value).
fn script(host: &mut Driver, op: BusOp) -> Vec<(u16, u8, u32)> {
    host.port.regs.take();
    assert_eq!(finish(host, op).0, Step::Done, "{op:?}");
    let decode = |(offset, value): (u16, u32)| match offset {
        0x10 => ((value >> 16 & 0x3fff) as u16 | 0xc000, (value >> 8) as u8, value & 0xff),
        _ => (offset, 0, value),
    };
    let writes = host.port.regs.take().into_iter().filter(|&(at, value)| at != 0x10 || value >> 30 == 3);
    writes.map(decode).collect()
}

/// Returns the writes that change a register of the link to this value.
fn link(address: u8, value: u16) -> [(u16, u8, u32); 5] {
    let [low, high] = value.to_le_bytes().map(u32::from);
    [
        (0xfe3f, 0xff, address.into()),
        (0xfe3c, 0xff, 0x80),
        (0xfe3d, 0xff, low),
        (0xfe3e, 0xff, high),
        (0xfe3c, 0xff, 0x81),
    ]
}

/// Returns the writes of the drive strength of clock, CMD and DAT.
fn drive(value: u32) -> [(u16, u8, u32); 3] {
    [0xfd5a, 0xfd5e, 0xfd5f].map(|at| (at, 0xff, value))
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

/// Returns the writes of the phases of sending and sampling.
fn phases(send: u32, sample: u32) -> [(u16, u8, u32); 4] {
    [(0xfc2a, 0x5f, send), (0xfc2a, 0x5f, send | 0x40), (0xfc2b, 0x5f, sample), (0xfc2b, 0x5f, sample | 0x40)]
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
    ];
    let pulls = |clock, dat, cmd| {
        [(0xfd60, 0xff, clock), (0xfd63, 0xff, dat), (0xfd62, 0xff, cmd), (0xfd61, 0xff, dat)]
    };
    let off = script(&mut host, BusOp::PowerOff);
    let supply = [&[(0xfd50, 3, 3), (0xfe75, 6, 0)][..], &pulls(0x66, 0x55, 0xd5)].concat();
    assert_eq!(off, [&HALT[..], &ENABLE, &STOP, &selected, &supply, &FORGET].concat());
    host.port.regs.link.borrow_mut().insert(8, 0x4ca4);
    // The longest script.
    let on = script(&mut host, BusOp::PowerOn);
    let supply = [(0xfd50, 3, 2), (0xfe75, 6, 2), (0xfd50, 3, 0), (0xfe75, 6, 6), (0xfd55, 4, 4)];
    let pads = [&link(8, 0x4fe4)[..], &drive(0x96), &pulls(0x66, 0xaa, 0xe9)].concat();
    assert_eq!(on, [&HALT[..], &ENABLE, &STOP, &selected, &pads, &supply, &FORGET].concat());
    assert!(finish(&mut host, BusOp::PowerOn).1 >= 5_000_000);
}

/// Tests what each chip needs for its supply: the values for partial and full supply of the card
/// and of the pads, the pause between them, and the pull-ups.
#[test]
fn each_chip_has_its_own_supply() {
    let common = |cmd| vec![(0xfd62, 0xff, cmd), (0xfd61, 0xff, 0xaa)];
    let later = [&[(0xfd60, 0xff, 0x66), (0xfd63, 0xff, 0xaa)][..], &common(0xe9)].concat();
    let cases = [
        (Chip::Rts5209, 0, 1, [4, 0], 150_000, [&[(0xfd60, 0xff, 0xaa)][..], &common(0xe9)].concat()),
        (Chip::Rts5229, 0, 1, [2, 6], 150_000, common(0xe9)),
        (Chip::Rts5229, 0x12, 1, [2, 6], 150_000, common(0xd9)),
        (Chip::Rts5227, 2, 1, [2, 6], 20_000_000, common(0xe9)),
        (Chip::Rts522a, 0, 1, [2, 6], 20_000_000, common(0xe9)),
        (Chip::Rts5249, 0, 2, [2, 6], 5_000_000, later.clone()),
        (Chip::Rts524a, 0, 2, [2, 6], 5_000_000, later.clone()),
        (Chip::Rts525a, 0, 2, [2, 6], 5_000_000, [&later[..], &[(0xff73, 7, 7)]].concat()),
    ];
    for (chip, version, partial, [half, full], pause_ns, pads) in cases {
        let mut host = build(RtsxConfig::new(chip));
        host.port.regs.set(0xfe90, version);
        let written = script(&mut host, BusOp::PowerOn);
        let supply =
            [(0xfd50, 3, partial), (0xfe75, 6, half), (0xfd50, 3, 0), (0xfe75, 6, full), (0xfd55, 4, 4)];
        let expected = [&pads[..], &supply, &FORGET].concat();
        assert_eq!(written[written.len() - expected.len()..], expected, "{chip:?}");
        let took_ns = finish(&mut host, BusOp::PowerOn).1;
        assert!((pause_ns..pause_ns + 1_000_000).contains(&took_ns), "{chip:?}: {took_ns}");
        let off = script(&mut host, BusOp::PowerOff);
        assert!(off.contains(&(0xfe75, 6, if chip == Chip::Rts5209 { 6 } else { 0 })), "{chip:?}");
    }
}

/// Tests by which registers each chip changes the voltage and the drive strength of its pads.
#[test]
fn each_chip_has_its_own_voltage_switch() {
    let whole = |address, value| link(address, value).to_vec();
    let old = |value, strength| [&whole(8, value)[..], &[(0xfd5e, 7, strength)]].concat();
    let cases = [
        (Chip::Rts5209, old(0x4c64, 3), old(0x4fe4, 1)),
        (Chip::Rts5229, old(0x4c64, 3), old(0x4fe4, 1)),
        (Chip::Rts5227, [whole(0x11, 0x3c02), whole(8, 0x4ca4)].concat(), whole(8, 0x4fe4)),
        (Chip::Rts522a, [whole(0x11, 0x3c02), whole(8, 0x54a4)].concat(), whole(8, 0x57e4)),
        // These two keep the other bits of the link's registers.
        (Chip::Rts5249, [whole(0x11, 0xabc2), whole(8, 0x10a5)].concat(), whole(8, 0x13e5)),
        (Chip::Rts524a, whole(8, 0x1125), whole(8, 0x13e5)),
        (Chip::Rts525a, vec![(0xff71, 7, 2), (0xfda6, 0x80, 0x80)], vec![(0xff71, 7, 7), (0xfda6, 0x80, 0)]),
    ];
    for (chip, low, high) in cases {
        let mut host = ready(RtsxConfig::new(chip));
        host.port.regs.link.borrow_mut().extend([(8, 0x13e5), (0x11, 0xabce)]);
        for (on, mut expected) in [(true, low), (false, high)] {
            if !matches!(chip, Chip::Rts5209 | Chip::Rts5229) {
                expected.extend(drive(if on { 0xb3 } else { 0x96 }));
            }
            assert_eq!(script(&mut host, BusOp::Signal18(on)), expected, "{chip:?} {on}");
            assert_eq!(host.bus.is_uhs(), on);
        }
    }
    let mut host = ready(RtsxConfig::new(Chip::Rts5249));
    host.port.regs.link_hangs.set(true);
    assert_eq!(finish(&mut host, BusOp::Signal18(true)).0, Step::Failed);
}

/// Tests the phases before tuning: those of chip and timing, unless the board has its own.
#[test]
fn each_chip_has_its_own_phases() {
    for (chip, sdr50, sdr104) in [
        (Chip::Rts5209, (27, 6), (27, 24)),
        (Chip::Rts5227, (27, 7), (27, 30)),
        (Chip::Rts522a, (20, 7), (20, 30)),
        (Chip::Rts5229, (27, 6), (27, 30)),
        (Chip::Rts5249, (29, 6), (1, 24)),
        (Chip::Rts524a, (29, 6), (27, 24)),
        (Chip::Rts525a, (29, 6), (25, 24)),
    ] {
        let config = RtsxConfig::new(chip);
        assert_eq!(
            (config.phases(Timing::Sdr50), config.phases(Timing::Sdr104)),
            (sdr50, sdr104),
            "{chip:?}"
        );
        let board = config.send_phase(Some(3)).sample_phase(Some(0x24));
        assert_eq!(board.phases(Timing::Sdr104), (3, 4));
    }
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
        let (send, sample) = if timing == Timing::Sdr50 { (29, 6) } else { (1, 24) };
        let sd30 = matches!(timing, Timing::Sdr50 | Timing::Sdr104);
        let set = phases(send, sample);
        let expected = clock(n, divider, cfg1, if sd30 { &set } else { &[] });
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
    assert!(finish(&mut host, BusOp::Signal18(true)).1 >= 5_000_000);
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
    let select = [(0xfd52, 0x0f, 4), (0xfd5c, 7, 2), (0xfda0, 0xcf, 9), (0xfda2, 1, 1)];
    let clock = clock(206, 0x10, 0, &phases(1, 3));
    assert_eq!(
        script(&mut host, BusOp::ResetAll),
        [&HALT[..], &ENABLE, &STOP, &select, &clock, &FORGET].concat()
    );
    let abort = script(&mut host, BusOp::TuneAbort);
    let held = [&[(0xfc02, 1, 1)][..], &phases(1, 24), &[(0xfc02, 1, 0)]].concat();
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
    let mut host = build(RtsxConfig::new(Chip::Rts525a));
    let mut now = 0;
    // Up to the pause of the soft start, for which the driver wants no time to pass before the next
    // call.
    for call in 0..100 {
        assert_eq!(host.set_bus(BusOp::PowerOn, call == 0, now), Step::Wait(now));
        if host.port.regs.get(0xfe75) & 6 == 2 {
            break;
        }
    }
    now += 10_000_000;
    assert_eq!(host.set_bus(BusOp::PowerOn, false, now), Step::Wait(now + 5_000_000));
    assert_eq!(host.set_bus(BusOp::PowerOn, false, now + 4_999_999), Step::Wait(now + 5_000_000));
    assert_ne!(host.set_bus(BusOp::PowerOn, false, now + 5_000_000), Step::Wait(now + 5_000_000));
}

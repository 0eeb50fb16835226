//! Tests of a controller before its first use, and of an address without a controller.

use super::*;

fn looks_and_writes_nothing<L: MshcLayout>() {
    let host = build::<L>(Fake::new::<L>(), MshcConfig::new(SOURCE_HZ)).unwrap();
    assert!(host.regs.take_log().is_empty());
    let caps = host.caps();
    assert_eq!((caps.clock_hz, caps.max_segments, caps.max_bytes), ((98_040, 25_000_000), 4, 16_384));
    assert!(caps.auto_stop && !caps.auto_count && !caps.can(Timing::HighSpeed));
    assert_eq!(caps.fixed, !L::DESIGN_WARE);
}

fn all_ones_are_no_controller<L: MshcLayout>() {
    let fake = Fake::new::<L>();
    fake.gone.set(true);
    let error = build::<L>(fake, MshcConfig::new(SOURCE_HZ)).err().unwrap();
    assert_eq!(error, MshcInitError::Gone);
    assert_eq!(std::format!("{error}"), "mshc: registers read as all ones, expected a controller");
}

fn what_a_board_must_not_say_is_refused<L: MshcLayout>() {
    let with = |config| build::<L>(Fake::new::<L>(), config).err();
    let config = MshcConfig::new(SOURCE_HZ);
    assert!(matches!(with(MshcConfig::new(0)), Some(MshcInitError::Clock { source_hz: 0, .. })));
    assert!(matches!(with(config.max_clock_hz(90_000)), Some(MshcInitError::Clock { .. })));
    assert_eq!(with(config.descriptor_bytes(1000)), Some(MshcInitError::Descriptor(1000)));
    assert_eq!(with(config.descriptor_bytes(65_536)), Some(MshcInitError::Descriptor(65_536)));
    assert_eq!(with(config.address_shift(1)), Some(MshcInitError::Shift(1)));
    assert_eq!(with(config.address_shift(2)), None);
    assert_eq!(with(config.fifo_words(Some(3))), Some(MshcInitError::Fifo(3)));
}

/// Tests that each timing needs the corresponding setting of the board.
fn a_board_says_how_fast_it_is<L: MshcLayout>() {
    let timings = |config: MshcConfig, taps| {
        let config = config.high_speed(true).max_clock_hz(208_000_000);
        let host = build_on::<L>(Fake::new::<L>(), config, 1, taps).unwrap();
        let all = [Timing::Sdr12, Timing::Ddr50, Timing::Ddr52, Timing::Sdr50, Timing::Sdr104, Timing::Hs200];
        all.map(|timing| u8::from(host.caps().can(timing)))
    };
    let config = MshcConfig::new(208_000_000);
    assert_eq!(timings(config, 8), [0, 0, 0, 0, 0, 0]);
    assert_eq!(timings(config.ddr(true), 8), [0, 0, 1, 0, 0, 0]);
    assert_eq!(timings(config.ddr(true).signal18(true), 0), [1, 1, 1, 0, 0, 0]);
    assert_eq!(timings(config.signal18(true), 8), [1, 0, 0, 1, 1, 1]);
    assert_eq!(timings(config.signal18_fixed(true), 8), [0, 0, 0, 0, 0, 1]);
    // Only an SMHC has the delay line.
    let hs200 = u8::from(!L::DESIGN_WARE);
    assert_eq!(timings(config.signal18_fixed(true).sample_delay(true), 0), [0, 0, 0, 0, 0, hs200]);
    // With this source, DDR at half the clock is no faster than one edge at the full clock.
    assert_eq!(timings(MshcConfig::new(52_000_000).ddr(true).signal18(true), 0), [1, 0, 0, 0, 0, 0]);
}

/// Tests that the alignment which the driver declares is the one which it requires.
fn a_cache_line_is_the_alignment_of_memory<L: MshcLayout>() {
    for (line, align) in [(1, 4), (64, 64)] {
        let mut host = build_with::<L>(Fake::new::<L>(), MshcConfig::new(SOURCE_HZ), line).unwrap();
        assert_eq!(host.caps().align, align);
        let mut segment = Segment {
            ptr: NonNull::without_provenance(core::num::NonZero::new(0x1004).unwrap()),
            len: 512,
            bus: 0,
        };
        assert_eq!(host.map(&mut segment, Direction::Read).is_ok(), align == 4);
    }
}

in_both_layouts!(
    looks_and_writes_nothing,
    a_cache_line_is_the_alignment_of_memory,
    all_ones_are_no_controller,
    what_a_board_must_not_say_is_refused,
    a_board_says_how_fast_it_is,
);

#[test]
fn design_ware_says_how_it_was_built() {
    let with = |offset, value, config| {
        let fake = Fake::new::<DesignWareLayout>();
        fake.set(offset, value);
        build::<DesignWareLayout>(fake, config)
    };
    let config = MshcConfig::new(SOURCE_HZ);
    for hcon in [0, 2 << HARDWARE_FIFO_SHIFT, 3 << 16 | 1 << 7, 1 << 27 | 1 << 7] {
        assert_eq!(with(DW_HARDWARE, hcon, config).err(), Some(MshcInitError::Hardware(hcon)));
    }
    let threshold = DesignWareLayout::AT.threshold;
    assert_eq!(with(threshold, 0, config).err(), Some(MshcInitError::Fifo(1)));
    let host = with(threshold, 0, config.fifo_words(Some(64))).unwrap();
    assert_eq!((host.fifo.threshold, host.fifo.offset), (0x201f_0020, 0x200));
    assert_eq!(with(DW_VERSION, 0x5342_230a, config).unwrap().fifo.offset, 0x100);
    let host = with(DW_NO_CARD, 1, config).unwrap();
    assert!(!host.present() && !host.write_protected());
    assert!(with(DW_NO_CARD, 1, config.fixed(true)).unwrap().present());
    assert!(with(DW_PROTECTED, 1, config).unwrap().write_protected());
}

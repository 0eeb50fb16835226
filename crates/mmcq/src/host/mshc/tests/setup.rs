//! Before a controller works, and where there is none.

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
}

in_both_layouts!(looks_and_writes_nothing, all_ones_are_no_controller, what_a_board_must_not_say_is_refused);

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
    assert_eq!((host.threshold, host.fifo), (0x201f_0020, 0x200));
    assert_eq!(with(DW_VERSION, 0x5342_230a, config).unwrap().fifo, 0x100);
    let host = with(DW_NO_CARD, 1, config).unwrap();
    assert!(!host.present() && !host.write_protected());
    assert!(with(DW_NO_CARD, 1, config.fixed(true)).unwrap().present());
    assert!(with(DW_PROTECTED, 1, config).unwrap().write_protected());
}

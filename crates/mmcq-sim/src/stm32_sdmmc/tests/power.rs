//! Tests of power states and the clock.

use super::*;

#[test]
fn reset_values_are_zero_and_only_words_are_registers() {
    let mut rig = Rig::cold(Stm32SdmmcConfig::H7);
    for offset in (0..=0x40).chain(0x50..=0x5c).filter(|offset| offset % 4 == 0) {
        // [58.10]: the reset value of each register.
        assert_eq!(rig.r(offset), 0, "{offset:#x}");
    }
    assert_eq!(rig.violations(), 0);
    // [58.10]: accesses of 1 or 2 bytes are a bus error.
    assert_eq!((rig.host.read(CLKCR, 2, rig.now), rig.host.read(CLKCR, 1, rig.now)), (0xffff, 0xff));
    rig.host.write(CLKCR, 1, 1, rig.now);
    assert_eq!((rig.violations(), rig.r(CLKCR)), (3, 0));
    // Only version 3 has the threshold [stm32-data, sdmmc_v3]; an H7 has no linked list.
    assert_eq!((rig.r(FIFOTHR), rig.r(IDMALAR), rig.violations()), (0, 0, 5));
    let mut rig = Rig::cold(Stm32SdmmcConfig::N6);
    rig.w(FIFOTHR, 0xff);
    rig.w(IDMABSIZE, u32::MAX);
    rig.w(IDMALAR, u32::MAX);
    rig.w(IDMABAR, u32::MAX);
    assert_eq!((rig.r(FIFOTHR), rig.r(IDMABSIZE)), (0xf, 0x1_ffc0));
    assert_eq!((rig.r(IDMALAR), rig.r(IDMABAR), rig.violations()), (0xe000_fffc, 0xffff_fffc, 0));
    assert_eq!((rig.r(IDMABASE1), rig.violations()), (0, 1));
}

#[test]
fn the_clock_runs_in_the_power_on_state_alone() {
    let mut rig = Rig::cold(Stm32SdmmcConfig::H7);
    rig.w(CLKCR, 250);
    let hz = |rig: &Rig| rig.host.bus().clock_hz;
    // [58.10.1]: the states off, power-cycle and on; 01 changes nothing.
    assert_eq!((hz(&rig), rig.host.bus().powered), (0, true));
    rig.w(POWER, 2);
    rig.w(POWER, 1);
    assert_eq!((rig.r(POWER), hz(&rig), rig.violations()), (2, 0, 1));
    rig.w(POWER, 3);
    assert_eq!((rig.r(POWER), hz(&rig)), (3, 400_000));
    // [58.10.1]: the power-on state lasts until a reset.
    rig.w(POWER, 0);
    assert_eq!((rig.r(POWER), hz(&rig), rig.violations()), (3, 400_000, 2));
    rig.host.reset(rig.now);
    assert_eq!((rig.r(POWER), rig.r(CLKCR), hz(&rig)), (0, 0, 0));
    // The bit DIRPOL can be changed only in the power-off state [58.10.1].
    rig.w(POWER, 1 << 4);
    rig.w(POWER, 1 << 4 | 3);
    rig.w(POWER, 3);
    assert_eq!((rig.r(POWER), rig.violations()), (1 << 4 | 3, 3));
}

#[test]
fn a_divider_of_zero_passes_the_kernel_clock_and_others_halve() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    // [58.10.2]: a divider of 0 passes the kernel clock; other values divide by twice the value.
    for (divider, hz) in [(0, 200_000_000), (1, 100_000_000), (2, 50_000_000), (0x3ff, 97_751)] {
        rig.w(CLKCR, divider);
        assert_eq!(rig.host.bus().clock_hz, hz, "{divider}");
    }
    for (bits, width) in [(0, 1), (1, 4), (2, 8)] {
        rig.w(CLKCR, 4 | bits << 14);
        assert_eq!((rig.host.bus().width, rig.host.bus().ddr), (width, false));
    }
    assert_eq!(rig.violations(), 0);
    rig.w(CLKCR, 4 | 2 << 14 | 1 << 18);
    assert!(rig.host.bus().ddr);
    // [58.10.2]: DDR is impossible with one line or an undivided clock; width 11 is reserved.
    for value in [4 | 1 << 18, 1 << 14 | 1 << 18, 4 | 3 << 14] {
        let before = rig.violations();
        rig.w(CLKCR, value);
        assert_eq!(rig.violations(), before + 1, "{value:#x}");
    }
}

#[test]
fn clock_and_timer_are_refused_while_a_path_is_active() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.start(SHORT | 13, 0);
    // [58.10.2, 58.10.7]: these registers can be written only while both paths are inactive;
    // [58.10.3]: so can the argument.
    rig.w(CLKCR, 1);
    rig.w(DTIMER, 5);
    rig.w(ARG, 7);
    assert_eq!((rig.r(CLKCR), rig.r(DTIMER), rig.r(ARG)), (SLOW, u32::MAX, 0));
    assert_eq!(rig.violations(), 3);
    rig.until(CMDREND);
    rig.w(CLKCR, 1);
    assert_eq!((rig.r(CLKCR), rig.violations()), (1, 3));
}

#[test]
fn commands_wait_for_the_first_74_clocks() {
    let mut rig = Rig::cold(Stm32SdmmcConfig::H7);
    rig.w(CLKCR, 250);
    rig.w(POWER, 3);
    let on = rig.now;
    rig.start(0, 0);
    assert_eq!(rig.r(STA), CPSMACT);
    // [58.6.7]: commands are sent after 74 clocks; 48 clocks are the command's own. Embassy writes
    // the command at once, and polls until it is sent.
    rig.until(CMDSENT);
    assert_eq!(rig.now - on, (74 + 48) * 2_500);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn without_a_kernel_clock_a_command_stays() {
    let mut rig = Rig::warm(Stm32SdmmcConfig { kernel_hz: 0, ..Stm32SdmmcConfig::H7 }, 0);
    rig.start(SHORT | 13, 0);
    rig.now += 1_000_000_000;
    assert_eq!((rig.r(STA), rig.host.next_event_ns()), (CPSMACT, None));
    rig.host.reset(rig.now);
    assert_eq!(rig.r(STA), 0);
}

#[test]
fn without_the_clock_of_its_bus_everything_reads_as_ones() {
    let mut rig = Rig::warm(Stm32SdmmcConfig { bus_clock: false, ..Stm32SdmmcConfig::H7 }, 0);
    assert_eq!((rig.r(STA), rig.r(POWER), rig.host.irq()), (u32::MAX, u32::MAX, false));
    assert_eq!(rig.host.bus().clock_hz, 0);
}

#[test]
fn power_save_stops_the_clock_after_eight_clocks_of_rest() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 1 << 12);
    // [58.5.4]: power save stops the clock after eight idle clocks.
    rig.now += 799;
    rig.r(STA);
    rig.command(13, 0);
    let end = rig.now;
    assert_eq!(rig.host.bus().clock_hz, 10_000_000);
    rig.now = end + 799;
    rig.r(STA);
    assert_eq!(rig.host.bus().clock_hz, 10_000_000);
    rig.now = end + 800;
    rig.r(STA);
    assert_eq!(rig.host.bus().clock_hz, 0);
    // The next command starts the clock again.
    rig.now += 1_000_000;
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.host.bus().clock_hz, 10_000_000);
    rig.until(CMDREND);
}

#[test]
fn parameters_that_no_controller_has_are_refused_in_one_line() {
    let refused = |config: Stm32SdmmcConfig| config.check().unwrap_err();
    let good = Stm32SdmmcConfig::H7;
    for (config, text) in [
        (Stm32SdmmcConfig { kernel_hz: 5, ..good }, "stm32_sdmmc: kernel_hz = 5: expected 0, or 1000000"),
        (Stm32SdmmcConfig { size_mask: 1, ..good }, "stm32_sdmmc: size_mask = 0x1: expected 0x1fe0"),
        (Stm32SdmmcConfig { window: Some([2, 1]), ..good }, "stm32_sdmmc: window = [2, 1]: expected"),
        (Stm32SdmmcConfig { best_phase: 12, ..good }, "stm32_sdmmc: best_phase = 12: expected 0 to 11"),
    ] {
        assert!(refused(config).starts_with(text), "{}", refused(config));
    }
    assert_eq!(Stm32SdmmcConfig::N6.check(), Ok(()));
}

//! Tests of the sampling point, of double data rate, and of what a fast clock does not tolerate.

use super::*;

/// Makes a test bench with power and a clock that this divider divides.
fn fast(config: MshcConfig, divider: u32) -> Rig {
    let mut rig = Rig::warm(config);
    rig.clock(false, divider);
    rig.clock(true, divider);
    rig
}

#[test]
fn a_phase_is_as_wrong_as_it_is_far() {
    let mut rig = fast(MshcConfig { best_phase: 350, ..MshcConfig::RK3399 }, 0);
    for (phase, error) in [(350, 0), (0, 5), (170, 100), (80, 50), (260, 50)] {
        rig.host.set_phase(phase, rig.now);
        assert_eq!(rig.host.bus().sample_error, error, "{phase}");
    }
    // At a slow clock every sampling point works.
    rig.clock(false, 2);
    rig.clock(true, 2);
    assert_eq!((rig.host.bus().clock_hz, rig.host.bus().sample_error), (50_000_000, 0));
}

#[test]
fn a_delay_is_a_part_of_the_clocks_period() {
    let mut rig = fast(MshcConfig { best_phase: 180, ..MshcConfig::A64 }, 0);
    assert_eq!(rig.host.bus().sample_error, 100);
    // 31 steps of 80 ps are half of 5 ns. Without bit 7 the steps have no effect.
    for (delay, error) in [(31, 100), (1 << 7 | 31, 1), (1 << 7 | 62, 98), (1 << 7, 100)] {
        rig.w(0x144, delay);
        assert_eq!(rig.host.bus().sample_error, error, "{delay:#x}");
    }
    assert_eq!(rig.violations(), 0);
    // An H3 has no delay line.
    let mut rig = Rig::warm(MshcConfig::H3);
    rig.w(0x144, 1 << 7);
    assert_eq!(rig.violations(), 1);
}

#[test]
fn both_edges_take_twice_the_clock_where_they_do() {
    for (config, width, divider, new_timing, wrong) in [
        (MshcConfig::H3, 1, 0, false, 0),
        (MshcConfig::H3, 1, 0, true, 1),
        (MshcConfig::H3, 1, 1, true, 0),
        (MshcConfig { lines: 8, ..MshcConfig::H3 }, 2, 0, false, 1),
        (MshcConfig { lines: 8, ..MshcConfig::H3 }, 2, 1, false, 0),
        (MshcConfig::PCI, 1, 0, false, 0),
        (MshcConfig::PCI, 1 << 16, 0, false, 1),
        (MshcConfig::PCI, 1 << 16, 1, false, 0),
    ] {
        let mut rig = fast(config, divider);
        rig.w(rig.at.width, width);
        rig.by_cpu(1);
        let control = rig.r(CONTROL);
        if rig.smhc() {
            rig.w(0x5c, u32::from(new_timing) << 31);
            rig.w(CONTROL, control | 1 << 10);
        } else {
            rig.w(0x74, 1 << 16);
        }
        assert!(rig.host.bus().ddr);
        rig.start(READ | 17, 0);
        rig.now += 1_000;
        rig.r(rig.at.status);
        assert_eq!(rig.violations(), wrong, "{config:?} {width:#x} {divider} {new_timing}");
    }
}

/// Checks a late CPU: at 100 MHz a block is lost if the clock stops inside it, unless the block
/// waits for room before it starts.
#[test]
fn a_fast_block_does_not_stand_in_its_middle() {
    for config in [MshcConfig::A64, MshcConfig::RK3399] {
        for (words, waits, good) in [(256, 0, true), (128, 0, false), (128, 512 << 16 | 1, true)] {
            let mut rig = fast(MshcConfig { fifo_words: words, ..config }, 1);
            rig.w(0x100, waits);
            rig.by_cpu(2);
            rig.start(READ | 18, 0);
            // A FIFO of 256 words holds two blocks. With 128 words the second block waits, or is
            // lost.
            rig.now += 1_000_000;
            rig.host.advance(rig.now);
            assert_eq!(rig.raw() & OVER != 0, words == 256);
            let mut got = Vec::new();
            while got.len() < 1024 {
                if rig.r(rig.at.status) & 1 << 2 == 0 {
                    got.extend(rig.r(FIFO).to_le_bytes());
                } else {
                    rig.step();
                }
            }
            let raw = rig.until(OVER);
            assert_eq!(raw & DCRC == 0, good, "{words} {waits:#x}");
            assert_eq!(rig.violations(), 0);
        }
    }
}

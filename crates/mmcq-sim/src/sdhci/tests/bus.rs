//! Tests of what the card sees of the host's settings: power, clock, width, voltage, tuning, card
//! detection.

use super::rig::*;
use crate::card::BusState;
use crate::faults::{Point, Strike};
use crate::sdhci::{BusEvent, Port, Sdhci, SdhciConfig, bits::int};
use crate::slot::Controller;
use crate::time::Time;
use mmcq::host::Regs;
use std::cell::RefCell;
use std::rc::Rc;

fn seen(rig: &Rig) -> BusState {
    rig.card.0.borrow().bus
}

#[test]
fn constants_read_as_configured_and_ignore_writes() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
    let c = SdhciConfig::GENERIC_4_20;
    rig.w32(0x40, 0);
    rig.w32(0x60, 0);
    rig.w32(0xfc, 0);
    assert_eq!(
        (rig.r32(0x40), rig.r32(0x44), rig.r32(0x48)),
        (c.capabilities, c.capabilities1, c.max_current)
    );
    assert_eq!((rig.r16(0x60), rig.r16(0x6e), rig.r16(0xfe)), (c.presets[0], c.presets[7], 5));
    assert_eq!(rig.r32(0x24), 0x01ff_0000, "inserted, stable, detect, writable, all lines high");
}

#[test]
fn accesses_of_every_width_reach_the_same_bytes() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
    rig.w32(0x08, 0x1122_3344);
    assert_eq!((rig.r8(0x09), rig.r16(0x0a), rig.r32(0x08)), (0x33, 0x1122, 0x1122_3344));
    rig.w8(0x0b, 0xaa);
    rig.w16(0x08, 0x5566);
    assert_eq!(rig.r32(0x08), 0xaa22_5566);
    rig.w32(0x04, 0x0009_f200);
    assert_eq!((rig.r16(0x04), rig.r16(0x06)), (0x7200, 9));
    assert_eq!(rig.host.protocol_violations(), 0);
    rig.r16(0x05);
    rig.w32(0x06, 0);
    rig.host.read(0x08, 3, rig.now);
    rig.r32(0x100);
    assert_eq!(rig.host.protocol_violations(), 4);
}

#[test]
fn a_reset_takes_the_card_its_power_unless_that_comes_from_elsewhere() {
    for always_powered in [false, true] {
        let mut rig = Rig::warm(SdhciConfig { always_powered, ..SdhciConfig::GENERIC_4_20 });
        rig.w8(0x2f, 1);
        let bus = seen(&rig);
        assert_eq!((bus.powered, bus.clock_hz), (always_powered, 0));
        assert_eq!(rig.r8(0x29), 0, "the register is reset either way");
    }
}

#[test]
fn a_fixed_vccq_stays_whatever_the_driver_asks_for() {
    for signal18_fixed in [false, true] {
        let config = SdhciConfig { always_powered: true, signal18_fixed, ..SdhciConfig::GENERIC_4_20 };
        let mut rig = Rig::warm(config);
        rig.w16(0x3e, 8);
        rig.run(5_000_000);
        assert_eq!((rig.r16(0x3e), seen(&rig).signal18), (8, true));
        rig.w16(0x3e, 0);
        assert_eq!((rig.r16(0x3e), seen(&rig).signal18), (0, signal18_fixed));
        rig.w16(0x3e, 8);
        rig.run(5_000_000);
        rig.w8(0x2f, 1);
        rig.run(1_000_000);
        assert_eq!((rig.r16(0x3e), seen(&rig).signal18), (0, signal18_fixed), "after a reset of everything");
    }
}

#[test]
fn power_control_drives_the_reset_line_where_the_controller_has_one() {
    for reset_line in [false, true] {
        let mut rig = Rig::warm(SdhciConfig { reset_line, ..SdhciConfig::GENERIC_4_20 });
        let power = rig.r8(0x29);
        rig.w8(0x29, power | 0x10);
        assert_eq!((seen(&rig).reset, seen(&rig).powered), (reset_line, true));
        rig.w8(0x29, power);
        assert!(!seen(&rig).reset);
        assert_eq!(rig.host.protocol_violations(), 0);
    }
}

#[test]
fn the_clock_needs_its_enables_and_its_time() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
    rig.w8(0x29, 0x0f);
    assert!(seen(&rig).powered);
    // The divider 2 * 250 makes 400 kHz.
    rig.w16(0x2c, 0xfa01);
    assert_eq!(rig.r16(0x2c) & 2, 0);
    rig.run(19_999);
    assert_eq!(rig.r16(0x2c) & 2, 0);
    rig.run(1);
    assert_eq!(rig.r16(0x2c), 0xfa03);
    assert_eq!(seen(&rig).clock_hz, 0);
    rig.w16(0x2c, 0xfa05);
    assert_eq!(seen(&rig).clock_hz, 400_000);
    // Switching on the PLL makes the clock unstable again for a time.
    rig.w16(0x2c, 0xfa09);
    assert_eq!((rig.r16(0x2c) & 2, seen(&rig).clock_hz), (0, 0));
    rig.run(20_000);
    // The divider has ten bits: 2 * 0x3ff.
    rig.w16(0x2c, 0xffc9);
    rig.w16(0x2c, 0xffcd);
    assert_eq!(seen(&rig).clock_hz, 200_000_000 / 2046);
    assert_eq!(rig.host.protocol_violations(), 0);
    rig.w16(0x2c, 0x000d);
    assert_eq!(
        (seen(&rig).clock_hz, rig.host.protocol_violations()),
        (200_000_000, 1),
        "changed under the card"
    );
}

#[test]
fn an_unstable_clock_and_a_missing_voltage() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_3_00);
    rig.next(Point::Clock, &[Strike::Never]);
    rig.w16(0x2c, 0x0101);
    rig.run(1_000_000_000);
    assert_eq!(rig.r16(0x2c) & 2, 0);
    rig.w8(0x29, 0x0b);
    assert_eq!((rig.r8(0x29), seen(&rig).powered), (0x0a, false), "no 1.8 V supply here");
}

#[test]
fn width_signalling_and_modes_reach_the_card() {
    let mut rig = Rig::cold(SdhciConfig::GENERIC_4_20);
    rig.w8(0x28, 0x02);
    assert_eq!(seen(&rig).width, 4);
    rig.w8(0x28, 0x22);
    assert_eq!(seen(&rig).width, 8);
    rig.w16(0x3e, 4);
    assert!(!seen(&rig).ddr, "UHS modes need 1.8 V");
    rig.w16(0x3e, 4 | 8);
    rig.run(2_999_999);
    assert!(!seen(&rig).signal18);
    rig.run(1);
    assert!(seen(&rig).signal18 && seen(&rig).ddr && !seen(&rig).strobe);
    rig.w16(0x3e, 6 | 8);
    assert!(seen(&rig).ddr && seen(&rig).strobe);
    rig.w16(0x3e, 3);
    assert!(!seen(&rig).signal18 && !seen(&rig).ddr);
    let mut rig = Rig::cold(SdhciConfig::GENERIC_3_00);
    rig.w8(0x28, 0x22);
    assert_eq!(seen(&rig).width, 4, "no 8 bits in its capabilities");
}

#[test]
fn a_regulator_that_fails_clears_the_bit() {
    let mut rig = Rig::cold(SdhciConfig { signal18_fails: true, ..SdhciConfig::GENERIC_4_20 });
    rig.w16(0x3e, 8);
    rig.run(5_000_000);
    assert_eq!((rig.r16(0x3e), seen(&rig).signal18), (0, false));
}

#[test]
fn lines_held_low_in_a_voltage_switch_can_be_seen() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.card.0.borrow_mut().voltage_switch = true;
    assert_eq!(rig.r32(0x24) & 0x01f0_0000, 0);
    rig.card.0.borrow_mut().voltage_switch = false;
    assert_eq!(rig.r32(0x24) & 0x01f0_0000, 0x01f0_0000);
}

#[test]
fn presets_set_the_clock_of_the_mode() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    rig.w16(0x3e, 2 | 8 | 1 << 15);
    assert_eq!(seen(&rig).clock_hz, 100_000_000, "SDR50");
    rig.w16(0x3e, 4 | 8 | 1 << 15);
    assert_eq!((seen(&rig).clock_hz, rig.r16(0x2c) >> 8), (50_000_000, 2), "DDR50");
}

fn tune(rig: &mut Rig) -> u32 {
    rig.w16(0x3e, 3 | 8);
    let untuned = seen(rig).sample_error;
    assert_eq!(untuned, 100);
    rig.w16(0x3e, 3 | 8 | 1 << 6);
    for round in 1..=40 {
        rig.set_up(128, 1);
        rig.command(21, 0, R1 | DATA, 0x10);
        assert_eq!(rig.wait_for(int::BUFFER_READ_READY), int::BUFFER_READ_READY, "nothing else in tuning");
        if rig.r16(0x3e) & 1 << 6 == 0 {
            return round;
        }
    }
    panic!("tuning has no end");
}

#[test]
fn tuning_takes_its_rounds_and_selects_the_sampling_clock() {
    let mut rig = Rig::warm(SdhciConfig { tuned_sample_error: 5, ..SdhciConfig::GENERIC_4_20 });
    assert_eq!(tune(&mut rig), 20);
    assert_eq!(rig.r16(0x3e) & 0xc0, 0x80);
    assert_eq!(seen(&rig).sample_error, 5);
    assert_eq!(rig.host.protocol_violations(), 0);
    rig.w16(0x3e, 3 | 8);
    rig.w16(0x3e, 3 | 8 | 0x80);
    assert_eq!(rig.r16(0x3e) & 0xc0, 0, "software can clear it but not set it");
    let mut rig =
        Rig::warm(SdhciConfig { tuning_fails: true, tuning_rounds: 40, ..SdhciConfig::GENERIC_4_20 });
    assert_eq!(tune(&mut rig), 40);
    assert_eq!((rig.r16(0x3e) & 0xc0, seen(&rig).sample_error), (0, 100));
}

#[test]
fn the_log_tells_what_went_over_the_bus() {
    let mut rig = Rig::warm(SdhciConfig::GENERIC_4_20);
    let log = Rc::new(RefCell::new(Vec::new()));
    let writer = log.clone();
    rig.host.set_log(Some(Box::new(move |event| writer.borrow_mut().push(event))));
    let t = rig.now;
    rig.set_up(512, 1);
    rig.command(17, 4, R1 | DATA, 0x10);
    rig.run(100_000);
    assert_eq!(
        *log.borrow(),
        [
            BusEvent::Command { index: 17, arg: 4, auto: false, start_ns: t, end_ns: t + 240 },
            BusEvent::Response { index: 17, content: 0x900, errors: 0, end_ns: t + 520 },
            BusEvent::Interrupt { at_ns: t + 520, status: 1 },
            BusEvent::Block { read: true, bytes: 512, good: true, start_ns: t + 560, end_ns: t + 1_930 },
        ]
    );
}

#[test]
fn a_port_lets_the_model_catch_up_and_charges_each_access() {
    let card = TestCard::new();
    let memory = crate::memory::ShadowMemory::default();
    let model = Sdhci::new(SdhciConfig::GENERIC_4_20, memory, Some(Box::new(card.clone())));
    let time = Time::new();
    let port = Port::new(Rc::new(RefCell::new(model)), time.clone(), 120, 50);
    port.write8(0x29, 0x0f);
    port.write16(0x2c, 0x0009);
    assert_eq!(time.now(), 100);
    let mut polls = 0;
    while port.read16(0x2c) & 2 == 0 {
        polls += 1;
    }
    // The clock is stable 20 us after the write at 50 ns, which the first read after that time
    // shows.
    assert_eq!((polls, time.now()), (167, 100 + 168 * 120));
    assert_eq!((port.counters().reads, port.clone().counters().writes), (168, 2));
    // An earlier time of another part of the program does not turn the model's time back.
    time.set(10);
    assert_eq!(port.read16(0x2c) & 2, 2);
}

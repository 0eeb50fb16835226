//! Tests of the PL022 model by its registers.

use std::cell::RefCell;
use std::rc::Rc;

use mmcq::host::Regs;

use super::{Pl022, Port};
use crate::card::tests::{medium, profile};
use crate::faults::{Faults, Plan, Point, Strike};
use crate::slot::Controller;
use crate::time::Time;
use crate::world::Device;

const CR0: u16 = 0;
const CR1: u16 = 4;
const DR: u16 = 8;
const SR: u16 = 0xc;
const CPSR: u16 = 0x10;
const IMSC: u16 = 0x14;
const RIS: u16 = 0x18;
const MIS: u16 = 0x1c;
const ICR: u16 = 0x20;
/// Address of the masked data register of GPIO pin 0 (chip select).
const SELECT: u16 = 0x1004;

struct Rig {
    port: Port,
}

impl Rig {
    /// Makes a controller with an SSPCLK of 12.5 MHz, as on the LM3S6965; each register access
    /// takes 80 ns.
    fn new() -> Self {
        let profile = profile("sdhc-16g-hs");
        let card = profile.build(medium(&profile)).unwrap();
        let model = Rc::new(RefCell::new(Pl022::new(12_500_000, Some(card))));
        let port = Port::new(model, Time::new(), 80, 80);
        port.time.set(1_000_000);
        let rig = Rig { port };
        // Chip select is an output and high. 12.5 MHz / (32 * 1) is 390.625 kHz; frames of eight
        // bits, mode 0.
        rig.set(SELECT, 1);
        rig.set(0x1400, 1);
        rig.set(0x151c, 1);
        rig.set(CR0, 7);
        rig.set(CPSR, 32);
        rig.set(CR1, 2);
        rig
    }

    fn get(&self, offset: u16) -> u32 {
        self.port.read32(offset)
    }

    fn set(&self, offset: u16, value: u32) {
        self.port.write32(offset, value);
    }

    /// Sends bytes through the FIFOs as fast as possible. Returns the received bytes.
    fn transfer(&self, out: &[u8]) -> Vec<u8> {
        let (mut sent, mut back) = (0, Vec::new());
        for _ in 0..100_000 {
            let status = self.get(SR);
            if sent < out.len() && status & 2 != 0 && sent - back.len() < 8 {
                self.set(DR, out[sent].into());
                sent += 1;
            }
            if status & 4 != 0 {
                back.push(self.get(DR) as u8);
            }
            if back.len() == out.len() {
                return back;
            }
        }
        panic!("{} of {} bytes", back.len(), out.len());
    }

    fn violations(&self) -> u64 {
        self.port.model.borrow().protocol_violations()
    }
}

#[test]
fn a_card_answers_through_the_fifos() {
    let rig = Rig::new();
    rig.transfer(&[0xff; 10]);
    rig.set(SELECT, 0);
    let back = rig.transfer(&[0x40, 0, 0, 0, 0, 0x95, 0xff, 0xff]);
    assert_eq!(back[7], 0x01);
    let back = rig.transfer(&[0x48, 0, 0, 1, 0xaa, 0x87, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(back[7..], [0x01, 0, 0, 1, 0xaa]);
    rig.set(SELECT, 1);
    assert_eq!(rig.transfer(&[0xff; 2]), [0xff; 2]);
    assert_eq!(rig.violations(), 0);
    assert_eq!(rig.get(SR), 3, "empty and idle");
}

#[test]
fn eight_words_and_their_time() {
    let rig = Rig::new();
    assert_eq!(rig.get(SR), 3);
    let from_ns = rig.port.time.now();
    for _ in 0..9 {
        rig.set(DR, 0xff);
    }
    // One word is on the wire, eight wait in the FIFO.
    assert_eq!(rig.get(SR), 0x10);
    rig.set(DR, 0xff);
    assert_eq!(rig.violations(), 1);
    // Nine frames of eight clocks, with one clock between two frames.
    rig.port.time.set(from_ns + 80 * 2_560 - 2_561);
    assert_eq!(rig.get(SR) & 0x10, 0x10);
    rig.port.time.set(from_ns + 80 * 2_560);
    assert_eq!(rig.get(SR), 0x0f, "all came, one was lost");
    assert_eq!(rig.get(RIS) & 1, 1, "overrun");
    rig.set(ICR, 1);
    assert_eq!(rig.get(RIS) & 1, 0);
    for _ in 0..8 {
        assert_eq!(rig.get(DR), 0xff);
    }
    assert_eq!(rig.get(DR), 0);
    assert_eq!(rig.violations(), 2);
}

#[test]
fn interrupts_by_level_and_by_the_time_of_what_is_left() {
    let rig = Rig::new();
    let model = rig.port.model.clone();
    rig.set(IMSC, 4);
    for _ in 0..4 {
        rig.set(DR, 0xff);
    }
    let at_ns = model.borrow_mut().advance(u64::MAX / 4);
    assert!(model.borrow().irq());
    // Four frames at 390.625 kHz.
    let frames_ns = 35 * 2_560;
    assert!(at_ns.abs_diff(1_000_000 + frames_ns) < 2_000, "{at_ns}");
    rig.port.time.set(at_ns);
    assert_eq!(rig.get(MIS), 4);
    rig.get(DR);
    assert!(!model.borrow().irq());
    rig.set(IMSC, 2);
    let at_ns = model.borrow_mut().advance(u64::MAX / 4);
    assert!(at_ns.abs_diff(rig.port.time.now() + 32 * 2_560) < 1_000);
    rig.port.time.set(at_ns);
    assert_eq!(rig.get(MIS), 2);
    while rig.get(SR) & 4 != 0 {
        rig.get(DR);
    }
    rig.set(ICR, 2);
    assert!(!model.borrow().irq());
    rig.set(IMSC, 8);
    assert!(model.borrow().irq(), "room to send");
    for _ in 0..6 {
        rig.set(DR, 0xff);
    }
    assert!(!model.borrow().irq());
}

#[test]
fn words_of_sixteen_bits_loopback_and_identity() {
    let rig = Rig::new();
    rig.transfer(&[0xff; 10]);
    rig.set(SELECT, 0);
    rig.set(CR0, 15);
    for word in [0x4000, 0, 0x0095, 0xffff] {
        rig.set(DR, word);
    }
    rig.port.time.charge(1_000_000);
    assert_eq!([(); 4].map(|()| rig.get(DR))[3], 0xff01);
    rig.set(CR1, 3);
    rig.set(DR, 0x1234);
    rig.port.time.charge(1_000_000);
    assert_eq!(rig.get(DR), 0x1234);
    let ids: Vec<u32> = (0..8).map(|n| rig.get(0xfe0 + 4 * n)).collect();
    assert_eq!(ids, [0x22, 0x10, 0x24, 0, 0x0d, 0xf0, 0x05, 0xb1]);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn what_the_card_does_not_understand_is_counted() {
    for (cr0, cr1) in [(0x47, 2), (0x87, 2), (0x17, 2), (6, 2), (7, 6)] {
        let rig = Rig::new();
        rig.transfer(&[0xff; 10]);
        rig.set(SELECT, 0);
        rig.set(CR0, cr0);
        rig.set(CR1, cr1);
        let back = rig.transfer(&[0x40, 0, 0, 0, 0, 0x95, 0xff, 0xff]);
        assert_ne!(back[7], 0x01, "{cr0:x} {cr1:x}");
        assert_eq!(rig.violations(), 8, "{cr0:x} {cr1:x}");
    }
    // Chip select changes while a frame is on the wire; then the clock does.
    let rig = Rig::new();
    rig.set(DR, 0xff);
    rig.set(SELECT, 0);
    rig.set(CPSR, 64);
    assert_eq!(rig.violations(), 2);
    rig.port.write8(CR0, 7);
    rig.set(0x28, 0);
    assert_eq!(rig.violations(), 4);
}

#[test]
fn mode_3_has_no_gap() {
    let rig = Rig::new();
    rig.set(CR0, 0xc7);
    rig.transfer(&[0xff; 10]);
    rig.set(SELECT, 0);
    assert_eq!(rig.transfer(&[0x40, 0, 0, 0, 0, 0x95, 0xff, 0xff])[7], 0x01);
    let from_ns = rig.port.time.now();
    for _ in 0..4 {
        rig.set(DR, 0xff);
    }
    rig.port.time.set(from_ns + 32 * 2_560 - 1);
    assert_eq!(rig.get(SR) & 0x10, 0x10);
    assert_eq!(rig.get(SR) & 0x10, 0);
}

#[test]
fn faults_of_the_controller() {
    let rig = Rig::new();
    let model = rig.port.model.clone();
    model.borrow_mut().set_faults(Faults::new(Plan::none().shot(Point::Interrupt, 1, Strike::Lost)));
    rig.set(IMSC, 4);
    for _ in 0..4 {
        rig.set(DR, 0xff);
    }
    model.borrow_mut().advance(10_000_000);
    assert!(!model.borrow().irq());
    rig.port.time.set(10_000_000);
    assert_eq!(rig.get(MIS), 4);
    model.borrow_mut().set_faults(Faults::new(Plan::none().shot(Point::Exchange, 1, Strike::Gone)));
    rig.set(SELECT, 0);
    rig.set(DR, 0xff);
    rig.port.time.charge(1_000_000);
    assert_eq!(rig.get(SR), u32::MAX);
}

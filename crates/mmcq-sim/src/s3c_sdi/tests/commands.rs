use super::*;
use crate::card::{Fill, Medium};
use crate::slot::Controller;
use crate::world::Device;

#[test]
fn a_command_takes_its_clocks_and_latches_its_events() {
    let mut rig = Rig::ready(loopback_card(), 64);
    let start = rig.now;
    rig.start(52, 0);
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 8, "on");
    rig.now = start + 4_799;
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 8);
    rig.now = start + 4_800;
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 11 | 1 << 8, "sent: 48 clocks");
    rig.now = start + 10_399;
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 11 | 1 << 8);
    rig.now = start + 10_400;
    assert_eq!(rig.r(CSTA), 1 << 11 | 1 << 9 | 52, "104 clocks");
    assert_eq!(rig.r(RSP), 0x1032);
    rig.w(CSTA, 1 << 9);
    assert_eq!(rig.r(CSTA), 1 << 11 | 52);
    rig.w(CSTA, 0x1e00);
    assert_eq!(rig.r(CSTA), 52);
    assert_eq!(rig.host.protocol_violations(), 0);
    assert_eq!(rig.host.stats().commands[52], 5);
}

#[test]
fn the_interrupt_line_is_the_enabled_events() {
    let mut rig = Rig::ready(loopback_card(), 64);
    rig.w(CSTA, 0x1e00);
    rig.w(IMSK, 1 << 14);
    let start = rig.now;
    rig.start(52, 0);
    assert!(rig.interrupt());
    assert_eq!(rig.now, start + 10_400);
    rig.w(CSTA, 1 << 9);
    assert!(!rig.host.irq());
    // An event that is already present interrupts as soon as the driver enables it.
    rig.w(IMSK, 1 << 16);
    assert!(rig.host.irq());
    rig.w(IMSK, 0);
    assert!(!rig.host.irq());
    assert_eq!(rig.host.stats().interrupts, 2);
}

#[test]
fn responses_without_a_crc_show_one_that_is_wrong() {
    let mut rig = Rig::new(Some(Box::new(loopback_card())));
    rig.start(5, 0);
    let status = rig.until(CSTA, 1 << 9 | 1 << 10);
    assert_eq!(status, 1 << 12 | 1 << 11 | 1 << 9 | 0x3f);
    assert_eq!(rig.r(RSP), 0x10ff_8000);
}

#[test]
fn silence_is_a_timeout_after_64_clocks() {
    let mut rig = Rig::ready(loopback_card(), 64);
    rig.w(IMSK, 1 << 15);
    let start = rig.now;
    rig.start(17, 0);
    assert!(rig.interrupt());
    assert_eq!(rig.now, start + 4_800 + 6_400);
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 11 | 1 << 10);
    assert_eq!(rig.host.stats().silent, 1);
    // The command has no response, so only "command sent" is set.
    rig.w(CSTA, 0x1e00);
    rig.w(CMD, 1 << 8 | 1 << 6);
    // The command starts eight clocks after the end of the command before.
    rig.now += 800 + 4_800;
    assert_eq!(rig.r(CSTA) & 0x1f00, 1 << 11);
}

#[test]
fn a_long_response_fills_four_registers_without_the_crc() {
    let profile = crate::card::tests::profile("sdsc-1g");
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap();
    let mut rig = Rig::new(Some(profile.build(medium).unwrap()));
    rig.command(55, 0, true);
    rig.command(41, 0x00ff_8000, false);
    rig.now += 1_000_000_000;
    rig.command(55, 0, true);
    assert_eq!(rig.command(41, 0x00ff_8000, false) >> 31, 1);
    rig.w(CSTA, 0x1e00);
    rig.w(CMD, 1 << 10 | 1 << 9 | 1 << 8 | 1 << 6 | 2);
    let status = rig.until(CSTA, 1 << 9);
    assert_eq!(status, 1 << 11 | 1 << 9 | 0x3f);
    let words: Vec<u32> = (0..4).map(|i| rig.r(RSP + 4 * i)).collect();
    assert_eq!((words[3] & 0xff, words[0] != 0), (0, true));
    // A long response to a command that expects a short one.
    rig.w(CSTA, 0x1e00);
    let rca = rig.command(3, 0, true) & 0xffff_0000;
    rig.start(10, rca);
    assert_eq!(rig.until(CSTA, 1 << 9) >> 12 & 1, 1);
    assert_eq!(rig.r(RSP), words[0], "CID again");
}

#[test]
fn what_the_controller_does_not_bear_is_counted() {
    let mut rig = Rig::ready(loopback_card(), 64);
    let count = |rig: &Rig| rig.host.protocol_violations();
    // A command is written while another one is under way.
    rig.start(52, 0);
    rig.w(CMD, 1 << 9 | 1 << 8 | 1 << 6 | 13);
    assert_eq!(count(&rig), 1);
    rig.until(CSTA, 1 << 9);
    assert_eq!(rig.host.stats().commands[13], 0);
    // Mistakes: no transmission bit, a 2-byte access, an offset without a register.
    rig.w(CMD, 1 << 9 | 1 << 8 | 52);
    assert_eq!(rig.host.read(CON, 2, rig.now), 0xffff);
    rig.w(0x44, 0);
    assert_eq!(count(&rig), 4);
    // A read of an empty FIFO, a write without a write transfer.
    assert_eq!(rig.r(DATA), 0);
    rig.w(DATA, 1);
    assert_eq!((count(&rig), rig.r(FSTA) >> 14 & 1), (6, 1));
    rig.w(FSTA, 1 << 14);
    assert_eq!(rig.r(FSTA), 0);
    // A start of data without the bits that say when they begin.
    rig.w(DCON, (READ | 1) & !(1 << 19));
    assert_eq!(count(&rig), 7);
}

#[test]
fn faults_and_a_dead_clock() {
    let mut rig = Rig::ready(loopback_card(), 64);
    rig.next(Point::Response, &[Strike::Crc]);
    rig.start(52, 0);
    assert_eq!(rig.until(CSTA, 1 << 9) >> 12 & 1, 1);
    rig.next(Point::Command, &[Strike::Lost]);
    rig.start(52, 0);
    rig.until(CSTA, 1 << 10);
    rig.next(Point::Response, &[Strike::Lost]);
    rig.start(52, 0);
    rig.until(CSTA, 1 << 10);
    rig.next(Point::Interrupt, &[Strike::Lost]);
    rig.w(IMSK, 1 << 14);
    rig.start(52, 0);
    assert!(!rig.interrupt());
    assert_eq!(rig.r(CSTA) >> 9 & 1, 1);
    rig.next(Point::Command, &[Strike::Gone]);
    rig.start(52, 0);
    rig.now += 1_000_000;
    assert_eq!((rig.r(CON), rig.r(GPIO)), (u32::MAX, u32::MAX));
}

#[test]
fn without_a_clock_a_command_waits() {
    let mut rig = Rig::ready(loopback_card(), 64);
    rig.w(CON, 0);
    rig.start(52, 0);
    assert!(!rig.interrupt());
    assert_eq!(rig.r(CSTA) >> 8 & 0x1f, 1);
    let start = rig.now;
    rig.w(CON, 1);
    rig.until(CSTA, 1 << 9);
    assert_eq!(rig.now, start + 10_400);
}

#[test]
fn the_port_charges_every_access_and_counts_it() {
    use crate::s3c_sdi::Port;
    use crate::time::Time;
    use mmcq::host::Regs;
    let host = S3cSdi::new(S3cSdiConfig::S3C2440, ShadowMemory::default(), None);
    let time = Time::new();
    let port = Port::new(Rc::new(RefCell::new(host)), time.clone(), 220, 100);
    port.write32(PRE, 4);
    port.write32(CON, 1);
    assert_eq!((port.read32(PRE), time.now()), (4, 420));
    assert_eq!((port.counters().reads, port.counters().writes), (1, 2));
    assert_eq!(port.model.borrow().bus().clock_hz, 10_000_000);
}

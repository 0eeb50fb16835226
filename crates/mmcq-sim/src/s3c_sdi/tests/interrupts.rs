use super::*;
use crate::slot::Controller;
use crate::world::Device;

/// Makes a test bench with an I/O card selected, the interrupt of its function 1 enabled, and the
/// edge detector on.
fn listening() -> Rig {
    let mut rig = Rig::ready(loopback_card(), 512);
    rig.put(0, 4, 3);
    rig.w(CON, 1 | 1 << 3);
    rig.w(DSTA, 0x3f8);
    rig.w(IMSK, 1 << 12);
    rig
}

#[test]
fn a_falling_edge_while_idle_interrupts() {
    let mut rig = listening();
    rig.put(1, 0x0c, 100);
    assert_eq!(rig.r(GPIO), 1);
    let set = rig.now;
    assert!(rig.interrupt());
    // The interrupt comes 100 us after the end of the command, of which the response has taken 56
    // clocks.
    assert_eq!(rig.now - set, 100_000 - 5_600);
    assert_eq!((rig.r(GPIO), rig.r(DSTA)), (0, 1 << 9));
    // The interrupt is an edge, not a level: once cleared it stays cleared.
    rig.w(DSTA, 1 << 9);
    assert_eq!((rig.host.irq(), rig.r(GPIO)), (false, 0));
    assert!(!rig.interrupt());
    rig.put(1, 8, 0);
    assert_eq!((rig.r(GPIO), rig.host.lost_edges()), (1, 0));
}

#[test]
fn an_edge_during_a_command_or_data_is_lost_but_the_level_is_there() {
    let mut rig = listening();
    // The edge comes 7 us after the command, which is during the next command.
    rig.put(1, 0x0c, 7);
    rig.get(0, 0);
    assert_eq!((rig.r(DSTA), rig.r(GPIO), rig.host.lost_edges()), (0, 0, 1));
    assert!(!rig.interrupt());
    rig.put(1, 8, 0);
    // The edge comes during data, when the GPIO shows data bits.
    rig.put(1, 0x0c, 50);
    rig.prepare(READ, 1, 512);
    rig.start(53, blocks_at_100(false, 1));
    rig.until(FSTA, 1 << 8);
    rig.now += 1_000_000;
    assert_eq!(rig.r(GPIO), 1);
    rig.w(IMSK, 1 << 12 | 1 << 7);
    for _ in 0..128 {
        rig.until(FSTA, 1 << 12);
        rig.r(DATA);
    }
    rig.until(DSTA, 1 << 4);
    assert_eq!((rig.r(DSTA), rig.r(GPIO), rig.host.lost_edges()), (1 << 4, 0, 2));
    // A command sets the interrupt, so the edge comes while this command is under way.
    rig.put(1, 8, 0);
    rig.put(1, 8, 1);
    assert_eq!((rig.r(DSTA) >> 9 & 1, rig.r(GPIO), rig.host.lost_edges()), (0, 0, 3));
}

#[test]
fn without_the_enable_bit_nothing_is_latched() {
    let mut rig = listening();
    rig.w(CON, 1);
    rig.put(1, 0x0c, 100);
    assert!(!rig.interrupt());
    assert_eq!((rig.r(DSTA), rig.r(GPIO)), (0, 0));
    // Enabling SDIO interrupts later does not make an edge.
    rig.w(CON, 1 | 1 << 3);
    assert_eq!(rig.r(DSTA), 0);
}

#[test]
fn a_controller_without_the_flaw_latches_every_edge() {
    let config = S3cSdiConfig { loses_edges: false, dat1_gpio: false, ..S3cSdiConfig::S3C2440 };
    let mut rig = listening();
    let card = rig.host.remove(rig.now).expect("the card");
    let mut other = Rig::new(None);
    other.host = S3cSdi::new(config, ShadowMemory::default(), None);
    other.now = rig.now;
    other.w(PRE, 124);
    other.w(CON, 1 | 1 << 3);
    other.host.insert(card, other.now);
    // A card that was without power has to be brought up again.
    other.host.set_supply(false, other.now);
    other.host.set_supply(true, other.now);
    other.now += 2_000_000;
    other.select();
    for (address, value) in [(7, 2), (2, 2), (4, 3)] {
        other.put(0, address, value);
    }
    other.put(1, 8, 1);
    assert_eq!((other.r(DSTA), other.r(GPIO), other.host.lost_edges()), (1 << 9, 1, 0));
}

/// Checks that the FIFO status is valid without an armed write. A driver may use it to interrupt
/// itself.
#[test]
fn an_empty_fifo_is_half_empty_also_when_nothing_is_armed() {
    let mut rig = listening();
    assert!(!rig.host.irq());
    rig.w(IMSK, 1 << 12 | 1 << 4);
    assert_eq!((rig.host.irq(), rig.r(FSTA)), (true, 0));
    rig.w(IMSK, 1 << 12);
    assert!(!rig.host.irq());
}

//! Tests of the interrupt line, and of the interrupt of I/O cards.

use super::*;
use crate::card::io::tests::loopback_card;

#[test]
fn the_line_is_the_enabled_flags() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.w(MASK, CMDREND);
    let start = rig.now;
    rig.start(SHORT | 13, 0);
    rig.now = rig.host.advance(u64::MAX);
    assert_eq!((rig.host.irq(), rig.now - start), (true, 10_400));
    // [58.10.12]: flags stay set until ICR clears them.
    assert_eq!((rig.r(STA), rig.r(STA)), (CMDREND, CMDREND));
    rig.w(ICR, CTIMEOUT);
    assert!(rig.host.irq());
    rig.w(ICR, CMDREND);
    assert!(!rig.host.irq());
    // A flag that is already set interrupts as soon as it is enabled.
    rig.w(MASK, 0);
    rig.command(13, 0);
    assert!(!rig.host.irq());
    rig.w(MASK, CMDREND);
    assert!(rig.host.irq());
    assert_eq!(rig.host.stats().interrupts, 2);
}

#[test]
fn levels_of_the_fifo_cannot_be_cleared() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.prepare(READ, 512);
    rig.w(MASK, RXFIFOHF);
    rig.start(SHORT | TRANS | 17, 0);
    rig.now = rig.host.advance(u64::MAX);
    rig.w(ICR, u32::MAX);
    assert!(rig.host.irq());
    rig.r(FIFO);
    assert!(!rig.host.irq(), "seven words");
}

#[test]
fn a_lost_interrupt_leaves_the_flag() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.next(Point::Interrupt, &[Strike::Lost]);
    rig.w(MASK, CMDREND);
    rig.start(SHORT | 13, 0);
    rig.now += 1_000_000;
    assert_eq!((rig.r(STA), rig.host.irq()), (CMDREND, false));
}

fn put(rig: &mut Rig, number: u32, address: u32, value: u8) {
    let content = rig.command(52, 1 << 31 | number << 28 | address << 9 | u32::from(value));
    assert_eq!(content >> 8 & 0xcf, 0);
}

/// Makes a test bench with an I/O card: selected, 4 lines, blocks of 64 bytes, the function's
/// interrupt enabled on the card.
fn listening() -> Rig {
    let mut rig = Rig::of(Stm32SdmmcConfig::H7, Box::new(loopback_card()));
    rig.power_up(250);
    rig.start(NO_CRC | 5, 0x00ff_8000);
    rig.until(CMDREND);
    rig.now += 100_000_000;
    rig.start(NO_CRC | 5, 0x00ff_8000);
    rig.until(CMDREND);
    let rca = rig.command(3, 0);
    rig.command(7, rca & 0xffff_0000);
    rig.w(CLKCR, SLOW | FLOW);
    for (address, value) in [(7, 2), (2, 2), (0x110, 64), (0x111, 0), (4, 3)] {
        put(&mut rig, 0, address, value);
    }
    rig.now += 10_000_000;
    rig
}

#[test]
fn a_low_dat1_is_latched_while_it_is_low_and_enabled() {
    let mut rig = listening();
    rig.w(MASK, SDIOIT);
    put(&mut rig, 1, 8, 1);
    assert!(!rig.host.irq(), "SDIOEN is clear");
    // [58.6.1]: the bit SDIOEN enables the card interrupt.
    rig.w(DCTRL, 1 << 11);
    assert!(rig.host.irq());
    // The card interrupt is a level: after clearing it comes back.
    rig.w(ICR, SDIOIT);
    assert!(rig.host.irq());
    put(&mut rig, 1, 8, 0);
    rig.w(ICR, SDIOIT);
    assert!(!rig.host.irq());
    // The function raises its interrupt by itself, later.
    put(&mut rig, 1, 0x0c, 100);
    let set = rig.now;
    rig.now = rig.host.advance(u64::MAX);
    assert_eq!((rig.host.irq(), rig.now - set), (true, 100_000 - 5_600));
}

#[test]
fn blocks_and_bytes_of_an_io_card() {
    let mut rig = listening();
    let data = pattern(3 * 64);
    let memory = rig.to_write(data.clone());
    rig.buffer(memory.bus);
    rig.prepare(6 << 4, 3 * 64);
    let blocks = |write: u32| write << 31 | 1 << 28 | 1 << 27 | 1 << 26 | 0x100 << 9 | 3;
    rig.start(SHORT | TRANS | 53, blocks(1));
    assert_eq!(rig.until(DATAEND | DTIMEOUT | DCRCFAIL) & (DATAEND | DTIMEOUT | DCRCFAIL), DATAEND);
    drop(memory);
    let memory = rig.to_read(3 * 64);
    rig.buffer(memory.bus);
    rig.prepare(6 << 4 | 2, 3 * 64);
    rig.start(SHORT | TRANS | 53, blocks(0));
    rig.until(DATAEND);
    assert_eq!(memory.take(), data);
    // [58.10.9]: one block of any length from 1 to 512 bytes.
    let memory = rig.to_read(7);
    rig.buffer(memory.bus);
    rig.prepare(1 << 2 | 2, 7);
    rig.start(SHORT | TRANS | 53, 1 << 28 | 1 << 26 | 0x100 << 9 | 7);
    rig.until(DATAEND);
    assert_eq!(memory.take(), data[..7]);
    // By the CPU, the last word is filled with zeros [58.5.5].
    rig.w(IDMACTRL, 0);
    rig.start(SHORT | TRANS | 53, 1 << 28 | 1 << 26 | 0x100 << 9 | 7);
    rig.now += 1_000_000;
    let mut got = Vec::new();
    rig.drain(&mut got);
    assert_eq!((got, rig.r(STA) & DATAEND), ([&data[..7], &[0]].concat(), DATAEND));
    assert_eq!(rig.violations(), 0);
}

#[test]
fn during_data_of_four_lines_dat1_tells_nothing() {
    let mut rig = listening();
    let memory = rig.to_read(3 * 64);
    rig.buffer(memory.bus);
    put(&mut rig, 1, 0x0c, 20);
    // With BUSSPEED set there is no interrupt period between two blocks [58.6.1].
    rig.w(CLKCR, SLOW | FLOW | 1 << 19);
    rig.prepare(6 << 4 | 2 | 1 << 11, 3 * 64);
    rig.start(SHORT | TRANS | 53, 1 << 28 | 1 << 27 | 1 << 26 | 0x100 << 9 | 3);
    while rig.r(STA) & DATAEND == 0 {
        assert_eq!(rig.r(STA) & SDIOIT, 0);
        rig.step();
    }
    assert_eq!(rig.r(STA) & SDIOIT, SDIOIT);
}

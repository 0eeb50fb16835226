//! Tests of the MMIO window: immediate access, lists, interrupts, clock and power.

use super::rig::*;
use crate::faults::{Point, Strike};
use crate::rtsx::RtsxConfig;
use crate::rtsx::bits::{card, clk, int, pads, phy, sd, window as w};
use crate::slot::Controller;
use crate::world::Device;
use mmcq::host::{Direction, Dma};
use std::ptr::NonNull;

const FREE: u16 = 0xfd73;

#[test]
fn immediate_access_is_busy_then_tells_and_verifies() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.w(w::HAIMR, 0xc000_0000 | 0x3d73 << 16 | 0xf0 << 8 | 0xab);
    assert_eq!(rig.r(w::HAIMR) >> 31, 1, "busy");
    rig.w(w::HAIMR, 0x8000_0000);
    assert_eq!(rig.host.protocol_violations(), 1, "one at a time");
    rig.run(199);
    assert_eq!(rig.r(w::HAIMR) >> 31, 1);
    rig.run(1);
    assert_eq!(rig.r(w::HAIMR), 0x7d73_f0ab, "as it was written");
    assert_eq!(rig.get(FREE), 0xa0, "only the masked bits");
    rig.set(FREE, 0x0f, 0x0c);
    assert_eq!(rig.get(FREE), 0xac);
    assert_eq!(rig.get(sd::TRANSFER), 0x60);
    assert_eq!(rig.get(card::PWR_CTL), 0x0f);
}

#[test]
fn registers_of_the_link_keep_what_was_written() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    let mut access = |address: u8, control: u8, data: [u8; 2]| {
        rig.set(phy::DATA, 0xff, data[0]);
        rig.set(phy::DATA + 1, 0xff, data[1]);
        rig.set(phy::ADDRESS, 0xff, address);
        rig.set(phy::CTL, 0xff, control);
        assert_eq!(rig.get(phy::CTL) & phy::START, 0, "it has ended");
        [rig.get(phy::DATA), rig.get(phy::DATA + 1)]
    };
    access(0x10, phy::START | phy::WRITE, [0x34, 0x12]);
    access(0xff, phy::START | phy::WRITE, [0x78, 0x56]);
    assert_eq!(access(0x10, phy::START, [0, 0]), [0x34, 0x12]);
    assert_eq!(access(0xff, phy::START, [0, 0]), [0x78, 0x56]);
    assert_eq!(access(0x09, phy::START, [9, 9]), [0, 0]);
    // The voltage of the pads, as Linux's driver of RTS5249 sets it, without and with its write of
    // another register of the link before it.
    for (address, data, low) in
        [(0x08, [0xa4, 0x4c], false), (0x11, [2, 0], true), (0x08, [0xe4, 0x4f], false)]
    {
        let mut access = |address, data: u8| rig.set(address, 0xff, data);
        access(phy::DATA, data[0]);
        access(phy::DATA + 1, data[1]);
        access(phy::ADDRESS, address);
        access(phy::CTL, phy::START | phy::WRITE);
        rig.run(2_000_000);
        assert_eq!(rig.host.slot.bus.signal18, low, "{address:#x}");
    }
    rig.assert_clean();
}

/// Checks which registers change the voltage of each chip's pads.
#[test]
fn a_chip_listens_to_its_own_registers_of_the_voltage() {
    for device in [0x5209, 0x5227, 0x522a, 0x5229, 0x5249, 0x524a, 0x525a] {
        let mut rig = Rig::cold(RtsxConfig { device, ..RtsxConfig::GENERIC });
        rig.set(sd::PAD_CTL, 0x80, 0x80);
        rig.run(2_000_000);
        assert!(!rig.host.bus().signal18, "{device:#x}");
        rig.set(pads::LDO, 7, 2);
        rig.run(2_000_000);
        assert_eq!(rig.host.bus().signal18, device == 0x525a, "{device:#x}");
        rig.set(sd::PAD_CTL, 0x80, 0);
        rig.low_voltage(true);
        rig.run(2_000_000);
        assert_eq!(rig.host.bus().signal18, device != 0x525a, "{device:#x}");
    }
}

/// Checks that no card answers while its pads have no supply, or nothing pulls its lines up.
#[test]
fn a_card_answers_only_on_pads_that_work() {
    let mut rig = Rig::warm(RtsxConfig::GENERIC);
    for works in [true, false, true] {
        rig.pulls(works);
        assert_eq!(rig.command(13, 0, R1) == DONE, works);
        rig.clear_error();
    }
    rig.set(pads::GATE, pads::GATE_MASK, 2);
    assert_eq!(rig.command(13, 0, R1), FAILED);
    rig.assert_clean();
}

#[test]
fn only_words_of_the_window_exist() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    assert_eq!(rig.host.read(0x14, 1, 0), 0xff);
    assert_eq!(rig.host.read(0x20, 4, 0), u32::MAX);
    rig.host.write(0x12, 4, 0, 0);
    assert_eq!(rig.host.protocol_violations(), 3);
    rig.w(w::SCRATCH, 0x1234_5678);
    assert_eq!(rig.r(w::SCRATCH), 0x1234_5678);
}

#[test]
fn a_list_writes_under_masks_checks_and_tells_when_it_is_over() {
    let config = RtsxConfig { round_ns: 8_001, ..RtsxConfig::GENERIC };
    let mut rig = Rig::cold(config);
    rig.set(FREE, 0xff, 0x55);
    let start = rig.now;
    let done =
        rig.run_list(&[wr(FREE, 0xf0, 0xa0), ck(FREE, 0x0f, 0x05), rd(FREE), wr(FREE + 1, 0xff, 0x11)]);
    assert_eq!(done, DONE);
    assert_eq!(rig.now - start, 8_001 + 4 * 40, "fetch, four entries, report");
    assert_eq!((rig.get(FREE), rig.get(FREE + 1)), (0xa5, 0x11));
    assert_eq!(rig.r(w::HCBCTLR) >> 31, 0, "none runs");
    rig.assert_clean();
}

#[test]
fn read_and_check_bytes_are_written_back_packed_from_the_start() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.set(FREE, 0xff, 0x42);
    rig.set(FREE + 1, 0xff, 0x99);
    let list = [rd(FREE), wr(FREE + 2, 0xff, 1), ck(FREE + 1, 0x0f, 0x09), rd(FREE + 2)];
    let mut bytes: Vec<u8> = list.iter().flat_map(|e| e.to_le_bytes()).collect();
    let ptr = NonNull::new(bytes.as_mut_ptr()).unwrap();
    let bus = rig.memory.map(ptr, 16, Direction::Write).unwrap();
    rig.w(w::HCBAR, bus as u32);
    rig.w(w::HCBCTLR, w::START | w::WRITE_BACK | 16);
    rig.run(4_001);
    // The chip has fetched the list already. A mapping has one direction, so the results need
    // another mapping of the same address.
    rig.memory.unmap(bus, ptr, 16, Direction::Write);
    let back = rig.memory.map(ptr, 16, Direction::Read).unwrap();
    assert_eq!(back, bus);
    assert_eq!(rig.wait_for(int::CMD_DONE), DONE);
    rig.memory.unmap(back, ptr, 16, Direction::Read);
    assert_eq!(bytes[..4], [0x42, 0x99, 0x01, crate::memory::POISON]);
    // Without write-back the chip writes nothing to memory, so a mapping for reading the list is
    // enough.
    assert_eq!(rig.run_list(&list), DONE);
    rig.assert_clean();
}

#[test]
fn a_check_times_out_and_ends_the_list() {
    let config = RtsxConfig { check_timeout_ns: 50_000, ..RtsxConfig::GENERIC };
    let mut rig = Rig::cold(config);
    let start = rig.now;
    assert_eq!(rig.run_list(&[ck(FREE, 1, 1), wr(FREE, 0xff, 7)]), FAILED);
    assert_eq!(rig.now - start, 8_000 + 40 + 50_000);
    assert_eq!(rig.get(FREE), 0, "the rest is not executed");
    // An immediate access fulfils the CHECK in time.
    rig.start_list(&[ck(FREE, 1, 1), wr(FREE, 0xff, 7)], 0);
    rig.run(20_000);
    assert!(!rig.host.irq());
    rig.set(FREE, 1, 1);
    assert_eq!(rig.wait_for(int::CMD_DONE), DONE);
    assert_eq!(rig.get(FREE), 7);
    rig.assert_clean();
}

#[test]
fn bad_lists_are_refused_and_a_stop_is_silent() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    for bad in [0, 3, 1028] {
        rig.w(w::HCBCTLR, w::START | bad);
        assert_eq!(rig.r(w::HCBCTLR) >> 31, 0);
    }
    assert_eq!(rig.host.protocol_violations(), 3);
    assert_eq!(rig.run_list(&[3 << 30]), FAILED);
    assert_eq!(rig.host.protocol_violations(), 4);
    rig.start_list(&[ck(FREE, 1, 1)], 0);
    rig.run(10_000);
    rig.w(w::HCBCTLR, w::START | 4);
    assert_eq!(rig.host.protocol_violations(), 5, "one at a time");
    rig.w(w::HCBCTLR, w::STOP);
    assert_eq!(rig.host.next_event_ns(), None);
    assert_eq!(rig.r(w::BIPR) & int::LATCHED, 0);
    // The address of the list is not mapped.
    rig.w(w::HCBAR, 0x1000);
    rig.w(w::HCBCTLR, w::START | 4);
    assert_eq!(rig.wait_for(int::CMD_DONE), FAILED);
}

#[test]
fn pending_bits_latch_whether_enabled_or_not() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.w(w::BIER, 0);
    rig.start_list(&[wr(FREE, 0xff, 1)], 0);
    rig.run(20_000);
    assert!(!rig.host.irq());
    assert_eq!(rig.r(w::BIPR), DONE | int::SD_EXIST);
    rig.w(w::BIER, int::TRANS_FAIL | int::SD_EXIST);
    assert!(!rig.host.irq(), "a level makes no interrupt");
    rig.w(w::BIER, int::TRANS_OK);
    assert!(rig.host.irq());
    rig.w(w::BIPR, int::TRANS_OK | int::SD_EXIST);
    assert!(!rig.host.irq());
    assert_eq!(rig.r(w::BIPR), int::CMD_DONE | int::SD_EXIST, "write 1 clears, levels stay");
    assert_eq!(rig.host.stats().interrupts, 1);
}

#[test]
fn a_lost_interrupt_leaves_its_bits() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.next(Point::Interrupt, &[Strike::Lost]);
    rig.start_list(&[wr(FREE, 0xff, 1)], 0);
    rig.run(20_000);
    assert!(!rig.host.irq());
    assert_eq!(rig.r(w::BIPR) & int::LATCHED, DONE);
    rig.w(w::BIPR, DONE);
    assert_eq!(rig.run_list(&[wr(FREE, 0xff, 1)]), DONE);
}

#[test]
fn a_dead_chip_and_hanging_ones() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.next(Point::Dma, &[Strike::Never, Strike::Stuck]);
    assert_eq!(rig.run_list(&[wr(FREE, 0xff, 1)]), 0);
    rig.w(w::HCBCTLR, w::STOP);
    assert_eq!(rig.run_list(&[wr(FREE, 0xff, 1)]), DONE);
    rig.w(w::HAIMR, w::START | rd(FREE));
    rig.run(1_000_000);
    assert_eq!(rig.r(w::HAIMR) >> 31, 1);
    rig.next(Point::Dma, &[Strike::Gone]);
    rig.start_list(&[wr(FREE, 0xff, 1)], 0);
    assert_eq!(rig.r(w::BIPR), u32::MAX);
    assert!(!rig.host.irq());
}

#[test]
fn the_clock_comes_from_pll_dividers_and_mode() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.set(card::CLK_EN, 4, 0);
    for (n, divider, config1, hz) in [
        (206, 0x10, 0x08, 208_000_000),
        (198, 0x20, 0x08, 100_000_000),
        (98, 0x10, 0x00, 50_000_000),
        (98, 0x10, 0x04, 50_000_000),
        (98, 0x20, 0x00, 25_000_000),
        (118, 0x30, 0x80, 117_187),
        (80, 0x40, 0xc0, 20_019),
    ] {
        rig.set(sd::CFG1, 0xff, config1);
        rig.set(card::CLK_EN, 4, 0);
        rig.clock(n, divider);
        assert_eq!(rig.host.bus().clock_hz, 0, "gated");
        rig.set(card::CLK_EN, 4, 4);
        assert_eq!(rig.host.bus().clock_hz, hz);
    }
    rig.set(sd::BUS_STAT, sd::FORCE_STOP, sd::FORCE_STOP);
    assert_eq!(rig.host.bus().clock_hz, 0);
    rig.set(sd::BUS_STAT, sd::FORCE_STOP, 0);
    rig.assert_clean();
    // Counted mistakes: a clock change while the card sees the clock, before the PLL has locked, or
    // out of its range.
    rig.set(clk::CLK_DIV, 0x70, 0x10);
    assert_eq!(rig.host.protocol_violations(), 1);
    rig.set(clk::CLK_CTL, 1, 1);
    rig.set(clk::SSC_CTL1, 0x80, 0);
    rig.set(clk::SSC_CTL1, 0x80, 0x80);
    rig.set(clk::CLK_CTL, 1, 0);
    assert_eq!((rig.host.protocol_violations(), rig.host.bus().clock_hz), (2, 0));
    rig.run(100_000);
    assert_ne!(rig.host.bus().clock_hz, 0, "it runs once it has locked");
    rig.clock(79, 0x10);
    assert_eq!((rig.host.protocol_violations(), rig.host.bus().clock_hz), (4, 0));
    rig.set(sd::CFG1, 0x0f, 0x0f);
    assert_eq!(rig.host.protocol_violations(), 5);
}

#[test]
fn supply_comes_softly_and_goes_with_the_card() {
    let mut rig = Rig::cold(RtsxConfig::GENERIC);
    rig.set(card::PWR_CTL, 3, 0);
    assert_eq!(rig.host.protocol_violations(), 1, "from off to on");
    rig.set(card::PWR_CTL, 3, 3);
    rig.set(card::PWR_CTL, 3, 2);
    assert!(!rig.host.bus().powered, "no usable supply yet");
    rig.run(5_000_000);
    rig.set(card::PWR_CTL, 3, 0);
    assert!(rig.host.bus().powered);
    assert_eq!(rig.host.protocol_violations(), 1);
    let inside = rig.host.remove(rig.now).unwrap();
    assert_eq!(rig.r(w::BIPR), int::SD_EXIST, "not at once");
    rig.run(1_000_000);
    assert_eq!(rig.r(w::BIPR), int::SD);
    assert!(rig.host.irq() && !rig.host.bus().powered);
    rig.w(w::BIPR, int::SD);
    rig.host.insert(inside, rig.now);
    rig.run(1_000_000);
    assert_eq!(rig.r(w::BIPR), int::SD | int::SD_EXIST);
    assert_eq!(rig.get(card::PWR_CTL) & 3, 3);
}

#[test]
fn a_port_counts_and_charges() {
    use crate::rtsx::{Port, PortCounters};
    use mmcq::host::Regs;
    let rig = Rig::cold(RtsxConfig::GENERIC);
    let model = std::rc::Rc::new(std::cell::RefCell::new(rig.host));
    let port = Port::new(model, crate::time::Time::new(), 800, 100);
    port.write32(w::SCRATCH, 5);
    assert_eq!((port.read32(w::SCRATCH), port.time.now()), (5, 900));
    assert_eq!(port.read8(w::SCRATCH), 0xff);
    assert_eq!(port.counters(), PortCounters { reads: 2, writes: 1 });
}

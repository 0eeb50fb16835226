//! Tests of the command path.

use super::*;

#[test]
fn a_command_takes_its_clocks_and_latches_its_flag() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    let start = rig.now;
    rig.start(SHORT | 13, 0);
    assert_eq!((rig.r(STA), rig.r(CMD) & ENABLE), (CPSMACT, ENABLE));
    rig.until(CMDREND);
    // The command takes 48 clocks, N_CR 8 clocks, the response 48.
    assert_eq!(rig.now - start, 10_400);
    // [58.10.4]: the controller clears CPSMEN.
    assert_eq!((rig.r(STA), rig.r(CMD) & ENABLE), (CMDREND, 0));
    // [58.10.5, 58.10.6]: index, content, and zeros in the registers after a short response.
    assert_eq!((rig.r(RESPCMD), rig.r(RESP1), rig.r(RESP1 + 4)), (13, 0x900, 0));
    // [58.5.4]: the path is idle for eight clocks before the next command.
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.r(STA), CPSMACT, "ICR has cleared the flag");
    rig.until(CMDREND);
    assert_eq!(rig.now - start, 10_400 + 800 + 10_400);
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_command_without_a_response_is_sent() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.command(13, 0);
    let start = rig.now + 800;
    rig.start(NONE, 0);
    assert_eq!(rig.until(CMDSENT | CMDREND), CMDSENT);
    assert_eq!(rig.now - start, 4_800);
    // [58.5.4]: the response registers do not change.
    assert_eq!((rig.r(RESPCMD), rig.r(RESP1)), (13, 0x900));
}

#[test]
fn silence_is_a_timeout_after_64_clocks() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.command(13, 0);
    rig.card.0.borrow_mut().deaf_to.push(9);
    let start = rig.now + 800;
    rig.start(LONG | 9, 0);
    // [58.5.4]: the timeout is 64 clocks, whatever DTIMER holds; the response registers do not
    // change.
    assert_eq!(rig.until(CTIMEOUT), CTIMEOUT);
    assert_eq!((rig.now - start, rig.r(RESP1)), (4_800 + 6_400, 0x900));
    assert_eq!(rig.host.stats().silent, 1);
}

#[test]
fn a_long_response_comes_from_the_top_and_its_last_bit_is_zero() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.start(LONG | 2, 0);
    assert_eq!(rig.until(CMDREND | CCRCFAIL), CMDREND);
    let words: Vec<u32> = (0..4).map(|i| rig.r(RESP1 + 4 * i)).collect();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    // [58.10.6, table 497]: RESP1 has bits 127:96. The registers hold the CRC, but not the end bit.
    assert_eq!(bytes[..15], CID);
    assert!(bytes[15] != 0 && bytes[15] & 1 == 0);
    // [58.10.5]: the index of an R2 is 0x3f.
    assert_eq!(rig.r(RESPCMD), 0x3f);
}

#[test]
fn a_response_without_a_crc_is_good_where_none_is_expected_alone() {
    let card = crate::card::tests::profile("sdxc-128g-uhs");
    let medium = crate::card::tests::medium(&card);
    let mut rig = Rig::of(Stm32SdmmcConfig::H7, card.build(medium).unwrap());
    rig.power_up(250);
    rig.start(NONE, 0);
    rig.until(CMDSENT);
    rig.command(8, 0x1aa);
    // [58.10.4]: WAITRESP 10 does not check the CRC, WAITRESP 01 does.
    for (wait, flag) in [(NO_CRC, CMDREND), (SHORT, CCRCFAIL)] {
        rig.command(55, 0);
        rig.start(wait | 41, 0x4010_0000);
        assert_eq!(rig.until(CMDREND | CCRCFAIL | CTIMEOUT) & 0xff, flag);
        assert_eq!((rig.r(RESPCMD), rig.r(RESP1) & 0x00ff_8000), (0x3f, 0x00ff_8000));
    }
    assert_eq!(rig.violations(), 0);
}

#[test]
fn a_damaged_response_is_a_crc_failure_and_stays_in_the_registers() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.next(Point::Response, &[Strike::Crc, Strike::EndBit, Strike::Status(1 << 19)]);
    for _ in 0..2 {
        rig.start(SHORT | 13, 0);
        assert_eq!(rig.until(CMDREND | CCRCFAIL), CCRCFAIL);
        assert_eq!(rig.r(RESP1), 0x900);
    }
    assert_eq!(rig.command(13, 0), 0x900 | 1 << 19);
    // A long response where a short one is expected, and a short one where a long one is expected.
    rig.start(SHORT | 2, 0);
    assert_eq!(rig.until(CMDREND | CCRCFAIL), CCRCFAIL);
    rig.start(LONG | 13, 0);
    assert_eq!(rig.until(CMDREND | CCRCFAIL), CCRCFAIL);
}

#[test]
fn a_command_into_a_command_is_refused_and_counted() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.start(SHORT | 13, 0);
    // [58.10.4]: CMD can be written only while CPSMEN is clear.
    rig.w(CMD, ENABLE | SHORT | 9);
    rig.w(CMD, ENABLE | SHORT | 13);
    rig.w(CMD, 0);
    assert_eq!((rig.r(CMD), rig.violations()), (ENABLE | SHORT | 13, 3));
    rig.until(CMDREND);
    assert_eq!(rig.card.0.borrow().commands.len(), 1);
    // Bits that the model does not support are ignored and counted: boot, suspend, waits.
    rig.start(SHORT | 13 | 1 << 16, 0);
    assert_eq!(rig.violations(), 4);
    rig.until(CMDREND);
}

#[test]
fn a_data_command_without_a_length_is_not_sent() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.start(SHORT | TRANS | 17, 0);
    rig.now += 1_000_000;
    // [58.10.8]: neither data nor the command are sent, and CPSMEN is clear.
    assert_eq!((rig.r(STA), rig.r(CMD) & ENABLE, rig.violations()), (0, 0, 1));
    assert_eq!(rig.card.0.borrow().commands.len(), 0);
}

#[test]
fn faults_of_the_line() {
    let mut rig = Rig::warm(Stm32SdmmcConfig::H7, 0);
    rig.next(Point::Command, &[Strike::Lost]);
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.until(CMDREND | CTIMEOUT), CTIMEOUT);
    assert_eq!(rig.card.0.borrow().commands.len(), 0);
    rig.next(Point::Response, &[Strike::Lost]);
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.until(CMDREND | CTIMEOUT), CTIMEOUT);
    assert_eq!(rig.card.0.borrow().commands.len(), 1);
    rig.next(Point::Command, &[Strike::Gone]);
    rig.start(SHORT | 13, 0);
    rig.now += 1_000_000;
    assert_eq!((rig.r(STA), rig.host.irq()), (u32::MAX, false));
}

#[test]
fn the_port_charges_every_access_and_counts_it() {
    use crate::stm32_sdmmc::Port;
    use crate::time::Time;
    use mmcq::host::Regs;
    use std::cell::RefCell;
    use std::rc::Rc;
    let host = Stm32Sdmmc::new(Stm32SdmmcConfig::H7, ShadowMemory::default(), None);
    let time = Time::new();
    let port = Port::new(Rc::new(RefCell::new(host)), time.clone(), 220, 100);
    port.write32(CLKCR, 250);
    port.write32(POWER, 3);
    assert_eq!((port.read32(POWER), time.now()), (3, 420));
    assert_eq!((port.counters().reads, port.counters().writes), (1, 2));
    assert_eq!(port.model.borrow().bus().clock_hz, 400_000);
}

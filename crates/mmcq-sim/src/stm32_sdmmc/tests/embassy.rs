//! The steps of embassy-stm32's driver `sdmmc` (v2) on the model: one IDMA buffer, commands by
//! polling, CMD12 after each transfer of several blocks, then ACMD13 until the card is ready.
//!
//! The steps follow the register accesses of the driver, in their order, and its documentation.

use super::*;

/// Brings the card up: CLKCR with flow control before power-on, then commands at once.
pub(super) fn bring_up(rig: &mut Rig) -> (u32, bool) {
    rig.now += 2_000_000;
    rig.w(CLKCR, FLOW);
    rig.w(POWER, 0);
    rig.w(CLKCR, FLOW | 250);
    rig.w(POWER, 3);
    command(rig, 0, 0, NONE).unwrap();
    rig.now += 2_000_000;
    command(rig, 8, 0x1aa, SHORT).unwrap();
    assert_eq!(rig.r(RESP1), 0x1aa);
    let ocr = loop {
        command(rig, 55, 0, SHORT).unwrap();
        // The driver also accepts the CRC error that R3 always causes.
        let _ = command(rig, 41, 0x8010_0000 | 0x4000_0000 | 0x0100_0000, SHORT);
        let ocr = rig.r(RESP1);
        if ocr >> 31 == 1 {
            break ocr;
        }
    };
    command(rig, 2, 0, LONG).unwrap();
    command(rig, 3, 0, SHORT).unwrap();
    let rca = rig.r(RESP1) & 0xffff_0000;
    command(rig, 9, rca, LONG).unwrap();
    command(rig, 7, rca, SHORT).unwrap();
    // The SCR of the card.
    command(rig, 16, 8, SHORT).unwrap();
    command(rig, 55, rca, SHORT).unwrap();
    let scr = read(rig, 51, 0, 8, 3);
    assert_eq!(scr[1] & 4, 4, "four lines");
    command(rig, 55, rca, SHORT).unwrap();
    command(rig, 6, 2, SHORT).unwrap();
    wait_idle(rig);
    rig.w(CLKCR, FLOW | 1 << 14 | 4);
    (rca, ocr >> 30 & 1 == 1)
}

fn wait_idle(rig: &mut Rig) {
    while rig.r(STA) & (DPSMACT | CPSMACT) != 0 {
        rig.now += 50;
    }
}

fn command(rig: &mut Rig, index: u32, arg: u32, kind: u32) -> Result<(), u32> {
    rig.w(ICR, 0x1fe0_0fff);
    while rig.r(STA) & CPSMACT != 0 {
        rig.now += 50;
    }
    rig.w(ARG, arg);
    let stop = if index & 0x3f == 12 { STOP } else { 0 };
    rig.w(CMD, ENABLE | stop | kind | index);
    let ends = if kind == NONE { CMDSENT } else { CMDREND | CCRCFAIL };
    loop {
        let status = rig.r(STA);
        if status & (ends | CTIMEOUT) != 0 {
            let bad = status & (CTIMEOUT | CCRCFAIL);
            return if bad == 0 { Ok(()) } else { Err(bad) };
        }
        rig.now += 50;
    }
}

/// Does a data transfer: clears flags, sets timer, length, buffer and direction, sends the command.
/// Returns the flags of the interrupt.
fn data(rig: &mut Rig, index: u32, arg: u32, at: u64, bytes: u32, log2: u32, read: bool) -> u32 {
    wait_idle(rig);
    rig.w(ICR, 0x1fe0_0fff);
    rig.w(DTIMER, 5_000_000);
    rig.w(DLEN, bytes);
    rig.w(IDMABASE0, at as u32);
    rig.w(IDMACTRL, 1);
    rig.w(DCTRL, log2 << 4 | u32::from(read) << 1);
    rig.w(MASK, DCRCFAIL | DTIMEOUT | DATAEND | DABORT);
    command(rig, TRANS | index, arg, SHORT).unwrap();
    rig.now = rig.host.advance(u64::MAX);
    assert!(rig.host.irq());
    rig.w(MASK, 0);
    let status = rig.r(STA) & (DCRCFAIL | DTIMEOUT | DATAEND | DABORT);
    if index == 18 || index == 25 {
        command(rig, 12, 0, SHORT).unwrap();
    }
    rig.w(ICR, 0x1fe0_0fff);
    wait_idle(rig);
    rig.w(IDMACTRL, 0);
    status
}

fn read(rig: &mut Rig, index: u32, arg: u32, bytes: u32, log2: u32) -> Vec<u8> {
    let memory = rig.to_read(bytes as usize);
    assert_eq!(data(rig, index, arg, memory.bus, bytes, log2, true), DATAEND);
    memory.take()
}

/// Sends ACMD13 until the card is in `tran`.
fn until_ready(rig: &mut Rig, rca: u32) {
    loop {
        command(rig, 55, rca, SHORT).unwrap();
        if rig.r(RESP1) >> 9 & 0xf == 4 {
            break;
        }
    }
    read(rig, 13, 0, 64, 6);
}

#[test]
fn embassys_reads_and_writes_arrive() {
    // The driver refuses cards of version 1, since it needs a response to CMD8.
    for (name, high) in [("sdxc-128g-uhs", true), ("sdhc-16g-hs", true), ("pro-plus-128", true)] {
        let card = crate::card::tests::profile(name);
        let medium = crate::card::tests::medium(&card);
        let mut rig = Rig::of(Stm32SdmmcConfig::H7, card.build(medium).unwrap());
        let (rca, blocks) = bring_up(&mut rig);
        assert_eq!(blocks, high, "{name}");
        let place = |block: u32| if high { block } else { block * 512 };
        let bytes = pattern(8 * 512);
        command(&mut rig, 16, 512, SHORT).unwrap();
        let memory = rig.to_write(bytes.clone());
        assert_eq!(data(&mut rig, 25, place(1000), memory.bus, 8 * 512, 9, false), DATAEND);
        drop(memory.take());
        until_ready(&mut rig, rca);
        let memory = rig.to_write(bytes[..512].to_vec());
        assert_eq!(data(&mut rig, 24, place(2000), memory.bus, 512, 9, false), DATAEND);
        drop(memory.take());
        until_ready(&mut rig, rca);
        command(&mut rig, 16, 512, SHORT).unwrap();
        assert_eq!(read(&mut rig, 18, place(1000), 8 * 512, 9), bytes, "{name}");
        assert_eq!(read(&mut rig, 17, place(2000), 512, 9), bytes[..512], "{name}");
        let mut stored = vec![0; 8 * 512];
        rig.host.card_mut().unwrap().peek(1000 * 512, &mut stored).unwrap();
        assert_eq!(stored, bytes, "{name}");
        assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0), "{name}");
    }
}

/// Checks that a dropped future sends CMD12 with CMDSTOP, and that the data path is idle again.
#[test]
fn embassys_abort_ends_a_transfer() {
    let card = crate::card::tests::profile("sdxc-128g-uhs");
    let medium = crate::card::tests::medium(&card);
    let mut rig = Rig::of(Stm32SdmmcConfig::H7, card.build(medium).unwrap());
    bring_up(&mut rig);
    let memory = rig.to_read(64 * 512);
    wait_idle(&mut rig);
    rig.w(DLEN, 64 * 512);
    rig.buffer(memory.bus);
    rig.w(DCTRL, 9 << 4 | 2);
    command(&mut rig, TRANS | 18, 0, SHORT).unwrap();
    rig.now += 100_000;
    assert_eq!(rig.r(STA) & DPSMACT, DPSMACT);
    command(&mut rig, 12, 0, SHORT).unwrap();
    wait_idle(&mut rig);
    assert_eq!(rig.r(STA) & DABORT, DABORT);
    rig.w(ICR, 0x1fe0_0fff);
    rig.w(IDMACTRL, 0);
    assert_eq!(read(&mut rig, 17, 5, 512, 9).len(), 512);
    assert_eq!((rig.violations(), rig.memory.violation_count()), (0, 0));
}

//! Tests of busy after a response, and of the timer DTIMER.

use super::*;

/// Makes a test bench whose card is busy for this time after CMD12.
fn busy(ns: u64) -> Rig {
    let rig = Rig::warm(Stm32SdmmcConfig::H7, FLOW);
    rig.card.0.borrow_mut().r1b_busy_ns = ns;
    rig
}

#[test]
fn busy_after_a_response_is_a_level_and_its_end_a_flag() {
    let mut rig = busy(500_000);
    let start = rig.now;
    rig.command(12, 0);
    // [58.6.6]: busy is sampled at the end of the response. [58.5.4, Idle]: the data path is
    // active.
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    rig.now = start + 4_800 + 499_999;
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    rig.now += 1;
    // [58.6.6]: the status bit falls when the flag BUSYD0END is set.
    assert_eq!(rig.sta(), CMDREND | BUSYD0END);
    rig.w(ICR, BUSYD0END);
    assert_eq!(rig.sta(), CMDREND);
    assert_eq!(rig.host.stats().busy_ns, 500_000 - 5_600);
    // Without busy neither BUSYD0 nor BUSYD0END is set.
    rig.card.0.borrow_mut().r1b_busy_ns = 0;
    rig.command(12, 0);
    rig.now += 1_000_000;
    assert_eq!(rig.sta(), CMDREND);
}

#[test]
fn the_end_of_busy_interrupts_and_the_level_does_not() {
    let mut rig = busy(500_000);
    // [58.10.11]: BUSYD0, DPSMACT and CPSMACT do not interrupt. [58.10.13]: their bits in MASK are
    // reserved, and so is the bit of IDMATE.
    rig.w(MASK, u32::MAX);
    assert_eq!(rig.r(MASK) & (BUSYD0 | DPSMACT | CPSMACT | IDMATE | RXFIFOE | TXFIFOF), 0);
    assert_eq!(rig.r(MASK) & (BUSYD0END | IDMABTC | SDIOIT | VSWEND | CKSTOP), 0x1660_0000);
    rig.w(MASK, BUSYD0END);
    rig.start(SHORT | 12, 0);
    let end = rig.now + 4_800 + 500_000;
    rig.now = rig.host.advance(u64::MAX);
    assert_eq!((rig.host.irq(), rig.now), (true, end));
    rig.w(ICR, BUSYD0END);
    assert!(!rig.host.irq());
}

#[test]
fn data_registers_are_refused_during_busy_and_commands_go_on() {
    let mut rig = busy(500_000);
    rig.command(12, 0);
    rig.prepare(READ, 512);
    assert_eq!((rig.r(DLEN), rig.violations()), (0, 2));
    // After CMD13 the status shows the same busy.
    rig.command(13, 0);
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    // Data can start only after the end of busy, since the data path is active before.
    rig.until(BUSYD0END);
    assert_eq!(rig.sta(), CMDREND | BUSYD0END);
    rig.prepare(READ, 512);
    assert_eq!(rig.violations(), 2);
}

#[test]
fn busy_longer_than_the_timer_leaves_the_path_active() {
    let mut rig = busy(500_000);
    rig.w(DTIMER, 1_000);
    let start = rig.now;
    rig.command(12, 0);
    // [58.5.4]: the timer begins two clocks after the response.
    assert_eq!(rig.until(DTIMEOUT), CMDREND | BUSYD0 | DPSMACT | DTIMEOUT);
    assert_eq!(rig.now - start, 10_400 + 200 + 100_000);
    // [table 486]: the path stays in Busy; an end of busy after the timeout is not reported.
    rig.now += 1_000_000;
    assert_eq!(rig.sta(), CMDREND | DTIMEOUT | DPSMACT);
    rig.prepare(READ, 512);
    assert_eq!(rig.r(DLEN), 0);
    // An abort ends this state [table 486, DABORT], and so does a reset of the controller [table
    // 487].
    rig.card.0.borrow_mut().r1b_busy_ns = 0;
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | DABORT);
    rig.prepare(READ, 512);
    assert_eq!(rig.r(DLEN), 512);
}

#[test]
fn an_abort_during_busy_ends_with_it() {
    let mut rig = busy(500_000);
    rig.command(7, 0);
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    rig.card.0.borrow_mut().r1b_busy_ns = 0;
    rig.command(12 | STOP, 0);
    assert_eq!(rig.sta(), CMDREND | BUSYD0 | DPSMACT);
    assert_eq!(rig.until(DABORT), CMDREND | BUSYD0END | DABORT);
}

#[test]
fn busy_that_never_ends_is_a_timeout_and_a_reset_leads_out() {
    let card = crate::card::tests::profile("sdxc-128g-uhs");
    let medium = crate::card::tests::medium(&card);
    let mut rig = Rig::of(Stm32SdmmcConfig::H7, card.build(medium).unwrap());
    super::embassy::bring_up(&mut rig);
    let plan = Plan::none().next(Point::Busy, &[Strike::Never]);
    rig.host.card_mut().unwrap().set_faults(Faults::new(plan));
    let memory = rig.to_write(pattern(512));
    rig.buffer(memory.bus);
    rig.prepare(WRITE, 512);
    rig.w(DTIMER, 100_000);
    rig.start(SHORT | TRANS | 24, 0);
    let status = rig.until(DATAEND | DTIMEOUT);
    assert_eq!(status & (DATAEND | DTIMEOUT | DPSMACT), DTIMEOUT | DPSMACT);
    // The abort waits for DAT0, which stays low for ever.
    rig.start(SHORT | STOP | 12, 0);
    rig.now += 10_000_000_000;
    assert_eq!(rig.sta() & (DABORT | DPSMACT), DPSMACT);
    rig.host.reset(rig.now);
    assert_eq!(rig.sta(), 0);
}

#[test]
fn a_card_that_leaves_lets_dat0_go() {
    let mut rig = busy(500_000_000);
    rig.command(12, 0);
    rig.now += 10_000;
    assert!(rig.host.remove(rig.now).is_some());
    assert_eq!(rig.sta(), CMDREND | BUSYD0END);
    rig.start(SHORT | 13, 0);
    assert_eq!(rig.until(CMDREND | CTIMEOUT), CTIMEOUT);
}

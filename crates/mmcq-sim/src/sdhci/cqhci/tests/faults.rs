//! Tests of the effect of each fault in chapter H of the catalogue (command queue).

use super::errors::{goes_on, loaded, recover};
use super::rig::{CFG, CTL, DPT, DQS, INT, IS, READ, Rig, SSC1, TCN, TDBR, TERRI};
use crate::faults::catalogue::by_injection;
use crate::faults::{Faults, Plan, Point, Strike};
use crate::slot::Controller;

const TIMEOUT: u32 = 1 << 16;

/// Returns the plan in which this fault strikes the first event at its point.
fn plan(name: &str) -> Plan {
    by_injection(name).unwrap().1.plan(1).unwrap()
}

fn strike(rig: &mut Rig, plan: Plan) -> Faults {
    let faults = Faults::new(plan);
    rig.host.set_faults(faults.clone());
    rig.host.card_mut().unwrap().set_faults(faults.clone());
    faults
}

fn struck(name: &str) -> (Rig, Faults) {
    let mut rig = loaded();
    let faults = strike(&mut rig, plan(name));
    (rig, faults)
}

/// Sends a command of the driver that the card does not answer.
fn unanswered(rig: &mut Rig, index: u32, arg: u32) {
    rig.w(0x34, 0xffff_ffff);
    rig.w(0x08, arg);
    rig.host.write(0x0e, 2, index << 8 | 0x1b, rig.now);
    rig.run(1_000_000);
    let status = rig.r(0x30);
    assert_eq!(status & TIMEOUT, TIMEOUT, "CMD{index}");
    rig.w(0x30, status);
    rig.host.write(0x2f, 1, 6, rig.now);
    rig.run(10_000);
}

/// Acknowledges all status bits that an error has left.
fn acknowledge(rig: &mut Rig) {
    let (status, is, done) = (rig.r(0x30), rig.r(IS), rig.r(TCN));
    rig.w(IS, is);
    rig.w(TCN, done);
    rig.w(0x30, status);
}

#[test]
fn completions_that_were_cleared() {
    let (mut rig, _) = struck("queue_stale");
    rig.w(TDBR, 0b1101);
    rig.halt();
    rig.w(CTL, 1 << 8 | 1);
    assert_eq!((rig.r(TDBR), rig.r(TCN)), (0, 0b1101));
    rig.w(CTL, 0);
    assert_eq!(rig.r(TCN), 0b1101, "as if they were complete");
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_completion_before_the_data() {
    let (mut rig, _) = struck("task_early");
    rig.w(TDBR, 0b0100);
    let (status, is) = rig.interrupt();
    assert_eq!((status, is, rig.r(TCN)), (1 << 14, 2, 0b0100));
    let there = rig.card(1600, 4096);
    assert_eq!(rig.bytes(2, 3584), there[..3584]);
    assert_ne!(rig.bytes(2, 4096), there, "the last block is missing");
    acknowledge(&mut rig);
    rig.run(1_000_000);
    assert_eq!((rig.bytes(2, 4096), rig.r(TCN)), (there, 0), "complete once");
    goes_on(&mut rig);
}

#[test]
fn halts_that_do_not_come() {
    let (mut rig, faults) = struck("halt_never");
    rig.w(CTL, 1);
    rig.run(10_000_000_000);
    assert_eq!(rig.r(CTL), 0);
    rig.w(CTL, 1);
    rig.run(10_000_000_000);
    assert_eq!(rig.r(CTL), 0, "also when it is asked again");
    let cfg = rig.r(CFG);
    rig.w(CFG, cfg & !1);
    rig.w(CFG, cfg);
    rig.halt();
    rig.w(CTL, 0);
    faults.replace(plan("halt_late"));
    rig.w(IS, 0xf);
    rig.w(CTL, 1);
    rig.run(399_000_000);
    assert_eq!((rig.r(CTL), rig.r(IS)), (0, 0));
    rig.run(2_000_000);
    assert_eq!((rig.r(CTL), rig.r(IS)), (1, 1));
    rig.w(CTL, 0);
    acknowledge(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_doorbell_that_does_nothing() {
    let (mut rig, _) = struck("doorbell_lost");
    rig.w(TDBR, 0b1111);
    assert_eq!(rig.r(TDBR), 0);
    rig.run(1_000_000_000);
    assert_eq!(rig.said(), []);
    goes_on(&mut rig);
}

#[test]
fn an_error_of_no_task() {
    let mut rig = loaded();
    strike(&mut rig, plan("blame_missing").shot(Point::ReadBlock, 3, Strike::Crc));
    rig.w(TDBR, 0b0100);
    let (status, _) = rig.interrupt();
    assert_eq!((status >> 21 & 1, rig.r(TERRI), rig.r(TDBR)), (1, 0, 0b0100));
    rig.halt();
    rig.host.write(0x2f, 1, 6, rig.now);
    rig.run(10_000);
    acknowledge(&mut rig);
    rig.w(0x34, 0xffff_ffff);
    rig.command(12, 0, 0xdb);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn an_error_of_a_task_that_is_complete() {
    let (mut rig, _) = struck("red_late");
    rig.w(TDBR, 0b0100);
    let (_, is) = rig.interrupt();
    assert_eq!((is, rig.r(TCN)), (6, 0b0100), "complete, and with an error");
    assert_eq!(rig.r(TERRI), 1 << 31 | 2 << 24 | 46 << 16);
    assert_eq!(rig.bytes(2, 4096), rig.card(1600, 4096));
    acknowledge(&mut rig);
    rig.w(TDBR, 1);
    rig.run(10_000_000);
    assert_eq!((rig.r(TDBR), rig.r(TCN)), (1, 0), "it stands");
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_task_that_is_not_answered() {
    let (mut rig, _) = struck("task_unanswered");
    rig.w(TDBR, 1);
    let (status, _) = rig.interrupt();
    assert_eq!((status & TIMEOUT, rig.r(TERRI) & 0xffff, rig.r(DPT)), (TIMEOUT, 0x802c, 0));
    acknowledge(&mut rig);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_task_that_never_gets_ready() {
    let (mut rig, _) = struck("task_never_ready");
    rig.w(TDBR, 0b0101);
    assert_eq!(rig.complete(0b0100), [2], "the one behind it");
    rig.run(5_000_000_000);
    assert_eq!((rig.r(TDBR), rig.r(DPT), rig.r(DQS) & 1), (1, 1, 0));
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_task_that_is_shown_and_is_not_ready() {
    let (mut rig, _) = struck("task_ready_falls");
    rig.w(TDBR, 1);
    let (status, _) = rig.interrupt();
    assert_eq!((status & TIMEOUT, rig.r(TERRI) & 0xffff, rig.r(DQS)), (TIMEOUT, 0x802e, 1));
    acknowledge(&mut rig);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn tasks_that_are_not_discarded() {
    let (mut rig, _) = struck("discard_refused");
    rig.w(TDBR, 0b1101);
    rig.run(50_000);
    rig.halt();
    unanswered(&mut rig, 48, 1);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_card_that_forgets_at_a_stop() {
    let ready = |forgets: bool| {
        let mut rig = loaded();
        if forgets {
            strike(&mut rig, plan("queue_forgotten"));
        }
        rig.w(TDBR, 0b1101);
        rig.run(50_000);
        rig.halt();
        let told = rig.r(DPT);
        assert_ne!(told, 0);
        // No data are under way, so CMD12 is illegal.
        unanswered(&mut rig, 12, 0);
        rig.run(10_000_000);
        let ready = rig.command(13, 1 << 16 | 1 << 15, 0x1a);
        acknowledge(&mut rig);
        recover(&mut rig);
        goes_on(&mut rig);
        (told, ready)
    };
    let (told, kept) = ready(false);
    assert_eq!(told, kept);
    assert_eq!(ready(true), (told, 0));
}

#[test]
fn a_task_that_is_overtaken() {
    let order = |struck: bool| {
        let mut rig = loaded();
        if struck {
            strike(&mut rig, plan("task_overtaken"));
        }
        // A write, and after it a read of the same sectors.
        rig.describe(0, INT | READ, 8, 800);
        rig.fill(1, &[0x5a; 4096]);
        rig.w(TDBR, 0b0010);
        rig.w(TDBR, 0b0001);
        let order = rig.complete(0b0011);
        rig.assert_clean();
        (order, rig.bytes(0, 4096) == [0x5a; 4096])
    };
    assert_eq!(order(false), (vec![1, 0], true));
    assert_eq!(order(true), (vec![0, 1], false), "it reads what was there before");
}

#[test]
fn a_task_that_goes_astray() {
    let (mut rig, _) = struck("task_astray");
    rig.w(TDBR, 0b0100);
    rig.complete(0b0100);
    assert_eq!(rig.bytes(2, 4096), rig.card(1608, 4096));
    assert_ne!(rig.bytes(2, 4096), rig.card(1600, 4096));
    goes_on(&mut rig);
}

#[test]
fn a_pause_that_falls_back() {
    let (mut rig, _) = struck("poll_pause_reset");
    rig.w(SSC1, 0x0001_0040);
    let cfg = rig.r(CFG);
    rig.w(CFG, cfg & !1);
    assert_eq!(rig.r(SSC1), 0x0001_0040);
    rig.w(CFG, cfg);
    assert_eq!(rig.r(SSC1), 0x0001_0008);
    goes_on(&mut rig);
}

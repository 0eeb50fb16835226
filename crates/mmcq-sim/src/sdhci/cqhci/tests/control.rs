//! Tests of halting, clearing and disabling the engine, and of what a driver must not do.

use super::rig::{CFG, CTL, DPT, Form, INT, IS, READ, Rig, TCLR, TCN, TDBR};
use crate::card::tests::profile;
use crate::sdhci::CqhciConfig;

fn loaded() -> Rig {
    let mut rig = Rig::new(Form::Narrow);
    for slot in 0..4 {
        rig.describe(slot, INT | READ, 8, 800 * slot);
    }
    rig
}

#[test]
fn an_idle_engine_halts_at_once_and_goes_on_at_once() {
    let mut rig = loaded();
    assert!(rig.halt() <= 1_000);
    assert_eq!(rig.interrupt(), (1 << 14, 1), "HAC");
    rig.w(IS, 1);
    // While the engine is halted, the driver uses the bus.
    rig.w(0x34, 0xffff_ffff);
    assert_eq!(rig.command(13, 1 << 16, 0x1a), 0x900);
    rig.w(0x34, 0xffff_4000);
    rig.w(CTL, 0);
    assert_eq!(rig.r(CTL), 0);
    rig.w(TDBR, 1);
    assert_eq!(rig.complete(1), [0]);
    rig.assert_clean();
}

#[test]
fn a_halt_lets_the_task_at_hand_end_and_begins_no_other() {
    let mut rig = loaded();
    rig.w(TDBR, 0b1111);
    while !rig.said().contains(&46) {
        rig.run(1_000);
    }
    let waited = rig.halt();
    assert!(waited > 50_000 && waited < 150_000, "{waited}");
    let done = rig.r(TCN);
    assert_eq!((done.count_ones(), rig.r(TDBR)), (1, 0b1111 & !done));
    let said = rig.said().len();
    rig.run(1_000_000);
    assert_eq!(rig.said().len(), said);
    rig.w(IS, 3);
    rig.w(TCN, done);
    rig.w(CTL, 0);
    rig.complete(0b1111 & !done);
    rig.assert_clean();
}

#[test]
fn tasks_are_cleared_one_by_one_or_all() {
    let mut rig = loaded();
    rig.w(TDBR, 0b1111);
    rig.run(20_000);
    rig.halt();
    let known = rig.r(DPT);
    assert!(known != 0);
    rig.w(IS, 0xf);
    rig.w(TCLR, 1 << 1);
    assert_eq!((rig.r(TDBR), rig.r(DPT) & 2, rig.r(IS)), (0b1101, 0, 8));
    rig.w(CTL, 1 << 8 | 1);
    assert_eq!((rig.r(TDBR), rig.r(DPT), rig.r(CTL)), (0, 0, 1), "CLEAR_ALL clears itself");
    // Clearing sends nothing to the card: the driver sends CMD48 itself.
    rig.w(0x34, 0xffff_ffff);
    rig.command(48, 1, 0x1b);
    rig.w(0x34, 0xffff_4000);
    rig.w(IS, 0xf);
    rig.w(CTL, 0);
    rig.w(TDBR, 0b1111);
    rig.complete(0b1111);
    rig.assert_clean();
}

#[test]
fn a_stale_completion_comes_back_after_a_clear_where_the_controller_has_that() {
    let queue = CqhciConfig { stale_completions: true, ..CqhciConfig::INTEL };
    let mut rig = Rig::with(Form::Narrow, profile("emmc-queue"), queue);
    rig.describe(2, INT | READ, 8, 0);
    rig.w(TDBR, 1 << 2);
    rig.run(20_000);
    rig.halt();
    rig.w(CTL, 1 << 8 | 1);
    assert_eq!(rig.r(TCN), 1 << 2);
    let cfg = rig.r(CFG);
    rig.w(CFG, cfg & !1);
    rig.w(CFG, cfg);
    assert_eq!(rig.r(TCN), 0, "gone when it was off");
}

#[test]
fn what_a_driver_must_not_do_is_counted() {
    let wrong = |what: &dyn Fn(&mut Rig)| {
        let mut rig = loaded();
        rig.assert_clean();
        what(&mut rig);
        rig.host.first_violation().map_or("nothing", |violation| violation.1).to_owned()
    };
    let expect = |what: &dyn Fn(&mut Rig), said: &str| {
        let found = wrong(what);
        assert!(found.contains(said), "{found}");
    };
    expect(&|rig| rig.w(CTL, 1 << 8), "not halted");
    expect(&|rig| rig.w(TCLR, 1), "not in a halt");
    expect(&|rig| rig.w(CFG, 1), "configured while it is on");
    expect(
        &|rig| {
            rig.w(TDBR, 1);
            rig.w(TDBR, 1);
        },
        "not done",
    );
    expect(
        &|rig| {
            rig.raw(5, 0);
            rig.w(TDBR, 1 << 5);
        },
        "not valid",
    );
    expect(
        &|rig| {
            rig.w(TDBR, 1);
            rig.w(0x220, 0x800);
        },
        "moved",
    );
    expect(
        &|rig| {
            rig.host.write(0x0e, 2, 13 << 8 | 0x1a, rig.now);
        },
        "while the queue engine has the bus",
    );
    expect(&|rig| rig.host.write(0x228, 1, 1, rig.now), "32 bits");
    expect(
        &|rig| {
            rig.w(CFG, 0);
            rig.w(TDBR, 1);
        },
        "that is off",
    );
}

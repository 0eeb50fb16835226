//! Tests of errors and of how the command queue engine reports them.

use super::rig::{CFG, CTL, DPT, Form, INT, IS, READ, Rig, TCN, TDBR, TERRI};
use crate::faults::{Faults, Plan, Point, Strike};
use crate::memory::DeviceMemory;
use crate::slot::Controller;

const TIMEOUT: u32 = 1 << 16;
const DATA_CRC: u32 = 1 << 21;

pub(super) fn loaded() -> Rig {
    let mut rig = Rig::new(Form::Short);
    for slot in 0..4 {
        rig.describe(slot, INT | if slot == 1 { 0 } else { READ }, 8, 800 * slot);
    }
    rig
}

/// Recovers as a driver does: halts the engine, resets both circuits, sends CMD48, clears the
/// tasks, switches the engine off and on.
pub(super) fn recover(rig: &mut Rig) {
    rig.halt();
    rig.host.write(0x2f, 1, 6, rig.now);
    rig.run(10_000);
    rig.w(0x34, 0xffff_ffff);
    for _ in 0..100 {
        if rig.command(13, 1 << 16, 0x1a) >> 9 & 0xf == 4 {
            break;
        }
        rig.run(100_000);
    }
    rig.command(48, 1, 0x1b);
    rig.w(CTL, 1 << 8 | 1);
    let cfg = rig.r(CFG);
    rig.w(CFG, cfg & !1);
    rig.w(CFG, cfg);
    rig.w(IS, 0xf);
    let left = rig.r(0x30);
    rig.w(0x30, left);
    rig.w(0x34, 0xffff_4000);
}

/// Checks that all four tasks complete after an error.
pub(super) fn goes_on(rig: &mut Rig) {
    assert_eq!(rig.r(TCN), 0);
    rig.w(TDBR, 0b1111);
    rig.complete(0b1111);
    for slot in [0, 2, 3] {
        assert_eq!(rig.bytes(slot, 4096), rig.card(800 * slot, 4096));
    }
    rig.assert_clean();
}

#[test]
fn a_task_that_is_not_announced() {
    let mut rig = loaded();
    // The fault strikes CMD44 of the third task: each task before it needs two commands.
    rig.host.set_faults(Faults::new(Plan::none().shot(Point::Response, 5, Strike::Lost)));
    rig.w(0x240, 0x1000);
    rig.w(TDBR, 0b1101);
    let (status, _) = rig.interrupt();
    assert_eq!(status & TIMEOUT, TIMEOUT);
    assert_eq!(rig.r(TERRI) & 0xffff, 0x832c, "CMD44 of task 3");
    let said = rig.said().len();
    rig.run(1_000_000);
    assert_eq!(rig.said().len(), said, "it stands");
    rig.w(0x30, status);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_block_that_is_damaged() {
    let mut rig = loaded();
    rig.host.set_faults(Faults::new(Plan::none().shot(Point::ReadBlock, 3, Strike::Crc)));
    rig.w(TDBR, 0b0100);
    let (status, _) = rig.interrupt();
    assert_eq!(status & DATA_CRC, DATA_CRC);
    assert_eq!(rig.r(TERRI), 1 << 31 | 2 << 24 | 46 << 16);
    assert_eq!((rig.r(TDBR), rig.r(TCN)), (0b0100, 0));
    // The card continues to send data until CMD12.
    rig.halt();
    rig.host.write(0x2f, 1, 6, rig.now);
    rig.run(10_000);
    rig.w(0x30, status);
    rig.w(0x34, 0xffff_ffff);
    rig.command(12, 0, 0xdb);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_block_that_never_comes_holds_the_halt_up_until_the_lines_are_reset() {
    let mut rig = loaded();
    // Drivers set the longest data timeout: more than two minutes.
    rig.host.write(0x2e, 1, 0x0e, rig.now);
    rig.host.set_faults(Faults::new(Plan::none().shot(Point::ReadBlock, 3, Strike::Lost)));
    rig.w(TDBR, 0b1101);
    rig.run(3_000_000_000);
    rig.w(CTL, 1);
    rig.run(500_000_000);
    assert_eq!((rig.r(CTL), rig.r(TDBR)), (0, 0b1101), "a task that is executed is not cut off");
    rig.host.write(0x2f, 1, 2, rig.now);
    rig.run(10_000);
    rig.host.write(0x2f, 1, 4, rig.now);
    rig.run(10_000);
    assert_eq!((rig.r(CTL), rig.r(IS)), (1, 1), "halted, and it says so");
    rig.w(0x34, 0xffff_ffff);
    rig.command(12, 0, 0xdb);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_late_error_of_a_write_is_a_response_error() {
    let mut rig = loaded();
    let faults = Faults::new(Plan::none().shot(Point::Medium, 1, Strike::Fail));
    rig.host.card_mut().unwrap().set_faults(faults);
    rig.w(TDBR, 0b0010);
    assert_eq!(rig.complete(0b0010), [1], "the write itself is complete");
    rig.w(TDBR, 0b0001);
    let (_, is) = rig.interrupt();
    assert_eq!(is & 4, 4, "RED");
    assert_eq!(rig.r(TERRI), 1 << 15 | 44, "and it blames a task that has no part in it");
    assert_eq!(rig.r(0x25c) & 1 << 19, 1 << 19);
    rig.run(1_000_000);
    assert_eq!(rig.r(DPT), 0);
    recover(&mut rig);
    goes_on(&mut rig);
}

#[test]
fn a_list_that_ends_early() {
    let mut rig = loaded();
    // The last but one descriptor of the list has the attribute End.
    let list = 0x1000 + 0x100 * 2;
    let mut head = [0; 4];
    rig.ram.device_read(list, &mut head).unwrap();
    head[0] |= 2;
    rig.ram.device_write(list, &head).unwrap();
    rig.w(TDBR, 0b0100);
    let (status, _) = rig.interrupt();
    assert_eq!(status & 1 << 25, 1 << 25, "an ADMA error");
    assert_eq!(rig.r(TERRI) >> 16, 0x8000 | 2 << 8 | 46);
}

#[test]
fn a_reset_of_everything_forgets_the_engine() {
    let mut rig = loaded();
    rig.w(TDBR, 0b1111);
    rig.host.write(0x2f, 1, 1, rig.now);
    rig.run(10_000);
    assert_eq!((rig.r(CFG), rig.r(TDBR), rig.r(0x240)), (0, 0, 0x11000));
    rig.run(10_000_000);
    assert_eq!(rig.r(TCN), 0);
}

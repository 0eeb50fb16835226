//! Tests of tasks, from the doorbell to their completion.

use super::rig::{BARRIER, CRDCT, DPT, DQS, Form, IC, INT, IS, READ, Rig, SSC1, TCN, TDBR};
use crate::card::tests::profile;
use crate::sdhci::CqhciConfig;
use crate::world::Device;

#[test]
fn what_the_registers_say() {
    let mut rig = Rig::new(Form::Narrow);
    assert_eq!((rig.r(0x200), rig.r(0x204)), (0x510, 0x30c0));
    assert_eq!((rig.r(SSC1), rig.r(0x250)), (0x11000, 0xfdf9_a080));
    assert_eq!(rig.r(0x20c), 0, "not halted");
    rig.assert_clean();
}

#[test]
fn tasks_of_each_form_move_their_data() {
    for form in [Form::Narrow, Form::Wide, Form::Short] {
        let mut rig = Rig::new(form);
        let sent: Vec<u8> = (0..4096u32).map(|at| (at * 13 % 249) as u8).collect();
        rig.fill(3, &sent);
        rig.describe(3, INT, 8, 800);
        rig.describe(30, INT | READ, 4, 80_000);
        rig.describe(0, INT | READ, 2, 160_000);
        rig.w(TDBR, 1 << 3 | 1 << 30 | 1);
        assert_eq!(rig.r(TDBR), 1 << 3 | 1 << 30 | 1, "it reads back at once");
        assert_eq!(rig.complete(1 << 3 | 1 << 30 | 1).len(), 3, "{form:?}");
        assert_eq!(rig.card(800, 4096), sent);
        assert_eq!(rig.bytes(30, 2048), rig.card(80_000, 2048));
        assert_eq!(rig.bytes(0, 1024), rig.card(160_000, 1024));
        assert_eq!((rig.r(TDBR), rig.r(DPT), rig.r(TCN)), (0, 0, 0));
        // The lowest slot goes first; then the slots that are ready.
        let said = rig.said();
        assert_eq!(said[..2], [44, 45]);
        assert_eq!(rig.commands.borrow()[0].1, 1 << 30 | 2);
        assert_eq!(said.iter().filter(|&&index| matches!(index, 46 | 47)).count(), 3);
        assert!(said.contains(&13));
        rig.assert_clean();
    }
}

#[test]
fn a_queue_of_reads_ends_out_of_order_and_with_its_own_data() {
    let mut rig = Rig::new(Form::Short);
    let slots: u32 = 0x7fff_ffff;
    let sector = |slot: u64| slot * 0x9e37 % 9973 * 64;
    for slot in 0..31 {
        rig.describe(slot, INT | READ, 1, sector(slot));
    }
    let from = rig.now;
    rig.w(TDBR, slots);
    let order = rig.complete(slots);
    assert_eq!(order.len(), 31);
    assert!(order.windows(2).any(|pair| pair[1] < pair[0]), "{order:?}");
    for slot in 0..31 {
        assert_eq!(rig.bytes(slot, 512), rig.card(sector(slot), 512), "slot {slot}");
    }
    // The card's three flash units need 133 us for each read. The total is far less than 31 reads
    // one by one.
    assert!(rig.now - from < 31 * 80_000, "{}", rig.now - from);
    rig.assert_clean();
}

#[test]
fn the_card_is_asked_again_after_the_idle_time() {
    for (clocks, polls) in [(4096u32, 5..=9), (192, 20..=50)] {
        let mut rig = Rig::with(Form::Narrow, profile("emmc-queue-one"), CqhciConfig::INTEL);
        rig.w(SSC1, clocks);
        rig.describe(0, INT | READ, 1, 0);
        rig.w(TDBR, 1);
        rig.complete(1);
        let asked = rig.said().iter().filter(|&&index| index == 13).count();
        assert!(polls.contains(&asked), "{asked} times with {clocks} clocks");
    }
}

#[test]
fn the_card_is_asked_beside_the_last_block_if_that_is_wanted() {
    let order = |ssc1: u32| {
        let mut rig = Rig::new(Form::Narrow);
        rig.w(SSC1, ssc1);
        rig.describe(0, INT, 8, 0);
        rig.describe(1, INT, 8, 80);
        rig.describe(2, INT | READ, 8, 160);
        rig.w(TDBR, 0b111);
        rig.complete(0b111);
        rig.assert_clean();
        rig.said()
    };
    let asked = |said: &[u8]| said.iter().filter(|&&index| index == 13).count();
    let (beside, idle) = (order(0x11000), order(0x1000));
    assert!(asked(&beside) > 0 && asked(&idle) > 0);
    assert_ne!(beside, idle, "in another order");
}

#[test]
fn direct_commands_and_barriers() {
    let mut rig = Rig::new(Form::Wide);
    rig.fill(0, &[7; 4096]);
    rig.describe(0, INT, 8, 0);
    rig.describe(1, INT | READ, 8, 8_000);
    // CMD6 with R1b as a barrier: it flushes after both tasks and before the next.
    rig.w(TDBR, 0b11);
    rig.raw(31, 0x0320_0100 << 32 | 3 << 23 | 6 << 16 | BARRIER | INT | 0x2b);
    rig.w(TDBR, 1 << 31);
    rig.describe(2, INT | READ, 8, 0);
    rig.w(TDBR, 0b100);
    let order = rig.complete(1 << 31 | 0b111);
    assert_eq!(order[2..], [31, 2], "{order:?}");
    assert_eq!(rig.bytes(2, 4096), [7; 4096]);
    assert_eq!(rig.r(CRDCT), 0x900);
    // CMD13 with R1, sent at once.
    rig.raw(31, 1 << 48 | 1 << 22 | 2 << 23 | 13 << 16 | INT | 0x2b);
    rig.w(TDBR, 1 << 31);
    assert_eq!(rig.complete(1 << 31), [31]);
    rig.assert_clean();
}

#[test]
fn completions_are_told_together() {
    let mut rig = Rig::new(Form::Narrow);
    // Coalescing on: an interrupt at four completed tasks, or after 127 x 1024 clocks (677 us).
    rig.w(IC, 1 << 31 | 1 << 15 | 4 << 8 | 1 << 7 | 127);
    for slot in 0..6 {
        rig.describe(slot, READ, 1, 80 * slot);
    }
    rig.w(TDBR, 0b11_1111);
    let (_, is) = rig.interrupt();
    assert_eq!((is, rig.r(TCN).count_ones()), (2, 4));
    rig.w(IS, 2);
    assert!(!rig.host.irq());
    let from = rig.now;
    rig.interrupt();
    assert_eq!(rig.r(TCN).count_ones(), 6);
    assert!(rig.now - from > 600_000, "after the timeout: {}", rig.now - from);
    rig.w(IS, 2);
    rig.w(TCN, 0x3f);
    // The completion of a task with the bit Int is reported at once.
    rig.describe(0, READ | INT, 1, 0);
    rig.w(TDBR, 1);
    assert_eq!(rig.complete(1), [0]);
    assert_eq!(rig.r(DQS) & 1, 1, "as last answered");
}

//! Tests of the card interrupt and its lost edges.

use super::*;

/// Makes a falling edge of DAT1; the controller sees it only while it is idle.
fn fall(host: &Driver, seen: bool) {
    host.regs.dat1.set(false);
    if seen {
        host.regs.data.set(host.regs.data.get() | DSTA_SDIO);
    }
}

#[test]
fn an_edge_is_reported_once_and_masks_itself() {
    let mut host = ready();
    host.card_irq(true);
    assert!(!host.regs.line());
    fall(&host, true);
    assert!(host.regs.line());
    assert!(host.ack(&[]).card_irq);
    assert!(!host.regs.line());
    assert!(!host.ack(&[]).card_irq);
    run(&mut host, &cmd52());
    assert!(!host.ack(&[]).card_irq, "masked until it is turned on");
}

#[test]
fn a_masked_card_is_not_looked_at() {
    let mut host = ready();
    fall(&host, true);
    assert!(!host.regs.line());
    host.start(&cmd52(), &[], 0).unwrap();
    let events = report(&mut host, CMDSTAT_RESPONSE, 0, &[]);
    assert!(!events.card_irq && events.phase.is_some());
    assert!(!host.regs.take_log().contains(&Read(DAT1)));
}

#[test]
fn an_edge_lost_in_a_phase_is_found_at_its_end() {
    let mut memory = [0; 64];
    let segments = [near(&mut memory)];
    for (phase, data) in [
        (cmd52(), 0),
        (cmd53(Direction::Read, 4, 1), DSTA_FINISH),
        (cmd53(Direction::Write, 4, 1), DSTA_FINISH),
        // The level is also read after a phase that failed.
        (cmd53(Direction::Read, 4, 1), DSTA_CRC | DSTA_FINISH),
    ] {
        let mut host = ready();
        host.card_irq(true);
        host.start(&phase, &segments, 0).unwrap();
        fall(&host, false);
        if phase.data.is_some_and(|data| data.direction == Direction::Read) {
            host.regs.receive(&[0; 4]);
        }
        assert!(!host.regs.line());
        let events = report(&mut host, CMDSTAT_RESPONSE, data, &segments);
        assert!(events.phase.is_some() && events.card_irq);
        assert!(!host.ack(&[]).card_irq);
    }
}

#[test]
fn data_that_still_move_are_no_card_interrupt() {
    let mut memory = [0; 64];
    let segments = [near(&mut memory)];
    let mut host = ready();
    host.card_irq(true);
    host.start(&cmd53(Direction::Read, 64, 1), &segments, 0).unwrap();
    // The response is damaged, and DAT1 carries the first bits of the data.
    host.regs.dat1.set(false);
    let events = report(&mut host, CMDSTAT_RESPONSE | CMDSTAT_CRC, 0, &segments);
    assert!(events.phase.unwrap().is_err() && !events.card_irq);
    // After the reset, DAT1 carries the card interrupt again.
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    assert!(host.regs.line());
    assert!(host.ack(&[]).card_irq);
}

#[test]
fn one_more_access_while_it_is_unmasked() {
    let mut host = ready();
    host.card_irq(true);
    run(&mut host, &cmd52());
    host.regs.take_log();
    run(&mut host, &cmd52());
    let log = host.regs.take_log();
    assert_eq!((log.len(), log[5]), (6, Read(DAT1)));
}

#[test]
fn an_edge_before_a_phase_is_reported_while_it_runs() {
    let mut host = ready();
    host.card_irq(true);
    fall(&host, true);
    // The engine starts a phase before the interrupt is handled.
    host.start(&cmd52(), &[], 0).unwrap();
    let events = host.ack(&[]);
    assert!(events.card_irq && events.phase.is_none());
    assert!(!host.regs.line());
    let events = report(&mut host, CMDSTAT_RESPONSE, 0, &[]);
    assert!(!events.card_irq && events.phase.is_some());
}

#[test]
fn an_edge_that_is_over_is_still_reported() {
    let mut host = ready();
    host.card_irq(true);
    fall(&host, true);
    host.regs.dat1.set(true);
    host.start(&cmd52(), &[], 0).unwrap();
    let events = report(&mut host, CMDSTAT_RESPONSE, 0, &[]);
    assert!(events.phase.is_some() && !events.card_irq);
    // The event that was not acknowledged keeps the interrupt line asserted.
    assert!(host.regs.line());
    assert!(host.ack(&[]).card_irq);
    assert!(!host.regs.line());
}

#[test]
fn a_level_that_is_low_at_unmasking_calls_by_itself() {
    let mut host = ready();
    fall(&host, true);
    host.card_irq(true);
    assert!(host.regs.line(), "the empty FIFO rings");
    assert_eq!(host.regs.data.get(), 0, "the old edge is forgotten");
    assert!(host.ack(&[]).card_irq);
    assert!(!host.regs.line());
    // DAT1 is still low, so the interrupt is reported again.
    host.card_irq(true);
    assert!(host.ack(&[]).card_irq);
    // The function no longer holds DAT1 low, so nothing more is reported.
    host.regs.dat1.set(true);
    host.card_irq(true);
    assert!(!host.regs.line());
    assert!(!host.ack(&[]).card_irq);
}

#[test]
fn a_level_that_rose_again_is_not_reported() {
    let mut host = ready();
    fall(&host, false);
    host.card_irq(true);
    host.regs.dat1.set(true);
    assert!(host.regs.line());
    assert!(!host.ack(&[]).card_irq);
    assert!(!host.regs.line(), "a call in vain does not repeat itself");
}

#[test]
fn unmasking_in_a_phase_is_answered_at_its_end() {
    let mut memory = pattern(100);
    let segments = [near(&mut memory)];
    let mut host = ready();
    host.start(&cmd53(Direction::Write, 100, 1), &segments, 0).unwrap();
    // DAT1 carries data now.
    fall(&host, false);
    host.card_irq(true);
    assert!(!host.regs.line());
    host.regs.send(40);
    assert!(!host.ack(&segments).card_irq);
    host.regs.send(20);
    assert!(!host.ack(&segments).card_irq);
    let events = report(&mut host, CMDSTAT_RESPONSE, DSTA_FINISH, &segments);
    assert!(events.phase.is_some() && events.card_irq);
}

#[test]
fn a_call_is_answered_although_a_phase_has_begun() {
    let mut host = ready();
    fall(&host, false);
    host.card_irq(true);
    host.start(&cmd52(), &[], 0).unwrap();
    assert!(!host.regs.line());
    let events = report(&mut host, CMDSTAT_RESPONSE, 0, &[]);
    assert!(events.phase.is_some() && events.card_irq);
}

#[test]
fn masking_silences_it() {
    let mut host = ready();
    host.card_irq(true);
    fall(&host, true);
    host.card_irq(false);
    assert!(!host.regs.line());
    assert!(!host.ack(&[]).card_irq);
}

#[test]
fn a_reset_that_swallows_an_edge_looks_again() {
    let mut host = ready();
    host.card_irq(true);
    host.start(&cmd52(), &[], 0).unwrap();
    report(&mut host, CMDSTAT_TIMEOUT, 0, &[]).phase.unwrap().unwrap_err();
    fall(&host, false);
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    assert!(host.regs.line());
    assert!(host.ack(&[]).card_irq);
}

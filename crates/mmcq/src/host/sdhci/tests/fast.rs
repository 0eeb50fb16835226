//! Tests of the fast path: transfers and commands that differ little from the one before, and how
//! the end of a command is detected.

use super::*;

/// Returns the phase of a CMD13.
fn question() -> Phase {
    command(13, Resp::R1)
}

/// Returns a driver whose registers hold all values that stay the same between transfers, with no
/// phase in progress.
fn warm(config: SdhciConfig) -> Driver {
    let mut host = ready(config);
    run(&mut host, &read(8), &[far(0, 4096)]);
    host
}

/// Returns the result of `ack_fast` for this interrupt status.
fn fast_end(host: &mut Driver, status: u32) -> Result<u32, Option<Result<Done, Fault>>> {
    host.port.regs.set(INT_STATUS, 4, status);
    host.ack_fast(&[]).map(|end| end.status).map_err(|events| events.phase)
}

/// Returns the values that were written to Interrupt Signal Enable since the log was last taken.
fn signals(host: &Driver) -> Vec<u32> {
    let log = host.port.regs.take_log();
    log.into_iter()
        .filter_map(|a| if let Access::Write(INT_SIGNAL, _, v) = a { Some(v) } else { None })
        .collect()
}

/// Runs a CMD13 that ends with this interrupt status. Returns the values that the driver wrote to
/// Interrupt Signal Enable, and to the Command register.
fn ask(host: &mut Driver, status: u32) -> (Vec<u32>, u32) {
    host.port.regs.set(RESPONSE_0, 4, 0x900);
    host.port.regs.take_log();
    host.start_fast(&question(), &[], 1).unwrap();
    let signals = signals(host);
    let sent = host.port.regs.get(TRANSFER_MODE, 4) >> 16;
    assert_eq!(fast_end(host, status), Ok(0x900));
    (signals, sent)
}

/// Runs a transfer between two CMD13; Command Complete must not be signalled for it.
fn transfer(host: &mut Driver) {
    host.start_fast(&read(8), &[far(0, 4096)], 100_000_000).unwrap();
    assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & (INT_COMMAND | INT_TRANSFER), INT_TRANSFER);
    assert_eq!(fast_end(host, INT_COMMAND | INT_TRANSFER), Ok(0x900));
}

/// Returns a driver for a controller on which a CMD13 is known to end with Transfer Complete.
fn relies() -> Driver {
    warm(quirk(SdhciQuirks::QEMU))
}

#[test]
fn a_question_that_ends_like_a_transfer_needs_no_signal() {
    let mut host = relies();
    for _ in 0..3 {
        assert_eq!(ask(&mut host, INT_COMMAND | INT_TRANSFER), (vec![], 0x0d1b));
        transfer(&mut host);
    }
}

/// Tests that the driver sends each CMD13 as a command without busy, even if earlier ones have
/// ended with both bits, Command Complete and Transfer Complete.
#[test]
fn nothing_is_learned_from_how_questions_end() {
    let mut host = warm(SdhciConfig::new());
    for _ in 0..20 {
        let (signals, sent) = ask(&mut host, INT_COMMAND);
        assert_eq!((signals.len(), sent), (1, 0x0d1a));
        transfer(&mut host);
    }
    for _ in 0..20 {
        host.start_fast(&question(), &[], 1).unwrap();
        assert_eq!(host.port.regs.get(TRANSFER_MODE, 4) >> 16, 0x0d1a);
        let events = fast_end(&mut host, INT_COMMAND | INT_TRANSFER).unwrap_err();
        assert_eq!(events.unwrap().unwrap().response, Response::short(0x900));
    }
}

#[test]
fn an_end_that_was_relied_on_in_vain_is_not_again() {
    let mut host = relies();
    host.start_fast(&question(), &[], 1).unwrap();
    assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & INT_COMMAND, 0);
    // The response was received, and the deadline has passed.
    host.port.regs.set(RESPONSE_0, 4, 0x900);
    assert_eq!(report(&mut host, INT_COMMAND, &[]).phase.unwrap().unwrap().response, Response::short(0x900));
    host.interrupt_lost();
    host.start_fast(&read(8), &[far(0, 4096)], 100_000_000).unwrap();
    assert_eq!(fast_end(&mut host, INT_COMMAND | INT_TRANSFER), Ok(0x900));
    let (signals, sent) = ask(&mut host, INT_COMMAND);
    assert_eq!((signals.len(), sent), (1, 0x0d1a));
}

#[test]
fn without_an_interrupt_at_the_end_of_busy_nothing_is_sent_so() {
    let mut host = warm(quirk(SdhciQuirks::QEMU.with(SdhciQuirks::NO_BUSY_IRQ)));
    assert_eq!(ask(&mut host, INT_COMMAND).1, 0x0d1a);
}

#[test]
fn a_controller_that_is_gone_has_not_ended_a_phase_well() {
    let mut host = warm(SdhciConfig::new());
    host.start_fast(&read(8), &[far(0, 4096)], 100_000_000).unwrap();
    host.port.regs.set(PRESENT, 4, u32::MAX);
    let fault = fast_end(&mut host, u32::MAX).unwrap_err().unwrap().unwrap_err();
    assert_eq!(fault.cause, Cause::Gone);
    // The fast path is not used either for SDMA, which the driver continues at each boundary.
    let mut host = ready(by(TransferMode::Sdma));
    host.start_fast(&read(8), &[far(0x1000, 4096)], 100_000_000).unwrap();
    host.port.regs.set(PRESENT, 4, u32::MAX);
    let fault = fast_end(&mut host, u32::MAX).unwrap_err().unwrap().unwrap_err();
    assert_eq!(fault.cause, Cause::Gone);
    assert_eq!(fast_end(&mut host, 0), Err(None));
}

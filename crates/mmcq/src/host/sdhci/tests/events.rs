//! Tests of the meaning of each interrupt status.

use super::*;

#[test]
fn data_may_end_before_the_response_comes() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    host.start(&read(1), &segments, 1).unwrap();
    assert!(report(&mut host, INT_TRANSFER, &segments).phase.is_none());
    assert_ne!(host.port.regs.get(INT_SIGNAL, 4) & INT_COMMAND, 0);
    assert!(report(&mut host, INT_COMMAND, &segments).phase.unwrap().is_ok());
}

#[test]
fn a_response_that_comes_after_the_data_ends_the_phase() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    host.start(&read(1), &segments, 1).unwrap();
    assert!(report(&mut host, INT_TRANSFER, &segments).phase.is_none());
    // The engine asks for the response before the interrupt was handled.
    host.port.regs.set(INT_STATUS, 4, INT_COMMAND);
    assert_eq!(host.early_r1(), None);
    assert!(host.ack(&segments).phase.unwrap().is_ok());
}

/// Tests a controller that reports the end of a transfer twice: an end that comes before the
/// response of the next transfer, while that transfer uses DAT, does not end the next transfer.
#[test]
fn the_end_of_the_transfer_before_is_not_that_of_the_next() {
    let segments = [far(0, 512)];
    let write = data(24, Direction::Write, 512, 1);
    let busy = command(38, Resp::R1b);
    for (phase, segments) in [(read(1), &segments[..]), (write, &segments[..]), (busy, &[])] {
        let mut host = ready(SdhciConfig::new());
        host.start(&phase, segments, 1).unwrap();
        assert!(report(&mut host, INT_COMMAND | INT_TRANSFER, segments).phase.unwrap().is_ok());
        host.start(&phase, segments, 1).unwrap();
        let present = host.port.regs.get(PRESENT, 4);
        host.port.regs.set(PRESENT, 4, present | PRESENT_CMD_INHIBIT | PRESENT_DAT_INHIBIT);
        assert!(report(&mut host, INT_TRANSFER, segments).phase.is_none());
        host.port.regs.set(PRESENT, 4, present | PRESENT_DAT_INHIBIT);
        assert!(report(&mut host, INT_COMMAND, segments).phase.is_none(), "{phase:?}");
        host.port.regs.set(PRESENT, 4, present);
        assert!(report(&mut host, INT_TRANSFER, segments).phase.unwrap().is_ok());
    }
}

/// Tests that a command without busy ends with its response, even if the end of another transfer is
/// reported: here the card is busy, and CMD13 reads its state.
#[test]
fn a_command_ends_with_its_response_whatever_ends_before() {
    let mut host = ready(SdhciConfig::new());
    let present = host.port.regs.get(PRESENT, 4);
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    host.port.regs.set(PRESENT, 4, present | PRESENT_DAT_INHIBIT);
    assert!(report(&mut host, INT_TRANSFER, &[]).phase.is_none());
    assert!(report(&mut host, INT_COMMAND, &[]).phase.unwrap().is_ok());
}

/// Tests an end whose Command Inhibit (DAT) in Present State is cleared a little later than
/// Transfer Complete is set: the end counts.
#[test]
fn an_early_end_is_believed_although_dat_gets_free_late() {
    let segments = [far(0, 512)];
    let mut host = ready(SdhciConfig::new());
    host.start(&read(1), &segments, 1).unwrap();
    assert!(report(&mut host, INT_TRANSFER, &segments).phase.is_none());
    host.port.regs.lags.set(20);
    assert!(report(&mut host, INT_COMMAND, &segments).phase.unwrap().is_ok());
}

#[test]
fn long_response_is_shifted_unless_it_has_its_crc() {
    for (quirks, expected) in [
        (SdhciQuirks::NONE, [0x0011_2233, 0x4455_6677, 0x8899_aabb, 0xccdd_ee00]),
        (SdhciQuirks::RSP136_HAS_CRC, [0xff00_1122, 0x3344_5566, 0x7788_99aa, 0xbbcc_dd00]),
    ] {
        let mut host = ready(quirk(quirks));
        for (at, word) in [0xbbcc_ddee, 0x7788_99aa, 0x3344_5566, 0xff00_1122].into_iter().enumerate() {
            host.port.regs.set(RESPONSE_0 + 4 * at as u16, 4, word);
        }
        assert_eq!(run(&mut host, &command(2, Resp::R2), &[]).response.words, expected);
    }
}

#[test]
fn automatic_commands_report_apart() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 1024)];
    host.port.regs.set(RESPONSE_3, 4, 0xb00);
    let stop = Phase { auto: Auto::Stop, ..read(2) };
    assert_eq!(run(&mut host, &stop, &segments).stop, Some(0xb00));
    assert_eq!(host.port.regs.get(TRANSFER_MODE, 2), 0x37);
    let count = Phase { auto: Auto::Count(0x8000_0002), ..read(2) };
    assert_eq!(run(&mut host, &count, &segments).stop, None);
    assert_eq!(
        (host.port.regs.get(TRANSFER_MODE, 2), host.port.regs.get(ARGUMENT_2, 4)),
        (0x3b, 0x8000_0002)
    );

    for (phase, stage) in [(stop, Stage::Stop), (count, Stage::Count)] {
        for (bit, cause) in
            [(1, Cause::Other), (2, Cause::Timeout), (4, Cause::Crc), (8, Cause::EndBit), (16, Cause::Index)]
        {
            host.start(&phase, &segments, 1).unwrap();
            host.port.regs.set(AUTO_STATUS, 2, bit);
            let fault = report(&mut host, INT_ERROR | ERROR_AUTO | 3, &segments).phase.unwrap().unwrap_err();
            assert_eq!((fault.cause, fault.stage), (cause, stage));
            assert!(fault.response.is_some());
        }
    }
}

/// Tests every status word of one or two bits in every kind of phase: the driver must not panic,
/// and must report only an end that the word justifies.
#[test]
fn every_status_has_a_meaning() {
    let segments = [far(0, 512)];
    let tuning = Phase { tuning: true, ..data(19, Direction::Read, 64, 1) };
    let kinds: [(Option<Phase>, u32); 5] = [
        (None, 0),
        (Some(command(13, Resp::R1)), INT_COMMAND),
        (Some(command(12, Resp::R1b)), INT_COMMAND | INT_TRANSFER),
        (Some(read(1)), INT_COMMAND | INT_TRANSFER),
        (Some(tuning), INT_BUFFER_READ),
    ];
    let mut host = ready(SdhciConfig::new());
    for (phase, needs) in kinds {
        for (a, b) in (0..32).flat_map(|a| (0..=a).map(move |b| (a, b))) {
            assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
            if let Some(phase) = phase {
                host.start(&phase, &segments, 1).unwrap();
            }
            host.card_irq(true);
            let enable = host.port.regs.get(INT_ENABLE, 4);
            let status = 1u32 << a | 1 << b;
            host.port.regs.set(CONTROL_2, 2, CONTROL_2_TUNE.into());
            let events = report(&mut host, status, &segments);

            let is_tuning = phase.is_some_and(|phase| phase.tuning);
            let mut errors = status & if is_tuning { ERROR_TUNING } else { ERRORS };
            if status & INT_TRANSFER != 0 {
                errors &= !ERROR_DATA_TIMEOUT;
            }
            match events.phase {
                _ if phase.is_none() => assert!(events.phase.is_none()),
                Some(Err(fault)) => {
                    assert_ne!(errors, 0, "{status:08x}");
                    assert_ne!(fault.cause, Cause::Gone);
                    let command = errors & (ERRORS_COMMAND | ERROR_RESPONSE) != 0;
                    assert_eq!(
                        fault.stage == Stage::Command,
                        command || needs == INT_COMMAND,
                        "{status:08x}"
                    );
                    let answered = status & INT_COMMAND != 0 && errors & ERRORS_COMMAND == 0;
                    assert_eq!(fault.response.is_some(), answered);
                }
                Some(Ok(_)) => assert!(errors == 0 && status & needs == needs, "{status:08x}"),
                None => assert!(errors == 0 && status & needs != needs, "{status:08x}"),
            }
            assert_eq!(events.card_irq, status & INT_CARD != 0);
            assert_eq!(events.presence, status & (INT_INSERT | INT_REMOVE) & enable != 0);
            assert_eq!(events.retune, status & INT_RETUNE & enable != 0);
            // Bits that stay set in the status are levels that are masked now, or were never
            // signalled.
            let left = host.port.regs.get(INT_STATUS, 4) & host.port.regs.get(INT_ENABLE, 4);
            assert_eq!(left & host.port.regs.get(INT_SIGNAL, 4), 0, "{status:08x}");
            host.set_bus(BusOp::PowerOn, true, 0);
        }
    }
}

#[test]
fn error_bits_name_cause_and_stage() {
    let table = [
        (ERROR_COMMAND_TIMEOUT, Cause::Timeout, Stage::Command),
        (ERROR_COMMAND_TIMEOUT | ERROR_COMMAND_CRC, Cause::Crc, Stage::Command),
        (ERROR_COMMAND_END, Cause::EndBit, Stage::Command),
        (ERROR_COMMAND_INDEX | ERROR_DATA_CRC, Cause::Index, Stage::Command),
        (ERROR_DATA_TIMEOUT, Cause::Timeout, Stage::Data),
        (ERROR_DATA_CRC, Cause::Crc, Stage::Data),
        (ERROR_DATA_END, Cause::EndBit, Stage::Data),
        (ERROR_POWER, Cause::Power, Stage::Data),
        (ERROR_ADMA, Cause::Dma, Stage::Data),
        (1 << 28, Cause::Other, Stage::Data),
    ];
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    for (errors, cause, stage) in table {
        host.start(&read(1), &segments, 1).unwrap();
        let fault = report(&mut host, INT_ERROR | errors, &segments).phase.unwrap().unwrap_err();
        assert_eq!(fault, Fault { cause, stage, response: None });
    }
    host.start(&command(38, Resp::R1b), &[], 1).unwrap();
    let fault = report(&mut host, INT_ERROR | ERROR_DATA_TIMEOUT | 1, &[]).phase.unwrap().unwrap_err();
    assert_eq!((fault.cause, fault.stage), (Cause::Timeout, Stage::Busy));
    assert!(fault.response.is_some());
}

#[test]
fn a_dead_controller_is_gone() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    host.start(&read(1), &segments, 1).unwrap();
    host.port.regs.take_log();
    host.port.regs.set(PRESENT, 4, u32::MAX);
    let fault = report(&mut host, u32::MAX, &segments).phase.unwrap().unwrap_err();
    assert_eq!(fault.cause, Cause::Gone);
    assert_eq!(host.port.regs.take_log(), [Access::Read(INT_STATUS), Access::Read(PRESENT)]);
    assert!(host.ack(&segments).phase.is_none());
    assert!(!host.present() && !host.dat0_busy() && !host.write_protected());
    assert_eq!(host.start(&read(1), &segments, 1), Err(StartError::CommandLine));
    let dead = Fake::new(2, CAPS);
    dead.set(VERSION, 2, 0xffff);
    let dma: &'static FakeDma = Box::leak(Box::default());
    let table = Box::leak(Box::new(Table::<8>::new()));
    assert_eq!(Sdhci::new(dead, dma, table, SdhciConfig::new()).err(), Some(SdhciInitError::Gone));
}

/// Tests a single read of all ones, which may be lost on the bus: it is a fault, and the controller
/// does not count as gone.
#[test]
fn one_read_of_ones_is_a_fault_and_not_a_controller_that_is_gone() {
    for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        let mut host = ready(by(transfer));
        let segments = [far(0x1000, 512)];
        host.start(&read(1), &segments, 1).unwrap();
        let fault = report(&mut host, u32::MAX, &segments).phase.unwrap().unwrap_err();
        assert_ne!(fault.cause, Cause::Gone, "{transfer:?}");
        assert!(transfer == TransferMode::Pio || !host.isolate());
    }
}

/// Tests an event that belongs to no phase and that the controller reports for ever: it interrupts
/// only one time.
#[test]
fn a_status_that_does_not_go_away_interrupts_once() {
    let mut host = ready(SdhciConfig::new());
    let segments = [far(0, 512)];
    for status in [INT_TRANSFER, INT_COMMAND, ERROR_DATA_CRC | INT_ERROR, ERROR_POWER | INT_ERROR, 1 << 14] {
        run(&mut host, &read(1), &segments);
        assert!(report(&mut host, status, &[]).phase.is_none());
        assert_eq!(host.port.regs.get(INT_SIGNAL, 4) & status, 0, "{status:08x}");
        // Card interrupt, presence and re-tuning stay enabled; the next phase enables all of its
        // own interrupts.
        let rare = INT_CARD | INT_INSERT | INT_REMOVE | INT_RETUNE;
        assert_eq!(host.port.regs.get(INT_SIGNAL, 4), rare);
        host.start(&read(1), &segments, 100_000_000).unwrap();
        let signal = host.port.regs.get(INT_SIGNAL, 4);
        assert_eq!(signal & (INT_TRANSFER | ERROR_DATA_CRC | rare), INT_TRANSFER | ERROR_DATA_CRC | rare);
        assert!(report(&mut host, INT_COMMAND | INT_TRANSFER, &segments).phase.unwrap().is_ok());
    }
}

//! Tests of commands that are sent during data.

use super::*;

const DIRECT: Command = Command::new(52, 0x1000_0e00, Resp::R5);

/// The result of a command that was sent during data, and the result of the phase.
type Told = (Option<Result<u32, Cause>>, Option<Result<Done, Fault>>);

/// Returns the results of command and phase after the interrupt status `status`.
fn told(host: &mut Driver, status: u32) -> Told {
    host.port.regs.set(INT_STATUS, 4, status);
    (host.ack_concurrent(), host.ack(&[]).phase)
}

/// Returns a driver with a read in progress whose response was received.
fn moving(auto: Auto) -> Driver {
    let mut host = ready(SdhciConfig::new());
    host.start(&Phase { auto, ..read(8) }, &[far(0, 4096)], 1).unwrap();
    host.port.regs.set(RESPONSE_0, 4, 0x900);
    host.port.regs.set(INT_STATUS, 4, INT_COMMAND);
    host.port.regs.take_log();
    host
}

fn resets(host: &Driver) -> Vec<u32> {
    let log = host.port.regs.take_log();
    log.into_iter().filter_map(|a| if let Access::Write(RESET, _, v) = a { Some(v) } else { None }).collect()
}

#[test]
fn each_gets_its_own_response() {
    let mut host = moving(Auto::None);
    let signal = host.port.regs.get(INT_SIGNAL, 4);
    host.start_concurrent(&DIRECT).unwrap();
    assert_eq!(
        host.port.regs.take_log(),
        [
            Access::Read(INT_STATUS),
            Access::Write(INT_STATUS, 4, INT_COMMAND),
            Access::Read(RESPONSE_0),
            Access::Read(PRESENT),
            Access::Write(INT_SIGNAL, 4, signal | INT_COMMAND),
            Access::Write(ARGUMENT, 4, 0x1000_0e00),
            Access::Write(COMMAND, 2, 0x341a),
        ],
        "and not the transfer mode"
    );
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::CommandLine));
    host.port.regs.set(RESPONSE_0, 4, 0x1042);
    assert_eq!(told(&mut host, INT_COMMAND), (Some(Ok(0x1042)), None));
    // The next command during the data needs fewer register accesses.
    host.port.regs.take_log();
    host.start_concurrent(&DIRECT).unwrap();
    let log = host.port.regs.take_log();
    assert_eq!(log[..2], [Access::Read(INT_STATUS), Access::Read(PRESENT)]);
    assert_eq!(log.len(), 4);
    host.port.regs.set(RESPONSE_0, 4, 0x1043);
    let (beside, phase) = told(&mut host, INT_COMMAND | INT_TRANSFER);
    assert_eq!((beside, phase.unwrap().unwrap().response), (Some(Ok(0x1043)), Response::short(0x900)));
    // All commands have ended: the second phase from now on needs no check of the lines.
    host.port.regs.set(RESPONSE_0, 4, 0x901);
    assert_eq!(run(&mut host, &read(8), &[far(0, 4096)]).response, Response::short(0x901));
    host.port.regs.take_log();
    host.start(&read(8), &[far(0, 4096)], 1).unwrap();
    assert!(!host.port.regs.take_log().contains(&Access::Read(PRESENT)));
}

/// Tests a controller that is gone when the last block is read: it returns all ones, and the saved
/// response must not hide that.
#[test]
fn a_read_that_ends_on_a_controller_that_is_gone_is_not_well() {
    for gone in [false, true] {
        let mut host = ready(by(TransferMode::Pio));
        let mut memory = [0u8; 512];
        let segments = [near(&mut memory)];
        host.start(&read(1), &segments, 1).unwrap();
        host.port.regs.set(RESPONSE_0, 4, 0x900);
        host.port.regs.set(INT_STATUS, 4, INT_COMMAND);
        host.start_concurrent(&DIRECT).unwrap();
        host.port.regs.set(INT_STATUS, 4, INT_COMMAND);
        assert!(host.ack_concurrent().is_some());
        host.port.regs.buffer.borrow_mut().extend([7; 512]);
        host.port.regs.goes.set(gone);
        host.port.regs.set(PRESENT, 4, PRESENT_BUFFER_READ | PRESENT_DAT);
        let done = report(&mut host, INT_BUFFER_READ | INT_TRANSFER, &segments).phase.unwrap().unwrap();
        assert_eq!(done.response, Response::short(if gone { u32::MAX } else { 0x900 }));
    }
}

#[test]
fn the_response_of_the_phase_comes_first() {
    let mut host = moving(Auto::None);
    host.port.regs.set(INT_STATUS, 4, 0);
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::CommandLine));
    assert_ne!(host.port.regs.get(INT_SIGNAL, 4) & INT_COMMAND, 0, "its coming interrupts");
    assert_eq!(told(&mut host, INT_COMMAND), (None, None));
    host.port.regs.set(INT_STATUS, 4, 0);
    host.start_concurrent(&DIRECT).unwrap();
    // No command can be sent during data that have ended or failed, or without data.
    for status in [INT_TRANSFER, ERROR_DATA_CRC, ERROR_COMMAND_TIMEOUT, u32::MAX] {
        let mut host = moving(Auto::None);
        host.port.regs.set(INT_STATUS, 4, status);
        assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::DataLine), "{status:#x}");
    }
    let mut host = ready(SdhciConfig::new());
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::DataLine));
    host.start(&command(13, Resp::R1), &[], 1).unwrap();
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::Unsupported));
    let mut host = moving(Auto::None);
    for command in [Command::new(7, 0, Resp::R1b), Command::new(2, 0, Resp::R2)] {
        assert_eq!(host.start_concurrent(&command), Err(StartError::Unsupported));
    }
    host.port.regs.set(PRESENT, 4, PRESENT_DAT | PRESENT_CMD_INHIBIT);
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::CommandLine));
}

#[test]
fn errors_of_the_line_are_the_commands() {
    for (status, cause) in [
        (ERROR_COMMAND_TIMEOUT, Cause::Timeout),
        (INT_COMMAND | ERROR_COMMAND_CRC, Cause::Crc),
        (ERROR_COMMAND_CRC | ERROR_COMMAND_TIMEOUT, Cause::Crc),
        (INT_COMMAND | ERROR_COMMAND_END, Cause::EndBit),
        (INT_COMMAND | ERROR_COMMAND_INDEX, Cause::Index),
    ] {
        let mut host = moving(Auto::None);
        host.start_concurrent(&DIRECT).unwrap();
        assert_eq!(told(&mut host, status), (Some(Err(cause)), None));
    }
    // The errors of the data belong to the phase.
    let mut host = moving(Auto::None);
    host.start_concurrent(&DIRECT).unwrap();
    let fault = Fault { cause: Cause::Crc, stage: Stage::Data, response: Some(Response::short(0x900)) };
    assert_eq!(told(&mut host, ERROR_DATA_CRC), (None, Some(Err(fault))));
    assert_eq!(host.start(&read(8), &[far(0, 4096)], 1), Err(StartError::CommandLine));
    assert_eq!(host.set_bus(BusOp::ResetLines, true, 0), Step::Done);
    host.start(&read(8), &[far(0, 4096)], 1).unwrap();
}

#[test]
fn only_the_cmd_circuit_is_reset() {
    for given_up in [false, true] {
        let mut host = moving(Auto::None);
        host.start_concurrent(&DIRECT).unwrap();
        host.port.regs.stuck.set(RESET_CMD);
        host.port.regs.take_log();
        if given_up {
            host.abort_concurrent();
        } else {
            assert_eq!(told(&mut host, ERROR_COMMAND_TIMEOUT), (Some(Err(Cause::Timeout)), None));
        }
        assert_eq!(resets(&host), [u32::from(RESET_CMD)]);
        assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::CommandLine));
        let (beside, phase) = told(&mut host, INT_TRANSFER);
        assert_eq!((beside, phase.unwrap().unwrap().response), (None, Response::short(0x900)));
        assert_eq!(host.start(&read(8), &[far(0, 4096)], 1), Err(StartError::CommandLine));
        host.port.regs.set(RESET, 1, 0);
        host.start(&read(8), &[far(0, 4096)], 1).unwrap();
        assert_eq!(resets(&host), []);
    }
    // The data continue, and further commands can be sent.
    let mut host = moving(Auto::None);
    host.start_concurrent(&DIRECT).unwrap();
    assert_eq!(told(&mut host, ERROR_COMMAND_TIMEOUT), (Some(Err(Cause::Timeout)), None));
    host.start_concurrent(&DIRECT).unwrap();
    assert_eq!(told(&mut host, INT_COMMAND), (Some(Ok(0x900)), None));
}

#[test]
fn an_automatic_stop_is_not_reset_away() {
    let mut host = moving(Auto::Stop);
    host.start_concurrent(&DIRECT).unwrap();
    host.port.regs.take_log();
    assert_eq!(told(&mut host, ERROR_COMMAND_TIMEOUT), (Some(Err(Cause::Timeout)), None));
    assert_eq!(resets(&host), []);
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::Unsupported));
    host.port.regs.set(RESPONSE_3, 4, 0xb00);
    let done = report(&mut host, INT_TRANSFER, &[]).phase.unwrap().unwrap();
    assert_eq!((done.response, done.stop), (Response::short(0x900), Some(0xb00)));
    host.start(&read(8), &[far(0, 4096)], 1).unwrap();
    assert_eq!(resets(&host), [u32::from(RESET_CMD)], "after the data");
}

#[test]
fn a_command_may_outlive_the_data() {
    let mut host = moving(Auto::None);
    host.start_concurrent(&DIRECT).unwrap();
    let (beside, phase) = told(&mut host, INT_TRANSFER);
    assert!(beside.is_none() && phase.unwrap().is_ok());
    host.port.regs.set(INT_STATUS, 4, INT_COMMAND);
    assert_eq!(host.start(&read(8), &[far(0, 4096)], 1), Err(StartError::CommandLine));
    assert_eq!(host.start_concurrent(&DIRECT), Err(StartError::DataLine));
    assert_eq!(host.port.regs.get(INT_STATUS, 4), INT_COMMAND, "not forgotten");
    // The command may end between the two calls; then the next call reports it.
    assert!(host.ack(&[]).phase.is_none());
    assert_eq!(host.port.regs.get(INT_STATUS, 4), INT_COMMAND);
    assert_eq!(host.ack_concurrent(), Some(Ok(0x900)));
    host.start(&read(8), &[far(0, 4096)], 1).unwrap();

    // The controller may also be gone between the two calls.
    let mut host = moving(Auto::None);
    host.start_concurrent(&DIRECT).unwrap();
    host.port.regs.set(PRESENT, 4, u32::MAX);
    let (beside, phase) = told(&mut host, u32::MAX);
    assert_eq!(beside, Some(Err(Cause::Gone)));
    assert!(phase.unwrap().is_err_and(|fault| fault.cause == Cause::Gone));
}

#[test]
fn who_must_reset_both_circuits_at_once_has_none() {
    assert!(ready(SdhciConfig::new()).caps().concurrent_command);
    assert!(!ready(quirk(SdhciQuirks::RESET_CMD_DATA_TOGETHER)).caps().concurrent_command);
}

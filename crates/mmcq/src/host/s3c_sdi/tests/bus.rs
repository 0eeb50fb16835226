//! Tests of setup, clock, width and reset.

use super::*;

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    use std::string::ToString;
    let config = S3cSdiConfig::new(PCLK_HZ);
    let wide = S3cSdiConfig { width: Width::W8, ..config };
    let slow = S3cSdiConfig { max_clock_hz: 100_000, ..config };
    let none = S3cSdiConfig { pclk_hz: 0, ..config };
    for (config, text) in [
        (wide, "s3c_sdi: width W8, expected W1 or W4"),
        (slow, "s3c_sdi: pclk_hz 50000000 with max_clock_hz 100000, expected at least pclk_hz / 256"),
        (none, "s3c_sdi: pclk_hz 0 with max_clock_hz 25000000, expected at least pclk_hz / 256"),
    ] {
        assert_eq!(build(Fake::new(), config).err().unwrap().to_string(), text);
    }
    let gone = Fake::new();
    gone.gone.set(true);
    assert_eq!(build(gone, config).err(), Some(S3cSdiInitError::Gone));
}

#[test]
fn capabilities_are_the_chips() {
    let host = build(Fake::new(), S3cSdiConfig::new(PCLK_HZ)).unwrap();
    assert!(host.regs.take_log().iter().all(|access| matches!(access, Read(_))));
    let caps = host.caps();
    assert_eq!(caps.max_blocks, 4095);
    assert_eq!(caps.max_bytes, 4095 * 2048);
    assert_eq!(caps.clock_hz, (195_313, 25_000_000));
    // 2^23 - 1 clocks at 25 MHz.
    assert_eq!(caps.max_busy_ns, 335_544_280);
    assert_eq!((caps.busy, caps.dma_bits, caps.max_segments), (BusyDetect::Status, 0, u16::MAX));
    assert!(caps.can(Timing::Legacy) && !caps.can(Timing::HighSpeed) && !caps.can(Timing::Sdr12));
    let fast = S3cSdiConfig { max_clock_hz: 50_000_000, ..S3cSdiConfig::new(PCLK_HZ) };
    assert!(build(Fake::new(), fast).unwrap().caps().can(Timing::HighSpeed));
    let dma = S3cSdiConfig { dma: DmaUse::From(0), ..S3cSdiConfig::new(PCLK_HZ) };
    let dma = build(Fake::new(), dma).unwrap();
    assert_eq!((dma.caps().dma_bits, dma.caps().max_segments), (32, 1));
}

#[test]
fn the_prescaler_rounds_the_clock_down() {
    let mut host = ready();
    for (hz, prescaler) in [
        (400_000, 124),
        (10_000_000, 4),
        (9_999_999, 5),
        (12_500_000, 3),
        (25_000_000, 1),
        (50_000_000, 1),
        (u32::MAX, 1),
        (195_313, 255),
    ] {
        assert_eq!(host.set_bus(BusOp::Clock(hz), true, 0), Step::Done, "{hz}");
        assert_eq!(host.regs.get(PRE), prescaler, "{hz}");
        assert_eq!(host.regs.get(CON), CON_SDIO | CON_CLOCK);
        assert!(PCLK_HZ / (prescaler + 1) <= hz);
    }
    // The prescaler changes while the clock is stopped.
    host.regs.take_log();
    host.set_bus(BusOp::Clock(400_000), true, 0);
    assert_eq!(host.regs.take_log(), [Write(CON, 8), Write(PRE, 124), Write(CON, 9)]);
    assert_eq!(host.set_bus(BusOp::Clock(195_312), true, 0), Step::Failed, "it cannot be that slow");
    assert_eq!(host.set_bus(BusOp::Clock(0), true, 0), Step::Done);
    assert_eq!(host.regs.get(CON), CON_SDIO);
}

#[test]
fn power_on_brings_everything_up() {
    let mut host = build(Fake::new(), S3cSdiConfig::new(PCLK_HZ)).unwrap();
    host.regs.take_log();
    assert_eq!(host.set_bus(BusOp::PowerOn, true, 7), Step::Done);
    assert_eq!(
        host.regs.take_log(),
        [
            Write(CON, CON_RESET | CON_SDIO),
            Read(CON),
            Write(PRE, 255),
            Write(TIMER, 0x7f_ffff),
            Write(DCON, 0),
            Write(FSTA, 0x1_c000),
            Write(CMDSTAT, 0x1e00),
            Write(DSTA, 0x1f8),
            Write(IMSK, 0),
            Write(CON, CON_SDIO),
        ]
    );
}

#[test]
fn a_reset_keeps_the_bus_and_ends_the_phase() {
    for op in [BusOp::ResetLines, BusOp::ResetAll] {
        let mut host = ready();
        host.card_irq(true);
        host.start(&cmd52(), &[], 0).unwrap();
        assert_eq!(host.set_bus(op, true, 0), Step::Done);
        assert_eq!((host.regs.get(PRE), host.regs.get(CON)), (4, CON_SDIO | CON_CLOCK));
        assert_eq!(host.regs.imsk.get(), INT_SDIO);
        assert!(report(&mut host, CMDSTAT_RESPONSE, 0, &[]).phase.is_none(), "it belongs to no phase");
        assert!(!host.regs.line());
        run(&mut host, &cmd52());
        let mut memory = [0; 4];
        host.start(&cmd53(Direction::Write, 4, 1), &[near(&mut memory)], 0).unwrap();
        assert_ne!(host.regs.get(DCON) & DCON_WIDE, 0);
    }
}

#[test]
fn power_off_forgets_the_bus() {
    let mut host = ready();
    assert_eq!(host.set_bus(BusOp::PowerOff, true, 0), Step::Done);
    assert_eq!((host.regs.get(PRE), host.regs.get(CON)), (255, CON_SDIO));
    let mut memory = [0; 4];
    host.start(&cmd53(Direction::Read, 4, 1), &[near(&mut memory)], 0).unwrap();
    assert_eq!(host.regs.get(DCON) & DCON_WIDE, 0);
}

#[test]
fn a_reset_that_takes_time_is_waited_for_and_no_longer() {
    let mut host = ready();
    host.regs.reset_looks.set(Some(3));
    let mut step = host.set_bus(BusOp::ResetAll, true, 100);
    assert_eq!(step, Step::Wait(10_100));
    let mut calls = 0;
    while let Step::Wait(at) = step {
        step = host.set_bus(BusOp::ResetAll, false, at);
        calls += 1;
    }
    assert!(step == Step::Done && calls <= 3);

    // A reset bit that the driver must clear.
    host.regs.reset_looks.set(None);
    assert_eq!(host.set_bus(BusOp::ResetAll, true, 0), Step::Wait(10_000));
    assert!(matches!(host.set_bus(BusOp::ResetAll, false, 10_000), Step::Wait(_)));
    assert_eq!(host.set_bus(BusOp::ResetAll, false, 20_000), Step::Done);

    // A controller that is gone.
    host.regs.gone.set(true);
    let mut step = host.set_bus(BusOp::ResetAll, true, 0);
    let mut last = 0;
    while let Step::Wait(at) = step {
        assert!(at > last && at <= 1_000_000);
        last = at;
        step = host.set_bus(BusOp::ResetAll, false, at);
    }
    assert_eq!(step, Step::Failed);
}

#[test]
fn what_the_chip_has_not_fails() {
    let mut host = ready();
    for op in [
        BusOp::Width(Width::W8),
        BusOp::Timing(Timing::HighSpeed),
        BusOp::Timing(Timing::Sdr50),
        BusOp::Signal18(true),
        BusOp::TuneStart,
    ] {
        assert_eq!(host.set_bus(op, true, 0), Step::Failed, "{op:?}");
    }
    for op in [BusOp::Timing(Timing::Legacy), BusOp::Signal18(false), BusOp::TuneAbort] {
        assert_eq!(host.set_bus(op, true, 0), Step::Done, "{op:?}");
    }
    assert_eq!(host.regs.take_log(), []);
}

//! Tests of the messages with feature `log`: commands, failures, and steps of recovery.
#![cfg(feature = "log")]

#[path = "support/bench.rs"]
#[allow(dead_code, reason = "this test uses a part of it")]
mod bench;
mod support;

use bench::bench;
use mmcq::engine::{DmaBuf, Kind, Request};
use mmcq::host::{BusOp, Cause, Stage};
use std::cell::RefCell;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Lines;

impl log::Log for Lines {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        assert!(record.target().starts_with("mmcq::"), "{}", record.target());
        LINES.with_borrow_mut(|lines| lines.push(format!("{} {}", record.level(), record.args())));
    }

    fn flush(&self) {}
}

/// Returns the log lines that `act` makes on this thread.
fn lines(act: impl FnOnce()) -> Vec<String> {
    static LINES_OF_ALL: Lines = Lines;
    // Every test of this file sets the same one.
    let _ = log::set_logger(&LINES_OF_ALL);
    log::set_max_level(log::LevelFilter::Trace);
    let _ = LINES.take();
    act();
    LINES.take()
}

#[test]
fn a_read_that_is_tried_again_is_told_step_by_step() {
    let lines = lines(|| {
        let mut b = bench();
        b.fault(1, Cause::Crc, Stage::Data, true);
        let id = b.read(0, 8);
        assert!(b.finish(id).result.is_ok());
        assert_eq!(b.commands(), [18, 13, 18]);
    });
    let of = |level: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(level)).map(str::trim_start).collect()
    };
    let commands: Vec<&str> = of("TRACE").into_iter().filter(|line| line.starts_with("CMD")).collect();
    assert_eq!(commands, ["CMD18 0x00000000", "CMD13 0x00010000", "CMD18 0x00000000"]);
    assert_eq!(of("DEBUG"), ["CMD18: the card's data, or the busy after them, had a bad CRC"]);
    let steps = of("WARN");
    assert_eq!(steps.len(), 3, "{steps:?}");
    for (step, name) in steps.iter().zip(["Classify", "Status", "Retry"]) {
        assert!(step.starts_with(&format!("recovery: {name}, status 0x")), "{step}");
    }
    assert!(of("ERROR").is_empty());
}

#[test]
fn a_change_of_the_bus_is_told() {
    let lines = lines(|| {
        let mut b = bench();
        let id = b.submit(Request::new(Kind::Bus(BusOp::Clock(25_000_000)), DmaBuf::EMPTY));
        assert!(b.finish(id).result.is_ok());
    });
    assert_eq!(lines, ["DEBUG bus: Clock(25000000)"]);
}

/// Tests that the fast path of an ordinary read writes the same messages as the general path.
#[test]
fn a_read_that_goes_well_is_a_command_and_its_answer() {
    let lines = lines(|| {
        let mut b = bench();
        let id = b.read(3, 1);
        assert!(b.finish(id).result.is_ok());
    });
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "TRACE CMD17 0x00000003");
    assert!(lines[1].starts_with("TRACE answered 0x"), "{}", lines[1]);
}

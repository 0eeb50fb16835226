//! Tests of writes that stay open by carriers (a CMD13 with the next data), when a response or the
//! data are lost. A response that is lost may have shown an error of earlier writes, which are
//! complete: the next flush of each handle fails, once. After all other faults a flush is good.

use crate::{open_mshc, open_sdhci, timed};
use mmcq::block::BlockDevice;
use mmcq::engine::Error;
use mmcq::host::mshc::OpenTransfers;
use mmcq::host::sdhci::OpenWrites;
use mmcq::task::{Platform, Stack};
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::mshc::MshcConfig;
use mmcq_sim::sdhci::Mistakes;
use mmcq_sim::slot::Controller;
use mmcq_sim::time::Time;
use std::cell::RefCell;

/// Number of writes, of eight blocks each. The first two are
/// sent with CMD25, the others with CMD13.
const WRITES: u64 = 12;

/// Faults: the kind of event, which of them, the fault, and whether it may have hidden an error of
/// a complete write.
const CASES: [(Point, u64, Strike, bool); 14] = [
    // The command CMD25 itself: no write before it is complete.
    (Point::Command, 1, Strike::Lost, false),
    (Point::Response, 1, Strike::Lost, false),
    (Point::Response, 1, Strike::Crc, false),
    // A CMD13. The host cannot see whether the command or its response was lost.
    (Point::Command, 6, Strike::Lost, true),
    (Point::Response, 6, Strike::Lost, true),
    (Point::Response, 7, Strike::Crc, true),
    (Point::Response, 10, Strike::EndBit, true),
    (Point::Response, 8, Strike::Index, true),
    // The data after a response that has come.
    (Point::WriteBlock, 30, Strike::Crc, false),
    (Point::WriteBlock, 30, Strike::NoStatus, false),
    (Point::WriteBlock, 30, Strike::Lost, false),
    (Point::Interrupt, 6, Strike::Lost, false),
    // The controller reports nothing at all.
    (Point::Dma, 8, Strike::Never, false),
    // A status with an error that is not lost.
    (Point::Response, 8, Strike::Status(1 << 19), true),
];

/// Writes a run with a fault in it, and checks what the flushes of two handles return.
fn check<B: Platform, const N: usize>(
    (stack, model, time): (&Stack<B, N>, &RefCell<impl Controller>, &Time),
    base: u64,
    (point, nth, strike, lost): (Point, u64, Strike, bool),
    what: &str,
) {
    let what = format!("{what}: {point:?} {nth} {strike:?}");
    let (first, second) = (BlockDevice::new(stack), BlockDevice::new(stack));
    let flush = |device: &BlockDevice<'_, B, N>| timed::drive(stack, model, time, device.flush());
    let faults = Faults::new(Plan::none().shot(point, nth, strike));
    model.borrow_mut().set_faults(faults.clone());
    for n in 0..WRITES {
        let write = first.write(base + 8 * n, timed::filled(8, n as u8 | 1));
        timed::drive(stack, model, time, write).0.unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    assert_eq!(faults.strikes(), 1, "{what}");
    model.borrow_mut().set_faults(Faults::none());
    let not_continued = stack.with(|engine| engine.stats().not_continued);
    let hurts = !matches!(strike, Strike::Status(_)) && point != Point::Interrupt;
    assert_eq!(not_continued, u64::from(nth > 1 && hurts), "{what}: the struck command");
    let told = [flush(&first), flush(&second)];
    for told in told {
        assert_eq!(matches!(told, Err(Error::Program(_) | Error::CacheLost)), lost, "{what}: {told:?}");
        assert!(lost || told == Ok(()), "{what}: {told:?}");
    }
    assert_eq!([flush(&first), flush(&second)], [Ok(()); 2], "{what}: once");
    for n in 0..WRITES {
        let read = first.read(base + 8 * n, timed::blocks(8));
        let (result, back) = timed::drive(stack, model, time, read);
        result.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(back.iter().all(|byte| *byte == n as u8 | 1), "{what}: write {n}");
    }
    assert!(!stack.with(|engine| engine.take_continue_lost()), "{what}");
    assert_eq!(model.borrow().protocol_violations(), 0, "{what}");
}

#[test]
fn a_lost_response_of_a_carrier_is_told_on_an_sdhci() {
    for case in CASES {
        for card in ["sdxc-128g-uhs", "emmc-hs200"] {
            let rig = open_sdhci::Rig::new(card, OpenWrites::Carrier, Mistakes::NONE);
            check((&rig.stack, &rig.model, &rig.time), rig.base, case, card);
        }
    }
}

#[test]
fn a_lost_response_of_a_carrier_is_told_on_designware() {
    for case in CASES {
        let place = (MshcConfig::PCI, "sdhc-16g-hs");
        let rig = open_mshc::Rig::new(place, OpenTransfers::NONE.writes(true));
        check((&rig.stack, &rig.model, &rig.time), rig.base, case, "designware");
    }
}

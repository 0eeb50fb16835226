//! Tests of the whole stack on an SPI bus, over the model of a card in SPI mode.

use mmcq::block::BlockDevice;
use mmcq::card;
use mmcq::engine::{DmaBuf, Erase, Error, Kind, Request};
use mmcq_sim::card::CardProfile;
use mmcq_sim::cards;
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::spi::Habits;

use crate::cases;
use crate::spi_rig::{Rig, buffer, model};

const EACH: [&str; 4] = ["sdsc-1g", "sdhc-16g-hs", "sdxc-64g-a2", "pro-plus-128"];

#[test]
fn every_card_comes_up_and_carries_a_load() {
    for card in EACH {
        let rig = Rig::new(card, Habits::USUAL);
        let found = rig.bring_up().unwrap_or_else(|error| panic!("{card}: {error}"));
        let profile = CardProfile::from_toml(cards::named(card).unwrap(), card).unwrap();
        assert_eq!(found.params.sectors * 512, profile.capacity_bytes(), "{card}");
        for seed in 1..4 {
            let failed = rig.load(found, seed, 60).unwrap_or_else(|error| panic!("{card}: {error}"));
            assert_eq!(failed, [], "{card}");
        }
        assert_eq!(rig.line.clock_hz(), 25_000_000);
        assert_eq!(rig.line.slot.borrow().protocol_violations(), 0, "{card}");
        assert_eq!(rig.line.slot.borrow().stats().blocks_bad, 0);
    }
}

#[test]
fn cards_of_every_habit() {
    let mut wrong = Vec::new();
    for response_bytes in 1..=8 {
        for (stop_bytes, stuff, deselect_ends) in [(0, 0xff, false), (1, 0x00, true), (1, 0x7f, false)] {
            let habits =
                Habits { response_bytes, stop_bytes, stuff, needs_gap: true, deselect_ends, ..Habits::USUAL };
            let rig = Rig::new("sdhc-16g-hs", habits);
            let told = match rig.bring_up() {
                Err(error) => error,
                Ok(found) => match rig.load(found, u64::from(response_bytes), 30) {
                    Err(error) => error,
                    Ok(failed) if !failed.is_empty() => format!("{failed:?}"),
                    Ok(_) if rig.line.slot.borrow().stats().commands[59] == 0 => "checksums are off".into(),
                    Ok(_) => continue,
                },
            };
            wrong.push(format!("{habits:?}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Checks one fault at a time: the stack recovers or reports an error, no data are wrong, and no
/// request waits for ever.
#[test]
fn each_fault_of_the_wire_once() {
    let strikes = [
        (Point::Exchange, Strike::Flip(3)),
        (Point::Exchange, Strike::Flip(11)),
        (Point::Exchange, Strike::Lost),
        (Point::Exchange, Strike::Astray(1)),
        (Point::Exchange, Strike::Astray(-1)),
        (Point::Command, Strike::Lost),
        (Point::Command, Strike::Crc),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::Status(1 << 22)),
        (Point::Response, Strike::Late(20_000)),
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::Lost),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::WriteBlock, Strike::Lost),
        (Point::Medium, Strike::Fail),
        (Point::Busy, Strike::Late(300_000_000)),
        (Point::Busy, Strike::Hidden),
        (Point::Busy, Strike::BrownOut),
        (Point::Response, Strike::BrownOut),
        (Point::ReadBlock, Strike::BrownOut),
        (Point::WriteBlock, Strike::BrownOut),
        (Point::ReadBlock, Strike::Late(50_000_000)),
    ];
    let mut wrong = Vec::new();
    let (mut tried, mut believed) = (0, 0);
    for (point, strike) in strikes {
        let bytes = cases::some(8, (1..140).chain((140..6_000).step_by(41)));
        let others = cases::some(4, 1..30);
        for nth in if point == Point::Exchange { bytes.collect() } else { Vec::from_iter(others) } {
            let habits = Habits {
                response_bytes: 1 + (nth % 8) as u8,
                stop_bytes: (nth % 2) as u8,
                deselect_ends: nth % 3 == 0,
                needs_gap: true,
                ..Habits::USUAL
            };
            let rig = Rig::new(EACH[nth as usize % 3], habits);
            let found = rig.bring_up().unwrap();
            let faults = rig.faults(Plan::none().shot(point, nth, strike));
            let result = rig.load(found, nth, 12);
            if faults.strikes() == 0 {
                break;
            }
            tried += 1;
            match result {
                Err(error) => wrong.push(format!("{strike:?} at {nth} of {point:?}: {error}")),
                Ok(failed) if failed.is_empty() => {}
                // A medium that fails once is reported.
                Ok(_) if point == Point::Medium => {}
                // R1 and R2 have no checksum, so the stack believes a damaged one.
                Ok(failed) if failed.iter().all(|error| matches!(error, Error::Card(_))) => believed += 1,
                Ok(failed) => wrong.push(format!("{strike:?} at {nth} of {point:?}: {failed:?}")),
            }
        }
    }
    assert!(tried > cases::rounds(6, 1_500) && believed < 20, "{tried}, {believed} of them believed");
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn faults_that_stay() {
    let mut wrong = Vec::new();
    for (point, strike) in [
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::Lost),
        (Point::WriteBlock, Strike::Crc),
        (Point::WriteBlock, Strike::NoStatus),
        (Point::WriteBlock, Strike::Lost),
        (Point::Command, Strike::Lost),
        (Point::Command, Strike::Crc),
        (Point::Response, Strike::Lost),
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::Status(u32::MAX)),
        (Point::Response, Strike::Late(10_000_000)),
        (Point::Busy, Strike::Hidden),
        (Point::Busy, Strike::Never),
        (Point::Busy, Strike::Late(100_000_000)),
        (Point::Medium, Strike::Fail),
        (Point::Exchange, Strike::Lost),
        (Point::Exchange, Strike::Astray(1)),
        (Point::Exchange, Strike::Flip(12)),
        (Point::Response, Strike::Remove),
        (Point::ReadBlock, Strike::Remove),
        (Point::WriteBlock, Strike::Remove),
    ] {
        for nth in [1, 4, 11] {
            let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
            let found = rig.bring_up().unwrap();
            let plan = if strike == Strike::Remove {
                Plan::none().shot(point, nth, strike)
            } else {
                Plan::none().from(point, nth, strike)
            };
            rig.faults(plan);
            let from_ns = rig.line.time.now();
            let result = rig.load(found, nth, 8);
            let took_ms = (rig.line.time.now() - from_ns) / 1_000_000;
            if let Err(error) = result {
                wrong.push(format!("{strike:?} from {nth} of {point:?}: {error}"));
            }
            if took_ms > 200_000 {
                wrong.push(format!("{strike:?} from {nth} of {point:?}: {took_ms} ms"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn high_speed_at_50_mhz() {
    let line = model("sdhc-16g-hs");
    let rig = Rig::at(line, 50_000_000);
    let found = rig.bring_up().unwrap();
    assert_eq!(rig.line.clock_hz(), 50_000_000);
    assert_eq!(rig.load(found, 3, 40).unwrap(), []);
    assert_eq!(rig.line.slot.borrow().protocol_violations(), 0);
}

/// Checks faults that stay: they are reported in bounded time.
#[test]
fn a_line_or_a_card_that_is_gone() {
    for strike in [Strike::Line(0), Strike::Line(1), Strike::Never] {
        let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
        let found = rig.bring_up().unwrap();
        rig.faults(Plan::none().shot(Point::Exchange, 700, strike));
        let from_ns = rig.line.time.now();
        let failed = rig.load(found, 1, 6).unwrap_or_else(|error| panic!("{strike:?}: {error}"));
        assert!(!failed.is_empty(), "{strike:?}");
        let took_ns = rig.line.time.now() - from_ns;
        assert!(took_ns < 200_000_000_000, "{strike:?}: {took_ns} ns");
    }
    // A bus without answers, and a bus that always reads zeros: each has an error of its own.
    let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
    rig.line.slot.borrow_mut().remove(0);
    let error = rig.bring_up().unwrap_err();
    assert_eq!(error, "bring-up: no card has been brought up");
    assert!(rig.line.time.now() < 3_000_000_000, "{} ns", rig.line.time.now());
    let rig = Rig::new("sdhc-16g-hs", Habits::USUAL);
    rig.faults(Plan::none().shot(Point::Exchange, 1, Strike::Line(0)));
    let error = rig.bring_up().unwrap_err();
    assert_eq!(error, "bring-up: the card's line is low all the time: not wired, or its port is not set up");
    assert!(rig.line.time.now() < 3_000_000_000, "{} ns", rig.line.time.now());
}

/// Checks a read up to the card's last block: the card reads ahead beyond that block before it is
/// stopped, and shows an error in its next status. The error belongs to no request.
#[test]
fn a_read_up_to_the_last_block() {
    for name in EACH {
        let rig = Rig::new(name, Habits::USUAL);
        let found = rig.bring_up().unwrap();
        rig.drive(card::enable_extended_ops(&rig.stack, &found, buffer(1))).unwrap().0.unwrap();
        let device = BlockDevice::new(&rig.stack);
        let (read, _) = rig.drive(device.read(found.params.sectors - 6, buffer(6))).unwrap();
        assert_eq!(read, Ok(6), "{name}");
        let kind = Kind::Erase { lba: 155, blocks: 1, how: Erase::Erase };
        let erased = rig.drive(rig.stack.request(Request::new(kind, DmaBuf::EMPTY))).unwrap();
        assert_eq!(erased.result.map(|_| ()), Ok(()), "{name}");
    }
}

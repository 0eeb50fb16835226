//! Tests of CMD52 during data transfers, on the SDHCI model: registers are accessed while a
//! transfer of about a MiB uses the DAT lines. The transfer is one of a combo card's memory, or a
//! CMD53 of a function.

mod rig;
#[path = "../timed/mod.rs"]
mod timed;

use mmcq::engine::{Error, Kind, Request, SlotId};
use mmcq::host::sdhci::{SdhciQuirks, TransferMode};
use mmcq::host::{Cause, Direction};
use mmcq::spec::command::sdio::{io_read, io_write, io_write_read};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::slot::Controller;
use mmcq_sim::world::Device;
use rig::{KEEPER, LONGEST, MIB, Rig, SETUP, Setup, direct, pattern, stream};
use timed::bytes as buffer;

fn percentile(ns: &mut [u64], share: f64) -> u64 {
    ns.sort_unstable();
    ns[((ns.len() - 1) as f64 * share) as usize]
}

#[test]
fn registers_are_read_beside_a_mib_of_memory() {
    for memory in ["sdhc-16g-hs", "sdxc-128g-uhs"] {
        for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
            let rig = Rig::new(Setup { memory: Some(memory), transfer, ..SETUP });
            let want = rig.medium(MIB);
            // Without concurrent commands a command waits for the end of the data.
            rig.stack.with(|engine| engine.set_concurrent_commands(false));
            let id = rig.read_memory(MIB);
            let before_ns = rig.keeps(1);
            rig.finish(id).result.unwrap();
            assert!(before_ns > 20_000_000, "{before_ns}");

            rig.stack.with(|engine| engine.set_concurrent_commands(true));
            let alone_ns = rig.keeps(2);
            let (from, stats) = (rig.time.now(), rig.stats());
            let id = rig.read_memory(MIB);
            let mut latencies = Vec::new();
            let mut value = 0u8;
            while !rig.rests() {
                value = value.wrapping_add(1);
                latencies.push(rig.keeps(value));
            }
            let done = rig.finish(id);
            let took_ns = rig.time.now() - from;
            assert_eq!(done.result.unwrap().bytes as usize, MIB);
            assert!(done.buf[..] == want[..], "{memory} {transfer:?}: other data");
            let beside = rig.stats().concurrent - stats.concurrent;
            assert!(beside > 1_000 && beside + 4 > latencies.len() as u64, "{beside} {}", latencies.len());
            let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
            println!(
                "{memory} {transfer:?}: alone {alone_ns} ns, waiting {before_ns} ns, beside {half} ns, \
                 worst {worst} ns, {} in {took_ns} ns",
                latencies.len()
            );
            assert!(half < 2 * alone_ns && worst < 20_000, "{half} {worst} {alone_ns}");
            assert_eq!((rig.stats().faults, rig.stats().lost_interrupts), (stats.faults, 0));
            rig.checked();
        }
    }
}

#[test]
fn registers_are_read_beside_the_longest_cmd53() {
    for transfer in [TransferMode::Adma2, TransferMode::Sdma, TransferMode::Pio] {
        for direction in [Direction::Read, Direction::Write] {
            let rig = Rig::new(Setup { memory: None, transfer, ..SETUP });
            rig.stack.with(|engine| engine.set_concurrent_commands(false));
            let id = rig.submit(stream(direction));
            let before_ns = rig.keeps(1);
            let faults = rig.stats().faults;
            let first = rig.finish(id);
            first.result.unwrap();
            rig.taken.borrow_mut().clear();

            rig.stack.with(|engine| engine.set_concurrent_commands(true));
            let id = rig.submit(stream(direction));
            let mut latencies = Vec::new();
            let mut value = 0u8;
            while !rig.rests() {
                value = value.wrapping_add(1);
                latencies.push(rig.keeps(value));
            }
            let done = rig.finish(id);
            done.result.unwrap();
            if direction == Direction::Write {
                let taken = rig.taken.borrow();
                assert!(taken.iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
                assert_eq!(taken.len(), LONGEST);
            } else {
                assert!(done.buf.iter().enumerate().all(|(at, &byte)| byte == pattern(LONGEST + at)));
            }
            let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
            println!(
                "CMD53 {direction:?} {transfer:?}: waiting {before_ns} ns, beside {half} ns, worst {worst} ns"
            );
            assert!(before_ns > 20_000_000 && half < 10_000 && worst < 20_000, "{before_ns} {half} {worst}");
            assert!(rig.stats().concurrent > 1_000);
            assert_eq!((rig.stats().faults, rig.stats().lost_interrupts), (faults, 0));
            rig.checked();
        }
    }
}

#[test]
fn registers_are_read_beside_a_mib_written_to_memory() {
    for memory in ["sdhc-16g-hs", "sdxc-128g-uhs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let (lba, blocks) = (rig.lba(), (MIB / 512) as u32);
        let mut buf = buffer(MIB);
        buf.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(at));
        let id = rig.submit(Request::new(Kind::Write { lba, blocks }, buf));
        let mut latencies = Vec::new();
        while !rig.rests() {
            latencies.push(rig.keeps(latencies.len() as u8));
        }
        rig.finish(id).result.unwrap();
        let (half, worst) = (percentile(&mut latencies, 0.5), percentile(&mut latencies, 1.0));
        assert!(half < 5_000 && worst < 20_000 && rig.stats().concurrent > 1_000, "{half} {worst}");
        assert!(rig.medium(MIB).iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
        rig.checked();
    }
}

/// Advances time until the data of a transfer are moving.
fn under_way(rig: &Rig) {
    let moved = |rig: &Rig| rig.model.borrow().stats().blocks_read;
    let before = moved(rig);
    while moved(rig) < before + 8 {
        let until = rig.model.borrow().next_event_ns().unwrap();
        let reached = rig.model.borrow_mut().advance(until);
        rig.time.set(reached);
        if rig.model.borrow().irq() {
            timed::one_thread::NOW_NS.set(reached);
            rig.stack.on_irq();
        }
    }
}

#[test]
fn a_command_that_fails_leaves_the_data_alone() {
    let faults = [
        (Point::Command, Strike::Lost, Cause::Timeout),
        (Point::Response, Strike::Lost, Cause::Timeout),
        (Point::Response, Strike::Crc, Cause::Crc),
        (Point::Response, Strike::EndBit, Cause::EndBit),
        (Point::Response, Strike::Index, Cause::Index),
    ];
    // The three kinds of transfer end by CMD23, by an automatic CMD12, and by themselves (CMD53).
    for memory in [Some("sdxc-128g-uhs"), Some("sdhc-16g-hs"), None] {
        for (point, strike, cause) in faults {
            let rig = Rig::new(Setup { memory, ..SETUP });
            let id =
                if memory.is_some() { rig.read_memory(MIB) } else { rig.submit(stream(Direction::Read)) };
            under_way(&rig);
            rig.keeps(1);
            let sent = (rig.sent(18), rig.sent(53));
            let (faults, from_ns) = (rig.stats().faults, rig.time.now());
            rig.goes_wrong(Plan::none().next(point, &[strike]));
            let (result, ns) = rig.ask(io_read(1, KEEPER));
            assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == cause), "{result:?}");
            assert!(ns < 20_000, "{ns}");
            // The next CMD52 goes beside the same data, unless the controller may send a CMD12
            // meanwhile.
            let next_ns = rig.keeps(3);
            let same = rig.time.now() - from_ns < 1_000_000;
            assert_eq!(same, memory != Some("sdhc-16g-hs"), "{next_ns}");
            let done = rig.finish(id);
            done.result.unwrap();
            match memory {
                Some(_) => assert!(done.buf[..] == rig.medium(MIB)[..], "other data"),
                None => assert!(done.buf.iter().enumerate().all(|(at, &byte)| byte == pattern(at))),
            }
            assert_eq!((rig.sent(18), rig.sent(53)), sent, "nothing was tried again");
            assert_eq!(rig.stats().faults, faults + 1);
            rig.keeps(4);
            rig.checked();
        }
    }
}

#[test]
fn a_lost_interrupt_is_found_at_the_commands_own_deadline() {
    for memory in ["sdxc-128g-uhs", "sdhc-16g-hs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let id = rig.read_memory(3 * MIB);
        under_way(&rig);
        rig.keeps(1);
        let id_52 = rig.submit(direct(io_read(1, KEEPER)));
        rig.goes_wrong(Plan::none().next(Point::Interrupt, &[Strike::Lost]));
        let since_ns = rig.time.now();
        assert_eq!(rig.finish(id_52).result.unwrap().response.r5().data(), 1);
        let ns = rig.time.now() - since_ns;
        assert!((51_000_000..52_000_000).contains(&ns) && !rig.rests(), "{ns}");
        assert_eq!(rig.stats().lost_interrupts, 1);
        let done = rig.finish(id);
        done.result.unwrap();
        assert!(done.buf[..] == rig.medium(3 * MIB)[..]);
        rig.checked();
    }
}

#[test]
fn without_card_or_host_a_command_waits() {
    let no_card = Setup { during_data: false, ..SETUP };
    let no_host = Setup { quirks: SdhciQuirks::RESET_CMD_DATA_TOGETHER, ..SETUP };
    for setup in [no_card, no_host] {
        let rig = Rig::new(setup);
        let id = rig.read_memory(MIB);
        under_way(&rig);
        assert!(rig.keeps(1) > 20_000_000);
        assert!(rig.finish(id).buf[..] == rig.medium(MIB)[..]);
        assert_eq!(rig.stats().concurrent, 0);
        rig.checked();
    }
    // The configuration wrongly says that a command beside data works. The stack then finds a card
    // that does not answer, but the data are complete.
    let rig = Rig::new(no_card);
    rig.stack.with(|engine| engine.set_concurrent_commands(true));
    let id = rig.read_memory(MIB);
    under_way(&rig);
    let (result, _) = rig.ask(io_read(1, KEEPER));
    assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == Cause::Timeout), "{result:?}");
    assert!(rig.finish(id).buf[..] == rig.medium(MIB)[..]);
}

#[test]
fn what_changes_the_bus_waits_for_the_data() {
    let rig = Rig::new(Setup { memory: None, ..SETUP });
    let id = rig.submit(stream(Direction::Read));
    under_way(&rig);
    // This CMD52 aborts the function whose data are moving, so it must wait for their end.
    let (result, ns) = rig.ask(io_write(0, 6, 1));
    assert!(result.is_ok() && ns > 20_000_000, "{ns}");
    assert!(rig.finish(id).buf.iter().enumerate().all(|(at, &byte)| byte == pattern(at)));
    assert_eq!(rig.stats().concurrent, 0);
    // Reading registers of function 0 need not wait, nor writing the interrupt enables.
    let id = rig.submit(stream(Direction::Read));
    under_way(&rig);
    assert!(rig.ask(io_read(0, 5)).1 < 20_000);
    assert!(rig.ask(io_write(0, 4, 3)).1 < 20_000);
    rig.finish(id).result.unwrap();
    rig.checked();
}

/// Checks faults of every kind while memory transfers, CMD53 and CMD52 go on: nothing hangs, every
/// request is answered, and data reported as read are right.
#[test]
fn a_storm_of_faults() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % limit
    };
    for memory in ["sdxc-128g-uhs", "sdhc-16g-hs"] {
        let rig = Rig::new(Setup { memory: Some(memory), ..SETUP });
        let want = rig.medium(64 * 1024);
        let (mut data, mut direct_id): (Option<SlotId>, Option<SlotId>) = (None, None);
        let (mut good, mut bad, mut answered, mut refused) = (0, 0, 0, 0);
        let mut rounds = 0;
        while rounds < 600 {
            if data.is_none() {
                data = Some(rig.read_memory(64 * 1024));
                rounds += 1;
            }
            if direct_id.is_none() {
                direct_id = Some(rig.submit(direct(io_write_read(1, KEEPER, rounds as u8))));
            }
            if below(1500) == 0 {
                let kinds = [
                    (Point::Command, Strike::Lost),
                    (Point::Response, Strike::Lost),
                    (Point::Response, Strike::Crc),
                    (Point::Response, Strike::EndBit),
                    (Point::Response, Strike::Index),
                    (Point::ReadBlock, Strike::Crc),
                    (Point::ReadBlock, Strike::EndBit),
                    (Point::Interrupt, Strike::Lost),
                ];
                let kind = below(9) as usize;
                let plan = match kinds.get(kind) {
                    Some(&(point, strike)) => Plan::none().next(point, &[strike]),
                    None => Plan::none()
                        .next(Point::Response, &[Strike::Lost])
                        .next(Point::ReadBlock, &[Strike::Crc]),
                };
                rig.goes_wrong(plan);
            }
            rig.turn();
            if let Some(done) = data.and_then(|id| rig.stack.with(|engine| engine.take(id))) {
                data = None;
                match done.result {
                    Ok(_) => {
                        good += 1;
                        assert!(done.buf[..] == want[..], "{memory}: other data in round {rounds}");
                    }
                    Err(_) => bad += 1,
                }
            }
            if let Some(done) = direct_id.and_then(|id| rig.stack.with(|engine| engine.take(id))) {
                direct_id = None;
                if done.result.is_ok() { answered += 1 } else { refused += 1 }
            }
        }
        for id in data.into_iter().chain(direct_id) {
            let _ = rig.finish(id);
        }
        assert!(
            good > 100 && bad == 0 && answered > 500 && refused > 10,
            "{good} {bad} {answered} {refused}"
        );
        assert!(rig.stats().concurrent > 500);
        rig.goes_wrong(Plan::none());
        rig.keeps(9);
        while !rig.stack.with(|engine| engine.is_idle()) {
            rig.turn();
        }
        rig.checked();
    }
}

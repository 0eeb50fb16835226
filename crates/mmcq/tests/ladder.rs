//! Tests of the recovery ladder on a scripted host: which steps are taken, how many times, in which
//! order, and which wrong results no client may get.

use crate::{bench, fuzz, support};
use bench::{BLOCKS, Bench, MS, bench, kept};
use mmcq::engine::{
    Abilities, BLOCK_BYTES, Config, DmaBuf, Engine, Erase, Erasing, Error, FlushBy, Handshake, Kind,
    PartitionAccess, RecoveryStep, Request, ServiceRequest,
};
use mmcq::host::{Auto, Cause, Data, Direction, Phase, Stage};
use mmcq::sched::{Fifo, Lean};
use mmcq::spec::command::{self, Command, Resp};
use mmcq::spec::response::R1;
use support::{TestHost, World, buffer, target};

/// Tests a command during bring-up, when the engine has no card yet, while the card-detect switch
/// bounces: the command ends as usual.
#[test]
fn a_command_ends_although_the_slots_switch_bounces() {
    let mut b = kept();
    b.e.set_card_params(None);
    let phase = Phase { command: command::go_idle_state(), data: None, auto: Auto::None, tuning: false };
    let id =
        b.submit(Request::new(Kind::Raw { prefix: None, phase, timeout_ns: MS }, DmaBuf::EMPTY).urgent());
    assert!(b.world.borrow().running());
    b.world.borrow_mut().insert();
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.e.stats().faults, 0);
}

#[test]
fn one_damaged_block_is_one_more_try() {
    let mut b = bench();
    b.fault(1, Cause::Crc, Stage::Data, true);
    let id = b.read(0, 8);
    assert!(b.finish(id).result.is_ok());
    // CMD13 shows the state `tran`, so no CMD12 is sent.
    assert_eq!(b.commands(), [18, 13, 18]);
    assert_eq!(b.steps(), [RecoveryStep::Classify, RecoveryStep::Status, RecoveryStep::Retry]);
    assert!(b.now < 2 * MS);
}

#[test]
fn a_card_that_still_sends_is_stopped_and_one_that_ended_is_not() {
    let mut b = bench();
    b.world.borrow_mut().bad.insert(3, Cause::Crc);
    let id = b.read(0, 8);
    b.step();
    b.world.borrow_mut().bad.clear();
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.commands(), [18, 13, 12, 13, 18]);
    // The card executes CMD12, but the response is lost. CMD13 then shows `tran`: that is success.
    b.world.borrow_mut().bad.insert(3, Cause::Crc);
    b.world.borrow_mut().log.clear();
    b.world.borrow_mut().faults.insert(3, (Cause::Timeout, Stage::Command, true));
    let id = b.read(0, 8);
    b.step();
    b.world.borrow_mut().bad.clear();
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.commands(), [18, 13, 12, 13, 18]);
}

#[test]
fn commands_are_tried_five_times_and_data_twice_more() {
    let mut b = bench();
    b.fault(1, Cause::Timeout, Stage::Command, false);
    for nth in 1..=5 {
        b.fault(1 + 2 * nth, Cause::Timeout, Stage::Command, false);
    }
    let id = b.read(0, 1);
    assert!(matches!(b.finish(id).result, Err(Error::Host(f)) if f.stage == Stage::Command));
    assert_eq!(b.commands(), [17, 13, 17, 13, 17, 13, 17, 13, 17, 13, 17, 13]);
    assert_eq!(b.taken(RecoveryStep::Retry), 5);
    let mut b = bench();
    b.world.borrow_mut().bad.insert(0, Cause::Timeout);
    let id = b.read(0, 1);
    assert!(matches!(b.finish(id).result, Err(Error::Host(f)) if f.stage == Stage::Data));
    assert_eq!(b.commands(), [17, 13, 17, 13, 17, 13]);
}

#[test]
fn the_bad_block_is_found_in_any_place_and_nothing_else_fails() {
    for bad in 0..32u64 {
        for writes in [false, true] {
            let mut b = bench();
            b.world.borrow_mut().bad.insert(64 + bad, Cause::Timeout);
            let first = if writes { b.write(200, 1, 9) } else { b.read(200, 1) };
            let ids: Vec<_> = (0..4u64)
                .map(|i| if writes { b.write(64 + 8 * i, 8, 7) } else { b.read(64 + 8 * i, 8) })
                .collect();
            assert!(b.finish(first).result.is_ok());
            for (i, id) in ids.into_iter().enumerate() {
                let done = b.finish(id);
                if i as u64 == bad / 8 {
                    assert!(done.result.is_err());
                    assert_eq!(u64::from(done.done_bytes / BLOCK_BYTES), bad % 8, "block {bad}");
                } else {
                    assert!(done.result.is_ok(), "block {bad}, request {i}: {:?}", done.result);
                }
            }
            assert!(b.now < 12_000 * MS);
            assert_eq!(b.world.borrow().mapped(), 0);
        }
    }
}

#[test]
fn what_came_later_on_the_same_blocks_stays_later() {
    let mut b = bench();
    b.fault(1, Cause::Crc, Stage::Data, false);
    b.fault(3, Cause::Crc, Stage::Data, false);
    let first = b.write(8, 8, 1);
    let read = b.read(8, 8);
    let second = b.write(8, 8, 2);
    let last = b.read(8, 8);
    assert!(b.finish(first).result.is_ok());
    assert!(b.finish(read).buf.iter().all(|&byte| byte == 1));
    assert!(b.finish(second).result.is_ok());
    assert!(b.finish(last).buf.iter().all(|&byte| byte == 2));
}

/// Tests a lost response that had the error of an earlier write: the write is sent again, and not
/// reported as complete.
#[test]
fn a_lost_status_is_no_success() {
    for executed in [true, false] {
        let mut b = bench();
        let write = b.write(0, 8, 1);
        let read = b.read(100, 8);
        // The write is not programmed, and the response that shows this, of the read, is damaged.
        b.world.borrow_mut().next_status = 0;
        b.step();
        b.world.borrow_mut().medium[..4096].fill(0);
        b.fault(0, Cause::Crc, Stage::Command, executed);
        assert!(b.finish(write).result.is_ok());
        assert!(b.finish(read).result.is_ok());
        assert!(b.world.borrow().medium[..4096].iter().all(|&byte| byte == 1), "written again");
    }
    // If the status is lost a second time, the write has failed.
    let mut b = bench();
    let write = b.write(0, 8, 1);
    b.step();
    for nth in [0, 3, 6] {
        b.fault(nth, Cause::Crc, Stage::Command, true);
    }
    assert!(matches!(b.finish(write).result, Err(Error::Program(_))), "{:?}", b.commands());
}

/// Tests the same loss with a profile that does not recover: the write ends with an error, since no
/// later status can show that it was programmed. The response of recovery's own CMD13 may be lost
/// as well.
#[test]
fn a_lean_engine_reports_no_success_after_a_lost_status() {
    for lost_by_recovery in [false, true] {
        let mut b = Bench::new(Lean(Fifo));
        let write = b.write(0, 8, 1);
        let read = b.read(100, 8);
        b.step();
        if lost_by_recovery {
            b.fault(0, Cause::Timeout, Stage::Command, false);
            b.fault(1, Cause::Crc, Stage::Command, true);
        } else {
            b.fault(0, Cause::Crc, Stage::Command, true);
        }
        assert!(b.finish(read).result.is_err());
        assert!(matches!(b.finish(write).result, Err(Error::Program(_))), "{lost_by_recovery}");
        let again = b.write(0, 8, 1);
        assert!(b.finish(again).result.is_ok(), "{lost_by_recovery}");
    }
}

#[test]
fn an_error_in_one_piece_of_a_write_is_the_writes() {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_bytes = 8 * 512;
    let mut e: Engine<TestHost, 16> = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS)));
    let mut b = Bench { world, e, now: 1_000 };
    let id = b.write(0, 32, 1);
    b.step();
    // The R1 of the second piece shows an error of the first piece.
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(b.finish(id).result, Err(Error::Program(_))));
}

#[test]
fn what_must_not_be_repeated_is_not() {
    let phase = |index, data| Phase {
        command: Command::new(index, 0, Resp::R1),
        data,
        auto: Auto::None,
        tuning: false,
    };
    let data = Some(Data { direction: Direction::Write, block_size: 512, blocks: 1 });
    for kind in [
        Kind::Raw { prefix: None, phase: phase(25, data), timeout_ns: MS },
        Kind::Io { phase: phase(53, data), timeout_ns: MS, chain: false },
        Kind::Raw { prefix: None, phase: phase(38, None), timeout_ns: MS },
    ] {
        let mut b = kept();
        b.fault(1, Cause::Crc, Stage::Command, true);
        let id = b.submit(Request::new(kind, buffer(1, 0)));
        assert!(matches!(b.finish(id).result, Err(Error::Host(_))));
        assert_eq!(b.world.borrow().log.len(), 1, "{kind:?}");
    }
}

#[test]
fn a_flush_that_was_not_understood_is_sent_again_and_one_that_failed_is_not() {
    let flush = || Request::new(Kind::Flush, DmaBuf::EMPTY);
    let cached = |b: &mut Bench| {
        let flush = FlushBy::EmmcCache { timeout_ns: 5_000 * MS };
        b.e.set_card_params(Some(target(BLOCKS).flush(flush)));
        let id = b.write(8, 1, 1);
        assert!(b.finish(id).result.is_ok());
        b.world.borrow_mut().log.clear();
    };
    let mut b = bench();
    cached(&mut b);
    b.fault(1, Cause::Crc, Stage::Command, false);
    let id = b.submit(flush());
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.commands(), [6, 13, 6, 13]);
    // The controller's timeout ends before the card is ready: the engine waits for the card.
    let mut b = bench();
    cached(&mut b);
    b.fault(1, Cause::Timeout, Stage::Busy, true);
    let id = b.submit(flush());
    b.step();
    b.world.borrow_mut().stuck_state = Some(7 << 9);
    let patient_ns = b.now + 4_000 * MS;
    while b.now < patient_ns {
        b.step();
    }
    assert!(b.e.take(id).is_none() && b.taken(RecoveryStep::Reset) == 0);
    b.world.borrow_mut().stuck_state = None;
    assert!(b.finish(id).result.is_ok());
    let mut b = bench();
    cached(&mut b);
    b.fault(1, Cause::Timeout, Stage::Command, true);
    let id = b.submit(flush());
    b.step();
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(b.finish(id).result.is_err());
}

/// Tests a card that was initialised again and has lost the state of the request under way: an
/// erase continues, and a request that must not be executed twice ends.
#[test]
fn what_must_not_be_done_twice_is_not_sent_to_a_card_that_was_initialised_again() {
    let order = Kind::LongCommand {
        command: command::emmc::switch(command::emmc::SwitchMode::WriteByte, 34, 1, 0),
        timeout_ns: MS,
    };
    let erase = Kind::Erase { lba: 0, blocks: 16, how: Erase::Trim };
    let visit = |config| PartitionAccess {
        config,
        switch_ns: MS,
        lba: 0,
        out: 1,
        reliable: true,
        ask: true,
        back: 1,
    };
    for (kind, index, times) in [
        (order, 6, 1),
        (Kind::PartitionAccess(visit(3)), 25, 1),
        (Kind::PartitionAccess(visit(1)), 25, 2),
        (erase, 38, 2),
    ] {
        let mut b = kept();
        b.e.enable_extended_ops();
        let erase =
            Erasing::NONE.kinds(0b11111).emmc(true).unit_blocks(16).group_blocks(16).erase_ms(1).trim_ms(1);
        b.e.set_abilities(Abilities::NONE.erase(erase));
        b.world.borrow_mut().areas.insert(1, vec![0; 4096]);
        b.world.borrow_mut().rpmb = Some(Box::new(|_, _| {}));
        b.world.borrow_mut().medium[..512].fill(9);
        let id = b.submit(Request::new(kind, buffer(3, 0)));
        // A later write of the same blocks must be executed later.
        let younger = b.write(0, 1, 5);
        while b.commands().iter().all(|&seen| seen != index) {
            b.step();
        }
        let sent = |b: &Bench| b.commands().iter().filter(|&&seen| seen == index).count();
        // The response is lost, and the card has lost its state: its status shows `idle`.
        b.fault(0, Cause::Timeout, Stage::Command, true);
        b.world.borrow_mut().stuck_state = Some(0);
        assert_eq!(b.help(), ServiceRequest::Reinit);
        (b.world.borrow_mut().stuck_state, b.world.borrow_mut().area) = (None, 0);
        let before = sent(&b);
        assert_eq!(before, 1, "{kind:?}");
        b.e.service_done(Ok(target(BLOCKS)), b.now);
        let done = b.finish(id);
        assert!(b.finish(younger).result.is_ok());
        let writes = usize::from(index == 25 && times == 2);
        assert_eq!(sent(&b) - writes, times, "{kind:?}: {:?}", b.commands());
        assert_eq!(done.result.is_ok(), times == 2, "{kind:?}: {:?}", done.result);
        assert_eq!(b.world.borrow().medium[0], 5, "{kind:?}");
    }
}

/// Tests a card that loses its state during the switch to the replay-protected area (RPMB): no
/// frame was sent, so the request is sent again.
#[test]
fn an_rpmb_visit_that_has_sent_no_frame_begins_again() {
    for nth in 0..3 {
        let mut b = kept();
        b.e.enable_extended_ops();
        b.world.borrow_mut().rpmb = Some(Box::new(|_, _| {}));
        let visit =
            PartitionAccess { config: 3, switch_ns: MS, lba: 0, out: 1, reliable: true, ask: true, back: 1 };
        let id = b.submit(Request::new(Kind::PartitionAccess(visit), buffer(3, 0)));
        // The lost response is that of CMD6, of the CMD13 after it, or of CMD23.
        b.fault(nth, Cause::Timeout, Stage::Command, true);
        b.world.borrow_mut().stuck_state = Some(0);
        assert_eq!(b.help(), ServiceRequest::Reinit);
        (b.world.borrow_mut().stuck_state, b.world.borrow_mut().area) = (None, 0);
        assert!(!b.commands().contains(&25));
        b.e.service_done(Ok(target(BLOCKS)), b.now);
        let done = b.finish(id);
        assert!(done.result.is_ok(), "phase {nth} fails: {:?}, {:?}", done.result, b.commands());
        assert_eq!(b.commands().iter().filter(|&&seen| seen == 25).count(), 2, "frame and question");
    }
}

/// Tests a flush whose command cannot be sent because the CMD line stays in use: the engine gives
/// up the start long before the time limit of the flush (1 s), since no command uses the CMD line
/// for longer than 70 ms.
#[test]
fn a_command_that_cannot_be_sent_is_given_up_before_its_own_time_is_over() {
    let mut b = kept();
    let cached = target(BLOCKS).flush(FlushBy::EmmcCache { timeout_ns: 1_000 * MS });
    b.e.set_card_params(Some(cached));
    let written = b.write(0, 8, 5);
    assert!(b.finish(written).result.is_ok());
    let began_ns = b.now;
    b.world.borrow_mut().refuse_starts = u32::MAX;
    let id = b.submit(Request::new(Kind::Flush, DmaBuf::EMPTY));
    while b.taken(RecoveryStep::Classify) == 0 {
        b.step();
    }
    b.world.borrow_mut().refuse_starts = 0;
    assert!(b.now - began_ns < 75 * MS, "{} ms", (b.now - began_ns) / MS);
    assert!(b.finish(id).result.is_ok());
}

/// Tests a write whose command never leaves the controller: the first poll finds this, long before
/// the quarter of a second that a write may take.
#[test]
fn a_command_that_hangs_in_the_controller_is_given_up_at_the_first_look() {
    let mut b = bench();
    (b.world.borrow_mut().silent, b.world.borrow_mut().hangs) = (true, true);
    let id = b.write(0, 8, 1);
    assert!(b.finish(id).result.is_ok());
    assert!(b.now < 55 * MS, "{} ms", b.now / MS);
    assert_eq!((b.taken(RecoveryStep::Classify), b.taken(RecoveryStep::Reset)), (1, 0));
}

#[test]
fn a_controller_in_trouble_is_reset() {
    let mut b = bench();
    for nth in [1, 3, 5] {
        b.fault(nth, Cause::Dma, Stage::Data, false);
    }
    let id = b.read(0, 8);
    assert!(b.finish(id).result.is_ok());
    assert_eq!((b.taken(RecoveryStep::Reset), b.world.borrow().resets_of_all), (1, 1));
    assert!(b.now < 100 * MS);
}

#[test]
fn another_card_gets_nothing() {
    let mut b = kept();
    let ids = [b.write(0, 8, 5), b.write(64, 8, 5), b.read(128, 8)];
    b.fault(1, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    let transfers = b.world.borrow().transfers().len();
    b.e.service_done(Err(Error::Changed), b.now);
    for id in ids {
        assert_eq!(b.finish(id).result, Err(Error::Changed));
    }
    assert_eq!(b.world.borrow().transfers().len(), transfers);
}

#[test]
fn writes_that_fail_say_nothing_of_the_next_write() {
    let mut b = bench();
    b.world.borrow_mut().bad_for_writes = true;
    b.world.borrow_mut().bad_says = R1::ERROR;
    b.world.borrow_mut().bad.insert(0, Cause::Timeout);
    for round in 0..20 {
        // Requests that are queued together with the bad write succeed.
        let ids = [b.write(0, 1, 1), b.write(64, 8, 1), b.read(128, 8)];
        let [bad, other, read] = ids.map(|id| b.finish(id).result);
        assert!(matches!(bad, Err(Error::Program(_))), "{round}: {bad:?}");
        assert!(other.is_ok() && read.is_ok(), "{round}");
    }
    b.world.borrow_mut().bad.clear();
    let id = b.write(0, 1, 1);
    assert!(b.finish(id).result.is_ok());
}

/// Tests a bus that damages every write and no read: recovery does not blame the card, which
/// reports no error.
#[test]
fn a_wire_that_damages_writes_says_nothing_of_the_card() {
    for cause in [Cause::Crc, Cause::EndBit, Cause::Timeout] {
        let mut b = bench();
        b.world.borrow_mut().bad_for_writes = true;
        b.world.borrow_mut().bad.insert(0, cause);
        for _ in 0..20 {
            let id = b.write(0, 1, 1);
            assert!(matches!(b.finish(id).result, Err(Error::Host(_))), "{cause:?}");
        }
        b.world.borrow_mut().bad.clear();
        let id = b.write(0, 1, 1);
        assert!(b.finish(id).result.is_ok());
    }
}

#[test]
fn a_lean_engine_answers_instead() {
    let mut b = Bench::new(Lean(Fifo));
    b.world.borrow_mut().bad.insert(19, Cause::Crc);
    b.read(200, 1);
    let ids: Vec<_> = (0..4).map(|i| b.read(8 * i, 8)).collect();
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(b.finish(id).result.is_ok(), i != 2);
    }
    assert_eq!(b.steps(), []);
    b.world.borrow_mut().silent = true;
    let id = b.read(0, 1);
    assert_eq!(b.finish(id).result, Err(Error::Silent));
    b.world.borrow_mut().silent = false;
    let id = b.write(0, 1, 1);
    assert!(b.finish(id).result.is_ok());
}

/// Tests any two faults at any places: every request ends in bounded time, and the data stay right.
#[test]
fn faults_anywhere_end_well_or_in_an_error() {
    fuzz::fuzz("faults_anywhere_end_well_or_in_an_error", 200, |u| {
        let mut b = if u.arbitrary()? { kept() } else { bench() };
        let mut model = vec![Some(0u8); BLOCKS as usize];
        for _ in 0..u.int_in_range(0..=6)? {
            let nth = u.int_in_range(1..=60)?;
            let cause = *u.choose(&[Cause::Crc, Cause::Timeout, Cause::Dma, Cause::Index])?;
            let stage = *u.choose(&[Stage::Command, Stage::Data])?;
            b.fault(nth, cause, stage, u.arbitrary()?);
        }
        for step in 0..u.int_in_range(1..=12)? {
            let blocks = u.int_in_range(1..=8u32)?;
            let lba = u.int_in_range(0..=BLOCKS - 8)? & !3;
            let fill = step as u8 + 1;
            let range = lba as usize..(lba as usize + blocks as usize);
            let ids = [b.write(lba, blocks, fill), b.read(lba, blocks)];
            for (n, id) in ids.into_iter().enumerate() {
                let begun = b.now;
                let done = loop {
                    if let Some(done) = b.e.take(id) {
                        break done;
                    }
                    if let Some(help) = b.e.take_service_request() {
                        let helps = !matches!(help, ServiceRequest::Retune);
                        let answer = if helps { Ok(target(BLOCKS)) } else { Err(Error::Unsupported) };
                        b.e.service_done(answer, b.now);
                    }
                    b.step();
                    assert!(b.now - begun < 26_000 * MS, "{:?}", b.steps());
                };
                match (n, done.result) {
                    (0, Ok(_)) => model[range.clone()].fill(Some(fill)),
                    (0, Err(_)) => model[range.clone()].fill(None),
                    (_, Ok(_)) => {
                        for (block, bytes) in range.clone().zip(done.buf.chunks(512)) {
                            assert!(model[block].is_none_or(|known| bytes.iter().all(|&byte| byte == known)));
                        }
                    }
                    (_, Err(_)) => {}
                }
            }
            if b.taken(RecoveryStep::Dead) > 0 {
                return Ok(());
            }
        }
        assert_eq!((b.world.borrow().mapped(), b.e.slots_in_use()), (0, 0));
        Ok(())
    });
}

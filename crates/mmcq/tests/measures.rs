//! Tests of each measure of recovery: when it is taken, how many times, and when it is not.

use crate::{bench, support};
use bench::{BLOCKS, Bench, MS, bench, kept};
use mmcq::engine::{
    Config, DmaBuf, Engine, Error, FlushBy, Handshake, Kind, RecoveryStep, Request, ServiceRequest, SlotId,
};
use mmcq::host::{Auto, Cause, Phase, Stage};
use mmcq::sched::{Fifo, Lean};
use mmcq::spec::command::{Command, Resp};
use mmcq::spec::response::R1;
use std::task::Waker;
use support::{TestHost, World, buffer, target};

const CACHE: FlushBy = FlushBy::EmmcCache { timeout_ns: 500 * MS };

/// Returns an engine on a host that transfers at most eight blocks at a time.
fn in_pieces() -> Bench {
    let world = World::new(BLOCKS);
    world.borrow_mut().caps.max_bytes = 8 * 512;
    let mut e = Engine::new(TestHost::new(&world), Config::DEFAULT);
    e.set_card_params(Some(target(BLOCKS)));
    Bench { world, e, now: 1_000 }
}

fn flush(b: &mut Bench) -> SlotId {
    b.submit(Request::new(Kind::Flush, DmaBuf::EMPTY))
}

/// Makes a read whose first try is damaged, and grants all help. Returns the requests for help.
fn damaged_once(b: &mut Bench) -> Vec<ServiceRequest> {
    b.fault(1, Cause::Crc, Stage::Data, true);
    let id = b.read(0, 1);
    helped_until(b, id).0
}

/// Runs the engine until this request is done, and grants all help. Returns the requests for help,
/// and the result of the request.
fn helped_until(b: &mut Bench, id: SlotId) -> (Vec<ServiceRequest>, Result<u32, Error>) {
    let mut asked = Vec::new();
    for _ in 0..10_000 {
        if let Some(done) = b.e.take(id) {
            return (asked, done.result.map(|output| output.bytes));
        }
        if let Some(help) = b.e.take_service_request() {
            asked.push(help);
            b.e.service_done(Ok(target(BLOCKS)), b.now);
        }
        b.step();
    }
    panic!("never done: {asked:?}");
}

fn well(b: &mut Bench, reads: u32) {
    for _ in 0..reads {
        let id = b.read(8, 1);
        assert!(b.finish(id).result.is_ok());
    }
}

#[test]
fn the_third_damage_in_64_transfers_is_one_too_many() {
    // Between the first damaged transfer and the third there are two repetitions and `between`
    // reads.
    for (between, expected) in
        [(0, vec![ServiceRequest::Retune]), (59, vec![ServiceRequest::Retune]), (60, vec![])]
    {
        let mut b = kept();
        assert_eq!(damaged_once(&mut b), []);
        well(&mut b, between);
        assert_eq!(damaged_once(&mut b), []);
        assert_eq!(damaged_once(&mut b), expected, "{between} in between");
    }
    // Without a supervisor it is not asked for; and what is missing is no damage.
    let mut b = bench();
    for _ in 0..6 {
        assert_eq!(damaged_once(&mut b), []);
    }
    let mut b = kept();
    for _ in 0..6 {
        b.fault(1, Cause::Timeout, Stage::Data, true);
        let id = b.read(0, 1);
        assert_eq!(helped_until(&mut b, id), (vec![], Ok(512)));
    }
}

#[test]
fn soon_after_a_tuning_it_is_made_slower_and_later_tuned_again() {
    let mut b = kept();
    let asked: Vec<_> = (0..4).flat_map(|_| damaged_once(&mut b)).collect();
    assert_eq!(asked, [ServiceRequest::Retune, ServiceRequest::Slower]);
    // The count of damaged transfers begins again in the new mode.
    assert_eq!((damaged_once(&mut b), damaged_once(&mut b)), (vec![], vec![]));
    b.now += 1_000 * MS;
    assert_eq!(damaged_once(&mut b), [ServiceRequest::Retune]);
    assert_eq!((b.taken(RecoveryStep::Retune), b.taken(RecoveryStep::Slower)), (2, 1));
}

#[test]
fn damage_that_stays_is_tuned_once_and_slowed_down_five_times() {
    let mut b = kept();
    b.world.borrow_mut().bad.insert(0, Cause::Crc);
    let id = b.read(0, 1);
    let (asked, result) = helped_until(&mut b, id);
    assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == Cause::Crc));
    assert_eq!(asked, [&[ServiceRequest::Retune][..], &[ServiceRequest::Slower; 5]].concat());
    // Three tries in the first mode, one after the tuning, three in each of five slower modes.
    assert_eq!(b.world.borrow().transfers().len(), 3 + 1 + 5 * 3);
    // A later incident begins with the first measure again.
    b.now += 1_000 * MS;
    let id = b.read(0, 1);
    assert_eq!(helped_until(&mut b, id).0, asked);
}

#[test]
fn a_card_that_does_not_know_cmd23_is_asked_twice() {
    for (failures, known) in [(1, true), (2, false)] {
        let mut b = bench();
        for nth in 0..failures {
            b.fault(1 + 2 * nth, Cause::Timeout, Stage::Count, false);
        }
        let id = b.read(0, 8);
        assert!(b.finish(id).result.is_ok());
        assert_eq!(b.e.card_params().unwrap().count, known, "{failures} failures");
        assert_eq!(b.taken(RecoveryStep::Retry), failures as u64);
    }
}

/// Tests a flush that fails and has the slot of an earlier read: only the flush is repeated.
#[test]
fn a_flush_in_the_slot_of_the_last_read_is_repeated_alone() {
    let mut b = bench();
    b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    let write = b.write(0, 1, 0);
    assert!(b.finish(write).result.is_ok());
    let read = b.read(0, 1);
    assert!(b.finish(read).result.is_ok());
    b.fault(1, Cause::Crc, Stage::Command, false);
    let id = flush(&mut b);
    assert_eq!(id.index(), read.index());
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.commands(), [24, 13, 17, 6, 13, 6, 13]);
    let ids: Vec<_> = (0..8).map(|i| b.read(16 * i, 1)).collect();
    for id in ids {
        assert!(b.finish(id).result.is_ok());
    }
    assert_eq!(b.e.slots_in_use(), 0);
}

/// Tests a write in pieces when the card is reset between two pieces: the first piece was only in
/// the lost cache, so the write begins again.
#[test]
fn a_write_in_pieces_begins_again_when_the_cache_was_lost() {
    let mut b = in_pieces();
    b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    let _ = b.e.set_service_waker(Some(Waker::noop().clone()));
    let id = b.write(0, 24, 7);
    b.step();
    b.fault(0, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().stuck_state = Some(0);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    b.world.borrow_mut().stuck_state = None;
    b.world.borrow_mut().medium.fill(0);
    b.e.service_done(Ok(target(BLOCKS).flush(CACHE)), b.now);
    let done = b.finish(id);
    assert_eq!(done.result.map(|output| output.bytes), Ok(24 * 512));
    assert!(b.world.borrow().medium[..24 * 512].iter().all(|&byte| byte == 7));
    let places: Vec<_> = b.world.borrow().transfers().iter().map(|seen| seen.arg).collect();
    assert_eq!(places, [0, 8, 0, 8, 16]);
    // The loss is reported by one flush, and counted once.
    let id = flush(&mut b);
    assert_eq!(b.finish(id).result, Err(Error::CacheLost));
    let id = flush(&mut b);
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.e.stats().cache_lost, 1);
}

/// Tests a client that drops the flush which would report a loss: the next flush reports it.
#[test]
fn a_loss_is_told_to_a_client_that_listens() {
    for taken_late in [false, true] {
        let mut b = bench();
        b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
        let id = b.write(0, 8, 7);
        assert!(b.finish(id).result.is_ok());
        b.e.set_card_params(None);
        b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
        let id = flush(&mut b);
        if taken_late {
            while b.e.next_deadline_ns().is_some() || b.world.borrow().running() {
                b.step();
            }
        }
        assert!(b.e.cancel(id).is_none_or(|buf| buf.len_bytes() == 0));
        let id = flush(&mut b);
        assert_eq!(b.finish(id).result, Err(Error::CacheLost), "dropped when done: {taken_late}");
        let id = flush(&mut b);
        assert!(b.finish(id).result.is_ok());
    }
}

/// Tests two writes whose status has not come when the card is taken out: neither write counts any
/// block as done.
#[test]
fn a_write_whose_status_never_came_claims_nothing() {
    let mut b = bench();
    let (first, second) = (b.write(0, 8, 7), b.write(64, 8, 7));
    b.step();
    b.world.borrow_mut().present = false;
    b.e.presence_changed(b.now);
    for id in [first, second] {
        let done = b.finish(id);
        assert_eq!((done.result, done.done_bytes), (Err(Error::Removed), 0));
    }
}

#[test]
fn a_card_that_programs_for_ever_is_asked_for_three_seconds() {
    let mut b = kept();
    let id = b.write(0, 8, 1);
    b.fault(1, Cause::Timeout, Stage::Busy, true);
    b.world.borrow_mut().stuck_state = Some(7 << 9);
    assert_eq!(b.help(), ServiceRequest::Reinit);
    // The engine waits 1.5 s for the card before the reset of the controller, and 1.5 s after it.
    assert!((3_000 * MS..3_100 * MS).contains(&b.now), "{} ns", b.now);
    assert_eq!((b.taken(RecoveryStep::Reset), b.world.borrow().resets_of_all), (1, 1));
    b.world.borrow_mut().stuck_state = None;
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    assert!(b.finish(id).result.is_ok());
}

#[test]
fn a_flush_has_the_time_that_the_card_asks_for() {
    let mut b = bench();
    let cache = FlushBy::EmmcCache { timeout_ns: 5_000 * MS };
    b.e.set_card_params(Some(target(BLOCKS).flush(cache)));
    b.fault(1, Cause::Timeout, Stage::Busy, true);
    let id = flush(&mut b);
    b.step();
    b.world.borrow_mut().stuck_state = Some(7 << 9);
    while b.now < 4_500 * MS {
        b.step();
    }
    assert_eq!(b.taken(RecoveryStep::Reset), 0);
    b.world.borrow_mut().stuck_state = None;
    assert!(b.finish(id).result.is_ok());
}

#[test]
fn requests_that_failed_together_stay_together_for_commands_longer_than_for_data() {
    // Faults of a command: five tries, each with all requests together.
    let mut b = bench();
    b.fault(2, Cause::Timeout, Stage::Command, false);
    for nth in 1..=4 {
        b.fault(2 + 2 * nth, Cause::Timeout, Stage::Command, false);
    }
    let ids = [b.read(200, 1), b.read(0, 8), b.read(8, 8)];
    for id in ids {
        assert!(b.finish(id).result.is_ok());
    }
    let sizes: Vec<_> = b.world.borrow().transfers().iter().map(|seen| seen.blocks).collect();
    assert_eq!(sizes, [1, 16, 16, 16, 16, 16, 16]);
    // Faults of data: one more try together, and then each request alone.
    let mut b = bench();
    b.fault(2, Cause::Timeout, Stage::Data, true);
    b.fault(4, Cause::Timeout, Stage::Data, true);
    let ids = [b.read(200, 1), b.read(0, 8), b.read(8, 8)];
    for id in ids {
        assert!(b.finish(id).result.is_ok());
    }
    let sizes: Vec<_> = b.world.borrow().transfers().iter().map(|seen| seen.blocks).collect();
    assert_eq!(sizes, [1, 16, 16, 8, 8]);
}

#[test]
fn an_abort_stops_what_moves_and_nothing_else() {
    let mut b = bench();
    b.e.abort(b.now);
    assert_eq!((b.world.borrow().resets, b.steps().len()), (0, 0), "nothing moves");
    let id = b.read(0, 1);
    b.world.borrow_mut().silent = true;
    b.e.abort(b.now);
    assert_eq!(b.world.borrow().resets, 1, "at once");
    b.e.abort(b.now);
    assert_eq!(b.world.borrow().resets, 1, "it is being stopped");
    b.step();
    b.world.borrow_mut().silent = false;
    assert!(b.finish(id).result.is_ok());
    assert!(b.now < MS);
}

#[test]
fn help_that_fails_leads_to_the_next() {
    // If tuning and slowing down fail, the engine continues in the present mode.
    let mut b = kept();
    b.world.borrow_mut().bad.insert(0, Cause::Crc);
    let id = b.read(0, 1);
    for expected in [ServiceRequest::Retune, ServiceRequest::Slower] {
        assert_eq!(b.help(), expected);
        let sent = b.commands().len();
        b.e.service_done(Err(Error::Unsupported), b.now);
        assert_eq!(b.commands().len(), sent + 1, "at once");
    }
    assert!(matches!(b.finish(id).result, Err(Error::Host(_))));
    assert_eq!(b.taken(RecoveryStep::PowerCycle), 0);
    // A tuning that finds no sampling point leads to a slower mode, one that is not even answered
    // to a new initialisation.
    let untuned = Error::Protocol(mmcq::engine::Breach::NoSamplingPoint);
    for (first, second) in [(untuned, ServiceRequest::Slower), (Error::Silent, ServiceRequest::Reinit)] {
        let mut b = kept();
        b.world.borrow_mut().bad.insert(0, Cause::Crc);
        let ids = [b.read(0, 1), b.read(64, 8)];
        for (expected, error) in [
            (ServiceRequest::Retune, first),
            (second, Error::Silent),
            (ServiceRequest::PowerCycle, Error::Silent),
        ] {
            assert_eq!(b.help(), expected);
            b.e.service_done(Err(error), b.now);
        }
        for id in ids {
            assert_eq!(b.finish(id).result, Err(Error::Dead));
        }
        assert_eq!(b.taken(RecoveryStep::Dead), 1);
    }
}

#[test]
fn a_card_that_bounces_is_believed_after_a_time_of_quiet() {
    let mut b = kept();
    let write = || Request::new(Kind::Write { lba: 0, blocks: 1 }, buffer(1, 0));
    let read = b.read(0, 1);
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.finish(read).result, Err(Error::Removed));
    // The contact bounces; the engine believes it after 50 ms without a change.
    for _ in 0..3 {
        b.now += 30 * MS;
        b.world.borrow_mut().insert();
        let _ = b.e.on_irq(b.now);
    }
    let quiet = b.now;
    assert_eq!(b.help(), ServiceRequest::Inserted);
    assert!((50 * MS..51 * MS).contains(&(b.now - quiet)), "{} ns", b.now - quiet);
    assert_eq!(b.e.submit(write(), b.now).unwrap_err().0, Error::NoCard);
    b.e.service_done(Ok(target(BLOCKS)), b.now);
    let id = b.write(0, 1, 1);
    assert!(b.finish(id).result.is_ok());
    // Gone for good; and one that does not come up is no card.
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.help(), ServiceRequest::Removed);
    b.e.service_done(Err(Error::Removed), b.now);
    b.world.borrow_mut().insert();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.help(), ServiceRequest::Inserted);
    b.e.service_done(Err(Error::Silent), b.now);
    assert_eq!(b.e.submit(write(), b.now).unwrap_err().0, Error::NoCard);
}

/// Tests a write in two pieces where the response to the second piece, with the status of the first
/// one, is lost: both pieces are written again.
#[test]
fn a_lost_status_takes_the_pieces_before_with_it() {
    let mut b = in_pieces();
    let id = b.write(0, 16, 7);
    b.step();
    b.world.borrow_mut().medium.fill(0);
    b.fault(0, Cause::Crc, Stage::Command, true);
    let done = b.finish(id);
    assert_eq!(done.result.map(|output| output.bytes), Ok(16 * 512));
    assert!(b.world.borrow().medium[..16 * 512].iter().all(|&byte| byte == 7));
}

#[test]
fn what_the_card_says_at_last_goes_to_its_owner() {
    // The response to the second write is lost. The next status request finds an error, which
    // belongs to the first write: so the first write fails, and is not sent again.
    let mut b = bench();
    let (first, second) = (b.write(0, 8, 1), b.write(100, 8, 2));
    b.step();
    b.fault(0, Cause::Crc, Stage::Command, false);
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(b.finish(first).result, Err(Error::Program(_))));
    assert!(b.finish(second).result.is_ok());
    let places: Vec<_> = b.world.borrow().transfers().iter().map(|seen| seen.arg).collect();
    assert_eq!(places, [0, 100, 100]);
    // If the next request is a read, the error may be that of the write, which is sent again.
    let mut b = bench();
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    b.step();
    b.fault(0, Cause::Crc, Stage::Command, false);
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(b.finish(write).result.is_ok());
    assert!(b.finish(read).result.is_ok());
    let writes = b.world.borrow().transfers().iter().filter(|seen| seen.index == 25).count();
    assert_eq!(writes, 2);
    // An error that occurs during a read belongs to the read.
    let mut b = bench();
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    b.step();
    b.fault(0, Cause::Timeout, Stage::Data, false);
    b.world.borrow_mut().next_status = R1::CARD_ECC_FAILED;
    assert!(b.finish(write).result.is_ok());
    assert!(b.finish(read).result.is_ok());
    // The next flush reports an error that belongs to no request, only one time.
    let mut b = bench();
    b.world.borrow_mut().next_status = R1::ERROR;
    let read = b.read(0, 1);
    assert!(b.finish(read).result.is_ok());
    assert_eq!(b.e.stats().unowned, 1);
    let id = flush(&mut b);
    assert!(matches!(b.finish(id).result, Err(Error::Program(_))));
    let id = flush(&mut b);
    assert!(b.finish(id).result.is_ok());
    // An error that belongs to a write fails no other request.
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    b.world.borrow_mut().next_status = 0;
    b.step();
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(b.finish(write).result, Err(Error::Program(_))));
    assert!(b.finish(read).result.is_ok());
    let id = flush(&mut b);
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.e.stats().unowned, 1);
}

#[test]
fn a_lean_engine_knows_who_comes_and_goes() {
    let mut b = Bench::new(Lean(Fifo));
    let id = b.read(0, 8);
    b.world.borrow_mut().insert();
    assert!(b.finish(id).result.is_ok(), "it was there all the time");
    let id = b.read(0, 8);
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.finish(id).result, Err(Error::Removed));
    // A write whose status was lost may not have been programmed.
    let mut b = Bench::new(Lean(Fifo));
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    b.step();
    b.fault(0, Cause::Crc, Stage::Command, false);
    b.world.borrow_mut().next_status = R1::ERROR;
    assert!(matches!(b.finish(write).result, Err(Error::Program(_))));
    assert!(b.finish(read).result.is_err());
}

/// Tests that writes get their status before the supervisor sends commands: the responses to these
/// commands would show the status of the writes, and so clear it on the card.
#[test]
fn writes_get_their_status_before_another_request_talks_to_the_card() {
    let mut b = kept();
    b.world.borrow_mut().retune = true;
    let id = b.write(0, 8, 1);
    assert!(b.finish(id).result.is_ok());
    assert_eq!(b.commands(), [25, 13]);
    assert!(b.now < MS, "without waiting for help");
    assert_eq!(b.help(), ServiceRequest::Retune);
}

#[test]
fn a_write_between_two_pieces_ends_with_its_card() {
    let mut b = in_pieces();
    b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
    let id = b.write(0, 24, 7);
    b.e.halt();
    b.step();
    // The status of the piece.
    b.step();
    assert!(!b.world.borrow().running());
    b.world.borrow_mut().remove();
    let _ = b.e.on_irq(b.now);
    assert_eq!(b.finish(id).result, Err(Error::Removed));
    assert_eq!((b.world.borrow().mapped(), b.e.slots_in_use()), (0, 0));
}

/// Tests a write that is sent a second time: its status is read at once, and afterwards it is an
/// ordinary write.
#[test]
fn a_doubt_is_over_when_the_card_has_answered() {
    let mut b = bench();
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    b.step();
    b.fault(0, Cause::Crc, Stage::Command, false);
    assert!(b.finish(write).result.is_ok() && b.finish(read).result.is_ok());
    assert_eq!(b.commands(), [25, 18, 13, 25, 13, 18]);
    b.world.borrow_mut().log.clear();
    b.world.borrow_mut().faults.clear();
    let (write, read) = (b.write(0, 8, 1), b.read(100, 8));
    assert!(b.finish(write).result.is_ok() && b.finish(read).result.is_ok());
    assert_eq!(b.commands(), [25, 18], "its status comes with the read");
}

/// Tests a transfer that fails for lack of time: the next try has more time, and the next request
/// has the usual time.
#[test]
fn a_retry_has_more_time_than_the_try() {
    let mut b = bench();
    let waits = |b: &mut Bench, id: SlotId| {
        let (mut waits, mut begun) = (Vec::new(), None);
        for _ in 0..10_000 {
            if b.e.take(id).is_some() {
                break;
            }
            // The card does not answer the read, and answers all other commands.
            let (index, sent) = {
                let world = b.world.borrow();
                (world.log.last().map(|seen| seen.index), world.log.len())
            };
            let asked = index == Some(17);
            if asked && begun.is_none_or(|(at, _)| at != sent) {
                begun = Some((sent, b.now));
            }
            b.world.borrow_mut().silent = asked;
            b.step();
            if b.world.borrow().log.len() != sent
                && let Some((_, since)) = begun.take()
            {
                waits.push((b.now - since) / MS);
            }
        }
        waits
    };
    for _ in 0..2 {
        let id = b.read(3, 1);
        let waits = waits(&mut b, id);
        let [first, second, third, ..] = waits[..] else { panic!("{waits:?}") };
        // The card's time of 100 ms doubles with each try; the engine's own slack does not grow.
        assert_eq!((second - first, third - second), (100, 200), "{waits:?}");
    }
}

#[test]
fn when_the_controller_is_gone_every_client_hears_of_it() {
    let phase = Phase { command: Command::new(7, 0, Resp::R1), data: None, auto: Auto::None, tuning: false };
    let raw = Kind::Raw { prefix: None, phase, timeout_ns: MS };
    for (kind, own) in [(raw, true), (Kind::Flush, false), (Kind::Read { lba: 0, blocks: 1 }, false)] {
        let mut b = bench();
        b.e.set_card_params(Some(target(BLOCKS).flush(CACHE)));
        let id = b.write(0, 1, 0);
        assert!(b.finish(id).result.is_ok());
        b.fault(1, Cause::Gone, Stage::Command, false);
        let id = b.submit(Request::new(kind, buffer(1, 0)));
        let others = [b.write(64, 8, 1), flush(&mut b)];
        let result = b.finish(id).result;
        match own {
            true => assert!(matches!(result, Err(Error::Host(fault)) if fault.cause == Cause::Gone)),
            false => assert_eq!(result, Err(Error::Dead), "{kind:?}"),
        }
        for id in others {
            assert_eq!(b.finish(id).result, Err(Error::Dead));
        }
        assert_eq!((b.world.borrow().mapped(), b.e.slots_in_use()), (0, 0));
    }
}

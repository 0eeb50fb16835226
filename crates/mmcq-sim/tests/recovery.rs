//! Tests of every step of the recovery ladder, on the SDHCI model with cards that fall ill, in
//! virtual time. Each step has a longest time.

use crate::rig;
use mmcq::card::{Event, Options};
use mmcq::engine::{Error, RecoveryStep};
use mmcq::host::{Caps, Timing};
use mmcq_sim::faults::{Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;
use rig::{Rig, buffer, card};

const MS: u64 = 1_000_000;

/// Writes and reads back, eight requests each, and calls `plant` when the second request is on the
/// bus. Returns how much longer the load took than without `plant`, in ns.
fn load(rig: &Rig, plant: impl FnOnce(&Rig)) -> u64 {
    let begin = rig.time.now();
    let writes: Vec<_> = (0..8).map(|i| rig.write(1000 * i, 8, i as u8 + 1)).collect();
    rig.turn();
    plant(rig);
    for done in rig.finish(&writes, 15_000 * MS) {
        assert_eq!(done.result.unwrap().bytes, 4096);
    }
    let reads: Vec<_> = (0..8).map(|i| rig.read(1000 * i, 8)).collect();
    for (i, done) in rig.finish(&reads, 15_000 * MS).into_iter().enumerate() {
        done.result.unwrap();
        assert!(done.buf.iter().all(|&byte| byte == i as u8 + 1), "request {i}");
    }
    rig.time.now() - begin
}

#[test]
fn damage_on_the_bus_costs_two_milliseconds() {
    let undisturbed = load(&Rig::new("sdhc-16g-hs"), |_| {});
    // The fault may strike any command or block.
    for nth in 0..40 {
        for mute in [true, false] {
            let rig = Rig::new("sdhc-16g-hs");
            let took = load(&rig, |rig| {
                let mut ills = rig.ills.borrow_mut();
                let at = ills.commands + nth;
                if mute { ills.mute_at.push(at) } else { ills.deaf_at.push(at) }
            });
            assert!(took <= undisturbed + 2 * MS, "command {nth}: {took} for {undisturbed}");
            assert_eq!(
                rig.taken(RecoveryStep::Reset)
                    + rig.taken(RecoveryStep::Reinit)
                    + rig.taken(RecoveryStep::Dead),
                0
            );
            rig.checked();
        }
    }
    for (point, strike) in [
        (Point::Response, Strike::Crc),
        (Point::Response, Strike::EndBit),
        (Point::Response, Strike::Index),
        (Point::ReadBlock, Strike::Crc),
        (Point::ReadBlock, Strike::EndBit),
        (Point::WriteBlock, Strike::Crc),
    ] {
        let rig = Rig::new("sdhc-16g-hs");
        let took = load(&rig, |rig| rig.faults(Plan::none().next(point, &[strike])));
        assert!(took <= undisturbed + 2 * MS, "{took} for {undisturbed}");
        assert_eq!(rig.taken(RecoveryStep::Retry), 1, "{:?}", rig.trace());
        rig.checked();
    }
}

#[test]
fn a_lost_interrupt_is_found_at_its_deadline() {
    let rig = Rig::new("sdhc-16g-hs");
    let id = rig.read(0, 8);
    let deadline = rig.stack.with(|engine| engine.next_deadline_ns()).unwrap();
    rig.faults(Plan::none().next(Point::Interrupt, &[Strike::Lost]));
    assert!(rig.one(id).result.is_ok());
    assert!(rig.time.now() <= deadline + 10 * MS);
    assert_eq!((rig.stats().lost_interrupts, rig.taken(RecoveryStep::Classify)), (1, 0));
}

/// Checks a second fault during the recovery from the first: the nth command after the first fault
/// is not received, or its answer is lost.
#[test]
fn recovery_may_fault_at_any_step() {
    for nth in 1..14 {
        for more in [1, 2, 3] {
            for mute in [true, false] {
                let rig = Rig::new("sdhc-16g-hs");
                load(&rig, |rig| {
                    let mut ills = rig.ills.borrow_mut();
                    let at = ills.commands + 2;
                    ills.mute_at.push(at);
                    let second = (at + nth..at + nth + more).collect();
                    if mute { ills.mute_at.append(&mut { second }) } else { ills.deaf_at = second }
                });
                assert_eq!(rig.taken(RecoveryStep::Dead), 0);
                rig.checked();
            }
        }
    }
}

#[test]
fn a_bad_block_fails_its_request_alone_and_exactly() {
    let rig = Rig::new("sdhc-16g-hs");
    let mark = |lba: u64, fill: u8| rig.one(rig.write(lba, 1, fill)).result.unwrap();
    for lba in 0..96 {
        mark(lba, 1);
    }
    mark(40, 0xbd);
    rig.ills.borrow_mut().bad_byte = Some(0xbd);
    rig.read(500, 1);
    let ids: Vec<_> = (0..6).map(|i| rig.read(16 * i, 16)).collect();
    for (i, done) in rig.finish(&ids, 12_000 * MS).into_iter().enumerate() {
        match i {
            2 => {
                assert!(matches!(done.result, Err(Error::Host(_))), "{:?}", done.result);
                assert_eq!(done.done_bytes, 8 * 512);
            }
            _ => assert!(done.result.is_ok(), "request {i}: {:?}", done.result),
        }
    }
    rig.checked();
}

#[test]
fn lost_tuning_is_found_again() {
    for (name, timing) in
        [("sdxc-128g-uhs", Timing::Sdr104), ("emmc-hs200", Timing::Hs200), ("hbg4a2", Timing::Hs400)]
    {
        // HS400 with enhanced strobe is excluded, since it needs no tuning.
        let options = Options::DEFAULT.without(Caps::timing_bit(Timing::Hs400Es));
        let rig = Rig::with(name, options);
        assert_eq!(rig.found.timing, timing, "{name}");
        let undisturbed = load(&rig, |_| {});
        rig.ills.borrow_mut().detuned = true;
        let took = load(&rig, |_| {});
        assert_eq!(rig.taken(RecoveryStep::Retune), 1, "{name}: {:?}", rig.trace());
        assert_eq!(rig.taken(RecoveryStep::Slower), 0);
        assert!(took <= undisturbed + 20 * MS, "{name}: {took} for {undisturbed}");
        rig.checked();
    }
}

#[test]
fn too_much_damage_makes_it_slower() {
    let rig = Rig::new("sdxc-128g-uhs");
    rig.ills.borrow_mut().reads_up_to_hz = Some(60_000_000);
    load(&rig, |_| {});
    assert!(rig.taken(RecoveryStep::Slower) > 0);
    assert_eq!(rig.taken(RecoveryStep::Dead), 0);
    assert!(rig.model.borrow().bus().clock_hz <= 60_000_000);
    // From now on no block is damaged.
    let before = rig.stats().faults;
    load(&rig, |_| {});
    assert_eq!(rig.stats().faults, before);
}

#[test]
fn a_card_that_lost_its_state_is_initialised_again() {
    for name in ["sdhc-16g-hs", "sdxc-128g-uhs", "emmc-hs200", "hbg4a2"] {
        let rig = Rig::new(name);
        let undisturbed = load(&rig, |_| {});
        let took = load(&rig, |rig| rig.ills.borrow_mut().brown_out = true);
        assert_eq!(
            (rig.taken(RecoveryStep::Reinit), rig.taken(RecoveryStep::PowerCycle)),
            (1, 0),
            "{name}: {:?}",
            rig.trace()
        );
        assert!(took <= undisturbed + 2_000 * MS, "{name}: {took}");
        assert!(rig.events.borrow().is_empty());
    }
}

/// Checks a card that lost its state and is in `idle`: there it answers no tuning block, so the
/// recovery must not wait for any.
#[test]
fn a_card_that_lost_its_state_costs_no_tuning() {
    for (name, limit_ms) in [("emmc-hs200", 150), ("sdxc-128g-uhs", 150)] {
        let rig = Rig::new(name);
        let undisturbed = load(&rig, |_| {});
        let took = load(&rig, |rig| rig.ills.borrow_mut().brown_out = true);
        assert!(took <= undisturbed + limit_ms * MS, "{name}: {} us, {:?}", took / 1000, rig.trace());
        assert_eq!(rig.taken(RecoveryStep::PowerCycle), 0, "{name}: {:?}", rig.trace());
    }
}

/// Checks a supply that fails for a moment: the recovery waits once for the supply before it gives
/// the card up.
#[test]
fn a_supply_that_is_away_for_a_moment_comes_back() {
    for name in ["sdhc-16g-hs", "sdxc-128g-uhs", "emmc-hs200", "hbg4a2"] {
        let rig = Rig::new(name);
        let begin = rig.time.now();
        rig.model.borrow_mut().set_supply(false, begin);
        let id = rig.read(0, 8);
        rig.until(begin + 100 * MS);
        rig.model.borrow_mut().set_supply(true, begin + 100 * MS);
        assert!(rig.one(id).result.is_ok(), "{name}: {:?}", rig.trace());
        assert!(rig.time.now() < begin + 1_000 * MS, "{name}: {:?}", rig.trace());
        assert_eq!(rig.taken(RecoveryStep::Dead), 0, "{name}: {:?}", rig.trace());
    }
}

/// Checks that a supervisor saves the card although the program has already filled the queue.
#[test]
fn a_supervisor_that_comes_to_a_full_queue_saves_the_card() {
    let rig = Rig::alone("sdhc-16g-hs", Options::DEFAULT);
    let writes: Vec<_> = (0..16).map(|i| rig.write(1000 * i, 8, i as u8 + 1)).collect();
    rig.keep();
    rig.ills.borrow_mut().brown_out = true;
    let ended = rig.finish(&writes, 15_000 * MS);
    assert_eq!((rig.taken(RecoveryStep::Reinit), rig.taken(RecoveryStep::Dead)), (1, 0), "{:?}", rig.trace());
    let refused = ended.iter().filter(|done| done.result == Err(Error::Full)).count();
    assert_eq!((refused, ended.iter().filter(|done| done.result.is_ok()).count()), (1, 15));
    rig.checked();
}

#[test]
fn a_cache_that_was_lost_is_told_to_one_flush() {
    let rig = Rig::new("hbg4a2");
    assert!(rig.one(rig.write(0, 8, 1)).result.is_ok());
    assert!(rig.one(rig.flush()).result.is_ok());
    // The cache holds no data at this loss of supply.
    rig.ills.borrow_mut().brown_out = true;
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    assert_eq!((rig.taken(RecoveryStep::Reinit), rig.stats().cache_lost), (1, 0));
    assert!(rig.one(rig.flush()).result.is_ok());
    // The cache holds data at this loss of supply.
    assert!(rig.one(rig.write(64, 8, 1)).result.is_ok());
    rig.ills.borrow_mut().brown_out = true;
    assert!(rig.one(rig.read(0, 8)).result.is_ok());
    assert_eq!((rig.taken(RecoveryStep::Reinit), rig.stats().cache_lost), (2, 1));
    assert_eq!(rig.one(rig.flush()).result, Err(Error::CacheLost));
    assert!(rig.one(rig.flush()).result.is_ok());
}

#[test]
fn a_card_that_wants_its_supply_off_gets_it() {
    let rig = Rig::new("sdhc-16g-hs");
    load(&rig, |rig| rig.ills.borrow_mut().mute = true);
    // The reset of the controller switches the supply off for a moment, which is enough for this
    // card.
    assert!(rig.taken(RecoveryStep::Reinit) + rig.taken(RecoveryStep::PowerCycle) > 0, "{:?}", rig.trace());
    assert_eq!(rig.taken(RecoveryStep::Dead), 0);
}

#[test]
fn a_card_that_is_busy_for_ever_is_reset() {
    let rig = Rig::new("sdhc-16g-hs");
    load(&rig, |rig| rig.ills.borrow_mut().stuck_busy = true);
    assert!(rig.taken(RecoveryStep::Reset) > 0, "{:?}", rig.trace());
    assert_eq!(rig.taken(RecoveryStep::Dead), 0);
}

#[test]
fn a_dead_card_is_given_up_and_every_request_answered() {
    for supervisor in [true, false] {
        let rig =
            if supervisor { Rig::new("sdhc-16g-hs") } else { Rig::alone("sdhc-16g-hs", Options::DEFAULT) };
        let ids: Vec<_> = (0..8).map(|i| rig.write(1000 * i, 8, 1)).collect();
        rig.ills.borrow_mut().mute_for_ever = true;
        let last: Vec<_> = rig.finish(&ids, 13_000 * MS);
        assert!(last.iter().skip(1).all(|done| done.result == Err(Error::Dead)), "{last:?}");
        assert_eq!(rig.taken(RecoveryStep::Dead), 1);
        let before = rig.time.now();
        let refused = rig.stack.with(|engine| {
            engine.submit(
                mmcq::engine::Request::new(mmcq::engine::Kind::Read { lba: 0, blocks: 1 }, buffer(1, 0)),
                before,
            )
        });
        assert_eq!(refused.unwrap_err().0, Error::Dead);
        assert_eq!(rig.time.now(), before);
        rig.checked();
    }
}

#[test]
fn a_controller_that_is_gone_ends_everything_at_once() {
    let rig = Rig::new("sdhc-16g-hs");
    let ids: Vec<_> = (0..8).map(|i| rig.read(1000 * i, 8)).collect();
    rig.faults(Plan::none().next(Point::Response, &[Strike::Gone]));
    for done in rig.finish(&ids, 1_000 * MS) {
        assert_eq!(done.result, Err(Error::Dead));
        assert_eq!(done.buf.len_bytes(), 4096, "what is gone moves no data");
    }
}

#[test]
fn lines_that_cannot_be_reset_cost_a_reset_of_the_controller() {
    let rig = Rig::new("sdhc-16g-hs");
    // Every reset of the lines hangs, for ever. The driver waits 100 ms for the reset bit, then
    // resets the controller, which switches off the card's supply.
    load(&rig, |rig| {
        let hung = Plan::none().from(Point::Reset, 1, Strike::Status(2));
        rig.faults(hung.next(Point::WriteBlock, &[Strike::Crc]));
    });
    assert!(rig.taken(RecoveryStep::Reset) > 0);
    assert_eq!(rig.taken(RecoveryStep::Dead), 0, "{:?}", rig.trace());
}

/// Checks that a DAT line held low is found before a flush is sent: otherwise it would look like
/// the flush's busy, and be noticed only after the longest flush, 30 s.
#[test]
fn lines_that_are_held_are_found_before_a_flush() {
    let rig = Rig::new("hbg4a2");
    assert!(rig.one(rig.write(0, 8, 1)).result.is_ok());
    rig.faults(Plan::none().next(Point::ReadBlock, &[Strike::Stuck]));
    assert!(rig.one(rig.read(64, 1)).result.is_ok());
    let (begin, known) = (rig.time.now(), rig.trace().len());
    rig.finish(&[rig.flush()], 5_000 * MS);
    let first = rig.trace().get(known).map(|(at_ns, _)| (at_ns - begin) / MS);
    assert!(first.is_some_and(|ms| ms <= 600), "{first:?}");
    assert_eq!(rig.taken(RecoveryStep::Dead), 0, "{:?}", rig.trace());
    rig.checked();
}

#[test]
fn a_controller_that_cannot_be_reset_keeps_the_buffer() {
    let rig = Rig::new("sdhc-16g-hs");
    let ids = [rig.read(0, 8), rig.read(1000, 8)];
    let hung = Plan::none().from(Point::Reset, 1, Strike::Never);
    rig.faults(hung.next(Point::ReadBlock, &[Strike::Crc]));
    let done = rig.finish(&ids, 1_000 * MS);
    assert!(done.iter().all(|done| done.result == Err(Error::Dead)), "{done:?}");
    assert_eq!((done[0].buf.len_bytes(), done[1].buf.len_bytes()), (0, 4096));
    assert_eq!(rig.stats().leaked, 1);
    assert_eq!(rig.memory.violations(), Vec::<String>::new());
}

#[test]
fn a_card_that_is_taken_out_and_put_back() {
    let rig = Rig::new("sdhc-16g-hs");
    let ids: Vec<_> = (0..8).map(|i| rig.write(1000 * i, 8, 1)).collect();
    rig.turn();
    let out = rig.model.borrow_mut().remove(rig.time.now()).unwrap();
    let done = rig.finish(&ids, 100 * MS);
    assert!(done.iter().skip(2).all(|done| done.result == Err(Error::Removed)), "{done:?}");
    rig.until(rig.time.now() + 100 * MS);
    assert_eq!(*rig.events.borrow(), [Event::Removed]);
    // The contact bounces twenty times in 50 ms.
    let mut out = Some(out);
    for n in 0..21 {
        let now = rig.time.now();
        if n % 2 == 0 {
            rig.model.borrow_mut().insert(out.take().unwrap(), now);
        } else {
            out = rig.model.borrow_mut().remove(now);
        }
        rig.until(now + 2_500_000);
    }
    let commands = rig.ills.borrow().commands;
    rig.until(rig.time.now() + 2_000 * MS);
    assert!(commands < rig.ills.borrow().commands);
    let events = rig.events.borrow().clone();
    let [Event::Removed, Event::Inserted(Ok(found))] = events[..] else { panic!("{events:?}") };
    assert_eq!(found.cid, rig.found.cid);
    load(&rig, |_| {});
}

#[test]
fn nothing_meant_for_one_card_reaches_another() {
    let rig = Rig::new("sdhc-16g-hs");
    let ids: Vec<_> = (0..8).map(|i| rig.write(1000 * i, 8, 0xaa)).collect();
    rig.turn();
    rig.ills.borrow_mut().swap = Some(card("sdsc-1g"));
    rig.ills.borrow_mut().heard.clear();
    let done = rig.finish(&ids, 12_000 * MS);
    assert!(done.iter().skip(2).all(|done| done.result == Err(Error::Changed)), "{done:?}");
    let events = rig.events.borrow().clone();
    let [Event::Changed(found)] = events[..] else { panic!("{events:?}") };
    assert_ne!(found.cid, rig.found.cid);
    let done = rig.one(rig.read(3000, 8));
    assert!(done.result.is_ok() && done.buf.iter().any(|&byte| byte != 0xaa));
    load(&rig, |_| {});
}

/// Checks that a card may be removed at any moment, also in the middle of a recovery.
#[test]
fn a_card_may_be_taken_out_at_any_moment() {
    for after_us in (0..3_000).step_by(61) {
        for ill in [false, true] {
            let rig = Rig::new("sdhc-16g-hs");
            let ids: Vec<_> = (0..8).map(|i| rig.write(1000 * i, 8, 1)).collect();
            if ill {
                let mut ills = rig.ills.borrow_mut();
                let next = ills.commands + 1;
                ills.mute_at.extend(next + 2..next + 5);
            }
            rig.until(rig.time.now() + after_us * 1_000);
            rig.model.borrow_mut().remove(rig.time.now());
            let debounce_ns = rig.model.borrow().config().debounce_ns;
            for done in rig.finish(&ids, debounce_ns + 100 * MS) {
                // A write whose status was lost twice may have been executed or not, so the test
                // can check no more.
                let known = matches!(done.result, Ok(_) | Err(Error::Removed));
                assert!(known || ill && matches!(done.result, Err(Error::Program(_))), "{:?}", done.result);
                assert_eq!(done.buf.len_bytes(), 4096);
            }
            rig.until(rig.time.now() + 100 * MS);
            assert_eq!(*rig.events.borrow(), [Event::Removed]);
            assert_eq!(rig.memory.violations(), Vec::<String>::new());
        }
    }
}

/// Checks a controller that cannot switch the supply: only the board can power-cycle a card that
/// does not answer any more.
#[test]
fn a_supply_that_the_board_switches_cures_what_the_controllers_cannot() {
    for board_switches in [false, true] {
        let config = SdhciConfig { always_powered: true, ..SdhciConfig::GENERIC_4_20 };
        let rig = Rig::built(rig::card("emmc-51-full"), true, config, Options::DEFAULT);
        rig.keep();
        rig.ills.borrow_mut().board_switches = board_switches;
        rig.ills.borrow_mut().mute = true;
        let result = rig.one(rig.read(0, 8)).result;
        assert_eq!(result.is_ok(), board_switches, "{result:?}; {:?}", rig.trace());
        assert_eq!(rig.ills.borrow().switched_on, u32::from(board_switches));
        assert_eq!(rig.taken(RecoveryStep::PowerCycle), 1);
        rig.checked();
    }
}

/// Checks a card that answers nothing until its supply has been off. A slot that accepts only SD
/// cards switches its supply off too, and does not take the card for one that was removed.
#[test]
fn a_silent_card_of_a_slot_for_sd_cards_has_its_supply_switched() {
    let config = SdhciConfig { always_powered: true, ..SdhciConfig::GENERIC_4_20 };
    let rig = Rig::built(rig::card("sdhc-16g-hs"), false, config, Options::DEFAULT);
    rig.keep_sd();
    rig.ills.borrow_mut().board_switches = true;
    rig.ills.borrow_mut().mute = true;
    let read = rig.read(0, 8);
    while rig.ills.borrow().switched_on == 0 && rig.taken(RecoveryStep::Dead) == 0 {
        assert!(rig.events.borrow().is_empty(), "{:?}", rig.trace());
        rig.turn();
    }
    // The card has its supply in time before the first command.
    rig.ills.borrow_mut().brown_out = false;
    assert_eq!(rig.one(read).result.err(), None, "{:?}", rig.trace());
    assert_eq!(rig.taken(RecoveryStep::PowerCycle), 1, "{:?}", rig.trace());
    rig.checked();
}

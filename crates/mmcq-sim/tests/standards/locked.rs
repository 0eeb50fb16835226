//! Tests of cards with a password [SD 4.3.7], [eMMC 6.6.19].

use super::machine::{Rig, buffer};
use super::rig;
use mmcq::block::BlockDevice;
use mmcq::card::protect::{LockOp, lock};
use mmcq::card::{self, Options};
use mmcq::engine::{Error, Irreversible, RecoveryStep};
use mmcq::host::{Caps, Timing, sdhci};
use mmcq::spec::response::R1;
use mmcq_sim::card::Card;
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::sdhci::SdhciConfig;

const SURE: Irreversible = Irreversible::i_know_that_this_cannot_be_undone();
const WORD: &[u8] = b"open sesame";
const NAMES: [&str; 4] = ["sdsc-1g", "sdhc-16g-hs", "sdxc-128g-uhs", "emmc-hs200"];

/// Returns a card that was locked elsewhere with a password.
fn closed(name: &str) -> Box<dyn Card> {
    closed_with(name, ("", ""))
}

/// Returns a locked card with one line of its profile replaced.
fn closed_with(name: &str, (line, other): (&str, &str)) -> Box<dyn Card> {
    let path = format!("{}/cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(line), "{name}: {line}");
    let profile = CardProfile::from_toml(&text.replacen(line, other, 1), name).unwrap();
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
    if profile.is_emmc() {
        let mut card = profile.build_emmc(medium).unwrap();
        card.set_password(WORD);
        Box::new(card)
    } else {
        let mut card = profile.build_sd(medium).unwrap();
        card.set_password(WORD);
        Box::new(card)
    }
}

fn machine(name: &str) -> Rig {
    machine_with(name, closed(name), SdhciConfig::GENERIC_4_20)
}

fn machine_with(name: &str, card: Box<dyn Card>, model: SdhciConfig) -> Rig {
    let emmc = name.contains("emmc");
    let model = SdhciConfig { uhs_at_33v: emmc, ..model };
    let driver = if emmc { sdhci::SdhciConfig::emmc_18() } else { sdhci::SdhciConfig::new() };
    Rig::with_card(card, model, driver, 0).unwrap()
}

fn unlock(op: &'static LockOp<'static>) -> Options {
    Options::DEFAULT.unlock(Some(op))
}

const RIGHT: &LockOp<'static> = &LockOp::Unlock(WORD);
const WRONG: &LockOp<'static> = &LockOp::Unlock(b"open barley");
const ERASED: &LockOp<'static> = &LockOp::ForceErase(SURE);

#[test]
fn a_locked_card_is_told_by_its_own_error() {
    for name in NAMES {
        let rig = machine(name);
        assert_eq!(rig.bring_up(Options::DEFAULT).unwrap_err(), Error::Locked, "{name}");
        assert_eq!(rig.bring_up(unlock(WRONG)).unwrap_err(), Error::Locked, "{name}");
    }
}

#[test]
fn bring_up_opens_a_locked_card_by_its_password_and_leaves_none_in_memory() {
    for name in NAMES {
        let rig = machine(name);
        let (found, scratch) = rig.drive(card::bring_up(&rig.stack, buffer(1), unlock(RIGHT)));
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!scratch.windows(WORD.len()).any(|bytes| bytes == WORD), "{name}");
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
    }
}

#[test]
fn a_card_whose_password_is_lost_can_be_erased() {
    for name in NAMES {
        let rig = machine(name);
        rig.bring_up(unlock(ERASED)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = rig.bring_up(Options::DEFAULT).unwrap();
        let (read, block) = rig.drive(BlockDevice::new(&rig.stack).read(100, buffer(1)));
        read.unwrap();
        let first = block[0];
        assert!(matches!(first, 0 | 0xff) && block.iter().all(|&byte| byte == first), "{name}");
        rig.mixed_load(found.params.sectors, 20);
    }
}

/// Checks a forced erase that takes longer than the controller's timer: with a timeout clock of 50
/// MHz that timer ends after 2.7 s, and the standard allows a forced erase three minutes.
#[test]
fn a_forced_erase_may_outlast_the_controllers_timer() {
    for (name, line, other) in [
        ("sdhc-16g-hs", "erase_next_group_us = 300", "erase_next_group_us = 20000"),
        ("emmc-hs200", "erase_next_group_us = 20", "erase_next_group_us = 2000"),
    ] {
        let generic = SdhciConfig::GENERIC_4_20;
        let model = SdhciConfig { capabilities: generic.capabilities & !0x3f | 50, ..generic };
        let rig = machine_with(name, closed_with(name, (line, other)), model);
        let begin_ns = rig.time.now();
        let found = rig.bring_up(unlock(ERASED)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(rig.time.now() - begin_ns > 10_000_000_000, "{name}: {}", rig.time.now() - begin_ns);
        rig.mixed_load(found.params.sectors, 20);
    }
}

/// Checks that a recovery does not erase again a card that was erased at bring-up and has got a new
/// password since: data written after that stay.
#[test]
fn a_recovery_erases_no_card() {
    for name in ["sdxc-128g-uhs", "emmc-hs200"] {
        let options = unlock(ERASED);
        let rig = rig::Rig::built(rig::card(name), name.contains("emmc"), SdhciConfig::GENERIC_4_20, options);
        rig.keep();
        rig.one(rig.write(8, 1, 0x5a)).result.unwrap();
        rig.one(rig.flush()).result.unwrap();
        let set = LockOp::SetPassword(WORD, SURE);
        rig.drive(lock(rig.stack, &rig.found, rig::buffer(1, 0), set)).0.unwrap();
        rig.ills.borrow_mut().brown_out = true;
        assert_eq!(rig.one(rig.read(800, 1)).result.map(|_| ()), Err(Error::Locked), "{name}");
        rig.leave();
        let (again, _) = rig.drive(card::bring_up(rig.stack, rig::buffer(1, 0), unlock(RIGHT)));
        again.unwrap_or_else(|error| panic!("{name}: {error}"));
        let read = rig.one(rig.read(8, 1));
        assert!(read.result.is_ok() && read.buf.iter().all(|&byte| byte == 0x5a), "{name}: erased");
    }
}

#[test]
fn a_card_is_locked_opened_and_freed_again() {
    for name in ["sdxc-128g-uhs", "emmc-hs200"] {
        let options = Options::DEFAULT;
        let rig = rig::Rig::built(rig::card(name), name.contains("emmc"), SdhciConfig::GENERIC_4_20, options);
        rig.keep();
        let told = |op: LockOp<'_>| {
            let (result, block) = rig.drive(lock(rig.stack, &rig.found, rig::buffer(1, 0), op));
            assert!(block.iter().all(|&byte| byte == 0), "{name}: {op:?} leaves its password");
            result
        };
        let read = || rig.one(rig.read(8, 1)).result.map(|_| ());
        told(LockOp::SetPassword(WORD, SURE)).unwrap();
        assert_eq!(read(), Ok(()), "from the next power-up on");
        let Err(Error::Card(status)) = told(LockOp::ClearPassword(b"barley")) else {
            panic!("{name}: wrong")
        };
        assert_ne!(status & R1::LOCK_UNLOCK_FAILED, 0);
        told(LockOp::Lock(WORD, SURE)).unwrap();
        for _ in 0..5 {
            assert_eq!(read(), Err(Error::Locked), "{name}");
            assert_eq!(rig.one(rig.write(8, 1, 1)).result.map(|_| ()), Err(Error::Locked), "{name}");
        }
        assert_eq!(rig.taken(RecoveryStep::Reinit) + rig.taken(RecoveryStep::PowerCycle), 0, "{name}");
        assert_eq!(told(LockOp::Unlock(b"barley")), Err(Error::Locked));
        told(LockOp::Unlock(WORD)).unwrap();
        assert_eq!(read(), Ok(()));
        told(LockOp::ClearPassword(WORD)).unwrap();
        rig.ills.borrow_mut().brown_out = true;
        assert_eq!(read(), Ok(()), "{name}: after a dip of the supply, without a password");
    }
}

#[test]
fn a_card_that_lost_its_supply_is_opened_again_or_told_as_locked() {
    for name in ["sdxc-128g-uhs", "emmc-hs200"] {
        for (keeps, expected) in [(true, Ok(())), (false, Err(Error::Locked))] {
            let options = if keeps { unlock(RIGHT) } else { Options::DEFAULT };
            let card = if keeps { closed(name) } else { rig::card(name) };
            let rig = rig::Rig::built(card, name.contains("emmc"), SdhciConfig::GENERIC_4_20, options);
            rig.keep();
            if !keeps {
                let set = LockOp::SetPassword(WORD, SURE);
                rig.drive(lock(rig.stack, &rig.found, rig::buffer(1, 0), set)).0.unwrap();
            }
            assert_eq!(rig.one(rig.read(8, 1)).result.map(|_| ()), Ok(()));
            rig.ills.borrow_mut().brown_out = true;
            assert_eq!(rig.one(rig.read(800, 1)).result.map(|_| ()), expected, "{name}");
        }
    }
}

/// Checks eMMC devices in DDR timings, where CMD16 and CMD42 are illegal: an operation is refused and
/// sends nothing. After a bring-up without these timings it works.
#[test]
fn an_emmc_in_a_ddr_timing_is_not_locked() {
    const ES: u16 = Caps::timing_bit(Timing::Hs400Es);
    const DDR: u16 = ES | Caps::timing_bit(Timing::Hs400) | Caps::timing_bit(Timing::Ddr52);
    for (name, without, timing) in [
        ("emmc-4g-old", 0, Timing::Ddr52),
        ("emmc-51-full", ES, Timing::Hs400),
        ("emmc-51-full", 0, Timing::Hs400Es),
    ] {
        let options = Options::DEFAULT.without(without);
        let rig = rig::Rig::built(rig::card(name), true, SdhciConfig::GENERIC_4_20, options);
        assert_eq!(rig.found.timing, timing);
        let sent = rig.ills.borrow().commands;
        let set = LockOp::SetPassword(WORD, SURE);
        let (result, block) = rig.drive(lock(rig.stack, &rig.found, rig::buffer(1, 0), set));
        assert_eq!(result, Err(Error::Unsupported), "{timing:?}");
        assert!(block.iter().all(|&byte| byte == 0), "{timing:?}");
        assert_eq!(rig.ills.borrow().commands, sent, "{timing:?}");
        rig.one(rig.read(8, 1)).result.unwrap();

        let options = Options::DEFAULT.without(DDR);
        let (found, block) = rig.drive(card::bring_up(rig.stack, rig::buffer(1, 0), options));
        let found = found.unwrap();
        let (result, block) = rig.drive(lock(rig.stack, &found, block, set));
        assert_eq!(result, Ok(()), "{timing:?}");
        let (result, block) = rig.drive(lock(rig.stack, &found, block, LockOp::Lock(WORD, SURE)));
        assert_eq!(result, Ok(()), "{timing:?}");
        assert_eq!(rig.one(rig.read(8, 1)).result.map(|_| ()), Err(Error::Locked));
        let unlock = unlock(RIGHT);
        rig.drive(card::bring_up(rig.stack, block, unlock)).0.unwrap();
        rig.one(rig.read(8, 1)).result.unwrap();
    }
}

/// Checks that a password does not stay in memory when a time limit drops the call while the
/// password is being sent.
#[test]
fn the_password_of_a_dropped_call_does_not_stay_in_memory() {
    let mut seen = false;
    for turns in 0..200 {
        let rig =
            rig::Rig::built(rig::card("sdxc-128g-uhs"), false, SdhciConfig::GENERIC_4_20, Options::DEFAULT);
        let block = buffer(1);
        let (at, bytes) = (block.as_non_null(), block.len_bytes() as usize);
        let there = || {
            // SAFETY: the memory is never freed, and nothing writes to it while the test looks at
            // it.
            unsafe { std::slice::from_raw_parts(at.as_ptr(), bytes) }.windows(WORD.len()).any(|b| b == WORD)
        };
        let op = LockOp::SetPassword(WORD, SURE);
        let mut call = Box::pin(lock(rig.stack, &rig.found, block, op));
        let mut ended = false;
        for _ in 0..=turns {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            ended = std::future::Future::poll(call.as_mut(), &mut context).is_ready();
            if ended {
                break;
            }
            rig.turn();
        }
        seen |= there();
        drop(call);
        rig.until(rig.time.now() + 2_000_000_000);
        assert!(!there(), "dropped after {turns} turns");
        if ended {
            break;
        }
    }
    assert!(seen);
}

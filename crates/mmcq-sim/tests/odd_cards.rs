//! Tests of cards as users have them: faults that public reports describe with other stacks, tried
//! on this one. No card identity is known for these faults, so the stack must work without an entry
//! in its tables.

use crate::{machine, open_sdhci};
use machine::{Rig, buffer, bytes};
use mmcq::block::BlockDevice;
use mmcq::card::{Family, IoCard, Options, bring_up_io};
use mmcq::engine::{Error, Kind, Request};
use mmcq::host::sdhci::{self, SdhciQuirks};
use mmcq::host::{Caps, Timing, Width};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::faults::{Faults, Plan, Point, Strike};
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;

const SECOND: u64 = 1_000_000_000;

/// Returns the text of a card profile in `cards/`.
fn text(name: &str) -> String {
    let path = format!("{}/cards/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the text of a card profile with a quirk added.
fn with(name: &str, quirk: &str) -> String {
    format!("{}\n[quirk]\nsource = \"a test\"\n{quirk}\n", text(name))
}

fn rig(text: &str, model: SdhciConfig, driver: sdhci::SdhciConfig) -> Rig {
    let profile = CardProfile::from_toml(text, "odd").unwrap_or_else(|error| panic!("{error}"));
    Rig::with_card(crate::timed::card(&profile), model, driver, 0).unwrap()
}

fn sd(text: &str) -> Rig {
    rig(text, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new())
}

fn emmc(text: &str) -> Rig {
    let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
    rig(text, model, sdhci::SdhciConfig::emmc_18())
}

fn is_well(rig: &Rig) {
    rig.checked();
    let mut model = rig.model.borrow_mut();
    let first = model.card_mut().and_then(|card| card.violations().first().map(|first| first.what));
    assert_eq!(first, None);
}

/// Checks a card that reports OUT_OF_RANGE after an open-ended read that is stopped near the last
/// sector: in the answer to CMD12 or in the next answer. The data are good [SD 4.3.3], so no
/// request may fail.
#[test]
fn a_card_that_reads_ahead_beyond_its_end_loses_no_request() {
    for late in [false, true] {
        let text = text("quirks/reads-past-end");
        let line = "tells_past_end_late = true";
        assert!(text.contains(line));
        let text = text.replace(line, &format!("tells_past_end_late = {late}"));
        let rig = sd(&text);
        let found = rig.bring_up(Options::DEFAULT).unwrap();
        let (sectors, device) = (found.params.sectors, BlockDevice::new(&rig.stack));
        let before = rig.stack.with(|engine| engine.stats().faults);
        for end in [sectors, sectors - 1, sectors - 9, sectors - 16, sectors - 17] {
            for blocks in [2, 8, 32] {
                let (read, _) = rig.drive(device.read(end - blocks, buffer(blocks as usize)));
                assert_eq!(read, Ok(blocks as u32), "late {late}: {blocks} blocks up to {end}");
                // The next command may get the error.
                let (wrote, _) = rig.drive(device.write(end - blocks, buffer(2)));
                assert_eq!(wrote, Ok(2), "late {late}: a write after {blocks} blocks up to {end}");
                let (read, _) = rig.drive(device.read(end - blocks, buffer(8.min(blocks as usize))));
                assert_eq!(read, Ok(8.min(blocks as u32)), "late {late}: a read at {}", end - blocks);
                let (read, _) = rig.drive(device.read(end - 1, buffer(1)));
                assert_eq!(read, Ok(1), "late {late}: the block before {end}");
            }
        }
        assert_eq!(rig.drive(device.flush()), Ok(()));
        is_well(&rig);
        let faults = rig.stack.with(|engine| engine.stats().faults) - before;
        assert_eq!(faults, 0, "no phase failed");
    }
}

/// Checks that a transfer that stays open up to the end of the card is closed without an error.
#[test]
fn an_open_read_up_to_the_end_is_closed_without_an_error() {
    for late in [false, true] {
        let text = text("quirks/reads-past-end")
            .replace("tells_past_end_late = true", &format!("tells_past_end_late = {late}"));
        let rig = open_sdhci::Rig::of_text(&text);
        let sectors = rig.base * 2;
        let from = sectors - 64;
        for n in 0..8 {
            let kind = Kind::Read { lba: from + 8 * n, blocks: 8 };
            rig.finish(rig.submit(kind, buffer(8)));
        }
        rig.flush();
        for n in 0..8 {
            let mut block = buffer(8);
            block.fill(n as u8 + 1);
            rig.finish(rig.submit(Kind::Write { lba: from + 8 * n, blocks: 8 }, block));
        }
        rig.flush();
        let last = rig.finish(rig.submit(Kind::Read { lba: sectors - 8, blocks: 8 }, buffer(8)));
        assert!(last.iter().all(|&byte| byte == 8), "late {late}");
        let stats = rig.stack.with(|engine| engine.stats().unowned);
        assert_eq!(stats, 0, "late {late}: what was read ahead is no error");
    }
}

/// Checks that no CMD0 is sent while an eMMC powers up, since it would make the device inactive.
/// Until the device is ready only CMD1 is sent [eMMC 6.4.3], for the one second that the standard
/// allows.
#[test]
fn an_emmc_is_not_reset_while_it_powers_up() {
    for ms in [1, 40, 400, 990] {
        let text = with("emmc-hs200", "reset_in_power_up_hangs = true");
        let line = text.lines().find(|line| line.starts_with("power_up_ms")).unwrap();
        let rig = emmc(&text.replace(line, &format!("power_up_ms = {ms}")));
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{ms} ms: {error}"));
        assert_eq!(found.timing, Timing::Hs200, "{ms} ms");
        assert!(rig.time.now() < ms * 1_000_000 + SECOND / 10, "{ms} ms: {} ns", rig.time.now());
        rig.mixed_load(found.params.sectors, 10);
        is_well(&rig);
    }
}

/// Checks that one CMD1 without an answer is repeated: the device goes on powering up.
#[test]
fn a_lost_answer_does_not_restart_the_power_up_of_an_emmc() {
    let odd = "reset_in_power_up_hangs = true\nanswers = [{ command = 1, nth = 5, happens = \"silent\" }]";
    let text = with("emmc-hs200", odd);
    let line = text.lines().find(|line| line.starts_with("power_up_ms")).unwrap();
    let rig = emmc(&text.replace(line, "power_up_ms = 600"));
    rig.bring_up(Options::DEFAULT).unwrap();
    assert!(rig.time.now() < 700_000_000, "{} ns", rig.time.now());
    is_well(&rig);
}

/// Checks that no CMD1 with an argument of 0 (an inquiry) is sent: it makes some devices ready, so
/// that the next CMD1 gets no answer.
#[test]
fn an_emmc_gets_no_inquiry_before_its_cmd1() {
    let rig = emmc(&with("emmc-hs200", "inquiry_makes_ready = true"));
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::Hs200);
    assert!(rig.time.now() < 200_000_000, "{} ns", rig.time.now());
    is_well(&rig);
}

/// Checks that there is a pause between the inquiring ACMD41 and the one that powers the card up:
/// some cards never get ready without it.
#[test]
fn a_card_has_time_between_the_inquiry_and_its_power_up() {
    let rig = sd(&with("sdhc-16g-hs", "inquiry_pause_us = 800"));
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::HighSpeed);
    is_well(&rig);
}

/// Checks a card that echoes the pattern of CMD8 but not the supply voltage: the echo shows a card
/// of version 2, and ACMD41 asks for the supply.
#[test]
fn a_card_that_echoes_no_supply_is_taken() {
    let rig = sd(&with("sdxc-128g-uhs", "no_supply_echo = true"));
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::Sdr104);
    is_well(&rig);
}

/// Checks that a card may be busy for five seconds after its first ACMD41: cards on the market need
/// longer than the one second that the standard allows.
#[test]
fn a_card_that_says_it_is_busy_gets_five_seconds() {
    for seconds in [1, 2, 3, 4] {
        let text = text("sdhc-16g-hs");
        let line = text.lines().find(|line| line.starts_with("power_up_ms")).unwrap();
        let rig = sd(&text.replace(line, &format!("power_up_ms = {seconds}900")));
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{seconds} s: {error}"));
        assert!(rig.time.now() < (seconds + 1) * SECOND, "{seconds} s: {} ns", rig.time.now());
        rig.mixed_load(found.params.sectors, 10);
        is_well(&rig);
    }
    // The wait for a card that never gets ready has an end.
    let rig = sd(&with("sdhc-16g-hs", "never_ready = true"));
    let error = rig.bring_up(Options::DEFAULT).unwrap_err();
    assert!(error.to_string().contains("power-up"), "{error}");
    assert!((5 * SECOND..7 * SECOND).contains(&rig.time.now()), "{} ns", rig.time.now());
}

/// Checks a card that leaves its first CMD8 unanswered: it must not be taken for a card of version
/// 1, which would cost its fast modes.
#[test]
fn one_unanswered_cmd8_makes_no_old_card() {
    let rig = sd(&with("sdxc-128g-uhs", "answers = [{ command = 8, happens = \"unheard\" }]"));
    let found = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!(found.timing, Timing::Sdr104);
    is_well(&rig);
}

/// Checks a card that still signals at 1.8 V, after a warm reset of a board that cannot switch the
/// supply. The card offers no voltage switch then; its CMD6 functions show the signalling [SD
/// 4.3.10.2].
#[test]
fn a_card_that_is_still_at_1v8_is_kept_there() {
    let rig = sd(&with("sdxc-128g-uhs", "stuck_1v8 = true"));
    let first = rig.bring_up(Options::DEFAULT).unwrap();
    assert_eq!(first.timing, Timing::Sdr104);
    rig.mixed_load(first.params.sectors, 5);
    for round in 0..3 {
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{round}: {error}"));
        let Family::Sd(card) = found.family else { panic!("no SD card") };
        assert_eq!((found.timing, found.width, card.signal18), (Timing::Sdr104, Width::W4, true), "{round}");
        rig.mixed_load(found.params.sectors, 10);
        is_well(&rig);
    }
    // A program that asks for no UHS mode still gets this card, at 1.8 V.
    let slow = [Timing::Sdr12, Timing::Sdr25, Timing::Sdr50, Timing::Sdr104, Timing::Ddr50];
    let without = slow.iter().fold(0, |bits, &timing| bits | Caps::timing_bit(timing));
    let found = rig.bring_up(Options::DEFAULT.without(without)).unwrap();
    assert_eq!(found.timing, Timing::Legacy);
    rig.mixed_load(found.params.sectors, 5);
}

/// Checks an I/O card (a radio) that is soldered to a rail of 1.8 V: no CMD11 is sent, and all
/// modes of UHS are used.
#[test]
fn a_soldered_radio_at_1v8_is_fast_without_a_switch() {
    let text = text("quirks/sdio-always-1v8");
    let (card, _) = IoProfile::from_toml(&text, "radio").unwrap_or_else(|error| panic!("{error}")).build();
    let model = SdhciConfig { signal18_fixed: true, ..SdhciConfig::GENERIC_4_20 };
    let driver = sdhci::SdhciConfig::new().quirks(SdhciQuirks::FIXED_18);
    let rig = Rig::with_card(Box::new(card), model, driver, 0).unwrap();
    let found: IoCard = rig.drive(bring_up_io(&rig.stack, bytes(512), Options::DEFAULT)).0.unwrap();
    assert_eq!((found.timing, found.width), (Timing::Sdr104, Width::W4));
    assert_eq!(rig.model.borrow().stats().commands[11], 0, "no CMD11");
    is_well(&rig);
}

/// Checks that a card without CMD25 is written block by block, and that no write needs a recovery.
#[test]
fn a_card_without_cmd25_is_written_block_by_block() {
    for cmd23 in [true, false] {
        let text = text("quirks/no-multiple-write").replace("cmd23 = true", &format!("cmd23 = {cmd23}"));
        let rig = sd(&text);
        let found = rig.bring_up(Options::DEFAULT).unwrap();
        let device = BlockDevice::new(&rig.stack);
        let write = |n: u64| {
            let mut data = buffer(16);
            data.iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at / 512 + n as u32 * 16) as u8);
            let (wrote, data) = rig.drive(device.write(n * 16, data));
            assert_eq!(wrote, Ok(16), "write {n}");
            let (read, back) = rig.drive(device.read(n * 16, buffer(16)));
            assert!(read == Ok(16) && back[..] == data[..], "write {n}");
        };
        write(0);
        let faults = || rig.stack.with(|engine| engine.stats().faults);
        let sent = || rig.model.borrow().stats().commands[25];
        let (hurt, tried) = (faults(), sent());
        assert!(hurt <= 4, "{hurt} phases failed until it was known");
        for n in 1..20 {
            write(n);
        }
        assert_eq!((faults(), sent()), (hurt, tried), "it was known before");
        // A second bring-up, after which the slot may hold another card, must also work.
        let again = rig.bring_up(Options::DEFAULT).unwrap();
        rig.mixed_load(again.params.sectors, 20);
        rig.checked();
        assert_eq!(found.params.sectors, again.params.sectors);
    }
}

/// Checks that merged writes arrive on a card without CMD25, block by block.
#[test]
fn merged_writes_to_a_card_without_cmd25_arrive() {
    let rig = sd(&text("quirks/no-multiple-write"));
    rig.bring_up(Options::DEFAULT).unwrap();
    let now_ns = rig.time.now();
    let mut pending: Vec<_> = (0..12u64)
        .map(|n| {
            let mut data = buffer(4);
            data.fill(n as u8 + 1);
            let request = Request::new(Kind::Write { lba: 4 * n, blocks: 4 }, data);
            rig.stack.with(|engine| engine.submit(request, now_ns)).unwrap_or_else(|(e, _)| panic!("{e}"))
        })
        .collect();
    while let Some(&id) = pending.last() {
        match rig.stack.with(|engine| engine.take(id)) {
            Some(done) => {
                done.result.unwrap_or_else(|error| panic!("{error}"));
                pending.pop();
            }
            None => rig.turn(),
        }
    }
    let (read, all) = rig.drive(BlockDevice::new(&rig.stack).read(0, buffer(48)));
    assert_eq!(read, Ok(48));
    assert!(all.chunks(2048).zip(1u8..).all(|(four, n)| four.iter().all(|&byte| byte == n)));
    rig.checked();
}

/// Checks an eMMC that refuses to switch its cache or its large erase groups on: it works without.
#[test]
fn a_device_that_refuses_what_is_optional_works_without() {
    for index in [33, 175] {
        let text = with("emmc-51-full", &format!("refused_switches = [{index}]"));
        let rig = emmc(&text);
        let card = rig.bring_up(Options::DEFAULT).unwrap();
        let Family::Emmc(family) = card.family else { panic!("{:?}", card.family) };
        assert_eq!(family.cache_on, index != 33);
        assert_ne!(card.timing, Timing::Legacy, "no timing is to blame");
        is_well(&rig);
    }
}

/// Makes the card's n-th busy from now on last this much longer, or for ever. Returns the faults,
/// which count each busy of the card.
fn holds_dat0(rig: &Rig, nth: u64, how: Strike) -> Faults {
    let faults = Faults::new(Plan::none().shot(Point::Busy, nth, how));
    rig.model.borrow_mut().card_mut().unwrap().set_faults(faults.clone());
    faults
}

/// Checks cards that hold DAT0 low for five seconds, or for ever, each time they are selected:
/// bring-up ends in bounded time, well or with an error.
#[test]
fn dat0_that_stays_low_when_a_card_is_selected_has_an_end_and_is_told() {
    for (name, up) in [("sdxc-128g-uhs", sd as fn(&str) -> Rig), ("emmc-hs200", emmc)] {
        for ms in [5_000, 1_000_000_000] {
            let rig = up(&with(name, &format!("select_busy_ms = {ms}")));
            let found = rig.bring_up(Options::DEFAULT);
            let took_ns = rig.time.now();
            assert!(took_ns < 60 * SECOND, "{name} {ms} ms: {took_ns} ns");
            match found {
                Ok(found) => rig.mixed_load(found.params.sectors, 10),
                Err(error) => assert_eq!(error, Error::Silent, "{name} {ms} ms"),
            }
            is_well(&rig);
        }
    }
}

/// Checks an eMMC that holds DAT0 low for five seconds, or for ever, at any busy of its bring-up: it
/// ends in bounded time, well or with an error. The next bring-up is well.
#[test]
fn dat0_that_stays_low_in_a_switch_of_bring_up_has_an_end_and_is_told() {
    let rig = emmc(&text("emmc-hs200"));
    let faults = holds_dat0(&rig, u64::MAX, Strike::Never);
    rig.bring_up(Options::DEFAULT).unwrap();
    let all = faults.events(Point::Busy);
    assert!(all > 3, "{all}");
    for (nth, how) in (1..=all).flat_map(|nth| [(nth, Strike::Late(5 * SECOND)), (nth, Strike::Never)]) {
        let rig = emmc(&text("emmc-hs200"));
        let faults = holds_dat0(&rig, nth, how);
        let found = rig.bring_up(Options::DEFAULT);
        let took_ns = rig.time.now();
        assert_eq!(faults.struck().len(), 1, "busy {nth}");
        assert!(took_ns < 30 * SECOND, "busy {nth} {how:?}: {took_ns} ns");
        if let Err(error) = found {
            assert_eq!(error, Error::Silent, "busy {nth} {how:?}");
        }
        let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{nth} {how:?}: {error}"));
        rig.mixed_load(found.params.sectors, 10);
        is_well(&rig);
    }
}

/// Checks cards that hold DAT0 low for five seconds, or for ever, after a write. Without a
/// supervisor the card is given up in bounded time, and the next bring-up is well.
#[test]
fn dat0_that_stays_low_after_a_write_has_an_end_and_is_told() {
    for (name, up) in [("sdxc-128g-uhs", sd as fn(&str) -> Rig), ("emmc-hs200", emmc)] {
        for how in [Strike::Late(5 * SECOND), Strike::Never] {
            let rig = up(&text(name));
            rig.bring_up(Options::DEFAULT).unwrap();
            let device = BlockDevice::new(&rig.stack);
            rig.drive(device.write(64, buffer(8))).0.unwrap();
            rig.drive(device.flush()).unwrap();
            let began_ns = rig.time.now();
            let faults = holds_dat0(&rig, 1, how);
            let (wrote, _) = rig.drive(device.write(128, buffer(8)));
            let flushed = rig.drive(device.flush());
            let took_ns = rig.time.now() - began_ns;
            assert_eq!(faults.struck().len(), 1, "{name}");
            assert!(took_ns < 60 * SECOND, "{name} {how:?}: {took_ns} ns");
            let ends: Vec<_> =
                [wrote.err().map(|told| told.error), flushed.err()].into_iter().flatten().collect();
            assert!(ends.iter().all(|error| *error == Error::Dead), "{name} {how:?}: {ends:?}");
            let found = rig.bring_up(Options::DEFAULT).unwrap_or_else(|error| panic!("{name}: {error}"));
            // What the card's cache had is lost, which the next flush reports once.
            assert!(matches!(rig.drive(device.flush()), Ok(()) | Err(Error::CacheLost)), "{name} {how:?}");
            rig.mixed_load(found.params.sectors, 10);
            is_well(&rig);
        }
    }
}

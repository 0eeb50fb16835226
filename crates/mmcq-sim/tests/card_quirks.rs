//! Tests of cards that misbehave (`cards/quirks`). The stack works with each card because it knows
//! the card's identity; the same card under an unknown name fails. A test in `stack.rs` uses the
//! cards whose fault does not concern plain reads and writes.

use crate::machine;
use machine::{Rig, buffer, bytes, storage_card};
use mmcq::block::BlockDevice;
use mmcq::card::quirk::{Quirk, Quirks};
use mmcq::card::{self, IoCard, Options, bring_up_io};
use mmcq::engine::{Kind, RecoveryStep, Request};
use mmcq::host::{Timing, Width, sdhci};
use mmcq::sdio::{At, CardInterrupt, Chain, Function, IoError};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::card::medium::{Fill, Medium};
use mmcq_sim::card::profile::CardProfile;
use mmcq_sim::sdhci::SdhciConfig;
use mmcq_sim::slot::Controller;

fn text(file: &str) -> String {
    let path = format!("{}/cards/quirks/{file}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the text of a card profile with another value of this key.
fn disguised(file: &str, key: &str, value: &str) -> String {
    let text = text(file);
    let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{file}: no {key}"));
    text.replace(line, &format!("{key} = {value}"))
}

fn violations(rig: &Rig) -> Result<(), String> {
    let mut model = rig.model.borrow_mut();
    match model.card_mut().and_then(|card| card.violations().first()) {
        Some(first) => Err(first.what.to_string()),
        None => Ok(()),
    }
}

/// Brings up an I/O card that this text describes.
fn io(text: &str, options: Options) -> Result<(Rig, IoCard), String> {
    let (card, _) = IoProfile::from_toml(text, "profile").unwrap_or_else(|error| panic!("{error}")).build();
    let rig = Rig::with_card(Box::new(card), SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new(), 0)?;
    let found = rig.try_drive(bring_up_io(&rig.stack, bytes(512), options))?.0;
    let card = found.map_err(|error| format!("bring-up: {error}"))?;
    Ok((rig, card))
}

/// Checks what functions of an I/O card must do: become ready, move data of all lengths, and
/// interrupt when asked.
async fn functions(rig: &Rig, card: &IoCard, wakes_by: Option<u32>) -> Result<(), IoError> {
    let mut function = Function::new(&rig.stack, card, 1)?;
    if let Some(addr) = wakes_by {
        function.write_common_u8(addr, 1, Chain::Last).await?;
    }
    function.enable().await?;
    function.set_block_size(64).await?;
    for count in [1, 63, 64, 65, 500, 511, 512, 513, 576, 1_000] {
        let at = At::From(0x100);
        let mut out = bytes(count);
        out.iter_mut().zip(0..).for_each(|(byte, i)| *byte = (count + i) as u8);
        let (result, out) = function.write(at, count as u32, out, Chain::Last).await;
        result?;
        let (result, back) = function.read(at, count as u32, bytes(count), Chain::Last).await;
        result?;
        assert!(back[..count] == out[..count], "{count} bytes come back changed");
    }
    if card.count() > 1 {
        Function::new(&rig.stack, card, 2)?.enable().await?;
        let mut irq = CardInterrupt::new(&rig.stack, card);
        irq.enable(1).await?;
        irq.enable(2).await?;
        for look in 0..4 {
            assert_eq!(irq.pending().await?, 0, "look {look}");
        }
        function.write_u8(0x08, 1, Chain::Last).await?;
        for _ in 0..2 {
            irq.wait().await?;
            assert_eq!(irq.pending().await?, 2);
        }
    }
    Ok(())
}

fn lives(text: &str, options: Options, wakes_by: Option<u32>) -> Result<IoCard, String> {
    let (rig, card) = io(text, options)?;
    let faults = || rig.stack.with(|engine| engine.stats().faults);
    // An I/O card does not answer every command of bring-up, so some faults are expected.
    let before = faults();
    rig.try_drive(functions(&rig, &card, wakes_by))?.map_err(|error| error.to_string())?;
    violations(&rig)?;
    rig.try_checked()?;
    if faults() > before { Err(format!("{} phases failed", faults() - before)) } else { Ok(card) }
}

/// Options with a quirk entry for an I/O card that fails at 1.8 V. No real card has been proven to
/// have this fault, so the built-in table has no such entry.
const NO_1V8: Options = Options::DEFAULT.quirks(&[Quirk::io(0x024c, 0xb822, Quirks::IO_NO_1V8)]);

#[test]
fn the_stack_lives_with_every_io_card() {
    for (file, quirks, options, wakes_by) in [
        (
            "sdio-nonstandard-interface",
            Quirks::IO_NO_STANDARD_INTERFACE.and(Quirks::IO_DETECT_OFF),
            Options::DEFAULT,
            None,
        ),
        ("sdio-lenient-fn0", Quirks::IO_LENIENT_F0, Options::DEFAULT, Some(0x92)),
        ("sdio-byte-mode-block", Quirks::IO_BLOCK_SIZE_FOR_BYTES, Options::DEFAULT, None),
        ("sdio-byte-mode-512", Quirks::IO_NO_512_BYTES, Options::DEFAULT, None),
        ("sdio-irq-polling", Quirks::IO_NO_POLLING, Options::DEFAULT, None),
        ("sdio-rate-limit", Quirks::IO_SLOWER, Options::DEFAULT, None),
        ("sdio-no-1v8", Quirks::IO_NO_1V8, NO_1V8, None),
    ] {
        let card = lives(&text(file), options, wakes_by).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(card.quirks, quirks, "{file}");
        let unknown = disguised(file, "device", "0x0001");
        let broken = std::panic::catch_unwind(|| lives(&unknown, options, wakes_by));
        assert!(!matches!(broken, Ok(Ok(_))), "{file}: works without its quirk");
    }
}

/// Checks that the stack avoids only what the quirk of each I/O card forbids, and uses all its
/// other features.
#[test]
fn io_cards_take_only_their_quirks_path() {
    let up = |file, options| io(&text(file), options).unwrap_or_else(|error| panic!("{file}: {error}")).1;
    let slower = up("sdio-rate-limit", Options::DEFAULT);
    assert_eq!((slower.timing, slower.width), (Timing::Sdr104, Width::W4));
    assert!((100_000_001..=150_000_000).contains(&slower.clock_hz), "{} Hz", slower.clock_hz);
    let high = up("sdio-no-1v8", NO_1V8);
    assert_eq!((high.timing, high.width, high.clock_hz), (Timing::HighSpeed, Width::W4, 50_000_000));
    // Another card that offers 1.8 V is checked first, and then gets 1.8 V.
    let good = disguised("sdio-rate-limit", "device", "0x0001").replace("real_max_khz = 150000", "");
    let (rig, other) = io(&good, NO_1V8).unwrap();
    assert_eq!((other.timing, other.clock_hz), (Timing::Sdr104, 200_000_000));
    rig.checked();
    // A card that fails at 1.8 V and is not known ends at 3.3 V too, after a power cycle.
    assert_eq!(up("sdio-no-1v8", Options::DEFAULT).timing, Timing::HighSpeed);
    let (rig, card) = io(&text("sdio-lenient-fn0"), Options::DEFAULT).unwrap();
    let plain = IoCard { quirks: Quirks::NONE, ..card };
    let function = Function::new(&rig.stack, &plain, 1).unwrap();
    let refused = rig.drive(function.write_common_u8(0x92, 1, Chain::Last)).unwrap_err();
    assert_eq!(refused, IoError::NotVendors { addr: 0x92 });
    assert_eq!(rig.drive(function.write_common_u8(0xf0, 1, Chain::Last)), Ok(()));
    let class =
        up("sdio-nonstandard-interface", Options::DEFAULT).functions[0].map(|function| function.fbr.class);
    assert_eq!(class, Some(0));
}

/// Checks the card-detect resistor at DAT3: it is disconnected before four lines are used. With one
/// line it stays, except on a card that needs it off.
#[test]
fn the_resistor_of_card_detection() {
    lives(&text("sdio-cd-off"), Options::DEFAULT, None).unwrap();
    let (rig, card) = io(&disguised("sdio-cd-off", "device", "0x0001"), Options::DEFAULT).unwrap();
    rig.drive(functions(&rig, &card, None)).unwrap();
    violations(&rig).unwrap();
    let narrow = Options::DEFAULT.max_width(Width::W1);
    for (text, off) in [(text("sdio-cd-off"), 0x80), (disguised("sdio-cd-off", "device", "0x0001"), 0)] {
        let (rig, card) = io(&text, narrow).unwrap();
        assert_eq!(card.width, Width::W1);
        let function = Function::new(&rig.stack, &card, 1).unwrap();
        let interface = rig.drive(function.read_common_u8(0x07, Chain::Last)).unwrap();
        assert_eq!(interface & 0x83, off);
        rig.drive(functions(&rig, &card, None)).unwrap();
        violations(&rig).unwrap();
    }
}

/// Reads in requests of all lengths around the last block of the card, one by one and many at a
/// time. Returns the number of transfers.
fn read_to_the_end(options: Options) -> Result<u64, String> {
    const TAIL: u64 = 96;
    let model = SdhciConfig::GENERIC_4_20;
    let rig =
        Rig::with_card(storage_card("quirks/last-block-locks-up"), model, sdhci::SdhciConfig::new(), 0)?;
    let found = rig.bring_up(options).map_err(|error| error.to_string())?;
    let (sectors, device) = (found.params.sectors, BlockDevice::new(&rig.stack));
    let base = sectors - TAIL;
    let mut tail = buffer(TAIL as usize);
    tail.iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at / 512 * 7 + at % 251) as u8);
    let (result, tail) = rig.try_drive(device.write(base, tail))?;
    result.map_err(|error| format!("write: {error}"))?;
    let check = |lba: u64, got: &[u8]| {
        let at = (lba - base) as usize * 512;
        if got == &tail[at..at + got.len()] { Ok(()) } else { Err(format!("other data at {lba}")) }
    };
    for end in [sectors - 2, sectors - 1, sectors] {
        for blocks in [1, 2, 3, 8, 64] {
            let lba = end - blocks;
            let (result, got) = rig.try_drive(device.read(lba, buffer(blocks as usize)))?;
            result.map_err(|error| format!("{blocks} blocks at {lba}: {error}"))?;
            check(lba, &got)?;
        }
    }
    // The requests are submitted together, as a read-ahead does, and all that can be merged are
    // merged.
    let now_ns = rig.time.now();
    let mut pending = Vec::new();
    for lba in (base..sectors).step_by(8) {
        let request = Request::new(Kind::Read { lba, blocks: 8 }, buffer(8));
        pending.push((
            lba,
            rig.stack.with(|engine| engine.submit(request, now_ns)).map_err(|(e, _)| e.to_string())?,
        ));
    }
    while let Some(&(lba, id)) = pending.last() {
        match rig.stack.with(|engine| engine.take(id)) {
            Some(done) => {
                done.result.map_err(|error| error.to_string())?;
                check(lba, &done.buf)?;
                pending.pop();
            }
            None => rig.try_turn()?,
        }
    }
    violations(&rig)?;
    rig.try_checked()?;
    let steps: u64 = rig.stack.with(|engine| engine.stats().recovery_steps.iter().sum());
    if steps > 0 {
        return Err(format!("{steps} steps of recovery"));
    }
    Ok(rig.stack.with(|engine| engine.stats().transfers))
}

#[test]
fn the_last_block_is_read_alone() {
    const MINE: &[Quirk] = &[Quirk::sd(0x41, 0x3432, "SD16G", Quirks::LAST_BLOCK_ALONE)];
    let transfers = read_to_the_end(Options::DEFAULT.quirks(MINE)).unwrap_or_else(|error| panic!("{error}"));
    // One write; 15 reads one by one, four of them in two transfers; then twelve reads together:
    // the first alone, ten merged, the last in two.
    assert_eq!(transfers, 1 + 15 + 4 + 4);
    assert!(read_to_the_end(Options::DEFAULT).is_err(), "the card does not break by itself");
}

/// Checks the manufacturing date of an eMMC made in 2026 that reports 2010. The four bits for the
/// year have started again, and the device's revision is not the one that moves their first year
/// [eMMC 7.2.7].
#[test]
fn a_date_after_the_last_one() {
    let made = |text: &str| {
        let profile = CardProfile::from_toml(text, "wrong-date").unwrap_or_else(|error| panic!("{error}"));
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap();
        let card = profile.build(medium).unwrap_or_else(|error| panic!("{error}"));
        let model = SdhciConfig { uhs_at_33v: true, ..SdhciConfig::GENERIC_4_20 };
        let rig = Rig::with_card(card, model, sdhci::SdhciConfig::emmc_18(), 0).unwrap();
        rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{error}")).made()
    };
    assert_eq!(made(&text("wrong-date")), (2026, 5));
    assert_eq!(made(&disguised("wrong-date", "manufacturer_id", "0x46")), (2010, 5));
    // A year that cannot be a wrong one is taken as reported.
    assert_eq!(made(&disguised("wrong-date", "manufactured", "\"2021-03\"")), (2021, 3));
}

/// Checks that a card comes up in spite of lost or damaged answers, without an entry in the stack's
/// table: bring-up asks again, and goes on without answers that are not necessary.
#[test]
fn odd_answers_cost_no_card() {
    // The card may also execute the command and only leave out the answer.
    let mute = text("cold-app-commands").replace("\"unheard\"", "\"silent\"");
    assert!(mute.contains("\"silent\""));
    for (file, text, timing) in [
        ("cold-app-commands", text("cold-app-commands"), Timing::HighSpeed),
        ("cold-app-commands, mute", mute, Timing::HighSpeed),
        ("second-reset", text("second-reset"), Timing::HighSpeed),
        ("first-registers-damaged", text("first-registers-damaged"), Timing::HighSpeed),
        ("bare-registers", text("bare-registers"), Timing::Legacy),
    ] {
        let profile = CardProfile::from_toml(&text, file).unwrap_or_else(|error| panic!("{error}"));
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Zeros).unwrap();
        let card = profile.build(medium).unwrap_or_else(|error| panic!("{error}"));
        let rig = Rig::with_card(card, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new(), 0).unwrap();
        let found = rig.bring_up(card::Options::DEFAULT).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!((found.timing, found.width), (timing, Width::W4), "{file}");
        assert!(rig.time.now() < 900_000_000, "{file}: {} ns", rig.time.now());
        rig.mixed_load(found.params.sectors, 20);
        rig.checked();
    }
}

/// Returns a rig with the card that this text describes.
fn rigged(name: &str, text: &str) -> Rig {
    let profile = CardProfile::from_toml(text, name).unwrap_or_else(|error| panic!("{error}"));
    let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
    let card = profile.build(medium).unwrap_or_else(|error| panic!("{error}"));
    Rig::with_card(card, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new(), 0).unwrap()
}

/// Checks that an erase beyond the card's declared time only takes longer: after the declared time
/// the stack asks for the status, and does not give up. The controller's own timeout is longer than
/// the declared time, so the controller reports nothing by then.
#[test]
fn an_erase_that_outlasts_its_declared_time_costs_time_alone() {
    for erase_s in [4, 30] {
        let text = disguised("slow-erase", "erase_first_us", &format!("{erase_s}_000_000"));
        let rig = rigged("slow-erase", &text);
        let found = rig.bring_up(Options::DEFAULT).unwrap();
        rig.drive(card::enable_extended_ops(&rig.stack, &found, bytes(512))).0.unwrap();
        let device = BlockDevice::new(&rig.stack);
        for what in ["a discard", "an erase"] {
            let begin_ns = rig.time.now();
            let ended = match what {
                "a discard" => rig.drive(device.discard(8192, 8192)),
                _ => rig.drive(device.erase(8192, 8192)),
            };
            assert_eq!(ended, Ok(()), "{what} of {erase_s} s");
            let late_ns = (rig.time.now() - begin_ns).saturating_sub(erase_s * 1_000_000_000);
            assert!(late_ns < erase_s * 200_000_000, "{what} of {erase_s} s: {late_ns} ns more");
            rig.mixed_load(found.params.sectors, 5);
        }
        let taken = rig.stack.with(|engine| engine.stats().recovery_steps);
        for (step, count) in RecoveryStep::ALL.into_iter().zip(taken) {
            let asks = matches!(step, RecoveryStep::Classify | RecoveryStep::Status);
            assert_eq!(count, 2 * u64::from(asks), "{step:?}");
        }
        violations(&rig).unwrap();
        rig.checked();
    }
}

/// Checks write-zeroes on cards whose erased memory reads as ones: there zeroes are written.
#[test]
fn zeroes_are_zeros_whatever_erased_memory_is() {
    for name in ["sdhc-16g-hs", "emmc-hs200"] {
        for ones in [false, true] {
            let text = mmcq_sim::cards::named(name).unwrap();
            let quirk = format!("{text}\n[quirk]\nsource = \"a test\"\nerases_to_ones = {ones}\n");
            let rig = rigged(name, &quirk);
            let found = rig.bring_up(Options::DEFAULT).unwrap();
            rig.drive(card::enable_extended_ops(&rig.stack, &found, bytes(512))).0.unwrap();
            let device = BlockDevice::new(&rig.stack);
            let value = |lba| rig.drive(device.read(lba, buffer(1))).1[..512].to_vec();
            rig.drive(device.erase(8192, 8192)).unwrap();
            assert_eq!(value(9000), [if ones { 0xff } else { 0 }; 512], "{name}, {ones}: erased");
            rig.drive(device.write_zeroes(100, 8, bytes(512))).0.unwrap();
            assert_eq!(value(103), [0; 512], "{name}, {ones}: zeroes");
            violations(&rig).unwrap();
        }
    }
}

/// Checks that an eMMC with blocks of 4 KiB is refused with its own error: the stack uses blocks of
/// 512 bytes.
#[test]
fn an_emmc_with_sectors_of_4_kib_is_refused_by_name() {
    let text = mmcq_sim::cards::named("emmc-hs200").unwrap();
    let rig = rigged(
        "4-kib",
        &format!("{text}\n[quirk]\nsource = \"a test\"\next_csd = [[61, 1], [62, 1], [63, 1]]\n"),
    );
    let Err(error) = rig.bring_up(Options::DEFAULT) else { panic!("it came up") };
    assert!(error.to_string().contains("sectors of 4 KiB"), "{error}");
}

/// Checks that a card profile can set bytes of the card's registers.
#[test]
fn bytes_of_a_register_may_be_said_by_a_file() {
    let said = |name: &str, registers: &str| {
        let text = mmcq_sim::cards::named(name).unwrap();
        CardProfile::from_toml(
            &format!("{text}\n[quirk]\nsource = \"a test\"\nregisters = [{registers}]\n"),
            name,
        )
    };
    let up = |name: &str, registers: &str| {
        let profile = said(name, registers).unwrap();
        let medium = Medium::sparse(profile.capacity_bytes(), Fill::Pattern(7)).unwrap();
        let card = profile.build(medium).unwrap();
        let rig = Rig::with_card(card, SdhciConfig::GENERIC_4_20, sdhci::SdhciConfig::new(), 0).unwrap();
        let found = rig.bring_up(Options::DEFAULT).unwrap();
        rig.mixed_load(found.params.sectors, 5);
        violations(&rig).unwrap();
        found
    };
    let plain = up("sdhc-16g-hs", "");
    let odd = up(
        "sdhc-16g-hs",
        r#"{ register = "cid", at = 3, bytes = [0x4d, 0x49] }, { register = "csd", at = 1, bytes = [0x7f] },
           { register = "scr", at = 4, bytes = [0xaa] }, { register = "ssr", at = 11, bytes = [1, 2, 3] },
           { register = "switch", at = 0, bytes = [9] }"#,
    );
    assert_eq!((odd.cid[0] & 0xff, odd.cid[1] >> 24), (0x4d, 0x49));
    assert_eq!((odd.csd[0] >> 16 & 0xff, odd.csd[0] >> 24), (0x7f, plain.csd[0] >> 24));
    let (card::Family::Sd(odd), card::Family::Sd(plain)) = (odd.family, plain.family) else { panic!() };
    assert_eq!((odd.scr[4], odd.scr[..4] == plain.scr[..4]), (0xaa, true));
    assert_eq!((&odd.ssr[11..14], odd.ssr[14..] == plain.ssr[14..]), (&[1, 2, 3][..], true));
    assert_eq!((odd.switch[0], odd.switch[1..] == plain.switch[1..]), (9, true));
    // Blocks of data are not changed by that.
    let odd = up("emmc-hs200", r#"{ register = "ext-csd", at = 228, bytes = [7] }"#);
    let plain = up("emmc-hs200", "");
    assert_eq!(odd.params.sectors, plain.params.sectors);

    let refused =
        said("sdhc-16g-hs", r#"{ register = "scr", at = 7, bytes = [1, 2] }"#).unwrap_err().to_string();
    assert!(refused.contains("bytes 7 to 9 of Scr: expected some of its 8"), "{refused}");
}

/// Checks that a card profile can set bytes of an I/O card's tuples: here the largest block size,
/// in the function's extension tuple.
#[test]
fn bytes_of_a_tuple_may_be_said_by_a_file() {
    let plain = mmcq_sim::cards::named("bt-type-a").unwrap();
    let said = |cis: &str| format!("{plain}\n[quirk]\nsource = \"a test\"\ncis = [{cis}]\n");
    let (_, card) = io(plain, Options::DEFAULT).unwrap();
    // The CIS has CISTPL_FUNCID, then CISTPL_FUNCE: the largest block size is at byte 12 of that
    // tuple's body.
    let (_, odd) = io(&said("{ function = 1, at = 18, bytes = [0x10, 0x00] }"), Options::DEFAULT).unwrap();
    let sizes = |card: &IoCard| card.functions[0].unwrap().extension.max_block_bytes;
    assert!(sizes(&card) != 16 && sizes(&odd) == 16, "{} and {}", sizes(&card), sizes(&odd));
    let refused = IoProfile::from_toml(&said("{ function = 1, at = 900, bytes = [0] }"), "odd").unwrap_err();
    assert!(refused.to_string().contains("expected a place in one of the chains"), "{refused}");
}

//! Tests of controllers that depart from the standard: the stack works with each if the driver's
//! configuration names the quirk. Without the quirk, the departure has an effect.

use crate::machine;
use machine::{Rig, bytes, storage_card};
use mmcq::card::{self, Card, bring_up_io};
use mmcq::engine::{Kind, Request};
use mmcq::host::sdhci::{self, SdhciQuirks, TransferMode};
use mmcq::host::{Auto, Data, Direction, Phase, Timing, Width};
use mmcq::spec::command::sdio::{Amount, Extended, io_read, io_rw_extended};
use mmcq_sim::card::io::IoProfile;
use mmcq_sim::sdhci::{PROFILES, Profile, SdhciConfig};
use mmcq_sim::slot::Controller;

/// Time of a register access in ns, as on the bus of a small system.
const ACCESS_NS: u64 = 100;

fn profile(name: &str) -> Profile {
    Profile::named(name).expect(name).unwrap_or_else(|error| panic!("{error}"))
}

/// Brings a card up and runs a mixed load. The error says what failed.
fn storage(profile: &Profile, driver: sdhci::SdhciConfig) -> Result<(Rig, Card), String> {
    let rig = Rig::with_card(storage_card(&profile.card), profile.controller, driver, ACCESS_NS)?;
    // Uses the timeouts of the standard only, so that a wrong timer shows sooner.
    let options = card::Options::DEFAULT.sd_read_ns(0).sd_write_ns(0);
    let found = rig.try_drive(card::bring_up(&rig.stack, machine::buffer(1), options))?.0;
    let found = found.map_err(|error| format!("bring-up: {error}"))?;
    let hurt = || rig.stack.with(|engine| (engine.stats().faults, engine.stats().lost_interrupts));
    let before = hurt();
    rig.load(found.params.sectors, 60)?;
    rig.try_checked()?;
    match hurt() {
        after if after == before => Ok((rig, found)),
        after => Err(format!("{after:?} phases failed and interrupts lost, {before:?} before")),
    }
}

/// Brings an I/O card up, and reads 7 bytes of its CIS by CMD53 and one by one.
fn functions(profile: &Profile, driver: sdhci::SdhciConfig) -> Result<(), String> {
    const AT: u32 = 0x1000;
    let path = format!("{}/cards/{}.toml", env!("CARGO_MANIFEST_DIR"), profile.card);
    let text = std::fs::read_to_string(&path).unwrap();
    let (card, _) = IoProfile::from_toml(&text, &profile.card).unwrap().build();
    let rig = Rig::with_card(Box::new(card), profile.controller, driver, ACCESS_NS)?;
    let options = card::Options::DEFAULT;
    let found = rig.try_drive(bring_up_io(&rig.stack, bytes(512), options))?.0;
    found.map_err(|error| format!("bring-up: {error}"))?;
    let io = |command, data| -> Result<_, String> {
        let phase = Phase { command, data, auto: Auto::None, tuning: false };
        let kind = Kind::Io { phase, timeout_ns: 100_000_000, chain: false };
        let now = rig.time.now();
        let id = rig.stack.with(|engine| engine.submit(Request::new(kind, bytes(8)), now)).unwrap();
        loop {
            if let Some(done) = rig.stack.with(|engine| engine.take(id)) {
                let output = done.result.map_err(|error| format!("CMD{}: {error}", command.index))?;
                return Ok((output, done.buf));
            }
            rig.try_turn()?;
        }
    };
    let extended = Extended { write: false, function: 0, addr: AT, increment: true, count: Amount::Bytes(7) };
    let data = Data { direction: Direction::Read, block_size: 7, blocks: 1 };
    let (_, all) = io(io_rw_extended(extended), Some(data))?;
    for at in 0..7 {
        let (output, _) = io(io_read(0, AT + at), None)?;
        if output.response.words[0] as u8 != all[at as usize] {
            return Err(format!("byte {at} of 7 is wrong"));
        }
    }
    rig.try_checked()
}

fn run(profile: &Profile, driver: sdhci::SdhciConfig) -> Result<(), String> {
    match profile.card.as_str() {
        "bt-type-a" => functions(profile, driver),
        _ => storage(profile, driver).map(|_| ()),
    }
}

#[test]
fn the_stack_lives_with_every_profile() {
    for (name, _) in PROFILES {
        let profile = profile(name);
        run(&profile, profile.driver).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Checks that each profile fails if its driver is not told the quirk.
#[test]
fn without_its_quirk_each_profile_breaks() {
    for (name, taken) in [
        ("no-busy-interrupt", SdhciQuirks::NO_BUSY_IRQ),
        ("broken-timeout", SdhciQuirks::BROKEN_TIMEOUT_VALUE),
        ("broken-adma", SdhciQuirks::BROKEN_ADMA),
        ("broken-64-bit", SdhciQuirks::BROKEN_ADMA_64),
        ("zero-length-descriptor", SdhciQuirks::ADMA_ZERO_LENGTH_BROKEN),
        ("32-bit-only", SdhciQuirks::DMA_SIZE_32BIT),
        ("reset-on-ios", SdhciQuirks::RESET_ON_IOS),
        ("pio-delay", SdhciQuirks::PIO_DELAY),
        ("no-cmd23", SdhciQuirks::NO_CMD23),
        ("auto-cmd23-broken", SdhciQuirks::NO_AUTO_CMD23),
        ("stop-with-tc", SdhciQuirks::STOP_WITH_TC),
        ("no-hispd-bit", SdhciQuirks::NO_HISPD_BIT),
        ("clock-before-reset", SdhciQuirks::CLOCK_BEFORE_RESET),
    ] {
        let profile = profile(name);
        assert!(profile.driver.quirks.has(taken), "{name}");
        let driver = profile.driver.quirks(profile.driver.quirks.without(taken));
        assert!(run(&profile, driver).is_err(), "{name}");
    }
    let narrow = profile("1-bit-only");
    assert!(run(&narrow, narrow.driver.width(Width::W4)).is_err());
    let blind = profile("no-capabilities");
    let error = run(&blind, blind.driver.capabilities(None)).unwrap_err();
    assert!(error.contains("base clock in capabilities 15:8 is 0"), "{error}");
}

/// Checks that the driver avoids each departure in the intended way, and in no other.
#[test]
fn the_way_round_is_the_one_that_was_meant() {
    let mode = |name: &str| {
        let profile = profile(name);
        let (rig, found) = storage(&profile, profile.driver).unwrap();
        (rig.stack.with(|engine| engine.host().unwrap().transfer_mode()), found.timing, found.width)
    };
    use TransferMode::{Adma2, Pio, Sdma};
    assert_eq!(mode("broken-adma"), (Sdma, Timing::HighSpeed, Width::W4));
    assert_eq!(mode("pio-delay"), (Pio, Timing::HighSpeed, Width::W4));
    for name in ["broken-64-bit", "zero-length-descriptor", "no-hispd-bit", "reset-on-ios"] {
        assert_eq!(mode(name), (Adma2, Timing::HighSpeed, Width::W4), "{name}");
    }
    assert_eq!(mode("1-bit-only").2, Width::W1);
    for name in ["no-cmd23", "auto-cmd23-broken", "no-capabilities", "preset-broken"] {
        assert_eq!(mode(name), (Adma2, Timing::Sdr104, Width::W4), "{name}");
    }
}

/// Checks that the model's broken preset values matter: a driver that used them would run the card
/// too fast.
#[test]
fn broken_presets_are_broken() {
    use mmcq::host::Regs;
    let profile = profile("preset-broken");
    for (controller, hz) in [(profile.controller, 200_000_000), (SdhciConfig::GENERIC_4_20, 400_000)] {
        let (rig, _) = storage(&Profile { controller, ..profile.clone() }, profile.driver)
            .map_err(|e| panic!("{e}"))
            .unwrap();
        // SAFETY: the registers are those of a model, and no phase is under way.
        let regs = rig.stack.with(|engine| unsafe { engine.host().unwrap().regs() }.clone());
        // Sets Preset Value Enable, with the bus mode of a card for which no faster mode was
        // chosen.
        regs.write16(0x3e, 0x8000);
        regs.write8(0x28, 0);
        rig.time.set(rig.time.now() + 1_000_000);
        regs.read32(0x24);
        let seen = rig.model.borrow().bus().clock_hz;
        assert!(if hz == 400_000 { seen <= 25_000_000 } else { seen == hz }, "{seen} Hz");
    }
}

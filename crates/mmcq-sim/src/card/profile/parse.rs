//! Reading a card profile from TOML, with a check of each value.

use serde::Deserialize;
use toml::Spanned;

use super::super::emmc::config::{
    BOOT_UNIT_BYTES, BYTE_MODE_BYTES, EmmcConfig, Fastest, Revision, WP_GROUP_BYTES,
};
use super::super::emmc::current::PowerClasses;
use super::super::flash::Timing;
use super::super::quirk::Quirks;
use super::super::registers::Identity;
use super::super::sd::config::{Class, Modes, SdConfig, Spec, au_is_sayable, csd1_size};
use super::flash::{self, FlashKeys};
use super::packed::{self, PackedKeys};
use super::place::Place;
use super::queue::{self, QueueKeys};
use super::{CardProfile, Kind, ProfileError, spread};
use crate::document;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    description: String,
    identity: IdentityKeys,
    sd: Option<SdKeys>,
    emmc: Option<EmmcKeys>,
    flash: FlashKeys,
    queue: Option<QueueKeys>,
    packed: Option<PackedKeys>,
    #[serde(default)]
    quirk: Quirks,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityKeys {
    source: String,
    manufacturer_id: u8,
    oem_id: Spanned<String>,
    #[serde(default = "one")]
    device_type: u8,
    product: Spanned<String>,
    revision: Spanned<String>,
    serial: u32,
    manufactured: Spanned<String>,
}

fn one() -> u8 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SdKeys {
    source: String,
    class: SdClass,
    spec: SdSpec,
    capacity_mib: Spanned<u64>,
    modes: Vec<SdMode>,
    cmd23: bool,
    speed_class: Spanned<u8>,
    #[serde(default)]
    uhs_grade: u8,
    #[serde(default)]
    video_class: u8,
    #[serde(default)]
    app_class: u8,
    au_kib: Spanned<u64>,
    #[serde(default)]
    early_out_of_range: bool,
    #[serde(default)]
    cache: bool,
    #[serde(default)]
    power_off_notification: bool,
    time: SdTimeKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SdTimeKeys {
    source: String,
    power_up_ms: Spanned<f64>,
    voltage_release_us: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
enum SdClass {
    #[serde(rename = "sdsc")]
    Sdsc,
    #[serde(rename = "sdhc")]
    Sdhc,
    #[serde(rename = "sdxc")]
    Sdxc,
    #[serde(rename = "sduc")]
    Sduc,
}

#[derive(Deserialize)]
enum SdSpec {
    #[serde(rename = "1.01")]
    V1_01,
    #[serde(rename = "1.10")]
    V1_10,
    #[serde(rename = "2.00")]
    V2,
    #[serde(rename = "3.0x")]
    V3,
    #[serde(rename = "4.xx")]
    V4,
    #[serde(rename = "5.xx")]
    V5,
    #[serde(rename = "6.xx")]
    V6,
    #[serde(rename = "7.xx")]
    V7,
}

#[derive(Deserialize)]
enum SdMode {
    #[serde(rename = "high-speed")]
    HighSpeed,
    #[serde(rename = "sdr12")]
    Sdr12,
    #[serde(rename = "sdr25")]
    Sdr25,
    #[serde(rename = "sdr50")]
    Sdr50,
    #[serde(rename = "sdr104")]
    Sdr104,
    #[serde(rename = "ddr50")]
    Ddr50,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmmcKeys {
    source: String,
    revision: EmmcRevision,
    fastest: EmmcFastest,
    capacity_mib: Spanned<u64>,
    #[serde(default)]
    cache_size_kib: u32,
    boot_partition_kib: Option<Spanned<u64>>,
    gp_partitions_mib: Option<Spanned<Vec<u64>>>,
    rpmb_kib: Option<Spanned<u64>>,
    #[serde(default)]
    hpi: bool,
    power_classes: Option<Spanned<PowerClasses>>,
    time: EmmcTimeKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmmcTimeKeys {
    source: String,
    power_up_ms: Spanned<f64>,
    switch_us: Spanned<f64>,
    partition_switch_us: Spanned<f64>,
    sleep_awake_us: Spanned<f64>,
    generic_cmd6_time_ms: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
enum EmmcRevision {
    #[serde(rename = "4.41")]
    V4_41,
    #[serde(rename = "4.5")]
    V4_5,
    #[serde(rename = "5.0")]
    V5_0,
    #[serde(rename = "5.1")]
    V5_1,
}

#[derive(Deserialize)]
enum EmmcFastest {
    #[serde(rename = "hs26")]
    Hs26,
    #[serde(rename = "hs52")]
    Hs52,
    #[serde(rename = "ddr52")]
    Ddr52,
    #[serde(rename = "hs200")]
    Hs200,
    #[serde(rename = "hs400")]
    Hs400,
    #[serde(rename = "hs400es")]
    Hs400Es,
}

pub(super) fn profile(text: &str, name: &str) -> Result<CardProfile, ProfileError> {
    let place = Place { text, name };
    let file: File = document::read(text).map_err(|error| place.document(&error))?;
    let register_kib = file.emmc.as_ref().map(|emmc| emmc.cache_size_kib);
    let flash = flash::timing(&place, &file.flash, register_kib)?;
    let mut sources = vec![
        ("identity".to_owned(), file.identity.source.clone()),
        ("flash.read".to_owned(), file.flash.read.get_ref().source.clone()),
        ("flash.write".to_owned(), file.flash.write.get_ref().source.clone()),
        ("flash.erase".to_owned(), file.flash.erase.source.clone()),
    ];
    if let Some(cache) = &file.flash.cache {
        sources.push(("flash.cache".to_owned(), cache.get_ref().source.clone()));
    }
    if let Some(spread) = &file.flash.spread {
        sources.push(("flash.spread".to_owned(), spread.get_ref().source.clone()));
    }
    if !file.quirk.source.is_empty() {
        sources.push(("quirk".to_owned(), file.quirk.source.clone()));
    } else if file.quirk != Quirks::default() {
        let message = "missing field `source` in the table [quirk]".to_owned();
        return Err(ProfileError::Toml { name: name.into(), line: 1, message });
    }
    let quirks = file.quirk.clone();
    let kind = match (&file.sd, &file.emmc) {
        (Some(keys), None) => {
            if let Some(packed) = &file.packed {
                return Err(packed.only_emmc(&place));
            }
            sources.push(("sd".into(), keys.source.clone()));
            sources.push(("sd.time".into(), keys.time.source.clone()));
            let identity = identity(&place, &file.identity, 2, 5)?;
            let mut config = SdConfig { quirks, ..sd(&place, keys, identity, flash)? };
            if let Some(keys) = &file.queue {
                let since = (config.spec < Spec::V6).then_some("spec = \"6.xx\"");
                // The registers of an SD card cannot express a queue with one task.
                config.queue = Some(queue::config(&place, keys, since, 2)?);
                sources.push(("queue".into(), keys.source.clone()));
            }
            Kind::Sd(config)
        }
        (None, Some(keys)) => {
            if let Some(key) = &file.flash.write.get_ref().volatile_open_write
                && *key.get_ref()
            {
                return Err(place.value("volatile_open_write", key, "false, or an SD card"));
            }
            sources.push(("emmc".into(), keys.source.clone()));
            sources.push(("emmc.time".into(), keys.time.source.clone()));
            let identity = identity(&place, &file.identity, 1, 6)?;
            let mut config = EmmcConfig { quirks, ..emmc(&place, keys, identity, flash)? };
            if let Some(keys) = &file.queue {
                let since = (config.revision < Revision::V5_1).then_some("revision = \"5.1\"");
                config.queue = Some(queue::config(&place, keys, since, 1)?);
                sources.push(("queue".into(), keys.source.clone()));
            }
            if let Some(keys) = &file.packed {
                config.packed = Some(packed::config(&place, keys, config.revision)?);
                sources.push(("packed".into(), keys.source.clone()));
            }
            Kind::Emmc(config)
        }
        _ => {
            let message = "expected exactly one of the tables [sd] and [emmc]".to_owned();
            return Err(ProfileError::Toml { name: name.into(), line: 1, message });
        }
    };
    check_capacity(&kind, name)?;
    let profile = CardProfile { name: name.into(), description: file.description, kind, sources };
    spread::check_size(&place, file.flash.spread.as_ref(), profile.capacity_bytes())?;
    Ok(profile)
}

fn identity(
    place: &Place<'_>,
    keys: &IdentityKeys,
    oem: usize,
    product: usize,
) -> Result<Identity, ProfileError> {
    let printable = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let oem_text = keys.oem_id.get_ref();
    // Some makers leave the OEM number of an eMMC at 0.
    if oem_text.len() != oem || !(printable(oem_text) || oem_text == "\0") {
        let expected = format!("{oem} printable ASCII character(s)");
        return Err(place.value("oem_id", &keys.oem_id, &expected));
    }
    let mut oem_id = [0u8; 2];
    oem_id[2 - oem..].copy_from_slice(oem_text.as_bytes());
    let name = keys.product.get_ref();
    // A shorter product name is padded with zeros.
    if name.len() != product || !printable(name.trim_end_matches('\0')) {
        let expected = format!("{product} printable ASCII characters");
        return Err(place.value("product", &keys.product, &expected));
    }
    let digits = keys.revision.get_ref().split_once('.').and_then(|(major, minor)| {
        let digit = |text: &str| text.parse::<u8>().ok().filter(|digit| *digit < 10);
        Some(digit(major)? << 4 | digit(minor)?)
    });
    let Some(revision) = digits else {
        return Err(place.value("revision", &keys.revision, "two digits like \"1.0\""));
    };
    let date = keys.manufactured.get_ref().split_once('-').and_then(|(year, month)| {
        let year = year.parse::<u16>().ok().filter(|year| (2000..=2028).contains(year))?;
        let month = month.parse::<u8>().ok().filter(|month| (1..=12).contains(month))?;
        Some((year, month))
    });
    let Some((year, month)) = date else {
        return Err(place.value(
            "manufactured",
            &keys.manufactured,
            "a month from \"2000-01\" to \"2028-12\"",
        ));
    };
    Ok(Identity {
        manufacturer_id: keys.manufacturer_id,
        oem_id,
        device_type: keys.device_type,
        product: name.as_bytes().to_vec(),
        revision,
        serial: keys.serial,
        year,
        month,
    })
}

fn sd(place: &Place<'_>, keys: &SdKeys, identity: Identity, flash: Timing) -> Result<SdConfig, ProfileError> {
    let spec = match keys.spec {
        SdSpec::V1_01 => Spec::V1_01,
        SdSpec::V1_10 => Spec::V1_10,
        SdSpec::V2 => Spec::V2,
        SdSpec::V3 => Spec::V3,
        SdSpec::V4 => Spec::V4,
        SdSpec::V5 => Spec::V5,
        SdSpec::V6 => Spec::V6,
        SdSpec::V7 => Spec::V7,
    };
    let class = match keys.class {
        SdClass::Sdsc => Class::Sdsc,
        SdClass::Sdhc => Class::Sdhc,
        SdClass::Sdxc => Class::Sdxc,
        SdClass::Sduc => Class::Sduc,
    };
    let mut modes = Modes::default();
    for mode in &keys.modes {
        match mode {
            SdMode::HighSpeed => modes.high_speed = true,
            SdMode::Sdr12 => modes.uhs |= 1,
            SdMode::Sdr25 => modes.uhs |= 2,
            SdMode::Sdr50 => modes.uhs |= 4,
            SdMode::Sdr104 => modes.uhs |= 8,
            SdMode::Ddr50 => modes.uhs |= 16,
        }
    }
    if !matches!(keys.speed_class.get_ref(), 0 | 2 | 4 | 6 | 10) {
        return Err(place.value("speed_class", &keys.speed_class, "0, 2, 4, 6 or 10"));
    }
    if !au_is_sayable(*keys.au_kib.get_ref()) {
        let expected = "a power of two from 16 to 4096, or 8, 12, 16, 24, 32 or 64 MiB in KiB";
        return Err(place.value("au_kib", &keys.au_kib, expected));
    }
    let voltage_release_ns = match &keys.time.voltage_release_us {
        None => 0,
        Some(time) => place.us("voltage_release_us", time)?,
    };
    Ok(SdConfig {
        identity,
        capacity_bytes: mib(place, "capacity_mib", &keys.capacity_mib)?,
        class,
        spec,
        modes,
        cmd23: keys.cmd23,
        speed_class: *keys.speed_class.get_ref(),
        uhs_grade: keys.uhs_grade & 0xf,
        video_class: keys.video_class,
        app_class: keys.app_class & 0xf,
        au_bytes: keys.au_kib.get_ref() * 1024,
        early_out_of_range: keys.early_out_of_range,
        cache: keys.cache,
        power_off_notification: keys.power_off_notification,
        queue: None,
        power_up_ns: place.ms("power_up_ms", &keys.time.power_up_ms)?,
        voltage_release_ns,
        flash,
        quirks: Quirks::default(),
    })
}

fn emmc(
    place: &Place<'_>,
    keys: &EmmcKeys,
    identity: Identity,
    flash: Timing,
) -> Result<EmmcConfig, ProfileError> {
    let revision = match keys.revision {
        EmmcRevision::V4_41 => Revision::V4_41,
        EmmcRevision::V4_5 => Revision::V4_5,
        EmmcRevision::V5_0 => Revision::V5_0,
        EmmcRevision::V5_1 => Revision::V5_1,
    };
    let fastest = match keys.fastest {
        EmmcFastest::Hs26 => Fastest::Hs26,
        EmmcFastest::Hs52 => Fastest::Hs52,
        EmmcFastest::Ddr52 => Fastest::Ddr52,
        EmmcFastest::Hs200 => Fastest::Hs200,
        EmmcFastest::Hs400 => Fastest::Hs400,
        EmmcFastest::Hs400Es => Fastest::Hs400Es,
    };
    let boot_bytes = match &keys.boot_partition_kib {
        None => 0,
        Some(size) => {
            let bytes = size.get_ref().saturating_mul(1024);
            if !bytes.is_multiple_of(BOOT_UNIT_BYTES) || bytes / BOOT_UNIT_BYTES > 255 {
                return Err(place.value("boot_partition_kib", size, "a multiple of 128 up to 32640"));
            }
            bytes
        }
    };
    let rpmb_bytes = match &keys.rpmb_kib {
        None => 0,
        Some(size) => {
            let bytes = size.get_ref().saturating_mul(1024);
            if !bytes.is_multiple_of(BOOT_UNIT_BYTES) || bytes / BOOT_UNIT_BYTES > 128 {
                return Err(place.value("rpmb_kib", size, "a multiple of 128 up to 16384"));
            }
            bytes
        }
    };
    let mut gp_bytes = [0u64; 4];
    if let Some(sizes) = &keys.gp_partitions_mib {
        let fits = |mib: &u64| mib.is_multiple_of(WP_GROUP_BYTES / MIB) && *mib < (1 << 24) * 8;
        if sizes.get_ref().len() > 4 || !sizes.get_ref().iter().all(fits) {
            return Err(place.value("gp_partitions_mib", sizes, "up to four multiples of 8"));
        }
        for (bytes, mib) in gp_bytes.iter_mut().zip(sizes.get_ref()) {
            *bytes = mib * MIB;
        }
    }
    let power_classes = match &keys.power_classes {
        Some(classes) if !classes.get_ref().fit() => {
            return Err(place.value("power_classes", classes, "classes from 0 to 15"));
        }
        given => given.as_ref().map_or_else(PowerClasses::default, |classes| *classes.get_ref()),
    };
    Ok(EmmcConfig {
        identity,
        capacity_bytes: mib(place, "capacity_mib", &keys.capacity_mib)?,
        revision,
        fastest,
        cache_size_kib: keys.cache_size_kib,
        boot_bytes,
        gp_bytes,
        rpmb_bytes,
        hpi: keys.hpi,
        power_up_ns: place.ms("power_up_ms", &keys.time.power_up_ms)?,
        switch_ns: place.us("switch_us", &keys.time.switch_us)?,
        partition_switch_ns: place.us("partition_switch_us", &keys.time.partition_switch_us)?,
        sleep_awake_ns: place.us("sleep_awake_us", &keys.time.sleep_awake_us)?,
        generic_cmd6_time_ms: generic_cmd6_time_ms(place, &keys.time)?,
        power_classes,
        flash,
        queue: None,
        packed: None,
        quirks: Quirks::default(),
    })
}

/// Returns GENERIC_CMD6_TIME in ms. If the profile does not give it, it is the time that a switch
/// of the model takes.
fn generic_cmd6_time_ms(place: &Place<'_>, keys: &EmmcTimeKeys) -> Result<u64, ProfileError> {
    let takes_ms = place.us("switch_us", &keys.switch_us)?.div_ceil(1_000_000);
    let Some(promised) = &keys.generic_cmd6_time_ms else { return Ok(takes_ms) };
    match place.ms("generic_cmd6_time_ms", promised)? / 1_000_000 {
        least if least < takes_ms => {
            Err(place.value("generic_cmd6_time_ms", promised, "no less than `switch_us`"))
        }
        promised_ms => Ok(promised_ms),
    }
}

fn mib(place: &Place<'_>, key: &str, value: &Spanned<u64>) -> Result<u64, ProfileError> {
    match value.get_ref() {
        mib @ 1..=0x200_0000 => Ok(mib * MIB),
        _ => Err(place.value(key, value, "a capacity from 1 MiB to 32 TiB, in MiB")),
    }
}

/// Returns an error if the card's registers cannot express its capacity.
pub(super) fn check_capacity(kind: &Kind, name: &str) -> Result<(), ProfileError> {
    let (bytes, fits, expected) = match kind {
        Kind::Sd(config) => {
            let bytes = config.capacity_bytes;
            let blocks = |most: u64| bytes > 0 && bytes.is_multiple_of(512 * 1024) && bytes <= most;
            match config.class {
                Class::Sdsc => (
                    bytes,
                    csd1_size(bytes).is_some() && bytes <= 2 * GIB,
                    "for SDSC up to 2 GiB, as (1 to 4096) x a power of two from 2 KiB",
                ),
                Class::Sdhc => (bytes, blocks(32 * GIB), "for SDHC a multiple of 512 KiB up to 32 GiB"),
                Class::Sdxc => (bytes, blocks(2048 * GIB), "for SDXC a multiple of 512 KiB up to 2 TiB"),
                Class::Sduc => (
                    bytes,
                    bytes > 2048 * GIB && blocks(128 * 1024 * GIB),
                    "for SDUC a multiple of 512 KiB, more than 2 TiB, up to 128 TiB",
                ),
            }
        }
        Kind::Emmc(config) => {
            let bytes = config.capacity_bytes;
            let fits = if bytes > BYTE_MODE_BYTES {
                bytes.is_multiple_of(512) && bytes / 512 <= u64::from(u32::MAX)
            } else {
                bytes > 0 && bytes.is_multiple_of(MIB)
            };
            (bytes, fits, "for eMMC a multiple of 1 MiB up to 2 GiB, above that sectors up to 2^32 - 1")
        }
    };
    if fits {
        Ok(())
    } else {
        Err(ProfileError::Capacity { name: name.into(), bytes, expected: expected.into() })
    }
}

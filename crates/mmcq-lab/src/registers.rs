//! Decodes the registers of a card into readable text.

pub mod file;

use mmcq::card::{Card, Family};
use mmcq::host::{Timing, Width};
use mmcq::spec::ParseError;
use mmcq::spec::cid::Cid;
use mmcq::spec::command::sd::Group;
use mmcq::spec::csd::Csd;
use mmcq::spec::ext_csd::ExtCsd;
use mmcq::spec::response::Ocr;
use mmcq::spec::scr::Scr;
use mmcq::spec::ssr::Ssr;
use mmcq::spec::switch::SwitchStatus;
use serde::Serialize;
use std::fmt::Display;

/// Decoded field of a card's register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Name of the register: `CID`, `CSD` and others.
    pub register: &'static str,
    /// Name of the field in the standard.
    pub field: String,
    /// Value of the field as text, with its unit.
    pub value: String,
}

/// Collects decoded fields of one register, whose name is the first field.
struct Of<'a>(&'static str, &'a mut Vec<Field>);

impl Of<'_> {
    fn put(&mut self, field: &str, value: impl Display) {
        self.1.push(Field { register: self.0, field: field.to_owned(), value: value.to_string() });
    }

    /// Adds a field whose value is a list: all names in `each` that have `true`.
    fn list(&mut self, field: &str, each: &[(bool, &str)]) {
        let names: Vec<&str> = each.iter().filter(|(on, _)| *on).map(|&(_, name)| name).collect();
        self.put(field, if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    }
}

/// Returns the fields of all registers that a card reported at bring-up. `ext_csd` is the EXT_CSD
/// of an eMMC.
pub fn decode(card: &Card, ext_csd: Option<&[u8; 512]>) -> Result<Vec<Field>, ParseError> {
    let mut fields = Vec::new();
    let mut of = Of("card", &mut fields);
    let sectors = card.params.sectors;
    of.put("kind", kind(card));
    of.put("size", format!("{} ({sectors} blocks of 512 bytes)", binary(sectors * 512)));
    let mhz = f64::from(card.clock_hz) / 1e6;
    of.put("bus", format!("{}, {}, {mhz} MHz", timing(card.timing), width(card.width)));
    of.put("RCA", format!("{:#06x}", card.params.rca));
    of.put("addresses", if card.params.block_addressed { "blocks" } else { "bytes" });
    of.put("CMD23", yes(card.params.count));

    let emmc = matches!(card.family, Family::Emmc(_));
    let mut of = Of("OCR", &mut fields);
    let ocr = Ocr(card.ocr);
    of.put("raw", format!("{:08x}", card.ocr));
    if !emmc {
        of.list(
            "flags",
            &[(ocr.ccs(), "CCS"), (ocr.s18a(), "S18A"), (ocr.uhs2(), "UHS-II"), (ocr.co2t(), "CO2T")],
        );
    }
    cid(&mut Of("CID", &mut fields), &card.cid, emmc, |_| card.made());
    csd(&mut Of("CSD", &mut fields), &card.csd, emmc)?;
    match (&card.family, ext_csd) {
        (Family::Sd(sd), _) => {
            scr(&mut Of("SCR", &mut fields), &sd.scr)?;
            ssr(&mut Of("SSR", &mut fields), &sd.ssr);
            if sd.switch != [0; 64] {
                switch(&mut Of("CMD6", &mut fields), &sd.switch);
            }
        }
        (Family::Emmc(_), Some(bytes)) => {
            ext_csd_fields(&mut Of("EXT_CSD", &mut fields), &ExtCsd::parse(bytes)?)
        }
        (Family::Emmc(_), None) => {}
    }
    Ok(fields)
}

fn kind(card: &Card) -> String {
    match &card.family {
        Family::Emmc(emmc) => format!("eMMC, EXT_CSD revision {}", emmc.revision),
        Family::Sd(_) if !card.params.block_addressed => "SDSC".to_owned(),
        Family::Sd(_) if card.params.sectors <= 32 << 21 => "SDHC".to_owned(),
        Family::Sd(_) if card.params.sectors <= 1 << 32 => "SDXC".to_owned(),
        Family::Sd(_) => "SDUC".to_owned(),
    }
}

/// Adds the fields of the CID in `raw`. `emmc`: the register is that of an eMMC. `made` returns
/// year and month of manufacture, for which an eMMC's CID alone is not enough.
fn cid(of: &mut Of, raw: &[u32; 4], emmc: bool, made: impl FnOnce(&Cid) -> (u16, u8)) {
    of.put("raw", words(raw));
    let cid = if emmc { Cid::parse_emmc(raw) } else { Cid::parse_sd(raw) };
    of.put("manufacturer", format!("{:#04x}", cid.manufacturer));
    of.put("OEM", if emmc { format!("{:#04x}", cid.oem) } else { text(&cid.oem.to_be_bytes()) });
    of.put("name", cid.name());
    of.put("revision", format!("{}.{}", cid.revision >> 4, cid.revision & 15));
    of.put("serial", format!("{:08x}", cid.serial));
    let (year, month) = made(&cid);
    of.put("made", format!("{year}-{month:02}"));
    if let Some(form) = cid.form {
        of.put("form", format!("{form:?}"));
    }
}

fn csd(of: &mut Of, raw: &[u32; 4], emmc: bool) -> Result<(), ParseError> {
    of.put("raw", words(raw));
    let csd = if emmc { Csd::parse_emmc(raw) } else { Csd::parse_sd(raw) }?;
    of.put("structure", format!("{:?}", csd.structure));
    of.put("TAAC, NSAC", format!("{}, {} clocks", time(csd.access_ns), csd.access_clocks));
    of.put("TRAN_SPEED", format!("{} MHz", f64::from(csd.tran_speed_hz) / 1e6));
    let classes: Vec<String> = (0..12).filter(|&n| csd.classes.has(n)).map(|n| n.to_string()).collect();
    of.put("CCC", classes.join(" "));
    of.put("READ_BL_LEN", format!("{} bytes", csd.read_block_bytes));
    of.put("WRITE_BL_LEN", format!("{} bytes", csd.write_block_bytes));
    of.put("capacity", csd.capacity_bytes.map_or("in EXT_CSD".to_owned(), binary));
    of.put("erase unit", binary(csd.erase_unit_bytes()));
    of.put("R2W_FACTOR", csd.r2w_factor);
    of.list(
        "flags",
        &[
            (csd.read_partial, "READ_BL_PARTIAL"),
            (csd.write_partial, "WRITE_BL_PARTIAL"),
            (csd.dsr, "DSR_IMP"),
            (csd.erase_single_block, "ERASE_BLK_EN"),
            (csd.copy, "COPY"),
            (csd.perm_write_protect, "PERM_WRITE_PROTECT"),
            (csd.tmp_write_protect, "TMP_WRITE_PROTECT"),
        ],
    );
    Ok(())
}

fn scr(of: &mut Of, bytes: &[u8; 8]) -> Result<(), ParseError> {
    of.put("raw", hex(bytes));
    let scr = Scr::parse(bytes)?;
    of.put("version", format!("{:?}", scr.version));
    of.list("widths", &[(scr.width1, "1"), (scr.width4, "4")]);
    of.put("security", scr.security);
    of.put("erased memory", if scr.erased_ones { "ones" } else { "zeros" });
    of.list(
        "commands",
        &[
            (scr.cmd20, "CMD20"),
            (scr.cmd23, "CMD23"),
            (scr.cmd48, "CMD48/49"),
            (scr.cmd58, "CMD58/59"),
            (scr.acmd53, "ACMD53/54"),
        ],
    );
    Ok(())
}

fn ssr(of: &mut Of, bytes: &[u8; 64]) {
    of.put("raw", hex(bytes));
    let ssr = Ssr::parse(bytes);
    of.put("speed class", ssr.speed_class.map_or("reserved".to_owned(), |class| class.to_string()));
    of.put("UHS grade", ssr.uhs_grade);
    of.put("video class", format!("V{}", ssr.video_class));
    of.put("application class", format!("A{}", ssr.app_class));
    let size = |bytes: Option<u32>| bytes.map_or("undefined".to_owned(), |b| binary(u64::from(b)));
    of.put("AU", size(ssr.au_bytes));
    of.put("UHS AU", size(ssr.uhs_au_bytes));
    let erase = format!("{} AU in {} s, and {} s", ssr.erase_aus, ssr.erase_timeout_s, ssr.erase_offset_s);
    of.put("erase", erase);
    of.put("queue depth", ssr.queue_depth);
    of.list(
        "offers",
        &[
            (ssr.cache, "cache"),
            (ssr.discard, "discard"),
            (ssr.fule, "FULE"),
            (ssr.host_maintenance, "host maintenance"),
            (ssr.card_maintenance, "card maintenance"),
        ],
    );
}

fn switch(of: &mut Of, bytes: &[u8; 64]) {
    let status = SwitchStatus::parse(bytes);
    let function = |names: &[&str], group: Group| {
        let each: Vec<&str> =
            (0u8..).zip(names).filter(|&(n, _)| status.supports(group, n)).map(|(_, &name)| name).collect();
        each.join(", ")
    };
    let modes = ["SDR12/DS", "SDR25/HS", "SDR50", "SDR104", "DDR50"];
    of.put("access modes", function(&modes, Group::AccessMode));
    of.put("drivers", function(&["B", "A", "C", "D"], Group::DriverStrength));
    let power = ["0.72 W", "1.44 W", "2.16 W", "2.88 W", "1.80 W"];
    of.put("power limits", function(&power, Group::PowerLimit));
    of.put("current", status.max_current_ma.map_or("refused".to_owned(), |ma| format!("{ma} mA")));
}

fn ext_csd_fields(of: &mut Of, ext: &ExtCsd) {
    of.put("revision [192]", ext.ext_csd_rev());
    of.put("SEC_COUNT [215:212]", binary(ext.capacity_bytes()));
    of.list(
        "DEVICE_TYPE [196]",
        &[
            (ext.hs26(), "HS26"),
            (ext.hs52(), "HS52"),
            (ext.ddr52(), "DDR52"),
            (ext.hs200(), "HS200"),
            (ext.hs400(), "HS400"),
            (ext.enhanced_strobe(), "strobe"),
        ],
    );
    of.put("HS_TIMING [185]", ext.hs_timing());
    of.put("BUS_WIDTH [183]", ext.bus_width());
    of.put("PARTITION_CONFIG [179]", format!("{:#04x}", ext.partition_config()));
    of.put(
        "cache [252:249]",
        format!("{}, {}", binary(ext.cache_bytes()), if ext.cache_ctrl() & 1 != 0 { "on" } else { "off" }),
    );
    of.put("command queue [308:307]", ext.cmdq_depth());
    of.put("boot areas [226]", format!("2 x {}", binary(ext.boot_bytes())));
    of.put("RPMB [168]", binary(ext.rpmb_bytes()));
    of.put("erase group [224]", ext.hc_erase_group_bytes().map_or("by CSD".to_owned(), binary));
    of.put("GENERIC_CMD6_TIME [248]", time(ext.generic_cmd6_time_ns()));
    of.put("ERASE_TIMEOUT_MULT [223]", time(ext.erase_timeout_ns()));
    of.put("PRE_EOL_INFO [267]", format!("{:?}", ext.pre_eol()));
    of.put("life time A, B [268, 269]", format!("{:?}, {:?}", ext.life_time_a(), ext.life_time_b()));
    of.list(
        "offers",
        &[
            (ext.trim(), "trim"),
            (ext.discard(), "discard"),
            (ext.sanitize(), "sanitize"),
            (ext.secure_erase(), "secure erase"),
            (ext.hpi().is_some(), "HPI"),
            (ext.bkops_support() & 1 != 0, "BKOPS"),
            (ext.reliable_write_enhanced(), "enhanced reliable write"),
        ],
    );
}

/// Returns the name of a bus timing in the standards.
fn timing(timing: Timing) -> &'static str {
    match timing {
        Timing::Legacy => "default speed",
        Timing::HighSpeed => "high speed",
        Timing::Sdr12 => "SDR12",
        Timing::Sdr25 => "SDR25",
        Timing::Sdr50 => "SDR50",
        Timing::Sdr104 => "SDR104",
        Timing::Ddr50 => "DDR50",
        Timing::Ddr52 => "DDR52",
        Timing::Hs200 => "HS200",
        Timing::Hs400 => "HS400",
        Timing::Hs400Es => "HS400ES",
    }
}

fn width(width: Width) -> &'static str {
    match width {
        Width::W1 => "1 bit",
        Width::W4 => "4 bits",
        Width::W8 => "8 bits",
    }
}

fn yes(on: bool) -> &'static str {
    if on { "yes" } else { "no" }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn words(words: &[u32; 4]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect()
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| if b.is_ascii_graphic() { char::from(b) } else { '.' }).collect()
}

/// Returns a number of bytes as text, in the largest binary unit (such as MiB) of which there is at
/// least one.
pub(crate) fn binary(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let step = (0..units.len()).rev().find(|&n| bytes >> (10 * n) > 0).unwrap_or(0);
    let value = bytes as f64 / (1u64 << (10 * step)) as f64;
    let shown = if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") };
    format!("{shown} {}", units[step])
}

/// Returns a time as text, in the largest unit (ns, us, ms or s) of which there is at least one.
fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{} s", ns as f64 / 1e9),
    }
}

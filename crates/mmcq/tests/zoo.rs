//! Tests that the registers of real cards decode to the values in their publications or in the
//! standards' tables: see `zoo/README.md`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use mmcq::spec::cid::Cid;
use mmcq::spec::crc::crc7;
use mmcq::spec::csd::Csd;
use mmcq::spec::ext_csd::ExtCsd;
use mmcq::spec::response::Ocr;
use mmcq::spec::scr::Scr;
use mmcq::spec::ssr::Ssr;

/// One file of the collection: its keys and values, in the order of the keys.
struct Card {
    file: String,
    entries: BTreeMap<String, String>,
}

impl Card {
    fn read(path: &Path) -> Card {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut entries = BTreeMap::new();
        for (n, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{file}:{}: no key", n + 1));
            let twice = entries.insert(key.to_string(), value.to_string());
            assert_eq!(twice, None, "{file}:{}: {key} is there twice", n + 1);
        }
        Card { file, entries }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str)
    }

    fn is_emmc(&self) -> bool {
        match self.get("kind") {
            Some("sd") => false,
            Some("emmc") => true,
            kind => panic!("{}: kind {kind:?}", self.file),
        }
    }

    fn raw<const N: usize>(&self, key: &str) -> Option<[u8; N]> {
        let bytes = hex(self.get(key)?);
        Some(bytes.try_into().unwrap_or_else(|_| panic!("{}: {key} is not {N} bytes long", self.file)))
    }

    /// Returns CID or CSD as a host returns it, without the last byte (the CRC), which this
    /// function checks; `None` if the file does not have the register.
    fn words(&self, key: &str) -> Option<[u32; 4]> {
        let mut bytes: [u8; 16] = self.raw(key)?;
        if bytes[15] != 0 {
            assert_eq!(crc7(&bytes[..15]), bytes[15] >> 1, "{}: CRC of {key}", self.file);
        }
        bytes[15] = 0;
        let mut words = [0; 4];
        for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_be_bytes(four.try_into().unwrap());
        }
        Some(words)
    }

    fn ext_csd(&self) -> Option<[u8; 512]> {
        let mut bytes = None;
        for (key, value) in &self.entries {
            if let Some(start) = key.strip_prefix("ext_csd@") {
                let start: usize = start.parse().unwrap();
                let piece = hex(value);
                bytes.get_or_insert([0; 512])[start..start + piece.len()].copy_from_slice(&piece);
            }
        }
        bytes
    }
}

fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd number of digits: {text}");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// All decoded values, as text.
#[derive(Default)]
struct Decoded(BTreeMap<String, String>);

impl Decoded {
    fn put(&mut self, key: &str, value: impl Debug) {
        self.0.insert(key.into(), format!("{value:?}"));
    }

    fn put_hex(&mut self, key: &str, value: impl Into<u32>) {
        self.0.insert(key.into(), format!("{:#x}", value.into()));
    }

    fn put_option(&mut self, key: &str, value: Option<impl Debug>) {
        self.0.insert(key.into(), value.map_or("none".into(), |value| format!("{value:?}")));
    }
}

/// Stores the value of each of these fields under its name.
macro_rules! fields {
    ($into:ident, $prefix:literal, $of:ident: $($field:ident),* $(,)?) => {
        $($into.put(concat!($prefix, ".", stringify!($field)), $of.$field);)*
    };
}
macro_rules! methods {
    ($into:ident, $prefix:literal, $of:ident: $($method:ident),* $(,)?) => {
        $($into.put(concat!($prefix, ".", stringify!($method)), $of.$method());)*
    };
}

fn decode(card: &Card) -> Decoded {
    let mut into = Decoded::default();
    if let Some(ocr) = card.get("ocr") {
        let ocr = Ocr(u32::from_str_radix(ocr, 16).unwrap());
        methods!(into, "ocr", ocr: ready, ccs, s18a);
    }
    if let Some(words) = card.words("cid") {
        decode_cid(card, &words, &mut into);
    }
    if let Some(words) = card.words("csd") {
        decode_csd(card, &words, &mut into);
    }
    if let Some(bytes) = card.raw("scr") {
        let scr = Scr::parse(&bytes).unwrap();
        fields!(into, "scr", scr: version, erased_ones, security, width1, width4, cmd20, cmd23, cmd48, cmd58);
    }
    if let Some(bytes) = card.raw("ssr") {
        let ssr = Ssr::parse(&bytes);
        fields!(into, "ssr", ssr: width4, protected_area, performance_move, erase_aus, erase_timeout_s);
        fields!(into, "ssr", ssr: erase_offset_s, uhs_grade, app_class, queue_depth, discard);
        into.put_option("ssr.speed_class", ssr.speed_class);
        into.put_option("ssr.au_bytes", ssr.au_bytes);
        into.put_option("ssr.uhs_au_bytes", ssr.uhs_au_bytes);
    }
    if let Some(bytes) = card.ext_csd() {
        decode_ext_csd(&ExtCsd::parse(&bytes).unwrap(), &mut into);
    }
    into
}

fn decode_cid(card: &Card, words: &[u32; 4], into: &mut Decoded) {
    let mut cid = Cid::parse_sd(words);
    if card.is_emmc() {
        cid = Cid::parse_emmc(words);
        cid.year = cid.emmc_year(card.get("cid.ext_csd_rev").unwrap().parse().unwrap());
        into.put_option("cid.form", cid.form);
    }
    into.put_hex("cid.manufacturer", cid.manufacturer);
    into.put_hex("cid.oem", cid.oem);
    into.0.insert("cid.name".into(), cid.name().into());
    into.put_hex("cid.revision", cid.revision);
    into.put_hex("cid.serial", cid.serial);
    into.0.insert("cid.date".into(), format!("{}-{:02}", cid.year, cid.month));
}

fn decode_csd(card: &Card, words: &[u32; 4], into: &mut Decoded) {
    let csd = if card.is_emmc() { Csd::parse_emmc(words) } else { Csd::parse_sd(words) }.unwrap();
    fields!(into, "csd", csd: structure, spec_version, access_ns, access_clocks, tran_speed_hz, r2w_factor);
    fields!(into, "csd", csd: read_block_bytes, write_block_bytes, read_partial, erase_single_block, copy);
    methods!(into, "csd", csd: erase_unit_bytes);
    into.put_hex("csd.classes", csd.classes.0);
    into.put_option("csd.capacity_bytes", csd.capacity_bytes);
    into.put_option("csd.blocks", csd.blocks());
    into.put_option("csd.wp_group_units", csd.wp_group_units);
    into.put("csd.read_timeout_ns", csd.read_timeout_ns(25_000_000));
    into.put("csd.write_timeout_ns", csd.write_timeout_ns(25_000_000));
}

fn decode_ext_csd(ext_csd: &ExtCsd<'_>, into: &mut Decoded) {
    methods!(into, "ext_csd", ext_csd:
        ext_csd_rev, capacity_bytes, sector_bytes, hs52, ddr52, ddr52_1v2, hs200, hs200_1v2, hs400,
        hs400_1v2, enhanced_strobe, cmdq_depth, cmdq_mode_en, hs_timing, cache_bytes, cache_ctrl,
        cache_flushes_in_order, boot_bytes, barrier_support, rpmb_bytes, max_enhanced_bytes,
        generic_cmd6_time_ns, part_switch_time_ns, out_of_interrupt_time_ns, power_off_long_time_ns,
        sleep_awake_time_ns, sleep_notification_time_ns, first_power_up_time_ns, erase_timeout_ns,
        trim_timeout_ns, secure_erase_timeout_ns, trim, discard, secure_trim_timeout_ns, sanitize,
        secure_erase, reliable_write_enhanced, pre_eol, life_time_a, life_time_b, firmware_version,
        max_packed_writes, max_packed_reads, ffu_arg, bkops_status, correctly_programmed_sectors,
    );
    into.put_option("ext_csd.hpi", ext_csd.hpi());
    into.put_option("ext_csd.hc_erase_group_bytes", ext_csd.hc_erase_group_bytes());
    into.put_option("ext_csd.hc_wp_group_bytes", ext_csd.hc_wp_group_bytes());
}

/// Returns whether the key is an input, and not an expected value.
fn is_input(key: &str) -> bool {
    let known = ["kind", "source", "verified", "ocr", "cid", "csd", "scr", "ssr", "cid.ext_csd_rev"];
    known.contains(&key) || key.starts_with("ext_csd@")
}

#[test]
fn every_card_decodes_as_published() {
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zoo");
    let mut cards = 0;
    for entry in std::fs::read_dir(zoo).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let card = Card::read(&path);
        assert!(card.get("source").is_some() && card.get("verified").is_some(), "{}", card.file);
        let decoded = decode(&card);
        let mut expectations = 0;
        for (key, expected) in card.entries.iter().filter(|(key, _)| !is_input(key)) {
            let Some(found) = decoded.0.get(key) else {
                panic!("{}: {key} is not decoded here, or misspelt", card.file);
            };
            assert_eq!(found, expected, "{}: {key}", card.file);
            expectations += 1;
        }
        assert!(expectations >= 8, "{}: only {expectations} expectations", card.file);
        cards += 1;
    }
    assert!(cards >= 8, "only {cards} cards found");
}

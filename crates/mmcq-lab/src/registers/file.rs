//! A card's registers from a file, in the form of `zoo/README.md`: lines of `key = value`.
//!
//! The kernel module `mmcq.ko` prints such a file, and the files of the folder `zoo` have this form.

use super::{Field, Of, cid, csd, ext_csd_fields, scr, ssr};
use mmcq::spec::ext_csd::ExtCsd;
use mmcq::spec::response::Ocr;
use std::collections::BTreeMap;

/// Size in bytes of the register EXT_CSD.
const EXT_CSD_BYTES: usize = 512;
/// Largest size in bytes of a file that is read as a register file.
pub const FILE_BYTES_MAX: u64 = 64 << 10;

/// Registers of a card that a file contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Whether the card is an eMMC.
    emmc: bool,
    raw: BTreeMap<String, Vec<u8>>,
    ext_csd: Option<Box<[u8; EXT_CSD_BYTES]>>,
}

/// Returns whether the bytes at the beginning of a file are those of a register file, and not of a
/// card's image: a comment, or the key `kind`.
pub fn is_register_file(start: &[u8]) -> bool {
    start.starts_with(b"#") || start.starts_with(b"kind = ")
}

impl Registers {
    /// Reads the text of a file. Keys that are no register are ignored.
    ///
    /// # Errors
    /// The line and what is wrong in it; or the key that is missing.
    pub fn parse(text: &str) -> Result<Registers, String> {
        let mut registers = Registers::default();
        let mut kind = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: String| format!("line {number}: {why}");
            let (key, value) =
                line.split_once('=').ok_or_else(|| wrong("expected KEY = VALUE".to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            match key {
                "kind" if value == "sd" || value == "emmc" => kind = Some(value == "emmc"),
                "kind" => return Err(wrong(format!("kind {value}, expected sd or emmc"))),
                "ocr" => registers.take(key, value, 4).map_err(wrong)?,
                "cid" | "csd" => registers.take(key, value, 16).map_err(wrong)?,
                "scr" => registers.take(key, value, 8).map_err(wrong)?,
                "ssr" => registers.take(key, value, 64).map_err(wrong)?,
                _ => {
                    if let Some(at) = key.strip_prefix("ext_csd@") {
                        registers.take_piece(at, value).map_err(wrong)?;
                    }
                }
            }
        }
        registers.emmc = kind.ok_or("no line says kind = sd or kind = emmc")?;
        Ok(registers)
    }

    fn take(&mut self, key: &str, value: &str, bytes: usize) -> Result<(), String> {
        let raw = hex(value)?;
        if raw.len() != bytes {
            return Err(format!("{key} has {} bytes, expected {bytes}", raw.len()));
        }
        match self.raw.insert(key.to_owned(), raw) {
            None => Ok(()),
            Some(_) => Err(format!("{key} is there twice")),
        }
    }

    fn take_piece(&mut self, at: &str, value: &str) -> Result<(), String> {
        let at: usize = at.parse().map_err(|_| format!("ext_csd@{at}: no number of a byte"))?;
        let piece = hex(value)?;
        let all = self.ext_csd.get_or_insert_with(|| Box::new([0; EXT_CSD_BYTES]));
        let place = at.checked_add(piece.len()).and_then(|end| all.get_mut(at..end));
        place.ok_or(format!("ext_csd@{at}: past byte 511"))?.copy_from_slice(&piece);
        Ok(())
    }

    fn bytes<const N: usize>(&self, key: &str) -> Option<[u8; N]> {
        self.raw.get(key)?.as_slice().try_into().ok()
    }

    fn words(&self, key: &str) -> Option<[u32; 4]> {
        let bytes: [u8; 16] = self.bytes(key)?;
        let (words, _) = bytes.as_chunks();
        let words: [[u8; 4]; 4] = words.try_into().ok()?;
        Some(words.map(u32::from_be_bytes))
    }

    /// Returns the fields of all registers that the file has.
    ///
    /// # Errors
    /// The register that the decoder refuses, and why.
    pub fn decode(&self) -> Result<Vec<Field>, String> {
        let mut fields = Vec::new();
        let ext = match self.ext_csd.as_deref().filter(|_| self.emmc) {
            Some(bytes) => Some(ExtCsd::parse(bytes).map_err(|e| format!("ext_csd: {e}"))?),
            None => None,
        };
        let kind = if self.emmc { "eMMC" } else { "SD" };
        Of("card", &mut fields).put("kind", kind);
        if let Some(bytes) = self.bytes("ocr") {
            let ocr = u32::from_be_bytes(bytes);
            let mut of = Of("OCR", &mut fields);
            of.put("raw", format!("{ocr:08x}"));
            if !self.emmc {
                let ocr = Ocr(ocr);
                of.list("flags", &[(ocr.ccs(), "CCS"), (ocr.s18a(), "S18A")]);
            }
        }
        if let Some(words) = self.words("cid") {
            cid(&mut Of("CID", &mut fields), &words, self.emmc, |cid| {
                let year = if self.emmc {
                    cid.emmc_year(ext.as_ref().map_or(0, ExtCsd::ext_csd_rev))
                } else {
                    cid.year
                };
                (year, cid.month)
            });
        }
        if let Some(words) = self.words("csd") {
            csd(&mut Of("CSD", &mut fields), &words, self.emmc).map_err(|e| format!("csd: {e}"))?;
        }
        if let Some(bytes) = self.bytes("scr") {
            scr(&mut Of("SCR", &mut fields), &bytes).map_err(|e| format!("scr: {e}"))?;
        }
        if let Some(bytes) = self.bytes("ssr") {
            ssr(&mut Of("SSR", &mut fields), &bytes);
        }
        if let Some(ext) = &ext {
            ext_csd_fields(&mut Of("EXT_CSD", &mut fields), ext);
        }
        Ok(fields)
    }
}

/// Returns the bytes of a text of hexadecimal digits.
fn hex(text: &str) -> Result<Vec<u8>, String> {
    let digits = text.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok()
    };
    match pairs.iter().map(byte).collect() {
        Some(bytes) if rest.is_empty() => Ok(bytes),
        _ => Err(format!("{text:.16}: no pairs of hexadecimal digits")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(fields: &'a [Field], register: &str, field: &str) -> &'a str {
        let found = fields.iter().find(|f| f.register == register && f.field.starts_with(field));
        found.map_or("none", |f| &f.value)
    }

    /// Tests the files that the kernel module printed of QEMU's cards (tools/linux-module.sh).
    #[test]
    fn what_the_kernel_module_prints_is_read() {
        let emmc = include_str!("../../tests/data/qemu-emmc.card");
        let fields = Registers::parse(emmc).and_then(|registers| registers.decode()).unwrap();
        assert_eq!(value(&fields, "card", "kind"), "eMMC");
        assert_eq!(value(&fields, "CID", "name"), "QEMU!!");
        assert_eq!(value(&fields, "EXT_CSD", "SEC_COUNT"), "64 MiB");
        assert_eq!(value(&fields, "EXT_CSD", "boot areas"), "2 x 1 MiB");
        assert_eq!(value(&fields, "EXT_CSD", "RPMB"), "128 KiB");
        let sd = include_str!("../../tests/data/qemu-sd.card");
        let fields = Registers::parse(sd).and_then(|registers| registers.decode()).unwrap();
        assert_eq!((value(&fields, "card", "kind"), value(&fields, "CID", "name")), ("SD", "QEMU!"));
        assert_eq!(value(&fields, "CSD", "capacity"), "128 MiB");
        assert_eq!(value(&fields, "SCR", "widths"), "1, 4");
        assert!(is_register_file(emmc.as_bytes()) && is_register_file(sd.as_bytes()));
    }

    #[test]
    fn every_file_of_the_zoo_is_read() {
        let zoo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../zoo");
        let mut cards = 0;
        for entry in std::fs::read_dir(zoo).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(is_register_file(text.as_bytes()), "{}", path.display());
                let fields = Registers::parse(&text).and_then(|registers| registers.decode());
                assert!(fields.is_ok_and(|fields| fields.len() > 3), "{}", path.display());
                cards += 1;
            }
        }
        assert!(cards >= 8, "only {cards} cards found");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let refused = |text: &str| Registers::parse(text).unwrap_err();
        assert_eq!(refused("cid = 00"), "line 1: cid has 1 bytes, expected 16");
        assert_eq!(refused("# x\nkind = mmc"), "line 2: kind mmc, expected sd or emmc");
        assert_eq!(refused("scr = 0235800200000000\nscr = 0235800200000000"), "line 2: scr is there twice");
        assert_eq!(refused("ext_csd@511 = 0000"), "line 1: ext_csd@511: past byte 511");
        assert_eq!(
            refused("ext_csd@18446744073709551615 = 00"),
            "line 1: ext_csd@18446744073709551615: past byte 511"
        );
        assert_eq!(refused("ext_csd@x = 00"), "line 1: ext_csd@x: no number of a byte");
        assert_eq!(refused("ocr = +1+1+1+1"), "line 1: +1+1+1+1: no pairs of hexadecimal digits");
        assert_eq!(refused("ocr = 000"), "line 1: 000: no pairs of hexadecimal digits");
        assert_eq!(refused("nothing"), "line 1: expected KEY = VALUE");
        assert_eq!(refused(""), "no line says kind = sd or kind = emmc");
        let short = Registers::parse("kind = emmc\next_csd@0 = 00").unwrap().decode();
        assert!(short.is_ok() || short.is_err_and(|why| why.starts_with("ext_csd: ")));
    }
}

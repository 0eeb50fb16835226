//! Tests of every card profile (bring-up, registers bit by bit, writes read back) and of the
//! messages for a bad profile.

use super::host::Host;
use super::{ALL, medium, profile};
use crate::card::io::IoProfile;
use crate::card::{CardProfile, Fill, Medium};

/// Returns bits of a register whose last byte has the bits 7:0.
fn bits(register: &[u8], msb: usize, lsb: usize) -> u64 {
    (lsb..=msb).rev().fold(0, |value, bit| {
        let byte = register[register.len() - 1 - bit / 8];
        value << 1 | u64::from(byte >> (bit % 8) & 1)
    })
}

/// Computes the CRC7 by long division, bit by bit, in another way than the model.
fn crc7(bytes: &[u8]) -> u8 {
    let mut rest: u128 = 0;
    for byte in bytes {
        rest = rest << 8 | u128::from(*byte);
    }
    rest <<= 7;
    for bit in (7..127).rev() {
        if rest >> bit & 1 == 1 {
            rest ^= 0x89 << (bit - 7);
        }
    }
    rest as u8
}

fn sealed(register: &[u8; 16]) -> bool {
    register[15] == crc7(&register[..15]) << 1 | 1
}

fn sd_capacity(csd: &[u8; 16]) -> u64 {
    match bits(csd, 127, 126) {
        0 => (bits(csd, 73, 62) + 1) << (bits(csd, 49, 47) + 2) << bits(csd, 83, 80),
        1 => (bits(csd, 69, 48) + 1) * 512 * 1024,
        other => panic!("CSD_STRUCTURE {other}"),
    }
}

#[test]
fn all_come_up_and_keep_data() {
    for file in ALL {
        let profile = profile(file);
        let mut host = Host::new(profile.build(medium(&profile)).unwrap());
        let csd;
        if profile.is_emmc() {
            csd = host.bring_up_emmc();
            let ext = host.ext_csd();
            let sectors = u64::from(u32::from_le_bytes([ext[212], ext[213], ext[214], ext[215]]));
            assert_eq!(sectors * 512, profile.capacity_bytes(), "{file}");
            assert_eq!((bits(&csd, 127, 126), bits(&csd, 125, 122)), (3, 4));
            assert_eq!(bits(&csd, 73, 62), 0xfff, "more than 2 GiB");
            host.emmc_hs8();
        } else {
            csd = host.bring_up_sd(false);
            assert_eq!(sd_capacity(&csd), profile.capacity_bytes(), "{file}");
            assert_eq!(bits(&csd, 103, 96), 0x32);
        }
        assert!(sealed(&csd), "{file}");
        let unit = if bits(&csd, 127, 126) == 0 { 512 } else { 1 };
        let data: Vec<u8> = (0..3 * 512u32).map(|n| (n * 7 + n / 512) as u8).collect();
        for at in [0u32, 9, (profile.capacity_bytes() / 512 - 3) as u32] {
            host.ok(25, at * unit);
            host.transmit(&data);
            host.ok(12, 0);
            host.ok(24, (at + 1) * unit);
            host.transmit(&[0x5a; 512]);
            host.ok(18, at * unit);
            let read = host.receive(3);
            host.stop_at_end();
            assert_eq!(read[..512], data[..512]);
            assert_eq!(read[512..1024], [0x5a; 512]);
            assert_eq!(read[1024..], data[1024..]);
            host.ok(17, (at + 1) * unit);
            assert_eq!(host.receive(1), [0x5a; 512]);
            assert_eq!(host.state(), 4);
        }
        // Sectors that were never written read as the pattern.
        let mut expected = [0u8; 512];
        Fill::Pattern(1).generate(100 * 512, &mut expected);
        host.ok(17, 100 * unit);
        assert_eq!(host.receive(1), expected);
    }
}

#[test]
fn identification_registers() {
    let sdxc = profile("sdxc-128g-uhs");
    let mut host = Host::new(sdxc.build(medium(&sdxc)).unwrap());
    host.bring_up_sd(true);
    host.silent(7, 0);
    let cid = host.long(10, host.rca << 16);
    assert!(sealed(&cid));
    assert_eq!(&cid[1..8], b"SMGE4S5");
    assert_eq!((cid[0], cid[8]), (0x1b, 0x30));
    assert_eq!(bits(&cid, 55, 24), 0x0128_0128);
    assert_eq!((bits(&cid, 19, 12), bits(&cid, 11, 8)), (20, 8));

    let emmc = profile("hbg4a2");
    let mut host = Host::new(emmc.build(medium(&emmc)).unwrap());
    host.bring_up_emmc();
    host.silent(7, 0);
    let cid = host.long(10, 1 << 16);
    assert!(sealed(&cid));
    assert_eq!(&cid[3..9], b"HBG4a2");
    assert_eq!(bits(&cid, 113, 112), 1);
    // June 2018: the year field is 5 and counts from 2013.
    assert_eq!((bits(&cid, 15, 12), bits(&cid, 11, 8)), (6, 5));
}

#[test]
fn scr_and_sd_status() {
    let profile = profile("sdxc-128g-uhs");
    let mut host = Host::new(profile.build(medium(&profile)).unwrap());
    host.bring_up_sd(true);
    host.app(51, 0);
    let scr = host.receive(1);
    assert_eq!(scr.len(), 8);
    assert_eq!((bits(&scr, 59, 56), bits(&scr, 47, 47), bits(&scr, 42, 42)), (2, 1, 0));
    assert_eq!((bits(&scr, 51, 48), bits(&scr, 33, 33)), (5, 1));
    host.app(13, 0);
    let ssr = host.receive(1);
    assert_eq!(ssr.len(), 64);
    assert_eq!(bits(&ssr, 511, 510), 2);
    assert_eq!((bits(&ssr, 447, 440), bits(&ssr, 431, 428), bits(&ssr, 399, 396)), (4, 9, 3));
}

#[test]
fn any_sdsc_capacity_is_said_exactly_or_refused() {
    for mib in [1u64, 8, 15, 64, 968, 1024, 1000, 1900, 2048] {
        let profile = profile("sdsc-1g").with_capacity_bytes(mib << 20).unwrap();
        let mut host = Host::new(profile.build(medium(&profile)).unwrap());
        assert_eq!(sd_capacity(&host.bring_up_sd(false)), mib << 20);
    }
    assert!(profile("sdsc-1g").with_capacity_bytes(2049 << 20).is_err());
    assert!(profile("sdsc-1g").with_capacity_bytes(512 * 8191).is_err());
    assert!(profile("sdhc-16g-hs").with_capacity_bytes(33 << 30).is_err());
    assert!(profile("hbg4a2").with_capacity_bytes(0).is_err());
}

#[test]
fn a_small_emmc_counts_in_its_csd() {
    for mib in [16u64, 1024, 1040, 2048] {
        let profile = profile("emmc-4g-old").with_capacity_bytes(mib << 20).unwrap();
        let mut host = Host::new(profile.build(medium(&profile)).unwrap());
        let csd = host.bring_up_emmc();
        let size = (bits(&csd, 73, 62) + 1) << (bits(&csd, 49, 47) + 2) << bits(&csd, 83, 80);
        assert_eq!(size, mib << 20);
    }
}

fn broken(change: impl FnOnce(String) -> String) -> String {
    let path = format!("{}/cards/hbg4a2.toml", env!("CARGO_MANIFEST_DIR"));
    let text = change(std::fs::read_to_string(path).unwrap());
    let message = CardProfile::from_toml(&text, "bad.toml").expect_err("must be refused").to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

#[test]
fn bad_profiles_say_where_and_what() {
    let line = |text: &str, key: &str| 1 + text.lines().position(|line| line.starts_with(key)).unwrap();
    let path = format!("{}/cards/hbg4a2.toml", env!("CARGO_MANIFEST_DIR"));
    let good = std::fs::read_to_string(path).unwrap();
    let at = |key: &str| format!("bad.toml:{}: ", line(&good, key));

    let message = broken(|text| text.replace("read_first_us = 100.5", "read_first = 100"));
    assert_eq!(message, at("read_first_us") + "key `read_first` has no unit: expected `read_first_us`");
    let message = broken(|text| text.replace("switch_us = 400", "switch_us = -1"));
    assert_eq!(message, at("switch_us") + "`switch_us = -1`: expected a time from 0 to one hour");
    let message = broken(|text| text.replace("switch_us = 400", "switch_us = \"fast\""));
    assert!(message.starts_with(&at("switch_us")), "{message}");
    let message = broken(|text| text.replace("69.7", "nan"));
    assert!(message.starts_with(&at("drain_mib_s")), "{message}");
    let message = broken(|text| text.replace("\"hs400es\"", "\"hs500\""));
    assert!(message.starts_with(&at("fastest")) && message.contains("hs400es"), "{message}");
    let message = broken(|text| text.replace("\"HBG4a2\"", "\"HBG4\""));
    assert!(message.contains("product") && message.contains("6 printable"), "{message}");
    let message = broken(|text| text.replace("[emmc]", "[sd]"));
    assert!(message.starts_with("bad.toml:"), "{message}");
    let message = broken(|text| text.replace("capacity_mib = 29820", "capacity_mib = 99999999"));
    assert!(message.starts_with(&at("capacity_mib")), "{message}");
}

#[test]
fn fuzz_profiles() {
    let good = ["sdxc-128g-uhs", "hbg4a2", "bt-type-a"]
        .map(|card| std::fs::read(format!("{}/cards/{card}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap());
    crate::fuzz::fuzz("fuzz_profiles", 1_000, |u| {
        let mut text = u.choose(&good)?.clone();
        for _ in 0..u.int_in_range(1..=4)? {
            let at = u.choose_index(text.len())?;
            match u.int_in_range(0..=2)? {
                0 => text[at] = u.int_in_range(0x20..=0x7e)?,
                1 => drop(text.remove(at)),
                _ => text.truncate(at.max(1)),
            }
        }
        let text = String::from_utf8_lossy(&text);
        let one_line = |error: String| assert!(!error.trim_end().contains('\n'), "{error}");
        match IoProfile::from_toml(&text, "x") {
            Ok(profile) => drop(profile.build()),
            Err(error) => one_line(error.to_string()),
        }
        if let Ok(profile) = CardProfile::from_toml(&text, "x").map_err(|error| one_line(error.to_string())) {
            let medium = Medium::sparse(512, Fill::Zeros).unwrap();
            assert!(profile.build(medium).is_err());
        }
        Ok(())
    });
}

/// Checks that an erase to zeros reads as zeros, and does not allocate disk space for holes of the
/// image.
#[cfg(unix)]
#[test]
fn an_erase_fills_no_hole_of_an_image() {
    use std::os::unix::fs::MetadataExt;
    let path = std::env::temp_dir().join(format!("mmcq-sim-holes-{}", std::process::id()));
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let mut medium = Medium::image(&path, false).unwrap();
    medium.write(4 << 20, &[7; 4096]).unwrap();
    medium.erase(0, 8 << 20, 0).unwrap();
    let (mut bytes, taken) = ([7; 4096], path.metadata().unwrap().blocks() * 512);
    medium.read(4 << 20, &mut bytes).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(bytes == [0; 4096] && taken <= 1 << 17, "{taken}");
}

#[test]
fn images_must_fit() {
    let dir = std::env::temp_dir().join(format!("mmcq-sim-card-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let write = |name: &str, bytes: usize| {
        let path = dir.join(name);
        std::fs::write(&path, vec![7u8; bytes]).unwrap();
        path
    };
    let message = |path: &std::path::Path| Medium::image(path, false).unwrap_err().to_string();
    assert!(
        message(&write("empty", 0))
            .ends_with("the image is empty, expected at least one sector of 512 bytes")
    );
    assert!(message(&write("ragged", 1000)).ends_with("1000 bytes, expected a multiple of 512"));
    assert!(message(&dir.join("absent")).contains("absent: "));

    let path = write("image", 1 << 20);
    let large = profile("sdsc-1g");
    let error = large.build(Medium::image(&path, false).unwrap()).err().unwrap().to_string();
    assert!(error.contains("1015021568") && error.contains("1048576"), "{error}");
    let small = large.with_capacity_bytes(1 << 20).unwrap();
    let mut host = Host::new(small.build(Medium::image(&path, false).unwrap()).unwrap());
    host.bring_up_sd(false);
    host.ok(25, 512 * 100);
    host.transmit(&[3; 512 * 9]);
    host.ok(12, 0);
    // The file has all data at the end of the command, not only when the card is dropped.
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file.len(), 1 << 20);
    for (sector, bytes) in file.chunks(512).enumerate() {
        let expected = if (100..109).contains(&sector) { 3 } else { 7 };
        assert!(bytes.iter().all(|byte| *byte == expected), "sector {sector}");
    }
    // The next command sees changes that other programs made in the file.
    let mut file = file;
    host.ok(17, 0);
    assert_eq!(host.receive(1), [7; 512]);
    file[..512].fill(9);
    std::fs::write(&path, &file).unwrap();
    host.ok(18, 0);
    let read = host.receive(2048);
    host.stop_at_end();
    assert!(read == file);

    let mut host = Host::new(small.build(Medium::image(&path, true).unwrap()).unwrap());
    host.bring_up_sd(false);
    assert!(host.card.write_protect_switch());
    assert_eq!(host.short(24, 0) >> 26 & 1, 1, "WP_VIOLATION");
    assert!(std::fs::read(&path).unwrap() == file);
    std::fs::remove_dir_all(&dir).unwrap();
}

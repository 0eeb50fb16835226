//! Tests of how registers and board settings become capabilities of the command queue engine.

extern crate std;

use super::config::*;
use crate::host::{QueueCaps, QueueError};
use std::format;
use std::string::ToString;

fn caps(version: u32, capabilities: u32) -> Result<QueueCaps, QueueError> {
    // SAFETY: the test accesses no registers.
    let config = unsafe { CqhciConfig::at(0x200) };
    config.caps(version, capabilities, true, (4, 65_536))
}

#[test]
fn every_quirk_has_a_name_and_a_bit_of_its_own() {
    let mut all = CqhciQuirks::NONE;
    for name in CqhciQuirks::names() {
        let quirk = CqhciQuirks::named(name).unwrap();
        assert!(!all.has(quirk), "{name}");
        all = all.with(quirk);
    }
    let count = CqhciQuirks::names().count();
    assert_eq!((count, format!("{all:?}")), (7, "CqhciQuirks(127)".into()));
}

#[test]
fn clocks_are_read_as_dumps_of_chips_have_them() {
    let hz = |capabilities| caps(0x510, capabilities).unwrap().timer_hz;
    assert_eq!((hz(0x30c8), hz(0x30c0), hz(0x20f0)), (200_000_000, 192_000_000, 24_000_000));
    assert_eq!(hz(0x1000_20b6), 18_200_000);
}

#[test]
fn nonsense_is_refused_with_what_was_seen() {
    for version in [0, u32::MAX, 0x0001_0510, 0x410, 0x600] {
        let error = caps(version, 0x30c0).unwrap_err();
        assert_eq!(error, QueueError::Version(version));
        assert!(error.to_string().contains(&format!("{version:#010x}")), "{error}");
    }
    for capabilities in [0, 0x3000, 0x50c0, u32::MAX, 0x43ff] {
        let error = caps(0x510, capabilities).unwrap_err();
        assert_eq!(error, QueueError::Timer(capabilities));
        assert!(error.to_string().contains(&format!("{capabilities:#010x}")), "{error}");
    }
    // SAFETY: the test accesses no registers.
    let config = CqhciConfig { timer_hz: Some(27_000_000), ..unsafe { CqhciConfig::at(0x200) } };
    assert_eq!(config.caps(0x510, 0, true, (4, 65_536)).unwrap().timer_hz, 27_000_000);
    let config = config.quirks(CqhciQuirks::INTEL_GLK);
    let caps = config.caps(0x500, 0, false, (7, 512)).unwrap();
    assert_eq!((caps.depth, caps.direct, caps.max_segments, caps.max_bytes), (32, None, 7, 512));
}

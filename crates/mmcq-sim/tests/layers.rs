//! A layer of the simulator looks down, never up.

use crate::imports;
use std::path::Path;

/// From the lowest. A module may name those in the rows above its own, and no other: so no
/// controller knows another.
const LAYERS: &[&[&str]] = &[
    &["alarms", "faults", "memory", "parallel", "plant", "sequence", "stats", "time", "wire", "world"],
    &["card", "cards", "charged", "cpu", "port"],
    &["checker", "probe"],
    &["slot"],
    &["lines"],
    &["mshc", "rtsx", "s3c_sdi", "schedule", "sdhci", "spi", "stm32_sdmmc"],
    &["bench", "pl022"],
];

#[test]
fn layers_do_not_look_up() {
    let imports = imports::of_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(imports.0.len() > 60, "only {} imports found", imports.0.len());
    let up = imports::looks_up(&imports, LAYERS);
    assert!(up.is_empty(), "{} places look up:\n{}", up.len(), up.join("\n"));
}

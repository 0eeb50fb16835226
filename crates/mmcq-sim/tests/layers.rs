//! Tests that a layer of the simulator uses only lower layers.

use crate::imports;
use std::path::Path;

/// The layers, from the lowest on. A module may use modules of earlier rows only; so no controller
/// uses another.
const LAYERS: &[&[&str]] = &[
    &[
        "alarms", "document", "faults", "memory", "parallel", "plant", "sequence", "stats", "time", "wire",
        "world",
    ],
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

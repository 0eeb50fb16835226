//! Checks that the laboratory's modules do not depend on one another in a circle.

use crate::imports;
use std::path::Path;

#[test]
fn no_module_comes_back_to_itself() {
    let imports = imports::of_crate(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(imports.0.len() > 80, "only {} imports found", imports.0.len());
    let back = imports::circles(&imports);
    assert!(back.is_empty(), "{} places close a circle:\n{}", back.len(), back.join("\n"));
}

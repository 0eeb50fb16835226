//! Puts `memory.x` where the linker finds it, also if the program is a part of a larger workspace.

use std::path::Path;

fn main() {
    let folder = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::copy("memory.x", Path::new(&folder).join("memory.x")).expect("memory.x beside Cargo.toml");
    println!("cargo::rustc-link-search={folder}");
    println!("cargo::rerun-if-changed=memory.x");
}

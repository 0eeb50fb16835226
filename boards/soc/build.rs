//! Gives the linker the load address of the image, from the table of machines.

#[path = "src/table.rs"]
mod table;

fn main() {
    println!("cargo::rerun-if-changed=src/table.rs");
    println!("cargo::rustc-link-arg-bins=--defsym=image_base={:#x}", table::MACHINE.image);
}

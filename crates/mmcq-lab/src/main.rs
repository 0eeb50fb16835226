//! The program `mmcq`.

fn main() {}

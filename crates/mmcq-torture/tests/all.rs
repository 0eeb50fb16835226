//! All tests of the campaigns in one program, since each further program makes the build longer.
//! `cargo test -p mmcq-torture --test all NAME` executes those with NAME in their path.

mod bring_up;
mod campaigns;
mod describe;
mod exhaustive;
mod machine;
mod stopwatch;
mod summary;
mod sweep;
mod trace;

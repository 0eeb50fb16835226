//! All tests of the campaigns, as one program: each program more costs a build. `cargo test -p
//! mmcq-torture --test all NAME` runs those with NAME in their path.

mod bring_up;
mod campaigns;
mod describe;
mod exhaustive;
mod machine;
mod stopwatch;
mod summary;
mod sweep;
mod trace;

//! All tests that need no process of their own, as one program, because each additional program
//! costs a build. `Cargo.toml` lists the tests that run alone. `cargo test -p mmcq-embassy --test
//! all NAME` runs the tests with NAME in their path.

#[path = "exfat/format.rs"]
mod format;
#[path = "../../mmcq-sim/tests/machine/mod.rs"]
mod machine;
#[path = "support/tasks.rs"]
mod tasks;
#[path = "../../mmcq-sim/tests/timed/mod.rs"]
mod timed;
#[path = "../../mmcq/tests/support/watchdog.rs"]
mod watchdog;
#[path = "support/world.rs"]
mod world;

mod bus;
mod dropped;
mod exfat;
mod mailbox;
mod sdio;
mod supervisor;

//! Tests of the driver and the stack on models that this project did not write: QEMU's `sdhci-pci`
//! and `sd-card`, accessed through the qtest socket.
//!
//! No guest code runs. The test process acts as the processor: it reads and writes the controller's
//! registers over a socket, shares the guest's memory as a file, and receives the interrupt line.
//! Read first: `machine.rs`.
//!
//! If QEMU is not installed, the tests print that and pass, unless `CI` is set. `MMCQ_QEMU` names
//! another binary.

mod engine;
mod errors;
mod image;
mod machine;
mod memory;
#[path = "../support/one_thread.rs"]
mod one_thread;
mod open;
mod pci;
mod phases;
mod qtest;
mod registers;
mod runner;
mod small;
mod smoke;
mod soc;
mod socs;
#[path = "../support/watchdog.rs"]
mod watchdog;
mod window;

use machine::{Machine, Options};
use qtest::Qemu;
use std::io::Write;
use std::sync::OnceLock;

/// Starts a machine for a test. `None`: QEMU is not installed, and that is no failure.
fn machine(options: &Options) -> Option<Machine> {
    static QEMU: OnceLock<Option<Qemu>> = OnceLock::new();
    let qemu = QEMU.get_or_init(|| {
        Qemu::find()
            .inspect_err(|error| {
                // Past the test harness, which hides what a passing test prints.
                let mut stderr = std::io::stderr();
                let _ =
                    writeln!(stderr, "no QEMU, skipped: {error}; install it with tools/install-judges.sh");
            })
            .ok()
    });
    let Some(qemu) = qemu else {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!ci, "no QEMU although CI is set; install it with tools/install-judges.sh");
        return None;
    };
    Some(Machine::start(qemu, options).unwrap_or_else(|error| panic!("{error}")))
}

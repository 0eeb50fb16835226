//! All tests that need no process of their own, as one test program, since each further program
//! costs a build. Test programs that run alone are in `Cargo.toml`. `cargo test -p mmcq-lab --test
//! all NAME` runs the tests with NAME in their path.

#[allow(dead_code, reason = "the simulator takes cases in other ways too")]
#[path = "../../mmcq-sim/tests/cases.rs"]
mod cases;
#[path = "../../mmcq/tests/support/fuzz.rs"]
mod fuzz;
#[allow(dead_code, reason = "the core and the simulator have tables of layers")]
#[path = "../../mmcq/tests/support/imports.rs"]
mod imports;
mod job_folder;
mod judges;
#[cfg(target_os = "linux")]
#[path = "../../mmcq/tests/support/watchdog.rs"]
mod watchdog;

mod boot_areas;
mod budgets;
mod cli;
mod corpus;
#[cfg(target_os = "linux")]
mod exec;
#[cfg(target_os = "linux")]
mod exec_calls;
mod fio_fuzz;
mod fio_live;
mod fio_offsets;
mod fio_options;
#[cfg(target_os = "linux")]
mod fio_pairs;
mod fio_reports;
mod fio_run;
mod fit;
mod fit_runs;
mod folders;
mod fuzz_platform;
mod gain;
mod guest;
mod guide;
mod knobs;
mod layers;
mod linux_requests;
#[cfg(target_os = "linux")]
mod literal;
#[cfg(target_os = "linux")]
mod module_sleep;
mod never;
mod noted;
mod outputs;
mod page;
#[cfg(target_os = "linux")]
mod programs;
mod replay;
mod replay_programs;
mod reproduce;
mod sdio;
mod sdio_function;
mod shown;
mod spread;
mod sweep;
mod trace;
mod trace_fst;
mod trace_judges;
mod trace_loads;
mod trace_sdio;
mod why;
mod without_effect;

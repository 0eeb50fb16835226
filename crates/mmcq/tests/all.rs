//! All tests that need no process of their own, as one program, because each additional program
//! costs a build. `Cargo.toml` lists the tests that run alone. `cargo test -p mmcq --test all NAME`
//! runs the tests with NAME in their path.

#[path = "support/anything.rs"]
mod anything;
#[path = "support/bench.rs"]
mod bench;
#[path = "support/closed.rs"]
mod closed;
#[path = "support/equipped.rs"]
mod equipped;
#[path = "support/erased.rs"]
mod erased;
#[path = "support/fuzz.rs"]
mod fuzz;
#[allow(dead_code, reason = "the laboratory looks for circles")]
#[path = "support/imports.rs"]
mod imports;
#[path = "support/io_card.rs"]
mod io_card;
#[path = "support/io_drive.rs"]
mod io_drive;
#[path = "support/one_thread.rs"]
mod one_thread;
mod support;

mod acknowledge;
mod area;
mod blocking;
mod board;
mod bounce;
mod cancel;
mod changes;
mod clocks;
mod commands;
mod concurrent;
mod device;
mod durable_order;
mod early;
mod engine;
mod erase;
mod fast_path;
mod faulty;
mod flush_order;
#[path = "fuzz.rs"]
mod fuzz_card;
mod fuzz_chain;
mod fuzz_drivers;
mod fuzz_queue;
mod house;
mod interrupts_status;
mod ladder;
mod ladder_help;
mod layers;
mod limits;
mod loss;
mod many;
mod measures;
mod measures_controller;
mod mixed;
mod names;
mod order;
mod organs;
mod passing;
mod pauses;
mod programs;
mod published;
mod register_flush;
mod retune;
mod rpmb;
mod safety_page;
mod sched;
mod sdio;
mod sdio_bluetooth;
mod sdio_bound;
mod sdio_dropped;
mod sdio_looks;
mod sdio_split;
mod stream;
mod supervisors;
mod surroundings;
mod tail;
mod task;
mod task_spin;
mod wait_queue;
mod zoo;

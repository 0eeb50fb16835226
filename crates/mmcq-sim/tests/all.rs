//! All tests that need no process of their own, as one program, since each further program costs
//! build time. Tests that are programs of their own are listed in `Cargo.toml`. `cargo test -p
//! mmcq-sim --test all NAME` runs the tests with NAME in their path.

mod cases;
#[allow(dead_code, reason = "the laboratory looks for circles")]
#[path = "../../mmcq/tests/support/imports.rs"]
mod imports;
mod lane;
mod machine;
mod queue;
mod rig;
mod timed;

mod adma3;
mod bench;
mod bound;
mod cached;
mod card_quirks;
mod catalogue;
mod chained;
mod cqhci;
mod cqhci_faults;
mod cqhci_stack;
mod device;
mod direct;
mod dropped;
mod embedded_sdmmc;
mod examples;
mod handles;
mod io_removed;
mod latencies;
mod layers;
mod leave;
mod low_power;
mod mappings;
mod meddled;
mod mshc;
mod odd_cards;
mod open_lost;
mod open_mshc;
mod open_sdhci;
mod packed;
mod profiles;
mod protected;
mod queue_engine;
mod quirks;
mod recovery;
mod reentry;
mod rest;
mod retuned;
mod rtsx;
mod s3c_sdi;
mod sd_cache;
mod sdio_sdhci;
mod slot_life;
mod spi_left;
mod spi_odd;
mod spi_pl022;
mod spi_rates;
mod spi_rig;
mod spi_shared;
mod spi_stack;
mod stack;
mod stm32_sdmmc;
mod stream_test;
mod task_queue;
mod told;
mod upkeep;

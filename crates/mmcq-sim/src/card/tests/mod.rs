//! Tests that send raw commands to the card models, written from the standards.

mod contract;
mod cuts;
mod emmc;
mod emmc_modes;
mod extension;
mod flash_profiles;
pub(super) mod host;
mod life;
mod packed;
mod pages;
mod power;
mod profiles;
mod queue;
mod queue_rules;
mod quirks;
mod rpmb;
mod sd;
mod sd_queue;
mod sd_status;
mod storms;
mod strikes;
mod timing;
mod voltage;
mod writes;

pub(crate) fn profile(file: &str) -> super::CardProfile {
    let path = format!("{}/cards/{file}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    super::CardProfile::from_toml(&text, &format!("{file}.toml")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a medium as large as the card, with a pattern in sectors that were never written.
pub(crate) fn medium(profile: &super::CardProfile) -> super::Medium {
    super::Medium::sparse(profile.capacity_bytes(), super::Fill::Pattern(1))
        .expect("a capacity of whole sectors")
}

pub(super) const ALL: [&str; 13] = [
    "emmc-51-full",
    "emmc-queue",
    "sdxc-64g-a2",
    "hbg4a2",
    "fifo-emmc",
    "fifo-emmc-b",
    "emmc-hs200",
    "emmc-4g-old",
    "sdsc-1g",
    "sdhc-16g-hs",
    "sdxc-128g-uhs",
    "pro-plus-128",
    "pro-plus-128-ahead",
];

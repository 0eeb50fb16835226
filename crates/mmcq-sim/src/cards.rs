//! The cards that come with the simulator: their profiles as TOML, by name.

macro_rules! cards {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../cards/", $name, ".toml")))),+]
    };
}

/// Name and profile of every card. All are storage cards except `bt-type-a`, which is an I/O card.
pub const CARDS: &[(&str, &str)] = cards!(
    "bt-type-a",
    "emmc-4g-old",
    "emmc-51-full",
    "emmc-cache",
    "emmc-hs200",
    "emmc-mt6761",
    "emmc-packed",
    "emmc-power-class",
    "emmc-queue",
    "emmc-queue-fast",
    "emmc-queue-one",
    "emmc-queue-slow",
    "emmc-slc",
    "emmc-th1520",
    "fifo-emmc",
    "fifo-emmc-b",
    "fifo-emmc-b-hs200",
    "fifo-emmc-hs200",
    "hbg4a2",
    "pro-plus-128",
    "pro-plus-128-ahead",
    "pro-plus-128-spread",
    "sdhc-16g-hs",
    "sdsc-1g",
    "sduc-4t",
    "sdxc-128g-uhs",
    "sdxc-64g-a2",
);

/// Returns the profile of the card with this name; `None` if there is none.
pub fn named(name: &str) -> Option<&'static str> {
    CARDS.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile)
}

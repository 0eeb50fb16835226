//! Places of faults: the cards of the campaigns, and the points of the models where a fault can
//! strike.

use mmcq_sim::faults::Point;

/// The campaign's cards: SD and eMMC, addressed by bytes and by blocks, with and without a cache
/// that power takes away.
pub const CARDS: [&str; 5] = ["sdhc-16g-hs", "emmc-hs200", "hbg4a2", "emmc-4g-old", "sdsc-1g"];

/// Numbers in [`EVERY_CARD`] of the cards with a command queue or packed commands.
pub const QUEUED: std::ops::Range<usize> = CARDS.len()..CARDS.len() + 6;

/// [`CARDS`], followed by the cards with a command queue or packed commands, and a card of 4 TB.
pub const EVERY_CARD: [&str; 12] = [
    "sdhc-16g-hs",
    "emmc-hs200",
    "hbg4a2",
    "emmc-4g-old",
    "sdsc-1g",
    "emmc-queue",
    "emmc-queue-slow",
    "emmc-queue-fast",
    "emmc-queue-one",
    "emmc-packed",
    "sdxc-64g-a2",
    "sduc-4t",
];

/// Boot settings of the first eMMC (with an acknowledge, from boot area 1) and of the eMMC that
/// comes in its place (from the user area).
pub(super) const BOOTS: [u8; 2] = [0x48, 0x38];

/// Points of the models, in the order in which [`Outcome`](super::outcome::Outcome) counts them.
pub const POINTS: [Point; Point::COUNT] = [
    Point::Command,
    Point::Response,
    Point::ReadBlock,
    Point::WriteBlock,
    Point::Busy,
    Point::Tuning,
    Point::PowerUp,
    Point::Voltage,
    Point::Interrupt,
    Point::Dma,
    Point::Reset,
    Point::Clock,
    Point::AutoCommand,
    Point::Cache,
    Point::Medium,
    Point::Function,
    Point::Exchange,
    Point::Doorbell,
    Point::TaskEnd,
    Point::Halt,
    Point::Clear,
    Point::Enable,
    Point::Blame,
    Point::Task,
    Point::Discard,
    Point::Stop,
    Point::Ready,
    Point::Pack,
    Point::List,
];

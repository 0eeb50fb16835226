//! The cards of the campaigns, and the kinds of events in the models that faults can strike.

use mmcq_sim::faults::Point;

/// Names of the cards that most campaigns use: SD and eMMC, with byte and block addresses, with and
/// without a volatile cache.
pub const CARDS: [&str; 5] = ["sdhc-16g-hs", "emmc-hs200", "hbg4a2", "emmc-4g-old", "sdsc-1g"];

/// Range of the indexes of the cards with a command queue or packed commands in [`EVERY_CARD`].
pub const QUEUED: std::ops::Range<usize> = CARDS.len()..CARDS.len() + 6;

/// Names of all cards: [`CARDS`], then the cards with a command queue or packed commands, and a
/// card of 4 TB.
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

/// Boot settings in PARTITION_CONFIG. The first eMMC boots with acknowledge from boot area 1. The
/// eMMC that replaces it boots from the user area.
pub(super) const BOOTS: [u8; 2] = [0x48, 0x38];

/// All kinds of events in the models that faults can strike. They are in the order in which
/// [`Outcome`](super::outcome::Outcome) counts their events.
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

//! Chapter D of the catalogue: medium and capacity.

use super::{Entry, entry, once, profile, quirk};
use crate::faults::{Point, Strike};

/// Bit 31 of R1: an address beyond the end of the card.
const OUT_OF_RANGE: u32 = 1 << 31;
/// Bit 26 of R1: a write to a protected address.
const WP_VIOLATION: u32 = 1 << 26;

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "D1",
        "An address out of range, also the harmless one after an open-ended read of the last block",
        "checked before it is sent; ignored where a read has its data, else the request is sent again",
        &[once("out_of_range", Point::Response, Strike::Status(OUT_OF_RANGE)), profile("reads-past-end")],
    ),
    entry(
        "D2",
        "Write protection: the switch, a bit of the CSD, a group",
        "a read-only disk; a violation is final and not repeated",
        &[
            once("wp", Point::Response, Strike::Status(WP_VIOLATION)),
            quirk("wp_range", "protected_mib = [[1, 1]]"),
        ],
    ),
    entry(
        "D3",
        "A sector cannot be read",
        "found sector by sector; that one alone is reported",
        &[once("bad_read", Point::Medium, Strike::Fail)],
    ),
    entry(
        "D4",
        "A bit is wrong although every checksum on the bus is right",
        "invisible to the stack; seen if there are checksums on top",
        &[
            once("silent_flip", Point::ReadBlock, Strike::Flip(1234)),
            once("silent_flip_write", Point::WriteBlock, Strike::Flip(1234)),
        ],
    ),
    entry(
        "D5",
        "The card has no spare blocks any more: writes fail, or are dropped",
        "each write gets the card's own error, reads go on, and the health report says why; dropping is found by reading back",
        &[
            quirk("eol_ro", "life_mib = 1\nworn_out = \"read-only\""),
            quirk("eol_drop", "life_mib = 1\nworn_out = \"drop\""),
        ],
    ),
    entry(
        "D6",
        "The card is smaller than it says: writes beyond vanish, or come back elsewhere",
        "a probe, if it is wanted; the host's memory never depends on the capacity",
        &[
            quirk("limbo", "real_mib = 32\nbeyond = \"limbo\""),
            quirk("wrap", "real_mib = 32\nbeyond = \"wrap\""),
        ],
    ),
    entry(
        "D7",
        "CID, CSD or capacity is another after a re-initialisation",
        "it counts as another card",
        &[quirk("csd_mutate", "shrinks = true"), quirk("cid_mutate", "changes_serial = true")],
    ),
    entry(
        "D8",
        "Trim, discard or secure erase damages the card",
        "known cards are never asked; secure erase only with a capability",
        &[profile("trim-corrupts"), profile("secure-erase-corrupts"), profile("discard-corrupts")],
    ),
    entry(
        "D9",
        "A write lands elsewhere, or twice",
        "beyond the contract: found by a reader with checksums and places on top",
        &[once("astray", Point::Medium, Strike::Astray(8))],
    ),
    entry(
        "D10",
        "A card does not know CMD25",
        "two that it calls illegal are enough: from then on each block goes by CMD24",
        &[profile("no-multiple-write")],
    ),
];

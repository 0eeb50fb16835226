//! Chapter C of the catalogue: presence and power of the card.

use super::{Entry, campaign, entry, from, once, profile, quirk};
use crate::faults::{Point, Strike};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "C1",
        "The card is taken out at any event of a transfer",
        "every request ends, after DMA has stopped: within 100 ms where the slot tells that the card is gone, at its deadline where it does not",
        &[
            once("remove", Point::Command, Strike::Remove),
            once("remove_read", Point::ReadBlock, Strike::Remove),
            once("remove_write", Point::WriteBlock, Strike::Remove),
            once("remove_irq", Point::Interrupt, Strike::Remove),
        ],
    ),
    entry(
        "C2",
        "The same card comes back, or another one",
        "the identity decides; nothing is ever repeated on another card, and a handle of the one before is refused",
        &[campaign("swap")],
    ),
    entry(
        "C3",
        "Card detection bounces, twenty times in 50 ms",
        "wait until it is quiet; no storm of interrupts, no storm of bring-ups",
        &[campaign("cd_bounce")],
    ),
    entry(
        "C4",
        "No detect pin, and the card falls silent",
        "timeouts, a last question, dead; never a hang",
        &[from("no_cd", Point::Command, Strike::Lost)],
    ),
    entry(
        "C5",
        "The power fails while a sector is programmed: it is torn",
        "only what was in flight may be torn",
        &[campaign("cut")],
    ),
    entry(
        "C6",
        "The power fails with writes in the card's cache: some are lost, in any order",
        "what was flushed before is there",
        &[campaign("cut_cache")],
    ),
    entry(
        "C7",
        "A power cut also damages data that were not being written",
        "beyond the contract: no panic, no hang; seen if there are checksums on top",
        &[quirk("neighbour_damage", "neighbour_damage = true")],
    ),
    entry(
        "C8",
        "After a power cut writes are shorn or out of every possible order",
        "beyond the contract: no panic, no hang",
        &[quirk("shorn_writes", "shorn = true")],
    ),
    entry(
        "C9",
        "The card alone loses its supply for a moment and is back in idle",
        "the status fails, the card is brought up again, and a lost cache fails the next flush once",
        &[
            once("card_reset_silently", Point::Command, Strike::BrownOut),
            once("card_reset_in_write", Point::WriteBlock, Strike::BrownOut),
        ],
    ),
    entry(
        "C10",
        "Power is lost during suspend, and the card changed meanwhile",
        "identify it again before anything is repeated",
        &[campaign("sleep_swap")],
    ),
    entry(
        "C11",
        "The card ignores the power-off notification",
        "a deadline, then the power goes off all the same",
        &[profile("power-off-never-ready")],
    ),
];

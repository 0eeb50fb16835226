//! Chapter B of the catalogue: busy and time.

use super::{Entry, campaign, entry, once, profile, quirk, test};
use crate::faults::{Point, Strike};

/// Bit 6 of R1: an eMMC reports an exception event, such as urgent background work.
const EXCEPTION_EVENT: u32 = 1 << 6;

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "B1",
        "A program takes a quarter of a second and more, for the card cleans up behind it",
        "wait what the card declares and a margin; the queue stays fair, and the slowness is reported",
        &[once("busy_slow", Point::Busy, Strike::Late(200_000_000))],
    ),
    entry(
        "B2",
        "The card stays busy for ever",
        "stop, reset the controller, cycle the power, declare it dead; each bounded",
        &[once("busy_forever", Point::Busy, Strike::Never)],
    ),
    entry(
        "B3",
        "The controller's own timer is shorter than the busy of a flush or an erase",
        "a deadline in software, and the status or DAT0 asked at intervals",
        &[profile("broken-timeout")],
    ),
    entry(
        "B4",
        "The end of busy is announced too early",
        "the status must say ready and tran before the request is done",
        &[once("early_unbusy", Point::Busy, Strike::Hidden)],
    ),
    entry(
        "B5",
        "Erase, trim and sanitize take seconds to minutes",
        "a deadline of their own, then CMD13 for a minute; one that never ends fails alone",
        &[once("erase_slow", Point::Busy, Strike::Late(2_000_000_000)), profile("secure-erase-2s")],
    ),
    entry(
        "B6",
        "The card asks for background work by an exception event",
        "do it when idle, never in the middle of a write",
        &[once("exception_event", Point::Response, Strike::Status(EXCEPTION_EVENT))],
    ),
    entry(
        "B7",
        "The high priority interrupt confuses the card",
        "known cards never get one",
        &[profile("hpi-breaks")],
    ),
    entry(
        "B8",
        "A flush of the cache never ends",
        "a deadline, then the cache stays off for this card, and that is reported",
        &[profile("sd-cache-broken")],
    ),
    entry(
        "B9",
        "The platform's clock wraps, or goes back",
        "times are compared so that neither matters",
        &[campaign("clock_wrap")],
    ),
    entry(
        "B10",
        "A card takes longer to power up than the standard's second; CMD0 or an inquiry in the middle ends it",
        "ACMD41 for five seconds, a millisecond after the inquiry; CMD1 alone, and without an inquiry",
        &[
            test("slow_power_up"),
            quirk("reset_in_power_up", "reset_in_power_up_hangs = true"),
            quirk("inquiry_makes_ready", "inquiry_makes_ready = true"),
            quirk("inquiry_pause", "inquiry_pause_us = 800"),
        ],
    ),
];

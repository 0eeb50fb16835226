//! Chapter G of the catalogue: hostile cards, functions and clients.

use super::{Entry, entry, from, once, test};
use crate::faults::{Point, Strike};

/// All error bits of an R1.
const R1_ERRORS: u32 = 0xfdf9_8080;

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "G1",
        "A CIS that points nowhere, at itself, never ends, or has tuples of impossible lengths",
        "one pass, bounded in tuples, bytes and time; a bad function is refused",
        &[test("hostile_cis")],
    ),
    entry(
        "G2",
        "CSD and EXT_CSD with capacities that overflow, of 0, of everything",
        "checked arithmetic in 64 bits; clamped or refused",
        &[test("hostile_csd")],
    ),
    entry(
        "G3",
        "EXT_CSD with timeouts of 0 or of months, with features it has not",
        "clamped to what is sensible",
        &[test("hostile_ext_csd")],
    ),
    entry(
        "G4",
        "Responses with every error, of another card, operating conditions that are never ready",
        "bounded loops only",
        &[
            from("r1_all_errors", Point::Response, Strike::Status(R1_ERRORS)),
            once("ocr_never_ready", Point::PowerUp, Strike::Never),
        ],
    ),
    entry(
        "G5",
        "A function asks for attention for ever",
        "masked after a number of times without progress",
        &[from("sdio_irq_storm", Point::Function, Strike::Spurious(200))],
    ),
    entry(
        "G6",
        "A function gives fewer or more bytes than it said",
        "the host counts; short is an error",
        &[
            once("function_short", Point::Function, Strike::Astray(-16)),
            once("function_long", Point::Function, Strike::Astray(16)),
        ],
    ),
    entry(
        "G7",
        "A function disappears or falls over after its reset",
        "an error of that function, not the death of the host",
        &[
            once("function_gone", Point::Function, Strike::Lost),
            once("function_error", Point::Function, Strike::Fail),
        ],
    ),
    entry(
        "G8",
        "A card that masters the host's bus: SD Express",
        "never entered; a classic card cannot master the bus",
        &[test("no_sd_express")],
    ),
    entry(
        "G9",
        "RPMB answers that are replayed or forged",
        "key, nonce and counter checked in constant time; no write repeated without the counter",
        &[test("rpmb_forged")],
    ),
    entry(
        "G10",
        "Commands that cannot be undone: firmware, lock, permanent protection, secure erase",
        "behind a capability of its own type, out of reach of the block device",
        &[test("irreversible_commands")],
    ),
    entry(
        "G11",
        "A client of the block device that asks for the impossible",
        "every bound is checked; the client gets an error",
        &[test("hostile_client")],
    ),
];

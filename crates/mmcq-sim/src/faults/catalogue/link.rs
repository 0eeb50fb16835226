//! Chapter A of the catalogue: the lines between controller and card.

use super::{Entry, entry, once, profile, quirk};
use crate::faults::{Point, Strike};

/// Bit 22 of R1: the command is not legal in the card's state.
const ILLEGAL_COMMAND: u32 = 1 << 22;
/// Bit 7 of R1: the card refused a CMD6.
const SWITCH_ERROR: u32 = 1 << 7;

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "A1",
        "The response to a command arrives with a wrong CRC7: the card has obeyed",
        "reset the CMD line, ask for the status before anything is repeated",
        &[once("resp_crc", Point::Response, Strike::Crc)],
    ),
    entry(
        "A2",
        "A command is lost: the card never saw it",
        "reset the CMD line, repeat within the budget",
        &[once("cmd_lost", Point::Command, Strike::Lost)],
    ),
    entry(
        "A3",
        "The response is lost: the card has obeyed",
        "as after a damaged response: the card's state tells what happened",
        &[once("resp_lost", Point::Response, Strike::Lost)],
    ),
    entry(
        "A4",
        "A response with another index or a wrong end bit",
        "reset the CMD line, ask for the status",
        &[
            once("resp_idx", Point::Response, Strike::Index),
            once("resp_end", Point::Response, Strike::EndBit),
        ],
    ),
    entry(
        "A5",
        "The card says that a command is illegal: wrong state, or not supported",
        "no blind repetition: ask for the state, CMD12 if data are still open",
        &[once("cmd_illegal", Point::Response, Strike::Status(ILLEGAL_COMMAND))],
    ),
    entry(
        "A6",
        "A read block arrives with a wrong CRC16",
        "keep the blocks before it, stop, repeat; at last sector by sector",
        &[once("rd_crc", Point::ReadBlock, Strike::Crc)],
    ),
    entry(
        "A7",
        "A written block is refused by its CRC status, or gets none",
        "stop, ask how much was written, resume from there",
        &[
            once("wr_crc", Point::WriteBlock, Strike::Crc),
            once("wr_nostat", Point::WriteBlock, Strike::NoStatus),
            once("wr_lost", Point::WriteBlock, Strike::Lost),
        ],
    ),
    entry(
        "A8",
        "A data line hangs or glitches: end bits and checksums are wrong",
        "tune again, then slower and narrower",
        &[
            once("rd_end", Point::ReadBlock, Strike::EndBit),
            once("wr_end", Point::WriteBlock, Strike::EndBit),
            once("dat_stuck", Point::ReadBlock, Strike::Line(2)),
        ],
    ),
    entry(
        "A9",
        "Data come later than the card's access time, or never",
        "wait as long as the card's class allows, then stop and repeat",
        &[
            once("rd_delay", Point::ReadBlock, Strike::Late(150_000_000)),
            once("rd_lost", Point::ReadBlock, Strike::Lost),
        ],
    ),
    entry(
        "A10",
        "The status that is asked for while the card programs does not yet show the error of that write",
        "collect error bits over all of busy; the request that wrote gets them",
        &[once("deferred_error", Point::Medium, Strike::Fail)],
    ),
    entry(
        "A11",
        "The tuned sampling point drifts away with temperature or voltage",
        "tune again, also by a timer",
        &[once("sample_drift", Point::ReadBlock, Strike::Drift)],
    ),
    entry(
        "A12",
        "Tuning finds no sampling point",
        "take a slower mode; it is no failure of the card",
        &[once("tune_fail", Point::Tuning, Strike::Fail)],
    ),
    entry(
        "A13",
        "The switch to 1.8 V fails: no response, lines not released, regulator does not follow",
        "cycle the power, stay at 3.3 V; a bounded number of times",
        &[
            once("vswitch_fail", Point::Voltage, Strike::Fail),
            once("vswitch_lost", Point::Voltage, Strike::Lost),
            once("vswitch_late", Point::Voltage, Strike::Late(20_000_000)),
        ],
    ),
    entry(
        "A14",
        "A warm reset finds the card still at 1.8 V and without the offer to switch",
        "seen in the card's functions: the host goes to 1.8 V too",
        &[quirk("stuck_1v8", "stuck_1v8 = true")],
    ),
    entry(
        "A15",
        "The way into HS400 breaks off at one of its steps, or there is no strobe",
        "back to HS200, then high speed",
        &[once("hs400_step_fail", Point::Response, Strike::Status(SWITCH_ERROR))],
    ),
    entry(
        "A16",
        "A soldered radio signals at 1.8 V from the beginning, and knows no CMD11",
        "where the lines are fixed at 1.8 V no switch is asked for, and UHS modes are used",
        &[profile("sdio-always-1v8")],
    ),
    entry(
        "A17",
        "The answer to CMD8 echoes the pattern and no supply",
        "the pattern decides; ACMD41 asks for the supply",
        &[quirk("no_supply_echo", "no_supply_echo = true")],
    ),
];

//! Chapter I of the catalogue: a card in SPI mode, on an SPI bus without an SD controller.

use super::{Entry, entry, once, test};
use crate::faults::{Point, Strike};

pub(super) const ENTRIES: &[Entry] = &[
    entry(
        "I1",
        "A bit of what the card hears is wrong: of a frame, a token or a block",
        "checksums are on (CMD59): the card says so, and the command or the block is repeated",
        &[once("spi_flip_di", Point::Exchange, Strike::Flip(3))],
    ),
    entry(
        "I2",
        "A bit of what the card says is wrong: a block has its CRC16, R1 and tokens have nothing",
        "ask for the status before an R1 with errors is believed",
        &[once("spi_flip_do", Point::Exchange, Strike::Flip(11))],
    ),
    entry(
        "I3",
        "The card sees none of the clocks of a byte",
        "as after a lost command or block: chip select goes up, and it is repeated",
        &[once("spi_byte_lost", Point::Exchange, Strike::Lost)],
    ),
    entry(
        "I4",
        "The card sees a clock fewer, or one more: all is shifted by a bit until chip select goes up",
        "chip select goes up after each error, before anything is repeated",
        &[
            once("spi_clock_lost", Point::Exchange, Strike::Astray(1)),
            once("spi_clock_extra", Point::Exchange, Strike::Astray(-1)),
        ],
    ),
    entry(
        "I5",
        "DO is stuck: zeros look like busy and like an R1 without errors, ones like no card",
        "bounded waits; a command is not sent before the line was seen high",
        &[
            once("spi_do_low", Point::Exchange, Strike::Line(0)),
            once("spi_do_high", Point::Exchange, Strike::Line(1)),
        ],
    ),
    entry(
        "I6",
        "The card says nothing more until its supply goes",
        "the deadline of the response, the ladder of recovery, then the card is dead",
        &[once("spi_mute", Point::Exchange, Strike::Never)],
    ),
    entry(
        "I7",
        "The byte after CMD12 looks like a response; the one after the last token of a write is not busy yet",
        "one byte is dropped after each of them",
        &[test("spi_stuff_byte"), test("spi_late_busy")],
    ),
    entry(
        "I8",
        "The end of the selection ends an open transfer, or ends nothing at all",
        "on a shared bus a transfer is closed before chip select goes up",
        &[test("spi_select_ends"), test("spi_select_keeps")],
    ),
    entry(
        "I9",
        "The card was left in the middle of a block or of busy: it takes frames for data, or no frame",
        "ones until the block is full, wait for the end of busy, CMD12, then CMD0 several times",
        &[test("spi_left_in_the_middle")],
    ),
    entry(
        "I10",
        "CMD59 is lost or refused once; the card is busy after CMD55; it needs a byte around its selection",
        "CMD59 is sent again, the line must be high before a command, a byte of ones goes before and after",
        &[test("spi_crc_off"), test("spi_busy_prefix"), test("spi_select_clock"), test("spi_select_ones")],
    ),
];

//! What an oscilloscope at the slot sees: tokens and blocks with their content, and levels.
//!
//! [`BusEvent`](crate::stats::BusEvent) counts and times; a [`Signal`] has what is needed to draw
//! every bit. Signals come when they end, so that those of the CMD line and those of the DAT lines
//! may come a little out of the order of their starts.

use crate::card::{Answer, BusState};

/// Something on a line between controller and card, or on the interrupt line. Times are absolute
/// virtual nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal<'a> {
    /// The host drives the bus in another way from now on.
    Bus {
        /// When.
        at_ns: u64,
        /// How.
        bus: BusState,
        /// The card holds CMD and DAT0 to DAT3 low, in a voltage switch.
        low: bool,
    },
    /// A command token.
    Command {
        /// Its index.
        index: u8,
        /// Its argument.
        arg: u32,
        /// The controller sent it by itself.
        auto: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// A response token that the controller saw.
    Response {
        /// Index of the command.
        command: u8,
        /// Its content.
        answer: Answer,
        /// Its CRC7, if it has one, is right.
        crc_ok: bool,
        /// Its end bit is right.
        end_ok: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// A data block.
    Block {
        /// From the card.
        read: bool,
        /// Its content.
        data: &'a [u8],
        /// Its CRC16 are right.
        crc_ok: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit, or where an abort command cut it off.
        end_ns: u64,
        /// An abort command cut it off.
        cut: bool,
    },
    /// The CRC status token after a written block: five bits.
    CrcStatus {
        /// 010 (good), not 101.
        good: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// The card holds DAT0 low.
    Busy {
        /// From here.
        from_ns: u64,
        /// To here; `u64::MAX` when it never lets go.
        until_ns: u64,
    },
    /// The controller stopped the clock between two blocks of a read.
    ClockStopped {
        /// From here.
        from_ns: u64,
        /// To here.
        until_ns: u64,
    },
    /// The interrupt line changed.
    Interrupt {
        /// When.
        at_ns: u64,
        /// High now.
        level: bool,
    },
}

/// What looks.
pub type Probe = Box<dyn FnMut(&Signal<'_>)>;

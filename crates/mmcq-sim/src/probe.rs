//! Probe at the slot, like an oscilloscope: tokens and blocks with their content, and levels.
//!
//! [`BusEvent`](crate::stats::BusEvent) has counts and times; a [`Signal`] has what is needed to
//! draw every bit. A signal is reported when it ends. So the signals of the CMD line and those of
//! the DAT lines may come slightly out of the order of their starts.

use crate::card::{Answer, BusState};

/// Something on a line between controller and card, or on the interrupt line. Times are absolute
/// virtual nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal<'a> {
    /// The host changes the state of the bus.
    Bus {
        /// Time of the change.
        at_ns: u64,
        /// New state of the bus.
        bus: BusState,
        /// Whether the card holds CMD and DAT0 to DAT3 low, in a voltage switch.
        low: bool,
    },
    /// A command token.
    Command {
        /// Its index.
        index: u8,
        /// Its argument.
        arg: u32,
        /// Whether the controller sent it by itself.
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
        /// Whether its CRC7, if it has one, is right.
        crc_ok: bool,
        /// Whether its end bit is right.
        end_ok: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// A data block.
    Block {
        /// Whether it comes from the card.
        read: bool,
        /// Its content.
        data: &'a [u8],
        /// Whether its CRC16 are right.
        crc_ok: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit, or where an abort command cut it off.
        end_ns: u64,
        /// Whether an abort command cut it off.
        cut: bool,
    },
    /// The CRC status token after a written block: five bits.
    CrcStatus {
        /// Whether it is 010 (good), not 101.
        good: bool,
        /// Its start bit.
        start_ns: u64,
        /// Its end bit.
        end_ns: u64,
    },
    /// The card holds DAT0 low.
    Busy {
        /// Begin in ns.
        from_ns: u64,
        /// End in ns; `u64::MAX` if the card never releases DAT0.
        until_ns: u64,
    },
    /// The controller stopped the clock between two blocks of a read.
    ClockStopped {
        /// Begin in ns.
        from_ns: u64,
        /// End in ns.
        until_ns: u64,
    },
    /// The interrupt line changed.
    Interrupt {
        /// Time of the change.
        at_ns: u64,
        /// New level; true is high.
        level: bool,
    },
}

/// A function that receives every signal.
pub type Probe = Box<dyn FnMut(&Signal<'_>)>;

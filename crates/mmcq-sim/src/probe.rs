//! A probe at the slot, like an oscilloscope: it sees commands, responses and blocks with their
//! content, and levels.
//!
//! A [`BusEvent`](crate::stats::BusEvent) has counts and times; a [`Signal`] has all that is needed
//! to draw every bit. A signal is reported when it ends. So signals of the CMD line and of the DAT
//! lines may come slightly out of the order of their starts.

use crate::card::{Answer, BusState};

/// What happens on a line between controller and card, or on the interrupt line. Times are absolute
/// virtual ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Signal<'a> {
    /// The host changes the state of the bus.
    Bus {
        /// Time in ns at which the host changed the state of the bus.
        at_ns: u64,
        /// New state of the bus.
        bus: BusState,
        /// Whether the card holds CMD and DAT3 to DAT0 low, as it does in a voltage switch.
        low: bool,
    },
    /// A command on the CMD line.
    Command {
        /// Index of the command.
        index: u8,
        /// Argument of the command.
        arg: u32,
        /// Whether the controller sent the command by itself.
        auto: bool,
        /// Time of the command's start bit in ns.
        start_ns: u64,
        /// Time of the command's end bit in ns.
        end_ns: u64,
    },
    /// A response that the controller saw.
    Response {
        /// Index of the command that the response belongs to.
        command: u8,
        /// Content of the response.
        answer: Answer,
        /// Whether the CRC7 of the response is right, if it has one.
        crc_ok: bool,
        /// Whether the end bit of the response is right.
        end_ok: bool,
        /// Time of the response's start bit in ns.
        start_ns: u64,
        /// Time of the response's end bit in ns.
        end_ns: u64,
    },
    /// A data block on the DAT lines.
    Block {
        /// Whether the block comes from the card.
        read: bool,
        /// Content of the block.
        data: &'a [u8],
        /// Whether the CRC16 is right on all lines.
        crc_ok: bool,
        /// Time of the block's start bit in ns.
        start_ns: u64,
        /// Time in ns of the block's end bit, or of the abort command that cut it off.
        end_ns: u64,
        /// Whether an abort command cut off the block.
        cut: bool,
    },
    /// The CRC status after a written block: five bits on DAT0.
    CrcStatus {
        /// Whether the status is 010 (good); otherwise it is 101 (CRC error).
        good: bool,
        /// Time of the status' start bit in ns.
        start_ns: u64,
        /// Time in ns of the end bit of the CRC status.
        end_ns: u64,
    },
    /// The card holds DAT0 low (busy).
    Busy {
        /// Time in ns at which busy begins.
        from_ns: u64,
        /// Time in ns at which busy ends; `u64::MAX` if the card never releases DAT0.
        until_ns: u64,
    },
    /// The controller stopped the clock between two blocks of a read.
    ClockStopped {
        /// Time in ns at which the clock stops.
        from_ns: u64,
        /// Time in ns at which the card's clock runs again after it was stopped.
        until_ns: u64,
    },
    /// The level of the interrupt line changed.
    Interrupt {
        /// Time of the change in ns.
        at_ns: u64,
        /// New level; true is high.
        level: bool,
    },
}

/// A function that receives every signal.
pub type Probe = Box<dyn FnMut(&Signal<'_>)>;

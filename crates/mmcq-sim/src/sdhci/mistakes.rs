//! Mistakes of real controllers, each as one switch of the model.

use serde::{Deserialize, Serialize};

/// Departures from the standard; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mistakes {
    /// Every ADMA2 transfer ends in an ADMA error.
    pub adma_fails: bool,
    /// 64-bit descriptors are read as if they were 32-bit ones, 8 bytes each.
    pub wide_descriptors_short: bool,
    /// A descriptor of length 0 transfers nothing, instead of 64 KiB.
    pub zero_length_moves_nothing: bool,
    /// DMA transfers multiples of 4 bytes; the rest is lost.
    pub odd_bytes_lost: bool,
    /// After a change of clock, width or edges no command is sent until a reset of the CMD circuit.
    pub change_hangs_lines: bool,
    /// Delay in ns of the buffer's ready bits in the present state after their interrupt.
    pub buffer_late_ns: u64,
    /// The automatic CMD23 is not sent; its main command is.
    pub auto_count_missing: bool,
    /// A CMD23 is not sent, and only a reset of the CMD circuit ends it.
    pub count_hangs: bool,
    /// Delay in ns after which an abort command without busy raises a Transfer Complete of its own;
    /// 0: it does not.
    pub stop_completes_after_ns: u64,
    /// With High Speed Enable set, data are sampled at the wrong edge.
    pub high_speed_breaks_reads: bool,
    /// The capabilities (40h, 44h) read as 0.
    pub capabilities_hidden: bool,
    /// Number of data lines connected on the board; 0: all.
    pub lines_wired: u8,
    /// A reset ends only if Clock Control was written, with the internal clock on, after the last
    /// command.
    pub reset_needs_clock: bool,
    /// A new SDMA address is ignored while a transfer is under way, as on QEMU.
    pub sdma_address_ignored: bool,
    /// A request to stop at a block gap is ignored while the lines already stand at one.
    pub gap_unnoticed: bool,
    /// Data are transferred only with commands that also start a transfer on the card; other data
    /// commands are answered, and wait.
    pub carried_data_stay: bool,
}

impl Mistakes {
    /// No mistakes: the controller follows the standard.
    pub const NONE: Mistakes = Mistakes {
        adma_fails: false,
        wide_descriptors_short: false,
        zero_length_moves_nothing: false,
        odd_bytes_lost: false,
        change_hangs_lines: false,
        buffer_late_ns: 0,
        auto_count_missing: false,
        count_hangs: false,
        stop_completes_after_ns: 0,
        high_speed_breaks_reads: false,
        capabilities_hidden: false,
        lines_wired: 0,
        reset_needs_clock: false,
        sdma_address_ignored: false,
        gap_unnoticed: false,
        carried_data_stay: false,
    };
}

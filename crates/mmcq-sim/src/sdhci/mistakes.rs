//! Mistakes of real SDHCI controllers; each is a switch of the model.

use serde::{Deserialize, Serialize};

/// Ways in which a controller violates the standard; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mistakes {
    /// Every ADMA2 transfer ends in an ADMA error.
    pub adma_fails: bool,
    /// The controller reads 64-bit descriptors as 32-bit descriptors of 8 bytes.
    pub wide_descriptors_short: bool,
    /// A descriptor of length 0 moves nothing, instead of 64 KiB.
    pub zero_length_moves_nothing: bool,
    /// DMA moves whole words of 4 bytes, and loses the last bytes of an odd length.
    pub odd_bytes_lost: bool,
    /// True: after a change of clock, width or data rate the controller sends no command until the
    /// driver resets the CMD circuit.
    pub change_hangs_lines: bool,
    /// Delay in ns of the buffer ready bits in the Present State register after their interrupt.
    pub buffer_late_ns: u64,
    /// True: the controller does not send the automatic CMD23, but sends the main command.
    pub auto_count_missing: bool,
    /// True: the controller never sends a CMD23 that it was given; only a reset of the CMD circuit
    /// ends the command.
    pub count_hangs: bool,
    /// Delay in ns after which an abort command without busy raises a second Transfer Complete; 0:
    /// no second one.
    pub stop_completes_after_ns: u64,
    /// True: with High Speed Enable set, the controller samples data at the wrong clock edge.
    pub high_speed_breaks_reads: bool,
    /// The capabilities registers (40h and 44h) read as 0, so that the driver cannot read what the
    /// controller supports.
    pub capabilities_hidden: bool,
    /// The Present State register never shows a card, and no interrupt reports one. The controller
    /// supplies the card all the same.
    pub card_unseen: bool,
    /// The Power Control register has no function and reads as 0; the board supplies the card.
    pub power_unused: bool,
    /// Number of data lines that the board connects; 0: all.
    pub lines_wired: u8,
    /// A software reset ends only if the driver has written Clock Control, with the internal clock
    /// on, since the last command.
    pub reset_needs_clock: bool,
    /// The controller ignores a new SDMA address while a transfer is under way, as QEMU does.
    pub sdma_address_ignored: bool,
    /// True: the controller ignores a request to stop at a block gap while the lines already wait
    /// at one.
    pub gap_unnoticed: bool,
    /// The controller moves data only with commands that start a transfer on the card. Another
    /// command with data (such as a CMD13 that carries blocks of an open write) gets its response,
    /// but its data never move.
    pub carried_data_stay: bool,
    /// True: the controller loses the data of commands that normally have none, such as a CMD13
    /// that carries blocks of an open write. It starts no transfer on the card for them, reports
    /// the data as sent and drops them, as QEMU does.
    pub carried_data_lost: bool,
    /// The first block after a stop of SDMA at a boundary is lost: in a read this block does not
    /// reach memory, and in a write the block after it is sent in its place.
    pub boundary_block_lost: bool,
    /// The first block after a stop of SDMA at a boundary has the data of the block before the
    /// stop.
    pub boundary_block_repeated: bool,
    /// The DMA Interrupt of a read comes one block too early: when the last block before the
    /// boundary is not in memory yet.
    pub boundary_told_early: bool,
}

impl Mistakes {
    /// A controller without mistakes.
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
        card_unseen: false,
        power_unused: false,
        lines_wired: 0,
        reset_needs_clock: false,
        sdma_address_ignored: false,
        gap_unnoticed: false,
        carried_data_stay: false,
        carried_data_lost: false,
        boundary_block_lost: false,
        boundary_block_repeated: false,
        boundary_told_early: false,
    };
}

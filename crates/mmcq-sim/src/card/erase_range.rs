//! Block range that an erase will use. CMD32 and CMD33 set it on an SD card, CMD35 and CMD36 on an
//! eMMC.

use super::status;

/// Byte addresses of the first and the last block of the range.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EraseRange {
    pub start: Option<u64>,
    pub end: Option<u64>,
}

impl EraseRange {
    /// Handles the command that sets the start (`is_start`) or the end of the range to byte `at`;
    /// `capacity` is that of the card in bytes. Returns the error bits of the command in R1; after
    /// an error no range is selected.
    pub fn edge(&mut self, is_start: bool, at: u64, capacity: u64) -> u32 {
        let out_of_order = !is_start && (self.start.is_none() || self.end.is_some());
        let errors = match (at >= capacity, out_of_order) {
            (true, _) => status::OUT_OF_RANGE,
            (false, true) => status::ERASE_SEQ_ERROR,
            (false, false) => 0,
        };
        if errors != 0 {
            *self = EraseRange::default();
        } else if is_start {
            *self = EraseRange { start: Some(at), end: None };
        } else {
            self.end = Some(at);
        }
        errors
    }
}

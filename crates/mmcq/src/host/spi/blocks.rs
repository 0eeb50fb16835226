//! The blocks of a phase with data, as the bus transfers them.

use crate::host::pio::Cursor;
use crate::host::{Data, Segment, StartError};

/// The blocks that are still to transfer for the phase (the command) in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    pub data: Data,
    /// Number of blocks that are left, including the block in progress.
    pub left: u32,
    /// Bytes that are still missing of the block in progress.
    pub rest_bytes: u32,
    pub cursor: Cursor,
    pub crc: u16,
}

impl Blocks {
    /// Returns the blocks to transfer, or an error; each block must lie in one segment.
    pub fn of(data: Data, segments: &[Segment]) -> Result<Blocks, StartError> {
        let size = u32::from(data.block_size);
        let bytes =
            data.blocks.checked_mul(size).filter(|&bytes| bytes > 0).ok_or(StartError::Unsupported)?;
        let given = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.len));
        let whole = |segment: &Segment| segment.len > 0 && segment.len.is_multiple_of(size);
        if given < bytes || segments.len() > 1 && !segments.iter().all(whole) {
            return Err(StartError::Unsupported);
        }
        Ok(Blocks { data, left: data.blocks, rest_bytes: 0, cursor: Cursor::default(), crc: 0 })
    }
}

//! Splits I/Os that are longer than the largest request, as the block layer does.

use super::elevator::Elevator;
use crate::system::{Io, System};
use std::collections::BTreeMap;

/// An I/O of which not all pieces are complete.
struct Whole {
    io: Io,
    left: u32,
    /// Whether all parts of the I/O that are complete so far have succeeded.
    ok: bool,
}

/// I/Os that were split, each under the number of its buffer.
#[derive(Default)]
pub(super) struct Split(BTreeMap<u32, Whole>);

impl Split {
    /// Inserts an I/O into the scheduler; splits it into pieces if it is longer than the largest
    /// request. Returns true if at least one piece became a new request, of which the driver must
    /// be notified.
    pub(super) fn insert(&mut self, elevator: &mut Elevator, io: Io, now_ns: u64) -> bool {
        let max_blocks = elevator.max_blocks();
        if io.blocks > max_blocks {
            self.0.insert(io.buffer, Whole { io, left: io.blocks.div_ceil(max_blocks), ok: true });
        }
        let mut fresh = false;
        for skip in (0..io.blocks).step_by(max_blocks as usize) {
            let blocks = (io.blocks - skip).min(max_blocks);
            let piece = Io { lba: io.lba + u64::from(skip), blocks, skip: io.skip + skip, ..io };
            fresh |= elevator.insert(piece, now_ns);
        }
        fresh
    }

    /// Returns whether this I/O is a piece of a longer I/O that was split.
    pub(super) fn is_piece(&self, io: &Io) -> bool {
        self.0.contains_key(&io.buffer)
    }

    /// Handles the end of an I/O or of a piece; `ok`: it succeeded. An I/O that was split completes
    /// for its job with its last piece, and succeeds if all its pieces did.
    pub(super) fn complete(&mut self, sys: &mut System, io: Io, ok: bool) {
        let Some(whole) = self.0.get_mut(&io.buffer) else { return sys.complete(io, ok) };
        whole.left -= 1;
        whole.ok &= ok;
        if whole.left == 0 {
            sys.complete(whole.io, whole.ok);
            self.0.remove(&io.buffer);
        }
    }
}

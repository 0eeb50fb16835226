//! Blocks that a pass has written and that the verify phase will read.

use super::{How, Io};
use crate::fio::job::Dir;
use crate::fio::verify::Stamp;
use std::collections::{BTreeMap, VecDeque};

/// Blocks that a worker has written since the beginning of its pass (one time through its `size=`).
/// With a random map, no block is written twice, and blocks stay in the order of writing. Otherwise
/// they are sorted, and a later write replaces the blocks that it overlaps.
#[derive(Debug)]
pub(super) enum Written {
    Ordered(VecDeque<(usize, u64, u64, Stamp)>),
    Sorted(BTreeMap<(usize, u64), (u64, Stamp)>),
}

impl Written {
    pub(super) fn new(ordered: bool) -> Self {
        if ordered { Written::Ordered(VecDeque::new()) } else { Written::Sorted(BTreeMap::new()) }
    }

    pub(super) fn add(&mut self, file: usize, offset: u64, bytes: u64, stamp: Stamp) {
        match self {
            Written::Ordered(list) => list.push_back((file, offset, bytes, stamp)),
            Written::Sorted(map) => {
                let end = offset.saturating_add(bytes);
                // Entries do not overlap, so the loop ends at the first that ends before the new
                // one begins.
                while let Some((&key, &(len, _))) = map.range((file, 0)..(file, end)).next_back() {
                    if key.1.saturating_add(len) <= offset {
                        break;
                    }
                    map.remove(&key);
                }
                map.insert((file, offset), (bytes, stamp));
            }
        }
    }

    /// Removes the block at `offset` in the file with the index `file`, since its write failed.
    pub(super) fn remove(&mut self, file: usize, offset: u64) {
        match self {
            Written::Ordered(list) => {
                if let Some(at) = list.iter().rposition(|(f, o, _, _)| (*f, *o) == (file, offset)) {
                    list.remove(at);
                }
            }
            Written::Sorted(map) => {
                map.remove(&(file, offset));
            }
        }
    }

    pub(super) fn pop(&mut self) -> Option<Io> {
        let (file, offset, bytes, stamp) = match self {
            Written::Ordered(list) => list.pop_front()?,
            Written::Sorted(map) => {
                let ((file, offset), (bytes, stamp)) = map.pop_first()?;
                (file, offset, bytes, stamp)
            }
        };
        Some(Io {
            dir: Dir::Read,
            how: How::Plain,
            file,
            offset,
            bytes,
            stamp: Some(stamp),
            check: true,
            entry: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Written::Ordered(list) => list.len(),
            Written::Sorted(map) => map.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Written::Ordered(list) => list.is_empty(),
            Written::Sorted(map) => map.is_empty(),
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Written::Ordered(list) => list.clear(),
            Written::Sorted(map) => map.clear(),
        }
    }
}

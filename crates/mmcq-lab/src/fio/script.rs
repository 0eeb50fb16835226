//! A worker whose requests come from a list (a script), not from a job's options.

mod entries;

pub use entries::Entries;

use super::error::{ParseError, Place};
use std::sync::Arc;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads data from the card.
    Read,
    /// Writes data to the card.
    Write,
    /// Writes data; complete only when they are on the medium.
    WriteDurable,
    /// Flushes the card's cache.
    Flush,
    /// Discards blocks: the card need not keep their content.
    Discard,
}

/// Way in which the stack does a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// An ordinary read or write.
    #[default]
    Plain,
    /// A write that is complete only when its data are on the medium.
    Durable,
    /// A discard: no data are transferred, and the blocks need not keep their content.
    Discard,
    /// A read of a boot area of an eMMC; the field is the number of the area, 1 or 2.
    Boot(u8),
}

/// Time at which a request of a script may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The request may start as soon as the depth of the job allows it.
    AtOnce,
    /// The request may start at this time in ns after the start of the run.
    At(u64),
    /// The request may start this time in ns after the start of the previous request.
    AfterStart(u64),
    /// The request may start some time after the end of another request. The first field is the
    /// index of that request in the list, the second is the time in ns.
    AfterEnd(u32, u64),
}

/// A request of a script (a list of requests to replay).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Operation of the request.
    pub op: Op,
    /// Offset in bytes of the request's first byte, in the address space of the load.
    pub offset: u64,
    /// Length of the request in bytes; 0 for a flush.
    pub bytes: u64,
    /// Time at which the request may start.
    pub when: When,
    /// Ideal start in ns after the start of the run; the lateness of the request is counted from
    /// it. `None`: the load does not follow the trace's times.
    pub due: Option<u64>,
}

/// Mapping of the load's addresses to a card whose size is not that of the recorded device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remap {
    /// The load must fit on the card; otherwise the load is refused.
    #[default]
    Refuse,
    /// Addresses beyond the card's end continue at its start.
    Modulo,
    /// Addresses scale to the size of the card, in pieces of 1 MiB.
    Scale,
}

impl Remap {
    /// Returns the name of the mapping in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Remap::Refuse => "refuse",
            Remap::Modulo => "modulo",
            Remap::Scale => "scale",
        }
    }
}

impl std::str::FromStr for Remap {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Remap::Refuse, Remap::Modulo, Remap::Scale];
        all.into_iter()
            .find(|r| r.name() == name)
            .ok_or_else(|| "expected refuse, modulo or scale".to_owned())
    }
}

/// The list of requests of one worker.
#[derive(Clone, Debug)]
pub struct Script {
    /// Requests in the order in which they start.
    pub entries: Arc<Entries>,
    /// Number of the program that made each request; empty if programs are not known.
    pub programs: Arc<[u16]>,
    /// Offset in bytes at which the address range that the load uses ends, and the place in the
    /// trace of the request that reaches this end.
    pub extent: (u64, Place),
    /// How the load's address space is mapped to the card.
    pub remap: Remap,
}

/// Size in bytes of the pieces of the address space that [`Remap::Scale`] moves as a whole.
const PIECE_BYTES: u64 = 1 << 20;

impl Script {
    /// Returns the number of bytes that all requests of the script read and write.
    pub fn bytes(&self) -> u64 {
        let moves = |entry: &Entry| !matches!(entry.op, Op::Flush | Op::Discard);
        self.entries.iter().filter(moves).map(|entry| entry.bytes).sum()
    }

    /// Returns the size in bytes of the script's largest read or write, at least 512.
    pub fn max_bytes(&self) -> u64 {
        let moves = |entry: &Entry| entry.op != Op::Discard;
        self.entries.iter().filter(moves).map(|entry| entry.bytes).max().unwrap_or(0).max(512)
    }

    /// Returns whether the script has requests with this operation.
    pub fn has(&self, op: Op) -> bool {
        self.entries.iter().any(|entry| entry.op == op)
    }

    /// Checks that the load fits on a card of this size in bytes.
    ///
    /// # Errors
    /// The load is larger than the card, and [`Remap::Refuse`] forbids to move its addresses; or a
    /// single request is larger than the card.
    pub fn fit(&self, capacity: u64) -> Result<(), ParseError> {
        let (end, place) = &self.extent;
        if self.remap == Remap::Refuse && *end > capacity {
            return Err(ParseError::new(
                place,
                format!(
                    "it ends at byte {end}, and the card has {capacity}; expected --remap modulo or scale, or a larger card"
                ),
            ));
        }
        match Some(self.max_bytes()).filter(|bytes| *bytes > capacity) {
            Some(bytes) => {
                Err(ParseError::new(place, format!("a request of {bytes} bytes: the card has {capacity}")))
            }
            None => Ok(()),
        }
    }

    /// Returns where a request lies on a card of `capacity` bytes: the offset of its first byte,
    /// and its length, both in bytes.
    pub(super) fn place(&self, entry: &Entry, capacity: u64) -> (u64, u64) {
        let bytes = entry.bytes.min(capacity);
        let offset = match self.remap {
            Remap::Refuse => entry.offset,
            Remap::Modulo => entry.offset % capacity.max(1),
            Remap::Scale => {
                let pieces = |bytes: u64| u128::from(bytes.div_ceil(PIECE_BYTES).max(1));
                let (have, want) = (pieces(self.extent.0), pieces(capacity));
                let piece = u128::from(entry.offset / PIECE_BYTES) * want / have;
                piece as u64 * PIECE_BYTES + entry.offset % PIECE_BYTES
            }
        };
        (offset.min(capacity - bytes), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(remap: Remap, end: u64) -> Script {
        Script {
            entries: Arc::default(),
            programs: Arc::default(),
            extent: (end, Place::Whole("t".to_owned())),
            remap,
        }
    }

    fn entry(offset: u64) -> Entry {
        Entry { op: Op::Read, offset, bytes: 4096, when: When::AtOnce, due: None }
    }

    #[test]
    fn what_is_beyond_the_end_goes_on_at_the_begin() {
        let script = script(Remap::Modulo, 1 << 40);
        assert_eq!(script.place(&entry((3 << 30) + 8192), 1 << 30), (8192, 4096));
        assert_eq!(
            script.place(&entry((1 << 30) - 512), 1 << 30),
            ((1 << 30) - 4096, 4096),
            "at the very end"
        );
    }

    #[test]
    fn scaling_spreads_pieces_and_keeps_them_whole() {
        let small = script(Remap::Scale, 8 << 20);
        assert_eq!(small.place(&entry((1 << 20) + 512), 32 << 20), ((4 << 20) + 512, 4096));
        let large = script(Remap::Scale, 32 << 20);
        assert_eq!(large.place(&entry((31 << 20) + 512), 8 << 20), ((7 << 20) + 512, 4096));
        assert!(large.fit(8 << 20).is_ok());
    }

    #[test]
    fn a_load_that_does_not_fit_is_refused_with_its_place() {
        let error = script(Remap::Refuse, 4096).fit(512).unwrap_err().to_string();
        assert!(error.starts_with("t: it ends at byte 4096, and the card has 512"), "{error}");
    }
}

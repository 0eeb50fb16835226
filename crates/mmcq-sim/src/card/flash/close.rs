//! Write commands that end only when all of their data are in the flash.
//!
//! Blocks go into the cache one by one. The flash programs in the background at
//! [`super::Timing::drain_bytes_per_s`], also while the host pauses. When the cache is full, the
//! card is busy between blocks. The end of the command (CMD12, the last block of a count, CMD24)
//! waits until the cache is empty and then takes [`Close::close_ns`]. A write that continues in an
//! open transfer does not pay that time.
//!
//! A *run* is a sequence of write commands in which each command begins where the one before ended.
//! Ending a command takes [`Reopen::reopen_ns`] more if its run already had
//! [`Reopen::from_bytes`] bytes or more when the command began.
//!
//! The first [`Gc::run_bytes`] of each run count as not sequential. The card stalls once for
//! garbage collection in every [`Gc::every_bytes`] of such bytes. The place of the stall among
//! these bytes follows from the golden ratio: it is the same in each execution of the model, but
//! the distances between the places vary. The write command that passes such a place is busy for
//! [`Gc::stall_ns`] longer.
//!
//! With [`Close::volatile`] a power loss loses the newest blocks, which are still in the cache.
//! Their sectors then read as before the write.

use std::collections::VecDeque;

use super::super::medium::Medium;
use super::Flash;

/// Times that the card needs at the end of a write command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Busy time in ns at the end of a write command, after all its data are in the flash.
    pub close_ns: u64,
    /// Extra busy time at the end of a write command that continues a long sequence of contiguous
    /// writes; `None`: no extra time.
    pub reopen: Option<Reopen>,
    /// Stalls of writes for garbage collection; `None`: no stalls.
    pub gc: Option<Gc>,
    /// Whether a power loss loses the data that are in the cache and not yet in the flash.
    pub volatile: bool,
}

/// Extra busy time for ending a write command in the middle of a long series of contiguous writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reopen {
    /// Extra busy time in ns at the end of a write command that continues a long sequence of
    /// consecutive writes.
    pub reopen_ns: u64,
    /// Length in bytes from which on a run of contiguous writes counts as long. The extra time
    /// applies if the run had this length before the command began.
    pub from_bytes: u64,
}

/// Garbage collection, which stalls writes that are not sequential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gc {
    /// Number of bytes at the beginning of each series of contiguous writes that count as not
    /// sequential.
    pub run_bytes: u64,
    /// Distance of two stalls in bytes: one stall occurs in each stretch of this many written bytes
    /// that do not count as sequential.
    pub every_bytes: u64,
    /// Length of a stall in ns.
    pub stall_ns: u64,
}

impl Gc {
    /// Returns the number of bytes written not sequentially after which the garbage collection
    /// stall with number `index` (from 0) comes.
    fn due_bytes(&self, index: u64) -> u64 {
        // 2^64 / golden ratio: its multiples spread evenly over the stretch.
        let place = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let offset = (u128::from(self.every_bytes) * u128::from(place)) >> 64;
        self.every_bytes.saturating_mul(index).saturating_add(offset as u64)
    }
}

/// What decides the time of the next write command: the sequence of consecutive writes to which the
/// last command belongs, and the number of garbage collection stalls so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Byte address directly after the last block of the last write command; `None`: there was
    /// none.
    end: Option<u64>,
    /// Length in bytes of the sequential run of write commands to which the last one belongs.
    bytes: u64,
    /// Number of written bytes so far that count as not sequential: of each series of contiguous
    /// writes the first [`Gc::run_bytes`] bytes.
    scattered: u64,
    /// Number of garbage collection stalls so far.
    stalls: u64,
}

impl Runs {
    pub(super) fn forget_place(&mut self) {
        self.end = None;
    }

    /// Records a write command of `bytes` bytes at byte address `at`. Returns how long in ns the
    /// card stays busy after all data are in the flash.
    fn close(&mut self, close: &Close, at: u64, bytes: u64) -> u64 {
        let before = if self.end == Some(at) { self.bytes } else { 0 };
        self.end = at.checked_add(bytes);
        self.bytes = before.saturating_add(bytes);
        let mut busy_ns = close.close_ns;
        if let Some(reopen) = close.reopen
            && before > 0
            && before >= reopen.from_bytes
        {
            busy_ns = busy_ns.saturating_add(reopen.reopen_ns);
        }
        if let Some(gc) = close.gc {
            self.scattered = self
                .scattered
                .saturating_add(self.bytes.min(gc.run_bytes))
                .saturating_sub(before.min(gc.run_bytes));
            while gc.due_bytes(self.stalls) < self.scattered {
                self.stalls += 1;
                busy_ns = busy_ns.saturating_add(gc.stall_ns);
            }
        }
        busy_ns
    }
}

/// A written block that is possibly not in the flash yet, and its content before the write.
#[derive(Clone, Debug)]
struct Before {
    at: u64,
    bytes: Box<[u8]>,
}

/// The newest written blocks, which are possibly not in the flash yet, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Unprogrammed {
    blocks: VecDeque<Before>,
    bytes: u64,
}

impl Unprogrammed {
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
    }

    fn push(&mut self, before: Before) {
        self.bytes += before.bytes.len() as u64;
        self.blocks.push_back(before);
    }

    /// Removes the oldest blocks from this list, since they are in the flash and a power cut cannot
    /// lose them. The newest `cached_bytes` bytes stay in the list.
    fn keep(&mut self, cached_bytes: u64) {
        while let Some(oldest) = self.blocks.front()
            && self.bytes - oldest.bytes.len() as u64 >= cached_bytes
        {
            self.bytes -= oldest.bytes.len() as u64;
            self.blocks.pop_front();
        }
    }

    /// Restores the old content of the newest `cached_bytes`, which the cache has lost.
    pub(super) fn undo(&mut self, medium: &mut Medium, cached_bytes: u64) {
        self.keep(cached_bytes);
        while let Some(newest) = self.blocks.pop_back() {
            // The card has no power, so that a failure cannot be reported to the host.
            let _ = medium.write(newest.at, &newest.bytes);
        }
        let _ = medium.commit();
        self.bytes = 0;
    }
}

impl Flash {
    /// Returns the `len` bytes at byte address `at` as they are before a write, if a power loss may
    /// have to restore them; otherwise `None`.
    pub(crate) fn before(
        &self,
        medium: &mut Medium,
        at: u64,
        len: usize,
    ) -> std::io::Result<Option<Box<[u8]>>> {
        if !self.timing.close.is_some_and(|close| close.volatile) {
            return Ok(None);
        }
        let mut bytes = vec![0; len].into_boxed_slice();
        medium.read(at, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Takes a block of an open write (a CMD25 that has not ended) into the cache: `len` bytes for
    /// byte address `at`, with the content `before` that a power cut may bring back. Returns the
    /// time in ns at which the cache had room for the block.
    pub(crate) fn take(&mut self, at: u64, len: u64, before: Option<Box<[u8]>>, now_ns: u64) -> u64 {
        let room_ns = self.make_room(now_ns, len);
        if let Some(bytes) = before {
            self.unprogrammed.push(Before { at, bytes });
            let cached = self.cached_bytes(now_ns);
            self.unprogrammed.keep(cached);
        }
        room_ns
    }

    /// Ends a write command, which has written `bytes` bytes from byte address `at` on. Returns the
    /// end of busy in ns.
    pub(crate) fn close(&mut self, close: &Close, at: u64, bytes: u64, now_ns: u64) -> u64 {
        self.drained_ns(now_ns).saturating_add(self.runs.close(close, at, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn stalls_come_as_often_as_they_should_but_not_in_step() {
        let gc = Gc { run_bytes: MIB, every_bytes: MIB * 15 + MIB * 15 / 100, stall_ns: 39 };
        let close = Close { close_ns: 0, reopen: None, gc: Some(gc), volatile: false };
        let mut runs = Runs::default();
        let at: Vec<u64> = (0..6060).filter(|n| runs.close(&close, n * 7 * MIB, MIB) == 39).collect();
        assert_eq!(at.len(), 400);
        let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (5..=26).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().any(|gap| *gap < 10) && gaps.iter().any(|gap| *gap > 20));
    }

    #[test]
    fn only_the_beginning_of_a_run_counts() {
        let gc = Gc { run_bytes: MIB, every_bytes: MIB, stall_ns: 1 };
        let close = Close { close_ns: 0, reopen: None, gc: Some(gc), volatile: false };
        let mut runs = Runs::default();
        let stalls: u64 = (0..100).map(|n| runs.close(&close, n * MIB / 4, MIB / 4)).sum();
        assert_eq!((stalls, runs.scattered), (1, MIB));
        // In one long command the same stalls come.
        assert_eq!(runs.close(&close, 500 * MIB, 100 * MIB), 1);
        assert_eq!(runs.scattered, 2 * MIB);
    }

    #[test]
    fn several_stalls_fall_into_one_command() {
        let gc = Gc { run_bytes: 100 * MIB, every_bytes: 10 * MIB, stall_ns: 1000 };
        let close = Close { close_ns: 5, reopen: None, gc: Some(gc), volatile: false };
        assert_eq!(Runs::default().close(&close, 0, 100 * MIB), 10_005);
    }
}

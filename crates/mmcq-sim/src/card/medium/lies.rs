//! State of the planted bugs ([`crate::plant`]) that make a medium return or store wrong data.

use super::{Backing, Medium, SECTOR_BYTES};
use crate::plant::{self, Lie};
use std::collections::BTreeMap;

const SECTOR: usize = SECTOR_BYTES as usize;
/// Distance in bytes between a write and the false second write of
/// [`Lie::WritesFar`](crate::plant::Lie::WritesFar).
const FAR_BYTES: u64 = 1 << 20;
/// For planted bugs that act later: the number of commands after a failed write at which its data
/// appear or vanish.
const LATER: u64 = 12;

type Sector = [u8; SECTOR];

/// State of a card's planted bugs, which tests use to see whether a checker finds them, by sector
/// number.
#[derive(Debug, Default)]
pub(super) struct Lies {
    commands: u64,
    /// Data of writes that the card reported as failed, by sector. A repeated write of the same
    /// data fails again.
    failing: BTreeMap<u64, Sector>,
    /// Sectors of failed writes, for the planted bugs that change such a sector later. With
    /// `FailedFlips` the content is the failed data, which every second read returns; the number
    /// counts the reads. With the other bugs the medium gets this content later; the number is that
    /// of the command that failed.
    failed: BTreeMap<u64, (Sector, u64)>,
    /// Content that erased or discarded sectors had before, and the number of reads since the
    /// erase.
    erased: BTreeMap<u64, (Sector, u64)>,
    /// The first version that was written to each sector.
    first: BTreeMap<u64, Sector>,
    /// Number of reads of each unreadable sector.
    attempts: BTreeMap<u64, u64>,
}

impl Medium {
    fn raw_write(&mut self, at: u64, data: &[u8]) {
        if let Backing::Sparse(sparse) = &mut self.backing
            && at.saturating_add(data.len() as u64) <= self.bytes
        {
            sparse.write(at, data);
        }
    }

    fn raw_read(&mut self, sector: u64) -> Sector {
        let mut bytes = [0; SECTOR];
        if let Backing::Sparse(sparse) = &self.backing {
            sparse.read(sector * SECTOR_BYTES, &mut bytes);
        }
        bytes
    }

    /// Applies the planted bugs that act at the begin of a command.
    #[cold]
    pub(super) fn lie_at_command(&mut self) {
        self.lies.commands += 1;
        let now = self.lies.commands;
        let due = |since: u64| now >= since + LATER;
        let come = plant::is(Lie::FailedComesLate) || plant::is(Lie::FailedVanishes);
        let is_due = |(sector, (_, since)): (&u64, &(Sector, u64))| due(*since).then_some(*sector);
        while let Some(sector) = self.lies.failed.iter().find_map(is_due).filter(|_| come) {
            if let Some((bytes, _)) = self.lies.failed.remove(&sector) {
                self.raw_write(sector * SECTOR_BYTES, &bytes);
            }
        }
    }

    /// Returns whether a write of the same data to this place was reported as failed before.
    #[cold]
    pub(crate) fn fails_again(&self, at: u64, data: &[u8]) -> bool {
        self.lies.failing.get(&(at / SECTOR_BYTES)).is_some_and(|failing| failing[..] == *data)
    }

    /// Applies the planted bugs to a write of a block that the card reports as failed.
    #[cold]
    pub(crate) fn lie_about_failure(&mut self, at: u64, data: &[u8]) {
        let told = [Lie::FailedFlips, Lie::FailedComesLate, Lie::FailedVanishes];
        let Ok(new) = Sector::try_from(data) else { return };
        if !told.into_iter().any(plant::is) {
            return;
        }
        let (sector, now) = (at / SECTOR_BYTES, self.lies.commands);
        let before = self.raw_read(sector);
        let kept = if plant::is(Lie::FailedVanishes) { before } else { new };
        if self.lies.failing.insert(sector, new) == Some(new) {
            self.lies.failed.entry(sector).and_modify(|(_, since)| *since = now);
            return;
        }
        self.lies.failed.insert(sector, (kept, now));
        if plant::is(Lie::FailedVanishes) {
            self.raw_write(at, data);
        }
    }

    /// Applies the planted bugs to a write of `data` to the byte address `at`.
    #[cold]
    pub(super) fn lie_about_write(&mut self, at: u64, data: &[u8]) {
        if plant::is(Lie::WritesFar) {
            self.raw_write(at + FAR_BYTES, data);
        }
        if plant::is(Lie::WritesNear) {
            self.raw_write(at + data.len() as u64, &data[..SECTOR.min(data.len())]);
        }
        for (sector, bytes) in super::sectors(at, data.len() as u64).zip(data.chunks(SECTOR)) {
            self.lies.failing.remove(&sector);
            self.lies.failed.remove(&sector);
            self.lies.erased.remove(&sector);
            if let Ok(bytes) = bytes.try_into() {
                self.lies.first.entry(sector).or_insert(bytes);
            }
        }
    }

    /// Applies the planted bugs to an erase of the `bytes` bytes from byte address `at` on, or to
    /// their discard if `discard`.
    #[cold]
    pub(crate) fn lie_about_erase(&mut self, at: u64, bytes: u64, discard: bool) {
        let told = plant::is(Lie::DiscardFlips) && discard
            || (plant::is(Lie::ErasedFlips) || plant::is(Lie::EraseUndone)) && !discard;
        for sector in super::sectors(at, bytes) {
            self.lies.failed.remove(&sector);
            self.lies.erased.remove(&sector);
            if told {
                let before = self.raw_read(sector);
                self.lies.erased.insert(sector, (before, 0));
            }
        }
    }

    /// Applies the planted bugs to `buffer`, the data that a read returns from byte address `at`
    /// on.
    #[cold]
    pub(super) fn lie_about_read(&mut self, at: u64, buffer: &mut [u8]) {
        for (sector, bytes) in super::sectors(at, buffer.len() as u64).zip(buffer.chunks_mut(SECTOR)) {
            if plant::is(Lie::FailedFlips)
                && let Some((failed, reads)) = self.lies.failed.get_mut(&sector)
            {
                *reads += 1;
                if reads.is_multiple_of(2) {
                    bytes.copy_from_slice(&failed[..bytes.len()]);
                }
            }
            if let Some((before, reads)) = self.lies.erased.get_mut(&sector) {
                *reads += 1;
                match plant::is(Lie::ErasedFlips) {
                    true if reads.is_multiple_of(2) => bytes.fill(0xff),
                    false if plant::is(Lie::DiscardFlips) && reads.is_multiple_of(2) => {
                        bytes.copy_from_slice(&before[..bytes.len()]);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Applies the planted bugs to a read of an unreadable sector. Returns true if the read
    /// succeeds nevertheless, from the second attempt on.
    #[cold]
    pub(super) fn lie_about_torn(&mut self, at: u64, buffer: &mut [u8]) -> bool {
        let sector = at / SECTOR_BYTES;
        let attempts = self.lies.attempts.entry(sector).or_default();
        *attempts += 1;
        match self.lies.first.get(&sector) {
            Some(first) if plant::is(Lie::TornIsOld) && *attempts > 1 && buffer.len() == SECTOR => {
                buffer.copy_from_slice(first);
                true
            }
            _ => false,
        }
    }

    /// Applies the planted bugs that act at a power loss.
    pub(crate) fn lie_at_cut(&mut self) {
        if plant::is(Lie::EraseUndone) {
            for (sector, (before, _)) in std::mem::take(&mut self.lies.erased) {
                self.raw_write(sector * SECTOR_BYTES, &before);
            }
        }
    }
}

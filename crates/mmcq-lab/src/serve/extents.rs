//! Map of the export's holes: ranges that read as zeros, which a client may skip when it copies.
//!
//! A range becomes a hole when zeros were written to it and acknowledged. No write of other data
//! may have been under way in this range meanwhile. A later write of other data ends the hole. A
//! loss also ends the hole, as long as no flush has made its zeros durable.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Size in bytes of a piece, which is the unit of the map of holes. Only a whole piece can be a
/// hole.
const PIECE_BYTES: u64 = 64 * 1024;
/// Largest number of ranges in one answer to a client.
const RANGES_MAX: usize = 4096;

/// Largest number of holes that no flush has covered yet. If there are so many, later zeros do not
/// become holes.
const UNFLUSHED_MAX: usize = 1024;

/// A write or zeroing of a range that clients have requested, from its first request to the card to
/// its last completion.
#[derive(Debug)]
struct Change {
    id: u64,
    from: u64,
    to: u64,
    zeros: bool,
    /// Whether another change of the same range, one that writes other data than zeros, was under
    /// way at the same time as this one.
    disturbed: bool,
}

/// Whether a range of the disk is a hole (reads as zeros and holds no data) after a client's write,
/// trim or request for zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The range is no hole: the change wrote data; or it failed; or it wrote zeros for a client
    /// that allows no hole.
    Data,
    /// The range is now a hole. `acknowledged`: number of writes that a flush must cover to make
    /// the hole permanent; `None`: it is permanent already.
    Hole { acknowledged: Option<u64> },
}

/// Map of the export's holes: one flag for each piece of 64 KiB.
#[derive(Debug)]
pub struct Extents {
    bytes: u64,
    holes: Vec<bool>,
    changes: Vec<Change>,
    last_id: u64,
    /// Holes that a power cut or another loss of the card's data can undo. Each has its begin and
    /// end in bytes, and the number of acknowledged writes that a flush must cover to make the hole
    /// permanent.
    unflushed: Vec<(u64, u64, u64)>,
}

impl Extents {
    /// Makes a map of an export of this many bytes without any known hole.
    pub fn unknown(bytes: u64) -> Self {
        Extents::all(bytes, false)
    }

    fn all(bytes: u64, hole: bool) -> Self {
        let holes = vec![hole; bytes.div_ceil(PIECE_BYTES) as usize];
        Extents { bytes, holes, changes: Vec::new(), last_id: 0, unflushed: Vec::new() }
    }

    /// Makes a map of the holes of a file. If its file system reports no holes, there are none in
    /// the map.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut extents = Extents::all(bytes, true);
        let mut at = 0;
        while at < bytes {
            // SAFETY: a call on a file descriptor that `file` keeps open.
            let data = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
            if data < 0 {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ENXIO) {
                    // The file system reports no holes.
                    extents.written(at, bytes - at);
                }
                break;
            }
            // SAFETY: a call on a file descriptor that `file` keeps open.
            let hole = unsafe { libc::lseek(file.as_raw_fd(), data, libc::SEEK_HOLE) };
            let end = u64::try_from(hole).unwrap_or(bytes).min(bytes);
            let data = data as u64;
            extents.written(data, end.saturating_sub(data));
            at = end.max(data + 1);
        }
        Ok(extents)
    }

    /// Begins a change of `length` bytes from byte `offset` on. `zeros`: the change writes zeros,
    /// not other data. Returns the number of the change for [`ends`](Self::ends).
    pub fn begins(&mut self, offset: u64, length: u64, zeros: bool) -> u64 {
        let (from, to) = (offset, offset.saturating_add(length));
        let mut disturbed = false;
        for other in self.changes.iter_mut().filter(|other| other.from < to && from < other.to) {
            disturbed |= !other.zeros;
            other.disturbed |= !zeros;
        }
        if !zeros {
            self.written(offset, length);
        }
        self.last_id += 1;
        self.changes.push(Change { id: self.last_id, from, to, zeros, disturbed });
        self.last_id
    }

    /// Ends the change that [`begins`](Self::begins) has given this number, and records what its
    /// range of the card may now contain.
    pub fn ends(&mut self, id: u64, how: Ended) {
        let Some(index) = self.changes.iter().position(|change| change.id == id) else { return };
        let Change { from, to, zeros, disturbed, .. } = self.changes.swap_remove(index);
        match how {
            Ended::Hole { .. } if !zeros || disturbed => {}
            Ended::Hole { acknowledged: None } => self.zeroed(from, to),
            Ended::Hole { acknowledged: Some(write) } if self.unflushed.len() < UNFLUSHED_MAX => {
                self.zeroed(from, to);
                self.unflushed.push((from, to, write));
            }
            Ended::Hole { .. } => {}
            Ended::Data => self.written(from, to - from),
        }
    }

    /// Records a flush that covers the first `covered` acknowledged writes: the holes that these
    /// writes made become permanent.
    pub fn flushed(&mut self, covered: u64) {
        self.unflushed.retain(|&(.., write)| write > covered);
    }

    /// Records that the card may have lost data. The ranges that were made holes, and not flushed
    /// since, do not count as holes any more.
    pub fn lost(&mut self) {
        for (from, to, _) in std::mem::take(&mut self.unflushed) {
            self.written(from, to - from);
        }
    }

    /// Records that the `length` bytes from `offset` on may now hold data.
    fn written(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).div_ceil(PIECE_BYTES);
        self.set(offset / PIECE_BYTES, end, false);
    }

    /// Records that the bytes from `from` to `to` are zeros: each piece of 64 KiB that lies between
    /// becomes a hole.
    fn zeroed(&mut self, from: u64, to: u64) {
        let last = if to >= self.bytes { self.holes.len() as u64 } else { to / PIECE_BYTES };
        self.set(from.div_ceil(PIECE_BYTES), last, true);
    }

    fn set(&mut self, from: u64, to: u64, hole: bool) {
        let to = (to as usize).min(self.holes.len());
        if let Some(pieces) = self.holes.get_mut(from as usize..to) {
            pieces.fill(hole);
        }
    }

    /// Lists the ranges within `length` bytes from `offset`: the length of each, and true for a
    /// hole. With `one` the list ends after the first range, otherwise after 4096.
    pub fn of(&self, offset: u64, length: u32, one: bool) -> Vec<(u32, bool)> {
        let end = offset.saturating_add(u64::from(length)).min(self.bytes);
        let mut ranges: Vec<(u32, bool)> = Vec::new();
        let mut at = offset;
        while at < end {
            let piece = (at / PIECE_BYTES) as usize;
            let next = ((piece as u64 + 1) * PIECE_BYTES).min(end);
            let (bytes, hole) = ((next - at) as u32, self.holes.get(piece).copied().unwrap_or(false));
            at = next;
            let full = ranges.len() == if one { 1 } else { RANGES_MAX };
            match ranges.last_mut() {
                Some((length, same)) if *same == hole => *length += bytes,
                Some(_) if full => break,
                _ => ranges.push((bytes, hole)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_of_a_sparse_file_are_found_filled_and_made_again() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], 300_000).unwrap();
        let mut extents = Extents::of_file(&file).unwrap();
        assert_eq!(extents.of(0, 1 << 20, false), [(262_144, true), (65_536, false), (720_896, true)]);
        assert_eq!(extents.of(300_000, 1000, true), [(1000, false)]);
        extents.begins(0, 1, false);
        assert_eq!(extents.of(0, 1 << 20, true), [(65_536, false)]);
        hole(&mut extents, 512, 1 << 20);
        assert_eq!(extents.of(0, 1 << 20, false), [(65_536, false), (983_040, true)]);
    }

    const LASTS: Ended = Ended::Hole { acknowledged: None };

    fn hole(extents: &mut Extents, offset: u64, length: u64) {
        let id = extents.begins(offset, length, true);
        extents.ends(id, LASTS);
    }

    #[test]
    fn zeros_beside_something_else_are_no_hole_in_any_order() {
        for (zeros_first, zeros_end_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut extents = Extents::unknown(1 << 20);
            let mut begin = |zeros: bool| match zeros {
                true => extents.begins(0, 1 << 18, true),
                false => extents.begins(65_536, 512, false),
            };
            let ids = if zeros_first { [begin(true), begin(false)] } else { [begin(false), begin(true)] };
            let (zeros, data) = if zeros_first { (ids[0], ids[1]) } else { (ids[1], ids[0]) };
            let ends = [(zeros, LASTS), (data, Ended::Data)];
            for n in if zeros_end_first { [0, 1] } else { [1, 0] } {
                extents.ends(ends[n].0, ends[n].1);
            }
            assert_eq!(extents.of(0, 1 << 20, false), [(1 << 20, false)], "{zeros_first} {zeros_end_first}");
            hole(&mut extents, 0, 1 << 18);
            assert_eq!(extents.of(0, 1 << 18, false), [(1 << 18, true)]);
        }
    }

    #[test]
    fn holes_last_once_a_flush_has_covered_them() {
        let mut extents = Extents::unknown(1 << 20);
        for (offset, write) in [(0, 1), (1 << 16, 2), (1 << 17, 3)] {
            let id = extents.begins(offset, 1 << 16, true);
            extents.ends(id, Ended::Hole { acknowledged: Some(write) });
        }
        extents.flushed(2);
        assert_eq!(extents.of(0, 3 << 16, false), [(3 << 16, true)]);
        extents.lost();
        assert_eq!(extents.of(0, 3 << 16, false), [(2 << 16, true), (1 << 16, false)]);
        // Zeros that failed half-way may have left data: the piece does not count as a hole.
        let id = extents.begins(0, 1 << 16, true);
        extents.ends(id, Ended::Data);
        assert_eq!(extents.of(0, 1 << 16, false), [(1 << 16, false)]);
    }
}

//! Which parts of the export are known to be holes: what a client may skip when it copies.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What is kept track of: a piece is a hole only as a whole.
const PIECE_BYTES: u64 = 64 * 1024;
/// Ranges in one answer at most.
const RANGES_MAX: usize = 4096;

/// One bit for each piece: a hole.
#[derive(Clone, Debug)]
pub struct Extents {
    bytes: u64,
    holes: Vec<bool>,
}

impl Extents {
    /// Nothing is known of so many bytes.
    pub fn unknown(bytes: u64) -> Self {
        Extents { bytes, holes: vec![false; bytes.div_ceil(PIECE_BYTES) as usize] }
    }

    /// The holes of a file, where its file system knows them.
    pub fn of_file(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut extents = Extents { bytes, holes: vec![true; bytes.div_ceil(PIECE_BYTES) as usize] };
        let mut at = 0;
        while at < bytes {
            // SAFETY: a call on a descriptor that `file` keeps open.
            let data = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
            if data < 0 {
                let error = io::Error::last_os_error();
                if error.raw_os_error() != Some(libc::ENXIO) {
                    // No holes are known.
                    extents.written(at, bytes - at);
                }
                break;
            }
            // SAFETY: as above.
            let hole = unsafe { libc::lseek(file.as_raw_fd(), data, libc::SEEK_HOLE) };
            let end = u64::try_from(hole).unwrap_or(bytes).min(bytes);
            let data = data as u64;
            extents.written(data, end.saturating_sub(data));
            at = end.max(data + 1);
        }
        Ok(extents)
    }

    /// Something else than zeros may be there now.
    pub fn written(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).div_ceil(PIECE_BYTES);
        self.set(offset / PIECE_BYTES, end, false);
    }

    /// Zeros are there now: pieces that are covered as a whole become holes.
    pub fn zeroed(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        let last = if end >= self.bytes { self.holes.len() as u64 } else { end / PIECE_BYTES };
        self.set(offset.div_ceil(PIECE_BYTES), last, true);
    }

    fn set(&mut self, from: u64, to: u64, hole: bool) {
        let to = (to as usize).min(self.holes.len());
        if let Some(pieces) = self.holes.get_mut(from as usize..to) {
            pieces.fill(hole);
        }
    }

    /// Ranges from an offset on: lengths, and whether they are holes. `one`: the first only.
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
        extents.written(0, 1);
        assert_eq!(extents.of(0, 1 << 20, true), [(65_536, false)]);
        extents.zeroed(512, 1 << 20);
        assert_eq!(extents.of(0, 1 << 20, false), [(65_536, false), (983_040, true)]);
    }
}

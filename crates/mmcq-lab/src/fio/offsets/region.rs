//! Parts of files that a worker reads and writes.

use super::random::Draws;
use crate::fio::error::{ParseError, Place};
use crate::fio::job::{Job, Size};

/// Part of one file that a worker uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Offset in bytes of the part's first byte in the file.
    pub start: u64,
    /// Length in bytes of the part of the file.
    pub len: u64,
    /// Length of the whole file in bytes.
    pub file_bytes: u64,
}

/// All parts of files that a worker uses, and how many bytes it transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Parts of the worker's files, one for each file.
    pub regions: Vec<Region>,
    /// Number of bytes that one pass transfers: `size=`.
    pub pass_bytes: u64,
    /// Value of `io_size=` in bytes, or of `size=` if `io_size=` is not given. The worker begins
    /// passes beyond those of `loops=` until it has transferred this number of bytes. It never
    /// transfers more than `loops=` times this number.
    pub limit_bytes: u64,
}

/// Computes which parts of its files copy `subjob` of `job` uses, and how many bytes it transfers.
/// `file_bytes`: sizes of the files. `file_size_seed`: start value of the random numbers that draw
/// the sizes if `filesize=` is a range.
pub fn extent(job: &Job, subjob: u32, file_bytes: &[u64], file_size_seed: u64) -> Result<Extent, ParseError> {
    let fail = |message: String| Err(ParseError::new(&Place::Job(job.name.clone()), message));
    let files = file_bytes.len() as u64;
    if files == 0 {
        return fail("no file: expected filename= or nrfiles= to give one".to_string());
    }
    let mut regions = Vec::new();
    let mut sizes = Draws::new(job, file_size_seed);
    for &whole in file_bytes {
        let increment = job.offset_increment.of(whole).saturating_mul(u64::from(subjob));
        let mut start = job.offset.of(whole).saturating_add(increment);
        // As in fio, the sum is rounded up to whole blocks if either part is a share of the file.
        if [job.offset, job.offset_increment].iter().any(|size| matches!(size, Size::Percent(_))) {
            let unit = job.min_block();
            start = start.div_ceil(unit).saturating_mul(unit);
        }
        let Some(left) = whole.checked_sub(start) else {
            return fail(format!("offset={start}: expected at most {whole}, the bytes of the file"));
        };
        // A drawn size is rounded down to whole blocks, maybe below the least.
        let floor = |least: u64| least - least % job.min_block();
        // If the file is a device that is larger than `filesize=`, the region has a size of its own.
        let whole_len = match job.filesize.is_some_and(|size| !(floor(size.0)..=size.1).contains(&whole)) {
            true => own_bytes(job, &mut sizes).checked_sub(start),
            false => Some(left),
        };
        let Some(whole_len) = whole_len else {
            return fail(format!("offset={start}: expected one inside of filesize="));
        };
        let len = match job.size {
            Some(size @ Size::Percent(_)) => {
                let share = size.of(whole_len.saturating_add(start)).min(whole_len);
                share - share % job.min_block()
            }
            Some(Size::Bytes(total)) if job.filesize.is_none() => total / files,
            _ => whole_len,
        };
        if len > left {
            return fail(format!(
                "size={len} at offset {start}: expected at most {left} bytes, the file's rest"
            ));
        }
        if len < job.min_block() {
            return fail(format!("size={len} of a file: expected at least one block of {}", job.min_block()));
        }
        if job.rw.random && len / job.min_block() > super::RandomMap::MAX_BLOCKS {
            return fail(format!(
                "{} blocks: expected at most 2^32 for random offsets",
                len / job.min_block()
            ));
        }
        regions.push(Region { start, len, file_bytes: whole });
    }
    // As in fio, a share as `io_size=` is that of the files, and makes the pass shorter.
    let (share, io_size) = match job.io_size {
        Some(share @ Size::Percent(_)) => (share, None),
        Some(Size::Bytes(bytes)) => (Size::Percent(100), Some(bytes)),
        None => (Size::Percent(100), None),
    };
    let sum = regions.iter().fold(0u64, |sum, r| sum.saturating_add(share.of(r.len)));
    let pass_bytes = match job.size {
        // A `size=` above the sum of the files means that sum.
        Some(Size::Bytes(total)) => total.min(sum),
        _ => sum,
    };
    let limit_bytes = io_size.unwrap_or(pass_bytes);
    Ok(Extent { regions, pass_bytes, limit_bytes })
}

/// Returns a function that gives the sizes in bytes of a worker's new files by `filesize=`, one after
/// the other.
pub fn file_sizes(job: &Job, file_size_seed: u64) -> impl FnMut() -> u64 {
    let mut sizes = Draws::new(job, file_size_seed);
    move || own_bytes(job, &mut sizes)
}

/// Returns the size in bytes of a file by the job's `filesize=`, drawn at random if that is a
/// range.
fn own_bytes(job: &Job, sizes: &mut Draws) -> u64 {
    let (least, most) = job.filesize.unwrap_or_default();
    if least == most {
        return least;
    }
    let drawn = least + ((most - least) as f64 * sizes.share()) as u64;
    // As in fio, the size is rounded down to whole blocks.
    drawn - drawn % job.min_block()
}

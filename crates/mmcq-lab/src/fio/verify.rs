//! Content of written blocks, and how a read verifies it.
//!
//! The header is that of fio 3.33, so that fio can check what the laboratory wrote, and the
//! laboratory what fio wrote. The header has a magic number, kind, length, seed, offset, time,
//! worker, number of the write, and a CRC-32C over these 36 bytes. The checksum of the block's
//! remaining bytes follows the header. All numbers are little-endian.

use super::job::{Buffers, Dir, Job, Verify};
use mmcq_sim::sequence;
use std::fmt;

const MAGIC: u16 = 0xacca;
const HEADER: usize = 40;

/// Identity of a write's content, which a later read must find again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Random seed from which the contents of the write follow.
    pub seed: u64,
    /// Number of the write among the worker's writes, modulo 2^16.
    pub number: u16,
    /// Number of the worker's thread, modulo 2^16.
    pub thread: u16,
}

/// A difference between the data that a read returned and the data that were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// Offset in the file of the wrong header, or of the first byte that differs from a pattern.
    pub offset: u64,
    /// Name of the part of the header or the data that differs.
    pub what: &'static str,
    /// Expected value of the part of the header or the data that `what` names.
    pub expected: u64,
    /// Value that was read in this part of the block.
    pub found: u64,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let VerifyError { offset, what, expected, found } = self;
        write!(f, "verify: {what} at offset {offset}: expected {expected:#x}, found {found:#x}")
    }
}

impl std::error::Error for VerifyError {}

/// Returns the number of bytes of header and checksum in each block; `None` if this kind of
/// verification has no header.
pub fn header_bytes(verify: Verify) -> Option<u64> {
    checksum_kind(verify).map(|(_, bytes)| (HEADER + bytes) as u64)
}

/// Returns fio's number of this kind of verification, and the number of bytes of its checksum;
/// `None`: this kind has no header.
fn checksum_kind(verify: Verify) -> Option<(u16, usize)> {
    match verify {
        Verify::Off | Verify::Pattern => None,
        Verify::Meta => Some((1, 0)),
        Verify::Crc32 => Some((4, 4)),
        Verify::Crc32c => Some((5, 4)),
        Verify::Crc16 => Some((7, 2)),
        Verify::Crc7 => Some((8, 1)),
    }
}

/// Returns the distance between headers in bytes: `verify_interval=` or the block size. If block
/// sizes vary, it is their greatest common divisor.
pub fn interval(job: &Job) -> u64 {
    if job.verify_interval > 0 {
        return job.verify_interval;
    }
    let bs = &job.bs[Dir::Write.index()];
    if bs.max.is_multiple_of(bs.min) && bs.split.iter().all(|(size, _)| size.is_multiple_of(bs.min)) {
        return bs.min;
    }
    bs.split.iter().fold(gcd(bs.min, bs.max), |g, (size, _)| gcd(g, *size))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Fills the buffer of a write at `offset` of the file; `now_ns` is the time in the headers.
pub fn fill(job: &Job, stamp: &Stamp, offset: u64, now_ns: u64, buffer: &mut [u8]) {
    let Some((kind, checksum)) = checksum_kind(job.verify) else {
        match (&job.verify, &job.buffers) {
            (Verify::Pattern, _) => repeat(&job.verify_pattern, buffer),
            (_, Buffers::Pattern(pattern)) => repeat(pattern, buffer),
            (_, Buffers::Zero) => buffer.fill(0),
            (_, Buffers::Random | Buffers::Refill) => random(stamp.seed, buffer),
        }
        return;
    };
    random(stamp.seed, buffer);
    let step = step(job, buffer.len());
    for (block, i) in buffer.chunks_mut(step).zip(0u64..) {
        let at = offset.wrapping_add(i.wrapping_mul(step as u64));
        let Some((head, data)) = block.split_at_mut_checked(HEADER + checksum) else { continue };
        if !job.verify_pattern.is_empty() {
            repeat(&job.verify_pattern, data);
        }
        let len = u32::try_from(head.len() + data.len()).unwrap_or(u32::MAX);
        let seconds = u32::try_from(now_ns / 1_000_000_000).unwrap_or(u32::MAX);
        let nanoseconds = (now_ns % 1_000_000_000) as u32;
        head[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        head[2..4].copy_from_slice(&kind.to_le_bytes());
        head[4..8].copy_from_slice(&len.to_le_bytes());
        head[8..16].copy_from_slice(&stamp.seed.to_le_bytes());
        head[16..24].copy_from_slice(&at.to_le_bytes());
        head[24..28].copy_from_slice(&seconds.to_le_bytes());
        head[28..32].copy_from_slice(&nanoseconds.to_le_bytes());
        head[32..34].copy_from_slice(&stamp.thread.to_le_bytes());
        head[34..36].copy_from_slice(&stamp.number.to_le_bytes());
        let crc = crc32c(&head[..36]);
        head[36..40].copy_from_slice(&crc.to_le_bytes());
        let sum = checksum_of(job.verify, data).to_le_bytes();
        head[HEADER..].copy_from_slice(&sum[..checksum]);
    }
}

/// Checks the data of a read at `offset` of the file. With a stamp, the seed and the number of the
/// write must also match the stamp.
pub fn check(job: &Job, stamp: Option<&Stamp>, offset: u64, data: &[u8]) -> Result<(), VerifyError> {
    if job.verify == Verify::Pattern {
        return check_pattern(&job.verify_pattern, offset, data);
    }
    let Some((kind, checksum)) = checksum_kind(job.verify) else { return Ok(()) };
    let step = step(job, data.len());
    for (block, i) in data.chunks(step).zip(0u64..) {
        let at = offset.wrapping_add(i.wrapping_mul(step as u64));
        let same = |what, expected: u64, found: u64| {
            if expected == found { Ok(()) } else { Err(VerifyError { offset: at, what, expected, found }) }
        };
        let Some((head, body)) = block.split_at_checked(HEADER + checksum) else {
            return same("short block", (HEADER + checksum) as u64, block.len() as u64);
        };
        same("bad magic", MAGIC.into(), number(&head[0..2]))?;
        same("bad header crc", crc32c(&head[..36]).into(), number(&head[36..40]))?;
        same("bad verify type", kind.into(), number(&head[2..4]))?;
        same("bad length", block.len() as u64, number(&head[4..8]))?;
        same("bad offset", at, number(&head[16..24]))?;
        if let Some(stamp) = stamp {
            same("bad seed", stamp.seed, number(&head[8..16]))?;
            same("bad number of the write", stamp.number.into(), number(&head[34..36]))?;
        }
        same("bad checksum", checksum_of(job.verify, body).into(), number(&head[HEADER..]))?;
        if !job.verify_pattern.is_empty() {
            check_pattern(&job.verify_pattern, at + head.len() as u64, body)?;
        }
    }
    Ok(())
}

fn check_pattern(pattern: &[u8], offset: u64, data: &[u8]) -> Result<(), VerifyError> {
    let wrong = data.iter().zip(pattern.iter().cycle()).zip(0u64..).find(|((found, want), _)| found != want);
    match wrong {
        None => Ok(()),
        Some(((found, want), i)) => Err(VerifyError {
            offset: offset.wrapping_add(i),
            what: "bad pattern",
            expected: (*want).into(),
            found: (*found).into(),
        }),
    }
}

fn step(job: &Job, bytes: usize) -> usize {
    usize::try_from(interval(job)).unwrap_or(usize::MAX).clamp(1, bytes.max(1))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn repeat(pattern: &[u8], buffer: &mut [u8]) {
    for (byte, value) in buffer.iter_mut().zip(pattern.iter().cycle()) {
        *byte = *value;
    }
}

/// Fills a buffer with random bytes: the SplitMix64 sequence that starts at `seed`.
fn random(seed: u64, buffer: &mut [u8]) {
    sequence::write(sequence::later(seed, 1), buffer);
}

fn checksum_of(verify: Verify, data: &[u8]) -> u32 {
    match verify {
        Verify::Crc32c => crc32c(data),
        // fio's "crc32" is the CRC without bit reflection that starts at 0.
        Verify::Crc32 => data.iter().fold(0, |crc, b| CRC32[top_byte(crc, *b)] ^ crc << 8),
        Verify::Crc16 => {
            data.iter().fold(0, |crc, b| CRC16[usize::from((crc ^ u32::from(*b)) as u8)] ^ crc >> 8)
        }
        // The seven bits of the CRC are in the upper bits of a byte until the last shift.
        Verify::Crc7 => data.iter().fold(0, |crc, b| CRC7[usize::from(crc as u8 ^ *b)]) >> 1,
        Verify::Off | Verify::Meta | Verify::Pattern => 0,
    }
}

/// Returns the CRC-32C without the final inversion, as fio stores it.
fn crc32c(data: &[u8]) -> u32 {
    data.iter().fold(u32::MAX, |crc, b| CRC32C[usize::from((crc ^ u32::from(*b)) as u8)] ^ crc >> 8)
}

fn top_byte(crc: u32, byte: u8) -> usize {
    usize::from((crc >> 24) as u8 ^ byte)
}

static CRC32C: [u32; 256] = reflected(0x82f6_3b78);
static CRC16: [u32; 256] = reflected(0xa001);
static CRC32: [u32; 256] = straight(0x04c1_1db7, 32);
static CRC7: [u32; 256] = straight(0x09 << 1, 8);

const fn reflected(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

const fn straight(polynomial: u32, width: u32) -> [u32; 256] {
    let top = 1 << (width - 1);
    let mask = u32::MAX >> (32 - width);
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u32) << (width - 8);
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & top != 0 { crc << 1 ^ polynomial } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc & mask;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::error::Place;
    use crate::fio::job::BlockSize;

    const STAMP: Stamp = Stamp { seed: 0xa4_cc01_c509_543c, number: 7, thread: 1 };

    fn job(verify: Verify) -> Job {
        let mut job = Job::new("a", Place::Argument(1));
        job.verify = verify;
        job.verify_pattern = if verify == Verify::Pattern { vec![1, 2, 3] } else { Vec::new() };
        job
    }

    #[test]
    fn checksums_of_the_catalogue() {
        let digits = b"123456789";
        assert_eq!(crc32c(digits) ^ u32::MAX, 0xe306_9283);
        assert_eq!(checksum_of(Verify::Crc16, digits), 0xbb3d);
        assert_eq!(checksum_of(Verify::Crc7, digits), 0x75);
        // CRC-32/CKSUM without the length at the end and without the final inversion.
        assert_eq!(checksum_of(Verify::Crc32, digits), 0x89a1_897f);
    }

    #[test]
    fn every_flipped_bit_is_found() {
        for verify in [Verify::Crc7, Verify::Crc16, Verify::Crc32, Verify::Crc32c, Verify::Pattern] {
            let job = job(verify);
            let mut data = vec![0; 4096];
            fill(&job, &STAMP, 8192, 5_000_000_001, &mut data);
            assert_eq!(check(&job, Some(&STAMP), 8192, &data), Ok(()));
            for byte in 0..data.len() {
                data[byte] ^= 1 << (byte % 8);
                let error = check(&job, Some(&STAMP), 8192, &data).expect_err("a flipped bit");
                assert!((8192..8192 + 4096).contains(&error.offset), "{error}");
                data[byte] ^= 1 << (byte % 8);
            }
        }
    }

    #[test]
    fn a_stale_or_misplaced_block_is_found() {
        let job = job(Verify::Meta);
        let mut data = vec![0; 4096];
        fill(&job, &STAMP, 8192, 0, &mut data);
        assert_eq!(check(&job, None, 4096, &data).map_err(|e| e.what), Err("bad offset"));
        let newer = Stamp { number: 8, ..STAMP };
        let error = check(&job, Some(&newer), 8192, &data).unwrap_err();
        assert_eq!(
            error.to_string(),
            "verify: bad number of the write at offset 8192: expected 0x8, found 0x7"
        );
        assert_eq!(check(&job, None, 8192, &[0; 4096]).map_err(|e| e.what), Err("bad magic"));
        assert_eq!(check(&job, None, 8192, &data[..20]).map_err(|e| e.what), Err("short block"));
    }

    #[test]
    fn varying_blocks_have_a_header_each_interval() {
        let mut job = job(Verify::Crc32c);
        job.bs[1] = BlockSize { min: 1024, max: 8192, split: Vec::new() };
        let mut data = vec![0; 8192];
        fill(&job, &STAMP, 0, 0, &mut data);
        assert_eq!(check(&job, None, 3072, &data[3072..5120]), Ok(()));
        job.bs[1] = BlockSize { min: 3072, max: 8192, split: Vec::new() };
        assert_eq!(interval(&job), 1024);
    }

    #[test]
    fn no_bytes_can_panic() {
        crate::fuzz::fuzz("no_bytes_can_panic", 200, |u| {
            let kinds =
                [Verify::Meta, Verify::Crc7, Verify::Crc16, Verify::Crc32, Verify::Crc32c, Verify::Pattern];
            let mut job = job(*u.choose(&kinds)?);
            job.bs[1] = BlockSize { min: u.int_in_range(1..=9000)?, max: 9000, split: Vec::new() };
            let offset: u64 = u.arbitrary()?;
            let mut data: Vec<u8> = u.arbitrary()?;
            let _ = check(&job, Some(&STAMP), offset, &data);
            fill(&job, &STAMP, offset, u.arbitrary()?, &mut data);
            Ok(())
        });
    }
}

//! The counterpart of `plan/pattern.rs` on the development computer: fills a card's image before
//! the test, and says what the image must hold afterwards. It is compiled by `rustc` alone, without
//! crates, and shares no code with the test images.
//!
//! `expect make FILE BLOCKS` makes the image: "never written" in the windows, zeros elsewhere.
//! `expect left FILE BLOCKS` makes the image that the test must leave. `expect sum FILE` prints the
//! CRC-32 of a file. `expect check FILE` compares the file byte for byte with what the steps must
//! have left, and prints the line that the test must have printed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::ExitCode;

const WINDOW: u64 = 2048;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        let mut x = self.0;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        (x as u128 * 0x2545_f491_4f6c_dd1d_u128) as u64 >> 32
    }
}

/// Returns for every block of every window the step that writes it last, and the line about the
/// steps.
fn plan() -> (Vec<u32>, String) {
    let mut last = vec![0; 16 * WINDOW as usize];
    let (mut writes, mut written, mut reads, mut read) = (0, 0, 0, 0);
    let mut numbers = Numbers(0x0123_4567_89ab_cdef);
    for step in 1..=512 {
        let (place, length, kind) = (numbers.next(), numbers.next(), numbers.next());
        let window = if step > 256 { 4 * (step % 4) + place % 4 } else { place % 16 };
        let blocks = length % 64 + 1;
        let first = window * WINDOW + (length / 256) % (2049 - blocks);
        if kind % 3 == 0 {
            reads += 1;
            read += blocks;
            continue;
        }
        writes += 1;
        written += blocks;
        for block in first..first + blocks {
            last[block as usize] = step as u32;
        }
    }
    (last, format!("steps: {writes} writes of {written} blocks, {reads} reads of {read} blocks"))
}

fn block(number: u64, writer: u32) -> Vec<u8> {
    let base = (number as u32).wrapping_mul(2_654_435_761) ^ writer.wrapping_mul(2_246_822_507);
    let words = (0..128u32).map(|k| {
        let x = base ^ k.wrapping_mul(3_266_489_909);
        let y = (x ^ (x >> 15)).wrapping_mul(739_982_565);
        y ^ (y >> 12)
    });
    words.flat_map(u32::to_le_bytes).collect()
}

/// Returns number and content of all blocks in windows, in ascending order.
fn windows(blocks: u64, last: &[u32]) -> impl Iterator<Item = (u64, Vec<u8>)> + '_ {
    (0..16 * WINDOW).map(move |n| {
        let number = (blocks - WINDOW) * (n / WINDOW) / 15 + n % WINDOW;
        (number, block(number, last[n as usize]))
    })
}

fn make(name: &str, blocks: u64, last: &[u32]) -> std::io::Result<()> {
    let mut file = File::create(name)?;
    file.set_len(512 * blocks)?;
    for (number, content) in windows(blocks, last) {
        file.seek(SeekFrom::Start(512 * number))?;
        file.write_all(&content)?;
    }
    Ok(())
}

/// Returns the offset of the next byte from `from` on that is not in a hole of a sparse file; the
/// end if only a hole follows.
#[cfg(target_os = "linux")]
fn next_data(file: &File, from: u64, end: u64) -> u64 {
    use std::os::fd::AsRawFd;
    // SAFETY: the declaration of lseek64 in the C library that std links.
    unsafe extern "C" {
        fn lseek64(file: i32, offset: i64, whence: i32) -> i64;
    }
    const SEEK_DATA: i32 = 3;
    const ENXIO: i32 = 6;
    // SAFETY: the file is open; the call changes only the file's position, and each user seeks
    // before it reads.
    match u64::try_from(unsafe { lseek64(file.as_raw_fd(), from as i64, SEEK_DATA) }) {
        Ok(data) => data,
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(ENXIO) => end,
        Err(_) => from,
    }
}

#[cfg(not(target_os = "linux"))]
fn next_data(_: &File, from: u64, _: u64) -> u64 {
    from
}

/// Compares the file with the expected content. Returns a description of the first wrong block.
/// Holes are zeros, and are not read.
fn check(name: &str, last: &[u32]) -> std::io::Result<Result<(), String>> {
    let mut file = File::open(name)?;
    let bytes = file.metadata()?.len();
    let blocks = bytes / 512;
    if blocks < 16 * WINDOW {
        return Ok(Err(format!("{name}: {blocks} blocks, expected room for 16 windows of 2048")));
    }
    let mut expected = windows(blocks, last).peekable();
    let (mut number, mut data) = (0, 0);
    let mut piece = vec![0; 512 * WINDOW as usize];
    while number < blocks {
        // A piece ends at the next megabyte at the latest. Of holes, only blocks that must not be
        // zeros are compared.
        let count = (WINDOW - number % WINDOW).min(blocks - number);
        let (start, end) = (512 * number, 512 * (number + count));
        if data < start {
            data = next_data(&file, start, bytes);
        }
        let wanted = expected.peek().is_some_and(|&(at, _)| at < number + count);
        if data >= end && !wanted {
            number += count;
            continue;
        }
        let found = &mut piece[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(found)?;
        for found in found.chunks_exact(512) {
            let right = match expected.next_if(|(at, _)| *at == number) {
                Some((_, content)) => found == content,
                None => found.iter().all(|&byte| byte == 0),
            };
            if !right {
                let (byte, begin) = (512 * number, &found[..8]);
                return Ok(Err(format!(
                    "{name}: block {number} (byte {byte}) begins {begin:02x?}, expected other content"
                )));
            }
            number += 1;
        }
    }
    Ok(Ok(()))
}

/// Returns the CRC-32 of a file, as zip computes it, bit by bit.
fn sum(name: &str) -> std::io::Result<u32> {
    let mut crc = u32::MAX;
    for byte in std::fs::read(name)? {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    Ok(!crc)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        [when @ ("make" | "left"), name, blocks] => match blocks.parse::<u64>() {
            Ok(blocks) if blocks >= 16 * WINDOW => {
                let last = if when == "left" { plan().0 } else { vec![0; 16 * WINDOW as usize] };
                make(name, blocks, &last).map_err(|error| format!("{name}: {error}"))
            }
            _ => Err(format!("{blocks}: expected a number of blocks from {}", 16 * WINDOW)),
        },
        ["check", name] => {
            let (last, line) = plan();
            println!("{line}");
            check(name, &last).unwrap_or_else(|error| Err(format!("{name}: {error}")))
        }
        ["sum", name] => sum(name).map(|sum| println!("{sum:08x}")).map_err(|error| format!("{name}: {error}")),
        _ => Err("usage: expect make|left FILE BLOCKS | expect check|sum FILE".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("expect: {why}");
            ExitCode::FAILURE
        }
    }
}

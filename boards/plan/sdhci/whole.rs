//! Work on the whole card with several requests under way: its checksum, or a copy of its first
//! half to its second half.

use crate::Stack;
use crate::board::say;
use crate::plan::judge::{BUFFER_BYTES, DEPTH};
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error, Kind, Request};

const STEP_BLOCKS: u32 = BUFFER_BYTES as u32 / BLOCK_BYTES;

/// CRC-32 as Ethernet and zip compute it, four bits at a time.
struct Sum(u32);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        const NIBBLES: [u32; 16] = {
            let mut table = [0; 16];
            let mut n = 0;
            while n < 16 {
                let mut crc = n as u32;
                let mut bit = 0;
                while bit < 4 {
                    crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
                    bit += 1;
                }
                table[n] = crc;
                n += 1;
            }
            table
        };
        for &byte in bytes {
            self.0 ^= u32::from(byte);
            for _ in 0..2 {
                self.0 = self.0 >> 4 ^ NIBBLES[(self.0 & 15) as usize];
            }
        }
    }
}

/// Does one request for each buffer, all together. `kind` returns the request for the nth buffer.
async fn together(
    stack: &Stack,
    buffers: &mut [DmaBuf; DEPTH],
    kind: impl Fn(u32) -> Option<Kind>,
) -> Result<(), Error> {
    let mut ops = [const { None }; DEPTH];
    for ((n, buffer), op) in (0..).zip(&mut *buffers).zip(&mut ops) {
        let Some(kind) = kind(n) else { continue };
        *op = Some(stack.request(Request::new(kind, core::mem::replace(buffer, DmaBuf::EMPTY))));
    }
    let mut failed = None;
    poll_fn(|context| {
        for (buffer, op) in buffers.iter_mut().zip(&mut ops) {
            let Some(running) = op else { continue };
            let Poll::Ready(done) = Pin::new(running).poll(context) else { continue };
            *op = None;
            *buffer = done.buf;
            if let Err(error) = done.result {
                failed = Some(error);
            }
        }
        if ops.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    failed.map_or(Ok(()), Err)
}

/// Returns the first block and the length of the nth piece of a round; `None` beyond the end.
fn piece(at: u64, n: u32, end: u64) -> Option<(u64, u32)> {
    let lba = at + u64::from(n * STEP_BLOCKS);
    (lba < end).then(|| (lba, u64::from(STEP_BLOCKS).min(end - lba) as u32))
}

/// Prints the checksum of all blocks.
pub async fn sum(stack: &Stack, mut buffers: [DmaBuf; DEPTH], sectors: u64) -> Result<bool, Error> {
    let mut sum = Sum(u32::MAX);
    for at in (0..sectors).step_by(DEPTH * STEP_BLOCKS as usize) {
        together(stack, &mut buffers, |n| {
            piece(at, n, sectors).map(|(lba, blocks)| Kind::Read { lba, blocks })
        })
        .await?;
        for (n, buffer) in (0..).zip(&buffers) {
            let bytes = piece(at, n, sectors).map_or(0, |(_, blocks)| (blocks * BLOCK_BYTES) as usize);
            sum.add(&buffer[..bytes]);
        }
    }
    say(format_args!("sum: {:08x} over {sectors} blocks", !sum.0));
    Ok(true)
}

/// Copies the first half of the blocks to the second.
pub async fn copy(stack: &Stack, mut buffers: [DmaBuf; DEPTH], sectors: u64) -> Result<bool, Error> {
    let half = sectors / 2;
    for at in (0..half).step_by(DEPTH * STEP_BLOCKS as usize) {
        let part = |n| piece(at, n, half);
        together(stack, &mut buffers, |n| part(n).map(|(lba, blocks)| Kind::Read { lba, blocks })).await?;
        together(stack, &mut buffers, |n| {
            part(n).map(|(lba, blocks)| Kind::Write { lba: lba + half, blocks })
        })
        .await?;
    }
    stack.request(Request::new(Kind::Flush, DmaBuf::EMPTY)).await.result?;
    say(format_args!("copied: {half} blocks"));
    Ok(true)
}

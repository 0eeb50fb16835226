//! The boot areas of an eMMC: each gets a copy of a window of the user area. While a boot area is
//! read back, a read of the user area waits in the queue, so that the card switches between its
//! partitions.

use crate::Stack;
use crate::board::say;
use crate::plan::judge::DEPTH;
use crate::plan::pattern::{STEP_BLOCKS, WINDOW_BLOCKS, WINDOWS, window_start};
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use mmcq::block::BlockDevice;
use mmcq::block::Partition;
use mmcq::card::Card;
use mmcq::card::partition::Area;
use mmcq::engine::{DmaBuf, Error, Kind, Request};

/// Polls both futures until both have ended.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(|context| {
        if left.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            left = Some(output);
        }
        if right.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            right = Some(output);
        }
        match (left.take(), right.take()) {
            (Some(left), Some(right)) => Poll::Ready((left, right)),
            (some, other) => {
                (left, right) = (some, other);
                Poll::Pending
            }
        }
    })
    .await
}

/// Fills the boot areas, if the card has any. Returns whether they hold the right data.
pub async fn copy(stack: &Stack, card: &Card, buffers: &mut [DmaBuf; DEPTH]) -> Result<bool, Error> {
    let (mut areas, mut blocks, mut wrong) = (0, 0, 0);
    let device = BlockDevice::new(stack);
    let [first, second, third, ..] = buffers;
    let mut own = core::mem::replace(first, DmaBuf::EMPTY);
    let mut stored = core::mem::replace(second, DmaBuf::EMPTY);
    let mut again = core::mem::replace(third, DmaBuf::EMPTY);
    for (area, window) in [(Area::Boot1, 0), (Area::Boot2, WINDOWS - 1)] {
        let (opened, back) = Partition::open(stack, card, own, area).await;
        own = back;
        let boot = match opened {
            Err(Error::Unsupported) => continue,
            opened => opened?,
        };
        let (refused, back) = boot.write(0, own).await;
        own = back;
        if refused.is_ok() {
            say(format_args!("{area:?}: written, expected to be refused before it is made writable"));
            wrong += 1;
        }
        let boot = boot.writable()?;
        areas += 1;
        let start = window_start(window, card.params.sectors);
        for at in (0..boot.blocks().min(WINDOW_BLOCKS)).step_by(STEP_BLOCKS as usize) {
            let lba = start + u64::from(at);
            let (read, back) = device.read(lba, own).await;
            read?;
            let (written, back) = boot.write(at, back).await;
            own = back;
            written?;
            stored.fill(0x5a);
            again.fill(0xa5);
            let ((read, back), done) = both(
                boot.read(at, stored),
                stack.request(Request::new(Kind::Read { lba, blocks: STEP_BLOCKS }, again)),
            )
            .await;
            (stored, again) = (back, done.buf);
            read?;
            done.result?;
            blocks += STEP_BLOCKS;
            if own[..] != stored[..] || own[..] != again[..] {
                say(format_args!("{area:?}: blocks from {at} on are not those from {lba} on"));
                wrong += 1;
            }
        }
        boot.flush().await?;
    }
    (*first, *second, *third) = (own, stored, again);
    say(format_args!("boot areas: {areas}, {blocks} blocks written and read, {wrong} wrong"));
    Ok(wrong == 0)
}

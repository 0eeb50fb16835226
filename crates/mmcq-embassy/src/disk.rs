//! `block-device-driver` on handles that share the queue of one stack.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use aligned::{A4, Aligned, Alignment};
use core::marker::PhantomData;
use mmcq::block::{BlockDevice, BlockError, Bounced};
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error};
use mmcq::task::{Platform, Stack};

pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;

/// A card for a file system: a handle with a buffer of its own. Several handles on a stack share
/// its queue, so several tasks and file systems together keep the card busy.
///
/// Data are copied through the handle's buffer, and the controller never accesses borrowed memory.
/// So a call may be dropped or forgotten at any point: the engine's slot owns the buffer until the
/// request has ended, and the drop does not wait. (With borrowed memory, the drop would have to
/// block the executor's thread until the controller has released the memory. But
/// [`supervise`](crate::supervise) or a [`Runner`](crate::Runner) may need this thread to end the
/// request.)
///
/// Calls that take a buffer by value do not copy ([`device`](Self::device), [`BlockDevice::read`]).
/// `A` is the alignment of the file system's buffers; the copy works with any alignment.
///
/// The file systems' trait (`block_device_driver::BlockDevice`) has no flush: call
/// [`flush`](Self::flush) when the data must be durable.
#[derive(Debug)]
pub struct Disk<'a, B: Platform, const N: usize, A = A4> {
    copying: Bounced<'a, B, N>,
    align: PhantomData<fn() -> A>,
}

impl<'a, B: Platform, const N: usize, A: Alignment> Disk<'a, B, N, A> {
    /// Makes a handle that copies data through `bounce`, which has at least one block. A longer
    /// buffer is faster.
    pub fn new(stack: &'a Stack<B, N>, bounce: DmaBuf) -> Result<Self, Error> {
        Ok(Disk { copying: Bounced::new(BlockDevice::new(stack), bounce)?, align: PhantomData })
    }

    /// Binds the handle to the card that is in the slot now, like [`BlockDevice::rebind`].
    pub fn rebind(&mut self) {
        self.copying.rebind();
    }

    /// Flushes the card: when the call returns, everything written before is on the medium.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.copying.flush().await
    }

    /// Returns the handle on the card that copies no data; its calls take buffers by value.
    pub fn device(&self) -> &BlockDevice<'a, B, N> {
        self.copying.device()
    }
}

impl<B: Platform, const N: usize, A: Alignment> block_device_driver::BlockDevice<BLOCK>
    for Disk<'_, B, N, A>
{
    type Error = BlockError;
    type Align = A;

    async fn read(
        &mut self,
        block_address: u32,
        data: &mut [Aligned<A, [u8; BLOCK]>],
    ) -> Result<(), BlockError> {
        self.copying.read(block_address.into(), bytes_mut(data)).await.map(|_| ())
    }

    async fn write(
        &mut self,
        block_address: u32,
        data: &[Aligned<A, [u8; BLOCK]>],
    ) -> Result<(), BlockError> {
        self.copying.write(block_address.into(), bytes(data)).await.map(|_| ())
    }

    async fn size(&mut self) -> Result<u64, BlockError> {
        size(self.copying.device())
    }
}

/// Returns the card's size in bytes; an error if there is no card.
pub(crate) fn size<B: Platform, const N: usize>(device: &BlockDevice<'_, B, N>) -> Result<u64, BlockError> {
    let geometry = device.geometry().ok_or(BlockError { error: Error::NoCard, blocks_done: 0 })?;
    Ok(geometry.blocks.saturating_mul(BLOCK as u64))
}

/// Checks, when a program is compiled, that blocks with the alignment `A` have no gaps between them
/// in memory.
struct Dense<A>(PhantomData<A>);

impl<A: Alignment> Dense<A> {
    const CHECKED: () = assert!(size_of::<Aligned<A, [u8; BLOCK]>>() == BLOCK, "alignment beyond 512 bytes");
}

pub(crate) fn bytes<A: Alignment>(blocks: &[Aligned<A, [u8; BLOCK]>]) -> &[u8] {
    let () = Dense::<A>::CHECKED;
    // SAFETY: the bytes are the memory of the blocks; each block is 512 initialised bytes without
    // padding, as checked.
    unsafe { core::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks)) }
}

pub(crate) fn bytes_mut<A: Alignment>(blocks: &mut [Aligned<A, [u8; BLOCK]>]) -> &mut [u8] {
    let () = Dense::<A>::CHECKED;
    // SAFETY: the bytes are the memory of the blocks; any byte is a valid value, and the borrow is
    // exclusive.
    unsafe { core::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast(), size_of_val(blocks)) }
}

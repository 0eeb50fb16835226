//! The same without a copy, for who can promise that no future is forgotten.

use crate::disk::{BLOCK, bytes, bytes_mut, size};
use aligned::{A4, Aligned, Alignment};
use core::future::poll_fn;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::task::Poll;
use mmcq::block::{BlockDevice, Partial};
use mmcq::engine::{BLOCK_BYTES, DmaBuf, Error, Kind, Request, SlotId};
use mmcq::host::{DmaError, Host};
use mmcq::sched::{Fifo, Policy};
use mmcq::task::{Lock, Shared};

/// As [`Disk`](crate::Disk), with the controller working in the caller's own memory.
///
/// Dropping a call half-way waits, spinning, until the controller has let go of the memory: as long as the requests before it and its own
/// take, each bounded by its deadline. `A` must be no less than [`Geometry::align`](mmcq::block::Geometry::align) asks for, and a cache line where there
/// are caches.
#[derive(Debug)]
pub struct DirectDisk<'a, L: Lock, H: Host, const N: usize, P: Policy = Fifo, A = A4> {
    stack: &'a Shared<L, H, N, P>,
    align: PhantomData<fn() -> A>,
}

impl<'a, L: Lock, H: Host, const N: usize, P: Policy, A: Alignment> DirectDisk<'a, L, H, N, P, A> {
    /// A handle without a buffer. [`Error::Dma`] if the controller wants a coarser alignment than `A`.
    ///
    /// # Safety
    /// No future of this handle's `read` and `write` is leaked ([`core::mem::forget`], a reference cycle) after it was
    /// polled: its memory would go while the controller still uses it. Dropping is fine.
    pub unsafe fn new(stack: &'a Shared<L, H, N, P>) -> Result<Self, Error> {
        let needed = stack.with(|engine| engine.caps().align);
        if align_of::<Aligned<A, [u8; BLOCK]>>() < needed as usize {
            return Err(Error::Dma(DmaError::Alignment));
        }
        Ok(DirectDisk { stack, align: PhantomData })
    }

    /// Everything written before is on the medium when this returns.
    pub async fn flush(&mut self) -> Result<(), Error> {
        BlockDevice::new(self.stack).flush().await
    }

    async fn moved(&mut self, kind: Kind, memory: NonNull<u8>, bytes: usize) -> Result<(), Partial> {
        let failed = |error| Partial { error, blocks_done: 0 };
        let bytes = u32::try_from(bytes).map_err(|_| failed(Error::Unsupported))?;
        // SAFETY: initialised, and borrowed by our caller until the future ends or is dropped; `Transfer` does not let it go before the slot
        // has given it up, and `new`'s caller promised not to leak it.
        let buf = unsafe { DmaBuf::from_raw(memory, bytes) };
        let now_ns = self.stack.now_ns();
        let id = self
            .stack
            .with(|engine| engine.submit(Request::new(kind, buf), now_ns))
            .map_err(|(error, _)| failed(error))?;
        let mut transfer = Transfer { stack: self.stack, id: Some(id) };
        // Sets the alarm.
        self.stack.poll();
        poll_fn(|context| {
            // Cloned before the lock is taken; what is not kept is dropped after it.
            let waker = context.waker().clone();
            let (done, _waker) = self.stack.with(|engine| match engine.take(id) {
                Some(done) => (Some(done), Some(waker)),
                None => (None, engine.set_waker(id, waker)),
            });
            let Some(done) = done else { return Poll::Pending };
            transfer.id = None;
            let blocks_done = done.done_bytes / BLOCK_BYTES;
            Poll::Ready(done.result.map(|_| ()).map_err(|error| Partial { error, blocks_done }))
        })
        .await
    }
}

/// Memory that the engine has; dropped, it waits until it has not.
struct Transfer<'a, L: Lock, H: Host, const N: usize, P: Policy> {
    stack: &'a Shared<L, H, N, P>,
    id: Option<SlotId>,
}

impl<L: Lock, H: Host, const N: usize, P: Policy> Drop for Transfer<'_, L, H, N, P> {
    fn drop(&mut self) {
        // Not cancelled: the buffer of a cancelled request goes to `reclaim`, and so to somebody else. Every request ends by a deadline.
        let Some(id) = self.id else { return };
        while self.stack.with(|engine| engine.take(id)).is_none() {
            self.stack.turn();
        }
    }
}

impl<L: Lock, H: Host, const N: usize, P: Policy, A: Alignment> block_device_driver::BlockDevice<BLOCK>
    for DirectDisk<'_, L, H, N, P, A>
{
    type Error = Partial;
    type Align = A;

    async fn read(
        &mut self,
        block_address: u32,
        data: &mut [Aligned<A, [u8; BLOCK]>],
    ) -> Result<(), Partial> {
        let memory = bytes_mut(data);
        if memory.is_empty() {
            return Ok(());
        }
        let bytes = memory.len();
        let kind = Kind::Read { lba: block_address.into(), blocks: (bytes / BLOCK) as u32 };
        self.moved(kind, NonNull::from(memory).cast(), bytes).await
    }

    async fn write(&mut self, block_address: u32, data: &[Aligned<A, [u8; BLOCK]>]) -> Result<(), Partial> {
        let memory = bytes(data);
        if memory.is_empty() {
            return Ok(());
        }
        let bytes = memory.len();
        let kind = Kind::Write { lba: block_address.into(), blocks: (bytes / BLOCK) as u32 };
        // A write only reads the memory.
        self.moved(kind, NonNull::from(memory).cast(), bytes).await
    }

    async fn size(&mut self) -> Result<u64, Partial> {
        size(BlockDevice::new(self.stack))
    }
}

//! A card as a block device: read, write, flush; durable writes, discard, erase, zeroes.
//!
//! Three ways to hand over memory, from the fastest to the most forgiving: owned buffers that
//! travel through the call ([`BlockDevice::read`]), borrowed memory in a blocking call
//! ([`BlockDevice::read_blocking`]), and any memory at all through a buffer of the device's own
//! ([`Bounced`]). Blocks have 512 bytes; long requests are cut to what the host can do, and a
//! result says how far it got.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod partition;

use crate::engine::{BLOCK_BYTES, CardNumber, Claim, DmaBuf, Erase, Erasing, Error, Kind, Output, Request};
use crate::host::Host;
use crate::sched::Profile;
use crate::task::{Idle, Platform, Stack};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
pub use partition::Partition;

/// One block on cache lines of its own: memory that any controller takes. (A plain array of bytes
/// begins anywhere, and may be refused: [`Geometry::align`].)
///
/// # Examples
/// ```
/// # use mmcq::block::Block;
/// let mut block = Block([0x5a; 512]);
/// block.0.fill(0);
/// assert_eq!(&raw const block.0 as usize % 64, 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Block(pub [u8; BLOCK_BYTES as usize]);

/// What a card offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Largest transfer that goes to the controller as one, in blocks; requests may be larger.
    pub transfer_blocks: u32,
    /// Alignment of buffers in bytes, by the controller and by the platform's cache lines; others
    /// go through [`Bounced`].
    pub align: u32,
    /// A flush is needed for data to be durable: the card's write cache is on, or the host
    /// continues transfers ([`Caps::continue_data`](crate::host::Caps::continue_data)) or the
    /// engine [acknowledges](crate::engine::Config::acknowledge) transferred data, and a write is
    /// complete when the card has taken its data.
    pub volatile_cache: bool,
    /// [`BlockDevice::discard`] frees whole pieces of so many blocks; 0: the card cannot, or
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) has not been called since
    /// bring-up.
    pub discard_blocks: u32,
    /// [`BlockDevice::erase`] takes whole groups of so many blocks; 0 as above.
    pub erase_blocks: u32,
    /// Zeroes can be written by an erase; false as above.
    pub zeros_by_erase: bool,
    /// Nothing may be written.
    pub protected: bool,
}

/// A failed request, with the blocks that are surely done.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// Why.
    pub error: Error,
    /// Blocks done from the start of the request, at least.
    pub blocks_done: u32,
}

impl core::fmt::Display for BlockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} after {} blocks", self.error, self.blocks_done)
    }
}

impl core::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// What was done is forgotten.
impl From<BlockError> for Error {
    fn from(partial: BlockError) -> Error {
        partial.error
    }
}

/// A handle on a card; as many as one likes share one queue.
///
/// It is for the card that was in the slot when it was made, or for the next one if there was none.
/// Once another card has taken its place each call fails with [`Error::Changed`]: what a file
/// system knows of one card is not written to the next. So does a card that was taken out and put
/// back, for its blocks may have changed meanwhile. A program that has looked at the new card makes
/// a new handle, or calls [`rebind`](Self::rebind).
///
/// Of writes that the card has lost, the
/// [flush](Self::flush) of each handle is told once: users that do not know of each other's flushes
/// have a handle each.
///
/// The queue has `N` slots ([`Stack`]), or as many as
/// [`Config::admitted`](crate::engine::Config::admitted) says. No call waits for a free one: with
/// all of them taken it is [`Error::Full`], nothing was begun, and the buffer comes back at once. A
/// program therefore has no more requests under way than slots, or tries again when one of its
/// requests has ended.
///
/// All handles are client 0 to a [scheduler](crate::sched), and no call takes a priority or a time
/// limit. A client of its own goes by [`Stack::request`] and [`Request::from`]. A caller that will
/// not wait any longer drops the future.
#[derive(Debug)]
pub struct BlockDevice<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    card: CardNumber,
    /// Losses that its flushes have told of, or that were before it.
    losses: AtomicU8,
}

/// What the first has been told of, the second has too.
impl<B: Platform, const N: usize> Clone for BlockDevice<'_, B, N> {
    fn clone(&self) -> Self {
        BlockDevice { stack: self.stack, card: self.card, losses: AtomicU8::new(self.losses.load(Relaxed)) }
    }
}

impl<'a, B: Platform, const N: usize> BlockDevice<'a, B, N> {
    /// The card behind `stack`, once it has been brought up.
    pub fn new(stack: &'a Stack<B, N>) -> Self {
        // Made inside another call it knows of none, and its first flush tells of those that were.
        let losses = AtomicU8::new(losses(stack).unwrap_or(0));
        BlockDevice { stack, card: stack.enter(CardNumber::ANY, |engine| engine.card_number()), losses }
    }

    /// Is for the card that is in the slot now, as a new handle would be: the program has looked at
    /// it, and knows nothing of the one before any more.
    pub fn rebind(&mut self) {
        *self = BlockDevice::new(self.stack);
    }

    fn request(&self, kind: Kind, buf: DmaBuf) -> Request {
        Request::new(kind, buf).for_card(self.card)
    }

    /// What the card offers; `None` without it.
    pub fn geometry(&self) -> Option<Geometry> {
        self.stack.with(|engine| {
            let target = *engine.card_params()?;
            if self.card != engine.card_number() {
                return None;
            }
            let caps = engine.caps();
            let erase = &engine.abilities().erase;
            Some(Geometry {
                blocks: target.sectors,
                transfer_blocks: caps.max_blocks.min(caps.max_bytes / BLOCK_BYTES),
                align: caps.align,
                volatile_cache: target.flush != crate::engine::FlushBy::Status
                    || B::Host::CONTINUES && caps.continue_data
                    || engine.tells_transferred(),
                discard_blocks: erase.discarding().map_or(0, |how| erase.grain_blocks(how)),
                erase_blocks: erasing(erase).map_or(0, |how| erase.grain_blocks(how)),
                zeros_by_erase: erase.zeroing(0, erase.group_blocks).is_some(),
                protected: target.protected,
            })
        })
    }

    /// Reads into an owned buffer; its whole blocks are filled from `lba` on.
    pub async fn read(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        self.moved(Kind::Read { lba, blocks }, buf).await
    }

    /// Writes the whole blocks of an owned buffer from `lba` on. Done means: the card has reported
    /// them programmed. Where [`Geometry::volatile_cache`], it means less: the card has taken them,
    /// and a [`flush`](Self::flush) makes them durable.
    pub async fn write(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        self.moved(Kind::Write { lba, blocks }, buf).await
    }

    async fn moved(&self, kind: Kind, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let done = self.stack.request(self.request(kind, buf)).await;
        let blocks_done = done.done_bytes / BLOCK_BYTES;
        (done.result.map(|_| blocks_done).map_err(|error| BlockError { error, blocks_done }), done.buf)
    }

    /// As [`write`](Self::write), but done means: on the medium, past every cache. Other writes
    /// need not be.
    ///
    /// It works after any bring-up. After
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) it is one reliable write
    /// where the card has them; otherwise a write and, with a cache, a flush.
    ///
    /// # Errors
    /// [`Error::CacheLost`]: writes *before* this one are lost, as in [`flush`](Self::flush); this
    /// one was not begun, and may be tried again. [`Error::Unsupported`]: firmware without recovery
    /// ([`Profile::RECOVERS`]).
    pub async fn write_durable(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        self.stack.with(|engine| engine.enable_extended_ops());
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        let done = self.stack.request(self.request(Kind::Write { lba, blocks }, buf).durable()).await;
        let blocks_done = done.done_bytes / BLOCK_BYTES;
        (done.result.map(|_| blocks_done).map_err(|error| BlockError { error, blocks_done }), done.buf)
    }

    /// The content of these blocks is needed no more: until they are written again they read as
    /// before or as erased, and not each time the same: the card may free them later, and no flush
    /// settles that. What the card cannot free exactly it keeps. Others have their turn in between;
    /// what overlaps keeps its order.
    ///
    /// # Errors
    /// [`Error::Unequipped`]: call [`card::enable_extended_ops`](crate::card::enable_extended_ops)
    /// after bring-up. [`Error::Unsupported`]: the card cannot free blocks.
    pub async fn discard(&self, lba: u64, blocks: u32) -> Result<(), Error> {
        match self.discard_kind(lba, blocks)? {
            None => Ok(()),
            Some(kind) => self.erased(kind).await,
        }
    }

    /// The request that [`discard`](Self::discard) makes, for a caller that submits it itself.
    /// `None`: the card keeps these blocks, and there is nothing to do.
    pub fn discard_kind(&self, lba: u64, blocks: u32) -> Result<Option<Kind>, Error> {
        let (how, grain) = self.equipped(Erasing::discarding)?;
        // Whole pieces inside; at most the edges are kept.
        let first = lba.checked_next_multiple_of(grain).ok_or(Error::Unsupported)?;
        let end = lba.checked_add(blocks.into()).ok_or(Error::Unsupported)? / grain * grain;
        let inside = u32::try_from(end.saturating_sub(first)).unwrap_or(0);
        Ok((inside != 0).then_some(Kind::Erase { lba: first, blocks: inside, how }))
    }

    /// The one request after which just these blocks read as zeros, without memory, for a caller
    /// that submits it itself.
    ///
    /// # Errors
    /// As of [`erase`](Self::erase). [`Error::Unsupported`] also where the card's erased blocks are
    /// no zeros, or where more than these would go: then [`write_zeroes`](Self::write_zeroes) does.
    pub fn zero_kind(&self, lba: u64, blocks: u32) -> Result<Kind, Error> {
        let (how, _) = self.equipped(|erase| erase.zeroing(lba, blocks))?;
        Ok(Kind::Erase { lba, blocks, how })
    }

    /// These blocks read as erased ones do (all zeros or all ones, by card) when it returns. A
    /// flush makes it durable, as a write.
    ///
    /// # Errors
    /// [`Error::Unequipped`]: call [`card::enable_extended_ops`](crate::card::enable_extended_ops)
    /// after bring-up. [`Error::Unaligned`]: the card can only erase groups
    /// ([`Geometry::erase_blocks`]), and more than these would go. [`Error::Unsupported`]: the card
    /// cannot erase.
    pub async fn erase(&self, lba: u64, blocks: u32) -> Result<(), Error> {
        let (how, _) = self.equipped(erasing)?;
        self.erased(Kind::Erase { lba, blocks, how }).await
    }

    /// These blocks read as zeros when it returns: by an erase where that is exact, else by writing
    /// `zeros` as often as it takes. The buffer is cleared first; it may be as short as one block,
    /// and empty where [`Geometry::zeros_by_erase`]. A flush makes them durable, as a write.
    ///
    /// It works after any bring-up. It erases only after
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops).
    pub async fn write_zeroes(
        &self,
        lba: u64,
        blocks: u32,
        mut zeros: DmaBuf,
    ) -> (Result<(), Error>, DmaBuf) {
        self.stack.with(|engine| engine.enable_extended_ops());
        for byte in zeros.iter_mut() {
            *byte = 0;
        }
        let mut done = 0;
        while done < blocks {
            let piece = (blocks - done).min(ZERO_BLOCKS);
            let lba = lba.saturating_add(u64::from(done));
            let ended = self.stack.request(self.request(Kind::Zero { lba, blocks: piece }, zeros)).await;
            zeros = ended.buf;
            if let Err(error) = ended.result {
                return (Err(error), zeros);
            }
            done += piece;
        }
        (Ok(()), zeros)
    }

    /// The kind of erase that `choose` picks, and the blocks it takes as one.
    fn equipped(&self, choose: impl FnOnce(&Erasing) -> Option<Erase>) -> Result<(Erase, u64), Error> {
        self.stack.with(|engine| {
            engine.enable_extended_ops();
            engine.card_params().ok_or(Error::NoCard)?;
            if !engine.abilities().are_known() {
                return Err(Error::Unequipped);
            }
            let erase = &engine.abilities().erase;
            let how = choose(erase).ok_or(Error::Unsupported)?;
            Ok((how, u64::from(erase.grain_blocks(how))))
        })
    }

    async fn erased(&self, kind: Kind) -> Result<(), Error> {
        self.stack.request(self.request(kind, DmaBuf::EMPTY)).await.result.map(|_| ())
    }

    /// Everything written before this was called is on the medium when it returns.
    ///
    /// # Errors
    /// [`Error::CacheLost`], or [`Error::Program`] where the card says so much: complete writes
    /// that no flush had covered are lost. The next flush of each other handle fails as well, with
    /// `CacheLost`; after that they count what is written from then on.
    pub async fn flush(&self) -> Result<(), Error> {
        let done = self.stack.request(self.request(Kind::Flush, DmaBuf::EMPTY)).await;
        self.told(done.result)
    }

    /// A flush of another handle may have been told of a loss.
    fn told(&self, result: Result<Output, Error>) -> Result<(), Error> {
        if !B::Profile::RECOVERS {
            return result.map(|_| ());
        }
        let before = self.losses.load(Relaxed);
        let now = losses(self.stack).unwrap_or(before);
        let told = match result {
            Ok(_) if now != before => Err(Error::CacheLost),
            _ => result.map(|_| ()),
        };
        // Only these say that something is lost. Another answer leaves it to the next flush.
        if let Err(Error::CacheLost | Error::Program(_)) = told {
            self.losses.store(now, Relaxed);
        }
        told
    }

    /// Reads into borrowed memory; returns when the controller has let go of it. `idle` is called
    /// while it waits, by the rules of [`Idle`].
    ///
    /// The memory is a whole number of blocks, begins at a multiple of [`Geometry::align`], and is
    /// where the controller can reach it. On a platform with caches its lines are invalidated; the
    /// alignment keeps memory of others out of them.
    ///
    /// # Errors
    /// [`Error::Buffer`]: no whole number of blocks. [`Error::Dma`] with
    /// [`DmaError::Alignment`](crate::host::DmaError::Alignment) or
    /// [`Unreachable`](crate::host::DmaError::Unreachable): the controller cannot use this memory;
    /// [`Bounced`] can. In both cases nothing was read, and the memory is as it was.
    pub fn read_blocking(&self, lba: u64, memory: &mut [u8], idle: impl FnMut(&Idle)) -> Result<u32, Error> {
        let blocks = whole_blocks(memory.len())?;
        let request = self.request(Kind::Read { lba, blocks }, DmaBuf::EMPTY);
        // SAFETY: the exclusive borrow lasts until this returns.
        let output = unsafe { self.stack.lent(request, NonNull::from(memory), idle) }?;
        Ok(output.bytes / BLOCK_BYTES)
    }

    /// Writes from borrowed memory; returns when the card has it, as [`write`](Self::write) says.
    /// The memory's rules and the errors are those of [`read_blocking`](Self::read_blocking).
    pub fn write_blocking(&self, lba: u64, memory: &[u8], idle: impl FnMut(&Idle)) -> Result<u32, Error> {
        self.write_lent(lba, memory, false, idle)
    }

    /// [`write_durable`](Self::write_durable) from borrowed memory; its rules and the errors are
    /// those of [`read_blocking`](Self::read_blocking).
    pub fn write_durable_blocking(
        &self,
        lba: u64,
        memory: &[u8],
        idle: impl FnMut(&Idle),
    ) -> Result<u32, Error> {
        self.stack.with(|engine| engine.enable_extended_ops());
        self.write_lent(lba, memory, true, idle)
    }

    #[inline(always)]
    fn write_lent(
        &self,
        lba: u64,
        memory: &[u8],
        durable: bool,
        idle: impl FnMut(&Idle),
    ) -> Result<u32, Error> {
        let blocks = whole_blocks(memory.len())?;
        let request = Request { durable, ..self.request(Kind::Write { lba, blocks }, DmaBuf::EMPTY) };
        // SAFETY: the borrow lasts until this returns, and a write only reads the memory.
        let output = unsafe { self.stack.lent(request, NonNull::from(memory), idle) }?;
        Ok(output.bytes / BLOCK_BYTES)
    }

    /// [`flush`](Self::flush) on this thread.
    pub fn flush_blocking(&self, idle: impl FnMut(&Idle)) -> Result<(), Error> {
        self.told(self.stack.blocking(self.request(Kind::Flush, DmaBuf::EMPTY), idle).result)
    }
}

/// Losses of complete writes so far. `None`: inside another call, or no firmware that tells of any.
fn losses<B: Platform, const N: usize>(stack: &Stack<B, N>) -> Option<u8> {
    if !B::Profile::RECOVERS {
        return None;
    }
    stack.with(|engine| (!engine.is_nested()).then(|| engine.losses()))
}

/// Blocks of one request for zeroes.
const ZERO_BLOCKS: u32 = 1 << 22;

/// The erase after which blocks read as erased.
fn erasing(by: &Erasing) -> Option<Erase> {
    [Erase::Trim, Erase::Erase].into_iter().find(|&how| by.can(how))
}

fn whole_blocks(bytes: usize) -> Result<u32, Error> {
    let given = u32::try_from(bytes).map_err(|_| Error::Unsupported)?;
    if given % BLOCK_BYTES != 0 {
        return Err(Error::Buffer { needed: given.next_multiple_of(BLOCK_BYTES), given });
    }
    Ok(given / BLOCK_BYTES)
}

/// The whole blocks of a buffer, in bytes.
fn bounce_bytes(buf: &DmaBuf) -> usize {
    (buf.len_bytes() - buf.len_bytes() % BLOCK_BYTES) as usize
}

/// A device that copies through a buffer of its own: for memory that is unaligned, out of the
/// controller's reach, or merely borrowed in async code.
#[derive(Debug)]
pub struct Bounced<'a, B: Platform, const N: usize> {
    device: BlockDevice<'a, B, N>,
    /// Away while a request has it.
    bounce: Option<DmaBuf>,
    claim: Claim,
}

impl<'a, B: Platform, const N: usize> Bounced<'a, B, N> {
    /// Copies through `bounce`, at least a block long; longer is faster.
    pub fn new(device: BlockDevice<'a, B, N>, bounce: DmaBuf) -> Result<Self, Error> {
        match bounce.len_bytes() {
            0..BLOCK_BYTES => Err(Error::Buffer { needed: BLOCK_BYTES, given: bounce.len_bytes() }),
            _ => Ok(Bounced { device, claim: bounce.claim(), bounce: Some(bounce) }),
        }
    }

    /// The buffer; if a call was dropped half-way, the one that the engine has kept for us.
    fn bounce(&mut self) -> Result<DmaBuf, Error> {
        let claim = self.claim;
        let taken = self.bounce.take().or_else(|| self.device.stack.with(|engine| engine.reclaim(claim)));
        taken.filter(|buf| buf.len_bytes() >= BLOCK_BYTES).ok_or(Error::Full)
    }

    /// Reads into any memory, a whole number of blocks.
    pub async fn read(&mut self, lba: u64, memory: &mut [u8]) -> Result<u32, BlockError> {
        whole_blocks(memory.len()).map_err(|error| BlockError { error, blocks_done: 0 })?;
        let mut done = 0;
        let mut left = memory;
        while !left.is_empty() {
            let bounce = self.bounce().map_err(|error| BlockError { error, blocks_done: done })?;
            // Split by what `min` has just bounded: the compiler sees that it cannot fail.
            let bytes = left.len().min(bounce_bytes(&bounce));
            let (now, later) = left.split_at_mut(bytes);
            let blocks = bytes as u32 / BLOCK_BYTES;
            let (result, bounce) =
                self.device.moved(Kind::Read { lba: lba + u64::from(done), blocks }, bounce).await;
            if result.is_ok() {
                for (to, from) in now.iter_mut().zip(bounce.iter()) {
                    *to = *from;
                }
            }
            self.bounce = Some(bounce);
            result.map_err(|p| BlockError { error: p.error, blocks_done: done + p.blocks_done })?;
            done += blocks;
            left = later;
        }
        Ok(done)
    }

    /// Writes from any memory, a whole number of blocks.
    pub async fn write(&mut self, lba: u64, memory: &[u8]) -> Result<u32, BlockError> {
        whole_blocks(memory.len()).map_err(|error| BlockError { error, blocks_done: 0 })?;
        let mut done = 0;
        let mut left = memory;
        while !left.is_empty() {
            let mut bounce = self.bounce().map_err(|error| BlockError { error, blocks_done: done })?;
            let (now, later) = left.split_at(left.len().min(bounce_bytes(&bounce)));
            let blocks = now.len() as u32 / BLOCK_BYTES;
            for (to, from) in bounce.iter_mut().zip(now.iter()) {
                *to = *from;
            }
            let (result, bounce) =
                self.device.moved(Kind::Write { lba: lba + u64::from(done), blocks }, bounce).await;
            self.bounce = Some(bounce);
            result.map_err(|p| BlockError { error: p.error, blocks_done: done + p.blocks_done })?;
            done += blocks;
            left = later;
        }
        Ok(done)
    }

    /// As [`BlockDevice::rebind`].
    pub fn rebind(&mut self) {
        self.device.rebind();
    }

    /// The handle without the copy.
    pub fn device(&self) -> &BlockDevice<'a, B, N> {
        &self.device
    }

    /// As [`BlockDevice::flush`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.device.flush().await
    }
}

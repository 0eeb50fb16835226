//! A card as a block device: read, write, flush; durable writes, discard, erase, zeroes.
//!
//! A caller passes memory in one of three ways, from the fastest to the least demanding:
//! - owned buffers that travel through the call ([`BlockDevice::read`]),
//! - borrowed memory in a blocking call ([`BlockDevice::read_blocking`]),
//! - any memory, copied through a buffer of the device ([`Bounced`]).
//!
//! Blocks have 512 bytes. A request that is longer than the host's largest transfer is split, and
//! the result has the number of blocks done.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

mod partition;
mod stream_test;

use crate::engine::{BLOCK_BYTES, CardNumber, Claim, DmaBuf, Erase, Erasing, Error, Kind, Output, Request};
use crate::host::Host;
use crate::sched::Profile;
use crate::task::{Idle, Platform, Stack};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
pub use partition::Partition;
pub use stream_test::{
    StreamCase, StreamOutcome, StreamResult, StreamTest, StreamTimes, StreamVerdict, stream_test,
};

/// Memory of one block, aligned to cache lines of its own, which every controller accepts. (A plain
/// array of bytes begins at any address, and may be refused: [`Geometry::align`].)
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

/// Size and abilities of a card, as a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// Size of the card in blocks of 512 bytes.
    pub blocks: u64,
    /// Largest transfer that goes to the controller as one, in blocks; requests may be larger.
    pub transfer_blocks: u32,
    /// Alignment of buffers in bytes, as the controller and the platform's cache lines require it.
    /// Memory with a smaller alignment goes through [`Bounced`].
    pub align: u32,
    /// Whether data are durable only after a flush. Three cases: the card's write cache is on; the
    /// host continues transfers ([`Caps::continue_data`](crate::host::Caps::continue_data)); the
    /// engine [acknowledges](crate::engine::Config::acknowledge) transferred data. In each of them
    /// a write is complete when the card has taken its data.
    pub volatile_cache: bool,
    /// Unit of [`BlockDevice::discard`] in blocks: only whole units are freed. 0: the card cannot
    /// free blocks, or [`card::enable_extended_ops`](crate::card::enable_extended_ops) has not been
    /// called since bring-up.
    pub discard_blocks: u32,
    /// Number of blocks in the smallest unit of an erase: the range of [`BlockDevice::erase`] must
    /// begin and end at a multiple of it. 0: the card cannot erase, or
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) has not been called since
    /// bring-up.
    pub erase_blocks: u32,
    /// Whether erased blocks read as zeros, so that an erase of whole
    /// [`erase_blocks`](Self::erase_blocks) writes zeros. Also false where
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) has not been called since
    /// bring-up.
    pub zeros_by_erase: bool,
    /// Whether the card is write-protected.
    pub protected: bool,
}

/// A failed request, with the number of blocks that are certainly done.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockError {
    /// Why the request failed.
    pub error: Error,
    /// Number of blocks from the start of the request that are certainly done.
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

/// Converts to the error alone, without the number of blocks done.
impl From<BlockError> for Error {
    fn from(partial: BlockError) -> Error {
        partial.error
    }
}

/// A handle on a card. A program may have any number of handles; all share one queue.
///
/// A handle is bound to the card that was in the card slot when the handle was made, or to the next
/// card if that slot was empty. When another card has taken its place, each call fails with
/// [`Error::Changed`]. So a file system's data for one card are never written to the next. A card
/// that was taken out and put back also counts as another card, for its blocks may have changed
/// meanwhile. An absence of less than 50 ms does not count: it is a bounce of the card-detect
/// switch. A program that has examined the new card makes a new handle, or calls
/// [`rebind`](Self::rebind).
///
/// When the card has lost complete writes, the next [flush](Self::flush) of each handle reports the
/// loss; later flushes of that handle do not report it again. Users that do not see each other's
/// flushes need a handle each.
///
/// The queue has `N` slots ([`Stack`]), or [`Config::admitted`](crate::engine::Config::admitted) if
/// that is less. No call waits for a free slot. While all slots are in use, a call begins nothing,
/// returns [`Error::Full`], and gives the buffer back at once. So a program has no more requests
/// under way than slots, or tries again when one of its requests has ended.
///
/// All handles are client 0 of a [scheduler](crate::sched), and no call takes a priority or a time
/// limit. A program that wants a client number of its own uses [`Stack::request`] and
/// [`Request::from`]. A caller that will not wait any longer drops the future.
#[derive(Debug)]
pub struct BlockDevice<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    card: CardNumber,
    /// The engine's count of losses of complete writes
    /// ([`Engine::losses`](crate::engine::Engine::losses)), as it was when this handle was made or
    /// when one of its flushes last reported a loss.
    losses: AtomicU8,
}

/// Makes a copy of the handle. If the original has reported a loss of written data, the copy does
/// not report it again.
impl<B: Platform, const N: usize> Clone for BlockDevice<'_, B, N> {
    fn clone(&self) -> Self {
        BlockDevice { stack: self.stack, card: self.card, losses: AtomicU8::new(self.losses.load(Relaxed)) }
    }
}

impl<'a, B: Platform, const N: usize> BlockDevice<'a, B, N> {
    /// Makes a handle on the card behind `stack`. The card has been brought up before.
    pub fn new(stack: &'a Stack<B, N>) -> Self {
        // A handle made inside another call knows no earlier losses: its first flush reports them.
        let losses = AtomicU8::new(losses(stack).unwrap_or(0));
        BlockDevice { stack, card: stack.enter(CardNumber::ANY, |engine| engine.card_number()), losses }
    }

    /// Binds the handle to the card that is in the card slot now, as a new handle would be. The
    /// program calls this when it has examined this card and dropped what it knew of the previous
    /// card.
    pub fn rebind(&mut self) {
        *self = BlockDevice::new(self.stack);
    }

    fn request(&self, kind: Kind, buf: DmaBuf) -> Request {
        Request::new(kind, buf).for_card(self.card)
    }

    /// Returns size and abilities of the card; `None`: there is no card, or the card is another one
    /// than the handle's.
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

    /// Reads from block `lba` on into an owned buffer, as many whole blocks as the buffer has.
    /// Returns the number of blocks that were read, and the buffer.
    pub async fn read(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        self.moved(Kind::Read { lba, blocks }, buf).await
    }

    /// Writes the whole blocks of an owned buffer from `lba` on. On success the card has reported
    /// them programmed. Where [`Geometry::volatile_cache`] is true, success means less: the card
    /// has taken the data, and a [`flush`](Self::flush) makes them durable.
    pub async fn write(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        self.moved(Kind::Write { lba, blocks }, buf).await
    }

    /// Reads from `lba` on like [`read`](Self::read), into the blocks `part` of a larger buffer:
    /// `0..3` are its first three blocks. The other blocks keep their content, and no data are
    /// copied.
    ///
    /// # Errors
    /// [`Error::Buffer`]: the buffer ends before the part does. [`Error::Unsupported`]: the part
    /// begins after block 32767 of the buffer. In both cases nothing was read or written.
    pub async fn read_part(
        &self,
        lba: u64,
        buf: DmaBuf,
        part: Range<u32>,
    ) -> (Result<u32, BlockError>, DmaBuf) {
        self.moved_part(buf, part, |blocks| Kind::Read { lba, blocks }).await
    }

    /// Writes the blocks `part` of a larger buffer from `lba` on, like [`write`](Self::write):
    /// `0..3` are its first three blocks. No data are copied.
    ///
    /// # Errors
    /// As for [`read_part`](Self::read_part).
    pub async fn write_part(
        &self,
        lba: u64,
        buf: DmaBuf,
        part: Range<u32>,
    ) -> (Result<u32, BlockError>, DmaBuf) {
        self.moved_part(buf, part, |blocks| Kind::Write { lba, blocks }).await
    }

    async fn moved_part(
        &self,
        buf: DmaBuf,
        part: Range<u32>,
        kind: impl FnOnce(u32) -> Kind,
    ) -> (Result<u32, BlockError>, DmaBuf) {
        let (needed, given) = (part.end.saturating_mul(BLOCK_BYTES), buf.len_bytes());
        let first = part.start.saturating_mul(BLOCK_BYTES);
        let error = match () {
            () if needed > given || part.end > given / BLOCK_BYTES => Error::Buffer { needed, given },
            () if first > DmaBuf::AFTER_MAX => Error::Unsupported,
            () => {
                let kind = kind(part.end.saturating_sub(part.start));
                let (result, buf) = self.moved(kind, buf.after(first)).await;
                return (result, buf.whole());
            }
        };
        (Err(BlockError { error, blocks_done: 0 }), buf)
    }

    async fn moved(&self, kind: Kind, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        let done = self.stack.request(self.request(kind, buf)).await;
        let blocks_done = done.done_bytes / BLOCK_BYTES;
        (done.result.map(|_| blocks_done).map_err(|error| BlockError { error, blocks_done }), done.buf)
    }

    /// Writes as [`write`](Self::write) does, but on success the data are on the medium, past every
    /// cache. Earlier writes need not be on the medium then.
    ///
    /// Works after any bring-up. After
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) the call is one reliable
    /// write if a cache is on and the card has reliable writes. Otherwise it is a write and, with a
    /// cache, a flush.
    ///
    /// # Errors
    /// [`Error::CacheLost`]: writes *before* this one are lost, as with [`flush`](Self::flush);
    /// this write was not begun, and may be tried again. [`Error::Unsupported`]: firmware without
    /// recovery ([`Profile::RECOVERS`]).
    pub async fn write_durable(&self, lba: u64, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        self.stack.with(|engine| engine.enable_extended_ops());
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        let done = self.stack.request(self.request(Kind::Write { lba, blocks }, buf).durable()).await;
        let blocks_done = done.done_bytes / BLOCK_BYTES;
        (done.result.map(|_| blocks_done).map_err(|error| BlockError { error, blocks_done }), done.buf)
    }

    /// Declares the content of these blocks as not needed any more. Until the blocks are written
    /// again, a read may return their old content or that of erased blocks. One read may differ
    /// from the next, since the card may free the blocks later; a flush does not change that.
    /// Blocks that the card cannot free exactly keep their content. A long discard is sent in
    /// pieces, and other requests may run between two pieces; requests that overlap the blocks keep
    /// their order.
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

    /// Returns the request that [`discard`](Self::discard) makes, for a caller that submits it
    /// itself. `None`: the card keeps these blocks, and nothing has to be sent.
    pub fn discard_kind(&self, lba: u64, blocks: u32) -> Result<Option<Kind>, Error> {
        let (how, grain) = self.equipped(Erasing::discarding)?;
        // Whole units inside of the range are freed; blocks at its edges may be kept.
        let first = lba.checked_next_multiple_of(grain).ok_or(Error::Unsupported)?;
        let end = lba.checked_add(blocks.into()).ok_or(Error::Unsupported)? / grain * grain;
        let inside = u32::try_from(end.saturating_sub(first)).unwrap_or(0);
        Ok((inside != 0).then_some(Kind::Erase { lba: first, blocks: inside, how }))
    }

    /// Returns the one request after which exactly these blocks read as zeros, without memory, for
    /// a caller that submits it itself.
    ///
    /// # Errors
    /// The errors of [`erase`](Self::erase). [`Error::Unsupported`] also where the card's erased
    /// blocks are not zeros, or where an erase would clear more than these blocks: use
    /// [`write_zeroes`](Self::write_zeroes) there.
    pub fn zero_kind(&self, lba: u64, blocks: u32) -> Result<Kind, Error> {
        let (how, _) = self.equipped(|erase| erase.zeroing(lba, blocks))?;
        Ok(Kind::Erase { lba, blocks, how })
    }

    /// Erases these blocks: when the call returns they read as erased blocks do (all zeros or all
    /// ones, as the card has it). Only a flush makes the erase durable, as for a write.
    ///
    /// # Errors
    /// [`Error::Unequipped`]: call [`card::enable_extended_ops`](crate::card::enable_extended_ops)
    /// after bring-up. [`Error::Unaligned`]: the card can only erase whole groups
    /// ([`Geometry::erase_blocks`]), and other blocks would be erased too. [`Error::Unsupported`]:
    /// the card cannot erase.
    pub async fn erase(&self, lba: u64, blocks: u32) -> Result<(), Error> {
        let (how, _) = self.equipped(erasing)?;
        self.erased(Kind::Erase { lba, blocks, how }).await
    }

    /// Writes zeros to these blocks: by an erase where it clears exactly these blocks, otherwise by
    /// writing the buffer `zeros` as many times as needed. The buffer is cleared first. It has at
    /// least one block; it may be empty where an erase clears exactly these blocks
    /// ([`zero_kind`](Self::zero_kind) returns `Ok`). A flush makes the zeros durable, as with a
    /// write.
    ///
    /// Works after any bring-up. Erases are used only after
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

    /// Enables erases on the engine. Returns the kind of erase that `choose` picks from the card's,
    /// and its unit in blocks.
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

    /// Flushes: when the call returns, everything written before the call is on the medium.
    ///
    /// # Errors
    /// [`Error::CacheLost`], or [`Error::Program`] if the card reported the loss by a late error:
    /// complete writes that no earlier flush had covered are lost. The next flush of each other
    /// handle fails as well, with `CacheLost`. Later flushes cover only what is written after that.
    pub async fn flush(&self) -> Result<(), Error> {
        let done = self.stack.request(self.request(Kind::Flush, DmaBuf::EMPTY)).await;
        self.told(done.result)
    }

    /// Returns the result of this handle's flush. A success becomes [`Error::CacheLost`] if the
    /// engine has counted a loss that no flush of this handle has reported yet.
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
        // Only these results report a loss. Any other result leaves the loss to the next flush.
        if let Err(Error::CacheLost | Error::Program(_)) = told {
            self.losses.store(now, Relaxed);
        }
        told
    }

    /// Reads into borrowed memory. Returns when the controller does not use the memory any more.
    /// The call runs `idle` while it waits, by the rules of [`Idle`].
    ///
    /// The memory is a whole number of blocks, begins at a multiple of [`Geometry::align`], and is
    /// where the controller can reach it. On a platform with caches the lines of this memory are
    /// invalidated; with this alignment no such line has other data.
    ///
    /// # Errors
    /// [`Error::Buffer`]: the memory is not a whole number of blocks. [`Error::Dma`] with
    /// [`DmaError::Alignment`](crate::host::DmaError::Alignment) or
    /// [`Unreachable`](crate::host::DmaError::Unreachable): the controller cannot use this memory,
    /// but [`Bounced`] can. In both cases nothing was read, and the memory is unchanged.
    pub fn read_blocking(&self, lba: u64, memory: &mut [u8], idle: impl FnMut(&Idle)) -> Result<u32, Error> {
        let blocks = whole_blocks(memory.len())?;
        let request = self.request(Kind::Read { lba, blocks }, DmaBuf::EMPTY);
        // SAFETY: the exclusive borrow lasts until this returns.
        let output = unsafe { self.stack.lent(request, NonNull::from(memory), idle) }?;
        Ok(output.bytes / BLOCK_BYTES)
    }

    /// Writes from borrowed memory. Returns when the write is complete, with the same guarantee as
    /// [`write`](Self::write). For the memory's rules and the errors see
    /// [`read_blocking`](Self::read_blocking).
    pub fn write_blocking(&self, lba: u64, memory: &[u8], idle: impl FnMut(&Idle)) -> Result<u32, Error> {
        self.write_lent(lba, memory, false, idle)
    }

    /// Writes from borrowed memory as [`write_durable`](Self::write_durable) does. For the memory's
    /// rules and the errors see [`read_blocking`](Self::read_blocking).
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

    /// Flushes as [`flush`](Self::flush) does, and waits on this thread.
    pub fn flush_blocking(&self, idle: impl FnMut(&Idle)) -> Result<(), Error> {
        self.told(self.stack.blocking(self.request(Kind::Flush, DmaBuf::EMPTY), idle).result)
    }
}

/// Returns how many times complete writes were lost so far. `None`: the call came from inside
/// another call of the stack, or the firmware does not report losses ([`Profile::RECOVERS`]).
fn losses<B: Platform, const N: usize>(stack: &Stack<B, N>) -> Option<u8> {
    if !B::Profile::RECOVERS {
        return None;
    }
    stack.with(|engine| (!engine.is_nested()).then(|| engine.losses()))
}

/// Largest number of blocks that one request to write zeroes covers.
const ZERO_BLOCKS: u32 = 1 << 22;

/// Returns the kind of erase after which blocks read as erased; `None`: the card has none.
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

/// Returns how many bytes of a copy buffer are usable: its length, rounded down to whole blocks.
fn bounce_bytes(buf: &DmaBuf) -> usize {
    (buf.len_bytes() - buf.len_bytes() % BLOCK_BYTES) as usize
}

/// A block device that copies through a buffer of its own. It is for memory that the controller
/// cannot use (unaligned, or out of its reach), and for memory that async code has only borrowed.
#[derive(Debug)]
pub struct Bounced<'a, B: Platform, const N: usize> {
    device: BlockDevice<'a, B, N>,
    /// The buffer through which data are copied; `None` while a request that is under way owns it.
    bounce: Option<DmaBuf>,
    claim: Claim,
}

impl<'a, B: Platform, const N: usize> Bounced<'a, B, N> {
    /// Makes a device that copies through `bounce`, which is at least one block long. A longer
    /// buffer is faster.
    pub fn new(device: BlockDevice<'a, B, N>, bounce: DmaBuf) -> Result<Self, Error> {
        match bounce.len_bytes() {
            0..BLOCK_BYTES => Err(Error::Buffer { needed: BLOCK_BYTES, given: bounce.len_bytes() }),
            _ => Ok(Bounced { device, claim: bounce.claim(), bounce: Some(bounce) }),
        }
    }

    /// Takes the copy buffer. After a dropped call, takes the buffer back from the engine.
    fn bounce(&mut self) -> Result<DmaBuf, Error> {
        let claim = self.claim;
        let taken = self.bounce.take().or_else(|| self.device.stack.with(|engine| engine.reclaim(claim)));
        taken.filter(|buf| buf.len_bytes() >= BLOCK_BYTES).ok_or(Error::Full)
    }

    /// Reads blocks from `lba` on into any memory, whose length is a whole number of blocks.
    /// Returns the number of blocks read.
    pub async fn read(&mut self, lba: u64, memory: &mut [u8]) -> Result<u32, BlockError> {
        whole_blocks(memory.len()).map_err(|error| BlockError { error, blocks_done: 0 })?;
        let mut done = 0;
        let mut left = memory;
        while !left.is_empty() {
            let bounce = self.bounce().map_err(|error| BlockError { error, blocks_done: done })?;
            // The length was just bounded by `min`, so the compiler sees that the split cannot
            // fail.
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

    /// Writes `memory`, a whole number of blocks, to the card from block `lba` on. Returns the
    /// number of blocks that were written.
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

    /// Binds the device to the present card, as [`BlockDevice::rebind`] does.
    pub fn rebind(&mut self) {
        self.device.rebind();
    }

    /// Returns the [`BlockDevice`] that this one uses. Calls on it copy nothing, so they need a
    /// buffer that the controller can access.
    pub fn device(&self) -> &BlockDevice<'a, B, N> {
        &self.device
    }

    /// Flushes, as [`BlockDevice::flush`] does.
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.device.flush().await
    }
}

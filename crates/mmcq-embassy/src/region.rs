//! Reads and writes a card's bytes at any offset.

use crate::disk::BLOCK;
use mmcq::block::{BlockDevice, BlockError, Bounced};
use mmcq::engine::{DmaBuf, Error};
use mmcq::task::{Platform, Stack};

/// A part of a card whose bytes can be read and written at any offset, for example settings in a
/// few blocks. With feature `embedded-storage` it implements the traits `ReadStorage` and `Storage`
/// of `embedded-storage-async`.
///
/// A write that begins or ends inside of a block reads that block first. So no other handle may
/// write to the same blocks during the write. If the card follows its standard, a power failure
/// during a write leaves each block with its old or its new content. The traits have no flush: call
/// [`flush`](Self::flush) when the data must be durable.
#[derive(Debug)]
pub struct Region<'a, B: Platform, const N: usize> {
    copying: Bounced<'a, B, N>,
    first: u64,
    blocks: u64,
    /// Whether the region is the whole card.
    whole: bool,
}

/// A part of a request, which ends at a block boundary or at the end of the request.
struct Piece {
    lba: u64,
    /// Offset of the part in its first block, in bytes.
    within: usize,
    bytes: usize,
}

impl<'a, B: Platform, const N: usize> Region<'a, B, N> {
    /// Makes a region of the whole card. Data are copied through `bounce`, which has at least one
    /// block; a longer buffer is faster.
    ///
    /// # Errors
    /// [`Error::NoCard`] before bring-up.
    pub fn new(stack: &'a Stack<B, N>, bounce: DmaBuf) -> Result<Self, Error> {
        let device = BlockDevice::new(stack);
        let blocks = device.geometry().ok_or(Error::NoCard)?.blocks;
        Ok(Region { copying: Bounced::new(device, bounce)?, first: 0, blocks, whole: true })
    }

    /// Makes a region of `blocks` blocks from block `first` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the card has fewer blocks.
    pub fn part(stack: &'a Stack<B, N>, bounce: DmaBuf, first: u64, blocks: u64) -> Result<Self, Error> {
        let device = BlockDevice::new(stack);
        let sectors = device.geometry().ok_or(Error::NoCard)?.blocks;
        if first.checked_add(blocks).is_none_or(|end| end > sectors) {
            return Err(Error::OutOfRange { lba: first, sectors });
        }
        Ok(Region { copying: Bounced::new(device, bounce)?, first, blocks, whole: false })
    }

    /// Binds the region to the card that is in the slot now, like [`BlockDevice::rebind`]: the
    /// whole card, or the same part of it.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new) and [`part`](Self::part); then the region stays bound to
    /// the earlier card.
    pub fn rebind(&mut self) -> Result<(), Error> {
        let mut now = self.copying.device().clone();
        now.rebind();
        let sectors = now.geometry().ok_or(Error::NoCard)?.blocks;
        if self.whole {
            self.blocks = sectors;
        } else if self.first.saturating_add(self.blocks) > sectors {
            return Err(Error::OutOfRange { lba: self.first, sectors });
        }
        self.copying.rebind();
        Ok(())
    }

    /// Returns the length of the region in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.blocks.saturating_mul(BLOCK as u64)
    }

    /// Flushes the card: when the call returns, everything written before is on the medium.
    ///
    /// # Errors
    /// The errors of [`BlockDevice::flush`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        self.copying.flush().await
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), BlockError> {
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > self.len_bytes()) {
            let error = Error::OutOfRange { lba: offset / BLOCK as u64, sectors: self.blocks };
            return Err(BlockError { error, blocks_done: 0 });
        }
        Ok(())
    }

    /// Returns the first part of a request for `len` bytes from byte `offset` of the region on: the
    /// end of a block, whole blocks, or the beginning of a block.
    fn piece(&self, offset: u64, len: usize) -> Piece {
        let within = (offset % BLOCK as u64) as usize;
        let bytes = match within {
            0 if len >= BLOCK => len - len % BLOCK,
            _ => len.min(BLOCK - within),
        };
        Piece { lba: self.first + offset / BLOCK as u64, within, bytes }
    }

    /// Returns the error `failed` of one part of a request as the error of the whole request, which
    /// begins at byte `begin` of the region. The blocks before the part count as done too.
    fn of_whole(&self, begin: u64, part: &Piece, failed: BlockError) -> BlockError {
        let before = part.lba.saturating_sub(self.first + begin / BLOCK as u64);
        let before = u32::try_from(before).unwrap_or(u32::MAX);
        BlockError { blocks_done: failed.blocks_done.saturating_add(before), ..failed }
    }

    /// Reads from byte `offset` of the region on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] beyond the end of the region, and the errors of [`BlockDevice::read`].
    /// [`BlockError::blocks_done`] counts from the block in which the read begins.
    pub async fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), BlockError> {
        self.check(offset, bytes.len())?;
        let begin = offset;
        let (mut offset, mut left) = (offset, bytes);
        while !left.is_empty() {
            let piece = self.piece(offset, left.len());
            let (now, later) = left.split_at_mut(piece.bytes);
            if piece.bytes.is_multiple_of(BLOCK) {
                self.copying
                    .read(piece.lba, now)
                    .await
                    .map_err(|failed| self.of_whole(begin, &piece, failed))?;
            } else {
                let mut block = [0; BLOCK];
                self.copying
                    .read(piece.lba, &mut block)
                    .await
                    .map_err(|failed| self.of_whole(begin, &piece, failed))?;
                now.copy_from_slice(&block[piece.within..piece.within + piece.bytes]);
            }
            offset += piece.bytes as u64;
            left = later;
        }
        Ok(())
    }

    /// Writes from byte `offset` of the region on.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at) and of [`BlockDevice::write`].
    /// [`BlockError::blocks_done`] counts from the block in which the write begins.
    pub async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
        self.check(offset, bytes.len())?;
        let begin = offset;
        let (mut offset, mut left) = (offset, bytes);
        while !left.is_empty() {
            let piece = self.piece(offset, left.len());
            let (now, later) = left.split_at(piece.bytes);
            if piece.bytes.is_multiple_of(BLOCK) {
                self.copying
                    .write(piece.lba, now)
                    .await
                    .map_err(|failed| self.of_whole(begin, &piece, failed))?;
            } else {
                let mut block = [0; BLOCK];
                self.copying
                    .read(piece.lba, &mut block)
                    .await
                    .map_err(|failed| self.of_whole(begin, &piece, failed))?;
                block[piece.within..piece.within + piece.bytes].copy_from_slice(now);
                self.copying
                    .write(piece.lba, &block)
                    .await
                    .map_err(|failed| self.of_whole(begin, &piece, failed))?;
            }
            offset += piece.bytes as u64;
            left = later;
        }
        Ok(())
    }
}

/// Returns a length as `usize`, the type in the traits; the largest `usize` if it does not fit.
#[cfg(feature = "embedded-storage")]
pub(crate) fn capacity(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(feature = "embedded-storage")]
impl<B: Platform, const N: usize> embedded_storage_async::ReadStorage for Region<'_, B, N> {
    type Error = BlockError;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), BlockError> {
        self.read_at(offset.into(), bytes).await
    }

    fn capacity(&self) -> usize {
        capacity(self.len_bytes())
    }
}

#[cfg(feature = "embedded-storage")]
impl<B: Platform, const N: usize> embedded_storage_async::Storage for Region<'_, B, N> {
    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), BlockError> {
        self.write_at(offset.into(), bytes).await
    }
}

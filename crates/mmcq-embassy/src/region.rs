//! Blocks of a card as bytes at any place.

use crate::disk::BLOCK;
use mmcq::block::{BlockDevice, BlockError, Bounced};
use mmcq::engine::{DmaBuf, Error};
use mmcq::task::{Platform, Stack};

/// A part of a card whose bytes are read and written at any offset: settings in a few blocks, say.
/// With feature `embedded-storage` it has the traits `ReadStorage` and `Storage` of
/// `embedded-storage-async`.
///
/// A write that begins or ends inside of a block reads that block first. So no other handle may
/// write to the same blocks meanwhile. A power cut in a write leaves each of its blocks old or new,
/// where the card keeps to its standard. The traits have no flush: call [`flush`](Self::flush) when
/// the data must be safe.
#[derive(Debug)]
pub struct Region<'a, B: Platform, const N: usize> {
    copying: Bounced<'a, B, N>,
    first: u64,
    blocks: u64,
    /// It is all of the card.
    whole: bool,
}

/// Bytes of one request, cut at the borders of blocks.
struct Piece {
    lba: u64,
    /// Where it begins in its first block.
    within: usize,
    bytes: usize,
}

impl<'a, B: Platform, const N: usize> Region<'a, B, N> {
    /// All blocks of the card, copied through `bounce`, a block at least; longer is faster.
    ///
    /// # Errors
    /// [`Error::NoCard`] before bring-up.
    pub fn new(stack: &'a Stack<B, N>, bounce: DmaBuf) -> Result<Self, Error> {
        let device = BlockDevice::new(stack);
        let blocks = device.geometry().ok_or(Error::NoCard)?.blocks;
        Ok(Region { copying: Bounced::new(device, bounce)?, first: 0, blocks, whole: true })
    }

    /// So many blocks from `first` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] where the card has not so many.
    pub fn part(stack: &'a Stack<B, N>, bounce: DmaBuf, first: u64, blocks: u64) -> Result<Self, Error> {
        let device = BlockDevice::new(stack);
        let sectors = device.geometry().ok_or(Error::NoCard)?.blocks;
        if first.checked_add(blocks).is_none_or(|end| end > sectors) {
            return Err(Error::OutOfRange { lba: first, sectors });
        }
        Ok(Region { copying: Bounced::new(device, bounce)?, first, blocks, whole: false })
    }

    /// Is for the card that is in the slot now, as in [`BlockDevice::rebind`]: all of it, or the
    /// same part.
    ///
    /// # Errors
    /// As [`new`](Self::new) and [`part`](Self::part); it is for the card before then, as it was.
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

    /// Its length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.blocks.saturating_mul(BLOCK as u64)
    }

    /// Everything written before is on the medium when this returns.
    ///
    /// # Errors
    /// As [`BlockDevice::flush`].
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

    /// The next piece: the rest of a block that was begun, whole blocks, or the beginning of the
    /// last.
    fn piece(&self, offset: u64, len: usize) -> Piece {
        let within = (offset % BLOCK as u64) as usize;
        let bytes = match within {
            0 if len >= BLOCK => len - len % BLOCK,
            _ => len.min(BLOCK - within),
        };
        Piece { lba: self.first + offset / BLOCK as u64, within, bytes }
    }

    /// Reads from this byte on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] beyond the end, and all of [`BlockDevice::read`].
    pub async fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<(), BlockError> {
        self.check(offset, bytes.len())?;
        let (mut offset, mut left) = (offset, bytes);
        while !left.is_empty() {
            let piece = self.piece(offset, left.len());
            let (now, later) = left.split_at_mut(piece.bytes);
            if piece.bytes.is_multiple_of(BLOCK) {
                self.copying.read(piece.lba, now).await?;
            } else {
                let mut block = [0; BLOCK];
                self.copying.read(piece.lba, &mut block).await?;
                now.copy_from_slice(&block[piece.within..piece.within + piece.bytes]);
            }
            offset += piece.bytes as u64;
            left = later;
        }
        Ok(())
    }

    /// Writes from this byte on.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at), and all of [`BlockDevice::write`].
    pub async fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
        self.check(offset, bytes.len())?;
        let (mut offset, mut left) = (offset, bytes);
        while !left.is_empty() {
            let piece = self.piece(offset, left.len());
            let (now, later) = left.split_at(piece.bytes);
            if piece.bytes.is_multiple_of(BLOCK) {
                self.copying.write(piece.lba, now).await?;
            } else {
                let mut block = [0; BLOCK];
                self.copying.read(piece.lba, &mut block).await?;
                block[piece.within..piece.within + piece.bytes].copy_from_slice(now);
                self.copying.write(piece.lba, &block).await?;
            }
            offset += piece.bytes as u64;
            left = later;
        }
        Ok(())
    }
}

/// Of a length that a trait counts in this type.
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

//! Blocking calls on a card, for file systems and stores.

#![cfg_attr(feature = "embedded-sdmmc", allow(unsafe_code, reason = "docs/safety.md says why"))]

use crate::region::Region;
use core::cell::RefCell;
use core::fmt;
use mmcq::block::BlockError;
use mmcq::engine::{DmaBuf, Error};
use mmcq::task::{Idle, Platform, Stack};

/// A [`Region`] with blocking calls, which wait by the board's function `idle`.
///
/// With feature `embedded-sdmmc` the type is a block device for that file system; with feature
/// `embedded-storage` it implements the traits `ReadStorage` and `Storage`. Neither interface has a
/// flush, so call [`flush`](Self::flush).
pub struct Blocking<'a, B: Platform, const N: usize> {
    stack: &'a Stack<B, N>,
    region: RefCell<Region<'a, B, N>>,
    idle: fn(&Idle),
}

impl<'a, B: Platform, const N: usize> Blocking<'a, B, N> {
    /// Makes a handle on a region of the card of `stack`. `idle` waits for an interrupt, or does
    /// nothing.
    pub fn new(stack: &'a Stack<B, N>, region: Region<'a, B, N>, idle: fn(&Idle)) -> Self {
        Blocking { stack, region: RefCell::new(region), idle }
    }

    /// Makes a handle on the whole card; data are copied through `bounce`.
    ///
    /// # Errors
    /// The errors of [`Region::new`].
    pub fn whole(stack: &'a Stack<B, N>, bounce: DmaBuf, idle: fn(&Idle)) -> Result<Self, Error> {
        Ok(Self::new(stack, Region::new(stack, bounce)?, idle))
    }

    /// Calls `call` with the region, and waits until it has ended. A call from inside the function
    /// `idle`, which the outer call uses to wait, fails with [`Error::Reentered`].
    fn with(
        &self,
        call: impl AsyncFnOnce(&mut Region<'a, B, N>) -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        let busy = BlockError { error: Error::Reentered, blocks_done: 0 };
        let mut region = self.region.try_borrow_mut().map_err(|_| busy)?;
        self.stack.block_on(call(&mut region), self.idle)
    }

    /// Reads from byte `offset` on.
    ///
    /// # Errors
    /// The errors of [`Region::read_at`].
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), BlockError> {
        self.with(async |region| region.read_at(offset, bytes).await)
    }

    /// Writes `bytes` from byte `offset` of the region on.
    ///
    /// # Errors
    /// The errors of [`Region::write_at`].
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), BlockError> {
        self.with(async |region| region.write_at(offset, bytes).await)
    }

    /// Flushes the card: when the call returns, everything written before is on the medium.
    ///
    /// # Errors
    /// The errors of [`Region::flush`].
    pub fn flush(&self) -> Result<(), Error> {
        let flush = async |region: &mut Region<'a, B, N>| {
            region.flush().await.map_err(|error| BlockError { error, blocks_done: 0 })
        };
        self.with(flush).map_err(Error::from)
    }

    /// Binds the handle to the card that is in the slot now, like [`Region::rebind`].
    ///
    /// # Errors
    /// The errors of [`Region::rebind`].
    pub fn rebind(&self) -> Result<(), Error> {
        self.region.try_borrow_mut().map_err(|_| Error::Reentered)?.rebind()
    }

    /// Returns the length of the region in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.region.try_borrow().map_or(0, |region| region.len_bytes())
    }
}

impl<B: Platform, const N: usize> fmt::Debug for Blocking<'_, B, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}

#[cfg(feature = "embedded-storage")]
impl<B: Platform, const N: usize> embedded_storage::ReadStorage for Blocking<'_, B, N> {
    type Error = BlockError;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), BlockError> {
        self.read_at(offset.into(), bytes)
    }

    fn capacity(&self) -> usize {
        crate::region::capacity(self.len_bytes())
    }
}

#[cfg(feature = "embedded-storage")]
impl<B: Platform, const N: usize> embedded_storage::Storage for Blocking<'_, B, N> {
    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), BlockError> {
        self.write_at(offset.into(), bytes)
    }
}

#[cfg(feature = "embedded-sdmmc")]
mod sdmmc {
    use super::Blocking;
    use embedded_sdmmc_types::blockdevice::{Block, BlockCount, BlockDevice, BlockIdx};
    use mmcq::block::BlockError;
    use mmcq::task::Platform;

    /// Checks at compile time that a `Block` has the size of its content, and an alignment of one
    /// byte.
    const _: () = assert!(size_of::<Block>() == Block::LEN && align_of::<Block>() == 1);

    impl<B: Platform, const N: usize> BlockDevice for Blocking<'_, B, N> {
        type Error = BlockError;

        fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), BlockError> {
            let len = size_of_val(blocks);
            // SAFETY: the bytes are the memory of the blocks: each block has 512 bytes and nothing
            // else, as checked above, and any byte is a valid value.
            let bytes = unsafe { core::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast(), len) };
            self.read_at(start.into_bytes(), bytes)
        }

        fn write(&self, blocks: &[Block], start: BlockIdx) -> Result<(), BlockError> {
            // SAFETY: the bytes are the memory of the blocks, which are initialised, and only read.
            let bytes = unsafe { core::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks)) };
            self.write_at(start.into_bytes(), bytes)
        }

        fn num_blocks(&self) -> Result<BlockCount, BlockError> {
            let blocks = self.len_bytes() / Block::LEN as u64;
            Ok(BlockCount(u32::try_from(blocks).unwrap_or(u32::MAX)))
        }
    }
}

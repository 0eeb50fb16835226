//! The blocks of an eMMC's other partitions: boot areas and general purpose partitions [eMMC 6.2].
//!
//! Each piece of a read or write is one [`PartitionAccess`]. The engine waits until all earlier
//! requests have ended, switches the card to the partition, and switches it back after the piece.
//! No other request runs in between. A read or write is sent in several pieces if it has more
//! blocks than the host transfers at a time; other requests may run between two pieces.

use super::{BlockDevice, BlockError};
use crate::card::Card;
use crate::card::partition::{Area, Layout, layout};
use crate::engine::{BLOCK_BYTES, DmaBuf, Error, Kind, PartitionAccess};
use crate::task::{Platform, Stack};

/// A handle on a boot area or a general purpose partition of one device. One call transfers less
/// than 16 MiB.
///
/// The handle keeps the boot settings of the device's PARTITION_CONFIG, and each call writes them
/// back. With another device in the same socket each call fails with [`Error::Changed`].
#[derive(Debug)]
pub struct Partition<'a, B: Platform, const N: usize> {
    /// Handle on the card's user area: it has the same queue, and its flushes report losses.
    device: BlockDevice<'a, B, N>,
    layout: Layout,
    writable: bool,
}

impl<'a, B: Platform, const N: usize> Partition<'a, B, N> {
    /// Opens a partition of the card. `scratch` (512 bytes) comes back with the result. Boot areas
    /// are read-only until [`writable`](Self::writable) is called.
    pub async fn open(
        stack: &'a Stack<B, N>,
        card: &Card,
        scratch: DmaBuf,
        area: Area,
    ) -> (Result<Self, Error>, DmaBuf) {
        if area == Area::Rpmb {
            return (Err(Error::Unsupported), scratch);
        }
        let (layout, scratch) = layout(stack, card, scratch, area).await;
        stack.with(|engine| engine.enable_extended_ops());
        let writable = matches!(area, Area::General(_));
        (
            layout.map(|layout| Partition {
                device: BlockDevice::new(stack),
                writable: writable && !layout.protected,
                layout,
            }),
            scratch,
        )
    }

    /// Returns the handle with writes allowed, for a caller that wants to write a boot area.
    /// Returns [`Error::Protected`] if the card does not allow writes there.
    pub fn writable(self) -> Result<Self, Error> {
        if self.layout.protected { Err(Error::Protected) } else { Ok(Partition { writable: true, ..self }) }
    }

    /// Returns the partition's size in blocks of 512 bytes.
    pub fn blocks(&self) -> u32 {
        self.layout.blocks
    }

    /// Reads from `lba` on into an owned buffer: as many whole blocks as the buffer has.
    pub async fn read(&self, lba: u32, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        self.moved(lba, buf, false).await
    }

    /// Writes all whole blocks of the buffer to the partition, from block `lba` on. Returns the
    /// buffer with the result.
    pub async fn write(&self, lba: u32, buf: DmaBuf) -> (Result<u32, BlockError>, DmaBuf) {
        if !self.writable {
            return (Err(BlockError { error: Error::Protected, blocks_done: 0 }), buf);
        }
        self.moved(lba, buf, true).await
    }

    async fn moved(&self, lba: u32, mut buf: DmaBuf, out: bool) -> (Result<u32, BlockError>, DmaBuf) {
        let blocks = buf.len_bytes() / BLOCK_BYTES;
        let end = lba.checked_add(blocks);
        if blocks == 0 || end.is_none_or(|end| end > self.layout.blocks) {
            let error = Error::OutOfRange { lba: lba.into(), sectors: self.layout.blocks.into() };
            return (Err(BlockError { error, blocks_done: 0 }), buf);
        }
        if buf.len_bytes() > DmaBuf::AFTER_MAX {
            let error = Error::Unsupported;
            return (Err(BlockError { error, blocks_done: 0 }), buf);
        }
        let most = u32::from(self.device.stack.with(|engine| engine.caps().blocks_in_one_piece()));
        let mut done = 0;
        while done < blocks {
            let piece = (blocks - done).min(most) as u16;
            let (out, back) = if out { (piece, 0) } else { (0, piece) };
            let visit = PartitionAccess {
                config: self.layout.config,
                switch_ns: self.layout.switch_ns,
                lba: lba + done,
                out,
                reliable: false,
                ask: false,
                back,
            };
            let rest = buf.after(done.saturating_mul(BLOCK_BYTES));
            let ended =
                self.device.stack.request(self.device.request(Kind::PartitionAccess(visit), rest)).await;
            // A refused request returns the part of the buffer that it was given.
            buf = ended.buf.whole();
            if let Err(error) = ended.result {
                return (Err(BlockError { error, blocks_done: done }), buf);
            }
            done += u32::from(piece);
        }
        (Ok(done), buf)
    }

    /// Flushes: everything written before the call is on the medium. One flush covers all
    /// partitions.
    pub async fn flush(&self) -> Result<(), Error> {
        self.device.flush().await
    }
}

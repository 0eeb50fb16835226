//! Data of another partition of an eMMC: boot areas, general purpose partitions, RPMB [eMMC 6.2].
//!
//! A partition access (a *visit* in the code) is one request: the switch to the partition, and up
//! to three transfers. The request is a barrier, so all earlier requests have ended before. The
//! engine itself switches back ([`area`](super::area)), so no dropped future leaves the card in the
//! partition. If the next request in the queue is another access, the card is not switched back
//! between them.

use super::card::Card;
use super::extras::{Memory, Next, Place, refused};
use super::plan::Plan;
use super::slot::Slot;
use super::{BLOCK_BYTES, CardParams, Error, Kind, Output};
use crate::host::{Caps, Data, Direction, Segment};
use crate::spec::command;
use crate::spec::response::R1;

/// The transfers of a partition access. The request's buffer holds the blocks to write, then the
/// block that requests the result, then the blocks that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionAccess {
    /// PARTITION_CONFIG with the access bits of the partition, and the other bits unchanged
    /// [eMMC 7.4.69].
    pub config: u8,
    /// Longest time of the switch to the partition, in nanoseconds.
    pub switch_ns: u64,
    /// The first block, for reads and writes of data; 0 for RPMB.
    pub lba: u32,
    /// Number of blocks to write.
    pub out: u16,
    /// Whether the written blocks are a reliable write.
    pub reliable: bool,
    /// Whether one more block, RPMB's request for the result, is written after the blocks of `out`,
    /// in a write of its own.
    pub ask: bool,
    /// Number of blocks to read, after the written blocks if there are any.
    pub back: u16,
}

/// The access bits of the replay-protected area [eMMC 7.4.69].
const RPMB: u8 = 3;
/// Most blocks of a partition with byte addresses: the address after them would wrap to 0.
const BYTE_ADDRESSED_BLOCKS: u64 = 1 << 23;

impl PartitionAccess {
    /// Returns the access bits, which name the partition.
    pub(super) const fn area(&self) -> u8 {
        self.config & 7
    }

    /// Returns whether the access writes to the replay-protected area (RPMB). A message to that
    /// area is valid only once.
    pub(super) const fn is_once(&self) -> bool {
        self.area() == RPMB && self.out > 0
    }

    /// Returns the bytes that the request's buffer must have.
    pub const fn bytes(&self) -> u32 {
        (self.out as u32 + self.ask as u32 + self.back as u32) * BLOCK_BYTES
    }

    /// Checks whether this card can execute this access to another partition, and returns the
    /// reason if not. `given`: length in bytes of the request's buffer.
    pub(super) fn admitted(&self, target: &CardParams, given: u32) -> Result<(), Error> {
        let blocks = self.out.max(self.back);
        if !target.emmc || self.area() == 0 {
            return Err(Error::Unsupported);
        }
        if self.bytes() > given {
            return Err(Error::Buffer { needed: self.bytes(), given });
        }
        if !target.block_addressed && u64::from(self.lba) + u64::from(blocks) > BYTE_ADDRESSED_BLOCKS {
            return Err(Error::OutOfRange { lba: self.lba.into(), sectors: BYTE_ADDRESSED_BLOCKS });
        }
        Ok(())
    }

    /// Returns transfer number `n`, counted from 0, of this partition access: direction, first
    /// block in the buffer, number of blocks, and whether it is a reliable write. `None`: there are
    /// fewer transfers.
    fn transfer(&self, n: u8) -> Option<(Direction, u32, u16, bool)> {
        let out = u32::from(self.out);
        let ask = u32::from(self.ask);
        [
            (Direction::Write, 0, self.out, self.reliable),
            (Direction::Write, out, u16::from(self.ask), false),
            (Direction::Read, out + ask, self.back, false),
        ]
        .into_iter()
        .filter(|&(_, _, blocks, _)| blocks > 0)
        .nth(n.into())
    }
}

impl Memory {
    /// Begins a partition access: the switch to its partition, if the card is in another one.
    pub fn begin_visit(&mut self, visit: PartitionAccess, card: &Card, caps: &Caps) -> Next {
        if card.target().is_none() {
            return Next::fail(Error::NoCard);
        }
        let too_long = visit.out.max(visit.back) > caps.blocks_in_one_piece();
        if caps.no_count || too_long {
            return Next::fail(Error::Unsupported);
        }
        self.clear_moves();
        if self.area().is_in(visit.area()) { self.next_move(visit) } else { self.area_mut().go_to(visit) }
    }

    fn next_move(&self, visit: PartitionAccess) -> Next {
        match visit.transfer(self.moves()) {
            Some((_, _, blocks, reliable)) => {
                Next::Command(Place::Count, command::set_block_count(blocks.into(), reliable))
            }
            None => Next::End(Ok(Output { bytes: visit.bytes(), ..Output::default() })),
        }
    }

    /// Continues an access to another partition after one of its commands has ended. `place` says
    /// which command, `status` is the card's status from its response. The command's memory is
    /// already unmapped.
    pub fn visit_reached(&mut self, place: Place, status: u32, slot: &Slot, plan: &Plan) -> Next {
        let Kind::PartitionAccess(visit) = slot.kind() else { return Next::fail(Error::Unsupported) };
        if status & R1::ERRORS != 0 {
            return Next::fail(refused(status));
        }
        match place {
            Place::Count => return self.start_move(visit, slot, plan),
            Place::Move => self.moved(),
            _ => self.area_mut().arrive(),
        }
        self.next_move(visit)
    }

    fn start_move(&self, visit: PartitionAccess, slot: &Slot, plan: &Plan) -> Next {
        let Some((direction, first, blocks, _)) = visit.transfer(self.moves()) else {
            return Next::fail(Error::Unsupported);
        };
        let whole = slot.buf().segment(u32::MAX);
        let segment = Segment { bus: 0, ..whole.part(first * BLOCK_BYTES, u32::from(blocks) * BLOCK_BYTES) };
        let write = direction == Direction::Write;
        Next::Data {
            place: Place::Move,
            command: command::transfer(write, true, plan.address(visit.lba.into())),
            data: Data { direction, block_size: BLOCK_BYTES as u16, blocks: blocks.into() },
            segment,
            // The card's cache serves all partitions but RPMB; reliable writes go past it.
            changes: write && !visit.reliable && visit.area() != RPMB,
        }
    }
}

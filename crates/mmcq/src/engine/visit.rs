//! Data of another partition of an eMMC: boot areas, general purpose partitions, RPMB [eMMC 6.2].
//!
//! A visit is one request: the switch there, up to three transfers, and the switch back. It is a barrier, so
//! the queue has drained before and nobody else's data can go to the wrong partition; and as the engine
//! itself goes back, no dropped future leaves the card in there. If the way back fails, the card is not
//! believed any more: it must be brought up again. The next visit in the queue goes on where this one is.

use super::extras::{Event, Place, refused};
use super::slot::NONE;
use super::{BLOCK_BYTES, Engine, Error, Kind, Mode, Output};
use crate::host::{Data, Direction, Host, Segment};
use crate::sched::Policy;
use crate::spec::command::{self, Command, emmc};
use crate::spec::ext_csd::index;
use crate::spec::response::R1;

/// Which transfers a visit makes. The request's buffer holds the blocks that go out, then the one that asks
/// for the result, then what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// PARTITION_CONFIG with the access bits of the partition; the others as they are [eMMC 7.4.69].
    pub config: u8,
    /// Longest time of the switch.
    pub switch_ns: u64,
    /// The first block, for reads and writes of data; 0 for RPMB.
    pub lba: u32,
    /// Blocks that go out.
    pub out: u16,
    /// They go out as a reliable write.
    pub reliable: bool,
    /// One more block goes out after them, by itself: RPMB's request for the result.
    pub ask: bool,
    /// Blocks that come back.
    pub back: u16,
}

impl Visit {
    /// The access bits.
    const fn area(&self) -> u8 {
        self.config & 7
    }

    /// Bytes that the request's buffer must have.
    pub const fn bytes(&self) -> u32 {
        (self.out as u32 + self.ask as u32 + self.back as u32) * BLOCK_BYTES
    }

    /// The nth transfer: direction, first block in the buffer, blocks, reliable.
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

impl<H: Host, const N: usize, P: Policy> Engine<H, N, P> {
    fn visit(&self) -> Option<Visit> {
        match self.slots.at(self.control).kind {
            Kind::Visit(visit) => Some(visit),
            _ => None,
        }
    }

    pub(super) fn begin_visit(&mut self, visit: Visit, now_ns: u64) {
        let given = self.slots.at(self.control).buf.len_bytes();
        if self.target.is_none() {
            return self.end_control(Err(Error::NoCard));
        } else if visit.bytes() > given {
            return self.end_control(Err(Error::Buffer { needed: visit.bytes(), given }));
        }
        let caps = self.host.caps();
        let too_long = visit.out.max(visit.back) > caps.blocks_in_one_piece();
        if visit.area() == 0 || caps.no_count || too_long {
            return self.end_control(Err(Error::Unsupported));
        }
        self.memory.moves = 0;
        self.memory.failed = None;
        if self.memory.area == visit.area() {
            self.next_move(visit, now_ns);
        } else {
            // From now on nobody knows for sure.
            self.memory.area = visit.area();
            self.switch_to(Place::Enter, visit.config, visit.switch_ns, now_ns);
        }
    }

    fn switch_to(&mut self, place: Place, config: u8, switch_ns: u64, now_ns: u64) {
        let switch = emmc::switch(emmc::Access::WriteByte, index::PARTITION_CONFIG, config, 0);
        self.order(place, switch, switch_ns, now_ns);
    }

    fn next_move(&mut self, visit: Visit, now_ns: u64) {
        match visit.transfer(self.memory.moves) {
            Some((_, _, blocks, reliable)) => {
                self.short(Place::Count, command::set_block_count(blocks.into(), reliable), now_ns);
            }
            None => self.go_back(visit, now_ns),
        }
    }

    /// Back to the user area, unless the next in the queue is on the way here.
    fn go_back(&mut self, visit: Visit, now_ns: u64) {
        let head = self.slots.head;
        let stays = head != NONE
            && self.mode == Mode::Running
            && self.slots.oldest_io().is_none()
            && matches!(self.slots.at(head).kind, Kind::Visit(next) if next.area() == visit.area());
        if stays && self.memory.failed.is_none() {
            return self.end_visit(visit, now_ns);
        }
        self.switch_to(Place::Leave, visit.config & !7, visit.switch_ns, now_ns);
    }

    fn end_visit(&mut self, visit: Visit, now_ns: u64) {
        let result = match self.memory.failed.take() {
            Some(error) => Err(error),
            None => Ok(Output { bytes: visit.bytes(), ..Output::default() }),
        };
        self.end_control_and_go_on(result, now_ns);
    }

    pub(super) fn visit_reached(&mut self, place: Place, status: u32, now_ns: u64) {
        self.unmap_data();
        let Some(visit) = self.visit() else { return };
        if status & R1::ERRORS != 0 {
            return self.extra(Event::Failed(refused(status)), now_ns);
        }
        match place {
            Place::Enter => self.next_move(visit, now_ns),
            Place::Count => {
                if let Err(error) = self.start_move(visit, now_ns) {
                    self.visit_failed(error, now_ns);
                }
            }
            Place::Move => {
                self.memory.moves += 1;
                self.next_move(visit, now_ns);
            }
            _ => {
                self.memory.area = 0;
                self.end_visit(visit, now_ns);
            }
        }
    }

    fn start_move(&mut self, visit: Visit, now_ns: u64) -> Result<(), Error> {
        let Some((direction, first, blocks, _)) = visit.transfer(self.memory.moves) else {
            return Err(Error::Unsupported);
        };
        let whole = self.slots.at(self.control).buf.segment(u32::MAX);
        let segment = Segment { bus: 0, ..whole.part(first * BLOCK_BYTES, u32::from(blocks) * BLOCK_BYTES) };
        let address = self.target.map_or(visit.lba, |target| target.address(visit.lba.into()));
        let command: Command = match direction {
            Direction::Read => command::read_multiple_block(address),
            Direction::Write => command::write_multiple_block(address),
        };
        let data = Data { direction, block_size: BLOCK_BYTES as u16, blocks: blocks.into() };
        self.data(Place::Move, command, data, segment, now_ns)
    }

    /// A step of a visit failed (the lines are back): home, and then its owner is told why.
    pub(super) fn visit_failed(&mut self, error: Error, now_ns: u64) {
        self.unmap_data();
        let visit = self.visit();
        match visit {
            Some(visit) if self.memory.area != 0 && self.memory.failed.is_none() && self.target.is_some() => {
                self.memory.failed = Some(error);
                self.switch_to(Place::Leave, visit.config & !7, visit.switch_ns, now_ns);
            }
            _ => {
                let lost = visit.is_some() && self.memory.area != 0;
                let error = self.memory.failed.take().unwrap_or(error);
                self.memory.area = 0;
                if lost {
                    // Wherever the card is now, it is not known to be the user area.
                    self.set_target(None);
                }
                self.end_control_and_go_on(Err(error), now_ns);
            }
        }
    }
}

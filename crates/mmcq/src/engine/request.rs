//! What is asked of the engine, and what comes back.

use super::breach::Breach;
use super::buffer::DmaBuf;
use super::card::CardNumber;
use super::erase::Erase;
use super::partition_access::PartitionAccess;
use crate::host::{BusOp, Direction, DmaError, Fault, Phase};
use crate::sched::Origin;
use crate::spec::ParseError;
use crate::spec::command::Command;
use crate::spec::response::Response;

/// Bytes in a block of the user's address space.
pub const BLOCK_BYTES: u32 = 512;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read blocks of 512 bytes.
    Read {
        /// First block.
        lba: u64,
        /// How many, at least 1.
        blocks: u32,
    },
    /// Write blocks of 512 bytes.
    Write {
        /// First block.
        lba: u64,
        /// How many, at least 1.
        blocks: u32,
    },
    /// Everything that was written before is on the medium when this completes. A barrier.
    Flush,
    /// A phase exactly as given. A barrier. Its response is not judged, only handed over. The
    /// engine does not learn from it what has changed on the card; so with a card, CMD6 to
    /// PARTITION_CONFIG is [`Error::Unsupported`]: [`PartitionAccess`](Kind::PartitionAccess) and
    /// [`LongCommand`](Kind::LongCommand) do that; and CMD6 to CACHE_CTRL is too:
    /// [`Options::cache`](crate::card::Options::cache) does that.
    Raw {
        /// A command sent directly before (CMD55); its errors are the request's.
        prefix: Option<Command>,
        /// The phase; its data use the request's buffer.
        phase: Phase,
        /// Longest time for the phase.
        timeout_ns: u64,
    },
    /// A phase of an I/O function (CMD52, CMD53), exactly as given. No barrier: these go in their
    /// own order, before waiting reads and writes, but no more than
    /// [`Config::io_burst`](super::Config::io_burst) in a row. The response is not judged, only
    /// handed over. Where host and card allow it
    /// ([`Engine::set_concurrent_commands`](super::Engine::set_concurrent_commands)) CMD52 does not
    /// wait for data that are moving, so that it may be done before an older CMD53.
    Io {
        /// The phase; its data use the request's buffer.
        phase: Phase,
        /// Longest time for the phase.
        timeout_ns: u64,
        /// The owner will ask for the next step as soon as this one is done. For a moment
        /// ([`Config::chain_ns`](super::Config::chain_ns)) no other request gets the bus.
        chain: bool,
    },
    /// A change of the bus. A barrier.
    Bus(BusOp),
    /// Nothing, for so long. A barrier.
    Pause {
        /// How long.
        ns: u64,
    },
    /// Blocks that need not keep their content. It goes in pieces
    /// ([`Config::erase_budget_ns`](super::Config::erase_budget_ns)) with others in between;
    /// nothing that overlaps it passes it, and no barrier. A piece that fails is not tried again;
    /// after the card was initialised again, the one that was under way is. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    Erase {
        /// First block.
        lba: u64,
        /// How many, at least 1.
        blocks: u32,
        /// The fate of the blocks.
        how: Erase,
    },
    /// Blocks that read as zeros afterwards: by an erase where the card's erased blocks are zeros
    /// and no others are touched, else by writing the request's buffer (zeros, at least a block;
    /// the longer the faster) as often as it takes. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    Zero {
        /// First block.
        lba: u64,
        /// How many, 1 to 2^23 - 1.
        blocks: u32,
    },
    /// Data of another partition of an eMMC. A barrier; the engine goes back to the user area
    /// before anything else but another visit. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    PartitionAccess(PartitionAccess),
    /// A command whose busy may last long; waited for to its end and judged by a status. A barrier.
    /// It is sent once: not again if it fails, or if the card is initialised again meanwhile. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops). The access bits of
    /// PARTITION_CONFIG are for visits alone, and CACHE_CTRL is for bring-up
    /// ([`Error::Unsupported`]).
    LongCommand {
        /// The command, answered by R1b.
        command: Command,
        /// Longest busy.
        timeout_ns: u64,
    },
}

impl Kind {
    /// The blocks of a read or write.
    #[inline(always)]
    pub(super) const fn span(&self) -> Option<(Direction, u64, u32)> {
        match *self {
            Kind::Read { lba, blocks } => Some((Direction::Read, lba, blocks)),
            Kind::Write { lba, blocks } => Some((Direction::Write, lba, blocks)),
            _ => None,
        }
    }

    /// Is it a step of a conversation, which owes nothing to what waits in the queue?
    pub(super) const fn may_be_urgent(&self) -> bool {
        matches!(self, Kind::Raw { .. } | Kind::Bus(_) | Kind::Pause { .. })
    }

    /// Does it take from the card what is in its cache?
    pub(super) const fn resets_card(&self) -> bool {
        match self {
            Kind::Raw { phase, .. } => phase.command.index == 0,
            Kind::Bus(op) => matches!(op, BusOp::PowerOff),
            _ => false,
        }
    }

    /// Would the card do something else the second time? Orders may count or be final, and each
    /// authenticated write has its own counter.
    pub(super) const fn is_once(&self) -> bool {
        match self {
            Kind::LongCommand { .. } => true,
            Kind::PartitionAccess(visit) => visit.is_once(),
            _ => false,
        }
    }
}

/// A request with its memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The work that is asked for.
    pub kind: Kind,
    /// Where the data are or go; at least as long as the request's data.
    pub buf: DmaBuf,
    /// The client; for the [scheduler](crate::sched). [`Fifo`](crate::sched::Fifo) does not look at
    /// it.
    pub origin: Origin,
    /// A write that completes only when its data are on the medium; see [`durable`](Self::durable).
    pub durable: bool,
    /// Whether the request passes a queue that is stopped for recovery, as a part of the recovery
    /// itself; see [`urgent`](Self::urgent). No priority: a [scheduler](crate::sched) goes by
    /// [`origin`](Self::origin).
    pub urgent: bool,
    /// The card it is meant for; see [`for_card`](Self::for_card).
    pub card: CardNumber,
}

impl Request {
    /// A request of client 0.
    pub const fn new(kind: Kind, buf: DmaBuf) -> Self {
        Request { kind, buf, origin: Origin::DEFAULT, durable: false, urgent: false, card: CardNumber::ANY }
    }

    /// Makes the write (or zeroes, or erase) complete only when it is on the medium: forced unit
    /// access. Needs [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops). Anything
    /// else stays what it is.
    ///
    /// [`BlockDevice::write_durable`](crate::block::BlockDevice::write_durable) is such a write,
    /// and calls `enable_extended_ops` itself. No call of `BlockDevice` is a durable erase, or
    /// writes durable zeroes: such a request goes by
    /// [`Stack::request`](crate::task::Stack::request), or a flush follows.
    #[must_use]
    pub fn durable(self) -> Self {
        let writes = matches!(self.kind, Kind::Write { .. } | Kind::Zero { .. } | Kind::Erase { .. });
        Request { durable: writes, ..self }
    }

    /// Binds the request to this card: once another is in its place the request is refused with
    /// [`Error::Changed`]. Without it a request is for whichever card there is.
    /// [`BlockDevice`](crate::block::BlockDevice) asks so for the card that it was made for.
    #[must_use]
    pub fn for_card(self, card: CardNumber) -> Self {
        Request { card, ..self }
    }

    /// Makes the request a part of the recovery that all others wait for. Only a raw phase, a
    /// change of the bus and a pause can be that: what is urgent passes the queue, so anything else
    /// is [`Error::Unsupported`].
    #[must_use]
    pub fn urgent(self) -> Self {
        Request { urgent: true, ..self }
    }

    /// Sets the request's origin.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Request { origin, ..self }
    }
}

/// Names a slot from submit until its completion is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId {
    pub(super) index: u8,
    pub(super) generation: u32,
}

impl SlotId {
    /// Which of the engine's slots, 0 to N - 1: the bit in
    /// [`PollOutcome::completed`](super::PollOutcome::completed).
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Tells the requests apart that were in this slot one after another; after 256 it begins
    /// again.
    pub(crate) fn use_number(self) -> u8 {
        self.generation as u8
    }
}

/// The yield of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// Bytes moved. The data of a tuning phase stay in the controller: 1 once tuning is complete, 0
    /// before ([`is_tuned`](Self::is_tuned)).
    pub bytes: u32,
    /// The response of a raw phase.
    pub response: Response,
}

impl Output {
    /// Of a raw tuning phase: tuning is complete.
    pub const fn is_tuned(&self) -> bool {
        self.bytes != 0
    }
}

/// A finished request: its result, and its memory back.
#[derive(Debug)]
pub struct Completion {
    /// How it went.
    pub result: Result<Output, Error>,
    /// Bytes from the start of the request that are surely done, also when it failed.
    pub done_bytes: u32,
    /// The buffer that was submitted.
    pub buf: DmaBuf,
}

impl Completion {
    /// Of a request that was not accepted.
    pub(crate) fn refused(error: Error, request: &mut Request) -> Self {
        Completion { result: Err(error), done_bytes: 0, buf: request.buf.take() }
    }
}

/// Why a request failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// All slots are taken. Nothing was begun; try again when a request has ended. It also ends the
    /// youngest request that waits, if the card needs help and the supervisor's requests find no
    /// slot.
    Full,
    /// The engine is suspended, or stopped for recovery.
    Suspended,
    /// No card has been brought up.
    NoCard,
    /// The card was taken out.
    Removed,
    /// Blocks beyond the end of the card, or none at all: an empty buffer, or one that is shorter
    /// than a block.
    OutOfRange {
        /// First block asked for.
        lba: u64,
        /// Blocks on the card.
        sectors: u64,
    },
    /// The buffer is shorter than the data.
    Buffer {
        /// Bytes the request needs.
        needed: u32,
        /// Bytes the buffer has.
        given: u32,
    },
    /// The buffer cannot be used by the controller.
    Dma(DmaError),
    /// The controller or the wire failed.
    Host(Fault),
    /// The controller can not do this at all.
    Unsupported,
    /// The card refused: its status (R1).
    Card(u32),
    /// Written data did not reach the medium: the status (R1) that told so after the transfer.
    Program(u32),
    /// The controller stayed silent beyond every deadline.
    Silent,
    /// A bus operation failed.
    Bus(BusOp),
    /// A register of the card has a value that its standard does not define.
    Register(ParseError),
    /// The card does not behave as its standard says.
    Protocol(Breach),
    /// Recovery has come to its end without success: card or controller is given up.
    Dead,
    /// The blocks are write-protected.
    Protected,
    /// The card can only erase whole groups of so many blocks, and more than was asked must not go.
    Unaligned {
        /// Blocks in a group.
        group_blocks: u32,
    },
    /// The card lost its supply, and with it writes in its cache that were complete and not yet
    /// flushed. Said once, to the next flush or durable write.
    CacheLost,
    /// Another card is in the slot.
    Changed,
    /// The engine has not been told how this card erases:
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) tells it, after bring-up.
    Unequipped,
    /// The card is locked by a password, and answers nothing but its lock's commands [SD 4.3.7],
    /// [eMMC 6.6.19]: [`Options::unlock`](crate::card::Options::unlock).
    Locked,
    /// The call came from inside another call of the same stack (a timer's function, a lock,
    /// memory, registers, a policy, or a closure of [`Stack::with`](crate::task::Stack::with)).
    Reentered,
}

impl Error {
    /// Asks whether what was written before may have failed too: a late error may be any piece's,
    /// and of what went to a card that is gone no status has come.
    pub(super) fn leaves_doubt(self) -> bool {
        let late = matches!(self, Error::Program(_) | Error::Protected);
        late || matches!(self, Error::Removed | Error::NoCard | Error::Changed | Error::Dead)
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Full => f.write_str("all slots are taken"),
            Error::Suspended => f.write_str("the queue is suspended"),
            Error::NoCard => f.write_str("no card has been brought up"),
            Error::Removed => f.write_str("the card was removed"),
            Error::OutOfRange { lba, sectors } if lba < sectors => {
                write!(
                    f,
                    "from block {lba}: no blocks at all, or more than the card's {sectors} blocks have left"
                )
            }
            Error::OutOfRange { lba, sectors } => {
                write!(f, "block {lba} is outside the card's {sectors} blocks")
            }
            Error::Buffer { needed, given } => {
                write!(f, "the buffer has {given} bytes, the data need {needed}")
            }
            Error::Dma(error) => write!(f, "the buffer cannot be used for DMA: {error}"),
            Error::Host(fault) => write!(f, "{fault}"),
            Error::Unsupported => f.write_str("the controller cannot do this"),
            Error::Card(status) => write!(f, "the card refused, status {status:#010x}"),
            Error::Program(status) => {
                write!(f, "written data did not reach the medium, status {status:#010x}")
            }
            Error::Silent => f.write_str("the controller stayed silent"),
            Error::Bus(op) => write!(f, "the bus operation {op:?} failed"),
            Error::Register(error) => write!(f, "{error}"),
            Error::Protocol(breach) => write!(f, "{breach}"),
            Error::Dead => f.write_str("the card or its controller is given up"),
            Error::Protected => f.write_str("the blocks are write-protected"),
            Error::Unaligned { group_blocks } => {
                write!(f, "the card erases whole groups of {group_blocks} blocks only")
            }
            Error::CacheLost => f.write_str("the card lost writes that were in its cache"),
            Error::Changed => f.write_str("another card is in the slot"),
            Error::Unequipped => {
                f.write_str("how this card erases is not known: call card::enable_extended_ops first")
            }
            Error::Locked => f.write_str("the card is locked by a password"),
            Error::Reentered => f.write_str("called from inside a call of the same stack"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Dma(error) => Some(error),
            Error::Host(fault) => Some(fault),
            Error::Register(error) => Some(error),
            _ => None,
        }
    }
}

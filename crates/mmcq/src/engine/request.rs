//! Requests to the engine, and their completions.

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

/// Bytes in a block, by which reads and writes are addressed.
pub const BLOCK_BYTES: u32 = 512;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read blocks of 512 bytes.
    Read {
        /// First block to read, in units of 512 bytes.
        lba: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
    },
    /// Write blocks of 512 bytes.
    Write {
        /// First block.
        lba: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
    },
    /// Flush: when it completes, all data that were written before it are on the medium. A barrier.
    Flush,
    /// A command of the caller, with its data, sent exactly as given (a raw phase). A barrier.
    /// The response is returned without being checked, and the engine does not learn from it what
    /// has changed on the card. So two commands are refused with [`Error::Unsupported`]: CMD6 to
    /// PARTITION_CONFIG, for which there are [`PartitionAccess`](Kind::PartitionAccess) and
    /// [`LongCommand`](Kind::LongCommand); and CMD6 to CACHE_CTRL, for which there is
    /// [`Options::cache`](crate::card::Options::cache).
    Raw {
        /// A command sent directly before (CMD55). If it fails, the request fails with its error.
        prefix: Option<Command>,
        /// The command with its data and busy; the data use the request's buffer.
        phase: Phase,
        /// Longest time for the command with its data and busy, in nanoseconds.
        timeout_ns: u64,
    },
    /// A command to an I/O function (CMD52, CMD53) with its data, exactly as given. Not a barrier.
    /// These requests keep their own order, and start before waiting reads and writes, but at most
    /// [`Config::io_burst`](super::Config::io_burst) of them in a row. The response is returned
    /// without being checked. Where host and card allow it
    /// ([`Engine::set_concurrent_commands`](super::Engine::set_concurrent_commands)), a CMD52 does
    /// not wait for a data transfer, so it may be done before an older CMD53.
    Io {
        /// The command (with its response, data and busy); its data use the request's buffer.
        phase: Phase,
        /// Longest time for the command, its data and busy, in nanoseconds.
        timeout_ns: u64,
        /// Whether the client will submit another command as soon as this one is done. Then no
        /// memory request gets the bus for a short time
        /// ([`Config::chain_ns`](super::Config::chain_ns)).
        chain: bool,
    },
    /// A change of the bus, such as its power, clock or width. A barrier: no other request
    /// overtakes it.
    Bus(BusOp),
    /// A pause: nothing starts for this time. A barrier.
    Pause {
        /// Length of the pause in nanoseconds.
        ns: u64,
    },
    /// Frees or erases blocks whose content is not needed. The erase is done in pieces
    /// ([`Config::erase_budget_ns`](super::Config::erase_budget_ns)), and other requests run in
    /// between. A request that overlaps the erase, and a barrier, wait until the erase is complete.
    /// A piece that fails is not tried again. If the card had to be initialised again, the piece
    /// that was under way is repeated. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    Erase {
        /// First block of the erase, in units of 512 bytes.
        lba: u64,
        /// Number of blocks, at least 1.
        blocks: u32,
        /// The kind of erase.
        how: Erase,
    },
    /// Makes blocks read as zeros. Where the card's erased blocks are zeros, and exactly these
    /// blocks can be erased, they are erased. Otherwise the request's buffer is written as many
    /// times as needed. The buffer holds zeros, at least one block; a longer one is faster. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    Zero {
        /// First block.
        lba: u64,
        /// Number of blocks, 1 to 2^23 - 1.
        blocks: u32,
    },
    /// Reads and writes data of another partition of an eMMC. A barrier. The engine switches back
    /// to the user area before anything else but another partition access. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops).
    PartitionAccess(PartitionAccess),
    /// A command whose busy may last long. The engine waits for the end of busy, and checks the
    /// card's status. A barrier. The command is sent once: not again if it fails, nor if the card
    /// is initialised again meanwhile. Needs
    /// [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops). The command must not
    /// change the access bits of PARTITION_CONFIG, which are for `PartitionAccess`, nor CACHE_CTRL,
    /// which is for bring-up ([`Error::Unsupported`]).
    LongCommand {
        /// The command to send. Its response must be R1b (R1 with busy).
        command: Command,
        /// Longest time in nanoseconds for which the card may be busy after the command.
        timeout_ns: u64,
    },
}

impl Kind {
    /// Returns direction, first block and number of blocks of a read or write; otherwise `None`.
    #[inline(always)]
    pub(super) const fn span(&self) -> Option<(Direction, u64, u32)> {
        match *self {
            Kind::Read { lba, blocks } => Some((Direction::Read, lba, blocks)),
            Kind::Write { lba, blocks } => Some((Direction::Write, lba, blocks)),
            _ => None,
        }
    }

    /// Returns whether requests of this kind may change blocks of the card.
    #[inline(always)]
    pub(super) const fn changes_blocks(&self) -> bool {
        !matches!(
            self,
            Kind::Read { .. }
                | Kind::Flush
                | Kind::Raw { .. }
                | Kind::Io { .. }
                | Kind::Bus(_)
                | Kind::Pause { .. }
        )
    }

    /// Returns whether requests of this kind may be urgent: they are a part of recovery, and do not
    /// wait for the queue.
    pub(super) const fn may_be_urgent(&self) -> bool {
        matches!(self, Kind::Raw { .. } | Kind::Bus(_) | Kind::Pause { .. })
    }

    /// Returns whether the request resets the card or switches its power off, so that the data in
    /// its cache are lost.
    pub(super) const fn resets_card(&self) -> bool {
        match self {
            Kind::Raw { phase, .. } => phase.command.index == 0,
            Kind::Bus(op) => matches!(op, BusOp::PowerOff),
            _ => false,
        }
    }

    /// Returns whether the request must not be sent twice, since the card would do something else
    /// the second time. A long command may, for example, be counted by the card, or make a setting
    /// permanent. Each authenticated write to the RPMB has its own counter.
    pub(super) const fn is_once(&self) -> bool {
        match self {
            Kind::LongCommand { .. } => true,
            Kind::PartitionAccess(visit) => visit.is_once(),
            _ => false,
        }
    }
}

/// Action that a client asks the engine to do, with the memory for the data.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The kind of the request, with its parameters.
    pub kind: Kind,
    /// Memory of the data, at least as long as the data of the request.
    pub buf: DmaBuf,
    /// The client, for the [scheduler](crate::sched). [`Fifo`](crate::sched::Fifo) ignores it.
    pub origin: Origin,
    /// Whether the request completes only when its data are on the medium; see
    /// [`durable`](Self::durable).
    pub durable: bool,
    /// Whether the request may start while the queue is stopped for recovery, as a part of the
    /// recovery itself; see [`urgent`](Self::urgent). This is not a priority: a
    /// [scheduler](crate::sched) uses [`origin`](Self::origin).
    pub urgent: bool,
    /// The card that the request is for; see [`for_card`](Self::for_card).
    pub card: CardNumber,
    /// Number of the request's place in the stack's wait queue, from 1 on; 0: the request has no
    /// place.
    pub(crate) place: u16,
}

impl Request {
    /// Makes a request of client 0.
    pub const fn new(kind: Kind, buf: DmaBuf) -> Self {
        Request {
            kind,
            buf,
            origin: Origin::DEFAULT,
            durable: false,
            urgent: false,
            card: CardNumber::ANY,
            place: 0,
        }
    }

    /// Makes the write (or zeroes, or erase) complete only when it is on the medium: forced unit
    /// access. Needs [`Engine::enable_extended_ops`](super::Engine::enable_extended_ops). Other
    /// kinds are not changed.
    ///
    /// [`BlockDevice::write_durable`](crate::block::BlockDevice::write_durable) is such a write,
    /// and calls `enable_extended_ops` itself. `BlockDevice` has no durable erase and no durable
    /// zeroes: submit such a request by [`Stack::request`](crate::task::Stack::request), or flush
    /// afterwards.
    #[must_use]
    pub fn durable(self) -> Self {
        let writes = matches!(self.kind, Kind::Write { .. } | Kind::Zero { .. } | Kind::Erase { .. });
        Request { durable: writes, ..self }
    }

    /// Binds the request to this card: when another card has taken its place, the request is
    /// refused with [`Error::Changed`]. Without this call a request is for any card in the card
    /// slot. [`BlockDevice`](crate::block::BlockDevice) binds its requests to the card that it was
    /// made for.
    #[must_use]
    pub fn for_card(self, card: CardNumber) -> Self {
        Request { card, ..self }
    }

    /// Makes the request a part of the recovery that all others wait for. The request starts before
    /// all queued ones. Only one raw command ([`Kind::Raw`]), a change of the bus and a pause can
    /// be urgent; other kinds are refused with [`Error::Unsupported`].
    #[must_use]
    pub fn urgent(self) -> Self {
        Request { urgent: true, ..self }
    }

    /// Sets which client submits the request, and whether a client waits for the result
    /// ([`Origin`]).
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        Request { origin, ..self }
    }
}

/// Identifies a request, from submit until its completion is taken: the number of its slot, and how
/// many requests had that slot before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId {
    pub(super) index: u8,
    pub(super) generation: u32,
}

impl SlotId {
    /// Returns the number of the engine's slot, 0 to N - 1: the bit in
    /// [`PollOutcome::completed`](super::PollOutcome::completed).
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Returns the use number, which distinguishes the requests that had this slot one after
    /// another. It wraps after 256.
    pub(crate) fn use_number(self) -> u8 {
        self.generation as u8
    }
}

/// The result of a request that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// Bytes transferred. The data of a tuning command stay in the controller. Then the value is 1
    /// once tuning is complete, and 0 before ([`is_tuned`](Self::is_tuned)).
    pub bytes: u32,
    /// The card's response, if the request was one raw command ([`Kind::Raw`]).
    pub response: Response,
}

impl Output {
    /// Returns whether tuning is complete. Valid for the result of a tuning command that was sent
    /// as a raw request ([`Kind::Raw`]).
    pub const fn is_tuned(&self) -> bool {
        self.bytes != 0
    }
}

/// A finished request: its result, and its memory back.
#[derive(Debug)]
pub struct Completion {
    /// The output of a request that went well, or why the request failed.
    pub result: Result<Output, Error>,
    /// Bytes from the start of the request that are certainly done, also when the request failed.
    pub done_bytes: u32,
    /// The buffer that was submitted.
    pub buf: DmaBuf,
}

impl Completion {
    /// Makes the completion of a request that was not accepted.
    pub(crate) fn refused(error: Error, request: &mut Request) -> Self {
        Completion { result: Err(error), done_bytes: 0, buf: request.buf.take() }
    }
}

/// Why a request failed.
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// All slots are in use. Nothing was begun; try again when a request has ended. If the card
    /// needs help and the supervisor's requests find no free slot, the youngest waiting request of
    /// which nothing was begun ends with this error.
    Full,
    /// The engine is suspended by the platform, or stopped for recovery.
    Suspended,
    /// No card has been brought up.
    NoCard,
    /// The card was taken out.
    Removed,
    /// The blocks are beyond the end of the card, or there are none: the buffer is empty, or
    /// shorter than a block.
    OutOfRange {
        /// First block of the request.
        lba: u64,
        /// Number of blocks of 512 bytes that the card has.
        sectors: u64,
    },
    /// The buffer is shorter than the data.
    Buffer {
        /// Number of bytes that the data of the request have.
        needed: u32,
        /// Bytes that the buffer has.
        given: u32,
    },
    /// The buffer cannot be used by the controller.
    Dma(DmaError),
    /// The controller or the wire failed.
    Host(Fault),
    /// The controller, the card or the profile does not support the request.
    Unsupported,
    /// The card refused the command. The value is the card's status (R1).
    Card(u32),
    /// Written data did not reach the medium. The value is the status (R1) that showed this after
    /// the transfer.
    Program(u32),
    /// The controller did not report the end of a command, of its data or of its busy before the
    /// engine's deadline, in any try.
    Silent,
    /// A bus operation failed.
    Bus(BusOp),
    /// A register of the card has a value that its standard does not define.
    Register(ParseError),
    /// The card does not behave as its standard says.
    Protocol(Breach),
    /// Recovery has ended without success: card or controller is given up.
    Dead,
    /// The blocks are write-protected.
    Protected,
    /// The card can only erase whole groups of this many blocks, and blocks outside of the request
    /// would be erased too.
    Unaligned {
        /// Number of blocks in an erase group.
        group_blocks: u32,
    },
    /// The card lost power, and with it complete writes in its cache that were not yet flushed.
    /// Reported only one time, to the next flush or durable write.
    CacheLost,
    /// Another card is in the card slot.
    Changed,
    /// The engine does not know how this card erases. Call
    /// [`card::enable_extended_ops`](crate::card::enable_extended_ops) after bring-up.
    Unequipped,
    /// The card is locked by a password, and accepts only the commands of its lock [SD 4.3.7],
    /// [eMMC 6.6.19]: see [`Options::unlock`](crate::card::Options::unlock).
    Locked,
    /// The call came from inside another call of the same stack: from a closure of
    /// [`Stack::with`](crate::task::Stack::with), or from code that the stack calls (its clock, its
    /// lock, its scheduler, or the driver's access to memory and registers).
    Reentered,
}

impl Error {
    /// Returns whether, with this error, blocks of the request that were written before may have
    /// failed too. A late error may belong to any earlier piece, and a card that is gone has sent
    /// no status for its last writes.
    pub(super) fn leaves_doubt(self) -> bool {
        let late = matches!(self, Error::Program(_) | Error::Protected);
        late || matches!(self, Error::Removed | Error::NoCard | Error::Changed | Error::Dead)
    }

    /// Returns whether nothing of a request with this error was begun, and the request may be sent
    /// again.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Error::Full | Error::Suspended | Error::Reentered)
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

//! The plan: how transfers are sent to this card by this controller. The plan is made when the
//! card's parameters are set; its functions are pure.
//!
//! Every transfer of reads and writes is made here, also the transfers of the fast path.

use super::{BLOCK_BYTES, CardParams};
use crate::host::{Auto, Caps, Data, Direction, Phase};
use crate::spec::command::{self, Command};

/// A transfer may take the card's longest wait once more for each group of this many blocks.
const BLOCKS_PER_TIMEOUT: u64 = 64;
/// Longest wait of a controller in nanoseconds: 78 hours. So sums of such waits stay below 2^64 ns.
const TIMEOUT_NS_MAX: u64 = 1 << 48;
/// Most times that the card's time limit for a read or a write is doubled.
const DOUBLED_MAX: u8 = 2;

/// How transfers are sent to this card by this controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Time in ns after which the controller gives up waiting for data or for the end of busy, for
    /// a read and for a write.
    timeout_ns: [u64; 2],
    /// How many times the two waits in `timeout_ns` (for a read and for a write) are doubled now.
    doubled: u8,
    rca: u16,
    /// Left shift that makes a block number the card's address.
    shift: u8,
    /// How the controller itself ends a transfer of several blocks.
    ends: Ends,
}

/// How a controller itself ends a transfer of several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// The controller never ends a transfer by itself: the engine sends the commands for that.
    Open,
    /// The controller sends CMD23 by itself, before the command with data.
    Counted,
    /// The controller sends CMD12 after the data.
    Stopped,
}

/// A phase (a command with its data and busy) for the controller, and how long it may take.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub phase: Phase,
    /// How long the controller waits for the card, in ns.
    pub timeout_ns: u64,
    /// Time in ns after which the engine treats the phase (the command with its data) as failed, if
    /// the controller has reported no end. The engine adds [`SLACK_NS`](super::bus::SLACK_NS).
    pub patience_ns: u64,
}

impl Plan {
    /// Values for the time without a card. Nothing is sent with them.
    pub const NONE: Plan = Plan { timeout_ns: [0; 2], doubled: 0, rca: 0, shift: 0, ends: Ends::Open };

    /// Makes the plan of all transfers for this card on this controller: the time limits, the form
    /// of addresses, and how the controller ends a transfer of several blocks.
    pub fn of(card: &CardParams, caps: &Caps) -> Plan {
        Plan {
            timeout_ns: [card.read_timeout_ns, card.write_timeout_ns].map(|ns| ns.min(TIMEOUT_NS_MAX)),
            doubled: 0,
            rca: card.rca,
            shift: if card.block_addressed { 0 } else { BLOCK_BYTES.trailing_zeros() as u8 },
            ends: if card.count && !caps.no_count && caps.auto_count {
                Ends::Counted
            } else if caps.auto_stop {
                Ends::Stopped
            } else {
                Ends::Open
            },
        }
    }

    /// Doubles the timeouts `times` times, at most [`DOUBLED_MAX`]: an access that failed for lack
    /// of time gets more at the next try.
    pub fn double(&mut self, times: u8) {
        let times = times.min(DOUBLED_MAX);
        self.timeout_ns = self.timeout_ns.map(|ns| ns >> self.doubled << times);
        self.doubled = times;
    }

    /// Returns whether the controller itself ends a transfer of several blocks.
    pub fn ends_by_itself(&self) -> bool {
        self.ends != Ends::Open
    }

    /// Returns the address of block `lba` as the card's commands have it: in blocks or in bytes.
    #[inline(always)]
    pub fn address(&self, lba: u64) -> u32 {
        (lba as u32) << self.shift
    }

    /// Returns which automatic command (CMD23, CMD12 or none) the controller sends with a transfer
    /// of this many blocks.
    #[inline(always)]
    pub fn auto(&self, blocks: u32) -> Auto {
        match self.ends {
            Ends::Counted => Auto::Count(command::set_block_count(blocks, false).arg),
            Ends::Stopped => Auto::Stop,
            Ends::Open => Auto::None,
        }
    }

    /// Returns the data command of a transfer, and its time limits. `single`: CMD17 or CMD24, for
    /// one block. `wire_ns`: the time in ns of the data on the bus.
    #[inline(always)]
    pub fn transfer(
        &self,
        (direction, lba, blocks): (Direction, u64, u32),
        single: bool,
        auto: Auto,
        wire_ns: u64,
    ) -> Transfer {
        let write = direction == Direction::Write;
        let (timeout_ns, patience_ns) = self.times_ns(direction, blocks, wire_ns);
        let command = command::transfer(write, !single, self.address(lba));
        let data = Some(Data { direction, block_size: BLOCK_BYTES as u16, blocks });
        Transfer { phase: Phase { command, data, auto, tuning: false }, timeout_ns, patience_ns }
    }

    /// Returns two times in ns for a transfer of `blocks` blocks in this direction: how long the
    /// controller waits for the card, and after how long the engine gives up. `wire_ns`: time of
    /// the data on the wire.
    #[inline(always)]
    pub fn times_ns(&self, direction: Direction, blocks: u32, wire_ns: u64) -> (u64, u64) {
        let [read_ns, write_ns] = self.timeout_ns;
        let timeout_ns = if direction == Direction::Write { write_ns } else { read_ns };
        let pauses = 1 + u64::from(blocks) / BLOCKS_PER_TIMEOUT;
        // Far from an overflow: no transfer has more than 2^16 blocks.
        (timeout_ns, timeout_ns * pauses + wire_ns)
    }

    /// Returns the timeout, in ns, for a controller that has only one for reads and writes.
    pub fn longest_ns(&self) -> u64 {
        let [read_ns, write_ns] = self.timeout_ns;
        read_ns.max(write_ns)
    }

    /// Returns the time in ns after which the engine gives up a transfer of `blocks` blocks, on a
    /// controller that has only one timeout for reads and writes. `wire_ns`: time of the data on
    /// the bus.
    #[inline(always)]
    pub fn longest_times_ns(&self, blocks: u32, wire_ns: u64) -> u64 {
        self.longest_ns() * (1 + u64::from(blocks) / BLOCKS_PER_TIMEOUT) + wire_ns
    }

    /// Returns CMD13 with the card's RCA.
    #[inline(always)]
    pub fn status(&self) -> Command {
        command::send_status(self.rca)
    }
}

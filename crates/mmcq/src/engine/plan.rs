//! What a transfer is to the controller: made once of what card and controller can do, and pure.
//!
//! Every transfer of reads and writes is made here, those of the fast path too.

use super::{BLOCK_BYTES, CardParams};
use crate::host::{Auto, Caps, Data, Direction, Phase};
use crate::spec::command::{self, Command};

/// Blocks after which the card may pause for its longest time once more.
const BLOCKS_PER_TIMEOUT: u64 = 64;
/// No wait of a controller is longer: three days. So sums of such waits stay below 2^64 ns.
const TIMEOUT_NS_MAX: u64 = 1 << 48;
/// A card's time for a read or a write is doubled at most so often.
const DOUBLED_MAX: u8 = 2;

/// The plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Longest wait of the controller: for a read, for a write.
    timeout_ns: [u64; 2],
    /// How often these are doubled.
    doubled: u8,
    rca: u16,
    /// From a block to its address.
    shift: u8,
    /// How the controller by itself ends a transfer of several blocks.
    ends: Ends,
}

/// The ways in which a controller ends a transfer of several blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Nothing.
    Open,
    /// CMD23 before it.
    Counted,
    /// CMD12 after it.
    Stopped,
}

/// A phase for the controller, and how long it may take.
#[derive(Debug)]
pub(super) struct Transfer {
    pub phase: Phase,
    /// How long the controller waits for the card.
    pub timeout_ns: u64,
    /// When the engine itself gives up, not counting slack.
    pub patience_ns: u64,
}

impl Plan {
    /// Without a card.
    pub const NONE: Plan = Plan { timeout_ns: [0; 2], doubled: 0, rca: 0, shift: 0, ends: Ends::Open };

    /// For this card on this controller.
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

    /// Doubles the times so often: what failed for want of time has more the next time.
    pub fn double(&mut self, times: u8) {
        let times = times.min(DOUBLED_MAX);
        self.timeout_ns = self.timeout_ns.map(|ns| ns >> self.doubled << times);
        self.doubled = times;
    }

    /// Does the controller by itself end a transfer of several blocks?
    pub fn ends_by_itself(&self) -> bool {
        self.ends != Ends::Open
    }

    /// Where a block is for the card's commands.
    #[inline(always)]
    pub fn address(&self, lba: u64) -> u32 {
        (lba as u32) << self.shift
    }

    /// Returns what the controller adds to a transfer of so many blocks.
    #[inline(always)]
    pub fn auto(&self, blocks: u32) -> Auto {
        match self.ends {
            Ends::Counted => Auto::Count(command::set_block_count(blocks, false).arg),
            Ends::Stopped => Auto::Stop,
            Ends::Open => Auto::None,
        }
    }

    /// The phase with the data of a transfer. `single`: by the command for one block; `wire_ns`:
    /// what its data take on the bus.
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

    /// Returns how long the controller waits for the card in such a transfer, and when the engine
    /// gives it up.
    #[inline(always)]
    pub fn times_ns(&self, direction: Direction, blocks: u32, wire_ns: u64) -> (u64, u64) {
        let [read_ns, write_ns] = self.timeout_ns;
        let timeout_ns = if direction == Direction::Write { write_ns } else { read_ns };
        let pauses = 1 + u64::from(blocks) / BLOCKS_PER_TIMEOUT;
        // Far from an overflow: no transfer has more than 2^16 blocks.
        (timeout_ns, timeout_ns * pauses + wire_ns)
    }

    /// Returns how long a controller waits that has one time for reads and writes.
    pub fn longest_ns(&self) -> u64 {
        let [read_ns, write_ns] = self.timeout_ns;
        read_ns.max(write_ns)
    }

    /// When the engine gives up a transfer on such a controller.
    #[inline(always)]
    pub fn longest_times_ns(&self, blocks: u32, wire_ns: u64) -> u64 {
        self.longest_ns() * (1 + u64::from(blocks) / BLOCKS_PER_TIMEOUT) + wire_ns
    }

    /// CMD13.
    #[inline(always)]
    pub fn status(&self) -> Command {
        command::send_status(self.rca)
    }
}

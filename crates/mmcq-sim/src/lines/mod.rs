//! CMD and DAT lines of a slot, used by all controller models: commands, responses, blocks and
//! their CRC status, with counters and the probe.

mod block;
mod command;

pub(crate) use block::{Block, TAIL_CLK};
pub(crate) use command::{Active, CmdLine, Issued, Step, content};

use crate::alarms::NEVER;
use crate::card::{Flow, Reply, WriteBlock};
use crate::faults::Strike;
use crate::probe::Signal;
use crate::slot::Slot;
use crate::stats::BusEvent;
use crate::wire::{Beat, COMMAND_CLK, CRC_TOKEN_CLK, CRC_TURN_CLK};

impl Slot {
    /// Passes a signal to the probe, if there is one.
    pub fn show(&mut self, signal: &Signal<'_>) {
        if let Some(probe) = &mut self.probe {
            probe(signal);
        }
    }

    /// Sends a command on the CMD line from `start` on; `auto` marks a command that the controller
    /// sends by itself. Returns the edge at which the command ends.
    pub fn send(&mut self, (index, arg): (u8, u32), auto: bool, start: Beat) -> Beat {
        let end = start.plus(COMMAND_CLK);
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.stats.commands[usize::from(index & 63)] += 1;
        self.stats.command_ns += end_ns - start_ns;
        self.note(BusEvent::Command { index, arg, auto, start_ns, end_ns });
        self.show(&Signal::Command { index, arg, auto, start_ns, end_ns });
        end
    }

    /// Gives a command to the card and returns its reply. Without a card there is no response.
    pub fn ask(&mut self, (index, arg): (u8, u32), now_ns: u64) -> Reply {
        let reply = self.with_card(now_ns, |card, now_ns| card.command(index, arg, now_ns));
        let reply = reply.unwrap_or(Reply::SILENT);
        if let Some(until_ns) = reply.busy_until_ns {
            self.busy_until_ns = self.busy_until_ns.max(until_ns);
        }
        reply
    }

    /// Gives a block of data to the card, if the card expects data, and returns the card's reply;
    /// `None`: the card expects none. `flow`: what the card expects; `crc_ok`: the CRC of the block
    /// is right. A block of the wrong length counts as one with a wrong CRC.
    pub fn give_block(
        &mut self,
        flow: Option<Flow>,
        data: &[u8],
        crc_ok: bool,
        now_ns: u64,
    ) -> Option<WriteBlock> {
        let Some(Flow::Write { block_size }) = flow else { return None };
        let crc_ok = crc_ok && usize::from(block_size) == data.len();
        self.with_card(now_ns, |card, now_ns| card.write_block(data, crc_ok, now_ns))
    }

    /// Returns the CRC status that the controller receives (true: the card has accepted the block),
    /// and the end of busy in ns; `None` if the controller receives no status. `reply` is what the
    /// card did with the block. A fault may hide the status of a block that the card has taken; the
    /// card may then be busy.
    pub fn seen_status(&mut self, reply: Option<WriteBlock>, strike: Option<Strike>) -> Option<(bool, u64)> {
        let seen = reply.filter(|_| strike != Some(Strike::NoStatus));
        let seen = seen.and_then(|reply| Some((reply.status?, reply.busy_until_ns)));
        if seen.is_none() {
            self.busy_until_ns = self.busy_until_ns.max(reply.map_or(0, |reply| reply.busy_until_ns));
        }
        seen
    }

    /// Shows to the probe the CRC status after a block that ended at `end`, and the busy that
    /// follows until `busy_until_ns`. `good`: the CRC status says that the CRC was right.
    pub fn show_status(&mut self, end: Beat, good: bool, busy_until_ns: u64) {
        let status = end.plus(CRC_TURN_CLK);
        let (start_ns, end_ns) = (status.ns(), status.plus(CRC_TOKEN_CLK).ns());
        self.show(&Signal::CrcStatus { good, start_ns, end_ns });
        if busy_until_ns > end_ns {
            self.show(&Signal::Busy { from_ns: end_ns, until_ns: busy_until_ns });
        }
    }

    /// Counts a block on the data lines in the statistics: `bytes` bytes from `start_ns` to
    /// `end_ns`. `read`: the card sent the block; `good`: the block arrived without an error.
    pub fn count_block(&mut self, read: bool, bytes: usize, good: bool, start_ns: u64, end_ns: u64) {
        match (good, read) {
            (false, _) => self.stats.blocks_bad += 1,
            (true, true) => self.stats.blocks_read += 1,
            (true, false) => self.stats.blocks_written += 1,
        }
        if good {
            self.stats.bytes += bytes as u64;
        }
        self.note(BusEvent::Block { read, bytes: bytes as u32, good, start_ns, end_ns });
    }

    /// Counts the time from `from_ns` to `until_ns`, for which the bus waits for a busy card,
    /// unless the busy never ends.
    pub fn busy_from(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns > from_ns && until_ns != NEVER {
            self.stats.busy_ns = self.stats.busy_ns.saturating_add(until_ns - from_ns);
            self.note(BusEvent::Busy { from_ns, until_ns });
        }
    }

    /// Counts the time for which the controller stopped the clock, since its buffer had no room or
    /// no data.
    pub fn held(&mut self, from_ns: u64, until_ns: u64) {
        self.stats.held_ns += until_ns.saturating_sub(from_ns);
        if until_ns > from_ns {
            self.show(&Signal::ClockStopped { from_ns, until_ns });
        }
    }

    /// Returns the number of clocks that this number of bytes takes on the DAT lines.
    pub fn byte_clocks(&self, bytes: usize) -> u64 {
        let bits_a_clock = u64::from(self.bus.width.max(1)) << u8::from(self.bus.ddr);
        (bytes as u64 * 8).div_ceil(bits_a_clock)
    }

    /// Returns the time in ns at which a timeout expires, `clocks` clocks after `from_ns`. Returns
    /// [`NEVER`] if the event that the controller waits for comes before, at `until_ns`.
    pub fn limit_ns(&self, clocks: u64, from_ns: u64, until_ns: u64) -> u64 {
        let limit_ns = from_ns.saturating_add(self.beat(0).plus(clocks).ns());
        if limit_ns < until_ns { limit_ns } else { NEVER }
    }

    /// Returns whether the card is really busy, even if a fault hides it from the controller.
    pub fn card_is_busy(&self, now_ns: u64) -> bool {
        let at_ns = self.card_ns(now_ns);
        self.card().is_some_and(|card| card.busy(at_ns))
    }
}

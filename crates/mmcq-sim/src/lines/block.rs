//! A block on the DAT lines of a controller that has a FIFO, from its start bit to its CRC status.

use crate::card::{Flow, ReadBlock};
use crate::faults::{Strike, flip};
use crate::probe::Signal;
use crate::slot::Slot;
use crate::wire::{BLOCK_GAP_CLK, Beat};

/// Number of clocks that CRC16 and end bit of a block take.
pub(crate) const TAIL_CLK: u64 = 17;

/// The block that is on the DAT lines, or that was on them last.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Whether the card sends the block; otherwise the controller sends it.
    pub read: bool,
    /// What the card's reply to the command said about data, such as the block size.
    pub flow: Option<Flow>,
    /// Block size in bytes, as the controller expects it.
    pub size: usize,
    /// Number of bytes of the block that have already passed the lines.
    pub at: usize,
    /// Bytes of the block on the lines.
    pub bytes: Vec<u8>,
    pub good: bool,
    /// Fault that strikes the block; `None`: no fault.
    pub strike: Option<Strike>,
    /// Clock edge at which the lines were last in use.
    pub beat: Option<Beat>,
    start_ns: u64,
    /// Whether the probe has already seen the block.
    shown: bool,
    /// Time in ns at which the clock was stopped; it is valid while the clock is stopped.
    held_since_ns: u64,
}

impl Block {
    /// Resets the state of the block, and keeps its memory for reuse.
    pub fn forget(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        *self = Block { bytes, ..Block::default() };
    }

    /// Returns the number of bytes in the next word: 4, or fewer at the end of the block.
    pub fn word(&self) -> usize {
        (self.size - self.at).min(4)
    }

    /// Returns the clock edge at which the DAT lines were last in use; if they were not in use yet,
    /// the edge at `now_ns`.
    pub fn beat(&self, slot: &Slot, now_ns: u64) -> Beat {
        self.beat.unwrap_or_else(|| slot.beat(now_ns))
    }

    /// Extends the use of the lines by this number of clocks. Returns the time in ns at which the
    /// use ends.
    pub fn pass(&mut self, slot: &Slot, clocks: u64, now_ns: u64) -> u64 {
        let beat = self.beat(slot, now_ns).plus(clocks);
        self.beat = Some(beat);
        beat.ns()
    }

    /// Prevents that the lines are used again before the time `now_ns`.
    pub fn not_before(&mut self, slot: &Slot, now_ns: u64) {
        self.beat = Some(self.beat(slot, now_ns).not_before(now_ns));
    }

    /// Records that the controller has stopped the clock at this time, because the transfer of
    /// blocks has to wait.
    pub fn stands(&mut self, now_ns: u64) {
        self.held_since_ns = now_ns;
    }

    /// Records that the clock runs again. Returns the time in ns at which it had stopped.
    pub fn runs(&mut self, slot: &mut Slot, now_ns: u64) -> u64 {
        slot.held(self.held_since_ns, now_ns);
        self.not_before(slot, now_ns);
        self.held_since_ns
    }

    /// Requests a block from the card. Returns its earliest start in ns, and whether its CRC and
    /// its length are right; `None`: no block comes.
    pub fn ask(&mut self, slot: &mut Slot, now_ns: u64) -> Option<(u64, bool)> {
        let Some(Flow::Read { block_size }) = self.flow else { return None };
        let sent = usize::from(block_size);
        self.bytes.clear();
        // After the end of a shorter block the lines are high.
        self.bytes.resize(sent.max(self.size), 0xff);
        let bytes = &mut self.bytes[..sent];
        match slot.with_card(now_ns, |card, now_ns| card.read_block(bytes, now_ns))? {
            ReadBlock::At { start_ns, crc_ok } => Some((start_ns, crc_ok && sent == self.size)),
            ReadBlock::Never => None,
        }
    }

    /// Starts the block that [`ask`](Self::ask) returned; a fault may strike it. Returns the time
    /// of its start bit in ns; `None` if the block does not come.
    pub fn comes(
        &mut self,
        slot: &mut Slot,
        (mut start_ns, good): (u64, bool),
        strike: Option<Strike>,
        now_ns: u64,
    ) -> Option<u64> {
        self.strike = strike;
        match strike {
            Some(Strike::Lost | Strike::Never) => return None,
            Some(Strike::Late(ns)) => start_ns = start_ns.max(now_ns).saturating_add(ns),
            Some(Strike::Flip(bit)) => flip(&mut self.bytes, bit),
            _ => {}
        }
        let start = self.beat(slot, now_ns).not_before(start_ns);
        slot.stats.access_ns += start.ns().saturating_sub(now_ns);
        self.good = good;
        self.beat = Some(start);
        self.begins(start.ns());
        Some(start.ns())
    }

    /// Sets the time of the block's start bit.
    pub fn begins(&mut self, start_ns: u64) {
        (self.start_ns, self.shown) = (start_ns, false);
    }

    /// Counts a read block that has ended on the lines, and shows it to the probe. `good`: the CRC
    /// of the block is right.
    pub fn came(&mut self, slot: &mut Slot, good: bool, now_ns: u64) {
        self.count(slot, good, now_ns);
        self.show(slot, good, false, now_ns);
    }

    /// Gives the card a written block that has ended on the lines, and counts it; `damaged`: its
    /// CRC is wrong. Returns the CRC status that the controller sees; `None` if it sees none.
    /// `strike`: the fault that strikes the block, if any.
    pub fn went(
        &mut self,
        slot: &mut Slot,
        strike: Option<Strike>,
        damaged: bool,
        now_ns: u64,
    ) -> Option<bool> {
        if let Some(Strike::Flip(bit)) = strike {
            flip(&mut self.bytes, bit);
        }
        let flow = self.flow.filter(|_| strike != Some(Strike::Lost));
        let reply = slot.give_block(flow, &self.bytes, !damaged, now_ns);
        self.show(slot, !damaged, false, now_ns);
        let seen = slot.seen_status(reply, strike);
        self.count(slot, seen.is_some_and(|(good, _)| good), now_ns);
        let (good, busy_until_ns) = seen?;
        self.good = good;
        if busy_until_ns > now_ns {
            slot.busy_until_ns = slot.busy_until_ns.max(busy_until_ns);
        }
        slot.show_status(self.beat(slot, now_ns), good, busy_until_ns);
        Some(good)
    }

    /// Ends the block on the lines before its end bit; the probe sees the block as cut off.
    pub fn cut(&mut self, slot: &mut Slot, now_ns: u64) {
        if !self.shown && now_ns > self.start_ns {
            self.show(slot, true, true, now_ns);
        }
    }

    /// Reports the block to the probe, which observes the lines. `now_ns`: the end of the block on
    /// the lines. `crc_ok`: the CRC of the block is right. `cut`: an abort command has ended the
    /// block early.
    fn show(&mut self, slot: &mut Slot, crc_ok: bool, cut: bool, now_ns: u64) {
        self.shown = true;
        slot.show(&Signal::Block {
            read: self.read,
            data: &self.bytes[..self.size.min(self.bytes.len())],
            crc_ok,
            start_ns: self.start_ns,
            end_ns: now_ns,
            cut,
        });
    }

    fn count(&self, slot: &mut Slot, good: bool, now_ns: u64) {
        slot.count_block(self.read, self.size, good, self.start_ns, now_ns);
        // The block uses the lines for the gap, start bit, data, CRC16 and end bit.
        let clocks = BLOCK_GAP_CLK + 1 + slot.byte_clocks(self.size) + TAIL_CLK;
        slot.stats.data_ns += slot.beat(0).plus(clocks).ns();
    }
}

//! The data transfer of CMD53.

use super::super::tuning::FOUR_LINES;
use super::{IoCard, ReadBlock, WriteBlock, link};

/// State of a CMD53 that transfers data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub number: usize,
    pub write: bool,
    pub increment: bool,
    pub address: u32,
    /// Number of bytes in a block; a CMD53 in byte mode has one block.
    pub size: u16,
    /// Number of blocks left to transfer; `None`: the transfer lasts until the host aborts it.
    pub left: Option<u32>,
    /// Earliest time in ns at which the first block starts.
    pub first_ns: u64,
    /// Time in ns at which the last block of a read ended; `None`: not the last block yet.
    pub end_ns: Option<u64>,
}

impl Transfer {
    /// Returns the register address of the next byte, and advances the address if the CMD53 has
    /// incrementing addresses.
    fn step(&mut self) -> u32 {
        let address = self.address;
        self.address = address.wrapping_add(u32::from(self.increment)) & 0x1_ffff;
        address
    }

    fn block_done(&mut self) -> bool {
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }
}

impl IoCard {
    /// Ends the data of the CMD53, complete or not.
    pub(super) fn end_transfer(&mut self, now_ns: u64) {
        let Some(transfer) = self.transfer.take() else { return };
        if let Some(slot) = transfer.number.checked_sub(1).and_then(|place| self.slots.get_mut(place)) {
            slot.function.ended(transfer.write, now_ns);
        }
    }

    pub(super) fn send_block(&mut self, buffer: &mut [u8], now_ns: u64) -> ReadBlock {
        let crc_ok = self.mode().data_ok(&self.bus) && !self.damaged(now_ns);
        if std::mem::take(&mut self.tuning) {
            let Some(to) = buffer.get_mut(..FOUR_LINES.len()) else { return ReadBlock::Never };
            to.copy_from_slice(&FOUR_LINES);
            return ReadBlock::At { start_ns: now_ns, crc_ok };
        }
        let Some(mut transfer) = self.transfer.filter(|t| !t.write && t.end_ns.is_none()) else {
            return ReadBlock::Never;
        };
        let Some(to) = buffer.get_mut(..usize::from(transfer.size)) else { return ReadBlock::Never };
        let start_ns = now_ns.max(transfer.first_ns);
        for byte in to {
            *byte = self.read_byte(transfer.number, transfer.step(), start_ns);
        }
        if transfer.block_done() {
            transfer.end_ns = Some(start_ns.saturating_add(link::payload_ns(&self.bus, transfer.size)));
        }
        self.transfer = Some(transfer);
        ReadBlock::At { start_ns, crc_ok }
    }

    pub(super) fn take_block(&mut self, data: &[u8], crc_ok: bool, now_ns: u64) -> WriteBlock {
        let Some(mut transfer) = self.transfer.filter(|transfer| transfer.write) else {
            return WriteBlock { status: None, busy_until_ns: now_ns };
        };
        if !(crc_ok && self.mode().data_ok(&self.bus)) || self.damaged(now_ns) {
            // A failed single block ends the transfer; with several blocks the card waits for an
            // abort.
            if transfer.left == Some(1) {
                self.end_transfer(now_ns);
            }
            return WriteBlock { status: Some(false), busy_until_ns: now_ns };
        }
        for &byte in data.iter().take(transfer.size.into()) {
            self.write_byte(transfer.number, transfer.step(), byte, now_ns);
        }
        let busy_ns = transfer
            .number
            .checked_sub(1)
            .and_then(|n| self.slots.get(n))
            .map_or(0, |s| s.function.busy_ns());
        let mut busy_until_ns = now_ns.saturating_add(busy_ns);
        self.busy_until_ns = busy_until_ns;
        if busy_ns > 0 {
            let (until_ns, seen_ns) = self.trouble.busy(&self.faults, busy_until_ns);
            self.busy_until_ns = until_ns;
            busy_until_ns = seen_ns.unwrap_or(now_ns);
        }
        let over = transfer.block_done();
        self.transfer = Some(transfer);
        if over {
            self.end_transfer(now_ns);
        }
        WriteBlock { status: Some(true), busy_until_ns }
    }
}

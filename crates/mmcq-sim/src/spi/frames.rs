//! Frames, gaps, tokens and blocks on an SPI bus: the bytes that the card sends, and how the card
//! interprets the bytes of the master.

use std::collections::VecDeque;

use super::crc::crc16;
use super::{FIRST_CLOCKS, SpiSlot};
use crate::card::sd::{SpiBlock, r1_bits};
use crate::card::{Card, Flow};
use crate::faults::{Point, Strike, flip};
use crate::slot::Core;
use crate::stats::BusEvent;
use crate::wire::{Beat, crc7};

/// Token that begins a data block, except in a CMD25 [SD 7.3.3.2].
const START: u8 = 0xfe;
/// Token that begins a data block of a CMD25 [SD 7.3.3.2].
const START_OF_MANY: u8 = 0xfc;
/// Token that ends a CMD25 [SD 7.3.3.2].
const STOP: u8 = 0xfd;

/// Number of bytes from the card's last block until a read beyond the end fails. Before that the
/// master can send CMD12.
const AT_END_BYTES: u8 = 16;

/// Part of the exchange to which a byte from the card belongs, for the statistics.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Command,
    Data,
    Access,
    Busy,
}

/// What the card sends in the present read.
#[derive(Debug, Default)]
enum Sending {
    #[default]
    Nothing,
    /// The next block is beyond the end of the card. The value counts the bytes since the last
    /// block.
    AtEnd(u8),
    /// Start token, data and CRC16 of a block, or a data error token. The first byte is sent at
    /// `from_ns` or later.
    Bytes { from_ns: u64, bytes: Vec<u8>, sent: usize },
}

/// What the card expects from the master in the present write.
#[derive(Clone, Copy, Debug, Default)]
struct Taking {
    /// Token that begins a block of this write.
    token: u8,
    /// Number of bytes in a block, including its CRC16.
    len: usize,
    /// Number of bytes since the response to the command. At 0 a token comes without the gap that
    /// the standard requires (N_WR).
    gap: u32,
    /// Whether the master is sending a block.
    inside: bool,
}

/// State of the card's byte stream on the SPI bus: the command frame that the master is sending,
/// the response, the busy bytes, and the data blocks of the read or write in progress.
#[derive(Debug, Default)]
pub(super) struct Front {
    frame: [u8; 6],
    have: usize,
    answer: VecDeque<u8>,
    answer_ns: u64,
    /// Number of busy bytes that the card still sends after its response. It ignores the master
    /// meanwhile.
    busy_bytes: u8,
    /// Index of the command whose response is being sent, and the data that follow this response;
    /// `None`: no data follow.
    flow: Option<(u8, Flow)>,
    sending: Sending,
    taking: Taking,
    block: Vec<u8>,
    started_ns: u64,
}

impl Front {
    /// Ends everything that is under way on the wire.
    pub fn clear(&mut self) {
        *self = Front { block: std::mem::take(&mut self.block), ..Front::default() };
        self.block.clear();
    }

    /// Drops an incomplete frame when chip select goes high.
    pub fn forget_frame(&mut self) {
        self.have = 0;
    }

    fn is_inside_read(&self) -> bool {
        matches!(&self.sending, Sending::Bytes { sent, .. } if *sent > 0)
    }
}

impl SpiSlot {
    /// Returns the byte that the card sends next, and which part of the exchange the byte is.
    pub(super) fn speak(&mut self, now_ns: u64) -> (u8, Use) {
        let state = self.card(now_ns, |card, now_ns| (card.in_spi(), card.busy(now_ns)));
        let Some((true, busy)) = state.filter(|_| !self.mute) else {
            if state.is_none_or(|(on, _)| !on) && (self.front.flow.is_some() || self.front.taking.len != 0) {
                // The supply voltage dips at this time (a fault).
                self.front.clear();
            }
            return (0xff, Use::Command);
        };
        if !self.front.answer.is_empty() {
            let due = now_ns >= self.front.answer_ns;
            let byte = if due { self.front.answer.pop_front() } else { None };
            return (byte.unwrap_or(0xff), Use::Command);
        }
        if self.front.busy_bytes > 0 {
            self.front.busy_bytes -= 1;
            return (0, Use::Busy);
        }
        if busy {
            return (0, Use::Busy);
        }
        match &mut self.front.sending {
            Sending::Bytes { from_ns, bytes, sent } if now_ns >= *from_ns => {
                let byte = bytes.get(*sent).copied().unwrap_or(0xff);
                if *sent == 0 {
                    self.front.started_ns = now_ns;
                }
                *sent += 1;
                (byte, Use::Data)
            }
            Sending::Bytes { .. } => (0xff, Use::Access),
            _ if self.front.taking.inside => (0xff, Use::Data),
            _ => (0xff, Use::Command),
        }
    }

    /// Gives the card a byte of the master that ended at this time.
    pub(super) fn hear(&mut self, byte: u8, now_ns: u64) {
        if self.front.busy_bytes > 0 && self.front.answer.is_empty() {
            return;
        }
        if self.front.taking.inside {
            self.front.block.push(byte);
            if self.front.block.len() == self.front.taking.len {
                self.block_came(now_ns);
            }
        } else if self.front.have > 0 || byte & 0xc0 == 0x40 {
            self.front.frame[self.front.have] = byte;
            self.front.have += 1;
            if self.front.have == 6 {
                self.front.have = 0;
                self.frame_came(now_ns);
                return;
            }
        } else if matches!(byte, START | START_OF_MANY | STOP) && self.front.taking.len != 0 {
            self.token_came(byte, now_ns);
        }
        self.front.taking.gap = self.front.taking.gap.saturating_add(1);
        self.go_on(now_ns);
    }

    /// Prepares what follows the byte that has ended, such as the next block of a read.
    fn go_on(&mut self, now_ns: u64) {
        if !self.front.answer.is_empty() {
            return;
        }
        match self.front.flow.take() {
            None | Some((_, Flow::None)) => {}
            Some((_, Flow::Read { block_size })) => return self.next_block(block_size.into(), now_ns),
            Some((index, Flow::Write { block_size })) => {
                let token = if index == 25 { START_OF_MANY } else { START };
                self.front.taking = Taking { token, len: usize::from(block_size) + 2, gap: 0, inside: false };
            }
        }
        match &mut self.front.sending {
            Sending::Bytes { bytes, sent, .. } if *sent == bytes.len() => self.block_went(now_ns),
            Sending::AtEnd(waited) => {
                *waited += 1;
                if *waited >= AT_END_BYTES {
                    self.fetch(512, now_ns);
                }
            }
            _ => {}
        }
    }

    /// Prepares the next block of a read, with `len` data bytes, for the time at which the bus is
    /// free. At the card's end there is no block.
    fn next_block(&mut self, len: usize, now_ns: u64) {
        if self.card(now_ns, |card, _| card.spi_is_at_end()) == Some(true) {
            self.front.sending = Sending::AtEnd(0);
        } else {
            self.fetch(len, now_ns);
        }
    }

    fn fetch(&mut self, len: usize, now_ns: u64) {
        let mut bytes = vec![0; len + 3];
        let Some(got) = self.card(now_ns, |card, now_ns| card.spi_block(&mut bytes[1..=len], now_ns)) else {
            return self.front.clear();
        };
        // The gaps N_AC and N_CX have at least one byte.
        let gap_ns = Beat::new(now_ns, self.hz).plus(8).ns();
        self.front.sending = match got {
            SpiBlock::Never => Sending::Nothing,
            SpiBlock::Error(token) => Sending::Bytes { from_ns: gap_ns, bytes: vec![token], sent: 0 },
            SpiBlock::At { start_ns, whole } => {
                bytes[0] = START;
                let crc = crc16(&bytes[1..=len]);
                bytes[len + 1..].copy_from_slice(&crc.to_be_bytes());
                let late_ns = self.hurt_read(&mut bytes, whole, now_ns);
                let from_ns = start_ns.max(gap_ns).saturating_add(late_ns);
                Sending::Bytes { from_ns, bytes, sent: 0 }
            }
        };
    }

    /// Applies faults to the block `bytes` on its way from the card to the master. With `whole` as
    /// false, a quirk or a fault has damaged the block before: one bit is flipped. Returns the
    /// extra delay in ns.
    fn hurt_read(&mut self, bytes: &mut [u8], whole: bool, now_ns: u64) -> u64 {
        if !whole {
            flip(&mut bytes[1..], 77);
        }
        match self.strike(Point::ReadBlock, now_ns) {
            Some(Strike::Crc | Strike::EndBit | Strike::CrcAndEnd) => flip(&mut bytes[1..], 1234),
            // The master does not see the start token.
            Some(Strike::Lost) => bytes[0] = 0xff,
            Some(Strike::Late(ns)) => return ns,
            Some(Strike::Line(level)) => self.stuck = Some(if level == 0 { 0 } else { 0xff }),
            _ => {}
        }
        0
    }

    /// Counts a block that the card has sent completely, and prepares the next block of the read.
    fn block_went(&mut self, now_ns: u64) {
        let Sending::Bytes { bytes, .. } = std::mem::take(&mut self.front.sending) else { return };
        let Some(len) = bytes.len().checked_sub(3).filter(|len| *len > 0) else { return };
        let good = bytes[0] == START
            && crc16(&bytes[1..=len]) == u16::from_be_bytes([bytes[len + 1], bytes[len + 2]]);
        self.note_block(true, good, len, now_ns);
        if self.card(now_ns, |card, now_ns| card.spi_sends(now_ns)) == Some(true) {
            self.next_block(len, now_ns);
        }
    }

    fn note_block(&mut self, read: bool, good: bool, len: usize, now_ns: u64) {
        let stats = &mut self.slot.stats;
        match (good, read) {
            (true, true) => stats.blocks_read += 1,
            (true, false) => stats.blocks_written += 1,
            (false, _) => stats.blocks_bad += 1,
        }
        stats.bytes += if good { len as u64 } else { 0 };
        let start_ns = self.front.started_ns;
        self.slot.note(BusEvent::Block { read, bytes: len as u32, good, start_ns, end_ns: now_ns });
    }

    /// Begins a block or ends a CMD25, after a token from the master. A token that is wrong or
    /// comes too early is a mistake of the master.
    fn token_came(&mut self, token: u8, now_ns: u64) {
        let receives = self.card(now_ns, |card, now_ns| card.spi_receives(now_ns)) == Some(true);
        let many = self.front.taking.token == START_OF_MANY;
        if !receives
            || !self.front.answer.is_empty()
            || !(token == self.front.taking.token || (many && token == STOP))
        {
            return self.slot.violation();
        }
        if self.front.taking.gap == 0 {
            self.slot.violation();
            if self.habits.needs_gap {
                return;
            }
        }
        if token == STOP {
            self.front.taking = Taking::default();
            self.front.answer.extend(std::iter::repeat_n(0xff, self.habits.stop_bytes.into()));
            self.front.answer_ns = 0;
            self.card(now_ns, |card, now_ns| card.spi_stop(now_ns));
        } else {
            self.front.started_ns = now_ns;
            self.front.taking.inside = true;
            self.front.block.clear();
        }
    }

    /// Gives the card a block from the master, and prepares the card's data response token.
    fn block_came(&mut self, now_ns: u64) {
        self.front.taking.inside = false;
        let strike = self.strike(Point::WriteBlock, now_ns);
        if strike == Some(Strike::Lost) {
            return;
        }
        let mut block = std::mem::take(&mut self.front.block);
        if block.is_empty() {
            // The card was removed.
            return;
        }
        if matches!(strike, Some(Strike::Crc | Strike::EndBit)) {
            flip(&mut block, 1234);
        }
        let (data, crc) = block.split_at(block.len() - 2);
        let crc_ok = crc16(data).to_be_bytes() == *crc;
        let token = self.card(now_ns, |card, now_ns| card.spi_write(data, crc_ok, now_ns)).flatten();
        let good = token.is_some_and(|token| token & 0x1f == 0x05);
        let len = data.len();
        self.front.block = block;
        self.note_block(false, good, len, now_ns);
        if self.front.taking.token == START {
            self.front.taking = Taking::default();
        }
        if let Some(token) = token {
            self.front.answer_ns = 0;
            self.front.answer.push_back(if strike == Some(Strike::NoStatus) { 0xff } else { token });
        }
    }

    /// Gives the card a command frame from the master, and prepares the card's response.
    fn frame_came(&mut self, now_ns: u64) {
        let frame = self.front.frame;
        let index = frame[0] & 0x3f;
        let arg = u32::from_be_bytes([frame[1], frame[2], frame[3], frame[4]]);
        let mut crc_ok = frame[5] == crc7(&frame[..5]) << 1 | 1;
        let start_ns = now_ns.saturating_sub(48_000_000_000 / u64::from(self.hz));
        self.slot.stats.commands[usize::from(index)] += 1;
        self.slot.note(BusEvent::Command { index, arg, auto: false, start_ns, end_ns: now_ns });
        if self.clocks < FIRST_CLOCKS || (self.front.is_inside_read() && !matches!(index, 0 | 12)) {
            return self.slot.violation();
        }
        match self.strike(Point::Command, now_ns) {
            Some(Strike::Lost) => return,
            Some(Strike::Crc) => crc_ok = false,
            Some(Strike::Never) => self.mute = true,
            _ => {}
        }
        if self.mute || self.selected && self.foreign && self.habits.needs_ones {
            return;
        }
        let in_spi = self.card(now_ns, |card, _| card.in_spi());
        if in_spi == Some(false) && (index != 0 || !self.selected) {
            // A card in SD mode executes the command. Its response goes to the CMD line, which an
            // SPI bus does not have.
            if crc_ok {
                self.slot.with_card(now_ns, |card, now_ns| card.command(index, arg, now_ns));
            }
            return;
        }
        if index == 59 && self.habits.refuses_first_crc && !std::mem::replace(&mut self.refused_crc, true) {
            self.front.answer.extend([0xff, 0x05]);
            return;
        }
        let reply = self.card(now_ns, |card, now_ns| card.spi_frame(index, arg, crc_ok, now_ns));
        let Some(reply) = reply.flatten() else {
            self.slot.stats.silent += 1;
            self.slot.violation();
            return;
        };
        let stuff = match &self.front.sending {
            Sending::Bytes { bytes, sent, .. } if *sent > 0 => bytes.get(*sent).copied(),
            _ => None,
        };
        if self.card(now_ns, |card, now_ns| card.spi_sends(now_ns)) != Some(true) || reply.flow != Flow::None
        {
            self.front.sending = Sending::Nothing;
        }
        if self.card(now_ns, |card, now_ns| card.spi_receives(now_ns)) != Some(true) {
            self.front.taking = Taking::default();
        }
        self.slot.note(BusEvent::Response { index, content: reply.r1.into(), errors: 0, end_ns: now_ns });
        self.front.flow = (reply.flow != Flow::None).then_some((index, reply.flow));
        self.front.answer_ns = 0;
        self.front.answer.clear();
        if index == 12 {
            self.front.answer.push_back(stuff.unwrap_or(self.habits.stuff));
        }
        self.front.answer.extend(std::iter::repeat_n(0xff, self.habits.response_bytes.clamp(1, 8).into()));
        self.front.busy_bytes = if index == 55 { self.habits.busy_after_prefix } else { 0 };
        self.respond(reply.r1, reply.rest(), now_ns);
    }

    /// Makes the card send `r1`, and then the bytes in `rest`.
    fn respond(&mut self, r1: u8, rest: &[u8], now_ns: u64) {
        let mut r1 = r1;
        match self.strike(Point::Response, now_ns) {
            Some(Strike::Lost) => {
                self.front.answer.extend(std::iter::repeat_n(0xff, 1 + rest.len()));
                return;
            }
            // SPI responses have no CRC: the fault flips a bit of R1 instead.
            Some(Strike::Crc | Strike::EndBit | Strike::Index) => r1 ^= 1 << 3,
            Some(Strike::Status(bits)) => r1 |= r1_bits(bits),
            Some(Strike::Late(ns)) => self.front.answer_ns = now_ns.saturating_add(ns),
            _ => {}
        }
        self.front.answer.push_back(r1);
        self.front.answer.extend(rest);
    }
}

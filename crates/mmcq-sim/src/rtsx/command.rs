//! What happens on the CMD line in a transfer: the command, its response, and their faults.

use super::bits::sd;
use super::transfer::{Data, Open, Step};
use super::{BusEvent, Rtsx, Timer};
use crate::card::{Answer, Flow, Reply};
use crate::faults::{Point, Strike};
use crate::slot::Core;
use crate::wire::{Beat, LONG_RESPONSE_CLK, N_CR_CLK, N_RC_CLK, RESPONSE_CLK, crc7};

/// Number of clocks after which a missing response or CRC status will not come any more.
pub(super) const TIMEOUT_CLK: u64 = 80;

impl Rtsx {
    pub(super) fn send_command(&mut self, beat: Beat) {
        let token: [u8; 5] = std::array::from_fn(|i| self.regs.at(sd::CMD0 + i as u16));
        self.sd.index = token[0] & 0x3f;
        self.sd.arg = u32::from_be_bytes([token[1], token[2], token[3], token[4]]);
        if token[0] & 0xc0 != 0x40 {
            self.slot.violation();
            self.sd.deaf = true;
        }
        self.sd.deaf |= self.sd.config2 & sd::NO_CRC7 != 0;
        let beat = beat.not_before(self.sd.free_ns);
        let beat = self.slot.send((self.sd.index, self.sd.arg), false, beat);
        self.sd.beat = Some(beat);
        self.sd.step = Step::Token;
        self.set_timer(Timer::Sd, beat.ns());
    }

    /// Handles the end of a command on the line: the card receives it.
    pub(super) fn token_ended(&mut self, now: u64) {
        let (index, arg) = (self.sd.index, self.sd.arg);
        let deaf = self.strike(Point::Command, now) == Some(Strike::Lost) || self.sd.deaf;
        let reply =
            if deaf { None } else { self.slot.with_card(now, |card, now| card.command(index, arg, now)) }
                .unwrap_or(Reply::SILENT);
        if !deaf {
            self.follow_card(&reply);
        }
        self.sd.strike = reply.answer.and_then(|answer| self.strike_answer(answer, now));
        let answer = reply.answer.filter(|_| self.sd.strike != Some(Strike::Lost));
        let beat = self.beat(now);
        let (clocks, seen) = match (self.sd.config2 & 3, answer) {
            (0, answer) => {
                if answer.is_some() {
                    self.slot.violation();
                }
                (0, None)
            }
            (_, Some(Answer::Short { .. })) => (N_CR_CLK + RESPONSE_CLK, answer),
            (_, Some(Answer::Long(_))) => (N_CR_CLK + LONG_RESPONSE_CLK, answer),
            (_, None) if self.regs.at(sd::CFG3) & sd::RESPONSE_TIMEOUT != 0 => (TIMEOUT_CLK, None),
            (_, None) => return self.silence(),
        };
        let beat = beat.plus(clocks);
        self.slot.stats.command_ns += beat.plus(N_RC_CLK).ns().saturating_sub(now);
        self.sd.beat = Some(beat);
        self.sd.step = Step::Response(seen);
        if clocks == 0 {
            self.response_ended(None, now);
        } else {
            self.set_timer(Timer::Sd, beat.ns());
        }
    }

    /// Records the busy and the data that the card's reply has announced.
    fn follow_card(&mut self, reply: &Reply) {
        if let Some(until) = reply.busy_until_ns {
            self.slot.busy_until_ns = self.slot.busy_until_ns.max(until);
        }
        if reply.flow != Flow::None {
            self.sd.open = Some(Open { flow: reply.flow, moved: false });
        } else if matches!(self.sd.index, 0 | 12 | 15) {
            self.sd.open = None;
        }
    }

    pub(super) fn response_ended(&mut self, answer: Option<Answer>, now: u64) {
        let beat = self.beat(now);
        self.sd.free_ns = beat.plus(N_RC_CLK).ns();
        let expected = self.sd.config2 & 3;
        let mut stat1 = 0;
        let mut stat2 = 0;
        if let Some(answer) = answer {
            let (content, crc_ok) = self.store_response(answer);
            if !crc_ok && self.sd.config2 & sd::NO_CRC7_CHECK == 0 {
                stat1 = sd::CRC7_ERR;
            }
            let errors = u32::from(stat1);
            self.slot.note(BusEvent::Response { index: self.sd.index, content, errors, end_ns: now });
        } else if expected != 0 {
            self.slot.stats.silent += 1;
            stat2 = sd::NO_RESPONSE;
        }
        if stat1 | stat2 != 0 {
            return self.fail_transfer(stat1, stat2, now);
        }
        if self.sd.data == Data::None {
            self.finish_after_busy(now);
        } else {
            self.start_data(beat, now);
        }
    }

    /// Stores a response in the registers that the driver reads. Returns the upper 32 bits of its
    /// content, and whether its length and CRC are right.
    fn store_response(&mut self, answer: Answer) -> (u32, bool) {
        let wanted = match answer {
            Answer::Short { .. } => 1,
            Answer::Long(_) => 2,
        };
        let fits = self.sd.config2 & 3 == wanted;
        if !fits {
            self.slot.violation();
        }
        let strike = self.sd.strike.take();
        let damaged = strike == Some(Strike::Crc);
        let (first, content, last, crc_ok) = match answer {
            Answer::Short { index, content, crc } => {
                let index = if strike == Some(Strike::Index) { index ^ 1 } else { index } & 0x3f;
                let more = if let Some(Strike::Status(bits)) = strike { bits } else { 0 };
                let content = if crc { content | more } else { content };
                let [a, b, c, d] = content.to_be_bytes();
                let last = if crc { crc7(&[index, a, b, c, d]) << 1 | 1 } else { 0xff };
                (index, content, last, crc)
            }
            Answer::Long(bytes) => {
                let crc_ok = crc7(&bytes[..15]) == bytes[15] >> 1;
                let buffer = self.regs.ping_pong(16);
                buffer[0] = 0x3f;
                buffer[1..].copy_from_slice(&bytes[..15]);
                (0x3f, u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), bytes[15], crc_ok)
            }
        };
        self.regs.put(sd::CMD0, first);
        for (register, byte) in (sd::CMD0 + 1..).zip(content.to_be_bytes()) {
            self.regs.put(register, byte);
        }
        self.regs.put(sd::CMD0 + 5, last);
        (content, crc_ok && fits && !damaged)
    }

    /// Returns the clock edge at which the lines were last in use.
    pub(super) fn beat(&self, now: u64) -> Beat {
        self.sd.beat.unwrap_or_else(|| self.slot.beat(now))
    }
}

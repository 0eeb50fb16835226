//! The CMD line.

use super::bits::{cmd_con, cmd_sta};
use super::{BusEvent, NEVER, S3cSdi, Timer};
use crate::card::{Answer, Flow, Reply};
use crate::faults::{Point, Strike};
use crate::probe::Signal;
use crate::slot::Core;
use crate::wire::{
    Beat, COMMAND_CLK, LONG_RESPONSE_CLK, N_CR_CLK, N_RC_CLK, RESPONSE_CLK, RESPONSE_TIMEOUT_CLK, crc7,
};

/// A command as CMDCON describes it.
#[derive(Clone, Copy, Debug)]
struct Issue {
    index: u8,
    arg: u32,
    waits: bool,
    long: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The token is on the line.
    Token,
    /// The response is, or nothing (`None`) until the controller gives up.
    Response(Option<Answer>),
}

#[derive(Clone, Copy, Debug)]
struct Active {
    issue: Issue,
    step: Step,
    /// Where the step ends.
    beat: Beat,
    flow: Flow,
    /// Start bit of the response.
    answer_ns: u64,
    /// The card holds DAT0 low until then.
    busy_until_ns: u64,
    /// What is wrong with the response.
    strike: Option<Strike>,
}

#[derive(Debug, Default)]
pub(super) struct CmdLine {
    active: Option<Active>,
    /// The clock stands: the token goes when it runs again.
    waiting: Option<Issue>,
    /// The line is free for the next token from here on.
    free_ns: u64,
}

impl CmdLine {
    /// From the start of a command to the end of its response.
    pub fn active(&self) -> bool {
        self.active.is_some() || self.waiting.is_some()
    }

    /// A token is on the line.
    pub fn sending(&self) -> bool {
        self.active.is_some()
    }
}

impl S3cSdi {
    /// CMDCON was written with its start bit.
    pub(super) fn issue(&mut self, now: u64) {
        let con = self.regs.cmd_con;
        if self.cmd.active() || con & (cmd_con::FROM_HOST | cmd_con::ZERO) != cmd_con::FROM_HOST {
            return self.slot.violation();
        }
        let issue = Issue {
            index: (con & cmd_con::INDEX) as u8,
            arg: self.regs.argument,
            waits: con & cmd_con::WAIT_RESPONSE != 0,
            long: con & cmd_con::LONG != 0,
        };
        self.regs.cmd_status = self.regs.cmd_status & !0xff | cmd_sta::ON;
        self.reserve_data();
        self.cmd.waiting = Some(issue);
        self.command_may_go(now);
    }

    /// Sends the command that waits for the clock, if the clock runs.
    pub(super) fn command_may_go(&mut self, now: u64) {
        if !self.clocked() || self.dat.held() {
            return;
        }
        let Some(issue) = self.cmd.waiting.take() else { return };
        let start = self.slot.beat(now).not_before(self.cmd.free_ns);
        let beat = start.plus(COMMAND_CLK);
        let (start_ns, end_ns) = (start.ns(), beat.ns());
        self.slot.stats.commands[usize::from(issue.index)] += 1;
        self.slot.stats.command_ns += end_ns - start_ns;
        self.slot.note(BusEvent::Command {
            index: issue.index,
            arg: issue.arg,
            auto: false,
            start_ns,
            end_ns,
        });
        let (index, arg) = (issue.index, issue.arg);
        self.show(|_| Signal::Command { index, arg, auto: false, start_ns, end_ns });
        let (step, flow) = (Step::Token, Flow::None);
        self.cmd.active =
            Some(Active { issue, step, beat, flow, answer_ns: 0, busy_until_ns: 0, strike: None });
        self.set_timer(Timer::Command, end_ns);
    }

    pub(super) fn command_event(&mut self, now: u64) {
        let Some(active) = self.cmd.active.take() else { return };
        match active.step {
            Step::Token => self.token_ended(active, now),
            Step::Response(answer) => self.response_ended(active, answer, now),
        }
    }

    /// The card has the command.
    fn token_ended(&mut self, mut active: Active, now: u64) {
        let Issue { index, arg, waits, .. } = active.issue;
        let lost = self.strike(Point::Command, now) == Some(Strike::Lost);
        let reply =
            if lost { None } else { self.slot.with_card(now, |card, now| card.command(index, arg, now)) };
        let reply = reply.unwrap_or(Reply::SILENT);
        self.regs.cmd_status |= cmd_sta::SENT;
        if let Some(until_ns) = reply.busy_until_ns {
            self.slot.busy_until_ns = self.slot.busy_until_ns.max(until_ns);
            active.busy_until_ns = until_ns;
        }
        active.flow = reply.flow;
        active.strike = reply.answer.and_then(|_| self.strike(Point::Response, now));
        let seen = reply.answer.filter(|_| active.strike != Some(Strike::Lost) && waits);
        let clocks = match seen {
            Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK,
            Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK,
            None if waits => RESPONSE_TIMEOUT_CLK,
            None => 0,
        };
        active.answer_ns = active.beat.plus(N_CR_CLK).ns();
        active.beat = active.beat.plus(clocks);
        active.step = Step::Response(seen);
        if clocks == 0 {
            return self.response_ended(active, None, now);
        }
        self.cmd.active = Some(active);
        self.set_timer(Timer::Command, active.beat.ns());
    }

    fn response_ended(&mut self, active: Active, answer: Option<Answer>, now: u64) {
        let Active { issue, beat, flow, answer_ns, busy_until_ns, strike, .. } = active;
        self.regs.cmd_status &= !cmd_sta::ON;
        self.cmd.free_ns = beat.plus(N_RC_CLK).ns();
        let spent = match answer {
            Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK + N_RC_CLK,
            Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK + N_RC_CLK,
            None if issue.waits => RESPONSE_TIMEOUT_CLK + N_RC_CLK,
            None => N_RC_CLK,
        };
        self.slot.stats.command_ns += self.slot.beat(0).plus(spent).ns();
        if let Some(answer) = answer {
            self.take_response(&issue, answer, strike, answer_ns, now);
        } else if issue.waits {
            self.slot.stats.silent += 1;
            self.regs.cmd_status |= cmd_sta::TIMEOUT;
        }
        if busy_until_ns > now {
            self.show(|_| Signal::Busy { from_ns: now, until_ns: busy_until_ns });
        }
        self.start_data(flow, beat, now);
    }

    /// Content, index and CRC of a response.
    fn take_response(
        &mut self,
        issue: &Issue,
        answer: Answer,
        strike: Option<Strike>,
        start_ns: u64,
        now: u64,
    ) {
        let (index, mut crc_ok, mut content) = match answer {
            Answer::Short { index, content, crc } => (index, crc, [content, 0, 0, 0]),
            Answer::Long(bytes) => {
                let mut words = [0; 4];
                for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                    *word = four.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
                }
                // The CRC is not content.
                words[3] &= !0xff;
                (0x3f, crc7(&bytes[..15]) == bytes[15] >> 1, words)
            }
        };
        // A response of the other length is cut, or filled up with ones: either way its CRC is
        // wrong.
        crc_ok &= matches!(answer, Answer::Long(_)) == issue.long;
        let damaged = strike == Some(Strike::Crc);
        crc_ok &= !damaged;
        if let (Some(Strike::Status(bits)), Answer::Short { crc: true, .. }) = (strike, answer) {
            content[0] |= bits;
        }
        self.regs.response = content;
        let errors = if crc_ok { 0 } else { cmd_sta::CRC };
        self.regs.cmd_status |= u32::from(index) | cmd_sta::RESPONSE | errors;
        self.slot.note(BusEvent::Response { index: issue.index, content: content[0], errors, end_ns: now });
        let command = issue.index;
        self.show(|_| Signal::Response {
            command,
            answer,
            crc_ok: !damaged,
            end_ok: true,
            start_ns,
            end_ns: now,
        });
    }

    /// Reset: whatever was on the line is forgotten.
    pub(super) fn reset_command(&mut self) {
        self.set_timer(Timer::Command, NEVER);
        self.cmd = CmdLine { free_ns: self.cmd.free_ns, ..CmdLine::default() };
        self.regs.cmd_status = 0;
    }
}

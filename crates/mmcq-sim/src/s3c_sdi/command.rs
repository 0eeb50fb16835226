//! The CMD line of the SDI.

use super::bits::{cmd_con, cmd_sta};
use super::{NEVER, S3cSdi, Timer};
use crate::card::{Answer, Reply};
use crate::faults::{Point, Strike};
use crate::lines::{self, Active, Issued, Step};
use crate::probe::Signal;
use crate::slot::Core;

/// A command as the command control register (CMDCON) describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    index: u8,
    arg: u32,
    waits: bool,
    long: bool,
}

impl Issued for Issue {
    fn token(&self) -> (u8, u32) {
        (self.index, self.arg)
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

pub(super) type CmdLine = lines::CmdLine<Issue>;

impl S3cSdi {
    /// Issues the command that the command control register (CMDCON) describes, after a write of
    /// its start bit.
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
        self.cmd.wait(issue);
        self.command_may_go(now);
    }

    /// Sends the command that waits for the clock, if the clock runs now.
    pub(super) fn command_may_go(&mut self, now: u64) {
        if !self.clocked() || self.dat.held() {
            return;
        }
        if let Some(end_ns) = self.cmd.go(&mut self.slot, now) {
            self.set_timer(Timer::Command, end_ns);
        }
    }

    pub(super) fn command_event(&mut self, now: u64) {
        let Some(active) = self.cmd.take() else { return };
        match active.step {
            Step::Token => self.token_ended(active, now),
            Step::Response(answer) => self.response_ended(active, answer, now),
        }
    }

    /// Handles the end of a command on the line: the card receives it.
    fn token_ended(&mut self, mut active: Active<Issue>, now: u64) {
        let lost = self.strike(Point::Command, now) == Some(Strike::Lost);
        let reply = if lost { Reply::SILENT } else { self.slot.ask(active.issue.token(), now) };
        self.regs.cmd_status |= cmd_sta::SENT;
        (active.flow, active.busy_until_ns) = (reply.flow, reply.busy_until_ns.unwrap_or(0));
        active.strike = reply.answer.and_then(|answer| self.strike_answer(answer, now));
        match self.cmd.answered(&mut active, reply.answer) {
            Some(end_ns) => self.set_timer(Timer::Command, end_ns),
            None => self.response_ended(active, None, now),
        }
    }

    fn response_ended(&mut self, active: Active<Issue>, answer: Option<Answer>, now: u64) {
        let Active { issue, beat, flow, busy_until_ns, .. } = active;
        self.regs.cmd_status &= !cmd_sta::ON;
        self.cmd.over(&mut self.slot, &active, answer);
        if let Some(answer) = answer {
            self.take_response(&active, answer, now);
        } else if issue.waits {
            self.regs.cmd_status |= cmd_sta::TIMEOUT;
        }
        if busy_until_ns > now {
            self.slot.show(&Signal::Busy { from_ns: now, until_ns: busy_until_ns });
        }
        self.start_data(flow, beat, now);
    }

    /// Stores content, index and CRC of a response.
    fn take_response(&mut self, active: &Active<Issue>, answer: Answer, now: u64) {
        let Active { issue, strike, .. } = *active;
        let (index, mut crc_ok, mut content) = lines::content(answer);
        if matches!(answer, Answer::Long(_)) {
            // The response registers do not hold the CRC.
            content[3] &= !0xff;
        }
        // A response of the wrong length is cut, or filled with ones; its CRC is wrong in both
        // cases.
        crc_ok &= matches!(answer, Answer::Long(_)) == issue.long;
        let damaged = strike == Some(Strike::Crc);
        crc_ok &= !damaged;
        if let (Some(Strike::Status(bits)), Answer::Short { crc: true, .. }) = (strike, answer) {
            content[0] |= bits;
        }
        self.regs.response = content;
        let errors = if crc_ok { 0 } else { cmd_sta::CRC };
        self.regs.cmd_status |= u32::from(index) | cmd_sta::RESPONSE | errors;
        active.show_response(&mut self.slot, answer, content[0], errors, now);
    }

    /// Resets the circuit of the CMD line: a command or response in progress is dropped.
    pub(super) fn reset_command(&mut self) {
        self.set_timer(Timer::Command, NEVER);
        self.cmd.forget();
        self.regs.cmd_status = 0;
    }
}

//! The command path: the controller takes a command from its register, sends it, and receives the
//! response.

use super::bits::{cmd, ctrl, int};
use super::{Mshc, NEVER, Timer};
use crate::card::{Answer, Flow, Reply};
use crate::faults::{Point, Strike};
use crate::lines::{self, Active, Issued, Step};
use crate::probe::Signal;
use crate::slot::Core;
use crate::wire::Beat;

/// Number of source clocks from the bit START until the command path takes the command.
const TAKE_CLK: u64 = 4;
/// Number of clocks that the controller sends before the first command.
const INITIALIZE_CLK: u64 = 80;
/// Index of CMD12 (stop transmission).
const STOP_INDEX: u8 = 12;

/// A command as the command register describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    index: u8,
    arg: u32,
    flags: u32,
    /// Whether the controller sends the command by itself after data (automatic CMD12).
    auto: bool,
    timeout_clk: u64,
}

impl Issued for Issue {
    fn token(&self) -> (u8, u32) {
        (self.index, self.arg)
    }

    fn waits(&self) -> bool {
        self.flags & cmd::RESPONSE != 0
    }

    fn timeout_clk(&self) -> u64 {
        self.timeout_clk
    }
}

pub(super) type CmdLine = lines::CmdLine<Issue>;

/// State of the automatic CMD12.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Auto {
    #[default]
    None,
    /// The CMD12 is sent as soon as the CMD line is free.
    Due,
}

impl Mshc {
    /// Returns whether the bit START of the command register is set.
    pub(super) fn command_is_set(&self) -> bool {
        self.regs.command & cmd::START != 0
    }

    /// Stores `value` in the command register, as a write does. With the bit START the command path
    /// takes the command [`TAKE_CLK`] source clocks later.
    pub(super) fn set_command(&mut self, value: u32, now: u64) {
        self.regs.command = value;
        if value & cmd::START == 0 {
            return;
        }
        if value & (cmd::STREAM | cmd::ELSE) != 0 {
            self.slot.violation();
        }
        if self.config.source_hz != 0 {
            let at_ns = Beat::new(now, self.config.source_hz).plus(TAKE_CLK).ns();
            self.set_timer(Timer::Take, at_ns);
        }
    }

    /// Tries again to take the command from its register, if it could not be taken before.
    pub(super) fn command_waits(&mut self, now: u64) {
        let runs = self.config.source_hz != 0 && !self.clock.hangs;
        if runs && self.command_is_set() && self.timer_ns(Timer::Take) == NEVER && self.may_take(now) {
            self.set_timer(Timer::Take, now);
        }
    }

    fn may_take(&self, now: u64) -> bool {
        let waits = self.regs.command & cmd::WAIT_DATA != 0;
        let free = !self.cmd.active() && self.auto == Auto::None && self.regs.control & ctrl::RESET == 0;
        free && !(waits && (self.dat.active() || self.dat0_is_low(now)))
    }

    /// Takes the command from its register if START is set.
    pub(super) fn take_command(&mut self, now: u64) {
        if !self.command_is_set() {
            return;
        }
        if !self.may_take(now) {
            // Other events that end call this function again; only the end of busy needs a timer.
            let until_ns = self.slot.busy_until_ns;
            if until_ns > now && until_ns != NEVER {
                self.set_timer(Timer::Take, until_ns);
            }
            return;
        }
        let command = self.regs.command;
        if command & cmd::UPDATE_CLOCK != 0 {
            self.update_clock(command, now);
            if self.clock.hangs {
                return;
            }
            self.regs.command &= !cmd::START;
            if self.config.is_smhc() {
                self.regs.raw |= int::COMMAND_DONE;
            }
            return;
        }
        self.regs.command &= !cmd::START;
        let issue = Issue {
            index: (command & cmd::INDEX) as u8,
            arg: self.regs.argument,
            flags: command,
            auto: false,
            timeout_clk: u64::from(self.regs.timeout & 0xff).max(1),
        };
        if command & cmd::DATA != 0 && !self.data_begin(command, now) {
            return;
        }
        if self.slot.bus.clock_hz == 0 {
            self.slot.violation();
        }
        self.cmd.wait(issue);
        if command & cmd::INITIALIZE != 0 && self.slot.bus.clock_hz != 0 {
            let at_ns = self.slot.beat(now).plus(INITIALIZE_CLK).ns();
            return self.set_timer(Timer::Go, at_ns);
        }
        self.command_may_go(now);
    }

    /// Sends the automatic CMD12 after data that ended without an error, as soon as the CMD line is
    /// free.
    pub(super) fn stop_is_due(&mut self, now: u64) {
        self.auto = Auto::Due;
        self.command_may_go(now);
    }

    /// Sends the command that waits for the clock, if the clock runs now.
    pub(super) fn command_may_go(&mut self, now: u64) {
        let early = self.timer_ns(Timer::Go);
        if self.slot.bus.clock_hz == 0 || self.dat.held() || early != NEVER && early > now {
            return;
        }
        if self.auto == Auto::Due && !self.cmd.active() {
            self.auto = Auto::None;
            let flags = cmd::RESPONSE | cmd::CHECK_CRC;
            let arg = self.regs.auto_argument << 16;
            let arg = if self.config.is_smhc() && self.regs.auto_argument != 0xffff { arg } else { 0 };
            let timeout_clk = u64::from(self.regs.timeout & 0xff).max(1);
            self.cmd.wait(Issue { index: STOP_INDEX, arg, flags, auto: true, timeout_clk });
        }
        if let Some(end_ns) = self.cmd.go(&mut self.slot, now) {
            self.set_timer(Timer::Command, end_ns);
        }
    }

    /// Resets the command path, as a reset of the controller does.
    pub(super) fn forget_command(&mut self) {
        self.cmd.forget();
        self.auto = Auto::None;
        self.regs.command &= !cmd::START;
    }

    pub(super) fn command_event(&mut self, now: u64) {
        let Some(active) = self.cmd.take() else { return };
        match active.step {
            Step::Token => self.token_ended(active, now),
            Step::Response(answer) => self.response_ended(active, answer, now),
        }
    }

    /// Handles the end of a command token on the CMD line: passes the command to the card, and
    /// stores the card's reply in `active`.
    fn token_ended(&mut self, mut active: Active<Issue>, now: u64) {
        let Issue { auto, flags, .. } = active.issue;
        let point = if auto { Point::AutoCommand } else { Point::Command };
        let strike = self.strike(point, now);
        let lost = strike == Some(Strike::Lost);
        let reply = if lost { Reply::SILENT } else { self.slot.ask(active.issue.token(), now) };
        (active.flow, active.busy_until_ns) = (reply.flow, reply.busy_until_ns.unwrap_or(0));
        if flags & cmd::STOP != 0 {
            self.abort_data(now);
        }
        if flags & cmd::DATA != 0 {
            self.dat.block.flow = Some(self.carried(reply.flow));
        }
        active.strike = match reply.answer {
            Some(answer) if !auto => self.strike_answer(answer, now),
            _ => strike,
        };
        match self.cmd.answered(&mut active, reply.answer) {
            Some(end_ns) => self.set_timer(Timer::Command, end_ns),
            None => self.response_ended(active, None, now),
        }
    }

    /// Returns the data that a command transfers. A command that has no data itself may carry
    /// further blocks of the write that the card has open.
    fn carried(&self, flow: Flow) -> Flow {
        match self.dat.carried {
            Some(open) if flow == Flow::None && !self.config.carries_nothing => open,
            _ => flow,
        }
    }

    fn response_ended(&mut self, active: Active<Issue>, answer: Option<Answer>, now: u64) {
        let Active { issue, beat, busy_until_ns, .. } = active;
        self.cmd.over(&mut self.slot, &active, answer);
        let mut errors = 0;
        if let Some(answer) = answer {
            errors = self.take_response(&active, answer, now);
        } else if issue.waits() {
            errors = int::RESPONSE_TIMEOUT;
        }
        if busy_until_ns > now {
            self.slot.show(&Signal::Busy { from_ns: now, until_ns: busy_until_ns });
            self.slot.busy_from(now, busy_until_ns);
        }
        let switches = issue.flags & cmd::VOLTAGE != 0 && errors == 0;
        self.regs.raw |= errors
            | match (issue.auto, switches) {
                (true, _) => int::AUTO_DONE,
                (false, true) => 0,
                (false, false) => int::COMMAND_DONE,
            };
        if answer.is_some() && busy_until_ns <= now && !self.dat.active() && !self.slot.card_is_busy(now) {
            // A card that is deselected or reset does not hold DAT0 low any more.
            self.slot.busy_until_ns = 0;
        }
        if switches {
            self.voltage_command_answered(now);
        }
        if issue.flags & cmd::DATA != 0 {
            self.answer_is_over(errors, beat, now);
        }
        self.command_may_go(now);
    }

    /// Stores content, index and CRC of a response. Returns the error bits that it causes.
    fn take_response(&mut self, active: &Active<Issue>, answer: Answer, now: u64) -> u32 {
        let Active { issue, strike, .. } = *active;
        let (mut index, mut crc_ok, mut content) = lines::content(answer);
        let long = issue.flags & cmd::LONG != 0;
        let checks = issue.flags & cmd::CHECK_CRC != 0;
        crc_ok &= matches!(answer, Answer::Long(_)) == long;
        match (strike, answer) {
            (Some(Strike::Status(bits)), Answer::Short { crc: true, .. }) => content[0] |= bits,
            (Some(Strike::Index), _) => index ^= 1,
            (Some(Strike::Crc), _) => crc_ok = false,
            _ => {}
        }
        if long {
            content.reverse();
            self.regs.response = content;
        } else if issue.auto && !self.config.auto_answer_first {
            self.regs.response[1] = content[0];
        } else {
            self.regs.response[0] = content[0];
        }
        self.regs.response_index = u32::from(index & 0x3f);
        let mut errors = 0;
        if checks && !crc_ok {
            errors |= int::RESPONSE_CRC;
        }
        let other = checks && !long && index != issue.index;
        if other || strike == Some(Strike::EndBit) {
            errors |= int::RESPONSE_ERROR;
        }
        active.show_response(&mut self.slot, answer, content[0], errors, now);
        errors
    }
}

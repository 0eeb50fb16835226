//! The command path of an SDMMC [58.5.4].

use super::bits::{cmd, dctrl, sta};
use super::{Stm32Sdmmc, Timer};
use crate::card::{Answer, Reply};
use crate::faults::{Point, Strike};
use crate::lines::{self, Active, Issued, Step};
use crate::probe::Signal;
use crate::slot::Core;

/// Number of clocks after a response at which the controller samples DAT0 a second time.
const SAMPLE_CLK: u64 = 2;

/// Type of response that the controller expects for the command in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Nothing,
    Short,
    ShortWithoutCrc,
    Long,
}

/// A command as the register CMD describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    index: u8,
    arg: u32,
    expect: Expect,
    transfers: bool,
    stops: bool,
}

impl Issued for Issue {
    fn token(&self) -> (u8, u32) {
        (self.index, self.arg)
    }

    fn waits(&self) -> bool {
        self.expect != Expect::Nothing
    }
}

/// The CMD line; [`active`](lines::CmdLine::active) is the status bit CPSMACT.
pub(super) type CmdLine = lines::CmdLine<Issue>;

impl Stm32Sdmmc {
    /// Writes `value` to the register CMD, and issues the command that it describes.
    pub(super) fn set_command(&mut self, value: u32, now: u64) {
        if self.cmd.active() {
            // During a command, only the bit DTHOLD can change.
            let hold = (value ^ self.regs.command) & cmd::HOLD;
            if hold == 0 || (value ^ self.regs.command) & !cmd::HOLD != 0 {
                self.slot.violation();
            }
            self.regs.command ^= hold;
            return self.hold_changed(now);
        }
        self.regs.command = value & !cmd::ENABLE;
        if value & cmd::ELSE != 0 {
            self.slot.violation();
        }
        self.hold_changed(now);
        if value & cmd::ENABLE != 0 {
            self.issue(now);
        }
    }

    fn issue(&mut self, now: u64) {
        let command = self.regs.command;
        let transfers = command & cmd::TRANS != 0;
        // With a data length of 0 neither the command nor data are sent [58.10.8]. In a read wait
        // with the clock stopped no command is sent [58.10.4].
        if transfers && self.regs.length == 0 || self.dat.waits_without_clock(self.regs.dctrl) {
            return self.slot.violation();
        }
        if transfers && self.regs.stale_control {
            // Timer and length are written before DCTRL [RM0456 31.10.7].
            self.slot.violation();
        }
        let expect = match command >> cmd::RESPONSE_SHIFT & 3 {
            0 => Expect::Nothing,
            1 => Expect::Short,
            2 => Expect::ShortWithoutCrc,
            _ => Expect::Long,
        };
        self.regs.command |= cmd::ENABLE;
        self.cmd.wait(Issue {
            index: (command & cmd::INDEX) as u8,
            arg: self.regs.argument,
            expect,
            transfers,
            stops: command & cmd::STOP != 0,
        });
        self.power_save_follows(now);
        self.command_may_go(now);
    }

    /// Sends the command that waits for the clock, if the clock runs now.
    pub(super) fn command_may_go(&mut self, now: u64) {
        if self.slot.bus.clock_hz == 0 || self.clock.forbids_commands() || self.dat.held() {
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
        let Issue { transfers, stops, .. } = active.issue;
        let lost = self.strike(Point::Command, now) == Some(Strike::Lost);
        let reply = if lost { Reply::SILENT } else { self.slot.ask(active.issue.token(), now) };
        (active.flow, active.busy_until_ns) = (reply.flow, reply.busy_until_ns.unwrap_or(0));
        if stops {
            self.abort(now);
        }
        if transfers && self.regs.dctrl & dctrl::READ != 0 {
            self.enable_data(reply.flow, active.beat, now);
        }
        active.strike = reply.answer.and_then(|answer| self.strike_answer(answer, now));
        match self.cmd.answered(&mut active, reply.answer) {
            Some(end_ns) => self.set_timer(Timer::Command, end_ns),
            None => self.response_ended(active, None, now),
        }
    }

    fn response_ended(&mut self, active: Active<Issue>, answer: Option<Answer>, now: u64) {
        let Active { issue, beat, flow, busy_until_ns, .. } = active;
        self.regs.command &= !cmd::ENABLE;
        self.cmd.over(&mut self.slot, &active, answer);
        let mut good = false;
        if let Some(answer) = answer {
            good = self.take_response(&active, answer, now);
        } else if issue.waits() {
            self.regs.status |= sta::COMMAND_TIMEOUT;
        } else {
            self.regs.status |= sta::SENT;
        }
        if busy_until_ns > now {
            self.slot.show(&Signal::Busy { from_ns: now, until_ns: busy_until_ns });
        }
        if issue.stops {
            self.dat.stop_owed = false;
        }
        if good && issue.transfers && self.regs.dctrl & dctrl::READ == 0 {
            self.enable_data(flow, beat, now);
        }
        if issue.transfers {
            self.answer_is_over(beat, now);
        }
        if good && self.voltage_may_switch() {
            self.voltage_command_answered(now);
        }
        if answer.is_some() {
            if busy_until_ns <= now && !self.dat.moves_data() && !self.slot.card_is_busy(now) {
                // A card that is deselected or reset does not hold DAT0 low any more.
                self.slot.busy_until_ns = 0;
            }
            self.sample_busy(now);
            let at_ns = beat.plus(SAMPLE_CLK).ns();
            self.set_timer(Timer::Sample, at_ns);
        }
    }

    /// Stores content, index and CRC of a response. Returns true if the response has no error.
    fn take_response(&mut self, active: &Active<Issue>, answer: Answer, now: u64) -> bool {
        let Active { issue, strike, .. } = *active;
        let (mut index, mut crc_ok, mut content) = lines::content(answer);
        if matches!(answer, Answer::Long(_)) {
            // The end bit of a long response reads as zero [58.10.6].
            content[3] &= !1;
        }
        // A response of the wrong length is cut, or filled with ones; its CRC is wrong in both
        // cases.
        crc_ok &= matches!(answer, Answer::Long(_)) == (issue.expect == Expect::Long);
        let damaged = matches!(strike, Some(Strike::Crc | Strike::EndBit));
        crc_ok &= !damaged;
        match (strike, answer) {
            (Some(Strike::Status(bits)), Answer::Short { crc: true, .. }) => content[0] |= bits,
            (Some(Strike::Index), _) => index ^= 1,
            _ => {}
        }
        let good = crc_ok || issue.expect == Expect::ShortWithoutCrc;
        if issue.expect != Expect::Long {
            content[1..].fill(0);
        }
        self.regs.response = content;
        self.regs.response_index = index.into();
        let flag = if good { sta::RESPONSE } else { sta::COMMAND_CRC };
        self.regs.status |= flag;
        let errors = flag & sta::COMMAND_CRC;
        active.show_response(&mut self.slot, answer, content[0], errors, now);
        good
    }
}

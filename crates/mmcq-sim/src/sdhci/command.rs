//! The CMD line: commands of the driver, and commands that the controller sends by itself [SDHC
//! 1.15, 2.2.6].

use super::bits::{auto, host2, int, mode, present, reset};
use super::{BusEvent, Sdhci, Timer};
use crate::card::{Answer, Flow, Reply};
use crate::faults::{Point, Strike};
use crate::probe::Signal;
use crate::slot::Core;
use crate::wire::{Beat, LONG_RESPONSE_CLK, N_CR_CLK, N_RC_CLK, RESPONSE_CLK, RESPONSE_TIMEOUT_CLK, crc7};

/// Time in ns until a missing response counts as a timeout while the clock is stopped: then nothing
/// counts 64 clocks.
const NO_CLOCK_TIMEOUT_NS: u64 = 100_000;

/// Error bits of an R1 [SDHC 4.20, 2.2.5]: out of range, address, block length, write protection,
/// locked, CRC, ECC, controller, general.
const R1_ERRORS: u32 = 0xe6b8_0000;
/// Error bits of an R5: CRC, general error, function number, out of range.
const R5_ERRORS: u32 = 0x0000_8b00;

/// Type of response that the host expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    None,
    Long,
    Short,
    ShortBusy,
}

/// Automatic command of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Auto {
    #[default]
    None,
    Stop,
    Count,
}

/// A command as the registers describe it at the write that starts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issue {
    pub index: u8,
    pub arg: u32,
    pub expected: Expected,
    check_crc: bool,
    check_index: bool,
    pub data: bool,
    /// Whether the command type is 11b (abort): the command ends the transfer in progress.
    abort: bool,
    pub auto: Auto,
    pub mode: u16,
}

/// Sender of a command: the driver (`Host`), the command queue engine, or the controller by itself
/// (automatic CMD23 and CMD12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Host,
    /// The controller's command queue engine has sent the command.
    Queue,
    AutoCount,
    AutoStop,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The command is on the line.
    Token,
    /// The response is on the line. `None`: no response comes, and the line is silent until the
    /// controller gives up.
    Response(Option<Answer>),
}

#[derive(Clone, Copy, Debug)]
struct Active {
    issue: Issue,
    sender: Sender,
    step: Step,
    /// Clock edge at which the command or the response, whichever is on the line now, ends.
    beat: Beat,
    /// Time in ns of the response's start bit.
    answer_ns: u64,
    flow: Flow,
    busy_until_ns: u64,
    /// Fault that strikes the response.
    strike: Option<Strike>,
}

#[derive(Debug, Default)]
pub(super) struct CmdLine {
    /// Bit Command Inhibit (CMD) of the Present State register.
    pub inhibit: bool,
    active: Option<Active>,
    /// Earliest time in ns at which the next command can start.
    free_ns: u64,
    /// A command of the driver that waits for the end of the automatic command on the line.
    waiting: Option<Issue>,
    /// Whether the driver has reset the DAT circuit since it wrote the present command; the command
    /// then has no effect on the DAT lines.
    detached: bool,
    /// An automatic CMD12 that waits for the end of the driver's command on the line.
    stop_due: Option<Beat>,
}

impl Issue {
    /// Makes a command that the command queue engine itself sends, with this index and argument.
    /// `expected`: the kind of response. `data`: the command uses the DAT lines.
    pub fn own(index: u8, arg: u32, expected: Expected, data: bool) -> Self {
        Issue {
            index,
            arg,
            expected,
            check_crc: true,
            check_index: true,
            data,
            abort: false,
            auto: Auto::None,
            mode: 0,
        }
    }
}

impl CmdLine {
    pub fn sending(&self) -> bool {
        self.active.is_some()
    }

    /// Records that the driver has reset the DAT circuit: the command on the CMD line no longer
    /// waits for data or busy.
    pub fn forget_data(&mut self) {
        self.stop_due = None;
        self.detached = true;
    }
}

impl Sdhci {
    /// Issues the command that the registers describe, after a write to the upper byte of the
    /// Command register.
    pub(super) fn issue(&mut self, now: u64) {
        let command = self.regs.command;
        let expected = match command & 3 {
            0 => Expected::None,
            1 => Expected::Long,
            2 => Expected::Short,
            _ => Expected::ShortBusy,
        };
        let data = command & 1 << 5 != 0;
        let abort = command >> 6 & 3 == 3;
        let index = (command >> 8) as u8;
        let uses_dat = data || expected == Expected::ShortBusy;
        let resetting =
            self.regs.reset & (reset::ALL | reset::CMD) != 0 || uses_dat && self.regs.reset & reset::DAT != 0;
        let stuck = self.hurt.stuck;
        let inhibited = self.cmd.inhibit
            || stuck & present::CMD_INHIBIT != 0
            || uses_dat && !abort && (self.dat.active() || stuck & present::DAT_INHIBIT != 0);
        if self.queue_has_bus() {
            return self.violation("a command of the driver while the queue engine has the bus");
        }
        if resetting {
            return self.violation("a command during a reset of its circuit [SDHC 2.2.16]");
        }
        if inhibited {
            return self.violation("a command while Command Inhibit is set [SDHC 2.2.9]");
        }
        if abort && data {
            return self.violation("an abort command with data [SDHC 2.2.6]");
        }
        let issue = Issue {
            index,
            arg: self.regs.argument,
            expected,
            check_crc: command & 1 << 3 != 0,
            check_index: command & 1 << 4 != 0,
            data,
            abort,
            auto: if data { self.auto_command() } else { Auto::None },
            mode: self.regs.mode,
        };
        if self.config.drift_per_s != 0 {
            self.refresh_bus(now);
        }
        self.cmd.inhibit = true;
        self.cmd.detached = false;
        self.hurt.clock_written = false;
        self.regs.not_issued = false;
        if uses_dat && !self.dat.active() {
            self.reserve_data(&issue);
        }
        if self.cmd.active.is_some() {
            self.cmd.waiting = Some(issue);
        } else {
            self.first_token(issue, self.slot.beat(now));
        }
    }

    /// Returns the automatic command that the Transfer Mode register requests.
    fn auto_command(&mut self) -> Auto {
        match self.regs.mode >> 2 & 3 {
            0 => Auto::None,
            1 => Auto::Stop,
            2 if self.config.spec >= 2 => Auto::Count,
            3 if self.config.spec >= 4 && self.regs.version4() => {
                if self.regs.host2 & host2::CMD23 != 0 {
                    Auto::Count
                } else {
                    Auto::Stop
                }
            }
            _ => {
                self.violation("an automatic command that the controller does not have [SDHC 2.2.5]");
                Auto::None
            }
        }
    }

    fn first_token(&mut self, issue: Issue, beat: Beat) {
        if issue.auto == Auto::Count && !self.config.mistakes.auto_count_missing {
            // With SDMA in version 3 the argument of CMD23 is the DMA address. SDMA and Auto CMD23
            // exclude each other, which the card's reaction shows.
            self.send(issue, Sender::AutoCount, beat);
        } else {
            self.send(issue, Sender::Host, beat);
        }
    }

    /// Sends the automatic CMD12 after the last block, as soon as the CMD line is free.
    pub(super) fn send_stop(&mut self, beat: Beat) {
        if self.cmd.active.is_some() {
            self.cmd.stop_due = Some(beat);
            return;
        }
        let issue = Issue {
            index: 12,
            arg: 0,
            expected: Expected::ShortBusy,
            check_crc: true,
            check_index: true,
            data: false,
            abort: true,
            auto: Auto::None,
            mode: 0,
        };
        self.send(issue, Sender::AutoStop, beat);
    }

    /// Sends a command of the command queue engine.
    pub(super) fn send_own(&mut self, issue: Issue, now: u64) {
        self.send(issue, Sender::Queue, self.slot.beat(now));
    }

    /// Returns index and argument of the command on the line.
    fn token(&self, issue: &Issue, sender: Sender) -> (u8, u32) {
        if sender == Sender::AutoCount { (23, self.regs.argument2) } else { (issue.index, issue.arg) }
    }

    fn send(&mut self, issue: Issue, sender: Sender, beat: Beat) {
        let mut active = Active {
            issue,
            sender,
            step: Step::Token,
            beat: beat.not_before(self.cmd.free_ns),
            answer_ns: 0,
            flow: Flow::None,
            busy_until_ns: 0,
            strike: None,
        };
        let (index, arg) = self.token(&issue, sender);
        if self.hurt.mute || index == 23 && self.config.mistakes.count_hangs {
            // The command stays on the line for ever.
        } else if self.clocked() {
            active.beat = self.slot.send((index, arg), sender != Sender::Host, active.beat);
            self.set_timer(Timer::Command, active.beat.ns());
        } else {
            active.step = Step::Response(None);
            active.beat =
                Beat::new(active.beat.ns().saturating_add(NO_CLOCK_TIMEOUT_NS), self.slot.bus.clock_hz);
            self.set_timer(Timer::Command, active.beat.ns());
        }
        self.cmd.active = Some(active);
    }

    pub(super) fn command_event(&mut self, now: u64) {
        let Some(active) = self.cmd.active.take() else { return };
        match active.step {
            Step::Token => self.token_ended(active, now),
            Step::Response(answer) => self.response_ended(active, answer, now),
        }
    }

    /// Handles the end of a command on the line: the card receives it.
    fn token_ended(&mut self, mut active: Active, now: u64) {
        let (index, arg) = self.token(&active.issue, active.sender);
        let silence = Reply { answer: None, flow: Flow::None, busy_until_ns: None };
        let by_host = matches!(active.sender, Sender::Host | Sender::Queue);
        let strike = self.strike(if by_host { Point::Command } else { Point::AutoCommand }, now);
        let lost = strike == Some(Strike::Lost);
        let reply =
            if lost { None } else { self.slot.with_card(now, |card, now| card.command(index, arg, now)) }
                .unwrap_or(silence);
        let abort = active.issue.abort && by_host;
        if abort && reply.answer.is_some() {
            self.cut_data(now);
        }
        active.flow = reply.flow;
        active.busy_until_ns = reply.busy_until_ns.unwrap_or(0);
        let expected = !by_host || active.issue.expected != Expected::None;
        let length = match reply.answer {
            Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK,
            Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK,
            None if expected => RESPONSE_TIMEOUT_CLK,
            None => 0,
        };
        active.strike = match reply.answer {
            Some(answer) if by_host => self.strike_answer(answer, now),
            _ => strike,
        };
        let seen = reply.answer.filter(|_| active.strike != Some(Strike::Lost));
        let length = if seen.is_none() && expected { RESPONSE_TIMEOUT_CLK } else { length };
        active.step = Step::Response(seen);
        active.answer_ns = active.beat.plus(N_CR_CLK).ns();
        active.beat = active.beat.plus(length);
        if length == 0 {
            return self.response_ended(active, None, now);
        }
        self.cmd.active = Some(active);
        self.set_timer(Timer::Command, active.beat.ns());
    }

    /// Compares the response `answer` with what the command expects. Returns the error bits (of
    /// register 30h), and the content in the order of the response registers. `sent`: index of the
    /// command on the line. `strike`: fault that strikes the response.
    fn judge(issue: &Issue, sent: u8, answer: Answer, strike: Option<Strike>) -> (u32, [u32; 4]) {
        let mut errors = 0;
        let long = issue.expected == Expected::Long;
        let (index, crc_ok, end_ok, mut content) = match answer {
            Answer::Short { index, content, crc } => (index, crc, true, [content, 0, 0, 0]),
            Answer::Long(b) => {
                // Bits 127:8 of an R2 go to bits 119:0 of the response registers [SDHC 2.2.7].
                let word = |at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
                let top = u32::from_be_bytes([0, b[0], b[1], b[2]]);
                let crc_ok = crc7(&b[..15]) == b[15] >> 1;
                (0x3f, crc_ok, b[15] & 1 == 1, [word(11), word(7), word(3), top])
            }
        };
        if let (Some(Strike::Status(bits)), Answer::Short { crc: true, .. }) = (strike, answer) {
            content[0] |= bits;
        }
        if matches!(answer, Answer::Long(_)) != long {
            errors |= int::COMMAND_END_BIT | if issue.check_crc { int::COMMAND_CRC } else { 0 };
        }
        if strike == Some(Strike::EndBit) || !end_ok {
            errors |= int::COMMAND_END_BIT;
        }
        if (strike == Some(Strike::Crc) || !crc_ok) && issue.check_crc {
            errors |= int::COMMAND_CRC;
        }
        if (strike == Some(Strike::Index) || index != sent) && issue.check_index {
            errors |= int::COMMAND_INDEX;
        }
        (errors, content)
    }

    fn response_ended(&mut self, active: Active, answer: Option<Answer>, now: u64) {
        let Active { mut issue, sender, beat, answer_ns, flow, busy_until_ns, strike, .. } = active;
        let (index, _) = self.token(&issue, sender);
        if sender == Sender::AutoCount {
            issue = Issue { expected: Expected::Short, check_crc: true, check_index: true, ..issue };
        }
        let mut content = [0; 4];
        let mut errors = 0;
        if let Some(answer) = answer.filter(|_| issue.expected != Expected::None) {
            (errors, content) = Self::judge(&issue, index, answer, strike);
        } else if issue.expected != Expected::None {
            errors = int::COMMAND_TIMEOUT;
            self.slot.stats.silent += 1;
        }
        if let Some(answer) = answer {
            self.slot.note(BusEvent::Response {
                index,
                content: if issue.expected == Expected::Long { content[3] } else { content[0] },
                errors,
                end_ns: now,
            });
            self.slot.show(&Signal::Response {
                command: index,
                answer,
                crc_ok: errors & int::COMMAND_CRC == 0,
                end_ok: errors & int::COMMAND_END_BIT == 0,
                start_ns: answer_ns,
                end_ns: now,
            });
        }
        // Without a clock nothing was on the line.
        self.cmd.free_ns = if self.clocked() { beat.plus(N_RC_CLK).ns() } else { now };
        // Time of the line after the command: the response, or the wait for one, and the gap.
        if self.clocked() {
            let spent = match answer {
                Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK + N_RC_CLK,
                Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK + N_RC_CLK,
                None if errors != 0 => RESPONSE_TIMEOUT_CLK + N_RC_CLK,
                None => N_RC_CLK,
            };
            self.slot.stats.command_ns += self.slot.beat(0).plus(spent).ns();
        }
        if busy_until_ns > now {
            self.slot.show(&Signal::Busy { from_ns: now, until_ns: busy_until_ns });
            self.slot.busy_until_ns = self.slot.busy_until_ns.max(busy_until_ns);
        }
        match sender {
            Sender::AutoCount => self.count_ended(active.issue, beat, errors, content, now),
            Sender::AutoStop => {
                self.regs.response[3] = content[0];
                let checked = self.regs.mode & mode::RESPONSE_CHECK != 0;
                let errors = self.check_automatic(checked, errors, content[0]);
                if errors == 0 {
                    self.stop_ended(now);
                } else {
                    self.auto_error(errors, now);
                    self.fail_data();
                }
                self.next_on_line();
            }
            Sender::Queue => {
                self.queue_answered(&issue, beat, flow, (errors, content[0]), now);
                self.next_on_line();
            }
            Sender::Host => {
                let late_ns = if let Some(Strike::Late(ns)) = strike { ns } else { 0 };
                self.host_command_ended(&issue, beat, flow, errors, content, answer.is_some(), late_ns, now)
            }
        }
    }

    /// Checks the R1 of an automatic command (`content`) for error bits if `checked`, that is, if
    /// the controller checks the R1 of its main command [SDHC 4.10, 2.2.24]. Returns `errors` with
    /// the bit of a response error added.
    fn check_automatic(&self, checked: bool, errors: u32, content: u32) -> u32 {
        let found = errors == 0 && checked && self.config.spec >= 4 && content & R1_ERRORS != 0;
        errors | if found { int::RESPONSE } else { 0 }
    }

    /// Handles the end of an automatic CMD23: sends its main command if there was no error.
    /// `errors`: the error bits of the command so far; `content`: its response.
    fn count_ended(&mut self, issue: Issue, beat: Beat, errors: u32, content: [u32; 4], now: u64) {
        self.regs.response[3] = content[0];
        let checked = issue.mode & mode::RESPONSE_CHECK != 0;
        let errors = self.check_automatic(checked, errors, content[0]);
        if errors == 0 {
            return self.send(issue, Sender::Host, beat);
        }
        // The main command is not sent, and the inhibit bits stay set until a reset [SDHC 2.2.9,
        // 2.2.18].
        self.regs.not_issued = true;
        self.auto_error(errors, now);
        self.fail_data();
    }

    fn auto_error(&mut self, errors: u32, now: u64) {
        let pairs = [
            (int::COMMAND_TIMEOUT, auto::TIMEOUT),
            (int::COMMAND_CRC, auto::CRC),
            (int::COMMAND_END_BIT, auto::END_BIT),
            (int::COMMAND_INDEX, auto::INDEX),
            (int::RESPONSE, auto::RESPONSE),
        ];
        self.regs.auto_errors =
            pairs.iter().filter(|(bit, _)| errors & bit != 0).fold(0, |all, (_, status)| all | status);
        if self.cmd.waiting.take().is_some() {
            // A command without data waited for the automatic CMD12 that failed, and is not sent
            // [SDHC 2.2.24].
            self.regs.auto_errors |= auto::NOT_ISSUED;
            self.regs.not_issued = true;
        }
        self.raise(int::AUTO_COMMAND, now);
    }

    #[allow(clippy::too_many_arguments)]
    fn host_command_ended(
        &mut self,
        issue: &Issue,
        beat: Beat,
        flow: Flow,
        mut errors: u32,
        content: [u32; 4],
        answered: bool,
        late_ns: u64,
        now: u64,
    ) {
        if answered && issue.expected == Expected::Long {
            self.regs.response = content;
        } else if answered && issue.expected != Expected::None {
            self.regs.response[0] = content[0];
        }
        if errors == 0 && issue.mode & mode::RESPONSE_CHECK != 0 && issue.expected != Expected::None {
            let mask = if issue.mode & mode::R5 != 0 { R5_ERRORS } else { R1_ERRORS };
            errors |= if content[0] & mask != 0 { int::RESPONSE } else { 0 };
        }
        let silent = errors & int::COMMAND_TIMEOUT != 0;
        self.cmd.inhibit = silent && self.config.inhibit_after_timeout;
        // In the tuning procedure only Buffer Read Ready is raised [SDHC 2.2.25].
        let tuning = issue.data && self.dat.tuning();
        let quiet = tuning || silent || issue.mode & mode::NO_COMMAND_COMPLETE != 0 && errors == 0;
        let news = if quiet { 0 } else { int::COMMAND_COMPLETE } | if tuning { 0 } else { errors };
        self.raise_after(late_ns, news, now);
        let uses_dat = issue.data || issue.expected == Expected::ShortBusy;
        if self.cmd.detached {
            // The DAT circuit was reset, so that the controller does not wait for data or busy.
        } else if uses_dat && errors != 0 && !tuning {
            self.fail_data();
        } else if issue.data {
            self.start_data(flow, beat, now);
        } else if issue.expected == Expected::ShortBusy {
            self.start_busy(now);
        } else if issue.abort {
            self.abort_without_busy(now);
            if self.config.mistakes.stop_completes_after_ns != 0 {
                self.raise_after(self.config.mistakes.stop_completes_after_ns, int::TRANSFER_COMPLETE, now);
            }
        }
        self.next_on_line();
    }

    /// Starts the command that waits until the CMD line is free, if there is one.
    fn next_on_line(&mut self) {
        if self.cmd.active.is_some() {
            return;
        }
        if let Some(beat) = self.cmd.stop_due.take() {
            self.send_stop(beat);
        } else if let Some(issue) = self.cmd.waiting.take() {
            let beat = self.slot.beat(self.slot.now_ns());
            self.first_token(issue, beat);
        }
    }

    /// Executes Software Reset For CMD Line [SDHC 2.2.16].
    pub(super) fn reset_command(&mut self) {
        self.list.stops();
        self.stop_timer(Timer::Command);
        self.cmd = CmdLine { free_ns: self.cmd.free_ns, ..CmdLine::default() };
        self.regs.status &= !int::COMMAND_COMPLETE;
        self.forget_late(int::COMMAND_COMPLETE | int::ERRORS_OF_COMMAND);
        self.regs.not_issued = false;
        self.hurt.mute = false;
        if let Some(cqe) = &mut self.cqe {
            cqe.line_was_reset();
        }
    }
}

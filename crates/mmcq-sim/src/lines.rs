//! What the CMD and DAT lines of a slot do for every controller: tokens, responses, blocks and their
//! status, and what is counted and shown of them.

use crate::alarms::NEVER;
use crate::card::{Answer, Flow, Reply, WriteBlock};
use crate::faults::Strike;
use crate::probe::Signal;
use crate::slot::Slot;
use crate::stats::BusEvent;
use crate::wire::{
    Beat, COMMAND_CLK, CRC_TOKEN_CLK, CRC_TURN_CLK, LONG_RESPONSE_CLK, N_CR_CLK, N_RC_CLK, RESPONSE_CLK,
    RESPONSE_TIMEOUT_CLK, crc7,
};

impl Slot {
    /// Shows the probe, if there is one, a signal.
    pub fn show(&mut self, signal: &Signal<'_>) {
        if let Some(probe) = &mut self.probe {
            probe(signal);
        }
    }

    /// A token is on the CMD line from `start` on. Returns its end.
    pub fn send(&mut self, (index, arg): (u8, u32), auto: bool, start: Beat) -> Beat {
        let end = start.plus(COMMAND_CLK);
        let (start_ns, end_ns) = (start.ns(), end.ns());
        self.stats.commands[usize::from(index & 63)] += 1;
        self.stats.command_ns += end_ns - start_ns;
        self.note(BusEvent::Command { index, arg, auto, start_ns, end_ns });
        self.show(&Signal::Command { index, arg, auto, start_ns, end_ns });
        end
    }

    /// What the card does with a command, if it is there.
    pub fn ask(&mut self, (index, arg): (u8, u32), now_ns: u64) -> Reply {
        let reply = self.with_card(now_ns, |card, now_ns| card.command(index, arg, now_ns));
        let reply = reply.unwrap_or(Reply::SILENT);
        if let Some(until_ns) = reply.busy_until_ns {
            self.busy_until_ns = self.busy_until_ns.max(until_ns);
        }
        reply
    }

    /// The card has a block of data, if it takes blocks of this length.
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

    /// The CRC status that the controller sees, and until when the card is busy. Where it sees none
    /// the card may have taken the block all the same, and be busy with it.
    pub fn seen_status(&mut self, reply: Option<WriteBlock>, strike: Option<Strike>) -> Option<(bool, u64)> {
        let seen = reply.filter(|_| strike != Some(Strike::NoStatus));
        let seen = seen.and_then(|reply| Some((reply.status?, reply.busy_until_ns)));
        if seen.is_none() {
            self.busy_until_ns = self.busy_until_ns.max(reply.map_or(0, |reply| reply.busy_until_ns));
        }
        seen
    }

    /// The status behind a block that ended at `end`, and the busy behind that.
    pub fn show_status(&mut self, end: Beat, good: bool, busy_until_ns: u64) {
        let status = end.plus(CRC_TURN_CLK);
        let (start_ns, end_ns) = (status.ns(), status.plus(CRC_TOKEN_CLK).ns());
        self.show(&Signal::CrcStatus { good, start_ns, end_ns });
        if busy_until_ns > end_ns {
            self.show(&Signal::Busy { from_ns: end_ns, until_ns: busy_until_ns });
        }
    }

    /// A block was on the lines.
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

    /// The bus waits for the card, unless that has no end.
    pub fn busy_from(&mut self, from_ns: u64, until_ns: u64) {
        if until_ns > from_ns && until_ns != NEVER {
            self.stats.busy_ns = self.stats.busy_ns.saturating_add(until_ns - from_ns);
            self.note(BusEvent::Busy { from_ns, until_ns });
        }
    }

    /// The clock stood because the controller had no room or no data.
    pub fn held(&mut self, from_ns: u64, until_ns: u64) {
        self.stats.held_ns += until_ns.saturating_sub(from_ns);
        if until_ns > from_ns {
            self.show(&Signal::ClockStopped { from_ns, until_ns });
        }
    }
}

/// Index of a response, whether its CRC is right, and its content. That of a long one has its CRC in
/// the last byte.
pub(crate) fn content(answer: Answer) -> (u8, bool, [u32; 4]) {
    match answer {
        Answer::Short { index, content, crc } => (index, crc, [content, 0, 0, 0]),
        Answer::Long(bytes) => {
            let mut words = [0; 4];
            for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = four.iter().fold(0, |word, &byte| word << 8 | u32::from(byte));
            }
            (0x3f, crc7(&bytes[..15]) == bytes[15] >> 1, words)
        }
    }
}

/// A command as a controller has been told of it.
pub(crate) trait Issued: Copy {
    /// Index and argument.
    fn token(&self) -> (u8, u32);

    /// The controller waits for a response.
    fn waits(&self) -> bool;

    /// It gives up after so many clocks without one.
    fn timeout_clk(&self) -> u64 {
        RESPONSE_TIMEOUT_CLK
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The token is on the line.
    Token,
    /// The response is, or nothing (`None`) until the controller gives up.
    Response(Option<Answer>),
}

/// A command on the line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<I> {
    pub issue: I,
    pub step: Step,
    /// Where the step ends.
    pub beat: Beat,
    pub flow: Flow,
    /// Start bit of the response.
    pub answer_ns: u64,
    /// The card holds DAT0 low until then.
    pub busy_until_ns: u64,
    /// What is wrong with the response.
    pub strike: Option<Strike>,
}

/// The CMD line of a controller whose commands wait for the clock.
#[derive(Debug)]
pub(crate) struct CmdLine<I> {
    active: Option<Active<I>>,
    /// The clock stands: the token goes when it runs again.
    waiting: Option<I>,
    /// The line is free for the next token from here on.
    free_ns: u64,
}

impl<I> Default for CmdLine<I> {
    fn default() -> Self {
        CmdLine { active: None, waiting: None, free_ns: 0 }
    }
}

impl<I: Issued> CmdLine<I> {
    /// From the start of a command to the end of its response.
    pub fn active(&self) -> bool {
        self.active.is_some() || self.waiting.is_some()
    }

    /// A token is on the line, or its response.
    pub fn sending(&self) -> bool {
        self.active.is_some()
    }

    /// A command waits for the clock.
    pub fn wait(&mut self, issue: I) {
        self.waiting = Some(issue);
    }

    /// The clock runs: sends the command that waits. Returns when its token ends.
    pub fn go(&mut self, slot: &mut Slot, now_ns: u64) -> Option<u64> {
        let issue = self.waiting.take()?;
        let beat = slot.send(issue.token(), false, slot.beat(now_ns).not_before(self.free_ns));
        let (step, flow) = (Step::Token, Flow::None);
        self.active = Some(Active { issue, step, beat, flow, answer_ns: 0, busy_until_ns: 0, strike: None });
        Some(beat.ns())
    }

    /// Takes what is on the line, whose step has ended.
    pub fn take(&mut self) -> Option<Active<I>> {
        self.active.take()
    }

    /// What the card says to a token comes next. Returns when it ends; `None`: it has ended.
    pub fn answered(&mut self, active: &mut Active<I>, answer: Option<Answer>) -> Option<u64> {
        let waits = active.issue.waits();
        let seen = answer.filter(|_| active.strike != Some(Strike::Lost) && waits);
        let clocks = clocks(seen, &active.issue);
        active.answer_ns = active.beat.plus(N_CR_CLK).ns();
        active.beat = active.beat.plus(clocks);
        active.step = Step::Response(seen);
        if clocks == 0 {
            return None;
        }
        self.active = Some(*active);
        Some(active.beat.ns())
    }

    /// A command is over, with this response.
    pub fn over(&mut self, slot: &mut Slot, active: &Active<I>, answer: Option<Answer>) {
        self.free_ns = active.beat.plus(N_RC_CLK).ns();
        let spent = clocks(answer, &active.issue) + N_RC_CLK;
        slot.stats.command_ns += slot.beat(0).plus(spent).ns();
        slot.stats.silent += u64::from(answer.is_none() && active.issue.waits());
    }

    /// Whatever was on the line is forgotten.
    pub fn forget(&mut self) {
        (self.active, self.waiting) = (None, None);
    }
}

/// From the end of a token to that of its response, or of the wait for one.
fn clocks(answer: Option<Answer>, issue: &impl Issued) -> u64 {
    match answer {
        Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK,
        Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK,
        None if issue.waits() => issue.timeout_clk(),
        None => 0,
    }
}

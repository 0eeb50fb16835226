//! The CMD line: a command from its start bit to the end of its response.

use crate::card::{Answer, Flow};
use crate::faults::Strike;
use crate::probe::Signal;
use crate::slot::Slot;
use crate::stats::BusEvent;
use crate::wire::{Beat, LONG_RESPONSE_CLK, N_CR_CLK, N_RC_CLK, RESPONSE_CLK, RESPONSE_TIMEOUT_CLK, crc7};

/// Returns the index of a response, whether its CRC is right, and its content. A long response has
/// its CRC in the last byte.
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

/// A command that a driver has given to a controller.
pub(crate) trait Issued: Copy {
    /// Returns index and argument of the command.
    fn token(&self) -> (u8, u32);

    /// Returns whether the controller waits for a response to the command.
    fn waits(&self) -> bool;

    /// Returns the number of clocks after which the controller gives up waiting for a response.
    fn timeout_clk(&self) -> u64 {
        RESPONSE_TIMEOUT_CLK
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The command itself is on the line.
    Token,
    /// The response is on the line. `None`: no response comes, and the line is silent until the
    /// controller gives up.
    Response(Option<Answer>),
}

/// The command that is on the CMD line, with its response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active<I> {
    pub issue: I,
    pub step: Step,
    /// Clock edge at which the command or the response, whichever is on the line now, ends.
    pub beat: Beat,
    pub flow: Flow,
    /// Time in ns of the response's start bit.
    pub answer_ns: u64,
    /// Time in ns until which the card holds DAT0 low.
    pub busy_until_ns: u64,
    /// Fault that strikes the response.
    pub strike: Option<Strike>,
}

impl<I: Issued> Active<I> {
    /// Reports the end of a response. The bus log gets its `content` and the `errors` that the
    /// controller reports to the driver. The probe gets `answer`, the bits that were on the line.
    pub fn show_response(&self, slot: &mut Slot, answer: Answer, content: u32, errors: u32, now_ns: u64) {
        let (index, _) = self.issue.token();
        slot.note(BusEvent::Response { index, content, errors, end_ns: now_ns });
        slot.show(&Signal::Response {
            command: index,
            answer,
            crc_ok: self.strike != Some(Strike::Crc),
            end_ok: self.strike != Some(Strike::EndBit),
            start_ns: self.answer_ns,
            end_ns: now_ns,
        });
    }
}

/// The CMD line of a controller whose commands wait while the clock is stopped.
#[derive(Debug)]
pub(crate) struct CmdLine<I> {
    active: Option<Active<I>>,
    /// The command that waits for the clock to run.
    waiting: Option<I>,
    /// Earliest time in ns at which the next command can start.
    free_ns: u64,
}

impl<I> Default for CmdLine<I> {
    fn default() -> Self {
        CmdLine { active: None, waiting: None, free_ns: 0 }
    }
}

impl<I: Issued> CmdLine<I> {
    /// Returns whether a command is under way, from the driver's start to the end of its response.
    pub fn active(&self) -> bool {
        self.active.is_some() || self.waiting.is_some()
    }

    /// Returns whether a command or its response is on the line.
    pub fn sending(&self) -> bool {
        self.active.is_some()
    }

    /// Stores a command that waits for the clock to run.
    pub fn wait(&mut self, issue: I) {
        self.waiting = Some(issue);
    }

    /// Sends the waiting command; the caller has checked that the clock runs. Returns the time in
    /// ns at which the command ends on the line; `None` if no command waits.
    pub fn go(&mut self, slot: &mut Slot, now_ns: u64) -> Option<u64> {
        let issue = self.waiting.take()?;
        let beat = slot.send(issue.token(), false, slot.beat(now_ns).not_before(self.free_ns));
        let (step, flow) = (Step::Token, Flow::None);
        self.active = Some(Active { issue, step, beat, flow, answer_ns: 0, busy_until_ns: 0, strike: None });
        Some(beat.ns())
    }

    /// Removes and returns the command on the line, of which the token or the response has just
    /// ended; `None`: no command is on the line.
    pub fn take(&mut self) -> Option<Active<I>> {
        self.active.take()
    }

    /// Starts the card's response to a command. Returns the end in ns of the response, or of the
    /// wait for one; `None` if the controller waits for no response.
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

    /// Records the end of a command with the response `answer` (`None`: without one), and its
    /// clocks on the bus.
    pub fn over(&mut self, slot: &mut Slot, active: &Active<I>, answer: Option<Answer>) {
        self.free_ns = active.beat.plus(N_RC_CLK).ns();
        let spent = clocks(answer, &active.issue) + N_RC_CLK;
        slot.stats.command_ns += slot.beat(0).plus(spent).ns();
        slot.stats.silent += u64::from(answer.is_none() && active.issue.waits());
    }

    /// Drops everything on the line, as a reset does.
    pub fn forget(&mut self) {
        (self.active, self.waiting) = (None, None);
    }
}

/// Returns the number of clocks from the end of a command to the end of its response, or of the
/// wait for one.
fn clocks(answer: Option<Answer>, issue: &impl Issued) -> u64 {
    match answer {
        Some(Answer::Short { .. }) => N_CR_CLK + RESPONSE_CLK,
        Some(Answer::Long(_)) => N_CR_CLK + LONG_RESPONSE_CLK,
        None if issue.waits() => issue.timeout_clk(),
        None => 0,
    }
}

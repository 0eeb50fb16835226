//! Polls for the state of a card after an error: how many, and for how long.

use super::super::FlushBy;
use super::super::bus::SLACK_NS;
use super::super::card::Card;
use super::super::timers::Timers;
use super::{Incident, RecoveryStep};
use crate::sched::Profile;

/// Time in ns between the first polls of the card's state. The pause doubles after each 16 polls,
/// seven times in all: it is about a tenth of the wait so far.
const STATE_INTERVAL_NS: u32 = 200_000;
pub(super) const STATE_DOUBLINGS: u32 = 7;
pub(super) const STATE_INTERVAL_MAX_NS: u32 = STATE_INTERVAL_NS << STATE_DOUBLINGS;
/// Most polls of the card's state in one pass of recovery; [`STATE_WAIT_NS`] is the time that they
/// take together. Before the first poll, the failed command has already used the longest time that
/// the card needs for it.
pub(super) const STATE_QUESTIONS_MAX: u32 = 155;
pub(super) const STATE_WAIT_NS: u64 = 1_510_000_000;

/// Returns the time in ns between two CMD13 that poll the card's state after an error. `questions`:
/// how many polls there were so far; the more, the longer the time.
pub(super) fn state_pause_ns(questions: u32) -> u64 {
    u64::from(STATE_INTERVAL_NS << (questions / 16).min(STATE_DOUBLINGS))
}

impl Card {
    /// Returns whether the time limit of recovery from the failure allows another try. The time for
    /// the polls that would follow if the try fails is included.
    pub fn has_time(&self, timers: &Timers, now_ns: u64) -> bool {
        let card_ns = self.plan().longest_ns();
        !timers.incident_is_over(now_ns.saturating_add(card_ns).saturating_add(STATE_WAIT_NS + 2 * SLACK_NS))
    }

    /// Returns the time limit in ns of a flush of the eMMC's cache, if the failed request is a
    /// control request (`of_control`), since this may have been a flush; otherwise 0.
    pub fn flush_ns(&self, of_control: bool) -> u64 {
        match self.target().map(|t| t.flush) {
            Some(FlushBy::EmmcCache { timeout_ns }) if of_control => timeout_ns,
            _ => 0,
        }
    }
}

impl Incident {
    /// Returns how often recovery polls the card's state (CMD13) before it takes the next step.
    /// `order_ns`: longest time in ns for which the card may still work. For an erase or a flush
    /// this may be much longer than the time limit of the controller.
    pub fn questions_max<P: Profile>(&self, order_ns: u64) -> u32 {
        let asked = (order_ns / u64::from(STATE_INTERVAL_MAX_NS)) as u32 + 16 * STATE_DOUBLINGS;
        // The card gets that time once: after a reset of the controller it has had the time.
        let given = self.spent & 1 << RecoveryStep::Reset as u16 != 0;
        if P::RECOVERS && !given { asked.max(STATE_QUESTIONS_MAX) } else { STATE_QUESTIONS_MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_asks_for_a_second_and_a_half_and_no_question_comes_much_too_late() {
        let mut waited_ns = 0;
        for question in 1..STATE_QUESTIONS_MAX {
            let pause_ns = state_pause_ns(question);
            assert!(pause_ns <= u64::from(STATE_INTERVAL_NS) || pause_ns * 15 <= waited_ns * 2, "{question}");
            waited_ns += pause_ns;
        }
        assert!((1_500_000_000..STATE_WAIT_NS).contains(&waited_ns), "{waited_ns}");
    }
}

//! Checks at the end of a run, when all requests have their results: the time that recovery took,
//! and whether its measures were justified.

use crate::card::State;
use crate::choice::Bad;
use crate::host::World;
use crate::judge::{Fate, Work};
use crate::run::{MS, Run};
use crate::supervisor::Supervisor;
use mmcq::engine::{Error, RecoveryStep};

/// Longest time of an incident in nanoseconds: 12 s, the card's own times for a read and a write,
/// and a second for the supervisor's last commands.
const INCIDENT_NS: u64 = 12_000 * MS + 600 * MS + 1_000 * MS;
/// Time in nanoseconds that a run with another card may take longer, for the bring-up of that card.
/// A run with an erase, or with flushes of a cache, may take twice this time longer.
const LONG_NS: u64 = 30_000 * MS;
/// Time in nanoseconds by which one fault may delay a bring-up.
const LATER_NS: u64 = 500 * MS;
/// Time in nanoseconds at which each run begins.
const BEGAN_NS: u64 = MS;

impl Run<'_> {
    /// Checks, when all requests have their results, the time that recovery took, and whether the
    /// faults of the run justify its measures.
    pub fn at_first_rest(&self, supervisor: &Supervisor<'_>) {
        if self.start.workload.cold {
            self.at_first_rest_of_bring_up(supervisor);
        }
        let (slower, dead) = (self.taken(RecoveryStep::Slower), self.taken(RecoveryStep::Dead));
        let (reinit, cycles) = (self.taken(RecoveryStep::Reinit), self.taken(RecoveryStep::PowerCycle));
        let usable = dead == 0 && self.stack.with(|engine| engine.card_params().is_some());
        let mut world = self.world.borrow_mut();
        let World { judge, now, card, timing, .. } = &mut *world;
        let noise = judge.has(|bad| bad == Bad::Noise);
        let changes = judge.has(|bad| matches!(bad, Bad::Removed | Bad::Returned | Bad::Replaced));
        let last = judge.bad.last().map_or(0, |&(at, _)| at);
        let flushes = judge.asked.iter().any(|asked| matches!(asked.work, Work::Flush | Work::Durable));
        let erases = judge.asked.iter().any(|asked| asked.work == Work::Erase);
        let changes = changes || self.start.workload.cold;
        let long = if erases || flushes && self.start.workload.cache { 2 * LONG_NS } else { 0 };
        // Noise damages the data of every request, and each request has an incident of its own.
        let incidents = if noise { judge.asked.len() as u64 } else { 1 };
        let budget = INCIDENT_NS * incidents + long + if changes { LONG_NS } else { 0 };
        if judge.rest_ns.unwrap_or(*now) > last + budget {
            judge.violation("rest came after the incident's budget");
        }
        let damages = judge.bad.iter().filter(|(_, bad)| bad.damages()).count();
        let evidence = damages >= 3 || noise;
        if slower > 0 && !evidence {
            judge.violation("a slower mode was asked for without evidence");
        } else if *timing != self.start.timing && usable && !evidence && judge.bad_in_help < 2 {
            judge.violation("the card is slower without evidence");
        }
        let supervisor_bad = judge
            .has(|bad| matches!(bad, Bad::SupervisorSlow | Bad::SupervisorTooSlow | Bad::SupervisorGone));
        let state_lost = judge.has(|bad| {
            matches!(
                bad,
                Bad::BrownOut
                    | Bad::Mute
                    | Bad::Stuck
                    | Bad::Swapped
                    | Bad::Removed
                    | Bad::Returned
                    | Bad::Replaced
            )
        }) || self.start.workload.reset_unpowers && self.taken(RecoveryStep::Reset) > 0;
        // The recovery may initialise a card that twice does not obey the switch back from another
        // partition: such a card is in another state than the engine expects.
        let astray = judge.bad.len() >= 2 && judge.asked.iter().any(|asked| asked.area != 0);
        // Without a supervisor the engine's request for initialisation is not executed, so the
        // card's own count must be above 0, too.
        let initialised = reinit + cycles > 0 && card.initialised > 0;
        if initialised && !state_lost && !astray && judge.bad_in_help == 0 {
            judge.violation("a card that was well was initialised again");
        }
        // An incident also has a time limit. Status requests to a card that does not end its flush
        // may use all of that time.
        let dead_ns = self.stack.with(|engine| {
            engine.incidents().filter(|step| step.step == RecoveryStep::Dead).map(|step| step.at_ns).last()
        });
        let first = judge.bad.first().map_or(0, |&(at, _)| at);
        let late = flushes && dead_ns.is_some_and(|at| at >= first + INCIDENT_NS - 1_000 * MS);
        let alone = supervisor_bad || !self.start.workload.supervisor;
        let in_help = judge.bad_in_help > 0 || changes || noise;
        let wedged = judge.wedged;
        let gone = judge.has(|bad| bad == Bad::Gone);
        // After one initialisation and one power cycle in an incident, a card that fails again is
        // given up.
        let lost = |bad: &Bad| matches!(bad, Bad::Mute | Bad::Stuck | Bad::BrownOut | Bad::Swapped);
        let twice = reinit > 0 && cycles > 0 && judge.bad.iter().filter(|(_, bad)| lost(bad)).count() > 1;
        let dead_answers = judge.asked.iter().any(|asked| asked.fate == Fate::Answered(Err(Error::Dead)));
        if (dead > 0 || dead_answers) && !(alone || in_help || wedged || gone || twice || late) {
            judge.violation("dead before the budgets were spent");
        }
        if let [(_, bad)] = judge.bad[..]
            && self.start.workload.supervisor
            && is_curable(bad)
            && let Some(failed) = judge.asked.iter().find(|asked| {
                matches!(asked.fate, Fate::Answered(Err(_)))
                    && asked.area == 0
                    && matches!(asked.work, Work::Read | Work::Write | Work::Durable)
                    && asked.fate != Fate::Answered(Err(Error::CacheLost))
            })
        {
            let _ = failed;
            judge.violation("one curable fault failed a read or a write");
        }
        let away = !card.present || !card.powered || card.mute || card.state != State::Tran;
        if card.area != 0 && !away && usable {
            judge.violation("at rest the card is in another partition");
        }
    }
}

impl Run<'_> {
    /// Checks how the bring-up ended that a run began with. One curable fault ends no call and costs
    /// at most half a second; a call that found no card had at least two faults.
    fn at_first_rest_of_bring_up(&self, supervisor: &Supervisor<'_>) {
        let mut world = self.world.borrow_mut();
        let judge = &mut world.judge;
        let (up_ns, refused) = (judge.up_ns.unwrap_or(u64::MAX), supervisor.refused);
        let takes_away = |bad| matches!(bad, Bad::Removed | Bad::SupervisorGone | Bad::Gone);
        if judge.has(takes_away) {
            return;
        }
        if let [(at, bad)] = judge.bad[..]
            && at < up_ns
            && is_curable(bad)
        {
            let waits = if bad == Bad::SupervisorTooSlow { 20_000 * MS } else { 0 };
            if refused > 0 {
                judge.violation("one curable fault ended a bring-up");
            } else if up_ns > BEGAN_NS + self.start.bring_up_ns + LATER_NS + waits {
                judge.violation("one curable fault delayed a bring-up by more than half a second");
            }
        }
        if refused * 2 > judge.bad.len() {
            judge.violation("a bring-up found no card, without two faults");
        }
    }
}

/// Returns whether a correct stack overcomes this fault, if it is the only one.
fn is_curable(bad: Bad) -> bool {
    matches!(
        bad,
        Bad::CommandLost
            | Bad::ResponseDamaged
            | Bad::DataDamaged
            | Bad::DataMissing
            | Bad::DmaFault
            | Bad::Silence
            | Bad::LostInterrupt
            | Bad::BrownOut
            | Bad::Mute
            | Bad::Stuck
            | Bad::Noise
            | Bad::RetuneAsked
            | Bad::StartRefused
            | Bad::ResetHangs
            | Bad::ResetLate
            | Bad::SupervisorSlow
            | Bad::MapExhausted
    )
}

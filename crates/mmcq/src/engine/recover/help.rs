//! Requests for help: recovery that needs several commands to the card, which the supervisor sends.
//! `supervisor.rs` handles supervisors that come and go, `presence.rs` cards that come and go.
//!
//! While the engine waits for help, only urgent requests start; all others keep their place in the
//! queue.

mod presence;
mod supervisor;
use super::super::slot::NONE;
use super::super::supervisor::Supervisor;
use super::super::timers::Timers;
use super::super::{CardParams, Engine, Error};
use super::{Incident, RecoveryStep};
use crate::host::Host;
use crate::sched::Profile;
use core::task::Waker;

/// Time in nanoseconds that the engine waits for help if there is no supervisor.
const UNHELPED_NS: u64 = 100_000_000;
/// Longest time between two steps of a supervisor. A longer gap means that the machine was
/// suspended.
const GAP_NS: u64 = 5_000_000_000;
/// Shortest time between two power cycles of the same card.
const POWER_CYCLE_PAUSE_NS: u64 = 60_000_000_000;
/// Time limit, in ns, to bring up a new card; each extension by the supervisor restarts it. A
/// forced erase alone may be one command with three minutes of busy.
const NEW_CARD_NS: u64 = 240_000_000_000;

/// Requests of the engine to its supervisor ([`card::supervise`](crate::card::supervise)), for work
/// that needs several commands to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRequest {
    /// Find a new sampling point, in the same bus mode.
    Retune,
    /// Continue in a slower bus mode.
    Slower,
    /// Initialise the card again.
    Reinit,
    /// Switch the card's power off and on, and initialise it.
    PowerCycle,
    /// A card is in the card slot; it may be another one than before.
    Inserted,
    /// No card is in the card slot.
    Removed,
    /// The card's status shows an exception event: read which one.
    Exception,
    /// The card's background operations can be run now.
    Background,
    /// Nothing has used the card for a while: it can be put to rest until it is needed.
    Rest,
    /// No more requests: the program has ended the supervisor ([`Engine::dismiss_supervisor`]).
    Dismissed,
}

/// State of the engine's requests to the supervisor, which sends commands for recovery and upkeep.
#[derive(Debug)]
pub(in super::super) struct Helping {
    asked: Option<ServiceRequest>,
    /// Whether the supervisor has taken the request in `asked`.
    taken: bool,
    /// Whether the program has dismissed the supervisor, and the supervisor does not know that yet.
    /// If the engine meanwhile needs help for the card, that request goes first.
    dismissed: bool,
    /// Whether the card is in a low-power state; then the supervisor has to wake it.
    rest: Resting,
    /// Whether the program has a supervisor, which carries out steps of recovery for the engine.
    supervisor: bool,
    /// Whether a card was inserted or removed, and no supervisor has been told yet.
    untold: bool,
    /// Pause before a card that could not be brought up is tried again; 0: there is no such card.
    retry_ns: u64,
    pace: Pace,
    waker: Option<Waker>,
}

/// Progress of the supervisor's commands to the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The supervisor has sent no command to the card yet for the present request for help.
    Unbegun,
    /// The supervisor sends commands to the card, the last of which began at this time, in
    /// nanoseconds.
    Step(u64),
    /// The machine was suspended: the time between two commands of the supervisor was longer than
    /// [`GAP_NS`].
    Gap,
    /// The machine was suspended, so the supervisor's time limit was restarted. It is restarted
    /// only once for each request for help.
    Again,
}

impl Helping {
    pub const NONE: Helping = Helping {
        asked: None,
        taken: false,
        dismissed: false,
        rest: Resting::No,
        supervisor: false,
        untold: false,
        retry_ns: 0,
        pace: Pace::Unbegun,
        waker: None,
    };

    /// Returns whether the engine waits for the supervisor's help. The supervisor may have begun to
    /// help, or not.
    pub fn asks(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns whether there is a supervisor.
    #[inline(always)]
    pub fn has_supervisor(&self) -> bool {
        self.supervisor
    }

    /// Sets whether the engine has a supervisor (`there`): the future that helps the engine to
    /// recover.
    #[inline(always)]
    pub fn set_supervisor(&mut self, there: bool) {
        self.supervisor = there;
    }

    /// Returns whether the engine has a request for help that the supervisor has not taken yet.
    fn wanted(&self) -> bool {
        self.asked.is_some() && !self.taken
    }

    /// Returns whether the supervisor has to be woken.
    pub fn calls(&self) -> bool {
        self.wanted() || self.rest == Resting::Over
    }

    /// Returns whether the supervisor works on the engine's request for help: it has taken the
    /// request and not answered yet.
    pub fn is_at_it(&self) -> bool {
        self.asked.is_some() && self.taken
    }

    /// Returns whether the engine has asked the supervisor for help because of a fault: a tuning, a
    /// slower mode, a new initialisation or a power cycle. Regular upkeep of the card does not
    /// count.
    fn is_for_trouble(&self) -> bool {
        matches!(
            self.asked,
            Some(
                ServiceRequest::Retune
                    | ServiceRequest::Slower
                    | ServiceRequest::Reinit
                    | ServiceRequest::PowerCycle
            )
        )
    }

    /// Drops the engine's request to the supervisor, if there is one. Only a request that the
    /// supervisor shall end (a dismissal) stays.
    pub fn forget(&mut self) {
        self.asked = self.dismissed.then_some(ServiceRequest::Dismissed);
        (self.taken, self.rest) = (false, Resting::No);
        self.pace = Pace::Unbegun;
    }

    /// Notes that the supervisor begins a step: a command to the card, a bus operation or a pause.
    fn note_step(&mut self, now_ns: u64) {
        self.pace = match self.pace {
            Pace::Unbegun => Pace::Step(now_ns),
            Pace::Step(_) if !self.has_gap(now_ns) => Pace::Step(now_ns),
            Pace::Step(_) | Pace::Gap => Pace::Gap,
            Pace::Again => Pace::Again,
        };
    }

    /// Returns whether the clock has jumped since the supervisor's last step: the machine was
    /// suspended.
    fn has_gap(&self, now_ns: u64) -> bool {
        match self.pace {
            Pace::Step(at_ns) => now_ns.saturating_sub(at_ns) > GAP_NS,
            pace => pace == Pace::Gap,
        }
    }

    /// Records that the supervisor begins to put the card to rest (to stop its clock, or to let it
    /// sleep), as the engine has requested. Returns false if the engine has not requested it, or
    /// the supervisor has not taken the request.
    pub fn begin_rest(&mut self) -> bool {
        let begins = self.asked == Some(ServiceRequest::Rest) && self.taken;
        if begins {
            self.rest = Resting::Yes;
        }
        begins
    }

    /// Returns whether the card rests (its clock is stopped, or it sleeps) and no request has come
    /// that needs it awake.
    pub fn rests(&self) -> bool {
        self.rest == Resting::Yes
    }

    /// Records that the card does not rest (sleep, or have its clock stopped) any more: the
    /// supervisor has woken it, or tries to.
    pub fn end_rest(&mut self) {
        self.rest = Resting::No;
    }
}

/// Whether the card rests: its clock is stopped, or it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resting {
    No,
    Yes,
    /// The card has to leave its low-power state: a request waits, or the supervisor is asked to
    /// end.
    Over,
}

impl Supervisor {
    /// Restarts the supervisor's time limit, if the clock has jumped because the machine was
    /// suspended.
    pub fn forgive_sleep(&mut self, timers: &mut Timers, now_ns: u64) {
        let helping = self.helping_mut();
        if helping.is_at_it() && helping.supervisor && helping.has_gap(now_ns) {
            helping.pace = Pace::Again;
            timers.incident_until(now_ns.saturating_add(super::INCIDENT_NS));
            timers.help_until_incident();
        }
    }

    /// Returns whether the supervisor has a request for periodic work on a card that has no fault,
    /// such as a tuning.
    pub fn has_chore(&self) -> bool {
        matches!(
            self.helping().asked,
            Some(ServiceRequest::Retune | ServiceRequest::Exception | ServiceRequest::Background)
        )
    }
}

impl<H: Host, const N: usize, P: Profile> Engine<H, N, P> {
    /// Takes the engine's request for help. Each request is returned only once. The caller answers
    /// by [`service_done`](Self::service_done). Until then only
    /// [urgent](super::super::Request::urgent) requests start.
    pub(crate) fn take_service_request(&mut self) -> Option<ServiceRequest> {
        let wanted = self.supervisor.helping().wanted();
        self.supervisor.helping_mut().taken |= wanted;
        let help = if wanted { self.supervisor.helping().asked } else { None };
        if wanted
            && self.supervisor.helping().is_for_trouble()
            && (self.incident.open || !self.supervisor.has_chore())
        {
            // This supervisor may have replaced another one, which took the request and has gone.
            self.timers.help_may_last();
        }
        if help == Some(ServiceRequest::Dismissed) {
            self.supervisor.helping_mut().dismissed = false;
            self.supervisor.helping_mut().forget();
            self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
            if self.lane.is_idle() {
                // A request may have come that could not start until now.
                self.timers.wake_now();
            }
        }
        help
    }

    /// Handles the supervisor's answer. Returns false if there was no request.
    pub(in super::super) fn hear_help(&mut self, result: Result<CardParams, Error>, now_ns: u64) -> bool {
        if !self.supervisor.helping().taken {
            return false;
        }
        let Some(help) = self.supervisor.helping().asked else { return false };
        self.supervisor.forgive_sleep(&mut self.timers, now_ns);
        let retry_ns = self.supervisor.helping().retry_ns;
        self.supervisor.helping_mut().forget();
        self.bus.wire_mut().trust();
        let chore =
            matches!(help, ServiceRequest::Exception | ServiceRequest::Background | ServiceRequest::Rest);
        if result.is_err() {
            self.supervisor.put_off(&mut self.timers, &self.record, help, now_ns);
        } else if !chore {
            self.incident.untuned = false;
            self.supervisor.tuned(&mut self.timers, &self.record, now_ns);
        }
        if result.is_ok() && help.loses_state() {
            self.note_supply_loss();
        }
        match result {
            Ok(target) => {
                if help == ServiceRequest::Inserted {
                    // The engine may have been given another card since the card slot was last
                    // empty.
                    self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Removed);
                    self.blockers.clear_card_faults();
                    self.timers.cycle_at_once();
                    self.services.memory_mut().area_mut().forget();
                    self.incident.reset_for_card();
                    self.supervisor.settle_presence(&mut self.timers, &mut self.blockers);
                }
                self.set_card(Some(target));
                self.blockers.refresh_quirks(&self.card);
                if help.loses_state() {
                    self.supervisor.upkeep_mut().set_mode(self.bus.wire().mode());
                    self.lane.disarm_unrestored(&mut self.blockers);
                    self.services.memory_mut().area_mut().initialised();
                    if help != ServiceRequest::Slower {
                        self.incident.allow_retune();
                    }
                }
                if help == ServiceRequest::Slower {
                    self.incident.failed.make_whole();
                    self.incident.reset_for_slower_mode();
                }
            }
            Err(Error::Changed) => {
                self.set_card_params(None);
                self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Changed);
            }
            Err(Error::Locked) => {
                self.set_card_params(None);
                self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Locked);
            }
            Err(Error::Removed | Error::NoCard) => {
                self.set_card_params(None);
                self.incident.fail_queued(&mut self.slots, &mut self.order, Error::Removed);
            }
            Err(error) => self.next_help(help, error, now_ns),
        }
        if help == ServiceRequest::Inserted
            && result.is_err_and(|error| !matches!(error, Error::Locked | Error::Buffer { .. }))
            && self.bus.host().present()
        {
            self.supervisor.try_again_later(&mut self.timers, retry_ns, now_ns);
        }
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
        self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
        // The request that the incident is about may have gone meanwhile, and no other waits whose
        // transfer would end the incident.
        if result.is_ok() && self.incident.is_open() && self.slots.head() == NONE {
            self.incident.went_well::<N, P>(&self.slots, &mut self.card);
        }
        if self.lane.is_idle() {
            self.timers.wake_never();
            self.lane.note_free();
        }
        true
    }

    fn next_help(&mut self, help: ServiceRequest, error: Error, now_ns: u64) {
        match help {
            ServiceRequest::Exception
            | ServiceRequest::Background
            | ServiceRequest::Rest
            | ServiceRequest::Dismissed => {}
            // The mode needs no tuning, or the bus is in order and need not be slower.
            ServiceRequest::Retune | ServiceRequest::Slower if matches!(error, Error::Unsupported) => {}
            // Blocks came, but were damaged at every sampling point: the bus is too fast.
            ServiceRequest::Retune
                if matches!(error, Error::Protocol(_)) && self.incident.spend(RecoveryStep::Slower) =>
            {
                self.ask(ServiceRequest::Slower, now_ns)
            }
            // If no block came, the card may not even be initialised any more.
            ServiceRequest::Retune if self.incident.spend(RecoveryStep::Reinit) => {
                self.ask(ServiceRequest::Reinit, now_ns)
            }
            ServiceRequest::Retune | ServiceRequest::Slower | ServiceRequest::Reinit
                if self.incident.spend(RecoveryStep::PowerCycle) =>
            {
                self.ask(ServiceRequest::PowerCycle, now_ns);
            }
            ServiceRequest::Inserted | ServiceRequest::Removed => self.set_card_params(None),
            // The controller may still have an urgent request and its memory: the next turn of an
            // idle engine finds that the time of all help is over.
            _ => {
                (self.supervisor.helping_mut().asked, self.supervisor.helping_mut().taken) =
                    (Some(ServiceRequest::PowerCycle), true);
                self.timers.help_until(now_ns);
            }
        }
    }

    /// Requests help from the supervisor. The requests of the failed transfer go back to the front
    /// of the queue, and the engine starts only urgent requests until the supervisor has answered.
    pub(super) fn ask_help(&mut self, help: ServiceRequest, now_ns: u64) {
        let error = self.incident.failed.error().unwrap_or(Error::Silent);
        self.put_back(now_ns);
        self.order.make_room(&mut self.slots, self.supervisor.helping(), Some(error));
        self.ask(help, now_ns);
        self.lane.go_idle::<H>(&mut self.timers, now_ns);
    }

    /// Extends the time limit of the supervisor's work on a card without a fault; called when that
    /// work begins or continues. Without this call the engine soon stops waiting for such work
    /// ([`UNHELPED_NS`]).
    pub(crate) fn extend_help(&mut self, now_ns: u64) {
        let helping = self.supervisor.helping();
        if helping.taken && helping.asked == Some(ServiceRequest::Inserted) {
            self.timers.help_until(now_ns.saturating_add(NEW_CARD_NS));
        } else if helping.taken && !self.incident.open {
            self.timers.help_until(now_ns.saturating_add(super::INCIDENT_NS));
        }
    }

    /// Returns whether the supervisor's tuning is needed because the card did not answer even
    /// CMD13.
    pub(crate) fn is_unheard(&self) -> bool {
        self.incident.open && self.incident.unheard
    }

    /// Takes the permission for a power cycle of the card. Returns false if the card had one in the
    /// last minute.
    pub(crate) fn claim_power_cycle(&mut self, now_ns: u64) -> bool {
        self.timers.take_cycle(now_ns, POWER_CYCLE_PAUSE_NS)
    }

    /// Returns whether a request to the supervisor is open, so that all requests but urgent ones
    /// wait.
    pub(crate) fn asks_for_help(&self) -> bool {
        self.supervisor.helping().asks()
    }

    fn ask(&mut self, help: ServiceRequest, now_ns: u64) {
        if let Some(step) = help.step() {
            self.incident.climb::<P>(&mut self.record, step, now_ns);
        }
        self.ask_for(help, now_ns);
    }

    /// Requests the supervisor's help (commands for a chore, for example) although nothing has
    /// failed. The request is not counted as a step of recovery.
    pub(in super::super) fn ask_for(&mut self, help: ServiceRequest, now_ns: u64) {
        let chore = matches!(
            help,
            ServiceRequest::Retune
                | ServiceRequest::Exception
                | ServiceRequest::Background
                | ServiceRequest::Rest
        );
        if chore && !self.incident.open {
            // If the chore fails, what follows has steps and time limits of its own: those of the
            // last incident are used up.
            self.incident.renew_until(&mut self.timers, now_ns, 0);
        }
        self.order.make_room(&mut self.slots, self.supervisor.helping(), None);
        self.supervisor.helping_mut().asked = Some(help);
        self.supervisor.helping_mut().taken = false;
        self.supervisor.helping_mut().pace = Pace::Unbegun;
        match help {
            ServiceRequest::Inserted | ServiceRequest::Removed => {
                self.timers.help_until(now_ns.saturating_add(NEW_CARD_NS));
            }
            _ if (!chore || self.incident.open) && self.supervisor.helping().supervisor => {
                self.timers.help_until_incident();
            }
            // The card has no fault: a supervisor that does not even begin delays no request.
            _ => self.timers.help_until(now_ns.saturating_add(UNHELPED_NS)),
        }
        self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
    }

    /// Takes one step of an engine in which only urgent requests may start, because it waits for
    /// help or does not know whether a card is present. Returns true if there is nothing to do now.
    #[cold]
    pub(in super::super) fn stopped_turn(&mut self, now_ns: u64) -> bool {
        if !P::RECOVERS {
            return true;
        }
        if self.durability.owes_status(&self.slots) {
            // The supervisor's commands would read, and clear, the errors that belong to these
            // writes.
            self.ask_status(super::Stage::Status, now_ns);
            return false;
        }
        if let Some(index) = self.slots.oldest_urgent() {
            self.supervisor.helping_mut().note_step(now_ns);
            self.begin_control(index, now_ns);
            return false;
        }
        if self.timers.presence_is_due(now_ns) {
            let present = self.bus.host().present();
            if let Some(help) = self.supervisor.stable_presence(&mut self.timers, &mut self.card, present) {
                self.ask(help, now_ns);
            }
            self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
            return false;
        }
        if self.supervisor.helping().is_for_trouble() && !self.supervisor.helping().supervisor {
            self.timers.help_by(now_ns.saturating_add(UNHELPED_NS));
        }
        if self.supervisor.helping().asked.is_some() && self.timers.help_is_over(now_ns) {
            self.supervisor.forgive_sleep(&mut self.timers, now_ns);
        }
        if self.supervisor.helping().asked.is_some() && self.timers.help_is_over(now_ns) {
            let needed = match self.supervisor.helping().asked {
                Some(ServiceRequest::Reinit | ServiceRequest::PowerCycle) => true,
                Some(ServiceRequest::Retune) => self.is_unheard(),
                _ => false,
            };
            if let Some(help) = self.supervisor.helping().asked {
                self.supervisor.put_off(&mut self.timers, &self.record, help, now_ns);
                let presence = matches!(help, ServiceRequest::Inserted | ServiceRequest::Removed);
                self.supervisor.helping_mut().untold |= presence;
            }
            if !self.supervisor.helping().is_for_trouble() {
                // The sampling point was doubted only so that an open transfer ends before the
                // chore.
                self.bus.wire_mut().trust();
            }
            self.supervisor.helping_mut().forget();
            self.blockers.refresh_help(self.supervisor.helping(), &self.timers);
            // The supervisor may have switched the card's power off, and then have ended itself.
            self.incident.write_again(&mut self.slots, &mut self.order, now_ns);
            if needed {
                self.incident.failed.forget_error();
                self.dead(now_ns);
            } else if self.bus.wire().is_tuning() {
                self.tuning_was_left(now_ns);
            }
            return false;
        }
        if self.supervisor.helping().rests() && self.has_waiting() {
            self.supervisor.helping_mut().rest = Resting::Over;
            // From here on a request waits for the supervisor.
            self.timers.help_until(now_ns.saturating_add(super::INCIDENT_NS));
        }
        let helping = self.supervisor.helping();
        self.timers.wake_for_help(helping.asks());
        if helping.asks() && helping.calls() && helping.waker.is_some() {
            // The supervisor has not been woken yet.
            self.timers.wake_by(now_ns);
        }
        true
    }

    /// Handles the controller's request for a new tuning.
    #[cold]
    pub(in super::super) fn retune_wanted(&mut self, now_ns: u64) {
        self.bus.wire_mut().doubt();
        if P::RECOVERS
            && self.supervisor.helping().supervisor
            && self.card.target().is_some()
            && !self.blockers.is_dead()
        {
            match self.supervisor.helping().asked {
                None if !self.slots.is_full() => self.ask(ServiceRequest::Retune, now_ns),
                _ => self.supervisor.tune_soon(&mut self.timers),
            }
        }
    }
}

impl ServiceRequest {
    fn step(self) -> Option<RecoveryStep> {
        match self {
            ServiceRequest::Retune => Some(RecoveryStep::Retune),
            ServiceRequest::Slower => Some(RecoveryStep::Slower),
            ServiceRequest::Reinit => Some(RecoveryStep::Reinit),
            ServiceRequest::PowerCycle => Some(RecoveryStep::PowerCycle),
            _ => None,
        }
    }

    /// Returns whether the card loses its state by what this request asks for: it is initialised
    /// again, or another card is initialised.
    fn loses_state(self) -> bool {
        matches!(
            self,
            ServiceRequest::Slower
                | ServiceRequest::Reinit
                | ServiceRequest::PowerCycle
                | ServiceRequest::Inserted
        )
    }
}

impl Incident {
    /// Allows another step to a slower mode, and clears the counts of damaged transfers and of
    /// tries, which do not hold for the new mode.
    fn reset_for_slower_mode(&mut self) {
        (self.damages, self.tries) = ([0; 3], 0);
        self.spent &= !(1 << RecoveryStep::Slower as u16);
    }

    /// Allows recovery to tune once more. Called after an initialisation of the card, which makes
    /// the earlier tuning void. The number of initialisations is limited, so that of tunings is
    /// limited too.
    fn allow_retune(&mut self) {
        self.spent &= !(1 << RecoveryStep::Retune as u16);
        self.retuned_ns = 0;
    }

    /// Clears the faults of the previous card: another card is in the card slot.
    fn reset_for_card(&mut self) {
        (self.open, self.retuned_ns, self.untuned, self.damages) = (false, 0, false, [0; 3]);
    }
}

//! The supervisor of a run, and what the checker must know when cards are removed and inserted.

#![allow(unsafe_code, reason = "docs/safety.md says why")]

use super::bench::lend;
use super::case::{Case, SLOTS, Visit};
use super::clients::Client;
use super::machine::{Machine, Stack};
use super::run::{BOOTS, CARDS, Run, Trace};
use mmcq::card::extension::enable_cache;
use mmcq::card::{
    Card as Found, Event, Family, Options, enable_extended_ops, enable_packed, enable_sd_task_queue,
    enable_task_queue, supervise,
};
use mmcq::engine::{DmaBuf, Error};
use mmcq::task::Platform;
use mmcq_sim::card::{Card, CardProfile, Fill, Medium};
use mmcq_sim::checker::{Checker, Content, Fault, Promise, Violation};
use mmcq_sim::faults::{Point, Shot, Strike};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::Context;

/// Events that the supervisor has reported and that the run ([`Run::kept`]) has not handled yet.
pub(super) type News = RefCell<Vec<Event>>;

/// The supervisor of a run: its future ([`mmcq::card::supervise`]; `None` on a machine without a
/// supervisor), and the events that it reports.
pub(super) struct Supervisor<'m> {
    future: Option<Pin<Box<dyn Future<Output = ()> + 'm>>>,
    news: &'m News,
}

/// Enables what this case uses of a card that was just brought up: erases, chains, and with
/// [`Setup::queue`](super::case::Setup::queue) the command queue, packed commands of an eMMC, and
/// the cache of an SD card.
pub(super) async fn equip<B: Platform>(
    stack: &Stack<B>,
    card: &Found,
    scratch: DmaBuf,
    page: DmaBuf,
    case: &Case,
) -> Result<(), Error> {
    if case.setup.lean {
        return Ok(());
    }
    let (result, scratch) = enable_extended_ops(stack, card, scratch).await;
    result?;
    if case.setup.chains {
        // A controller that cannot execute chains works without them.
        stack.with(|engine| engine.set_chains(u8::MAX));
    }
    match card.family {
        _ if !case.setup.queue => {}
        Family::Emmc(_) => {
            enable_task_queue(stack, card, scratch).await.0?;
            match enable_packed(stack, card, page).await {
                Ok(_) | Err((Error::Unsupported, _)) => {}
                Err((error, _)) => return Err(error),
            }
        }
        Family::Sd(_) => {
            enable_cache(stack, card, page).await.map_err(|(error, _)| error)?;
            enable_sd_task_queue(stack, card, scratch, case.sd_queue()).await.0?;
        }
    }
    Ok(())
}

/// Executes [`mmcq::card::supervise`] for ever. After each event that it reports, enables erases
/// again, since the card may be new.
async fn help<B: Platform>(
    stack: &Stack<B>,
    mut scratch: DmaBuf,
    options: Options,
    mut card: Found,
    news: &News,
) {
    loop {
        let (event, back) = supervise(stack, scratch, options, card).await;
        scratch = back;
        news.borrow_mut().push(event);
        if let Event::Exception { card: found, .. } = event {
            card = found;
        } else if let Event::Inserted(Ok(found)) | Event::Changed(found) = event {
            card = found;
            // If this fails there are no erases; reads and writes still work.
            let (_, back) = enable_extended_ops(stack, &card, scratch).await;
            scratch = back;
        }
    }
}

impl Run<'_> {
    /// Starts the supervisor, if this machine has one.
    pub(super) fn supervisor<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        card: Found,
        news: &'m News,
    ) -> Supervisor<'m> {
        // SAFETY: bring-up has ended, and the machine is dropped before the memory is used again.
        let scratch = unsafe { lend(&mut self.bench.scratch) };
        let options = self.case.setup.options();
        let help = || Box::pin(help(&machine.stack, scratch, options, card, news)) as Pin<Box<_>>;
        self.cid = card.cid;
        Supervisor { future: self.case.setup.supervisor.then(help), news }
    }

    /// Polls the supervisor and handles the events that it has reported. Returns the number of
    /// clients whose requests were answered meanwhile.
    pub(super) fn kept<'m, B: Platform>(
        &mut self,
        machine: &'m Machine<B>,
        supervisor: &mut Supervisor<'m>,
        clients: &mut [Option<Client<'m, B>>; SLOTS],
        trace: &mut Trace<'_>,
    ) -> Result<usize, Violation> {
        let Some(future) = &mut supervisor.future else { return Ok(0) };
        let _ = future.as_mut().poll(&mut Context::from_waker(&self.bench.wakers[SLOTS]));
        let mut answered = 0;
        for event in supervisor.news.take() {
            if let Some(trace) = trace {
                let what = match event {
                    Event::Removed => "the card is out".to_owned(),
                    Event::Inserted(result) => {
                        format!("a card came: {}", result.map_or_else(|e| e.to_string(), |_| "well".into()))
                    }
                    Event::Changed(_) => "there is another card".to_owned(),
                    Event::Dismissed => "the supervisor has left".to_owned(),
                    Event::Exception { exception, .. } => format!("the card tells: {exception:?}"),
                    other => format!("{other:?}"),
                };
                trace(format!("{:>14} == {what}", machine.now()));
            }
            if let Event::Inserted(Ok(found)) | Event::Changed(found) = event {
                // All requests for the card before must be answered now.
                for client in 0..SLOTS {
                    answered += usize::from(self.poll(machine, clients, client, trace)?);
                }
                if clients.iter().any(Option::is_some) {
                    let text = "a request for the card before waits, and another card is there";
                    return Err(Violation::new(Fault::Misdirected, text.to_owned()));
                }
                self.card_is(&found, machine);
            }
        }
        Ok(answered)
    }

    /// Informs the checker that this card is in the slot now, and has lost its power. If it is the
    /// other card, switches to that card's checker: each of the two cards has its own.
    fn card_is<B: Platform>(&mut self, found: &Found, machine: &Machine<B>) {
        if found.cid != std::mem::replace(&mut self.cid, found.cid) {
            let content = Content::new(self.case.seed, 2, self.stranger());
            let new = || Checker::new(Promise { content, write_through: false });
            let other = self.away.take().unwrap_or_else(new);
            let before = std::mem::replace(&mut self.bench.checker, other);
            self.bench.checker.comes_after(&before);
            self.away = Some(before);
            self.is_stranger = !self.is_stranger;
        }
        self.supply_is_lost();
        self.bench.checker.set_write_through(machine.write_through());
    }

    /// Informs the checker if the card has lost data that were not on its medium yet, or if a
    /// response that reported a failure was lost.
    pub(super) fn look_for_losses<B: Platform>(&mut self, machine: &Machine<B>) {
        let losses = machine.model.borrow_mut().card_mut().map_or(self.losses, |card| card.losses());
        let before = std::mem::replace(&mut self.losses, losses);
        match losses {
            same if same == before => {}
            _ if self.case.setup.leaves_open() && self.flush_failed() => {
                self.bench.checker.cache_gave_up_open();
            }
            _ if self.case.setup.leaves_open() => self.bench.checker.supply_lost_open(),
            (_, cached) if cached == before.1 && self.case.setup.early => {
                self.bench.checker.doubt_writes();
            }
            (_, cached) if cached == before.1 => self.bench.checker.note_reset(),
            _ if self.flush_failed() => self.bench.checker.cache_gave_up(),
            _ => self.bench.checker.supply_lost(),
        }
        if self.faults.unheard() != std::mem::replace(&mut self.unheard, self.faults.unheard()) {
            self.bench.checker.failure_unheard();
        }
    }

    /// Returns whether the newest fault made the card fail a flush.
    fn flush_failed(&self) -> bool {
        let mut news = self.faults.struck().into_iter().skip(self.strikes);
        news.any(|shot| (shot.point, shot.strike) == (Point::Cache, Strike::Fail))
    }

    /// Informs the checker that all data which were not on the card's medium yet are lost.
    pub(super) fn supply_is_lost(&mut self) {
        match self.case.setup.leaves_open() {
            true => self.bench.checker.supply_lost_open(),
            false => self.bench.checker.supply_lost(),
        }
    }

    /// Informs the checker that the card's contacts were open for some time, so that commands and
    /// data did not arrive. The last blocks of an open transfer may be missing then.
    fn contact_is_lost(&mut self) {
        match self.case.setup.leaves_open() {
            true => self.bench.checker.supply_lost_open(),
            false => self.bench.checker.note_reset(),
        }
    }

    /// Begins the [`Visit`] of the case when its event has come: removes the card (to insert
    /// another one or the same again), or write-protects it. In later calls ends the visit.
    pub(super) fn visited<B: Platform>(&mut self, machine: &Machine<B>) {
        let now_ns = machine.now();
        self.protection_ends(machine);
        if let Some((_, visit)) = self.visit.take_if(|(event, _)| *event <= self.outcome.events) {
            if let Visit::Protect(events) = visit {
                self.protected_until = Some(self.outcome.events + u64::from(events));
                return self.set_protected(machine, true);
            }
            let card = machine.model.borrow_mut().remove(now_ns);
            match visit {
                Visit::Swap | Visit::Swaps { .. } => {
                    self.supply_is_lost();
                    self.out = card;
                    if let Visit::Swaps { back: back @ 1.., .. } = visit {
                        self.back_at = Some(self.outcome.events + u64::from(back));
                    }
                    let profile = match visit {
                        Visit::Swaps { other: true, .. } => self.other_size(),
                        _ => self.profile().sibling(),
                    };
                    let medium = Medium::sparse(profile.capacity_bytes(), self.stranger());
                    if let Some(mut other) = medium.ok().and_then(|medium| profile.build(medium).ok()) {
                        other.set_faults(self.faults.clone());
                        other.set_boot(BOOTS[1]);
                        self.settings[1] = other.settings();
                        machine.model.borrow_mut().insert(other, now_ns);
                    }
                }
                Visit::Protect(_) => self.out = card,
                Visit::Bounce(times) => {
                    self.contact_is_lost();
                    (self.out, self.bounces) = (card, times);
                }
            }
        } else if self.back_at.take_if(|event| *event <= self.outcome.events).is_some() {
            // The first card, which has lost its power, comes back in place of the other.
            self.supply_is_lost();
            let other = machine.model.borrow_mut().remove(now_ns);
            if let Some(mut card) = std::mem::replace(&mut self.out, other) {
                card.power_cut(now_ns);
                machine.model.borrow_mut().insert(card, now_ns);
            }
            self.is_back = true;
        } else if self.bounces > 0 {
            // The card survives so short an interruption with all data in its cache. It loses its
            // power only if the host has switched the power off meanwhile, and then counts the loss
            // itself. A host that takes the card for removed is right too.
            self.bounces -= 1;
            self.contact_is_lost();
            match self.out.take() {
                Some(card) => machine.model.borrow_mut().insert(card, now_ns),
                None => self.out = machine.model.borrow_mut().remove(now_ns),
            }
            self.look_for_losses(machine);
        }
    }

    /// Switches the card's write protection off when the controllers have had as many events as the
    /// case says.
    fn protection_ends<B: Platform>(&mut self, machine: &Machine<B>) {
        let Some(until) = self.protected_until else { return };
        self.protected_ns = Some(machine.now());
        if until <= self.outcome.events {
            self.protected_until = None;
            self.set_protected(machine, false);
        }
    }

    /// Switches the write protection of the card on if `on`, otherwise off.
    fn set_protected<B: Platform>(&mut self, machine: &Machine<B>, on: bool) {
        self.protected_ns = Some(machine.now());
        let mut model = machine.model.borrow_mut();
        if let Some(card) = model.card_mut() {
            card.set_protected(on);
            self.settings[0] = card.settings();
        }
    }

    /// Returns the profile of the case's card.
    pub(super) fn profile(&self) -> CardProfile {
        self.case.setup.equip(self.bench.profiles[self.case.setup.card].clone())
    }

    /// Returns the profile of a card of another size: the next one of the same kind.
    pub(super) fn other_size(&self) -> CardProfile {
        let own = &self.bench.profiles[self.case.setup.card];
        let count = CARDS.len();
        let other = (1..count).map(|n| &self.bench.profiles[(self.case.setup.card + n) % count]);
        let kind = |card: &&CardProfile| card.is_emmc() == own.is_emmc();
        let sized = |card: &&CardProfile| card.capacity_bytes() != own.capacity_bytes();
        self.case
            .setup
            .equip(other.clone().find(|card| kind(card) && sized(card)).unwrap_or(own).clone())
            .sibling()
    }

    /// Informs the checker if the medium has failed a read or a write since the last call. The
    /// stack may have reported such a write as complete before, when its data were transferred.
    pub(super) fn look_for_late_failures(&mut self) {
        let struck = self.faults.struck();
        let fails = |shot: &Shot| (shot.point, shot.strike) == (Point::Medium, Strike::Fail);
        let failures = struck.iter().filter(|shot| fails(shot)).count();
        if failures > std::mem::replace(&mut self.late_failures, failures) {
            self.bench.checker.doubt_writes();
        }
    }

    /// Returns the initial content of the card that replaces the first.
    fn stranger(&self) -> Fill {
        Fill::Pattern(!self.case.seed)
    }

    /// Examines the card that replaced the first, after power-off. If the stack has found this
    /// card, the card must hold the data written to it. Otherwise none of its sectors may have
    /// changed.
    pub(super) fn examine_stranger(&mut self, card: &mut dyn Card) -> Result<(), Violation> {
        if self.is_stranger {
            return self.examine(card, 1);
        }
        if let Some(judge) = self.away.take() {
            // The stack has found this card, and then the first one again.
            let first = std::mem::replace(&mut self.bench.checker, judge);
            let result = self.examine(card, 1);
            self.bench.checker = first;
            return result;
        }
        self.compare_settings(card, 1)?;
        let mut changed = None;
        card.touched(&mut |partition, sectors| changed = changed.or(Some((partition, sectors.start))));
        match changed {
            Some((partition, lba)) => {
                let text = format!("sector {lba} of partition {partition} of another card was changed");
                Err(Violation::new(Fault::Misdirected, text))
            }
            None => Ok(()),
        }
    }
}

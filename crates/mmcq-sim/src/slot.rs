//! What all controllers have: a slot with a card, a time, an interrupt line, and what is counted
//! and told.
//!
//! A model keeps a `Slot` and says what happens when one of its alarms goes off. [`Controller`] is
//! the outside of every model.

use crate::alarms::{Alarms, NEVER};
use crate::card::{Answer, BusState, Card};
use crate::faults::{Faults, Point, Strike};
use crate::probe::{Probe, Signal};
use crate::stats::{BusEvent, BusStats};
use crate::wire::Beat;
use crate::world::Device;

/// Alarms that a model has at most.
const ALARMS: usize = 12;

/// Hears of everything on the bus.
pub type Log = Box<dyn FnMut(BusEvent)>;

/// The slot and its surroundings, as each model has them.
pub(crate) struct Slot {
    card: Option<Box<dyn Card>>,
    alarms: Alarms<ALARMS>,
    now_ns: u64,
    /// What the card was told last; its time never goes back.
    card_ns: u64,
    faults: Faults,
    gone: bool,
    removed: Option<Box<dyn Card>>,
    /// The card is in the slot, and has no supply whatever the controller says.
    dark: Option<Box<dyn Card>>,
    violations: u64,
    log: Option<Log>,
    /// The interrupt line.
    pub line: Line,
    /// How the bus is driven.
    pub bus: BusState,
    /// DAT0 is low until then.
    pub busy_until_ns: u64,
    /// What went over the bus.
    pub stats: BusStats,
    /// Sees every signal.
    pub probe: Option<Probe>,
}

/// The interrupt line of a controller.
#[derive(Default)]
pub(crate) struct Line {
    high: bool,
    lost: bool,
    rose_ns: Option<u64>,
}

impl Line {
    /// It is low, and no fault keeps it there.
    pub fn may_rise(&self) -> bool {
        !self.high && !self.lost
    }

    pub fn is_high(&self) -> bool {
        self.high
    }

    /// A fault keeps it low until [`forgive`](Self::forgive).
    pub fn lose(&mut self) {
        self.lost = true;
    }

    pub fn is_lost(&self) -> bool {
        self.lost
    }

    pub fn forgive(&mut self) {
        self.lost = false;
    }

    /// True: it was at the other level before.
    pub fn set(&mut self, high: bool) -> bool {
        std::mem::replace(&mut self.high, high) != high
    }
}

impl Slot {
    /// At time 0, with a bus that stands still.
    pub fn new(card: Option<Box<dyn Card>>) -> Self {
        Slot {
            card,
            alarms: Alarms::NONE,
            now_ns: 0,
            card_ns: 0,
            faults: Faults::none(),
            gone: false,
            removed: None,
            dark: None,
            violations: 0,
            log: None,
            line: Line::default(),
            bus: BusState { width: 1, ..BusState::default() },
            busy_until_ns: 0,
            stats: BusStats::default(),
            probe: None,
        }
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// A time that the card may be told.
    pub fn card_ns(&self, now_ns: u64) -> u64 {
        self.card_ns.max(now_ns)
    }

    pub fn card(&self) -> Option<&(dyn Card + 'static)> {
        self.card.as_deref()
    }

    /// Calls the card, if there is one; its time never goes back.
    pub fn with_card<T>(&mut self, now_ns: u64, call: impl FnOnce(&mut dyn Card, u64) -> T) -> Option<T> {
        let card = self.card.as_deref_mut()?;
        self.card_ns = self.card_ns.max(now_ns);
        Some(call(card, self.card_ns))
    }

    /// Tells the card how the bus is driven.
    pub fn tell_bus(&mut self, now_ns: u64) {
        let bus = self.bus;
        self.with_card(now_ns, |card, now_ns| card.bus_changed(&bus, now_ns));
    }

    /// A fault took the controller away: each register reads as ones and ignores writes.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    pub fn set_alarm(&mut self, alarm: usize, at_ns: u64) {
        self.alarms.set(alarm, at_ns);
    }

    pub fn alarm_ns(&self, alarm: usize) -> u64 {
        self.alarms.at_ns(alarm)
    }

    pub fn note(&mut self, event: BusEvent) {
        if let Some(log) = &mut self.log {
            log(event);
        }
    }

    /// The driver did what the controller does not bear.
    pub fn violation(&mut self) {
        self.violations += 1;
    }

    /// The interrupt line rises.
    pub fn interrupt(&mut self, now_ns: u64, status: u32) {
        self.stats.interrupts += 1;
        self.line.rose_ns = Some(now_ns);
        self.note(BusEvent::Interrupt { at_ns: now_ns, status });
    }

    /// The probe sees the level of the line, if that has changed.
    pub fn set_line(&mut self, level: bool, now_ns: u64) {
        if self.line.set(level)
            && let Some(probe) = &mut self.probe
        {
            probe(&Signal::Interrupt { at_ns: now_ns, level });
        }
    }

    /// Shows `probe` every signal from now on; `None` takes it away.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.probe = probe;
        if let Some(probe) = &mut self.probe {
            probe(&Signal::Bus { at_ns: self.now_ns, bus: self.bus, low: false });
            probe(&Signal::Interrupt { at_ns: self.now_ns, level: self.line.high });
        }
    }

    /// A place on the bus clock.
    pub fn beat(&self, now_ns: u64) -> Beat {
        Beat::new(now_ns, self.bus.clock_hz)
    }
}

/// The slot of a model that has it in a field of that name.
macro_rules! has_slot {
    () => {
        fn slot(&self) -> &$crate::slot::Slot {
            &self.slot
        }

        fn slot_mut(&mut self) -> &mut $crate::slot::Slot {
            &mut self.slot
        }
    };
}
pub(crate) use has_slot;

/// What a model says of itself to the rest of this file.
pub(crate) trait Core {
    fn slot(&self) -> &Slot;

    fn slot_mut(&mut self) -> &mut Slot;

    /// An alarm has gone off, and is no longer set.
    fn alarm(&mut self, alarm: usize, now_ns: u64);

    /// A card has come into the slot. Nothing where its detection is the board's matter.
    fn card_came(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// The card has left.
    fn card_went(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Something may have changed that the card has a part in.
    fn look(&mut self, now_ns: u64);

    /// A fault that is not the same for all controllers. What is returned is for the code that
    /// asked.
    fn struck(&mut self, point: Point, strike: Strike, now_ns: u64) -> Option<Strike> {
        let _ = (point, now_ns);
        Some(strike)
    }

    /// Is there a fault at this point? What is the same at every point happens here; the rest is
    /// for the code that asks.
    #[inline]
    fn strike(&mut self, point: Point, now_ns: u64) -> Option<Strike> {
        let strike = self.slot_mut().faults.strike(point)?;
        self.struck_anywhere(point, strike, now_ns)
    }

    /// Is there a fault at this answer?
    fn strike_answer(&mut self, answer: Answer, now_ns: u64) -> Option<Strike> {
        let strike = self.strike(Point::Response, now_ns);
        let is_lost = matches!(strike, Some(Strike::Lost | Strike::Crc | Strike::EndBit | Strike::Index));
        if is_lost && answer.tells_error() {
            self.slot_mut().faults.note_unheard();
        }
        strike
    }

    #[cold]
    fn struck_anywhere(&mut self, point: Point, strike: Strike, now_ns: u64) -> Option<Strike> {
        match strike {
            Strike::Remove => {
                let card = self.take_card(now_ns);
                let slot = self.slot_mut();
                slot.removed = card.or(slot.removed.take());
            }
            Strike::BrownOut => {
                let slot = self.slot_mut();
                slot.busy_until_ns = 0;
                slot.with_card(now_ns, |card, now_ns| card.power_cut(now_ns));
                slot.tell_bus(now_ns);
            }
            Strike::Gone => self.slot_mut().gone = true,
            other => return self.struck(point, other, now_ns),
        }
        None
    }

    /// The interrupt line follows its causes. A fault that keeps it low ends with them, or with a
    /// new one.
    fn drive_line(&mut self, level: bool, status: u32, new: bool, now_ns: u64) {
        if !level || new {
            self.slot_mut().line.forgive();
        }
        if level && self.slot().line.may_rise() {
            if self.strike(Point::Interrupt, now_ns) == Some(Strike::Lost) {
                self.slot_mut().line.lose();
            } else {
                self.slot_mut().interrupt(now_ns, status);
            }
        }
        let lost = self.slot().line.is_lost();
        self.slot_mut().set_line(level && !lost, now_ns);
    }

    fn take_card(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let slot = self.slot_mut();
        slot.busy_until_ns = 0;
        let card = slot.card.take().or(slot.dark.take());
        self.card_went(now_ns);
        card
    }

    /// The next event, if it is due by then.
    #[inline]
    fn fire(&mut self, until_ns: u64) -> bool {
        let slot = self.slot_mut();
        if slot.gone {
            slot.alarms = Alarms::NONE;
        }
        let Some((alarm, at_ns)) = slot.alarms.next().filter(|&(_, at_ns)| at_ns <= until_ns) else {
            return false;
        };
        slot.alarms.set(alarm, NEVER);
        slot.now_ns = slot.now_ns.max(at_ns);
        let now_ns = slot.now_ns;
        self.alarm(alarm, now_ns);
        self.look(now_ns);
        true
    }

    /// Lets everything happen up to `now_ns`, and takes that as the time; whatever the caller says,
    /// time does not go back.
    #[inline]
    fn reach(&mut self, now_ns: u64) -> u64 {
        while self.fire(now_ns) {}
        let slot = self.slot_mut();
        slot.now_ns = slot.now_ns.max(now_ns);
        slot.now_ns
    }
}

impl<T: Core> Device for T {
    fn advance(&mut self, until_ns: u64) -> u64 {
        let mut before = self.slot().line.high;
        while self.fire(until_ns) {
            let slot = self.slot();
            if slot.line.high && !before {
                return slot.now_ns;
            }
            before = slot.line.high;
        }
        let slot = self.slot_mut();
        slot.now_ns = slot.now_ns.max(until_ns);
        until_ns
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.slot().alarms.next().map(|(_, at_ns)| at_ns)
    }

    fn irq(&self) -> bool {
        let slot = self.slot();
        slot.line.high && !slot.gone
    }
}

/// The outside of each controller model, beside its registers. As a [`Device`] it lives beside the
/// CPU.
#[allow(private_bounds, reason = "sealed")]
pub trait Controller: Core + Device {
    /// When the interrupt line last rose.
    fn irq_rose_ns(&self) -> Option<u64> {
        self.slot().line.rose_ns
    }

    /// A card comes into the slot.
    fn insert(&mut self, card: Box<dyn Card>, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        let slot = self.slot_mut();
        slot.card = Some(card);
        slot.dark = None;
        slot.busy_until_ns = 0;
        slot.tell_bus(now_ns);
        self.card_came(now_ns);
        self.look(now_ns);
    }

    /// The card leaves the slot, and is handed back.
    fn remove(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let now_ns = self.reach(now_ns);
        let card = self.take_card(now_ns);
        self.look(now_ns);
        card
    }

    /// The card loses its supply, whatever the controller says, or has it again. The slot tells
    /// nothing of that.
    fn set_supply(&mut self, on: bool, now_ns: u64) {
        let now_ns = self.reach(now_ns);
        let slot = self.slot_mut();
        if on {
            slot.card = slot.dark.take().or(slot.card.take());
            slot.tell_bus(now_ns);
        } else if slot.card.is_some() {
            slot.busy_until_ns = 0;
            slot.with_card(now_ns, |card, now_ns| card.power_cut(now_ns));
            slot.dark = slot.card.take();
        }
        self.look(now_ns);
    }

    /// The card in the slot.
    fn card_mut(&mut self) -> Option<&mut (dyn Card + 'static)> {
        self.slot_mut().card.as_deref_mut()
    }

    /// What goes wrong with the controller and its bus from now on. A card has faults of its own,
    /// mostly the same ones.
    fn set_faults(&mut self, faults: Faults) {
        self.slot_mut().faults = faults;
    }

    /// The card that a fault took out of the slot, if one did.
    fn removed(&mut self) -> Option<Box<dyn Card>> {
        self.slot_mut().removed.take()
    }

    /// How the bus is driven now.
    fn bus(&self) -> &BusState {
        &self.slot().bus
    }

    /// What went over the bus so far.
    fn stats(&self) -> &BusStats {
        &self.slot().stats
    }

    /// Counts from zero again, and returns what there was.
    fn take_stats(&mut self) -> BusStats {
        std::mem::take(&mut self.slot_mut().stats)
    }

    /// How often the driver did what the controller does not bear: a command while another is under
    /// way, reserved values, a clock changed under the card ...
    fn protocol_violations(&self) -> u64 {
        self.slot().violations
    }

    /// Tells `log` about everything on the bus from now on; `None` for silence.
    fn set_log(&mut self, log: Option<Log>) {
        self.slot_mut().log = log;
    }
}

impl<T: Core> Controller for T {}

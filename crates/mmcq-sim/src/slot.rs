//! What all controller models have in common: a slot with a card, a time, an interrupt line,
//! counters and logs.
//!
//! A model contains a `Slot`, and implements what its alarms do when their time comes.
//! [`Controller`] is the public interface of every model.

use crate::alarms::{Alarms, NEVER};
use crate::card::{Answer, BusState, Card};
use crate::faults::{Faults, Point, Strike};
use crate::probe::{Probe, Signal};
use crate::stats::{BusEvent, BusStats};
use crate::wire::Beat;
use crate::world::Device;

/// Largest number of alarms of a controller model. An alarm is a virtual time at which the model
/// has to act.
const ALARMS: usize = 12;

/// A callback that gets every event on the bus.
pub type Log = Box<dyn FnMut(BusEvent)>;

/// The slot of a controller model, with its bus and its interrupt line.
pub(crate) struct Slot {
    card: Option<Box<dyn Card>>,
    alarms: Alarms<ALARMS>,
    now_ns: u64,
    /// Latest time in ns at which the controller model has called the card; it never decreases.
    card_ns: u64,
    faults: Faults,
    gone: bool,
    removed: Option<Box<dyn Card>>,
    /// The card, while [`Controller::set_supply`] keeps its power off regardless of the controller;
    /// otherwise `None`.
    dark: Option<Box<dyn Card>>,
    violations: u64,
    log: Option<Log>,
    /// The interrupt line.
    pub line: Line,
    /// Present state of the bus: power, clock, lines and voltage.
    pub bus: BusState,
    /// Time in ns until which DAT0 is low (busy).
    pub busy_until_ns: u64,
    /// Counters of the bus.
    pub stats: BusStats,
    /// Callback that gets every signal; `None`: no probe.
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
    /// Returns whether the interrupt line can rise: it is low, and no fault keeps it low.
    pub fn may_rise(&self) -> bool {
        !self.high && !self.lost
    }

    pub fn is_high(&self) -> bool {
        self.high
    }

    /// Makes a fault hold the interrupt line low until [`forgive`](Self::forgive).
    pub fn lose(&mut self) {
        self.lost = true;
    }

    pub fn is_lost(&self) -> bool {
        self.lost
    }

    pub fn forgive(&mut self) {
        self.lost = false;
    }

    /// Sets the level of the line: high if `high`, otherwise low. Returns true if the level has
    /// changed.
    pub fn set(&mut self, high: bool) -> bool {
        std::mem::replace(&mut self.high, high) != high
    }
}

impl Slot {
    /// Makes a slot at time 0, with the bus switched off.
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

    /// Returns the time of the model in ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the time in ns for the next call of the card's model. That is `now_ns`, but never
    /// earlier than the latest time that was passed to the card before.
    pub fn card_ns(&self, now_ns: u64) -> u64 {
        self.card_ns.max(now_ns)
    }

    pub fn card(&self) -> Option<&(dyn Card + 'static)> {
        self.card.as_deref()
    }

    /// Calls the card with a time that never decreases; `None` if the slot is empty.
    pub fn with_card<T>(&mut self, now_ns: u64, call: impl FnOnce(&mut dyn Card, u64) -> T) -> Option<T> {
        let card = self.card.as_deref_mut()?;
        self.card_ns = self.card_ns.max(now_ns);
        Some(call(card, self.card_ns))
    }

    /// Informs the card of the present state of the bus.
    pub fn tell_bus(&mut self, now_ns: u64) {
        let bus = self.bus;
        self.with_card(now_ns, |card, now_ns| card.bus_changed(&bus, now_ns));
    }

    /// Returns whether a fault has made the controller disappear: each register reads as ones and
    /// ignores writes.
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

    /// Counts a mistake of the driver.
    pub fn violation(&mut self) {
        self.violations += 1;
    }

    /// Records in counters and log that the interrupt line rises, with this interrupt status.
    pub fn interrupt(&mut self, now_ns: u64, status: u32) {
        self.stats.interrupts += 1;
        self.line.rose_ns = Some(now_ns);
        self.note(BusEvent::Interrupt { at_ns: now_ns, status });
    }

    /// Shows the level of the interrupt line to the probe, if it has changed.
    pub fn set_line(&mut self, level: bool, now_ns: u64) {
        if self.line.set(level)
            && let Some(probe) = &mut self.probe
        {
            probe(&Signal::Interrupt { at_ns: now_ns, level });
        }
    }

    /// Shows `probe` every signal from now on; `None` removes the probe.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.probe = probe;
        if let Some(probe) = &mut self.probe {
            probe(&Signal::Bus { at_ns: self.now_ns, bus: self.bus, low: false });
            probe(&Signal::Interrupt { at_ns: self.now_ns, level: self.line.high });
        }
    }

    /// Returns the position of `now_ns` on the bus clock, from which times of later clock edges are
    /// counted.
    pub fn beat(&self, now_ns: u64) -> Beat {
        Beat::new(now_ns, self.bus.clock_hz)
    }
}

/// Implements the access to a slot for models whose field `slot` holds it.
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

/// Methods that each controller model must implement, and others that this module builds on them.
pub(crate) trait Core {
    fn slot(&self) -> &Slot;

    fn slot_mut(&mut self) -> &mut Slot;

    /// Does the model's work for the alarm with this number, whose time has come. The alarm is not
    /// set any more.
    fn alarm(&mut self, alarm: usize, now_ns: u64);

    /// Lets the model react to the insertion of a card, for example by its card detect bits. The
    /// default does nothing: it is for controllers that leave the detection of cards to the board.
    fn card_came(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Lets the model react to the removal of the card. The default does nothing.
    fn card_went(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Updates everything in the model that may depend on the card, such as the level of DAT1 or of
    /// the interrupt line.
    fn look(&mut self, now_ns: u64);

    /// Handles a fault whose effect differs between controllers: applies it, or returns it if the
    /// caller must apply it. `None`: the fault is applied.
    fn struck(&mut self, point: Point, strike: Strike, now_ns: u64) -> Option<Strike> {
        let _ = (point, now_ns);
        Some(strike)
    }

    /// Counts an event of this kind. If a fault strikes it that has the same effect at every kind
    /// of event, applies the fault. Returns any other fault, which the caller must apply; `None` if
    /// there is none.
    #[inline]
    fn strike(&mut self, point: Point, now_ns: u64) -> Option<Strike> {
        let strike = self.slot_mut().faults.strike(point)?;
        self.struck_anywhere(point, strike, now_ns)
    }

    /// Counts a response as an event at which a fault may strike. Returns the fault that strikes
    /// it; `None` if no fault strikes.
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

    /// Sets the interrupt line to `level`. `new` tells that the interrupt has a further cause. If a
    /// fault holds the line low, the fault ends when all causes are cleared or when a new cause
    /// comes.
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

    /// Executes the next alarm if its time is `until_ns` or earlier. Returns true if an alarm was
    /// executed.
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

    /// Executes all alarms up to `now_ns`, and sets the model's time to `now_ns`. Returns the
    /// model's time. A `now_ns` before the model's time changes nothing.
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

/// Interface of each controller model, apart from its registers. As a [`Device`] the model works in
/// parallel to the CPU.
#[allow(private_bounds, reason = "sealed")]
pub trait Controller: Core + Device {
    /// Returns the time in ns at which the interrupt line last rose; `None` if it never did.
    fn irq_rose_ns(&self) -> Option<u64> {
        self.slot().line.rose_ns
    }

    /// Inserts a card into the slot.
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

    /// Removes the card from the slot and returns it; `None` if the slot is empty.
    fn remove(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let now_ns = self.reach(now_ns);
        let card = self.take_card(now_ns);
        self.look(now_ns);
        card
    }

    /// Switches the card's power on (`on`) or off, independently of the controller. The controller
    /// does not report the change.
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

    /// Returns the card in the slot; `None` if the slot is empty, or if
    /// [`set_supply`](Self::set_supply) keeps the card's power off.
    fn card_mut(&mut self) -> Option<&mut (dyn Card + 'static)> {
        self.slot_mut().card.as_deref_mut()
    }

    /// Sets the faults of the controller and its bus. The card has its own handle for faults, in
    /// most cases with the same plan.
    fn set_faults(&mut self, faults: Faults) {
        self.slot_mut().faults = faults;
    }

    /// Returns the card that a fault has removed from the slot; `None` if no fault did.
    fn removed(&mut self) -> Option<Box<dyn Card>> {
        self.slot_mut().removed.take()
    }

    /// Returns the state of the bus.
    fn bus(&self) -> &BusState {
        &self.slot().bus
    }

    /// Returns the counters of the bus.
    fn stats(&self) -> &BusStats {
        &self.slot().stats
    }

    /// Resets the counters of the bus and returns their values.
    fn take_stats(&mut self) -> BusStats {
        std::mem::take(&mut self.slot_mut().stats)
    }

    /// Returns the number of mistakes of the driver. Examples are a command during another one,
    /// reserved values, and a clock change while the card gets the clock.
    fn protocol_violations(&self) -> u64 {
        self.slot().violations
    }

    /// Sets a callback that gets every event on the bus from now on; `None` removes it.
    fn set_log(&mut self, log: Option<Log>) {
        self.slot_mut().log = log;
    }
}

impl<T: Core> Controller for T {}

//! An SD host controller by register, versions 3.00 to 4.20 of the standard (SDHC).
//!
//! [`Sdhci`] is passive: it is told the time with every call, and [`Sdhci::next_event_ns`] says when
//! something will happen by itself. Its parts: `registers.rs` (reads, writes and their side effects),
//! `command.rs` (the CMD line, automatic commands), `data.rs` (a transfer from command to end, busy, tuning),
//! `blocks.rs` (its blocks), `dma.rs` (SDMA, ADMA2), `pio.rs` (the buffer port), `config.rs` (what a
//! particular controller can do and how long it takes), `mistakes.rs` (what it does wrong), `profile.rs` (known
//! ones), `hurt.rs` (what strikes it by a
//! plan of faults, and what remains of that).
//!
//! Where the standard leaves something open the model takes the strict side, so that a driver that relies on
//! luck fails here:
//! - After a response timeout Command Inhibit (CMD) stays set until a reset of the CMD circuit; after any
//!   error of a command that uses the DAT lines, or of its data, Command Inhibit (DAT) stays until a reset of
//!   the DAT circuit, and no more data move.
//! - With a damaged response (CRC, end bit, index) Command Complete is set together with the error.
//! - The lengths of an ADMA2 table must add up to exactly the blocks, and the table must have an end [SDHC
//!   2.2.28].
//! - A command written while inhibited, in reset, or into an unfinished command is dropped and counted
//!   ([`Sdhci::protocol_violations`]).
//! - UHS modes need 1.8 V signalling; a block of a length that the card does not send is a CRC error.
//! - A write to a busy card waits for DAT0 before its first block; a read does not wait.

mod bits;
mod blocks;
mod command;
mod config;
mod data;
mod dma;
mod hurt;
mod mistakes;
mod pio;
mod profile;
mod registers;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use config::{Busy, SdhciConfig};
pub use mistakes::Mistakes;
pub use profile::{PROFILES, Profile};

use crate::alarms::{Alarms, NEVER};
use crate::card::{BusState, Card};
use crate::faults::{Faults, Point, Strike};
use crate::memory::DeviceMemory;
pub use crate::port::PortCounters;
use crate::probe::{Probe, Signal};
use crate::wire::Beat;
use bits::{int, reset};
use registers::Registers;

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<Sdhci>;

impl crate::port::RegisterFile for Sdhci {
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        Sdhci::read(self, offset, size, now_ns)
    }

    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        Sdhci::write(self, offset, size, value, now_ns);
    }
}

/// Things that happen by themselves, in the order in which simultaneous ones happen.
#[derive(Clone, Copy)]
enum Timer {
    Command,
    Data,
    DataTimeout,
    Reset,
    ClockStable,
    Signal18,
    CardDetect,
    Card,
    /// Status bits that come late.
    Status,
    /// The interrupt line rises late.
    Line,
}

const TIMERS: [Timer; 10] = [
    Timer::Command,
    Timer::Data,
    Timer::DataTimeout,
    Timer::Reset,
    Timer::ClockStable,
    Timer::Signal18,
    Timer::CardDetect,
    Timer::Card,
    Timer::Status,
    Timer::Line,
];

type Log = Box<dyn FnMut(BusEvent)>;

/// The controller, its slot and the bus.
pub struct Sdhci {
    config: SdhciConfig,
    memory: Box<dyn DeviceMemory>,
    card: Option<Box<dyn Card>>,
    /// What is due to happen, by [`Timer`].
    timers: Alarms<{ TIMERS.len() }>,
    now: u64,
    /// What the card was told last; its time never goes back.
    card_now: u64,
    /// DAT0 is low until then.
    card_busy_until: u64,
    regs: Registers,
    bus: BusState,
    cmd: command::CmdLine,
    dat: data::DatLines,
    dma: dma::Dma,
    pio: pio::Buffer,
    card_interrupt: bool,
    /// A card with functions is, or was, in the slot.
    functions: bool,
    /// DAT1 as the card last held it low outside of data.
    card_line: bool,
    irq: bool,
    irq_lost: bool,
    irq_rose_ns: Option<u64>,
    faults: Faults,
    hurt: hurt::Hurt,
    violations: u64,
    first_violation: Option<(u64, &'static str)>,
    stats: BusStats,
    log: Option<Log>,
    probe: Option<Probe>,
}

impl Sdhci {
    /// A controller after power-on reset, at time 0.
    pub fn new(
        config: SdhciConfig,
        memory: impl DeviceMemory + 'static,
        card: Option<Box<dyn Card>>,
    ) -> Self {
        let inserted = card.is_some() || config.fixed;
        let functions = card.as_ref().is_some_and(|card| card.has_functions());
        Sdhci {
            config,
            memory: Box::new(memory),
            card,
            timers: Alarms::NONE,
            now: 0,
            card_now: 0,
            card_busy_until: 0,
            regs: Registers { inserted, detect_stable: true, ..Registers::default() },
            bus: BusState { width: 1, ..BusState::default() },
            cmd: command::CmdLine::default(),
            dat: data::DatLines::default(),
            dma: dma::Dma::default(),
            pio: pio::Buffer::default(),
            card_interrupt: false,
            functions,
            card_line: false,
            irq: false,
            irq_lost: false,
            irq_rose_ns: None,
            faults: Faults::none(),
            hurt: hurt::Hurt::default(),
            violations: 0,
            first_violation: None,
            stats: BusStats::default(),
            log: None,
            probe: None,
        }
    }

    /// The level of the interrupt line.
    pub fn irq(&self) -> bool {
        self.irq && !self.hurt.gone
    }

    /// When the interrupt line last rose.
    pub fn irq_rose_ns(&self) -> Option<u64> {
        self.irq_rose_ns
    }

    /// When something will happen by itself, if nothing is done before.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.timers.next().map(|(_, at)| at)
    }

    /// Lets everything happen up to and including `until_ns`, in order; stops early at the moment the
    /// interrupt line rises. Returns how far it came. A time in the past changes nothing.
    pub fn advance(&mut self, until_ns: u64) -> u64 {
        let mut before = self.irq;
        while self.fire(until_ns) {
            if self.irq && !before {
                return self.now;
            }
            before = self.irq;
        }
        self.now = self.now.max(until_ns);
        until_ns
    }

    /// Lets everything happen up to `now_ns`, and takes that as the time; whatever the caller says, time does
    /// not go back.
    fn reach(&mut self, now_ns: u64) -> u64 {
        while self.fire(now_ns) {}
        self.now = self.now.max(now_ns);
        self.now
    }

    /// The next event, if it is due by `until_ns`.
    fn fire(&mut self, until_ns: u64) -> bool {
        if self.hurt.gone {
            self.timers = Alarms::NONE;
        }
        let Some((timer, at)) = self.timers.next().filter(|&(_, at)| at <= until_ns) else { return false };
        let timer = TIMERS[timer];
        self.stop_timer(timer);
        self.now = self.now.max(at);
        let now = self.now;
        match timer {
            Timer::Command => self.command_event(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Reset => self.reset_done(),
            Timer::ClockStable => self.clock_is_stable(now),
            Timer::Signal18 => self.signal_settled(now),
            Timer::CardDetect => self.card_detected(now),
            Timer::Card => {}
            Timer::Status => self.late_status(now),
            Timer::Line => self.update_irq(now),
        }
        self.look_at_card(now);
        true
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.timers.set(timer as usize, at_ns);
    }

    fn stop_timer(&mut self, timer: Timer) {
        self.timers.set(timer as usize, NEVER);
    }

    /// A card comes into the slot.
    pub fn insert(&mut self, card: Box<dyn Card>, now_ns: u64) {
        let now = self.reach(now_ns);
        self.functions |= card.has_functions();
        self.card = Some(card);
        self.card_busy_until = 0;
        let bus = self.bus;
        self.with_card(now, |card, now| card.bus_changed(&bus, now));
        self.regs.detect_stable = false;
        self.set_timer(Timer::CardDetect, now.saturating_add(self.config.debounce_ns));
        self.look_at_card(now);
    }

    /// The card leaves the slot, and is handed back.
    pub fn remove(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let now = self.reach(now_ns);
        let card = self.take_card(now);
        self.look_at_card(now);
        card
    }

    /// The interrupt that the card itself holds on DAT1, and when it may change; in 4-bit mode data hide it
    /// [SDIO 8.1.2].
    pub(super) fn look_at_card(&mut self, now: u64) {
        if !self.functions {
            return;
        }
        let at = self.card_now.max(now);
        let hidden = self.bus.width != 1 && self.dat.hides_interrupt();
        let (line, next) = match &self.card {
            None => (false, None),
            Some(card) if hidden => (self.card_line, card.next_event_ns(at)),
            Some(card) => (card.interrupt(at), card.next_event_ns(at)),
        };
        self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        if line != self.card_line {
            self.card_line = line;
            self.update_irq(now);
        }
    }

    /// A function on a card that is not modelled asserts, or releases, its interrupt (DAT1).
    pub fn set_card_interrupt(&mut self, level: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.card_interrupt = level;
        self.update_irq(now);
    }

    /// The card in the slot.
    pub fn card_mut(&mut self) -> Option<&mut (dyn Card + 'static)> {
        self.card.as_deref_mut()
    }

    /// What goes wrong with the controller and its bus from now on; a card has faults of its own, mostly the same ones.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The card that a fault took out of the slot, if one did.
    pub fn removed(&mut self) -> Option<Box<dyn Card>> {
        self.hurt.removed.take()
    }

    /// The controller's parameters.
    pub fn config(&self) -> &SdhciConfig {
        &self.config
    }

    /// How the bus is driven now.
    pub fn bus(&self) -> &BusState {
        &self.bus
    }

    /// What went over the bus so far.
    pub fn stats(&self) -> &BusStats {
        &self.stats
    }

    /// Counts from zero again, and returns what there was.
    pub fn take_stats(&mut self) -> BusStats {
        std::mem::take(&mut self.stats)
    }

    /// What the driver did that the standard forbids: commands while inhibited, bad alignment, reserved
    /// values ...
    pub fn protocol_violations(&self) -> u64 {
        self.violations
    }

    /// When the driver did the first of that, in nanoseconds, and what it was.
    pub fn first_violation(&self) -> Option<(u64, &'static str)> {
        self.first_violation
    }

    /// Tells `log` about everything on the bus from now on; `None` for silence.
    pub fn set_log(&mut self, log: Option<Log>) {
        self.log = log;
    }

    /// Shows `probe` every signal at the slot from now on; `None` takes it away.
    pub fn set_probe(&mut self, probe: Option<Probe>) {
        self.probe = probe;
        let at_ns = self.now;
        let (bus, level) = (self.bus, self.irq);
        self.show(|_| Signal::Bus { at_ns, bus, low: false });
        self.show(|_| Signal::Interrupt { at_ns, level });
    }

    /// Shows the probe, if there is one, a signal.
    fn show<'a>(&'a mut self, signal: impl FnOnce(&'a data::DatLines) -> Signal<'a>) {
        if let Some(probe) = &mut self.probe {
            probe(&signal(&self.dat));
        }
    }

    fn note(&mut self, event: BusEvent) {
        if let Some(log) = &mut self.log {
            log(event);
        }
    }

    fn violation(&mut self, what: &'static str) {
        self.violations += 1;
        self.first_violation.get_or_insert((self.now, what));
    }

    /// Calls the card, if there is one; its time never goes back.
    fn with_card<T>(&mut self, now: u64, call: impl FnOnce(&mut dyn Card, u64) -> T) -> Option<T> {
        let card = self.card.as_deref_mut()?;
        self.card_now = self.card_now.max(now);
        Some(call(card, self.card_now))
    }

    /// Sets status bits that are enabled.
    fn raise(&mut self, bits: u32, now: u64) {
        self.regs.status |= bits & self.regs.enable;
        self.irq_lost = false;
        self.update_irq(now);
    }

    /// The interrupt line follows status and signal enables.
    fn update_irq(&mut self, now: u64) {
        // The card interrupt is a level: its status follows the line as long as it is enabled.
        self.regs.status &= !int::CARD;
        if self.card_interrupt || self.card_line {
            self.regs.status |= int::CARD & self.regs.enable;
        }
        let causes = self.regs.status & self.regs.signal != 0;
        let level = causes || self.hurt.spurious > 0 && self.regs.signal != 0;
        if !level {
            self.irq_lost = false;
            self.hurt.held_ns = None;
        }
        let rises = level && !self.irq && !self.irq_lost && self.line_obeys(now);
        if rises {
            self.stats.interrupts += 1;
            self.irq_rose_ns = Some(now);
            self.note(BusEvent::Interrupt { at_ns: now, status: self.regs.status_word() });
        }
        let level = level && (self.irq || rises);
        if std::mem::replace(&mut self.irq, level) != level {
            self.show(|_| Signal::Interrupt { at_ns: now, level });
        }
    }

    /// A software reset begins; it acts at once and its bits stay for a while.
    fn software_reset(&mut self, bits: u8, now: u64) {
        if bits & reset::ALL != 0 {
            self.regs = Registers {
                inserted: self.regs.inserted,
                detect_stable: self.regs.detect_stable,
                ..Registers::default()
            };
            self.stop_timer(Timer::ClockStable);
            self.stop_timer(Timer::Signal18);
            self.hurt.stuck = 0;
        }
        if bits & (reset::ALL | reset::CMD) != 0 {
            self.reset_command();
        }
        if bits & (reset::ALL | reset::DAT) != 0 {
            self.reset_data();
        }
        self.regs.reset |= bits;
        let mut ends_ns = now.saturating_add(self.config.reset_ns);
        self.hurt.resets &= !bits;
        if self.config.mistakes.reset_needs_clock && !self.hurt.clock_written {
            self.hurt.resets |= bits;
        }
        match self.strike(Point::Reset, now) {
            Some(Strike::Never) => self.hurt.resets |= bits,
            Some(Strike::Status(stay)) => self.hurt.resets |= bits & stay as u8,
            Some(Strike::Late(ns)) => ends_ns = ends_ns.saturating_add(ns),
            _ => {}
        }
        self.set_timer(Timer::Reset, ends_ns);
        self.refresh_bus(now);
        self.update_irq(now);
    }

    fn reset_done(&mut self) {
        self.regs.reset &= self.hurt.resets;
    }

    fn card_detected(&mut self, now: u64) {
        let inserted = self.card.is_some() || self.config.fixed;
        self.regs.detect_stable = true;
        if inserted == self.regs.inserted {
            return;
        }
        self.regs.inserted = inserted;
        if !inserted {
            // Without a card the controller takes the power and the clock away [SDHC 2.2.11, 2.2.14]: if something
            // is on the lines still, that is not the driver's doing.
            self.regs.power &= !1;
            self.regs.clock &= !bits::clock::CARD;
            self.drive_bus(now);
        }
        self.raise(if inserted { int::INSERTION } else { int::REMOVAL }, now);
    }

    /// A place on the SD clock at `now`.
    fn beat(&self, now: u64) -> Beat {
        Beat::new(now, self.bus.clock_hz)
    }

    /// Is a card there to talk to?
    fn clocked(&self) -> bool {
        self.bus.powered && self.bus.clock_hz != 0
    }
}

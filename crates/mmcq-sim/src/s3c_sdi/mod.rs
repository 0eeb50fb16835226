//! Samsung's SDI, the SD controller of the S3C2440, by register.
//!
//! A FIFO of 64 bytes, no buffers behind it: while it has no room for what comes in, or nothing to send, the
//! bus clock stops. [`S3cSdi`] is passive: it is told the time with every call, and
//! [`S3cSdi::next_event_ns`] says when something will happen by itself. Its parts: `registers.rs` (reads,
//! writes and their side effects), `command.rs` (the CMD line), `data.rs` (a transfer from DCON to its end),
//! `blocks.rs` (its blocks, word by word), `fifo.rs`, `dma.rs` (the platform's engine), `config.rs`,
//! `hurt.rs` (what strikes it by a plan of faults).
//!
//! The board adds two windows: DAT1 as a GPIO (100h), and the DMA engine (110h to 118h; bit 31 of the length
//! is set for the way from memory to the card).
//!
//! Where nothing is written down the model takes the strict side:
//! - Command sent is latched after every token, response end and response CRC (R3 and R4 have none that is
//!   right) together.
//! - A command written while another is under way is dropped and counted ([`S3cSdi::protocol_violations`]);
//!   so is a start of data without the bits that say when they begin, and a FIFO access without room or data.
//! - Without a clock a command stays on the line and nothing counts its time.
//! - After an error of data the transfer is over; the FIFO keeps what it has until it is reset.
//! - A falling edge of DAT1 is latched only while SDIO interrupts are enabled and neither command nor data
//!   are under way. The level is to be read from the GPIO.

mod bits;
mod blocks;
mod command;
mod config;
mod data;
mod dma;
mod fifo;
mod hurt;
mod registers;
#[cfg(test)]
mod tests;

pub use crate::stats::{BusEvent, BusStats};
pub use config::S3cSdiConfig;

use crate::alarms::{Alarms, NEVER};
use crate::card::{BusState, Card};
use crate::faults::{Faults, Point, Strike};
use crate::memory::ShadowMemory;
pub use crate::port::PortCounters;
use crate::probe::{Probe, Signal};
use crate::wire::Beat;
use bits::{con, dsta};

/// The registers as a driver reaches them.
pub type Port = crate::port::Port<S3cSdi>;

impl crate::port::RegisterFile for S3cSdi {
    fn read(&mut self, offset: u16, size: u8, now_ns: u64) -> u32 {
        S3cSdi::read(self, offset, size, now_ns)
    }

    fn write(&mut self, offset: u16, size: u8, value: u32, now_ns: u64) {
        S3cSdi::write(self, offset, size, value, now_ns);
    }
}

/// Things that happen by themselves, in the order in which simultaneous ones happen.
#[derive(Clone, Copy)]
enum Timer {
    Command,
    Data,
    DataTimeout,
    Dma,
    Card,
}

const TIMERS: [Timer; 5] = [Timer::Command, Timer::Data, Timer::DataTimeout, Timer::Dma, Timer::Card];

type Log = Box<dyn FnMut(BusEvent)>;
type HoldLog = Box<dyn FnMut(u64, u64)>;
type Dat1Log = Box<dyn FnMut(u64, bool)>;

/// The controller, its slot and the bus.
pub struct S3cSdi {
    config: S3cSdiConfig,
    memory: ShadowMemory,
    card: Option<Box<dyn Card>>,
    /// What is due to happen, by [`Timer`].
    timers: Alarms<{ TIMERS.len() }>,
    now: u64,
    /// What the card was told last; its time never goes back.
    card_now: u64,
    /// DAT0 is low until then.
    card_busy_until: u64,
    /// The board's supply of the card.
    supply: bool,
    regs: registers::Registers,
    bus: BusState,
    cmd: command::CmdLine,
    dat: data::DatLines,
    fifo: fifo::Fifo,
    dma: dma::Dma,
    /// DAT1 as the edge detector saw it last.
    was_low: bool,
    lost_edges: u64,
    /// Enabled events at the last look.
    pending: u32,
    irq: bool,
    irq_lost: bool,
    irq_rose_ns: Option<u64>,
    faults: Faults,
    hurt: hurt::Hurt,
    violations: u64,
    stats: BusStats,
    log: Option<Log>,
    hold_log: Option<HoldLog>,
    dat1_log: Option<Dat1Log>,
    probe: Option<Probe>,
}

impl S3cSdi {
    /// A controller after power-on reset, at time 0, with the card's supply on.
    pub fn new(config: S3cSdiConfig, memory: ShadowMemory, card: Option<Box<dyn Card>>) -> Self {
        let mut model = S3cSdi {
            config,
            memory,
            card,
            timers: Alarms::NONE,
            now: 0,
            card_now: 0,
            card_busy_until: 0,
            supply: true,
            regs: registers::Registers::default(),
            bus: BusState { width: 1, ..BusState::default() },
            cmd: command::CmdLine::default(),
            dat: data::DatLines::default(),
            fifo: fifo::Fifo::default(),
            dma: dma::Dma::default(),
            was_low: false,
            lost_edges: 0,
            pending: 0,
            irq: false,
            irq_lost: false,
            irq_rose_ns: None,
            faults: Faults::none(),
            hurt: hurt::Hurt::default(),
            violations: 0,
            stats: BusStats::default(),
            log: None,
            hold_log: None,
            dat1_log: None,
            probe: None,
        };
        model.refresh_bus(0);
        model
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
        let Some((timer, at)) = self.timers.next().filter(|&(_, at)| at <= until_ns) else { return false };
        let timer = TIMERS[timer];
        self.set_timer(timer, NEVER);
        self.now = self.now.max(at);
        let now = self.now;
        match timer {
            Timer::Command => self.command_event(now),
            Timer::Data => self.data_event(now),
            Timer::DataTimeout => self.data_timeout(now),
            Timer::Dma => self.dma_event(now),
            Timer::Card => {}
        }
        self.look(now);
        true
    }

    fn set_timer(&mut self, timer: Timer, at_ns: u64) {
        self.timers.set(timer as usize, at_ns);
    }

    /// A card comes into the slot. How the board detects that is its own matter.
    pub fn insert(&mut self, card: Box<dyn Card>, now_ns: u64) {
        let now = self.reach(now_ns);
        self.card = Some(card);
        self.card_busy_until = 0;
        let bus = self.bus;
        self.with_card(now, |card, now| card.bus_changed(&bus, now));
        self.look(now);
    }

    /// The card leaves the slot, and is handed back.
    pub fn remove(&mut self, now_ns: u64) -> Option<Box<dyn Card>> {
        let now = self.reach(now_ns);
        let card = self.take_card(now);
        self.look(now);
        card
    }

    fn take_card(&mut self, _now: u64) -> Option<Box<dyn Card>> {
        self.card_busy_until = 0;
        self.card.take()
    }

    /// The board switches the card's supply.
    pub fn set_supply(&mut self, on: bool, now_ns: u64) {
        let now = self.reach(now_ns);
        self.supply = on;
        self.card_busy_until = 0;
        self.refresh_bus(now);
        self.look(now);
    }

    /// The card in the slot.
    pub fn card_mut(&mut self) -> Option<&mut (dyn Card + 'static)> {
        self.card.as_deref_mut()
    }

    /// What goes wrong with the controller and its bus from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// The card that a fault took out of the slot, if one did.
    pub fn removed(&mut self) -> Option<Box<dyn Card>> {
        self.hurt.removed.take()
    }

    /// The controller's parameters.
    pub fn config(&self) -> &S3cSdiConfig {
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

    /// What the driver did that the controller does not bear: a command into a command, a FIFO access
    /// without room or data, a clock changed under bits on the lines ...
    pub fn protocol_violations(&self) -> u64 {
        self.violations
    }

    /// Falling edges of DAT1 that were not latched: the controller was busy, or SDIO interrupts were not
    /// enabled.
    pub fn lost_edges(&self) -> u64 {
        self.lost_edges
    }

    /// Tells `log` about everything on the bus from now on; `None` for silence.
    pub fn set_log(&mut self, log: Option<Log>) {
        self.log = log;
    }

    /// Tells `log` from when to when the bus clock stood, because the FIFO had no room or no data.
    pub fn set_hold_log(&mut self, log: Option<HoldLog>) {
        self.hold_log = log;
    }

    /// Tells `log` when the card pulls DAT1 low to ask for attention (true), and when it lets go.
    pub fn set_dat1_log(&mut self, log: Option<Dat1Log>) {
        self.dat1_log = log;
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

    fn violation(&mut self) {
        self.violations += 1;
    }

    /// Calls the card, if there is one; its time never goes back.
    fn with_card<T>(&mut self, now: u64, call: impl FnOnce(&mut dyn Card, u64) -> T) -> Option<T> {
        let card = self.card.as_deref_mut()?;
        self.card_now = self.card_now.max(now);
        Some(call(card, self.card_now))
    }

    /// The card pulls DAT1 low, and no data are in its way.
    fn dat1_low(&self, now: u64) -> bool {
        let free = self.bus.width == 1 || !self.dat.moving();
        self.config.dat1_gpio && free && self.card_low(now)
    }

    fn card_low(&self, now: u64) -> bool {
        self.card.as_ref().is_some_and(|card| card.interrupt(self.card_now.max(now)))
    }

    /// Looks at DAT1 and at the events, after anything that may have changed them.
    fn look(&mut self, now: u64) {
        let at = self.card_now.max(now);
        let low = self.card_low(now);
        if low && !self.was_low {
            let busy = self.config.loses_edges && (self.cmd.active() || self.dat.busy());
            if busy || self.regs.con & con::SDIO_IRQ == 0 {
                self.lost_edges += 1;
            } else {
                self.regs.data_status |= dsta::SDIO_IRQ;
            }
        }
        if std::mem::replace(&mut self.was_low, low) != low
            && let Some(log) = &mut self.dat1_log
        {
            log(now, low);
        }
        let next = self.card.as_ref().and_then(|card| card.next_event_ns(at));
        self.set_timer(Timer::Card, next.unwrap_or(NEVER));
        self.update_irq(now);
    }

    /// The interrupt line follows the enabled events.
    fn update_irq(&mut self, now: u64) {
        let pending = self.events() & self.regs.mask;
        if pending == 0 || pending & !self.pending != 0 {
            self.irq_lost = false;
        }
        self.pending = pending;
        if pending != 0 && !self.irq && !self.irq_lost {
            if self.strike(Point::Interrupt, now) == Some(Strike::Lost) {
                self.irq_lost = true;
            } else {
                self.stats.interrupts += 1;
                self.irq_rose_ns = Some(now);
                self.note(BusEvent::Interrupt { at_ns: now, status: pending });
            }
        }
        let level = pending != 0 && !self.irq_lost;
        if std::mem::replace(&mut self.irq, level) != level {
            self.show(|_| Signal::Interrupt { at_ns: now, level });
        }
    }

    /// A place on the bus clock at `now`.
    fn beat(&self, now: u64) -> Beat {
        Beat::new(now, self.bus.clock_hz)
    }

    /// Is there a clock that carries bits?
    fn clocked(&self) -> bool {
        self.bus.clock_hz != 0
    }
}
